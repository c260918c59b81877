"""Forward push against the exact solver of PageRank, and against push written out, on random multigraphs."""

import numpy as np
import pytest
import torch

from graph_retrievers import Edge, GraphIndex
from graph_retrievers.core.driver import run
from graph_retrievers.core.requests import WeightedNeighbors
from graph_retrievers.errors import ConvergenceError
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems import push
from graph_retrievers.systems.pagerank import TransitionGraph, personalized_pagerank
from graph_retrievers.systems.push import Adjacency, PushedWalk, pushed
from tests.references.push import push as written_out

LOOM = "a loom"


def random_case(seed):
    """A multigraph with loops, nodes without edges, hubs, chains and ties; restart nodes, some twice; nodes that are walked."""
    draw = np.random.default_rng(seed)
    size = int(draw.integers(1, 120))
    pairs = draw.integers(0, max(1, int(size * draw.choice([0.5, 1.0]))), (int(size * draw.choice([0.3, 1, 3])), 2)).tolist()
    shape = draw.integers(0, 4)
    if shape == 1:
        pairs += [[n, n + 1] for n in range(size - 1)]
    elif shape == 2:
        pairs += [[0, n] for n in range(size // 2)]
    elif shape == 3:
        pairs = [[a, b] for a in range(min(size, 5)) for b in range(5, min(size, 40))]
    repeated = [pair for pair in pairs for _ in range(int(draw.choice([1, 1, 2, 5])))]
    alike = draw.random() < 0.5
    edges = [(a, b, 1.0 if alike else float(np.float32(10 ** draw.uniform(-3, 3)))) for a, b in repeated]
    nodes = draw.integers(0, size, int(draw.integers(1, 9)))
    weights = draw.choice([1.0, 0.5, 3e-4, 0.0], len(nodes))
    weights[0] += 0.25
    walked = draw.random(size) < draw.choice([1.0, 0.7])
    return size, edges, nodes, weights, walked, float(draw.choice([0.0, 0.3, 0.5, 0.85, 0.97]))


def index_of(size, edges):
    made = [Edge(str(a), str(b), weight=weight) for a, b, weight in edges]
    return GraphIndex.from_texts([LOOM] * size, edges=made, bm25=False, vectors=[[1.0]] * size)


def found_by(index, nodes, weights, damping, walked=None, **options):
    """The walk, as shares of all nodes, and what it asked for in each step."""
    queries = Queries.of(index, ["?"], traversal_filter=None if walked is None else torch.from_numpy(walked))
    trace = []
    (walk,) = run(MemoryBackend(queries), [pushed(np.array(nodes), np.array(weights), damping, **options)], trace)
    shares = np.zeros(len(index))
    shares[walk.nodes] = walk.shares
    return walk, shares, [asked.nodes for asked in trace if asked.request is WeightedNeighbors]


def check(seed):
    size, edges, nodes, weights, walked, damping = random_case(seed)
    index = index_of(size, edges)
    restart = np.bincount(nodes, weights, size)
    tolerance = [1e-4, 1e-2, 1e-6][seed % 3]
    for mask in (None, walked):
        graph = TransitionGraph(index.graph, None if mask is None else torch.from_numpy(mask))
        exact = personalized_pagerank(graph, torch.from_numpy(restart)[None], damping=damping, tolerance=1e-10)[0].numpy()
        walk, shares, _ = found_by(index, nodes, weights, damping, mask, tolerance=tolerance)
        # The residual is the error itself: no share is too large.
        assert walk.error <= tolerance
        assert np.abs(shares - exact).sum() == pytest.approx(walk.error, abs=1e-9)
        assert (shares <= exact + 1e-9).all()
        best, values = walk.best(10)
        assert values.tolist() == pytest.approx(sorted(shares, reverse=True)[: len(best)], rel=1e-5)
        assert values.min() > 0 and len(best) == min(10, np.count_nonzero(shares))


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_those_of_the_exact_solver_within_the_residual(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_shares_of_many_random_graphs_are_those_of_the_exact_solver(hundred):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check(seed)


@pytest.mark.parametrize("seed", range(40, 80))
def test_shares_are_those_of_push_written_out(seed):
    size, edges, nodes, weights, _, damping = random_case(seed)
    restart = {}
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        restart[node] = restart.get(node, 0.0) + weight
    expected, residuals = written_out(edges, restart, min(damping, 0.5), 1e-6)
    _, shares, _ = found_by(index_of(size, edges), nodes, weights, min(damping, 0.5), tolerance=1e-8)
    table = np.zeros(size)
    table[list(expected)] = list(expected.values())
    assert np.abs(shares - table).sum() < sum(residuals.values()) + 1e-8


def test_the_pushes_of_a_worked_example():
    """b - a = c - d, where = are edges of the weights 1 and 2; restart at a, half of the residual is passed on."""
    walk = PushedWalk(np.array([0]), np.array([7.0]), 0.5)
    walk.meet(np.array([0]), np.array([1, 2]), np.array([0, 0]), np.array([1.0, 3.0]), np.array([True]))
    walk.push(0.5)
    assert walk.nodes.tolist() == [0, 1, 2]
    assert walk.shares.tolist() == [0.5, 0, 0] and walk.residual.tolist() == [0, 0.125, 0.375]
    # Of c, 3 of 4 parts of 0.375 / 2 go back to a, and of these half is settled and the rest passed on: 1/4 to b, 3/4 to c.
    walk.meet(np.array([2]), np.array([0, 3]), np.array([0, 0]), np.array([3.0, 1.0]), np.array([True]))
    walk.push(0.2)
    assert walk.nodes.tolist() == [0, 1, 2, 3]
    assert walk.shares.tolist() == [0.5, 0, 0.1875, 0]
    assert walk.residual.tolist() == [0.140625, 0.125, 0, 0.046875]
    walk.push(0.1)
    assert walk.shares.tolist() == [0.5703125, 0, 0.1875, 0]
    assert walk.residual.tolist() == [0, 0.142578125, 0.052734375, 0.046875]
    assert walk.error == 0.12109375
    walk.settle()
    assert walk.shares.tolist() == [0.5703125, 0.0712890625, 0.2138671875, 0.0234375]
    assert walk.shares.sum() == 1 - walk.error
    # The residuals of all together are to be small, not each of them.
    both = PushedWalk(np.array([0, 1]), np.ones(2), 0.5)
    both.meet(np.array([0, 1]), np.array([2, 2]), np.array([0, 1]), np.ones(2), np.ones(2, bool))
    both.push(0.6)
    assert both.shares.tolist() == [0.25, 0.25, 0]


def test_whom_the_frontier_asks_for():
    """The residuals are 0.4, 0.4, 0.15 and 0.05, the numbers of neighbours 4, 2, 1 and 0."""
    index = index_of(9, [(0, n, 1.0) for n in (4, 5, 6, 7)] + [(1, 4, 1.0), (1, 5, 1.0), (2, 8, 1.0)])
    backend = MemoryBackend(Queries.of(index, ["?"]))

    def frontier(most, *done):
        walk = PushedWalk(np.array([0, 1, 2, 3]), np.array([0.4, 0.4, 0.15, 0.05]), 0.5)
        walk.is_requested[list(done)] = True
        return run(backend, [walk.frontier(most, Adjacency())])[0].tolist()

    # For each neighbour 0.1, 0.2, 0.15 and 0.05.
    assert frontier(0.01) == [1, 2, 0, 3]
    assert frontier(0.06) == [1, 2, 0] and frontier(0.44) == [1, 2, 0] and frontier(0.46) == [1, 2] and frontier(0.7) == [1]
    assert frontier(0.01, 1, 3) == [2, 0] and frontier(1.1) == [] and frontier(0.7, 0, 1) == []


def test_nodes_that_are_alike_are_asked_for_together_or_not_at_all():
    # Twelve leaves have 0.0117 of the residual, of which a quarter of the tolerance may stay; ten of them would do.
    index = index_of(14, [(0, n, 1.0) for n in range(2, 14)] + [(0, 1, 500.0)])
    _, shares, asked = found_by(index, [0], [1.0], 0.5, tolerance=0.05)
    assert asked == [1, 1] and len(set(shares[2:].tolist())) == 1
    _, shares, asked = found_by(index, [0], [1.0], 0.5, tolerance=0.04)
    assert asked == [1, 13] and len(set(shares[2:].tolist())) == 1
    # Up to rounding: 0.1 + 0.2 is above 0.3, and it would do.
    walk = PushedWalk(np.array([0, 1]), np.array([1.0, 1.0]), 0.5)
    walk.residual = np.array([0.1 + 0.2, 0.3])
    backend = MemoryBackend(Queries.of(index_of(3, [(0, 2, 1.0), (1, 2, 1.0)]), ["?"]))
    assert run(backend, [walk.frontier(0.4, Adjacency())])[0].tolist() == [0, 1]


def test_steps_are_hops_and_not_nodes():
    # A tree of four levels with 1, 5, 25 and 125 nodes.
    edges = [(n, 5 * n + child, 1.0) for n in range(31) for child in range(1, 6)]
    _, _, asked = found_by(index_of(156, edges), [0], [1.0], 0.5)
    assert asked == [1, 5, 25, 125]
    # Behind the seventh of a chain there is less than the tolerance.
    _, _, asked = found_by(index_of(99, [(n, n + 1, 1.0) for n in range(98)]), [0], [1.0], 0.5)
    assert asked == [1] * 7


def test_what_a_node_without_edges_holds_restarts():
    index = index_of(4, [(0, 1, 1.0), (3, 3, 2.0)])
    walk, shares, asked = found_by(index, [0, 2, 2, 3], [1.0, 0.5, 0.5, 2.0], 0.5, tolerance=1e-9)
    # Without what 2 and 3 return, half of their restart weights 1/4 and 1/2, the shares are 1/6, 1/12, 1/8 and 1/4: 5/8 in all.
    assert shares.tolist() == pytest.approx([4 / 15, 2 / 15, 1 / 5, 2 / 5], abs=1e-9) and asked[0] == 3


def test_parents_pass_on_most_and_rank_higher():
    # 0 is the seed; 3 gets more from 1 (two edges) than from 2 (one edge among four).
    edges = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0), (2, 4, 1.0), (2, 5, 1.0), (2, 6, 1.0)]
    walk, _, _ = found_by(index_of(8, edges), [0, 7], [1.0, 0.01], 0.5)
    best, _ = walk.best(9)
    parents = dict(zip(best.tolist(), walk.parents(best, np.array([0])).tolist(), strict=True))
    assert parents == {0: -1, 1: 0, 2: 0, 3: 1, 4: 2, 5: 2, 6: 2, 7: -1}
    # Of two that pass on as much, the lower; from nodes that are not kept, nothing.
    walk, _, _ = found_by(index_of(4, [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)]), [0], [1.0], 0.5)
    assert walk.parents(np.array([0, 1, 2, 3]), np.array([0])).tolist() == [-1, 0, 0, 1]
    assert walk.parents(np.array([0, 2, 3]), np.array([0])).tolist() == [-1, 0, 2]
    assert walk.parents(np.array([0, 1, 2, 3]), np.array([0, 1])).tolist() == [-1, -1, 0, 1]
    assert walk.parents(np.array([0, 3, 1]), np.array([0])).tolist() == [-1, -1, 0]


def test_shares_that_differ_by_rounding_are_in_the_order_of_rows():
    walk = PushedWalk(np.arange(4), np.ones(4), 0.5)
    walk.shares = np.array([0.3, 0.2, 0.2 + 1e-12, 0.0])
    nodes, shares = walk.best(9)
    assert nodes.tolist() == [0, 1, 2] and shares.tolist() == [0.3, 0.2, 0.2]


def test_a_walk_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr(push, "_MAX_STEPS", 12)
    edges = [(n, n + 1, 1.0) for n in range(4)]
    with pytest.raises(ConvergenceError, match=r"damping 0.9 has not converged after 12 steps, with .* left; lower the damping"):
        found_by(index_of(5, edges), [0], [1.0], 0.9)
    found_by(index_of(5, edges), [0], [1.0], 0.2)
