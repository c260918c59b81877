"""Vector stores of LlamaIndex: their nodes and vectors are read once, or searched beside a graph in a database."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from inspect import signature
from typing import Any, Self

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.graph_stores.types import VECTOR_SOURCE_KEY
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.utils import metadata_dict_to_node
from torch import Tensor

from graph_retrievers.construction.vector_stores import chroma_metric, faiss_metric, index_metric, qdrant_metric
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.stores.postgres.vector_stores import StoredRow, store_table
from llama_graph_retrievers.graph_vector_store import GraphVectorStore

_logger = logging.getLogger(__name__)


def contents(index: VectorStoreIndex) -> dict[str, Any]:
    """Return the ids of the nodes in the vector store of an index, each with an object that is another one if the node changes.

    Empty for a store that keeps texts, which only lists all of its nodes at once.
    """
    if isinstance(index.vector_store, SimpleVectorStore):
        return dict(index.vector_store.data.embedding_dict)
    if index.vector_store.stores_text:
        return {}
    return {node: key for key, node in dict(index.index_struct.nodes_dict).items()}


def index_nodes(index: VectorStoreIndex, names: Iterable[str] | None = None) -> list[BaseNode]:
    """Return the nodes of an index, in the order of its vector store; only some of its :func:`contents` if `names` are given.

    Their ``embedding`` is the vector of the store if it gives it: ``SimpleVectorStore``, faiss, PGVectorStore, Chroma, and stores
    that list their nodes with it, as those of Qdrant and LanceDB. InvalidArgumentError if the store cannot list its nodes.
    """
    store = index.vector_store
    if store.stores_text:
        return _all_nodes(store, "pass them as nodes=, with their vectors in embedding where you have them")
    keys = contents(index)
    entries = keys if names is None else {name: keys[name] for name in names if name in keys}
    if not isinstance(store, SimpleVectorStore):
        client: Any = store.client
        numbered = hasattr(client, "reconstruct") and all(key.isdigit() for key in entries.values())
        entries = {node: client.reconstruct(int(key)).tolist() if numbered else None for node, key in entries.items()}
    nodes = {node.node_id: node for node in index.docstore.get_nodes(list(entries), raise_error=False)}
    return [nodes[name].model_copy(update={"embedding": vector}) for name, vector in entries.items() if name in nodes]


def store_metric(index: VectorStoreIndex, vectors: Tensor) -> str | None:
    """Return the metric of an index with the order of the vector store, whose `vectors` have shape [N, d]; None if unknown.

    Raises InvalidArgumentError if the order cannot be kept: see :func:`graph_retrievers.construction.vector_stores.index_metric`.
    """
    store = index.vector_store
    client: Any = store.client
    metric = None
    if (table := store_table(store)) is not None:
        metric = table.metric
    elif hasattr(client, "metric_type"):
        metric = faiss_metric(client)
    elif type(client).__module__.startswith("chromadb."):
        metric = chroma_metric(client)
    elif hasattr(client, "get_collection") and hasattr(store, "collection_name"):
        metric = qdrant_metric(client, store.collection_name)
    return index_metric(
        metric,
        vectors,
        f"The {type(store).__name__}",
        "Use a store of unit vectors, or of inner products; or pass the nodes as nodes=, to compare them by cosine.",
    )


def entity_vectors(store: BasePydanticVectorStore) -> dict[str, Any]:
    """Return the vectors of a property graph's entities in the vector store of its ``PropertyGraphIndex``, by entity.

    Raises InvalidArgumentError if :func:`index_nodes` does not support the store, or it cannot list its nodes.
    """
    if not isinstance(store, BasePydanticVectorStore):
        raise InvalidArgumentError(f"vector_store is a {type(store).__name__}; expected a vector store of LlamaIndex.")
    if isinstance(store, SimpleVectorStore):
        return dict(store.data.embedding_dict)
    nodes = _all_nodes(store, "pass the graph store alone, and its entities are embedded")
    # A store that keeps texts has its own nodes, which name the entities.
    pairs = ((node.metadata.get(VECTOR_SOURCE_KEY, node.node_id), node.embedding) for node in nodes)
    return {entity: vector for entity, vector in pairs if vector is not None}


def warn_of_lost_edges(store: BasePydanticVectorStore, graph: CorpusGraph) -> None:
    """Warn if the index store behind a vector store has edges that are not in a graph made from its nodes."""
    if not isinstance(store, GraphVectorStore) or not len(store.client):
        return
    kept, present = ({(e.source, e.target, e.relation) for e in g.edges()} for g in (store.client.index.graph, graph))
    if lost := len(kept - present):
        _logger.warning(
            "%d of the edges of the IndexStore are not in this index, which is made of its nodes alone; "
            "GraphRetriever(StoreRetriever(store)) searches the store with its edges.",
            lost,
        )


def _all_nodes(store: BasePydanticVectorStore, instead: str) -> list[BaseNode]:
    """Return the nodes of a store that keeps them, with their vectors if it returns these."""
    if (table := store_table(store)) is not None:
        return [_node(row) for row in table.rows()]
    # A store that takes a limit has a default: 9,999 for Qdrant.
    limit: dict[str, Any] = {"limit": 2**31 - 1} if "limit" in signature(store.get_nodes).parameters else {}
    try:
        nodes = list(store.get_nodes(node_ids=None, **limit))
    except Exception as error:
        # Every store has its own error for this.
        raise InvalidArgumentError(
            f"A {type(store).__name__} does not list its nodes ({type(error).__name__}: {error}); {instead}."
        ) from error
    client: Any = store.client
    if type(client).__module__.startswith("chromadb.") and any(node.embedding is None for node in nodes):
        # Chroma keeps the vectors, but its store lists the nodes without them.
        records = client.get(include=["embeddings"])
        vectors = dict(zip(records["ids"], records["embeddings"], strict=True))
        nodes = [node.model_copy(update={"embedding": [float(x) for x in vectors[node.node_id]]}) for node in nodes]
    return nodes


def _node(row: StoredRow) -> BaseNode:
    try:
        node = metadata_dict_to_node(row.metadata)
        node.set_content(row.text)
    except (KeyError, TypeError, ValueError):
        # LlamaIndex did not write this row.
        node = TextNode(text=row.text, metadata=row.metadata)
    return node.model_copy(update={"id_": row.id, "embedding": row.vector.tolist()})


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
