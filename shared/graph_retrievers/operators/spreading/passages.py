"""Passages by the activation of the entities they mention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.spreading.propagation import STATE_LIMIT, Gate, PropagationState, active_entries, as_gate, groups
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["PassageGathering"]


class PassageGathering(Operator):
    r"""Passages ranked by the activation they gather from the entities that they mention.

    A passage p linked to the activated entities M(p) scores :math:`\sigma(p) \sum_{e \in M(p)} r(e)`: one more step of equation
    1 of Glybovets and Makarov, from all touched entities to the passages, without decay and threshold. The paper names it as
    future work (section VII) and gives no formula.

    Parameters
    ----------
    types : sequence of str, default ("passage",)
        Node types that are passages.
    gate : {"cosine", "uniform"} or callable, default "cosine"
        See :class:`~graph_retrievers.operators.spreading.propagation.GatedPropagation`; with the cosine gate, a passage without a
        vector gathers nothing.
    k : int, optional
        Passages to keep; all by default.

    Notes
    -----
    A passage's path is that of the entity that gives it most, and itself. Passages that the traversal filter excludes gather
    nothing. The work is that of one step of propagation.

    Examples
    --------
    >>> from graph_retrievers import CorpusGraph, GraphIndex
    >>> graph = CorpusGraph(["ada", "p"], ["", ""], types=["person", "passage"], edges=[("p", "ada")])
    >>> entities = Ranking.of(torch.tensor([[0]]), torch.tensor([[0.5]]), "Entities")
    >>> ranking = PassageGathering(gate="uniform")(Queries.of(GraphIndex.from_graph(graph), ["?"]), entities)
    >>> ranking.nodes.tolist(), ranking.scores.tolist()
    ([[1]], [[0.5]])
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, types: Sequence[str] = ("passage",), *, gate: str | Gate = "cosine", k: int | None = None) -> None:
        if isinstance(types, str) or not types:
            raise InvalidArgumentError(f"types are {shown(types)}; expected at least one node type, in a list.")
        self.types = tuple(types)
        self.gate, self._gate = gate, as_gate(gate)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the passages linked to the nodes of the ranking."""
        size, passages = len(queries.index), type_mask(queries.index.graph, self.types)
        parts = [self._gather(queries, ranking, group, passages) for group in groups(queries, STATE_LIMIT)]
        if not parts:
            return Ranking.empty(0, queries.index.device)
        keys, scores, givers = (torch.cat(columns) for columns in zip(*parts, strict=True))
        width = int(torch.bincount(keys // size, minlength=1).max()) if keys.numel() else 0
        return self.reached(ranking, keys // size, keys % size, scores.float(), givers, width)

    def _gather(self, queries: Queries, ranking: Ranking, group: range, passages: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys (query * N + row), scores and the ranking's column of the largest giver."""
        size = len(queries.index)
        walk = passages if queries.walk_allowed is None else passages & queries.walk_allowed
        keys, columns, values = active_entries(ranking, group, size, passages)
        entered, sums, nearest = PropagationState(queries, len(group), "set", walk).incoming(keys, values, values)
        if self._gate is not None:
            sums = sums * self._gate(queries, entered // size + group.start, entered % size).double()
        kept = (sums > 0).nonzero().flatten()
        entered, sums, nearest = entered[kept], sums[kept], nearest[kept]
        givers = columns[torch.searchsorted(keys, entered - entered % size + nearest)]
        return entered + group.start * size, sums, givers
