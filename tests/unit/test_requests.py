"""Requests: on stores they are answered as in memory, and each for itself, whatever is asked beside it."""

import zlib

import numpy as np
import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.core.driver import run
from graph_retrievers.core.requests import (
    ByTitle,
    Completion,
    Contents,
    Degree,
    Edges,
    EdgesAmong,
    EdgeTexts,
    Nearest,
    NearestByCosine,
    Neighbors,
    Relevance,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Titled,
    Vectors,
    WeightedNeighbors,
    Weights,
    WithQuery,
)
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.language import as_language_model
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.stores.remote.backend import RemoteBackend
from graph_retrievers.stores.remote.queries import StoredQueries
from tests.remote import QUESTIONS, CountingRelevance, MemoryGraph, MemoryVectors, index_of, question_vectors, random_corpus


def embed(texts):
    return [np.random.default_rng(zlib.crc32(text.encode())).normal(size=6).tolist() for text in texts]


NODES = np.array([3, 0, 1, 17, 40, 2, 29])
REQUESTS = [
    *(kind(NODES, parallel) for kind in (EdgesAmong, Neighbors, Degree) for parallel in (True, False)),
    *(Steps(NODES, *step, most) for step in (("film", None), (None, "r1"), ("person", "r2")) for most in (0, 9, 30, 10_000)),
    *(kind(NODES) for kind in (WeightedNeighbors, Weights, Vectors, Similarity, Scores, Texts, Contents, Relevance)),
    *(Titled(("title 3", "Title 9", "Nobody", "?"), fold) for fold in (True, False)),
    *(ByTitle(("TITLE 1", " title 16", "Title 3", "title 17", ""), kind) for kind in ("film", "person")),
    *(NearestByCosine(9, exclude_types=types) for types in ((), ("film", "place"))),
    *(Nearest(9, signal, types=types) for signal in ("dense", "bm25") for types in ((), ("film", "place"))),
    *(Nearest(9, "bm25", text="word3 word8", among=among, returned=True) for among in ("start", "name", "walk", "return")),
    *(kind(NODES, incoming=True) for kind in (Neighbors, Degree)),
    TermScores(NODES),
    Scores(NODES, "bm25", "word1 word2"),
    Scores(NODES, text="word1 word2"),
    *(Degree(NODES, exclude_types=types) for types in (("film",), ("person", "place"))),
    Texts(NODES, titles=True),
    *(
        WithQuery(asked, "word3 word8", types, returned=returned)
        for asked in (Nearest(9), Nearest(9, "bm25", returned=True), NearestByCosine(9), Similarity(NODES))
        for types, returned in (((), True), ((), False), (("film",), False), (("place",), True))
    ),
]
FILTERS = {"filter": {"$type": {"$ne": "film"}}, "seed_filter": {"year": {"$gte": 1994}}, "traversal_filter": {"$type": "place"}}


@pytest.mark.parametrize("given", [{}, {"filter": FILTERS["filter"]}, FILTERS], ids=["all", "filter", "filters"])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{type(request).__name__} {REQUESTS.index(request)}")
def test_each_request_is_answered_as_in_memory(request_, given):
    corpus = random_corpus(7, 80, 160)
    index = index_of(corpus, CountingRelevance(), embedding=embed)
    stores = MemoryGraph(index.graph), MemoryVectors(index.graph.ids, corpus[2])
    remote = RemoteIndex(stores[0], vectors=stores[1], signals={"bm25": index.bm25}, relevance=CountingRelevance(), embedding=embed)
    own = question_vectors(corpus)[:2]
    backend = RemoteBackend(StoredQueries.of(remote, QUESTIONS[:2], vectors=own), given)
    backend.pages.positions.update(range(80))
    backend.pages.fetch()
    memory = MemoryBackend(Queries.of(index, QUESTIONS[:2], vectors=own, **given))
    trips = backend.pages.trips["graph database"]
    found, expected = (run(each, [alone(request_), alone(request_)]) for each in (backend, memory))
    assert_alike(found, expected)
    assert backend.pages.trips["graph database"] <= trips + 1


@pytest.mark.parametrize("given", [{}, FILTERS], ids=["all", "filters"])
def test_edges_have_the_ends_relations_weights_and_texts_of_memory(given):
    corpus = random_corpus(7, 80, 160)
    index = index_of(corpus)
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=MemoryVectors(index.graph.ids, corpus[2]))

    def read(question):
        edges = yield Edges(NODES)
        texts = yield EdgeTexts(edges.row)
        # Numbers of relations are those of a backend.
        names = question.relation_names(edges.relation)
        return [*edges[:3], names, edges.weight, question.ends(edges.row), texts]

    own = question_vectors(corpus)[:1]
    backends = (
        RemoteBackend(StoredQueries.of(remote, QUESTIONS[:1], vectors=own), given),
        MemoryBackend(Queries.of(index, QUESTIONS[:1], vectors=own, **given)),
    )
    found, expected = (run(each, [read(each.questions()[0])])[0] for each in backends)
    assert_alike(found, expected)
    assert len(expected[0]) > 10 and {"r0", "r1"} <= set(expected[3]) and len(set(expected[4])) > 1


def test_predecessors_have_an_edge_to_the_node():
    """Each counts once, and no node is its own."""
    edges = [("0", "1"), ("2", "1"), ("2", "1", "again"), ("1", "1"), ("1", "3"), ("3", "0")]
    index = GraphIndex.from_texts(["a loom"] * 4, vectors=np.eye(4), edges=edges)
    for given, expected in (({}, [[1, 1, 2], [0, 2, 3]]), ({"traversal_filter": {"$id": {"$ne": "3"}}}, [[1, 1], [0, 2]])):
        queries = Queries.of(index, ["?"], vectors=np.ones((1, 4)), **given)
        (near,) = run(MemoryBackend(queries), [alone(Neighbors(np.array([2, 1, 0]), incoming=True))])
        assert near.owner.tolist() == expected[0] and near.node.tolist() == expected[1]


def test_what_some_questions_of_a_batch_ask_is_answered_for_these():
    corpus = random_corpus(7, 80, 160)
    index, own = index_of(corpus), question_vectors(corpus)[:3]
    queries = Queries.of(index, QUESTIONS[:3], vectors=own)
    request = Nearest(9, types=("film", "place"))
    answers = MemoryBackend(queries).nearest([(2, request), (1, request)])
    for place, answer in zip((2, 1), answers, strict=True):
        one = Queries.of(index, QUESTIONS[place : place + 1], vectors=own[place : place + 1])
        assert_alike([answer], MemoryBackend(one).nearest([(0, request)]))


def test_the_neighbours_of_many_nodes_are_those_of_each():
    edges = [(str(row), str((row + 1) % 5000)) for row in range(5000)]
    index = GraphIndex.from_texts(["a loom"] * 5000, vectors=np.ones((5000, 1)), edges=edges)
    backend = MemoryBackend(Queries.of(index, ["?", "?"], vectors=np.ones((2, 1))))
    parts = np.arange(100, 2600), np.arange(300, 2800)
    for near, nodes in zip(backend.neighbors([(0, Neighbors(parts[0])), (1, Neighbors(parts[1]))]), parts, strict=True):
        assert near.owner.tolist() == np.repeat(np.arange(2500), 2).tolist()
        assert near.node.tolist() == np.stack([nodes - 1, nodes + 1], 1).ravel().tolist()


MIX = np.full((len(NODES), len(NODES)), 1 / len(NODES), np.float32)
OTHER_RELEVANCE = as_relevance_model(lambda pairs: [float(len(text)) for _, text in pairs])
# Such models read the schema at the end of the prompt.
COUNTS, DOUBLES = (as_language_model(lambda prompt, times=times: str(times * len(prompt))) for times in (1, 2))
PAIRS = [
    *((kind(NODES, parallel=True), kind(NODES)) for kind in (EdgesAmong, Neighbors, Degree)),
    *((kind(NODES), kind(NODES, incoming=True)) for kind in (Neighbors, Degree)),
    (Nearest(9), Nearest(9, returned=True)),
    (Nearest(9), Nearest(5, "bm25")),
    (Nearest(9), Nearest(9, types=("film", "place"))),
    (Nearest(9), Nearest(9, text="word3 word8")),
    *((Nearest(9, "bm25"), Nearest(9, "bm25", among=among)) for among in ("walk", "return")),
    (Nearest(9, text="word3 word8"), Nearest(9, text="word4")),
    (NearestByCosine(9), NearestByCosine(7, exclude_types=("person",))),
    (NearestByCosine(9), NearestByCosine(9, "word3 word8")),
    (NearestByCosine(9), NearestByCosine(5)),
    (Scores(NODES), Scores(NODES, "bm25")),
    (Scores(NODES), Scores(NODES[:3], text="word3 word8")),
    (TermScores(NODES), TermScores(NODES, "dense")),
    (Relevance(NODES), Relevance(NODES, model=OTHER_RELEVANCE)),
    (Relevance(NODES, MIX, 0.2), Relevance(NODES, MIX, 0.8)),
    (Relevance(NODES), Relevance(NODES, texts=["word1"] * len(NODES))),
    (WithQuery(Nearest(9), "word3"), WithQuery(Nearest(9), "word4")),
    (WithQuery(Nearest(9, returned=True), "word3"), WithQuery(Nearest(9, returned=True), "word3", returned=True)),
    (WithQuery(NearestByCosine(9), "word3"), WithQuery(NearestByCosine(9), "word3", ("person",))),
    (WithQuery(Nearest(9), "word3"), WithQuery(Similarity(NODES), "word3")),
    (WithQuery(Nearest(9), "word3"), WithQuery(Nearest(9, "bm25"), "word3")),
    *((Completion(COUNTS, "one", {"type": "number"}), Completion(model, "one", {})) for model in (COUNTS, DOUBLES)),
    (WithQuery(Similarity(NODES), "word3"), WithQuery(Similarity(NODES[:3]), "word3")),
]


def answers(algorithms, places=(0, 1, 2)):
    """What algorithms, each for the question at one of some places, return in one batch."""
    corpus = random_corpus(7, 80, 160)
    index, own = index_of(corpus, CountingRelevance(), embedding=embed), question_vectors(corpus)
    queries = Queries.of(index, [QUESTIONS[place] for place in places], vectors=own[list(places)], **FILTERS)
    return run(MemoryBackend(queries), algorithms)


# In a batch, the scores by terms have columns of zeros for those of longer questions.
ALONE = [request for request in (*REQUESTS, *(pair[1] for pair in PAIRS)) if not isinstance(request, TermScores)]


@pytest.mark.parametrize("request_", ALONE, ids=lambda request: f"{type(request).__name__} {ALONE.index(request)}")
def test_a_question_of_a_batch_is_answered_as_alone(request_):
    _, found, _ = answers([alone(), alone(request_), alone()])
    assert_alike(found, answers([alone(request_)], (1,))[0])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{type(pair[0]).__name__} {PAIRS.index(pair)}")
def test_requests_that_differ_are_answered_each_for_itself(pair):
    (left,), (right,) = (answers([alone(request)], (1,)) for request in pair)
    with pytest.raises(AssertionError):
        assert_alike(left, right)
    for first, second, expected in ((*pair, (left, right)), (*pair[::-1], (right, left))):
        (both,) = answers([alone((first, second))], (1,))
        assert_alike(both, expected)
        assert_alike(answers([alone(first), alone(second)], (1, 1)), list(expected))


def alone(request=()):
    return (yield request)


def assert_alike(found, expected):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_alike(*pair)
    elif isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)
