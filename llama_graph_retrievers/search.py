"""NodeSearch: an engine retriever that is asked with query bundles and answers with the original nodes of its hits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from llama_index.core import instrumentation
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.arguments import suggestion
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.limits import in_thread
from graph_retrievers.signals.signal import VectorSignal
from llama_graph_retrievers.building import FollowedIndex
from llama_graph_retrievers.metadata_filters import engine_filter
from llama_graph_retrievers.nodes import NodeLookup, scored_nodes
from llama_graph_retrievers.vectors import QueryVectors

# Vectors whose lengths differ from 1 by less, as after rounding to half precision, are unit vectors: scores are then cosines but
# for this difference, and the order does not depend on it.
_UNIT = 1e-3
# Number of searches before all nodes are looked up in a document store from which many have been deleted.
_ATTEMPTS = 3
_DELETED = "nodes were deleted from the document store after this retriever was made; make it again to find new ones"
_DELETED_MEANWHILE = "nodes were deleted from the VectorStoreIndex; ask again, and those that it has then are found"

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


@dataclass(frozen=True, eq=False)
class NodeSearch:
    """An engine retriever that is asked with query bundles and answers with the original nodes of its hits.

    `conditions` are the filters as the user gave them, by the names that the engine has for them. Originals are looked up in
    `lookups`, in this order. A `model` of None stands for ``Settings.embed_model``.
    """

    engine: Any
    conditions: Mapping[str, MetadataFilters | Filter | None]
    model: Any
    inputs: Mapping[str, Callable[[str], Any]]
    lookups: Sequence[NodeLookup]
    provenance: bool
    followed_index: FollowedIndex | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not isinstance(self.provenance, bool):
            raise InvalidArgumentError(f"provenance is {shown(self.provenance)}; expected bool.")
        if not isinstance(self.inputs, Mapping):
            raise InvalidArgumentError(
                f"inputs is {shown(self.inputs)}; expected a mapping from the name of an input to a function."
            )
        for name, function in self.inputs.items():
            if not callable(function):
                raise InvalidArgumentError(f"inputs[{name!r}] is {shown(function)}; expected a function of the query.")
            if name not in self.engine.inputs:
                names, other = ", ".join(self.engine.inputs) or "none", suggestion(name, self.engine.inputs)
                raise UnexpectedArgumentError(
                    f"{self.engine.name} reads no input {name!r}; besides the query it reads: {names}.{other}"
                )
        # Filters are read now, so that wrong ones are refused here and not by the first query.
        _ = self._filters

    @property
    def index(self) -> GraphIndex | None:
        """The index that the engine retriever searches, if it has one."""
        index = getattr(self.engine, "index", None)
        return index if isinstance(index, GraphIndex) else None

    @cached_property
    def _filters(self) -> dict[str, Filter]:
        """The filters that are not None, by name: as masks of the index, or without one as filters of the engine."""
        graph = None if self.index is None else self.index.graph
        conditions = {name: engine_filter(value, graph) for name, value in self.conditions.items() if value is not None}
        if graph is None:
            return conditions
        # Computed once: the index never changes, and every query would pay for it. An empty filter selects nothing, as that of an
        # auto-retriever without conditions.
        return {
            name: condition if isinstance(condition, Mapping) and not condition else filter_mask(graph, condition)
            for name, condition in conditions.items()
        }

    @cached_property
    def _compares_by_cosine(self) -> bool:
        dense = self.index.signals.get("dense") if self.index is not None else None
        norms = dense.norms if isinstance(dense, VectorSignal) else torch.zeros(0)
        if isinstance(scope := self._filters.get("scope"), torch.Tensor) and norms.numel():
            norms = norms[scope]
        return bool(((norms - 1).abs() < _UNIT)[norms > 0].all()) and bool(norms.any())

    @property
    def _live(self) -> bool:
        return any(lookup.live for lookup in self.lookups)

    def present(self) -> NodeSearch:
        """Return this search on the nodes that the ``VectorStoreIndex`` has now."""
        if self.followed_index is None or (index := self.followed_index.index()) is self.index:
            return self
        return self.over(index)

    def over(self, index: GraphIndex) -> NodeSearch:
        """Return this search on another index with the same signals; a filter that is a mask keeps selecting the same nodes."""
        assert self.index is not None
        filters = {name: _lasting(value, self.index.graph) for name, value in self.conditions.items()}
        return replace(self, engine=self.engine.over(index), conditions=filters)

    def nodes(
        self, bundles: list[QueryBundle], k: int, inputs: Mapping[str, Sequence[Any]], again: bool = True
    ) -> list[list[NodeWithScore]]:
        """Return up to k nodes for each query; `inputs` replace those of the retriever.

        If the followed index changes during the search, the question is asked once more, of what it has then (`again`).
        """
        if k == 0:
            return [[] for _ in bundles]
        texts, options = self._call(bundles, inputs)
        excluded_ids, attempt = set[str](), 0
        while True:
            results = self.engine.retrieve_batch(texts, k, **self._without(excluded_ids) | options)
            originals, missing = self._originals(results)
            if again and missing and (present := self.present()) is not self:
                return present.nodes(bundles, k, inputs, again=False)
            if missing <= excluded_ids:
                return self._scored(results, originals, missing, excluded_ids)
            excluded_ids, attempt = excluded_ids | self._exclusions(missing, attempt), attempt + 1

    async def anodes(
        self, bundles: list[QueryBundle], k: int, inputs: Mapping[str, Sequence[Any]], again: bool = True
    ) -> list[list[NodeWithScore]]:
        """Return what :meth:`nodes` returns, without blocking the event loop."""
        ask = getattr(self.engine, "aretrieve_batch", None)
        if ask is None or k == 0:
            return await in_thread(self.nodes, bundles, k, inputs)
        # Functions of the user and stores of documents would block the event loop.
        texts, options = await asyncio.to_thread(self._call, bundles, inputs) if self.inputs else self._call(bundles, inputs)
        excluded_ids, attempt = set[str](), 0
        while True:
            filters = await asyncio.to_thread(self._without, excluded_ids) if excluded_ids else self._filters
            results = await ask(texts, k, **filters | options)
            originals, missing = await asyncio.to_thread(self._originals, results) if self._live else self._originals(results)
            if again and missing and (present := await in_thread(self.present)) is not self:
                return await present.anodes(bundles, k, inputs, again=False)
            if missing <= excluded_ids:
                return self._scored(results, originals, missing, excluded_ids)
            excluded_ids, attempt = excluded_ids | await asyncio.to_thread(self._exclusions, missing, attempt), attempt + 1

    def _call(self, bundles: list[QueryBundle], inputs: Mapping[str, Sequence[Any]]) -> tuple[list[str], dict[str, Any]]:
        """Return the texts, and the keywords of the engine's ``retrieve_batch``."""
        texts = [bundle.query_str.strip() for bundle in bundles]
        values = {name: [function(text) for text in texts] for name, function in self.inputs.items() if name not in inputs}
        return texts, {"vectors": self._vectors(bundles), **values, **inputs}

    def _vectors(self, bundles: list[QueryBundle]) -> Any:
        bare = sum(bundle.embedding is None for bundle in bundles)
        if self.model is None and self.index is None and bare in (0, len(bundles)):
            # It is not known whether this engine retriever reads vectors, or computes them itself.
            return None if bare else [bundle.embedding for bundle in bundles]
        return QueryVectors(bundles, self.model, unit=self._compares_by_cosine)

    def _without(self, excluded_ids: set[str]) -> dict[str, Any]:
        """Return the filters for a call of the engine that must not return the nodes with some ids."""
        condition, exclusion = self._filters.get("filter"), {"$id": {"$nin": sorted(excluded_ids)}}
        if not excluded_ids or not (self.index is not None or condition is None or isinstance(condition, Mapping)):
            return self._filters
        if self.index is not None:
            mask = filter_mask(self.index.graph, exclusion)
            return self._filters | {"filter": mask if condition is None else mask & filter_mask(self.index.graph, condition)}
        return self._filters | {"filter": exclusion if condition is None else {"$and": [condition, exclusion]}}

    def _originals(self, results: Sequence[Hits]) -> tuple[dict[str, BaseNode], set[str]]:
        """Return the original nodes of hits by their ids, and the ids of those that are no longer in the document store."""
        originals: dict[str, BaseNode] = {}
        missing: set[str] = set()
        for hit in (hit for hits in results for hit in hits if hit.kind == "node" and hit.id not in originals):
            if (node := self._original(hit.id)) is not None:
                originals[hit.id] = node
            elif self._live and "class_name" in hit.origin:
                # Made from a node of LlamaIndex; others, such as entities, may never have been in the store.
                missing.add(hit.id)
        return originals, missing

    def _original(self, node: str) -> BaseNode | None:
        originals = (lookup.find(node) for lookup in self.lookups)
        return next((original for original in originals if original is not None), None)

    def _exclusions(self, missing: set[str], attempt: int) -> set[str]:
        """Return the nodes to exclude from the next search: those missing, after some attempts all that are not in the store."""
        if attempt < _ATTEMPTS or self.index is None:
            return missing
        graph = self.index.graph
        ids = (node for node, origin in zip(graph.ids, graph.origins, strict=True) if "class_name" in origin)
        return {node for node in ids if self._original(node) is None}

    def _scored(
        self, results: Sequence[Hits], originals: Mapping[str, BaseNode], missing: set[str], excluded_ids: set[str]
    ) -> list[list[NodeWithScore]]:
        send_search_event(results)
        why = _DELETED if self.followed_index is None else _DELETED_MEANWHILE
        lists = [hits if hits or not excluded_ids else Hits((), [*hits.notes, why]) for hits in results]
        return [scored_nodes(hits, originals, missing, self.provenance) for hits in lists]


def _lasting(condition: Any, graph: CorpusGraph) -> Any:
    """Return a filter that means the same for an index after a change: a mask selects its nodes by their ids."""
    if not isinstance(condition, torch.Tensor):
        return condition
    return {"$id": {"$in": {graph.ids[row] for row in condition.nonzero().flatten().tolist()}}}


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
