"""How calls reach an engine that answers many queries at once: one query, batches, their callbacks; sync and async."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, run_in_executor

from graph_retrievers.graph.filters import Filter

__all__ = ["BatchRetriever"]


class BatchRetriever(BaseRetriever, ABC):
    """A LangChain retriever whose ``batch`` is one call of the engine, with one traced run a query."""

    @abstractmethod
    def _documents(
        self,
        queries: list[str],
        k: int | None = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        vector: Any = None,
        **inputs: Any,
    ) -> list[list[Document]]:
        """Return the documents of many queries; the keywords hold for each of them."""

    # -- one query ----------------------------------------------------------------------------------------------

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        vector: Any = None,
        **inputs: Any,
    ) -> list[Document]:
        return self._documents([query], k, filter, seed_filter, traversal_filter, vector, **inputs)[0]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        vector: Any = None,
        **inputs: Any,
    ) -> list[Document]:
        # Tensor work releases the event loop only from another thread.
        found = await run_in_executor(None, self._documents, [query], k, filter, seed_filter, traversal_filter, vector, **inputs)
        return found[0]

    # -- many queries -------------------------------------------------------------------------------------------

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Return the documents of each query, all run in lock-step; see :meth:`Runnable.batch` for the arguments."""
        if not self._in_lockstep(kwargs):
            return super().batch(inputs, config, return_exceptions=return_exceptions, **kwargs)
        runs = [
            CallbackManager.configure(**self._traced(each, kwargs)).on_retriever_start(None, text, **self._named(each))
            for text, each in zip(inputs, get_config_list(config, len(inputs)), strict=True)
        ]
        outcomes = self._outcomes(inputs, return_exceptions, kwargs)
        for run, outcome in zip(runs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                run.on_retriever_error(outcome)
            else:
                run.on_retriever_end(outcome)
        return _returned(outcomes, return_exceptions)

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Return what :meth:`batch` returns, without blocking the event loop."""
        if not self._in_lockstep(kwargs):
            return await super().abatch(inputs, config, return_exceptions=return_exceptions, **kwargs)
        configs = get_config_list(config, len(inputs))
        managers = [AsyncCallbackManager.configure(**self._traced(each, kwargs)) for each in configs]
        runs = await asyncio.gather(
            *(
                manager.on_retriever_start(None, text, **self._named(each))
                for manager, text, each in zip(managers, inputs, configs, strict=True)
            )
        )
        outcomes = await run_in_executor(None, self._outcomes, inputs, return_exceptions, kwargs)
        await asyncio.gather(
            *(
                run.on_retriever_error(outcome) if isinstance(outcome, Exception) else run.on_retriever_end(outcome)
                for run, outcome in zip(runs, outcomes, strict=True)
            )
        )
        return _returned(outcomes, return_exceptions)

    def _in_lockstep(self, kwargs: Mapping[str, Any]) -> bool:
        """Return whether a batch may bypass ``invoke``: not for a subclass that changed what one query gives."""
        return (
            type(self)._get_relevant_documents is BatchRetriever._get_relevant_documents
            and type(self)._aget_relevant_documents is BatchRetriever._aget_relevant_documents
            and "run_id" not in kwargs
        )

    def _outcomes(self, queries: list[str], each: bool, kwargs: Mapping[str, Any]) -> list[list[Document] | Exception]:
        """Return documents or the error of every query; with `each`, one bad query does not spoil the others."""
        try:
            return list(self._documents(queries, **kwargs))
        except Exception as error:
            if not each or len(queries) == 1:
                return [error] * len(queries)
        return [outcome for query in queries for outcome in self._outcomes([query], False, kwargs)]

    def _traced(self, config: RunnableConfig, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a callback manager is configured with, as ``BaseRetriever.invoke`` does."""
        return {
            "inheritable_callbacks": config.get("callbacks"),
            "inheritable_tags": config.get("tags"),
            "local_tags": self.tags,
            "inheritable_metadata": {**(config.get("metadata") or {}), **self._get_ls_params(**kwargs)},
            "local_metadata": self.metadata,
        }

    def _named(self, config: RunnableConfig) -> dict[str, Any]:
        return {"name": config.get("run_name") or self.get_name(), "run_id": config.get("run_id")}


def _returned(outcomes: list[list[Document] | Exception], return_exceptions: bool) -> list[Any]:
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed and not return_exceptions:
        raise failed[0]
    return outcomes
