"""Query-aware spreading activation over knowledge graphs, and its fusion with vector search."""

from __future__ import annotations

from typing import Any, Unpack

from graph_retrievers.arguments import choice
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.options import CommonOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.systems.fused_search import fused_with_search
from graph_retrievers.systems.spreading import ChainSearch, EntityLinking, GatedPropagation, PassageGathering
from graph_retrievers.systems.spreading.chains import CHAIN_RESULTS
from graph_retrievers.systems.spreading.propagation import Gate
from graph_retrievers.systems.traits import holds_passages, passage_types

__all__ = ["DAMPED", "SpreadingActivation"]

DAMPED: dict[str, Any] = {"hub_exponent": 1.0, "threshold": 0.001}
"""Settings for passages, which mention many things that they are not about: hubs divide their activation."""


class SpreadingActivation(Retriever):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.

    Entity linking finds the seeds, gated propagation runs a fixed number of steps, and the most activated nodes are the hits,
    each with the path by which activation first reached it. Options add the best chains, rank passages instead, or fuse the
    result with vector search.

    Parameters
    ----------
    index : GraphIndex
        Needs vectors, unless the gate is uniform.
    steps : int, default 3
    decay : float, default 0.7
    threshold : float, optional
    gate : {"cosine", "uniform"} or callable, default "cosine"
    semantics : {"set", "rows"}, default "set"
    hub_exponent : float, optional
        The propagation: see :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation`. The default `hub_exponent`
        for the entities of a knowledge graph is 0 with a threshold of 0.01, as in the paper, and for passages (see
        :func:`~graph_retrievers.systems.traits.holds_passages`) it is 1 with a threshold of 0.001, which damps hubs: a node then
        divides its activation among its neighbours, so that the total activation of all nodes stays below
        ``(1 + decay) ** steps`` times that of the seeds. A seed with more than 700 neighbours then gives each of them less than
        the threshold.
    language_model : object, optional
        Extracts the entities of a question; without one, entities are the names of nodes in the question.
    linking : EntityLinking, optional
        Finds the seeds; replaces `language_model` and allows other options.
    chains : {"hits", "path"}, optional
        ``"hits"``: chains follow the k nodes as up to 30 additional hits of kind "chain", for any k, without those with a node
        that may not be returned. ``"path"``: a hit's path is the best chain that leads to it, if there is one. By default no
        chains are searched.
    chain_search : ChainSearch, optional
        Finds the chains; 30 of 1 to 4 edges by default.
    passages : bool, optional
        For graphs with passages that are linked to the entities that they mention. True: activation spreads only among entities,
        and the hits are passages, by the activation of their entities. False: passages are neither entered nor returned. By
        default all nodes are treated alike. It has no effect if no node, or every node, is a passage.
    passage_type : str, default "passage"
        Node type of passages.
    fuse : bool, optional
        Whether to fuse the ranking with a search by reciprocal ranks, c = 5, which gives the first ranks more weight than the usual
        60 (:class:`~graph_retrievers.core.compositions.ReciprocalRankFusion`): with hybrid search, if there is BM25, over passages
        whose names do not lead to others, as in manuals and papers (see :func:`~graph_retrievers.systems.traits.names_lead`), or
        with few edges between documents; otherwise with vector search. By default only in the first case.
    k : int, default 30
        Nodes to return (the paper's K_e). They are the only hits, except with ``chains="hits"``.
    **options
        Keywords of :class:`Retriever`.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    ``retrieve`` takes ``entities=[...]``, names that the question mentions, which replace extraction. Departures from the paper:
    if no entity is found in the question, its vector finds the seeds, and if fewer than k nodes are activated, vector search adds
    more (``backfill=False`` returns the result of the paper).

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", arXiv:2606.30133,
    2026.

    Examples
    --------
    >>> from graph_retrievers import Node
    >>> index = GraphIndex.from_nodes([Node("a", "", "Ada"), Node("b", "", "Loom")], [("a", "b", "wrote")])
    >>> hits = SpreadingActivation(index, gate="uniform").retrieve("What did Ada write?")
    >>> [hit.path.text for hit in hits]
    ['Ada', 'Ada -[wrote]-> Loom']
    """

    PUBLISHED = {
        "steps": 3,
        "decay": 0.7,
        "threshold": 0.01,
        "gate": "cosine",
        "semantics": "set",
        "hub_exponent": 0.0,
        "chains": "hits",
        "passages": None,
        "fuse": False,
        "k": 30,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        steps: int = 3,
        decay: float = 0.7,
        threshold: float | None = None,
        gate: str | Gate = "cosine",
        semantics: str = "set",
        hub_exponent: float | None = None,
        language_model: Any = None,
        linking: EntityLinking | None = None,
        chains: str | None = None,
        chain_search: ChainSearch | None = None,
        passages: bool | None = None,
        passage_type: str = "passage",
        fuse: bool | None = None,
        k: int = 30,
        **options: Unpack[CommonOptions],
    ) -> None:
        choice("chains", chains, CHAIN_RESULTS)
        if linking is not None and language_model is not None:
            raise InvalidArgumentError("Pass either linking= or language_model=; linking takes a language_model of its own.")
        self._spreading: dict[str, Any] = {"steps": steps, "decay": decay, "gate": gate, "semantics": semantics}
        self._threshold, self._hub_exponent = threshold, hub_exponent
        self._linking, self._language_model = linking, language_model
        self._chains, self._chain_search = chains, chain_search or ChainSearch(semantics=semantics, as_trails=chains == "path")
        self._passages, self._passage_type, self._fuse = passages, passage_type, fuse
        super().__init__(index, k=k, **options)

    def _passage_types(self, index: GraphIndex) -> tuple[str, ...]:
        """Return the type of passages, where they are apart from entities."""
        return () if self._passages is None else passage_types(index.graph, self._passage_type)

    def _returned(self) -> tuple[str, ...] | None:
        """Return the node types that may be returned: those given, or passages or what is not one."""
        passages = self._passage_types(self.index)
        if self._chosen_types is not None or not passages:
            return self._chosen_types
        return passages if self._passages else tuple(name for name in self.index.graph.type_names if name not in passages)

    def _composed(self, index: GraphIndex) -> Operator:
        excluded, hub_exponent, threshold = self._passage_types(index), self._hub_exponent, self._threshold
        if hub_exponent is None:
            hub_exponent = DAMPED["hub_exponent"] if holds_passages(index.graph) else 0.0
        if threshold is None:
            threshold = DAMPED["threshold"] if hub_exponent else 0.01
        operators: list[Operator] = [
            self._linking or EntityLinking(language_model=self._language_model, exclude_types=excluded),
            GatedPropagation(**self._spreading, threshold=threshold, hub_exponent=hub_exponent, exclude_types=excluded),
        ]
        gathered = self._passages and excluded
        # Chains lead through entities only, so none is the path of a passage.
        if self._chains == "hits" or (self._chains == "path" and not gathered):
            operators.append(self._chain_search)
        if gathered:
            operators.append(PassageGathering(excluded, gate=self._spreading["gate"]))
        return fused_with_search(Pipeline(*operators), self._fuse, index)
