"""Graph construction: nodes and edges from documents, links, metadata, triples, neighbours and networkx."""

from graph_retrievers.construction.contextual import ContextualCitations, chunk_documents
from graph_retrievers.construction.edges import (
    DocumentStructure,
    EdgeSpec,
    EntityMentions,
    Links,
    Metadata,
    NearestNeighbors,
    NumberedReferences,
    Relationships,
    TitleMentions,
    Triples,
    build_edges,
)
from graph_retrievers.construction.folder import read_folder
from graph_retrievers.construction.networkx_graphs import from_networkx, to_networkx

__all__ = [
    "ContextualCitations",
    "DocumentStructure",
    "EdgeSpec",
    "EntityMentions",
    "Links",
    "Metadata",
    "NearestNeighbors",
    "NumberedReferences",
    "Relationships",
    "TitleMentions",
    "Triples",
    "build_edges",
    "chunk_documents",
    "from_networkx",
    "read_folder",
    "to_networkx",
]
