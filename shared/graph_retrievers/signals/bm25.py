"""BM25 as a signal: all scores in one sparse matrix on the device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError
from graph_retrievers.graph.names import composed
from graph_retrievers.signals.sparse import TermSignal

__all__ = ["BM25"]

_TEXTS_AT_A_TIME = 1000
_OPTIONS = ("k1", "b", "stopwords", "backend", "covers")


class BM25(TermSignal):
    """BM25 (Lucene form) with precomputed scores.

    The scores of bm25s are computed once for every (term, document) that occurs. A query adds the scores of its terms; repeated
    terms count repeatedly. Documents without a score above zero do not match. Sources: Robertson and Zaragoza, "The Probabilistic
    Relevance Framework: BM25 and Beyond", 2009; Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020 (the Lucene form).

    Parameters
    ----------
    texts : sequence of str, length N
    k1 : float, default 1.5
        Term frequency saturation.
    b : float, default 0.75
        Length normalisation.
    stopwords : str or list of str, default "en"
        As in bm25s; None keeps every word.
    backend : {"bm25s", "rank-bm25"}, default "bm25s"
        ``"rank-bm25"`` uses the scores of ``BM25Okapi`` of that package, whose idf differs, with the same words.
    device : torch.device, optional
        The CPU by default.
    covers : {"nodes", "edges"}, default "nodes"
    show_progress : bool, default False
        Whether to show a progress bar while texts are split into words.

    Examples
    --------
    >>> bm25 = BM25(["A loom weaves cloth.", "Punched cards drive a loom.", "A cipher."])
    >>> bm25.search(["punched cards"], 2)[1].tolist()
    [[1, -1]]
    """

    kind = "bm25"

    def __init__(
        self,
        texts: Sequence[str],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        stopwords: str | list[str] | None = "en",
        backend: str = "bm25s",
        device: torch.device | None = None,
        covers: Literal["nodes", "edges"] = "nodes",
        show_progress: bool = False,
    ) -> None:
        self.k1, self.b, self.stopwords, self.covers = k1, b, stopwords, choice("covers", covers, ("nodes", "edges"))
        self.backend = choice("BM25 backend", backend, ("bm25s", "rank-bm25"))
        words = self.tokenize(texts, show_progress=show_progress)
        build = _bm25s_matrix if backend == "bm25s" else _rank_bm25_matrix
        # bm25s fails on a corpus without a single word; such a corpus matches nothing.
        vocabulary, indptr, rows, data = (
            build(words, k1, b) if any(words) else ({}, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        )
        self.vocabulary: dict[str, int] = vocabulary
        self._assign(torch.from_numpy(indptr), torch.from_numpy(rows), torch.from_numpy(data), len(texts), device)

    def __repr__(self) -> str:
        """Return the sizes."""
        return f"BM25({len(self)} {self.covers}, words={len(self.vocabulary)}, k1={self.k1}, b={self.b})"

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the CSC arrays ``indptr`` [V + 1], ``rows`` [nnz] and ``data`` [nnz], and the vocabulary with the settings."""
        settings = {name: getattr(self, name) for name in (*_OPTIONS, "vocabulary")} | {"num_documents": len(self)}
        return {"indptr": self.indptr, "rows": self.rows, "data": self.data}, settings

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> BM25:
        """Return the signal of a :meth:`state`."""
        made = object.__new__(cls)
        for name in (*_OPTIONS, "vocabulary"):
            setattr(made, name, settings[name])
        made._assign(tensors["indptr"], tensors["rows"], tensors["data"], settings["num_documents"], device)
        return made

    def to(self, device: torch.device) -> BM25:
        """Return this signal on another device."""
        return BM25.restore(*self.state(), device)

    def updated(self, contents: Sequence[str], kept: Tensor, embed: Callable[[list[str]], Tensor]) -> BM25:
        """Return BM25 of a changed corpus; it is built again, as word statistics depend on the whole corpus."""
        return BM25(contents, device=self.device, **{name: getattr(self, name) for name in _OPTIONS})

    def restricted(self, rows: Tensor, contents: Sequence[str]) -> BM25:
        """Return BM25 of some rows, built again: frequencies of words and lengths of texts are those of these rows alone.

        Raises InvalidArgumentError if this signal was not made of these contents.
        """
        made = BM25(contents, device=self.device, **{name: getattr(self, name) for name in _OPTIONS})
        # Each distinct word of a text has an entry.
        words = [torch.bincount(signal.rows.long(), minlength=len(signal)) for signal in (self, made)]
        if not torch.equal(words[0][rows], words[1]):
            raise InvalidArgumentError(
                "This BM25 was made of other texts than those of the nodes, so that it cannot be restricted to a scope; give it a "
                "class of its own that implements restricted()."
            )
        return made

    def tokenize(self, texts: Sequence[str], show_progress: bool = False) -> list[list[str]]:
        """Return the words of each text in normal form C: lower case, at least two characters, without stop words."""
        from tqdm.auto import tqdm

        options = {"stopwords": self.stopwords or [], "return_ids": False, "show_progress": False}
        words: list[list[str]] = []
        with tqdm(total=len(texts), desc="BM25", unit="text", disable=not show_progress) as bar:
            for start in range(0, len(texts), _TEXTS_AT_A_TIME):
                part = [composed(text) for text in texts[start : start + _TEXTS_AT_A_TIME]]
                words += (list(found) for found in _import_bm25s().tokenize(part, **options))
                bar.update(len(part))
        return words

    def query_terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the known words of queries, each as often as it occurs, with weight 1."""
        terms = [[self.vocabulary[w] for w in words if w in self.vocabulary] for words in self.tokenize(queries)]
        flat = torch.tensor([t for ts in terms for t in ts], dtype=torch.int64, device=self.device)
        pointers = torch.tensor([0, *accumulate(map(len, terms))], dtype=torch.int64, device=self.device)
        return pointers, flat, torch.ones(flat.numel(), device=self.device)


def _import_bm25s() -> Any:
    import bm25s

    # bm25s sets its logger to DEBUG when it is imported.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


def _bm25s_matrix(words: list[list[str]], k1: float, b: float) -> tuple[dict[str, int], np.ndarray, np.ndarray, np.ndarray]:
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(w, len(vocabulary)) for w in ws] for ws in words]
    model = _import_bm25s().BM25(k1=k1, b=b, method="lucene")
    model.index((ids, dict(vocabulary)), show_progress=False, create_empty_token=False)
    matrix = model.scores
    return vocabulary, matrix["indptr"].astype(np.int64), matrix["indices"].astype(np.int32), matrix["data"].astype(np.float32)


def _rank_bm25_matrix(words: list[list[str]], k1: float, b: float) -> tuple[dict[str, int], np.ndarray, np.ndarray, np.ndarray]:
    try:
        from rank_bm25 import BM25Okapi
    except ImportError as error:
        raise MissingDependencyError("rank-bm25 is not installed; run pip install rank-bm25.") from error
    model = BM25Okapi(words, k1=k1, b=b)
    vocabulary = {word: i for i, word in enumerate(sorted({w for ws in words for w in ws}))}
    postings: list[list[tuple[int, float]]] = [[] for _ in vocabulary]
    for row, counts in enumerate(model.doc_freqs):
        norm = k1 * (1 - b + b * model.doc_len[row] / model.avgdl)
        for word, count in counts.items():
            postings[vocabulary[word]].append((row, model.idf[word] * count * (k1 + 1) / (count + norm)))
    indptr = np.concatenate([[0], np.cumsum([len(p) for p in postings])]).astype(np.int64)
    rows = np.array([row for p in postings for row, _ in p], np.int32)
    return vocabulary, indptr, rows, np.array([s for p in postings for _, s in p], np.float32)
