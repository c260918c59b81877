"""Filters before a database evaluates them."""

from __future__ import annotations

from collections.abc import Mapping
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
    # There are no nodes to filter.
    filter_mask(CorpusGraph([], []), condition)
    return flat_filter(condition)  # type: ignore[no-any-return]
