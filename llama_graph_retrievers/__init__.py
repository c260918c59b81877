"""Graph retrievers as LlamaIndex retrievers, GRanker and G-RAG as node postprocessors.

The named retrievers take an engine index (``GraphIndex``), or nodes with ``from_defaults(nodes=..., embed_model=...)``.
:class:`GraphRetriever` takes any engine retriever, such as one that works inside a graph database, or your own.
"""

from llama_graph_retrievers import systems
from llama_graph_retrievers.cg_rag import CGRAGQueryEngine
from llama_graph_retrievers.embeddings import SentenceEmbedding, minilm
from llama_graph_retrievers.grag import GRAGPostprocessor
from llama_graph_retrievers.granker import GRankerPostprocessor
from llama_graph_retrievers.graph_retriever import GraphRetriever
from llama_graph_retrievers.graph_vector_store import GraphVectorStore
from llama_graph_retrievers.nodes import provenance, to_context
from llama_graph_retrievers.property_graph import SpreadingActivationPGRetriever
from llama_graph_retrievers.remote_vectors import LlamaIndexVectors
from llama_graph_retrievers.similarity import SimilarityCutoffPostprocessor
from llama_graph_retrievers.systems import *
from llama_graph_retrievers.tool_spec import GraphToolSpec

__all__ = [
    "CGRAGQueryEngine",
    "GRAGPostprocessor",
    "GRankerPostprocessor",
    "GraphRetriever",
    "GraphToolSpec",
    "GraphVectorStore",
    "LlamaIndexVectors",
    "minilm",
    "provenance",
    "SentenceEmbedding",
    "SimilarityCutoffPostprocessor",
    "SpreadingActivationPGRetriever",
    "to_context",
]
__all__ += systems.__all__
