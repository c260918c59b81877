"""Operators of five kinds, and ways to compose them, from :mod:`graph_retrievers.search` and all systems."""

from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.compositions import Composite, FirstStage, Loop, Pipeline, ReciprocalRankFusion
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.search.backfill import Backfill
from graph_retrievers.search.facts import FactSearch
from graph_retrievers.search.round_robin import RoundRobin
from graph_retrievers.search.vector_search import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.systems.baselines import Rerank
from graph_retrievers.systems.fastinsight import GRanker, STeX
from graph_retrievers.systems.gar import AdaptiveReranking
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.gnn_rag.search import AnswerSearch
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.hipporag.fact_linking import FactLinking
from graph_retrievers.systems.hipporag.passage_walk import PassageWalk
from graph_retrievers.systems.kar import KnowledgeAwareExpansion
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.search import LexicalSemanticSearch
from graph_retrievers.systems.lightrag.gathering import ChunkGathering, RelationGathering
from graph_retrievers.systems.lightrag.keywords import KeywordSearch
from graph_retrievers.systems.linear_rag.search import TriGraphSearch
from graph_retrievers.systems.mor.reranker import TrajectoryReranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.pagerank import PersonalizedPageRank
from graph_retrievers.systems.path_reranking.path_rerank import PathRerank
from graph_retrievers.systems.rewriting import HypotheticalDocuments, InterleavedReasoning, QueryDecomposition
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.passages import PassageGathering
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.search import TripleSearch
from graph_retrievers.systems.walk_fusion.feedback_search import FeedbackSearch
from graph_retrievers.systems.walk_fusion.look_up import CitedFirst
from graph_retrievers.systems.walk_fusion.metapath_search import MetapathSearch
from graph_retrievers.systems.walk_fusion.path_search import PathSearch

__all__ = [
    "AdaptiveReranking",
    "AnswerNetwork",
    "AnswerSearch",
    "BM25Search",
    "Backfill",
    "ChainSearch",
    "Chains",
    "ChunkGathering",
    "CitedFirst",
    "Composite",
    "DocumentGraphNetwork",
    "DocumentGraphRerank",
    "EntityLinking",
    "EvidenceNetwork",
    "FactLinking",
    "FactSearch",
    "Facts",
    "FeedbackSearch",
    "FirstStage",
    "GRanker",
    "GatedPropagation",
    "HybridSearch",
    "HypotheticalDocuments",
    "InterleavedReasoning",
    "KeywordSearch",
    "KnowledgeAwareExpansion",
    "LeSeGRModel",
    "LexicalSemanticSearch",
    "Loop",
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
    "ReciprocalRankFusion",
    "RelationGathering",
    "Rerank",
    "RoundRobin",
    "STeX",
    "TrajectoryReranker",
    "TriGraphSearch",
    "TripleScorer",
    "TripleSearch",
    "VectorSearch",
]
