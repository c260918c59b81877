"""Writing a corpus graph into a database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.errors import DatabaseError, InvalidArgumentError, MissingDatabaseFeatureError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import check_vectors
from graph_retrievers.stores.cypher.answers import ORIGIN
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.properties import field_properties, warn_of_fields
from graph_retrievers.stores.cypher.schema import quoted
from graph_retrievers.stores.remote.pages import name_key

__all__ = ["create_vector_index", "index_names", "name_key", "write_graph"]


def write_graph(
    database: CypherDatabase,
    graph: CorpusGraph | GraphIndex,
    vectors: Any = None,
    *,
    batch_size: int = 1000,
    show_progress: bool = False,
) -> None:
    """Write a corpus graph into a database, in batches; writing it again updates it.

    Parameters
    ----------
    database : CypherDatabase
        Its schema names labels and properties.
    graph : CorpusGraph or GraphIndex
        The vectors of an index are written too.
    vectors : array-like, shape [N, d], optional
        Vectors of the nodes. A node with a row of zeros gets no vector.
    batch_size : int, default 1000
        Nodes or relationships a query.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If the schema has no relationship type.
    DatabaseError
        If the database fails. Batches written before remain; write again.

    Notes
    -----
    A uniqueness constraint on the id and indexes on name and position are created first. Nodes are merged by id, relationships by
    ends, relation and number among equal rows (property ``copy``). Other nodes and relationships of the database are not
    changed. Weights and texts of edges become the properties ``weight`` and ``text``, which spreading activation does not read.

    Metadata is written as JSON, and every field that a property can hold also becomes a property of its own, for filters (see
    ``field_prefix`` of :class:`~graph_retrievers.stores.cypher.schema.GraphSchema`). A warning names the fields whose names cannot
    be part of a property's name.
    """
    schema = database.schema
    if schema.relationship is None:
        raise InvalidArgumentError("The schema names no relationship type, so relationships cannot be written; name one.")
    if isinstance(graph, GraphIndex):
        held = graph.signals.get("dense")
        vectors = held.vectors if vectors is None and isinstance(held, DenseIndex) else vectors
        graph = graph.graph
    size = positive("batch_size", batch_size)
    table = check_vectors(vectors, len(graph)).cpu() if vectors is not None else None
    names = schema.names()
    prepare(database)
    _make_index(database, "INDEX", schema.position, "ON (n.{position})")
    warn_of_fields(schema, graph.metadata)
    copies: Counter[tuple[str, ...]] = Counter()
    edges = []
    for position, edge in enumerate(graph.edges()):
        key = {"s": edge.source, "t": edge.target, "relation": edge.relation}
        copy = copies[tuple(key.values())]
        edges.append({**key, "copy": copy, "position": position, "weight": edge.weight, "text": edge.text or None})
        copies[tuple(key.values())] += 1
    for rows in _batches(range(len(graph)), size, "writing nodes", show_progress):
        properties = field_properties(database, [graph.ids[row] for row in rows], [graph.metadata[row] for row in rows])
        batch = [
            {
                "id": node.id,
                "name": node.title,
                "text": node.text,
                "type": node.type,
                "metadata": _metadata_text(node),
                "key": name_key(node.title or node.id),
                "position": row,
                "degree": int(graph.degree[row]),
                "vector": table[row].tolist() if table is not None and bool(table[row].any()) else None,
                "fields": own,
            }
            for row, node, own in zip(rows, map(graph.node, rows), properties, strict=True)
        ]
        database.write(_NODES.format(**names), rows=batch)
    # A database looks for a relationship among those of the first node it is told: the one with fewer, so that hubs are not read.
    degrees = Counter(end for edge in edges for end in (edge["s"], edge["t"]))
    for rows in _batches(edges, size, "writing relationships", show_progress):
        for merged, backward in (("(s)-[{e}]->(t)", False), ("(t)<-[{e}]-(s)", True)):
            part = [row for row in rows if (degrees[row["t"]] < degrees[row["s"]]) == backward]
            if part:
                text = _RELATIONSHIPS.replace("{pattern}", merged.format(e=_RELATIONSHIP))
                database.write(text.format(**names), rows=part)


_NODES = """\
UNWIND $rows AS row
MERGE (n:{label} {{{id}: row.id}})
SET n.{name} = row.name, n.{text} = row.text, n.{type} = row.type, n.{metadata} = row.metadata,
    n.{name_key} = row.key, n.{position} = row.position, n.{degree} = row.degree,
    n.{embedding} = row.vector,
    n += row.fields"""

_RELATIONSHIP = "e{edge} {{{relation}: row.relation, `copy`: row.copy}}"
# As a property in the pattern, ArcadeDB would read the value "$rows" as the parameter.
_RELATIONSHIPS = """\
UNWIND $rows AS row
MATCH (s:{label}) WHERE s.{id} = row.s
MATCH (t:{label}) WHERE t.{id} = row.t
MERGE {pattern}
SET e.{position} = row.position, e.`weight` = row.weight, e.`text` = row.text"""


def prepare(database: CypherDatabase) -> None:
    """Make the constraint on ids and the index on names, where they are not there yet."""
    _make_index(database, "CONSTRAINT", database.schema.id, "REQUIRE n.{id} IS UNIQUE")
    _make_index(database, "INDEX", database.schema.name_key, "ON (n.{name_key})")


def _make_index(database: CypherDatabase, kind: str, prop: str, ending: str) -> None:
    title = quoted(f"graph_retrievers {database.schema.label} {prop}"[:128])
    database.write(f"CREATE {kind} {title} IF NOT EXISTS FOR (n:{{label}}) {ending}".format(**database.schema.names()))


def index_names(database: CypherDatabase, *, batch_size: int = 10_000, show_progress: bool = False) -> int:
    """Write the ``name_key`` of every node of a graph that was not written by :func:`write_graph`; return the number of nodes.

    Ids must be of one type. The arguments are those of :func:`write_graph`.
    """
    names, size = database.schema.names(), positive("batch_size", batch_size)
    prepare(database)
    where, last, met = "MATCH (n:{label}) WHERE n.{id} IS NOT NULL ", None, 0
    with progress_bar(desc="indexing names", unit="node", disable=not show_progress) as bar:
        while True:
            text = where + "RETURN n.{id} AS id, n.{name} AS name ORDER BY id LIMIT $size"
            rows = database.read(text.format(**names), size=size, **({} if last is None else {"last": last}))
            if not rows:
                return met
            keys = [{"id": row["id"], "key": name_key(str(row["name"] or row["id"]))} for row in rows]
            database.write(
                "UNWIND $rows AS row MATCH (n:{label}) WHERE n.{id} = row.id SET n.{name_key} = row.key".format(**names), rows=keys
            )
            where, last, met = "MATCH (n:{label}) WHERE n.{id} > $last ", rows[-1]["id"], met + len(rows)
            bar.update(len(rows))


def create_vector_index(database: CypherDatabase, name: str, dimensions: int) -> None:
    """Create a vector index with cosine similarity on the nodes' vectors, unless there is one of that name.

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
        If the database does not know Neo4j's statement. ArcadeDB creates such an index by SQL over HTTP only; the message
        contains the statement. A retriever without an index compares all vectors, exactly.
    """
    names, schema = database.schema.names(), database.schema
    statement = (
        f"CREATE VECTOR INDEX {quoted(name)} IF NOT EXISTS FOR (n:{names['label']}) ON (n.{names['embedding']}) "
        f"OPTIONS {{indexConfig: {{`vector.dimensions`: {positive('dimensions', dimensions)}, "
        "`vector.similarity_function`: 'cosine'}}}"
    )
    try:
        database.write(statement)
    except DatabaseError as error:
        if "SyntaxError" not in str(error):
            raise
        place = f"`{schema.label}`", f"`{schema.embedding}`"
        raise MissingDatabaseFeatureError(
            f"{database.uri} makes no vector index by Cypher ({error}). On ArcadeDB run this SQL: CREATE PROPERTY {place[0]}."
            f"{place[1]} IF NOT EXISTS ARRAY_OF_FLOATS; CREATE INDEX IF NOT EXISTS ON {place[0]} ({place[1]}) LSM_VECTOR METADATA "
            f'{{"dimensions": {dimensions}, "similarity": "COSINE"}}; and pass '
            f"vector_index='{schema.label}[{schema.embedding}]'. Or pass none."
        ) from error


def _metadata_text(node: Node) -> str | None:
    fields = {**node.metadata, **({ORIGIN: node.origin} if node.origin else {})}
    return json.dumps(fields, ensure_ascii=False, default=str) if fields else None


def _batches(items: Sequence[Any], size: int, description: str, show_progress: bool) -> Iterator[Sequence[Any]]:
    with progress_bar(total=len(items), desc=description, unit="row", disable=not show_progress) as bar:
        for start in range(0, len(items), size):
            part = items[start : start + size]
            yield part
            bar.update(len(part))
