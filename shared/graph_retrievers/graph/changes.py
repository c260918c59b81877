"""Changes of a corpus graph: a new graph with other nodes and rows, without reading again what stays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, compress

import numpy as np

from graph_retrievers.graph.corpus_graph import CorpusGraph, Rows

__all__ = ["change_nodes", "set_rows", "surviving_rows"]

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
    stays = stay.tolist()
    for name in _COLUMNS:
        values, given = list(getattr(graph, name)), getattr(new, name)
        for number, row in enumerate(at):
            if row >= 0:
                values[row] = given[number]
        values = list(compress(values, stays)) if deleted else values
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


def set_rows(graph: CorpusGraph, parts: Sequence[Rows], names: Sequence[str]) -> None:
    """Set the edges of a graph, one stretch after another; relations are numbered as they first occur."""
    sources, targets, relations, weights = (np.concatenate([part[i] for part in parts]) for i in range(4))
    first = np.full(len(names), len(relations))
    # The last of repeated places is written.
    first[relations[::-1]] = np.arange(len(relations))[::-1]
    used = [number for number in np.argsort(first, kind="stable").tolist() if first[number] < len(relations)]
    number = np.zeros(len(names), np.int32)
    number[used] = np.arange(len(used))
    texts = list(chain.from_iterable(part.texts or [""] * len(part.sources) for part in parts))
    metadata = list(chain.from_iterable(part.metadata or [{}] * len(part.sources) for part in parts))
    # As in a graph built afresh, lists without content are empty.
    rows = Rows(sources, targets, number[relations], weights, texts if any(texts) else [], metadata if any(metadata) else [])
    graph._set_rows(rows, [names[i] for i in used])
