"""Errors of the pydantic models of this package on unknown fields, and on fields that cannot be pickled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from graph_retrievers.arguments import check_pickle
from graph_retrievers.errors import UnexpectedArgumentError, shown
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.given import check_options


def check_fields(owner: str, fields: Mapping[str, Any], names: Collection[str], system: Any = None) -> None:
    """Raise UnexpectedArgumentError for an unknown field; entries of ``search_kwargs`` count as fields."""
    options = fields.get("search_kwargs")
    if "search_kwargs" not in names and isinstance(options, Mapping):
        entries = ", ".join(f"{name}={shown(value)}" for name, value in options.items())
        raise UnexpectedArgumentError(f"{owner} does not take 'search_kwargs'; pass its entries by themselves: {entries or 'k=4'}.")
    check_options(owner, fields, names, system)


class CheckedFields(BaseModel):
    """Base of pydantic models that forbid other fields; errors list the existing fields, and name one that cannot be pickled."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    unlisted: ClassVar[frozenset[str]] = frozenset()
    """Fields that callers do not set."""

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and not fields.keys() <= cls.model_fields.keys():
            check_fields(cls.__name__, fields, cls.model_fields.keys() - cls.unlisted)
        return fields

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state that pydantic pickles; raise InvalidArgumentError if a field cannot be pickled."""
        state: dict[Any, Any] = super().__getstate__()
        for name, value in state["__dict__"].items():
            # An engine retriever holds an index too, which is large; an index checks its own models.
            parts = {name: value} if name != "retriever" else getattr(value, "__dict__", {})
            check_pickle(type(self).__name__, {part: item for part, item in parts.items() if not isinstance(item, GraphIndex)})
        return state
