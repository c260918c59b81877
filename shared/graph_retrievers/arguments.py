"""Checks of arguments."""

from __future__ import annotations

from numbers import Integral

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["positive"]


def positive(name: str, value: int) -> int:
    """Return `value` as int if it is an integer of at least 1 (numpy's too); raise InvalidArgumentError otherwise.

    Examples
    --------
    >>> positive("k", 10)
    10
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidArgumentError(f"{name} must be an integer of at least 1, got {value!r}.")
    return int(value)
