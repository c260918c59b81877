"""Time and memory of large indexes: python benchmarks/scale.py [--nodes 10000,100000,300000,1000000] [--page FILE] [--data FOLDER].

Each size runs in processes of its own, in one thread, by its CPU time, which is what a clock shows on an idle core. Texts are
random words with Zipf's frequencies, vectors lie around random centres, edges have power-law propensities, ten a node; no time goes
to an embedding model. Memory is the resident set of the process: at its peak while the index is built and saved, and, in another
process, after the saved index has answered queries. Last comes a table that sizes a corpus, from 10^4 to 10^9 nodes: measured rows,
and rows computed from them and from the parts of docs/scale-out.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from graphs import power_law_pairs, unit_vectors

from graph_retrievers import GraphIndex, Retriever, minilm
from graph_retrievers.datasets import read_dataset
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.vector_cache import embed_corpus

SIZES = "10000,100000,300000,1000000"
RETRIEVERS = ("vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion")
KINDS = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "int8": {"precision": "int8"},
    "hnsw": {"backend": "hnsw"},
}
# An HNSW graph of a million vectors takes half an hour to build.
K, HNSW_NODES = 10, 100_000
WORDS, LENGTH, EDGES, DIMENSION, QUERIES = 60_000, 40, 10, 384, 12
PREFACE = """Made by `benchmarks/scale.py --page FILE` in one thread (load of the machine: {load:.1f}): nodes of {length} words
with vectors of {dimension} dimensions, {edges} edges per node. Times are CPU times of the process, which equal clock times on an
idle core. "built" is the time to build an index from texts, vectors and edges in memory, without embedding. "answers" is the
memory of a process that has loaded the saved index and run every retriever. Queries run one at a time with given vectors. "first"
is the first query of a process that has loaded the index with `ready=True`."""
SIZING = """The table is for nodes of {length} words, ten edges and vectors of {dimension} dimensions, with ten nodes (sections,
chunks) per document. Memory is that of one process that answers, with `ready=True`, and of the engines it reads (one byte per
dimension, links and words in memory, the graph on disk). Build time does not include embedding. Latency is that of one question of
WalkFusion, without its embedding."""
# Bytes a node on disk of a Bolt database, of links of an HNSW index and of words; GB of a process that reads stores; milliseconds
# of a round trip to the database and of a request to a vector store, three of each for WalkFusion: see docs/scale-out.md.
STORED, LINKS, TERMS, CALL, TRIP, REQUEST, TRIPS = 1400, 140, 335, 0.3, 40, 10, 3


def texts(count: int) -> list[str]:
    """Return texts of random words."""
    random = np.random.default_rng(0)
    share = 1 / np.arange(1, WORDS + 1)
    names, made = [f"word{word}" for word in range(WORDS)], []
    for start in range(0, count, 10_000):
        words = random.choice(WORDS, (min(10_000, count - start), LENGTH), p=share / share.sum())
        made += [" ".join(names[word] for word in text) for text in words.tolist()]
    return made


def megabytes() -> float:
    """Return the resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def build(size: int, folder: Path) -> dict[str, float]:
    """Build and save an index; return seconds and megabytes."""
    contents, vectors = texts(size), unit_vectors(size, DIMENSION)
    pairs = power_law_pairs(size, size * EDGES)
    ids = [f"n{row}" for row in range(size)]
    start = time.process_time()
    edges = ((ids[a], ids[b], "link") for a, b in pairs.tolist())
    graph = CorpusGraph(ids, contents, titles=[f"Title {row}" for row in range(size)], edges=edges)
    index = GraphIndex.from_graph(graph, vectors=vectors, metric="dot")
    built = time.process_time() - start
    start = time.process_time()
    index.save(folder)
    saved = time.process_time() - start
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"built": built, "saved": saved, "disk": disk, "peak": peak}


def ask(size: int, folder: Path) -> dict[str, float]:
    """Load an index and ask it; return seconds, milliseconds and megabytes."""
    start = time.process_time()
    index = GraphIndex.load(folder, ready=True)
    figures = {"loaded": time.process_time() - start}
    vectors = unit_vectors(min(size, 5000), DIMENSION)[:QUERIES]
    questions = [" ".join(text.split()[:8]) + f" Title {row}" for row, text in enumerate(texts(QUERIES))]
    for name in RETRIEVERS:
        retriever = Retriever(index, name)
        spent = []
        for question, vector in zip(questions, vectors, strict=True):
            start = time.process_time()
            retriever.retrieve(question, vector=vector)
            spent.append(1000 * (time.process_time() - start))
        figures[f"{name} first"], figures[name] = spent[0], float(np.median(spent[1:]))
    figures["answers"] = megabytes()
    exact = index.dense.search(vectors, K)[1].tolist()
    for kind, options in KINDS.items():
        if kind == "hnsw" and size > HNSW_NODES:
            continue
        start = time.process_time()
        signal = DenseIndex(index.dense.vectors, **options)
        figures[f"{kind} s"] = time.process_time() - start
        found = signal.search(vectors, K)[1].tolist()
        figures[f"{kind} overlap"] = float(np.mean([len({*a} & {*b}) / K for a, b in zip(exact, found, strict=True)]))
        start = time.process_time()
        for vector in vectors:
            signal.search(vector[None], K)
        figures[f"{kind} ms"] = 1000 * (time.process_time() - start) / len(vectors)
        if kind == "hnsw":
            figures["pays after"] = figures["hnsw s"] * 1000 / (figures["float32 ms"] - figures["hnsw ms"])
        figures[f"{kind} MB"] = sum(tensor.nbytes for tensor in signal.state()[0].values()) / 1e6
    return figures


def measured(size: int) -> dict[str, float]:
    """Return the figures of one size, each step in a process of its own."""
    folder = Path(tempfile.mkdtemp())
    figures: dict[str, float] = {}
    try:
        for step in ("build", "ask"):
            command = [sys.executable, __file__, "--step", step, "--nodes", str(size), "--folder", str(folder / "index")]
            # Of all libraries, one thread: what waits for another core counts as time of the process too.
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            figures |= json.loads(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(folder)
    return figures


def page(rows: dict[int, dict[str, float]]) -> str:
    """Return the tables."""
    preface = PREFACE.format(load=os.getloadavg()[2], length=LENGTH, dimension=DIMENSION, edges=EDGES)
    lines = ["# Scale", "", preface, ""]
    lines += ["| nodes | built, s | saved, s | on disk, MB | peak, MB | loaded, s | answers, MB |", "| --- " * 7 + "|"]
    for size, row in rows.items():
        cells = [f"{row['built']:.1f}", f"{row['saved']:.1f}", f"{row['disk']:,.0f}", f"{row['peak']:,.0f}"]
        cells += [f"{row['loaded']:.2f}", f"{row['answers']:,.0f}"]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    lines += ["", "Milliseconds per query, median (first):", "", f"| nodes | {' | '.join(RETRIEVERS)} |"]
    lines += ["| --- " * (len(RETRIEVERS) + 1) + "|"]
    for size, row in rows.items():
        lines.append(f"| {size:,} | " + " | ".join(f"{row[name]:,.0f} ({row[f'{name} first']:,.0f})" for name in RETRIEVERS) + " |")
    lines += ["", "Vectors by precision, and in an HNSW graph: megabytes, seconds to create the signal, milliseconds per"]
    lines += ["search, the share of the ten nearest that it finds, and the number of questions after which the total time is less"]
    lines += ["than with float32.", ""]
    lines += [f"| nodes | {' | '.join(KINDS)} |", "| --- " * (len(KINDS) + 1) + "|"]
    for size, row in rows.items():
        lines.append(f"| {size:,} | {' | '.join(_searched(row, kind) for kind in KINDS)} |")
    return "\n".join([*lines, ""])


def sizing(rows: dict[int, dict[str, float]]) -> str:
    """Return the table that sizes a corpus."""
    few, many = sorted(rows)[-2:] if len(rows) > 1 else 2 * list(rows)
    lines = ["", SIZING.format(length=LENGTH, dimension=DIMENSION), ""]
    lines.append("| nodes | documents | setting | memory, GB | disk, GB | build, s | one question, ms | source |")
    lines.append("| --- " * 8 + "|")
    for power in range(4, 10):
        size = 10**power
        if power < 8:
            # On the line through the two largest sizes that were measured.
            line = {name: value + (value - rows[few][name]) * (size - many) / (many - few) for name, value in rows[many].items()}
            row, known = rows.get(size, line), "measured" if size in rows else f"extrapolated from {few:,} and {many:,} nodes"
            precision, saved = {6: ("bfloat16", 2), 7: ("int8", 3)}.get(power, ("", 0))
            if size in rows and saved:
                known += ", in float32"
            setting = "in memory" + (f', `dense_precision="{precision}"`' if saved else "")
            memory, disk = (row[name] / 1e3 - saved * DIMENSION * size / 1e9 for name in ("answers", "disk"))
            built, asked = f"{row['built']:,.0f}", row["walk-fusion"]
        else:
            setting, built, asked, known = "in engines", "-", TRIPS * (TRIP + REQUEST), "computed from parts"
            searched = size * (DIMENSION + LINKS + TERMS) / 1e9
            memory, disk = CALL + searched, searched + size * STORED / 1e9
        cells = [f"10^{power}", f"10^{power - 1}", setting, f"{memory:,.1f}", f"{disk:,.1f}", built, f"{asked:,.0f}", known]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def datasets(folder: Path, names: str) -> str:
    """Return the share of the ten nearest that compressed vectors of all-MiniLM-L6-v2 find, for the dev questions of datasets."""
    lines = ["", "| dataset | nodes | questions | bfloat16 | int8 |", "| --- " * 5 + "|"]
    for name in names.split(","):
        dataset, model = read_dataset(folder / name), minilm()
        graph = CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles)
        vectors = embed_corpus(model, graph.contents(), cache=True)
        questions = embed_corpus(model, [query.text for query in dataset.queries if query.split == "dev"], cache=True)
        exact = DenseIndex(vectors).search(questions, K)[1].tolist()
        cells = [name, f"{len(graph):,}", f"{len(questions):,}"]
        for precision in ("bfloat16", "int8"):
            found = DenseIndex(vectors, precision=precision).search(questions, K)[1].tolist()
            cells.append(f"{np.mean([len({*a} & {*b}) / K for a, b in zip(exact, found, strict=True)]):.3f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _searched(row: dict[str, float], kind: str) -> str:
    if f"{kind} ms" not in row:
        return "-"
    figures = [f"{row[f'{kind} {unit}']:{form}} {unit}" for unit, form in {"MB": ",.0f", "s": ",.1f", "ms": ",.1f"}.items()]
    figures.append(f"{row[f'{kind} overlap']:.3f}")
    return ", ".join([*figures, f"{row['pays after']:,.0f} questions"] if kind == "hnsw" else figures)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--nodes", default=SIZES)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--data", type=Path, help="print what compressed vectors find on datasets in this folder, and nothing else")
    parser.add_argument("--datasets", default="wiki-multihop,postgres-docs")
    parser.add_argument("--step", choices=("build", "ask"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        torch.set_num_threads(1)
        print(json.dumps({"build": build, "ask": ask}[args.step](int(args.nodes), args.folder)))
        return
    if args.data:
        print(datasets(args.data, args.datasets))
        return
    rows = {}
    for size in sorted(map(int, args.nodes.split(","))):
        rows[size] = measured(size)
        print(size, {name: round(value, 3) for name, value in rows[size].items()}, flush=True)
    print(page(rows), sizing(rows))
    if args.page:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
