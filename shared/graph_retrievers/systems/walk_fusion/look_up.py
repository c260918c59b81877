"""Nodes that carry the numbers which a question names, before all others."""

from __future__ import annotations

import numpy as np

from graph_retrievers.core.candidates import Candidates, places_of
from graph_retrievers.core.compositions import Composite
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question, Questions

__all__ = ["CitedFirst"]

# Nodes of a unit that all come first; of a longer one, only the best.
_ALL = 5


class CitedFirst(Composite):
    r"""Put what a question cites by number, as in "Article 17 GDPR" or "PEP 8", before what an operator finds.

    Parameters
    ----------
    operator : Operator

    Notes
    -----
    The index finds references by number (:class:`~graph_retrievers.construction.NumberedReferences`), in memory or in PostgreSQL.
    Of a unit of more than five nodes, such as a chapter, only the node comes first that the operator has first, else the first of
    its page.
    Scores of these nodes are those of the best other one plus 1, 2 and so on.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.construction import NumberedReferences
    >>> from graph_retrievers.operators import BM25Search
    >>> texts = [f"Section {n}\nSection {n % 3 + 1} has looms." for n in range(1, 4)]
    >>> index = GraphIndex.from_texts(texts, edges=[NumberedReferences()])
    >>> [hit.id for hit in Retriever(index, CitedFirst(BM25Search())).retrieve("What is in Section 2?", k=1)]
    ['1']
    """

    batched = Composite.batched

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the cited nodes, followed by the results of the operator."""
        candidates = yield from self.operators[0].stepped(question, candidates)
        if not isinstance(question, Questions):
            return self._with_cited(question, candidates)
        parts = zip(question.members, candidates.apart(question.count, question.nodes), strict=True)
        return Candidates.of_each([self._with_cited(member, part) for member, part in parts], question.nodes)

    def _with_cited(self, question: Question, candidates: Candidates) -> Candidates:
        found: list[int] = []
        for rows in question.corpus.look_up(question.text):
            nodes = np.array(rows, np.int64)
            nodes = nodes[question.returned(nodes)]
            places = places_of(candidates.nodes, nodes)
            places = np.where(places < 0, len(candidates), places)
            found += nodes[np.argsort(places, kind="stable")][: None if len(rows) <= _ALL else 1].tolist()
        nodes = np.array(list(dict.fromkeys(found)), np.int64)
        if not len(nodes):
            return candidates
        best = max(0.0, float(candidates.scores[0])) if len(candidates) else 0.0
        first = Candidates.seeds(nodes, best + np.arange(len(nodes), 0, -1.0), self.name)
        return first.joined(candidates)
