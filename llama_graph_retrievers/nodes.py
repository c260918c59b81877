"""From the engine's hits to LlamaIndex nodes, and from these to text for a language model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.hits import Hit, Hits, NodePath, plain_context

__all__ = ["NodeLookup", "annotated", "node_lookup", "scored_nodes", "to_context"]

_logger = logging.getLogger(__name__)

NodeLookup = Callable[[str], BaseNode | None]
"""From a node id to the node it came from, or None."""


def node_lookup(nodes: Iterable[BaseNode] | BaseDocumentStore | None) -> NodeLookup:
    """Return how to find the original node of an id; a document store is asked for each hit, and its nodes are not copied."""
    if isinstance(nodes, BaseDocumentStore):
        return lambda node: nodes.get_document(node, raise_error=False)
    held: dict[str, BaseNode] = {}
    for node in nodes or ():
        if not isinstance(node, BaseNode):
            raise InvalidArgumentError(f"nodes must be LlamaIndex nodes or a document store, got {type(node).__name__}.")
        held[node.node_id] = node
    return held.get


def annotated(node: BaseNode, added: Mapping[str, Any]) -> BaseNode:
    """Return a copy of a node with more metadata, which neither embedding models nor language models are shown.

    A value of the node's own under one of the added names is kept as ``original_<name>``.
    """
    moved = {name: f"original_{name}" for name in added if name in node.metadata}
    metadata = deepcopy(node.metadata)
    metadata = metadata | {new: metadata[name] for name, new in moved.items()} | dict(added)

    def excluded(keys: list[str]) -> list[str]:
        return list(dict.fromkeys([*keys, *(moved[key] for key in keys if key in moved), *added]))

    return node.model_copy(
        update={
            "metadata": metadata,
            "relationships": dict(node.relationships),
            "excluded_embed_metadata_keys": excluded(node.excluded_embed_metadata_keys),
            "excluded_llm_metadata_keys": excluded(node.excluded_llm_metadata_keys),
        }
    )


def scored_nodes(hits: Hits, provenance: bool, *lookups: NodeLookup) -> list[NodeWithScore]:
    """Return the hits of one query as scored nodes.

    Parameters
    ----------
    hits : Hits
    provenance : bool
        Whether the metadata of each say how it was found:

        - ``operator``: name of the operator that found it (``"Backfill"`` for what vector search filled up);
        - ``path``: ``{"nodes", "relations", "forward", "titles"}``, how it was reached from a seed;
        - ``kind``, where it is not a node: "chain" or "fact";
        - ``context``: ``{"nodes", "edges"}``, the neighbours that gave it context, where the retriever has them;
        - ``notes``: list of str, what the retriever noted about the query, where there is anything.

        Notes on an empty result are logged as a warning, since there is no node to hold them.
    *lookups : callable
        See :func:`node_lookup`. Where one knows the id, a copy of that node is returned, with its relationships;
        otherwise a ``TextNode`` of what the hit holds.
    """
    if hits.notes and not hits:
        _logger.warning("Nothing was found: %s.", "; ".join(hits.notes))
    found = []
    for hit in hits:
        known = (lookup(hit.id) for lookup in lookups if hit.kind == "node")
        node = next((node for node in known if node is not None), None) or _text_node(hit)
        added: dict[str, Any] = {"operator": hit.operator, "path": hit.path.to_dict()}
        added |= {"kind": hit.kind} if hit.kind != "node" or "kind" in node.metadata else {}
        added |= {"context": hit.to_dict()["context"]} if hit.context.nodes else {}
        added |= {"notes": list(hits.notes)} if hits.notes else {}
        found.append(NodeWithScore(node=annotated(node, added if provenance else {}), score=hit.score))
    return found


def _text_node(hit: Hit) -> TextNode:
    metadata = dict(hit.metadata)
    for name, value in (("title", hit.title), ("type", hit.type)):
        if value and metadata.setdefault(name, value) != value:
            metadata[f"node_{name}"] = value
    return TextNode(id_=hit.id, text=hit.text, metadata=metadata)


def to_context(nodes: Iterable[NodeWithScore], question: str = "", language_model: Any = None) -> str:
    """Return what a retriever found as text for a language model: paths, facts and texts, as ``Hits.to_context`` writes them.

    Parameters
    ----------
    nodes : iterable of NodeWithScore
        Of a retriever with ``provenance=True``, in any selection and order; other nodes give their texts alone.
    question, language_model : optional
        For summaries of contexts, see :meth:`graph_retrievers.hits.Hits.to_context`.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, GatedPropagation, BM25Search, Pipeline
    >>> from llama_graph_retrievers import GraphRetriever
    >>> texts, titles = ["Ada wrote a program.", "An engine of brass."], ["Ada", "Engine"]
    >>> index = GraphIndex.from_texts(texts, titles=titles, edges=[("0", "1", "ran on")])
    >>> retriever = GraphRetriever.from_index(index, system=Pipeline(BM25Search(1), GatedPropagation(gate="uniform")))
    >>> print(to_context(retriever.retrieve("Who wrote a program?")))
    Paths:
    Ada -[ran on]-> Engine
    <BLANKLINE>
    Texts:
    - Ada: Ada wrote a program.
    - Engine: An engine of brass.
    """
    return Hits(map(_hit, nodes)).to_context(question, language_model)


def _hit(scored: NodeWithScore) -> Hit:
    node, metadata = scored.node, scored.node.metadata
    told, kind, path = metadata.get("path"), "node", NodePath((node.node_id,))
    if isinstance(told, Mapping) and "nodes" in told:
        path = NodePath(*(tuple(told.get(field.name, ())) for field in fields(NodePath)))
        kind = metadata.get("kind", "node")
    title, type_ = path.titles[-1] if path.titles else metadata.get("title"), metadata.get("node_type", metadata.get("type"))
    found = Hit(node.node_id, node.get_content(), scored.score or 0.0, str(metadata.get("operator", "")), path)
    near = plain_context(metadata.get("context"))
    return replace(found, title=str(title or ""), type=str(type_ or ""), kind=str(kind), context=near)
