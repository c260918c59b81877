"""The engine's sentence encoders as a LlamaIndex embedding model."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import PrivateAttr

from graph_retrievers.signals.sentence_encoder import SentenceEncoder
from graph_retrievers.signals.sentence_encoder import minilm as minilm_encoder


class SentenceEmbedding(BaseEmbedding):
    """A :class:`graph_retrievers.SentenceEncoder` as a LlamaIndex ``BaseEmbedding``, with its fields.

    ``embed_batch_size`` is 256 by default; the encoder itself batches texts of similar length.
    """

    _encoder: SentenceEncoder = PrivateAttr()

    def __init__(self, encoder: SentenceEncoder, **fields: Any) -> None:
        super().__init__(**{"model_name": encoder.name, "embed_batch_size": 256, **fields})
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "SentenceEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._encoder.embed_documents(texts)

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._encoder.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await self._encoder.aembed_query(query)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await self._encoder.aembed_documents(texts)


def minilm(**options: Any) -> SentenceEmbedding:
    """Return all-MiniLM-L6-v2 from the ``offline`` extra as a LlamaIndex embedding model.

    The arguments are those of :func:`graph_retrievers.minilm`.

    Examples
    --------
    >>> from llama_index.core import VectorStoreIndex
    >>> index = VectorStoreIndex(nodes, embed_model=minilm())  # doctest: +SKIP
    """
    return SentenceEmbedding(minilm_encoder(**options))
