"""Several rankings as one, taken in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.operators.fusion import aligned
from graph_retrievers.operators.operator import Composite, searched, side_by_side
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.search.candidates import Candidates, places_of, ranking_of
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question

__all__ = ["RoundRobin", "by_turns", "place_scores"]


class RoundRobin(Composite):
    """Run operators side by side and take their nodes in turns: the first of each list, then the second of each, ...

    Parameters
    ----------
    *operators : Operator
        Each is called with the ranking from before. What they find comes first, then what is in that ranking.

    Notes
    -----
    A node that several lists hold has its first place, and the operator and the trail of the first list. Facts are merged in the
    same way. The n-th node scores 1 / n.

    References
    ----------
    LightRAG (``operate.py``) merges the entities, the relations and the chunks of its searches so.

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

    @property
    def by_question(self) -> bool:  # type: ignore[override]
        """Whether all operators are written for one question."""
        return all(operator.by_question for operator in self.operators)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes and the facts of all lists in turns."""
        if self.by_question:
            return searched(self, queries, ranking)
        rankings = [operator(queries, ranking) for operator in self.operators]
        tables = zip(*map(Candidates.of, (*rankings, ranking)), strict=True)
        merged = ranking_of([_merged(lists, before) for *lists, before in tables], ranking.nodes.device)
        for each in rankings:
            merged = merged.beside(each)
        return merged

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the nodes and the facts of all lists in turns."""
        lists = yield from side_by_side(self.operators, question, found)
        return _merged(lists, found)


def _merged(lists: Sequence[Candidates], before: Candidates) -> Candidates:
    """Return the nodes and the facts of lists in turns, and what was there before behind them."""
    everything = aligned([*lists, before])
    _, first = np.unique(everything.nodes, return_index=True)
    merged = by_turns([each.nodes for each in lists], everything.taken(np.sort(first)))
    if merged.facts is not None:
        facts = merged.facts.taken(turns([each.facts.rows for each in lists if each.facts is not None], merged.facts.rows))
        merged.facts = replace(facts, scores=1 / np.arange(1, len(facts.rows) + 1))
    return merged


def place_scores(table: Tensor) -> Tensor:
    """Return 1 / n at the n-th place of each list, -inf on pads (entries below 0): Tensor, shape [B, K]."""
    place = torch.arange(1, table.shape[1] + 1, device=table.device)
    return torch.where(table >= 0, 1.0 / place, float("-inf"))


def by_turns(lists: Sequence[np.ndarray], merged: Candidates) -> Candidates:
    """Return candidates in the order in which lists of nodes, distinct in each, name them in turns; others last.

    The n-th scores 1 / n.
    """
    found = merged.taken(turns(lists, merged.nodes))
    found.scores = 1 / np.arange(1, len(found) + 1)
    return found


def turns(lists: Sequence[np.ndarray], merged: np.ndarray) -> np.ndarray:
    """Return the order in which `merged`, shape [K], come in turns from lists of distinct numbers; others last.

    >>> turns([np.array([4, 2]), np.array([7, 4])], np.array([4, 2, 7]))
    array([0, 2, 1])
    """
    turn = np.full(len(merged), np.iinfo(np.int64).max)
    for number, held in enumerate(lists):
        place = places_of(held, merged)
        turn = np.where(place >= 0, np.minimum(turn, place * len(lists) + number), turn)
    return np.argsort(turn, kind="stable")
