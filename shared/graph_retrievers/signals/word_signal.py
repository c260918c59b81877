"""Signals over the words of texts: how texts are cut into terms, their counts, and changes of the corpus."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import accumulate, count
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice, strings
from graph_retrievers.errors import IndexVersionError, InvalidArgumentError
from graph_retrievers.graph.languages import language_code, main_languages, stop_words
from graph_retrievers.graph.words import normal
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.analyser import Analyser, analyser
from graph_retrievers.signals.sparse import Entries, TermSignal, updated_entries, without_repeats

TEXT_OPTIONS = ("language", "stem", "stopwords")
"""Names of the settings by which texts are cut into terms."""
_TEXTS_AT_A_TIME = 1000
# Words of the vocabulary for each that a text has, beyond which the others are dropped.
_STALE = 1.125
# How texts are cut into terms, which a saved signal remembers: before 3, words had two characters or more, and no stems.
_SPLITTING = 3


class WordSignal(TermSignal):
    """A signal whose terms are the words of texts: an abstract class; subclasses weigh the words of a text by their counts.

    Terms are the stems of words, which keep their accents and vowel signs, except the points of Arabic and Hebrew, which most texts
    leave out; in scripts without spaces between words, such as Chinese, and in Korean, the terms are pairs of neighbouring letters.
    See :class:`~graph_retrievers.signals.analyser.Analyser`. The length of a text is its number of words, without single
    characters.

    Parameters
    ----------
    texts : sequence of str, length N
    language : str, optional
        Code or English name of the language whose stop words and stemmer are used, such as "de", or those of several scripts,
        such as "en+ru"; "" for words as they are. The default is found from the texts, see
        :func:`~graph_retrievers.graph.languages.main_languages`; the attribute says which.
    stem : bool or str, optional
        Whether words are stemmed, or of which of the languages. By default those of a language that is named are; of languages
        that are found, those of all but English: beside vectors, which know the forms of English words, stems of English gained
        nothing. The attribute has the codes of the languages that are stemmed.
    stopwords : str or list of str, default "auto"
        Words that are left out: those of the language, of another one ("en_plus" is a longer list of English), or a list; None
        keeps every word.
    device : torch.device, optional
        The CPU by default.
    covers : {"nodes", "edges"}, default "nodes"
    show_progress : bool, default False
        Whether to show a progress bar while texts are split into words.
    """

    options: ClassVar[tuple[str, ...]] = TEXT_OPTIONS
    """Names of the settings by which texts are cut and scored."""

    def __init__(
        self,
        texts: Sequence[str],
        *,
        language: str | None = None,
        stem: bool | str | None = None,
        stopwords: str | list[str] | None = "auto",
        device: torch.device | None = None,
        covers: Literal["nodes", "edges"] = "nodes",
        show_progress: bool = False,
        **scoring: Any,
    ) -> None:
        self._set(**languages_of(texts, language, stem), stopwords=stopwords, covers=covers, **scoring)
        self._build(texts, device, show_progress)

    def _set(self, *, language: str, stem: str, stopwords: str | list[str] | None, covers: Any) -> None:
        """Check and set the options."""
        self.covers = choice("covers", covers, ("nodes", "edges"))
        self.language, self.stem = language_code(language), language_code(stem, argument="stem")
        if isinstance(stopwords, str) and stopwords not in ("auto", "en_plus"):
            stopwords = language_code(stopwords, argument="stopwords")
        self.stopwords = stopwords if stopwords is None or isinstance(stopwords, str) else list(strings("stopwords", stopwords))

    def _build(self, texts: Sequence[str], device: torch.device | None, show_progress: bool = False) -> None:
        words = self.tokenize(texts, show_progress=show_progress)
        self.vocabulary: dict[str, int] = {}
        occurrences = _occurrences(words, range(len(texts)), self.vocabulary)
        nothing = Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        entries = updated_entries(nothing, np.full(len(texts), -1), occurrences, len(self.vocabulary))
        self._weigh(entries, _lengths(occurrences, self.vocabulary, len(texts)), device)

    def _weigh(self, entries: Entries, lengths: np.ndarray, device: torch.device | None) -> None:
        """Compute the weights of all occurrences from their counts and the numbers of words of the texts."""
        self._counts, self._lengths = entries.values, lengths
        data = torch.from_numpy(self._weights(entries))
        self._assign(torch.from_numpy(entries.indptr), torch.from_numpy(entries.rows), data, len(lengths), device)

    @abstractmethod
    def _weights(self, entries: Entries) -> np.ndarray:
        """Return the weight of each entry, whose value is the count of a word in a text: float32, shape [nnz]."""

    @property
    def settings(self) -> dict[str, Any]:
        """How texts are cut into terms and scored, for JSON: the keywords of `options`, and the version of the cutting."""
        return {name: getattr(self, name) for name in self.options} | {"splitting": _SPLITTING}

    def __repr__(self) -> str:
        """Return the sizes."""
        words = int((self.indptr.diff() > 0).sum())
        options = "".join(f", {name}={getattr(self, name)!r}" for name in self.options if name not in TEXT_OPTIONS)
        return f"{type(self).__name__}({len(self)} {self.covers}, words={words}{options}, language={self.language!r})"

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the CSC arrays, the other arrays for :meth:`updated`, and the vocabulary with the settings.

        The arrays are ``indptr`` [V + 1], ``rows`` [nnz] and ``data`` [nnz]; ``counts`` [nnz], how often a word occurs in a text,
        and ``lengths`` [N], words of each text.
        """
        settings = self.settings | {"covers": self.covers, "vocabulary": self.vocabulary, "num_documents": len(self)}
        arrays = {"counts": torch.from_numpy(self._counts), "lengths": torch.from_numpy(self._lengths)}
        return {"indptr": self.indptr, "rows": self.rows, "data": self.data, **arrays}, settings

    @staticmethod
    def is_older(settings: Mapping[str, Any]) -> bool:
        """Return whether the settings of a :meth:`state` are of a version that cut texts into other terms."""
        return settings.get("splitting") != _SPLITTING

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], settings: dict[str, Any], device: torch.device | None = None) -> Self:
        """Return the signal of a :meth:`state`; IndexVersionError for one of a version that cut texts into other terms."""
        if cls.is_older(settings):
            raise IndexVersionError(
                f"This {cls.__name__} was made by another version, which cuts texts into other words; build it again."
            )
        signal = object.__new__(cls)
        signal._set(**{name: settings[name] for name in (*cls.options, "covers")})
        signal.vocabulary = settings["vocabulary"]
        signal._counts, signal._lengths = (tensors[name].cpu().numpy() for name in ("counts", "lengths"))
        signal._restore(tensors, settings["num_documents"], device)
        terms = signal.vocabulary.values()
        if sorted(terms) != list(range(signal.indptr.numel() - 1)):
            raise ValueError("the vocabulary does not fit the matrix")
        for name, size in (("counts", signal.rows.numel()), ("lengths", signal.num_rows)):
            values = getattr(signal, f"_{name}")
            if values.shape != (size,) or values.dtype != np.int32 or (values < 0).any():
                raise ValueError(f"the {name} do not fit the matrix")
        return signal

    def updated(self, contents: Sequence[str], old_rows: Tensor, embed: Callable[[list[str]], Tensor]) -> Self:
        """Return the signal of a changed corpus; only new contents are split into words. See :meth:`Signal.updated`.

        All scores are computed again from the counts of the words, because the weight of a word depends on the whole corpus.
        """
        signal = copy(self)
        distinct = without_repeats(old_rows.cpu().numpy())
        new = np.flatnonzero(distinct < 0)
        words = self.tokenize([contents[row] for row in new.tolist()])
        vocabulary = dict(self.vocabulary)
        occurrences = _occurrences(words, new.tolist(), vocabulary)
        lengths = self._lengths[distinct] if len(self) else np.zeros(len(distinct), np.int32)
        lengths[new] = _lengths(occurrences, vocabulary, len(distinct))[new]
        old_entries = Entries(self.indptr.cpu().numpy(), self.rows.cpu().numpy(), self._counts)
        entries = updated_entries(old_entries, distinct, occurrences, len(vocabulary))
        mask = np.diff(entries.indptr) > 0
        if mask.sum() * _STALE < len(mask):
            # Many words that no text has any more; a few cost less where they are than new numbers for all others.
            place = np.where(mask, np.cumsum(mask) - 1, -1).tolist()
            vocabulary = {word: place[term] for word, term in vocabulary.items() if place[term] >= 0}
            entries = Entries(np.append(0, entries.indptr[1:][mask]), entries.rows, entries.values)
        signal.vocabulary = vocabulary
        signal._weigh(entries, lengths, self.device)
        return signal

    def restricted(self, rows: Tensor, contents: Sequence[str] | None) -> Self:
        """Return the signal of some rows, built again: frequencies of words and lengths of texts are those of only these rows.

        Without contents it is built from the counts of words that this signal keeps. Raises InvalidArgumentError if this signal
        was not built from these contents.
        """
        if contents is None:
            return self.updated([""] * rows.numel(), rows, lambda texts: torch.zeros(0))
        result = copy(self)
        result._build(contents, self.device)
        # Each distinct word of a text has an entry.
        word_counts = [torch.bincount(signal.rows.long(), minlength=len(signal)) for signal in (self, result)]
        if not torch.equal(word_counts[0][rows], word_counts[1]):
            raise InvalidArgumentError(
                f"This {type(self).__name__} was made of other texts than those of the nodes, so that it cannot be restricted to a "
                "scope; give it a class of its own that implements restricted()."
            )
        return result

    def tokenize(self, texts: Sequence[str], show_progress: bool = False) -> list[list[str]]:
        """Return the terms of each text, in any order; see :class:`~graph_retrievers.signals.analyser.Analyser`."""
        split, terms = self._analyser(), list[list[str]]()
        bar = progress_bar(total=len(texts), desc="BM25", unit="text") if show_progress else None
        for start in range(0, len(texts), _TEXTS_AT_A_TIME):
            part = texts[start : start + _TEXTS_AT_A_TIME]
            terms += split(part)
            if bar is not None:
                bar.update(len(part))
        if bar is not None:
            bar.close()
        return terms

    def _analyser(self) -> Analyser:
        if isinstance(self.stopwords, list):
            return analyser(self.stem, frozenset(normal(word).casefold() for word in self.stopwords))
        name = self.language if self.stopwords == "auto" else self.stopwords or ""
        return analyser(self.stem, stop_words(name))

    def prepare(self) -> None:
        """Sort the entries by term and row, and load the stemmer."""
        self.tokenize(["a"])
        super().prepare()

    def query_terms(self, queries: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the known words of queries, each as often as it occurs, with weight 1."""
        terms = [[self.vocabulary[w] for w in words if w in self.vocabulary] for words in self.tokenize(queries)]
        flat = torch.tensor([t for ts in terms for t in ts], dtype=torch.int64, device=self.device)
        pointers = torch.tensor([0, *accumulate(map(len, terms))], dtype=torch.int64, device=self.device)
        return pointers, flat, torch.ones(flat.numel(), device=self.device)


def languages_of(texts: Sequence[str], language: str | None = None, stem: bool | str | None = None) -> dict[str, Any]:
    """Return the `language` and `stem` of a :class:`WordSignal` of texts, where those that are given may be None."""
    codes = main_languages(texts) if language is None else language_code(language)
    if stem is None:
        stem = "+".join(code for code in codes.split("+") if language is not None or code != "en")
    elif isinstance(stem, bool):
        stem = codes if stem else ""
    return {"language": codes, "stem": stem}


def _lengths(occurrences: tuple[np.ndarray, ...], vocabulary: Mapping[str, int], size: int) -> np.ndarray:
    """Return the lengths of texts, int32, shape [size], from what :func:`_occurrences` returns.

    Single characters, and numbers that are also there by their parts, do not count: lists, tables and code are full of them.
    """
    counted = np.fromiter((len(word) > 1 and "." not in word for word in vocabulary), bool, len(vocabulary))
    terms, owners, times = occurrences
    return np.bincount(owners, times * counted[terms], size).astype(np.int32)


def _occurrences(words: list[list[str]], rows: Sequence[int], vocabulary: dict[str, int]) -> tuple[np.ndarray, ...]:
    """Return term, row and count of each word that texts have; new words are added to the vocabulary."""
    terms, counts, sizes = array("i"), array("i"), array("i")
    numbers = defaultdict(count(len(vocabulary)).__next__, vocabulary)
    for text in words:
        frequencies = Counter(text)
        terms.extend(map(numbers.__getitem__, frequencies))
        counts.extend(frequencies.values())
        sizes.append(len(frequencies))
    vocabulary |= numbers
    owners = np.repeat(np.asarray(rows, np.int32), sizes)
    return np.asarray(terms, np.int32), owners, np.asarray(counts, np.int32)
