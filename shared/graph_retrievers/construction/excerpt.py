"""Edges between some nodes of a larger corpus, such as the documents that another retriever found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_retrievers.construction.edges import build_edges, edge_items, is_words
from graph_retrievers.construction.fields import Metadata, has_field
from graph_retrievers.construction.networkx_graphs import is_networkx, networkx_edges
from graph_retrievers.construction.spec import Corpus
from graph_retrievers.graph.corpus_graph import Edge, EdgeLike, Node

__all__ = ["edges_among"]


def edges_among(nodes: Sequence[Node], edges: Any, vectors: Any = None, documents: Sequence[Any] | None = None) -> list[EdgeLike]:
    """Return the edges between `nodes` that an ``edges`` argument for their whole corpus describes.

    The arguments and the result are those of :func:`graph_retrievers.construction.edges.build_edges`. Explicit edges to absent
    nodes, and fields that none of these nodes has, are errors there; here they are skipped.
    """
    corpus = Corpus(nodes, documents, vectors)
    present = [part for item in edge_items(edges) for part in _present(item, corpus)]
    return build_edges(nodes, present, vectors, documents)


def _present(item: Any, corpus: Corpus) -> list[Any]:
    """Return the part of an item of an ``edges`` argument that these nodes have."""
    if is_networkx(item):
        return [edge for edge in networkx_edges(item) if {edge.source, edge.target} <= corpus.rows.keys()]
    if isinstance(item, Edge):
        return [item] if {item.source, item.target} <= corpus.rows.keys() else []
    if isinstance(item, Metadata):
        return [item] if has_field(corpus, item.source) and has_field(corpus, item.target) else []
    if is_words(item):
        fields = len(item) == 2 and all(has_field(corpus, name) for name in item)
        return [item] if fields or set(item[:2]) <= corpus.rows.keys() else []
    return [item]
