"""Personalized PageRank against a dense solution on random multigraphs, and prpack's worked numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.core.driver import run
from graph_retrievers.errors import ConvergenceError, GraphRetrieverError, InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, PersonalizedPageRank, Pipeline
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems import pagerank
from graph_retrievers.systems.pagerank import PPR, TransitionGraph, Walk, personalized_pagerank
from tests.rankings import ranked


def dense_solution(size, edges, restart, damping):
    """The definition, solved with a dense matrix: dangling mass goes to the restart distribution."""
    weights = np.zeros((size, size))
    for a, b in edges:
        if a != b:
            weights[a, b] += 1
            weights[b, a] += 1
    out = weights.sum(1)
    step = np.divide(weights, out[:, None], out=np.zeros_like(weights), where=out[:, None] > 0)
    s = np.array(restart) / np.sum(restart)
    return np.linalg.solve(np.eye(size) - damping * (step.T + np.outer(s, out == 0)), (1 - damping) * s)


def transition(size, edges):
    ids = [str(i) for i in range(size)]
    return TransitionGraph(CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges]))


def chain(start, stop):
    return [(n, n + 1) for n in range(start, stop - 1)]


@st.composite
def graphs(draw):
    """Random multigraphs, long chains, two chains, hubs, a hub with a tail, rings and complete bipartite graphs (ties)."""
    kind = draw(st.sampled_from(["random", "random", "chain", "chains", "hubs", "tail", "ring", "bipartite"]))
    size = draw(st.integers(30, 90) if kind in ("chain", "chains", "tail") else st.integers(1, 40))
    node = st.integers(0, size - 1)
    some = draw(st.lists(st.tuples(node, node), max_size=size // 2))
    if kind == "random":
        edges = draw(st.lists(st.tuples(node, node), max_size=4 * size))
    elif kind == "chain":
        edges = chain(0, size) * draw(st.integers(1, 3))
    elif kind == "chains":
        cut = draw(node)
        edges = chain(0, cut) + chain(cut, size)
    elif kind == "hubs":
        edges = [(hub, n) for hub in {draw(node), draw(node)} for n in range(size)] + some
    elif kind == "tail":
        edges = [(0, n) for n in range(1, size // 2)] + chain(size // 2 - 1, size)
    elif kind == "ring":
        edges = chain(0, size) + [(size - 1, 0)]
    else:
        half = draw(st.integers(0, min(size, 8)))
        edges = [(a, b) for a in range(half) for b in range(half, size)]
    return size, edges


@st.composite
def cases(draw):
    size, edges = draw(graphs())
    weight = st.one_of(st.integers(1, 5), st.sampled_from([1e-3, 1e-9]))
    seeds = draw(st.dictionaries(st.integers(0, size - 1), weight, min_size=1, max_size=4))
    restart = [float(seeds.get(i, 0)) for i in range(size)]
    return size, edges, restart, draw(st.sampled_from([0.0, 0.1, 0.5, 0.85, 0.95, 0.99]))


@settings(max_examples=150)
@given(cases(), st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_power_iteration_equals_the_definition(case, tolerance):
    size, edges, restart, damping = case
    both = torch.tensor([restart, restart[::-1]], dtype=torch.float64)
    found = personalized_pagerank(transition(size, edges), both, damping=damping, tolerance=tolerance)
    alone = personalized_pagerank(transition(size, edges), both[:1], damping=damping, tolerance=tolerance)
    for row, weights in zip([*found, *alone], [restart, restart[::-1], restart], strict=True):
        assert np.abs(row.numpy() - dense_solution(size, edges, weights, damping)).sum() < tolerance


@pytest.mark.parametrize("steps", [300, 0])
def test_a_query_that_is_done_stays_as_it_is_beside_others(monkeypatch, steps):
    monkeypatch.setattr(pagerank, "_STEPS", steps)
    # A walk from an isolated node is done at once, one from a hub before one from the end of a chain.
    graph = transition(60, chain(0, 40) + [(40, n) for n in range(41, 59)])
    restart = torch.eye(60, dtype=torch.float64)[[59, 40, 0, 0]]
    # Nearly where the walk ends by itself.
    restart[3] *= 0.01
    restart[3, :59] += graph.root[:59] ** 2
    for damping in (0.5, 0.95):
        found = personalized_pagerank(graph, restart, damping=damping, tolerance=1e-8)
        for row, alone in zip(found, restart, strict=True):
            assert (row - personalized_pagerank(graph, alone[None], damping=damping, tolerance=1e-8)[0]).abs().max() < 1e-15
        assert found[0, 59] == 1


def test_hits_of_a_chain_are_those_of_the_walk():
    ids = [str(n) for n in range(12)]
    index = GraphIndex.from_texts(["one"] * 12, edges=list(zip(ids, ids[1:], strict=False)), vectors=np.eye(12), bm25=False)
    hits = Retriever(index, PPR(seeds=1, passage_weight=0.0)).retrieve("one", k=10, vector=np.eye(12)[0])
    assert [hit.id for hit in hits] == ids[:10]
    assert {hit.operator for hit in hits} == {"PersonalizedPageRank"} and hits.notes == ()


@pytest.mark.parametrize("steps", [300, 0])
def test_the_bound_holds_where_nearly_all_mass_restarts_at_an_isolated_node(monkeypatch, steps):
    # With or without the steps of Chebyshev before those of the walk.
    monkeypatch.setattr(pagerank, "_STEPS", steps)
    # The isolated node keeps 1 - d of its mass, so that bringing the sum to 1 enlarges all errors nearly a hundredfold.
    # The chain of triangles mixes slowly without swinging between two sides, which leaves the bound hardly any room.
    edges = chain(0, 90) + [(n, n + 2) for n in range(88)]
    restart = [1e-3] + [0.0] * 89 + [1.0]
    weights = torch.tensor([restart], dtype=torch.float64)
    found = personalized_pagerank(transition(91, edges), weights, damping=0.99, tolerance=1e-5)
    assert np.abs(found[0].numpy() - dense_solution(91, edges, restart, 0.99)).sum() < 1e-5


def test_what_cannot_converge_is_refused():
    with pytest.raises(ConvergenceError, match=r"not converged after 10,000 steps.*Lower the damping or raise the tolerance"):
        personalized_pagerank(transition(4000, chain(0, 4000)), torch.eye(4000)[:1], damping=0.9999)
    graph, restart = transition(40, chain(0, 40)), torch.eye(40)[:1]
    for damping, tolerance in ((0.5, 0.0), (0.5, 1e-30), (0.99, 1e-14)):
        with pytest.raises(ConvergenceError, match="rounding"):
            personalized_pagerank(graph, restart, damping=damping, tolerance=tolerance)
    assert issubclass(ConvergenceError, GraphRetrieverError) and issubclass(ConvergenceError, ArithmeticError)


@pytest.mark.parametrize(
    ("damping", "expected"),
    [
        (0.5, [0.377103, 0.347668, 0.101777, 0.014230, 0.115068, 0.041520, 0.002635, 0]),
        (0.85, [0.207774, 0.339229, 0.204246, 0.060144, 0.104059, 0.065613, 0.018934, 0]),
    ],
)
def test_worked_numbers_of_prpack_up_to_their_fractional_synonym_edge(damping, expected):
    pairs = [(0, 1)] * 2 + [(1, 2)] * 4 + [(0, 4), (1, 4), (1, 5), (2, 5), (3, 6)]
    ids = [str(i) for i in range(8)]
    edges = [Edge(str(a), str(b)) for a, b in pairs] + [Edge("2", "3", weight=0.85)] * 2
    graph = TransitionGraph(CorpusGraph(ids, ids, edges=edges))
    restart = torch.tensor([[0.5, 0.25, 0, 0, 0.05, 0.02, 0, 0]])
    assert personalized_pagerank(graph, restart, damping=damping)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_bad_restarts_and_damping_are_refused():
    graph = transition(3, [(0, 1)])
    with pytest.raises(InvalidArgumentError, match="query 1 are all zero"):
        personalized_pagerank(graph, torch.tensor([[1.0, 0, 0], [0, 0, 0]]))
    with pytest.raises(InvalidArgumentError, match="not negative"):
        personalized_pagerank(graph, torch.tensor([[1.0, -1, 0]]))
    with pytest.raises(InvalidArgumentError, match="damping"):
        personalized_pagerank(graph, torch.ones(1, 3), damping=1.0)


def test_the_retriever_reaches_what_the_seeds_link_to():
    texts = ["alpha", "beta", "gamma", "delta", "epsilon"]
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.1, 0.9], [0.0, 1.0], [0.1, 0.9]]
    graph = CorpusGraph(list("01234"), texts, edges=[("0", "1"), ("1", "2")])
    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=False)
    hits = Retriever(index, PPR(seeds=1, passage_weight=0.0), k=3).retrieve("alpha", vector=[1.0, 0.0])
    assert [h.id for h in hits] == ["0", "1", "2"]
    assert [h.operator for h in hits] == ["PersonalizedPageRank"] * 3
    hits = Retriever(index, PPR(seeds=1), k=5).retrieve("alpha", vector=[1.0, 0.0])
    assert [h.id for h in hits][:2] == ["0", "1"] and len(hits) == 5


@settings(max_examples=60)
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
    retriever = Retriever(index, PPR(seeds=1, passage_weight=passage_weight), backfill=False)

    def found(**filters):
        return [hit.id for hit in retriever.retrieve("one", **filters)]

    assert found(seed_filter={"$id": "0"}) == ["0", "1", "2"]
    assert found(seed_filter={"$id": "0"}, traversal_filter={"$id": {"$ne": "1"}}) == ["0"]
    assert found(seed_filter={"$id": "nobody"}) == []


def test_nodes_far_down_the_ranking_are_found_behind_a_filter():
    ids = [str(n) for n in range(30)]
    index = GraphIndex.from_texts(["one"] * 30, edges=[("0", other) for other in ids[1:]], vectors=np.eye(30), bm25=False)
    filters = {"filter": {"$id": {"$in": ids[20:]}}, "seed_filter": {"$id": "0"}}
    hits = Retriever(index, PPR(seeds=1, passage_weight=0.0), k=2, backfill=False).retrieve("one", vector=np.eye(30)[0], **filters)
    assert [hit.id for hit in hits] == ids[20:22]


def test_nodes_that_are_the_least_similar_but_for_rounding_share_no_weight():
    index = GraphIndex.from_texts(["one", "two", "two"], vectors=[[1.0], [-1.0], [-1.0 + 1e-7]])
    queries = Queries.of(index, ["two"], vectors=[[1.0]], seed_filter={"$id": {"$in": ["1", "2"]}})
    found = ranked(Pipeline(BM25Search(2), PersonalizedPageRank(passage_weight=1.0)), queries)
    assert found.nodes[0].tolist() == [1, 2] and found.scores[0].tolist() == [0.5, 0.5]


def test_walks_that_differ_are_each_their_own_beside_others():
    queries = Queries.of(GraphIndex.from_texts(["one"] * 6, vectors=np.eye(6), bm25=False), ["?"] * 4, vectors=np.eye(6)[:4])
    graphs = [transition(6, chain(0, 6)), transition(6, [(0, 5), (5, 2)])]

    def elsewhere(_, places):
        return torch.eye(6, dtype=torch.float64)[[3] * len(places)]

    def none(_, places):
        return torch.zeros(len(places), 6, dtype=torch.float64)

    def walk(graph, damping, spread):
        return (yield Walk(graph, np.array([0]), np.ones(1), 1.0, spread, ((None, 6),), damping))

    settings_ = [(graphs[0], 0.5, none), (graphs[1], 0.5, none), (graphs[0], 0.9, none), (graphs[0], 0.5, elsewhere)]
    together = run(MemoryBackend(queries), [walk(*each) for each in settings_])
    for each, found in zip(settings_, together, strict=True):
        (alone,) = run(MemoryBackend(queries), [walk(*each)])
        assert [part.tolist() for part in found] == [part.tolist() for part in alone]


@pytest.mark.parametrize("seed", range(30))
def test_of_neighbours_that_send_as_much_the_lower_row_is_the_parent(seed):
    # From 0 by two arms to the last node, with as many leaves each, whose rows are drawn.
    rows = np.random.default_rng(seed).permutation(np.arange(1, 12)).tolist()
    arms, last = (rows[:5], rows[5:10]), rows[10]
    edges = [(0, arm[0]) for arm in arms] + [(arm[0], other) for arm in arms for other in (*arm[1:], last)]
    index = GraphIndex.from_texts(["a loom"] + ["a card"] * 11, edges=[(str(a), str(b)) for a, b in edges])
    hits = Retriever(index, Pipeline(BM25Search(1), PersonalizedPageRank(passage_weight=0))).retrieve("loom", k=12)
    paths = {hit.id: hit.path.nodes for hit in hits}
    assert paths[str(last)] == ("0", str(min(arm[0] for arm in arms)), str(last))


def test_without_seeds_and_vectors_nothing_is_found():
    index = GraphIndex.from_texts(["loom", "card", "valve"], edges=[("0", "1")])
    retriever = Retriever(index, PPR(first=BM25Search(2), passage_weight=0), backfill=False)
    assert [[hit.id for hit in hits] for hits in retriever.retrieve_batch(["zebra", "loom"])] == [[], ["0", "1"]]


def test_a_hit_is_reached_from_the_neighbour_that_sends_it_most():
    # 0 is the seed; 3 hears more from 1 (two edges) than from 2 (one edge among four).
    edges = [("0", "1"), ("0", "2"), ("1", "3"), ("2", "3"), ("2", "4"), ("2", "5"), ("2", "6")]
    ids = [str(i) for i in range(8)]
    index = GraphIndex.from_graph(CorpusGraph(ids, ids, edges=edges), vectors=[[1.0]] + [[0.0]] * 7, bm25=False)
    hits = {h.id: h for h in Retriever(index, PPR(seeds=1, passage_weight=0.0), k=7).retrieve("zero", vector=[1.0])}
    assert hits["0"].path.nodes == ("0",)
    assert hits["3"].path.nodes == ("0", "1", "3")
    assert hits["5"].path.nodes == ("0", "2", "5")


@settings(max_examples=60)
@given(cases())
def test_paths_run_along_edges_from_a_seed_or_upwards(case):
    size, edges, restart, _ = case
    ids = [str(i) for i in range(size)]
    graph = CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges])
    index = GraphIndex.from_graph(graph, vectors=[[r + 0.01] for r in restart], bm25=False)
    linked = {(a, b) for a, b in edges} | {(b, a) for a, b in edges}
    hits = Retriever(index, PPR(seeds=2), k=size).retrieve("question", vector=[1.0])
    place = {h.id: i for i, h in enumerate(hits)}
    for hit in hits:
        for near, far in zip(hit.path.nodes, hit.path.nodes[1:], strict=False):
            assert (int(near), int(far)) in linked
            assert place[near] < place[far]


@pytest.mark.parametrize("seed", range(20))
def test_equal_shares_are_in_the_order_of_rows(seed):
    """The weight of an edge is such that two nodes of a random graph, which are not alike, have the same share."""
    draw, size, last = np.random.default_rng(seed), 30, 29
    edges = [tuple(sorted(map(int, draw.choice(size, 2, replace=False)))) for _ in range(10)] + chain(0, size)

    def last_has_more(weight, row):
        table = np.zeros((size, size))
        for a, b in edges:
            table[[a, b], [b, a]] += weight if (a, b) == edges[-1] else 1
        shares = np.linalg.solve(np.eye(size) - 0.5 * table / table.sum(0), np.eye(size)[0])
        return shares[last] > shares[row]

    for row in (8, 22):
        light, heavy = 1e-3, 1e3
        if last_has_more(light, row) == last_has_more(heavy, row):
            continue
        for _ in range(60):
            middle = (light * heavy) ** 0.5
            light, heavy = (light, middle) if last_has_more(middle, row) == last_has_more(heavy, row) else (middle, heavy)
        rows = [Edge(str(a), str(b), weight=light if (a, b) == edges[-1] else 1.0) for a, b in edges]
        index = GraphIndex.from_texts(["a loom"] + ["a card"] * last, edges=rows)
        queries = Queries.of(index, ["loom"])
        found = ranked(Pipeline(BM25Search(1), PersonalizedPageRank(size, passage_weight=0)), queries).nodes[0].tolist()
        assert found.index(row) < found.index(last)
