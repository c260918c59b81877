"""An index changed inside PostgreSQL: after any changes, what a write of the whole index leaves, and its answers."""

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from langchain_core.documents import Document

from graph_retrievers import Edge, GraphIndex, Node, Retriever, WalkFusion
from graph_retrievers.errors import (
    DimensionMismatchError,
    DuplicateNodeError,
    EmptyGraphError,
    InvalidArgumentError,
    MissingSignalError,
    UnknownNodeError,
)
from graph_retrievers.graph.names import name_types
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresDatabase,
    PostgresVectors,
    PostgresWords,
    open_index,
    update_index,
    write_index,
)
from graph_retrievers.systems.traits import traits_of
from tests.engines import QUESTIONS, index_of
from tests.helpers import HashEmbedding
from tests.integration.test_postgres import HOSTILE, UNCHANGED
from tests.postgres import contents
from tests.remote import assert_same, told

WORDS = ["loom", "card", "Ada", "Holm", "mill", "the", "漢字", "ﬁ", "서울에서", "Kismet", "İstanbul", "ı", "x1", "\x00", "A"]
TITLES = ["Ada Holm", "ada holm", "Kismet", "The Loom", "loom", "서울", "\x00'", "x" * 1100, ""]


def document(draw, name):
    """A node of some kind: with a text or without, a page or part of one, an entity named by texts; with odd fields."""
    text = " ".join(draw.choices(WORDS, k=draw.choice([0, 3, 8, 30])))
    title = draw.choice([*TITLES, " ".join(draw.choices(WORDS, k=2))])
    metadata = {}
    if draw.random() < 0.6:
        metadata["source"] = draw.choice(["a.md", "b.md", "dir/c.md", HOSTILE[0]])
    if draw.random() < 0.4:
        metadata["chunk"] = draw.randint(0, 4)
    if draw.random() < 0.2:
        metadata |= {"anchors": [], "\x00": draw.choice(HOSTILE)}
    if draw.random() < 0.2:
        text, metadata["named_by_texts"] = "", True
    kind = "entity" if "named_by_texts" in metadata else draw.choice(["", "film", "\x00'"])
    return Node(name, draw.choice([text, text, " \u200b"]), title, kind, metadata, draw.choice([{}, {}, {"start_char_idx": 3}]))


def as_one_write_leaves(database, name, index):
    """The contents of an index, with the places of edges in their order alone, and those of a write of the same index."""
    write_index(index, database, f"{name} whole", replace=True)
    found = []
    for each in (name, f"{name} whole"):
        held, edges, words, terms, vectors, *_ = contents(database, each)
        by_place = sorted(edges, key=lambda edge: edge[4])
        vectors = {node: np.round(json.loads(vector), 5).tolist() for node, vector in vectors.items()}
        corpus = PostgresCorpus(database, each)
        found.append([held, [(*edge[:3], *edge[5:]) for edge in by_place], words, terms, vectors, corpus.traits, corpus.length])
    assert found[0][5] == traits_of(index) and PostgresCorpus(database, name).nodes == len(index)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_any_changes_leave_what_one_write_leaves(postgres, seed, monkeypatch):
    """Random changes, of which some name ids and texts that are hostile, in blocks of a few nodes."""
    monkeypatch.setattr("graph_retrievers.stores.postgres.update.BLOCK", 3)
    draw, model = random.Random(seed), HashEmbedding(8) if seed % 3 else None
    ids = [name for name in HOSTILE if name.strip()] + [f"n{number}" for number in range(20)] + ["a.md#x", "a.md#y"]
    first = [document(draw, name) for name in draw.sample(ids, 9)]
    index = GraphIndex.from_nodes(first, embedding=model, bm25="en")
    update_index(postgres, "works", upsert=iter(first), embedding=model, bm25="en")
    for _ in range(8):
        present = index.graph.ids
        gone = draw.sample(present, min(draw.choice([0, 0, 1, 3]), len(present) - 1))
        new = [document(draw, name) for name in draw.sample(ids, draw.choice([0, 1, 4, 9]))]
        left = list(dict.fromkeys([*(name for name in present if name not in gone), *(node.id for node in new)]))
        ends = [(draw.choice(left), draw.choice(left)) for _ in range(draw.choice([0, 1, 6]))]
        edges = [
            Edge(a, b, draw.choice(["", "next", "r", HOSTILE[3]]), draw.choice([1.0, 0.1]), draw.choice(["", HOSTILE[4]]))
            for a, b in ends
        ]
        old = [edge for edge in index.graph.edges() if draw.random() < 0.2]
        old = [draw.choice([edge, (edge.source, edge.target), (edge.source, edge.target, edge.relation)]) for edge in old]
        change = {"upsert": new, "delete": gone, "add_edges": edges, "delete_edges": old}
        if draw.random() < 0.3 and any(node.metadata.get("source") == "a.md" for node in map(index.graph.node, range(len(index)))):
            change |= {"delete_sources": ["a.md"], "add_edges": [], "upsert": new or [document(draw, "n0")]}
        index = index.with_changes(**change)
        update_index(postgres, "works", **{name: iter(given) for name, given in change.items()}, embedding=model)
        # What is found of a change of all: words that are in no text any more are not in another index.
        again = GraphIndex.from_nodes(
            [index.graph.node(row) for row in range(len(index))], index.graph.edges(), embedding=model, bm25="en"
        )
        found, expected = as_one_write_leaves(postgres, "works", again)
        assert found == expected
    assert update_index(postgres, "works", upsert=map(index.graph.node, range(len(index))), embedding=model) == UNCHANGED
    if not name_types(again.graph):
        asked = [" ".join(draw.choices(WORDS, k=3)) for _ in range(6)]
        remote = Retriever(open_index(postgres, "works", vectors=None), "bm25", k=6, backfill=False)
        local = Retriever(again, "bm25", k=6, backfill=False)
        for found, expected in zip(remote.retrieve_batch(asked), local.retrieve_batch(asked), strict=True):
            assert told(found) == told(expected)
            np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], rtol=1e-5)


def opened(database, name="works", **options):
    return Retriever(open_index(database, name, embedding=HashEmbedding(16)), **options)


def test_a_folder_that_changes_gives_the_answers_in_memory(postgres, pages):
    """Pages replaced by their sources, with the edges that were found in memory."""
    index = index_of(pages)
    held = [index.graph.node(row) for row in range(len(index))]
    update_index(postgres, "works", upsert=iter(held), add_edges=iter(index.graph.edges()), embedding=HashEmbedding(16))
    assert_same(opened(postgres).retrieve_batch(QUESTIONS), Retriever(index, WalkFusion()).retrieve_batch(QUESTIONS))
    retriever = opened(postgres)
    new = Node("loom.md", "A loom for silk is a machine, see the card.", "Loom", metadata={"path": "loom.md"})
    change = {"delete_sources": ["loom.md"], "upsert": [new], "add_edges": [("loom.md", "card.md", "links to")]}
    after = GraphIndex.from_graph(index.graph, embedding=HashEmbedding(16)).with_changes(**change)
    written = update_index(postgres, "works", **change, embedding=HashEmbedding(16))
    assert written.nodes.written == 1 and written.nodes.deleted == len(index) + 1 - len(after)
    assert_same(retriever.retrieve_batch(QUESTIONS), Retriever(after, WalkFusion()).retrieve_batch(QUESTIONS))


def test_texts_that_did_not_change_are_not_embedded_again(postgres):
    asked = []

    class Told(HashEmbedding):
        def embed_documents(self, texts):
            asked.extend(texts)
            return super().embed_documents(texts)

    first = [Node("a", "A loom.", "Loom"), Node("b", "A card."), Node("c", "A mill.", embedding=np.eye(16)[0] * 3)]
    assert update_index(postgres, "works", upsert=first, embedding=Told(16)).nodes == Changes(3)
    assert asked == ["Loom. A loom.", "A card."]
    asked.clear()
    second = [Node("b", "A card.", metadata={"year": 1801}), Node("a", "A loom.", "The loom"), Node("c", "A mill.")]
    assert update_index(postgres, "works", upsert=second, embedding=Told(16)).nodes == Changes(2)
    assert asked == ["The loom. A loom."]
    # Without a model too, where every vector is there.
    assert update_index(postgres, "works", upsert=[replace(second[0], metadata={})]).nodes == Changes(1)
    found = contents(postgres, "works")
    assert found[4]["c"] == str([1, *[0] * 15]).replace(" ", "") and len(found[4]) == 3
    # Nor for another title, where titles are not part of what is embedded.
    whole = GraphIndex.from_nodes(first[:2], embedding=HashEmbedding(16), include_titles=False)
    write_index(whole, postgres, "untitled")
    assert update_index(postgres, "untitled", upsert=[replace(first[0], title="The loom")]).nodes == Changes(1)


def test_the_words_of_a_new_index_are_read_as_in_memory(postgres):
    german = [Node("a", "Die Karten sind aus Pappe."), Node("b", "Der Webstuhl ist eine Maschine.")]
    texts = [node.text for node in german]
    own = BM25(texts, k1=0.9, stopwords=None)
    for number, (bm25, model) in enumerate([(True, None), (True, HashEmbedding(8)), ("en", None), (own, None)]):
        update_index(postgres, f"works {number}", upsert=german, bm25=bm25, embedding=model)
        expected = GraphIndex.from_nodes(german, embedding=model, bm25=bm25).bm25.settings
        assert PostgresCorpus(postgres, f"works {number}").settings == expected
    # Of an index that is there they stay.
    update_index(postgres, "works 3", upsert=[Node("c", "The cards are of cardboard.")], bm25="en")
    assert PostgresCorpus(postgres, "works 3").settings == own.settings


def test_what_cannot_be_meant_is_refused_and_nothing_is_written(postgres):
    nodes = [Node("a", "A loom.", metadata={"source": "a.md"}), Node("b", "A card."), Node("c", "A mill.")]
    update_index(postgres, "works", upsert=nodes, add_edges=[("a", "b", "reads")], embedding=HashEmbedding(16))
    update_index(postgres, "words", upsert=nodes)
    whole = contents(postgres, "works")
    named = HashEmbedding(16)
    named.name = "another-model"
    many = [Node(f"n{row}", "", embedding=np.ones(16)) for row in range(6000)]
    cases = [
        (UnknownNodeError, "'x' is not a node of the index 'works' of", {"delete": ["a", "x"]}),
        (UnknownNodeError, "No node was made from the source 'b.md'; see node_source", {"delete_sources": ["a.md", "b.md"]}),
        (
            UnknownNodeError,
            r"\('a', 'x', ''\) names 'x', which is not a node of this index",
            {"add_edges": [("a", "b"), ("a", "x")]},
        ),
        (UnknownNodeError, "'a', which is not a node", {"delete": ["a"], "add_edges": [("a", "b")]}),
        (InvalidArgumentError, r"\('b', 'a'\) is not an edge of this index", {"delete_edges": [("a", "b"), ("b", "a")]}),
        (InvalidArgumentError, r"\('a', 'b', 'r'\) is not an edge", {"delete_edges": [("a", "b", "r")]}),
        (DuplicateNodeError, "Id 'd'", {"upsert": [Node("d", ""), Node("d", "")]}),
        (DuplicateNodeError, "Id 'n0' is given twice", {"upsert": [*many, many[0]]}),
        (
            DuplicateNodeError,
            "Id 'a' is given twice",
            {"upsert": [replace(many[0], id="a"), *many, replace(many[0], id="a", text="z")]},
        ),
        (MissingSignalError, "1 new texts have no vectors, such as that of 'd'", {"upsert": [nodes[0], Node("d", "")]}),
        (
            DimensionMismatchError,
            "has vectors of width 16, and that of 'd' has 3",
            {"upsert": [Node("d", "", embedding=[1, 0, 0])]},
        ),
        (
            InvalidArgumentError,
            "of the model 'HashEmbedding', and embedding= is 'another-model'",
            {"upsert": nodes, "embedding": named},
        ),
        (InvalidArgumentError, "has no id; a change needs ids", {"upsert": [Document("A loom.")]}),
        (InvalidArgumentError, "upsert is 'a'; expected an iterable", {"upsert": "a"}),
        (InvalidArgumentError, "bm25 is False; expected True, a language", {"bm25": False}),
        (InvalidArgumentError, "has 2,601 bytes", {"upsert": [Node("y" * 2601, "")]}),
        (ZeroDivisionError, "by zero", {"upsert": (Node(str(1 // (3 - row)), "", embedding=np.ones(16)) for row in range(9))}),
        (ZeroDivisionError, "by zero", {"upsert": many, "add_edges": (("a", f"n{1 // (2 - row)}") for row in range(9))}),
    ]
    for kind, said, change in cases:
        with pytest.raises(kind, match=said):
            update_index(postgres, "works", **change)
        assert contents(postgres, "works") == whole
    with pytest.raises(DimensionMismatchError, match="The index 'words' of .* has no vectors, and these documents have some, or a"):
        update_index(postgres, "words", upsert=nodes, embedding=HashEmbedding(16))
    for change in ({}, {"upsert": iter([])}, {"delete": ["a"]}):
        with pytest.raises(EmptyGraphError, match="The index 'new' of .* is new, and an index needs at least one node"):
            update_index(postgres, "new", **change)
    with pytest.raises(InvalidArgumentError, match="has no index 'new'"):
        PostgresCorpus(postgres, "new")
    assert update_index(postgres, "works") == UNCHANGED


def test_an_index_may_be_emptied_and_filled_again(postgres):
    nodes = [Node("a", "A loom."), Node("b", "A card.")]
    update_index(postgres, "works", upsert=nodes, add_edges=[("a", "b")], embedding=HashEmbedding(16))
    assert update_index(postgres, "works", delete=["b", "a"]) == (Changes(deleted=2), Changes(deleted=1), 0, 0)
    with pytest.raises(EmptyGraphError, match="has no node"):
        open_index(postgres, "works")
    update_index(postgres, "works", upsert=nodes[::-1], embedding=HashEmbedding(16))
    assert [hit.id for hit in opened(postgres).retrieve("", filter={"$type": ""})] == ["b", "a"]


def test_writers_of_one_index_wait_and_those_of_others_do_not(postgres_server, postgres):
    update_index(postgres, "works", upsert=[Node("a", "A loom.")])
    update_index(postgres, "other", upsert=[Node("a", "A loom.")])
    begun, go = threading.Event(), threading.Event()

    def slow():
        yield ("a", "a", "r")
        begun.set()
        assert go.wait(20)

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(update_index, postgres, "works", add_edges=slow())
        assert begun.wait(20)
        second = pool.submit(update_index, postgres, "works", upsert=[Node("b", "A card.")])
        assert update_index(postgres, "other", upsert=[Node("b", "A card.")]).nodes == Changes(1)
        time.sleep(0.3)
        assert not second.done() and PostgresCorpus(postgres, "works").nodes == 1
        go.set()
        assert first.result(20).edges == Changes(1) and second.result(20).nodes == Changes(1)


@pytest.mark.parametrize("name", ["works", "another"])
def test_a_change_without_documents_is_of_what_another_writer_has_just_written(postgres, monkeypatch, name):
    whole = GraphIndex.from_texts(["A loom.", "A card.", "A mill."], ids=list("abc"), embedding=HashEmbedding(8))
    update_index(postgres, name, upsert=[Node("a", "A loom."), Node("b", "A card.")])
    plain = postgres.writing

    def writing():
        monkeypatch.undo()
        write_index(whole, postgres, "works", replace=True)
        return plain()

    monkeypatch.setattr(postgres, "writing", writing)
    assert update_index(postgres, "works", delete=["b"]).nodes == Changes(deleted=1, moved=1)
    found, expected = as_one_write_leaves(postgres, "works", whole.with_changes(delete=["b"]))
    assert found == expected and PostgresCorpus(postgres, "works").dimension == 8


def test_nodes_without_a_vector_are_told_once_where_another_writer_comes_first(postgres, monkeypatch, caplog):
    update_index(postgres, "another", upsert=[Node("a", "A loom.")])
    plain = postgres.writing

    def writing():
        monkeypatch.undo()
        update_index(postgres, "works", upsert=[Node("a", "A loom.", embedding=np.eye(8)[0])])
        return plain()

    monkeypatch.setattr(postgres, "writing", writing)
    update_index(
        postgres, "works", upsert=[Node("b", "A card.", embedding=np.zeros(8)), Node("c", "A mill.", embedding=np.eye(8)[1])]
    )
    assert [message[:11] for message in caplog.messages] == ["1 of 2 node"]


def test_vectors_of_an_unknown_model_replace_its_name(postgres):
    write_index(GraphIndex.from_texts(["A loom."], embedding=HashEmbedding(16)), postgres, "works")
    write_index(GraphIndex.from_texts(["A loom."], vectors=np.eye(1, 8)), postgres, "works", replace=True)
    model = HashEmbedding(8)
    model.name = "another"
    assert update_index(postgres, "works", upsert=[Node("a", "A card.")], embedding=model).nodes.written == 1


def test_of_ties_the_first_places_are_found(postgres):
    """Whatever the order in which nodes were written."""
    for ids in ("abcdefgh", "hgfedcba"):
        index = GraphIndex.from_texts(["A loom."] * 8, ids=list(ids), vectors=np.ones((8, 4)) / 2)
        write_index(index, postgres, "works")
        corpus = PostgresCorpus(postgres, "works")
        assert [name for name, _ in PostgresWords(corpus).search(["loom"], 3)[0]] == list(ids[:3])
        assert PostgresVectors(corpus).search(np.ones((2, 4)), 3) == [list(ids[:3])] * 2


def test_a_reader_is_answered_while_others_write_before_each_of_its_reads(postgres_server, postgres, monkeypatch):
    update_index(postgres, "works", upsert=[Node("a", "A loom, state 0."), Node("b", "A card, state 0.")], add_edges=[("a", "b")])
    retriever, plain, count = Retriever(open_index(postgres, "works")), PostgresDatabase.read, 0
    with postgres_server.open(postgres.schema) as other:

        def read(database, *statements):
            nonlocal count
            if database is postgres:
                count += 1
                changed = [Node("a", f"A loom, state {count}."), Node("b", f"A card, state {count}.")]
                update_index(other, "works", upsert=changed)
            return plain(database, *statements)

        monkeypatch.setattr(PostgresDatabase, "read", read)
        texts = [hit.text for hit in retriever.retrieve("loom card")]
        assert count >= 2 and sorted(texts) == [f"A card, state {count}.", f"A loom, state {count}."]
        assert [hit.text for hit in retriever.retrieve("", filter={"$id": "a"})] == [f"A loom, state {count}."]


def test_an_index_is_opened_again_any_number_of_times(postgres):
    """More often than functions can be nested."""
    update_index(postgres, "works", upsert=[Node("a", "A loom.")])
    fresh = open_index(postgres, "works")

    def again():
        made = copy(fresh)
        made._reopen, made._newer = again, []
        return made

    first = open_index(postgres, "works", reopen=again)
    assert all(first.newest.open_again() for _ in range(2000))
    assert first.newest is not first and first.newest.newest is first.newest and len(first.newest) == 1
