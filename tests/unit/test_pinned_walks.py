"""Defaults of the retrievers whose composition follows the index, and scores of hits that are filled up."""

import torch

from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.backfill import Backfill
from graph_retrievers.operators.vector_search import BM25Search
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.retrievers.fastinsight import FastInsight
from graph_retrievers.retrievers.ppr import PPR
from graph_retrievers.retrievers.registry import retriever_class
from graph_retrievers.retrievers.spreading_activation import SpreadingActivation
from graph_retrievers.retrievers.walk_fusion import WalkFusion
from tests.unit.test_walk_fusion import index, manual

LONG = "word " * 20


def has(retriever, *parts):
    text = repr(retriever)
    return [part for part in parts if part not in text]


def test_the_lists_and_their_constants():
    searches = (
        "HybridSearch(k=100,",
        "HybridSearch(k=5,",
        "PathSearch(seeds=5, share=0.5, dense_weight=1.0, bridges=3, k=100)",
    )
    fusion = ("depth=100, constant=5", "weights=(4.0, 1.0, 2.0)", "threshold=0.001", "hub_exponent=1.0")
    assert not has(WalkFusion(index(), form="names", seeds=5), *searches, *fusion)
    short = (
        "HybridSearch(k=7,",
        "HybridSearch(k=3,",
        "PathSearch(seeds=3, share=0.5, dense_weight=1.0, bridges=3, k=7)",
        "depth=7",
    )
    assert not has(WalkFusion(index(), form="names", depth=7, seeds=3), *short)
    paths = "PathSearch(seeds=3, share=0.5, dense_weight=2.0, bridges=0, k=7)"
    assert not has(WalkFusion(manual(), depth=7, seeds=3), "HybridSearch(k=7,", paths)
    metapaths = ("MetapathSearch(seeds=3, length=3, temperature=0.03, limit=500, k=7)", "EntityLinking(case='fold', budget=0")
    fusion = ("weights=(1.0, 1.0, 3.0)", "hub_exponent=0.0")
    assert not has(WalkFusion(index(), form="relations", depth=7, seeds=3), *metapaths, *fusion)


def test_walks_over_passages_and_over_entities():
    damped = ("threshold=0.001", "hub_exponent=1.0", "steps=3, decay=0.7", "constant=5", "HybridSearch(k=100")
    assert not has(SpreadingActivation(manual()), *damped)
    assert not has(SpreadingActivation(index()), "threshold=0.01", "hub_exponent=0.0")
    ranked = ("VectorSearch(k=5, returned=False", "damping=0.5, passage_weight=0.05", "HybridSearch(k=100", "constant=5")
    assert not has(PPR(manual()), *ranked)


def test_walks_are_fused_with_hybrid_search_in_a_manual_and_with_vector_search_elsewhere():
    for walk in (FastInsight, PPR, SpreadingActivation):
        assert not has(walk(manual()), "Fusion", "HybridSearch(k=100", "constant=5")
        assert repr(walk(manual(), fuse=True)) == repr(walk(manual()))
        assert not has(walk(index(), fuse=True), "Fusion", "VectorSearch(k=100", "constant=5")
        for alone in (walk(manual(), fuse=False), walk(index())):
            assert "Fusion" not in repr(alone) and "k=100" not in repr(alone)


def test_nothing_is_fused_with_vectors_that_are_not_there():
    bare = GraphIndex.from_texts([LONG + "loom", LONG + "card"], edges=[("0", "1")])
    assert "Fusion" not in repr(SpreadingActivation(bare, gate="uniform"))
    assert "Fusion" not in repr(PPR(bare, first=BM25Search(5)))


def test_the_names_of_mor_stand_for_its_parts():
    expected = {
        "mor-text": {"structure": False, "rerank": False},
        "mor-structure": {"matches": 0, "rerank": False},
        "mor-no-rerank": {"rerank": False},
    }
    for name, keywords in expected.items():
        given = retriever_class(name)[1]
        assert given == keywords
        given.clear()
        assert retriever_class(name)[1] == keywords


def test_of_a_batch_each_query_is_filled_up_by_itself():
    built = GraphIndex.from_graph(CorpusGraph([*"0123"], ["text"] * 4), vectors=[[1 - row / 4] for row in range(4)], bm25=False)
    queries = Queries.of(built, ["q", "r"], vectors=[[1.0], [1.0]], k=3)
    ranking = Ranking.of(torch.tensor([[3], [-1]]), torch.tensor([[0.5], [float("-inf")]]), "Mine")
    filled = Backfill()(queries, ranking).top(3)
    assert filled.nodes.tolist() == [[3, 0, 1], [0, 1, 2]]
    assert filled.scores[1].tolist() == [1, 0.75, 0.5]
    assert [round(score, 4) for score in filled.scores[0].tolist()] == [0.5, 0.25, 0.1667]
