"""WalkFusion: vector search, BM25 and graph searches, fused by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.feedback_search import FeedbackSearch
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.pagerank import PersonalizedPageRank
from graph_retrievers.operators.spreading import EntityLinking, GatedPropagation
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.traits import names_identify
from graph_retrievers.operators.vector_search import HybridSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["WalkFusion"]


class WalkFusion(Retriever):
    r"""Searches side by side, fused by reciprocal ranks; needs no cross-encoder.

    .. math:: S_n = \sum_{l} \frac{w_l}{c + r_l(n)}

    over the lists l that hold node n at rank :math:`r_l(n) \ge 1`. Where names identify nodes, as in an encyclopedia, there are
    four:

    1. hybrid search: vector search and BM25 by reciprocal ranks;
    2. personalized PageRank from the best nodes of hybrid search, for all links;
    3. gated spreading activation from the names in the question, for links that are relevant to the question;
    4. BM25 of the question together with the best passage of hybrid search, for second passages without an edge to the first.

    Where they do not, as in a manual, whose headings are ordinary words, there are two:

    1. hybrid search;
    2. STeX from the best nodes of hybrid search: these, and behind them their neighbours by similarity and structure.

    Parameters
    ----------
    index : GraphIndex
        With vectors and BM25.
    seeds : int, default 5
        Nodes of hybrid search that PageRank restarts at, or STeX expands.
    names : bool, optional
        Whether names identify nodes; decided by :func:`~graph_retrievers.operators.traits.names_identify` by default.
    weights : sequence of float, optional
        The w of the equation, four or two; all 1 by default. 0 leaves a list out.
    constant : int, default 5
        The c of the equation. With the usual 60, a node at rank 20 of two lists would pass the best of one.
    depth : int, default 100
        Nodes taken from each list.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    The four lists were chosen on the dev questions of three multi-hop sets over Wikipedia (118 questions, all-MiniLM-L6-v2,
    Recall@10): all four .906; without list 1 .902, without 2 .891, without 3 .845, without 4 .893; with c = 60 .872. There, vector
    search reaches .709, PageRank .810, gated spreading activation .847, FastInsight with a small cross-encoder .804.

    The two lists were chosen on the train and dev questions of a manual (65 questions): hybrid search .777, both .828, the four
    lists .788.

    ``retrieve`` takes ``entities=[...]``, names that the question mentions; they are read where there are four lists.

    References
    ----------
    A composition of this package. Its parts: Cormack et al., SIGIR 2009 (reciprocal rank fusion); Gutiérrez et al.,
    ICML 2025 (PageRank from retrieved passages); Glybovets and Makarov, 2026 (gated spreading activation); Rocchio,
    1971 (relevance feedback); An et al., SIGIR 2026 (STeX).

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]], edges=[("0", "1", "reads")])
    >>> [hit.text for hit in WalkFusion(index).retrieve("looms", vector=[1, 0])]
    ['a loom', 'a card']
    """

    def __init__(
        self,
        index: GraphIndex,
        *,
        seeds: int = 5,
        names: bool | None = None,
        weights: Sequence[float] | None = None,
        constant: int = 5,
        depth: int = 100,
        **options: Any,
    ) -> None:
        best = HybridSearch(positive("seeds", seeds), returned=False)
        if names is None:
            names = not isinstance(index, GraphIndex) or names_identify(index)
        if names:
            searches: list[Operator] = [
                HybridSearch(depth),
                Pipeline(best, PersonalizedPageRank(depth)),
                Pipeline(EntityLinking(), GatedPropagation()),
                Pipeline(HybridSearch(1, returned=False), FeedbackSearch(depth)),
            ]
        else:
            searches = [HybridSearch(depth), Pipeline(best, STeX())]
        fusion = ReciprocalRankFusion(*searches, weights=weights, depth=depth, constant=constant)
        super().__init__(index, fusion, **options)
