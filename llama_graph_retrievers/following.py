"""An index that follows the nodes of a VectorStoreIndex, which changes."""

from __future__ import annotations

from operator import is_
from typing import Any

from llama_index.core import VectorStoreIndex

from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.errors import EmptyGraphError
from graph_retrievers.index import GraphIndex
from llama_graph_retrievers.stores import contents, index_nodes
from llama_graph_retrievers.vectors import node_vectors

__all__ = ["FollowedIndex"]


class FollowedIndex:
    """The index of the nodes that a ``VectorStoreIndex`` has now.

    `present` is the index of its `held` contents (see :func:`~llama_graph_retrievers.stores.contents`); it may have further nodes,
    which stay. New nodes get titles from `title_key`. Their vectors are those of the store, else `embed_model` embeds them.

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
        # Replaced in one step: two threads may both make the next one, which is the same.
        self._state = held, present

    def index(self) -> GraphIndex:
        """Return the index, changed first if the contents have changed; without any node left, the index does not change."""
        held, present = self._state
        now = contents(self._theirs)
        # Every query compares them.
        if len(now) == len(held) and all(map(is_, now.values(), held.values())):
            return present
        nodes = index_nodes(self._theirs, [name for name, value in now.items() if held.get(name) is not value])
        found = {node.node_id for node in nodes}
        gone = [name for name in held if name not in now and name in present.graph]
        made = to_nodes(nodes, self._title_key)
        dense = present.signals.get("dense")
        # An index that compares by cosine scales them itself.
        vectors = node_vectors(nodes, self._model, unit=False) if nodes and dense is not None else None
        try:
            present = present.with_changes(upsert=made, delete=gone, vectors=vectors)
        except EmptyGraphError:
            return present
        # A node that the document store does not have yet is looked for again.
        self._state = {name: value for name, value in now.items() if name in found or held.get(name) is value}, present
        return present
