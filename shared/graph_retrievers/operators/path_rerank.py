"""Path reranking, O_gm: a relevance model reads each node together with the node that it was reached from."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.cache import Cache
from graph_retrievers.graph.ragged import placed
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.path_texts import path_texts
from graph_retrievers.queries import LatentCache, Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.relevance import RelevanceModel

__all__ = ["PathRerank", "mixed_with_ranks"]


class PathRerank(Operator):
    r"""Rerank nodes by a relevance model that reads the way to them, mixed with their ranks.

    .. math:: s_n = w\, z\big(m(q, n \oplus (p_n \to n) \oplus p_n)\big) + (1 - w)\, z(-\log r_n)

    for the first `depth` nodes that may be returned, where m is the relevance model of the index, :math:`p_n` the node before n
    on its trail, :math:`r_n \ge 1` its rank so far among them, and z takes the mean of a question's nodes away and divides by their
    standard deviation.

    Parameters
    ----------
    weight : float, default 0.5
        The w of the equation, in [0, 1]: 0 keeps the order and asks no model, 1 leaves the ranks out.
    depth : int, default 30
        Nodes to rerank; those behind them keep their places.
    model : RelevanceModel, optional
        In place of that of the index, for instance one that was trained to read paths.
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    A second passage often does not mention what the question asks about; the first one, which links to it, does. Read together,
    they can be judged. What the model reads is said in :func:`~graph_retrievers.operators.path_texts.path_texts`. Nodes without a
    path, and all nodes where the relevance model is the similarity of vectors, are read alone. A node's own text comes first, so
    that one that fills what the model reads (``max_length``) leaves no room for its path. Of the nodes that a `filter` leaves out,
    the model reads those on paths; a `scope` or a `traversal_filter` keeps them from it.

    References
    ----------
    A composition of this package. MoR (Lei et al., section 3.3) reranks by features of trajectories; monoT5 and other rerankers
    read a candidate alone.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.operators import Pipeline, STeX, VectorSearch
    >>> index = GraphIndex.from_texts(
    ...     ["Ada knew Babbage.", "He built engines.", "A mill."], edges=[("0", "1")], vectors=[[1, 0], [0, 1], [0.6, 0.8]],
    ...     relevance=lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs],
    ... )
    >>> queries = Queries.of(index, ["Which engines did Ada's friend build?"], vectors=[[1, 0]])
    >>> Pipeline(VectorSearch(1), STeX(), PathRerank(1.0, k=2))(queries).nodes
    tensor([[1, 0]])
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self, weight: float = 0.5, *, depth: int = 30, model: RelevanceModel | None = None, k: int | None = None
    ) -> None:
        self.weight, self.depth, self.model = fraction("weight", weight), positive("depth", depth), model
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the same nodes, the first `depth` that may be returned by the mixed scores."""
        if self.weight == 0 or not ranking.nodes.numel():
            return ranking
        real = ranking.nodes >= 0
        moves = real if queries.allowed is None else real & queries.allowed[ranking.nodes.clamp(min=0)]
        moves = moves & (moves.cumsum(1) <= self.depth)
        found = self._scores(queries, replace(ranking, nodes=ranking.nodes.masked_fill(~moves, -1)))
        orders, scores = [], []
        for b, here in enumerate(moves):
            mixed = found[b].double().masked_scatter(here, mixed_with_ranks(found[b][here], self.weight))
            order, kept = placed(ranking.scores[b], mixed, here, real[b])
            orders.append(order)
            scores.append(kept)
        return replace(ranking.reordered(torch.stack(orders)), scores=torch.stack(scores))

    def _scores(self, queries: Queries, ranking: Ranking) -> Tensor:
        """Return the relevance model's scores of nodes read with their paths: Tensor, shape [B, K], -inf on pads."""
        asked = queries
        if self.model is not None:
            index = queries.index.with_models(relevance=self.model)
            asked = replace(queries, index=index, cache=Cache(), latents=LatentCache())
        scores = asked.relevance(ranking.nodes, texts=path_texts(asked.index, ranking))
        if asked is not queries:
            queries.latents.encoded += asked.latents.encoded
        return scores


def mixed_with_ranks(scores: Tensor, weight: float) -> Tensor:
    """Return the scores of the equation of :class:`PathRerank`: Tensor, shape [n], float64.

    `scores`, shape [n], are those of the relevance model, in the order of the ranking.

    >>> mixed_with_ranks(torch.tensor([0.0, 1.0]), 0.75)
    tensor([-0.5000,  0.5000], dtype=torch.float64)
    """
    ranks = torch.arange(1, scores.numel() + 1, device=scores.device)
    return weight * _standardized(scores.double()) + (1 - weight) * _standardized(-ranks.double().log())


def _standardized(values: Tensor) -> Tensor:
    if not values.numel():
        return values
    centred = values - values.mean()
    spread = centred.square().mean().sqrt()
    # Of scores that are equal but for rounding, the differences tell nothing.
    return centred / spread if float(spread) > 1e-6 * float(values.abs().max()) else torch.zeros_like(values)
