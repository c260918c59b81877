"""G-RAG, graph-based reranking (Dong et al., 2024): document graphs, networks, the operator, training."""

from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank

__all__ = ["DocumentGraphNetwork", "DocumentGraphRerank", "EvidenceNetwork"]
