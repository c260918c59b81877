"""QAFD-RAG's flow diffusion against Algorithm 2 written out, and worked examples."""

import math
import random

import pytest

from graph_retrievers import QAFD, Edge, GraphIndex, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from tests.references.qafd import diffuse

AXES = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]]


def index_of(size, rows, vectors):
    edges = [Edge(str(source), str(target), weight=weight) for source, target, weight in rows]
    return GraphIndex.from_texts([f"t{row}" for row in range(size)], edges=edges, vectors=vectors, metric="cosine", bm25=False)


def found(index, system, k=99):
    return Retriever(index, system, k=k, backfill=False).retrieve("?", vector=[1.0, 0.0])


def check(seed, cases):
    rng, rests = random.Random(seed), 0
    for _ in range(cases):
        size = rng.randrange(1, 14)
        rows = [
            (rng.randrange(size), rng.randrange(size), rng.choice([0.5, 1.0, 1.0, 2.0])) for _ in range(rng.randrange(3 * size))
        ]
        turned = [[math.cos(angle), math.sin(angle)] for angle in [rng.uniform(0, 3) for _ in range(4)]]
        vectors = [rng.choice(rng.choice([AXES, turned])) for _ in range(size)]
        count = rng.randrange(1, 4)
        given = {"mass": rng.choice([1.0, 1.5, 2.5, 7.0]), "query_weight": rng.choice([0.0, 0.25, 2.0])}
        given["rounds"] = rng.choice([1, 2, 5, 40])
        hits = found(index_of(size, rows, vectors), QAFD(seeds=count, **given))
        seeds = sorted(range(size), key=lambda row: (-vectors[row][0], row))[:count]
        expected, rests_here = diffuse(seeds, rows, vectors, [1.0, 0.0], **given)
        assert [hit.id for hit in hits] == [str(node) for node, _, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score, _ in expected], rel=1e-5, abs=1e-6)
        assert [tuple(map(int, hit.path.nodes)) for hit in hits] == [path for _, _, path in expected]
        assert any("before it came to rest" in note for note in hits.notes) != rests_here
        rests += rests_here
    assert 0 < rests < cases


def test_flows_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_flows_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # The seed 0 has two neighbours, so it can hold 2; with 1.5 times that it holds 3, and sends 1. Its likeness to the question is
    # 1, that of node 1 is 0.8, and that of node 2, at a right angle, 0.5; so are their likenesses to node 0. With b = 0.5 the edges
    # weigh 0.8 (1 + 0.5 * 1.8) = 1.52 and 0.5 (1 + 0.5 * 1.5) = 0.875, in all 2.395: the score of 0 is 1 / 2.395. All is at rest.
    index = index_of(3, [(0, 1, 1.0), (2, 0, 1.0)], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    hits = found(index, QAFD(seeds=1, mass=1.5, query_weight=0.5))
    assert [(hit.id, round(hit.score, 4), hit.path.nodes) for hit in hits] == [
        ("0", 0.4175, ("0",)),
        # By the mass that they hold.
        ("1", 0.0, ("0", "1")),
        ("2", 0.0, ("0", "2")),
    ]
    assert not hits.notes
    # With twice its capacity it sends 2: node 1 gets 2 * 1.52 / 2.395 = 1.269, and returns 0.269 for a score of 0.269 / 1.52.
    hits = found(index, QAFD(seeds=1, mass=2.0, query_weight=0.5, rounds=2))
    assert [(hit.id, round(hit.score, 4)) for hit in hits] == [("0", 0.8351), ("1", 0.1772), ("2", 0.0)]
    assert hits.notes == ("qafd-rag: the flow was stopped after 2 rounds, before it came to rest",)


def test_weights_of_edges_and_their_likeness_count():
    vectors = [[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]]
    heavy = found(index_of(3, [(0, 1, 1.0), (0, 2, 2.0)], vectors), QAFD(seeds=1, mass=1.3))
    assert [hit.id for hit in heavy] == ["0", "2", "1"]
    # Nodes 2 and 3 are equally like the question, but node 3 is like node 1, which sends to them.
    vectors = [[0.8, 0.6, 0.0], [0.8, 0.0, 0.6], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    index = index_of(4, [(1, 2, 1.0), (1, 3, 1.0)], [[0.1, 1.0, 0.0], *vectors[1:]])
    hits = Retriever(index, QAFD(seeds=1, mass=1.2), backfill=False).retrieve("?", vector=[1.0, 0.0, 0.0])
    assert [hit.id for hit in hits] == ["1", "3", "2"]


def test_a_part_that_cannot_hold_its_mass_ends_its_flow():
    # Two seeds: 0 and 1 are a part of their own, which can hold 2 of a mass of 10; 2 is at the end of a long chain.
    rows = [(0, 1, 1.0), *((row, row + 1, 1.0) for row in range(2, 40))]
    vectors = [[1.0, 0.0], AXES[2], [1.0, 0.0], *[AXES[2]] * 38]
    hits = found(index_of(41, rows, vectors), QAFD(seeds=2), k=50)
    assert not hits.notes and {"0", "1", "2"} < {hit.id for hit in hits}
    # It sent 9 once: without an end it would send back and forth until the last round.
    assert next(hit.score for hit in hits if hit.id == "0") == pytest.approx(9 / (0.5 * (1 + 0.25 * 1.5)))


def test_mass_does_not_return_to_a_seed_that_may_not_be_visited():
    nodes = [Node(name, name, metadata={"shown": name != "a"}) for name in "abcd"]
    edges = [("a", "b"), ("a", "c"), ("c", "d")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0, 0.0], *[[0.0, 1.0]] * 3], metric="cosine", bm25=False)
    retriever = Retriever(index, QAFD(seeds=1, mass=3.0), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0], traversal_filter={"shown": True})
    # Of 4 that "a" sends, b and c get 2 each; b can send to nothing, and c can hold 2.
    assert [(hit.id, hit.path.nodes) for hit in hits] == [("a", ("a",)), ("b", ("a", "b")), ("c", ("a", "c"))]
    assert [hit.score for hit in hits[1:]] == [0.0, 0.0] and not hits.notes


def test_nodes_that_can_send_only_to_each_other_end_their_flow():
    nodes = [Node(name, name, metadata={"shown": name != "a"}) for name in "abcdefgh"]
    edges = [("a", "b"), ("a", "d"), ("b", "c"), *(("d", far) for far in "efgh")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0, 0.0], *[[0.0, 1.0]] * 7], metric="cosine", bm25=False)
    retriever = Retriever(index, QAFD(seeds=1, mass=5.0), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0], traversal_filter={"shown": True})
    # Of 8 that "a" sends, d can hold its 4; b and c get 4, can hold 3 and may not send to "a".
    assert {hit.id for hit in hits} == set("abcd") and not hits.notes


def test_only_a_part_of_a_long_chain_is_touched():
    index = index_of(200, [(row, row + 1, 1.0) for row in range(199)], [AXES[0]] + [AXES[2]] * 199)
    hits = found(index, QAFD(seeds=1, mass=20.0), k=200)
    # Nodes of a chain can hold 2 each.
    assert 9 <= len(hits) <= 12 and hits[0].id == "0" and not hits.notes


def test_a_batch_is_its_questions_one_by_one_and_wrong_numbers_are_refused():
    index = index_of(4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)], AXES)
    retriever = Retriever(index, QAFD(seeds=1, mass=3.0))
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"], vectors=vectors)]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve("?", vector=vector)] for vector in vectors]
    wrong = [("mass", 0, "above"), ("mass", float("nan"), "above"), ("mass", 2e6, "above"), ("query_weight", -1, "of at least")]
    for name, value, least in wrong:
        with pytest.raises(InvalidArgumentError, match=rf"{name} must be a number {least} 0 and at most 1e\+06"):
            QAFD(**{"mass": 1.0} | {name: value})
