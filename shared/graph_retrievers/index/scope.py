"""The graph of some of the nodes, and of the edges among them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.graph.corpus_graph import COLUMNS, CorpusGraph, Rows

__all__ = ["induced_graph"]


def induced_graph(graph: CorpusGraph, rows: Tensor) -> tuple[CorpusGraph, Tensor]:
    """Return the graph that nodes, ascending and distinct rows, and the edges among them would make on their own, and these edges.

    Nodes and relationship rows are in the order of the given graph; types and relations that do not occur are not named. The edges
    are their relationship rows in the given graph: int64, shape [m].

    >>> whole = CorpusGraph(["a", "b", "c"], ["", "", ""], edges=[("a", "b", "cites"), ("a", "c", "has")])
    >>> part, edges = induced_graph(whole, torch.tensor([0, 2]))
    >>> part.edges(), edges.tolist()
    ([Edge(source='a', target='c', relation='has', weight=1.0, text='', metadata={})], [1])
    """
    chosen = rows.tolist()
    made = graph.with_columns({name: [getattr(graph, name)[row] for row in chosen] for name in COLUMNS})
    place = torch.full((len(graph),), -1, dtype=torch.int64, device=graph.device)
    place[rows] = torch.arange(rows.numel(), device=graph.device)
    sources, targets = place[graph.sources], place[graph.targets]
    edges = ((sources >= 0) & (targets >= 0)).nonzero().flatten()
    # Relations are numbered in the order in which they are met.
    names, first, relations = np.unique(graph.relations[edges].cpu().numpy(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    kept = edges.tolist()
    texts = [graph.edge_texts[row] for row in kept] if graph.edge_texts else []
    metadata = [graph.edge_metadata[row] for row in kept] if graph.edge_metadata else []
    numbers = np.argsort(order)[relations].astype(np.int32)
    ends = sources[edges].cpu().numpy(), targets[edges].cpu().numpy()
    weights = graph.weights[edges].cpu().numpy()
    rows_kept = Rows(*ends, numbers, weights, texts if any(texts) else [], metadata if any(metadata) else [])
    made._set_rows(rows_kept, [graph.relation_names[names[place]] for place in order])
    return made, edges
