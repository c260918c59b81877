"""Gated spreading activation, O_vgs: activation spreads along edges, and enters a node by its similarity to the query.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", equations 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import choice, fraction, is_number, positive, strings
from graph_retrievers.core.candidates import Candidates, found_by, largest, order
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Near, Neighbors, Pairs, Similarity
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.search.corpus import Corpus

__all__ = ["GatedPropagation"]

Gate = Callable[[Any, Tensor, Tensor], Tensor]
"""Maps :class:`~graph_retrievers.search.queries.Queries` and the entries (query, node row), shape [n] each, to gates of at most 1,
shape [n]."""

GATES, SEMANTICS = ("cosine", "uniform"), ("set", "rows")
"""Names of gates, and whether a neighbour counts once, or once for each relationship row."""

# Where the neighbours read are more than a share of 1 / 20 of all nodes, they are numbered by a table of all nodes.
_DENSE = 20
# Activations that differ by less than this share are equal: the rest is rounding, of similarities in single precision.
_EQUAL = 1e-6
# More rounds than any graph needs take hours.
_STEPS = 1_000


def check_gate(gate: str | Gate) -> str | Gate:
    """Return a gate; InvalidArgumentError for an unknown name."""
    if not callable(gate) and gate not in GATES:
        raise InvalidArgumentError(f"Unknown gate {shown(gate)}; choose 'cosine', 'uniform' or pass a callable.")
    return gate


class GatedPropagation(Operator):
    r"""Activation of nodes after T steps from the seeds, where the query gates each step.

    A seed u with matching score s_u starts with :math:`r(u) = s_u / \max s`. In each step, and for all nodes at once,

    .. math::
        \Delta r(v) = \alpha\, \sigma(v) \sum_{u \in A(v)} r(u), \qquad
        A(v) = \{u : (u, v) \in E,\; r(u) > \tau,\; r(u) > r(v)\}

    is added to r(v) where it exceeds :math:`\tau` (equations 1 and 2). Edges pass activation both ways. Activations may exceed 1
    and flow back to a seed: contrary to the paper, the condition r(u) > r(v) does not prevent it.

    Parameters
    ----------
    steps : int, default 3
        T, at most 1,000.
    decay : float in (0, 1], default 0.7
        The factor alpha.
    threshold : float >= 0, default 0.01
        The threshold tau.
    gate : {"cosine", "uniform"} or callable, default "cosine"
        sigma: ``max(cos(query, node vector), 0)``, the constant 1 (the paper's ablation), or a function of (queries, query of
        each entry, node row of each entry) that returns values in [0, 1].
    semantics : {"set", "rows"}, default "set"
        Whether a neighbour counts once, as in equation 1, or once for each relationship row to it, as in the paper's database
        query.
    hub_exponent : float in [0, 1], default 0
        Exponent p of the damping of hubs, which the paper does not have: a node gives each neighbour ``r(u) / degree(u) ** p``
        instead of r(u). Around 0.25, with a tenth of the default threshold, it finds somewhat more among fewer nodes.
    exclude_types : sequence of str, default ()
        Node types at which activation neither starts nor arrives.
    k : int, optional
        Nodes to keep; by default all touched nodes.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Reads the seeds and their scores from the previous ranking; seeds with a score of 0 or less are dropped. Returns all touched
    nodes by activation, ties to the lower row, each with its path: the parent of a node is the neighbour that gave most over one
    edge when the node was first entered (ties: the lower row). ``Question.touched`` has the number of touched nodes.

    A node without a vector (a row of zeros) has gate 0 and never receives activation; with the uniform gate every node can
    receive, as in the paper's ablation.

    A step reads only the edges of the nodes above the threshold, so the cost is at most T times the edges of the touched nodes.
    Activations within a millionth of each other are equal: r(u) > r(v) does not depend on the rounding of similarities.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")])
    >>> queries, seeds = Queries.of(GraphIndex.from_graph(graph), ["?"]), Candidates.seeds(np.array([0]), np.array([1.0]), "Seeds")
    >>> (found,) = ranked(GatedPropagation(steps=2, gate="uniform"), queries, [seeds])
    >>> [(node, round(score, 2)) for node, score in zip(found.nodes.tolist(), found.scores.tolist())]
    [(1, 1.4), (0, 1.0), (2, 0.49)]
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    batched = True

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
        self.gate, self.hub_exponent = check_gate(gate), fraction("hub_exponent", hub_exponent)
        self.exclude_types = strings("exclude_types", exclude_types)
        self.k = None if k is None else positive("k", k)

    def compares_vectors(self, index: Corpus) -> bool:
        """Return whether the gate does."""
        return self.gate != "uniform"

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return all touched nodes by activation; the nodes of `candidates` are the seeds."""
        activation = np.zeros(question.size)
        seeds = candidates.taken(np.flatnonzero((candidates.scores > 0) & ~question.typed(candidates.nodes, self.exclude_types)))
        # Algorithm 1, line 6: r(u) = s_u / max s.
        activation[seeds.nodes] = seeds.scores.astype(np.float64) / largest(seeds.scores, question.owners(seeds.nodes))
        touched, parents = np.sort(seeds.nodes), np.full(len(seeds), -1)
        for _ in range(self.steps):
            front = touched[activation[touched] > self.threshold]
            if not len(front):
                break
            degree, near = yield Degree(front, self.semantics == "rows"), Neighbors(front, self.semantics == "rows")
            values = activation[front]
            amounts = values / np.maximum(degree, 1.0) ** self.hub_exponent if self.hub_exponent else values
            # Equation 1: a node receives from its neighbours u with r(u) > r(v).
            near = near.masked((values * (1 - _EQUAL)).take(near.owner) > activation.take(near.node))
            nodes, sums, giver = received(near, amounts, question.size, question.owners(front))
            gain = self.decay * sums
            # A gate is at most 1, so it is only needed where the gain without it is above the threshold.
            places = np.flatnonzero((gain > self.threshold) & ~question.typed(nodes, self.exclude_types))
            nodes, gain, giver = nodes[places], gain[places] * (yield from gates(self.gate, nodes[places])), giver[places]
            # Equation 2: what exceeds the threshold is added.
            places = np.flatnonzero(gain > self.threshold)
            nodes, gain, giver = nodes[places], gain[places], giver[places]
            new = np.flatnonzero(activation[nodes] == 0)
            activation[nodes] += gain
            touched, parents = np.append(touched, nodes[new]), np.append(parents, front[giver[new]])
            ascending = np.argsort(touched, kind="stable")
            touched, parents = touched[ascending], parents[ascending]
        question.visited(touched)
        # Of equal activations that of the lower row comes first, as rows ascend.
        found = found_by(self.name, candidates, touched, activation[touched], parents)
        return found.rescored(found.scores, question.owners(touched))


def received(
    near: Near, amounts: np.ndarray, size: int, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which nodes receive, ascending, the sums of what their neighbours give, and who gives most, each of shape [M].

    `amounts`, shape [F], is what each node of a front gives to each of its neighbours `near`; `size` is the number of nodes N. Who
    gives most is a place in the front, of equal ones the lowest. `groups`, shape [F], has the question of each node of
    the front, if there are several.
    """
    if len(near.node) * _DENSE > size:
        receives, place = np.zeros(size, bool), np.empty(size, np.int64)
        receives[near.node] = True
        nodes = np.flatnonzero(receives)
        place[nodes] = np.arange(len(nodes))
        at = place.take(near.node)
    else:
        nodes, at = np.unique(near.node, return_inverse=True)
    sums = np.bincount(at, amounts.take(near.owner), len(nodes))
    by = order(amounts, groups=groups)
    first = np.full(len(nodes), len(by))
    np.minimum.at(first, at, np.argsort(by).take(near.owner))
    return nodes, sums, by[first]


def gates(gate: str | Gate, nodes: np.ndarray) -> Algorithm[np.ndarray]:
    """Request sigma of nodes, shape [n]: max(cos(query, node), 0), 1, or the result of a function; float64, shape [n].

    A node without a vector (a row of zeros) has the cosine 0 and cannot receive.
    """
    if callable(gate):
        return (yield Pairs(gate, nodes))  # type: ignore[no-any-return]
    if gate == "uniform":
        return np.ones(len(nodes))
    return np.maximum((yield Similarity(nodes)), 0.0)
