"""Approximate search of vectors by a navigable small world graph (HNSW), with faiss."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError

# Neighbours of a vector, and how many vectors are kept in view while one is added and while a query is answered.
_NEIGHBORS, _BUILDING, _SEARCHING = 32, 80, 256
# The share of vectors without a row, and of rows without a vector, beyond which the graph is built again.
_CHANGED, _PIECE = 0.1, 8192
# Recall is measured on a sample of this many vectors, this many at a time, by this many nearest vectors of each.
_SAMPLE, _AT_A_TIME, _NEAREST = 200, 20, 10
_UNFIT = "The links of the HNSW graph do not fit its vectors; build the index again."


@cache
def faiss_or_none() -> Any:
    """Return the module, or None if it is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    return faiss


def import_faiss() -> Any:
    """Return the module; MissingDependencyError says how to install it."""
    if (faiss := faiss_or_none()) is None:
        raise MissingDependencyError("faiss is not installed; run pip install faiss-cpu.")
    return faiss


class HNSW:
    """A graph of near vectors, in which a search moves towards the query.

    Parameters
    ----------
    graph : faiss.IndexHNSWFlat
        Over M vectors.
    rows : Tensor, shape [M], int64
        The row of each vector; -1 if the row is gone.
    count : int
        The number of rows N.
    repeated : Tensor, shape [r], int64, optional
        The rows whose vectors repeated others when the graph was built; by default all rows without a vector in the graph.
    recall : float, default 1.0
        The share of the ten nearest that it finds, measured when it was built, for 200 of its vectors against exact search.

    Attributes
    ----------
    outside : Tensor, shape [n], int64
        The rows without a vector in the graph.
    size : int
        The number of the other rows.

    References
    ----------
    Malkov and Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs",
    IEEE TPAMI 2020.

    Examples
    --------
    >>> HNSW.of(torch.eye(3)).search(torch.tensor([[0.0, 1.0, 0.5]]), 3)
    (tensor([[1.0000, 0.5000, 0.0000]]), tensor([[1, 2, 0]]))
    """

    def __init__(self, graph: Any, rows: Tensor, count: int, repeated: Tensor | None = None, recall: float = 1.0) -> None:
        mask = torch.ones(count, dtype=torch.bool)
        mask[rows[rows >= 0]] = False
        self._graph, self._rows, self.outside = graph, rows, mask.nonzero().flatten()
        self._repeated = self.outside if repeated is None else repeated
        self.size, self.recall = count - len(self.outside), recall

    @classmethod
    def of(cls, vectors: Tensor) -> HNSW:
        """Return the graph of vectors, shape [N, d]; of equal ones, it has only the first, because copies would displace others."""
        faiss, graph, rows = import_faiss(), _empty(vectors.shape[1]), _first_rows(vectors)
        threads = faiss.omp_get_max_threads()
        # Several threads would make another graph each time.
        faiss.omp_set_num_threads(1)
        table = vectors[rows]
        try:
            graph.add(table.numpy())
        finally:
            faiss.omp_set_num_threads(threads)
        result = cls(graph, rows, len(vectors))
        result.recall = result._measured(table)
        return result

    def _measured(self, vectors: Tensor) -> float:
        """Return the share of the nearest vectors that a search finds, from a sample."""
        sample, k = vectors[:: max(1, len(vectors) // _SAMPLE)][:_SAMPLE], min(_NEAREST, len(vectors))
        least = torch.cat([torch.topk(part @ vectors.T, k).values[:, -1:] for part in sample.split(_AT_A_TIME)])
        values = torch.topk(self.search(sample, k)[0], k).values
        return float((values >= least - 1e-6).float().mean())

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return dot products and rows near each query: Tensor, shape [B, K], K >= k if there are enough.

        Rows `outside` are not among them; a vector without a row has -inf and -1.
        """
        reach = min(k + 16 + min(len(self._rows) - self.size, k), len(self._rows))
        settings = import_faiss().SearchParametersHNSW(efSearch=max(_SEARCHING, 2 * reach))
        scores, places = (torch.from_numpy(part) for part in self._graph.search(queries.numpy(), reach, params=settings))
        rows = torch.where(places >= 0, self._rows[places.clamp(min=0)], -1)
        return scores.masked_fill(rows < 0, -torch.inf), rows

    def updated(self, old_rows: Tensor) -> HNSW | None:
        """Return the graph of changed rows, where `old_rows` has the current row of each, -1 if new; None if too many changed."""
        place = torch.full((len(self._rows) + len(self.outside),), -1)
        # If several rows have one content, the first has its vector.
        old = (old_rows >= 0).nonzero().flatten().flip(0)
        place[old_rows[old]] = old
        rows, repeated = torch.where(self._rows >= 0, place[self._rows.clamp(min=0)], -1), place[self._repeated]
        result = HNSW(self._graph, rows, len(old_rows), repeated[repeated >= 0], self.recall)
        count = len(result.outside) - len(result._repeated) + int((result._rows < 0).sum())
        return result if count <= _CHANGED * len(old_rows) else None

    def state(self) -> dict[str, Tensor]:
        """Return the links, the row of each vector, and the vectors without one."""
        faiss, links = import_faiss(), self._graph.hnsw
        levels, neighbors = (torch.from_numpy(faiss.vector_to_array(part)) for part in (links.levels, links.neighbors))
        gone = [self._graph.reconstruct(row) for row in (self._rows < 0).nonzero().flatten().tolist()]
        vectors = torch.from_numpy(np.array(gone, np.float32).reshape(len(gone), self._graph.d))
        parts = {"levels": levels, "neighbors": neighbors, "rows": self._rows, "gone": vectors, "repeated": self._repeated}
        parts |= {"entry": torch.tensor([links.entry_point]), "recall": torch.tensor([self.recall])}
        return {f"hnsw_{name}": part for name, part in parts.items()}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], vectors: Tensor) -> HNSW:
        """Return the graph of a :meth:`state` and the vectors of all rows; InvalidArgumentError if they do not match."""
        faiss, graph = import_faiss(), _empty(vectors.shape[1])
        parts = ("levels", "neighbors", "entry", "rows", "gone", "repeated", "recall")
        levels, neighbors, entry, rows, gone, repeated, recall = (tensors[f"hnsw_{name}"] for name in parts)
        ends = torch.from_numpy(faiss.vector_to_array(graph.hnsw.cum_nneighbor_per_level).astype(np.int64))
        numbers = (levels, neighbors, entry, rows, repeated)
        plain = all(part.dim() == 1 and not part.is_floating_point() and not part.is_complex() for part in numbers)
        if not plain or len(entry) != 1 or recall.shape != (1,) or not 0 <= float(recall) <= 1:
            raise InvalidArgumentError(_UNFIT)
        rows, repeated = rows.long(), repeated.long()
        count, real = len(levels), rows[rows >= 0]
        # A link that leads out of the graph, or down to a vector that ends below its level, would read foreign memory.
        fits = count > 0 and rows.shape == (count,) and gone.shape == (int((rows < 0).sum()), vectors.shape[1])
        fits = fits and bool(((levels > 0) & (levels < len(ends))).all()) and bool((real < len(vectors)).all())
        fits = fits and len(real.unique()) == len(real) and 0 <= int(entry) < count
        fits = fits and bool(((repeated >= 0) & (repeated < len(vectors))).all()) and len(repeated.unique()) == len(repeated)
        fits = fits and not bool(torch.isin(repeated, real).any())
        sizes = ends[levels.long()] if fits else ends
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(sizes, 0)])
        if fits and (fits := len(neighbors) == int(offsets[-1]) and bool(((neighbors >= -1) & (neighbors < count)).all())):
            inside = torch.arange(len(neighbors)) - offsets[:-1].repeat_interleave(sizes)
            level = torch.searchsorted(ends, inside, right=True) - 1
            fits = bool(((neighbors < 0) | (levels[neighbors.clamp(min=0).long()] > level)).all())
        if not fits or int(levels[int(entry)]) != int(levels.max()):
            raise InvalidArgumentError(_UNFIT)
        table = torch.empty(count, vectors.shape[1])
        table[rows >= 0], table[rows < 0] = vectors[real], gone
        faiss.downcast_index(graph.storage).add(table.numpy())
        graph.ntotal, graph.hnsw.entry_point, graph.hnsw.max_level = count, int(entry), int(levels.max()) - 1
        for name, values in (("levels", levels.int()), ("neighbors", neighbors.int())):
            faiss.copy_array_to_vector(values.numpy(), getattr(graph.hnsw, name))
        faiss.copy_array_to_vector(offsets.numpy().astype(np.uint64), graph.hnsw.offsets)
        return cls(graph, rows, len(vectors), repeated, float(recall))


def _first_rows(vectors: Tensor) -> Tensor:
    """Return the first row of each distinct vector, ascending."""
    bits = vectors.contiguous().numpy().view(np.int32)
    factors = np.random.default_rng(0).integers(1, 2**62, bits.shape[1])
    # Different vectors seldom have one key; the second of them is then searched for as a repeated one is.
    parts = [(bits[start : start + _PIECE].astype(np.int64) * factors).sum(1) for start in range(0, len(bits), _PIECE)]
    return torch.from_numpy(np.sort(np.unique(np.concatenate(parts), return_index=True)[1]))


def _empty(dimension: int) -> Any:
    faiss = import_faiss()
    graph = faiss.IndexHNSWFlat(dimension, _NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = _BUILDING
    return graph
