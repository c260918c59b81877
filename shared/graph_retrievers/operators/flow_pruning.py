"""Flow-pruned paths between ranked nodes: the graph search of PathRAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from graph_retrievers.arguments import choice, fraction, positive, strings
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.ragged import columns_of, descending, gather_rows
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.round_robin import in_turns, place_scores
from graph_retrievers.queries import Queries, both
from graph_retrievers.results import Chains, Ranking

__all__ = ["FlowPruning"]

_RESULTS = ("path", "hits")
# Paths of two and of three steps of one question, and edges read for those of three.
_MOST_PATHS, _MOST_EDGES = 1 << 18, 1 << 20
# Orders of four nodes.
_ORDERS = 24


class FlowPruning(Operator):
    r"""The most reliable paths of up to three steps between any two of the ranked nodes.

    For a start s and an end t among the ranked nodes, all simple paths of one to three steps from s to t make a graph, in which
    :math:`F(u)` are the nodes that follow u on some path. A resource of 1 flows from s:

    .. math::
        r_1(s, b) = \frac{1}{|F(s)|}, \qquad
        r_2(b, c) = \frac{\alpha\, r_1(s, b)}{|F(b)|} \;\text{ if } r_1(s, b) > \theta,\; b \ne t, \qquad
        r_3(c, d) = \sum_{b:\, r_2(b, c) > \theta} \frac{\alpha\, r_2(b, c)}{|F(c)|} \;\text{ if } c \ne t,

    each over the nodes that follow. The resource of an edge is the sum over the three levels, and the reliability of a path the
    mean of the resources of its edges, 0 for an edge that no resource reaches.

    Parameters
    ----------
    paths : int, default 15
        Paths to keep. Of paths through the same nodes, in any order, only the most reliable counts.
    alpha : float in [0, 1], default 0.8
        Decay of the resource from one step to the next.
    theta : float in [0, 1], default 0.3
        A resource up to this does not flow on.
    exclude_types : sequence of str, default ()
        Node types that no path leads through.
    chains : {"path", "hits"}, default "path"
        Whether a path is only that of its nodes, or also a result of its own (``Ranking.chains``).

    Notes
    -----
    The result has the ranked nodes and the nodes of the paths in turns, a ranked one first: best path first, in the order of the
    path. A node's trail is the first path that has it, up to there. The n-th node scores 1 / n. Of equally reliable paths that
    comes first whose start, then whose end, stands higher in the ranking, then the shorter, then that of lower node rows.

    Departures from the published code. There, resources are added up while sets are walked, so that they depend on the order of a
    set; here, level by level. There, the number of paths is also at most half of all paths that there are, which never binds in an
    undirected graph, where each path is found from both of its ends. There, all paths are enumerated by depth-first search. Here,
    the work for a question is bounded: middle nodes of few neighbours come first, paths of two steps end at 262,144, those of three
    at 262,144 and at 1,048,576 edges that are read between neighbours of ranked nodes; where a bound cuts paths off, a note says
    so.

    References
    ----------
    Chen et al., "PathRAG: Pruning Graph-based Retrieval Augmented Generation with Relational Paths", arXiv:2502.14902, 2025,
    and its code, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import CorpusGraph, GraphIndex
    >>> graph = CorpusGraph([*"sxyzt"], [""] * 5, edges=[*map(tuple, "sx xt sy yz zt".split())])
    >>> seeds = Ranking.of(torch.tensor([[0, 4]]), torch.tensor([[1.0, 0.5]]), "Seeds")
    >>> found = FlowPruning(chains="hits")(Queries.of(GraphIndex.from_graph(graph), ["?"]), seeds)
    >>> found.chains.nodes.tolist(), [round(score, 3) for score in found.chains.scores[0].tolist()]
    ([[[0, 1, 4, -1], [0, 2, 3, 4]]], [0.45, 0.407])
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(
        self,
        paths: int = 15,
        *,
        alpha: float = 0.8,
        theta: float = 0.3,
        exclude_types: Sequence[str] = (),
        chains: str = "path",
    ) -> None:
        self.paths, self.alpha, self.theta = positive("paths", paths), fraction("alpha", alpha), fraction("theta", theta)
        self.exclude_types, self.chains = strings("exclude_types", exclude_types), choice("chains", chains, _RESULTS)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ranked nodes and those of the best paths in turns."""
        graph, walk = queries.index.graph, queries.walk_allowed
        if self.exclude_types:
            walk = both(walk, ~type_mask(graph, self.exclude_types))
        found = [self._best(graph, nodes[nodes >= 0], walk) for nodes in ranking.nodes]
        if not found:
            return ranking
        device = ranking.nodes.device
        width = max(len(table) for table, *_ in found)
        paths = torch.full((len(found), width, 4), -1, device=device)
        scores = torch.full((len(found), width), -torch.inf, device=device)
        for b, (table, values, _) in enumerate(found):
            paths[b, : len(table)], scores[b, : len(values)] = table, values.float()
        on_paths = _nodes_of(paths, scores, self.name)
        merged = on_paths.append(ranking, on_paths.width + ranking.width)
        merged = merged.reordered(in_turns([ranking.nodes, on_paths.nodes], merged.nodes))
        merged = replace(merged, scores=place_scores(merged.nodes))
        merged = merged.noted([cut for *_, cut in found], "not all paths were looked at, as there are too many")
        return replace(merged, chains=Chains(paths, scores, self.name, rising=True)) if self.chains == "hits" else merged

    def _best(self, graph: CorpusGraph, seeds: Tensor, walk: Tensor | None) -> tuple[Tensor, Tensor, bool]:
        """Return the best paths between seeds, [P, 4], their reliability, [P], float64, and whether some were not looked at."""
        found, cut = _paths_between(graph, seeds, walk)
        if not found.nodes.numel():
            return found.nodes, found.start.double(), cut
        scores = self._reliability(found)
        # From the last criterion to the first: lower rows, fewer steps, the end, the start.
        order = torch.arange(len(scores), device=scores.device)
        length = (found.nodes >= 0).sum(1)
        for values in (*found.nodes.unbind(1)[::-1], length, found.end, found.start):
            order = order[torch.argsort(values[order], stable=True)]
        order = order[descending(scores[order])]
        # Through the same nodes only the first; so many hold enough that differ.
        most = min(self.paths, len(order))
        order = order[: _ORDERS * most]
        _, same = torch.unique(found.nodes[order].sort(1).values, dim=0, return_inverse=True)
        first = torch.full_like(same, len(order)).scatter_reduce_(0, same, torch.arange(len(order), device=order.device), "amin")
        kept = order[first[: int(same.max()) + 1].sort().values[:most]]
        return found.nodes[kept], scores[kept], cut

    def _reliability(self, found: _Paths) -> Tensor:
        """Return the mean resource of the edges of each path: Tensor, shape [P], float64."""
        rows, local = torch.unique(found.nodes, return_inverse=True)
        # Pads have the lowest number, and are on no edge.
        # Pairs are numbered anew, so that numbers of edges fit into 64 bits with very many seeds too.
        size, pair = len(rows), torch.unique(found.start * (int(found.end.max()) + 1) + found.end, return_inverse=True)[1]
        real = found.nodes[:, 1:] >= 0
        steps = (pair.unsqueeze(1) * size + local[:, :-1]) * size + local[:, 1:]
        edges, place = torch.unique(steps[real], return_inverse=True)
        near, far = edges // size, edges // size // size * size + edges % size
        nodes, at, out = torch.unique_consecutive(near, return_inverse=True, return_counts=True)
        ends = torch.gather(local, 1, (found.nodes >= 0).sum(1, keepdim=True) - 1).squeeze(1)
        firsts, lasts = torch.unique(pair * size + local[:, 0]), torch.unique(pair * size + ends)
        share, going = 1.0 / out[at].double(), ~torch.isin(far, lasts)
        # What each edge carries at a level, and what its far end has then, by its place among the nodes with followers.
        carried = torch.where(torch.isin(near, firsts), share, 0.0)
        resources = carried.clone()
        place_of = torch.searchsorted(nodes, far).clamp(max=len(nodes) - 1)
        for _ in range(2):
            passing = going & (carried > self.theta) & (nodes[place_of] == far)
            held = torch.zeros(len(nodes), dtype=torch.float64, device=edges.device)
            held.index_add_(0, place_of[passing], carried[passing])
            carried = self.alpha * held[at] * share
            resources += carried
        sums = torch.zeros(real.shape, dtype=torch.float64, device=edges.device)
        sums[real] = resources[place]
        return sums.sum(1) / real.sum(1)


class _Paths(NamedTuple):
    """Simple paths: node rows [P, 4], -1 pads on the right, and the ranks of start and end among the seeds, [P]."""

    nodes: Tensor
    start: Tensor
    end: Tensor


def _paths_between(graph: CorpusGraph, seeds: Tensor, walk: Tensor | None) -> tuple[_Paths, bool]:
    """Return all simple paths of one to three steps from one of the seeds [S] to another, and whether a bound cut some off.

    Nodes after the start are those of `walk`, [N], bool, if it is given.
    """
    # Entry e: the seed of rank `rank[e]` has the neighbour `mid[e]`; ascending by neighbour, and by rank.
    rank, entry = gather_rows(graph.indptr, seeds)
    mid = graph.indices[entry].long()
    mid, order = torch.sort(mid, stable=True)
    rank = rank[order]
    if walk is not None:
        mid, rank = mid[walk[mid]], rank[walk[mid]]
    reached = columns_of(seeds.unsqueeze(0), mid.unsqueeze(0)).squeeze(0)
    direct = (reached >= 0).nonzero().flatten()
    parts: list[tuple[Tensor, Tensor, tuple[Tensor, ...]]] = [(rank[direct], reached[direct], ())]

    # Seeds at each middle node, as rows of a table of which `indptr` has the bounds.
    middle, counts = torch.unique_consecutive(mid, return_counts=True)
    indptr = pad(torch.cumsum(counts, 0), (1, 0))
    by_degree = torch.argsort(graph.degree[middle], stable=True)
    chosen, cut = _first(by_degree, (counts * counts)[by_degree], _MOST_PATHS)
    start, end, at = _joined(indptr, chosen, chosen)
    parts.append((rank[start], rank[end], (middle[chosen[at]],)))

    near, far, unread = _edges_among(graph, middle)
    by_degree = torch.argsort(graph.degree[middle[near]] + graph.degree[middle[far]], stable=True)
    chosen, left = _first(by_degree, (counts[near] * counts[far])[by_degree], _MOST_PATHS)
    start, end, at = _joined(indptr, near[chosen], far[chosen])
    parts.append((rank[start], rank[end], (middle[near[chosen][at]], middle[far[chosen][at]])))

    tables, starts, ends = [], [], []
    for first, last, between in parts:
        nodes = torch.stack([seeds[first], *between, seeds[last]], 1)
        # A middle node may be the start or the end; middle nodes themselves differ.
        simple = first != last
        for each in between:
            simple &= (each != seeds[first]) & (each != seeds[last])
        if walk is not None:
            simple &= walk[seeds[last]]
        tables.append(pad(nodes[simple], (0, 4 - nodes.shape[1]), value=-1))
        starts.append(first[simple])
        ends.append(last[simple])
    return _Paths(torch.cat(tables), torch.cat(starts), torch.cat(ends)), cut or left or unread


def _first(order: Tensor, costs: Tensor, most: int) -> tuple[Tensor, bool]:
    """Return the first of `order`, [T], whose costs, [T], add up to `most`, and whether others remain."""
    kept = order[torch.cumsum(costs, 0) <= most]
    return kept, len(kept) < len(order)


def _joined(indptr: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return all pairs of an entry of row ``left[i]`` and one of row ``right[i]`` of a table: both entries, and i, each [T]."""
    at, one = gather_rows(indptr, left)
    again, other = gather_rows(indptr, right[at])
    return one[again], other, at[again]


def _edges_among(graph: CorpusGraph, nodes: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Return the edges between nodes of an ascending list, [M], both ways, as places in it; and whether some were not read.

    Nodes of few neighbours are read first; an edge is found if one of its ends is read.
    """
    order = torch.argsort(graph.degree[nodes], stable=True)
    order, unread = _first(order, graph.degree[nodes[order]], _MOST_EDGES)
    owner, entry = gather_rows(graph.indptr, nodes[order])
    neighbor = graph.indices[entry].long()
    place = torch.searchsorted(nodes, neighbor).clamp(max=max(len(nodes) - 1, 0))
    there = nodes[place] == neighbor
    one, other = order[owner[there]], place[there]
    keys = torch.unique(torch.cat([one * len(nodes) + other, other * len(nodes) + one]))
    return keys // max(len(nodes), 1), keys % max(len(nodes), 1), unread


def _nodes_of(paths: Tensor, scores: Tensor, name: str) -> Ranking:
    """Return the nodes of paths, [B, P, 4], in order, each once with the first path that has it, up to it, as its trail.

    `scores`, shape [B, P], are those of the paths, and then of the trails.
    """
    count, number, length = paths.shape
    nodes = paths.reshape(count, -1)
    column = torch.arange(number * length, device=paths.device) % length
    # The path up to each place, moved to the right.
    back = torch.arange(length, device=paths.device) - (length - 1) + column.unsqueeze(1)
    trails = paths.unsqueeze(2).expand(-1, -1, length, -1).reshape(count, -1, length)
    trails = torch.where(back >= 0, trails.gather(2, back.clamp(min=0).expand(count, -1, -1)), -1)
    ascending, order = torch.sort(nodes, dim=1, stable=True)
    repeated = pad(ascending[:, 1:] == ascending[:, :-1], (1, 0)) if nodes.shape[1] else ascending < 0
    fresh = torch.ones_like(repeated).scatter_(1, order, ~repeated) & (nodes >= 0)
    of_path = scores.repeat_interleave(length, 1)
    return Ranking.of(nodes, torch.zeros_like(of_path), name, trails, trail_scores=of_path).kept(fresh).trimmed()
