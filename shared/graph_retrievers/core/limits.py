"""Conditions that end a search early, such as a time limit. The driver checks them before each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Limit(Protocol):
    """A condition that ends a search."""

    def over(self) -> bool:
        """Return whether the search must end."""

    def error(self, trace: Sequence[Any]) -> BaseException:
        """Return the error to raise; `trace` has the requests so far."""


LIMITS: ContextVar[tuple[Limit, ...]] = ContextVar("limits of the present search", default=())
"""The limits that apply here; most searches have none."""


def limit_over() -> Limit | None:
    """Return a limit that is over, or None if the search may continue."""
    return next((limit for limit in LIMITS.get() if limit.over()), None)


@contextmanager
def limited(*limits: Limit, alone: bool = False) -> Iterator[None]:
    """Apply limits to the searches inside, in addition to existing limits, or with `alone` instead of these.

    >>> from graph_retrievers.retrievers.limits import TimeLimit
    >>> with limited(TimeLimit(60, "WalkFusion")):
    ...     len(LIMITS.get())
    1
    """
    token = LIMITS.set(limits if alone else (*LIMITS.get(), *limits))
    try:
        yield
    finally:
        LIMITS.reset(token)
