"""The named systems of the engine, with their knobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator
from llama_graph_retrievers.graph_retriever import IndexOptions, IndexRetriever

__all__ = [
    "BM25Retriever",
    "FastInsightRetriever",
    "GARRetriever",
    "HybridRetriever",
    "PPRRetriever",
    "Re2Retriever",
    "VectorRetriever",
    "WalkFusionRetriever",
]


class VectorRetriever(IndexRetriever):
    """Vector search: nodes by dot product with the query. Keywords: see :class:`IndexRetriever`."""

    system = "vector"

    def __init__(self, index: GraphIndex, **options: Unpack[IndexOptions]) -> None:
        super().__init__(index, **options)


class BM25Retriever(IndexRetriever):
    """BM25: nodes by the words they share with the query; needs no embedding model. Keywords: see :class:`IndexRetriever`."""

    system = "bm25"
    embeds_nodes = False

    def __init__(self, index: GraphIndex, **options: Unpack[IndexOptions]) -> None:
        super().__init__(index, **options)


class HybridRetriever(IndexRetriever):
    """Vector search and BM25 fused.

    Parameters
    ----------
    index : GraphIndex
    fusion : {"rrf", "weighted"}, default "rrf"
        Reciprocal ranks, or scores brought to [0, 1].
    weights : sequence of two floats, default (1.0, 1.0)
        Of dense and lexical search, each at least 0.
    **options
        Keywords of :class:`IndexRetriever`.
    """

    system = "hybrid"

    def __init__(
        self,
        index: GraphIndex,
        *,
        fusion: str = "rrf",
        weights: Sequence[float] = (1.0, 1.0),
        **options: Unpack[IndexOptions],
    ) -> None:
        super().__init__(index, {"fusion": fusion, "weights": weights}, **options)


class Re2Retriever(IndexRetriever):
    """Retrieve-then-rerank: the best of a first search, reordered by the index's relevance model.

    Parameters
    ----------
    index : GraphIndex
    depth : int, default 100
        Nodes to rerank.
    first : Operator, optional
        First search; vector search by default.
    **options
        Keywords of :class:`IndexRetriever`.
    """

    system = "re2"

    def __init__(
        self, index: GraphIndex, *, depth: int = 100, first: Operator | None = None, **options: Unpack[IndexOptions]
    ) -> None:
        super().__init__(index, {"depth": depth, "first": first}, **options)


class FastInsightRetriever(IndexRetriever):
    """FastInsight: vector search, then expansion along edges and graph reranking in turns.

    Parameters
    ----------
    index : GraphIndex
    budget : int, default 100
        Nodes to reach and score, the paper's b_max.
    batch : int, default 10
        Nodes of the first search and nodes added a round, the paper's BATCH.
    alpha : float, default 0.2
        Smoothing of GRanker, in [0, 1]; 0 leaves the edges out of the reranking.
    beta : float, default 1.0
        Weight of structure beside similarity in STeX, at least 0.
    first : Operator, optional
        First search; dense vector search by default. ``HybridSearch(10, returned=False)`` starts from dense and
        lexical search fused.
    degree : {"graph", "subgraph"}, default "graph"
        Degree that GRanker divides by.
    **options
        Keywords of :class:`IndexRetriever`.

    References
    ----------
    An, Hyun and Kim, "FastInsight: Fast and Insightful Retrieval via Fusion Operators for Graph RAG", SIGIR 2026;
    see :class:`graph_retrievers.retrievers.fastinsight.FastInsight`.

    Examples
    --------
    ::

        retriever = FastInsightRetriever.from_defaults(
            nodes=nodes, embed_model=embed_model, relevance="BAAI/bge-reranker-v2-m3", similarity_top_k=5
        )
        query_engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    """

    system = "fastinsight"

    def __init__(
        self,
        index: GraphIndex,
        *,
        budget: int = 100,
        batch: int = 10,
        alpha: float = 0.2,
        beta: float = 1.0,
        first: Operator | None = None,
        degree: str = "graph",
        **options: Unpack[IndexOptions],
    ) -> None:
        knobs = {"budget": budget, "batch": batch, "alpha": alpha, "beta": beta, "first": first, "degree": degree}
        super().__init__(index, knobs, **options)


class GARRetriever(IndexRetriever):
    """GAR, graph-based adaptive reranking: batches from a first search and from the graph in turns, all scored by one model.

    Parameters
    ----------
    index : GraphIndex
    budget : int, default 100
        Nodes to score.
    batch : int, default 10
        Nodes scored a round.
    first : Operator, optional
        First search; the `budget` best of vector search by default.
    **options
        Keywords of :class:`IndexRetriever`.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022; see
    :class:`graph_retrievers.retrievers.gar.GAR`.
    """

    system = "gar"

    def __init__(
        self,
        index: GraphIndex,
        *,
        budget: int = 100,
        batch: int = 10,
        first: Operator | None = None,
        **options: Unpack[IndexOptions],
    ) -> None:
        super().__init__(index, {"budget": budget, "batch": batch, "first": first}, **options)


class PPRRetriever(IndexRetriever):
    """Personalized PageRank, HippoRAG 2 style: a walk that restarts at the seeds ranks all nodes.

    Parameters
    ----------
    index : GraphIndex
    seeds : int, default 5
        Seeds taken from the first search.
    damping : float, default 0.5
        Probability of following an edge, in [0, 1).
    passage_weight : float, default 0.05
        Restart weight of all nodes together by similarity, beside the seeds' 1. At least 0.
    first : Operator, optional
        What finds seeds; vector search by default.
    **options
        Keywords of :class:`IndexRetriever`.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025; see :class:`graph_retrievers.retrievers.ppr.PPR`.
    """

    system = "ppr"

    def __init__(
        self,
        index: GraphIndex,
        *,
        seeds: int = 5,
        damping: float = 0.5,
        passage_weight: float = 0.05,
        first: Operator | None = None,
        **options: Unpack[IndexOptions],
    ) -> None:
        knobs = {"seeds": seeds, "damping": damping, "passage_weight": passage_weight, "first": first}
        super().__init__(index, knobs, **options)


class WalkFusionRetriever(IndexRetriever):
    """Hybrid search, PageRank, gated spreading activation and lexical feedback, fused by rank; needs no cross-encoder.

    Parameters
    ----------
    index : GraphIndex
    seeds : int, default 5
        Nodes that PageRank restarts at.
    weights : sequence of four floats, default (1, 1, 1, 1)
        Of the four searches, in the order above; 0 leaves one out.
    constant : int, default 5
        The c of reciprocal rank fusion.
    depth : int, default 100
        Nodes taken from each search.
    **options
        Keywords of :class:`IndexRetriever`.

    References
    ----------
    See :class:`graph_retrievers.retrievers.walk_fusion.WalkFusion`.
    """

    system = "walk-fusion"

    def __init__(
        self,
        index: GraphIndex,
        *,
        seeds: int = 5,
        weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
        constant: int = 5,
        depth: int = 100,
        **options: Unpack[IndexOptions],
    ) -> None:
        super().__init__(index, {"seeds": seeds, "weights": weights, "constant": constant, "depth": depth}, **options)
