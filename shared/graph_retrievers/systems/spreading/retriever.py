"""Query-aware spreading activation over knowledge graphs, and its fusion with vector search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_retrievers.arguments import choice, strings
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.spreading.chains import CHAIN_RESULTS, ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.passages import PassageGathering
from graph_retrievers.systems.spreading.propagation import Gate, GatedPropagation
from graph_retrievers.systems.system import System
from graph_retrievers.systems.traits import passage_types

__all__ = ["SpreadingActivation"]

DAMPED: dict[str, Any] = {"hub_exponent": 1.0, "threshold": 0.001}
"""Settings for passages, which mention many things that they are not about: hubs divide their activation."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SpreadingActivation(System):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.

    Entity linking finds the seeds, gated propagation runs a fixed number of steps, and the most activated nodes are the hits,
    each with the path by which activation first reached it. Options add the best chains of edges between them, as in the paper, or
    rank passages instead. The index needs vectors, unless the gate is uniform.

    Parameters
    ----------
    steps : int, default 3
    decay : float, default 0.7
    threshold : float, default 0.01
    gate : {"cosine", "uniform"} or callable, default "cosine"
    semantics : {"set", "rows"}, default "set"
    hub_exponent : float, default 0.0
        The propagation: see :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation`. Over passages that link to
        each other, whose hubs have many neighbours, use ``hub_exponent=1, threshold=0.001``: a node then divides its activation
        among its neighbours, so that the total activation of all nodes stays below ``(1 + decay) ** steps`` times that of the
        seeds. A seed with more than 700 neighbours then gives each of them less than the threshold.
    language_model : object, optional
        Extracts the entities of a question; without one, entities are the names of nodes in the question.
    linking : EntityLinking, optional
        Finds the seeds; replaces `language_model` and allows other options.
    chains : {"hits", "path"}, optional
        ``"hits"``: chains follow the k nodes as up to 30 additional hits of kind "chain", for any k, without those with a node
        that may not be returned. ``"path"``: a hit's path is the best chain that leads to it, if there is one. By default no
        chains are searched, and there are k hits at most.
    chain_search : ChainSearch, optional
        Finds the chains; 30 of 1 to 4 edges by default.
    passages : bool, optional
        For graphs with passages that are linked to the entities that they mention. False: activation spreads only over relations
        between entities, and the hits are entities, as in the paper. True: it spreads as with False, and the hits are passages, by
        the activation of their entities. By default all nodes are treated alike. It has no effect if no node, or every node, is a
        passage.
    passage_type : str or sequence of str, default "passage"
        Node type of passages; several for a graph whose texts have levels, such as ``("document", "paragraph")`` in the paper's
        schema, where both mention entities.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    A retriever returns 30 nodes unless it is given another `k` (the paper's K_e). They are the only hits, except with
    ``chains="hits"``. ``retrieve`` takes ``entities=[...]``, names that the question mentions, which replace extraction.

    Departures from the paper: passages are walked and returned like entities unless ``passages=False``, because a retriever
    returns texts to read, and entities of a graph that a language model made often have none; on 1,000 random graphs with two
    levels of texts, 916 results with the default differ from those of the paper. If no entity is found in the question, its
    vector finds the seeds, and if fewer than k nodes are activated, vector search adds more (``backfill=False`` of the retriever
    returns the result of the paper).

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", arXiv:2606.30133,
    2026.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> index = GraphIndex.from_nodes([Node("a", "", "Ada"), Node("b", "", "Loom")], [("a", "b", "wrote")])
    >>> hits = Retriever(index, SpreadingActivation(gate="uniform")).retrieve("What did Ada write?")
    >>> [hit.path.text for hit in hits.nodes]
    ['Ada', 'Ada -[wrote]-> Loom']
    """

    name = "spreading"
    finds_less_over = "passages without names"
    default_k = 30

    steps: int = 3
    decay: float = 0.7
    threshold: float = 0.01
    gate: str | Gate = "cosine"
    semantics: str = "set"
    hub_exponent: float = 0.0
    language_model: Any = None
    linking: EntityLinking | None = None
    chains: str | None = None
    chain_search: ChainSearch | None = None
    passages: bool | None = None
    passage_type: str | Sequence[str] = "passage"

    def __post_init__(self) -> None:
        """Check the arguments that depend on each other."""
        if not isinstance(self.passage_type, str):
            object.__setattr__(self, "passage_type", strings("passage_type", self.passage_type))
        choice("chains", self.chains, CHAIN_RESULTS)
        if self.linking is not None and self.language_model is not None:
            raise InvalidArgumentError("Pass either linking= or language_model=; linking takes a language_model of its own.")

    def compose(self, index: Corpus) -> Operator:
        """Return linking, propagation, and what `chains` and `passages` ask for."""
        types = self._passage_types(index)
        propagation = self.part(GatedPropagation, exclude_types=types)
        linking = self.linking or EntityLinking(language_model=self.language_model, exclude_types=types)
        operators: list[Operator] = [linking, propagation]
        gathered = self.passages and types
        # Chains lead through entities only, so none is the path of a passage.
        if self.chains == "hits" or (self.chains == "path" and not gathered):
            operators.append(self.chain_search or ChainSearch(semantics=self.semantics, as_trails=self.chains == "path"))
        if gathered:
            operators.append(PassageGathering(types, gate=self.gate))
        return Pipeline(*operators)

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the types of passages, or those of all other nodes, where passages are apart from entities; None elsewhere."""
        passages = self._passage_types(index)
        if not passages:
            return None
        return passages if self.passages else tuple(name for name in index.facts.type_names if name not in passages)

    def _passage_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the types of passages, where they are apart from entities."""
        return () if self.passages is None else passage_types(index.facts, *self.types_of_passages)

    @property
    def types_of_passages(self) -> tuple[str, ...]:
        """The types in `passage_type`."""
        return (self.passage_type,) if isinstance(self.passage_type, str) else tuple(self.passage_type)
