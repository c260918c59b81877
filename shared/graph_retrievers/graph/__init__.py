"""What is searched: the corpus graph and its storage."""

from graph_retrievers.graph.corpus_graph import CorpusGraph, Node

__all__ = ["CorpusGraph", "Node"]
