"""Scopes: the graph, the signals and the retrievers of some nodes are those of an index of these nodes alone."""

import json
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from graph_retrievers.cache import SizedCache
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.filters import filter_key
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.index.scope import induced_graph
from graph_retrievers.operators import BM25Search, FactSearch, GatedPropagation, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bm25 import BM25 as BM25Signal
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.signal import VectorSignal
from graph_retrievers.signals.sparse import SparseIndex
from graph_retrievers.systems import BM25, PPR, Fused, Hybrid, MoR, SpreadingActivation, WalkFusion
from graph_retrievers.systems.mor.planner import LanguageModelPlanner
from tests.helpers import HashEmbedding
from tests.rankings import rank, ranked_hits
from tests.tenants import Overlap

TEXTS = ["a loom of brass", "a card", "the loom and the card", "brass gear", "a loom", "gear and card"]
OWNERS = "abbaba"
EDGES = [("0", "1", "x"), ("0", "3", "y"), ("3", "5", "z"), ("5", "0", "y"), ("2", "4", "x"), ("3", "3", ""), ("3", "0", "x")]
ROWS = [0, 3, 5]
MINE = {"owner": "a"}


def index(**options):
    options = {"edges": EDGES, "embedding": HashEmbedding(8), "edge_signals": True, **options}
    return GraphIndex.from_texts(TEXTS, titles=[t.title() for t in TEXTS], metadatas=[{"owner": o} for o in OWNERS], **options)


def alone(**options):
    """The index of the first tenant's nodes and edges, with their ids."""
    edges = [edge for edge in EDGES if {int(edge[0]), int(edge[1])} <= set(ROWS)]
    options = {"edges": edges, "embedding": HashEmbedding(8), "edge_signals": True, **options}
    texts = [TEXTS[row] for row in ROWS]
    ids, owners = [str(row) for row in ROWS], [{"owner": "a"}] * 3
    return GraphIndex.from_texts(texts, ids=ids, titles=[t.title() for t in texts], metadatas=owners, **options)


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


# -- the graph --------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 8))
    node = st.integers(0, size - 1)
    words = st.sampled_from(["", "x", "y", "z"])
    nodes = [Node(f"n{i}", draw(words), draw(words), draw(words), {"k": i} if draw(st.booleans()) else {}) for i in range(size)]
    edge = st.tuples(node, node, words, st.sampled_from([1.0, 2.0]), words, st.sampled_from([{}, {"m": 1}]))
    edges = [Edge(f"n{s}", f"n{t}", *rest) for s, t, *rest in draw(st.lists(edge, max_size=12))]
    return nodes, edges, sorted(draw(st.sets(node, min_size=1)))


BARE = [Edge("a", "b"), Edge("a", "c", "x", 1.0, "a text", {"m": 1})]


@given(graphs())
@example(([Node("a", "", "", "t"), Node("b", ""), Node("c", "", "", "u")], BARE, [0, 1]))
def test_an_induced_graph_is_the_graph_of_its_nodes_alone(drawn):
    nodes, edges, rows = drawn
    made, kept = induced_graph(CorpusGraph.from_nodes(nodes, edges, include_titles=False), torch.tensor(rows))
    ids = {nodes[row].id for row in rows}
    inside = [number for number, edge in enumerate(edges) if {edge.source, edge.target} <= ids]
    fresh = CorpusGraph.from_nodes([nodes[row] for row in rows], [edges[number] for number in inside], include_titles=False)
    assert kept.tolist() == inside
    assert made.__dict__.keys() == fresh.__dict__.keys()
    for name, value in fresh.__dict__.items():
        other = made.__dict__[name]
        if isinstance(value, torch.Tensor):
            assert value.dtype == other.dtype and torch.equal(value, other), name
        elif name != "cache":
            assert value == other, name


# -- the index --------------------------------------------------------------------------------------------------------


def test_the_index_of_a_scope_is_that_of_its_nodes_alone(device):
    made, fresh = index(device=device).within(MINE), alone(device=device)
    assert made.rows.tolist() == ROWS and len(made) == 3 and made.graph.edges() == fresh.graph.edges()
    # In the order in which the edges of the scope name them, not in that of the whole graph.
    assert made.graph.relation_names == fresh.graph.relation_names == ["y", "z", "", "x"]
    assert torch.equal(made.graph.relations, fresh.graph.relations)
    for name, signal in fresh.signals.items():
        (arrays, said), (others, told) = signal.state(), made.signals[name].state()
        assert said == told and all(torch.equal(arrays[key], others[key]) for key in arrays), name
    assert made.embedding is not None and made.relevance.embedding is made.embedding
    rated = index(relevance=Overlap())
    assert rated.within(MINE).relevance is rated.relevance
    assert made.dense.vectors.device == torch.device(device)


def test_scopes_are_kept_and_told_apart_by_what_they_select():
    whole = index()
    made = whole.within(MINE)
    assert whole.within({"owner": {"$in": ["a"]}}) is not made and whole.within(dict(MINE)) is made
    mask = torch.tensor([owner == "a" for owner in OWNERS])
    assert whole.within(mask) is whole.within(mask.clone()) is whole.within(lambda node: node.metadata["owner"] == "a")
    assert whole.within(~mask).graph.ids == ["1", "2", "4"]
    assert whole.within({}) is whole and whole.within(torch.ones(6, dtype=torch.bool)).rows.tolist() == list(range(6))
    assert pickled(whole.within(MINE)).graph.ids == ["0", "3", "5"]


def test_a_callable_is_asked_again_at_every_call():
    whole, owner = index(), ["a"]
    scope = lambda node: node.metadata["owner"] == owner[0]  # noqa: E731
    assert whole.within(scope).graph.ids == ["0", "3", "5"]
    owner[0] = "b"
    assert whole.within(scope).graph.ids == ["1", "2", "4"]


def test_keys_of_mappings_differ_where_json_would_not():
    graph = CorpusGraph(["a", "b"], ["", ""], metadata=[{"n": {"1": 2}}, {"n": 1}])
    assert filter_key(graph, {"n": {"1": 2}})[0] == "mapping"
    for condition in ({"n": {1: 2}}, {"n": (1, 2)}, {"n": float("nan")}, {"n": {1, 2}}):
        assert filter_key(graph, condition)[0] == "mask", condition
    assert filter_key(graph, {"n": 1, "m": 2}) == filter_key(graph, {"m": 2, "n": 1}) != filter_key(graph, {"n": "1", "m": 2})


def test_scopes_are_kept_while_they_hold_at_most_twice_the_nodes():
    whole = index()
    one = whole.within({"$id": "0"})
    many = [whole.within({"$id": {"$ne": str(row)}}) for row in range(2)]
    assert whole.within({"$id": "0"}) is one and whole.within({"$id": {"$ne": "1"}}) is many[1]
    # 1 + 5 + 5 + 5 nodes are more than 12: the one that was not asked for the longest goes.
    whole.within({"$id": {"$ne": "2"}})
    assert whole.within({"$id": "0"}) is one and whole.within({"$id": {"$ne": "1"}}) is many[1]
    assert whole.within({"$id": {"$ne": "0"}}) is not many[0]


def test_a_sized_cache_holds_so_many_and_the_last_whatever_its_size():
    cache = SizedCache(limit=2, size=10)
    for key in (1, 2, 1, 3):
        cache.get(key, lambda key=key: [key])
    assert cache.get(1, list) == [1] and cache.get(2, lambda: "anew") == "anew" and len(cache) == 2
    assert len(cache.get(4, lambda: "x" * 50)) == 50 and len(cache) == 1
    assert len(pickled(cache)) == 0


def test_an_empty_scope_gives_nothing_and_says_so():
    with pytest.raises(EmptyGraphError, match="No node is in the scope"):
        index().within({"owner": "nobody"})
    with pytest.raises(EmptyGraphError, match="No node is in the scope"):
        Queries.of(index(), ["loom"], scope={"owner": "nobody"})
    hits = Retriever(index(), BM25()).retrieve_batch(["loom", "card"], scope={"owner": "nobody"})
    assert [(list(each), each.notes) for each in hits] == [([], ("no node is in the scope",))] * 2


def test_a_scope_without_edges():
    whole = index()
    facts = Retriever(whole, FactSearch(signal="edge_bm25"), backfill=False)
    assert list(facts.retrieve("gear", scope={"$id": {"$in": ["1", "3"]}}).facts.hits[0].path.nodes) == ["3", "3"]
    assert list(facts.retrieve("loom", scope={"$id": "1"})) == []
    dense = Retriever(whole, FactSearch(signal="edge_dense"), backfill=False)
    assert list(dense.retrieve("loom", scope={"$id": "1"})) == []


# -- signals ----------------------------------------------------------------------------------------------------------


class Far(VectorSignal):
    """Vectors in a store that is asked with a mask; `wide` makes it disregard the mask."""

    kind = "far"

    def __init__(self, held, wide=False):
        self.held, self.wide, self.dimension, self.asked = held, wide, held.dimension, []

    def __len__(self):
        return len(self.held)

    @property
    def norms(self):
        return self.held.norms

    def search(self, queries, k, allowed=None):
        self.asked.append((k, None if allowed is None else allowed.tolist()))
        return self.held.search(queries, k, None if self.wide else allowed)

    def scores(self, queries, batch, rows):
        return self.held.scores(queries, batch, rows)

    def term_scores(self, queries, batch, rows):
        return self.held.term_scores(queries, batch, rows)

    state = restore = to = None


Far.__abstractmethods__ = frozenset()


def test_a_signal_of_ones_own_is_asked_with_a_mask_and_keeps_its_scores():
    whole = index()
    store = Far(whole.dense)
    far = GraphIndex(whole.graph, {**whole.signals, "dense": store}, embedding=whole.embedding)
    retriever = Retriever(far, Pipeline(VectorSearch(2), GatedPropagation(steps=2)), k=3)
    expected = Retriever(whole, retriever.operator, k=3).retrieve("a loom card", scope=MINE)
    found = retriever.retrieve("a loom card", scope=MINE)
    assert [(hit.id, str(hit.path)) for hit in found] == [(hit.id, str(hit.path)) for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])
    assert all(mask == [owner == "a" for owner in OWNERS] and k <= 3 for k, mask in store.asked) and store.asked
    store.asked.clear()
    retriever.retrieve("a loom card", scope=MINE, filter={"$id": {"$ne": "3"}}, k=1)
    assert store.asked[0] == (2, [True, False, False, False, False, True])
    signal = far.within(MINE).dense
    signal.search(whole.dense.vectors[:1], 50)
    assert store.asked[-1][0] == 3
    assert torch.equal(signal.norms, whole.dense.norms[ROWS]) and signal.dimension == 8 and signal.reads == "vector"
    query = whole.dense.vectors[:2]
    assert torch.allclose(signal.table(query), whole.dense.table(query)[:, ROWS])
    batch, rows = torch.tensor([0, 1]), torch.tensor([2, 1])
    assert torch.equal(signal.scores(query, batch, rows), store.scores(query, batch, torch.tensor([5, 3])))
    assert torch.equal(signal.term_scores(query, batch, rows), whole.dense.term_scores(query, batch, torch.tensor([5, 3])))


def test_a_signal_that_finds_rows_outside_the_scope_is_refused():
    whole = index()
    far = GraphIndex(whole.graph, {"dense": Far(whole.dense, wide=True)}, embedding=whole.embedding)
    with pytest.raises(InvalidArgumentError, match="outside a scope"):
        Retriever(far, VectorSearch(3)).retrieve("a card", scope=MINE)
    with pytest.raises(InvalidArgumentError, match="cannot be saved"):
        far.within(MINE).dense.state()


class Letters:
    name = "letters"

    def encode(self, texts, *, queries=False):
        return [{ord(letter): 1.0 + len(text) for letter in text} for text in texts]


def test_sparse_weights_of_a_scope_are_those_of_its_texts():
    whole = SparseIndex(TEXTS, Letters())
    made = whole.restricted(torch.tensor(ROWS), [TEXTS[row] for row in ROWS])
    assert torch.equal(made.table(["loom card", "x"]), whole.table(["loom card", "x"])[:, ROWS])
    assert len(made) == 3 and made.encoder is whole.encoder


def test_bm25_of_other_texts_is_not_restricted_to_a_scope():
    whole = index()
    other = GraphIndex(whole.graph, {"bm25": BM25Signal([text.replace("loom", "web") + " more" for text in TEXTS])})
    with pytest.raises(InvalidArgumentError, match="other texts than those of the nodes"):
        Retriever(other, BM25()).retrieve("loom", scope=MINE)


def test_bm25_of_a_scope_is_made_of_its_counts_where_texts_are_elsewhere():
    rows, questions = torch.tensor([1, 3, 4]), ["loom gear card", "brass", "a loom and gear gear"]
    for options in ({}, {"k1": 0.9, "b": 0.3, "stopwords": None}):
        made = BM25Signal(TEXTS, **options).restricted(rows, None)
        fresh = BM25Signal([TEXTS[row] for row in rows.tolist()], **options)
        assert len(made) == 3 and (made.k1, made.b) == (fresh.k1, fresh.b)
        assert torch.equal(made.table(questions), fresh.table(questions))
        for ours, theirs in zip(made.search(questions, 3), fresh.search(questions, 3), strict=True):
            assert torch.equal(ours, theirs)


def test_options_of_signals_hold_in_a_scope():
    whole = index()
    signals = {"bm25": BM25Signal(whole.graph.contents(), k1=0.9, b=0.3, stopwords=None)}
    signals["dense"] = DenseIndex(whole.dense.vectors * 2, metric="cosine")
    made = GraphIndex(whole.graph, signals, embedding=whole.embedding).within(MINE)
    assert (made.bm25.k1, made.bm25.b, made.bm25.stopwords, made.dense.metric) == (0.9, 0.3, None, "cosine")
    assert "and" in made.bm25.vocabulary


# -- calls ------------------------------------------------------------------------------------------------------------


def test_filters_narrow_a_scope_and_masks_are_those_of_the_whole_index():
    retriever = Retriever(index(), BM25())
    some = ["1", "3"]
    for also in (
        {"$id": {"$in": some}},
        torch.tensor([False, True, False, True, False, False]),
        lambda node: node.id in some,
    ):
        assert [hit.id for hit in retriever.retrieve("brass card loom", scope=MINE, filter=also)] == ["3"]
        queries = Queries.of(retriever.index, ["brass card loom"], scope=MINE, filter=also)
        assert queries.allowed.tolist() == [False, True, False] and len(queries.index) == 3
        assert [hit.id for hit in ranked_hits(retriever.over(queries.index), queries)[0]] == ["3"]
    with pytest.raises(InvalidArgumentError, match=r"shape \[6\]"):
        retriever.retrieve("brass", scope=MINE, filter=torch.ones(3, dtype=torch.bool))


def test_queries_of_a_batch_may_have_a_scope_each():
    retriever = Retriever(index(), Fused(PPR(), Hybrid()), k=3)
    texts, scopes = ["loom", "card", "gear", "brass"], [MINE, {"owner": "b"}, dict(MINE), {}]
    apart = [retriever.retrieve(text, scope=scope) for text, scope in zip(texts, scopes, strict=True)]
    vectors = retriever.index.embedding.embed_documents(texts)
    lazy = lambda asked: [vectors[texts.index(text)] for text in asked]  # noqa: E731
    for made in (None, vectors, lazy):
        together = retriever.retrieve_batch(texts, scope=scopes, vectors=made)
        assert [[(h.id, str(h.path)) for h in hits] for hits in together] == [[(h.id, str(h.path)) for h in hits] for hits in apart]
        for one, other in zip(together, apart, strict=True):
            assert [h.score for h in one] == pytest.approx([h.score for h in other])
    named = Retriever(retriever.index, SpreadingActivation(gate="uniform"), backfill=False)
    names = [["A Card"], ["A Card"], ["Gear And Card"], ["Brass Gear"]]
    found = named.retrieve_batch(texts, scope=scopes, entities=names)
    assert found[1][0].id == "1" and found[2][0].id == "5" and found[3][0].id == "3" and "A Card" in found[0].notes[0]


def test_queries_of_one_scope_run_together():
    asked = []

    class Counted(MemoryRetriever):
        def search(self, call):
            asked.append(call.queries)
            return [Hits() for _ in call.queries]

    other = lambda node: True  # noqa: E731
    Counted(index(), BM25()).retrieve_batch(["a", "b", "c", "d", "e"], scope=[MINE, other, dict(MINE), {}, other])
    assert asked == [["a", "c"], ["b", "e"], ["d"]]


@pytest.mark.parametrize("scopes", [[MINE], [MINE, None], [], [MINE] * 3])
def test_scopes_of_a_batch_are_one_for_each_query(scopes):
    with pytest.raises(InvalidArgumentError, match="one filter, or one for each query"):
        Retriever(index(), BM25()).retrieve_batch(["loom", "card"], scope=scopes)
    with pytest.raises(InvalidArgumentError, match="A filter is a mapping"):
        Retriever(index(), BM25()).retrieve("loom", scope=[MINE])


def test_compositions_follow_what_a_scope_holds():
    words = [f"word {n} and some more of the ordinary words that follow it until there are twenty of them" for n in range(40)]
    nodes = [Node(f"p{n}", f"{text} {text}", "Notes", "passage", {"owner": "a"}) for n, text in enumerate(words)]
    nodes += [Node(f"e{n}", "", f"Ada Lovelace{n}", "person", {"owner": "b"}) for n in range(30)]
    nodes += [Node(f"q{n}", text, "", "passage", {"owner": "b"}) for n, text in enumerate(words[:3])]
    whole = GraphIndex.from_nodes(nodes, [("p0", "p1"), ("e0", "q0")], embedding=HashEmbedding(8))
    a, b = whole.within({"owner": "a"}), whole.within({"owner": "b"})
    for system in (WalkFusion(), PPR(), SpreadingActivation(), SpreadingActivation(passages=True)):
        for part in (a, b):
            there, fresh = Retriever(whole, system).over(part), Retriever(part, system)
            assert repr(there) == repr(fresh) and there.types == fresh.types
        depends = system in (WalkFusion(), SpreadingActivation(passages=True))
        assert (repr(Retriever(a, system)) != repr(Retriever(b, system))) == depends
        assert repr(pickled(Retriever(whole, system)).over(a)) == repr(Retriever(a, system))
    assert Retriever(whole, SpreadingActivation(passages=False), types=["person"]).over(a).types == ("person",)
    # Weights that are given are for the lists of the scope, as many as there are.
    texts = [f"{text} with Ada Lovelace{n % 30}" for n, text in enumerate(words)]
    told = [Node(f"t{n}", text, "", "passage", {"owner": "a"}) for n, text in enumerate(texts[:20])]
    named = GraphIndex.from_nodes([*nodes[40:], *told], [("t0", "t1"), ("e0", "q0")], embedding=HashEmbedding(8))
    fusion = Retriever(named, WalkFusion(weights=(1.0, 2.0, 1.0)))
    assert (fusion.system.form_on(fusion.index), WalkFusion().form_on(named.within({"owner": "b"}))) == ("names", "links")
    assert fusion.operator.weights == (1.0, 2.0, 1.0)
    there = fusion.over(named.within({"owner": "b"}))
    assert (there.system.form_on(there.index), repr(there)) == ("links", repr(Retriever(there.index, WalkFusion())))


def test_an_operator_may_be_a_function_of_the_index():
    retriever = Retriever(index(), lambda there: BM25Search(len(there) // 2), backfill=False)
    assert retriever.operator.k == 3 and len(retriever.retrieve("brass loom card gear")) == 3
    assert len(retriever.retrieve("brass loom card gear", scope=MINE)) == 1
    queries = Queries.of(retriever.index, ["brass loom card gear"], scope=MINE)
    assert rank(retriever.over(queries.index), queries).lengths().tolist() == [1]
    with pytest.raises(InvalidArgumentError, match="Expected a system or an Operator"):
        Retriever(index(), lambda there: "BM25")


def test_a_planner_is_shown_the_types_and_relations_of_the_scope():
    nodes = [Node(f"{o}{n}", "", f"{o} {n}", f"kind-{o}", {"owner": o}) for o in "ab" for n in range(2)]
    edges = [("a0", "a1", "rel-a"), ("b0", "b1", "rel-b"), ("a0", "b0", "between")]
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return json.dumps({"paths": [[{"type": "kind-a", "restriction": "a 0"}, {"type": "kind-a", "relation": "rel-a"}]]})

    retriever = Retriever(GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(8)), MoR(planner=LanguageModelPlanner(model)))
    hits = retriever.retrieve("What is a 0 linked to?", scope={"owner": "a"})
    assert hits[0].id == "a1" and len(hits.notes) == 1 and "reranker is not trained" in hits.notes[0]
    assert "kind-a" in prompts[0] and not [word for word in ("kind-b", "rel-b", "between") if word in prompts[0]]


def test_latents_and_similarities_are_those_of_the_scope():
    retriever = Retriever(index(), VectorSearch(), k=2)
    queries = Queries.of(retriever.index, ["loom", "gear"], scope=MINE)
    assert queries.table().shape == (2, 3)
    assert replace(queries, k=1).index.graph.ids == ["0", "3", "5"]
