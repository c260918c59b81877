"""The taxonomy: operators of five kinds, and how they compose."""

from graph_retrievers.operators.adaptive_reranking import AdaptiveReranking
from graph_retrievers.operators.backfill import Backfill
from graph_retrievers.operators.fact_linking import FactLinking
from graph_retrievers.operators.facts import FactSearch
from graph_retrievers.operators.feedback_search import FeedbackSearch
from graph_retrievers.operators.first_stage import FirstStage
from graph_retrievers.operators.flow_pruning import FlowPruning
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.gathering import ChunkGathering, RelationGathering
from graph_retrievers.operators.grag import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.keywords import KeywordSearch
from graph_retrievers.operators.lesegr import LeSeGRModel, LexicalSemanticSearch
from graph_retrievers.operators.metapath_search import MetapathSearch
from graph_retrievers.operators.mor import MixedTraversal, TrajectoryReranker
from graph_retrievers.operators.operator import Composite, Loop, Operator, OperatorKind, Pipeline
from graph_retrievers.operators.pagerank import PersonalizedPageRank
from graph_retrievers.operators.passage_walk import PassageWalk
from graph_retrievers.operators.path_rerank import PathRerank
from graph_retrievers.operators.path_search import PathSearch
from graph_retrievers.operators.rerank import Rerank
from graph_retrievers.operators.rewriting import HypotheticalDocuments, InterleavedReasoning, QueryDecomposition
from graph_retrievers.operators.round_robin import RoundRobin
from graph_retrievers.operators.spreading import ChainSearch, EntityLinking, GatedPropagation, PassageGathering
from graph_retrievers.operators.steiner_tree_search import SteinerTreeSearch
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.strategies import EagerTraversal, MMRTraversal, ScoredTraversal
from graph_retrievers.operators.vector_search import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.results import Chains, Facts, Ranking

__all__ = [
    "AdaptiveReranking",
    "BM25Search",
    "Backfill",
    "ChainSearch",
    "Chains",
    "ChunkGathering",
    "Composite",
    "DocumentGraphNetwork",
    "DocumentGraphRerank",
    "EagerTraversal",
    "EntityLinking",
    "EvidenceNetwork",
    "FactLinking",
    "FactSearch",
    "Facts",
    "FeedbackSearch",
    "FirstStage",
    "FlowPruning",
    "GRanker",
    "GatedPropagation",
    "HybridSearch",
    "HypotheticalDocuments",
    "InterleavedReasoning",
    "KeywordSearch",
    "LeSeGRModel",
    "LexicalSemanticSearch",
    "Loop",
    "MMRTraversal",
    "MetapathSearch",
    "MixedTraversal",
    "Operator",
    "OperatorKind",
    "PassageGathering",
    "PassageWalk",
    "PathRerank",
    "PathSearch",
    "PersonalizedPageRank",
    "Pipeline",
    "QueryDecomposition",
    "Ranking",
    "ReciprocalRankFusion",
    "RelationGathering",
    "Rerank",
    "RoundRobin",
    "STeX",
    "ScoredTraversal",
    "SteinerTreeSearch",
    "TrajectoryReranker",
    "VectorSearch",
]
