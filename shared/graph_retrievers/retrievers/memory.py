"""Retrievers on an index in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from torch import Tensor

from graph_retrievers.cache import Identity, Lazy
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm, run
from graph_retrievers.core.question import Question, Questions
from graph_retrievers.core.trace import RECORD, Trace
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.graph.description import warn_of_no_edges
from graph_retrievers.graph.filters import filter_mask, type_mask
from graph_retrievers.hits.hits import Hits
from graph_retrievers.hits.of_candidates import to_hits
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.retrievers.protocol import EMPTY_SCOPE, LISTING, LISTING_NOTE, NOTHING_PASSES, Call
from graph_retrievers.retrievers.retriever import Retriever, note_that_nothing_passes, warn_of_unused_relevance
from graph_retrievers.search.batch import compared_vectors
from graph_retrievers.search.memory import MemoryBackend, ranked
from graph_retrievers.search.per_source import per_source
from graph_retrievers.search.queries import Queries, filter_masks
from graph_retrievers.search.vector_search import BM25Search, HybridSearch, VectorSearch

__all__ = ["MemoryRetriever"]

_logger = logging.getLogger(__name__)

# Number of nodes of the search without the graph.
_PLAIN_DEPTH = 100
# Entries of a table with a place for each node of each of several questions as one.
_COPIES = 1 << 25


class MemoryRetriever(Retriever):
    """:class:`~graph_retrievers.retrievers.retriever.Retriever` on an index in memory."""

    index: GraphIndex
    _runs_on = GraphIndex

    def _begin(self, default: bool) -> None:
        """Prepare the operators on an index that is prepared, and warn of what the index lacks."""
        index = self.index
        if default:
            warn_of_unused_relevance(self)
        if index.prepared:
            for part in self.operator.parts():
                part.prepare(index)
        if self._composition.lacks_edges:
            warn_of_no_edges(index.graph)
        elif self.system is not None and self.system.finds_less(index):
            self._once("finds less", self._warn_that_search_finds_more)

    def _once(self, what: str, tell: Callable[[], None]) -> None:
        """Tell users something about this system on this graph, once, however often a retriever is made."""
        self.index.graph.cache.get((what, self._title), tell)

    def _has_field(self, field: str) -> bool:
        """Return whether a node has a metadata field."""
        return any(field in metadata for metadata in self.index.graph.metadata)

    def _warn_that_search_finds_more(self) -> None:
        kind = type(self.system).__name__
        _logger.warning(
            "%s alone is known to find less than hybrid search on passages like these; Fused(%s(), Hybrid()) or WalkFusion() finds "
            "more.",
            kind,
            kind,
        )

    @property
    def unfiltered(self) -> Self:
        """The same on the nodes that a call without filters searches: not on mere names, if the system skips them."""
        call = Call([], self.k, None, {}, {})
        return self._within(self._without_names(call) if self._composition.skips_names else call)[0]

    def questions(self, queries: Queries) -> list[Question]:
        """Return the questions of a batch on the index of this retriever, limited to the types that it returns.

        Raises InvalidArgumentError for a batch on another index, such as that of a scope: use :meth:`over` first.
        """
        if queries.index is not self.index:
            raise InvalidArgumentError("The queries are on another index than the retriever; use retriever.over(queries.index).")
        graph, types = self.index.graph, self.types
        if self._composition.blank is not None:
            queries = queries.without(self._composition.blank)
        if types is None and self._composition.names and (names := self._excluded_types(queries.filtered)):
            types = tuple(kind for kind in graph.type_names if kind not in names)
        return MemoryBackend(queries if types is None else queries.narrowed(type_mask(graph, types))).questions()

    def rank(self, questions: Sequence[Question]) -> list[Candidates]:
        """Return everything that the operators find for each question, with filters applied, before it is cut to k or filled up.

        Notes on the search, and counts of visited nodes, are then in the questions.
        """
        return self._run(questions, self.find)

    def hits(self, questions: Sequence[Question], lists: Sequence[Candidates]) -> list[Hits]:
        """Return what :meth:`rank` found as hits: cut to k, and filled up if necessary."""
        if not questions:
            return []
        answers = list(map(self.answer, questions, lists))
        return self._hits(questions, run(questions[0].backend, answers, questions[0].queries.trace))

    def _run(self, questions: Sequence[Question], search: Callable[[Question], Algorithm[Candidates]]) -> list[Candidates]:
        """Return what a search finds for each question; for several as one where the operators take them so."""
        if not questions:
            return []
        several = max(1, _COPIES // questions[0].size)
        backend, trace = questions[0].backend, questions[0].queries.trace
        if len(questions) == 1 or several == 1 or not self.operator.batched or self.per_source is not None:
            return run(backend, list(map(search, questions)), trace)
        parts = [Questions(questions[start : start + several]) for start in range(0, len(questions), several)]
        lists = run(backend, list(map(search, parts)), trace, places=[part.place for part in parts])
        return [each for part, candidates in zip(parts, lists, strict=True) for each in candidates.apart(part.count, part.nodes)]

    def _hits(self, questions: Sequence[Question], lists: Sequence[Candidates]) -> list[Hits]:
        queries, index = questions[0].queries, self.index
        plain = None
        if self._composition.reads_graph and (index.has_bm25 or (index.has_dense and queries.has_vectors)):
            # Made when a rank is read, as that takes a search; without the cache, which may hold large tables of scores.
            plain = partial(_plain_rank, Lazy(partial(_plain_ranks, queries.afresh())))
        similarities, trace = self._similarities(questions, lists), Trace(queries.trace)
        mask = None if queries.filtered is None else queries.filtered.cpu().numpy()
        notes = [tuple(dict.fromkeys(question.notes)) for question in questions]
        return to_hits(lists, index.graph, mask, plain, self._composition.reason, similarities, trace, notes)

    def _excluded_types(self, filtered: Tensor | None) -> tuple[str, ...]:
        """Return the node types of mere names, or nothing where `types`, or a filter by its mask, asks for one of them."""
        names = self._composition.names
        if self.types is not None and set(names) & set(self.types):
            return ()
        if filtered is not None and bool((filtered & type_mask(self.index.graph, names)).any()):
            return ()
        return names

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call; `batch_size` queries run together."""
        with self._time_limited():
            # A record has the steps of only one call.
            if self._shared_calls is None or RECORD.get() is not None:
                return self._search_hits(call)
            call = self._with_vectors(call)
            # A function has the vectors only of the queries of its call, so that these cannot share a batch with others.
            alone = callable(call.vectors)
            # The settings on which an answer depends, besides the call.
            key = (Identity(self.index), self.backfill, self.per_source, self.source_field, self.types)
            return self._search_hits(call) if alone else self._shared_calls(call, self._search_hits, key)

    def _search_hits(self, call: Call) -> list[Hits]:
        if self._composition.skips_names:
            call = self._without_names(call)
        if "scope" in call.filters:
            try:
                retriever, call = self._within(call)
            except EmptyGraphError:
                return [Hits((), (EMPTY_SCOPE,)) for _ in call.queries]
            if retriever is not self:
                return retriever._search_hits(call)
        if call.inputs:
            # The inputs that a composition reads may depend on the index.
            self._check_inputs(call.inputs, call.filters)
        # Filters are evaluated once for all batches.
        masks = filter_masks(self.index.graph, **call.filters) if call.filters else {}
        results: list[Hits] = []
        for part in call.parts(self.batch_size):
            vectors = compared_vectors(self.index, part.vectors, len(part.queries))
            queries = Queries(
                index=self.index, texts=tuple(part.queries), k=part.k, inputs=part.inputs, vector_source=vectors, **masks
            )
            questions = self.questions(queries)
            lists = self._run(questions, self.answer)
            if (mask := masks.get("filtered")) is not None:
                note_that_nothing_passes(questions, lists, call.filters["filter"], mask.any)
            results += self._hits(questions, lists)
        return results

    def _without_names(self, call: Call) -> Call:
        """Return the call in the scope of the nodes that are not mere names, unless these may be hits."""
        if "scope" in call.filters:
            return call
        condition = call.filters.get("filter")
        mask = None if condition is None else filter_mask(self.index.graph, condition)
        if not (names := self._excluded_types(mask)):
            return call
        filters = call.filters if mask is None else {**call.filters, "filter": mask}
        return replace(call, filters={**filters, "scope": {"$type": {"$nin": list(names)}}})

    def _within(self, call: Call) -> tuple[Self, Call]:
        """Return the retriever on the scope of a call, and the call without it; EmptyGraphError if no node is in the scope."""
        filters = dict(call.filters)
        if (scope := filters.pop("scope", None)) is None:
            return self, call
        index = self.index.within(scope)
        if index is self.index:
            return self, replace(call, filters=filters)
        # A mask has a bool for each node of the whole index.
        masks = {n: filter_mask(self.index.graph, m)[index.rows] for n, m in filters.items() if isinstance(m, Tensor)}
        return self.over(index), replace(call, filters=filters | masks)

    def list_nodes(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call, in order, of the types that may be returned."""
        try:
            retriever, call = self._within(call)
        except EmptyGraphError:
            return Hits((), (LISTING_NOTE, EMPTY_SCOPE))
        index = retriever.index
        # Operators get no empty question: this one only has the filter.
        queries = replace(Queries.of(index, [], k=call.k, filter=call.filters.get("filter")), texts=("",))
        (question,) = retriever.questions(queries)
        rows = np.arange(question.size)
        rows = rows[question.returned(rows)]
        candidates = Candidates.seeds(rows, np.zeros(len(rows)), LISTING)
        if retriever.per_source is not None:
            algorithm = per_source(question, candidates, retriever.per_source, retriever.source_field)
            (candidates,) = run(question.backend, [algorithm], queries.trace)
        notes = (LISTING_NOTE, *question.notes, *(() if len(candidates) else (NOTHING_PASSES,)))
        (hits,) = to_hits([candidates.top(call.k)], index.graph, trace=Trace(queries.trace), notes=[notes])
        return hits


def _plain_rank(ranks: Lazy[list[dict[str, int]]], query: int, node: str) -> int | None:
    """Return the rank of a node, from 1, for the query with a number; None if it is not among the first 100."""
    return ranks.value[query].get(node)


def _plain_ranks(queries: Queries) -> list[dict[str, int]]:
    """Return ranks in hybrid search with the filters of the queries, or in vector search or BM25 where the index has only one.

    >>> _plain_ranks(Queries.of(GraphIndex.from_texts(["a loom", "a card", "one card"]), ["Which card?"]))
    [{'1': 1, '2': 2}]
    """
    index, dense = queries.index, queries.index.has_dense and queries.has_vectors
    search: Any = HybridSearch if dense and index.has_bm25 else VectorSearch if dense else BM25Search
    lists = ranked(search(_PLAIN_DEPTH), queries)
    return [{index.graph.ids[row]: rank for rank, row in enumerate(candidates.nodes.tolist(), 1)} for candidates in lists]
