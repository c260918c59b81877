"""LlamaIndexVectors: a LlamaIndex vector store for a graph in a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["LlamaIndexVectors"]


class LlamaIndexVectors:
    """The vectors of a LlamaIndex store, for a :class:`~graph_retrievers.stores.remote.RemoteIndex`.

    The nodes of the graph must have the ids of the LlamaIndex nodes, and the store must compare by cosine. It is searched by
    ``query``, one query at a time.

    Parameters
    ----------
    store : BasePydanticVectorStore
        ``SimpleVectorStore``, or a store whose ``get_nodes`` returns nodes with their ``embedding``, such as Qdrant's.

    Raises
    ------
    InvalidArgumentError
        If the store does not return vectors by id, which the scores of neighbours need.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> store = SimpleVectorStore()
    >>> ids = store.add([TextNode(id_="loom", embedding=[1.0, 0.0]), TextNode(id_="card", embedding=[0.0, 1.0])])
    >>> LlamaIndexVectors(store).search(np.array([[0.1, 0.9]]), 1), LlamaIndexVectors(store).vectors(["loom", "engine"])
    ([['card']], {'loom': [1.0, 0.0]})
    """

    def __init__(self, store: BasePydanticVectorStore) -> None:
        if not isinstance(store, BasePydanticVectorStore):
            raise InvalidArgumentError(f"Expected a vector store of LlamaIndex, got {type(store).__name__}.")
        if not isinstance(store, SimpleVectorStore) and type(store).get_nodes is BasePydanticVectorStore.get_nodes:
            raise InvalidArgumentError(f"{type(store).__name__} has no get_nodes, which gives vectors by id; use a store that has.")
        self.store = store
        self._ids: list[str] | None = None

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; a search passes them as ``node_ids``.

        Some stores ignore these; such a store is refused when its search finds another node.
        """
        part = copy(self)
        part._ids = list(ids)
        return part

    def search(self, vectors: np.ndarray, k: int) -> list[list[str]]:
        """Return the ids of the k nearest of each vector, best first."""
        queries = [VectorStoreQuery(query_embedding=vector.tolist(), similarity_top_k=k, node_ids=self._ids) for vector in vectors]
        results = [self.store.query(query) for query in queries]
        return [list(result.ids or [node.node_id for node in result.nodes or ()]) for result in results]

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the vectors of the given ids; ids without a vector are left out."""
        if isinstance(self.store, SimpleVectorStore):
            table = self.store.data.embedding_dict
            return {name: table[name] for name in ids if name in table}
        nodes = self.store.get_nodes(node_ids=list(ids))
        bare = next((node.node_id for node in nodes if node.embedding is None), None)
        if bare is not None:
            raise InvalidArgumentError(
                f"The {type(self.store).__name__} gave node {bare!r} without its vector; use a store that gives vectors by id."
            )
        return {node.node_id: node.embedding for node in nodes}
