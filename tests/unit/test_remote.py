"""Retrievers on what they fetch: limits, refusals, and what each engine is asked for."""

import threading

import numpy as np
import pytest
import torch
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult

from graph_retrievers import (
    GAR,
    MMR,
    PPR,
    Eager,
    FastInsight,
    GraphIndex,
    HippoRAG,
    MoR,
    Node,
    Pipeline,
    Retriever,
    Scored,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    UnknownNodeError,
)
from graph_retrievers.operators import BM25Search, GatedPropagation, HybridSearch, VectorSearch
from graph_retrievers.search.operator import Operator, OperatorKind
from graph_retrievers.search.requests import (
    Contents,
    Degree,
    Links,
    Near,
    Neighbors,
    Relevance,
    Request,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Vectors,
    Weights,
)
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, GraphSchema
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.stores.remote import Page, RemoteIndex, RemoteRetriever, Titled
from graph_retrievers.stores.remote.pages import within
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.mor import MixedTraversal
from langchain_graph_retrievers import LangChainVectors
from llama_graph_retrievers import LlamaIndexVectors
from tests.remote import (
    QUESTIONS,
    CountingRelevance,
    MemoryGraph,
    MemoryVectors,
    assert_same,
    index_of,
    question_vectors,
    random_corpus,
)
from tests.tenants import foreign, world

ONE = np.ones(6, np.float32)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(2, 300, 700, ties=False)


def engines(corpus, **options):
    index = index_of(corpus, CountingRelevance())
    graph, vectors = MemoryGraph(index.graph), MemoryVectors(index.graph.ids, corpus[2])
    options = {"relevance": CountingRelevance(), "vectors": vectors, "signals": {"bm25": index.bm25}, **options}
    return index, graph, vectors, RemoteIndex(graph, **options)


def asked(graph):
    return [{name: len(values) for name, values in call.items() if values} for call in graph.asked]


def test_a_frontier_is_one_round_trip_however_many_queries_there_are(corpus):
    _, graph, vectors, remote = engines(corpus)
    retriever = RemoteRetriever(remote, FastInsight, budget=30, nodes_per_round=5)
    for questions, own in ((QUESTIONS[:1], ONE[None]), (QUESTIONS, question_vectors(corpus))):
        graph.asked.clear(), vectors.asked.clear()
        hits = retriever.retrieve_batch(questions, vectors=own)
        assert [list(call) for call in asked(graph)] == [["ids"], *[["expand"]] * 6]
        assert all(call["expand"] <= 5 * len(questions) for call in asked(graph)[1:])
        assert [name for name, _ in vectors.asked].count("search") == 1 and len(vectors.asked) <= 8
        nodes = hits[0].notes[-1].split("; ")[1]
        assert hits[0].notes[-1].startswith(f"round trips: 7 to the graph, {len(vectors.asked)} to the vector store; {nodes}")


def test_a_store_that_gives_too_few_results_is_told_of(corpus):
    index, graph, vectors, remote = engines(corpus)
    search = Retriever(index, VectorSearch(10), backfill=False).operator

    def told(store, k):
        made = RemoteIndex(graph, vectors=store)
        retriever = RemoteRetriever(made, lambda index, **options: Retriever(index, search, **options))
        return retriever.retrieve("?", k, vector=ONE).notes

    class Capped(MemoryVectors):
        def search(self, vectors, k):
            return [result[:5] for result in super().search(vectors, k)]

    ids, count = index.graph.ids, len(index)
    assert f"results, and the graph has {count} nodes: it lacks some, or limits" in told(Capped(ids, corpus[2]), 10)[-1]
    assert "the vector store gave 5 of " in told(Capped(ids, corpus[2]), 10)[-1]
    assert "gave" not in told(MemoryVectors(ids, corpus[2]), 10)[-1]
    assert "gave" not in told(MemoryVectors(ids, corpus[2]), 10 * count)[-1], "more than there are"


@pytest.mark.parametrize(
    ("system", "options", "trips"),
    [
        (GAR, {"budget": 30, "nodes_per_round": 5}, 7),
        (WalkFusion, {"form": "links"}, 3),
        (WalkFusion, {"form": "names", "weights": (2, 1, 0)}, 3),
    ],
)
def test_the_round_trips_that_the_docs_promise(corpus, system, options, trips):
    _, graph, _, remote = engines(corpus)
    RemoteRetriever(remote, system, **options).retrieve(QUESTIONS[0], vector=ONE)
    assert len(graph.asked) == trips


def test_a_plan_takes_a_round_trip_for_each_step(corpus):
    _, graph, _, remote = engines(corpus)
    plan = [{"type": "film", "restriction": "word1"}, {"type": "person"}, {"type": "place"}]
    hits = RemoteRetriever(remote, MoR).retrieve(QUESTIONS[0], 2, vector=ONE, plan=plan)
    assert asked(graph)[0]["titles"] == 1 and [list(call) for call in asked(graph)[1:]] == [["expand"], ["expand"], ["texts"]]
    assert any(len(hit.path.nodes) == 3 for hit in hits)


def test_a_planner_is_asked_once(corpus):
    index, _, _, remote = engines(corpus)
    questions = []

    def planner(question):
        questions.append(question)
        return [{"type": "film", "restriction": "word1"}, {"type": "person"}]

    expected = MoR(index, planner=planner).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus))
    questions.clear()
    found = RemoteRetriever(remote, MoR, planner=planner).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus))
    assert_same(found, expected)
    assert questions == QUESTIONS


def test_mor_matches_by_vectors_too(corpus):
    index, _, _, remote = engines(corpus)
    index = GraphIndex(index.graph, {"dense": index.dense}, embedding=_Letters(), relevance=index.relevance)
    remote = RemoteIndex(remote.graph, vectors=remote.vectors, embedding=_Letters(), relevance=CountingRelevance())
    plan = [{"type": "film", "restriction": "word1"}, {"type": "person", "restriction": "word2"}]
    traversal = MixedTraversal(matching="dense")
    expected = MoR(index, traversal=traversal).retrieve(QUESTIONS[0], plan=plan)
    assert_same([RemoteRetriever(remote, MoR, traversal=traversal).retrieve(QUESTIONS[0], plan=plan)], [expected])


class _Letters:
    def embed_query(self, text):
        return np.random.default_rng(len(text)).normal(size=6).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def test_a_filter_that_few_nodes_pass_is_searched_deeper(corpus):
    index, _, vectors, remote = engines(corpus)
    rare = {"$id": {"$in": [index.graph.ids[row] for row in (7, 100, 250)]}}
    retriever, local = RemoteRetriever(remote, FastInsight), FastInsight(index)
    found = retriever.retrieve(QUESTIONS[0], 2, vector=ONE, filter=rare)
    assert_same([found], [local.retrieve(QUESTIONS[0], 2, vector=ONE, filter=rare)])
    assert len(found) == 2
    depths = [k for name, k in vectors.asked if name == "search"]
    assert depths == [4 * 10 + 16, 4 * 56 + 16, 4 * 240 + 16]


def test_a_filter_that_no_node_passes_finds_nothing_and_ends(corpus, caplog):
    _, _, _, remote = engines(corpus)
    found = RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE, filter={"nowhere": 1})
    assert len(found) == 0 and "the operators found no node" in found.notes
    # Whether any node has the field is not known.
    assert "not a metadata field" not in caplog.text


def test_without_a_relevance_model_vectors_rerank_as_in_memory(corpus):
    remote, local = engines(corpus, relevance=None)[3], FastInsight(index_of(corpus), budget=20, nodes_per_round=5, alpha=0.5)
    found = RemoteRetriever(remote, FastInsight, budget=20, nodes_per_round=5, alpha=0.5)
    for vector in question_vectors(corpus):
        assert_same([found.retrieve("?", vector=vector)], [local.retrieve("?", vector=vector)])


def test_more_hits_than_there_are_nodes_gives_all_nodes():
    small = random_corpus(4, 60, 100)
    index, _, _, remote = engines(small)
    found = RemoteRetriever(remote, FastInsight, budget=5).retrieve("word1", 500, vector=ONE)
    assert_same([found], [FastInsight(index, budget=5).retrieve("word1", 500, vector=ONE)])
    assert len(found) == 60


def test_walk_fusion_has_fewer_seeds_in_a_small_graph_as_in_memory():
    for count in (20, 90, 150, 240):
        index, _, _, remote = engines(random_corpus(4, count, 2 * count))
        assert_same(
            [RemoteRetriever(remote, WalkFusion, form="links").retrieve("word1", vector=ONE)],
            [WalkFusion(index, form="links").retrieve("word1", vector=ONE)],
        )


def test_batches_are_those_of_the_retriever(corpus):
    index, graph, _, remote = engines(corpus)
    own = question_vectors(corpus)
    graph.asked.clear()
    found = RemoteRetriever(remote, GAR, budget=5, nodes_per_round=5, batch_size=3).retrieve_batch(QUESTIONS, 5, vectors=own)
    assert_same(found, GAR(index, budget=5, nodes_per_round=5).retrieve_batch(QUESTIONS, 5, vectors=own))
    assert len(graph.asked) == 4


@pytest.mark.parametrize(
    ("system", "options", "words"),
    [
        (WalkFusion, {}, 'WalkFusion cannot run on a graph in a database: it reads .* of the whole graph. Give form="links"'),
        (PPR, {}, "PPR cannot run .* PersonalizedPageRank reads where a walk over the whole graph is most often"),
        (SpreadingActivation, {}, "SpreadingActivation cannot run .* whole graph. Give hub_exponent="),
        (HippoRAG, {}, "HippoRAG cannot run"),
        (lambda index: object(), {}, "expected a Retriever"),
    ],
)
def test_what_reads_the_whole_graph_is_refused(corpus, system, options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        RemoteRetriever(engines(corpus)[3], system, **options)


@pytest.mark.parametrize(
    ("system", "options", "words"),
    [
        (WalkFusion, {"form": "names"}, "WalkFusion cannot run on a graph in a database: it reads 'names' of the whole graph"),
        (WalkFusion, {"form": "relations"}, "WalkFusion cannot run on a graph in a database"),
        (SpreadingActivation, {"hub_exponent": 0}, r"it reads 'names' of the whole graph \(asked: Mentioned\)"),
        (
            Retriever,
            {"operator": Pipeline(VectorSearch(3), GatedPropagation(gate=lambda queries, batch, nodes: nodes > 0))},
            r"it reads what Pairs is answered with, which only an index in memory has \(asked: Pairs\)",
        ),
    ],
)
def test_a_request_that_needs_the_whole_graph_is_refused_by_name(corpus, system, options, words):
    remote = engines(corpus)[3]
    with pytest.raises(InvalidArgumentError, match=words):
        RemoteRetriever(remote, system, **options).retrieve(QUESTIONS[0], vector=ONE)


def test_the_form_of_walk_fusion_is_not_guessed_from_a_part():
    nodes, edges, vectors = random_corpus(2, 60, 100)
    plain = [Node(node.id, node.text) for node in nodes], edges, vectors
    with pytest.raises(InvalidArgumentError, match="it reads 'type_names' of the whole graph"):
        RemoteRetriever(engines(plain)[3], WalkFusion)


def test_values_of_the_whole_graph_are_refused_in_a_run(corpus):
    _, _, _, remote = engines(corpus)
    index = remote.stored(remote.opened())
    for key in ("transitions", ("names", True), "holds passages"):
        with pytest.raises(InvalidArgumentError, match="of the whole graph"):
            index.graph.cache.get(key, lambda: None)
    with pytest.raises(InvalidArgumentError, match="not saved"):
        index.dense.state()


@pytest.mark.parametrize("name", ["scope", "filter", "seed_filter", "traversal_filter"])
def test_what_cannot_be_a_filter_is_refused(corpus, name):
    retriever = RemoteRetriever(engines(corpus)[3], FastInsight)
    with pytest.raises(InvalidArgumentError, match=f"{name} is .*which a graph in a database does not take"):
        retriever.retrieve("?", vector=ONE, **{name: lambda node: True})


TENANTS = {
    "fastinsight": (FastInsight, {"fuse": False, "budget": 30}),
    "gar": (GAR, {"budget": 20}),
    "eager": (Eager, {}),
    "mmr": (MMR, {}),
    "scored": (Scored, {"scorer": lambda node, similarity, depth: similarity + len(node.text) / 1000}),
    "links": (WalkFusion, {"form": "links", "seeds": 5}),
    "mor": (MoR, {"planner": lambda question: [{"type": "person", "restriction": "loom"}, {"type": "thing", "relation": "knows"}]}),
    "chains": (SpreadingActivation, {"hub_exponent": 0.25, "fuse": False, "chains": "hits", "gate": "uniform"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TENANTS)
def test_filters_hide_the_nodes_of_other_tenants_as_in_memory(name):
    whole, (system, options) = world([12] * 20, 1), TENANTS[name]
    graph, drawn = whole.graph, np.random.default_rng(0).normal(size=(len(whole), 16))
    models = {"embedding": whole.embedding, "relevance": whole.relevance}
    index = GraphIndex.from_graph(graph, vectors=whole.dense.vectors.numpy() + 0.01 * drawn, metric="cosine", **models)
    owned = [title for title, metadata in zip(graph.titles, graph.metadata, strict=True) if metadata["tenant"] == "T3x"]
    remote = RemoteIndex(
        MemoryGraph(graph),
        vectors=MemoryVectors(graph.ids, index.dense.vectors),
        signals={"bm25": index.bm25},
        **models,
    )
    there, here = RemoteRetriever(remote, system, **options), system(index, **options)
    inputs = {"entities": [owned[:2], owned[2:4]]} if name == "chains" else {}
    own, shown = {"tenant": "T3x"}, 0
    every = dict.fromkeys(("filter", "seed_filter", "traversal_filter"), own)
    for filters in (every, {"filter": own}, {"filter": own, "seed_filter": {}}, {}):
        found = there.retrieve_batch(["Who has a loom?", "the brass engine"], 8, **filters, **inputs)
        assert_same(found, here.retrieve_batch(["Who has a loom?", "the brass engine"], 8, **filters, **inputs))
        if filters:
            # Paths may lead through nodes of others, which are named by their ids alone.
            assert [foreign(hits, "T3x", ("Body", "Of", "Tag", "Edge")) for hits in found] == [[], []]
        if len(filters) == 3:
            assert [foreign(hits, "T3x") for hits in found] == [[], []]
        shown += len(filters) == 0 and any(foreign(hits, "T3x") for hits in found)
    assert shown


def test_scopes_are_told_apart_and_a_composition_is_that_of_its_scope(corpus):
    index, graph, _, remote = engines(corpus)
    retriever = RemoteRetriever(remote, Retriever, operator=lambda there: BM25Search(len(there) // 30), backfill=False, k=300)
    local = Retriever(index, lambda there: BM25Search(len(there) // 30), backfill=False, k=300)
    assert len(retriever.retrieve("word1 word2 word3")) == 10
    # JSON has no tuples, so that such a scope is read at every call.
    years = [{"year": {"$in": (1990, 1991, 1992)}}, {"year": {"$in": (1995, 1996, 1997)}}, {"year": {"$in": [1990, 1991, 1992]}}]
    counts = []
    for scope in (*years, *years):
        graph.asked.clear()
        found = retriever.retrieve("word1 word2 word3", scope=scope)
        assert_same([found], [local.retrieve("word1 word2 word3", scope=scope)])
        assert 1 <= len(found) < 10
        counts.append(sum("scope" in call for call in graph.asked))
    assert counts == [1, 1, 1, 1, 1, 0]
    assert remote.within({}) is remote and len(remote.within({"$type": "film"})) == 100


def test_limits_end_a_call(corpus):
    for limits, words in (({"max_round_trips": 3}, "max_round_trips=3 .* vector store"), ({"max_nodes": 80}, "max_nodes=80")):
        retriever = RemoteRetriever(engines(corpus, **limits)[3], FastInsight, budget=50)
        with pytest.raises(DatabaseError, match=words):
            retriever.retrieve("?", vector=ONE)


def test_no_plain_rank_is_made_up(corpus):
    hits = RemoteRetriever(engines(corpus)[3], FastInsight, budget=10).retrieve("?", vector=ONE)
    assert [hit.plain_rank for hit in hits] == [None] * 10 and "without the graph" not in hits[0].explain()


def test_a_missing_vector_is_named(corpus):
    _, _, vectors, remote = engines(corpus)
    retriever = RemoteRetriever(remote, FastInsight, budget=300)
    gone = next(node.id for node in corpus[0] if node.id == corpus[0][5].id)
    del vectors.held[gone]
    with pytest.raises(InvalidVectorError, match=f"no vector of node '{gone}'"):
        retriever.retrieve("?", 300, vector=ONE)


def test_results_that_are_no_nodes_are_left_out_with_a_note(corpus):
    index, _, vectors, remote = engines(corpus)
    vectors.held = {"elsewhere": ONE / 6**0.5, **vectors.held}
    found = RemoteRetriever(remote, FastInsight, budget=20).retrieve("?", vector=ONE)
    assert found.notes[-1].endswith("; 1 results of the vector store are not in the graph")
    assert [hit.id for hit in found] == [hit.id for hit in FastInsight(index, budget=20).retrieve("?", vector=ONE)]


def test_a_node_that_goes_during_a_call_is_named(corpus, monkeypatch):
    _, graph, _, remote = engines(corpus)
    read = graph.read
    monkeypatch.setattr(graph, "read", lambda **asked: Page() if asked["expand"] else read(**asked))
    with pytest.raises(UnknownNodeError, match="any more"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


@pytest.mark.parametrize("off", [-1, 1])
def test_degrees_that_are_no_longer_right_are_noticed(corpus, monkeypatch, off):
    _, graph, _, remote = engines(corpus)
    node = graph.node

    def changed(row, text=False):
        found = node(row, text)
        return found._replace(degree=found.degree + off)

    monkeypatch.setattr(graph, "node", changed)
    with pytest.raises(DatabaseError, match=r"neighbours, and its property says -?\d+: the graph was changed"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


def test_two_graphs_under_one_label_are_noticed(corpus, monkeypatch):
    _, graph, _, remote = engines(corpus)
    node = graph.node
    monkeypatch.setattr(graph, "node", lambda row, text=False: node(row, text)._replace(position=row % 200))
    with pytest.raises(DatabaseError, match="both have the position .* or, if the graph was written anew, make a new RemoteIndex"):
        RemoteRetriever(remote, FastInsight, budget=300).retrieve("?", 300, vector=ONE)


def test_a_store_that_orders_otherwise_is_noticed(corpus, monkeypatch):
    _, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: [found[::-1] for found in search(asked, k)])
    with pytest.raises(InvalidArgumentError, match="something else than the cosine"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


def test_a_store_that_answers_too_few_searches_is_noticed(corpus, monkeypatch):
    _, _, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "search", lambda asked, k: [])
    with pytest.raises(DatabaseError, match="0 results for 1 searches"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


def test_what_does_not_fit_the_graph_is_refused(corpus, monkeypatch):
    index, graph, vectors, _ = engines(corpus)
    with pytest.raises(EmptyGraphError, match="no node of the graph"):
        RemoteIndex(MemoryGraph(type(index.graph)([], [])))
    with pytest.raises(DimensionMismatchError, match="covers 60 nodes, the database has 300"):
        RemoteIndex(graph, signals={"bm25": index_of(random_corpus(0)).bm25})
    with pytest.raises(InvalidArgumentError, match="expected one over the words of nodes"):
        RemoteIndex(graph, signals={"dense": index.dense})
    with pytest.raises(InvalidArgumentError, match="Expected a GraphStore and a VectorStore, got GraphIndex"):
        RemoteIndex(index)
    with pytest.raises(InvalidArgumentError, match="got MemoryGraph and InMemoryVectorStore"):
        RemoteIndex(graph, vectors=InMemoryVectorStore(_Letters()))
    give, gone = vectors.vectors, index.graph.ids[200]
    monkeypatch.setattr(vectors, "vectors", lambda ids: {**give(ids), **({gone: np.ones(3)} if gone in ids else {})})
    with pytest.raises(DimensionMismatchError, match="differ in width; expected 6"):
        RemoteRetriever(RemoteIndex(graph, vectors=vectors), FastInsight, budget=300).retrieve("?", 300, vector=ONE)


def test_a_graph_without_vectors_is_searched_by_words(corpus):
    index, graph, _, _ = engines(corpus)
    found = RemoteRetriever(RemoteIndex(graph, signals={"bm25": index.bm25}), BM25).retrieve_batch(QUESTIONS)
    assert_same(found, BM25(GraphIndex(index.graph, {"bm25": index.bm25})).retrieve_batch(QUESTIONS))
    with pytest.raises(ValueError, match="no vectors"):
        RemoteRetriever(RemoteIndex(graph), FastInsight).retrieve("?")


def test_a_search_by_words_with_a_filter_goes_deeper(corpus):
    index, _, _, remote = engines(corpus)
    for filters in ({"$type": "film", "year": 1995}, {"$type": "place"}):
        found = RemoteRetriever(remote, Retriever, operator=HybridSearch()).retrieve_batch(
            QUESTIONS, 15, vectors=question_vectors(corpus), filter=filters
        )
        local = Retriever(index, HybridSearch())
        assert_same(found, local.retrieve_batch(QUESTIONS, 15, vectors=question_vectors(corpus), filter=filters))


def test_a_search_by_words_goes_deeper_for_the_last_hit_that_is_wanted():
    # Of the first 4 * 10 results, 9 pass the filter.
    nodes = [Node(f"n{row}", "loom" + " card" * row, "", "film" if row < 9 or row > 60 else "place") for row in range(80)]
    index = GraphIndex.from_nodes(nodes, [("n0", "n1")], vectors=np.ones((80, 6)), metric="cosine")
    remote = RemoteIndex(MemoryGraph(index.graph), signals={"bm25": index.bm25})
    found = RemoteRetriever(remote, Retriever, operator=BM25Search()).retrieve("loom", 10, filter={"$type": "film"})
    assert [hit.id for hit in found] == [*(f"n{row}" for row in range(9)), "n61"]


def test_a_call_to_a_store_ends_in_time():
    halt = threading.Event()
    with pytest.raises(DatabaseUnreachableError, match="within 0.1 seconds"):
        within(0.1, halt.wait, 60)
    halt.set()
    with pytest.raises(InvalidArgumentError, match="ours"):
        within(5, _raise, InvalidArgumentError("ours"))


def _raise(error):
    raise error


class Chroma:
    """The two methods of LangChain's Chroma that are called."""

    def __init__(self, held):
        self.held = held

    def similarity_search_by_vector(self, embedding, k=4, ids=None):
        order = sorted(self.held if ids is None else ids, key=lambda name: -float(np.dot(self.held[name], embedding)))
        return [Document("", id=name) for name in order[:k]]

    def get(self, ids=None, include=()):
        found = [name for name in ids if name in self.held]
        return {"ids": found, "embeddings": np.array([self.held[name] for name in found])}


class Shelf(Chroma):
    get = None

    def vectors_by_ids(self, ids):
        return {name: self.held[name] for name in ids if name in self.held}


@pytest.mark.parametrize("kind", ["memory", "chroma", "own", "llama", "llama nodes"])
def test_stores_of_the_frameworks_give_the_same_answers(corpus, kind):
    held = dict(zip([node.id for node in corpus[0]], corpus[2].tolist(), strict=True))
    if kind == "memory":
        store = InMemoryVectorStore(_Letters())
        store.store = {name: {"id": name, "text": "", "metadata": {}, "vector": row} for name, row in held.items()}
        vectors = LangChainVectors(store)
    elif kind == "llama":
        store = SimpleVectorStore()
        store.add([TextNode(id_=name, embedding=row) for name, row in held.items()])
        vectors = LlamaIndexVectors(store)
    elif kind == "llama nodes":
        vectors = LlamaIndexVectors(Listing(held=held))
    else:
        vectors = LangChainVectors({"chroma": Chroma, "own": Shelf}[kind](held))
    index, _, _, remote = engines(corpus, vectors=vectors)
    found = RemoteRetriever(remote, FastInsight, budget=30).retrieve(QUESTIONS[0], vector=ONE)
    assert_same([found], [FastInsight(index, budget=30).retrieve(QUESTIONS[0], vector=ONE)])
    retriever, given = RemoteRetriever(remote, FastInsight, budget=30), {"vector": ONE, "scope": {"$type": "film"}}
    refused = {"own": "cannot be searched in a scope: LangChain has no search", "llama nodes": "found a node outside the scope"}
    if kind in refused:
        with pytest.raises(InvalidArgumentError, match=refused[kind]):
            retriever.retrieve(QUESTIONS[0], **given)
    else:
        assert_same([retriever.retrieve(QUESTIONS[0], **given)], [FastInsight(index, budget=30).retrieve(QUESTIONS[0], **given)])


class Listing(BasePydanticVectorStore):
    """A store of LlamaIndex that gives nodes by id."""

    stores_text: bool = True
    held: dict
    bare: bool = False

    @property
    def client(self):
        return None

    def add(self, nodes, **_):
        raise NotImplementedError

    def delete(self, ref_doc_id, **_):
        raise NotImplementedError

    def query(self, query, **_):
        found = Chroma(self.held).similarity_search_by_vector(query.query_embedding, query.similarity_top_k)
        return VectorStoreQueryResult(nodes=[TextNode(id_=document.id) for document in found])

    def get_nodes(self, node_ids=None, filters=None):
        return [TextNode(id_=name, embedding=None if self.bare else self.held[name]) for name in node_ids if name in self.held]


def test_stores_that_give_no_vectors_by_id_are_refused():
    class Bare(Chroma):
        get = None

    class Silent(Listing):
        get_nodes = BasePydanticVectorStore.get_nodes

    with pytest.raises(InvalidArgumentError, match=r"Bare is not a store that gives vectors by id.*vectors_by_ids"):
        LangChainVectors(Bare({}))
    with pytest.raises(InvalidArgumentError, match="Silent has no get_nodes"):
        LlamaIndexVectors(Silent(held={}))
    with pytest.raises(InvalidArgumentError, match="Expected a vector store of LlamaIndex"):
        LlamaIndexVectors(Bare({}))
    with pytest.raises(InvalidArgumentError, match="gave node 'a' without its vector"):
        LlamaIndexVectors(Listing(held={"a": [1.0]}, bare=True)).vectors(["a"])
    nameless = Shelf({"a": [1.0]})
    nameless.similarity_search_by_vector = lambda embedding, k: [Document("")]
    with pytest.raises(InvalidArgumentError, match="a document without an id"):
        LangChainVectors(nameless).search(np.ones((1, 1)), 1)


def test_vectors_of_any_length_are_compared_by_cosine(corpus):
    index = engines(corpus)[0]
    remote = engines(corpus, vectors=MemoryVectors(index.graph.ids, corpus[2] * np.arange(1, 301)[:, None]))[3]
    vector = torch.full((6,), 7.0)
    found = RemoteRetriever(remote, FastInsight, budget=20).retrieve("?", vector=vector)
    assert_same([found], [FastInsight(index, budget=20).retrieve("?", vector=vector)])


def test_a_type_that_no_fetched_node_has_is_known():
    vectors = np.random.default_rng(0).normal(size=(99, 6))
    vectors[98] = -ONE
    nodes = [Node(f"n{i}", f"word{i}", "", "film" if i < 98 else "rare") for i in range(99)]
    index = GraphIndex.from_nodes(nodes, [("n0", "n1")], vectors=vectors, metric="cosine")
    graph = MemoryGraph(index.graph)
    remote = RemoteIndex(graph, vectors=MemoryVectors(index.graph.ids, vectors), signals={"bm25": index.bm25})
    for kind in ("rare", "unknown"):
        plan = [{"type": "film", "restriction": "word1"}, {"type": kind}]
        expected = MoR(index).retrieve("word1", 2, vector=ONE, plan=plan)
        assert_same([RemoteRetriever(remote, MoR).retrieve("word1", 2, vector=ONE, plan=plan)], [expected])
    assert not any("n98" in call["ids"] or 98 in call["positions"] for call in graph.asked)


def test_titles_are_compared_by_all_of_their_letters():
    nodes = [
        Node("a", "x", " Kismet ", "film"),
        Node("b", "x", "Kismet!", "film"),
        Node("c", "x", "KISMET", "film"),
        Node("d", "y", "Ann", "person"),
    ]
    index = GraphIndex.from_nodes(nodes, [("a", "d"), ("c", "d"), ("b", "d")], vectors=np.eye(4), metric="cosine")
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=MemoryVectors("abcd", np.eye(4)), signals={"bm25": index.bm25})
    plan = [{"type": "film", "restriction": "kismet"}, {"type": "person"}]
    expected = MoR(index).retrieve("?", vector=np.ones(4), plan=plan)
    assert_same([RemoteRetriever(remote, MoR).retrieve("?", vector=np.ones(4), plan=plan)], [expected])


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, float("nan"), "5", -1, 0, True])
def test_a_timeout_is_a_number_of_seconds(corpus, timeout):
    with pytest.raises(InvalidArgumentError, match="timeout must be a number of seconds above 0, got"):
        engines(corpus, timeout=timeout)


@pytest.mark.parametrize(
    "given", [{"position": None}, {"weight": "heavy"}, {"weight": None}, {"weight": float("nan")}, {"weight": 0}, {"weight": True}]
)
def test_edges_without_a_position_or_a_weight_are_refused(corpus, given):
    _, graph, _, remote = engines(corpus)
    graph.edges = [edge._replace(**given) for edge in graph.edges]
    with pytest.raises(DatabaseError, match=r"The edge from .* expected an integer, and a number above 0\. Write the graph"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


@pytest.mark.parametrize("kind", ["edge", "title"])
def test_pages_without_the_nodes_of_their_edges_and_titles_are_refused(corpus, monkeypatch, kind):
    _, graph, _, remote = engines(corpus)
    read = graph.read

    def short(**asked):
        page = read(**asked)
        if kind == "title":
            return Page(page.nodes, page.edges, [Titled(title, "gone") for title in asked["titles"]])
        return Page([node for node in page.nodes if node.text is not None or not page.edges], page.edges)

    monkeypatch.setattr(graph, "read", short)
    plan = [{"type": "film", "restriction": "Title 3"}, {"type": "person"}]
    system, given = (MoR, {"plan": plan}) if kind == "title" else (FastInsight, {})
    with pytest.raises(DatabaseError, match="gave an edge or a title of node .*, and not the node"):
        RemoteRetriever(remote, system).retrieve("?", vector=ONE, **given)


@pytest.mark.parametrize("method", ["sample", "read", "schema"])
def test_a_graph_store_that_fails_is_a_database_error(corpus, monkeypatch, method):
    _, graph, vectors, remote = engines(corpus)
    monkeypatch.setattr(graph, method, lambda *given, **named: _raise(ConnectionError("no route")))
    with pytest.raises(DatabaseError, match=r"The graph store failed \(ConnectionError: no route\)"):
        if method == "sample":
            RemoteIndex(graph, vectors=vectors)
        RemoteRetriever(remote, MoR if method == "schema" else FastInsight).retrieve("?", 30, vector=ONE)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (lambda: None, "search is None; expected a list of lists of ids"),
        (lambda: [None], "search is None; expected a list of ids"),
        (lambda: ["abc"], "search is 'abc'; expected a list of ids"),
    ],
)
def test_results_that_are_no_lists_are_refused(corpus, monkeypatch, results, words):
    _, _, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "search", lambda asked, k: results())
    with pytest.raises(InvalidArgumentError, match=words):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


def test_results_may_be_a_generator(corpus, monkeypatch):
    index, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: (iter(found) for found in search(asked, k)))
    found = RemoteRetriever(remote, FastInsight, budget=20).retrieve("?", vector=ONE)
    assert_same([found], [FastInsight(index, budget=20).retrieve("?", vector=ONE)])
    monkeypatch.setattr(vectors, "search", lambda asked, k: (_raise(ConnectionError("no route")) for _ in asked))
    with pytest.raises(DatabaseError, match=r"The vector store failed \(ConnectionError: no route\)"):
        RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE)


@pytest.mark.parametrize(
    ("give", "error", "words"),
    [
        (lambda ids: None, DatabaseError, "gave None as vectors; expected a mapping"),
        (lambda ids: [ONE for _ in ids], DatabaseError, r"gave \[.* as vectors; expected a mapping"),
        (lambda ids: dict.fromkeys(ids, 0.5), DimensionMismatchError, r"got the shape \[\] for node"),
        (lambda ids: dict.fromkeys(ids, [[1.0], [1.0, 2.0]]), DatabaseError, "cannot be read as a row of numbers"),
        (lambda ids: dict.fromkeys(ids, "words"), DatabaseError, "cannot be read as a row of numbers"),
        (lambda ids: dict.fromkeys(ids, np.zeros(6)), InvalidVectorError, "no vector of node"),
    ],
)
def test_what_are_no_vectors_is_refused(corpus, monkeypatch, give, error, words):
    _, graph, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "vectors", give)
    for ask in (
        lambda: RemoteIndex(graph, vectors=vectors),
        lambda: RemoteRetriever(remote, FastInsight).retrieve("?", vector=ONE),
    ):
        with pytest.raises(error, match=words):
            ask()


def test_a_store_that_repeats_ids_is_searched_deeper(corpus, monkeypatch):
    index, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: [[i for i in ids for _ in range(3)][:k] for ids in search(asked, k)])
    found = RemoteRetriever(remote, Retriever, operator=VectorSearch()).retrieve("?", 40, vector=ONE)
    assert_same([found], [Retriever(index, VectorSearch()).retrieve("?", 40, vector=ONE)])
    remote = engines(corpus, vectors=vectors, max_nodes=5000)[3]
    monkeypatch.setattr(vectors, "search", lambda asked, k: [[corpus[0][0].id] * k for _ in asked])
    with pytest.raises(DatabaseError, match="max_nodes=5000"):
        RemoteRetriever(remote, Retriever, operator=VectorSearch()).retrieve("?", vector=ONE)


def test_many_ties_at_the_end_of_a_search_go_to_the_lower_rows():
    nodes, edges, vectors = random_corpus(3, 120, 200, ties=False)
    vectors[20:] = ONE / 6**0.5
    index, _, _, remote = engines((nodes, edges, vectors))
    found = RemoteRetriever(remote, Retriever, operator=VectorSearch()).retrieve("?", vector=ONE)
    assert_same([found], [Retriever(index, VectorSearch()).retrieve("?", vector=ONE)])


class Rows(CypherDatabase):
    """Rows of nodes as a database returns them, found by the keys of their titles if titles are asked for."""

    def __init__(self, *rows):
        plain = ("id", "name", "type", "metadata", "text", "near", "forward", "row", "relation", "weight", "words")
        self.schema = GraphSchema()
        self.rows = [{**dict.fromkeys(plain), "position": at, "degree": 1, **row} for at, row in enumerate(rows)]

    def read(self, text, **parameters):
        keys = parameters.get("titles")
        return [row for row in self.rows if not keys or name_key(row["name"]) in keys][: parameters["limit"]]


def test_one_row_more_than_the_limit_is_read():
    store = CypherGraphStore(Rows(*[{"part": "ids", "id": name} for name in "abcde"]))
    assert [node.id for node in store.read(ids="abcde", limit=2).nodes] == ["a", "b", "c"]


def test_a_title_is_found_where_its_folded_case_has_other_words():
    titles = ["\u0130stanbul", "i\u0307stanbul", "I\u0307STANBUL", "Istanbul"]
    store = CypherGraphStore(Rows(*[{"part": "titles", "id": name, "name": name} for name in titles]))
    asked = "\u0130stanbul".casefold()
    assert store.read(titles=[asked], limit=9).titled == [Titled(asked, name) for name in titles[:3]]


@pytest.mark.parametrize("given", [{"row": None}, {"weight": "heavy"}, {"weight": 0}])
def test_edges_of_a_database_are_checked(corpus, given):
    edge = {"part": "expand", "id": "b", "near": "a", "forward": True, "row": 0, **given}
    store = CypherGraphStore(Rows({"part": "texts", "id": "a", "text": ""}, edge))
    pages = engines(corpus)[3].opened()
    with pytest.raises(DatabaseError, match="The edge from 'a' to 'b' has the position"):
        pages.take(store.read(expand=["a"], limit=9))


ROWS = np.array([41, 7, 250])


@pytest.mark.parametrize(
    ("request_", "trips"),
    [
        (Neighbors(ROWS), 3),
        (Neighbors(ROWS, parallel=True), 3),
        (Steps(ROWS, "film", None, 99), 3),
        (Links(ROWS), 3),
        (Weights(ROWS), 3),
        (Degree(ROWS), 2),
        (Degree(ROWS, parallel=True), 3),
        (Similarity(ROWS), 2),
        (Scores(ROWS), 2),
        (Scores(ROWS, "bm25"), 1),
        (TermScores(ROWS), 1),
        (Vectors(ROWS), 2),
        (Relevance(ROWS), 3),
        (Texts(ROWS), 3),
        (Contents(ROWS), 3),
        (lambda question: question.typed(ROWS, ("film",)), 2),
        (lambda question: question.types(ROWS), 2),
        (lambda question: question.returned(ROWS), 2),
        (lambda question: [question.ids[row] for row in ROWS], 4),
    ],
)
def test_rows_that_no_answer_contained_are_fetched(corpus, request_, trips):
    told = []

    class Asks(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, found):
            told.append((yield request_) if isinstance(request_, Request) else request_(question))
            return found.top(0)

    index, graph, _, remote = engines(corpus)
    operator, options = Pipeline(VectorSearch(1, returned=False), Asks()), {"filter": {"year": {"$gte": 1995}}}
    Retriever(index, operator, backfill=False).retrieve(QUESTIONS[0], vector=ONE, seed_filter={}, **options)
    graph.asked.clear()
    RemoteRetriever(remote, Retriever, operator=operator, backfill=False).retrieve(
        QUESTIONS[0], vector=ONE, seed_filter={}, **options
    )
    local, stored = (part if isinstance(part, tuple) else (part,) for part in told)
    for ours, theirs in zip(stored, local, strict=True):
        if isinstance(theirs, Near):
            assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
        elif isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            assert ours == theirs
    assert len(graph.asked) <= trips + 1
