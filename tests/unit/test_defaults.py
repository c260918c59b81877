"""Defaults of the retrievers, and what they are composed of on indexes of different kinds."""

from functools import partial

import numpy as np
import pytest
import torch

from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.vector_search import BM25Search
from graph_retrievers.systems.fastinsight import FastInsight
from graph_retrievers.systems.gretriever import GRetriever
from graph_retrievers.systems.hipporag.retriever import HippoRAG
from graph_retrievers.systems.lesegr import LeSeGRModel
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.lightrag.retriever import LightRAG
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.pagerank import PPR
from graph_retrievers.systems.pathrag import PathRAG
from graph_retrievers.systems.registry import build_retriever, retriever_class
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.strategies import MMR, Eager, Scored
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion
from tests.helpers import linked_index
from tests.unit.test_walk_fusion import entities, index, manual

LONG = "word " * 20


def has(retriever, *parts):
    text = repr(retriever)
    return [part for part in parts if part not in text]


def test_the_lists_and_their_constants():
    searches = (
        "HybridSearch(k=100,",
        "HybridSearch(k=5,",
        "PathSearch(seeds=5, share=0.5, dense_weight=1.0, bridges=3, across=False, k=100)",
    )
    fusion = ("depth=100, constant=5", "weights=(4.0, 1.0, 2.0)", "threshold=0.001", "hub_exponent=1.0")
    assert not has(WalkFusion(index(), form="names", seeds=5), *searches, *fusion)
    short = (
        "HybridSearch(k=7,",
        "HybridSearch(k=3,",
        "PathSearch(seeds=3, share=0.5, dense_weight=1.0, bridges=3, across=False, k=7)",
        "depth=7",
    )
    assert not has(WalkFusion(index(), form="names", depth=7, seeds=3), *short)
    paths = "PathSearch(seeds=3, share=0.5, dense_weight=2.0, bridges=0, across=False, k=7)"
    assert not has(WalkFusion(manual(), depth=7, seeds=3), "HybridSearch(k=7,", paths)
    metapaths = ("MetapathSearch(seeds=3, length=3, temperature=0.03, limit=500, k=7)", "EntityLinking(case='fold', budget=0")
    fusion = ("weights=(1.0, 1.0, 3.0)", "hub_exponent=0.0")
    assert not has(WalkFusion(index(), form="relations", depth=7, seeds=3), *metapaths, *fusion)


def reference():
    """Sections of a reference manual: their titles are rare words, and no names."""
    texts = [f"print_{n}(text) {LONG}; See print_{n + 1}" for n in range(30)]
    return GraphIndex.from_texts(texts, titles=[f"print_{n}" for n in range(30)], vectors=torch.ones(30, 2), edges=[("0", "1")])


def encyclopedia(edges=(("0", "1"), ("1", "2"))):
    texts = [f"Ada{n} was born. {LONG}" for n in range(30)]
    return GraphIndex.from_texts(texts, titles=[f"Ada{n}" for n in range(30)], vectors=torch.ones(30, 2), edges=list(edges))


def test_walks_over_passages_and_over_entities():
    damped = ("threshold=0.001", "hub_exponent=1.0", "steps=3, decay=0.7", "constant=5", "HybridSearch(k=100")
    assert not has(SpreadingActivation(manual()), *damped)
    assert not has(SpreadingActivation(index()), "threshold=0.01", "hub_exponent=0.0")
    ranked = ("VectorSearch(k=5, returned=False", "damping=0.5, passage_weight=0.05", "HybridSearch(k=100", "constant=5")
    assert not has(PPR(manual()), *ranked)


def test_walks_are_fused_with_hybrid_search_in_a_manual_and_with_vector_search_elsewhere():
    for walk in (FastInsight, PPR, SpreadingActivation, Eager, Scored):
        for made in (manual(), reference(), encyclopedia(edges=())):
            assert not has(walk(made), "Fusion", "HybridSearch(k=100", "constant=5")
            assert repr(walk(made, fuse=True)) == repr(walk(made))
        assert not has(walk(index(), fuse=True), "Fusion", "VectorSearch(k=100", "constant=5")
        unfused = walk(index()), walk(encyclopedia()), walk(entities())
        for alone in (walk(manual(), fuse=False), walk(reference(), fuse=False), *unfused):
            assert "Fusion" not in repr(alone) and "k=100" not in repr(alone)


@pytest.mark.parametrize("walk", [MMR, LightRAG, PathRAG, GRetriever, LinearRAG, HippoRAG])
def test_what_finds_less_than_search_is_fused_over_all_passages_and_search_counts_twice_unless_names_lead(walk):
    notes = GraphIndex.from_texts([f"Otto Veld and Ada Holm met. {LONG}"] * 30, vectors=torch.ones(30, 2), edges=[("0", "1")])
    for made, weights in ((manual(), "1.0, 2.0"), (reference(), "1.0, 2.0"), (encyclopedia(), "1.0, 1.0"), (notes, "1.0, 1.0")):
        assert not has(walk(made), "Fusion", "HybridSearch(k=100", f"weights=({weights}), depth=100, constant=5")
        assert repr(walk(made, fuse=True)) == repr(walk(made))
    assert not has(walk(index(), fuse=True), "Fusion", "VectorSearch(k=100", "weights=(1.0, 2.0)")
    for alone in (walk(index()), walk(entities()), walk(encyclopedia(), fuse=False)):
        assert "Fusion" not in repr(alone) and "HybridSearch" not in repr(alone)
    assert walk.PUBLISHED["fuse"] is False


def test_lesegr_is_fused_where_nothing_trained_it():
    assert not has(LeSeGR(manual()), "Fusion", "weights=(1.0, 1.0), depth=100, constant=5")
    published = LeSeGR.published(manual())
    trained = LeSeGR(manual(), model=LeSeGRModel(2))
    for alone in (LeSeGR(index()), LeSeGR(encyclopedia()), LeSeGR(manual(), fuse=False), trained, published):
        assert "Fusion" not in repr(alone)


def test_facts_and_chains_stay_when_a_ranking_is_fused_with_a_search():
    texts = [f"{word} {LONG}" for word in ("loom", "card", "mill")]
    made = GraphIndex.from_texts(texts, edges=[("0", "1", "reads"), ("1", "2", "drives")], vectors=torch.eye(3), edge_signals=True)
    for walk in (partial(LightRAG, facts=True), partial(GRetriever, facts=True, cost=0.1), partial(PathRAG, chains="hits")):
        found, alone = (walk(made, **options).retrieve("loom", 2, vector=[0.8, 0.6, 0.0]) for options in ({}, {"fuse": False}))
        beyond = [(hit.kind, hit.path.text) for hit in found[2:]]
        assert beyond == [(hit.kind, hit.path.text) for hit in alone[2:]] != []
        assert found[0].id == "0" and found[0].ranks["HybridSearch"] == 1 and not alone[0].ranks


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


def scored(hits):
    return [(hit.id, round(hit.score, 6)) for hit in hits]


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
