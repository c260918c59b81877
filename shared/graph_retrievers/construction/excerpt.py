"""Edges among a few nodes of a larger corpus, such as the documents that some other retriever found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_retrievers.construction.edges import build_edges, edge_items
from graph_retrievers.construction.fields import Metadata, has_field
from graph_retrievers.construction.networkx_graphs import is_networkx, networkx_edges
from graph_retrievers.construction.spec import Corpus
from graph_retrievers.graph.corpus_graph import Edge, EdgeLike, Node

__all__ = ["edges_among"]


def edges_among(nodes: Sequence[Node], edges: Any, vectors: Any = None, documents: Sequence[Any] | None = None) -> list[EdgeLike]:
    """Return the edges among `nodes` that an ``edges`` argument for their whole corpus describes.

    Parameters
    ----------
    nodes, edges, vectors, documents
        As for :func:`graph_retrievers.construction.edges.build_edges`.

    Returns
    -------
    list of Edge or (source id, target id, relation)
        What ``build_edges`` gives, except that explicit edges to absent nodes are left out, and so are fields that
        none of these few nodes happens to have; in a whole corpus both are mistakes.
    """
    corpus = Corpus(nodes, documents, vectors)
    present = [part for item in edge_items(edges) for part in _present(item, corpus)]
    return build_edges(nodes, present, vectors, documents)


def _present(item: Any, corpus: Corpus) -> list[Any]:
    """Return what is left of an item of an ``edges`` argument in a part of its corpus."""
    if is_networkx(item):
        return [edge for edge in networkx_edges(item) if edge.source in corpus.rows and edge.target in corpus.rows]
    if isinstance(item, Edge):
        return [item] if item.source in corpus.rows and item.target in corpus.rows else []
    if isinstance(item, Metadata):
        return [item] if all(has_field(corpus, name) for name in (item.source, item.target)) else []
    if isinstance(item, (tuple, list)) and len(item) in (2, 3) and all(isinstance(part, str) for part in item):
        edge = all(end in corpus.rows for end in item[:2])
        fields = len(item) == 2 and all(has_field(corpus, name) for name in item)
        return [item] if edge or fields else []
    return [item]
