"""The driver: runs algorithms, each for one question, and answers what they ask together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from graph_retrievers.search.requests import Request

__all__ = ["Asked", "Search", "Together", "run"]

T = TypeVar("T")

Search = Generator[Any, Any, T]
"""An algorithm for one question, which returns T.

It yields a :class:`~graph_retrievers.search.requests.Request` and is sent the answer, a tuple of requests and is sent a tuple of
answers, or :class:`Together` and is sent a list.
"""


class Together:
    """Algorithms that go on side by side, for one question: the answer is a list of what they return.

    Parameters
    ----------
    algorithms : sequence of generators
        At least one.
    """

    def __init__(self, algorithms: Sequence[Search[Any]]) -> None:
        self.algorithms = algorithms


class _Task(NamedTuple):
    place: int
    algorithm: Search[Any]
    finish: Callable[[Any], None]


class Asked(NamedTuple):
    """One call of a backend: the step, from 1, the kind of its requests, how many there were, and how long it took."""

    step: int
    kind: type[Request]
    requests: int
    seconds: float


def run(backend: Any, algorithms: Sequence[Search[T]], trace: list[Asked] | None = None) -> list[T]:
    """Return what algorithms return, each for the question at its place.

    In each step, every algorithm that is not done asks once. Requests of one key are one call of the backend, so a batch takes
    as many calls as its slowest question. An algorithm sees only its own answers: a batch gives what its questions give alone.

    Parameters
    ----------
    backend : object
        Answers requests, such as :class:`~graph_retrievers.search.memory.Memory`.
    algorithms : sequence of generators, length B
    trace : list, optional
        Each call is added to it.

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
    waiting: list[tuple[_Task, tuple[Request, ...], bool]] = []

    def go_on(task: _Task, answer: Any) -> None:
        try:
            asked = task.algorithm.send(answer)
        except StopIteration as stop:
            task.finish(stop.value)
            return
        if isinstance(asked, Together):
            side_by_side(task, asked.algorithms)
        else:
            alone = isinstance(asked, Request)
            waiting.append((task, (asked,) if alone else asked, alone))

    def side_by_side(task: _Task, algorithms: Sequence[Search[Any]]) -> None:
        values, left = [None] * len(algorithms), set(range(len(algorithms)))

        def finished(number: int, value: Any) -> None:
            values[number] = value
            left.discard(number)
            if not left:
                go_on(task, values)

        for number, algorithm in enumerate(algorithms):
            go_on(_Task(task.place, algorithm, partial(finished, number)), None)

    for place, algorithm in enumerate(algorithms):
        go_on(_Task(place, algorithm, partial(results.__setitem__, place)), None)
    step = 0
    while waiting:
        step += 1
        now, waiting = waiting, []
        answers: list[list[Any]] = [[None] * len(asked) for _, asked, _ in now]
        calls: dict[Any, list[tuple[int, int]]] = {}
        for number, (_, asked, _) in enumerate(now):
            for slot, request in enumerate(asked):
                calls.setdefault(request.key(), []).append((number, slot))
        for group in calls.values():
            requests = [(now[number][0].place, now[number][1][slot]) for number, slot in group]
            start = perf_counter()
            found = type(requests[0][1]).together(backend, requests)
            if trace is not None:
                trace.append(Asked(step, type(requests[0][1]), len(requests), perf_counter() - start))
            for (number, slot), answer in zip(group, found, strict=True):
                answers[number][slot] = answer
        for number, (task, _, alone) in enumerate(now):
            go_on(task, answers[number][0] if alone else tuple(answers[number]))
    return results
