"""GraphVectorStore: an index store as a LlamaIndex vector store, so that an index of LlamaIndex keeps it up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from graph_retrievers.construction.documents import node_source, unit_vectors
from graph_retrievers.errors import InvalidArgumentError, UnknownNodeError
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.hits import Hit, NodePath
from graph_retrievers.index_store import IndexStore
from graph_retrievers.retrievers.registry import build_retriever
from graph_retrievers.signals.embedding import check_vectors
from llama_graph_retrievers.filters import engine_filter
from llama_graph_retrievers.nodes import node_of

__all__ = ["GraphVectorStore"]

_SYSTEMS = {
    VectorStoreQueryMode.DEFAULT: "vector",
    VectorStoreQueryMode.TEXT_SEARCH: "bm25",
    VectorStoreQueryMode.HYBRID: "hybrid",
}


class GraphVectorStore(BasePydanticVectorStore):
    """An :class:`~graph_retrievers.index_store.IndexStore` as a LlamaIndex vector store.

    ``insert``, ``refresh_ref_docs``, ``update_ref_doc`` and ``delete_ref_doc`` of a ``VectorStoreIndex`` on it change the graph
    too: nodes come and go with their edges, by default their relationships. Each call is on the disk when it returns. A
    :class:`~graph_retrievers.retrievers.store_retriever.StoreRetriever` in a :class:`~llama_graph_retrievers.GraphRetriever`
    searches what the store holds at the moment of the query.

    Parameters
    ----------
    store : IndexStore
        Its ``edges`` link the nodes.

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
        """Add nodes with their vectors, or replace those of the same ids; return the ids."""
        self._store.update(upsert=list({node.node_id: node for node in nodes}.values()))
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document, and their edges; a document that the store does not hold is skipped."""
        try:
            self._store.update(delete_sources=[ref_doc_id])
        except UnknownNodeError:
            return

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any) -> None:
        """Delete nodes that have one of some ids and pass filters, and their edges."""
        while len(self._store) and (ids := [node.node_id for node in self.get_nodes(node_ids, filters)]):
            try:
                self._store.update(delete=ids)
            except UnknownNodeError:
                # Another process was faster; the store has taken over what it left.
                continue

    def clear(self) -> None:
        """Delete all nodes."""
        if len(self._store):
            self._store.update(delete=list(self._store.index.graph.ids))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes that have one of some ids and pass filters, in the order of the store."""
        if not len(self._store):
            return []
        graph = self._store.index.graph
        rows = filter_mask(graph, engine_filter(filters or MetadataFilters(filters=[]), graph)).nonzero().flatten().tolist()
        nodes = (graph.node(row).shown() for row in rows if node_ids is None or graph.ids[row] in set(node_ids))
        return [
            node_of(Hit(n.id, n.text, 0.0, "", NodePath((n.id,)), title=n.title, type=n.type, metadata=n.metadata, origin=n.origin))
            for n in nodes
        ]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nearest nodes by vectors, by BM25 (``text_search``) or by both (``hybrid``)."""
        if query.mode not in _SYSTEMS:
            raise InvalidArgumentError(f"Mode {query.mode!r} is not one of {', '.join(mode.value for mode in _SYSTEMS)}.")
        if not len(self._store):
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        index = self._store.index
        conditions = [engine_filter(query.filters, index.graph)] if query.filters is not None else []
        wanted = set(query.node_ids) if query.node_ids is not None else None
        if query.doc_ids is not None:
            columns = zip(index.graph.ids, index.graph.metadata, index.graph.origins, strict=True)
            of_documents = {column[0] for column in columns if node_source(*column) in query.doc_ids}
            wanted = of_documents if wanted is None else wanted & of_documents
        if wanted is not None:
            conditions.append({"$id": {"$in": sorted(wanted)}})
        vector = None if query.query_embedding is None else unit_vectors(check_vectors([query.query_embedding]))[0]
        retriever = build_retriever(_SYSTEMS[query.mode], index, backfill=False)
        # BM25 needs words; a search by vector alone does not read them.
        text = query.query_str or "a vector"
        hits = retriever.retrieve(text, query.similarity_top_k, vector=vector, filter={"$and": conditions} if conditions else None)
        nodes = [node_of(hit) for hit in hits]
        return VectorStoreQueryResult(nodes=nodes, similarities=[hit.score for hit in hits], ids=[hit.id for hit in hits])
