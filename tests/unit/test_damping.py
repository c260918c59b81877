"""Hubs are damped and activation stays bounded, except in the graphs for which the method was published."""

import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.spreading.retriever import DAMPED, SpreadingActivation

LONG = "words that fill a passage with more than twenty words so that it is one and not an entity of some knowledge graph "


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["star", "clique", "two hubs"])
def test_activation_over_passages_stays_bounded_whatever_the_degree(shape):
    count = 60 if shape == "clique" else 2000
    ids = [str(n) for n in range(count)]
    pairs = {
        "star": [(0, n) for n in range(1, count)],
        "clique": [(a, b) for a in range(count) for b in range(a)],
        "two hubs": [(hub, n) for hub in (0, 1) for n in range(2, count)],
    }[shape]
    vectors = torch.nn.functional.normalize(torch.rand(count, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    titles = [f"Name{n}" for n in ids]
    graph = CorpusGraph(ids, [LONG] * count, titles=titles, edges=[(ids[a], ids[b]) for a, b in pairs])
    index = GraphIndex.from_graph(graph, vectors=vectors)
    for seeds in (["Name0"], [f"Name{n}" for n in range(2, 50)]):
        hits = Retriever(index, SpreadingActivation(gate="uniform", **DAMPED), k=count, backfill=False).retrieve(
            "?", entities=seeds, vector=[1, 0, 0, 0]
        )
        assert sum(hit.score for hit in hits) <= 1.7**3 * len(seeds)
        published = Retriever(index, SpreadingActivation(gate="uniform"), k=count, backfill=False)
        if len(seeds) > 1 and shape == "star":
            assert max(hit.score for hit in published.retrieve("?", entities=seeds, vector=[1, 0, 0, 0])) > 30, "as published"


def test_a_knowledge_graph_is_walked_as_published():
    graph = CorpusGraph(["a", "b", "c"], ["", "", ""], edges=[("a", "b"), ("a", "c")])
    index = GraphIndex.from_graph(graph)
    hits = Retriever(index, SpreadingActivation(gate="uniform", steps=1), backfill=False).retrieve("a")
    assert [(hit.id, round(hit.score, 3)) for hit in hits][1:] == [("b", 0.7), ("c", 0.7)]
    damped = Retriever(index, SpreadingActivation(gate="uniform", hub_exponent=1, steps=1), backfill=False).retrieve("a")
    assert [(hit.id, round(hit.score, 3)) for hit in damped][1:] == [("b", 0.35), ("c", 0.35)]


def test_activation_over_parallel_edges_is_damped_by_their_number():
    vectors = [[1.0, 0.0]] * 2
    graph = CorpusGraph(["a", "b"], [LONG] * 2, titles=["Ada", "Babbage"], edges=[("a", "b", f"r{n}") for n in range(100)])
    index = GraphIndex.from_graph(graph, vectors=vectors)
    walk = Retriever(index, SpreadingActivation(gate="uniform", semantics="rows", **DAMPED), backfill=False)
    hits = walk.retrieve("?", entities=["Ada"], vector=[1, 0])
    assert sum(hit.score for hit in hits) <= 1.7**3
