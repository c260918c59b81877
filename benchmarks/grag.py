"""G-RAG over the first 100 of a search: MRR and MHits@10 of three seeds, the paper's baselines, ablations, and costs.

Trained on the split "train" of a dataset, stopped early by "dev", and measured on "test", over the relevant nodes that the search
finds. Needs the extras offline and meaning.

    python benchmarks/grag.py DATASET [--first vector,walk-fusion] [--seeds 0,1,2] [--rows g-rag,ablations,published]
        [--train N] [--costs CROSS_ENCODER] > found.jsonl
    python benchmarks/grag.py --page found.jsonl > benchmarks/results/g-rag/README.md

The rows ``published`` are the paper's networks, trained on the first N training questions, with questions and documents parsed
apart and early stopping instead of the paper's 50,000 steps (``fit g-rag --paper``): their vectors, of every document with its
paths from every question, are computed once (100 texts a question) and kept in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers import Retriever
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.datasets import read_dataset
from graph_retrievers.evaluation.ties import tied_hits, tied_reciprocal_rank
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.operators import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork, Operator, Rerank
from graph_retrievers.search.memory import ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems.grag.training import fit_document_graph
from graph_retrievers.systems.splits import labelled_queries

DEPTH = 100
ABLATIONS: dict[str, dict[str, Any]] = {
    "mlp (no graph)": {"graph": False},
    "with a_i (paths)": {"channels": ("concepts", "relations", "leads-in", "leads-out", "paths-in", "paths-out")},
    "with links": {"channels": ("concepts", "relations", "leads-in", "leads-out", "links")},
    "without leads": {"channels": ("concepts", "relations")},
    "without counts": {"channels": ("leads-in", "leads-out")},
}
# The fixed setting of the paper's Table 1 but for hidden width, steps and learning rate, which are its largest.
PUBLISHED = {"learning_rate": 5e-4, "batch_size": 5, "epochs": 30, "patience": 8}
TABLE: dict[str, dict[str, Any]] = {
    "MLP": {"layer": "none", "paths": False},
    "GCN (without a_i)": {"paths": False},
    "G-RAG": {},
    "GAT": {"layer": "gat"},
    "GraphSAGE": {"layer": "sage"},
    "GIN": {"layer": "gin"},
}


class _OnDisk:
    """An embedding model whose vectors are kept on disk, a file for each call."""

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, model.name

    def embed_documents(self, texts: list[str]) -> Tensor:
        return embed_corpus(self.model, texts, cache=True)

    def embed_query(self, text: str) -> Tensor:
        return self.model.embed_query(text)


def first_hundred(first: Operator) -> Operator:
    """Return a search that keeps its first 100 nodes."""
    first.k = DEPTH
    return first


def quality(rank: Callable[[Queries], list[Candidates]], index: GraphIndex, test: Sequence[LabelledQuery]) -> dict[str, float]:
    """Return MRR and MHits@10 over the relevant nodes that are ranked, by the order, and with ties as ties (MTRR, TMHits@10)."""
    found: dict[str, list[float]] = {"mrr": [], "mhits@10": [], "mtrr": [], "tmhits@10": []}
    for start in range(0, len(test), 32):
        part = test[start : start + 32]
        lists = rank(Queries.of(index, [example.text for example in part]))
        for candidates, example in zip(lists, part, strict=True):
            rows = [str(row) for row in candidates.nodes.tolist()]
            scores, gold = candidates.scores.tolist(), [str(row) for row in example.gold if str(row) in rows]
            for names, values in ((("mrr", "mhits@10"), list(range(len(rows), 0, -1))), (("mtrr", "tmhits@10"), scores)):
                for metric, measure in zip(names, (tied_reciprocal_rank, tied_hits), strict=True):
                    found[metric].append(measure(rows, values, gold) if gold else 0.0)
    return {metric: round(statistics.fmean(values), 4) for metric, values in found.items()}


def tied(queries: Queries, lists: list[Candidates]) -> list[Candidates]:
    """Return candidates scored as language models score: by relevance from 0 to 100 in steps of 5."""
    scored = []
    for place, found in enumerate(lists):
        cosine = queries.cosines(torch.full((len(found),), place), torch.from_numpy(found.nodes)).float()
        scored.append(found.rescored(((20 * cosine.clamp(0, 1)).round() * 5).numpy()))
    return scored


def trained(index: GraphIndex, data: Any, network: Any, first: Operator, cache: MeaningCache, seed: int, **options: Any) -> Any:
    """Return a trained reranker, and how the training went."""
    reranker = DocumentGraphRerank(network, parser=cache, depth=DEPTH)
    began = time.perf_counter()
    history = fit_document_graph(index, *data, reranker, first, seed=seed, **options)
    told = {"dev": round(history.best_score, 4), "epoch": history.best_epoch, "seconds": round(time.perf_counter() - began)}
    return reranker, told


def costs(index: GraphIndex, texts: Sequence[str], reranker: Operator, first: Operator, model: str) -> dict[str, Any]:
    """Return the milliseconds of reranking the same 100 nodes, documents parsed before, questions not; alternating, one by one."""
    from graph_retrievers.signals.models import as_relevance_model

    other, times = index.with_models(relevance=as_relevance_model(model)), {"g-rag": [], "cross-encoder": []}
    for text in texts:
        first_found = ranked(first, Queries.of(index, [text]))
        ranked(reranker, Queries.of(index, [text]), first_found)
        for repeat in range(3):
            # Another wording each time, so that the question is parsed anew; its vector is not part of the reranking.
            asked = f"{text} {'?' * (repeat + 1)}"
            for name, operator, where in (("g-rag", reranker, index), ("cross-encoder", Rerank(), other)):
                queries = Queries.of(where, [asked])
                queries.vectors  # noqa: B018
                began = time.perf_counter()
                ranked(operator, queries, first_found)
                times[name].append(1000 * (time.perf_counter() - began))
    middle = {name: round(statistics.median(values), 1) for name, values in times.items()}
    return {"ms": middle, "ratio": round(middle["cross-encoder"] / middle["g-rag"], 1)}


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return a page of what was printed: a line for each row, the mean of its seeds and their range."""
    text = ["# G-RAG over the first 100 documents of a search\n", __doc__.split("\n\n")[1].replace("\n", " ") if __doc__ else ""]
    for first in dict.fromkeys(line["first"] for line in lines):
        rows: dict[str, list[dict[str, float]]] = {}
        for line in lines:
            if line["first"] == first and "row" in line:
                rows.setdefault(line["row"], []).append(line["test"])
        metrics = list(next(iter(rows.values()))[0])
        text += [f"\n## {first}\n", f"| | {' | '.join(metrics)} | seeds |", "| --- " * (len(metrics) + 2) + "|"]
        for row, found in rows.items():
            cells = []
            for metric in metrics:
                values = [each[metric] for each in found]
                spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
                cells.append(f"{statistics.fmean(values):.3f}{spread}")
            text.append(f"| {row} | {' | '.join(cells)} | {len(found)} |")
        text += [f"\n{json.dumps(line['costs'])}" for line in lines if line["first"] == first and "costs" in line]
    return "\n".join(text)


def main() -> None:
    """Run the benchmark and print one JSON line for each result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("dataset", metavar="DATASET", nargs="?")
    parser.add_argument("--page", type=Path, metavar="FOUND.JSONL")
    parser.add_argument("--first", default="vector,walk-fusion")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rows", default="g-rag")
    parser.add_argument("--train", type=int, metavar="N")
    parser.add_argument("--costs", metavar="CROSS_ENCODER")
    args = parser.parse_args()
    if args.page is not None:
        print(page([json.loads(line) for line in args.page.read_text().splitlines() if line.startswith("{")]))
        return
    dataset, embedding = read_dataset(args.dataset), minilm()
    graph = dataset.graph()
    vectors = embed_corpus(embedding, graph.contents(), cache=True)
    index = GraphIndex.from_graph(graph, embedding=_OnDisk(embedding), vectors=vectors)
    cache = MeaningCache()
    cache.parse(graph.contents())
    train, dev = labelled_queries(dataset, index, "G-RAG")
    test = [LabelledQuery(query.text, tuple(map(graph.row, query.gold))) for query in dataset.queries if query.split == "test"]
    seeds = list(map(int, args.seeds.split(",")))

    def say(**found: Any) -> None:
        print(json.dumps(found), flush=True)

    for name in args.first.split(","):
        first = first_hundred(Retriever(index, name).operator)
        say(first=name, row="no reranker", test=quality(lambda queries, f=first: ranked(f, queries), index, test))
        say(first=name, row="tied scorer", test=quality(lambda queries, f=first: tied(queries, ranked(f, queries)), index, test))
        untrained = DocumentGraphRerank(parser=cache)
        say(first=name, row="untrained", test=quality(lambda q, f=first, r=untrained: ranked(r, q, ranked(f, q)), index, test))
        rows: list[tuple[str, Callable[[int], Any], str, dict[str, Any], Any]] = []
        for loss in ("hinge", "cross-entropy") if "g-rag" in args.rows else ():
            rows.append((f"g-rag, {loss}", lambda seed: EvidenceNetwork(seed=seed), loss, {}, (train, dev)))
        for row, options in ABLATIONS.items() if "ablations" in args.rows else ():
            made = lambda seed, options=options: EvidenceNetwork(**options, seed=seed)  # noqa: E731
            rows.append((row, made, "hinge", {}, (train, dev)))
        for row, options in TABLE.items() if "published" in args.rows else ():
            for loss in ("cross-entropy", "hinge") if row == "G-RAG" else ("cross-entropy",):
                make = lambda seed, options=options: DocumentGraphNetwork(  # noqa: E731
                    vectors.shape[1], hidden=64, **options, seed=seed
                )
                name_of_row = f"published {row}, {loss}, {len(train[: args.train])} questions"
                rows.append((name_of_row, make, loss, PUBLISHED, (train[: args.train], dev)))
        for row, make, loss, options, data in rows:
            for seed in seeds:
                reranker, told = trained(index, data, make(seed), first, cache, seed, loss=loss, **options)
                found = quality(lambda q, f=first, r=reranker: ranked(r, q, ranked(f, q)), index, test)
                say(first=name, row=row, seed=seed, test=found, **told)
        if args.costs:
            texts = [example.text for example in dev[:10]]
            say(first=name, costs=costs(index, texts, DocumentGraphRerank(EvidenceNetwork(), parser=cache), first, args.costs))


if __name__ == "__main__":
    main()
