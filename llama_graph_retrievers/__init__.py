"""Graph retrievers as LlamaIndex retrievers, and GRanker as a node postprocessor.

Every retriever takes an engine index (``GraphIndex``), or nodes by ``from_defaults(nodes=..., embed_model=...)``; those
for graph databases and property graph stores take these instead.
"""

from llama_graph_retrievers.cypher import CypherSpreadingActivationRetriever
from llama_graph_retrievers.granker import GRankerPostprocessor
from llama_graph_retrievers.graph_retriever import GraphRetriever, IndexRetriever, RetrieverOptions
from llama_graph_retrievers.knowledge import MoRRetriever, SpreadingActivationRetriever
from llama_graph_retrievers.property_graph import SpreadingActivationPGRetriever
from llama_graph_retrievers.retrievers import (
    BM25Retriever,
    FastInsightRetriever,
    GARRetriever,
    HybridRetriever,
    PPRRetriever,
    Re2Retriever,
    VectorRetriever,
    WalkFusionRetriever,
)

__all__ = [
    "BM25Retriever",
    "CypherSpreadingActivationRetriever",
    "FastInsightRetriever",
    "GARRetriever",
    "GRankerPostprocessor",
    "GraphRetriever",
    "HybridRetriever",
    "IndexRetriever",
    "MoRRetriever",
    "PPRRetriever",
    "Re2Retriever",
    "RetrieverOptions",
    "SpreadingActivationPGRetriever",
    "SpreadingActivationRetriever",
    "VectorRetriever",
    "WalkFusionRetriever",
]
