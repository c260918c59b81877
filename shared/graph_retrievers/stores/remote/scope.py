"""The part of a graph in a database, and of its vectors, that a scope selects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import DatabaseError, EmptyGraphError, InvalidArgumentError, shown
from graph_retrievers.stores.remote.pages import call_engine
from graph_retrievers.stores.remote.ports import (
    FetchedRows,
    GraphStore,
    NumberedGraphStore,
    ScopedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
    StoredNode,
    VectorStore,
    WordStore,
)

# Nodes that are read first from a store that cannot be asked in a scope; and by which factor each further read is larger.
_FIRST, _FACTOR = 256, 4
_Store = TypeVar("_Store", VectorStore, WordStore)


class GraphOfScope:
    """The nodes of a scope as a GraphStore, with positions from 0 to n - 1, as in a graph of only these nodes.

    Parameters
    ----------
    graph : GraphStore
        The graph store of the scope.
    positions : mapping of str to int
        The positions of the n nodes in the whole graph, by their ids.
    """

    def __init__(self, graph: GraphStore, positions: Mapping[str, int]) -> None:
        self.graph, self.ids = graph, sorted(positions, key=positions.__getitem__)
        self.whole = [positions[name] for name in self.ids]
        self._place = {position: row for row, position in enumerate(self.whole)}

    def __repr__(self) -> str:
        """Return the graph store and the number of nodes."""
        return f"GraphOfScope({self.graph!r}, nodes={len(self.ids)})"

    @property
    def rows(self) -> Tensor:
        """The positions in the whole graph: Tensor, shape [n], int64, ascending."""
        return torch.tensor(self.whole, dtype=torch.int64)

    def sample(self, count: int) -> tuple[int, FetchedRows]:
        """Return the number of nodes n, and min(`count`, n) of them."""
        size, page = self.graph.sample(count)
        return size, self._with_rows(page)

    def read(self, *, positions: Collection[int] = (), limit: int, **options: Collection[str]) -> FetchedRows:
        """Return the result of the graph store, which uses the positions in the whole graph."""
        return self._with_rows(self.graph.read(positions=[self.whole[row] for row in positions], limit=limit, **options))

    def schema(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return the node types of the scope, and the relations between them there."""
        return self.graph.schema()

    @property
    def has_numbers(self) -> bool:
        """Whether the graph store lists its nodes, and has references by number."""
        return isinstance(self.graph, NumberedGraphStore) and self.graph.has_numbers

    def list_nodes(self) -> Iterator[StoredNode]:
        """Yield the nodes of the scope, with their texts, in order."""
        assert isinstance(self.graph, NumberedGraphStore)
        return map(self._node_with_row, self.graph.list_nodes())

    def _with_rows(self, page: FetchedRows) -> FetchedRows:
        return replace(page, nodes=[self._node_with_row(node) for node in page.nodes])

    def _node_with_row(self, node: StoredNode) -> StoredNode:
        row = self._place.get(node.position)
        if row is None or self.ids[row] != node.id:
            raise DatabaseError(
                f"Node {shown(node.id)} was not in the scope when its ids were read: the graph was changed since; make a new "
                "RemoteIndex."
            )
        return node._replace(position=row)


def graph_of_scope(graph: GraphStore, scope: Mapping[str, Any], size: int, limit: int) -> GraphOfScope:
    """Return the part of a graph of `size` nodes that passes a filter; one round trip reads its ids, of at most `limit` nodes."""
    if not isinstance(graph, ScopedGraphStore):
        raise InvalidArgumentError(
            f"{type(graph).__name__} cannot be asked in a scope; give it the methods within(scope) and positions(limit) of "
            "ScopedGraphStore."
        )
    part: Any = graph.within(scope)
    positions = call_engine("graph store", part.positions, limit)
    if not positions:
        raise EmptyGraphError("No node is in the scope; see that the filter names fields and values that nodes have.")
    if len(positions) > limit:
        raise InvalidArgumentError(
            f"The scope has more than max_nodes={limit} nodes; their ids are held here and go with each search of vectors. Raise "
            "it, or give so large a part a database of its own."
        )
    places = set(positions.values())
    value = next((place for place in places if not isinstance(place, int) or not 0 <= place < size), None)
    if value is not None or len(places) < len(positions):
        raise DatabaseError(
            f"The nodes of the scope have positions that are not distinct numbers below {size} (such as {shown(value)}); write the "
            "graph with write_graph, which gives them, and make a new RemoteIndex."
        )
    return GraphOfScope(part, positions)


def first_positions(
    graph: GraphStore, condition: Mapping[str, Any], limit: int, passes: Callable[[np.ndarray], np.ndarray], size: int
) -> np.ndarray:
    """Return the positions of the first `limit` nodes that pass a filter, ascending: int64, shape [n].

    The store evaluates the filter, in one round trip. From one that cannot, the nodes of a graph of `size` nodes are read in order,
    and `passes` says which of the positions, shape [m], do: bool, shape [m].
    """
    if isinstance(graph, ScopedGraphStore):
        part: Any = graph.within(condition)
        # The store gives one more than the limit.
        positions = call_engine("graph store", part.positions, limit - 1)
        return np.array(sorted(positions.values())[:limit], np.int64)
    results, start, step = np.zeros(0, np.int64), 0, _FIRST
    while len(results) < limit and start < size:
        rows = np.arange(start, min(start + step, size))
        results, start, step = np.append(results, rows[passes(rows)]), start + step, _FACTOR * step
    return results[:limit]


def store_of_scope(store: _Store, kind: type[ScopedVectorStore | ScopedWordStore], ids: Collection[str]) -> _Store:
    """Return a store of vectors or words restricted to some ids; InvalidArgumentError if it cannot be restricted."""
    if not isinstance(store, kind):
        raise InvalidArgumentError(
            f"{type(store).__name__} cannot be searched in a scope: nodes outside it would take places among the best. Give it the "
            f"method within(ids) of {kind.__name__}."
        )
    return store.within(ids)  # type: ignore[return-value]
