"""GRAG's search of ego graphs against the form written out, and a worked example."""

import random

import pytest

from graph_retrievers import EgoGRAG, GraphIndex, Pipeline, Retriever
from graph_retrievers.operators import VectorSearch
from graph_retrievers.systems.ego_grag import EgoGraphSearch
from tests.references.ego_grag import search

AXES = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0], [0.8, -0.6]]


def index_of(rows, vectors):
    texts = [f"t{row}" for row in range(len(vectors))]
    return GraphIndex.from_texts(texts, edges=[(str(a), str(b)) for a, b in rows], vectors=vectors, metric="cosine", bm25=False)


def found(index, system):
    return Retriever(index, system, k=99, backfill=False).retrieve("?", vector=[1.0, 0.0])


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        size = rng.randrange(1, 12)
        rows = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(2 * size))]
        vectors = [rng.choice(AXES) for _ in range(size)]
        centres, graphs, hops = rng.randrange(1, 6), rng.randrange(1, 4), rng.randrange(1, 4)
        started = sorted(range(size), key=lambda row: (-vectors[row][0], row))[:centres]
        expected = search([1.0, 0.0], started, rows, vectors, graphs, hops)
        hits = found(index_of(rows, vectors), EgoGRAG(centres=centres, graphs=graphs, hops=hops))
        assert [hit.id for hit in hits] == [str(node) for node, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
        edges = {frozenset(pair) for pair in rows}
        for hit in hits:
            path = [int(node) for node in hit.path.nodes]
            assert path[0] in started and len(path) <= hops + 1
            assert all(frozenset(step) in edges for step in zip(path, path[1:], strict=False))


def test_ego_graphs_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_ego_graphs_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Around 0: vectors (1, 0) and (-1, 0), whose mean is nothing. Around 2: (0.8, -0.6) and (0.6, 0.8): mean (0.7, 0.1),
    # cosine 0.99. So only the second ego graph is kept, although 0 is nearest by itself.
    index = index_of([(0, 1), (2, 3)], [AXES[0], AXES[3], AXES[4], AXES[1]])
    hits = found(index, EgoGRAG(centres=2, graphs=1, hops=1))
    assert [(hit.id, round(hit.score, 2), hit.path.nodes) for hit in hits] == [("2", 0.8, ("2",)), ("3", 0.6, ("2", "3"))]


def test_an_ego_graph_has_no_more_nodes_than_asked_for():
    index = index_of([(0, row) for row in range(1, 9)], [AXES[0]] + [AXES[1]] * 8)
    egos = Pipeline(VectorSearch(1, returned=False), EgoGraphSearch(1, candidates=4))
    assert [hit.id for hit in found(index, egos)] == ["0", "1", "2", "3"]


def test_centres_need_not_pass_the_filter_of_the_result():
    retriever = Retriever(index_of([(0, 1)], AXES[:2]), EgoGRAG(centres=1), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0], filter={"$id": "1"}, seed_filter={"$id": "0"})
    assert [hit.path.nodes for hit in hits] == [("0", "1")]


def test_a_batch_is_its_questions_one_by_one():
    retriever = Retriever(index_of([(0, 1), (1, 2), (3, 4)], AXES), EgoGRAG(centres=2, graphs=1))
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"], vectors=vectors)]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve("?", vector=vector)] for vector in vectors]
