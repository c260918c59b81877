"""Graph retrievers for RAG and agents: published systems, and their parts.

This module has what most programs need. Operators come from :mod:`graph_retrievers.operators`, sources of edges from
:mod:`graph_retrievers.construction`, errors from :mod:`graph_retrievers.errors`.

>>> import graph_retrievers as gr
>>> index = gr.GraphIndex.from_texts(
...     ["Ada wrote a program.", "An engine of brass."], titles=["Ada", "Engine"], edges=[("0", "1", "ran on")]
... )
>>> from graph_retrievers.operators import BM25Search, GatedPropagation
>>> retriever = gr.Retriever(index, gr.Pipeline(BM25Search(1), GatedPropagation(gate="uniform")))
>>> retriever.retrieve("Who wrote a program?").nodes[1].path.text
'Ada -[ran on]-> Engine'
"""

# fmt: off
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graph_retrievers.version import __version__ as __version__

if TYPE_CHECKING:
    from graph_retrievers.errors import GraphRetrieverError
    from graph_retrievers.graph import Edge, Node
    from graph_retrievers.hits import Hit, Hits
    from graph_retrievers.index import GraphIndex, IndexStore
    from graph_retrievers.operators import Loop, Operator, Pipeline, ReciprocalRankFusion
    from graph_retrievers.retrievers import Retriever, StoreRetriever
    from graph_retrievers.retrievers.agents import GraphTools
    from graph_retrievers.signals.cross_encoder import CrossEncoder
    from graph_retrievers.signals.embedding_models import HostedEmbedding
    from graph_retrievers.signals.language_model_relevance import LanguageModelRelevance
    from graph_retrievers.signals.sentence_encoder import SentenceEncoder, minilm
    from graph_retrievers.systems import (
        BM25,
        GAR,
        GNNRAG,
        GRAG,
        KAR,
        KG2RAG,
        MMR,
        PPR,
        QAFD,
        Decomposition,
        Eager,
        EgoGRAG,
        FastInsight,
        Fused,
        GraphRAGLocal,
        GRetriever,
        HippoRAG,
        HippoRAG1,
        HybGRAG,
        Hybrid,
        HyDE,
        HyKGE,
        IRCoT,
        LeSeGR,
        LightRAG,
        LinearRAG,
        MoR,
        PathRAG,
        PathReranking,
        Re2,
        Scored,
        SpreadingActivation,
        SubgraphRAG,
        System,
        ThinkOnGraph,
        ThinkOnGraph2,
        Vector,
        WalkFusion,
        read_system,
    )

# Where each name is; loaded when first used, so that the version can be read without torch.
_HOMES = {
    "errors": "GraphRetrieverError", "graph": "Edge Node", "hits": "Hit Hits", "index": "GraphIndex IndexStore",
    "operators": "Loop Operator Pipeline ReciprocalRankFusion",
    "retrievers": "Retriever StoreRetriever", "retrievers.agents": "GraphTools",
    "systems": "BM25 Decomposition Eager EgoGRAG FastInsight Fused GAR GNNRAG GRAG GRetriever GraphRAGLocal HippoRAG HippoRAG1 "
    "HyDE HyKGE HybGRAG Hybrid IRCoT KAR KG2RAG LeSeGR LightRAG LinearRAG MMR MoR PPR PathRAG PathReranking QAFD Re2 "
    "Scored SpreadingActivation SubgraphRAG System ThinkOnGraph ThinkOnGraph2 Vector WalkFusion read_system",
    "signals.cross_encoder": "CrossEncoder", "signals.embedding_models": "HostedEmbedding",
    "signals.sentence_encoder": "SentenceEncoder minilm",
    "signals.language_model_relevance": "LanguageModelRelevance",
}

__all__ = [
    "BM25", "CrossEncoder", "Decomposition", "Eager", "Edge", "EgoGRAG", "FastInsight", "Fused", "GAR", "GNNRAG", "GRAG",
    "GRetriever", "GraphIndex", "GraphRAGLocal", "GraphRetrieverError", "GraphTools", "HippoRAG", "HippoRAG1", "Hit", "Hits",
    "HostedEmbedding", "HyDE", "HyKGE", "HybGRAG", "Hybrid", "IRCoT", "IndexStore", "KAR", "KG2RAG", "LanguageModelRelevance",
    "LeSeGR", "LightRAG", "LinearRAG", "Loop", "MMR", "MoR", "Node", "Operator", "PPR", "PathRAG", "PathReranking",
    "Pipeline", "QAFD", "Re2", "ReciprocalRankFusion", "Retriever", "Scored", "SentenceEncoder", "SpreadingActivation",
    "StoreRetriever", "SubgraphRAG", "System", "ThinkOnGraph", "ThinkOnGraph2", "Vector", "WalkFusion", "minilm",
    "read_system",
]


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'graph_retrievers' has no attribute {name!r}")
    try:
        return getattr(import_module(f"graph_retrievers.{home}"), name)
    except AttributeError as error:
        # As an AttributeError, Python would say that there is no such name.
        raise ImportError(f"graph_retrievers.{home} cannot be imported: {error}") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
