"""Typed paths walked from many starts at once (MoR, section 3.2.1), and the trajectories back (section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from graph_retrievers.operators.mor.adjacency import TypedAdjacency, distinct
from graph_retrievers.operators.mor.plan import GraphSchema, ReasoningPath

__all__ = ["Routes", "Walk", "find", "walk"]


# Larger than every rank * N + row, and than every place among the matches of one layer.
_FAR, _PLACES = 1 << 62, 1 << 20


@dataclass(frozen=True)
class Routes:
    """The R paths of a batch of plans, as numbers; S is the number of nodes of the longest."""

    paths: list[ReasoningPath]
    owner: list[int]  # query of each path, ascending
    # Kinds of edges of each step, [S - 1][R], forwards and back, as half-open ranges; empty where a path has ended.
    low: list[list[int]]
    high: list[list[int]]
    back_low: list[list[int]]
    back_high: list[list[int]]

    @classmethod
    def of(cls, plans: list[tuple[ReasoningPath, ...]], adjacency: TypedAdjacency, schema: GraphSchema) -> Routes:
        """Return the routes of plans, one tuple of paths for each query.

        An adjacency ordered by type steps to the planned type. One ordered by relation steps along the planned relation alone;
        where the plan has none, along the alphabetically last one that joins the two types.
        """
        paths = [path for plan in plans for path in plan]
        owner = [query for query, plan in enumerate(plans) for _ in plan]

        @cache
        def span(kind: str, relation: str | None, other: str) -> tuple[int, int]:
            if adjacency.order == "type":
                return adjacency.span(kind, relation)
            return adjacency.span(None, relation if relation is not None else schema.relations(other, kind)[-1])

        ranges: list[list[list[int]]] = [[], [], [], []]
        for step in range(1, max((len(p) for p in paths), default=1)):
            cells = []
            for path in paths:
                near, far = path.steps[step - 1 : step + 1] if step < len(path) else (None, None)
                ahead = span(far.type, far.relation, near.type) if near and far else (0, 0)
                back = span(near.type, far.relation, far.type) if near and far else (0, 0)
                cells.append((*ahead, *back))
            for rows, row in zip(ranges, zip(*cells, strict=True), strict=True):
                rows.append(list(row))
        return cls(paths, owner, *ranges)


@dataclass
class Walk:
    """What :func:`walk` found, with what it was given."""

    adjacency: TypedAdjacency
    routes: Routes
    layers: list[Tensor]  # keys route * N + node of each layer, ascending and distinct
    finals: Tensor  # keys of the last layer of each route, ascending
    entries: list[tuple[Tensor, Tensor]]
    cut: set[int]  # routes that reached the limit on edges
    max_edges: int | None

    def trails(self, route: Tensor, nodes: Tensor) -> Tensor:
        """Return how nodes of ``finals`` [P] were reached by their routes [P], from start to node, -1 padded at the left: [P, S].

        The longest of several ways counts, among equal ones that from the best matching start, then that over the lowest row. A
        node that text matching found, and no edge, starts a trail of its own.
        """
        size, count = self.adjacency.num_nodes, len(self.routes.paths)
        device = nodes.device
        longest = len(self.layers)
        table = torch.full((nodes.numel(), longest), -1, dtype=torch.int64, device=device)
        if nodes.numel() == 0:
            return table
        table[:, -1] = nodes
        layer = torch.tensor([len(p) - 1 for p in self.routes.paths], device=device)[route]
        held = torch.cat([keys + i * count * size for i, keys in enumerate(self.layers)])
        ranks = torch.cat(self._ranks())
        low = torch.tensor([[0] * count, *self.routes.back_low], device=device)
        high = torch.tensor([[0] * count, *self.routes.back_high], device=device)
        here, going = nodes, layer > 0
        for column in range(longest - 2, -1, -1):
            step = torch.where(going, layer, 0)
            start, length = self.adjacency.slices(here.clamp(min=0), low[step, route], high[step, route])
            owner, neighbor = self.adjacency.read(start, length)
            place, member = find(held, (step[owner] - 1) * count * size + route[owner] * size + neighbor)
            best = torch.full_like(here, _FAR)
            best.scatter_reduce_(0, owner[member], ranks[place[member]] * size + neighbor[member], "amin")
            going = going & (best < _FAR)
            here = torch.where(going, best % size, -1)
            table[:, column] = here
            layer = layer - 1
            going = going & (layer > 0)
        return table

    def _ranks(self) -> list[Tensor]:
        """Return for every key of every layer where its best trail starts: earlier layers first, then better matches."""
        size = self.adjacency.num_nodes
        if not bool(self.entries[0][1].any()) and not any(len(keys) for keys, _ in self.entries[1:]):
            # Every route has one start: there is nothing to choose between.
            return [torch.zeros_like(keys) for keys in self.layers]
        ranks = [torch.full_like(keys, _FAR // size - 1) for keys in self.layers]
        for layer, (keys, place) in enumerate(self.entries):
            if layer:
                frontier, low, high = self.layers[layer - 1], self.routes.low[layer - 1], self.routes.high[layer - 1]
                owner, neighbor, _ = self.adjacency.edges(frontier, low, high, self.max_edges)
                spot, there = find(self.layers[layer], frontier[owner] // size * size + neighbor)
                ranks[layer].scatter_reduce_(0, spot[there], ranks[layer - 1][owner[there]], "amin")
            spot, there = find(self.layers[layer], keys)
            ranks[layer].scatter_reduce_(0, spot[there], (layer * _PLACES + place)[there], "amin")
        return ranks


def find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of `wanted` in ascending `keys`, and which of them are there."""
    if keys.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp(max=keys.numel() - 1)
    return place, keys[place] == wanted


def walk(
    adjacency: TypedAdjacency,
    routes: Routes,
    entries: list[tuple[Tensor, Tensor]],
    *,
    banned: Tensor | None = None,
    allowed: Tensor | None = None,
    max_edges: int | None = None,
) -> Walk:
    """Walk every route from its starts, layer by layer (MoR, equations 4 and 6).

    `entries` has for each layer the keys ``route * N + node`` that start there, ascending and distinct (the seeds in the first
    layer, text matches in later ones), and the place of each among those of its route, 0 for the best. `banned` are keys that a
    route may start from but not return to, `allowed`, bool [N], the nodes that may be walked to; a route reads at most
    `max_edges` edges in a step.
    """
    size = adjacency.num_nodes
    layers, cut = [entries[0][0]], set[int]()
    for step, (extra, _) in enumerate(entries[1:]):
        reached, met = adjacency.step(layers[-1], routes.low[step], routes.high[step], max_edges)
        if allowed is not None:
            reached = reached[allowed[reached % size]]
        if extra.numel():
            reached = distinct(torch.cat([reached, extra]), len(routes.paths) * size)
        if banned is not None and banned.numel():
            reached = reached[~torch.isin(reached, banned)]
        if met is not None:
            cut.update(met.tolist())
        layers.append(reached)
    # The last layer of each route: routes may differ in length.
    lengths, finals = [len(path) for path in routes.paths], layers[-1]
    if any(length < len(layers) for length in lengths):
        ends = torch.tensor(lengths, dtype=torch.int64, device=finals.device)
        finals = torch.sort(torch.cat([keys[ends[keys // size] == layer] for layer, keys in enumerate(layers, 1)])).values
    return Walk(adjacency, routes, layers, finals, entries, cut, max_edges)
