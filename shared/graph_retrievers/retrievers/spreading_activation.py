"""Query-aware spreading activation over knowledge graphs, and its fusion with vector search."""

from __future__ import annotations

from typing import Any

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.spreading import ChainSearch, EntityLinking, GatedPropagation, PassageGathering
from graph_retrievers.operators.spreading.chains import CHAIN_RESULTS
from graph_retrievers.operators.spreading.propagation import Gate
from graph_retrievers.operators.traits import holds_passages, names_identify
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["SpreadingActivation"]


class SpreadingActivation(Retriever):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.

    Entity linking finds the seeds, gated propagation runs a fixed number of steps, and the most activated nodes are the hits,
    each with the path that first carried activation to it. Options add the best chains, rank passages instead, or fuse the
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
        The propagation: see :class:`~graph_retrievers.operators.spreading.propagation.GatedPropagation`. By default, the paper's
        form, 0 with a threshold of 0.01, for the entities of a knowledge graph; and 1 with 0.001 for passages (see
        :func:`~graph_retrievers.operators.traits.holds_passages`), which damps hubs: a node then divides its activation among its
        neighbours, so that the activation of all nodes together stays below ``(1 + decay) ** steps`` times that of the seeds. A
        seed with more than 700 neighbours then gives each of them less than the threshold.
    language_model : object, optional
        Extracts the entities of a question; without one, entities are the names of nodes in the question.
    linking : EntityLinking, optional
        Finds the seeds; replaces `language_model` and allows further options.
    chains : {"hits", "path"}, optional
        ``"hits"``: chains come after the k nodes as up to 30 further hits of kind "chain", whatever k is, without those that
        end at a node that may not be returned. ``"path"``: a hit's path is the best chain that leads to it, if there is one. By
        default no chains are searched.
    chain_search : ChainSearch, optional
        Finds the chains; 30 of 1 to 4 edges by default.
    passages : bool, optional
        For graphs with passages that are linked to the entities they mention. True: activation walks among entities only, and
        the hits are passages, by the activation of their entities. False: passages are neither entered nor returned. By default
        all nodes are alike. Without effect if no node, or every node, is a passage.
    passage_type : str, default "passage"
        Node type of passages.
    fuse : bool, optional
        Whether the ranking is fused with that of vector search by reciprocal ranks, c = 5: the first ranks of either count more
        than with the usual 60 (see :class:`~graph_retrievers.operators.fusion.ReciprocalRankFusion`). By default only where names
        do not identify nodes, as in manuals (see :func:`~graph_retrievers.operators.traits.names_identify`).
    k : int, default 30
        Nodes to return (the paper's K_e). They are all hits there are, except with ``chains="hits"``.
    **options
        Keywords of :class:`Retriever`.

    Raises
    ------
    InvalidArgumentError
        For an option outside its range.

    Notes
    -----
    ``retrieve`` takes ``entities=[...]``, names that the question mentions, which replace extraction. Departures from the paper:
    if no entity is found in the question, its vector finds the seeds, and if fewer than k nodes are activated, vector search
    fills up (``backfill=False`` returns what the paper would).

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", arXiv:2606.30133,
    2026.

    Examples
    --------
    >>> from graph_retrievers import CorpusGraph
    >>> graph = CorpusGraph(["a", "b"], ["", ""], titles=["Ada", "Loom"], edges=[("a", "b", "wrote")])
    >>> hits = SpreadingActivation(GraphIndex.from_graph(graph), gate="uniform").retrieve("What did Ada write?")
    >>> [hit.path.text for hit in hits]
    ['Ada', 'Ada -[wrote]-> Loom']
    """

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
        **options: Any,
    ) -> None:
        choice("chains", chains, CHAIN_RESULTS)
        if hub_exponent is None:
            hub_exponent = 1.0 if isinstance(index, GraphIndex) and holds_passages(index.graph) else 0.0
        if threshold is None:
            threshold = 0.001 if hub_exponent else 0.01
        if linking is not None and language_model is not None:
            raise InvalidArgumentError("Pass either linking= or language_model=; linking takes a language_model of its own.")
        excluded, returned = _passages(index, passages, passage_type)
        operators: list[Operator] = [
            linking or EntityLinking(language_model=language_model, exclude_types=excluded),
            GatedPropagation(
                steps=steps,
                decay=decay,
                threshold=threshold,
                gate=gate,
                semantics=semantics,
                hub_exponent=hub_exponent,
                exclude_types=excluded,
            ),
        ]
        # Chains lead through entities only, so none is the path of a passage.
        if chains == "hits" or (chains == "path" and not (passages and excluded)):
            operators.append(chain_search or ChainSearch(semantics=semantics, as_trails=chains == "path"))
        if passages and excluded:
            operators.append(PassageGathering(excluded, gate=gate))
        operator: Operator = Pipeline(*operators)
        if fuse is None:
            fuse = isinstance(index, GraphIndex) and index.has_dense and not names_identify(index)
        if fuse:
            operator = ReciprocalRankFusion(operator, VectorSearch(100), constant=5)
        if options.get("types") is None:
            options["types"] = returned
        super().__init__(index, operator, k=k, **options)


def _passages(index: GraphIndex, passages: bool | None, passage_type: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the node types that activation does not enter, and those that are returned (None for all)."""
    if passages is None or not isinstance(index, GraphIndex):
        return (), None
    mask = type_mask(index.graph, (passage_type,))
    if not bool(mask.any()) or bool(mask.all()):
        return (), None
    others = tuple(name for name in index.graph.type_names if name != passage_type)
    return (passage_type,), (passage_type,) if passages else others
