"""Results of vector search appended to a ranking that is too short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graph_retrievers.core.candidates import Candidates, places_within
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest
from graph_retrievers.search.per_source import DEEPER, per_source

__all__ = ["Backfill"]


class Backfill(Operator):
    """Fill a ranking up to k nodes with the best of vector search, or of BM25 on an index without vectors.

    Parameters
    ----------
    per_source, source_field : optional
        As for :class:`~graph_retrievers.retrievers.retriever.Retriever`, applied to the ranking with the added nodes.

    Notes
    -----
    Nodes of the ranking keep their places. Added nodes come last and have the operator name "Backfill". In an empty list they
    have the scores of the search. Otherwise their scores decrease from the score s of the last node of the ranking: the j-th
    added node has ``s - |s| * j / (j + 1)``, which is s / 2, s / 3, ... for a positive s, and 3/2 s, 5/3 s, ... for a negative
    one. So they stay on the scale of the others, and are negative only if s is; if s is 0, they are 0.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a loom card"])
    >>> retriever = Retriever(index, BM25Search(1), k=2)
    >>> first, second = retriever.retrieve("loom")
    >>> (first.id, first.operator), (second.id, second.operator), second.score == first.score / 2
    (('0', 'BM25Search'), ('2', 'Backfill'), True)
    """

    kind = OperatorKind.VECTOR_SEARCH
    batched = True

    def __init__(self, per_source: int | None = None, source_field: str | None = None) -> None:
        self.per_source, self.source_field = per_source, source_field

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the candidates, followed by the added nodes."""
        corpus, k = question.corpus, min(question.k, question.nodes)
        dense = corpus.has_dense and (question.has_vectors or not corpus.has_bm25)
        counts = question.counts(candidates.nodes)
        if not (counts < k).any() or not (dense or corpus.has_bm25):
            return candidates
        reach = k if self.per_source is None else min(DEEPER * k, question.size)
        while True:
            nodes, scores = yield Nearest(reach, "dense" if dense else "bm25", among="return")
            short = counts[nodes // question.nodes] < k
            result = question.grouped(candidates.joined(Candidates.seeds(nodes[short], scores[short], self.name)))
            if self.per_source is None:
                break
            result = yield from per_source(question, result, self.per_source, self.source_field)
            # Documents may have any number of nodes alike.
            if len(result) >= k or len(nodes) < reach or reach >= question.size:
                break
            reach = min(DEEPER * reach, question.size)
        result = result.top(k, question.owners(result.nodes))
        owner = result.nodes // question.nodes
        # The number of each among the added nodes of its question, from 1.
        number = places_within(owner) - counts[owner] + 1
        # Half of infinity is infinity; and in single precision, neighbours far down would be equal.
        last = np.full(question.count, np.finfo(np.float32).max, np.float64)
        np.minimum.at(last, candidates.nodes // question.nodes, candidates.scores)
        below = last[owner] - np.abs(last[owner]) * number / (np.maximum(number, 1) + 1.0)
        return replace(result, scores=np.where((number > 0) & (counts[owner] > 0), below, result.scores))
