"""Embedding models of other libraries, and models around another: with requests of a size, or with the vectors of a corpus kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import as_path, not_a_class, positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.embedding import (
    BatchedEmbedding,
    Embedding,
    EmbeddingWrapper,
    call_model,
    embed_queries,
    embed_texts,
    embedded_batches,
    is_missing,
    library_model,
    model_label,
    model_name,
    no_vector,
    wrapper_requests,
)
from graph_retrievers.signals.embedding_requests import Requests, requests_of
from graph_retrievers.signals.retries import Retries
from graph_retrievers.signals.sentence_encoder import load_embedding

__all__ = ["HostedEmbedding"]


@dataclass(frozen=True)
class _Adapted:
    """An embedding model of another library, whose `query` takes a list of texts."""

    embed_documents: Callable[..., Any]
    query: Callable[..., Any]
    name: str

    def embed_query(self, text: str) -> Any:
        vectors = self.query([text])
        try:
            (vector,) = vectors
        except (TypeError, ValueError) as error:
            raise no_vector(self, text, vectors) from error
        if is_missing(vector):
            raise no_vector(self, text, vector)
        return vector

    def embed_queries(self, texts: list[str]) -> Any:
        vectors = self.query(texts) if len(texts) > 1 else ()
        whole = hasattr(vectors, "__len__") and len(vectors) == len(texts) and not any(map(is_missing, vectors))
        # Embedded one by one, a text without a vector is named by the error.
        return vectors if whole else [self.embed_query(text) for text in texts]


@dataclass(frozen=True)
class _LlamaIndexModel:
    """An embedding model of LlamaIndex. Its methods cannot be pickled by themselves, the model can."""

    library_model: Any
    name: str
    # LlamaIndex compares vectors by their cosine.
    default_metric = "cosine"

    def embed_documents(self, texts: list[str]) -> Any:
        return self.library_model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> Any:
        return self.library_model.get_query_embedding(text)

    async def aembed_query(self, text: str) -> Any:
        return await self.library_model.aget_query_embedding(text)


def as_embedding(model: Any) -> Embedding:
    """Return `model` as an :class:`Embedding`; InvalidArgumentError if it is of none of the kinds below.

    It is a LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``, a sentence-transformers model, a :class:`SentenceEncoder`, or
    a callable from a list of n texts to an array of shape [n, d]. A name or folder is loaded with :func:`load_embedding`.
    """
    not_a_class("embedding", model)
    if getattr(model, "__name__", "") == "minilm":
        raise InvalidArgumentError("embedding is the function minilm; call it: embedding=minilm().")
    if isinstance(model, (str, Path)):
        return load_embedding(model)
    if hasattr(model, "embed_documents") and hasattr(model, "embed_query"):
        return model  # type: ignore[no-any-return]
    name = str(getattr(model, "model_name", "") or "")
    # LlamaIndex calls a model without a name "unknown".
    name = type(model).__name__ if name in ("", "unknown") else name
    if hasattr(model, "get_text_embedding_batch") and hasattr(model, "get_query_embedding"):
        return _LlamaIndexModel(model, name)
    if hasattr(model, "encode"):
        return _Adapted(model.encode, getattr(model, "encode_query", model.encode), name)
    if callable(model):
        return _Adapted(model, model, name)
    raise InvalidArgumentError(
        f"{type(model).__name__} is not an embedding model; pass an object with embed_documents and embed_query, with "
        "get_text_embedding_batch and get_query_embedding, with encode, or a callable from texts to vectors."
    )


class HostedEmbedding(EmbeddingWrapper):
    """An embedding model that is reached over a network, with the size of its requests, and how many are sent at a time.

    The vectors of documents are in the order of the texts, whichever request ends first. Models that look hosted (see
    :func:`~graph_retrievers.signals.embedding_requests.is_hosted`) are called with the defaults of this class; use it to change
    these, and for functions and for models that cannot be recognized. Its other methods are those of `model`.

    Parameters
    ----------
    model : object
        Embedding model, see :func:`as_embedding`. Several threads call it at a time.
    batch_size : int, optional
        Texts of a request. By default what the model names as ``embed_batch_size`` (LlamaIndex), ``chunk_size`` (OpenAI's model in
        LangChain) or ``batch_size``, else 32.
    max_concurrency : int, optional
        Requests at a time, of documents or of the questions of a call; fewer where the caller allows fewer. By default what the
        model names as ``num_workers`` (LlamaIndex) or ``max_concurrent_requests``, else 8 for documents, and for questions as many
        as the caller allows.
    max_retries : int, default 6
        How often a request is sent again after status 408, 429 or 5xx, a time-out or a lost connection; 0 for never. Pauses double
        from one second to one minute and respect ``Retry-After``; after ten minutes the error is raised. The clients of many
        services try again by themselves before that; set this number or theirs to 0 if the two together take too long.
    cache : bool, str or Path, optional
        Whether the vectors of a corpus are kept on disk as they come, in the user's cache folder or in another one, so that a
        build that fails goes on where it was. By default they are if they need more than one request; see
        :func:`~graph_retrievers.signals.vector_cache.embed_corpus`. The keyword ``cache`` of an index comes first.
    name : str, optional
        Name of the model; by default that of `model`. It identifies the model in the cache and in saved indexes.

    Examples
    --------
    >>> def service(texts):
    ...     return [[float(len(text))] for text in texts]
    >>> model = HostedEmbedding(service, batch_size=2, max_concurrency=4, name="lengths")
    >>> model.embed_documents(["a", "bb", "ccc"]).tolist()
    [[1.0], [2.0], [3.0]]
    """

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int | None = None,
        max_concurrency: int | None = None,
        max_retries: int | None = None,
        cache: bool | str | Path | None = None,
        name: str | None = None,
    ) -> None:
        self.model: Embedding = as_embedding(model)
        # The settings of one that is wrapped again stay.
        defaults = wrapper_requests(self.model) or requests_of(library_model(self.model), hosted=True)
        self.cache: bool | str | Path | None = cache
        if cache is None and isinstance(self.model, HostedEmbedding):
            self.cache = self.model.cache
        self.requests: Requests = Requests(
            defaults.batch_size if batch_size is None else positive("batch_size", batch_size),
            defaults.max_concurrency if max_concurrency is None else positive("max_concurrency", max_concurrency),
            defaults.max_retries if max_retries is None else positive("max_retries", max_retries, least=0),
            defaults.questions if max_concurrency is None else max_concurrency,
        )
        if cache is not None and not isinstance(cache, bool):
            as_path("cache", cache)
        self.name = model_name(self.model) if name is None else name
        if isinstance(self.model, HostedEmbedding):
            self.model = self.model.model

    def embed_documents(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts: Tensor, shape [n, d], float32."""
        return embed_texts(self, texts) if texts else torch.empty((0, 0))

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return Retries(self.requests.max_retries, model_label(self))(lambda: call_model(self, "embed_query", text))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model: its asynchronous methods, its metric, and so on."""
        if name == "model" or name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.model, name)
        return partial(embed_queries, self) if name == "embed_queries" else value

    def __repr__(self) -> str:
        """Return the name and the settings of requests."""
        settings = ("batch_size", "max_concurrency", "max_retries")
        return f"HostedEmbedding({self.name!r}, {', '.join(f'{name}={getattr(self.requests, name)}' for name in settings)})"


class CachedEmbedding(EmbeddingWrapper, BatchedEmbedding):
    """An embedding model that embeds each document once: it keeps the vectors of the last 100,000 texts."""

    def __init__(self, model: Any, limit: int = 100_000) -> None:
        self.model, self.limit = as_embedding(model), positive("limit", limit)
        self.name, self.default_metric = model_name(self.model), getattr(self.model, "default_metric", None)
        self._vectors: dict[str, Tensor] = {}

    def embed_documents(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts: Tensor, shape [n, d], float32."""
        by_row: dict[int, Tensor] = {}
        for rows, vectors in self.batches(texts):
            by_row |= zip(rows, vectors, strict=True)
        return torch.stack([by_row[row] for row in range(len(texts))]) if texts else torch.empty((0, 0))

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the numbers of some texts and their vectors, [b, d]: those that are known first, then as they are embedded."""
        values = [self._vectors.get(text) for text in texts]
        table = {row: vector for row, vector in enumerate(values) if vector is not None}
        rows_of: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            if row not in table:
                rows_of.setdefault(text, []).append(row)
        if table:
            yield list(table), torch.stack(list(table.values()))
        new = list(rows_of)
        for numbers, vectors in embedded_batches(self.model, new) if new else ():
            self._vectors |= {new[number]: vector for number, vector in zip(numbers, vectors, strict=True)}
            places = [(row, place) for place, number in enumerate(numbers) for row in rows_of[new[number]]]
            yield [row for row, _ in places], vectors[[place for _, place in places]]
        for oldest in list(self._vectors)[: max(0, len(self._vectors) - self.limit)]:
            self._vectors.pop(oldest, None)

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.model.embed_query(text)
