"""Keywords of retrievers and of what builds their index; written by tools/stubs.py, not by hand."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypedDict

from torch import device

from graph_retrievers.core.operator import Operator
from graph_retrievers.graph.filters import Filter
from graph_retrievers.signals.signal import Signal

__all__ = [
    "Fields",
    "BuildOptions",
    "TextOptions",
    "DocumentOptions",
    "OptionFields",
    "GraphFields",
    "GraphTextOptions",
    "GraphDocumentOptions",
]

class Fields(TypedDict, total=False):
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    k: int | None
    filter: Filter | None
    seed_filter: Filter | None
    traversal_filter: Filter | None
    scope: Filter | None
    provenance: bool

class BuildOptions(TypedDict, total=False):
    published: bool
    include_titles: bool
    device: str | device | None
    vectors: Any
    bm25: bool | str | Signal
    edge_signals: bool
    relevance: Any
    dense_backend: str
    dense_precision: str
    metric: str | None
    cache: bool | str | Path | None
    show_progress: bool

class TextOptions(BuildOptions, total=False):
    titles: Sequence[str] | None

class DocumentOptions(BuildOptions, total=False):
    title_key: str | None
    type_key: str
    lenient: bool
    strict: bool

class OptionFields(Fields, total=False):
    backfill: bool
    per_source: int | None
    source_field: str | None
    types: Collection[str] | None
    batch_size: int
    share_batches: bool | None
    time_limit: float | None

class GraphFields(OptionFields, total=False):
    system: str | Operator | None

class GraphTextOptions(GraphFields, TextOptions, total=False):
    pass

class GraphDocumentOptions(GraphFields, DocumentOptions, total=False):
    pass
