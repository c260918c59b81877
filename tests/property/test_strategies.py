"""The traversal strategies on random graphs against their literal forms, and against recorded runs of graph-retriever."""

import logging
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, Pipeline, Retriever
from graph_retrievers.core.requests import Vectors
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import EntityLinking, GatedPropagation
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems import MMR, Eager, Scored
from tests.rankings import Ranking, ranked
from tests.references import strategies as literal
from tests.references.fastinsight import neighbours
from tests.retrievers import on


@st.composite
def cases(draw):
    """A random multigraph with self loops, parallel edges, hubs and isolated nodes, a start, and coarse vectors with ties."""
    size = draw(st.integers(1, 16))
    edges = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=3 * size))
    if draw(st.booleans()):
        edges += [(0, other) for other in range(size)]
    # Four directions and zero: exact cosines.
    vector = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (0.6, 0.8), (0.0, 0.0)])
    vectors = [draw(vector) for _ in range(size)]
    start = draw(st.lists(st.integers(0, size - 1), unique=True, max_size=5))
    limits = {"adjacent_k": draw(st.integers(1, 6)), "max_depth": draw(st.sampled_from([None, 0, 1, 2]))}
    return edges, vectors, start, draw(st.integers(1, 12)), limits


QUESTION = (0.8, 0.6)


def cosine_of(a, b):
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def graph_of(edges, vectors):
    size = len(vectors)
    texts = [f"text {row}" for row in range(size)]
    return GraphIndex.from_texts(texts, edges=[(str(a), str(b)) for a, b in edges], vectors=vectors, bm25=False)


def run(system, index, starts, k, **options):
    """The nodes, scores and trails of several starts as one batch."""
    queries = Queries.of(index, ["?"] * len(starts), k=k, vectors=[QUESTION] * len(starts), **options)
    width = max(map(len, starts), default=0)
    rows = torch.tensor([[*start, *[-1] * (width - len(start))] for start in starts], dtype=torch.int64).view(len(starts), width)
    return ranked(system.operator(), queries, Ranking.of(rows, torch.zeros(rows.shape), "start"))


@settings(max_examples=200)
@given(cases(), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([-math.inf, 0.0, 0.2]), st.sampled_from([None, 1, 2]))
def test_each_strategy_equals_its_literal_form(case, share, least, limit):
    edges, vectors, start, k, limits = case
    index, adjacent = graph_of(edges, vectors), neighbours(edges)
    cosine = {row: cosine_of(vector, QUESTION) for row, vector in enumerate(vectors)}
    score = {row: float((row * 7) % 5) for row in cosine}
    selected, by_mmr = literal.mmr(
        start,
        cosine,
        lambda a, b: cosine_of(vectors[a], vectors[b]),
        adjacent,
        select_k=k,
        lambda_mult=share,
        min_mmr_score=least,
        **limits,
    )
    by_score = Scored(scorer=lambda node, *_: score[int(node.id)], per_iteration_limit=limit, **limits)
    expected = {
        Eager(**limits): literal.eager(start, cosine, adjacent, select_k=k, **limits),
        by_score: literal.scored(start, cosine, adjacent, score, select_k=k, per_iteration_limit=limit, **limits),
        Scored(**limits): literal.scored(start, cosine, adjacent, cosine, select_k=k, **limits),
        MMR(lambda_mult=share, min_mmr_score=least, **limits): selected,
    }
    for system, nodes in expected.items():
        found = run(system, index, [start[::-1], start, []], k)
        assert [row for row in found.nodes[1].tolist() if row >= 0] == nodes, system
        assert found.lengths()[2] == 0
        scores = found.scores[1, : len(nodes)].tolist()
        assert scores == sorted(scores, reverse=True)
        for name, place, row in zip(found.origins[1].tolist(), found.trails[1].tolist(), nodes, strict=False):
            trail = [step for step in place if step >= 0]
            assert trail[0] in start and trail[-1] == row
            assert all(b in adjacent[a] for a, b in zip(trail, trail[1:], strict=False))
            assert found.operators[name] == ("start" if row in start else system.name)
        if isinstance(system, Eager):
            values = [cosine[row] - 2 * (int((trail >= 0).sum()) - 1) for row, trail in zip(nodes, found.trails[1], strict=False)]
            assert scores == pytest.approx([min(values[: place + 1]) for place in range(len(nodes))], abs=1e-5)
        if isinstance(system, MMR):
            assert scores == pytest.approx([min(by_mmr[: place + 1]) for place in range(len(by_mmr))], abs=1e-5)
        # Alone, a query gets what it gets in company.
        alone = run(system, index, [start], k)
        assert alone.nodes[0].tolist() == found.nodes[1, : alone.width].tolist()


@settings(max_examples=100)
@given(cases(), st.data())
def test_a_filter_hides_nodes_and_moves_no_score(case, data):
    edges, vectors, start, _, limits = case
    index, size = graph_of(edges, vectors), len(vectors)
    shown = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    only = {"filter": {"$id": {"$in": [str(row) for row in shown]}}, "traversal_filter": {}}
    for system in (Eager(**limits), MMR(**limits), Scored(**limits)):
        every, some = (run(system, index, [start], size, **options) for options in ({}, only))
        visited = zip(every.nodes[0].tolist(), every.scores[0].tolist(), strict=True)
        expected = [(row, score) for row, score in visited if row in shown]
        found = zip(some.nodes[0].tolist(), some.scores[0].tolist(), strict=True)
        assert [(row, score) for row, score in found if row >= 0] == expected, system


def by_scores(edges, score, start, k, **options):
    index = graph_of(edges, [(1.0, 0.0)] * len(score))
    found = run(Scored(scorer=lambda node, *_: score[int(node.id)], **options), index, [start], k)
    cosine = dict.fromkeys(range(len(score)), 0.8)
    options.setdefault("adjacent_k", 10)
    assert (
        literal.scored(start, cosine, neighbours(edges), dict(enumerate(score)), select_k=k, **options) == found.nodes[0].tolist()
    )
    return found


def test_a_round_of_scored_ends_with_the_last_node_that_counts():
    # Node 3 is at the greatest depth and does not count; it is not visited together with node 1, before node 4 is found.
    found = by_scores([(0, 3), (1, 4)], [9, 8, 5, 7, 8.5], [0, 1, 2], 3, max_depth=1, per_iteration_limit=1)
    assert found.nodes[0].tolist() == [0, 4, 1]
    # Nodes 1 and 2 are at the greatest depth: both are visited, though one alone is left to be selected.
    assert by_scores([(0, 1), (2, 0)], [4, 13, 18], [0], 2, max_depth=1).nodes[0].tolist() == [2, 1]


def test_scores_that_differ_by_rounding_keep_the_order_of_their_visits():
    index = graph_of([(0, 1), (0, 2)], [(1.0, 0.0)] * 3)
    scored = Scored(scorer=lambda node, *_: (0.9, 0.5, 0.5 + 1e-9)[int(node.id)])
    assert run(scored, index, [[0]], 3).nodes[0].tolist() == [0, 1, 2]


def test_a_search_that_selects_enough_with_its_last_visits_has_no_note():
    index = graph_of([], [(1.0, 0.0)] * 20)
    for start, count in ((10, 0), (20, 1)):
        shown = {"filter": {"$id": {"$in": ["9", "19"][: 1 + count]}}, "traversal_filter": {}, "seed_filter": {}}
        found = run(Eager(), index, [list(range(start))], 1 + count, **shown)
        assert found.nodes[0].tolist() == [9, 19][: 1 + count] and not found.notes


def test_relations_of_the_paths_before_stay_those_of_their_steps():
    index = graph_of([(0, 1), (1, 2)], [(1.0, 0.0)] * 3)
    trails, relations = torch.tensor([[[0, 1]]]), torch.tensor([[[7]]])
    before = replace(Ranking.of(torch.tensor([[1]]), torch.ones(1, 1), "Typed"), trails=trails, relations=relations)
    found = ranked(Eager().operator(), Queries.of(index, ["?"], k=3, vectors=[QUESTION], traversal_filter={"$id": "2"}), before)
    assert found.trails[0].tolist() == [[-1, 0, 1], [0, 1, 2]] and found.relations[0].tolist() == [[-1, 7], [7, -1]]


def test_the_depth_of_a_node_is_that_of_its_shortest_way():
    # Nodes 3 (depth 1) and 2 (a start) are visited in one round; both lead to 4, whose neighbour 5 is then in reach.
    edges = [(0, 3), (3, 4), (2, 4), (4, 5)]
    found = by_scores(edges, [9, 8.5, 3, 8, 7, 6], [0, 1, 2], 6, max_depth=2, per_iteration_limit=2)
    assert found.nodes[0].tolist() == [0, 1, 3, 4, 5, 2]
    assert [[row for row in trail if row >= 0] for trail in found.trails[0].tolist()] == [[0], [1], [0, 3], [2, 4], [2, 4, 5], [2]]


# Recorded: graph_retriever 0.8.0, traverse(..., edges=[("links", Id())]) with the links of both directions, InMemory store.
EDGES = [(0, 3), (0, 5), (1, 2), (1, 5), (2, 7), (3, 8), (4, 9), (5, 6), (5, 9), (6, 7), (8, 9), (8, 10), (10, 11)]
RECORDED = [
    ("eager", {}, [6, 9, 11, 4, 10, 5, 7, 8, 3, 2]),
    ("eager", {"start_k": 2, "adjacent_k": 2, "k": 8}, [6, 9, 4, 5]),
    ("eager", {"start_k": 1, "max_depth": 1, "k": 9}, [6, 5, 7]),
    ("mmr", {}, [6, 4, 9, 11, 10, 7, 5, 8, 3, 1]),
    ("mmr", {"start_k": 2, "lambda_mult": 0.2, "adjacent_k": 3, "k": 8}, [6, 7, 9, 4, 8, 10, 11, 5]),
    ("mmr", {"start_k": 1, "lambda_mult": 0.8, "min_mmr_score": -0.1, "k": 9}, [6, 5, 9, 4]),
    ("mmr", {"start_k": 2, "max_depth": 1, "k": 9}, [6, 9, 4, 8, 7, 5]),
    ("scored", {"scorer": True}, [6, 9, 10, 3, 4, 11, 5, 7, 1, 8]),
    ("scored", {"scorer": True, "start_k": 1, "per_iteration_limit": 1, "k": 7}, [9, 6, 10, 4, 5, 7, 8]),
    ("scored", {"scorer": True, "start_k": 2, "adjacent_k": 2, "max_depth": 1, "k": 6}, [6, 9, 4, 5]),
]


def recorded_index():
    rng = random.Random(3)
    rows = [[rng.uniform(-1, 1) for _ in range(3)] for _ in range(12)]
    units = [[value / math.sqrt(sum(v * v for v in row)) for value in row] for row in rows]
    return GraphIndex.from_texts([f"t{row}" for row in range(12)], edges=[(str(a), str(b)) for a, b in EDGES], vectors=units)


def a_scorer(node, similarity, depth):
    return similarity - 0.2 * (int(node.id) % 3) + 0.1 * depth


@pytest.mark.parametrize(("kind", "options", "expected"), RECORDED, ids=str)
def test_results_are_those_of_the_original(kind, options, expected):
    given = {**options, "scorer": a_scorer} if options.get("scorer") else options
    retriever = on(recorded_index(), {"eager": Eager, "mmr": MMR, "scored": Scored}[kind], backfill=False, **given)
    assert [int(hit.id) for hit in retriever.retrieve("?", vector=[0.48, 0.6, 0.64])] == expected


def test_a_score_that_misses_the_least_by_rounding_does_not_end_mmr():
    # 0.5 * -0.6 - 0.5 * -1 is 0.2 in truth, and less in single precision.
    index = graph_of([(0, 1)], [(0.0, 1.0), (0.0, -1.0)])
    for least, nodes in ((0.2, [0, 1]), (0.21, [0])):
        found = run(MMR(min_mmr_score=least), index, [[0]], 2).nodes[0].tolist()
        assert [row for row in found if row >= 0] == nodes


@pytest.mark.parametrize("kind", [Eager, MMR, Scored])
def test_an_edge_from_a_node_to_itself_takes_no_place(kind):
    # Recorded: where node 0 links to itself too, graph_retriever 0.8.0 finds 0 and 1 alone.
    ends = [("0", "0"), ("0", "1"), ("0", "2"), ("0", "3")]
    vectors = [(0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4)]
    for edges in (ends, ends[1:]):
        index = GraphIndex.from_texts(list("abcd"), edges=edges, vectors=vectors, bm25=False)
        hits = Retriever(index, kind(start_k=1, adjacent_k=2), k=4, backfill=False).retrieve("?", vector=(1.0, 0.0))
        assert [hit.id for hit in hits] == ["0", "1", "2"]


def test_a_score_of_scored_is_the_scorers_and_called_once_a_node():
    asked = []

    def scorer(node, similarity, depth):
        asked.append(node.id)
        return len(asked) / 100

    hits = Retriever(recorded_index(), Scored(scorer=scorer, start_k=2), k=12).retrieve("?", vector=[0.48, 0.6, 0.64])
    assert len(asked) == len(set(asked)) == 12 and [hit.score for hit in hits] == pytest.approx([n / 100 for n in range(12, 0, -1)])
    for wrong in (float("nan"), "much", None, math.inf, 1e39, -1e39, 10**400):
        with pytest.raises(InvalidArgumentError, match=r"scorer gave .* for node .* number up to 3.4e\+38"):
            Retriever(recorded_index(), Scored(scorer=lambda *_, wrong=wrong: wrong)).retrieve("?", vector=[1, 0, 0])


@pytest.mark.parametrize("kind", [Eager, MMR, Scored])
def test_a_walk_through_what_a_filter_does_not_allow_ends_and_says_so(kind):
    # A chain of 200 nodes, of which the filter allows the last alone; then one with the third.
    size = 200
    vectors = [[math.cos(row / 200), math.sin(row / 200)] for row in range(size)]
    index = GraphIndex.from_texts(
        list(map(str, range(size))), edges=[(str(r), str(r + 1)) for r in range(size - 1)], vectors=vectors
    )
    search = Retriever(index, kind(start_k=1), backfill=False)
    options = {"vector": [1.0, 0.0], "seed_filter": {}}
    far = search.retrieve("?", k=3, filter={"$id": "199"}, **options)
    assert far == [] and "the traversal ended after 30 nodes, most of which the filter does not allow" in far.notes
    near = search.retrieve("?", k=1, filter={"$id": "3"}, **options)
    assert [hit.path.text for hit in near] == ["0 -> 1 -> 2 -> 3"] and near.notes == ()
    blocked = search.retrieve("?", k=5, traversal_filter=lambda node: node.id != "2", **options)
    assert [hit.id for hit in blocked] == ["0", "1"]


@pytest.mark.parametrize("kind", [Eager, MMR, Scored])
def test_a_hub_is_one_round(kind):
    size = 10_000
    vectors = torch.nn.functional.normalize(torch.randn(size, 16, generator=torch.Generator().manual_seed(0)))
    index = GraphIndex.from_texts([f"t{row}" for row in range(size)], edges=[("0", str(r)) for r in range(size)], vectors=vectors)
    hits = Retriever(index, kind(start_k=1)).retrieve("?", vector=vectors[0].tolist())
    assert hits[0].id == "0" and all(hit.path.nodes[0] == "0" for hit in hits) and len(hits) == 10
    cosines = vectors @ vectors[0]
    if kind is not MMR:
        assert [int(hit.id) for hit in hits] == cosines.argsort(descending=True)[:10].tolist()


def test_each_node_is_compared_with_the_question_once(monkeypatch):
    asked, similarity = [], MemoryBackend.similarity

    def counted(self, requests):
        asked.extend(len(request.nodes) for _, request in requests)
        return similarity(self, requests)

    monkeypatch.setattr(MemoryBackend, "similarity", counted)
    star = GraphIndex.from_texts(
        [f"t{row}" for row in range(300)], edges=[("0", str(r)) for r in range(300)], vectors=torch.eye(300)
    )
    hits = Retriever(star, MMR(start_k=1, adjacent_k=300), k=30).retrieve("?", vector=[1.0] + [0.1] * 299)
    # The start, its 299 neighbours, and the start as the neighbour of one of them.
    assert len(hits) == 30 and sum(asked) == 301


def test_a_start_by_another_operator_keeps_its_paths():
    index = GraphIndex.from_texts(
        ["one text", "two", "three", "four"],
        titles=["Ada", "Loom", "Card", "Mill"],
        edges=[("0", "1"), ("1", "2"), ("2", "3")],
        vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]],
    )
    start = Pipeline(EntityLinking(), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(index, Pipeline(start, Eager().operator())).retrieve("Ada?", k=4, vector=[1, 0])
    assert {hit.id: hit.path.text for hit in hits} == {
        "0": "Ada",
        "1": "Ada -> Loom",
        "2": "Ada -> Loom -> Card",
        "3": "Ada -> Loom -> Card -> Mill",
    }


def test_what_cannot_be_is_refused(caplog):
    caplog.set_level(logging.ERROR)
    index = recorded_index()
    for kind, options in [
        (Eager, {"start_k": 0}),
        (Eager, {"adjacent_k": 0}),
        (Scored, {"max_depth": -1}),
        (Scored, {"scorer": 3}),
        (Scored, {"per_iteration_limit": 0}),
        (MMR, {"lambda_mult": 1.5}),
        (MMR, {"min_mmr_score": float("nan")}),
    ]:
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            Retriever(index, kind(**options))

    with pytest.raises(InvalidArgumentError, match="max_depth must be an integer of at least 0"):
        Retriever(index, Eager(max_depth=-1))

    class Outside:
        dimension = 3

    queries = Queries.of(index, ["?"], vectors=[[1.0, 0.0, 0.0]])
    object.__setattr__(queries, "index", type("Index", (), {"dense": Outside(), "graph": index.graph})())
    with pytest.raises(MissingSignalError, match="which Outside does not give"):
        MemoryBackend(queries).vectors([(0, Vectors(np.zeros(1, np.int64)))])
