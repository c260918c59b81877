"""Hits with their paths, as text for a language model and as a subgraph."""

from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.hits.hit import Hit, plain_context, plain_provenance, plain_subgraph
from graph_retrievers.hits.hits import Hits
from graph_retrievers.hits.of_candidates import NOTHING_FOUND, Similarities, named_rows, to_hits

__all__ = [
    "NOTHING_FOUND",
    "Hit",
    "Hits",
    "NodePath",
    "Similarities",
    "named_rows",
    "plain_context",
    "plain_provenance",
    "plain_subgraph",
    "to_hits",
]
