"""Graph retrievers as LangChain retrievers, and GRanker as a document compressor."""

from langchain_graph_retrievers.base import EngineRetriever
from langchain_graph_retrievers.documents import document_prompt, to_documents
from langchain_graph_retrievers.granker import GRankerCompressor
from langchain_graph_retrievers.retrievers import (
    BM25Retriever,
    FastInsightRetriever,
    GraphRetriever,
    HybridRetriever,
    IndexRetriever,
    Re2Retriever,
    VectorRetriever,
)

__all__ = [
    "BM25Retriever",
    "EngineRetriever",
    "FastInsightRetriever",
    "GRankerCompressor",
    "GraphRetriever",
    "HybridRetriever",
    "IndexRetriever",
    "Re2Retriever",
    "VectorRetriever",
    "document_prompt",
    "to_documents",
]
