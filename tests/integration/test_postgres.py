"""An index written into PostgreSQL: answers as in memory, changes only, one transaction, what is refused."""

import asyncio
import copy
import json
import pickle
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from graph_retrievers import Edge, GraphIndex, Node, Retriever, WalkFusion
from graph_retrievers.core.limits import limited
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingDatabaseFeatureError,
    MissingSignalError,
    StaleIndexError,
    TimeLimitError,
)
from graph_retrievers.retrievers.limits import TimeLimit, in_thread
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresDatabase,
    PostgresGraph,
    PostgresVectors,
    PostgresWords,
    create_vector_index,
    open_index,
    update_index,
    write_index,
)
from graph_retrievers.stores.postgres.change import Written
from graph_retrievers.stores.remote import (
    CheckingGraphStore,
    ScopedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
)
from langchain_graph_retrievers import GraphRetriever
from tests.engines import NOTHING, QUESTIONS, change_pages, index_of
from tests.helpers import HashEmbedding
from tests.postgres import contents, drop
from tests.remote import assert_same, told
from tests.store_checks import check_stores

UNCHANGED = Written(NOTHING, NOTHING)


def opened(database, name="works", **options):
    return open_index(database, name, **{"embedding": HashEmbedding(16)} | options)


def stores(database, name="works"):
    corpus = PostgresCorpus(database, name)
    return PostgresGraph(corpus), PostgresVectors(corpus), PostgresWords(corpus)


def test_a_folder_gives_the_answers_in_memory(postgres, pages):
    index = index_of(pages)
    assert write_index(index, postgres, "works") == (Changes(len(index)), Changes(index.graph.num_edges), 0, 0)
    retriever, local = Retriever(opened(postgres)), Retriever(index, WalkFusion())
    assert_same(retriever.retrieve_batch(QUESTIONS), local.retrieve_batch(QUESTIONS))
    graph, vectors, words = stores(postgres)
    assert isinstance(graph, (ScopedGraphStore, CheckingGraphStore))
    assert isinstance(vectors, ScopedVectorStore) and isinstance(words, ScopedWordStore)
    check_stores(index, graph, vectors, QUESTIONS, words=words)
    found = GraphRetriever(retriever=retriever).invoke(QUESTIONS[0])
    assert [document.id for document in found] == [hit.id for hit in local.retrieve(QUESTIONS[0])] and len(found) > 3
    scope = {"path": {"$in": ["loom.md", "card.md", "mill.md", "engine.md"]}}
    assert_same(retriever.retrieve_batch(QUESTIONS, scope=scope), local.retrieve_batch(QUESTIONS, scope=scope))


def test_an_index_is_opened_by_its_address(postgres_server, postgres, pages):
    index = index_of(pages)
    with postgres_server.open("graph_retrievers") as database:
        write_index(index, database, "works")
        remote = open_index(postgres_server.url, "works", embedding=HashEmbedding(16))
        hits = Retriever(remote).retrieve(QUESTIONS[0])
        assert [hit.id for hit in hits] == [hit.id for hit in Retriever(index, WalkFusion()).retrieve(QUESTIONS[0])]
        remote.store.corpus.database.close()
        drop(database)


def test_changed_documents_write_their_changes_alone(postgres, pages):
    write_index(index_of(pages), postgres, "works")
    gone = {node for node in index_of(pages).graph.ids if node.startswith(("clock.md", "still.md"))}
    change_pages(pages)
    after = index_of(pages)
    nodes, edges, *_ = write_index(after, postgres, "works")
    # A page and a section that are new, and four sections with links to what is gone; others got another place or degree alone.
    assert nodes.written == 6 and 0 < nodes.moved <= 12 and nodes.deleted == len(gone)
    assert 0 < edges.written < after.graph.num_edges / 2 and edges.moved > 0 and edges.deleted > 0
    changed = contents(postgres, "works")
    assert changed[0].keys() == set(after.graph.ids)
    assert write_index(after, postgres, "works") == UNCHANGED and contents(postgres, "works") == changed
    assert_same(Retriever(opened(postgres)).retrieve_batch(QUESTIONS), Retriever(after, WalkFusion()).retrieve_batch(QUESTIONS))
    write_index(after, postgres, "fresh")
    assert contents(postgres, "fresh") == changed


def test_an_edge_alone_makes_another_state(postgres):
    """Of the same ends and relation as one that is there, so that no degree and no other property changes."""
    nodes, edges = [Node("a", "oak loom"), Node("b", "ash card")], [Edge("a", "b", "reads")]
    write_index(GraphIndex.from_nodes(nodes, edges), postgres, "works")
    index = open_index(postgres, "works")
    write_index(GraphIndex.from_nodes(nodes, [Edge("a", "b", "reads", weight=0.1)]), postgres, "works")
    with pytest.raises(StaleIndexError):
        index.store.sample(1)
    # Also where nothing is found.
    with pytest.raises(StaleIndexError):
        index.store.read(ids=["nobody"], limit=1)


def test_a_text_a_vector_or_an_edge_alone_is_written_alone(postgres):
    texts, vectors, edges = ["oak loom", "ash card", "elm mill", "fir clock"], np.eye(4), [Edge("a", "b", "reads")]

    def written():
        index = GraphIndex.from_texts(texts, ids=list("abcd"), vectors=vectors, edges=edges)
        nodes, changed, *_ = write_index(index, postgres, "works")
        write_index(index, postgres, "fresh")
        assert contents(postgres, "works") == contents(postgres, "fresh")
        return nodes.written, nodes.moved, changed

    assert written() == (4, 0, Changes(1)) and written() == (0, 0, NOTHING)
    vectors = np.eye(4)[[0, 1, 3, 2]]
    assert written() == (2, 0, NOTHING)
    texts[1] = "yew card"
    assert written() == (1, 0, NOTHING) and stores(postgres)[2].search(["yew"], 1)[0][0][0] == "b"
    edges = [Edge("b", "a", "reads"), *edges]
    assert written() == (0, 0, Changes(1, 1))
    edges = [Edge("b", "a", "reads"), Edge("a", "b", "reads", weight=0.1)]
    assert written() == (0, 0, Changes(1))
    edges = [Edge("a", "b", "reads", weight=0.1, text="by hand"), Edge("a", "b", "reads"), Edge("c", "c")]
    assert written() == (0, 0, Changes(3, 0, 1))
    edges = []
    assert written() == (0, 2, Changes(0, 0, 3))


def test_changes_over_many_writes_leave_what_one_write_leaves(postgres):
    """Words, counts of words, vectors, edges and positions, after random changes."""
    draw = np.random.default_rng(0)
    held = {}
    for step in range(12):
        for number in draw.integers(0, 40, 8).tolist():
            words = " ".join(f"word{word}" for word in draw.integers(0, 12, draw.integers(0, 9)))
            held[f"n{number}"] = (words, draw.normal(size=3).tolist(), {"step": step} if number % 2 else {})
        for number in draw.integers(0, 40, 6).tolist():
            held.pop(f"n{number}", None)
        ids = sorted(held, key=lambda name: hash((name, step)) if step % 3 == 0 else name)
        ends = draw.choice(ids, (30, 2)).tolist()
        index = GraphIndex.from_texts(
            [held[name][0] for name in ids],
            ids=ids,
            vectors=[held[name][1] for name in ids],
            metadatas=[held[name][2] for name in ids],
            metric="cosine",
            edges=[Edge(a, b, f"r{place % 2}", weight=1.0 + place % 3) for place, (a, b) in enumerate(ends)],
        )
        write_index(index, postgres, "works", replace=True)
        write_index(index, postgres, f"fresh {step}")
        assert contents(postgres, "works") == contents(postgres, f"fresh {step}")


# -- any text -----------------------------------------------------------------------------------------------------------

HOSTILE = [
    "'; DROP TABLE nodes; --",
    "') OR true --",
    '" ; DELETE FROM "nodes" ; --',
    "$$; SELECT pg_sleep(9); $$",
    "\\'; COMMIT; --",
    "%(corpus)s %s %% %",
    "{nodes} {node} {degree} {0}",
    "$1 $2 :name ?",
    "a\tb\nc\\N\\.\r\n",
    "\\.",
    "/* -- */ E'\\x00'",
    "nul \x00 one \x01 two \x02\x03\x00\x01\x02\x02",
    "\x00",
    "😀 漢字 ﬁ ß İ ı \ufffd \uffff \U0010ffff \u202e",
    "𝔘𐐷 \u0301\u0301",
    "x" * 2000,
    "{1,2,NULL}",
    "NULL",
    '{"a": 1}',
    "  ",
    "12",
]


def hostile():
    nodes = [
        Node(
            name,
            f"{name} turns {place}",
            name * (1 + place % 2),
            name[:50],
            {f"_{name[:90]}": name, "in": {f"_{name[:9]}": [name]}, "list": [name]},
        )
        for place, name in enumerate(HOSTILE)
    ]
    edges = [Edge(HOSTILE[place - 1], name, name, text=name) for place, name in enumerate(HOSTILE)]
    edges += [Edge(HOSTILE[0], HOSTILE[1], "twice", weight=weight) for weight in (1.0, 0.1, 1.0)] + [
        (HOSTILE[2], HOSTILE[2], "self")
    ]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(16))


def test_any_text_may_stand_anywhere(postgres):
    index = hostile()
    write_index(index, postgres, HOSTILE[0])
    assert write_index(index, postgres, HOSTILE[0]) == UNCHANGED
    graph, vectors, words = stores(postgres, HOSTILE[0])
    check_stores(index, graph, vectors, [*HOSTILE[:7], "turns 3"], words=words)
    retriever, local = Retriever(opened(postgres, HOSTILE[0])), Retriever(index, WalkFusion())
    asked = [name for name in HOSTILE if name.strip()]
    assert_same(retriever.retrieve_batch(asked), local.retrieve_batch(asked))
    held = graph.read(texts=HOSTILE, limit=99)
    assert {node.id: node for node in held.nodes} == {
        node.id: node for node in held.nodes if index.graph.node(index.graph.row(node.id)).text == node.text
    }
    # In a scope, a form is that of the whole.
    system = WalkFusion(form="links", bridges=1)
    retriever, local = Retriever(opened(postgres, HOSTILE[0]), system), Retriever(index, system)
    for place, name in enumerate(HOSTILE):
        assert vectors.vectors([name]).keys() == {name}
        conditions = [{f"_{name[:90]}": name}, {"in": {f"_{name[:9]}": {"$contains": name}}}, {"list": [name]}, {"$id": name}]
        filters = {"filter": conditions[place % 4], "scope": {"$or": [*conditions, {"$title": name}, {"$type": name[:50]}]}}
        found = retriever.retrieve("turns", 99, **filters)
        assert_same([found], [local.retrieve("turns", 99, **filters)])
        assert name in {hit.id for hit in found}
    # One goes, with its edges; the copies of another edge are fewer.
    kept = [node for node in map(index.graph.node, range(len(index))) if node.id != HOSTILE[3]]
    edges = [edge for edge in index.graph.edges() if HOSTILE[3] not in (edge.source, edge.target) and edge.weight != 1.0]
    smaller = GraphIndex.from_nodes(kept, edges, embedding=HashEmbedding(16))
    write_index(smaller, postgres, HOSTILE[0])
    write_index(smaller, postgres, "fresh")
    assert contents(postgres, "fresh") == contents(postgres, HOSTILE[0])


@pytest.mark.parametrize("wrong", ["\ud800", "a\udfff"])
def test_half_of_a_surrogate_pair_is_in_no_graph_and_harms_no_question(postgres, pages, wrong):
    index = index_of(pages)
    write_index(index, postgres, "works")
    retriever, local = Retriever(opened(postgres)), Retriever(index, WalkFusion())
    graph, _, words = stores(postgres)
    assert words.search([f"{wrong} machine"], 5) == words.search(["machine"], 5) and words.term_scores([(wrong, [wrong])]) == [[]]
    for condition in ({"$id": wrong}, {"path": wrong}, {"path": {"$in": [wrong, "loom.md"]}}, {"$title": {"$contains": wrong}}):
        filters = {"filter": {"$not": condition}, "scope": {"$not": condition}}
        assert_same([retriever.retrieve("machine", **filters)], [local.retrieve("machine", **filters)])
    for condition in ({"path": {"$gt": wrong}}, {wrong: 1}):
        with pytest.raises(InvalidArgumentError, match="is not valid Unicode; decode it again"):
            retriever.retrieve("machine", scope=condition)
    assert graph.read(ids=[wrong], texts=[wrong], titles=[wrong], names=[wrong], limit=9).nodes == []
    with pytest.raises(InvalidArgumentError, match="The name of the index is"):
        PostgresCorpus(postgres, wrong)


def test_long_texts_titles_and_words_are_kept_and_long_ids_are_refused(postgres):
    nodes = [Node("a", "y" * 1_000_000, "words " * 60_000), Node("b", "A card. " + "z" * 3000), Node("c", "z" * 2999)]
    index = GraphIndex.from_nodes(nodes, embedding=HashEmbedding(16))
    write_index(index, postgres, "works")
    graph, _, words = stores(postgres)
    (found,) = graph.read(texts=["a"], limit=1).nodes
    assert (found.text, found.title) == (nodes[0].text, nodes[0].title)
    assert [[name for name, _ in each] for each in words.search(["y" * 1_000_000, "z" * 3000], 3)] == [["a"], ["b"]]
    with pytest.raises(InvalidArgumentError, match="has 2,601 bytes; the index of a database takes at most 2,600: shorten it"):
        write_index(GraphIndex.from_texts(["a"], ids=["y" * 2601]), postgres, "long")
    # A null character is stored as three others.
    with pytest.raises(InvalidArgumentError, match="has 3,000 bytes; the index of a database takes at most 2,600: shorten it"):
        write_index(GraphIndex.from_texts(["a"], ids=["\0" * 1000]), postgres, "long")
    # No letter is like another, so that nothing is compressed.
    ids = ["".join(map(chr, np.random.default_rng(row).integers(0x4E00, 0x9000, 866).tolist())) for row in range(3)]
    write_index(GraphIndex.from_texts(["a loom"] * 3, ids=ids), postgres, "long")
    assert len(stores_of(postgres, "long").read(ids=ids, limit=9).nodes) == 3


def stores_of(database, name):
    return PostgresGraph(PostgresCorpus(database, name))


def test_metadata_come_back_as_they_were(postgres):
    metadata = {
        "order": 1,
        "a": [1, 1.0, True, None, "x", {"b": [[]], "": {}}, []],
        "floats": [1e16, 1e23, 1e-320, 0.1, -0.0, 5e-324, 1.7976931348623157e308],
        "large": [2**63, -(2**200), 10**2000],
        "nul \x00": "\x00\x01",
        "date": "2024-05-01",
        "nothing": None,
        "deep": json.loads("[" * 60 + "]" * 60),
    }
    origin = {"class_name": "TextNode", "kept": [1.0, {"\x00": None}]}
    nodes = [Node("a", "A loom.", metadata=metadata, origin=origin), Node("b", "A card.")]
    write_index(GraphIndex.from_nodes(nodes), postgres, "works")
    (found,) = stores_of(postgres, "works").read(texts=["a"], limit=1).nodes
    assert repr(found.metadata) == repr(metadata) and repr(found.origin) == repr(origin)


# -- indexes side by side, readers and writers --------------------------------------------------------------------------


def test_two_indexes_of_one_database_are_kept_apart(postgres, pages):
    first = index_of(pages)
    write_index(first, postgres, "works")
    whole = contents(postgres, "works")
    # The same ids, other texts, and no vectors.
    second = GraphIndex.from_texts(["A town."] * len(first), ids=first.graph.ids, edges=[("loom.md", "card.md", "near")])
    write_index(second, postgres, "towns")
    assert contents(postgres, "works") == whole
    towns = opened(postgres, "towns", embedding=None)
    assert list(towns.signals) == ["bm25"] and towns.vectors is None
    assert Retriever(towns).retrieve("town")[0].text == "A town."
    write_index(second.with_changes(delete=["kiln.md"]), postgres, "towns")
    assert contents(postgres, "works") == whole and "kiln.md" not in contents(postgres, "towns")[0]
    assert_same(Retriever(opened(postgres)).retrieve_batch(QUESTIONS), Retriever(first, WalkFusion()).retrieve_batch(QUESTIONS))


def test_a_retriever_follows_changes_and_stores_that_were_opened_before_say_so(postgres, pages):
    index = index_of(pages)
    write_index(index, postgres, "works")
    retriever = Retriever(opened(postgres))
    before = retriever.retrieve(QUESTIONS[0])
    write_index(index, postgres, "works")
    assert [hit.id for hit in retriever.retrieve(QUESTIONS[0])] == [hit.id for hit in before]
    write_index(index.with_changes(upsert=[Node("anvil.md", "An anvil.")]), postgres, "works")
    with pytest.raises(StaleIndexError, match="The index 'works' of .* was written again since it was opened; open it again"):
        retriever.index.store.sample(1)
    assert retriever.retrieve("An anvil.")[0].id == "anvil.md" and len(retriever.index.newest) == len(index) + 1
    assert [hit.id for hit in retriever.retrieve("", filter={"$id": "anvil.md"})] == ["anvil.md"]
    write_index(index, postgres, "works")
    again = retriever.with_options(k=3).retrieve_batch(["An anvil.", QUESTIONS[0]])
    assert [hit.id for hit in again[1]] == [hit.id for hit in before][:3] and "anvil.md" not in [hit.id for hit in again[0]]
    # Without a way to open it again, the error says what to do.
    bare = Retriever(opened(postgres, reopen=None))
    write_index(index.with_changes(delete=["kiln.md"]), postgres, "works")
    with pytest.raises(StaleIndexError, match="open it again"):
        bare.retrieve(QUESTIONS[0])


def test_a_retriever_may_be_made_on_an_index_that_was_opened_before_a_change(postgres):
    """WalkFusion reads the types of nodes and edges when it is made."""
    index = GraphIndex.from_texts(["A loom."], ids=["loom"], embedding=HashEmbedding(16))
    write_index(index, postgres, "works")
    opened_before = open_index(postgres, "works", embedding=HashEmbedding(16))
    write_index(index.with_changes(upsert=[Node("anvil", "An anvil.")]), postgres, "works")
    assert Retriever(opened_before, WalkFusion()).retrieve("An anvil.")[0].id == "anvil"


def test_a_write_that_fails_leaves_nothing(postgres, pages, monkeypatch):
    index = index_of(pages)
    write_index(index, postgres, "works")
    whole, plain = contents(postgres, "works"), psycopg.Connection.execute
    change_pages(pages)
    changed, sent = index_of(pages), []

    def counted(connection, *given, **named):
        sent.append(given)
        if len(sent) == fails:
            raise psycopg.OperationalError("lost")
        return plain(connection, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    fails = 0
    write_index(changed, postgres, "other")
    count = len(sent)
    assert count > 10
    for fails in range(3, count + 1, 3):
        sent.clear()
        with pytest.raises(DatabaseError):
            write_index(changed, postgres, "works")
        fails, sent = 0, []
        assert contents(postgres, "works") == whole
    write_index(changed, postgres, "works")
    assert contents(postgres, "works") == contents(postgres, "other")


def test_readers_see_the_state_before_or_after_a_write(postgres_server, postgres, pages):
    """While two states are written in turns, by two writers, every answer is that of one of them."""
    first = index_of(pages)
    change_pages(pages)
    second = index_of(pages)
    write_index(first, postgres, "works")
    expected = [[hit.id for hit in Retriever(each, WalkFusion()).retrieve(QUESTIONS[0])] for each in (first, second)]
    assert expected[0] != expected[1]
    ended, seen = threading.Event(), []

    def read(place):
        with postgres_server.open(postgres.schema) as database:
            kept = Retriever(opened(database))
            while not ended.is_set():
                # One retriever for all of them, and one that is made anew.
                seen.extend([hit.id for hit in each.retrieve(QUESTIONS[0])] for each in (kept, Retriever(opened(database))))

    def write(place):
        with postgres_server.open(postgres.schema) as database:
            for step in range(6):
                write_index((first, second)[(step + place) % 2], database, "works")
                answered = len(seen)
                while len(seen) == answered and not any(reader.done() for reader in readers):
                    time.sleep(0.01)

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, place) for place in range(2)]
        for writer in [pool.submit(write, place) for place in range(2)]:
            writer.result()
        ended.set()
        for reader in readers:
            reader.result()
    assert len(seen) >= 6 and all(each in expected for each in seen)
    write_index(second, postgres, "works")
    write_index(second, postgres, "fresh")
    assert contents(postgres, "works") == contents(postgres, "fresh")


def test_the_tables_are_created_once_by_writers_at_once(postgres_server):
    databases = [postgres_server.open() for _ in range(4)]
    for database in databases[1:]:
        database.schema, database.tables = databases[0].schema, databases[0].tables
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda database: write_index(GraphIndex.from_texts(["A loom."]), database, "works"), databases))
    assert len(contents(databases[0], "works")[0]) == 1
    drop(databases[0])
    for database in databases[1:]:
        database.close()


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_meant_is_refused_and_nothing_is_written(postgres, pages):
    index = index_of(pages)
    write_index(index, postgres, "works")
    whole = contents(postgres, "works")
    nodes = [index.graph.node(row) for row in range(len(index))]
    other = [Node(f"other {row}", f"Text {row}.") for row in range(9)]
    named = HashEmbedding(16)
    named.name = "another-model"
    size = len(index)
    cases = [
        (DimensionMismatchError, "has vectors of width 16, and this index of width 32. Give another", nodes, HashEmbedding(32)),
        (DimensionMismatchError, "this index has none: build it with embedding=. Give another", nodes, None),
        (InvalidArgumentError, "of the model 'HashEmbedding', and this index of 'another-model'. Give", nodes, named),
        (InvalidArgumentError, f"{size} nodes, and {size} of them are not in this index: it may be of", other, HashEmbedding(16)),
    ]
    for kind, said, given, model in cases:
        with pytest.raises(kind, match=said):
            write_index(GraphIndex.from_nodes(given, embedding=model), postgres, "works")
    write_index(GraphIndex.from_nodes(nodes), postgres, "words")
    with pytest.raises(DimensionMismatchError, match="has no vectors, and this index has some of width 16. Give another"):
        write_index(index, postgres, "words")
    with pytest.raises(MissingSignalError, match="no BM25"):
        write_index(GraphIndex.from_nodes(nodes, bm25=False), postgres, "works")
    with pytest.raises(InvalidArgumentError, match="compares its vectors by dot products, and engines by cosine, .* metric="):
        write_index(GraphIndex.from_texts(["a", "b"], vectors=np.diag([1.0, 2.0]), metric="dot"), postgres, "dots")
    for name in ("", 3, None, "x" * 501):
        with pytest.raises(InvalidArgumentError, match="The name of the index is .*; expected a text of 1 to 500 characters"):
            write_index(index, postgres, name)
    with pytest.raises(InvalidArgumentError, match="database is .*; expected a PostgresDatabase"):
        write_index(index, "postgresql:///works", "works")
    assert contents(postgres, "works") == whole
    with pytest.raises(InvalidArgumentError, match="has no index 'dots' in the schema .*; write it .* It has 'words', 'works'"):
        opened(postgres, "dots")
    for _, _, given, model in cases:
        replacing = GraphIndex.from_nodes(given, embedding=model)
        write_index(replacing, postgres, "works", replace=True)
        write_index(replacing, postgres, "fresh", replace=True)
        assert contents(postgres, "works") == contents(postgres, "fresh")


def test_an_empty_database_and_tables_of_others_are_told(postgres):
    with pytest.raises(DatabaseError, match="has no index in the schema .*Write one with write_index, or give schema="):
        PostgresCorpus(postgres, "works")
    with postgres.writing() as writing:
        writing.run("CREATE SCHEMA {schema}")
        writing.run("CREATE TABLE {corpora} (name text)")
    with pytest.raises(DatabaseError, match="has tables of 'something else'; expected 'graph-retrievers 5'. Give another schema="):
        write_index(GraphIndex.from_texts(["A loom."]), postgres, "works")


def test_nodes_without_a_vector_are_told(postgres, caplog):
    vectors = np.diag([1.0, 0.0, 1.0])
    write_index(GraphIndex.from_texts(["A loom.", "A card.", "A mill."], ids=["a", "b", "c"], vectors=vectors), postgres, "works")
    said = "1 of 3 nodes have no vector (a row of zeros), such as 'b': on engines, a retriever that compares one ends in an error."
    assert caplog.messages == [said]
    with pytest.raises(InvalidVectorError, match="no vector of node 'b'"):
        Retriever(opened(postgres, embedding=None), WalkFusion(form="links")).retrieve("card", vector=vectors[0])


@pytest.mark.parametrize(
    ("url", "options", "kind", "said"),
    [
        ("bolt://localhost:7687", {}, InvalidArgumentError, "must begin with postgresql://, as in"),
        (None, {}, InvalidArgumentError, "must begin with postgresql://"),
        ("postgresql+psycopg://me:hush@localhost/x", {}, InvalidArgumentError, r"without the driver that SQLAlchemy .*'\+psycopg'"),
        ("postgresql://localhost/x?nonsense=1", {}, InvalidArgumentError, "cannot be read"),
        ("postgresql://127.0.0.1:1/x", {}, DatabaseUnreachableError, "127.0.0.1:1/x cannot be reached"),
        ("postgresql:///x?host=/nowhere", {}, DatabaseUnreachableError, "postgresql:///x\\?host=/nowhere cannot be reached"),
        ("{url}", {"schema": 'a"b'}, InvalidArgumentError, "schema is .*; expected letters, digits and underscores"),
        ("{url}", {"timeout": 0}, InvalidArgumentError, "timeout must be a number of seconds above 0"),
        ("{url}&user=nobody_here", {}, DatabaseAuthError, "refused the user .*nobody_here"),
        ("{url}&dbname=not_there", {}, DatabaseUnreachableError, "not_there"),
    ],
)
def test_an_address_that_is_wrong_is_told(postgres_server, url, options, kind, said):
    with pytest.raises(kind, match=said):
        PostgresDatabase(url and url.format(url=postgres_server.url), **options)


def test_an_open_index_is_copied_and_not_pickled(postgres, pages):
    write_index(index_of(pages), postgres, "works")
    retriever = Retriever(opened(postgres), "bm25")
    assert copy.copy(postgres) is postgres and copy.deepcopy(retriever).retrieve(QUESTIONS[0]) == retriever.retrieve(QUESTIONS[0])
    with pytest.raises(TypeError, match="cannot be pickled, because it has connections. Open it, and its index, in each process"):
        pickle.dumps(retriever)


def test_a_password_is_not_shown(postgres_server):
    with pytest.raises(DatabaseError) as caught:
        PostgresDatabase("postgresql://me:hush-hush@127.0.0.1:1/x?password=hush-hush")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("password", ["hu%sh", "hu sh", "hu@sh", "hu/sh", "12/hush", "hu\x00sh", "1\x00sh", "hu\ud800sh", 'hu"%sh'])
def test_a_password_that_is_not_quoted_is_not_shown(password):
    """Its parts are read as a host, a port or the name of a database, which messages show."""
    with pytest.raises(InvalidArgumentError, match=r"cannot be read.*not shown.*urllib\.parse\.quote") as caught:
        PostgresDatabase(f"postgresql://me:{password}@127.0.0.1:1/x", timeout=1)
    assert not {"hu", "sh", "12", "hush"} & set(re.findall(r"\w+", str(caught.value)))
    # Nor in what a traceback prints before it.
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_lost_connection_is_told_once_and_the_next_call_connects_again(postgres_server, postgres):
    write_index(GraphIndex.from_texts(["A loom.", "A card."], ids=["a", "b"]), postgres, "works")
    graph = stores_of(postgres, "works")
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with postgres_server.open() as other:
        # While it was idle, which no call notices.
        other.read((ended, {}))
        assert graph.sample(1)[0] == 2
        # In the middle of a statement.
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(postgres.read, ("SELECT pg_sleep(20)", {}))
            deadline = time.monotonic() + 10
            while not other.read(("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(20)'", {}))[0]:
                assert time.monotonic() < deadline
            # It is tried once more, as after a loss while it was idle.
            for _ in range(2):
                time.sleep(0.2)
                other.read((ended, {}))
            with pytest.raises(DatabaseUnreachableError, match="the connection was lost .*the next call connects again"):
                asked.result(20)
    assert graph.sample(1)[0] == 2


def test_a_change_whose_connection_is_lost_changes_nothing(postgres_server, postgres):
    write_index(GraphIndex.from_texts(["A loom.", "A card."], ids=["a", "b"]), postgres, "works")
    before = contents(postgres, "works")

    def cut():
        yield ("a", "b", "next")
        with postgres_server.open() as other:
            other.read(("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%%given_edges%%'", {}))
        yield ("b", "a", "next")

    with pytest.raises(DatabaseUnreachableError, match="the connection was lost .*the next call connects again"):
        update_index(postgres, "works", upsert=[Node("a", "A mill.")], add_edges=cut())
    assert contents(postgres, "works") == before
    update_index(postgres, "works", upsert=[Node("a", "A mill.")], add_edges=[("a", "b", "next")])
    assert contents(postgres, "works")[0]["a"][4] == "A mill."


def test_connections_that_are_lost_all_the_time_give_one_error_and_no_other_answer(postgres_server, postgres, caplog):
    write_index(GraphIndex.from_texts([f"A loom {n}." for n in range(30)]), postgres, "works")
    retriever = Retriever(open_index(postgres, "works"), "bm25")
    expected, found, ended = told(retriever.retrieve("loom 7")), Counter(), threading.Event()
    kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend'"

    def ask(_):
        for _ in range(40):
            try:
                found["right" if told(retriever.retrieve("loom 7")) == expected else "wrong"] += 1
            except DatabaseUnreachableError:
                found["lost"] += 1

    def cut():
        with postgres_server.open() as other:
            while not ended.is_set():
                found["killed"] += other.read((f"{kill} AND pid <> pg_backend_pid()", {}))[0][0][0]
                time.sleep(0.02)

    with ThreadPoolExecutor(5) as pool:
        cutter = pool.submit(cut)
        list(pool.map(ask, range(4)))
        ended.set()
        cutter.result()
    assert found["killed"] > 10 and found["right"] + found["lost"] == 160 and not caplog.records
    assert told(retriever.retrieve("loom 7")) == expected


@pytest.mark.parametrize(
    "limit", ["idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout", "statement_timeout"]
)
def test_a_change_may_take_longer_than_the_server_lets_others(limit, postgres_server, postgres):
    url = f"{postgres_server.url}&options=-c%20{limit}%3D100"
    write_index(GraphIndex.from_texts(["A loom."], ids=["a"]), postgres, "works")

    def slowly():
        time.sleep(0.3)
        yield ("a", "b", "next")

    with postgres_server.open(postgres.schema, url=url) as database, ThreadPoolExecutor(1) as pool, postgres.writing() as other:
        other.run("SELECT FROM {corpora} FOR UPDATE")
        written = pool.submit(update_index, database, "works", upsert=[Node("b", "A card.")], add_edges=slowly())
        time.sleep(0.3)
        other.run("COMMIT")
        assert written.result(20).nodes.written == 1


def test_a_replica_is_read_and_says_that_it_is_one(postgres_server, postgres):
    write_index(GraphIndex.from_texts(["A loom.", "A card."], ids=["a", "b"]), postgres, "works")
    with postgres_server.open(
        postgres.schema, url=f"{postgres_server.url}&options=-c%20default_transaction_read_only%3Don"
    ) as replica:
        retriever = Retriever(open_index(replica, "works"), "bm25")
        assert [hit.id for hit in retriever.retrieve("loom")] == ["a"]
        update_index(postgres, "works", upsert=[Node("c", "A loom, a loom.")])
        assert [hit.id for hit in retriever.retrieve("loom")] == ["c", "a"]
        with pytest.raises(DatabaseError, match="can only be read .*Write to the primary server, of which it is a replica"):
            update_index(replica, "works", delete=["a"])


def test_a_statement_that_takes_too_long_is_ended(postgres_server, postgres):
    write_index(GraphIndex.from_texts(["A loom."]), postgres, "works")
    with postgres_server.open(postgres.schema, timeout=0.3) as database:
        started = time.monotonic()
        with pytest.raises(DatabaseUnreachableError, match="did not answer within 0.3 seconds .*Ask for less, or raise timeout="):
            database.read(("SELECT pg_sleep(20)", {}))
        with pytest.raises(DatabaseUnreachableError, match="did not answer within 0.3 seconds"):
            database.read(("SELECT 1", {}), ("SELECT pg_sleep(20)", {}))
        assert time.monotonic() - started < 10
        assert stores_of(database, "works").sample(1)[0] == 1
        # A write may take longer.
        with database.writing() as writing:
            writing.run("SELECT pg_sleep(0.6)")


SLEEP = "SELECT pg_sleep(20)"


class Sleeps(PostgresVectors):
    """Vectors whose search takes 20 seconds in the server."""

    def nearest(self, vectors, k):
        self.corpus.read((SLEEP, {}))


def sleeper(database, name="works", **options):
    """A retriever that answers after 20 seconds."""
    write_index(GraphIndex.from_texts(["A loom."], embedding=HashEmbedding(16)), database, name)
    index = opened(database, name, vectors=Sleeps(PostgresCorpus(database, name)))
    return Retriever(index, "vector", **options)


def test_a_time_limit_ends_the_statement_in_the_server(postgres_server, postgres):
    started = time.monotonic()
    with pytest.raises(TimeLimitError, match=r"Vector has no answer after .* and its time_limit is 0.3"):
        sleeper(postgres, time_limit=0.3).retrieve("Which loom?")
    assert time.monotonic() - started < 10
    wait_until(lambda: not running(postgres_server))
    # Of the same connection, the next statement has its own time.
    assert postgres.read(("SELECT 1 FROM pg_sleep(0.4)", {})) == [[(1,)]]


def test_a_call_that_is_cancelled_ends_its_statement_in_the_server(postgres_server, postgres):
    retriever = sleeper(postgres)

    async def leave():
        task = asyncio.create_task(retriever.aretrieve("Which loom?"))
        await asyncio.to_thread(wait_until, lambda: running(postgres_server))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    wait_until(lambda: not running(postgres_server))
    # The connection that was cancelled is closed: a signal that comes late meets no other statement.
    wait_until(lambda: not postgres._cancelled)
    assert postgres._idle == [] and PostgresGraph(PostgresCorpus(postgres, "works")).sample(1)[0] == 1


@pytest.mark.parametrize("threads", [None, 64])
def test_many_questions_at_once_share_a_few_connections(threads, postgres_server, pages, monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    database = postgres_server.open(connections=4)
    write_index(index_of(pages), database, "works")
    retriever = Retriever(opened(database))
    questions = [f"{QUESTIONS[n % len(QUESTIONS)]} {n}" for n in range(64)]
    expected = [[(hit.id, hit.score) for hit in retriever.retrieve(question)] for question in questions]
    sleeping = sleeper(database, name="sleeping")

    async def ask():
        if threads is not None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
        found = await asyncio.gather(*map(retriever.aretrieve, questions))
        assert [[(hit.id, hit.score) for hit in hits] for hits in found] == expected
        assert len(database._idle) <= 4
        # Those that wait for the server, for a connection, and for a thread.
        tasks = [asyncio.create_task(sleeping.aretrieve("Which loom?")) for _ in range(64)]
        await asyncio.sleep(0.1)
        wait_until(lambda: running(postgres_server))
        for task in tasks:
            task.cancel()
        assert {type(end) for end in await asyncio.gather(*tasks, return_exceptions=True)} == {asyncio.CancelledError}

    asyncio.run(ask())
    wait_until(lambda: not running(postgres_server))
    wait_until(lambda: not database._cancelled)
    assert [(hit.id, hit.score) for hit in retriever.retrieve(questions[0])] == expected[0] and not failed
    drop(database)


def test_a_call_that_waits_for_a_connection_ends_when_it_is_cancelled(postgres_server):
    database = postgres_server.open(connections=1)
    retriever, held = sleeper(database), threading.Event()

    async def leave():
        task = asyncio.create_task(retriever.aretrieve("Which loom?"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The loop waits for its threads.
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 5)
        held.set()

    with database.writing():
        asyncio.run(leave())
    assert held.is_set()
    drop(database)


def test_the_limits_of_a_call_hold_in_a_snapshot_too(postgres_server, postgres):
    with postgres.pinned() as state, limited(TimeLimit(0.3, "Vector")):
        with pytest.raises(DatabaseUnreachableError, match="did not answer within"):
            state.read((SLEEP, {}))

    def read():
        with postgres.pinned() as state:
            state.read((SLEEP, {}))

    async def leave():
        task = asyncio.create_task(in_thread(read))
        await asyncio.to_thread(wait_until, lambda: running(postgres_server))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    wait_until(lambda: not running(postgres_server))
    wait_until(lambda: not postgres._cancelled)
    assert postgres.read(("SELECT 1", {})) == [[(1,)]]


def running(server):
    """Whether the server runs what sleeps."""
    active = "SELECT 1 FROM pg_stat_activity WHERE query LIKE %(text)s AND state = 'active'"
    with server.open() as other:
        return bool(other.read((active, {"text": f"%{SLEEP}%"}))[0])


def wait_until(happens):
    deadline = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_network_ends_what_waits_as_the_timeout_says_unless_the_url_does(postgres_server):
    names = ("tcp_user_timeout", "keepalives_idle", "keepalives_interval")
    more = "&".join(f"{name}={value}" for name, value in zip(names, (7000, 20, 3), strict=True))
    url = f"{postgres_server.url}{'&' if '?' in postgres_server.url else '?'}{more}"
    for options, expected in (
        ({"timeout": 2.5}, ["2000", "2", "2"]),
        ({"timeout": 0.3}, ["1000", "1", "1"]),
        ({"timeout": 1e9}, ["2147483000", "300", "300"]),
        ({"url": url}, ["7000", "20", "3"]),
    ):
        with postgres_server.open(**options) as database:
            (connection,) = database._idle
            parameters = connection.info.get_parameters()
            assert [parameters[name] for name in names] == expected


def test_calls_wait_for_a_connection_and_a_closed_database_is_refused(postgres_server):
    database = postgres_server.open(connections=1, timeout=0.5)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: database.read(("SELECT pg_sleep(0.02), 1", {}))[0][0][1], range(8))) == [1] * 8
        with database.writing():
            with pytest.raises(DatabaseUnreachableError, match="All connections to .* were in use for 0.5 seconds; raise"):
                database.read(("SELECT 1", {}))
    assert len(database._idle) == 1
    database.close()
    with pytest.raises(DatabaseError, match="is closed; open another"):
        database.read(("SELECT 1", {}))


def test_a_user_without_rights_is_told_of_the_extension(postgres_server):
    with postgres_server.open("postgres") as database, database.writing() as writing:
        writing.connection.execute("COMMIT")
        for statement in ("CREATE DATABASE bare", "CREATE ROLE guest LOGIN"):
            writing.connection.execute(statement)
    guest = postgres_server.url.replace("/postgres?", "/bare?").replace("postgres:@", "guest:@")
    with postgres_server.open(url=guest, timeout=10**8) as database:
        assert database.timeout == 2_147_483
        with pytest.raises(MissingDatabaseFeatureError, match="has no right to create it .*superuser run CREATE EXTENSION vector"):
            write_index(GraphIndex.from_texts(["a"]), database, "works")


# -- vectors and words --------------------------------------------------------------------------------------------------


def test_an_index_of_vectors_goes_with_vectors_of_another_width(postgres, caplog):
    def written(width, **options):
        vectors = np.eye(width, dtype=np.float32)[:2]
        write_index(GraphIndex.from_texts(["a", "b"], vectors=vectors, metric="cosine"), postgres, "works", **options)
        return PostgresCorpus(postgres, "works")

    create_vector_index(written(3))
    corpus = written(4, replace=True)
    assert [record.getMessage() for record in caplog.records] == [
        "The HNSW index of vectors was of another width and is dropped; call create_vector_index again."
    ]
    create_vector_index(corpus)
    near = PostgresVectors(corpus, exact=False)
    assert near.search(np.eye(4, dtype=np.float32)[1:2], 1) == [["1"]]
    assert written(4).dimension == 4 and len(caplog.records) == 1
    for given, said in (
        ({"m": "x"}, "m must be an integer of at least 2, got 'x'"),
        ({"m": 101}, "m must be at most 100"),
        ({"m": 50, "ef_construction": 99}, "ef_construction must be an integer of at least 100, got 99"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            create_vector_index(corpus, **given)
    write_index(GraphIndex.from_texts(["a"]), postgres, "words")
    with pytest.raises(InvalidArgumentError, match="has no vectors; write an index that was built with"):
        create_vector_index(PostgresCorpus(postgres, "words"))


def test_an_index_of_vectors_finds_nearly_the_same_and_as_many_in_a_scope(postgres):
    vectors = np.random.default_rng(0).normal(size=(12_500, 8)).astype(np.float32)
    texts = [f"t{row}" for row in range(len(vectors))]
    write_index(GraphIndex.from_texts(texts, ids=texts, vectors=vectors, metric="cosine"), postgres, "works")
    corpus = PostgresCorpus(postgres, "works")
    create_vector_index(corpus)
    create_vector_index(corpus)
    exact, near = PostgresVectors(corpus), PostgresVectors(corpus, exact=False)
    questions = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    expected, found = exact.search(questions, 200), near.search(questions, 200)
    assert np.mean([len({*a} & {*b}) / 200 for a, b in zip(expected, found, strict=True)]) > 0.9
    cosines = vectors @ questions[0] / np.linalg.norm(vectors, axis=1)
    assert expected[0] == [f"t{row}" for row in np.argsort(-cosines)[:200]]
    plan = []
    plain = postgres.read
    postgres.read = lambda *asked: (
        plan.extend(plain(*((f"EXPLAIN {text}" if "LATERAL" in text else text, given) for text, given in asked))[-1])
        or plain(*asked)
    )
    among = texts[: len(texts) * 9 // 10]
    assert [len({*each} & {*among}) for each in near.within(among).search(questions, 50)] == [50] * 5
    assert any("hnsw" in str(line) for line in plan)
    assert [len(each) for each in near.within(texts[:30]).search(questions, 50)] == [30] * 5
