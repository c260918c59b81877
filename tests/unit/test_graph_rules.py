"""Rules of names, tokens, descriptions, metadata values and of what counts as a name, one by one."""

import enum
from collections import OrderedDict
from datetime import date, datetime, time
from pathlib import PurePosixPath
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.description import describe
from graph_retrievers.graph.labels import is_random, label
from graph_retrievers.graph.names import NameTable, name_table, name_words, nodes_titled
from graph_retrievers.graph.plain import plain
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.operators.traits import names_identify

# -- tokens ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t", 0),
        ("a" * 7, 1),
        ("a" * 8, 2),
        ("é" * 14, 2),
        ("123", 1),
        ("1234", 2),
        ("a1b", 3),
        ("pg_ctl", 3),
        ("don't!", 4),
        ("机器学", 3),
        ("한국어", 3),
        ("ひカ", 2),
        ("ㄅㄆㄇㄱ", 4),
        ("㐀\uf900", 2),
    ],
)
def test_tokens(text, tokens):
    assert estimate_tokens(text) == tokens


# -- names -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada  Lovelace's\u2014x", ["Ada", "Lovelace", "'", "s", "\u2014", "x"]),
        ("\u2018a\u2019 \u201cb\u201d", ["'", "a", "'", '"', "b", '"']),
        ("a\u2010b\u2011c\u2013d-e", ["a", "-", "b", "-", "c", "-", "d", "-", "e"]),
        ("机器ab한국ひカ\uf900㐀c", ["机", "器", "ab한국", "ひ", "カ", "豈", "㐀", "c"]),
        ("Cafe\u0301 C++ _x1", ["Caf\u00e9", "C", "+", "+", "_x1"]),
        (" ", []),
    ],
)
def test_words_of_names(text, words):
    assert name_words(text) == words
    assert name_words(text, fold=True) == [word.casefold() for word in words]


NAMES = ["New York", "New York City", "York", "", "york", "New York"]


@pytest.mark.parametrize(
    ("fold", "text", "found"),
    [
        (
            False,
            "New York City, New  York; York York",
            [("New York City", [1]), ("New York", [0, 5]), ("York", [2]), ("York", [2])],
        ),
        (False, "new york and york", [("york", [4]), ("york", [4])]),
        (False, "York and york", [("York", [2])]),
        (False, "New Yorkers of Old-York", [("York", [2])]),
        (False, "New", []),
        (False, "City of New", []),
        (True, "NEW YORK and yOrK", [("NEW YORK", [0, 5]), ("yOrK", [2, 4])]),
        (True, "york", [("york", [4])]),
        (True, "York", [("York", [2])]),
        (True, "new york city", [("new york city", [1])]),
    ],
)
def test_names_in_texts(fold, text, found):
    assert NameTable(NAMES, fold=fold).find(text) == found


@pytest.mark.parametrize(
    ("names", "capitals", "found"),
    [
        (["Loom", "Card", "actors"], True, ["Loom"]),
        (["Loom", "actors"], False, ["actors", "Loom"]),
        (["Loom", "actors", "", ""], True, ["Loom"]),
        (["loom", "actors", "1"], False, ["actors"]),
    ],
)
def test_lower_case_words_are_names_where_names_are_so_written(names, capitals, found):
    table = NameTable(names)
    assert table.capitals is capitals and [name for name, _ in table.find("actors of Loom")] == found


def test_rows_of_names_and_titles():
    table = NameTable(NAMES, fold=True)
    assert [table.rows(name) for name in ("york", "York", "YORK", "new  york", "none", "")] == [[4], [2], [2, 4], [0, 5], [], []]
    nodes = [Node("a", "", " Loom "), Node("b", "", "LOOM"), Node("loom", ""), Node("c", "", "  ")]
    graph = CorpusGraph.from_nodes(nodes)
    assert [nodes_titled(graph, title) for title in ("loom\n", "card", "", " ")] == [[0, 1], [], [], []]
    assert name_table(graph).rows("loom") == [2], "the id is the name of a node without a title"
    page = [Node(str(n), "", title, metadata={"source": "a.md"}) for n, title in enumerate(["", "", "Loom", "Loom"])]
    table = name_table(CorpusGraph.from_nodes(page))
    assert [table.rows(name) for name in ("0", "1", "Loom")] == [[0], [1], [2]]
    assert name_table(graph) is name_table(graph) and name_table(graph, True).rows("LOOM") == [1]


# -- labels ----------------------------------------------------------------------------------------------------------------

RANDOM = "0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57"


@pytest.mark.parametrize(
    ("node", "random"),
    [
        (RANDOM, True),
        (RANDOM.upper(), True),
        (RANDOM.replace("-", ""), True),
        (f"{RANDOM}-1", True),
        (f"{RANDOM}_page", True),
        (f"{RANDOM}a", False),
        (f"{RANDOM}0", False),
        (f"{RANDOM}z", False),
        (f"a-{RANDOM}", False),
        (RANDOM[:-1], False),
        ("loom", False),
    ],
)
def test_ids_that_say_nothing(node, random):
    assert is_random(node) is random


def test_a_blank_title_is_no_label():
    assert label(RANDOM, "  ", "text") == "text" and label("a", " \n", "text") == "a"
    assert label(RANDOM, " Looms ", "text") == " Looms " and label(RANDOM, "", " \n# ") == RANDOM


# -- what identifies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "share", "identify"), [(40, 10, True), (44, 11, False), (4008, 12, True), (4004, 13, False)])
def test_a_word_in_ten_texts_or_three_in_a_thousand_identifies(count, share, identify):
    titles = [f"Tables of thing{n // share}" for n in range(count)]
    assert names_identify(GraphIndex.from_texts(["text"] * count, titles=titles)) is identify


# -- descriptions ----------------------------------------------------------------------------------------------------------


def test_a_description_as_a_text():
    nodes = [Node("a", "one two three", "Hub\n1", "thing"), *(Node(name, "one", "", "") for name in "bcdefg")]
    edges = [("a", name, "has  it") for name in "bcde"] + [("b", "c")]
    found = describe(CorpusGraph.from_nodes(nodes, edges), 2, ("dense", "bm25"), "mini")
    assert str(found).split("\n") == [
        "nodes       7 (1 thing, 6 unnamed); without a title: 6; with exactly the text of another: 6",
        "edges       5 (4 has it, 1 unnamed)",
        "degree      0 to 4, median 1, quartiles 0 and 2; isolated: 2 (29%)",
        "components  3, the largest with 5 nodes",
        "tokens      1 to 6, median 1, quartiles 1 and 1, about; more than the 2 read: 1",
        "signals     dense, bm25; embedding: mini",
        "hubs        Hub 1 (4), b (2), c (2), d (1), e (1)",
        "advice: 1 texts are longer than the 2 tokens that the embedding model reads, and the rest of them is not searched by "
        "vector; split them into shorter ones.",
    ]


@pytest.mark.parametrize(
    ("count", "edges", "long", "advice"),
    [
        (20, 0, 0, ["There are no edges"]),
        (20, 4, 0, ["60% of the nodes have no edge"]),
        (20, 5, 0, []),
        (19, 1, 0, []),
        (10, 9, 1, []),
        (10, 9, 2, ["2 texts are longer than the 3 tokens"]),
        (2, 100, 0, []),
        (2, 101, 0, ["There are 50 edges for each node"]),
        (2, 110, 1, ["There are 55 edges for each node", "1 texts are longer"]),
    ],
)
def test_when_advice_is_given(count, edges, long, advice):
    texts = ["w w w w" if n < long else "w w w" for n in range(count)]
    ids = [str(n) for n in range(count)]
    made = [(ids[2 * n % count], ids[(2 * n + 1) % count], f"r{n}") for n in range(edges)]
    found = describe(CorpusGraph(ids, texts, edges=made), max_tokens=3)
    assert len(found.advice) == len(advice)
    assert all(line.startswith(start) for line, start in zip(found.advice, advice, strict=True))


# -- metadata values -------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = ("r", 1)


class Word(str):
    __slots__ = ()

    def __str__(self):
        return "not itself"


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, ("a", None)), [1, ["a", None]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset(["b", 2, "a", 1]), [1, 2, "a", "b"]),
        ({(2, 1), (1, 2)}, [[1, 2], [2, 1]]),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
        (np.str_("a"), "a"),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(1.5), 1.5),
        (np.array([1, None], dtype=object), [1, None]),
        (np.array("2024-05-01", dtype="datetime64[D]"), "2024-05-01"),
        (np.timedelta64("NaT"), None),
        (np.timedelta64(3, "D"), "3 days"),
        (torch.tensor([1.5]), [1.5]),
        (torch.tensor(2), 2),
        (date(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, 2, 3), "2024-05-01T02:03:00"),
        (time(2, 3), "02:03:00"),
        (PurePosixPath("a/b"), "a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, ["r", 1]),
        (Number.ONE, 1),
        (Word("word"), "word"),
        (float("nan"), None),
        ([float("nan"), 1.5], [None, 1.5]),
        (np.array([np.nan, 1]), [None, 1.0]),
        (OrderedDict(b=1, a=(2,)), {"b": 1, "a": [2]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({Word("key"): 1}, {"key": 1}),
    ],
)
def test_values_as_people_write_them(value, kept):
    made = plain(value, "metadata")
    assert (made, type(made)) == (kept, type(kept))
    assert plain({"k": [value]}, "metadata") == {"k": [kept]} and type(plain([value], "metadata")[0]) is type(kept)


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "é", [1, ["a"]], {"a": {"b": [None]}}, [], {}])
def test_values_that_json_holds_stay_the_very_same(value):
    assert plain(value, "metadata") is value and plain(value, "metadata", 1) is value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"x", r"metadata is b'x' \(bytes\), which cannot be saved"),
        ({"a": [1, float("inf")]}, r"metadata\['a'\]\[1\] is inf"),
        ([-float("inf")], r"metadata\[0\] is -inf"),
        ({"a": {1: 2}}, r"metadata\['a'\] is {1: 2}"),
        (object(), "which cannot be saved"),
        (np.array([np.inf]), r"metadata\[0\] is inf"),
        ("a\ud800", "metadata is not valid Unicode"),
        ({"a\ud800": 1}, "metadata is not valid Unicode"),
        ({"a": ["\udfff"]}, r"metadata\['a'\]\[0\] is not valid Unicode"),
    ],
)
def test_values_that_are_refused(value, message):
    with pytest.raises(InvalidArgumentError, match=message):
        plain(value, "metadata")


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}, lambda value: (value,)])
def test_how_deep_values_may_be(wrap):
    value = 1
    for _ in range(64):
        value = wrap(value)
    assert repr(plain(value, "metadata")).count("1") == 1
    with pytest.raises(InvalidArgumentError, match="nested more than 64 levels deep"):
        plain(wrap(value), "metadata")
