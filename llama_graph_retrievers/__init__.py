"""Graph retrievers as LlamaIndex retrievers, GRanker and G-RAG as node postprocessors.

:class:`GraphRetriever` runs a system on an index (``GraphIndex``), or on nodes with
``from_defaults(nodes=..., embed_model=..., system=...)``; or it takes any engine retriever, such as one that works inside a graph
database, or your own. Six classes are the same with a system preset.
"""

from llama_graph_retrievers.cg_rag import CGRAGQueryEngine
from llama_graph_retrievers.embeddings import SentenceEmbedding, minilm
from llama_graph_retrievers.graph_retriever import GraphRetriever
from llama_graph_retrievers.graph_vector_store import GraphVectorStore
from llama_graph_retrievers.nodes import provenance, to_context
from llama_graph_retrievers.postprocessors import GRAGPostprocessor, GRankerPostprocessor, SimilarityCutoffPostprocessor
from llama_graph_retrievers.presets import (
    FastInsightRetriever,
    GRAGRetriever,
    LeSeGRRetriever,
    MoRRetriever,
    SpreadingActivationRetriever,
    WalkFusionRetriever,
)
from llama_graph_retrievers.property_graph import SpreadingActivationPGRetriever
from llama_graph_retrievers.search import GraphSearchEvent
from llama_graph_retrievers.stores import LlamaIndexVectors
from llama_graph_retrievers.tool_spec import GraphToolSpec

__all__ = [
    "CGRAGQueryEngine",
    "FastInsightRetriever",
    "GRAGPostprocessor",
    "GRAGRetriever",
    "GRankerPostprocessor",
    "GraphRetriever",
    "GraphSearchEvent",
    "GraphToolSpec",
    "GraphVectorStore",
    "LeSeGRRetriever",
    "LlamaIndexVectors",
    "MoRRetriever",
    "SentenceEmbedding",
    "SimilarityCutoffPostprocessor",
    "SpreadingActivationPGRetriever",
    "SpreadingActivationRetriever",
    "WalkFusionRetriever",
    "minilm",
    "provenance",
    "to_context",
]
