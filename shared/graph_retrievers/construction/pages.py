"""Pages as blocks of text, returned by the readers of the formats, and read by the splitter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from graph_retrievers.graph.tokens import estimate_tokens

T = TypeVar("T")
# Most characters of a title or heading.
_TITLE = 300
# A number, or a variable; "o", "e" and the like end an ordinal.
_POWER = re.compile(r"[-+\u2212\u2013]?(?:\d[\d.,/]*[a-z]?|[b-df-np-qt-zA-Z])(?:[-+\u2212*/]\w{1,5})*")
_CLOSING = frozenset(")]}|")
# "25.4. Archiving", "Chapter 20. Server Configuration": a number that ends with a dot, so that "3.11 released" keeps its own.
_NUMBER = re.compile(
    r"(?:(?:Part|Chapter|Appendix|Section)\s+[0-9A-Z]+(?:\.[0-9]+)*[.:]|(?:[0-9]+|[A-Z](?=\.[0-9]))(?:\.[0-9]+)*\.)\s+(?=\S)"
)


class UnreadableError(ValueError):
    """A file that cannot be read; the text says why."""


@dataclass(frozen=True)
class Block:
    """A heading, paragraph, list item, table row or piece of code.

    `level` is 1 to 6 for a heading, 0 for other blocks. `anchors` are the names by which a link may point to this place: the ids
    of HTML elements, the slugs of Markdown headings, ``^`` and the id of a block of Obsidian; `links` are the addresses to which it
    links, as written, and `linked` those in fields such as ``up:: [[Home]]``, with the name of the field. A block that
    `leads` introduces the next, such as a heading, a bold line or the term of a definition, and must not be separated from it.
    `source` are the source lines of the text, including those up to the next block; None if they equal the text. `header` has the
    names of the columns for a later row of a table. `page` is the number of the printed page that it is on, 0 for none.
    """

    text: str
    level: int = 0
    anchors: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    leads: bool = False
    source: str | None = None
    header: str = ""
    linked: tuple[tuple[str, str], ...] = ()
    page: int = 0

    @cached_property
    def tokens(self) -> int:
        """Estimated number of tokens of the text."""
        return estimate_tokens(self.text)


class Page(NamedTuple):
    """A page.

    Attributes
    ----------
    title : str
        "" if it has none.
    blocks : list of Block
    contents : tuple of str
        The addresses in its table of contents.
    fields : mapping
        The fields of the front matter, with those in the text of a note and its tags.
    is_title_stated : bool
        Whether the title is stated separately from the headings, as in front matter: it is then the heading around all of them.
    address, base : str
        For HTML, the URL that the page states, and that of its base; "" for none.
    references : sequence of Reference
        The names that stand in texts and links as marks, until :func:`~graph_retrievers.construction.cross_references.resolved`
        fills them in.
    targets : sequence of Target
        The names that the page defines.
    omissions : sequence of str
        What of the file cannot be read, each with the reason.
    """

    title: str
    blocks: list[Block]
    contents: tuple[str, ...] = ()
    address: str = ""
    base: str = ""
    is_title_stated: bool = False
    fields: Mapping[str, Any] = {}
    references: Sequence[Any] = ()
    targets: Sequence[Any] = ()
    omissions: Sequence[str] = ()


def with_short_titles(page: Page) -> Page:
    """Return a page whose headings of more than 300 characters are paragraphs, and whose title is cut to 300 characters.

    Each chunk of a page repeats its title and its headings.
    """
    blocks = [replace(block, level=0, leads=False) if block.level and len(block.text) > _TITLE else block for block in page.blocks]
    return page._replace(title=page.title[:_TITLE].rstrip(), blocks=blocks)


def is_power(before: str, exponent: str) -> bool:
    """Return whether a superscript is a power or an index, which a line of text writes with a caret, and no end of a word.

    >>> is_power("10", "25"), is_power("x", "n-1"), is_power("1", "st"), is_power("", "1")
    (True, True, False, False)
    """
    return (before[-1:].isalnum() or before[-1:] in _CLOSING) and _POWER.fullmatch(exponent.strip()) is not None


def plain_lines(text: str) -> str:
    """Return a text whose lines all end with a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def squeezed(text: str) -> str:
    """Return a text with white space as a browser shows it; soft hyphens and zero-width spaces are left out."""
    return " ".join(text.replace("\u200b", "").replace("\u00ad", "").split())


def once(items: Iterable[T]) -> tuple[T, ...]:
    """Return the distinct items, in order."""
    return tuple(dict.fromkeys(items))


def without_number(heading: str) -> str:
    """Return a heading without its number.

    >>> without_number("25.3. Continuous Archiving"), without_number("Chapter 20. Server Configuration")
    ('Continuous Archiving', 'Server Configuration')
    """
    match = _NUMBER.match(heading)
    return heading[match.end() :] if match else heading
