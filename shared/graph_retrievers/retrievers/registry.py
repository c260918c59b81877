"""Retrievers by the short names that the command line and the evaluation use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["build_retriever", "retriever_names"]

# name -> (module, class or function, keywords); modules are imported when a name is first built.
_RETRIEVERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vector": ("baselines", "Vector", {}),
    "bm25": ("baselines", "Lexical", {}),
    "hybrid": ("baselines", "Hybrid", {}),
    "re2": ("baselines", "Re2", {}),
    "fastinsight": ("fastinsight", "FastInsight", {}),
    "gar": ("gar", "GAR", {}),
    "ppr": ("ppr", "PPR", {}),
    "spreading": ("spreading_activation", "SpreadingActivation", {}),
    "spreading-uniform": ("spreading_activation", "SpreadingActivation", {"gate": "uniform"}),
    "spreading-hybrid": ("spreading_activation", "SpreadingActivation", {"fuse": True}),
    "walk-fusion": ("walk_fusion", "WalkFusion", {}),
    "mor": ("mor", "MoR", {}),
    "mor-text": ("mor", "MoR", {"structure": False, "rerank": False}),
    "mor-structure": ("mor", "MoR", {"matches": 0, "rerank": False}),
    "mor-no-rerank": ("mor", "MoR", {"rerank": False}),
}


def retriever_names() -> list[str]:
    """Return the names that :func:`build_retriever` knows."""
    return list(_RETRIEVERS)


def build_retriever(name: str, index: GraphIndex, **options: Any) -> Retriever:
    """Return the retriever of a short name on an index.

    Parameters
    ----------
    name : str
        One of :func:`retriever_names`.
    index : GraphIndex
    **options
        Keywords of the retriever's class (``checkpoint`` for those that train).

    Raises
    ------
    InvalidArgumentError
        If the name is unknown.
    """
    if name not in _RETRIEVERS:
        raise InvalidArgumentError(f"Unknown retriever {name!r}; choose from {', '.join(_RETRIEVERS)}.")
    module, attribute, keywords = _RETRIEVERS[name]
    make: Callable[..., Retriever] = getattr(import_module(f"graph_retrievers.retrievers.{module}"), attribute)
    retriever = make(index, **{**keywords, **options})
    retriever.name = name
    return retriever
