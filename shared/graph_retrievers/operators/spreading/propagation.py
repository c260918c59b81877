"""Gated spreading activation, O_vgs: activation spreads along edges, and enters a node as far as it resembles the query.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", equations 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from graph_retrievers.arguments import choice, fraction, is_number, positive, strings
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.ragged import columns_of, descending, gather_rows, pad_ranked, row_pieces
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["GatedPropagation", "cosine_gate"]

Gate = Callable[[Queries, Tensor, Tensor], Tensor]
"""From queries and the entries (query, node row), shape [n] each, to gates of at most 1, shape [n]."""

GATES, SEMANTICS = ("cosine", "uniform"), ("set", "rows")
"""Names of gates, and what a neighbour counts: once, or once for each relationship row."""

# Limits of memory: entries of the state of one group of queries, and edges read at a time.
STATE_LIMIT = 1 << 22
EDGE_LIMIT = 1 << 22
_GATE_LIMIT = 1 << 16
_LAST = 2**31 - 1
# Activations that differ by less than this share are equal: the rest is rounding, of similarities in single precision.
_EQUAL = 1e-6
# More rounds than any graph needs take hours.
_STEPS = 1_000


def cosine_gate(queries: Queries, batch: Tensor, nodes: Tensor) -> Tensor:
    """Return max(cos(query, node), 0), the gate of equation 1, for queries and node rows of shape [n]: [n], float64.

    A node without a vector (a row of zeros) has 0 and cannot receive.
    """
    # In pieces: without a table of similarities, each entry needs a row of vectors in memory.
    parts = zip(batch.split(_GATE_LIMIT), nodes.split(_GATE_LIMIT), strict=True)
    return torch.cat([queries.cosines(b, v) for b, v in parts]).clamp(min=0.0)


def as_gate(gate: str | Gate) -> Gate | None:
    """Return the function of a gate, None for the uniform one; InvalidArgumentError for an unknown name."""
    if callable(gate):
        return gate
    if gate not in GATES:
        raise InvalidArgumentError(f"Unknown gate {shown(gate)}; choose 'cosine', 'uniform' or pass a callable.")
    return cosine_gate if gate == "cosine" else None


class GatedPropagation(Operator):
    r"""Activation of nodes after T steps from the seeds, each step gated by the query.

    A seed u with matching score s_u starts with :math:`r(u) = s_u / \max s`. In each step, and for all nodes at once,

    .. math::
        \Delta r(v) = \alpha\, \sigma(v) \sum_{u \in A(v)} r(u), \qquad
        A(v) = \{u : (u, v) \in E,\; r(u) > \tau,\; r(u) > r(v)\}

    is added to r(v) where it exceeds :math:`\tau` (equations 1 and 2). Edges carry activation both ways. Activations
    may exceed 1 and flow back to a seed: unlike the paper says, the condition r(u) > r(v) does not prevent it.

    Parameters
    ----------
    steps : int, default 3
        T, at most 1,000.
    decay : float in (0, 1], default 0.7
        The factor alpha.
    threshold : float >= 0, default 0.01
        The threshold tau.
    gate : {"cosine", "uniform"} or callable, default "cosine"
        sigma: ``max(cos(query, node vector), 0)``, the constant 1 (the paper's ablation), or a function of
        (queries, query of each entry, node row of each entry) that gives values in [0, 1].
    semantics : {"set", "rows"}, default "set"
        Whether a neighbour counts once, as in equation 1, or once for each relationship row to it, as in the paper's database
        query.
    hub_exponent : float in [0, 1], default 0
        p of the damping of hubs, which the paper does not have: a node gives each neighbour ``r(u) / degree(u) ** p`` instead
        of r(u). Around 0.25, with a tenth of the default threshold, it finds somewhat more among fewer nodes.
    exclude_types : sequence of str, default ()
        Node types that activation neither starts from nor enters.
    k : int, optional
        Nodes to keep; by default all that were touched.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Reads the seeds and their scores from the ranking before it; seeds with a score of 0 or less are dropped. Returns all touched
    nodes by activation, ties to the lower row, each with its path: the parent of a node is the neighbour that gave most when
    the node was first entered (ties: the lower row). ``Ranking.touched`` has the number of nodes that each query touched.

    A node without a vector (a row of zeros) has gate 0 and never receives; with the uniform gate every node may, as in the
    paper's ablation.

    A step reads the edges of the nodes above the threshold and no others, so the work is at most T times the edges of the
    touched nodes; edges are read in pieces of 4 million, and queries run in groups whose state has at most 4 million entries
    (or one query). Sums are taken in 64-bit integers scaled to the largest activation, exact to about 1e-12 of it, and
    activations within a billionth of each other are equal: r(u) > r(v) depends neither on the order of a sum, which a GPU does
    not fix, nor on its rounding.

    Examples
    --------
    >>> from graph_retrievers import CorpusGraph, GraphIndex
    >>> graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")])
    >>> seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    >>> ranking = GatedPropagation(steps=2, gate="uniform")(Queries.of(GraphIndex.from_graph(graph), ["?"]), seeds)
    >>> [(node, round(score, 2)) for node, score in zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist())]
    [(1, 1.4), (0, 1.0), (2, 0.49)]
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(
        self,
        *,
        steps: int = 3,
        decay: float = 0.7,
        threshold: float = 0.01,
        gate: str | Gate = "cosine",
        semantics: str = "set",
        hub_exponent: float = 0.0,
        exclude_types: Sequence[str] = (),
        k: int | None = None,
    ) -> None:
        if not is_number(decay) or not 0 < decay <= 1:
            raise InvalidArgumentError(f"decay must lie in (0, 1], got {shown(decay)}.")
        if not is_number(threshold) or not threshold >= 0:
            raise InvalidArgumentError(f"threshold must be at least 0, got {shown(threshold)}.")
        self.steps = positive("steps", steps, _STEPS)
        self.decay, self.threshold, self.semantics = float(decay), float(threshold), choice("semantics", semantics, SEMANTICS)
        self.gate, self._gate, self.hub_exponent = gate, as_gate(gate), fraction("hub_exponent", hub_exponent)
        self.exclude_types = strings("exclude_types", exclude_types)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return all touched nodes of each query by activation."""
        size = len(queries.index)
        parts = [self._spread(queries, ranking, group) for group in groups(queries, STATE_LIMIT)]
        if not parts:
            return Ranking.empty(0, queries.index.device)
        keys, activation, parents = (torch.cat(columns) for columns in zip(*parts, strict=True))
        counts = torch.bincount(keys // size, minlength=len(queries))
        position = torch.arange(keys.numel(), device=keys.device)
        table, scores, place = pad_ranked(keys // size, keys % size, activation.float(), position, len(queries), int(counts.max()))
        if keys.numel() == 0:
            return Ranking.of(table, scores, self.name, touched=counts)
        real, place = table >= 0, place.clamp(min=0)
        operators = tuple(dict.fromkeys((*(ranking.operators or ("Seed",)), self.name)))
        # A seed keeps the name of the operator that found it.
        seeds = ranking.origins.gather(1, columns_of(ranking.nodes, table).clamp(min=0)).clamp(min=0)
        origins = torch.where(real, torch.where(parents[place] >= 0, operators.index(self.name), seeds), -1)
        trails = self._trails(keys, parents, table, place, size)
        found = Ranking.of(table, scores, self.name, trails, touched=counts).trimmed()
        return replace(found, origins=origins, operators=operators)

    def _trails(self, keys: Tensor, parents: Tensor, table: Tensor, place: Tensor, size: int) -> Tensor:
        """Return the paths of all nodes, so that a hit keeps its own if its parents are cut off: [B, K, steps + 1]."""
        up = torch.searchsorted(keys, keys - keys % size + parents.clamp(min=0))
        columns = [table]
        for _ in range(self.steps):
            columns.insert(0, torch.where(columns[0] >= 0, parents[place], -1))
            place = torch.where(columns[0] >= 0, up[place], place)
        return torch.stack(columns, 2)

    def _spread(self, queries: Queries, ranking: Ranking, group: range) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys (query * N + row, ascending), activations and parents of what a group of queries touches."""
        size = len(queries.index)
        excluded = type_mask(queries.index.graph, self.exclude_types) if self.exclude_types else None
        walk = queries.walk_allowed
        if excluded is not None:
            walk = ~excluded if walk is None else walk & ~excluded
        state = PropagationState(queries, len(group), self.semantics, walk)
        touched, _, scores = active_entries(ranking, group, size, excluded)
        top = torch.zeros(len(group), dtype=torch.float64, device=scores.device).scatter_reduce_(0, touched // size, scores, "amax")
        state.level[touched] = scores / top[touched // size]
        parents = torch.full_like(touched, -1)
        # As many as activation is given to: neighbours, or rows to them.
        degree = state.indptr.diff().clamp(min=1).double() ** self.hub_exponent
        for _ in range(self.steps):
            values = state.level.index_select(0, touched)
            live = (values > self.threshold).nonzero().flatten()
            if live.numel() == 0:
                break
            front, values = touched.index_select(0, live), values.index_select(0, live)
            given = values / degree[front % size] if self.hub_exponent else values
            entered, sums, nearest = state.incoming(front, values, given)
            gain = self.decay * sums
            # A gate is at most 1, so it is only needed where the gain without it is above the threshold.
            kept = (gain > self.threshold).nonzero().flatten()
            if self._gate is not None:
                asked = entered.index_select(0, kept)
                gain[kept] *= self._gate(queries, asked // size + group.start, asked % size).double()
                kept = (gain > self.threshold).nonzero().flatten()
            entered, nearest, gain = (values.index_select(0, kept) for values in (entered, nearest, gain))
            level = state.level.index_select(0, entered)
            new = (level == 0).nonzero().flatten()
            state.level.scatter_(0, entered, level + gain)
            touched, order = torch.sort(torch.cat([touched, entered[new]]))
            parents = torch.cat([parents, nearest[new]])[order]
        return touched + group.start * size, state.level[touched], parents


def neighborhood(graph: CorpusGraph, semantics: str) -> tuple[Tensor, Tensor]:
    """Return CSR pointers and neighbours: each neighbour once ("set"), or once for each relationship row ("rows")."""
    if semantics == "set":
        return graph.indptr, graph.indices
    return graph.incidence.indptr, graph.incidence.neighbors


class PropagationState:
    """Activations of a group of queries, and the sums of one step.

    The tables are dense and made once; a step reads and writes only what its front reaches. Entry ``b * N + v`` is node v for
    the group's query b.
    """

    def __init__(self, queries: Queries, count: int, semantics: str, walk: Tensor | None) -> None:
        graph = queries.index.graph
        self.size, self.count, self.walk, device = len(graph), count, walk, graph.device
        self.indptr, self.neighbors = neighborhood(graph, semantics)
        self.widest = max(1, int((graph.degree if semantics == "set" else self.indptr.diff()).max()))
        entries = count * self.size
        self.level = torch.zeros(entries, dtype=torch.float64, device=device)
        self._sum = torch.zeros(entries, dtype=torch.int64, device=device)
        self._first = torch.full((entries,), _LAST, dtype=torch.int32, device=device)
        self._mark = torch.empty(entries, dtype=torch.int32, device=device)

    def incoming(self, front: Tensor, values: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the front gives to its neighbours in one step: the entries that receive, the sums, the nearest, each [M].

        `front` [F] are the entries above the threshold, ascending, `values` their activations, `given` what each gives a
        neighbour. Entries receive from the neighbours u in the front with r(u) > r(v); the nearest is the node row of the one
        that gives most, of equal ones the lowest.
        """
        query, rows = front // self.size, front % self.size
        base = front - rows
        # The integer for 1 of each query: the largest power of two with which no sum can overflow.
        top = torch.zeros(self.count, dtype=torch.float64, device=front.device).scatter_reduce_(0, query, given, "amax")
        unit = torch.exp2(61 - torch.ceil(torch.log2(top.clamp(min=1e-300) * self.widest)))
        whole = torch.round(given * unit[query]).to(torch.int64)
        less = values * (1 - _EQUAL)
        order = descending(given)
        place = torch.empty_like(order, dtype=torch.int32)
        place[order] = torch.arange(front.numel(), dtype=torch.int32, device=front.device)
        parts = [front[:0]] if front.numel() == 0 else []
        # index_select, scatter_ and gather: several times the speed of indexing on a CPU.
        for piece in row_pieces(self.indptr, rows, EDGE_LIMIT):
            owner, entry = gather_rows(self.indptr, rows[piece])
            owner = owner + piece.start
            node = self.neighbors.index_select(0, entry)
            target = base.index_select(0, owner) + node
            passing = less.index_select(0, owner) > self.level.index_select(0, target)
            if self.walk is not None:
                passing &= self.walk[node]
            kept = passing.nonzero().flatten()
            owner, target = owner.index_select(0, kept), target.index_select(0, kept)
            self._sum.index_add_(0, target, whole.index_select(0, owner))
            self._first.scatter_reduce_(0, target, place.index_select(0, owner), "amin")
            # Each target once: of all that write their number to it, only one number remains.
            number = torch.arange(target.numel(), dtype=torch.int32, device=front.device)
            self._mark.scatter_(0, target, number)
            parts.append(target.masked_select(self._mark.index_select(0, target) == number))
        entered = parts[0] if len(parts) == 1 else torch.unique(torch.cat(parts))
        sums = self._sum.index_select(0, entered).double() / unit[entered // self.size]
        nearest = rows[order[self._first.index_select(0, entered).long()]]
        self._sum[entered], self._first[entered] = 0, _LAST
        return entered, sums, nearest


def groups(queries: Queries, limit: int) -> list[range]:
    """Return the queries in groups, as many together as have `limit` entries (query, node) at most, and at least one."""
    group = max(1, limit // len(queries.index))
    return [range(start, min(start + group, len(queries))) for start in range(0, len(queries), group)]


def active_entries(ranking: Ranking, group: range, size: int, excluded: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nodes of a group of queries with a positive score: keys, columns and scores (float64), each [n].

    Keys are ``b * N + row``, ascending, b from the group's first query; columns are those of the ranking. `size` is N, and
    `excluded`, bool [N], says which nodes to leave out.
    """
    nodes, scores = ranking.nodes[group.start : group.stop], ranking.scores[group.start : group.stop]
    good = (nodes >= 0) & (scores > 0)
    if excluded is not None:
        good &= ~excluded[nodes.clamp(min=0)]
    batch, columns = good.nonzero().unbind(1)
    keys, order = torch.sort(batch * size + nodes[good])
    return keys, columns[order], scores[good][order].double()
