"""Passages by the activation of the entities that they mention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, order, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Neighbors
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.systems.spreading.propagation import Gate, check_gate, gates, received

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
        See :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation`; with the cosine gate, a passage without a
        vector gathers nothing.
    k : int, optional
        Passages to keep; all by default.

    Notes
    -----
    A passage's path is that of the entity that gives it most, followed by the passage. Passages that the traversal filter
    excludes gather nothing. The cost is that of one step of propagation.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> graph = CorpusGraph(["ada", "p"], ["", ""], types=["person", "passage"], edges=[("p", "ada")])
    >>> entities = Candidates.seeds(np.array([0]), np.array([0.5]), "Entities")
    >>> (found,) = ranked(PassageGathering(gate="uniform"), Queries.of(GraphIndex.from_graph(graph), ["?"]), [entities])
    >>> found.nodes, found.scores
    (array([1]), array([0.5]))
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, types: Sequence[str] = ("passage",), *, gate: str | Gate = "cosine", k: int | None = None) -> None:
        if isinstance(types, str) or not types:
            raise InvalidArgumentError(f"types are {shown(types)}; expected at least one node type, in a list.")
        self.types = tuple(types)
        self.gate = check_gate(gate)
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the passages linked to the nodes of `candidates`, by the sum of their activations."""
        places = np.flatnonzero((candidates.scores > 0) & ~question.typed(candidates.nodes, self.types))
        places = places[np.argsort(candidates.nodes[places], kind="stable")]
        amounts = candidates.scores[places].astype(np.float64)
        near = yield Neighbors(candidates.nodes[places])
        near = near.masked(question.typed(near.node, self.types))
        nodes, sums, giver = received(near, amounts, question.size)
        sums = sums * (yield from gates(self.gate, nodes))
        nodes, sums, giver = nodes[sums > 0], sums[sums > 0], giver[sums > 0]
        by = order(sums)  # of equal ones that of the lower row, as rows ascend
        return reached(candidates, places[giver[by]], nodes[by], sums[by], self.name)
