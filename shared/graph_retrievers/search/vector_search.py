"""Vector search, O_vs: nodes by vectors, words or both (FastInsight, Definition 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.fusion import fused, list_weights, reciprocal_rank_parts
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.scaling import scaled_parts

__all__ = ["BM25Search", "HybridSearch", "VectorSearch"]


class VectorSearch(Operator):
    """The k nodes with the largest dot product of node vector and query vector.

    Parameters
    ----------
    k : int, optional
        Nodes to find; by default the number of requested hits.
    returned : bool, default True
        Whether the return filter applies: True if the nodes are the result, False if they are seeds of a traversal, which may
        pass through nodes that are not returned.
    signal : str, default "dense"
        Name of the signal to search.
    types : sequence of str, optional
        Node types to search; all by default.

    Notes
    -----
    The search is exact. Ties go to the lower node row. For unit vectors the dot product is the cosine.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> Retriever(index, VectorSearch(1)).retrieve("cards", vector=[0.1, 0.9])[0].text
    'a card'
    """

    kind = OperatorKind.VECTOR_SEARCH
    batched = True

    def __init__(
        self, k: int | None = None, *, returned: bool = True, signal: str = "dense", types: Sequence[str] | None = None
    ) -> None:
        self.k = None if k is None else positive("k", k)
        self.returned, self.signal = returned, signal
        # None too for no types, since all nodes are searched.
        self.types = strings("types", types or ()) or None

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the k best nodes; earlier results are not read."""
        nodes, scores = yield Nearest(self.k or question.k, self.signal, self.returned, types=self.types or ())
        return Candidates.seeds(nodes, scores, self.name)


class BM25Search(VectorSearch):
    """The k nodes with the largest BM25 score; nodes that share no word with the query are not found.

    Parameters
    ----------
    k, returned
        As for :class:`VectorSearch`.
    signal : str, default "bm25"

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card", "one card"])
    >>> [hit.text for hit in Retriever(index, BM25Search(), backfill=False).retrieve("card")]
    ['a card', 'one card']
    """

    def __init__(self, k: int | None = None, *, returned: bool = True, signal: str = "bm25") -> None:
        super().__init__(k, returned=returned, signal=signal)


class HybridSearch(Operator):
    r"""Dense and lexical search fused.

    With ``fusion="weighted"`` the score of a node is a weighted sum of its scores, each scaled to [0, 1]:

    .. math:: S_n = w_1 \frac{q \cdot n - \min_x q \cdot x}{\max_x q \cdot x - \min_x q \cdot x} + w_2 \frac{b(n)}{\max_x b(x)}

    where b is BM25 and x runs over the `depth` best nodes of each search; a node that a search does not find among them has 0
    there. In a corpus of n nodes, fewer than `depth`, the smallest similarity is multiplied by n / `depth` if it is above 0. With
    ``fusion="rrf"`` (reciprocal rank fusion) it is :math:`\sum_s w_s / (c + r_s)` over the searches s that find it, at rank
    r_s >= 1.

    Parameters
    ----------
    k, returned
        As for :class:`VectorSearch`.
    fusion : {"weighted", "rrf"}, default "weighted"
        Ranks give a list in which all scores are alike as much say as one in which the first stands out, and find less.
    weights : sequence of two floats, default (1.0, 1.0)
        Weights of dense search and BM25. A search with weight 0 is left out.
    depth : int, default 100
        Nodes taken from each search (k if that is larger).
    constant : int, default 60
        The c of reciprocal rank fusion.

    References
    ----------
    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023 (weighted sums); Cormack, Clarke and
    Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> hits = Retriever(index, HybridSearch(weights=(1, 2))).retrieve("card", vector=[1, 0])
    >>> [(hit.text, hit.score) for hit in hits]
    [('a card', 2.0), ('a loom', 1.0)]
    """

    kind = OperatorKind.VECTOR_SEARCH
    batched = True

    def __init__(
        self,
        k: int | None = None,
        *,
        fusion: str = "weighted",
        weights: Sequence[float] = (1.0, 1.0),
        depth: int = 100,
        constant: int = 60,
        returned: bool = True,
    ) -> None:
        self.k = None if k is None else positive("k", k)
        self.fusion, self.weights = choice("fusion", fusion, ("weighted", "rrf")), list_weights(weights, 2)
        self.constant, self.depth = positive("constant", constant), positive("depth", depth)
        self.returned = returned

    def compares_vectors(self, index: Corpus) -> bool:
        """Return whether vectors have a weight."""
        return self.weights[0] > 0

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return nodes by fused score; earlier results are not read."""
        k = self.k or question.k
        pairs = [(name, weight) for name, weight in zip(("dense", "bm25"), self.weights, strict=True) if weight > 0]
        answers = yield tuple(Nearest(max(self.depth, k), name, self.returned) for name, _ in pairs)
        lists = [Candidates.seeds(nodes, scores, self.name) for nodes, scores in answers]
        owners = [question.owners(part.nodes) for part in lists]
        entries = zip(lists, owners, pairs, strict=True)
        parts = [weight * self._parts(part, groups, name) for part, groups, (name, weight) in entries]
        result = fused(lists, parts, owners=question.owners)
        return result.top(k, question.owners(result.nodes))

    def _parts(self, candidates: Candidates, groups: np.ndarray | None, signal: str) -> np.ndarray:
        """Return what the list of a signal adds to the score of the node at each place, before its weight: shape [K]."""
        if self.fusion == "rrf":
            return reciprocal_rank_parts(candidates, self.constant, groups)
        return scaled_parts(candidates, depth=self.depth, from_zero=signal == "bm25", groups=groups)
