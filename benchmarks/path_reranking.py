"""Path reranking on shared datasets: WalkFusion reranked by a cross-encoder that reads paths, as it is and trained with some seeds.

Needs the extra offline. The vectors of a dataset are kept in the user's cache, checkpoints in FOLDER, where a run that was stopped
goes on.

    python benchmarks/path_reranking.py FOLDER_OF_DATASETS CROSS_ENCODER --keep FOLDER [--only wiki-multihop,...] [--seeds 0,1,2]
        [--epochs 2] [--train N] [--rows walk-fusion,path-reranking,fastinsight] > found.jsonl
    python benchmarks/path_reranking.py --page found.jsonl > benchmarks/results/path-reranking/README.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graph_retrievers.core.compositions import FirstStage
from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import ALL_FIVE, MULTI_HOP
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Pipeline, Rerank
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems import FastInsight, PathReranking
from graph_retrievers.systems.path_reranking.training import fit_path_reranking

DATASETS, DEPTH = ("wiki-multihop", "postgres-docs", "citations"), 30
METRICS = MULTI_HOP | {"recall@10": "Recall@10", "ndcg@10": "nDCG@10", "mrr": "MRR"}
PREFACE = """Made by `benchmarks/path_reranking.py`: questions of test, all-MiniLM-L6-v2, and a cross-encoder of MiniLM's size
that reads 160 tokens. "alone" reranks the first 30 nodes of WalkFusion by the cross-encoder's scores for each node without its
path. "weight" is the weight of its scores relative to the ranks; "trained" fine-tunes it to read paths and chooses the weight on
dev. "p" is the p-value of a paired randomisation test of Recall@10 against WalkFusion, "ms" the median time of a question on two
CPU cores. {all_five}"""


def retrievers(index: GraphIndex, dataset: Dataset, args: argparse.Namespace) -> tuple[dict[str, Retriever], dict[str, Any]]:
    """Return the retrievers by row, and what is told of each besides its figures."""
    first = FirstStage(Retriever(index, "walk-fusion").operator, DEPTH)
    first.k = DEPTH
    found: dict[str, Retriever] = {
        "walk-fusion": Retriever(index, "walk-fusion"),
        "walk-fusion, reranked alone": Retriever(index, Pipeline(first, Rerank()), k=10),
        "path-reranking, weight 1": Retriever(index, PathReranking(weight=1.0)),
        "path-reranking, weight 0.5": Retriever(index, PathReranking()),
        "fastinsight": Retriever(index, FastInsight()),
        "fastinsight, paths": Retriever(index, FastInsight(paths=True)),
    }
    found = {row: each for row, each in found.items() if row == "walk-fusion" or row.startswith(tuple(args.rows.split(",")))}
    told: dict[str, Any] = {row: {} for row in found}
    for seed in map(int, filter(None, args.seeds.split(","))):
        folder, began = args.keep / f"{dataset.name}-{seed}", time.perf_counter()
        note = folder / "told.json"
        if not note.is_file():
            training = {"epochs": args.epochs}
            summary = fit_path_reranking(dataset, index, folder, seed=seed, training=training)
            size = (folder / "cross-encoder" / "model.safetensors").stat().st_size
            questions = sum(query.split == "train" for query in dataset.queries)
            summary |= {"seconds": round(time.perf_counter() - began), "MB": round(size / 1e6), "trained_on": questions}
            note.write_text(json.dumps(summary), encoding="utf-8")
        told[f"path-reranking, trained, seed {seed}"] = json.loads(note.read_text(encoding="utf-8"))
        found[f"path-reranking, trained, seed {seed}"] = Retriever(index, PathReranking(checkpoint=folder))
    return found, told


def measured(index: GraphIndex, dataset: Dataset, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each retriever."""
    test = [query for query in dataset.queries if query.split == "test"]
    if args.train:
        train = [query for query in dataset.queries if query.split == "train"][: args.train]
        dataset = replace(dataset, queries=[*train, *(query for query in dataset.queries if query.split != "train")])
    found, told = retrievers(index, dataset, args)
    results = evaluate(index, test, found, k=10, timed_queries=10)
    base, rows = results.column("walk-fusion", "recall@10"), []
    for row in found:
        column = results.column(row, "recall@10")
        values = {metric: round(statistics.fmean(results.column(row, metric)), 4) for metric in METRICS}
        p = None if column == base else round(randomization_test(column, base), 4)
        ms = round(1000 * results.costs[row]["seconds_median"])
        rows.append({"dataset": dataset.name, "row": row, "questions": len(test), "test": values, "p": p, "ms": ms, **told[row]})
    return rows


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return a page of what was printed."""
    text = ["# Path reranking", "", PREFACE.format(all_five=ALL_FIVE)]
    for name in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == name]
        text += ["", f"## {name}", "", f"{own[0]['questions']} questions.", ""]
        text += [f"| | {' | '.join(METRICS.values())} | p | ms | training |", "| --- " * (len(METRICS) + 4) + "|"]
        for line in own:
            values = " | ".join(f"{line['test'][metric]:.3f}" for metric in METRICS)
            p = "" if line["row"] == "walk-fusion" else "same" if line["p"] is None else f"{line['p']:.4f}"
            trained = ""
            if "weight" in line:
                epochs = f"epoch {line['epoch']} of {line['epochs']}"
                trained = f"weight {line['weight']}, {epochs}, {line['trained_on']} questions, {line['seconds']} s, {line['MB']} MB"
            text.append(f"| {line['row']} | {values} | {p} | {line['ms']} | {trained} |")
    return "\n".join(text)


def main() -> None:
    """Run the benchmark and print one JSON line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("model", metavar="CROSS_ENCODER", nargs="?")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--train", type=int, metavar="N", help="only the first N questions to train on")
    parser.add_argument("--rows", default="walk-fusion,path-reranking,fastinsight", help="how the names of rows begin")
    parser.add_argument("--page", type=Path, metavar="FOUND.JSONL")
    args = parser.parse_args()
    if args.page is not None:
        print(page([json.loads(line) for line in args.page.read_text().splitlines() if line.startswith("{")]))
        return
    embedding, relevance = minilm(), CrossEncoder(args.model, max_length=160)
    for name in args.only.split(","):
        dataset = read_dataset(args.folder / name)
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=embedding, relevance=relevance, cache=True)
        for row in measured(index, dataset, args):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
