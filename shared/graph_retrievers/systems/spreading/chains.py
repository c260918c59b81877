"""Chains of activated nodes: the best paths from a seed through touched nodes, by mean activation.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-B and
Algorithm 1, lines 18 and 19.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from graph_retrievers.arguments import choice, positive
from graph_retrievers.search.beyond import Chains
from graph_retrievers.search.candidates import Candidates, concatenated, places_of
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.operator import Operator, OperatorKind
from graph_retrievers.search.requests import Links, Near
from graph_retrievers.systems.spreading.propagation import SEMANTICS

__all__ = ["ChainSearch"]

CHAIN_RESULTS = (None, "hits", "path")
"""What retrievers make of chains: nothing, hits of their own, or the paths of other hits."""

# Edges expanded at a time.
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
    Expects the whole ranking of :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation` and returns it with
    the chains. Of equal means the shorter chain comes first, then the one of lower node rows.

    Chains are found length by length. A prefix is dropped when no continuation can reach the limit-th best mean so far: with
    B_0 = 0 and B_j(v) the largest of r(w) + B_{j-1}(w) over the touched neighbours w of v, a prefix of m nodes that ends at v
    and sums to s cannot exceed the largest of (s + B_j(v)) / (m + j). B_j lets a walk return to a node, so it is never too low
    and the result is exact, unless a query has more than `width` prefixes left: then those of the lowest bounds are dropped,
    and a note says so if one of them might have mattered. A length costs at most `width` times the largest touched degree.

    Examples
    --------
    >>> import torch
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.operators import GatedPropagation
    >>> from graph_retrievers.queries import Queries
    >>> from graph_retrievers.results import Ranking
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

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the candidates with the best chains through them, or with these as their trails."""
        rows = np.sort(found.nodes)
        touched = _Touched(found, question.walked(rows), (yield Links(rows, self.semantics == "rows")), self.length)
        maximal, floor = self.dedupe == "before_limit", -np.inf
        if maximal and self.width > _SCOUTS:
            # If only whole chains count, no prefix can be dropped before some are known: a narrow pass finds them.
            floor = _Beam(touched, self.limit, _SCOUTS, maximal, floor).floor
        beam = _Beam(touched, self.limit, self.width, maximal, floor)
        chains, means = beam.paths, beam.means
        if not maximal:
            # A chain over parallel rows takes as many places of the limit as there are ways to choose its rows.
            kept = np.flatnonzero(np.cumsum(beam.copies) - beam.copies < self.limit)
            kept = kept[_distinct(chains[kept])]
            chains, means = chains[kept], means[kept]
        if -np.inf < beam.cut >= beam.floor:
            question.notes.append(f"the chains may not be the best: more than {self.width} prefixes were under way")
        nodes = np.append(rows, -1)[chains]
        return _along(found, nodes) if self.as_trails else replace(found, chains=Chains(nodes, means, self.name))


class _Touched:
    """The touched nodes of a question, numbered by ascending row, and the edges among them as adjacency lists."""

    def __init__(self, found: Candidates, walkable: np.ndarray, links: Near, length: int) -> None:
        by = np.argsort(found.nodes, kind="stable")
        # Rounded to single precision, so that equal activations are equal whatever the order of their sums.
        self.level = found.scores[by].astype(np.float32).astype(np.float64)
        self.is_seed = np.all(found.trails[by, -2:-1] < 0, axis=1)
        # A seed that may not be walked to can only be the first node of a chain.
        self.walkable = walkable
        # Parallel rows follow each other: one edge for them all, with their number.
        first = np.append(True, (np.diff(links.owner) != 0) | (np.diff(links.node) != 0))[: len(links.owner)]
        at = np.flatnonzero(first)
        near, self.far = links.owner[at], links.node[at]
        self.copies = np.diff(np.append(at, len(first)))
        self.indptr = np.searchsorted(near, np.arange(len(by) + 1))
        # reach[j]: the largest sum of activations of a walk of j more nodes.
        self.reach = [np.zeros_like(self.level)]
        for _ in range(length):
            best = np.full_like(self.level, -np.inf)
            np.maximum.at(best, near, (self.level + self.reach[-1])[self.far])
            self.reach.append(best)

    def bound(self, sums: np.ndarray, ends: np.ndarray, nodes: int, shortest: int) -> np.ndarray:
        """Return upper bounds of the means of chains that add at least `shortest` nodes to prefixes of `nodes` nodes."""
        best = np.full_like(sums, -np.inf)
        for j in range(shortest, len(self.reach) - nodes + 1):
            best = np.maximum(best, (sums + self.reach[j][ends]) / (nodes + j))
        return best


class _Beam:
    """One search, length by length.

    `paths`, `means` and `copies` are the best chains so far, `floor` the mean of the worst of them (-inf while there are fewer
    than the limit), and `cut` the highest bound of a prefix beyond the width (-inf if there was none).
    """

    def __init__(self, touched: _Touched, limit: int, width: int, maximal: bool, floor: float) -> None:
        self.touched, self.limit, self.width, self.maximal = touched, limit, width, maximal
        self.length, self.floor, self.cut = len(touched.reach) - 1, floor, -np.inf
        self.paths = np.empty((0, self.length + 1), np.int64)
        self.means, self.copies = np.empty(0), np.empty(0, np.int64)
        seeds = np.flatnonzero(touched.is_seed)
        prefixes: tuple[np.ndarray, ...] = seeds[:, None], touched.level[seeds], np.ones_like(seeds)
        for _ in range(self.length):
            if len(prefixes[0]):
                prefixes = self._lengthen(*prefixes)

    def _lengthen(self, paths: np.ndarray, sums: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, ...]:
        """Add the best of the chains with one more edge; return those that may become a better chain."""
        touched, nodes, ends = self.touched, paths.shape[1] + 1, paths[:, -1]
        children, found = np.zeros(len(paths), np.int64), list[tuple[np.ndarray, ...]]()
        for piece in self._pieces(ends):
            counts = np.diff(touched.indptr)[ends[piece]]
            owner = np.repeat(piece, counts)
            entry = np.arange(len(owner)) + np.repeat(touched.indptr[ends[piece]] - np.cumsum(counts) + counts, counts)
            child = touched.far[entry]
            new = np.flatnonzero((paths[owner] != child[:, None]).all(1))
            owner, child, entry = owner[new], child[new], entry[new]
            entered = touched.walkable[child]
            if self.maximal:
                # Next to a seed that may not be entered, the prefix is the end of a chain from there, if its start may be entered.
                joined = entered | touched.walkable[paths[owner, 0]]
                children += np.bincount(owner, joined, len(paths)).astype(np.int64)
            owner, child, entry = owner[entered], child[entered], entry[entered]
            total, number = sums[owner] + touched.level[child], copies[owner] * touched.copies[entry]
            if not self.maximal or nodes > self.length:
                good = total / nodes >= self.floor * (1 - _SLACK)
                self._take(paths, owner[good], child[good], number[good])
            if nodes <= self.length:
                bound = touched.bound(total, child, nodes, 0 if self.maximal else 1)
                kept = bound >= self.floor * (1 - _SLACK)
                found.append((owner[kept], child[kept], number[kept], bound[kept]))
                if sum(len(part[0]) for part in found) > 2 * self.width:
                    found = [self._narrowed(found)]
        if self.maximal and nodes > 2:
            ended = np.flatnonzero(children == 0)
            self._take(paths[:, :-1], ended, ends[ended], copies[ended])
        if not found:
            return paths[:0], sums[:0], copies[:0]
        owner, child, number, bound = self._narrowed(found)
        # The floor may be higher than when the first of them were found.
        kept = bound >= self.floor * (1 - _SLACK)
        owner, child, number = owner[kept], child[kept], number[kept]
        return np.concatenate([paths[owner], child[:, None]], 1), sums[owner] + touched.level[child], number

    def _pieces(self, ends: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the prefixes in pieces of :data:`EDGE_LIMIT` edges, or of a single prefix."""
        before = np.cumsum(np.diff(self.touched.indptr)[ends]) // EDGE_LIMIT
        yield from np.split(np.arange(len(ends)), np.flatnonzero(np.diff(before)) + 1)

    def _narrowed(self, found: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Return the prefixes of highest bounds, at most `width`, in their given order."""
        columns = tuple(map(np.concatenate, zip(*found, strict=True)))
        if len(columns[0]) > self.width:
            by = np.argsort(-columns[3], kind="stable")
            self.cut = max(self.cut, columns[3][by[self.width]])
            kept = np.sort(by[: self.width])
            columns = tuple(column[kept] for column in columns)
        return columns

    def _take(self, paths: np.ndarray, owner: np.ndarray, child: np.ndarray, copies: np.ndarray) -> None:
        """Add the chains ``paths[owner] + child`` to the best, and keep the best."""
        touched = self.touched
        if self.maximal:
            # Of the two directions of a chain between seeds, only the one from the lower row is kept, if both exist.
            start = paths[owner, 0]
            kept = np.flatnonzero(~touched.is_seed[child] | (child > start) | ~touched.walkable[start])
            owner, child, copies = owner[kept], child[kept], copies[kept]
        chains = np.concatenate([paths[owner], child[:, None]], 1)
        # Summed in the order of size, so that a chain and its reverse have the same bits.
        values = np.sort(touched.level[chains], 1)
        total = np.add.accumulate(values, 1)[:, -1] if len(values) else values[:, 0]
        padded = np.full((len(chains), self.length + 1), -1)
        padded[:, : chains.shape[1]] = chains
        chains, means = np.concatenate([self.paths, padded]), np.append(self.means, total / values.shape[1])
        copies = np.append(self.copies, copies)
        # Of equal means the shorter chain first: with maximal chains, shorter ones without a continuation are found late.
        by = np.lexsort(((chains >= 0).sum(1), -means)) if self.maximal else np.argsort(-means, kind="stable")
        if len(by) >= self.limit:
            self.floor = max(self.floor, means[by[self.limit - 1]])
        by = by[: self.limit]
        self.paths, self.means, self.copies = chains[by], means[by], copies[by]


def _distinct(chains: np.ndarray) -> np.ndarray:
    """Return which chains [K, L + 1] are neither the reverse of an earlier one nor absorbed by a longer one: bool, shape [K]."""
    told, kept = [tuple(row[row >= 0].tolist()) for row in chains], []
    begun = {part[:n] for nodes in told for part in (nodes, nodes[::-1]) for n in range(1, len(nodes))}
    for place, nodes in enumerate(told):
        kept.append(nodes not in begun and nodes[::-1] not in told[:place])
    return np.array(kept, bool)


def _along(found: Candidates, chains: np.ndarray) -> Candidates:
    """Return the candidates with the best of `chains` [K, L] up to each node as its trail, if one leads there."""
    paths = dict[int, list[int]]()
    for row in chains.tolist():
        nodes = [node for node in row if node >= 0]
        for end in range(1, len(nodes)):
            paths.setdefault(nodes[end], nodes[: end + 1])
    led = np.isin(found.nodes, list(paths))
    trails = np.full((led.sum(), max(map(len, paths.values()), default=1)), -1)
    for trail, node in zip(trails, found.nodes[led].tolist(), strict=True):
        trail[-len(paths[node]) :] = paths[node]
    along = replace(found.taken(np.flatnonzero(led)), trails=trails, relations=None)
    both = concatenated([found.taken(np.flatnonzero(~led)), along])
    return both.taken(places_of(both.nodes, found.nodes))
