"""Retrievers by the short names that the command line and the evaluation use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graph_retrievers.arguments import check_keywords, choice, typed
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.traits import is_knowledge_graph
from graph_retrievers.queries import DEFAULT_K
from graph_retrievers.retrievers.retriever import Retriever, tell_unused_relevance
from graph_retrievers.retrievers.signatures import class_knobs, published_settings

__all__ = ["build_retriever", "default_retriever", "retriever_class", "retriever_names"]

# name -> (module, class or function, keywords); modules are imported when a name is first built.
_RETRIEVERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vector": ("baselines", "Vector", {}),
    "bm25": ("baselines", "BM25", {}),
    "hybrid": ("baselines", "Hybrid", {}),
    "re2": ("baselines", "Re2", {}),
    "fastinsight": ("fastinsight", "FastInsight", {}),
    "fastinsight-hybrid": ("fastinsight", "FastInsight", {"fuse": True}),
    "gar": ("gar", "GAR", {}),
    "ppr": ("ppr", "PPR", {}),
    "spreading": ("spreading_activation", "SpreadingActivation", {}),
    "spreading-uniform": ("spreading_activation", "SpreadingActivation", {"gate": "uniform"}),
    "spreading-hybrid": ("spreading_activation", "SpreadingActivation", {"fuse": True}),
    "walk-fusion": ("walk_fusion", "WalkFusion", {}),
    "path-reranking": ("path_reranking", "PathReranking", {}),
    "eager": ("strategies", "Eager", {}),
    "mmr": ("strategies", "MMR", {}),
    "scored": ("strategies", "Scored", {}),
    "hyde": ("rewriting", "HyDE", {}),
    "decomposition": ("rewriting", "Decomposition", {}),
    "ircot": ("rewriting", "IRCoT", {}),
    "lesegr": ("lesegr", "LeSeGR", {}),
    "lightrag": ("lightrag", "LightRAG", {}),
    "pathrag": ("pathrag", "PathRAG", {}),
    "g-rag": ("grag", "GRAG", {}),
    "g-retriever": ("gretriever", "GRetriever", {}),
    "hipporag": ("hipporag", "HippoRAG", {}),
    "mor": ("mor", "MoR", {}),
    "mor-text": ("mor", "MoR", {"structure": False, "rerank": False}),
    "mor-structure": ("mor", "MoR", {"matches": 0, "rerank": False}),
    "mor-no-rerank": ("mor", "MoR", {"rerank": False}),
}


def retriever_names() -> list[str]:
    """Return the names that :func:`build_retriever` knows.

    >>> retriever_names()[:3]
    ['vector', 'bm25', 'hybrid']
    """
    return list(_RETRIEVERS)


def default_retriever(index: GraphIndex) -> str:
    """Return the name of the retriever that measured best on indexes with the signals of this one.

    WalkFusion where there are vectors and BM25; spreading activation fused with vector search where there is no BM25; BM25 where
    there are no vectors. For a knowledge graph (see :func:`~graph_retrievers.operators.traits.is_knowledge_graph`), spreading
    activation, unless there are BM25, an embedding model and two relations or more, which WalkFusion follows.

    Examples
    --------
    >>> default_retriever(GraphIndex.from_texts(["a loom", "a card"]))
    'bm25'
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
    """Return the class of a short name and the keywords that the name stands for; InvalidArgumentError if it is unknown."""
    module, attribute, keywords = _RETRIEVERS[choice("retriever", name, _RETRIEVERS)]
    return getattr(import_module(f"graph_retrievers.retrievers.{module}"), attribute), dict(keywords)


@typed
def build_retriever(name: str | None, index: GraphIndex, /, *, published: bool = False, **options: Any) -> Retriever:
    """Return the retriever of a short name on an index.

    Parameters
    ----------
    name : str or None
        One of :func:`retriever_names`; None for :func:`default_retriever`, with k = 10 whatever the class has. A warning says if
        the index has a relevance model that the default does not use.
    index : GraphIndex
    published : bool, default False
        Whether it is configured as its paper or its published code does it: see
        :meth:`~graph_retrievers.retrievers.retriever.Retriever.published`. Options take precedence, and what the name stands for,
        such as ``gate="uniform"``.
    **options
        Keywords of the retriever's class (``checkpoint`` for those that train).

    Raises
    ------
    InvalidArgumentError
        If the name is unknown, the class does not take an option, or nobody has published it.

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
