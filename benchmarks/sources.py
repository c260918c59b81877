"""WalkFusion on every shared dataset, with and without the field "source", which loaders write: its form, hits and Recall@10.

Nodes, edges and vectors are the same. Without the field, the page of a node is known from its id alone, such as page.html#place.
The last two columns are what WalkFusion finds with the field as form "links" and as form "pieces". Reads what recall.py reads.
Needs the extra test.

    python benchmarks/sources.py [--split dev] [--only pubmedqa,eu-acts]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from recall import chosen, index_of

from graph_retrievers import Retriever
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.addresses import ADDRESS_FIELDS, page_of
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems import WalkFusion

K = 10
HEADING = ["dataset", "questions", "form without", "form with", "questions with other hits", "without", "with", "links", "pieces"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, a line for each dataset as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="test", help="of the questions; several are joined by + (default: test)")
    parser.add_argument("--only", metavar="NAME", help="datasets, with commas between them (default: all)")
    options = parser.parse_args(arguments)
    print("|", " | ".join(HEADING), "|\n" + "| --- " * len(HEADING) + "|", flush=True)
    for dataset in chosen(parser, options.only):
        print("|", " | ".join([dataset.name, *row(dataset, options.split.split("+"))]), "|", flush=True)


def row(dataset: Dataset, splits: Sequence[str]) -> list[str]:
    """Return the cells of a dataset."""
    queries = [query for query in dataset.queries if query.split in splits and query.gold]
    index = index_of(dataset)
    bare, told = (with_fields(index, source) for source in (False, True))
    texts = [query.text for query in queries]
    found = [Retriever(each).retrieve_batch(texts, k=K) for each in (bare, told)]
    other = sum([hit.id for hit in one] != [hit.id for hit in two] for one, two in zip(*found, strict=True))
    forms = {form: WalkFusion(form=form) for form in ("links", "pieces")}
    recalls = recall(bare, queries, {"without": Retriever(bare)}) + recall(told, queries, {"with": Retriever(told), **forms})
    return [f"{len(queries):,}", *(WalkFusion().form_on(each) for each in (bare, told)), str(other), *recalls]


def with_fields(index: GraphIndex, source: bool) -> GraphIndex:
    """Return the index without any field that tells the page of a node, or with the field "source"."""
    graph = index.graph
    held = [{name: value for name, value in metadata.items() if name not in ADDRESS_FIELDS} for metadata in graph.metadata]
    if source:
        held = [metadata | {"source": page_of(node)} for metadata, node in zip(held, graph.ids, strict=True)]
    columns = {name: getattr(graph, name) for name in ("titles", "types", "include_titles")}
    changed = CorpusGraph(graph.ids, graph.texts, edges=graph.edges(), metadata=held, **columns)
    return GraphIndex(changed, index.signals, embedding=index.embedding)


def recall(index: GraphIndex, queries: Sequence[Query], retrievers: Mapping[str, Any]) -> list[str]:
    """Return Recall@10 of each retriever."""
    found = evaluate(index, queries, retrievers, k=K, timed_queries=0)
    return [f"{fmean(found.column(name, f'recall@{K}')):.3f}" for name in retrievers]


if __name__ == "__main__":
    main()
