"""Retrievers on what they fetch: what each engine is asked for, limits, and refusals."""

import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graph_retrievers import (
    GAR,
    MMR,
    Eager,
    EgoGRAG,
    FastInsight,
    GraphIndex,
    GRetriever,
    HippoRAG1,
    LeSeGR,
    LightRAG,
    LinearRAG,
    MoR,
    Node,
    Pipeline,
    Retriever,
    Scored,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.construction.edges import EntityMentions
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.requests import (
    Contents,
    Degree,
    EdgesAmong,
    Near,
    Nearest,
    Neighbors,
    Relevance,
    Request,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Vectors,
    WeightedNeighbors,
    Weights,
)
from graph_retrievers.errors import (
    DatabaseError,
    GraphRetrieverError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingSignalError,
    UnexpectedArgumentError,
)
from graph_retrievers.graph.names import NAMED_BY_TEXTS
from graph_retrievers.operators import (
    BM25Search,
    EntityLinking,
    FactSearch,
    GatedPropagation,
    HybridSearch,
    TriGraphSearch,
    VectorSearch,
)
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.stores.remote import RemoteIndex, StoredEdge
from graph_retrievers.stores.remote.backend import RemoteBackend
from graph_retrievers.stores.remote.queries import StoredQueries
from graph_retrievers.systems import every_system
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.mor import MixedTraversal
from tests.helpers import listening
from tests.remote import (
    ONE,
    QUESTIONS,
    ComparingVectors,
    CountingRelevance,
    Letters,
    MemoryEdgeVectors,
    MemoryGraph,
    MemoryVectors,
    MemoryWords,
    assert_same,
    engines,
    index_of,
    question_vectors,
    random_corpus,
)
from tests.tenants import foreign, world


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(2, 300, 700, ties=False)


def asked(graph):
    return [{name: len(values) for name, values in call.items() if values} for call in graph.asked]


def test_a_frontier_is_one_round_trip_however_many_queries_there_are(corpus):
    _, graph, vectors, remote = engines(corpus)
    retriever = Retriever(remote, FastInsight(budget=30, nodes_per_round=5))
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
        retriever = Retriever(made, search)
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
    ("system", "trips"),
    [
        (GAR(budget=30, nodes_per_round=5), 7),
        (WalkFusion(form="links"), 3),
        (WalkFusion(form="names", weights=(2, 1, 0)), 3),
    ],
)
def test_the_round_trips_that_the_docs_promise(corpus, system, trips):
    _, graph, _, remote = engines(corpus)
    Retriever(remote, system).retrieve(QUESTIONS[0], vector=ONE)
    assert len(graph.asked) == trips


def test_a_plan_takes_a_round_trip_for_each_step(corpus):
    _, graph, _, remote = engines(corpus)
    plan = [{"type": "film", "restriction": "word1"}, {"type": "person"}, {"type": "place"}]
    hits = Retriever(remote, MoR()).retrieve(QUESTIONS[0], 2, vector=ONE, plan=plan)
    assert asked(graph)[0]["titles"] == 1 and [list(call) for call in asked(graph)[1:]] == [["expand"], ["expand"], ["texts"]]
    assert any(len(hit.path.nodes) == 3 for hit in hits)


def test_a_planner_is_asked_once(corpus):
    index, _, _, remote = engines(corpus)
    questions = []

    def planner(question):
        questions.append(question)
        return [{"type": "film", "restriction": "word1"}, {"type": "person"}]

    expected = Retriever(index, MoR(planner=planner)).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus))
    questions.clear()
    found = Retriever(remote, MoR(planner=planner)).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus))
    assert_same(found, expected)
    assert questions == QUESTIONS


def test_mor_matches_by_vectors_too(corpus):
    index, _, _, remote = engines(corpus)
    index = GraphIndex(index.graph, {"dense": index.dense}, embedding=Letters(), relevance=index.relevance)
    remote = RemoteIndex(remote.store, vectors=remote.vectors, embedding=Letters(), relevance=CountingRelevance())
    plan = [{"type": "film", "restriction": "word1"}, {"type": "person", "restriction": "word2"}]
    traversal = MixedTraversal(matching="dense")
    expected = Retriever(index, MoR(traversal=traversal)).retrieve(QUESTIONS[0], plan=plan)
    assert_same([Retriever(remote, MoR(traversal=traversal)).retrieve(QUESTIONS[0], plan=plan)], [expected])


def test_a_filter_that_few_nodes_pass_is_searched_deeper(corpus):
    index, _, vectors, remote = engines(corpus)
    rare = {"$id": {"$in": [index.graph.ids[row] for row in (7, 100, 250)]}}
    retriever, local = Retriever(remote, FastInsight()), Retriever(index, FastInsight())
    found = retriever.retrieve(QUESTIONS[0], 2, vector=ONE, filter=rare)
    assert_same([found], [local.retrieve(QUESTIONS[0], 2, vector=ONE, filter=rare)])
    assert len(found) == 2
    depths = [k for name, k in vectors.asked if name == "search"]
    assert depths == [4 * 10 + 16, 4 * 56, 4 * 224]


def test_whether_a_node_passes_a_filter_is_asked_only_where_nothing_is_found(corpus):
    index, graph, _, remote = engines(corpus)
    here, there = (Retriever(each, "bm25", backfill=False) for each in (index, remote))
    passing, none = {"filter": {"year": {"$gte": 1990}}}, {"filter": {"year": 1}}
    for filters, words, reads in (
        (passing, "word1", 0),
        (passing, "weaver", 1),
        (none, "word1", 1),
        ({**none, "scope": {"$type": "film"}}, "word1", 2),
        ({"filter": {"$type": "person"}, "scope": {"$type": "film"}}, "word1", 1),
    ):
        graph.asked.clear()
        batch = there.retrieve_batch([words, words], **filters)
        # The ids of a scope are read too, once.
        assert sum("scope" in call for call in graph.asked) == reads
        assert_same(batch, here.retrieve_batch([words, words], **filters))
        assert len(batch[0]) or ("no node passes the filter" in str(batch[0].notes)) == (filters is not passing)


def test_a_filter_that_no_node_passes_finds_nothing_and_ends(corpus, caplog):
    _, _, _, remote = engines(corpus)
    found = Retriever(remote, FastInsight()).retrieve("?", vector=ONE, filter={"nowhere": 1})
    assert len(found) == 0 and "the operators found no node" in found.notes
    assert "no node passes the filter, which reads 'nowhere'" in found.notes
    # Whether any node has the field is not known.
    assert caplog.text == ""


def test_without_a_relevance_model_vectors_rerank_as_in_memory(corpus):
    remote, local = (
        engines(corpus, relevance=None)[3],
        Retriever(index_of(corpus), FastInsight(budget=20, nodes_per_round=5, alpha=0.5)),
    )
    found = Retriever(remote, FastInsight(budget=20, nodes_per_round=5, alpha=0.5))
    for vector in question_vectors(corpus):
        assert_same([found.retrieve("?", vector=vector)], [local.retrieve("?", vector=vector)])


def test_more_hits_than_there_are_nodes_gives_all_nodes():
    small = random_corpus(4, 60, 100)
    index, _, vectors, remote = engines(small)
    found = Retriever(remote, FastInsight(budget=5)).retrieve("word1", 5000, vector=ONE)
    assert_same([found], [Retriever(index, FastInsight(budget=5)).retrieve("word1", 5000, vector=ONE)])
    assert len(found) == 60
    assert len(Retriever(remote, VectorSearch()).retrieve("?", 5000, vector=ONE)) == 60
    assert max(k for kind, k in vectors.asked if kind == "search") < 120, "no more is asked for than there may be"


def test_ties_in_a_scope_go_to_the_lower_row_whatever_order_its_ids_come_in():
    tied = random_corpus(4)
    index, _, _, remote = engines(tied)
    given = {"vector": tied[2][0], "scope": {"$type": "film"}}
    found = Retriever(remote, FastInsight(budget=20)).retrieve("word1", 20, **given)
    assert_same([found], [Retriever(index, FastInsight(budget=20)).retrieve("word1", 20, **given)])


def test_a_context_has_the_nodes_of_memory(corpus):
    class Context(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            near = yield Neighbors(candidates.nodes)
            context = np.full((len(candidates), 2), -1)
            for place in range(len(candidates)):
                own = near.node[near.owner == place][:2]
                context[place, : len(own)] = own
            return replace(candidates, columns={"context": context})

    index, _, _, remote = engines(corpus)
    operator = Pipeline(VectorSearch(8), Context())
    there, here = Retriever(remote, operator), Retriever(index, operator)
    found, expected = (each.retrieve("?", 8, vector=ONE) for each in (there, here))
    assert [hit.context for hit in found] == [hit.context for hit in expected]
    assert all(hit.context is not None for hit in found)


def test_only_nodes_of_the_types_of_a_retriever_are_found(corpus):
    index, _, _, remote = engines(corpus)
    found = Retriever(remote, FastInsight(budget=20), types=["film"]).retrieve("word1", vector=ONE)
    assert_same([found], [Retriever(index, FastInsight(budget=20), types=["film"]).retrieve("word1", vector=ONE)])
    assert {hit.type for hit in found} == {"film"}
    other = Retriever(remote, FastInsight(budget=20)).with_options(types=["film"], k=3, time_limit=60)
    assert [hit.id for hit in other.retrieve("word1", vector=ONE)] == [hit.id for hit in found][:3]
    assert (other.k, other.time_limit) == (3, 60)


def test_a_cosine_that_is_0_but_for_rounding_is_0_as_in_memory():
    nodes, rows = [Node(name, "") for name in "abc"], np.array([[1, 0], [3e-8, 1], [-3e-8, 1]], np.float32)
    index = GraphIndex.from_nodes(nodes, [("a", "b")], vectors=rows, metric="cosine")
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=MemoryVectors(index.graph.ids, rows))
    linking = EntityLinking()
    for each in (Retriever(remote, linking, backfill=False), Retriever(index, linking, backfill=False)):
        assert [hit.id for hit in each.retrieve("?", vector=[1.0, 0.0], entities=[])] == ["a"]


@pytest.mark.parametrize("sizes", [(60, 3), (3, 60)])
def test_searches_of_one_step_are_one_as_deep_as_the_deepest(corpus, sizes):
    _, _, words, remote = searched(corpus)
    backend = RemoteBackend(StoredQueries.of(remote, ["word1 word2"], vectors=[ONE]), {})

    def both(signal):
        return (yield tuple(Nearest(k, signal) for k in sizes))

    for signal in ("dense", "bm25"):
        ((one, other),) = run(backend, [both(signal)])
        assert (len(one[0]), len(other[0])) == sizes
    assert [[kind for kind, *_ in store.asked].count("search") for store in (remote.vectors, words)] == [1, 1]


def test_walk_fusion_has_fewer_seeds_in_a_small_graph_as_in_memory():
    for count in (20, 90, 150, 240):
        index, _, _, remote = engines(random_corpus(4, count, 2 * count))
        assert_same(
            [Retriever(remote, WalkFusion(form="links")).retrieve("word1", vector=ONE)],
            [Retriever(index, WalkFusion(form="links")).retrieve("word1", vector=ONE)],
        )


def test_batches_are_those_of_the_retriever(corpus):
    index, graph, _, remote = engines(corpus)
    own = question_vectors(corpus)
    named = {"entities": [[index.graph.titles[row]] for row in (1, 11, 21, 31)]}
    system = SpreadingActivation(hub_exponent=0.25, gate="uniform")
    there, here = Retriever(remote, system, batch_size=1), Retriever(index, system)
    assert_same(*(each.retrieve_batch(QUESTIONS, vectors=own, **named) for each in (there, here)))
    graph.asked.clear()
    found = Retriever(remote, GAR(budget=5, nodes_per_round=5), batch_size=3).retrieve_batch(QUESTIONS, 5, vectors=own)
    assert_same(found, Retriever(index, GAR(budget=5, nodes_per_round=5)).retrieve_batch(QUESTIONS, 5, vectors=own))
    assert len(graph.asked) == 4


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (WalkFusion(), 'WalkFusion cannot run on a graph in a database: it reads .* of the whole graph. Give form="links"'),
        (
            LeSeGR(hops=None),
            r"LeSeGR cannot run .*: LexicalSemanticSearch reads all nodes and edges, .*; with hops=1 it runs there",
        ),
        (
            LinearRAG(),
            r"LinearRAG cannot run .*: it reads the sentences and .* which PostgreSQL has after write_index\(sentences=True\)",
        ),
        (lambda index: object(), "Expected a system or an Operator"),
    ],
)
def test_what_reads_the_whole_graph_is_refused(corpus, system, words):
    with pytest.raises(InvalidArgumentError, match=words):
        Retriever(engines(corpus)[3], system)


PAGE = (Path(__file__).parents[2] / "docs" / "scale-out.md").read_text(encoding="utf-8")
NEEDS = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.partition("| systems | need,")[2].partition("\n\n")[0], re.MULTILINE)[1:]


def test_the_page_says_which_systems_run_and_what_they_need(corpus):
    index, graph, vectors, with_bm25 = engines(corpus, embedding=Letters())
    bare = RemoteIndex(graph, vectors=vectors, embedding=Letters())
    with_words = RemoteIndex(graph, vectors=vectors, words=MemoryWords(index), embedding=Letters())
    places = (bare, with_bm25, with_words, index.with_models(embedding=Letters()))
    parts = [re.findall(r"`([\w-]+)`", systems) for systems, _ in NEEDS]
    assert sorted(name for names in parts for name in names) == sorted(every_system())
    for place, names in enumerate(parts):
        for name in names:
            inputs = {"plan": [{"type": "film", "restriction": "word1"}]} if name == "mor" else {}
            assert Retriever(places[place], name).retrieve(QUESTIONS[0], **inputs)
            for other in places[:place]:
                with pytest.raises((InvalidArgumentError, MissingSignalError)):
                    Retriever(other, name).retrieve(QUESTIONS[0])


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (WalkFusion(form="names"), "it reads 'names' of the whole graph .* With words=, names and facts .* are known"),
        (WalkFusion(form="relations"), "WalkFusion cannot run on a graph in a database"),
        (SpreadingActivation(), r"it reads 'names' of the whole graph \(asked: Mentioned\)"),
        (
            Pipeline(VectorSearch(3), GatedPropagation(gate=lambda queries, batch, nodes: nodes > 0)),
            r"reads what Pairs is answered with, which only an index in memory has \(asked: Pairs\). Use an index in memory",
        ),
        (TriGraphSearch(), "it reads the sentences and the names of all texts, which PostgreSQL has"),
    ],
)
def test_a_request_that_needs_the_whole_graph_is_refused_by_name(corpus, system, words):
    remote = engines(corpus)[3]
    with pytest.raises(InvalidArgumentError, match=words):
        Retriever(remote, system).retrieve(QUESTIONS[0], vector=ONE)


def test_the_form_of_walk_fusion_is_not_guessed_from_a_part():
    nodes, edges, vectors = random_corpus(2, 60, 100)
    plain = [Node(node.id, node.text) for node in nodes], edges, vectors
    with pytest.raises(InvalidArgumentError, match="it reads 'holds passages' of the whole graph"):
        Retriever(engines(plain)[3], WalkFusion())


def test_values_of_the_whole_graph_are_refused_in_a_run(corpus):
    _, _, _, remote = engines(corpus)
    backend = RemoteBackend(StoredQueries.of(remote, ["?"]), {})
    for read in (lambda: remote.facts.fact("holds passages", len), lambda: remote.facts.titles):
        with pytest.raises(InvalidArgumentError, match="of the whole graph"):
            read()
    for read in (lambda: remote.graph, lambda: backend.index):
        with pytest.raises(InvalidArgumentError, match="edges"):
            read()


@pytest.mark.parametrize("name", ["scope", "filter", "seed_filter", "traversal_filter"])
def test_what_cannot_be_a_filter_is_refused(corpus, name):
    retriever = Retriever(engines(corpus)[3], FastInsight())
    with pytest.raises(InvalidArgumentError, match=f"{name} is .*which a graph in a database does not take"):
        retriever.retrieve("?", vector=ONE, **{name: lambda node: True})


TENANTS = {
    "fastinsight": FastInsight(budget=30),
    "gar": GAR(budget=20),
    "eager": Eager(),
    "mmr": MMR(),
    "scored": Scored(scorer=lambda node, similarity, depth: similarity + len(node.text) / 1000),
    "links": WalkFusion(form="links", seeds=5),
    "mor": MoR(planner=lambda question: [{"type": "person", "restriction": "loom"}, {"type": "thing", "relation": "knows"}]),
    "chains": SpreadingActivation(hub_exponent=0.25, chains="hits", gate="uniform"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TENANTS)
def test_filters_hide_the_nodes_of_other_tenants_as_in_memory(name):
    whole, system = world([12] * 20, 1), TENANTS[name]
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
    there, here = Retriever(remote, system), Retriever(index, system)
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
    retriever = Retriever(remote, lambda there: BM25Search(len(there) // 30), backfill=False, k=300)
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


def test_what_is_just_the_limit_is_allowed(corpus):
    retriever = Retriever(engines(corpus)[3], VectorSearch(5), backfill=False)
    fetched = int(re.search(r"(\d+) nodes fetched", retriever.retrieve("?", 5, vector=ONE).notes[-1])[1])
    _, graph, _, remote = engines(corpus)
    Retriever(remote, FastInsight(budget=30)).retrieve("?", vector=ONE)
    trips = max(len(graph.asked), 4)
    for system, limits in (
        ({"system": VectorSearch(5), "backfill": False}, {"max_nodes": fetched}),
        ({"system": FastInsight(budget=30)}, {"max_round_trips": trips}),
    ):
        for less in (0, 1):
            own = {name: value - less for name, value in limits.items()}
            retriever = Retriever(engines(corpus, **own)[3], **system)
            if less:
                with pytest.raises(DatabaseError, match=next(iter(limits))):
                    retriever.retrieve("?", 5, vector=ONE)
            else:
                assert len(retriever.retrieve("?", 5, vector=ONE)) == 5


def test_a_scope_of_as_many_nodes_as_are_allowed_has_positions_of_its_own(corpus, monkeypatch):
    film = {"$type": "film"}
    assert len(engines(corpus, max_nodes=100)[3].within(film)) == 100
    with pytest.raises(InvalidArgumentError, match="more than max_nodes=99"):
        engines(corpus, max_nodes=99)[3].within(film)
    # A node that has taken the place of another one in the database.
    scoped = engines(corpus)[3].within(film).store
    scoped.ids[4] = "another"
    with pytest.raises(DatabaseError, match="was not in the scope when its ids were read"):
        scoped.read(positions=[4], limit=10)
    positions = MemoryGraph.positions
    monkeypatch.setattr(MemoryGraph, "positions", lambda self, limit: dict.fromkeys(positions(self, limit), 7))
    with pytest.raises(DatabaseError, match="not distinct numbers below 300"):
        engines(corpus)[3].within(film)


def test_types_and_relations_of_a_scope_are_its_own_whatever_was_read_before(corpus):
    _, graph, _, remote = engines(corpus)
    remote.read_schema()
    scoped = remote.within({"$type": "film"})
    scoped.read_schema()
    told = scoped.facts.value("schema triples")
    assert told and {kind for source, _, target in told for kind in (source, target)} == {"film"}
    assert len(remote.facts.value("schema triples")) > len(told)


def test_the_types_of_a_scope_are_read_once_where_a_system_asks_for_them(corpus, monkeypatch):
    reads, schema = [], MemoryGraph.schema
    monkeypatch.setattr(MemoryGraph, "schema", lambda graph: reads.append(1) or schema(graph))
    index, graph, vectors, _ = engines(corpus)
    remote = RemoteIndex(graph, vectors=vectors, words=MemoryWords(index), relevance=CountingRelevance())
    film, own = {"$type": "film"}, question_vectors(corpus)
    for system in (FastInsight(budget=10), WalkFusion(form="names"), SpreadingActivation(passages=None), "hybrid"):
        Retriever(remote, system).retrieve_batch(QUESTIONS, vectors=own, scope=film)
    assert reads == []
    # Among films alone, and without them, each node is a chunk of its own.
    system = LightRAG(mode="local", passage_type="film", threshold=-1)
    for scope in (film, {"$type": {"$ne": "film"}}, {"$type": {"$ne": "place"}}, {}):
        there, here = (Retriever(each, system, backfill=False) for each in (remote, index))
        batch = there.retrieve_batch(QUESTIONS, vectors=own, scope=scope)
        assert_same(batch, here.retrieve_batch(QUESTIONS, vectors=own, scope=scope))
        assert any(batch) and there.retrieve(QUESTIONS[0], vector=own[0], scope=scope)
    assert len(reads) == 3


def test_a_system_that_reads_more_of_the_whole_graph_in_a_scope_is_refused_there(corpus):
    """Whether the texts of films alone are passages is not known."""
    retriever = Retriever(engines(corpus)[3], LightRAG(mode="local", passage_type="film"))
    assert retriever.retrieve(QUESTIONS[0], vector=ONE, scope={"$type": {"$ne": "place"}})
    words = "LightRAG cannot run on a graph in a database: it reads 'holds passages' of the whole graph, for this scope. Use"
    with pytest.raises(InvalidArgumentError, match=words):
        retriever.retrieve(QUESTIONS[0], vector=ONE, scope={"$type": "film"})


@pytest.mark.parametrize("scope", [{"$type": "film"}, {"$type": "person"}, {"$type": {"$ne": "place"}}, {"$type": "none"}], ids=str)
def test_nodes_of_a_scope_are_listed_of_the_types_that_the_system_returns_there(corpus, scope):
    index, graph, vectors, _ = engines(corpus)
    remote = RemoteIndex(graph, vectors=vectors, words=MemoryWords(index))
    there, here = (Retriever(each, HippoRAG1(passage_type="film"), k=150).retrieve("", scope=scope) for each in (remote, index))
    assert [hit.id for hit in there] == [hit.id for hit in here]
    assert [note for note in there.notes if not note.startswith("round trips")] == list(here.notes)


def test_limits_end_a_call(corpus):
    for limits, words in (({"max_round_trips": 3}, "max_round_trips=3 .* vector store"), ({"max_nodes": 80}, "max_nodes=80")):
        retriever = Retriever(engines(corpus, **limits)[3], FastInsight(budget=50))
        with pytest.raises(DatabaseError, match=words):
            retriever.retrieve("?", vector=ONE)


def test_no_plain_rank_is_made_up(corpus):
    hits = Retriever(engines(corpus)[3], FastInsight(budget=10)).retrieve("?", vector=ONE)
    assert [hit.plain_rank for hit in hits] == [None] * 10 and "without the graph" not in hits[0].explain()


def test_a_graph_without_vectors_is_searched_by_words(corpus):
    index, graph, _, _ = engines(corpus)
    found = Retriever(RemoteIndex(graph, signals={"bm25": index.bm25}), BM25()).retrieve_batch(QUESTIONS)
    assert_same(found, Retriever(GraphIndex(index.graph, {"bm25": index.bm25}), BM25()).retrieve_batch(QUESTIONS))
    with pytest.raises(ValueError, match="no vectors"):
        Retriever(RemoteIndex(graph), FastInsight()).retrieve("?")


def test_a_search_by_words_with_a_filter_goes_deeper(corpus):
    index, _, _, remote = engines(corpus)
    for filters in ({"$type": "film", "year": 1995}, {"$type": "place"}):
        found = Retriever(remote, HybridSearch()).retrieve_batch(QUESTIONS, 15, vectors=question_vectors(corpus), filter=filters)
        local = Retriever(index, HybridSearch())
        assert_same(found, local.retrieve_batch(QUESTIONS, 15, vectors=question_vectors(corpus), filter=filters))


def test_a_search_by_words_goes_deeper_for_the_last_hit_that_is_wanted():
    # Of the first 4 * 10 results, 9 pass the filter.
    nodes = [Node(f"n{row}", "loom" + " card" * row, "", "film" if row < 9 or row > 60 else "place") for row in range(80)]
    index = GraphIndex.from_nodes(nodes, [("n0", "n1")], vectors=np.ones((80, 6)), metric="cosine")
    remote = RemoteIndex(MemoryGraph(index.graph), signals={"bm25": index.bm25})
    found = Retriever(remote, BM25Search()).retrieve("loom", 10, filter={"$type": "film"})
    assert [hit.id for hit in found] == [*(f"n{row}" for row in range(9)), "n61"]


def test_vectors_of_any_length_are_compared_by_cosine(corpus):
    index = engines(corpus)[0]
    remote = engines(corpus, vectors=MemoryVectors(index.graph.ids, corpus[2] * np.arange(1, 301)[:, None]))[3]
    vector = torch.full((6,), 7.0)
    found = Retriever(remote, FastInsight(budget=20)).retrieve("?", vector=vector)
    assert_same([found], [Retriever(index, FastInsight(budget=20)).retrieve("?", vector=vector)])


@pytest.mark.parametrize(
    "system",
    [
        VectorSearch(),
        FastInsight(budget=30),
        GAR(),
        WalkFusion(form="links", bridges=0),
        Eager(),
        MMR(),
        LeSeGR(model=listening(6)),
    ],
)
def test_a_store_that_gives_cosines_is_asked_for_vectors_only_where_they_are_needed(corpus, system):
    index = index_of(corpus)
    vectors = ComparingVectors(index.graph.ids, corpus[2])
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=vectors, signals={"bm25": index.bm25})
    vectors.asked.clear()
    for scope in ({}, {"scope": {"$type": "film"}}):
        found = Retriever(remote, system).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus), **scope)
        own = Retriever(index, system).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus), **scope)
        assert_same(found, own)
    assert ("vectors" in dict(vectors.asked)) == isinstance(system, MMR | LeSeGR)
    zeros = [Retriever(one, system).retrieve(QUESTIONS[0], vector=np.zeros(6)) for one in (remote, index)]
    assert_same(zeros[:1], zeros[1:])


@pytest.mark.parametrize("system", [FastInsight(budget=30), GAR(), WalkFusion(form="links", bridges=0)])
def test_a_cosine_is_asked_for_once_in_a_call(corpus, system):
    """Also not of a node whose cosine came with the nearest."""
    index, given = index_of(corpus), []

    class Vectors(ComparingVectors):
        def nearest(self, vectors, k):
            found = super().nearest(vectors, k)
            given.extend({(vector.tobytes(), name) for vector, pairs in zip(vectors, found, strict=True) for name, _ in pairs})
            return found

        def cosines(self, pairs):
            given.extend((vector.tobytes(), name) for vector, ids in pairs for name in ids)
            return super().cosines(pairs)

    remote = engines(corpus, vectors=Vectors(index.graph.ids, corpus[2]))[3]
    Retriever(remote, system).retrieve_batch(QUESTIONS, vectors=question_vectors(corpus))
    assert len(given) > 30 and len(given) == len(set(given))


def test_the_cosines_that_a_store_gives_are_checked(corpus):
    index = index_of(corpus)

    class Broken(ComparingVectors):
        def cosines(self, pairs):
            return self.given(super().cosines(pairs))

    vectors = Broken(index.graph.ids, corpus[2])
    remote = engines(corpus, vectors=vectors)[3]
    for vectors.given, kind, told in (
        (lambda found: [], DatabaseError, "gave the cosines of 0 vectors, and was asked for 1"),
        (lambda found: 3, InvalidArgumentError, "cosines of the vector store is 3; expected a list of mappings"),
        (lambda found: [{}], InvalidVectorError, "The vector store has no vector of node '"),
        (lambda found: [dict.fromkeys(found[0], float("nan"))], InvalidVectorError, "has no vector of node '"),
        (
            lambda found: [dict.fromkeys(found[0], 80.5)],
            DatabaseError,
            "gave 80.5 as the cosine of node '.*; expected a number from -1",
        ),
    ):
        with pytest.raises(kind, match=told):
            Retriever(remote, FastInsight(budget=30)).retrieve("?", vector=ONE)


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        (float("nan"), InvalidVectorError, "The vector store has no vector of node '"),
        (None, InvalidVectorError, "The vector store has no vector of node '"),
        (float("inf"), DatabaseError, "gave inf as the cosine of node '.*; expected a number from -1 to 1"),
        (-80.5, DatabaseError, "gave -80.5 as the cosine of node '"),
        ("near", DatabaseError, "gave 'near' as the cosine of node '"),
    ],
)
def test_the_cosines_of_the_nearest_are_checked(corpus, given, kind, told):
    index = index_of(corpus)

    class Broken(ComparingVectors):
        def nearest(self, vectors, k):
            return [[(name, given) for name, _ in found] for found in super().nearest(vectors, k)]

    remote = engines(corpus, vectors=Broken(index.graph.ids, corpus[2]))[3]
    for system in (VectorSearch(), FastInsight(budget=30)):
        with pytest.raises(kind, match=told):
            Retriever(remote, system).retrieve("?", vector=ONE)


def test_a_store_that_keeps_time_limits_is_called_where_it_is_asked(corpus):
    index, threads = index_of(corpus), []

    class Vectors(MemoryVectors):
        def search(self, vectors, k):
            threads.append(threading.get_ident())
            return super().search(vectors, k)

    class Timed(Vectors):
        keeps_time_limits = True

    for kind in (Vectors, Timed):
        remote = engines(corpus, vectors=kind(index.graph.ids, corpus[2]))[3]
        Retriever(remote, VectorSearch()).retrieve("?", vector=ONE)
    assert threads[0] != threading.get_ident() == threads[-1]


def test_a_type_that_no_fetched_node_has_is_known():
    vectors = np.random.default_rng(0).normal(size=(99, 6))
    vectors[98] = -ONE
    nodes = [Node(f"n{i}", f"word{i}", "", "film" if i < 98 else "rare") for i in range(99)]
    index = GraphIndex.from_nodes(nodes, [("n0", "n1")], vectors=vectors, metric="cosine")
    graph = MemoryGraph(index.graph)
    remote = RemoteIndex(graph, vectors=MemoryVectors(index.graph.ids, vectors), signals={"bm25": index.bm25})
    for kind in ("rare", "unknown"):
        plan = [{"type": "film", "restriction": "word1"}, {"type": kind}]
        expected = Retriever(index, MoR(candidates=20)).retrieve("word1", 2, vector=ONE, plan=plan)
        found = Retriever(remote, MoR(candidates=20)).retrieve("word1", 2, vector=ONE, plan=plan)
        assert_same([found], [expected])
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
    expected = Retriever(index, MoR()).retrieve("?", vector=np.ones(4), plan=plan)
    assert_same([Retriever(remote, MoR()).retrieve("?", vector=np.ones(4), plan=plan)], [expected])


def test_many_ties_at_the_end_of_a_search_go_to_the_lower_rows():
    nodes, edges, vectors = random_corpus(3, 120, 200, ties=False)
    vectors[20:] = ONE / 6**0.5
    index, _, _, remote = engines((nodes, edges, vectors))
    found = Retriever(remote, VectorSearch()).retrieve("?", vector=ONE)
    assert_same([found], [Retriever(index, VectorSearch()).retrieve("?", vector=ONE)])


ROWS = np.array([41, 7, 250])


@pytest.mark.parametrize(
    ("request_", "trips"),
    [
        (Neighbors(ROWS), 3),
        (Neighbors(ROWS, parallel=True), 3),
        (Neighbors(ROWS, incoming=True), 3),
        (Steps(ROWS, "film", None, 99), 3),
        (EdgesAmong(ROWS), 3),
        (WeightedNeighbors(ROWS), 3),
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

        def search(self, question, candidates):
            told.append((yield request_) if isinstance(request_, Request) else request_(question))
            return candidates.top(0)

    index, graph, _, remote = engines(corpus)
    operator, options = Pipeline(VectorSearch(1, returned=False), Asks()), {"filter": {"year": {"$gte": 1995}}}
    Retriever(index, operator, backfill=False).retrieve(QUESTIONS[0], vector=ONE, seed_filter={}, **options)
    graph.asked.clear()
    Retriever(remote, operator, backfill=False).retrieve(QUESTIONS[0], vector=ONE, seed_filter={}, **options)
    local, stored = (part if isinstance(part, tuple) else (part,) for part in told)
    for ours, theirs in zip(stored, local, strict=True):
        if isinstance(theirs, Near):
            assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
        elif isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            assert ours == theirs
    assert len(graph.asked) <= trips + 1


def searched(corpus, **options):
    """The engines of a corpus with its words in a store, which is given too."""
    index, graph, vectors, _ = engines(corpus)
    words = options.pop("words", None) or MemoryWords(index)
    return index, graph, words, RemoteIndex(graph, vectors=vectors, words=words, **options)


def test_a_search_of_a_word_store_goes_deeper_for_filters_and_ties(corpus):
    index, graph, words, remote = searched(corpus)
    rare = {"$id": {"$in": [index.graph.ids[row] for row in index.bm25.search(["word1 word2"], 300)[1][0, 60::40].tolist()]}}
    retriever, local = Retriever(remote, BM25Search()), Retriever(index, BM25Search())
    for filters in ({"filter": rare}, {}):
        found = retriever.retrieve("word1 word2", 3, vector=ONE, **filters)
        assert_same([found], [local.retrieve("word1 word2", 3, vector=ONE, **filters)])
        assert found[0].operator == "BM25Search"
    assert [k for _, _, k in words.asked] == [4 * 3 + 16, 4 * 28, 4 * 112, 3 + 16]
    ids = [f"{99 - row}" for row in range(80)]
    same = GraphIndex.from_texts(["a loom"] * 80, ids=ids, vectors=np.ones((80, 6)), metric="cosine")
    words = MemoryWords(same)
    tied = RemoteIndex(MemoryGraph(same.graph), vectors=MemoryVectors(same.graph.ids, np.ones((80, 6))), words=words)
    hits = Retriever(tied, BM25Search()).retrieve("loom", 3, vector=ONE)
    assert [hit.id for hit in hits] == ["99", "98", "97"] and [k for _, _, k in words.asked] == [19, 76, 304]


def test_names_are_looked_up_with_what_else_a_step_reads(corpus):
    index, graph, words, remote = searched(corpus)
    retriever = Retriever(remote, SpreadingActivation())
    graph.asked.clear()
    question = "What of TITLE 3 and title 21?"
    found = retriever.retrieve(question, vector=ONE)
    assert_same([found], [Retriever(index, SpreadingActivation()).retrieve(question, vector=ONE)])
    assert {hit.title for hit in found if hit.operator == "EntityLinking"} >= {"Title 3"}
    assert "names" in asked(graph)[0] and not any("names" in call for call in asked(graph)[1:])


def test_what_a_word_store_gives_is_checked(corpus):
    index = index_of(corpus)

    class Broken(MemoryWords):
        results, terms, ids = None, None, index.graph.ids

        def search(self, texts, k):
            return super().search(texts, k) if self.results is None else self.results

        def term_scores(self, pairs):
            return super().term_scores(pairs) if self.terms is None else self.terms

        def within(self, ids):
            return self

    for change, words in (
        ({"results": []}, "gave 0 results for 1 searches; expected one each"),
        ({"results": 3}, "result of the word store's search is 3; expected a list of lists of ids"),
        ({"terms": []}, "gave the scores of 0 texts, and was asked for 1"),
    ):
        store = Broken(index)
        remote = searched(corpus, words=store)[3]
        vars(store).update(change)
        with pytest.raises((DatabaseError, InvalidArgumentError), match=words):
            Retriever(remote, WalkFusion(form="links")).retrieve(QUESTIONS[0], vector=ONE)
    remote = searched(corpus, words=Broken(index))[3]
    with pytest.raises(InvalidArgumentError, match="word store found a node outside the scope"):
        Retriever(remote, BM25Search()).retrieve("word1", vector=ONE, scope={"$type": "film"})

    class Bare:
        def __init__(self, store):
            self.traits, self.search, self.term_scores = store.traits, store.search, store.term_scores

    remote = searched(corpus, words=Bare(MemoryWords(index)))[3]
    with pytest.raises(InvalidArgumentError, match="Bare cannot be searched in a scope: .* method within.ids. of ScopedWordStore"):
        Retriever(remote, BM25Search()).retrieve("word1", vector=ONE, scope={"$type": "film"})


EDGE_SYSTEMS = [FactSearch(9), LightRAG(mode="hybrid", facts=True, threshold=-1), GRetriever(facts=True), EgoGRAG(centres=5)]


def with_edge_vectors(corpus, kind=MemoryEdgeVectors, **options):
    """An index with vectors of edges, of which some are equal, and the same in stores."""
    index, graph, _, _ = engines(corpus)
    vectors = np.random.default_rng(3).normal(size=(index.graph.num_edges, 6)).astype(np.float32)
    vectors[20:120:3] = vectors[4]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    dense = DenseIndex(torch.from_numpy(vectors), covers="edges", metric="cosine")
    whole = GraphIndex(index.graph, {**index.signals, "edge_dense": dense})
    store = kind(index, vectors)
    stores = {"vectors": MemoryVectors(index.graph.ids, corpus[2]), "words": MemoryWords(index), "edge_vectors": store, **options}
    return whole, store, RemoteIndex(graph, **stores)


@pytest.mark.parametrize("filters", [{}, {"filter": {"$type": "film"}}, {"scope": {"year": {"$gte": 1994}}}], ids=str)
@pytest.mark.parametrize("system", EDGE_SYSTEMS, ids=lambda system: system.name)
def test_a_store_of_edge_vectors_gives_the_answers_in_memory(corpus, system, filters):
    index, store, remote = with_edge_vectors(corpus)
    vectors = question_vectors(corpus)
    vectors[0] = store.held[4]
    batches = [
        Retriever(each, system, backfill=False).retrieve_batch(QUESTIONS, vectors=vectors, **filters) for each in (remote, index)
    ]
    assert_same(*batches)
    assert any(batches[0]) and len(store.asked) <= 3


def test_what_a_store_of_edge_vectors_gives_is_checked(corpus):
    class Broken(MemoryEdgeVectors):
        results, rows = None, None

        def nearest(self, vectors, k, **options):
            return super().nearest(vectors, k, **options) if self.results is None else self.results

        def vectors(self, edges):
            return super().vectors(edges) if self.rows is None else {edge.position: self.rows for edge in edges[1:]}

        def within(self, ids):
            return self

    edge = StoredEdge(0, corpus[0][0].id, corpus[0][1].id, "", 1.0, "")
    for system, change, words in (
        (FactSearch(), {"results": []}, "store of edge vectors gave 0 results for 1 searches; expected one each"),
        (
            FactSearch(),
            {"results": 3},
            "The result of the store of edge vectors is 3; expected a list of lists of edges and cosines",
        ),
        (
            FactSearch(),
            {"results": [[(edge, np.nan)]]},
            "gave nan as the cosine of the edge from .*; expected a number from -1 to 1",
        ),
        (FactSearch(), {"results": [[(edge, 7.0)]]}, "gave 7.0 as the cosine"),
        (FactSearch(), {"results": [[(edge._replace(position="0"), 0.5)]]}, "has the position '0' and the weight 1.0"),
        (GRetriever(), {"rows": np.ones(6)}, "store of edge vectors has no vector of the edge from '.*' to '.*'; write the index"),
    ):
        _, store, remote = with_edge_vectors(corpus, Broken)
        vars(store).update(change)
        with pytest.raises(GraphRetrieverError, match=words):
            Retriever(remote, system).retrieve(QUESTIONS[0], vector=ONE)
    _, store, remote = with_edge_vectors(corpus, Broken)
    with pytest.raises(InvalidArgumentError, match="store of edge vectors found a node outside the scope"):
        Retriever(remote, FactSearch()).retrieve("word1", vector=ONE, scope={"$type": "film"})
    # A cosine that is 0 but for rounding is 0, as in memory.
    store.results = [[(edge, 1e-9)]]
    assert [hit.score for hit in Retriever(remote, FactSearch(), backfill=False).retrieve("word1", vector=ONE)] == [0.0] * 3
    store.results, store.vectors = None, lambda edges: {each.position: np.ones(5) for each in edges}
    with pytest.raises(GraphRetrieverError, match="vectors of the store of edge vectors"):
        Retriever(remote, GRetriever()).retrieve("word1", vector=ONE)
    with pytest.raises(InvalidArgumentError, match="edge_vectors is .*; expected an EdgeVectorStore"):
        with_edge_vectors(corpus, edge_vectors=MemoryVectors([], []))


def test_the_form_is_not_chosen_with_nodes_that_stand_for_names(corpus):
    nodes, edges, vectors = corpus
    named = Node("ada", "", "Ada", "entity", {NAMED_BY_TEXTS: True})
    whole = [*nodes, named], edges, np.concatenate([vectors, ONE[None]])
    index = index_of(whole)
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=MemoryVectors(index.graph.ids, whole[2]), words=MemoryWords(index))
    for system in (WalkFusion(), WalkFusion(form="links")):
        with pytest.raises(InvalidArgumentError, match=r"reads facts .* without .*'entity'.* form=\"links\" and bridges=0"):
            Retriever(remote, system)
    assert Retriever(remote, WalkFusion(form="links", bridges=0)).retrieve("word1", vector=ONE)


def test_nodes_that_are_mere_names_are_returned_only_if_asked_for_as_in_memory():
    names = EntityMentions()
    nodes = [Node("a", "A film with Ada Holm."), Node("b", "In Lund, Ada Holm met Cleo."), Node("c", "A mill.")]
    index = GraphIndex.from_documents(names.nodes(nodes), edges=names)
    remote = RemoteIndex(MemoryGraph(index.graph), words=MemoryWords(index))
    here, there = Retriever(index, "bm25", k=9), Retriever(remote, "bm25", k=9)
    entity, passage = {"$type": "entity"}, {"$type": "passage"}
    for filters in ({}, {"filter": entity}, {"filter": passage}, {"scope": entity}, {"scope": passage}, {"filter": {"$id": "b"}}):
        ids = [hit.id for hit in there.retrieve("Ada Holm", **filters)]
        assert ids == [hit.id for hit in here.retrieve("Ada Holm", **filters)]
        assert ("entity:ada holm" in ids) == (entity in filters.values())
    both = [hit.id for hit in Retriever(remote, "bm25", k=9, types=["entity", "passage"]).retrieve("Ada Holm")]
    assert "entity:ada holm" in both and "b" in both
    told = [[hit.id for hit in each.retrieve("", scope={"$id": {"$nin": ["c"]}})] for each in (here, there)]
    assert told == [["a", "b"]] * 2


def test_an_input_that_is_not_read_in_a_scope_is_refused_as_in_memory(corpus):
    """Films alone are no knowledge graph, and no node has a title."""
    nodes, edges, vectors = corpus
    index = index_of(([replace(node, title="") for node in nodes], edges, vectors), embedding=Letters())
    stores = {"vectors": MemoryVectors(index.graph.ids, vectors), "words": MemoryWords(index)}
    for place in (index, RemoteIndex(MemoryGraph(index.graph), embedding=Letters(), **stores)):
        retriever = Retriever(place, WalkFusion())
        assert retriever.retrieve(QUESTIONS[0], entities=["Ada"], scope={"$type": {"$ne": "place"}})
        with pytest.raises(UnexpectedArgumentError, match=r"not read 'entities' in this scope \(form links: no node has"):
            retriever.retrieve(QUESTIONS[0], entities=["Ada"], scope={"$type": "film"})


def test_an_index_whose_database_does_not_count_is_not_described():
    index = GraphIndex.from_texts(["A loom."])
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=None, signals={"bm25": index.bm25})
    with pytest.raises(InvalidArgumentError, match="MemoryGraph cannot be described; describe the index that was written there"):
        remote.describe()
