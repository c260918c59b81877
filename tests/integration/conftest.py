"""Graph databases to run against: an ArcadeDB server of our own, and Neo4j where NEO4J_URI says there is one."""

import base64
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from graph_retrievers.stores.cypher import CypherDatabase, GraphSchema
from tests.engines import write_pages


@dataclass
class Server:
    """A running server, and how to reach it."""

    uri: str
    auth: tuple[str, str]
    name: str | None
    process: subprocess.Popen | None = None
    http: str = ""
    labels: int = field(default=0)

    def sql(self, statement):
        """Run SQL on ArcadeDB, by its HTTP door."""
        code = base64.b64encode(":".join(self.auth).encode()).decode()
        request = urllib.request.Request(
            f"{self.http}/api/v1/command/{self.name}",
            data=json.dumps({"language": "sql", "command": statement}).encode(),
            headers={"Authorization": f"Basic {code}", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=60).close()

    def open(self, label=None, **options):
        """Return a connection with a label that no other test uses."""
        self.labels += 1
        schema = options.pop("schema", None) or GraphSchema(label=label or f"Test{os.getpid()}x{self.labels}")
        return CypherDatabase(options.pop("uri", self.uri), self.auth, name=self.name, schema=schema, **options)

    def clean(self, database):
        """Remove what a test wrote, and close its connection."""
        label = database.schema.label
        database.write(f"MATCH (n:`{label}`) DETACH DELETE n")
        if self.process is None:
            database.write(f"DROP CONSTRAINT `graph_retrievers {label} id` IF EXISTS")
            for name in ("name_key", "position"):
                database.write(f"DROP INDEX `graph_retrievers {label} {name}` IF EXISTS")
        database.close()


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _start_arcadedb(folder):
    bolt, http = _free_ports(2)
    errors = open(folder / "stderr.txt", "w")
    script = Path(__file__).with_name("arcadedb_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder), str(bolt), str(http), "playwithdata"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=folder,
    )
    assert select.select([process.stdout], [], [], 120)[0], (folder / "stderr.txt").read_text()[-2000:]
    assert process.stdout.readline() == "ready\n", (folder / "stderr.txt").read_text()[-2000:]
    return Server(f"bolt://127.0.0.1:{bolt}", ("root", "playwithdata"), "graph", process, f"http://127.0.0.1:{http}")


SERVERS = ["arcadedb"] + (["neo4j"] if os.environ.get("NEO4J_URI") else [])


@pytest.fixture(scope="session", params=SERVERS)
def cypher_server(request):
    """A server that speaks Bolt and openCypher; every server there is, one after another."""
    if request.param == "neo4j":
        auth = (os.environ.get("NEO4J_USERNAME", "neo4j"), os.environ.get("NEO4J_PASSWORD", "neo4j"))
        yield Server(os.environ["NEO4J_URI"], auth, os.environ.get("NEO4J_DATABASE"))
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = _start_arcadedb(Path(folder))
        try:
            yield server
        finally:
            # Its files go with the folder, so there is nothing to shut down in order.
            server.process.kill()
            server.process.wait()
            server.process.stdin.close()
            server.process.stdout.close()


@pytest.fixture
def database(cypher_server):
    """A connection with a label of its own, whose nodes, constraint and indexes are removed afterwards."""
    opened = cypher_server.open()
    yield opened
    cypher_server.clean(opened)


class Proxy:
    """Bytes between a client and a server; it can be cut, as a server that is gone."""

    def __init__(self, uri):
        host, port = uri.rsplit("/", 1)[-1].split(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        """Close every connection and take no more."""
        for each in [self._listener, *self._open]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()


@pytest.fixture
def proxy(cypher_server):
    """A way to the server that can be cut."""
    made = Proxy(cypher_server.uri)
    yield made
    made.cut()


@pytest.fixture
def no_settings(monkeypatch):
    """Settings of LlamaIndex whose models must not be touched."""
    from llama_index.core import Settings

    def touched(self):
        raise AssertionError("Settings was touched")

    for name in ("embed_model", "llm"):
        monkeypatch.setattr(type(Settings), name, property(touched))


@pytest.fixture
def pages(tmp_path):
    """A folder of pages with links."""
    folder = tmp_path / "pages"
    folder.mkdir()
    return write_pages(folder)


@pytest.fixture
def client():
    """Qdrant in memory."""
    return QdrantClient(":memory:")
