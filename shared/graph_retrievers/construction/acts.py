"""Names of acts of the European Union, which the Official Journal prints above them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from graph_retrievers.construction.references import words

# Lines above a text that may have the number of an act; and lines from there on that may have its name.
_LINES, _NAME_LINES = 30, 5
# "COMMISSION IMPLEMENTING REGULATION (EU) 2021/1772", "DIRECTIVE 2002/58/EC".
_NUMBERED = re.compile(
    r"(?P<kind>[^\W\d_a-z]{4,}(?:\s[^\W\d_a-z]{4,}){0,3})"
    r"(?P<number>\s(?:\([A-Z, ]+\)\s)?(?:N[or°]\.?\s)?\d{1,4}/\d{1,4}(?:/[A-Z]+)?)",
)
_NAME = re.compile(rf"\(([^()]*(?:{'|'.join(words('acts'))})(?!\w)[^()]*)\)$", re.IGNORECASE)


def act_name(lines: Iterable[str]) -> str:
    """Return the name and the number of the act whose title is among the first lines of a text; "" if there is none.

    >>> act_name(["REGULATION (EU) 2030/7 OF THE COUNCIL", "of 1 May 2030", "on cards (Loom Cards Regulation)", "Article 1"])
    'Loom Cards Regulation (Regulation (EU) 2030/7)'
    """
    first_lines = list(islice(lines, _LINES))
    matches = ((place, match) for place, line in enumerate(first_lines) if (match := _NUMBERED.match(line)))
    place, match = next(matches, (0, None))
    if match is None:
        return ""
    number = " ".join(map(str.capitalize, match["kind"].split())) + match["number"]
    names = (found[1] for line in first_lines[place : place + _NAME_LINES] if (found := _NAME.search(line)))
    name = next(names, "")
    return f"{name} ({number})" if name else number
