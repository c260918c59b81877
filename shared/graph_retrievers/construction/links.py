"""Edges from hyperlinks in the texts of nodes: HTML anchors and Markdown links."""

from __future__ import annotations

import re
from collections import defaultdict
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Links", "extract_links", "normalize_url"]

# Inline links "[text](target)", reference definitions "[name]: target" and autolinks "<https://...>". Angle
# brackets around a target are allowed, and one level of round brackets inside it, as in addresses of Wikipedia.
_INLINE = re.compile(r"\]\(\s*(?:<([^<>\n]*)>|((?:[^()\s<>]|\([^()\s]*\))+))")
_REFERENCE = re.compile(r"^[ ]{0,3}\[[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))", re.MULTILINE)
_AUTOLINK = re.compile(r"<(https?://[^<>\s]+)>()")


class Links(EdgeSpec):
    """Hyperlinks between nodes: ``<a href>`` and Markdown links, resolved against the address of the node.

    A link gives an edge to every node with that address, so to all chunks of a page. Links to other addresses are skipped and
    counted in the log. Raises InvalidArgumentError if no node has `url_field`.

    Parameters
    ----------
    url_field : str, default "url"
        Metadata field that holds a node's address: a URL, or a path such as ``guide/start.md``. Links are resolved
        against it as in a browser, without their fragment.
    relation : str, default "links"

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> pages = [Node("a", "See [looms](b.md).", metadata={"url": "docs/a.md"}), Node("b", "", metadata={"url": "docs/b.md"})]
    >>> build_edges(pages, Links())
    [('a', 'b', 'links')]
    """

    def __init__(self, url_field: str = "url", relation: str = "links") -> None:
        self.url_field, self.relation = url_field, relation

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order of the links."""
        addresses = [str(node.metadata.get(self.url_field) or "") for node in corpus.nodes]
        if not any(addresses):
            raise InvalidArgumentError(
                f"No node has the metadata field {self.url_field!r}, so links cannot be resolved; put each node's address there, "
                "or name the field in Links(url_field=...)."
            )
        held: dict[str, list[int]] = defaultdict(list)
        for row, address in enumerate(addresses):
            if address:
                held[normalize_url(address)].append(row)
        edges: list[tuple[str, str, str]] = []
        absent = 0
        for node, address in zip(corpus.nodes, addresses, strict=True):
            for target in extract_links(node.text, address):
                rows = held.get(target, ())
                absent += not rows
                edges.extend((node.id, corpus.nodes[row].id, self.relation) for row in rows)
        return Found(edges, absent)


def extract_links(text: str, base: str = "") -> list[str]:
    """Return the distinct addresses that a text links to, in order and normalised (see :func:`normalize_url`).

    `text` is HTML or Markdown; `base` is its address, against which links are resolved.

    Examples
    --------
    >>> extract_links("[one](b.md) and <a href='/c#top'>two</a>", base="https://example.org/docs/a.md")
    ['https://example.org/docs/b.md', 'https://example.org/c']
    """
    found: list[tuple[int, str]] = []
    for pattern in (_INLINE, _REFERENCE, _AUTOLINK):
        found.extend((match.start(), match[1] or match[2] or "") for match in pattern.finditer(text))
    if "<a" in text or "<A" in text:
        found.extend((piece.start, piece.attribute("href")) for piece in read_html(text) if piece.tag == "a")
    targets = []
    for _, target in sorted(found):
        if target and not target.startswith("#"):
            try:
                targets.append(normalize_url(urljoin(base, target.strip())))
            except ValueError:
                continue  # Not an address, such as "http://[".
    return list(dict.fromkeys(targets))


def normalize_url(url: str) -> str:
    """Return a URL or path in a form that can be compared.

    Scheme and host are in lower case, escapes are resolved, and the fragment, a slash at the end and a leading "./" are removed.
    """
    parts = urlsplit(urldefrag(url.strip()).url)
    path = unquote(parts.path).rstrip("/").removeprefix("./")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))
