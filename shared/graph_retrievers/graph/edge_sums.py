"""Sums of the weights of the edges between two nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_retrievers.graph.corpus_graph import CorpusGraph


def edge_sums(graph: CorpusGraph) -> Tensor:
    """Return the sum of the weights of the rows behind each entry of the simple view: Tensor, shape [nnz], float64.

    >>> edge_sums(CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b"), ("b", "a"), ("a", "a")])).tolist()
    [2.0, 2.0]
    """
    count = graph.indices.numel()
    if 2 * graph.num_edges == count and bool((graph.weights == 1).all()):
        return torch.ones(1, dtype=torch.float64, device=graph.device).expand(count)
    view = graph.incidence
    return summed(len(graph), view.keys, graph.weights[view.rows])[1]


def summed(size: int, keys: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return distinct keys ``node * size + neighbor`` of ascending ones, without self loops, and the sums of their weights.

    >>> summed(2, torch.tensor([0, 1, 1]), torch.tensor([9.0, 1.0, 2.0]))
    (tensor([1]), tensor([3.], dtype=torch.float64))
    """
    proper = keys % (size + 1) != 0
    if not bool(proper.all()):
        keys, weights = keys[proper], weights[proper]
    keys, place = torch.unique_consecutive(keys, return_inverse=True)
    return keys, torch.zeros(keys.numel(), dtype=torch.float64, device=keys.device).index_add_(0, place, weights.double())
