"""Keywords that are passed on to a GraphRetriever and to the engine retriever."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.arguments import check_keywords, keywords_of
from graph_retrievers.errors import UnexpectedArgumentError, shown
from graph_retrievers.graph.filters import Filter
from graph_retrievers.retrievers.options import CommonOptions

__all__ = ["DefaultsOptions", "check_options"]


class DefaultsOptions(CommonOptions, total=False):
    """Keywords of GraphRetriever that from_defaults does not read itself."""

    similarity_top_k: int | None
    filters: MetadataFilters | Filter | None
    seed_filters: MetadataFilters | Filter | None
    traversal_filters: MetadataFilters | Filter | None
    scope: MetadataFilters | Filter | None
    inputs: Mapping[str, Callable[[str], Any]] | None
    provenance: bool
    callback_manager: CallbackManager | None
    object_map: MutableMapping[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


def check_options(owner: str, options: Mapping[str, Any], system: Any, *functions: Callable[..., Any]) -> None:
    """Raise UnexpectedArgumentError for a keyword that is neither one of the functions nor of every retriever of the engine.

    For a parameter of the `system`, it says where that goes.
    """
    known = keywords_of(*functions) | {"system"} | CommonOptions.__optional_keys__
    for name in options.keys() - known:
        if name in getattr(system, "__dataclass_fields__", ()):
            told = f"{owner}(..., system={type(system).__name__}({name}=...))"
            raise UnexpectedArgumentError(f"{shown(name)} is a parameter of the system: {told}.")
    check_keywords(owner, options, sorted(known))
