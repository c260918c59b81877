"""One question of a batch: what an algorithm knows without a request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

__all__ = ["Question", "Questions"]


class Question:
    """One question of the batch that a backend answers.

    Parameters
    ----------
    backend : object
        Answers the requests of the batch, such as :class:`~graph_retrievers.search.memory.MemoryBackend`. It also has what is asked
        here: `queries`, `ids`, `size`, `in_memory`, `index`, `edges`, `has_traversal_filter`, `passing`, `typed`, `types`, `ends`,
        `relation` and `relation_names`.
    place : int
        Number of the question in the batch.

    Attributes
    ----------
    text : str
    k : int
        Number of requested nodes.
    size, nodes : int
        Number of nodes N of the graph; `size` is that of all nodes of :class:`Questions`.
    ids : sequence of str, length N
    queries : Batch
        All questions of the batch, with their vectors.
    corpus : Corpus
        Signals, models and facts of the corpus, wherever it lies.
    signals : tuple of str
        Names of the available signals.
    notes : list of str
        Notes on the search for the user; an algorithm adds to them.
    touched : int or None
        Number of visited nodes, if an algorithm counts them.
    count : int
        Number of questions: 1, and more for :class:`Questions`.
    """

    count = 1

    def __init__(self, backend: Any, place: int) -> None:
        self.backend: Any = backend
        self.place: Any = place
        self.queries: Any = backend.queries
        self.text, self.k = self.queries.texts[place], self.queries.k
        self.ids, self.size, self.nodes = backend.ids, backend.size, backend.size
        self.corpus: Any = self.queries.index
        self.signals = tuple(self.corpus.signals)
        self.notes: Any = []
        self.touched: int | None = None

    @property
    def index(self) -> Any:
        """The index, for an operator that reads all of it; WholeGraphError if it is not in memory."""
        return self.backend.index

    @property
    def in_memory(self) -> bool:
        """Whether :attr:`index` is in memory; an operator that can do without it then reads it nevertheless, which is faster."""
        return self.backend.in_memory  # type: ignore[no-any-return]

    @property
    def has_traversal_filter(self) -> bool:
        """Whether a filter says which nodes may be visited."""
        return self.backend.has_traversal_filter  # type: ignore[no-any-return]

    @property
    def has_vectors(self) -> bool:
        """Whether there are vectors of the nodes and of the question."""
        return self.corpus.has_dense and self.queries.has_vectors  # type: ignore[no-any-return]

    @property
    def embeds_texts(self) -> bool:
        """Whether other texts than the question can be embedded, such as names that a language model writes."""
        return self.queries.embeds_texts  # type: ignore[no-any-return]

    @property
    def reads_texts(self) -> bool:
        """Whether the relevance model can score any text; the vectors of an index without its model score only its nodes."""
        model = self.corpus.relevance
        return model is not None and model.reads_texts

    @property
    def members(self) -> list[Question]:
        """The questions: this one, or several that are one (:class:`Questions`)."""
        return [self]

    def owners(self, nodes: np.ndarray) -> np.ndarray | None:
        """Return the question of each node, shape [n], if there are several (:class:`Questions`); None for one question."""
        return None

    def counts(self, nodes: np.ndarray) -> np.ndarray:
        """Return how many of some nodes, shape [n], each question has: int64, shape [count]."""
        return np.bincount(nodes // self.nodes, minlength=self.count)

    def note(self, text: str, of: int = 0) -> None:
        """Add a note, of several questions to that at the place `of`."""
        self.members[of].notes.append(text)

    def grouped(self, candidates: Any) -> Any:
        """Return candidates with those of each question together, in their order."""
        groups = self.owners(candidates.nodes)
        return candidates if groups is None else candidates.taken(np.argsort(groups, kind="stable"))

    def visited(self, nodes: np.ndarray) -> None:
        """Count the visited nodes, shape [n], of each question."""
        for question, count in zip(self.members, self.counts(nodes).tolist(), strict=True):
            question.touched = count

    def apart(self) -> Self:
        """Return this question with its own notes, for an operator that runs beside others."""
        other = copy(self)
        other.notes = []
        return other

    def __copy__(self) -> Self:
        """Return a copy; without this method, copy() takes as long as a small request."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def take(self, other: Self) -> None:
        """Add the notes of this question :meth:`apart`, and take over how many nodes it visited."""
        for own, part in zip(self.members, other.members, strict=True):
            own.notes += part.notes
            own.touched = own.touched if part.touched is None else part.touched

    def asking(self, k: int) -> Self:
        """Return this question for k nodes, with the same notes."""
        other = copy(self)
        other.k = k
        return other

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """Return the row in the graph of each of some nodes, shape [n]; of several questions, nodes have other numbers."""
        return nodes

    def input(self, name: str) -> Any:
        """Return the question's value of an input (``Operator.reads``); None if it is not given."""
        return self.queries.input(name)[self.place]

    def returned(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], may be returned: bool, shape [n]."""
        return self.backend.passing(self.rows(nodes), "return")  # type: ignore[no-any-return]

    def started(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], may start a traversal: bool, shape [n]."""
        return self.backend.passing(self.rows(nodes), "start")  # type: ignore[no-any-return]

    def filtered(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], pass the filter of the call, whether or not they may be returned: bool, shape [n]."""
        return self.backend.passing(self.rows(nodes), "filter")  # type: ignore[no-any-return]

    def named(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], may be seeds by their names: bool, shape [n]."""
        return self.backend.passing(self.rows(nodes), "name")  # type: ignore[no-any-return]

    def walked(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], may be visited: bool, shape [n]."""
        return self.backend.passing(self.rows(nodes), "walk")  # type: ignore[no-any-return]

    def typed(self, nodes: np.ndarray, types: Collection[str]) -> np.ndarray:
        """Return which nodes, shape [n], have one of the types: bool, shape [n]."""
        return self.backend.typed(self.rows(nodes), types) if types else np.zeros(len(nodes), bool)

    def types(self, nodes: np.ndarray) -> list[str]:
        """Return the type of each of some nodes, shape [n]."""
        return self.backend.types(self.rows(nodes))  # type: ignore[no-any-return]

    @property
    def edges(self) -> int:
        """Number of relationship rows of the graph."""
        return self.backend.edges  # type: ignore[no-any-return]

    def ends(self, facts: np.ndarray) -> np.ndarray:
        """Return the node rows joined by some relationship rows, shape [M]: int64, shape [M, 2]."""
        return self.backend.ends(facts)  # type: ignore[no-any-return]

    def relation_names(self, numbers: np.ndarray) -> list[str]:
        """Return the names of relations by their numbers, shape [T]: list of str, length T."""
        return self.backend.relation_names(numbers)  # type: ignore[no-any-return]

    def relation(self, name: str | None) -> int:
        """Return the number of a relation in :attr:`Candidates.relations`; -1 for None."""
        return -1 if name is None else self.backend.relation(name)


class Questions(Question):
    """Several questions of a batch as one, for operators that take them all at once (``Operator.batched``).

    The node at a row of the graph has the number ``n * N + row`` for the n-th question, so that no two questions share a node:
    an algorithm for one question, on as many copies of the graph. Where a list has an order or an end, it has one for each
    question (:meth:`owners`).

    Parameters
    ----------
    members : sequence of Question, length n

    Attributes
    ----------
    size : int
        Number of nodes n * N.
    place : ndarray, shape [n]
        Numbers of the questions in the batch.
    notes : tuple of list of str, length n
        Those of each question.
    """

    def __init__(self, members: Sequence[Question]) -> None:
        self.__dict__.update(members[0].__dict__)
        self._members, self.count, self.size = list(members), len(members), members[0].size * len(members)
        self.notes = tuple(question.notes for question in members)
        self.place = np.array([question.place for question in members])
        # Each question has its own text.
        del self.text

    @property
    def members(self) -> list[Question]:
        """The questions."""
        return self._members

    def owners(self, nodes: np.ndarray) -> np.ndarray:
        """Return the question, from 0, of each of some nodes: int64, of their shape."""
        return nodes // self.nodes

    def apart(self) -> Self:
        """Return these questions with their own notes, for an operator that runs beside others."""
        other = copy(self)
        other._members = [question.apart() for question in self.members]
        other.notes = tuple(question.notes for question in other.members)
        return other

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """Return the row in the graph of each of some nodes, shape [n]."""
        return nodes % self.nodes
