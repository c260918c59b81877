"""QAFD-RAG's flow diffusion against the rounds written out, and a worked example."""

import random

import pytest

from graph_retrievers import QAFD, Edge, GraphIndex, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.systems.qafd import FlowDiffusion
from tests.references.qafd import diffuse

AXES = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]]


def index_of(size, rows, vectors):
    edges = [Edge(str(source), str(target), weight=weight) for source, target, weight in rows]
    return GraphIndex.from_texts([f"t{row}" for row in range(size)], edges=edges, vectors=vectors, metric="cosine", bm25=False)


def found(index, system, k=99):
    return Retriever(index, system, k=k, backfill=False).retrieve("?", vector=[1.0, 0.0])


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        size = rng.randrange(1, 12)
        rows = [
            (rng.randrange(size), rng.randrange(size), rng.choice([0.5, 1.0, 1.0, 2.0])) for _ in range(rng.randrange(3 * size))
        ]
        vectors = [rng.choice(AXES) for _ in range(size)]
        cosine = [vector[0] for vector in vectors]
        seeds = sorted(range(size), key=lambda row: (-cosine[row], row))[: rng.randrange(1, 4)]
        given = {"mass": rng.choice([2.5, 7.0]), "query_weight": rng.choice([0.0, 0.25, 2.0]), "rounds": rng.randrange(1, 12)}
        expected = diffuse(sorted(seeds), rows, cosine, **given)
        hits = found(index_of(size, rows, vectors), QAFD(seeds=len(seeds), **given))
        assert [hit.id for hit in hits] == [str(node) for node, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], rel=1e-6, abs=1e-6)


def test_flows_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_flows_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Mass 4 at the seed 0, whose neighbours 1 (cosine 0.6) and 2 (cosine -1) have the weights 1 + 0.9 and 1 + 0.5 with b = 0.5:
    # likeness is 1, 0.8 and 0. It sends 3 of 4: 3 / 3.4 is its score, and 1.676 and 1.324 arrive. Both send what is above 1 back.
    index = index_of(3, [(0, 1, 1.0), (2, 0, 1.0)], [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])
    hits = found(index, QAFD(seeds=1, mass=4.0, query_weight=0.5, rounds=1))
    assert [(hit.id, round(hit.score, 4), hit.path.nodes) for hit in hits] == [
        ("0", 0.8824, ("0",)),
        # By the mass that they hold.
        ("1", 0.0, ("0", "1")),
        ("2", 0.0, ("0", "2")),
    ]
    hits = found(index, QAFD(seeds=1, mass=4.0, query_weight=0.5, rounds=2))
    assert [(hit.id, round(hit.score, 4)) for hit in hits] == [("0", 0.8824), ("1", 0.3560), ("2", 0.2157)]


def test_only_a_part_of_a_long_chain_is_touched():
    index = index_of(200, [(row, row + 1, 1.0) for row in range(199)], [AXES[0]] + [AXES[2]] * 199)
    hits = found(index, QAFD(seeds=1, mass=10.0, rounds=50), k=200)
    assert 9 <= len(hits) <= 12 and hits[0].id == "0"


def test_a_batch_is_its_questions_one_by_one_and_wrong_numbers_are_refused():
    index = index_of(4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)], AXES)
    retriever = Retriever(index, QAFD(seeds=1))
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"], vectors=vectors)]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve("?", vector=vector)] for vector in vectors]
    for given in ({"mass": 0}, {"mass": float("nan")}, {"query_weight": -1}, {"epsilon": 0}):
        with pytest.raises(InvalidArgumentError, match="must be above 0"):
            FlowDiffusion(**{"mass": 1.0} | given)
