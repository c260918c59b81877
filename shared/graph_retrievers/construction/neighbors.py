"""Edges from nearness: the k nearest neighbours of each node's vector."""

from __future__ import annotations

import torch

from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found, positive
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import check_vectors

__all__ = ["NearestNeighbors"]

_BATCH = 1024


class NearestNeighbors(EdgeSpec):
    """The k nearest neighbours of each node by cosine: the corpus graph of graph-based adaptive reranking.

    Parameters
    ----------
    k : int, default 10
        Neighbours of a node; fewer only in a corpus of k nodes or fewer.
    min_similarity : float, optional
        Least cosine of a neighbour, in [-1, 1]; by default all k count.
    relation : str, default "similar"
        Name of the relation.

    Raises
    ------
    MissingSignalError
        If the nodes have no vectors.

    Notes
    -----
    Exact, in tiles of bounded size. An edge points from a node to its neighbour, nearest first; ties go to the
    lower row.

    References
    ----------
    MacAvaney et al., "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, section 3.
    """

    needs_vectors = True

    def __init__(self, k: int = 10, *, min_similarity: float | None = None, relation: str = "similar") -> None:
        self.k = positive("k", k)
        if min_similarity is not None and not -1 <= min_similarity <= 1:
            raise InvalidArgumentError(f"min_similarity is a cosine in [-1, 1], got {min_similarity!r}.")
        self.min_similarity, self.relation = min_similarity, relation

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order of the nodes."""
        if corpus.vectors is None:
            raise MissingSignalError("Nearest neighbours need vectors: pass embedding= or vectors=.")
        vectors = torch.nn.functional.normalize(check_vectors(corpus.vectors, len(corpus.nodes)), dim=1)
        index = DenseIndex(vectors, device=vectors.device)
        edges: list[tuple[str, str, str]] = []
        for start in range(0, len(index), _BATCH):
            own = torch.arange(start, min(start + _BATCH, len(index)), device=vectors.device).unsqueeze(1)
            # One more than asked, as a node finds itself; among many equal nodes it may not, then the last goes.
            scores, rows = index.search(vectors[own[:, 0]], self.k + 1)
            keep = rows != own
            keep &= torch.cumsum(keep, 1) <= self.k
            if self.min_similarity is not None:
                keep &= scores >= self.min_similarity
            near, column = keep.nonzero(as_tuple=True)
            pairs = zip((near + start).tolist(), rows[near, column].tolist(), strict=True)
            edges.extend((corpus.nodes[a].id, corpus.nodes[b].id, self.relation) for a, b in pairs)
        return Found(edges)
