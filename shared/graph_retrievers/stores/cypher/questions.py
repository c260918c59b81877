"""Questions for the database: their vectors, the names in them, and notes on names that were not found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graph_retrievers.errors import InvalidVectorError, MissingSignalError, shown
from graph_retrievers.graph.names import name_words
from graph_retrievers.retrievers.protocol import Call
from graph_retrievers.signals.embedding import embed_queries
from graph_retrievers.signals.vectors import check_vectors
from graph_retrievers.systems.spreading.linking import missing_note, named_entities, names_text

# The query looks up each run of words of a question, whose number grows with these limits.
_LONGEST_NAME, _MOST_WORDS = 20, 200


@dataclass(frozen=True)
class CypherQuestion:
    """One question: its `text`, its `vector`, shape [d], and its entities.

    `entities` are distinct names, or None if they must be found in the text, and `entity_vectors`, shape [len(entities), d], their
    vectors. Vectors are None without an embedding model. `notes` say how entities were found.
    """

    text: str
    vector: Tensor | None
    entities: tuple[str, ...] | None
    entity_vectors: Tensor | None
    notes: tuple[str, ...] = ()


def read_questions(call: Call, *, embedding: Any, language_model: Any, needs_vectors: bool) -> list[CypherQuestion]:
    """Return the questions of a call; each model is called once for all of them.

    `embedding` and `language_model` compute vectors and entities that are not given; either may be None. Raises
    MissingSignalError if vectors are needed and cannot be computed, and the errors of
    :func:`~graph_retrievers.systems.spreading.linking.named_entities` and
    :func:`~graph_retrievers.signals.embedding.check_vectors`; a vector of zeros is an InvalidVectorError.
    """
    queries, vectors = call.queries, call.vectors
    entities = named_entities(call.inputs.get("entities", [None] * len(queries)), queries, language_model)
    rows = {
        name: row for row, name in enumerate(dict.fromkeys(name for entity_names, _ in entities for name in entity_names or ()))
    }
    names = list(rows)
    table = name_vectors = None
    if vectors is not None and (queries or not callable(vectors)):
        table = check_vectors(vectors(list(queries)) if callable(vectors) else vectors, len(queries), name="query vectors")
    elif embedding is not None:
        table = embed_queries(embedding, queries)
    elif needs_vectors and queries:
        raise MissingSignalError("The cosine gate needs the question's vector: pass embedding= or vector=, or gate='uniform'.")
    if names and embedding is not None:
        name_vectors = embed_queries(embedding, names)
    elif names and callable(vectors):
        name_vectors = check_vectors(vectors(names), len(names), name="entity vectors")
    for matrix, texts in ((table, queries), (name_vectors, names)):
        zero_rows = [] if matrix is None or not matrix.numel() else (~matrix.any(1)).nonzero().flatten().tolist()
        if zero_rows:
            text = shown(texts[zero_rows[0]], 60)
            raise InvalidVectorError(f"The vector of {text} is zero and has no cosine; embed another text.")
    return [
        CypherQuestion(
            text,
            None if table is None else table[place],
            None if entity_names is None else tuple(entity_names),
            None if name_vectors is None or not entity_names else name_vectors[[rows[name] for name in entity_names]],
            notes,
        )
        for place, (text, (entity_names, notes)) in enumerate(zip(queries, entities, strict=True))
    ]


def word_runs(text: str) -> list[dict[str, Any]]:
    """Return every run of words of a question that could be a name: key, start, stop, and whether it is in lower case.

    Names have at most 20 words, and are searched in the first 200 words.
    """
    words = name_words(text)[:_MOST_WORDS]
    keys = [word.casefold() for word in words]
    return [
        {"key": " ".join(keys[start:stop]), "start": start, "stop": stop, "lower": " ".join(words[start:stop]).islower()}
        for start in range(len(words))
        for stop in range(start + 1, min(start + _LONGEST_NAME, len(words)) + 1)
    ]


def question_notes(question: CypherQuestion, missing: Sequence[int], room: int) -> tuple[str, ...]:
    """Return the notes on how seeds were found, as in memory.

    `missing` are the numbers of the entities without a node of that name (of a question without entities, one number if no
    name was found), of which `room` were searched by vector.
    """
    if not missing:
        return question.notes
    if not question.entities:
        notes = () if question.vector is not None else ("no entity of the graph is named; there is no vector to search by",)
        return question.notes + notes
    names = [question.entities[number] for number in missing]
    if not room:
        return (*question.notes, f"no node is named {names_text(names)}; there is no embedding model to search by")
    return (*question.notes, missing_note(names, room))
