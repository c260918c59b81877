"""The index of a GraphRetriever, built from nodes, a document store or a VectorStoreIndex, whose changes it follows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from operator import is_
from typing import Any

import torch
from llama_index.core import VectorStoreIndex
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode, IndexNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from graph_retrievers.arguments import as_list
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.errors import (
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    few,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import Corpus, GraphIndex
from graph_retrievers.signals.signal import VectorSignal
from graph_retrievers.signals.vectors import check_vectors
from llama_graph_retrievers.nodes import NodeSource
from llama_graph_retrievers.stores import contents, index_nodes, store_metric
from llama_graph_retrievers.vectors import node_vectors

_logger = logging.getLogger(__name__)


def build_index(
    index: Any,
    nodes: Any,
    docstore: BaseDocumentStore | None,
    objects: Sequence[IndexNode],
    embed_model: Any,
    *,
    needs_vectors: bool,
    title_key: str | None,
    show_progress: bool,
    **options: Any,
) -> tuple[GraphIndex, NodeSource, FollowedIndex | None]:
    """Return an index of the nodes of the one source that is given and of objects, and where the originals of its nodes are.

    The last is the index that changes with a ``VectorStoreIndex``, if it is known when its nodes change. `options` are those of
    :meth:`graph_retrievers.index.GraphIndex.from_documents`. A system that does not need vectors gets those that all nodes have;
    nothing is embedded for it.
    """
    before = contents(index) if isinstance(index, VectorStoreIndex) else {}
    name, found, originals = _source(index, nodes, docstore, objects)
    ids = {getattr(node, "node_id", None) for node in found}
    found = [*found, *(node for node in objects if node.node_id not in ids)]
    if not found:
        raise EmptyGraphError(f"{name} is empty: an index needs at least one node.")
    for place, node in enumerate(found):
        if not isinstance(node, BaseNode):
            raise InvalidArgumentError(f"Node {place} is a {type(node).__name__}; expected a BaseNode, such as a TextNode.")
    vectors, metric = None, None
    if needs_vectors or all(node.embedding is not None for node in found):
        store = index if any(node.embedding is not None for node in found) else None
        vectors = node_vectors(found, embed_model, show_progress, cache=None, unit=store is None)
        try:
            metric = store_metric(store, vectors) if store is not None else None
        except InvalidArgumentError:
            if needs_vectors:
                raise
            # BM25 searches only words.
            vectors = None
    options |= {"embedding": embed_model if vectors is not None else None, "vectors": vectors, "metric": metric}
    built = GraphIndex.from_documents(found, title_key=title_key, show_progress=show_progress, **options)
    # A store that keeps the texts does not say when they change.
    follows = isinstance(index, VectorStoreIndex) and not index.vector_store.stores_text
    return built, originals, FollowedIndex(index, before, built, title_key, embed_model) if follows else None


def _source(index: Any, nodes: Any, docstore: BaseDocumentStore | None, objects: Any) -> tuple[str, list[BaseNode], NodeSource]:
    """Return the name of the argument with the nodes, the nodes, and where their originals are looked up."""
    if isinstance(nodes, BaseNode):
        raise InvalidArgumentError(f"nodes is a single {type(nodes).__name__}; pass a list of them: nodes=[node].")
    arguments = {"index": index, "nodes": nodes, "docstore": docstore}
    names = [name for name, value in arguments.items() if value is not None]
    if not names and objects:
        nodes, names = [], ["nodes"]
    if len(names) != 1:
        raise InvalidArgumentError(f"Pass exactly one of index=, nodes= and docstore=; got {' and '.join(names) or 'none'}.")
    if isinstance(index, VectorStoreIndex):
        found = index_nodes(index)
        return "index", found, found if index.vector_store.stores_text else index
    if index is not None:
        raise InvalidArgumentError(_instead(index))
    found = as_list("nodes", docstore.docs.values() if docstore is not None else nodes, "nodes")
    return names[0], found, found if docstore is None else docstore


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


class FollowedIndex:
    """The index of the nodes that a ``VectorStoreIndex`` has now.

    `index` is that of the contents `before`; it may have further nodes, which stay. A node that cannot be indexed, by its vector
    or its metadata, is left out until it is inserted again.
    """

    def __init__(
        self, vector_index: VectorStoreIndex, before: dict[str, Any], index: GraphIndex, title_key: Any = None, model: Any = None
    ) -> None:
        self._vector_index, self._title_key, self._model = vector_index, title_key, model
        self._further = set(index.graph.ids) - before.keys()
        # Both are replaced in one step: two threads may both make the next state, which is the same.
        self._state = before, index

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
