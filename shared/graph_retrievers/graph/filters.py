"""Metadata filters: conditions on nodes as masks."""

from __future__ import annotations

import json
import logging
import operator as operators
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import time
from functools import partial
from hashlib import sha256
from itertools import count, islice
from numbers import Number
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import call_function, suggestion
from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError, reason, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.dates import DAY, Moment, instant, is_date, moment
from graph_retrievers.graph.nested import MISSING, look_up
from graph_retrievers.graph.plain import plain

logger = logging.getLogger(__name__)

__all__ = ["filter_mask"]

Filter = Mapping[str, Any] | Callable[[Node], bool] | Tensor
"""A condition on nodes: a mapping over metadata, a function of a :class:`Node`, or a mask from :func:`filter_mask`."""

# Every condition is tested on every node.
_MOST = 10_000
# The number of unknown fields for which a similar one is looked for, and their length: each is compared with all fields.
_SUGGESTED, _LONGEST = 5, 100
# Problems remembered for a graph, so that each is reported once.
_MOST_REMEMBERED = 1000


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, operand: Any) -> bool:
        try:
            return value is not None and bool(test(value, operand))
        except TypeError:
            # Values of different types have no order.
            return False

    return compare


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, str):
        return isinstance(operand, str) and operand in value
    return isinstance(value, (list, tuple, set, frozenset)) and operand in value


_ORDERS = {"$gt": operators.gt, "$gte": operators.ge, "$lt": operators.lt, "$lte": operators.le}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operators.eq,
    "$ne": operators.ne,
    **{name: _ordered(test) for name, test in _ORDERS.items()},
    "$in": lambda value, among: among(value),
    "$nin": lambda value, among: not among(value),
    "$contains": _contains,
    "$exists": lambda value, wanted: (value is not None) == bool(wanted),
}
# What other languages of filters call the operators.
_OPERATOR_NAMES = {name[1:]: name for name in _TESTS} | {
    "==": "$eq",
    "!=": "$ne",
    ">": "$gt",
    ">=": "$gte",
    "<": "$lt",
    "<=": "$lte",
}
_JOINS = {"and": "$and", "or": "$or", "not": "$not"}


def filter_mask(graph: CorpusGraph, condition: Filter) -> Tensor:
    """Return which nodes satisfy a condition.

    Parameters
    ----------
    graph : CorpusGraph
    condition : mapping, callable or Tensor
        A mapping from metadata key to a value (equality) or to ``{operator: value}`` with the operators ``$eq``,
        ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$nin``, ``$contains``, ``$exists``; all entries
        must hold. ``$and`` and ``$or`` take a list of mappings, ``$not`` takes one. The keys ``$id``, ``$type`` and ``$title``
        read the node itself, as text. ``{"a.b": 5}`` and ``{"a": {"b": {"$gt": 5}}}`` read the entry ``b`` of the mapping (or list
        of mappings) in ``a``; a field that is called ``a.b`` comes first. Or a callable from :class:`Node` to bool, or a mask that
        this function returned earlier.

        Dates and times, and texts that are these in ISO 8601 such as "2024-05-01T10:00Z", are compared as instants. One without
        an offset is in UTC. A day in a filter is all of it: ``$gte`` is from its start, ``$lte`` until its end, and ``$eq`` within
        it; a day in metadata is its start. As in Python, True equals 1.

    Returns
    -------
    Tensor, shape [N], bool

    Raises
    ------
    InvalidArgumentError
        For an unknown operator or one without its ``$``, a date that is compared with a field without dates, a mask of another
        graph, a condition that is none of these, or a mapping with more than 10,000 conditions. Conditions of one ``$or`` on single
        values of the same field count as one, as do all values of ``$in``.

    Notes
    -----
    A warning is logged, once per graph, field and operator, for a field that no node has, and for a value that cannot be equal to
    or ordered with any value, because the field never has one of its type, and for values that are not dates in a field of dates:
    they match no date. ``$exists``, ``$ne``, ``$nin`` and ``$not`` may name fields that no node has.

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
        keep = [
            call_function("The filter function", lambda node: bool(condition(node)), graph.node(row)) for row in range(len(graph))
        ]
    elif isinstance(condition, Mapping):
        try:
            flat = flat_filter(condition)
            _check_operators(graph, flat)
            test = _compile(flat, count(1))
            _check_dates(graph, flat)
            if len(graph):
                _warn_of_impossible(graph, flat)
            keep = [bool(test(graph, row)) for row in range(len(graph))]
        except InvalidArgumentError:
            raise
        except Exception as error:
            # Nested too deeply, or objects that do not compare with the values of nodes.
            message = f"The filter {shown(condition)} cannot be compared with the nodes: {reason(error)}."
            raise InvalidArgumentError(message) from error
    else:
        raise InvalidArgumentError(f"A filter is a mapping, a callable or a mask, got {type(condition).__name__}.")
    return torch.tensor(keep, dtype=torch.bool, device=graph.device)


def flat_filter(condition: Any) -> Any:
    """Return a filter with conditions on fields inside mappings as conditions on their paths.

    >>> flat_filter({"a": {"b": {"$gt": 5}, "c": 1}, "d": {"e": 1}})
    {'d': {'e': 1}, '$and': [{'a.b': {'$gt': 5}}, {'a.c': 1}]}
    """
    if not isinstance(condition, Mapping):
        return condition
    flat: dict[Any, Any] = {}
    inside: list[dict[str, Any]] = []
    for key, clause in condition.items():
        if key in ("$and", "$or") and isinstance(clause, (list, tuple)):
            flat[key] = [flat_filter(part) for part in clause]
        elif key == "$not":
            flat[key] = flat_filter(clause)
        elif isinstance(key, str) and _reaches_inside(clause):
            inside += _inside(key, clause)
        else:
            flat[key] = clause
    # Added as parts of $and, since the filter may name one of these paths too; an $and that is not a list is refused later.
    if inside and isinstance(flat.setdefault("$and", []), list):
        flat["$and"] = flat["$and"] + inside
    return flat


def _reaches_inside(clause: Any) -> bool:
    """Return whether a mapping without operators has some further inside."""
    return (
        isinstance(clause, Mapping)
        and not _has_operators(clause)
        and any(_has_operators(value) or _reaches_inside(value) for value in clause.values())
    )


def _inside(path: str, conditions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in conditions.items():
        if _reaches_inside(value):
            yield from _inside(f"{path}.{key}", value)
        else:
            yield {f"{path}.{key}": value}


def _fields(condition: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each field of a filter with what is asked of it, wherever it stands; the filter need not be a valid one."""
    for key, clause in condition.items() if isinstance(condition, Mapping) else ():
        if key == "$not":
            yield from _fields(clause)
        elif key in ("$and", "$or"):
            for part in clause if isinstance(clause, (list, tuple)) else ():
                yield from _fields(part)
        else:
            yield key, clause


def _check_operators(graph: CorpusGraph, condition: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError for an operator without its ``$``, unless a node has a field of that name."""
    for key, clause in _fields(condition):
        parts = clause if isinstance(clause, (list, tuple)) else [clause]
        join = _JOINS.get(key.lower(), "") if isinstance(key, str) else ""
        if join and parts and all(isinstance(part, Mapping) for part in parts):
            pairs = [(key, join)]
        else:
            pairs = [] if _has_operators(clause) else list(_unsigned(key, clause))
        for path, meaning in pairs:
            if not any(look_up(entry, path) is not MISSING for entry in graph.metadata):
                raise InvalidArgumentError(
                    f"The filter has {shown({key: clause})}, which names no operator, and no node is known to have the field "
                    f"{shown(path)}. Did you mean {meaning!r}? In a database, name such a field by its path, {{{path!r}: ...}}."
                )


def _unsigned(path: str, clause: Any) -> Iterator[tuple[str, str]]:
    """Yield the path of each key of nested mappings that is called like an operator, with that operator."""
    for key, inside in clause.items() if isinstance(clause, Mapping) else ():
        if isinstance(key, str) and key.lower() in _OPERATOR_NAMES:
            yield f"{path}.{key}", _OPERATOR_NAMES[key.lower()]
        yield from _unsigned(f"{path}.{key}", inside)


def _hint(name: str, meant_by: Mapping[str, str]) -> str:
    other = meant_by.get(name.lower().removeprefix("$"))
    return f" Did you mean {other!r}?" if other else ""


def filter_fields(condition: Any) -> list[str]:
    """Return the fields that a filter names, each once; none for a function or a mask.

    >>> filter_fields({"$or": [{"year": 1804}, {"maker": {"town": {"$ne": "Lyon"}}}], "year": {"$lt": 1900}})
    ['year', 'maker.town']
    """
    return list(dict.fromkeys(str(key) for key, _ in _fields(flat_filter(condition))))


def dated_fields(condition: Any) -> dict[str, Any]:
    """Return the fields that a flat filter compares with dates (objects, not texts), each with one of these."""
    fields: dict[str, Any] = {}
    for key, clause in _fields(condition):
        operations = clause if _has_operators(clause) else {"$eq": clause}
        for name, value in operations.items():
            values = value if name in ("$in", "$nin") and isinstance(value, Iterable) and not isinstance(value, str) else [value]
            dates = [each for each in values if is_date(each)] if name != "$exists" else []
            if dates:
                fields.setdefault(key, dates[0])
    return fields


def _check_dates(graph: CorpusGraph, condition: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError for a date that is compared with a field without dates; warn if some values are not dates."""
    for key, operand in dated_fields(condition).items():
        if key in _NODE_FIELDS:
            raise InvalidArgumentError(f"The filter compares {shown(key)}, which is text, with {shown(operand)}; give a text.")
        # A part of a graph does not know what no node has.
        already: Cache | None = graph.cache.get("filter problems", lambda: Cache(_MOST_REMEMBERED))
        if already is None or (key[:_LONGEST], "dates") in already:
            continue
        values = [
            value for entry in graph.metadata if (value := look_up(entry, key)) is not MISSING and value not in (None, "", [])
        ]
        mismatches = [value for value in values if not _has_date(value)]
        if mismatches and len(mismatches) == len(values):
            raise InvalidArgumentError(not_dates(key, operand, mismatches[0]))
        message = "%s of the %s values of %s are not dates, such as %s: they match no date in a filter."
        report = partial(
            logger.warning, message, f"{len(mismatches):,}", f"{len(values):,}", shown(key), shown(mismatches and mismatches[0])
        )
        already.get((key[:_LONGEST], "dates"), report if mismatches else lambda: None)


def not_dates(key: str, operand: Any, value: Any) -> str:
    """Return why a filter on a field without dates is refused."""
    return (
        f"The filter compares {shown(key)} with {shown(operand)}, but no node has a date there; one has {shown(value)}. Give a "
        "value of that type, or write dates as date, datetime or ISO 8601 text, such as '2024-05-01T10:00Z', into the metadata."
    )


def _has_date(value: Any) -> bool:
    return any(instant(item) is not None for item in value) if isinstance(value, list) else instant(value) is not None


def _check_mask(mask: Tensor, nodes: int) -> None:
    # Checked first, since a nested tensor has no shape.
    if mask.is_nested or mask.layout is not torch.strided or mask.is_meta:
        kind = "nested" if mask.is_nested else str(mask.layout).removeprefix("torch.")
        raise InvalidArgumentError(
            f"A filter mask is a dense tensor with values; got a {kind} one on the device {mask.device}. Make it dense first."
        )
    if mask.dtype != torch.bool or mask.shape != (nodes,):
        raise InvalidArgumentError(
            f"A filter mask has one bool for each node, shape [{nodes}]; got {mask.dtype} of shape {list(mask.shape)}."
        )


def _warn_of_impossible(graph: CorpusGraph, condition: Mapping[str, Any]) -> None:
    """Log a warning, once for each graph and field, for a part of a condition that no node can satisfy."""
    kinds_of = graph.cache.get("kinds of", lambda: _kinds(graph))
    # Conditions come with questions, so their number is not bounded.
    already: Cache | None = graph.cache.get("filter problems", lambda: Cache(_MOST_REMEMBERED))
    if already is None:
        # A part of a graph does not know what no node has.
        return

    def kinds(key: str) -> Set[str]:
        return _kinds_at(graph, key) if "." in key else kinds_of.get(key, set())

    conditions = [each for each in needed_fields(condition) if problem_key(*each[:2]) not in already]
    for pair, fault in faults(conditions, kinds, kinds_of):
        already.get(pair, partial(logger.warning, "%s", fault))


def needed_fields(condition: Mapping[str, Any], optional: Set[str] = frozenset()) -> Iterator[tuple[str, str, Any]]:
    """Yield the field, operator and value of each condition that a node needs the field for; `optional` fields may be absent."""
    for key, clause in condition.items():
        if key in ("$and", "$or"):
            names = {name for part in clause for name, value in part.items() if _has_operators(value) and "$exists" in value}
            for part in clause:
                yield from needed_fields(part, names if key == "$or" else optional)
        elif key != "$not" and key not in optional:
            for operator, value in (clause if _has_operators(clause) else {"$eq": clause}).items():
                # Nodes without the field satisfy these; nothing is ordered with None.
                if operator not in ("$exists", "$ne", "$nin") and (value is not None or operator in _ORDERS):
                    yield key, operator, value


def problem_key(key: str, operator: str) -> tuple[str, str]:
    """Return the key of a condition under which a problem is remembered."""
    return key[:_LONGEST], operator


def faults(
    conditions: Iterable[tuple[str, str, Any]], kinds: Callable[[str], Set[str]], fields: Collection[str]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the key and a message for each condition of :func:`needed_fields` that no node can satisfy.

    `kinds` returns the kinds of values that nodes have in a field, "text", "number", "list" and "mapping", and none if no node has
    the field; `fields` are all that nodes have.
    """
    compared: set[str] = set()
    for key, operator, value in conditions:
        field_kinds = {"text"} if key in _NODE_FIELDS else kinds(key)
        if not field_kinds and len(compared) < _SUGGESTED:
            compared.add(key)
        fault = _mismatch(key, operator, value, field_kinds) if field_kinds else _unknown(key, fields, key in compared)
        if fault:
            yield problem_key(key, operator), fault


def _unknown(key: str, fields: Collection[str], suggest: bool) -> str:
    """Return what to say of a field that no node has."""
    known = ", ".join(islice(fields, 30)) or "none"
    other = suggestion(key, fields) if suggest else ""
    return f"The filter names {shown(key)}, which is not a metadata field of any node.{other} The fields are: {known}."


def matching_kinds(operator: str, value: Any) -> Set[str] | None:
    """Return the kinds of values of which some may satisfy a condition; None if values of any kind may, or that is not known.

    >>> sorted(matching_kinds("$contains", "a")), matching_kinds("$gt", 5), matching_kinds("$in", [None, 5])
    (['list', 'text'], {'number'}, None)
    """
    values = list(value) if operator == "$in" else [value]
    # Dates are kept as text.
    kinds = {_kind(kind) for kind in {str if is_date(each) else type(each) for each in values} - {NoneType}}
    # It is not known what values of other types equal.
    if not (kinds or operator in _ORDERS) or not kinds <= _KINDS:
        return None
    if operator == "$contains":
        return {"list"} | kinds & {"text"}
    if operator in _ORDERS:
        # Mappings have no order.
        return kinds - {"mapping"}
    return None if None in values else kinds


def _mismatch(key: str, operator: str, value: Any, field_kinds: Set[str]) -> str:
    """Return why no value of a field's kinds can satisfy a condition, or an empty string if some may."""
    kinds = matching_kinds(operator, value)
    if kinds is None or kinds & field_kinds:
        return ""
    hint = "Give a value of that type."
    if operator == "$eq" and kinds == {"list"}:
        hint = f'For one of several values, use {{"$in": {shown(list(value))}}}.'
    elif operator in ("$eq", "$in") and field_kinds == {"list"}:
        first = next(iter(value)) if operator == "$in" else value
        hint = f'For an entry of the list, use {{"$contains": {shown(first)}}}.'
    types = " or a ".join(sorted(field_kinds))
    condition = f"{{{key!r}: {{{operator!r}: {shown(value)}}}}}"
    return f"The filter {condition} can never match: {key!r} of the nodes is a {types}. {hint}"


def _kinds(graph: CorpusGraph) -> dict[str, set[str]]:
    """Return the kinds of values of each metadata field, by field in order; none where all nodes have None."""
    types: dict[str, set[type]] = defaultdict(set)
    for entry in graph.metadata:
        for name, value in entry.items():
            types[name].add(type(value))
    return {name: {_kind(kind) for kind in types[name] - {NoneType}} for name in sorted(types)}


def _kinds_at(graph: CorpusGraph, path: str) -> set[str]:
    """Return the kinds of values of a field that may be inside mappings."""

    def make() -> set[str]:
        values = (look_up(entry, path) for entry in graph.metadata)
        return {_kind(type(value)) for value in values if value is not MISSING and value is not None}

    cache: Cache = graph.cache.get("kinds at", lambda: Cache(_MOST_REMEMBERED))
    return cache.get(path, make) if len(path) <= _LONGEST else make()


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
    """Return which nodes have one of the types: Tensor, shape [N], bool, made once for all callers, who only read it."""

    def make() -> Tensor:
        numbers = [number for number, name in enumerate(graph.type_names) if name in types]
        return torch.isin(graph.node_types, torch.tensor(numbers, dtype=torch.int32, device=graph.device))

    return graph.cache.get(("types", frozenset(types)), make)


_KINDS = {"text", "number", "list", "mapping"}
_PLAIN = frozenset([str, int, float, bool, NoneType])
_NODE_FIELDS: dict[str, Callable[[CorpusGraph, int], Any]] = {
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
    tests = [_entry_test(key, clause, numbers) for key, clause in condition.items()]
    return tests[0] if len(tests) == 1 else lambda g, r: all(test(g, r) for test in tests)


def _entry_test(key: str, clause: Any, numbers: Iterator[int]) -> _Test:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"Filter keys are strings, got {shown(key)}.")
    if key in ("$and", "$or"):
        if not isinstance(clause, (list, tuple)):
            raise InvalidArgumentError(f"Filter {key} takes a list of mappings, got {shown(clause)}.")
        parts = [_compile(part, numbers) for part in (clause if key == "$and" else _gathered(clause))]
        how = all if key == "$and" else any
        return lambda g, r: how(part(g, r) for part in parts)
    if key == "$not":
        test = _compile(clause, numbers)
        return lambda g, r: not test(g, r)
    return _field_test(key, clause)


def as_metadata(value: Any) -> Any:
    """Return a value as a graph keeps it, such as a date as an ISO string, or itself if no graph keeps such values."""
    if isinstance(value, Mapping):
        return {key: as_metadata(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_metadata(item) for item in value]
    try:
        result = plain(value, "a filter")
    except InvalidArgumentError:
        return value
    # NaN equals nothing, not even a value that is missing.
    return value if result is None else result


def _has_operators(clause: Any) -> bool:
    return isinstance(clause, Mapping) and any(str(key).startswith("$") for key in clause)


def _field_test(key: str, clause: Any) -> _Test:
    if key.startswith("$") and key not in _NODE_FIELDS:
        raise InvalidArgumentError(
            f"Unknown filter key {shown(key)}; keys are metadata fields, $id, $type, $title, $and, $or or $not."
            f"{_hint(key, _JOINS | {name[1:]: name for name in _NODE_FIELDS})}"
        )
    attribute = _NODE_FIELDS.get(key)
    getter = attribute or (lambda g, r: _field(g.metadata[r], key))
    if not _has_operators(clause):
        test = _value_test("$eq", clause, attribute is None)
        return lambda g, r: test(getter(g, r))
    for operator in clause:
        if operator not in _TESTS:
            raise InvalidArgumentError(
                f"Unknown filter operator {shown(operator)} on {shown(key)}; choose one of {', '.join(_TESTS)}."
                f"{_hint(str(operator), _OPERATOR_NAMES)}"
            )
        if operator in _ORDERS and isinstance(clause[operator], time):
            raise InvalidArgumentError(
                f"Filter {operator} on {shown(key)} takes {shown(clause[operator])}, a time without a day, which has no order; "
                "give a datetime, or a text in the form of the metadata, such as '09:30:00'."
            )
        operand = as_metadata(clause[operator])
        if operator in ("$in", "$nin") and (isinstance(operand, str) or not isinstance(operand, Collection)):
            raise InvalidArgumentError(f"Filter {operator} on {shown(key)} takes a list of values, got {shown(operand)}.")
    tests = [_value_test(operator, value, attribute is None) for operator, value in clause.items()]
    first = tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)
    return lambda g, r: first(getter(g, r))


def _field(metadata: Mapping[str, Any], key: str) -> Any:
    """Return a field by its name or path, None if there is none."""
    if key in metadata or "." not in key:
        return metadata.get(key)
    value = look_up(metadata, key)
    return None if value is MISSING else value


def _value_test(operator: str, operand: Any, dated: bool) -> Callable[[Any], bool]:
    """Return an operator with what is wanted as a test of a value; dates are read only where `dated`."""
    plain_operand, period = as_metadata(operand), moment(operand) if dated else None
    if operator in ("$in", "$nin"):
        among = _dated_among(operand, _among(plain_operand)) if dated else _among(plain_operand)
        return among if operator == "$in" else lambda value: not among(value)
    test = _TESTS[operator]
    if period is None or operator == "$exists":
        return lambda value: test(value, plain_operand)
    if operator in _ORDERS:
        return _dated_order(operator, period, None if is_date(operand) else test)
    if operator == "$contains":
        return _dated_contains(period, None if is_date(operand) else test)
    return lambda value: _within(value, period) == (operator == "$eq")


def _within(value: Any, period: Moment) -> bool:
    timestamp = instant(value)
    return timestamp is not None and period.first <= timestamp < period.after


def _dated_order(operator: str, period: Moment, otherwise: Callable[[Any, Any], bool] | None) -> Callable[[Any], bool]:
    """Return whether a value is before or after a moment; `otherwise` compares texts that are not dates with its text."""
    # A value after a day is one from its end on.
    bound = period.after if operator in ("$gt", "$lte") else period.first
    compare = operators.ge if operator in ("$gt", "$gte") else operators.lt

    def test(value: Any) -> bool:
        timestamp = instant(value)
        if timestamp is None:
            return otherwise is not None and otherwise(value, period.text)
        return compare(timestamp, bound)

    return test


def _dated_contains(period: Moment, otherwise: Callable[[Any, Any], bool] | None) -> Callable[[Any], bool]:
    """Return whether a value is, or a list contains, a date within a moment; `otherwise` reads texts that are not dates."""

    def test(value: Any) -> bool:
        if isinstance(value, list):
            return any(_within(item, period) for item in value)
        if instant(value) is None:
            return otherwise is not None and otherwise(value, period.text)
        return _within(value, period)

    return test


def _dated_among(values: Iterable[Any], among: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test of whether a value is among some, or at the time of one of them; its time does not grow with their number."""
    periods = [period for each in values if (period := moment(each)) is not None]
    instants = {each.first for each in periods if each.after - each.first == 1}
    days = {each.first for each in periods if each.after - each.first == DAY}

    def test(value: Any) -> bool:
        timestamp = instant(value)
        return (timestamp is not None and (timestamp in instants or timestamp - timestamp % DAY in days)) or among(value)

    return test if periods else among


def _gathered(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of ``$or``, those that ask for values of one field as one, so that a node's value is looked up once."""
    fields: dict[str, list[Any]] = defaultdict(list)
    rest = []
    for part in parts:
        field = next(iter(part)) if isinstance(part, Mapping) and len(part) == 1 else None
        values = _values(part[field]) if isinstance(field, str) and field not in ("$and", "$or", "$not") else None
        if field is None or values is None:
            rest.append(part)
        else:
            fields[field] += values
    return [*({field: {"$in": values}} for field, values in fields.items()), *rest]


def _values(clause: Any) -> list[Any] | None:
    """Return the values one of which a condition on a field asks for; None if it asks for something else or they are not plain."""
    if not _has_operators(clause):
        values = [clause]
    elif len(clause) == 1 and "$eq" in clause:
        values = [clause["$eq"]]
    elif len(clause) == 1 and isinstance(clause.get("$in"), list):
        values = clause["$in"]
    else:
        return None
    # NaN is in a list that contains it, but does not equal itself.
    return values if all(type(value) in _PLAIN and value == value for value in values) else None


def _among(values: Collection[Any]) -> Callable[[Any], bool]:
    """Return a test of whether a value is ``in`` some; where these are plain, its time does not grow with their number."""
    if not isinstance(values, list):
        return lambda value: value in values
    plain_ones: set[Any] = set()
    groups: dict[tuple[type, int], set[Any]] = defaultdict(set)
    rest = []
    for item in values:
        try:
            place = plain_ones if type(item) in _PLAIN else groups[type(item), len(item)]
            place.add(_frozen(item))
        except (TypeError, RecursionError):
            rest.append(item)

    def test(value: Any) -> bool:
        kind = type(value)
        if kind in _PLAIN:
            return value in plain_ones or value in rest
        if kind not in (list, dict):
            return value in values
        try:
            # Only lists of the same length can be equal.
            group = groups.get((kind, len(value)))
            return (group is not None and _frozen(value) in group) or value in rest
        except (TypeError, RecursionError):
            return value in values

    return test


def _frozen(value: Any) -> Hashable:
    """Return an equal of plain values, and of lists and dicts of these, that a set can hold; TypeError for others."""
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]
    if kind is list:
        return (list, *map(_frozen, value))
    if kind is dict:
        return dict, frozenset((key, _frozen(item)) for key, item in value.items())
    raise TypeError(f"{kind} may not be hashable")
