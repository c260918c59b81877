"""LeSeGR against what it is made of: Recall@10 and Hit@1 of three seeds, ablations, and what a query costs beside score fusion.

Trained on the split "train" of each dataset, stopped early by the mean of Hit@1 and Recall@10 on "dev", and measured on "test":
Recall@10 of all questions and of each type, and Hit@1 of all. Needs the extra offline.

    python benchmarks/lesegr.py DATASET [DATASET ...] [--seeds 0,1,2] [--ablations] [--costs] > found.jsonl
    python benchmarks/lesegr.py --page found.jsonl > benchmarks/results/lesegr/README.md
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import HybridSearch, LexicalSemanticSearch, ReciprocalRankFusion
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems import LeSeGR, WalkFusion
from graph_retrievers.systems.lesegr.training import fit_lesegr

BASELINES = ("vector", "bm25", "hybrid")
SMALL = {"hidden": 256, "layers": 2}
QUICK = {"learning_rate": 3e-4, "epochs": 12, "patience": 4}
CLOSING = """## What limits it

Training gains most where links lead to what the question does not name, as on wiki-multihop. Nearly all of the gain comes from
the sparse signal along edges (delta). On citations, the questions of train are titles of papers: training helps these questions,
but not the information needs. On postgres-docs there are only 30 questions for training and 35 for early stopping, and sums of
messages add little to the product of both signals, which the untrained encoder computes. On pubmedqa, dev is at .995 before
training, so nothing can be learnt or chosen. On the 12 information needs in dev of citations, training helps (.472 to .515); on
the 40 in test it costs 1.5 points. We also tried, on citations and postgres-docs, with dev and two seeds: two and three layers,
two hops, 50 and 200 candidates, learning rates of 3e-4 and 3e-3, a weight decay of .1, hub exponents of .25 and .75. None was
better on postgres-docs; on citations only the rate of 3e-3 was, by half a point, and making alpha smaller after training was
worse. As an additional list in WalkFusion, LeSeGR raises Hit@1 on citations, and elsewhere nothing. On wiki-multihop,
training lowers Hit@1, from the first epoch on: what neighbours say lifts what the question does not name above what it names."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "two layers": {"layers": 2},
    "mean": {"encoder": "mean"},
    "no hub exponent": {"hub_exponent": 0.0},
    "without delta": {"sparse_gate": False},
    "without alpha": {"dense_gate": False},
    "gcn": {"encoder": "gcn", **SMALL, "training": QUICK},
    "gat": {"encoder": "gat", **SMALL, "training": QUICK},
    "transformer": {"encoder": "transformer", **SMALL, "training": QUICK},
}


def recalls(index: GraphIndex, dataset: Dataset, retrievers: dict[str, Any], split: str = "test") -> dict[str, dict[str, float]]:
    """Return Recall@10 of retrievers on a split, of all questions and of each type, and Hit@1 of all questions."""
    queries = [query for query in dataset.queries if query.split == split]
    found = evaluate(index, queries, retrievers, k=10, timed_queries=0)
    kinds: dict[str, list[str] | None] = {"all": None, **found.types()}

    def mean(name: str, metric: str, asked: list[str] | None = None) -> float:
        return round(statistics.fmean(found.column(name, metric, asked)), 4)

    recall = {name: {kind: mean(name, "recall@10", asked) for kind, asked in kinds.items()} for name in retrievers}
    return {name: {"hit@1": mean(name, "hit@1"), **recall[name]} for name in retrievers}


def trained(index: GraphIndex, dataset: Dataset, seed: int, **options: Any) -> tuple[Retriever, dict[str, Any]]:
    """Return a retriever trained with a seed, and how the training went."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        told = fit_lesegr(dataset, index, folder, seed=seed, **options)
        told["seconds"] = round(time.perf_counter() - began, 1)
        told["curves"] = json.loads((Path(folder) / "lesegr.json").read_text())["history"]["measures"]
        return Retriever(index, LeSeGR(checkpoint=folder)), told


def with_list(index: GraphIndex, lesegr: Retriever) -> Retriever:
    """Return WalkFusion with LeSeGR as a further list."""
    walk = Retriever(index, WalkFusion()).operator
    # Its form for links is one list.
    lists, constant = (walk.operators, walk.constant) if isinstance(walk, ReciprocalRankFusion) else ((walk,), 5)
    return Retriever(index, ReciprocalRankFusion(*lists, lesegr.operator, constant=constant))


def costs(index: GraphIndex, dataset: Dataset, lesegr: Retriever, repeats: int = 5) -> dict[str, Any]:
    """Return what fusion and LeSeGR cost in one run: indexing, tensors of the index, and a single query, alternating."""
    fusion = Retriever(index, HybridSearch(), name="fusion")
    texts = [query.text for query in dataset.queries if query.split == "dev"][:20]
    vectors = torch.stack([torch.as_tensor(index.embedding.embed_query(text)) for text in texts])
    times: dict[str, list[float]] = {"fusion": [], "lesegr": []}
    for _ in range(repeats):
        for text, vector in zip(texts, vectors, strict=True):
            for name, retriever in (("fusion", fusion), ("lesegr", lesegr)):
                began = time.perf_counter()
                retriever.retrieve(text, vector=vector)
                times[name].append(1000 * (time.perf_counter() - began))
    middle = {name: round(statistics.median(values), 2) for name, values in times.items()}
    began = time.perf_counter()
    BM25(index.graph.contents())
    built = time.perf_counter() - began
    search = next(part for part in lesegr.operator.parts() if isinstance(part, LexicalSemanticSearch))
    keys, queries = index.graph.edge_keys, Queries.of(index, texts[:1], vectors=vectors[:1])
    began = time.perf_counter()
    with torch.inference_mode():
        alphas = search.alphas_of_pairs(queries, keys)
    own = time.perf_counter() - began
    held = sum(t.numel() * t.element_size() for signal in index.signals.values() for t in signal.state()[0].values())
    more = (alphas.numel() + sum(p.numel() for p in search.model.parameters())) * 4 + keys.numel() * 8
    return {
        "query_ms": middle,
        "query_ratio": round(middle["lesegr"] / middle["fusion"], 2),
        "index_s": {"bm25": round(built, 2), "dense signals of lesegr": round(own, 2)},
        "index_mib": {"fusion": round(held / 2**20, 1), "lesegr": round((held + more) / 2**20, 1)},
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return a page of what was printed: the mean of the seeds and their range, ablations, curves and costs."""
    text = ["# LeSeGR compared with its parts\n", __doc__.split("\n\n")[1].replace("\n", " ") if __doc__ else ""]
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == dataset]
        seeds = [line for line in own if "seed" in line]
        rows: dict[str, list[dict[str, float]]] = {}
        for line in own:
            if "ablation" not in line:
                for name, values in line.get("test", {}).items():
                    rows.setdefault(name, []).append(values)
        text += [f"\n## {dataset}\n", *_table(rows)]
        text += ["\nOn dev after each epoch of training; the epoch with the best mean of both is kept:\n"]
        for line in seeds:
            for name, curve in line["curves"].items():
                text.append(f"- seed {line['seed']}, {name}: {' '.join(f'{value:.3f}' for value in curve)}")
        ablations = {name: [values] for line in own if "ablation" in line for name, values in line["test"].items()}
        if ablations:
            text += ["\nAblations, seed 0; the default is a sum of one layer with a hub exponent of .5:\n", *_table(ablations)]
        text += [f"\n{json.dumps(line['costs'])}" for line in own if "costs" in line]
    return "\n".join([*text, "", CLOSING])


def _table(rows: dict[str, list[dict[str, float]]]) -> list[str]:
    kinds = list(next(iter(rows.values()))[0])
    lines = [f"| | {' | '.join(kinds)} |", "| --- " * (len(kinds) + 1) + "|"]
    for name, found in rows.items():
        cells = []
        for kind in kinds:
            values = [each[kind] for each in found]
            spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.3f}{spread}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run the benchmark and print one JSON line for each result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="*", metavar="DATASET")
    parser.add_argument("--page", type=Path, metavar="FOUND.JSONL")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--costs", action="store_true")
    args = parser.parse_args()
    if args.page is not None:
        print(page([json.loads(line) for line in args.page.read_text().splitlines() if line.startswith("{")]))
        return
    embedding = minilm()
    for folder in args.datasets:
        dataset = read_dataset(folder)
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=embedding, cache=True)
        first = {name: Retriever(index, name) for name in (*BASELINES, "walk-fusion")}
        first |= {"untrained": Retriever(index, LeSeGR())}
        print(json.dumps({"dataset": dataset.name, "test": recalls(index, dataset, first)}), flush=True)
        for seed in map(int, args.seeds.split(",")):
            lesegr, told = trained(index, dataset, seed)
            both = {"lesegr": lesegr, "walk-fusion with lesegr": with_list(index, lesegr)}
            print(json.dumps({"dataset": dataset.name, "seed": seed, "test": recalls(index, dataset, both), **told}), flush=True)
        if args.costs:
            print(json.dumps({"dataset": dataset.name, "costs": costs(index, dataset, lesegr)}), flush=True)
        for name, options in ABLATIONS.items() if args.ablations else ():
            lesegr, told = trained(index, dataset, 0, **options)
            found = {"dataset": dataset.name, "ablation": name, "test": recalls(index, dataset, {name: lesegr}), **told}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
