"""Several vectors for each text, compared by late interaction: MaxSim as a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.graph.ragged import gather_rows, top_k
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.signal import Signal

__all__ = ["MultiVectorIndex"]

_TEXTS_AT_A_TIME = 256
# Products that are in memory at a time.
_PRODUCTS_AT_A_TIME = 1 << 24


@runtime_checkable
class MultiVectorEncoder(Protocol):
    """The interface of encoders with several vectors for a text, such as :class:`~graph_retrievers.signals.colbert.ColBERT`."""

    name: str

    def encode(self, texts: Sequence[str], *, queries: bool = False) -> Sequence[Any]:
        """Return the vectors of each text, array-like, shape [t, d]; `queries` says that the texts are queries."""


class MultiVectorIndex(Signal):
    r"""Texts with several vectors each, compared by late interaction (MaxSim).

    The score of a text with vectors :math:`E_{d,j}` for a query with vectors :math:`E_{q,i}` is

    .. math:: s(q, d) = \sum_i \max_j E_{q,i} \cdot E_{d,j}

    The vectors are those of tokens for :class:`~graph_retrievers.signals.colbert.ColBERT`, and those of parts of a text for
    :class:`~graph_retrievers.signals.colbert.PartVectors`, where a query has one vector, so that a text scores as its best part.
    The search compares all vectors.

    Parameters
    ----------
    texts : sequence of str, length N
    encoder : MultiVectorEncoder
    device : torch.device, optional
        The CPU by default.
    covers : {"nodes", "edges"}, default "nodes"
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If `encoder` is none, or returns the vectors of another number of texts.
    InvalidVectorError
        If vectors are not numbers, or differ in width.

    Notes
    -----
    The encoder is not saved with an index; a loaded signal gets it with :meth:`with_encoder`. A text without vectors matches no
    query, and a query without vectors no text.

    References
    ----------
    Khattab and Zaharia, "ColBERT", SIGIR 2020, equation 3.

    Examples
    --------
    >>> class Letters:
    ...     name = "letters"
    ...
    ...     def encode(self, texts, *, queries=False):
    ...         return [[[letter == "o", letter == "a"] for letter in text] for text in texts]
    >>> MultiVectorIndex(["loom", "card"], Letters()).search(["oa", "oo"], 1)
    (tensor([[1.],
            [2.]]), tensor([[0],
            [0]]))
    """

    kind = "multi-vector"

    def __init__(
        self,
        texts: Sequence[str],
        encoder: MultiVectorEncoder,
        *,
        device: torch.device | None = None,
        covers: Literal["nodes", "edges"] = "nodes",
        show_progress: bool = False,
    ) -> None:
        self.covers = choice("covers", covers, ("nodes", "edges"))
        self.encoder: MultiVectorEncoder | None = _checked(encoder)
        self.encoder_name = encoder.name
        parts = list[Tensor]()
        for start in progress_bar(range(0, len(texts), _TEXTS_AT_A_TIME), desc="vectors", unit="batch", disable=not show_progress):
            parts += _encoded(encoder, list(texts[start : start + _TEXTS_AT_A_TIME]))
        self._assign(*_pack(parts), device)

    def _assign(self, vectors: Tensor, indptr: Tensor, device: torch.device | None) -> None:
        self.device = device or torch.device("cpu")
        self.vectors, self.indptr = vectors.to(self.device), indptr.to(self.device)

    def __len__(self) -> int:
        """Return the number of texts N."""
        return self.indptr.numel() - 1

    def __repr__(self) -> str:
        """Return the sizes and the encoder."""
        return f"MultiVectorIndex({len(self)} {self.covers}, vectors={len(self.vectors)}, encoder={self.encoder_name!r})"

    def with_encoder(self, encoder: MultiVectorEncoder) -> Self:
        """Return this signal with the encoder of its queries; InvalidArgumentError if it has another name."""
        if _checked(encoder).name != self.encoder_name:
            raise InvalidArgumentError(f"This signal was made with {self.encoder_name!r}, not with {encoder.name!r}.")
        signal = copy(self)
        signal.encoder = encoder
        return signal

    def search(self, queries: Sequence[str], k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k rows with the largest scores; see :meth:`Signal.search`."""
        tables = self._query_tables(queries)
        full = self.indptr.diff() > 0
        scores = torch.full((len(queries), len(self)), float("-inf"), device=self.device)
        for query, vectors in enumerate(tables):
            if len(vectors):
                scores[query] = self._table(vectors).masked_fill(~full, float("-inf"))
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        values, rows = top_k(scores, k)
        return values, rows.masked_fill(values == float("-inf"), -1)

    def table(self, queries: Sequence[str]) -> Tensor:
        """Return the scores of every row: Tensor, shape [B, N], float32; 0 for a row or a query without vectors."""
        return torch.stack([self._table(vectors) for vectors in self._query_tables(queries)])

    def _table(self, query: Tensor) -> Tensor:
        """Return the scores of all rows for the vectors of one query, shape [m, d]: Tensor, shape [N]."""
        lengths = self.indptr.diff()
        table = torch.zeros(len(self), device=self.device)
        for rows in self._blocks(max(len(query), 1)):
            vectors = self.vectors[self.indptr[rows.start] : self.indptr[rows.stop]]
            owners = torch.repeat_interleave(lengths[rows], output_size=len(vectors))
            table[rows] = _largest(vectors @ query.T, owners, rows.stop - rows.start).sum(1)
        return table

    def _blocks(self, width: int) -> Iterator[slice]:
        """Yield slices of rows whose products with `width` vectors fit into memory; one row at least."""
        ends, start = self.indptr.cpu().numpy(), 0
        while start < len(self):
            stop = int(np.searchsorted(ends, ends[start] + _PRODUCTS_AT_A_TIME // width, "right")) - 1
            yield slice(start, stop := min(max(stop, start + 1), len(self)))
            start = stop

    def scores(self, queries: Sequence[str], batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of single pairs: Tensor, shape [n]; see :meth:`Signal.scores`."""
        return self.term_scores(queries, batch, rows).sum(1)

    def term_scores(self, queries: Sequence[str], batch: Tensor, rows: Tensor) -> Tensor:
        """Return the largest product of each vector of the queries with the rows: Tensor, shape [n, T]."""
        tables = self._query_tables(queries)
        scores = torch.zeros(batch.numel(), max(map(len, tables), default=0), device=self.device)
        for query in torch.unique(batch).tolist():
            pairs = (batch == query).nonzero().flatten()
            owners, entries = gather_rows(self.indptr, rows[pairs])
            vectors = tables[query]
            scores[pairs, : len(vectors)] = _largest(self.vectors[entries] @ vectors.T, owners, len(pairs))
        return scores

    def _query_tables(self, queries: Sequence[str]) -> list[Tensor]:
        """Return the vectors of each query, shape [m, d]."""
        if self.encoder is None:
            raise MissingSignalError(
                f"This signal was loaded without its encoder {self.encoder_name!r}; pass signals={{name: signal.with_encoder(e)}}."
            )
        tables, width = _encoded(self.encoder, list(queries), queries=True), self.vectors.shape[1]
        for vectors in tables:
            if len(vectors) and width and vectors.shape[1] != width:
                raise InvalidVectorError(
                    f"The encoder {self.encoder_name!r} gave a query vectors of width {vectors.shape[1]}; those of the texts have "
                    f"width {width}."
                )
        # Without vectors of texts, or of the query, there is nothing to compare.
        return [(vectors if len(vectors) and width else vectors.new_zeros(0, width)).to(self.device) for vectors in tables]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the vectors of all texts, with where those of each begin, and the settings."""
        return {"vectors": self.vectors, "indptr": self.indptr}, {"encoder": self.encoder_name, "covers": self.covers}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> Self:
        """Return the signal of a :meth:`state`, without an encoder."""
        signal = object.__new__(cls)
        signal.encoder, signal.encoder_name, signal.covers = None, settings["encoder"], settings["covers"]
        vectors, indptr = tensors["vectors"], tensors["indptr"]
        whole = indptr.dim() == 1 and len(indptr) > 0 and int(indptr[0]) == 0 and bool((indptr.diff() >= 0).all())
        kinds = (vectors.dtype, indptr.dtype) == (torch.float32, torch.int64)
        if not (whole and kinds and vectors.dim() == 2 and int(indptr[-1]) == len(vectors) and bool(vectors.isfinite().all())):
            raise ValueError("vectors and indptr are not those of texts")
        signal._assign(vectors, indptr, device)
        return signal

    def to(self, device: torch.device) -> Self:
        """Return this signal on another device."""
        signal = copy(self)
        signal._assign(self.vectors, self.indptr, device)
        return signal

    def updated(self, contents: Sequence[str], old_rows: Tensor, embed: Callable[[list[str]], Tensor]) -> Self:
        """Return the signal of a changed corpus; only new contents are encoded. See :meth:`Signal.updated`."""
        rows = old_rows.tolist()
        new = [contents[place] for place, row in enumerate(rows) if row < 0]
        if self.encoder is None and new:
            raise MissingSignalError(f"This signal was loaded without its encoder {self.encoder_name!r}; see with_encoder.")
        new_vectors = iter(_encoded(self.encoder, new) if self.encoder is not None and new else ())
        ends, vectors = self.indptr.tolist(), self.vectors.cpu()
        parts = [next(new_vectors) if row < 0 else vectors[ends[row] : ends[row + 1]] for row in rows]
        signal = copy(self)
        signal._assign(*_pack(parts), self.device)
        return signal

    def restricted(self, rows: Tensor, contents: Sequence[str] | None) -> Self:
        """Return the vectors of some rows; nothing is encoded. See :meth:`Signal.restricted`."""
        return self.updated((), rows, lambda texts: torch.zeros(0))


def _largest(products: Tensor, owners: Tensor, count: int) -> Tensor:
    """Return the largest of the products, shape [t, m], of each of `count` owners: Tensor, shape [count, m]; 0 without any."""
    table = torch.full((count, products.shape[1]), float("-inf"), device=products.device)
    table.scatter_reduce_(0, owners.unsqueeze(1).expand_as(products), products, "amax")
    return table.masked_fill_(table == float("-inf"), 0.0)


def _pack(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the vectors of texts in one tensor, shape [T, d], and where those of each text begin, shape [N + 1]."""
    widths = {part.shape[1] for part in parts if len(part)}
    if len(widths) > 1:
        raise InvalidVectorError(f"An encoder gave vectors of the widths {sorted(widths)}; expected one width.")
    width = max(widths, default=0)
    lengths = torch.tensor([0, *map(len, parts)], dtype=torch.int64)
    return torch.cat([torch.zeros(0, width), *(part for part in parts if len(part))]), lengths.cumsum(0)


def _checked(encoder: MultiVectorEncoder) -> MultiVectorEncoder:
    if not isinstance(encoder, MultiVectorEncoder):
        raise InvalidArgumentError(f"Expected an encoder with name and encode(texts), got {type(encoder).__name__}.")
    return encoder


def _encoded(encoder: MultiVectorEncoder, texts: list[str], queries: bool = False) -> list[Tensor]:
    """Return the vectors of each text, shape [t, d], float32."""
    answers = list(encoder.encode(texts, queries=queries) or ())
    if len(answers) != len(texts):
        raise InvalidArgumentError(f"The encoder {encoder.name!r} returned the vectors of {len(answers)} texts for {len(texts)}.")
    try:
        tensors = [torch.as_tensor(answer, dtype=torch.float32).cpu() for answer in answers]
    except (TypeError, ValueError) as error:
        raise InvalidVectorError(f"The encoder {encoder.name!r} gave vectors that cannot be read: {error}") from error
    for vectors in tensors:
        if vectors.numel() and (vectors.dim() != 2 or not bool(vectors.isfinite().all())):
            shape = list(vectors.shape)
            raise InvalidVectorError(
                f"The encoder {encoder.name!r} gave vectors of shape {shape}; expected finite numbers, [t, d]."
            )
    return [vectors if vectors.numel() else torch.zeros(0, 0) for vectors in tensors]
