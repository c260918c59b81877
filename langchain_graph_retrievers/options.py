"""Keywords that are passed on, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graph_retrievers.graph.filters import Filter
from graph_retrievers.index.options import DocumentOptions, TextOptions
from graph_retrievers.retrievers.options import CommonOptions

if TYPE_CHECKING:
    from graph_retrievers.retrievers.options import SystemLike
else:
    # Pydantic would copy a system, which is a dataclass, and check its fields; the constructor reads it.
    SystemLike = Any


class Fields(CommonOptions, total=False):
    """Fields of GraphRetriever but `index` and `retriever`."""

    system: SystemLike | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    k: int | None
    filter: Filter | None
    seed_filter: Filter | None
    traversal_filter: Filter | None
    scope: Filter | None
    provenance: bool


class GraphTextOptions(Fields, TextOptions, total=False):
    """Keywords of GraphRetriever.from_texts."""


class GraphDocumentOptions(Fields, DocumentOptions, total=False):
    """Keywords of GraphRetriever.from_documents and from_vectorstore."""
