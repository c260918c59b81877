"""Passages, sentences and entities: the tri-graph of LinearRAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.cache import Cache, Identity
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import slices
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.entities import EntityExtractor, entity_key, found_names
from graph_retrievers.signals.named_sentences import SentenceRows, passage_names
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems.pagerank import TransitionGraph


@dataclass(frozen=True, eq=False)
class TriGraph:
    """The tri-graph of P passages, S sentences and E entities; created by :func:`tri_graph`.

    A sentence that mentions fewer than two entities connects none, and is left out. `passages`, shape [N], bool, says which nodes
    are passages. `names` has the first spelling of each entity, `number` its number by its key
    (:func:`~graph_retrievers.signals.entities.entity_key`), and `home`, shape [S], the row of the passage of each sentence.
    `entities` and `mentions` are the mention matrix M as lists: the entities of each sentence, and the sentences of each entity,
    each as ``indptr`` and the array into which it points. `containers`, `contents` and `counts`, shape [C], are the contain matrix
    C: rows of passages, entities that they contain, and how often, ordered by passage. All numbers are int64. `cache` has the
    vectors of names and of sentences, by the model.
    """

    passages: Tensor
    names: list[str]
    number: dict[str, int]
    sentences: list[str]
    home: np.ndarray
    entities: tuple[np.ndarray, np.ndarray]
    mentions: tuple[np.ndarray, np.ndarray]
    containers: np.ndarray
    contents: np.ndarray
    counts: np.ndarray
    cache: Cache

    @property
    def has_names(self) -> bool:
        """Whether there are names at all."""
        return bool(self.names)

    def numbers(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the entities of those of some keys that an entity has."""
        return {key: self.number[key] for key in keys if key in self.number}

    def nearest(self, queries: Any, names: Sequence[str]) -> list[tuple[int, float]]:
        """Return for each of some names the entity whose name is most similar, and the cosine."""
        if not self.names:
            return [(-1, 0.0)] * len(names)
        vectors = normalize(queries.embed(list(names)).double(), dim=1)
        cosines, rows = self._vectors(queries, "names").search(vectors.float(), 1)
        return list(zip(rows[:, 0].tolist(), cosines[:, 0].tolist(), strict=True))

    def mentioning(self, queries: Any, requests: Sequence[tuple[int, np.ndarray]]) -> list[SentenceRows]:
        """Return the sentences that mention some entities, ascending, for each question at a place."""
        return [self._mentioning(queries, place, entities) for place, entities in requests]

    def _mentioning(self, queries: Any, place: int, entities: np.ndarray) -> SentenceRows:
        rows = np.unique(self.mentions[1][slices(self.mentions[0], entities)[1]])
        owner, entry = slices(self.entities[0], rows)
        cosines = np.zeros(len(rows))
        if queries.index.embedding is not None and len(rows):
            table = self._vectors(queries, "sentences").vectors
            vectors = table[torch.from_numpy(rows).to(table.device)].double()
            cosines = (vectors @ normalize(queries.vectors[place].double(), dim=0)).cpu().numpy()
        return SentenceRows(self.home[rows], cosines, owner, self.entities[1][entry])

    def containing(self, requests: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the passages of some entities, which of these each contains, and how often, ordered by passage: each [C]."""
        results = []
        for entities in requests:
            mask = np.zeros(len(self.names), bool)
            mask[entities] = True
            entry = np.flatnonzero(mask[self.contents])
            results.append((self.containers[entry], self.contents[entry], self.counts[entry]))
        return results

    def spellings(self, entities: np.ndarray) -> list[str]:
        """Return the names of some entities, shape [n]."""
        return [self.names[entity] for entity in entities.tolist()]

    def _vectors(self, queries: Any, texts: str) -> DenseIndex:
        """Return the unit vectors of the names or the sentences; made once for a model."""
        model, device = queries.index.embedding, self.passages.device

        def make() -> DenseIndex:
            return DenseIndex(embed_corpus(model, getattr(self, texts)), device=device, metric="cosine")

        return self.cache.get((texts, Identity(model)), make)  # type: ignore[no-any-return]

    def walk(self, allowed: Tensor | None) -> TransitionGraph:
        """Return the graph of passages and entities, whose nodes are the rows of the graph, followed by the entities."""
        size, device = len(self.passages), self.passages.device
        near, far = torch.from_numpy(self.containers).to(device), torch.from_numpy(self.contents).to(device) + size
        weights = torch.ones(len(near), dtype=torch.float64, device=device)
        mask = None if allowed is None else torch.nn.functional.pad(allowed, (0, len(self.names)), value=True)
        return TransitionGraph.of_edges(size + len(self.names), near, far, weights, mask)


def tri_graph(graph: CorpusGraph, extractor: EntityExtractor, passage_type: str) -> TriGraph:
    """Return the tri-graph of the texts of a graph; computed once for a graph and an extractor.

    Passages are the nodes of the type, or all nodes with a text if no node has it. An entity is in each sentence of a passage
    that contains its name, if the extractor found the name anywhere in this passage, and the title of a passage in all of them
    (:func:`~graph_retrievers.signals.named_sentences.passage_names`).
    """
    return graph.cache.get(("tri-graph", extractor, passage_type), lambda: _make(graph, extractor, passage_type))


def _make(graph: CorpusGraph, extractor: EntityExtractor, passage_type: str) -> TriGraph:
    typed = passage_type in graph.type_names
    rows = [row for row, text in enumerate(graph.texts) if text.strip() and (not typed or graph.types[row] == passage_type)]
    number, names, texts, home = dict[str, int](), list[str](), list[str](), list[int]()
    mentions, triples = list[list[int]](), list[tuple[int, int, int]]()
    for row, spellings in zip(rows, found_names(extractor, [graph.texts[row] for row in rows]), strict=True):
        passage = passage_names(graph.texts[row], graph.titles[row], spellings)
        numbers = [_number(name, number, names) for name in passage.names]
        for sentence, places in passage.sentences:
            texts.append(sentence)
            home.append(row)
            mentions.append([numbers[place] for place in places])
        triples += zip([row] * len(numbers), numbers, passage.counts, strict=True)
    passages = torch.zeros(len(graph), dtype=torch.bool)
    passages[rows] = True
    containers, contents, counts = np.ascontiguousarray(np.array(triples, np.int64).reshape(-1, 3).T)
    lists, device = _lists(mentions, len(names)), graph.device
    homes = np.array(home, np.int64)
    return TriGraph(passages.to(device), names, number, texts, homes, *lists, containers, contents, counts, Cache())


def _number(name: str, number: dict[str, int], names: list[str]) -> int:
    """Return the number of the entity with a name, which is a new one for a new key."""
    entity = number.setdefault(entity_key(name), len(names))
    if entity == len(names):
        names.append(name)
    return entity


def _lists(rows: Sequence[Sequence[int]], columns: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return a 0-1 matrix, given by the columns of each row, as lists by row and by column."""
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    entries = np.array([column for row in rows for column in row], np.int64)
    by = np.argsort(entries, kind="stable")
    row_counts, column_counts = (np.bincount(part, minlength=size) for part, size in ((owner, len(rows)), (entries, columns)))
    return (np.append(0, row_counts.cumsum()), entries), (np.append(0, column_counts.cumsum()), owner[by])
