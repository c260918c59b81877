"""Published systems, one file or folder each: the algorithm of the paper, and the system with its parameters."""

from graph_retrievers.systems.baselines import BM25, Hybrid, Re2, Vector
from graph_retrievers.systems.ego_grag import EgoGRAG
from graph_retrievers.systems.fastinsight import FastInsight
from graph_retrievers.systems.fused import Fused
from graph_retrievers.systems.gar import GAR
from graph_retrievers.systems.gnn_rag.retriever import GNNRAG
from graph_retrievers.systems.grag.retriever import GRAG
from graph_retrievers.systems.graphrag_local import GraphRAGLocal
from graph_retrievers.systems.gretriever import GRetriever
from graph_retrievers.systems.hipporag.first import HippoRAG1
from graph_retrievers.systems.hipporag.retriever import HippoRAG
from graph_retrievers.systems.hybgrag import HybGRAG
from graph_retrievers.systems.hykge import HyKGE
from graph_retrievers.systems.kar import KAR
from graph_retrievers.systems.kg2rag import KG2RAG
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.lightrag.retriever import LightRAG
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.mor.retriever import MoR
from graph_retrievers.systems.pagerank import PPR
from graph_retrievers.systems.path_reranking.retriever import PathReranking
from graph_retrievers.systems.pathrag import PathRAG
from graph_retrievers.systems.qafd import QAFD
from graph_retrievers.systems.registry import default_system
from graph_retrievers.systems.rewriting import Decomposition, HyDE, IRCoT
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.strategies import MMR, Eager, Scored
from graph_retrievers.systems.subgraph_rag.retriever import SubgraphRAG
from graph_retrievers.systems.system import System, every_system, read_system
from graph_retrievers.systems.think_on_graph import ThinkOnGraph
from graph_retrievers.systems.think_on_graph_2 import ThinkOnGraph2
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion

__all__ = [
    "BM25",
    "GAR",
    "GNNRAG",
    "GRAG",
    "MMR",
    "PPR",
    "Eager",
    "Decomposition",
    "EgoGRAG",
    "FastInsight",
    "Fused",
    "HyDE",
    "HybGRAG",
    "HyKGE",
    "IRCoT",
    "KAR",
    "KG2RAG",
    "GRetriever",
    "GraphRAGLocal",
    "HippoRAG",
    "HippoRAG1",
    "Hybrid",
    "LeSeGR",
    "LightRAG",
    "LinearRAG",
    "MoR",
    "PathRAG",
    "PathReranking",
    "QAFD",
    "Re2",
    "Scored",
    "SpreadingActivation",
    "SubgraphRAG",
    "System",
    "ThinkOnGraph",
    "ThinkOnGraph2",
    "Vector",
    "WalkFusion",
    "default_system",
    "every_system",
    "read_system",
]
