"""What a source of edges is: a small class that reads a corpus and says which nodes belong together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from graph_retrievers.arguments import positive
from graph_retrievers.graph.corpus_graph import Node

__all__ = ["Corpus", "EdgeSpec", "Found", "positive"]


@dataclass(frozen=True)
class Corpus:
    """What edges are found in.

    Attributes
    ----------
    nodes : sequence of Node, length N
    documents : sequence, length N, optional
        The documents that the nodes were made from, where there are any.
    vectors : array-like, shape [N, d], optional
        Vectors of the nodes, where they are known.
    """

    nodes: Sequence[Node]
    documents: Sequence[Any] | None = None
    vectors: Any = None

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row of each node by its id."""
        return {node.id: row for row, node in enumerate(self.nodes)}

    @cached_property
    def fields(self) -> set[str]:
        """Metadata fields that any node has."""
        return {key for node in self.nodes for key in node.metadata}

    def known(self, edges: Iterable[tuple[str, str, str]]) -> Found:
        """Return the edges both of whose ends are nodes, and count the others."""
        listed = list(edges)
        kept = [edge for edge in listed if edge[0] in self.rows and edge[1] in self.rows]
        return Found(kept, len(listed) - len(kept))


class Found(NamedTuple):
    """Edges that a specification found.

    Attributes
    ----------
    edges : list of (source id, target id, relation)
    absent : int
        How many targets were named that are not in the corpus: citations of other papers, links to other sites.
    """

    edges: list[tuple[str, str, str]]
    absent: int = 0


class EdgeSpec(ABC):
    """A source of edges that lies in the documents themselves.

    Attributes
    ----------
    needs_vectors : bool
        Whether it reads the nodes' vectors.
    """

    needs_vectors: bool = False

    @abstractmethod
    def find(self, corpus: Corpus) -> Found:
        """Return the edges of a corpus, in a fixed order; repetitions and self loops are dropped afterwards."""

    def __repr__(self) -> str:
        """Return the class and its settings."""
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({settings})"
