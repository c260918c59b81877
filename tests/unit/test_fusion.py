"""Fusion of ranked lists, and hybrid search."""

import numpy as np
import pytest
import torch

from graph_retrievers.core import candidates as found_lists
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.compositions import ReciprocalRankFusion
from graph_retrievers.core.fusion import fused
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, HybridSearch, OperatorKind, Pipeline, VectorSearch
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.round_robin import RoundRobin
from graph_retrievers.search.scaling import scaled_parts
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.baselines import Hybrid
from tests.apples import TEXTS, ids, index
from tests.helpers import Given
from tests.rankings import Ranking, ranked


def test_reciprocal_rank_fusion_by_hand(device):
    hits = Retriever(index(device), Hybrid(fusion="rrf"), backfill=False).retrieve("apple", k=3)
    # Dense order 1 2 5 0 3 4; BM25 order 5 0 1.
    expected = {"1": 1 / 61 + 1 / 63, "5": 1 / 63 + 1 / 61, "0": 1 / 64 + 1 / 62}
    assert ids(hits) == ["1", "5", "0"]
    assert [h.score for h in hits] == pytest.approx([expected[i] for i in ids(hits)])


def test_weighted_fusion_by_hand():
    hits = Retriever(index(), Hybrid(weights=(0.25, 0.75)), backfill=False).retrieve("apple", k=6)
    scores = BM25(TEXTS).table(["apple"])[0]
    dense = {"0": 0.0, "1": 1.0, "2": 0.5, "5": 0.25, "3": 0.0, "4": 0.0}
    lexical = {"5": 1.0, "0": float(scores[0] / scores[5]), "1": float(scores[1] / scores[5])}
    assert 0 < lexical["1"] <= lexical["0"] < 1
    for hit in hits:
        assert hit.score == pytest.approx(0.25 * dense[hit.id] + 0.75 * lexical.get(hit.id, 0.0))


def given(node, **results):
    """An operator that finds one node for one query."""
    return Given(Ranking.of(torch.tensor([[node]]), torch.tensor([[1.0]]), "Given", **results))


def test_a_fused_node_keeps_trail_and_seed_score_of_the_list_that_brings_most():
    index = GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1"), ("1", "2")])

    def walked(start, seed_score):
        return given(1, trails=torch.tensor([[[start, 1]]]), seed_scores=torch.tensor([[seed_score]]))

    for weights, start, seed_score in (((1.0, 2.0), 2, 0.75), ((2.0, 1.0), 0, 0.25)):
        fusion = ReciprocalRankFusion(walked(0, 0.25), walked(2, 0.75), weights=weights)
        ranking = ranked(fusion, Queries.of(index, ["q"]))
        assert ranking.nodes[0, 0] == 1 and ranking.trails[0, 0].tolist() == [start, 1]
        assert ranking.seed_scores[0, 0] == seed_score
    beside = ranked(ReciprocalRankFusion(walked(0, 0.25), given(1), weights=(1.0, 2.0)), Queries.of(index, ["q"]))
    assert beside.trails[0, 0].tolist() == [-1, 1] and bool(beside.seed_scores[0, 0].isnan())


def test_the_first_of_equal_parts_tells_the_operator():
    index = GraphIndex.from_texts(["loom", "card"], vectors=[[1.0], [0.0]])
    retriever = Retriever(index, ReciprocalRankFusion(BM25Search(1), VectorSearch(1)), backfill=False)
    assert [hit.operator for hit in retriever.retrieve("loom", vector=[1.0])] == ["BM25Search"]


def test_fusion_takes_depth_nodes_of_each_list():
    index = GraphIndex.from_texts(["loom", "loom card", "card"], vectors=[[1.0], [0.5], [0.0]])
    fusion = ReciprocalRankFusion(BM25Search(), VectorSearch(), depth=1)
    assert len(Retriever(index, fusion, backfill=False).retrieve("loom", vector=[1.0])) == 1


def test_equal_scores_count_in_full():
    def parts(*scores, depth=2, from_zero=False):
        found = found_lists.Candidates.seeds(np.arange(len(scores)), np.array(scores, np.float32), "A")
        return scaled_parts(found, depth=depth, from_zero=from_zero).tolist()

    assert parts(0.5, 0.5) == parts(0.50000006, 0.5) == [1.0, 1.0], "what differs by rounding is equal"
    assert parts(1.0, 0.5) == parts(2e-5, 1e-5) == [1.0, 0.0]
    assert parts(5000.002, 5000.0) == [1.0, 1.0], "the rounding is that of the larger"
    assert parts(4.0, 1.0, from_zero=True) == [1.0, 0.25] and parts(3.0, 3.0, from_zero=True) == [1.0, 1.0]
    assert parts(1.0, -1.0, from_zero=True) == [1.0, 0.0], "a lexical signal of another store may be below 0"
    assert parts(5.0, 3.0, 1.0, 0.0, depth=3) == [1.0, 0.5, 0.0, 0.0], "a longer list scales its first places alike"
    assert parts(5.0, 5.0, 3.0) == [1.0, 1.0, 0.0], "what is below equal scores counts as none"
    assert parts(1.0, 0.0, -1.0, from_zero=True) == [1.0, 0.5, 0.0]
    assert parts(5.0, 3.0, depth=6) == [1.0, 0.5], "of a short list, a third of the smallest counts as none"
    assert parts(3.0, 1.0, -1.0, depth=6) == [1.0, 0.5, 0.0], "but none lies below the smallest"


@pytest.mark.parametrize("search", [VectorSearch, BM25Search, HybridSearch])
def test_a_search_finds_what_may_be_returned_unless_it_is_told_otherwise(search):
    index = GraphIndex.from_texts(["loom loom", "loom card"], vectors=[[1.0], [0.5]])
    queries = Queries.of(index, ["loom"], vectors=[[1.0]], filter={"$id": "1"}, seed_filter={})
    assert ranked(search(1), queries).nodes.tolist() == [[1]] and ranked(search(1, returned=False), queries).nodes.tolist() == [[0]]


def test_hybrid_search_of_what_may_be_walked_to():
    index = GraphIndex.from_texts(["loom", "card"], vectors=[[1.0], [0.5]])
    for seed_filter, found in ((None, 1), ({}, 0)):
        queries = Queries.of(index, ["loom"], vectors=[[1.0]], filter={"$id": "1"}, seed_filter=seed_filter)
        assert ranked(HybridSearch(1, returned=False), queries).nodes.tolist() == [[found]]


def test_hybrid_search_looks_as_deep_as_its_k():
    index = GraphIndex.from_texts(["loom", "loom card", "card"], vectors=[[1.0], [0.5], [0.2]])
    hits = Retriever(index, HybridSearch(3, weights=(1, 0), depth=2)).retrieve("loom", vector=[1.0])
    assert [hit.score for hit in hits] == [1.0, 0.0, 0.0], "the scale is that of the first `depth`"
    assert ranked(HybridSearch(3, depth=1), Queries.of(index, ["loom"], vectors=[[1.0]])).lengths().tolist() == [3]


def test_a_search_with_weight_0_finds_nothing():
    index = GraphIndex.from_texts(["loom", "card"], vectors=[[1.0], [0.5]])
    for weights, query, found in (((0, 1), "card", [[1]]), ((0, 1), "mill", [[]]), ((1, 0), "card", [[0, 1]])):
        assert ranked(HybridSearch(weights=weights), Queries.of(index, [query], vectors=[[1.0]])).nodes.tolist() == found


@pytest.mark.parametrize("weights", [(0, 0), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1,), 5, "ab", ("a", 1)])
def test_weights_of_fusions(weights):
    for make in (HybridSearch, lambda weights: ReciprocalRankFusion(VectorSearch(), VectorSearch(), weights=weights)):
        with pytest.raises(InvalidArgumentError, match="weights must be 2 numbers"):
            make(weights=weights)


@pytest.mark.parametrize("weights", [(1e39, 1.0), (1.5e30, 1.0), (1e-44, 1.0), (0.9e-30, 1.0)])
def test_weights_that_single_precision_cannot_hold(weights):
    with pytest.raises(InvalidArgumentError, match="from 1e-30 to 1e30"):
        HybridSearch(weights=weights)
    assert HybridSearch(weights=(1e-30, 1e30)).weights == (1e-30, 1e30)


def seeds(name, *nodes):
    return found_lists.Candidates.seeds(np.array(nodes), np.arange(len(nodes), 0, -1.0), name)


def test_what_a_node_keeps_of_parts_that_differ_by_rounding_is_that_of_the_first_list():
    both = fused([seeds("First", 4), seeds("Second", 4)], [np.array([0.1]), np.array([0.1 + 1e-10])])
    assert [both.operators[origin] for origin in both.origins] == ["First"]
    both = fused([seeds("First", 4), seeds("Second", 4)], [np.array([0.1]), np.array([0.2])])
    assert [both.operators[origin] for origin in both.origins] == ["Second"]


def test_fused_scores_do_not_rise_by_rounding():
    found = fused([seeds("A", 5, 2)], [np.array([0.3 + 1e-9, 0.3])])
    assert found.nodes.tolist() == [2, 5] and found.scores.tolist() == [0.3, 0.3]


def test_ranks_of_lists_that_were_fused_before_are_not_kept():
    inner = fused([seeds("A", 5, 2), seeds("B", 2)], [np.array([2.0, 1.0]), np.array([0.5])], ("A", "B"))
    assert inner.columns["ranks"].tolist() == [[1, 0], [2, 1]] and inner.lists == ("A", "B")
    without = fused([inner, seeds("C", 7)], [np.array([2.0, 1.0]), np.array([0.1])])
    assert "ranks" not in without.columns and without.lists == ()
    anew = fused([inner, seeds("C", 7)], [np.array([2.0, 1.0]), np.array([0.1])], ("inner", "C"))
    assert anew.columns["ranks"].tolist() == [[1, 0], [2, 0], [0, 1]] and anew.lists == ("inner", "C")


def test_hybrid_search_fuses_a_hundred_nodes_of_each_search_with_equal_weights():
    # All texts are alike, so words rank by rows; vectors rank the other way round.
    angles = np.linspace(1, 0, 103)
    index = GraphIndex.from_texts(["a loom"] * 103, vectors=np.stack([np.cos(angles), np.sin(angles)], 1))
    hits = Retriever(index, HybridSearch(4, fusion="rrf"), k=4).retrieve("loom", vector=[1.0, 0.0])
    expected = {"3": 1 / 64 + 1 / 160, "99": 1 / 160 + 1 / 64, "4": 1 / 65 + 1 / 159, "98": 1 / 159 + 1 / 65}
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected)
    # All words score alike, so that those of its first hundred all have 1; of vectors the hundredth has 0.
    hits = Retriever(index, HybridSearch(4), k=4).retrieve("loom", vector=[1.0, 0.0])
    low = np.cos(angles[3])
    expected = {str(n): 1 + (np.cos(angles[n]) - low) / (1 - low) for n in (99, 98, 97, 96)}
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "parts", "expected"),
    [([0], (0.2, 0.1), [0, -1]), ([0], (0.1, 0.2), [5, 6]), ([-1], (0.2, 0.1), [5, 6]), ([-1], (0.1, 0.2), [5, 6])],
)
def test_a_fused_node_has_the_context_of_the_list_that_brings_most_if_that_has_one(first, parts, expected):
    lists = [seeds("First", 4), seeds("Second", 4)]
    for found, context in zip(lists, (first, [5, 6]), strict=True):
        found.columns["context"] = np.array([context])
    assert fused(lists, [np.array([part]) for part in parts]).columns["context"].tolist() == [expected]


class Said(Operator):
    """Finds nodes and facts that a test says, from the best on."""

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, name, nodes, facts=None):
        self.name, self.nodes, self.facts = name, nodes, facts

    def search(self, question, candidates):
        made = seeds(self.name, *self.nodes)
        made.facts = None if self.facts is None else Facts(np.array(self.facts), np.ones(len(self.facts)), self.name)
        return made


def test_lists_are_merged_in_turns_and_what_was_there_before_comes_last():
    index = GraphIndex.from_texts(["a loom"] * 8, edges=[(str(a), str(a + 1)) for a in range(7)])
    queries = Queries.of(index, ["loom"])
    turns = RoundRobin(Said("One", [4, 2, 0], [5, 3, 1]), Said("Two", [2, 7], [3, 0, 2]), Said("Three", [2, 6], [5]))
    merged = ranked(Pipeline(Said("Before", [6, 1, 4], [6, 5, 4]), turns), queries)
    assert merged.nodes.tolist() == [[4, 2, 7, 6, 0, 1]]
    assert merged.scores[0].tolist() == pytest.approx([1 / n for n in range(1, 7)])
    assert [merged.operators[origin] for origin in merged.origins[0]] == ["One", "One", "Two", "Three", "One", "Before"]
    assert merged.facts.rows.tolist() == [[5, 3, 0, 1, 2, 6, 4]] and merged.facts.operator == "One"
    assert merged.facts.scores[0].tolist() == pytest.approx([1 / n for n in range(1, 8)])
    # An operator without facts of its own passes those before on, in its turn.
    passed = ranked(Pipeline(Said("Before", [6], [6, 5, 4]), RoundRobin(Said("One", [4], [5, 3]), Said("Two", [2]))), queries)
    assert passed.facts.rows.tolist() == [[5, 6, 3, 4]]
    assert ranked(RoundRobin(Said("One", []), Said("Two", [])), queries).nodes.shape == (1, 0)
