"""GAR: graph-based adaptive reranking (MacAvaney et al., CIKM 2022)."""

from __future__ import annotations

from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.adaptive_reranking import AdaptiveReranking
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["GAR"]


class GAR(Retriever):
    """Vector search, then batches in turn from its ranking and from the graph, all scored by one model.

    Parameters
    ----------
    index : GraphIndex
    budget : int, default 100
        Nodes to score.
    nodes_per_round : int, default 10
        Nodes scored a round.
    first : Operator, optional
        First search; the `budget` best of vector search by default.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    The defaults are those of FastInsight's comparison (section 4.1); the published code's own defaults are
    1000 and 16. See :class:`~graph_retrievers.operators.adaptive_reranking.AdaptiveReranking` for the rules.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022.

    Examples
    --------
    >>> print(GAR(GraphIndex.from_texts(["a loom"], vectors=[[1]])).operator.formula())
    O_vs -> (O_vs, O_gs, O_m)*
    """

    PUBLISHED = {"budget": 1000, "nodes_per_round": 16, "backfill": False}

    def __init__(
        self,
        index: GraphIndex,
        *,
        budget: int = 100,
        nodes_per_round: int = 10,
        first: Operator | None = None,
        **options: Any,
    ) -> None:
        positive("budget", budget)
        search = first or VectorSearch(budget, returned=False)
        super().__init__(index, Pipeline(search, AdaptiveReranking(budget, nodes_per_round)), **options)
