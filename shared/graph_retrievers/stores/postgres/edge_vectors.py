"""The vectors of the edges of an index in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.dense import ROUNDING
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.edges import touch_ends
from graph_retrievers.stores.postgres.values import decoded, read_vector, sendable_texts, sent_vector, vector_rows, vector_text
from graph_retrievers.stores.postgres.vectors import members_of
from graph_retrievers.stores.remote.ports import StoredEdge

__all__ = ["PostgresEdgeVectors"]

VectorsOfEdges = Callable[[list[int], list[str]], np.ndarray]
"""Returns the vectors of n edges, by their positions and texts: float32, shape [n, d], of unit length."""

# Edges whose vectors are written at a time.
_BLOCK = 5000
_ENDS = "JOIN {nodes} s ON s.corpus = e.corpus AND s.node = e.source JOIN {nodes} t ON t.corpus = e.corpus AND t.node = e.target"
SAME_EDGE = "v.corpus = e.corpus AND v.source = e.source AND v.target = e.target AND v.relation = e.relation AND v.copy = e.copy"
"""Condition that a row v of the table of vectors is that of an edge e."""
# What models read of an edge, see CorpusGraph.edge_contents.
_CONTENT = (
    "coalesce(nullif(e.text, ''), concat_ws(' ', coalesce(nullif(s.title, ''), s.id), nullif(e.relation, ''), "
    "coalesce(nullif(t.title, ''), t.id)))"
)
_DIGEST = "sha256(convert_to(e.content, 'UTF8'))"
# A vector of zeros has the cosine 0.
_DISTANCE = "coalesce(nullif(v.vector <=> q.vector, 'NaN'), 1)"
# Distances are computed once. Of edges that tie with the last of k, which may be many, those at the lowest positions are kept; the
# limits tell the planner that the joins are of few rows.
_SEARCH = f"""\
SELECT e.place, e.position, s.id, t.id, e.relation, e.weight, e.text, 1 - e.distance
FROM (
    SELECT q.place, best.* FROM unnest(%(vectors)s::text[]::vector[]) WITH ORDINALITY AS q (vector, place) CROSS JOIN LATERAL (
        WITH near AS MATERIALIZED (
            SELECT v.corpus, v.source, v.target, v.relation, v.copy, {_DISTANCE} AS distance
            FROM {{edge_vectors}} v WHERE v.corpus = %(corpus)s@among@
        ), last AS (SELECT max(distance) AS distance FROM (SELECT distance FROM near ORDER BY distance LIMIT %(k)s) n)
        SELECT e.*, v.distance FROM (
            SELECT near.*, near.distance >= last.distance - %(rounding)s AS tied FROM near
            JOIN last ON near.distance <= last.distance + %(rounding)s ORDER BY tied FETCH FIRST (%(k)s) ROWS WITH TIES
        ) v JOIN {{edges}} e ON {SAME_EDGE} ORDER BY v.tied, e.position LIMIT %(k)s
    ) best
) e {_ENDS}
ORDER BY e.place, e.distance, e.position"""
_TYPED = "SELECT n.node FROM {nodes} n WHERE n.corpus = %(corpus)s AND n.type = ANY(%(types)s)"
_OTHER_TYPES = f" AND v.source NOT IN ({_TYPED}) AND v.target NOT IN ({_TYPED})"
_VECTORS = f"""\
SELECT e.position, vector_send(v.vector) FROM {{edges}} e JOIN {{edge_vectors}} v ON {SAME_EDGE}
WHERE e.corpus = %(corpus)s AND e.position = ANY(%(positions)s) AND e.source = ANY(ARRAY(
    SELECT n.node FROM {{nodes}} n WHERE n.corpus = %(corpus)s AND n.id = ANY(%(ids)s)
))"""


class PostgresEdgeVectors:
    """The vectors of the edges of an index in PostgreSQL as an EdgeVectorStore; all of them are compared, by cosine.

    Parameters
    ----------
    corpus : PostgresCorpus
        Of an index with vectors of edges.

    Raises
    ------
    InvalidArgumentError
        If there are no vectors of edges.
    DatabaseError
        From the methods: if the database fails or does not answer in time, or if the index was changed since `corpus` was made.

    Examples
    --------
    >>> from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase
    >>> corpus = PostgresCorpus(PostgresDatabase("postgresql://localhost/works"), "machines")  # doctest: +SKIP
    >>> [edge.relation for edge, _ in PostgresEdgeVectors(corpus).nearest(np.array([[0.6, 0.8]]), 2)[0]]  # doctest: +SKIP
    ['reads', 'built by']
    """

    keeps_time_limits = True

    def __init__(self, corpus: PostgresCorpus) -> None:
        if not corpus.edge_dimension:
            raise InvalidArgumentError(
                f"{corpus!r} has no vectors of edges; write an index that was built with edge_signals=True and embedding=."
            )
        self.corpus, self.dimension = corpus, corpus.edge_dimension
        self._ids: Collection[str] | None = None
        self._members: list[int] | None = None

    def __repr__(self) -> str:
        """Return the corpus."""
        return f"PostgresEdgeVectors({self.corpus!r})"

    def within(self, ids: Collection[str]) -> Self:
        """Return the store of the edges between nodes of some ids, for a ``scope``."""
        store = copy(self)
        store._ids, store._members = ids, None
        return store

    def nearest(self, vectors: np.ndarray, k: int, *, exclude_types: Collection[str] = ()) -> list[list[tuple[StoredEdge, float]]]:
        """Return the k nearest edges of each vector with their cosines, in one round trip; the first one of a scope takes two.

        No end of an edge has one of the types. Of edges whose cosines are that of the last, up to rounding, those at the lowest
        positions are returned.
        """
        if self._ids is not None and self._members is None:
            self._members = [node for node, _ in members_of(self.corpus, self._ids)]
        among = "" if self._members is None else " AND v.source = ANY(%(members)s) AND v.target = ANY(%(members)s)"
        among += _OTHER_TYPES if exclude_types else ""
        parameters = {
            "vectors": [vector_text(vector) for vector in np.asarray(vectors)],
            "k": k,
            "members": self._members,
            "types": sendable_texts(exclude_types),
            "rounding": ROUNDING,
        }
        (rows,) = self.corpus.read((_SEARCH.replace("@among@", among), parameters))
        results: list[list[tuple[StoredEdge, float]]] = [[] for _ in vectors]
        for place, position, source, target, relation, weight, text, cosine in rows:
            edge = StoredEdge(position, decoded(source), decoded(target), decoded(relation), weight, decoded(text))
            results[place - 1].append((edge, cosine))
        return results

    def vectors(self, edges: Sequence[StoredEdge]) -> Mapping[int, np.ndarray]:
        """Return the vectors of edges by their positions, each of shape [d], in one round trip."""
        parameters = {
            "positions": [edge.position for edge in edges],
            "ids": sendable_texts(dict.fromkeys(edge.source for edge in edges)),
        }
        (rows,) = self.corpus.read((_VECTORS, parameters))
        return {position: read_vector(data) for position, data in rows}


def write_edge_vectors(writing: Writing, corpus: int, vectors_of: VectorsOfEdges, everywhere: bool) -> int:
    """Write the vectors of edges that have none of their present texts, and delete those of edges that are not there.

    Returns how many were written. Only edges at nodes in ``affected`` are looked at, or with `everywhere` all.
    """
    edges_here, vectors_here = "SELECT e.* FROM {edges} e WHERE e.corpus = %(corpus)s", ""
    if not everywhere:
        edges_here, rows_here = (_at_affected(*part) for part in (("edges", "e.*"), ("edge_vectors", "e.ctid")))
        vectors_here = f" AND v.ctid IN ({rows_here})"
    ((count,),) = writing.run("SELECT count(*) FROM affected").fetchall()
    with writing.joining(count):
        writing.run(
            "CREATE TEMPORARY TABLE bare_edges ON COMMIT DROP AS SELECT (row_number() OVER (ORDER BY e.position) - 1)::integer "
            f"AS number, e.corpus, e.source, e.target, e.relation, e.copy, e.position, {_CONTENT} AS content "
            f"FROM ({edges_here}) e {_ENDS}",
            corpus=corpus,
        )
        writing.run("CREATE INDEX ON bare_edges (source, target)")
        writing.run("CREATE INDEX ON bare_edges (number)")
        writing.run("ANALYZE bare_edges")
        writing.run(
            f"DELETE FROM {{edge_vectors}} v WHERE v.corpus = %(corpus)s{vectors_here} AND NOT EXISTS "
            f"(SELECT FROM bare_edges e WHERE {SAME_EDGE} AND v.digest = {_DIGEST})",
            corpus=corpus,
        )
        writing.run(f"DELETE FROM bare_edges e USING {{edge_vectors}} v WHERE {SAME_EDGE}")
    writing.run("CREATE TEMPORARY TABLE new_vectors (corpus integer, number integer, vector vector) ON COMMIT DROP")
    count, last = 0, -1
    while rows := writing.run(
        "SELECT number, position, content FROM bare_edges WHERE number > %(last)s ORDER BY number LIMIT %(most)s",
        last=last,
        most=_BLOCK,
    ).fetchall():
        numbers, positions, contents = map(list, zip(*rows, strict=True))
        vectors = vectors_of(positions, [decoded(content) for content in contents])
        writing.copy_blocks("new_vectors", vector_rows(corpus, vectors, np.array(numbers, np.int64)), "binary")
        writing.run(
            f"INSERT INTO {{edge_vectors}} SELECT e.corpus, e.source, e.target, e.relation, e.copy, {_DIGEST}, n.vector "
            "FROM new_vectors n JOIN bare_edges e USING (number)"
        )
        writing.run("TRUNCATE new_vectors")
        count, last = count + len(rows), numbers[-1]
    return count


def _at_affected(table: str, columns: str) -> str:
    """Return a query for the rows of a table of edges at the nodes in ``affected``, each once."""
    of_ends = f"SELECT {columns} FROM affected a JOIN {{{table}}} e ON e.corpus = %(corpus)s AND"
    return f"{of_ends} e.source = a.node UNION {of_ends} e.target = a.node"


def delete_other_vectors(writing: Writing, corpus: int, vectors_of: VectorsOfEdges) -> None:
    """Delete the vectors of edges that are not those that `vectors_of` returns, without their texts; their ends are touched."""
    rows = writing.run(
        f"SELECT e.position, sha256(vector_send(v.vector)) FROM {{edges}} e JOIN {{edge_vectors}} v ON {SAME_EDGE} "
        "WHERE e.corpus = %(corpus)s",
        corpus=corpus,
    ).fetchall()
    positions = list[int]()
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        vectors = vectors_of([position for position, _ in block], [])
        pairs = zip(block, map(sent_vector, vectors), strict=True)
        positions += [position for (position, digest), sent in pairs if sha256(sent).digest() != digest]
    touch_ends(
        writing,
        "DELETE FROM {edge_vectors} v USING {edges} e WHERE e.corpus = %(corpus)s AND e.position = ANY(%(positions)s) "
        f"AND {SAME_EDGE} RETURNING v.source, v.target",
        corpus=corpus,
        positions=positions,
    )
