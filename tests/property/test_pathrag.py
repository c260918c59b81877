"""PathRAG's paths on random graphs: against depth-first search, batch against single, and hubs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems import pathrag
from graph_retrievers.systems.pathrag import PathRAG
from tests.rankings import Ranking, ranked
from tests.references.pathrag import best_paths, node_order


@st.composite
def problems(draw):
    """A multigraph with self loops, parallel edges, hubs, chains and isolated nodes; and for three queries their seeds."""
    size = draw(st.integers(2, 9))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    edges += [(draw(node), other) for other in range(size)] if draw(st.booleans()) else []
    edges += [(n, n + 1) for n in range(size - 1)] if draw(st.booleans()) else []
    seeds = [draw(st.lists(node, unique=True, max_size=6)) for _ in range(3)]
    walkable = draw(st.one_of(st.none(), st.sets(node)))
    return size, edges, seeds, walkable, draw(st.sets(node, max_size=2))


def neighbours(edges):
    table = {}
    for a, b in edges:
        if a != b:
            table.setdefault(a, set()).add(b)
            table.setdefault(b, set()).add(a)
    return table


def index_of(size, edges, device="cpu", passages=()):
    ids = [f"n{n}" for n in range(size)]
    types = ["passage" if n in passages else "" for n in range(size)]
    graph = CorpusGraph(ids, ids, types=types, edges=[(ids[a], ids[b]) for a, b in edges], device=device)
    return GraphIndex.from_graph(graph, bm25=False)


def run(index, seeds, walkable=None, **options):
    width = max(map(len, seeds))
    table = torch.tensor([[*rows, *[-1] * (width - len(rows))] for rows in seeds], device=index.device).reshape(len(seeds), width)
    allowed = None if walkable is None else torch.tensor([n in walkable for n in range(len(index))], device=index.device)
    queries = Queries.of(index, ["?"] * len(seeds), traversal_filter=allowed)
    start = Ranking.of(table.long(), -torch.arange(width).expand_as(table), "Seeds")
    return ranked(PathRAG(chains="hits", **options).operator(), queries, start)


def lists(found, b):
    chains = [tuple(n for n in path if n >= 0) for path in found.chains.nodes[b].tolist() if path[0] >= 0]
    trails = [tuple(n for n in trail if n >= 0) for trail in found.trails[b].tolist()]
    return chains, dict(zip(found.nodes[b].tolist(), trails, strict=True))


@settings(max_examples=300)
@given(problems(), st.sampled_from([1, 4, 15]), st.sampled_from([(0.8, 0.3), (0.8, 0.2), (1.0, 0.0), (0.5, 0.3)]))
def test_paths_are_those_of_depth_first_search(problem, limit, flow):
    size, edges, seeds, walkable, passages = problem
    index, options = index_of(size, edges, passages=passages), {"alpha": flow[0], "theta": flow[1]}
    found = run(index, seeds, walkable, paths=limit, **options)
    assert not any(found.notes)
    for b, starts in enumerate(seeds):
        # Where every node is a chunk, each is an entity too.
        chunks = passages if len(passages) < size else set()
        may = (set(range(size)) if walkable is None else walkable) - chunks
        expected = best_paths(neighbours(edges), starts, limit, *flow, may.__contains__)
        chains, trails = lists(found, b)
        assert chains == [path for _, path in expected]
        assert found.chains.scores[b, : len(expected)].tolist() == pytest.approx([score for score, _ in expected], abs=1e-6)
        order = node_order(expected, starts)
        trails.pop(-1, None)
        assert list(trails) == list(order) and trails == order
        alone = run(index, [starts], walkable, paths=limit, **options)
        assert lists(alone, 0)[0] == chains


def test_paths_whose_reliabilities_differ_by_rounding_are_in_the_order_of_their_ends():
    edges = [(2, 1), (3, 1), (3, 2), (4, 0), (4, 1), (4, 3), (5, 0), (5, 4), (6, 1), (6, 2), (6, 3), (6, 5), (7, 1), (7, 6)]
    edges, seeds = [*edges, (8, 1), (8, 5), (8, 7)], [0, 4, 8, 6]
    chains, _ = lists(run(index_of(9, edges), [seeds], paths=2, alpha=1.0, theta=0.0), 0)
    assert chains == [path for _, path in best_paths(neighbours(edges), seeds, 2, 1.0, 0.0)]


def test_a_pair_of_hubs_is_answered_within_the_bounds(monkeypatch):
    """Two hubs share 10,000 neighbours, which are linked among themselves: half a million paths of three steps."""
    size = 10_002
    edges = [(hub, n) for hub in (0, 1) for n in range(2, size)] + [(n, n + 1) for n in range(2, size - 1)]
    edges += [(n, n + step) for step in range(2, 8) for n in range(2, size - step)]
    joined = []
    monkeypatch.setattr(pathrag, "_pairs", lambda *given: joined.append(out := kept(*given)) or out)
    found = run(index_of(size, edges), [[0, 1, 5], [0, 1]])
    assert [bool(notes) for notes in found.notes] == [True, True] and "too many" in found.notes[0][0]
    assert all(len(out[0]) <= pathrag._MOST_PATHS for out in joined)
    assert set(lists(found, 0)[0][0]) == {0, 5}, "a node of 60 neighbours and a hub that are linked"


def test_as_many_seeds_as_a_graph_has_nodes_give_the_reliabilities_of_few():
    # Squares of the numbers of seeds and of nodes do not fit into 64 bits together.
    size = 90_000
    index = index_of(size, [(n, n + 1) for n in range(size - 1)])
    found = run(index, [list(range(size))], paths=3 * size).chains.scores[0]
    # In a row of nodes, one path leads from any to any other.
    expected = torch.tensor([1.0, (1 + 0.8) / 2, (1 + 0.8 + 0.64) / 3])
    assert found.unique().tolist() == pytest.approx(expected.sort().values.tolist())


kept = pathrag._pairs


@pytest.mark.parametrize(("bound", "most"), [("_MOST_PATHS", 10), ("_MOST_EDGES", 22)])
@pytest.mark.parametrize("hub", [2, 3])
def test_a_bound_keeps_middle_nodes_of_few_neighbours_and_says_so(monkeypatch, bound, most, hub, device):
    # From 0 to 1 by way of a node of two neighbours or of a hub, 2 and 3, and by way of 4 and 5.
    edges = [(0, 2), (2, 1), (0, 3), (3, 1), (0, 4), (4, 5), (5, 1), *((hub, n) for n in range(6, 20))]
    index = index_of(20, edges, device)
    monkeypatch.setattr(pathrag, bound, most)  # of the middle nodes: pairs of their seeds, or their neighbours
    whole = run(index, [[0, 1]])
    assert not any(whole.notes) and set(lists(whole, 0)[0]) == {(0, 2, 1), (0, 3, 1), (0, 4, 5, 1)}
    monkeypatch.setattr(pathrag, bound, 6)
    found = run(index, [[0, 1]])
    assert found.notes == (("not all paths were looked at, as there are too many",),)
    assert {(0, 5 - hub, 1), (0, 4, 5, 1)} <= set(lists(found, 0)[0])


def test_a_bound_keeps_the_edges_whose_ends_have_few_neighbours_together(monkeypatch):
    # From 0 to 1 by way of 4 and 5, of two neighbours each, or of the hubs 6 and 7, of ten and of twelve.
    edges = [(0, 4), (4, 5), (5, 1), (0, 6), (6, 7), (7, 1), *((6, n) for n in range(8, 16)), *((7, n) for n in range(16, 26))]
    index = index_of(26, edges)
    assert set(lists(run(index, [[0, 1]]), 0)[0]) == {(0, 4, 5, 1), (0, 6, 7, 1)}
    monkeypatch.setattr(pathrag, "_MOST_PATHS", 2)
    assert lists(run(index, [[0, 1]]), 0)[0] == [(0, 4, 5, 1)]


def test_an_edge_of_which_one_end_is_read_is_walked_both_ways(monkeypatch):
    # From the seed 1 to the seed 0 by way of the hub 3 and of 2; of the two, 2 alone is read.
    index = index_of(20, [(0, 2), (2, 3), (3, 1), *((3, n) for n in range(4, 20))])
    assert lists(run(index, [[1, 0]]), 0)[0] == [(1, 3, 2, 0)]
    monkeypatch.setattr(pathrag, "_MOST_EDGES", 6)
    assert lists(run(index, [[1, 0]]), 0)[0] == [(1, 3, 2, 0)]
