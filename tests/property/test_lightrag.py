"""LightRAG on random graphs: against the literal reference, batch against single, and a hub."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import Retriever
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems.lightrag.retriever import LightRAG
from tests.rankings import rank
from tests.references import lightrag as reference

# Angles, so that cosines tie often and none is near the threshold; 9 is not a vector.
ANGLES = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 9])
LONG = "word " * 25


def vector(angle):
    return [0.0, 0.0] if angle == 9 else [math.cos(angle * 0.3), math.sin(angle * 0.3)]


def cosine(a, b):
    return 0.0 if 9 in (a, b) else round(math.cos((a - b) * 0.3), 6)


@st.composite
def problems(draw):
    """A multigraph with self loops, parallel and weighted edges; nodes are entities, pages, or entities with passages."""
    shape = draw(st.sampled_from(["entities", "pages", "mixed"]))
    size = draw(st.integers(3, 12))
    node = st.integers(0, size - 1)
    rows = draw(st.lists(st.tuples(node, node, st.sampled_from([1.0, 2.0])), min_size=1, max_size=24))
    rows += [(draw(node), other, 1.0) for other in range(size)] if draw(st.booleans()) else []
    passages = {n for n in range(size) if shape == "mixed" and (n == 0 or draw(st.booleans()))} - {size - 1}
    angles = draw(st.lists(ANGLES, min_size=size, max_size=size)), draw(st.lists(ANGLES, min_size=len(rows), max_size=len(rows)))
    return shape, rows, passages, angles, draw(st.lists(st.integers(0, 6), min_size=3, max_size=3))


def index_of(shape, rows, passages, angles):
    ids = [f"n{n}" for n in range(len(angles[0]))]
    types = ["passage" if n in passages else "thing" * (shape == "mixed") for n in range(len(ids))]
    edges = [Edge(ids[a], ids[b], "r", weight) for a, b, weight in rows]
    graph = CorpusGraph(ids, [LONG if shape == "pages" else "short"] * len(ids), types=types, edges=edges)
    signals = {"dense": DenseIndex([vector(a) for a in angles[0]])}
    signals["edge_dense"] = DenseIndex([vector(a) for a in angles[1]], covers="edges")
    return GraphIndex(graph, signals)


def expected(index, shape, rows, passages, angles, angle, mode, top_k, budgets, pick):
    """Nodes and relations in order, and where trails may begin."""
    near = [cosine(a, angle) for a in angles[0]]
    alone = [cosine(a, angle) for a in angles[1]]
    inside = [n for n, (a, b, _) in enumerate(rows) if not {a, b} & passages]

    def search(scores, allowed, k):
        found = sorted(allowed, key=lambda row: (-scores[row], row))[:k]
        return [row for row in found if scores[row] > 0.2]

    entities = [n for n in range(len(near)) if n not in passages]
    relations = search(alone, inside, top_k)
    starts = set(search(near, entities, top_k)) if mode != "global" else set()
    starts |= {end for n in relations for end in rows[n][:2]} if mode != "local" else set()
    starts |= set(search(near, passages or entities, 2)) if mode == "mix" else set()
    chunks = {e: sorted({a + b - e for a, b, _ in rows if e in (a, b) and a + b - e in passages}) for e in entities}
    contents = index.graph.contents(), index.graph.edge_contents()
    only = [rows[n] for n in inside]
    nodes, facts = reference.retrieve(
        "hybrid" if mode == "mix" and shape == "entities" else mode,
        search(near, entities, top_k),
        [inside.index(n) for n in relations],
        search(near, passages or entities, 2),
        only,
        chunks if passages else None,
        near,
        ([estimate_tokens(text) for text in contents[0]], [estimate_tokens(contents[1][n]) for n in inside]),
        pick=pick or ("weight" if shape == "entities" else "vector"),
        budgets=budgets,
    )
    return nodes, [inside[n] for n in facts], starts


@settings(max_examples=250)
@given(
    problems(),
    st.sampled_from(["local", "global", "hybrid", "mix"]),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([(6000, 8000), (9, 20)]),
    st.sampled_from([None, "vector", "weight"]),
)
def test_nodes_and_relations_are_those_of_the_reference(problem, mode, top_k, budgets, pick):
    shape, rows, passages, angles, asked = problem
    index = index_of(shape, rows, passages, angles)
    budget = {"entity_tokens": budgets[0], "relation_tokens": budgets[1]}
    system = LightRAG(mode=mode, top_k=top_k, chunk_top_k=2, chunk_pick=pick, facts=True, **budget)
    retriever = Retriever(index, system)
    found = rank(retriever, Queries.of(index, ["?"] * 3, vectors=[vector(a) for a in asked]))
    for b, angle in enumerate(asked):
        nodes, facts, starts = expected(index, shape, rows, passages, angles, angle, mode, top_k, budgets, pick)
        real = [row for row in found.facts.rows[b].tolist() if row >= 0]
        assert [node for node in found.nodes[b].tolist() if node >= 0] == nodes
        assert real == reference.within(facts, [estimate_tokens(text) for text in index.graph.edge_contents()], budgets[1])
        alone = rank(retriever, Queries.of(index, ["?"], vectors=[vector(angle)]))
        assert [node for node in alone.nodes[0].tolist() if node >= 0] == nodes
        for trail in found.trails[b].tolist():
            steps = [node for node in trail if node >= 0]
            assert not steps or steps[0] in starts
            assert all(index.graph.adjacency(torch.tensor(a), torch.tensor(b)) > 0 for a, b in zip(steps, steps[1:], strict=False))


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix"])
@pytest.mark.parametrize("types", [None, ["thing"] + ["passage", "thing"] * 5000])
def test_a_hub_of_ten_thousand_neighbours_is_read_within_the_budgets(mode, types):
    ids = [f"n{n}" for n in range(10_001)]
    edges = [("n0", other, "r") for other in ids[1:]] + [("n2", other, "r") for other in ids[3::2]]
    graph = CorpusGraph(ids, [LONG] * len(ids), types=types, edges=edges)
    dense = DenseIndex(torch.eye(3)[torch.arange(10_001) % 3])
    index = GraphIndex(graph, {"dense": dense, "edge_dense": DenseIndex([[1.0, 0, 0]] * len(edges), covers="edges")})
    found = rank(Retriever(index, LightRAG(mode=mode, facts=True)), Queries.of(index, ["?"] * 4, vectors=[[1.0, 0.5, 0.1]] * 4))
    # The texts of relations have six tokens or so each, and those of entities about thirty.
    assert found.facts.rows.shape[1] <= 8000 // 4 + 40
    assert found.width <= 20 + 6000 // 25 * 5 + 2 * found.facts.rows.shape[1] + 80
