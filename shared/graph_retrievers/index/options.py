"""Keywords of what builds an index; written by tools/stubs.py, not by hand."""

from pathlib import Path
from typing import Any, TypedDict

from graph_retrievers.signals.signal import Signal

__all__ = [
    "SignalOptions",
    "StoreOptions",
]


class SignalOptions(TypedDict, total=False):
    """Keywords of GraphIndex.from_graph."""

    embedding: Any
    vectors: Any
    bm25: bool | str | Signal
    edge_signals: bool
    relevance: Any
    dense_backend: str
    dense_precision: str
    metric: str | None
    cache: bool | str | Path | None
    show_progress: bool


class StoreOptions(TypedDict, total=False):
    """Keywords of GraphIndex.from_documents that an IndexStore keeps."""

    title_key: str | None
    type_key: str
    include_titles: bool
    bm25: bool | str | Signal
    edge_signals: bool
    dense_backend: str
    dense_precision: str
    metric: str | None
    cache: bool | str | Path | None
    show_progress: bool
