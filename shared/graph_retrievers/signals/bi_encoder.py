"""The relevance of texts by their vectors, where there is no cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graph_retrievers.errors import MissingSignalError
from graph_retrievers.signals.embedding import Embedding, embed_queries
from graph_retrievers.signals.relevance import RelevanceModel, check_pairs
from graph_retrievers.signals.vectors import check_vectors


class BiEncoder(RelevanceModel):
    r"""The dot product of query and node vectors, used without a cross-encoder.

    The latent is the dot product :math:`v_q \cdot v_n` itself, of width 1. As the dot product is linear in the node vector, mixing
    these latents along edges gives the dot product of the query with the mixed node vectors. `embedding` embeds texts; it is not
    needed if the index has the vectors.
    """

    name = "bi-encoder"

    def __init__(self, embedding: Embedding | None = None) -> None:
        self.embedding = embedding

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        """Whether there is a model that embeds texts."""
        return self.embedding is not None

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the dot product of each pair: Tensor, shape [n, 1]."""
        check_pairs(queries, texts)
        if self.embedding is None:
            raise MissingSignalError("This bi-encoder has no embedding model to embed texts with; pass embedding=.")
        if not texts:
            return torch.empty((0, 1))
        distinct = {q: i for i, q in enumerate(dict.fromkeys(queries))}
        vectors = embed_queries(self.embedding, list(distinct))
        nodes = check_vectors(self.embedding.embed_documents(list(texts)), len(texts))
        return (vectors[[distinct[q] for q in queries]] * nodes).sum(-1, keepdim=True)

    def score(self, latent: Tensor) -> Tensor:
        """Return the one entry of each latent: Tensor, shape [n]."""
        return latent[..., 0]
