"""A relevance model and an index with every number given, for worked examples and references."""

import torch

from graph_retrievers.graph import CorpusGraph, Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.relevance import RelevanceModel


class TableModel(RelevanceModel):
    """Latents by text, the same for every query; the head is ``tanh(latent) . weights``. Counts what it encodes."""

    name = "table"

    def __init__(self, latents, weights):
        self.latents = {text: torch.tensor(row, dtype=torch.float32) for text, row in latents.items()}
        self.weights = torch.tensor(weights, dtype=torch.float32)
        self.calls = []

    def encode(self, queries, texts):
        self.calls.extend(zip(queries, texts, strict=True))
        return torch.stack([self.latents[t] for t in texts]) if texts else torch.empty((0, self.weights.numel()))

    def score(self, latent):
        return torch.tanh(latent).matmul(self.weights.to(latent.device))


def toy_index(similarity, latents, edges, weights=(1.0, 0.5), device="cpu", *, edge_weights=None):
    """An index whose node n (a string) has similarity `similarity[n]` to the query vector [1.0]."""
    ids = list(similarity)
    weighed = edge_weights or [1.0] * len(edges)
    linked = [Edge(str(a), str(b), weight=weight) for (a, b), weight in zip(edges, weighed, strict=True)]
    graph = CorpusGraph(ids, ids, edges=linked, device=device)
    dense = DenseIndex([[similarity[n]] for n in ids], device=graph.device)
    return GraphIndex(graph, {"dense": dense}, relevance=TableModel(latents, weights))
