"""First-stage retrieval: an operator that returns as many nodes as a reranker reads."""

from __future__ import annotations

from graph_retrievers.arguments import positive
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.operator import Composite, Operator

__all__ = ["FirstStage"]


class FirstStage(Composite):
    """Run an operator as if at least `depth` nodes were requested, so that a reranker can choose from more than k nodes.

    Parameters
    ----------
    operator : Operator
        Its own limit is kept.
    depth : int

    Examples
    --------
    >>> from graph_retrievers.operators import VectorSearch
    >>> FirstStage(VectorSearch(), 100).formula()
    'O_vs'
    """

    def __init__(self, operator: Operator, depth: int) -> None:
        super().__init__(operator)
        self.depth = positive("depth", depth)

    def formula(self) -> str:
        """Return the formula of the operator."""
        return self.operators[0].formula()

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the results of the operator."""
        deeper = question.asking(max(question.k, self.depth))
        found = yield from self.operators[0].stepped(deeper, found)  # type: ignore[attr-defined]
        question.touched = deeper.touched
        return found
