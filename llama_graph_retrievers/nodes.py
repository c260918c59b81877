"""From the engine's hits to LlamaIndex nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.retrievers.retriever import Hit, HitList

__all__ = ["NodeLookup", "annotated", "node_lookup", "provenance", "scored_node", "scored_nodes"]

_logger = logging.getLogger(__name__)

NodeLookup = Callable[[str], BaseNode | None]
"""From a node id to the node it came from, or None."""


def node_lookup(nodes: Iterable[BaseNode] | BaseDocumentStore | None) -> NodeLookup:
    """Return how to find the original node of an id.

    Parameters
    ----------
    nodes : iterable of BaseNode, document store or None
        A document store is asked for each hit, so that its nodes are not held twice.
    """
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
    return node.model_copy(
        update={
            "metadata": metadata,
            "relationships": dict(node.relationships),
            "excluded_embed_metadata_keys": _excluded(node.excluded_embed_metadata_keys, added, moved),
            "excluded_llm_metadata_keys": _excluded(node.excluded_llm_metadata_keys, added, moved),
        }
    )


def _excluded(keys: list[str], added: Iterable[str], moved: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys([*keys, *(moved[key] for key in keys if key in moved), *added]))


def scored_nodes(hits: HitList, tell: bool, *lookups: NodeLookup) -> list[NodeWithScore]:
    """Return the hits of one query as scored nodes.

    Parameters
    ----------
    hits : HitList
    tell : bool
        Whether the metadata say how each was found (see :func:`provenance`). Notes on an empty result are logged as a
        warning, for want of a node to bear them.
    *lookups : callable
        See :func:`scored_node`.
    """
    if hits.notes and not hits:
        _logger.warning("Nothing was found: %s.", "; ".join(hits.notes))
    return [scored_node(hit, provenance(hit, hits.notes) if tell else {}, *lookups) for hit in hits]


def scored_node(hit: Hit, added: Mapping[str, Any], *lookups: NodeLookup) -> NodeWithScore:
    """Return a hit as a scored node.

    Parameters
    ----------
    hit : Hit
    added : mapping
        What its metadata are to say besides (see :func:`provenance`).
    *lookups : callable
        See :func:`node_lookup`. Where one knows the id, a copy of that node is returned, with its relationships;
        otherwise a ``TextNode`` of what the index holds.

    Returns
    -------
    NodeWithScore
    """
    node = next((found for lookup in lookups if (found := lookup(hit.id)) is not None), None)
    if node is None:
        metadata = dict(hit.metadata)
        for name, value in (("title", hit.title), ("type", hit.type)):
            if value:
                metadata.setdefault(name, value)
        node = TextNode(id_=hit.id, text=hit.text, metadata=metadata)
    return NodeWithScore(node=annotated(node, added), score=hit.score)


def provenance(hit: Hit, notes: tuple[str, ...]) -> dict[str, Any]:
    """Return how a hit was found, JSON-plain, for its node's metadata.

    Parameters
    ----------
    hit : Hit
    notes : tuple of str
        What the retriever noted about the query.

    Returns
    -------
    dict
        - ``operator``: name of the operator that found it (``"Backfill"`` for what vector search filled up);
        - ``path``: ``{"nodes", "relations", "forward"}``, how it was reached from a seed;
        - ``kind``, where a hit is no node (a chain);
        - ``notes``: list of str, where there are any.
    """
    found: dict[str, Any] = {"operator": hit.operator, "path": hit.path.to_dict()}
    if hit.kind != "node":
        found["kind"] = hit.kind
    if notes:
        found["notes"] = list(notes)
    return found
