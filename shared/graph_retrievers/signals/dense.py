"""The dense signal: vectors in memory with exact search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import falling, top_k
from graph_retrievers.signals.hnsw import HNSW, faiss_or_none
from graph_retrievers.signals.signal import VectorSignal
from graph_retrievers.signals.vectors import LARGEST, check_vectors

__all__ = ["DenseIndex"]

_TILE = 32768
_GROUP = 64
# With fewer scores, or fewer groups for each of the best, the best are found directly sooner than by groups.
_FEW, _SPARSE = 1 << 16, 12
_MANY = 2048
# With more queries, a product of matrices takes less time than faiss for each.
_FEW_QUERIES = 3
# Entries of vectors gathered at a time.
_GATHERED = 1 << 24
# Integers as wide as the numbers of vectors.
_BITS = {4: torch.int32, 2: torch.int16, 1: torch.int8}
ROUNDING = 1e-6
"""Dot products of single precision differ by less than this share of the product of the two lengths."""


class DenseIndex(VectorSignal):
    """Vectors of all rows, searched by dot product or cosine, which are the same for unit vectors.

    Parameters
    ----------
    vectors : array-like, shape [N, d]
        In row order, of unit length for cosines. A row of zeros means that the row has no vector.
    device : torch.device, optional
        The CPU by default.
    backend : {"exact", "hnsw"}, default "exact"
        ``"exact"`` compares all vectors: in tiles on the device, and for few queries on a processor by faiss, which gives the same
        rows. ``"hnsw"`` searches a graph of near vectors, except with a filter or a scope. The graph takes long to build and is
        saved. The search sometimes misses one of the k best (:attr:`recall`). It is for cosines: for vectors whose lengths or mean
        differ much from those of unit vectors around zero, it may miss half of the k largest dot products.
    covers : {"nodes", "edges"}, default "nodes"
    metric : {"dot", "cosine"}, default "dot"
        ``"cosine"`` scales these vectors and, in :meth:`prepared`, those of queries to unit length.
    precision : {"float32", "bfloat16", "int8"}, default "float32"
        How vectors are stored: "bfloat16" needs half and "int8", with a scale for each row, a quarter of the memory. Scores are
        those of the rounded vectors. See ``benchmarks/results/scale`` for the loss.

    Examples
    --------
    >>> index = DenseIndex([[1.0, 0.0], [0.6, 0.8]])
    >>> scores, rows = index.search(torch.tensor([[0.0, 1.0]]), 1)
    >>> rows.tolist(), round(scores.item(), 2)
    ([[1]], 0.8)
    >>> DenseIndex([[3.0, 4.0]], metric="cosine").vectors
    tensor([[0.6000, 0.8000]])
    """

    kind = "dense"

    def __init__(
        self,
        vectors: Any,
        *,
        device: torch.device | None = None,
        backend: str = "exact",
        covers: Literal["nodes", "edges"] = "nodes",
        metric: str = "dot",
        precision: str = "float32",
    ) -> None:
        self.metric = choice("metric", metric, ("dot", "cosine"))
        self.precision = choice("dense precision", precision, ("float32", "bfloat16", "int8"))
        self.backend = choice("dense backend", backend, ("exact", "hnsw"))
        self.covers = choice("covers", covers, ("nodes", "edges"))
        if backend != "exact" and precision != "float32":
            raise InvalidArgumentError(f"An HNSW graph is of vectors of float32, got the dense precision {precision!r}.")
        table = self.prepared(check_vectors(vectors)).to(device or torch.device("cpu")).contiguous()
        self._table, self._scales = self._rounded(table)
        self._hnsw = HNSW.of(self._table.cpu()) if backend == "hnsw" and len(self) else None

    def __len__(self) -> int:
        """Return the number of vectors N."""
        return self._table.shape[0]

    def __repr__(self) -> str:
        """Return the sizes."""
        options = f"backend={self.backend!r}, metric={self.metric!r}"
        options += "" if self.precision == "float32" else f", precision={self.precision!r}"
        return f"DenseIndex({len(self)} {self.covers}, dimension={self.dimension}, {options})"

    @property
    def recall(self) -> float | None:
        """The share of the ten nearest vectors that a search without a filter finds, from a sample; None if search is exact."""
        return None if self._hnsw is None else self._hnsw.recall

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Width d of the vectors."""
        return self._table.shape[1]

    @property
    def vectors(self) -> Tensor:
        """All vectors: Tensor, shape [N, d], float32; converted at each access if they are stored in another precision."""
        return self.taken(slice(None))

    def taken(self, rows: Tensor | slice) -> Tensor:
        """Return the vectors of some rows, a slice or a Tensor of shape [n]: Tensor, shape [n, d], float32."""
        # index_select takes a fifth of the time of indexing.
        table = self._table[rows] if isinstance(rows, slice) else self._table.index_select(0, rows)
        if self._scales is not None:
            return table.float() * self._scales[rows].unsqueeze(-1)
        return table if table.dtype == torch.float32 else table.float()

    def _rounded(self, vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return vectors as they are stored, and the scale of each row."""
        if self.precision == "bfloat16":
            return vectors.bfloat16(), None
        if self.precision == "float32":
            return vectors, None
        table, scales = torch.empty(vectors.shape, dtype=torch.int8, device=vectors.device), vectors.new_ones(len(vectors))
        for start in range(0, len(vectors), _TILE):
            tile = vectors[start : start + _TILE]
            largest = tile.abs().amax(1) / 127
            scales[start : start + _TILE] = largest = largest.masked_fill(largest == 0, 1.0)
            table[start : start + _TILE] = (tile / largest.unsqueeze(1)).round().to(torch.int8)
        return table, scales

    def _tiles(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first row of each tile and its vectors; tiles bound the memory of what is computed from them."""
        for start in range(0, len(self), _TILE):
            yield start, self.taken(slice(start, start + _TILE))

    def prepare(self) -> None:
        """Compute the lengths of the vectors."""
        _ = self._rounding

    @cached_property
    def norms(self) -> Tensor:  # type: ignore[override]
        """Lengths of the vectors: Tensor, shape [N], float32; 0 for a row without a vector."""
        if self.precision == "float32":
            return torch.linalg.vector_norm(self._table, dim=1)
        return torch.cat([torch.linalg.vector_norm(tile, dim=1) for _, tile in self._tiles()] or [self._table.new_zeros(0).float()])

    def prepared(self, vectors: Tensor) -> Tensor:
        """Return vectors as they are compared: of unit length for cosines, otherwise unchanged. Zeros stay zeros."""
        if self.metric == "dot":
            return vectors
        lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        # Unit vectors do not change, so that a saved index returns the same scores.
        scale = lengths.masked_fill(((lengths - 1).abs() < 1e-6) | (lengths == 0), 1.0)
        return vectors if bool((scale == 1).all()) else vectors / scale

    @cached_property
    def _rounding(self) -> Tensor:
        """How much dot products with a vector of length 1 may differ by rounding."""
        return ROUNDING * (self.norms.max() if len(self) else self.norms.sum())

    def table(self, queries: Tensor) -> Tensor:
        """Return dot products with every row: Tensor, shape [B, N], from `queries` of shape [B, d]."""
        return self.cleared(self.products(queries), queries)

    def products(self, queries: Tensor, rows: slice = slice(None)) -> Tensor:
        """Return the raw dot products with all rows, or a slice of them, with rounding errors: Tensor, shape [B, n].

        Those with all rows are for :meth:`best_of`.
        """
        table = self._table[rows]
        if self.precision == "float32":
            return _product(queries, table)
        products = queries.new_empty(len(queries), len(table))
        # Read into one small table again and again, which stays in the cache of a processor.
        size = min(len(table), _TILE if table.is_cuda else _MANY)
        buffer = torch.empty((size, self.dimension), device=table.device)
        for start in range(0, len(table), max(size, 1)):
            part = slice(start, start + size)
            vectors = buffer[: len(table) - start].copy_(table[part])
            products[:, part] = _product(queries, vectors)
        return products if self._scales is None else products.mul_(self._scales[rows])

    def cleared(self, products: Tensor, queries: Tensor) -> Tensor:
        """Return :meth:`products` without what is only rounding: exact zeros, and the same for the same vectors; shape [B, N]."""
        rows, first = self._repeated
        if len(rows):
            # Near 0, the last digit of two equal products would be more than that of a tie.
            products = products.index_copy(1, rows, products.index_select(1, first))
        return zeroed(products, self._slack(queries))

    def entries(self, products: np.ndarray, lengths: np.ndarray, batch: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return what :meth:`cleared` has for some pairs, `batch` and `rows` of shape [n], without clearing all: shape [n].

        `products` are those of queries with these `lengths`, shape [B].
        """
        # Numbers of a table as one list are read in half of the time.
        values = products.ravel().take(batch * len(self) + self._firsts.take(rows))
        values[np.abs(values) <= (self._rounding.item() * lengths).take(batch)] = 0.0
        return values

    @cached_property
    def _firsts(self) -> np.ndarray:
        """The lowest row with the vector of each row: shape [N]."""
        firsts = np.arange(len(self))
        rows, first = self._repeated
        firsts[rows.numpy()] = first.numpy()
        return firsts

    @cached_property
    def _repeated(self) -> tuple[Tensor, Tensor]:
        """The rows whose vector a lower row has too, and the lowest such row of each: Tensors of shape [M]."""
        bits = self._table.view(_BITS[self._table.element_size()])
        draw = torch.Generator().manual_seed(0)
        weights = torch.randint(-(1 << 62), 1 << 62, (1 + self.dimension,), generator=draw).to(bits.device)
        # Sums of integers, which wrap around, are the same for the same vectors in any order.
        sums = torch.cat([(tile * weights[1:]).sum(1) for tile in bits.split(_MANY)])
        if self._scales is not None:
            sums += self._scales.view(torch.int32).long() * weights[0]
        groups, rows = sums.unique(return_inverse=True)[1], torch.arange(len(sums), device=sums.device)
        first = torch.full_like(rows, len(rows)).scatter_reduce_(0, groups, rows, "amin")[groups]
        copies = (first != rows).nonzero().flatten()
        first = first[copies]
        same = (self._table[copies] == self._table[first]).all(1)
        if self._scales is not None:
            same &= self._scales[copies] == self._scales[first]
        return copies[same], first[same]

    def _slack(self, queries: Tensor) -> Tensor:
        """Return how much dot products may differ by rounding: Tensor, shape [B, 1]."""
        return self._rounding * torch.linalg.vector_norm(queries, dim=1, keepdim=True)

    def scores(self, queries: Tensor, batch: Tensor, rows: Tensor) -> Tensor:
        """Return dot products of single pairs: Tensor, shape [n]; see :meth:`Signal.scores`."""
        size = max(1, _GATHERED // max(self.dimension, 1))
        if len(rows) > size:
            parts = zip(batch.split(size), rows.split(size), strict=True)
            return torch.cat([self.scores(queries, b, row) for b, row in parts])
        products = queries.index_select(0, batch).mul_(self.taken(rows)).sum(-1)
        return zeroed(products, self._slack(queries).flatten().index_select(0, batch))

    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k rows with the largest dot products; see :meth:`Signal.search`. Scores equal up to rounding are ties."""
        k = min(k, len(self))
        if self._hnsw is not None and allowed is None and k:
            return self._search_hnsw(self._hnsw, queries, k)
        return self._search_exact(queries, k, allowed)

    def exact(self, allowed: Tensor | None) -> bool:
        """Return whether a search with this mask reads all rows."""
        return self._hnsw is None or allowed is not None

    def best_of(self, products: Tensor, queries: Tensor, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the result of an exact :meth:`search` from the :meth:`products` of the queries."""
        slack = self._slack(queries)
        scores = products if allowed is None else products.masked_fill(~allowed, float("-inf"))
        return _ranked(*_grouped_top_k(scores, min(k, len(self)), slack), slack)

    def _search_exact(self, queries: Tensor, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if allowed is None and (result := self._search_faiss(queries, k)) is not None:
            return result
        slack = self._slack(queries)
        values = torch.empty((queries.shape[0], 0), device=queries.device)
        rows = torch.empty((queries.shape[0], 0), dtype=torch.int64, device=queries.device)
        # Tiles bound the table of scores and keep it in cache; the best of each are merged.
        for start in range(0, len(self), _TILE):
            scores = self.products(queries, slice(start, start + _TILE))
            if allowed is not None:
                scores = scores.masked_fill(~allowed[..., start : start + _TILE], float("-inf"))
            best, columns = _grouped_top_k(scores, k, slack)
            if not start:
                values, rows = best, columns
                continue
            # In row order, so that ties go to the lower row.
            rows, order = torch.sort(torch.cat([rows, columns + start], 1), dim=1)
            values = torch.cat([values, best], 1).gather(1, order)
            order = top_k(values, k, slack)[1]
            values, rows = values.gather(1, order), rows.gather(1, order)
        return _ranked(values, rows, slack)

    def _search_faiss(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
        """Return the result of faiss, which reads the vectors once for each query and writes no table of products.

        None if that is no faster, if faiss is missing, or if more rows may tie at rank k than it returned.
        """
        # Some more than k, to see ties at rank k, which go to the lower row.
        reach = k + 16
        few = 0 < len(queries) <= _FEW_QUERIES and _MANY + 16 * reach <= len(self)
        if not few or self._table.device.type != "cpu" or self.precision != "float32" or (faiss := faiss_or_none()) is None:
            return None
        slack = self._slack(queries)
        products, places = faiss.knn(queries.numpy(), self._table.numpy(), reach, metric=faiss.METRIC_INNER_PRODUCT)
        if bool((products[:, -1] >= products[:, k - 1] - slack[:, 0].numpy()).any()):
            return None
        rows, order = torch.sort(torch.from_numpy(places), dim=1)
        scores = torch.from_numpy(products).gather(1, order)
        values, columns = top_k(scores, k, slack)
        return falling(zeroed(values, slack)), rows.gather(1, columns)

    def _search_hnsw(self, graph: HNSW, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the best of the graph's results and of the rows that are not in the graph.

        Queries for which it finds fewer than k rows, as near vectors that have no row any more, or for which more rows may tie with
        rank k than it returned, are searched exactly.
        """
        scores, rows = (part.to(queries.device) for part in graph.search(queries.cpu().float(), k))
        counts, lowest = (rows >= 0).sum(1), scores.masked_fill(rows < 0, torch.inf).amin(1)
        outside = graph.outside.to(queries.device)
        scores = torch.cat([scores, queries @ self.taken(outside).T], 1)
        rows, order = torch.sort(torch.cat([rows, outside.expand(len(queries), -1)], 1), dim=1)
        slack = self._slack(queries)
        values, columns = top_k(scores.gather(1, order), k, slack)
        if values.shape[1] < k:
            return self._search_exact(queries, k)
        values, rows = falling(zeroed(values, slack)), rows.gather(1, columns)
        inexact = (counts < graph.size) & ((counts < k) | (lowest >= values[:, -1] - slack[:, 0]))
        if bool(inexact.any()):
            values[inexact], rows[inexact] = self._search_exact(queries[inexact], k)
        return values, rows

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the vectors and the settings."""
        settings = {"backend": self.backend, "covers": self.covers, "metric": self.metric}
        if self.backend == "hnsw" and len(self):
            # The vectors of a scope have no graph until they are saved.
            return {"vectors": self._table} | (self._hnsw or HNSW.of(self._table.cpu())).state(), settings
        if self.precision == "float32":
            return {"vectors": self._table}, settings
        scales = {} if self._scales is None else {"scales": self._scales}
        return {"vectors": self._table, **scales}, settings | {"precision": self.precision}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> DenseIndex:
        """Return the signal of a :meth:`state`."""
        table, scales = tensors["vectors"], tensors.get("scales")
        empty = cls(torch.zeros(0, table.shape[-1]), **settings)
        if empty.precision == "float32":
            table = empty.prepared(check_vectors(table))
        whole = scales is None if empty._scales is None else scales is not None and scales.shape == table.shape[:1]
        if scales is not None and (scales.dtype != torch.float32 or not bool(((scales > 0) & (127 * scales < LARGEST)).all())):
            raise InvalidArgumentError("The scales of the vectors are not float32 numbers above 0.")
        if table.dim() != 2 or table.dtype != empty._table.dtype or not whole:
            raise InvalidArgumentError(f"The vectors do not fit the precision {empty.precision!r}.")
        graph = HNSW.restore(tensors, table) if empty.backend == "hnsw" and len(table) else None
        return empty._with(table, scales, graph, device or torch.device("cpu"))

    def _with(
        self, table: Tensor, scales: Tensor | None, hnsw: HNSW | None = None, device: torch.device | None = None
    ) -> DenseIndex:
        """Return a signal with the same settings and vectors as they are stored, by default on the same device."""
        signal = object.__new__(DenseIndex)
        signal.metric, signal.backend, signal.covers, signal.precision = self.metric, self.backend, self.covers, self.precision
        signal._table, signal._scales = table.to(device), None if scales is None else scales.to(device)
        signal._hnsw = hnsw
        return signal

    def to(self, device: torch.device) -> DenseIndex:
        """Return this signal on another device."""
        return self._with(self._table, self._scales, self._hnsw, device)

    def updated(self, contents: Sequence[str], old_rows: Tensor, embed: Callable[[list[str]], Tensor]) -> DenseIndex:
        """Return the vectors of a changed corpus; only new contents are embedded. See :meth:`Signal.updated`."""
        new = (old_rows < 0).nonzero().flatten()
        # Stretches of rows that follow one another are copied at once; a new row is filled afterwards.
        starts = [0, *((old_rows.diff() != 1) | (old_rows[1:] <= 0)).nonzero().flatten().add(1).tolist()]

        def copied(values: Tensor) -> Tensor:
            if not len(self):
                return values.new_zeros(len(old_rows), *values.shape[1:])
            if len(starts) * 8 > len(old_rows):
                return values[old_rows.clamp(min=0)]
            places = zip(old_rows[starts].clamp(min=0).tolist(), [*starts[1:], len(old_rows)], starts, strict=True)
            parts = [values[row : row + stop - start] for row, stop, start in places]
            if values.device.type != "cpu" or values.dtype == torch.bfloat16:
                return torch.cat(parts)
            # numpy, which does not know bfloat16, asks the system for large pages: a copy takes half the time.
            return torch.from_numpy(np.concatenate([part.numpy() for part in parts]))

        vectors, scales = copied(self._table), None if self._scales is None else copied(self._scales)
        if new.numel():
            new_vectors = check_vectors(embed([contents[row] for row in new.tolist()]), new.numel(), self.dimension, "new vectors")
            vectors[new], new_scales = self._rounded(self.prepared(new_vectors).to(vectors.device))
            if scales is not None and new_scales is not None:
                scales[new] = new_scales
        graph = None if self._hnsw is None else self._hnsw.updated(old_rows.cpu())
        if self.backend == "hnsw" and graph is None and len(old_rows):
            graph = HNSW.of(vectors.cpu())
        return self._with(vectors, scales, graph)

    def restricted(self, rows: Tensor, contents: Sequence[str] | None) -> DenseIndex:
        """Return the vectors of some rows, copied. See :meth:`Signal.restricted`."""
        # Without the graph, whose walks lead over other rows too.
        return self._with(self._table[rows], None if self._scales is None else self._scales[rows])


def zeroed(products: Tensor, slack: Tensor) -> Tensor:
    """Return dot products with 0 for those that differ from 0 only by rounding, which depends on the size of a batch."""
    return products.masked_fill(products.abs() <= slack, 0.0)


def _product(queries: Tensor, vectors: Tensor) -> Tensor:
    """Return dot products: Tensor, shape [B, n], from queries [B, d] and vectors [n, d]."""
    if queries.device.type != "cpu" or len(vectors) < _MANY:
        return queries @ vectors.T
    # numpy takes three quarters of the time of torch, and half with a single vector; with few vectors it gains nothing.
    if len(queries) == 1:
        return torch.from_numpy(vectors.numpy() @ queries[0].numpy())[None]
    return torch.from_numpy(queries.numpy() @ vectors.numpy().T)


def _ranked(values: Tensor, rows: Tensor, slack: Tensor) -> tuple[Tensor, Tensor]:
    values = falling(zeroed(values, slack))
    return values, torch.where(values > float("-inf"), rows, torch.full_like(rows, -1))


def _grouped_top_k(scores: Tensor, k: int, slack: Tensor) -> tuple[Tensor, Tensor]:
    """Return :func:`top_k` of wide rows: the k best are in the k groups of columns with the largest maxima."""
    size = scores.shape[1]
    groups = size // _GROUP
    if groups <= _SPARSE * k or scores.numel() <= _FEW:
        columns = top_k(scores, k, slack)[1]
        return scores.gather(1, columns), columns
    body, tail = scores[:, : groups * _GROUP], scores[:, groups * _GROUP :]
    best = top_k(body.reshape(scores.shape[0], groups, _GROUP).amax(2), k, slack)[1]
    best = torch.sort(best, dim=1).values
    columns = (best.unsqueeze(2) * _GROUP + torch.arange(_GROUP, device=scores.device)).flatten(1)
    rest = torch.arange(groups * _GROUP, size, device=scores.device).expand(scores.shape[0], -1)
    columns = torch.cat([columns, rest], 1)
    columns = columns.gather(1, top_k(torch.cat([body.gather(1, columns[:, : k * _GROUP]), tail], 1), k, slack)[1])
    return scores.gather(1, columns), columns
