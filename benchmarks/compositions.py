"""The retrievers that docs/compose.md composes and measures, on questions of two shared datasets.

Needs the extra offline. The code is read from the page: python benchmarks/compositions.py FOLDER_OF_DATASETS [--split dev]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graph_retrievers.datasets import read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.significance import compare
from graph_retrievers.evaluation.tables import results_table
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.signals.sentence_encoder import minilm

PAGE = Path(__file__).parents[1] / "docs" / "compose.md"
NAMES = ("pagerank_then_paths", "paths_then_words")


def composed() -> dict[str, Any]:
    """Return the functions of the page that make the operators, by name."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    block = next(block for block in blocks if f"def {NAMES[0]}(" in block)
    exec(block.partition("\nprint(")[0], names)
    return {name: names[name] for name in NAMES}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="wiki-multihop,postgres-docs", help="datasets, with commas between them")
    parser.add_argument("--split", default="test")
    options = parser.parse_args(arguments)
    for name in options.only.split(","):
        dataset, model = read_dataset(options.folder / name), minilm()
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=model, cache=True, show_progress=True)
        queries = [query for query in dataset.queries if query.split == options.split]
        own = {name: Retriever(index, make()) for name, make in composed().items()}
        found = evaluate(index, queries, {"hybrid": "hybrid", "walk-fusion": "walk-fusion", **own}, timed_queries=0)
        print(f"{dataset.name}, {options.split}: {len(queries)} questions\n{results_table(found, compare(found, 'recall@10'))}")


if __name__ == "__main__":
    main()
