"""Retrievers on a graph in a database and vectors in a vector store, which fetch only what a query reads."""

from graph_retrievers.stores.remote.index import RemoteIndex
from graph_retrievers.stores.remote.ports import (
    CheckingGraphStore,
    ComparingVectorStore,
    EdgeColumns,
    EdgeVectorStore,
    FetchedRows,
    GraphStore,
    NumberedGraphStore,
    ScopedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
    SentenceStore,
    StoredEdge,
    StoredNode,
    StoredSentence,
    TitleMatch,
    VectorStore,
    WordStore,
)
from graph_retrievers.stores.remote.retriever import RemoteRetriever as _RemoteRetriever  # noqa: F401 - Retriever makes it

__all__ = [
    "CheckingGraphStore",
    "ComparingVectorStore",
    "EdgeColumns",
    "EdgeVectorStore",
    "GraphStore",
    "FetchedRows",
    "NumberedGraphStore",
    "RemoteIndex",
    "ScopedGraphStore",
    "ScopedVectorStore",
    "ScopedWordStore",
    "SentenceStore",
    "StoredEdge",
    "StoredNode",
    "StoredSentence",
    "TitleMatch",
    "VectorStore",
    "WordStore",
]
