"""The signals of a changed corpus, and where its edges come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.construction.changes import ChangedNodes, EdgeSource, change_edges
from graph_retrievers.construction.documents import unit_vectors
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, EdgeLike
from graph_retrievers.signals.embedding import Embedding, check_vectors, embed_texts
from graph_retrievers.signals.following import followed_signals
from graph_retrievers.signals.signal import Signal

__all__ = ["brought_vectors", "follow_change"]


def brought_vectors(nodes: ChangedNodes, documents: Sequence[Any], vectors: Any) -> dict[int, Tensor]:
    """Return the vectors given for changed documents, or those that they bring, by the row of the document's node."""
    own = zip(nodes.rows.tolist(), _own_vectors(documents, vectors), strict=True)
    return {row: vector for row, vector in own if vector is not None}


def follow_change(
    graph: CorpusGraph,
    signals: Mapping[str, Signal],
    sources: Sequence[EdgeSource],
    nodes: ChangedNodes,
    brought: Mapping[int, Tensor],
    add_edges: Iterable[EdgeLike],
    delete_edges: Iterable[EdgeLike],
    model: Embedding | None,
    show_progress: bool,
) -> tuple[dict[str, Signal], list[EdgeSource]]:
    """Set the edges of a graph with changed nodes; return its signals and where its edges come from.

    See :meth:`graph_retrievers.index.GraphIndex.with_changes`. `graph`, `signals` and `sources` are those before the change.
    """
    over: dict[str, dict[str, Signal]] = {"nodes": {}, "edges": {}}
    for name, signal in signals.items():
        over[signal.covers][name] = signal

    def embed(texts: list[str]) -> Tensor:
        if model is None:
            raise MissingSignalError(f"{len(texts)} new texts have no vectors; pass vectors=, or give the index a model.")
        return embed_texts(model, texts, show_progress)

    changed = nodes.graph
    followed = followed_signals(over["nodes"], _Contents(changed), nodes.kept, embed, brought)
    dense = followed.get("dense")
    made = change_edges(graph, sources, nodes, add_edges, delete_edges, getattr(dense, "vectors", None))
    if over["edges"]:
        place = {text: row for row, text in enumerate(graph.edge_contents())}
        kept = np.array([place.get(text, -1) for text in changed.edge_contents()], np.int64)
        followed |= followed_signals(over["edges"], changed.edge_contents(), kept, embed)
    return {name: followed[name] for name in signals}, made


class _Contents(Sequence[str]):
    """What signals read of the nodes of a graph, made when it is asked for."""

    def __init__(self, graph: CorpusGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __getitem__(self, row: Any) -> Any:
        return self._graph.content(range(len(self))[row])


def _own_vectors(documents: Sequence[Any], vectors: Any) -> Sequence[Tensor | None]:
    """Return the vectors given for documents, or those that they bring, of unit length; None for a document without one."""
    if vectors is not None:
        return list(check_vectors(vectors, len(documents)).cpu())
    brought = (getattr(document, "embedding", None) for document in documents)
    return [None if vector is None else unit_vectors(check_vectors([vector]))[0] for vector in brought]
