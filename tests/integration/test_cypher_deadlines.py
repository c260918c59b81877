"""Calls to a database end in time: servers that say nothing, and hubs and questions that would take the server's memory."""

import asyncio
import socket
import threading
import time

import pytest

from graph_retrievers.errors import DatabaseError, DatabaseUnreachableError
from graph_retrievers.stores.cypher import CypherDatabase
from tests.integration.conftest import Proxy

neo4j = pytest.importorskip("neo4j")
# Far below the minutes that a driver waits by itself, far above what a busy machine adds.
SOON = 30


@pytest.fixture
def silent():
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"bolt://127.0.0.1:{listener.getsockname()[1]}"


class Mute(Proxy):
    """A way to the server on which nothing comes back any more once `muted` is set."""

    def __init__(self, uri):
        self.muted = threading.Event()
        super().__init__(uri)

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                if not self.muted.is_set():
                    sink.sendall(data)
        except OSError:
            pass


@pytest.fixture
def mute(cypher_server):
    made = Mute(cypher_server.uri)
    yield made
    made.cut()


def test_a_server_that_says_nothing_is_given_up(silent):
    begin = time.monotonic()
    with pytest.raises(DatabaseUnreachableError, match="did not answer within 0.5 seconds"):
        CypherDatabase(silent, ("a", "b"), timeout=0.5)
    assert time.monotonic() - begin < SOON


async def test_a_server_that_falls_silent_ends_every_call(cypher_server, mute):
    database = await asyncio.to_thread(cypher_server.open, uri=mute.uri, timeout=5.0)
    assert await database.aread("RETURN 1 AS one") == [{"one": 1}]
    mute.muted.set()
    begin = time.monotonic()
    for ask in (
        lambda: asyncio.to_thread(database.read, "RETURN 1 AS one"),
        lambda: database.aread("RETURN 1 AS one"),
        lambda: asyncio.to_thread(database.write, "MERGE (n:Nothing {id: 1})"),
    ):
        with pytest.raises(DatabaseUnreachableError, match="did not answer within 5 seconds"):
            await ask()
    await database.aclose()
    assert time.monotonic() - begin < SOON
    with pytest.raises(DatabaseError, match="is closed"):
        database.read("RETURN 1 AS one")


async def test_a_call_that_is_cancelled_stops_at_once(cypher_server, mute):
    database = await asyncio.to_thread(cypher_server.open, uri=mute.uri, timeout=600.0)
    mute.muted.set()
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await database.aread("RETURN 1 AS one")
    assert time.monotonic() - begin < SOON
