"""Requests for the tri-graph of LinearRAG, and what answers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from graph_retrievers.core.requests import Request
from graph_retrievers.signals.entities import EntityExtractor, entity_key, found_names
from graph_retrievers.signals.named_sentences import SentenceRows
from graph_retrievers.systems.spreading.linking import named_entities

__all__ = ["ContainingPassages", "EntityMatches", "EntityNames", "MentioningSentences"]


class AnyTriGraph(Protocol):
    """The tri-graph in memory (:class:`~graph_retrievers.systems.linear_rag.tri_graph.TriGraph`), or what a call fetches of one."""

    @property
    def has_names(self) -> bool:
        """Whether there are names at all."""

    def numbers(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the entities of those of some keys that an entity has."""

    def nearest(self, queries: Any, names: Sequence[str]) -> list[tuple[int, float]]:
        """Return for each of some names the entity whose name is most similar, -1 if there is none, and the cosine."""

    def mentioning(self, queries: Any, requests: Sequence[tuple[int, np.ndarray]]) -> list[SentenceRows]:
        """Return the sentences that mention some entities, ascending, for each question at a place."""

    def containing(self, requests: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the passages of some entities, which of these each contains, and how often, ordered by passage: each [C]."""

    def spellings(self, entities: np.ndarray) -> list[str]:
        """Return the names of some entities, shape [n]."""


class FetchedTriGraph(AnyTriGraph, Protocol):
    """What a call fetches of a tri-graph in a database: :class:`~graph_retrievers.stores.remote.tri_graph.StoredTriGraph`."""

    types: tuple[str, ...]

    def degree(self, numbers: np.ndarray) -> np.ndarray:
        """Return about how many neighbours each of some nodes of the walk has, shape [n]."""

    def neighbors(self, requests: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the answers of :class:`PassagesAndNames`, as far as the limits of the call allow."""


@dataclass(frozen=True, eq=False)
class EntityMatches(Request):
    """The entities of the tri-graph that are most similar to those of the question: ``(entities [n], cosines [n])``, distinct."""

    reads = "signals"
    shared = ("tri", "extractor")
    tri: AnyTriGraph
    extractor: EntityExtractor

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, EntityMatches]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Find the names of all questions; names that no entity has are matched by their vectors, in one search."""
        queries, tri, extractor = backend.queries, requests[0][1].tri, requests[0][1].extractor
        inputs = named_entities(queries.input("entities"), queries.texts)
        name_lists = found_names(extractor, [queries.texts[place] for place, _ in requests])
        names = [
            entities if inputs[place][0] is None else inputs[place][0]
            for (place, _), entities in zip(requests, name_lists, strict=True)
        ]
        distinct = list(dict.fromkeys(name for mentions in names for name in mentions or ()))
        numbers = tri.numbers([entity_key(name) for name in distinct])
        matches = {name: (numbers[entity_key(name)], 1.0) for name in distinct if entity_key(name) in numbers}
        other = [name for name in distinct if name not in matches]
        if other and queries.index.embedding is not None:
            matches |= zip(other, tri.nearest(queries, other), strict=True)
        answers = []
        for mentions in names:
            best = dict[int, float]()
            for entity, cosine in (matches[name] for name in mentions or () if name in matches):
                if entity >= 0 and cosine > 0:
                    best[entity] = max(cosine, best.get(entity, 0.0))
            entities = sorted(best)
            answers.append((np.array(entities, np.int64), np.array([best[entity] for entity in entities])))
        return answers


@dataclass(frozen=True, eq=False)
class MentioningSentences(Request):
    """The sentences of the tri-graph that mention some entities, shape [n], with their cosines with the question: SentenceRows."""

    reads = "signals"
    shared = ("tri",)
    tri: AnyTriGraph
    entities: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, MentioningSentences]]) -> list[SentenceRows]:
        """Return the sentences of all questions."""
        pairs = [(place, request.entities) for place, request in requests]
        return requests[0][1].tri.mentioning(backend.queries, pairs)


@dataclass(frozen=True, eq=False)
class ContainingPassages(Request):
    """The passages that contain some entities, shape [n]: rows, entities and counts, each of shape [C], ordered by row."""

    reads = "graph"
    shared = ("tri",)
    tri: AnyTriGraph
    entities: np.ndarray

    @classmethod
    def together(
        cls, backend: Any, requests: Sequence[tuple[int, ContainingPassages]]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the passages of all questions."""
        return requests[0][1].tri.containing([request.entities for _, request in requests])


@dataclass(frozen=True, eq=False)
class EntityNames(Request):
    """The names of some entities, shape [n]: list of str."""

    shared = ("tri",)
    tri: AnyTriGraph
    entities: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, EntityNames]]) -> list[list[str]]:
        """Return the names."""
        return [request.tri.spellings(request.entities) for _, request in requests]


@dataclass(frozen=True, eq=False)
class PassagesAndNames(Request):
    """What nodes of the walk, shape [n], lead to in a database: the names in a passage, and the passages of a name.

    The number of a name is higher by N than that of its entity. The answer has the place of each neighbour's node in `numbers`
    and the neighbours, each [T], and of which nodes these are: bool, shape [n].
    """

    reads = "graph"
    shared = ("tri",)
    tri: FetchedTriGraph
    numbers: np.ndarray

    @classmethod
    def together(
        cls, backend: Any, requests: Sequence[tuple[int, PassagesAndNames]]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the neighbours of all questions, as far as the limits of the call allow."""
        return requests[0][1].tri.neighbors([request.numbers for _, request in requests])
