"""The part of an index with only some of its nodes, and the edges between them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.construction.spec import EdgeSource
from graph_retrievers.graph.blank import keep_blank
from graph_retrievers.graph.corpus_graph import COLUMNS, CorpusGraph
from graph_retrievers.index.parts import Built
from graph_retrievers.index.rows import set_rows, surviving

__all__ = ["restricted"]


def restricted(before: Built, rows: Tensor) -> Built:
    """Return the parts of the index of some nodes, ascending rows; see :meth:`graph_retrievers.index.GraphIndex.within`."""
    graph, edges = induced_graph(before.graph, rows)
    contents, rows_of = {"nodes": graph.contents(), "edges": graph.edge_contents()}, {"nodes": rows, "edges": edges}
    signals = {name: signal.restricted(rows_of[signal.covers], contents[signal.covers]) for name, signal in before.signals.items()}
    # How many rows of each stretch are left.
    ends = np.cumsum([source.rows for source in before.edge_sources])
    counts = np.diff(np.searchsorted(edges.cpu().numpy(), ends), prepend=0).tolist()
    sources = [EdgeSource(source.spec, count) for source, count in zip(before.edge_sources, counts, strict=True)]
    return Built(graph, signals, before.embedding, sources)


def induced_graph(graph: CorpusGraph, rows: Tensor) -> tuple[CorpusGraph, Tensor]:
    """Return the graph of some nodes, ascending and distinct rows, and the edges between them, and these edges.

    Nodes and relationship rows are in the order of the given graph; types and relations that do not occur are left out. The edges
    are their relationship rows in the given graph: int64, shape [m].

    >>> whole = CorpusGraph(["a", "b", "c"], ["", "", ""], edges=[("a", "b", "cites"), ("a", "c", "has")])
    >>> part, edges = induced_graph(whole, torch.tensor([0, 2]))
    >>> part.edges(), edges.tolist()
    ([Edge(source='a', target='c', relation='has', weight=1.0, text='', metadata={})], [1])
    """
    row_list, place = rows.tolist(), np.full(len(graph), -1)
    place[row_list] = np.arange(len(row_list))
    result = graph.with_columns({name: [getattr(graph, name)[row] for row in row_list] for name in COLUMNS})
    edges, columns = surviving(graph, slice(0, graph.num_edges), place)
    set_rows(result, [columns], graph.relation_names)
    keep_blank(graph, result, rows)
    return result, torch.from_numpy(edges).to(graph.device)
