"""Edges as objects: what they refuse, what the graph keeps of them, and where their weights count."""

import json
import math
from fractions import Fraction

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.construction import from_networkx, to_networkx
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import DatasetError, InvalidArgumentError, UnknownNodeError
from graph_retrievers.graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import GRanker, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.systems.pagerank import TransitionGraph, personalized_pagerank
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes
from tests.retrievers import EVERY, on

RICH = [
    Edge("a", "b", "knows", 2.5, "They met.", {"year": 1833}),
    Edge("b", "a", "knows"),
    Edge("a", "b", "cites", metadata={"pages": [1, 2]}),
    Edge("c", "c", "", 0.5),
]


def rich_graph(device="cpu"):
    return CorpusGraph(["a", "b", "c"], ["A", "B", "C"], edges=RICH, device=device)


# -- what an edge is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["source", "target", "relation", "text"])
@pytest.mark.parametrize("value", [None, 3, b"a", ["a"]])
def test_names_and_texts_are_strings(place, value):
    with pytest.raises(InvalidArgumentError, match=rf"has the {place} .*; expected a string"):
        Edge(**{"source": "a", "target": "b", place: value})


@pytest.mark.parametrize(
    "weight", [0, -1, 0.0, 1e-60, 0.9e-30, 1.1e30, 1e39, 10**400, math.nan, math.inf, -math.inf, True, "1", None, 1j]
)
def test_weights_are_numbers_that_single_precision_holds(weight):
    with pytest.raises(InvalidArgumentError, match="has the weight .*; expected a number from 1e-30 to 1e\\+30"):
        Edge("a", "b", weight=weight)


@pytest.mark.parametrize("weight", [1, 1e-30, 1e30, Fraction(1, 2), np.float32(2.5), np.int64(3)])
def test_numbers_of_every_kind_are_weights(weight):
    graph = CorpusGraph(["a", "b"], ["", ""], edges=[Edge("a", "b", weight=weight)])
    assert graph.weights.tolist() == [pytest.approx(float(weight))]


@pytest.mark.parametrize("metadata", [None, [], "x", [("a", 1)]])
def test_metadata_are_a_mapping(metadata):
    with pytest.raises(InvalidArgumentError, match="has the metadata .*; expected a mapping"):
        Edge("a", "b", metadata=metadata)


def test_an_edge_is_a_value():
    edge = Edge("a", "b", "r", 2.0, "t", {"x": 1})
    assert edge == Edge("a", "b", "r", 2.0, "t", {"x": 1}) and edge != Edge("a", "b", "r", 2.0, "t", {"x": 2})
    assert len({edge, Edge("a", "b", "r", 2.0, "t", {"x": 1})}) == 1
    with pytest.raises(AttributeError):
        edge.weight = 1.0


@pytest.mark.parametrize("given", [("a", "b"), ["a", "b", ""], ("a", "b", ""), Edge("a", "b")])
def test_tuples_and_edges_mean_the_same(given):
    assert Edge.of(given) == Edge("a", "b")
    graph = CorpusGraph(["a", "b"], ["", ""], edges=[given])
    assert graph.edges() == [Edge("a", "b")] and (graph.edge_texts, graph.edge_metadata) == ([], [])


@pytest.mark.parametrize("given", ["ab", ("a",), ("a", "b", "r", 2.0), {"a", "b"}, 7, None])
def test_what_is_no_edge_is_named(given):
    with pytest.raises(InvalidArgumentError, match="An edge is"):
        Edge.of(given)
    with pytest.raises(InvalidArgumentError, match="An edge is"):
        CorpusGraph(["a", "b"], ["", ""], edges=[given])


def test_an_unknown_end_is_named_with_its_edge():
    with pytest.raises(UnknownNodeError, match=r"Edge 1 \('a', 'z', 'r'\) names 'z'"):
        CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b"), Edge("a", "z", "r", 2.0)])


# -- what the graph keeps ---------------------------------------------------------------------------------------------


def test_the_graph_gives_back_what_it_was_given(device):
    graph = rich_graph(device)
    assert graph.edges() == RICH
    assert graph.edges([2, 0]) == [RICH[2], RICH[0]] and graph.edges([]) == []
    assert graph.weights.tolist() == [2.5, 1.0, 1.0, 0.5] and graph.weights.dtype == torch.float32
    assert graph.edge_texts == ["They met.", "", "", ""]
    assert graph.edge_metadata == [{"year": 1833}, {}, {"pages": [1, 2]}, {}]
    graph.edge_metadata[0]["new"] = 1
    assert RICH[0].metadata == {"year": 1833}


def test_the_simple_view_holds_the_largest_weight_of_parallel_rows(device):
    graph = rich_graph(device)
    left, right = (torch.tensor(rows, device=device) for rows in ([0, 1, 0, 2, -1], [1, 0, 2, 2, 0]))
    assert graph.adjacency(left, right).tolist() == [2.5, 2.5, 0.0, 0.0, 0.0]
    assert (graph.adjacency(left, right) > 0).tolist() == [True, True, False, False, False]
    assert graph.strength.tolist() == [2.5, 2.5, 0.0] and graph.degree.tolist() == [1, 1, 0]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 8)), max_size=20))
def test_the_weighted_view_of_random_graphs(rows):
    names = [str(n) for n in range(6)]
    graph = CorpusGraph(names, names, edges=[Edge(str(a), str(b), weight=w / 4) for a, b, w in rows])
    expected = np.zeros((6, 6))
    for a, b, w in rows:
        if a != b:
            expected[a, b] = expected[b, a] = max(expected[a, b], w / 4)
    left, right = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    assert graph.adjacency(left, right).tolist() == expected.tolist()
    assert graph.strength.tolist() == pytest.approx(expected.sum(1).tolist())
    unit = CorpusGraph(names, names, edges=[(str(a), str(b)) for a, b, _ in rows])
    assert unit.strength.tolist() == unit.degree.tolist()


def test_edges_without_texts_read_as_their_names():
    graph = CorpusGraph(["a", "b"], ["", ""], titles=["Ada", ""], edges=[("a", "b", "knows"), Edge("b", "a", text="They met.")])
    assert graph.edge_contents() == ["Ada knows b", "They met."]
    assert CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b")]).edge_contents() == ["a b"]


def test_saved_edges_come_back_with_weight_text_and_metadata(tmp_path, device):
    index = GraphIndex.from_graph(rich_graph(), embedding=HashEmbedding(8), edge_signals=True)
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index", device=device)
    assert loaded.graph.edges() == RICH and loaded.graph.weights.device.type == device
    assert loaded.graph.edge_texts == index.graph.edge_texts and loaded.graph.edge_metadata == index.graph.edge_metadata
    assert loaded.graph.to("cpu").edges() == RICH


def test_datasets_hold_weights_texts_and_metadata(tmp_path):
    for name, rows in {
        "nodes": [{"id": name, "text": ""} for name in "ab"],
        "edges": [
            {"source": "a", "target": "b", "relation": "r", "weight": 2, "text": "t", "year": 1},
            {"source": "b", "target": "a"},
        ],
    }.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_dataset(tmp_path).edges == [Edge("a", "b", "r", 2.0, "t", {"year": 1}), Edge("b", "a")]
    for weight in (0, -1, "2", None):
        (tmp_path / "edges.jsonl").write_text(json.dumps({"source": "a", "target": "b", "weight": weight}) + "\n")
        with pytest.raises(DatasetError, match=r"edges\.jsonl:1.*weight"):
            read_dataset(tmp_path)


def test_networkx_keeps_weights_texts_and_metadata():
    made = to_networkx(rich_graph())
    assert made["a"]["b"][0]["weight"] == 2.5
    nodes, edges = from_networkx(made)
    order = sorted(range(len(RICH)), key=lambda i: (RICH[i].source, RICH[i].target))
    assert sorted(edges, key=lambda edge: (edge.source, edge.target)) == [RICH[i] for i in order]


# -- where weights count ----------------------------------------------------------------------------------------------


def weighted(weights, parallel=False):
    """A star: s to each n, with a weight or with as many parallel edges; n1 leads on to n0."""
    names = ["s", *(f"n{i}" for i in range(len(weights)))]
    edges = [
        edge
        for i, weight in enumerate(weights)
        for edge in ([Edge("s", f"n{i}")] * weight if parallel else [Edge("s", f"n{i}", weight=weight)])
    ]
    return CorpusGraph(names, names, edges=[*edges, Edge("n1", "n0")])


def test_two_parallel_edges_walk_like_one_of_weight_two():
    restart = torch.eye(4, dtype=torch.float64)[:1]
    one, many = (personalized_pagerank(TransitionGraph(weighted([1, 2, 3], parallel)), restart) for parallel in (False, True))
    assert torch.allclose(one, many, atol=1e-9)
    plain = personalized_pagerank(TransitionGraph(weighted([1, 1, 1])), restart)
    assert float(one[0, 3]) > float(plain[0, 3]) + 0.01
    made = networkx.Graph()
    made.add_weighted_edges_from([("s", "n0", 1), ("s", "n1", 2), ("s", "n2", 3), ("n1", "n0", 1)])
    expected = networkx.pagerank(made, alpha=0.5, personalization={"s": 1}, tol=1e-12)
    walked = personalized_pagerank(TransitionGraph(weighted([1, 2, 3])), restart, damping=0.5)
    assert walked[0].tolist() == pytest.approx([expected[n] for n in ("s", "n0", "n1", "n2")], abs=1e-6)


def index_of(graph):
    vectors = [[1.0]] + [[0.0]] * (len(graph) - 1)
    return GraphIndex.from_graph(graph, vectors=vectors, bm25=False)


def scores(index, name, **options):
    return {hit.id: hit.score for hit in on(index, name, **options).retrieve("q", 4, vector=[1.0])}


def test_pagerank_reads_weights_through_the_retriever():
    options = {"seeds": 1, "passage_weight": 0.0}
    heavy = scores(index_of(weighted([1, 1, 5])), "ppr", **options)
    assert heavy["n2"] > heavy["n0"] and heavy["n2"] > heavy["n1"]
    parallel = scores(index_of(weighted([1, 1, 5], parallel=True)), "ppr", **options)
    assert heavy == pytest.approx(parallel, abs=1e-6)
    light = scores(index_of(weighted([1, 1, 1])), "ppr", **options)
    assert light["n2"] < light["n0"]


def test_granker_mixes_by_weight():
    # x has neighbours y and z of the same degree, with latents 1 and 0; the weights say which of the two counts.
    def smoothed(to_y, to_z):
        graph = CorpusGraph(list("xyz"), list("xyz"), edges=[Edge("x", "y", weight=to_y), Edge("x", "z", weight=to_z)])
        index = GraphIndex.from_graph(graph, vectors=[[0.5], [1.0], [0.0]], bm25=False)
        retriever = Retriever(index, Pipeline(VectorSearch(3), GRanker(alpha=0.5, weighted=True)))
        return {hit.id: hit.score for hit in retriever.retrieve("q", 3, vector=[1.0])}

    # W = A / D: of y and z each the weight over its own strength, which is that weight; so both count alike.
    assert smoothed(3.0, 1.0)["x"] == pytest.approx(0.5)

    def with_tail(to_y):
        edges = [Edge("x", "y", weight=to_y), Edge("x", "z"), Edge("y", "t"), Edge("z", "t")]
        graph = CorpusGraph(list("xyzt"), list("xyzt"), edges=edges)
        index = GraphIndex.from_graph(graph, vectors=[[0.5], [1.0], [0.0], [0.25]], bm25=False)
        retriever = Retriever(index, Pipeline(VectorSearch(4), GRanker(alpha=0.5, weighted=True)))
        return {hit.id: hit.score for hit in retriever.retrieve("q", 4, vector=[1.0])}

    # y counts w / (w + 1), z counts 1 / 2.
    for weight in (1.0, 3.0):
        share = (weight / (weight + 1)) / (weight / (weight + 1) + 0.5)
        assert with_tail(weight)["x"] == pytest.approx(0.5 * 0.5 + 0.5 * share, abs=1e-6)
    assert with_tail(3.0)["x"] > with_tail(1.0)["x"]


@pytest.mark.parametrize("name", ["fastinsight", "ppr", "gar", "walk-fusion", "spreading", "hybrid"])
def test_unit_weights_are_no_weights(name):
    unit = [Edge(source, target, relation, 1.0) for source, target, relation in linked_edges()]
    marked = [Edge(source, target, relation, 1.0, "a text", {"k": 1}) for source, target, relation in linked_edges()]
    plain = Retriever(linked_index(), name).retrieve("who wrote a program for an engine", 8)
    for edges in (unit, marked):
        index = GraphIndex.from_nodes(linked_nodes(), edges, embedding=HashEmbedding())
        assert Retriever(index, name).retrieve("who wrote a program for an engine", 8) == plain


def test_nodes_without_edges_have_no_strength():
    graph = CorpusGraph.from_nodes([Node("a", "x"), Node("b", "y")])
    assert graph.strength.tolist() == [0.0, 0.0] and graph.weights.shape == (0,)
    assert graph.adjacency(torch.tensor([0]), torch.tensor([1])).tolist() == [0.0]
    assert graph.edges() == [] and graph.edge_contents() == []


def test_texts_and_relations_of_edges_are_checked_when_they_are_made():
    for field in ("text", "relation"):
        with pytest.raises(InvalidArgumentError, match=f"{field} of the edge from 'a' to 'b' is not valid Unicode"):
            Edge("a", "b", **{field: "\ud800"})


@pytest.mark.parametrize("weight", [1e30, 9.9999999999e29, np.float32(1e30), 1e-30, np.float64(1e-30)])
@pytest.mark.parametrize("name", EVERY)
def test_weights_at_the_ends_of_their_range_are_read_by_every_retriever(name, weight):
    nodes = [Node(str(number), f"loom card {number}", f"Loom{number}") for number in range(4)]
    index = GraphIndex.from_nodes(
        nodes, [Edge("0", "1", "knows", weight), ("1", "2", "has")], embedding=HashEmbedding(8), edge_signals=True
    )
    hits = Retriever(index, name).retrieve("Which Loom0 card?")
    assert len(hits) == 4 and len(hits.subgraph().nodes) == 4 and np.isfinite([hit.score for hit in hits]).all()
    assert [edge.weight for edge in index.graph.edges()] == [pytest.approx(float(weight)), 1.0]


def test_an_index_without_vectors_and_edges_has_signals_of_edges_for_those_that_come():
    index = GraphIndex.from_texts(["a loom", "a card"], embedding=HashEmbedding(8), vectors=False, edge_signals=True)
    assert set(index.signals) == {"bm25", "edge_bm25", "edge_dense"} and len(index.signals["edge_dense"]) == 0
    made = index.with_changes(add_edges=[("0", "1", "reads")])
    built = GraphIndex.from_graph(made.graph, embedding=HashEmbedding(8), vectors=False, edge_signals=True)
    assert made.signals["edge_dense"].vectors.equal(built.signals["edge_dense"].vectors)
