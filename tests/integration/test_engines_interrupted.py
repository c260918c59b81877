"""Writes to a database and Qdrant that fail, are killed or meet another write."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from graph_retrievers.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    GraphRetrieverError,
    InvalidArgumentError,
)
from graph_retrievers.stores.cypher import CypherDatabase
from graph_retrievers.stores.engines import write_index
from graph_retrievers.stores.qdrant import QdrantWords
from graph_retrievers.stores.qdrant_points import QdrantPoints
from tests.engines import Breaking, change_pages, contents, emptied, index_of, remote_of


def test_a_write_that_failed_goes_on_where_it_stopped(database, pages, monkeypatch):
    index, options = index_of(pages), {"batch_size": 8}
    client = Breaking(monkeypatch, QdrantClient(":memory:"))
    write_index(index, database, client, "works", **options)
    whole, total = contents(database, client.client), client.count
    assert total > 20
    for at in range(1, total + 1, 2 if total < 40 else 3):
        monkeypatch.undo()
        client = Breaking(monkeypatch, emptied(database), at)
        with pytest.raises((ConnectionResetError, DatabaseUnreachableError)):
            write_index(index, database, client, "works", **options)
        nodes, edges, points, _ = contents(database, client.client)
        if at < total:
            with pytest.raises(GraphRetrieverError):
                remote_of(database, client.client)
        again = write_index(index, database, client, "works", **options)
        # What is there was not written again.
        assert [each.written for each in again] == [len(index) - len(nodes), len(whole[1]) - len(edges), len(index) - len(points)]
        assert contents(database, client.client) == whole


def test_a_change_that_failed_goes_on_where_it_stopped(database, pages, tmp_path, monkeypatch):
    before = index_of(pages)
    change_pages(pages)
    after, options = index_of(pages), {"batch_size": 8}
    fresh = QdrantClient(":memory:")
    write_index(after, database, fresh, "works", length_drift=0)
    whole = contents(database, fresh)
    for at in (2, 5, 7, 9, 12, 14, 17, 20):
        monkeypatch.undo()
        client = emptied(database)
        write_index(before, database, client, "works")
        with pytest.raises((ConnectionResetError, DatabaseUnreachableError)):
            write_index(after, database, Breaking(monkeypatch, client, at), "works", length_drift=0, **options)
        monkeypatch.undo()
        # Qdrant is marked as being filled before the database is changed; what was read before is not taken for whole.
        if at > 2:
            with pytest.raises(InvalidArgumentError, match="is being filled, or that was interrupted"):
                QdrantWords(client, "works").traits()
        write_index(after, database, client, "works", length_drift=0, **options)
        assert contents(database, client) == whole


class Meeting:
    """A client, of which the first request of points lets another write begin and end."""

    def __init__(self, client, other):
        self.client, self.other = client, other

    def __getattr__(self, name):
        if name == "upsert" and self.other is not None:
            other, self.other = self.other, None
            other()
        return getattr(self.client, name)


def test_of_two_writes_at_once_neither_is_taken_for_whole(database, client, pages):
    index = index_of(pages)
    change_pages(pages)
    other = index_of(pages)
    meeting = Meeting(client, lambda: write_index(other, database, client, "works"))
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began while this one ran, and each"):
        write_index(index, database, meeting, "works")
    with pytest.raises(InvalidArgumentError, match="is being filled"):
        remote_of(database, client)
    # The write that began last, where the other ends before it.
    first, last = (QdrantPoints(client, "works", each) for each in (index, other))
    first.begin()
    last.begin()
    for points in (first, last):
        with pytest.raises(DatabaseError, match="Another write"):
            points.finish()
    write_index(other, database, client, "works", length_drift=0)
    changed = contents(database, client)
    fresh = emptied(database)
    write_index(other, database, fresh, "works", length_drift=0)
    assert contents(database, fresh) == changed


def test_a_write_ends_before_its_next_batch_where_another_began(database, client, pages, monkeypatch):
    index, plain = index_of(pages), CypherDatabase.write
    other = []

    def write(self, text, **given):
        plain(self, text, **given)
        if "MERGE (n" in text:
            other.append(QdrantPoints(client, "works", index))
            other[-1].begin()

    monkeypatch.setattr(CypherDatabase, "write", write)
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began"):
        write_index(index, database, client, "works", batch_size=8)
    assert len(contents(database, client)[0]) == 8 and len(other) == 1
    with pytest.raises(DatabaseError, match="Another write"):
        other[0].write()


def test_a_write_that_the_database_ends_tells_another_that_began(database, client, pages, monkeypatch):
    index, plain = index_of(pages), CypherDatabase.write

    def write(self, text, **given):
        if "-[e" in text:
            other.begin()
            raise DatabaseError("a deadlock")
        return plain(self, text, **given)

    write_index(index, database, client, "works")
    other = QdrantPoints(client, "works", index)
    monkeypatch.setattr(CypherDatabase, "write", write)
    emptied(database)
    with pytest.raises(DatabaseError, match="a deadlock"):
        write_index(index, database, client, "works")
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began"):
        other.finish()
    # Alone, it goes on.
    monkeypatch.undo()
    write_index(index, database, client, "works")
    assert remote_of(database, client)


KILLED = """
import os, signal, sys
from qdrant_client import QdrantClient
from graph_retrievers.stores.cypher import CypherDatabase, GraphSchema
from graph_retrievers.stores.engines import write_index
from tests.engines import Breaking, index_of
uri, user, password, name, label, pages, place, at = sys.argv[1:]
class Patch:
    def setattr(self, owner, name, value): setattr(owner, name, value)
class Killing(Breaking):
    def call(self, method, *given, **named):
        made = method(*given, **named)
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
database = CypherDatabase(uri, (user, password), name=name, schema=GraphSchema(label=label))
write_index(index_of(pages), database, Killing(Patch(), QdrantClient(path=place), int(at)), "works", batch_size=8)
"""


def test_a_process_that_was_killed_goes_on_in_another(cypher_server, database, pages, tmp_path):
    index = index_of(pages)
    given = [cypher_server.uri, *cypher_server.auth, cypher_server.name or "", database.schema.label, str(pages)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for at in (9, 28):
        place = tmp_path / f"killed {at}"
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, *given, str(place), str(at)], env=environment, cwd=Path(__file__).parents[2]
        )
        assert ended.returncode == -signal.SIGKILL
    held = len(contents(database, QdrantClient(":memory:"))[0])
    client = QdrantClient(path=str(place))
    again = write_index(index, database, client, "works", batch_size=8)
    assert again.nodes.written == len(index) - held and again.points.written < len(index)
    written = contents(database, client)
    client.close()
    fresh = emptied(database)
    write_index(index, database, fresh, "works")
    whole = contents(database, fresh)
    assert written[:2] == whole[:2] and written[2].keys() == whole[2].keys() and written[3] == whole[3]
    assert all(written[2][node][:2] == whole[2][node][:2] for node in whole[2])
