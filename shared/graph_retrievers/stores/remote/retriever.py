"""Retrievers in memory that fetch what they need from a graph and vectors outside memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar, Unpack

import numpy as np

from graph_retrievers.cache import Lazy
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Composite, ReciprocalRankFusion
from graph_retrievers.core.driver import run
from graph_retrievers.core.limits import limit_over
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.trace import Trace
from graph_retrievers.errors import (
    DatabaseUnreachableError,
    EmptyGraphError,
    InvalidArgumentError,
    MissingSignalError,
    StaleIndexError,
    shown,
)
from graph_retrievers.graph.facts import WholeGraphError
from graph_retrievers.graph.names import name_types
from graph_retrievers.hits import Hits, to_hits
from graph_retrievers.retrievers.options import RetrieverOptions, SystemLike
from graph_retrievers.retrievers.protocol import EMPTY_SCOPE, LISTING, LISTING_NOTE, NOTHING_PASSES, Call
from graph_retrievers.retrievers.retriever import Retriever, note_that_nothing_passes
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.per_source import per_source
from graph_retrievers.stores.remote.backend import READABLE, RemoteBackend
from graph_retrievers.stores.remote.index import RemoteIndex
from graph_retrievers.stores.remote.ports import CheckingGraphStore, GraphStore, ScopedGraphStore
from graph_retrievers.stores.remote.queries import StoredQueries
from graph_retrievers.stores.remote.scope import first_positions
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.registry import default_system
from graph_retrievers.systems.system import System, read_system
from graph_retrievers.systems.walk_fusion.metapath_search import MetapathSearch
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion

__all__ = ["RemoteRetriever"]

T = TypeVar("T")
# How often a call begins anew because the index was written again under it, and after how often it is answered from one state of
# the database, where that is possible.
_TRIES, _BEFORE_PINNING = 10, 2
_IN_MEMORY = "Use an index in memory: read_index gives that of PostgreSQL."


class RemoteRetriever(Retriever):
    """:class:`~graph_retrievers.retrievers.retriever.Retriever` on an index in a database.

    It gives the ids, scores and paths that it gives in memory, from the parts of the graph that it reads.

    Its algorithms request neighbours, searches, scores and texts; the requests of all questions of a batch in a step are fetched
    together.

    Parameters
    ----------
    index : RemoteIndex
    system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
        As for :class:`~graph_retrievers.retrievers.retriever.Retriever`. By default the choice of
        :func:`~graph_retrievers.systems.registry.default_system` in memory, and WalkFusion without `words`.
    **options
        Keywords of :class:`~graph_retrievers.retrievers.retriever.Retriever`.

    Raises
    ------
    InvalidArgumentError
        If the retriever reads data that depend on the whole graph, as ``LeSeGR(hops=None)`` does; without `words`, also names in a
        question, and the properties by which WalkFusion chooses its form. Raised by the constructor if it is known before the
        first question.

    Notes
    -----
    Systems run whose requests the backend answers, such as WalkFusion, FastInsight, GAR, MoR, LeSeGR, PPR, spreading activation,
    and compositions of their operators. With a budget of B nodes and b nodes per round, FastInsight and GAR take B / b + 1 round
    trips to the graph, and MoR 2 plus one for each step of the longest path, for any number of queries in a batch. A search that
    must go deeper, because of a filter or because it ends in a tie, takes more: it goes four times as deep each time. A note on
    every result has the numbers. PPR takes 3 and one for each hop of its walk, which ends at the limits of the index with a note of
    its bound, where others raise an error.

    A filter is a mapping, and is evaluated here on fetched nodes; the first on a field may take one more round trip. A
    ``scope`` is a mapping too, and is evaluated by the engines (see :meth:`RemoteIndex.within`): the answers are those of an index
    of only its nodes. The first call of a scope takes one more round trip, or two if the system reads node types, as MoR does.
    Whether texts are passages or pieces, by which a form is chosen, is that of the whole graph. Hits have no ``plain_rank``, and
    their edges no metadata. The graph must not change during a call.

    Examples
    --------
    >>> from graph_retrievers import FastInsight, Retriever
    >>> from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore
    >>> database = CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password"))  # doctest: +SKIP
    >>> index = RemoteIndex(CypherGraphStore(database), vectors=store, words=words, embedding=model)  # doctest: +SKIP
    >>> hits = Retriever(index, FastInsight(budget=50)).retrieve("Which loom?")  # doctest: +SKIP
    """

    index: RemoteIndex
    _runs_on = RemoteIndex

    def __init__(self, index: RemoteIndex, system: SystemLike | None = None, **options: Unpack[RetrieverOptions]) -> None:
        try:
            super().__init__(index, system, **options)
        except WholeGraphError as error:
            name = _name(system)
            if "operator" in self.__dict__:
                _refuse_whole(name, self.operator)
            hint = ' Give form="links" and bridges=0.' if name == "WalkFusion" else ""
            raise _refusal(index, name, f"{error}.{hint}") from error
        _refuse_whole(self.name, self.operator)
        self._reads_schema = any(isinstance(part, (MixedTraversal, MetapathSearch)) for part in _parts(self.operator))
        if self._reads_schema:
            # Each call reads the schema of the index as it is then.
            with suppress(StaleIndexError):
                index.newest.read_schema()

    def __repr__(self) -> str:
        """Return the retriever and the index."""
        return f"Retriever({self.index!r}, {super().__repr__()})"

    def over(self, index: Corpus) -> Self:
        """Return this retriever on another state of the index, or on a scope of it; WholeGraphError if it cannot run there."""
        try:
            return super().over(index)
        except WholeGraphError as error:
            where = ", for this scope" if index.is_scope else ""
            raise _refusal(self.index, self.name, f"{error}{where}.") from error

    def _default_system(self, index: Corpus) -> System:
        """Return the default system in memory; WalkFusion where nothing is known of the graph."""
        try:
            return default_system(index)
        except WholeGraphError:
            return WalkFusion()

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call; the queries of a batch share round trips."""
        with self._time_limited():
            return self._of_one_state(call, RemoteRetriever._search_hits)

    def list_nodes(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call, in order; the database evaluates both."""
        with self._time_limited():
            return self._of_one_state(call, RemoteRetriever._list_nodes)

    def _of_one_state(self, call: Call, answer: Callable[[RemoteRetriever, Call], T]) -> T:
        """Return an answer from one state of the index: from the present one, if it was written again since it was opened."""
        tries = 0
        while True:
            index, tries = self.index.newest, tries + 1
            try:
                return answer(self if index is self.index else self.over(index), call)
            except StaleIndexError:
                if tries == _TRIES or not index.open_again():
                    raise
            except (WholeGraphError, MissingSignalError):
                # What the index lacked when it was opened may have been written since.
                if tries > 1 or not index.open_again():
                    raise
            except DatabaseUnreachableError as error:
                # The database itself ends a statement when the limit is over, also before a search has begun.
                if (limit := limit_over()) is not None:
                    raise limit.error(()) from error
                raise
            if tries >= _BEFORE_PINNING and index.pinned is not None:
                # Writers may be faster than any answer.
                with index.pinned() as state:
                    return answer(self.over(state), call)

    def _list_nodes(self, call: Call) -> Hits:
        _check_filters(call, self.index.store)
        conditions = [call.filters[name] for name in ("filter", "scope") if name in call.filters]
        retriever = self
        if "scope" in call.filters and self.types != self._chosen_types:
            # A system may return other types in a scope.
            try:
                retriever = self.over(self.index.within(call.filters["scope"]))  # type: ignore[arg-type]
            except EmptyGraphError:
                return Hits((), (LISTING_NOTE, EMPTY_SCOPE))
        types = retriever._types_of(call)
        conditions += [READABLE] if types is None else [READABLE, types]
        backend = RemoteBackend(StoredQueries.of(self.index, [""], k=call.k), {"filter": {"$and": conditions}})
        (question,) = backend.questions()
        # One document may have any number of nodes.
        limit = call.k if self.per_source is None else self.index.limits.nodes
        rows = first_positions(self.index.store, {"$and": conditions}, limit, question.returned, question.size)
        backend.pages.know(rows.tolist())
        candidates = Candidates.seeds(rows, np.zeros(len(rows)), LISTING)
        if self.per_source is not None:
            (candidates,) = run(
                backend, [per_source(question, candidates, self.per_source, self.source_field)], backend.queries.trace
            )
        graph, parts = backend.part([candidates.top(call.k)])
        notes = (LISTING_NOTE, *question.notes, *(() if len(candidates) else (NOTHING_PASSES,)), backend.pages.note())
        return to_hits(parts, graph, trace=Trace(backend.queries.trace), notes=[notes])[0]

    def _search_hits(self, call: Call) -> list[Hits]:
        _check_filters(call, self.index.store)
        index, filters = self.index, dict(call.filters)
        if (scope := filters.pop("scope", None)) is not None:
            try:
                index = index.within(scope)  # type: ignore[arg-type]
            except EmptyGraphError:
                return [Hits((), (EMPTY_SCOPE,)) for _ in call.queries]
        if self._reads_schema:
            index.read_schema()
        parts = replace(call, filters=filters).parts(self.batch_size)
        return [hits for part in parts for hits in self._batch(index, part, scope)]

    def _types_of(self, call: Call) -> Mapping[str, Any] | None:
        """Return the filter of the node types that may be returned; None for all.

        Types of mere names may not, unless `types`, or a filter by a node that it lets pass, asks for one of them.
        """
        if self.types is not None:
            return {"$type": {"$in": list(self.types)}}
        index, names = self.index, list(name_types(self.index.facts))
        if not names or ("filter" in call.filters and _holds(index, call.filters["filter"], {"$type": {"$in": names}})):
            return None
        condition = {"$type": {"$nin": names}}
        # A scope may have only such nodes.
        return None if index.is_scope and not _holds(index, condition) else condition

    def _batch(self, index: RemoteIndex, call: Call, scope: Any) -> list[Hits]:
        retriever = self if index is self.index else self.over(index)
        if call.inputs:
            retriever._check_inputs(call.inputs, call.filters)
        types = retriever._types_of(call)
        queries = StoredQueries.of(index, call.queries, k=call.k, vectors=call.vectors, inputs=call.inputs)
        backend = RemoteBackend(queries, call.filters | ({} if types is None else {"types": types}))
        condition = call.filters.get("filter")
        try:
            questions = backend.questions()
            answers = list(map(retriever.answer, questions))
            candidates = run(backend, answers, backend.queries.trace, retriever.operator.name)
            if condition is not None:
                passes = partial(_may_hold, self.index, *([] if scope is None else [scope]), condition)
                note_that_nothing_passes(questions, candidates, condition, passes)
            return _hits(retriever, backend, questions, candidates)
        except WholeGraphError as error:
            names = ", ".join(sorted(backend.request_types))
            raise _refusal(index, self.name, f"{error}{f' (asked: {names})' if names else ''}.") from error


def _holds(index: RemoteIndex, *conditions: Any) -> bool:
    """Return whether a node passes some filters; the store evaluates them, in one round trip."""
    condition = {"$and": list(conditions)}
    backend = RemoteBackend(StoredQueries.of(index, [""], k=1), {"filter": condition})
    (question,) = backend.questions()
    return len(first_positions(index.store, condition, 1, question.returned, question.size)) > 0


def _may_hold(index: RemoteIndex, *conditions: Any) -> bool:
    """Return False if the store says that no node passes some filters; one that cannot evaluate them is not asked."""
    with suppress(InvalidArgumentError):
        return not isinstance(index.store, ScopedGraphStore) or _holds(index, *conditions)
    return True


def _other_ways(index: RemoteIndex) -> str:
    """Return how to run what reads data of the whole graph."""
    return _IN_MEMORY if index.words is not None else f"{_IN_MEMORY} With words=, names and facts of the whole graph are known."


def _name(system: SystemLike | None) -> str:
    """Return the name of a system that could not be composed, as a message shows it."""
    if system is None:
        return "The default system"
    return getattr(system, "__name__", type(read_system(system) if isinstance(system, str | Mapping) else system).__name__)


def _refusal(index: RemoteIndex, name: str, what: str) -> WholeGraphError:
    """Return the error of what reads something that a graph in a database does not provide."""
    return WholeGraphError(f"{name} cannot run on a graph in a database: it reads {what} {_other_ways(index)}")


def _refuse_whole(name: str, operator: Operator) -> None:
    """Raise InvalidArgumentError if a part of an operator reads what a graph in a database does not provide."""
    for part in _parts(operator):
        if part.whole:
            raise InvalidArgumentError(
                f"{name} cannot run on a graph in a database: {type(part).__name__} reads {part.whole}. {_IN_MEMORY}"
            )


def _check_filters(call: Call, graph: GraphStore) -> None:
    """Raise InvalidArgumentError for a filter that the store of its nodes cannot answer: those of the scope, if there is one."""
    scope = call.filters.get("scope")
    # The scope itself comes first, since the store for the other filters is made of it.
    for name in sorted(call.filters, key=lambda name: name != "scope"):
        condition = call.filters[name]
        if name != "scope" and scope is not None and isinstance(graph, ScopedGraphStore):
            graph, scope = graph.within(scope), None  # type: ignore[arg-type]
        if not isinstance(condition, Mapping):
            reason = "which a graph in a database does not take here: expected a mapping"
            raise InvalidArgumentError(f"{name} is {shown(condition)}, {reason}.")
        if isinstance(graph, CheckingGraphStore):
            graph.check_filter(condition)


def _hits(
    retriever: RemoteRetriever, backend: RemoteBackend, questions: Sequence[Question], candidates: Sequence[Candidates]
) -> list[Hits]:
    """Return what was found for a batch of questions as hits."""
    similarities = retriever._similarities(questions, candidates).value
    graph, parts = backend.part(candidates)
    rows = np.array([backend.pages.rows[node] for node in graph.ids], np.int64)
    passing = backend.filtered(rows, "filter") if "filter" in backend.filters else None
    places = {row: place for place, row in enumerate(rows.tolist())}
    by_place = {(query, places[row]): value for (query, row), value in similarities.items()}
    notes = [(*dict.fromkeys(question.notes), backend.pages.note()) for question in questions]
    return to_hits(parts, graph, passing, None, retriever.reason, Lazy(lambda: by_place), Trace(backend.queries.trace), notes)


def _parts(operator: Operator) -> Iterator[Operator]:
    """Yield the operators that run, compositions after what is in them; a fusion leaves out lists of weight 0."""
    if isinstance(operator, Composite):
        parts = (
            [part for part, *_ in operator.weighted_operators()]
            if isinstance(operator, ReciprocalRankFusion)
            else operator.operators
        )
        for part in parts:
            yield from _parts(part)
    yield operator
