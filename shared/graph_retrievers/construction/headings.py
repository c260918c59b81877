"""Headings above a chunk, as written into its metadata by splitters of LangChain, LlamaIndex and this package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graph_retrievers.construction.slugs import split_anchor
from graph_retrievers.graph.corpus_graph import Node

_HEADER_KEY = re.compile(r"header[ _]?([1-6])", re.IGNORECASE)


def heading_path(node: Node) -> tuple[str, ...]:
    """Return the headings of a chunk, its own last, as written into the metadata by splitters.

    They are read from ``headings`` (a list), ``Header 1``, ``Header 2``, ... (LangChain), or ``header_path`` (LlamaIndex), which
    has the headings around the one with which the text begins.

    >>> heading_path(Node("a", "## Cards", metadata={"header_path": "/Looms/"}))
    ('Looms', 'Cards')
    """
    metadata = node.metadata
    headings = metadata.get("headings")
    if isinstance(headings, (list, tuple)):
        return tuple(map(str, headings))
    if numbered := _numbered(metadata):
        return numbered
    if "header_path" not in metadata:
        return ()
    parents = [part for part in str(metadata["header_path"]).split("/") if part]
    first_line = node.text.lstrip().partition("\n")[0]
    return (*parents, first_line.strip("# \t")) if first_line.startswith("#") else tuple(parents)


def heading_title(metadata: Mapping[str, Any]) -> str:
    """Return the headings that a splitter of LangChain or LlamaIndex wrote, joined by slashes; "" if there are none.

    Anchors after headings are left out.

    >>> heading_title({"Header 1": "Looms", "Header 2": "Cards {#holes}"}), heading_title({"header_path": "/Looms/Cards/"})
    ('Looms/Cards', 'Looms/Cards')
    """
    path = metadata.get("header_path")
    # A path of headings begins and ends with what separates them; above all headings it is nothing else.
    headings = _numbered(metadata) or (str(path).strip(" />").split("/") if isinstance(path, (str, int, float)) else ())
    return "/".join(split_anchor(heading)[0] for heading in headings)


def _numbered(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the headings in ``Header 1``, ``Header 2``, ..., outermost first."""
    headings = {int(key[1]): str(value) for name, value in metadata.items() if (key := _HEADER_KEY.fullmatch(str(name)))}
    return tuple(headings[level] for level in sorted(headings))
