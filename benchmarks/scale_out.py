"""What a query costs on a graph in a database and vectors in a vector store: steps, round trips, bytes, and time per round trip.

    python benchmarks/scale_out.py [--nodes 1000 10000 30000]

For every size: a random graph (words of a Zipf-like vocabulary, five edges a node, most of them at popular nodes) is written
into an ArcadeDB server of its own and into Qdrant in its local mode, and each system that runs there answers questions singly
and in batches of 8. Bytes are counted on the connection to the database. Qdrant's local mode compares all vectors in
Python, so its time for a search says nothing about a Qdrant server; the requests and vectors are the same. Needs the extra
``test``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from graph_retrievers import (
    GAR,
    MMR,
    Eager,
    FastInsight,
    GraphIndex,
    MoR,
    Node,
    Pipeline,
    Retriever,
    Scored,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.operators import GatedPropagation, HybridSearch, Rerank, VectorSearch
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, GraphSchema, write_graph
from graph_retrievers.stores.remote import RemoteIndex, RemoteRetriever
from langchain_graph_retrievers import LangChainVectors
from tests.integration.conftest import Proxy, _start_arcadedb

WIDTH, QUESTIONS = 384, 8
SYSTEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "FastInsight": (FastInsight, {}),
    "GAR": (GAR, {}),
    "WalkFusion (links)": (WalkFusion, {"form": "links"}),
    "MoR (two steps)": (MoR, {}),
    "Eager": (Eager, {}),
    "Scored": (Scored, {}),
    "MMR": (MMR, {}),
    "Spreading (entities)": (SpreadingActivation, {"hub_exponent": 0.25, "fuse": False, "k": 10}),
    "Spreading (vectors)": (
        Retriever,
        {"operator": Pipeline(VectorSearch(5, returned=False), GatedPropagation(hub_exponent=0.25))},
    ),
    "Search, reranked": (Retriever, {"operator": Pipeline(HybridSearch(30), Rerank())}),
}
PLAN = [{"type": "a", "restriction": "w3 w8"}, {"type": "b"}, {"type": "a"}]


class Counting(Proxy):
    """A way to the database that counts the bytes that come back."""

    bytes = 0

    def _pump(self, source: Any, sink: Any) -> None:
        back = source.getpeername()[1] == self._target[1]
        try:
            while data := source.recv(65536):
                self.bytes += len(data) if back else 0
                sink.sendall(data)
        except OSError:
            pass


class Timed:
    """An engine with the number and the seconds of its calls."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.seconds, self.calls = engine, 0.0, 0

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return getattr(self.engine, name)(*arguments, **keywords)
            finally:
                self.seconds, self.calls = self.seconds + time.perf_counter() - start, self.calls + 1

        return call


def made_index(count: int) -> GraphIndex:
    draw = np.random.default_rng(0)
    words = (draw.pareto(1.0, (count, 60)) * 5).astype(int) % 5000
    vectors = draw.normal(size=(count, WIDTH)).astype(np.float32)
    ids = [f"{row:08x}-0000-4000-8000-000000000000" for row in range(count)]
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    nodes = [Node(ids[row], text, f"t{row}", "ab"[row % 2], {"year": row % 30}) for row, text in enumerate(texts)]
    far = (draw.random(5 * count) ** 3 * count).astype(int)
    edges = [(ids[row % count], ids[other], "links") for row, other in enumerate(far.tolist())]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 30_000])
    arguments = parser.parse_args()
    columns = ["nodes", "system", "queries", "steps", "trips to graph", "KB from graph", "ms a trip", "trips to vectors"]
    columns += ["nodes fetched", "ms a call"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    notes = []
    for count in arguments.nodes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            server = _start_arcadedb(Path(folder))
            try:
                notes.append(measure(count, server, Path(folder)))
            finally:
                server.process.kill()
                server.process.wait()
    print("\n" + "\n".join(notes))


def measure(count: int, server: Any, folder: Path) -> str:
    index = made_index(count)
    direct = CypherDatabase(server.uri, server.auth, name=server.name, schema=GraphSchema(label="Node"))
    start = time.perf_counter()
    write_graph(direct, index.graph)
    written = time.perf_counter() - start
    client = QdrantClient(":memory:")
    client.create_collection("nodes", vectors_config=models.VectorParams(size=WIDTH, distance=models.Distance.COSINE))
    client.upload_collection("nodes", vectors=index.dense.vectors.numpy(), ids=index.graph.ids)
    way = Counting(server.uri)
    database = CypherDatabase(way.uri, server.auth, name=server.name, schema=direct.schema)
    graph = Timed(CypherGraphStore(database))
    vectors = Timed(LangChainVectors(QdrantVectorStore(client, "nodes", DeterministicFakeEmbedding(size=WIDTH))))
    for name in ("sample", "read", "schema"):
        setattr(graph, name, graph.__getattr__(name))
    for name in ("search", "vectors"):
        setattr(vectors, name, vectors.__getattr__(name))

    def score(pairs: Any) -> list[float]:
        return [float(len(set(query.split()) & set(text.split()))) for query, text in pairs]

    remote = RemoteIndex(graph, vectors=vectors, signals={"bm25": index.bm25}, relevance=score)
    draw = np.random.default_rng(1)
    own, questions = draw.normal(size=(QUESTIONS, WIDTH)).astype(np.float32), [f"w{i} w{i + 7} w{3 * i}" for i in range(QUESTIONS)]
    for name, (system, options) in SYSTEMS.items():
        retriever = RemoteRetriever(remote, system, **options)
        for batch in (1, QUESTIONS):
            totals: list[list[float]] = []
            for part in range(0, QUESTIONS, batch):
                inputs: dict[str, Any] = {"plan": [PLAN] * batch} if system is MoR else {}
                if system is SpreadingActivation:
                    inputs["entities"] = [[f"t{part + place}", f"T{part + place + 50}"] for place in range(batch)]
                before = (graph.calls, way.bytes, graph.seconds, vectors.calls)
                start = time.perf_counter()
                found = retriever.retrieve_batch(questions[part : part + batch], vectors=own[part : part + batch], **inputs)
                spent = time.perf_counter() - start
                after = (graph.calls, way.bytes, graph.seconds, vectors.calls)
                fetched = int(found[0].notes[-1].split("; ")[1].split()[0])
                steps = found[0].trace[-1].step
                totals.append([b - a for a, b in zip(before, after, strict=True)] + [fetched, spent, steps])
            trips, size, seconds, searches, fetched, spent, steps = np.mean(totals, 0)
            graph_cells = f"{steps:.1f} | {trips:.1f} | {size / 1e3:.0f} | {1e3 * seconds / trips:.0f}"
            cells = f"{graph_cells} | {searches:.1f} | {fetched:.0f} | {1e3 * spent:.0f}"
            print(f"| {count:,} | {name} | {batch} | {cells} |", flush=True)
    direct.close(), database.close(), way.cut()
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "databases" in file.parts)
    held = sum(tensor.numel() * tensor.element_size() for tensor in index.bm25.state()[0].values())
    texts = sum(map(len, index.graph.texts))
    return (
        f"{count:,} nodes, {index.graph.num_edges:,} edges, {texts / count:.0f} characters of text a node: written in "
        f"{written:.0f} s, {disk / count:.0f} bytes a node on disk; BM25 takes {held / count:.0f} bytes a node in memory."
    )


if __name__ == "__main__":
    main()
