"""GraphVectorStore: an index store as a LlamaIndex vector store, which an index of LlamaIndex keeps up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from torch import Tensor

from graph_retrievers.arguments import fraction
from graph_retrievers.errors import InvalidArgumentError, UnknownNodeError
from graph_retrievers.graph.addresses import node_source
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.hits import Hit, NodePath
from graph_retrievers.index import IndexStore
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.store_retriever import EMPTY_STORE
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.vectors import check_vectors, unit_vectors
from graph_retrievers.systems.baselines import BM25, Hybrid, Vector
from llama_graph_retrievers.metadata_filters import engine_filter
from llama_graph_retrievers.nodes import node_of, warn_of_nothing_found

_SYSTEMS = {
    VectorStoreQueryMode.DEFAULT: Vector(),
    VectorStoreQueryMode.TEXT_SEARCH: BM25(),
    VectorStoreQueryMode.HYBRID: Hybrid(),
}


class GraphVectorStore(BasePydanticVectorStore):
    """An :class:`~graph_retrievers.index.IndexStore` as a LlamaIndex vector store.

    ``insert``, ``refresh_ref_docs``, ``update_ref_doc`` and ``delete_ref_doc`` of a ``VectorStoreIndex`` on it change the graph
    too: nodes are added and deleted with their edges, by default their relationships. Each change is on disk when its call
    returns. A :class:`~graph_retrievers.retrievers.store_retriever.StoreRetriever` in a
    :class:`~llama_graph_retrievers.GraphRetriever` searches the contents of the store at the time of the query.

    Parameters
    ----------
    store : IndexStore
        Its ``edges`` link the nodes.

    Notes
    -----
    A ``VectorStoreIndex`` keeps an ``IndexNode`` itself, and then asks the store only for the nodes that it keeps. If an index
    also has nodes of other classes, make it with ``store_nodes_override=True``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from llama_index.core import Document, MockEmbedding, VectorStoreIndex
    >>> from graph_retrievers.retrievers.store_retriever import StoreRetriever
    >>> from llama_graph_retrievers import GraphRetriever
    >>> with TemporaryDirectory() as folder:
    ...     store = IndexStore(folder)
    ...     index = VectorStoreIndex.from_vector_store(GraphVectorStore(store), embed_model=MockEmbedding(2))
    ...     retriever = GraphRetriever(StoreRetriever(store, "bm25"), similarity_top_k=1)
    ...     print(index.refresh_ref_docs([Document(text="A loom.", id_="a"), Document(text="A card.", id_="b")]))
    ...     index.delete_ref_doc("a")
    ...     print([hit.text for hit in retriever.retrieve("Which card or loom?")])
    [True, True]
    ['A card.']
    """

    stores_text: bool = True
    _store: IndexStore = PrivateAttr()

    def __init__(self, store: IndexStore) -> None:
        super().__init__(stores_text=True)
        self._store = store

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "GraphVectorStore"

    @property
    def client(self) -> IndexStore:
        """The index store."""
        return self._store

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes with their vectors, or replace those with the same ids; return the ids."""
        self._store.update(upsert=list({node.node_id: node for node in nodes}.values()))
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Do what :meth:`add` does, without blocking the event loop."""
        return await asyncio.to_thread(self.add, nodes)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document and their edges; a document that is not in the store is skipped."""
        with suppress(UnknownNodeError):
            self._store.update(delete_sources=[ref_doc_id])

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Do what :meth:`delete` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete, ref_doc_id)

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any) -> None:
        """Delete the nodes with the given ids that pass the filters, and their edges; an empty list of ids deletes none."""
        while len(self._store) and (rows := _rows(graph := self._store.index.graph, node_ids, filters)):
            # Another process may be faster; the store has then loaded its changes.
            with suppress(UnknownNodeError):
                self._store.update(delete=[graph.ids[row] for row in rows])

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Do what :meth:`delete_nodes` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    def clear(self) -> None:
        """Delete all nodes."""
        self.delete_nodes()

    async def aclear(self) -> None:
        """Do what :meth:`clear` does, without blocking the event loop."""
        await asyncio.to_thread(self.clear)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes with the given ids that pass the filters, with their vectors, in the order of the store."""
        if not len(self._store):
            return []
        index = self._store.index
        rows = _rows(index.graph, node_ids, filters)
        dense = index.signals.get("dense")
        vectors = (
            dense.taken(torch.tensor(rows, dtype=torch.int64)).tolist() if isinstance(dense, DenseIndex) else [None] * len(rows)
        )
        nodes = []
        for n, vector in zip((index.graph.node(row).shown() for row in rows), vectors, strict=True):
            hit = Hit(n.id, n.text, 0.0, "", NodePath((n.id,)), title=n.title, type=n.type, metadata=n.metadata, origin=n.origin)
            nodes.append(node_of(hit).model_copy(update={"embedding": vector}))
        return nodes

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return what :meth:`get_nodes` returns, without blocking the event loop."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nearest nodes by vectors, by BM25 (``text_search``) or by both (``hybrid``).

        If the ids of nodes and documents are None or empty, only the filters apply, because an index of LlamaIndex passes an
        empty list to a store that keeps texts. In a hybrid search, ``alpha`` weights the vectors and 1 - ``alpha`` the words;
        ``hybrid_top_k`` takes precedence over ``similarity_top_k``. A query without words and without a vector, as an
        auto-retriever sends for a question that is only a filter, returns the first nodes that pass the filters. If nothing is
        found, a warning says why.
        """
        if query.mode not in _SYSTEMS:
            raise InvalidArgumentError(f"Mode {query.mode!r} is not one of {', '.join(mode.value for mode in _SYSTEMS)}.")
        if not len(self._store):
            warn_of_nothing_found([EMPTY_STORE])
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        index, k, system = self._store.index, query.similarity_top_k, _SYSTEMS[query.mode]
        words = query.query_str or ""
        if query.mode != VectorStoreQueryMode.DEFAULT and query.query_str is None:
            raise InvalidArgumentError(f"A query of mode {query.mode.value!r} searches words; pass them as query_str.")
        if query.mode == VectorStoreQueryMode.HYBRID:
            k = query.hybrid_top_k or k
            if query.alpha is not None:
                system = Hybrid(weights=(fraction("alpha", query.alpha), 1 - query.alpha))
        vector = None if query.query_embedding is None else unit_vectors(check_vectors([query.query_embedding]))[0]
        # A search only by vectors does not read the words. Of a question of spaces, an index of LlamaIndex sends a vector too.
        only_vector = query.mode == VectorStoreQueryMode.DEFAULT and vector is not None and not words
        text = "a vector" if only_vector else words
        retriever = Retriever(index, system, backfill=False)
        hits = retriever.retrieve(text, k, vector=vector, filter=_query_mask(index.graph, query))
        if not hits:
            warn_of_nothing_found(hits.notes)
        nodes = [node_of(hit) for hit in hits]
        return VectorStoreQueryResult(nodes=nodes, similarities=[hit.score for hit in hits], ids=[hit.id for hit in hits])

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return what :meth:`query` returns, without blocking the event loop."""
        return await asyncio.to_thread(self.query, query)


def _rows(graph: CorpusGraph, node_ids: list[str] | None, filters: MetadataFilters | None) -> list[int]:
    """Return the rows, in order, of the nodes with the given ids (None for all) that pass the filters."""
    mask = None if filters is None else filter_mask(graph, engine_filter(filters, graph))
    if node_ids is None:
        return list(range(len(graph))) if mask is None else mask.nonzero().flatten().tolist()
    return sorted(row for row in {graph.row(name) for name in node_ids if name in graph} if mask is None or mask[row])


def _query_mask(graph: CorpusGraph, query: VectorStoreQuery) -> Tensor | None:
    """Return which nodes a query may find: Tensor, shape [N], bool, or None for all."""
    if not (query.node_ids or query.doc_ids or query.filters):
        return None
    mask = torch.zeros(len(graph), dtype=torch.bool)
    mask[_rows(graph, query.node_ids or None, query.filters)] = True
    if query.doc_ids:
        columns, sources = zip(graph.ids, graph.metadata, graph.origins, strict=True), set(query.doc_ids)
        mask &= torch.tensor([node_source(*column) in sources for column in columns])
    return mask
