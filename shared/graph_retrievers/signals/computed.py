"""The signals that an index has by default, computed from its graph."""

from __future__ import annotations

import logging
from typing import Any

from torch import Tensor

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import Embedding, check_vectors, embed_texts
from graph_retrievers.signals.signal import Signal

__all__ = ["computed_signals"]

logger = logging.getLogger(__name__)


def computed_signals(
    graph: CorpusGraph,
    model: Embedding | None,
    vectors: Any,
    bm25: bool,
    edge_signals: bool,
    dense_backend: str,
    dense_precision: str,
    metric: str | None,
    show_progress: bool,
) -> dict[str, Signal]:
    """Return the signals of a graph by name; see :meth:`graph_retrievers.index.GraphIndex.from_graph`."""
    metric = metric or getattr(model, "default_metric", None)
    signals: dict[str, Signal] = {}
    if isinstance(vectors, Tensor):
        # The caller may go on writing to it.
        vectors = vectors.clone()
    if vectors is None and model is not None:
        vectors = embed_texts(model, graph.contents(), show_progress)
    if vectors is not None:
        checked = check_vectors(vectors, len(graph))
        kinds: dict[str, Any] = {"backend": dense_backend, "precision": dense_precision, "metric": metric or "dot"}
        signals["dense"] = dense = DenseIndex(checked, device=graph.device, **kinds)
        if metric is None:
            _tell_lengths(dense.norms)
    if bm25:
        signals["bm25"] = BM25(graph.contents(), device=graph.device, show_progress=show_progress)
    if edge_signals:
        # Without edges too, so that a change that adds some knows that they are to have signals.
        contents = graph.edge_contents()
        signals["edge_bm25"] = BM25(contents, device=graph.device, covers="edges", show_progress=show_progress)
        if model is not None:
            found = embed_texts(model, contents, show_progress) if contents else checked.new_zeros(0, checked.shape[1])
            signals["edge_dense"] = DenseIndex(found, device=graph.device, covers="edges", metric=metric or "dot")
    return signals


def _tell_lengths(lengths: Tensor) -> None:
    """Warn of vectors that are not of unit length; those of half precision differ from it by less than a hundredth."""
    lengths = lengths[lengths > 0]
    if lengths.numel() and bool(((lengths - 1).abs() > 0.01).any()):
        logger.warning(
            "The vectors are not of unit length (%.3g to %.3g), and dot products are not cosines. Pass metric='cosine' to compare "
            "directions only, or metric='dot' if the model is meant for dot products.",
            float(lengths.min()),
            float(lengths.max()),
        )
