"""Spans of OpenTelemetry: one for each call of a retriever, and within it one for each call of a backend (extra ``trace``).

No span is created, and OpenTelemetry is not imported, until :func:`instrument` is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from graph_retrievers.core.trace import Asked, surround
from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError, shown

__all__ = ["instrument", "uninstrument"]

TRACER: Any = None
"""The tracer of :func:`instrument`; None without instrumentation."""
_CONTENT = False


def instrument(tracer_provider: Any = None, *, content: bool = False) -> None:
    """Emit OpenTelemetry spans for every retriever of this process.

    Names follow the semantic conventions for generative AI. The span of a call of a retriever is ``retrieval WalkFusion``, with
    ``gen_ai.operation.name`` (``retrieval``), ``gen_ai.retrieval.top_k`` and the counts ``graph_retrievers.questions``,
    ``.hits``, ``.steps`` and ``.notes``. Within it, the span of a call of a backend is ``ask Neighbors``, with
    ``graph_retrievers.step``, ``.operators``, ``.questions`` and ``.nodes``. A call that fails has ``error.type`` and the status
    ERROR.

    Parameters
    ----------
    tracer_provider : opentelemetry.trace.TracerProvider, optional
        By default the one of the process.
    content : bool, default False
        Whether to include questions (``gen_ai.retrieval.query.text``), ids and scores of hits (``gen_ai.retrieval.documents``,
        JSON) and error messages. Texts of documents are never included.

    Raises
    ------
    MissingDependencyError
        Without the package opentelemetry-api.
    InvalidArgumentError
        If `tracer_provider` returns no tracer.

    Examples
    --------
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    >>> from graph_retrievers import BM25, GraphIndex, Retriever
    >>> spans, provider = InMemorySpanExporter(), TracerProvider()
    >>> provider.add_span_processor(SimpleSpanProcessor(spans))
    >>> instrument(provider)
    >>> hits = Retriever(GraphIndex.from_texts(["a loom", "a card"]), BM25(), k=1).retrieve("Which card?")
    >>> [span.name for span in spans.get_finished_spans()]
    ['ask Nearest', 'retrieval BM25']
    >>> uninstrument()
    """
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise MissingDependencyError("Tracing needs OpenTelemetry: pip install 'graph-retrievers[trace]'.") from error
    from graph_retrievers.version import __version__

    if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
        raise InvalidArgumentError(f"tracer_provider is {shown(tracer_provider)}; expected a TracerProvider of OpenTelemetry.")
    global TRACER, _CONTENT
    TRACER = trace.get_tracer("graph_retrievers", __version__, tracer_provider)
    _CONTENT = content
    surround(_call)


def uninstrument() -> None:
    """Stop emitting spans."""
    global TRACER
    TRACER = None
    surround(None)


def retrieving(name: str, queries: Sequence[str], k: int) -> AbstractContextManager[Any]:
    """Return the span of a call of a retriever, to be ended with :func:`record_results`."""
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.top_k": k, "graph_retrievers.questions": len(queries)}
    if _CONTENT and len(queries) == 1:
        attributes["gen_ai.retrieval.query.text"] = queries[0]
    return _span(f"retrieval {name}", attributes)


def record_results(span: Any, results: Sequence[Any]) -> None:
    """Record the results of a call in its span."""
    if not span.is_recording():
        return
    trace = results[0].trace if results else ()
    span.set_attribute("graph_retrievers.hits", sum(map(len, results)))
    span.set_attribute("graph_retrievers.steps", trace[-1].step if trace else 0)
    span.set_attribute("graph_retrievers.notes", sum(len(hits.notes) for hits in results))
    if _CONTENT and len(results) == 1:
        documents = [{"id": hit.id, "score": hit.score} for hit in results[0]]
        span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))


@contextmanager
def _call(request: str) -> Iterator[Callable[[Asked], None]]:
    """Open the span of a call of a backend."""
    with _span(f"ask {request}", {}) as span:

        def tell(call: Asked) -> None:
            if span.is_recording():
                for name in ("step", "operators", "questions", "nodes"):
                    span.set_attribute(f"graph_retrievers.{name}", getattr(call, name))

        yield tell


@contextmanager
def _span(name: str, attributes: dict[str, Any]) -> Iterator[Any]:
    from opentelemetry.trace import Status, StatusCode

    # Error messages contain what was given, such as a question.
    with TRACER.start_as_current_span(
        name, attributes=attributes, record_exception=_CONTENT, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, str(error) if _CONTENT else None))
            raise
