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

    `present` is the index of its `held` contents (see :func:`~llama_graph_retrievers.stores.contents`); it may have further nodes,
    which stay. New nodes get titles from `title_key`. Their vectors are those of the store, else `embed_model` embeds them. A node
    that cannot be indexed is left out, with one warning that says why, until it is inserted again: its vector is not finite, has
    another width, or a length that an order by L2 distance depends on; or its metadata cannot be kept.

    >>> from llama_index.core import MockEmbedding
    >>> from llama_index.core.schema import TextNode
    >>> theirs = VectorStoreIndex([TextNode(id_="loom", text="A loom.")], embed_model=MockEmbedding(2))
    >>> followed = FollowedIndex(theirs, contents(theirs), GraphIndex.from_documents(index_nodes(theirs)))
    >>> theirs.insert_nodes([TextNode(id_="card", text="A card.")])
    >>> theirs.delete_nodes(["loom"])
    >>> followed.index().graph.ids
    ['card']
    """

    def __init__(
        self,
        theirs: VectorStoreIndex,
        held: dict[str, Any],
        present: GraphIndex,
        *,
        title_key: str | None = None,
        embed_model: Any = None,
    ) -> None:
        self._theirs, self._title_key, self._model = theirs, title_key, embed_model
        self._further = set(present.graph.ids) - held.keys()
        # Replaced in one step: two threads may both make the next one, which is the same.
        self._state = held, present
        self.searches = Cache(2)
        """What a retriever makes of each index: of two, because one may still answer on the index before."""

    def index(self) -> GraphIndex:
        """Return the index, changed first if the contents have changed; without any node left, the index does not change."""
        held, present = self._state
        now = contents(self._theirs)
        # Every query compares them.
        if len(now) == len(held) and all(map(is_, now.values(), held.values())):
            return present
        kept = {name: value for name, value in now.items() if held.get(name) is value}
        nodes = index_nodes(self._theirs, [name for name in now if name not in kept])
        found = {node.node_id for node in nodes}
        good = self._good(nodes, present, next((name for name in kept if name in present.graph), None))
        left = kept.keys() | self._further | {node.node_id for node, _ in good}
        present = self._changed(present, good, [name for name in present.graph.ids if name not in left])
        # A node that the document store does not have yet is looked for again.
        self._state = {name: value for name, value in now.items() if name in found or name in kept}, present
        return present

    def _good(self, nodes: Sequence[BaseNode], present: GraphIndex, kept: str | None) -> list[tuple[BaseNode, Node]]:
        """Return the nodes that can be indexed beside one that is `kept`, in both forms, and warn of the others."""
        like = next((node.embedding for node in index_nodes(self._theirs, [kept])), None) if kept is not None else None
        left, good = Omissions("the VectorStoreIndex"), []
        for node, made in zip(nodes, to_nodes(nodes, self._title_key), strict=True):
            try:
                CorpusGraph.from_nodes([made])
                self._check_vector(node.embedding, present, like)
            except (InvalidArgumentError, InvalidVectorError, DimensionMismatchError) as error:
                left.add(f"node {node.node_id!r}", str(error).removesuffix("."))
                continue
            like = node.embedding if like is None else like
            good.append((node, made))
        left.tell(_logger, "They are not found: correct and insert them again, or delete them.")
        return good

    def _check_vector(self, vector: list[float] | None, present: GraphIndex, like: list[float] | None) -> None:
        dense = present.signals.get("dense")
        if isinstance(dense, VectorSignal) and vector is not None:
            checked = check_vectors([vector], width=dense.dimension)
            store_metric(self._theirs, checked if like is None else torch.cat([checked, torch.tensor([like])]))

    def _changed(self, present: GraphIndex, good: Sequence[tuple[BaseNode, Node]], gone: list[str]) -> GraphIndex:
        if not good and not gone:
            return present
        vectors = None
        if good and "dense" in present.signals:
            # An index that compares by cosine scales them itself.
            vectors = node_vectors([node for node, _ in good], self._model, unit=False)
        try:
            return present.with_changes(upsert=[made for _, made in good], delete=gone, vectors=vectors)
        except EmptyGraphError:
            return present
