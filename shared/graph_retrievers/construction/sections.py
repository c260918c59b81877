"""Split pages into chunks along their headings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile, zip_longest
from operator import eq

from graph_retrievers.arguments import positive
from graph_retrievers.construction.pages import Block, Page
from graph_retrievers.graph.tokens import estimate_tokens

# A section with fewer tokens than this joins another; and how many anchors of a heading its further parts repeat at most.
_SHORT, _REPEATED = 40, 10
# A block is cut behind sentences and lines, a row of a table first behind cells, and else behind words.
_SENTENCE, _CELL, _WORD = re.compile(r"(?<=[.!?;])\s+|\n+"), re.compile(r" \| "), re.compile(r"\S+\s*")
_PROSE, _ROW = (_SENTENCE, _WORD), (_CELL, _SENTENCE, _WORD)


@dataclass(frozen=True)
class Chunk:
    """A part of a page.

    `text` is below `headings`, those of its section and of the sections around it, outermost first; `anchors` are those of all
    places that it covers and `anchor` that of its section, "" if there is none; `links` are addresses as written. `part` is 1 for
    the first chunk of a section, 2 for the next. `titles` has the headings of the sections around it that begin in it, followed
    by that of its section; it is empty if the chunk has text above all headings of the page. `source` is the source of the text,
    such as Markdown; "" if it equals the text. `linked` has the names of fields and the addresses that they hold. `page` is the
    number of the printed page on which it begins, 0 for none.
    """

    text: str
    headings: tuple[str, ...]
    anchors: tuple[str, ...]
    links: tuple[str, ...]
    anchor: str
    part: int
    titles: tuple[str, ...] = ()
    source: str = ""
    linked: tuple[tuple[str, str], ...] = ()
    page: int = 0


@dataclass(frozen=True)
class _Heading:
    """A heading of a page; `path` numbers those that lead to it, its own last, and `names` are their texts."""

    path: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    anchor: str = ""


@dataclass
class _Section:
    """Headings and the blocks below them; `path` leads to all of them."""

    path: tuple[int, ...]
    headings: list[_Heading]
    blocks: list[Block] = field(default_factory=list)
    tokens: int = 0

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self.tokens += 0 if block.level else block.tokens

    def is_sibling(self, other: _Section) -> bool:
        """Return whether the heading of another section has the same level, in the same section around both."""
        return self.path[:-1] == other.path[:-1] and self.blocks[0].level == other.blocks[0].level

    def lead(self, other: _Section) -> None:
        """Begin with the headings of another section, which has no text."""
        self.headings = other.headings + self.headings
        self.blocks = other.blocks + self.blocks

    def take(self, other: _Section) -> None:
        self.headings += other.headings
        self.blocks += other.blocks
        self.tokens += other.tokens


def split_page(page: Page, max_tokens: int = 220) -> list[Chunk]:
    r"""Return the chunks of a page, in order: one for each section, several for a section of more than `max_tokens` tokens.

    A section is the text under a heading, up to the next heading; the first heading of a page is that of the whole page, unless
    front matter states another title. A section of fewer than 40 tokens is merged into the one that contains it, its first
    subsection, or a short neighbour; a heading without text is merged into the next one of its level, else into the previous
    section. A long section is cut between blocks, into parts of about the same length; a block is cut only if it is itself too
    long, a row of a table after a cell. A heading, a bold line and a line that ends with a colon stay with the following block,
    and the header of a table is repeated in parts that begin with later rows. The headings of a chunk are those around all of it:
    if it contains the ends of two sections, the heading above both. Tokens are estimated (see
    :func:`~graph_retrievers.graph.tokens.estimate_tokens`).

    >>> from graph_retrievers.construction.markdown import read_markdown
    >>> page = read_markdown("# Looms\n" + "Looms weave. " * 20 + "\n## Cards\n" + 3 * ("Cards drive. " * 10 + "\n\n"))
    >>> [(chunk.headings, chunk.anchors, chunk.part, len(chunk.text.split())) for chunk in split_page(page, 60)]
    [(('Looms',), ('looms',), 1, 40),
     (('Looms', 'Cards'), ('cards',), 1, 20), (('Looms', 'Cards'), ('cards',), 2, 40)]
    """
    positive("max_tokens", max_tokens)
    merged_sections: list[_Section] = []
    sections = _sections(page)
    for section, next_section in zip_longest(sections, sections[1:]):
        if next_section is not None and not section.tokens and section.is_sibling(next_section):
            # Headings in a row share the text below them, as signatures of one function do.
            next_section.lead(section)
        else:
            _join(merged_sections, section, heads=next_section is not None and _within(next_section.path, section.path))
    return [chunk for section in merged_sections for chunk in _chunks(section, max_tokens)]


def _sections(page: Page) -> list[_Section]:
    """Return the sections of a page, each with its own blocks only, in order."""
    sections: list[_Section] = []
    parents: list[tuple[int, int, str]] = []
    heads = next((block.text for block in page.blocks if block.level), "")
    has_title = page.is_title_stated and page.title.casefold() != heads.casefold()
    for block in page.blocks:
        if block.level:
            # Level 0 for the first heading of the page, so that all others are below it.
            level = block.level if sections or has_title else 0
            while parents and parents[-1][0] >= level:
                parents.pop()
            parents.append((level, len(sections), block.text))
        if block.level or not sections:
            path, names = tuple(number for _, number, _ in parents), tuple(text for *_, text in parents)
            heading = _Heading(path, names, block.anchors[-1] if block.anchors else "")
            sections.append(_Section(path, [heading] if block.level else []))
        sections[-1].add(block)
    return sections


def _join(sections: list[_Section], section: _Section, heads: bool) -> None:
    """Add a section to those before it, or join it with the last one; with `heads`, its first subsection follows."""
    last = sections[-1] if sections else None
    is_short = section.tokens < _SHORT and not heads
    if last is not None and not section.tokens and not heads:
        # A heading without text is not a chunk.
        last.take(section)
    elif last is not None and last.tokens < _SHORT and _within(section.path, last.path):
        last.path = section.path
        last.take(section)
    elif last is not None and is_short and _within(section.path, last.path):
        last.take(section)
    elif last is not None and is_short and last.tokens < _SHORT:
        depth = sum(map(eq, last.path, section.path))
        last.path = last.path[:depth]
        last.take(section)
    else:
        sections.append(section)


def _within(path: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return path[: len(outer)] == outer


def _chunks(section: _Section, max_tokens: int) -> Iterator[Chunk]:
    anchors_by_path = {heading.path: heading.anchor for heading in section.headings}
    next_headings = iter(section.headings)
    heading = _Heading()
    counts: Counter[tuple[int, ...]] = Counter()
    # Texts behind a heading or a term, in its chunk and in the next one, are about it.
    around: tuple[str, ...] = ()
    term: tuple[str, ...] = ()
    for blocks in _parts(section.blocks, max_tokens):
        anchors = [*around, *term]
        headings: list[_Heading] = []
        tokens: Counter[_Heading] = Counter()
        for block in blocks:
            anchors += block.anchors
            if block.level:
                heading = next(next_headings)
                headings.append(heading)
                around, term = block.anchors[-_REPEATED:], ()
            else:
                tokens[heading] += block.tokens
                term = block.anchors[-_REPEATED:] if block.leads else term
        path, names = _covering(tokens or Counter(headings))
        first = next((len(other.path) for other in headings if _within(path, other.path)), len(path))
        text_blocks = blocks[1:] if blocks[0].level and blocks[0].text in names else blocks
        links = tuple(dict.fromkeys(link for block in blocks for link in block.links))
        field_links = tuple(dict.fromkeys(pair for block in blocks for pair in block.linked))
        counts[path] += 1
        titles = () if _Heading() in tokens else names[max(first, 1) - 1 :]
        text, source = text_and_source(text_blocks, _repeated(blocks[0], max_tokens))
        anchor, page = anchors_by_path.get(path, ""), blocks[0].page
        yield Chunk(text, names, tuple(dict.fromkeys(anchors)), links, anchor, counts[path], titles, source, field_links, page)


def _covering(tokens: Mapping[_Heading, int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the path and the names of the section around parts of sections; `tokens` has the tokens of each part by its heading.

    It is the innermost section that contains them, or one that contains at least half of the tokens and is within all others. The
    sections come in the order of the page.
    """
    headings = list(tokens)
    first, last = headings[0], headings[-1]
    depth = sum(1 for _ in takewhile(bool, map(eq, first.path, last.path)))
    best = first.path[:depth], first.names[:depth]
    total = rest = sum(tokens.values())
    for heading, count in tokens.items():
        # A section that contains the last one contains all behind itself, and is within those before it.
        if not _within(last.path, heading.path) or 2 * rest < total:
            break
        best = heading.path, heading.names
        rest -= count
    return best


def text_and_source(blocks: Sequence[Block], header: str = "") -> tuple[str, str]:
    """Return the text of blocks, below the header of a table, and its source, "" if that equals the text."""
    texts = [block.text for block in blocks]
    sources = [block.text if block.source is None else block.source for block in blocks]
    if header:
        texts.insert(0, header)
        names = header if blocks[0].source is None else f"| {header} |\n{'| --- ' * (header.count(' | ') + 1)}|"
        sources.insert(0, names)
    text, source = "\n".join(texts), "\n".join(sources).strip("\n")
    return text, "" if text.split() == source.split() else source


def _repeated(block: Block, max_tokens: int) -> str:
    """Return the header that is repeated above a block that begins a part: that of its table, if there is room for both."""
    # A token has up to seven letters, and a space; to count those of a long header in every part would take too long.
    room = len(block.header) <= 8 * max_tokens and estimate_tokens(block.header) + block.tokens <= max_tokens
    return block.header if room else ""


def _parts(blocks: Sequence[Block], max_tokens: int) -> Iterator[list[Block]]:
    """Yield the blocks in parts of at most `max_tokens` tokens."""
    pieces: list[Block] = []
    before = 0
    for block in blocks:
        pieces += _pieces(block, max_tokens, before if before <= max_tokens // 4 else 0)
        before = before + block.tokens if _introduces(block) and not block.level else 0
    rest = sum(piece.tokens for piece in pieces)
    target = rest / max(1, math.ceil(rest / max_tokens))
    part: list[Block] = []
    size = 0
    for group, more in _groups(pieces, max_tokens):
        # A short rest stays with what is before it.
        is_full = size + more / 2 > target and rest > target / 3
        if part and (size + more > max_tokens or is_full):
            yield part
            part = []
        if not part:
            size = estimate_tokens(_repeated(group[0], max_tokens))
        part += group
        size, rest = size + more, rest - more
    if part:
        yield part


def _groups(blocks: Sequence[Block], max_tokens: int) -> Iterator[tuple[list[Block], int]]:
    """Yield blocks, each together with the headings, terms and lines that lead to it, and their tokens."""
    group: list[Block] = []
    tokens = 0
    for block in blocks:
        # A heading alone is not a chunk; a long run of headings is.
        if tokens > max_tokens // 4 and tokens + block.tokens > max_tokens:
            yield group, tokens
            group, tokens = [], 0
        group.append(block)
        tokens += block.tokens
        if not _introduces(block):
            yield group, tokens
            group, tokens = [], 0
    if group:
        yield group, tokens


def _introduces(block: Block) -> bool:
    return block.leads or block.text.endswith((":", "\uff1a"))


def _pieces(block: Block, max_tokens: int, before: int) -> Iterator[Block]:
    """Yield a block, or its parts of up to `max_tokens` tokens, of which the first, with anchors and links, leaves room for others.

    `before` is the number of tokens that lead to it. A row of a table leaves room for the header too.
    """
    if block.tokens <= max_tokens:
        yield block
        return
    header = estimate_tokens(block.header) if len(block.header) <= 8 * max_tokens else max_tokens
    room = max_tokens - (header if 2 * header <= max_tokens else 0)
    pieces: list[list[str]] = [[]]
    size = before
    for unit, tokens in _units(block.text, room - before, _ROW if block.header else _PROSE):
        if size + tokens > room:
            pieces.append([])
            size = 0
        pieces[-1].append(unit)
        size += tokens
    for place, units in enumerate(pieces):
        text = "".join(units).rstrip()
        yield replace(block, text=text, source=None) if place == 0 else Block(text, header=block.header, page=block.page)


def _units(text: str, max_tokens: int, ends: Sequence[re.Pattern[str]]) -> Iterator[tuple[str, int]]:
    """Yield a text cut behind the first kind of ends; what is too long behind the next kind, at last within words."""
    start = 0
    for end in [*(match.end() for match in ends[0].finditer(text)), len(text)]:
        unit, start = text[start:end], end
        tokens = estimate_tokens(unit)
        if tokens <= max_tokens:
            yield unit, tokens
        elif len(ends) > 1:
            yield from _units(unit, max_tokens, ends[1:])
        else:
            # No token is shorter than a character.
            pieces = (unit[place : place + max_tokens] for place in range(0, len(unit), max_tokens))
            yield from ((piece, estimate_tokens(piece)) for piece in pieces)
