"""BM25 as a signal: all scores in one sparse matrix on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from graph_retrievers.arguments import fraction, is_number
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.signals.sparse import Entries
from graph_retrievers.signals.word_signal import TEXT_OPTIONS, WordSignal

__all__ = ["BM25"]

_ENTRIES_AT_A_TIME = 1 << 16
_LARGEST_K1 = 1e6


class BM25(WordSignal):
    """BM25 (Lucene form) with precomputed scores.

    The scores of bm25s are computed once for every (term, document) that occurs. A query adds the scores of its terms; repeated
    terms count repeatedly. Documents without a score above zero do not match. See
    :class:`~graph_retrievers.signals.word_signal.WordSignal` for how texts are cut into terms.

    Sources: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; Kamphuis et al., "Which BM25 Do
    You Mean?", ECIR 2020 (the Lucene form); Porter, "Snowball: A language for stemming algorithms", 2001.

    Parameters
    ----------
    texts : sequence of str, length N
    k1 : float, default 1.5
        Term frequency saturation.
    b : float, default 0.75
        Length normalisation.
    language, stem, stopwords, device, covers, show_progress
        See :class:`~graph_retrievers.signals.word_signal.WordSignal`.

    Examples
    --------
    >>> bm25 = BM25(["A loom weaves cloth.", "Punched cards drive a loom.", "A cipher."])
    >>> bm25.search(["punched cards"], 2)[1].tolist()
    [[1, -1]]
    """

    kind = "bm25"
    options = ("k1", "b", *TEXT_OPTIONS)

    def __init__(
        self,
        texts: Sequence[str],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        language: str | None = None,
        stem: bool | str | None = None,
        stopwords: str | list[str] | None = "auto",
        device: torch.device | None = None,
        covers: Literal["nodes", "edges"] = "nodes",
        show_progress: bool = False,
    ) -> None:
        options = {"language": language, "stem": stem, "stopwords": stopwords}
        super().__init__(texts, device=device, covers=covers, show_progress=show_progress, k1=k1, b=b, **options)  # type: ignore[arg-type]

    def _set(self, *, k1: float, b: float, **options: Any) -> None:  # type: ignore[override]
        if not is_number(k1) or not 0 <= k1 <= _LARGEST_K1:
            raise InvalidArgumentError(f"k1 must be a number from 0 to {_LARGEST_K1}, got {shown(k1)}.")
        self.k1, self.b = float(k1), fraction("b", b)
        super()._set(**options)

    def _weights(self, entries: Entries) -> np.ndarray:
        """Return the scores of all occurrences."""
        size, sizes = len(self._lengths), np.diff(entries.indptr)
        distinct = np.unique(sizes)
        # In the precision of bm25s: idf in single precision, the share of the frequency in double precision.
        idf = np.array([math.log(1 + (size - count + 0.5) / (count + 0.5)) for count in distinct.tolist()], np.float32)
        weights, norms = idf[np.searchsorted(distinct, sizes)], self._norms()
        data = np.empty(len(entries.rows), np.float32)
        # Pieces that stay in the processor's cache.
        for start in range(0, len(data), _ENTRIES_AT_A_TIME):
            part = slice(start, start + _ENTRIES_AT_A_TIME)
            counts = entries.values[part].astype(np.float32)
            first, last = np.searchsorted(entries.indptr, [start, start + len(counts)], "right") - 1
            spans = np.diff(np.clip(entries.indptr[first : last + 2], start, start + len(counts)))
            share = counts / (norms[entries.rows[part]] + counts)
            data[part] = np.repeat(weights[first : first + len(spans)], spans) * share
        return data

    @property
    def mean_length(self) -> float:
        """Mean number of words of a text, without single characters; at least 1e-9."""
        return max(float(self._lengths.mean()) if len(self._lengths) else 0.0, 1e-9)

    def _norms(self, mean: float | None = None) -> np.ndarray:
        """Return k1 (1 - b + b L / mean L) of each text, L its number of words: float64, shape [N]."""
        return self.k1 * ((1 - self.b) + self.b * self._lengths / (self.mean_length if mean is None else mean))

    def shares(self, mean: float | None = None) -> np.ndarray:
        """Return the weights of all entries without the idf of their words, f / (f + norm): float32, shape [nnz].

        They are for an engine that applies the idf itself, such as Qdrant. f is how often the word occurs in the text, and norm
        is k1 (1 - b + b L / mean L) with the number L of its words; `mean` replaces :attr:`mean_length`.
        """
        return (self._counts / (self._norms(mean)[self.rows.cpu().numpy()] + self._counts)).astype(np.float32)
