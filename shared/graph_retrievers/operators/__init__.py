"""The taxonomy: operators of five kinds, and how they compose."""

from graph_retrievers.operators.operator import Loop, Operator, OperatorKind, Pipeline, Ranking
from graph_retrievers.operators.vector_search import BM25Search, HybridSearch, VectorSearch

__all__ = ["BM25Search", "HybridSearch", "Loop", "Operator", "OperatorKind", "Pipeline", "Ranking", "VectorSearch"]
