"""Metadata values as properties of nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["stored"]

# What an integer property holds.
_LARGEST = 2**63


def stored(value: Any) -> str | bool | int | float | list[Any] | None:
    """Return a metadata value as a property of a node holds it.

    Parameters
    ----------
    value : object

    Returns
    -------
    str, bool, int, float, list or None
        None where a property cannot hold it: for anything but strings, booleans, integers of 64 bits, finite floats and
        lists of one kind of these. A tuple and a set (sorted) become a list; booleans among numbers become numbers and
        integers among floats become floats, as databases want lists of one type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (list, tuple, set)):
        return value if _is_scalar(value) else None
    items = [item.item() if isinstance(item, np.generic) else item for item in value]
    if not all(map(_is_scalar, items)) or len({isinstance(item, str) for item in items}) > 1:
        return None
    kinds = {type(item) for item in items}
    if len(kinds) > 1 and not isinstance(items[0], str):
        items = [float(item) if float in kinds else int(item) for item in items]
    return sorted(items) if isinstance(value, set) else items


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        # Half of a surrogate pair cannot be sent.
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST
