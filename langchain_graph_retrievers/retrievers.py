"""The named systems of the engine, with their knobs as fields."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graph_retrievers.operators.operator import Operator
from langchain_graph_retrievers.graph_retriever import IndexRetriever

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
    """Vector search: documents by dot product with the query. Fields: see :class:`IndexRetriever`."""

    system = "vector"


class BM25Retriever(IndexRetriever):
    """BM25: documents by the words they share with the query. Fields: see :class:`IndexRetriever`."""

    system = "bm25"


class HybridRetriever(IndexRetriever):
    """Vector search and BM25 fused.

    Parameters
    ----------
    fusion : {"rrf", "weighted"}, default "rrf"
        Reciprocal ranks, or scores brought to [0, 1].
    weights : tuple of two floats, default (1.0, 1.0)
        Of dense and lexical search, each at least 0.
    **fields
        Those of :class:`IndexRetriever`.
    """

    system = "hybrid"

    fusion: Literal["rrf", "weighted"] = "rrf"
    weights: tuple[float, float] = (1.0, 1.0)


class Re2Retriever(IndexRetriever):
    """Retrieve-then-rerank: the best of a first search, reordered by the index's relevance model.

    Parameters
    ----------
    depth : int, default 100
        Documents to rerank.
    first : Operator, optional
        First search; vector search by default.
    **fields
        Those of :class:`IndexRetriever`.
    """

    system = "re2"

    depth: int = Field(100, ge=1)
    first: Operator | None = None


class FastInsightRetriever(IndexRetriever):
    """FastInsight: vector search, then expansion along edges and graph reranking in turns.

    Parameters
    ----------
    budget : int, default 100
        Documents to reach and score, the paper's b_max.
    batch_size : int, default 10
        Documents of the first search and added a round, the paper's BATCH.
    alpha : float, default 0.2
        Smoothing of GRanker, in [0, 1]; 0 leaves the edges out of the reranking.
    beta : float, default 1.0
        Weight of structure beside similarity in STeX, at least 0.
    first : Operator, optional
        First search; dense vector search by default. ``HybridSearch(10, returned=False)`` starts from dense and
        lexical search fused.
    degree : {"graph", "subgraph"}, default "graph"
        Degree that GRanker divides by.
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    An, Hyun and Kim, "FastInsight: Fast and Insightful Retrieval via Fusion Operators for Graph RAG", SIGIR 2026;
    see :class:`graph_retrievers.retrievers.fastinsight.FastInsight`.

    Examples
    --------
    ::

        retriever = FastInsightRetriever.from_documents(
            documents, embeddings, edges=[("cites", "$id")], relevance="BAAI/bge-reranker-v2-m3", k=5
        )
        chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model
    """

    system = "fastinsight"

    budget: int = Field(100, ge=1)
    batch_size: int = Field(10, ge=1)
    alpha: float = Field(0.2, ge=0, le=1)
    beta: float = Field(1.0, ge=0)
    first: Operator | None = None
    degree: Literal["graph", "subgraph"] = "graph"


class GARRetriever(IndexRetriever):
    """GAR, graph-based adaptive reranking: batches from a first search and from the graph in turns, all scored by one model.

    Parameters
    ----------
    budget : int, default 100
        Documents to score.
    batch_size : int, default 10
        Documents scored a round.
    first : Operator, optional
        First search; the `budget` best of vector search by default.
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022; see
    :class:`graph_retrievers.retrievers.gar.GAR`.
    """

    system = "gar"

    budget: int = Field(100, ge=1)
    batch_size: int = Field(10, ge=1)
    first: Operator | None = None


class PPRRetriever(IndexRetriever):
    """Personalized PageRank, HippoRAG 2 style: a walk that restarts at the seeds ranks all documents.

    Parameters
    ----------
    seeds : int, default 5
        Seeds taken from the first search.
    damping : float, default 0.5
        Probability of following an edge, in [0, 1).
    passage_weight : float, default 0.05
        Restart weight of all documents together by similarity, beside the seeds' 1. At least 0.
    first : Operator, optional
        What finds seeds; vector search by default.
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025; see :class:`graph_retrievers.retrievers.ppr.PPR`.
    """

    system = "ppr"

    seeds: int = Field(5, ge=1)
    damping: float = Field(0.5, ge=0, lt=1)
    passage_weight: float = Field(0.05, ge=0)
    first: Operator | None = None


class WalkFusionRetriever(IndexRetriever):
    """Hybrid search, PageRank, gated spreading activation and lexical feedback, fused by rank; needs no cross-encoder.

    Parameters
    ----------
    seeds : int, default 5
        Documents that PageRank restarts at.
    weights : tuple of four floats, default (1, 1, 1, 1)
        Of the four searches, in the order above; 0 leaves one out.
    constant : int, default 5
        The c of reciprocal rank fusion.
    depth : int, default 100
        Documents taken from each search.
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    See :class:`graph_retrievers.retrievers.walk_fusion.WalkFusion`.
    """

    system = "walk-fusion"

    seeds: int = Field(5, ge=1)
    weights: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    constant: int = Field(5, ge=1)
    depth: int = Field(100, ge=1)
