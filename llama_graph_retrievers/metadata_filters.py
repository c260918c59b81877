"""LlamaIndex metadata filters as filter mappings of the engine."""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import Filter
from graph_retrievers.graph.nested import look_up

# The engine reads a missing field as None and answers as LlamaIndex does: it satisfies != and nin, and no other operator here.
_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
    FilterOperator.TEXT_MATCH: "$contains",
}
_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_TEXTS = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)


def engine_filter(filters: MetadataFilters | Filter, graph: CorpusGraph | None = None) -> Filter:
    """Return filters in the form that every engine retriever reads, in which they decide as LlamaIndex' own filter function.

    Where that function raises, the answer is False: a value of a type that cannot be compared does not match. ``not`` means that
    none of the parts may be true. `graph` has the nodes to be filtered, where they are in memory: ``text_match_insensitive`` is
    evaluated on them, for want of a filter mapping that says the same.

    >>> late = MetadataFilter(key="year", operator=">=", value=1900)
    >>> war = MetadataFilter(key="tags", operator="any", value=["war", "peace"])
    >>> engine_filter(MetadataFilters(filters=[late, war]))
    {'$and': [{'year': {'$gte': 1900}}, {'$or': [{'tags': {'$contains': 'war'}}, {'tags': {'$contains': 'peace'}}]}]}
    """
    return _group(filters, graph) if isinstance(filters, MetadataFilters) else filters


def _group(filters: MetadataFilters, graph: CorpusGraph | None) -> dict[str, Any]:
    parts = [_group(part, graph) if isinstance(part, MetadataFilters) else _clause(part, graph) for part in filters.filters]
    if not parts:
        return {}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts}


def _clause(part: MetadataFilter, graph: CorpusGraph | None) -> dict[str, Any]:
    key, operator, value = part.key, part.operator, part.value
    if operator in _LISTS and not isinstance(value, list):
        raise InvalidArgumentError(f"Filter {operator.value!r} on {key!r} takes a list, got {shown(value)}.")
    if operator in _TEXTS and not isinstance(value, str):
        raise InvalidArgumentError(f"Filter {operator.value!r} on {key!r} takes a string, got {shown(value)}.")
    if operator == FilterOperator.IS_EMPTY:
        return {"$or": [{key: {"$exists": False}}, {key: {"$in": ["", []]}}]}
    if operator == FilterOperator.TEXT_MATCH_INSENSITIVE:
        return _insensitive(key, str(value), graph)
    if operator in (FilterOperator.ANY, FilterOperator.ALL):
        conditions = [{key: {"$contains": one}} for one in value]  # type: ignore[union-attr]
        return {"$or": conditions} if operator == FilterOperator.ANY else {"$and": [{key: {"$exists": True}}, *conditions]}
    if operator not in _OPERATORS:
        raise InvalidArgumentError(f"Unknown filter operator {operator!r} on {key!r}.")
    if value is None and operator in (FilterOperator.EQ, FilterOperator.NE):
        # None equals no field, not even one that is missing.
        return {key: {"$in" if operator == FilterOperator.EQ else "$nin": []}}
    return {key: {_OPERATORS[operator]: value}}


def _insensitive(key: str, text: str, graph: CorpusGraph | None) -> dict[str, Any]:
    """Return the nodes whose field contains a text, ignoring case."""
    if graph is None:
        raise InvalidArgumentError(
            f"Filter 'text_match_insensitive' on {key!r} works on an index in memory only; for this retriever use 'text_match', "
            "or pass a filter that it reads itself."
        )
    values = ((node, look_up(metadata, key)) for node, metadata in zip(graph.ids, graph.metadata, strict=True))
    return {"$id": {"$in": {node for node, value in values if isinstance(value, str) and text.lower() in value.lower()}}}
