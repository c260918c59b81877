"""GNN-RAG: answers that a graph neural network finds around the entities of a question (Mavromatis and Karypis, 2024)."""

from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.gnn_rag.search import AnswerSearch

__all__ = ["AnswerNetwork", "AnswerSearch"]
