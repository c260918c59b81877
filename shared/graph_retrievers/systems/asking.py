"""What systems ask of a language model, and answers, with a note where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Contents
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


@cache
def prompt_text(name: str) -> str:
    r"""Return a text of the folder ``prompts``, which has the prompts of all systems, one a file.

    >>> prompt_text("hyde-passages")
    'Please write a passage to answer the question. Write {count} different passages.\n\nQuestion: {question}'
    """
    return files(__package__).joinpath("prompts", f"{name}.txt").read_text("utf-8").removesuffix("\n")


class Prompt(NamedTuple):
    """What a language model is asked: a text of the folder ``prompts`` by its name, and the JSON schema of the answer."""

    name: str
    schema: dict[str, Any]

    def filled(self, **fields: Any) -> str:
        """Return the text with its fields, such as ``{question}``."""
        return prompt_text(self.name).format(**fields)


def ask_model(operator: Any, question: Question, prompt: Prompt, instead: str, **fields: Any) -> Algorithm[Any]:
    """Return what the language model of an operator, its `language_model`, answers to a prompt, with the `fields` of its text.

    If there is no model, or it fails, it is None, and a note says what was done `instead`.
    """
    if operator.language_model is None:
        question.notes.append(f"{operator.name}: there is no language model; {instead}")
        return None
    answer = yield Completion(operator.language_model, prompt.filled(question=question.text, **fields), prompt.schema)
    if isinstance(answer, LanguageModelError):
        note_failure(operator.name, question, answer, instead)
        return None
    return answer


def missing_clue(operator: Any, question: Question, prompt: Prompt, texts: Sequence[str], clue: str = "") -> Algorithm[str | None]:
    """Return a clue to what is still to be found beside texts; None if the language model of an operator says that they suffice.

    It answers with ``{"sufficient": ..., "clue": ...}``. The clue so far stays if it says nothing new, if there is none, and if it
    fails, with a note.
    """
    if operator.language_model is None:
        return clue
    answer = yield from ask_model(operator, question, prompt, "the search went on", texts=listed(texts), clue=clue or "none")
    if answer is None:
        return clue
    return None if answer["sufficient"] else answer.get("clue", "").strip() or clue


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


def listed(texts: Sequence[str]) -> str:
    r"""Return texts as a list.

    >>> print(listed(["Ada wrote it.", "Lyon"]))
    - Ada wrote it.
    - Lyon
    """
    return "\n".join(f"- {text}" for text in texts)


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
