"""Relationship rows of a graph whose nodes were changed: the remaining ones, in the order of the given graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from graph_retrievers.graph.corpus_graph import CorpusGraph, Rows, simple_keys

_T = TypeVar("_T")


def surviving(graph: CorpusGraph, part: slice, place: np.ndarray, dropped: Collection[int] = ()) -> tuple[np.ndarray, Rows]:
    """Return the rows of consecutive edges whose two ends still exist, except those `dropped`.

    `place`, shape [N], is the new row of each node, -1 for a deleted one. The rows are returned as numbers in the graph, int64,
    shape [m], with the new rows of their ends.
    """
    sources, targets = (place[column[part].cpu().numpy()] for column in (graph.sources, graph.targets))
    keep = (sources >= 0) & (targets >= 0)
    keep[[row - part.start for row in dropped if part.start <= row < part.stop]] = False
    rows = np.flatnonzero(keep) + part.start
    relations, weights = (column[part].cpu().numpy()[keep] for column in (graph.relations, graph.weights))
    row_list: list[int] = rows.tolist() if graph.edge_texts or graph.edge_metadata else []
    texts = list(map(graph.edge_texts.__getitem__, row_list)) if graph.edge_texts else []
    metadata = list(map(graph.edge_metadata.__getitem__, row_list)) if graph.edge_metadata else []
    return rows, Rows(sources[keep], targets[keep], relations, weights, texts, metadata)


def merged_keys(graph: CorpusGraph, place: np.ndarray, new_rows: Rows, size: int) -> np.ndarray:
    """Return the :func:`simple_keys` of a graph whose nodes get new rows, in the same order, and to which some edges are added."""
    head, tail = np.repeat(place, graph.degree.cpu().numpy()), place[graph.indices.cpu().numpy()]
    keys = head * size + tail
    keys = keys if place.min(initial=0) >= 0 else keys[(head >= 0) & (tail >= 0)]
    new = simple_keys(new_rows.sources, new_rows.targets, size)
    at = np.searchsorted(keys, new)
    mask = np.append(keys, -1)[at] != new
    return np.insert(keys, at[mask], new[mask])


def set_rows(graph: CorpusGraph, parts: Sequence[Rows], names: Sequence[str], keys: np.ndarray | None = None) -> None:
    """Set the edges of a graph, one source after another; relations are numbered in the order of their first occurrence.

    `keys` are the :func:`simple_keys` of the rows, if known.
    """
    sources, targets, relations, weights = (np.concatenate([part[i] for part in parts]) for i in range(4))
    first = np.full(len(names), len(relations))
    # The last of repeated places is written.
    first[relations[::-1]] = np.arange(len(relations))[::-1]
    numbers = [number for number in np.argsort(first, kind="stable").tolist() if first[number] < len(relations)]
    number = np.zeros(len(names), np.int32)
    number[numbers] = np.arange(len(numbers))
    texts = _column([part.texts for part in parts], parts, "")
    metadata = _column([part.metadata for part in parts], parts, {})
    graph._set_rows(Rows(sources, targets, number[relations], weights, texts, metadata), [names[i] for i in numbers], keys)


def _column(lists: Sequence[list[_T]], parts: Sequence[Rows], empty: _T) -> list[_T]:
    """Return the entries of all rows; an empty list, as in a graph built afresh, if none has content."""
    if not any(map(any, lists)):
        return []
    return list(chain.from_iterable(entries or [empty] * len(part.sources) for entries, part in zip(lists, parts, strict=True)))
