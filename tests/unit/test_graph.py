"""The corpus graph: two views of the edges, and what bad input meets."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.errors import DeviceError, DuplicateNodeError, InvalidArgumentError, UnknownNodeError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.corpus_graph import Edge, Rows, simple_keys
from graph_retrievers.index.rows import merged_keys
from tests.helpers import as_edges

EDGES = [("a", "b", "cites"), ("b", "a", "cites"), ("a", "b", "links"), ("c", "c", "cites"), ("c", "a")]


def graph(device="cpu", **options):
    return CorpusGraph(["a", "b", "c", "d"], ["A", "B", "C", "D"], edges=EDGES, device=device, **options)


def test_the_simple_view_collapses_direction_parallel_edges_and_self_loops(device):
    g = graph(device)
    assert g.indptr.tolist() == [0, 2, 3, 4, 4]
    assert g.indices.tolist() == [1, 2, 0, 0]
    assert g.indices.dtype == torch.int32
    assert g.degree.tolist() == [2, 1, 1, 0]


def test_relationship_rows_are_kept_as_given(device):
    g = graph(device)
    assert g.num_edges == 5
    assert g.edges() == as_edges(*EDGES)
    assert g.edges([3, 0]) == as_edges(EDGES[3], EDGES[0])
    seen = g.incidence
    begin, end = seen.indptr[0], seen.indptr[1]
    from_a = zip(seen.neighbors[begin:end].tolist(), seen.rows[begin:end].tolist(), seen.forward[begin:end].tolist(), strict=True)
    assert list(from_a) == [(1, 0, True), (1, 1, False), (1, 2, True), (2, 4, False)]
    near, far = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 2, 2, 3]], device=device)
    rows, forward = g.steps_between(near, far)
    assert rows.tolist() == [0, 4, -1, 3, -1]
    assert [g.relation_names[g.relations[row]] if row >= 0 else None for row in rows.tolist()] == ["cites", "", None, "cites", None]
    assert forward.tolist() == [True, False, True, True, True]


@settings(max_examples=60)
@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_adjacency_of_random_graphs(case):
    size, pairs = case
    g = CorpusGraph([str(i) for i in range(size)], [""] * size, edges=[(str(a), str(b)) for a, b in pairs])
    linked = {(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b}
    left, right = torch.meshgrid(torch.arange(-1, size), torch.arange(-1, size), indexing="ij")
    expected = [[(a, b) in linked for b in range(-1, size)] for a in range(-1, size)]
    assert (g.adjacency(left, right) > 0).tolist() == expected
    assert g.degree.tolist() == [len({b for a, b in linked if a == i}) for i in range(size)]


def test_bad_graphs_are_refused_with_what_was_given():
    with pytest.raises(DuplicateNodeError, match="'a'.*0 and 1"):
        CorpusGraph(["a", "a"], ["", ""])
    with pytest.raises(UnknownNodeError, match="Edge 0.*'z'"):
        CorpusGraph(["a"], [""], edges=[("a", "z")])
    with pytest.raises(InvalidArgumentError, match="texts has 1 entries for 2"):
        CorpusGraph(["a", "b"], [""])
    with pytest.raises(InvalidArgumentError, match="An edge is 'ab'"):
        CorpusGraph(["a", "b"], ["", ""], edges=["ab"])
    with pytest.raises(InvalidArgumentError, match="non-empty"):
        CorpusGraph([""], [""])
    with pytest.raises(UnknownNodeError, match="'z'"):
        graph().row("z")


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", "meta:x"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(DeviceError, match=device.split(":")[0]):
        graph(device)


def test_signals_read_title_and_text():
    g = CorpusGraph.from_nodes([Node("1", "text", "Title"), Node("2", "alone")])
    assert g.contents() == ["Title. text", "alone"]
    assert CorpusGraph.from_nodes([Node("1", "text", "Title")], include_titles=False).contents() == ["text"]


def test_an_empty_graph_is_a_graph():
    g = CorpusGraph([], [])
    assert len(g) == 0 and g.indptr.tolist() == [0]


def test_the_simple_view_follows_changes_without_sorting_anew():
    generator = np.random.default_rng(3)
    for _ in range(60):
        size, count = int(generator.integers(1, 9)), int(generator.integers(0, 20))
        ids = [str(row) for row in range(size)]
        edges = [(ids[a], ids[b]) for a, b in generator.integers(0, size, (count, 2)).tolist()]
        graph = CorpusGraph(ids, [""] * size, edges=edges)
        stay = generator.random(size) < 0.8
        place = np.where(stay, np.cumsum(stay) - 1, -1)
        size = int(stay.sum()) + 2
        added = generator.integers(0, size, (int(generator.integers(0, 9)), 2)).astype(np.int64)
        rows = Rows(added[:, 0], added[:, 1], *[np.zeros(len(added))] * 2, [], [])
        left = [place[column.numpy()] for column in (graph.sources, graph.targets)]
        kept = (left[0] >= 0) & (left[1] >= 0)
        ends = [np.concatenate([column[kept], new]) for column, new in zip(left, added.T, strict=True)]
        assert merged_keys(graph, place, rows, size).tolist() == simple_keys(*ends, size).tolist()


def test_a_step_without_a_relation_takes_the_first_row():
    graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b", "x"), ("a", "b", "y"), ("a", "c", "x")])
    rows, _ = graph.steps_between(torch.tensor([0, 0]), torch.tensor([1, 2]), torch.tensor([1, -1]))
    assert rows.tolist() == [1, 2]


def test_metadata_are_copied():
    given, of_edge = {"year": 1843, "tags": ["loom"], "in": {"side": [1]}}, {"tags": ["wove"]}
    edge = Edge("a", "a", "r", metadata=of_edge)
    graph = CorpusGraph(["a"], [""], metadata=[given], origins=[given], edges=[edge])
    node, (found,) = graph.node(0), graph.edges()
    for held in (given, node.metadata, node.origin):
        held["tags"].append("card")
        held["in"]["side"].append(2)
        held["year"] = 1991
    for held in (of_edge, edge.metadata, found.metadata):
        held["tags"].append("card")
    expected = [{"year": 1843, "tags": ["loom"], "in": {"side": [1]}}]
    assert graph.metadata == graph.origins == expected and graph.edge_metadata == [{"tags": ["wove"]}]


def test_the_relation_of_an_edge_given_as_a_tuple_is_checked_as_that_of_an_edge():
    with pytest.raises(InvalidArgumentError, match="relation of the edge from 'a' to 'b' is not valid Unicode"):
        CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b", "good"), ("a", "b", "\ud800")])
