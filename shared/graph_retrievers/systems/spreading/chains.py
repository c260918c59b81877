"""Chains of activated nodes: the best paths from a seed through touched nodes, by mean activation.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-B and
Algorithm 1, lines 18 and 19.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from graph_retrievers.arguments import choice, positive
from graph_retrievers.core.candidates import Candidates, falling, order
from graph_retrievers.core.chains import Chains, padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgesAmong, Near
from graph_retrievers.graph.ragged import slices
from graph_retrievers.systems.spreading.propagation import SEMANTICS

__all__ = ["ChainSearch"]

CHAIN_RESULTS = (None, "hits", "path")
"""How retrievers use chains: not at all, as additional hits, or as the paths of other hits."""

# Number of edges expanded at a time.
EDGE_LIMIT = 1 << 20
# Width of the first, quick pass of a search that has no threshold before its last level.
_SCOUTS = 64
# Means and bounds are compared with this tolerance, so that no chain is dropped by rounding.
_SLACK = 2e-6


class ChainSearch(Operator):
    """The best chains from a seed through touched nodes, by mean activation.

    A chain has 1 to `length` edges, begins at a seed, and passes only through touched nodes, through none twice and, after the
    seed, only through nodes that may be visited. A chain and its reverse are one; a chain that is a prefix of a longer one is
    absorbed by it.

    Parameters
    ----------
    limit : int, default 30
        Chains to return (the paper's K_c).
    length : int, default 4
        Maximum number of edges of a chain.
    dedupe : {"after_limit", "before_limit"}, default "after_limit"
        When reversed and absorbed chains are dropped: from the `limit` best, as in the published code, so that fewer remain; or
        from all chains, so that `limit` remain if there are enough.
    semantics : {"set", "rows"}, default "set"
        Whether parallel relationship rows are one edge, or each makes a separate chain that counts towards the limit of
        ``"after_limit"``, as in the paper's database query.
    width : int, default 4096
        Prefixes of chains to keep for a query at each length.
    as_trails : bool, default False
        If False, chains are separate results (``Hits.chains``). If True, they are the trails of the nodes to
        which they lead: the first of the best chains through a node is its path.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Expects the whole ranking of :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation` and returns it with the
    chains. Of chains with equal means, the shorter comes first, then the one with lower node rows.

    Chains are found length by length. A prefix is dropped when no continuation can reach the limit-th best mean so far: with B_0
    = 0 and B_j(v) the largest of r(w) + B_{j-1}(w) over the touched neighbours w of v, a prefix of m nodes that ends at v and
    sums to s cannot exceed the largest of (s + B_j(v)) / (m + j). B_j allows a walk to return to a node, so it is never too low
    and the result is exact, unless a query has more than `width` prefixes left: then those with the lowest bounds are dropped,
    and a note says so if one of them might have mattered. The cost for a length is at most `width` times the largest touched
    degree.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.operators import GatedPropagation
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")])
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["?"])
    >>> seeds = Candidates.seeds(np.array([0]), np.array([1.0]), "Seeds")
    >>> (found,) = ranked(ChainSearch(), queries, ranked(GatedPropagation(gate="uniform", steps=2), queries, [seeds]))
    >>> found.chains.nodes[0].tolist()
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

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the candidates with the best chains through them, or with the chains as their trails."""
        by = np.argsort(candidates.nodes, kind="stable")
        rows = candidates.nodes[by]
        beam = _Beam(self, candidates.taken(by), question.walked(rows), (yield EdgesAmong(rows, self.semantics == "rows")))
        if beam.whole and self.width > _SCOUTS:
            # If only whole chains count, no prefix can be dropped before some are known: a narrow pass finds them.
            beam.run(_SCOUTS)
        beam.run(self.width)
        if -np.inf < beam.cut >= beam.floor:
            question.notes.append(f"the chains may not be the best: more than {self.width} prefixes were under way")
        places = slice(None) if beam.whole else _distinct(beam.chains, beam.copies(), self.limit)
        nodes, means = np.append(rows, -1)[beam.chains[places]], beam.means[places]
        return (
            _along(candidates, nodes).trimmed() if self.as_trails else replace(candidates, chains=Chains(nodes, means, self.name))
        )


class _Beam:
    """The touched nodes of a question, numbered by row, and the best chains through them.

    `chains` [n, length + 1] and `means` [n] are the best so far, `floor` the mean of the worst of them (-inf while there are fewer
    than the limit), and `cut` the highest bound of a prefix beyond the width (-inf if there was none).
    """

    def __init__(self, search: ChainSearch, candidates: Candidates, walkable: np.ndarray, links: Near) -> None:
        self.limit, self.length, self.whole = search.limit, search.length, search.dedupe == "before_limit"
        self.activations = candidates.scores.astype(np.float64)
        # A seed that may not be visited can only be the first node of a chain.
        self.is_seed, self.walkable, self.floor = np.all(candidates.trails[:, -2:-1] < 0, axis=1), walkable, -np.inf
        # Parallel rows are one edge.
        self.edges, self.parallel = np.unique(links.owner * len(candidates) + links.node, return_counts=True)
        near, self.far = np.divmod(self.edges, max(len(candidates), 1))
        self.indptr = np.searchsorted(near, np.arange(len(candidates) + 1))
        # reach[j]: B_j, the largest sum of activations of a walk of j more nodes.
        self.reach = np.zeros((self.length, len(candidates)))
        for j in range(1, self.length):
            self.reach[j] = -np.inf
            np.maximum.at(self.reach[j], near, (self.activations + self.reach[j - 1])[self.far])

    def run(self, width: int) -> None:
        """Find the best chains, length by length."""
        self.chains, self.means, self.cut = np.empty((0, self.length + 1), np.int64), np.empty(0), -np.inf
        paths = np.flatnonzero(self.is_seed)[:, None]
        for nodes in range(2, self.length + 2):
            if not len(paths):
                break
            sums, ended = self.activations[paths].sum(1), np.ones(len(paths), bool)
            ahead, bounds = np.empty((0, nodes), np.int64), np.empty(0)
            for owner, child in self._steps(paths):
                mask = self.walkable[child]
                if self.whole:
                    # Next to a seed that may not be entered, a path is the end of a chain from there, if its start may be entered.
                    ended[owner[mask | self.walkable[paths[owner, 0]]]] = False
                owner, child = owner[mask], child[mask]
                total = sums[owner] + self.activations[child]
                if not self.whole or nodes > self.length:
                    good = total / nodes >= self.floor * (1 - _SLACK)
                    self._take(np.column_stack([paths[owner[good]], child[good]]))
                if nodes <= self.length:
                    more = np.arange(0 if self.whole else 1, self.length + 2 - nodes)[:, None]
                    bound = ((total + self.reach[more, child]) / (nodes + more)).max(0)
                    selection = bound >= self.floor * (1 - _SLACK)
                    ahead = np.concatenate([ahead, np.column_stack([paths[owner[selection]], child[selection]])])
                    bounds = np.concatenate([bounds, bound[selection]])
                if len(bounds) > width:
                    by = np.argsort(-bounds, kind="stable")
                    self.cut, selection = max(self.cut, bounds[by[width]]), np.sort(by[:width])
                    ahead, bounds = ahead[selection], bounds[selection]
            if self.whole and nodes > 2:
                self._take(paths[ended])
            # The floor may be higher than when the first of them were found.
            paths = ahead[bounds >= self.floor * (1 - _SLACK)]

    def _steps(self, paths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield which path continues, and to which new node, for :data:`EDGE_LIMIT` edges, or those of one path, at a time."""
        pieces = np.cumsum(np.diff(self.indptr)[paths[:, -1]]) // EDGE_LIMIT
        for start, stop in pairwise([0, *np.flatnonzero(np.diff(pieces)) + 1, len(paths)]):
            owner, entry = slices(self.indptr, paths[start:stop, -1])
            owner, child = owner + start, self.far[entry]
            new = np.logical_and.reduce([column[owner] != child for column in paths.T])
            yield owner[new], child[new]

    def _take(self, paths: np.ndarray) -> None:
        """Add chains to the best, and keep the best."""
        if self.whole:
            # Of the two directions of a chain between seeds, only the one from the lower row is kept, if both exist.
            start, end = paths[:, 0], paths[:, -1]
            paths = paths[~self.is_seed[end] | (end > start) | ~self.walkable[start]]
        table = np.pad(paths, ((0, 0), (0, self.length + 1 - paths.shape[1])), constant_values=-1)
        chains, means = np.concatenate([self.chains, table]), np.append(self.means, self.activations[paths].mean(1))
        # Of equal means the shorter chain first: only those of all nodes are found before shorter ones.
        shorter = np.argsort(chains[:, -1] >= 0, kind="stable")
        by = shorter[order(means[shorter])][: self.limit]
        self.chains, self.means = chains[by], falling(means[by])
        if len(by) == self.limit:
            self.floor = max(self.floor, self.means[-1])

    def copies(self) -> np.ndarray:
        """Return in how many ways the rows of each chain can be chosen: int64, shape [n]."""
        near, far = self.chains[:, :-1], self.chains[:, 1:]
        edge = np.searchsorted(self.edges, near * len(self.activations) + far)
        return np.where(far >= 0, np.append(self.parallel, 1).take(edge, mode="clip"), 1).prod(1)


def _distinct(chains: np.ndarray, copies: np.ndarray, limit: int) -> np.ndarray:
    """Return which of the first chains [n, L] neither are the reverse of an earlier one nor absorbed by a longer one.

    A chain over parallel rows takes as many places of the limit as there are ways to choose its rows.
    """
    first = np.cumsum(copies) - copies < limit
    paths = [tuple(node for node in row if node >= 0) for row in chains[first].tolist()]
    prefixes = {part[:n] for nodes in paths for part in (nodes, nodes[::-1]) for n in range(1, len(nodes))}
    mask = [nodes not in prefixes and nodes[::-1] not in paths[:place] for place, nodes in enumerate(paths)]
    return np.flatnonzero(first)[np.flatnonzero(mask)]


def _along(candidates: Candidates, chains: np.ndarray) -> Candidates:
    """Return the candidates with the best of `chains` [K, L] up to each node as its trail, if one leads there."""
    paths = dict[int, list[int]]()
    for row in chains.tolist():
        for end in range(1, sum(node >= 0 for node in row)):
            paths.setdefault(row[end], row[: end + 1])
    trails, relations = candidates.trails.tolist(), candidates.steps().tolist()
    for place, node in enumerate(candidates.nodes.tolist()):
        if node in paths:
            trails[place], relations[place] = paths[node], [-1] * (len(paths[node]) - 1)
    return replace(candidates, trails=padded(trails, left=True, least=1), relations=padded(relations, left=True))
