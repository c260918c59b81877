"""Edges from hyperlinks: HTML anchors and Markdown links in the texts of nodes."""

from __future__ import annotations

import re
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Links", "extract_links", "normalize_url"]

# Inline links "[text](target)", reference definitions "[name]: target" and autolinks "<https://...>". A target may
# stand in angle brackets, and may hold round brackets one level deep, as Wikipedia's do.
_INLINE = re.compile(r"\]\(\s*(?:<([^<>\n]*)>|((?:[^()\s<>]|\([^()\s]*\))+))")
_REFERENCE = re.compile(r"^[ ]{0,3}\[[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))", re.MULTILINE)
_AUTOLINK = re.compile(r"<(https?://[^<>\s]+)>()")


class Links(EdgeSpec):
    """Hyperlinks between nodes: ``<a href>`` and Markdown links, resolved against the address of the node.

    Parameters
    ----------
    url_field : str, default "url"
        Metadata field that holds a node's address: a URL, or a path such as ``guide/start.md``. Links are resolved
        against it as a browser does, without their fragment.
    relation : str, default "links"
        Name of the relation.

    Raises
    ------
    InvalidArgumentError
        If no node has the field.

    Notes
    -----
    A link leads to every node at that address, so to all chunks of a page. Links that lead elsewhere are skipped
    and counted in the log.
    """

    def __init__(self, url_field: str = "url", relation: str = "links") -> None:
        self.url_field, self.relation = url_field, relation

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order in which the links stand."""
        if not any(node.metadata.get(self.url_field) for node in corpus.nodes):
            raise InvalidArgumentError(
                f"No node has the metadata field {self.url_field!r}, so links lead nowhere; put each node's address there, or name "
                "the field in Links(url_field=...)."
            )
        addresses = [str(node.metadata.get(self.url_field) or "") for node in corpus.nodes]
        held: dict[str, list[int]] = {}
        for row, address in enumerate(addresses):
            if address:
                held.setdefault(normalize_url(address), []).append(row)
        edges: list[tuple[str, str, str]] = []
        absent = 0
        for node, address in zip(corpus.nodes, addresses, strict=True):
            for target in extract_links(node.text, address):
                rows = held.get(target, ())
                absent += not rows
                edges.extend((node.id, corpus.nodes[row].id, self.relation) for row in rows)
        return Found(edges, absent)


def extract_links(text: str, base: str = "") -> list[str]:
    """Return the addresses that a text links to: each once, in order, normalised (see :func:`normalize_url`).

    Parameters
    ----------
    text : str
        HTML or Markdown.
    base : str, default ""
        Address of the text, against which links are resolved.
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
                # Not an address at all, such as "http://[".
                continue
    return list(dict.fromkeys(targets))


def normalize_url(url: str) -> str:
    """Return a URL or path in the form in which two are compared.

    Scheme and host in lower case, escapes resolved, no fragment, no slash at the end, no "./" in front.
    """
    parts = urlsplit(urldefrag(url.strip()).url)
    path = unquote(parts.path).rstrip("/").removeprefix("./")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))
