"""Edges from hyperlinks: HTML anchors and Markdown links in the texts of nodes, or links in metadata."""

from __future__ import annotations

import logging
import re
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph_retrievers.arguments import typed
from graph_retrievers.construction.address_book import AddressBook, check_site
from graph_retrievers.construction.anchors import Anchors, Heading, headings_of
from graph_retrievers.construction.dead_links import advice_on
from graph_retrievers.construction.front_matter import linked_fields, other_links
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.markdown import read_markdown, reference_definitions
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.construction.vaults import is_block_id, names_of_notes, parents, vault_kind
from graph_retrievers.construction.wiki_links import DENDRON, WIKI_LINK, wiki_link
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError, few, shown
from graph_retrievers.graph.addresses import ADDRESS_FIELDS, page_address
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.file_endings import HTML, MARKDOWN

__all__ = ["Links"]

logger = logging.getLogger(__name__)

_TAG = re.compile(r"<[a-zA-Z!/]")
_HTML_LINK = re.compile(r"<a\s", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(r"\]\([^\s)]")
_MARKDOWN = re.compile(r"\[|#|@|^ {0,3}(?:=+|-+)[ \t]*$|<https?://|::|\(\(|\^[A-Za-z0-9-]+[ \t]*$", re.MULTILINE)
# If all chunks of a page have the same list of links, the texts of at most this number are searched for in the chunks.
_MOST_TEXTS = 1_000
# A link that more than half of the pages have is navigation; below this number of pages, that says nothing.
_FEW_PAGES = 10
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})([^`\n]*)$", re.MULTILINE)
_BAR = re.compile(r"\[\[([^\[\]|\n]*)(?<!\\)\|")
# The name of a field in a text.
_INLINE = re.compile(r"(?<!\w)(\w++)::")
# Front matter without its end.
_CUT = re.compile(r"---\n(?:(?:[\w-]+:|[ \t]|- )[^\n]*+(?:\n|\Z))++")
_NOWHERE = "\0"
# The fields in which read_folder keeps links, and the names of further fields with links.
_KEPT, _LINKED = "links", "linked"
# The field in which ObsidianReader keeps the names in wiki links, some of which its text may lack.
_WIKI_LINKS = "wikilinks"
_OWN_ANCHORS = re.compile(r"top$|.*:~:", re.IGNORECASE)
# Characters that chunks share at most; splitters let some hundreds overlap.
_OVERLAP = 4_000


class Links(EdgeSpec):
    """Hyperlinks between pages and their chunks: ``<a href>``, Markdown and wiki links, or a metadata field with addresses.

    A link with a ``#fragment`` leads to the chunk that contains the anchor: an HTML id, the slug of a Markdown heading, a heading
    that a splitter wrote into the metadata, or for wiki links a heading in Obsidian's spelling and the id of a block. Any other
    link leads to the first chunk of the page, as does one whose anchor is not found. A field of front matter or of the text that
    holds wiki links alone, such as ``up:: [[Home]]``, gives edges with its name as relation. Notes of Logseq and Dendron are
    recognised by their files (see :func:`~graph_retrievers.construction.vaults.vault_kind`) and read by their rules: tags are
    links, and a note of Dendron has an edge ``parent`` to the one above it.

    Links to pages outside the corpus are skipped and counted in the log, which names those that should lead to a page or an
    anchor: links that are relative or below `site`. If nearly all of these lead nowhere, a warning says what may be the reason.
    Links that occur on more than half of at least ten pages are skipped too, because these are navigation, except wiki links and
    those that ``read_folder`` kept of Markdown. LlamaIndex nodes with children, whose texts repeat theirs, are not read.

    Parameters
    ----------
    url_field : str, optional
        Metadata field with the address of a node's page: a URL, or a path such as ``guide/start.md``. By default the first of
        ``url``, ``source``, ``path`` and ``file_path``, which the loaders of LangChain and LlamaIndex write. Chunks of a page have
        the same address, in the order of the page.
    field : str, optional
        Metadata field with the links, to read instead of the text, for loaders that drop tags: an address, a list of addresses, or
        a list of mappings with ``url`` (or ``href``) and ``text``. If all chunks of a page have the same list, because a splitter
        copied it, a link starts at the first chunk with its ``text`` (of the first 1,000 texts), else at the page's first chunk.
        With "links", where ``read_folder`` keeps links, the fields that it names in ``linked`` are read too.
    relation : str, default "links"
    site : str, default ""
        Where pages with paths as addresses are published, such as ``https://docs.example.org/guide``, or the address of their
        repository: links to addresses below it lead to these pages.

    Raises
    ------
    InvalidArgumentError
        If `site` is not a URL, no node has an address, or none has the field.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> nodes = [
    ...     Node("a", "See [the cards](b.md#cards).", metadata={"source": "docs/a.md"}),
    ...     Node("b1", "# Looms", metadata={"source": "docs/b.md"}),
    ...     Node("b2", "## Cards", metadata={"source": "docs/b.md"}),
    ... ]
    >>> build_edges(nodes, Links())
    [('a', 'b2', 'links')]
    """

    @typed
    def __init__(self, url_field: str | None = None, *, field: str | None = None, relation: str = "links", site: str = "") -> None:
        check_site(site)
        self.url_field, self.field, self.relation, self.site = url_field, field, relation, site

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the nodes and of their links."""
        fields = ADDRESS_FIELDS if self.url_field is None else (self.url_field,)
        # A node without an address is its own page.
        addresses = [page_address(node.metadata, fields) or f"{_NOWHERE}{row}" for row, node in enumerate(corpus.nodes)]
        if all(address.startswith(_NOWHERE) for address in addresses):
            names = " or ".join(map(repr, fields))
            raise NothingToReadError(
                f"No node has the metadata field {names}, so links cannot be resolved; put the address of each node's page there, "
                "or name the field in Links(url_field=...)."
            )
        if self.field is not None and self.field not in corpus.fields:
            field_names = ", ".join(sorted(corpus.fields))
            raise NothingToReadError(
                f"No node has the metadata field {self.field!r} of {self!r}; the metadata fields are: {field_names}."
            )
        pages = corpus.pages(addresses).rows
        contents = self._contents_of(corpus.nodes, pages)
        page_addresses = [address for address in pages if not address.startswith(_NOWHERE)]
        book = AddressBook(page_addresses, [self.site], names=contents.names)
        bases = ["" if address.startswith(_NOWHERE) else address for address in addresses]
        target_lists = [
            [contents.blocks.get(link[2:-2]) if link.startswith("((") else book.find(link, base) for link, _ in links]
            for base, links in zip(bases, contents.links, strict=True)
        ]
        flag_lists = [
            [_may_be_navigation(node, *pair, address) for pair in links]
            for node, links, address in zip(corpus.nodes, contents.links, addresses, strict=True)
        ]
        common_targets = _navigation(target_lists, flag_lists, addresses, len(pages))
        if common_targets:
            phrase = f"{len(common_targets)} places" if len(common_targets) > 1 else "a place"
            logger.info("%r: skipped links to %s that more than half of the pages link to.", self, phrase)
        edges: list[tuple[str, str, str]] = []
        absent, alive, outcomes = 0, 0, Counter[bool]()
        misses: dict[str, None] = {}
        dead_links: list[str] = []
        unknown: dict[str, None] = {}
        places: dict[str, Anchors] = {}
        for row, targets in enumerate(target_lists):
            for (link, relation), target, counts in zip(contents.links[row], targets, flag_lists[row], strict=True):
                alive += target is not None
                if target is None:
                    absent += 1
                    if book.misses(link, bases[row]):
                        dead_links.append(link)
                        misses[f"{shown(link, 60)} on {shown(bases[row], 60)}"] = None
                if target is None or (counts and target in common_targets):
                    continue
                page, fragment = target
                first_row = pages[page][0]
                if fragment and page not in places:
                    places[page] = Anchors(
                        (at, contents.anchors[at], contents.headings[at], corpus.nodes[at]) for at in pages[page]
                    )
                goal = places[page].get(fragment) if fragment else first_row
                if fragment and len(pages[page]) > 1:
                    outcomes[goal is not None] += 1
                if goal is None and not _OWN_ANCHORS.match(fragment):
                    unknown[f"{shown(link, 60)} on {shown(bases[row] or corpus.nodes[row].id, 60)}"] = None
                end = corpus.nodes[first_row if goal is None else goal].id
                edges.append((corpus.nodes[row].id, end, relation or self.relation))
        for page, parent in contents.parents.items():
            edges.append((corpus.nodes[pages[page][0]].id, corpus.nodes[pages[parent][0]].id, "parent"))
        has_kept_links = self.field is None and _KEPT in corpus.fields
        # Pages that read_folder read may have no link.
        is_ours = self.field == _KEPT and "anchors" in corpus.fields
        if not is_ours and (not any(contents.links) or (has_kept_links and not edges)):
            where = "the texts" if self.field is None else f"the field {self.field!r}"
            advice = f"read_folder keeps links in the metadata field {_KEPT!r}: Links(field={_KEPT!r})."
            if not has_kept_links:
                advice = "If a splitter or loader dropped the tags, keep them, or name the metadata field that holds the links: "
                advice += "Links(field=...)."
            logger.warning("%r found no link in %s. %s", self, where, advice)
        if outcomes[False] and not outcomes[True]:
            logger.warning(
                "%r: links that name an anchor: %d, anchors found: 0; they lead to the first chunk of the page. A splitter that "
                "drops tags drops the anchors too; keep the tags, or read the pages with read_folder.",
                self,
                outcomes[False],
            )
        note = f"{_note('; links to pages that are not there', misses)}{_note('; links to anchors that are not there', unknown)}"
        return SpecEdges(edges, absent, note, advice_on(dead_links, alive, page_addresses, corpus.nodes))

    def _contents_of(self, nodes: Sequence[Node], pages: Mapping[str, list[int]]) -> _Contents:
        """Return the links of each node, and the names by which links find it; `pages` are its rows by the address of a page."""
        kind = _kind(nodes, pages) if self.field is None else ""
        contents = _Contents([[] for _ in nodes], [() for _ in nodes], [[] for _ in nodes])
        fields: dict[str, Mapping[str, Any]] = {}
        for address, rows in pages.items():
            # Texts are read for links, and for anchors that the metadata do not name.
            text_rows = [row for row in rows if self.field is None or "anchors" not in nodes[row].metadata]
            markdown, html = _formats(address, [nodes[row].text for row in text_rows])
            definition_maps = [
                reference_definitions(text) if markdown and "]:" in text else {} for text in (nodes[r].text for r in text_rows)
            ]
            references: dict[str, Any] = {}
            for definitions in reversed(definition_maps):
                references |= definitions
            slug_counts: Counter[str] = Counter()
            old_text, fence = "", ""
            for row, own_definitions in zip(text_rows, definition_maps, strict=True):
                text = nodes[row].text
                # The definitions of a chunk come before those of others.
                if slug_counts:
                    _uncount(slug_counts, old_text, text)
                if _WIKI_LINKS in nodes[row].metadata:
                    # ObsidianReader drops empty lines, so that a line behind a table is read as a row, where bars are escaped.
                    text = _BAR.sub(r"[[\1\\|", text)
                fence, start = _fences(old_text, text, fence)
                part = _read_text(text[start:], markdown, html, ChainMap(own_definitions, references), slug_counts, kind)
                contents.links[row], contents.anchors[row], contents.headings[row] = part.links, part.anchors, part.headings
                if row == rows[0]:
                    fields[address] = dict(nodes[row].metadata) | part.fields
                old_text = nodes[row].text
            for row in rows:
                if "anchors" in nodes[row].metadata:
                    contents.anchors[row] = _strings(nodes[row].metadata["anchors"])
            if self.field is not None:
                for row in rows:
                    contents.links[row] = []
                for row, link in _field_links(nodes, rows, self.field):
                    contents.links[row].append((link, ""))
                for row in rows if self.field == _KEPT else ():
                    contents.links[row] += _linked(nodes[row])
            else:
                for row, link in _lost_links(nodes, rows, kind):
                    contents.links[row].append((link, ""))
                contents.links[rows[0]] += _metadata_links([nodes[row] for row in rows])
            for row in rows:
                for name in contents.anchors[row]:
                    if is_block_id(name):
                        contents.blocks.setdefault(name, (address, name))
        contents.names = names_of_notes(kind, fields)
        contents.parents = parents(address for address in pages if address.lower().endswith(MARKDOWN)) if kind == DENDRON else {}
        return contents


@dataclass
class _Contents:
    """The links of each node, with the name of the field that holds them or "", its anchors and its headings.

    `blocks` are pages and anchors by the ids of blocks, `names` further names of pages, and `parents` the notes above notes.
    """

    links: list[list[tuple[str, str]]]
    anchors: list[Sequence[str]]
    headings: list[Sequence[Heading]]
    blocks: dict[str, tuple[str, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _ReadText:
    """The links of a text, with the name of the field that holds each or "", its anchors, its headings and its fields."""

    links: list[tuple[str, str]]
    anchors: list[str]
    headings: list[Heading]
    fields: dict[str, Any]


def _kind(nodes: Sequence[Node], pages: Mapping[str, list[int]]) -> str:
    """Return the kind of notes that the pages are."""
    firsts = {address: nodes[rows[0]] for address, rows in pages.items()}
    return vault_kind({a: node.text for a, node in firsts.items()}, {a: node.metadata for a, node in firsts.items()})


def _linked(node: Node) -> Iterable[tuple[str, str]]:
    """Yield the links in the fields of a node that read_folder names, with the names."""
    for name in _strings(node.metadata.get(_LINKED, ())):
        yield from ((link, name) for link in _items(node, name) if isinstance(link, str))


def _lost_links(nodes: Sequence[Node], rows: Sequence[int], kind: str) -> Iterable[tuple[int, str]]:
    """Yield (row, address) for the wiki links that ObsidianReader found on a page and that its texts have no more."""
    if not any(_WIKI_LINKS in nodes[row].metadata for row in rows):
        return
    names = {match[2].removesuffix("\\").strip() for row in rows for match in WIKI_LINK.finditer(nodes[row].text)}
    for row in rows:
        link_names = nodes[row].metadata.get(_WIKI_LINKS)
        for name in link_names if isinstance(link_names, (list, tuple)) else ():
            match = WIKI_LINK.fullmatch(f"[[{name}]]") if isinstance(name, str) else None
            if match and match[2].strip() not in names and (link := wiki_link(match, kind)):
                # A splitter copies the list to all chunks.
                names.add(match[2].strip())
                yield row, link.address


def _metadata_links(chunks: Sequence[Node]) -> Iterable[tuple[str, str]]:
    """Yield the links in metadata that a loader read from the front matter of a note, with the names of their fields."""
    metadata = chunks[0].metadata
    if "anchors" in metadata or not any(isinstance(value, (str, list)) and "[[" in str(value) for value in metadata.values()):
        return
    # Some loaders read fields in the text too, where they are found in their chunk.
    field_names = {name for node in chunks for name in _INLINE.findall(node.text)}
    fields = {name: value for name, value in metadata.items() if name not in field_names}
    for name, links in linked_fields(fields).items():
        yield from ((link, name) for link in links)
    yield from ((link, "") for link in other_links(fields))


def _uncount(slug_counts: Counter[str], before: str, text: str) -> None:
    """Subtract the headings that a chunk repeats from the end of the one before from the headings counted so far."""
    if overlap := _shared(before, text):
        repeats: Counter[str] = Counter()
        read_markdown(overlap, seen=repeats)
        slug_counts.subtract(repeats)


def _shared(before: str, text: str) -> str:
    """Return the beginning of a chunk that repeats the end of the one before."""
    before, first = before[-_OVERLAP:], text.partition("\n")[0]
    place = before.find(first) if first else -1
    while place >= 0:
        if text.startswith(before[place:]):
            return before[place:]
        place = before.find(first, place + 1)
    return ""


def _fences(before: str, text: str, open_fence: str) -> tuple[str, int]:
    """Return the fence of code that is open where a chunk begins, and the place where what follows this code begins.

    `before` is the chunk before, and `open_fence` the fence that was open where that one began.
    """
    if "```" not in before and "~~~" not in before and not open_fence:
        return "", 0
    fence = _open(before.removesuffix(_shared(before, text)), open_fence)
    ends = (match.end() for match in _FENCE.finditer(text) if match[1].startswith(fence) and not match[2].strip())
    return fence, next(ends, len(text)) if fence else 0


def _open(text: str, fence: str) -> str:
    """Return the fence of code that is open at the end of a text, "" for none, if `fence` is at its beginning."""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""
    return fence


def _formats(address: str, texts: Sequence[str]) -> tuple[bool, bool]:
    """Return whether the texts of a page are read as Markdown, and as HTML: as both if the name of the page does not tell."""
    name = address.lower().partition("#")[0]
    if name.endswith(HTML):
        # Some splitters and loaders turn HTML into Markdown, under the name that the page had.
        is_markdown = any(map(_MARKDOWN_LINK.search, texts)) and not any(map(_HTML_LINK.search, texts))
        return is_markdown, not is_markdown
    return True, not name.endswith(MARKDOWN)


def _read_text(
    text: str, markdown: bool, html: bool, references: MutableMapping[str, Any], slug_counts: Counter[str], kind: str
) -> _ReadText:
    """Return what a text links to and its anchors, read as Markdown, as HTML, or as both."""
    pages = []
    if text.startswith("---\n") and _CUT.fullmatch(text):
        # A splitter cut behind the front matter.
        text += "\n---\n"
    if markdown and _MARKDOWN.search(text):
        pages.append(read_markdown(text, references, slug_counts, kind))
    if html and _TAG.search(text):
        pages.append(read_html(text, piece=True))
    blocks = [block for page in pages for block in page.blocks]
    fields = {name: value for page in pages for name, value in page.fields.items()}
    links = [(link, "") for link in other_links(fields)]
    links += [(link, name) for name, addresses in linked_fields(fields).items() for link in addresses]
    links += [(link, "") for block in blocks for link in block.links if link]
    links += [(link, name) for block in blocks for name, link in block.linked]
    anchors = list(dict.fromkeys(name for block in blocks for name in block.anchors))
    return _ReadText(list(dict.fromkeys(links)), anchors, headings_of(blocks), fields)


def _field_links(nodes: Sequence[Node], rows: Sequence[int], field: str) -> Iterable[tuple[int, str]]:
    """Yield (row, address) for the links in a metadata field of the chunks of a page."""
    values = [_items(nodes[row], field) for row in rows]
    # Our own reader gives each chunk its own links.
    is_ours = any("anchors" in nodes[row].metadata for row in rows)
    rows_by_text: dict[str, int] = {}
    is_copied = not is_ours and all(value == values[0] for value in values)
    for row, value in [(rows[0], values[0])] if is_copied else zip(rows, values, strict=True):
        for item in value:
            url, text = (item.get("url") or item.get("href"), item.get("text")) if isinstance(item, Mapping) else (item, None)
            if not isinstance(url, str):
                message = f"Field {field!r} of {nodes[row].id!r} holds {shown(item, 60)}"
                raise InvalidArgumentError(f"{message}; expected addresses, or mappings with 'url' and 'text'.")
            words = text.strip() if is_copied and isinstance(text, str) else ""
            if words and words not in rows_by_text and len(rows_by_text) < _MOST_TEXTS:
                rows_by_text[words] = next((candidate for candidate in rows if words in nodes[candidate].text), row)
            yield rows_by_text.get(words, row), url


def _items(node: Node, field: str) -> list[Any]:
    value = node.metadata.get(field)
    if value is None or isinstance(value, (str, Mapping)):
        return [] if value is None or value == "" else [value]
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return list(value)
    raise InvalidArgumentError(
        f"Field {field!r} of {node.id!r} holds {shown(value, 60)}; expected addresses, or mappings with 'url'."
    )


def _note(label: str, links: Collection[str]) -> str:
    return f"{label}: {len(links)}, such as {few(links)}" if links else ""


def _navigation(
    target_lists: Sequence[Sequence[Any]], flag_lists: Sequence[Sequence[bool]], addresses: Sequence[str], pages: int
) -> set[Any]:
    """Return the targets that more than half of the pages link to, by links that are counted."""
    if pages < _FEW_PAGES:
        return set()
    linking = {
        (addresses[row], target)
        for row, targets in enumerate(target_lists)
        for target, counts in zip(targets, flag_lists[row], strict=True)
        if target is not None and counts
    }
    counts = Counter(target for _, target in linking)
    return {target for target, count in counts.items() if 2 * count > pages}


def _may_be_navigation(node: Node, link: str, relation: str, address: str) -> bool:
    """Return whether a link may belong to the navigation of a site: not one by name, nor one that read_folder kept of Markdown."""
    is_kept = "anchors" in node.metadata and address.lower().endswith(MARKDOWN)
    return not relation and not is_kept and not link.startswith(("[[", "(("))


def _strings(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
