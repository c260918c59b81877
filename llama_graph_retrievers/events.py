"""Events of instrumentation: the steps of a search, and the beginning and end of each question of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core import instrumentation
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.hits import Hits

__all__ = ["GraphSearchEvent"]

_dispatcher = instrumentation.get_dispatcher(__name__)


class GraphSearchEvent(BaseEvent):
    """The requests of each step of a search, for one question or for a batch.

    Attributes
    ----------
    questions, hits : int
    steps : list of dict
        One dictionary per call of a backend, with its step, the `request`, the `operators` that made it, the numbers of
        `questions` and `nodes`, and the `seconds`; see :meth:`graph_retrievers.core.trace.Trace.records`.
    """

    questions: int
    hits: int
    steps: list[dict[str, Any]]

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which handlers know the event."""
        return "GraphSearchEvent"


def send_search_event(results: Sequence[Hits]) -> None:
    """Send the handlers the event of a search with these results."""
    # An empty question has no steps.
    steps = next((hits.trace.records() for hits in results if hits.trace), [])
    _dispatcher.event(GraphSearchEvent(questions=len(results), hits=sum(map(len, results)), steps=steps))


def batch_started(queries: Sequence[str | QueryBundle]) -> list[QueryBundle]:
    """Return the queries of a batch as bundles, after an event for each."""
    if isinstance(queries, (str, QueryBundle)):
        raise InvalidArgumentError("retrieve_batch takes a list of queries; call retrieve for one.")
    bundles = [QueryBundle(query) if isinstance(query, str) else query for query in queries]
    for bundle in bundles:
        _dispatcher.event(RetrievalStartEvent(str_or_query_bundle=bundle))
    return bundles


def batch_ended(bundles: list[QueryBundle], results: list[list[NodeWithScore]]) -> list[list[NodeWithScore]]:
    """Return the results of a batch, after an event for each."""
    for bundle, nodes in zip(bundles, results, strict=True):
        _dispatcher.event(RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes))
    return results
