"""The signal contract: one way in which queries meet the nodes, or the edges, of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Signal", "VectorSignal"]


class Signal(ABC):
    """Scores of queries with the rows of a graph: its nodes, or its relationship rows.

    An index holds any number of signals by name. A subclass sets `kind` and `reads` and writes the abstract methods; an
    external store that searches by itself needs :meth:`search` and :meth:`scores`, and a state of its address.

    Attributes
    ----------
    kind : str
        Name of the class in saved indexes.
    reads : {"text", "vector"}
        What :meth:`search` and :meth:`scores` are given as queries: a list of B strings, or a Tensor of shape [B, d].
    covers : {"nodes", "edges"}
        Which rows are scored: row i is node i, or relationship row i, of the graph.
    """

    kind: ClassVar[str] = ""
    reads: ClassVar[Literal["text", "vector"]] = "text"
    covers: Literal["nodes", "edges"] = "nodes"

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows covered."""

    @abstractmethod
    def search(self, queries: Any, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k rows of largest score for each query; ties go to the lower row.

        Parameters
        ----------
        queries : list of str, length B, or Tensor, shape [B, d]
            As `reads` says.
        k : int
            Clamped to the number of rows N.
        allowed : Tensor, shape [N] or [B, N], bool, optional
            Rows that may be returned.

        Returns
        -------
        scores : Tensor, shape [B, k], float32
        rows : Tensor, shape [B, k], int64
            Best first; -1 (score -inf) where fewer rows match.
        """

    @abstractmethod
    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of single pairs: Tensor, shape [n], float32.

        Parameters
        ----------
        queries : list of str or Tensor
            As for :meth:`search`.
        batch, rows : Tensor, shape [n], int64
            Query and row of each pair.
        """

    def table(self, queries: Any) -> Tensor:
        """Return the scores of every row: Tensor, shape [B, N], float32; 0 where a row does not match."""
        scores, rows = self.search(queries, len(self))
        table = torch.zeros((rows.shape[0], len(self) + 1), device=scores.device)
        # Pads go to a spare column.
        return table.scatter_(1, torch.where(rows >= 0, rows, len(self)), scores.masked_fill(rows < 0, 0.0))[:, :-1]

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what a saved index keeps: tensors by name, and JSON-plain settings."""

    @classmethod
    @abstractmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> Self:
        """Return the signal of a :meth:`state`, on a device."""

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """Return this signal on another device."""

    def updated(self, contents: Sequence[str], kept: Tensor, embed: Callable[[list[str]], Tensor]) -> Self:
        """Return the signal of a changed corpus.

        Parameters
        ----------
        contents : sequence of str, length N'
            Content of every row of the new corpus.
        kept : Tensor, shape [N'], int64
            The present row of each new row, -1 where the content is new.
        embed : callable
            From a list of n contents to their vectors, shape [n, d]; asked only for new contents.

        Raises
        ------
        InvalidArgumentError
            If the signal cannot follow a change (the default): build it again.
        """
        raise InvalidArgumentError(f"{type(self).__name__} cannot follow a change of its corpus; build the index again.")


class VectorSignal(Signal):
    """A signal that compares vectors; scores are dot products.

    Attributes
    ----------
    dimension : int
        Width d of the vectors.
    """

    reads: ClassVar[Literal["text", "vector"]] = "vector"
    dimension: int

    @property
    def norms(self) -> Tensor:
        """Lengths of the vectors: Tensor, shape [N], float32; all 1 by default. 0 where a row has no vector."""
        return torch.ones(len(self))
