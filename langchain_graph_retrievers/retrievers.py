"""Retrievers: any engine retriever as it stands, and the named systems with their knobs as fields."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator
from graph_retrievers.retrievers.registry import build_retriever
from graph_retrievers.retrievers.retriever import Retriever
from langchain_graph_retrievers.base import EngineRetriever

__all__ = [
    "BM25Retriever",
    "FastInsightRetriever",
    "GraphRetriever",
    "HybridRetriever",
    "IndexRetriever",
    "Re2Retriever",
    "VectorRetriever",
]


class GraphRetriever(EngineRetriever):
    """Any engine retriever, a composition of one's own among them.

    Parameters
    ----------
    retriever : graph_retrievers.retrievers.Retriever
        The engine retriever.
    k : int, optional
        Documents to return; by default the engine retriever's own k.
    **fields
        Those of :class:`~langchain_graph_retrievers.base.EngineRetriever`.

    Examples
    --------
    >>> from graph_retrievers.index import GraphIndex
    >>> from graph_retrievers.operators import BM25Search
    >>> from graph_retrievers.retrievers import Retriever
    >>> index = GraphIndex.from_texts(["Ada wrote the first program.", "Babbage built an engine."])
    >>> GraphRetriever(retriever=Retriever(index, BM25Search()), k=1).invoke("Who built an engine?")[0].page_content
    'Babbage built an engine.'
    """

    retriever: Retriever = Field(repr=False, exclude=True)

    def _engine(self) -> Retriever:
        return self.retriever

    def _graph_index(self) -> GraphIndex:
        return self.retriever.index

    @classmethod
    def from_index(cls, index: GraphIndex, *, system: str | Operator = "fastinsight", **fields: Any) -> Self:
        """Return a retriever on an index.

        Parameters
        ----------
        index : GraphIndex
        system : str or Operator, default "fastinsight"
            A name of :func:`graph_retrievers.retrievers.registry.retriever_names`, or operators of one's own.
        **fields
            Those of the class.
        """
        engine = Retriever(index, system) if isinstance(system, Operator) else build_retriever(system, index)
        return cls(retriever=engine, **fields)


class IndexRetriever(EngineRetriever):
    """A named system of the engine on an index; a subclass gives its name and its knobs.

    The fields that a subclass adds are the keywords of the engine's class. The engine retriever is put together
    anew for each call: it is a composition of operators, and whatever is heavy lives in the index.

    Parameters
    ----------
    index : GraphIndex
        What is searched; retrievers may share one.
    k : int, default 10
        Documents to return; fewer come only where the corpus, or the filter, has fewer.
    backfill : bool, default True
        Whether vector search (BM25 where the index has no vectors) fills up to k, marked by the operator "Backfill".
    **fields
        Those of :class:`~langchain_graph_retrievers.base.EngineRetriever`.
    """

    system: ClassVar[str]
    """Name of the engine's class, as :func:`graph_retrievers.retrievers.registry.build_retriever` knows it."""

    index: GraphIndex = Field(repr=False, exclude=True)
    k: int | None = Field(10, ge=1)
    backfill: bool = True

    def _options(self) -> dict[str, Any]:
        """Return the keywords of the engine's class: the fields that stand in no class above this one."""
        names = type(self).model_fields.keys() - IndexRetriever.model_fields.keys()
        return {name: getattr(self, name) for name in sorted(names)}

    def _engine(self) -> Retriever:
        return build_retriever(self.system, self.index, backfill=self.backfill, **self._options())

    def _graph_index(self) -> GraphIndex:
        return self.index

    @classmethod
    def from_index(cls, index: GraphIndex, **fields: Any) -> Self:
        """Return a retriever on an index; `fields` are those of the class."""
        return cls(index=index, **fields)


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

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        # `batch` is a method of every Runnable, so the field cannot bear the engine's name.
        options["batch"] = options.pop("batch_size")
        return options
