"""Metadata filters: conditions on nodes as masks."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from hashlib import sha256
from itertools import count, islice
from numbers import Number
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import called, meant
from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError, reason, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.plain import plain

logger = logging.getLogger(__name__)

__all__ = ["Filter", "filter_key", "filter_mask", "type_mask"]

Filter = Mapping[str, Any] | Callable[[Node], bool] | Tensor
"""A condition on nodes: a mapping over metadata, a function of a :class:`Node`, or a mask from :func:`filter_mask`."""

# Every condition is tested on every node.
_MOST = 10_000
# Unknown fields that a similar one is looked for, and characters of them: all fields are compared with each.
_SUGGESTED, _LONGEST = 5, 100
# Problems remembered for a graph, so that each is reported once.
_TOLD = 1000


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, wanted: Any) -> bool:
        try:
            return value is not None and bool(test(value, wanted))
        except TypeError:
            # Values of different types have no order.
            return False

    return compare


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, (list, tuple, set, frozenset)) and wanted in value


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: value == wanted,
    "$ne": lambda value, wanted: value != wanted,
    "$gt": _ordered(lambda value, wanted: value > wanted),
    "$gte": _ordered(lambda value, wanted: value >= wanted),
    "$lt": _ordered(lambda value, wanted: value < wanted),
    "$lte": _ordered(lambda value, wanted: value <= wanted),
    "$in": lambda value, among: among(value),
    "$nin": lambda value, among: not among(value),
    "$contains": _contains,
    "$exists": lambda value, wanted: (value is not None) == bool(wanted),
}


def filter_mask(graph: CorpusGraph, condition: Filter) -> Tensor:
    """Return which nodes satisfy a condition.

    Parameters
    ----------
    graph : CorpusGraph
    condition : mapping, callable or Tensor
        A mapping from metadata key to a value (equality) or to ``{operator: value}`` with the operators ``$eq``,
        ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$nin``, ``$contains``, ``$exists``; all entries
        must hold. ``$and`` and ``$or`` take a list of mappings, ``$not`` takes one. The keys ``$id``, ``$type`` and ``$title``
        read the node itself. Or a callable from :class:`Node` to bool, or a mask that this function returned earlier.

    Returns
    -------
    Tensor, shape [N], bool

    Raises
    ------
    InvalidArgumentError
        For an unknown operator, a mask of another graph, a condition that is none of these, or a mapping with more than 10,000
        conditions. Conditions of one ``$or`` on single values of the same field count as one, as do all values of ``$in``.

    Notes
    -----
    A warning is logged, once per graph and field, for a field that no node has, and for a value that cannot be equal to or
    ordered with any value, because the field never has one of its type. ``$exists``, ``$ne``, ``$nin`` and ``$not`` may name
    fields that no node has.

    Examples
    --------
    >>> graph = CorpusGraph(["a", "b"], ["", ""], metadata=[{"year": 1843}, {"year": 1991}])
    >>> filter_mask(graph, {"$or": [{"year": {"$gte": 1900}}, {"$id": "c"}]})
    tensor([False,  True])
    """
    if isinstance(condition, Tensor):
        _check_mask(condition, len(graph))
        return condition.to(graph.device)
    if callable(condition):
        keep = [called("The filter function", lambda node: bool(condition(node)), graph.node(row)) for row in range(len(graph))]
    elif isinstance(condition, Mapping):
        try:
            test = _compile(condition, count(1))
            if len(graph):
                _tell_impossible(graph, condition)
            keep = [bool(test(graph, row)) for row in range(len(graph))]
        except InvalidArgumentError:
            raise
        except Exception as error:
            # Nested too deeply, or objects that do not compare with the values of nodes.
            told = f"The filter {shown(condition)} cannot be compared with the nodes: {reason(error)}."
            raise InvalidArgumentError(told) from error
    else:
        raise InvalidArgumentError(f"A filter is a mapping, a callable or a mask, got {type(condition).__name__}.")
    return torch.tensor(keep, dtype=torch.bool, device=graph.device)


def _check_mask(mask: Tensor, nodes: int) -> None:
    # First, since a nested tensor has no shape.
    if mask.is_nested or mask.layout is not torch.strided or mask.is_meta:
        kind = "nested" if mask.is_nested else str(mask.layout).removeprefix("torch.")
        raise InvalidArgumentError(
            f"A filter mask is a dense tensor with values; got a {kind} one on the device {mask.device}. Make it dense first."
        )
    if mask.dtype != torch.bool or mask.shape != (nodes,):
        raise InvalidArgumentError(
            f"A filter mask has one bool a node, shape [{nodes}]; got {mask.dtype} of shape {list(mask.shape)}."
        )


def _tell_impossible(graph: CorpusGraph, condition: Mapping[str, Any]) -> None:
    """Log a warning, once a graph and field, for a part of a condition that no node can satisfy."""
    held_by = graph.cache.get("kinds of", lambda: _kinds(graph))
    # Conditions come with questions, so their number is not bounded.
    already: Cache | None = graph.cache.get("filters told", lambda: Cache(_TOLD))
    if already is None:
        # A part of a graph does not know what no node has.
        return
    suggest: set[str] = set()
    for key, operator, value in _asked(condition):
        told = key[:_LONGEST], operator
        if told in already:
            continue
        held = {"text"} if key in _OWN else held_by.get(key)
        if not held and len(suggest) < _SUGGESTED:
            suggest.add(key)
        fault = _mismatch(key, operator, value, held) if held else _unknown(key, held_by, key in suggest)
        if fault:
            already.get(told, partial(logger.warning, "%s", fault))


def _asked(condition: Mapping[str, Any], known: Set[str] = frozenset()) -> Iterator[tuple[str, str, Any]]:
    """Yield the field, operator and value of each condition that a node needs the field for; `known` fields may be absent."""
    for key, wanted in condition.items():
        if key in ("$and", "$or"):
            asked = {name for part in wanted for name, value in part.items() if _has_operators(value) and "$exists" in value}
            for part in wanted:
                yield from _asked(part, asked if key == "$or" else known)
        elif key != "$not" and key not in known:
            for operator, value in (wanted if _has_operators(wanted) else {"$eq": wanted}).items():
                # Nodes without the field satisfy these; nothing is ordered with None.
                if operator not in ("$exists", "$ne", "$nin") and (value is not None or operator in _ORDERS):
                    yield key, operator, value


def _unknown(key: str, fields: Collection[str], suggest: bool) -> str:
    """Return what to say of a field that no node has."""
    there = ", ".join(islice(fields, 30)) or "none"
    other = meant(key, fields) if suggest else ""
    return f"The filter names {shown(key)}, which is not a metadata field of any node.{other} The fields are: {there}."


def _mismatch(key: str, operator: str, value: Any, held: Set[str]) -> str:
    """Return why no value of a field's kinds can satisfy a condition, or an empty string if some may."""
    values = list(value) if operator == "$in" else [value]
    kinds = {_kind(kind) for kind in {type(each) for each in values} - {NoneType}}
    # Of values of other types it is not known what they equal.
    if not (kinds or operator in _ORDERS) or not kinds | held <= _KINDS:
        return ""
    if operator == "$contains":
        possible = "list" in held or "text" in kinds & held
    elif operator in _ORDERS:
        # Mappings have no order.
        possible = bool(kinds & held - {"mapping"})
    else:
        possible = bool(kinds & held) or None in values
    if possible:
        return ""
    hint = "Give a value of that type."
    if operator == "$eq" and kinds == {"list"}:
        hint = f'For one of several values, use {{"$in": {shown(list(value))}}}.'
    elif operator in ("$eq", "$in") and held == {"list"}:
        hint = f'For an entry of the list, use {{"$contains": {shown(values[0])}}}.'
    types = " or a ".join(sorted(held))
    asked = f"{{{key!r}: {{{operator!r}: {shown(value)}}}}}"
    return f"The filter {asked} can never match: {key!r} of the nodes is a {types}. {hint}"


def _kinds(graph: CorpusGraph) -> dict[str, set[str]]:
    """Return the kinds of values of each metadata field, by field in order; none where all nodes have None."""
    types: dict[str, set[type]] = defaultdict(set)
    for entry in graph.metadata:
        for name, value in entry.items():
            types[name].add(type(value))
    return {name: {_kind(kind) for kind in types[name] - {NoneType}} for name in sorted(types)}


def _kind(kind: type) -> str:
    for name, types in (("text", str), ("number", Number), ("list", (list, tuple, set, frozenset)), ("mapping", Mapping)):
        if issubclass(kind, types):
            return name
    return kind.__name__


def filter_key(graph: CorpusGraph, condition: Filter) -> tuple[str, Any]:
    """Return a key for what a condition selects: the text of a mapping if JSON can represent it, otherwise a digest of the mask."""
    if isinstance(condition, Mapping):
        try:
            text = json.dumps(condition, sort_keys=True)
            # JSON has keys of one type only, and lists for tuples.
            if json.loads(text) == condition:
                return "mapping", text
        except Exception:
            # Values that JSON cannot represent, are nested too deeply, or do not compare: filter_mask raises an error for them.
            pass
    return "mask", sha256(filter_mask(graph, condition).cpu().numpy().tobytes()).digest()


def type_mask(graph: CorpusGraph, types: Collection[str]) -> Tensor:
    """Return which nodes have one of the types: Tensor, shape [N], bool."""
    rows = [i for i, name in enumerate(graph.type_names) if name in types]
    return torch.isin(graph.node_types, torch.tensor(rows, dtype=torch.int32, device=graph.device))


_KINDS = {"text", "number", "list", "mapping"}
_ORDERS = {"$gt", "$gte", "$lt", "$lte"}
_PLAIN = frozenset([str, int, float, bool, NoneType])
_OWN: dict[str, Callable[[CorpusGraph, int], Any]] = {
    "$id": lambda g, r: g.ids[r],
    "$type": lambda g, r: g.types[r],
    "$title": lambda g, r: g.titles[r],
}

_Test = Callable[[CorpusGraph, int], bool]


def _compile(condition: Mapping[str, Any], numbers: Iterator[int]) -> _Test:
    """Return a condition as a test of a node; `numbers` count the conditions of the whole filter, and a part without any as one."""
    if not isinstance(condition, Mapping):
        raise InvalidArgumentError(f"A part of a filter is a mapping, got {shown(condition)}.")
    if any(number > _MOST for number in islice(numbers, max(1, len(condition)))):
        raise InvalidArgumentError(
            f"The filter has more than {_MOST:,} conditions; for one of many values, use "
            '{"field": {"$in": [...]}}, and for anything else a function or a mask.'
        )
    tests = [_entry_test(key, wanted, numbers) for key, wanted in condition.items()]
    return lambda g, r: all(test(g, r) for test in tests)


def _entry_test(key: str, wanted: Any, numbers: Iterator[int]) -> _Test:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"Filter keys are strings, got {shown(key)}.")
    if key in ("$and", "$or"):
        if not isinstance(wanted, (list, tuple)):
            raise InvalidArgumentError(f"Filter {key} takes a list of mappings, got {shown(wanted)}.")
        parts = [_compile(part, numbers) for part in (wanted if key == "$and" else _gathered(wanted))]
        how = all if key == "$and" else any
        return lambda g, r: how(part(g, r) for part in parts)
    if key == "$not":
        negated = _compile(wanted, numbers)
        return lambda g, r: not negated(g, r)
    return _field_test(key, _as_kept(wanted))


def _as_kept(wanted: Any) -> Any:
    """Return a value as a graph keeps it, a date as an ISO string, say; one that no graph keeps as it is."""
    if isinstance(wanted, Mapping):
        return {key: _as_kept(value) for key, value in wanted.items()}
    if isinstance(wanted, (list, tuple)):
        return [_as_kept(value) for value in wanted]
    try:
        found = plain(wanted, "a filter")
    except InvalidArgumentError:
        return wanted
    # NaN equals nothing, not even a value that is missing.
    return wanted if found is None else found


def _has_operators(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted)


def _field_test(key: str, wanted: Any) -> _Test:
    if key.startswith("$") and key not in _OWN:
        raise InvalidArgumentError(
            f"Unknown filter key {shown(key)}; keys are metadata fields, $id, $type, $title, $and, $or or $not."
        )
    read = _OWN.get(key, lambda g, r: g.metadata[r].get(key))
    if not _has_operators(wanted):
        return lambda g, r: read(g, r) == wanted
    for operator in wanted:
        if operator not in _TESTS:
            raise InvalidArgumentError(
                f"Unknown filter operator {shown(operator)} on {shown(key)}; choose one of {', '.join(_TESTS)}."
            )
        if operator in ("$in", "$nin") and (isinstance(wanted[operator], str) or not isinstance(wanted[operator], Collection)):
            raise InvalidArgumentError(f"Filter {operator} on {shown(key)} takes a list of values, got {shown(wanted[operator])}.")
    tests = [(_TESTS[operator], _among(value) if operator in ("$in", "$nin") else value) for operator, value in wanted.items()]
    return lambda g, r: all(test(read(g, r), value) for test, value in tests)


def _gathered(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of ``$or``, those that ask for values of one field as one, so that a node's value is looked up once."""
    asked: dict[str, list[Any]] = defaultdict(list)
    others = []
    for part in parts:
        field = next(iter(part)) if isinstance(part, Mapping) and len(part) == 1 else None
        values = _values(part[field]) if isinstance(field, str) and field not in ("$and", "$or", "$not") else None
        if field is None or values is None:
            others.append(part)
        else:
            asked[field] += values
    return [*({field: {"$in": values}} for field, values in asked.items()), *others]


def _values(wanted: Any) -> list[Any] | None:
    """Return the values one of which a condition on a field asks for; None if it asks for something else or they are not plain."""
    if not _has_operators(wanted):
        values = [wanted]
    elif len(wanted) == 1 and "$eq" in wanted:
        values = [wanted["$eq"]]
    elif len(wanted) == 1 and isinstance(wanted.get("$in"), list):
        values = wanted["$in"]
    else:
        return None
    # NaN is in a list that contains it, but does not equal itself.
    return values if all(type(value) in _PLAIN and value == value for value in values) else None


def _among(wanted: Collection[Any]) -> Callable[[Any], bool]:
    """Return a test of whether a value is ``in`` some; where these are plain, its time does not grow with their number."""
    if not isinstance(wanted, list):
        return lambda value: value in wanted
    plain_ones: set[Any] = set()
    nested: dict[tuple[type, int], set[Any]] = defaultdict(set)
    others = []
    for each in wanted:
        try:
            place = plain_ones if type(each) in _PLAIN else nested[type(each), len(each)]
            place.add(_frozen(each))
        except (TypeError, RecursionError):
            others.append(each)

    def test(value: Any) -> bool:
        kind = type(value)
        if kind in _PLAIN:
            return value in plain_ones or value in others
        if kind not in (list, dict):
            return value in wanted
        try:
            # Only lists of the same length can be equal.
            alike = nested.get((kind, len(value)))
            return (alike is not None and _frozen(value) in alike) or value in others
        except (TypeError, RecursionError):
            return value in wanted

    return test


def _frozen(value: Any) -> Hashable:
    """Return an equal of plain values, and of lists and dicts of these, that a set can hold; TypeError for others."""
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]
    if kind is list:
        return (list, *map(_frozen, value))
    if kind is dict:
        return dict, frozenset((key, _frozen(held)) for key, held in value.items())
    raise TypeError(f"{kind} may not be hashable")
