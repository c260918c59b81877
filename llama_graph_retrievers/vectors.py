"""Vectors of LlamaIndex nodes and queries; those of queries are computed when first needed, and stored in the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import Settings
from llama_index.core.schema import BaseNode, MetadataMode, QueryBundle
from torch import Tensor

from graph_retrievers.arguments import call_function
from graph_retrievers.construction.documents import document_vectors
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.signals.embedding import Embedding, aembed_queries, awaits_queries, embed_queries
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.signals.vectors import check_vectors, unit_vectors


class QueryVectors:
    """Vectors of B query bundles, computed only if they are read: a callable, and array-like of shape [B, d].

    Bundles without an ``embedding`` get that of their query, or as in LlamaIndex the mean of their ``custom_embedding_strs``.
    With `unit`, vectors are scaled to unit length; those in the bundles are not.
    """

    def __init__(self, bundles: Sequence[QueryBundle], model: Any = None, *, unit: bool = False) -> None:
        self._bundles, self._embed_model, self._unit = list(bundles), model, unit

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self._bundles)

    def __getitem__(self, part: Any) -> Any:
        """Return the vectors of the queries of a slice or at a list of places, or the vector of one."""
        if not isinstance(part, (list, slice)):
            return self[[part]]._vectors()[0]
        places = part if isinstance(part, list) else range(len(self))[part]
        return QueryVectors([self._bundles[place] for place in places], self._embed_model, unit=self._unit)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return the vectors of all queries, shape [B, d]."""
        return np.array(self._vectors(), dtype=dtype)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """Return one vector per text: list of sequences of length d. Texts other than the queries are embedded unchanged."""
        if [text.strip() for text in texts] != [bundle.query_str.strip() for bundle in self._bundles]:
            return list(embed_queries(self._model(), texts).numpy())
        return self._vectors()

    async def ready(self) -> None:
        """Await the vectors, several at a time, if the model can be awaited; another embeds them when they are read."""
        # An empty question needs no vector: the search answers it with a note.
        bare = [(bundle, group) for bundle, group in self._bundles_to_embed() if all(group)]
        if bare and awaits_queries(model := self._model()):
            self._keep(bare, await aembed_queries(model, [s for _, group in bare for s in group]))

    def _vectors(self) -> list[Any]:
        if bare := self._bundles_to_embed():
            self._keep(bare, embed_queries(self._model(), [s for _, group in bare for s in group]))
        vectors = [bundle.embedding for bundle in self._bundles]
        return list(unit_vectors(check_vectors(vectors, name="query vectors")).numpy()) if self._unit else vectors

    def _bundles_to_embed(self) -> list[tuple[QueryBundle, list[str]]]:
        """Return the bundles without a vector, each with its strings."""
        bundles = [bundle for bundle in self._bundles if bundle.embedding is None]
        return [(bundle, [s.strip() for s in bundle.custom_embedding_strs or [bundle.query_str]]) for bundle in bundles]

    def _keep(self, bare: list[tuple[QueryBundle, list[str]]], vectors: Tensor) -> None:
        """Store in each bundle the mean of the vectors of its strings."""
        parts = vectors.split([len(group) for _, group in bare])
        for (bundle, _), part in zip(bare, parts, strict=True):
            bundle.embedding = np.mean(part.numpy(), axis=0).tolist()

    def _model(self) -> Embedding:
        return as_embedding(default_embed_model() if self._embed_model is None else self._embed_model)


def node_vectors(
    nodes: Sequence[BaseNode], embed_model: Any, show_progress: bool = False, *, cache: bool | None = False, unit: bool = True
) -> Tensor:
    """Return one unit vector per node, float32, shape [n, d]: its own ``embedding``, or its content's (``MetadataMode.EMBED``).

    Without `unit`, they keep their lengths. `embed_model`, or ``Settings.embed_model`` if None, embeds only nodes without a vector.
    `cache` is as for :func:`graph_retrievers.signals.vector_cache.embed_corpus`.
    """

    def embed(places: list[int]) -> Tensor:
        model = as_embedding(embed_model if embed_model is not None else default_embed_model())
        # Metadata nested too deeply have no text.
        texts = [call_function(f"Node {place}", nodes[place].get_content, MetadataMode.EMBED) for place in places]
        return embed_corpus(model, texts, cache, show_progress)

    vectors = document_vectors(nodes, embed, unit=unit)
    assert vectors is not None
    return vectors


def default_embed_model() -> Any:
    """Return ``Settings.embed_model``; raises MissingSignalError if there is none."""
    try:
        return Settings.embed_model
    except (ImportError, ValueError) as error:
        raise MissingSignalError(
            "Vectors are needed and no embedding model is at hand; pass embed_model= or set Settings.embed_model."
        ) from error
