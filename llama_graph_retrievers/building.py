"""Build the index of a GraphRetriever from nodes, a document store or a VectorStoreIndex."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode, IndexNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from graph_retrievers.arguments import as_list
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, few
from graph_retrievers.index import Corpus, GraphIndex
from llama_graph_retrievers.following import FollowedIndex
from llama_graph_retrievers.nodes import NodeSource
from llama_graph_retrievers.stores import contents, index_nodes, store_metric
from llama_graph_retrievers.vectors import node_vectors

_logger = logging.getLogger(__name__)


@dataclass
class Source:
    """The nodes from which an index is built.

    `name` is the name of the argument with the nodes, and `nodes` are the nodes, with the vectors of a store if it gives them.
    Originals of hits are looked up in `originals`. `vector_index` is the ``VectorStoreIndex``, and `contents` are its
    :func:`~llama_graph_retrievers.stores.contents`.
    """

    name: str
    nodes: list[BaseNode]
    originals: NodeSource
    vector_index: VectorStoreIndex | None = None
    contents: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, index: Any, nodes: Any, docstore: BaseDocumentStore | None, objects: Sequence[IndexNode]) -> Source:
        """Return the nodes of the one source that is given, and the objects."""
        if isinstance(nodes, BaseNode):
            raise InvalidArgumentError(f"nodes is a single {type(nodes).__name__}; pass a list of them: nodes=[node].")
        arguments = {"index": index, "nodes": nodes, "docstore": docstore}
        names = [name for name, value in arguments.items() if value is not None]
        if not names and objects:
            nodes, names = [], ["nodes"]
        if len(names) != 1:
            raise InvalidArgumentError(f"Pass exactly one of index=, nodes= and docstore=; got {' and '.join(names) or 'none'}.")
        if isinstance(index, VectorStoreIndex):
            contents_now, listing = contents(index), index_nodes(index)
            source = cls("index", listing, listing if index.vector_store.stores_text else index, index, contents_now)
        elif index is not None:
            raise InvalidArgumentError(_instead(index))
        else:
            listing = as_list("nodes", docstore.docs.values() if docstore is not None else nodes, "nodes")
            source = cls(names[0], listing, docstore if docstore is not None else listing)
        ids = {getattr(node, "node_id", None) for node in source.nodes}
        source.nodes = [*source.nodes, *(node for node in objects if node.node_id not in ids)]
        if not source.nodes:
            raise EmptyGraphError(f"{source.name} is empty: an index needs at least one node.")
        for place, node in enumerate(source.nodes):
            if not isinstance(node, BaseNode):
                raise InvalidArgumentError(f"Node {place} is a {type(node).__name__}; expected a BaseNode, such as a TextNode.")
        return source

    def graph_index(self, embed_model: Any, needs_vectors: bool, show_progress: bool, **options: Any) -> GraphIndex:
        """Return an index of the nodes; `options` are those of :meth:`graph_retrievers.index.GraphIndex.from_documents`.

        A system that does not need vectors gets those that all nodes have; nothing is embedded for it.
        """
        vectors, metric = None, None
        if needs_vectors or all(node.embedding is not None for node in self.nodes):
            store = self.vector_index if any(node.embedding is not None for node in self.nodes) else None
            vectors = node_vectors(self.nodes, embed_model, show_progress, cache=None, unit=store is None)
            try:
                metric = store_metric(store, vectors) if store is not None else None
            except InvalidArgumentError:
                if needs_vectors:
                    raise
                # BM25 searches only words.
                vectors = None
        embedding = embed_model if vectors is not None else None
        return GraphIndex.from_documents(
            self.nodes, embedding=embedding, vectors=vectors, metric=metric, show_progress=show_progress, **options
        )

    def followed_index(self, index: GraphIndex, title_key: str | None, embed_model: Any) -> FollowedIndex | None:
        """Return the index that changes with the nodes, if it is known when they change."""
        if self.vector_index is None or self.vector_index.vector_store.stores_text:
            return None
        return FollowedIndex(self.vector_index, self.contents, index, title_key=title_key, embed_model=embed_model)


def _instead(index: Any) -> str:
    """Return what to pass instead of something that has no nodes with vectors."""
    kind = type(index).__name__
    if isinstance(index, BaseIndex):
        return f"A {kind} has no vectors of its nodes; pass docstore=index.docstore, or a VectorStoreIndex."
    if isinstance(index, GraphIndex):
        return "Pass the GraphIndex to the class itself, as in GraphRetriever(index); its with_models() and to() change an index."
    if isinstance(index, Corpus):
        return f"Pass the {kind} to the class itself, as in GraphRetriever(index); open_index gives it models."
    message = f"index is a {kind}; expected a VectorStoreIndex."
    if isinstance(index, (Sequence, BaseDocumentStore)):
        message += f" Pass it as {'docstore' if isinstance(index, BaseDocumentStore) else 'nodes'}=."
    return message


def index_objects(objects: Any) -> list[IndexNode]:
    """Return the `objects` of a retriever as a list; raise InvalidArgumentError if one is not an ``IndexNode``."""
    if isinstance(objects, BaseNode):
        raise InvalidArgumentError(f"objects is a single {type(objects).__name__}; pass a list of them: objects=[node].")
    nodes = [] if objects is None else as_list("objects", objects, "IndexNode(text=..., index_id=..., obj=...)")
    for place, node in enumerate(nodes):
        if not isinstance(node, IndexNode):
            raise InvalidArgumentError(f"objects[{place}] is a {type(node).__name__}; expected an IndexNode.")
    return nodes


def warn_of_absent(objects: Sequence[IndexNode], index: GraphIndex) -> None:
    """Warn of objects that no hit leads to."""
    bare = [node for node in objects if node.node_id not in index.graph]
    pointers = {origin.get("index_id") for origin in index.graph.origins} if bare else set()
    if absent := [node.index_id for node in bare if node.index_id not in pointers]:
        _logger.warning(
            "%d of the objects (%s) are not nodes of the index, so that they are not found; build it of nodes and objects with "
            "from_defaults(nodes=..., objects=...).",
            len(absent),
            few([*map(repr, absent)]),
        )
