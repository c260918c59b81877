"""Filters as Cypher predicates with parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.stores.cypher.properties import stored
from graph_retrievers.stores.cypher.schema import GraphSchema

__all__ = ["Predicate", "filter_predicate"]

_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


@dataclass(frozen=True)
class Predicate:
    """A condition on a node, as part of a query.

    `text` is Cypher that is true or false for every node, never null, with ``{node}`` for the node's variable; `parameters` are
    the values of its parameters.
    """

    text: str
    parameters: Mapping[str, Any]

    def on(self, node: str) -> str:
        """Return the condition on the node that the expression `node` refers to."""
        return self.text.replace("{node}", node)

    def __and__(self, other: Predicate | None) -> Predicate:
        """Return the condition that both hold; None always holds."""
        if other is None:
            return self
        return Predicate(f"({self.text} AND {other.text})", {**self.parameters, **other.parameters})


def filter_predicate(schema: GraphSchema, condition: Any, name: str) -> Predicate:
    """Return a filter as a predicate, with `name` as the prefix of its parameters' names.

    The semantics are those of :func:`~graph_retrievers.graph.filters.filter_mask`: true equals 1, an absent field equals None,
    values of different kinds are neither equal nor ordered. Differences: a field counts as absent unless its value is a string, a
    boolean, a number or a list of one kind of these; tuples and sets are lists; ``$contains`` with anything but a string searches
    lists only; and a filter cannot contain mappings, dates and other objects, or compare lists by order. InvalidArgumentError for a
    callable or a mask, and for a key or a value that a query cannot contain.

    >>> predicate = filter_predicate(GraphSchema(), {"year": {"$gte": 1990}}, "filter")
    >>> predicate.on("n"), predicate.parameters
    ('((coalesce(CASE WHEN ... END >= $filter_0, false)))', {'filter_0': 1990})
    """
    if callable(condition) or isinstance(condition, Tensor):
        kind = "mask" if isinstance(condition, Tensor) else "callable"
        raise InvalidArgumentError(
            f"{name} is a {kind}, which cannot be part of a query to a database; write it as a mapping, such as "
            '{"year": {"$gte": 1990}}.'
        )
    # Checks the condition; there are no nodes to filter.
    filter_mask(CorpusGraph([], []), condition)
    builder = _Builder(schema, name)
    return Predicate(builder.mapping(condition), builder.parameters)


class _Builder:
    """Writes one predicate and collects its parameters."""

    def __init__(self, schema: GraphSchema, name: str) -> None:
        self.schema, self.name = schema, name
        self.parameters: dict[str, Any] = {}

    def mapping(self, condition: Mapping[str, Any]) -> str:
        return _joined([self._entry(key, wanted) for key, wanted in condition.items()], "AND")

    def _entry(self, key: str, wanted: Any) -> str:
        if key in ("$and", "$or"):
            return _joined([self.mapping(part) for part in wanted], key[1:].upper())
        if key == "$not":
            return f"NOT {self.mapping(wanted)}"
        value = self._value(key)
        if not (isinstance(wanted, Mapping) and any(str(k).startswith("$") for k in wanted)):
            return self._among(key, value, [wanted])
        return _joined([self._test(key, value, operator, against) for operator, against in wanted.items()], "AND")

    def _value(self, key: str) -> str:
        """Return the expression that reads a field of the node."""
        own = {"$id": "id", "$type": "type", "$title": "name"}
        if key not in own:
            return f"{{node}}.{self.schema.field(key)}"
        # As in hits: text, empty where the node has none.
        return f"coalesce(toStringOrNull({{node}}.{self.schema.names()[own[key]]}), '')"

    def _test(self, key: str, value: str, operator: str, wanted: Any) -> str:
        if operator in ("$eq", "$ne", "$in", "$nin"):
            among = self._among(key, value, wanted if operator in ("$in", "$nin") else [wanted])
            return f"NOT {among}" if operator in ("$ne", "$nin") else among
        if operator == "$exists":
            return f"({value} IS {'NOT ' if wanted else ''}NULL)"
        if operator == "$contains":
            return self._contains(key, value, wanted)
        if operator in _SIGNS:
            return self._ordered(key, value, _SIGNS[operator], wanted)
        raise InvalidArgumentError(f"Filter operator {operator!r} on {key!r} cannot be asked of a database.")

    def _among(self, key: str, value: str, wanted: Iterable[Any]) -> str:
        """Return the test for one of several values; None stands for an absent field."""
        values = list(wanted)
        equal = [form for item in values if item is not None for form in _forms(_comparable(key, item))]
        tests = [f"{value} IS NULL"] if any(item is None for item in values) else []
        if equal:
            tests.append(f"coalesce({value} IN {self._parameter(equal)}, false)")
        return _joined(tests, "OR")

    def _contains(self, key: str, value: str, wanted: Any) -> str:
        if wanted is None:
            return "false"
        item = _scalar(key, wanted)
        # An empty list plus a value is the value itself if that is a list. CASE turns null to an empty list: in ArcadeDB,
        # NOT coalesce(any(...), false) of null is false in WHERE.
        items = f"CASE WHEN ([] + {value}) = {value} THEN {value} ELSE [] END"
        tests = [f"any(held IN {items} WHERE held IN {self._parameter(_forms(item))})"]
        if isinstance(item, str):
            tests.append(f"coalesce({value} CONTAINS {self._parameter(item)}, false)")
        return _joined(tests, "OR")

    def _ordered(self, key: str, value: str, sign: str, wanted: Any) -> str:
        if wanted is None:
            return "false"
        bound = _scalar(key, wanted)
        if not isinstance(bound, str):
            # Python counts booleans among the numbers.
            bound = int(bound) if isinstance(bound, bool) else bound
            value = f"CASE WHEN {value} = true THEN 1 WHEN {value} = false THEN 0 ELSE {value} END"
        return f"coalesce({value} {sign} {self._parameter(bound)}, false)"

    def _parameter(self, value: Any) -> str:
        name = f"{self.name}_{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"


def _joined(tests: list[str], word: str) -> str:
    """Return tests joined by AND or OR; of no tests, AND is true and OR is false."""
    return f"({f' {word} '.join(tests)})" if tests else "true" if word == "AND" else "false"


def _comparable(key: str, value: Any) -> Any:
    # Bounds may be infinite, though properties are not.
    found = value if isinstance(value, float) else stored(value)
    if found is None:
        raise InvalidArgumentError(
            f"The filter on {key!r} asks for {shown(value)}; in a database, fields are compared to strings, booleans, numbers of "
            "64 bits and lists of one kind of these."
        )
    return found


def _scalar(key: str, value: Any) -> Any:
    found = _comparable(key, value)
    if isinstance(found, list):
        raise InvalidArgumentError(f"The filter on {key!r} asks for {shown(value)}; a list is compared by $eq, $ne, $in and $nin.")
    return found


def _forms(value: Any) -> list[Any]:
    """Return what is equal to `value` in Python, as different values of a database: true is 1, and [true] is [1]."""
    items = value if isinstance(value, list) else [value]
    forms = [[int(item) if isinstance(item, bool) else item for item in items]]
    if items and all(not isinstance(item, str) and item in (0, 1) for item in items):
        forms.append([bool(item) for item in items])
    return forms if isinstance(value, list) else [form[0] for form in forms]
