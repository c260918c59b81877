"""Days that texts name, such as "5 March 2024", "March 5", "5.3.2024" and "2024-03-05"."""

from __future__ import annotations

import re
from typing import NamedTuple

from graph_retrievers.construction.numbers import STYLES

_MONTHS = {name: month for style in STYLES for month, name in enumerate(style.months.split(), 1)}
_NAMED = rf"(?i:{'|'.join(sorted(_MONTHS))})(?!\w)"
_DAY = re.compile(
    rf"(?<![\w.])(?:(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th)?\s(?:of\s)?(?P<month>{_NAMED})(?:,?\s(?P<year>\d{{4}})(?!\d))?"
    rf"|(?P<first>{_NAMED})\s(?P<second>\d{{1,2}})(?!\d)(?:st|nd|rd|th)?(?:,?\s(?P<third>\d{{4}})(?!\d))?"
    r"|(?P<iso>\d{4}-\d{2}-\d{2})(?!\d)|(?P<dots>\d{1,2}\.\s?\d{1,2}\.\s?\d{4})(?!\d))"
)


class Day(NamedTuple):
    """A day; its year is 0 if the text does not give it."""

    year: int
    month: int
    day: int

    def may_be(self, other: Day) -> bool:
        """Return whether two texts may mean the same day."""
        return self[1:] == other[1:] and (self.year == other.year or 0 in (self.year, other.year))


def first_day(text: str) -> Day | None:
    """Return the first day that a text names, None if it names none.

    >>> first_day("Lyon, 5 March 2024"), first_day("of May 7th"), first_day("am 1. April 2023"), first_day("5.3.2024")
    (Day(year=2024, month=3, day=5), Day(year=0, month=5, day=7), Day(year=2023, month=4, day=1), Day(year=2024, month=3, day=5))
    """
    return _day(_DAY.search(text))


def day_at(text: str, start: int) -> Day | None:
    """Return the day whose name begins at a place of a text, None if there is none.

    >>> day_at("the minutes of 2024-03-05", 15), day_at("the minutes of 2024-03-05", 4)
    (Day(year=2024, month=3, day=5), None)
    """
    return _day(_DAY.match(text, start))


def _day(match: re.Match[str] | None) -> Day | None:
    if match is None:
        return None
    if match["iso"] or match["dots"]:
        parts = [int(part) for part in re.findall(r"\d+", match[0])]
        return Day(*(parts if match["iso"] else parts[::-1]))
    month, day = (match["month"], match["day"]) if match["month"] else (match["first"], match["second"])
    return Day(int(match["year"] or match["third"] or 0), _MONTHS[month.lower()], int(day))
