"""Build an index: vectors, the edges that are found with them, and signals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from graph_retrievers.construction.documents import document_vectors
from graph_retrievers.construction.edges import edge_parts, needs_vectors
from graph_retrievers.construction.spec import CorpusNodes, EdgeSource
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.blank import warn_of_blank
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.languages import language_code
from graph_retrievers.index.parts import Built, check_not_empty
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.signal import Signal
from graph_retrievers.signals.vector_cache import embed_corpus, with_cache
from graph_retrievers.signals.vectors import check_vectors, unit_vectors

__all__ = ["build"]

logger = logging.getLogger(__name__)


def build(
    graph: CorpusGraph,
    nodes: Sequence[Node] = (),
    edges: Sequence[Any] | None = None,
    *,
    lenient: bool = False,
    embedding: Any = None,
    vectors: Any = None,
    bm25: bool | str | Signal = True,
    edge_signals: bool = False,
    dense_backend: str = "exact",
    dense_precision: str = "float32",
    metric: str | None = None,
    cache: Any = None,
    show_progress: bool = False,
) -> Built:
    """Return the parts of an index of a graph.

    Parameters
    ----------
    graph : CorpusGraph
        Its nodes, with their edges unless `edges` must be found.
    nodes : sequence of Node, length N, optional
        The nodes; empty if neither their own vectors nor `edges` are needed.
    edges : sequence, optional
        Items of :func:`graph_retrievers.construction.edges.edge_items`; None if the graph already has its edges.
    lenient, embedding, vectors, bm25, edge_signals, dense_backend, dense_precision, metric, cache, show_progress
        See :class:`graph_retrievers.index.GraphIndex`.
    """
    check_not_empty(graph)
    warn_of_blank(graph)
    # A wrong one is refused before texts are embedded.
    bm25_options = word_options(bm25)
    model = None if embedding is None else with_cache(as_embedding(embedding), cache)
    metric = metric or getattr(model, "default_metric", None)

    def embed(texts: list[str]) -> Tensor:
        return embed_corpus(model, texts, cache, show_progress)

    with_vectors = vectors is not False
    if vectors is None:
        vectors = _given_vectors(graph, nodes, None if model is None else embed)
    elif with_vectors:
        # The caller may go on writing to a tensor.
        vectors = check_vectors(vectors.clone() if isinstance(vectors, Tensor) else vectors, len(graph))
    else:
        vectors = None
    sources = [EdgeSource(None, graph.num_edges)]
    if edges is not None:
        if vectors is None and needs_vectors(edges):
            if model is None:
                raise MissingSignalError("k-nearest edges need vectors; pass embedding= or vectors=.")
            vectors = embed(graph.contents())
        # Edges are made from vectors as the index keeps them, and as a change finds them.
        table = unit_vectors(vectors) if vectors is not None and metric == "cosine" else vectors
        parts = edge_parts(edges, CorpusNodes(nodes, table), lenient=lenient)
        graph = graph.with_edges([edge for _, part in parts for edge in part])
        sources = [EdgeSource(spec, len(part)) for spec, part in parts]
    if vectors is None and with_vectors and model is not None:
        vectors = embed(graph.contents())
    signals: dict[str, Signal] = {}
    if vectors is not None:
        kinds: dict[str, Any] = {"backend": dense_backend, "precision": dense_precision, "metric": metric or "dot"}
        signals["dense"] = dense = DenseIndex(vectors, device=graph.device, **kinds)
        if metric is None:
            _warn_of_lengths(dense.norms)
    if bm25 is True and vectors is None:
        # Vectors know the forms of words; without them, stems are all there is.
        bm25_options = {"stem": True}
    if isinstance(bm25, Signal):
        signals["bm25"] = bm25.to(graph.device)
    elif bm25 is not False:
        signals["bm25"] = BM25(graph.contents(), device=graph.device, show_progress=show_progress, **bm25_options)
    if edge_signals:
        # Without edges too, so that edges that a change adds have signals.
        contents = graph.edge_contents()
        signals["edge_bm25"] = BM25(contents, device=graph.device, covers="edges", show_progress=show_progress, **bm25_options)
        if model is not None:
            if not contents and vectors is None:
                # An index without edges has no vector of one: that of a node shows the width.
                vectors = embed(graph.contents()[:1])
            edge_vectors = embed(contents) if contents else vectors[:0]
            signals["edge_dense"] = DenseIndex(edge_vectors, device=graph.device, covers="edges", metric=metric or "dot")
    return Built(graph, signals, model, sources)


def word_options(bm25: Any) -> dict[str, Any]:
    """Return the settings of BM25 that an argument names; InvalidArgumentError if it is none."""
    if isinstance(bm25, BM25):
        return {name: getattr(bm25, name) for name in BM25.options}
    if isinstance(bm25, str):
        return {"language": language_code(bm25, argument="bm25")}
    if not isinstance(bm25, (bool, Signal)):
        raise InvalidArgumentError(
            f"bm25 is {shown(bm25)}; expected True, False, a language such as 'de', or a BM25 of the contents of the nodes."
        )
    return {}


def _given_vectors(graph: CorpusGraph, nodes: Sequence[Node], embed: Callable[[list[str]], Tensor] | None) -> Tensor | None:
    """Return the nodes' own vectors, and embed the others; None if no node has one."""
    if all(node.embedding is None for node in nodes):
        return None
    return document_vectors(nodes, None if embed is None else lambda places: embed([graph.content(row) for row in places]))


def _warn_of_lengths(lengths: Tensor) -> None:
    """Warn of vectors that are not of unit length; those of half precision differ from it by less than a hundredth."""
    lengths = lengths[lengths > 0]
    if lengths.numel() and bool(((lengths - 1).abs() > 0.01).any()):
        logger.warning(
            "The vectors are not of unit length (%.3g to %.3g), and dot products are not cosines. Pass metric='cosine' to compare "
            "directions only, or metric='dot' if the model is meant for dot products.",
            float(lengths.min()),
            float(lengths.max()),
        )
