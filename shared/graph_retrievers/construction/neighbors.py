"""Edges from each node to the k nearest neighbours of its vector."""

from __future__ import annotations

import torch

from graph_retrievers.arguments import positive, typed
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.vectors import check_vectors

__all__ = ["NearestNeighbors"]

_BATCH = 1024


class NearestNeighbors(EdgeSpec):
    """The k nearest neighbours of each node by cosine: the corpus graph of graph-based adaptive reranking.

    Edges point from a node to its neighbours, nearest first; ties go to the lower row. The search is exact. Source: MacAvaney et
    al., "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, section 3. Raises MissingSignalError if the nodes have no vectors.

    Parameters
    ----------
    k : int, default 10
        Neighbours per node; fewer only if the corpus has at most k nodes.
    min_similarity : float, optional
        Minimum cosine of a neighbour, in [-1, 1]; no limit by default.
    relation : str, default "similar"

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> build_edges([Node(name, "") for name in "abc"], NearestNeighbors(1), vectors=[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    [('a', 'b', 'similar'), ('b', 'a', 'similar'), ('c', 'b', 'similar')]
    """

    needs_vectors = True

    @typed
    def __init__(self, k: int = 10, *, min_similarity: float | None = None, relation: str = "similar") -> None:
        self.k = positive("k", k)
        if min_similarity is not None and not -1 <= min_similarity <= 1:
            raise InvalidArgumentError(f"min_similarity must be a cosine in [-1, 1], got {shown(min_similarity)}.")
        self.min_similarity, self.relation = min_similarity, relation

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the nodes."""
        if corpus.vectors is None:
            raise MissingSignalError("Nearest neighbours need vectors: pass embedding= or vectors=.")
        vectors = torch.nn.functional.normalize(check_vectors(corpus.vectors, len(corpus.nodes)), dim=1)
        index = DenseIndex(vectors, device=vectors.device)
        edges: list[tuple[str, str, str]] = []
        for start in range(0, len(index), _BATCH):
            query_rows = torch.arange(start, min(start + _BATCH, len(index)), device=vectors.device).unsqueeze(1)
            # A node finds itself, so that one more is searched for; among many equal nodes it may not, and the last is dropped.
            scores, rows = index.search(vectors[query_rows[:, 0]], self.k + 1)
            keep = rows != query_rows
            keep &= torch.cumsum(keep, 1) <= self.k
            if self.min_similarity is not None:
                keep &= scores >= self.min_similarity
            near, column = keep.nonzero(as_tuple=True)
            pairs = zip((near + start).tolist(), rows[near, column].tolist(), strict=True)
            edges.extend((corpus.nodes[a].id, corpus.nodes[b].id, self.relation) for a, b in pairs)
        return SpecEdges(edges)
