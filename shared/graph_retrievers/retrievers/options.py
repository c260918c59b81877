"""Keywords of every retriever, for type checkers."""

from collections.abc import Collection
from typing import TypedDict


class CommonOptions(TypedDict, total=False):
    """Keywords of every retriever, for a class with its own `k`."""

    backfill: bool
    per_source: int | None
    source_field: str | None
    types: Collection[str] | None
    batch_size: int
    share_batches: bool | None
    time_limit: float | None
    name: str | None


class RetrieverOptions(CommonOptions, total=False):
    """Keywords of every retriever."""

    k: int
