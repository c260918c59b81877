"""LlamaIndex metadata filters as filters of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.filters import Filter

__all__ = ["engine_filter"]

_Test = Callable[[Mapping[str, Any]], bool]

_ORDERS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.GT: lambda value, wanted: value > wanted,
    FilterOperator.GTE: lambda value, wanted: value >= wanted,
    FilterOperator.LT: lambda value, wanted: value < wanted,
    FilterOperator.LTE: lambda value, wanted: value <= wanted,
}

_LISTS: dict[FilterOperator, Callable[[Any, list[Any]], bool]] = {
    FilterOperator.IN: lambda value, wanted: value in wanted,
    FilterOperator.NIN: lambda value, wanted: value not in wanted,
    FilterOperator.ANY: lambda value, wanted: any(_holds(value, one) for one in wanted),
    FilterOperator.ALL: lambda value, wanted: all(_holds(value, one) for one in wanted),
}

_TEXTS: dict[FilterOperator, Callable[[str, str], bool]] = {
    FilterOperator.TEXT_MATCH: lambda value, wanted: wanted in value,
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda value, wanted: wanted.lower() in value.lower(),
}


def engine_filter(filters: MetadataFilters | Filter) -> Filter:
    """Return filters in the form the engine reads.

    Parameters
    ----------
    filters : MetadataFilters, mapping or callable
        ``MetadataFilters`` may nest; ``and``, ``or`` and ``not`` (none of the parts may hold) are understood, and
        every ``FilterOperator``. The engine's own mappings and callables pass as they are.

    Returns
    -------
    Filter
        As LlamaIndex' own filter function decides: a field that is missing satisfies only ``!=``, ``nin`` and
        ``is_empty``. A value of a type that cannot be compared does not match.

    Raises
    ------
    InvalidArgumentError
        If an operator is given a value it cannot use (``in`` without a list, say).
    """
    if not isinstance(filters, MetadataFilters):
        return filters
    test = _all_of(filters)
    return lambda node: test(node.metadata)


def _all_of(filters: MetadataFilters) -> _Test:
    tests = [_all_of(part) if isinstance(part, MetadataFilters) else _one(part) for part in filters.filters]
    if not tests:
        return lambda metadata: True
    if filters.condition == FilterCondition.OR:
        return lambda metadata: any(test(metadata) for test in tests)
    if filters.condition == FilterCondition.NOT:
        return lambda metadata: not any(test(metadata) for test in tests)
    return lambda metadata: all(test(metadata) for test in tests)


def _one(part: MetadataFilter) -> _Test:
    key, operator, wanted = part.key, part.operator, part.value
    if operator == FilterOperator.IS_EMPTY:
        return lambda metadata: metadata.get(key) in (None, "", [])
    compare = _comparison(part)
    # What a missing field answers is settled here, so that comparisons need not know of None.
    missing = operator in (FilterOperator.NE, FilterOperator.NIN)
    return lambda metadata: missing if metadata.get(key) is None else compare(metadata[key], wanted)


def _comparison(part: MetadataFilter) -> Callable[[Any, Any], bool]:
    operator = part.operator
    if operator in _LISTS:
        if not isinstance(part.value, list):
            raise InvalidArgumentError(f"Filter {operator.value!r} on {part.key!r} takes a list, got {part.value!r}.")
        return _LISTS[operator]
    if operator in _TEXTS:
        if not isinstance(part.value, str):
            raise InvalidArgumentError(f"Filter {operator.value!r} on {part.key!r} takes a string, got {part.value!r}.")
        match = _TEXTS[operator]
        return lambda value, wanted: isinstance(value, str) and match(value, wanted)
    if operator in _ORDERS:
        return lambda value, wanted: _ordered(_ORDERS[operator], value, wanted)
    if operator == FilterOperator.CONTAINS:
        return _holds
    if operator == FilterOperator.NE:
        return lambda value, wanted: bool(value != wanted)
    if operator == FilterOperator.EQ:
        return lambda value, wanted: bool(value == wanted)
    raise InvalidArgumentError(f"Unknown filter operator {operator!r} on {part.key!r}.")


def _ordered(order: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    try:
        return bool(order(value, wanted))
    except TypeError:
        return False


def _holds(value: Any, one: Any) -> bool:
    if isinstance(value, str):
        return isinstance(one, str) and one in value
    return isinstance(value, (list, tuple, set, frozenset)) and one in value
