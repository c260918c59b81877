"""SubgraphRAG: triples around the entities of a question, scored by a small network (Li, Miao and Li, ICLR 2025)."""

from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.search import TripleSearch

__all__ = ["TripleScorer", "TripleSearch"]
