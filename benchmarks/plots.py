"""Pictures of an evaluation, by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis import FATES, fates, quartiles
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sweeps import Sweep

from graph_retrievers.evaluation.metrics import relevant_nodes
from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.evaluation.significance import paired_bootstrap
from graph_retrievers.evaluation.topological import topological_credit

# The settings of FastInsight that the pictures mark.
_DEFAULTS = {"alpha": 0.2, "beta": 1.0}
# The colours of Okabe and Ito, which colour-blind readers can tell apart, and others for further retrievers.
_COLORS = {"fastinsight": "#D55E00", "vector": "#0072B2", "bm25": "#E69F00", "hybrid": "#009E73", "re2": "#CC79A7"}
_COLORS |= {"gar": "#56B4E9", "ppr": "#8C6D31", "spreading": "#999999"}
_MORE_COLORS = ["#882255", "#44AA99", "#332288", "#AA4499"]
_FATE_COLORS = dict(zip(FATES, ["#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#999999"], strict=True))
_MARKERS = "osD^vPX*<>p"


def write_pictures(
    evaluation: Evaluation, folder: Path, *, sweeps: Mapping[str, Sweep] | None = None, subject: str | None = None
) -> None:
    """Write the pictures of an evaluation as SVG files into a folder.

    Parameters
    ----------
    evaluation : Evaluation
    folder : Path
    sweeps : mapping of str to Sweep, optional
        Those of `sweep_all`, by parameter; without them, their pictures are left out.
    subject : str, optional
        The retriever whose relevant nodes are followed, by default ``"fastinsight"`` if it was evaluated, else the best.
    """
    sweeps, names = sweeps or {}, evaluation.retrievers
    best = max(names, key=lambda name: fmean(evaluation.column(name, f"recall@{evaluation.k}")))
    figures = {
        "overview": plot_overview(evaluation),
        "quartiles": plot_quartiles(evaluation, "vector" if "vector" in names else names[0]),
        "fates": plot_fates(evaluation, subject or ("fastinsight" if "fastinsight" in names else best)),
    }
    if evaluation.costs:
        figures["costs"] = plot_costs(evaluation.results(), evaluation.k)
    if len(evaluation.types()) > 1:
        figures["types"] = plot_types(evaluation)
    if "budget" in sweeps:
        figures["budget-recall"] = plot_budget_recall(sweeps["budget"])
        figures["budget-topological-recall"] = plot_budget_topological_recall(sweeps["budget"])
    if varied := [sweeps[name] for name in _DEFAULTS if name in sweeps]:
        figures["sensitivity"] = plot_sensitivity(varied, _DEFAULTS)
    for name, figure in figures.items():
        (folder / f"{name}.svg").write_bytes(to_svg(figure))


def plot_overview(evaluation: Evaluation) -> Figure:
    """Return bars of Recall@k with 95 % bootstrap intervals, one for each retriever."""
    names = evaluation.retrievers
    figure, axes = _rows(names, f"Recall@{evaluation.k} (bar: mean, whisker: 95 % interval)", 1.08)
    for row, (name, color) in enumerate(_colors(names).items()):
        values = evaluation.column(name, f"recall@{evaluation.k}")
        mean, interval = fmean(values), _interval(values)
        axes.barh(row, mean, color=color, height=0.7, xerr=interval, error_kw={"ecolor": "#333", "capsize": 3})
        axes.text(min(mean + interval[1][0], 1) + 0.01, row, f"{mean:.3f}", va="center", weight="bold")
    return figure


def plot_costs(results: Mapping[str, Mapping[str, float]], k: int) -> Figure:
    """Return a plot of Recall@k against the milliseconds of a query, with a point for each timed retriever.

    A line joins the points for which no other is both faster and better. `results` is the result of
    :meth:`~graph_retrievers.evaluation.outcome.Evaluation.results`.
    """
    points = {
        name: (1000 * values["seconds_per_query"], values[f"recall@{k}"])
        for name, values in results.items()
        if values.get("seconds_per_query")
    }
    figure, (axes,) = _figure(9, 5)
    others = set(points.values())
    best = [a for a in sorted(others) if not any(b != a and b[0] <= a[0] and b[1] >= a[1] for b in others)]
    if best:
        axes.plot(*zip(*best, strict=True), color="#bbbbbb", zorder=1)
    for place, (name, color) in enumerate(_colors(list(results)).items()):
        if name in points:
            axes.scatter(*points[name], color=color, marker=_MARKERS[place % len(_MARKERS)], s=50, label=_plain(name), zorder=2)
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds of a query (mean, one query at a time)")
    axes.set_ylabel(f"Recall@{k}")
    _widen(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8, ncols=1 + len(points) // 24)
    return figure


def plot_types(evaluation: Evaluation) -> Figure:
    """Return bars of Recall@k by type of query."""
    groups = [(f"{name}\n({len(queries)})", queries) for name, queries in evaluation.types().items()]
    figure, axes = _grouped(evaluation, groups, (11, 4.4))
    axes.tick_params(axis="x", labelsize=8)
    return figure


def plot_quartiles(evaluation: Evaluation, first: str) -> Figure:
    """Return bars of Recall@k by quartile of the first search's Topological Recall (FastInsight, Figure 5)."""
    groups = [
        (f"{name}: {low:.2f} to {high:.2f}\n({len(queries)} queries)", queries)
        for name, low, high, queries in quartiles(evaluation, first)
    ]
    figure, axes = _grouped(evaluation, groups, (9, 4.2), intervals=True)
    axes.set_xlabel(f"Topological Recall of the first {evaluation.k} by {_plain(first)}")
    return figure


def plot_budget_recall(sweep: Sweep) -> Figure:
    """Return Recall@k against query time: a curve for each retriever, a point for each budget (FastInsight, Figure 4)."""
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for name in sweep.retrievers:
        timed = [value for value in sweep.values if sweep.name(name, value) in sweep.evaluation.costs]
        seconds = [sweep.evaluation.costs[sweep.name(name, value)]["seconds_per_query"] for value in timed]
        curves[name] = list(zip(seconds, _recalls(sweep, name, timed), timed, strict=True))
    figure, axes = _curves({name: [point[:2] for point in points] for name, points in curves.items()})
    for name, color in _colors(sweep.retrievers).items():
        for x, y, value in {*curves[name][:1], *curves[name][-1:]}:
            place: dict[str, Any] = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 8}
            axes.annotate(f"{value:g}", (x, y), color=color, **place)
    axes.set_xlabel("mean time of a single query (seconds)")
    axes.set_ylabel(f"Recall@{sweep.evaluation.k}")
    axes.set_xlim(left=0)
    return figure


def plot_budget_topological_recall(sweep: Sweep) -> Figure:
    """Return Topological Recall of all retrieved nodes against the budget (FastInsight, Figure 6)."""
    evaluation = sweep.evaluation
    total = dict.fromkeys(evaluation.retrievers, 0.0)
    for query, gold in evaluation.gold.items():
        held = [evaluation.returned[label][query].candidates for label in total]
        for label, credit in zip(total, topological_credit(evaluation.graph, held, relevant_nodes(gold)), strict=True):
            total[label] += fmean(credit) / len(evaluation.gold)
    curves = {name: [(value, total[sweep.name(name, value)]) for value in sweep.values] for name in sweep.retrievers}
    figure, axes = _curves(curves)
    axes.set_xlabel("budget (nodes retrieved)")
    axes.set_ylabel("Topological Recall of all retrieved nodes")
    return figure


def plot_sensitivity(sweeps: Sequence[Sweep], defaults: dict[str, float]) -> Figure:
    """Return Recall@k against a parameter, one panel for each sweep; a band marks the default (FastInsight, Figure 7)."""
    figure, panels = _figure(4.8 * len(sweeps), 3.8, len(sweeps))
    for axes, sweep in zip(panels, sweeps, strict=True):
        places = range(len(sweep.values))
        for name, color in _colors(sweep.retrievers).items():
            axes.plot(places, _recalls(sweep, name, sweep.values), color=color, marker="o", label=_plain(name))
        if defaults.get(sweep.parameter) in sweep.values:
            middle = sweep.values.index(defaults[sweep.parameter])
            axes.axvspan(middle - 0.25, middle + 0.25, color="#F0E442", alpha=0.45, lw=0)
        axes.set_xticks(places, ["∞" if math.isinf(value) else f"{value:g}" for value in sweep.values])
        axes.set_xlabel(sweep.parameter)
        _widen(axes)
    panels[0].set_ylabel(f"Recall@{sweeps[0].evaluation.k}")
    panels[0].legend()
    return figure


def plot_fates(evaluation: Evaluation, retriever: str) -> Figure:
    """Return what happened to the relevant nodes under one retriever, by type of query, as stacked bars."""
    groups = {"all": list(evaluation.gold)} | evaluation.types()
    figure, axes = _rows(list(groups), f"share of relevant nodes under {retriever} (in the bars: their number)", 1)
    for row, queries in enumerate(groups.values()):
        counts, left = fates(evaluation, retriever, queries), 0.0
        for fate, color in _FATE_COLORS.items():
            share = counts[fate] / counts.total()
            axes.barh(row, share, left=left, color=color, height=0.72, label=fate if row == 0 else None)
            if share >= 0.04:
                axes.text(left + share / 2, row, f"{counts[fate]}", ha="center", va="center", fontsize=8, color="white")
            left += share
    _legend_above(axes, len(FATES))
    return figure


def to_svg(figure: Figure) -> bytes:
    """Return a figure as SVG; the same figure always has the same bytes."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "graph-retrievers", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Any]]:
    """Return a figure with panels side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    columns = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    for axes in columns:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, columns


def _plain(label: str) -> str:
    """Return a name as it is to be shown: two dollar signs would make a formula of what is between them."""
    return label.replace("$", r"\$")


def _rows(names: Sequence[str], label: str, right: float) -> tuple[Figure, Axes]:
    """Return a figure for horizontal bars, one row for each name."""
    figure, (axes,) = _figure(9, 1 + 0.36 * len(names))
    axes.set_yticks(range(len(names)), [_plain(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, right)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    return figure, axes


def _curves(curves: dict[str, list[tuple[float, float]]]) -> tuple[Figure, Axes]:
    """Return a figure of named curves of (x, y) points; names without points are left out."""
    figure, (axes,) = _figure(7.5, 4.6)
    for place, (name, color) in enumerate(_colors(list(curves)).items()):
        if curves[name]:
            axes.plot(*zip(*curves[name], strict=True), color=color, marker=_MARKERS[place % len(_MARKERS)], label=_plain(name))
    _widen(axes)
    axes.legend()
    return figure, axes


def _grouped(
    evaluation: Evaluation, groups: list[tuple[str, list[str]]], size: tuple[float, float], intervals: bool = False
) -> tuple[Figure, Axes]:
    """Return a figure of Recall@k as vertical bars, by groups of queries."""
    figure, (axes,) = _figure(*size)
    names = evaluation.retrievers
    width = 0.84 / len(names)
    for place, (name, color) in enumerate(_colors(names).items()):
        columns = [evaluation.column(name, f"recall@{evaluation.k}", queries) for _, queries in groups]
        offsets = [group - 0.42 + width * (place + 0.5) for group in range(len(groups))]
        heights = [fmean(column) for column in columns]
        axes.bar(offsets, heights, width * 0.95, color=color, label=_plain(name))
        if intervals:
            for offset, height, column in zip(offsets, heights, columns, strict=True):
                axes.errorbar(offset, height, yerr=_interval(column), ecolor="#333", elinewidth=0.8, capsize=1.5)
    axes.set_xticks(range(len(groups)), [_plain(label) for label, _ in groups])
    axes.set_ylabel(f"Recall@{evaluation.k}")
    axes.set_ylim(0, 1.02)
    axes.grid(axis="x", visible=False)
    _legend_above(axes, min(len(names), 8))
    return figure, axes


def _legend_above(axes: Axes, columns: int) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False, fontsize=8)


def _widen(axes: Axes, least: float = 0.1) -> None:
    """Let the vertical axis span at least `least`, so that noise does not look like a difference."""
    low, high = axes.get_ylim()
    middle, half = (low + high) / 2, max(high - low, least) * 0.55
    axes.set_ylim(middle - half, middle + half)


def _colors(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each name; common retrievers have the same colour in every picture."""
    free = iter(_MORE_COLORS * len(names))
    return {name: _COLORS.get(name) or next(free) for name in names}


def _recalls(sweep: Sweep, retriever: str, values: Sequence[float]) -> list[float]:
    return [fmean(sweep.evaluation.column(sweep.name(retriever, value), f"recall@{sweep.evaluation.k}")) for value in values]


def _interval(values: Sequence[float]) -> list[list[float]]:
    """Return the 95 % bootstrap interval of a mean, as distances below and above it."""
    mean = fmean(values)
    low, high = paired_bootstrap(values, [0.0] * len(values), samples=2000)
    return [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]
