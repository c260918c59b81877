"""PPR on a database beside PPR in memory, on the questions of a dataset: the same hits, round trips, nodes, and bounds of the walk.

    python benchmarks/push.py FOLDER_OF_DATASET [--index FOLDER] [--split dev] [--passage-weight 0.05] [--max-nodes 100000]

The graph and the vectors are in this process, behind the interfaces of a graph store and a vector store, so no time is that of a
database. In memory the walk has the restart weights that it has on a database. `--index` is a saved index of the dataset; without
it, one is built, and its vectors are kept in the user's cache.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from kept import kept_index

from graph_retrievers import PPR, GraphIndex, Pipeline, Retriever
from graph_retrievers.datasets import read_dataset
from graph_retrievers.operators import VectorSearch
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.stores.remote import FetchedRows, RemoteIndex
from tests.remote import MemoryGraph, MemoryVectors
from tests.walks import FromTheNearest


class Graph(MemoryGraph):
    """The graph of an index as a store that looks up edges by their ends."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self.at: dict[str, list[Any]] = {}
        for edge in self.edges:
            for end in {edge.source, edge.target}:
                self.at.setdefault(end, []).append(edge)

    def read(self, *, ids: Any, positions: Any, texts: Any, expand: Any, limit: int, **others: Any) -> FetchedRows:
        """Return a page; titles and names are not asked for here."""
        edges = {edge.position: edge for name in expand for edge in self.at.get(name, ())}
        page = list(edges.values())[: limit + 1]
        whole = [self.node(self.graph.row(name), True) for name in {*texts, *expand}]
        rows = {*positions, *(self.graph.row(end) for edge in page for end in (edge.source, edge.target))}
        return FetchedRows([*whole, *map(self.node, sorted(rows | {self.graph.row(name) for name in ids}))], page)


def main() -> None:
    """Print a row of the table in docs/retrievers/ppr.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--passage-weight", type=float, default=0.05)
    parser.add_argument("--max-nodes", type=int, default=100_000)
    options = parser.parse_args()
    data, model = read_dataset(options.dataset), minilm()
    index = kept_index(data.graph()) if options.index is None else GraphIndex.load(options.index)
    asked = [query for query in data.queries if query.split == options.split]
    texts, weight = [query.text for query in asked], options.passage_weight
    own = embed_corpus(model, texts, cache=True)
    vectors = MemoryVectors(index.graph.ids, index.dense.vectors.cpu().numpy())
    remote = RemoteIndex(Graph(index.graph), max_nodes=options.max_nodes, vectors=vectors)
    there = Retriever(remote, PPR(passage_weight=weight))
    alike = Retriever(index, Pipeline(VectorSearch(5, returned=False), FromTheNearest(passage_weight=weight)))
    found = [
        [retriever.retrieve(text, vector=vector) for text, vector in zip(texts, own, strict=True)]
        for retriever in (there, alike, Retriever(index, PPR()))
    ]
    same = sum([hit.id for hit in a] == [hit.id for hit in b] for a, b, _ in zip(*found, strict=True))
    recall = [
        np.mean(
            [len({hit.id for hit in hits} & set(query.gold)) / len(query.gold) for hits, query in zip(each, asked, strict=True)]
        )
        for each in found
    ]
    numbers = [re.search(r"(\d+) to the graph.*; (\d+) nodes", hits.notes[-1]) for hits in found[0]]
    trips, nodes = np.mean([[int(each[1]), int(each[2])] for each in numbers if each], 0)
    bounds = [float(told[1]) for hits in found[0] for note in hits.notes if (told := re.search(r"wrong by (\S+) in all", note))]
    print(f"| {weight:g} | {len(texts)} | {same} | {recall[0]:.4f} | {recall[2]:.4f} | {trips:.1f} | {nodes:,.0f} |")
    if bounds:
        print(
            f"{len(bounds)} walks ended at the limits, with a bound of {np.mean(bounds):.4f} in the mean, at most {max(bounds):.4f}"
        )


if __name__ == "__main__":
    main()
