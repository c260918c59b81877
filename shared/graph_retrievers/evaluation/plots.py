"""Pictures of an evaluation (matplotlib, extra ``eval``), each returned as a figure."""

from __future__ import annotations

import base64
import importlib.util
import io
import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import MissingDependencyError
from graph_retrievers.evaluation.analysis import FATES, fates, quartiles
from graph_retrievers.evaluation.metrics import relevant_nodes
from graph_retrievers.evaluation.results import Evaluation
from graph_retrievers.evaluation.significance import paired_bootstrap
from graph_retrievers.evaluation.sweeps import Sweep
from graph_retrievers.evaluation.topological import topological_credit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_matplotlib",
    "data_uri",
    "plot_budget_recall",
    "plot_budget_topological_recall",
    "plot_fates",
    "plot_overview",
    "plot_quartiles",
    "plot_sensitivity",
    "plot_types",
    "to_svg",
]

# Okabe and Ito's colours, which colour-blind readers can tell apart, and three more.
_COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31", "#999999", "#882255", "#44AA99", "#332288", "#AA4499"]
_SUBJECT = "#D55E00"
_FATE_COLORS = dict(zip(FATES, ["#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#999999"], strict=True))
_MARKERS = "osD^vPX*<>p"


def check_matplotlib() -> None:
    """Raise MissingDependencyError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib is not installed; run pip install 'graph-retrievers[eval]'.")


def plot_overview(evaluation: Evaluation) -> Figure:
    """Return bars of Recall@k with 95 % bootstrap intervals, one a retriever."""
    names, metric = evaluation.retrievers, f"recall@{evaluation.k}"
    figure, axes = _figure(9, 0.8 + 0.36 * len(names))
    colors = _colors(names)
    for row, name in enumerate(names):
        values = evaluation.column(name, metric)
        mean = fmean(values)
        axes.barh(row, mean, color=colors[name], height=0.7, xerr=_interval(values), error_kw={"ecolor": "#333", "capsize": 3})
        axes.text(min(mean + _interval(values)[1][0], 1) + 0.01, row, f"{mean:.3f}", va="center", weight="bold")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.08)
    axes.set_xlabel(f"Recall@{evaluation.k} (bar: mean, whisker: 95 % interval)")
    axes.grid(axis="y", visible=False)
    return figure


def plot_types(evaluation: Evaluation) -> Figure:
    """Return bars of Recall@k by type of query."""
    types, names = evaluation.types(), evaluation.retrievers
    figure, axes = _figure(11, 4.4)
    _grouped(axes, evaluation, [(f"{name}\n({len(queries)})", queries) for name, queries in types.items()], names)
    axes.tick_params(axis="x", labelsize=8)
    return figure


def plot_quartiles(evaluation: Evaluation, first: str) -> Figure:
    """Return bars of Recall@k by quartile of the first search's Topological Recall (FastInsight, Figure 5)."""
    figure, axes = _figure(9, 4.2)
    groups = [
        (f"{name}: {low:.2f} to {high:.2f}\n({len(queries)} queries)", queries)
        for name, low, high, queries in quartiles(evaluation, first)
    ]
    _grouped(axes, evaluation, groups, evaluation.retrievers, intervals=True)
    axes.set_xlabel(f"Topological Recall of the first {evaluation.k} by {first}")
    return figure


def plot_budget_recall(sweep: Sweep) -> Figure:
    """Return query time against Recall@k, a curve a retriever and a point a budget (FastInsight, Figure 4)."""
    figure, axes = _figure(7.5, 4.6)
    colors, metric = _colors(sweep.retrievers), f"recall@{sweep.evaluation.k}"
    for place, name in enumerate(sweep.retrievers):
        points = [
            (sweep.evaluation.costs[label]["seconds_per_query"], fmean(sweep.evaluation.column(label, metric)), value)
            for value in sweep.values
            if (label := sweep.name(name, value)) in sweep.evaluation.costs
        ]
        if not points:
            continue
        seconds, recalls, values = zip(*points, strict=True)
        axes.plot(seconds, recalls, color=colors[name], marker=_MARKERS[place % len(_MARKERS)], label=name)
        for position in {0, len(points) - 1}:
            axes.annotate(
                f"{values[position]:g}",
                (seconds[position], recalls[position]),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=colors[name],
            )
    axes.set_xlabel("mean time of one query by itself (seconds)")
    axes.set_ylabel(f"Recall@{sweep.evaluation.k}")
    axes.set_xlim(left=0)
    _widened(axes)
    axes.legend()
    return figure


def plot_budget_topological_recall(sweep: Sweep) -> Figure:
    """Return Topological Recall of all that was retrieved against the budget (FastInsight, Figure 6)."""
    figure, axes = _figure(7.5, 4.6)
    colors, evaluation = _colors(sweep.retrievers), sweep.evaluation
    labels = [sweep.name(name, value) for name in sweep.retrievers for value in sweep.values]
    total = dict.fromkeys(labels, 0.0)
    for query, gold in evaluation.gold.items():
        held = [evaluation.returned[label][query].found for label in labels]
        for label, credit in zip(labels, topological_credit(evaluation.graph, held, relevant_nodes(gold)), strict=True):
            total[label] += fmean(credit) / len(evaluation.gold)
    for place, name in enumerate(sweep.retrievers):
        heights = [total[sweep.name(name, value)] for value in sweep.values]
        axes.plot(sweep.values, heights, color=colors[name], marker=_MARKERS[place % len(_MARKERS)], label=name)
    axes.set_xlabel("budget (nodes retrieved)")
    axes.set_ylabel("Topological Recall of all retrieved")
    _widened(axes)
    axes.legend()
    return figure


def plot_sensitivity(sweeps: Sequence[Sweep], defaults: dict[str, float]) -> Figure:
    """Return Recall@k against a parameter, one panel a sweep; a band marks the default (FastInsight, Figure 7)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * len(sweeps), 3.8), layout="constrained")
    panels = figure.subplots(1, len(sweeps), sharey=True, squeeze=False)[0]
    for axes, sweep in zip(panels, sweeps, strict=True):
        _styled(axes)
        places, colors = range(len(sweep.values)), _colors(sweep.retrievers)
        for name in sweep.retrievers:
            metric = f"recall@{sweep.evaluation.k}"
            heights = [fmean(sweep.evaluation.column(sweep.name(name, value), metric)) for value in sweep.values]
            axes.plot(places, heights, color=colors[name], marker="o", label=name)
        if defaults.get(sweep.parameter) in sweep.values:
            middle = sweep.values.index(defaults[sweep.parameter])
            axes.axvspan(middle - 0.25, middle + 0.25, color="#F0E442", alpha=0.45, lw=0)
        axes.set_xticks(places, ["∞" if math.isinf(value) else f"{value:g}" for value in sweep.values])
        axes.set_xlabel(sweep.parameter)
        _widened(axes)
    panels[0].set_ylabel(f"Recall@{sweeps[0].evaluation.k}")
    panels[0].legend()
    return figure


def plot_fates(evaluation: Evaluation, retriever: str) -> Figure:
    """Return what became of the relevant nodes under one retriever, by type of query, as stacked bars."""
    groups = {"all": list(evaluation.gold)} | evaluation.types()
    figure, axes = _figure(9, 1.2 + 0.36 * len(groups))
    for row, queries in enumerate(groups.values()):
        counts = fates(evaluation, retriever, queries)
        left, total = 0.0, sum(counts.values())
        for fate in FATES:
            share = counts[fate] / total
            axes.barh(row, share, left=left, color=_FATE_COLORS[fate], height=0.72, label=fate if row == 0 else None)
            if share >= 0.04:
                axes.text(left + share / 2, row, f"{counts[fate]}", ha="center", va="center", fontsize=8, color="white")
            left += share
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"share of relevant nodes under {retriever} (in the bars: their number)")
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(FATES), frameon=False, fontsize=8)
    return figure


def to_svg(figure: Figure) -> bytes:
    """Return a figure as SVG; the same figure gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "graph-retrievers", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def data_uri(svg: bytes) -> str:
    """Return an SVG as a data URI, which a page can hold."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, _styled(figure.subplots())


def _styled(axes: Any) -> Any:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    return axes


def _widened(axes: Axes, least: float = 0.1) -> None:
    """Let the vertical axis span at least `least`, so that noise does not look like a difference."""
    low, high = axes.get_ylim()
    middle, half = (low + high) / 2, max(high - low, least) * 0.55
    axes.set_ylim(middle - half, middle + half)


def _colors(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each name; the same in every picture of retrievers that are always there."""
    known = ["vector", "bm25", "hybrid", "re2", "gar", "ppr", "spreading"]
    free = iter(_COLORS[len(known) :] * len(names))
    chosen = {}
    for name in names:
        if name == "fastinsight":
            chosen[name] = _SUBJECT
        else:
            chosen[name] = _COLORS[known.index(name)] if name in known else next(free)
    return chosen


def _grouped(
    axes: Axes, evaluation: Evaluation, groups: list[tuple[str, list[str]]], names: Sequence[str], intervals: bool = False
) -> None:
    colors, width, metric = _colors(names), 0.84 / len(names), f"recall@{evaluation.k}"
    for place, name in enumerate(names):
        columns = [evaluation.column(name, metric, queries) for _, queries in groups]
        offsets = [group - 0.42 + width * (place + 0.5) for group in range(len(groups))]
        heights = [fmean(column) for column in columns]
        axes.bar(offsets, heights, width * 0.95, color=colors[name], label=name)
        if intervals:
            for offset, height, column in zip(offsets, heights, columns, strict=True):
                axes.errorbar(offset, height, yerr=_interval(column), ecolor="#333", elinewidth=0.8, capsize=1.5)
    axes.set_xticks(range(len(groups)), [label for label, _ in groups])
    axes.set_ylabel(f"Recall@{evaluation.k}")
    axes.set_ylim(0, 1.02)
    axes.grid(axis="x", visible=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(len(names), 8), frameon=False, fontsize=8)


def _interval(values: Sequence[float]) -> list[list[float]]:
    """Return the 95 % bootstrap interval of a mean, as distances below and above it."""
    mean = fmean(values)
    low, high = paired_bootstrap(values, [0.0] * len(values), samples=2000)
    return [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]
