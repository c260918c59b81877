"""Published systems and baselines, one file each, as compositions of operators."""

from graph_retrievers.retrievers.baselines import BM25, Hybrid, Re2, Vector
from graph_retrievers.retrievers.datastax import MMR, Eager, Scored
from graph_retrievers.retrievers.fastinsight import FastInsight
from graph_retrievers.retrievers.gar import GAR
from graph_retrievers.retrievers.grag import GRAG
from graph_retrievers.retrievers.gretriever import GRetriever
from graph_retrievers.retrievers.hipporag import HippoRAG
from graph_retrievers.retrievers.language_model import Decomposition, HyDE, IRCoT
from graph_retrievers.retrievers.lesegr import LeSeGR
from graph_retrievers.retrievers.lightrag import LightRAG
from graph_retrievers.retrievers.mor import MoR
from graph_retrievers.retrievers.path_reranking import PathReranking
from graph_retrievers.retrievers.pathrag import PathRAG
from graph_retrievers.retrievers.ppr import PPR
from graph_retrievers.retrievers.protocol import BaseRetriever, RetrieverProtocol
from graph_retrievers.retrievers.registry import build_retriever, retriever_names
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.spreading_activation import SpreadingActivation
from graph_retrievers.retrievers.store_retriever import StoreRetriever
from graph_retrievers.retrievers.walk_fusion import WalkFusion

__all__ = [
    "BM25",
    "BaseRetriever",
    "GAR",
    "GRAG",
    "MMR",
    "PPR",
    "Eager",
    "Decomposition",
    "FastInsight",
    "HyDE",
    "IRCoT",
    "GRetriever",
    "HippoRAG",
    "Hybrid",
    "LeSeGR",
    "LightRAG",
    "MoR",
    "PathRAG",
    "PathReranking",
    "Re2",
    "Retriever",
    "RetrieverProtocol",
    "Scored",
    "SpreadingActivation",
    "StoreRetriever",
    "Vector",
    "WalkFusion",
    "build_retriever",
    "retriever_names",
]
