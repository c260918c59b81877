"""Spreading activation and chains on random graphs: against literal references, batch against single, run against run."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.spreading import chains as chain_module
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.rankings import Ranking, ranked
from tests.references.spreading import adjacency, best_chains, spread
from tests.retrievers import FUSED_SPREADING

# Quarters make equal activations common, and exact in the reference.
LEVELS = [0, 0.25, 0.5, 0.75, 1]


@st.composite
def problems(draw, scores=(0.25, 0.5, 1.0)):
    """A multigraph with self loops and parallel edges, and for each of three queries its gates and seeds."""
    size = draw(st.integers(2, 10))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=24))
    queries = [
        (
            draw(st.lists(st.sampled_from(LEVELS), min_size=size, max_size=size)),
            draw(st.dictionaries(node, st.sampled_from(scores), max_size=3)),
        )
        for _ in range(3)
    ]
    return size, edges, queries


def index_of(size, edges, device="cpu"):
    ids = [f"n{i}" for i in range(size)]
    return GraphIndex(CorpusGraph(ids, [""] * size, edges=[(ids[a], ids[b]) for a, b in edges], device=device))


def run(index, queries, options=None, search=None, **filters):
    """Propagate from given seeds behind given gates; return the ranking, with the chains where a search is given."""
    table = torch.tensor([gates for gates, _ in queries], dtype=torch.float64, device=index.device)
    width = max(len(seeds) for _, seeds in queries)
    nodes = [[*seeds, *[-1] * (width - len(seeds))] for _, seeds in queries]
    scores = [[*seeds.values(), *[0.0] * (width - len(seeds))] for _, seeds in queries]
    shape = (len(queries), width)
    rows = torch.tensor(nodes, device=index.device).reshape(shape).long()
    start = Ranking.of(rows, torch.tensor(scores, device=index.device).reshape(shape), "Seeds")
    batch = Queries.of(index, ["question"] * len(queries), **filters)
    ranking = ranked(GatedPropagation(gate=lambda _, b, v: table[b, v], **(options or {})), batch, start)
    if search is None:
        return ranking
    searched = ranked(search, batch, ranking)
    assert torch.equal(searched.nodes, ranking.nodes) and torch.equal(searched.scores, ranking.scores)
    return searched


def activation_of(ranking, b):
    pairs = zip(ranking.nodes[b].tolist(), ranking.scores[b].tolist(), strict=True)
    return {node: score for node, score in pairs if node >= 0}


def chains_of(ranking, b):
    chains = ranking.chains
    pairs = zip(chains.nodes[b].tolist(), chains.scores[b].tolist(), strict=True)
    return [(score, tuple(v for v in nodes if v >= 0)) for nodes, score in pairs if nodes[0] >= 0]


# With the second, activations are exact, and often just the threshold.
SETTINGS = [(Fraction(7, 10), Fraction(1, 100)), (Fraction(1, 2), Fraction(1, 4))]


@given(
    problems((0.0, 0.25, 0.5, 1.0)), st.sampled_from(["set", "rows"]), st.integers(1, 4), st.sampled_from(SETTINGS), st.booleans()
)
@settings(max_examples=120)
def test_propagation_equals_the_literal_reference(problem, semantics, steps, setting, damped):
    size, edges, queries = problem
    options = {"semantics": semantics, "steps": steps, "hub_exponent": 1.0 if damped else 0.0}
    ranking = run(index_of(size, edges), queries, options | dict(zip(("decay", "threshold"), map(float, setting), strict=True)))
    neighbours = adjacency(edges, semantics)
    # A row from a node to itself counts as a row at it.
    degree = {u: len(near) + (semantics == "rows") * edges.count((u, u)) for u, near in neighbours.items()} if damped else None
    for b, (gates, seeds) in enumerate(queries):
        exact = {node: Fraction(gate) for node, gate in enumerate(gates)}
        expected, parents = spread(neighbours, {n: Fraction(s) for n, s in seeds.items()}, exact, steps, *setting, degree=degree)
        found = activation_of(ranking, b)
        assert found == pytest.approx({node: float(level) for node, level in expected.items()}, rel=1e-5)
        assert int(ranking.touched[b]) == len(expected)
        assert list(found) == sorted(found, key=lambda node: (-found[node], node))
        trails = ranking.trails[b].tolist() if expected else []
        for node, trail in zip(ranking.nodes[b].tolist(), trails, strict=False):
            if node < 0:
                continue
            path = [node]
            while parents[path[0]] is not None:
                path.insert(0, parents[path[0]])
            assert [v for v in trail if v >= 0] == path


@given(problems(), st.sampled_from(["set", "rows"]), st.sampled_from(["after_limit", "before_limit"]), st.sampled_from([2, 5, 30]))
@settings(max_examples=60)
def test_chains_equal_naive_search(problem, semantics, dedupe, limit):
    size, edges, queries = problem
    search = ChainSearch(limit, dedupe=dedupe, semantics=semantics)
    ranking = run(index_of(size, edges), queries, {"semantics": semantics}, search)
    assert not any(ranking.notes), "no search was cut short"
    for b, (_, seeds) in enumerate(queries):
        expected = best_chains(adjacency(edges, semantics), seeds, activation_of(ranking, b), limit, 4, dedupe)
        found = chains_of(ranking, b)
        assert [nodes for _, nodes in found] == [nodes for _, nodes in expected]
        assert [mean for mean, _ in found] == pytest.approx([mean for mean, _ in expected], rel=1e-5)


@given(problems(), st.data(), st.sampled_from(["set", "rows"]), st.sampled_from(["after_limit", "before_limit"]))
@settings(max_examples=60)
def test_chains_enter_no_node_that_may_not_be_walked_to(problem, data, semantics, dedupe):
    size, edges, queries = problem
    walkable = set(data.draw(st.lists(st.integers(0, size - 1), max_size=size)))
    index, search = index_of(size, edges), ChainSearch(30, dedupe=dedupe, semantics=semantics)
    ranking = run(index, queries, {"semantics": semantics}, search, traversal_filter=lambda node: int(node.id[1:]) in walkable)
    open_ways = {u: [v for v in near if v in walkable] for u, near in adjacency(edges, semantics).items()}
    for b, (_, seeds) in enumerate(queries):
        expected = best_chains(open_ways, seeds, activation_of(ranking, b), 30, 4, dedupe)
        found = chains_of(ranking, b)
        assert {node for _, nodes in found for node in nodes[1:]} <= walkable
        assert [nodes for _, nodes in found] == [nodes for _, nodes in expected]
        assert [mean for mean, _ in found] == pytest.approx([mean for mean, _ in expected], rel=1e-5)


@given(problems(), st.integers(1, 3))
@settings(max_examples=30)
def test_a_narrow_search_is_right_where_it_says_so(problem, width):
    size, edges, queries = problem
    ranking = run(index_of(size, edges), queries, None, ChainSearch(4, width=width))
    for b, (_, seeds) in enumerate(queries):
        if not ranking.notes or not ranking.notes[b]:
            expected = best_chains(adjacency(edges), seeds, activation_of(ranking, b), 4)
            assert [nodes for _, nodes in chains_of(ranking, b)] == [nodes for _, nodes in expected]


@given(problems())
@settings(max_examples=30)
def test_a_batch_gives_each_query_what_it_gets_alone(problem):
    size, edges, queries = problem
    index = index_of(size, edges)
    together = run(index, queries, None, ChainSearch(5))
    for b, query in enumerate(queries):
        alone = run(index, [query], None, ChainSearch(5))
        assert activation_of(together, b) == activation_of(alone, 0)
        assert chains_of(together, b) == chains_of(alone, 0)


@given(problems())
@settings(max_examples=30)
def test_work_in_small_pieces_changes_nothing(problem):
    size, edges, queries = problem
    index = index_of(size, edges)
    whole = run(index, queries, None, ChainSearch(5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_module, "EDGE_LIMIT", 2)
        parts = run(index, queries, None, ChainSearch(5))
    for b in range(len(queries)):
        assert activation_of(whole, b) == activation_of(parts, b)
        assert chains_of(whole, b) == chains_of(parts, b)


@pytest.mark.parametrize("name", ["spreading", "spreading(gate='uniform')", FUSED_SPREADING])
def test_batches_and_repeated_calls_agree_on_a_larger_graph(name, device):
    generator = torch.Generator().manual_seed(3)
    size = 300
    vectors = torch.randn(size, 16, generator=generator) + 0.7
    ids = [f"n{i}" for i in range(size)]
    pairs = torch.randint(size, (900, 2), generator=generator).tolist()
    titles, edges = [f"Node {i}" for i in range(size)], [(ids[a], ids[b]) for a, b in pairs]
    graph = CorpusGraph(ids, ["text"] * size, titles=titles, edges=edges, device=device)
    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=False)
    questions = [f"How are Node {i} and Node {7 * i + 1} related?" for i in range(6)] + ["No name here"]
    asked = torch.randn(7, 16, generator=generator) + 0.7
    retriever = Retriever(index, name)
    together = retriever.retrieve_batch(questions, 20, vectors=asked)
    again = retriever.retrieve_batch(questions, 20, vectors=asked)
    for b, question in enumerate(questions):
        alone = retriever.retrieve(question, 20, vector=asked[b])
        assert [h.id for h in alone] == [h.id for h in together[b]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[b]], rel=1e-5)
        assert [h.to_dict() for h in again[b]] == [h.to_dict() for h in together[b]]
        assert len([h for h in alone if h.kind == "node"]) == 20
