"""Ways to compose operators: one after another, repeated, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, concatenated
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.fusion import fused, list_weights, reciprocal_rank_parts
from graph_retrievers.core.operator import Operator, OperatorKind, side_by_side
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["Composite", "FirstStage", "Loop", "Pipeline", "ReciprocalRankFusion"]


class Composite(Operator):
    """An operator that consists of operators: the base of ``Pipeline`` and ``Loop``."""

    def __init__(self, *operators: Operator) -> None:
        if not operators:
            raise InvalidArgumentError(f"{type(self).__name__} needs at least one operator.")
        for operator in operators:
            if not isinstance(operator, Operator):
                hint = f"; call it: {operator.__name__}()" if isinstance(operator, type) else ""
                raise InvalidArgumentError(f"{type(self).__name__} is made of operators, got {shown(operator)}{hint}.")
        self.operators = operators

    @property
    def kind(self) -> OperatorKind:  # type: ignore[override]
        """Kind of the last operator, which determines the result."""
        return self.operators[-1].kind

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """Inputs that any of the operators reads, each once."""
        return tuple(dict.fromkeys(name for operator in self.operators for name in operator.reads))

    @property
    def walks(self) -> bool:
        """Whether one of them finds more if there are edges."""
        return any(operator.walks for operator in self.operators)

    @property
    def follows_names(self) -> bool:  # type: ignore[override]
        """Whether one of them follows names in the texts from node to node."""
        return any(operator.follows_names for operator in self.operators)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether all of them take several questions as one."""
        return all(operator.batched for operator in self.operators)

    def compares_vectors(self, index: Any) -> bool:
        """Return whether one of them does."""
        return any(operator.compares_vectors(index) for operator in self.operators)

    def parts(self) -> Iterator[Operator]:
        """Yield the basic operators inside, in order."""
        for operator in self.operators:
            yield from operator.parts()

    def reasons(self) -> Iterator[str]:
        """Yield the reason of the composition, and those of the operators inside."""
        yield from super().reasons()
        for operator in self.operators:
            yield from operator.reasons()

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return what any of the operators lacks, each once."""
        return tuple(dict.fromkeys(part for operator in self.operators for part in operator.lacks(given)))

    def formula(self) -> str:
        """Return the parts joined by arrows."""
        return " -> ".join(operator.formula() for operator in self.operators)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Run the operators one after another, each on the results of the previous one."""
        for operator in self.operators:
            candidates = yield from operator.stepped(question, candidates)
        return candidates

    def stepped(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what :meth:`search` returns; its operators already prune."""
        return self.search(question, candidates)

    def __repr__(self) -> str:
        """Return the composition, one operator per line, with its own parameters at the end."""
        parameters = super().__repr__()[len(type(self).__name__) + 1 : -1]
        lines = [repr(operator) for operator in self.operators] + ([parameters] if parameters else [])
        body = "".join(f"  {line},\n" for part in lines for line in [part.replace("\n", "\n  ")])
        return f"{type(self).__name__}(\n{body})"


class Pipeline(Composite):
    """Operators one after another.

    Parameters
    ----------
    *operators : Operator
        In order; each reads the result of the previous one.

    Examples
    --------
    >>> from graph_retrievers.operators import GRanker, VectorSearch
    >>> print(Pipeline(VectorSearch(10), GRanker()).formula())
    O_vs -> O_gm
    """


class Loop(Pipeline):
    """Operators repeated until a list has reached its budget or nothing new is found.

    Parameters
    ----------
    *operators : Operator
        One round, in order. The loop also ends after a round that adds no node, which FastInsight's Algorithm 1 does not state.
    budget : int
        Number of nodes at which a list is complete.

    Examples
    --------
    >>> from graph_retrievers.operators import STeX
    >>> print(Loop(STeX(), budget=100).formula())
    (O_vgs)*
    """

    batched = Composite.batched

    def __init__(self, *operators: Operator, budget: int) -> None:
        super().__init__(*operators)
        self.budget = positive("budget", budget)

    def formula(self) -> str:
        """Return the round in brackets with a star."""
        return f"({super().formula()})*"

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Repeat the round; of several questions, for those that go on."""
        done, counts = list[Candidates](), np.zeros(question.count, np.int64)
        while True:
            before, counts = counts, question.counts(candidates.nodes)
            stop = (counts <= before) | (counts >= self.budget)
            if stop.all():
                return question.grouped(concatenated([*done, candidates])) if done else candidates
            if stop.any():
                still = ~stop[candidates.nodes // question.nodes]
                done.append(candidates.taken(np.flatnonzero(~still)))
                candidates = candidates.taken(np.flatnonzero(still))
            candidates = yield from super().search(question, candidates)


class FirstStage(Composite):
    """Run an operator as if at least `depth` nodes were requested, so that a reranker can choose from more than k nodes.

    Parameters
    ----------
    operator : Operator
        Its own limit is kept.
    depth : int

    Examples
    --------
    >>> from graph_retrievers.operators import VectorSearch
    >>> FirstStage(VectorSearch(), 100).formula()
    'O_vs'
    """

    batched = Composite.batched

    def __init__(self, operator: Operator, depth: int) -> None:
        super().__init__(operator)
        self.depth = positive("depth", depth)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the results of the operator."""
        deeper = question.asking(max(question.k, self.depth))
        candidates = yield from self.operators[0].stepped(deeper, candidates)  # type: ignore[attr-defined]
        question.touched = deeper.touched
        return candidates


class ReciprocalRankFusion(Composite):
    r"""Run operators side by side; a node scores :math:`\sum_s w_s / (c + r_s)` over the lists s that contain it at rank r_s.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009.

    Parameters
    ----------
    *operators : Operator
        Two or more; each gets the ranking from before the fusion.
    weights : sequence of float, optional
        One for each operator, all 1 by default; at least one is above 0. A list of weight 0 is not searched.
    depth : int, default 100
        Nodes taken from each list.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    For operators, trails, chains, facts and ties, see :func:`fused`. The ranks r are in the column `ranks` of the candidates and in
    hits. A list is named after the last operator of its pipeline, with a number if several lists end in the same operator: "STeX
    1", "STeX 2".

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, VectorSearch
    >>> ReciprocalRankFusion(VectorSearch(), BM25Search(), constant=5)
    ReciprocalRankFusion(
      VectorSearch(returned=True, signal='dense'),
      BM25Search(returned=True, signal='bm25'),
      weights=(1.0, 1.0), depth=100, constant=5,
    )
    """

    batched = Composite.batched

    def __init__(self, *operators: Operator, weights: Sequence[float] | None = None, depth: int = 100, constant: int = 60) -> None:
        super().__init__(*operators)
        if len(operators) < 2:
            raise InvalidArgumentError("ReciprocalRankFusion needs at least two operators.")
        self.weights = list_weights((1.0,) * len(operators) if weights is None else weights, len(operators))
        self.depth, self.constant = positive("depth", depth), positive("constant", constant)

    def formula(self) -> str:
        """Return the parts joined by plus signs."""
        return "(" + " + ".join(operator.formula() for operator in self.operators) + ")"

    def weighted_operators(self) -> list[tuple[Operator, float, str]]:
        """Return the operators that are searched, each with its weight and the name of its list."""
        entries = zip(self.operators, self.weights, _list_names(self.operators), strict=True)
        return [(operator, weight, name) for operator, weight, name in entries if weight > 0]

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of all lists by fused score."""
        entries = self.weighted_operators()
        lists = yield from side_by_side([operator for operator, *_ in entries], question, candidates)
        lists = [part.top(self.depth, question.owners(part.nodes)) for part in lists]
        parts = [
            weight * reciprocal_rank_parts(part, self.constant, question.owners(part.nodes))
            for part, (_, weight, _) in zip(lists, entries, strict=True)
        ]
        return fused(lists, parts, tuple(name for *_, name in entries), question.owners)


def _list_names(operators: Sequence[Operator]) -> list[str]:
    """Return a name for the list of each operator, all different."""
    names = []
    for operator in operators:
        # A fusion inside has no last operator: it is named itself.
        while isinstance(operator, Composite) and not isinstance(operator, ReciprocalRankFusion):
            operator = operator.operators[-1]
        names.append(operator.name)
    counts = Counter(names)
    return [f"{name} {names[: place + 1].count(name)}" if counts[name] > 1 else name for place, name in enumerate(names)]
