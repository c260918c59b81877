"""Calls that wait for another machine, such as a hosted model: several at a time, in threads or on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

__all__ = ["CONCURRENT", "at_most", "concurrently", "finished", "in_threads", "most_calls"]

T = TypeVar("T")
R = TypeVar("R")

CONCURRENT = 32
"""Calls at the same time, if the caller says nothing else."""

_MOST: ContextVar[int | None] = ContextVar("calls of a model at the same time", default=None)


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
    found = _MOST.get()
    return default if found is None else found


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

    async def one(item: T) -> R:
        async with places:
            return await call(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        # Otherwise the other tasks would go on, and their errors would be lost.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, which runs on an event loop of its own in a thread: one may already run in this thread.

    >>> async def answer():
    ...     return 42
    >>> finished(answer())
    42
    """
    context = copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, coroutine).result()
