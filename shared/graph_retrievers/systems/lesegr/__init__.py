"""LeSeGR, lexical-semantic graph retrieval (Hu et al., "CG-RAG", 2025): model, search, training."""

from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.search import LexicalSemanticSearch

__all__ = ["LeSeGRModel", "LexicalSemanticSearch"]
