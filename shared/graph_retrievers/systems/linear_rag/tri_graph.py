"""Passages, sentences and entities: the tri-graph of LinearRAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import NameTable
from graph_retrievers.graph.sentences import sentences
from graph_retrievers.search.memory import slices
from graph_retrievers.signals.entities import EntityExtractor, entity_key
from graph_retrievers.systems.pagerank import TransitionGraph


@dataclass(frozen=True, eq=False)
class TriGraph:
    """The tri-graph of P passages, S sentences and E entities; created by :func:`tri_graph`.

    A sentence that mentions fewer than two entities connects none, and is left out. `passages`, shape [N], bool, says which nodes
    are passages. `names` has the first spelling of each entity, `number` its number by its key
    (:func:`~graph_retrievers.signals.entities.entity_key`), and `home`, shape [S], the row of the passage of each sentence.
    `entities` and `mentions` are the mention matrix M as lists: the entities of each sentence, and the sentences of each entity,
    each as ``indptr`` and the array into which it points. `containers`, `contents` and `counts`, shape [C], are the contain matrix
    C: rows of passages, entities that they contain, and how often, ordered by passage. All numbers are int64.
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

    def entities_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for sentences, shape [n], the place of each and the entities that it mentions: both [T]."""
        owner, entry = slices(self.entities[0], rows)
        return owner, self.entities[1][entry]

    def sentences_of(self, entities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for entities, shape [n], the place of each and the sentences that mention it: both [T]."""
        owner, entry = slices(self.mentions[0], entities)
        return owner, self.mentions[1][entry]

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
    that contains its name, if the extractor found the name anywhere in this passage. The title of a passage is an entity too, and
    in all of its sentences, because they are about it; a sentence without this name is embedded with the title in front.
    """
    return graph.cache.get(("tri-graph", extractor, passage_type), lambda: _make(graph, extractor, passage_type))


def _make(graph: CorpusGraph, extractor: EntityExtractor, passage_type: str) -> TriGraph:
    typed = passage_type in graph.type_names
    rows = [row for row, text in enumerate(graph.texts) if text.strip() and (not typed or graph.types[row] == passage_type)]
    number, names, texts, home = dict[str, int](), list[str](), list[str](), list[int]()
    mentions, triples = list[list[int]](), list[tuple[int, int, int]]()
    for row, spellings in zip(rows, extractor.names([graph.texts[row] for row in rows]), strict=True):
        title = _name(graph.titles[row])
        spellings = list(dict.fromkeys([title, *spellings] if title else spellings))
        table, counts = NameTable(spellings), dict[int, int]()
        numbers = [_number(name, number, names) for name in spellings]
        for sentence in sentences(graph.texts[row]):
            entities = [numbers[places[0]] for _, places in table.find(sentence)]
            if title and numbers[0] not in entities:
                entities, sentence = [numbers[0], *entities], f"{title}. {sentence}"
            for entity in entities:
                counts[entity] = counts.get(entity, 0) + 1
            if len(inside := list(dict.fromkeys(entities))) > 1:
                texts.append(sentence)
                home.append(row)
                mentions.append(inside)
        # A name that no sentence contains as a whole is still in the passage.
        triples += [(row, entity, counts.get(entity, 1)) for entity in dict.fromkeys(numbers)]
    passages = torch.zeros(len(graph), dtype=torch.bool)
    passages[rows] = True
    matrix = np.ascontiguousarray(np.array(triples, np.int64).reshape(-1, 3).T)
    lists = _lists(mentions, len(names))
    return TriGraph(passages.to(graph.device), names, number, texts, np.array(home, np.int64), *lists, *matrix)


def _name(title: str) -> str:
    """Return the title as a name, without its qualifier, such as "(film)"; "" if it has no word."""
    name = " ".join(((title.endswith(")") and title.rpartition(" (")[0]) or title).split())
    return name if entity_key(name) else ""


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
