"""Graph retrievers as LangChain retrievers, GRanker and G-RAG as document compressors."""

from langchain_graph_retrievers.base import EngineRetriever
from langchain_graph_retrievers.cg_rag import create_cg_rag_chain
from langchain_graph_retrievers.documents import document_prompt, to_context, to_documents
from langchain_graph_retrievers.embeddings import minilm
from langchain_graph_retrievers.grag import GRAGCompressor
from langchain_graph_retrievers.granker import GRankerCompressor
from langchain_graph_retrievers.graph_vectorstore import GraphVectorStore
from langchain_graph_retrievers.remote_vectors import GivesVectors, LangChainVectors
from langchain_graph_retrievers.retrievers import (
    BM25Retriever,
    DecompositionRetriever,
    EagerRetriever,
    FastInsightRetriever,
    GARRetriever,
    GRAGRetriever,
    GraphRetriever,
    GRetrieverRetriever,
    HippoRAGRetriever,
    HybridRetriever,
    HyDERetriever,
    IndexRetriever,
    IRCoTRetriever,
    LeSeGRRetriever,
    LightRAGRetriever,
    LinearRAGRetriever,
    MMRRetriever,
    MoRRetriever,
    PathRAGRetriever,
    PathRerankingRetriever,
    PPRRetriever,
    Re2Retriever,
    ScoredRetriever,
    SpreadingActivationRetriever,
    VectorRetriever,
    WalkFusionRetriever,
)
from langchain_graph_retrievers.vectorstores import ListsVectors

__all__ = [
    "GivesVectors",
    "LangChainVectors",
    "HyDERetriever",
    "DecompositionRetriever",
    "IRCoTRetriever",
    "EagerRetriever",
    "MMRRetriever",
    "ScoredRetriever",
    "BM25Retriever",
    "EngineRetriever",
    "FastInsightRetriever",
    "GARRetriever",
    "GRAGCompressor",
    "GRAGRetriever",
    "GRetrieverRetriever",
    "HippoRAGRetriever",
    "GRankerCompressor",
    "GraphRetriever",
    "GraphVectorStore",
    "HybridRetriever",
    "IndexRetriever",
    "LeSeGRRetriever",
    "LightRAGRetriever",
    "ListsVectors",
    "MoRRetriever",
    "PPRRetriever",
    "LinearRAGRetriever",
    "PathRAGRetriever",
    "PathRerankingRetriever",
    "Re2Retriever",
    "SpreadingActivationRetriever",
    "VectorRetriever",
    "WalkFusionRetriever",
    "create_cg_rag_chain",
    "document_prompt",
    "minilm",
    "to_context",
    "to_documents",
]
