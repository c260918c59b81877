"""One page that tells which retriever won, at what cost, and why."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from graph_retrievers.evaluation import plots
from graph_retrievers.evaluation.analysis import FATES, fates, recall_gain_correlations
from graph_retrievers.evaluation.metrics import relevant_nodes
from graph_retrievers.evaluation.results import Evaluation
from graph_retrievers.evaluation.significance import Comparison, compare
from graph_retrievers.evaluation.sweeps import Sweep
from graph_retrievers.evaluation.tables import format_seconds

__all__ = ["write_report"]

_DEFAULTS = {"alpha": 0.2, "beta": 1.0}
_FATE_MEANING = {
    "hit": "among the first k",
    "ranked low": "retrieved, but ranked below k by the reranker",
    "passed over": "a neighbour of a retrieved node; where the graph was walked, it stood in the frontier and the budget "
    "went to others",
    "never reached": "connected, but more than a step away from all that was retrieved",
    "not connected": "no path leads there from what was retrieved: no budget would do",
}
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #1c2430;
  background: #f4f5f7; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 28px 64px; background: #fff; box-shadow: 0 0 0 1px #e3e6ea; }
h1 { font-size: 27px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 42px 0 8px; padding-top: 14px; border-top: 1px solid #e3e6ea; }
p { max-width: 78ch; margin: 8px 0; }
.lead { font-size: 17px; }
.muted, figcaption { color: #5b6675; font-size: 13px; max-width: 90ch; }
.scroll { overflow-x: auto; margin: 12px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 5px 11px; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #c9d0d8; font-weight: 600; }
td { border-bottom: 1px solid #edf0f3; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.text { white-space: normal; }
td.best { font-weight: 700; }
td.up { background: #dff3ea; } td.down { background: #fbe5dc; } td.same { color: #8a94a1; }
sup { color: #5b6675; font-size: 10px; margin-left: 1px; }
figure { margin: 14px 0; } figure img { max-width: 100%; height: auto; display: block; }
code { background: #eef1f4; padding: 1px 4px; border-radius: 3px; font-size: 13px; }
details { margin: 10px 0; } summary { cursor: pointer; }
@media print { body { background: #fff; } main { box-shadow: none; } h2, figure, tr { break-inside: avoid; } }
"""


def write_report(
    evaluation: Evaluation,
    folder: str | Path,
    *,
    sweeps: Mapping[str, Sweep] | None = None,
    subject: str | None = None,
    seed: int = 0,
) -> Path:
    """Write an evaluation as one HTML page that stands by itself, and its pictures and numbers beside it.

    Parameters
    ----------
    evaluation : Evaluation
    folder : str or Path
        Gets ``report.html``, ``results.json`` and the pictures as ``*.svg``. The page holds the pictures too, so it
        can be sent alone.
    sweeps : mapping of str to Sweep, optional
        From :func:`~graph_retrievers.evaluation.sweeps.sweep_all`; without them their pictures are left out.
    subject : str, optional
        The retriever whose misses are explained; by default ``"fastinsight"`` where it was evaluated, else the best.
    seed : int, default 0
        Of the resampling.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed (extra ``eval``).
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    metric = f"recall@{evaluation.k}"
    comparisons = compare(evaluation, metric, seed=seed)
    means = {name: fmean(evaluation.column(name, metric)) for name in evaluation.retrievers}
    ranked = sorted(means, key=lambda name: -means[name])
    subject = subject or ("fastinsight" if "fastinsight" in means else ranked[0])
    drawn = _Pictures(target)
    parts = [
        _head(evaluation, ranked, means, comparisons),
        _main_table(evaluation, comparisons),
        drawn.figure("overview", plots.plot_overview(evaluation), f"Recall@{evaluation.k} of each retriever."),
        _pairs(evaluation, comparisons),
        _costs(evaluation),
        *_sweep_parts(sweeps or {}, drawn),
        _types(evaluation, drawn),
        _topology(evaluation, drawn),
        _misses(evaluation, subject, drawn),
        _examples(evaluation, subject, ranked),
        _settings(evaluation, seed),
    ]
    title = f"{evaluation.dataset or 'Evaluation'}: {len(evaluation.retrievers)} retrievers side by side"
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>\n{''.join(parts)}</main></body></html>\n"
    )
    path = target / "report.html"
    path.write_text(page, encoding="utf-8")
    content = evaluation.to_dict() | {"sweeps": {name: _sweep_numbers(sweep) for name, sweep in (sweeps or {}).items()}}
    (target / "results.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


class _Pictures:
    """Writes pictures beside the page and into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def figure(self, name: str, drawing: plots.Figure, caption: str) -> str:
        svg = plots.to_svg(drawing)
        (self.folder / f"{name}.svg").write_bytes(svg)
        alt = html.escape(caption, quote=True)
        return f'<figure><img alt="{alt}" src="{plots.data_uri(svg)}"><figcaption>{_text(caption)}</figcaption></figure>\n'


def _head(evaluation: Evaluation, ranked: list[str], means: dict[str, float], comparisons: Sequence[Comparison]) -> str:
    k, split = evaluation.k, f", split {evaluation.split}" if evaluation.split else ""
    lines = [f"<h1>{_text(evaluation.dataset or 'Evaluation')}</h1>"]
    size = f"{len(evaluation.graph):,} nodes, {evaluation.graph.num_edges:,} edges"
    lines.append(f'<p class="muted">{len(evaluation.queries)} queries{_text(split)}; {size}; k = {k}</p>')
    verdict = f"<strong>{_text(ranked[0])}</strong> has the highest Recall@{k}: {means[ranked[0]]:.3f}."
    if len(ranked) > 1:
        level = [c.worse for c in comparisons if c.better == ranked[0] and not c.real]
        level += [c.better for c in comparisons if c.worse == ranked[0]]
        second = next(c for c in comparisons if {c.better, c.worse} == {ranked[0], ranked[1]})
        verdict += f" Next is {_text(ranked[1])} with {means[ranked[1]]:.3f}: {_difference(second)}."
        if level:
            verdict += f" These queries do not tell it apart from {_text(_listed(level))}."
        else:
            verdict += " It is really above every other one."
    lines.append(f'<p class="lead">{verdict}</p>')
    lines += [f'<p class="muted">{_text(note)}</p>' for note in evaluation.notes]
    return "\n".join(lines) + "\n"


def _main_table(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> str:
    k, results = evaluation.k, evaluation.results()
    columns = {
        f"recall@{k}": f"Recall@{k}",
        f"ndcg@{k}": f"nDCG@{k}",
        "mrr": "MRR",
        "map": "MAP",
        "hit@1": "Hit@1",
        f"hit@{k}": f"Hit@{k}",
        f"uncapped-recall@{k}": "uncapped",
        f"tr@{k}": f"TR@{k}",
        f"miss-tr@{k}": "MissTR",
        "seconds_per_query": "time/query",
    }
    letters = _letters(evaluation)
    best = {name: max(values[name] for values in results.values()) for name in columns if name != "seconds_per_query"}
    rows = []
    for retriever, values in results.items():
        above = "".join(sorted(letters[c.worse] for c in comparisons if c.better == retriever and c.real))
        cells = [f"<td>{_text(retriever)} <sup>{letters[retriever]}</sup></td>"]
        for name in columns:
            if name == "seconds_per_query":
                cells.append(f"<td>{format_seconds(values.get(name))}</td>")
                continue
            mark = f"<sup>{above}</sup>" if above and name == f"recall@{k}" else ""
            # MissTR grows with what is missed, so no value of it is best.
            style = _best(values[name] == best[name] and not name.startswith("miss"))
            cells.append(f"<td{style}>{values[name]:.3f}{mark}</td>")
        rows.append("".join(cells))
    caption = (
        f"Recall@{k} is capped: the share of what {k} places can hold. Small letters behind it name the retrievers that it is "
        "really above (p < 0.05, see below). TR: Topological Recall, recall with credit for missed nodes that lie close in the "
        "graph; MissTR: the part from those. Time: one query by itself, its embedding included."
    )
    return "<h2>Results</h2>\n" + _table(["retriever", *columns.values()], rows, caption)


def _pairs(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return ""
    names, letters = evaluation.retrievers, _letters(evaluation)
    by_pair = {(c.better, c.worse): c for c in comparisons}
    rows = []
    for row in names:
        cells = [f"<td>{_text(row)} <sup>{letters[row]}</sup></td>"]
        for column in names:
            found = by_pair.get((row, column)) or by_pair.get((column, row))
            if found is None:
                cells.append("<td></td>")
                continue
            sign = 1 if found.better == row else -1
            style = ("up" if sign > 0 else "down") if found.real else "same"
            hint = f"95 % interval of the difference {found.low:.3f} to {found.high:.3f}, p = {_p(found.adjusted)}"
            cells.append(f'<td class="{style}" title="{hint}">{sign * round(found.difference, 3) + 0.0:+.3f}</td>')
        rows.append("".join(cells))
    caption = (
        "Row minus column. Coloured: real, by a two-sided paired randomisation test with Holm's correction over all "
        f"{len(comparisons)} pairs (p < 0.05). Grey: these queries do not tell. Point at a cell for the bootstrap interval."
    )
    return f"<h2>Which differences in Recall@{evaluation.k} are real</h2>\n" + _table(["", *letters.values()], rows, caption)


def _letters(evaluation: Evaluation) -> dict[str, str]:
    """Return a letter for each retriever, beyond those a number."""
    letters = string.ascii_letters
    return {name: letters[i] if i < len(letters) else f"({i})" for i, name in enumerate(evaluation.retrievers)}


def _costs(evaluation: Evaluation) -> str:
    if not evaluation.costs:
        return ""
    rows = []
    for name, costs in evaluation.costs.items():
        numbers = [costs.get(key) for key in ("encodes_per_query", "touched_per_query", "peak_memory_mb")]
        times = f"<td>{format_seconds(costs['seconds_per_query'])}</td><td>{format_seconds(costs['seconds_median'])}</td>"
        rows.append(f"<td>{_text(name)}</td>{times}" + "".join(f"<td>{'-' if n is None else f'{n:,.0f}'}</td>" for n in numbers))
    timed = max(costs["timed_queries"] for costs in evaluation.costs.values())
    caption = (
        f"Means of {timed} queries, run one by one and sharing nothing. Encodes: texts that the relevance model read. Touched: "
        "nodes looked at, where the retriever reports it. Memory: highest of the whole process meanwhile, with index and models."
    )
    titles = ["retriever", "time/query", "median", "encodes", "touched", "memory (MiB)"]
    return "<h2>What a query costs</h2>\n" + _table(titles, rows, caption)


def _sweep_parts(sweeps: Mapping[str, Sweep], drawn: _Pictures) -> list[str]:
    parts = []
    if "budget" in sweeps:
        count = len(sweeps["budget"].evaluation.queries)
        parts += [
            "<h2>Budget</h2>\n",
            drawn.figure(
                "budget-recall",
                plots.plot_budget_recall(sweeps["budget"]),
                f"Time against recall; the numbers are budgets. A sample of {count} queries; times of "
                f"{max((c['timed_queries'] for c in sweeps['budget'].evaluation.costs.values()), default=0)} of them.",
            ),
            drawn.figure(
                "budget-topological-recall",
                plots.plot_budget_topological_recall(sweeps["budget"]),
                f"How close to the relevant nodes all that was retrieved comes as the budget grows. The same {count} queries.",
            ),
        ]
    tuned = [sweeps[name] for name in ("alpha", "beta") if name in sweeps]
    if tuned:
        count = len(tuned[0].evaluation.queries)
        caption = (
            f"Recall by smoothing factor alpha and score ratio beta of FastInsight; the band marks the default. {count} queries."
        )
        parts += ["<h2>Sensitivity</h2>\n", drawn.figure("sensitivity", plots.plot_sensitivity(tuned, _DEFAULTS), caption)]
    return parts


def _types(evaluation: Evaluation, drawn: _Pictures) -> str:
    types = evaluation.types()
    if len(types) < 2:
        return ""
    metric, names = f"recall@{evaluation.k}", evaluation.retrievers
    rows = []
    for name, queries in types.items():
        means = [fmean(evaluation.column(retriever, metric, queries)) for retriever in names]
        cells = "".join(f"<td{_best(mean == max(means))}>{mean:.3f}</td>" for mean in means)
        rows.append(f"<td>{_text(name)}</td><td>{len(queries)}</td>{cells}")
    caption = f"Recall@{evaluation.k} by type of query."
    picture = drawn.figure("types", plots.plot_types(evaluation), caption + " In brackets: number of queries.")
    return "<h2>By type of query</h2>\n" + picture + _table(["type", "queries", *names], rows, caption)


def _topology(evaluation: Evaluation, drawn: _Pictures) -> str:
    first = "vector" if "vector" in evaluation.retrievers else evaluation.retrievers[0]
    k, rows = evaluation.k, []
    for name in evaluation.retrievers:
        found = recall_gain_correlations(evaluation, name, first) if name != first else None
        if found is not None:
            rows.append(f"<td>{_text(name)}</td>" + "".join(f"<td{_best(v == max(found))}>{v:.2f}</td>" for v in found))
    caption = f"Recall@{k} by how close in the graph the first search comes to the relevant nodes: Q1 the farthest."
    text = "<h2>Closeness in the graph</h2>\n" + drawn.figure("quartiles", plots.plot_quartiles(evaluation, first), caption)
    if rows:
        explained = (
            f"Correlation of Recall and of MissTR of the first {k} by {first} with the recall that all retrieved nodes add. "
            "A higher value for MissTR says that gains come where missed nodes lie close in the graph."
        )
        text += _table(["retriever", "Recall", "MissTR"], rows, explained)
    return text


def _misses(evaluation: Evaluation, subject: str, drawn: _Pictures) -> str:
    k = evaluation.k
    metric, types = f"recall@{k}", evaluation.types()
    listed = "".join(f"<li><strong>{fate}</strong>: {_text(_FATE_MEANING[fate])}</li>" for fate in FATES)
    text = f"<h2>What becomes of the relevant nodes</h2>\n<ul>{listed}</ul>\n"
    text += drawn.figure("fates", plots.plot_fates(evaluation, subject), f"Relevant nodes under {subject}, by type of query.")
    rows = []
    for name in evaluation.retrievers:
        counts = fates(evaluation, name)
        total = sum(counts.values())
        rows.append(f"<td>{_text(name)}</td>" + "".join(f"<td>{counts[fate] / total:.1%}</td>" for fate in FATES))
    text += _table(["retriever", *FATES], rows, "Shares of all relevant nodes.")
    sentences = []
    for name, queries in types.items():
        own = fmean(evaluation.column(subject, metric, queries))
        others = {n: fmean(evaluation.column(n, metric, queries)) for n in evaluation.retrievers if n != subject}
        if not others or own >= max(others.values()):
            continue
        best = max(others, key=lambda n: others[n])
        counts = fates(evaluation, subject, queries)
        missed = {fate: counts[fate] for fate in FATES if fate != "hit" and counts[fate]}
        shares = ", ".join(f"{count} {fate}" for fate, count in sorted(missed.items(), key=lambda item: -item[1]))
        sentences.append(
            f"<li><strong>{_text(name)}</strong> ({len(queries)} queries): {own:.3f} against {others[best]:.3f} of {_text(best)}. "
            f"Of {sum(counts.values())} relevant nodes it misses {sum(missed.values())}: {shares or 'none'}.</li>"
        )
    if sentences:
        text += f"<p>Types on which {_text(subject)} falls behind another retriever:</p>\n<ul>{''.join(sentences)}</ul>\n"
    return text


def _examples(evaluation: Evaluation, subject: str, ranked: Sequence[str], count: int = 5) -> str:
    other = next((name for name in ranked if name != subject), None)
    if other is None:
        return ""
    metric, graph = f"recall@{evaluation.k}", evaluation.graph
    own, theirs = evaluation.values[subject], evaluation.values[other]
    gain = {query.id: own[query.id][metric] - theirs[query.id][metric] for query in evaluation.queries}
    order = sorted(evaluation.queries, key=lambda query: -gain[query.id])
    rows = []
    for query in [q for q in order[:count] if gain[q.id] > 0] + [q for q in order[-count:] if gain[q.id] < 0]:
        ranks = []
        for node in sorted(relevant_nodes(evaluation.gold[query.id])):
            row = graph.row(node)
            places = [_place(evaluation.returned[name][query.id].ids, node) for name in (subject, other)]
            ranks.append(f"{_text(graph.titles[row] or node)}: {places[0]} / {places[1]}")
        cells = f'<td class="text">{_text(query.text)}</td><td>{gain[query.id]:+.2f}</td>'
        rows.append(f'{cells}<td class="text">{"<br>".join(ranks)}</td>')
    if not rows:
        return ""
    title = f"Where {subject} and {other} differ most"
    caption = f"Behind each relevant node its rank under {subject} / {other}; a dash: not among the first {evaluation.k}."
    header = '<th class="text">question</th><th>difference</th><th class="text">relevant nodes and their ranks</th>'
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f'<div class="scroll"><table><tr>{header}</tr>{body}</table></div>\n'
    return f"<h2>{_text(title)}</h2>\n{table}{_note(caption)}"


def _settings(evaluation: Evaluation, seed: int) -> str:
    shown = evaluation.settings | {"resampling seed": seed}
    rows = [f'<td>{_text(str(name))}</td><td class="text"><code>{_text(str(value))}</code></td>' for name, value in shown.items()]
    return "<h2>How it was made</h2>\n" + _table(["setting", ""], rows, "")


def _sweep_numbers(sweep: Sweep) -> dict[str, object]:
    results = sweep.evaluation.results()
    return {
        "queries": len(sweep.evaluation.queries),
        "values": [str(value) for value in sweep.values],
        "results": {name: [results[sweep.name(name, value)] for value in sweep.values] for name in sweep.retrievers},
    }


def _table(titles: Iterable[str], rows: Iterable[str], caption: str) -> str:
    header = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><tr>{header}</tr>\n{body}</table></div>\n{_note(caption)}'


def _note(caption: str) -> str:
    return f'<p class="muted">{_text(caption)}</p>\n' if caption else ""


def _difference(comparison: Comparison) -> str:
    real = "real" if comparison.real else "not certain"
    interval = f"95 % interval {comparison.low:+.3f} to {comparison.high:+.3f}"
    return f"a difference of {comparison.difference:.3f} ({interval}, p = {_p(comparison.adjusted)}: {real})"


def _p(value: float) -> str:
    return "0.0001 or less" if value <= 0.0001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _place(ids: Sequence[str], node: str) -> str:
    return str(ids.index(node) + 1) if node in ids else "-"


def _best(best: bool) -> str:
    return ' class="best"' if best else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _text(value: str) -> str:
    return html.escape(value, quote=False)
