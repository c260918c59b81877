"""What an operator is, what flows between operators, and how they compose.

An operator of the taxonomy (FastInsight, section 3.1) is a pruning function applied after a ranking function:
``O = P . R``. ``Pipeline`` and ``Loop`` put operators one after another, so that a retriever reads as its
algorithm does in the paper.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import columns_of, pad_ranked

if TYPE_CHECKING:
    from graph_retrievers.index import QueryBatch

__all__ = ["Composite", "Loop", "Operator", "OperatorKind", "Pipeline", "Ranking", "list_weights", "positive"]


class OperatorKind(Enum):
    """The five kinds of operators in the taxonomy (FastInsight, Definitions 2 to 6)."""

    VECTOR_SEARCH = "O_vs"
    GRAPH_SEARCH = "O_gs"
    MODEL_SEARCH = "O_m"
    VECTOR_GRAPH_SEARCH = "O_vgs"
    GRAPH_MODEL_SEARCH = "O_gm"


@dataclass(frozen=True)
class Ranking:
    """A batch of ranked node lists, held as padded tensors on the index's device.

    Attributes
    ----------
    nodes : Tensor, shape [B, K], int64
        Node rows, best first; -1 pads at the end of a row.
    scores : Tensor, shape [B, K], float32
        The score that ordered them; -inf on pads.
    parents : Tensor, shape [B, K], int64
        The node each was reached from, -1 for a seed.
    origins : Tensor, shape [B, K], int64
        Index into `operators`: the operator that brought the node.
    operators : tuple of str
        Names of operators met so far.
    trails : Tensor, shape [B, K, L], int64, optional
        Whole paths from seed to node, -1 padded at the left, where parents alone cannot tell them.
    notes : tuple of tuple of str, length B
        What a person should know about each query: a search cut short by a limit, a fallback taken.
    """

    nodes: Tensor
    scores: Tensor
    parents: Tensor
    origins: Tensor
    operators: tuple[str, ...] = ()
    trails: Tensor | None = None
    notes: tuple[tuple[str, ...], ...] = field(default=())

    @classmethod
    def empty(cls, num_queries: int, device: torch.device) -> Ranking:
        """Return a ranking of `num_queries` empty lists."""
        whole = torch.empty((num_queries, 0), dtype=torch.int64, device=device)
        return cls(whole, torch.empty((num_queries, 0), device=device), whole, whole)

    @classmethod
    def seeds(cls, nodes: Tensor, scores: Tensor, operator: str) -> Ranking:
        """Return a ranking of nodes that one operator found by itself: no parents.

        Parameters
        ----------
        nodes, scores : Tensor, shape [B, K]
            Best first; -1 pads.
        operator : str
            Its name.
        """
        nodes = nodes.to(torch.int64)
        scores = torch.where(nodes >= 0, scores.float(), torch.full_like(scores, float("-inf"), dtype=torch.float32))
        return cls(nodes, scores, torch.full_like(nodes, -1), torch.where(nodes >= 0, 0, -1), (operator,))

    def __len__(self) -> int:
        """Return the number of queries B."""
        return self.nodes.shape[0]

    @property
    def width(self) -> int:
        """Width K of the table, pads included."""
        return self.nodes.shape[1]

    def lengths(self) -> Tensor:
        """Return the number of nodes of each list: Tensor, shape [B], int64."""
        return (self.nodes >= 0).sum(1)

    def top(self, k: int) -> Ranking:
        """Return the first `k` of each list."""
        return self.select(slice(0, k))

    def select(self, columns: slice) -> Ranking:
        """Return some columns of every list."""
        return replace(
            self,
            nodes=self.nodes[:, columns],
            scores=self.scores[:, columns],
            parents=self.parents[:, columns],
            origins=self.origins[:, columns],
            trails=self.trails[:, columns] if self.trails is not None else None,
        )

    def rescored(self, scores: Tensor) -> Ranking:
        """Return the same nodes with new scores, sorted; equal scores keep their present order, pads stay last.

        Parameters
        ----------
        scores : Tensor, shape [B, K], float32
        """
        scores = torch.where(self.nodes >= 0, scores.float(), torch.full_like(scores, float("-inf"), dtype=torch.float32))
        scores, order = torch.sort(scores, dim=1, descending=True, stable=True)
        # A real node may score -inf too: pads must still come last.
        late = torch.sort((self.nodes.gather(1, order) < 0).to(torch.int8), dim=1, stable=True).indices
        order, scores = order.gather(1, late), scores.gather(1, late)
        return replace(self.reordered(order), scores=scores)

    def reordered(self, order: Tensor) -> Ranking:
        """Return the same columns in another order: `order`, shape [B, K], holds the column of each place."""
        trails = self.trails
        if trails is not None:
            trails = trails.gather(1, order.unsqueeze(-1).expand(-1, -1, trails.shape[2]))
        return replace(
            self,
            nodes=self.nodes.gather(1, order),
            scores=self.scores.gather(1, order),
            parents=self.parents.gather(1, order),
            origins=self.origins.gather(1, order),
            trails=trails,
        )

    def append(self, other: Ranking, capacity: Tensor | int) -> Ranking:
        """Return this ranking with another's nodes behind it, each list capped.

        Parameters
        ----------
        other : Ranking
            Nodes to add; those already here are skipped.
        capacity : Tensor of shape [B] or int
            The most nodes a list may hold. For an int, it is also the width of the result.

        Returns
        -------
        Ranking
            Scores are kept as they came, so the result is ordered only until the next operator ranks it.
        """
        if len(self) != len(other):
            raise InvalidArgumentError(f"Cannot append rankings of {len(self)} and {len(other)} queries.")
        operators = self.operators + tuple(n for n in other.operators if n not in self.operators)
        lookup = torch.tensor([operators.index(n) for n in other.operators] or [0], device=self.nodes.device)
        fresh = (other.nodes >= 0) & (columns_of(self.nodes, other.nodes) < 0)
        nodes = torch.cat([self.nodes, torch.where(fresh, other.nodes, torch.full_like(other.nodes, -1))], 1)
        # Gaps close up: real nodes first, in their order.
        order = torch.sort((nodes < 0).to(torch.int8), dim=1, stable=True).indices
        limit = capacity if isinstance(capacity, Tensor) else torch.full((len(self),), capacity, device=nodes.device)
        width = min(nodes.shape[1], capacity) if isinstance(capacity, int) else nodes.shape[1]
        order = order[:, :width]
        inside = torch.arange(width, device=nodes.device) < limit.unsqueeze(1)
        nodes = torch.where(inside, nodes.gather(1, order), torch.full_like(order, -1))
        real = nodes >= 0
        origins = torch.where(other.origins >= 0, lookup[other.origins.clamp(min=0)], other.origins)

        def merged(left: Tensor, right: Tensor, pad: float) -> Tensor:
            whole = torch.cat([left, right.to(left.dtype)], 1).gather(1, order)
            return torch.where(real, whole, torch.full_like(whole, pad))

        return Ranking(
            nodes,
            merged(self.scores, other.scores, float("-inf")),
            merged(self.parents, other.parents, -1),
            merged(self.origins, origins, -1),
            operators,
            _joined_trails(self, other, order, real),
            _joined_notes(self, other),
        )


def _joined_trails(left: Ranking, right: Ranking, order: Tensor, real: Tensor) -> Tensor | None:
    if left.trails is None and right.trails is None:
        return None
    length = max(t.shape[2] for t in (left.trails, right.trails) if t is not None)

    def padded(ranking: Ranking) -> Tensor:
        if ranking.trails is None:
            # A node without a trail of its own is one step from its parent, or a seed.
            trails = torch.stack([ranking.parents, ranking.nodes], 2)[:, :, -length:]
        else:
            trails = ranking.trails
        return torch.nn.functional.pad(trails, (length - trails.shape[2], 0), value=-1)

    whole = torch.cat([padded(left), padded(right)], 1).gather(1, order.unsqueeze(-1).expand(-1, -1, length))
    return torch.where(real.unsqueeze(-1), whole, torch.full_like(whole, -1))


def _joined_notes(left: Ranking, right: Ranking) -> tuple[tuple[str, ...], ...]:
    if not left.notes or not right.notes:
        return left.notes or right.notes
    return tuple(a + tuple(n for n in b if n not in a) for a, b in zip(left.notes, right.notes, strict=True))


class Operator(ABC):
    """One step of retrieval: ``P . R``, a pruning function after a ranking function (FastInsight, section 3.1).

    Subclasses set `kind`, and `name` where the class name is not the word for it, and write :meth:`rank`.

    Attributes
    ----------
    kind : OperatorKind
        Place in the taxonomy.
    name : str
        How hits name it.
    k : int or None
        How many nodes :meth:`prune` keeps; None keeps all.
    """

    kind: OperatorKind
    name: str = ""
    k: int | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Name the operator after its class where the class body does not."""
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @abstractmethod
    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Score candidates for every query (the ranking function R).

        Parameters
        ----------
        queries : QueryBatch
            B queries on an index.
        ranking : Ranking
            What earlier operators found; empty for the first.

        Returns
        -------
        Ranking
            Candidates, best first.
        """

    def prune(self, ranking: Ranking) -> Ranking:
        """Keep the best `k` of each list (the pruning function P)."""
        return ranking if self.k is None else ranking.top(self.k)

    def __call__(self, queries: QueryBatch, ranking: Ranking | None = None) -> Ranking:
        """Return ``prune(rank(queries, ranking))``."""
        start = ranking if ranking is not None else Ranking.empty(len(queries), queries.index.device)
        return self.prune(self.rank(queries, start))

    def steps(self) -> Iterator[Operator]:
        """Yield the basic operators this one is made of, in order."""
        yield self

    def kinds(self) -> tuple[OperatorKind, ...]:
        """Return the kinds of operators this one is made of, each once, in order."""
        return (self.kind,)

    def formula(self) -> str:
        """Return the composition as the taxonomy writes it, e.g. ``O_vs -> (O_vgs -> O_gm)*``."""
        return self.kind.value

    def ranked(self, batch: Tensor, nodes: Tensor, scores: Tensor, parents: Tensor, num_queries: int, k: int) -> Ranking:
        """Return flat candidates as a ranking brought by this operator (see :func:`pad_ranked` for shapes)."""
        table, values, extra = pad_ranked(batch, nodes, scores, parents, num_queries, k)
        return Ranking(table, values, extra, torch.where(table >= 0, 0, -1), (self.name,))


class Composite(Operator):
    """Operators that run inside another: what ``Pipeline`` and ``Loop`` share."""

    def __init__(self, *operators: Operator) -> None:
        if not operators:
            raise InvalidArgumentError(f"{type(self).__name__} needs at least one operator.")
        self.operators = operators

    @property
    def kind(self) -> OperatorKind:  # type: ignore[override]
        """Kind of the last operator: what the composition gives out."""
        return self.operators[-1].kind

    def steps(self) -> Iterator[Operator]:
        """Yield the basic operators inside, in order."""
        for operator in self.operators:
            yield from operator.steps()

    def kinds(self) -> tuple[OperatorKind, ...]:
        """Return the kinds of the operators inside, each once, in order."""
        return tuple(dict.fromkeys(kind for operator in self.operators for kind in operator.kinds()))

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Run the operators one after another, each on what the one before it kept."""
        for operator in self.operators:
            ranking = operator(queries, ranking)
        return ranking


class Pipeline(Composite):
    """Operators one after another.

    Parameters
    ----------
    *operators : Operator
        In order; each is given what the one before it kept.
    """

    def formula(self) -> str:
        """Return the parts joined by arrows."""
        return " -> ".join(operator.formula() for operator in self.operators)


class Loop(Composite):
    """Operators repeated until every list has reached its budget or nothing new is found.

    Parameters
    ----------
    *operators : Operator
        One round, in order. A round that adds no node to any list is the last: that ends what Algorithm 1 of
        FastInsight leaves endless (exhausted components, isolated seeds, graphs smaller than the budget).
    budget : int
        Nodes a list may reach, at least 1.
    on_round : callable, optional
        Called as ``on_round(round number, ranking)`` after every round, for tests and traces.
    """

    def __init__(self, *operators: Operator, budget: int, on_round: Callable[[int, Ranking], None] | None = None) -> None:
        super().__init__(*operators)
        self.budget = positive("budget", budget)
        self.on_round = on_round

    def formula(self) -> str:
        """Return the round in brackets with a star."""
        return f"({' -> '.join(operator.formula() for operator in self.operators)})*"

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Repeat the round; one host read a round tells whether to go on."""
        sizes = ranking.lengths()
        go_on = bool((sizes < self.budget).any()) and ranking.width > 0
        round_number = 0
        while go_on:
            round_number += 1
            ranking = super().rank(queries, ranking)
            grown = ranking.lengths()
            go_on = bool(((grown > sizes).any()) & (grown < self.budget).any())
            sizes = grown
            if self.on_round is not None:
                self.on_round(round_number, ranking)
        return ranking


def list_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return `weights` if they are `count` finite numbers of at least 0, not all 0; raise InvalidArgumentError otherwise."""
    given = tuple(weights) if isinstance(weights, Sequence) and not isinstance(weights, str) else ()
    numbers = all(isinstance(w, Real) and 0 <= w < math.inf for w in given)
    if len(given) != count or not numbers or not any(given):
        raise InvalidArgumentError(f"weights must be {count} finite numbers of at least 0, not all 0, got {weights!r}.")
    return given
