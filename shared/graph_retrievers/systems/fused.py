"""Several systems side by side, fused by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from graph_retrievers.arguments import check_keywords, positive
from graph_retrievers.core.compositions import ReciprocalRankFusion
from graph_retrievers.core.fusion import list_weights
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.first_stage import CompositeSystem, as_first, first_stage
from graph_retrievers.systems.system import System

__all__ = ["Fused"]


@dataclass(frozen=True, init=False, repr=False)
class Fused(CompositeSystem):
    r"""Several systems side by side, fused by reciprocal ranks.

    .. math:: S_n = \sum_{l} \frac{w_l}{c + r_l(n)}

    over the systems l that find node n, at rank :math:`r_l(n) \ge 1`. A walk along edges and a search that reads every text find
    different nodes; where the walk alone finds less than the search, both together usually find more than either.

    Parameters
    ----------
    *systems : System, str or Operator
        Two or more: systems, their texts such as ``"ppr(damping=0.7)"``, or operators.
    weights : sequence of float, optional
        The w of the equation, one for each system; all 1 by default.
    constant : int, default 5
        The c of the equation. With the usual 60, a node at rank 20 of two lists would be ranked above the best node of one list.
    depth : int, default 100
        Nodes taken from each system.

    Raises
    ------
    InvalidArgumentError
        For fewer than two systems, or a value outside its range.

    References
    ----------
    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.

    Examples
    --------
    >>> from graph_retrievers import PPR, GraphIndex, Hybrid, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], vectors=[[1, 0], [0, 1], [1, 1]], edges=[("0", "1")])
    >>> system = Fused(PPR(damping=0.7), Hybrid(), weights=(1, 2))
    >>> [hit.text for hit in Retriever(index, system).retrieve("Which loom?", vector=[1, 0])]
    ['a loom', 'a mill', 'a card']
    >>> print(system)
    fused(systems=['ppr(damping=0.7)', 'hybrid'], weights=[1, 2])
    """

    name = "fused"

    systems: tuple[System | Operator, ...]
    weights: Sequence[float] | None = None
    constant: int = 5
    depth: int = 100

    def __init__(
        self,
        /,
        *systems: System | str | Operator,
        weights: Sequence[float] | None = None,
        constant: int = 5,
        depth: int = 100,
        **keywords: Any,
    ) -> None:
        # Under its name, as dataclasses.replace and the text of the system give it.
        members = systems or keywords.pop("systems", ())
        if "systems" in keywords:
            raise InvalidArgumentError(f"Fused got systems in two ways; pass them all at once, got {shown(systems)} and systems=.")
        check_keywords("Fused", keywords, ["systems", "weights", "constant", "depth"])
        if not isinstance(members, list | tuple) or len(members) < 2:
            raise InvalidArgumentError(f"Fused needs two systems or more, such as Fused(PPR(), Hybrid()), got {shown(members)}.")
        if weights is not None:
            weights = list_weights(weights, len(members))
        set_field = object.__setattr__
        set_field(self, "systems", tuple(as_first(system) for system in members))
        set_field(self, "weights", None if weights is None else tuple(weights))
        set_field(self, "constant", positive("constant", constant))
        set_field(self, "depth", positive("depth", depth))

    if not TYPE_CHECKING:

        def __new__(cls, /, *systems: Any, **settings: Any) -> Self:
            """Return the value, whose fields the constructor checks."""
            return object.__new__(cls)

    def compose(self, index: Corpus) -> Operator:
        """Return the systems side by side."""
        lists = [first_stage(index, system, self.depth) for system in self.systems]
        return ReciprocalRankFusion(*lists, weights=self.weights, depth=self.depth, constant=self.constant)

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the node types of those systems that do not return every type; None if all of them do."""
        lists = [system.returned_types(index) for system in self.systems if isinstance(system, System)]
        kinds = [kind for types in lists if types is not None for kind in types]
        return tuple(dict.fromkeys(kinds)) if any(types is not None for types in lists) else None

    @property
    def inner(self) -> tuple[System | Operator, ...]:
        """The systems that are fused."""
        return self.systems
