"""The search whose nodes a reranker orders: another retriever by name, or an operator."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from graph_retrievers.core.compositions import FirstStage, Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.untrained import Untrained
from graph_retrievers.systems.registry import build_retriever

__all__ = ["first_stage", "reranked", "untrained_first"]

# The checkpoints whose retrievers are being built, each as the first search of the one before.
_UNDER_WAY: ContextVar[tuple[str, ...]] = ContextVar("checkpoints of first searches", default=())


def first_stage(index: GraphIndex, first: str | Operator, settings: Mapping[str, Any], depth: int) -> Operator:
    """Return the operator `first`, or that of the retriever with this name and settings, as a search for `depth` nodes.

    Raises InvalidArgumentError if the retriever's checkpoint names itself as its first search, directly or indirectly.
    """
    if isinstance(first, Operator):
        return FirstStage(first, depth)
    under_way, checkpoint = _UNDER_WAY.get(), settings.get("checkpoint")
    named = () if checkpoint is None else (str(checkpoint),)
    if set(named) & set(under_way):
        raise InvalidArgumentError(
            f"The checkpoint {str(checkpoint)!r} names itself as its first search (first_settings); pass another search as first=, "
            "or fit it again behind another."
        )
    token = _UNDER_WAY.set((*under_way, *named))
    try:
        return FirstStage(build_retriever(first, index, **settings).operator, depth)
    finally:
        _UNDER_WAY.reset(token)


def untrained_first(index: GraphIndex, first: str | Operator, settings: Mapping[str, Any]) -> tuple[Untrained, ...]:
    """Return the parts of a first search that are not trained; an operator tells nothing of them."""
    return () if isinstance(first, Operator) else build_retriever(first, index, **settings)._untrained


def reranked(index: GraphIndex, *, first: str | Operator, settings: Mapping[str, Any], reranker: Any) -> Operator:
    """Return :func:`first_stage` followed by an operator, whose `depth` is the number of nodes that it reads."""
    return Pipeline(first_stage(index, first, settings, reranker.depth), reranker)
