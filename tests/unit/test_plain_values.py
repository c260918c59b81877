"""Values of metadata as JSON holds them: what becomes of each type, and what is refused."""

import enum
from collections import OrderedDict
from datetime import date, datetime, time
from pathlib import PurePosixPath
from threading import Lock
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.plain import copied, plain
from tests.hostile import nested


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


def test_what_cannot_be_copied_is_refused():
    held = {"tags": [{"a"}, OrderedDict(b=[1])]}
    made = copied(held)
    made["tags"][1]["b"].append(2)
    assert held == {"tags": [{"a"}, OrderedDict(b=[1])]} and made == {"tags": [{"a"}, OrderedDict(b=[1, 2])]}
    for value in ({"lock": Lock()}, nested(3000), {"deep": (nested(3000),)}):
        with pytest.raises(InvalidArgumentError, match="cannot be copied"):
            copied(value)
