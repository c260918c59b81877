"""The driver: run algorithms, each for one question, and answer their requests together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from graph_retrievers.core import trace as traces
from graph_retrievers.core.candidates import MisfitError
from graph_retrievers.core.checks import check_requests
from graph_retrievers.core.limits import LIMITS, limit_over
from graph_retrievers.core.requests import Request, inner_request
from graph_retrievers.core.trace import Asked, Trace
from graph_retrievers.errors import DatabaseUnreachableError, InvalidArgumentError, shown

__all__ = ["run"]

T = TypeVar("T")
_COSTLY = attrgetter("costly")

Algorithm = Generator[Any, Any, T]
"""An algorithm for one question, which returns T. It yields a :class:`~graph_retrievers.core.requests.Request` and receives the
answer, a tuple of requests and receives a tuple of answers, :class:`Parallel` and receives a list, or :class:`Named` and receives
the result of that algorithm.
"""


class Parallel:
    """Algorithms that run side by side, for one question: the answer is a list of their results.

    Parameters
    ----------
    algorithms : sequence of generators
    places : sequence of int, length n, optional
        The question of each; by default that of the algorithm that runs them.
    """

    def __init__(self, algorithms: Sequence[Algorithm[Any]], places: Sequence[int] | None = None) -> None:
        self.algorithms, self.places = algorithms, places


class Named(NamedTuple):
    """An algorithm with a name for its requests in a trace, such as that of its operator."""

    name: str
    algorithm: Algorithm[Any]


class _Task:
    """An algorithm that runs for the question at a place; its requests have a name in the trace.

    An `owner` waits for its result: for that alone, or for those of all that it runs side by side, of which this has a number.
    """

    def __init__(self, algorithm: Algorithm[Any], place: Any, name: str, owner: _Task | None = None, number: int = 0) -> None:
        self.algorithm, self.place, self.name, self.owner, self.number = algorithm, place, name, owner, number
        # Results of what it runs side by side, and how many of them are missing.
        self.results: list[Any] | None = None
        self.pending = 0


_WaitingTask = tuple[_Task, Sequence[Request], bool]
"""An algorithm, its requests, and whether that is only one request."""


def run(
    backend: Any,
    algorithms: Sequence[Algorithm[T]],
    trace: list[Asked] | None = None,
    name: str = "",
    places: Sequence[Any] | None = None,
) -> list[T]:
    """Return the results of algorithms, each for the question at its place.

    In each step, the waiting algorithms are answered; requests with the same key are one call of the backend. Costly requests are
    answered when all other algorithms also wait for one or are done, so that a model reads many texts at once. An algorithm sees
    only its own answers: a batch returns what its questions return one by one. Before each step, the run ends if a time limit is
    over or the caller has gone (:mod:`graph_retrievers.core.limits`).

    Parameters
    ----------
    backend : object
        Answers requests, such as :class:`~graph_retrievers.search.memory.MemoryBackend`. If it has a method `prepare`, it is called
        at the beginning of each step with all requests of the step, each with the place of its question. If it has a `size`, rows
        must be below it.
    algorithms : sequence of generators, length B
    trace : list of Asked, optional
        Each call is appended to it, in a step after the existing ones. A request that is answered by a separate search is not
        added, but the calls of that search are.
    name : str, default ""
        Name of requests in the trace that are not :class:`Named`.
    places : sequence of int or of ndarray, length B, optional
        The question that each algorithm is for, or the questions (:class:`~graph_retrievers.core.question.Questions`).

    Examples
    --------
    >>> class Double(Request):
    ...     def __init__(self, number):
    ...         self.number = number
    ...
    ...     @classmethod
    ...     def together(cls, backend, requests):
    ...         print("a call for", len(requests))
    ...         return [2 * request.number for _, request in requests]
    >>> def fourfold(number):
    ...     double = yield Double(number)
    ...     return (yield Double(double))
    >>> run(None, [fourfold(1), fourfold(5)])
    a call for 2
    a call for 2
    [4, 20]
    """
    results: list[Any] = [None] * len(algorithms)
    size = getattr(backend, "size", None)
    # What can continue, the next one last, each with the answer for which it waits.
    pairs = zip(algorithms, range(len(algorithms)) if places is None else places, strict=True)
    ready: list[tuple[_Task, Any]] = [(_Task(each, place, name, None, n), None) for n, (each, place) in enumerate(pairs)][::-1]
    waiting, costly = list[_WaitingTask](), list[_WaitingTask]()
    # A loop, as an algorithm may run any number of others that ask for nothing.
    while ready or waiting or costly:
        if not ready:
            if LIMITS.get() and (limit := limit_over()) is not None:
                raise limit.error(Trace(trace or ()))
            now, waiting = waiting, []
            if not now:
                now, costly = sorted(costly, key=lambda one: np.min(one[0].place)) if len(costly) > 1 else costly, []
            try:
                ready = _answers(backend, now, trace, size)
            except DatabaseUnreachableError as error:
                # A database ends what it does when the limit is over.
                if LIMITS.get() and (limit := limit_over()) is not None:
                    raise limit.error(Trace(trace or ())) from error
                raise
        task, answer = ready.pop()
        try:
            request = task.algorithm.send(answer)
        except StopIteration as stop:
            owner = task.owner
            if owner is None:
                results[task.number] = stop.value
            elif owner.results is None:
                ready.append((owner, stop.value))
            else:
                owner.results[task.number] = stop.value
                owner.pending -= 1
                if not owner.pending:
                    ready.append((owner, owner.results))
        except MisfitError as error:
            raise InvalidArgumentError(f"{task.name or 'A search'}: {error}") from error
        else:
            if isinstance(request, Named):
                if not isinstance(request.algorithm, Generator):
                    raise _no_algorithm(request.algorithm, f"by the name {request.name!r}", "a generator", task.name)
                task.results = None
                ready.append((_Task(request.algorithm, task.place, request.name, task), None))
            elif isinstance(request, Parallel):
                _check_algorithms(request.algorithms, task.name)
                task.pending = len(request.algorithms)
                task.results = [None] * task.pending
                task_places = [task.place] * task.pending if request.places is None else request.places
                entries = enumerate(zip(request.algorithms, task_places, strict=True))
                beside = [(_Task(each, place, task.name, task, n), None) for n, (each, place) in entries]
                ready += reversed(beside) if beside else [(task, [])]
            else:
                alone = isinstance(request, Request)
                rows = size if size is None or type(task.place) is int else size * len(task.place)
                requests = check_requests((request,) if alone else request, rows, task.name)
                (costly if any(map(_COSTLY, requests)) else waiting).append((task, requests, alone))
    return results


def _answers(backend: Any, waiting: Sequence[_WaitingTask], trace: list[Asked] | None, size: int | None) -> list[tuple[_Task, Any]]:
    """Return the algorithms of a step with the answers to their requests, the first one last; calls are added to the trace."""
    start, step = perf_counter(), trace[-1].step + 1 if trace else 1
    if (prepare := getattr(backend, "prepare", None)) is not None:
        prepare([(task.place, request) for task, group, _ in waiting for request in group])
    answers: list[list[Any]] = []
    # For each request of a call: who asks, and where the answer belongs.
    calls: dict[Any, list[tuple[_Task, Request, list[Any], int]]] = {}
    for task, group, _ in waiting:
        answers.append([None] * len(group))
        for slot, request in enumerate(group):
            try:
                key = type(task.place), request.key()
                calls.setdefault(key, []).append((task, request, answers[-1], slot))
            except TypeError as error:
                raise _unhashable(request, task.name, error) from error
    for call in calls.values():
        requests, count = [(task.place, request) for task, request, *_ in call], len(trace or ())
        first, around = requests[0][1], traces.SURROUNDING
        with nullcontext() if around is None else around(type(inner_request(first)).__name__) as report:
            results = type(first).together(backend, requests)
            if not hasattr(results, "__len__") or len(results) != len(requests):
                message = f"{type(first).__name__} was answered with {shown(results)} where {len(requests)} asked"
                raise InvalidArgumentError(f"{message}; expected a list with an answer for each, in their order.")
            if trace is not None and len(trace) > count:
                # A separate search has recorded its requests; the calls after it are a later step.
                step = trace[-1].step + 1
            elif trace is not None:
                trace.append(_trace_entry(step, call, perf_counter() - start, size))
                if report is not None:
                    report(trace[-1])
                if (record := traces.RECORD.get()) is not None:
                    record(trace[-1], [request for _, request in requests], results, size, type(requests[0][0]) is not int)
            start = perf_counter()
        for (*_, slots, slot), answer in zip(call, results, strict=True):
            slots[slot] = answer
    pairs = zip(waiting, answers, strict=True)
    return [(task, slots[0] if alone else tuple(slots)) for (task, _, alone), slots in pairs][::-1]


def _trace_entry(step: int, call: Sequence[tuple[_Task, Request, list[Any], int]], seconds: float, size: Any) -> Asked:
    """Return a call as the trace has it."""
    names, places, nodes = dict[str, None](), set[int](), 0
    for task, request, *_ in call:
        names[task.name] = None
        if type(task.place) is int:
            places.add(task.place)
            nodes += request.size
        elif (rows := getattr(request, "nodes", None)) is None:
            places.update(task.place.tolist())
            nodes += request.size * len(task.place)
        else:
            places.update(task.place[np.flatnonzero(np.bincount(rows // size))].tolist())
            nodes += len(rows)
    return Asked(step, type(inner_request(call[0][1])), tuple(names), len(places), nodes, seconds)


def _check_algorithms(algorithms: Any, owner: str) -> None:
    """Raise InvalidArgumentError unless what an algorithm runs side by side is a list of algorithms."""
    if not isinstance(algorithms, list | tuple):
        raise _no_algorithm(algorithms, "side by side", "a list of generators", owner)
    for algorithm in algorithms:
        if not isinstance(algorithm, Generator):
            raise _no_algorithm(algorithm, "side by side", "a list of generators", owner)


def _no_algorithm(value: Any, how: str, expected: str, owner: str) -> InvalidArgumentError:
    message = f"{owner or 'A search'} runs {shown(value)} {how}; expected {expected}"
    return InvalidArgumentError(f"{message}, such as `operator.stepped(question, candidates)` gives.")


def _unhashable(request: Request, owner: str, error: TypeError) -> InvalidArgumentError:
    """Return why requests cannot be distinguished from those with other keys."""
    values = ", ".join(f"{name} {shown(getattr(request, name))}" for name in request.shared) or f"the key {shown(request.key())}"
    message = f"{owner or 'A search'} asked for {type(request).__name__} with {values}"
    why = f"requests that agree in them are answered together ({error})"
    return InvalidArgumentError(f"{message}; expected hashable values, such as strings and tuples, as {why}.")
