"""Scores of hits that vector search fills up with: below the others, on their scale."""

import math

import pytest
import torch

from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Backfill, BM25Search
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.helpers import Given, linked_index
from tests.rankings import Ranking, ranked
from tests.retrievers import on

ROWS = 8


def filled(scores):
    """Rank the last nodes with the given scores and fill up to all; return nodes and scores."""
    graph = CorpusGraph([str(row) for row in range(ROWS)], ["text"] * ROWS)
    index = GraphIndex.from_graph(graph, vectors=[[1.0 - row / ROWS] for row in range(ROWS)], bm25=False)
    queries = Queries.of(index, ["q"], vectors=[[1.0]], k=ROWS)
    found = torch.arange(ROWS - len(scores), ROWS).unsqueeze(0)
    ranking = ranked(Backfill(), queries, Ranking.of(found, torch.tensor([scores]), "Mine"))
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
    scores = ranked(Backfill(), queries, Ranking.of(torch.tensor([[20_000]]), torch.tensor([[0.5]]), "Mine")).scores[0]
    assert bool((scores[1:] < scores[:-1]).all())


@pytest.mark.parametrize("name", ["spreading", "walk-fusion", "mor", "bm25", "fastinsight"])
def test_a_threshold_at_zero_and_min_max_keep_what_was_found(name):
    retriever = on(linked_index(), name, **({"budget": 3, "nodes_per_round": 1} if name == "fastinsight" else {}))
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
    found = ranked(Backfill(), queries, Ranking.of(torch.empty(1, 0, dtype=torch.long), torch.empty(1, 0), "Mine"))
    assert [row for row in found.nodes[0].tolist() if row >= 0] == nodes


def test_lists_that_are_long_enough_stay_as_they_are():
    graph = CorpusGraph([*"012"], ["text"] * 3)
    queries = Queries.of(GraphIndex.from_graph(graph, vectors=[[1.0], [2.0], [3.0]], bm25=False), ["q"], vectors=[[1.0]], k=2)
    ranking = Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[2.0, 1.0]]), "Mine")
    filled = ranked(Backfill(), queries, ranking)
    assert (filled.nodes.tolist(), filled.scores.tolist()) == ([[0, 1]], [[2.0, 1.0]])


def ids(hits):
    return [hit.id for hit in hits]


def test_backfill_scores_lie_below_all_others():
    names = [f"n{n}" for n in range(6)]
    similarity = [100.0, 60.0, 1.0, 90.0, 80.0, 70.0]
    edges = [("n0", "n2")]
    index = GraphIndex.from_texts(names, ids=names, edges=edges, vectors=[[s] for s in similarity], bm25=False)
    # Activation is at most 1 here, far below the similarities of what fills up.
    spread = Pipeline(VectorSearch(1), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(index, spread).retrieve("q", 6, vector=[1.0])
    assert ids(hits) == ["n0", "n2", "n3", "n4", "n5", "n1"]
    assert [hit.operator == Backfill.name for hit in hits] == [False, False, True, True, True, True]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 6
    # Found scores that lie far apart: below the lowest, and not only below the best.
    hits = Retriever(index, VectorSearch(4)).retrieve("q", 6, vector=[1.0])
    assert [hit.operator == Backfill.name for hit in hits] == [False] * 4 + [True] * 2
    assert max(hit.score for hit in hits[4:]) < min(hit.score for hit in hits[:4]) == 70.0


def test_of_a_batch_each_query_is_filled_up_by_itself():
    built = GraphIndex.from_graph(CorpusGraph([*"0123"], ["text"] * 4), vectors=[[1 - row / 4] for row in range(4)], bm25=False)
    queries = Queries.of(built, ["q", "r"], vectors=[[1.0], [1.0]], k=3)
    ranking = Ranking.of(torch.tensor([[3], [-1]]), torch.tensor([[0.5], [float("-inf")]]), "Mine")
    filled = ranked(Backfill(), queries, ranking)
    assert filled.nodes.tolist() == [[3, 0, 1], [0, 1, 2]]
    assert filled.scores[1].tolist() == [1, 0.75, 0.5]
    assert [round(score, 4) for score in filled.scores[0].tolist()] == [0.5, 0.25, 0.1667]


def test_backfill_without_a_query_vector_uses_words():
    index = GraphIndex.from_texts(["a loom", "a card", "a loom card"], vectors=[[1.0], [0.5], [0.0]])
    assert [hit.id for hit in Retriever(index, BM25Search(1), k=2).retrieve("loom")] == ["0", "2"]


def given(node, **results):
    """An operator that finds one node for one query."""
    return Given(Ranking.of(torch.tensor([[node]]), torch.tensor([[1.0]]), "Given", **results))


def test_backfill_without_query_vectors_is_an_error_where_there_is_nothing_else_to_fill_from():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0], [0.5]], bm25=False)
    with pytest.raises(MissingSignalError, match="no embedding model for queries"):
        Retriever(index, given(0)).retrieve("loom", 2)
    assert ids(Retriever(index, given(0)).retrieve("loom", 2, vector=[1.0])) == ["0", "1"]
    assert ids(Retriever(index, given(0), backfill=False).retrieve("loom", 2)) == ["0"]


def test_an_empty_list_beside_a_full_one_is_filled_with_the_scores_of_the_search():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], vectors=[[3.0], [2.0], [5.0]])
    found, empty = Retriever(index, BM25Search(1)).retrieve_batch(["loom", "zebra"], 2, vectors=[[1.0], [1.0]])
    assert ids(found) == ["0", "2"] and found[1].score == pytest.approx(found[0].score / 2)
    assert [(hit.id, hit.score) for hit in empty] == [("2", 5.0), ("0", 3.0)]
