"""Chains of activated nodes: the best paths from a seed through touched nodes, by mean activation.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-B and
Algorithm 1, lines 18 and 19.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graph_retrievers.arguments import choice, positive
from graph_retrievers.graph.ragged import columns_of, gather_rows, pads_last, row_pieces
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.spreading.propagation import SEMANTICS, groups, neighborhood
from graph_retrievers.queries import Queries
from graph_retrievers.results import Chains, Ranking

__all__ = ["ChainSearch"]

CHAIN_RESULTS = (None, "hits", "path")
"""What retrievers make of chains: nothing, hits of their own, or the paths of other hits."""

# Limits of memory: entries of the table from nodes to touched nodes of one group of queries, and edges expanded at a time.
STATE_LIMIT = 1 << 22
EDGE_LIMIT = 1 << 20
# Width of the first, quick pass of a search that has no threshold before its last level.
_SCOUTS = 64
# Bounds are compared with this tolerance, so that no chain is dropped by rounding.
_SLACK = 1e-12


class ChainSearch(Operator):
    """The best chains from a seed through touched nodes, by mean activation.

    A chain has 1 to `length` edges, begins at a seed, passes through touched nodes only, through none twice and, after the seed,
    through none that may not be walked to. A chain and its reverse are one; a chain that is a prefix of a longer one is absorbed
    by it.

    Parameters
    ----------
    limit : int, default 30
        Chains to return (the paper's K_c).
    length : int, default 4
        Most edges of a chain.
    dedupe : {"after_limit", "before_limit"}, default "after_limit"
        When reversed and absorbed chains are dropped: from the `limit` best, as in the published code, so that fewer remain; or
        from all chains, so that `limit` remain if there are as many.
    semantics : {"set", "rows"}, default "set"
        Whether parallel relationship rows are one edge, or each makes a chain of its own that counts towards the limit of
        ``"after_limit"``, as in the paper's database query.
    width : int, default 4096
        Prefixes of chains that are kept for a query at each length.
    as_trails : bool, default False
        Whether chains are results of their own (``Ranking.chains``: further hits behind the k nodes) or, if True, the trails of
        the nodes they lead to: the first of the best chains through a node is then its path.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Expects the whole ranking of :class:`~graph_retrievers.operators.spreading.propagation.GatedPropagation` and returns it with
    the chains. Of equal means the shorter chain comes first, then the one of lower node rows.

    Chains are found length by length. A prefix is dropped when no continuation can reach the limit-th best mean so far: with
    B_0 = 0 and B_j(v) the largest of r(w) + B_{j-1}(w) over the touched neighbours w of v, a prefix of m nodes that ends at v
    and sums to s cannot exceed the largest of (s + B_j(v)) / (m + j). B_j lets a walk return to a node, so it is never too low
    and the result is exact, unless a query has more than `width` prefixes left: then those of the lowest bounds are dropped,
    and a note says so if one of them might have mattered. A length costs at most `width` times the largest touched degree.

    Examples
    --------
    >>> from graph_retrievers import CorpusGraph, GatedPropagation, GraphIndex
    >>> graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")])
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["?"])
    >>> seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    >>> ranking = ChainSearch()(queries, GatedPropagation(gate="uniform", steps=2)(queries, seeds))
    >>> ranking.chains.nodes[0, 0].tolist()
    [0, 1, 2, -1, -1]
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(
        self,
        limit: int = 30,
        *,
        length: int = 4,
        dedupe: str = "after_limit",
        semantics: str = "set",
        width: int = 4096,
        as_trails: bool = False,
    ) -> None:
        self.limit, self.length, self.width = positive("limit", limit), positive("length", length), positive("width", width)
        self.dedupe, self.as_trails = choice("dedupe", dedupe, ("after_limit", "before_limit")), as_trails
        self.semantics = choice("semantics", semantics, SEMANTICS)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ranking with the best chains through its nodes."""
        parts = [self._search(queries, ranking, slice(group.start, group.stop)) for group in groups(queries, STATE_LIMIT)]
        if not parts:
            return ranking
        nodes, scores, exact = (torch.cat(column) for column in zip(*parts, strict=True))
        note = f"the chains may not be the best: more than {self.width} prefixes were under way"
        ranking = ranking.noted((~exact).tolist(), note)
        return _along(ranking, nodes) if self.as_trails else replace(ranking, chains=Chains(nodes, scores, self.name))

    def _search(self, queries: Queries, ranking: Ranking, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return nodes [G, K, L] and scores [G, K] of the chains of G queries, and whether they are exact [G]."""
        touched = _Touched(queries, ranking, part, self.semantics, self.length)
        maximal = self.dedupe == "before_limit"
        floor = torch.full((touched.count,), float("-inf"), dtype=torch.float64, device=queries.index.device)
        if maximal and self.width > _SCOUTS:
            # If only whole chains count, no prefix can be dropped before some are known: a narrow pass finds them.
            floor = _Beam(touched, self.limit, _SCOUTS, maximal, floor).floor
        beam = _Beam(touched, self.limit, self.width, maximal, floor)
        nodes, scores, copies = beam.table()
        if not maximal:
            # A chain over parallel rows takes as many places of the limit as there are ways to choose its rows.
            keep = (torch.cumsum(copies, 1) - copies < self.limit) & (nodes[..., 0] >= 0)
            nodes, scores = _kept(nodes, scores, keep)
            nodes, scores = _kept(nodes, scores, _distinct(nodes))
        rows = torch.where(nodes >= 0, touched.rows[nodes.clamp(min=0)] if touched.rows.numel() else nodes, -1)
        return rows, scores.float(), (beam.cut < beam.floor) | torch.isinf(beam.cut)


def _along(ranking: Ranking, chains: Tensor) -> Ranking:
    """Return the ranking with the best of `chains` [B, K, L] up to each node as its trail, if one leads there."""
    count, _, length = chains.shape
    if ranking.width == 0 or chains.shape[1] == 0:
        return ranking
    # Every node after the start of a chain, the best chain first; of equal nodes only the first remains.
    ends = chains[:, :, 1:].reshape(count, -1)
    ascending, order = torch.sort(ends, dim=1, stable=True)
    repeated = torch.nn.functional.pad(ascending[:, 1:] == ascending[:, :-1], (1, 0))
    ends = torch.full_like(ends, -1).scatter_(1, order, ascending.masked_fill(repeated, -1))
    place = columns_of(ends, ranking.nodes)
    chain, last = place.clamp(min=0) // (length - 1), place.clamp(min=0) % (length - 1) + 1
    rows = chains.gather(1, chain.unsqueeze(2).expand(-1, -1, length))
    # Moved to the right, so that a trail ends with its node.
    column = torch.arange(length, device=chains.device) - (length - 1 - last.unsqueeze(2))
    led = torch.where(column >= 0, rows.gather(2, column.clamp(min=0)), -1)
    along, own, steps = (place >= 0).unsqueeze(2), ranking.trails, ranking.steps()
    shorter, longer = max(length - own.shape[2], 0), max(own.shape[2] - length, 0)
    own, steps = (torch.nn.functional.pad(paths, (shorter, 0), value=-1) for paths in (own, steps))
    led = torch.nn.functional.pad(led, (longer, 0), value=-1)
    return replace(ranking, trails=torch.where(along, led, own), relations=steps.masked_fill(along, -1)).trimmed()


class _Touched:
    """The touched nodes of a group of queries, numbered by query and row, and the edges among them as CSR."""

    def __init__(self, queries: Queries, ranking: Ranking, part: slice, semantics: str, length: int) -> None:
        graph, walk_allowed = queries.index.graph, queries.walk_allowed
        size, device, nodes = len(graph), graph.device, ranking.nodes[part]
        real = nodes >= 0
        self.count = nodes.shape[0]
        keys, order = torch.sort((torch.arange(self.count, device=device).unsqueeze(1) * size + nodes)[real])
        self.query, self.rows = keys // size, keys % size
        self.level = ranking.scores[part][real][order].double()
        # A seed that may not be walked to can only be the first node of a chain.
        self.walkable = torch.ones_like(self.rows, dtype=torch.bool) if walk_allowed is None else walk_allowed[self.rows]
        self.seeds = (ranking.trails[part][..., -2:-1][real][order] < 0).all(1).nonzero().flatten()
        self.is_seed = torch.zeros_like(self.rows, dtype=torch.bool)
        self.is_seed[self.seeds] = True
        number = torch.full((self.count * size,), -1, dtype=torch.int32, device=device)
        number[keys] = torch.arange(keys.numel(), dtype=torch.int32, device=device)
        indptr, neighbors = neighborhood(graph, semantics)
        nears, fars = [self.rows[:0]], [self.rows[:0]]
        for piece in row_pieces(indptr, self.rows, EDGE_LIMIT):
            owner, entry = gather_rows(indptr, self.rows[piece])
            near = owner + piece.start
            target = (keys - self.rows).index_select(0, near) + neighbors.index_select(0, entry)
            far = number.index_select(0, target)
            kept = ((far >= 0) & (far != near)).nonzero().flatten()
            nears.append(near.index_select(0, kept))
            fars.append(far.index_select(0, kept).long())
        near, far = torch.cat(nears), torch.cat(fars)
        self.copies: Tensor | None = None
        if semantics == "rows":
            # Parallel rows follow each other: one edge for them all, with their number.
            pairs, self.copies = torch.unique_consecutive(torch.stack([near, far]), dim=1, return_counts=True)
            near, far = pairs.unbind(0)
        self.far = far
        self.indptr = torch.zeros(keys.numel() + 1, dtype=torch.int64, device=device)
        self.indptr[1:] = torch.cumsum(torch.bincount(near, minlength=keys.numel()), 0)
        # reach[:, j]: the largest sum of activations of a walk of j more nodes.
        self.reach = [torch.zeros_like(self.level)]
        for _ in range(length):
            best = torch.full_like(self.level, float("-inf"))
            self.reach.append(best.scatter_reduce_(0, near, (self.level + self.reach[-1]).index_select(0, far), "amax"))

    def bound(self, sums: Tensor, ends: Tensor, nodes: int, shortest: int) -> Tensor:
        """Return upper bounds of the means of chains that add at least `shortest` nodes to prefixes of `nodes` nodes."""
        best = torch.full_like(sums, float("-inf"))
        for j in range(shortest, len(self.reach) - nodes + 1):
            best = torch.maximum(best, (sums + self.reach[j].index_select(0, ends)) / (nodes + j))
        return best


class _Beam:
    """One search, length by length, over all queries of a group.

    For each query, `floor` is the mean of the worst of the best chains so far (-inf while there are fewer than the limit), and
    `cut` the highest bound of a prefix beyond the width (-inf if there was none).
    """

    def __init__(self, touched: _Touched, limit: int, width: int, maximal: bool, floor: Tensor) -> None:
        self.touched, self.limit, self.width, self.maximal = touched, limit, width, maximal
        self.length = len(touched.reach) - 1
        self.floor, self.cut = floor, torch.full_like(floor, float("-inf"))
        self._paths = touched.seeds.new_empty((0, self.length + 1))
        self._means, self._copies = touched.level[:0], touched.seeds[:0]
        prefixes = (touched.seeds.unsqueeze(1), touched.level[touched.seeds], torch.ones_like(touched.seeds))
        for _ in range(self.length):
            if prefixes[0].shape[0]:
                prefixes = self._lengthen(*prefixes)

    def _lengthen(self, paths: Tensor, sums: Tensor, copies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add the best of the chains with one more edge; return those that may become a better chain."""
        touched, nodes = self.touched, paths.shape[1] + 1
        ends = paths[:, -1]
        children = torch.zeros_like(ends)
        found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for piece in row_pieces(touched.indptr, ends, EDGE_LIMIT):
            owner, entry = gather_rows(touched.indptr, ends[piece])
            owner = owner + piece.start
            child = touched.far.index_select(0, entry)
            new = torch.ones_like(child, dtype=torch.bool)
            for column in paths.unbind(1):
                new &= column.index_select(0, owner) != child
            new = new.nonzero().flatten()
            owner, child, entry = (values.index_select(0, new) for values in (owner, child, entry))
            entered = touched.walkable.index_select(0, child)
            if self.maximal:
                # Next to a seed that may not be entered, the prefix is the end of a chain from there, if its start may be entered.
                joined = entered | touched.walkable.index_select(0, paths[:, 0].index_select(0, owner))
                children.index_add_(0, owner, joined.long())
            entered = entered.nonzero().flatten()
            owner, child, entry = (values.index_select(0, entered) for values in (owner, child, entry))
            total = sums.index_select(0, owner) + touched.level.index_select(0, child)
            floor = self.floor.index_select(0, touched.query.index_select(0, child)) * (1 - _SLACK)
            number = copies.index_select(0, owner)
            if touched.copies is not None:
                number = number * touched.copies.index_select(0, entry)
            if not self.maximal or nodes > self.length:
                good = (total / nodes >= floor).nonzero().flatten()
                self._take(paths, *(values.index_select(0, good) for values in (owner, child, number)))
            if nodes <= self.length:
                bound = touched.bound(total, child, nodes, 0 if self.maximal else 1)
                kept = (bound >= floor).nonzero().flatten()
                owner, child, number, bound = (values.index_select(0, kept) for values in (owner, child, number, bound))
                found.append((owner, child, number, bound))
                if sum(part[0].numel() for part in found) > 2 * self.width * touched.count:
                    found = [self._narrowed(found)]
        if self.maximal and nodes > 2:
            ended = (children == 0).nonzero().flatten()
            self._take(paths[:, :-1], ended, ends[ended], copies[ended])
        if not found:
            return paths[:0], sums[:0], copies[:0]
        owner, child, number, bound = self._narrowed(found)
        # The floor may be higher than when the first of them were found.
        kept = (bound >= self.floor[touched.query[child]] * (1 - _SLACK)).nonzero().flatten()
        owner, child, number = (values.index_select(0, kept) for values in (owner, child, number))
        longer = torch.cat([paths.index_select(0, owner), child.unsqueeze(1)], 1)
        return longer, sums.index_select(0, owner) + touched.level.index_select(0, child), number

    def _narrowed(self, found: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the prefixes of highest bounds, at most `width` of each query, in their given order."""
        owner, child, number, bound = (torch.cat(column) for column in zip(*found, strict=True))
        query = self.touched.query[child]
        if child.numel() and int(torch.bincount(query).max()) > self.width:
            order, place = _places(query, bound, self.touched.count)
            gone = order[place >= self.width]
            self.cut.scatter_reduce_(0, query[gone], bound[gone], "amax")
            kept = torch.sort(order[place < self.width]).values
            owner, child, number, bound = owner[kept], child[kept], number[kept], bound[kept]
        return owner, child, number, bound

    def _take(self, paths: Tensor, owner: Tensor, child: Tensor, copies: Tensor) -> None:
        """Add the chains ``paths[owner] + child`` to the best of their queries, and keep the best."""
        touched = self.touched
        if self.maximal:
            # Of the two directions of a chain between seeds, only the one from the lower row is kept, if both exist.
            start = paths[owner, 0]
            kept = (~touched.is_seed[child] | (child > start) | ~touched.walkable[start]).nonzero().flatten()
            owner, child, copies = owner[kept], child[kept], copies[kept]
        chains = torch.cat([paths.index_select(0, owner), child.unsqueeze(1)], 1)
        # Summed in the order of size, so that a chain and its reverse have the same bits.
        values = torch.sort(touched.level.index_select(0, chains.flatten()).view(chains.shape), 1).values
        total = values[:, 0]
        for column in range(1, values.shape[1]):
            total = total + values[:, column]
        chains = torch.nn.functional.pad(chains, (0, self.length + 1 - chains.shape[1]), value=-1)
        chains = torch.cat([self._paths, chains])
        means = torch.cat([self._means, total / values.shape[1]])
        copies = torch.cat([self._copies, copies])
        if self.maximal:
            # Shorter chains without a continuation are found late; among equals they are still first.
            order = torch.argsort((chains >= 0).sum(1), stable=True)
            chains, means, copies = chains[order], means[order], copies[order]
        query = touched.query[chains[:, 0]]
        order, place = _places(query, means, touched.count)
        last = order[place == self.limit - 1]
        self.floor[query[last]] = torch.maximum(self.floor[query[last]], means[last])
        order = order[place < self.limit]
        self._paths, self._means, self._copies = chains[order], means[order], copies[order]

    def table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return chains [count, limit, length + 1], means and copies [count, limit], best first; -1, -inf and 0 pad."""
        count, device = self.touched.count, self._means.device
        query = self.touched.query[self._paths[:, 0]]
        place = _columns(query, count)
        paths = torch.full((count, self.limit, self.length + 1), -1, dtype=torch.int64, device=device)
        means = torch.full((count, self.limit), float("-inf"), dtype=torch.float64, device=device)
        copies = torch.zeros((count, self.limit), dtype=torch.int64, device=device)
        paths[query, place], means[query, place], copies[query, place] = self._paths, self._means, self._copies
        return paths, means, copies


def _places(query: Tensor, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the order by query, then value descending (stable), and the place of each in its query."""
    order = torch.argsort(values, descending=True, stable=True)
    order = order[torch.argsort(query[order], stable=True)]
    return order, _columns(query[order], count)


def _columns(query: Tensor, count: int) -> Tensor:
    """Return the place of each entry among those of its query; queries are ascending."""
    starts = torch.searchsorted(query, torch.arange(count, device=query.device))
    return torch.arange(query.numel(), device=query.device) - starts[query]


def _kept(nodes: Tensor, scores: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return tables [G, K, L + 1] and [G, K] with the chains of `keep` only, without gaps."""
    order = pads_last(keep)
    keep = keep.gather(1, order)
    nodes = nodes.gather(1, order.unsqueeze(2).expand_as(nodes)).masked_fill(~keep.unsqueeze(2), -1)
    return nodes, scores.gather(1, order).masked_fill(~keep, float("-inf"))


def _distinct(nodes: Tensor) -> Tensor:
    """Return which chains [G, K, L + 1] are neither the reverse of an earlier one nor absorbed by a longer one."""
    length = (nodes >= 0).sum(2)
    back = length.unsqueeze(2) - 1 - torch.arange(nodes.shape[2], device=nodes.device)
    reverse = torch.where(back >= 0, nodes.gather(2, back.clamp(min=0)), -1)
    chain, other = nodes.unsqueeze(2), nodes.unsqueeze(1)
    turned = reverse.unsqueeze(1)
    earlier = torch.ones(nodes.shape[1], nodes.shape[1], dtype=torch.bool, device=nodes.device).tril(-1)
    repeated = ((chain == turned).all(3) & earlier).any(2)
    prefix = ((chain == other) | (chain < 0)).all(3) | ((chain == turned) | (chain < 0)).all(3)
    absorbed = (prefix & (length.unsqueeze(1) > length.unsqueeze(2))).any(2)
    return (length > 0) & ~repeated & ~absorbed
