"""Recall@10 on every shared dataset, in one table: vector search, BM25, both, PageRank and the default retriever.

Reads data/ in the folder that GRAPH_RETRIEVERS_SHARED names (../shared beside the repository by default). Edges are those of the
dataset and, as where a folder is indexed, references by number. Vectors are those of all-MiniLM-L6-v2, kept in the user's cache. As
on the pages of results, ten hits of more than ten relevant nodes are all that can be found. Needs the extra test.

    python benchmarks/recall.py [--split dev] [--only pubmedqa,eu-acts]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean

from results import shared_folder

from graph_retrievers import Retriever
from graph_retrievers.construction import NumberedReferences
from graph_retrievers.datasets import Dataset, is_dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems import default_system

NAMES = ("vector", "bm25", "hybrid", "ppr")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, a line for each dataset as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="test", help="of the questions; several are joined by + (default: test)")
    parser.add_argument("--only", metavar="NAME", help="datasets, with commas between them (default: all)")
    options = parser.parse_args(arguments)
    heading = ["dataset", "questions", "nodes", *NAMES, "default", "which is"]
    print("|", " | ".join(heading), "|\n" + "| --- " * len(heading) + "|", flush=True)
    for dataset in chosen(parser, options.only):
        print("|", " | ".join([dataset.name, *row(dataset, options.split.split("+"))]), "|", flush=True)


def chosen(parser: argparse.ArgumentParser, only: str | None) -> Iterator[Dataset]:
    """Return the datasets with these names, or all; exit with a message if one is not there."""
    folder = shared_folder() / "data"
    there = sorted(path.name for path in folder.iterdir() if is_dataset(path))
    names = only.split(",") if only else there
    if unknown := set(names) - set(there):
        parser.error(f"no dataset {', '.join(sorted(unknown))} in {folder}; there are {', '.join(there)}")
    return (read_dataset(folder / name) for name in names)


def index_of(dataset: Dataset) -> GraphIndex:
    """Return the index of a dataset, with the references by number that its texts have."""
    edges, titled = [*dataset.edges, NumberedReferences()], dataset.include_titles
    return GraphIndex.from_documents(dataset.nodes, edges=edges, include_titles=titled, embedding=minilm(), cache=True)


def row(dataset: Dataset, splits: Sequence[str]) -> list[str]:
    """Return the cells of a dataset."""
    queries = [query for query in dataset.queries if query.split in splits and query.gold]
    index = index_of(dataset)
    cells = [f"{len(queries):,}", f"{len(index):,}"]
    if queries:
        retrievers = {name: Retriever(index, name) for name in NAMES} | {"default": Retriever(index)}
        found = evaluate(index, queries, retrievers, k=10, timed_queries=0)
        cells += [f"{fmean(found.column(name, 'recall@10')):.3f}" for name in retrievers]
    else:
        cells += ["-"] * (len(NAMES) + 1)
    return [*cells, str(default_system(index))]


if __name__ == "__main__":
    main()
