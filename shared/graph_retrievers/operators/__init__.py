"""The taxonomy: operators of five kinds, and how they compose."""

from graph_retrievers.operators.adaptive_reranking import AdaptiveReranking
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking
from graph_retrievers.operators.feedback_search import FeedbackSearch
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.mor.traversal import MixedTraversal
from graph_retrievers.operators.rerank import Rerank
from graph_retrievers.operators.operator import Loop, Operator, OperatorKind, Pipeline, Ranking
from graph_retrievers.operators.pagerank import PersonalizedPageRank
from graph_retrievers.operators.spreading.passages import PassageGathering
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.mor.reranker import TrajectoryReranker
from graph_retrievers.operators.vector_search import BM25Search, HybridSearch, VectorSearch

__all__ = [
    "AdaptiveReranking",
    "BM25Search",
    "ChainSearch",
    "EntityLinking",
    "FeedbackSearch",
    "GRanker",
    "GatedPropagation",
    "HybridSearch",
    "Loop",
    "MixedTraversal",
    "Operator",
    "OperatorKind",
    "PassageGathering",
    "PersonalizedPageRank",
    "Pipeline",
    "Ranking",
    "ReciprocalRankFusion",
    "Rerank",
    "STeX",
    "TrajectoryReranker",
    "VectorSearch",
]
