"""Sparse signals: texts as weights of terms, compared by dot products; the weights of all rows in one matrix on the device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError, shown
from graph_retrievers.graph.ragged import gather_rows, ranked_on_host, top_k
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.signal import Signal

__all__ = ["SparseIndex"]

_ENTRIES_AT_A_TIME = 1 << 24
# More than any vocabulary has; the matrix has a pointer for each.
_MOST_TERMS = 1 << 24
# A table of all rows, which needs no sorting, costs as much as the matching rows alone if an eighth of its entries is filled.
_DENSE = 8
# A device adds the terms of more queries than this side by side; of fewer, term by term takes fewer operations.
_SIDE_BY_SIDE = 8
# Batches of queries whose terms are kept: a search and the scores of what it finds read them one after the other.
_BATCHES = 8


class Entries(NamedTuple):
    """A sparse matrix by terms, on the CPU: pointers [V + 1] to the rows and values, [nnz] each, of every term."""

    indptr: np.ndarray
    rows: np.ndarray
    values: np.ndarray


def without_repeats(old_rows: np.ndarray) -> np.ndarray:
    """Return `old_rows` (see :meth:`Signal.updated`) with -1 for every row that repeats an earlier one's current row."""
    _, first = np.unique(old_rows, return_index=True)
    distinct = np.full(len(old_rows), -1, np.int64)
    distinct[first] = old_rows[first]
    return distinct


def updated_entries(entries: Entries, old_rows: np.ndarray, new: tuple[np.ndarray, ...], num_terms: int) -> Entries:
    """Return the matrix of a changed corpus, of `num_terms` terms; the order of the rows of a term is not fixed.

    `old_rows`, shape [N'], int64, is the current row of each row of the new corpus, -1 for new ones; no current row occurs twice.
    `new` are term, new row and value of the new entries, shape [n] each.
    """
    size = len(entries.indptr) - 1
    place = np.full(int(max(old_rows.max(initial=-1), entries.rows.max(initial=-1))) + 1, -1, np.int32)
    old = np.flatnonzero(old_rows >= 0)
    place[old_rows[old]] = old
    rows = place[entries.rows]
    gone = np.flatnonzero(rows < 0)
    counts = np.zeros(num_terms, np.int64)
    counts[:size] = np.diff(entries.indptr) - np.bincount(np.searchsorted(entries.indptr, gone, "right") - 1, minlength=size)
    stay = rows >= 0 if len(gone) else slice(None)
    order = np.argsort(new[0], kind="stable")
    terms = new[0][order]
    # The new entries of a term come after those that it has.
    at = np.cumsum(counts)[terms]
    indptr = np.append(0, np.cumsum(counts + np.bincount(terms, minlength=num_terms)))
    return Entries(indptr, np.insert(rows[stay], at, new[1][order]), np.insert(entries.values[stay], at, new[2][order]))


class TermSignal(Signal):
    """A signal whose scores are sums over terms: an abstract class with the matrix of weights and the ways to read it.

    The entries of the V terms are between the numbers of `indptr`, shape [V + 1], int64: `rows`, int32, and their weights `data`,
    float32, both of shape [nnz].
    """

    device: torch.device
    indptr: Tensor
    rows: Tensor
    data: Tensor
    num_rows: int

    @abstractmethod
    def query_terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the terms of queries: pointers [B + 1], and term and weight of each entry, [T]; a term may be repeated."""

    def _assign(self, indptr: Tensor, rows: Tensor, data: Tensor, num_rows: int, device: torch.device | None) -> None:
        self.device, self.num_rows, self._cache = device or torch.device("cpu"), num_rows, Cache()
        self._term_cache = Cache(_BATCHES)
        self.indptr, self.rows, self.data = (part.to(self.device) for part in (indptr, rows, data))

    def _restore(self, tensors: dict[str, Tensor], num_rows: int, device: torch.device | None) -> None:
        """Load the matrix of a :meth:`state`; ValueError if it is not one."""
        indptr, rows, data = (tensors[name] for name in ("indptr", "rows", "data"))
        whole = indptr.numel() > 0 and int(indptr[0]) == 0 and int(indptr[-1]) == rows.numel() and bool((indptr.diff() >= 0).all())
        kinds = (indptr.dtype, rows.dtype, data.dtype) == (torch.int64, torch.int32, torch.float32)
        inside = bool(((rows >= 0) & (rows < num_rows)).all()) and bool((torch.isfinite(data) & (data >= 0)).all())
        if not (whole and kinds and inside and rows.shape == data.shape and indptr.dim() == rows.dim() == 1):
            raise ValueError("indptr, rows and data are not a matrix of weights by terms")
        self._assign(indptr, rows, data, num_rows, device)

    def __len__(self) -> int:
        """Return the number of rows N."""
        return self.num_rows

    def to(self, device: torch.device) -> Self:
        """Return this signal on another device."""
        signal = copy(self)
        signal._assign(self.indptr, self.rows, self.data, self.num_rows, device)
        return signal

    def _terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        return self._term_cache.get(tuple(queries), lambda: self.query_terms(queries))

    def prepare(self) -> None:
        """Sort the entries by term and row."""
        self._sorted()

    def table(self, queries: Sequence[str]) -> Tensor:
        """Return the scores of every row: Tensor, shape [B, N], float32."""
        pointers, terms, weights = self._terms(queries)
        table = torch.zeros((len(queries), len(self)), device=self.device)
        if self.device.type != "cpu" and len(queries) > _SIDE_BY_SIDE:
            return self._filled(table, pointers, terms, weights)
        owners = torch.repeat_interleave(pointers.diff(), output_size=terms.numel()).tolist()
        # Term by term, as the entries of common words in one list would take more memory than the table.
        for query, (start, stop), weight in zip(owners, self._ends(terms).tolist(), weights.tolist(), strict=True):
            table[query].index_add_(0, self.rows[start:stop], self.data[start:stop], alpha=weight)
        return table

    def _filled(self, table: Tensor, pointers: Tensor, terms: Tensor, weights: Tensor) -> Tensor:
        """Return :meth:`table` from zeros, for the terms of queries: the first terms of all together, then the second ones, ...

        A term has a row once, so that no two of the entries added together are of one place: sums do not depend on their order.
        """
        # Concatenated, so that the device is waited for only once; one table is sent.
        numbers = torch.cat([pointers, self.indptr[terms], self.indptr[terms + 1]]).cpu().numpy()
        bounds, start, stop = np.split(numbers, [len(pointers), len(pointers) + len(terms)])
        owner = np.repeat(np.arange(len(table)), np.diff(bounds))
        place = np.arange(len(owner)) - bounds[owner]
        order = np.argsort(place, kind="stable")
        length = (stop - start)[order]
        # The groups are the terms of one place, or as many of them as fit into memory together.
        before = np.cumsum(length) - length
        groups = np.flatnonzero(np.diff(place[order], prepend=-1) | np.diff(before // _ENTRIES_AT_A_TIME, prepend=-1))
        ends = [*groups.tolist(), len(order)]
        shift = start[order] - before + np.repeat(before[groups], np.diff(ends))
        sent = torch.from_numpy(np.stack([order, owner[order] * len(self), shift, length])).to(self.device)
        weights, flat = weights[sent[0]], table.view(-1)
        for first, last in pairwise(ends):
            total = int(length[first:last].sum())
            term = torch.repeat_interleave(sent[3, first:last], output_size=total)
            query, place_of = sent[1:3, first:last].index_select(1, term)
            entry = torch.arange(total, device=self.device) + place_of
            flat.index_add_(0, query + self.rows[entry], self.data[entry] * weights[first:last][term])
        return table

    def _ends(self, terms: Tensor) -> Tensor:
        """Return where the entries of each of some terms begin and end: int64, shape [T, 2]."""
        return torch.stack([self.indptr[terms], self.indptr[terms + 1]], 1)

    def _entries(self, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return ``query * N + row`` and the weighted score of each entry of the terms of queries, by query."""
        pointers, terms, weights = self._terms(queries)
        if not terms.numel():
            return terms, weights
        owner, entry = gather_rows(self.indptr, terms)
        rows, scores = self.rows.index_select(0, entry), self.data.index_select(0, entry).mul_(weights.index_select(0, owner))
        if len(queries) > 1:
            first = torch.arange(len(queries), device=self.device) * len(self)
            first = torch.repeat_interleave(first, pointers.diff(), output_size=terms.numel())
            rows = rows + first.index_select(0, owner)
        return rows, scores

    def scores(self, queries: Sequence[str], batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of single pairs: Tensor, shape [n]; see :meth:`Signal.scores`."""
        # In double precision, so that the terms of other queries of the batch do not matter.
        return self.term_scores(queries, batch, rows).sum(1, dtype=torch.float64).float()

    def term_scores(self, queries: Sequence[str], batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs by terms: Tensor, shape [n, T]; see :meth:`Signal.term_scores`."""
        pointers, terms, weights = self._terms(queries)
        counts = pointers.diff()
        keys, order = self._sorted()
        scores = torch.zeros(batch.numel(), max(counts.tolist(), default=0), device=self.device)
        if not scores.numel() or not keys.numel():
            return scores
        column = torch.arange(scores.shape[1], device=self.device)
        # A row has the terms of a query, followed by terms of other queries with the weight 0.
        entries = (pointers[:-1, None] + column).clamp(max=terms.numel() - 1)
        terms, weights = terms[entries] * len(self), torch.where(column < counts[:, None], weights[entries], 0.0)
        step = max(1, _ENTRIES_AT_A_TIME // scores.shape[1])
        for start in range(0, batch.numel(), step):
            part = slice(start, start + step)
            # Term by term, as near keys are found faster one after another.
            entry_keys = terms.T[:, batch[part]] + rows[part]
            place = torch.searchsorted(keys, entry_keys).clamp_(max=keys.numel() - 1)
            scores[part] = torch.where(keys[place] == entry_keys, self.data[order[place]], 0.0).T * weights[batch[part]]
        return scores

    def _sorted(self) -> tuple[Tensor, Tensor]:
        """Return ``term * N + row`` of the entries, ascending, and their places."""

        def make() -> tuple[Tensor, Tensor]:
            terms = torch.repeat_interleave(torch.arange(self.indptr.numel() - 1, device=self.device), self.indptr.diff())
            keys = terms * len(self) + self.rows.long()
            # The keys ascend already, unless the corpus was changed.
            if bool((keys[1:] > keys[:-1]).all()):
                return keys, torch.arange(keys.numel(), device=self.device)
            keys, order = torch.sort(keys)
            return keys, order

        return self._cache.get("sorted", make)

    def search(self, queries: Sequence[str], k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k rows with the largest scores above 0; see :meth:`Signal.search`."""
        step = max(1, _ENTRIES_AT_A_TIME // max(len(self), 1))
        if len(queries) > step:
            parts = [slice(start, start + step) for start in range(0, len(queries), step)]
            masks = [allowed if allowed is None or allowed.dim() == 1 else allowed[part] for part in parts]
            results = [self.search(queries[part], k, mask) for part, mask in zip(parts, masks, strict=True)]
            scores, rows = map(torch.cat, zip(*results, strict=True))
            return scores, rows
        if int(self._ends(self._terms(queries)[1]).diff().sum()) * _DENSE < len(queries) * len(self):
            return self._search_matches(len(queries), *self._entries(queries), k, allowed)
        scores = self.table(queries)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, 0.0)
        values, rows = top_k(scores, k)
        match = values > 0
        return values.masked_fill(~match, float("-inf")), rows.masked_fill(~match, -1)

    def _search_matches(self, count: int, matches: Tensor, scores: Tensor, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the result of :meth:`search` by reading only the rows that have a term: rare terms are in few of many rows."""
        weights, entries = ranked_on_host(scores, matches)
        # A row has only one term of most queries, so that the entries are in order.
        order = np.argsort(entries, kind="stable")
        first = np.diff(entries[order], prepend=-1) > 0
        totals = np.zeros(first.sum(), np.float32)
        np.add.at(totals, np.cumsum(first) - 1, weights[order])
        query, row = np.divmod(entries[order][first], len(self))
        if allowed is not None:
            mask = allowed.cpu().numpy()
            places = np.flatnonzero(mask[row] if mask.ndim == 1 else mask[query, row])
            query, row, totals = query[places], row[places], totals[places]
        k = min(k, len(self))
        # A table of whole lists would be as wide as the longest: it gets what may be among the k best of each, up to rounding.
        # Query, score and row are one number, which is sorted much faster than three; positive scores have the order of their bits.
        falling = np.iinfo(np.int32).max - totals.view(np.int32).astype(np.int64)
        by = np.argsort((query << 31 | falling) * len(self) + row)
        lengths = np.bincount(query, minlength=count)
        starts = np.cumsum(lengths) - lengths
        cut = np.full(count, -np.inf, np.float32)
        full = np.flatnonzero(lengths >= k)
        cut[full] = totals[by[starts[full] + k - 1]]
        near = (totals < cut[query]) & (totals >= cut[query] - 2e-6 * np.abs(cut[query]))
        near[by[np.arange(len(by)) - starts[query] < 2 * k]] = True
        query, row, totals = query[near], row[near], totals[near]
        lengths = np.bincount(query, minlength=count)
        starts = np.cumsum(lengths) - lengths
        shape, place = (count, max(int(lengths.max()), k)), np.arange(len(query)) - starts[query]
        table, row_table = np.full(shape, -np.inf, np.float32), np.full(shape, -1)
        table[query, place], row_table[query, place] = totals, row
        values, columns = top_k(torch.from_numpy(table).to(self.device), k)
        match = values > 0
        matches = torch.from_numpy(row_table).to(self.device).gather(1, columns)
        return values.masked_fill(~match, float("-inf")), matches.masked_fill(~match, -1)


@runtime_checkable
class SparseEncoder(Protocol):
    """The interface of learned sparse encoders, such as :class:`graph_retrievers.signals.sparse_encoders.Splade`."""

    name: str

    def encode(self, texts: Sequence[str], *, queries: bool = False) -> list[dict[int, float]]:
        """Return the weights of the terms of each text, by term number; `queries` says that the texts are queries."""


class SparseIndex(TermSignal):
    """Texts by a learned sparse encoder, such as SPLADE or the lexical weights of BGE-M3, as a signal.

    Parameters
    ----------
    texts : sequence of str, length N
    encoder : SparseEncoder
    device : torch.device, optional
        The CPU by default.
    covers : {"nodes", "edges"}, default "nodes"
    show_progress : bool, default False

    Raises
    ------
    InvalidVectorError
        If a weight is NaN, infinite or negative.

    Notes
    -----
    The encoder is not saved with an index; a loaded signal gets it with :meth:`with_encoder`.

    Examples
    --------
    >>> class Letters:
    ...     name = "letters"
    ...
    ...     def encode(self, texts, *, queries=False):
    ...         return [{ord(letter): 1.0 for letter in text} for text in texts]
    >>> SparseIndex(["loom", "card"], Letters()).search(["lom"], 1)
    (tensor([[3.]]), tensor([[0]]))
    """

    kind = "sparse"

    def __init__(
        self,
        texts: Sequence[str],
        encoder: SparseEncoder,
        *,
        device: torch.device | None = None,
        covers: Literal["nodes", "edges"] = "nodes",
        show_progress: bool = False,
    ) -> None:
        self.covers = choice("covers", covers, ("nodes", "edges"))
        self.encoder: SparseEncoder | None = checked_encoder(encoder)
        self.encoder_name, weights = encoder.name, _encoded(encoder, texts, show_progress)
        nothing = Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        self._fill(nothing, np.full(len(texts), -1), weights, device)

    def _fill(
        self, entries: Entries, old_rows: np.ndarray, term_weights: list[dict[int, float]], device: torch.device | None
    ) -> None:
        """Use the entries of kept rows, and the `term_weights` of the others."""
        terms, data, owner = _flat(term_weights)
        rows = np.repeat(np.flatnonzero(old_rows < 0), owner.diff().numpy()).astype(np.int32)
        count = max(int(terms.max()) + 1 if terms.numel() else 0, len(entries.indptr) - 1)
        indptr, *parts = updated_entries(entries, old_rows, (terms.numpy(), rows, data.numpy()), count)
        # Without the terms after the last that is used.
        indptr = indptr[: np.searchsorted(indptr, indptr[-1]) + 1]
        rows_of, weights = map(torch.from_numpy, parts)
        self._assign(torch.from_numpy(indptr), rows_of, weights, len(old_rows), device)

    def __repr__(self) -> str:
        """Return the sizes and the encoder."""
        return f"SparseIndex({len(self)} {self.covers}, terms={self.indptr.numel() - 1}, encoder={self.encoder_name!r})"

    def query_terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the terms of queries with the encoder's weights."""
        if self.encoder is None:
            raise MissingSignalError(
                f"This signal was loaded without its encoder {self.encoder_name!r}; pass signals={{name: signal.with_encoder(e)}}."
            )
        weights = _weights(self.encoder, list(queries), True)
        count = self.indptr.numel() - 1
        terms, data, pointers = _flat([{term: weight for term, weight in text.items() if term < count} for text in weights])
        return pointers.to(self.device), terms.to(self.device), data.to(self.device)

    def with_encoder(self, encoder: SparseEncoder) -> SparseIndex:
        """Return this signal with the encoder of its queries; InvalidArgumentError if it has another name."""
        if checked_encoder(encoder).name != self.encoder_name:
            raise InvalidArgumentError(f"This signal was made with {self.encoder_name!r}, not with {encoder.name!r}.")
        signal = self.to(self.device)
        signal.encoder = encoder
        return signal

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the matrix, and the settings."""
        settings = {"encoder": self.encoder_name, "covers": self.covers, "num_rows": self.num_rows}
        return {"indptr": self.indptr, "rows": self.rows, "data": self.data}, settings

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> SparseIndex:
        """Return the signal of a :meth:`state`, without an encoder."""
        signal = object.__new__(cls)
        signal.encoder, signal.encoder_name, signal.covers = None, settings["encoder"], settings["covers"]
        signal._restore(tensors, settings["num_rows"], device)
        return signal

    def updated(self, contents: Sequence[str], old_rows: Tensor, embed: Callable[[list[str]], Tensor]) -> SparseIndex:
        """Return the signal of a changed corpus; only new contents are encoded. See :meth:`Signal.updated`."""
        distinct = without_repeats(old_rows.cpu().numpy())
        new = [contents[row] for row in np.flatnonzero(distinct < 0).tolist()]
        if self.encoder is None and new:
            raise MissingSignalError(f"This signal was loaded without its encoder {self.encoder_name!r}; see with_encoder.")
        signal = copy(self)
        weights = _encoded(self.encoder, new, False) if self.encoder is not None else []
        signal._fill(Entries(*(part.cpu().numpy() for part in (self.indptr, self.rows, self.data))), distinct, weights, self.device)
        return signal

    def restricted(self, rows: Tensor, contents: Sequence[str] | None) -> SparseIndex:
        """Return the weights of some rows; nothing is encoded. See :meth:`Signal.restricted`."""
        return self.updated((), rows, lambda texts: torch.zeros(0))


def checked_encoder(encoder: SparseEncoder) -> SparseEncoder:
    """Return a sparse encoder; InvalidArgumentError if it is none."""
    if not isinstance(encoder, SparseEncoder):
        raise InvalidArgumentError(f"Expected a sparse encoder with name and encode(texts), got {type(encoder).__name__}.")
    return encoder


def _encoded(encoder: SparseEncoder, texts: Sequence[str], show_progress: bool) -> list[dict[int, float]]:
    weights = list[dict[int, float]]()
    for start in progress_bar(range(0, len(texts), 256), desc="sparse encoding", unit="batch", disable=not show_progress):
        weights += _weights(encoder, list(texts[start : start + 256]), False)
    return weights


def _weights(encoder: SparseEncoder, texts: list[str], queries: bool) -> list[dict[int, float]]:
    answers = list(encoder.encode(texts, queries=queries) or ())
    if len(answers) != len(texts):
        raise InvalidArgumentError(f"The sparse encoder {encoder.name!r} returned {len(answers)} texts for {len(texts)}.")
    return answers


def _flat(weights: list[dict[int, float]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return terms and weights of all texts in order, and the pointers to each text's."""
    for text in weights:
        if not isinstance(text, dict) or not all(isinstance(term, int) and 0 <= term < _MOST_TERMS for term in text):
            numbers = f"from 0 to {_MOST_TERMS - 1}"
            raise InvalidVectorError(f"A sparse encoder gave {shown(text)}; expected weights by term number, {numbers}.")
    terms = torch.tensor([term for text in weights for term in text], dtype=torch.int64)
    try:
        data = torch.tensor([weight for text in weights for weight in text.values()], dtype=torch.float32)
    except (TypeError, ValueError) as error:
        raise InvalidVectorError(f"A sparse encoder gave a weight that is not a number: {error}") from error
    if bool((~torch.isfinite(data) | (data < 0)).any()):
        raise InvalidVectorError("A sparse encoder gave a weight that is negative, NaN or infinite.")
    counts = torch.tensor([len(text) for text in weights], dtype=torch.int64)
    return terms, data, torch.nn.functional.pad(counts.cumsum(0), (1, 0))
