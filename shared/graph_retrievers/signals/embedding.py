"""Embedding models: the interface, adapters for models of other libraries, and checks of vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from graph_retrievers.arguments import as_path, not_a_class, positive
from graph_retrievers.cache import Same
from graph_retrievers.concurrency import called, concurrently, most_calls
from graph_retrievers.errors import DimensionMismatchError, EmbeddingError, InvalidArgumentError, InvalidVectorError, shown
from graph_retrievers.graph.plain import check_text
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.embedding_requests import Requests, is_hosted, requests_of, send
from graph_retrievers.signals.retries import Retries, is_transient
from graph_retrievers.signals.sentence_encoder import SentenceEncoder, load_embedding, minilm
from graph_retrievers.signals.vectors import check_vectors

logger = logging.getLogger(__name__)

__all__ = ["Embedding", "HostedEmbedding", "SentenceEncoder", "embed_queries", "hosted", "minilm"]


@runtime_checkable
class Embedding(Protocol):
    """The interface that the package needs of an embedding model.

    Two more methods are used where a model has them: ``aembed_query``, a coroutine function that returns what :meth:`embed_query`
    returns, and ``embed_queries``, which takes n queries and returns vectors of shape [n, d].
    """

    def embed_documents(self, texts: list[str]) -> Any:
        """Return vectors of documents, array-like of shape [n, d]."""

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query, array-like of shape [d]."""


@dataclass(frozen=True)
class _Adapted:
    """An embedding model of another library, whose `query` takes a list of texts."""

    embed_documents: Callable[..., Any]
    query: Callable[..., Any]
    name: str

    def embed_query(self, text: str) -> Any:
        found = self.query([text])
        try:
            (vector,) = found
        except (TypeError, ValueError) as error:
            raise _no_vector(self, text, found) from error
        return vector

    def embed_queries(self, texts: list[str]) -> Any:
        found = self.query(texts) if len(texts) > 1 else ()
        whole = hasattr(found, "__len__") and len(found) == len(texts) and not any(map(_is_missing, found))
        # One by one, an error names the text that has no vector.
        return found if whole else [self.embed_query(text) for text in texts]


@dataclass(frozen=True)
class _LlamaIndexModel:
    """An embedding model of LlamaIndex. Its methods cannot be pickled by themselves, the model can."""

    model: Any
    name: str
    # As LlamaIndex compares vectors.
    default_metric = "cosine"

    def embed_documents(self, texts: list[str]) -> Any:
        return self.model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> Any:
        return self.model.get_query_embedding(text)

    async def aembed_query(self, text: str) -> Any:
        return await self.model.aget_query_embedding(text)


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
    # What LlamaIndex calls a model without a name.
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


def model_name(model: Any) -> str:
    """Return the name of an embedding model: its ``name`` or ``model``, else that of its class; "" for None.

    >>> model_name(None), model_name(object())
    ('', 'object')
    """
    return "" if model is None else str(getattr(model, "name", getattr(model, "model", type(model).__name__)))


def described_model(model: Any) -> tuple[Any, int | None, str]:
    """Return the model that a wrapper holds, the tokens that it reads of a text if they are known, and its name for people.

    >>> described_model(None)
    (None, None, '')
    """
    # The names in sentence-transformers, LangChain's wrapper of it, and this package.
    held = getattr(model, "client", None) or getattr(model, "_client", None) or model
    limit = getattr(held, "max_length", None) or getattr(held, "max_seq_length", None)
    precision, name = getattr(held, "precision", ""), model_name(model)
    named = f"{name} in {precision}" if isinstance(precision, str) and precision else name
    return held, limit if isinstance(limit, int) else None, named


def embed_queries(model: Embedding, texts: Sequence[str], width: int | None = None, name: str = "query vectors") -> Tensor:
    """Return checked vectors of queries: Tensor, shape [n, d], float32. Equal queries are embedded once.

    ``model.embed_queries`` is called if there is one: once, or by a hosted model for the texts of each request. Otherwise
    ``embed_query`` is called in threads, for several queries at the same time: as many as the caller
    (:func:`~graph_retrievers.concurrency.at_most`) and the model allow. ``embed_documents`` is not, because many models embed
    queries in another way. Where ``embed_query`` is not implemented, ``aembed_query`` is awaited. A call that fails with an error
    that passes is made again, as for documents. Raises InvalidArgumentError if a text is not valid Unicode.
    """
    distinct, known = _distinct(texts), _answers(model)
    new = [text for text in distinct if text not in known]
    embed = _of_lists(model)

    def ask(part: list[str]) -> Tensor:
        if embed is not None:
            return _counted(model, embed(part), len(part), width, name)
        with _refused(known, part[0]):
            return _row(model, part[0], _asked(model, "embed_query", part[0]), width, name)

    if len(new) == 1:
        # Alone it is a request, however many texts the model takes in one.
        (known[new[0]],) = Retries(_repetitions(model), _told(model))(partial(ask, new))
    elif new:
        requests = requests_for(model)
        if embed is None:
            requests = requests._replace(batch_size=1, max_concurrency=requests.questions or most_calls())
        elif not hosted(model):
            requests = requests._replace(batch_size=len(new), max_concurrency=1)
        for places, vectors in send(ask, new, requests, _told(model)):
            known.update(zip((new[place] for place in places), vectors, strict=True))
    return _table([known[text] for text in distinct], distinct, texts, width, name)


async def aembed_queries(model: Embedding, texts: Sequence[str], width: int | None = None, name: str = "query vectors") -> Tensor:
    """Return what :func:`embed_queries` returns, from ``model.aembed_query``, awaited for several queries at a time.

    A model without it, or with ``embed_queries``, embeds them in a thread.
    """
    if not awaits_queries(model):
        return await asyncio.to_thread(embed_queries, model, texts, width, name)
    distinct, known = _distinct(texts), _answers(model)
    new = [text for text in distinct if text not in known]
    requests, inner = requests_for(model), _inner(model)
    retries = Retries(requests.max_retries, _told(model))

    async def embed(text: str) -> Any:
        try:
            return await inner.aembed_query(text)
        except asyncio.CancelledError as error:
            # Of this task, or of the model's own.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise _cancelled(model) from error

    async def ask(text: str) -> None:
        with _refused(known, text):
            known[text] = _row(model, text, await retries.awaited(partial(embed, text)), width, name)[0]

    failed: list[Exception] = []

    async def settled(text: str) -> None:
        try:
            await ask(text)
        except Exception as error:
            failed.append(error)

    # Who asks again what failed needs the others, which otherwise are cancelled.
    call = ask if _ANSWERS.get() is None else settled
    await concurrently(call, new, min(most_calls(), requests.questions or len(new) or 1))
    if failed:
        raise failed[0]
    return _table([known[text] for text in distinct], distinct, texts, width, name)


_ANSWERS: ContextVar[dict[Same, dict[str, Any]] | None] = ContextVar("vectors and errors of queries", default=None)


@contextmanager
def each_query_once() -> Iterator[None]:
    """Send no query again inside that a model has embedded or refused, for who asks one by one again what failed together.

    >>> asked = []
    >>> model = as_embedding(lambda texts: asked.append(texts) or [[1.0]] * len(texts))
    >>> with each_query_once():
    ...     _ = embed_queries(model, ["loom", "card"]), embed_queries(model, ["loom"])
    >>> asked
    [['loom', 'card']]
    """
    token = _ANSWERS.set({})
    try:
        yield
    finally:
        _ANSWERS.reset(token)


def _answers(model: Any) -> dict[str, Any]:
    """Return the vectors and the errors of queries that are known, to which others are added."""
    kept = _ANSWERS.get()
    return {} if kept is None else kept.setdefault(Same(model), {})


@contextmanager
def _refused(known: dict[str, Any], text: str) -> Iterator[None]:
    """Keep the error with which a model refuses a query, unless another attempt may help."""
    try:
        yield
    except Exception as error:
        if not is_transient(error):
            known[text] = error
        raise


def takes_lists(model: Any) -> bool:
    """Return whether a model embeds many queries in one call, as those do that compute in this process."""
    return _of_lists(model) is not None


def awaits_queries(model: Any) -> bool:
    """Return whether :func:`aembed_queries` embeds queries where the caller can await; lists are left to the thread of a search."""
    return hasattr(model, "aembed_query") and not takes_lists(model)


def _of_lists(model: Any) -> Callable[[list[str]], Any] | None:
    return getattr(_inner(model), "embed_queries", None)


def _inner(model: Any) -> Any:
    """Return the model itself, whose calls are neither kept nor repeated."""
    while isinstance(model, (CachedEmbedding, HostedEmbedding)):
        model = model.model
    return model


def _name(model: Any) -> str:
    return str(getattr(model, "name", type(model).__name__))


def _told(model: Any) -> str:
    return f"The embedding model {_name(model)!r}"


def _distinct(texts: Sequence[str]) -> list[str]:
    for text in texts:
        # Tokenizers refuse the half of a surrogate pair, each in its own way.
        check_text(text, "a query")
    return list(dict.fromkeys(texts))


def _asked(model: Any, method: str, given: Any) -> Any:
    """Return what a method of a model returns for a text or a list; one that can only be awaited is awaited."""
    inner = _inner(model)
    try:
        return called(getattr(inner, method), getattr(inner, f"a{method}", None), given)
    except (asyncio.CancelledError, CancelledError) as error:
        # What it means is that the task of the caller ends, which it does not.
        raise _cancelled(model) from error


def _cancelled(model: Any) -> EmbeddingError:
    return EmbeddingError(f"{_told(model)} cancelled its own request; see what its client says of time-outs.")


def _row(model: Any, text: str, found: Any, width: int | None, name: str) -> Tensor:
    """Return the checked vector of a text, as its model gave it: Tensor, shape [1, d]."""
    if _is_missing(found):
        raise _no_vector(model, text, found)
    return check_vectors(found.detach().cpu().unsqueeze(0) if isinstance(found, Tensor) else [found], 1, width, name)


def _table(found: list[Any], distinct: list[str], texts: Sequence[str], width: int | None, name: str) -> Tensor:
    """Return the vectors of texts from what is known of the distinct ones; raise the first error."""
    for vector in found:
        if isinstance(vector, Exception):
            raise vector
        if len(vector) != (wide := len(found[0]) if width is None else width):
            check_vectors(vector.unsqueeze(0), 1, wide, name)
    if not found:
        return torch.empty((0, width or 0))
    if len(distinct) < len(texts):
        row_of = {text: row for row, text in enumerate(distinct)}
        found = [found[row_of[text]] for text in texts]
    return torch.stack(found)


def _counted(model: Any, vectors: Any, count: int, width: int | None = None, name: str = "vectors") -> Tensor:
    """Return the checked vectors of texts, one for each; the error names the model, and why it may have given another number."""
    try:
        return check_vectors(vectors, count, width, name)
    except DimensionMismatchError as error:
        if hasattr(vectors, "__len__") and getattr(vectors, "ndim", 1) > 0 and len(vectors) == count:
            raise
        raise DimensionMismatchError(
            f"{_told(model)} did not give one vector for each of {count} texts: {error} If it leaves out texts, such as empty or "
            "too long ones, take them away; if it takes fewer texts in a request, pass HostedEmbedding(model, batch_size=...)."
        ) from error


def _is_missing(vector: Any) -> bool:
    # Numbers of arrays have a length that cannot be asked for.
    return vector is None or (getattr(vector, "ndim", 1) > 0 and hasattr(vector, "__len__") and not len(vector))


def _no_vector(model: Any, text: str, found: Any) -> InvalidVectorError:
    told = f"{_told(model)} gave {shown(found)} for the query {shown(text)}"
    return InvalidVectorError(f"{told}; expected one vector, a list of numbers. See that the model answers.")


def embed_texts(model: Embedding, texts: list[str], show_progress: bool = False, told: bool = True) -> Tensor:
    """Return checked vectors of texts: Tensor, shape [n, d], float32; see :func:`embedded_batches`."""
    return _in_order(embedded_batches(model, texts, show_progress, told=told), len(texts))


def _in_order(batches: Iterator[tuple[list[int], Any]], count: int) -> Tensor:
    """Return the vectors of `count` texts from the numbers of some and their vectors, in any order."""
    rows: list[int] = []
    parts: list[Tensor] = []
    for batch, vectors in batches:
        rows += batch
        parts.append(check_vectors(vectors, len(batch), parts[0].shape[1] if parts else None))
    vectors = check_vectors(torch.cat(parts), count)
    return torch.empty_like(vectors).index_copy_(0, torch.tensor(rows, device=vectors.device), vectors)


def embedded_batches(
    model: Embedding, texts: Sequence[str], show_progress: bool = False, done: int = 0, told: bool = True, first: int = 0
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the numbers of some texts and their checked vectors, [b, d], until all n are embedded.

    Batches are small, so that the progress bar moves every few seconds: for a :class:`SentenceEncoder` those of
    :meth:`SentenceEncoder.batches`, for other models those of :func:`requests_for`, in the order in which requests end. A request
    that fails with an error that passes is sent again, see :class:`~graph_retrievers.signals.retries.Retries`. `done` is the number
    of texts that were embedded before. The number of texts is logged once, if `told`. The `first` texts are
    a request by themselves.
    """
    if told and not isinstance(model, CachedEmbedding):
        logger.info("Embedding %d texts with %s.", len(texts), _name(model))
    with progress_bar(total=done + len(texts), initial=done, desc="embedding", unit="text", disable=not show_progress) as bar:
        for rows, vectors in _batches(model, texts, first):
            yield rows, _counted(model, vectors, len(rows))
            bar.update(len(rows))


def _batches(model: Embedding, texts: Sequence[str], first: int) -> Iterator[tuple[list[int], Any]]:
    if isinstance(model, (SentenceEncoder, CachedEmbedding)):
        yield from model.batches(texts)
        return
    yield from send(lambda part: _asked(model, "embed_documents", part), texts, requests_for(model), _told(model), first)


def hosted(model: Any) -> bool:
    """Return whether a model is called over a network: a :class:`HostedEmbedding`, or one that looks like it.

    See :func:`~graph_retrievers.signals.embedding_requests.is_hosted`. Models by name or folder, sentence-transformers models and
    functions are local.
    """
    model = model.model if isinstance(model, CachedEmbedding) else model
    return isinstance(model, HostedEmbedding) or is_hosted(_bare(model))


def requests_for(model: Any) -> Requests:
    """Return how documents are sent to a model: the settings of a :class:`HostedEmbedding`, else what the model itself says.

    See :func:`~graph_retrievers.signals.embedding_requests.requests_of`.
    """
    model = model.model if isinstance(model, CachedEmbedding) else model
    return model.requests if isinstance(model, HostedEmbedding) else requests_of(_bare(model), hosted(model))


def _repetitions(model: Any) -> int:
    """Return how often a request that fails is sent again."""
    model = model.model if isinstance(model, CachedEmbedding) else model
    return model.requests.max_retries if isinstance(model, HostedEmbedding) else Requests().max_retries


def _bare(model: Any) -> Any:
    """Return the model of another library inside an adapter."""
    return model.model if isinstance(model, _LlamaIndexModel) else model


class HostedEmbedding:
    """An embedding model behind a network, with the size of its requests, and how many are sent at a time.

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
        self.cache, known = cache, requests_of(_bare(self.model), hosted=True)
        # The settings of one that is wrapped again stay.
        if isinstance(self.model, HostedEmbedding):
            known, self.cache = self.model.requests, self.model.cache if cache is None else cache
        self.requests: Requests = Requests(
            known.batch_size if batch_size is None else positive("batch_size", batch_size),
            known.max_concurrency if max_concurrency is None else positive("max_concurrency", max_concurrency),
            known.max_retries if max_retries is None else positive("max_retries", max_retries, least=0),
            known.questions if max_concurrency is None else max_concurrency,
        )
        if cache is not None and not isinstance(cache, bool):
            as_path("cache", cache)
        self.name = _name(self.model) if name is None else name
        if isinstance(self.model, HostedEmbedding):
            self.model = self.model.model

    def embed_documents(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts: Tensor, shape [n, d], float32."""
        return embed_texts(self, texts) if texts else torch.empty((0, 0))

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return Retries(self.requests.max_retries, _told(self))(lambda: _asked(self, "embed_query", text))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model: its asynchronous methods, its metric, and so on."""
        if name == "model" or name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.model, name)
        return partial(embed_queries, self) if name == "embed_queries" else found

    def __repr__(self) -> str:
        """Return the name and the settings of requests."""
        settings = ("batch_size", "max_concurrency", "max_retries")
        return f"HostedEmbedding({self.name!r}, {', '.join(f'{name}={getattr(self.requests, name)}' for name in settings)})"


class CachedEmbedding:
    """An embedding model that embeds each document once: it keeps the vectors of the last 100,000 texts."""

    def __init__(self, model: Any, limit: int = 100_000) -> None:
        self.model, self.limit = as_embedding(model), positive("limit", limit)
        self.name = _name(self.model)
        self._vectors: dict[str, Tensor] = {}

    def embed_documents(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts: Tensor, shape [n, d], float32."""
        made: dict[int, Tensor] = {}
        for rows, vectors in self.batches(texts):
            made |= zip(rows, vectors, strict=True)
        return torch.stack([made[row] for row in range(len(texts))]) if texts else torch.empty((0, 0))

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the numbers of some texts and their vectors, [b, d]: those that are known first, then as they are embedded."""
        found = [self._vectors.get(text) for text in texts]
        known = {row: vector for row, vector in enumerate(found) if vector is not None}
        missing: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            if row not in known:
                missing.setdefault(text, []).append(row)
        if known:
            yield list(known), torch.stack(list(known.values()))
        new = list(missing)
        for numbers, vectors in embedded_batches(self.model, new) if new else ():
            self._vectors |= {new[number]: vector for number, vector in zip(numbers, vectors, strict=True)}
            places = [(row, place) for place, number in enumerate(numbers) for row in missing[new[number]]]
            yield [row for row, _ in places], vectors[[place for _, place in places]]
        for oldest in list(self._vectors)[: max(0, len(self._vectors) - self.limit)]:
            self._vectors.pop(oldest, None)

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.model.embed_query(text)
