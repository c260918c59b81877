"""Eager, MMR and Scored: the traversal strategies of DataStax's graph-retriever."""

from __future__ import annotations

import math
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.strategies import EagerTraversal, MMRTraversal, ScoredTraversal, Scorer
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["MMR", "Eager", "Scored"]


_PUBLISHED = {"start_k": 4, "adjacent_k": 10, "max_depth": None, "k": 5, "backfill": False}


def _from_start(start_k: int, traversal: Operator) -> Operator:
    return Pipeline(VectorSearch(positive("start_k", start_k), returned=False), traversal)


class Eager(Retriever):
    """Vector search, then all neighbours layer by layer: breadth-first traversal.

    Parameters
    ----------
    index : GraphIndex
        With vectors.
    start_k : int, default 4
        Nodes of vector search that the traversal starts from.
    adjacent_k : int, default 10
    max_depth : int, optional
        See :class:`~graph_retrievers.operators.strategies.EagerTraversal`, which also states the departures.
    **options
        Keywords of :class:`Retriever`. `k` is the original's `select_k` (default there: 5); where the traversal finds fewer,
        vector search fills up unless ``backfill=False``.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Eager``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> print(Eager(GraphIndex.from_texts(["a loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_vgs
    """

    PUBLISHED = _PUBLISHED

    def __init__(
        self, index: GraphIndex, *, start_k: int = 4, adjacent_k: int = 10, max_depth: int | None = None, **options: Any
    ) -> None:
        traversal = EagerTraversal(adjacent_k=adjacent_k, max_depth=max_depth)
        super().__init__(index, _from_start(start_k, traversal), **options)


class MMR(Retriever):
    """Vector search, then neighbour by neighbour what is like the question and unlike what was visited before.

    Parameters
    ----------
    index : GraphIndex
        With vectors in memory.
    start_k, adjacent_k, max_depth
        As for :class:`Eager`.
    lambda_mult : float in [0, 1], default 0.5
    min_mmr_score : float, default -inf
        See :class:`~graph_retrievers.operators.strategies.MMRTraversal`.
    **options
        As for :class:`Eager`.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Mmr``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> print(MMR(GraphIndex.from_texts(["a loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_vgs
    """

    PUBLISHED = {**_PUBLISHED, "lambda_mult": 0.5, "min_mmr_score": -math.inf}

    def __init__(
        self,
        index: GraphIndex,
        *,
        start_k: int = 4,
        adjacent_k: int = 10,
        max_depth: int | None = None,
        lambda_mult: float = 0.5,
        min_mmr_score: float = -math.inf,
        **options: Any,
    ) -> None:
        traversal = MMRTraversal(adjacent_k=adjacent_k, max_depth=max_depth, lambda_mult=lambda_mult, min_mmr_score=min_mmr_score)
        super().__init__(index, _from_start(start_k, traversal), **options)


class Scored(Retriever):
    """Vector search, then what scores best among all that is found, with neighbours of what was visited.

    Parameters
    ----------
    index : GraphIndex
        With vectors.
    start_k, adjacent_k, max_depth
        As for :class:`Eager`.
    scorer : callable, optional
    per_iteration_limit : int, optional
        See :class:`~graph_retrievers.operators.strategies.ScoredTraversal`.
    **options
        As for :class:`Eager`.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Scored``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> print(Scored(GraphIndex.from_texts(["a loom"], vectors=[[1]])).operator.formula())
    O_vs -> O_vgs
    """

    PUBLISHED = {**_PUBLISHED, "per_iteration_limit": None}

    def __init__(
        self,
        index: GraphIndex,
        *,
        start_k: int = 4,
        adjacent_k: int = 10,
        max_depth: int | None = None,
        scorer: Scorer | None = None,
        per_iteration_limit: int | None = None,
        **options: Any,
    ) -> None:
        traversal = ScoredTraversal(
            adjacent_k=adjacent_k, max_depth=max_depth, scorer=scorer, per_iteration_limit=per_iteration_limit
        )
        super().__init__(index, _from_start(start_k, traversal), **options)
