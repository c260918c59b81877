"""Keywords of what builds an index, for type checkers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch

from graph_retrievers.signals.signal import Signal


class _Settings(TypedDict, total=False):
    bm25: bool | str | Signal
    edge_signals: bool
    dense_backend: str
    dense_precision: str
    metric: str | None
    cache: bool | str | Path | None
    show_progress: bool


class BuildOptions(_Settings, total=False):
    """Keywords of GraphIndex.from_graph but `embedding`, for a function with its own."""

    vectors: Any
    relevance: Any


class SignalOptions(BuildOptions, total=False):
    """Keywords of GraphIndex.from_graph."""

    embedding: Any


class TextOptions(BuildOptions, total=False):
    """Keywords of GraphIndex.from_texts but `embedding`, `ids`, `metadatas` and `edges`."""

    titles: Sequence[str] | None
    include_titles: bool
    device: str | torch.device | None


class DocumentOptions(BuildOptions, total=False):
    """Keywords of GraphIndex.from_documents but `embedding` and `edges`."""

    title_key: str | None
    type_key: str
    include_titles: bool
    device: str | torch.device | None
    lenient: bool
    strict: bool


class StoreOptions(_Settings, total=False):
    """Keywords of GraphIndex.from_documents that an IndexStore keeps."""

    title_key: str | None
    type_key: str
    include_titles: bool
