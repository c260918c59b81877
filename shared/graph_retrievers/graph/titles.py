"""Nodes by their exact titles."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from graph_retrievers.graph.corpus_graph import CorpusGraph

__all__ = ["nodes_titled"]

_TITLES: WeakKeyDictionary[CorpusGraph, dict[str, list[int]]] = WeakKeyDictionary()


def nodes_titled(graph: CorpusGraph, title: str) -> list[int]:
    """Return the rows of the nodes with exactly this title, upper and lower case alike, in ascending order."""
    held = _TITLES.get(graph)
    if held is None:
        held = {}
        for row, name in enumerate(graph.titles):
            if name:
                held.setdefault(name.strip().casefold(), []).append(row)
        _TITLES[graph] = held
    return held.get(title.strip().casefold(), [])
