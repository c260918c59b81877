"""Gated spreading activation, O_vgs: activation walks the graph, and every node it enters asks the query first.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", equations
1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import gather_rows, pad_ranked
from graph_retrievers.index import QueryBatch
from graph_retrievers.operators.operator import Operator, OperatorKind, Ranking, positive

__all__ = ["GatedPropagation", "cosine_gate"]

Gate = Callable[[QueryBatch, Tensor, Tensor], Tensor]
"""From queries and the entries (query, node row), shape [n] each, to gates of at most 1, shape [n]."""

# Entries of the state that one group of queries holds, and edges read at a time: what bounds the memory.
_STATE_LIMIT = 1 << 22
_EDGE_LIMIT = 1 << 22
_GATE_LIMIT = 1 << 16
_NO_RANK = 2**31 - 1


def cosine_gate(queries: QueryBatch, batch: Tensor, nodes: Tensor) -> Tensor:
    """Return max(cos(query, node), 0), the gate of equation 1.

    Parameters
    ----------
    queries : QueryBatch
    batch, nodes : Tensor, shape [n], int64

    Returns
    -------
    Tensor, shape [n], float64
        0 where the node has no vector (a row of zeros): such a node cannot receive.
    """
    # In pieces: without a table of similarities, each entry costs a row of vectors.
    parts = zip(batch.split(_GATE_LIMIT), nodes.split(_GATE_LIMIT), strict=True)
    return torch.cat([queries.cosines(b, v) for b, v in parts]).clamp(min=0.0)


class GatedPropagation(Operator):
    r"""Activation of nodes after T steps from the seeds, each step gated by the query.

    A seed u with matching score s_u starts with :math:`r(u) = s_u / \max s`. In each step, and for all nodes at once,

    .. math::
        \Delta r(v) = \alpha\, \sigma(v) \sum_{u \in A(v)} r(u), \qquad
        A(v) = \{u : (u, v) \in E,\; r(u) > \tau,\; r(u) > r(v)\}

    is added to r(v) where it exceeds :math:`\tau` (equations 1 and 2). Edges carry activation both ways. Activations
    may exceed 1 and flow back to a seed: the condition r(u) > r(v) does not prevent it, whatever the paper says.

    Parameters
    ----------
    steps : int, default 3
        T.
    decay : float in (0, 1], default 0.7
        The factor alpha.
    threshold : float >= 0, default 0.01
        The threshold tau.
    gate : {"cosine", "uniform"} or callable, default "cosine"
        sigma: ``max(cos(query, node vector), 0)``, the constant 1 (the paper's ablation), or a function of
        (queries, query of each entry, node row of each entry) that gives values in [0, 1].
    semantics : {"set", "rows"}, default "set"
        Whether a neighbour counts once, as in equation 1, or once for each relationship row that joins it, as in
        the paper's database query.
    exclude_types : sequence of str, default ()
        Node types that activation never enters.
    k : int, optional
        Nodes to keep; by default all that were touched.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Reads the seeds and their scores from the ranking before it; seeds with a score of 0 or less are dropped. Gives
    all touched nodes by activation, ties to the lower row, each with its path: the parent of a node is the neighbour
    with the largest activation when the node was first entered (ties: the lower row). ``queries.statistics["touched"]``
    holds how many nodes each query touched.

    A node without a vector (a row of zeros) has gate 0 and never receives; with the uniform gate every node may. That
    is the paper's ablation as equation 1 states it.

    A step reads the edges of the nodes above the threshold and no others, so the work is at most T times the edges of
    the touched nodes; edges are read in pieces of 4 million, and queries run in groups whose state holds at most 4
    million entries (or one query). Sums are taken in 64-bit integers scaled to the largest activation, exact to about
    1e-12 of it: their order, which a GPU does not fix, cannot change a result.
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
        exclude_types: Sequence[str] = (),
        k: int | None = None,
    ) -> None:
        if not 0 < decay <= 1:
            raise InvalidArgumentError(f"decay must lie in (0, 1], got {decay!r}.")
        if not threshold >= 0:
            raise InvalidArgumentError(f"threshold must be at least 0, got {threshold!r}.")
        if not callable(gate) and gate not in ("cosine", "uniform"):
            raise InvalidArgumentError(f"Unknown gate {gate!r}; choose 'cosine', 'uniform' or pass a callable.")
        if semantics not in ("set", "rows"):
            raise InvalidArgumentError(f"Unknown semantics {semantics!r}; choose 'set' or 'rows'.")
        self.steps = positive("steps", steps)
        self.decay, self.threshold, self.semantics = float(decay), float(threshold), semantics
        self.gate: Gate | None = gate if callable(gate) else cosine_gate if gate == "cosine" else None
        self.exclude_types = tuple(exclude_types)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Return all touched nodes of each query by activation."""
        size, device = len(queries.index), queries.index.device
        walk = self._enterable(queries)
        group = max(1, _STATE_LIMIT // size)
        parts = [
            self._spread(queries, ranking, slice(start, min(start + group, len(queries))), walk)
            for start in range(0, len(queries), group)
        ]
        if not parts:
            return Ranking.empty(0, device)
        keys, activation, parents = (torch.cat(columns) for columns in zip(*parts, strict=True))
        batch, nodes = keys // size, keys % size
        counts = torch.bincount(batch, minlength=len(queries))
        queries.statistics["touched"] = counts
        return self._packed(queries, ranking, keys, batch, nodes, activation, parents, int(counts.max()))

    def _enterable(self, queries: QueryBatch) -> Tensor | None:
        graph = queries.index.graph
        names = [i for i, name in enumerate(graph.type_names) if name in self.exclude_types]
        if not names:
            return queries.walk_allowed
        kept = ~torch.isin(graph.node_types, torch.tensor(names, dtype=torch.int32, device=graph.device))
        return kept if queries.walk_allowed is None else kept & queries.walk_allowed

    def _spread(self, queries: QueryBatch, ranking: Ranking, part: slice, walk: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys (query * N + row, ascending), activations and parents of what a group of queries touches."""
        graph = queries.index.graph
        size, device, first = len(graph), graph.device, part.start
        count = part.stop - first
        if self.semantics == "set":
            indptr, neighbors = graph.indptr, graph.indices
        else:
            indptr, neighbors = graph.incidence.indptr, graph.incidence.neighbors
        widest = int((indptr[1:] - indptr[:-1]).max())
        # Dense state, of the size of the group's similarity table; what a step reads and writes is the frontier only.
        level = torch.zeros(count * size, dtype=torch.float64, device=device)
        total = torch.zeros(count * size, dtype=torch.int64, device=device)
        best = torch.full((count * size,), _NO_RANK, dtype=torch.int32, device=device)
        mark = torch.empty(count * size, dtype=torch.int32, device=device)
        touched, start = self._seeds(ranking, part, size)
        level[touched] = start
        parents = torch.full_like(touched, -1)
        for _ in range(self.steps):
            values = level[touched]
            live = values > self.threshold
            front, values = touched[live], values[live]
            if front.numel() == 0:
                break
            # The front by activation: a node's parent is the neighbour that comes first in it.
            order = torch.argsort(values, descending=True, stable=True)
            place = torch.empty_like(order, dtype=torch.int32)
            place[order] = torch.arange(front.numel(), dtype=torch.int32, device=device)
            unit = _units(front // size, values, count, widest)
            whole = torch.round(values * unit[front // size]).to(torch.int64)
            reached = []
            for piece in _pieces(indptr, front % size):
                owner, entry = gather_rows(indptr, front[piece] % size)
                owner = owner + piece.start
                node = neighbors[entry].long()
                target = (front - front % size)[owner] + node
                before = level[target]
                passing = values[owner] > before
                if walk is not None:
                    passing &= walk[node]
                passing = passing.nonzero().flatten()
                owner, target, before = owner[passing], target[passing], before[passing]
                total.index_add_(0, target, whole[owner])
                fresh = (before == 0).nonzero().flatten()
                best.scatter_reduce_(0, target[fresh], place[owner[fresh]], "amin")
                # Every target once: of all that write to its mark, the one that stays.
                number = torch.arange(target.numel(), dtype=torch.int32, device=device)
                mark[target] = number
                reached.append(target[mark[target] == number])
            entered = reached[0] if len(reached) == 1 else torch.unique(torch.cat(reached))
            batch = entered // size
            gain = self.decay * (total[entered].double() / unit[batch])
            total[entered] = 0
            # A gate is at most 1, so what falls below the threshold without it needs none.
            above = (gain > self.threshold).nonzero().flatten()
            winners, gain, batch = entered[above], gain[above], batch[above]
            if self.gate is not None:
                gain = gain * self.gate(queries, batch + first, winners % size).double()
                above = (gain > self.threshold).nonzero().flatten()
                winners, gain = winners[above], gain[above]
            new = (level[winners] == 0).nonzero().flatten()
            level[winners] += gain
            fresh_keys, turn = torch.sort(winners[new])
            new_parents = front[order[best[fresh_keys].long()]] % size
            best[entered] = _NO_RANK
            touched, turn = torch.sort(torch.cat([touched, fresh_keys]))
            parents = torch.cat([parents, new_parents])[turn]
        return touched + first * size, level[touched], parents

    def _seeds(self, ranking: Ranking, part: slice, size: int) -> tuple[Tensor, Tensor]:
        nodes, scores = ranking.nodes[part], ranking.scores[part].double()
        good = (nodes >= 0) & (scores > 0)
        highest = scores.masked_fill(~good, 0.0).amax(1, keepdim=True) if nodes.shape[1] else scores
        keys = (torch.arange(nodes.shape[0], device=nodes.device).unsqueeze(1) * size + nodes)[good]
        keys, order = torch.sort(keys)
        return keys, (scores / highest)[good][order]

    def _packed(
        self,
        queries: QueryBatch,
        ranking: Ranking,
        keys: Tensor,
        batch: Tensor,
        nodes: Tensor,
        activation: Tensor,
        parents: Tensor,
        width: int,
    ) -> Ranking:
        position = torch.arange(keys.numel(), device=keys.device)
        table, scores, place = pad_ranked(batch, nodes, activation.float(), position, len(queries), width)
        real = table >= 0
        place = place.clamp(min=0)
        # Whole paths, so that a hit keeps its own when its parent is cut off: chase the parents, at most one a step.
        up = torch.searchsorted(keys, (batch * size_of(queries) + parents).clamp(min=0))
        columns, here = [table], place
        for _ in range(self.steps if table.numel() else 0):
            parent = torch.where(columns[0] >= 0, parents[here], torch.full_like(here, -1))
            columns.insert(0, parent)
            here = torch.where(parent >= 0, up[here], here)
        start = torch.where(real, torch.where(parents[place] < 0, 0, 1), -1) if table.numel() else table
        return Ranking(
            table,
            scores,
            torch.where(real, parents[place], -1) if table.numel() else table,
            start,
            ((ranking.operators or ("Seed",))[-1], self.name),
            torch.stack(columns, 2),
            ranking.notes,
        )


def size_of(queries: QueryBatch) -> int:
    return len(queries.index)


def _units(batch: Tensor, values: Tensor, count: int, widest: int) -> Tensor:
    """Return how many integer steps make 1, per query: the most that cannot overflow, a power of two."""
    top = torch.zeros(count, dtype=torch.float64, device=values.device).scatter_reduce_(0, batch, values, "amax")
    return torch.exp2(61 - torch.ceil(torch.log2(top.clamp(min=1e-300) * widest)))


def _pieces(indptr: Tensor, rows: Tensor) -> Iterator[slice]:
    """Yield slices of `rows` whose CSR rows hold about ``_EDGE_LIMIT`` entries at most (one row may hold more)."""
    ends = torch.cumsum(indptr[rows + 1] - indptr[rows], 0)
    if int(ends[-1]) <= _EDGE_LIMIT:
        yield slice(0, rows.numel())
        return
    start, done = 0, 0
    while start < rows.numel():
        stop = max(int(torch.searchsorted(ends, done + _EDGE_LIMIT, right=True)), start + 1)
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])
