"""Vectors of LlamaIndex queries: computed when a retriever first asks for them, and stored back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import QueryBundle

from graph_retrievers.errors import MissingSignalError
from graph_retrievers.signals.embedding import Embedding, as_embedding

__all__ = ["QueryVectors", "default_embed_model"]


class QueryVectors:
    """Vectors of query bundles, asked for by the engine only if an operator reads them.

    A bundle's own ``embedding`` is used where it has one. Otherwise its ``custom_embedding_strs`` (or the query) are
    embedded, several strings by their mean as LlamaIndex does, and the vector is stored in the bundle for whatever
    reads it next.

    Parameters
    ----------
    bundles : sequence of QueryBundle, length B
    *models : object or None
        Embedding models in order of preference; the first that is not None is used, ``Settings.embed_model`` if
        there is none.
    """

    def __init__(self, bundles: Sequence[QueryBundle], *models: Any) -> None:
        self._bundles = list(bundles)
        self._models = models

    def __getitem__(self, part: slice) -> QueryVectors:
        """Return the vectors of some of the queries."""
        return QueryVectors(self._bundles[part], *self._models)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """Return one vector a text: list of sequences of length d. Texts other than the queries are embedded as they are."""
        if [text.strip() for text in texts] != [bundle.query_str.strip() for bundle in self._bundles]:
            return list(_embedded(self._model(), list(texts)))
        bare = [bundle for bundle in self._bundles if bundle.embedding is None]
        strings = [[s.strip() for s in bundle.custom_embedding_strs or [bundle.query_str]] for bundle in bare]
        if bare:
            flat = iter(_embedded(self._model(), [s for group in strings for s in group]))
            for bundle, group in zip(bare, strings, strict=True):
                bundle.embedding = np.mean([next(flat) for _ in group], axis=0).tolist()
        return [bundle.embedding for bundle in self._bundles]

    def _model(self) -> Embedding:
        chosen = next((model for model in self._models if model is not None), None)
        return as_embedding(chosen if chosen is not None else default_embed_model())


def _embedded(model: Embedding, strings: list[str]) -> list[np.ndarray]:
    if hasattr(model, "embed_queries"):
        return list(np.asarray(model.embed_queries(strings), dtype=np.float32))
    return [np.asarray(model.embed_query(s), dtype=np.float32) for s in strings]


def default_embed_model() -> Any:
    """Return ``Settings.embed_model``; MissingSignalError if there is none to be had."""
    from llama_index.core import Settings

    try:
        return Settings.embed_model
    except (ImportError, ValueError) as error:
        raise MissingSignalError(
            "Vectors are needed and no embedding model is at hand; pass embed_model= or set Settings.embed_model."
        ) from error
