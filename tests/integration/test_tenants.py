"""Tenants on one index: with a scope, none is shown to another, and none moves a score of another."""

import random
from itertools import islice

from tests.tenants import compare, foreign, questions, retrievers, world

SIZES = [14] * 6


def three_filters(owner):
    return dict.fromkeys(("filter", "seed_filter", "traversal_filter"), {"tenant": owner})


def test_with_a_scope_nobody_is_shown_and_nobody_moves_a_score():
    asked = compare(SIZES, 500, batch=5)
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
