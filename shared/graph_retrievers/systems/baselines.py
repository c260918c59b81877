"""Baselines for comparison: vector search, BM25, both fused, and retrieve-then-rerank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Search
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Relevance
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.path_texts import texts_read
from graph_retrievers.search.vector_search import BM25Search, HybridSearch, VectorSearch

__all__ = ["BM25", "Hybrid", "Re2", "Rerank", "Vector"]


class Rerank(Operator):
    """Rerank nodes by the relevance model of the index.

    Parameters
    ----------
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    The scores are the model's own outputs (raw logits of a cross-encoder). Equal scores keep their order. A (query, node) pair is
    encoded once, also across operators. A model that asks for them also gets the paths to the nodes
    (:func:`~graph_retrievers.search.path_texts.texts_read`).

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> print(Pipeline(BM25Search(100), Rerank(10)).formula())
    O_vs -> O_m
    """

    kind = OperatorKind.MODEL_SEARCH
    asks_relevance = True

    def __init__(self, k: int | None = None) -> None:
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the same nodes ordered by the model's score."""
        texts = yield from texts_read(question, found)
        return found.rescored((yield Relevance(found.nodes, texts=texts, notes=question.notes)))


class Vector(Retriever):
    """Vector search: rank nodes by dot product with the query.

    Parameters
    ----------
    index : GraphIndex
    **options
        Keywords of :class:`Retriever`.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> Vector(index).retrieve("cards", k=1, vector=[0.1, 0.9])[0].text
    'a card'
    """

    PUBLISHED = {}

    def __init__(self, index: GraphIndex, **options: Unpack[RetrieverOptions]) -> None:
        super().__init__(index, VectorSearch(), **options)


class BM25(Retriever):
    """BM25: rank nodes by the words that they share with the query.

    Parameters
    ----------
    index : GraphIndex
    **options
        Keywords of :class:`Retriever`.

    Examples
    --------
    >>> BM25(GraphIndex.from_texts(["a loom", "a card"])).retrieve("Which card?", k=1)[0].text
    'a card'
    """

    PUBLISHED = {}

    def __init__(self, index: GraphIndex, **options: Unpack[RetrieverOptions]) -> None:
        super().__init__(index, BM25Search(), **options)


class Hybrid(Retriever):
    """Vector search and BM25 fused.

    Parameters
    ----------
    index : GraphIndex
    fusion : {"rrf", "weighted"}, default "rrf"
        Reciprocal ranks, or a weighted sum of scores scaled to [0, 1].
    weights : sequence of two floats, default (1.0, 1.0)
        Weights of vector search and BM25.
    **options
        Keywords of :class:`Retriever`.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> [hit.text for hit in Hybrid(index).retrieve("card", vector=[1, 0])]
    ['a card', 'a loom']
    """

    PUBLISHED = {"fusion": "rrf", "weights": (1.0, 1.0)}

    def __init__(
        self, index: GraphIndex, *, fusion: str = "rrf", weights: Sequence[float] = (1.0, 1.0), **options: Unpack[RetrieverOptions]
    ) -> None:
        super().__init__(index, HybridSearch(fusion=fusion, weights=weights), **options)


class Re2(Retriever):
    """Retrieve-then-rerank: the relevance model reorders the best results of a first search.

    Parameters
    ----------
    index : GraphIndex
    depth : int, default 100
        Nodes to rerank.
    first : Operator, optional
        First search; vector search by default.
    **options
        Keywords of :class:`Retriever`.

    Examples
    --------
    >>> print(Re2(GraphIndex.from_texts(["a loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_m
    """

    PUBLISHED = {"depth": 100, "backfill": False}

    def __init__(
        self, index: GraphIndex, *, depth: int = 100, first: Operator | None = None, **options: Unpack[RetrieverOptions]
    ) -> None:
        super().__init__(index, Pipeline(first or VectorSearch(depth), Rerank()), **options)
