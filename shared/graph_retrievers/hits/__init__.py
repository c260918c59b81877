"""Hits with their paths, as text for a language model and as a subgraph."""

from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.hits.hit import Hit
from graph_retrievers.hits.hits import Hits
from graph_retrievers.hits.of_candidates import to_hits

__all__ = ["Hit", "Hits", "NodePath", "to_hits"]
