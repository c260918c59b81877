"""HybGRAG: a language model chooses texts or the graph, judges what is found, and may try again (Lee et al., ACL 2025)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive, strings
from graph_retrievers.core.candidates import Candidates, best, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Edges, Nearest, Similarity, Texts, Titled
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.index import Corpus
from graph_retrievers.signals.language import as_language_model, failure_note
from graph_retrievers.systems.system import System

__all__ = ["HybGRAG", "RoutedSearch"]

# Characters of a text, and names of relations, in a prompt.
_LONGEST, _MOST_RELATIONS = 500, 100

_ROUTE = (
    "A knowledge base has texts that are linked by relations. Choose how to search it for the question below.\n"
    'Choose "graph" if the question names entities whose relations lead to the answer: give these entities as they are spelled, '
    'and for each the relations to follow, one after the other, from the list. Otherwise choose "text".\n\nRelations: {relations}'
    "\n\nQuestion: {question}{feedback}"
)
_FEEDBACK = "\n\nYou chose before, in order, and were told what was wrong:\n{attempts}\nChoose better."
_JUDGE = (
    "Do the texts below answer the question, and meet all that it asks for? If not, say in a sentence what was wrong with the "
    "entities or the relations that were followed.\n\nSearched by: {route}\n\nTexts:\n{texts}\n\nQuestion: {question}"
)
_ROUTES = {
    "type": "object",
    "properties": {
        "search": {"enum": ["text", "graph"]},
        "entities": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "relations": {"type": "array", "items": {"type": "string"}}},
                "required": ["name", "relations"],
            },
        },
    },
    "required": ["search"],
}
_VERDICT = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}, "feedback": {"type": "string"}},
    "required": ["correct"],
}


class RoutedSearch(Operator):
    """Search by texts, or along relations of the question's entities, as a language model chooses; it judges and tries again.

    In each of at most `iterations` rounds

    1. the router, a language model, chooses the text retriever or the graph retriever; for the latter it names entities and the
       relations to follow from each;
    2. the text retriever finds the nodes most similar to the question; the graph retriever those to which the relations lead, from
       all entities if there are any such (the intersection of their ego graphs), from any of them otherwise, the most similar
       first;
    3. the critic, the language model again, says whether the first texts answer the question, and otherwise what was wrong, which
       the router reads in the next round.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    relations : sequence of str, default ()
        Names of relations that the router may choose; the first 100 are shown.
    iterations : int, default 3
        Most rounds.
    judged : int, default 5
        Texts that the critic reads, the first 500 characters of each.

    Notes
    -----
    An entity is the node of that name, or the node most similar to it. Relations are followed in both directions; without any, the
    neighbours of the entity are its ego graph. If the graph retriever finds nothing, the text retriever searches, and the router
    is told. The result is that of the last round. Without a language model, or if the router fails at first, the text retriever
    searches, and a note says so; if the critic fails, what was found stays.

    In the paper, the critic's two parts (validator and commenter) are two prompts with examples of the collection, and the
    commenter chooses among six kinds of feedback; here they are one prompt with instructions. We did not find the paper's code;
    its number of rounds is that of its ablation.

    References
    ----------
    Lee et al., "HybGRAG: Hybrid Retrieval-Augmented Generation on Textual and Relational Knowledge Bases", ACL 2025, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada"), Node("notes", "On the engine.", "Notes"), Node("song", "A song.", "Song")]
    >>> index = GraphIndex.from_nodes(nodes, [("ada", "notes", "wrote")], vectors=[[0, 1], [0.6, 0.8], [1, 0]])
    >>> def model(prompt):
    ...     if "Searched by" in prompt:
    ...         return '{"correct": true}'
    ...     return '{"search": "graph", "entities": [{"name": "Ada", "relations": ["wrote"]}]}'
    >>> search = Retriever(index, RoutedSearch(model, relations=["wrote"]), backfill=False)
    >>> [hit.path.text for hit in search.retrieve("What did Ada write?", vector=[1, 0])]
    ['Ada -[wrote]-> Notes']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, language_model: Any = None, *, relations: Sequence[str] = (), iterations: int = 3, judged: int = 5) -> None:
        self.language_model = None if language_model is None else as_language_model(language_model)
        self.relations = strings("relations", relations)
        self.iterations, self.judged = positive("iterations", iterations), positive("judged", judged)

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return a language model if there is none."""
        return ("a language model (pass language_model=)",) if self.language_model is None else ()

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return what the last choice found."""
        if self.language_model is None:
            question.notes.append(f"{self.name}: there is no language model; texts were searched")
            return (yield from self._texts(question))
        attempts, result = list[str](), Candidates.none()
        for round_ in range(self.iterations):
            told = _FEEDBACK.format(attempts="\n".join(attempts)) if attempts else ""
            shown = ", ".join(self.relations[:_MOST_RELATIONS]) or "none"
            prompt = _ROUTE.format(relations=shown, question=question.text, feedback=told)
            route = yield Completion(self.language_model, prompt, _ROUTES)
            if isinstance(route, LanguageModelError):
                what = "it ended there" if round_ else "texts were searched"
                question.notes.append(f"{self.name}: {failure_note(route, what)}")
                return result if round_ else (yield from self._texts(question))
            entities = route.get("entities") or [] if route["search"] == "graph" else []
            asked = "; ".join(f"{each['name']}: {', '.join(each['relations']) or 'any relation'}" for each in entities) or "text"
            result = (yield from self._graph(question, entities)) if entities else Candidates.none()
            empty = bool(entities) and not len(result)
            if not len(result):
                result = yield from self._texts(question)
            if round_ == self.iterations - 1:
                break
            verdict = yield from self._verdict(question, asked, result)
            if verdict is None:
                break
            attempts.append(f"- {asked}: {'nothing was found so. ' if empty else ''}{verdict}")
        return result

    def _texts(self, question: Question) -> Algorithm[Candidates]:
        """Return the nodes most similar to the question."""
        nodes, scores = yield Nearest(question.k, returned=True)
        return Candidates.seeds(nodes, scores, self.name)

    def _graph(self, question: Question, entities: Sequence[dict[str, Any]]) -> Algorithm[Candidates]:
        """Return the nodes to which the relations of the entities lead, the most similar to the question first."""
        named = yield Titled(tuple(each["name"] for each in entities))
        parts = list[Candidates]()
        for each, rows in zip(entities, named, strict=True):
            nodes = np.array(rows, np.int64)
            nodes = nodes[question.started(nodes)]
            if not len(nodes):
                nodes, _ = yield Nearest(1, text=each["name"])
            part = Candidates.seeds(nodes, np.zeros(len(nodes)), self.name)
            for relation in each["relations"] or [None]:
                part = yield from self._followed(question, part, relation)
            parts.append(part)
        common = set.intersection(*(set(part.nodes.tolist()) for part in parts))
        joined = parts[0]
        for part in parts[1:]:
            joined = joined.joined(part)
        if common:
            joined = joined.taken(np.flatnonzero(np.isin(joined.nodes, list(common))))
        joined = joined.taken(np.flatnonzero(question.returned(joined.nodes)))
        scores = yield Similarity(joined.nodes)
        by = best(scores, question.k, joined.nodes)
        return replace(joined.taken(by), scores=scores[by])

    def _followed(self, question: Question, part: Candidates, relation: str | None) -> Algorithm[Candidates]:
        """Return the nodes to which a relation leads, each once; None for any relation."""
        edges = yield Edges(part.nodes)
        wanted = edges.far != part.nodes[edges.owner]
        if relation is not None:
            wanted &= np.array([name.casefold() == relation.casefold() for name in question.relation_names(edges.relation)], bool)
        kept = np.flatnonzero(wanted)
        _, first = np.unique(edges.far[kept], return_index=True)
        kept = kept[np.sort(first)]
        return reached(part, edges.owner[kept], edges.far[kept], np.zeros(len(kept)), self.name, edges.relation[kept])

    def _verdict(self, question: Question, route: str, found: Candidates) -> Algorithm[str | None]:
        """Return what the critic says was wrong; None if nothing was, or if it fails."""
        texts = yield Texts(found.nodes[: self.judged], titles=True)
        listed = "\n".join(f"- {text[:_LONGEST]}" for text in texts)
        answer = yield Completion(self.language_model, _JUDGE.format(route=route, texts=listed, question=question.text), _VERDICT)
        if isinstance(answer, LanguageModelError) or answer["correct"]:
            return None
        return answer.get("feedback") or "the texts do not answer the question"


@dataclass(frozen=True, kw_only=True, repr=False)
class HybGRAG(System):
    """Texts or relations, as a language model chooses, judges and chooses again.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, texts are searched, with a note.
    iterations, judged : int, default 3 and 5
        See :class:`~graph_retrievers.systems.hybgrag.RoutedSearch`, which also states the departures.

    References
    ----------
    Lee et al., "HybGRAG: Hybrid Retrieval-Augmented Generation on Textual and Relational Knowledge Bases", ACL 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, HybGRAG()).operator.formula())
    O_vgs
    """

    name = "hybgrag"

    language_model: Any = None
    iterations: int = 3
    judged: int = 5

    def compose(self, index: Corpus) -> Operator:
        """Return the search with the relations of the corpus."""
        relations = sorted(name for name in index.facts.relation_names if name)
        return RoutedSearch(self.language_model, relations=relations, iterations=self.iterations, judged=self.judged)
