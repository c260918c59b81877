"""The search whose nodes a reranker orders: another retriever by name, or an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.candidates import Candidates
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.retrievers.registry import build_retriever

__all__ = ["candidates_of", "reranked"]


def candidates_of(index: GraphIndex, first: str | Operator, settings: Mapping[str, Any], depth: int) -> Operator:
    """Return the operator `first`, or that of the retriever of this name with these settings, as a search for `depth` nodes.

    >>> candidates_of(GraphIndex.from_texts(["a loom"]), "bm25", {}, 100).formula()
    'O_vs'
    """
    return Candidates(first if isinstance(first, Operator) else build_retriever(first, index, **settings).operator, depth)


def reranked(index: GraphIndex, *, first: str | Operator, settings: Mapping[str, Any], reranker: Any) -> Operator:
    """Return :func:`candidates_of` with an operator behind it, which says by `depth` how many nodes it reads.

    >>> from graph_retrievers.operators import PathRerank
    >>> reranked(GraphIndex.from_texts(["a loom"]), first="bm25", settings={}, reranker=PathRerank()).formula()
    'O_vs -> O_gm'
    """
    return Pipeline(candidates_of(index, first, settings, reranker.depth), reranker)
