"""Checks of arguments that several rooms share."""

from __future__ import annotations

from numbers import Integral

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["positive"]


def positive(name: str, value: int) -> int:
    """Return `value` if it is an integer of at least 1 (numpy's too); raise InvalidArgumentError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidArgumentError(f"{name} must be an integer of at least 1, got {value!r}.")
    return int(value)
