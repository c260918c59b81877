"""GRanker: graph denoising of relevance latents (FastInsight, section 3.3, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from graph_retrievers.arguments import choice, fraction, positive
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.path_texts import PathTexts
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.requests import Relevance, Weights
from graph_retrievers.signals.relevance import BiEncoder

__all__ = ["GRanker", "propagation_matrix"]


def propagation_matrix(weights: np.ndarray, degree: np.ndarray) -> np.ndarray:
    r"""Return :math:`P = \mathrm{diag}(W 1)^{-1} W` with :math:`W = A D^{-1}` (Algorithm 2, lines 4 and 5).

    Parameters
    ----------
    weights : array-like, shape [n, n]
        Weights of the edges among the retrieved nodes, the A of the paper: symmetric, no self loops.
    degree : array-like, shape [n]
        Degree of each node: the sum of its weights. A neighbour counts inversely to its own degree.

    Returns
    -------
    ndarray, shape [n, n], float32
        Rows sum to 1; the row of a node without neighbours is zero.

    Examples
    --------
    >>> propagation_matrix([[0, 1, 1], [1, 0, 0], [1, 0, 0]], [2, 1, 3])
    array([[0.  , 0.75, 0.25],
           [1.  , 0.  , 0.  ],
           [1.  , 0.  , 0.  ]], dtype=float32)
    """
    degree = np.asarray(degree, np.float32)
    shares = np.asarray(weights, np.float32) / np.where(degree > 0, degree, 1)
    total = shares.sum(1, keepdims=True)
    return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)


class GRanker(Operator):
    r"""Rerank nodes by relevance latents smoothed along the edges among them: O_gm.

    One gradient step on the Laplacian-regularised objective :math:`\frac12 \|H' - H\|^2 + \frac\lambda2
    \mathrm{Tr}(H'^\top (I - P) H')` gives :math:`H' = (1 - \alpha) H + \alpha P H`; the head of the relevance
    model turns H' into scores.

    Parameters
    ----------
    alpha : float, default 0.2
        Smoothing factor; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree in D. The paper's text says the subgraph's, its line 3 the whole graph's, which STeX uses too.
    paths : bool, default False
        Whether the model reads each node together with the node that it was reached from (see
        :func:`~graph_retrievers.operators.path_texts.path_texts`); the paper's reads it alone.
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    Edge weights replace the ones of the paper's binary A, and D holds their sums; of parallel edges the largest weight counts.
    The latent of a (query, node) pair is computed once and kept with the queries. Equal scores keep their present order.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2.

    Examples
    --------
    >>> from graph_retrievers.operators import Pipeline, VectorSearch
    >>> Pipeline(VectorSearch(10), GRanker(alpha=0.3))
    Pipeline(
      VectorSearch(k=10, returned=True, signal='dense'),
      GRanker(alpha=0.3, degree='graph', paths=False),
    )
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH
    asks_relevance = True

    def __init__(self, alpha: float = 0.2, *, degree: str = "graph", paths: bool = False, k: int | None = None) -> None:
        self.alpha, self.degree = fraction("alpha", alpha), choice("degree", degree, ("graph", "subgraph"))
        self.paths = bool(paths)
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the same nodes ordered by ``score(H')``."""
        by_texts = self.paths and not isinstance(question.queries.index.relevance, BiEncoder)
        told = (yield PathTexts(found)) if by_texts else None
        if self.alpha == 0:
            return found.rescored((yield Relevance(found.nodes, texts=told)))
        weights, strength = yield Weights(found.nodes)  # lines 1 to 3
        mix = propagation_matrix(weights, strength if self.degree == "graph" else weights.sum(1))
        return found.rescored((yield Relevance(found.nodes, mix, self.alpha, told)))  # lines 6 to 8
