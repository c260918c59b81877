"""Retrievers on a graph in a database and vectors in Qdrant: the answers in memory, in a counted number of round trips."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import neo4j
import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from qdrant_client import QdrantClient, models

from graph_retrievers import (
    GAR,
    MMR,
    Eager,
    FastInsight,
    GraphIndex,
    Hits,
    LeSeGR,
    MoR,
    Node,
    Pipeline,
    Retriever,
    Scored,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.errors import DatabaseError, DatabaseUnreachableError, InvalidArgumentError, TimeLimitError
from graph_retrievers.operators import (
    BM25Search,
    GatedPropagation,
    HybridSearch,
    ReciprocalRankFusion,
    Rerank,
    STeX,
    VectorSearch,
)
from graph_retrievers.stores.cypher import CypherGraphStore, GraphSchema, write_graph
from graph_retrievers.stores.remote import RemoteIndex
from langchain_graph_retrievers import GraphRetriever, LangChainVectors
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from llama_graph_retrievers import LlamaIndexVectors
from tests.helpers import listening
from tests.integration.test_cypher_deadlines import SOON, Mute
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
from tests.retrievers import on

PLANS = [
    [{"type": "film", "restriction": "word1"}, {"type": "person", "relation": "r1"}],
    [{"type": "person", "restriction": "Title 21"}, {"type": "film"}, {"type": "place", "restriction": "word3"}],
    None,
    [
        [{"type": "film", "restriction": "word9 word2"}, {"type": "person"}],
        [{"type": "place", "restriction": "title 33"}, {"type": "person", "relation": "r2"}],
    ],
]
# Names of two nodes each, in any case; one that no node has is searched by its vector.
ENTITIES = [["Title 3"], ["TITLE 21", "title 33"], ["Nobody at all"], ["Title 6", "nowhere"]]
INPUTS = {"mor": {"plan": PLANS}} | dict.fromkeys(("entities", "entities, chains"), {"entities": ENTITIES})


# Keywords that keep what follows from the whole graph out of the composition.
SPREADING = {"hub_exponent": 0.25, "chains": None}
# System, keywords, and round trips to the graph and the vector store that suffice without filters and ties.
SYSTEMS = {
    "eager": (Eager, {}, 4, 5),
    "mmr": (MMR, {}, 12, 14),
    "scored": (Scored, {}, 4, 5),
    "scorer": (Scored, {"scorer": lambda node, similarity, depth: similarity - depth + len(node.text) / 100}, 7, 7),
    "spreading": (Pipeline(VectorSearch(4, returned=False), GatedPropagation()), {"k": 20}, 5, 5),
    "rows": (Pipeline(BM25Search(4, returned=False), GatedPropagation(semantics="rows", exclude_types=["place"])), {"k": 20}, 5, 4),
    "entities": (SpreadingActivation, {**SPREADING, "k": 10}, 6, 6),
    "entities, chains": (SpreadingActivation, {**SPREADING, "chains": "hits", "semantics": "rows"}, 6, 6),
    "stex": (Pipeline(VectorSearch(5, returned=False), STeX(), STeX(beta=0.5)), {"k": 20}, 4, 4),
    "rerank": (Pipeline(HybridSearch(30), Rerank()), {"k": 20}, 2, 2),
    "fusion": (
        ReciprocalRankFusion(VectorSearch(), Pipeline(BM25Search(5, returned=False), STeX())),
        {"backfill": False},
        3,
        3,
    ),
    "search": (VectorSearch(), {}, 2, 2),
    "fastinsight": (FastInsight, {"budget": 30, "nodes_per_round": 5}, 7, 9),
    "gar": (GAR, {"budget": 30, "nodes_per_round": 5}, 7, 2),
    "links": (WalkFusion, {"form": "links"}, 3, 3),
    "names": (WalkFusion, {"form": "names", "weights": (2, 1, 0)}, 4, 4),
    "mor": (MoR, {"candidates": 30}, 7, 4),
    "lesegr": (LeSeGR, {"model": listening(6), "candidates": 20}, 4, 3),
    "lesegr, incoming": (LeSeGR, {"model": listening(6, "gcn", hidden=8), "direction": "in", "candidates": 20}, 4, 3),
}
FILTERS = [
    {},
    {"filter": {"year": {"$gte": 1996}}},
    {
        "filter": {"$type": "person"},
        "seed_filter": {},
        "traversal_filter": {"$or": [{"$type": "film"}, {"tags": {"$contains": "a"}}]},
    },
]


class Hashed(Embeddings):
    """A vector for every text, drawn by its length and letters."""

    def embed_query(self, text):
        return np.random.default_rng(sum(map(ord, text))).normal(size=6).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def in_qdrant(index):
    client = QdrantClient(":memory:")
    client.create_collection("nodes", vectors_config=models.VectorParams(size=6, distance=models.Distance.COSINE))
    points = [
        models.PointStruct(id=name, vector=row.tolist(), payload={"page_content": text, "metadata": {}})
        for name, row, text in zip(index.graph.ids, index.dense.vectors, index.graph.texts, strict=True)
    ]
    client.upsert("nodes", points)
    return QdrantVectorStore(client, "nodes", Hashed())


@pytest.fixture(scope="module")
def engines(cypher_server):
    """An index in memory, and the same in a database and in Qdrant."""
    corpus = random_corpus(5, 300, 700)
    index = index_of(corpus, CountingRelevance())
    database = cypher_server.open()
    write_graph(database, index)
    yield corpus, index, database, LangChainVectors(in_qdrant(index))
    cypher_server.clean(database)


@pytest.fixture
def sent(monkeypatch):
    """The texts of the queries that the driver sends, each by one request."""
    texts, run = [], neo4j.AsyncSession.run

    async def counted(session, query, *arguments, **keywords):
        texts.append(getattr(query, "text", query))
        return await run(session, query, *arguments, **keywords)

    monkeypatch.setattr(neo4j.AsyncSession, "run", counted)
    return texts


def remote(engines, system, options, **index_options):
    _, index, database, vectors = engines
    index_options = {"relevance": CountingRelevance(), **index_options}
    made = RemoteIndex(CypherGraphStore(database), vectors=vectors, signals={"bm25": index.bm25}, **index_options)
    return on(made, system, **options)


def round_trips(hits):
    words = hits.notes[-1].split()
    return int(words[2]), int(words[6])


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("filters", FILTERS, ids=["all", "filter", "filters"])
def test_the_answers_are_those_in_memory(engines, sent, name, filters):
    system, options, to_graph, to_vectors = SYSTEMS[name]
    corpus, index, *_ = engines
    vectors, inputs = question_vectors(corpus), INPUTS.get(name, {})
    models = {"embedding": Hashed()} if "entities" in name else {}
    index = index.with_models(**models)
    retriever, local = remote(engines, system, options, **models), on(index, system, **options)
    sent.clear()
    batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, **filters, **inputs)
    assert_same(batch, local.retrieve_batch(QUESTIONS, vectors=vectors, **filters, **inputs))
    assert any(len(hits.nodes) > 3 for hits in batch)
    # Counted at the driver; no step takes more than a round trip, but for searches that go deeper and the contents at the end.
    assert len(sent) == round_trips(batch[0])[0]
    for b, question in enumerate(QUESTIONS):
        one = retriever.retrieve(question, vector=vectors[b], **filters, **{key: values[b] for key, values in inputs.items()})
        assert_same([one], batch_without_notes(batch[b]))
        if not filters:
            # A search may end among the nodes, a sixth of all, that have one vector: then it goes deeper.
            assert round_trips(one)[0] <= to_graph + 2 and round_trips(one)[1] <= to_vectors + 4


def batch_without_notes(hits):
    return [Hits(hits.hits, hits.notes[:-1])]


def test_a_pair_is_scored_once_and_a_question_embedded_once(engines):
    class Model(Hashed):
        asked = 0

        def embed_query(self, text):
            self.asked += 1
            return super().embed_query(text)

    relevance, model = CountingRelevance(), Model()
    retriever = remote(engines, GAR, {"budget": 20, "nodes_per_round": 5}, relevance=relevance, embedding=model)
    retriever.retrieve(QUESTIONS[0])
    assert len(relevance.seen) == 20 and set(relevance.seen.values()) == {1} and model.asked == 1


def test_values_are_no_part_of_a_query(cypher_server, sent):
    hostile = ["a' OR 1=1 //", "b`) DETACH DELETE n //", 'c"}) RETURN n //', "d\\", "$ids", "{e}"]
    nodes = [Node(name, f"text {name}", f"title {name}", f"type {name}", {name: name}) for name in hostile]
    edges = [(a, b, f"r {a}") for a, b in zip(hostile, hostile[1:], strict=False)]
    index = GraphIndex.from_nodes(nodes, edges, vectors=np.eye(6, dtype=np.float32), bm25=False)
    database = cypher_server.open()
    write_graph(database, index)
    store, held, texts = CypherGraphStore(database), MemoryGraph(index.graph), set()
    for one in hostile:
        sent.clear()
        asked = {
            "ids": [one],
            "positions": [3],
            "texts": [hostile[2]],
            "expand": [one],
            "titles": [f"title {one}".casefold()],
            "limit": 99,
        }
        page, expected = store.read(**asked), held.read(**asked)
        assert {node[:5] for node in page.nodes} == {node[:5] for node in expected.nodes}
        assert sorted(page.edges) == sorted(expected.edges) and page.titled == expected.titled
        texts |= set(sent)
    assert len(texts) == 1
    vectors = MemoryVectors(index.graph.ids, np.eye(6))
    found = Retriever(RemoteIndex(store, vectors=vectors), FastInsight()).retrieve("?", vector=np.ones(6))
    assert sorted(hit.id for hit in found) == sorted(hostile)
    cypher_server.clean(database)


def test_a_hub_of_30000_neighbors_is_read_up_to_the_limit(cypher_server, sent, monkeypatch):
    size = 30_001
    database = cypher_server.open(schema=GraphSchema(label="Hub"), timeout=300)
    database.write(
        "UNWIND range(0, 30000) AS i CREATE (:Hub {id: 'n' + i, position: i, degree: CASE i WHEN 0 THEN 30000 ELSE 1 END, "
        "description: 'text ' + i})"
    )
    database.write(
        "MATCH (h:Hub {id: 'n0'}) MATCH (m:Hub) WHERE m.position > 0 CREATE (h)-[:RELATES_TO {position: m.position}]->(m)"
    )
    draw = np.random.default_rng(0).normal(size=(size, 4)).astype(np.float32)
    draw /= np.linalg.norm(draw, axis=1, keepdims=True)
    ids = [f"n{i}" for i in range(size)]
    vectors, question = MemoryVectors(ids, draw), draw[0]
    local = GraphIndex.from_texts([f"text {i}" for i in range(size)], ids=ids, vectors=draw, metric="cosine", bm25=False,
                                  edges=[("n0", name) for name in ids[1:]])  # fmt: skip
    found = Retriever(RemoteIndex(CypherGraphStore(database), vectors=vectors), FastInsight(budget=30)).retrieve(
        "?", vector=question
    )
    assert_same([found], [Retriever(local, FastInsight(budget=30)).retrieve("?", vector=question)])
    assert round_trips(found)[0] <= 6
    rows, read = [], CypherGraphStore._read

    def counted(store, text, **parameters):
        found = read(store, text, **parameters)
        rows.append(len(found))
        return found

    monkeypatch.setattr(CypherGraphStore, "_read", counted)
    bounded = RemoteIndex(CypherGraphStore(database), vectors=vectors, max_nodes=5000)
    with pytest.raises(DatabaseError, match="max_nodes=5000"):
        Retriever(bounded, FastInsight(budget=30)).retrieve("?", vector=question)
    assert max(rows) <= 5001 + 200
    cypher_server.clean(database)


def test_a_server_that_is_gone_or_silent_ends_in_an_error(engines, cypher_server, proxy):
    _, index, database, vectors = engines
    mute = Mute(cypher_server.uri)
    for way in (proxy, mute):
        other = cypher_server.open(uri=way.uri, timeout=3.0, schema=database.schema)
        retriever = Retriever(RemoteIndex(CypherGraphStore(other), vectors=vectors), FastInsight())
        assert len(retriever.retrieve("?", vector=np.ones(6))) == 10
        (way.cut if way is proxy else mute.muted.set)()
        begin = time.monotonic()
        with pytest.raises(DatabaseUnreachableError):
            retriever.retrieve("?", vector=np.ones(6))
        assert time.monotonic() - begin < SOON
        other.close()
    mute.cut()


def test_a_vector_store_that_fails_or_is_silent_ends_in_an_error(engines, monkeypatch):
    retriever = remote(engines, FastInsight, {}, timeout=0.5)
    client, halt = type(retriever.index.vectors.store.client), threading.Event()
    monkeypatch.setattr(client, "query_batch_points", lambda *_, **__: halt.wait(60))
    begin = time.monotonic()
    with pytest.raises(DatabaseUnreachableError, match="did not answer within 0.5 seconds"):
        retriever.retrieve("?", vector=np.ones(6))
    halt.set()
    assert time.monotonic() - begin < SOON
    monkeypatch.setattr(client, "query_batch_points", lambda *_, **__: 1 / 0)
    with pytest.raises(DatabaseError, match="The vector store failed .ZeroDivisionError"):
        retriever.retrieve("?", vector=np.ones(6))


def test_a_graph_that_was_changed_or_written_by_others_is_refused(cypher_server):
    corpus = random_corpus(1, 20, 30)
    index, database = index_of(corpus, bm25=False), cypher_server.open()
    write_graph(database, index)
    store, vectors, label = CypherGraphStore(database), MemoryVectors(index.graph.ids, corpus[2]), database.schema.label
    retriever = Retriever(RemoteIndex(store, vectors=vectors), FastInsight())
    retriever.retrieve("?", vector=np.ones(6))
    database.write(f"MATCH (a:{label})-[e]-(b:{label}) WHERE a.position = 0 DELETE e")
    with pytest.raises(DatabaseError, match="has 0 neighbours, and its property says"):
        retriever.retrieve("?", vector=np.ones(6))
    database.write(f"MATCH (a:{label}) SET a.degree = NULL")
    with pytest.raises(DatabaseError, match="no position or no degree; write the graph with write_graph"):
        RemoteIndex(store, vectors=vectors)
    cypher_server.clean(database)
    with pytest.raises(InvalidArgumentError, match="no relationship type"):
        CypherGraphStore(cypher_server.open(schema=GraphSchema(relationship=None)))


async def test_a_call_that_is_cancelled_or_out_of_time_asks_no_engine_again(engines, sent):
    class Slow(CountingRelevance):
        begun, go, pause = threading.Event(), threading.Event(), 0.0

        def __call__(self, pairs):
            self.begun.set()
            assert self.go.wait(60)
            time.sleep(self.pause)
            return super().__call__(pairs)

    model, given = Slow(), {"budget": 30, "nodes_per_round": 5}
    retriever = remote(engines, GAR, given, relevance=model)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    task = asyncio.create_task(GraphRetriever(retriever=retriever).ainvoke(QUESTIONS[0], vector=np.ones(6)))
    while not model.begun.is_set():
        await asyncio.sleep(0.005)
    made = len(sent)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    model.go.set()
    # The only thread is free once the search has ended.
    await asyncio.to_thread(int)
    assert len(sent) == made < 7
    sent.clear()
    model.pause = 0.5
    late = remote(engines, GAR, {**given, "time_limit": 0.4}, relevance=model)
    with pytest.raises(TimeLimitError, match=r"its time_limit is 0.4: step \d was reached") as caught:
        late.retrieve(QUESTIONS[0], vector=np.ones(6))
    assert len(sent) < 7 and caught.value.trace


async def test_the_frameworks_wrap_it_as_any_retriever(engines):
    corpus, index, database, _ = engines
    held = SimpleVectorStore()
    held.add([TextNode(id_=name, embedding=row.tolist()) for name, row in zip(index.graph.ids, corpus[2], strict=True)])
    for vectors in (engines[3], LlamaIndexVectors(held)):
        made = RemoteIndex(CypherGraphStore(database), vectors=vectors, embedding=Hashed(), relevance=CountingRelevance())
        retriever = Retriever(made, FastInsight(budget=20, nodes_per_round=5))
        with_model = index.with_models(embedding=Hashed())
        expected = [hit.id for hit in Retriever(with_model, FastInsight(budget=20, nodes_per_round=5)).retrieve(QUESTIONS[0])]
        documents = GraphRetriever(retriever=retriever, provenance=True).invoke(QUESTIONS[0])
        assert [document.id for document in documents] == expected
        assert documents[0].metadata["notes"][-1].startswith("round trips")
        assert [document.id for document in await GraphRetriever(retriever=retriever).ainvoke(QUESTIONS[0])] == expected
        nodes = LlamaGraphRetriever(retriever, embed_model=Hashed()).retrieve(QUESTIONS[0])
        assert [node.node.node_id for node in nodes] == expected
