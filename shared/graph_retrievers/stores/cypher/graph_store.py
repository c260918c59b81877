"""A graph in a Bolt database, read in parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any, Self

from graph_retrievers.errors import DatabaseError, InvalidArgumentError, shown
from graph_retrievers.stores.cypher.database import CypherDatabase, check_database
from graph_retrievers.stores.cypher.predicates import check_dates, filter_predicate
from graph_retrievers.stores.cypher.properties import node_metadata
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.stores.filters import Predicate
from graph_retrievers.stores.remote.ports import FetchedRows, StoredEdge, StoredNode, TitleMatch

__all__ = ["CypherGraphStore"]

_NODE = "m.{id} AS id, m.{position} AS position, {degrees} AS degree, m.{name} AS name, m.{type} AS type, m.{metadata} AS metadata"
_NO_TEXT, _TEXT = "NULL AS text", "coalesce(m.{text}, '') AS text"
_NO_EDGE = "NULL AS near, NULL AS forward, NULL AS row, NULL AS relation, NULL AS weight, NULL AS words"
_ENDS = "n.{id} AS near, startNode(e) = n AS forward"
_EDGE = f"{_ENDS}, e.{{position}} AS row, e.{{relation}} AS relation, e.`weight` AS weight, e.`text` AS words"
# For each parameter: how the nodes m are found, what is matched with them, and what is returned. In
# ArcadeDB 26.10, a value in a map of properties that begins with "$" is read as the name of a parameter; in WHERE it is not.
_PARTS = {
    "ids": ("MATCH (m:{label}) WHERE m.{id} = wanted", "m", _NO_TEXT, _NO_EDGE),
    "positions": ("MATCH (m:{label}) WHERE m.{position} = wanted", "m", _NO_TEXT, _NO_EDGE),
    "titles": ("MATCH (m:{label}) WHERE m.{name_key} = wanted", "m", _NO_TEXT, _NO_EDGE),
    "names": ("MATCH (m:{label}) WHERE m.{name_key} = wanted", "m", _TEXT, _NO_EDGE),
    "texts": ("MATCH (m:{label}) WHERE m.{id} = wanted", "m", _TEXT, _NO_EDGE),
    "expand": ("MATCH (n:{label})-[e{edge}]-(m:{label}) WHERE n.{id} = wanted", "n, e, m", _NO_TEXT, _EDGE),
}


class CypherGraphStore:
    """A graph written by :func:`~graph_retrievers.stores.cypher.writer.write_graph`, as a GraphStore; each method is one query.

    Parameters
    ----------
    database : CypherDatabase

    Raises
    ------
    DatabaseError
        From the methods: if the database fails or does not answer in time, or a node has no position or degree, which
        `write_graph` writes.

    Examples
    --------
    >>> from graph_retrievers.stores.cypher import CypherDatabase
    >>> database = CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password"))  # doctest: +SKIP
    >>> CypherGraphStore(database).sample(1)[0]  # doctest: +SKIP
    1200
    """

    def __init__(self, database: CypherDatabase) -> None:
        check_database(database)
        if database.schema.relationship is None:
            raise InvalidArgumentError("The schema names no relationship type; write the graph with write_graph, which needs one.")
        self.database = database
        self._scope: Predicate | None = None
        # Fields that have dates.
        self._dated: set[str] = set()

    def __repr__(self) -> str:
        """Return the database."""
        return f"CypherGraphStore({self.database!r})"

    def within(self, scope: Mapping[str, Any]) -> Self:
        """Return the store of the nodes that pass a filter, and of the edges between them, without a round trip.

        The filter becomes part of every query, with its values as parameters; degrees are counted among these nodes.
        """
        store = copy(self)
        # Another field may have dates in the scope, and messages show values of its nodes alone.
        store._scope, store._dated = filter_predicate(self.database.schema, scope, "scope"), set()
        return store

    def check_filter(self, condition: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentError if a filter compares a field with dates, and no node has a date in this field.

        Each field that has dates costs one round trip, once.
        """
        check_dates(self.database, condition, self._dated, self._scope)

    def positions(self, limit: int) -> dict[str, int]:
        """Return the positions of all nodes by their ids, of the first ``limit + 1`` if there are more than `limit`."""
        text = f"MATCH (m:{{label}}){self._where('m')} RETURN m.{{id}} AS id, m.{{position}} AS position "
        text += "ORDER BY position LIMIT $limit"
        return {str(row["id"]): row["position"] for row in self._read(text, limit=limit + 1)}

    def sample(self, count: int) -> tuple[int, FetchedRows]:
        """Return the number of nodes, and min(`count`, N) of them."""
        clause = self._match("MATCH (m:{label}) WHERE m.{id} IS NOT NULL", "size, m")
        rows = self._read(
            f"MATCH (c:{{label}}){self._where('c')} WITH count(c) AS size {clause} RETURN size, {_NODE}, {_NO_TEXT} LIMIT $limit",
            limit=count,
        )
        return (rows[0]["size"] if rows else 0), FetchedRows([self._node(row) for row in rows])

    def read(
        self,
        *,
        ids: Collection[str] = (),
        positions: Collection[int] = (),
        texts: Collection[str] = (),
        expand: Collection[str] = (),
        titles: Collection[str] = (),
        names: Collection[str] = (),
        limit: int,
    ) -> FetchedRows:
        """Return what :meth:`~graph_retrievers.stores.remote.GraphStore.read` describes, by one query."""
        keys: dict[str, list[str]] = {}
        for title in titles:
            if not name_key(title):
                raise InvalidArgumentError(f"The title {shown(title)} has no word, so that no index of the database finds it.")
            # The folded case of the letter U+0130 has two letters, which are not one word; titles are written by their own words.
            for key in {name_key(title), name_key(title.replace("i\u0307", "\u0130"))}:
                keys.setdefault(key, []).append(title)
        parts: dict[str, Collection[Any]] = {"ids": ids, "positions": positions, "titles": keys, "names": names, "expand": expand}
        parts["texts"] = {*texts, *expand}
        parameters = {name: sorted(values) for name, values in parts.items() if values}
        lines = [
            f"UNWIND ${name} AS wanted {self._match(match, columns)} RETURN '{name}' AS part, {_NODE}, {text}, {edge} LIMIT $limit"
            for name, (match, columns, text, edge) in _PARTS.items()
            if name in parameters
        ]
        rows = self._read("\nUNION ALL\n".join(lines), **parameters, limit=limit + 1)
        matches = [
            TitleMatch(title, str(row["id"]))
            for row in rows
            if row["part"] == "titles"
            # Names are found by their words, and compared by all of their letters.
            for title in keys[name_key(str(row["name"] or row["id"]))]
            if str(row["name"] or "").strip().casefold() == title
        ]
        # Rows with texts come last, so that they replace those without.
        nodes = [self._node(row) for row in sorted(rows, key=lambda row: row["part"] in ("names", "texts"))]
        return FetchedRows(nodes, [_edge(row) for row in rows if row["part"] == "expand"], matches)

    def schema(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return all node types, and all (type, relation, type); this reads every edge of the graph."""
        rows = self._read(
            f"MATCH (m:{{label}}){self._where('m')} RETURN DISTINCT m.{{type}} AS near, NULL AS relation, NULL AS far UNION ALL "
            f"MATCH (n:{{label}})-[e{{edge}}]->(m:{{label}}){self._where('n', 'm')} "
            "RETURN DISTINCT n.{type} AS near, e.{relation} AS relation, m.{type} AS far"
        )
        triples = [tuple(str(row[name] or "") for name in ("near", "relation", "far")) for row in rows if row["far"] is not None]
        return sorted({str(row["near"] or "") for row in rows}), sorted(set(triples))  # type: ignore[arg-type]

    def _where(self, *nodes: str, word: str = "WHERE") -> str:
        """Return the condition that nodes are in the scope; "" without one."""
        return "" if self._scope is None else f" {word} {' AND '.join(map(self._scope.on, nodes))}"

    def _match(self, match: str, columns: str) -> str:
        """Return what finds nodes m, and what is matched with them: in a scope, those of it and their degrees among its nodes."""
        if self._scope is None:
            return match
        nodes = [name for name in columns.split(", ") if name in "nm"]
        return (
            f"{match}{self._where(*nodes, word='AND')} WITH {columns} LIMIT $limit "
            f"OPTIONAL MATCH (m)-[{{edge}}]-(o:{{label}}) WHERE o <> m{self._where('o', word='AND')} "
            f"WITH {columns}, count(DISTINCT o) AS degree"
        )

    def _read(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        names, scope = self.database.schema.names(), self._scope
        degrees, values = (f"m.{names['degree']}", {}) if scope is None else ("degree", scope.parameters)
        return self.database.read(text.format(degrees=degrees, **names), **parameters, **values)

    def _node(self, row: Mapping[str, Any]) -> StoredNode:
        position, degree, name = row["position"], row["degree"], str(row["id"])
        if not isinstance(position, int) or not isinstance(degree, int):
            raise DatabaseError(
                f"Node {shown(name)} has no position or no degree; write the graph with write_graph, which gives both."
            )
        metadata, origin = node_metadata(row["metadata"])
        content = (str(row["text"]), origin) if row["text"] is not None else (None, None)
        return StoredNode(name, position, degree, str(row["name"] or ""), str(row["type"] or ""), metadata, *content)


def _edge(row: Mapping[str, Any]) -> StoredEdge:
    ends = (str(row["near"]), str(row["id"]))
    source, target = ends if row["forward"] else ends[::-1]
    weight = 1.0 if row["weight"] is None else row["weight"]
    return StoredEdge(row["row"], source, target, str(row["relation"] or ""), weight, str(row["words"] or ""))
