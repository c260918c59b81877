"""Pages cut into chunks along their headings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import eq

from graph_retrievers.arguments import positive
from graph_retrievers.construction.pages import Block, Page
from graph_retrievers.graph.tokens import estimate_tokens

__all__ = ["Chunk", "split_page"]

# A section with fewer tokens than this joins another. Anchors of a heading that its further parts repeat.
_SHORT, _REPEATED = 40, 10
_WORD = re.compile(r"\S+\s*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True)
class Chunk:
    """A part of a page.

    Attributes
    ----------
    text : str
        Without the heading of its section.
    headings : tuple of str
        The heading of its section and of the sections around it, outermost first.
    anchors : tuple of str
        Anchors of the places that it covers, those of its section included.
    links : tuple of str
        Addresses that it links to, as written.
    anchor : str
        Anchor of its section, "" if there is none.
    part : int
        1 for the first chunk of a section, 2 for the next, ...
    """

    text: str
    headings: tuple[str, ...]
    anchors: tuple[str, ...]
    links: tuple[str, ...]
    anchor: str
    part: int


@dataclass
class _Section:
    """A heading and the blocks below it, up to the next heading; `path` numbers the headings that lead to it."""

    path: tuple[int, ...]
    headings: tuple[str, ...]
    blocks: list[Block] = field(default_factory=list)
    tokens: int = 0

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self.tokens += 0 if block.level else block.tokens

    def take(self, other: _Section) -> None:
        self.blocks += other.blocks
        self.tokens += other.tokens


def split_page(page: Page, max_tokens: int = 220) -> list[Chunk]:
    r"""Return the chunks of a page, in order: one for each section, several for a section of more than `max_tokens` tokens.

    A section is what stands under a heading, up to the next heading; the first heading of a page is that of the whole page. A
    section of fewer than 40 tokens joins the one that contains it, its first subsection, or a short neighbour. A long section is
    cut between blocks, into parts of about the same length; a block is cut only where it alone is too long. A heading stays with
    what follows. Tokens are estimated (see :func:`~graph_retrievers.graph.tokens.estimate_tokens`).

    Parameters
    ----------
    page : Page
    max_tokens : int, default 220
        Tokens of a chunk.

    Examples
    --------
    >>> from graph_retrievers.construction.markdown import read_markdown
    >>> page = read_markdown("# Looms\n" + "Looms weave. " * 20 + "\n## Cards\n" + 3 * ("Cards drive. " * 10 + "\n\n"))
    >>> [(chunk.headings, chunk.anchors, chunk.part, len(chunk.text.split())) for chunk in split_page(page, 60)]
    [(('Looms',), ('looms',), 1, 40),
     (('Looms', 'Cards'), ('cards',), 1, 20), (('Looms', 'Cards'), ('cards',), 2, 40)]
    """
    positive("max_tokens", max_tokens)
    joined: list[_Section] = []
    sections = _sections(page)
    for section, following in zip_longest(sections, sections[1:]):
        _join(joined, section, heads=following is not None and _within(following.path, section.path))
    return [chunk for section in joined for chunk in _chunks(section, max_tokens)]


def _sections(page: Page) -> list[_Section]:
    """Return the sections of a page, each with its own blocks only, in order."""
    sections: list[_Section] = []
    around: list[tuple[int, int, str]] = []
    for block in page.blocks:
        if block.level:
            # Level 0 for the first heading of the page, so that all others are below it.
            level = block.level if sections else 0
            while around and around[-1][0] >= level:
                around.pop()
            around.append((level, len(sections), block.text))
        if block.level or not sections:
            path, headings = tuple(number for _, number, _ in around), tuple(text for *_, text in around)
            sections.append(_Section(path, headings))
        sections[-1].add(block)
    return sections


def _join(joined: list[_Section], section: _Section, heads: bool) -> None:
    """Add a section to those before it, or join it with the last one; `heads`: its first subsection follows."""
    last = joined[-1] if joined else None
    short = section.tokens < _SHORT and not heads
    if last is not None and not section.tokens and not heads:
        # A heading without text is not a chunk.
        last.take(section)
    elif last is not None and last.tokens < _SHORT and _within(section.path, last.path):
        last.path, last.headings = section.path, section.headings
        last.take(section)
    elif last is not None and short and _within(section.path, last.path):
        last.take(section)
    elif last is not None and short and last.tokens < _SHORT:
        shared = sum(map(eq, last.path, section.path))
        last.path, last.headings = last.path[:shared], last.headings[:shared]
        last.take(section)
    else:
        joined.append(section)


def _within(path: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return path[: len(outer)] == outer


def _chunks(section: _Section, max_tokens: int) -> Iterator[Chunk]:
    heading = next((block for block in reversed(section.blocks) if block.level and block.text in section.headings[-1:]), None)
    anchor = heading.anchors[-1] if heading and heading.anchors else ""
    # What follows a heading or a term, in its chunk and in the next one, is about it.
    around: tuple[str, ...] = ()
    term: tuple[str, ...] = ()
    for part, blocks in enumerate(_parts(section.blocks, max_tokens), 1):
        anchors = [*around, *term]
        for block in blocks:
            anchors += block.anchors
            if block.level:
                around, term = block.anchors[-_REPEATED:], ()
            elif block.leads:
                term = block.anchors[-_REPEATED:]
        shown = blocks[1:] if blocks[0].level and blocks[0].text in section.headings else blocks
        links = tuple(dict.fromkeys(link for block in blocks for link in block.links))
        text = "\n".join(block.text for block in shown)
        yield Chunk(text, section.headings, tuple(dict.fromkeys(anchors)), links, anchor, part)


def _parts(blocks: Sequence[Block], max_tokens: int) -> Iterator[list[Block]]:
    """Yield the blocks in parts of at most `max_tokens` tokens."""
    pieces = [piece for block in blocks for piece in _pieces(block, max_tokens)]
    left = sum(piece.tokens for piece in pieces)
    target = left / max(1, math.ceil(left / max_tokens))
    part: list[Block] = []
    held = 0
    for group, more in _groups(pieces, max_tokens):
        # A short rest stays with what is before it.
        full = held + more / 2 > target and left > target / 3
        if part and (held + more > max_tokens or full):
            yield part
            part, held = [], 0
        part += group
        held, left = held + more, left - more
    if part:
        yield part


def _groups(blocks: Sequence[Block], max_tokens: int) -> Iterator[tuple[list[Block], int]]:
    """Yield blocks, each together with the headings and terms that lead to it, and their tokens."""
    group: list[Block] = []
    tokens = 0
    for block in blocks:
        # A heading alone is not a chunk; a long run of headings is.
        if tokens > max_tokens // 4 and tokens + block.tokens > max_tokens:
            yield group, tokens
            group, tokens = [], 0
        group.append(block)
        tokens += block.tokens
        if not block.leads:
            yield group, tokens
            group, tokens = [], 0
    if group:
        yield group, tokens


def _pieces(block: Block, max_tokens: int) -> Iterator[Block]:
    """Yield a block, or its sentences or lines together up to `max_tokens` tokens; the first piece has its anchors and links."""
    if block.tokens <= max_tokens:
        yield block
        return
    pieces: list[list[str]] = [[]]
    held = 0
    for unit, tokens in _units(block.text, max_tokens):
        if held + tokens > max_tokens:
            pieces.append([])
            held = 0
        pieces[-1].append(unit)
        held += tokens
    for place, units in enumerate(pieces):
        text = "".join(units).rstrip()
        yield replace(block, text=text) if place == 0 else Block(text)


def _units(text: str, max_tokens: int) -> Iterator[tuple[str, int]]:
    """Yield the sentences or lines of a text with the space behind them; of one that is too long, words, or pieces of a word."""
    start = 0
    for end in [*(match.end() for match in _SENTENCE.finditer(text)), len(text)]:
        unit, start = text[start:end], end
        if estimate_tokens(unit) <= max_tokens:
            yield unit, estimate_tokens(unit)
            continue
        for word in _WORD.findall(unit):
            # No token is shorter than a character.
            for place in range(0, len(word), max_tokens):
                piece = word[place : place + max_tokens]
                yield piece, estimate_tokens(piece)
