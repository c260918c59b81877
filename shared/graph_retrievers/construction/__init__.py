"""Graph construction: nodes and edges from documents, links, metadata, triples, neighbours and networkx."""

from graph_retrievers.construction.edges import (
    EdgeSpec,
    Links,
    Metadata,
    NearestNeighbors,
    Relationships,
    TitleMentions,
    Triples,
    build_edges,
)
from graph_retrievers.construction.networkx_graphs import from_networkx, to_networkx

__all__ = [
    "EdgeSpec",
    "Links",
    "Metadata",
    "NearestNeighbors",
    "Relationships",
    "TitleMentions",
    "Triples",
    "build_edges",
    "from_networkx",
    "to_networkx",
]
