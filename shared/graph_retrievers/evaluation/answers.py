"""Metrics of answers: token F1 and exact match."""

from __future__ import annotations

import re
import string
from collections import Counter

__all__ = ["exact_match", "normalize_answer", "token_f1"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Return `text` in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, truth: str) -> float:
    """Return 1.0 if both are the same after normalisation, else 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(truth))


def token_f1(prediction: str, truth: str) -> float:
    """Return the harmonic mean of precision and recall of the words of a prediction (Rajpurkar et al., "SQuAD", 2016).

    Both sides are normalised. If one is empty after that, the result is 1.0 if the other is too, else 0.0.

    Examples
    --------
    >>> token_f1("The Eiffel Tower", "eiffel tower, Paris")
    0.8
    """
    predicted, expected = normalize_answer(prediction).split(), normalize_answer(truth).split()
    if not predicted or not expected:
        return float(predicted == expected)
    common = (Counter(predicted) & Counter(expected)).total()
    return 2 * common / (len(predicted) + len(expected))
