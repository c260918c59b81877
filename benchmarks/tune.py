"""What tuning gains on each shared dataset: three seeds of ``tune`` on train and dev, measured on test beside the default.

Needs the extras offline and meaning. The vectors of a dataset are kept in the user's cache.

    python benchmarks/tune.py FOLDER_OF_DATASETS [--only wiki-multihop,...] [--seeds 0,1,2] [--questions 30] > found.jsonl
    python benchmarks/tune.py --page found.jsonl > benchmarks/results/tuned/README.md

--questions tunes on so many questions of train and dev, drawn by the seed; found.jsonl may hold the lines of several runs.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from walk_fusion import KINDS

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.evaluation.tuning import tune
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.systems.registry import build_retriever, default_retriever
from graph_retrievers.systems.tuned import load_retriever

DATASETS = ("wiki-multihop", "postgres-docs", "citations", "pubmedqa", "metaqa")
METRICS = {"recall@10": "Recall@10", "ndcg@10": "nDCG@10", "mrr": "MRR"}
PREFACE = """Made by `benchmarks/tune.py`: `graph-retrievers tune` on the questions of train and dev, with three seeds, measured
on those of test; all-MiniLM-L6-v2, no language model and no cross-encoder. The ranges in brackets are over the seeds. "p" are the
p-values of a paired randomisation test of Recall@10 against the default, one for each seed; "ms" is the median time of a
question, and "seconds" is how long tuning took. A candidate that is not significantly better on train and dev is not chosen, and
the default stays. "30 questions" are drawn from train and dev, with a different draw for each seed."""


def measured(index: GraphIndex, dataset: Dataset, seeds: Sequence[int], questions: int | None) -> list[dict[str, Any]]:
    """Return a row for the default and for each seed, tuned on all questions or on some that the seed draws."""
    queries = [query for query in dataset.queries if query.split == "test"]
    known = [query for query in dataset.queries if query.split != "test"]
    kind_of = KINDS.get(dataset.name, lambda query: query.type)
    name = default_retriever(index)
    with tempfile.TemporaryDirectory() as folder:
        retrievers, told = {"default": build_retriever(name, index)}, {"default": {"chosen": name}}
        for seed in seeds:
            began, out = time.perf_counter(), Path(folder, str(seed))
            drawn = known if questions is None else random.Random(seed).sample(known, min(questions, len(known)))
            report = tune(index, drawn, out, seed=seed)
            chosen = report["retriever"] + "".join(f", {key}={value}" for key, value in report["settings"].items())
            chosen += " + g-rag" if report["reranked"] else ""
            told[f"seed {seed}"] = {"chosen": chosen, "seconds": round(time.perf_counter() - began)}
            retrievers[f"seed {seed}"] = load_retriever(index, out)
        found = evaluate(index, queries, retrievers, k=10, timed_queries=20)
    base = found.column("default", "recall@10")
    rows = []
    for row in retrievers:
        column = found.column(row, "recall@10")
        values = {metric: round(statistics.fmean(found.column(row, metric)), 4) for metric in METRICS}
        parts: dict[str, list[float]] = {}
        for query in queries:
            parts.setdefault(kind_of(query), []).append(found.values[row][query.id]["recall@10"])
        kinds = {kind: round(statistics.fmean(part), 4) for kind, part in sorted(parts.items()) if kind}
        p = None if column == base else round(randomization_test(column, base), 4)
        ms = round(1000 * found.costs[row]["seconds_median"], 1)
        known_of = {"dataset": dataset.name, "row": row, "questions": len(queries), "tuned_on": questions}
        rows.append({**known_of, "test": values, "kinds": kinds, "p": p, "ms": ms, **told[row]})
    return rows


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return a page of what was printed: for each dataset the default, and the mean and range of the seeds."""
    heading = ["dataset", "questions", "", *METRICS.values(), "Recall@10 by type of question", "p", "ms", "seconds", "chosen"]
    text = ["# What tuning gains", "", PREFACE, "", f"| {' | '.join(heading)} |", "| --- " * len(heading) + "|"]
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == dataset]
        rows = {"default": [line for line in own if line["row"] == "default"][:1]}
        for line in own:
            if line["row"] != "default":
                name = "tuned" if line["tuned_on"] is None else f"tuned on {line['tuned_on']} questions"
                rows.setdefault(name, []).append(line)
        for row, found in rows.items():
            values = [_spread([line["test"][metric] for line in found], 3) for metric in METRICS]
            kinds = ", ".join(f"{kind} {_spread([line['kinds'][kind] for line in found], 3)}" for kind in found[0]["kinds"])
            p = ", ".join("same" if line["p"] is None else f"{line['p']:.4f}" for line in found) if row != "default" else ""
            seconds = _spread([line["seconds"] for line in found], 0) if row != "default" else ""
            chosen = "; ".join(dict.fromkeys(line["chosen"] for line in found))
            ms = _spread([line["ms"] for line in found], 1)
            cells = [dataset, str(found[0]["questions"]), row, *values, kinds, p, ms, seconds, chosen]
            text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def _spread(values: Sequence[float], digits: int) -> str:
    shown = f"{statistics.fmean(values):.{digits}f}"
    if min(values) == max(values):
        return shown
    return f"{shown} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    """Run the benchmark and print one JSON line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--questions", type=int, metavar="N", help="tune on N questions of train and dev")
    parser.add_argument("--page", type=Path, metavar="FOUND.JSONL")
    options = parser.parse_args()
    if options.page is not None:
        print(page([json.loads(line) for line in options.page.read_text().splitlines() if line.startswith("{")]))
        return
    if options.folder is None:
        parser.error("pass the folder of datasets, or --page")
    embedding = minilm()
    for name in options.only.split(","):
        dataset = read_dataset(options.folder / name)
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=embedding, cache=True)
        for row in measured(index, dataset, list(map(int, options.seeds.split(","))), options.questions):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
