"""Defaults of the retrievers, and what they are composed of on indexes of different kinds."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from graph_retrievers import BM25, GRAG, Fused, Hybrid, HyDE, Retriever, Vector
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import PathSearch
from graph_retrievers.search.vector_search import BM25Search
from graph_retrievers.systems import read_system
from graph_retrievers.systems.fastinsight import FastInsight
from graph_retrievers.systems.gretriever import GRetriever
from graph_retrievers.systems.hipporag.retriever import HippoRAG
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.lightrag.retriever import LightRAG
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.pagerank import PPR
from graph_retrievers.systems.pathrag import PathRAG
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.strategies import MMR, Eager, Scored
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion
from tests.helpers import HashEmbedding, Written, linked_index
from tests.retrievers import on
from tests.unit.test_walk_fusion import entities, index, manual

LONG = "word " * 20


def has(retriever, *parts):
    text = repr(retriever)
    return [part for part in parts if part not in text]


def test_the_lists_and_their_constants():
    searches = (
        "HybridSearch(k=100,",
        "HybridSearch(k=5,",
        "PathSearch(seeds=5, share=0.5, bridges=3, across=False, k=100)",
    )
    fusion = ("depth=100, constant=5", "weights=(4.0, 1.0, 2.0)", "threshold=0.001", "hub_exponent=1.0")
    assert not has(Retriever(index(), WalkFusion(form="names", seeds=5)), *searches, *fusion)
    short = (
        "HybridSearch(k=7,",
        "HybridSearch(k=3,",
        "PathSearch(seeds=3, share=0.5, bridges=3, across=False, k=7)",
        "depth=7",
    )
    assert not has(Retriever(index(), WalkFusion(form="names", depth=7, seeds=3)), *short)
    paths = "PathSearch(seeds=3, bridges=0, across=False, k=7)"
    assert not has(Retriever(manual(), WalkFusion(depth=7, seeds=3)), "HybridSearch(k=7,", paths)
    metapaths = ("MetapathSearch(seeds=3, length=3, temperature=0.03, limit=500, k=7)", "EntityLinking(case='fold', budget=0")
    fusion = ("weights=(1.0, 1.0, 3.0)", "hub_exponent=0.0")
    assert not has(Retriever(index(), WalkFusion(form="relations", depth=7, seeds=3)), *metapaths, *fusion)


def reference():
    """Sections of a reference manual: their titles are rare words, and no names."""
    texts = [f"print_{n}(text) {LONG}; See print_{n + 1}" for n in range(30)]
    return GraphIndex.from_texts(texts, titles=[f"print_{n}" for n in range(30)], vectors=torch.ones(30, 2), edges=[("0", "1")])


def encyclopedia(edges=(("0", "1"), ("1", "2"))):
    texts = [f"Ada{n} was born. {LONG}" for n in range(30)]
    return GraphIndex.from_texts(texts, titles=[f"Ada{n}" for n in range(30)], vectors=torch.ones(30, 2), edges=list(edges))


def test_walks_are_those_of_their_papers_on_every_kind_of_index():
    for made in (manual(), reference(), encyclopedia(), encyclopedia(edges=()), index(), entities()):
        spread = ("threshold=0.01,", "hub_exponent=0.0", "steps=3, decay=0.7")
        assert not has(Retriever(made, SpreadingActivation()), *spread)
        assert not has(Retriever(made, PPR()), "VectorSearch(k=5, returned=False", "damping=0.5, passage_weight=0.05")
        for walk in (*WALKS, *TRAVERSALS, LeSeGR):
            shown = repr(Retriever(made, walk()))
            assert "Fusion" not in shown and ("k=100" not in shown or walk is LeSeGR)


# -- several systems side by side --------------------------------------------------------------------------------------


def test_fused_systems_add_their_weights_over_a_constant_and_the_rank():
    texts = ["a loom", "a card", "a mill", "a loom and a card"]
    made = GraphIndex.from_texts(texts, vectors=[[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], edges=[("0", "1")])
    words = scored(Retriever(made, BM25(), backfill=False).retrieve("loom", vector=[1.0, 0.0]))
    assert [node for node, _ in words] == ["0", "3"]
    # Vector search: 0, 1, 2, 3. BM25: 0, 3, which counts twice. With c = 5: 1 / 6 + 2 / 6; 1 / 9 + 2 / 7; 1 / 7; 1 / 8.
    fused = Retriever(made, Fused(Vector(), BM25(), weights=(1, 2)), backfill=False)
    wanted = [("0", 1 / 6 + 2 / 6), ("3", 1 / 9 + 2 / 7), ("1", 1 / 7), ("2", 1 / 8)]
    assert scored(fused.retrieve("loom", vector=[1.0, 0.0])) == [(node, round(score, 6)) for node, score in wanted]
    # Each counts once by default; another constant, and only the best node of each.
    wanted = [("0", 1 / 6 + 1 / 6), ("3", 1 / 9 + 1 / 7), ("1", 1 / 7), ("2", 1 / 8)]
    found = Retriever(made, Fused(Vector(), BM25()), backfill=False).retrieve("loom", vector=[1.0, 0.0])
    assert scored(found) == [(node, round(score, 6)) for node, score in wanted]
    assert found[0].ranks == {"VectorSearch": 1, "BM25Search": 1}
    found = Retriever(made, Fused(Vector(), BM25(), constant=1, depth=1), backfill=False).retrieve("loom", vector=[1.0, 0.0])
    assert scored(found) == [("0", 1.0)]


def test_each_fused_system_is_asked_for_depth_nodes():
    made = Retriever(manual(), Fused(PPR(damping=0.7), Hybrid()))
    assert not has(made, "damping=0.7", "HybridSearch(", "weights=(1.0, 1.0), depth=100, constant=5")
    made = Retriever(manual(), Fused(PPR(), Hybrid(), weights=(1, 2), depth=7, constant=60))
    assert not has(made, "weights=(1, 2), depth=7, constant=60")
    assert len(made.retrieve("Which tables?", 30)) == 30, "backfill is the retriever's"
    asked = []

    class Asked(Operator):
        kind = OperatorKind.VECTOR_SEARCH

        def search(self, question, candidates):
            asked.append(question.k)
            return candidates

    made = Retriever(manual(), Fused(Asked(), "bm25", depth=7))
    for k in (3, 30):
        made.retrieve("Which tables?", k)
    assert asked == [7, 30], "depth nodes, or k if that is more"


@pytest.mark.parametrize(
    "system",
    [
        Fused(PPR(damping=0.7), Hybrid()),
        Fused("ppr", "hybrid", weights=[1, 2.5], constant=60, depth=20),
        Fused(Fused(PPR(), MMR()), Hybrid(), weights=(1, 3)),
        Fused(HyDE(search="fused(systems=['ppr', 'bm25'])"), GRAG(first="fused(systems=['vector', 'bm25'])")),
    ],
)
def test_the_text_of_fused_systems_reads_back(system):
    assert read_system(str(system)) == system and str(read_system(str(system))) == str(system)
    assert hash(read_system(str(system))) == hash(system)


def test_fused_systems_are_values():
    system = Fused(PPR(), Hybrid(), weights=(1, 2))
    assert system == Fused("ppr", Hybrid(), weights=[1, 2]) != Fused(PPR(), Hybrid())
    assert replace(system, depth=7) == Fused(PPR(), Hybrid(), weights=(1, 2), depth=7)
    assert replace(system, systems=[Vector(), BM25()]) == Fused(Vector(), BM25(), weights=(1, 2))
    assert read_system({"system": "fused", "systems": ["ppr", "hybrid"]}) == Fused(PPR(), Hybrid())
    assert str(system) == "fused(systems=['ppr', 'hybrid'], weights=[1, 2])"
    assert pickle.loads(pickle.dumps(system)) == system == copy.deepcopy(system)  # noqa: S301


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Fused(), "Fused needs two systems or more"),
        (lambda: Fused(PPR()), "Fused needs two systems or more"),
        (lambda: Fused(systems="ppr"), "Fused needs two systems or more"),
        (lambda: Fused("ppr", "hybrids"), "Unknown system 'hybrids'"),
        (lambda: Fused(PPR(), 3), "Expected a system"),
        (lambda: Fused(PPR(), Hybrid(), depth=0), "depth must be"),
        (lambda: Fused(PPR(), Hybrid(), constant=-1), "constant must be"),
        (lambda: Fused(PPR(), Hybrid(), weight=(1, 2)), "weight.*Did you mean 'weights'"),
        (lambda: Retriever(index(), Fused(PPR(), Hybrid(), weights=(1,))), "weight"),
        (lambda: Retriever(index(), Fused(PPR(), Hybrid(), weights=(1, -1))), "weight"),
        (lambda: Fused(PPR(), Hybrid(), systems=["ppr", "bm25"]), "Fused got systems in two ways"),
        (lambda: read_system("fused"), r"'fused' needs systems; pass it, such as 'fused\(systems=\.\.\.\)'"),
    ],
)
def test_what_cannot_be_fused_is_refused(make, told):
    with pytest.raises(InvalidArgumentError, match=told):
        make()


def test_fused_systems_within_others_count_as_one_list():
    inner = Fused(PPR(), Hybrid(), depth=6)
    both = Retriever(manual(), Fused(inner, BM25()), backfill=False)
    question = "Which tables hold streams?"
    expected = {}
    for alone in (Retriever(manual(), inner, backfill=False), Retriever(manual(), BM25(), backfill=False)):
        for rank, hit in enumerate(alone.retrieve(question, 100), 1):
            expected[hit.id] = expected.get(hit.id, 0.0) + 1 / (5 + rank)
    assert {hit.id: hit.score for hit in both.retrieve(question, 100)} == pytest.approx(expected)


def test_what_is_not_trained_is_told_of_fused_systems_too():
    made = Retriever(manual(), Fused(LeSeGR(), GRAG(), BM25()))
    notes = made.retrieve("Which tables?").notes
    assert any(note.startswith("the model is not trained") for note in notes)
    assert any(note.startswith("the network is not trained") for note in notes)
    assert len(made.lacks()) == 2
    assert Retriever(manual(), Fused(PPR(), BM25())).lacks() == ()


def test_fused_systems_return_the_types_that_one_of_them_is_limited_to():
    nodes = [Node("a", LONG, "Ada Holm", "person"), Node("p", f"Ada Holm wrote. {LONG}", type="passage")]
    made = GraphIndex.from_nodes(nodes, [("a", "p")], embedding=HashEmbedding(8), edge_signals=True)
    for system, types in ((HippoRAG(), ("passage",)), (PPR(), None), (SpreadingActivation(passages=False), ("person",))):
        assert Retriever(made, system).types == Retriever(made, Fused(system, Hybrid())).types == types
    assert Retriever(made, Fused(HippoRAG(), SpreadingActivation(passages=False))).types == ("passage", "person")


def test_facts_and_chains_stay_when_a_ranking_is_fused_with_a_search():
    texts = [f"{word} {LONG}" for word in ("loom", "card", "mill")]
    made = GraphIndex.from_texts(texts, edges=[("0", "1", "reads"), ("1", "2", "drives")], vectors=torch.eye(3), edge_signals=True)
    for walk in (LightRAG(facts=True), GRetriever(cost=0.1, facts=True), PathRAG(chains="hits")):
        found, alone = (
            Retriever(made, system).retrieve("loom", 2, vector=[0.8, 0.6, 0.0]) for system in (Fused(walk, Hybrid()), walk)
        )
        beyond = [(hit.kind, hit.path.text) for hit in found[2:]]
        assert beyond == [(hit.kind, hit.path.text) for hit in alone[2:]] != []
        assert found[0].id == "0" and found[0].ranks["HybridSearch"] == 1 and not alone[0].ranks


# -- systems that are known to find less than search -------------------------------------------------------------------

WALKS = (FastInsight, PPR, SpreadingActivation, Eager, Scored)
TRAVERSALS = (MMR, LightRAG, PathRAG, GRetriever, LinearRAG, HippoRAG)


def told(caplog):
    """Return what was said of search since the last call."""
    found = [record.getMessage() for record in caplog.records if "known to find less" in record.getMessage()]
    caplog.clear()
    return found


@pytest.mark.parametrize("walk", [*WALKS, LeSeGR])
def test_a_walk_finds_less_over_passages_whose_names_do_not_lead(walk, caplog):
    for made in (manual(), reference(), encyclopedia(edges=())):
        Retriever(made, walk())
        # Without edges there is something else to say.
        less = [f"{walk.__name__} alone is known to find less than hybrid search"] if made.graph.has_edges else []
        assert [text.partition(" on ")[0] for text in told(caplog)] == less
    for made in (index(), encyclopedia(), entities()):
        Retriever(made, walk())
    assert told(caplog) == []


@pytest.mark.parametrize("walk", TRAVERSALS)
def test_what_finds_less_than_search_even_where_names_lead_says_so_over_all_passages(walk, caplog):
    notes = GraphIndex.from_texts([f"Otto Veld and Ada Holm met. {LONG}"] * 30, vectors=torch.ones(30, 2), edges=[("0", "1")])
    for made in (manual(), reference(), encyclopedia(), notes):
        Retriever(made, walk())
        assert len(told(caplog)) == 1
    for made in (index(), entities()):
        Retriever(made, walk())
    assert told(caplog) == []


def test_it_is_said_once_for_a_graph_and_a_system(caplog):
    made = manual()
    for _ in range(3):
        Retriever(made, PPR(), k=5)
        Retriever(made, "ppr(damping=0.7)")
    (text,) = told(caplog)
    start = "PPR alone is known to find less than hybrid search on passages like these; "
    assert text == start + "Fused(PPR(), Hybrid()) or WalkFusion() finds more."
    # Scopes and the options of a call make retrievers too.
    Retriever(made, PPR()).retrieve("Which tables?", scope={"$id": {"$in": ["n1", "n2"]}})
    assert told(caplog) == []
    Retriever(made, Eager())
    assert len(told(caplog)) == 1
    Retriever(manual(), PPR())
    assert len(told(caplog)) == 1, "another graph"


def test_it_is_not_said_of_what_finds_no_less(caplog):
    made = manual()
    searches = (Vector(), BM25(), Hybrid(), WalkFusion(), Fused(PPR(), Hybrid()), LeSeGR(model=LeSeGRModel(made.dense.dimension)))
    for system in (None, *searches, PathSearch(), HyDE(search=PPR())):
        Retriever(made, system)
    assert told(caplog) == []


def test_it_is_not_said_where_hybrid_search_cannot_be_compared(caplog):
    bare = GraphIndex.from_texts([LONG + "loom", LONG + "card"], edges=[("0", "1")])
    Retriever(bare, SpreadingActivation(gate="uniform"))
    Retriever(bare, PPR(first=BM25Search(5)))
    # The last has a signal over words that nothing is known of.
    for words, times in ((True, 1), (False, 0), (Written(2, lambda text, row: 1.0), 0)):
        made = GraphIndex.from_texts([LONG + "loom", LONG + "card"], edges=[("0", "1")], vectors=torch.eye(2), bm25=words)
        Retriever(made, PPR())
        assert len(told(caplog)) == times


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
        retriever = on(index, "mor", backfill=False, **options)
        return scored(retriever.retrieve("Which works?", 20, vector=[1.0, 0.0], plan=plan))

    assert sorted(node for node, _ in found()) == [f"w{n}" for n in range(5)]
    assert found() == found(seeds=5)
    assert found() not in (found(seeds=4), found(seeds=6))


def test_walk_fusion_expands_five_nodes_of_links_twenty_or_a_tenth():
    index = linked_index()

    def found(**options):
        # The list of STeX alone: it is the one that the seeds decide.
        retriever = on(index, "walk-fusion", form="names", weights=(0, 1.0, 0), backfill=False, **options)
        hits = retriever.retrieve("Who built a mechanical computer that reads punched cards?", 12)
        return scored(hits), [hit.path.nodes for hit in hits]

    assert len(index) // 10 == 1 and found() == found(seeds=2), "at least two"
    assert found() not in (found(seeds=1), found(seeds=5))
    passages = [Node(f"n{i}", f"word{i} " * 20, f"Name{i}") for i in range(210)]
    for size, seeds, of_links in ((9, 2, 1), (10, 2, 1), (39, 3, 3), (50, 5, 5), (60, 5, 6), (210, 5, 20)):
        built = GraphIndex.from_nodes(passages[:size], [("n0", "n1")], vectors=np.eye(size))
        for form, most in (("names", seeds), ("links", of_links)):
            assert f"PathSearch(seeds={most}, " in repr(Retriever(built, WalkFusion(form=form)))
