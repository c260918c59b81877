"""FastInsight: GRanker and STeX interleaved (An et al., SIGIR 2026, Algorithm 1)."""

from __future__ import annotations

from functools import partial
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.operator import Loop, Operator, Pipeline
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.ppr import fused_with_search
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["FastInsight"]


class FastInsight(Retriever):
    r"""Vector search, then expansion and graph reranking in turns until the budget is met (Algorithm 1).

    .. math:: O_{vs} \to O_{gm} \to (O_{vgs} \to O_{gm})^*

    Parameters
    ----------
    index : GraphIndex
        With vectors; its relevance model is a cross-encoder, or the bi-encoder fallback.
    budget : int, default 100
        Nodes to retrieve and score, the paper's b_max.
    nodes_per_round : int, default 10
        Nodes of the first search and nodes added a round, the paper's BATCH.
    alpha : float, default 0.2
        Smoothing factor of GRanker.
    beta : float, default 1.0
        Score ratio of STeX.
    first : Operator, optional
        First search; vector search by default, ``HybridSearch(10, returned=False)`` for vector search and BM25 fused.
    degree : {"graph", "subgraph"}, default "graph"
        Degree that GRanker divides by.
    paths : bool, default False
        Whether the model reads each node together with the node that it was reached from (see
        :class:`~graph_retrievers.operators.granker.GRanker`); the paper's reads it alone.
    fuse : bool, optional
        Whether the ranking is fused with that of a search by reciprocal ranks, c = 5: with vector search, or with hybrid search
        where names do not identify nodes, as in manuals (see :func:`~graph_retrievers.operators.traits.names_identify`). By
        default only there; the paper does not. It helps where the relevance model is weak on the documents at hand, such as
        sections of a manual that are longer than it reads. With False, the ranking is that of the paper everywhere.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    Departures from the printed algorithm, so that it ends: the loop stops when a round finds no new node, and the first search
    returns at most `budget` nodes. Vector search fills the result up to k, marked as such (``backfill``).

    References
    ----------
    An, Hyun and Kim, "FastInsight: Fast and Insightful Retrieval via Fusion Operators for Graph RAG", SIGIR 2026,
    section 3.2, Algorithm 1; defaults of section 4.1.

    Examples
    --------
    >>> print(FastInsight(GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_gm -> (O_vgs -> O_gm)*
    """

    PUBLISHED = {
        "budget": 100,
        "nodes_per_round": 10,
        "alpha": 0.2,
        "beta": 1.0,
        "degree": "graph",
        "paths": False,
        "fuse": False,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        budget: int = 100,
        nodes_per_round: int = 10,
        alpha: float = 0.2,
        beta: float = 1.0,
        first: Operator | None = None,
        degree: str = "graph",
        paths: bool = False,
        fuse: bool | None = None,
        **options: Any,
    ) -> None:
        positive("budget", budget)
        positive("nodes_per_round", nodes_per_round)
        algorithm = Pipeline(
            first or VectorSearch(min(nodes_per_round, budget), returned=False),  # line 1
            GRanker(alpha, degree=degree, paths=paths),  # line 2
            Loop(  # lines 3 to 8
                STeX(beta, nodes_per_round=nodes_per_round, budget=budget),
                GRanker(alpha, degree=degree, paths=paths),
                budget=budget,
            ),
        )
        super().__init__(index, partial(fused_with_search, algorithm, fuse), **options)
