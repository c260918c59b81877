"""Retrievers on a graph in a database and vectors in a vector store, which fetch only what a query reads."""

from graph_retrievers.stores.remote.index import RemoteIndex
from graph_retrievers.stores.remote.ports import (
    DatedGraphStore,
    GraphStore,
    Page,
    ScopedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
    StoredEdge,
    StoredNode,
    Titled,
    VectorStore,
    WordStore,
)
from graph_retrievers.stores.remote.retriever import RemoteRetriever

__all__ = [
    "DatedGraphStore",
    "GraphStore",
    "Page",
    "RemoteIndex",
    "RemoteRetriever",
    "ScopedGraphStore",
    "ScopedVectorStore",
    "ScopedWordStore",
    "StoredEdge",
    "StoredNode",
    "Titled",
    "VectorStore",
    "WordStore",
]
