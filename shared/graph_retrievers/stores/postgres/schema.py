"""The tables of an index in PostgreSQL."""

from __future__ import annotations

from graph_retrievers.errors import DatabaseError, MissingDatabaseFeatureError
from graph_retrievers.stores.postgres.database import PostgresDatabase, Writing

LAYOUT = "graph-retrievers 5"
"""Comment of the schema: the version of its tables."""

# The code with which PostgreSQL refuses a user without the right.
_NO_RIGHT = "42501"

# Texts are compared by their characters, as Python does. The columns `title_key` and `name_key` are those by which titles and names
# are found; `fields` and `dates` those that filters read, see graph_retrievers.stores.postgres.values. From what follows `digest`,
# the properties of a corpus are computed, see graph_retrievers.stores.postgres.nodes and traits.
_TABLES = """\
CREATE TABLE {corpora} (
    corpus integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    version bigint NOT NULL DEFAULT 0,
    nodes integer NOT NULL DEFAULT 0,
    length bigint NOT NULL DEFAULT 0,
    next_node integer NOT NULL DEFAULT 0,
    next_edge bigint NOT NULL DEFAULT 0,
    dimension integer NOT NULL DEFAULT 0,
    embedding text NOT NULL DEFAULT '',
    settings json,
    traits json
);
CREATE TABLE {nodes} (
    corpus integer NOT NULL,
    node integer NOT NULL,
    position integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    title text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    metadata json NOT NULL,
    origin json NOT NULL,
    title_key text COLLATE "C" NOT NULL,
    name_key text COLLATE "C" NOT NULL,
    fields jsonb NOT NULL,
    dates jsonb NOT NULL,
    degree integer NOT NULL DEFAULT 0,
    length integer NOT NULL,
    digest bytea NOT NULL,
    source text COLLATE "C" NOT NULL,
    page text COLLATE "C" NOT NULL,
    is_place boolean NOT NULL,
    silence smallint NOT NULL,
    is_name boolean NOT NULL,
    is_lower boolean NOT NULL,
    name_words smallint NOT NULL,
    linked boolean NOT NULL DEFAULT false,
    PRIMARY KEY (corpus, node),
    UNIQUE (corpus, id)
);
CREATE INDEX nodes_position ON {nodes} (corpus, position);
CREATE INDEX nodes_title ON {nodes} (corpus, left(title_key, 500));
CREATE INDEX nodes_name ON {nodes} (corpus, left(name_key, 500));
CREATE INDEX nodes_source ON {nodes} (corpus, left(source, 500));
CREATE INDEX nodes_fields ON {nodes} USING gin (fields jsonb_path_ops) WITH (fastupdate = off);
CREATE TABLE {edges} (
    corpus integer NOT NULL,
    source integer NOT NULL,
    target integer NOT NULL,
    relation text COLLATE "C" NOT NULL,
    copy integer NOT NULL,
    position bigint NOT NULL,
    weight double precision NOT NULL,
    text text COLLATE "C" NOT NULL
);
CREATE INDEX edges_source ON {edges} (corpus, source, target);
CREATE INDEX edges_target ON {edges} (corpus, target, source);
CREATE TABLE {edge_vectors} (
    corpus integer NOT NULL,
    source integer NOT NULL,
    target integer NOT NULL,
    relation text COLLATE "C" NOT NULL,
    copy integer NOT NULL,
    digest bytea NOT NULL,
    vector vector NOT NULL
);
ALTER TABLE {edge_vectors} ALTER COLUMN vector SET STORAGE MAIN;
CREATE INDEX edge_vectors_source ON {edge_vectors} (corpus, source, target);
CREATE INDEX edge_vectors_target ON {edge_vectors} (corpus, target, source);
CREATE TABLE {words} (
    corpus integer NOT NULL,
    node integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    posting bytea NOT NULL,
    PRIMARY KEY (corpus, node, term)
);
CREATE INDEX words_term ON {words} (corpus, term) INCLUDE (node, posting);
CREATE TABLE {terms} (
    corpus integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    nodes integer NOT NULL,
    PRIMARY KEY (corpus, term)
);
CREATE TABLE {vectors} (
    corpus integer NOT NULL,
    node integer NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (corpus, node)
);
ALTER TABLE {vectors} ALTER COLUMN vector SET STORAGE MAIN;
CREATE TABLE {names} (
    corpus integer NOT NULL,
    name integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    spelling text COLLATE "C" NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (corpus, name)
);
ALTER TABLE {names} ALTER COLUMN vector SET STORAGE MAIN;
CREATE INDEX names_key ON {names} (corpus, left(key, 500));
CREATE TABLE {mentions} (
    corpus integer NOT NULL,
    node integer NOT NULL,
    name integer NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (corpus, node, name)
);
CREATE INDEX mentions_name ON {mentions} (corpus, name) INCLUDE (node, count);
CREATE TABLE {sentences} (
    corpus integer NOT NULL,
    node integer NOT NULL,
    sentence integer NOT NULL,
    names integer[] NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (corpus, node, sentence)
);
ALTER TABLE {sentences} ALTER COLUMN vector SET STORAGE MAIN"""


def vector_index(corpus: int) -> str:
    """Return the name of the HNSW index of the vectors of a corpus.

    >>> vector_index(3)
    'vectors_hnsw_3'
    """
    return f"vectors_hnsw_{corpus}"


def ensure_tables(database: PostgresDatabase) -> None:
    """Create the schema with its tables, and the extension ``vector``, unless they exist; one writer does, and others wait."""
    ((exists, layout, _),) = database.read((_INSTALLED, {"schema": database.schema}))[0]
    if exists:
        check_layout(layout, database.where, database.schema)
        return
    # The transaction ends before an index is written, so that writers of different indexes do not wait for each other.
    with database.writing() as writing:
        _create_tables(writing, database.where, database.schema)


def _create_tables(writing: Writing, where: str, schema: str) -> None:
    writing.run("SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))", key=f"graph-retrievers {schema}")
    (row,) = writing.run(_INSTALLED, schema=schema).fetchall()
    if row[0]:
        check_layout(row[1], where, schema)
        return
    if not row[2]:
        _create_extension(writing, where)
    writing.run("CREATE SCHEMA IF NOT EXISTS {schema}")
    for statement in _TABLES.split(";\n"):
        writing.run(statement)
    writing.run(f"COMMENT ON SCHEMA {{schema}} IS '{LAYOUT}'")


def _create_extension(writing: Writing, where: str) -> None:
    try:
        writing.run("CREATE EXTENSION vector")
    except Exception as error:
        if getattr(error, "sqlstate", None) != _NO_RIGHT:
            raise
        reason = " ".join(str(error).split())
        raise MissingDatabaseFeatureError(
            f"{where} has no extension vector (pgvector 0.5 or later), and the user has no right to create it ({reason}). Let a "
            "superuser run CREATE EXTENSION vector in this database."
        ) from error


def check_layout(comment: str | None, where: str, schema: str) -> None:
    """Raise DatabaseError if the comment of a schema is not that of the tables that are read here."""
    if comment != LAYOUT:
        raise DatabaseError(
            f"The schema {schema!r} of {where} has tables of {comment or 'something else'!r}; expected {LAYOUT!r}. Give another "
            "schema=, and write the index there."
        )


_INSTALLED = """\
SELECT to_regclass(format('%%I.corpora', %(schema)s::text)) IS NOT NULL,
    (SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %(schema)s),
    EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"""
