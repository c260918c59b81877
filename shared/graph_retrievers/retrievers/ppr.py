"""Personalized PageRank from vector-search seeds, HippoRAG 2 style on a corpus graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.pagerank import PersonalizedPageRank
from graph_retrievers.operators.traits import names_identify
from graph_retrievers.operators.vector_search import HybridSearch, VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["PPR"]


class PPR(Retriever):
    """Search for seeds, then rank all nodes by a random walk that restarts at them.

    Parameters
    ----------
    index : GraphIndex
    seeds : int, default 5
        Seeds taken from the first search (HippoRAG 2's linking_top_k).
    damping : float, default 0.5
        Probability of following an edge, in [0, 1).
    passage_weight : float, default 0.05
        Restart weight of all nodes together, by vector similarity, next to the seeds' 1.
    first : Operator, optional
        Search for seeds; vector search by default, entity linking to restart at the names in the question.
    fuse : bool, optional
        Whether the ranking is fused with that of a search by reciprocal ranks, c = 5: with vector search, or with hybrid search
        where names do not identify nodes, as in manuals (see :func:`~graph_retrievers.operators.traits.names_identify`). By
        default only there, where the walk alone finds less than its seeds promise.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    HippoRAG 2 links phrases of extracted facts. A corpus graph has none, so seeds are nodes, as in FastInsight, section 4.1.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models" (HippoRAG 2),
    ICML 2025.

    Examples
    --------
    >>> print(PPR(GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_gs
    """

    PUBLISHED = {
        "seeds": 5,
        "damping": 0.5,
        "passage_weight": 0.05,
        "fuse": False,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        seeds: int = 5,
        damping: float = 0.5,
        passage_weight: float = 0.05,
        first: Operator | None = None,
        fuse: bool | None = None,
        **options: Any,
    ) -> None:
        search = first or VectorSearch(positive("seeds", seeds), returned=False)
        walk = Pipeline(search, PersonalizedPageRank(damping=damping, passage_weight=passage_weight))
        super().__init__(index, partial(fused_with_search, walk, fuse), **options)


def fused_with_search(operator: Operator, fuse: bool | None, index: GraphIndex) -> Operator:
    """Return an operator fused with vector search, or with hybrid search where names do not identify nodes.

    With None for `fuse`, it is fused only there.
    """
    words = index.has_dense and not names_identify(index)
    if not (words if fuse is None else fuse):
        return operator
    return ReciprocalRankFusion(operator, HybridSearch(100) if words else VectorSearch(100), constant=5)
