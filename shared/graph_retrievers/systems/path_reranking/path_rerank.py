"""Path reranking, O_gm: a relevance model reads each node together with the node from which it was reached."""

from __future__ import annotations

import numpy as np

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.core.candidates import Candidates, replaced
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Relevance
from graph_retrievers.search.path_texts import relevance_texts
from graph_retrievers.signals.relevance import RelevanceModel

__all__ = ["PathRerank"]


class PathRerank(Operator):
    r"""Rerank nodes by a relevance model that reads the paths to them, mixed with their ranks.

    .. math:: s_n = w\, z\big(m(q, n \oplus (p_n \to n) \oplus p_n)\big) + (1 - w)\, z(-\log r_n)

    for the first `depth` nodes that may be returned, where m is the relevance model of the index, :math:`p_n` the node before n
    on its trail, :math:`r_n \ge 1` its rank so far among them, and z subtracts the mean of a question's nodes and divides by
    their standard deviation.

    Parameters
    ----------
    weight : float, default 0.5
        The w of the equation, in [0, 1]: 0 keeps the order without using the model, 1 ignores the ranks.
    depth : int, default 30
        Nodes to rerank; later nodes keep their places.
    model : RelevanceModel, optional
        Replaces that of the index, for instance one that was trained to read paths.
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    A second passage often does not mention the subject of the question; the first one, which links to it, does. Together, they
    can be judged. :func:`~graph_retrievers.search.path_texts.path_texts` describes what the model reads. Nodes without a path,
    and all nodes if the relevance model is the similarity of vectors, are read alone. A node's own text comes first, so a text
    that fills the model's input (``max_length``) leaves no room for its path. The model also reads nodes on paths that a `filter`
    excludes; use a `scope` or a `traversal_filter` to prevent that.

    References
    ----------
    A composition of this package. MoR (Lei et al., section 3.3) reranks by features of trajectories; monoT5 and other rerankers
    read a candidate alone.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.operators import Pipeline, STeX, VectorSearch
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> index = GraphIndex.from_texts(
    ...     ["Ada knew Babbage.", "He built engines.", "A mill."], edges=[("0", "1")], vectors=[[1, 0], [0, 1], [0.6, 0.8]],
    ...     relevance=lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs],
    ... )
    >>> queries = Queries.of(index, ["Which engines did Ada's friend build?"], vectors=[[1, 0]])
    >>> ranked(Pipeline(VectorSearch(1), STeX(), PathRerank(1.0, k=2)), queries)[0].nodes
    array([1, 0])
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(self, weight: float = 0.5, *, depth: int = 30, model: RelevanceModel | None = None, k: int | None = None) -> None:
        self.weight, self.depth, self.model = fraction("weight", weight), positive("depth", depth), model
        self.k = None if k is None else positive("k", k)

    @property
    def asks_relevance(self) -> bool:  # type: ignore[override]
        """Whether the model is that of the index, and its weight is not 0."""
        return self.model is None and self.weight > 0

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the same nodes; the first `depth` that may be returned are ordered by the mixed scores."""
        places = np.flatnonzero(question.returned(candidates.nodes))[: self.depth]
        if self.weight == 0 or not len(places):
            return candidates
        head = candidates.taken(places)
        texts = yield from relevance_texts(question, head, True, self.model)
        scores = yield Relevance(head.nodes, texts=texts, model=self.model, notes=question.notes)
        return replaced(candidates, places, mixed_with_ranks(scores, self.weight))


def mixed_with_ranks(scores: np.ndarray, weight: float) -> np.ndarray:
    """Return the scores of the equation of :class:`PathRerank`, float64, from the scores of the model by rank: both [n]."""
    ranks = np.arange(1.0, len(scores) + 1)
    return weight * _standardized(np.asarray(scores, np.float64)) + (1 - weight) * _standardized(-np.log(ranks))


def _standardized(values: np.ndarray) -> np.ndarray:
    if not len(values):
        return values
    deviations = values - values.mean()
    spread = np.sqrt(np.square(deviations).mean())
    # Where scores are equal but for rounding, their differences mean nothing.
    return deviations / spread if spread > 1e-6 * np.abs(values).max() else np.zeros_like(values)
