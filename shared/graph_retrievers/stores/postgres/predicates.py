"""Filters as SQL predicates with parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.dates import DAY, Moment, is_date, moment
from graph_retrievers.graph.filters import as_metadata
from graph_retrievers.stores.filters import Predicate, PredicateBuilder, join_tests
from graph_retrievers.stores.postgres.values import comparable, encoded, sendable

_NODE_FIELDS = {"$id": "id", "$type": "type", "$title": "title"}
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_TRUE, _FALSE = "true", "false"


def filter_predicate(condition: Any, name: str = "filter") -> Predicate:
    """Return a filter as a predicate on a row of ``nodes``, with `name` as the prefix of its parameters' names.

    The semantics are those of :func:`~graph_retrievers.graph.filters.filter_mask`, except that lists are not compared by order, and
    that values are those of JSON: InvalidArgumentError for others, for a callable and for a mask. Values and the names of fields
    are parameters.

    >>> predicate = filter_predicate({"year": {"$gte": 1990}})
    >>> predicate.on("n")
    "((((n.fields -> %(filter_0)s::text) IS NOT NULL AND ... >= %(filter_1)s::jsonb)))"
    >>> predicate.parameters
    {'filter_0': 'year', 'filter_1': '1990'}
    """
    return _Builder(name).predicate(condition)


class _Builder(PredicateBuilder):
    """Writes a filter as SQL."""

    def _tests(self, key: str, operators: Mapping[str, Any]) -> list[str]:
        field = _Column(self, key) if key in _NODE_FIELDS else _Field(self, key)
        return [self._test(field, operator, operand) for operator, operand in operators.items()]

    def _test(self, field: _Column | _Field, operator: str, operand: Any) -> str:
        if operator in ("$ne", "$nin"):
            return f"NOT {self._test(field, '$eq' if operator == '$ne' else '$in', operand)}"
        if operator == "$exists":
            return field.exists if operand else f"(NOT {field.exists})"
        value = as_metadata(operand)
        if operator == "$in":
            return field.among(operand, list(value))
        if operator == "$eq":
            return field.equal(operand, value)
        if operator == "$contains":
            return field.contains(operand, value)
        if isinstance(value, list):
            raise InvalidArgumentError(
                f"The filter on {shown(field.key)} asks for {operator} of {shown(operand)}; in a database, a list is compared by "
                "$eq, $ne, $in and $nin."
            )
        return field.ordered(_SIGNS[operator], operand, value)

    def parameter(self, value: Any, kind: str = "") -> str:
        """Return the place of a parameter, cast to a type of PostgreSQL."""
        return f"%({self._parameter_name(value)})s{kind and f'::{kind}'}"


class _Column:
    """The id, type or title of a node, which is a text."""

    exists = _TRUE

    def __init__(self, builder: _Builder, key: str) -> None:
        self.builder, self.key, self.text = builder, key, f"{{node}}.{_NODE_FIELDS[key]}"

    def among(self, operands: Iterable[Any], items: Sequence[Any]) -> str:
        texts = [encoded(item) for item in items if isinstance(item, str) and sendable(item)]
        return f"({self.text} = ANY({self.builder.parameter(texts, 'text[]')}))" if texts else _FALSE

    def equal(self, operand: Any, value: Any) -> str:
        return self.among([operand], [value])

    def contains(self, operand: Any, value: Any) -> str:
        if not isinstance(value, str) or not sendable(value):
            return _FALSE
        return f"(strpos({self.text}, {self.builder.parameter(encoded(value))}) > 0)"

    def ordered(self, sign: str, operand: Any, value: Any) -> str:
        if not isinstance(value, str):
            return _FALSE
        return f'({self.text} {sign} {self.builder.parameter(_text(self.key, value), "text")} COLLATE "C")'


class _Field:
    """A metadata field, as ``fields`` and ``dates`` have it; see :mod:`graph_retrievers.stores.postgres.values`."""

    def __init__(self, builder: _Builder, key: str) -> None:
        self.builder, self.key = builder, key
        self.name = builder.parameter(_text(key, key), "text")
        self.value, self.date = f"({{node}}.fields -> {self.name})", f"({{node}}.dates -> {self.name})"
        self.exists = f"({self.value} IS NOT NULL)"
        self.text = f"({{node}}.fields ->> {self.name})"

    def _is(self, kind: str, test: str, value: str = "") -> str:
        """Return that the value is of a kind of JSON and passes a test."""
        value = value or self.value
        return f"({value} IS NOT NULL AND jsonb_typeof({value}) = '{kind}' AND {test})"

    def among(self, operands: Iterable[Any], items: Sequence[Any]) -> str:
        tests = [f"(NOT {self.exists})"] if any(item is None for item in items) else []
        periods = [period for item in operands if (period := moment(item)) is not None]
        days = [item.first for item in periods if item.after - item.first == DAY]
        instants = [item.first for item in periods if item.after - item.first == 1]
        values = [text for item in items if item is not None and (text := self._json(item)) is not None]
        if values:
            # The first test is answered by an index, but lets lists of other lengths pass.
            containers = self.builder.parameter([self._holding(value) for value in values], "jsonb[]")
            tests.append(
                f"({{node}}.fields @> ANY({containers}) AND {self.value} = ANY({self.builder.parameter(values, 'jsonb[]')}))"
            )
        date = f"{self.date}::bigint"
        if instants:
            tests.append(self._if_date(f"{date} = ANY({self.builder.parameter(instants, 'bigint[]')})", _FALSE))
        if days:
            # A remainder has the sign of the dividend.
            start = f"{date} - mod(mod({date}, {DAY}) + {DAY}, {DAY})"
            tests.append(self._if_date(f"({start}) = ANY({self.builder.parameter(days, 'bigint[]')})", _FALSE))
        return join_tests(tests, "OR")

    def equal(self, operand: Any, value: Any) -> str:
        period = moment(operand)
        return self.among([], [value]) if period is None else self._if_date(self._within(period, self.date), _FALSE)

    def contains(self, operand: Any, value: Any) -> str:
        period = moment(operand)
        text_test = _FALSE
        if isinstance(value, str) and not is_date(operand) and sendable(value):
            text_test = self._is("string", f"strpos({self.text}, {self.builder.parameter(encoded(value))}) > 0")
        if period is not None:
            dates = f"EXISTS (SELECT FROM jsonb_array_elements({self.date}) AS item WHERE {self._within(period, 'item')})"
            fallback = self._if_date(self._within(period, self.date), text_test)
            return f"CASE WHEN jsonb_typeof({self.value}) = 'array' THEN {self.date} IS NOT NULL AND {dates} ELSE {fallback} END"
        item = self._json(value)
        if item is None:
            return text_test
        if isinstance(value, (list, Mapping)):
            # jsonb's containment is not enough: a list also contains lists that are not equal to one of its items.
            condition = f"item = {self.builder.parameter(item, 'jsonb')}"
            items = f"EXISTS (SELECT FROM jsonb_array_elements({self.value}) AS item WHERE {condition})"
            return f"CASE WHEN jsonb_typeof({self.value}) = 'array' THEN {items} ELSE false END"
        test = f"({{node}}.fields @> {self.builder.parameter(self._holding(f'[{item}]'), 'jsonb')})"
        return join_tests([test, text_test], "OR")

    def ordered(self, sign: str, operand: Any, value: Any) -> str:
        period = moment(operand)
        if period is None:
            return self._plain_order(sign, value)
        # A value after a day is one from its end on.
        edge, comparison = (period.after, {">": ">=", "<=": "<"}[sign]) if sign in (">", "<=") else (period.first, sign)
        fallback = _FALSE if is_date(operand) else self._plain_order(sign, period.text)
        return self._if_date(f"{self.date}::bigint {comparison} {self.builder.parameter(edge, 'bigint')}", fallback)

    def _plain_order(self, sign: str, bound: Any) -> str:
        if isinstance(bound, str):
            return self._is("string", f'{self.text} {sign} {self.builder.parameter(_text(self.key, bound), "text")} COLLATE "C"')
        if not isinstance(bound, (int, float)) or bound != bound:
            self._json(bound)
            return _FALSE
        # math.isinf cannot read an integer of hundreds of digits.
        if bound in (math.inf, -math.inf):
            return self._is("number", _TRUE) if (bound > 0) == (sign[0] == "<") else _FALSE
        return self._is("number", f"{self.value} {sign} {self.builder.parameter(comparable(bound), 'jsonb')}")

    def _if_date(self, test: str, fallback: str) -> str:
        return f"CASE WHEN jsonb_typeof({self.date}) = 'number' THEN {test} ELSE {fallback} END"

    def _within(self, period: Moment, date: str) -> str:
        first, after = self.builder.parameter(period.first, "bigint"), self.builder.parameter(period.after, "bigint")
        return f"({date}::bigint >= {first} AND {date}::bigint < {after})"

    def _holding(self, value: str) -> str:
        """Return the JSON of a mapping that has a value, as JSON, in this field."""
        return f"{{{comparable(self.key)}: {value}}}"

    def _json(self, value: Any) -> str | None:
        """Return a value as JSON; None if no value of a node can be equal to it."""
        try:
            return comparable(value)
        except (ValueError, RecursionError):
            return None
        except TypeError as error:
            raise InvalidArgumentError(
                f"The filter on {shown(self.key)} asks for {shown(value)}; in a database, fields are compared to strings, "
                "booleans, numbers, dates, lists and mappings of these."
            ) from error


def _text(key: str, value: str) -> str:
    """Return a text as a node has it; InvalidArgumentError if it cannot be sent."""
    if not sendable(value):
        raise InvalidArgumentError(f"The filter on {shown(key)} has {shown(value)}, which is not valid Unicode; decode it again.")
    return encoded(value)
