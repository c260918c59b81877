"""Metadata filters: conditions on nodes as masks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.plain import plain

__all__ = ["Filter", "filter_mask", "type_mask"]

Filter = Mapping[str, Any] | Callable[[Node], bool] | Tensor
"""A condition on nodes: a mapping over metadata, a function of a :class:`Node`, or a mask that :func:`filter_mask` returned."""


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
    "$in": lambda value, wanted: value in wanted,
    "$nin": lambda value, wanted: value not in wanted,
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
        For an unknown operator, a mask of another graph, or a condition that is none of these.

    Examples
    --------
    >>> graph = CorpusGraph(["a", "b"], ["", ""], metadata=[{"year": 1843}, {"year": 1991}])
    >>> filter_mask(graph, {"$or": [{"year": {"$gte": 1900}}, {"$id": "c"}]})
    tensor([False,  True])
    """
    if isinstance(condition, Tensor):
        if condition.dtype != torch.bool or condition.shape != (len(graph),):
            raise InvalidArgumentError(
                f"A filter mask has one bool a node, shape [{len(graph)}]; got {condition.dtype} of shape {list(condition.shape)}."
            )
        return condition.to(graph.device)
    if callable(condition):
        keep = [bool(condition(graph.node(row))) for row in range(len(graph))]
    elif isinstance(condition, Mapping):
        test = _compile(condition)
        keep = [test(graph, row) for row in range(len(graph))]
    else:
        raise InvalidArgumentError(f"A filter is a mapping, a callable or a mask, got {type(condition).__name__}.")
    return torch.tensor(keep, dtype=torch.bool, device=graph.device)


def type_mask(graph: CorpusGraph, types: Collection[str]) -> Tensor:
    """Return which nodes have one of the types: Tensor, shape [N], bool."""
    rows = [i for i, name in enumerate(graph.type_names) if name in types]
    return torch.isin(graph.node_types, torch.tensor(rows, dtype=torch.int32, device=graph.device))


_Test = Callable[[CorpusGraph, int], bool]


def _compile(condition: Mapping[str, Any]) -> _Test:
    if not isinstance(condition, Mapping):
        raise InvalidArgumentError(f"A part of a filter is a mapping, got {condition!r}.")
    tests = [_entry_test(key, wanted) for key, wanted in condition.items()]
    return lambda g, r: all(test(g, r) for test in tests)


def _entry_test(key: str, wanted: Any) -> _Test:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"Filter keys are strings, got {key!r}.")
    if key in ("$and", "$or"):
        if not isinstance(wanted, (list, tuple)):
            raise InvalidArgumentError(f"Filter {key} takes a list of mappings, got {wanted!r}.")
        parts, how = [_compile(part) for part in wanted], all if key == "$and" else any
        return lambda g, r: how(part(g, r) for part in parts)
    if key == "$not":
        negated = _compile(wanted)
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


def _field_test(key: str, wanted: Any) -> _Test:
    own: dict[str, Callable[[CorpusGraph, int], Any]] = {
        "$id": lambda g, r: g.ids[r],
        "$type": lambda g, r: g.types[r],
        "$title": lambda g, r: g.titles[r],
    }
    if key.startswith("$") and key not in own:
        raise InvalidArgumentError(f"Unknown filter key {key!r}; keys are metadata fields, $id, $type, $title, $and, $or or $not.")
    read = own.get(key, lambda g, r: g.metadata[r].get(key))
    if not (isinstance(wanted, Mapping) and any(str(k).startswith("$") for k in wanted)):
        return lambda g, r: read(g, r) == wanted
    for operator in wanted:
        if operator not in _TESTS:
            raise InvalidArgumentError(f"Unknown filter operator {operator!r} on {key!r}; choose one of {', '.join(_TESTS)}.")
        if operator in ("$in", "$nin") and (isinstance(wanted[operator], str) or not isinstance(wanted[operator], Collection)):
            raise InvalidArgumentError(f"Filter {operator} on {key!r} takes a list of values, got {wanted[operator]!r}.")
    return lambda g, r: all(_TESTS[operator](read(g, r), value) for operator, value in wanted.items())
