"""Spreading activation inside a graph database, as a LlamaIndex retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore

from graph_retrievers.stores.cypher import CypherDatabase, CypherSpreadingActivation
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.retrievers.retriever import HitList
from llama_graph_retrievers.nodes import node_lookup, scored_nodes
from llama_graph_retrievers.query_vectors import QueryVectors

__all__ = ["CypherSpreadingActivationRetriever"]


class CypherSpreadingActivationRetriever(BaseRetriever):
    """Spreading activation as one query inside a graph database: Neo4j, or another that speaks Bolt and openCypher.

    ``aretrieve`` asks the database over the event loop.

    Parameters
    ----------
    retriever : CypherSpreadingActivation
        The engine retriever, with its settings.
    similarity_top_k : int, optional
        Entities to return; 0 returns none. By default the engine retriever's own k, which is 30. Fewer come where the
        activation reaches fewer. Where the engine retriever's `chains` are "hits", they come behind these, as nodes of
        the metadata ``kind`` "chain" whose text is the chain, ``a -[relation]-> b``.
    entities : callable, optional
        From a question to the names it mentions, or None where the engine retriever is to find them.
    nodes : iterable of BaseNode or document store, optional
        Nodes whose copies are returned where a hit has the id of one.
    provenance : bool, default True
        Whether the metadata of a hit say how it was found.
    callback_manager, object_map, objects, verbose : optional
        As for every LlamaIndex retriever.

    Notes
    -----
    The ``embedding`` of a ``QueryBundle`` is used where it has one; otherwise the engine retriever's embedding model makes
    it, if there is one, and it is stored back.

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", 2026; see
    :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`.

    Examples
    --------
    ::

        with CypherDatabase("bolt://localhost:7687", ("neo4j", password)) as database:
            retriever = CypherSpreadingActivationRetriever.from_database(database, embed_model=embed_model)
            nodes = retriever.retrieve("Who wrote the first program?")
    """

    def __init__(
        self,
        retriever: CypherSpreadingActivation,
        *,
        similarity_top_k: int | None = None,
        entities: Callable[[str], Sequence[str] | None] | None = None,
        nodes: Iterable[BaseNode] | BaseDocumentStore | None = None,
        provenance: bool = True,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(retriever, CypherSpreadingActivation):
            raise InvalidArgumentError(
                f"Expected a CypherSpreadingActivation, got {type(retriever).__name__}; for a database use "
                f"{type(self).__name__}.from_database."
            )
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)
        k = retriever.k if similarity_top_k is None else similarity_top_k
        if isinstance(k, bool) or not isinstance(k, int) or k < 0:
            raise InvalidArgumentError(f"similarity_top_k must be an integer of at least 0, got {k!r}.")
        self.engine, self.similarity_top_k = retriever, k
        self._entities, self._provenance = entities, provenance
        self._lookups = [node_lookup(objects), node_lookup(nodes)]

    @classmethod
    def from_database(
        cls,
        database: CypherDatabase,
        *,
        embed_model: Any = None,
        similarity_top_k: int | None = None,
        entities: Callable[[str], Sequence[str] | None] | None = None,
        **options: Any,
    ) -> Self:
        """Return a retriever on a database.

        Parameters
        ----------
        database : CypherDatabase
        embed_model : BaseEmbedding, optional
            Embedding model of the nodes' vectors, see :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`.
        similarity_top_k, entities
            See the class.
        **options
            Keywords of :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`, such as ``language_model``, ``gate``
            and ``chains``.
        """
        engine = CypherSpreadingActivation(database, embedding=embed_model, **options)
        return cls(engine, similarity_top_k=similarity_top_k, entities=entities)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.similarity_top_k == 0:
            return []
        question, options = self._asked(query_bundle)
        return self._nodes(self.engine.retrieve(question, self.similarity_top_k, **options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.similarity_top_k == 0:
            return []
        # Models compute in a thread; the database answers over the event loop.
        question, options = await asyncio.to_thread(self._asked, query_bundle)
        return self._nodes(await self.engine.aretrieve(question, self.similarity_top_k, **options))

    def _asked(self, bundle: QueryBundle) -> tuple[str, dict[str, Any]]:
        """Return the question, and what else goes with it."""
        question = bundle.query_str.strip()
        entities = self._entities(question) if self._entities is not None else None
        vector = bundle.embedding
        if vector is None and self.engine.embedding is not None and question:
            vector = QueryVectors([bundle], self.engine.embedding)([question])[0]
        return question, {"entities": entities, "vector": vector}

    def _nodes(self, hits: HitList) -> list[NodeWithScore]:
        return scored_nodes(hits, self._provenance, *self._lookups)
