"""Filters as SQL predicates with parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.dates import DAY, Moment, is_date, moment
from graph_retrievers.graph.filters import as_kept
from graph_retrievers.stores.filters import Predicate, PredicateBuilder, joined
from graph_retrievers.stores.postgres.values import comparable, encoded, sendable

_OWN = {"$id": "id", "$type": "type", "$title": "title"}
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

    def _tests(self, key: str, wanted: Mapping[str, Any]) -> list[str]:
        field = _Column(self, key) if key in _OWN else _Field(self, key)
        return [self._test(field, operator, against) for operator, against in wanted.items()]

    def _test(self, field: _Column | _Field, operator: str, wanted: Any) -> str:
        if operator in ("$ne", "$nin"):
            return f"NOT {self._test(field, '$eq' if operator == '$ne' else '$in', wanted)}"
        if operator == "$exists":
            return field.exists if wanted else f"(NOT {field.exists})"
        kept = as_kept(wanted)
        if operator == "$in":
            return field.among(wanted, list(kept))
        if operator == "$eq":
            return field.equal(wanted, kept)
        if operator == "$contains":
            return field.contains(wanted, kept)
        if isinstance(kept, list):
            raise InvalidArgumentError(
                f"The filter on {shown(field.key)} asks for {operator} of {shown(wanted)}; in a database, a list is compared by "
                "$eq, $ne, $in and $nin."
            )
        return field.ordered(_SIGNS[operator], wanted, kept)

    def parameter(self, value: Any, kind: str = "") -> str:
        """Return the place of a parameter, cast to a type of PostgreSQL."""
        return f"%({self._named(value)})s{kind and f'::{kind}'}"


class _Column:
    """The id, type or title of a node, which is a text."""

    exists = _TRUE

    def __init__(self, builder: _Builder, key: str) -> None:
        self.builder, self.key, self.text = builder, key, f"{{node}}.{_OWN[key]}"

    def among(self, wanted: Iterable[Any], kept: Sequence[Any]) -> str:
        texts = [encoded(each) for each in kept if isinstance(each, str) and sendable(each)]
        return f"({self.text} = ANY({self.builder.parameter(texts, 'text[]')}))" if texts else _FALSE

    def equal(self, wanted: Any, kept: Any) -> str:
        return self.among([wanted], [kept])

    def contains(self, wanted: Any, kept: Any) -> str:
        if not isinstance(kept, str) or not sendable(kept):
            return _FALSE
        return f"(strpos({self.text}, {self.builder.parameter(encoded(kept))}) > 0)"

    def ordered(self, sign: str, wanted: Any, kept: Any) -> str:
        if not isinstance(kept, str):
            return _FALSE
        return f'({self.text} {sign} {self.builder.parameter(_text(self.key, kept), "text")} COLLATE "C")'


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

    def among(self, wanted: Iterable[Any], kept: Sequence[Any]) -> str:
        tests = [f"(NOT {self.exists})"] if any(each is None for each in kept) else []
        asked = [found for each in wanted if (found := moment(each)) is not None]
        days = [each.first for each in asked if each.after - each.first == DAY]
        instants = [each.first for each in asked if each.after - each.first == 1]
        values = [text for each in kept if each is not None and (text := self._json(each)) is not None]
        if values:
            # The first is found by an index, and lists of other lengths pass it.
            held = self.builder.parameter([self._holding(value) for value in values], "jsonb[]")
            tests.append(f"({{node}}.fields @> ANY({held}) AND {self.value} = ANY({self.builder.parameter(values, 'jsonb[]')}))")
        date = f"{self.date}::bigint"
        if instants:
            tests.append(self._if_date(f"{date} = ANY({self.builder.parameter(instants, 'bigint[]')})", _FALSE))
        if days:
            # A remainder has the sign of what is divided.
            start = f"{date} - mod(mod({date}, {DAY}) + {DAY}, {DAY})"
            tests.append(self._if_date(f"({start}) = ANY({self.builder.parameter(days, 'bigint[]')})", _FALSE))
        return joined(tests, "OR")

    def equal(self, wanted: Any, kept: Any) -> str:
        asked = moment(wanted)
        return self.among([], [kept]) if asked is None else self._if_date(self._within(asked, self.date), _FALSE)

    def contains(self, wanted: Any, kept: Any) -> str:
        asked = moment(wanted)
        inside = _FALSE
        if isinstance(kept, str) and not is_date(wanted) and sendable(kept):
            inside = self._is("string", f"strpos({self.text}, {self.builder.parameter(encoded(kept))}) > 0")
        if asked is not None:
            dates = f"EXISTS (SELECT FROM jsonb_array_elements({self.date}) AS item WHERE {self._within(asked, 'item')})"
            otherwise = self._if_date(self._within(asked, self.date), inside)
            return f"CASE WHEN jsonb_typeof({self.value}) = 'array' THEN {self.date} IS NOT NULL AND {dates} ELSE {otherwise} END"
        item = self._json(kept)
        if item is None:
            return inside
        if isinstance(kept, (list, Mapping)):
            # What contains a list is not equal to it.
            same = f"item = {self.builder.parameter(item, 'jsonb')}"
            items = f"EXISTS (SELECT FROM jsonb_array_elements({self.value}) AS item WHERE {same})"
            return f"CASE WHEN jsonb_typeof({self.value}) = 'array' THEN {items} ELSE false END"
        held = f"({{node}}.fields @> {self.builder.parameter(self._holding(f'[{item}]'), 'jsonb')})"
        return joined([held, inside], "OR")

    def ordered(self, sign: str, wanted: Any, kept: Any) -> str:
        asked = moment(wanted)
        if asked is None:
            return self._plain_order(sign, kept)
        # After a day is from its end on.
        edge, than = (asked.after, {">": ">=", "<=": "<"}[sign]) if sign in (">", "<=") else (asked.first, sign)
        otherwise = _FALSE if is_date(wanted) else self._plain_order(sign, asked.text)
        return self._if_date(f"{self.date}::bigint {than} {self.builder.parameter(edge, 'bigint')}", otherwise)

    def _plain_order(self, sign: str, bound: Any) -> str:
        if isinstance(bound, str):
            return self._is("string", f'{self.text} {sign} {self.builder.parameter(_text(self.key, bound), "text")} COLLATE "C"')
        if not isinstance(bound, (int, float)) or bound != bound:
            self._json(bound)
            return _FALSE
        # Not math.isinf, which cannot read an integer of hundreds of digits.
        if bound in (math.inf, -math.inf):
            return self._is("number", _TRUE) if (bound > 0) == (sign[0] == "<") else _FALSE
        return self._is("number", f"{self.value} {sign} {self.builder.parameter(comparable(bound), 'jsonb')}")

    def _if_date(self, test: str, otherwise: str) -> str:
        return f"CASE WHEN jsonb_typeof({self.date}) = 'number' THEN {test} ELSE {otherwise} END"

    def _within(self, asked: Moment, date: str) -> str:
        first, after = self.builder.parameter(asked.first, "bigint"), self.builder.parameter(asked.after, "bigint")
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
