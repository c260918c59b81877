"""Adapters that turn what users pass as a relevance model into a :class:`RelevanceModel`."""

from __future__ import annotations

from typing import Any

from graph_retrievers.arguments import not_a_class
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.relevance import PairScorer, RelevanceModel

__all__ = ["as_relevance_model"]


def as_relevance_model(model: Any) -> RelevanceModel:
    """Return `model` as a :class:`RelevanceModel`; InvalidArgumentError if it is none of the kinds below.

    Parameters
    ----------
    model : RelevanceModel, str, Path, object with ``score(pairs)``, or callable
        A name or folder is loaded as a cross-encoder; a LangChain ``BaseCrossEncoder`` or a callable from a list of
        (query, text) to scores becomes a :class:`PairScorer`.

    Examples
    --------
    >>> model = as_relevance_model(lambda pairs: [len(text) for _, text in pairs])
    >>> model.score(model.encode(["q", "q"], ["loom", "cards"]))
    tensor([4., 5.])
    """
    not_a_class("relevance", model)
    if isinstance(model, RelevanceModel):
        return model
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        return CrossEncoder(model)
    if callable(getattr(model, "score", None)):
        return PairScorer(model.score, type(model).__name__)
    if callable(model):
        return PairScorer(model, getattr(model, "__name__", "callable"))
    raise InvalidArgumentError(
        f"{type(model).__name__} is not a relevance model; pass a model name or folder, an object with score(pairs), "
        "or a callable from (query, text) pairs to scores."
    )
