"""An index that follows the nodes of a VectorStoreIndex, which changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from operator import is_
from typing import Any

import torch
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode

from graph_retrievers.cache import Cache
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.signal import VectorSignal
from graph_retrievers.signals.vectors import check_vectors
from llama_graph_retrievers.stores import contents, index_nodes, store_metric
from llama_graph_retrievers.vectors import node_vectors

_logger = logging.getLogger(__name__)


class FollowedIndex:
    """The index of the nodes that a ``VectorStoreIndex`` has now.

    `index` is that of the contents `before` (see :func:`~llama_graph_retrievers.stores.contents`); it may have further nodes,
    which stay. New nodes get titles from `title_key`. Their vectors are those of the store, else `embed_model` embeds them. A node
    that cannot be indexed is left out, with one warning that says why, until it is inserted again: its vector is not finite, has
    another width, or a length that an order by L2 distance depends on; or its metadata cannot be kept.

    >>> from llama_index.core import MockEmbedding
    >>> from llama_index.core.schema import TextNode
    >>> vector_index = VectorStoreIndex([TextNode(id_="loom", text="A loom.")], embed_model=MockEmbedding(2))
    >>> followed = FollowedIndex(vector_index, contents(vector_index), GraphIndex.from_documents(index_nodes(vector_index)))
    >>> vector_index.insert_nodes([TextNode(id_="card", text="A card.")])
    >>> vector_index.delete_nodes(["loom"])
    >>> followed.index().graph.ids
    ['card']
    """

    def __init__(
        self,
        vector_index: VectorStoreIndex,
        before: dict[str, Any],
        index: GraphIndex,
        *,
        title_key: str | None = None,
        embed_model: Any = None,
    ) -> None:
        self._vector_index, self._title_key, self._model = vector_index, title_key, embed_model
        self._further = set(index.graph.ids) - before.keys()
        # Both are replaced in one step: two threads may both make the next state, which is the same.
        self._state = before, index
        self.searches = Cache(2)
        """The searches of a retriever on two indexes, as one may still answer on the index before."""

    def index(self) -> GraphIndex:
        """Return the index, changed first if the contents have changed; without any node left, the index does not change."""
        before, index = self._state
        now = contents(self._vector_index)
        # Contents are compared by identity, which is fast, as every query compares them.
        if len(now) == len(before) and all(map(is_, now.values(), before.values())):
            return index
        unchanged = {name: value for name, value in now.items() if before.get(name) is value}
        nodes = index_nodes(self._vector_index, [name for name in now if name not in unchanged])
        names = {node.node_id for node in nodes}
        good = self._good(nodes, index, next((name for name in unchanged if name in index.graph), None))
        ids = unchanged.keys() | self._further | {node.node_id for node, _ in good}
        index = self._changed(index, good, [name for name in index.graph.ids if name not in ids])
        # A node that the document store does not have yet is looked for again by the next query.
        self._state = {name: value for name, value in now.items() if name in names or name in unchanged}, index
        return index

    def _good(self, nodes: Sequence[BaseNode], index: GraphIndex, name: str | None) -> list[tuple[BaseNode, Node]]:
        """Return the nodes that can be indexed beside the node `name`, in both forms, and warn of the others."""
        like = next((node.embedding for node in index_nodes(self._vector_index, [name])), None) if name is not None else None
        omissions, good = Omissions("the VectorStoreIndex"), []
        for node, engine_node in zip(nodes, to_nodes(nodes, self._title_key), strict=True):
            try:
                CorpusGraph.from_nodes([engine_node])
                self._check_vector(node.embedding, index, like)
            except (InvalidArgumentError, InvalidVectorError, DimensionMismatchError) as error:
                omissions.add(f"node {node.node_id!r}", str(error).removesuffix("."))
                continue
            like = node.embedding if like is None else like
            good.append((node, engine_node))
        omissions.report(_logger, "They are not found: correct and insert them again, or delete them.")
        return good

    def _check_vector(self, vector: list[float] | None, index: GraphIndex, like: list[float] | None) -> None:
        dense = index.signals.get("dense")
        if isinstance(dense, VectorSignal) and vector is not None:
            table = check_vectors([vector], width=dense.dimension)
            store_metric(self._vector_index, table if like is None else torch.cat([table, torch.tensor([like])]))

    def _changed(self, index: GraphIndex, good: Sequence[tuple[BaseNode, Node]], absent_ids: list[str]) -> GraphIndex:
        if not good and not absent_ids:
            return index
        vectors = None
        if good and "dense" in index.signals:
            # The vectors keep their lengths here, as an index that compares by cosine scales them itself.
            vectors = node_vectors([node for node, _ in good], self._model, unit=False)
        try:
            return index.with_changes(upsert=[engine_node for _, engine_node in good], delete=absent_ids, vectors=vectors)
        except EmptyGraphError:
            return index
