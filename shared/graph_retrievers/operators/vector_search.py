"""Vector search, O_vs: nodes whose vectors, words or both are nearest to the query (FastInsight, Definition 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import top_k
from graph_retrievers.index import QueryBatch
from graph_retrievers.operators.operator import Operator, OperatorKind, Ranking, list_weights, positive

__all__ = ["BM25Search", "HybridSearch", "VectorSearch"]


def _both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    return left if right is None else right if left is None else left & right


def seed_mask(queries: QueryBatch, returned: bool) -> Tensor | None:
    """Return which nodes a search may bring: those that may start, and may be returned if `returned`."""
    return _both(queries.seeds_allowed, queries.allowed if returned else None)


class VectorSearch(Operator):
    """The k nodes with the largest dot product of node and query vector.

    Parameters
    ----------
    k : int, optional
        Nodes to find; by default as many as hits are asked for.
    returned : bool, default True
        Whether the return filter applies here too: True where the hits are the result, False where they are
        seeds of a traversal that may pass through nodes that are not returned.

    Notes
    -----
    Exact. Ties go to the lower node row. For unit vectors the dot product is the cosine.
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, k: int | None = None, *, returned: bool = True) -> None:
        self.k = None if k is None else positive("k", k)
        self.returned = returned

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Return the k nearest nodes of each query; what came before is not read."""
        scores, rows = queries.index.dense.search(queries.vectors, self.k or queries.k, seed_mask(queries, self.returned))
        return Ranking.seeds(rows, scores, self.name)


class BM25Search(Operator):
    """The k nodes with the largest BM25 score; nodes without a word of the query are not found.

    Parameters
    ----------
    k : int, optional
        Nodes to find; by default as many as hits are asked for.
    returned : bool, default True
        As for :class:`VectorSearch`.
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, k: int | None = None, *, returned: bool = True) -> None:
        self.k = None if k is None else positive("k", k)
        self.returned = returned

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Return the k best matches of each query; what came before is not read."""
        scores, rows = queries.index.lexical.search(queries.texts, self.k or queries.k, seed_mask(queries, self.returned))
        return Ranking.seeds(rows, scores, self.name)


class HybridSearch(Operator):
    r"""Dense and lexical search fused.

    With ``fusion="rrf"`` (reciprocal rank fusion, Cormack et al., SIGIR 2009) a node scores
    :math:`\sum_s w_s / (c + r_s)` over the searches s that find it among their `depth` best, at rank r_s >= 1.
    With ``fusion="weighted"`` it scores :math:`\sum_s w_s \hat{x}_s`, each search's scores brought to [0, 1] by
    min-max over its `depth` best; a node that a search does not find has 0 there.

    Parameters
    ----------
    k : int, optional
        Nodes to find; by default as many as hits are asked for.
    fusion : {"rrf", "weighted"}, default "rrf"
    weights : sequence of two floats, default (1.0, 1.0)
        Of dense and lexical search.
    depth : int, default 100
        Nodes taken from each search (k if that is more).
    constant : int, default 60
        The c of reciprocal rank fusion.
    returned : bool, default True
        As for :class:`VectorSearch`.
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(
        self,
        k: int | None = None,
        *,
        fusion: str = "rrf",
        weights: Sequence[float] = (1.0, 1.0),
        depth: int = 100,
        constant: int = 60,
        returned: bool = True,
    ) -> None:
        if fusion not in ("rrf", "weighted"):
            raise InvalidArgumentError(f"Unknown fusion {fusion!r}; choose 'rrf' or 'weighted'.")
        self.k = None if k is None else positive("k", k)
        self.fusion, self.weights, self.constant = fusion, list_weights(weights, 2), positive("constant", constant)
        self.depth = positive("depth", depth)
        self.returned = returned

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Return nodes by fused score; what came before is not read."""
        allowed = seed_mask(queries, self.returned)
        index = queries.index
        k = self.k or queries.k
        depth = max(self.depth, k)
        # A composition may ask for the same two searches several times, to seed one thing and another.
        key = f"hybrid search {depth} {self.returned and queries.allowed is not None}"
        if key not in queries.memo:
            dense = index.dense.search(queries.vectors, depth, allowed)
            queries.memo[key] = dense, index.lexical.search(queries.texts, depth, allowed)
        dense, lexical = queries.memo[key]
        parts, rows = [], []
        for weight, (scores, nodes) in zip(self.weights, (dense, lexical), strict=True):
            parts.append(weight * (self._reciprocal(nodes) if self.fusion == "rrf" else _min_max(scores, nodes)))
            rows.append(nodes)
        fused, nodes = fuse(torch.cat(rows, 1), torch.cat(parts, 1))
        values, columns = top_k(fused, k)
        return Ranking.seeds(nodes.gather(1, columns), values, self.name)

    def _reciprocal(self, nodes: Tensor) -> Tensor:
        rank = torch.arange(1, nodes.shape[1] + 1, device=nodes.device)
        return (1.0 / (self.constant + rank)).expand_as(nodes)


def _min_max(scores: Tensor, nodes: Tensor) -> Tensor:
    real = nodes >= 0
    low = scores.masked_fill(~real, float("inf")).amin(1, keepdim=True)
    high = scores.masked_fill(~real, float("-inf")).amax(1, keepdim=True)
    return torch.where(high > low, (scores - low) / (high - low), torch.ones_like(scores))


def fuse(nodes: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the parts of each node over the lists that found it.

    Parameters
    ----------
    nodes : Tensor, shape [B, M], int64
        Node rows with repetitions; -1 pads.
    parts : Tensor, shape [B, M], float32

    Returns
    -------
    scores : Tensor, shape [B, M], float32
        -inf where a column holds no node any more.
    nodes : Tensor, shape [B, M], int64
        Ascending, each once; -1 elsewhere.
    """
    nodes, order = torch.sort(nodes, dim=1, stable=True)
    parts = parts.gather(1, order).masked_fill(nodes < 0, 0.0)
    first = torch.ones_like(nodes, dtype=torch.bool)
    first[:, 1:] = nodes[:, 1:] != nodes[:, :-1]
    slot = torch.cumsum(first, 1) - 1
    sums = torch.zeros_like(parts).scatter_add_(1, slot, parts)
    distinct = torch.full_like(nodes, -1).scatter_(1, slot, nodes)
    return sums.masked_fill(distinct < 0, float("-inf")), distinct
