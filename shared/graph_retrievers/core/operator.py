"""Operators, and how to compose them.

An operator of the taxonomy (FastInsight, section 3.1) is a pruning function applied after a ranking function:
``O = P . R``. ``Pipeline`` and ``Loop`` run operators one after another, as the algorithms of papers do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from enum import Enum
from inspect import Parameter, signature
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from graph_retrievers.arguments import typed
from graph_retrievers.core.candidates import Candidates, MisfitError
from graph_retrievers.core.checks import check_candidates
from graph_retrievers.core.driver import Algorithm, Named, Parallel
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["Operator", "OperatorKind"]


class OperatorKind(Enum):
    """The five kinds of operators in the taxonomy (FastInsight, Definitions 2 to 6).

    >>> OperatorKind.GRAPH_SEARCH.value
    'O_gs'
    """

    VECTOR_SEARCH = "O_vs"
    GRAPH_SEARCH = "O_gs"
    MODEL_SEARCH = "O_m"
    VECTOR_GRAPH_SEARCH = "O_vgs"
    GRAPH_MODEL_SEARCH = "O_gm"


class Operator(ABC):
    """One step of retrieval: ``P . R``, a pruning function after a ranking function (FastInsight, section 3.1): an abstract class.

    It is written for one question, in the order of its paper. Subclasses set `kind`, and `name` if it is not the class name, and
    implement :meth:`search`, a generator that yields requests (:mod:`graph_retrievers.core.requests`) and receives the answers;
    a search without requests may be a method that returns. The questions of a batch run side by side, and their requests of the
    same step are answered together.

    Attributes
    ----------
    kind : OperatorKind
        Place in the taxonomy, as in a paper. It determines the default of `walks` and is shown; it is not compared with the
        operator's requests, from which :func:`~graph_retrievers.testing.kind_of` reads a kind.
    name : str
        Name in hits.
    k : int or None
        Number of nodes to keep; None keeps all.
    reads : tuple of str
        Names of the inputs (``Queries.inputs``) that the operator reads in addition to the text.
    reason : str
        Why it was chosen, if that depends on the index; hits show it (:attr:`graph_retrievers.hits.Hit.reason`).
    whole : str
        What it reads of the whole graph, which a graph in a database does not provide; "" for nothing.
    walks : bool
        Whether it finds more if there are edges; by default determined by its kind.
    follows_names : bool
        Whether it follows names in the texts from node to node, so that it finds more than search even on an index without edges.
    asks_relevance : bool
        Whether it uses the relevance model of the index.
    appends : bool
        Whether it puts nodes after those found before, independent of their scores. The results of other operators are sorted.
    batched : bool
        Whether :meth:`search` also takes several questions of a batch as one (:class:`~graph_retrievers.core.question.Questions`),
        and finds for each what it finds for it alone; a subclass with another search is not, unless it says so.

    Examples
    --------
    An operator that adds the neighbours of the best node:

    >>> import numpy as np
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> from graph_retrievers.core.candidates import reached
    >>> from graph_retrievers.core.requests import Neighbors
    >>> class FirstNeighbors(Operator):
    ...     kind = OperatorKind.GRAPH_SEARCH
    ...
    ...     def search(self, question, candidates):
    ...         near = yield Neighbors(candidates.nodes[:1])
    ...         scores = np.zeros(len(near.node))
    ...         return candidates.joined(reached(candidates, near.owner, near.node, scores, self.name))
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "2")])
    >>> [hit.path.text for hit in Retriever(index, Pipeline(BM25Search(1), FirstNeighbors())).retrieve("loom", k=2)]
    ['0', '0 -> 2']
    """

    kind: OperatorKind
    name: str = ""
    k: int | None = None
    reads: tuple[str, ...] = ()
    reason: str = ""
    whole: str = ""
    asks_relevance: bool = False
    appends: bool = False
    follows_names: bool = False
    batched: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Name the operator after its class unless it sets a name; check its kind, and arguments by their annotations."""
        super().__init_subclass__(**kwargs)
        kind = getattr(cls, "kind", None)
        # A class that does not define search yet is only a base of operators; a property may tell the kind.
        if not isinstance(kind, OperatorKind | property) and (kind is not None or cls.search is not Operator.search):
            message = f"{cls.__name__} has " + ("no kind" if kind is None else f"the kind {shown(kind)}")
            hint = " (see its place in the taxonomy: search by vectors, graph, model, or two of them)"
            raise InvalidArgumentError(f"{message}; set kind = OperatorKind.GRAPH_SEARCH or another OperatorKind{hint}.")
        if "__init__" in cls.__dict__:
            cls.__init__ = typed(cls.__init__)  # type: ignore[method-assign]
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        # A class that defines only `search` searches for one question, even if a class from which it is derived has `batched`.
        first = next((base for base in cls.__mro__ if {"search", "batched"} & base.__dict__.keys()), cls)
        if "batched" not in first.__dict__:
            cls.batched = False

    @abstractmethod
    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates] | Candidates:
        """Return the candidates of one question, best first (the ranking function R); `candidates` has the previous operator's."""

    def prepare(self, index: Any) -> None:
        """Compute in advance what the first question needs; called for a retriever on a prepared index. By default nothing."""
        return

    def stepped(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the best `k` of what :meth:`search` returns (the pruning function P after the ranking function).

        A list whose scores are not descending is sorted, unless the operator `appends`; equal scores keep their order. Chains and
        facts of earlier operators stay if the operator has none itself.
        """
        try:
            after: Any = self.search(question, candidates)
        except MisfitError as error:
            raise InvalidArgumentError(f"{self.name}: {error}") from error
        if isinstance(after, Generator):
            after = yield Named(self.name, after)
        check_candidates(after, question, self.name)
        groups = question.owners(after.nodes)
        rises = after.scores[1:] > after.scores[:-1]
        if not self.appends and np.count_nonzero(rises if groups is None else rises & (groups[1:] == groups[:-1])):
            after = after.rescored(after.scores, groups)
        return after.top(self.k, groups).after(candidates)  # type: ignore[no-any-return]

    @property
    def walks(self) -> bool:
        """Whether it finds more if there are edges."""
        return self.kind in (OperatorKind.GRAPH_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH, OperatorKind.GRAPH_MODEL_SEARCH)

    def compares_vectors(self, index: Any) -> bool:
        """Return whether it compares the vector of every question with vectors of nodes or edges; by default from its ``signal``.

        An operator that does so only for some questions, such as entity linking if no name is found, does not count.
        """
        name = getattr(self, "signal", None)
        return isinstance(name, str) and getattr(index.signals.get(name), "reads", "") == "vector"

    def parts(self) -> Iterator[Operator]:
        """Yield the basic operators of which this one consists, in order."""
        yield self

    def reasons(self) -> Iterator[str]:
        """Yield the reasons for which this operator, or its parts, were chosen, if any (``reason``)."""
        if self.reason:
            yield self.reason

    def formula(self) -> str:
        """Return the composition as the taxonomy writes it, e.g. ``O_vs -> (O_vgs -> O_gm)*``."""
        return self.kind.value

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return what the operator lacks, such as "a plan", if queries have the inputs named in `given`."""
        return ()

    def __repr__(self) -> str:
        """Return the class with its parameters, without those that are None or functions with their default value."""
        parts = []
        for name, parameter in signature(type(self).__init__).parameters.items():
            value = getattr(self, name, None)
            if name == "self" or value is None or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                continue
            parts.append(f"{name}={_repr(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


def side_by_side(operators: Sequence[Operator], question: Question, candidates: Candidates) -> Algorithm[list[Candidates]]:
    """Return what each operator keeps for a question; their notes are in the order of the operators."""
    questions = [question.apart() for _ in operators]
    lists = yield Parallel([operator.stepped(part, candidates) for operator, part in zip(operators, questions, strict=True)])
    for part in questions:
        question.take(part)
    return lists  # type: ignore[no-any-return]


def _repr(value: Any) -> str:
    """Return a parameter as a repr shows it: functions by their names, objects by their class, as a model may hold a key."""
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = shown(value, 121) if _is_plain(value) else "<"
    return f"<{type(value).__name__}>" if text.startswith("<") or len(text) > 120 else text


def _is_plain(value: Any, levels: int = 5) -> bool:
    if isinstance(value, Mapping):
        value = [*value.items()]
    if isinstance(value, list | tuple):
        return levels > 0 and all(_is_plain(part, levels - 1) for part in value)
    return value is None or isinstance(value, str | Number | Path | Operator)
