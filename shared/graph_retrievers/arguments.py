"""Checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["not_a_class", "positive", "strings"]


def not_a_class(name: str, value: Any) -> None:
    """Raise InvalidArgumentError if `value` is a class where an object of it is expected."""
    if isinstance(value, type):
        raise InvalidArgumentError(f"{name} is the class {value.__name__}; pass an object of it, such as {value.__name__}(...).")


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


def strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return `values` as a tuple of strings; raise InvalidArgumentError for a single string and for other values."""
    listed = () if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if isinstance(values, str) or not isinstance(values, Iterable) or not all(isinstance(value, str) for value in listed):
        raise InvalidArgumentError(f"{name} must be a list of strings, got {values!r}.")
    return listed
