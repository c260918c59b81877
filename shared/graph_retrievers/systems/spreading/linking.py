"""Entity linking, O_vs: the nodes that a question names, or the nodes nearest to it.

Glybovets and Makarov, "Query-Aware Spreading Activation", section III-B and Algorithm 1, lines 3 to 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.core.candidates import Candidates, distinct
from graph_retrievers.core.driver import Algorithm, Parallel
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question, Questions
from graph_retrievers.core.requests import Mentions, NearestByCosine, Request, Similarity, Titled
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError, shown
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.signals.language import complete_many, failure_note, optional_language_model
from graph_retrievers.systems.asking import prompt_text, texts_schema
from graph_retrievers.systems.traits import names_identify

__all__ = ["EntityLinking"]

# A model may name thousands of entities: how many a note lists, and how many are searched.
_MOST_NAMES, _MOST_SEARCHED = 10, 100


def extract_entities(language_model: Any, questions: Sequence[str]) -> list[list[str] | LanguageModelError]:
    """Return the named entities of each question, as listed by a language model.

    A question for which the model fails, or gives no answer that matches the schema, gets the LanguageModelError.
    """
    prompts = [prompt_text("entities").format(question=question) for question in questions]
    answers = complete_many(language_model, prompts, texts_schema("entities"))
    return [
        answer if isinstance(answer, LanguageModelError) else [n for n in answer["entities"] if n.strip()] for answer in answers
    ]


def named_entities(
    inputs: Sequence[Any], questions: Sequence[str], language_model: Any = None
) -> list[tuple[list[str] | None, tuple[str, ...]]]:
    """Return the entities of each question, each once, and notes on how they were found.

    They are those given, or those that a language model extracts; None if there are neither, and if the model fails. Raises
    InvalidArgumentError for anything that is neither None nor a list of non-empty strings.
    """
    entities = list(inputs)
    for b, names in enumerate(entities):
        plain = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name.strip() for name in names)
        if names is not None and not plain:
            raise InvalidArgumentError(f"entities of query {b} are {shown(names)}; expected a list of non-empty strings, or None.")
    places = [b for b, names in enumerate(entities) if names is None and language_model is not None]
    if places:
        for b, answer in zip(places, extract_entities(language_model, [questions[b] for b in places]), strict=True):
            entities[b] = answer
    instead = "names of nodes were looked for in the question"
    return [
        (None, (failure_note(names, instead),))
        if isinstance(names, LanguageModelError)
        else (None if names is None else list(dict.fromkeys(names)), ())
        for names in entities
    ]


def names_text(names: Sequence[str]) -> str:
    """Return names as in notes: the first ten, each cut to 80 characters, and how many more there are.

    >>> names_text(["Ada", "Lyon"]), names_text(["Ada"] * 12)[-20:]
    ("'Ada', 'Lyon'", "'Ada', 'Ada', 2 more")
    """
    more = len(names) - _MOST_NAMES
    return ", ".join([*map(shown, names[:_MOST_NAMES]), *([f"{more} more"] if more > 0 else [])])


def missing_note(missing: Sequence[str], room: int) -> str:
    """Return the note on entities that no node is called, of which the first `room` are searched by vector."""
    note = f"no node is named {names_text(missing[:room])}: seeds from vector search"
    rest = names_text(missing[room:])
    return f"{note}; not searched, as the budget is used up: {rest}" if rest else note


@dataclass(frozen=True, eq=False)
class Entities(Request):
    """The entities of the question and notes on them, see :func:`named_entities`."""

    language_model: Any = None

    def key(self) -> Hashable:
        """Return the language model."""
        return Entities, id(self.language_model)

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Entities]]) -> list[tuple[list[str] | None, tuple[str, ...]]]:
        """Call the language model for all questions at once."""
        queries = backend.queries
        entries = named_entities(queries.input("entities"), queries.texts, requests[0][1].language_model)
        return [entries[place] for place, _ in requests]


@dataclass(frozen=True)
class Mentioned(Mentions):
    """The names of nodes in the question; none if names do not identify nodes and there are vectors to search by."""

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Mentioned]]) -> Sequence[list[tuple[str, list[int]]]]:
        """Look up names if they identify nodes."""
        index = backend.queries.index
        if index.has_dense and not names_identify(index):
            return [[] for _ in requests]
        return super().together(backend, requests)


class EntityLinking(Operator):
    """Seeds from the names in a question.

    The entities of a question are the input ``entities``; else what `language_model` extracts; else the names of nodes that are
    part of the question (longest match, one pass). Each entity is matched to all nodes of that name, with score 1. An entity
    without such a node is searched by the vector of its name: ``max(1, budget // number of entities)`` nodes, at most `budget` in
    total. If a question has no entities, its own vector finds `budget` nodes. The same holds, unless entities are given, if the
    titles of the index do not identify its nodes, such as headings of a manual (see
    :func:`~graph_retrievers.systems.traits.names_identify`).

    Parameters
    ----------
    language_model : object, optional
        Extracts entities (see :func:`graph_retrievers.signals.language.as_language_model`).
    case : {"fold", "exact"}, default "fold"
        Whether case is ignored when names are compared; of names that differ only in case, the one spelled as in the question is
        used. In both cases, words in lower case are names only in questions without a capitalised name (see
        :meth:`graph_retrievers.graph.names.NameTable.find`).
    budget : int >= 0, default 5
        Maximum number of nodes that vector search adds for one question; with 0, only names find nodes.
    fallback_score : {"cosine", "index"}, default "cosine"
        Score of a node found by vector search: the cosine of question and node, as in the paper; or (1 + cosine of entity and
        node) / 2, as in the vector index of the paper's database, which gives even unrelated nodes half the score of an exact
        match.
    exclude_types : sequence of str, default ()
        Node types that are not entities.
    each : int, optional
        Nodes that vector search adds for each entity without a node of its name, for the first 100; they replace the budget.

    Raises
    ------
    InvalidArgumentError
        For an unknown option, or entities that are not a list of strings.

    Notes
    -----
    If the language model fails, entities are looked for as without one, and a note says so. If it names no node, and there is no
    embedding model for the names, the vector of the question finds nodes. A node's name is its title, or its id if the title is
    empty. Nodes whose score is not positive are not seeds. A node matched by several entities keeps its best score. Seeds found by
    vector search have the operator name "VectorSearch". Entities beyond the budget, in the given order, are not searched, and a
    note says so.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> graph = CorpusGraph(["a", "b"], ["", ""], titles=["Ada Lovelace", "Charles Babbage"])
    >>> ranked(EntityLinking(), Queries.of(GraphIndex.from_graph(graph), ["Who taught Ada Lovelace?"]))[0].nodes.tolist()
    [0]
    """

    kind = OperatorKind.VECTOR_SEARCH
    reads = ("entities",)
    batched = True

    def __init__(
        self,
        *,
        language_model: Any = None,
        case: str = "fold",
        budget: int = 5,
        fallback_score: str = "cosine",
        exclude_types: Sequence[str] = (),
        each: int | None = None,
    ) -> None:
        self.language_model = optional_language_model(language_model)
        self.exclude_types = strings("exclude_types", exclude_types)
        self.case, self.budget = choice("case", case, ("fold", "exact")), positive("budget", budget, least=0)
        self.fallback_score = choice("fallback_score", fallback_score, ("cosine", "index"))
        self.each = None if each is None else positive("each", each)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the seeds with their matching scores; earlier results are not read."""
        fold, entities = self.case == "fold", None
        if self.language_model is not None or "entities" in question.queries.inputs:
            if isinstance(question, Questions):
                return (yield from self._one_by_one(question, candidates))
            entities, notes = yield Entities(self.language_model)
            question.notes += notes
        if entities is None:
            matches = yield Mentioned(fold)
        else:
            matches = list(zip(entities, (yield Titled(tuple(entities), fold)), strict=True))
        seeds = np.array(sorted({row for _, rows in matches for row in rows}), np.int64)
        seeds = seeds[question.started(seeds)]
        if self.exclude_types:
            seeds = seeds[~question.typed(seeds, self.exclude_types)]
        missing = list[str]() if entities is None else [name for name, rows in matches if not np.isin(rows, seeds).any()]
        counts = question.counts(seeds)
        searches = self._searches(question, counts, entities or (), missing)
        if not searches:
            return Candidates.seeds(seeds, np.ones(len(seeds), np.float32), self.name)
        near, cosines = map(np.concatenate, zip(*(yield searches), strict=True))
        if self.fallback_score == "index":
            cosines = (1 + cosines) / 2
        elif missing and question.embeds_texts:
            cosines = yield Similarity(near)
        # Of several questions as one, only those without seeds need what is near.
        places = np.flatnonzero((cosines > 0) & (bool(missing) | (counts[near // question.nodes] == 0)))
        nodes, scores = np.append(seeds, near[places]), np.append(np.ones(len(seeds)), cosines[places])
        # Every node once, with its best score; of equal ones that of its name, as named nodes come first.
        by = distinct(scores, nodes, question.owners(nodes))
        nodes, operators = nodes[by], (self.name, VectorSearch.name)
        return Candidates(nodes, scores[by].astype(np.float32), nodes[:, None], (by >= len(seeds)).astype(np.int64), operators)

    def _one_by_one(self, questions: Questions, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what is found for each of several questions, which are searched side by side."""
        parts = zip(questions.members, candidates.apart(questions.count, questions.nodes), strict=True)
        searches = [self.search(question.asking(questions.k), part) for question, part in parts]
        lists = yield Parallel(searches, [question.place for question in questions.members])
        return Candidates.of_each(lists, questions.nodes)

    def _searches(
        self, question: Question, counts: np.ndarray, entities: Sequence[str], missing: Sequence[str]
    ) -> tuple[NearestByCosine, ...]:
        """Return what is searched by vector: entities that no node is named after, or the question.

        `counts`, shape [question.count], has the number of seeds of each question.
        """
        if not self.budget or (not missing and (counts.all() or entities)):
            return ()
        if "dense" not in question.signals:
            note = f"no node is named {names_text(missing)}" if missing else "no entity of the graph is named"
            for n in [0] if missing else np.flatnonzero(counts == 0).tolist():
                question.note(f"{note}; there are no vectors to search by", n)
            return ()
        if not entities:
            # An ordinary case, in which the seeds carry the name of the search: no note.
            return (NearestByCosine(self.budget, exclude_types=self.exclude_types),)
        if not question.embeds_texts and question.input("entities") is None:
            # A note and not an error, since a language model wrote the names.
            question.notes.append(f"no node is named {names_text(missing)}; there is no embedding model to search by")
            return () if counts.all() else (NearestByCosine(self.budget, exclude_types=self.exclude_types),)
        room = self.budget if self.each is None else _MOST_SEARCHED
        question.notes.append(missing_note(missing, room))
        share = self.each or max(1, self.budget // len(entities))
        return tuple(NearestByCosine(share, name, self.exclude_types) for name in missing[:room])
