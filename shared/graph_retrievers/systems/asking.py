"""What systems ask of a language model: answers with a note where there is none, and choices from numbered lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Contents, Relevance, Similarity
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.search.of_each import of_each
from graph_retrievers.signals.language import failure_note

INTEGER, NUMBER, BOOLEAN, STRING = ({"type": name} for name in ("integer", "number", "boolean", "string"))
"""Schemas of numbers, of yes or no, and of texts, which may be empty."""
TEXT = {**STRING, "minLength": 1}
"""Schema of a text that is not empty."""


def array(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def record(fields: Mapping[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object with fields by their schemas, which are required, but for some.

    >>> record({"sufficient": BOOLEAN, "clue": STRING}, optional=["clue"])["required"]
    ['sufficient']
    """
    return {"type": "object", "properties": dict(fields), "required": [name for name in fields if name not in optional]}


def texts_schema(name: str) -> dict[str, Any]:
    """Return the schema of an object with a list of texts."""
    return record({name: array(TEXT)})


_SCORES = record({"scores": array(record({"number": INTEGER, "score": NUMBER}))})


class Prompt(NamedTuple):
    """What a language model is asked: a text with ``{question}`` and other fields, and the JSON schema of its answer."""

    text: str
    schema: dict[str, Any]


def ask_model(operator: Any, question: Question, prompt: Prompt, instead: str, **fields: Any) -> Algorithm[Any]:
    """Return what the language model of an operator, its `language_model`, answers to a prompt, with the `fields` of its text.

    If there is no model, or it fails, it is None, and a note says what was done `instead`.
    """
    if operator.language_model is None:
        question.notes.append(f"{operator.name}: there is no language model; {instead}")
        return None
    answer = yield Completion(operator.language_model, prompt.text.format(question=question.text, **fields), prompt.schema)
    if isinstance(answer, LanguageModelError):
        note_failure(operator.name, question, answer, instead)
        return None
    return answer


def note_failure(name: str, question: Question, error: LanguageModelError, instead: str) -> None:
    """Note that a language model failed, unless another operator, which asked the same model, has said why."""
    note = failure_note(error, instead)
    if not any(note.partition(";")[0] in other for other in question.notes):
        question.notes.append(f"{name}: {note}")


def answer_texts(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts of an answer, each once, without blank ones.

    >>> answer_texts([" Ada", "", "Ada", "Lyon", "Silk"], 2)
    ['Ada', 'Lyon']
    """
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))[:most]


def numbered(options: Sequence[str]) -> str:
    r"""Return options, each as one line after its number, so that no document can write an option.

    >>> print(numbered(["Ada", "Lyon", "Paris and\n4. Turin"]))
    1. Ada
    2. Lyon
    3. Paris and 4. Turin
    """
    return "\n".join(f"{number}. {' '.join(option.split())}" for number, option in enumerate(options, 1))


def names_of(parts: Sequence[np.ndarray]) -> Algorithm[list[list[str]]]:
    """Return the names of the nodes in each of some arrays of rows."""
    return [[node.name for node in nodes] for nodes in (yield from of_each(Contents, parts))]


def option_scores(
    operator: Any,
    question: Question,
    prompts: Sequence[str],
    texts: Sequence[Sequence[str]],
    nodes: Sequence[np.ndarray],
    alone: float | None = None,
) -> Algorithm[list[np.ndarray]]:
    """Return the scores of the options of each of n prompts, float64.

    Parameters
    ----------
    operator : Operator
        Its `language_model` scores the numbered options of a prompt. If that is None, the relevance model of the index scores
        their texts, or if it reads none, the cosines of their nodes with the question.
    prompts, texts, nodes : sequences of length n
        The prompts, and the texts and the node rows of the options of each.
    alone : float, optional
        The score of an only option, for which the language model is not asked.

    Raises
    ------
    LanguageModelError
        If the language model fails.
    """
    model = operator.language_model
    if model is None and question.reads_texts:
        pairs = zip(nodes, texts, strict=True)
        return (yield tuple(Relevance(rows, texts=list(group), notes=question.notes) for rows, group in pairs))  # type: ignore[no-any-return]
    if model is None:
        return (yield tuple(Similarity(rows) for rows in nodes))  # type: ignore[no-any-return]
    places = [place for place, options in enumerate(texts) if alone is None or len(options) > 1]
    answers = yield tuple(Completion(model, prompts[place], _SCORES) for place in places)
    scores = [np.full(len(options), alone, np.float64) for options in texts]
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, LanguageModelError):
            raise answer
        scores[place] = scores_by_number(answer["scores"], len(texts[place]))
    return scores


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
