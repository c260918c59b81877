"""Baselines: vector search, BM25, both fused, and retrieve-then-rerank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.rerank import Rerank
from graph_retrievers.operators.vector_search import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["BM25", "Hybrid", "Re2", "Vector"]


class Vector(Retriever):
    """Vector search: nodes by dot product with the query.

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

    def __init__(self, index: GraphIndex, **options: Any) -> None:
        super().__init__(index, VectorSearch(), **options)


class BM25(Retriever):
    """BM25: nodes by the words they share with the query.

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

    def __init__(self, index: GraphIndex, **options: Any) -> None:
        super().__init__(index, BM25Search(), **options)


class Hybrid(Retriever):
    """Vector search and BM25 fused.

    Parameters
    ----------
    index : GraphIndex
    fusion : {"rrf", "weighted"}, default "rrf"
        Reciprocal ranks, or a weighted sum of scores brought to [0, 1].
    weights : sequence of two floats, default (1.0, 1.0)
        Of vector search and BM25.
    **options
        Keywords of :class:`Retriever`.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> [hit.text for hit in Hybrid(index).retrieve("card", vector=[1, 0])]
    ['a card', 'a loom']
    """

    PUBLISHED = {"fusion": "rrf", "weights": (1.0, 1.0)}

    def __init__(self, index: GraphIndex, *, fusion: str = "rrf", weights: Sequence[float] = (1.0, 1.0), **options: Any) -> None:
        super().__init__(index, HybridSearch(fusion=fusion, weights=weights), **options)


class Re2(Retriever):
    """Retrieve-then-rerank: the best of a first search, reordered by the relevance model.

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

    def __init__(self, index: GraphIndex, *, depth: int = 100, first: Operator | None = None, **options: Any) -> None:
        super().__init__(index, Pipeline(first or VectorSearch(depth), Rerank()), **options)
