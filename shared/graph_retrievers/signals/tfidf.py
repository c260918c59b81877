"""TF-IDF as a signal: cosines of texts as counts of their words, the rare ones weighing more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.signals.sparse import Entries
from graph_retrievers.signals.word_signal import WordSignal

__all__ = ["TfIdf"]


class TfIdf(WordSignal):
    r"""TF-IDF: cosines of query and text, in the form of scikit-learn.

    A word that occurs f times in a text has the weight :math:`f \, (1 + \ln \frac{1 + N}{1 + n})`, where n of the N texts contain
    it; the weights of each text, and of a query without its unknown words, are scaled to unit length. Texts that share no word
    with the query do not match. See :class:`~graph_retrievers.signals.word_signal.WordSignal` for how texts are cut into words,
    and for the parameters.

    References
    ----------
    Salton and Buckley, "Term-weighting approaches in automatic text retrieval", Information Processing & Management 24, 1988.

    Examples
    --------
    >>> signal = TfIdf(["A loom weaves cloth.", "Punched cards drive a loom.", "A cipher."])
    >>> scores, rows = signal.search(["loom"], 3)
    >>> rows.tolist(), [round(score, 3) for score in scores[0, :2].tolist()]
    ([[0, 1, -1]], [0.474, 0.402])
    """

    kind = "tfidf"

    def _weights(self, entries: Entries) -> np.ndarray:
        """Return the weights of all occurrences, of unit length for each text."""
        idf = np.repeat(self._idf(entries.indptr), np.diff(entries.indptr))
        weights = entries.values * idf
        lengths = np.sqrt(np.bincount(entries.rows, weights**2, len(self._lengths)))
        return (weights / lengths[entries.rows]).astype(np.float32)

    def _idf(self, indptr: np.ndarray) -> np.ndarray:
        """Return the weight of each word for one occurrence: float64, shape [V]."""
        return 1 + np.log((1 + len(self._lengths)) / (1 + np.diff(indptr)))  # type: ignore[no-any-return]

    def query_terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the known words of queries, each once, with weights of unit length."""
        idf = self._idf(self.indptr.cpu().numpy())
        terms, weights, counts = list[np.ndarray](), list[np.ndarray](), list[int]()
        for words in self.tokenize(queries):
            numbers, times = np.unique([self.vocabulary[word] for word in words if word in self.vocabulary], return_counts=True)
            weight = times * idf[numbers.astype(np.int64)]
            terms.append(numbers.astype(np.int64))
            weights.append(weight / np.linalg.norm(weight) if len(weight) else weight)
            counts.append(len(numbers))
        pointers = torch.tensor([0, *accumulate(counts)], dtype=torch.int64, device=self.device)
        parts = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *terms])), torch.from_numpy(np.concatenate([[], *weights]))
        return pointers, parts[0].to(self.device), parts[1].float().to(self.device)
