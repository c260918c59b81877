"""FastInsight against its worked examples, by hand and by algebra, and on random graphs with weights of edges."""

import math
import random

import numpy as np
import pytest
import torch

from graph_retrievers import Fused, Retriever, Vector
from graph_retrievers.core.requests import Near, Weights
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.backend import smoothed
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.baselines import Re2, Rerank
from graph_retrievers.systems.fastinsight import FastInsight, GRanker, STeX, propagation
from tests.rankings import Ranking, lists_of, rank, ranked
from tests.rankings import ranking_of as as_ranking
from tests.references import fastinsight as literal
from tests.retrievers import on
from tests.toy import toy_index

# Two worked graphs; "4" (and "9") stand alone.
SMALL = [(1, 2), (1, 3), (2, 5), (3, 5), (3, 6), (6, 7), (2, 3), (1, 6)]
SMALL_LATENTS = {"1": [1, 0], "2": [0, 1], "3": [1, 1], "4": [2, 0]}
TRACE = [(1, 2), (1, 3), (2, 3), (2, 5), (3, 5), (3, 6), (6, 7), (1, 6), (5, 8), (7, 8)]
TRACE_SIMILARITY = {"1": 0.9, "2": 0.8, "3": 0.3, "4": 0.7, "5": 0.35, "6": 0.45, "7": 0.6, "8": 0.2, "9": 0.1}
TRACE_LATENTS = {
    "1": [0.2, 0.4],
    "2": [0.9, 0.1],
    "3": [0.5, 0.5],
    "4": [0.6, 0.0],
    "5": [0.1, 0.9],
    "6": [0.8, 0.8],
    "7": [0.3, 0.2],
    "8": [0.95, 0.9],
    "9": [0.0, 0.1],
}


def small_index(device="cpu"):
    similarity = {str(n): 0.0 for n in range(1, 8)} | {"5": 0.30, "6": 0.45}
    latents = SMALL_LATENTS | {str(n): [0, 0] for n in (5, 6, 7)}
    return toy_index(similarity, latents, SMALL, device=device)


def ranking_of(index, ids):
    rows = torch.tensor([[index.graph.row(i) for i in ids]], device=index.device)
    return Ranking.of(rows, torch.arange(len(ids), 0, -1, device=index.device).float().unsqueeze(0), "seed")


def ask(index, count=1):
    return Queries.of(index, [f"question {i}" for i in range(count)], vectors=[[1.0]] * count)


def candidates(stex, index, ranking):
    """The candidates of STeX alone, without the ranked nodes before them."""
    (found,) = lists_of(ranked(stex, ask(index), ranking))
    return as_ranking([found.taken(np.arange(ranking.width, len(found)))], index.device)


def propagated(weights, degree):
    """P of Algorithm 2 for an adjacency matrix, as entries and as a matrix."""
    weights = np.asarray(weights, np.float64)
    links = Near(*np.nonzero(weights))
    mix, matrix = propagation(links, weights[links], np.asarray(degree)), np.zeros(weights.shape)
    matrix[mix.owner, mix.node] = mix.share
    return mix, matrix


@pytest.mark.parametrize(
    ("degree", "row_1", "mixed_1", "mixed_2"),
    [
        ("graph", [0, 0.571429, 0.428571, 0], [0.885714, 0.2], [0.2, 0.885714]),
        ("subgraph", [0, 0.5, 0.5, 0], [0.9, 0.2], [0.2, 0.9]),
    ],
)
def test_granker_worked_example_with_both_readings_of_the_degree(device, degree, row_1, mixed_1, mixed_2):
    index = small_index(device)
    ranking = ranking_of(index, ["1", "2", "3", "4"])
    weights, strength = MemoryBackend(ask(index)).weights([(0, Weights(ranking.nodes[0].cpu().numpy()))])[0]
    mix, matrix = propagated(weights, strength if degree == "graph" else weights.sum(1))
    assert matrix[0].tolist() == pytest.approx(row_1, abs=1e-6)
    assert matrix[2].tolist() == pytest.approx([0.5, 0.5, 0, 0], abs=1e-6)
    latents = torch.tensor([SMALL_LATENTS[n] for n in "1234"], dtype=torch.float32, device=device)
    mixed = smoothed(latents, mix, 0.2)
    assert mixed[0].tolist() == pytest.approx(mixed_1, abs=1e-6)
    assert mixed[1].tolist() == pytest.approx(mixed_2, abs=1e-6)
    assert mixed[2].tolist() == pytest.approx([0.9, 0.9], abs=1e-6)
    assert mixed[3].tolist() == [2, 0], "a node without neighbours keeps its latent"
    scores = ranked(GRanker(degree=degree), ask(index), ranking).scores[0].tolist()
    assert scores == pytest.approx(sorted(index.relevance.score(mixed).tolist(), reverse=True), abs=1e-6)


def test_propagation_counts_a_neighbour_inversely_to_its_own_degree():
    _, matrix = propagated([[0, 1, 1], [1, 0, 0], [1, 0, 0]], [2, 1, 4])
    assert matrix[0].tolist() == pytest.approx([0, 0.8, 0.2])
    assert matrix[1].tolist() == [1, 0, 0]
    # Weights below 1, too.
    _, light = propagated([[0, 0.5, 0.5], [0.5, 0, 0], [0.5, 0, 0]], [1, 0.5, 0.75])
    assert light[0].tolist() == pytest.approx([0, 0.6, 0.4])


def test_granker_with_alpha_zero_is_plain_reranking_exactly(device):
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE, device=device)
    ranking = ranking_of(index, ["3", "1", "4", "8"])
    smoothed, plain = ranked(GRanker(0.0), ask(index), ranking), ranked(Rerank(), ask(index), ranking)
    assert torch.equal(smoothed.scores, plain.scores)
    assert torch.equal(smoothed.nodes, plain.nodes)


def test_granker_keeps_the_present_order_of_equal_scores(device):
    index = toy_index({n: 0.0 for n in "abcd"}, {n: [1, 1] for n in "abcd"}, [], device=device)
    ranking = ranking_of(index, ["c", "a", "d", "b"])
    assert [index.graph.ids[r] for r in ranked(GRanker(), ask(index), ranking).nodes[0]] == ["c", "a", "d", "b"]


def test_stex_worked_example(device):
    index = small_index(device)
    found = candidates(STeX(1.0), index, ranking_of(index, ["1", "2", "3", "4"]))
    ids = [index.graph.ids[r] for r in found.nodes[0] if r >= 0]
    assert ids == ["5", "6"]
    assert found.scores[0, :2].tolist() == pytest.approx([1.966667, 1.95], abs=1e-6)
    parents = [index.graph.ids[r] for r in found.trails[0, :2, -2]]
    assert parents == ["2", "1"], "the parent is the best-ranked neighbour"


def test_stex_extremes_of_beta(device):
    index = small_index(device)
    ranking = ranking_of(index, ["1", "2", "3", "4"])
    similarity_only = candidates(STeX(0.0), index, ranking)
    assert similarity_only.scores[0, :2].tolist() == pytest.approx([0.45, 0.30])
    structure_only = candidates(STeX(math.inf), index, ranking)
    assert structure_only.scores[0, :2].tolist() == pytest.approx([1.666667, 1.5], abs=1e-6)


def test_stex_skips_both_structural_terms_where_they_are_undefined(device):
    # One retrieved node: no rank term. A leaf candidate: no bridging term.
    index = toy_index({"a": 0.9, "b": 0.25}, {"a": [1, 1], "b": [1, 1]}, [("a", "b")], device=device)
    found = candidates(STeX(1.0), index, ranking_of(index, ["a"]))
    assert found.scores[0, 0].item() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("batch", "budget", "alpha", "order", "scores"),
    [
        (2, 6, 0.2, "8 6 2 3 5 1", [1.010856, 0.919078, 0.745962, 0.69709, 0.582156, 0.496657]),
        (2, 9, 0.2, "8 6 2 3 5 7 1", None),
        (3, 6, 0.0, "6 2 3 4 5 1", None),
    ],
)
def test_fastinsight_trace(device, batch, budget, alpha, order, scores):
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE, device=device)
    retriever = Retriever(index, FastInsight(nodes_per_round=batch, budget=budget, alpha=alpha))
    ranking = rank(retriever, ask(index))
    ids = [index.graph.ids[r] for r in ranking.nodes[0] if r >= 0]
    assert ids == order.split()
    if scores:
        assert ranking.scores[0, : len(ids)].tolist() == pytest.approx(scores, abs=1e-6)
    assert len(index.relevance.calls) == len(set(index.relevance.calls)) == len(ids), "each pair is encoded once"


def test_fastinsight_rounds_of_the_trace():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    rounds = [rank(Retriever(index, FastInsight(nodes_per_round=2, budget=budget)), ask(index)) for budget in (2, 4, 6)]
    named = [[index.graph.ids[r] for r in ranking.nodes[0] if r >= 0] for ranking in rounds]
    assert named == [["2", "1"], ["2", "3", "5", "1"], ["8", "6", "2", "3", "5", "1"]]
    assert rounds[0].scores[0].tolist() == pytest.approx([0.720401, 0.491216], abs=1e-6)
    assert rounds[1].scores[0, :4].tolist() == pytest.approx([0.745962, 0.674673, 0.546665, 0.475401], abs=1e-6)


@pytest.mark.parametrize(
    ("edges", "reached"),
    [
        (TRACE, 7),  # the seeds' component is smaller than the budget
        ([], 2),  # isolated seeds, no edge at all
        ([("1", "2")], 2),  # the component is exhausted at once
    ],
)
def test_the_endless_loops_of_algorithm_1_end(device, edges, reached):
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, edges, device=device)
    ranking = rank(Retriever(index, FastInsight(nodes_per_round=2, budget=100)), ask(index))
    assert int(ranking.lengths()[0]) == reached


def test_a_batch_larger_than_the_budget_does_not_overshoot_it():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    assert int(rank(Retriever(index, FastInsight(nodes_per_round=50, budget=3)), ask(index)).lengths()[0]) == 3


def test_paths_lead_from_a_seed_to_the_hit_along_edges():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    hits = {h.id: h for h in Retriever(index, FastInsight(nodes_per_round=2, budget=6), k=6).retrieve("question", vector=[1.0])}
    assert hits["2"].path.nodes == ("2",)
    assert hits["2"].operator == "VectorSearch"
    assert hits["8"].path.nodes == ("2", "5", "8")
    assert hits["8"].operator == "STeX"


def test_backfill_fills_to_k_in_vector_order_and_says_so():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    hits = Retriever(index, FastInsight(nodes_per_round=2, budget=6), k=9).retrieve("question", vector=[1.0])
    assert [h.id for h in hits] == ["8", "6", "2", "3", "5", "1", "4", "7", "9"]
    assert [h.operator for h in hits[6:]] == ["Backfill"] * 3
    assert all(a.score > b.score for a, b in zip(hits, hits[1:], strict=False))


def test_fused_with_vector_search_each_rank_counts_once():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    hits = Retriever(index, Fused(FastInsight(nodes_per_round=2, budget=6), Vector()), k=9).retrieve("question", vector=[1.0])
    # FastInsight alone: 8 6 2 3 5 1; vector search: 1 2 4 7 6 5 3 8 9; node 2 is third and second.
    assert [h.id for h in hits] == ["2", "1", "8", "6", "3", "5", "4", "7", "9"]
    assert hits[0].score == pytest.approx(1 / 8 + 1 / 7)
    assert hits[2].path.nodes == ("2", "5", "8")


def test_re2_is_granker_without_graph_and_without_expansion():
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    re2 = rank(Retriever(index, Re2(depth=6)), ask(index))
    same = rank(Retriever(index, FastInsight(nodes_per_round=6, budget=6, alpha=0.0)), ask(index))
    assert torch.equal(re2.nodes, same.nodes) and torch.equal(re2.scores, same.scores)


@pytest.mark.parametrize(
    "options",
    [{"nodes_per_round": 0}, {"budget": 0}, {"alpha": 1.5}, {"beta": -1.0}, {"beta": math.nan}, {"degree": "in"}, {"k": 0}],
)
def test_parameters_out_of_range_are_refused(options):
    index = toy_index(TRACE_SIMILARITY, TRACE_LATENTS, TRACE)
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        on(index, FastInsight, **options)


def weighted_case(rng):
    """A random multigraph with weights of edges: similarities, latents, edges, their weights, and settings."""
    names = [f"n{i:02d}" for i in range(rng.randint(2, 14))]
    edges = [(rng.choice(names), rng.choice(names)) for _ in range(rng.randint(1, 3 * len(names)))]
    similarity = {name: rng.randint(-4, 4) / 4 for name in names}
    latents = {name: [rng.randint(-8, 8) / 4, rng.randint(-8, 8) / 4] for name in names}
    weights = [rng.choice([0.25, 0.5, 1.0, 2.0, 8.0]) for _ in edges]
    settings = {"budget": rng.randint(1, 14), "alpha": rng.choice([0.2, 1.0]), "degree": rng.choice(["graph", "subgraph"])}
    return similarity, latents, edges, weights, {**settings, "batch": rng.randint(1, 5), "beta": 1.0}


def head(latent):
    return math.tanh(latent[0]) + 0.5 * math.tanh(latent[1])


def is_clear(case, weight):
    """Whether no order of the run depends on rounding."""
    similarity, latents, edges, _, settings = case
    adjacent = literal.neighbours(edges)
    for retrieved in literal.fastinsight(similarity, latents, edges, head, weight=weight, **settings)[2]:
        _, scores = literal.granker(retrieved, latents, adjacent, head, settings["alpha"], settings["degree"], weight)
        for values in (sorted(scores.values()), sorted(score for _, score in literal.stex(retrieved, similarity, adjacent, 1.0))):
            if any(0 < after - before < 1e-5 for before, after in zip(values, values[1:], strict=False)):
                return False
    return True


def same_as_paper(case, weighted=False, weight=None):
    """Whether nodes, order and scores are those of the literal algorithm."""
    similarity, latents, edges, weights, settings = case
    expected, scores, _ = literal.fastinsight(similarity, latents, edges, head, weight=weight, **settings)
    index = toy_index(similarity, latents, edges, edge_weights=weights)
    named = {key: value for key, value in settings.items() if key != "batch"}
    system = FastInsight(nodes_per_round=settings["batch"], weighted=weighted, **named)
    ranking = rank(Retriever(index, system), ask(index))
    ids = [index.graph.ids[row] for row in ranking.nodes[0].tolist() if row >= 0]
    if sorted(ids) != sorted(expected):
        return False
    found = dict(zip(ids, ranking.scores[0].tolist(), strict=False))
    ordered = all(scores[before] > scores[after] - 1e-5 for before, after in zip(ids, ids[1:], strict=False))
    return ordered and all(abs(found[node] - scores[node]) < 1e-5 for node in ids)


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_weights_of_edges_count_only_if_they_are_asked_for(count):
    rng = random.Random(7)
    cases, differ = [], 0
    while len(cases) < count:
        case = weighted_case(rng)
        weight = literal.largest_weights(case[2], case[3])
        if is_clear(case, None) and is_clear(case, weight):
            cases.append(case)
            assert same_as_paper(case)
            assert same_as_paper(case, weighted=True, weight=weight)
            differ += not same_as_paper(case, weighted=True)
    assert differ > count / 5, "the weights of the cases matter"


def test_a_weight_counts_in_place_of_the_one_of_the_adjacency():
    # Node a is linked to b by weights 1 and 3, and to c by 1; d is outside. Of b's neighbours only a is ranked.
    edges, weights = [("a", "b"), ("a", "b"), ("a", "c"), ("c", "d")], [1.0, 3.0, 1.0, 4.0]
    latents = {"a": [0, 0], "b": [1, 0], "c": [0, 1], "d": [9, 9]}
    index = toy_index({node: 0.0 for node in latents}, latents, edges, edge_weights=weights)
    ranking = ranking_of(index, ["a", "b", "c"])
    # The paper: b has degree 1 and c has 2, so P of a is 2/3 and 1/3. Weights: b has 3 / 3, c has 1 / 5: 5/6 and 1/6.
    for weighted, shares in ((False, (2 / 3, 1 / 3)), (True, (5 / 6, 1 / 6))):
        found = ranked(GRanker(1.0, weighted=weighted), ask(index), ranking)
        scores = dict(zip(found.nodes[0].tolist(), found.scores[0].tolist(), strict=True))
        assert scores[index.graph.row("a")] == pytest.approx(math.tanh(shares[0]) + 0.5 * math.tanh(shares[1]), abs=1e-6)
