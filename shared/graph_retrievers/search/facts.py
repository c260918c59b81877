"""Search over the texts of the edges of a graph."""

from __future__ import annotations

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import NearestEdges
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["FactSearch"]


class FactSearch(Operator):
    """The edges whose texts match the query best, and the nodes that they join.

    Parameters
    ----------
    limit : int, default 10
        Number of facts.
    signal : str, default "edge_dense"
        Signal over the edges: ``"edge_dense"`` or ``"edge_bm25"`` (``GraphIndex.from_graph(..., edge_signals=True)``).
    returned : bool, default True
        Whether the facts are results: they are then additional hits after the k nodes, and the return filter applies to both of
        their ends. False if they are only seeds of a traversal.

    Notes
    -----
    A node gets the score and the place of its best fact, the source before the target, and is a seed. Edges with an end that may
    not start a traversal are not found.

    Examples
    --------
    >>> from graph_retrievers import Edge, GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada Lovelace"), Node("babbage", "", "Charles Babbage")]
    >>> edges = [Edge("ada", "babbage", "knows", text="Ada met Babbage at a party.")]
    >>> index = GraphIndex.from_nodes(nodes, edges, edge_signals=True)
    >>> retriever = Retriever(index, FactSearch(signal="edge_bm25"), backfill=False)
    >>> [(hit.kind, hit.text) for hit in retriever.retrieve("Who met at a party?")]
    [('node', ''), ('node', ''), ('fact', 'Ada met Babbage at a party.')]
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, limit: int = 10, *, signal: str = "edge_dense", returned: bool = True) -> None:
        self.limit = positive("limit", limit)
        self.signal, self.returned = signal, returned

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the ends of the best facts, and the facts; earlier results are not read."""
        if question.corpus.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"FactSearch searches edges; the signal {self.signal!r} covers nodes.")
        rows, scores = yield NearestEdges(self.limit, self.signal, self.returned)
        # Each end once, at its best fact: in the order of the facts, source before target.
        ends = question.ends(rows).ravel()
        first = np.sort(np.unique(ends, return_index=True)[1])
        result = Candidates.seeds(ends[first], scores.repeat(2)[first], self.name)
        result.facts = Facts(rows, scores, self.name) if self.returned else None
        return result
