"""Indexes whose vectors stay in the tables of vector stores: answers, changes, and what is refused."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from langchain_core.documents import Document

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import DatabaseAuthError, DatabaseError, InvalidArgumentError, MissingSignalError
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresGraph,
    PostgresVectors,
    PostgresWords,
    VectorTable,
    create_vector_index,
    open_index,
    read_index,
    update_index,
    write_index,
)
from langchain_graph_retrievers import GraphRetriever
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from tests.helpers import HashEmbedding, linked_nodes
from tests.postgres import drop
from tests.postgres_stores import HOSTILE, STORES, Stored, found_ids, free_name, pgvector, run
from tests.remote import assert_same
from tests.store_checks import check_stores

EDGES = [("links", "$id")]
QUESTIONS = [
    "Who designed the Analytical Engine?",
    "Which loom reads punched cards?",
    "Bletchley codebreakers",
    "nothing of the kind",
]


def documents():
    """The linked corpus as documents."""
    return [Document(n.text, id=n.id, metadata={**n.metadata, "title": n.title}) for n in linked_nodes()]


@pytest.fixture(params=STORES)
def stored(request, postgres_server):
    found = Stored(request.param, postgres_server.url, documents())
    yield found
    run(found.url, f"DELETE FROM {found.table}")


@pytest.fixture
def database(postgres_server):
    found = postgres_server.open()
    yield found
    drop(found)


def written(stored, database, name="works", **options):
    """Read a store, and write its index, so that the vectors stay."""
    index = stored.index(edges=EDGES)
    return index, write_index(index, database, name, vectors=stored.store, **options)


def kept_vectors(database):
    """How many vectors are in our own table."""
    return database.read(("SELECT count(*) FROM {vectors}", {}))[0][0][0]


def identifier(name):
    return '"' + name.replace('"', '""') + '"'


def own_table(url, nodes, vectors, kind="vector", key="text", name=None, schema="public", extra=()):
    """A table of a user, with columns `"key"` and `"the vector"`."""
    name = name or free_name()
    quoted = f"{identifier(schema)}.{identifier(name)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f'CREATE TABLE {quoted} ("key" {key} PRIMARY KEY, "the vector" {kind}, tenant text)')
        insert = f"INSERT INTO {quoted.replace('%', '%%')} VALUES (%s, %s, %s)"
        rows = [(node, str(np.asarray(vector).tolist()), "a") for node, vector in zip(nodes, vectors, strict=True)]
        for row in [*rows, *extra]:
            connection.execute(insert, row)
    return VectorTable(name, schema, "key", "the vector", {"tenant": "a"})


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def numbered(count, width=8, seed=0, ids=None):
    """An index with random vectors."""
    vectors = unit(np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32))
    nodes = [Node(f"n{place}" if ids is None else ids[place], f"Text {place}.") for place in range(count)]
    return GraphIndex.from_nodes(nodes, [], vectors=vectors), vectors


def test_answers_are_those_in_memory_and_no_vector_is_copied(stored, database):
    index, changes = written(stored, database)
    assert changes.nodes == Changes(12, 0, 0) and changes.edges.written == index.graph.num_edges
    assert kept_vectors(database) == 0
    remote = open_index(database, "works", embedding=HashEmbedding())
    for system in (None, "vector", "walk-fusion", "fastinsight"):
        here, there = Retriever(index, system, k=4), Retriever(remote, system, k=4)
        for question in QUESTIONS:
            assert_same([there.retrieve(question)], [here.retrieve(question)])
        scope = {"year": {"$lt": 1850}}
        assert_same([there.retrieve(QUESTIONS[0], scope=scope)], [here.retrieve(QUESTIONS[0], scope=scope)])
    read = read_index(database, "works", embedding=HashEmbedding())
    assert read.graph.contents() == index.graph.contents() and read.graph.metadata == index.graph.metadata
    np.testing.assert_allclose(read.dense.vectors, index.dense.vectors, atol=1e-6)


def test_both_frameworks_answer_with_the_documents_of_the_store(stored, database):
    index, _ = written(stored, database)
    remote = Retriever(open_index(database, "works", embedding=HashEmbedding()), k=3)
    theirs = LlamaGraphRetriever if stored.kind.startswith("Llama") else GraphRetriever
    there = theirs(remote) if theirs is LlamaGraphRetriever else theirs(retriever=remote)
    here = stored.retriever(edges=EDGES, k=3)
    question = "Who designed the Analytical Engine?"
    assert found_ids(there, question) == found_ids(here, question) and len(found_ids(here, question)) == 3
    if theirs is GraphRetriever:
        assert there.invoke(question) == here.invoke(question)
    else:
        texts = [[(scored.node.text, scored.node.metadata) for scored in one.retrieve(question)] for one in (here, there)]
        assert texts[0] == texts[1]


def test_a_store_meets_the_contract_of_vector_stores(stored, database):
    index, _ = written(stored, database)
    corpus = PostgresCorpus(database, "works")
    vectors = PostgresVectors(corpus)
    index = index.with_models(embedding=HashEmbedding())
    check_stores(index, PostgresGraph(corpus), vectors, QUESTIONS, words=PostgresWords(corpus))
    assert set(vectors.vectors(["ada", "nobody", "", "\ud800", HOSTILE])) == {"ada"}


def test_a_second_write_writes_what_the_store_changed(stored, database):
    index, _ = written(stored, database)
    retriever = Retriever(open_index(database, "works", embedding=HashEmbedding()), "walk-fusion", k=3)
    assert sum(written(stored, database)[1].nodes) == 0
    # A row without a node is not found, and takes no place of one that is.
    new = "A telegraph sends signals by wire."
    before = [hit.id for hit in retriever.retrieve(new)]
    stored.add("wire", new)
    assert [hit.id for hit in retriever.retrieve(new)] == before and len(before) == 3
    stored.delete("loom")
    stored.set("text", "A company of machines for offices.", "ibm")
    changes = written(stored, database)[1]
    assert changes.nodes.written == 2 and changes.nodes.deleted == 1
    # What was opened before goes on with the new state.
    assert retriever.retrieve(new)[0].id == "wire"
    index, _ = written(stored, database)
    for asked in (*QUESTIONS, new, "offices"):
        assert_same([retriever.retrieve(asked)], [Retriever(index, "walk-fusion", k=3).retrieve(asked)])


def test_eight_readers_beside_changes_of_the_store_see_one_of_its_states_or_are_told(stored, database):
    written(stored, database)
    new, ended, found = "A telegraph sends signals by wire.", threading.Event(), Counter()
    remote = Retriever(open_index(database, "works", embedding=HashEmbedding()), "walk-fusion", k=3)

    def answer():
        return tuple(hit.id for hit in remote.retrieve(new))

    def ask():
        while not ended.is_set():
            try:
                found[answer()] += 1
            except DatabaseError as error:
                assert "Node 'wire' has no row with a vector in the table" in str(error)
                found["told"] += 1

    states = {answer()}
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        for _ in range(3):
            stored.add("wire", new)
            time.sleep(0.2)
            written(stored, database)
            states.add(answer())
            time.sleep(0.2)
            stored.delete("wire")
            time.sleep(0.2)
            written(stored, database)
        ended.set()
        for each in asked:
            each.result()
    assert len(states) == 2 and states | {"told"} >= found.keys() and found["told"] and found.total() > 50


def test_a_row_that_was_deleted_is_not_found_by_its_vector_and_told_where_its_node_is_compared(stored, database):
    written(stored, database)
    vectors = PostgresVectors(PostgresCorpus(database, "works"))
    asked = np.array([HashEmbedding().embed_query(documents()[0].page_content)])
    assert vectors.search(asked, 1) == [["ada"]]
    stored.delete("ada")
    # What was opened then is opened again.
    open_index(database, "works")
    assert vectors.search(asked, 12)[0].count("ada") == 0 and len(vectors.search(asked, 12)[0]) == 11
    with pytest.raises(DatabaseError, match="Node 'ada' has no row with a vector in the table .* any more.*write its index again"):
        Retriever(open_index(database, "works", embedding=HashEmbedding()), "walk-fusion").retrieve("Ada Lovelace wrote a program")


def test_a_write_during_which_a_row_is_deleted_is_refused_whole(stored, database):
    index = stored.index(edges=EDGES)
    stored.delete("ada")
    with pytest.raises(InvalidArgumentError, match=r"1 of 12 nodes, such as 'ada', have no row with a vector in the table"):
        write_index(index, database, "works", vectors=stored.store)
    with pytest.raises(InvalidArgumentError, match="has no index .works."):
        open_index(database, "works")


def test_documents_are_not_changed_without_the_table(stored, database):
    index, _ = written(stored, database)
    with pytest.raises(InvalidArgumentError, match="has its vectors in a table of yours, which is only read; change the rows"):
        update_index(database, "works", upsert=[Node("new", "A new text.")], embedding=HashEmbedding(16))
    update_index(database, "works", delete=[index.graph.ids[0]])
    assert len(open_index(database, "works")) == len(index) - 1


def test_a_store_of_another_database_is_refused(postgres_server):
    index, vectors = numbered(3)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    run(postgres_server.url, f"CREATE DATABASE {(other := free_name())}")
    url = postgres_server.url.replace("/postgres?", f"/{other}?")
    database = postgres_server.open(url=url)
    with pytest.raises(
        InvalidArgumentError, match=f"/{other}\\S* has no table '{table.name}' in the schema 'public' with the column 'key'"
    ):
        write_index(index, database, "works", vectors=table)
    drop(database)


def test_vectors_move_into_our_tables_and_out_of_them(postgres_server, database):
    index, vectors = numbered(20)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    for given, count in ((None, 20), (table, 0), (None, 20)):
        write_index(index, database, "works", vectors=given)
        assert kept_vectors(database) == count
        found = PostgresVectors(PostgresCorpus(database, "works")).search(vectors[:2], 3)
        best = np.argsort(-(vectors[:2] @ vectors.T), axis=1)[:, :3]
        assert found == [[f"n{place}" for place in row] for row in best]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", ["vector", "vector(8)", "halfvec", "halfvec(8)"])
def test_the_nearest_are_found_with_and_without_an_index_of_the_table(postgres_server, database, kind, exact):
    index, vectors = numbered(300)
    others = [(f"other{place}", "[1,0]" if "(" not in kind else str([1.0] * 8), "b") for place in range(3)]
    # Rows that are not nodes, nearer than all.
    strangers = [(f"stranger{place}", str(vectors[0].tolist()), "a") for place in range(3)]
    table = own_table(postgres_server.url, index.graph.ids, vectors, kind, extra=[*others, *strangers])
    write_index(index, database, "works", vectors=table)
    corpus = PostgresCorpus(database, "works")
    with pytest.raises(InvalidArgumentError, match="which is not changed here. Create the index there: CREATE INDEX ON") as told:
        create_vector_index(corpus)
    run(postgres_server.url, str(told.value).partition("Create the index there: ")[2])
    store = PostgresVectors(corpus, exact=exact)
    found, held = store.search(vectors[:5], 10), store.vectors(index.graph.ids)
    best = np.argsort(-(vectors[:5] @ vectors.T), axis=1, kind="stable")[:, :10]
    expected = [[f"n{place}" for place in row] for row in best]
    if exact and not kind.startswith("half"):
        assert found == expected
    shared = [len(set(one) & set(other)) for one, other in zip(found, expected, strict=True)]
    assert min(shared) >= 9 and all(len(row) == 10 and len(set(row)) == 10 for row in found)
    # With the cosines of the vectors that are there, and not of the distances of an index of half precision.
    for query, row in zip(vectors[:5], store.nearest(vectors[:5], 10), strict=True):
        cosines = {name: query @ held[name] / np.linalg.norm(query) / np.linalg.norm(held[name]) for name, _ in row}
        assert dict(row) == pytest.approx(cosines, abs=1e-6)
    scope = [f"n{place}" for place in range(0, 300, 3)]
    (near,) = PostgresVectors(corpus, exact=exact).within(scope).search(vectors[:1], 5)
    assert set(near) <= set(scope) and len(near) == 5


def test_an_index_of_the_table_is_used_for_the_search(postgres_server, database):
    index, vectors = numbered(2000)
    table = own_table(postgres_server.url, index.graph.ids, vectors, "vector(8)")
    write_index(index, database, "works", vectors=table)
    corpus = PostgresCorpus(database, "works")
    with pytest.raises(InvalidArgumentError) as told:
        create_vector_index(corpus)
    run(postgres_server.url, str(told.value).partition("Create the index there: ")[2])
    run(postgres_server.url, f"ANALYZE {table.name}")
    seen, asked = [], database.read

    def explained(*statements):
        *before, (text, given) = statements
        seen.append(asked(*before, (f"EXPLAIN {text}", given))[-1])
        return asked(*statements)

    for exact, used in ((True, False), (False, True)):
        database.read = explained
        PostgresVectors(corpus, exact=exact).search(vectors[:1], 3)
        del database.read
        plan = "\n".join(line for (line,) in seen[-1])
        assert (f'Index Scan using "{table.name}_the vector_idx"' in plan) is used, plan


@pytest.mark.parametrize("key", ["uuid", "bigint", "varchar", 'text COLLATE "C"', 'text COLLATE "POSIX"'])
def test_ids_may_be_of_any_type_with_a_text(postgres_server, database, key):
    names = {"uuid": [f"00000000-0000-4000-8000-{place:012}" for place in range(5)], "bigint": [str(place) for place in range(5)]}
    index, vectors = numbered(5, ids=names.get(key))
    table = own_table(postgres_server.url, index.graph.ids, vectors, key=key)
    write_index(index, database, "works", vectors=table)
    held = PostgresVectors(PostgresCorpus(database, "works"))
    assert held.search(vectors, 1) == [[name] for name in index.graph.ids]
    found = held.vectors([*index.graph.ids, "nobody"])
    np.testing.assert_allclose(np.stack([found[name] for name in index.graph.ids]), vectors, atol=1e-6)


def test_hostile_names_and_values_are_names_and_values(postgres_server, database):
    kinds = ['My "Docs"', "o'clock; --", "$$%s%%{nodes}\\", "@distance@ @among@ @source@"]
    for place, name in enumerate(kinds):
        index, vectors = numbered(3, ids=[f"{HOSTILE} {name}", "'; DROP TABLE x; --", "%(corpus)s {edges}"])
        schema = f"{name} schema {place}"
        run(postgres_server.url, f"CREATE SCHEMA {identifier(schema)}")
        own_table(postgres_server.url, index.graph.ids, vectors, name=name, schema=schema)
        quoted = f"{identifier(schema)}.{identifier(name)}"
        for old, new in (("key", f"id {name}"), ("the vector", f"vec {name}"), ("tenant", f"who {name}")):
            run(postgres_server.url, f'ALTER TABLE {quoted} RENAME COLUMN "{old}" TO {identifier(new)}')
        run(postgres_server.url, f"UPDATE {quoted} SET {identifier(f'who {name}')} = ".replace("%", "%%") + "%s", HOSTILE)
        table = VectorTable(name, schema, f"id {name}", f"vec {name}", {f"who {name}": HOSTILE})
        write_index(index, database, HOSTILE, vectors=table, replace=True)
        for exact in (True, False):
            held = PostgresVectors(PostgresCorpus(database, HOSTILE), exact=exact)
            assert held.search(vectors, 1) == [[node] for node in index.graph.ids]
            assert held.within(index.graph.ids[1:]).search(vectors[:1], 3)[0] != held.search(vectors[:1], 3)[0]
            assert set(held.vectors(index.graph.ids)) == set(index.graph.ids)
        with pytest.raises(InvalidArgumentError, match="Create the index there") as told:
            create_vector_index(PostgresCorpus(database, HOSTILE))
        run(postgres_server.url, str(told.value).partition("Create the index there: ")[2])


def test_collections_of_one_table_do_not_mix(postgres_server, database):
    text = "A loom reads cards."
    one = pgvector(postgres_server.url, Document(text, id="mix1"), Document("A card.", id="mix2"), collection="one '\"; --")
    other = pgvector(postgres_server.url, Document(text, id="mix3"), collection="other")
    index = GraphRetriever.from_vectorstore(one, edges=[]).index
    write_index(index, database, "one", vectors=one)
    held = PostgresVectors(PostgresCorpus(database, "one"))
    asked = np.array([HashEmbedding().embed_query(text)])
    assert held.search(asked, 5) == [["mix1", "mix2"]]
    with pytest.raises(InvalidArgumentError, match="2 of 2 nodes, such as 'mix1'"):
        write_index(index, database, "one", vectors=other)
    # A document that moved to another collection is in it alone.
    run(
        postgres_server.url,
        "UPDATE langchain_pg_embedding SET collection_id = (SELECT uuid FROM langchain_pg_collection WHERE name = 'other') "
        "WHERE id = 'mix1'",
    )
    assert held.search(asked, 5) == [["mix2"]]
    one.delete_collection()
    with pytest.raises(DatabaseError, match="No node has a row with a vector"):
        Retriever(open_index(database, "one", embedding=HashEmbedding()), "vector").retrieve(text)
    with pytest.raises(InvalidArgumentError, match="no collection of the name of the PGVector collection .* was deleted"):
        write_index(index, database, "one", vectors=one)


def test_a_view_and_a_table_in_the_search_path_of_the_store_are_found(postgres_server, database):
    index, vectors = numbered(3)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    view = free_name()
    run(postgres_server.url, f'CREATE VIEW {view} AS SELECT upper(key) AS id, "the vector" AS embedding FROM {table.name}')
    large = GraphIndex.from_nodes([Node(name.upper(), "Text.") for name in index.graph.ids], [], vectors=vectors)
    write_index(large, database, "view", vectors=VectorTable(view))
    assert PostgresVectors(PostgresCorpus(database, "view")).search(vectors[:1], 1) == [["N0"]]
    schema = f'{free_name()} "of" one'
    run(postgres_server.url, f"CREATE SCHEMA {identifier(schema)}")
    pgvector(postgres_server.url)
    for made in ("langchain_pg_collection", "langchain_pg_embedding"):
        run(postgres_server.url, f"CREATE TABLE {identifier(schema)}.{made} (LIKE public.{made} INCLUDING ALL)")
    run(postgres_server.url, f"CREATE ROLE {(user := free_name())} LOGIN SUPERUSER")
    run(postgres_server.url, f"ALTER ROLE {user} SET search_path = {identifier(schema)}, public")
    store = pgvector(postgres_server.url.replace("postgres:@", f"{user}:@"), Document("A loom.", id="path1"))
    write_index(GraphRetriever.from_vectorstore(store, edges=[]).index, database, "path", vectors=store)
    corpus = PostgresCorpus(database, "path")
    assert corpus.table.schema == schema
    assert set(PostgresVectors(corpus).vectors(["path1"])) == {"path1"}


def test_rows_without_a_vector_or_with_zeros_are_neither_found_nor_compared(postgres_server, database):
    index, vectors = numbered(4)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    write_index(index, database, "works", vectors=table)
    run(postgres_server.url, f'UPDATE {table.name} SET "the vector" = NULL WHERE key = %s', "n0")
    run(postgres_server.url, f'UPDATE {table.name} SET "the vector" = %s WHERE key = %s', str([0.0] * 8), "n1")
    for exact in (True, False):
        held = PostgresVectors(PostgresCorpus(database, "works"), exact=exact)
        assert sorted(held.search(vectors[:1], 4)[0]) == ["n2", "n3"]
        assert set(held.cosines([(vectors[0], ["n1", "n2"])])[0]) == {"n2"}


def test_what_a_table_lacks_is_named(postgres_server, database):
    index, vectors = numbered(3)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    cases = [
        (VectorTable(table.name, "public", "id", "the vector"), "with the column 'id'"),
        (VectorTable(table.name, "public", "key", "embedding"), "with the column 'embedding'"),
        (VectorTable(table.name, "public", "key", "tenant"), "has the type text; expected vector or halfvec"),
        (VectorTable(table.name, "public", "key", "the vector", {"colour": "red"}), "with the column 'colour'"),
        (VectorTable(table.name, "public", "key", "the vector", {"tenant": "b"}), "3 of 3 nodes"),
        (VectorTable("nothing"), "has no table 'nothing' in the schema 'public'"),
        ("chunks", "vectors is 'chunks'; expected a VectorTable"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidArgumentError, match=message):
            write_index(index, database, "works", vectors=given)
    for field, value in (("name", ""), ("schema", "a\x00"), ("id", 3), ("vector", "é" * 40), ("where", ["a"]), ("where", {"a": 1})):
        with pytest.raises(InvalidArgumentError, match=f"{field}|where"):
            VectorTable(**{"name": "a", field: value})
    words = GraphIndex.from_nodes([Node("n0", "Text.")], [])
    with pytest.raises(MissingSignalError, match="no vectors, and vectors= says where they are"):
        write_index(words, database, "works", vectors=table)
    long = GraphIndex.from_nodes([Node("n0", "A."), Node("n1", "B.")], [], vectors=[[3.0, 4.0], [1.0, 0.0]], metric="dot")
    with pytest.raises(InvalidArgumentError, match="by dot products, and engines by cosine"):
        write_index(long, database, "works", vectors=table)


def test_a_table_that_was_dropped_is_named(postgres_server, database):
    index, vectors = numbered(3)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    write_index(index, database, "works", vectors=table)
    store = PostgresVectors(PostgresCorpus(database, "works"))
    run(postgres_server.url, f'DROP TABLE "{table.name}"')
    with pytest.raises(DatabaseError, match=f"refused a statement .*{table.name}.* does not exist"):
        store.search(vectors[:1], 1)


def test_a_user_without_the_rights_is_told(postgres_server, database):
    index, vectors = numbered(3)
    table = own_table(postgres_server.url, index.graph.ids, vectors)
    user = free_name()
    run(postgres_server.url, f"CREATE ROLE {user} LOGIN")
    url = postgres_server.url.replace("postgres:@", f"{user}:@")
    other = postgres_server.open(url=url)
    with pytest.raises(DatabaseAuthError, match="permission denied.*Check the user .* the user's rights"):
        write_index(index, other, "works", vectors=table)
    write_index(index, database, "works", vectors=table)
    run(postgres_server.url, f"GRANT USAGE ON SCHEMA {database.schema} TO {user}")
    run(postgres_server.url, f"GRANT SELECT ON ALL TABLES IN SCHEMA {database.schema} TO {user}")
    reader = postgres_server.open(database.schema, url=url)
    with pytest.raises(DatabaseAuthError, match=f"permission denied for table {table.name}"):
        Retriever(open_index(reader, "works"), "vector").retrieve("text", vector=vectors[0])
    run(postgres_server.url, f"GRANT SELECT ON {table.name} TO {user}")
    assert PostgresVectors(PostgresCorpus(reader, "works")).search(vectors[:1], 1) == [["n0"]]
    reader.close()
    other.close()
