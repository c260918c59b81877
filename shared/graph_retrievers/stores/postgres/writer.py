"""An index written into PostgreSQL, and brought up to date there."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    MissingSignalError,
    shown,
)
from graph_retrievers.graph.blank import BLANK, blank_nodes
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.stores.changes import Changes, check_lengths, check_loss, tell_bare
from graph_retrievers.stores.postgres.corpus import corpus_name
from graph_retrievers.stores.postgres.database import PostgresDatabase, Writing
from graph_retrievers.stores.postgres.schema import create_tables, vector_index
from graph_retrievers.stores.postgres.values import date_fields, decoded, encoded, filter_fields
from graph_retrievers.stores.postgres.vector_table import TableColumns, VectorTable, vector_table
from graph_retrievers.stores.postgres.words import stored_term
from graph_retrievers.stores.remote.pages import name_key
from graph_retrievers.systems.traits import traits_of

__all__ = ["Written", "write_index"]

logger = logging.getLogger(__name__)

# Bytes of an id: an entry of an index of PostgreSQL has 2,700.
_LONGEST = 2600
# Rows of a block that is sent, and the share of changed nodes from which on statistics are made anew.
_BLOCK, _SHARE = 10_000, 0.1


class Written(NamedTuple):
    """What :func:`write_index` changed: nodes, with their words and vectors, and edges."""

    nodes: Changes
    edges: Changes


def write_index(
    index: GraphIndex,
    database: PostgresDatabase,
    name: str,
    *,
    vectors: Any = None,
    replace: bool = False,
    show_progress: bool = False,
) -> Written:
    """Write an index into PostgreSQL, or update it there, so that retrievers run there as in memory.

    Nodes, edges, words, vectors and names go into the tables of the database's schema, under the name of the index; several
    indexes lie in the same tables. Contents that are there are not written again, and contents that are not in the index are
    deleted, in one transaction: a reader sees the state before or after. Of several writers, each waits for the one before.

    Parameters
    ----------
    index : GraphIndex
        With BM25.
    database : PostgresDatabase
    name : str
        Of 1 to 500 characters.
    vectors : VectorTable, PGVector or PGVectorStore, optional
        A table of the same database that has the vectors of the nodes already, or the vector store of LangChain or LlamaIndex that
        has this table. They stay there and are searched there, and no vector is written: see
        :class:`~graph_retrievers.stores.postgres.VectorTable`. The table is only read. After its rows have changed, build the index
        of it again, and write that.
    replace : bool, default False
        Whether the index may replace one of other documents, of which more than half of the nodes would be deleted, or one with
        vectors of another model or width. An HNSW index of another width is dropped.
    show_progress : bool, default False

    Returns
    -------
    Written

    Raises
    ------
    InvalidArgumentError, DimensionMismatchError
        Without `replace`, if there is an index of other documents or of another model under this name; if an id has more than 2,600
        bytes; if vectors are compared by dot products and have different lengths; if this database has no table of `vectors`, or it
        has no row with a vector for a node.
    MissingSignalError
        If the index has no BM25, or with `vectors` no vectors.
    MissingDatabaseFeatureError
        If the database has no extension ``vector``, and the user cannot create it.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If the database cannot be reached, refuses the user, or fails. Nothing was written then.

    Examples
    --------
    >>> database = PostgresDatabase("postgresql://localhost/works")  # doctest: +SKIP
    >>> write_index(index, database, "machines").nodes  # doctest: +SKIP
    Changes(written=1200, moved=0, deleted=0)
    """
    if not isinstance(database, PostgresDatabase):
        raise InvalidArgumentError(f"database is {shown(database)}; expected a PostgresDatabase.")
    rows = _Rows(index, None if vectors is None else vector_table(vectors))
    called = corpus_name(name)
    with database.writing() as writing:
        create_tables(writing, database.where, database.schema)
        where = f"The index {shown(name)} of {database.where}"
        held = _Held(writing, called)
        held.check(rows, where, replace)
        written = _write(writing, held, rows, show_progress)
        if rows.table is not None:
            _check_table(writing, held.corpus, rows, rows.table, database.where)
    if sum(written.nodes) > _SHARE * len(index):
        _analyse(database)
    return written


class _Rows:
    """An index as rows of the tables."""

    def __init__(self, index: GraphIndex, table: VectorTable | None) -> None:
        self.index, self.graph, self.table = index, index.graph, table
        bm25, dense = index.signals.get("bm25"), index.signals.get("dense")
        if not isinstance(bm25, BM25):
            raise MissingSignalError("The index has no BM25, of which the words are made; build it with bm25=True.")
        self.bm25, self.dense = bm25, dense if isinstance(dense, DenseIndex) else None
        if self.dense is not None:
            check_lengths(self.dense)
        elif table is not None:
            raise MissingSignalError("The index has no vectors, and vectors= says where they are; build it of the same store.")
        if long := next((node for node in self.graph.ids if len(encoded(node).encode()) > _LONGEST), None):
            raise InvalidArgumentError(
                f"The id {shown(long)} has {len(long.encode()):,} bytes; the index of a database takes at most {_LONGEST:,}: "
                "shorten it."
            )
        self.dimension = 0 if self.dense is None else self.dense.dimension
        tensors, settings = bm25.state()
        self.settings = bm25.settings
        # What is kept beside the index: also where its vectors are, if they are not written.
        self.kept = self.settings if table is None else {**self.settings, "vectors": table.to_dict()}
        vocabulary = np.array([stored_term(term) for term in settings["vocabulary"]], object)
        self.terms = np.empty(len(vocabulary), object)
        self.terms[list(settings["vocabulary"].values())] = vocabulary
        self.lengths = tensors["lengths"].cpu().numpy()
        owners = tensors["rows"].cpu().numpy()
        order = np.argsort(owners, kind="stable")
        numbers = np.repeat(np.arange(len(self.terms)), np.diff(tensors["indptr"].cpu().numpy()))
        # The words of each node together.
        self.owners, self.numbers, self.counts = owners[order], numbers[order], tensors["counts"].cpu().numpy()[order]
        self.ends = np.searchsorted(self.owners, np.arange(len(index) + 1))
        self.bare = np.zeros(len(index), bool) if self.dense is None else (self.dense.norms == 0).cpu().numpy()

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of some rows: float32, shape [n, d]."""
        assert self.dense is not None
        import torch

        return self.dense.taken(torch.from_numpy(rows)).cpu().numpy().astype(np.float32)  # type: ignore[no-any-return]

    def contents(self, show_progress: bool) -> list[bytes]:
        """Return a digest of each node with its words and its vector, without its place and degree."""
        found, blank = [], blank_nodes(self.graph)
        own = json.dumps(self.settings)
        with progress_bar(total=len(self.graph), desc="reading nodes", unit="node", disable=not show_progress) as bar:
            for start in range(0, len(self.graph), _BLOCK):
                rows = np.arange(start, min(start + _BLOCK, len(self.graph)))
                written = self.dense is not None and self.table is None
                table = self.vectors(rows).astype("<f4") if written else None
                for place, row in enumerate(rows.tolist()):
                    node = self.graph.node(row)
                    content = [own, node.id, node.title, node.text, node.type, node.metadata, node.origin]
                    digest = blake2b(json.dumps([*content, blank is not None and bool(blank[row])]).encode(), digest_size=16)
                    part = slice(self.ends[row], self.ends[row + 1])
                    # Words may be of other texts than the node's.
                    words = zip(self.terms[self.numbers[part]].tolist(), self.counts[part].tolist(), strict=True)
                    digest.update(json.dumps(sorted(words)).encode())
                    digest.update(b"" if table is None else table[place].tobytes())
                    found.append(digest.digest())
                bar.update(len(rows))
        return found

    def node(self, row: int) -> tuple[Any, ...]:
        """Return the columns of a node that its content determines."""
        node, blank = self.graph.node(row), blank_nodes(self.graph)
        metadata = node.metadata if blank is None or not bool(blank[row]) else {**node.metadata, BLANK: True}
        texts = (node.id, node.title, node.type, node.text)
        keys = (node.title.strip().casefold(), name_key(node.title or node.id))
        kept = (json.dumps(metadata, ensure_ascii=False), json.dumps(node.origin, ensure_ascii=False))
        return (*map(encoded, texts), *kept, *map(encoded, keys), filter_fields(metadata), date_fields(metadata))


class _Held:
    """What the database has under a name, which no other writer changes until the end of the transaction."""

    def __init__(self, writing: Writing, name: str) -> None:
        writing.run("INSERT INTO {corpora} (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING", name=name)
        (found,) = writing.run(
            "SELECT corpus, next_node, dimension, embedding, settings, traits FROM {corpora} WHERE name = %(name)s FOR UPDATE",
            name=name,
        ).fetchall()
        self.corpus, self.next, self.dimension, self.embedding, self.settings, self.traits = found
        rows = writing.run(
            "SELECT id, node, digest, position, degree FROM {nodes} WHERE corpus = %(corpus)s", corpus=self.corpus
        ).fetchall()
        self.nodes = {row[0]: row[1:] for row in rows}

    def check(self, rows: _Rows, where: str, replace: bool) -> None:
        """Raise an error if an index is of another model, or of other documents."""
        own = set(map(encoded, rows.graph.ids))
        check_loss(where, len(self.nodes), len(self.nodes.keys() - own), replace)
        if replace or not self.nodes:
            return
        way = "Give another name to write this index beside it, or pass replace=True to write it in its place."
        if rows.dimension != self.dimension:
            raise DimensionMismatchError(
                f"{where} has vectors of width {self.dimension}, and this index of width {rows.dimension}. {way}"
            )
        named = rows.index.embedding_name
        if self.embedding and named and encoded(named) != self.embedding:
            raise InvalidArgumentError(f"{where} has vectors of the model {self.embedding!r}, and this index of {named!r}. {way}")


def _write(writing: Writing, held: _Held, rows: _Rows, show_progress: bool) -> Written:
    graph, corpus = rows.graph, held.corpus
    ids, digests = [encoded(name) for name in graph.ids], rows.contents(show_progress)
    degrees = graph.degree.tolist()
    numbers, changed, moved, following = np.empty(len(ids), np.int64), list[int](), list[tuple[int, int, int]](), held.next
    for row, (name, digest) in enumerate(zip(ids, digests, strict=True)):
        node, before, *place = held.nodes.get(name, (following, None, None, None))
        numbers[row] = node
        if name not in held.nodes:
            following += 1
        if before is None or bytes(before) != digest:
            changed.append(row)
        elif place != [row, degrees[row]]:
            moved.append((node, row, degrees[row]))
    own = set(ids)
    gone = [found[0] for name, found in held.nodes.items() if name not in own]
    old = gone + [int(numbers[row]) for row in changed if ids[row] in held.nodes]
    if old:
        _delete(writing, corpus, old)
    if held.dimension not in (0, rows.dimension):
        _drop_vector_index(writing, corpus)
    if changed:
        _insert(writing, corpus, rows, np.array(changed), numbers, digests, degrees, show_progress)
    if old or changed:
        writing.run("DELETE FROM {terms} WHERE corpus = %(corpus)s AND nodes = 0", corpus=corpus)
    if moved:
        _move(writing, corpus, moved)
    nodes = Changes(len(changed), len(moved), len(gone))
    edges = _write_edges(writing, corpus, graph, numbers)
    traits = traits_of(rows.index)
    if sum(nodes) or sum(edges) or (rows.kept, traits) != (held.settings, held.traits) or rows.dimension != held.dimension:
        writing.run(
            "UPDATE {corpora} SET version = version + 1, nodes = %(nodes)s, length = %(length)s, next_node = %(next)s, "
            "dimension = %(dimension)s, embedding = %(embedding)s, settings = %(settings)s, traits = %(traits)s "
            "WHERE corpus = %(corpus)s",
            corpus=corpus,
            nodes=len(ids),
            length=int(rows.lengths.sum()),
            next=following,
            dimension=rows.dimension,
            embedding=encoded(rows.index.embedding_name or held.embedding),
            settings=json.dumps(rows.kept),
            traits=json.dumps(traits),
        )
    return Written(nodes, edges)


def _drop_vector_index(writing: Writing, corpus: int) -> None:
    """Drop the HNSW index of vectors of another width, if there is one."""
    name = vector_index(corpus)
    place = f"{writing.tables['schema']}.{name}"
    ((found,),) = writing.run("SELECT to_regclass(%(place)s) IS NOT NULL", place=place).fetchall()
    if found:
        writing.run(f"DROP INDEX {{schema}}.{name}")
        logger.warning("The HNSW index of vectors was of another width and is dropped; call create_vector_index again.")


def _delete(writing: Writing, corpus: int, nodes: list[int]) -> None:
    """Delete nodes with their words and vectors; edges are compared later."""
    given: dict[str, Any] = {"corpus": corpus, "nodes": nodes}
    writing.run(
        "WITH old AS (DELETE FROM {words} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s) RETURNING term), "
        "counted AS (SELECT term, count(*) AS nodes FROM old GROUP BY term) "
        "UPDATE {terms} t SET nodes = t.nodes - c.nodes FROM counted c WHERE t.corpus = %(corpus)s AND t.term = c.term",
        **given,
    )
    for table in ("vectors", "nodes"):
        writing.run(f"DELETE FROM {{{table}}} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s)", **given)


def _insert(
    writing: Writing,
    corpus: int,
    rows: _Rows,
    changed: np.ndarray,
    numbers: np.ndarray,
    digests: Sequence[bytes],
    degrees: Sequence[int],
    show_progress: bool,
) -> None:
    """Write nodes with their words and vectors."""

    def nodes() -> Iterator[Sequence[Any]]:
        with progress_bar(total=len(changed), desc="writing nodes", unit="node", disable=not show_progress) as bar:
            for row in changed.tolist():
                own = (degrees[row], int(rows.lengths[row]), digests[row])
                yield (corpus, int(numbers[row]), row, *rows.node(row), *own)
                bar.update()

    columns = "id, title, type, text, metadata, origin, title_key, name_key, fields, dates, degree, length, digest"
    writing.copy(f"{{nodes}} (corpus, node, position, {columns})", nodes())
    # Of all words those of changed nodes, and how many of these have each.
    new = np.zeros(len(rows.graph), bool)
    new[changed] = True
    kept = np.flatnonzero(new[rows.owners])
    _write_words(writing, corpus, rows, kept, numbers)
    used, counts = np.unique(rows.numbers[kept], return_counts=True)
    writing.run('CREATE TEMPORARY TABLE new_terms (term text COLLATE "C", nodes integer) ON COMMIT DROP')
    writing.copy("new_terms (term, nodes)", zip(rows.terms[used].tolist(), counts.tolist(), strict=True))
    writing.run(
        "INSERT INTO {terms} AS t (corpus, term, nodes) SELECT %(corpus)s, term, nodes FROM new_terms "
        "ON CONFLICT (corpus, term) DO UPDATE SET nodes = t.nodes + excluded.nodes",
        corpus=corpus,
    )
    if rows.dense is not None:
        whole = changed[~rows.bare[changed]]
        tell_bare(rows.dense, rows.graph.ids)
    if rows.dense is not None and rows.table is None:
        writing.copy_blocks("{vectors} (corpus, node, vector)", _vector_blocks(corpus, rows, whole, numbers), "binary")


def _check_table(writing: Writing, corpus: int, rows: _Rows, table: VectorTable, where: str) -> None:
    """Raise InvalidArgumentError if a table has not the vectors of all nodes."""
    text, given = table.columns
    columns = TableColumns(table, writing.run(text, **given).fetchall(), where)
    ((missing, first),) = writing.run(columns.absent, corpus=corpus, **columns.parameters).fetchall()
    if missing:
        raise InvalidArgumentError(
            f"{missing:,} of {len(rows.graph):,} nodes, such as {shown(decoded(first))}, have no row with a vector in the table "
            f"{columns.shown} of {where}. If it is the database of the store, the rows were deleted since the index was built: "
            "read the store again."
        )


def _write_words(writing: Writing, corpus: int, rows: _Rows, kept: np.ndarray, numbers: np.ndarray) -> None:
    # As COPY reads text.
    written = np.array([_escaped(term) for term in rows.terms], object)

    def blocks() -> Iterator[bytes]:
        for start in range(0, len(kept), _BLOCK):
            part = kept[start : start + _BLOCK]
            owners = rows.owners[part]
            columns = numbers[owners], written[rows.numbers[part]], rows.counts[part], rows.lengths[owners]
            lines = (
                f"{corpus}\t{node}\t{term}\t{count}\t{length}\n"
                for node, term, count, length in zip(*(c.tolist() for c in columns), strict=True)
            )
            yield "".join(lines).encode()

    writing.copy_blocks("{words} (corpus, node, term, count, length)", blocks())


def _escaped(text: str) -> str:
    for character, code in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, code)
    return text


def _vector_blocks(corpus: int, rows: _Rows, whole: np.ndarray, numbers: np.ndarray) -> Iterator[bytes]:
    """Yield the rows of vectors in the binary form of COPY, and of pgvector: width, nothing, and the numbers."""
    yield b"PGCOPY\n\xff\r\n\x00" + bytes(8)
    width = rows.dimension
    integer = [("size", ">i4"), ("value", ">i4")]
    form = np.dtype(
        [("fields", ">i2"), ("corpus", integer), ("node", integer), ("size", ">i4"), ("width", ">i2"), ("nothing", ">i2")]
        + [("numbers", ">f4", (width,))]
    )
    for start in range(0, len(whole), _BLOCK):
        part = whole[start : start + _BLOCK]
        block = np.zeros(len(part), form)
        block["fields"], block["size"], block["width"] = 3, 4 + 4 * width, width
        for name, value in (("corpus", corpus), ("node", numbers[part])):
            block[name]["size"], block[name]["value"] = 4, value
        block["numbers"] = rows.vectors(part)
        yield block.tobytes()
    yield b"\xff\xff"


def _move(writing: Writing, corpus: int, moved: Sequence[tuple[int, int, int]]) -> None:
    """Write the places and degrees of nodes with the same contents."""
    writing.run("CREATE TEMPORARY TABLE moved (node integer, position integer, degree integer) ON COMMIT DROP")
    writing.copy("moved (node, position, degree)", iter(moved))
    writing.run(
        "UPDATE {nodes} n SET position = m.position, degree = m.degree FROM moved m "
        "WHERE n.corpus = %(corpus)s AND n.node = m.node",
        corpus=corpus,
    )


_SAME = "o.corpus = %(corpus)s AND o.source = n.source AND o.target = n.target AND o.relation = n.relation AND o.copy = n.copy"


def _write_edges(writing: Writing, corpus: int, graph: CorpusGraph, numbers: np.ndarray) -> Changes:
    """Write the edges that are missing or differ, and delete others; the same edge is of the same ends, relation and number."""
    columns = "source, target, relation, copy, position, weight, text"
    writing.run(
        'CREATE TEMPORARY TABLE new_edges (source integer, target integer, relation text COLLATE "C", copy integer, '
        'position integer, weight double precision, text text COLLATE "C") ON COMMIT DROP'
    )
    writing.copy(f"new_edges ({columns})", _edge_rows(graph, numbers))
    writing.run("CREATE INDEX ON new_edges (source, target)")
    writing.run("ANALYZE new_edges")
    deleted = writing.run(
        f"DELETE FROM {{edges}} o WHERE o.corpus = %(corpus)s AND NOT EXISTS (SELECT FROM new_edges n WHERE {_SAME})", corpus=corpus
    ).rowcount
    ((changed, moved),) = writing.run(
        "WITH differing AS (SELECT o.ctid AS place, n.*, (o.weight, o.text) IS DISTINCT FROM (n.weight, n.text) AS changed "
        f"FROM {{edges}} o JOIN new_edges n ON {_SAME} "
        "WHERE (o.position, o.weight, o.text) IS DISTINCT FROM (n.position, n.weight, n.text)), "
        "written AS (UPDATE {edges} o SET position = d.position, weight = d.weight, text = d.text FROM differing d "
        "WHERE o.ctid = d.place RETURNING d.changed) "
        "SELECT count(*) FILTER (WHERE changed), count(*) FILTER (WHERE NOT changed) FROM written",
        corpus=corpus,
    ).fetchall()
    added = writing.run(
        f"INSERT INTO {{edges}} (corpus, {columns}) SELECT %(corpus)s, {columns} FROM new_edges n "
        f"WHERE NOT EXISTS (SELECT FROM {{edges}} o WHERE {_SAME})",
        corpus=corpus,
    ).rowcount
    return Changes(added + changed, moved, deleted)


def _edge_rows(graph: CorpusGraph, numbers: np.ndarray) -> Iterator[Sequence[Any]]:
    copies, names = Counter[tuple[int, int, str]](), [encoded(name) for name in graph.relation_names]
    ends = [numbers[column.cpu().numpy()].tolist() for column in (graph.sources, graph.targets)]
    texts = map(encoded, graph.edge_texts or repeat("", graph.num_edges))
    rows = zip(*ends, graph.relations.tolist(), graph.weights.tolist(), texts, strict=True)
    for position, (source, target, relation, weight, text) in enumerate(rows):
        key = (source, target, names[relation])
        yield (*key, copies[key], position, weight, text)
        copies[key] += 1


def _analyse(database: PostgresDatabase) -> None:
    """Make statistics for the planner anew; a user who may not do that leaves it to the server."""
    for table in ("nodes", "edges", "words", "terms", "vectors"):
        database.read((f"ANALYZE {{{table}}}", {}))
