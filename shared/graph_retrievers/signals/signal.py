"""The contract of signals: scores of the nodes, or the edges, of a graph for queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Signal", "VectorSignal"]


class Signal(ABC):
    """Scores of the rows of a graph, its nodes or its edges, for queries: an abstract class.

    An index has any number of signals by name. A subclass sets `kind` and `reads` and defines the abstract methods. A signal in
    an external store needs :meth:`search` and :meth:`scores`, and its address as the state. :class:`BM25` and :class:`DenseIndex`
    are the signals of this package.

    Attributes
    ----------
    kind : str
        Name of the class in saved indexes.
    reads : {"text", "vector"}
        The form of queries in :meth:`search` and :meth:`scores`: a list of B strings, or a Tensor of shape [B, d].
    covers : {"nodes", "edges"}
        Whether row i is node i or edge i of the graph.
    tabled : bool
        Whether scores may be read from a :meth:`table` of all rows. False for a signal in a store, which would have to send them.

    Examples
    --------
    >>> from graph_retrievers.signals.bm25 import BM25
    >>> BM25(["a loom", "a card"]).search(["Which card?"], k=1)[1]
    tensor([[1]])
    """

    kind: ClassVar[str] = ""
    reads: ClassVar[Literal["text", "vector"]] = "text"
    covers: Literal["nodes", "edges"] = "nodes"
    tabled: ClassVar[bool] = True

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows covered."""

    def prepare(self) -> None:
        """Compute in advance what the first search needs, so that it takes no longer than others; nothing by default."""
        return

    @abstractmethod
    def search(self, queries: Any, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k rows with the largest scores for each query; ties go to the lower row.

        Parameters
        ----------
        queries : list of str, length B, or Tensor, shape [B, d]
            See `reads`.
        k : int
            Reduced to the number of rows N if larger.
        allowed : Tensor, shape [N] or [B, N], bool, optional
            Rows that may be returned.

        Returns
        -------
        scores : Tensor, shape [B, k], float32
        rows : Tensor, shape [B, k], int64
            Best first; padded with -1 (score -inf).
        """

    @abstractmethod
    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of the pairs (``queries[batch[i]]``, ``rows[i]``): Tensor, shape [n], float32."""

    def term_scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs by the terms of their queries: Tensor, shape [n, T], float32; their sums are :meth:`scores`.

        T is the number of terms of the longest query; shorter queries are padded with 0. By default T is 1. Rows that are read
        together, as one text, have the largest score of each term.
        """
        return self.scores(queries, batch, rows).unsqueeze(1)

    def table(self, queries: Any) -> Tensor:
        """Return the scores of every row: Tensor, shape [B, N], float32; 0 if a row does not match."""
        scores, rows = self.search(queries, len(self))
        table = torch.zeros((rows.shape[0], len(self) + 1), device=scores.device)
        # Padding is written to a spare column.
        return table.scatter_(1, torch.where(rows >= 0, rows, len(self)), scores.masked_fill(rows < 0, 0.0))[:, :-1]

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the content of a saved index: tensors by name, and settings that JSON can represent."""

    @classmethod
    @abstractmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> Self:
        """Return the signal of a :meth:`state`, on a device."""

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """Return this signal on another device."""

    def updated(self, contents: Sequence[str], old_rows: Tensor, embed: Callable[[list[str]], Tensor]) -> Self:
        """Return the signal of a changed corpus; by default InvalidArgumentError says to build the index again.

        `contents` are those of the N' rows of the new corpus. `old_rows`, shape [N'], int64, is the current row of each new row, -1
        if the content is new; a current row may be repeated. `embed` returns the vectors, shape [n, d], of a list of n contents;
        it is called at most once, with the new contents in row order. The answers are those of a signal built from the new
        corpus.
        """
        raise InvalidArgumentError(f"{type(self).__name__} cannot follow a change of its corpus; build the index again.")

    def restricted(self, rows: Tensor, contents: Sequence[str] | None) -> Signal:
        """Return the signal of only some rows, for a scope (see :meth:`graph_retrievers.index.GraphIndex.within`).

        `rows`, shape [n], int64, are ascending, and `contents` are theirs, or None if they are in a database. By default this
        signal is used with a mask of these rows, and its scores do not change. A signal whose scores depend on other rows, such
        as word statistics, builds a new one.
        """
        return (_RestrictedVectors if isinstance(self, VectorSignal) else _Restricted)(self, rows)


class VectorSignal(Signal):
    """A signal that compares vectors of width `dimension`; scores are dot products."""

    reads: ClassVar[Literal["text", "vector"]] = "vector"
    dimension: int

    @property
    def norms(self) -> Tensor:
        """Lengths of the vectors: Tensor, shape [N], float32; all 1 by default. 0 for a row without a vector."""
        return torch.ones(len(self))

    def prepared(self, vectors: Tensor) -> Tensor:
        """Return the vectors of queries, shape [B, d], as this signal compares them; by default unchanged."""
        return vectors


class _Restricted(Signal):
    """Some rows of a signal: searches are masked, and scores are those of the whole."""

    def __init__(self, whole: Signal, rows: Tensor) -> None:
        self.whole, self.rows, self.covers, self.reads = whole, rows, whole.covers, whole.reads  # type: ignore[misc]

    def __len__(self) -> int:
        return self.rows.numel()

    def search(self, queries: Any, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        own_mask = torch.ones(len(self), dtype=torch.bool, device=self.rows.device) if allowed is None else allowed
        mask = torch.zeros((*own_mask.shape[:-1], len(self.whole)), dtype=torch.bool, device=self.rows.device)
        mask[..., self.rows] = own_mask
        scores, rows = self.whole.search(queries, min(k, len(self)), mask)
        place = torch.searchsorted(self.rows, rows).clamp(max=len(self) - 1)
        if bool(((rows >= 0) & (self.rows[place] != rows)).any()):
            raise InvalidArgumentError(f"{type(self.whole).__name__} returned rows outside a scope; search must keep to `allowed`.")
        return scores, torch.where(rows >= 0, place, -1)

    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        return self.whole.scores(queries, batch, self.rows[rows])

    def term_scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        return self.whole.term_scores(queries, batch, self.rows[rows])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        raise InvalidArgumentError(f"{type(self.whole).__name__} cannot be saved for a scope; save the whole index.")

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> Self:
        raise InvalidArgumentError("The signal of a scope is not saved; save the whole index.")

    def to(self, device: torch.device) -> Self:
        return type(self)(self.whole.to(device), self.rows.to(device))


class _RestrictedVectors(_Restricted, VectorSignal):
    """Some rows of a signal of vectors."""

    whole: VectorSignal

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.whole.dimension

    @property
    def norms(self) -> Tensor:
        return self.whole.norms[self.rows]

    def prepared(self, vectors: Tensor) -> Tensor:
        return self.whole.prepared(vectors)


def check_search(scores: Tensor, rows: Tensor, size: int, allowed: Tensor | None, owner: str) -> None:
    """Raise InvalidArgumentError unless the result of :meth:`Signal.search`, over `size` rows, is what it has to be.

    Rows are distinct for each query, below `size`, and -1 on pads; they are among those `allowed`, and their scores are numbers in
    descending order. `owner` is named in the error.
    """
    for name, values in (("rows", rows), ("scores", scores)):
        if not isinstance(values, Tensor) or values.dim() != 2 or values.shape != rows.shape:
            shape = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise InvalidArgumentError(f"{owner} returned {name} of shape {shape}; expected tensors of shape [B, K] for both.")
    if rows.is_floating_point() or not scores.is_floating_point():
        raise InvalidArgumentError(f"{owner} returned {rows.dtype} rows and {scores.dtype} scores; expected integers and floats.")
    mask = (rows < -1) | (rows >= size) | ((rows >= 0) & scores.isnan())
    if bool(mask.any()):
        row, score = int(rows[mask][0]), float(scores[mask][0])
        raise InvalidArgumentError(
            f"{owner} returned row {row} with score {score}; expected rows from -1 to {size - 1} and numbers."
        )
    ordered = rows.sort(1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if bool(twice.any()):
        raise InvalidArgumentError(f"{owner} returned row {int(ordered[:, 1:][twice][0])} twice for one query.")
    real = rows >= 0
    if allowed is not None and not bool(allowed[rows[real]].all()):
        raise InvalidArgumentError(f"{owner} returned rows that are not allowed; search must keep to `allowed`.")
    table = scores.masked_fill(~real, -torch.inf)
    # Equal scores may differ by rounding, near 0 as much as elsewhere.
    if rows.numel() and bool((table.diff(dim=1) > 1e-4 * scores.masked_fill(~real, 0.0).abs().amax(1, keepdim=True)).any()):
        raise InvalidArgumentError(f"{owner} returned scores that are not in descending order.")
