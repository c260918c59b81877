"""The contract of a source of edges: a class that reads a corpus and returns edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.page_order import PageOrder, page_order

__all__ = ["EdgeSpec"]


@dataclass(frozen=True)
class CorpusNodes:
    """The N nodes between which edges are found, and their vectors, [N, d], if known."""

    nodes: Sequence[Node]
    vectors: Any = None

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row of each node by its id."""
        return {node.id: row for row, node in enumerate(self.nodes)}

    @cached_property
    def parents(self) -> set[int]:
        """Rows of LlamaIndex nodes with children, whose texts repeat theirs."""
        # "5" is the number of this relationship in LlamaIndex.
        return {row for row, node in enumerate(self.nodes) if node.origin.get("relationships", {}).get("5")}

    @cached_property
    def fields(self) -> set[str]:
        """Metadata fields that any node has."""
        return {key for node in self.nodes for key in node.metadata}

    def pages(self, addresses: Iterable[str]) -> PageOrder:
        """Return the chunks of each page in order, without nodes that have children; `addresses` has the page of each node."""
        page_addresses = ("" if row in self.parents else address for row, address in enumerate(addresses))
        return page_order(page_addresses, [node.metadata for node in self.nodes], [node.origin for node in self.nodes])

    def inner_edges(self, edges: Iterable[tuple[str, str, str]]) -> SpecEdges:
        """Return the edges whose two ends are nodes, and the number of the others."""
        all_edges = list(edges)
        inner_edges = [edge for edge in all_edges if edge[0] in self.rows and edge[1] in self.rows]
        return SpecEdges(inner_edges, len(all_edges) - len(inner_edges))


class SpecEdges(NamedTuple):
    """Edges, the number of skipped references to targets outside the corpus, and a message about them for the log.

    With `advice`, what is wrong and what to do about it, the message is a warning.
    """

    edges: list[tuple[str, str, str]]
    absent: int = 0
    message: str = ""
    advice: str = ""


class EdgeSpec(ABC):
    """A source of edges: an abstract class with one method. `needs_vectors` says whether :meth:`find` reads the nodes' vectors.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> class SameYear(EdgeSpec):
    ...     def find(self, corpus):
    ...         pairs = [(a, b) for a in corpus.nodes for b in corpus.nodes if a.metadata["year"] == b.metadata["year"]]
    ...         return SpecEdges([(a.id, b.id, "same year") for a, b in pairs if a.id < b.id])
    >>> build_edges([Node("a", "", metadata={"year": 1801}), Node("b", "", metadata={"year": 1801})], SameYear())
    [('a', 'b', 'same year')]
    """

    needs_vectors: bool = False

    @abstractmethod
    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges of a corpus, in a fixed order; repetitions and self loops are dropped afterwards."""

    def __repr__(self) -> str:
        """Return the class and its settings."""
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({settings})"


class EdgeSource(NamedTuple):
    """The source of consecutive relationship rows: a specification, or None for edges given one by one; and their number."""

    spec: EdgeSpec | None
    rows: int
