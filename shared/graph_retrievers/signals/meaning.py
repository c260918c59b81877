"""Meaning graphs: the concepts of a text and how they are related, and the interface of parsers that find them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["MeaningGraph", "MeaningParser"]


@dataclass(frozen=True)
class MeaningGraph:
    """Concepts of a text and the relations between them, such as an Abstract Meaning Representation (AMR).

    Attributes
    ----------
    concepts : tuple of str
        Label of each node. Labels may repeat. A graph without concepts represents a text that could not be parsed.
    relations : tuple of (int, str, int)
        Source node, role and target node of each directed edge.

    Examples
    --------
    >>> graph = MeaningGraph.of(["write-01", "Ada", "program"], [(0, "ARG0", 1), (0, "ARG1", 2)])
    >>> graph.labelled_relations()[0]
    ('write-01', 'ARG0', 'Ada')
    """

    concepts: tuple[str, ...] = ()
    relations: tuple[tuple[int, str, int], ...] = ()

    @classmethod
    def of(cls, concepts: Iterable[Any], relations: Iterable[Sequence[Any]]) -> MeaningGraph:
        """Return a graph from lists; relations of missing nodes, as in truncated graphs, are left out."""
        for name, value in (("concepts", concepts), ("relations", relations)):
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise InvalidArgumentError(f"{name} must be a list, got {shown(value)}.")
        labels = tuple(map(str, concepts))
        triples = []
        for relation in relations:
            try:
                source, role, target = relation
                source, target = index(source), index(target)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(
                    f"A relation is {shown(relation)}; expected the number of its source, its role and the number of its target."
                ) from error
            if 0 <= source < len(labels) and 0 <= target < len(labels):
                triples.append((source, str(role), target))
        return cls(labels, tuple(triples))

    def check(self) -> None:
        """Raise InvalidArgumentError if a concept is not a string, or a relation has a missing node."""
        rows = range(len(self.concepts))
        try:
            valid = isinstance(self.concepts, tuple) and all(isinstance(concept, str) for concept in self.concepts)
            for source, role, target in self.relations:
                valid = valid and isinstance(role, str) and index(source) in rows and index(target) in rows
        except (TypeError, ValueError):
            valid = False
        if not valid:
            raise InvalidArgumentError(f"{shown(self, 200)} is not valid; make graphs with MeaningGraph.of(concepts, relations).")

    def labelled_relations(self) -> tuple[tuple[str, str, str], ...]:
        """Return the relations with the concepts of source and target instead of their numbers."""
        return tuple((self.concepts[source], role, self.concepts[target]) for source, role, target in self.relations)


@runtime_checkable
class MeaningParser(Protocol):
    """The interface that the package needs of a parser.

    Examples
    --------
    >>> class Words:
    ...     name = "words"
    ...
    ...     def parse(self, texts):
    ...         return [MeaningGraph.of(text.split(), []) for text in texts]
    >>> isinstance(Words(), MeaningParser)
    True
    """

    @property
    def name(self) -> str:
        """Name that distinguishes parsers with different graphs."""

    def parse(self, texts: Sequence[str]) -> list[MeaningGraph]:
        """Return the graph of each text; an empty graph for a text that cannot be parsed."""
