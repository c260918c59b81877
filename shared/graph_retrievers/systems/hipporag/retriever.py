"""HippoRAG 2 as published: facts of the question, and a walk from their phrases to passages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.hipporag.fact_linking import FactLinking
from graph_retrievers.systems.hipporag.passage_walk import PassageWalk
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import passage_types

__all__ = ["HippoRAG"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HippoRAG(System):
    r"""The facts that match the question, then passages by a walk that restarts at their phrases.

    .. math:: O_{vs} \to O_{gs}

    Phrases and passages are nodes of one graph, as read by
    :func:`~graph_retrievers.construction.knowledge_readers.from_graph_documents`: facts join phrases, and a passage is linked to
    the phrases that it mentions. Only passages are hits. If no fact matches, or a language model keeps none, passages are ranked by
    vector search. For corpus graphs, use :class:`~graph_retrievers.PPR`, whose seeds are nodes.

    The index needs vectors, and ``edge_signals=True`` for facts.

    Parameters
    ----------
    facts : int, default 5
        Facts to keep, and phrases at which the walk restarts (the published linking_top_k).
    language_model : object, optional
        Filters the facts; without one, the most similar are kept.
    signal : str, default "edge_dense"
        Signal over the edges: see :class:`~graph_retrievers.systems.hipporag.fact_linking.FactLinking`.
    damping : float, default 0.5
    passage_weight : float, default 0.05
    synonyms : float or None, default 0.8
        The walk: see :class:`~graph_retrievers.systems.hipporag.passage_walk.PassageWalk`, which also describes the departures
        from the published code.
    passage_type : str, default "passage"
        Node type of passages.

    Notes
    -----
    In a graph without passages, or with only passages, the title of every node is a phrase and its text a passage. This is the
    case in a knowledge graph, whose nodes are then the hits, and in a graph of pages. Each edge is then a fact, with its text, or
    with the titles of its ends around the relation, and belongs to the text of its source.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models" (HippoRAG 2),
    ICML 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p1", "On Ada.", type="passage"), Node("p2", "On engines.", type="passage")]
    >>> nodes += [Node("ada", "", "Ada"), Node("engine", "", "Engine")]
    >>> edges = [("p1", "ada", "mentions"), ("p2", "engine", "mentions"), ("ada", "engine", "wrote for")]
    >>> def embed(texts):
    ...     return [[float("Ada" in text), float("ngine" in text), 0.1] for text in texts]
    >>> index = GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True, metric="cosine")
    >>> for hit in Retriever(index, HippoRAG()).retrieve("What did Ada write?"):
    ...     print(hit.id, hit.path.text)
    p1 Ada <-[mentions]- p1
    p2 Engine <-[mentions]- p2
    """

    name = "hipporag"
    finds_less_over = "passages"
    reads_edge_signals = True

    facts: Count = 5
    language_model: Any = None
    signal: str = "edge_dense"
    damping: float = 0.5
    passage_weight: float = 0.05
    synonyms: float | None = 0.8
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return the linking of facts followed by the walk."""
        linking = FactLinking(self.facts, signal=self.signal, language_model=self.language_model, passage_type=self.passage_type)
        return Pipeline(linking, self.part(PassageWalk))

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the type of passages where other nodes are phrases; None where every node is a phrase and a passage."""
        return passage_types(index.facts, self.passage_type) or None
