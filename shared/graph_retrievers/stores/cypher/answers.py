"""Hits from the row that a query returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graph_retrievers.hits import Hit, Hits, NodePath
from graph_retrievers.retrievers.protocol import LISTING
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.stores.cypher.properties import node_metadata
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.passages import PassageGathering
from graph_retrievers.systems.spreading.propagation import GatedPropagation

__all__ = ["answer"]

_Row = Mapping[str, Any]


def answer(
    row: _Row, notes: tuple[str, ...], chains: str | None, search: ChainSearch, passages: bool, is_named: Callable[[str], bool]
) -> Hits:
    """Return the hits of one question.

    `row` is the result of the query, `notes` are the notes so far, `chains` says whether chains are additional hits ("hits") or
    the paths of the nodes to which they lead ("path"), `search` has their limits, `passages` says whether the nodes are passages,
    and `is_named` whether the question mentions a name.
    """
    relations: dict[tuple[str, str], tuple[str, bool]] = {}
    for link in sorted(row["links"], key=_step_order):
        relations.setdefault((link["near"], link["far"]), (link["relation"], link["forward"]))
    name = PassageGathering.name if passages else GatedPropagation.name
    hits = []
    for node in row["found"]:
        # If every name was found, no seed is from a search by vector.
        by_name = not row["missing"] or is_named(str(node["name"] or node["id"]))
        hits.append(_node_hit(node, EntityLinking.name if by_name else VectorSearch.name, name, relations))
    if chains is not None:
        best = row["chains"]
        floor = best[-1]["weight"] if len(best) == search.limit else -math.inf
        if any(bound is not None and bound >= floor for bound in row["cut"]):
            notes += (f"the chains may not be the best: more than {search.width} prefixes were under way",)
        selection = _distinct(best) if search.dedupe == "after_limit" else best
        if chains == "hits":
            hits = [*hits, *(_chain_hit(chain) for chain in selection if chain["returned"])]
        else:
            hits = _along(hits, [_chain_hit(chain) for chain in selection])
    return Hits(hits, notes)


def listed_hits(rows: Sequence[_Row]) -> list[Hit]:
    """Return the hits of an empty question from the rows of its query, in their order, with score 0."""
    nodes = ({**row, "r": 0.0, "trail": [row["id"]], "titles": [row["name"]], "similarity": None} for row in rows)
    return [_node_hit(row, LISTING, LISTING, {}) for row in nodes]


def _node_hit(node: _Row, seed: str, name: str, relations: Mapping[tuple[str, str], tuple[str, bool]]) -> Hit:
    trail = node["trail"]
    steps = [relations.get(pair, ("", True)) for pair in zip(trail, trail[1:], strict=False)]
    metadata, origin = node_metadata(node["metadata"])
    return Hit(
        id=str(node["id"]),
        text=str(node["text"] or ""),
        score=node["r"],
        operator=seed if len(trail) == 1 else name,
        path=_path(trail, node["titles"], steps),
        title=str(node["name"] or ""),
        type=str(node["type"] or ""),
        metadata=metadata,
        origin=origin,
        similarity=_similarity([node]),
    )


def _path(ids: Sequence[Any], titles: Sequence[Any], steps: Sequence[tuple[str, bool]]) -> NodePath:
    names = tuple(str(title or "") for title in titles)
    return NodePath(tuple(map(str, ids)), tuple(name for name, _ in steps), tuple(forward for _, forward in steps), names)


def _chain_hit(chain: _Row) -> Hit:
    steps = [(step["relation"], step["forward"]) for step in chain["steps"]]
    path = _path([node["id"] for node in chain["nodes"]], [node["name"] for node in chain["nodes"]], steps)
    similarity = _similarity(chain["nodes"])
    return Hit(" | ".join(path.nodes), path.text, chain["weight"], ChainSearch.name, path, kind="chain", similarity=similarity)


def _similarity(nodes: Sequence[_Row]) -> float | None:
    """Return the largest of the nodes' cosines with the question, None if there is none."""
    cosines = [node["similarity"] for node in nodes if node["similarity"] is not None]
    return min(max(*cosines, -1.0), 1.0) if cosines else None


def _along(hits: list[Hit], chains: list[Hit]) -> list[Hit]:
    """Return the hits with the best chain that leads to each as its path."""
    paths: dict[str, NodePath] = {}
    for path in (chain.path for chain in chains):
        for size in range(2, len(path.nodes) + 1):
            paths.setdefault(path.nodes[size - 1], path.beginning(size))
    return [replace(hit, path=paths.get(hit.id, hit.path)) for hit in hits]


def _distinct(chains: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the chains, best first, without those that say nothing new.

    Of chains with the same nodes, in the same or the reverse order, only the first is kept. Chains that are a prefix of a longer
    one, or the reverse of its end, are dropped.
    """
    chains_by_path: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    parts = set()
    for chain in chains:
        path = tuple(node["id"] for node in chain["nodes"])
        if path not in chains_by_path and path[::-1] not in chains_by_path:
            chains_by_path[path] = chain
        parts |= {way[:size] for way in (path, path[::-1]) for size in range(2, len(way))}
    return [chain for path, chain in chains_by_path.items() if path not in parts]


def _step_order(step: Mapping[str, Any]) -> tuple[float, str, bool]:
    return (math.inf if step["position"] is None else step["position"], step["relation"], not step["forward"])
