"""Convert hits of the engine to LlamaIndex nodes, and nodes to text for a language model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode, Document, IndexNode, NodeWithScore, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from graph_retrievers.construction.documents import node_title
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.labels import label
from graph_retrievers.graph.plain import copied
from graph_retrievers.hits import Hit, Hits, NodePath
from graph_retrievers.hits.hit import plain_context, plain_provenance

_logger = logging.getLogger(__name__)

NodeSource = Iterable[BaseNode] | BaseDocumentStore | VectorStoreIndex
"""Where the nodes of an index are."""

# Nodes of other classes, such as images, cannot be made from a text.
_CLASSES: dict[str, Any] = {kind.class_name(): kind for kind in (Document, IndexNode)}


class NodeLookup:
    """Find nodes by id in a list of nodes, or in the current state of a document store.

    In a VectorStoreIndex, it finds the nodes whose vectors are currently in a ``SimpleVectorStore``; None contains no node. The
    nodes found are not copies. `live` says whether a node that is not found has been deleted.
    """

    def __init__(self, nodes: NodeSource | None = None) -> None:
        self._nodes: dict[str, BaseNode] = {}
        self._store: BaseDocumentStore | None = None
        self._vectors: SimpleVectorStore | None = None
        if isinstance(nodes, VectorStoreIndex):
            self._vectors = nodes.vector_store if isinstance(nodes.vector_store, SimpleVectorStore) else None
            nodes = nodes.docstore
        if isinstance(nodes, BaseDocumentStore):
            self._store, nodes = nodes, None
        self.live = self._store is not None
        for node in nodes or ():
            if not isinstance(node, BaseNode):
                raise InvalidArgumentError(f"nodes must be LlamaIndex nodes or a document store, got {type(node).__name__}.")
            self._nodes[node.node_id] = node

    def find(self, node: str) -> BaseNode | None:
        """Return the node with an id, or None."""
        if self._store is None:
            return self._nodes.get(node)
        is_deleted = self._vectors is not None and node not in self._vectors.data.embedding_dict
        return None if is_deleted else self._store.get_document(node, raise_error=False)


def annotated(node: BaseNode, fields: Mapping[str, Any]) -> BaseNode:
    """Return a copy of a node with additional metadata that are hidden from embedding models and language models."""
    hidden = {
        name: list(dict.fromkeys([*getattr(node, name), *fields]))
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return node.model_copy(update={"metadata": copied(node.metadata) | dict(fields), **hidden})


def with_provenance(node: BaseNode, values: Mapping[str, Any]) -> BaseNode:
    """Return a copy of a node for which :func:`provenance` returns `values`; it has the hash of the node."""
    names = ("metadata", "relationships", "excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    fields = {name: copied(getattr(node, name)) for name in names}
    # The values are not metadata, by a hash of which LlamaIndex distinguishes nodes: one found in two ways would count twice.
    return node.model_copy(update={**fields, "provenance": dict(values)})


def provenance(hit: NodeWithScore | BaseNode) -> dict[str, Any]:
    """Return how a node was found: ``operator``, ``path``, and if available ``similarity``, ``context``, ``notes`` and others.

    See :func:`graph_retrievers.hits.hit.plain_provenance` for all; ``{}`` for nodes of other retrievers, and with
    ``provenance=False``. It is kept in the node's attribute ``provenance``, not in a field. Copies of the node have it, also with
    other scores; JSON and pickles do not.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from llama_graph_retrievers import GraphRetriever
    >>> hit = GraphRetriever(GraphIndex.from_texts(["A loom."]), "bm25").retrieve("loom")[0]
    >>> provenance(hit)["operator"], hit.node.metadata
    ('BM25Search', {})
    """
    values = getattr(hit.node if isinstance(hit, NodeWithScore) else hit, "provenance", None)
    return values if isinstance(values, dict) else {}


def scored_nodes(
    hits: Hits, by_id: Mapping[str, BaseNode], absent_ids: Collection[str] = (), with_paths: bool = True
) -> list[NodeWithScore]:
    """Return the hits of one query as scored nodes; notes on an empty result are logged as a warning, as no node can carry them.

    `by_id` has the original nodes of some ids, of which copies are returned; other nodes are made from their hits. Nodes with an
    id in `absent_ids` are left out. With `with_paths`, :func:`provenance` returns how each was found.
    """
    if not hits:
        warn_of_nothing_found(hits.notes)
    nodes = []
    for hit in (hit for hit in hits if hit.kind != "node" or hit.id not in absent_ids):
        node = by_id.get(hit.id) if hit.kind == "node" else None
        values = plain_provenance(hit, hits.notes) if with_paths else {}
        nodes.append(NodeWithScore(node=with_provenance(node or node_of(hit), values), score=hit.score))
    return nodes


def warn_of_nothing_found(notes: Sequence[str]) -> None:
    """Log the notes on an empty result, if any, as a warning."""
    if notes:
        _logger.warning("Nothing was found: %s.", "; ".join(notes))


def node_of(hit: Hit) -> BaseNode:
    """Return the node from which a hit was made, as far as the index contains it: all but images, sounds and objects."""
    origin, metadata = dict(hit.origin), dict(hit.metadata)
    made_of = origin.pop("class_name", "")
    kind = _CLASSES.get(made_of, TextNode)
    for name, value in (("title", hit.title), ("type", hit.type)):
        # The metadata of a node of LlamaIndex is unchanged.
        if value and not made_of and metadata.setdefault(name, value) != value:
            metadata[f"node_{name}"] = value
    return kind(id_=hit.id, text=hit.text, metadata=metadata, **origin)


def to_context(
    nodes: Iterable[NodeWithScore],
    question: str = "",
    language_model: Any = None,
    *,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> str:
    """Return retrieved nodes as text for a language model: paths, facts and texts, as ``Hits.to_context`` writes them.

    Parameters
    ----------
    nodes : iterable of NodeWithScore
        From a retriever with ``provenance=True``, in any selection and order; other nodes contribute only titles and texts.
    question, language_model, max_tokens, count_tokens : optional
        As for :meth:`graph_retrievers.hits.Hits.to_context`.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline
    >>> from graph_retrievers.operators import BM25Search, GatedPropagation
    >>> from llama_graph_retrievers import GraphRetriever
    >>> texts, titles = ["Ada wrote a program.", "An engine of brass."], ["Ada", "Engine"]
    >>> index = GraphIndex.from_texts(texts, titles=titles, edges=[("0", "1", "ran on")])
    >>> retriever = GraphRetriever(index, Pipeline(BM25Search(1), GatedPropagation(gate="uniform")))
    >>> print(to_context(retriever.retrieve("Who wrote a program?")))
    Paths:
    Ada -[ran on]-> Engine
    <BLANKLINE>
    Texts:
    - Ada: Ada wrote a program.
    - Engine: An engine of brass.
    """
    return Hits(map(_hit, nodes)).to_context(question, language_model, max_tokens=max_tokens, count_tokens=count_tokens)


def _hit(scored: NodeWithScore) -> Hit:
    node, metadata, values = scored.node, scored.node.metadata, provenance(scored)
    path = NodePath.from_dict(values.get("path")) or NodePath((node.node_id,))
    # The path to a passage of a property graph ends at what was extracted from it.
    at_end = path.titles and path.nodes[-1] == node.node_id
    title, type_ = path.titles[-1] if at_end else node_title(metadata), metadata.get("node_type", metadata.get("type"))
    hit = Hit(node.node_id, node.get_content(), scored.score or 0.0, str(values.get("operator", "")), path)
    context = plain_context(values.get("context"))
    # The first words of the text replace a title on paths only.
    title = "" if title == label(node.node_id, "", hit.text) else title
    return replace(hit, title=title, type=str(type_ or ""), kind=str(values.get("kind", "node")), context=context)
