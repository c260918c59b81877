"""What a query costs on a graph in a database, and vectors and words in Qdrant: steps, round trips, bytes, and time per round trip.

    python benchmarks/scale_out.py [--nodes 1000 10000 30000] [--only WalkFusion,...]
    python benchmarks/scale_out.py --recall FOLDER_OF_DATASETS [--only wiki-multihop,...] [--split dev] [--words database]

For every size: a random graph (words of a Zipf-like vocabulary, five edges a node, most of them at popular nodes; for "WalkFusion",
articles that name each other) is written into an ArcadeDB server of its own and into Qdrant in its local mode, and each system that
runs there answers questions singly and in batches of 8. Bytes are counted on the connection to the database. Qdrant's local mode
compares all vectors in Python, so its time for a search says nothing about a Qdrant server; the requests and vectors are the same.
It gets indexes of words and of ids from this script, as a server has them.

With `--recall`, WalkFusion in its default form answers the questions of datasets there and in memory; words are in Qdrant, or in
the full-text index of the database. Needs the extras ``test`` and
``offline``; the vectors of a dataset are kept in the user's cache.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.local import local_collection

from graph_retrievers import (
    GAR,
    MMR,
    Eager,
    FastInsight,
    GraphIndex,
    LeSeGR,
    MoR,
    Node,
    Pipeline,
    Retriever,
    Scored,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import MissingDatabaseFeatureError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.operators import GatedPropagation, HybridSearch, Operator, Rerank, VectorSearch
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, CypherWords, GraphSchema
from graph_retrievers.stores.engines import write_index
from graph_retrievers.stores.qdrant import QdrantVectors, QdrantWords
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.systems.system import System
from tests.integration.conftest import Proxy, _start_arcadedb

WIDTH, QUESTIONS = 384, 8
SYSTEMS: dict[str, System | Operator] = {
    "FastInsight": FastInsight(),
    "GAR": GAR(),
    "WalkFusion": WalkFusion(),
    "WalkFusion (links)": WalkFusion(form="links"),
    "MoR (two steps)": MoR(),
    "LeSeGR": LeSeGR(),
    "Eager": Eager(),
    "Scored": Scored(),
    "MMR": MMR(),
    "Spreading (entities)": SpreadingActivation(hub_exponent=0.25),
    "Spreading (vectors)": Pipeline(VectorSearch(5, returned=False), GatedPropagation(hub_exponent=0.25)),
    "Search, reranked": Pipeline(HybridSearch(30), Rerank()),
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


def inverted() -> None:
    """Let the local mode of Qdrant search sparse vectors by an inverted index, and find points by their ids."""
    held: dict[Any, dict[int, tuple[np.ndarray, np.ndarray]]] = {}

    def lists(vectors: Any) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        places = np.concatenate([np.asarray(vector.indices, np.int64) for vector in vectors])
        rows = np.repeat(np.arange(len(vectors)), [len(vector.indices) for vector in vectors])
        values = np.concatenate([np.asarray(vector.values, np.float64) for vector in vectors])
        order = np.argsort(places, kind="stable")
        first = np.flatnonzero(np.diff(places[order], prepend=-1))
        parts = zip(np.split(rows[order], first[1:]), np.split(values[order], first[1:]), strict=True)
        return dict(zip(places[order][first].tolist(), parts, strict=True))

    def scores(query: Any, vectors: Any, empty_is_zero: bool = False) -> np.ndarray:
        key = len(vectors), id(vectors[0]), id(vectors[-1])
        if key not in held:
            held[key] = lists(vectors)
        found, met = np.zeros(len(vectors)), np.zeros(len(vectors), bool)
        for place, value in zip(query.indices, query.values, strict=True):
            rows, values = held[key].get(place, (np.zeros(0, np.int64), np.zeros(0)))
            found[rows] += value * values
            met[rows] = True
        return np.where(met, found, 0.0 if empty_is_zero else -np.inf).astype(np.float32)

    places: dict[int, dict[str, int]] = {}

    def among(payloads: Any, payload_filter: Any, ids_inv: Any, deleted_per_vector: Any) -> np.ndarray:
        if payload_filter is None:
            return np.ones(len(payloads), bool)
        (condition,) = payload_filter.must
        if len(places.get(id(ids_inv), ())) != len(payloads):
            places[id(ids_inv)] = {str(name): place for place, name in enumerate(ids_inv)}
        mask = np.zeros(len(payloads), bool)
        mask[[places[id(ids_inv)][str(name)] for name in condition.has_id]] = True
        return mask

    local_collection.calculate_distance_sparse = scores
    local_collection.calculate_payload_mask = among


def made_articles(count: int) -> GraphIndex:
    """Articles about people, each of whom names three others; half of them are linked."""
    draw = np.random.default_rng(0)
    words = (draw.pareto(1.0, (count, 40)) * 5).astype(int) % 5000
    vectors = draw.normal(size=(count, WIDTH)).astype(np.float32)
    ids, titles = [f"{row:08x}-0000-4000-8000-000000000000" for row in range(count)], [named(row) for row in range(count)]
    others = (draw.random((count, 3)) ** 2 * count).astype(int)
    texts = [
        f"{title} was a weaver who met {titles[a]}, {titles[b]} and {titles[c]}. {' '.join(f'w{word}' for word in row)}"
        for title, (a, b, c), row in zip(titles, others.tolist(), words.tolist(), strict=True)
    ]
    edges = [(ids[row], ids[other], "links") for row in range(0, count, 2) for other in others[row].tolist()]
    nodes = [Node(*parts) for parts in zip(ids, texts, titles, strict=True)]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine")


def named(row: int) -> str:
    """Return a name of two words; fifty first names, and two people for each last name."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstv" for vowel in "aeiouy"]

    def word(number: int) -> str:
        return "".join(syllables[part % 78] for part in (number * 31, number, number // 78, number // 6084)).title()

    return f"{word(row % 50)} {word(row // 2 + 50)}"


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
    parser.add_argument("--only", default="", help="systems, or datasets, with commas between them")
    parser.add_argument("--recall", type=Path, help="folder of datasets")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--words", choices=["qdrant", "database"], default="qdrant", help="where --recall has the words")
    arguments = parser.parse_args()
    inverted()
    only = list(filter(None, arguments.only.split(",")))
    if arguments.recall:
        return compare(arguments.recall, only or ["postgres-docs", "wiki-multihop"], arguments.split, arguments.words)
    columns = [
        "nodes",
        "system",
        "queries",
        "steps",
        "trips to graph",
        "KB from graph",
        "ms a trip",
        "trips to vectors",
        "to words",
    ]
    columns += ["ms a trip", "nodes fetched", "ms a call", "in memory"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    notes = []
    for count in arguments.nodes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            server = _start_arcadedb(Path(folder))
            try:
                notes.append(measure(count, server, Path(folder), only or list(SYSTEMS)))
            finally:
                server.process.kill()
                server.process.wait()
    print("\n" + "\n".join(notes))


def measure(count: int, server: Any, folder: Path, only: list[str]) -> str:
    if "WalkFusion" in only:
        measured(made_articles(count), server, "Article", ["WalkFusion"])
    index = made_index(count)
    written = measured(index, server, "Node", [name for name in SYSTEMS if name in only and name != "WalkFusion"])
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "databases" in file.parts)
    held = sum(tensor.numel() * tensor.element_size() for tensor in index.bm25.state()[0].values())
    texts = sum(map(len, index.graph.texts))
    return (
        f"{count:,} nodes, {index.graph.num_edges:,} edges, {texts / count:.0f} characters of text a node: written in "
        f"{written[0]:.0f} s, again without a change in {written[1]:.1f} s, one node changed in {written[2]:.1f} s; "
        f"{disk / count:.0f} bytes a node on disk; BM25 takes {held / count:.0f} bytes a node in memory."
    )


def measured(index: GraphIndex, server: Any, label: str, names: list[str]) -> list[float]:
    """Print a row for each system and batch; return the seconds of filling, of doing so again, and of a change, twice."""
    if not names:
        return [0.0] * 4
    count = len(index)
    direct = CypherDatabase(server.uri, server.auth, name=server.name, schema=GraphSchema(label=label))
    client = QdrantClient(":memory:")
    changed = index.with_changes(upsert=[Node(index.graph.ids[0], "w1 w2 w3", "changed")], vectors=[[1.0] * WIDTH])
    written = []
    # The first node is changed, and changed back.
    for each in (index, index, changed, index):
        start = time.perf_counter()
        write_index(each, direct, client, "nodes")
        written.append(time.perf_counter() - start)
    way = Counting(server.uri)
    database = CypherDatabase(way.uri, server.auth, name=server.name, schema=direct.schema)
    graph = Timed(CypherGraphStore(database))
    vectors = Timed(QdrantVectors(client, "nodes"))
    words = Timed(QdrantWords(client, "nodes"))
    for name in ("search", "term_scores", "traits"):
        setattr(words, name, words.__getattr__(name))
    for name in ("sample", "read", "schema"):
        setattr(graph, name, graph.__getattr__(name))
    for name in ("search", "vectors"):
        setattr(vectors, name, vectors.__getattr__(name))

    def score(pairs: Any) -> list[float]:
        return [float(len(set(query.split()) & set(text.split()))) for query, text in pairs]

    remote = RemoteIndex(graph, vectors=vectors, words=words, relevance=score)
    index = index.with_models(relevance=score)
    draw = np.random.default_rng(1)
    own, questions = draw.normal(size=(QUESTIONS, WIDTH)).astype(np.float32), [f"w{i} w{i + 7} w{3 * i}" for i in range(QUESTIONS)]
    if "WalkFusion" in names:
        questions = [f"Where did {named(i + 5)} and {index.graph.titles[9 * i]} see w{i} w{i + 7}?" for i in range(QUESTIONS)]
    for name, system in ((name, SYSTEMS[name]) for name in names):
        retriever, local = Retriever(remote, system, k=10), Retriever(index, system, k=10)
        for batch in (1, QUESTIONS):
            totals: list[list[float]] = []
            for part in range(0, QUESTIONS, batch):
                inputs: dict[str, Any] = {"plan": [PLAN] * batch} if isinstance(system, MoR) else {}
                if isinstance(system, SpreadingActivation):
                    inputs["entities"] = [[f"t{part + place}", f"T{part + place + 50}"] for place in range(batch)]
                local.retrieve_batch(questions[part : part + batch], vectors=own[part : part + batch], **inputs)
                start = time.perf_counter()
                local.retrieve_batch(questions[part : part + batch], vectors=own[part : part + batch], **inputs)
                memory = time.perf_counter() - start
                before = (graph.calls, way.bytes, graph.seconds, vectors.calls, words.calls, words.seconds)
                start = time.perf_counter()
                found = retriever.retrieve_batch(questions[part : part + batch], vectors=own[part : part + batch], **inputs)
                spent = time.perf_counter() - start
                after = (graph.calls, way.bytes, graph.seconds, vectors.calls, words.calls, words.seconds)
                fetched = int(found[0].notes[-1].split("; ")[1].split()[0])
                steps = found[0].trace[-1].step
                totals.append([b - a for a, b in zip(before, after, strict=True)] + [fetched, spent, steps, memory])
            trips, size, seconds, searches, lookups, looking, fetched, spent, steps, memory = np.mean(totals, 0)
            graph_cells = f"{steps:.1f} | {trips:.1f} | {size / 1e3:.0f} | {1e3 * seconds / trips:.0f}"
            cells = f"{graph_cells} | {searches:.1f} | {lookups:.1f} | {1e3 * looking / max(lookups, 1):.0f}"
            cells += f" | {fetched:.0f} | {1e3 * spent:.0f} | {1e3 * memory:.0f}"
            told = f"{name}, {system.form_on(index)}" if system == WalkFusion() else name
            print(f"| {count:,} | {told} | {batch} | {cells} |", flush=True)
    direct.close(), database.close(), way.cut()
    return written


def full_text(server: Any, database: CypherDatabase) -> CypherWords:
    """Return the full-text index of the database; that of ArcadeDB is made by the SQL that the error tells."""
    words = CypherWords(database)
    try:
        words.begin()
    except MissingDatabaseFeatureError as error:
        for statement in re.findall(r"CREATE [^;]*(?=; )", str(error)):
            server.sql(statement)
        return CypherWords(database, re.findall(r"index='([^']*)'", str(error))[0])
    return words


def compare(folder: Path, names: list[str], split: str, where: str) -> None:
    """Print Recall@10 of WalkFusion in its default form, in memory and on the engines, for the questions of datasets."""
    columns = ["dataset", "nodes", "form", "questions", "R@10 in memory", "on engines", "same hits", "trips to graph", "to vectors"]
    columns += ["to words", "ms on engines", "in memory"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    model = minilm()
    for name in names:
        data = read_dataset(folder / name)
        graph = CorpusGraph.from_nodes(data.nodes, data.edges, include_titles=data.include_titles)
        index = GraphIndex.from_graph(graph, embedding=model, cache=True)
        asked = [query for query in data.queries if query.split == split]
        gold = [set(query.gold) for query in asked]
        texts = [query.text for query in asked]
        own = embed_corpus(model, texts, cache=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            server = _start_arcadedb(Path(place))
            try:
                database = CypherDatabase(server.uri, server.auth, name=server.name, schema=GraphSchema(label="Node"))
                client = QdrantClient(":memory:")
                held = full_text(server, database) if where == "database" else None
                write_index(index, database, client, "nodes", words=held)
                vectors, words = QdrantVectors(client, "nodes"), held or QdrantWords(client, "nodes")
                engines: dict[str, Any] = {"vectors": vectors, "words": words}
                stored = RemoteIndex(CypherGraphStore(database), **engines, embedding=model, include_titles=data.include_titles)
                remote, local = Retriever(stored), Retriever(index, WalkFusion())
                found: list[Any] = []
                spent = []
                for retriever in (remote, local):
                    retriever.retrieve(texts[0], vector=own[0])
                    start = time.perf_counter()
                    found.append([retriever.retrieve(text, vector=vector) for text, vector in zip(texts, own, strict=True)])
                    spent.append(1e3 * (time.perf_counter() - start) / len(texts))
                database.close()
            finally:
                server.process.kill()
                server.process.wait()
        recall = [
            np.mean([len({hit.id for hit in hits.nodes} & best) / len(best) for hits, best in zip(each, gold, strict=True)])
            for each in found
        ]
        same = sum([hit.id for hit in a] == [hit.id for hit in b] for a, b in zip(*found, strict=True))
        trips = np.mean([[int(n) for n in re.findall(r"(\d+) to the", hits.notes[-1])] for hits in found[0]], 0)
        cells = [name, f"{len(index):,}", WalkFusion().form_on(index), len(texts), f"{recall[1]:.4f}", f"{recall[0]:.4f}", same]
        cells += [f"{trip:.1f}" for trip in trips] + [f"{each:.0f}" for each in spent]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
