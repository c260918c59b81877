"""The dense signal: vectors of nodes and exact search over them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError
from graph_retrievers.graph.ragged import top_k
from graph_retrievers.signals.embedding import check_vectors

__all__ = ["DenseIndex"]

_TILE = 32768
_GROUP = 64


class DenseIndex:
    """Vectors of all nodes, searched by dot product (equal to the cosine for unit vectors).

    Parameters
    ----------
    vectors : array-like, shape [N, d]
        One vector a node, in row order.
    device : torch.device, optional
        Where they live; the CPU by default.
    backend : {"exact", "faiss"}, default "exact"
        ``"exact"`` multiplies in tiles on the device. ``"faiss"`` asks an ``IndexFlatIP`` of faiss (extra
        ``faiss``) for searches without a filter; scores are the same.

    Attributes
    ----------
    vectors : Tensor, shape [N, d], float32
    """

    def __init__(self, vectors: Any, *, device: torch.device | None = None, backend: str = "exact") -> None:
        if backend not in ("exact", "faiss"):
            raise InvalidArgumentError(f"Unknown dense backend {backend!r}; choose 'exact' or 'faiss'.")
        self.vectors = check_vectors(vectors).to(device or torch.device("cpu")).contiguous()
        self.backend = backend
        self._faiss: Any = _faiss_index(self.vectors) if backend == "faiss" else None

    def __len__(self) -> int:
        """Return the number of vectors N."""
        return self.vectors.shape[0]

    @property
    def dimension(self) -> int:
        """Width d of the vectors."""
        return self.vectors.shape[1]

    @cached_property
    def norms(self) -> Tensor:
        """Lengths of the vectors: Tensor, shape [N], float32; 0 where a node has no vector (a row of zeros)."""
        return torch.linalg.vector_norm(self.vectors, dim=1)

    def similarities(self, queries: Tensor) -> Tensor:
        """Return dot products with every node: Tensor, shape [B, N], from `queries` of shape [B, d]."""
        return queries @ self.vectors.T

    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k nodes of largest dot product; ties go to the lower row.

        Parameters
        ----------
        queries : Tensor, shape [B, d]
        k : int
            Clamped to N.
        allowed : Tensor, shape [N] or [B, N], bool, optional
            Nodes that may be returned.

        Returns
        -------
        scores : Tensor, shape [B, k], float32
        rows : Tensor, shape [B, k], int64
            Best first; -1 (score -inf) where fewer nodes are allowed.
        """
        k = min(k, len(self))
        if self._faiss is not None and allowed is None and k:
            found = self._search_faiss(queries, k)
            if found is not None:
                return found
        values = torch.empty((queries.shape[0], 0), device=queries.device)
        rows = torch.empty((queries.shape[0], 0), dtype=torch.int64, device=queries.device)
        # Tiles keep the table of scores in cache and bounded; the best of each are merged.
        for start in range(0, len(self), _TILE):
            scores = queries @ self.vectors[start : start + _TILE].T
            if allowed is not None:
                scores = scores.masked_fill(~allowed[..., start : start + _TILE], float("-inf"))
            best, columns = _grouped_top_k(scores, k)
            values, rows = torch.cat([values, best], 1), torch.cat([rows, columns + start], 1)
            if values.shape[1] > k:
                values, order = top_k(values, k)
                rows = rows.gather(1, order)
        return values, torch.where(values > float("-inf"), rows, torch.full_like(rows, -1))

    def _search_faiss(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
        """Return what faiss finds; None where more nodes tie at the cut than it brought, and row order cannot be told."""
        # Some more than asked, so that a tie at the cut is seen and settled towards the lower row.
        reach = min(k + 16, len(self))
        scores, rows = self._faiss.search(queries.cpu().numpy().astype(np.float32), reach)
        if reach < len(self) and bool((scores[:, -1] >= scores[:, k - 1]).any()):
            return None
        table_rows, order = torch.sort(torch.from_numpy(rows), dim=1)
        table = torch.from_numpy(scores).gather(1, order)
        values, columns = top_k(table, k)
        return values.to(queries.device), table_rows.gather(1, columns).to(queries.device)


def _grouped_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return :func:`top_k` of wide rows: the k best lie in the k groups with the largest maxima."""
    size = scores.shape[1]
    groups = size // _GROUP
    if groups <= 2 * k:
        return top_k(scores, k)
    body, tail = scores[:, : groups * _GROUP], scores[:, groups * _GROUP :]
    chosen = top_k(body.reshape(scores.shape[0], groups, _GROUP).amax(2), k)[1]
    chosen = torch.sort(chosen, dim=1).values
    columns = (chosen.unsqueeze(2) * _GROUP + torch.arange(_GROUP, device=scores.device)).flatten(1)
    rest = torch.arange(groups * _GROUP, size, device=scores.device).expand(scores.shape[0], -1)
    columns = torch.cat([columns, rest], 1)
    values, order = top_k(torch.cat([body.gather(1, columns[:, : k * _GROUP]), tail], 1), k)
    return values, columns.gather(1, order)


def _faiss_index(vectors: Tensor) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss is not installed; run pip install 'graph-retrievers[faiss]'.") from error
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors.cpu().numpy())
    return index
