"""Knowledge graphs of any origin: the names of their parts, and entities of several names merged into one."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graph_retrievers.construction.entity_resolution import candidate_clusters, group_schema, merged_names, resolution_prompt
from graph_retrievers.errors import LanguageModelError, few
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.signals.language import complete_many

__all__ = ["canonical_description", "resolve_entities"]

PASSAGE = "passage"
"""Type of the nodes with the documents."""
MENTIONS = "mentions"
"""Relation from a passage to an entity that it names."""


_logger = logging.getLogger(__name__)


def canonical_description(descriptions: Iterable[str]) -> str:
    """Return descriptions as one text that does not depend on their order: the distinct parts between " | ", sorted."""
    parts = {" ".join(part.split()) for text in descriptions for part in text.split(" | ")}
    return " ".join(sorted(parts - {""}))


def resolve_entities(
    nodes: Iterable[Node],
    edges: Iterable[Edge | tuple[str, str] | tuple[str, str, str]],
    language_model: Any,
    *,
    attempts: int = 3,
    workers: int = 4,
    show_progress: bool = False,
) -> tuple[list[Node], list[Edge]]:
    """Merge entities that are names of the same thing, such as "Louis XIII" and "Louis XIII of France".

    Entities of one type are compared if the words of one name are among those of the other. A language model sees each group of
    such names, with the beginnings of their texts, and says which mean the same (Glybovets and Makarov, "Query-Aware Spreading
    Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-A). The most complete name stays: its node gets the
    texts and the metadata of the others, and their edges. The name of a node is its title, or its text if it has none; of nodes
    with the same name, the first is compared.

    Parameters
    ----------
    nodes, edges : iterable of Node, iterable of Edge or tuple
        What a function of :mod:`graph_retrievers.construction.knowledge_readers` returned. Nodes of the type "passage" are no
        entities.
    language_model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    attempts : int, default 3
        Maximum number of calls until an answer satisfies the schema.
    workers : int, default 4
        Number of concurrent prompts.
    show_progress : bool, default False

    Returns
    -------
    nodes : list of Node
        In the given order, without those that were merged into others.
    edges : list of Edge
        Edges of the same relation between the same two nodes are one, with the largest weight, the distinct texts, and a list of
        the values of metadata that differ. Edges between names that were merged are dropped.

    Raises
    ------
    LanguageModelError
        If the model fails for every group of names. If it fails for some, these names stay apart, and a warning says which.

    Examples
    --------
    >>> nodes = [Node("Ada", "A poet's daughter.", "Ada"), Node("Ada Lovelace", "A writer.", "Ada Lovelace"), Node("Bo", "", "Bo")]
    >>> edges = [Edge("Ada", "Bo", "knew"), Edge("Bo", "Ada Lovelace", "met")]
    >>> answer = '{"groups": [{"canonical": "Ada Lovelace", "members": ["Ada", "Ada Lovelace"]}]}'
    >>> nodes, edges = resolve_entities(nodes, edges, lambda prompt: answer)
    >>> [node.id for node in nodes], nodes[0].text, [(edge.source, edge.target) for edge in edges]
    (['Ada Lovelace', 'Bo'], "A poet's daughter. A writer.", [('Ada Lovelace', 'Bo'), ('Bo', 'Ada Lovelace')])
    """
    all_nodes = list(nodes)
    rows = [edge if isinstance(edge, Edge) else Edge(*edge) for edge in edges]
    nodes_by_name: dict[str, Node] = {}
    for node in all_nodes:
        if node.type != PASSAGE and (name := node.title or node.text):
            nodes_by_name.setdefault(name, node)
    aliases = _aliases(nodes_by_name, language_model, attempts=attempts, workers=workers, show_progress=show_progress)
    kept_as = {nodes_by_name[alias].id: nodes_by_name[name].id for alias, name in aliases.items()}
    members: dict[str, list[Node]] = defaultdict(list)
    for node in all_nodes:
        members[kept_as.get(node.id, node.id)].append(node)
    merged_nodes = [_merged(node, members[node.id]) for node in all_nodes if node.id not in kept_as]
    return merged_nodes, _renamed(rows, kept_as)


def _aliases(nodes_by_name: Mapping[str, Node], language_model: Any, **options: Any) -> dict[str, str]:
    """Return the name that takes the place of each name that a language model takes for another of the same entity."""
    texts = {name: node.text for name, node in nodes_by_name.items()}
    clusters = candidate_clusters({name: node.type for name, node in nodes_by_name.items()})
    prompts = [resolution_prompt(cluster, nodes_by_name[cluster[0]].type, texts) for cluster in clusters]
    schemas = [group_schema(cluster) for cluster in clusters]
    answers = complete_many(language_model, prompts, schemas, description="resolving", **options)
    failures = {place: answer for place, answer in enumerate(answers) if isinstance(answer, Exception)}
    if failures:
        reason = next(iter(failures.values()))
        if len(failures) == len(clusters):
            raise LanguageModelError(f"Entity resolution failed for every group of names; the first error: {reason}")
        _logger.warning(
            "Entity resolution failed for %d of %d groups of names, which stay apart: %s. The first error: %s",
            len(failures),
            len(clusters),
            few([", ".join(clusters[place]) for place in failures], "; "),
            reason,
        )
    return merged_names(clusters, [None if place in failures else answer for place, answer in enumerate(answers)])


def _merged(node: Node, members: Sequence[Node]) -> Node:
    """Return a node with the texts and the metadata of all members, of which it is one."""
    if len(members) == 1:
        return node
    metadata = _merge_metadata([member.metadata for member in members])
    # The text of a node without a title is its name.
    if text := canonical_description(member.text for member in members if member.title):
        return replace(node, title=node.title or node.text, text=text, metadata=metadata)
    return replace(node, metadata=metadata)


def _renamed(edges: Iterable[Edge], kept_as: Mapping[str, str]) -> list[Edge]:
    """Return edges between the nodes that are kept, one for each relation of two nodes."""
    parallel: dict[tuple[str, str, str], list[Edge]] = defaultdict(list)
    for edge in edges:
        source, target = kept_as.get(edge.source, edge.source), kept_as.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            parallel[source, target, edge.relation].append(edge)
    merged_edges = []
    for key, group in parallel.items():
        text = group[0].text if len(group) == 1 else canonical_description(edge.text for edge in group)
        merged_edges.append(
            Edge(*key, max(edge.weight for edge in group), text, _merge_metadata([edge.metadata for edge in group]))
        )
    return merged_edges


def _merge_metadata(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of several mappings, as a list of the distinct ones where they differ."""
    variants_by_name: dict[str, dict[str, Any]] = defaultdict(dict)
    for values in mappings:
        for name, value in values.items():
            # JSON distinguishes 1 from True.
            variants_by_name[name][json.dumps(value, sort_keys=True, default=str)] = value
    result = {}
    for name, variants in variants_by_name.items():
        flat = [item for value in variants.values() for item in (value if isinstance(value, list) else [value])]
        items = {json.dumps(item, sort_keys=True, default=str): item for item in flat}
        result[name] = next(iter(variants.values())) if len(variants) == 1 else list(items.values())
    return result
