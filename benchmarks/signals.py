"""Search by words and by vectors beside bm25s and faiss, on the same texts and vectors in one process and one thread.

Needs bm25s. Texts and vectors are those of scale.py; milliseconds are CPU time of a question, medians of rounds that are
interleaved, by how many questions are searched at once. Found is the share of the ten best of the peer that are found.

    python benchmarks/signals.py [--nodes 100000,1000000 --batches 1,32,256 --rounds R --page FILE]
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bm25s
import faiss
import numpy as np
import torch
from graphs import unit_vectors
from scale import DIMENSION, QUERIES, K, texts

from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex

# The index of bm25s over a million texts takes minutes.
WORDS_NODES = 100_000
Search = Callable[[Any], Any]
"""Maps questions, of length B, to the rows that are found for each, shape [B, k]."""
PREFACE = """# Search by words and by vectors

Made by `benchmarks/signals.py --page FILE` in one thread (load of the machine: {load:.1f}), beside bm25s and faiss in the same
process: texts of 40 words, vectors of {dimension} dimensions, the ten best. Milliseconds are the CPU time of a question, a median,
by how many are searched at once; "found" is the share of the ten best of the first row that are found.

"""


def words(size: int, count: int) -> tuple[Any, dict[str, Search]]:
    """Return questions, and what finds the rows of the best texts, by name; the peer first."""
    contents = texts(size)
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    peer.index(bm25s.tokenize(contents, stopwords="en", show_progress=False), show_progress=False)
    ours = BM25(contents)

    def search(questions: list[str]) -> Any:
        tokens = bm25s.tokenize(questions, stopwords="en", show_progress=False, return_ids=False)
        return peer.retrieve(tokens, k=K, show_progress=False)[0]

    questions = [" ".join(text.split()[:8]) for text in contents[:count]]
    return questions, {"bm25s": search, "BM25": lambda questions: ours.search(questions, K)[1].numpy()}


def vectors(size: int, count: int) -> tuple[Any, dict[str, Search]]:
    """Return questions, and what finds the rows of the nearest vectors, by name; the exact peer first."""
    table = unit_vectors(size, DIMENSION)
    found: dict[str, Search] = {}
    plain, small = faiss.IndexFlatIP(DIMENSION), faiss.index_factory(DIMENSION, "SQ8", faiss.METRIC_INNER_PRODUCT)
    for name, peer in {"faiss Flat": plain, "faiss SQ8": small}.items():
        peer.train(table.numpy())
        peer.add(table.numpy())
        found[name] = lambda questions, peer=peer: peer.search(questions.numpy(), K)[1]
    for precision in ("float32", "bfloat16", "int8"):
        ours = DenseIndex(table, precision=precision)
        ours.prepare()
        found[f"DenseIndex, {precision}"] = lambda questions, ours=ours: ours.search(questions, K)[1].numpy()
    return table[:count].clone(), found


def measured(questions: Any, systems: dict[str, Search], batch: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return milliseconds of a question, and the share found, of each system, for so many questions at once."""
    spent: dict[str, list[float]] = {name: [] for name in systems}
    shares: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for start in range(0, max(QUERIES // batch, 1) * batch, batch):
            asked, best = questions[start : start + batch], None
            for name, search in systems.items():
                begun = time.process_time()
                rows = search(asked)
                spent[name].append(1000 * (time.process_time() - begun) / batch)
                best = rows if best is None else best
                shares[name].append(np.mean([len({*a} & {*b}) / K for a, b in zip(best.tolist(), rows.tolist(), strict=True)]))
    return {name: (float(np.median(spent[name])), float(np.mean(shares[name]))) for name in systems}


def lines(sizes: list[int], batches: list[int], rounds: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| search | nodes | " + " | ".join(f"ms, {batch} at once" for batch in batches) + " | found |"
    yield "| --- " * (3 + len(batches)) + "|"
    for make, size in [(words, size) for size in sizes if size <= WORDS_NODES] + [(vectors, size) for size in sizes]:
        questions, systems = make(size, max(*batches, QUERIES))
        told = [measured(questions, systems, batch, rounds) for batch in batches]
        for name in systems:
            shares = np.mean([each[name][1] for each in told])
            yield f"| {name} | {size:,} | " + " | ".join(f"{each[name][0]:.2f}" for each in told) + f" | {shares:.3f} |"
        del questions, systems
        gc.collect()


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split(",")[0])
    parser.add_argument("--nodes", default="100000")
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    page = PREFACE.format(load=os.getloadavg()[0], dimension=DIMENSION)
    for line in lines([int(size) for size in args.nodes.split(",")], [int(size) for size in args.batches.split(",")], args.rounds):
        print(line, flush=True)
        page += f"{line}\n"
    if args.page:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
