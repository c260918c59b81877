"""The names in a passage, and its sentences that mention some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graph_retrievers.graph.names import NameTable
from graph_retrievers.graph.sentences import sentences
from graph_retrievers.signals.entities import entity_key


class PassageNames(NamedTuple):
    """The E names of a passage, each once by its :func:`~graph_retrievers.signals.entities.entity_key`, and its sentences.

    `names` has the first spelling of each, `counts` how often sentences mention it, at least 1, and `sentences` those that mention
    two or more, each with the places of these in `names`.
    """

    names: list[str]
    counts: list[int]
    sentences: list[tuple[str, list[int]]]


class SentenceRows(NamedTuple):
    """S sentences, and the M entities that they mention.

    Attributes
    ----------
    home : ndarray, shape [S], int64
        The rows of their passages.
    cosine : ndarray, shape [S], float64
        Their cosines with a question.
    owner, entity : ndarray, shape [M], int64
        For each mention the place of its sentence, ascending, and the entity.
    """

    home: np.ndarray
    cosine: np.ndarray
    owner: np.ndarray
    entity: np.ndarray

    def masked(self, keep: np.ndarray) -> SentenceRows:
        """Return some of the sentences: `keep`, shape [S], is a mask."""
        mask, place = keep[self.owner], np.cumsum(keep) - 1
        return SentenceRows(self.home[keep], self.cosine[keep], place[self.owner[mask]], self.entity[mask])


def passage_names(text: str, title: str, spellings: Sequence[str]) -> PassageNames:
    """Return the names in a passage and its sentences, if an extractor found some names in its text.

    A name is in each sentence that contains it. The title, without its qualifier, is a name too, and in all of the sentences,
    because they are about it; a sentence without this name is told with the title in front.

    >>> passage_names("He met Ada. Ada met Otto Veld.", "Karl (film)", ["Ada", "Otto Veld"])  # doctest: +NORMALIZE_WHITESPACE
    PassageNames(names=['Karl', 'Ada', 'Otto Veld'], counts=[2, 2, 1],
        sentences=[('Karl. He met Ada.', [0, 1]), ('Karl. Ada met Otto Veld.', [0, 1, 2])])
    """
    subject = _name(title)
    spellings = list(dict.fromkeys([subject, *spellings] if subject else spellings))
    places, names = dict[str, int](), list[str]()
    for spelling in spellings:
        if places.setdefault(entity_key(spelling), len(names)) == len(names):
            names.append(spelling)
    table, number = NameTable(spellings), [places[entity_key(spelling)] for spelling in spellings]
    counts, parts = [0] * len(names), list[tuple[str, list[int]]]()
    for sentence in sentences(text):
        mentions = [number[rows[0]] for _, rows in table.find(sentence)]
        if subject and 0 not in mentions:
            mentions, sentence = [0, *mentions], f"{subject}. {sentence}"
        for place in mentions:
            counts[place] += 1
        if len(inside := list(dict.fromkeys(mentions))) > 1:
            parts.append((sentence, inside))
    # A name that no sentence contains as a whole is still in the passage.
    return PassageNames(names, [max(count, 1) for count in counts], parts)


def _name(title: str) -> str:
    """Return the title as a name, without its qualifier, such as "(film)"; "" if it has no word."""
    name = " ".join(((title.endswith(")") and title.rpartition(" (")[0]) or title).split())
    return name if entity_key(name) else ""
