"""Model-based search, O_m: the nodes with the best scores of a relevance model (FastInsight, Definition 4)."""

from __future__ import annotations

from graph_retrievers.arguments import positive
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.requests import Relevance

__all__ = ["Rerank"]


class Rerank(Operator):
    """Rerank nodes by the relevance model of the index, each node on its own.

    Parameters
    ----------
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    The scores are the model's own outputs (raw logits of a cross-encoder). Equal scores keep their present order.
    A (query, node) pair is encoded once, also across operators.

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> print(Pipeline(BM25Search(100), Rerank(10)).formula())
    O_vs -> O_m
    """

    kind = OperatorKind.MODEL_SEARCH
    asks_relevance = True

    def __init__(self, k: int | None = None) -> None:
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the same nodes ordered by the model's score."""
        return found.rescored((yield Relevance(found.nodes)))
