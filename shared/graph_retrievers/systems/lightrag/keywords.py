"""Keywords of a question, from a language model or from the caller, and searches by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import as_list, choice, is_number, positive, strings
from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Composite
from graph_retrievers.core.driver import Algorithm, Named, Parallel
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Pairs, Request, Similarity, WithQuery
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.plain import check_text
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.language import as_language_model, complete_many, failure_note
from graph_retrievers.systems.asking import TEXT, array, prompt_text, record

__all__ = ["KeywordSearch"]

T = TypeVar("T")
_HIGH, _LOW = "high_level_keywords", "low_level_keywords"
KEYWORDS_SCHEMA = record(dict.fromkeys((_HIGH, _LOW), array(TEXT)))
"""JSON schema of the keywords of a question."""


class Keywords(NamedTuple):
    """High-level and low-level keywords of a question.

    >>> Keywords(("inventions",), ("Ada Lovelace",)).low
    ('Ada Lovelace',)
    """

    high: tuple[str, ...]
    low: tuple[str, ...]


@runtime_checkable
class KeywordExtractor(Protocol):
    """Interface of an extractor of keywords."""

    def extract(self, questions: Sequence[str]) -> list[Any]:
        """Return a mapping for each question, as :data:`KEYWORDS_SCHEMA` describes it.

        A question without keywords gets a GraphRetrieverError that says why, returned and not raised. Other keys are ignored.
        """


class LanguageModelKeywords:
    """Keywords from any language model (LightRAG, section 3.2, "dual-level retrieval").

    `model` is as for :func:`graph_retrievers.signals.language.as_language_model`; it is called at most `attempts` times for one
    question, and for `workers` questions at the same time.

    >>> answer = '{"high_level_keywords": ["inventions"], "low_level_keywords": ["Ada Lovelace"]}'
    >>> LanguageModelKeywords(lambda prompt: answer).extract(["What did Ada Lovelace invent?"])[0]["low_level_keywords"]
    ['Ada Lovelace']
    """

    def __init__(self, model: Any, *, attempts: int = 3, workers: int = 4) -> None:
        self.model = as_language_model(model)
        self.attempts, self.workers = positive("attempts", attempts), positive("workers", workers)

    def extract(self, questions: Sequence[str]) -> list[Any]:
        """Return the keywords of each question, or the LanguageModelError of the question that got none."""
        prompts = [prompt_text("lightrag-keywords").format(question=question) for question in questions]
        return complete_many(self.model, prompts, KEYWORDS_SCHEMA, attempts=self.attempts, workers=self.workers)


def as_extractor(model: Any) -> KeywordExtractor:
    """Return an object with ``extract`` unchanged, and a language model as :class:`LanguageModelKeywords`."""
    return model if isinstance(model, KeywordExtractor) and not isinstance(model, type) else LanguageModelKeywords(model)


class KeywordSearch(Composite):
    """Run a search with keywords instead of the question, and keep the results that are similar enough to them.

    The keywords of a level are joined with ", " and searched as one text. They are the input ``keywords``, a mapping with
    ``high_level_keywords`` and ``low_level_keywords`` (one may be missing); else those that `extractor` finds; else the question
    itself is used for both levels, also, with a note, if the extractor fails.

    Parameters
    ----------
    operator : Operator
        The search, such as ``VectorSearch(40, returned=False)`` or ``FactSearch(40)``. A traversal starts at its results, so the
        seed filter applies to them, and the filter of results does not.
    level : {"low", "high", None}
        Which keywords; None searches by the question.
    extractor : object, optional
        See :func:`as_extractor`.
    alone : bool, default True
        Whether the question is used for a level without keywords. If False, a question with keywords of only the other level is
        not searched.
    threshold : float, default 0.2
        Cosine that a node, or an edge, must exceed. Not applied to searches by words.
    exclude_types : sequence of str, default ()
        Node types that are excluded, together with their edges.

    References
    ----------
    Guo et al., "LightRAG: Simple and Fast Retrieval-Augmented Generation", EMNLP Findings 2025, and its code, ``operate.py``.
    There, a question of 50 characters or more without keywords gets no answer, and one without low-level keywords is searched by
    the high-level ones even if local search was requested.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> embed = lambda texts: [[float("loom" in text), float("card" in text)] for text in texts]
    >>> index = GraphIndex.from_texts(["a loom", "a card"], embedding=embed)
    >>> retriever = Retriever(index, KeywordSearch(VectorSearch(5), "low"), backfill=False)
    >>> [hit.text for hit in retriever.retrieve("What weaves?", keywords={"low_level_keywords": ["loom"]})]
    ['a loom']
    """

    def __init__(
        self,
        operator: Operator,
        level: str | None,
        *,
        extractor: Any = None,
        alone: bool = True,
        threshold: float = 0.2,
        exclude_types: Sequence[str] = (),
    ) -> None:
        super().__init__(operator)
        self.level, self.alone = choice("level", level, ("low", "high", None)), alone
        self.extractor = None if extractor is None else as_extractor(extractor)
        if not is_number(threshold) or not -1 <= threshold <= 1:
            raise InvalidArgumentError(f"threshold must be a cosine, from -1 to 1, got {shown(threshold)}.")
        self.threshold, self.exclude_types = float(threshold), strings("exclude_types", exclude_types)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The keywords, if a level is searched."""
        return ("keywords",) if self.level else ()

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the results of the search by the keywords; earlier results are not read."""
        text: str | None = question.text
        if self.level is not None:
            words, notes = yield Extraction(self.extractor)
            question.notes += notes
            terms, other = (words.low, words.high) if self.level == "low" else (words.high, words.low)
            text = ", ".join(terms) or (question.text if self.alone or not other else None)
        nothing = Candidates.seeds(candidates.nodes[:0], candidates.scores[:0], self.operators[0].name)
        if text is None:
            return nothing.after(candidates)
        query = copy(question)
        query.text = text
        change = partial(self._instead, question, text)
        results = yield from changed(self.operators[0].stepped(query, nothing), change)  # type: ignore[attr-defined]
        return (yield from changed(self._near(query, results), change)).after(candidates)

    def _instead(self, question: Question, text: str, request: Any) -> Request:
        """Return a request for a text instead of the question."""
        direct = isinstance(request, Similarity) or (isinstance(request, Nearest) and not request.returned)
        same = text == question.text and not self.exclude_types
        return request if direct and same else WithQuery(request, text, self.exclude_types)

    def _near(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what is above the threshold."""
        signal = getattr(self.operators[0], "signal", "dense")
        if question.corpus.signal(signal).reads != "vector":
            return candidates
        if candidates.facts is None:
            cosines = yield Similarity(candidates.nodes)
            return candidates.taken(np.flatnonzero(cosines > self.threshold))
        cosines = candidates.facts.scores
        if question.in_memory:
            # A database compares by cosine.
            lengths = yield Pairs(self._lengths, candidates.facts.rows)
            cosines = cosines / np.maximum(lengths.astype(np.float32), 1e-30)
        facts = candidates.facts.taken(cosines > self.threshold)
        near = np.isin(candidates.nodes, question.ends(facts.rows))
        return replace(candidates.taken(np.flatnonzero(near)), facts=facts)

    def _lengths(self, queries: Queries, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the products of the lengths of questions and edges, which their scores are divided by for cosines."""
        signal: Any = queries.index.signal(self.operators[0].signal)  # type: ignore[attr-defined]
        return signal.norms[rows] * queries.lengths[batch]  # type: ignore[no-any-return]


def changed(algorithm: Algorithm[T], change: Callable[[Request], Request]) -> Algorithm[T]:
    """Return the result of an algorithm, with its requests replaced by others.

    >>> def twice(number):
    ...     return 2 * (yield number)
    >>> from graph_retrievers.core.requests import Nearest
    >>> next(changed(twice(Nearest(1)), lambda request: Nearest(request.k + 1))).k
    2
    """
    answer = None
    while True:
        try:
            request = algorithm.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        if isinstance(request, Parallel):
            answer = yield Parallel([changed(each, change) for each in request.algorithms], request.places)
        elif isinstance(request, Named):
            answer = yield Named(request.name, changed(request.algorithm, change))
        else:
            answer = yield change(request) if isinstance(request, Request) else tuple(map(change, request))


@dataclass(frozen=True, eq=False)
class Extraction(Request):
    """The keywords of the question, and notes on how they were found: (:class:`Keywords`, tuple of str)."""

    extractor: KeywordExtractor | None

    def key(self) -> tuple[Any, ...]:
        """Return the extractor, which is called for all questions at once."""
        return Extraction, id(self.extractor)

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Extraction]]) -> list[tuple[Keywords, tuple[str, ...]]]:
        """Return the keywords of each question."""
        extractor = requests[0][1].extractor
        # Both levels ask for the same keywords.
        keywords = backend.queries.cache.get(("keywords", Identity(extractor)), lambda: _keywords(backend.queries, extractor))
        return [keywords[place] for place, _ in requests]


def _keywords(queries: Queries, extractor: KeywordExtractor | None) -> list[tuple[Keywords, tuple[str, ...]]]:
    """Return the keywords of each query, and notes on those that the extractor failed for."""
    values = queries.input("keywords")
    keywords = [
        Keywords((), ()) if words is None else _keywords_of(words, f"keywords of query {b}") for b, words in enumerate(values)
    ]
    notes: list[tuple[str, ...]] = [()] * len(values)
    places = [b for b, words in enumerate(values) if words is None and extractor is not None]
    if places and extractor is not None:
        name = type(extractor).__name__
        try:
            values = extractor.extract([queries.texts[b] for b in places])
            # A generator fails when it is read.
            values = list(values) if isinstance(values, Iterator) else values
        except Exception as error:
            values = [error] * len(places)
        answers = as_list(f"What {name}.extract returned", values, f"{len(places)} mappings with keywords, one for each question")
        if len(answers) != len(places):
            raise InvalidArgumentError(
                f"{name}.extract returned {shown(answers)} for {len(places)} questions; expected one mapping each."
            )
        for b, answer in zip(places, answers, strict=True):
            try:
                keywords[b] = _answer_keywords(answer, name)
            except Exception as error:
                notes[b] = (failure_note(error, "the question itself was searched"),)
    return list(zip(keywords, notes, strict=True))


def _answer_keywords(answer: Any, name: str) -> Keywords:
    """Return the keywords of an extractor's answer, ignoring other keys; raise the exception that an answer is."""
    if isinstance(answer, Exception):
        raise answer
    levels = {key: answer[key] for key in (_HIGH, _LOW) if key in answer} if isinstance(answer, Mapping) else {}
    return _keywords_of(levels or answer, f"keywords that {name} gave")


def _keywords_of(words: Any, what: str) -> Keywords:
    """Return keywords given as a mapping; InvalidArgumentError for anything else."""
    valid = isinstance(words, Mapping) and set(words) <= {_HIGH, _LOW}
    if not valid or not all(isinstance(v, (list, tuple)) and all(isinstance(w, str) for w in v) for v in words.values()):
        raise InvalidArgumentError(f"The {what} are {shown(words)}; expected a mapping with lists of strings: {_HIGH} and {_LOW}.")
    for word in (word for part in words.values() for word in part):
        check_text(word, f"One of the {what}")
    return Keywords(*(tuple(dict.fromkeys(word for word in words.get(name, ()) if word.strip())) for name in (_HIGH, _LOW)))
