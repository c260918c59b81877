"""Pages of results: Markdown tables, numbers as JSON, pictures as SVG; nothing that quotes a dataset."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis import FATES, fates

from graph_retrievers.evaluation.outcome import ALL_FIVE, Evaluation
from graph_retrievers.evaluation.significance import Comparison, compare
from graph_retrievers.evaluation.tables import format_seconds, source_rows

PICTURES = {
    "overview": "Recall of each retriever, with 95 % bootstrap intervals.",
    "costs": "Recall against the time of a query. No other retriever is both faster and better than one on the line.",
    "types": "Recall by type of question, with the number of questions in brackets.",
    "quartiles": "Recall by how close in the graph the results of vector search are to the relevant nodes: Q1 is the farthest.",
    "budget-recall": "Time of one query against recall, on a sample of the questions; the numbers are budgets.",
    "budget-topological-recall": "How close all retrieved nodes are to the relevant nodes as the budget grows.",
    "sensitivity": "Recall by smoothing factor alpha and score ratio beta of FastInsight; the band marks the default.",
    "fates": "What happens to the relevant nodes, by type of question.",
}


def write_page(evaluation: Evaluation, folder: Path, title: str, says: str, settings: Mapping[str, Any]) -> None:
    """Write ``README.md`` and ``metrics.json`` into a folder; pictures that lie there are shown.

    Parameters
    ----------
    evaluation : Evaluation
    folder : Path
    title, says : str
        Heading, and what was compared.
    settings : mapping
        Versions, seeds, precision and date, beside those of the evaluation.
    """
    metric = f"recall@{evaluation.k}"
    made = {"graph_retrievers" if name == "version" else name: value for name, value in evaluation.settings.items()}
    comparisons = compare(evaluation, metric, seed=evaluation.settings["seed"])
    found = {name: dict(fates(evaluation, name)) for name in evaluation.retrievers}
    numbers: dict[str, Any] = {
        "title": title,
        "dataset": evaluation.dataset,
        "split": evaluation.split,
        "k": evaluation.k,
        "queries": len(evaluation.queries),
        "results": _rounded(evaluation.results()),
        "types": {
            kind: {"queries": len(queries)}
            | {name: round(fmean(evaluation.column(name, metric, queries)), 4) for name in evaluation.retrievers}
            for kind, queries in evaluation.types().items()
        },
        "relevant_nodes": found,
        "comparisons": [
            {"better": c.better, "worse": c.worse}
            | {n: round(getattr(c, n), 5) for n in ("difference", "low", "high", "p_value", "adjusted")}
            for c in comparisons
        ],
        "settings": {**made, **settings},
        "notes": evaluation.notes,
    }
    parts = [
        f"# {title}\n\n{says} {len(evaluation.queries)} questions of the split {evaluation.split!r}; "
        f"{len(evaluation.graph):,} nodes, {evaluation.graph.num_edges:,} edges; k = {evaluation.k}.",
        *evaluation.notes,
        _main(evaluation, comparisons),
        _types(numbers["types"], evaluation),
        _sources(evaluation),
        _fates(found),
        *_pictures(folder),
        _settings(numbers["settings"]),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


# Pages that other programs make.
_OTHERS = """[A manual with hyperlinks](postgres-docs/README.md), from its sections and from its raw pages, compared with
retrievers of LangChain, LlamaIndex and DataStax: `benchmarks/manual.py`.

[Every retriever by name](peers/README.md) on four datasets, and where each wins and loses: `benchmarks/peers.py`.

[The form of WalkFusion](forms/README.md) on encyclopedias of different sizes and on manuals: `benchmarks/forms.py`.

[Every walk alone and fused with hybrid search](walks/README.md): `benchmarks/walks.py`.

[Every system in one table](systems/README.md), with the first two, five and ten results: `benchmarks/systems.py`.

[Embedding](embedding/README.md): texts per second compared with sentence-transformers, and the cost of bfloat16:
`benchmarks/embedding.py`.

[WalkFusion](walk-fusion/README.md) list by list on five datasets, and with shuffled edges: `benchmarks/walk_fusion.py`.

[G-RAG](g-rag/README.md) over the first 100 documents of two searches, with ablations: `benchmarks/grag.py`.

[LeSeGR](lesegr/README.md) compared with its parts, with ablations and training curves: `benchmarks/lesegr.py`.

[Path reranking](path-reranking/README.md) with an untrained and a trained cross-encoder: `benchmarks/path_reranking.py`.

[A language model as judge](language-model-relevance/README.md): what it costs and the most it can gain:
`benchmarks/language_model_relevance.py`.

[Manuals split by common splitters](splits/README.md) of LangChain and LlamaIndex: `benchmarks/splits.py`.

[Time and memory](scale/README.md) for indexes of up to a million nodes: `benchmarks/scale.py`.

[Search by words and by vectors](signals/README.md) beside bm25s and faiss: `benchmarks/signals.py`.

[A question in PostgreSQL](postgres/README.md) on up to 1,000,000 nodes, beside memory, Bolt with Qdrant, and plain hybrid queries:
`benchmarks/postgres.py`.
"""


def write_contents(root: Path) -> None:
    """Write the ``README.md`` of the folder that holds the pages: a line each, from their numbers."""
    rows = [["results", "questions", "best by Recall@k", "Recall@k", "made on"]]
    for file in sorted(root.glob("*/metrics.json")):
        held = json.loads(file.read_text(encoding="utf-8"))
        recall = {name: values[f"recall@{held['k']}"] for name, values in held["results"].items()}
        best = max(recall, key=lambda name: recall[name])
        link = f"[{held['title']}]({file.parent.name}/README.md)"
        rows.append([link, str(held["queries"]), best, f"{recall[best]:.3f}", held["settings"]["date"]])
    (root / "README.md").write_text(
        "# Results on real graphs\n\n`make results` creates the pages of this table from the shared datasets. Each gives its "
        f"versions and seeds.\n\n{_table(rows)}\n\n{_OTHERS}",
        encoding="utf-8",
    )


def _main(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> str:
    k, results = evaluation.k, evaluation.results()
    letters = dict(zip(results, string.ascii_letters, strict=False))
    shown = evaluation.multi_hop | {f"recall@{k}": f"Recall@{k}", f"ndcg@{k}": f"nDCG@{k}"}
    shown |= {"mrr": "MRR", "hit@1": "Hit@1", f"tr@{k}": f"TR@{k}"}
    timed = bool(evaluation.costs)
    encoded = any(values.get("encodes_per_query") for values in results.values())
    costs = [*(["time/query"] if timed else []), *(["encodes"] if encoded else [])]
    rows = [["", "retriever", *shown.values(), *costs, "really above"]]
    for name, values in results.items():
        cells = [_bold(values[m], max(v[m] for v in results.values())) for m in shown]
        if timed:
            cells.append(format_seconds(values.get("seconds_per_query")))
        if encoded:
            cells.append(f"{values.get('encodes_per_query', 0):.0f}")
        above = " ".join(letters[c.worse] for c in comparisons if c.better == name and c.real)
        rows.append([letters[name], name, *cells, above or "-"])
    text = f"{_table(rows)}\n\nRecall@{k} is capped: "
    text += f"it counts the relevant nodes found as a share of those that {k} places can hold. "
    text += f"{ALL_FIVE} " if evaluation.multi_hop else ""
    text += "TR: Topological Recall, which gives credit for missed nodes that are close in the graph. "
    text += f"Really above: the retrievers with a significantly lower Recall@{k}, by a two-sided paired randomisation test, "
    text += f"p < 0.05 with Holm's correction over {len(comparisons)} pairs."
    if timed:
        count = max(measured["timed_queries"] for measured in evaluation.costs.values())
        what = "Time and encodes (texts the cross-encoder read): means" if encoded else "Time: mean"
        text += f" {what} of {count} queries, run one by one with nothing shared."
    return text


def _types(types: Mapping[str, Mapping[str, float]], evaluation: Evaluation) -> str:
    if len(types) < 2:
        return ""
    rows = [["type", "questions", *evaluation.retrievers]]
    for kind, values in types.items():
        best = max(values[name] for name in evaluation.retrievers)
        rows.append([kind, f"{values['queries']:.0f}", *(_bold(values[name], best) for name in evaluation.retrievers)])
    return f"## Recall@{evaluation.k} by type of question\n\n{_table(rows)}"


def _sources(evaluation: Evaluation) -> str:
    rows = source_rows(evaluation)
    return f"## By source of the questions\n\n{_table(rows)}" if rows else ""


def _fates(found: Mapping[str, Mapping[str, int]]) -> str:
    rows = [["retriever", *FATES]]
    for name, counts in found.items():
        rows.append([name, *(f"{100 * counts[fate] / sum(counts.values()):.1f} %" for fate in FATES)])
    return (
        f"## What happens to the relevant nodes\n\n{_table(rows)}\n\nHit: among the first k. Ranked low: retrieved, but ranked "
        "below k. Passed over: a neighbour of a retrieved node. Never reached: connected, but more than one step away. Not "
        "connected: no path leads there."
    )


def _pictures(folder: Path) -> list[str]:
    there = [(name, says) for name, says in PICTURES.items() if (folder / f"{name}.svg").is_file()]
    return ["## Pictures", *(f"![{says}]({name}.svg)\n\n{says}" for name, says in there)] if there else []


def _settings(settings: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in settings.items() if name != "retrievers"}
    rows = [["setting", "value"], *([name, f"`{value}`"] for name, value in plain.items())]
    rows += [[name, f"`{description}`"] for name, description in settings["retrievers"].items()]
    return f"## How it was made\n\n{_table(rows)}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _bold(value: float, best: float) -> str:
    return f"**{value:.3f}**" if f"{value:.3f}" == f"{best:.3f}" else f"{value:.3f}"


def _rounded(results: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {metric: round(value, 5) for metric, value in values.items()} for name, values in results.items()}
