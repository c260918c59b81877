"""Filters before a database evaluates them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import filter_mask, flat_filter


@dataclass(frozen=True)
class Predicate:
    """A condition on a node, as part of a query.

    `text` is Cypher or SQL that is true or false for every node, never null, with ``{node}`` for the node's variable; `parameters`
    are the values of its parameters.
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


class PredicateBuilder(ABC):
    """Writes a filter as one predicate, which is true or false for every node, and collects its parameters.

    A subclass writes the conditions on one field. `name` is the prefix of the parameters' names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: dict[str, Any] = {}

    def predicate(self, condition: Any) -> Predicate:
        """Return a filter as a predicate; InvalidArgumentError if it is not a mapping, or not a valid one."""
        return Predicate(self._mapping(checked_filter(condition, self.name)), self.parameters)

    def _mapping(self, condition: Mapping[str, Any]) -> str:
        return join_tests([self._entry(key, operand) for key, operand in condition.items()], "AND")

    def _entry(self, key: str, operand: Any) -> str:
        if key in ("$and", "$or"):
            return join_tests([self._mapping(part) for part in operand], key[1:].upper())
        if key == "$not":
            return f"NOT {self._mapping(operand)}"
        has_operators = isinstance(operand, Mapping) and any(str(name).startswith("$") for name in operand)
        return join_tests(self._tests(key, operand if has_operators else {"$eq": operand}), "AND")

    @abstractmethod
    def _tests(self, key: str, operators: Mapping[str, Any]) -> list[str]:
        """Return the tests of a field, by their operators, such as ``{"$gte": 1990}``."""

    def _parameter_name(self, value: Any) -> str:
        """Return the name of a new parameter."""
        name = f"{self.name}_{len(self.parameters)}"
        self.parameters[name] = value
        return name


def join_tests(tests: Sequence[str], word: str) -> str:
    """Return tests joined by AND or OR; without tests, AND is true and OR is false.

    >>> join_tests(["a", "b"], "OR"), join_tests([], "AND")
    ('(a OR b)', 'true')
    """
    return f"({f' {word} '.join(tests)})" if tests else "true" if word == "AND" else "false"


def checked_filter(condition: Any, name: str = "filter") -> Mapping[str, Any]:
    """Return a filter with the paths of its fields; InvalidArgumentError if it is not a mapping, or not a valid one.

    >>> checked_filter({"a": {"b": {"$gt": 5}}})
    {'$and': [{'a.b': {'$gt': 5}}]}
    """
    if callable(condition) or isinstance(condition, Tensor):
        kind = "mask" if isinstance(condition, Tensor) else "callable"
        raise InvalidArgumentError(
            f"{name} is a {kind}, which cannot be part of a query to a database; write it as a mapping, such as "
            '{"year": {"$gte": 1990}}.'
        )
    # A graph without nodes is enough to check the filter.
    filter_mask(CorpusGraph([], []), condition)
    return flat_filter(condition)  # type: ignore[no-any-return]
