"""Personalized PageRank, O_gs (FastInsight, Example 2; HippoRAG 2), from the seeds of a vector search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.cache import Cache, Identity
from graph_retrievers.core.candidates import Candidates, best_of_each, followed, largest, places_of
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Request
from graph_retrievers.errors import ConvergenceError, InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.edge_sums import edge_sums, summed
from graph_retrievers.graph.ragged import min_max, ranked_on_host, slices, top_k
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.push import note_error, pushed
from graph_retrievers.systems.system import Count, System

__all__ = ["PPR", "PersonalizedPageRank", "Walk"]

_MAX_STEPS = 10_000
# Steps of Chebyshev's iteration; if these are too few, as for a damping above 0.99, the walk itself continues.
_STEPS = 300
# Bound on the error of a walk in a request.
_TOLERANCE = 1e-7
NEAREST = 100
"""Nodes at which a walk on a graph in a database restarts by similarity."""
# Entries of a table of shares that stays in the cache of a processor.
_CACHED = 1 << 18
# No error becomes smaller than this.
_LEAST = 1e-30
# The error that is left, as a part of the bound; shares that are equal then differ by less than the rounding that ties allow.
_NEAR = 1e-3
# The rounding of steps in single precision, as a part of their results.
_SINGLE = 1e-6


class TransitionGraph:
    """Undirected weighted adjacency for random walks, as CSR: weights of parallel rows are added, self loops dropped.

    Nodes outside `walk_allowed`, bool, shape [N], can be left but not entered; by default all can be entered. Entry (v, u) of
    `values`, float64, is w(u, v) / (root(u) root(v)): w sums the weights of the relationship rows between the two nodes, and
    `root`, float64, shape [N], is the square root of the sum of the weights of the edges that leave a node, 1 if there are none.
    """

    def __init__(self, graph: CorpusGraph, walk_allowed: Tensor | None = None) -> None:
        self._scale(graph.indptr, graph.indices, edge_sums(graph), walk_allowed)

    @classmethod
    def of_edges(
        cls, size: int, sources: Tensor, targets: Tensor, weights: Tensor, walk_allowed: Tensor | None = None
    ) -> TransitionGraph:
        """Return the graph of `size` nodes and the given edges, each as a tensor of shape [E]."""
        keys, order = torch.sort(torch.cat([sources * size + targets, targets * size + sources]), stable=True)
        keys, sums = summed(size, keys, weights.repeat(2)[order])
        indptr = torch.zeros(size + 1, dtype=torch.int64, device=keys.device)
        indptr[1:] = torch.cumsum(torch.bincount(keys // max(size, 1), minlength=size), 0)
        graph = cls.__new__(cls)
        graph._scale(indptr, (keys % max(size, 1)).to(torch.int32), sums, walk_allowed)
        return graph

    def _scale(self, indptr: Tensor, neighbors: Tensor, weights: Tensor, walk_allowed: Tensor | None) -> None:
        """Take the lists of neighbours and their weights, which are the same from both ends."""
        self.size, length = len(indptr) - 1, indptr.diff()
        inflow = weights if walk_allowed is None else weights * walk_allowed.index_select(0, neighbors)
        strength = torch.segment_reduce(inflow, "sum", offsets=indptr, initial=0.0)
        self.root = strength.masked_fill_(strength == 0, 1.0).sqrt_()
        share = self.root.reciprocal()
        values = torch.repeat_interleave(share, length).mul_(share.index_select(0, neighbors)).mul_(weights)
        if walk_allowed is not None:
            mask = torch.repeat_interleave(walk_allowed, length)
            neighbors, values = neighbors[mask], values[mask]
            indptr = torch.nn.functional.pad(torch.cumsum(length * walk_allowed, 0), (1, 0))
        self.indptr, self.neighbors, self.values = indptr, neighbors, values

    @cached_property
    def product(self) -> Tensor:
        """`values` as a sparse CSR matrix, shape [N, N]."""
        return self._matrix(self.values)

    @cached_property
    def single_product(self) -> Tensor:
        """`product` in single precision."""
        return self._matrix(self.values.float())

    def _matrix(self, values: Tensor) -> Tensor:
        shape = (self.size, self.size)
        with warnings.catch_warnings():
            # torch warns at the first CSR tensor of a process that these tensors are in beta.
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(self.indptr.to(torch.int32), self.neighbors, values, shape, check_invariants=False)

    @cached_property
    def lists(self) -> tuple[np.ndarray, ...]:
        """`indptr`, `neighbors`, `values` and `root` on the host."""
        return tuple(part.cpu().numpy() for part in (self.indptr, self.neighbors, self.values, self.root))


def _normalised(restart: Tensor) -> Tensor:
    total = restart.sum(1, keepdim=True, dtype=torch.float64)
    # A row with NaN or infinity has no finite sum. One answer of a device to wait for.
    invalid, empty = torch.stack([~torch.isfinite(total).all() | (restart < 0).any(), (total <= 0).any()]).tolist()
    if invalid:
        raise InvalidArgumentError("Restart weights must be finite and not negative.")
    if empty:
        row = int((total.flatten() <= 0).nonzero()[0])
        raise InvalidArgumentError(f"Restart weights of query {row} are all zero; give at least one seed.")
    return restart / total


def personalized_pagerank(graph: TransitionGraph, restart: Tensor, *, damping: float = 0.5, tolerance: float = 1e-9) -> Tensor:
    r"""Return the stationary distribution of a walk that restarts with probability 1 - damping, by Chebyshev's iteration.

    .. math:: p = (1 - d) s + d \, (W D^{-1} p + s \sum_{\deg u = 0} p_u)

    Parameters
    ----------
    graph : TransitionGraph
    restart : Tensor, shape [B, N]
        Restart weights, not negative; each row is scaled to sum 1.
    damping : float, default 0.5
        Probability d of following an edge; FastInsight's alpha is 1 - d.
    tolerance : float, default 1e-9
        Bound on the L1 error of each row, including rounding.

    Returns
    -------
    Tensor, shape [B, N], float64
        Rows sum to 1. A node without edges sends its mass back to the restart distribution.

    Raises
    ------
    InvalidArgumentError
        If damping is not in [0, 1) or a row of restart weights is negative or all zero.
    ConvergenceError
        If the bound is not met after 10,000 steps, or cannot be met in double precision.

    Notes
    -----
    With c the change of the last step and e its rounding, the L1 error is at most (d c + e) / (1 - d). Dividing the row by its
    sum S multiplies the error by at most 2 / S.

    Examples
    --------
    >>> graph = TransitionGraph(CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")]))
    >>> personalized_pagerank(graph, torch.tensor([[1.0, 0.0, 0.0]])).numpy().round(3)
    array([[0.583, 0.333, 0.083]])
    """
    check_damping("damping", damping)
    restart = _normalised(restart)
    # The columns are queries: one sparse product a step serves all of them. For one query the vector form is faster.
    restarted = restart.T.contiguous() if restart.shape[0] != 1 else restart[0].clone()
    # All is divided by the root of the strength, which makes the matrix symmetric.
    root = graph.root if restarted.dim() == 1 else graph.root.unsqueeze(1)
    restarted *= (1 - damping) / root
    value = _near(graph, restarted, damping, (1 - damping) * tolerance / 2)
    # Relative rounding error of one step; a node has as many additions as edges.
    rounding = torch.finfo(torch.float64).eps * (torch.diff(graph.indptr) + 8).double() * graph.root
    before: float | Tensor = float("inf")
    active, all_active = torch.ones(restarted.shape[1:], dtype=torch.bool, device=restarted.device), True
    for _ in range(_MAX_STEPS):
        # Isolated nodes are left out of the walk: by linearity, the mass they return only rescales the result.
        new = (graph.product @ value).mul_(damping).add_(restarted)
        if not all_active:
            # A finished query does not change while others continue.
            new = torch.where(active, new, value)
        change = graph.root @ value.sub_(new).abs_()
        value = new
        error = 2 * (damping * change + rounding @ value) / ((1 - damping) * (graph.root @ value))
        active = error > tolerance
        if not bool(active.any()):
            value = value.mul_(root)
            value = value.T if value.dim() == 2 else value.unsqueeze(0)
            return value.div_(value.sum(1, keepdim=True))
        # Without rounding, each change is smaller than the one before by the factor d.
        if bool((active & (change >= before)).any()):
            raise ConvergenceError(
                f"PageRank with damping {damping} cannot meet the tolerance {tolerance:g} on this graph: rounding alone leaves "
                f"an error of up to {float(error.max()):.1e}. Lower the damping or raise the tolerance."
            )
        before, all_active = change, bool(active.all())
    # Two distributions are never further apart than 2.
    raise ConvergenceError(
        f"PageRank with damping {damping} has not converged after {_MAX_STEPS:,} steps; the bound on its error is still "
        f"{min(2.0, float(error.max())):.1e}. Lower the damping or raise the tolerance."
    )


def _near(graph: TransitionGraph, restarted: Tensor, damping: float, tolerance: float) -> Tensor:
    r"""Return what a step of the walk changes by less than the tolerance.

    By Chebyshev's semi-iterative method (Golub and Varga, 1961), where the error falls by :math:`d / (1 + \sqrt{1 - d^2})` in each
    step instead of by d. It needs no sums over all nodes, and takes the same steps for all questions. Steps are in single
    precision, which moves half as many bytes; when that has no more digits, they begin again with what is still missing.
    """
    rate = damping / (1 + math.sqrt(1 - damping**2))
    steps = min(math.ceil(math.log(max(_NEAR * tolerance, _LEAST)) / math.log(rate)), _STEPS) if rate else 0
    # About as many steps as single precision has digits: a walk adds up the rounding of its steps.
    digits = math.log(_SINGLE / (1 - damping)) / math.log(rate) if rate else 1
    together = math.ceil(steps / max(1, round(steps / max(1, digits)))) or 1
    value = _chebyshev(graph.single_product, restarted.float(), damping, min(together, steps)).double()
    for start in range(together, steps, together):
        residual = (graph.product @ value).mul_(damping).sub_(value).add_(restarted)
        value += _chebyshev(graph.single_product, residual.float(), damping, min(together, steps - start))
    return value.clamp_(min=0)


def _chebyshev(product: Tensor, target: Tensor, damping: float, steps: int) -> Tensor:
    """Return the y for which y less the damped product with y is nearly what is wanted."""
    before, value, weight = torch.zeros_like(target), target.clone(), 2.0
    add_product = Tensor.addmv_ if target.dim() == 1 else Tensor.addmm_
    for _ in range(steps):
        weight = 1 / (1 - damping**2 * weight / 4)
        # A step of the walk, which goes on beyond its end, away from the value before.
        before.mul_(1 - weight).add_(target, alpha=weight)
        before, value = value, add_product(before, product, value, alpha=weight * damping)
    return value


def check_damping(name: str, value: float) -> float:
    """Return `value` as float if it lies in [0, 1); raise InvalidArgumentError otherwise."""
    if not is_number(value) or not 0 <= value < 1:
        raise InvalidArgumentError(f"{name} must lie in [0, 1), got {shown(value)}.")
    return float(value)


@dataclass(frozen=True, eq=False)
class Walk(Request):
    """The nodes that a random walk with restarts at weighted nodes visits most: ``(nodes [n], shares [n])``, all above 0.

    All questions share one product with the matrix of the graph in each step.

    Attributes
    ----------
    graph : TransitionGraph
    nodes, weights : ndarray, shape [S]
        Where it restarts, in proportion to the weights.
    spread : float, or ndarray of shape [n] for n questions as one
        Weight of `elsewhere`.
    elsewhere : callable, optional
        Other restart weights, Tensor, shape [n, N], as a function of :class:`~graph_retrievers.search.queries.Queries` and the
        places of n questions; not called if no question has a `spread`.
    best : sequence of (Tensor, shape [N], bool, or None, int)
        Requested nodes, None for all, and their number: best first, those of each pair after those of the previous one.
    damping : float, default 0.5
        Probability of following an edge.
    """

    reads = "graph"
    tells = "ranked"
    shared = ("graph", "damping", "elsewhere")
    graph: TransitionGraph
    nodes: np.ndarray
    weights: np.ndarray
    spread: Any
    elsewhere: Callable[[Queries, list[int]], Tensor] | None
    best: Sequence[tuple[Tensor | None, int]]
    damping: float = 0.5

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Walk]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the nodes of all questions, whose walks run side by side; on a processor those whose tables fit into its cache."""
        size = backend.size
        places = np.concatenate([np.atleast_1d(place) for place, _ in requests])
        spread = np.concatenate([np.broadcast_to(request.spread, np.shape(place)).ravel() for place, request in requests])
        # The walk of each node at which one restarts.
        first = np.cumsum([0, *(np.size(place) for place, _ in requests)])
        several = type(requests[0][0]) is not int
        owner = [
            start + (request.nodes // size if several else 0 * request.nodes)
            for start, (_, request) in zip(first, requests, strict=False)
        ]
        nodes = np.concatenate([request.nodes % size if several else request.nodes for _, request in requests])
        weights = np.concatenate([request.weights for _, request in requests])
        walks = _Walks(requests[0][1], places, spread, np.concatenate(owner), nodes, weights)
        values, rows = walks.most_visited(backend)
        mask = values > 0
        if not several:
            return [(row[part], value[part]) for row, value, part in zip(rows, values, mask, strict=True)]
        results = []
        for start, stop in pairwise(first.tolist()):
            part, shift = mask[start:stop], size * np.arange(stop - start)[:, None]
            results.append(((rows[start:stop] + shift)[part], values[start:stop][part]))
        return results


class _Walks(NamedTuple):
    """The walks of n questions, and the nodes at which each restarts: `owner`, `nodes` and `weights`, shape [S], by walk."""

    request: Walk
    places: np.ndarray
    spread: np.ndarray
    owner: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray

    def most_visited(self, backend: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return shares and nodes of the walks, best first, of the pairs of `best` one after another: shape [n, K] each."""
        device, count = backend.index.device, len(self.places)
        step = count if device.type != "cpu" else max(1, _CACHED // max(self.request.graph.size, 1))
        parts = [self._walk(backend.queries, slice(start, start + step), device) for start in range(0, count, step)]
        return ranked_on_host(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _walk(self, queries: Queries, part: slice, device: torch.device) -> tuple[Tensor, Tensor]:
        request, places = self.request, self.places[part].tolist()
        entries = slice(*np.searchsorted(self.owner, [part.start, part.start + len(places)]))
        seeds = torch.from_numpy(np.stack([self.owner[entries] - part.start, self.nodes[entries]])).to(device)
        restart = torch.zeros((len(places), request.graph.size), dtype=torch.float64, device=device)
        restart.index_put_((seeds[0], seeds[1]), torch.from_numpy(self.weights[entries]).to(device), accumulate=True)
        if request.elsewhere is not None and self.spread[part].any():
            restart += torch.from_numpy(self.spread[part, None]).to(device) * request.elsewhere(queries, places)
        # The weights of a question without restart nodes do not matter: its results are dropped.
        nowhere = restart.sum(1, keepdim=True) <= 0
        restart[:, :1] += nowhere
        shares = personalized_pagerank(request.graph, restart, damping=request.damping, tolerance=_TOLERANCE)
        best = [top_k(shares if mask is None else shares.masked_fill(~mask, 0.0), k) for mask, k in request.best]
        values, rows = (torch.cat(column, 1) for column in zip(*best, strict=True))
        return values.masked_fill_(nowhere, 0.0), rows


def walk_parents(graph: TransitionGraph, nodes: np.ndarray, shares: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return for each node, shape [K], the higher ranked node that sends it most of the walk's mass: [K]; -1 for `seeds`.

    Nodes may be those of several questions as one.

    Parents are ranked higher, so they lead back to a seed, or to a node reached from nodes that were not kept.
    """
    indptr, neighbors, values, root = graph.lists
    rows = nodes % graph.size
    # From 1 on, so that most of the table is never written.
    at = np.zeros(graph.size * (1 + int(nodes.max(initial=0)) // graph.size), np.int32)
    at[nodes] = np.arange(1, len(nodes) + 1)
    places = np.flatnonzero(places_of(seeds, nodes) < 0)
    owner, entry = slices(indptr, rows[places])
    place = places[owner]
    near = neighbors.take(entry) + (nodes - rows).take(place)
    rank = at.take(near)
    before = np.flatnonzero((rank > 0) & (rank <= place))
    place, near, entry, rank = place[before], near[before], entry[before], rank[before]
    # What a neighbour sends is this times the root of the strength of the node itself.
    flow = (shares[rank - 1] * values[entry] / root[near % graph.size]).astype(np.float32)
    most, parents = best_of_each(place, flow, near), np.full(len(nodes), -1)
    parents[place[most]] = near[most]
    return parents


class PersonalizedPageRank(Operator):
    """Rank all nodes by a random walk that restarts at the nodes found so far: O_gs.

    The seeds of a query share a restart weight of 1 in proportion to their positive scores, or equally if none is positive; all
    nodes together share `passage_weight` in proportion to their vector similarity to the query, scaled to [0, 1] by min-max.

    Parameters
    ----------
    k : int, optional
        Nodes to keep; by default the number of requested hits, at least 100.
    damping : float, default 0.5
        Probability of following an edge.
    passage_weight : float, default 0.05
        Restart weight of all nodes together, compared to the seeds' 1. With 0 the walk restarts only at the seeds.

    Notes
    -----
    A hit's path follows, node by node, the higher ranked neighbour that sends it most of the walk's mass.

    Weights of parallel relationship rows are added, direction is ignored, and a node without edges sends its mass to the restart
    distribution. A query without seeds restarts only by similarity; without similarities it finds nothing. Nodes that the seed
    filter excludes have no restart weight by similarity either. The min-max includes the excluded nodes, so that the weights of
    two nodes have the same proportion with and without the filter.

    In memory the walk is solved to 1e-7 (:func:`personalized_pagerank`). On a graph in a database, it is pushed from the nodes at
    which it restarts (:func:`~graph_retrievers.systems.push.pushed`), with a round trip for each hop, until the shares of all nodes
    differ by less than 1e-4 in all from those of the walk; where the limits of a call end it earlier, a note states the bound.
    Similarities to all nodes are not known there: instead of all nodes, the 100 nearest to the question that may start share
    `passage_weight`, scaled by min-max among them.

    HippoRAG 2 gives *each* passage 0.05 of its similarity. There, passages are leaves attached to phrases. In a corpus graph,
    passages link to each other, and thousands of such weights would outweigh the seeds; hence one weight for all together.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025; Jeh and Widom, "Scaling Personalized Web
    Search", WWW 2003; FastInsight, Example 2. On a database: Andersen, Chung and Lang, "Local Graph Partitioning
    using PageRank Vectors", FOCS 2006.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    >>> walk = Pipeline(BM25Search(1), PersonalizedPageRank(passage_weight=0))
    >>> [hit.path.text for hit in Retriever(index, walk).retrieve("loom")]
    ['0', '0 -> 1', '0 -> 1 -> 2']
    """

    kind = OperatorKind.GRAPH_SEARCH
    batched = True

    def __init__(self, k: int | None = None, *, damping: float = 0.5, passage_weight: float = 0.05) -> None:
        if not is_number(passage_weight) or not 0 <= passage_weight <= 1e30:
            raise InvalidArgumentError(f"passage_weight must be at least 0 and at most 1e30, got {shown(passage_weight)}.")
        self.k = None if k is None else positive("k", k)
        self.damping, self.passage_weight = check_damping("damping", damping), float(passage_weight)

    def prepare(self, index: GraphIndex) -> None:
        """Make the graph for the walks of questions without a filter."""
        graph = _cached_graph(index.graph.cache, None, "corpus", partial(TransitionGraph, index.graph))
        _ = graph.product, graph.single_product, graph.lists

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return nodes by their share of the walk."""
        weights, groups = np.maximum(candidates.scores, 0).astype(np.float64), question.owners(candidates.nodes)
        # Without a positive score, seeds are alike.
        weights = np.where(largest(weights, groups) > 0, weights, 1.0)
        sums = weights.sum() if groups is None else np.bincount(groups, weights, question.count)
        weights = weights / (sums if groups is None else sums[groups])
        spread = np.where(sums > 0, self.passage_weight, float(question.has_vectors))
        keep = min(self.k or max(question.k, 100), question.nodes)
        walk = self._solved if question.in_memory else self._pushed
        nodes, shares, parents = yield from walk(question, candidates.nodes, weights, spread, keep)
        return Candidates(nodes, shares, followed(nodes, parents), np.zeros(len(nodes), np.int64), (self.name,))

    def _solved(
        self, question: Question, seeds: np.ndarray, weights: np.ndarray, spread: Any, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return nodes, shares and parents of the walk in a graph in memory."""
        graph = walk_graph(question.queries, "corpus", partial(TransitionGraph, question.index.graph))
        nodes, shares = yield Walk(graph, seeds, weights, spread, self._similar, ((None, keep),), self.damping)
        return nodes, shares, walk_parents(graph, nodes, shares, seeds)

    def _pushed(
        self, question: Question, seeds: np.ndarray, weights: np.ndarray, spread: Any, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return nodes, shares and parents of the walk as far as it is pushed."""
        nodes = seeds
        if spread:
            near, scores = yield Nearest(NEAREST)
            similar = _scaled(torch.from_numpy(scores)[None].double())
            nodes, weights = np.append(seeds, near), np.append(weights, spread * similar[0].numpy())
        if not weights.any():
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
        walk = yield from pushed(nodes, weights, self.damping)
        note_error(walk, question.notes)
        best, shares = walk.best(keep)
        return best, shares, walk.parents(best, seeds)

    def _similar(self, queries: Queries, places: list[int]) -> Tensor:
        """Return restart weights of all nodes by similarity to n questions, 1 together for each: Tensor, shape [n, N], float64."""
        return _scaled(similarities(queries, places), queries.seeds_allowed)


def _scaled(similarity: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return restart weights by similarities, [B, M], 1 together for each question; 0 for nodes that are not allowed, shape [M]."""
    if not similarity.numel():
        return similarity
    passages = min_max(similarity, similarity.amin(1, keepdim=True), similarity.amax(1, keepdim=True))
    # What only rounding lifts above the lowest would share all weight where a filter leaves nothing else.
    passages.masked_fill_(passages < 1e-6, 0.0)
    if allowed is not None:
        passages.masked_fill_(~allowed, 0.0)
    return passages.div_(passages.sum(1, keepdim=True).clamp(min=1e-30))


def similarities(queries: Queries, places: list[int]) -> Tensor:
    """Return the dot products of the questions at n places with all nodes: Tensor, shape [n, N], float64."""
    table = queries.table("dense")
    return (queries.index.dense.table(queries.vectors[places]) if table is None else table[places]).double()


def walk_graph(queries: Queries, key: Hashable, make: Callable[[Tensor | None], TransitionGraph]) -> TransitionGraph:
    """Return the graph of the walks for a traversal filter: one for the corpus, and one for each filter.

    `key` distinguishes it from other graphs of the corpus.
    """
    walk = queries.walk_allowed
    cache = (queries.index.graph if walk is None else queries).cache
    return _cached_graph(cache, walk, key, make)


def _cached_graph(
    cache: Cache, walk: Tensor | None, key: Hashable, make: Callable[[Tensor | None], TransitionGraph]
) -> TransitionGraph:
    return cache.get(("transitions", key, Identity(walk)), lambda: make(walk))


@dataclass(frozen=True, kw_only=True, repr=False)
class PPR(System):
    """Search for seeds, then rank all nodes by a random walk that restarts at them.

    Parameters
    ----------
    seeds : int, default 5
        Seeds that vector search finds (HippoRAG 2's linking_top_k); not read with `first`.
    damping : float, default 0.5
        Probability of following an edge, in [0, 1).
    passage_weight : float, default 0.05
        Restart weight of all nodes together, by vector similarity, compared to the seeds' 1.
    first : Operator, optional
        Search for seeds; vector search by default. Use entity linking to restart at the names in the question.

    Notes
    -----
    HippoRAG 2 links phrases of extracted facts. A corpus graph has no such phrases, so seeds are nodes, as in FastInsight,
    section 4.1. On a graph in a database, only the 100 nodes most similar to the question share `passage_weight`, and the shares
    of the walk have a bound of 1e-4 (:class:`PersonalizedPageRank`).

    References
    ----------
    Gutiérrez et al., "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models" (HippoRAG 2),
    ICML 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, PPR(damping=0.7)).operator.formula())
    O_vs -> O_gs
    """

    name = "ppr"
    finds_less_over = "passages without names"

    seeds: Count = 5
    damping: float = 0.5
    passage_weight: float = 0.05
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the walk from the seeds."""
        search = self.first or VectorSearch(self.seeds, returned=False)
        walk = Pipeline(search, PersonalizedPageRank(damping=self.damping, passage_weight=self.passage_weight))
        return walk
