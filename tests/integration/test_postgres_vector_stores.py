"""Vector stores of LangChain and LlamaIndex in PostgreSQL, read by SQL: what they hold, and what is refused."""

import datetime

import numpy as np
import pytest
from langchain_core.documents import Document
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from graph_retrievers import GraphIndex
from graph_retrievers.errors import (
    DatabaseError,
    DimensionMismatchError,
    DuplicateNodeError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
)
from langchain_graph_retrievers import GraphRetriever
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from tests.helpers import HashEmbedding
from tests.integration.langchain_models import LangChainHashEmbeddings
from tests.integration.llama_corpus import HashEmbed
from tests.postgres_stores import (
    HOSTILE,
    STORES,
    Stored,
    found_ids,
    free_name,
    llama_store,
    pgvector,
    pgvectorstore,
    run,
    with_driver,
)

DOCUMENTS = [
    Document("Ada wrote a program.", id="ada", metadata={"runs on": ["engine"], "year": 1843}),
    Document("An engine of brass.", id="engine", metadata={"year": 1837}),
    Document("A punched card.", id="card", metadata={}),
]
EDGES = [("runs on", "$id")]
UUIDS = ["6f9619ff-8b86-d011-b42d-00cf4fc964ff", "00000000-0000-4000-8000-000000000000"]


def vectors_of(index, names):
    return index.dense.vectors[[index.graph.row(name) for name in names]].numpy()


@pytest.fixture(params=STORES)
def stored(request, postgres_server):
    # Ids are keys of all collections together.
    found = Stored(request.param, postgres_server.url, DOCUMENTS)
    yield found
    for document in DOCUMENTS:
        found.delete(document.id)


def test_texts_metadata_vectors_and_edges_are_those_of_the_store(stored):
    asked = stored.embeddings._hash.document_calls
    retriever = stored.retriever(edges=EDGES, system="ppr", k=2)
    assert stored.embeddings._hash.document_calls == asked and not stored.model.texts
    graph = retriever.index.graph
    assert {name: (graph.node(graph.row(name)).text) for name in graph.ids} == {d.id: d.page_content for d in DOCUMENTS}
    found = {name: dict(graph.node(graph.row(name)).metadata) for name in graph.ids}
    own = {d.id: d.metadata for d in DOCUMENTS}
    assert {name: {key: held[key] for key in own[name]} for name, held in found.items()} == own
    names = [d.id for d in DOCUMENTS]
    expected = HashEmbedding().embed_documents([d.page_content for d in DOCUMENTS])
    np.testing.assert_allclose(vectors_of(retriever.index, names), expected, atol=1e-6)
    assert [(edge.source, edge.target) for edge in graph.edges()] == [("ada", "engine")]
    assert found_ids(retriever, "Ada wrote a program.") == ["ada", "engine"]


def test_answers_are_those_of_an_index_of_the_same_documents(stored):
    retriever = stored.retriever(edges=EDGES, k=3)
    built = GraphIndex.from_documents(sorted(DOCUMENTS, key=lambda d: d.id), edges=EDGES, embedding=HashEmbedding())
    # A table of LlamaIndex has the order in which nodes were added.
    assert set(retriever.index.graph.ids) == set(built.graph.ids)
    question = "Which engine is of brass?"
    assert found_ids(retriever, question) == [h.id for h in type(retriever.engine)(built).retrieve(question, 3)]


def test_an_empty_store_a_row_without_a_vector_and_one_without_a_text_are_refused(stored):
    for column in (stored.vector, stored.text):
        run(stored.url, f"ALTER TABLE {stored.table} ALTER COLUMN {column} DROP NOT NULL")
    stored.set("vector", None, "card")
    with pytest.raises(InvalidVectorError, match="Document 'card' of the PGVector.* has no vector"):
        stored.retriever()
    stored.delete("card")
    stored.set("text", None, "engine")
    with pytest.raises(InvalidArgumentError, match="Document 'engine' of the PGVector.* has no text"):
        stored.retriever()
    for document in DOCUMENTS:
        stored.delete(document.id)
    with pytest.raises(EmptyGraphError, match=r"The PGVector.* is empty.*; add documents, or correct its name"):
        stored.retriever()


def test_metadata_that_are_no_mapping_are_refused_and_none_are_empty(stored):
    stored.set("metadata", None, "card")
    assert dict(stored.index().graph.node(stored.index().graph.row("card")).metadata) == {}
    run(stored.url, f"UPDATE {stored.table} SET {stored.metadata} = '[1]' WHERE {stored.id} = 'card'")
    with pytest.raises(InvalidArgumentError, match=r"metadata of document 'card' .* are \[1\]; expected a mapping"):
        stored.retriever()


def test_a_table_that_is_gone_is_an_error_of_the_database(postgres_server):
    for kind in STORES[1:]:
        stored = Stored(kind, postgres_server.url, DOCUMENTS)
        run(stored.url, f"DROP TABLE {stored.table}")
        with pytest.raises(DatabaseError, match="cannot be read .* does not exist"):
            stored.retriever()


def test_a_database_that_is_not_reached_is_an_error_of_the_database(postgres_server):
    store = llama_store("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(DatabaseError, match="cannot be read .*refused") as told:
        LlamaGraphRetriever.from_defaults(VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed()))
    assert "secret" not in str(told.value)


def test_collections_in_the_same_table_do_not_mix(postgres_server):
    one = pgvector(postgres_server.url, Document("A loom.", id=f"{HOSTILE}1", metadata={HOSTILE: HOSTILE}), collection=HOSTILE)
    other = pgvector(postgres_server.url, Document("A card.", id=f"{HOSTILE}2"))
    assert GraphRetriever.from_vectorstore(one).index.graph.ids == [f"{HOSTILE}1"]
    assert GraphRetriever.from_vectorstore(other).index.graph.ids == [f"{HOSTILE}2"]
    (document,) = GraphRetriever.from_vectorstore(one).invoke("A loom.")
    assert document.metadata == {HOSTILE: HOSTILE} and document.page_content == "A loom."


def test_an_empty_collection_is_named_and_those_that_have_documents(postgres_server):
    pgvector(postgres_server.url, Document("A loom."), collection="a handbook")
    with pytest.raises(
        EmptyGraphError, match="The PGVector collection 'handbok' is empty, and the table has .*'a handbook'"
    ) as told:
        GraphRetriever.from_vectorstore(pgvector(postgres_server.url, collection="handbok"))
    assert str(told.value).count("handbok") == 1


def test_vectors_of_several_widths_in_one_collection_are_refused(postgres_server):
    store = pgvector(postgres_server.url)
    store.add_embeddings(["A loom.", "A card."], [[1.0, 0.0], [1.0, 0.0, 0.0]], ids=["w1", "w2"])
    with pytest.raises(DimensionMismatchError, match="'w2' of the store has a vector of 3 dimensions, the first one has 2"):
        GraphRetriever.from_vectorstore(store)


@pytest.mark.parametrize(
    ("strategy", "vectors", "metric"),
    [
        ("cosine", [[3.0, 4.0], [1.0, 0.0]], "cosine"),
        ("inner", [[3.0, 4.0], [1.0, 0.0]], "dot"),
        ("l2", [[0.6, 0.8], [1.0, 0.0]], "cosine"),
        ("l2", [[3.0, 4.0], [1.0, 0.0]], None),
    ],
)
def test_the_distance_strategy_of_a_store_is_the_metric_of_the_index(postgres_server, strategy, vectors, metric):
    from_langchain = pytest.importorskip("langchain_postgres.v2.indexes", reason="langchain-postgres is not installed")
    names = {"cosine": "COSINE_DISTANCE", "inner": "INNER_PRODUCT", "l2": "EUCLIDEAN"}
    one = pgvector(postgres_server.url, distance_strategy=strategy)
    other = pgvectorstore(postgres_server.url, distance_strategy=from_langchain.DistanceStrategy[names[strategy]])
    for store in (one, other):
        wide = [vector + [0.0] * 62 for vector in vectors]
        ids = [free_name(), free_name()]
        store.add_embeddings(["A loom.", "A card."], wide, ids=ids)
        if metric is None:
            with pytest.raises(InvalidArgumentError, match="of different lengths .* by Euclidean distance"):
                GraphRetriever.from_vectorstore(store)
        else:
            assert GraphRetriever.from_vectorstore(store).index.dense.metric == metric


def test_a_store_that_can_only_be_awaited_is_refused(postgres_server):
    pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")
    from langchain_postgres import PGEngine, PGVector
    from sqlalchemy.ext.asyncio import create_async_engine

    url = with_driver(postgres_server.url, "psycopg")
    awaited = PGVector(LangChainHashEmbeddings(), connection=url, collection_name="a", async_mode=True)
    engine = PGEngine.from_engine(create_async_engine(with_driver(postgres_server.url, "asyncpg")))
    store = pgvectorstore(postgres_server.url)
    inner = store._PGVectorStore__vs
    store._engine = engine
    for one in (awaited, store, inner):
        with pytest.raises(InvalidArgumentError, match="can only be awaited.*create_sync"):
            GraphRetriever.from_vectorstore(one)


def test_columns_of_metadata_are_read_whatever_their_type(postgres_server):
    pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")
    columns = [('Day\'s "%"', "DATE"), ("pages", "INTEGER[]"), ("price", "NUMERIC"), ("who:", "TEXT")]
    name = free_name()
    # The store itself escapes no name when it writes.
    made = ", ".join(f'"{column.replace(chr(34), 2 * chr(34))}" {kind}' for column, kind in columns)
    table = f'My "Docs" {HOSTILE} {name}'.replace("é", "e")[:60]
    quoted = '"' + table.replace('"', '""') + '"'
    own = "langchain_id UUID PRIMARY KEY, content TEXT, embedding vector(64)"
    run(postgres_server.url, f"CREATE TABLE public.{quoted} ({own}, {made})")
    from langchain_postgres import PGEngine, PGVectorStore

    engine = PGEngine.from_connection_string(with_driver(postgres_server.url, "asyncpg"))
    store = PGVectorStore.create_sync(engine, LangChainHashEmbeddings(), table, metadata_columns=[column for column, _ in columns])
    values = "(%s, 'A loom.', %s, '2024-02-29', '{1,2}', 1.5, NULL)"
    vector = str(HashEmbedding().embed_query("A loom."))
    run(postgres_server.url, f"INSERT INTO public.{quoted.replace('%', '%%')} VALUES {values}", UUIDS[0], vector)
    retriever = GraphRetriever.from_vectorstore(store)
    (document,) = retriever.invoke("A loom.", filter={'Day\'s "%"': {"$gt": datetime.date(2024, 2, 28)}})
    assert document.id == UUIDS[0]
    assert document.metadata == {'Day\'s "%"': "2024-02-29", "pages": [1, 2], "price": 1.5, "who:": None}
    assert not retriever.invoke("A loom.", filter={'Day\'s "%"': {"$lt": datetime.date(2024, 2, 28)}})


def test_nodes_of_llamaindex_are_those_that_were_added(postgres_server):
    parent = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book"), NodeRelationship.NEXT: RelatedNodeInfo(node_id="card")}
    loom = TextNode(
        id_="loom",
        text=f"A loom. {HOSTILE}",
        metadata={HOSTILE: HOSTILE},
        excluded_embed_metadata_keys=[HOSTILE],
        relationships=parent,
        embedding=HashEmbedding().embed_query("A loom."),
    )
    card = TextNode(id_="card", text="A card.", embedding=HashEmbedding().embed_query("A card."))
    for options in ({}, {"use_jsonb": True}, {"use_halfvec": True}, {"hybrid_search": True}, {"schema_name": "x 'y'"}):
        if "schema_name" in options:
            run(postgres_server.url, "CREATE SCHEMA \"x 'y'\"")
            options["perform_setup"] = False
        store = llama_store(postgres_server.url, **options)
        if "schema_name" in options:
            store._connect()
            store._create_tables_if_not_exists()
        store.add([loom, card])
        model = HashEmbed()
        theirs = VectorStoreIndex.from_vector_store(store, embed_model=model)
        retriever = LlamaGraphRetriever.from_defaults(theirs, system="ppr")
        found = {scored.node.node_id: scored.node for scored in retriever.retrieve("A loom.")}
        assert found["loom"].model_dump(exclude={"embedding"}) == loom.model_dump(exclude={"embedding"})
        np.testing.assert_allclose(found["loom"].embedding, loom.embedding, atol=1e-3)
        assert found["loom"].model_dump_json() and not model.texts
        # Its own relationships are its edges.
        assert [(edge.source, edge.target) for edge in retriever.index.graph.edges()] == [("loom", "card")]


def test_rows_that_others_wrote_into_a_table_of_llamaindex_are_read(postgres_server):
    store = llama_store(postgres_server.url, TextNode(id_="a", text="A loom.", embedding=HashEmbedding().embed_query("A loom.")))
    table = f"data_{store.table_name}"
    vector = str(HashEmbedding().embed_query("A card."))
    # A NUL has an escape in JSON, which the type json keeps; an index of the store would not take it.
    run(postgres_server.url, f"DROP INDEX {store.table_name}_idx_1")
    insert = f"INSERT INTO {table} (text, metadata_, node_id, embedding) VALUES ('A card.', %s, %s, %s)"
    run(postgres_server.url, insert, '{"a\\u0000": "b\\u0000"}', "b", vector)
    graph = LlamaGraphRetriever.from_defaults(VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed())).index.graph
    assert graph.ids == ["a", "b"] and dict(graph.node(1).metadata) == {"a\x00": "b\x00"}
    run(postgres_server.url, insert, None, "b", vector)
    with pytest.raises(DuplicateNodeError, match="'b'"):
        LlamaGraphRetriever.from_defaults(VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed()))
    run(postgres_server.url, f"DELETE FROM {table} WHERE node_id = 'b'")
    run(postgres_server.url, insert, None, None, vector)
    with pytest.raises(InvalidArgumentError, match="A row of the PGVectorStore .* has no node_id"):
        LlamaGraphRetriever.from_defaults(VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed()))
