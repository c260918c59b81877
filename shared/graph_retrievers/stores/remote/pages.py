"""The part of a graph and its vectors that one call has fetched, and what it still needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import listed
from graph_retrievers.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    GraphRetrieverError,
    InvalidVectorError,
    UnknownNodeError,
    shown,
)
from graph_retrievers.graph.corpus_graph import HEAVIEST, LIGHTEST
from graph_retrievers.signals.embedding import check_vectors
from graph_retrievers.stores.remote.ports import GraphStore, Page, StoredEdge, StoredNode, VectorStore

__all__ = ["Found", "Incomplete", "Limits", "Pages", "asked_of", "within"]

T = TypeVar("T")


class Incomplete(Exception):
    """Raised where a run cannot go on without what is not fetched yet."""


@dataclass(frozen=True)
class Limits:
    """What one call may ask for: round trips to each engine, nodes, and seconds for each answer of the vector store."""

    round_trips: int
    nodes: int
    timeout: float


@dataclass
class Found:
    """The first results of a search: ids or positions, best first; `complete` says that there are no more."""

    keys: list[Any]
    reach: int
    complete: bool


@dataclass
class Pages:
    """Nodes, edges and vectors fetched so far, and sets of what a run found missing.

    Reads of the partial index add to the sets; :meth:`fetch` brings all of it, in at most one round trip to the graph and two to
    the vector store. `size` is the number of nodes in the graph, and `short` how many results a search gave, and of how many, if it
    gave fewer than there must be.
    """

    graph: GraphStore
    store: VectorStore | None
    limits: Limits
    dimension: int = 0
    size: int = 0
    nodes: dict[str, StoredNode] = field(default_factory=dict)
    edges: dict[tuple[Any, ...], StoredEdge] = field(default_factory=dict)
    expanded: set[str] = field(default_factory=set)
    titled: dict[str, list[str]] = field(default_factory=dict)
    at: dict[int, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    found: dict[tuple[str, Any], Found] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    expand: set[str] = field(default_factory=set)
    titles: set[str] = field(default_factory=set)
    vectors: set[str] = field(default_factory=set)
    positions: set[int] = field(default_factory=set)
    searches: dict[Any, tuple[Tensor, int]] = field(default_factory=dict)
    short: tuple[int, int] | None = None
    scores_neighbors: bool = False
    graph_trips: int = 0
    vector_trips: int = 0

    def __post_init__(self) -> None:
        """Make the table of vectors, whose rows are in `places`."""
        self.table = torch.zeros(0, self.dimension)

    def incomplete(self) -> bool:
        """Return whether anything is missing."""
        return bool(self.texts or self.expand or self.titles or self.vectors or self.positions or self.searches)

    def check(self) -> None:
        """Raise Incomplete if texts, edges or vectors are missing, so that what would be computed now would be wrong."""
        if self.texts or self.expand or self.titles or self.vectors:
            raise Incomplete

    def take(self, page: Page) -> None:
        """Keep the nodes and edges of a page."""
        for node in page.nodes:
            if self.at.get(node.position, node.id) != node.id:
                other = shown(self.at[node.position])
                raise DatabaseError(
                    f"Nodes {other} and {shown(node.id)} both have the position {node.position}; write one graph a label, or, "
                    "if the graph was written anew, make a new RemoteIndex."
                )
            held = self.nodes.get(node.id)
            if held is None or held.text is None:
                self.nodes[node.id] = node
                self.at[node.position] = node.id
        for edge in page.edges:
            self.edges[edge.position, edge.source, edge.target, edge.relation] = edge
        for name, node_id in page.titled:
            self.titled.setdefault(name, []).append(node_id)
        self._check_size(max(len(self.nodes), len(self.edges), len(page.edges), len(page.titled)))
        _check_edges(page.edges)
        wanted = [name for edge in page.edges for name in (edge.source, edge.target)] + [found.id for found in page.titled]
        lost = next((name for name in wanted if name not in self.nodes), None)
        if lost is not None:
            raise DatabaseError(
                f"The graph store gave an edge or a title of node {shown(lost)}, and not the node; expected the nodes of all edges "
                "and titles in the same page."
            )

    def _check_size(self, count: int) -> None:
        if count > self.limits.nodes:
            raise DatabaseError(
                f"The call needs more than max_nodes={self.limits.nodes} nodes or edges; raise it, or ask for less: fewer queries "
                "at a time (batch_size), a smaller budget, a filter that more nodes pass."
            )

    def fetch(self) -> None:
        """Fetch what is missing."""
        ids = self._search()
        expand, texts, titles = self.expand, self.texts - self.expand, self.titles
        ids -= self.nodes.keys() | expand | texts
        asked = {"ids": ids, "positions": self.positions, "texts": texts, "expand": expand, "titles": titles}
        page = Page()
        if any(asked.values()):
            self._count("graph_trips", "graph database")
            page = asked_of("graph store", self.graph.read, **asked, limit=self.limits.nodes)
            self.take(page)
            gone = sorted((expand | texts) - {name for name, node in self.nodes.items() if node.text is not None})
            gone += sorted(f"at position {place}" for place in self.positions - self.at.keys())
            if gone:
                raise UnknownNodeError(
                    f"The database has no node {shown(gone[0])} any more; it was changed during the call, or since the signals "
                    "were made of its nodes."
                )
            self.absent |= ids - self.nodes.keys()
            self.expanded |= expand
            for name in titles:
                self.titled.setdefault(name, [])
            self._check_degrees(expand, page)
        # Where neighbours are scored once, those of the next nodes will be: their vectors need not wait for another run.
        near = {name for edge in page.edges for name in (edge.source, edge.target)} if self.scores_neighbors else set()
        self._read_vectors((self.vectors | ids | near) - self.absent)
        self.texts, self.expand, self.titles, self.vectors, self.positions = set(), set(), set(), set(), set()

    def _check_degrees(self, names: set[str], page: Page) -> None:
        near: dict[str, set[str]] = {name: set() for name in names}
        for edge in page.edges:
            for name, other in ((edge.source, edge.target), (edge.target, edge.source)):
                if name in near and name != other:
                    near[name].add(other)
        for name in sorted(names):
            if len(near[name]) != self.nodes[name].degree:
                raise DatabaseError(
                    f"Node {shown(name)} has {len(near[name])} neighbours, and its property says {self.nodes[name].degree}: the "
                    "graph was changed since write_graph wrote it; write it again."
                )

    def _search(self) -> set[str]:
        """Make the vector searches that are missing; return the ids that they found."""
        ids: set[str] = set()
        if self.searches and self.store is not None:
            reach = max(reach for _, reach in self.searches.values())
            asked = torch.stack([vector for vector, _ in self.searches.values()]).cpu().numpy()
            self._count("vector_trips", "vector store")
            results = within(self.limits.timeout, _results, self.store, asked, reach)
            if len(results) != len(asked):
                raise DatabaseError(f"The vector store gave {len(results)} results for {len(asked)} searches; expected one each.")
            for key, result in zip(self.searches, results, strict=True):
                # Of a store that repeats ids without end, deeper searches find nothing else.
                self._check_size(len(result))
                keys = list(dict.fromkeys(map(str, result)))
                self.found[key] = Found(keys, reach, len(result) < reach)
                if len(result) < min(reach, self.size):
                    self.short = (len(result), reach)
                ids |= set(keys)
            # Nodes that are known need a vector too: scores are computed from them.
            self.vectors |= ids & self.nodes.keys()
        self.searches = {}
        return ids

    def _read_vectors(self, wanted: Iterable[str]) -> None:
        names = sorted(set(wanted) - self.places.keys())
        if not names or self.store is None:
            return
        self._count("vector_trips", "vector store")
        found = within(self.limits.timeout, self.store.vectors, names)
        if not isinstance(found, Mapping):
            raise DatabaseError(f"The vector store gave {shown(found)} as vectors; expected a mapping of ids to vectors.")
        try:
            table = {name: np.asarray(found[name], np.float32) for name in names if found.get(name) is not None}
        except (TypeError, ValueError, OverflowError) as error:
            raise DatabaseError(f"A vector of the store cannot be read as a row of numbers: {error}.") from error
        bare = next((name for name in names if name not in table or not table[name].any()), None)
        if bare is not None:
            raise InvalidVectorError(f"The vector store has no vector of node {shown(bare)}; add it to the store.")
        width = self.dimension or table[names[0]].size
        for name in names:
            if table[name].shape != (width,):
                raise DimensionMismatchError(
                    f"The vectors of the store differ in width; expected {width} for all, got the shape {list(table[name].shape)} "
                    f"for node {shown(name)}."
                )
        rows = check_vectors(np.stack([table[name] for name in names]), len(names), width, "vectors of the store")
        vectors = torch.nn.functional.normalize(rows)
        self.places.update(zip(names, range(len(self.places), len(self.places) + len(names)), strict=True))
        self.table = torch.cat([self.table.view(-1, width), vectors])
        self.dimension = width

    def _count(self, name: str, engine: str) -> None:
        trips = getattr(self, name) + 1
        if trips > self.limits.round_trips:
            raise DatabaseError(
                f"The call needs more than max_round_trips={self.limits.round_trips} round trips to the {engine}; raise it, or ask "
                "for less: a smaller budget, more nodes a round, a filter that more nodes pass."
            )
        setattr(self, name, trips)

    def note(self) -> str:
        """Return what the call has fetched, as a note."""
        left_out = f"; {len(self.absent)} results of the vector store are not in the graph" if self.absent else ""
        trips = f"{self.graph_trips} to the graph, {self.vector_trips} to the vector store"
        short = ""
        if self.short is not None:
            given, asked = self.short
            short = f"; the vector store gave {given:,} of {asked:,} results, and the graph has {self.size:,} nodes: it lacks "
            short += "some, or limits its results, so that hits may be missing"
        return f"round trips: {trips}; {len(self.nodes)} nodes fetched{left_out}{short}"


def _is_weight(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and LIGHTEST <= float(value) <= HEAVIEST


def _check_edges(edges: Iterable[StoredEdge]) -> None:
    for edge in edges:
        if not isinstance(edge.position, int) or not _is_weight(edge.weight):
            raise DatabaseError(
                f"The edge from {shown(edge.source)} to {shown(edge.target)} has the position {shown(edge.position)} and the "
                f"weight {shown(edge.weight)}; expected an integer, and a number above 0. Write the graph with write_graph, which "
                "gives both."
            )


def _results(store: VectorStore, vectors: np.ndarray, k: int) -> list[list[Any]]:
    results = listed("The result of the vector store's search", store.search(vectors, k), "lists of ids")
    return [listed("A result of the vector store's search", result, "ids") for result in results]


def asked_of(engine: str, ask: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Return what a call to an engine returns; DatabaseError if it fails.

    >>> asked_of("graph store", sorted, [2, 1], reverse=True)
    [2, 1]
    """
    try:
        return ask(*arguments, **named)
    except GraphRetrieverError:
        raise
    except Exception as error:
        raise DatabaseError(f"The {engine} failed ({type(error).__name__}: {error}).") from error


def within(seconds: float, ask: Callable[..., T], *arguments: Any) -> T:
    """Return what a call to a store returns; DatabaseUnreachableError after so many seconds, DatabaseError if it fails.

    >>> within(1.0, sorted, [2, 1])
    [1, 2]
    """
    answer: dict[str, Any] = {}

    def run() -> None:
        try:
            answer["value"] = asked_of("vector store", ask, *arguments)
        except Exception as error:
            answer["error"] = error

    # A thread that can be left behind: clients of stores have deadlines of their own, or none.
    thread = threading.Thread(target=run, name="graph-retrievers-store", daemon=True)
    thread.start()
    thread.join(seconds)
    if "error" in answer:
        raise answer["error"]
    if "value" not in answer:
        raise DatabaseUnreachableError(
            f"The vector store did not answer within {seconds:g} seconds. Check that it runs, or raise timeout=."
        )
    return answer["value"]  # type: ignore[no-any-return]
