"""GRAG (Hu et al.) against a literal reference: a worked case, random graphs with ties, filters, no vectors of edges."""

import random

import numpy as np
import pytest

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems import EgoGRAG
from tests.references.ego_grag import ego_graph, search

# A path a - b - c - d, a loop at b, two edges between b and c, and e alone.
IDS = list("abcde")
ENDS = [(0, 1), (1, 2), (2, 1), (2, 3), (1, 1)]
NODES = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [0.96, 0.28]]
EDGES = [[0.0, 1.0], [0.6, 0.8], [0.6, 0.8], [0.0, 2.0], [1.0, 0.0]]
QUERY = [2.0, 0.0]


def index_of(nodes, ends, edges=None):
    ids = [f"n{row:02}" for row in range(len(nodes))]
    graph = CorpusGraph(ids, ids, edges=[(ids[a], ids[b], f"r{place % 3}") for place, (a, b) in enumerate(ends)])
    signals = {"dense": DenseIndex(nodes)}
    if edges is not None and ends:
        signals["edge_dense"] = DenseIndex(edges, covers="edges")
    return GraphIndex(graph, signals)


def found(index, questions, k=100, **settings):
    """What the system finds for each question alone and in a batch: (row, score, path) of each hit."""
    retriever = Retriever(index, EgoGRAG(**settings), k=k, backfill=False)
    together = retriever.retrieve_batch(["?"] * len(questions), vectors=questions)
    assert [told(hits) for hits in together] == [told(retriever.retrieve("?", vector=vector)) for vector in questions]
    return [told(hits) for hits in together], together


def told(hits):
    return [(int(hit.id[1:]), hit.score, tuple(int(node[1:]) for node in hit.path.nodes)) for hit in hits]


def same(mine, expected):
    assert [(node, path) for node, _, path in mine] == [(node, path) for node, _, path in expected]
    assert [score for _, score, _ in mine] == pytest.approx([score for _, score, _ in expected], abs=1e-6)


def test_the_worked_case():
    # Of one edge each way. The ego graph of a: a, b, the edge between, and the loop: (2, 2) / 4, a cosine of 0.7071. That of d:
    # d, c and an edge of unit length 1: (1.4, 2.4) / 3, 0.5039. That of e is e, 0.96. Of c: (1.4 + 1.2 + 1, 2.4 + 1.6 + 1).
    index = index_of(NODES, ENDS, EDGES)
    mine, _ = found(index, [QUERY], hops=1, graphs=2)
    assert [(node, path) for node, _, path in mine[0]] == [(0, (0,)), (4, (4,)), (1, (0, 1))]
    assert [score for _, score, _ in mine[0]] == pytest.approx([1.0, 0.96, 0.0])
    expected, scores = search(QUERY, NODES, ENDS, EDGES, hops=1)
    assert scores[0] == pytest.approx(0.7071, abs=1e-4) and scores[3] == pytest.approx(0.5039, abs=1e-4) and scores[4] == 0.96
    # Three nodes: (1.4, 2.4); four edges: (2.2, 2.6) with the loop; 3.6 / hypot(3.6, 5).
    assert scores[2] == pytest.approx(3.6 / np.hypot(3.6, 5.0))
    same(found(index, [QUERY], hops=1)[0][0], expected)
    # Two edges away: the path leads through the node between; of the ego graph of a, only two nodes are kept.
    assert ego_graph(0, ENDS, 2)[0] == {0: (0,), 1: (0, 1), 2: (0, 1, 2)}
    mine, _ = found(index, [QUERY], centres=1, hops=2, entities=2)
    assert [(node, path) for node, _, path in mine[0]] == [(0, (0,)), (2, (0, 1, 2))]


def case(seed):
    """A random graph with parallel edges, loops, isolated nodes, equal vectors and nodes without a vector."""
    draw = random.Random(seed)
    size, wide = draw.randint(1, 12), draw.choice([2, 3])
    if draw.random() < 0.5:
        values = [[draw.choice([-1.0, 0.0, 1.0, 2.0]) for _ in range(wide)] for _ in range(size)]
        values[0] = values[0] if any(values[0]) else [1.0] * wide
        questions = [[draw.choice([-1.0, 1.0, 2.0]) for _ in range(wide)] for _ in range(3)]
    else:
        values = [[draw.gauss(0, 1) for _ in range(wide)] for _ in range(size)]
        questions = [[draw.gauss(0, 1) for _ in range(wide)] for _ in range(3)]
    # The centres are found by products, which are cosines of unit vectors.
    values = (np.array(values) / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)).tolist()
    inner = draw.randint(1, size)
    ends = [(draw.randrange(inner), draw.randrange(inner)) for _ in range(draw.randint(0, 2 * size))]
    ends += draw.choices(ends, k=2) if ends else []
    edges = [draw.choice([values[0], [draw.gauss(0, 2) for _ in range(wide)]]) for _ in ends] if draw.random() < 0.7 else None
    settings = {
        "centres": draw.choice([1, 3, 100]),
        "graphs": draw.choice([1, 2, 5]),
        "hops": draw.choice([1, 2, 3]),
        "entities": draw.choice([1, 2, 10]),
    }
    return values, ends, edges, questions, settings


def compare(seeds):
    for seed in seeds:
        values, ends, edges, questions, settings = case(seed)
        mine, together = found(index_of(values, ends, edges), questions, **settings)
        for question, own in zip(questions, mine, strict=True):
            expected, _ = search(question, values, ends, edges if ends else None, **settings)
            same(own, expected)
        noted = [any("ego graphs" in note for note in hits.notes) for hits in together]
        assert not any(noted) or edges is None, seed


def test_same_nodes_order_scores_and_paths_as_the_reference_on_60_random_graphs():
    compare(range(60))


@pytest.mark.slow
def test_same_nodes_order_scores_and_paths_as_the_reference_on_1000_random_graphs():
    compare(range(1000, 2000))


def test_without_vectors_of_edges_a_note_says_that_nodes_alone_count():
    _, (hits,) = found(index_of(NODES, ENDS), [QUERY])
    alone = (
        "the vectors of ego graphs are those of their nodes alone, as the index has no vectors of edges in 'edge_dense'; "
        "build it with edge_signals=True and embedding="
    )
    assert hits.notes == (alone,)
    _, (hits,) = found(index_of(NODES, []), [QUERY])
    assert not any("ego graphs" in note for note in hits.notes) and len(hits) == 5
    with pytest.raises(InvalidArgumentError, match="reads vectors of edges; the signal 'dense' covers nodes"):
        found(index_of(NODES, ENDS), [QUERY], signal="dense")


def test_cosines_that_cancel_out_give_an_ego_graph_the_score_0_whatever_the_rounding():
    # Three vectors whose sum is 0, but for rounding; and the ego graph of the last node, of the score 0.1.
    angles = np.arange(3) * 2 * np.pi / 3 + 0.1
    nodes = [*np.stack([np.cos(angles), np.sin(angles)], 1).tolist(), [0.1, 0.99**0.5]]
    for question in (QUERY, [1.0, 1e-3]):
        mine, _ = found(index_of(nodes, [(0, 1), (1, 2), (2, 0)]), [question], graphs=1, hops=1)
        assert [node for node, *_ in mine[0]] == [3]


def test_filters_hold_for_centres_walks_and_results():
    nodes = [Node(name, name, type="xy"[place % 2]) for place, name in enumerate(IDS)]
    edges = [(IDS[a], IDS[b]) for a, b in ENDS]
    index = GraphIndex.from_nodes(nodes, edges, vectors=NODES, metric="cosine")
    retriever = Retriever(index, EgoGRAG(entities=2), backfill=False)
    assert {hit.path.nodes[0] for hit in retriever.retrieve("?", vector=QUERY, seed_filter={"$id": "d"})} == {"d"}
    hits = retriever.retrieve("?", vector=QUERY, seed_filter={"$id": "a"}, traversal_filter={"$id": "b"})
    assert [hit.path.nodes for hit in hits] == [("a",), ("a", "b")]
    # Nodes that are not returned take no place among the two that are kept.
    hits = retriever.retrieve("?", vector=QUERY, seed_filter={"$id": "c"}, filter={"$id": {"$in": ["b", "c"]}})
    assert [hit.id for hit in hits] == ["c", "b"]
    # A centre need not be one that is returned: the ego graph of a is the best one with b.
    retriever = Retriever(index, EgoGRAG(hops=1), backfill=False)
    assert [hit.path.nodes for hit in retriever.retrieve("?", vector=QUERY, filter={"$id": "b"}, seed_filter={})] == [("a", "b")]


def test_values_outside_their_ranges_are_refused():
    for name in ("graphs", "hops", "entities", "centres"):
        with pytest.raises(InvalidArgumentError, match=name):
            Retriever(index_of(NODES, ENDS), EgoGRAG(**{name: 0}))
