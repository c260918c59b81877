"""Embedding models: the interface, and their vectors of texts and queries, checked."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from graph_retrievers.cache import Identity
from graph_retrievers.concurrency import call_or_await, concurrently, most_calls
from graph_retrievers.errors import DimensionMismatchError, EmbeddingError, InvalidVectorError, shown
from graph_retrievers.graph.plain import check_text
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.embedding_requests import Requests, is_hosted, requests_of, send
from graph_retrievers.signals.retries import Retries, is_transient
from graph_retrievers.signals.vectors import check_vectors

logger = logging.getLogger(__name__)

__all__ = ["Embedding", "embed_queries", "hosted"]


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


class EmbeddingWrapper(ABC):
    """An embedding model that calls another one: an abstract class.

    Attributes
    ----------
    model : Embedding
    requests : Requests or None
        How texts are sent to the model; None if the model itself says so.
    """

    model: Embedding
    requests: Requests | None = None


class BatchedEmbedding(ABC):
    """An embedding model that cuts texts into batches itself: an abstract class."""

    @abstractmethod
    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the numbers of some texts and their vectors, shape [b, d], until all n texts are embedded."""


def model_name(model: Any) -> str:
    """Return the name of an embedding model: its ``name`` or ``model``, if that is a string, else its class; "" for None.

    >>> model_name(None), model_name(object())
    ('', 'object')
    """
    if model is None:
        return ""
    for attribute in ("name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def described_model(model: Any) -> tuple[Any, int | None, str]:
    """Return the model that a wrapper holds, the tokens that it reads of a text if they are known, and its name for people.

    >>> described_model(None)
    (None, None, '')
    """
    # The names in sentence-transformers, LangChain's wrapper of it, and this package.
    inner = getattr(model, "client", None) or getattr(model, "_client", None) or model
    limit = getattr(inner, "max_length", None) or getattr(inner, "max_seq_length", None)
    precision, name = getattr(inner, "precision", ""), model_name(model)
    label = f"{name} in {precision}" if isinstance(precision, str) and precision else name
    return inner, limit if isinstance(limit, int) else None, label


def embed_queries(model: Embedding, texts: Sequence[str], width: int | None = None, name: str = "query vectors") -> Tensor:
    """Return checked vectors of queries: Tensor, shape [n, d], float32. Equal queries are embedded once.

    ``model.embed_queries`` is called if there is one: once, or by a hosted model for the texts of each request. Otherwise
    ``embed_query`` is called in threads, for several queries at the same time: as many as the caller
    (:func:`~graph_retrievers.concurrency.at_most`) and the model allow. ``embed_documents`` is not, because many models embed
    queries in another way. Where ``embed_query`` is not implemented, ``aembed_query`` is awaited. A call that fails with an error
    that passes is made again, as for documents. Raises InvalidArgumentError if a text is not valid Unicode.
    """
    answers, new = _known_and_new(model, texts)
    embed = getattr(_inner(model), "embed_queries", None)

    def ask(part: list[str]) -> Tensor:
        if embed is not None:
            return _counted(model, embed(part), len(part), width, name)
        with _keep_error(answers, part[0]):
            return _row(model, part[0], call_model(model, "embed_query", part[0]), width, name)

    if len(new) == 1:
        # Alone it is a request, however many texts the model takes in one.
        (answers[new[0]],) = Retries((wrapper_requests(model) or Requests()).max_retries, model_label(model))(partial(ask, new))
    elif new:
        requests = requests_for(model)
        if embed is None:
            requests = requests._replace(batch_size=1, max_concurrency=requests.questions or most_calls())
        elif not hosted(model):
            requests = requests._replace(batch_size=len(new), max_concurrency=1)
        for places, vectors in send(ask, new, requests, model_label(model)):
            answers.update(zip((new[place] for place in places), vectors, strict=True))
    return _table([answers[text] for text in texts], width, name)


async def aembed_queries(model: Embedding, texts: Sequence[str], width: int | None = None, name: str = "query vectors") -> Tensor:
    """Return what :func:`embed_queries` returns, from ``model.aembed_query``, awaited for several queries at a time.

    A model without it, or with ``embed_queries``, embeds them in a thread.
    """
    if not awaits_queries(model):
        return await asyncio.to_thread(embed_queries, model, texts, width, name)
    answers, new = _known_and_new(model, texts)
    requests, inner = requests_for(model), _inner(model)
    retries = Retries(requests.max_retries, model_label(model))

    async def embed(text: str) -> Any:
        try:
            return await inner.aembed_query(text)
        except asyncio.CancelledError as error:
            # Either this task was cancelled, or one of the model's own.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise _cancelled(model) from error

    async def ask(text: str) -> None:
        with _keep_error(answers, text):
            answers[text] = _row(model, text, await retries.call_async(partial(embed, text)), width, name)[0]

    errors: list[Exception] = []

    async def ask_quietly(text: str) -> None:
        try:
            await ask(text)
        except Exception as error:
            errors.append(error)

    # A caller that keeps answers asks again only for what failed; without `ask_quietly`, an error cancels the other requests.
    call = ask if _ANSWERS.get() is None else ask_quietly
    await concurrently(call, new, min(most_calls(), requests.questions or len(new) or 1))
    if errors:
        raise errors[0]
    return _table([answers[text] for text in texts], width, name)


_ANSWERS: ContextVar[dict[Identity, dict[str, Any]] | None] = ContextVar("vectors and errors of queries", default=None)


@contextmanager
def each_query_once() -> Iterator[None]:
    """Send no query again inside that a model has embedded or refused, for who asks one by one again what failed together.

    >>> from graph_retrievers.signals.embedding_models import as_embedding
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


def _known_and_new(model: Any, texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the vectors and the errors of queries that are known, to which others are added, and the other queries, each once."""
    for text in texts:
        # Tokenizers refuse the half of a surrogate pair, each in its own way.
        check_text(text, "a query")
    caches = _ANSWERS.get()
    answers: dict[str, Any] = {} if caches is None else caches.setdefault(Identity(model), {})
    return answers, [text for text in dict.fromkeys(texts) if text not in answers]


@contextmanager
def _keep_error(answers: dict[str, Any], text: str) -> Iterator[None]:
    """Keep the error with which a model refuses a query, unless another attempt may help."""
    try:
        yield
    except Exception as error:
        if not is_transient(error):
            answers[text] = error
        raise


def takes_lists(model: Any) -> bool:
    """Return whether a model embeds many queries in one call, as those do that compute in this process."""
    return getattr(_inner(model), "embed_queries", None) is not None


def awaits_queries(model: Any) -> bool:
    """Return whether :func:`aembed_queries` embeds queries where the caller can await; lists are left to the thread of a search."""
    return hasattr(model, "aembed_query") and not takes_lists(model)


def _inner(model: Any) -> Any:
    """Return the model itself, whose calls are neither kept nor repeated."""
    while isinstance(model, EmbeddingWrapper):
        model = model.model
    return model


def model_label(model: Any) -> str:
    """Return a model as messages name it.

    >>> model_label(object())
    "The embedding model 'object'"
    """
    return f"The embedding model {model_name(model)!r}"


def call_model(model: Any, method: str, argument: Any) -> Any:
    """Return what a method of a model returns for a text or a list; one that can only be awaited is awaited."""
    inner = _inner(model)
    try:
        return call_or_await(getattr(inner, method), getattr(inner, f"a{method}", None), argument)
    except (asyncio.CancelledError, CancelledError) as error:
        # This error would mean that the caller's task was cancelled, which it was not.
        raise _cancelled(model) from error


def _cancelled(model: Any) -> EmbeddingError:
    return EmbeddingError(f"{model_label(model)} cancelled its own request; see what its client says of time-outs.")


def _row(model: Any, text: str, vector: Any, width: int | None, name: str) -> Tensor:
    """Return the checked vector of a text, as its model gave it: Tensor, shape [1, d]."""
    if is_missing(vector):
        raise no_vector(model, text, vector)
    return check_vectors(vector.detach().cpu().unsqueeze(0) if isinstance(vector, Tensor) else [vector], 1, width, name)


def _table(vectors: list[Any], width: int | None, name: str) -> Tensor:
    """Return vectors of texts as one table; raise the first error among them."""
    for vector in vectors:
        if isinstance(vector, Exception):
            raise vector
        if len(vector) != (expected := len(vectors[0]) if width is None else width):
            check_vectors(vector.unsqueeze(0), 1, expected, name)
    return torch.stack(vectors) if vectors else torch.empty((0, width or 0))


def _counted(model: Any, vectors: Any, count: int, width: int | None = None, name: str = "vectors") -> Tensor:
    """Return the checked vectors of texts, one for each; the error names the model, and why it may have given another number."""
    try:
        return check_vectors(vectors, count, width, name)
    except DimensionMismatchError as error:
        if hasattr(vectors, "__len__") and getattr(vectors, "ndim", 1) > 0 and len(vectors) == count:
            raise
        raise DimensionMismatchError(
            f"{model_label(model)} did not give one vector for each of {count} texts: {error} If it leaves out texts, such as "
            "empty or too long ones, take them away; if it takes fewer texts in a request, pass "
            "HostedEmbedding(model, batch_size=...)."
        ) from error


def is_missing(vector: Any) -> bool:
    """Return whether a model gave nothing in place of a vector: None, or a list without numbers."""
    # Numbers of arrays have a length that cannot be asked for.
    return vector is None or (getattr(vector, "ndim", 1) > 0 and hasattr(vector, "__len__") and not len(vector))


def no_vector(model: Any, text: str, answer: Any) -> InvalidVectorError:
    """Return the error for a query for which a model gave no vector, but this `answer`."""
    message = f"{model_label(model)} gave {shown(answer)} for the query {shown(text)}"
    return InvalidVectorError(f"{message}; expected one vector, a list of numbers. See that the model answers.")


def embed_texts(model: Embedding, texts: list[str], show_progress: bool = False, announce: bool = True) -> Tensor:
    """Return checked vectors of texts: Tensor, shape [n, d], float32; see :func:`embedded_batches`."""
    return _in_order(embedded_batches(model, texts, show_progress, announce=announce), len(texts))


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
    model: Embedding, texts: Sequence[str], show_progress: bool = False, done: int = 0, announce: bool = True, first: int = 0
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the numbers of some texts and their checked vectors, [b, d], until all n are embedded.

    Batches are small, so that the progress bar moves every few seconds: those of a :class:`BatchedEmbedding`, and for other models
    those of :func:`requests_for`, in the order in which requests end. A request that fails with an error that passes is sent again,
    see :class:`~graph_retrievers.signals.retries.Retries`. `done` is the number of texts that were embedded before. The number of
    texts is logged once, if `announce`. The `first` texts are a request by themselves.
    """
    # A wrapper with batches of its own embeds some of the texts by this function, which logs these.
    if announce and not (isinstance(model, EmbeddingWrapper) and isinstance(model, BatchedEmbedding)):
        logger.info("Embedding %d texts with %s.", len(texts), model_name(model))
    with progress_bar(total=done + len(texts), initial=done, desc="embedding", unit="text", disable=not show_progress) as bar:
        for rows, vectors in _batches(model, texts, first):
            yield rows, _counted(model, vectors, len(rows))
            bar.update(len(rows))


def _batches(model: Embedding, texts: Sequence[str], first: int) -> Iterator[tuple[list[int], Any]]:
    if isinstance(model, BatchedEmbedding):
        yield from model.batches(texts)
        return
    yield from send(lambda part: call_model(model, "embed_documents", part), texts, requests_for(model), model_label(model), first)


def hosted(model: Any) -> bool:
    """Return whether a model is called over a network: a ``HostedEmbedding``, or one that looks like it.

    See :func:`~graph_retrievers.signals.embedding_requests.is_hosted`. Models by name or folder, sentence-transformers models and
    functions are local.
    """
    return wrapper_requests(model) is not None or is_hosted(library_model(model))


def requests_for(model: Any) -> Requests:
    """Return how documents are sent to a model: the settings of a ``HostedEmbedding``, else what the model itself says.

    See :func:`~graph_retrievers.signals.embedding_requests.requests_of`.
    """
    return wrapper_requests(model) or requests_of(library_model(model), hosted(model))


def wrapper_requests(model: Any) -> Requests | None:
    """Return how texts are sent to a model, as one of those around it says."""
    while isinstance(model, EmbeddingWrapper):
        if model.requests is not None:
            return model.requests
        model = model.model
    return None


def library_model(model: Any) -> Any:
    """Return the model of another library inside an adapter."""
    inner = _inner(model)
    return getattr(inner, "library_model", inner)
