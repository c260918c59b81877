"""Traversal strategies, O_vgs: which of the nodes found so far to visit next, as in DataStax's graph-retriever."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from graph_retrievers.arguments import fraction, is_number, positive
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.ragged import columns_of, descending, falling, gather_rows, pad_ranked, pads_last
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking, extended_relations, extended_trails
from graph_retrievers.signals.dense import DenseIndex

__all__ = ["EagerTraversal", "MMRTraversal", "ScoredTraversal"]

Scorer = Callable[[Node, float, int], float]

# The largest score of single precision.
_LARGEST = torch.finfo(torch.float32).max
# Scores of MMR that differ by less are equal.
_ROUNDING = 1e-6
# Nodes that are visited at most for each that is selected, where a filter keeps nodes from being selected.
_VISITED = 10
_NOTE = "the traversal ended after {} nodes, most of which the filter does not allow"


@dataclass
class _Pool:
    """The nodes found for each query: columns of [B, P], in the order they were found; a node of -1 is a pad.

    `value` is what the strategy keeps of a node, `score` that with which it was visited, `turn` says when (-1: not yet).
    """

    nodes: Tensor
    cosines: Tensor
    depth: Tensor
    value: Tensor
    score: Tensor
    turn: Tensor
    origins: Tensor
    trails: Tensor
    relations: Tensor

    @property
    def visited(self) -> Tensor:
        return self.turn >= 0

    @property
    def waiting(self) -> Tensor:
        return (self.nodes >= 0) & ~self.visited

    def append(self, other: _Pool) -> None:
        length = max(self.trails.shape[2], other.trails.shape[2])
        for part in (self, other):
            wider = (length - part.trails.shape[2], 0)
            part.trails, part.relations = pad(part.trails, wider, value=-1), pad(part.relations, wider, value=-1)
        for column in fields(self):
            setattr(self, column.name, torch.cat([getattr(self, column.name), getattr(other, column.name)], 1))


class _StrategyTraversal(Operator):
    """Visit nodes in rounds, and offer the best neighbours of those visited to the next round."""

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, select_k: int | None = None, *, adjacent_k: int = 10, max_depth: int | None = None) -> None:
        self.k = self.select_k = None if select_k is None else positive("select_k", select_k)
        self.adjacent_k = positive("adjacent_k", adjacent_k)
        self.max_depth = None if max_depth is None else positive("max_depth", max_depth, least=0)

    @abstractmethod
    def choose(self, queries: Queries, pool: _Pool, remaining: Tensor) -> tuple[Tensor, Tensor]:
        """Return which waiting nodes to visit now, as their places in this round (-1: not now), and scores: Tensors, [B, P].

        `remaining`, shape [B, 1], is how many nodes are still to be selected.
        """

    def values(self, queries: Queries, pool: _Pool | None, nodes: Tensor, cosines: Tensor, depth: Tensor) -> Tensor:
        """Return what is kept of new nodes, shape [B, M]; by default their cosines. `pool` is None for the first nodes."""
        return cosines

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the visited nodes; the nodes of the ranking before are the start."""
        most = min(self.select_k or queries.k, len(queries.index))
        size, nodes = len(queries.index), ranking.nodes
        # Nodes that were neighbours of a visited one before, as query * N + node, ascending: each is offered once.
        offered = torch.empty(0, dtype=torch.int64, device=nodes.device)
        pool = self._new(queries, None, nodes, torch.zeros_like(nodes), (ranking.trails, ranking.steps()), ranking.origins)
        while True:
            allowed = pool.visited if queries.allowed is None else pool.visited & queries.allowed[pool.nodes.clamp(min=0)]
            remaining = (most - allowed.sum(1, keepdim=True)).clamp(min=0)
            cut = (pool.visited.sum(1, keepdim=True) >= _VISITED * most) & (remaining > 0)
            place, scores = self.choose(queries, pool, remaining.masked_fill(cut, 0))
            now = (place >= 0) & pool.waiting & (remaining > 0) & ~cut
            if not bool(now.any()):
                break
            pool.turn = torch.where(now, place + pool.turn.amax(1, keepdim=True) + 1, pool.turn)
            pool.score = torch.where(now, scores, pool.score)
            walked = now if self.max_depth is None else now & (pool.depth < self.max_depth)
            offered = self._grow(queries, pool, walked, offered, size, len(ranking.operators))
        order = torch.sort(pool.turn.masked_fill(~pool.visited, torch.iinfo(torch.int64).max), dim=1, stable=True).indices
        columns = {name: getattr(pool, name).gather(1, order) for name in ("nodes", "score", "origins")}
        trails, relations = (
            column.gather(1, order.unsqueeze(2).expand_as(column)) for column in (pool.trails, pool.relations)
        )
        operators = (*ranking.operators, self.name)
        found = Ranking(columns["nodes"], columns["score"], trails, columns["origins"], operators, relations)
        found = self.ordered(found.kept(pool.visited.gather(1, order)))
        if queries.allowed is not None:
            found = found.only(queries.allowed)
        return found.top(most).trimmed().noted(cut.flatten().tolist(), _NOTE.format(_VISITED * most))

    def ordered(self, found: Ranking) -> Ranking:
        """Return the nodes, given in the order of their visits, as they are returned."""
        return replace(found, scores=falling(found.scores))

    def _new(
        self, queries: Queries, pool: _Pool | None, nodes: Tensor, depth: Tensor, paths: tuple[Tensor, Tensor], origins: Tensor
    ) -> _Pool:
        """Return new columns; `paths` are trails and their relations."""
        batch = torch.arange(len(queries), device=nodes.device).unsqueeze(1).expand_as(nodes)
        cosines = queries.cosines(batch, nodes.clamp(min=0)).float().masked_fill(nodes < 0, -torch.inf)
        value = self.values(queries, pool, nodes, cosines, depth)
        unvisited = torch.full_like(cosines, -torch.inf), torch.full_like(nodes, -1)
        return _Pool(nodes, cosines, depth, value, *unvisited, origins, *paths)

    def _grow(self, queries: Queries, pool: _Pool, walked: Tensor, offered: Tensor, size: int, origin: int) -> Tensor:
        """Add the best neighbours of the nodes `walked`, shape [B, P], bool; return what has been offered then."""
        graph = queries.index.graph
        batch, column = walked.nonzero(as_tuple=True)
        owner, entry = gather_rows(graph.indptr, pool.nodes[batch, column])
        batch, column, node = batch[owner], column[owner], graph.indices[entry].long()
        key = batch * size + node
        fresh = torch.ones_like(key, dtype=torch.bool)
        if offered.numel():
            fresh = offered[torch.searchsorted(offered, key).clamp(max=offered.numel() - 1)] != key
        if queries.walk_allowed is not None:
            fresh &= queries.walk_allowed[node]
        batch, column, node, key = batch[fresh], column[fresh], node[fresh], key[fresh]
        # The parent of a node is the least deep of those that lead to it, of several the one visited first.
        order = torch.argsort(pool.turn[batch, column], stable=True)
        order = order[torch.argsort(pool.depth[batch, column][order], stable=True)]
        order = order[torch.argsort(key[order], stable=True)]
        key = key[order]
        first = torch.ones_like(key, dtype=torch.bool)
        first[1:] = key[1:] != key[:-1]
        batch, column, node = batch[order][first], column[order][first], node[order][first]
        cosines, most = queries.cosines(batch, node).float(), min(self.adjacent_k, size)
        table, _, parent = pad_ranked(batch, node, cosines, column, len(queries), most)
        # A start node that a neighbour leads to takes one of the places, as in the original.
        table = table.masked_fill(columns_of(pool.nodes, table) >= 0, -1)
        # Columns of pads alone would be copied in each round to come.
        used = (table >= 0).any(0)
        table, parent = table[:, used], parent[:, used]
        depth = pool.depth.gather(1, parent.clamp(min=0)) + 1
        paths = extended_trails(pool.trails, parent, table), extended_relations(pool.relations, parent, table)
        pool.append(self._new(queries, pool, table, depth, paths, torch.where(table >= 0, origin, -1)))
        return torch.cat([offered, key[first]]).sort().values


class EagerTraversal(_StrategyTraversal):
    """Visit all that is found, layer by layer (breadth first), until enough nodes are selected.

    Parameters
    ----------
    select_k : int, optional
        Nodes to return; by default the number of hits requested.
    adjacent_k : int, default 10
        Neighbours that a round adds to what is found: those of all nodes visited in the round before, by cosine with the query.
    max_depth : int, optional
        Edges between a start node and a node whose neighbours are read, less one: 0 reads none. Without it there is no limit.

    Notes
    -----
    The nodes of the ranking before are the start (``VectorSearch(4, returned=False)``, the original's `start_k`). A neighbour
    counts among the `adjacent_k` once: if it is not one of the best then, it is not found by another edge later; a start node
    takes a place though it was found before. All this is as in the package graph-retriever 0.8.0, with links as edges.

    Departures: edges are followed both ways; ties go to the lower node row; the depth of a node is that by its own edges, where
    the package gives all nodes of a round that of the first; an edge from a node to itself leads nowhere, where in the package a
    start node that links to itself takes a place among its own neighbours; `max_traverse`, which the package declares and does
    not read, is left out. Nodes that a filter does not allow may be walked through; ten times as many nodes as are asked for are
    visited at most, and a note says if that ended the search.

    The score is the cosine, less 2 for each edge from the start, so that it falls along the layers.

    References
    ----------
    DataStax, graph-retriever, ``graph_retriever.strategies.Eager``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever, VectorSearch
    >>> vectors = [[1, 0], [0, 1], [0.8, 0.6]]
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> search = Pipeline(VectorSearch(1, returned=False), EagerTraversal())
    >>> [hit.path.text for hit in Retriever(index, search).retrieve("loom", vector=[1, 0])]
    ['0', '0 -> 2', '0 -> 1']
    """

    def choose(self, queries: Queries, pool: _Pool, remaining: Tensor) -> tuple[Tensor, Tensor]:
        """Return all that waits, in the order it was found."""
        now = pool.waiting
        return torch.where(now, torch.cumsum(now, 1) - 1, -1), pool.value - 2 * pool.depth


class ScoredTraversal(_StrategyTraversal):
    """Visit the nodes with the best scores of all that is found, as many a round as are still to be selected.

    Parameters
    ----------
    select_k, adjacent_k, max_depth
        As for :class:`EagerTraversal`, as are the notes.
    scorer : callable, optional
        From a node, its cosine with the query and its depth to a number; called once for each node that is found. By default
        the cosine.
    per_iteration_limit : int, optional
        Nodes to visit in a round at most; fewer look further into the graph.

    References
    ----------
    DataStax, graph-retriever, ``graph_retriever.strategies.Scored``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever, VectorSearch
    >>> vectors = [[1, 0], [0, 1], [0.8, 0.6]]
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> longest = ScoredTraversal(scorer=lambda node, similarity, depth: similarity + len(node.title or node.text) / 100)
    >>> search = Pipeline(VectorSearch(1, returned=False), longest)
    >>> [hit.text for hit in Retriever(index, search).retrieve("loom", vector=[1, 0])]
    ['a loom', 'a mill', 'a card']
    """

    def __init__(
        self,
        select_k: int | None = None,
        *,
        adjacent_k: int = 10,
        max_depth: int | None = None,
        scorer: Scorer | None = None,
        per_iteration_limit: int | None = None,
    ) -> None:
        super().__init__(select_k, adjacent_k=adjacent_k, max_depth=max_depth)
        if scorer is not None and not callable(scorer):
            raise InvalidArgumentError(f"scorer must be a function of a node, its similarity and its depth, got {shown(scorer)}.")
        self.scorer = scorer
        self.per_iteration_limit = None if per_iteration_limit is None else positive("per_iteration_limit", per_iteration_limit)

    def values(self, queries: Queries, pool: _Pool | None, nodes: Tensor, cosines: Tensor, depth: Tensor) -> Tensor:
        """Return the scores of new nodes."""
        if self.scorer is None:
            return cosines
        graph, scorer = queries.index.graph, self.scorer
        real = nodes >= 0
        asked = zip(nodes[real].tolist(), cosines[real].tolist(), depth[real].tolist(), strict=True)
        given: list[Any] = [scorer(graph.node(row), cosine, steps) for row, cosine, steps in asked]
        for row, score in zip(nodes[real].tolist(), given, strict=True):
            if not is_number(score) or not abs(score) <= _LARGEST:
                raise InvalidArgumentError(
                    f"scorer gave {shown(score)} for node {graph.ids[row]!r}; expected a number up to {_LARGEST:.2g}."
                )
        scores = torch.full_like(cosines, -torch.inf)
        scores[real] = torch.tensor([float(score) for score in given], dtype=scores.dtype, device=scores.device)
        return scores

    def choose(self, queries: Queries, pool: _Pool, remaining: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best that waits; nodes whose neighbours are not read do not count."""
        limit = remaining if self.per_iteration_limit is None else remaining.clamp(max=self.per_iteration_limit)
        order = torch.argsort(pool.nodes, dim=1, stable=True)
        order = order.gather(1, descending(pool.value.masked_fill(~pool.waiting, -torch.inf).gather(1, order)))
        counted = pool.waiting if self.max_depth is None else pool.waiting & (pool.depth < self.max_depth)
        counted = counted.gather(1, order).long()
        now = (torch.cumsum(counted, 1) - counted < limit) & pool.waiting.gather(1, order)
        place = torch.where(now, torch.arange(order.shape[1], device=order.device), -1)
        return torch.full_like(order, -1).scatter_(1, order, place), pool.value

    def ordered(self, found: Ranking) -> Ranking:
        """Return the nodes by score, equal ones in the order of their visits."""
        return found.rescored(found.scores)


class MMRTraversal(_StrategyTraversal):
    r"""Visit one node at a time: the one most like the query and least like those visited before (maximal marginal relevance).

    A node n that is found and not visited scores, with V the visited nodes,

    .. math:: \lambda \cos(q, n) - (1 - \lambda) \max_{v \in V} \cos(n, v).

    Parameters
    ----------
    select_k, adjacent_k, max_depth
        As for :class:`EagerTraversal`, as are the notes.
    lambda_mult : float in [0, 1], default 0.5
        The lambda of the equation: 1 for similarity alone, 0 for diversity alone.
    min_mmr_score : float, default -inf
        The traversal ends when the best score is below this.

    Notes
    -----
    As in the package, the maximum is 0 where nothing was visited, and is not below 0 for the start nodes. The score of a hit is
    the lowest with which it or one before it was visited.

    References
    ----------
    DataStax, graph-retriever, ``graph_retriever.strategies.Mmr``. Carbonell and Goldstein, "The use of MMR, diversity-based
    reranking for reordering documents and producing summaries", SIGIR 1998.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever, VectorSearch
    >>> vectors = [[1, 0], [1, 0.1], [0.7, -0.7]]
    >>> index = GraphIndex.from_texts(["a loom", "the loom", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> search = Pipeline(VectorSearch(1, returned=False), MMRTraversal(2, lambda_mult=0.4))
    >>> [hit.text for hit in Retriever(index, search).retrieve("loom", k=2, vector=[1, 0])]
    ['a loom', 'a mill']
    """

    def __init__(
        self,
        select_k: int | None = None,
        *,
        adjacent_k: int = 10,
        max_depth: int | None = None,
        lambda_mult: float = 0.5,
        min_mmr_score: float = -math.inf,
    ) -> None:
        super().__init__(select_k, adjacent_k=adjacent_k, max_depth=max_depth)
        self.lambda_mult = fraction("lambda_mult", lambda_mult)
        if not is_number(min_mmr_score) or math.isnan(min_mmr_score):
            raise InvalidArgumentError(f"min_mmr_score must be a number, got {shown(min_mmr_score)}.")
        self.min_mmr_score = float(min_mmr_score)

    def values(self, queries: Queries, pool: _Pool | None, nodes: Tensor, cosines: Tensor, depth: Tensor) -> Tensor:
        """Return the largest cosine of new nodes with a visited one, 0 where there is none."""
        if pool is None:
            return torch.zeros_like(cosines)
        order = pads_last(pool.visited)[:, : int(pool.visited.sum(1).max())]
        before, real = pool.nodes.gather(1, order), pool.visited.gather(1, order).unsqueeze(1)
        near = torch.bmm(self._vectors(queries, nodes), self._vectors(queries, before).transpose(1, 2)).float()
        return near.masked_fill(~real, -torch.inf).amax(2)

    def choose(self, queries: Queries, pool: _Pool, remaining: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best that waits, of equal ones that of the lowest row, and count it among those visited."""
        waiting = pool.waiting & (remaining > 0)
        scores = self.lambda_mult * pool.cosines.clamp(min=-1) - (1 - self.lambda_mult) * pool.value
        scores = scores.masked_fill(~waiting, -torch.inf)
        if not scores.shape[1]:
            return torch.full_like(pool.nodes, -1), scores
        best = scores.amax(1, keepdim=True)
        level = waiting & (scores >= best - _ROUNDING)
        column = pool.nodes.masked_fill(~level, torch.iinfo(torch.int64).max).argmin(1, keepdim=True)
        good = level.any(1, keepdim=True) & (best >= self.min_mmr_score - _ROUNDING)
        vector = self._vectors(queries, pool.nodes.gather(1, column))
        near = torch.bmm(self._vectors(queries, pool.nodes), vector.transpose(1, 2)).squeeze(2).float()
        pool.value = torch.where(good, torch.maximum(pool.value, near), pool.value)
        return torch.full_like(pool.nodes, -1).scatter_(1, column, torch.where(good, 0, -1)), scores

    def _vectors(self, queries: Queries, nodes: Tensor) -> Tensor:
        """Return the unit vectors of nodes, shape [B, M]: Tensor, shape [B, M, d], float64; zeros for pads."""
        dense = queries.index.dense
        if not isinstance(dense, DenseIndex):
            raise MissingSignalError(
                f"MMR compares nodes with each other and reads their vectors, which {type(dense).__name__} does not give; build "
                "the index with vectors in memory."
            )
        return normalize(dense.taken(nodes.clamp(min=0)).double(), dim=2) * (nodes >= 0).unsqueeze(2)
