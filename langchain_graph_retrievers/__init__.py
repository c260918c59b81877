"""Graph retrievers as LangChain retrievers, GRanker and G-RAG as document compressors."""

from langchain_graph_retrievers.cg_rag import create_cg_rag_chain
from langchain_graph_retrievers.compressors import GRAGCompressor, GRankerCompressor
from langchain_graph_retrievers.documents import document_prompt, to_context, to_documents
from langchain_graph_retrievers.embeddings import minilm
from langchain_graph_retrievers.graph_retriever import GraphRetriever
from langchain_graph_retrievers.graph_vectorstore import GraphVectorStore
from langchain_graph_retrievers.presets import (
    FastInsightRetriever,
    GRAGRetriever,
    LeSeGRRetriever,
    MoRRetriever,
    SpreadingActivationRetriever,
    WalkFusionRetriever,
)
from langchain_graph_retrievers.remote_vectors import LangChainVectors
from langchain_graph_retrievers.toolkit import GraphToolkit

__all__ = [
    "create_cg_rag_chain",
    "document_prompt",
    "FastInsightRetriever",
    "GRAGCompressor",
    "GRAGRetriever",
    "GRankerCompressor",
    "GraphRetriever",
    "GraphToolkit",
    "GraphVectorStore",
    "LangChainVectors",
    "LeSeGRRetriever",
    "minilm",
    "MoRRetriever",
    "SpreadingActivationRetriever",
    "to_context",
    "to_documents",
    "WalkFusionRetriever",
]
