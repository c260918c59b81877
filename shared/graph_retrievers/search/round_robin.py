"""Operators side by side, whose nodes are taken in turns, as LightRAG and PathRAG do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_retrievers.core.candidates import Candidates, concatenated, starts
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.compositions import Composite, ReciprocalRankFusion
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import side_by_side
from graph_retrievers.core.question import Question

__all__ = ["RoundRobin"]

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

    formula = ReciprocalRankFusion.formula

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes and the facts of all lists in turns, followed by those of the previous ranking."""
        lists = yield from side_by_side(self.operators, question, candidates)
        places = turns([*(part.nodes for part in lists), candidates.nodes], [*range(len(lists)), _LAST])
        result = concatenated([*lists, candidates]).taken(places)
        result.scores = 1 / np.arange(1, len(result) + 1)
        fact_lists = list({id(part.facts): part.facts for part in (*lists, candidates) if part.facts is not None}.values())
        if fact_lists:
            ranks = [n if any(facts is part.facts for part in lists) else _LAST for n, facts in enumerate(fact_lists)]
            row_lists = [facts.rows for facts in fact_lists]
            rows = np.concatenate(row_lists)[turns(row_lists, ranks)]
            result.facts = Facts(rows, 1 / np.arange(1, len(rows) + 1), fact_lists[0].operator)
        return result


def turns(lists: Sequence[np.ndarray], ranks: Sequence[int]) -> np.ndarray:
    """Return the first places, in the concatenated lists, of their distinct entries.

    They alternate: the n-th entries of all lists come after the n-1-th, ordered among each other by `ranks`: for each list a
    number below the number of lists, or a large one for a list whose entries come last.

    >>> turns([np.array([4, 2]), np.array([7, 4])], [1, 0])
    array([2, 0, 1])
    """
    values = np.concatenate(lists)
    turn = np.concatenate([np.arange(len(part)) * len(lists) + number for part, number in zip(lists, ranks, strict=True)])
    # Equal entries one after another, in the order of the lists.
    by = np.argsort(values, kind="stable")
    first = starts(values[by])
    return by[first][np.argsort(np.minimum.reduceat(turn[by], first))] if len(by) else by
