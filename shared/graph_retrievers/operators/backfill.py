"""Results of vector search appended to a ranking that is too short."""

from __future__ import annotations

from dataclasses import replace

import torch

from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["Backfill"]


class Backfill(Operator):
    """Fill a ranking up to k nodes with the best of vector search, or of BM25 where there are no vectors.

    Notes
    -----
    Nodes of the ranking keep their places. Added nodes come last and have the operator name "Backfill". In a list that was
    empty they have the scores of the search. Else their scores fall from the score s of the last node of the ranking: the j-th
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

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ranking with the added nodes at its end."""
        index, k = queries.index, min(queries.k, len(queries.index))
        lengths = ranking.lengths()
        dense = index.has_dense and (queries.has_vectors or not index.has_bm25)
        if not bool((lengths < k).any()) or not (dense or index.has_bm25):
            return ranking
        scores, rows = queries.search("dense" if dense else "bm25", k, queries.allowed)
        filled = ranking.append(Ranking.of(rows, scores, self.name), torch.clamp(lengths, min=k))
        if not ranking.width:
            return filled
        place = torch.arange(filled.width, device=lengths.device).expand(len(ranking), -1)
        added = (place >= lengths.unsqueeze(1)) & (filled.nodes >= 0)
        lowest = ranking.scores.masked_fill(ranking.nodes < 0, float("inf")).amin(1, keepdim=True)
        # Half of infinity is infinity; and in single precision, neighbours far down would be equal.
        last = lowest.clamp(max=torch.finfo(lowest.dtype).max).double()
        number = (place - lengths.unsqueeze(1) + 1).clamp(min=1)
        below = (last - last.abs() * number / (number + 1)).to(filled.scores.dtype)
        return replace(filled, scores=torch.where(added & (lengths > 0).unsqueeze(1), below, filled.scores))
