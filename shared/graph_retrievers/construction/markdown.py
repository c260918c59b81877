"""Markdown pages as blocks: the text that a person reads, the source, anchors and links."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from typing import Any

from graph_retrievers.construction.front_matter import front_matter, names_of, tags_in
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.inline_fields import inline_fields, is_relation, only_links, with_inline
from graph_retrievers.construction.pages import Block, Page, is_power, plain_lines
from graph_retrievers.construction.slugs import slug, split_anchor
from graph_retrievers.construction.wiki_links import (
    LOGSEQ,
    WIKI_LINK,
    link_of_address,
    links_in_words,
    links_of_tags,
    property_pages,
    tags_of,
    wiki_link,
    without_block_links,
    without_macros,
)
from graph_retrievers.graph.addresses import is_other_file
from graph_retrievers.graph.file_endings import MARKDOWN

# "{: #anchor }" of MkDocs, behind a word or a paragraph.
_ATTRIBUTES = re.compile(r"\{:[^{}#]*+#([^\s{}]++)[^{}]*+\}")
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_BREAKS = ("softbreak", "hardbreak")
# The line below the names of the columns of a table, and lines between its rows.
_RULE = re.compile(r"[\s:=+-]*+\|[\s:=+|-]*+|\+[-=+]++")
_WHOLES = ("bullet_list_open", "ordered_list_open", "table_open")
_DEPTHS = {"list_item_open": 1, "tr_open": 2}
_BAR = " | "
# The id of a block: of Obsidian at the end of its last line or on a line below it, of Logseq on a line of its own.
_BLOCK_ID = re.compile(r"(?:^|(?<=\s))\^([A-Za-z0-9-]+)$")
_UUID = re.compile(r"id::[ \t]*([0-9a-fA-F]{8}-[0-9a-fA-F-]{27})")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\n]{1,60}\]:[ \t]*\[\[")
# Properties of blocks of Logseq that say nothing of the page.
_OF_BLOCKS = frozenset(["id", "collapsed"])
# Characters of what may be an id of a block or a power, such as "10 ^6".
_SHORT = 3


def read_markdown(
    text: str, references: MutableMapping[str, Any] | None = None, seen: Counter[str] | None = None, kind: str = ""
) -> Page:
    r"""Return a Markdown page, or a piece of one, as blocks.

    The text of a block is what a person reads: the words of links without their addresses, the descriptions of pictures, code,
    and no tags, comments or marks of emphasis. The source is kept too, except for HTML that forms separate blocks. Items of lists
    and rows of tables are blocks. Anchors are the slugs of headings as GitHub makes them, ``{#names}`` after headings,
    ``{: #names }`` anywhere, and those of HTML elements. The title is the ``title`` of the front matter, else the first heading.
    Other names of the page, its ``aliases``, are a block below the first heading.

    A wiki link ``[[Page#Heading|shown]]`` reads "shown", or "Page > Heading"; its address is ``[[Page#heading]]``, which
    :class:`~graph_retrievers.construction.address_book.AddressBook` resolves by the name of the page. Fields in the text, such as
    ``year:: 1804``, and its tags are fields of the page, besides those of the front matter; a field that holds wiki links alone
    gives the `linked` of its block. The id of a block, ``^id`` of Obsidian or ``id:: ...`` of Logseq, is an anchor. `kind` is the
    kind of the notes of which this is one, see :func:`~graph_retrievers.construction.vaults.vault_kind`.

    `references` are definitions such as ``[name]: address`` from other pieces of the page, as :func:`reference_definitions` gives
    them. `seen` counts the slugs of earlier pieces of the page; those of this piece are added.

    >>> page = read_markdown("# Jacquard looms\nSee [cards](cards.md#holes).")
    >>> page.title, [(block.text, block.level, block.anchors, block.links) for block in page.blocks]
    ('Jacquard looms', [('Jacquard looms', 1, ('jacquard-looms',), ()),
                        ('See cards.', 0, (), ('cards.md#holes',))])
    >>> page.blocks[1].source
    'See [cards](cards.md#holes).'
    """
    fields, text = front_matter(plain_lines(text))
    stated_title = str(fields.get("title") or "").strip()
    lines = text.split("\n")
    seen = Counter() if seen is None else seen
    pieces: list[_Piece] = []
    # Anchors and links of comments, empty elements and the like wait here for the next text.
    waiting = _Piece(0, links=links_of_tags(tags_in(fields), kind))
    field_pairs: list[tuple[str, str]] = []
    tags: list[str] = []
    # The lines keep their numbers.
    text = without_macros(text) if kind == LOGSEQ else text
    for piece in _pieces(_parser().parse(text, {"references": ChainMap({}, references or {}), "kind": kind}), kind):
        if piece.level and piece.in_source:
            _name(piece, seen)
        piece.drop_typed()
        field_pairs += piece.fields
        tags += piece.tags
        if not piece.text and pieces and piece.anchors and all(name.startswith("^") for name in piece.anchors):
            # The last anchor of a heading stays its own.
            anchors = [pieces[-1].anchors.pop()] if pieces[-1].level and pieces[-1].anchors else []
            pieces[-1].anchors += piece.anchors + anchors
            piece.anchors = []
        waiting.take(piece)
        if piece.text:
            pieces.append(replace(piece, anchors=waiting.anchors, links=waiting.links, linked=waiting.linked))
            waiting = _Piece(0)
    if waiting.anchors or waiting.links or waiting.linked:
        pieces = pieces or [_Piece(len(lines))]
        pieces[-1].take(waiting)
    blocks = [
        Block(
            piece.text,
            piece.level,
            tuple(dict.fromkeys(filter(None, piece.anchors))),
            tuple(dict.fromkeys(piece.links)),
            piece.leads,
            "\n".join(lines[piece.line : next_piece.line if next_piece else None]) if piece.in_source else None,
            piece.header,
            tuple(dict.fromkeys(piece.linked)),
        )
        for piece, next_piece in zip_longest(pieces, pieces[1:])
    ]
    if kind == LOGSEQ:
        stated_title = stated_title or next((value for name, value in field_pairs if name.casefold() == "title"), "")
        field_pairs = [(name, value) for name, value in field_pairs if name not in _OF_BLOCKS]
    if field_pairs or tags:
        fields = with_inline(fields, field_pairs, list(dict.fromkeys(tags)))
    heading = next((block.text for block in blocks if block.level), "")
    return Page(stated_title or heading, with_names(blocks, names_of(fields)), is_title_stated=bool(stated_title), fields=fields)


def with_names(blocks: list[Block], names: Sequence[str]) -> list[Block]:
    """Return blocks with the other names of a page below its first heading, those that its text does not have anyway."""
    text = "\n".join(block.text for block in blocks).casefold() if names else ""
    missing = [name for name in names if name.casefold() not in text]
    place = 1 if blocks and blocks[0].level else 0
    return [*blocks[:place], Block(", ".join(missing)), *blocks[place:]] if missing else blocks


def reference_definitions(text: str) -> dict[str, Any]:
    """Return the definitions ``[name]: address`` of a text, in the form of the parser."""
    env: dict[str, Any] = {}
    _parser().parse(plain_lines(text), env)
    return dict(env.get("references", {}))


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.block.ruler.before("table", "deep", _deep)
    parser.block.ruler.before("reference", "wiki_footnote", _wiki_footnote)
    # The rule comes after those of Markdown, so that "[[1]](address)" stays a link of Markdown.
    parser.inline.ruler.after("image", "wiki_link", _wiki_link)
    return parser


def _deep(state: Any, begin: int, end: int, silent: bool) -> bool:
    """Read blocks at the greatest depth of the parser as one paragraph, since it leaves out deeper ones; a list has two levels."""
    if state.level < state.md.options.maxNesting - 2:
        return False
    line = last = begin
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        last = last if state.isEmpty(line) else line
        line += 1
    for kind, nesting in (("paragraph_open", 1), ("inline", 0), ("paragraph_close", -1)):
        token = state.push(kind, "p" if nesting else "", nesting)
        token.map = [begin, last + 1]
        if not nesting:
            token.content, token.children = state.getLines(begin, last + 1, state.blkIndent, False).strip(), []
    state.line = last + 1
    return True


def _wiki_link(state: Any, silent: bool) -> bool:
    """Read a link by the name of a page, as a rule of the parser: True if there is one at ``state.pos``."""
    match = WIKI_LINK.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "![" else None
    before = state.src[state.pos - 1 : state.pos]
    # The index in "x[[1]]" and the words of "[name]: address" are not links.
    if match is None or (before.isascii() and before.isalnum()) or match[2].upper() in state.env.get("references", {}):
        return False
    link = wiki_link(match, state.env.get("kind", ""))
    if link is None:
        return False
    if not silent:
        state.push("link_open", "a", 1).attrs = {"href": link.address}
        state.push("text", "", 0).content = (
            "" if link.embeds and is_other_file(link.address[2:-2].partition("#")[0]) else link.label
        )
        state.push("link_close", "a", -1)
    state.pos = match.end()
    return True


def _wiki_footnote(state: Any, begin: int, end: int, silent: bool) -> bool:
    """Read a footnote that is a wiki link, which would be the definition of an address, as a paragraph."""
    start = state.bMarks[begin] + state.tShift[begin]
    match = None if silent else _FOOTNOTE.match(state.src, start, state.eMarks[begin])
    if match is None:
        return False
    for kind, nesting in (("paragraph_open", 1), ("inline", 0), ("paragraph_close", -1)):
        token = state.push(kind, "p" if nesting else "", nesting)
        token.map = [begin, begin + 1]
        if not nesting:
            token.content, token.children = state.src[start : state.eMarks[begin]].strip(), []
    state.line = begin + 1
    return True


@dataclass
class _Piece:
    """A block that is being read: where it begins, what a person reads, and of a heading what its slug is made of.

    `fields` and `tags` are those in its text, and `linked` the links in fields; `kind` is the kind of the notes.
    """

    line: int
    level: int = 0
    text: str = ""
    name: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    leads: bool = False
    in_source: bool = True
    header: str = ""
    kind: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    linked: list[tuple[str, str]] = field(default_factory=list)

    def read(self, inline: Any) -> str:
        """Return what a person reads of a line or paragraph, and add its anchors, links and fields."""
        self.note(inline.content)
        return self.read_parts(inline.children or ())

    def note(self, source: str) -> None:
        """Add the fields in the source of a paragraph, and the links in them."""
        for name, value in inline_fields(source):
            self.fields.append((name, value))
            if is_relation(name):
                self.linked += [(name, link) for link in only_links(value, self.kind)]
            elif self.kind == LOGSEQ and name.casefold() in ("tags", "tag"):
                self.links += property_pages(value)

    def read_parts(self, tokens: Sequence[Any]) -> str:
        """Return what a person reads of some tokens, and note their anchors and links."""
        parts: list[str] = []
        exponent_start = None
        for token in tokens:
            if token.type == "html_inline" and token.content.lower() == "<sup>":
                exponent_start = len(parts)
            elif token.type == "html_inline" and token.content.lower() == "</sup>" and exponent_start is not None:
                if is_power("".join(parts[max(exponent_start - 1, 0) : exponent_start]), "".join(parts[exponent_start:])):
                    parts.insert(exponent_start, "^")
                exponent_start = None
            elif token.type == "link_open":
                self.links.append(link_of_address(str(token.attrs.get("href", ""))))
            elif token.type == "html_inline":
                blocks = read_html(token.content, piece=True).blocks
                self.anchors += [anchor for block in blocks for anchor in block.anchors]
                self.links += [link for block in blocks for link in block.links]
                parts.append("\n" if _BREAK.match(token.content) else " ".join(block.text for block in blocks))
            elif token.type == "image":
                address = str(token.attrs.get("src", ""))
                # A note that is embedded.
                self.links += [address] if address.partition("#")[0].lower().endswith(MARKDOWN) else []
                parts.append(_Piece(0).read_parts(token.children or ()))
            elif token.type in _BREAKS:
                parts.append("\n")
            elif token.type == "text":
                self.anchors += _ATTRIBUTES.findall(token.content)
                self.tags += tags_of(token.content)
                self.links += links_in_words(token.content, self.kind)
                # The ids in a heading are removed when all of it was read.
                parts.append(token.content if self.level else without_block_links(_ATTRIBUTES.sub("", token.content)))
            elif token.type == "code_inline":
                parts.append(token.content)
            if self.level and token.type in ("text", "code_inline"):
                self.name.append(token.content)
        lines = (line.strip() for line in "".join(parts).split("\n"))
        if not self.level:
            lines = (self.without_id(line) for line in lines)
        return "\n".join(line for line in lines if line and not _RULE.fullmatch(line))

    def without_id(self, line: str) -> str:
        """Return a line without the id of its block, and note this as an anchor."""
        if "^" in line and (match := _BLOCK_ID.search(line)):
            self.anchors.append(f"^{match[1]}")
            is_alone = not line[: match.start()].strip()
            return line if match[1].isdecimal() or (len(match[1]) < _SHORT and not is_alone) else line[: match.start()].rstrip()
        if line.startswith("id::") and (match := _UUID.fullmatch(line)):
            self.anchors.append(match[1].lower())
            return ""
        return line

    def drop_typed(self) -> None:
        """Leave out of the links those that a field holds."""
        if self.linked:
            field_links = {link for _, link in self.linked}
            self.links = [link for link in self.links if link not in field_links]

    def take(self, other: _Piece) -> None:
        """Add the anchors and the links of another piece."""
        self.anchors += other.anchors
        self.links += other.links
        self.linked += other.linked


def _name(piece: _Piece, slug_counts: Counter[str]) -> None:
    """Give a heading its anchor: the one that it names, else its slug."""
    piece.text, anchor = split_anchor(" ".join(piece.text.split()))
    if anchor and piece.text:
        piece.anchors.append(anchor)
    elif not anchor:
        name = slug("".join(piece.name))
        piece.anchors.append(f"{name}-{slug_counts[name]}" if slug_counts[name] else name)
        slug_counts[name] += 1


def _pieces(tokens: Sequence[Any], kind: str) -> Iterator[_Piece]:
    """Yield the blocks of a page: list items, rows of tables and what HTML has as blocks one by one."""
    # Deeper blocks belong to the top-level block, the item of a top-level list or the row of a top-level table around them.
    begins = [
        place
        for place, token in enumerate(tokens)
        if token.map is not None and token.type not in _WHOLES and token.level == _DEPTHS.get(token.type, 0)
    ]
    header = ""
    for begin, end in zip_longest(begins, begins[1:]):
        first, part = tokens[begin], tokens[begin:end]
        line = first.map[0]
        if first.type == "html_block":
            for block in read_html(first.content, piece=True).blocks:
                references = list(block.anchors), list(block.links)
                yield _Piece(line, block.level, block.text, [], *references, block.leads, False, block.header)
        elif first.type == "paragraph_open":
            yield from _paragraph(line, part[1], first.map[1] - line, kind)
        else:
            piece = _Piece(line, int(first.tag[1]) if first.type == "heading_open" else 0, kind=kind)
            piece.text = _text(piece, part)
            is_header = any(token.type == "th_open" for token in part) and first.type == "tr_open"
            header = piece.text if is_header else header
            piece.leads = is_header or piece.level > 0
            piece.header = header if first.type == "tr_open" and not is_header else ""
            yield piece


def _text(piece: _Piece, tokens: Sequence[Any]) -> str:
    """Return what a person reads of a block: a line for each paragraph and row, and code as it is."""
    lines: list[str] = []
    row: list[str] | None = None
    mark = ""
    for token in tokens:
        text = ""
        if token.type == "list_item_open":
            mark = f"{token.info}{token.markup} "
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close" and row is not None:
            while row and not row[-1]:
                row.pop()
            is_rule = all(_RULE.fullmatch(f"|{cell}") for cell in row)
            text, row = "" if is_rule else _BAR.join(row).strip(), None
        elif token.type == "inline" and row is not None:
            row.append(piece.read(token).replace("\n", " "))
        elif token.type == "inline":
            text = piece.read(token)
        elif token.type in ("fence", "code_block"):
            text = token.content.strip("\n").rstrip()
        elif token.type == "html_block":
            blocks = read_html(token.content, piece=True).blocks
            piece.anchors += [anchor for block in blocks for anchor in block.anchors]
            piece.links += [link for block in blocks for link in block.links]
            text = "\n".join(block.text for block in blocks if block.text)
        if text:
            lines.append(mark + text)
            mark = ""
    return "\n".join(lines)


def _paragraph(line: int, inline: Any, count: int, kind: str) -> Iterator[_Piece]:
    """Yield a paragraph of `count` lines, or the rows of a table that GitHub would not read as one, as without a header."""
    tokens = inline.children
    breaks = [place for place, token in enumerate(tokens) if token.type in _BREAKS]
    parts = [tokens[begin + 1 : end] for begin, end in zip([-1, *breaks], [*breaks, len(tokens)], strict=True)]
    texts = ["".join(token.content for token in part).strip() for part in parts]
    mask = [_RULE.fullmatch(text) is not None for text in texts]
    rows = [place for place, is_rule in enumerate(mask) if not is_rule]
    have_cells = all("|" in texts[row] for row in rows) and (any(mask) or all(text.startswith("|") for text in texts))
    if have_cells and 1 < len(parts) == count:
        header = ""
        for row in rows:
            is_header = row == rows[0] and mask[row + 1 : row + 2] == [True]
            piece = _Piece(line + row, leads=is_header, header=header, kind=kind)
            if row == rows[0]:
                piece.note(inline.content)
            piece.text = _BAR.join(cell.strip() for cell in piece.read_parts(parts[row]).strip("|").split("|")).strip(" |")
            header = piece.text if is_header else header
            yield piece
        return
    piece = _Piece(line, kind=kind)
    piece.text = piece.read(inline)
    piece.leads = bool(piece.text) and _bold(tokens)
    yield piece


def _bold(tokens: Sequence[Any]) -> bool:
    """Return whether a paragraph is bold from its first word to its last, as a heading that is not marked as one."""
    depth = 0
    for token in tokens:
        depth += (token.type == "strong_open") - (token.type == "strong_close")
        if not depth and token.content.strip() and token.type != "html_inline":
            return False
    return True
