"""Calls that wait for another machine, such as a hosted model: several at a time, in threads or on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from math import inf
from threading import Lock, Thread, current_thread
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

CONCURRENT = 32
"""Calls at the same time, if the caller says nothing else."""

_MOST: ContextVar[int | None] = ContextVar("calls of a model at the same time", default=None)
_END: ContextVar[float] = ContextVar("when nobody waits for calls any more", default=inf)


@contextmanager
def at_most(count: int | None) -> Iterator[None]:
    """Let at most `count` calls run at the same time in the calls of this module inside; None changes nothing.

    >>> with at_most(2):
    ...     most_calls()
    2
    """
    if count is None:
        yield
        return
    token = _MOST.set(count)
    try:
        yield
    finally:
        _MOST.reset(token)


def most_calls(default: int = CONCURRENT) -> int:
    """Return how many calls may run at the same time: the number of :func:`at_most`, or `default`."""
    value = _MOST.get()
    return default if value is None else value


@contextmanager
def ending_in(seconds: float) -> Iterator[None]:
    """Say that nobody waits longer than so many seconds for the calls inside.

    >>> with ending_in(60), ending_in(3600):
    ...     0 < seconds_to_end() <= 60
    True
    """
    token = _END.set(min(_END.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _END.reset(token)


def seconds_to_end() -> float:
    """Return for how long somebody waits, by :func:`ending_in`; infinity if nothing was said."""
    return _END.get() - monotonic()


def in_threads(call: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return what a call returns for each item; several run at the same time, in threads.

    The error of the first item that fails is raised, and no more calls begin.

    >>> in_threads(len, ["a", "bc"])
    [1, 2]
    """
    workers = min(most_calls(), len(items))
    if workers <= 1:
        return [call(item) for item in items]
    # A context can be entered once at a time. It has the caller's spans, callbacks and limits.
    contexts = [copy_context() for _ in items]
    with ThreadPoolExecutor(workers, thread_name_prefix="graph-retrievers") as pool:
        return list(pool.map(lambda context, item: context.run(call, item), contexts, items))


async def concurrently(call: Callable[[T], Awaitable[R]], items: Sequence[T], most: int | None = None) -> list[R]:
    """Return what a coroutine function returns for each item; at most `most`, by default :func:`most_calls`, run at a time.

    If one fails or the caller is cancelled, all others are cancelled.

    >>> async def double(number):
    ...     return 2 * number
    >>> asyncio.run(concurrently(double, [1, 2]))
    [2, 4]
    """
    places = asyncio.Semaphore(most_calls() if most is None else most)

    async def limited_call(item: T) -> R:
        async with places:
            return await call(item)

    tasks = [asyncio.ensure_future(limited_call(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        # Otherwise the other tasks would go on, and their errors would be lost.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def call_or_await(call: Callable[..., T], awaited: Callable[..., Awaitable[T]] | None, *arguments: Any) -> T:
    """Return what a function returns, or what its asynchronous form does where it raises NotImplementedError: see :func:`finished`.

    >>> async def answer(question):
    ...     return 42
    >>> def refuse(question):
    ...     raise NotImplementedError
    >>> call_or_await(refuse, answer, "What?")
    42
    """
    try:
        return call(*arguments)
    except NotImplementedError:
        if awaited is None:
            raise
        return finished(awaited(*arguments))


def finished(answer: Awaitable[T]) -> T:
    """Return what an awaitable gives, from code that cannot await.

    All are awaited on one event loop, which runs in a thread of its own until the process ends. The connections that clients of
    services keep belong to the loop that opened them.

    >>> async def answer():
    ...     return 42
    >>> finished(answer())
    42
    """

    async def coroutine() -> T:
        return await answer

    if current_thread() is _LOOP.thread:
        # Its own loop cannot wait for itself.
        with ThreadPoolExecutor(1) as other:
            return other.submit(copy_context().run, asyncio.run, coroutine()).result()
    running = asyncio.run_coroutine_threadsafe(coroutine(), _LOOP.running())
    try:
        return running.result()
    except BaseException:
        # The caller was interrupted.
        running.cancel()
        raise


class _Loop:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self.thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()

    def running(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started if it does not run."""
        with self._lock:
            # A forked process has no threads of the one before.
            if self._loop is None or self.thread is None or not self.thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self.thread = Thread(target=self._loop.run_forever, name="graph-retrievers-loop", daemon=True)
                self.thread.start()
            return self._loop


_LOOP = _Loop()
