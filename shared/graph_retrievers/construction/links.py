"""Edges from hyperlinks: HTML anchors and Markdown links in the texts of nodes, or links in metadata."""

from __future__ import annotations

import logging
import re
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from itertools import takewhile
from operator import eq
from typing import Any

from graph_retrievers.arguments import typed
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.markdown import own_anchor, read_markdown, reference_definitions, slug
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, FoundEdges
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError, shown
from graph_retrievers.graph.addresses import ADDRESS_FIELDS, AddressBook, check_site, page_address
from graph_retrievers.graph.corpus_graph import Node

__all__ = ["Links"]

logger = logging.getLogger(__name__)

_TAG = re.compile(r"<[a-zA-Z!/]")
_MARKDOWN = re.compile(r"\[|^ {0,3}#|^ {0,3}(?:=+|-+)[ \t]*$|<https?://", re.MULTILINE)
# Texts of links, of a list that all chunks of a page hold, that are searched for in the chunks.
_SEARCHED = 1_000
# A link that more than half of the pages have is navigation; below this number of pages, that says nothing.
_FEW_PAGES = 10
_NOWHERE = "\0"
# The field in which read_folder keeps links.
_KEPT = "links"
# Dead links that the log names, and fragments that every page has.
_NAMED = 8
_OWN_ANCHORS = re.compile(r"top$|.*:~:", re.IGNORECASE)
# Characters that chunks share at most; splitters let some hundreds overlap.
_OVERLAP = 4_000


class Links(EdgeSpec):
    """Hyperlinks between pages and their chunks: ``<a href>``, Markdown and wiki links, or a metadata field with addresses.

    A link with a ``#fragment`` leads to the chunk that contains the anchor: an HTML id, the slug of a Markdown heading, or a
    heading that a splitter wrote into the metadata. Any other link leads to the first chunk of the page, as does one whose anchor
    is not found. Links to pages outside the corpus are skipped and counted in the log, which names those that should lead to a
    page or an anchor: links that are relative or below `site`. Links that occur on more than half of at least ten pages are
    skipped too, because these are navigation. LlamaIndex nodes with children, whose texts repeat theirs, are not read.

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

    def find(self, corpus: CorpusNodes) -> FoundEdges:
        """Return the edges, in the order of the nodes and of their links."""
        fields = ADDRESS_FIELDS if self.url_field is None else (self.url_field,)
        # A node without an address is its own page.
        addresses = [page_address(node.metadata, fields) or f"{_NOWHERE}{row}" for row, node in enumerate(corpus.nodes)]
        if all(address.startswith(_NOWHERE) for address in addresses):
            wanted = " or ".join(map(repr, fields))
            raise NothingToReadError(
                f"No node has the metadata field {wanted}, so links cannot be resolved; put the address of each node's page there, "
                "or name the field in Links(url_field=...)."
            )
        if self.field is not None and self.field not in corpus.fields:
            there = ", ".join(sorted(corpus.fields))
            raise NothingToReadError(
                f"No node has the metadata field {self.field!r} of {self!r}; the metadata fields are: {there}."
            )
        pages = corpus.pages(addresses).rows
        links, anchors = self._read(corpus.nodes, addresses, pages)
        book = AddressBook((address for address in pages if not address.startswith(_NOWHERE)), [self.site])
        bases = ["" if address.startswith(_NOWHERE) else address for address in addresses]
        found = [[book.find(link, base) for link in listed] for base, listed in zip(bases, links, strict=True)]
        common = _navigation(found, pages, addresses)
        if common:
            what = f"{len(common)} places" if len(common) > 1 else "a place"
            logger.info("%r: skipped links to %s that more than half of the pages link to.", self, what)
        edges: list[tuple[str, str, str]] = []
        absent, resolved = 0, Counter[bool]()
        lost: dict[str, None] = {}
        unknown: dict[str, None] = {}
        places: dict[str, _Anchors] = {}
        for row, targets in enumerate(found):
            for link, target in zip(links[row], targets, strict=True):
                if target is None:
                    absent += 1
                    if book.misses(link, bases[row]):
                        lost[f"{shown(link, 60)} on {shown(bases[row], 60)}"] = None
                if target is None or target in common:
                    continue
                page, fragment = target
                first = pages[page][0]
                if fragment and page not in places:
                    places[page] = _Anchors((place, anchors[place], corpus.nodes[place]) for place in pages[page])
                goal = places[page].get(fragment) if fragment else first
                if fragment and len(pages[page]) > 1:
                    resolved[goal is not None] += 1
                if goal is None and not _OWN_ANCHORS.match(fragment):
                    unknown[f"{shown(link, 60)} on {shown(bases[row] or corpus.nodes[row].id, 60)}"] = None
                edges.append((corpus.nodes[row].id, corpus.nodes[first if goal is None else goal].id, self.relation))
        kept = self.field is None and _KEPT in corpus.fields
        if not any(links) or (kept and not edges):
            where = "the texts" if self.field is None else f"the field {self.field!r}"
            advice = f"read_folder keeps links in the metadata field {_KEPT!r}: Links(field={_KEPT!r})."
            if not kept:
                advice = "If a splitter or loader dropped the tags, keep them, or name the metadata field that holds the links: "
                advice += "Links(field=...)."
            logger.warning("%r found no link in %s. %s", self, where, advice)
        if resolved[False] and not resolved[True]:
            logger.warning(
                "%r: links that name an anchor: %d, anchors found: 0; they lead to the first chunk of the page. A splitter that "
                "drops tags drops the anchors too; keep the tags, or read the pages with read_folder.",
                self,
                resolved[False],
            )
        told = f"{_named('; links to pages that are not there', lost)}{_named('; links to anchors that are not there', unknown)}"
        return FoundEdges(edges, absent, told)

    def _read(
        self, nodes: Sequence[Node], addresses: Sequence[str], pages: Mapping[str, list[int]]
    ) -> tuple[list[list[str]], list[Sequence[str]]]:
        """Return the links and the anchors of each node."""
        links: list[list[str]] = [[] for _ in nodes]
        anchors: list[Sequence[str]] = [() for _ in nodes]
        for address, rows in pages.items():
            # Texts are read for links, and for anchors that the metadata do not name.
            read = [row for row in rows if self.field is None or "anchors" not in nodes[row].metadata]
            markdown = not address.lower().endswith((".html", ".htm"))
            defined = [reference_definitions(text) if markdown and "]:" in text else {} for text in (nodes[r].text for r in read)]
            references: dict[str, Any] = {}
            for definitions in reversed(defined):
                references |= definitions
            seen: Counter[str] = Counter()
            before = ""
            for row, own in zip(read, defined, strict=True):
                text = nodes[row].text
                # The definitions of a chunk come before those of others.
                if seen:
                    _uncount(seen, before, text)
                links[row], anchors[row] = _links_and_anchors(text, address, ChainMap(own, references), seen)
                before = text
            for row in rows:
                if "anchors" in nodes[row].metadata:
                    anchors[row] = _strings(nodes[row].metadata["anchors"])
            if self.field is not None:
                for row in rows:
                    links[row] = []
                for row, link in _field_links(nodes, rows, self.field):
                    links[row].append(link)
        return links, anchors


class _Anchors:
    """The chunk of a page that contains each anchor."""

    def __init__(self, chunks: Iterable[tuple[int, Sequence[str], Node]]) -> None:
        self._exact: dict[str, int] = {}
        self._loose: dict[str, int] = {}
        last: dict[str, int] = {}
        seen: Counter[str] = Counter()
        around: tuple[str, ...] = ()
        for place, (row, anchors, node) in enumerate(chunks):
            for name in anchors:
                before, loose = self._exact.get(name), _loosened(name)
                # Overlapping chunks repeat an anchor; the text after it is in the later one.
                if before is None or (last.get(name) == place - 1 and "anchors" not in node.metadata):
                    self._exact[name] = row
                    if self._loose.get(loose, before) == before:
                        self._loose[loose] = row
                last[name] = place
            path = heading_path(node)
            same = sum(1 for _ in takewhile(bool, map(eq, around, path)))
            for depth, heading in enumerate(path[same:], same + 1):
                heading, given = own_anchor(heading)
                count, name = seen[slug(heading)], _loosened(heading)
                seen[slug(heading)] += not given
                if depth == len(path) and given:
                    self._exact.setdefault(given, row)
                elif depth == len(path):
                    self._loose.setdefault(f"{name}-{count}" if count else name, row)
            around = path

    def get(self, fragment: str) -> int | None:
        """Return the row of the chunk with an anchor, None if there is none."""
        return self._exact.get(fragment, self._loose.get(_loosened(fragment)))


def _loosened(anchor: str) -> str:
    return "-".join(filter(None, slug(anchor.casefold().replace("_", "-")).split("-")))


def _uncount(seen: Counter[str], before: str, text: str) -> None:
    """Take the headings that a chunk repeats from the end of the one before out of the headings counted so far."""
    before, first = before[-_OVERLAP:], text.partition("\n")[0]
    place = before.find(first) if first else -1
    while place >= 0:
        if text.startswith(before[place:]):
            repeated: Counter[str] = Counter()
            read_markdown(before[place:], seen=repeated)
            seen.subtract(repeated)
            return
        place = before.find(first, place + 1)


def _links_and_anchors(
    text: str, address: str, references: MutableMapping[str, Any], seen: Counter[str]
) -> tuple[list[str], list[str]]:
    """Return what a text links to and its anchors; a text that is neither named HTML nor Markdown is read as both."""
    name = address.lower().partition("#")[0]
    pages = []
    if not name.endswith((".html", ".htm")) and _MARKDOWN.search(text):
        pages.append(read_markdown(text, references, seen))
    if not name.endswith((".md", ".mdx", ".markdown")) and _TAG.search(text):
        pages.append(read_html(text, piece=True))
    blocks = [block for page in pages for block in page.blocks]
    links = dict.fromkeys(link for block in blocks for link in block.links if link)
    return list(links), list(dict.fromkeys(name for block in blocks for name in block.anchors))


def _field_links(nodes: Sequence[Node], rows: Sequence[int], field: str) -> Iterable[tuple[int, str]]:
    """Yield (row, address) for the links in a metadata field of the chunks of a page."""
    held = [_items(nodes[row], field) for row in rows]
    # Our own reader gives each chunk its own links.
    ours = any("anchors" in nodes[row].metadata for row in rows)
    found: dict[str, int] = {}
    copied = not ours and all(value == held[0] for value in held)
    for row, value in [(rows[0], held[0])] if copied else zip(rows, held, strict=True):
        for item in value:
            url, text = (item.get("url") or item.get("href"), item.get("text")) if isinstance(item, Mapping) else (item, None)
            if not isinstance(url, str):
                what = f"Field {field!r} of {nodes[row].id!r} holds {shown(item, 60)}"
                raise InvalidArgumentError(f"{what}; expected addresses, or mappings with 'url' and 'text'.")
            words = text.strip() if copied and isinstance(text, str) else ""
            if words and words not in found and len(found) < _SEARCHED:
                found[words] = next((other for other in rows if words in nodes[other].text), row)
            yield found.get(words, row), url


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


def _named(what: str, links: Collection[str]) -> str:
    more = ", ..." if len(links) > _NAMED else ""
    return f"{what}: {len(links)}, such as {', '.join(list(links)[:_NAMED])}{more}" if links else ""


def _navigation(found: Sequence[Sequence[Any]], pages: Mapping[str, Any], addresses: Sequence[str]) -> set[Any]:
    """Return the targets that more than half of the pages link to."""
    if len(pages) < _FEW_PAGES:
        return set()
    linking = {(addresses[row], target) for row, targets in enumerate(found) for target in targets if target is not None}
    counts = Counter(target for _, target in linking)
    return {target for target, count in counts.items() if 2 * count > len(pages)}


def _strings(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
