"""Changes of a corpus graph: a new graph with other nodes and rows, without reading again what stays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np

from graph_retrievers.graph.corpus_graph import CorpusGraph, Rows, simple_keys

__all__ = ["change_nodes", "merged_keys", "set_rows", "surviving_rows"]

_T = TypeVar("_T")

_COLUMNS = ("ids", "texts", "titles", "types", "metadata", "origins")


def change_nodes(graph: CorpusGraph, deleted: Collection[int], new: CorpusGraph) -> tuple[CorpusGraph, np.ndarray, np.ndarray]:
    """Return a graph without some nodes and with those of another graph.

    A node of `new` takes the row of the node that has its id and is not deleted; the others come last, in their order.

    Parameters
    ----------
    graph : CorpusGraph
    deleted : collection of int
        Rows of nodes to leave out.
    new : CorpusGraph
        The nodes that are new or changed.

    Returns
    -------
    graph : CorpusGraph
        Its edges are still to be set: see :func:`set_rows`.
    place : array, shape [N]
        The new row of each present row, -1 for deleted ones.
    rows : array, shape [n]
        The row of each node of `new`.
    """
    stay = np.ones(len(graph), bool)
    stay[list(deleted)] = False
    place = np.where(stay, np.cumsum(stay) - 1, -1)
    known = [graph._row_of.get(node, -1) for node in new.ids]
    at = [row if row >= 0 and stay[row] else -1 for row in known]
    appended = [number for number, row in enumerate(at) if row < 0]
    rows = place[at] if len(graph) else np.full(len(at), -1)
    rows[appended] = np.arange(len(appended)) + int(stay.sum())
    made = object.__new__(CorpusGraph)
    ends = [*sorted(deleted), len(graph)]
    for name in _COLUMNS:
        present, given = getattr(graph, name), getattr(new, name)
        values: list[Any] = []
        # A few long stretches are copied faster than one by one.
        for start, stop in zip([0, *(row + 1 for row in ends)], ends, strict=False):
            values += present[start:stop]
        for number, row in enumerate(rows.tolist()):
            if at[number] >= 0:
                values[row] = given[number]
        values += [given[number] for number in appended]
        setattr(made, name, values)
    made.include_titles, made.device = graph.include_titles, graph.device
    made._row_of = dict(zip(made.ids, range(len(made.ids)), strict=True))
    made._set_types()
    return made, place, rows


def surviving_rows(graph: CorpusGraph, part: slice, place: np.ndarray, dropped: Collection[int]) -> Rows:
    """Return the rows of a stretch of edges whose two ends are still there, apart from those `dropped`."""
    sources, targets = (place[column[part].cpu().numpy()] for column in (graph.sources, graph.targets))
    keep = (sources >= 0) & (targets >= 0)
    keep[[row - part.start for row in dropped if part.start <= row < part.stop]] = False
    rest = (column[part].cpu().numpy()[keep] for column in (graph.relations, graph.weights))
    keeps = keep.tolist() if graph.edge_texts or graph.edge_metadata else []
    lists = (list(compress(values[part], keeps)) if values else [] for values in (graph.edge_texts, graph.edge_metadata))
    return Rows(sources[keep], targets[keep], *rest, *lists)


def merged_keys(graph: CorpusGraph, place: np.ndarray, added: Rows, size: int) -> np.ndarray:
    """Return the :func:`simple_keys` of a graph whose nodes are placed anew, in their order, and which gets some rows."""
    head, tail = np.repeat(place, graph.degree.cpu().numpy()), place[graph.indices.cpu().numpy()]
    keys = head * size + tail
    keys = keys if place.min(initial=0) >= 0 else keys[(head >= 0) & (tail >= 0)]
    new = simple_keys(added.sources, added.targets, size)
    at = np.searchsorted(keys, new)
    absent = np.append(keys, -1)[at] != new
    return np.insert(keys, at[absent], new[absent])


def set_rows(graph: CorpusGraph, parts: Sequence[Rows], names: Sequence[str], keys: np.ndarray | None = None) -> None:
    """Set the edges of a graph, one stretch after another; relations are numbered as they first occur.

    `keys` are the :func:`simple_keys` of the rows, where they are known.
    """
    sources, targets, relations, weights = (np.concatenate([part[i] for part in parts]) for i in range(4))
    first = np.full(len(names), len(relations))
    # The last of repeated places is written.
    first[relations[::-1]] = np.arange(len(relations))[::-1]
    used = [number for number in np.argsort(first, kind="stable").tolist() if first[number] < len(relations)]
    number = np.zeros(len(names), np.int32)
    number[used] = np.arange(len(used))
    texts = _joined([part.texts for part in parts], parts, "")
    metadata = _joined([part.metadata for part in parts], parts, {})
    graph._set_rows(Rows(sources, targets, number[relations], weights, texts, metadata), [names[i] for i in used], keys)


def _joined(lists: Sequence[list[_T]], parts: Sequence[Rows], empty: _T) -> list[_T]:
    """Return the entries of all rows; an empty list, as in a graph built afresh, if none has content."""
    if not any(map(any, lists)):
        return []
    return list(chain.from_iterable(held or [empty] * len(part.sources) for held, part in zip(lists, parts, strict=True)))
