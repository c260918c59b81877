"""A connected subgraph of prized nodes and edges as the result, O_gs (G-Retriever)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import descending, gather_rows
from graph_retrievers.graph.steiner_tree import prize_collecting_steiner_tree
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import LONGEST_TRAIL, Facts, Ranking

__all__ = ["SteinerTreeSearch", "edge_prizes"]

# The c of the published code, by which prizes of less similar edges fall at least; similarities nearer than this are equal.
_FALL, _ROUNDING = 0.01, 1e-6
_EDGES_PER_NODE = 20


def edge_prizes(similarities: Tensor, count: int) -> Tensor:
    """Return the prizes of edges by their similarity to the question, as G-Retriever gives them.

    With K the smaller of `count` and the number of distinct similarities, the edges of the largest similarity share a prize of K,
    those of the next share K - 1 and so on: m equally similar edges have an m-th each. Prizes fall strictly: none is above 0.99
    times that of the more similar ones.

    Parameters
    ----------
    similarities : Tensor, shape [m]
        -inf for an edge without a prize; values that differ by a millionth only are equal.
    count : int
        0 or more.

    Returns
    -------
    Tensor, shape [m], float64

    Notes
    -----
    The published code tests similarities for equality in the array that it writes prizes to, so that a similarity of 0, or one that
    equals a prize, may be prized twice. Here the two are apart.

    Examples
    --------
    >>> edge_prizes(torch.tensor([0.5, 0.5, 0.5, 0.1, 0.1, 0.3]), 3).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.99]
    """
    prizes = torch.zeros(similarities.shape, dtype=torch.float64, device=similarities.device)
    left, groups = similarities.double().clone(), list[Tensor]()
    while len(groups) < count and bool((left > -torch.inf).any()):
        best = left.amax()
        groups.append(left >= best - _ROUNDING * best.abs())
        left[groups[-1]] = -torch.inf
    last = float(len(groups))
    for place, alike in enumerate(groups):
        prize = min((len(groups) - place) / int(alike.sum()), last)
        prizes[alike], last = prize, prize * (1 - _FALL)
    return prizes


class _Subgraph(NamedTuple):
    """Nodes, best first, with the nodes and relations of the path to each; relationship rows by falling prize."""

    nodes: list[int]
    scores: Tensor
    paths: list[tuple[list[int], list[int]]]
    rows: Tensor
    gains: Tensor
    cut: bool


class SteinerTreeSearch(Operator):
    r"""The subgraph that joins the nodes found before and the edges nearest to the question: a prize-collecting Steiner tree.

    .. math:: S^* = \arg\max_{S \text{ connected}} \sum_{n \in S} p(n) + \sum_{e \in S} p(e) - c \, |E_S|

    The i-th of K nodes found before has the prize K - i + 1, and other nodes have none; for edges see :func:`edge_prizes`. An edge
    with a prize above the cost c becomes a node of prize p - c with an edge of cost 0 to either end; others cost c - p. Where edges
    have prizes, c is at most 0.995 times the highest one, so that the most similar edges are worth more than they cost.

    Parameters
    ----------
    seed_edges : int, default 3
        Distinct similarities of edges that have prizes; the published code takes 5 for WebQSP. With 0, edges have no prizes.
    cost : float, default 0.5
        The c of the equation, above 0, where no prize of an edge is as small.
    signal : str, default "edge_dense"
        Signal over the edges that gives their similarity.
    candidates : int, default 1000
        The most nodes that the tree is searched among.
    facts : bool, default False
        Whether the edges of the subgraph are results too: they are then hits of their own behind the k nodes, by prize, then row.
    k : int, optional
        Nodes to keep; the whole subgraph by default.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range, or a signal over nodes.

    Notes
    -----
    Nodes are ranked by the sum of their prize and their similarity to the question, and each path leads along the tree from its
    best node that was searched for.

    Each question of the published data brings a small graph. Here its place is taken by the neighbourhood of the nodes and edges
    that match: all nodes within one edge, two and so on, until there are `candidates`. Of the ring that does not fit, nodes with
    two neighbours inside come first, then those most similar to the question; a note says so. Of more than 20 edges a candidate,
    the most similar are read. Prizes of equally similar edges are split among the edges of the candidates: edges elsewhere in the
    graph, in parts that no match lies in too, have no share, however similar. The search takes O(n) steps over the edges of n
    candidates at most, in practice some milliseconds.

    The limit of c is that of the published code since 22 May 2024. Before, c was the `cost` everywhere, and where many edges are
    equally similar and share a prize, as edges of one relation do, the result could be a node without edges.

    The published code embeds the relation of an edge alone. Here the vector of an edge is that of its text, and of "source
    relation target" where it has none, so that fewer edges tie; edges whose text is the relation (``Edge(a, b, relation,
    text=relation)``) are read as there.

    Departures: growth is followed by strong pruning, where the published code prunes less (``"gw"``); see
    :func:`~graph_retrievers.graph.steiner_tree.prize_collecting_steiner_tree`. Edges at nodes that the traversal filter excludes
    are not used, and edges with an end that may not start a traversal have no prize. In an index without the signal no edge has a
    prize, and a note says so.

    References
    ----------
    He et al., "G-Retriever: Retrieval-Augmented Generation for Textual Graph Understanding and Question Answering", NeurIPS 2024,
    section 5.3; the prizes are those of its public code. FastInsight, Example 4.

    Examples
    --------
    >>> from graph_retrievers import Edge, GraphIndex, Node, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> nodes = [Node("ada", "", "Ada"), Node("engine", "", "Engine"), Node("babbage", "", "Babbage"), Node("loom", "", "Loom")]
    >>> edges = [("ada", "engine", "wrote for"), ("babbage", "engine", "built"), ("engine", "loom", "recalls")]
    >>> index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0, 1], [0.8, 0.6], [0, 1]])
    >>> search = Pipeline(VectorSearch(2), SteinerTreeSearch(seed_edges=0))
    >>> for hit in Retriever(index, search, backfill=False).retrieve("Who?", vector=[1, 0]):
    ...     print(round(hit.score, 1), hit.path.text)
    3.0 Ada
    1.8 Ada -[wrote for]-> Engine <-[built]- Babbage
    0.0 Ada -[wrote for]-> Engine
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(
        self,
        *,
        seed_edges: int = 3,
        cost: float = 0.5,
        signal: str = "edge_dense",
        candidates: int = 1000,
        facts: bool = False,
        k: int | None = None,
    ) -> None:
        if not is_number(cost) or not 0 < cost <= 1e30:
            raise InvalidArgumentError(f"cost must be above 0 and at most 1e30, got {shown(cost)}.")
        self.seed_edges, self.candidates = positive("seed_edges", seed_edges, least=0), positive("candidates", candidates)
        self.cost, self.k = float(cost), None if k is None else positive("k", k)
        self.signal, self.facts = signal, facts

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes of the subgraph of each query."""
        graph, prized = queries.index.graph, self._prizes_edges(queries)
        starts = ranking.nodes
        if prized:
            signal, may = queries.index.signal(self.signal), self._may_be_prized(queries)
            rows = signal.search(queries.view(self.signal), self.seed_edges, may)[1]
            ends = torch.stack([graph.sources[rows.clamp(min=0)], graph.targets[rows.clamp(min=0)]], 2)
            starts = torch.cat([starts, ends.masked_fill((rows < 0).unsqueeze(2), -1).flatten(1)], 1)
        found = [self._found(queries, b, ranking.nodes[b], starts[b], prized) for b in range(len(queries))]
        result = _padded(found, self.name, self.facts, queries.index.device)
        note = f"the subgraph was searched among the {self.candidates:,} nodes nearest to the nodes and edges that match"
        result = result.noted([subgraph.cut for subgraph in found], note)
        missing = self.seed_edges > 0 and not prized and graph.num_edges > 0
        unprized = f"edges have no prizes, for the index has no signal {self.signal!r}; build it with edge_signals=True"
        return result.noted([missing] * len(result), unprized)

    def _prizes_edges(self, queries: Queries) -> bool:
        there = self.seed_edges > 0 and self.signal in queries.index.signals
        if there and queries.index.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"SteinerTreeSearch gives prizes to edges; the signal {self.signal!r} covers nodes.")
        return there

    def _may_be_prized(self, queries: Queries) -> Tensor | None:
        graph, starts = queries.index.graph, queries.named_allowed
        return None if starts is None else starts[graph.sources] & starts[graph.targets]

    def _found(self, queries: Queries, b: int, nodes: Tensor, starts: Tensor, prized: bool) -> _Subgraph:
        """Return the subgraph of a query, from the nodes found before, best first, and the nodes that its search starts from."""
        graph, nodes, starts = queries.index.graph, nodes[nodes >= 0], starts[starts >= 0]
        pool, rows, cut = self._candidates(queries, b, starts, prized)
        gains = torch.zeros(rows.numel(), dtype=torch.float64, device=rows.device)
        if prized and rows.numel():
            likeness, may = self._likeness(queries, b, rows), self._may_be_prized(queries)
            gains = edge_prizes(likeness if may is None else likeness.masked_fill(~may[rows], -torch.inf), self.seed_edges)
        prizes = torch.zeros(pool.numel(), dtype=torch.float64, device=rows.device)
        prizes[torch.searchsorted(pool, nodes)] = torch.arange(nodes.numel(), 0, -1, device=rows.device).double()
        ends = torch.searchsorted(pool, torch.stack([graph.sources[rows], graph.targets[rows]]))
        places, chosen = self._tree(*(part.cpu().numpy() for part in (*ends, prizes, gains)))
        scores = prizes[places] + _similarities(queries, b, pool[places])
        best, by_gain = descending(scores), descending(gains[chosen])
        ranked = pool[places][best].tolist()
        paths = _paths(graph, ranked, set(starts.tolist()), rows[chosen])
        return _Subgraph(ranked, scores[best], paths, rows[chosen][by_gain], gains[chosen][by_gain], cut)

    def _likeness(self, queries: Queries, b: int, rows: Tensor) -> Tensor:
        return queries.scores(torch.full_like(rows, b), rows, self.signal)

    def _candidates(self, queries: Queries, b: int, starts: Tensor, prized: bool) -> tuple[Tensor, Tensor, bool]:
        """Return the nodes around some nodes, ascending, the relationship rows among them, and whether some were left out."""
        graph, walk = queries.index.graph, queries.walk_allowed
        held = torch.zeros(len(graph), dtype=torch.bool, device=starts.device)
        held[starts] = True
        front, room, cut = held.nonzero().flatten(), self.candidates, False
        room -= front.numel()
        while front.numel() and not cut:
            near = graph.indices[gather_rows(graph.indptr, front)[1]].long()
            near, count = torch.unique(near[~held[near] if walk is None else ~held[near] & walk[near]], return_counts=True)
            cut = near.numel() > room
            if cut:
                order = descending(_similarities(queries, b, near))
                near = near[order[torch.sort((count > 1).int()[order], descending=True, stable=True).indices]][: max(room, 0)]
            held[near] = True
            front, room = near, room - near.numel()
        pool = held.nonzero().flatten()
        inside = pool if walk is None else pool[walk[pool]]
        rows = torch.tensor(graph.edges_within(inside.tolist()), dtype=torch.int64, device=pool.device)
        most = _EDGES_PER_NODE * self.candidates
        if rows.numel() > most:
            rows, cut = (rows[descending(self._likeness(queries, b, rows))] if prized else rows)[:most].sort().values, True
        return pool, rows, cut

    def _tree(self, sources: np.ndarray, targets: np.ndarray, prizes: np.ndarray, gains: np.ndarray) -> tuple[list[int], list[int]]:
        """Return the chosen nodes and edges of a small graph, ascending; `gains` are the prizes of its edges."""
        dearest = gains.max(initial=0.0)
        cost = min(self.cost, dearest * (1 - _FALL / 2)) if dearest > 0 else self.cost
        size, plain, own = prizes.size, np.flatnonzero(gains <= cost), np.flatnonzero(gains > cost)
        middle = size + np.arange(own.size)
        near = np.concatenate([sources[plain], sources[own], middle])
        far = np.concatenate([targets[plain], middle, targets[own]])
        costs = np.concatenate([cost - gains[plain], np.zeros(2 * own.size)])
        nodes, edges = prize_collecting_steiner_tree(near, far, np.concatenate([prizes, gains[own] - cost]), costs)
        chosen = np.union1d(plain[edges[edges < plain.size]], own[nodes[nodes >= size] - size])
        held = np.unique(np.concatenate([nodes[nodes < size], sources[chosen], targets[chosen]]))
        return held.tolist(), chosen.tolist()


def _similarities(queries: Queries, b: int, nodes: Tensor) -> Tensor:
    """Return the similarity of a query and each node, as float64; 0 without vectors."""
    if not (queries.index.has_dense and queries.has_vectors):
        return torch.zeros(nodes.numel(), dtype=torch.float64, device=nodes.device)
    return queries.scores(torch.full_like(nodes, b), nodes).double()


def _paths(graph: CorpusGraph, nodes: list[int], starts: set[int], rows: Tensor) -> list[tuple[list[int], list[int]]]:
    """Return a shortest path along rows to each of some connected nodes, from the first that is a start, and its relations."""
    near: dict[int, list[tuple[int, int]]] = {node: [] for node in nodes}
    columns = (part[rows].tolist() for part in (graph.sources, graph.targets, graph.relations))
    for source, target, relation in zip(*columns, strict=True):
        near[source].append((target, relation))
        near[target].append((source, relation))
    reached = [next((node for node in nodes if node in starts), best) for best in nodes[:1]]
    paths: dict[int, tuple[list[int], list[int]]] = {node: ([node], []) for node in reached}
    for node in reached:
        for other, relation in near[node]:
            if other not in paths:
                trail, relations = paths[node]
                paths[other] = ([*trail, other][-LONGEST_TRAIL:], [*relations, relation][1 - LONGEST_TRAIL :])
                reached.append(other)
    return [paths[node] for node in nodes]


def _padded(found: list[_Subgraph], name: str, facts: bool, device: torch.device) -> Ranking:
    width = max((len(subgraph.nodes) for subgraph in found), default=0)
    longest = max((len(trail) for subgraph in found for trail, _ in subgraph.paths), default=1)
    trails = torch.full((len(found), width, longest), -1, dtype=torch.int64)
    relations, scores = torch.full((len(found), width, longest - 1), -1, dtype=torch.int64), torch.zeros(len(found), width)
    for b, subgraph in enumerate(found):
        scores[b, : len(subgraph.nodes)] = subgraph.scores.float().cpu()
        for place, (trail, steps) in enumerate(subgraph.paths):
            trails[b, place, longest - len(trail) :] = torch.tensor(trail)
            relations[b, place, longest - len(trail) :] = torch.tensor(steps, dtype=torch.int64)
    trails = trails.to(device)
    results: dict[str, Any] = {"relations": relations.to(device)}
    if facts:
        rows, gains = (pad_sequence([getattr(g, part) for g in found], True, -1) for part in ("rows", "gains"))
        results["facts"] = Facts(rows, gains.float().masked_fill(rows < 0, -torch.inf), name)
    return Ranking.of(trails[:, :, -1], scores.to(device), name, trails, **results)
