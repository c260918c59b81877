"""GraphRAG's local search against its order written out, and a worked example."""

import random

import pytest

from graph_retrievers import GraphIndex, GraphRAGLocal, Node, Retriever
from tests.references import graphrag_local as reference

KINDS = ("thing", "thing", "person", "passage", "community")


def random_graph(rng):
    """Types, rows with parallel edges and self loops, and similarities with ties."""
    size = rng.randrange(2, 12)
    types = [rng.choice(KINDS) for _ in range(size)]
    # A thing and a passage, so that there are entities and texts.
    types[:2] = ["thing", "passage"]
    rows = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
    return types, rows, [rng.randrange(1, 4) / 4 for _ in range(size)]


def index_of(types, rows, similarity):
    nodes = [Node(f"n{row}", f"Text {row}", type=kind) for row, kind in enumerate(types)]
    edges = [(f"n{a}", f"n{b}") for a, b in rows]
    return GraphIndex.from_nodes(nodes, edges, vectors=[[value] for value in similarity], metric="dot", bm25=False)


def found(index, **settings):
    system = GraphRAGLocal(facts=True, **settings)
    return Retriever(index, system, k=99, backfill=False).retrieve("?", vector=[1.0])


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        types, rows, similarity = random_graph(rng)
        index, most, budget = index_of(types, rows, similarity), rng.randrange(1, 5), rng.randrange(1, 3)
        entities = [row for row, kind in enumerate(types) if kind not in (reference.TEXT, reference.REPORT)]
        selected = sorted(entities, key=lambda row: (-similarity[row], row))[:most]
        texts = reference.texts(selected, rows, types)
        expected = [text for text, _ in texts] + reference.reports(selected, rows, types) + selected
        hits = found(index, entities=most, relationships=budget)
        assert [hit.id for hit in hits.nodes] == [f"n{row}" for row in expected]
        assert [(hit.path.nodes, hit.score) for hit in hits.nodes[: len(texts)]] == [
            ((f"n{entity}", f"n{text}"), similarity[entity]) for text, entity in texts
        ]
        facts = [tuple(index.graph.row(node) for node in (hit.edge.source, hit.edge.target)) for hit in hits.facts]
        assert facts == [rows[n] for n in reference.relationships(selected, rows, types, budget)]


def test_order_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_order_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Ada and Engine are found, in this order. "both" contains the relationship of the two, "ada" only Ada; "engine" is of the
    # second entity. The report is on both. "Loom" is another entity, related to Ada.
    types = ["thing", "thing", "thing", "passage", "passage", "passage", "community"]
    rows = [(0, 1), (0, 2), (3, 0), (4, 0), (4, 1), (5, 1), (6, 0), (6, 1)]
    hits = found(index_of(types, rows, [0.9, 0.8, 0.1, 0, 0, 0, 0]), entities=2)
    assert [(hit.id, round(hit.score, 2)) for hit in hits.nodes] == [
        *(("n4", 0.9), ("n3", 0.9), ("n5", 0.8)),
        *(("n6", 0.8), ("n0", 0.8), ("n1", 0.8)),
    ]
    assert [(hit.edge.source, hit.edge.target) for hit in hits.facts] == [("n0", "n1"), ("n0", "n2")]
    assert not Retriever(index_of(types, rows, [0.9] * 7), GraphRAGLocal(), backfill=False).retrieve("?", vector=[1.0]).facts


def test_texts_are_in_the_order_of_how_many_relationships_they_contain():
    # "n4" contains two of the entity, and "n3" one.
    rows = [(0, 1), (0, 2), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2)]
    index = index_of(["thing"] * 3 + ["passage"] * 2, rows, [0.9, 0.1, 0.1, 0, 0])
    assert [hit.id for hit in found(index, entities=1).nodes] == ["n4", "n3", "n0"]


def test_a_report_scores_the_share_of_the_entities_that_are_linked_to_it():
    index = index_of(["thing", "thing", "passage", "community"], [(2, 0), (3, 0)], [0.9, 0.8, 0, 0])
    hits = found(index, entities=2).nodes
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("n2", 0.9), ("n3", 0.5), ("n0", 0.5), ("n1", 0.5)]


def test_without_texts_an_entity_is_followed_by_its_neighbours():
    # The neighbours of n0: n2 contains its relationship with n1, and n1 that with n2; n3 contains none.
    types, rows = ["thing"] * 5, [(0, 3), (0, 1), (0, 2), (1, 2), (4, 3)]
    index = index_of(types, rows, [0.9, 0.1, 0.1, 0.1, 0.8])
    hits = found(index, entities=2)
    assert [(hit.id, round(hit.score, 2)) for hit in hits.nodes] == [
        *(("n0", 0.9), ("n1", 0.9), ("n2", 0.9), ("n3", 0.9), ("n4", 0.8)),
    ]
    assert [hit.path.nodes for hit in hits.nodes[:2]] == [("n0",), ("n0", "n1")]


def test_a_report_follows_no_entity_where_there_are_no_texts():
    index = index_of(["thing", "thing", "community"], [(0, 2), (0, 1)], [0.9, 0.1, 0.8])
    assert [hit.id for hit in found(index, entities=1).nodes] == ["n0", "n1"]


def test_any_number_of_relationships_brings_all():
    types, rows, similarity = random_graph(random.Random(3))
    index = index_of(types, rows, similarity)
    facts = found(index, relationships=len(rows)).facts
    assert facts == found(index, relationships=1 << 62).facts and len(facts) > 1


def test_a_batch_is_its_questions_one_by_one():
    rng = random.Random(2)
    types, rows, similarity = random_graph(rng)
    index = index_of(types, rows, similarity)
    retriever = Retriever(index, GraphRAGLocal(facts=True), k=9, backfill=False)
    batch = retriever.retrieve_batch(["?", "!"], vectors=[[1.0], [-1.0]])
    alone = [retriever.retrieve(question, vector=vector) for question, vector in (("?", [1.0]), ("!", [-1.0]))]
    assert [list(map(str, hits)) for hits in batch] == [list(map(str, hits)) for hits in alone]
