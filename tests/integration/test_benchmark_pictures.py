"""What the pages of results show: pictures, what happens to relevant nodes, and settings varied."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from graph_retrievers.datasets import Query
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import Evaluation, Returned
from graph_retrievers.graph import CorpusGraph
from tests.helpers import WordOverlap, linked_index
from tests.integration.test_evaluate import QUERIES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(name):
    """A fixture: a module of the benchmarks, which import each other by their names."""

    def module(monkeypatch):
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module(name)

    return pytest.fixture(module, name=name)


plots, sweeps, analysis = map(benchmark, ("plots", "sweeps", "analysis"))


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


def test_sweeps_vary_what_a_retriever_has(sweeps):
    index = linked_index(relevance=WordOverlap())
    found = sweeps.sweep_all(index, QUERIES, ["vector", "re2", "fastinsight"], k=3, sample=4, timed_queries=1)
    assert set(found) == {"budget", "alpha", "beta"}
    budget = found["budget"]
    assert budget.retrievers == ("re2", "fastinsight") and len(budget.evaluation.queries) == 4
    for name in budget.retrievers:
        for value in budget.values:
            sizes = [len(r.candidates) for r in budget.evaluation.returned[budget.name(name, value)].values()]
            assert max(sizes) <= value
    plain = [r.ids for r in found["alpha"].evaluation.returned["fastinsight alpha=0.2"].values()]
    assert plain == [r.ids for r in found["beta"].evaluation.returned["fastinsight beta=1"].values()]
    assert sweeps.sweep_all(index, QUERIES, ["vector"], k=3) == {}


def made_evaluation():
    """a - b - c - d - e in a row, x - y apart; two retrievers with everything given."""
    graph = CorpusGraph(list("abcdexy"), list("abcdexy"), edges=[("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("x", "y")])
    queries = [Query("q0", "?", tuple("abce"), type="far"), Query("q1", "?", tuple("cex"), type="far"), Query("q2", "?", ("a",))]
    returned = {
        "first": {"q0": made("ad", "ad"), "q1": made("ae", "ae"), "q2": made("ab", "ab")},
        "walk": {"q0": made("ab", "abc"), "q1": made("ab", "abc"), "q2": made("ab", "ab")},
    }
    return Evaluation("made", "test", 2, queries, {q.id: q.gold for q in queries}, returned, graph)


def made(ids, found):
    return Returned(tuple(ids), (2.0, 1.0), tuple(found), tuple(float(-place) for place in range(len(found))))


def test_the_fate_of_every_relevant_node(analysis):
    evaluation = made_evaluation()

    def counted(retriever, query):
        return list(analysis.fates(evaluation, retriever, [query]).values())

    assert tuple(analysis.FATES) == ("hit", "ranked low", "passed over", "never reached", "not connected")
    # walk holds a, b, c: e is two steps from c, and nothing leads to x. first holds a, d: b, c and e are next to them.
    assert counted("walk", "q0") == [2, 1, 0, 1, 0]
    assert counted("walk", "q1") == [0, 1, 0, 1, 1]
    assert counted("first", "q0") == [1, 0, 3, 0, 0]
    whole = analysis.fates(evaluation, "walk")
    assert sum(whole.values()) == 8 and whole["hit"] == 3


def test_quartiles_keep_equal_values_together(analysis):
    evaluation = made_evaluation()
    groups = analysis.quartiles(evaluation, "first")
    assert sorted(q for _, _, _, queries in groups for q in queries) == ["q0", "q1", "q2"]
    assert groups[0][1] <= groups[0][2] <= groups[-1][1] and groups[-1][3] == ["q2"] and groups[-1][0].endswith("Q4")
    same = replace_results(evaluation, "first", "walk")
    assert analysis.quartiles(same, "walk")[0][0].startswith("Q1")


def replace_results(evaluation, name, source):
    return replace(evaluation, returned={**evaluation.returned, name: evaluation.returned[source]})
