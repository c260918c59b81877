"""GRanker: graph denoising of relevance latents (FastInsight, section 3.3, Algorithm 2)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from graph_retrievers.arguments import choice, fraction, positive
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.path_texts import path_texts
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["GRanker", "latent_graph_fusion", "propagation_matrix"]


def propagation_matrix(adjacency: Tensor, degree: Tensor) -> Tensor:
    r"""Return :math:`P = \mathrm{diag}(W 1)^{-1} W` with :math:`W = A D^{-1}` (Algorithm 2, lines 4 and 5).

    Parameters
    ----------
    adjacency : Tensor, shape [..., K, K]
        Weights (or bool) of the edges among the retrieved nodes: symmetric, no self loops.
    degree : Tensor, shape [..., K]
        Degree of each node: the sum of its weights. A neighbour counts inversely to its own degree.

    Returns
    -------
    Tensor, shape [..., K, K], float32
        Rows sum to 1; the row of a node without neighbours is zero.

    Examples
    --------
    >>> propagation_matrix(torch.tensor([[0, 1, 1], [1, 0, 0], [1, 0, 0]]), torch.tensor([2, 1, 3]))
    tensor([[0.0000, 0.7500, 0.2500],
            [1.0000, 0.0000, 0.0000],
            [1.0000, 0.0000, 0.0000]])
    """
    weights = adjacency.float() / torch.where(degree > 0, degree, 1).float().unsqueeze(-2)
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, torch.zeros_like(weights))


def latent_graph_fusion(latents: Tensor, propagation: Tensor, alpha: float) -> Tensor:
    r"""Return :math:`H' = (1 - \alpha) H + \alpha P H` (Algorithm 2, line 6).

    Parameters
    ----------
    latents : Tensor, shape [..., K, d]
        The H of the paper.
    propagation : Tensor, shape [..., K, K]
        The P of the paper; a zero row marks a node without neighbours.
    alpha : float
        Smoothing factor in [0, 1].

    Returns
    -------
    Tensor, shape [..., K, d]
        The H' of the paper. A node without neighbours keeps its latent, where the paper's formula divides by zero.
    """
    if alpha == 0:
        return latents
    linked = (propagation > 0).any(-1, keepdim=True)
    return torch.where(linked, (1 - alpha) * latents + alpha * (propagation @ latents), latents)


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

    def __init__(self, alpha: float = 0.2, *, degree: str = "graph", paths: bool = False, k: int | None = None) -> None:
        self.alpha, self.degree = fraction("alpha", alpha), choice("degree", degree, ("graph", "subgraph"))
        self.paths = bool(paths)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the same nodes ordered by ``score(H')``."""
        texts = path_texts(queries.index, ranking) if self.paths else None
        if self.alpha == 0:
            return ranking.rescored(queries.relevance(ranking.nodes, texts=texts))
        propagation = self._propagation(queries, ranking.nodes)
        mix = partial(latent_graph_fusion, propagation=propagation, alpha=self.alpha)
        return ranking.rescored(queries.relevance(ranking.nodes, mix, texts))

    def _propagation(self, queries: Queries, nodes: Tensor) -> Tensor:
        graph = queries.index.graph
        left, right = torch.broadcast_tensors(nodes.unsqueeze(2), nodes.unsqueeze(1))
        adjacency = graph.adjacency(left, right)
        degree = graph.strength[nodes.clamp(min=0)] if self.degree == "graph" else adjacency.sum(-1)
        return propagation_matrix(adjacency, degree)
