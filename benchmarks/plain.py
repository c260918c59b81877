"""Plain texts: datasets without their titles and edges, where names in the texts are all that joins them.

Prints a table for each dataset: Recall@2, Recall@5, the share of questions with all gold in five, Recall@10, milliseconds, and the
p-value of a paired randomisation test against hybrid
search. Needs the extra offline. Vectors of texts, and of LinearRAG's names and sentences, are kept in the user's cache; those of
14,706 paragraphs with 84,000 names and 39,000 sentences take about 20 minutes on one core.

    python benchmarks/plain.py FOLDER_OF_DATASETS [--only wiki-multihop,...] [--split test]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from kept import kept_index
from walk_fusion import TIMED

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import MULTI_HOP
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.systems import Fused, Hybrid, WalkFusion
from graph_retrievers.systems.linear_rag.retriever import LinearRAG

DATASETS = ("wiki-multihop", "postgres-docs", "python-docs")
METRICS = {**MULTI_HOP, "recall@10": "Recall@10"}


def plain_index(dataset: Dataset) -> GraphIndex:
    """Return the index of the texts of a dataset, without titles and edges."""
    return kept_index(CorpusGraph.from_nodes([replace(node, title="") for node in dataset.nodes]))


def retrievers(index: GraphIndex) -> dict[str, Retriever]:
    """Return searches, WalkFusion with and without steps over names, and LinearRAG."""
    made = {name: Retriever(index, name, k=10) for name in ("vector", "bm25", "hybrid")}
    made["walk-fusion, bridges=0"] = Retriever(index, WalkFusion(bridges=0))
    made |= {"walk-fusion": Retriever(index, WalkFusion()), "linear-rag": Retriever(index, LinearRAG())}
    made["linear-rag, damping=0.5"] = Retriever(index, LinearRAG(damping=0.5))
    made["linear-rag, fused with hybrid"] = Retriever(index, Fused(LinearRAG(), Hybrid(), weights=(1, 2)))
    return made


def main() -> None:
    """Measure the datasets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    for name in options.only.split(","):
        dataset = read_dataset(options.folder / name)
        index, queries = plain_index(dataset), [query for query in dataset.queries if query.split in options.split.split("+")]
        found = evaluate(index, queries, retrievers(index), k=10, timed_queries=TIMED)
        hybrid = found.column("hybrid", "recall@10")
        print(
            f"\n{name}, {options.split}: {len(queries)} questions, {len(index):,} texts; {Retriever(index, WalkFusion()).reason}\n"
        )
        heading = ["retriever", *METRICS.values(), "p, hybrid", "ms"]
        print("|", " | ".join(heading), "|\n" + "| --- " * len(heading) + "|")
        for each in found.retrievers:
            columns = [found.column(each, metric) for metric in METRICS]
            p = "" if each == "hybrid" else f"{randomization_test(columns[-1], hybrid):.4f}"
            told = [f"{sum(column) / len(column):.3f}" for column in columns]
            print("|", " | ".join([each, *told, p, f"{1000 * found.costs[each]['seconds_median']:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
