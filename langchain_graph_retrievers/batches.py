"""Batches of questions in one call of the engine, with one traced run for each question."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.callbacks.manager import ahandle_event, handle_event
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, get_config_list
from pydantic import Field

from graph_retrievers.arguments import check_query, positive
from graph_retrievers.concurrency import at_most, concurrently, in_threads
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.hits import Hits
from graph_retrievers.retrievers.limits import in_thread
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.signals.embedding import each_query_once
from langchain_graph_retrievers.documents import to_documents


class BatchRetriever(BaseRetriever):
    """A LangChain retriever that answers many questions in one call of the engine; a subclass implements `_engine_call`."""

    provenance: bool = Field(default=False, description="Whether the metadata show how a document was found.")

    @abstractmethod
    def _engine_call(self, count: int, **options: Any) -> tuple[RetrieverProtocol, dict[str, Any]]:
        """Return the engine retriever for a call, and the keywords of its ``retrieve_batch`` for some queries."""

    def _documents(
        self, queries: list[str], runs: Sequence[Any] = (), provenance: bool | None = None, **options: Any
    ) -> list[list[Document]]:
        """Return the documents of each query, and give the callbacks of each run the steps of the search."""
        engine, keywords = self._engine_call(len(queries), **options)
        results = engine.retrieve_batch(queries, **keywords)
        for run in runs:
            if run.handlers:
                handle_event(*_search_event(run, results), run_id=run.run_id, tags=run.tags, metadata=run.metadata)
        return [to_documents(hits, provenance=self.provenance if provenance is None else provenance) for hits in results]

    async def _adocuments(
        self, queries: list[str], runs: Sequence[Any] = (), provenance: bool | None = None, **options: Any
    ) -> list[list[Document]]:
        """Return what :meth:`_documents` returns, without blocking the event loop."""
        engine, keywords = self._engine_call(len(queries), **options)
        method = getattr(engine, "aretrieve_batch", None)
        results = await (method(queries, **keywords) if method else in_thread(engine.retrieve_batch, queries, **keywords))
        for run in runs:
            if run.handlers:
                await ahandle_event(*_search_event(run, results), run_id=run.run_id, tags=run.tags, metadata=run.metadata)
        return [to_documents(hits, provenance=self.provenance if provenance is None else provenance) for hits in results]

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
        results: list[Any] = []
        with at_most(most), each_query_once():
            try:
                if good:
                    results = self._documents(queries, [runs[place] for place in good], **kwargs)
            except Exception as error:
                results = [error] * len(good)
                if return_exceptions and len(good) > 1:
                    # Answered one by one, the other queries are not affected by one that fails.
                    results = in_threads(lambda query: self._outcome(query, kwargs), queries)
        outcomes |= zip(good, results, strict=True)
        _ended(runs, outcomes)
        return _results(outcomes, return_exceptions)

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
        results: list[Any] = []
        with at_most(most), each_query_once():
            try:
                if good:
                    results = await self._adocuments(queries, [runs[place] for place in good], **kwargs)
            except Exception as error:
                results = [error] * len(good)
                if return_exceptions and len(good) > 1:
                    results = await concurrently(lambda query: self._aoutcome(query, kwargs), queries)
        outcomes |= zip(good, results, strict=True)
        await asyncio.gather(*_ended(runs, outcomes))
        return _results(outcomes, return_exceptions)

    def _in_lockstep(self, kwargs: Mapping[str, Any]) -> bool:
        """Return whether a batch may bypass ``invoke``: not for a subclass that changed the result of a single query."""
        return (
            type(self)._get_relevant_documents is BatchRetriever._get_relevant_documents
            and type(self)._aget_relevant_documents is BatchRetriever._aget_relevant_documents
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
                inheritable_callbacks=run_config.get("callbacks"),
                inheritable_tags=run_config.get("tags"),
                local_tags=self.tags,
                inheritable_metadata={**(run_config.get("metadata") or {}), **self._get_ls_params(**kwargs)},
                local_metadata=self.metadata,
            ).on_retriever_start(None, query, name=run_config.get("run_name") or self.get_name(), run_id=run_config.get("run_id"))
            for query, run_config in zip(inputs, get_config_list(config, len(inputs)), strict=True)
        ]


def _search_event(run: Any, results: Sequence[Hits]) -> tuple[Any, ...]:
    """Return the event that gives the callbacks of a run the requests of each step of its search."""
    # An empty question has no steps.
    steps = next((hits.trace.records() for hits in results if hits.trace), [])
    data = {"questions": len(results), "hits": sum(map(len, results)), "steps": steps}
    return run.handlers, "on_custom_event", "ignore_custom_event", "graph_retrievers.search", data


def _max_concurrency(config: RunnableConfig | list[RunnableConfig] | None) -> int | None:
    """Return how many calls of a batch may run at the same time, as LangChain reads it: from the first configuration."""
    most = ensure_config(next(iter(config), None) if isinstance(config, Sequence) else config).get("max_concurrency")
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


def _ended(runs: Sequence[Any], outcomes: Mapping[int, Any]) -> list[Any]:
    """End each run with its documents or its error; the results of asynchronous runs must be awaited."""
    return [
        run.on_retriever_error(outcomes[place])
        if isinstance(outcomes[place], BaseException)
        else run.on_retriever_end(outcomes[place])
        for place, run in enumerate(runs)
    ]


def _results(outcomes: Mapping[int, Any], return_exceptions: bool) -> list[Any]:
    results = [outcomes[place] for place in sorted(outcomes)]
    errors = [outcome for outcome in results if isinstance(outcome, BaseException)]
    if errors and not return_exceptions:
        raise errors[0]
    return results
