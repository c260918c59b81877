"""The parts of an index, as they are built, changed or restricted."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import NamedTuple

from graph_retrievers.construction.spec import EdgeSource
from graph_retrievers.errors import EmptyGraphError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.embedding import Embedding
from graph_retrievers.signals.signal import Signal


class Built(NamedTuple):
    """The parts of an index."""

    graph: CorpusGraph
    signals: dict[str, Signal]
    embedding: Embedding | None
    edge_sources: Sequence[EdgeSource]


def check_not_empty(nodes: Sized) -> None:
    """Raise EmptyGraphError if there are no nodes."""
    if len(nodes) == 0:
        raise EmptyGraphError("The corpus is empty: an index needs at least one node.")
