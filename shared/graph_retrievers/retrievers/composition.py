"""A composition of operators on an index, and what follows from the two for every question."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.graph.blank import blank_nodes
from graph_retrievers.graph.description import NO_EDGES, NO_EDGES_NOTE
from graph_retrievers.graph.names import name_types
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.systems.system import System

__all__ = ["Composition"]

_FALLS_BACK = "no relevance model: reranked by the similarity of the vectors"

_NO_EDGES_IN_SCOPE = "the scope has no edges, so walks along edges find little more than search does"


class Composition:
    """The operators of a system, or your own, on an index. What follows from them is read once, when it is first needed.

    Examples
    --------
    >>> from graph_retrievers import PPR, GraphIndex
    >>> index = GraphIndex.from_texts(["a loom", "a card"])
    >>> made = Composition(index, PPR().compose(index))
    >>> made.reads_graph, made.reason
    (True, 'there are no edges')
    """

    def __init__(self, index: Corpus, operator: Operator, system: System | None = None) -> None:
        self.index, self.operator, self.system = index, operator, system
        self.untrained = () if system is None else system.untrained(index)

    @cached_property
    def asks_relevance(self) -> bool:
        """Whether an operator asks the relevance model of the index."""
        return any(part.asks_relevance for part in self.operator.parts())

    @cached_property
    def falls_back(self) -> bool:
        """Whether vectors replace a relevance model that the composition needs; that of a scope may ask for none."""
        return self.asks_relevance and isinstance(self.index.relevance, BiEncoder)

    @cached_property
    def lacks_edges(self) -> bool:
        """Whether the composition walks along edges alone, and there are none."""
        return self.operator.walks and not self.operator.follows_names and not self.index.facts.has_edges

    @cached_property
    def compares_vectors(self) -> bool:
        """Whether every search compares the vector of its question with those of nodes or edges."""
        return self.operator.compares_vectors(self.index)

    @cached_property
    def reads_graph(self) -> bool:
        """Whether it finds what a search without the graph does not."""
        # A search by a model may take its candidates from neighbours.
        plain = (OperatorKind.VECTOR_SEARCH, OperatorKind.MODEL_SEARCH)
        return any(part.walks or part.kind not in plain for part in self.operator.parts())

    @cached_property
    def asks_model(self) -> bool:
        """Whether it asks a model, so that a second, deeper search is costly."""
        return self.asks_relevance or any(getattr(part, "language_model", None) is not None for part in self.operator.parts())

    @cached_property
    def reason(self) -> str:
        """Why it was chosen, if that depends on the index, and that there are no edges if it needs some."""
        return "; ".join(filter(None, (next(self.operator.reasons(), ""), NO_EDGES if self.lacks_edges else "")))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on every question."""
        # The rows of a scope are those of a larger index, which may have edges.
        edges_note = _NO_EDGES_IN_SCOPE if self.index.is_scope else NO_EDGES_NOTE
        parts = (part.note for part in self.untrained)
        return (*([_FALLS_BACK] if self.falls_back else []), *parts, *([edges_note] if self.lacks_edges else []))

    @cached_property
    def blank(self) -> Tensor | None:
        """The nodes with nothing to read: Tensor, shape [N], bool; None if there are none."""
        return blank_nodes(self.index.graph)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The node types of mere names."""
        return name_types(self.index.facts)

    @cached_property
    def skips_names(self) -> bool:
        """Whether the system follows names in texts itself, and so leaves their nodes out of the searched graph."""
        return bool(self.names) and self.system is not None and self.system.skips_names(self.index)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy or a pickle, without what is read from them."""
        return {name: self.__dict__[name] for name in ("index", "operator", "system", "untrained")}
