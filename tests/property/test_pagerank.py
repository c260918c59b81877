"""Personalized PageRank against a dense power iteration on random multigraphs, and prpack's worked numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search
from graph_retrievers.operators.pagerank import TransitionGraph, certified_top_k, personalized_pagerank
from graph_retrievers.retrievers.ppr import PPR


def dense_power_iteration(size, edges, restart, damping):
    """The definition, with a dense matrix: dangling mass goes to the restart distribution."""
    weights = np.zeros((size, size))
    for a, b in edges:
        if a != b:
            weights[a, b] += 1
            weights[b, a] += 1
    out = weights.sum(1)
    step = np.divide(weights, out[:, None], out=np.zeros_like(weights), where=out[:, None] > 0)
    s = np.array(restart) / np.sum(restart)
    p = s.copy()
    for _ in range(2000):
        new = (1 - damping) * s + damping * (step.T @ p + s * p[out == 0].sum())
        if np.abs(new - p).sum() < 1e-15:
            break
        p = new
    return p


def transition(size, edges):
    ids = [str(i) for i in range(size)]
    return TransitionGraph(CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges]))


@st.composite
def cases(draw):
    size = draw(st.integers(1, 40))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=4 * size))
    seeds = draw(st.dictionaries(node, st.integers(1, 5), min_size=1, max_size=4))
    restart = [float(seeds.get(i, 0)) for i in range(size)]
    return size, edges, restart, draw(st.sampled_from([0.0, 0.5, 0.85]))


@settings(max_examples=120, deadline=None)
@given(cases())
def test_power_iteration_equals_the_definition(case):
    size, edges, restart, damping = case
    found = personalized_pagerank(transition(size, edges), torch.tensor([restart, restart]), damping=damping)
    expected = dense_power_iteration(size, edges, restart, damping)
    for row in found:
        assert np.abs(row.numpy() - expected).sum() < 1e-6


@settings(max_examples=120, deadline=None)
@given(cases(), st.integers(1, 20))
def test_the_certified_top_k_is_the_true_one(case, k):
    size, edges, restart, damping = case
    nodes, scores, certified = certified_top_k(transition(size, edges), torch.tensor([restart]), k, damping=damping)
    expected = dense_power_iteration(size, edges, restart, damping)
    found = [n for n in nodes[0].tolist() if n >= 0]
    order = sorted(range(size), key=lambda i: -expected[i])
    reachable = [i for i in order if expected[i] > 0]
    assert len(found) == min(k, len(reachable)) == len(set(found))
    if bool(certified[0]):
        assert min(expected[found]) >= max([expected[i] for i in range(size) if i not in found], default=0.0) - 1e-7
    assert np.allclose(scores[0, : len(found)].numpy(), expected[found], atol=0.02)
    gap = expected[reachable[k - 1]] - expected[reachable[k]] if len(reachable) > k else 1.0
    if gap > 1e-5:
        assert bool(certified[0]), "a real gap is always certified"


@pytest.mark.parametrize(
    ("damping", "expected"),
    [
        (0.5, [0.377103, 0.347668, 0.101777, 0.014230, 0.115068, 0.041520, 0.002635, 0]),
        (0.85, [0.207774, 0.339229, 0.204246, 0.060144, 0.104059, 0.065613, 0.018934, 0]),
    ],
)
def test_worked_numbers_of_prpack_up_to_their_fractional_synonym_edge(damping, expected):
    # Rows have whole weights here, so the one edge of weight 0.85 (given twice) is set by hand.
    edges = [(0, 1)] * 2 + [(1, 2)] * 4 + [(0, 4), (1, 4), (1, 5), (2, 5), (3, 6)] + [(2, 3)] * 2
    graph = transition(8, edges)
    rows = torch.repeat_interleave(torch.arange(8), graph.indptr[1:] - graph.indptr[:-1])
    synonym = ((rows == 2) & (graph.neighbors == 3)) | ((rows == 3) & (graph.neighbors == 2))
    graph.weights[synonym] = 1.7
    graph.strength = torch.zeros(8, dtype=torch.float64).index_add_(0, rows, graph.weights)
    restart = torch.tensor([[0.5, 0.25, 0, 0, 0.05, 0.02, 0, 0]])
    assert personalized_pagerank(graph, restart, damping=damping)[0].tolist() == pytest.approx(expected, abs=1e-6)
    nodes, scores, _ = certified_top_k(graph, restart, 3, damping=damping)
    order = sorted(range(8), key=lambda i: -expected[i])[:3]
    assert nodes[0].tolist() == order
    assert scores[0].tolist() == pytest.approx([expected[i] for i in order], abs=0.03)


def test_bad_restarts_and_damping_are_refused():
    graph = transition(3, [(0, 1)])
    with pytest.raises(InvalidArgumentError, match="query 1 are all zero"):
        personalized_pagerank(graph, torch.tensor([[1.0, 0, 0], [0, 0, 0]]))
    with pytest.raises(InvalidArgumentError, match="not negative"):
        certified_top_k(graph, torch.tensor([[1.0, -1, 0]]), 2)
    with pytest.raises(InvalidArgumentError, match="damping"):
        personalized_pagerank(graph, torch.ones(1, 3), damping=1.0)


def test_the_retriever_reaches_what_the_seeds_link_to():
    texts = ["alpha", "beta", "gamma", "delta", "epsilon"]
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.1, 0.9], [0.0, 1.0], [0.1, 0.9]]
    graph = CorpusGraph(list("01234"), texts, edges=[("0", "1"), ("1", "2")])
    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=False)
    hits = PPR(index, seeds=1, passage_weight=0.0, k=3).retrieve("alpha", vector=[1.0, 0.0])
    assert [h.id for h in hits] == ["0", "1", "2"]
    assert [h.operator for h in hits] == ["PersonalizedPageRank"] * 3
    hits = PPR(index, seeds=1, k=5).retrieve("alpha", vector=[1.0, 0.0])
    assert [h.id for h in hits][:2] == ["0", "1"] and len(hits) == 5


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_nodes_that_may_not_be_walked_to_are_never_entered(case, data):
    size, edges, restart, damping = case
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    weights = np.zeros((size, size))
    for a, b in edges:
        if a != b:
            weights[a, b] += allowed[b]
            weights[b, a] += allowed[a]
    out = weights.sum(1, keepdims=True)
    step = np.divide(weights, out, out=np.zeros_like(weights), where=out > 0)
    s = np.array(restart) / np.sum(restart)
    expected = np.linalg.solve(np.eye(size) - damping * step.T, (1 - damping) * s)
    ids = [str(i) for i in range(size)]
    graph = CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges])
    found = personalized_pagerank(TransitionGraph(graph, torch.tensor(allowed)), torch.tensor([restart]), damping=damping)
    assert np.abs(found[0].numpy() - expected / expected.sum()).sum() < 1e-6
    assert not found[0].numpy()[~allowed & (s == 0)].any()


@pytest.mark.parametrize("passage_weight", [0.0, 0.05])
def test_filters_of_seeds_and_of_the_walk(passage_weight):
    edges = [("0", "1"), ("1", "2"), ("3", "4")]
    index = GraphIndex.from_texts(["one"] * 5, edges=edges, vectors=np.eye(5), embedding=lambda texts: np.eye(5)[[0] * len(texts)])
    retriever = PPR(index, seeds=1, passage_weight=passage_weight, backfill=False)

    def found(**filters):
        return [hit.id for hit in retriever.retrieve("one", **filters)]

    assert found(seed_filter={"$id": "0"}) == ["0", "1", "2"]
    assert found(seed_filter={"$id": "0"}, traversal_filter={"$id": {"$ne": "1"}}) == ["0"]
    assert found(seed_filter={"$id": "nobody"}) == []


def test_without_seeds_and_vectors_nothing_is_found():
    index = GraphIndex.from_texts(["loom", "card", "valve"], edges=[("0", "1")])
    retriever = PPR(index, first=BM25Search(2), passage_weight=0, backfill=False)
    assert [[hit.id for hit in hits] for hits in retriever.retrieve_batch(["zebra", "loom"])] == [[], ["0", "1"]]


def test_a_hit_is_reached_from_the_neighbour_that_sends_it_most():
    # 0 is the seed; 3 hears more from 1 (two edges) than from 2 (one edge among four).
    edges = [("0", "1"), ("0", "2"), ("1", "3"), ("2", "3"), ("2", "4"), ("2", "5"), ("2", "6")]
    ids = [str(i) for i in range(8)]
    index = GraphIndex.from_graph(CorpusGraph(ids, ids, edges=edges), vectors=[[1.0]] + [[0.0]] * 7, bm25=False)
    hits = {h.id: h for h in PPR(index, seeds=1, passage_weight=0.0, k=7).retrieve("zero", vector=[1.0])}
    assert hits["0"].path.nodes == ("0",)
    assert hits["3"].path.nodes == ("0", "1", "3")
    assert hits["5"].path.nodes == ("0", "2", "5")


@settings(max_examples=60, deadline=None)
@given(cases())
def test_paths_run_along_edges_from_a_seed_or_upwards(case):
    size, edges, restart, _ = case
    ids = [str(i) for i in range(size)]
    graph = CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges])
    index = GraphIndex.from_graph(graph, vectors=[[r + 0.01] for r in restart], bm25=False)
    linked = {(a, b) for a, b in edges} | {(b, a) for a, b in edges}
    hits = PPR(index, seeds=2, k=size).retrieve("question", vector=[1.0])
    place = {h.id: i for i, h in enumerate(hits)}
    for hit in hits:
        for near, far in zip(hit.path.nodes, hit.path.nodes[1:], strict=False):
            assert (int(near), int(far)) in linked
            assert place[near] < place[far]
