"""The passages, sentences and names that a call has fetched of an index in a database: the tri-graph of LinearRAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from torch.nn.functional import normalize

from graph_retrievers.signals.named_sentences import SentenceRows
from graph_retrievers.stores.remote.pages import SENTENCES, FetchedGraph


class StoredTriGraph:
    """The tri-graph of an index in a database, as :class:`~graph_retrievers.systems.linear_rag.tri_graph.TriGraph` is in memory.

    Entities have the numbers of their names in the store. In a walk, the number of a name is higher by N, the number of nodes.

    Parameters
    ----------
    pages : FetchedGraph
    types : tuple of str
        Types of passages; if it is empty, passages are all nodes with a text.

    Attributes
    ----------
    has_names : bool
        Whether there are names at all.
    """

    def __init__(self, pages: FetchedGraph, types: tuple[str, ...]) -> None:
        assert pages.sentence_store is not None
        self.pages, self.store, self.types = pages, pages.sentence_store, types
        self._near: dict[int, np.ndarray] = {}
        self._degrees: dict[int, int] = {}
        self._count, self.has_names = 0, False

    def numbers(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the entities of those of some keys that an entity has; then `has_names` is known."""
        numbers, self.has_names = self.pages.ask(SENTENCES, self.store.numbers, keys, self.types)
        return dict(numbers)

    def nearest(self, queries: Any, names: Sequence[str]) -> list[tuple[int, float]]:
        """Return for each of some names the entity whose name is most similar, -1 if there is none, and the cosine."""
        vectors = normalize(queries.embed(list(names)).double(), dim=1).float().cpu().numpy()
        return self.pages.ask(SENTENCES, self.store.nearest, vectors, self.types)

    def mentioning(self, queries: Any, requests: Sequence[tuple[int, np.ndarray]]) -> list[SentenceRows]:
        """Return the sentences that mention some entities for each question at a place, in the order of their passages."""
        vectors = queries.vectors.cpu().numpy()
        pairs = [(vectors[place], entities.tolist()) for place, entities in requests]
        lists = self.pages.ask(SENTENCES, self.store.sentences, pairs, self.types)
        self.pages.check_size(sum(map(len, lists)))
        results = []
        for sentences in lists:
            home, cosine = np.array([each.home for each in sentences], np.int64), np.array([each.cosine for each in sentences])
            owner = np.repeat(np.arange(len(sentences)), [len(each.names) for each in sentences])
            entities = np.array([name for each in sentences for name in each.names], np.int64)
            results.append(SentenceRows(home, cosine, owner, entities))
        return results

    def containing(self, requests: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the passages of some entities, which of these each contains, and how often, ordered by passage: each [C]."""
        entities = np.unique(np.concatenate(requests))
        _, containers = self.pages.ask(SENTENCES, self.store.mentions, (), entities.tolist(), self.types)
        self.pages.check_size(sum(map(len, containers.values())))
        self._keep([entity + self.pages.size for entity in entities.tolist()], {}, containers)
        none, results = np.zeros((0, 2), np.int64), []
        for own in requests:
            lists = [containers.get(entity, none) for entity in own.tolist()]
            table = np.concatenate([none, *lists])
            names = np.repeat(own, list(map(len, lists)))
            by = np.lexsort((names, table[:, 0]))
            results.append((table[by, 0], names[by], table[by, 1]))
        return results

    def spellings(self, entities: np.ndarray) -> list[str]:
        """Return the names of some entities, shape [n]."""
        if not len(entities):
            return []
        names = self.pages.ask(SENTENCES, self.store.spellings, entities.tolist())
        return [names[entity] for entity in entities.tolist()]

    def degree(self, numbers: np.ndarray) -> np.ndarray:
        """Return about how many neighbours each of some nodes of the walk has, shape [n]; 1 where it is not known."""
        return np.array([self._degrees.get(number, 1) for number in numbers.tolist()], np.int64)

    def neighbors(self, requests: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return what nodes of the walk lead to: for each the place of its node and its number, each [T], and of which nodes: [n].

        They are fetched in one round trip, as far as the limits of the call allow.
        """
        self._fetch(requests)
        results = []
        for numbers in requests:
            lists = [self._near.get(number) for number in numbers.tolist()]
            owner = np.repeat(np.arange(len(lists)), [0 if near is None else len(near) for near in lists])
            near = np.concatenate([np.zeros(0, np.int64), *(near for near in lists if near is not None)])
            results.append((owner, near, np.array([own is not None for own in lists], bool)))
        return results

    def _fetch(self, requests: Sequence[np.ndarray]) -> None:
        """Fetch the neighbours of nodes: of the first of each question, then of the second of each, and so on."""
        if not self.pages.goes_on(SENTENCES):
            return
        size, room, missing = self.pages.size, self.pages.most_further - self._count, list[int]()
        turns = zip_longest(*(numbers.tolist() for numbers in requests))
        for number in dict.fromkeys(number for turn in turns for number in turn if number is not None):
            degree = self._degrees.get(number, 1)
            if number not in self._near and degree <= room:
                room -= degree
                missing.append(number)
        if not missing:
            return
        passages = [number for number in missing if number < size]
        entities = [number - size for number in missing if number >= size]
        contents, containers = self.pages.ask(SENTENCES, self.store.mentions, passages, entities, self.types)
        self._keep(missing, contents, containers)

    def _keep(self, numbers: Sequence[int], contents: Mapping[int, np.ndarray], containers: Mapping[int, np.ndarray]) -> None:
        """Keep what nodes of the walk lead to: the names in passages, each with its degree, and the passages of names."""
        size = self.pages.size
        self._near.update(dict.fromkeys(numbers, np.zeros(0, np.int64)))
        for passage, table in contents.items():
            names = table[:, 0] + size
            self._near[passage] = names
            self._degrees.update(zip(names.tolist(), table[:, 1].tolist(), strict=True))
        self._near.update((entity + size, table[:, 0]) for entity, table in containers.items())
        self._count += sum(map(len, (*contents.values(), *containers.values())))
