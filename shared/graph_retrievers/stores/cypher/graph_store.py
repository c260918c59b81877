"""A graph in a Bolt database, read piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from graph_retrievers.errors import DatabaseError, InvalidArgumentError, shown
from graph_retrievers.stores.cypher.answers import node_metadata
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.stores.remote.ports import Page, StoredEdge, StoredNode, Titled

__all__ = ["CypherGraphStore"]

_NODE = "m.{id} AS id, m.{position} AS position, m.{degree} AS degree, m.{name} AS name, m.{type} AS type, m.{metadata} AS metadata"
_NO_TEXT, _TEXT = "NULL AS text", "coalesce(m.{text}, '') AS text"
_NO_EDGE = "NULL AS near, NULL AS forward, NULL AS row, NULL AS relation, NULL AS weight, NULL AS words"
_ENDS = "n.{id} AS near, startNode(e) = n AS forward"
_EDGE = f"{_ENDS}, e.{{position}} AS row, e.{{relation}} AS relation, e.`weight` AS weight, e.`text` AS words"
# What is asked for, by the name of its parameter: how the nodes m are found, and what is returned of them. In ArcadeDB 26.10, a
# value in a map of properties that begins with "$" is read as the name of a parameter; in WHERE it is not.
_PARTS = {
    "ids": ("MATCH (m:{label}) WHERE m.{id} = wanted", _NO_TEXT, _NO_EDGE),
    "positions": ("MATCH (m:{label}) WHERE m.{position} = wanted", _NO_TEXT, _NO_EDGE),
    "titles": ("MATCH (m:{label}) WHERE m.{name_key} = wanted", _NO_TEXT, _NO_EDGE),
    "names": ("MATCH (m:{label}) WHERE m.{name_key} = wanted", _TEXT, _NO_EDGE),
    "texts": ("MATCH (m:{label}) WHERE m.{id} = wanted", _TEXT, _NO_EDGE),
    "expand": ("MATCH (n:{label})-[e{edge}]-(m:{label}) WHERE n.{id} = wanted", _NO_TEXT, _EDGE),
}


class CypherGraphStore:
    """A graph that :func:`~graph_retrievers.stores.cypher.writer.write_graph` wrote, as a GraphStore; each method is one query.

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
        if not isinstance(database, CypherDatabase):
            raise InvalidArgumentError(f"Expected a CypherDatabase, got {type(database).__name__}; open one first.")
        if database.schema.relationship is None:
            raise InvalidArgumentError("The schema names no relationship type; write the graph with write_graph, which needs one.")
        self.database = database

    def __repr__(self) -> str:
        """Return the database."""
        return f"CypherGraphStore({self.database!r})"

    def sample(self, count: int) -> tuple[int, Page]:
        """Return the number of nodes, and min(`count`, N) of them."""
        rows = self._read(
            f"MATCH (c:{{label}}) WITH count(c) AS size MATCH (m:{{label}}) RETURN size, {_NODE}, {_NO_TEXT} LIMIT $count",
            count=count,
        )
        return (rows[0]["size"] if rows else 0), Page([self._node(row) for row in rows])

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
    ) -> Page:
        """Return what :meth:`~graph_retrievers.stores.remote.GraphStore.read` describes, by one query."""
        keys: dict[str, list[str]] = {}
        for title in titles:
            if not name_key(title):
                raise InvalidArgumentError(f"The title {shown(title)} has no word, so that no index of the database finds it.")
            # The folded case of the letter U+0130 has two letters, which are not one word; titles are written by their own words.
            for key in {name_key(title), name_key(title.replace("i\u0307", "\u0130"))}:
                keys.setdefault(key, []).append(title)
        asked: dict[str, Collection[Any]] = {"ids": ids, "positions": positions, "titles": keys, "names": names, "expand": expand}
        asked["texts"] = {*texts, *expand}
        used = {name: sorted(values) for name, values in asked.items() if values}
        lines = [
            f"UNWIND ${name} AS wanted {match} RETURN '{name}' AS part, {_NODE}, {text}, {edge} LIMIT $limit"
            for name, (match, text, edge) in _PARTS.items()
            if name in used
        ]
        rows = self._read("\nUNION ALL\n".join(lines), **used, limit=limit + 1)
        found = [
            Titled(title, str(row["id"]))
            for row in rows
            if row["part"] == "titles"
            # Names are found by their words, and compared by all of their letters.
            for title in keys[name_key(str(row["name"] or row["id"]))]
            if str(row["name"] or "").strip().casefold() == title
        ]
        # Those with texts last.
        nodes = [self._node(row) for row in sorted(rows, key=lambda row: row["part"] in ("names", "texts"))]
        return Page(nodes, [_edge(row) for row in rows if row["part"] == "expand"], found)

    def schema(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return all node types, and all (type, relation, type); this reads every edge of the graph."""
        rows = self._read(
            "MATCH (m:{label}) RETURN DISTINCT m.{type} AS near, NULL AS relation, NULL AS far UNION ALL "
            "MATCH (n:{label})-[e{edge}]->(m:{label}) RETURN DISTINCT n.{type} AS near, e.{relation} AS relation, m.{type} AS far"
        )
        triples = [tuple(str(row[name] or "") for name in ("near", "relation", "far")) for row in rows if row["far"] is not None]
        return sorted({str(row["near"] or "") for row in rows}), sorted(set(triples))  # type: ignore[arg-type]

    def _read(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.database.read(text.format(**self.database.schema.names()), **parameters)

    def _node(self, row: Mapping[str, Any]) -> StoredNode:
        position, degree, name = row["position"], row["degree"], str(row["id"])
        if not isinstance(position, int) or not isinstance(degree, int):
            raise DatabaseError(
                f"Node {shown(name)} has no position or no degree; write the graph with write_graph, which gives both."
            )
        metadata, origin = node_metadata(row["metadata"])
        whole = (str(row["text"]), origin) if row["text"] is not None else (None, None)
        return StoredNode(name, position, degree, str(row["name"] or ""), str(row["type"] or ""), metadata, *whole)


def _edge(row: Mapping[str, Any]) -> StoredEdge:
    ends = (str(row["near"]), str(row["id"]))
    source, target = ends if row["forward"] else ends[::-1]
    weight = 1.0 if row["weight"] is None else row["weight"]
    return StoredEdge(row["row"], source, target, str(row["relation"] or ""), weight, str(row["words"] or ""))
