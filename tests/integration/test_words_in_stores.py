"""Words and names in the engines: the default retriever without the corpus in the process, on a database and Qdrant."""

import re
from uuid import NAMESPACE_OID, uuid5

import numpy as np
import pytest
import torch
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from graph_retrievers import Edge, FastInsight, GraphIndex, Node, Retriever, SpreadingActivation, WalkFusion
from graph_retrievers.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    MissingDatabaseFeatureError,
    MissingSignalError,
)
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores import postgres
from graph_retrievers.stores.cypher import CypherGraphStore, CypherWords, write_graph
from graph_retrievers.stores.engines import write_index
from graph_retrievers.stores.qdrant import QdrantVectors, QdrantWords
from graph_retrievers.stores.remote import RemoteIndex, WordStore
from langchain_graph_retrievers import GraphRetriever, LangChainVectors
from tests.postgres import drop
from tests.remote import MemoryVectors, assert_same

FIRST, LAST = ("Ada", "Cleo", "Ruth", "Nora", "Jan", "Otto"), ("Holm", "Marsh", "Vale", "Reed", "Stone", "Birk")
TOWNS, WORKS = ("Lund", "Bergen", "Turku", "Aarhus", "Visby"), ("Kismet", "Glass Harbour", "The Tin Loom", "Night Ferry", "Salt")
QUESTIONS = [
    "Where was the star of Kismet 3 born?",
    "Which film did Ada Holm and Cleo Marsh make?",
    "night ferry 4 in turku",
    "Who wrote of looms, word7 and ferries?",
    # In lower case, a name counts only where nothing else is named.
    "Does night ferry 5 sail near Kismet 2?",
]


class Hashed(Embeddings):
    """A vector for every text, drawn by its letters."""

    def embed_query(self, text):
        return np.random.default_rng(sum(map(ord, text)) % 1000).normal(size=6).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def corpus(kind, count=240):
    """Articles about people and films ("names"), sections of a manual ("links"), pieces of pages, or entities ("relations")."""
    draw = np.random.default_rng(3)
    ids = [str(uuid5(NAMESPACE_OID, f"{kind} {row}")) for row in range(count)]
    nodes = []
    for row in range(count):
        person, work = f"{FIRST[row % 6]} {LAST[row // 6 % 6]}", f"{WORKS[row % 5]} {row // 5}"
        town, other = TOWNS[row % 5], f"{FIRST[(row + 2) % 6]} {LAST[(row // 5) % 6]}"
        words = " ".join(f"word{word}" for word in draw.integers(0, 60, 12 + row % 9))
        title = f"{person} {row + 10}" if row % 2 else work
        text = f"{title} was made in {town}. She starred in {work} with {other}, a story of looms and {words}."
        metadata = {"year": 1900 + row % 40, "tenant": f"t{row % 3}"}
        if kind == "links":
            title, text = ("Notes", "Tables", "Options")[row % 3], text.lower()
        elif kind == "pieces":
            title, metadata = "", metadata | {"source": f"page{row // 8}.md"}
        elif kind == "relations":
            text = ""
        nodes.append(Node(ids[row], text, title, ("person", "film")[row % 2] if kind == "relations" else "", metadata))
    ends = draw.integers(0, count, (2 * count, 2)).tolist()
    edges = [Edge(ids[a], ids[b], ("links", "cites")[n % 2]) for n, (a, b) in enumerate(ends) if a != b]
    return nodes, edges, draw.normal(size=(count, 6)).astype(np.float32)


def index_of(kind, **options):
    nodes, edges, vectors = corpus(kind)
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", embedding=Hashed(), **options)


def in_engines(index, database, **options):
    """The index in a database and in one collection of Qdrant; nothing of the corpus stays in the process."""
    client = QdrantClient(":memory:")
    write_index(index, database, client, "nodes")
    stores = {"vectors": QdrantVectors(client, "nodes"), "words": QdrantWords(client, "nodes")}
    return RemoteIndex(CypherGraphStore(database), **stores, embedding=Hashed(), **options)


@pytest.fixture(scope="module", params=["bolt", "postgres"])
def server(request, cypher_server, postgres_server):
    """A server of a graph database, to which Qdrant is added, and PostgreSQL, which needs nothing else."""
    return cypher_server if request.param == "bolt" else postgres_server


@pytest.fixture(scope="module", params=["names", "links", "pieces", "relations"])
def engines(request, server):
    """An index that WalkFusion has another form for, and the engines that hold it."""
    index, database = index_of(request.param), server.open()
    assert WalkFusion().form_on(index) == request.param
    if isinstance(database, postgres.PostgresDatabase):
        postgres.write_index(index, database, "nodes")
        yield index, postgres.open_index(database, "nodes", embedding=Hashed())
        drop(database)
    else:
        yield index, in_engines(index, database)
        server.clean(database)


FILTERS = [
    {},
    {"filter": {"year": {"$gte": 1920}}},
    {"filter": {"year": {"$lt": 1930}}, "seed_filter": {}, "traversal_filter": {"tenant": {"$ne": "t1"}}},
]


@pytest.mark.parametrize("filters", FILTERS, ids=["all", "filter", "filters"])
@pytest.mark.parametrize("system", [WalkFusion(), FastInsight(), SpreadingActivation()])
def test_defaults_give_the_answers_in_memory(engines, system, filters):
    index, remote = engines
    retriever = Retriever(remote, system)
    found = retriever.retrieve_batch(QUESTIONS, **filters)
    assert_same(found, Retriever(index, system).retrieve_batch(QUESTIONS, **filters))
    assert any(len(hits) > 3 for hits in found) and not remote.own_signals
    assert_same([retriever.retrieve(QUESTIONS[0], **filters)], [Retriever(index, system).retrieve(QUESTIONS[0], **filters)])


def test_the_default_is_that_in_memory_and_says_why(engines):
    index, remote = engines
    retriever = Retriever(remote)
    assert (
        WalkFusion().form_on(retriever.index) == WalkFusion().form_on(index)
        and retriever.reason == Retriever(index, WalkFusion()).reason
    )
    documents = GraphRetriever(retriever=retriever).invoke(QUESTIONS[0])
    assert [document.id for document in documents] == [hit.id for hit in Retriever(index, WalkFusion()).retrieve(QUESTIONS[0])]


def test_a_name_is_asked_of_the_database_with_what_else_a_step_reads(engines):
    index, remote = engines
    trips = [
        [int(number) for number in hits.notes[-1].replace(",", "").split() if number.isdigit()][:3]
        for hits in (Retriever(remote).retrieve(question) for question in QUESTIONS)
    ]
    # To the graph, the vector store, and the word store; names of texts are one request for all.
    most = {"names": (9, 9, 3), "links": (5, 5, 2), "pieces": (6, 6, 2), "relations": (7, 6, 1)}[WalkFusion().form_on(index)]
    assert all(took <= allowed for each in trips for took, allowed in zip(each, most, strict=True)), trips


def test_a_scope_has_its_own_nodes_and_counts_words_among_them(cypher_server):
    # Without lengths of texts, whose mean is that of the collection, the words of a scope are those of an index of its own.
    nodes = corpus("links")[0]
    held = index_of("links", bm25=False)
    signals = {"dense": held.dense, "bm25": BM25(held.graph.contents(), b=0.0)}
    index = GraphIndex(held.graph, signals, embedding=Hashed())
    database = cypher_server.open()
    remote = in_engines(index, database)
    system = WalkFusion(form="links", bridges=1)
    retriever, local = Retriever(remote, system), Retriever(index, system)
    for tenant in ("t0", "t1", "t2"):
        own = {node.id for node in nodes if node.metadata["tenant"] == tenant}
        batch = retriever.retrieve_batch(QUESTIONS, scope={"tenant": tenant})
        assert {node for hits in batch for hit in hits for node in hit.path.nodes} <= own
        assert_same(batch, local.retrieve_batch(QUESTIONS, scope={"tenant": tenant}))
    cypher_server.clean(database)


def test_words_are_those_of_bm25_and_ties_go_to_the_lower_row():
    texts = ["a loom of oak", "A loom of oak", "the loom, the loom", "", "oak and ash", "a loom of oak"]
    ids = [str(uuid5(NAMESPACE_OID, f"{99 - row}")) for row in range(len(texts))]
    index = GraphIndex.from_texts(texts, ids=ids)
    words = QdrantWords(QdrantClient(":memory:"), "nodes")
    words.fill(index)
    assert isinstance(words, WordStore)
    asked = ["oak", "which oak loom? a LOOM!", "nothing", "..."]
    scores, rows = index.bm25.search(asked, 6)
    for found, row, score in zip(words.search(asked, 9), rows.tolist(), scores.tolist(), strict=True):
        expected = {ids[r]: s for r, s in zip(row, score, strict=True) if r >= 0}
        assert dict(found) == pytest.approx(expected, rel=1e-5)
    pairs = [("oak loom loom", ids), ("...", ids[:2]), ("ash", [])]
    terms = words.term_scores(pairs)
    assert [len(each) for each in terms] == [2, 0, 1] and terms[2] == [{}]
    # Distinct words, each with its weight times its number in the question.
    sums = [sum(scores.get(name, 0.0) for scores in terms[0]) for name in ids]
    whole = index.bm25.scores(["oak loom loom"], torch.zeros(6, dtype=torch.int64), torch.arange(6))
    np.testing.assert_allclose(sums, whole, rtol=1e-5)


def test_a_collection_that_is_there_gets_words_beside_its_vectors():
    index, client = index_of("names"), QdrantClient(":memory:")
    sparse = {"lexical": models.SparseVectorParams(modifier=models.Modifier.IDF), "plain": models.SparseVectorParams()}
    size = models.VectorParams(size=6, distance=models.Distance.COSINE)
    client.create_collection("nodes", vectors_config=size, sparse_vectors_config=sparse)
    client.upload_collection("nodes", vectors=index.dense.vectors.numpy(), ids=index.graph.ids)
    words = QdrantWords(client, "nodes", name="lexical")
    with pytest.raises(InvalidArgumentError, match=r"has no words: fill it with QdrantWords\(client, 'nodes'\).fill\(index\)"):
        words.search(["loom"], 3)
    words.fill(index, batch_size=7)
    expected = QdrantWords(QdrantClient(":memory:"), "other")
    expected.fill(index)
    assert words.search(QUESTIONS, 5) == expected.search(QUESTIONS, 5) and words.traits() == expected.traits()
    held = LangChainVectors(QdrantVectorStore(client, "nodes", Hashed())).vectors(index.graph.ids[:3])
    np.testing.assert_allclose([held[name] for name in index.graph.ids[:3]], index.dense.vectors[:3], atol=1e-6)
    # A node that is gone has no words any more, and its point, which is not of this package, stays.
    gone = index.graph.ids[0]
    words.fill(index.with_changes(delete=[gone]))
    assert gone not in dict(words.search(QUESTIONS[:1], 300)[0]) and gone in dict(expected.search(QUESTIONS[:1], 300)[0])
    assert QdrantVectors(client, "nodes").vectors([gone])
    for name in ("plain", "absent"):
        with pytest.raises(InvalidArgumentError, match=f"no sparse vectors '{name}' with the modifier idf. Make it with"):
            QdrantWords(client, "nodes", name=name).fill(index)


def test_what_does_not_fit_is_refused(database):
    index = index_of("names")
    remote = in_engines(index, database)
    graph, words = remote.store, remote.words
    with pytest.raises(MissingSignalError, match="no BM25, of which the words are made"):
        words.fill(GraphIndex(index.graph, {"dense": index.dense}))
    with pytest.raises(InvalidArgumentError, match="expected a WordStore"):
        RemoteIndex(graph, words=words, signals={"bm25": index.bm25})
    with pytest.raises(InvalidArgumentError, match="expected a qdrant_client.QdrantClient"):
        QdrantWords("localhost:6333", "nodes")
    less = QdrantWords(QdrantClient(":memory:"), "nodes")
    less.fill(GraphIndex.from_nodes([index.graph.node(0)]))
    with pytest.raises(DimensionMismatchError, match="filled with 1 nodes, and the database has 240: fill both from one index"):
        RemoteIndex(graph, words=less)


def full_text(cypher_server, database, index):
    """The full-text index of a database; where Cypher makes none, the message holds the statements, which are run as they stand."""
    words = CypherWords(database)
    with pytest.raises(InvalidArgumentError, match=r"holds no words of .*fill them with CypherWords\(database\).fill\(index\)"):
        words.traits()
    if cypher_server.process is None:
        words.fill(index)
        database.read("CALL db.awaitIndexes(60)")
        return words
    with pytest.raises(MissingDatabaseFeatureError) as caught:
        words.fill(index)
    for statement in re.search(r"CREATE VERTEX .*FULL_TEXT", str(caught.value)).group().split("; "):
        cypher_server.sql(statement)
    words = CypherWords(database, re.search(r"index='([^']*)'", str(caught.value)).group(1))
    words.fill(index)
    return words


def test_a_full_text_index_of_the_database_finds_nearly_the_same(cypher_server, database):
    index = index_of("names")
    write_graph(database, index.graph)
    words, vectors = full_text(cypher_server, database, index), MemoryVectors(index.graph.ids, index.dense.vectors.numpy())
    remote = RemoteIndex(CypherGraphStore(database), vectors=vectors, words=words, embedding=Hashed())
    retriever, local = Retriever(remote), Retriever(index, WalkFusion())
    assert retriever.reason == local.reason
    shared = [
        {hit.id for hit in retriever.retrieve(question)} & {hit.id for hit in local.retrieve(question)} for question in QUESTIONS
    ]
    assert np.mean(list(map(len, shared))) >= 8 and min(map(len, shared)) >= 6
    # Words of the syntax of Lucene are words, and stop words of a question are none.
    texts = ["Kismet AND NOT loom* (or", "the of", 'salt"', "nowhere"]
    found = words.search(texts, 5)
    assert [len(each) for each in found] == [5, 0, 5, 0] and all(score > 0 for each in found for _, score in each)
    assert all([score for _, score in each] == sorted((score for _, score in each), reverse=True) for each in found)
    (scores,), (none,) = words.term_scores([("Kismet", index.graph.ids[:20]), ("Kismet", index.graph.ids[1:2])])
    kismet = [index.graph.ids[row] for row in range(20) if "Kismet" in index.graph.texts[row]]
    assert sorted(scores) == sorted(kismet) and len(kismet) > 2 and not none
    own = {node.id for node in corpus("names")[0] if node.metadata["tenant"] == "t1"}
    hits = retriever.retrieve(QUESTIONS[0], scope={"tenant": "t1"})
    assert len(hits) == 10 and {node for hit in hits for node in hit.path.nodes} <= own
    if cypher_server.process is None:
        database.write(f"DROP INDEX `{words.index}` IF EXISTS")


def test_words_that_share_a_place_are_added(monkeypatch):
    for module in ("qdrant", "qdrant_points"):
        monkeypatch.setattr(
            f"graph_retrievers.stores.{module}.word_place", lambda word: 7 if word in ("loom", "card") else len(word)
        )
    index = GraphIndex.from_texts(["a loom reads the card", "a loom turns", "the quern turns"], ids=["both", "one", "none"])
    words = QdrantWords(QdrantClient(":memory:"), "machines")
    words.fill(index)
    (found,) = words.search(["loom card"], 3)
    # The question has the place twice, and so does the first text.
    bm25, weights = index.bm25, np.zeros(3)
    for term in (bm25.vocabulary["loom"], bm25.vocabulary["card"]):
        part = slice(bm25.indptr[term], bm25.indptr[term + 1])
        weights[bm25.rows[part].numpy()] += bm25.shares()[part]
    scores = dict(found)
    assert scores.keys() == {"both", "one"} and scores["both"] / scores["one"] == pytest.approx(weights[0] / weights[1])


def test_words_that_are_filled_again_are_split_as_they_were_last():
    texts, words = ["the loom", "a card"], QdrantWords(QdrantClient(":memory:"), "machines")
    index = GraphIndex.from_texts(texts, ids=["loom", "card"])
    words.fill(index)
    assert words.search(["the"], 2) == [[]]
    words.fill(GraphIndex(index.graph, {"bm25": BM25(texts, stopwords=None)}))
    assert [node for node, _ in words.search(["the"], 2)[0]] == ["loom"]
