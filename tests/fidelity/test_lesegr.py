"""LeSeGR against numbers worked by hand, a literal reading of Algorithm 1, and its degenerate cases."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.core.driver import run
from graph_retrievers.core.question import Question
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.description import NO_EDGES_NOTE
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import (
    BM25Search,
    HybridSearch,
    LeSeGRModel,
    LexicalSemanticSearch,
    Pipeline,
    ReciprocalRankFusion,
    VectorSearch,
)
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.signal import Signal
from graph_retrievers.systems.lesegr import search as search_module
from graph_retrievers.systems.lesegr.model import ENCODERS
from tests.rankings import Ranking, lists_of, ranked


class Given(Signal):
    """Sparse scores that a test gives, the same for every query."""

    kind = "given"
    reads = "text"

    def __init__(self, values):
        self.values = torch.tensor(values)

    def __len__(self):
        return self.values.numel()

    def search(self, queries, k, allowed=None):
        values = self.values if allowed is None else self.values.masked_fill(~allowed, 0.0)
        order = torch.sort(values, descending=True, stable=True).indices[:k]
        found = values[order] > 0
        scores = values[order].masked_fill(~found, -torch.inf)
        rows = order.masked_fill(~found, -1)
        return scores.expand(len(queries), -1), rows.expand(len(queries), -1)

    def scores(self, queries, batch, rows):
        return self.values[rows]

    def state(self):
        return {"values": self.values}, {}

    @classmethod
    def restore(cls, tensors, settings, device=None):
        return cls(tensors["values"].tolist())

    def to(self, device):
        return self


def index_of(edges, vectors, delta):
    names = [f"n{row}" for row in range(len(vectors))]
    graph = CorpusGraph(names, [""] * len(names), edges=[(f"n{i}", f"n{j}") for i, j in edges])
    return GraphIndex(graph, {"dense": DenseIndex(vectors), "bm25": Given(delta)})


def weighted(dimension, encoder, seed, **options):
    """A model none of whose weights are at their beginning."""
    torch.manual_seed(seed)
    model = LeSeGRModel(dimension, encoder, **options)
    with torch.no_grad():
        for parameter in model.mlp.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.5)
        if model.out is not None:
            for parameter in model.out.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.3)
    return model.eval()


def scores_of(operator, index, queries, first=None):
    asked = Queries.of(index, [f"q{b}" for b in range(len(queries))], vectors=queries)
    ranking = ranked(first, asked) if first is not None else Ranking.empty(len(queries), index.device)
    found = ranked(operator, asked, ranking)
    table = [[math.nan] * len(index) for _ in queries]
    for b, (nodes, scores) in enumerate(zip(found.nodes.tolist(), found.scores.tolist(), strict=True)):
        for node, score in zip(nodes, scores, strict=True):
            if node >= 0:
                table[b][node] = score
    return torch.tensor(table)


# -- worked by hand -----------------------------------------------------------------------------------------------


def test_the_worked_example_of_mean_aggregation():
    h = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    # N(0) = {1, 2}, N(1) = {0}, N(2) = {0}; the first row of edges holds the sources.
    edges = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]])
    alpha = torch.tensor([0.5, 0.25, 0.5, 0.25])
    delta = torch.tensor([0.5, 2.0, 0.0])
    one, two = (LeSeGRModel(2, "mean", k, hub_exponent=0)(h, edges, delta, alpha) for k in (1, 2))
    assert torch.allclose(one, torch.tensor([[0.166667, 0.666667], [0.125, 2.0], [0.0625, 0.0]]), atol=1e-6)
    assert torch.allclose(two, torch.tensor([[0.069444, 0.777778], [0.145833, 2.083333], [0.010417, 0.041667]]), atol=1e-6)
    assert (two @ torch.tensor([1.0, 1.0])).tolist() == pytest.approx([0.847222, 2.229167, 0.052083], abs=1e-6)


def test_scores_alone_pass_through_a_mean_as_their_vectors_do():
    h, q = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.tensor([1.0, 1.0])
    edges, alpha = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]), torch.tensor([0.5, 0.25, 0.5, 0.25])
    model = LeSeGRModel(2, "mean", 2, hub_exponent=0)
    passed = model((h @ q).unsqueeze(1), edges, torch.tensor([0.5, 2.0, 0.0]), alpha).squeeze(1)
    assert passed.tolist() == pytest.approx([0.847222, 2.229167, 0.052083], abs=1e-6)


# -- a literal reading --------------------------------------------------------------------------------------------


def literal(index, model, q, delta, edges):
    """Algorithm 1 for one query in float64, a node and a neighbour at a time: sums and means."""
    vectors = index.dense.vectors.double()
    count = len(vectors)
    neighbors = {i: sorted({b for a, b in edges if a == i} | {a for a, b in edges if b == i} - {i}) for i in range(count)}
    top = max(delta)
    delta = [value / top for value in delta] if top > 0 else [1.0] * count
    mlp = model.mlp.double()
    h = [vector.clone() for vector in vectors]
    for _ in range(model.layers):
        new = []
        for i in range(count):
            messages = [delta[i] * h[i]]
            for j in neighbors[i]:
                alpha = mlp(vectors[i] - vectors[j]).item()
                messages.append(delta[j] * alpha * h[j] / (len(neighbors[j]) + 1) ** model.hub_exponent)
            total = torch.stack(messages).sum(0)
            new.append(total / len(messages) if model.encoder == "mean" else total)
        h = new
    model.mlp.float()
    return torch.stack([torch.dot(q.double(), vector) for vector in h])


@st.composite
def cases(draw):
    count = draw(st.integers(2, 9))
    shape = draw(st.sampled_from(["random", "chain", "hub"]))
    pairs = {
        "chain": [(i, i + 1) for i in range(count - 1)],
        "hub": [(0, i) for i in range(1, count)],
        "random": draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=2 * count)),
    }[shape]
    edges = sorted({(a, b) for a, b in pairs if a != b})
    delta = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=count, max_size=count))
    return edges, count, delta, draw(st.integers(0, 10_000)), draw(st.sampled_from(["sum", "mean"])), draw(st.integers(1, 3))


@settings(max_examples=60)
@given(cases())
def test_the_whole_graph_gives_what_the_algorithm_gives(case):
    edges, count, delta, seed, encoder, layers = case
    torch.manual_seed(seed)
    index = index_of(edges, torch.randn(count, 3), delta)
    model = weighted(3, encoder, seed, layers=layers, hub_exponent=0.5)
    queries = torch.randn(2, 3)
    found = scores_of(LexicalSemanticSearch(model, hops=None, k=None), index, queries)
    expected = torch.stack([literal(index, model, q, delta, edges) for q in queries])
    assert found.double() == pytest.approx(expected, rel=1e-4, abs=1e-4)


@settings(max_examples=30)
@given(cases(), st.sampled_from(ENCODERS))
def test_enough_hops_give_the_candidates_the_scores_of_the_whole_graph(case, encoder):
    edges, count, delta, seed, _, layers = case
    torch.manual_seed(seed)
    index = index_of(edges, torch.randn(count, 4), delta)
    model = weighted(4, encoder, seed, layers=layers, hidden=8, heads=2)
    queries = torch.randn(3, 4)
    whole = scores_of(LexicalSemanticSearch(model, hops=None, k=None), index, queries)
    first = VectorSearch(2)
    asked = Queries.of(index, ["a", "b", "c"], vectors=queries)
    near = scores_of(LexicalSemanticSearch(model, hops=layers, k=None), index, queries, first)
    for b, nodes in enumerate(ranked(first, asked).nodes.tolist()):
        assert near[b, nodes] == pytest.approx(whole[b, nodes], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("encoder", ["sum", "mean", "gcn"])
def test_a_neighbour_counts_by_all_its_neighbours_also_those_that_are_not_scored(encoder):
    torch.manual_seed(0)
    index = index_of([(0, 1), (1, 2), (1, 3), (1, 4)], torch.randn(5, 4), [1.0, 0.8, 0.6, 0.4, 0.2])
    model, query = weighted(4, encoder, 0, hidden=8, heads=2), index.dense.vectors[:1]
    whole = scores_of(LexicalSemanticSearch(model, hops=None), index, query)
    near = scores_of(LexicalSemanticSearch(model, hops=1), index, query, VectorSearch(1))
    assert torch.isnan(near[0, 2:]).all() and near[0, 0].item() == pytest.approx(whole[0, 0].item(), rel=1e-5)


def test_equal_scores_go_to_the_lower_row():
    vectors = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.9, 0.1]])
    index = index_of([(3, 0), (3, 4)], vectors, [0.0, 0.0, 0.0, 1.0, 0.0])
    retriever = Retriever(index, Pipeline(VectorSearch(2), LexicalSemanticSearch(LeSeGRModel(2))), backfill=False)
    assert [hit.id for hit in retriever.retrieve("q", vector=[1.0, 0.0])] == ["n3", "n0", "n4"]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_batch_gives_what_its_queries_give_one_by_one(encoder):
    torch.manual_seed(1)
    index = index_of([(0, 1), (1, 2), (2, 3), (0, 4)], torch.randn(6, 4), [1.0, 0.0, 2.0, 0.5, 0.0, 1.0])
    operator = LexicalSemanticSearch(weighted(4, encoder, 3, hidden=8, heads=2), k=None)
    queries = torch.randn(4, 4)
    together = scores_of(operator, index, queries, VectorSearch(2))
    alone = torch.cat([scores_of(operator, index, query.unsqueeze(0), VectorSearch(2)) for query in queries])
    assert torch.allclose(together, alone, rtol=1e-5, atol=1e-6, equal_nan=True)


# -- degenerate cases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_proposition_4_1_an_untrained_model_without_neighbours_is_the_product_of_both_scores(encoder):
    torch.manual_seed(0)
    vectors, delta, query = torch.randn(5, 4), [1.0, 0.0, 4.0, 2.0, 0.5], torch.randn(1, 4)
    index = index_of([], vectors, delta)
    found = scores_of(LexicalSemanticSearch(LeSeGRModel(4, encoder, hidden=8, heads=2), k=None), index, query, VectorSearch(5))
    product = torch.tensor(delta) / 4 * (vectors @ query[0])
    assert found[0].tolist() == pytest.approx(product.tolist(), abs=1e-6)


def test_proposition_4_1_does_not_hold_for_two_layers():
    vectors, delta, query = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), [1.0, 2.0], torch.tensor([[1.0, 0.0]])
    index = index_of([], vectors, delta)
    found = scores_of(LexicalSemanticSearch(LeSeGRModel(2, "sum", 2), k=None), index, query, VectorSearch(2))
    assert found[0].tolist() == pytest.approx([0.5**2 * 1.0, 1.0**2 * 0.5]), "each layer multiplies by the sparse signal again"


def test_without_gates_and_messages_the_ranking_is_that_of_the_vectors():
    torch.manual_seed(2)
    vectors, query = torch.randn(6, 3), torch.randn(1, 3)
    index = index_of([(0, 1), (2, 3)], vectors, [1.0] * 6)
    found = scores_of(LexicalSemanticSearch(LeSeGRModel(3, sparse_gate=False), k=None), index, query, VectorSearch(6))
    assert found[0].tolist() == pytest.approx((vectors @ query[0]).tolist(), abs=1e-6)


def test_a_node_without_a_common_word_is_silent_and_a_query_without_any_is_ranked_by_vectors():
    vectors = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    query = torch.tensor([[1.0, 0.0]])
    silent = scores_of(
        LexicalSemanticSearch(LeSeGRModel(2), k=None), index_of([], vectors, [0.0, 1.0, 1.0]), query, VectorSearch(3)
    )
    assert silent[0].tolist() == pytest.approx([0.0, 0.9, 0.0])
    index = index_of([], vectors, [0.0, 0.0, 0.0])
    operator = Pipeline(VectorSearch(3), LexicalSemanticSearch(LeSeGRModel(2)))
    hits = Retriever(index, operator).retrieve("q", vector=[1.0, 0.0])
    assert [hit.id for hit in hits] == ["n0", "n1", "n2"]
    assert hits.notes == ("no node has a word of the query: words count for nothing", NO_EDGES_NOTE)


def test_messages_follow_the_direction_of_edges_where_that_is_asked_for():
    vectors, query = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    index = index_of([(0, 1)], vectors, [1.0, 1.0])
    model = LeSeGRModel(2, dense_gate=False, hub_exponent=0)
    both, inward = (
        scores_of(LexicalSemanticSearch(model, direction=direction, k=None), index, query, VectorSearch(2))[0].tolist()
        for direction in ("both", "in")
    )
    assert both == pytest.approx([2.0, 2.0]) and inward == pytest.approx([1.0, 2.0])


# -- filters, contexts and errors ---------------------------------------------------------------------------------


def test_nodes_outside_the_walk_send_nothing():
    vectors, query = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), [1.0, 0.0]
    index = index_of([(0, 1), (0, 2)], vectors, [1.0, 1.0, 1.0])
    walk = Pipeline(HybridSearch(1), LexicalSemanticSearch(LeSeGRModel(2, dense_gate=False, hub_exponent=0)))
    retriever = Retriever(index, walk, backfill=False)
    free = retriever.retrieve("q", vector=query)
    kept = retriever.retrieve("q", vector=query, traversal_filter={"$id": {"$in": ["n0", "n1"]}})
    assert {hit.id: hit.score for hit in free}["n0"] == pytest.approx(3.0)
    assert {hit.id: hit.score for hit in kept} == pytest.approx({"n0": 2.0, "n1": 2.0})


def test_excluded_nodes_move_no_score_by_words_or_edges():
    vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.9, 0.1]])
    walk = {"$id": {"$in": ["n0", "n1"]}}
    pipeline = Pipeline(HybridSearch(1), LexicalSemanticSearch(weighted(2, "sum", 0)))
    asked = {"vector": [1.0, 0.0], "filter": walk, "seed_filter": walk, "traversal_filter": walk}
    alone = Retriever(index_of([(0, 1)], vectors[:2], [1.0, 0.5]), pipeline, backfill=False).retrieve("q", vector=[1.0, 0.0])
    beside = Retriever(index_of([(0, 1), (0, 2), (1, 2)], vectors, [1.0, 0.5, 9.0]), pipeline, backfill=False).retrieve(
        "q", **asked
    )
    assert {hit.id: hit.score for hit in beside} == pytest.approx({hit.id: hit.score for hit in alone})


def test_candidates_that_may_not_be_walked_to_keep_their_own_score_and_send_nothing():
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    index = index_of([(0, 1), (1, 2), (0, 2)], vectors, [1.0, 9.0, 0.5])
    model = LeSeGRModel(2, dense_gate=False, hub_exponent=0)
    retriever = Retriever(index, Pipeline(VectorSearch(3), LexicalSemanticSearch(model)), backfill=False)
    hits = retriever.retrieve("q", vector=[1.0, 0.0], traversal_filter={"$id": {"$in": ["n0", "n2"]}})
    assert {hit.id: hit.score for hit in hits} == pytest.approx({"n0": 1.5, "n2": 1.5, "n1": 1.0})
    assert all(node.id != "n1" for hit in hits if hit.id != "n1" for node in hit.context.nodes)
    silent = index_of([(0, 1)], vectors[:2], [0.0, 2.0])
    hits = Retriever(silent, Pipeline(VectorSearch(2), LexicalSemanticSearch(model))).retrieve(
        "q", vector=[1.0, 0.0], traversal_filter={"$id": "n0"}
    )
    assert hits.notes == ("no node that may be walked to has a word of the query: words count for nothing",)


def test_the_largest_sparse_score_is_that_of_what_may_be_walked_also_without_a_table(monkeypatch):
    vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    index = index_of([(0, 1), (1, 2)], vectors, [1.0, 9.0, 0.5])
    retriever = Retriever(index, Pipeline(VectorSearch(3), LexicalSemanticSearch(LeSeGRModel(2))), backfill=False)
    asked = {"vector": [1.0, 0.0], "traversal_filter": {"$id": {"$in": ["n0", "n2"]}}}
    tabled = [(hit.id, hit.score) for hit in retriever.retrieve("q", **asked)]
    monkeypatch.setattr("graph_retrievers.search.queries._TABLE_LIMIT", 0)
    assert [(hit.id, hit.score) for hit in retriever.retrieve("q", **asked)] == tabled
    assert dict(tabled) == pytest.approx({"n0": 1.0, "n1": 0.8, "n2": 0.3})


def test_a_sparse_signal_below_zero_counts_as_none(monkeypatch):
    index = index_of([], torch.tensor([[1.0, 0.0], [1.0, 0.0]]), [1.0, -3.0])
    for limit in (1 << 27, 0):
        # With a table of scores, and without one.
        monkeypatch.setattr("graph_retrievers.search.queries._TABLE_LIMIT", limit)
        found = scores_of(LexicalSemanticSearch(LeSeGRModel(2)), index, torch.tensor([[1.0, 0.0]]), VectorSearch(2))
        assert found[0].tolist() == pytest.approx([1.0, 0.0])


def test_edges_of_a_candidate_that_may_not_be_walked_to_bring_nothing_in():
    vectors = torch.tensor([[1.0, 0.0], [0.9, 0.0], [0.2, 0.0], [0.1, 0.0]])
    walk = {"vector": [1.0, 0.0], "traversal_filter": {"$id": {"$in": ["n1", "n2", "n3"]}}}
    model = LeSeGRModel(2, dense_gate=False, hub_exponent=0)
    pipeline = Pipeline(VectorSearch(2), LexicalSemanticSearch(model))
    found = []
    for edges in ([(1, 2), (2, 3), (0, 3)], [(1, 2), (2, 3)]):
        retriever = Retriever(index_of(edges, vectors, [1.0] * 4), pipeline, backfill=False)
        found.append([(hit.id, hit.score) for hit in retriever.retrieve("q", **walk)])
    assert found[0] == found[1]


@pytest.mark.parametrize("encoder", ["sum", "mean"])
def test_parallel_edges_count_once_and_only_walked_neighbours_in_a_direction(encoder):
    torch.manual_seed(0)
    vectors, model = torch.randn(4, 3), weighted(3, encoder, 1, layers=2)
    names = [f"n{row}" for row in range(4)]
    pairs = [("n0", "n1"), ("n2", "n1"), ("n1", "n3"), ("n3", "n0"), ("n0", "n3")]

    def found(edges, hops, **filters):
        graph = CorpusGraph(names, [""] * 4, edges=edges)
        index = GraphIndex(graph, {"dense": DenseIndex(vectors), "bm25": Given([1.0, 0.5, 0.3, 0.7])})
        operator = LexicalSemanticSearch(model, direction="in", hops=hops)
        retriever = Retriever(index, Pipeline(VectorSearch(4), operator), backfill=False)
        return {hit.id: hit.score for hit in retriever.retrieve("q", vector=vectors[0], k=4, **filters)}

    once = found(pairs, 2)
    assert found([*pairs, ("n0", "n1", "again")], 2) == pytest.approx(once)
    walk = {"$id": {"$in": ["n0", "n1", "n3"]}}
    same = {"filter": walk, "seed_filter": walk, "traversal_filter": walk}
    without = found([pair for pair in pairs if "n2" not in pair], 2)
    assert found(pairs, 2, **same) == pytest.approx({name: score for name, score in without.items() if name != "n2"})


def test_a_mean_is_over_the_messages_that_arrive():
    vectors = torch.tensor([[1.0], [0.5], [0.25]])
    index = index_of([(0, 1), (1, 2)], vectors, [1.0, 1.0, 1.0])
    model = LeSeGRModel(1, "mean", 2, dense_gate=False, hub_exponent=0)
    found = scores_of(LexicalSemanticSearch(model, hops=1), index, torch.tensor([[1.0]]), VectorSearch(1))
    assert found[0, :2].tolist() == pytest.approx([0.75, 0.75]), "the message of the third node is not among them"


def test_contexts_of_groups_of_other_widths_are_padded(monkeypatch):
    vectors = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0]])
    index = index_of([(0, 1), (0, 2)], vectors, [1.0, 1.0, 1.0, 1.0])
    pipeline = Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2)))
    monkeypatch.setattr(search_module, "_NODES_AT_A_TIME", {True: 1, False: 1})
    many = Retriever(index, pipeline, backfill=False).retrieve_batch(["q", "q"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    assert [[node.id for node in hit.context.nodes] for hit in many[1]] == [[]]
    assert [node.id for node in many[0][0].context.nodes] == ["n1", "n2"]


def test_dense_signals_follow_the_weights_and_the_index_and_do_not_depend_on_pieces(monkeypatch):
    torch.manual_seed(3)
    edges, delta, query = [(0, 1), (1, 2), (2, 3)], [1.0] * 4, torch.randn(1, 3)
    one, other = (index_of(edges, torch.randn(4, 3), delta) for _ in range(2))
    model = weighted(3, "sum", 2)
    shared = LexicalSemanticSearch(model)
    for index in (one, other, one):
        alone = scores_of(LexicalSemanticSearch(model), index, query, VectorSearch(4))
        assert torch.equal(scores_of(shared, index, query, VectorSearch(4)), alone)
    before = scores_of(shared, one, query, VectorSearch(4))
    with torch.no_grad():
        model.mlp[2].bias.add_(1.0)
    after = scores_of(shared, one, query, VectorSearch(4))
    assert not torch.equal(before, after)
    monkeypatch.setattr(search_module, "_EDGES_AT_A_TIME", 2)
    assert torch.allclose(scores_of(LexicalSemanticSearch(model), one, query, VectorSearch(4)), after)


def test_dense_signals_are_computed_once_for_an_index():
    class Counting(LeSeGRModel):
        calls = 0

        def alpha(self, difference):
            self.calls += 1
            return super().alpha(difference)

    index, model = index_of([(0, 1), (1, 2)], torch.eye(3), [1.0] * 3), Counting(3)
    retriever = Retriever(index, Pipeline(VectorSearch(2), LexicalSemanticSearch(model)))
    for vector in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]):
        retriever.retrieve("q", vector=vector)
    assert model.calls == 1


def test_a_query_without_candidates_has_no_note_about_words():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    retriever = Retriever(index, Pipeline(BM25Search(2), LexicalSemanticSearch(LeSeGRModel(2))), backfill=False)
    vector = [1.0, 0.0]
    together = retriever.retrieve_batch(["loom", "zzz"], vectors=[vector, vector])
    assert together[1].notes == retriever.retrieve("zzz", vector=vector).notes and "word" not in " ".join(together[1].notes)


def test_hops_end_where_nothing_new_is_reached():
    index = index_of([(0, 1), (1, 2)], torch.eye(4), [1.0] * 4)
    operator, asked = LexicalSemanticSearch(LeSeGRModel(4), hops=10**12), Queries.of(index, ["q"], vectors=torch.eye(4)[:1])
    (found,) = lists_of(ranked(VectorSearch(1), asked))
    (pool,) = run(MemoryBackend(asked), [operator.pool(Question(MemoryBackend(asked), 0), found)])
    assert pool.nodes.tolist() == [0, 1, 2] and pool.trails[2].tolist() == [0, 1, 2]


def test_who_may_not_be_walked_to_sends_nothing_in_one_direction_either():
    index = index_of([(0, 1), (2, 1)], torch.eye(3), [1.0] * 3)
    search = Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(3), direction="in"))
    retriever = Retriever(index, search, backfill=False)
    vector = [0.0, 1.0, 0.0]
    assert {hit.id for hit in retriever.retrieve("q", vector=vector)} == {"n0", "n1", "n2"}
    assert {hit.id for hit in retriever.retrieve("q", vector=vector, traversal_filter={"$id": {"$ne": "n0"}})} == {"n1", "n2"}


def test_weights_too_large_for_numbers_are_refused():
    index = index_of([(0, 1)], torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [1.0, 1.0])
    model = LeSeGRModel(2)
    with torch.no_grad():
        for parameter in model.mlp.parameters():
            parameter.fill_(1e38)
    with pytest.raises(InvalidArgumentError, match="NaN or infinite: its weights are too large"):
        Retriever(index, Pipeline(VectorSearch(2), LexicalSemanticSearch(model))).retrieve("q", vector=[1.0, 1.0])


def test_the_context_is_who_sends_most_and_only_who_may_be_shown():
    vectors = torch.tensor([[1.0, 0.0]] * 4)
    index = index_of([(0, 1), (0, 2), (0, 3), (2, 3)], vectors, [1.0, 0.2, 0.9, 0.5])
    model = LeSeGRModel(2, dense_gate=False)
    retriever = Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(model, context=2)), backfill=False)
    hits = retriever.retrieve("q", vector=[1.0, 0.0])
    hit = next(hit for hit in hits if hit.id == "n0")
    assert [node.id for node in hit.context.nodes] == ["n2", "n3"]
    assert {(edge.source, edge.target) for edge in hit.context.edges} == {("n0", "n2"), ("n0", "n3"), ("n2", "n3")}
    assert {node.id for node in hits.subgraph().nodes} == {"n0", "n1", "n2", "n3"}
    hidden = retriever.retrieve("q", vector=[1.0, 0.0], filter={"$id": {"$in": ["n0", "n3"]}})
    assert [node.id for node in hidden[0].context.nodes if hidden[0].id == "n0"] == ["n3"]
    assert "n2" not in hidden.to_context() and {node.id for node in hidden.subgraph().nodes} <= {"n0", "n3"}
    seen = {end for hit in hidden for edge in hit.context.edges for end in (edge.source, edge.target)}
    assert seen <= {"n0", "n3"} and seen <= {"n0", "n3"} == {end for e in hidden.subgraph().edges for end in (e.source, e.target)}


def test_contexts_are_in_order_of_message_then_of_words_then_of_rows():
    vectors = torch.tensor([[1.0, 0.0]] * 6)
    index = index_of([(0, i) for i in range(1, 6)], vectors, [1.0, 0.5, 0.9, 0.5, 0.0, 0.9])
    untrained = Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2), context=None)))
    asked = {"vector": [1.0, 0.0], "k": 6}
    first = {hit.id: hit for hit in untrained.retrieve("q", **asked)}["n0"]
    assert [node.id for node in first.context.nodes] == ["n2", "n5", "n1", "n3"], "n4 shares no word with the question"

    class Turned(LeSeGRModel):
        """Hears a node the more, the higher its number."""

        def alpha(self, difference):
            return -torch.arange(difference.shape[0], dtype=torch.float32)

    turned = Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(Turned(2), context=2)))
    first = {hit.id: hit for hit in turned.retrieve("q", **asked)}["n0"]
    assert [node.id for node in first.context.nodes] == ["n5", "n3"], "-4 * 0.9 and -2 * 0.5 weigh more than -1 * 0.9"
    plain = Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2, sparse_gate=False), context=None)))
    first = {hit.id: hit for hit in plain.retrieve("q", **asked)}["n0"]
    assert [node.id for node in first.context.nodes] == ["n1", "n2", "n3", "n4", "n5"], "without the sparse gate words do not count"


def test_forbidden_neighbours_take_no_place_in_a_context():
    vectors = torch.tensor([[1.0, 0.0]] * 8)
    index = index_of([(0, i) for i in range(1, 8)], vectors, [1.0, 0.9, 0.9, 0.9, 0.9, 0.5, 0.4, 0.3])
    retriever = Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2), context=2)), backfill=False)
    allowed = {"$id": {"$in": ["n0", "n5", "n6", "n7"]}}
    hits = retriever.retrieve("q", vector=[1.0, 0.0], filter=allowed)
    assert [node.id for node in hits[0].context.nodes] == ["n5", "n6"] and [hit.id for hit in hits] == ["n0", "n5", "n6", "n7"]


def test_the_whole_graph_is_that_which_may_be_walked():
    index = index_of([(0, 1), (1, 2)], torch.eye(3), [1.0, 1.0, 1.0])
    retriever = Retriever(index, LexicalSemanticSearch(LeSeGRModel(3), hops=None), backfill=False)
    walk = {"$id": {"$in": ["n0", "n1"]}}
    assert {hit.id for hit in retriever.retrieve("q", vector=[1, 1, 1], traversal_filter=walk)} == {"n0", "n1"}


def test_a_neighbour_is_reached_from_the_best_candidate():
    index = index_of([(0, 2), (1, 2)], torch.tensor([[0.9, 0.0], [1.0, 0.0], [0.0, 1.0]]), [1.0, 1.0, 1.0])
    retriever = Retriever(index, Pipeline(VectorSearch(2), LexicalSemanticSearch(LeSeGRModel(2))), backfill=False)
    paths = {hit.id: str(hit.path) for hit in retriever.retrieve("q", vector=[1.0, 0.0])}
    assert paths == {"n0": "n0", "n1": "n1", "n2": "n1 -> n2"}


def test_of_many_candidates_a_neighbour_is_reached_from_the_best_in_every_query_of_a_batch():
    size = 60
    torch.manual_seed(0)
    vectors = torch.cat([torch.nn.functional.normalize(torch.rand(size, 4), dim=1), torch.zeros(2, 4)])
    index = index_of([(row, end) for row in range(size) for end in (size, size + 1)], vectors, [1.0] * (size + 2))
    retriever = Retriever(index, Pipeline(VectorSearch(size), LexicalSemanticSearch(LeSeGRModel(4))), backfill=False)
    for hits in retriever.retrieve_batch(["q"] * 8, size + 2, vectors=torch.rand(8, 4)):
        paths = {hit.id: hit.path.nodes for hit in hits}
        assert [paths[f"n{end}"][0] for end in (size, size + 1)] == [hits[0].id] * 2


@pytest.mark.parametrize("direction", ["both", "in"])
def test_self_loops_send_no_message(direction):
    vectors, model = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), LeSeGRModel(2, dense_gate=False, hub_exponent=0)
    operator = LexicalSemanticSearch(model, direction=direction, k=None)
    with_loop, without = (
        scores_of(operator, index_of(edges, vectors, [1.0, 1.0]), torch.tensor([[1.0, 0.0]]), VectorSearch(2))
        for edges in ([(0, 1), (1, 1)], [(0, 1)])
    )
    assert torch.equal(with_loop, without)


@pytest.mark.parametrize("encoder", ["sum", "gcn"])
def test_groups_of_queries_give_what_all_together_give(encoder, monkeypatch):
    torch.manual_seed(4)
    index = index_of([(0, 1), (1, 2), (3, 4)], torch.randn(5, 4), [1.0, 0.5, 0.0, 2.0, 1.0])
    operator, queries = LexicalSemanticSearch(weighted(4, encoder, 2, hidden=8, heads=2), k=None), torch.randn(3, 4)
    together = scores_of(operator, index, queries, VectorSearch(2))
    monkeypatch.setattr(search_module, "_NODES_AT_A_TIME", {True: 1, False: 1})
    assert torch.allclose(scores_of(operator, index, queries, VectorSearch(2)), together, equal_nan=True)


def test_relu_stands_between_the_layers_of_an_encoder():
    model = weighted(3, "gcn", 1, layers=2, hidden=4, heads=1)
    x = torch.randn(4, 3)
    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    delta, alpha = torch.tensor([1.0, 0.5, 0.2, 0.7]), torch.tensor([0.3, -0.4, 0.9, 1.1])
    first = torch.relu(model.convs[0](x, edges, delta[edges[0]] * alpha, delta))
    second = torch.relu(model.convs[1](first, edges, delta[edges[0]] * alpha, delta))
    expected = x * delta.unsqueeze(1) + model.out(second)
    assert torch.allclose(model(x, edges, delta, alpha), expected, atol=1e-6)


def test_fused_lists_keep_the_first_context_that_a_node_has():
    vectors = torch.tensor([[1.0, 0.0]] * 4)
    index = index_of([(0, 1), (0, 2), (0, 3)], vectors, [1.0, 0.9, 0.5, 0.4])
    narrow = Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2), context=1))
    wide = Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(2), context=2))
    for lists, expected in (((VectorSearch(4), narrow, wide), ["n1"]), ((wide, VectorSearch(4), narrow), ["n1", "n2"])):
        hits = Retriever(index, ReciprocalRankFusion(*lists)).retrieve("q", vector=[1.0, 0.0])
        assert [node.id for node in {hit.id: hit for hit in hits}["n0"].context.nodes] == expected


def test_what_does_not_fit_is_refused():
    index = index_of([], torch.eye(3), [1.0, 1.0, 1.0])
    with pytest.raises(DimensionMismatchError, match="of 5 dimensions, the index has 3"):
        Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(5)))).retrieve("q", vector=[1, 0, 0])
    with pytest.raises(MissingSignalError, match="no signal 'splade'"):
        Retriever(index, Pipeline(VectorSearch(1), LexicalSemanticSearch(LeSeGRModel(3), sparse="splade"))).retrieve(
            "q", vector=[1, 0, 0]
        )
    for arguments in (
        {"encoder": "rnn"},
        {"hidden": 10, "heads": 4},
        {"layers": 0},
        {"hub_exponent": -1},
        {"hub_exponent": math.nan},
        {"hub_exponent": "x"},
        {"hub_exponent": True},
        {"hub_exponent": 10**400},
        {"layers": 33},
        {"dimension": 10**30},
        {"hidden": 10**12},
        {"sparse_gate": "false"},
        {"dense_gate": 1},
    ):
        with pytest.raises(InvalidArgumentError):
            LeSeGRModel(**{"dimension": 3, **arguments})
    with pytest.raises(InvalidArgumentError, match="Expected a LeSeGRModel"):
        LexicalSemanticSearch(LeSeGRModel)


# -- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradients_reach_the_weights_and_the_vectors_but_not_the_sparse_signal(encoder):
    model = weighted(4, encoder, 5, layers=2, hidden=8, heads=2)
    torch.manual_seed(0)
    vectors = torch.randn(4, 4, requires_grad=True)
    delta = torch.tensor([1.0, 0.5, 0.25, 1.0])
    edges = torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]])
    alpha = model.alpha(vectors[edges[1]] - vectors[edges[0]])
    model(vectors, edges, delta, alpha).sum().backward()
    moved = {name for name, parameter in model.named_parameters() if parameter.grad is not None and parameter.grad.abs().sum() > 0}
    own = {name for name, _ in model.named_parameters()} - {"log_scale"}
    # A softmax over one neighbour has no gradient, and biases of keys cancel in it.
    loose = {name for name in own if "lin_key" in name or "lin_query" in name or "att_" in name}
    assert own - loose <= moved <= own and vectors.grad.abs().sum() > 0 and delta.grad is None
