"""Metadata as values that survive JSON unchanged, so that a saved index loads unchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, reason, shown

__all__ = ["plain"]

_DEPTH = 64
# Python writes and reads integers of 4,300 digits.
_BITS = 1 << 13
_SCALARS = frozenset((str, int, float, bool, type(None)))


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a metadata value as a value for JSON; `value` itself if it already is one.

    None, bools, ints (of at most 8,192 bits), finite floats, strings, lists of these and dicts of these with string keys are
    kept. Others are converted:

    ==========================================  ====================================================
    tuple, set, frozenset                       list; of a set, sorted
    numpy or torch array, numpy scalar          list, number
    date, time, datetime (of pandas, Neo4j)     ISO 8601 string, such as "2024-05-01"
    path, UUID                                  string
    enum                                        its value
    NaN, NaT                                    None, a missing value
    ==========================================  ====================================================

    Anything else, such as bytes, infinity, objects and keys that are not strings, and more than 64 levels, raises an
    InvalidArgumentError, in which `where` describes the value.

    >>> plain({"day": date(2024, 5, 1), "tags": ("a", "b"), "score": np.float64(0.5)}, "metadata")
    {'day': '2024-05-01', 'tags': ['a', 'b'], 'score': 0.5}
    """
    # Most metadata are plain, and there are many of them.
    if depth == 0 and _is_plain(value):
        return value
    if depth > _DEPTH:
        raise InvalidArgumentError(f"{where:.80}... is nested more than {_DEPTH} levels deep, or contains itself; flatten it.")
    kind = type(value)
    if kind is int and value.bit_length() > _BITS:
        raise InvalidArgumentError(f"{where} is an integer of {value.bit_length()} bits; expected at most {_BITS}.")
    if value is None or kind in (bool, int) or (kind is float and math.isfinite(value)):
        return value
    if kind is str:
        check_text(value, where)
        return value
    if kind is list:
        items = [plain(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
        return value if all(result is item for result, item in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        entries = {plain(key, where): plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
        same = kind is dict and all(result is item for result, item in zip(entries.values(), value.values(), strict=True))
        return value if same else entries
    substitute = _usual(value)
    if substitute is value:
        raise InvalidArgumentError(
            f"{where} is {shown(value)} ({kind.__name__}), which cannot be saved with an index; leave it out, or use None, bool, "
            "int, finite float, str, lists and dicts with string keys."
        )
    return plain(substitute, where, depth)


def copied(value: Any) -> Any:
    """Return a deep copy; of values for JSON in a fraction of the time of :func:`copy.deepcopy`.

    >>> metadata = {"tags": ["loom"]}
    >>> copied(metadata)["tags"].append("card")
    >>> metadata
    {'tags': ['loom']}

    Raises InvalidArgumentError for a value that cannot be copied, such as an open file, or is nested too deeply.
    """
    try:
        return _copied(value)
    except Exception as error:
        raise InvalidArgumentError(f"{shown(value)} cannot be copied ({reason(error)}); leave it out of the metadata.") from error


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind not in (dict, list):
        return deepcopy(value)
    # Most have no other inside, and are copied as a whole.
    result = value.copy()
    for place, item in value.items() if kind is dict else enumerate(value):
        if type(item) not in _SCALARS:
            result[place] = _copied(item)
    return result


def _is_plain(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_unicode(value)
    if kind is float:
        return math.isfinite(value)
    if value is None or kind is int or kind is bool:
        return kind is not int or value.bit_length() <= _BITS
    if depth >= _DEPTH or kind not in (list, dict):
        return False
    items = value if kind is list else [part for key, item in value.items() for part in (key, item)]
    return all(_is_plain(item, depth + 1) for item in items) and (kind is list or all(type(key) is str for key in value))


def _as_list(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return [_as_list(part) for part in value] if value.ndim else value[()]
    try:
        return value.tolist()
    except (RuntimeError, NotImplementedError):
        # Sparse tensors, and those without data.
        return value


def _usual(value: Any) -> Any:
    """Return what is usually written for a value; `value` itself if that is unknown."""
    if isinstance(value, Enum):
        return value.value
    if type(value).__module__ == "neo4j.time":
        return value.iso_format()
    if isinstance(value, (tuple, set, frozenset)):
        return list(value) if isinstance(value, tuple) else _sorted(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        # A number of nanoseconds would be given otherwise.
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, (np.ndarray, Tensor, np.generic)):
        content = _as_list(value)
        # Some kinds of numbers, such as complex ones of long double, list themselves.
        return value if type(content) is type(value) else content
    if isinstance(value, (date, time)):
        # pandas' missing time is a datetime that does not equal itself.
        return None if value != value else value.isoformat()
    if isinstance(value, (PurePath, UUID)):
        return str(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value if type(value) is float else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else value


def _sorted(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


def check_text(text: str, where: str) -> None:
    """Raise InvalidArgumentError unless a string is valid Unicode."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{where} is not valid Unicode ({error.reason} at {error.start}); decode it again.") from error


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
