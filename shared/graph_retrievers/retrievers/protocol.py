"""The contract of retrievers, in memory or in a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from graph_retrievers import tracing
from graph_retrievers.arguments import check_query, not_a_class, positive, suggestion, typed
from graph_retrievers.concurrency import ending_in
from graph_retrievers.core.limits import limited
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError, shown
from graph_retrievers.graph.filters import Filter
from graph_retrievers.hits.hits import Hits
from graph_retrievers.retrievers.limits import TimeLimit, in_thread, within_limits
from graph_retrievers.signals.embedding import aembed_queries, awaits_queries, embed_queries, takes_lists
from graph_retrievers.signals.vectors import check_vectors

__all__ = ["BaseRetriever", "RetrieverProtocol"]

_FILTERS = ("filter", "seed_filter", "traversal_filter", "scope")

EMPTY_QUESTION = "the question is empty, and no filter or scope selects nodes: nothing was searched for"
"""Note on a question without words and without a filter."""
LISTING_NOTE = "the question is empty: the hits are the first nodes that pass the filter, in the order of the index"
"""Note on a question without words and with a filter or a scope."""
NOTHING_PASSES = "no node passes the filter"
"""Further note, if there is no such node."""
EMPTY_SCOPE = "no node is in the scope"
"""Note on a question whose scope has no node."""
LISTING = "Listing"
"""Name of the operator of the hits of such a question."""


@runtime_checkable
class RetrieverProtocol(Protocol):
    """The interface that the framework packages and the evaluation use: :class:`BaseRetriever`, or your own class.

    If a retriever has ``aretrieve`` and ``aretrieve_batch`` with the same arguments, they are awaited.

    Attributes
    ----------
    name : str
        Name in tables.
    k : int
        Hits to return by default.
    inputs : tuple of str
        Names of other per-query arguments, such as ``entities``.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex, Retriever
    >>> isinstance(Retriever(GraphIndex.from_texts(["a loom"]), BM25()), RetrieverProtocol)
    True
    """

    name: str
    k: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of other per-query arguments."""

    def retrieve(self, query: str, k: int | None = None, **arguments: Any) -> Hits:
        """Return the hits of one query; the arguments are those of :meth:`BaseRetriever.retrieve`."""

    def retrieve_batch(self, queries: Sequence[str], k: int | None = None, **arguments: Any) -> list[Hits]:
        """Return the hits of each query; the arguments are those of :meth:`BaseRetriever.retrieve_batch`."""


@dataclass(frozen=True)
class Call:
    """The checked arguments of one call: B queries, k, vectors as a tensor, shape [B, d], or a callable, if any.

    `filters` has the given filters by the names of the arguments; `inputs` has lists of B values.
    """

    queries: list[str]
    k: int
    vectors: Any
    filters: dict[str, Filter]
    inputs: dict[str, Sequence[Any]]

    @property
    def selects(self) -> bool:
        """Whether a filter or a scope says which nodes may be returned."""
        conditions = (self.filters.get(name) for name in ("filter", "scope"))
        return any(condition is not None and not (isinstance(condition, Mapping) and not condition) for condition in conditions)

    def taken(self, places: list[int] | slice) -> Call:
        """Return the call with the queries at some places."""
        rows = range(len(self.queries))[places] if isinstance(places, slice) else places
        return replace(
            self,
            queries=[self.queries[row] for row in rows],
            # A function needs no part: it is called for the texts of these queries.
            vectors=self.vectors[places] if hasattr(self.vectors, "__getitem__") else self.vectors,
            inputs={name: [values[row] for row in rows] for name, values in self.inputs.items()},
        )

    def parts(self, size: int) -> Iterator[Call]:
        """Yield calls of `size` queries each, the last with the remaining queries; none without queries."""
        for start in range(0, len(self.queries), size):
            yield self if len(self.queries) <= size else self.taken(slice(start, start + size))


class BaseRetriever(ABC):
    """Arguments and their checks, shared by every retriever of this package.

    A subclass sets `name`, `k` and `inputs`, and implements :meth:`search`; and :meth:`list_nodes` if it can list its nodes.

    Examples
    --------
    >>> from graph_retrievers import Hit
    >>> from graph_retrievers.hits import NodePath
    >>> class Echo(BaseRetriever):
    ...     name, k = "Echo", 1
    ...
    ...     def search(self, call):
    ...         return [Hits([Hit(text, text, 1.0, self.name, NodePath((text,)))][: call.k]) for text in call.queries]
    >>> Echo().retrieve("a loom")[0].text
    'a loom'
    """

    name: str
    k: int
    inputs: tuple[str, ...] = ()
    time_limit: float | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Check arguments by the annotations of the class."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = typed(cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call, none of them empty: list of Hits, length B."""

    def list_nodes(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call whose queries are empty, in order, with score 0.

        By default there are no hits, and a note says that this retriever cannot list.
        """
        return Hits((), (f"the question is empty, and {self.name} does not list the nodes that pass a filter",))

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        scope: Filter | None = None,
        **inputs: Any,
    ) -> Hits:
        """Return the hits for one query.

        Parameters
        ----------
        query : str
            An empty question searches for nothing. With a `filter` or a `scope`, as from chains that turn a question into a
            filter, the hits are the first k nodes that pass, in the order of the index; their scores are 0.0. Without, there are
            no hits. A note says so.
        k : int, optional
            Maximum number of nodes to return; by default the retriever's own k.
        vector : array-like, shape [d], optional
            The query's vector, if already computed.
        filter, seed_filter, traversal_filter : mapping or callable, optional
            Which nodes may be returned, start a traversal, and be visited (see
            :func:`graph_retrievers.graph.filters.filter_mask`). Without a `seed_filter`, `filter` also restricts the start;
            ``seed_filter={}`` removes that. A retriever in a database accepts only mappings, a retriever on a store no masks.
        scope : mapping or callable, optional
            Which nodes are searched for this query. It acts as all three filters, and no other node influences names, scores or
            limits (see :meth:`graph_retrievers.index.GraphIndex.within`). Other filters restrict it further.
        **inputs
            Other inputs of this retriever; their names are in ``inputs``.

        Returns
        -------
        Hits
            Best first.

        Raises
        ------
        InvalidArgumentError
            If the query is not a string, k is below 1 or a filter cannot be read.
        UnexpectedArgumentError
            If the retriever does not read an input.
        DimensionMismatchError, InvalidVectorError
            If the vector is not [d], or contains NaN or infinity.
        """
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter, "scope": scope}
        return self._results(self._single_call(query, k, vector, **filters, **inputs))[0]

    def retrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        scope: Filter | Sequence[Filter] | None = None,
        **inputs: Sequence[Any],
    ) -> list[Hits]:
        """Return the hits for many queries.

        Parameters
        ----------
        queries : sequence of str, length B
        k, filter, seed_filter, traversal_filter
            As for :meth:`retrieve`, the same for all queries.
        scope : filter or sequence of filters, length B, optional
            As for :meth:`retrieve`, one for all queries or a list with one per query.
        vectors : array-like, shape [B, d], optional
            Or a function that computes them from the texts when first needed. It is called once for each `batch_size` queries,
            unless a slice of it returns the vectors of a slice of the queries. If it has a coroutine function ``ready``, that is
            awaited before an asynchronous search that needs the vectors.
        **inputs : sequence, length B
            One value per query.

        Returns
        -------
        list of Hits, length B
            What :meth:`retrieve` returns for each query.
        """
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter, "scope": scope}
        call = self._call(queries, k, vectors, **filters, **inputs)
        if not isinstance(scope, (list, tuple)):
            return self._results(call)
        return _in_order((places, self._results(part)) for places, part in _by_scope(self._with_vectors(call)))

    async def aretrieve(self, query: str, k: int | None = None, **arguments: Any) -> Hits:
        """Return what :meth:`retrieve` returns for the same arguments, without blocking the event loop.

        An embedding model with ``aembed_query`` is awaited. The search then runs in a thread. When the task is cancelled, for
        example by ``asyncio.timeout``, the search ends at its next step.
        """
        with self._time_limited():
            if arguments.get("vector") is None and (vectors := await self._vectors_of([query])) is not None:
                arguments["vector"] = vectors[0]
            return await in_thread(self.retrieve, query, k, **arguments)

    async def aretrieve_batch(self, queries: Sequence[str], k: int | None = None, **arguments: Any) -> list[Hits]:
        """Return what :meth:`retrieve_batch` returns for the same arguments; it runs as :meth:`aretrieve` does.

        Up to 32 queries are embedded at the same time.
        """
        with self._time_limited():
            if (vectors := await self._vectors_of(queries, arguments.get("vectors"))) is not None:
                arguments["vectors"] = vectors
            return await in_thread(self.retrieve_batch, queries, k, **arguments)

    async def _vectors_of(self, queries: Sequence[str], vectors: Any = None) -> Any:
        """Return the vectors of queries, if every search reads them and they can be awaited, otherwise what is given."""
        reads, model = self._question_model()
        if not reads:
            return vectors
        if hasattr(vectors, "ready"):
            await within_limits(vectors.ready())
        elif vectors is None and awaits_queries(model) and _are_texts(queries):
            return await within_limits(aembed_queries(model, queries))
        return vectors

    def _with_vectors(self, call: Call) -> Call:
        """Return a call with its vectors, if every search reads them: before it is split into batches, or becomes a part of one.

        A model that takes lists embeds those of a batch in one call, then.
        """
        reads, model = self._question_model()
        if not reads or model is None:
            return call
        if callable(call.vectors):
            # Other texts than the queries are embedded by the index's model.
            vectors = check_vectors(call.vectors(call.queries), len(call.queries), name="query vectors")
        elif call.vectors is None and not takes_lists(model) and _are_texts(call.queries):
            vectors = embed_queries(model, call.queries)
        else:
            return call
        return replace(call, vectors=vectors)

    def _question_model(self) -> tuple[bool, Any]:
        """Return whether every search reads the vectors of its queries, and the model that embeds them unless they are given."""
        return False, None

    def _time_limited(self) -> AbstractContextManager[None]:
        """Return what limits the searches inside to the retriever's time limit, from now on."""
        return nullcontext() if self.time_limit is None else _ending_in(self.time_limit, self.name)

    def _results(self, call: Call) -> list[Hits]:
        """Return what :meth:`search` returns, and for empty queries what passes their filter; OpenTelemetry gets a span of it."""
        with nullcontext() if tracing.TRACER is None else tracing.retrieving(self.name, call.queries, call.k) as span:
            if "" not in map(str.strip, call.queries):
                results = self.search(call)
            else:
                places, empty = _apart(call)
                asked = self.search(call.taken(places)) if places else []
                results = _in_order([(places, asked), (empty, [self._unasked(call)] * len(empty))])
            if span is not None:
                tracing.record_results(span, results)
            return results

    def _unasked(self, call: Call) -> Hits:
        """Return the hits of the empty queries of a call."""
        return self.list_nodes(call) if call.selects else Hits((), (EMPTY_QUESTION,))

    def _single_call(self, query: str, k: int | None, vector: Any = None, **arguments: Any) -> Call:
        vectors = None if vector is None else vector.unsqueeze(0) if hasattr(vector, "unsqueeze") else [vector]
        return self._call([query], k, vectors, **{n: value if n in _FILTERS else [value] for n, value in arguments.items()})

    def _call(self, queries: Sequence[str], k: int | None, vectors: Any = None, **arguments: Any) -> Call:
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            raise InvalidArgumentError(f"retrieve_batch takes a list of queries, got {shown(queries)}; call retrieve for one.")
        for place, text in enumerate(queries):
            if not isinstance(text, str):
                check_query(text, place)
        filters, inputs = dict[str, Any](), dict[str, Any]()
        for name, value in arguments.items():
            if name not in _FILTERS:
                inputs[name] = value
            elif value is not None:
                filters[name] = value
        if inputs:
            self._check_inputs(inputs, filters)
        for name, values in inputs.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise InvalidArgumentError(f"{name} is {shown(values)}; expected a list with one value for each query.")
            if len(values) != len(queries):
                raise InvalidArgumentError(f"{name} has {len(values)} entries for {len(queries)} queries.")
        if callable(vectors):
            not_a_class("vectors", vectors)
        elif vectors is not None:
            vectors = check_vectors(vectors, len(queries), name="query vectors")
        return Call(list(queries), self.k if k is None else positive("k", k), vectors, filters, inputs)

    def _check_inputs(self, names: Iterable[str], filters: Mapping[str, Filter]) -> None:
        """Raise UnexpectedArgumentError if an input of a call with these filters is not read."""
        for name in names:
            if name not in self.inputs:
                inputs = ", ".join(self.inputs) or "none"
                other = suggestion(name, ("k", "vectors", *_FILTERS, *self.inputs))
                common = ", ".join(("k", "vectors", *_FILTERS))
                # What is misspelt would not be read in another form either.
                why = "" if other else self._reading_depends_on()
                raise UnexpectedArgumentError(
                    f"{self.name} does not read {name!r}{why}; besides {common} it reads: {inputs}.{other}"
                )

    def _reading_depends_on(self) -> str:
        """Return on what it depends which inputs are read, for a message."""
        return ""


class AsyncRetriever(BaseRetriever):
    """A retriever with an asynchronous backend; a subclass also implements :meth:`asearch`."""

    @abstractmethod
    async def asearch(self, call: Call) -> list[Hits]:
        """Return what :meth:`search` returns, without blocking the event loop."""

    async def _aresults(self, call: Call) -> list[Hits]:
        with nullcontext() if tracing.TRACER is None else tracing.retrieving(self.name, call.queries, call.k) as span:
            if "" not in map(str.strip, call.queries):
                results = await self.asearch(call)
            else:
                places, empty = _apart(call)
                asked = await self.asearch(call.taken(places)) if places else []
                results = _in_order([(places, asked), (empty, [await in_thread(self._unasked, call)] * len(empty))])
            if span is not None:
                tracing.record_results(span, results)
            return results

    async def aretrieve(self, query: str, k: int | None = None, **arguments: Any) -> Hits:
        """Return what :meth:`retrieve` returns for the same arguments, without blocking the event loop."""
        return (await self._aresults(self._single_call(query, k, **arguments)))[0]

    async def aretrieve_batch(self, queries: Sequence[str], k: int | None = None, **arguments: Any) -> list[Hits]:
        """Return what :meth:`retrieve_batch` returns for the same arguments, without blocking the event loop."""
        call = self._call(queries, k, **arguments)
        if not isinstance(call.filters.get("scope"), (list, tuple)):
            return await self._aresults(call)
        return _in_order([(places, await self._aresults(part)) for places, part in _by_scope(call)])


@contextmanager
def _ending_in(seconds: float, name: str) -> Iterator[None]:
    """Limit the searches inside, and the pauses before a model is asked again."""
    with limited(TimeLimit(seconds, name)), ending_in(seconds):
        yield


def _are_texts(queries: Any) -> bool:
    """Return whether queries are what an embedding model reads; the retriever says what is wrong with others."""
    is_list = isinstance(queries, Sequence) and not isinstance(queries, str)
    return is_list and all(isinstance(text, str) and text.strip() for text in queries)


def _by_scope(call: Call) -> list[tuple[list[int], Call]]:
    """Return a call with a scope for each query as calls with one scope each, and the places of their queries."""
    scopes: Any = call.filters["scope"]
    places = list(range(len(call.queries)))
    if len(scopes) != len(places) or any(scope is None for scope in scopes):
        raise InvalidArgumentError(
            f"scope is a list of {len(scopes)} filters for {len(places)} queries; give one filter, or one for each query ({{}} for "
            "all nodes)."
        )
    groups: list[list[int]] = []
    for place, scope in enumerate(scopes):
        for group in groups:
            if same_filter(scope, scopes[group[0]]):
                group.append(place)
                break
        else:
            groups.append([place])
    vectors = call.vectors
    if callable(vectors):
        # The queries of a scope need not be a slice of the batch, and a function may have no other parts.
        vectors = check_vectors(vectors(call.queries), len(places), name="query vectors")
    call = replace(call, vectors=vectors)
    return [(group, replace(call.taken(group), filters={**call.filters, "scope": scopes[group[0]]})) for group in groups]


def _apart(call: Call) -> tuple[list[int], list[int]]:
    """Return the places of the queries of a call that have words, and of those that are empty."""
    places = [place for place, text in enumerate(call.queries) if text.strip()]
    return places, [place for place, text in enumerate(call.queries) if not text.strip()]


def same_filter(one: Filter, other: Filter) -> bool:
    """Return whether two filters are known to be the same."""
    if one is other:
        return True
    try:
        return isinstance(one, Mapping) and isinstance(other, Mapping) and bool(one == other)
    except Exception:
        # Values that do not compare, such as arrays, or are nested too deeply: whoever reads the filter says what is wrong with it.
        return False


def _in_order(parts: Iterable[tuple[list[int], list[Hits]]]) -> list[Hits]:
    """Return the results of parts of a batch at the places of their queries."""
    by_place = {place: hits for places, results in parts for place, hits in zip(places, results, strict=True)}
    return [by_place[place] for place in sorted(by_place)]
