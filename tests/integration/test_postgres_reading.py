"""An index read from PostgreSQL into memory: the same as the one that was written."""

import random

import numpy as np
import pytest

import llama_graph_retrievers
from graph_retrievers import GAR, Edge, GraphIndex, HippoRAG, HostedEmbedding, LinearRAG, Node, Retriever, WalkFusion, minilm
from graph_retrievers.errors import DatabaseUnreachableError, DeviceError, InvalidArgumentError
from graph_retrievers.graph.corpus_graph import COLUMNS
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresDatabase,
    database,
    open_index,
    read_index,
    reading,
    update_index,
    write_index,
)
from tests.helpers import HashEmbedding, WordOverlap
from tests.postgres import drop
from tests.remote import QUESTIONS, index_of, question_vectors, random_corpus

TEXTS = [
    "",
    "nul \x00 one \x01 two \x02\x03",
    "quotes ' \" \\ -- $$ %s {}",
    "Жакард 자카드 \U0001f9f6 \u2028",
    "tab\t line\n return\r",
]
VALUES = [None, True, 1, 2.5, 10**30, "\x00", ["a", {"b": [1, None]}], {"c.d": {"e": "\\u0000"}}, -0.0, 1e300]


def told(graph):
    """All of a graph."""
    return [getattr(graph, name) for name in COLUMNS], graph.edges(), graph.include_titles


def strange_index(seed):
    """An index of random nodes and edges with whatever a text or a value can be; of some, nodes without a vector, or none."""
    draw = random.Random(seed)
    nodes = [
        Node(
            f"{row}{draw.choice(TEXTS)}",
            draw.choice(TEXTS) + draw.choice(["loom", "card", "mill"]),
            draw.choice(TEXTS),
            draw.choice(["", "film", "na\x00me"]),
            {f"field {draw.choice(TEXTS)}": draw.choice(VALUES) for _ in range(draw.randrange(3))},
            draw.choice([{}, {"class_name": "TextNode", "kept": draw.choice(VALUES)}]),
        )
        for row in range(draw.randrange(1, 25))
    ]
    ends = [(draw.choice(nodes).id, draw.choice(nodes).id) for _ in range(draw.randrange(40))]
    edges = [Edge(*pair, draw.choice(["", "r", "na\x00me"]), draw.choice([0.5, 1.0, 3.0]), draw.choice(TEXTS)) for pair in ends]
    vectors = np.random.default_rng(seed).normal(size=(len(nodes), 4)).astype(np.float32)
    vectors[draw.sample(range(len(nodes)), len(nodes) // 3)] = 0
    if draw.random() < 0.3 or not vectors.any():
        return GraphIndex.from_nodes(nodes, edges, include_titles=draw.random() < 0.5)
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", include_titles=draw.random() < 0.5)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_read_is_what_was_written(postgres, monkeypatch, seed):
    # Several parts of each.
    monkeypatch.setattr(reading, "BLOCK", 4)
    monkeypatch.setattr(database, "_ROWS", 3)
    index = strange_index(seed)
    write_index(index, postgres, "works")
    found = read_index(postgres, "works")
    assert told(found.graph) == told(index.graph)
    assert set(found.signals) == set(index.signals) and found.bm25.settings == index.bm25.settings
    for name in index.signals:
        ours, theirs = (each.signals[name].state()[0] for each in (found, index))
        for tensor in theirs:
            np.testing.assert_allclose(ours[tensor], theirs[tensor], rtol=1e-6, atol=1e-7)


@pytest.fixture
def works(postgres):
    """A random corpus, its index in memory, and the same in PostgreSQL."""
    corpus = random_corpus(3, 80, 160)
    index = index_of(corpus)
    write_index(index, postgres, "works")
    return corpus, index


@pytest.mark.parametrize("system", [WalkFusion(), HippoRAG(), LinearRAG(), GAR()], ids=lambda system: system.name)
def test_the_answers_are_those_of_the_index_that_was_written(postgres, works, system):
    corpus, index = works
    models = {"embedding": HashEmbedding(6), "relevance": WordOverlap()}
    read = read_index(postgres, "works", edge_signals=True, **models)
    built = GraphIndex.from_graph(
        index.graph, vectors=index.dense.vectors, bm25=index.bm25, edge_signals=True, metric="cosine", **models
    )
    vectors = question_vectors(corpus)
    batches = [Retriever(each, system).retrieve_batch(QUESTIONS, vectors=vectors) for each in (read, built)]
    for found, expected in zip(*batches, strict=True):
        assert [(hit.id, hit.path.nodes) for hit in found] == [(hit.id, hit.path.nodes) for hit in expected] and len(found)
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], rtol=1e-5)


def test_it_is_of_one_state_and_does_not_follow(postgres, monkeypatch):
    update_index(postgres, "works", upsert=[Node("a", "loom"), Node("b", "card")], add_edges=[("a", "b")])
    blocks = reading._blocks

    def changed(corpus):
        # Another writer comes after the first nodes were read.
        for place, block in enumerate(blocks(corpus)):
            yield block
            if not place:
                update_index(postgres, "works", upsert=[Node("c", "mill")], delete=["b"])

    monkeypatch.setattr(reading, "_blocks", changed)
    monkeypatch.setattr(reading, "BLOCK", 1)
    before = PostgresCorpus(postgres, "works").version
    found = read_index(postgres, "works")
    assert found.graph.ids == ["a", "b"] and [(edge.source, edge.target) for edge in found.graph.edges()] == [("a", "b")]
    assert PostgresCorpus(postgres, "works").version == before + 1
    monkeypatch.undo()
    assert read_index(postgres, "works").graph.ids == ["a", "c"]


def test_a_model_is_known_by_its_name_however_it_is_given(postgres, caplog):
    write_index(GraphIndex.from_texts(["a loom", "a card"], embedding=minilm()), postgres, "works")
    for model in ("minilm", llama_graph_retrievers.minilm(), HostedEmbedding(minilm())):
        read_index(postgres, "works", embedding=model)
    assert not caplog.records
    read_index(postgres, "works", embedding=HashEmbedding(384))
    told = "The vectors of the index 'works' were made by all-MiniLM-L6-v2, and questions are embedded by HashEmbedding."
    assert [record.getMessage().startswith(told) for record in caplog.records] == [True]
    write_index(GraphIndex.from_texts(["a loom", "a card"]), postgres, "words alone")
    model = HashEmbedding(8)
    found = read_index(postgres, "words alone", embedding=model)
    assert found.embedding is model and set(found.signals) == {"bm25"} and len(caplog.records) == 1


def test_a_connection_that_is_lost_while_edges_are_read_is_told_of(postgres, monkeypatch):
    texts, edges = ["a loom", "a card", "a mill"], reading._edges
    write_index(GraphIndex.from_texts(texts, edges=[("0", "1", name) for name in "abcdef"]), postgres, "works")
    monkeypatch.setattr(database, "_ROWS", 1)

    def ended(state, *given):
        for place, edge in enumerate(edges(state, *given)):
            if not place:
                with postgres.writing() as writing:
                    writing.run("SELECT pg_terminate_backend(%(pid)s)", pid=state._connection.info.backend_pid)
            yield edge

    monkeypatch.setattr(reading, "_edges", ended)
    with pytest.raises(DatabaseUnreachableError, match="the connection was lost"):
        read_index(postgres, "works")
    monkeypatch.undo()
    assert len(read_index(postgres, "works").graph.edges()) == 6


def test_of_an_address_the_connections_are_closed_and_of_a_database_not(postgres_server, monkeypatch):
    closed, close = [], PostgresDatabase.close
    monkeypatch.setattr(PostgresDatabase, "close", lambda self: closed.append(self.url) or close(self))
    opened = PostgresDatabase(postgres_server.url)
    write_index(GraphIndex.from_texts(["a loom"]), opened, "works")
    assert len(read_index(opened, "works")) == 1 and not closed
    assert len(read_index(postgres_server.url, "works")) == 1 and closed == [postgres_server.url]
    drop(opened)


def test_progress_is_shown_if_asked_for(postgres, monkeypatch, capsys):
    monkeypatch.setattr(reading, "BLOCK", 2)
    write_index(GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1", "reads")]), postgres, "works")
    read_index(postgres, "works", edge_signals=True)
    assert not capsys.readouterr().err
    read_index(postgres, "works", show_progress=True)
    assert "reading nodes: 100%" in (shown := capsys.readouterr().err) and "3/3" in shown


def test_what_cannot_be_read_is_refused(postgres):
    texts = ["a loom", "a card"]
    graph = GraphIndex.from_texts(texts).graph
    write_index(GraphIndex.from_graph(graph, bm25=BM25(["a loom of cards", "a card"])), postgres, "other words")
    with pytest.raises(DeviceError, match="'nowhere' is not a torch device"):
        read_index(postgres, "other words", device="nowhere")
    with pytest.raises(InvalidArgumentError, match="words of the index 'other words' are those of other texts than its nodes have"):
        read_index(postgres, "other words")
    with postgres.writing() as writing:
        writing.run("UPDATE {corpora} SET settings = (settings::jsonb - 'splitting')::json")
    with pytest.raises(InvalidArgumentError, match="were cut in another way by an earlier version"):
        read_index(postgres, "other words")
    with pytest.raises(InvalidArgumentError, match="has no index 'nothing'"):
        read_index(postgres, "nothing")
    for opened in (read_index, open_index):
        with pytest.raises(InvalidArgumentError, match="database is 5; expected a PostgresDatabase"):
            opened(5, "nothing")
