"""Walks on small graphs: where PageRank restarts, and what activation passes on."""

import numpy as np
import pytest
import torch

from graph_retrievers import PPR
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import PassageGathering, Pipeline
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.pagerank import PersonalizedPageRank
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.rankings import Ranking, ranked


def test_all_nodes_together_restart_at_the_passage_weight():
    size, weight, damping = 12, 0.5, 0.6
    near = np.linspace(1.0, 0.2, size)
    edges = [(str(a), str((a * 5 + 2) % size)) for a in range(size)] + [("0", "11")]
    index = GraphIndex.from_texts(["text"] * size, edges=edges, vectors=near[:, None], bm25=False)
    retriever = Retriever(index, PPR(seeds=1, passage_weight=weight, damping=damping))
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


def test_excluded_types_are_not_entered_under_a_filter():
    graph = CorpusGraph(["a", "p", "b"], [""] * 3, types=["x", "passage", "x"], edges=[("a", "p"), ("a", "b")])
    queries = Queries.of(GraphIndex.from_graph(graph), ["?"], traversal_filter={"$id": {"$in": ["p", "b"]}})
    seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    found = ranked(GatedPropagation(gate="uniform", exclude_types=["passage"], steps=1), queries, seeds)
    assert found.nodes.tolist() == [[0, 2]]


def test_nodes_that_are_all_equally_similar_share_the_restart_alike():
    index = GraphIndex.from_texts(["a", "b", "c"], vectors=[[1.0]] * 3, bm25=False)

    def scores(*operators):
        hits = Retriever(index, Pipeline(*operators, PersonalizedPageRank(passage_weight=0.5)), backfill=False).retrieve(
            "q", vector=[1.0]
        )
        return {hit.id: hit.score for hit in hits}

    assert scores() == pytest.approx({"0": 1 / 3, "1": 1 / 3, "2": 1 / 3})
    # Without edges the walk stays where it restarts: the seed 1 + 1/6, each other node 1/6, of 1.5 in all.
    assert scores(VectorSearch(1)) == pytest.approx({"0": 7 / 9, "1": 1 / 9, "2": 1 / 9})


def test_a_filter_leaves_the_proportions_of_the_restart_by_similarity_as_they_are():
    index = GraphIndex.from_texts(["a", "b", "c", "d"], vectors=[[-1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]], edges=[])
    ranked = Retriever(index, PersonalizedPageRank(), k=4, backfill=False)
    # Similarities of -1, 0, 0.6 and 1 are 0, 0.5, 0.8 and 1 by min-max; the walk of a node without edges stays where it restarts.
    for given, expected in (
        ({}, {"3": 1 / 2.3, "2": 0.8 / 2.3, "1": 0.5 / 2.3}),
        ({"$id": {"$in": ["1", "2"]}}, {"2": 0.8, "1": 0.5}),
    ):
        hits = ranked.retrieve("q", vector=[1.0, 0.0], seed_filter=given)
        total = sum(expected.values())
        assert {hit.id: hit.score for hit in hits} == pytest.approx({id: share / total for id, share in expected.items()})


def test_passages_that_the_gate_shuts_gather_nothing():
    graph = CorpusGraph(["e", "p", "q", "r"], [""] * 4, types=["x", *["passage"] * 3], edges=[("p", "e"), ("q", "e"), ("r", "e")])
    index = GraphIndex.from_graph(graph, vectors=[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]])
    entities = Ranking.of(torch.tensor([[0]]), torch.tensor([[0.5]]), "Entities")
    found = ranked(PassageGathering(), Queries.of(index, ["?"], vectors=[[1.0, 0.0]]), entities)
    assert found.nodes.tolist() == [[3]] and found.scores[0].tolist() == pytest.approx([0.3])
