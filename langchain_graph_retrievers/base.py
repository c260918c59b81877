"""What the LangChain retrievers of this package share: fields, calls of the engine, batches with one traced run per query."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch
from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.callbacks.manager import ahandle_event, handle_event
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, get_config_list
from pydantic import ConfigDict, Field

from graph_retrievers.arguments import check_query, keywords_of, positive
from graph_retrievers.concurrency import at_most, concurrently, in_threads
from graph_retrievers.construction.store_metrics import index_metric
from graph_retrievers.core.limits import in_thread
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever, tell_unused_relevance, with_options
from graph_retrievers.retrievers.signatures import class_knobs
from graph_retrievers.signals.embedding import each_query_once
from langchain_graph_retrievers.documents import to_documents
from langchain_graph_retrievers.fields import CheckedFields, check_fields
from langchain_graph_retrievers.vectorstores import read_store

if TYPE_CHECKING:
    from langchain_graph_retrievers.options import GraphDocumentOptions, GraphTextOptions

__all__ = ["ENGINE_OPTIONS", "EngineRetriever"]

# LangChain has a `name` of its own, and `k` is a field.
ENGINE_OPTIONS = frozenset(knob.name for knob in class_knobs(Retriever)) - {"k", "name"}
"""Keywords of every retriever of the engine, such as ``time_limit``, which are also keywords of every retriever here."""


class EngineRetriever(CheckedFields, BaseRetriever):
    """Base class of the LangChain retrievers, which call a retriever of the engine.

    ``invoke`` and ``ainvoke`` take as keywords, for one call, the fields below, the keywords of every retriever of the engine, such
    as ``time_limit``, ``backfill`` and ``types`` (see :class:`graph_retrievers.retrievers.retriever.Retriever`), `vector` (the
    query's vector, shape [d], if it is already known) and the other inputs of the engine retriever, such as ``entities``; other
    keywords raise an error. ``batch`` and ``abatch`` pass all queries to the engine in one call, with one traced run per query.
    ``ainvoke`` and ``abatch`` await the embedding model (``aembed_query``); the search then runs in a thread, or awaits a
    database. When the task is cancelled, the search ends at its next step.

    Parameters
    ----------
    k : int, optional
        Documents to return; by default the engine retriever's own k. Chains and facts follow them.
    filter : mapping or callable, optional
        Which documents may be returned (see :func:`graph_retrievers.graph.filters.filter_mask`); a traversal may pass through
        others. ``{}`` removes it for one call.
    seed_filter, traversal_filter : mapping or callable, optional
        At which documents a traversal may start (by default those that pass `filter`, ``{}`` for all), and which it may visit.
    scope : mapping or callable, optional
        Which documents are searched. It acts as all three filters, and no other document influences a score (see
        :meth:`graph_retrievers.index.GraphIndex.within`). A retriever with a scope accepts no other scope for a call.
    provenance : bool, default False
        Whether the metadata show how a document was found: ``score``, ``similarity``, ``operator``, ``path``, ``notes``,
        ``context`` (see :func:`~langchain_graph_retrievers.to_documents`). These differ between queries, so LangChain's
        ``MultiQueryRetriever``, which drops equal documents, would keep one for each query; pass it to ``invoke`` instead.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    k: int | None = Field(default=None, description="Documents to return; by default the engine retriever's own k.")
    filter: Filter | None = Field(default=None, description="Which documents may be returned; a traversal may pass through others.")
    seed_filter: Filter | None = Field(
        default=None, description="At which documents a traversal may start; by default those of the filter."
    )
    traversal_filter: Filter | None = Field(default=None, description="Which documents a traversal may visit.")
    scope: Filter | None = Field(default=None, description="Which documents are searched; acts as all three filters.")
    provenance: bool = Field(default=False, description="Whether the metadata show how a document was found.")

    def __init__(self, **fields: Any) -> None:
        """Check the fields: pydantic checks their types, the engine their values."""
        super().__init__(**fields)
        if self.k is not None:
            positive("k", self.k)
        self._engine()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the sizes of the graph, then the fields that differ from their defaults."""
        index = getattr(self, "index", None)
        if isinstance(index, GraphIndex):
            yield from {"nodes": len(index), "edges": index.graph.num_edges}.items()
        yield from super().__repr_args__()

    @abstractmethod
    def _engine(self) -> RetrieverProtocol:
        """Return the engine retriever for the current fields."""

    @classmethod
    @abstractmethod
    def from_index(cls, index: GraphIndex, **fields: Any) -> Self:
        """Return a retriever on an index; `fields` are those of the class."""

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Any = None, *, edges: Any = (), **options: Unpack[GraphDocumentOptions]
    ) -> Self:
        """Build an index of documents and return a retriever on it.

        Parameters
        ----------
        documents : iterable of Document
            A document without an id gets its position as id.
        embedding : Embeddings, optional
            LangChain embeddings, or anything else that :func:`graph_retrievers.signals.embedding.as_embedding` accepts.
        edges : edges, edge specifications or callables
            How the documents are linked, such as ``[("cites", "$id")]``; see
            :func:`graph_retrievers.construction.edges.build_edges`.
        **options
            Keywords of :meth:`from_index`, and of :meth:`graph_retrievers.index.GraphIndex.from_documents` (``relevance``,
            ``bm25``, ``vectors``, ``device``, ``title_key``, ...).
        """
        return cls._built(GraphIndex.from_documents, documents, options, edges=edges, embedding=embedding)

    @classmethod
    def from_vectorstore(
        cls, store: Any, embedding: Any = None, *, edges: Any = (), **options: Unpack[GraphDocumentOptions]
    ) -> Self:
        """Return a retriever over the documents of a vector store, with the vectors of the store; nothing is embedded again.

        The documents are read once; later additions to the store are not seen.

        Parameters
        ----------
        store : VectorStore
            ``InMemoryVectorStore``, FAISS, Chroma, or a store with the method of :class:`~langchain_graph_retrievers.ListsVectors`.
        embedding : Embeddings, optional
            Embeds the queries; by default the store's ``embeddings``.
        edges, **options
            As for :meth:`from_documents`. The default ``metric`` is that of the store, if the store states it: cosine for
            ``InMemoryVectorStore``, the dot product for FAISS with inner products, and cosine for FAISS with L2 distances between
            vectors of equal length, which have the same order.

        Raises
        ------
        GraphRetrieverError
            If the store is empty, lacks a vector or a text, has vectors of different widths, or does not list its vectors; if it
            compares vectors of different lengths by L2 distance, and no ``metric`` is given. BM25 then takes only the documents.

        Examples
        --------
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> from langchain_graph_retrievers import PPRRetriever
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        >>> _ = store.add_texts(["A loom reads cards.", "A card."], ids=["loom", "card"])
        >>> retriever = PPRRetriever.from_vectorstore(store, edges=[("loom", "card", "reads")], k=2)
        >>> sorted(document.id for document in retriever.invoke("A loom reads cards."))
        ['card', 'loom']
        """
        if "vectors" in options:
            raise UnexpectedArgumentError("from_vectorstore takes the vectors of the store; from_documents takes vectors=.")
        found = read_store(store)
        if embedding is None:
            embedding = getattr(store, "embeddings", None)
        given: dict[str, Any] = {**options, "vectors": found.vectors}
        try:
            if given.get("metric") is None:
                given["metric"] = index_metric(
                    found.metric,
                    torch.from_numpy(found.vectors),
                    f"The {type(store).__name__}",
                    "Use a store of unit vectors (normalize_L2=True of FAISS), or of inner products; or pass metric='cosine' or "
                    "metric='dot', for an order that is not the store's.",
                )
        except InvalidArgumentError:
            if getattr(cls, "system", given.get("system")) != "bm25":
                raise
            # Only words are searched.
            given["vectors"] = embedding = None
        return cls._built(GraphIndex.from_documents, found.documents, given, edges=edges, embedding=embedding)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: Any = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        edges: Any = (),
        **options: Unpack[GraphTextOptions],
    ) -> Self:
        """Build an index of texts and return a retriever on it; the arguments are those of :meth:`from_documents`."""
        return cls._built(GraphIndex.from_texts, texts, options, ids=ids, metadatas=metadatas, edges=edges, embedding=embedding)

    @classmethod
    def _built(cls, build: Callable[..., GraphIndex], items: Any, options: Mapping[str, Any], **given: Any) -> Self:
        own = (cls.model_fields.keys() - cls.unlisted - {"index", "retriever"}) | ENGINE_OPTIONS | keywords_of(cls.from_index)
        # Checked before an index is built.
        check_fields(cls.__name__, options, own | keywords_of(build, GraphIndex.from_graph))
        index = build(items, **given, **{name: value for name, value in options.items() if name not in own})
        made = cls.from_index(index, **{name: value for name, value in options.items() if name in own})
        if options.get("relevance") is not None:
            tell_unused_relevance(made._engine())
        return made

    def _arguments(
        self,
        count: int,
        k: int | None = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        scope: Filter | None = None,
        vector: Any = None,
        **inputs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the keywords of ``retrieve_batch`` for some queries: those of every retriever, and the other inputs."""
        k = k if k is None else positive("k", k)
        given = {"k": k, "filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter}
        common = {name: getattr(self, name) if value is None else value for name, value in given.items()}
        if scope is not None and self.scope is not None:
            raise InvalidArgumentError("This retriever has a scope of its own; give one to a call of a retriever without.")
        if scope is not None or self.scope is not None:
            # Retrievers of other packages may not have this argument.
            common["scope"] = self.scope if scope is None else scope
        common["vectors"] = None if vector is None else [vector] * count
        return common, {name: [value] * count for name, value in inputs.items()}

    def _asked(self, options: Mapping[str, Any]) -> tuple[RetrieverProtocol, dict[str, Any]]:
        """Return the engine retriever for a call with some keywords, and the keywords that are not for it."""
        engine = self._engine()
        own = {name: value for name, value in options.items() if name in ENGINE_OPTIONS and name not in engine.inputs}
        return with_options(engine, own), {name: value for name, value in options.items() if name not in own}

    def _found(self, queries: list[str], **options: Any) -> list[Hits]:
        engine, options = self._asked(options)
        common, inputs = self._arguments(len(queries), **options)
        return engine.retrieve_batch(queries, **common, **inputs)

    async def _afound(self, queries: list[str], **options: Any) -> list[Hits]:
        engine, rest = self._asked(options)
        retrieve = getattr(engine, "aretrieve_batch", None)
        if retrieve is None:
            return await in_thread(self._found, queries, **options)
        common, inputs = self._arguments(len(queries), **rest)
        return await retrieve(queries, **common, **inputs)

    def _documents(
        self, queries: list[str], runs: Sequence[Any] = (), provenance: bool | None = None, **options: Any
    ) -> list[list[Document]]:
        results = self._found(queries, **options)
        for run in runs:
            handle_event(*_told(run, results), run_id=run.run_id, tags=run.tags, metadata=run.metadata)
        return self._translated(results, provenance)

    async def _adocuments(
        self, queries: list[str], runs: Sequence[Any] = (), provenance: bool | None = None, **options: Any
    ) -> list[list[Document]]:
        results = await self._afound(queries, **options)
        for run in runs:
            await ahandle_event(*_told(run, results), run_id=run.run_id, tags=run.tags, metadata=run.metadata)
        return self._translated(results, provenance)

    def _translated(self, results: list[Hits], provenance: bool | None) -> list[list[Document]]:
        wanted = self.provenance if provenance is None else provenance
        return [to_documents(hits, provenance=wanted) for hits in results]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any) -> list[Document]:
        return self._documents([query], [run_manager], **options)[0]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return (await self._adocuments([query], [run_manager], **options))[0]

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Return the documents of each query; all queries run together. See :meth:`Runnable.batch` for the arguments.

        A model that embeds one query a call is called in threads, at most ``max_concurrency`` of the configuration, or 32, at the
        same time, and no more than the model allows. A query that is not a string, or that the model refuses, does not affect the
        others: they get their documents, and none is embedded again. The error of a query that is not a string names its place in
        the batch.
        """
        if not self._in_lockstep(kwargs):
            return super().batch(inputs, config, return_exceptions=return_exceptions, **kwargs)
        most = _max_concurrency(config)
        runs = self._started(CallbackManager, inputs, config, kwargs)
        outcomes, good = _checked(inputs)
        queries = [inputs[place] for place in good]
        found: list[Any] = []
        with at_most(most), each_query_once():
            try:
                if good:
                    found = self._documents(queries, [runs[place] for place in good], **kwargs)
            except Exception as error:
                found = [error] * len(good)
                if return_exceptions and len(good) > 1:
                    # One bad query does not spoil the others.
                    found = in_threads(lambda query: self._outcome(query, kwargs), queries)
        outcomes |= zip(good, found, strict=True)
        _ended(runs, outcomes)
        return _returned(outcomes, return_exceptions)

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Return what :meth:`batch` returns, without blocking the event loop.

        As in LangChain, all queries are embedded at the same time unless the configuration has ``max_concurrency``.
        """
        if not self._in_lockstep(kwargs):
            return await super().abatch(inputs, config, return_exceptions=return_exceptions, **kwargs)
        most = _max_concurrency(config) or max(len(inputs), 1)
        runs = await asyncio.gather(*self._started(AsyncCallbackManager, inputs, config, kwargs))
        outcomes, good = _checked(inputs)
        queries = [inputs[place] for place in good]
        found: list[Any] = []
        with at_most(most), each_query_once():
            try:
                if good:
                    found = await self._adocuments(queries, [runs[place] for place in good], **kwargs)
            except Exception as error:
                found = [error] * len(good)
                if return_exceptions and len(good) > 1:
                    found = await concurrently(lambda query: self._aoutcome(query, kwargs), queries)
        outcomes |= zip(good, found, strict=True)
        await asyncio.gather(*_ended(runs, outcomes))
        return _returned(outcomes, return_exceptions)

    def _in_lockstep(self, kwargs: Mapping[str, Any]) -> bool:
        """Return whether a batch may bypass ``invoke``: not for a subclass that changed the result of a single query."""
        return (
            type(self)._get_relevant_documents is EngineRetriever._get_relevant_documents
            and type(self)._aget_relevant_documents is EngineRetriever._aget_relevant_documents
            and "run_id" not in kwargs
        )

    def _outcome(self, query: str, kwargs: Mapping[str, Any]) -> list[Document] | Exception:
        try:
            return self._documents([query], **kwargs)[0]
        except Exception as error:
            return error

    async def _aoutcome(self, query: str, kwargs: Mapping[str, Any]) -> list[Document] | Exception:
        try:
            return (await self._adocuments([query], **kwargs))[0]
        except Exception as error:
            return error

    def _started(self, manager: Any, inputs: list[str], config: Any, kwargs: Mapping[str, Any]) -> list[Any]:
        """Return one run (or its awaitable) per query, started as ``BaseRetriever.invoke`` starts it."""
        return [
            manager.configure(
                inheritable_callbacks=each.get("callbacks"),
                inheritable_tags=each.get("tags"),
                local_tags=self.tags,
                inheritable_metadata={**(each.get("metadata") or {}), **self._get_ls_params(**kwargs)},
                local_metadata=self.metadata,
            ).on_retriever_start(None, query, name=each.get("run_name") or self.get_name(), run_id=each.get("run_id"))
            for query, each in zip(inputs, get_config_list(config, len(inputs)), strict=True)
        ]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        engine = self._engine()
        source = getattr(engine, "index", getattr(engine, "database", engine))
        params["ls_vector_store_provider"] = type(source).__name__
        if isinstance(source, GraphIndex) and source.embedding is not None:
            params["ls_embedding_provider"] = type(source.embedding).__name__
            params["ls_embedding_model"] = source.embedding_name
        return params


def _max_concurrency(config: RunnableConfig | list[RunnableConfig] | None) -> int | None:
    """Return how many calls of a batch may run at the same time, as LangChain reads it: from the first configuration."""
    first = ensure_config(config[0] if config else None) if isinstance(config, Sequence) else ensure_config(config)
    most = first.get("max_concurrency")
    return None if most is None else positive("max_concurrency", most)


def _checked(inputs: Sequence[Any]) -> tuple[dict[int, Any], list[int]]:
    """Return the error of each query that is not a string, by its place, and the places of the others."""
    errors: dict[int, Any] = {}
    for place, query in enumerate(inputs):
        try:
            check_query(query, place)
        except InvalidArgumentError as error:
            errors[place] = error
    return errors, [place for place in range(len(inputs)) if place not in errors]


def _told(run: Any, results: Sequence[Hits]) -> tuple[Any, ...]:
    """Return the event that gives the callbacks of a run the requests of each step of its search."""
    # An empty question has no steps.
    steps = next((hits.trace.records() for hits in results if hits.trace), []) if run.handlers else []
    data = {"questions": len(results), "hits": sum(map(len, results)), "steps": steps}
    return run.handlers, "on_custom_event", "ignore_custom_event", "graph_retrievers.search", data


def _ended(runs: Sequence[Any], outcomes: Mapping[int, Any]) -> list[Any]:
    """End each run with its documents or its error; the results of asynchronous runs must be awaited."""
    return [
        run.on_retriever_error(outcomes[place])
        if isinstance(outcomes[place], BaseException)
        else run.on_retriever_end(outcomes[place])
        for place, run in enumerate(runs)
    ]


def _returned(outcomes: Mapping[int, Any], return_exceptions: bool) -> list[Any]:
    listed = [outcomes[place] for place in sorted(outcomes)]
    failed = [outcome for outcome in listed if isinstance(outcome, BaseException)]
    if failed and not return_exceptions:
        raise failed[0]
    return listed
