"""The edges of a corpus that is built, with the vectors that finding them takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from graph_retrievers.construction.documents import document_vectors, unit_vectors
from graph_retrievers.construction.edges import edge_parts, needs_vectors
from graph_retrievers.construction.spec import Corpus, EdgeSpec
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, EdgeLike, Node
from graph_retrievers.signals.embedding import as_embedding, check_vectors, embed_texts

__all__ = ["link", "with_own_vectors"]


def link(
    nodes: list[Node], documents: Any, edges: Sequence[Any], bare: Callable[[], CorpusGraph], signals: dict[str, Any], lenient: bool
) -> tuple[list[tuple[EdgeSpec | None, Sequence[EdgeLike]]], dict[str, Any]]:
    """Return the edges of nodes by what found them, and the keywords of an index with the vectors that this took.

    `edges` are items of :func:`graph_retrievers.construction.edges.edge_items`, and `bare` makes the graph without edges.
    """
    if signals.get("embedding") is not None:
        signals["embedding"] = as_embedding(signals["embedding"])
    signals = with_own_vectors(documents or nodes, bare, signals)
    signals["metric"] = signals.get("metric") or getattr(signals.get("embedding"), "default_metric", None)
    if needs_vectors(edges) and signals.get("vectors") is None:
        if signals.get("embedding") is None:
            raise MissingSignalError("k-nearest edges need vectors; pass embedding= or vectors=.")
        signals["vectors"] = embed_texts(signals["embedding"], bare().contents(), signals.get("show_progress", False))
    vectors = signals.get("vectors")
    if vectors is not None and signals.get("metric") == "cosine":
        # As the index keeps them, and a change finds them.
        vectors = unit_vectors(check_vectors(vectors, len(nodes)))
    return edge_parts(edges, Corpus(nodes, documents, vectors), lenient=lenient), signals


def with_own_vectors(documents: Sequence[Any], bare: Callable[[], CorpusGraph], signals: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of an index with the vectors that documents or nodes bring, those of the others embedded."""
    if signals.get("vectors") is not None or all(getattr(document, "embedding", None) is None for document in documents):
        return signals
    model = as_embedding(signals["embedding"]) if signals.get("embedding") is not None else None
    show = signals.get("show_progress", False)

    def embed(places: list[int]) -> Tensor:
        assert model is not None
        contents = bare().contents()
        return embed_texts(model, [contents[place] for place in places], show)

    return signals | {"vectors": document_vectors(documents, None if model is None else embed), "embedding": model}
