"""A scope through the frameworks and in a database: what it gives in memory."""

import asyncio

import pytest
import torch
from langchain_core.documents import Document
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

import langchain_graph_retrievers as langchain
import llama_graph_retrievers as llama
from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from graph_retrievers.stores.cypher.database import PLAIN_COSINE
from graph_retrievers.systems import PPR, SpreadingActivation
from tests.helpers import HashEmbedding
from tests.integration.test_cypher import RandomEmbedding, assert_same, vector_index
from tests.integration.test_cypher_filters import filtered_index
from tests.retrievers import on
from tests.tenants import everything, foreign, world

SIZES = [14] * 4
QUESTIONS = ["Which Loom Card and gear?", "what loom?", "Who made the Engine Brass Gear of Wheel?"]
MINE = {"tenant": "T0x"}


@pytest.fixture(scope="module")
def index():
    return world(SIZES, 1)


class Remote:
    """A retriever of one's own, which knows nothing of scopes."""

    name, k, inputs = "remote", 5, ()

    def retrieve(self, query, k=None, *, vector=None, filter=None, seed_filter=None, traversal_filter=None):
        return Hits()

    def retrieve_batch(self, queries, k=None, *, vectors=None, filter=None, seed_filter=None, traversal_filter=None):
        return [Hits() for _ in queries]


def test_langchain_retrievers_take_a_scope_as_a_field_or_with_a_call(index):
    expected = [[(hit.id, hit.score) for hit in Retriever(index, PPR()).retrieve(text, 5, scope=MINE)] for text in QUESTIONS]
    free = langchain.GraphRetriever(index=index, system="ppr", k=5, provenance=True)
    held = langchain.GraphRetriever(index=index, system="ppr", k=5, scope=MINE, provenance=True)

    def scored(documents):
        return [(document.id, document.metadata["score"]) for document in documents]

    assert [scored(free.invoke(text, scope=MINE)) for text in QUESTIONS] == expected
    assert [scored(held.invoke(text)) for text in QUESTIONS] == expected
    assert [scored(asyncio.run(held.ainvoke(text))) for text in QUESTIONS] == expected
    assert [[d.id for d in found] for found in held.batch(QUESTIONS)] == [[name for name, _ in row] for row in expected]
    assert any("T0x" not in document.id for document in free.invoke(QUESTIONS[0]))
    with pytest.raises(InvalidArgumentError, match="has a scope of its own"):
        held.invoke(QUESTIONS[0], scope={"tenant": "T1x"})
    with pytest.raises(InvalidArgumentError, match="has a scope of its own"):
        held.invoke(QUESTIONS[0], scope={})
    wrapped = langchain.GraphRetriever(retriever=Retriever(index, PPR()), k=5, scope=MINE, provenance=True)
    assert [scored(wrapped.invoke(text)) for text in QUESTIONS] == expected
    assert langchain.GraphRetriever(retriever=Remote()).invoke("loom") == []
    built = langchain.GraphRetriever.from_documents(
        [Document("a loom", id="a", metadata=MINE), Document("loom", id="b")], system="bm25", scope=MINE, k=2
    )
    assert [document.id for document in built.invoke("loom")] == ["a"]


def test_llama_index_retrievers_take_a_scope(index):
    expected = [[(hit.id, hit.score) for hit in Retriever(index, PPR()).retrieve(text, 5, scope=MINE)] for text in QUESTIONS]
    asked = MetadataFilters(filters=[MetadataFilter(key="tenant", value="T0x")])
    for scope in (MINE, asked, lambda node: node.metadata["tenant"] == "T0x"):
        retriever = llama.GraphRetriever(index, PPR(), similarity_top_k=5, scope=scope)
        assert [[(hit.node.node_id, hit.score) for hit in retriever.retrieve(text)] for text in QUESTIONS] == expected
        assert [[hit.node.node_id for hit in found] for found in retriever.retrieve_batch(QUESTIONS)] == [
            [name for name, _ in row] for row in expected
        ]
    narrowed = llama.GraphRetriever(index, PPR(), similarity_top_k=5, scope=MINE, filters={"$type": "thing"}).retrieve(QUESTIONS[0])
    assert narrowed and all(index.graph.node(index.graph.row(hit.node.node_id)).type == "thing" for hit in narrowed)
    assert llama.GraphRetriever(Remote()).retrieve("loom") == []


def test_whether_llama_index_vectors_are_unit_vectors_is_asked_of_the_scope():
    nodes = [TextNode(id_=name, text=name, metadata={"tenant": name}) for name in "ab"]
    for long in (1.0, 3.0):
        index = GraphIndex.from_documents(
            nodes, vectors=[[0.6, 0.8], [0.0, long]], embedding=lambda texts: [[3.0, 4.0]] * len(texts)
        )
        retriever = llama.GraphRetriever(index, "vector", scope={"tenant": "a"})
        assert [hit.score for hit in retriever.retrieve("x")] == [pytest.approx(1.0)]


def test_a_scope_in_a_database_is_that_in_memory(database):
    small = world([10] * 3, 1)
    write_graph(database, small)
    # Those of the server may differ from one time to another.
    database.cosine = PLAIN_COSINE
    for options in ({}, {"gate": "uniform", "chains": "hits"}, {"chains": "path", "steps": 2}):
        shared = {"k": 8, "threshold": 0.01, **options}
        inside = CypherSpreadingActivation(database, embedding=HashEmbedding(16), **shared)
        engine = on(small, SpreadingActivation, hub_exponent=0.0, backfill=False, **shared)
        for number, text in enumerate(QUESTIONS):
            for entities in (None, ["Loom", "nobody"]):
                mine = {"tenant": f"T{number % 3}x"}
                there = inside.retrieve(text, scope=mine, entities=entities)
                here = engine.retrieve(text, scope=mine, entities=entities)
                assert_same(there, here)
                assert foreign(there, mine["tenant"]) == [] and there.notes == here.notes
    scopes = [{"tenant": f"T{number}x"} for number in range(3)]
    batch = inside.retrieve_batch(QUESTIONS, scope=scopes)
    assert batch == [inside.retrieve(text, scope=scope) for text, scope in zip(QUESTIONS, scopes, strict=True)]
    assert asyncio.run(inside.aretrieve_batch(QUESTIONS, scope=scopes)) == batch
    assert len({everything(hits) for hits in batch}) == 3
    assert list(inside.retrieve("Loom?", scope={"tenant": "nobody"})) == []
    with pytest.raises(InvalidArgumentError, match="scope is a callable"):
        inside.retrieve("Loom?", scope=lambda node: True)
    inside = CypherSpreadingActivation(database, gate="uniform")
    engine = Retriever(small, SpreadingActivation(gate="uniform", hub_exponent=0.0), backfill=False)
    named = small.graph.titles[small.graph.row("idT0x-0")]
    given = {"scope": MINE, "entities": [named], "filter": {"$type": "thing"}, "seed_filter": {}}
    narrowed = inside.retrieve(QUESTIONS[0], **given)
    assert len(narrowed) and {hit.type for hit in narrowed} == {"thing"} and foreign(narrowed, "T0x") == []
    assert_same(narrowed, engine.retrieve(QUESTIONS[0], **given))


def test_names_of_others_take_no_words_and_say_nothing_about_capitals(database):
    nodes = [Node("a", "A machine.", "Loom", "", {"tenant": "a"}), Node("b", "A book.", "Loom of brass", "", {"tenant": "b"})]
    nodes += [Node(f"b{n}", "", f"lower {n}", "", {"tenant": "b"}) for n in range(9)]
    nodes += [Node("a2", "A lower-case word.", "card", "", {"tenant": "a"}), Node("a3", "A person.", "Ada", "", {"tenant": "a"})]
    index = GraphIndex.from_nodes(nodes, [], embedding=HashEmbedding(16))
    write_graph(database, index)
    for retriever in (
        CypherSpreadingActivation(database, gate="uniform"),
        Retriever(index, SpreadingActivation(gate="uniform"), backfill=False),
    ):
        # The longer name is not there, and most names of the scope have a capital, so that "card" is not meant as one.
        assert [hit.id for hit in retriever.retrieve("A Loom of brass and a card?", scope={"tenant": "a"}).nodes] == ["a"]
        assert [hit.id for hit in retriever.retrieve("A Loom of brass and a card?").nodes] == ["b", "a2"]


def test_a_vector_index_is_not_asked_about_a_scope(cypher_server, database):
    index = filtered_index(300, 7)
    write_graph(database, index)
    name = vector_index(cypher_server, database)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), vector_index=name)
    # Nodes behind the 50 that the index would be asked for, and still of positive cosines.
    vector = index.dense.prepared(torch.tensor([RandomEmbedding().embed_query("Who?")], dtype=torch.float32))
    near = index.dense.table(vector)[0].argsort(descending=True)[100:106]
    scope = {"$id": {"$in": [index.graph.ids[row] for row in near.tolist()]}}
    there = inside.retrieve("Who?", scope=scope)
    assert there[0].operator == "VectorSearch"
    assert_same(there, Retriever(index, SpreadingActivation(hub_exponent=0.0), backfill=False).retrieve("Who?", scope=scope))
    if cypher_server.process is None:
        database.write(f"DROP INDEX `{name}` IF EXISTS")
