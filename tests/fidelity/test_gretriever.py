"""G-Retriever against its published prizes and graphs: worked cases, and random graphs against a literal reference."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import Edge, GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.core.driver import run
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.description import NO_EDGES_NOTE
from graph_retrievers.graph.steiner_tree import prize_collecting_steiner_tree
from graph_retrievers.operators import VectorSearch
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems import gretriever
from graph_retrievers.systems.gretriever import GRetriever, edge_prizes
from tests.rankings import ranked
from tests.references import gretriever as reference

ENDS = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5)]
NODES, EDGES = [0.9, 0.1, 0.2, 0.8, 0.3, 0.7], [0.5, 0.4, 0.9, 0.1, 0.2, 0.3]
QUERY = [1.0, 0.0]


def vectors(cosines):
    return [[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines]


def index_of(size, ends, nodes, edges=None, types=None):
    """An index whose nodes and edges have given cosines to QUERY."""
    ids = [f"n{row}" for row in range(size)]
    relations = [(ids[a], ids[b], f"r{place % 3}") for place, (a, b) in enumerate(ends)]
    graph = CorpusGraph(ids, [""] * size, types=types, edges=relations)
    signals = {"dense": DenseIndex(vectors(nodes))}
    if edges is not None and ends:
        signals["edge_dense"] = DenseIndex(vectors(edges), covers="edges")
    return GraphIndex(graph, signals)


def found(index, count=1, nodes=3, edges=3, **options):
    """The nodes, best first, and the edges of the subgraph of the first of `count` equal queries, and the ranking."""
    queries = Queries.of(index, ["?"] * count, vectors=[QUERY] * count, **options.pop("filters", {}))
    ranking = ranked(GRetriever(seeds=nodes, seed_edges=edges, facts=True, **options).compose(index), queries)
    rows = [row for row in ranking.facts.rows[0].tolist() if row >= 0]
    return [node for node in ranking.nodes[0].tolist() if node >= 0], rows, ranking


def test_the_worked_case_gives_the_published_subgraph():
    nodes, edges, ranking = found(index_of(6, ENDS, NODES, EDGES))
    assert sorted(nodes) == [0, 1, 2, 3, 4, 5] and sorted(edges) == [0, 1, 2, 4, 5]
    assert reference.node_prizes(NODES, 3) == [3, 0, 0, 2, 0, 1]
    # By prize and similarity; facts by prize.
    assert nodes == [0, 3, 5, 4, 2, 1] and edges == [2, 0, 1, 4, 5]
    assert ranking.scores[0].tolist() == pytest.approx([3.9, 2.8, 1.7, 0.3, 0.2, 0.1])
    assert ranking.facts.scores[0].tolist() == pytest.approx([3, 2, 1, 0, 0])


@pytest.mark.parametrize(
    ("similarities", "prizes"),
    [
        (EDGES, [2, 1, 3, 0, 0, 0]),
        ([0.5, 0.5, 0.5, 0.1, 0.1, 0.3], [1, 1, 1, 0.5, 0.5, 0.99]),
        # Fewer similarities than prizes: the largest prize is their number.
        ([0.6], [1]),
        ([0.2, 0.2, 0.1], [1, 1, 0.99]),
        # A similarity of 0, and one that equals a prize, are prized once.
        ([0.0, -1.0, 1.0], [2, 1, 3]),
        ([], []),
    ],
)
def test_edges_of_equal_similarity_share_a_prize(similarities, prizes):
    assert reference.edge_prizes(similarities, 3) == pytest.approx(prizes)
    assert edge_prizes(torch.tensor(similarities), 3).tolist() == pytest.approx(prizes)


def test_similarities_that_differ_by_rounding_are_equal_and_excluded_edges_have_no_prize():
    assert edge_prizes(torch.tensor([0.3, 0.3000001, -torch.inf]), 2).tolist() == [0.5, 0.5, 0]
    assert edge_prizes(torch.tensor([-torch.inf]), 2).tolist() == [0]
    assert edge_prizes(torch.tensor([0.3]), 0).tolist() == [0]


@st.composite
def cases(draw):
    """Graphs with hubs, chains, parallel edges, self loops and isolated nodes; similarities with ties."""
    size = draw(st.integers(1, 7))
    ends = draw(st.lists(st.tuples(*[st.integers(0, size - 1)] * 2), max_size=11))
    kind = draw(st.sampled_from(["random", "chain", "hub"]))
    if kind != "random":
        ends = [(n if kind == "chain" else 0, n + 1) for n in range(size - 1)] + ends[:4]
    cosine = st.integers(-4, 9).map(lambda n: n / 10)
    nodes = draw(st.lists(cosine, min_size=size, max_size=size))
    edges = draw(st.lists(cosine, min_size=len(ends), max_size=len(ends)))
    cost = draw(st.sampled_from([0.5, 0.25, 1.0]))
    return size, ends, nodes, edges, draw(st.integers(1, 4)), draw(st.integers(0, 3)), cost


@pytest.mark.slow
@settings(max_examples=150)
@given(cases())
def test_subgraphs_of_random_graphs_are_worth_half_of_the_best(case):
    size, ends, node_cosines, edge_cosines, top_nodes, top_edges, cost = case
    held, inside, prizes, gains = reference.question_graph(ends, node_cosines, edge_cosines, top_nodes, top_edges)
    nodes, rows, ranking = found(index_of(size, ends, node_cosines, edge_cosines), 2, top_nodes, top_edges, cost=cost)
    assert {*nodes} <= {*held} and {*rows} <= {*inside} and len({*nodes}) == len(nodes)
    assert connected(nodes, ends, rows)
    cost = reference.edge_cost(gains, cost)
    place = {node: number for number, node in enumerate(held)}
    parts = [(place[ends[row][0]], place[ends[row][1]]) for row in inside], [prizes[n] for n in held], [gains[r] for r in inside]
    made, all_prizes, costs, _ = reference.solver_graph(len(held), *parts, cost)
    best = reference.most_worth(len(all_prizes), made, all_prizes, costs)
    mine = reference.worth(nodes, rows, ends, prizes, gains, cost)
    assert best / 2 - 1e-6 <= mine
    scores = [prizes[node] + node_cosines[node] for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert ranking.scores[0][: len(nodes)].tolist() == pytest.approx(scores, abs=1e-6)
    assert [gains[row] for row in rows] == sorted((gains[row] for row in rows), reverse=True)
    assert torch.equal(ranking.nodes[0], ranking.nodes[1]) and torch.equal(ranking.facts.rows[0], ranking.facts.rows[1])


def connected(nodes, ends, rows):
    """Whether edges join all of some nodes."""
    reached = {nodes[0]}
    for _ in nodes:
        reached |= {node for row in rows for node in ends[row] if reached & {*ends[row]}}
    return reached == {*nodes}


def test_paths_lead_along_the_edges_of_the_subgraph_from_its_best_node():
    index = index_of(6, ENDS, NODES, EDGES)
    hits = Retriever(index, GRetriever(facts=True), backfill=False).retrieve("?", vector=QUERY)
    assert [str(hit.path) for hit in hits.nodes] == [
        "n0",
        "n0 -[r0]-> n1 -[r1]-> n2 -[r2]-> n3",
        "n0 -[r1]-> n4 -[r2]-> n5",
        "n0 -[r1]-> n4",
        "n0 -[r0]-> n1 -[r1]-> n2",
        "n0 -[r0]-> n1",
    ]
    assert [(hit.edge.source, hit.edge.target) for hit in hits.facts] == [
        *[("n2", "n3"), ("n0", "n1"), ("n1", "n2")],
        *[("n0", "n4"), ("n4", "n5")],
    ]
    subgraph = hits.subgraph()
    assert (len(subgraph.nodes), len(subgraph.edges)) == (6, 5)
    assert subgraph.to_csv().splitlines()[:2] == ["node_id,node_attr", "0,n0"]
    assert [line.split(",")[1] for line in subgraph.to_csv().splitlines()[9:]] == ["r2", "r0", "r1", "r1", "r2"]


def test_an_edge_costs_less_by_its_prize_and_a_prize_above_the_cost_is_paid_once():
    chain = [(0, 1), (1, 2)]
    # The prize of 1 leaves .25 behind the cost of its edge, which does not pay for the way to it.
    assert found(index_of(3, chain, [0.9, 0.1, 0.1], [0.1, 0.9]), nodes=1, edges=1, cost=0.75)[:2] == ([0], [])
    # Two edges with half a prize each cost .25 each, and the prize of 1 at their end pays for both.
    assert found(index_of(3, chain, [0.9, 0.1, 0.8], [0.9, 0.9]), nodes=2, edges=1, cost=0.75)[:2] == ([0, 2, 1], [0, 1])


# Cosines with ties, and what the prizes and costs of the public code of 22 May 2024 give in pcst_fast 1.0.10 ("gw").
TIED = [
    # A star of equal edges and one node with a prize: the older code leaves its centre alone.
    ([(0, n) for n in range(1, 8)], [0.9, *[0.1] * 7], [0.4] * 7, 1, [*range(8)], [*range(7)]),
    ([(2, 0), (2, 1), (1, 2), (0, 2), (2, 0), (1, 0), (2, 0)], [0.7, 0.68, 0.22], [0.25, 0.202, *[0.25] * 5], 3, [0, 1, 2],
     [0, 2, 3, 4, 5, 6]),
    ([(2, 1), (2, 0), (1, 0), (0, 1), (0, 1), (1, 0), (2, 1)], [0.23, 0.41, 0.22], [0.373, 0.333] * 3 + [0.373], 3, [0, 1, 2],
     [0, 2, 4, 6]),
    ([(0, 2), (3, 4), (1, 2), (1, 0), (2, 1), (3, 2), (4, 1)], [0.25, 0.19, 0.42, 0.6, 0.85], [0.451] * 7, 3, [*range(5)],
     [*range(7)]),
    ([(2, 4), (1, 3), (1, 0), (2, 1), (3, 1), (4, 3)], [0.55, 0.81, 0.69, 0.77, 0.68], [0.56, 0.56, 0.56, 0.053, 0.56, 0.56], 3,
     [*range(5)], [0, 1, 2, 4, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("ends", "node_cosines", "edge_cosines", "seeds", "nodes", "edges"), TIED)
def test_edges_cost_less_than_the_highest_prize(ends, node_cosines, edge_cosines, seeds, nodes, edges):
    found_nodes, found_edges, _ = found(index_of(len(node_cosines), ends, node_cosines, edge_cosines), nodes=seeds)
    assert (sorted(found_nodes), sorted(found_edges)) == (nodes, edges)


def test_edges_of_a_relation_tie_where_their_text_is_the_relation_and_not_where_it_is_left_to_the_ends():
    def embed(texts):
        return [[float("wrote" in text), float("Ada" in text), 1.0] for text in texts]

    nodes = [Node(name, "", name) for name in ("Ada", "Babbage", "Byron")]
    ends = [("Ada", "Babbage"), ("Ada", "Byron"), ("Byron", "Babbage")]
    shares = []
    for text in ("wrote to", ""):
        edges = [Edge(*end, "wrote to", text=text) for end in ends]
        index = GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True, metric="cosine")
        hits = Retriever(index, GRetriever(facts=True)).retrieve("To whom wrote Ada?")
        shares.append([(hit.edge.source, hit.edge.target, pytest.approx(hit.score)) for hit in hits.facts])
    assert shares[0] == [(*end, 1 / 3) for end in ends]
    assert shares[1] == [(*end, prize) for end, prize in zip(ends, [1, 1, 0.99], strict=True)]


def test_an_edge_that_matches_is_found_away_from_the_nodes_that_match():
    nodes, rows, ranking = found(index_of(5, [(2, 3), (3, 4)], [0.9, 0.8, 0.1, 0.3, 0.2], [0.9, 0.8]), nodes=1, edges=2)
    assert (nodes, rows, ranking.trails[0].tolist()) == ([3, 4, 2], [0, 1], [[-1, 3], [3, 4], [3, 2]])


def test_a_prize_is_split_among_the_edges_of_the_candidates_alone():
    ends, alike = [(0, 1), (1, 0), (2, 3), (4, 5)], [0.9] * 4
    _, rows, ranking = found(index_of(6, ends, [0.9, *[0.1] * 5], alike), nodes=1, edges=1, cost=0.1)
    assert rows[0] == 0 and ranking.facts.scores[0, 0].tolist() == pytest.approx(1 / 2)
    # A second node that matches brings the edge at it, which takes its share.
    _, rows, ranking = found(index_of(6, ends, [0.9, 0.1, 0.8, 0.1, 0.1, 0.1], alike), nodes=2, edges=1, cost=0.1)
    assert rows[0] == 0 and ranking.facts.scores[0, 0].tolist() == pytest.approx(1 / 3)


def test_fewer_nodes_than_k_are_filled_up_by_similarity_and_more_are_cut():
    index = index_of(6, ENDS, NODES, EDGES)
    filled = Retriever(index, GRetriever(seeds=1, seed_edges=0)).retrieve("?", 4, vector=QUERY)
    assert [(hit.id, hit.operator) for hit in filled] == [
        ("n0", "g-retriever"),
        *[(name, "Backfill") for name in ("n3", "n5", "n4")],
    ]
    assert [hit.id for hit in Retriever(index, GRetriever()).retrieve("?", 2, vector=QUERY)] == ["n0", "n3"]
    assert len(Retriever(index, GRetriever(seeds=1, seed_edges=0), backfill=False).retrieve("?", 4, vector=QUERY)) == 1


def test_an_index_without_vectors_of_edges_is_told():
    index = index_of(6, ENDS, NODES)
    said = "edges have no prizes, for the index has no signal 'edge_dense'; build it with edge_signals=True"
    assert Retriever(index, GRetriever()).retrieve("?", vector=QUERY).notes == (said,)
    assert Retriever(index, GRetriever(seed_edges=0)).retrieve("?", vector=QUERY).notes == ()
    assert Retriever(index_of(2, [], [0.5, 0.4]), GRetriever()).retrieve("?", vector=QUERY).notes == (NO_EDGES_NOTE,)
    with pytest.raises(InvalidArgumentError, match="the signal 'dense' covers nodes"):
        Retriever(index, GRetriever(signal="dense")).retrieve("?", vector=QUERY)


def test_filters_hold_for_nodes_edges_and_the_walk():
    index = index_of(6, ENDS, NODES, EDGES)
    # Node 0 may not start: neither it nor edges at it have prizes; nodes 3, 5 and 4 have 3, 2 and 1, edges 23, 12 and 45 too.
    nodes, rows, ranking = found(index, filters={"seed_filter": lambda node: node.id != "n0"})
    assert (nodes, rows) == ([3, 5, 4, 2, 1], [2, 1, 5, 3])
    assert {trail[trail >= 0][0].item() for trail in ranking.trails[0]} == {3}
    # Nothing is walked through node 4, and node 5 has no other neighbour.
    nodes, rows, _ = found(index, filters={"traversal_filter": lambda node: node.id != "n4"})
    assert (nodes, rows) == ([0, 3, 2, 1], [2, 0, 1])
    # The most similar edge is at node 0, which joins two others; no path begins there.
    chain = index_of(6, [(0, 2), (1, 2), (3, 4), (0, 3)], [0.9, 0.1, 0.2, 0.3, 0.4, 0.8], [0.9, 0.8, 0.7, 0.1])
    nodes, rows, ranking = found(chain, nodes=1, cost=0.25, filters={"seed_filter": lambda node: node.id != "n0"})
    assert (nodes, rows) == ([0, 4, 3, 2, 1], [1, 2, 0, 3])
    assert {trail[trail >= 0][0].item() for trail in ranking.trails[0]} == {4}
    # Seed 3 may not be walked to: no edge at it is used.
    nodes, rows, _ = found(index, filters={"traversal_filter": lambda node: node.id != "n3"})
    assert (nodes, rows) == ([0, 5, 4, 2, 1], [0, 1, 5, 4])
    # Paths lead through what is not returned.
    hits = Retriever(index, GRetriever(), backfill=False).retrieve(
        "?", vector=QUERY, filter=lambda node: node.id != "n4", seed_filter={}
    )
    assert [hit.id for hit in hits] == ["n0", "n3", "n5", "n2", "n1"] and hits[2].path.nodes == ("n0", "n4", "n5")


def around(queries, search, starts):
    """The nodes that the tree is searched among."""
    backend = MemoryBackend(queries)
    return run(backend, [search._candidates(Question(backend, 0), np.array(starts), False)])[0][0].tolist()


def test_candidates_that_do_not_fit_are_those_least_similar_without_two_neighbours_inside():
    # Two seeds, a hub of each, and one node that joins them and is least similar.
    ends = [(0, n) for n in range(2, 7)] + [(1, 6)]
    index = index_of(7, ends, [0.9, 0.8, 0.5, 0.4, 0.3, 0.2, 0.1])
    for candidates, pool in [(3, [0, 1, 6]), (4, [0, 1, 2, 6]), (7, list(range(7)))]:
        search = GRetriever(seeds=2, seed_edges=0, candidates=candidates)
        queries = Queries.of(index, ["?"], vectors=[QUERY])
        assert around(queries, search, [0, 1]) == pool
        ranking = ranked(search.compose(index), queries)
        assert ranking.nodes.tolist() == [[0, 1, 6]] and bool(ranking.notes[0] if ranking.notes else ()) == (candidates < 7)
    queries = Queries.of(index, ["?"], vectors=[QUERY], traversal_filter={"$id": {"$in": ["n0", "n1", "n6"]}})
    assert around(queries, GRetriever(candidates=3), [0, 1]) == [0, 1, 6]
    assert "among the 3 nodes nearest" in str(found(index, candidates=3)[2].notes)


def test_the_work_at_a_hub_of_many_neighbours_and_in_a_dense_graph_is_bounded(monkeypatch):
    sizes = []

    def measured(sources, targets, prizes, costs):
        sizes.append((len(prizes), len(costs)))
        return prize_collecting_steiner_tree(sources, targets, prizes, costs)

    monkeypatch.setattr(gretriever, "prize_collecting_steiner_tree", measured)
    draw = np.random.default_rng(0)
    size = 10_003
    ends = [(0, n) for n in range(1, size)]
    index = index_of(size, ends, draw.uniform(0, 0.9, size).tolist(), draw.uniform(0, 0.9, len(ends)).tolist())
    nodes, rows, ranking = found(index)
    assert sizes == [(1003, 1002)] and 4 <= len(nodes) <= 7 and len(rows) == len(nodes) - 1 and ranking.notes[0]
    dense = [(a, b) for a in range(100) for b in range(a)]
    similar = draw.uniform(0, 0.9, len(dense))
    index = index_of(100, dense, draw.uniform(0, 0.9, 100).tolist(), similar.tolist())
    _, rows, ranking = found(index, candidates=100)
    assert rows[:3] == np.argsort(-similar)[:3].tolist()
    assert sizes[1] == (103, 2003) and ranking.notes[0], "20 edges a candidate, and two in place of each of three"


@pytest.mark.parametrize("option", [{"seed_edges": -1}, {"cost": 0}, {"cost": float("nan")}, {"candidates": 0}])
def test_values_outside_their_range_are_refused(option):
    with pytest.raises(InvalidArgumentError, match=next(iter(option))):
        GRetriever(**option)


def test_a_composition_of_ones_own_may_prize_other_nodes():
    index = index_of(6, ENDS, NODES, EDGES)
    search = Pipeline(VectorSearch(1), GRetriever(seed_edges=0).operator())
    assert [hit.id for hit in Retriever(index, search, backfill=False).retrieve("?", vector=QUERY)] == ["n0"]
    alone = Retriever(index, GRetriever(first=VectorSearch(1), seed_edges=0), backfill=False)
    assert [hit.id for hit in alone.retrieve("?", vector=QUERY)] == ["n0"]
