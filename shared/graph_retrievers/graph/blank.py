"""Nodes with nothing to read, such as the blank pages of a PDF."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import few
from graph_retrievers.graph.addresses import page_address
from graph_retrievers.graph.corpus_graph import CorpusGraph

BLANK = "_blank"
"""Metadata field that is true for such a node in a database."""

READ, NAMED, BARE, PAGE = range(4)
"""See :func:`blank_kind`."""

_logger = logging.getLogger(__name__)
_KEY = "blank nodes"
# Classes of LlamaIndex whose content is a text; others hold an image, or refer to something.
_TEXTS = ("TextNode", "Document")


def blank_nodes(graph: CorpusGraph) -> Tensor | None:
    """Return which nodes have nothing to read: Tensor, shape [N], bool, or None if there are none.

    Such a node has no text, or only spaces and marks that are not printed, and no title of its own. The title of a page is not its
    own if it is the name of the file, as of a note that does not exist, or the title of another page with a text, as of all pages
    of a PDF. Nodes of a type without any text are not blank, as in a knowledge graph whose nodes are called by their ids, nor are
    images of LlamaIndex.

    >>> graph = CorpusGraph(["p1", "p2", "ada"], ["A loom.", " ", ""], titles=["", "", "Ada"])
    >>> blank_nodes(graph).tolist()
    [False, True, False]
    """

    def make() -> Tensor | None:
        columns = zip(graph.texts, graph.titles, graph.metadata, graph.origins, strict=True)
        kinds = [blank_kind(*row) for row in columns]
        if not any(kinds):
            return None
        names = list(zip(graph.types, graph.titles, strict=True))
        text_names = {name for name, kind in zip(names, kinds, strict=True) if kind == READ}
        text_types = {node_type for node_type, _ in text_names}
        mask = [
            name[0] in text_types and (kind == BARE or (kind == PAGE and name in text_names))
            for name, kind in zip(names, kinds, strict=True)
        ]
        return torch.tensor(mask, device=graph.device) if any(mask) else None

    return graph.cache.get(_KEY, make)  # type: ignore[no-any-return]


def blank_kind(text: str, title: str, metadata: Mapping[str, Any], origin: Mapping[str, Any]) -> int:
    """Return what a node alone shows of whether it is blank, see :func:`blank_nodes`.

    :data:`READ` is a node with a text, and :data:`NAMED` one without that is never blank. In a type with texts, a node that is
    :data:`BARE` is blank, and one that is a :data:`PAGE` if another of its type and title has a text.

    >>> blank_kind("A loom.", "", {}, {}) == READ, blank_kind("", "Ada", {}, {}) == NAMED, blank_kind("", "", {}, {}) == BARE
    (True, True, True)
    """
    if _is_read(text):
        return READ
    if origin.get("class_name", "TextNode") not in _TEXTS:
        return NAMED
    if not _is_read(title):
        return BARE
    if not (page_address(metadata) or metadata.get("file_name") or origin):
        return NAMED
    return BARE if title == metadata.get("file_name") else PAGE


def keep_blank(graph: CorpusGraph, part: CorpusGraph, rows: Tensor) -> None:
    """Keep with a part of a graph, its nodes at some rows, which are blank in the whole; the part alone may not show it."""
    blank = blank_nodes(graph)
    mask = None if blank is None else blank[rows]
    part.cache.get(_KEY, lambda: mask if mask is not None and bool(mask.any()) else None)


def warn_of_blank(graph: CorpusGraph) -> None:
    """Warn of the nodes that have nothing to read."""
    blank = blank_nodes(graph)
    if blank is None:
        return
    names = [repr(graph.ids[row]) for row in blank.nonzero().flatten().tolist()]
    _logger.warning(
        "%s of %s nodes have no text, such as blank pages or notes that do not exist, and are neither returned nor searched: %s.",
        f"{len(names):,}",
        f"{len(graph):,}",
        few(names),
    )


def _is_read(text: str) -> bool:
    return any(letter.isprintable() and not letter.isspace() for letter in text)
