"""Passages that are joined by a name instead of an edge: the bridge entities of multi-hop questions."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np

from graph_retrievers.core.driver import Algorithm, Parallel
from graph_retrievers.core.question import Question, Questions
from graph_retrievers.core.requests import Nearest, Texts
from graph_retrievers.graph.names import capitalized_names, name_keys
from graph_retrievers.graph.words import ends_word

__all__ = ["bridges"]

_MOST_NAMES = 12
# Nodes with a name, of which those come first whose text opens with it; and the characters that may stand before it.
_HOLDING, _BEFORE = 10, 20


def bridges(question: Question, nodes: np.ndarray, count: int) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Find, by BM25, the nodes to which names in the texts of some nodes, by their rows [S], lead: all int64, shape [T].

    For each node, it reads the first 12 names whose words are not in the question, because names in the question have already
    been searched. `count` is the number of nodes for each name, without the node that has the name: of the ten (or `count`, if
    larger) with the largest BM25 scores for the name, first those whose text begins with it, after at most one other word,
    because they are about it. For each node found, the result has the place in `nodes` of the one that led to it, ascending; its
    row (a node to which several names of a text lead is listed once for each); and the name as in ``Candidates.relations``: -2
    minus its number among :func:`~graph_retrievers.graph.names.capitalized_names` of the text.

    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.core.driver import run
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "In Lund, Ada Holm went to school.", "A loom."])
    >>> backend = MemoryBackend(Queries.of(index, ["Where was the star of Kismet born?"]))
    >>> run(backend, [bridges(*backend.questions(), np.array([0]), 2)])
    [(array([0]), array([1]), array([-2]))]
    """
    keys, entries = name_keys(question.text), list[tuple[int, int, str]]()
    for place, text in enumerate((yield Texts(nodes))):
        names = ((place, -2 - number, name) for number, name in enumerate(capitalized_names(text)) if not name_keys(name) <= keys)
        entries += islice(names, _MOST_NAMES)
    # One more than wanted, as the node itself is usually among them.
    most = max(_HOLDING, count) + 1
    answers = yield tuple(Nearest(most, "bm25", text=name, among="walk") for *_, name in entries)
    unique_rows = np.unique(np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in answers)]))
    texts = dict(zip(unique_rows.tolist(), (yield Texts(unique_rows)), strict=True))
    found = [
        (place, far, relation)
        for (place, relation, name), (rows, _) in zip(entries, answers, strict=True)
        for far in sorted(rows[rows != nodes[place]].tolist(), key=lambda row: not _opens(texts[row], name))[:count]
    ]
    places, ends, relations = np.array(found, np.int64).reshape(-1, 3).T
    return places, ends, relations


def bridges_of_each(questions: Questions, nodes: np.ndarray, count: int) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Find what :func:`bridges` finds for each of several questions, which run side by side: its nodes among `nodes`, [S]."""
    owners, size = questions.owners(nodes), questions.nodes
    ends = np.searchsorted(owners, np.arange(questions.count + 1))
    searches = [
        bridges(question, nodes[start:stop] % size, count)
        for question, (start, stop) in zip(questions.members, pairwise(ends.tolist()), strict=True)
    ]
    results = yield Parallel(searches, [question.place for question in questions.members])
    sizes = [len(places) for places, *_ in results]
    places, far, relations = map(np.concatenate, zip(*results, strict=True))
    owner = np.repeat(np.arange(questions.count), sizes)
    return places + ends[owner], far + owner * size, relations


def _opens(text: str, name: str) -> bool:
    """Return whether a text opens with a name, with at most one word or mark before it."""
    start = text.find(name, 0, len(name) + _BEFORE)
    if start < 0:
        return False
    before = text[:start]
    return not before[-1:].isalnum() and ends_word(text, start + len(name)) and len(before.split()) <= 1
