"""The system for an index, if none is chosen."""

from __future__ import annotations

from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.baselines import BM25, Vector
from graph_retrievers.systems.fused import Fused
from graph_retrievers.systems.spreading.retriever import DAMPED, SpreadingActivation
from graph_retrievers.systems.system import System
from graph_retrievers.systems.traits import holds_passages, is_knowledge_graph
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion

__all__ = ["default_system"]


def default_system(index: Corpus) -> System:
    """Return the system with the best results on indexes with the same signals.

    WalkFusion on an index with vectors and BM25; spreading activation fused with vector search if there is no BM25; BM25 if there
    are no vectors. For a knowledge graph (see :func:`~graph_retrievers.systems.traits.is_knowledge_graph`), spreading activation,
    unless there are BM25, an embedding model and at least two relations, which WalkFusion follows.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> default_system(GraphIndex.from_texts(["a loom", "a card"]))
    BM25()
    """
    if not index.has_dense:
        return BM25()
    graph = index.facts
    if is_knowledge_graph(graph):
        relations = index.has_bm25 and index.embedding is not None and len(graph.relation_names) > 1
        return WalkFusion() if relations else SpreadingActivation()
    if index.has_bm25:
        return WalkFusion()
    return Fused(SpreadingActivation(**(DAMPED if holds_passages(graph) else {})), Vector())


def without_vectors(index: Corpus) -> str:
    """Return why BM25 is the default: a walk needs vectors, whether there are edges or not."""
    if not index.facts.has_edges:
        return "there are neither edges nor vectors: words alone"
    return "there are no vectors: words alone, edges are not followed"
