"""Keywords that are passed on to a GraphRetriever, for type checkers."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.graph.filters import Filter
from graph_retrievers.retrievers.options import CommonOptions


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
