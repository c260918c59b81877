"""The limits of a call: a time limit, and a caller who has gone. The driver checks both before each step of a search."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from graph_retrievers.core.limits import LIMITS, limited
from graph_retrievers.errors import TimeLimitError

__all__ = ["in_thread"]

T = TypeVar("T")
P = ParamSpec("P")

# Calls that a message names.
_MOST_CALLS = 3


class TimeLimit:
    """A number of seconds, from now on, in which the call of a retriever must be answered."""

    def __init__(self, seconds: float, name: str) -> None:
        self.seconds, self.name, self.start = seconds, name, perf_counter()

    @property
    def remaining(self) -> float:
        """Remaining seconds, below 0 if it is over."""
        return self.start + self.seconds - perf_counter()

    def over(self) -> bool:
        """Return whether no time is left."""
        return self.remaining <= 0

    def error(self, trace: Sequence[Any]) -> TimeLimitError:
        """Return an error that says which step was reached and how long each took."""
        error = TimeLimitError(
            f"{self.name} has no answer after {perf_counter() - self.start:.3g} seconds, and its time_limit is {self.seconds:g}: "
            f"{_progress(trace)}. Ask for less (a smaller budget, fewer questions at a time), or raise time_limit."
        )
        error.trace = trace
        return error


def _progress(trace: Sequence[Any]) -> str:
    """Return which step was reached, and what took the longest."""
    if not trace:
        return "no step of this batch was made"
    totals: dict[tuple[str, str], tuple[float, int]] = {}
    for call in trace:
        key = call.request.__name__, " and ".join(call.operators)
        seconds, calls = totals.get(key, (0.0, 0))
        totals[key] = seconds + call.seconds, calls + 1
    longest = sorted(totals.items(), key=lambda item: -item[1][0])[:_MOST_CALLS]
    summary = "; ".join(
        f"{request} for {operator} {seconds:.3g} s{f' in {calls} calls' if calls > 1 else ''}"
        for (request, operator), (seconds, calls) in longest
    )
    return f"step {trace[-1].step} was reached ({summary})"


class _Disconnection:
    """Whoever waited for the answer has gone."""

    def __init__(self) -> None:
        self._is_over, self._ends, self._lock = False, list[Callable[[], None]](), threading.Lock()

    def over(self) -> bool:
        """Return whether the caller has gone."""
        return self._is_over

    def tell(self) -> None:
        """Say that the caller has gone, without waiting for the calls that are ended by it."""
        self._is_over = True
        if self._ends:
            threading.Thread(target=self._end, name="graph-retrievers ends calls", daemon=True).start()

    def _end(self) -> None:
        with self._lock:
            for end in self._ends:
                end()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end`, in another thread, if the caller goes while the block inside runs; not after it."""
        with self._lock:
            self._ends.append(end)
        try:
            if self._is_over:
                raise self.error(())
            yield
        finally:
            # Waits for an `end` that has begun.
            with self._lock:
                self._ends.remove(end)

    def error(self, trace: Sequence[Any]) -> asyncio.CancelledError:
        # Not an Exception: code that continues after errors must not continue after this.
        return asyncio.CancelledError("the task that waits for this search was cancelled")


def seconds_left() -> float | None:
    """Return the seconds until the first time limit is over, at least 0; None without one."""
    seconds = [max(limit.remaining, 0.0) for limit in LIMITS.get() if isinstance(limit, TimeLimit)]
    return min(seconds, default=None)


@contextmanager
def ended_by_caller(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` if the caller goes while the call inside waits for another machine; `end` lets it return.

    >>> with ended_by_caller(lambda: print("cancelled")):
    ...     len("an answer")
    9
    """
    with ExitStack() as stack:
        for limit in LIMITS.get():
            if isinstance(limit, _Disconnection):
                stack.enter_context(limit.ends(end))
        yield


async def within_limits(answer: Awaitable[T]) -> T:
    """Await an answer; when a time limit is over, cancel it and raise the error of the limit.

    >>> asyncio.run(within_limits(asyncio.sleep(0, "an answer")))
    'an answer'
    """
    timer = asyncio.timeout(seconds_left())
    try:
        async with timer:
            return await answer
    except TimeoutError:
        if not timer.expired():
            raise
        first = min((limit for limit in LIMITS.get() if isinstance(limit, TimeLimit)), key=lambda limit: limit.remaining)
        raise first.error(()) from None


async def in_thread(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a call in a thread and return its result; when the waiting task is cancelled, its searches end at their next step.

    What waits for another machine inside :func:`ended_by_caller` ends at once.

    >>> asyncio.run(in_thread(sorted, [2, 1]))
    [1, 2]
    """
    disconnection = _Disconnection()

    def run() -> T:
        with limited(disconnection):
            return call(*arguments, **options)

    try:
        return await asyncio.to_thread(run)
    finally:
        disconnection.tell()
