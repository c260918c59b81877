"""The pictures on the pages of results."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from graph_retrievers.datasets import Query
from graph_retrievers.evaluation.harness import evaluate
from tests.helpers import linked_index

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUERIES = [
    Query("q1", "Which machine did Ada Lovelace write a program for?", ("ada", "engine"), "test", "bridge"),
    Query("q2", "What data do punched cards hold in a loom?", ("cards", "jacquard"), "test", "bridge"),
    Query("q3", "Which company grew out of tabulating machines?", ("ibm",), "test", "single"),
]


@pytest.fixture
def plots(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("plots")


def test_the_picture_of_costs_joins_what_nothing_else_beats(plots):
    times = {"slow": (2.0, 0.8), "fast": (0.001, 0.2), "beaten": (0.5, 0.1), "good": (0.01, 0.7), "worse": (0.01, 0.6)}
    results = {name: {"recall@5": recall, "seconds_per_query": seconds} for name, (seconds, recall) in times.items()}
    [axes] = plots.plot_costs({**results, "not timed": {"recall@5": 1.0}}, 5).axes
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "Recall@5"
    assert [tuple(point) for point in axes.lines[0].get_xydata().round(6)] == [(1.0, 0.2), (10.0, 0.7), (2000.0, 0.8)]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(times)
    assert plots.plot_costs({"a": {"recall@5": 1.0}}, 5).axes


def test_a_type_with_dollar_signs_is_drawn_as_it_is(plots, tmp_path):
    odd = [replace(query, type="$x_{$" if query.type == "single" else "\x1b$y^^$") for query in QUERIES]
    evaluation = evaluate(linked_index(), odd, ["vector", "bm25"], k=3, timed_queries=0)
    plots.write_pictures(evaluation, tmp_path, subject="vector")
    made = {file.stem: file for file in tmp_path.glob("*.svg")}
    assert set(made) == {"overview", "types", "quartiles", "fates"}
    assert all(b"<path" in file.read_bytes() for file in made.values())
