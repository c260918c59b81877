"""Graph retrievers as LangChain retrievers, GRanker and G-RAG as document compressors."""

from langchain_graph_retrievers import systems
from langchain_graph_retrievers.base import EngineRetriever
from langchain_graph_retrievers.cg_rag import create_cg_rag_chain
from langchain_graph_retrievers.documents import document_prompt, to_context, to_documents
from langchain_graph_retrievers.embeddings import minilm
from langchain_graph_retrievers.grag import GRAGCompressor
from langchain_graph_retrievers.granker import GRankerCompressor
from langchain_graph_retrievers.graph_vectorstore import GraphVectorStore
from langchain_graph_retrievers.remote_vectors import GivesVectors, LangChainVectors
from langchain_graph_retrievers.retrievers import GraphRetriever, IndexRetriever
from langchain_graph_retrievers.systems import *
from langchain_graph_retrievers.toolkit import GraphToolkit
from langchain_graph_retrievers.vectorstores import ListsVectors

__all__ = [
    "create_cg_rag_chain",
    "document_prompt",
    "EngineRetriever",
    "GivesVectors",
    "GRAGCompressor",
    "GRankerCompressor",
    "GraphRetriever",
    "GraphToolkit",
    "GraphVectorStore",
    "IndexRetriever",
    "LangChainVectors",
    "ListsVectors",
    "minilm",
    "to_context",
    "to_documents",
]
__all__ += systems.__all__
