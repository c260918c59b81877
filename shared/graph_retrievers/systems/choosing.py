"""Options that a language model scores by their numbers, or where there is none, the relevance model by their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.core.candidates import Candidates, best
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Relevance, Request, Similarity, WithQuery
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.systems.asking import INTEGER, NUMBER, Prompt, array, ask_model, note_failure, numbered, record

SCORES = record({"scores": array(record({"number": INTEGER, "score": NUMBER}))})

Search = Callable[[Any, Question, Candidates], Algorithm[Candidates]]


class Options(NamedTuple):
    """The n options of a list.

    Attributes
    ----------
    names, texts : sequence of str, length n
        What a language model reads, as a numbered list, and what a relevance model reads.
    nodes : ndarray, shape [n], int64
        Rows of the nodes whose cosines with the question are the scores if no model reads texts.
    about : dict of str to str
        Fields of the prompt, such as the entity whose relations are the options.
    """

    names: Sequence[str]
    texts: Sequence[str]
    nodes: np.ndarray
    about: dict[str, str]


def option_scores(
    operator: Any, question: Question, prompt: Prompt, lists: Sequence[Options], alone: float | None = None, **fields: Any
) -> Algorithm[list[np.ndarray]]:
    """Return the scores of the options of each of some lists.

    Parameters
    ----------
    operator : Operator
        Its `language_model` scores the options of a list. If that is None, the relevance model of the index scores their texts,
        or if it reads none, the cosines of their nodes with the question.
    question : Question
    prompt : Prompt
        With the fields `question`, `options`, those that options are about, and `fields`.
    lists : sequence of Options
    alone : float, optional
        The score of an only option, for which the language model is not asked.

    Raises
    ------
    LanguageModelError
        If the language model fails.
    """
    if operator.language_model is None:
        return (yield tuple(text_relevance(question, options.nodes, options.texts) for options in lists))  # type: ignore[no-any-return]
    scores = [np.full(len(options.names), alone, np.float64) for options in lists]
    places = [place for place, options in enumerate(lists) if alone is None or len(options.names) > 1]
    prompts = [
        prompt.filled(question=question.text, options=numbered(lists[place].names), **lists[place].about, **fields)
        for place in places
    ]
    answers = yield tuple(Completion(operator.language_model, text, prompt.schema) for text in prompts)
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, LanguageModelError):
            raise answer
        scores[place] = scores_by_number(answer["scores"], len(lists[place].names))
    return scores


def text_relevance(question: Question, nodes: np.ndarray, texts: Sequence[str], clue: str = "") -> Request:
    """Return the request for the relevance model's scores of texts of nodes, or for cosines of the nodes if it reads no texts.

    The model reads a `clue` after the question.
    """
    if not question.reads_texts:
        return Similarity(nodes)
    request = Relevance(nodes, texts=list(texts), notes=question.notes)
    return WithQuery(request, f"{question.text} {clue}") if clue else request


def scores_by_number(answer: Sequence[dict[str, Any]], count: int) -> np.ndarray:
    """Return the scores in [0, 1] that an answer gives to `count` options by their numbers, 0 for others; alike if none counts.

    >>> scores_by_number([{"number": 2, "score": 0.5}, {"number": 3, "score": 1}, {"number": 1, "score": 7}], 2)
    array([0. , 0.5])
    """
    scores = np.zeros(count)
    for item in answer:
        if 1 <= item["number"] <= count and 0 <= item["score"] <= 1:
            scores[item["number"] - 1] = item["score"]
    return scores if scores.any() else np.full(count, 1 / max(count, 1))


def best_options(
    operator: Any, question: Question, prompt: Prompt, lists: Sequence[Options], most: int, least: float = 0.0, **fields: Any
) -> Algorithm[list[list[tuple[int, float]]]]:
    """Return the places of at most `most` options of each list, best first by :func:`option_scores`, and their weights.

    The language model may choose fewer: those above 0, and of at least `least` if any is. Its scores are the weights. Those of a
    relevance model may be negative, and the weights are 1. If no model reads texts, all options are chosen, with the weight 1.
    """
    if operator.language_model is None and not question.reads_texts:
        return [[(place, 1.0) for place in range(len(options.names))] for options in lists]
    choices = []
    for scores in (yield from option_scores(operator, question, prompt, lists, **fields)):
        places = best(scores, most)
        if operator.language_model is not None:
            places = places[(scores[places] > 0) & (scores[places] >= min(least, scores.max(initial=0)))]
        weights = np.ones(len(scores)) if operator.language_model is None else scores
        choices.append(list(zip(places.tolist(), weights[places].tolist(), strict=True)))
    return choices


def picked(operator: Any, question: Question, prompt: Prompt, options: Sequence[str], instead: str) -> Algorithm[np.ndarray]:
    """Return the places of the options that a language model names by their numbers, ascending; all if it names none.

    It answers with ``{"numbers": [...]}``. If it fails, a note says what was done `instead`.
    """
    answer = yield from ask_model(operator, question, prompt, instead, options=numbered(options))
    numbers = {number for number in (answer["numbers"] if answer else ()) if 1 <= number <= len(options)}
    return np.array(sorted(numbers)) - 1 if numbers else np.arange(len(options))


def or_by_relevance(search: Search) -> Search:
    """Let the relevance model score, in a search from the start, where the language model of an operator fails; a note says so.

    If nothing scores, the candidates stay.
    """

    @wraps(search)
    def either(operator: Any, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        try:
            return (yield from search(operator, question, candidates))
        except LanguageModelError as error:
            scored = question.reads_texts or question.has_vectors
            instead = "the relevance model scored instead" if scored else "nothing else scores relations, and none was followed"
            note_failure(operator.name, question, error, instead)
            return (yield from search(replace(operator, language_model=None), question, candidates)) if scored else candidates

    return either
