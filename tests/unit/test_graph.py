"""The corpus graph: two views of the edges, and what bad input meets."""

import re
from datetime import date

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.errors import DeviceError, DuplicateNodeError, InvalidArgumentError, UnknownNodeError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.corpus_graph import Rows, simple_keys
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.index.change import merged_keys
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


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_adjacency_of_random_graphs(case):
    size, pairs = case
    g = CorpusGraph([str(i) for i in range(size)], [""] * size, edges=[(str(a), str(b)) for a, b in pairs])
    linked = {(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b}
    left, right = torch.meshgrid(torch.arange(-1, size), torch.arange(-1, size), indexing="ij")
    expected = [[(a, b) in linked for b in range(-1, size)] for a in range(-1, size)]
    assert g.adjacent(left, right).tolist() == expected
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


def test_what_is_remembered_of_filters_is_bounded(caplog):
    g = graph(metadata=[{"year": 1950}, {}, {}, {}])
    for number in range(1500):
        filter_mask(g, {f"field {number}": 1, "year": "1950"})
        filter_mask(g, {"x" * 10**4 + str(number): 1})
    told = [record.message for record in caplog.records if record.name == "graph_retrievers.graph.filters"]
    assert sum("'year' of the nodes is a number" in message for message in told) == 2, "again, behind a thousand others"
    assert len(g.cache._values) == 2 and len(g.cache._values["filters told"]._values) == 1000
    assert sum(len(key) for key, _ in g.cache._values["filters told"]._values) < 10**5


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"year": 1950}, ["a"]),
        ({"year": {"$gte": 1950, "$lt": 1960}}, ["a", "b"]),
        ({"tags": {"$contains": "x"}}, ["b"]),
        ({"year": {"$in": [1955, 1960]}}, ["b", "c"]),
        ({"$or": [{"year": 1950}, {"$id": "d"}]}, ["a", "d"]),
        ({"$not": {"year": {"$exists": True}}}, ["d"]),
        ({"year": {"$ne": 1950}, "$type": "paper"}, ["b"]),
        (lambda node: node.id > "b", ["c", "d"]),
        ({"year": {"$gt": "a word"}}, []),
        ({}, ["a", "b", "c", "d"]),
    ],
)
def test_filters(condition, kept):
    g = graph(
        metadata=[{"year": 1950}, {"year": 1955, "tags": ["x"]}, {"year": 1960}, {}],
        types=["paper", "paper", "page", "page"],
    )
    mask = filter_mask(g, condition)
    assert [g.ids[i] for i in mask.nonzero().flatten()] == kept


VALUES = [
    1,
    1.0,
    True,
    "1",
    None,
    [1],
    [True],
    ["1"],
    [[1]],
    {"a": 1},
    {"a": 1.0},
    {"a": "1"},
    {},
    [],
    "",
    0,
    False,
    -0.0,
    2**64,
    2.0**64,
]


@pytest.mark.parametrize("wanted", [*([value] for value in VALUES), VALUES, [*VALUES, object()], [float("nan")], [(1,), {1}], []])
def test_one_of_several_values_is_what_equals_one_of_them(wanted):
    g = CorpusGraph([str(row) for row in range(len(VALUES))], [""] * len(VALUES), metadata=[{"x": value} for value in VALUES])
    listed = [list(value) if isinstance(value, (tuple, set)) else value for value in wanted]
    expected = [any(value == other for other in listed) for value in VALUES]
    assert filter_mask(g, {"x": {"$in": wanted}}).tolist() == expected
    assert filter_mask(g, {"x": {"$nin": wanted}}).tolist() == [not found for found in expected]
    assert filter_mask(g, {"$or": [{"x": {"$eq": value}} for value in wanted]}).tolist() == expected
    parts = [{"x": {"$in": wanted}}, {"y": 3}, {"$id": {"$eq": "0"}}, {"x": 0, "$id": "1"}, *({"x": value} for value in wanted[:1])]
    assert filter_mask(g, {"$or": parts}).tolist() == [True, *expected[1:]]


def test_a_value_that_no_set_holds_is_looked_for_too():
    g = CorpusGraph(["a", "b"], ["", ""], metadata=[{"x": "Loom"}, {"x": ["Loom"]}])

    class AnyCase:
        __hash__ = None

        def __eq__(self, other):
            return isinstance(other, str) and other.casefold() == "loom"

    for condition in ({"x": {"$in": ["card", AnyCase()]}}, {"$or": [{"x": "card"}, {"x": AnyCase()}]}):
        assert filter_mask(g, condition).tolist() == [True, False]
    assert filter_mask(g, {"x": {"$in": ["card", [AnyCase()]]}}).tolist() == [False, True]


def test_a_filter_of_too_many_conditions_is_refused():
    g = CorpusGraph(["a", "b"], ["", ""], metadata=[{"x": 20_000, "tags": ["t5"]}, {}])
    many = [{"tags": {"$contains": f"t{number}"}} for number in range(10_001)]
    for condition in (
        {"$or": many},
        {"$not": {"$and": many}},
        {"$and": [{}] * 10_001},
        {str(number): None for number in range(10_001)},
    ):
        with pytest.raises(InvalidArgumentError, match="more than 10,000 conditions; for one of many values, use .*in"):
            filter_mask(g, condition)
    assert filter_mask(g, {"$or": many[:9_999]}).tolist() == [True, False]
    # They are one condition, since a value is looked up among all at once.
    assert filter_mask(g, {"$or": [{"x": number} for number in range(20_001)]}).tolist() == [True, False]
    assert filter_mask(g, {"x": {"$in": list(range(20_001))}}).tolist() == [True, False]


def test_of_many_unknown_fields_the_first_get_a_suggestion(caplog):
    g = CorpusGraph(["a"], [""], metadata=[{f"field{number}": 1 for number in range(9)}])
    filter_mask(g, {f"feild{number}": 1 for number in range(9)})
    told = [record.message for record in caplog.records]
    assert ["Did you mean 'field" in message for message in told] == [True] * 5 + [False] * 4


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"yaer": 1950}, "names 'yaer', .* Did you mean 'year'. The fields are: open, tags, year."),
        ({"yaer": {"$gt": 1950}}, "names 'yaer'"),
        ({"$and": [{"$or": [{"color": "red"}]}]}, "names 'color', which is not a metadata field of any node. The"),
        ({"year": [1950, 1955]}, r"can never match: 'year' of the nodes is a number. .* use \{\"\$in\": \[1950, 1955\]\}"),
        ({"$id": ["a", "b"]}, r"'\$id' of the nodes is a text. .* use \{\"\$in\""),
        ({"tags": "x"}, r"'tags' of the nodes is a list. .* use \{\"\$contains\": 'x'\}"),
        ({"tags": {"$in": ["x", "y"]}}, r"'tags' of the nodes is a list. .* use \{\"\$contains\": 'x'\}"),
        ({"year": {"$in": ["1950", "1955"]}}, "'year' of the nodes is a number. Give a value of that type"),
        ({"year": "1950"}, "'year' of the nodes is a number"),
        ({"year": {"$contains": 1950}}, "'year' of the nodes is a number"),
        ({"year": {"$gt": "5"}}, r"\{'year': \{'\$gt': '5'\}\} can never match: 'year' .* is a number. Give a value of that type"),
        ({"year": {"$gte": "5"}}, "'year' of the nodes is a number"),
        ({"year": {"$lt": "9999"}}, "'year' of the nodes is a number"),
        ({"year": {"$lte": [9999]}}, "'year' of the nodes is a number. Give a value of that type"),
        ({"year": {"$lt": None}}, "'year' of the nodes is a number. Give a value of that type"),
        ({"tags": {"$gt": "a"}}, "'tags' of the nodes is a list. Give a value of that type"),
        ({"$title": {"$gt": 5}}, r"'\$title' of the nodes is a text"),
        ({"$and": [{"year": {"$gt": 1900, "$lt": "2000"}}]}, r"'\$lt': '2000'"),
    ],
)
def test_what_can_never_match_is_named_once(condition, words, caplog):
    g = graph(metadata=[{"year": 1950, "open": True}, {"year": 1955, "tags": ["x"]}, {"year": 1960}, {}])
    assert not filter_mask(g, condition).any() and not filter_mask(g, condition).any()
    (told,) = [record.message for record in caplog.records if record.name == "graph_retrievers.graph.filters"]
    assert re.search(words, told)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"archived": {"$ne": True}}, "abcd"),
        ({"archived": {"$nin": [True]}, "seen": {"$exists": False}}, "abcd"),
        ({"$not": {"archived": True}}, "abcd"),
        ({"archived": None}, "abcd"),
        ({"$or": [{"archived": {"$exists": False}}, {"archived": {"$in": [""]}}]}, "abcd"),
        ({"mixed": "1950"}, "b"),
        ({"mixed": {"$in": ["no", 1]}}, "a"),
        ({"year": {"$in": []}}, ""),
        ({"year": {"$in": [None, "1950"]}}, "d"),
        ({"year": np.float32(1950)}, "a"),
        ({"year": 1.5}, ""),
        ({"when": "1950"}, ""),
        ({"words": {"$contains": "o"}}, "a"),
        (lambda node: node.metadata.get("yaer") == 1950, ""),
    ],
)
def test_what_may_match_is_not_told(condition, kept, caplog):
    dated = {"year": 1960, "when": date(1950, 1, 1)}
    g = graph(metadata=[{"year": 1950, "mixed": 1, "words": "one"}, {"year": 1955, "mixed": "1950"}, dated, {}])
    assert "".join(g.ids[row] for row in filter_mask(g, condition).nonzero().flatten()) == kept
    assert not caplog.records


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"year": {"$about": 3}}, r"^Unknown filter operator '\$about' on 'year'; choose one of \$eq, "),
        ({"$nor": []}, r"^Unknown filter key '\$nor'; keys are metadata fields, "),
        ({"$or": {"year": 1}}, r"^Filter \$or takes a list of mappings, got \{'year': 1\}"),
        ("year = 3", "^A filter is a mapping, a callable or a mask, got str"),
    ],
)
def test_filters_that_cannot_be_read_are_refused(condition, message):
    with pytest.raises(InvalidArgumentError, match=message):
        filter_mask(graph(), condition)


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
