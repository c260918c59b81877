"""Every system that walks, alone and fused with hybrid search, beside the searches: does a walk cost what search finds?

    python benchmarks/walks.py FOLDER_OF_DATASETS [--split test] [--only citations,...] [--systems ppr,...] [--page FILE]

Those that need a checkpoint, a plan, a relevance model or a language model are left out. Vectors are kept in the user's cache.
The page is made from figures.json beside it, in which only what is measured anew is replaced. Needs the extra offline.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from kept import kept_index

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.metrics import capped_recall
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems import (
    BM25,
    MMR,
    PPR,
    Eager,
    FastInsight,
    Fused,
    GRetriever,
    HippoRAG,
    Hybrid,
    LeSeGR,
    LightRAG,
    LinearRAG,
    PathRAG,
    Scored,
    SpreadingActivation,
    System,
    Vector,
    WalkFusion,
)

DATASETS = ("wiki-multihop", "postgres-docs", "python-docs", "citations", "pubmedqa", "eu-acts", "metaqa")
SEARCHES = (Vector(), BM25(), Hybrid(), WalkFusion())
WALKS = (
    PPR(),
    SpreadingActivation(),
    SpreadingActivation(hub_exponent=1, threshold=0.001),
    SpreadingActivation(gate="uniform"),
    Eager(),
    Scored(),
    MMR(),
    FastInsight(),
    LeSeGR(),
    GRetriever(),
    LightRAG(),
    PathRAG(),
    HippoRAG(),
    LinearRAG(),
    LinearRAG(damping=0.5),
)
K = 10
PREFACE = """Made by `benchmarks/walks.py --split {split} --page FILE`: Recall@10 on the questions of the split "{split}", whose
number follows the name of the dataset, with all-MiniLM-L6-v2, signals over nodes and edges, no language model and no cross-encoder.
Each cell of a walk has the system alone / `Fused(system, Hybrid())`. Recall@10 is capped: it counts the relevant nodes found as a
share of those that 10 places can hold. An asterisk says that the system alone finds less than vector search (p < 0.05 by a paired
randomisation test, without a correction for the number of tests).

`FastInsight` ranks by the vectors here, and `LeSeGR` is untrained. Systems that need a checkpoint, a plan, a relevance model or a
language model are left out. An empty cell was not measured: LinearRAG embeds every name and every sentence, which takes long, and
metaqa has no sentences."""


def measured(dataset: Dataset, split: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the recall of the systems of these names, alone and fused, and which find less than vector search."""
    index = kept_index(dataset.graph(), edge_signals=True)
    queries = [query for query in dataset.queries if query.split in split.split("+")]
    texts = [query.text for query in queries]
    vectors = embed_corpus(index.embedding, texts, cache=True)

    def recalls(system: System) -> list[float]:
        found = Retriever(index, system).retrieve_batch(texts, K, vectors=vectors)
        gold = [dict.fromkeys(query.gold, 1.0) for query in queries]
        scores = [capped_recall([hit.id for hit in hits], each, K) for hits, each in zip(found, gold, strict=True)]
        print(f"{fmean(scores):.4f} {system!r}", flush=True)
        return scores

    vector, recall, below = recalls(Vector()), {}, {}
    for system in (*SEARCHES, *WALKS):
        if system.name not in names or (dataset.name == "metaqa" and isinstance(system, LinearRAG)):
            continue
        scores = recalls(system)
        recall[repr(system)] = fmean(scores)
        below[repr(system)] = fmean(scores) < fmean(vector) and randomization_test(scores, vector) < 0.05
        if system in WALKS:
            recall[fused(repr(system))] = fmean(recalls(Fused(system, Hybrid())))
    return {"split": split, "questions": len(queries), "recall": recall, "below_vector": below}


def fused(name: str) -> str:
    """Return how a system fused with hybrid search is written."""
    return f"Fused({name}, Hybrid())"


def cell(figures: Mapping[str, Any], name: str) -> str:
    """Return the cell of a system in the column of a dataset."""
    recall, star = figures["recall"], "*" * figures["below_vector"].get(name, False)
    return " / ".join(f"{recall[each]:.3f}{end}" for each, end in ((name, star), (fused(name), "")) if each in recall)


def page(columns: Mapping[str, Mapping[str, Any]], split: str) -> str:
    """Return the page, as Markdown, from the figures of each dataset."""
    titles = [f"{name}, {figures['questions']}" for name, figures in columns.items()]
    lines = [f"| system | {' | '.join(titles)} |", "| --- " * (len(titles) + 1) + "|"]
    for name in map(repr, (*SEARCHES, *WALKS)):
        lines.append(f"| `{name}` | {' | '.join(cell(figures, name) for figures in columns.values())} |")
    return "\n".join(["# Walks alone and fused with search", "", PREFACE.format(split=split), "", *lines, ""])


def main() -> None:
    """Measure the datasets and systems that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test", help="one or several, with a plus between them")
    parser.add_argument("--only", default=",".join(DATASETS), help="datasets, with commas between them")
    names = dict.fromkeys(system.name for system in (*SEARCHES, *WALKS))
    parser.add_argument("--systems", default=",".join(names), help="systems by their short names, with commas between them")
    parser.add_argument("--page", type=Path, help="file to write, as Markdown")
    options = parser.parse_args()
    kept = options.page and options.page.with_name("figures.json")
    figures = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    # A page has the figures of one split.
    figures = {name: column for name, column in figures.items() if column["split"] == options.split}
    for name in options.only.split(","):
        found = measured(read_dataset(options.folder / name), options.split, options.systems.split(","))
        for part in ("recall", "below_vector"):
            found[part] = figures.get(name, {}).get(part, {}) | found[part]
        figures[name] = found
        columns = {dataset: figures[dataset] for dataset in DATASETS if dataset in figures}
        text = page(columns, options.split)
        print(text, flush=True)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(columns, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
