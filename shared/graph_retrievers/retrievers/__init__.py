"""The contract of retrievers, and what all of them share: filters, hits, batches, shared calls."""

from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.retrievers.protocol import BaseRetriever, RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.store_retriever import StoreRetriever

__all__ = ["BaseRetriever", "MemoryRetriever", "Retriever", "RetrieverProtocol", "StoreRetriever"]
