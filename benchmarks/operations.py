"""Tensor operations of one question, which are launches on a GPU: python benchmarks/operations.py [--dataset wiki-multihop].

For each retriever, the operations that torch runs for one question are counted, without those that only give another view, and how
often the program reads back what one of them made, which a GPU is waited for: numbers, lists, arrays, and shapes that follow from
values, as of an index by a mask. Printed are medians over questions, after one that is not counted. Vectors of questions are given,
and the relevance model counts letters, so that no model is counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from graph_retrievers import GraphIndex, minilm
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems import every_system

# Functions, and operations, whose result waits for values.
_READS = {"numpy", "tolist", "item", "__bool__", "__int__", "__float__", "__index__"}
_SHAPED = {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"}
_MORE = {f"walk-fusion, form={form}": f"walk-fusion(form={form!r})" for form in ("links", "names", "pieces", "relations")}
_MORE |= {f"spreading, chains={chains}": f"spreading(chains={chains!r})" for chains in ("path", None)}


class Operations(TorchDispatchMode):
    """Counts operations, and those whose shape waits for values."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.reads, self.made = 0, 0, set[int]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found, name = function(*args, **(kwargs or {})), function.overloadpacket.__name__
        # What comes from the host is copied to a GPU.
        if name == "lift_fresh" or not any(part.alias_info and not part.alias_info.is_write for part in function._schema.returns):
            self.count += 1
            parts = found if isinstance(found, tuple | list) else [found]
            self.made |= {part.untyped_storage().data_ptr() for part in parts if getattr(part, "layout", None) is torch.strided}
        masks = [part for part in args[1] if part is not None] if name in ("index", "index_put", "index_put_") else []
        counted = name == "repeat_interleave" and not (kwargs or {}).get("output_size")
        self.reads += name in _SHAPED or counted or any(part.dtype is torch.bool for part in masks)
        return found


class Reads(TorchFunctionMode):
    """Counts how often what operations made is read back."""

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self.operations, self.count = operations, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in _READS:
            self.count += args[0].untyped_storage().data_ptr() in self.operations.made
        return function(*args, **(kwargs or {}))


class Letters(RelevanceModel):
    """The number of letters of a text."""

    name = "letters"

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([[float(len(text))] for text in texts])

    def score(self, latent: torch.Tensor) -> torch.Tensor:
        return latent[..., 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wiki-multihop")
    parser.add_argument("--questions", type=int, default=11)
    parser.add_argument("--system", action="append", help="retriever (default: all, and forms of some)")
    arguments = parser.parse_args()
    shared = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"))
    dataset = read_dataset(shared / "data" / arguments.dataset)
    graph = CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles)
    model = minilm()
    index = GraphIndex.from_graph(graph, vectors=embed_corpus(model, graph.contents(), cache=True), relevance=Letters())
    texts = [query.text for query in dataset.queries if query.split == "dev"][: arguments.questions + 1]
    vectors = embed_corpus(model, texts, cache=True)
    print(f"{arguments.dataset}, {len(index):,} nodes\n\n| retriever | operations | reads |\n| --- | --- | --- |")
    for name in arguments.system or [*every_system(), *_MORE]:
        try:
            retriever = Retriever(index, _MORE.get(name, name))
            counts = []
            for text, vector in zip(texts, vectors, strict=True):
                with Operations() as operations, Reads(operations) as reads:
                    retriever.retrieve(text, vector=vector)
                counts.append((operations.count, operations.reads + reads.count))
        except GraphRetrieverError as error:
            print(f"| {name} | {str(error).splitlines()[0]} | |")
            continue
        made, read = (int(statistics.median(column)) for column in zip(*counts[1:], strict=True))
        print(f"| {name} | {made} | {read} |")


if __name__ == "__main__":
    main()
