"""Mixed traversal and its typed adjacency on random typed graphs, against the literal reference."""

import random
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import MoR
from graph_retrievers.core.requests import Steps
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph import typed_adjacency as module
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.traversal import MixedTraversal
from tests.helpers import Written, trajectories
from tests.rankings import ranked
from tests.references import mor as reference

TYPES, RELATIONS = ["film", "person", "tag"], ["by", "has", "with"]


class Hashed:
    """A similarity for every (text, node), with ties, and about a third of the nodes not matching at all."""

    @staticmethod
    def value(text, node):
        return float(max(0, zlib.crc32(f"{text}|{node}".encode()) % 30 - 9))

    def best(self, text, nodes, k):
        matching = [n for n in nodes if self.value(text, n) > 0]
        return sorted(matching, key=lambda n: (-self.value(text, n), n))[:k]


@st.composite
def worlds(draw):
    """A typed graph with plans that fit its schema, one to three queries."""
    return world_of(random.Random(draw(st.integers(0, 10**6))))


def world_of(rng):
    size = rng.randint(2, 14)
    types = [rng.choice(TYPES) for _ in range(size)]
    edges = [(rng.randrange(size), rng.choice(RELATIONS), rng.randrange(size)) for _ in range(rng.randint(1, 30))]
    triples = sorted({t for a, r, b in edges for t in ((types[a], r, types[b]), (types[b], r, types[a]))})
    titles = [f"name {rng.randrange(size)}" for _ in range(size)]
    plans = []
    for _ in range(rng.randint(1, 3)):
        paths = []
        for _ in range(rng.randint(1, 3)):
            near, relation, far = rng.choice(triples)
            steps = [(near, None), (far, rng.choice([relation, None]))]
            for _ in range(rng.randint(0, 2)):
                onward = [t for t in triples if t[0] == steps[-1][0]]
                _, relation, far = rng.choice(onward)
                steps.append((far, rng.choice([relation, None])))
            phrases = [rng.choice(["name 1", "red", "blue"])] + [rng.choice(["", "", "red"]) for _ in steps[1:]]
            paths.append([(kind, relation, phrase) for (kind, relation), phrase in zip(steps, phrases, strict=True)])
        plans.append(paths)
    return types, titles, edges, plans


def index_of(types, titles, edges, device="cpu", signal="hashed"):
    ids = [str(i) for i in range(len(types))]
    graph = CorpusGraph(ids, ids, titles=titles, types=types, edges=[(str(a), str(b), r) for a, r, b in edges], device=device)
    return GraphIndex(graph, {signal: Written(len(ids), Hashed.value)})


def written(paths):
    steps = [[{"type": t, "relation": r, "restriction": [p] if p else []} for t, r, p in path] for path in paths]
    return {"paths": steps}


def asked(index, numbers, plans):
    return Queries.of(index, [f"query {number}" for number in numbers], inputs={"plan": [written(plans[n]) for n in numbers]})


def expected(world, number, matcher, seeds, matches, limit, exact, check_types):
    types, titles, edges, plans = world
    query, paths = f"query {number}", plans[number]
    of_type = {kind: [n for n, t in enumerate(types) if t == kind] for kind in TYPES}
    found = []
    for path in paths:
        kind, _, phrase = path[0]
        pinned = [n for n in of_type[kind] if titles[n] == phrase] if exact else []
        starts = pinned or matcher.best(f"{query} {phrase}", of_type[kind], seeds)
        added = {
            layer: matcher.best(f"{query} {phrase}", of_type[kind], matches)
            for layer, (kind, _, phrase) in enumerate(path)
            if layer and phrase
        }
        steps = [(kind, relation) for kind, relation, _ in path]
        if not check_types:
            between = sorted({(types[a], r, types[b]) for a, r, b in edges} | {(types[b], r, types[a]) for a, r, b in edges})
            steps = [steps[0]] + [
                (far, r if r is not None else [m for a, m, b in between if (a, b) == (near, far)][-1])
                for (near, _), (far, r) in zip(steps, steps[1:], strict=False)
            ]
        found.append(reference.walk(steps, types, edges, starts, added, pinned, check_types))
    merged = reference.merge(found)
    last = {path[-1][0] for path in paths}
    filler = matcher.best(query, [n for n, t in enumerate(types) if t in last], len(types))
    nodes = reference.candidates(merged, filler, lambda n: matcher.value(query, n), limit)
    return nodes, [merged.get(n, [n]) for n in nodes]


@settings(max_examples=150)
@given(worlds(), st.sampled_from([1, 3]), st.sampled_from([0, 2]), st.sampled_from([2, 5, 20]), st.booleans(), st.booleans())
def test_mixed_traversal_equals_the_reference(world, seeds, matches, limit, exact, check_types):
    types, titles, edges, plans = world
    matcher = Hashed()
    index = index_of(types, titles, edges)
    operator = MixedTraversal(seeds, matches, limit, exact_titles=exact, check_types=check_types, matching="hashed")
    queries = asked(index, range(len(plans)), plans)
    ranking = ranked(operator, queries)
    for number in range(len(plans)):
        nodes, trails = expected(world, number, matcher, seeds, matches, limit, exact, check_types)
        row = [n for n in ranking.nodes[number].tolist() if n >= 0]
        assert row == nodes
        assert [[n for n in trail if n >= 0] for trail in ranking.trails[number].tolist()[: len(row)]] == trails
        single = ranked(operator, asked(index, [number], plans))
        assert torch.equal(single.nodes[0], ranking.nodes[number, : len(row)])
        assert torch.equal(single.scores[0], ranking.scores[number, : len(row)])


def test_the_seeds_of_the_published_form_come_by_text_matching():
    rng, differ, compared = random.Random(11), 0, 0
    while compared < 1000:
        types, titles, edges, plans = world = world_of(rng)
        seeds, matches, limit = rng.choice([1, 3]), rng.choice([0, 2]), rng.choice([2, 5, 20])
        index, found = index_of(types, titles, edges, signal="bm25"), []
        for exact in (False, True):
            system = MoR(seeds=seeds, matches=matches, candidates=limit, exact_titles=exact, fill=True)
            ranking = ranked(system.compose(index), asked(index, range(len(plans)), plans))
            lists = [[node for node in row if node >= 0] for row in ranking.nodes.tolist()]
            trails = [[[n for n in trail if n >= 0] for trail in table] for table in ranking.trails.tolist()]
            found.append([(nodes, table[: len(nodes)]) for nodes, table in zip(lists, trails, strict=True)])
            for number, got in enumerate(found[-1]):
                assert got == tuple(expected(world, number, Hashed(), seeds, matches, limit, exact, True))
        compared += len(plans)
        differ += sum(one != other for one, other in zip(*found, strict=True))
    assert differ > 50, "exact titles make a difference in the cases"


@settings(max_examples=60)
@given(worlds(), st.sampled_from([2, 3, 5]))
def test_fingerprints_equal_the_reference(world, length):
    types, titles, edges, plans = world
    matcher = Hashed()
    index = index_of(types, titles, edges)
    operator = MixedTraversal(2, 2, 20, exact_titles=False, matching="hashed")
    queries = asked(index, range(len(plans)), plans)
    ranking = ranked(operator, queries)
    reranker = TrajectoryReranker(TrajectoryScorer(length, 4), matching="hashed")
    for number, (paths, seen) in enumerate(zip(plans, trajectories(reranker, queries, ranking), strict=True)):
        query = f"query {number}"
        texts = {(step[0], f"{query} {step[2]}") for path in paths for step in path if step[2]}
        for column, node in enumerate(ranking.nodes[number].tolist()):
            if node < 0:
                continue
            trail = [n for n in ranking.trails[number, column].tolist() if n >= 0]
            text = seen.text[column].tolist()
            hits = {n: matcher.value(t, n) for kind, t in texts for n in matcher.best(t, range(len(types)), 20) if types[n] == kind}
            pads = length - min(len(trail), length)
            # The first node keeps a similarity to query and restriction if text found it, or that to the query alone.
            options = {matcher.value(query, trail[0])} | {
                matcher.value(t, trail[0]) for kind, t in texts if kind == types[trail[0]] and trail[0] in hits
            }
            if len(trail) <= length:
                assert text[pads] in options
            first = text[pads] if len(trail) <= length else 0.0
            wanted = reference.fingerprints(
                trail, types, first, lambda n, query=query: matcher.value(query, n), matcher.value(query, node), length
            )
            assert text == pytest.approx(wanted[0])
            assert " ".join(seen.patterns[column]) == wanted[1]
            assert seen.identifier[column].tolist() == wanted[2]


@settings(max_examples=60)
@given(worlds(), st.integers(0, 10**6), st.sampled_from(["pointers", "search"]))
def test_typed_steps_equal_a_scan_of_all_edges(world, seed, way):
    types, titles, edges, _ = world
    rng, size = random.Random(seed), len(types)
    with pytest.MonkeyPatch().context() as changed:
        if way == "search":
            changed.setattr(module, "_POINTER_LIMIT", 0)
        memory = MemoryBackend(Queries.of(index_of(types, titles, edges), ["a"]))
        frontier = rng.sample(range(size), rng.randint(0, size))
        both = [(a, r, b) for a, r, b in edges] + [(b, r, a) for a, r, b in edges if a != b]
        for kind, relation in ((rng.choice(TYPES), rng.choice([*RELATIONS, None])), (None, rng.choice(RELATIONS))):
            ((near, whole),) = memory.steps([(0, Steps(np.array(frontier, np.int64), kind, relation, 10**6))])
            expected = [
                (place, b)
                for place, node in enumerate(frontier)
                for a, r, b in both
                if a == node and kind in (None, types[b]) and relation in (None, r)
            ]
            assert sorted(zip(near.owner.tolist(), near.node.tolist(), strict=True)) == sorted(expected)
            assert near.owner.tolist() == sorted(near.owner.tolist()) and whole


def test_a_step_that_meets_its_limit_leaves_nodes_out():
    size = 40
    edges = [(0, "by", n) for n in range(1, size)]
    index = index_of(["film"] + ["person"] * (size - 1), ["t"] * size, [*edges, (1, "by", 2)])
    memory = MemoryBackend(Queries.of(index, ["a"]))
    ((near, whole),) = memory.steps([(0, Steps(np.array([1, 0, 2]), "person", None, 10))])
    assert (near.owner.tolist(), near.node.tolist(), whole) == ([0], [2], False)
