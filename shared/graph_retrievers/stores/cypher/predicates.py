"""Filters as Cypher predicates with parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.dates import DAY, is_date, moment
from graph_retrievers.graph.filters import as_metadata, dated_fields, not_dates
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.properties import property_value
from graph_retrievers.stores.cypher.schema import GraphSchema, quoted
from graph_retrievers.stores.filters import Predicate, PredicateBuilder, checked_filter, join_tests

_NODE_FIELDS = {"$id": "id", "$type": "type", "$title": "name"}
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def filter_predicate(schema: GraphSchema, condition: Any, name: str) -> Predicate:
    """Return a filter as a predicate, with `name` as the prefix of its parameters' names.

    The semantics are those of :func:`~graph_retrievers.graph.filters.filter_mask`: true equals 1, an absent field equals None,
    values of different kinds are neither equal nor ordered. Differences: a field counts as absent unless its value is a string, a
    boolean, a number or a list of one kind of these; tuples and sets are lists; ``$contains`` with anything but a string or a
    date searches lists only; dates are read where :func:`~graph_retrievers.stores.cypher.writer.write_graph` wrote them; and a
    filter cannot contain mappings (but name the path of a field inside them) and other objects, or compare lists by order.
    InvalidArgumentError for a callable or a mask, and for a key or a value that a query cannot contain.

    >>> predicate = filter_predicate(GraphSchema(), {"year": {"$gte": 1990}}, "filter")
    >>> predicate.on("n"), predicate.parameters
    ('((coalesce(CASE WHEN ... END >= $filter_0, false)))', {'filter_0': 1990})
    """
    return _Builder(schema, name).predicate(condition)


def check_dates(database: CypherDatabase, condition: Any, date_fields: set[str], scope: Predicate | None = None) -> None:
    """Raise InvalidArgumentError if a filter compares a field with dates, and no node of a scope has a date in this field.

    `date_fields` are the fields that are known to have dates, and new ones are added; each costs one round trip, once.
    """
    label, schema = database.schema.names()["label"], database.schema
    clause, values = ("", {}) if scope is None else (f" AND {scope.on('n')}", scope.parameters)

    def first_values(where: str, value: str) -> list[dict[str, Any]]:
        return database.read(f"MATCH (n:{label}) WHERE {where}{clause} RETURN n.{value} AS value LIMIT 1", **values)

    for key, operand in dated_fields(checked_filter(condition)).items():
        if key in date_fields:
            continue
        value, dates = schema.field(key), schema.instant(key)
        if dates is not None and first_values(f"n.{quoted(dates)} IS NOT NULL", value):
            date_fields.add(key)
        elif rows := first_values(f"n.{value} IS NOT NULL AND NOT coalesce(n.{value} IN [''], false)", value):
            raise InvalidArgumentError(
                f"{not_dates(key, operand, rows[0]['value'])} A database has the dates that write_graph wrote: write the graph "
                "again if an earlier version, or something else, wrote it."
            )


class _Builder(PredicateBuilder):
    """Writes a filter as Cypher."""

    def __init__(self, schema: GraphSchema, name: str) -> None:
        super().__init__(name)
        self.schema = schema

    def _tests(self, key: str, operators: Mapping[str, Any]) -> list[str]:
        value = self._value(key)
        return [self._test(key, value, operator, operand) for operator, operand in operators.items()]

    def _value(self, key: str) -> str:
        """Return the expression that reads a field of the node."""
        if key not in _NODE_FIELDS:
            return f"{{node}}.{self.schema.field(key)}"
        # As in hits, these are texts, empty where the node has none.
        return f"coalesce(toStringOrNull({{node}}.{self.schema.names()[_NODE_FIELDS[key]]}), '')"

    def _dates(self, key: str, *operands: Any) -> str | None:
        """Return the expression that reads the dates of a field; None if it cannot have any."""
        name = None if key in _NODE_FIELDS else self.schema.instant(key)
        if name is None and any(map(is_date, operands)):
            raise InvalidArgumentError(f"The filter compares {shown(key)} with a date, which it cannot have in a database.")
        return None if name is None else f"{{node}}.{quoted(name)}"

    def _test(self, key: str, value: str, operator: str, operand: Any) -> str:
        if operator in ("$eq", "$ne", "$in", "$nin"):
            test = self._among(key, value, operand if operator in ("$in", "$nin") else [operand])
            return f"NOT {test}" if operator in ("$ne", "$nin") else test
        if operator == "$exists":
            return f"({value} IS {'NOT ' if operand else ''}NULL)"
        if operator == "$contains":
            return self._contains(key, value, operand)
        return self._ordered(key, value, _SIGNS[operator], operand)

    def _among(self, key: str, value: str, operands: Iterable[Any]) -> str:
        """Return the test for one of several values; None stands for an absent field."""
        values = list(operands)
        forms = [form for item in values if item is not None and not is_date(item) for form in _forms(_comparable(key, item))]
        tests = [f"{value} IS NULL"] if any(item is None for item in values) else []
        if forms:
            tests.append(f"coalesce({value} IN {self._parameter(forms)}, false)")
        dates = self._dates(key, *values)
        periods = [] if dates is None else [period for item in values if (period := moment(item)) is not None]
        instants, days = (
            [period.first for period in periods if (period.after - period.first == DAY) == whole] for whole in (False, True)
        )
        if instants:
            tests.append(f"coalesce({dates} IN {self._parameter(instants)}, false)")
        if days:
            within = f"coalesce({dates} >= day AND {dates} < day + {DAY}, false)"
            tests.append(f"any(day IN {self._parameter(days)} WHERE {within})")
        return join_tests(tests, "OR")

    def _contains(self, key: str, value: str, operand: Any) -> str:
        if operand is None:
            return "false"
        dates, period = self._dates(key, operand), moment(operand)
        item = _scalar(key, operand if period is None else period.text)
        tests = [f"any(held IN {_items(value)} WHERE held IN {self._parameter(_forms(item))})"]
        text = isinstance(item, str) and not is_date(operand)
        fallback = f"coalesce({value} CONTAINS {self._parameter(item)}, false)" if text else "false"
        if dates is None or period is None:
            return join_tests([*tests, fallback], "OR")
        first, after = self._parameter(period.first), self._parameter(period.after)
        tests.append(f"any(held IN {_items(dates)} WHERE held >= {first} AND held < {after})")
        # Where a node has text that is not a date, texts are compared.
        within = f"coalesce({dates} >= {first} AND {dates} < {after}, false)"
        return join_tests([*tests, f"CASE WHEN {dates} IS NULL THEN {fallback} ELSE {within} END"], "OR")

    def _ordered(self, key: str, value: str, sign: str, operand: Any) -> str:
        if operand is None:
            return "false"
        dates, period = self._dates(key, operand), moment(operand)
        bound = _scalar(key, operand if period is None else period.text)
        if not isinstance(bound, str):
            # Python counts booleans among the numbers.
            bound = int(bound) if isinstance(bound, bool) else bound
            value = f"CASE WHEN {value} = true THEN 1 WHEN {value} = false THEN 0 ELSE {value} END"
        if dates is None or period is None:
            return f"coalesce({value} {sign} {self._parameter(bound)}, false)"
        # A value after a day is one from its end on.
        edge, sign_of_dates = (period.after, {">": ">=", "<=": "<"}[sign]) if sign in (">", "<=") else (period.first, sign)
        test = f"coalesce({dates} {sign_of_dates} {self._parameter(edge)}, false)"
        if is_date(operand):
            return test
        # Where a node has text that is not a date, texts are compared.
        return f"CASE WHEN {dates} IS NULL THEN coalesce({value} {sign} {self._parameter(bound)}, false) ELSE {test} END"

    def _parameter(self, value: Any) -> str:
        return f"${self._parameter_name(value)}"


def _items(value: str) -> str:
    """Return the expression for the items of a value that is a list, an empty list for others."""
    # An empty list plus a value is the value itself if that is a list. CASE turns null to an empty list: in ArcadeDB,
    # NOT coalesce(any(...), false) of null is false in WHERE.
    return f"CASE WHEN ([] + {value}) = {value} THEN {value} ELSE [] END"


def _comparable(key: str, value: Any) -> Any:
    # Bounds may be infinite, though properties are not.
    result = value if isinstance(value, float) else property_value(as_metadata(value))
    if result is None:
        raise InvalidArgumentError(
            f"The filter on {key!r} asks for {shown(value)}; in a database, fields are compared to strings, booleans, numbers of "
            "64 bits and lists of one kind of these."
        )
    return result


def _scalar(key: str, value: Any) -> Any:
    result = _comparable(key, value)
    if isinstance(result, list):
        raise InvalidArgumentError(f"The filter on {key!r} asks for {shown(value)}; a list is compared by $eq, $ne, $in and $nin.")
    return result


def _forms(value: Any) -> list[Any]:
    """Return what is equal to `value` in Python, as different values of a database: true is 1, and [true] is [1]."""
    items = value if isinstance(value, list) else [value]
    forms = [[int(item) if isinstance(item, bool) else item for item in items]]
    if items and all(not isinstance(item, str) and item in (0, 1) for item in items):
        forms.append([bool(item) for item in items])
    return forms if isinstance(value, list) else [form[0] for form in forms]
