"""The contract of retrievers, and what all of them share: filters, hits, batches, shared calls."""

from graph_retrievers.retrievers.protocol import BaseRetriever, RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["BaseRetriever", "Retriever", "RetrieverProtocol"]
