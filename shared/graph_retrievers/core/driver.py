"""The driver: run algorithms, each for one question, and answer their requests together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from graph_retrievers.core.candidates import MisfitError
from graph_retrievers.core.checks import check_answers, check_requests
from graph_retrievers.core.limits import limit_over
from graph_retrievers.core.recording import record
from graph_retrievers.core.requests import Request
from graph_retrievers.core.trace import Asked, Trace, asking
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["Named", "Search", "Together", "changed", "run"]

T = TypeVar("T")

Search = Generator[Any, Any, T]
"""An algorithm for one question, which returns T. It yields a :class:`~graph_retrievers.core.requests.Request` and receives the
answer, a tuple of requests and receives a tuple of answers, :class:`Together` and receives a list, or :class:`Named` and receives
the result of that algorithm.
"""


class Together:
    """Algorithms that run side by side, for one question: the answer is a list of their results.

    Parameters
    ----------
    algorithms : sequence of generators
    """

    def __init__(self, algorithms: Sequence[Search[Any]]) -> None:
        self.algorithms = algorithms


class Named(NamedTuple):
    """An algorithm with a name for its requests in a trace, such as that of its operator."""

    name: str
    algorithm: Search[Any]


class _Task(NamedTuple):
    place: int
    algorithm: Search[Any]
    # Takes the result of the algorithm, and returns what continues then.
    finish: Callable[[Any], _Ready]
    name: str


_Ready = list[tuple[_Task, Any]]
"""Algorithms that can continue, the next one last, each with the answer for which it waits."""

_Waiting = tuple[_Task, Sequence[Request], bool]
"""An algorithm, its requests, and whether that is only one request."""


def run(backend: Any, algorithms: Sequence[Search[T]], trace: list[Asked] | None = None, name: str = "") -> list[T]:
    """Return the results of algorithms, each for the question at its place.

    In each step, the waiting algorithms are answered; requests with the same key are one call of the backend. Costly requests are
    answered when all other algorithms also wait for one or are done, so that a model reads many texts at once. An algorithm sees
    only its own answers: a batch returns what its questions return one by one. Before each step, the run ends if a time limit is
    over or the caller has gone (:mod:`graph_retrievers.core.limits`).

    Parameters
    ----------
    backend : object
        Answers requests, such as :class:`~graph_retrievers.search.memory.Memory`. If it has a method `prepare`, it is called at
        the beginning of each step with all requests of the step, each with the place of its question. If it has a `size`, rows
        must be below it.
    algorithms : sequence of generators, length B
    trace : list of Asked, optional
        Each call is appended to it, in a step after the existing ones. A request that is answered by a separate search is not
        added, but the calls of that search are.
    name : str, default ""
        Name of requests in the trace that are not :class:`Named`.

    Examples
    --------
    >>> class Double(Request):
    ...     def __init__(self, number):
    ...         self.number = number
    ...
    ...     @classmethod
    ...     def together(cls, backend, asked):
    ...         print("a call for", len(asked))
    ...         return [2 * request.number for _, request in asked]
    >>> def fourfold(number):
    ...     double = yield Double(number)
    ...     return (yield Double(double))
    >>> run(None, [fourfold(1), fourfold(5)])
    a call for 2
    a call for 2
    [4, 20]
    """
    results: list[Any] = [None] * len(algorithms)
    waiting: list[_Waiting] = []
    size = getattr(backend, "size", None)

    def done(place: int, value: Any) -> _Ready:
        results[place] = value
        return []

    def go_on(ready: _Ready) -> None:
        # A loop, as an algorithm may run any number of others that ask for nothing.
        while ready:
            task, answer = ready.pop()
            try:
                asked = task.algorithm.send(answer)
            except StopIteration as stop:
                ready += task.finish(stop.value)
                continue
            except MisfitError as error:
                raise InvalidArgumentError(f"{task.name or 'A search'}: {error}") from error
            if isinstance(asked, Together):
                _check_algorithms(asked.algorithms, "side by side", task.name)
                ready += reversed(_side_by_side(task, asked.algorithms))
            elif isinstance(asked, Named):
                _check_algorithms([asked.algorithm], f"by the name {asked.name!r}", task.name)
                ready.append((_Task(task.place, asked.algorithm, partial(_resumed, task), asked.name), None))
            else:
                alone = isinstance(asked, Request)
                waiting.append((task, check_requests((asked,) if alone else asked, size, task.name), alone))

    for place, algorithm in enumerate(algorithms):
        go_on([(_Task(place, algorithm, partial(done, place), name), None)])
    prepare = getattr(backend, "prepare", None)
    while waiting:
        if (limit := limit_over()) is not None:
            raise limit.error(Trace(trace or ()))
        step = trace[-1].step + 1 if trace else 1
        now, waiting = _next(waiting)
        start = perf_counter()
        if prepare is not None:
            prepare([(task.place, request) for task, asked, _ in now for request in asked])
        answers: list[list[Any]] = [[None] * len(asked) for _, asked, _ in now]
        calls: dict[Any, list[tuple[int, int]]] = {}
        for number, (task, asked, _) in enumerate(now):
            for slot, request in enumerate(asked):
                try:
                    calls.setdefault(request.key(), []).append((number, slot))
                except TypeError as error:
                    raise _unhashable(request, task.name, error) from error
        for group in calls.values():
            requests, told = [(now[number][0].place, now[number][1][slot]) for number, slot in group], len(trace or ())
            with asking(requests[0][1].asked.__name__) as tell:
                found = type(requests[0][1]).together(backend, requests)
                check_answers(found, requests)
                if trace is not None:
                    if len(trace) > told:
                        # A separate search has recorded its requests; the calls after it are a later step.
                        step = trace[-1].step + 1
                    else:
                        seconds, names = perf_counter() - start, tuple(dict.fromkeys(now[number][0].name for number, _ in group))
                        nodes, questions = sum(request.size for _, request in requests), len({place for place, _ in requests})
                        trace.append(Asked(step, requests[0][1].asked, names, questions, nodes, seconds))
                        if tell is not None:
                            tell(trace[-1])
                        record(trace[-1], [request for _, request in requests], found, size)
                    start = perf_counter()
            for (number, slot), answer in zip(group, found, strict=True):
                answers[number][slot] = answer
        for number, (task, _, alone) in enumerate(now):
            go_on([(task, answers[number][0] if alone else tuple(answers[number]))])
    return results


def _next(waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """Return the algorithms that are answered in this step, and those that wait on."""
    others, costly = list[_Waiting](), list[_Waiting]()
    for one in waiting:
        (costly if any(request.costly for request in one[1]) else others).append(one)
    return (others, costly) if others else (sorted(costly, key=lambda one: one[0].place), [])


def _resumed(task: _Task, value: Any) -> _Ready:
    return [(task, value)]


def _check_algorithms(algorithms: Any, how: str, owner: str) -> None:
    """Raise InvalidArgumentError unless all that an algorithm runs are algorithms, too."""
    each = algorithms if isinstance(algorithms, list | tuple) else [algorithms]
    wrong = [algorithm for algorithm in each if not isinstance(algorithm, Generator)]
    if wrong or each is not algorithms:
        told = f"{owner or 'A search'} runs {shown(wrong[0] if each is algorithms else algorithms)} {how}"
        expected = "expected a generator" if how.startswith("by") else "expected a list of generators"
        raise InvalidArgumentError(f"{told}; {expected}, such as `operator.stepped(question, found)` gives.")


def _unhashable(request: Request, owner: str, error: TypeError) -> InvalidArgumentError:
    """Return why requests cannot be distinguished from those with other keys."""
    held = ", ".join(f"{name} {shown(getattr(request, name))}" for name in request.shared) or f"the key {shown(request.key())}"
    told = f"{owner or 'A search'} asked for {type(request).__name__} with {held}"
    why = f"requests that agree in them are answered together ({error})"
    return InvalidArgumentError(f"{told}; expected hashable values, such as strings and tuples, as {why}.")


def _side_by_side(task: _Task, algorithms: Sequence[Search[Any]]) -> _Ready:
    """Return what continues after a task that runs some algorithms: the task itself when all of them are done."""
    if not algorithms:
        return [(task, [])]
    values, left = [None] * len(algorithms), set(range(len(algorithms)))

    def finished(number: int, value: Any) -> _Ready:
        values[number] = value
        left.discard(number)
        return [] if left else [(task, values)]

    return [
        (_Task(task.place, algorithm, partial(finished, number), task.name), None) for number, algorithm in enumerate(algorithms)
    ]


def changed(algorithm: Search[T], change: Callable[[Request], Request]) -> Search[T]:
    """Return the result of an algorithm, with its requests replaced by others.

    >>> def twice(number):
    ...     return 2 * (yield number)
    >>> from graph_retrievers.core.requests import Nearest
    >>> next(changed(twice(Nearest(1)), lambda request: Nearest(request.k + 1))).k
    2
    """
    answer = None
    while True:
        try:
            asked = algorithm.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        if isinstance(asked, Together):
            answer = yield Together([changed(each, change) for each in asked.algorithms])
        elif isinstance(asked, Named):
            answer = yield Named(asked.name, changed(asked.algorithm, change))
        else:
            answer = yield change(asked) if isinstance(asked, Request) else tuple(map(change, asked))
