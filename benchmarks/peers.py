"""Every retriever by name on the shared datasets: one page with a table for each dataset and a sentence for each retriever.

Needs the extra offline. Vectors of a dataset are kept in the user's cache.

    python benchmarks/peers.py FOLDER_OF_DATASETS [--only citations,...] [--limit N] [--reranker DIR] [--checkpoints DIR]
        [--language-model MODULE:NAME] [--page FILE]

Trained retrievers read CHECKPOINTS/DATASET/NAME (see graph-retrievers fit); those of one class share a folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from kept import kept_index

from graph_retrievers.commands.imports import imported
from graph_retrievers.datasets import read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import ALL_FIVE, Evaluation
from graph_retrievers.evaluation.significance import holm, randomization_test
from graph_retrievers.evaluation.tables import source_rows
from graph_retrievers.systems.system import System, every_system

K = 10
DATASETS = ("wiki-multihop", "metaqa", "citations", "postgres-docs")
BASES = ("hybrid", "walk-fusion")
PREFACE = """# Every retriever by name

Made by `benchmarks/peers.py`: test questions, all-MiniLM-L6-v2, {models}; every retriever sees only the text of the question.
"ms" is the mean time of a single question, including its embedding. The columns against {bases} are differences of Recall@{k}
with the p-value of a paired randomisation test, with Holm's correction over all tests of a table; bold where p < 0.05. Recall@{k}
is capped: it counts the relevant nodes found as a share of those that {k} places can hold. {all_five}"""
Compared = Mapping[tuple[str, str], tuple[float, float]]


def evaluated(folder: Path, options: argparse.Namespace) -> Evaluation:
    """Return all retrievers on the test questions of a dataset."""
    dataset = read_dataset(folder)
    reranker = None
    if options.reranker:
        from graph_retrievers.signals.cross_encoder import CrossEncoder

        reranker = CrossEncoder(options.reranker, max_length=160, dtype="bfloat16")
    index = kept_index(dataset.graph(), edge_signals=True, relevance=reranker)
    language_model = imported("--language-model", options.language_model) if options.language_model else None
    queries = [query for query in dataset.queries if query.split == "test"][: options.limit]
    return evaluate(
        index,
        queries,
        _systems(options.checkpoints and Path(options.checkpoints) / folder.name, language_model),
        k=K,
        skip=True,
        timed_queries=options.timed,
        dataset=dataset.name,
        split="test",
        show_progress=True,
    )


def _systems(checkpoints: Path | None, language_model: Any) -> dict[str, System]:
    """Return every system by its name, with its checkpoint and the language model where it takes one."""
    made: dict[str, System] = {}
    for name, system in every_system().items():
        given: dict[str, Any] = {}
        if checkpoints and (checkpoints / name).is_dir():
            given["checkpoint"] = checkpoints / name
        if language_model is not None and any(field.name == "language_model" for field in fields(system)):
            given["language_model"] = language_model
        made[name] = replace(system, **given)
    return made


def against(evaluation: Evaluation) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the difference of mean recall and its corrected p-value for each retriever and base, where both were evaluated."""
    there = evaluation.retrievers
    pairs = [(name, base) for base in BASES for name in there if base in there and name != base]
    columns = {name: evaluation.column(name, f"recall@{K}") for name in there}
    p_values = holm([randomization_test(columns[name], columns[base]) for name, base in pairs])
    return {pair: (fmean(columns[pair[0]]) - fmean(columns[pair[1]]), p) for pair, p in zip(pairs, p_values, strict=True)}


def section(evaluation: Evaluation, compared: Compared) -> str:
    """Return the table of a dataset in Markdown, with who was left out."""
    shown = evaluation.multi_hop | {f"recall@{K}": f"Recall@{K}", f"ndcg@{K}": f"nDCG@{K}", "mrr": "MRR"}
    titles = ["retriever", *shown.values(), "ms", *(f"against {base}" for base in BASES)]
    rows = [titles, ["---"] * len(titles)]
    results = evaluation.results()
    for name in sorted(results, key=lambda name: -results[name][f"recall@{K}"]):
        seconds = results[name].get("seconds_per_query")
        cells = [f"{results[name][metric]:.3f}" for metric in shown]
        cells.append("-" if seconds is None else f"{1000 * seconds:.1f}")
        rows.append([name, *cells, *(_difference(compared.get((name, base))) for base in BASES)])
    graph = evaluation.graph
    head = f"## {evaluation.dataset}\n\n{len(evaluation.queries)} questions; {len(graph):,} nodes, {graph.num_edges:,} edges."
    parts = [head, _table(rows)]
    if by_source := source_rows(evaluation):
        parts.append(_table([by_source[0], ["---"] * len(by_source[0]), *by_source[1:]]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in evaluation.notes)])


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _difference(found: tuple[float, float] | None) -> str:
    if found is None:
        return "-"
    text = f"{found[0]:+.3f} (p = {found[1]:.3f})"
    return f"**{text}**" if found[1] < 0.05 else text


def sentence(name: str, tables: Mapping[str, Compared], ran: Mapping[str, Sequence[str]]) -> str:
    """Return where a retriever wins and loses by Recall@k against the bases, read from the figures."""
    said = []
    for base in BASES:
        found = {data: table[name, base] for data, table in tables.items() if (name, base) in table}
        kinds = {
            "above it on": [f"{data} ({d:+.3f})" for data, (d, p) in found.items() if p < 0.05 and d > 0],
            "below it on": [f"{data} ({d:+.3f})" for data, (d, p) in found.items() if p < 0.05 and d < 0],
            "not different on": [data for data, (_, p) in found.items() if p >= 0.05],
        }
        parts = [f"{kind} {', '.join(listed)}" for kind, listed in kinds.items() if listed]
        if parts:
            said.append(f"Against {base}: {'; '.join(parts)}")
    absent = [data for data, names in ran.items() if name not in names]
    if absent:
        said.append(f"Left out on {', '.join(absent)}")
    return f"- **{name}**: {'. '.join(said)}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(DATASETS), help="datasets, with commas between them")
    parser.add_argument("--limit", type=int, help="only the first so many questions of each dataset")
    parser.add_argument("--timed", type=int, default=20, help="questions that are timed one by one (default: 20)")
    parser.add_argument("--reranker", help="cross-encoder for re2, gar and fastinsight, which are left out without one")
    parser.add_argument("--checkpoints", help="folder with DATASET/NAME, for those that train and are left out without")
    model = "Python object for hyde and others, which are left out without one"
    parser.add_argument("--language-model", metavar="MODULE:NAME", help=model)
    default = Path(__file__).parent / "results" / "peers" / "README.md"
    parser.add_argument("--page", type=Path, default=default, help="file to write")
    options = parser.parse_args(arguments)
    sections, tables, ran = [], {}, {}
    for name in options.only.split(","):
        evaluation = evaluated(options.folder / name, options)
        tables[name], ran[name] = against(evaluation), evaluation.retrievers
        sections.append(section(evaluation, tables[name]))
        print(sections[-1], flush=True)
    models = f"{'the cross-encoder ' + Path(options.reranker).name if options.reranker else 'no cross-encoder'}, "
    models += "a language model" if options.language_model else "no language model"
    sentences = "\n".join(sentence(name, tables, ran) for name in every_system())
    preface = PREFACE.format(models=models, bases=" and ".join(BASES), k=K, all_five=ALL_FIVE)
    parts = [preface, *sections, f"## Where each wins and loses\n\n{sentences}"]
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
