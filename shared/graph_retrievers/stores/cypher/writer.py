"""Write a corpus graph into a database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.blank import BLANK, blank_nodes
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.vectors import check_vectors
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.properties import ORIGIN, field_properties, further_properties, warn_of_fields
from graph_retrievers.stores.cypher.schema import GraphSchema, quoted
from graph_retrievers.stores.remote.pages import name_key

__all__ = ["create_vector_index", "index_names", "name_key", "prepare", "write_graph"]

# Most characters of an id: an entry of an index of Neo4j has at most 8 KB.
_LONGEST = 2000
# Most characters of texts in a query: a database holds all of a transaction in memory.
_CHARACTERS = 10_000_000


def write_graph(
    database: CypherDatabase,
    graph: CorpusGraph | GraphIndex,
    vectors: Any = None,
    *,
    prune: bool = False,
    batch_size: int = 1000,
    show_progress: bool = False,
) -> tuple[Changes, Changes]:
    """Write a corpus graph into a database, in batches; a later call writes only changes.

    Parameters
    ----------
    database : CypherDatabase
        Its schema names labels and properties.
    graph : CorpusGraph or GraphIndex
        The vectors of an index are written too.
    vectors : array-like, shape [N, d], optional
        Vectors of the nodes. A node with a row of zeros gets no vector.
    prune : bool, default False
        Whether to delete the nodes of the label, and the relationships of the type between them, that are not in the graph. Every
        node of the label must have been written by this function.
    batch_size : int, default 1000
        Nodes or relationships per query.
    show_progress : bool, default False

    Returns
    -------
    nodes, edges : Changes
        Numbers of those written, moved and deleted; relationships of deleted nodes are not counted.

    Raises
    ------
    InvalidArgumentError
        If the schema has no relationship type, an id has more than 2,000 characters, or, with `prune`, a node was not written by
        this function.
    DatabaseError
        If the database fails. Batches written before remain; a repeated call does not write them again.

    Notes
    -----
    A uniqueness constraint on the id and indexes on name and position are created first. Nodes are merged by id, relationships by
    ends, relation and number among equal rows (property ``copy``). A node has a digest of what was written, by which the next
    write skips it; if only its position or degree changed, only these are written. Without `prune`, other nodes and relationships
    of the database are not changed. Weights and texts of edges become the properties ``weight`` and ``text``, which spreading
    activation does not read.

    Metadata is written as JSON, and every field that a property can store also becomes a separate property, for filters (see
    :func:`~graph_retrievers.stores.cypher.properties.property_value`): a field inside mappings under its path, such as
    "metadata_a.b", and dates once more as instants, such as "metadata_day:instant". A logged warning names the fields whose names
    cannot be part of a property's name.
    """
    if isinstance(graph, GraphIndex):
        dense = graph.signals.get("dense")
        vectors = dense.vectors if vectors is None and isinstance(dense, DenseIndex) else vectors
        graph = graph.graph
    size = positive("batch_size", batch_size)
    table = check_vectors(vectors, len(graph)).cpu() if vectors is not None else None
    check_writable(database.schema, graph)
    absent_ids = absent_nodes(database, graph, size)[1] if prune else None
    return write_rows(database, graph, table, absent_ids, size, show_progress)


def check_writable(schema: GraphSchema, graph: CorpusGraph) -> None:
    """Raise InvalidArgumentError if a graph cannot be written."""
    if schema.relationship is None:
        raise InvalidArgumentError("The schema names no relationship type, so relationships cannot be written; name one.")
    if name := next((node for node in graph.ids if len(node) > _LONGEST), None):
        raise InvalidArgumentError(
            f"The id {shown(name)}... has {len(name):,} characters; the index of a database takes at most {_LONGEST:,}: shorten it."
        )


def absent_nodes(database: CypherDatabase, graph: CorpusGraph, batch_size: int = 1000) -> tuple[int, list[str]]:
    """Return the number of nodes with the label, and the ids of those that are not in a graph."""
    names, absent_ids = database.schema.names(), list[str]()
    # Nodes of others may have positions too, but not a digest as well.
    count = (
        "MATCH (n:{label}) RETURN count(n) AS nodes, "
        "sum(CASE WHEN n.{position} IS NULL OR n.{digest} IS NULL THEN 1 ELSE 0 END) AS others, max(n.{position}) AS last"
    )
    (row,) = database.read(count.format(**names))
    if row["others"]:
        raise InvalidArgumentError(
            f"{row['others']:,} of the {row['nodes']:,} nodes with the label {database.schema.label!r} were not "
            "written by write_graph, and would be deleted; choose another label: GraphSchema(label=...)."
        )
    # Each position is looked up in the index; a condition of two bounds would read all nodes.
    text = "UNWIND range($first, $last) AS place MATCH (n:{label}) WHERE n.{position} = place RETURN n.{id} AS id".format(**names)
    for first in range(0, -1 if row["last"] is None else row["last"] + 1, batch_size):
        rows = database.read(text, first=first, last=first + batch_size - 1)
        absent_ids += [str(node["id"]) for node in rows if node["id"] not in graph]
    return row["nodes"], absent_ids


def write_rows(
    database: CypherDatabase,
    graph: CorpusGraph,
    table: Tensor | None,
    ids: Sequence[str] | None,
    size: int,
    show_progress: bool,
    check: Callable[[], None] = lambda: None,
) -> tuple[Changes, Changes]:
    """Write the parts of a graph that are missing in the database, and delete the nodes `ids`; None keeps nodes outside the graph.

    `check` is called before each batch, and can end the write by an error.
    """
    names = database.schema.names()
    prepare(database)
    _make_index(database, "INDEX", database.schema.position, "ON (n.{position})")
    warn_of_fields(database.schema, graph.metadata)
    for start in range(0, len(ids or ()), size):
        check()
        text = "UNWIND $ids AS id MATCH (n:{label}) WHERE n.{id} = id DETACH DELETE n".format(**names)
        database.write(text, ids=list(ids or ())[start : start + size])
    nodes = _write_nodes(database, graph, table, size, show_progress, check)
    edges = _write_edges(database, graph, ids is not None, size, show_progress, check)
    return nodes._replace(deleted=len(ids or ())), edges


def _write_nodes(
    database: CypherDatabase, graph: CorpusGraph, table: Tensor | None, size: int, show_progress: bool, check: Callable[[], None]
) -> Changes:
    schema, names, writes, moves = database.schema, database.schema.names(), 0, 0
    for rows in _batches(graph.texts, size, "writing nodes", show_progress):
        check()
        batch = [_node_row(schema, graph, row, table) for row in rows]
        digests = [{"id": row["id"], "digest": row["digest"]} for row in batch]
        old_rows = {row["id"]: row for row in database.read(_STATES.format(**names), rows=digests)}
        new_rows = [row for row in batch if row["id"] not in old_rows or not old_rows[row["id"]]["same"]]
        metadata = {name: row["metadata"] for name, row in old_rows.items()}
        for row in new_rows:
            row["fields"] = field_properties(schema, metadata.get(row["id"]), _fields(graph, row["position"]))
        moved_rows = [
            {name: row[name] for name in ("id", "position", "degree")}
            for row in batch
            if row["id"] in old_rows
            and old_rows[row["id"]]["same"]
            and any(old_rows[row["id"]][name] != row[name] for name in ("position", "degree"))
        ]
        if new_rows:
            database.write(_NODES.format(**names), rows=new_rows)
        if moved_rows:
            database.write(_PLACES.format(**names), rows=moved_rows)
        writes, moves = writes + len(new_rows), moves + len(moved_rows)
    return Changes(writes, moves)


def _node_row(schema: GraphSchema, graph: CorpusGraph, row: int, table: Tensor | None) -> dict[str, Any]:
    """Return what is written of a node, with its digest, which neither its position nor its degree is part of."""
    node, vector = graph.node(row), None if table is None or not bool(table[row].any()) else table[row]
    content = {
        "id": node.id,
        "name": node.title,
        "text": node.text,
        "type": node.type,
        "metadata": _metadata_text(replace(node, metadata=_fields(graph, row))),
        "key": name_key(node.name),
    }
    digest = blake2b(json.dumps([repr(schema), *content.values()]).encode(), digest_size=16)
    if properties := further_properties(schema, node.metadata):
        # Nodes without any keep the digests of earlier versions.
        digest.update(json.dumps(properties).encode())
    digest.update(b"" if vector is None else vector.numpy().tobytes())
    values = None if vector is None else vector.tolist()
    return {**content, "position": row, "degree": int(graph.degree[row]), "vector": values, "digest": digest.hexdigest()}


def _write_edges(
    database: CypherDatabase, graph: CorpusGraph, prune: bool, size: int, show_progress: bool, check: Callable[[], None]
) -> Changes:
    names, ends = database.schema.names(), [column.cpu().numpy() for column in (graph.sources, graph.targets)]
    # A database looks for a relationship among those of the node that a pattern names first: the end with fewer of them, so that
    # hubs are not read.
    degrees = np.bincount(np.concatenate(ends), minlength=len(graph))
    order = np.argsort(ends[0], kind="stable")
    starts = np.searchsorted(ends[0][order], np.arange(len(graph) + 1))
    counts, start = Counter[str](), 0
    with progress_bar(total=len(order), desc="writing relationships", unit="row", disable=not show_progress) as bar:
        while start < len(graph):
            check()
            # A batch has as many nodes, and edges that leave them, as it takes; all edges that leave a node are in one batch.
            stop = min(max(int(np.searchsorted(starts, starts[start] + size, "right")) - 1, start + 1), start + size, len(graph))
            edge_rows = _edge_rows(graph, order[starts[start] : starts[stop]].tolist())
            old_rows = {
                (row["s"], row["t"], row["relation"], row["copy"]): (row["position"], row["weight"], row["text"])
                for row in database.read(_LEAVING.format(**names), ids=graph.ids[start:stop])
            }
            new_rows = {
                key: row for key, row in edge_rows.items() if old_rows.get(key) != (row["position"], row["weight"], row["text"])
            }
            absent_rows = [
                dict(zip(("s", "t", "relation", "copy"), key, strict=True)) for key in old_rows if prune and key not in edge_rows
            ]
            rows = list(new_rows.values())
            for part in (rows[place : place + size] for place in range(0, len(rows), size)):
                for pattern, backward in (("(s)-[{e}]->(t)", False), ("(t)<-[{e}]-(s)", True)):
                    batch = [row for row in part if (degrees[graph.row(row["t"])] < degrees[graph.row(row["s"])]) == backward]
                    if batch:
                        text = _RELATIONSHIPS.replace("{pattern}", pattern.format(e=_RELATIONSHIP))
                        database.write(text.format(**names), rows=batch)
            for part in (absent_rows[place : place + size] for place in range(0, len(absent_rows), size)):
                database.write(_LESS.format(**names), rows=part)
            moves = sum(key in old_rows and old_rows[key][1:] == (row["weight"], row["text"]) for key, row in new_rows.items())
            counts.update(written=len(new_rows) - moves, moved=moves, deleted=len(absent_rows))
            bar.update(int(starts[stop] - starts[start]))
            start = stop
    return Changes(**counts)


def _edge_rows(graph: CorpusGraph, places: list[int]) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """Return what is written of some edges by their ends, relation and number among equal ones, which are all among them."""
    copies, rows = Counter[tuple[str, str, str]](), dict[tuple[str, str, str, int], dict[str, Any]]()
    for position, edge in zip(places, graph.edges(places), strict=True):
        key = (edge.source, edge.target, edge.relation)
        row = {**dict(zip(("s", "t", "relation"), key, strict=True)), "copy": copies[key], "position": position}
        rows[(*key, copies[key])] = {**row, "weight": edge.weight, "text": edge.text or None}
        copies[key] += 1
    return rows


_STATES = """\
UNWIND $rows AS row
MATCH (n:{label}) WHERE n.{id} = row.id
RETURN row.id AS id, coalesce(n.{digest} = row.digest, false) AS same, n.{position} AS position, n.{degree} AS degree,
    CASE WHEN n.{digest} = row.digest THEN NULL ELSE n.{metadata} END AS metadata"""

_NODES = """\
UNWIND $rows AS row
MERGE (n:{label} {{{id}: row.id}})
SET n.{name} = row.name, n.{text} = row.text, n.{type} = row.type, n.{metadata} = row.metadata,
    n.{name_key} = row.key, n.{position} = row.position, n.{degree} = row.degree,
    n.{embedding} = row.vector, n.{digest} = row.digest,
    n += row.fields"""

_PLACES = """\
UNWIND $rows AS row
MATCH (n:{label}) WHERE n.{id} = row.id
SET n.{position} = row.position, n.{degree} = row.degree"""

# Relationships of others have no number.
_LEAVING = """\
UNWIND $ids AS wanted
MATCH (s:{label})-[e{edge}]->(t:{label}) WHERE s.{id} = wanted
RETURN wanted AS s, t.{id} AS t, coalesce(e.{relation}, '') AS relation, coalesce(e.`copy`, -1) AS copy,
    e.{position} AS position, e.`weight` AS weight, e.`text` AS text"""

_LESS = """\
UNWIND $rows AS row
MATCH (s:{label})-[e{edge}]->(t:{label}) WHERE s.{id} = row.s AND t.{id} = row.t
    AND coalesce(e.{relation}, '') = row.relation AND coalesce(e.`copy`, -1) = row.copy
DELETE e"""

_RELATIONSHIP = "e{edge} {{{relation}: row.relation, `copy`: row.copy}}"
# Ids are compared in WHERE: in a pattern, ArcadeDB would read the value "$rows" of a property as the parameter.
_RELATIONSHIPS = """\
UNWIND $rows AS row
MATCH (s:{label}) WHERE s.{id} = row.s
MATCH (t:{label}) WHERE t.{id} = row.t
MERGE {pattern}
SET e.{position} = row.position, e.`weight` = row.weight, e.`text` = row.text"""


def prepare(database: CypherDatabase) -> None:
    """Create the constraint on ids and the index on names if they do not exist."""
    _make_index(database, "CONSTRAINT", database.schema.id, "REQUIRE n.{id} IS UNIQUE")
    _make_index(database, "INDEX", database.schema.name_key, "ON (n.{name_key})")


def _make_index(database: CypherDatabase, kind: str, prop: str, ending: str) -> None:
    title = f"graph_retrievers {database.schema.label} {prop}"
    if len(title) > 128:
        # If it were cut, two indexes could have the same name.
        title = f"graph_retrievers {blake2b(title.encode(), digest_size=16).hexdigest()}"
    database.write(f"CREATE {kind} {quoted(title)} IF NOT EXISTS FOR (n:{{label}}) {ending}".format(**database.schema.names()))


def index_names(database: CypherDatabase, *, batch_size: int = 10_000, show_progress: bool = False) -> int:
    """Write the ``name_key`` of every node of a graph that was not written by :func:`write_graph`; return the number of nodes.

    Ids must be of one type. The arguments are those of :func:`write_graph`.
    """
    names, size = database.schema.names(), positive("batch_size", batch_size)
    prepare(database)
    where, last_id, count = "MATCH (n:{label}) WHERE n.{id} IS NOT NULL ", None, 0
    with progress_bar(desc="indexing names", unit="node", disable=not show_progress) as bar:
        while True:
            text = where + "RETURN n.{id} AS id, n.{name} AS name ORDER BY id LIMIT $size"
            rows = database.read(text.format(**names), size=size, **({} if last_id is None else {"last": last_id}))
            if not rows:
                return count
            keys = [{"id": row["id"], "key": name_key(str(row["name"] or row["id"]))} for row in rows]
            database.write(
                "UNWIND $rows AS row MATCH (n:{label}) WHERE n.{id} = row.id SET n.{name_key} = row.key".format(**names), rows=keys
            )
            where, last_id, count = "MATCH (n:{label}) WHERE n.{id} > $last ", rows[-1]["id"], count + len(rows)
            bar.update(len(rows))


def create_vector_index(database: CypherDatabase, name: str, dimensions: int) -> None:
    """Create a vector index with cosine similarity on the nodes' vectors, unless one with that name exists.

    Parameters
    ----------
    database : CypherDatabase
    name : str
        Name of the index, the ``vector_index=`` of a retriever.
    dimensions : int
        Width of the vectors.

    Raises
    ------
    MissingDatabaseFeatureError
        If the database does not support Neo4j's statement. ArcadeDB creates such an index only by SQL over HTTP; the message
        contains the statement. A retriever without an index compares all vectors exactly.
    """
    names, schema = database.schema.names(), database.schema
    statement = (
        f"CREATE VECTOR INDEX {quoted(name)} IF NOT EXISTS FOR (n:{names['label']}) ON (n.{names['embedding']}) "
        f"OPTIONS {{indexConfig: {{`vector.dimensions`: {positive('dimensions', dimensions)}, "
        "`vector.similarity_function`: 'cosine'}}}"
    )
    place = f"`{schema.label}`", f"`{schema.embedding}`"
    database.create_index(
        statement,
        "vector",
        f"CREATE PROPERTY {place[0]}.{place[1]} IF NOT EXISTS ARRAY_OF_FLOATS; CREATE INDEX IF NOT EXISTS ON {place[0]} "
        f'({place[1]}) LSM_VECTOR METADATA {{"dimensions": {dimensions}, "similarity": "COSINE"}}; and pass '
        f"vector_index='{schema.label}[{schema.embedding}]'. Or pass none",
    )


def _fields(graph: CorpusGraph, row: int) -> Mapping[str, Any]:
    """Return the metadata of a node, with a mark if it has nothing to read."""
    blank = blank_nodes(graph)
    return graph.metadata[row] if blank is None or not bool(blank[row]) else {**graph.metadata[row], BLANK: True}


def _metadata_text(node: Node) -> str | None:
    fields = {**node.metadata, **({ORIGIN: node.origin} if node.origin else {})}
    return json.dumps(fields, ensure_ascii=False, default=str) if fields else None


def _batches(texts: Sequence[str], size: int, description: str, show_progress: bool) -> Iterator[range]:
    """Yield the rows of some texts in parts that a query takes."""
    start = 0
    with progress_bar(total=len(texts), desc=description, unit="row", disable=not show_progress) as bar:
        while start < len(texts):
            stop, room = start + 1, _CHARACTERS - len(texts[start])
            while stop < min(start + size, len(texts)) and len(texts[stop]) <= room:
                stop, room = stop + 1, room - len(texts[stop])
            yield range(start, stop)
            bar.update(stop - start)
            start = stop
