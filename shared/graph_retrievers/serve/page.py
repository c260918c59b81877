"""The page that shows searches: the files that a server sends, or one file with one search."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.serve.picture import picture, subgraph

__all__ = ["search_page"]

_FOLDER = Path(__file__).parent

FILES = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "cytoscape.min.js": "text/javascript; charset=utf-8",
}
"""The files of the page, and their types."""

# Characters of a text on a page that stands for itself.
_TEXT = 20_000


def page_file(name: str) -> str:
    """Return the content of one of :data:`FILES`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def search_page(retriever: Retriever, question: str, k: int | None = None) -> str:
    """Search, and return the search as one HTML page, which contains everything that it needs and loads nothing.

    It shows the hits with their texts and paths, and the search as a graph, step by step. Texts of documents cannot become part
    of its code: they are data, and the page runs only its own scripts (Content-Security-Policy by hashes).

    Parameters
    ----------
    retriever : Retriever
        On an index in memory.
    question : str
    k : int, optional
        Number of hits; by default that of the retriever.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> page = search_page(Retriever(GraphIndex.from_texts(["A loom.", "A card."]), BM25()), "Which </script> loom?")
    >>> page[:15], page.count("</script>")
    ('<!doctype html>', 3)
    """
    drawn, graph = picture(retriever, question, k), retriever.index.graph
    rows = list(dict.fromkeys(row for hit in drawn["hits"] for row in hit["rows"]))
    part = subgraph(graph, rows)
    data = {
        "picture": drawn,
        "texts": {row: graph.texts[row][:_TEXT] for row in rows},
        "exports": {"json": json.dumps(part.to_node_link()), "graphml": part.to_graphml()},
    }
    styles, scripts = [page_file("page.css")], [page_file("cytoscape.min.js"), page_file("page.js")]
    allowed = {"script-src": scripts, "style-src": styles}
    sources = "; ".join(f"{kind} {' '.join(map(_hash, parts))}" for kind, parts in allowed.items())
    policy = f"default-src 'none'; {sources}; img-src data: blob:; base-uri 'none'; form-action 'none'"
    made = page_file("page.html")
    for old, new in [
        ('<meta charset="utf-8">', f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        ('<link id="__________cytoscape_stylesheet" rel="stylesheet" href="page.css">', _element("style", styles[0])),
        ('<script src="cytoscape.min.js"></script>', _element("script", scripts[0])),
        ('<script src="page.js"></script>', _element("script", scripts[1])),
        (
            '<script type="application/json" id="data"></script>',
            f'<script type="application/json" id="data">{_plain(data)}</script>',
        ),
    ]:
        before, found, behind = made.partition(old)
        assert found, f"page.html has no {old}"
        made = before + new + behind
    return made


def _element(name: str, content: str) -> str:
    more = ' id="__________cytoscape_stylesheet"' if name == "style" else ""
    return f"<{name}{more}>{content}</{name}>"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _plain(data: Any) -> str:
    """Return JSON that can stand in a page: ASCII, without a character that begins a tag, a comment or an entity."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
