"""Spreading activation inside a graph database, as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict, Field

from graph_retrievers.stores.cypher import CypherDatabase, CypherSpreadingActivation
from langchain_graph_retrievers.documents import to_documents

__all__ = ["CypherSpreadingActivationRetriever"]


class CypherSpreadingActivationRetriever(BaseRetriever):
    """Spreading activation as one query inside a graph database: Neo4j, or another that speaks Bolt and openCypher.

    ``ainvoke`` asks the database over the event loop. ``invoke`` and ``ainvoke`` take `k`, `entities` (names that the
    question mentions, where they are known) and `vector` (the question's vector) for one call.

    Parameters
    ----------
    retriever : CypherSpreadingActivation
        The engine retriever, with its settings.
    k : int, optional
        Entities to return; by default the engine retriever's own k. Fewer come where the activation reaches fewer. Where the
        engine retriever's `chains` are "hits", they come behind these, as documents of the metadata ``kind`` "chain" whose
        text is the chain, ``a -[relation]-> b``.

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", 2026; see
    :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`.

    Examples
    --------
    ::

        with CypherDatabase("bolt://localhost:7687", ("neo4j", password)) as database:
            retriever = CypherSpreadingActivationRetriever.from_database(database, embedding=embeddings, k=10)
            documents = retriever.invoke("Who wrote the first program?")
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: CypherSpreadingActivation = Field(repr=False, exclude=True)
    k: int | None = Field(None, ge=1)

    @classmethod
    def from_database(cls, database: CypherDatabase, *, k: int | None = None, **options: Any) -> Self:
        """Return a retriever on a database.

        Parameters
        ----------
        database : CypherDatabase
        k : int, optional
            Entities to return, 30 by default.
        **options
            Keywords of :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`, such as ``embedding``,
            ``language_model``, ``gate`` and ``chains``.
        """
        return cls(retriever=CypherSpreadingActivation(database, **options), k=k)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        entities: Sequence[str] | None = None,
        vector: Any = None,
    ) -> list[Document]:
        k = self.k if k is None else k
        return to_documents(self.retriever.retrieve(query, k, entities=entities, vector=vector))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        entities: Sequence[str] | None = None,
        vector: Any = None,
    ) -> list[Document]:
        k = self.k if k is None else k
        return to_documents(await self.retriever.aretrieve(query, k, entities=entities, vector=vector))

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.retriever.database).__name__
        return params
