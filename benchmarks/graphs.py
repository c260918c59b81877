"""Synthetic graphs for benchmarks: power-law propensities, and communities that hold most edges."""

from collections.abc import Sequence

import numpy as np
import torch

from graph_retrievers.graph import CorpusGraph


def power_law_pairs(size: int, edges: int, seed: int = 0, community: int = 100, inside: float = 0.7) -> np.ndarray:
    """Return about `edges` distinct undirected pairs, shape [E, 2]: propensities of tail 2.5, 70 % within communities."""
    rng = np.random.default_rng(seed)
    weight = rng.pareto(1.5, size) + 1
    pairs = np.empty((0, 2), np.int64)
    cumulative = np.cumsum(weight) / weight.sum()
    while len(pairs) < edges:
        need = int((edges - len(pairs)) * 1.3) + 10
        head = np.searchsorted(cumulative, rng.random(need))
        tail = np.searchsorted(cumulative, rng.random(need))
        near = rng.random(need) < inside
        tail = np.where(near, np.minimum(head // community * community + rng.integers(0, community, need), size - 1), tail)
        new = np.stack([np.minimum(head, tail), np.maximum(head, tail)], 1)[head != tail]
        pairs = np.unique(np.concatenate([pairs, new]), axis=0)
    return pairs[rng.permutation(len(pairs))[:edges]]


def corpus_graph(size: int, pairs: np.ndarray, device: str = "cpu", texts: Sequence[str] | None = None) -> CorpusGraph:
    """Return a corpus graph of numbered nodes with these edges."""
    ids = [str(i) for i in range(size)]
    edges = ((ids[a], ids[b], "link") for a, b in pairs.tolist())
    return CorpusGraph(ids, texts or [""] * size, edges=edges, device=device)


def unit_vectors(size: int, width: int, seed: int = 0, community: int = 100) -> torch.Tensor:
    """Return unit vectors around one centre a community, shape [size, width], float32."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn((size + community - 1) // community, width, generator=generator)
    noise = torch.randn(size, width, generator=generator)
    return torch.nn.functional.normalize(centres[torch.arange(size) // community] + 1.2 * noise, dim=1)
