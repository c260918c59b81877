"""The engine's sentence encoders as LangChain embeddings: importing this module makes them instances of ``Embeddings``."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from graph_retrievers.signals.sentence_encoder import SentenceEncoder, minilm

__all__ = ["minilm"]

# They have the methods; some classes of LangChain check the type.
Embeddings.register(SentenceEncoder)
