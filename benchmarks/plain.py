"""Plain texts: datasets without their titles and edges, where names in the texts are all that joins them.

Prints a table for each dataset: Recall@5 and Recall@10, milliseconds, and the p-value of a paired randomisation test against hybrid
search. Needs the extra offline. Vectors of texts, and of LinearRAG's names and sentences, are kept in the user's cache; those of
14,706 paragraphs with 84,000 names and 39,000 sentences take about 20 minutes on one core.

    python benchmarks/plain.py FOLDER_OF_DATASETS [--only wiki-multihop,...] [--split test]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from peers import Cached
from walk_fusion import TIMED

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.systems import WalkFusion
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.registry import build_retriever

DATASETS = ("wiki-multihop", "postgres-docs", "python-docs")
METRICS = ("recall@5", "recall@10")


def plain_index(dataset: Dataset) -> GraphIndex:
    """Return the index of the texts of a dataset, without titles and edges."""
    graph, model = CorpusGraph.from_nodes([replace(node, title="") for node in dataset.nodes]), Cached(minilm())
    return GraphIndex.from_graph(graph, embedding=model, vectors=model.embed_documents(graph.contents()))


def retrievers(index: GraphIndex) -> dict[str, Retriever]:
    """Return searches, WalkFusion with and without steps over names, and LinearRAG."""
    made = {name: build_retriever(name, index, k=10) for name in ("vector", "bm25", "hybrid")}
    made["walk-fusion, bridges=0"] = WalkFusion(index, bridges=0)
    return made | {"walk-fusion": WalkFusion(index), "linear-rag": LinearRAG(index)}


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
        print(f"\n{name}, {options.split}: {len(queries)} questions, {len(index):,} texts; {WalkFusion(index).reason}\n")
        print("| retriever | Recall@5 | Recall@10 | p, hybrid | ms |\n| --- | --- | --- | --- | --- |")
        for each in found.retrievers:
            *means, column = (found.column(each, metric) for metric in (*METRICS, "recall@10"))
            p = "" if each == "hybrid" else f"{randomization_test(column, hybrid):.4f}"
            told = [f"{sum(part) / len(part):.3f}" for part in means]
            print("|", " | ".join([each, *told, p, f"{1000 * found.costs[each]['seconds_median']:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
