"""Pickles of classes of this package: a field that cannot be pickled is named."""

from __future__ import annotations

from typing import Any

from graph_retrievers.arguments import check_pickle
from graph_retrievers.index import GraphIndex

__all__ = ["PickledFields"]


class PickledFields:
    """For pydantic models: says which field cannot be pickled. An index checks its own models."""

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state that pydantic pickles; raise InvalidArgumentError if a field cannot be pickled."""
        state: dict[Any, Any] = super().__getstate__()  # type: ignore[assignment]
        for name, value in state["__dict__"].items():
            # An engine retriever holds an index too, which is large.
            parts = {name: value} if name != "retriever" else getattr(value, "__dict__", {})
            owner = type(self).__name__
            check_pickle(owner, {part: held for part, held in parts.items() if not isinstance(held, GraphIndex)})
        return state
