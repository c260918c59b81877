"""Rules that stand in a docstring and that no other test would miss: one small case each, through public entry points."""

import numpy as np
import pytest

from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Backfill
from graph_retrievers.operators.feedback_search import FeedbackSearch
from graph_retrievers.operators.operator import Pipeline
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.operators.vector_search import BM25Search, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.registry import build_retriever
from tests.helpers import linked_index


def ids(hits):
    return [hit.id for hit in hits]


def scored(hits):
    return [(hit.id, round(hit.score, 6)) for hit in hits]


def test_all_nodes_together_restart_at_the_passage_weight():
    size, weight, damping = 12, 0.5, 0.6
    near = np.linspace(1.0, 0.2, size)
    edges = [(str(a), str((a * 5 + 2) % size)) for a in range(size)] + [("0", "11")]
    index = GraphIndex.from_texts(["text"] * size, edges=edges, vectors=near[:, None], bm25=False)
    retriever = build_retriever("ppr", index, seeds=1, passage_weight=weight, damping=damping)
    passages = (near - near.min()) / (near.max() - near.min())
    restart = np.eye(size)[0] + weight * passages / passages.sum()
    step = np.zeros((size, size))
    for a, b in edges:
        step[int(a), int(b)] += a != b
        step[int(b), int(a)] += a != b
    step = step / step.sum(0, keepdims=True)
    expected = np.linalg.solve(np.eye(size) - damping * step, (1 - damping) * restart / restart.sum())
    hits = retriever.retrieve("text", k=size, vector=[1.0])
    assert {hit.id: hit.score for hit in hits} == pytest.approx({str(n): expected[n] for n in range(size)}, abs=1e-5)


def test_a_source_at_the_threshold_or_below_gives_nothing():
    # Three weak seeds that together would lift "weak" above the threshold, and one strong seed that lifts "strong".
    names = ["seed", "a", "b", "c", "weak", "strong"]
    edges = [("a", "weak"), ("b", "weak"), ("c", "weak"), ("seed", "strong")]

    def found(level):
        vectors = [[1.0], [level], [level], [level], [0.0], [0.0]]
        index = GraphIndex.from_texts(names, ids=names, edges=edges, vectors=vectors, bm25=False)
        spread = GatedPropagation(gate="uniform", steps=1, decay=1.0, threshold=0.25)
        hits = Retriever(index, Pipeline(VectorSearch(4), spread), backfill=False).retrieve("q", vector=[1.0])
        return {hit.id: hit.score for hit in hits}

    assert found(0.25) == {"seed": 1.0, "strong": 1.0, "a": 0.25, "b": 0.25, "c": 0.25}
    assert found(0.125) == {"seed": 1.0, "strong": 1.0, "a": 0.125, "b": 0.125, "c": 0.125}
    assert found(0.5)["weak"] == 1.5


def test_a_chain_that_a_longer_one_ends_with_backwards_is_absorbed():
    # The three best chains are s-m, t-m and s-m-t; t-m is the end of s-m-t, read backwards, and t-m-s is not among them.
    nodes = [Node("s", "", "Sam"), Node("m", "", "Mid"), Node("t", "", "Tom")]
    index = GraphIndex.from_nodes(nodes, [("s", "m"), ("m", "t")], vectors=[[1.0]] * 3, bm25=False)

    def chains(limit):
        search = ChainSearch(limit, length=2)
        retriever = build_retriever("spreading", index, gate="uniform", steps=1, chains="hits", chain_search=search)
        hits = retriever.retrieve("q", vector=[1.0], entities=["Sam", "Tom"])
        return [hit.path.nodes for hit in hits if hit.kind == "chain"]

    assert chains(2) == [("s", "m"), ("t", "m")]
    assert chains(3) == [("s", "m", "t")]
    assert chains(4) == [("s", "m", "t")]


def people_and_works(size):
    """An index of persons, each with a work of its own; the question is nearest to the first person, then the second."""
    nodes = [Node(f"p{n}", f"person {n}", f"Person {n}", "person") for n in range(size)]
    nodes += [Node(f"w{n}", f"work {n}", f"Work {n}", "work") for n in range(size)]
    vectors = [[1.0 - 0.05 * n, 0.0] for n in range(size)] + [[0.0, 1.0]] * size
    edges = [(f"p{n}", f"w{n}", "made") for n in range(size)]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, embedding=lambda texts: [[1.0, 0.0]] * len(texts), bm25=False)


def test_mor_starts_a_path_at_five_nodes():
    index = people_and_works(9)
    plan = [{"type": "person", "restriction": "somebody"}, {"type": "work", "relation": "made"}]

    def found(**options):
        retriever = build_retriever("mor", index, backfill=False, **options)
        return scored(retriever.retrieve("Which works?", 20, vector=[1.0, 0.0], plan=plan))

    assert sorted(node for node, _ in found()) == [f"w{n}" for n in range(5)]
    assert found() == found(seeds=5)
    assert found() not in (found(seeds=4), found(seeds=6))


def test_walk_fusion_expands_five_nodes_of_links_twenty_or_a_tenth():
    index = linked_index()

    def found(**options):
        # The list of STeX alone: it is the one that the seeds decide.
        retriever = build_retriever("walk-fusion", index, form="names", weights=(0, 1.0, 0), backfill=False, **options)
        hits = retriever.retrieve("Who built a mechanical computer that reads punched cards?", 12)
        return scored(hits), [hit.path.nodes for hit in hits]

    assert len(index) // 10 == 1 and found() == found(seeds=1)
    assert found() not in (found(seeds=2), found(seeds=5))
    passages = [Node(f"n{i}", f"word{i} " * 20, f"Name{i}") for i in range(210)]
    for size, seeds, of_links in ((9, 1, 1), (10, 1, 1), (29, 2, 2), (50, 5, 5), (60, 5, 6), (210, 5, 20)):
        built = GraphIndex.from_nodes(passages[:size], [("n0", "n1")], vectors=np.eye(size))
        for form, most in (("names", seeds), ("links", of_links)):
            assert f"PathSearch(seeds={most}, " in repr(build_retriever("walk-fusion", built, form=form))


def test_feedback_reads_the_text_of_the_best_node_and_not_its_title():
    nodes = [
        Node("best", "A saxophonist from Guildford.", "Ballamy of Kenya"),
        Node("by_text", "The town of Guildford lies in Surrey."),
        Node("by_title", "Lions live in Kenya."),
        Node("neither", "Bread is baked of flour."),
    ]
    index = GraphIndex.from_nodes(nodes)
    retriever = Retriever(index, Pipeline(BM25Search(1), FeedbackSearch()), backfill=False)
    assert ids(retriever.retrieve("saxophonist Ballamy")) == ["best", "by_text"]


def test_backfill_scores_lie_below_all_others():
    names = [f"n{n}" for n in range(6)]
    similarity = [100.0, 60.0, 1.0, 90.0, 80.0, 70.0]
    edges = [("n0", "n2")]
    index = GraphIndex.from_texts(names, ids=names, edges=edges, vectors=[[s] for s in similarity], bm25=False)
    # Activation is at most 1 here, far below the similarities of what fills up.
    spread = Pipeline(VectorSearch(1), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(index, spread).retrieve("q", 6, vector=[1.0])
    assert ids(hits) == ["n0", "n2", "n3", "n4", "n5", "n1"]
    assert [hit.operator == Backfill.name for hit in hits] == [False, False, True, True, True, True]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 6
    # Found scores that lie far apart: below the lowest, and not only below the best.
    hits = Retriever(index, VectorSearch(4)).retrieve("q", 6, vector=[1.0])
    assert [hit.operator == Backfill.name for hit in hits] == [False] * 4 + [True] * 2
    assert max(hit.score for hit in hits[4:]) < min(hit.score for hit in hits[:4]) == 70.0
