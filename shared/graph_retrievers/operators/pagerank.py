"""Personalized PageRank: graph search O_gs (FastInsight, Example 2; HippoRAG 2)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.errors import ConvergenceError, InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import columns_of, gather_rows, top_k
from graph_retrievers.operators.fusion import min_max
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking, followed_trails

__all__ = ["PersonalizedPageRank", "TransitionGraph", "certified_top_k", "check_damping", "personalized_pagerank", "walk_parents"]

_MAX_STEPS = 10_000
# Share of the walk that may still be under way when a proven set is returned, and at which an unproven walk ends.
_SHARE_LEFT, _SHARE_OVER = 0.04, 1e-9
# Relative lead that a proven set needs: more than the rounding of sums in double precision, even at nodes of a million edges.
_LEAD = 1e-9


class TransitionGraph:
    """Undirected weighted adjacency for random walks, as CSR: weights of parallel rows are added, self loops dropped.

    Parameters
    ----------
    graph : CorpusGraph
    walk_allowed : Tensor, shape [N], bool, optional
        Nodes that may be walked to, all by default. Other nodes can be left but not entered; edges are then directed, and
        :func:`certified_top_k` does not hold.

    Attributes
    ----------
    indptr : Tensor, shape [N + 1], int64
    neighbors : Tensor, shape [nnz], int32
    weights : Tensor, shape [nnz], float64
        Sum of the weights of the relationship rows between the two nodes.
    strength : Tensor, shape [N], float64
        Sum of the weights of the edges that leave a node.
    """

    def __init__(self, graph: CorpusGraph, walk_allowed: Tensor | None = None) -> None:
        self._join(len(graph), graph.sources, graph.targets, graph.weights, walk_allowed)

    @classmethod
    def of_edges(
        cls, size: int, sources: Tensor, targets: Tensor, weights: Tensor, walk_allowed: Tensor | None = None
    ) -> TransitionGraph:
        """Return the graph of `size` nodes and of edges that are given, each as a tensor of shape [E]."""
        made = cls.__new__(cls)
        made._join(size, sources, targets, weights, walk_allowed)
        return made

    def _join(self, size: int, sources: Tensor, targets: Tensor, weights: Tensor, walk_allowed: Tensor | None) -> None:
        proper = sources != targets
        source, target = sources[proper], targets[proper]
        keys, place = torch.unique(torch.cat([source * size + target, target * size + source]), return_inverse=True)
        summed = torch.zeros(keys.numel(), dtype=torch.float64, device=sources.device)
        summed.index_add_(0, place, weights[proper].double().repeat(2))
        if walk_allowed is not None:
            entered = walk_allowed[keys // max(size, 1)]
            keys, summed = keys[entered], summed[entered]
        rows, columns = keys // max(size, 1), keys % max(size, 1)
        self.size, self.weights, self.neighbors = size, summed, columns.to(torch.int32)
        self.indptr = torch.zeros(size + 1, dtype=torch.int64, device=sources.device)
        self.indptr[1:] = torch.cumsum(torch.bincount(rows, minlength=size), 0)
        self.strength = torch.zeros(size, dtype=torch.float64, device=sources.device).index_add_(0, columns, summed)

    @cached_property
    def product(self) -> Tensor:
        """W D^-1 as a sparse CSR matrix, shape [N, N], float64: entry (v, u) is w(u, v) / strength(u)."""
        values = self.weights / self.strength[self.neighbors.long()]
        shape = (self.size, self.size)
        with warnings.catch_warnings():
            # torch warns at the first CSR tensor of a process that these tensors are in beta.
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(self.indptr.to(torch.int32), self.neighbors, values, shape, check_invariants=False)

    @cached_property
    def inverse(self) -> tuple[Tensor, Tensor]:
        """Inverses of the strengths, 0 where there is no edge, and a tensor that is infinite there and 0 elsewhere."""
        alone = self.strength == 0
        return (1.0 / self.strength).masked_fill(alone, 0.0), torch.zeros_like(self.strength).masked_fill(alone, torch.inf)


def _normalised(restart: Tensor) -> Tensor:
    total = restart.sum(1, keepdim=True, dtype=torch.float64)
    # A row with NaN or infinity has no finite sum.
    if not bool(torch.isfinite(total).all()) or (restart.numel() and bool(restart.amin() < 0)):
        raise InvalidArgumentError("Restart weights must be finite and not negative.")
    if bool((total <= 0).any()):
        row = int((total.flatten() <= 0).nonzero()[0])
        raise InvalidArgumentError(f"Restart weights of query {row} are all zero; give at least one seed.")
    return restart / total


def personalized_pagerank(graph: TransitionGraph, restart: Tensor, *, damping: float = 0.5, tolerance: float = 1e-9) -> Tensor:
    r"""Return the stationary distribution of a walk that restarts with probability 1 - damping, by power iteration.

    .. math:: p = (1 - d) s + d \, (W D^{-1} p + s \sum_{\deg u = 0} p_u)

    Parameters
    ----------
    graph : TransitionGraph
    restart : Tensor, shape [B, N]
        Restart weights, not negative; each row is brought to sum 1.
    damping : float, default 0.5
        Probability d of following an edge; FastInsight's alpha is 1 - d.
    tolerance : float, default 1e-9
        Bound on the L1 error of each row, its rounding included.

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
    check_damping(damping)
    restart = _normalised(restart)
    # Relative rounding error of one step; a node has as many additions as edges.
    rounding = torch.finfo(torch.float64).eps * (torch.diff(graph.indptr) + 4).double()
    # The columns are queries: one sparse product a step serves all of them. For one query the vector form is faster.
    start = restart.T.contiguous() if restart.shape[0] != 1 else restart[0].clone()
    value, restarted = start, (1 - damping) * start
    before: float | Tensor = float("inf")
    for _ in range(_MAX_STEPS):
        # Isolated nodes are left out of the walk: by linearity, the mass they return only rescales the result.
        new = (graph.product @ value).mul_(damping).add_(restarted)
        change = value.sub_(new).abs_().sum(0)
        value = new
        error = 2 * (damping * change + rounding @ value) / ((1 - damping) * value.sum(0))
        left = error > tolerance
        if not bool(left.any()):
            value = value.T if value.dim() == 2 else value.unsqueeze(0)
            return value / value.sum(1, keepdim=True)
        # Without rounding, each change is smaller than the one before by the factor d.
        if bool((left & (change >= before)).any()):
            raise ConvergenceError(
                f"PageRank with damping {damping} cannot meet the tolerance {tolerance:g} on this graph: rounding alone leaves "
                f"an error of up to {float(error.max()):.1e}. Lower the damping or raise the tolerance."
            )
        before = change
    # Two distributions are never further apart than 2.
    raise ConvergenceError(_too_slow(damping, min(2.0, float(error.max()))) + " or raise the tolerance.")


def _too_slow(damping: float, error: float) -> str:
    return (
        f"PageRank with damping {damping} has not converged after {_MAX_STEPS:,} steps; the bound on its error is still "
        f"{error:.1e}. Lower the damping"
    )


def certified_top_k(graph: TransitionGraph, restart: Tensor, k: int, *, damping: float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return the k nodes of highest personalized PageRank, stopping as soon as they are proven.

    With :math:`x_0 = s`, :math:`x_{t+1} = d\, W D^{-1} x_t`, the sum :math:`p_t = (1 - d) \sum_{j < t} x_j` never exceeds the
    true p. On an undirected graph the largest and the smallest ratio :math:`\rho = x_t(u) / \deg(u)` approach each other, and

    .. math:: d \rho_{min} \deg(v) \le p(v) - p_t(v) - (1 - d) x_t(v) \le d \rho_{max} \deg(v).

    The set is proven when its k lower bounds lie above every other node's upper bound, usually after a few steps, of which
    the first touch few nodes; where at most k nodes can be reached, when it contains all of them.

    Parameters
    ----------
    graph, restart, damping
        As for :func:`personalized_pagerank`.
    k : int
        Clamped to N.

    Returns
    -------
    nodes : Tensor, shape [B, k], int64
        Best first by estimate; -1 pads where fewer nodes are reached.
    scores : Tensor, shape [B, k], float64
        Estimates, including the mass that is still under way. The exact values sum to 1; all errors together are below 0.08,
        in practice far below. Zero on pads.
    certified : Tensor, shape [B], bool
        Whether the set is proven: no node outside it has a value above one inside by more than a share of 1e-9, and none has
        a positive value where there are pads. Where the k-th and the next node are equal, no set can be proven. An unproven
        set is that of the walk when a share of 1e-9 is still under way, so no node outside exceeds one inside by more.

    Raises
    ------
    InvalidArgumentError
        As for :func:`personalized_pagerank`.
    ConvergenceError
        If a set is not proven after 10,000 steps, which takes a damping above .997.

    References
    ----------
    The upper bound is that of forward push: Andersen, Chung and Lang, "Local Graph Partitioning using PageRank Vectors",
    FOCS 2006, Lemma 5; the lower bound is analogous.

    Examples
    --------
    >>> graph = TransitionGraph(CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")]))
    >>> nodes, _, certified = certified_top_k(graph, torch.tensor([[1.0, 0.0, 0.0]]), 2)
    >>> nodes.tolist(), certified.tolist()
    ([[0, 1]], [True])
    """
    check_damping(damping)
    restart = _normalised(restart)
    k = min(positive("k", k), graph.size)
    results = [_walk(graph, row, k, damping) for row in restart]
    return (
        torch.stack([nodes for nodes, _, _ in results]),
        torch.stack([scores for _, scores, _ in results]),
        torch.tensor([proven for _, _, proven in results], device=restart.device),
    )


def check_damping(damping: float) -> None:
    """Raise InvalidArgumentError unless the damping lies in [0, 1)."""
    if not is_number(damping) or not 0 <= damping < 1:
        raise InvalidArgumentError(f"damping must lie in [0, 1), got {shown(damping)}.")


def _walk(graph: TransitionGraph, restart: Tensor, k: int, damping: float) -> tuple[Tensor, Tensor, bool]:
    seeds = restart.nonzero().flatten()
    given = restart[seeds]
    linked = graph.strength[seeds] > 0
    mass, estimate = torch.zeros_like(restart), torch.zeros_like(restart)
    mass[seeds] = torch.where(linked, given, 0.0)
    # A seed without edges keeps (1 - d) of its mass; the mass it returns rescales all values alike.
    estimate[seeds] = torch.where(linked, 0.0, (1 - damping) * given)
    whole = float(given[linked].sum())
    scale = 1.0 / (whole + (1 - damping) * float(given[~linked].sum()))
    front: Tensor | None = seeds[linked]
    share, before = 1.0, -1
    outside: Tensor | None = None
    for _ in range(_MAX_STEPS):
        estimate.add_(mass, alpha=1 - damping)
        mass, front = _step(graph, mass, front, damping)
        share *= damping
        if share > _SHARE_LEFT:
            continue
        if outside is None:
            held = estimate > 0
            # Including seeds whose value is too small for a float.
            held[seeds] = True
            reached = int(held.sum())
            if reached == before or share <= _SHARE_OVER:
                # Once no edge leaves the reached nodes, the walk never reaches others.
                outside = ~held if _closed(graph, held, damping) else None
            before = reached
        nodes, proven = _certificate(graph, estimate, mass, k, damping, outside)
        values = estimate[nodes] + mass[nodes]
        found = int((values > 0).sum())
        if outside is not None and found == reached:
            proven = True
        if proven or share <= _SHARE_OVER:
            break
    else:
        raise ConvergenceError(_too_slow(damping, share) + ".")
    values, order = torch.sort(values, descending=True, stable=True)
    nodes, values = nodes[order][:found], values[:found] * scale
    pad = k - found
    return torch.nn.functional.pad(nodes, (0, pad), value=-1), torch.nn.functional.pad(values, (0, pad), value=0.0), proven


def _step(graph: TransitionGraph, mass: Tensor, front: Tensor | None, damping: float) -> tuple[Tensor, Tensor | None]:
    """Return d W D^-1 mass and the nodes with mass; None in their place once a product with the whole matrix is cheaper."""
    if front is None or front.numel() > graph.size // 16:
        return (graph.product @ mass).mul_(damping), None
    owner, entry = gather_rows(graph.indptr, front)
    target = graph.neighbors[entry].long()
    share = (damping * mass[front] * graph.inverse[0][front])[owner] * graph.weights[entry]
    moved = torch.zeros_like(mass).index_add_(0, target, share)
    return moved, torch.unique(target) if target.numel() <= graph.size // 4 else None


def _certificate(
    graph: TransitionGraph, estimate: Tensor, mass: Tensor, k: int, damping: float, outside: Tensor | None
) -> tuple[Tensor, bool]:
    """Return the k best by lower bound, and whether all of them are above 0 and above every other node's upper bound."""
    inverse, alone = graph.inverse
    ratio = mass * inverse
    high, low = float(ratio.max()), float((ratio + alone).min())
    low = 0.0 if low == float("inf") else low
    known = torch.add(estimate, mass, alpha=1 - damping)
    # In exact order: what counts as a tie elsewhere is far more than what separates proven nodes here.
    values, nodes = top_k(torch.add(known, graph.strength, alpha=damping * low).unsqueeze(0), k, tolerance=0.0)
    upper = known.add_(graph.strength, alpha=damping * high)
    upper[nodes[0]] = 0.0
    if outside is not None:
        upper[outside] = 0.0
    return nodes[0], float(values[0, -1]) > float(upper.max()) * (1 + _LEAD)


def _closed(graph: TransitionGraph, held: Tensor, damping: float) -> bool:
    """Return whether the walk cannot leave the nodes of a mask."""
    if damping == 0 or bool((held | (graph.strength == 0)).all()):
        return True
    _, entry = gather_rows(graph.indptr, held.nonzero().flatten())
    return bool(held[graph.neighbors[entry].long()].all())


def walk_parents(graph: TransitionGraph, found: Ranking, seeds: Tensor) -> Tensor:
    """Return for each found node the one ranked before it that sends it most of the walk's mass: [B, K]; -1 for seeds, [B, S].

    Parents are ranked before, so they lead back to a seed, or to a node reached from nodes that were not kept.
    """
    count, width = found.nodes.shape
    if not found.nodes.numel():
        return found.nodes
    walked = torch.where(columns_of(seeds, found.nodes) >= 0, -1, found.nodes).flatten()
    place, entry = gather_rows(graph.indptr, walked)
    batch, near = place // width, graph.neighbors[entry].long()
    held = (torch.arange(count, device=near.device).unsqueeze(1) * graph.size + found.nodes).masked_fill(found.nodes < 0, -1)
    keys, order = torch.sort(held.flatten())
    wanted = batch * graph.size + near
    at = torch.searchsorted(keys, wanted).clamp(max=keys.numel() - 1)
    column = order[at] % width
    before = (keys[at] == wanted) & (column < place % width)
    flow = found.scores[batch, column] * (graph.weights[entry] / graph.strength[near]).float()
    place, near, flow = place[before], near[before], flow[before]
    # Neighbours are in row order, so of equal flows the lower row is first; then one run for each place.
    by_flow = torch.sort(flow, descending=True, stable=True).indices
    by_place = by_flow[torch.sort(place[by_flow], stable=True).indices]
    first = torch.ones_like(by_place, dtype=torch.bool)
    first[1:] = place[by_place][1:] != place[by_place][:-1]
    parents = torch.full((count * width,), -1, dtype=torch.int64, device=near.device)
    parents[place[by_place][first]] = near[by_place][first]
    return parents.view(count, width)


class PersonalizedPageRank(Operator):
    """Rank all nodes by a random walk that restarts at the nodes found so far: O_gs.

    The seeds of a query share a restart weight of 1 in proportion to their positive scores; all nodes together share
    `passage_weight` in proportion to their vector similarity to the query, brought to [0, 1] by min-max.

    Parameters
    ----------
    k : int, optional
        Nodes to keep; by default as many as the hits requested, at least 100.
    damping : float, default 0.5
        Probability of following an edge.
    passage_weight : float, default 0.05
        Restart weight of all nodes together, next to the seeds' 1. With 0 the walk restarts at the seeds alone and stops as
        soon as the nodes to keep are proven (:func:`certified_top_k`).

    Notes
    -----
    A hit's path follows, node by node, the neighbour ranked before it that sends it most of the walk's mass.

    Weights of parallel relationship rows are added, direction is ignored, and a node without edges sends its mass to the restart
    distribution. A query without seeds restarts by similarity alone; without similarities it finds nothing. The seed filter
    applies to similarity too.

    HippoRAG 2 gives *each* passage 0.05 of its similarity. There passages are leaves attached to phrases; in a corpus graph
    passages link to each other, and thousands of such weights would outweigh the seeds. Hence one weight for all together.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025; Jeh and Widom, "Scaling Personalized Web
    Search", WWW 2003; FastInsight, Example 2.

    Examples
    --------
    >>> from graph_retrievers import BM25Search, GraphIndex, Pipeline, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    >>> walk = Pipeline(BM25Search(1), PersonalizedPageRank(passage_weight=0))
    >>> [hit.path.text for hit in Retriever(index, walk).retrieve("loom")]
    ['0', '0 -> 1', '0 -> 1 -> 2']
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, k: int | None = None, *, damping: float = 0.5, passage_weight: float = 0.05) -> None:
        check_damping(damping)
        if not is_number(passage_weight) or not 0 <= passage_weight <= 1e30:
            raise InvalidArgumentError(f"passage_weight must be at least 0 and at most 1e30, got {shown(passage_weight)}.")
        self.k = None if k is None else positive("k", k)
        self.damping, self.passage_weight = float(damping), float(passage_weight)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return nodes by their share of the walk."""
        walk, corpus = queries.walk_allowed, queries.index.graph
        graph = corpus.cache.get("transitions", lambda: TransitionGraph(corpus)) if walk is None else TransitionGraph(corpus, walk)
        keep = min(self.k or max(queries.k, 100), graph.size)
        restart = self._restart(queries, ranking)
        nowhere = restart.sum(1, keepdim=True) <= 0
        # The weights of a query without restart nodes do not matter: its results are dropped.
        restart = restart.masked_fill(nowhere, 1.0)
        if self.passage_weight == 0 and walk is None:
            nodes, scores, certified = certified_top_k(graph, restart, keep, damping=self.damping)
            unsure = ("PageRank: the nodes at the cut are not proven to be the best",)
            notes = tuple(() if sure else unsure for sure in certified.tolist())
            found = Ranking.of(nodes.masked_fill(nowhere, -1), scores, self.name, notes=notes)
        else:
            scores = personalized_pagerank(graph, restart, damping=self.damping, tolerance=1e-7)
            values, nodes = top_k(scores, keep)
            found = Ranking.of(torch.where((values > 0) & ~nowhere, nodes, -1), values, self.name)
        return replace(found, trails=followed_trails(found.nodes, walk_parents(graph, found, ranking.nodes)))

    def _restart(self, queries: Queries, ranking: Ranking) -> Tensor:
        size = len(queries.index)
        real = ranking.nodes >= 0
        weights = torch.where(real, ranking.scores.clamp(min=0).double(), 0.0)
        total = weights.sum(1, keepdim=True)
        alike = torch.where(real, 1.0 / real.sum(1, keepdim=True).clamp(min=1), 0.0)
        weights = torch.where(total > 0, weights / total.clamp(min=1e-30), alike)
        restart = torch.zeros((len(queries), size), dtype=torch.float64, device=ranking.nodes.device)
        restart.scatter_add_(1, ranking.nodes.clamp(min=0), weights)
        empty = ~real.any(1)
        if self.passage_weight or (queries.index.has_dense and queries.has_vectors and bool(empty.any())):
            similarity = queries.index.dense.table(queries.vectors).double()
            passages = min_max(similarity, similarity.amin(1, keepdim=True), similarity.amax(1, keepdim=True))
            # What only rounding lifts above the lowest would share all weight where a filter leaves nothing else.
            passages = passages.masked_fill(passages < 1e-6, 0.0)
            if queries.seeds_allowed is not None:
                passages = passages.masked_fill(~queries.seeds_allowed, 0.0)
            passages = passages / passages.sum(1, keepdim=True).clamp(min=1e-30)
            share = torch.where(empty, 1.0, self.passage_weight).double().unsqueeze(1)
            restart = restart + share * passages
        return restart
