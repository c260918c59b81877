"""MoR on questions of one to three hops: its parts, its ablations, and the trained planner, in one table.

Usage: python benchmarks/mor_metaqa.py FOLDER/data/metaqa [--split test] [--seed 0]
"""

import argparse
import tempfile
import time
from typing import Any

import torch

from graph_retrievers.datasets import Query, read_dataset
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.signals.vector_cache import cached_vectors
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.retriever import MoR, fit_mor
from graph_retrievers.systems.mor.trained import TrainedPlanner, same_plan
from graph_retrievers.systems.mor.training import Example, fit_trajectory_reranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.registry import build_retriever

COLUMNS = ("H@1", "H@5", "R@20", "MRR")


def measures(query: Query, found: list[str]) -> list[float]:
    """Return hit at 1 and 5, recall at 20 over all relevant nodes, and the reciprocal rank."""
    gold = set(query.gold)
    first = next((i for i, node in enumerate(found) if node in gold), None)
    hit = [float(bool(gold & set(found[:k]))) for k in (1, 5)]
    return [*hit, len(gold & set(found[:20])) / len(gold), 0.0 if first is None else 1 / (first + 1)]


def main() -> None:
    """Train on train, choose on dev, print the table of one split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dataset = read_dataset(options.dataset)
    graph, model = dataset.graph(), minilm()
    vectors = cached_vectors(model, graph.contents(), show_progress=True)
    known = dict(zip([q.text for q in dataset.queries], model.embed_queries([q.text for q in dataset.queries]), strict=True))
    index = GraphIndex.from_graph(graph, embedding=model, vectors=vectors)
    asked = [query for query in dataset.queries if query.split == options.split]
    texts, plans = [q.text for q in asked], [list(q.plan) for q in asked]
    given = torch.stack([known[text] for text in texts])

    def examples(split: str) -> list[Example]:
        chosen = [query for query in dataset.queries if query.split == split]
        return [Example(q.text, list(q.plan), tuple(graph.row(node) for node in q.gold)) for q in chosen]

    folder = tempfile.mkdtemp()
    begin = time.perf_counter()
    print(fit_mor(dataset, index, folder, seed=options.seed, show_progress=True))
    print(f"trained in {time.perf_counter() - begin:.0f} s")
    planner = TrainedPlanner.load(folder)
    right = [same_plan(plan, read_plan(wanted)) for plan, wanted in zip(planner.plan(texts, graph), plans, strict=True)]
    print(f"plans right on {options.split}: {sum(right) / len(right):.3f}")

    def trained(traversal: MixedTraversal, **settings: Any) -> MoR:
        reranker, _ = fit_trajectory_reranker(
            index, examples("train"), examples("dev"), traversal, length=4, seed=options.seed, **settings
        )
        return MoR(index, traversal=traversal, reranker=reranker, k=20)

    def named(name: str, **settings: Any) -> Any:
        return build_retriever(name, index, k=20, **settings)

    rows = [
        ("vector search", named("vector"), False),
        ("given plan: text alone (mor-text)", named("mor-text"), True),
        ("given plan: structure alone (mor-structure)", named("mor-structure"), True),
        ("given plan: no reranker (mor-no-rerank)", named("mor-no-rerank"), True),
        ("given plan: no reranker, text fills up as published", named("mor-no-rerank", fill=True), True),
        ("given plan: MoR (mor)", named("mor", checkpoint=folder), True),
        ("given plan: MoR, reranker reads the last node alone", trained(MixedTraversal(), node_only=True), True),
        ("given plan: seeds as published, no reranker", MoR(index, traversal=MixedTraversal(exact_titles=False), k=20), True),
        ("given plan: seeds as published, MoR", trained(MixedTraversal(exact_titles=False)), True),
        ("trained planner: no reranker (mor-no-rerank)", named("mor-no-rerank", checkpoint=folder), False),
        ("trained planner: MoR (mor)", named("mor", checkpoint=folder), False),
    ]
    groups = [("all", asked), *((f"{h}", [q for q in asked if q.extra["hops"] == h]) for h in (1, 2, 3))]
    print(f"\n| {dataset.name}, {options.split} | " + " | ".join(f"{c} ({n})" for n, _ in groups for c in COLUMNS) + " | ms |")
    print("|---" * (2 + len(groups) * len(COLUMNS)) + "|")
    for label, retriever, with_plan in rows:
        inputs = {"plan": plans} if with_plan else {}
        begin = time.perf_counter()
        hits = retriever.retrieve_batch(texts, vectors=given, **inputs)
        spent = 1000 * (time.perf_counter() - begin) / len(asked)
        values = {q.id: measures(q, [h.id for h in found]) for q, found in zip(asked, hits, strict=True)}
        cells = []
        for _, group in groups:
            table = torch.tensor([values[q.id] for q in group])
            cells += [f"{value:.3f}".removeprefix("0") for value in table.mean(0).tolist()]
        print(f"| {label} | " + " | ".join(cells) + f" | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
