"""What is known, without its nodes and edges, of a graph in a database and of the signals there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from graph_retrievers.cache import Cache
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import WholeGraphError

# Where nothing is known of a graph, its titles count as names, and its edges as joining documents.
_ASSUMED = {"names identify": True, "documents linked": 1.0, "types of names": (), "has_edges": True}


class StoredFacts:
    """The facts of a graph that are stored with it, as :class:`~graph_retrievers.graph.facts.GraphFacts`; others are refused.

    Parameters
    ----------
    size : int
        Number of nodes N.
    traits : mapping
        See :func:`~graph_retrievers.systems.traits.traits_of`; empty if nothing is known.
    read_types : callable, optional
        Adds the node types to `traits`, when they are first read; without it, they are refused if they are not there.
    """

    def __init__(self, size: int, traits: Mapping[str, Any], read_types: Callable[[], None] | None = None) -> None:
        self.size, self.cache = size, Cache()
        self.traits: dict[str, Any] = {**_ASSUMED, **traits}
        self._read_types = read_types

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.size

    def value(self, name: str) -> Any:
        """Return a fact by its name; if it is unknown, a WholeGraphError says what was read."""
        if name not in self.traits:
            raise WholeGraphError(f"{name!r} of the whole graph")
        return self.traits[name]

    def fact(self, name: str, function: Callable[[CorpusGraph], Any]) -> Any:
        """Return a fact that is stored: `function` would need the graph."""
        return self.value(name)

    @property
    def type_names(self) -> Sequence[str]:
        """Distinct node types."""
        if "type_names" not in self.traits and self._read_types is not None:
            self._read_types()
        return self.value("type_names")  # type: ignore[no-any-return]

    @property
    def relation_names(self) -> Sequence[str]:
        """Distinct relations."""
        return self.value("relation_names")  # type: ignore[no-any-return]

    @property
    def has_edges(self) -> bool:
        """Whether the graph has edges; True if unknown."""
        return bool(self.value("has_edges"))

    def __getattr__(self, name: str) -> Any:
        """Refuse what only a graph in memory has, such as its texts."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise WholeGraphError(f"{name!r} of the whole graph")


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of nodes in a vector store, compared by cosine."""

    kind: ClassVar[str] = "stored vectors"
    reads: ClassVar[str] = "vector"
    covers: ClassVar[str] = "nodes"
    size: int
    dimension: int

    @property
    def norms(self) -> Tensor:
        """Lengths: all 1."""
        return torch.ones(1).expand(self.size)

    def prepared(self, vectors: Tensor) -> Tensor:
        """Return the vectors of questions, scaled to unit length."""
        return torch.nn.functional.normalize(vectors)


@dataclass(frozen=True)
class StoredEdgeVectors:
    """The vectors of edges in a store, compared by cosine."""

    kind: ClassVar[str] = "stored vectors"
    reads: ClassVar[str] = "vector"
    covers: ClassVar[str] = "edges"
    dimension: int


@dataclass(frozen=True)
class StoredWords:
    """The words of nodes in an engine that searches them."""

    kind: ClassVar[str] = "bm25"
    reads: ClassVar[str] = "text"
    covers: ClassVar[str] = "nodes"
