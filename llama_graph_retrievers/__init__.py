"""Graph retrievers as LlamaIndex retrievers, and GRanker as a node postprocessor.

Every retriever takes an engine index (``GraphIndex``), or nodes by ``from_defaults(nodes=..., embed_model=...)``.
"""

from llama_graph_retrievers.granker import GRankerPostprocessor
from llama_graph_retrievers.graph_retriever import GraphRetriever, RetrieverOptions
from llama_graph_retrievers.retrievers import (
    BM25Retriever,
    FastInsightRetriever,
    HybridRetriever,
    IndexRetriever,
    Re2Retriever,
    VectorRetriever,
)

__all__ = [
    "BM25Retriever",
    "FastInsightRetriever",
    "GRankerPostprocessor",
    "GraphRetriever",
    "HybridRetriever",
    "IndexRetriever",
    "Re2Retriever",
    "RetrieverOptions",
    "VectorRetriever",
]
