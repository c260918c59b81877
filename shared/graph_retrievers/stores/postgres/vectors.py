"""The vectors of an index in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from itertools import chain
from math import isnan
from typing import Any, Self

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.errors import DatabaseError, InvalidArgumentError, shown
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import Statement
from graph_retrievers.stores.postgres.schema import vector_index
from graph_retrievers.stores.postgres.values import decoded, read_vector, sendable_texts, vector_text
from graph_retrievers.stores.postgres.vector_table import TableColumns

__all__ = ["PostgresVectors", "create_vector_index"]

# A scope of fewer nodes is searched exactly, as a search of the HNSW index would read more.
_FEW = 10_000
# The fewest and the most candidates of a search of an HNSW index.
_LEAST_CANDIDATES, _MOST_CANDIDATES = 100, 1000
_AGAIN = "it was changed since write_index. Read the store again, and write its index again."
_SEARCH = """\
SELECT q.place, n.id, coalesce(1 - nullif(f.distance, 'NaN'), 0)
FROM unnest(%(vectors)s::text[]::vector[]) WITH ORDINALITY AS q (vector, place)
CROSS JOIN LATERAL (
    SELECT v.node, @distance@ AS distance FROM @source@ v WHERE v.corpus = %(corpus)s@among@
    ORDER BY @distance@ FETCH FIRST (%(k)s) ROWS WITH TIES
) f JOIN {nodes} n ON n.corpus = %(corpus)s AND n.node = f.node
WHERE f.distance < 'NaN' OR vector_norm(q.vector) = 0
ORDER BY q.place, f.distance, n.position"""

_JOINED = "{nodes} n JOIN {vectors} v ON v.corpus = n.corpus AND v.node = n.node"
_COSINES = """\
SELECT i.query, n.id, 1 - (v.vector <=> q.vector) FROM unnest(%(owners)s::integer[], %(ids)s::text[]) AS i (query, id)
JOIN unnest(%(vectors)s::text[]::vector[]) WITH ORDINALITY AS q (vector, query) ON q.query = i.query
JOIN (@joined@) ON n.corpus = %(corpus)s AND n.id = i.id"""


class PostgresVectors:
    """The vectors of an index in PostgreSQL as a ComparingVectorStore, by cosine.

    Parameters
    ----------
    corpus : PostgresCorpus
        Of an index with vectors.
    exact : bool, default True
        Whether all vectors are compared. Otherwise the index that :func:`create_vector_index` created is searched, which is fast
        for millions of vectors and may miss one of the nearest; the search goes on until as many are found as are asked for, also
        in a scope.

    Raises
    ------
    InvalidArgumentError
        If there are no vectors.
    DatabaseError
        From the methods: if the database fails or does not answer in time, or if the index was changed since `corpus` was made.

    Examples
    --------
    >>> from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase
    >>> corpus = PostgresCorpus(PostgresDatabase("postgresql://localhost/works"), "machines")  # doctest: +SKIP
    >>> PostgresVectors(corpus).search(np.array([[0.6, 0.8]]), 1)  # doctest: +SKIP
    [['card']]
    """

    keeps_time_limits = True

    def __init__(self, corpus: PostgresCorpus, *, exact: bool = True) -> None:
        if not isinstance(corpus, PostgresCorpus):
            raise InvalidArgumentError(
                f"Expected a PostgresCorpus, got {type(corpus).__name__}; make one with PostgresCorpus(database, name)."
            )
        if not corpus.dimension:
            raise InvalidArgumentError(f"{corpus!r} has no vectors; write an index that was built with embedding= or vectors=.")
        self.corpus, self.exact = corpus, exact
        self._table: TableColumns | None = None
        if corpus.table is not None:
            (columns,) = corpus.read(corpus.table.columns)
            self._table = TableColumns(corpus.table, columns, corpus.database.where)
        self._ids: Collection[str] | None = None
        self._members: list[int] | None = None

    def __repr__(self) -> str:
        """Return the corpus."""
        return f"PostgresVectors({self.corpus!r}, exact={self.exact})"

    @property
    def dimension(self) -> int:
        """The width of the vectors."""
        return self.corpus.dimension

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; its search finds the nearest among them."""
        store = copy(self)
        store._ids, store._members = ids, None
        return store

    def search(self, vectors: np.ndarray, k: int) -> list[list[str]]:
        """Return the ids of the k nearest of each vector, best first, in one round trip; the first one of a scope takes two."""
        return [[name for name, _ in results] for results in self.nearest(vectors, k)]

    def nearest(self, vectors: np.ndarray, k: int) -> list[list[tuple[str, float]]]:
        """Return the ids of :meth:`search` with their cosines, which are 0 for a vector of zeros."""
        if self._ids is not None and self._members is None:
            self._members = [node for node, _ in members_of(self.corpus, self._ids)]
        parameters: dict[str, Any] = {
            "vectors": [vector_text(vector) for vector in np.asarray(vectors)],
            "k": k,
            "members": self._members,
        }
        among = "" if self._members is None else " AND v.node = ANY(%(members)s)"
        source, kind = "{vectors}", "vector"
        if self._table is not None:
            source, kind, parameters = self._table.source, self._table.type, parameters | self._table.parameters
        exact = self.exact or (self._members is not None and len(self._members) < _FEW)
        # With "+ 0", no index gives the order of an exact search; an index of the user may be there.
        distance = "(v.vector::vector <=> q.vector) + 0"
        if not exact:
            distance = f"(v.vector::{kind}({self.corpus.dimension})) <=> q.vector::{kind}"
        # The source is filled in last, as it has names of the user, which may look like a place to fill in.
        text = _SEARCH.replace("@distance@", distance).replace("@among@", among).replace("@source@", source)
        if exact:
            statements: list[Statement] = [(text, parameters)]
        else:
            # One more than wanted, which shows that the ties have ended: otherwise the search would go on.
            candidates = min(max(k + 1, _LEAST_CANDIDATES), _MOST_CANDIDATES)
            statements = [
                ("SET LOCAL hnsw.iterative_scan = 'strict_order'", {}),
                (f"SET LOCAL hnsw.ef_search = {candidates}", {}),
                (text, parameters),
            ]
        *_, rows = self.corpus.read(*statements)
        if self._table is not None and self._members is None and not rows:
            raise DatabaseError(f"No node has a row with a vector in the table {self._table.label} any more: {_AGAIN}")
        found: list[list[tuple[str, float]]] = [[] for _ in vectors]
        for place, name, cosine in rows:
            found[place - 1].append((decoded(name), cosine))
        # Of nodes at equal distances, those at the lowest positions are kept.
        found = [pairs[:k] for pairs in found]
        if not exact and kind == "halfvec":
            # Distances of an index of half precision are those of a vector that was rounded too.
            cosines = self.cosines([(vector, [name for name, _ in pairs]) for vector, pairs in zip(vectors, found, strict=True)])
            found = [[(name, by_id[name]) for name, _ in pairs] for by_id, pairs in zip(cosines, found, strict=True)]
        return found

    def vectors(self, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Return the vectors of ids, each of shape [d], in one round trip; ids without a vector are left out."""
        text = "SELECT n.id, vector_send(v.vector) FROM @joined@ WHERE n.corpus = %(corpus)s AND n.id = ANY(%(ids)s)"
        return {decoded(name): read_vector(data) for name, data in self._read(text, ids=sendable_texts(ids))}

    def cosines(self, pairs: Sequence[tuple[np.ndarray, Sequence[str]]]) -> list[Mapping[str, float]]:
        """Return for each of some vectors, with ids, the cosines by id, in one round trip; ids without a vector are left out.

        Those of a vector of zeros are 0.
        """
        id_lists = [sendable_texts(ids) for _, ids in pairs]
        parameters = {
            "vectors": [vector_text(vector) for vector, _ in pairs],
            "owners": [query for query, ids in enumerate(id_lists, 1) for _ in ids],
            "ids": [*chain.from_iterable(id_lists)],
        }
        results: list[dict[str, float]] = [{} for _ in pairs]
        for query, name, cosine in self._read(_COSINES, **parameters):
            if not isnan(cosine):
                results[query - 1][decoded(name)] = cosine
            elif not pairs[query - 1][0].any():
                results[query - 1][decoded(name)] = 0.0
        return results  # type: ignore[return-value]

    def _read(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the vectors of some nodes: `@joined@` stands for these nodes with their vectors."""
        source, table_parameters = (_JOINED, {}) if self._table is None else (self._table.joined, self._table.parameters)
        (rows,) = self.corpus.read((text.replace("@joined@", source), {**parameters, **table_parameters}))
        if (gone := next((row[-2] for row in rows if row[-1] is None), None)) is not None and self._table is not None:
            raise DatabaseError(
                f"Node {shown(decoded(gone))} has no row with a vector in the table {self._table.label} any more: {_AGAIN}"
            )
        return rows


def members_of(corpus: PostgresCorpus, ids: Collection[str]) -> list[tuple[int, int]]:
    """Return the number and the length in words of the nodes of some ids, in one round trip."""
    text = "SELECT n.node, n.length FROM {nodes} n WHERE n.corpus = %(corpus)s AND n.id = ANY(%(ids)s) ORDER BY n.node"
    (rows,) = corpus.read((text, {"ids": sendable_texts(ids)}))
    return rows  # type: ignore[return-value]


def create_vector_index(corpus: PostgresCorpus, *, m: int = 16, ef_construction: int = 64) -> None:
    """Create an HNSW index of the vectors of a corpus, unless it exists, for ``PostgresVectors(corpus, exact=False)``.

    Later writes follow it. It takes minutes for a million vectors, and less with a larger ``maintenance_work_mem``. Where the
    vectors are in a table of yours, nothing is created, and the error has the statement for that table.

    Parameters
    ----------
    corpus : PostgresCorpus
        With vectors of at most 2,000 dimensions.
    m, ef_construction : int, default 16 and 64
        Neighbours of a vector, from 2 to 100, and candidates for them, from 2 m to 1,000; see the documentation of pgvector.

    Raises
    ------
    InvalidArgumentError
        If there are no vectors, or they are in a table of yours, or for other numbers.
    DatabaseError
        If the database refuses it.
    """
    m = positive("m", m, 100, 2)
    ef_construction = positive("ef_construction", ef_construction, 1000, 2 * m)
    # This refuses a corpus without vectors.
    store = PostgresVectors(corpus)
    if store._table is not None:
        raise InvalidArgumentError(
            f"The vectors are in the table {store._table.label}, which is not changed here. Create the index there: "
            f"{store._table.index(corpus.dimension)}"
        )
    vector = f"vector::vector({corpus.dimension})"
    with corpus.database.writing() as writing:
        writing.run(
            f"CREATE INDEX IF NOT EXISTS {vector_index(corpus.number)} ON {{vectors}} USING hnsw (({vector}) vector_cosine_ops) "
            f"WITH (m = {m}, ef_construction = {ef_construction}) WHERE corpus = {corpus.number}"
        )
