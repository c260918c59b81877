"""STeX: semantic-topological expansion (FastInsight, section 3.4, Algorithm 3)."""

from __future__ import annotations

import math

import numpy as np

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.search.candidates import Candidates, best, places_of, reached
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.requests import Degree, Neighbors, Scores

__all__ = ["STeX"]


class STeX(Operator):
    r"""Expand ranked nodes to their neighbours, by structure and similarity: O_vgs.

    A candidate n is a neighbour of the ranked nodes that is not among them. With A(n) the ranked nodes it is linked
    to, :math:`r_{best}` the best rank among them (1 is first), R the number of ranked nodes and
    :math:`C = \min(\deg(n), R)`, it scores

    .. math:: S_n = v_q \cdot v_n + \beta \left(1 - \frac{r_{best} - 1}{R - 1} + \frac{|A(n)| - 1}{C - 1}\right),

    where the first fraction is dropped (with its 1) for R = 1 and the second for C <= 1. The degree counts distinct
    neighbours in the whole graph. The direction of edges is ignored: line 1 of the paper follows edges one way and line 4
    tests them the other way, so A(n) is never empty only if edges are symmetric.

    Parameters
    ----------
    beta : float, default 1.0
        Score ratio; 0 for similarity alone, ``math.inf`` for structure alone.
    nodes_per_round : int, default 10
        Candidates added a round.
    budget : int, optional
        Nodes a list may reach (hard cap, lines 5 and 6 of Algorithm 1).

    Notes
    -----
    Equal scores go to the lower node row. Scores of different rounds are not comparable, since R grows.

    References
    ----------
    FastInsight, section 3.4, Algorithm 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")], vectors=[[1], [0], [0]])
    >>> retriever = Retriever(index, Pipeline(BM25Search(1), STeX()), backfill=False)
    >>> [hit.path.text for hit in retriever.retrieve("loom", vector=[1])]
    ['0', '0 -> 1']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, beta: float = 1.0, *, nodes_per_round: int = 10, budget: int | None = None) -> None:
        if not is_number(beta) or not beta >= 0:
            raise InvalidArgumentError(f"beta must be at least 0 (math.inf for structure alone), got {shown(beta)}.")
        self.beta = float(beta)
        self.nodes_per_round = positive("nodes_per_round", nodes_per_round)
        self.budget = None if budget is None else positive("budget", budget)

    def compares_vectors(self, index: GraphIndex) -> bool:
        """Return whether it does, as always."""
        return True

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the ranked nodes with the best candidates behind them."""
        new = yield from self.candidates(found)
        room = min(self.nodes_per_round, self.budget - len(found)) if self.budget is not None else self.nodes_per_round
        return found.joined(new.top(max(room, 0))).top(self.budget)

    def candidates(self, found: Candidates) -> Search[Candidates]:
        """Return the best `nodes_per_round` candidates: the N_add of the paper, cut."""
        ranked = len(found)  # R
        near = yield Neighbors(found.nodes)
        # Neighbours come in rank order, so the first of a node is its best-ranked one.
        nodes, first, linked = np.unique(near.node, return_index=True, return_counts=True)
        new = places_of(found.nodes, nodes) < 0
        nodes, rank, linked = nodes[new], near.owner[first][new], linked[new]
        degree, *similarity = yield (Degree(nodes),) if math.isinf(self.beta) else (Degree(nodes), Scores(nodes))
        structure = 1 - rank / (ranked - 1) if ranked > 1 else np.zeros(len(nodes))
        most = np.minimum(degree, ranked)  # C
        structure = structure + np.where(most > 1, (linked - 1) / np.maximum(most - 1, 1), 0)
        scores = similarity[0] + self.beta * structure if similarity else structure
        by = best(scores, self.nodes_per_round, nodes)
        return reached(found, rank[by], nodes[by], scores[by], self.name)
