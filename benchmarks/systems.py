"""Every system by its short name on shared datasets: Recall@2, @5 and @10 and the time of a question, in one table.

    python benchmarks/systems.py FOLDER_OF_DATASETS [--split test] [--only wiki-multihop,...] [--reranker DIR]
        [--language-model MODULE:NAME] [--limit N] [--page FILE]

Systems that lack something, such as a checkpoint, are left out; the page says why. Vectors are kept in the user's cache. The page
is made from figures.json beside it, in which only the datasets that are measured anew are replaced. Needs the extra offline.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from kept import kept_index

from graph_retrievers.commands.imports import imported
from graph_retrievers.datasets import read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.systems.system import every_system

DATASETS = ("wiki-multihop", "metaqa", "postgres-docs")
K = 10
METRICS = ("uncapped-recall@2", "uncapped-recall@5", f"recall@{K}", "seconds_per_query")
PREFACE = """Made by `benchmarks/systems.py --split {split} --page FILE`: Recall@2 / Recall@5 / Recall@10 and the mean time
of a question in milliseconds, with its embedding, on the questions of the split "{split}", whose number follows the name of the
dataset; all systems by their short names with their default settings, all-MiniLM-L6-v2, signals over nodes and edges. Recall@10 is
capped: it counts the relevant nodes found as a share of those that 10 places can hold. Times are of one machine with two cores and
other work on it: compare them within a column.

{models}. Systems that lack something are left out: training, or one of these models. `think-on-graph` and `hykge` choose by the
vectors of texts where no language model does, and `linear-rag` is on the page of [walks](../walks/README.md)."""


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the metrics of every system on a dataset, and why others were left out."""
    dataset = read_dataset(folder)
    reranker = None
    if options.reranker:
        from graph_retrievers.signals.cross_encoder import CrossEncoder

        reranker = CrossEncoder(options.reranker, max_length=160)
    index = kept_index(dataset.graph(), edge_signals=True, relevance=reranker)
    model = imported("--language-model", options.language_model) if options.language_model else None
    systems = every_system()
    for name, system in systems.items():
        if model is not None and any(field.name == "language_model" for field in fields(system)):
            systems[name] = replace(system, language_model=model)
    # It embeds all names and sentences of a corpus, and has a page of its own.
    systems.pop("linear-rag")
    queries = [query for query in dataset.queries if query.split == options.split][: options.limit]
    found = evaluate(index, queries, systems, k=K, skip=True, timed_queries=20, dataset=dataset.name, split=options.split)
    results = found.results()
    rows = {name: [results[name][metric] for metric in METRICS] for name in found.retrievers}
    return {"split": options.split, "questions": len(found.gold), "rows": rows, "notes": found.notes}


def cell(values: list[float] | None) -> str:
    """Return the cell of a system in the column of a dataset."""
    return "" if values is None else f"{values[0]:.3f} / {values[1]:.3f} / {values[2]:.3f}, {1000 * values[3]:.0f} ms"


def page(columns: Mapping[str, Mapping[str, Any]], options: argparse.Namespace) -> str:
    """Return the page, as Markdown, from the figures of each dataset."""
    titles = [f"{name}, {column['questions']}" for name, column in columns.items()]
    lines = [f"| system | {' | '.join(titles)} |", "| --- " * (len(titles) + 1) + "|"]
    for name in dict.fromkeys(name for column in columns.values() for name in column["rows"]):
        lines.append(f"| `{name}` | {' | '.join(cell(column['rows'].get(name)) for column in columns.values())} |")
    models = "No language model" if not options.language_model else "With a language model"
    models += " and no cross-encoder" if not options.reranker else " and with a small cross-encoder"
    preface = PREFACE.format(split=options.split, models=models)
    return "\n".join(["# Every system in one table", "", preface, "", *lines, ""])


def main() -> None:
    """Measure the datasets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--only", default=",".join(DATASETS), help="datasets, with commas between them")
    parser.add_argument("--reranker", type=Path, help="folder of a cross-encoder")
    parser.add_argument("--language-model", help="MODULE:NAME of a language model")
    parser.add_argument("--limit", type=int, help="questions of each dataset")
    parser.add_argument("--page", type=Path, help="file to write, as Markdown")
    options = parser.parse_args()
    kept = options.page and options.page.with_name("figures.json")
    figures = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    # A page has the figures of one split.
    figures = {name: column for name, column in figures.items() if column["split"] == options.split}
    for name in options.only.split(","):
        figures[name] = measured(options.folder / name, options)
        columns = {name: figures[name] for name in DATASETS if name in figures}
        text = page(columns, options)
        print(text, *figures[name]["notes"], sep="\n", flush=True)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(columns, indent=1) + "\n", encoding="utf-8")
            options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
