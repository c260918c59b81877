"""Fields that a class of this package does not have are refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator

from graph_retrievers.arguments import check_keywords
from graph_retrievers.errors import UnexpectedArgumentError, shown

__all__ = ["KnownFields", "check_fields"]


def check_fields(owner: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise UnexpectedArgumentError for a field that is not one of those known; entries of ``search_kwargs`` are fields here."""
    held = given.get("search_kwargs")
    if "search_kwargs" not in known and isinstance(held, Mapping):
        entries = ", ".join(f"{name}={shown(value)}" for name, value in held.items())
        raise UnexpectedArgumentError(f"{owner} does not take 'search_kwargs'; pass its entries by themselves: {entries or 'k=4'}.")
    check_keywords(owner, given, sorted(known))


class KnownFields(BaseModel):
    """For pydantic models that forbid other fields: the error lists those that exist."""

    unlisted: ClassVar[frozenset[str]] = frozenset()
    """Fields that callers do not give."""

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and not fields.keys() <= cls.model_fields.keys():
            check_fields(cls.__name__, fields, cls.model_fields.keys() - cls.unlisted)
        return fields
