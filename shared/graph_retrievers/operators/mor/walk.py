"""Walking typed paths from many starts at once, and finding back how a node was reached."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graph_retrievers.operators.mor.adjacency import TypedAdjacency, distinct
from graph_retrievers.operators.mor.plan import GraphSchema, ReasoningPath

__all__ = ["Routes", "Walk", "walk"]


@dataclass(frozen=True)
class Routes:
    """The paths of a batch of plans, as numbers.

    Attributes
    ----------
    paths : list of ReasoningPath, length R
    owner : list of int, length R
        Query of each path, ascending.
    low, high : list of S - 1 lists of R int
        Kinds of edges of every step, forwards; an empty range where a path has ended.
    back_low, back_high : likewise
        Kinds of edges that lead back.
    """

    paths: list[ReasoningPath]
    owner: list[int]
    low: list[list[int]]
    high: list[list[int]]
    back_low: list[list[int]]
    back_high: list[list[int]]

    @classmethod
    def of(cls, plans: list[tuple[ReasoningPath, ...]], adjacency: TypedAdjacency, schema: GraphSchema) -> Routes:
        """Return the routes of plans, one tuple of paths a query.

        An adjacency ordered by type steps to the planned type, one ordered by relation along the planned relation
        alone; that needs one for every step, and takes the alphabetically last one that joins the two types where
        the plan names none.
        """
        paths = [path for plan in plans for path in plan]
        owner = [query for query, plan in enumerate(plans) for _ in plan]
        spans: dict[tuple[str | None, str | None], tuple[int, int]] = {}

        def span(kind: str, relation: str | None, other: str) -> tuple[int, int]:
            key: tuple[str | None, str | None] = (kind, relation)
            if adjacency.order == "relation":
                key = (None, relation if relation is not None else schema.relations(other, kind)[-1])
            if key not in spans:
                spans[key] = adjacency.span(*key)
            return spans[key]

        ahead: list[list[tuple[int, int]]] = []
        back: list[list[tuple[int, int]]] = []
        for step in range(1, max((len(p) for p in paths), default=1)):
            pairs = [(p.steps[step - 1], p.steps[step]) if step < len(p) else None for p in paths]
            ahead.append([span(p[1].type, p[1].relation, p[0].type) if p else (0, 0) for p in pairs])
            back.append([span(p[0].type, p[1].relation, p[1].type) if p else (0, 0) for p in pairs])
        return cls(
            paths,
            owner,
            [[s[0] for s in row] for row in ahead],
            [[s[1] for s in row] for row in ahead],
            [[s[0] for s in row] for row in back],
            [[s[1] for s in row] for row in back],
        )


@dataclass
class Walk:
    """What a walk found.

    Attributes
    ----------
    layers : list of Tensor, shape [M_l], int64
        Keys ``route * N + node`` of every layer, ascending and distinct.
    finals : Tensor, shape [F], int64
        Keys of the last layer of each route, ascending.
    entries : list of (Tensor, Tensor)
        For each layer, the keys that text or titles brought, and their places among those of their route.
    cut : set of int
        Routes that met the limit on edges.
    max_edges : int or None
    """

    adjacency: TypedAdjacency
    routes: Routes
    layers: list[Tensor]
    finals: Tensor
    entries: list[tuple[Tensor, Tensor]]
    cut: set[int]
    max_edges: int | None

    def trails(self, route: Tensor, nodes: Tensor) -> Tensor:
        """Return how nodes of the last layer were reached.

        Of several ways to a node the longest counts, among equal ones that from the best matching start, then
        that over the lowest row. A node that text matching found, and no edge, starts a trail of its own.

        Parameters
        ----------
        route, nodes : Tensor, shape [P], int64
            Nodes of ``finals``.

        Returns
        -------
        Tensor, shape [P, S], int64
            From the start on the left to the node; -1 pads at the left.
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
            step = torch.where(going, layer, torch.zeros_like(layer))
            start, length = self.adjacency.slices(here.clamp(min=0), low[step, route], high[step, route])
            owner, neighbor = self.adjacency.read(start, length)
            key = (step[owner] - 1) * count * size + route[owner] * size + neighbor
            place = torch.searchsorted(held, key).clamp(max=held.numel() - 1)
            member = held[place] == key
            best = torch.full_like(here, _FAR)
            best.scatter_reduce_(0, owner[member], ranks[place[member]] * size + neighbor[member], "amin")
            going = going & (best < _FAR)
            here = torch.where(going, best % size, torch.full_like(best, -1))
            table[:, column] = here
            layer = layer - 1
            going = going & (layer > 0)
        return table

    def _ranks(self) -> list[Tensor]:
        """Return for every key of every layer where its best trail starts: earlier layers first, then better matches."""
        ranks = [torch.full_like(keys, _FAR // self.adjacency.num_nodes - 1) for keys in self.layers]
        size = self.adjacency.num_nodes
        if not bool(self.entries[0][1].any()) and not any(len(keys) for keys, _ in self.entries[1:]):
            # One start a route: there is nothing to choose between.
            return [torch.zeros_like(keys) for keys in self.layers]
        for layer, (keys, place) in enumerate(self.entries):
            if layer:
                frontier = self.layers[layer - 1]
                owner, neighbor, _ = self.adjacency.edges(
                    frontier, self.routes.low[layer - 1], self.routes.high[layer - 1], self.max_edges
                )
                reached = frontier[owner] // size * size + neighbor
                spot, there = _find(self.layers[layer], reached)
                ranks[layer].scatter_reduce_(0, spot[there], ranks[layer - 1][owner[there]], "amin")
            spot, there = _find(self.layers[layer], keys)
            ranks[layer].scatter_reduce_(0, spot[there], (layer * _PLACES + place)[there], "amin")
        return ranks


# Beyond every rank * N + row, and beyond every place among the matches of one layer.
_FAR, _PLACES = 1 << 62, 1 << 20


def _find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return where `wanted` stand in ascending `keys`, and which of them do."""
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

    Parameters
    ----------
    adjacency : TypedAdjacency
    routes : Routes
    entries : list of (Tensor, Tensor), length S
        For each layer, keys ``route * N + node`` that start there, ascending and distinct (the seeds at the first,
        what text matching adds at later ones), and the place of each among those of its route, 0 the best.
    banned : Tensor, shape [C], int64, optional
        Keys that a route may start from but not come back to.
    allowed : Tensor, shape [N], bool, optional
        Nodes that may be walked to.
    max_edges : int, optional
        Edges a route may read in a step.

    Returns
    -------
    Walk
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
    return Walk(adjacency, routes, layers, _last(routes, layers, size), entries, cut, max_edges)


def _last(routes: Routes, layers: list[Tensor], size: int) -> Tensor:
    """Return the keys of the last layer of each route, ascending."""
    sizes = [len(path) for path in routes.paths]
    if all(length == len(layers) for length in sizes):
        return layers[-1]
    lengths = torch.tensor(sizes, dtype=torch.int64, device=layers[0].device)
    ends = [keys[lengths[keys // size] == layer + 1] for layer, keys in enumerate(layers)]
    return torch.sort(torch.cat(ends)).values
