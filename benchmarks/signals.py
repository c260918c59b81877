"""Search by words and by vectors beside bm25s and faiss, on the same texts and vectors in one process and one thread.

Needs the extra faiss. Texts and vectors are those of scale.py; milliseconds are CPU time of single questions, medians; rounds are
interleaved. Found is the share of the ten best of the peer that are found.

    python benchmarks/signals.py [--nodes N --rounds R]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import bm25s
import faiss
import numpy as np
import torch
from graphs import unit_vectors
from scale import DIMENSION, QUERIES, K, texts

from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex


def words(size: int) -> tuple[list[Any], dict[str, Callable[[Any], Any]]]:
    """Return questions, and what finds the rows of the best texts, by name; the peer first."""
    contents = texts(size)
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    peer.index(bm25s.tokenize(contents, stopwords="en", show_progress=False), show_progress=False)
    ours = BM25(contents)

    def search(question: str) -> list[int]:
        tokens = bm25s.tokenize([question], stopwords="en", show_progress=False, return_ids=False)
        return peer.retrieve(tokens, k=K, show_progress=False)[0][0].tolist()  # type: ignore[no-any-return]

    questions = [" ".join(text.split()[:8]) for text in contents[:QUERIES]]
    return questions, {"bm25s": search, "BM25": lambda question: ours.search([question], K)[1][0].tolist()}


def vectors(size: int) -> tuple[list[Any], dict[str, Callable[[Any], Any]]]:
    """Return questions, and what finds the rows of the nearest vectors, by name; the exact peer first."""
    table = unit_vectors(size, DIMENSION)
    found: dict[str, Callable[[Any], Any]] = {}
    plain, small = faiss.IndexFlatIP(DIMENSION), faiss.index_factory(DIMENSION, "SQ8", faiss.METRIC_INNER_PRODUCT)
    for name, peer in {"faiss Flat": plain, "faiss SQ8": small}.items():
        peer.train(table.numpy())
        peer.add(table.numpy())
        found[name] = lambda question, peer=peer: peer.search(question[None].numpy(), K)[1][0].tolist()
    for precision in ("float32", "bfloat16", "int8"):
        ours = DenseIndex(table, precision=precision)
        found[f"DenseIndex, {precision}"] = lambda question, ours=ours: ours.search(question[None], K)[1][0].tolist()
    return list(table[:QUERIES]), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(",")[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    print("| search | nodes | ms | found |\n| --- | --- | --- | --- |")
    for questions, systems in (words(args.nodes), vectors(args.nodes)):
        spent: dict[str, list[float]] = {name: [] for name in systems}
        shares: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(args.rounds):
            for question in questions:
                best: set[int] = set()
                for name, search in systems.items():
                    start = time.process_time()
                    rows = search(question)
                    spent[name].append(1000 * (time.process_time() - start))
                    best = best or {*rows}
                    shares[name].append(len(best & {*rows}) / K)
        for name in systems:
            print(f"| {name} | {args.nodes:,} | {np.median(spent[name]):.1f} | {np.mean(shares[name]):.3f} |", flush=True)


if __name__ == "__main__":
    main()
