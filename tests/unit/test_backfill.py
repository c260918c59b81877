"""Scores of hits that vector search fills up with: below the others, on their scale."""

import math

import pytest
import torch

from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Backfill
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.retrievers.registry import build_retriever
from tests.helpers import linked_index

ROWS = 8


def filled(scores):
    """Rank the last nodes with the given scores and fill up to all; return nodes and scores."""
    graph = CorpusGraph([str(row) for row in range(ROWS)], ["text"] * ROWS)
    index = GraphIndex.from_graph(graph, vectors=[[1.0 - row / ROWS] for row in range(ROWS)], bm25=False)
    queries = Queries.of(index, ["q"], vectors=[[1.0]], k=ROWS)
    found = torch.arange(ROWS - len(scores), ROWS).unsqueeze(0)
    ranking = Backfill()(queries, Ranking.of(found, torch.tensor([scores]), "Mine")).top(ROWS)
    return ranking.nodes[0].tolist(), ranking.scores[0].tolist()


def test_half_a_third_and_a_quarter_of_the_last_score():
    nodes, scores = filled([0.9, 0.6])
    assert nodes == [6, 7, 0, 1, 2, 3, 4, 5]
    assert scores[2:5] == pytest.approx([0.3, 0.2, 0.15])


@pytest.mark.parametrize("last", [0.04, 1e-30, 12.5, 3e38, float("inf")])
def test_scores_above_zero_are_followed_by_scores_above_zero(last):
    _, scores = filled([last, last])
    assert all(math.isfinite(score) for score in scores[2:])
    assert all(a > b > 0 for a, b in zip(scores[1:], scores[2:], strict=False))


@pytest.mark.parametrize("last", [-0.04, -11.0])
def test_scores_below_zero_stay_on_the_scale_of_the_last(last):
    _, scores = filled([2.0, last])
    assert all(a > b > 2 * last for a, b in zip(scores[1:], scores[2:], strict=False))


def test_zero_is_followed_by_zero():
    assert filled([1.0, 0.0])[1] == [1.0] + [0.0] * (ROWS - 1)


def test_a_list_that_was_empty_has_the_scores_of_the_search():
    assert filled([]) == (list(range(ROWS)), [1.0 - row / ROWS for row in range(ROWS)])


def test_thousands_of_added_nodes_have_different_scores():
    graph = CorpusGraph([str(row) for row in range(20_001)], [""] * 20_001)
    index = GraphIndex.from_graph(graph, vectors=[[1.0 - row / 20_001] for row in range(20_001)], bm25=False)
    queries = Queries.of(index, ["q"], vectors=[[1.0]], k=20_001)
    scores = Backfill()(queries, Ranking.of(torch.tensor([[20_000]]), torch.tensor([[0.5]]), "Mine")).scores[0]
    assert bool((scores[1:] < scores[:-1]).all())


@pytest.mark.parametrize("name", ["spreading", "walk-fusion", "mor", "bm25", "fastinsight"])
def test_a_threshold_at_zero_and_min_max_keep_what_was_found(name):
    retriever = build_retriever(name, linked_index(), **({"budget": 3, "nodes_per_round": 1} if name == "fastinsight" else {}))
    hits = retriever.retrieve("Which machine did Ada Lovelace write for?", 12)
    real = [hit.score for hit in hits if hit.operator != "Backfill"]
    added = [hit.score for hit in hits if hit.operator == "Backfill"]
    assert all(a >= b for a, b in zip(real + added, [*real, *added][1:], strict=False))
    if min(real) > 0:
        assert all(score > 0 for score in added)


@pytest.mark.parametrize(
    ("vectors", "bm25", "asked", "nodes"),
    [
        ([[0.0], [1.0], [2.0]], True, [[1.0]], [2, 1, 0]),
        ([[0.0], [1.0], [2.0]], True, None, [0, 1]),
        ([[0.0], [1.0], [2.0]], False, [[1.0]], [2, 1, 0]),
        (None, True, None, [0, 1]),
        (None, False, None, []),
    ],
)
def test_vectors_come_before_words_where_the_query_has_one(vectors, bm25, asked, nodes):
    graph = CorpusGraph([*"012"], ["loom card", "card and more", "stone"])
    queries = Queries.of(GraphIndex.from_graph(graph, vectors=vectors, bm25=bm25), ["loom card"], vectors=asked, k=5)
    found = Backfill()(queries, Ranking.of(torch.empty(1, 0, dtype=torch.long), torch.empty(1, 0), "Mine"))
    assert [row for row in found.nodes[0].tolist() if row >= 0] == nodes


def test_lists_that_are_long_enough_stay_as_they_are():
    graph = CorpusGraph([*"012"], ["text"] * 3)
    queries = Queries.of(GraphIndex.from_graph(graph, vectors=[[1.0], [2.0], [3.0]], bm25=False), ["q"], vectors=[[1.0]], k=2)
    ranking = Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[2.0, 1.0]]), "Mine")
    filled = Backfill()(queries, ranking)
    assert (filled.nodes.tolist(), filled.scores.tolist()) == ([[0, 1]], [[2.0, 1.0]])
