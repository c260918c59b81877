"""GraphVectorStore: an index store as a LangChain vector store, for the indexing API."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self
from uuid import uuid4

import numpy as np
import torch
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, UnknownNodeError
from graph_retrievers.hits import Hits
from graph_retrievers.index import IndexStore
from graph_retrievers.retrievers.limits import in_thread
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.store_retriever import EMPTY_STORE, StoreRetriever
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import Embedding, aembed_queries, embed_queries
from langchain_graph_retrievers.documents import to_documents

__all__ = ["GraphVectorStore"]


class GraphVectorStore(VectorStore):
    """An :class:`~graph_retrievers.index.IndexStore` as a LangChain vector store.

    ``langchain_core.indexing.index`` keeps it up to date: documents are added and deleted with their edges, and only new texts
    are embedded. Each change is on disk when its call returns. A
    :class:`~graph_retrievers.retrievers.store_retriever.StoreRetriever` searches the contents at query time, along edges too.

    Parameters
    ----------
    store : IndexStore
        Its ``edges`` link the documents.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from langchain_core.indexing import InMemoryRecordManager, index
    >>> from langchain_graph_retrievers import GraphRetriever
    >>> records = InMemoryRecordManager("looms")
    >>> records.create_schema()
    >>> with TemporaryDirectory() as folder:
    ...     store = IndexStore(folder)
    ...     retriever = GraphRetriever(retriever=StoreRetriever(store, "bm25"), k=1)
    ...     cards = [Document("Cards drive a loom.", metadata={"source": "a.md"})]
    ...     options = {"cleanup": "incremental", "source_id_key": "source", "key_encoder": "sha256"}
    ...     done = index(cards, records, GraphVectorStore(store), **options)
    ...     print(done["num_added"], retriever.invoke("Which loom?")[0].page_content)
    1 Cards drive a loom.
    """

    def __init__(self, store: IndexStore) -> None:
        self.store = store

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedding model, if it is a LangChain ``Embeddings``."""
        return self.store.embedding if isinstance(self.store.embedding, Embeddings) else None

    def add_documents(self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same ids; return the ids.

        Parameters
        ----------
        documents : list of Document
        ids : sequence of str, optional
            By default those of the documents; a document without one gets one.
        **kwargs
            Ignored, for example ``batch_size`` of LangChain's indexing.
        """
        names = [document.id for document in documents] if ids is None else list(ids)
        if len(names) != len(documents):
            raise InvalidArgumentError(f"ids has {len(names)} entries for {len(documents)} documents; pass one id per document.")
        new_ids = [name or str(uuid4()) for name in names]
        # If documents have the same id, the last is kept, as in LangChain's stores.
        latest = {name: doc.model_copy(update={"id": name}) for name, doc in zip(new_ids, documents, strict=True)}
        self.store.update(upsert=list(latest.values()))
        return new_ids

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents and their edges; ids that are not in the store are skipped. Return True."""
        if ids is None or isinstance(ids, str):
            raise InvalidArgumentError(f"ids is {ids!r}; expected a list of the ids to delete.")
        while present := [name for name in dict.fromkeys(ids) if len(self.store) and name in self.store.index.graph]:
            # Another process may be faster; the store has then loaded its changes.
            with suppress(UnknownNodeError):
                self.store.update(delete=present)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids that are in the store, in the order of the ids."""
        if not len(self.store):
            return []
        graph = self.store.index.graph
        nodes = (graph.node(graph.row(name)).shown() for name in ids if name in graph)
        return [Document(node.text, id=node.id, metadata=dict(node.metadata)) for node in nodes]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents most similar to a query, by vectors, or by BM25 in a store without an embedding model.

        `kwargs` may have ``filter``: see :func:`graph_retrievers.graph.filters.filter_mask`.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:  # type: ignore[override]
        """Return the documents of :meth:`similarity_search` with scores; larger is better."""
        return _scored(self._plain().retrieve(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return what :meth:`similarity_search` returns; the embedding model is awaited."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, **kwargs)]

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:  # type: ignore[override]
        """Return what :meth:`similarity_search_with_score` returns; the embedding model is awaited."""
        return _scored(await self._plain().aretrieve(query, k, **kwargs))

    def _plain(self) -> StoreRetriever:
        return StoreRetriever(self.store, "bm25" if self.store.embedding is None else "vector", backfill=False)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents whose vectors are nearest."""
        hits = StoreRetriever(self.store, "vector").retrieve("a vector", k, vector=embedding, **kwargs)
        return [document for document, _ in _scored(hits)]

    def _similarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the documents of a vector search with LangChain's relevance scores: their cosines, 0 for negative ones."""
        self._model("search_type='similarity_score_threshold'")
        return _relevant(self._plain().retrieve(query, k, **kwargs))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        self._model("search_type='similarity_score_threshold'")
        return _relevant(await self._plain().aretrieve(query, k, **kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return k documents that are similar to a query but not to each other, out of the `fetch_k` nearest by vectors.

        `lambda_mult` weights the similarity to the query, and 1 - `lambda_mult` the similarity to documents already chosen.
        """
        model = self._model("search_type='mmr'")
        if isinstance(query, str) and not query.strip():
            # No document is similar to an empty query; the first that pass the filter are returned.
            return self.similarity_search(query, k, **kwargs)
        vector = embed_queries(model, [query])[0].tolist()
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return what :meth:`max_marginal_relevance_search` returns; the embedding model is awaited."""
        vector = (await aembed_queries(self._model("search_type='mmr'"), [query]))[0].tolist()
        return await in_thread(self.max_marginal_relevance_search_by_vector, vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return what :meth:`max_marginal_relevance_search` returns, for the vector of a query."""
        if not len(self.store):
            return to_documents(Hits((), [EMPTY_STORE]))
        # Both the hits and their vectors are those of one state of the store.
        index = self.store.index
        hits = Retriever(index, "vector", backfill=False).retrieve("a vector", fetch_k, vector=embedding, **kwargs)
        if not isinstance(index.dense, DenseIndex):
            raise MissingSignalError(f"A {type(index.dense).__name__} does not give its vectors; use search_type='similarity'.")
        vectors = index.dense.taken(torch.tensor([index.graph.row(hit.id) for hit in hits], dtype=torch.int64)).tolist()
        places = maximal_marginal_relevance(np.array(embedding, dtype=np.float32), vectors, lambda_mult, k)
        return to_documents(Hits((hits[place] for place in places), hits.notes))

    def _model(self, purpose: str) -> Embedding:
        if self.store.embedding is None:
            raise MissingSignalError(
                f"The store has no embedding model, which {purpose} needs: make it with IndexStore(..., embedding=), or search "
                "with search_type='similarity', which ranks by words."
            )
        model: Embedding = self.store.embedding
        return model

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        folder: Any = None,
        **options: Any,
    ) -> Self:
        """Return a store of texts in a new folder; `options` are keywords of :class:`~graph_retrievers.index.IndexStore`."""
        if folder is None:
            raise InvalidArgumentError("from_texts needs folder=, where the index is kept.")
        result = cls(IndexStore(folder, embedding=embedding, **options))
        result.add_texts(texts, metadatas, ids=ids)
        return result


def _relevant(hits: Hits) -> list[tuple[Document, float]]:
    return [(document, max(hit.similarity or 0.0, 0.0)) for document, hit in zip(to_documents(hits), hits, strict=True)]


def _scored(hits: Hits) -> list[tuple[Document, float]]:
    return [(document, hit.score) for document, hit in zip(to_documents(hits), hits, strict=True)]
