"""Graph-based adaptive reranking (GAR): two pools, one reranker (MacAvaney et al., CIKM 2022, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.graph.ragged import descending, falling, pad_ranked, pads_last
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking, followed_trails

__all__ = ["AdaptiveReranking"]


class AdaptiveReranking(Operator):
    """Score batches taken in turn from the first ranking and from the neighbours of high-scoring nodes.

    Even rounds take the best `nodes_per_round` of the first ranking, odd rounds the best of the frontier; an empty pool is
    skipped. A neighbour's priority in the frontier is the highest score of the nodes it was reached from.

    Parameters
    ----------
    budget : int, default 100
        Nodes to score.
    nodes_per_round : int, default 10
        Nodes scored a round.
    on_batch : callable, optional
        Called as ``on_batch(round number, nodes [B, nodes_per_round])`` before a batch is scored, for tests and traces.

    Notes
    -----
    What the paper leaves open follows the published code: within a pool, ties go to the node that entered first; a batch
    expands in descending order of (score, node id as text); a node expands only while the frontier holds fewer nodes than
    the budget leaves, or if its score is at least the lowest score that ever added a node; the result is ordered by
    (score, round), descending; in both orders, scores that differ only by rounding are equal. Nodes of the first ranking that
    were never scored come last, each scored one below the node before it.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, Algorithm 1.

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> print(Pipeline(BM25Search(10), AdaptiveReranking(budget=20)).formula())
    O_vs -> (O_vs, O_gs, O_m)*
    """

    kind = OperatorKind.MODEL_SEARCH
    name = "AdaptiveReranking"

    def __init__(
        self, budget: int = 100, nodes_per_round: int = 10, *, on_batch: Callable[[int, Tensor], None] | None = None
    ) -> None:
        self.budget, self.nodes_per_round = positive("budget", budget), positive("nodes_per_round", nodes_per_round)
        self.on_batch = on_batch

    def formula(self) -> str:
        """Return the composition: each round searches one pool, scores, and walks one edge."""
        return "(O_vs, O_gs, O_m)*"

    def kinds(self) -> tuple[OperatorKind, ...]:
        """Return the three kinds that a round interleaves."""
        return (OperatorKind.VECTOR_SEARCH, OperatorKind.GRAPH_SEARCH, OperatorKind.MODEL_SEARCH)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the scored nodes, best first, and behind them what is left of the first ranking."""
        pools = _Pools(queries, ranking, self.budget, self.nodes_per_round)
        round_number = 0
        while pools.go_on():
            drawn = pools.draw(odd=round_number % 2 == 1)
            if drawn is not None:
                if self.on_batch is not None:
                    self.on_batch(round_number, drawn[0])
                pools.take(*drawn, queries.relevance(drawn[0]), round_number)
            round_number += 1
        return pools.result(ranking, self.name)


class _Pools:
    """The state of one run over B queries; frontiers are flat lists under the keys ``query * N + node``."""

    def __init__(self, queries: Queries, ranking: Ranking, budget: int, batch: int) -> None:
        self.queries, self.graph = queries, queries.index.graph
        self.size, self.count = len(self.graph), len(ranking)
        self.device = ranking.nodes.device
        self.budget, self.batch = budget, min(batch, self.size)
        self.initial = ranking.nodes
        self.waiting = ranking.nodes >= 0
        whole = torch.zeros(0, dtype=torch.int64, device=self.device)
        self.keys, self.order, self.parents = whole, whole, whole
        self.priority = torch.zeros(0, device=self.device)
        self.entered = 0
        self.lowest = torch.full((self.count,), float("inf"), device=self.device)
        columns = (self.count, 0)
        self.nodes = torch.zeros(columns, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(columns, device=self.device)
        self.rounds, self.from_, self.origins = self.nodes, self.nodes, self.nodes
        self.id_rank = _id_rank(self.graph.ids, self.device)

    def left(self) -> Tensor:
        """Return how many nodes each query may still score: [B]."""
        return self.budget - (self.nodes >= 0).sum(1)

    def frontier_sizes(self) -> Tensor:
        return torch.bincount(self.keys // self.size, minlength=self.count)

    def go_on(self) -> bool:
        if not self.count:
            return False
        return bool(((self.left() > 0) & (self.waiting.any(1) | (self.frontier_sizes() > 0))).any())

    def draw(self, odd: bool) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return the next nodes of one pool, [B, batch], best first, with parents and origins; None from an empty frontier."""
        if odd:
            if not self.keys.numel():
                return None
            # Ties go to what entered first: pad_ranked sees positions in that order in place of node rows.
            entry = torch.argsort(self.order)
            place, _, _ = pad_ranked(
                self.keys[entry] // self.size, torch.arange(entry.numel(), device=self.device), self.priority[entry], entry,
                self.count, self.batch,
            )  # fmt: skip
            real = place >= 0
            chosen = entry[place.clamp(min=0)]
            nodes = torch.where(real, self.keys[chosen] % self.size, -1)
            parents, origins = torch.where(real, self.parents[chosen], -1), torch.where(real, 1, -1)
        else:
            first = pads_last(self.waiting)[:, : self.batch]
            real = self.waiting.gather(1, first)
            nodes = torch.where(real, self.initial.gather(1, first), -1)
            parents, origins = torch.full_like(nodes, -1), torch.where(real, 0, -1)
        room = torch.arange(nodes.shape[1], device=self.device) < self.left().unsqueeze(1)
        return torch.where(room, nodes, -1), torch.where(room, parents, -1), torch.where(room, origins, -1)

    def take(self, nodes: Tensor, parents: Tensor, origins: Tensor, scores: Tensor, round_number: int) -> None:
        """Keep a scored batch, drop it from both pools, and let it expand the frontier."""
        self.nodes = torch.cat([self.nodes, nodes], 1)
        self.scores = torch.cat([self.scores, scores], 1)
        self.from_ = torch.cat([self.from_, parents], 1)
        self.origins = torch.cat([self.origins, origins], 1)
        self.rounds = torch.cat([self.rounds, torch.full_like(nodes, round_number)], 1)
        self.waiting &= ~(self.initial.unsqueeze(2) == nodes.unsqueeze(1)).any(2)
        self._keep(~torch.isin(self.keys, self._flat(nodes)))
        # Descending (score, id as text): two stable sorts, the lesser key first.
        rank = torch.where(nodes >= 0, self.id_rank[nodes.clamp(min=0)], -1)
        by_id = torch.sort(rank, dim=1, descending=True, stable=True).indices
        turn = by_id.gather(1, descending(scores.gather(1, by_id)))
        nodes, scores = nodes.gather(1, turn), scores.gather(1, turn)
        done = self._flat(self.nodes).sort().values
        for column in range(nodes.shape[1]):
            self._expand(nodes[:, column], scores[:, column], done)

    def _expand(self, node: Tensor, score: Tensor, done: Tensor) -> None:
        left = self.left()
        may = (node >= 0) & (left > 0) & ((self.frontier_sizes() < left) | (score >= self.lowest))
        owner, target = self.graph.neighbors(torch.where(may, node, -1))
        keep = ~torch.isin(owner * self.size + target, done)
        if self.queries.walk_allowed is not None:
            keep &= self.queries.walk_allowed[target]
        owner, target = owner[keep], target[keep]
        key, priority = owner * self.size + target, score[owner]
        held = torch.zeros_like(key, dtype=torch.bool)
        better = held
        if self.keys.numel():
            place = torch.searchsorted(self.keys, key).clamp(max=self.keys.numel() - 1)
            held = self.keys[place] == key
            better = held & (priority > self.priority[place])
            self.priority[place[better]] = priority[better]
            self.parents[place[better]] = node[owner[better]]
        hit = torch.zeros(self.count, dtype=torch.bool, device=self.device)
        hit[owner[better | ~held]] = True
        self.lowest = torch.where(hit & (score < self.lowest), score, self.lowest)
        fresh = ~held
        self.keys = torch.cat([self.keys, key[fresh]])
        self.priority = torch.cat([self.priority, priority[fresh]])
        self.parents = torch.cat([self.parents, node[owner[fresh]]])
        number = torch.arange(self.entered, self.entered + int(fresh.sum()), device=self.device)
        self.order, self.entered = torch.cat([self.order, number]), self.entered + number.numel()
        self._keep(torch.argsort(self.keys))

    def _keep(self, which: Tensor) -> None:
        self.keys, self.order = self.keys[which], self.order[which]
        self.priority, self.parents = self.priority[which], self.parents[which]

    def _flat(self, nodes: Tensor) -> Tensor:
        batch = torch.arange(self.count, device=self.device).unsqueeze(1).expand_as(nodes)
        return (batch * self.size + nodes)[nodes >= 0]

    def result(self, first: Ranking, name: str) -> Ranking:
        by_round = torch.sort(self.rounds, dim=1, descending=True, stable=True).indices
        order = by_round.gather(1, descending(self.scores.gather(1, by_round)))
        order = order.gather(1, pads_last(self.nodes.gather(1, order) >= 0))[:, : self.budget]
        origins = self.origins.gather(1, order)
        operators = (*first.operators, name) if name not in first.operators else first.operators
        origins = torch.where(origins == 1, operators.index(name), origins)
        nodes = self.nodes.gather(1, order)
        trails = followed_trails(nodes, self.from_.gather(1, order))
        found = Ranking(nodes, falling(self.scores.gather(1, order)), trails, origins, operators)
        rest = first.kept(self.waiting)
        lengths = found.lengths()
        merged = found.append(rest, self.budget)
        last = found.scores.masked_fill(found.nodes < 0, float("inf")).amin(1, keepdim=True) if found.width else 0.0
        behind = torch.arange(merged.width, device=self.device).unsqueeze(0) - lengths.unsqueeze(1)
        return replace(merged, scores=torch.where((behind >= 0) & (merged.nodes >= 0), last - 1.0 - behind, merged.scores))


def _id_rank(ids: list[str], device: torch.device) -> Tensor:
    rank = torch.empty(len(ids), dtype=torch.int64)
    rank[sorted(range(len(ids)), key=ids.__getitem__)] = torch.arange(len(ids))
    return rank.to(device)
