"""HTML pages as blocks: text, headings, anchors and links, without navigation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from graph_retrievers.construction.acts import act_name
from graph_retrievers.construction.encodings import web_encoding
from graph_retrievers.construction.numbers import CAPTIONED
from graph_retrievers.construction.pages import Block, Page, is_power, once, squeezed, without_number
from graph_retrievers.construction.plain_text import with_headings
from graph_retrievers.construction.references import OWN, numbered_heading, references

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Elements that the HTML standard displays as blocks, and those that end a line or are read apart. All others, such as elements of a
# page's own, stand within a line.
_BLOCKS = frozenset(
    "address article aside blockquote body br caption center col colgroup dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main menu nav noscript ol optgroup option "
    "p plaintext pre search section summary table tbody tfoot thead title tr ul xmp".split()
)
_SILENT = frozenset(["script", "style", "template", "svg", "select", "textarea", "annotation"])
_OFTEN_NAVIGATION = frozenset(["nav", "footer", "button"])
# In these elements, a button is a word of their text; in a quotation, a footer names the author.
_RUNNING = frozenset(["p", "li", "dd", "td", "th"])
_NEAR = 8
_QUOTES = frozenset(["blockquote", "figure"])
_LEADS = frozenset([*_HEADINGS, "dt", "caption"])
_CELLS = frozenset(["td", "th"])
_BOLD = frozenset(["b", "strong"])
# A paragraph that is all bold introduces what follows, as a heading does.
_PARAGRAPHS = frozenset(["p", "div"])
_BAR = " | "
# The end of a line in a heading.
_BREAK = " \n "
# The number or the mark of an item of a list, which a layout puts beside its text.
_MARK = re.compile(r"(?:\d{1,3}[a-z]?|[a-z]{1,2}|[ivx]{1,5})[.)]|\((?:\d{1,3}[a-z]?|[A-Za-z]{1,2}|[ivx]{1,5})\)|[—–•]")
# The texts of links with which headings point to themselves.
_PERMALINKS = frozenset("§¶#")
# Links of headings back to the table of contents, as docutils writes them, and of notes back to their marks.
_BACK = frozenset("toc-backref fn-backref footnote-backref footnote-back data-footnote-backref doc-backlink".split())
# Links that are the mark of a note, and the marks of places in code that a list below it explains.
_MARKS = frozenset("footnote-reference footnote-ref noteref doc-noteref".split())
_NOTE = re.compile(r"#(?:fn|footnote|cite_note|_ftn|endnote|_edn|user-content-fn)", re.IGNORECASE)
# A title that is the name of a file, such as those of the Official Journal.
_FILE = re.compile(r"\S+\.(?:xml|x?html?|docx?|pdf|txt)", re.IGNORECASE)
# The same in the Official Journal, where the mark stands in brackets, not raised.
_OJ_NOTE, _OJ_MARK = re.compile(r"#ntr\d"), re.compile(r"#ntc\d")
_CALLOUTS = re.compile(r"(?:^|/)callouts/[^/]*$")
_ROLES = frozenset(["navigation", "search", "contentinfo", "banner"])
# Class names of navigation in the output of Sphinx, DocBook, MkDocs, Docusaurus, Doxygen, Javadoc and common themes; the second are
# those of navigation outside the main part of a page only, since inside they may name content, such as the boxes of Sphinx.
_NAVIGATION = frozenset("navheader navfooter sphinxsidebar headerlink skip-link skip-nav breadcrumb breadcrumbs prev-next".split())
_OUTER_NAVIGATION = frozenset("nav navbar navigation sidebar related menu pagination footer".split())
_CONTENTS = frozenset(["toc", "toctree-wrapper", "table-of-contents"])
# Most characters of a table of contents outside of links and lists, such as those of "Table of contents".
_LABEL = 40
_LISTS = frozenset(["ul", "ol", "dl"])
# The redirect of a page that leads to another within seconds; a page that reloads itself every few minutes is read.
_REFRESH = re.compile(r"""\s*\d(?:\.\d*)?\s*[;,]\s*url\s*=\s*["']?([^"'\s]+)""", re.IGNORECASE)
_URL = re.compile(r"\s*https?://", re.IGNORECASE)
_CHARSET = re.compile(rb"""(?:<meta[^<>]{0,200}?charset|<\?xml[^<>]{0,200}?encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)

# Most open elements, as the parser compares a closing tag to each; bytes that it gets at a time; most characters of a base address.
_OPEN, _PIECE, _LONGEST_BASE = 2_000, 16_384, 2_000


def read_html(text: str, *, piece: bool = False) -> Page:
    """Return an HTML page, or a piece of one, as blocks.

    Scripts, styles and navigation are left out: elements such as ``nav``, roles such as "navigation", and the class names of
    common documentation tools; a page of only navigation is read completely. If the page marks its main part (``main``,
    ``role="main"``), only that is read. The title is that of the page, else its first heading. Links are resolved against
    ``<base href>`` if there is one. On a page without headings, lines with numbers are, as in plain text (see
    :func:`~graph_retrievers.construction.plain_text.with_headings`), and an act of the European Union has its name as title. The
    address of the page is the one in its head (``canonical``, else ``og:url``). A redirect,
    by ``<meta http-equiv="refresh">`` or as "Redirecting" with one link, has no blocks, and its contents are the new address.
    Time and memory grow linearly with the text: in a page with 2,000 open elements, these count as closed from there on. In a
    `piece`, navigation is left out too, and anchors without a text make a block without text.

    >>> page = read_html('<title>Looms</title><nav>Home</nav><h2 id="cards">Cards</h2><p>See <a href="b.html">b</a>.')
    >>> page.title, [(block.text, block.level, block.anchors, block.links) for block in page.blocks]
    ('Looms', [('Cards', 2, ('cards',), ()), ('See b.', 0, (), ('b.html',))])
    """
    reader = _Reader()
    _parse(text, reader)
    parts = reader.blocks
    if not parts and not reader.contents and not piece:
        full_reader = _Reader(whole=True)
        _parse(text, full_reader)
        parts = full_reader.blocks
    if not parts and piece and (reader.anchors or reader.links):
        parts = [_PageBlock(Block("", 0), False, reader.anchors, reader.links)]
    main = [part for part in parts if part.inside]
    blocks = [part.whole() for part in main or parts]
    contents = reader.contents
    links = {link for block in blocks for link in block.links}
    if reader.refresh or (len(links) == 1 and reader.title.strip().lower().startswith("redirecting")):
        blocks, contents = [], [reader.refresh or links.pop()]
    if not _cites_headings(blocks, reader.prose):
        blocks = [replace(block, text=without_number(block.text)) if block.level else block for block in blocks]
    if reader.base:
        blocks = [replace(block, links=tuple(_absolute_link(reader.base, link) for link in block.links)) for block in blocks]
        contents = [_absolute_link(reader.base, link) for link in contents]
    heading = next((block.text for block in blocks if block.level), "")
    title = without_number(squeezed(reader.title))
    title = "" if _FILE.fullmatch(title) else title
    base = reader.base.strip() if _URL.match(reader.base) else ""
    page = Page(title or heading, blocks, once(contents), reader.canonical or reader.shared, base)
    if heading or piece:
        return page
    title = act_name(block.text for block in blocks) or title
    return page._replace(title=title, blocks=with_headings(blocks), is_title_stated=bool(title))


def _cites_headings(blocks: list[Block], prose: Iterable[str]) -> bool:
    """Return whether a page cites one of its headings by the number, outside of links: "see Section 4.2"."""
    numberings = (numbered_heading(block.text) for block in blocks if block.level and without_number(block.text) != block.text)
    headings = {(kind, number.casefold()) for kind, number, _ in filter(None, numberings)}
    cited = (reference for reference in references("".join(prose)) if reference.scope in ("", OWN)) if headings else ()
    units = ((kind, number.casefold()) for reference in cited for kind, number in reference.steps[:1] if kind not in CAPTIONED)
    return any(unit in headings or ("", unit[1]) in headings for unit in units)


def html_charset(raw: bytes) -> str:
    """Return the codec that an HTML file declares in its first 1,024 bytes, "" for none or one that browsers do not know."""
    match = _CHARSET.search(raw[:1024])
    return web_encoding(match[1].decode()) if match and not raw.startswith(b"\xef\xbb\xbf") else ""


def _parse(text: str, reader: _Reader) -> None:
    from lxml import etree

    # The parser ends at a null character; characters that UTF-8 does not have become question marks.
    data = text.replace("\0", " ").encode("utf-8", "replace")
    begin = 0
    while begin < len(data):
        # Events instead of a tree: no limit of depth.
        parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
        while begin < len(data) and reader.depth < _OPEN:
            end = data.find(b"<", begin + _PIECE)
            end = end if end >= 0 else len(data)
            parser.feed(data[begin:end])
            begin = end
        # The parser raises if there is nothing to read, as in a page of comments.
        with suppress(etree.XMLSyntaxError):
            parser.close()


@dataclass
class _PageBlock:
    """A block, whether it is in the main part of the page, and anchors and links behind its text, which no other text follows."""

    block: Block
    inside: bool
    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    def whole(self) -> Block:
        """Return the block with what is behind it."""
        if not self.anchors and not self.links:
            return self.block
        anchors, links = once([*self.block.anchors, *self.anchors]), once([*self.block.links, *self.links])
        return replace(self.block, anchors=anchors, links=links)


class _Reader:
    """A parser target: collects blocks from the events of the parser."""

    def __init__(self, whole: bool = False) -> None:
        """Begin a page; with `whole`, navigation is read too."""
        self._whole = whole
        self.refresh = ""
        # The anchors and links that belong to the next block.
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.blocks: list[_PageBlock] = []
        # The text outside of links and headings.
        self.prose: list[str] = []
        self.contents: list[str] = []
        self.title = self.base = ""
        # The addresses of the page that its head states: the canonical one, and the one to share it by.
        self.canonical = self.shared = ""
        # For each open element: (tag, what it switched on).
        self._open: list[tuple[str, str]] = []
        self._on = dict.fromkeys(["silent", "contents", "main", "pre", "title", "list", "quote", "link", "bold", "mark"], 0)
        # The state when the outermost table of contents began, and the length of the text in it: of links and lists, and of others.
        self._before: tuple[int, int, list[str], list[str]] = (0, 0, [], [])
        self._lengths = [0, 0]
        self._level, self._leads, self._row = 0, False, False
        self._parts: list[str] = []
        # Whether all text of the block so far is bold, and the names of the columns of each open table.
        self._bold = True
        self._headers: list[str] = []
        # The places in `_parts` at which the open superscripts begin.
        self._raised: list[int] = []
        # For the open row: the number of blocks before it, whether its cells name columns, and whether another row is above it.
        self._row_start, self._names, self._below = 0, False, False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        switch = self._switch(tag, attributes)
        begins = switch in ("main", "contents") and not self._on[switch]
        if tag == "br" and self._level:
            self._parts.append(_BREAK)
        elif (tag in _BLOCKS or begins) and self._reading:
            self._flush()
        if begins and switch == "main":
            # Anchors of navigation without a text, also before contents that hold the main part.
            self.anchors, self.links = [], []
            self._before = (*self._before[:2], [], [])
        elif begins:
            self._before, self._lengths = (len(self.blocks), len(self.contents), self.anchors, self.links), [0, 0]
            self.anchors, self.links = [], []
        self._open.append((tag, switch))
        if switch:
            self._on[switch] += 1
        if tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh" and self._open[-2:-1] != [("noscript", "")]:
            match = _REFRESH.match(attributes.get("content", ""))
            self.refresh = self.refresh or (match[1] if match else "")
        if self._open[-2:-1] == [("head", "")]:
            self._note_address(tag, attributes)
        href = attributes.get("href") if tag == "a" else None
        if tag == "base" and not self.base:
            base = attributes.get("href", "")
            self.base = base if len(base) <= _LONGEST_BASE else ""
        # Only the entries of the first level of a table of contents are kept: others belong to the pages of these.
        if href and self._on["contents"] and self._on["list"] <= 1 and not self._on["silent"]:
            self.contents.append(href)
        if not self._reading:
            return
        if tag == "table":
            self._headers.append("")
            self._below = False
        if tag == "tr":
            self._row_start, self._names = len(self.blocks), True
        if tag in _CELLS:
            self._names = self._names and tag == "th"
            if self._row or any(map(str.strip, self._parts)):
                self._parts.append(_BAR)
            self._row = True
        if tag in _LEADS:
            self._level, self._leads = _HEADINGS.get(tag, 0), True
        self.anchors += filter(None, (attributes.get("id"), attributes.get("name") if tag == "a" else None))
        if href and not _BACK & _names(attributes) and not _OJ_MARK.match(href):
            self.links.append(href)
        if tag == "sup":
            self._raised.append(len(self._parts))
        if tag == "img" and attributes.get("alt") and not _CALLOUTS.search(attributes.get("src", "")):
            self._parts.append(f" {attributes['alt']} ")

    def _note_address(self, tag: str, attributes: Mapping[str, str]) -> None:
        address = attributes.get("href" if tag == "link" else "content", "").strip()
        if not _URL.match(address):
            return
        if tag == "link" and "canonical" in attributes.get("rel", "").lower().split():
            self.canonical = self.canonical or address
        if tag == "meta" and attributes.get("property", "").lower() == "og:url":
            self.shared = self.shared or address

    def end(self, tag: str) -> None:
        # The parser closes what is left open; a closing tag without an opening one gives no event.
        _, switch = self._open.pop()
        if tag == "sup" and self._raised:
            self._raise(self._raised.pop())
        ends = switch in ("main", "contents") and self._on[switch] == 1
        if self._reading and (tag in _BLOCKS or ends) and not (tag == "br" and self._level):
            self._flush(tag in _PARAGRAPHS)
            if tag in _LEADS:
                self._level, self._leads = 0, False
            if tag == "tr":
                self._end_row()
            if tag == "table" and self._headers:
                self._headers.pop()
        if ends and switch == "main":
            self.close()
        elif ends:
            self._end_contents()
        if switch:
            self._on[switch] -= 1

    def _raise(self, begin: int) -> None:
        """Write a power as it is written in a line: "10^25"."""
        before = next((part for part in self._parts[min(begin, len(self._parts)) - 1 :: -1] if part), "") if begin else ""
        if is_power(before, "".join(self._parts[begin:])):
            self._parts.insert(begin, "^")

    def _end_row(self) -> None:
        """Make a row with the names of columns, if it is above all other rows, their header."""
        count = len(self.blocks) - self._row_start
        self._below = self._below or (count > 0 and not self._names)
        if count == 1 and self._headers and not self._below:
            row = self.blocks[-1]
            self._headers[-1] = row.block.text
            row.block = replace(row.block, leads=True, header="")

    def _end_contents(self) -> None:
        """Leave out what a table of contents shows, unless it turned out to be a text."""
        blocks, contents, anchors, links = self._before
        list_length, text_length = self._lengths
        if len(self.blocks) > blocks and text_length > max(list_length, _LABEL):
            del self.contents[contents:]
            first = self.blocks[blocks].block
            block = replace(first, anchors=once([*anchors, *first.anchors]))
            self.blocks[blocks].block = replace(block, links=once([*links, *first.links]))
        else:
            del self.blocks[blocks:]
            self.anchors, self.links = anchors, links

    def data(self, text: str) -> None:
        if self._on["title"]:
            self.title += text if len(self.title) < 1000 else ""
        elif self._reading and not self._on["mark"] and not (text in _PERMALINKS and self._open[-1][0] == "a"):
            self._parts.append(text)
            self.prose.append(" " if self._on["link"] or self._level else text)
            self._bold = self._bold and (self._on["bold"] > 0 or not text.strip())
            self._lengths[0 if self._on["link"] or self._on["list"] else 1] += len(text.strip())

    def comment(self, text: str) -> None:
        """Leave out comments."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Leave out processing instructions."""

    def close(self) -> None:
        """Give anchors and links that no text follows to the last block."""
        if self.blocks:
            self.blocks[-1].anchors += self.anchors
            self.blocks[-1].links += self.links
            self.anchors, self.links = [], []

    @property
    def depth(self) -> int:
        """Number of open elements."""
        return len(self._open)

    @property
    def _reading(self) -> bool:
        return not self._on["silent"]

    def _switch(self, tag: str, attributes: Mapping[str, str]) -> str:
        """Return what an element switches on until it ends, "" for nothing."""
        classes = attributes.get("class", "").lower().split()
        role = attributes.get("role", "").lower()
        is_whole = tag in ("html", "body", "main") or role == "main"
        if not is_whole:
            navigation = _NAVIGATION if self._on["main"] else _NAVIGATION | _OUTER_NAVIGATION
            is_hidden = attributes.get("aria-hidden") == "true"
            if tag in _SILENT or (not self._whole and (role in _ROLES or is_hidden or not navigation.isdisjoint(classes))):
                return "silent"
            if tag in _OFTEN_NAVIGATION and not self._whole and not self._is_text(tag):
                return "silent"
        if tag in _LISTS and self._on["contents"]:
            return "list"
        # mdBook lists the chapters of a book so.
        chapters = tag == "ol" and "chapter" in classes
        if not is_whole and (chapters or not _CONTENTS.isdisjoint(classes) or {"contents", "topic"} <= {*classes}):
            return "contents"
        if tag == "title" and self._reading:
            return "title"
        href = attributes.get("href", "")
        is_note = (self._open[-1:] == [("sup", "")] and _NOTE.match(href)) or _OJ_NOTE.match(href)
        if "conum" in classes or (tag == "a" and (is_note or _MARKS & _names(attributes))):
            return "mark"
        if tag == "main" or role == "main":
            return "main"
        return "pre" if tag == "pre" else "link" if tag == "a" else "bold" if tag in _BOLD else "quote" if tag in _QUOTES else ""

    def _is_text(self, tag: str) -> bool:
        """Return whether a button is a word of a text, or a footer names who is quoted."""
        if tag == "button":
            return (
                next((outer_tag for outer_tag, _ in self._open[: -_NEAR - 1 : -1] if outer_tag in _BLOCKS | _CELLS), "") in _RUNNING
            )
        return tag == "footer" and self._on["quote"] > 0

    def _flush(self, paragraph: bool = False) -> None:
        """End a block, a paragraph or another; anchors and links without text go to the next one."""
        # Empty cells at the end of a row are nothing to read.
        while self._parts and (self._parts[-1] is _BAR or not self._parts[-1].strip()):
            self._parts.pop()
        text = "".join(self._parts)
        text = text.strip("\n").rstrip() if self._on["pre"] else squeezed(text)
        below = self._unit_below() if self._level else ""
        leads, header = self._leads or (paragraph and self._bold and not self._headers), "".join(self._headers[-1:])
        self._parts, self._row, self._bold = [], False, True
        self.prose.append("\n")
        if text:
            text = text.removesuffix(below).rstrip() if self._level else text
            block = Block(text, self._level, once(self.anchors), once(self.links), leads, None, header)
            last = self.blocks[-1].block if self.blocks else None
            if last is not None and not self._level and not last.level and _MARK.fullmatch(last.text):
                anchors, links = once([*last.anchors, *block.anchors]), once([*last.links, *block.links])
                block = replace(block, text=f"{last.text} {text}", anchors=anchors, links=links)
                self.blocks.pop()
            self.blocks.append(_PageBlock(block, self._on["main"] > 0))
            if below:
                self.blocks.append(_PageBlock(Block(below, min(self._level + 1, 6), leads=True), self._on["main"] > 0))
            self.anchors, self.links, self._level, self._leads = [], [], 0, False

    def _unit_below(self) -> str:
        """Return the lines of a heading from the one on that begins a unit: "§ 2 Cards" below the name of a law; "" for none."""
        breaks = (place for place, part in enumerate(self._parts) if part is _BREAK)
        lines = (squeezed("".join(self._parts[place:])) for place in breaks if any(map(str.strip, self._parts[:place])))
        return next((line for line in lines if (numbering := numbered_heading(line)) and numbering[0]), "")


def _names(attributes: Mapping[str, str]) -> set[str]:
    """Return the classes and the role of an element."""
    return {*attributes.get("class", "").lower().split(), *attributes.get("role", "").lower().split()}


def _absolute_link(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link
