"""Retrievers by the short names that the command line and the evaluation use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graph_retrievers.arguments import check_keywords, choice, typed
from graph_retrievers.index import GraphIndex
from graph_retrievers.queries import DEFAULT_K
from graph_retrievers.retrievers.retriever import Retriever, tell_unused_relevance
from graph_retrievers.retrievers.signatures import class_knobs, published_settings
from graph_retrievers.systems.traits import is_knowledge_graph

__all__ = ["build_retriever", "default_retriever", "retriever_class", "retriever_names"]

# name -> (class, keywords)
_RETRIEVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "vector": ("Vector", {}),
    "bm25": ("BM25", {}),
    "hybrid": ("Hybrid", {}),
    "re2": ("Re2", {}),
    "fastinsight": ("FastInsight", {}),
    "fastinsight-hybrid": ("FastInsight", {"fuse": True}),
    "gar": ("GAR", {}),
    "ppr": ("PPR", {}),
    "spreading": ("SpreadingActivation", {}),
    "spreading-uniform": ("SpreadingActivation", {"gate": "uniform"}),
    "spreading-hybrid": ("SpreadingActivation", {"fuse": True}),
    "walk-fusion": ("WalkFusion", {}),
    "path-reranking": ("PathReranking", {}),
    "eager": ("Eager", {}),
    "mmr": ("MMR", {}),
    "scored": ("Scored", {}),
    "hyde": ("HyDE", {}),
    "decomposition": ("Decomposition", {}),
    "ircot": ("IRCoT", {}),
    "lesegr": ("LeSeGR", {}),
    "lightrag": ("LightRAG", {}),
    "pathrag": ("PathRAG", {}),
    "g-rag": ("GRAG", {}),
    "g-retriever": ("GRetriever", {}),
    "hipporag": ("HippoRAG", {}),
    "linear-rag": ("LinearRAG", {}),
    "mor": ("MoR", {}),
    "mor-text": ("MoR", {"structure": False, "rerank": False}),
    "mor-structure": ("MoR", {"matches": 0, "rerank": False}),
    "mor-no-rerank": ("MoR", {"rerank": False}),
}


def retriever_names() -> list[str]:
    """Return the names that :func:`build_retriever` knows.

    >>> retriever_names()[:3]
    ['vector', 'bm25', 'hybrid']
    """
    return list(_RETRIEVERS)


def default_retriever(index: GraphIndex) -> str:
    """Return the name of the retriever with the best results on indexes with the same signals.

    WalkFusion on an index with vectors and BM25; spreading activation fused with vector search if there is no BM25; BM25 if there
    are no vectors. For a knowledge graph (see :func:`~graph_retrievers.systems.traits.is_knowledge_graph`), spreading activation,
    unless there are BM25, an embedding model and at least two relations, which WalkFusion follows.
    """
    if not index.has_dense:
        return "bm25"
    graph = index.graph
    if is_knowledge_graph(graph):
        relations = index.has_bm25 and index.embedding is not None and len(graph.relation_names) > 1
        return "walk-fusion" if relations else "spreading"
    return "walk-fusion" if index.has_bm25 else "spreading-hybrid"


def _without_vectors(index: GraphIndex) -> str:
    """Return why BM25 is the default: a walk needs vectors, whether there are edges or not."""
    if not index.graph.has_edges:
        return "there are neither edges nor vectors: words alone"
    return "there are no vectors: words alone, edges are not followed"


def retriever_class(name: str) -> tuple[type[Retriever], dict[str, Any]]:
    """Return the class of a short name and the keywords that the name implies; InvalidArgumentError if it is unknown."""
    kind, keywords = _RETRIEVERS[choice("retriever", name, _RETRIEVERS)]
    # The package imports this module, and then the classes.
    return getattr(import_module("graph_retrievers.systems"), kind), dict(keywords)


@typed
def build_retriever(name: str | None, index: GraphIndex, /, *, published: bool = False, **options: Any) -> Retriever:
    """Return the retriever with a short name on an index.

    Parameters
    ----------
    name : str or None
        One of :func:`retriever_names`; None for :func:`default_retriever`, always with k = 10. It warns if the index has a
        relevance model that the default does not use.
    index : GraphIndex
    published : bool, default False
        Whether to configure it as in its paper or its published code, see
        :meth:`~graph_retrievers.retrievers.retriever.Retriever.published`. Options, and keywords that the name implies, such as
        ``gate="uniform"``, take precedence.
    **options
        Keywords of the retriever's class (``checkpoint`` for those that train).

    Raises
    ------
    InvalidArgumentError
        If the name is unknown, the class does not take an option, or it has not been published.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom", "a card"])
    >>> build_retriever("bm25", index, k=1).retrieve("Which loom?")[0].text
    'a loom'
    """
    if name is None:
        chosen = default_retriever(index)
        made = build_retriever(chosen, index, published=published, **{"k": DEFAULT_K, **options})
        if chosen == "bm25":
            made.operator.reason = _without_vectors(index)
        tell_unused_relevance(made)
        return made
    kind, keywords = retriever_class(name)
    check_keywords(name, options, sorted({knob.name for knob in (*class_knobs(kind), *class_knobs(Retriever))}))
    settings = published_settings(kind, published)
    return kind(index, **{"name": name, **settings, **keywords, **options})  # type: ignore[call-arg]
