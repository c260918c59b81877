"""Questions on their way to the database: their vectors, the names in them, and what became of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graph_retrievers.errors import InvalidVectorError, MissingSignalError
from graph_retrievers.graph.names import name_words
from graph_retrievers.operators.spreading.linking import missing_note, named_entities
from graph_retrievers.retrievers.protocol import Call
from graph_retrievers.signals.embedding import check_vectors, embed_queries

__all__ = ["Question", "question_notes", "read_questions", "word_runs"]

# Names of more words are not looked for in a question: the number of its runs of words grows with this.
_LONGEST_NAME = 20


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes
    ----------
    text : str
    vector : Tensor, shape [d], or None
        None where neither it nor a model is known.
    entities : tuple of str or None
        Names it is about, each once; None where they are to be found in the text.
    names : Tensor, shape [len(entities), d], or None
        Vectors of the entities; None where there is no model.
    """

    text: str
    vector: Tensor | None
    entities: tuple[str, ...] | None
    names: Tensor | None


def read_questions(call: Call, *, embedding: Any, language_model: Any, needs_vectors: bool) -> list[Question]:
    """Return the questions of a call with all that models say about them, asked for in one go.

    Parameters
    ----------
    call : Call
    embedding, language_model : object, optional
        What embeds, and extracts entities, where they are not given.
    needs_vectors : bool
        Whether nothing can be done without the questions' vectors.

    Raises
    ------
    InvalidArgumentError
        If entities are not lists of names.
    MissingSignalError
        If vectors are needed and there is nothing to make them.
    DimensionMismatchError, InvalidVectorError
        If vectors are not [B, d], or one is zero or not finite.
    """
    queries, vectors = call.queries, call.vectors
    named = named_entities(call.inputs.get("entities", [None] * len(queries)), queries, language_model)
    table = None
    if vectors is not None and not (callable(vectors) and not queries):
        given = vectors(list(queries)) if callable(vectors) else vectors
        table = check_vectors(given, len(queries), name="query vectors")
    elif embedding is not None:
        table = embed_queries(embedding, queries)
    elif needs_vectors and queries:
        raise MissingSignalError("The cosine gate needs the question's vector: pass embedding= or vector=, or gate='uniform'.")
    if table is not None:
        table = _nonzero(table, queries)
    names = list(dict.fromkeys(name for each in named if each for name in each))
    rows = {name: row for row, name in enumerate(names)}
    found = None
    if names and embedding is not None:
        found = _nonzero(embed_queries(embedding, names), names)
    elif names and callable(vectors):
        found = _nonzero(check_vectors(vectors(names), len(names), name="entity vectors"), names)
    return [
        Question(
            text,
            None if table is None else table[position],
            None if each is None else tuple(each),
            None if found is None or not each else found[[rows[name] for name in each]],
        )
        for position, (text, each) in enumerate(zip(queries, named, strict=True))
    ]


def word_runs(text: str) -> list[dict[str, Any]]:
    """Return every run of words of a question that could be a name: key, start, stop, and whether it is in lower case."""
    words, folded = name_words(text), name_words(text, fold=True)
    return [
        {"key": " ".join(folded[start:stop]), "start": start, "stop": stop, "lower": " ".join(words[start:stop]).islower()}
        for start in range(len(words))
        for stop in range(start + 1, min(start + _LONGEST_NAME, len(words)) + 1)
    ]


def question_notes(question: Question, missing: Sequence[int], room: int) -> tuple[str, ...]:
    """Return how the seeds were found, in the words of the engine.

    Parameters
    ----------
    question : Question
    missing : sequence of int
        Numbers of the entities that no node is named by; of a question without entities, one if no name was found.
    room : int
        How many of them were searched by vector.
    """
    if not missing:
        return ()
    if not question.entities:
        return ("no entity of the graph is named: seeds from vector search of the question",)
    if not room:
        names = ", ".join(repr(question.entities[number]) for number in missing)
        return (f"no node is named {names}; there is no embedding model to search by",)
    return (missing_note([question.entities[number] for number in missing], room),)


def _nonzero(table: Tensor, texts: Sequence[str]) -> Tensor:
    zero = (~table.any(1)).nonzero().flatten().tolist() if table.numel() else []
    if zero:
        raise InvalidVectorError(
            f"The vector of {texts[zero[0]]!r:.60} is zero, so that nothing can be compared to it; embed another text."
        )
    return table
