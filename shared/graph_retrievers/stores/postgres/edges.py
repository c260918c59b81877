"""Edges as rows of the tables, and what nodes have of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graph_retrievers.errors import InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.graph.corpus_graph import Edge, EdgeLike
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable
from graph_retrievers.systems.traits import STRUCTURE

_COLUMNS = "source, target, relation, copy, position, weight, text"
_SAME_EDGE = "o.corpus = %(corpus)s AND o.source = n.source AND o.target = n.target AND o.relation = n.relation"


def stage_edges(writing: Writing, corpus: int, edges: Iterable[EdgeLike]) -> int:
    """Write edges to the temporary table ``new_edges``, with the numbers of their nodes, and return how many there are.

    UnknownNodeError if a node is not there. Positions count the edges from 0, copies count from 0 those of the same ends and
    relation.
    """
    writing.run(
        'CREATE TEMPORARY TABLE given_edges (number bigint, source text COLLATE "C", target text COLLATE "C", '
        'relation text COLLATE "C", weight double precision, text text COLLATE "C") ON COMMIT DROP'
    )
    writing.copy("given_edges (number, source, target, relation, weight, text)", _rows(edges))
    writing.run("ANALYZE given_edges")
    ((count,),) = writing.run("SELECT count(*) FROM given_edges").fetchall()
    with writing.joining(count):
        _resolve(writing, corpus)
    writing.run("CREATE INDEX ON new_edges (source, target)")
    writing.run("ANALYZE new_edges")
    return int(count)


def _resolve(writing: Writing, corpus: int) -> None:
    """Make ``new_edges`` of ``given_edges``."""
    unknown = writing.run(
        "SELECT g.number, g.source, g.target, g.relation, s.node IS NULL FROM given_edges g "
        "LEFT JOIN {nodes} s ON s.corpus = %(corpus)s AND s.id = g.source LEFT JOIN {nodes} t ON t.corpus = %(corpus)s "
        "AND t.id = g.target WHERE s.node IS NULL OR t.node IS NULL ORDER BY g.number LIMIT 1",
        corpus=corpus,
    ).fetchall()
    for number, source, target, relation, at_source in unknown:
        edge = tuple(map(decoded, (source, target, relation)))
        raise UnknownNodeError(
            f"Edge {number} {shown(edge)} names {shown(edge[0 if at_source else 1])}, which is not a node of this index; add the "
            "node or drop the edge."
        )
    writing.run(
        "CREATE TEMPORARY TABLE new_edges ON COMMIT DROP AS SELECT s.node AS source, t.node AS target, g.relation, "
        "row_number() OVER (PARTITION BY s.node, t.node, g.relation ORDER BY g.number)::integer - 1 AS copy, g.number AS position, "
        "g.weight, g.text FROM given_edges g JOIN {nodes} s ON s.corpus = %(corpus)s AND s.id = g.source "
        "JOIN {nodes} t ON t.corpus = %(corpus)s AND t.id = g.target",
        corpus=corpus,
    )


def _rows(edges: Iterable[EdgeLike]) -> Iterator[Sequence[Any]]:
    for number, edge_like in enumerate(edges):
        edge = Edge.of(edge_like)
        if not (sendable(edge.source) and sendable(edge.target)):
            raise UnknownNodeError(f"Edge {number}, {shown(edge, 200)}, names a node whose id is not valid Unicode.")
        texts = map(encoded, (edge.source, edge.target, edge.relation))
        # Weights are of single precision, as in memory.
        yield (number, *texts, float(np.float32(edge.weight)), encoded(edge.text))


def replace_edges(writing: Writing, corpus: int) -> Changes:
    """Make the edges of an index those of ``new_edges``; edges are the same if they have the same ends, relation and copy."""
    condition = f"{_SAME_EDGE} AND o.copy = n.copy"
    deletions = touch_ends(
        writing,
        f"DELETE FROM {{edges}} o WHERE o.corpus = %(corpus)s AND NOT EXISTS (SELECT FROM new_edges n WHERE {condition}) "
        "RETURNING o.source, o.target",
        corpus=corpus,
    )
    # The vector of an edge is of its text too, and looked at from either end.
    ((changes, moves),) = writing.run(
        "WITH differing AS (SELECT o.ctid AS place, n.*, (o.weight, o.text) IS DISTINCT FROM (n.weight, n.text) AS changed "
        f"FROM {{edges}} o JOIN new_edges n ON {condition} "
        "WHERE (o.position, o.weight, o.text) IS DISTINCT FROM (n.position, n.weight, n.text)), "
        "written AS (UPDATE {edges} o SET position = d.position, weight = d.weight, text = d.text FROM differing d "
        "WHERE o.ctid = d.place RETURNING o.source, d.changed), "
        "kept AS (INSERT INTO affected (node) SELECT DISTINCT source FROM written WHERE changed ON CONFLICT DO NOTHING) "
        "SELECT count(*) FILTER (WHERE changed), count(*) FILTER (WHERE NOT changed) FROM written",
        corpus=corpus,
    ).fetchall()
    additions = touch_ends(
        writing,
        f"INSERT INTO {{edges}} (corpus, {_COLUMNS}) SELECT %(corpus)s, {_COLUMNS} FROM new_edges n "
        f"WHERE NOT EXISTS (SELECT FROM {{edges}} o WHERE {condition}) RETURNING source, target",
        corpus=corpus,
    )
    return Changes(additions + changes, moves, deletions)


def append_edges(writing: Writing, corpus: int, first: int) -> int:
    """Add the edges of ``new_edges`` with positions from `first` on, behind those that are there; return their number."""
    return touch_ends(
        writing,
        f"INSERT INTO {{edges}} (corpus, {_COLUMNS}) SELECT %(corpus)s, source, target, relation, "
        f"copy + coalesce((SELECT max(o.copy) + 1 FROM {{edges}} o WHERE {_SAME_EDGE}), 0), position + %(first)s, weight, text "
        "FROM new_edges n RETURNING source, target",
        corpus=corpus,
        first=first,
    )


def delete_edges(writing: Writing, corpus: int, edges: Sequence[EdgeLike]) -> int:
    """Delete edges: (source, target) of any relation, or of one; InvalidArgumentError if one is not there. Return their number."""
    full_edges = [Edge.of(edge) for edge in edges]
    rows = [
        (
            place,
            encoded(edge.source),
            encoded(edge.target),
            not isinstance(edge_like, Edge) and len(edge_like) == 2,
            encoded(edge.relation),
        )
        for place, (edge_like, edge) in enumerate(zip(edges, full_edges, strict=True))
        if sendable(edge.source) and sendable(edge.target)
    ]
    places, sources, targets, pairs, relations = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    writing.run(
        "CREATE TEMPORARY TABLE old_edges ON COMMIT DROP AS SELECT g.place, e.ctid AS row "
        "FROM unnest(%(places)s::integer[], %(sources)s::text[], %(targets)s::text[], %(pairs)s::boolean[], %(relations)s::text[]) "
        "AS g (place, source, target, pair, relation) JOIN {nodes} s ON s.corpus = %(corpus)s AND s.id = g.source "
        "JOIN {nodes} t ON t.corpus = %(corpus)s AND t.id = g.target JOIN {edges} e ON e.corpus = %(corpus)s "
        "AND e.source = s.node AND e.target = t.node AND (g.pair OR e.relation = g.relation)",
        corpus=corpus,
        places=places,
        sources=sources,
        targets=targets,
        pairs=pairs,
        relations=relations,
    )
    old_places = {place for (place,) in writing.run("SELECT DISTINCT place FROM old_edges").fetchall()}
    absent = next((edge for place, edge in enumerate(edges) if place not in old_places), None)
    if absent is not None:
        raise InvalidArgumentError(f"{shown(absent, 200)} is not an edge of this index; leave it out of delete_edges.")
    return touch_ends(
        writing,
        "DELETE FROM {edges} WHERE corpus = %(corpus)s AND ctid IN (SELECT row FROM old_edges) RETURNING source, target",
        corpus=corpus,
    )


def delete_edges_of(writing: Writing, corpus: int, nodes: Sequence[int]) -> int:
    """Delete the edges of nodes, and return their number."""
    return touch_ends(
        writing,
        "DELETE FROM {edges} WHERE corpus = %(corpus)s AND (source = ANY(%(nodes)s) OR target = ANY(%(nodes)s)) "
        "RETURNING source, target",
        corpus=corpus,
        nodes=list(nodes),
    )


def touch_neighbors(writing: Writing, corpus: int, nodes: Sequence[int]) -> None:
    """Add nodes that have edges, and their neighbours, to those at which :func:`count_neighbors` looks."""
    touch_ends(
        writing,
        "SELECT source, target FROM {edges} WHERE corpus = %(corpus)s AND (source = ANY(%(nodes)s) OR target = ANY(%(nodes)s))",
        corpus=corpus,
        nodes=list(nodes),
    )


def touch_ends(writing: Writing, statement: str, **parameters: Any) -> int:
    """Run a statement that returns the ends of edges, keep these in ``affected``, and return the number of edges."""
    ((count,),) = writing.run(
        f"WITH touched (source, target) AS ({statement}), kept AS (INSERT INTO affected (node) "
        "SELECT source FROM touched UNION SELECT target FROM touched ON CONFLICT DO NOTHING) SELECT count(*) FROM touched",
        **parameters,
    ).fetchall()
    return int(count)


def count_neighbors(writing: Writing, corpus: int) -> None:
    """Bring up to date the degrees of the nodes in ``affected``, and which of them are linked to other documents.

    See :func:`~graph_retrievers.systems.traits.documents_linked`. Nodes with another degree are added to ``moved``.
    """
    writing.run("ANALYZE affected")
    ((count,),) = writing.run("SELECT count(*) FROM affected").fetchall()
    with writing.joining(count):
        _count(writing, corpus)


def _count(writing: Writing, corpus: int) -> None:
    writing.run(
        "WITH ends AS (SELECT source AS node, target AS other, relation FROM {edges} WHERE corpus = %(corpus)s "
        "UNION ALL SELECT target, source, relation FROM {edges} WHERE corpus = %(corpus)s), "
        "counted AS (SELECT n.node, n.degree AS before, n.linked AS was_linked, "
        "count(DISTINCT e.other) FILTER (WHERE e.other <> n.node)::integer AS degree, "
        "coalesce(bool_or(e.relation <> ALL(%(structure)s::text[]) OR o.source <> n.source), false) AS linked "
        "FROM affected a JOIN {nodes} n ON n.corpus = %(corpus)s AND n.node = a.node LEFT JOIN ends e ON e.node = a.node "
        "LEFT JOIN {nodes} o ON o.corpus = %(corpus)s AND o.node = e.other GROUP BY n.node, n.degree, n.linked), "
        "written AS (UPDATE {nodes} n SET degree = c.degree, linked = c.linked FROM counted c WHERE n.corpus = %(corpus)s "
        "AND n.node = c.node AND (c.before, c.was_linked) IS DISTINCT FROM (c.degree, c.linked) "
        "RETURNING n.node, c.before <> c.degree AS turned) "
        "INSERT INTO moved (node) SELECT node FROM written WHERE turned",
        corpus=corpus,
        structure=list(STRUCTURE),
    )
