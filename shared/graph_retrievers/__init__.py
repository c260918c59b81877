"""Graph retrievers for RAG and agents: operators, and published systems as compositions of them."""

__version__ = "0.1.0"
