"""A graph in PostgreSQL, read in parts."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from hashlib import sha256
from typing import Any, Self

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.blank import BLANK
from graph_retrievers.graph.description import GraphDescription
from graph_retrievers.graph.filters import dated_fields, faults, matching_kinds, needed_fields, not_dates, problem_key
from graph_retrievers.graph.nested import look_up
from graph_retrievers.stores.filters import Predicate, checked_filter
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import Statement
from graph_retrievers.stores.postgres.description import describe_corpus
from graph_retrievers.stores.postgres.predicates import filter_predicate
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable, sendable_texts
from graph_retrievers.stores.remote.ports import EdgeColumns, FetchedRows, StoredNode, TitleMatch

__all__ = ["PostgresGraph"]

logger = logging.getLogger(__name__)

_NODE = "n.id, n.position, {degree} AS degree, n.title, n.type, n.metadata::text"
_TEXT = "n.text, n.origin::text"
_FROM = "FROM {nodes} n WHERE n.corpus = %(corpus)s"
# In a scope, a degree counts the neighbours that are in it.
_DEGREE = """\
(SELECT count(DISTINCT o.node) FROM {edges} e JOIN {nodes} o
    ON o.corpus = n.corpus AND o.node = CASE WHEN e.source = n.node THEN e.target ELSE e.source END
    WHERE e.corpus = n.corpus AND (e.source = n.node OR e.target = n.node) AND o.node <> n.node AND @scope@)::integer"""
_NEAR = "WITH near AS (SELECT n.node FROM {nodes} n WHERE n.corpus = %(corpus)s AND n.id = ANY(%(expand)s)@scope@) "
# The ends of edges come as nodes in the same round trip; only where they must be in a scope are they looked up for each edge.
_EDGES = (
    _NEAR
    + """\
SELECT e.position, e.source, e.target, e.relation, e.weight, e.text FROM (
    SELECT e.* FROM near JOIN {edges} e ON e.corpus = %(corpus)s AND e.source = near.node
    UNION ALL
    SELECT e.* FROM near JOIN {edges} e ON e.corpus = %(corpus)s AND e.target = near.node
    WHERE e.source NOT IN (SELECT node FROM near)
) e @ends@LIMIT %(limit)s"""
)
_IN_SCOPE = """\
JOIN {nodes} s ON s.corpus = e.corpus AND s.node = e.source JOIN {nodes} t ON t.corpus = e.corpus AND t.node = e.target
WHERE @source@ AND @target@ """
_ENDS = (
    _NEAR
    + """\
SELECT @node@ FROM {nodes} n WHERE n.corpus = %(corpus)s AND n.node IN (
    SELECT e.target FROM near JOIN {edges} e ON e.corpus = %(corpus)s AND e.source = near.node
    UNION
    SELECT e.source FROM near JOIN {edges} e ON e.corpus = %(corpus)s AND e.target = near.node
)@scope_of_end@ LIMIT %(limit)s"""
)
# Kinds of values of a field, by what JSON calls them.
_KINDS = {"string": "text", "number": "number", "array": "list", "object": "mapping"}
_DOT = re.compile(r"\.")
# A node is looked for by each of at most this many conditions; and how many fields of all nodes are read for a warning at most.
_CONDITIONS, _FIELDS = 20, 10_000
# Nodes that are listed in a round trip.
_LISTED = 5_000


class PostgresGraph:
    """The graph of an index in PostgreSQL as a GraphStore; each method is one round trip and sees one state of it.

    Parameters
    ----------
    corpus : PostgresCorpus

    Raises
    ------
    DatabaseError
        From the methods: if the database fails or does not answer in time, or if the index was changed since `corpus` was made.

    Examples
    --------
    >>> from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase
    >>> database = PostgresDatabase("postgresql://localhost/works")  # doctest: +SKIP
    >>> PostgresGraph(PostgresCorpus(database, "machines")).sample(1)[0]  # doctest: +SKIP
    1200
    """

    def __init__(self, corpus: PostgresCorpus) -> None:
        if not isinstance(corpus, PostgresCorpus):
            raise InvalidArgumentError(
                f"Expected a PostgresCorpus, got {type(corpus).__name__}; make one with PostgresCorpus(database, name)."
            )
        self.corpus = corpus
        self._scope: Predicate | None = None
        self._scope_key = b""

    def __repr__(self) -> str:
        """Return the corpus."""
        return f"PostgresGraph({self.corpus!r})"

    def within(self, scope: Mapping[str, Any]) -> Self:
        """Return the store of the nodes that pass a filter, and of the edges between them, without a round trip.

        The filter becomes part of every query, with its values as parameters; degrees are counted among these nodes.
        """
        store = copy(self)
        store._scope = filter_predicate(scope, "scope")
        # Checks of filters are kept apart for each scope, as messages show fields and values of its nodes alone.
        store._scope_key = sha256(repr(store._scope).encode()).digest()
        return store

    def check_filter(self, condition: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentError if a filter compares a field with dates, and no node has a date in this field.

        A warning names a field that no node has, and a value that cannot match any value there, as in memory
        (:func:`~graph_retrievers.graph.filters.filter_mask`), unless nodes have more than 10,000 fields. What is new in a filter
        costs one round trip, once for an open database, an index and a scope; a warning costs another, which reads all fields. For
        more than 20 new conditions, only the second is made.
        """
        flat = checked_filter(condition)
        self._check_dates(flat)
        self._warn_of_impossible(flat)

    def _check_dates(self, condition: Mapping[str, Any]) -> None:
        for key, operand in dated_fields(condition).items():
            cache_key = self._checked("dates", self.corpus.version, key)
            if cache_key in self.corpus.database.checked or not sendable(key):
                continue
            scope, parameters = self._and("n"), {"key": encoded(key)}
            clause = f"{_FROM} AND n.fields ? %(key)s AND n.fields ->> %(key)s NOT IN ('', '[]'){scope}"
            date_rows, rows = self._read(
                (f"SELECT 1 {_FROM} AND n.dates ? %(key)s{scope} LIMIT 1", parameters),
                (f"SELECT n.metadata {clause} LIMIT 1", parameters),
            )
            if date_rows:
                self.corpus.database.checked.get(cache_key, lambda: None)
            elif rows:
                raise InvalidArgumentError(not_dates(key, operand, look_up(rows[0][0], key)))

    def _warn_of_impossible(self, condition: Mapping[str, Any]) -> None:
        """Log a warning, once, for each part of a filter that no node can satisfy."""
        cache, conditions = self.corpus.database.checked, dict[Any, tuple[str, str, Any]]()
        for part in needed_fields(condition):
            kinds, problem = matching_kinds(part[1], part[2]), self._checked(*problem_key(*part[:2]))
            key = (*problem, None if kinds is None else frozenset(kinds))
            if problem not in cache and key not in cache:
                conditions.setdefault(key, part)
        # Many conditions are not tried one by one, as it is faster to read which fields there are.
        flags = self._satisfied([*conditions.values()]) if len(conditions) <= _CONDITIONS else [False] * len(conditions)
        missing: list[tuple[str, str, Any]] = []
        for (key, part), passes in zip(conditions.items(), flags, strict=True):
            # The cache lets only one of several threads go on, and not again if the rest fails, since it may take long.
            cache.get(key, (lambda: None) if passes else partial(missing.append, part))
        if not missing:
            return
        text = "SELECT DISTINCT f.key, jsonb_typeof(f.value) FROM {nodes} n, jsonb_each(n.fields) f WHERE n.corpus = %(corpus)s"
        (rows,) = self._read((f"{text}{self._and('n')} LIMIT %(limit)s", {"limit": _FIELDS + 1}))
        if len(rows) > _FIELDS:
            return
        kinds_of = defaultdict[str, set[str]](set)
        for name, kind in rows:
            kinds_of[decoded(name)].add(_KINDS[kind])
        # Only a database has this field.
        kinds_of.pop(BLANK, None)
        # Fields are named without the paths inside them.
        fields = [name for name in sorted(kinds_of) if not any(name[: dot.start()] in kinds_of for dot in _DOT.finditer(name))]
        for key, fault in faults(missing, lambda name: kinds_of.get(name, set()), fields):
            cache.get(self._checked(*key), partial(logger.warning, "%s", fault))

    def _satisfied(self, conditions: Sequence[tuple[str, str, Any]]) -> list[bool]:
        """Return for conditions on fields whether some node has a value that may satisfy it."""
        results, statements = [False] * len(conditions), dict[int, Statement]()
        for place, (key, operator, value) in enumerate(conditions):
            kinds = matching_kinds(operator, value)
            if key.startswith("$"):
                results[place] = kinds is None or "text" in kinds
            elif sendable(key):
                types = [kind for kind, name in _KINDS.items() if kinds is None or name in kinds]
                test = "jsonb_typeof(n.fields -> %(key)s::text) = ANY(%(types)s::text[])"
                statements[place] = (f"SELECT 1 {_FROM} AND {test}{self._and('n')} LIMIT 1", {"key": encoded(key), "types": types})
        for place, rows in zip(statements, self._read(*statements.values()) if statements else (), strict=True):
            results[place] = bool(rows)
        return results

    def _checked(self, *parts: Any) -> tuple[Any, ...]:
        """Return the key of a check of the nodes of this store."""
        return self.corpus.number, self._scope_key, *parts

    def positions(self, limit: int) -> dict[str, int]:
        """Return the positions of all nodes by their ids, of the first ``limit + 1`` if there are more than `limit`."""
        text = f"SELECT n.id, n.position {_FROM}{self._and('n')} ORDER BY n.position LIMIT %(limit)s"
        (rows,) = self._read((text, {"limit": limit + 1}))
        return {decoded(name): position for name, position in rows}

    @property
    def has_numbers(self) -> bool:
        """Whether the index was written with references by number."""
        return self.corpus.has_numbers

    def list_nodes(self) -> Iterator[StoredNode]:
        """Yield all nodes with their texts, in the order of their positions; a round trip for every 5,000 positions."""
        columns = f"{_NODE.replace('{degree}', '0')}, {_TEXT}"
        where = f"n.position >= %(start)s AND n.position < %(stop)s{self._and('n')}"
        for start in range(0, self.corpus.nodes, _LISTED):
            parameters = {"start": start, "stop": start + _LISTED}
            (rows,) = self._read((f"SELECT {columns} {_FROM} AND {where} ORDER BY n.position", parameters))
            yield from map(_node, rows)

    def sample(self, count: int) -> tuple[int, FetchedRows]:
        """Return the number of nodes, and min(`count`, N) of them, the first by position."""
        statement = (f"SELECT {_NODE} {_FROM}{self._and('n')} ORDER BY n.position LIMIT %(limit)s", {"limit": count})
        if self._scope is None:
            # The number is that of all nodes, also for a user who may read only some: all positions are below it.
            (rows,) = self._read(statement)
            return self.corpus.nodes, FetchedRows([_node(row) for row in rows])
        (((size,),), rows) = self._read((f"SELECT count(*) {_FROM}{self._and('n')}", {}), statement)
        return size, FetchedRows([_node(row) for row in rows])

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
        """Return what :meth:`~graph_retrievers.stores.remote.GraphStore.read` describes, in one round trip."""
        statements: dict[str, Statement] = {}
        scope = self._and("n")

        def add(part: str, columns: str, where: str, **values: Any) -> None:
            statements[part] = (f"SELECT {columns} {_FROM} AND {where}{scope} LIMIT %(limit)s", {**values, "limit": limit + 1})

        if ids:
            add("ids", _NODE, "n.id = ANY(%(ids)s)", ids=sendable_texts(ids))
        if positions:
            add("positions", _NODE, "n.position = ANY(%(positions)s)", positions=list(positions))
        if titles:
            titles_by_key = {encoded(title): title for title in titles if sendable(title)}
            where = "left(n.title_key, 500) = ANY(%(begun)s) AND n.title_key = ANY(%(titles)s)"
            prefixes = [title[:500] for title in titles_by_key]
            add("titles", f"{_NODE}, NULL, NULL, n.title_key", where, titles=list(titles_by_key), begun=prefixes)
        if names:
            where = "left(n.name_key, 500) = ANY(%(begun)s) AND n.name_key = ANY(%(names)s)"
            keys = sendable_texts(names)
            add("names", f"{_NODE}, {_TEXT}", where, names=keys, begun=[name[:500] for name in keys])
        if texts or expand:
            add("texts", f"{_NODE}, {_TEXT}, n.node", "n.id = ANY(%(texts)s)", texts=sendable_texts({*texts, *expand}))
        if expand:
            parameters = {"expand": sendable_texts(expand), "limit": limit + 1}
            joined = ""
            if self._scope is not None:
                joined = _IN_SCOPE.replace("@source@", self._scope.on("s")).replace("@target@", self._scope.on("t"))
            statements["edges"] = (_EDGES.replace("@scope@", scope).replace("@ends@", joined), parameters)
            ends = _ENDS.replace("@scope@", scope).replace("@node@", f"{_NODE}, NULL, NULL, n.node")
            statements["ends"] = (ends.replace("@scope_of_end@", scope), parameters)
        rows = dict(zip(statements, self._read(*statements.values()), strict=True)) if statements else {}
        matches = [TitleMatch(titles_by_key[row[8]], decoded(row[0])) for row in rows.get("titles", [])]
        # Rows with texts come last, so that they replace those without.
        parts = ("ids", "positions", "titles", "ends", "names", "texts")
        nodes = [_node(row) for part in parts for row in rows.get(part, [])]
        ends_by_node = {row[8]: decoded(row[0]) for part in ("ends", "texts") for row in rows.get(part, [])}
        # Some ends are missing only from a page above the limit, which is refused.
        edge_rows = [row for row in rows.get("edges", []) if row[1] in ends_by_node and row[2] in ends_by_node]
        return FetchedRows(nodes, _edges(edge_rows, ends_by_node), matches)

    def schema(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return all node types, and all (type, relation, type); this reads every edge of the graph."""
        where = "" if self._scope is None else f" AND {self._scope.on('s')} AND {self._scope.on('t')}"
        types, triples = self._read(
            (f"SELECT DISTINCT n.type {_FROM}{self._and('n')}", {}),
            (
                "SELECT DISTINCT s.type, e.relation, t.type FROM {edges} e JOIN {nodes} s ON s.corpus = e.corpus "
                "AND s.node = e.source JOIN {nodes} t ON t.corpus = e.corpus AND t.node = e.target "
                f"WHERE e.corpus = %(corpus)s{where}",
                {},
            ),
        )
        return sorted(decoded(kind) for (kind,) in types), sorted(tuple(map(decoded, row)) for row in triples)  # type: ignore[misc]

    def describe(self, signals: tuple[str, ...], embedding: Any) -> GraphDescription:
        """Return the description of the index, whose components are not counted; `signals` and the model `embedding` are shown."""
        return describe_corpus(self.corpus, signals, embedding)

    def _and(self, node: str) -> str:
        """Return the condition that a node is in the scope, after others; "" without one."""
        return "" if self._scope is None else f" AND {self._scope.on(node)}"

    def _read(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        scope = self._scope
        degree = "n.degree" if scope is None else _DEGREE.replace("@scope@", scope.on("o"))
        values = {} if scope is None else scope.parameters
        return self.corpus.read(*((text.replace("{degree}", degree), {**parameters, **values}) for text, parameters in statements))


def _node(row: tuple[Any, ...]) -> StoredNode:
    name, position, degree, title, kind, metadata = row[:6]
    text, origin = row[6:8] or (None, None)
    content = (None, None) if text is None else (decoded(text), _mapping(origin))
    return StoredNode(decoded(name), position, degree, decoded(title), decoded(kind), _mapping(metadata), *content)


def _mapping(text: str) -> dict[str, Any]:
    """Return metadata from their JSON, which the driver would read more slowly; most are empty."""
    return {} if text == "{}" else json.loads(text)


def _edges(rows: Sequence[tuple[Any, ...]], names: Mapping[int, str]) -> EdgeColumns:
    position, source, target, relation, weight, text = zip(*rows, strict=True) if rows else ((),) * 6
    # Relations have few names.
    relations = {name: decoded(name) for name in set(relation)}
    sources, targets = ([names[node] for node in nodes] for nodes in (source, target))
    return EdgeColumns(position, sources, targets, [relations[name] for name in relation], weight, list(map(decoded, text)))
