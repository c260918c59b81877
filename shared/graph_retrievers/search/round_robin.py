"""Combine several rankings by taking their nodes in turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_retrievers.search.beyond import Facts
from graph_retrievers.search.candidates import Candidates, concatenated
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.operator import Composite, side_by_side

__all__ = ["RoundRobin", "turns"]

# More than any list is long.
_LAST = 1 << 48


class RoundRobin(Composite):
    """Run operators side by side and take their nodes in turns: the first of each list, then the second of each, ...

    Parameters
    ----------
    *operators : Operator
        Each gets the previous ranking. Their results come first, then the rest of that ranking.

    Notes
    -----
    A node in several lists has its first place, and the operator and the trail of the first list. Facts are merged in the same
    way. The n-th node scores 1 / n.

    References
    ----------
    LightRAG (``operate.py``) merges the entities, the relations and the chunks of its searches in this way.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search, VectorSearch
    >>> index = GraphIndex.from_texts(["a loom", "a card", "one card"], vectors=[[1], [0], [0.5]])
    >>> retriever = Retriever(index, RoundRobin(VectorSearch(), BM25Search()))
    >>> [(hit.text, round(hit.score, 2)) for hit in retriever.retrieve("card", vector=[1])]
    [('a loom', 1.0), ('a card', 0.5), ('one card', 0.33)]
    """

    def formula(self) -> str:
        """Return the parts joined by plus signs."""
        return "(" + " + ".join(operator.formula() for operator in self.operators) + ")"

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the nodes and the facts of all lists in turns."""
        lists = yield from side_by_side(self.operators, question, found)
        return _merged(lists, found)


def _merged(lists: Sequence[Candidates], before: Candidates) -> Candidates:
    """Return the nodes and the facts of lists in turns, and what was there before behind them."""
    rows = turns([*(part.nodes for part in lists), before.nodes], [*range(len(lists)), _LAST])
    merged = concatenated([*lists, before]).taken(rows)
    merged.scores = 1 / np.arange(1, len(merged) + 1)
    told = list({id(part.facts): part.facts for part in (*lists, before) if part.facts is not None}.values())
    if told:
        order = [n if any(facts is part.facts for part in lists) else _LAST for n, facts in enumerate(told)]
        listed = [facts.rows for facts in told]
        rows = np.concatenate(listed)[turns(listed, order)]
        merged.facts = Facts(rows, 1 / np.arange(1, len(rows) + 1), told[0].operator)
    return merged


def turns(lists: Sequence[np.ndarray], order: Sequence[int]) -> np.ndarray:
    """Return the first places, in the concatenated lists, of their distinct entries.

    They alternate: the n-th entries of all lists come after the n-1-th, ordered among each other by `order`, which has a number
    below the number of lists for each list, or a large one for a list whose entries come last.

    >>> turns([np.array([4, 2]), np.array([7, 4])], [1, 0])
    array([2, 0, 1])
    """
    values = np.concatenate(lists)
    turn = np.concatenate([np.arange(len(part)) * len(lists) + number for part, number in zip(lists, order, strict=True)])
    # Equal entries behind each other, in the order of the lists.
    by = np.argsort(values, kind="stable")
    ordered = values[by]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(by)])
    return by[first][np.argsort(np.minimum.reduceat(turn[by], first))] if len(by) else by
