"""How hybrid search fuses: the table of docs/retrievers/search.md, Recall@10 of weighted sums and of reciprocal ranks.

    python benchmarks/fusion.py [--only pubmedqa,eu-acts]

Reads data/ in the folder that GRAPH_RETRIEVERS_SHARED names (../shared beside the repository by default), of each dataset the first
150 questions of dev and of train. The weight is that of the vectors, and BM25 has what is left of 1. After the table
comes, for each dataset, the weight that is best on the mean of all others: the one that would have been chosen without it. Vectors
are those of all-MiniLM-L6-v2, kept in the cache. Needs the extra test.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import fmean

from kept import kept_index
from results import shared_folder

from graph_retrievers import Hybrid
from graph_retrievers.datasets import is_dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate

WEIGHTS = {f"{weight:g}": Hybrid(weights=(weight, 1 - weight)) for weight in (0.4, 0.5, 0.6)}
SYSTEMS = {"vectors": "vector", "BM25": "bm25", "reciprocal ranks": Hybrid(fusion="rrf"), **WEIGHTS}
QUESTIONS = 150


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, a line for each dataset as soon as it is measured, and the weights chosen without each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", help="datasets, with commas between them (default: all)")
    options = parser.parse_args(arguments)
    folder = shared_folder() / "data"
    names = options.only.split(",") if options.only else sorted(path.name for path in folder.iterdir() if is_dataset(path))
    print("| dataset | questions |", " | ".join(SYSTEMS), "|\n" + "| --- " * (len(SYSTEMS) + 2) + "|", flush=True)
    columns: dict[str, dict[str, float]] = {}
    for name in names:
        dataset = read_dataset(folder / name)
        parts = ([query for query in dataset.queries if query.split == split and query.gold] for split in ("dev", "train"))
        queries = [query for part in parts for query in part[:QUESTIONS]]
        found = evaluate(kept_index(dataset.graph()), queries, SYSTEMS, k=10, timed_queries=0)
        columns[name] = {system: fmean(found.column(system, "recall@10")) for system in SYSTEMS}
        print(f"| {name} | {len(queries):,} |", " | ".join(f"{recall:.3f}" for recall in columns[name].values()), "|", flush=True)
    means = {system: fmean(column[system] for column in columns.values()) for system in SYSTEMS}
    print("| mean | |", " | ".join(f"{mean:.4f}" for mean in means.values()), "|")
    for name in columns:
        others = {weight: fmean(columns[other][weight] for other in columns if other != name) for weight in WEIGHTS}
        if len(columns) > 1:
            print(f"without {name}: {max(others, key=others.__getitem__)}")


if __name__ == "__main__":
    main()
