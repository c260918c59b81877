"""Tenants on one index: with a scope, none is shown to another, and none moves a score of another."""

import random
from itertools import islice

import pytest

from graph_retrievers import GRAG, HyDE, IndexStore, Pipeline, Retriever, StoreRetriever, WalkFusion
from graph_retrievers.errors import UnexpectedArgumentError
from graph_retrievers.operators import BM25Search, GRanker, Rerank, VectorSearch
from graph_retrievers.signals.bi_encoder import BiEncoder
from tests.helpers import HashEmbedding
from tests.retrievers import FUSED_SPREADING
from tests.tenants import KINDS, compare, everything, foreign, index_of, interleaved, of_kind, questions, retrievers, world

pytestmark = pytest.mark.slow

SIZES = [14] * 6


def three_filters(owner):
    return dict.fromkeys(("filter", "seed_filter", "traversal_filter"), {"tenant": owner})


def test_with_a_scope_nobody_is_shown_and_nobody_moves_a_score():
    asked = compare([12] * 100, 500, batch=5)
    assert asked["queries"] == 500 and asked["hits"] > 4000
    assert (asked["foreign"], asked["moved"]) == (0, 0)


def test_three_filters_show_nobody_and_without_a_filter_others_are_shown():
    names = ["fastinsight", "ppr", "walk-fusion", "chains", "passages"]
    kept = compare(SIZES, 100, batch=5, names=names, given=three_filters)
    assert kept["foreign"] == 0 and kept["moved"] > 30
    assert compare(SIZES, 50, batch=5, names=names, given=lambda owner: {})["foreign"] > 40


def test_a_filter_alone_hides_titles_texts_and_edges_of_others():
    rng, index = random.Random(3), world(SIZES, 1)
    passed = chains = facts = 0
    for name, retriever in retrievers(index).items():
        for way in ({}, {"seed_filter": {}}):
            for hits in retriever.retrieve_batch(list(islice(questions(index, rng), 5)), filter={"tenant": "T0x"}, **way):
                assert foreign(hits, "T0x", ("Body", "Of", "Tag", "Edge")) == [], name
                # Paths pass through others, and name them by id; chains and facts, which are results, do not.
                passed += bool(foreign(hits.nodes, "T0x", ("id",)))
                assert foreign(hits.chains, "T0x", ("id",)) == foreign(hits.facts, "T0x", ("id",)) == []
                chains, facts = chains + len(hits.chains), facts + len(hits.facts)
    assert passed > 10 and chains > 50 and facts > 20


def composed(index):
    """Return a composition that depends on the index: on what it holds, it reads edges and the relevance model, or neither."""
    return BM25Search(5) if len(index) < 20 else Pipeline(VectorSearch(5), GRanker(), Rerank())


def depending(index):
    """Return every retriever, and compositions that depend on the index and are given options that might not."""
    made = retrievers(index)
    made["weights"] = Retriever(index, WalkFusion(weights=(1.0, 2.0, 3.0)))
    made["weights and bridges"] = Retriever(index, WalkFusion(weights=(0.0, 1.0, 1.0), bridges=2, seeds=3))
    made["composed"] = Retriever(index, composed)
    for name in ("walk-fusion", "ppr", FUSED_SPREADING):
        made[f"around {name}"] = Retriever(index, HyDE(search=name))
        made[f"behind {name}"] = Retriever(index, GRAG(first=name))
    return made


@pytest.mark.parametrize("relevance", [None, BiEncoder(HashEmbedding(16))], ids=["own", "bi-encoder"])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_others_change_nothing_whatever_kind_they_are_of(kind, relevance):
    mine = of_kind(kind, "a", 12)
    worlds = [index_of(*mine, relevance)]
    for other in KINDS:
        theirs = of_kind(other, "b", 60)
        worlds.append(index_of(*(interleaved(parts, random.Random(1)) for parts in zip(mine, theirs, strict=True)), relevance))
    assert [WalkFusion().form_on(index) for index in worlds] == [kind, *KINDS]
    texts = list(islice(questions(worlds[0], random.Random(2)), 3))
    expected, *others = (depending(index) for index in worlds)
    for name in expected:
        alone = expected[name].retrieve_batch(texts)
        for there in others:
            found = there[name].retrieve_batch(texts, scope={"tenant": "a"})
            assert found == alone, name
            assert list(map(everything, found)) == list(map(everything, alone)), name


def test_what_a_composition_reads_is_asked_of_the_scope(tmp_path):
    entities, manual = of_kind("relations", "a", 12), of_kind("links", "b", 60)
    index = index_of(*(interleaved(parts, random.Random(1)) for parts in zip(entities, manual, strict=True)))
    retriever, given = Retriever(index, WalkFusion()), {"entities": ["Ada a3"]}
    assert retriever.system.form_on(index) == "links" and retriever.inputs == ()
    found = retriever.retrieve("Who?", scope={"tenant": "a"}, **given)
    assert (
        found
        == Retriever(index.within({"tenant": "a"}), WalkFusion()).retrieve("Who?", **given)
        != retriever.retrieve("Who?", scope={"tenant": "a"})
    )
    part = {"$id": {"$in": [f"a-{number}" for number in range(8)]}}
    both = retriever.retrieve_batch(["Who?"] * 2, scope=[{"tenant": "a"}, part], entities=[["Ada a3"]] * 2)
    assert both == [found, retriever.retrieve("Who?", scope=part, **given)] and len(both[1]) == 8
    store = IndexStore(tmp_path / "index", embedding=index.embedding)
    assert StoreRetriever(store, "walk-fusion").retrieve("Who?", scope={"tenant": "a"}).notes == ("the store holds no documents",)
    store.replace(index)
    stored = StoreRetriever(store, "walk-fusion").retrieve("Who?", scope={"tenant": "a"}, **given)
    assert [(hit.id, hit.score) for hit in stored] == [(hit.id, hit.score) for hit in found]
    why = r"\(form links: .*\); besides k, .* it reads: none"
    for scope, where in ((None, ""), ({}, ""), ({"tenant": "b"}, "in this scope ")):
        with pytest.raises(UnexpectedArgumentError, match=f"does not read 'entities' {where}{why}"):
            retriever.retrieve("Who?", scope=scope, **given)
