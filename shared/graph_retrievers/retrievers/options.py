"""What a retriever is given, for type checkers: what it runs, and the keywords of every retriever."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypedDict

from graph_retrievers.core.operator import Operator
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.systems.system import System

SystemLike: TypeAlias = System | str | Mapping[str, Any] | Operator | Callable[[GraphIndex], Operator]
"""What a retriever runs: a system, its text or mapping, or a composition of operators, which may depend on the index."""


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
