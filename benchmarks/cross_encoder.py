"""Encoding (query, text) pairs: the packed encoder against the model's own forward pass.

Rounds are interleaved and each prints ratios of CPU time of the calling thread, so that other work on the machine
counts little. Ratios are against one padded batch of all pairs in the order given.

    OMP_NUM_THREADS=1 python benchmarks/cross_encoder.py --pairs 40 --rounds 5
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from graph_retrievers.signals.cross_encoder import CrossEncoder


def real_pairs(folder: Path, count: int) -> tuple[list[str], list[str]]:
    """Return questions and passages of a dataset folder, one pair a row."""
    with gzip.open(folder / "queries.jsonl.gz", "rt") as lines:
        query = json.loads(next(lines))["query"]
    with gzip.open(folder / "nodes.jsonl.gz", "rt") as lines:
        nodes = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    return [query] * len(nodes), [f"{node['title']}. {node['text']}" for node in nodes]


def main() -> None:
    shared = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(shared / "models" / "minilm-reranker"))
    parser.add_argument("--dataset", type=Path, default=shared / "data" / "wiki-multihop")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=160)
    options = parser.parse_args()
    torch.set_num_threads(1)

    queries, texts = real_pairs(options.dataset, options.pairs)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, use_safetensors=True, dtype=torch.float32).eval()
    packed = CrossEncoder(options.model, max_length=options.max_length).load()
    halved = CrossEncoder(options.model, max_length=options.max_length, dtype="bfloat16").load()

    @torch.inference_mode()
    def padded(rows: list[int]) -> Tensor:
        batch = tokenizer(
            [queries[i] for i in rows],
            [texts[i] for i in rows],
            truncation="longest_first",
            max_length=options.max_length,
            padding=True,
            return_tensors="pt",
        )
        return model(**batch).logits[:, 0]

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    fives = [order[i : i + 5] for i in range(0, len(order), 5)]
    variants: dict[str, Callable[[], Tensor]] = {
        "model, one padded batch": lambda: padded(list(range(len(texts)))),
        "model, sorted, batches of 5": lambda: torch.cat([padded(rows) for rows in fives])[torch.tensor(order).argsort()],
        "packed, float32": lambda: packed.score(packed.encode(queries, texts)),
        "packed, bfloat16": lambda: halved.score(halved.encode(queries, texts)),
    }
    expected = next(iter(variants.values()))()
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    for name, run in variants.items():
        error = float((run() - expected).abs().max() / expected.std())
        print(f"{name:30} greatest error {error:.1e} standard deviations of the score")
    for _ in range(options.rounds):
        times = {}
        for name, run in variants.items():
            start = time.thread_time()
            run()
            times[name] = time.thread_time() - start
        reference = next(iter(times.values()))
        for name, seconds in times.items():
            ratios[name].append(reference / seconds)
    for name, found in ratios.items():
        print(f"{name:30} x{statistics.median(found):.2f}  (rounds {min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    main()
