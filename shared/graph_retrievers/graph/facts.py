"""Facts of a whole graph, which are known without its nodes and edges where those lie in a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError

T = TypeVar("T")


class WholeGraphError(InvalidArgumentError):
    """What was to be read depends on the whole graph, and only parts of it are at hand."""


class GraphFacts(Protocol):
    """Facts of a whole graph: a :class:`~graph_retrievers.graph.corpus_graph.CorpusGraph`, or what is stored of one elsewhere."""

    cache: Cache
    """What is derived from the facts."""

    @property
    def type_names(self) -> Sequence[str]:
        """Distinct node types."""

    @property
    def relation_names(self) -> Sequence[str]:
        """Distinct relations."""

    @property
    def has_edges(self) -> bool:
        """Whether the graph has edges."""

    def __len__(self) -> int:
        """Return the number of nodes."""

    def fact(self, name: str, function: Callable[[Any], T]) -> T:
        """Return a fact by its name; `function` reads it from the nodes and edges of a graph in memory, once."""
