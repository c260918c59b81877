"""Published systems and baselines, one file each, as compositions of operators."""

from graph_retrievers.retrievers.baselines import Hybrid, Lexical, Re2, Vector
from graph_retrievers.retrievers.context import to_context
from graph_retrievers.retrievers.fastinsight import FastInsight
from graph_retrievers.retrievers.gar import GAR
from graph_retrievers.retrievers.mor import MoR
from graph_retrievers.retrievers.ppr import PPR
from graph_retrievers.retrievers.registry import build_retriever, retriever_names
from graph_retrievers.retrievers.retriever import Hit, HitList, Path, Retriever
from graph_retrievers.retrievers.spreading_activation import SpreadingActivation
from graph_retrievers.retrievers.walk_fusion import WalkFusion

__all__ = [
    "GAR",
    "PPR",
    "FastInsight",
    "Hit",
    "HitList",
    "Hybrid",
    "Lexical",
    "MoR",
    "Path",
    "Re2",
    "Retriever",
    "SpreadingActivation",
    "Vector",
    "WalkFusion",
    "build_retriever",
    "retriever_names",
    "to_context",
]
