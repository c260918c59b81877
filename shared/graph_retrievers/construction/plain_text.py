"""Plain text as pages: a title, headings with numbers such as those of contracts, and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graph_retrievers.construction.numbered import is_heading, numbered_heading
from graph_retrievers.construction.pages import Block, Page, plain_lines
from graph_retrievers.construction.references import RANKS
from graph_retrievers.construction.slugs import slug
from graph_retrievers.construction.titles import title_lines

_BLANK = re.compile(r"\n[ \t]*\n")
_DOTS = re.compile(r"(?:\. ?){3}")
_DEEPEST = 6


class _Heading(NamedTuple):
    """A line that may be a heading, with the kind of its unit ("" for a bare number) and its number."""

    text: str
    kind: str
    number: str


def read_text(text: str) -> Page:
    r"""Return plain text as a page of paragraphs, below its first line if that is a title.

    :func:`~graph_retrievers.construction.titles.title_lines` defines what counts as a title. A line with a number, such as
    "4. Payment" or "SCHEDULE 2", is a heading if it begins a paragraph and looks like a title, and if there are two such lines or
    more. Bare numbers must count upwards, and most of them must have text below.

    Examples
    --------
    >>> page = read_text("Jacquard loom\nIt reads punched cards.")
    >>> page.title, [block.text for block in page.blocks]
    ('Jacquard loom', ['Jacquard loom', 'It reads punched cards.'])
    >>> page = read_text("Loom hire\n\n1. Price\n\nTen marks.\n\n2. Term\n\nA year.")
    >>> [(block.text, block.level) for block in page.blocks]
    [('Loom hire', 1), ('1. Price', 2), ('Ten marks.', 0), ('2. Term', 2), ('A year.', 0)]
    """
    parts = [part.strip("\n") for part in _BLANK.split(plain_lines(text)) if part.strip()]
    count = title_lines(parts[0], len(parts) == 1) if parts else 0
    if not count:
        return Page("", _blocks(parts))
    title, *rest = parts[0].split("\n")
    parts[0] = "\n".join(rest[count - 1 :])
    title = " ".join(title.split())
    return Page(title, [Block(title, 1, leads=True), *_blocks([part for part in parts if part])])


def _blocks(parts: Sequence[str]) -> list[Block]:
    """Return paragraphs as blocks, the first lines of some as headings."""
    levels = dict(_levels([_heading(part) for part in parts], parts))
    if len(levels) < 2:
        return [Block(part) for part in parts]
    blocks: list[Block] = []
    for place, part in enumerate(parts):
        if place in levels:
            line, _, part = part.partition("\n")
            text = " ".join(line.split())
            blocks.append(Block(text, levels[place], (slug(text),), leads=True))
        if part:
            blocks.append(Block(part))
    return blocks


def _heading(part: str) -> _Heading | None:
    """Return the heading that the first line of a paragraph may be."""
    line, _, rest = part.partition("\n")
    found = numbered_heading(line)
    if found is None:
        return None
    kind, number, end = found
    name = line[end:].strip()
    if not kind and not (number[0].isdigit() and name[0].isalpha() and not name[0].islower()):
        return None
    # An item of a list may go on set in, and a list of contents has dots before the numbers of pages.
    below = "\n".join(map(str.lstrip, rest.split("\n")))
    if not (title_lines(f"{name}\n{below}" if below else name, alone=False) if name else kind) or _DOTS.search(name):
        return None
    return _Heading(line, kind, number) if not kind or is_heading(line) else None


def _levels(found: Sequence[_Heading | None], parts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of headings and the level of each; bare numbers begin anew in each unit with a name."""
    held = [place for place, heading in enumerate(found) if heading and not heading.kind and "." not in heading.number]
    numbers = 2 * sum(_has_text(found, parts, place) for place in held) > len(held)
    around: list[str] = []
    last = ""
    for place, heading in enumerate(found):
        if heading is None:
            continue
        if heading.kind:
            while around and RANKS[around[-1]] >= RANKS[heading.kind]:
                around.pop()
            yield place, min(2 + len(around), _DEEPEST)
            around.append(heading.kind)
            last = ""
        elif "." not in heading.number:
            if numbers and int(heading.number) > int(last or -1):
                last = heading.number
                yield place, min(2 + len(around), _DEEPEST)
        elif heading.number.startswith(f"{last}.") and _has_text(found, parts, place):
            yield place, min(2 + len(around) + heading.number.count("."), _DEEPEST)


def _has_text(found: Sequence[_Heading | None], parts: Sequence[str], place: int) -> bool:
    """Return whether what is below a heading is not the next item of a list."""
    heading = found[place]
    rest = parts[place].partition("\n")[2]
    if not rest and place + 1 == len(parts):
        return False
    below = numbered_heading((rest or parts[place + 1]).partition("\n")[0].strip())
    return heading is not None and (below is None or below[1].count(".") > heading.number.count("."))
