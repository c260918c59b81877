"""What is searched: the corpus graph and its storage."""

from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.node_path import SharedName
from graph_retrievers.graph.subgraph import Subgraph

__all__ = ["CorpusGraph", "Edge", "Node", "SharedName", "Subgraph"]
