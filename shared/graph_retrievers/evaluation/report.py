"""A page that shows which retriever is best, at what cost, and why."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from graph_retrievers.evaluation import plots
from graph_retrievers.evaluation.analysis import FATES, fates, recall_gain_correlations
from graph_retrievers.evaluation.metrics import relevant_nodes
from graph_retrievers.evaluation.outcome import ALL_FIVE, Evaluation
from graph_retrievers.evaluation.run_files import write_text
from graph_retrievers.evaluation.significance import Comparison, compare
from graph_retrievers.evaluation.sweeps import Sweep
from graph_retrievers.evaluation.tables import format_seconds, listed, source_rows

__all__ = ["write_numbers", "write_report"]

_DEFAULTS = {"alpha": 0.2, "beta": 1.0}
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #1c2430;
  background: #f4f5f7; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 28px 64px; background: #fff; box-shadow: 0 0 0 1px #e3e6ea; }
h1 { font-size: 27px; margin: 0; } h2 { font-size: 19px; margin: 42px 0 8px; padding-top: 14px; border-top: 1px solid #e3e6ea; }
p { max-width: 78ch; margin: 8px 0; } .lead { font-size: 17px; }
.muted, figcaption { color: #5b6675; font-size: 13px; max-width: 90ch; } .scroll { overflow-x: auto; margin: 12px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 5px 11px; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #c9d0d8; font-weight: 600; } td { border-bottom: 1px solid #edf0f3; }
th:first-child, td:first-child, td.text { text-align: left; } td.text { white-space: normal; }
td.best { font-weight: 700; } td.up { background: #dff3ea; } td.down { background: #fbe5dc; } td.same { color: #8a94a1; }
sup { color: #5b6675; font-size: 10px; margin-left: 1px; }
figure { margin: 14px 0; } figure img { max-width: 100%; height: auto; display: block; }
@media print { body { background: #fff; } main { box-shadow: none; } h2, figure, tr { break-inside: avoid; } }
"""

# Writes a figure of a name and a caption; returns its HTML.
_Draw = Callable[[str, "plots.Figure", str], str]


def write_report(
    evaluation: Evaluation,
    folder: str | Path,
    *,
    sweeps: Mapping[str, Sweep] | None = None,
    subject: str | None = None,
    seed: int = 0,
) -> Path:
    """Write an evaluation as ``report.html`` in a folder, and its plots and numbers also as files; return the path of the page.

    The numbers are in ``results.json``; the page contains its plots, which need matplotlib (extra ``eval``). `sweeps` are those
    of :func:`~graph_retrievers.evaluation.sweeps.sweep_all`; without them their plots are left out. `subject` is the retriever
    whose misses are explained, by default ``"fastinsight"`` if it was evaluated, else the best. `seed` is that of the resampling.
    """
    target, metric = Path(folder), f"recall@{evaluation.k}"
    # First of all, since pictures may fail.
    write_numbers(evaluation, target, sweeps)
    comparisons = compare(evaluation, metric, seed=seed)
    means = {name: fmean(evaluation.column(name, metric)) for name in evaluation.retrievers}
    ranked = sorted(means, key=lambda name: -means[name])
    subject = subject or ("fastinsight" if "fastinsight" in means else ranked[0])

    def draw(name: str, figure: plots.Figure, caption: str) -> str:
        svg, alt = plots.to_svg(figure), html.escape(caption)
        (target / f"{name}.svg").write_bytes(svg)
        return f'<figure><img alt="{alt}" src="{plots.data_uri(svg)}"><figcaption>{_text(caption)}</figcaption></figure>\n'

    parts = [
        _head(evaluation, ranked, means, comparisons),
        _main_table(evaluation, comparisons),
        draw("overview", plots.plot_overview(evaluation), f"Recall@{evaluation.k} of each retriever."),
        _pairs(evaluation, comparisons),
        _costs(evaluation, draw),
        _sweeps(sweeps or {}, draw),
        _types(evaluation, draw),
        _sources(evaluation),
        _topology(evaluation, draw),
        _misses(evaluation, subject, draw),
        _examples(evaluation, subject, ranked),
        _settings(evaluation, seed),
    ]
    title = f"{evaluation.dataset or 'Evaluation'}: {len(evaluation.retrievers)} retrievers side by side"
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>\n{''.join(parts)}</main></body></html>\n"
    )
    write_text(target / "report.html", page)
    return target / "report.html"


def write_numbers(evaluation: Evaluation, folder: str | Path, sweeps: Mapping[str, Sweep] | None = None) -> None:
    """Write the numbers of an evaluation as ``results.json`` into a folder; arguments as for :func:`write_report`."""
    content = evaluation.to_dict() | {"sweeps": {name: _sweep_numbers(sweep) for name, sweep in (sweeps or {}).items()}}
    write_text(Path(folder) / "results.json", json.dumps(content, indent=1) + "\n")


def _head(evaluation: Evaluation, ranked: list[str], means: dict[str, float], comparisons: Sequence[Comparison]) -> str:
    k, split, best = evaluation.k, f", split {evaluation.split}" if evaluation.split else "", ranked[0]
    size = f"{len(evaluation.graph):,} nodes, {evaluation.graph.num_edges:,} edges"
    verdict = f"<strong>{_text(best)}</strong> has the highest Recall@{k}: {means[best]:.3f}."
    if len(ranked) > 1:
        second = next(c for c in comparisons if {c.better, c.worse} == {best, ranked[1]})
        interval = f"95 % interval {second.low:+.3f} to {second.high:+.3f}"
        real = "significant" if second.real else "not significant"
        difference = f"a difference of {second.difference:.3f} ({interval}, p = {_p(second.adjusted)}: {real})"
        verdict += f" Next is {_text(ranked[1])} with {means[ranked[1]]:.3f}: {difference}."
        level = [c.worse for c in comparisons if c.better == best and not c.real]
        level += [c.better for c in comparisons if c.worse == best]
        if level:
            verdict += f" The difference to {_text(listed(level))} is not significant on these queries."
        else:
            verdict += " It is significantly above all others."
    notes = "".join(map(_note, [f"{len(evaluation.queries)} queries{split}; {size}; k = {k}", *evaluation.notes]))
    return f'<h1>{_text(evaluation.dataset or "Evaluation")}</h1>\n<p class="lead">{verdict}</p>\n{notes}'


def _main_table(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> str:
    k, results, letters = evaluation.k, evaluation.results(), _letters(evaluation)
    columns = evaluation.multi_hop | {f"recall@{k}": f"Recall@{k}", f"ndcg@{k}": f"nDCG@{k}"}
    columns |= {"mrr": "MRR", "map": "MAP", "hit@1": "Hit@1"}
    columns |= {f"hit@{k}": f"Hit@{k}", f"uncapped-recall@{k}": "uncapped", f"tr@{k}": f"TR@{k}", f"miss-tr@{k}": "MissTR"}
    columns |= {"mtrr": "MTRR", f"tmhits@{k}": f"TMHits@{k}"}
    best = {name: max(values[name] for values in results.values()) for name in columns}
    # MissTR grows with the number of missed nodes, so its highest value is not the best.
    del best[f"miss-tr@{k}"]
    rows = []
    for retriever, values in results.items():
        above = "".join(sorted(letters[c.worse] for c in comparisons if c.better == retriever and c.real))
        cells = [_td(retriever, mark=letters[retriever])]
        for name in columns:
            css = "best" if values[name] == best.get(name) else ""
            cells.append(_td(f"{values[name]:.3f}", css, above if name == f"recall@{k}" else ""))
        rows.append([*cells, _td(format_seconds(values.get("seconds_per_query")))])
    caption = (
        f"Recall@{k} is capped: the share of what {k} places can hold. Small letters after it name the retrievers that it is "
        "significantly above (p < 0.05, see below). TR: Topological Recall, recall with credit for missed nodes that are close in "
        "the graph; MissTR: the part from those. MTRR, TMHits: mean reciprocal rank and hits of the relevant nodes among all nodes "
        "that were scored, where equal scores are ties. Time: a single query, with its embedding."
    ) + (f" {ALL_FIVE}" if evaluation.multi_hop else "")
    return _section("Results", _table(["retriever", *columns.values(), "time/query"], rows, caption))


def _pairs(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return ""
    names, letters = evaluation.retrievers, _letters(evaluation)
    by_pair = {(c.better, c.worse): c for c in comparisons}

    def cell(row: str, column: str) -> str:
        found = by_pair.get((row, column)) or by_pair.get((column, row))
        if found is None:
            return "<td></td>"
        sign = 1 if found.better == row else -1
        css = ("up" if sign > 0 else "down") if found.real else "same"
        hint = f"95 % interval of the difference {found.low:.3f} to {found.high:.3f}, p = {_p(found.adjusted)}"
        return f'<td class="{css}" title="{hint}">{sign * round(found.difference, 3) + 0.0:+.3f}</td>'

    rows = [[_td(row, mark=letters[row]), *(cell(row, column) for column in names)] for row in names]
    caption = (
        "Row minus column. Coloured: significant by a two-sided paired randomisation test with Holm's correction over all "
        f"{len(comparisons)} pairs (p < 0.05). Grey: not significant. Point at a cell for the bootstrap interval."
    )
    return _section(f"Significant differences in Recall@{evaluation.k}", _table(["", *letters.values()], rows, caption))


def _letters(evaluation: Evaluation) -> dict[str, str]:
    """Return a letter for each retriever, or a number if there are more than 52."""
    letters = string.ascii_letters
    return {name: letters[i] if i < len(letters) else f"({i})" for i, name in enumerate(evaluation.retrievers)}


def _costs(evaluation: Evaluation, draw: _Draw) -> str:
    if not evaluation.costs:
        return ""
    rows = []
    for name, costs in evaluation.costs.items():
        numbers = [costs.get(key) for key in ("encodes_per_query", "touched_per_query", "peak_memory_mb")]
        times = [format_seconds(costs[key]) for key in ("seconds_per_query", "seconds_median")]
        rows.append(map(_td, [name, *times, *("-" if n is None else f"{n:,.0f}" for n in numbers)]))
    timed = max(costs["timed_queries"] for costs in evaluation.costs.values())
    caption = (
        f"Means of {timed} queries that were run one at a time. Encodes: texts that the relevance model read. Touched: nodes "
        "looked at, if the retriever reports it. Memory: highest of the whole process in that time, with index and models."
    )
    titles = ["retriever", "time/query", "median", "encodes", "touched", "memory (MiB)"]
    says = f"Recall@{evaluation.k} against time. No retriever is both faster and better than one on the line."
    picture = draw("costs", plots.plot_costs(evaluation.results(), evaluation.k), says)
    return _section("Cost of a query", _table(titles, rows, caption) + picture)


def _sweeps(sweeps: Mapping[str, Sweep], draw: _Draw) -> str:
    text = ""
    if "budget" in sweeps:
        sweep = sweeps["budget"]
        count = len(sweep.evaluation.queries)
        timed = max((costs["timed_queries"] for costs in sweep.evaluation.costs.values()), default=0)
        caption = f"Time against recall; the numbers are budgets. A sample of {count} queries, {timed} of them timed."
        text += _section("Budget", draw("budget-recall", plots.plot_budget_recall(sweep), caption))
        caption = f"Topological Recall of all retrieved nodes against the budget. The same {count} queries."
        text += draw("budget-topological-recall", plots.plot_budget_topological_recall(sweep), caption)
    tuned = [sweeps[name] for name in ("alpha", "beta") if name in sweeps]
    if tuned:
        count = len(tuned[0].evaluation.queries)
        caption = f"Recall by smoothing factor alpha and score ratio beta of FastInsight; the band is the default. {count} queries."
        text += _section("Sensitivity", draw("sensitivity", plots.plot_sensitivity(tuned, _DEFAULTS), caption))
    return text


def _types(evaluation: Evaluation, draw: _Draw) -> str:
    types, names = evaluation.types(), evaluation.retrievers
    if len(types) < 2:
        return ""
    rows = []
    for name, queries in types.items():
        means = [fmean(evaluation.column(retriever, f"recall@{evaluation.k}", queries)) for retriever in names]
        rows.append([_td(name), _td(len(queries)), *_best(means, ".3f")])
    caption = f"Recall@{evaluation.k} by type of query."
    picture = draw("types", plots.plot_types(evaluation), caption + " In brackets: number of queries.")
    return _section("By type of query", picture + _table(["type", "queries", *names], rows, caption))


def _sources(evaluation: Evaluation) -> str:
    titles, *rows = source_rows(evaluation) or [[]]
    return _section("By source", _table(titles, (map(_td, row) for row in rows), ALL_FIVE)) if rows else ""


def _topology(evaluation: Evaluation, draw: _Draw) -> str:
    first, k = "vector" if "vector" in evaluation.retrievers else evaluation.retrievers[0], evaluation.k
    caption = f"Recall@{k} by how close in the graph the first search comes to the relevant nodes: Q1 is the farthest."
    text = draw("quartiles", plots.plot_quartiles(evaluation, first), caption)
    found = {name: recall_gain_correlations(evaluation, name, first) for name in evaluation.retrievers if name != first}
    rows = [[_td(name), *_best(pair, ".2f")] for name, pair in found.items() if pair is not None]
    if rows:
        caption = (
            f"Correlation of Recall and of MissTR of the first {k} by {first} with the recall that all retrieved nodes add. "
            "A higher value for MissTR means that recall is gained where missed nodes are close in the graph."
        )
        text += _table(["retriever", "Recall", "MissTR"], rows, caption)
    return _section("Distance in the graph", text)


def _misses(evaluation: Evaluation, subject: str, draw: _Draw) -> str:
    meanings = "".join(f"<li><strong>{fate}</strong>: {_text(meaning)}</li>" for fate, meaning in FATES.items())
    text = f"<ul>{meanings}</ul>\n"
    text += draw("fates", plots.plot_fates(evaluation, subject), f"Relevant nodes under {subject}, by type of query.")
    rows = []
    for name in evaluation.retrievers:
        counts = fates(evaluation, name)
        rows.append(map(_td, [name, *(f"{counts[fate] / counts.total():.1%}" for fate in FATES)]))
    text += _table(["retriever", *FATES], rows, "Shares of all relevant nodes.")
    behind = ""
    for name, queries in evaluation.types().items():
        means = {n: fmean(evaluation.column(n, f"recall@{evaluation.k}", queries)) for n in evaluation.retrievers}
        best = max(means, key=lambda n: means[n])
        if means[subject] == means[best]:
            continue
        counts = fates(evaluation, subject, queries)
        missed = [(fate, count) for fate, count in counts.most_common() if fate != "hit" and count]
        shares = ", ".join(f"{count} {fate}" for fate, count in missed)
        behind += (
            f"<li><strong>{_text(name)}</strong> ({len(queries)} queries): {means[subject]:.3f} against {means[best]:.3f} of "
            f"{_text(best)}. Of {counts.total()} relevant nodes it misses {sum(n for _, n in missed)}: {shares or 'none'}.</li>"
        )
    if behind:
        text += f"<p>Types on which another retriever is better than {_text(subject)}:</p>\n<ul>{behind}</ul>\n"
    return _section("What happens to the relevant nodes", text)


def _examples(evaluation: Evaluation, subject: str, ranked: Sequence[str], count: int = 5) -> str:
    other = next((name for name in ranked if name != subject), None)
    if other is None:
        return ""
    metric, graph = f"recall@{evaluation.k}", evaluation.graph
    own, theirs = evaluation.values[subject], evaluation.values[other]
    gain = {query.id: own[query.id][metric] - theirs[query.id][metric] for query in evaluation.queries}
    order = sorted(evaluation.queries, key=lambda query: -gain[query.id])

    def rank(retriever: str, query: str, node: str) -> str:
        ids = evaluation.returned[retriever][query].ids
        return str(ids.index(node) + 1) if node in ids else "-"

    rows = []
    for query in [q for q in order[:count] if gain[q.id] > 0] + [q for q in order[-count:] if gain[q.id] < 0]:
        ranks = [
            f"{_text(graph.titles[graph.row(node)] or node)}: {rank(subject, query.id, node)} / {rank(other, query.id, node)}"
            for node in sorted(relevant_nodes(evaluation.gold[query.id]))
        ]
        rows.append([_td(query.text, "text"), _td(f"{gain[query.id]:+.2f}"), f'<td class="text">{"<br>".join(ranks)}</td>'])
    if not rows:
        return ""
    caption = f"After each relevant node, its rank under {subject} / {other}; a dash: not among the first {evaluation.k}."
    table = _table(["question", "difference", "relevant nodes and their ranks"], rows, caption)
    return _section(f"Where {subject} and {other} differ most", table)


def _settings(evaluation: Evaluation, seed: int) -> str:
    shown = evaluation.settings | {"resampling seed": seed}
    return _section("Settings", _table(["setting", ""], ([_td(name), _td(value, "text")] for name, value in shown.items()), ""))


def _sweep_numbers(sweep: Sweep) -> dict[str, object]:
    results = sweep.evaluation.results()
    return {
        "queries": len(sweep.evaluation.queries),
        "values": [str(value) for value in sweep.values],
        "results": {name: [results[sweep.name(name, value)] for value in sweep.values] for name in sweep.retrievers},
    }


def _section(title: str, content: str) -> str:
    return f"<h2>{_text(title)}</h2>\n{content}"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    header = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><tr>{header}</tr>\n{body}</table></div>\n{_note(caption)}'


def _td(content: object, css: str = "", mark: str = "") -> str:
    style, mark = f' class="{css}"' if css else "", f"<sup>{mark}</sup>" if mark else ""
    return f"<td{style}>{_text(str(content))}{mark}</td>"


def _best(values: Sequence[float], form: str) -> list[str]:
    """Return cells of numbers, the highest in bold."""
    return [_td(f"{value:{form}}", "best" if value == max(values) else "") for value in values]


def _note(caption: str) -> str:
    return f'<p class="muted">{_text(caption)}</p>\n' if caption else ""


def _p(value: float) -> str:
    return "0.0001 or less" if value <= 0.0001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _text(value: str) -> str:
    return html.escape(value, quote=False)
