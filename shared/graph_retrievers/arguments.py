"""Checks of arguments."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["check_pickle", "check_query", "choice", "fraction", "is_number", "not_a_class", "positive", "strings"]

_T = TypeVar("_T")


def choice(name: str, value: _T, choices: Collection[_T]) -> _T:
    """Return `value` if it is one of `choices`; raise InvalidArgumentError otherwise.

    Examples
    --------
    >>> choice("semantics", "set", ("set", "rows"))
    'set'
    """
    # Other types than those of the choices may not even compare.
    if not any(type(value) is type(known) and value == known for known in choices):
        raise InvalidArgumentError(f"Unknown {name} {shown(value)}; choose from {', '.join(map(repr, choices))}.")
    return value


def check_pickle(owner: str, parts: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError if one of the parts of an object, by name, cannot be pickled.

    Examples
    --------
    >>> try:
    ...     check_pickle("This index", {"embedding": lambda texts: texts})
    ... except InvalidArgumentError as error:
    ...     print(str(error)[:51])
    This index cannot be pickled, because its embedding
    """
    for name, part in parts.items():
        try:
            pickle.dumps(part)
        except Exception as error:
            raise InvalidArgumentError(
                f"{owner} cannot be pickled, because its {name}, {part!r:.80}, cannot ({type(error).__name__}: {error}). Use a "
                "function or a class that a module defines by name, or set it again after loading."
            ) from error


def check_query(text: Any, position: int) -> None:
    """Raise InvalidArgumentError unless `text`, the query at a position of a batch, is a string with more than spaces.

    Examples
    --------
    >>> try:
    ...     check_query(" ", 2)
    ... except InvalidArgumentError as error:
    ...     print(error)
    Query 2 is ' '; a query is a non-empty string.
    """
    if not isinstance(text, str) or not text.strip():
        hint = " Many queries go to retrieve_batch." if isinstance(text, (list, tuple)) else ""
        raise InvalidArgumentError(f"Query {position} is {shown(text)}; a query is a non-empty string.{hint}")


def fraction(name: str, value: float) -> float:
    """Return `value` as float if it lies in [0, 1]; raise InvalidArgumentError otherwise."""
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"{name} must lie in [0, 1], got {shown(value)}.")
    return float(value)


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number, numpy's included."""
    return isinstance(value, Real)


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
        raise InvalidArgumentError(f"{name} must be an integer of at least 1, got {shown(value)}.")
    return int(value)


def strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return `values` as a tuple of strings; raise InvalidArgumentError for a single string and for other values."""
    listed = () if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if isinstance(values, str) or not isinstance(values, Iterable) or not all(isinstance(value, str) for value in listed):
        raise InvalidArgumentError(f"{name} must be a list of strings, got {shown(values)}.")
    return listed
