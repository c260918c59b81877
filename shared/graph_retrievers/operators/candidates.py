"""Candidates for a reranker: an operator that is asked for at least so many nodes."""

from __future__ import annotations

from dataclasses import replace

from graph_retrievers.arguments import positive
from graph_retrievers.operators.operator import Composite, Operator
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["Candidates"]


class Candidates(Composite):
    """Run an operator as if at least `depth` nodes were asked for, so that a reranker has more to choose from than k.

    Parameters
    ----------
    operator : Operator
        A limit of its own stays.
    depth : int

    Examples
    --------
    >>> from graph_retrievers.operators import VectorSearch
    >>> Candidates(VectorSearch(), 100).formula()
    'O_vs'
    """

    def __init__(self, operator: Operator, depth: int) -> None:
        super().__init__(operator)
        self.depth = positive("depth", depth)

    def formula(self) -> str:
        """Return that of the operator."""
        return self.operators[0].formula()

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return what the operator finds."""
        return self.operators[0](replace(queries, k=max(queries.k, self.depth)), ranking)
