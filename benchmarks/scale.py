"""Time and memory of large indexes: python benchmarks/scale.py [--nodes 10000,100000,300000,1000000] [--page FILE].

Each size runs in processes of its own. Texts are random words with Zipf's frequencies, vectors lie around random centres, edges
have power-law propensities, ten a node; no time goes to an embedding model. Memory is the resident set of the process: at its peak
while the index is built and saved, and, in another process, after the saved index has answered queries.
"""

from __future__ import annotations

import argparse
import json
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

from graph_retrievers import GraphIndex, build_retriever
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.signals.dense import DenseIndex

SIZES = "10000,100000,300000,1000000"
RETRIEVERS = ("vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion")
KINDS = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "int8": {"precision": "int8"},
    "hnsw": {"backend": "hnsw"},
}
# The graph of a million vectors takes half an hour to build on one core.
K, HNSW_NODES = 10, 100_000
WORDS, LENGTH, EDGES, DIMENSION, QUERIES = 60_000, 40, 10, 384, 12
PREFACE = """Made by `benchmarks/scale.py --page FILE` on {cores} CPU cores: nodes of {length} words with vectors of {dimension}
dimensions, {edges} edges a node. "built" is the time to build an index of texts, vectors and edges that are in memory, embedding
not counted; "answers" is the memory of a process that has loaded the saved index and answered with every retriever. Queries run one
at a time on vectors that are given: "first" is the first query of a process that has loaded the index with `ready=True`."""


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
    start = time.perf_counter()
    edges = ((ids[a], ids[b], "link") for a, b in pairs.tolist())
    graph = CorpusGraph(ids, contents, titles=[f"Title {row}" for row in range(size)], edges=edges)
    index = GraphIndex.from_graph(graph, vectors=vectors, metric="dot")
    built = time.perf_counter() - start
    start = time.perf_counter()
    index.save(folder)
    saved = time.perf_counter() - start
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"built": built, "saved": saved, "disk": disk, "peak": peak}


def ask(size: int, folder: Path) -> dict[str, float]:
    """Load an index and ask it; return seconds, milliseconds and megabytes."""
    start = time.perf_counter()
    index = GraphIndex.load(folder, ready=True)
    figures = {"loaded": time.perf_counter() - start}
    vectors = unit_vectors(min(size, 5000), DIMENSION)[:QUERIES]
    questions = [" ".join(text.split()[:8]) + f" Title {row}" for row, text in enumerate(texts(QUERIES))]
    for name in RETRIEVERS:
        retriever = build_retriever(name, index)
        spent = []
        for question, vector in zip(questions, vectors, strict=True):
            start = time.perf_counter()
            retriever.retrieve(question, vector=vector)
            spent.append(1000 * (time.perf_counter() - start))
        figures[f"{name} first"], figures[name] = spent[0], float(np.median(spent[1:]))
    figures["answers"] = megabytes()
    exact = index.dense.search(vectors, K)[1].tolist()
    for kind, options in KINDS.items():
        if kind == "hnsw" and size > HNSW_NODES:
            continue
        start = time.perf_counter()
        signal = DenseIndex(index.dense.vectors, **options)
        figures[f"{kind} s"] = time.perf_counter() - start
        found = signal.search(vectors, K)[1].tolist()
        figures[f"{kind} overlap"] = float(np.mean([len({*a} & {*b}) / K for a, b in zip(exact, found, strict=True)]))
        start = time.perf_counter()
        for vector in vectors:
            signal.search(vector[None], K)
        figures[f"{kind} ms"] = 1000 * (time.perf_counter() - start) / len(vectors)
        figures[f"{kind} MB"] = sum(tensor.nbytes for tensor in signal.state()[0].values()) / 1e6
    return figures


def measured(size: int) -> dict[str, float]:
    """Return the figures of one size, each step in a process of its own."""
    folder = Path(tempfile.mkdtemp())
    figures: dict[str, float] = {}
    try:
        for step in ("build", "ask"):
            command = [sys.executable, __file__, "--step", step, "--nodes", str(size), "--folder", str(folder / "index")]
            figures |= json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    finally:
        shutil.rmtree(folder)
    return figures


def page(rows: dict[int, dict[str, float]]) -> str:
    """Return the tables."""
    preface = PREFACE.format(cores=torch.get_num_threads(), length=LENGTH, dimension=DIMENSION, edges=EDGES)
    lines = ["# Scale", "", preface, ""]
    lines += ["| nodes | built, s | saved, s | on disk, MB | peak, MB | loaded, s | answers, MB |", "| --- " * 7 + "|"]
    for size, row in rows.items():
        cells = [f"{row['built']:.1f}", f"{row['saved']:.1f}", f"{row['disk']:,.0f}", f"{row['peak']:,.0f}"]
        cells += [f"{row['loaded']:.2f}", f"{row['answers']:,.0f}"]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    lines += ["", "Milliseconds a query, median (first):", "", f"| nodes | {' | '.join(RETRIEVERS)} |"]
    lines += ["| --- " * (len(RETRIEVERS) + 1) + "|"]
    for size, row in rows.items():
        lines.append(f"| {size:,} | " + " | ".join(f"{row[name]:,.0f} ({row[f'{name} first']:,.0f})" for name in RETRIEVERS) + " |")
    lines += ["", "Vectors by precision, and in an HNSW graph: megabytes, seconds to make the signal, milliseconds of a search,"]
    lines += ["and the share of the ten nearest that it finds.", ""]
    lines += [f"| nodes | {' | '.join(KINDS)} |", "| --- " * (len(KINDS) + 1) + "|"]
    for size, row in rows.items():
        lines.append(f"| {size:,} | {' | '.join(_searched(row, kind) for kind in KINDS)} |")
    return "\n".join([*lines, ""])


def _searched(row: dict[str, float], kind: str) -> str:
    if f"{kind} ms" not in row:
        return "-"
    figures = [f"{row[f'{kind} {unit}']:{form}} {unit}" for unit, form in {"MB": ",.0f", "s": ",.1f", "ms": ",.1f"}.items()]
    return ", ".join([*figures, f"{row[f'{kind} overlap']:.3f}"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--nodes", default=SIZES)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--step", choices=("build", "ask"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        print(json.dumps({"build": build, "ask": ask}[args.step](int(args.nodes), args.folder)))
        return
    rows = {}
    for size in map(int, args.nodes.split(",")):
        rows[size] = measured(size)
        print(size, {name: round(value, 2) for name, value in rows[size].items()}, flush=True)
    print(page(rows))
    if args.page:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
