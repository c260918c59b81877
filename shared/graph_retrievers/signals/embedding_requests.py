"""Texts in requests to an embedding model: the texts of a request, the requests at a time, and which models are hosted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, NamedTuple

import torch

from graph_retrievers.concurrency import most_calls
from graph_retrievers.signals.retries import Retries

# Texts of a request if the model does not say how many it takes.
_TEXTS = 32
# Requests at a time to a hosted model that does not say how many it takes.
_AT_A_TIME = 8
# Repetitions of a request.
_RETRIES = 6
# Packages whose classes do not call a service; those of LangChain and LlamaIndex are the base classes and the mocks.
_LOCAL = ("graph_retrievers.", "langchain_graph_retrievers.", "llama_graph_retrievers.", "langchain_core.", "llama_index.core.")
# Packages that compute in this process, whose objects a local model holds.
_LIBRARIES = {
    *("torch", "transformers", "sentence_transformers", "tokenizers", "optimum", "onnxruntime", "openvino", "fastembed"),
    *("llama_cpp", "gpt4all", "tensorflow", "keras", "jax", "spacy"),
}
# Ends of the names of attributes for a key or an address.
_SERVICE = ("api_key", "api_token", "api_base", "base_url", "endpoint", "endpoint_url")


class Requests(NamedTuple):
    """How texts are sent to a model: texts of a request, requests at a time, repetitions of a request that fails.

    `questions` are those at a time of requests with one question each, if the model or its owner says so; None for as many as the
    caller wants.
    """

    batch_size: int = _TEXTS
    max_concurrency: int = 1
    max_retries: int = _RETRIES
    questions: int | None = None


def is_hosted(model: Any) -> bool:
    """Return whether a model of LangChain, of LlamaIndex or of your own is called over a network, as far as can be seen.

    That is one which has asynchronous methods of its own for documents, or an attribute that is an address (``http...``) or is
    named as a key or an address (``...api_key``, ``...base_url``, ``...api_base``, ``...endpoint``). A model that holds an object
    of torch, onnxruntime or the like is local. Of ``CacheBackedEmbeddings`` and ``LangchainEmbedding``, the model inside counts.
    """
    for name in ("underlying_embeddings", "_langchain_embedding"):
        inner = getattr(model, name, None)
        if inner is not None:
            return is_hosted(inner)
    kind = type(model)
    # Functions have no settings to look at.
    if not (hasattr(kind, "embed_documents") or hasattr(kind, "get_text_embedding_batch")) or f"{kind.__module__}.".startswith(
        _LOCAL
    ):
        return False
    values = {**getattr(model, "__dict__", {}), **(getattr(model, "__pydantic_private__", None) or {})}
    if any(_computes(value) for value in values.values()):
        return False
    methods = (getattr(kind, name, None) for name in ("aembed_documents", "_aget_text_embedding", "_aget_text_embeddings"))
    if any(method is not None and not f"{method.__module__}.".startswith(_LOCAL) for method in methods):
        return True
    return any(
        (name.endswith(_SERVICE) and value is not None) or (isinstance(value, str) and value.startswith(("http://", "https://")))
        for name, value in values.items()
    )


def _computes(value: Any) -> bool:
    return isinstance(value, torch.nn.Module) or type(value).__module__.partition(".")[0] in _LIBRARIES


def requests_of(model: Any, hosted: bool) -> Requests:
    """Return how texts are sent to a model of another library.

    A request has the number of texts that the model names as ``embed_batch_size`` (LlamaIndex), ``chunk_size`` (OpenAI's model in
    LangChain) or ``batch_size``, else 32. A hosted model gets 8 requests at a time, or the number that it names as ``num_workers``
    (LlamaIndex) or ``max_concurrent_requests``; any other gets one. Questions keep to a number that the model names.
    """
    workers = _number(model, "num_workers", "max_concurrent_requests")
    return Requests(
        _number(model, "embed_batch_size", "chunk_size", "batch_size") or _TEXTS,
        (workers or _AT_A_TIME) if hosted else 1,
        questions=workers,
    )


def _number(model: Any, *names: str) -> int | None:
    values = (getattr(model, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0), None)


def send(
    embed: Callable[[list[str]], Any], texts: Sequence[str], requests: Requests, what: str, first: int = 0
) -> Iterator[tuple[list[int], Any]]:
    """Yield the numbers of the texts of a request and what `embed` returns for them, in the order in which requests end.

    If a request fails for good or the caller interrupts, no other one starts. Those that run are awaited and yielded, then the
    error is raised. No more run at a time than the caller allows (:func:`~graph_retrievers.concurrency.at_most`). `what` is for the
    log. The `first` texts, if any, are a request by themselves.
    """
    size = requests.batch_size
    batches = [list(range(start, min(start + size, len(texts)))) for start in range(first, len(texts), size)]
    batches[:0] = [list(range(first))] if first else []
    waiting = iter(batches)
    retries = Retries(requests.max_retries, what)

    def answer(rows: list[int]) -> Any:
        return retries(lambda: embed([texts[row] for row in rows]))

    workers = min(requests.max_concurrency, most_calls(requests.max_concurrency), len(batches))
    if workers <= 1:
        # In the caller's own thread, as models on a GPU or with a loop of events may want.
        for rows in waiting:
            yield rows, answer(rows)
        return
    failure: BaseException | None = None
    running: dict[Future[Any], list[int]] = {}
    pool = ThreadPoolExecutor(workers, "embedding")
    try:
        while True:
            while failure is None and len(running) < workers and (batch := next(waiting, None)) is not None:
                # Callbacks and traces find the caller's context.
                running[pool.submit(copy_context().run, answer, batch)] = batch
            if not running:
                break
            try:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt as interrupt:
                if isinstance(failure, KeyboardInterrupt):
                    raise
                failure = interrupt
                retries.stop()
                continue
            for future in sorted(done, key=lambda future: running[future]):
                batch, error = running.pop(future), future.exception()
                if error is None:
                    yield batch, future.result()
                else:
                    failure = failure or error
                    retries.stop()
    finally:
        retries.stop()
        # After an early end, such as a second interrupt, nobody waits for the requests that are running.
        pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
