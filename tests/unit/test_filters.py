"""Filters of nodes: what they select, what they refuse, and what they say about conditions that can never match."""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
import torch

from graph_retrievers import BM25, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import NOTHING_PASSES
from tests.helpers import linked_index

EDGES = [("a", "b", "cites"), ("b", "a", "cites"), ("a", "b", "links"), ("c", "c", "cites"), ("c", "a")]


def graph(device="cpu", **options):
    return CorpusGraph(["a", "b", "c", "d"], ["A", "B", "C", "D"], edges=EDGES, device=device, **options)


def test_what_is_remembered_of_filters_is_bounded(caplog):
    g = graph(metadata=[{"year": 1950}, {}, {}, {}])
    for number in range(1500):
        filter_mask(g, {f"field {number}": 1, "year": "1950"})
        filter_mask(g, {"x" * 10**4 + str(number): 1})
    told = [record.message for record in caplog.records if record.name == "graph_retrievers.graph.filters"]
    assert sum("'year' of the nodes is a number" in message for message in told) == 2, "again, behind a thousand others"
    assert len(g.cache._values) == 2 and len(g.cache._values["filter problems"]._values) == 1000
    assert sum(len(key) for key, _ in g.cache._values["filter problems"]._values) < 10**5


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


EAST, WEST = timezone(timedelta(hours=1)), timezone(timedelta(hours=-5))
# a is 23:30 of 2023 in UTC; d and e are days, in the order of time; f has no date, g no value.
TIMES = {
    "a": datetime(2024, 1, 1, 0, 30, tzinfo=EAST),
    "b": datetime(2024, 1, 2, tzinfo=UTC),
    "c": "2024-01-02T20:00:00-05:00",
    "d": date(2024, 1, 2),
    "e": "2024-01-04",
    "f": "soon",
    "g": None,
}


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"$lt": datetime(2023, 12, 31, 23, 40, tzinfo=UTC)}, "a"),
        ({"$gte": datetime(2024, 1, 1, tzinfo=UTC)}, "bcde"),
        ({"$lte": date(2024, 1, 2)}, "abd"),
        ({"$lt": date(2024, 1, 2)}, "a"),
        ({"$gt": date(2024, 1, 2)}, "ce"),
        ({"$gte": date(2024, 1, 2)}, "bcde"),
        ({"$eq": date(2024, 1, 2)}, "bd"),
        ({"$ne": date(2024, 1, 2)}, "acefg"),
        (date(2024, 1, 3), "c"),
        ({"$eq": datetime(2024, 1, 2, tzinfo=UTC)}, "bd"),
        ({"$gt": datetime(2024, 1, 2, tzinfo=UTC)}, "ce"),
        ({"$lte": datetime(2024, 1, 2, tzinfo=UTC)}, "abd"),
        ({"$lte": datetime(2024, 1, 1, 19, tzinfo=WEST)}, "abd"),
        # Without an offset, in UTC.
        (datetime(2024, 1, 2), "bd"),
        (datetime(2023, 12, 31, 23, 30), "a"),
        ({"$in": [datetime(2023, 12, 31, 23, 30), date(2024, 1, 3), "soon"]}, "acf"),
        ({"$nin": [date(2023, 12, 31), date(2024, 1, 4)]}, "bcdfg"),
        ({"$in": [datetime(2024, 1, 2), np.datetime64("NaT"), np.datetime64("2024-01-04")]}, "bde"),
        ({"$gte": np.datetime64("2024-01-03T00:00:00.000000000")}, "ce"),
        ({"$gte": date(2023, 12, 31), "$lt": datetime(2024, 1, 2, tzinfo=EAST)}, "a"),
        # Text in a filter is a date beside dates, and text beside other text.
        ({"$lt": "2023-12-31T23:40:00Z"}, "a"),
        ({"$lte": "2024-01-02"}, "abd"),
        ({"$gt": "2024-01-02"}, "cef"),
        ("2024-01-03T01:00Z", "c"),
        # ISO 8601 has more forms; eight digits may be a number.
        ({"$lt": np.datetime64("2024-01-01T00", "h")}, "a"),
        ("2024-01-03T01", "c"),
        ({"$lte": "2024-W01-2"}, "abd"),
        ({"$gt": "20240102T0030+01"}, "bcdef"),
        ("20240102", ""),
        ("2024-W01", ""),
        ({"$in": ["2024-01-04T00:00+00:00", "2023-12-31"]}, "ae"),
        ({"$contains": "2024-01-02T"}, "bc"),
        ({"$contains": date(2024, 1, 1)}, ""),
        ({"$contains": "2024-01-03"}, "c"),
        ({"$contains": "oo"}, "f"),
    ],
)
def test_dates_are_compared_as_instants_and_a_day_is_all_of_it(wanted, kept):
    g = CorpusGraph(list(TIMES), [""] * len(TIMES), metadata=[{"when": value} for value in TIMES.values()])
    assert "".join(g.ids[row] for row in filter_mask(g, {"when": wanted}).nonzero().flatten()) == kept


def test_dates_in_lists():
    lists = [[date(2024, 1, 2), date(2024, 1, 5)], [datetime(2024, 1, 2, 3, tzinfo=UTC)], ["2024"], []]
    g = CorpusGraph(list("abcd"), [""] * 4, metadata=[{"days": value} for value in lists])
    for wanted in (date(2024, 1, 2), "2024-01-02"):
        assert filter_mask(g, {"days": {"$contains": wanted}}).tolist() == [True, True, False, False]
    assert filter_mask(g, {"days": {"$contains": datetime(2024, 1, 2, 4, tzinfo=EAST)}}).tolist() == [False, True, False, False]


def test_the_first_and_the_last_day_of_the_calendar():
    g = CorpusGraph(["a", "b"], [""] * 2, metadata=[{"x": "0001-01-01T00:00:00+12:00"}, {"x": datetime.max.replace(tzinfo=WEST)}])
    assert filter_mask(g, {"x": {"$lt": date.min}}).tolist() == [True, False]
    assert filter_mask(g, {"x": {"$gt": date.max}}).tolist() == [False, True]


@pytest.mark.parametrize("wanted", [date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), np.datetime64("2024-01-01")])
@pytest.mark.parametrize(
    ("field", "held"),
    [("year", "2023"), ("word", "'soon'"), ("tags", r"\['x'\]"), ("in.side", "5")],
)
def test_a_date_beside_what_has_no_date_is_refused(field, held, wanted):
    metadata = [{"year": 2023, "word": "soon", "tags": ["x"], "in": {"side": 5}}, {"word": "", "year": None}]
    g = CorpusGraph(["a", "b"], [""] * 2, metadata=metadata)
    told = f"compares '{field}' with .*2024.*no node has a date there; one has {held}. Give a value of that type, or write dates"
    for test in ({"$lt": wanted}, wanted, {"$in": [wanted]}, {"$ne": wanted}):
        for condition in ({field: test}, {"$not": {field: test}}, {"$or": [{"year": 1}, {field: test}]}):
            with pytest.raises(InvalidArgumentError, match=told):
                filter_mask(g, condition)
    assert not filter_mask(CorpusGraph([], []), {field: {"$lt": wanted}}).any()


def test_one_value_that_is_not_a_date_matches_none_and_is_told_once(caplog):
    g = CorpusGraph(["a", "b", "c"], [""] * 3, metadata=[{"when": "2024-01-01"}, {"when": 2024}, {"when": "soon"}])
    for _ in range(2):
        assert filter_mask(g, {"when": {"$lt": date(2025, 1, 1)}}).tolist() == [True, False, False]
        assert filter_mask(g, {"when": {"$gte": date(2024, 1, 1)}}).tolist() == [True, False, False]
    (told,) = [record.message for record in caplog.records]
    assert told == "2 of the 3 values of 'when' are not dates, such as 2024: they match no date in a filter."


@pytest.mark.parametrize("key", ["$id", "$type", "$title"])
def test_what_a_node_has_of_its_own_is_text(key):
    g = CorpusGraph(["2024-01-02"], [""], titles=["2024-01-02"], types=["2024-01-02"])
    assert filter_mask(g, {key: "2024-01-02T00:00"}).tolist() == [False]
    with pytest.raises(InvalidArgumentError, match=rf"compares '\{key}', which is text, with datetime.date.*; give a text"):
        filter_mask(g, {key: {"$gte": date(2024, 1, 2)}})


def test_a_month_is_neither_a_day_nor_an_instant():
    with pytest.raises(InvalidArgumentError, match="2024-05.*neither a day nor an instant"):
        filter_mask(graph(), {"when": {"$gte": np.datetime64("2024-05")}})


@pytest.mark.parametrize("field", [{"at": time(9, 30)}, {"at": "9:30"}, {"at": "2024-01-02T09:30"}, {}])
def test_a_time_without_a_day_has_no_order(field):
    g = CorpusGraph(["a"], [""], metadata=[field])
    for operator in ("$gt", "$gte", "$lt", "$lte"):
        with pytest.raises(
            InvalidArgumentError, match=rf"^Filter \{operator} on 'at' takes datetime.time\(9, 0\), .* give a datetime"
        ):
            filter_mask(g, {"$not": {"at": {operator: time(9)}}})
    assert filter_mask(g, {"at": time(9, 30)}).tolist() == [field == {"at": time(9, 30)}]


INSIDE = [
    {"a": {"b": 5, "c": "x"}},
    {"a": {"b": 6}, "a.b": 5},
    {"a": [{"b": 5}, {"b": [7, 8]}]},
    {"a": {"b": {"c": 9, "d.e": 5}}},
    {"a": 5},
    {"a.b": 6, "gt": {"gt": 1}},
    {"lt": {"x": {"gt": 1}}},
]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"a.b": 5}, "01"),
        ({"a": {"b": {"$gte": 5}}}, "015"),
        ({"a": {"b": {"$gte": 5}, "c": "x"}}, "0"),
        ({"a": {"b": {"$gte": 5}}, "a.b": {"$lt": 6}}, "01"),
        ({"$or": [{"a": {"b": {"$gt": 5}}}, {"a": 5}]}, "45"),
        ({"$not": {"a": {"b": {"$exists": True}}}}, "46"),
        ({"a.b": {"$contains": 7}}, "2"),
        ({"a": {"b": {"c": {"$gt": 8}}}}, "3"),
        ({"a.b.c": 9, "a.b.d.e": {"$in": [5]}}, "3"),
        # A mapping without operators is a value.
        ({"a": {"b": 6}}, "1"),
        ({"gt": {"gt": 1}}, "5"),
        ({"gt": {"gt": {"$lt": 2}}}, "5"),
        ({"lt": {"x": {"gt": 1}}}, "6"),
    ],
)
def test_fields_inside_mappings_are_read_by_path(condition, kept, caplog):
    g = CorpusGraph([str(row) for row in range(len(INSIDE))], [""] * len(INSIDE), metadata=INSIDE)
    assert "".join(g.ids[row] for row in filter_mask(g, condition).nonzero().flatten()) == kept
    assert not caplog.records


def test_of_a_path_is_told_what_is_told_of_a_field(caplog):
    g = CorpusGraph(["a"], [""], metadata=[{"a": {"b": 5}}])
    assert not filter_mask(g, {"a": {"b": {"$gt": "5"}}}).any() and not filter_mask(g, {"a.x": 1}).any()
    assert "'a.b' of the nodes is a number" in caplog.messages[0] and "names 'a.x', which is not a metadata" in caplog.messages[1]


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        *(({"year": {name: 1950}}, f"${name}") for name in ("eq", "ne", "gt", "gte", "lt", "lte", "contains", "exists")),
        ({"year": {"in": [1950]}}, "$in"),
        ({"year": {"GT": 1950}}, "$gt"),
        ({"year": {">=": 1950}}, "$gte"),
        ({"$not": {"$or": [{"year": {"gt": 1, "lt": 2}}]}}, "$gt"),
        ({"year": {"$gt": 1, "lt": 2}}, "$lt"),
        ({"or": [{"year": 1950}, {"year": 1955}]}, "$or"),
        ({"not": {"year": 1950}}, "$not"),
        ({"in": {"side": {"gt": 5}}}, "$gt"),
        ({"in": {"eq": 1, "side": {"lt": 5}}}, "$lt"),
        ({"year": {"$GT": 1}}, "$gt"),
        ({"AND": [{"year": 1950}]}, "$and"),
        ({"$Or": [{"year": 1950}]}, "$or"),
        ({"$ID": "a"}, "$id"),
    ],
)
def test_an_operator_without_its_sign_is_refused(condition, meant):
    g = graph(metadata=[{"year": 1950}, {"year": 1955, "tags": ["x"]}, {"in": {"eq": 1}}, {}])
    with pytest.raises(InvalidArgumentError, match=rf"Did you mean '\{meant}'\?"):
        filter_mask(g, condition)


def test_true_equals_1_as_in_python_and_in_llama_index():
    g = CorpusGraph(["a", "b"], [""] * 2, metadata=[{"x": True}, {"x": 1}])
    for wanted in (1, True, {"$in": [1]}, {"$gte": True}):
        assert filter_mask(g, {"x": wanted}).tolist() == [True, True]


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
        ({"$and": [{"color": {"$exists": True}}, {"color": "red"}]}, "names 'color'"),
    ],
)
def test_what_can_never_match_is_named_once(condition, words, caplog):
    g = graph(metadata=[{"year": 1950, "open": True}, {"year": 1955, "tags": ["x"]}, {"year": 1960}, {}])
    assert not filter_mask(g, condition).any() and not filter_mask(g, condition).any()
    (told,) = [record.message for record in caplog.records if record.name == "graph_retrievers.graph.filters"]
    assert re.search(words, told)


def test_each_operator_on_a_field_is_told_once(caplog):
    g = graph(metadata=[{"year": 1950}] * 4)
    for condition in ({"year": "1950"}, {"year": {"$gt": "5"}}, {"year": "1951"}, {"year": {"$gt": "6"}}):
        filter_mask(g, condition)
    assert [re.findall(r"\$\w+", record.message) for record in caplog.records] == [["$eq"], ["$gt"]]


def test_an_order_of_a_list_of_dates_and_a_date_can_never_match(caplog):
    g = graph(metadata=[{"days": ["2024-05-01"]}] * 4)
    assert not filter_mask(g, {"days": {"$gt": date(2024, 1, 1)}}).any()
    assert "can never match: 'days' of the nodes is a list." in caplog.text


def test_an_order_of_mappings_can_never_match(caplog):
    g = graph(metadata=[{"size": {"width": 2}}] * 4)
    assert not filter_mask(g, {"size": {"$gt": {"width": 1}}}).any()
    assert "can never match: 'size' of the nodes is a mapping." in caplog.text


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"archived": {"$ne": True}}, "abcd"),
        ({"archived": {"$nin": [True]}, "seen": {"$exists": False}}, "abcd"),
        ({"$not": {"archived": True}}, "abcd"),
        ({"archived": None}, "abcd"),
        ({"$or": [{"archived": {"$exists": False}}, {"archived": {"$in": [""]}}]}, "abcd"),
        ({"$or": [{"archived": {"$exists": False}}, {"$and": [{"archived": True}, {"year": 1}]}]}, "abcd"),
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
        ({"$and": 5, "a": {"b": {"$gt": 1}}}, r"^Filter \$and takes a list of mappings, got 5"),
        ("year = 3", "^A filter is a mapping, a callable or a mask, got str"),
    ],
)
def test_filters_that_cannot_be_read_are_refused(condition, message):
    with pytest.raises(InvalidArgumentError, match=message):
        filter_mask(graph(), condition)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({"year": {"$in": 5}}, "list of values"),
        ({"topic": {"$in": "war"}}, "list of values"),
        ({"topic": {"$nin": None}}, "list of values"),
        ({"$and": [5]}, "mapping"),
        ({"$not": 5}, "mapping"),
        ({1: 2}, "strings"),
    ],
)
def test_filters_of_a_call_that_cannot_be_read(condition, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(linked_index(), "vector").retrieve("loom", filter=condition)


@pytest.mark.parametrize("system", ["vector", "walk-fusion"])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (torch.Tensor.to_sparse, "sparse_coo one on the device cpu"),
        (lambda mask: mask.to("meta"), "strided one on the device meta"),
        (lambda mask: torch.nested.nested_tensor([mask]), "nested one on the device cpu"),
        (lambda mask: mask.repeat(12, 1).to_sparse_csr(), "sparse_csr one on the device cpu"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(nested|Sparse CSR)")
def test_masks_that_are_not_dense(system, make, told):
    index = linked_index()
    mask = make(torch.ones(len(index), dtype=torch.bool))
    retriever = Retriever(index, system)
    told = f"A filter mask is a dense tensor with values; got a {told}"
    for name in ("filter", "seed_filter", "traversal_filter", "scope"):
        with pytest.raises(InvalidArgumentError, match=told):
            retriever.retrieve("loom", **{name: mask})
    with pytest.raises(InvalidArgumentError, match=told):
        retriever.retrieve_batch(["loom", "card"], scope=[mask, {"$id": "ada"}])


class Incomparable:
    def __eq__(self, other):
        raise OSError("no connection")


def deep(levels):
    """Return a filter that is nested so often."""
    condition = {"year": 1843}
    for _ in range(levels):
        condition = {"$not": condition}
    return condition


@pytest.mark.parametrize("system", ["vector", "walk-fusion"])
@pytest.mark.parametrize("make", [lambda: {"year": Incomparable()}, lambda: deep(5000)])
def test_scopes_that_do_not_compare_are_read_or_refused_as_filters_are(make, system):
    retriever = Retriever(linked_index(), system)
    told = "cannot be compared with the nodes"
    for ask in (
        lambda: retriever.retrieve_batch(["loom", "card"], scope=[make(), make()]),
        lambda: retriever.retrieve_batch(["loom", "card"], scope=make()),
        lambda: retriever.retrieve("loom", scope=make()),
    ):
        with pytest.raises(InvalidArgumentError, match=told):
            ask()
    # Arrays do not compare as a whole. A list of values is read as one.
    nothing = retriever.retrieve_batch(["loom"] * 2, scope=[{"year": np.array([1843, 1837])}, {"year": np.array([1843, 1837])}])
    assert [hits.notes for hits in nothing] == [("no node is in the scope",)] * 2
    scopes = [{"year": {"$in": np.array([1843, 1837])}}, {"year": {"$in": np.array([1843, 1837])}}, {"year": np.int64(1843)}]
    found = retriever.retrieve_batch(["loom"] * 3, scope=scopes)
    assert [{hit.id for hit in hits} for hits in found] == [{"ada", "babbage", "engine"}] * 2 + [{"ada"}]


def test_a_filter_is_worked_out_once_for_all_batches():
    seen = []
    retriever = Retriever(linked_index(), "vector", batch_size=1)
    retriever.retrieve_batch(["loom", "card"], filter=lambda node: seen.append(node) or True)
    assert len(seen) == 12


def test_a_function_of_the_user_that_fails_is_named_with_its_exception():
    index = GraphIndex.from_texts(["a loom", "a card"])
    with pytest.raises(InvalidArgumentError, match=r"The filter function fails for Node\(id='0'.*KeyError: 'year'") as caught:
        Retriever(index, BM25()).retrieve("loom", filter=lambda node: node.metadata["year"] > 1800)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(InvalidArgumentError, match="fails for Node"):
        GraphIndex.from_texts(["a loom"], edges=lambda node: 1 / 0)


def test_contains_of_a_text_and_a_number():
    graph = CorpusGraph(["a"], [""], metadata=[{"name": "a3"}])
    assert filter_mask(graph, {"name": {"$contains": 3}}).tolist() == [False]


def test_a_mask_is_bool():
    with pytest.raises(InvalidArgumentError, match="one bool for each node"):
        filter_mask(CorpusGraph(["a", "b"], [""] * 2), torch.tensor([0, 1]))


def test_filters_whose_values_cannot_be_compared_are_refused():
    class Odd:
        def __eq__(self, other):
            raise KeyError("odd")

        __hash__ = None

    graph = CorpusGraph(["a"], ["text"], metadata=[{"year": 1843}])
    for condition in ({"year": {"$gt": Decimal("NaN")}}, {"year": Decimal("sNaN")}, {"year": Odd()}, {"year": {"$in": [Odd()]}}):
        with pytest.raises(InvalidArgumentError, match="cannot be compared with the nodes: (InvalidOperation|KeyError)"):
            filter_mask(graph, condition)


def test_where_no_node_passes_a_filter_a_note_names_its_fields():
    nodes = [Node("a", "A loom.", metadata={"year": 1804}), Node("b", "A card.", metadata={"year": 1837})]
    retriever, found = Retriever(GraphIndex.from_nodes(nodes), BM25()), "the operators found no node"
    nothing = f"{NOTHING_PASSES}, which reads 'year', '$type'"
    for condition in ({"year": {"$lt": 1800}, "$type": {"$ne": "x"}}, {"$and": [{"year": 1}, {"$not": {"$type": "x"}}]}):
        batch = retriever.retrieve_batch(["Which loom?", "What weaves?"], filter=condition)
        assert [(len(hits), hits.notes) for hits in batch] == [(0, (found, nothing))] * 2
    assert retriever.retrieve("loom", filter=lambda node: False).notes == (found, NOTHING_PASSES)
    assert retriever.retrieve("loom", filter={"year": 1837}, scope={"year": 1804}).notes[0] == found
    assert (
        retriever.retrieve("loom", filter={"year": 1837}, scope={"year": 1804}).notes[1] == f"{NOTHING_PASSES}, which reads 'year'"
    )
    # Where a node passes, and none is found, the filter is not why.
    assert retriever.retrieve("mill", filter={"year": 1837}).notes == (found,)
    assert retriever.retrieve("loom", filter={"year": 1804}).notes == ()
