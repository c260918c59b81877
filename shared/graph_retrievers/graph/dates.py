"""Dates of metadata and filters as instants, so that they are compared by time and not by their writing."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.plain import plain

__all__ = ["instant"]

DAY = 86_400_000_000
"""Microseconds of a day."""

_NAIVE, _AWARE = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
# Python reads more forms, among them numbers of eight digits, and weeks, of which it takes the Monday.
_ISO = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{4}-W\d\d-\d|\d{8}(?=T)|\d{4}W\d{3}(?=T))"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?)?",
    re.ASCII,
)
# Of a day with hyphens; one without is read before a time only.
_LENGTH_OF_DAY = 10


class Moment(NamedTuple):
    """A day or an instant, in microseconds since 1970 in UTC: from `first`, until before `after`; `text` is its ISO 8601 form."""

    first: int
    after: int
    text: str


def instant(value: Any) -> int | None:
    """Return a date or time that metadata contain as ISO 8601, in microseconds since 1970 in UTC; None for anything else.

    A time without an offset is one of UTC, and a day counts as its start. A day without hyphens, such as "20240102", is read only
    before a time, since a number looks the same; weeks, months and years are neither days nor instants.

    >>> instant("1970-01-01T01:00:01+01:00"), instant("1970-W01-5"), instant("19700102T00Z"), instant("19700102")
    (1000000, 86400000000, 86400000000, None)
    """
    # The first conditions suffice for most values.
    if type(value) is not str or not value[:4].isdigit() or not _ISO.fullmatch(value):
        return None
    try:
        timestamp = datetime.fromisoformat(value)
    except ValueError:
        return None
    elapsed = timestamp - (_NAIVE if timestamp.tzinfo is None else _AWARE)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def is_date(value: Any) -> bool:
    """Return whether a value is a date or a time with a date, of Python, pandas or numpy; not whether a text is one."""
    # The missing time of pandas does not equal itself.
    return isinstance(value, date) and bool(value == value) or (isinstance(value, np.datetime64) and not np.isnat(value))


def moment(value: Any) -> Moment | None:
    """Return a value of a filter as a day or an instant: one of Python, pandas or numpy, or ISO 8601; None if it is neither.

    InvalidArgumentError for a date of numpy that is a month or a year.

    >>> moment(date(1970, 1, 2))
    Moment(first=86400000000, after=172800000000, text='1970-01-02')
    """
    text = plain(value, "a filter") if is_date(value) else value
    first = instant(text)
    if first is not None:
        return Moment(first, first + (DAY if len(text) == _LENGTH_OF_DAY else 1), text)
    if text is not value:
        raise InvalidArgumentError(f"A filter asks for {shown(value)}, which is neither a day nor an instant; give one of these.")
    return None
