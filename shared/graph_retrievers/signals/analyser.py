"""From texts to the terms that a search by words compares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from threading import Lock

from graph_retrievers.graph.languages import stem_of
from graph_retrievers.graph.words import MARKS, needs_marks, normal, pairs, unpointed

# Distinct words whose terms are kept; beyond them, questions of a service that runs for long would fill the memory.
_MOST_WORDS = 1 << 21
_PLAIN, _MARKED = re.compile(r"\w+"), re.compile(rf"\w[\w{MARKS}]*")
# Versions, sections and decimal numbers, which are words as a whole too.
_DOTTED, _POINT = re.compile(r"\d+(?:\.\d+)+\w*"), re.compile(r"\.\d(?<=\d\.\d)")
# A single letter beside an apostrophe is the rest of a word ("Holm's", "l'eau"), not one.
_ELIDED = re.compile("(?<!\\w)[^\\W\\d_]['\u2019](?=\\w)|(?<=\\w)['\u2019][^\\W\\d_](?!\\w)")


class Analyser:
    """A function from texts to terms: words without stop words, stemmed, in the form of :func:`normal` and folded case.

    Numbers and single letters are words. A number with points in it, such as "1.2.3", is one as a whole and by its parts. A
    letter that is a stop word, such as "a" in English, is a word where it is meant as a letter: if it is a capital other than "I"
    and follows another word of its sentence ("Vitamin A deficiency"), or if nothing of its phrase follows ("what is vitamin a?",
    "point (a)", "Elizabeth I.").

    Parameters
    ----------
    language : str
        Codes joined by "+", see :mod:`graph_retrievers.graph.languages`; "" for words as they are.
    stopwords : frozenset of str, optional
        In folded case; none by default.

    Examples
    --------
    >>> Analyser("en", frozenset(["a", "the", "of"]))(["The contracts of a Loom, part A: version 1.2"])
    [['contract', 'loom', 'part', 'version', '1', '2', '1.2', 'a']]
    """

    def __init__(self, language: str, stopwords: frozenset[str] = frozenset()) -> None:
        self._terms = _Terms(language, stopwords)
        letters = "".join(sorted({form for word in stopwords if len(word) == 1 for form in (word, word.upper()) if len(form) == 1}))
        # The pronoun of English is a capital everywhere.
        capitals = "".join(letter for letter in letters if letter.isupper() and letter != "I")
        # The letter comes first, so that the others are passed over fast.
        last = rf"[{letters}](?<![\w'\u2019][{letters}])(?=\s*(?:[.,;:!?)\]}}]|\Z))"
        behind = rf"[{capitals}](?<=[^\W_][ /(-][{capitals}])(?!\w)"
        self._letters = re.compile(f"{last}|{behind}" if capitals else last) if letters else None

    def __call__(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text; their order is not that of the text."""
        return list(map(self._tokens, texts))

    def _tokens(self, text: str) -> list[str]:
        text = normal(text)
        pattern = _PLAIN
        if needs_marks(text):
            text, pattern = unpointed(text), _MARKED
        if "'" in text or "\u2019" in text:
            text = _ELIDED.sub(" ", text)
        folded = text.casefold()
        words = pattern.findall(folded)
        terms = list(chain.from_iterable(map(self._terms.__getitem__, words)))
        if _POINT.search(folded):
            terms += _DOTTED.findall(folded)
        if self._letters is not None:
            terms += map(str.casefold, self._letters.findall(text))
        return terms


class _Terms(dict[str, tuple[str, ...]]):
    """The terms of each word, found when it is first read."""

    def __init__(self, language: str, stopwords: frozenset[str]) -> None:
        self._stem, self._stopwords, self._lock = stem_of(language), stopwords, Lock()

    def __missing__(self, word: str) -> tuple[str, ...]:
        # Stemmers are not made for several threads.
        with self._lock:
            terms = () if word in self._stopwords else tuple(map(self._stem, pairs(word)))
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = terms
        return terms


@lru_cache(maxsize=16)
def analyser(language: str, stopwords: frozenset[str]) -> Analyser:
    """Return an analyser, the same one for the same settings, so that each word is stemmed once."""
    return Analyser(language, stopwords)
