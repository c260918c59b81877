"""HybGRAG: a language model chooses texts or the graph, judges what is found, and may try again (Lee et al., ACL 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graph_retrievers.core.candidates import Candidates, best, places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Similarity, Texts, Titled
from graph_retrievers.systems.asking import BOOLEAN, STRING, Prompt, array, ask_model, listed, prompt_text, record
from graph_retrievers.systems.relations import followed
from graph_retrievers.systems.system import Count, System

__all__ = ["HybGRAG"]

# Characters of a text and names of relations in a prompt, steps from an entity, and entities that are read.
_LONGEST, _MOST_RELATIONS, _RADIUS, _MOST_ENTITIES = 500, 100, 2, 10

# The errors that the commenter may name, each with its feedback to the router.
_FEEDBACK = dict(line.split(": ", 1) for line in prompt_text("hybgrag-feedback").splitlines())
_ENTITIES = array(record({"name": STRING, "relations": array(STRING)}))
_ROUTE = Prompt("hybgrag-route", record({"entities": _ENTITIES, "search": {"enum": ["text", "graph"]}}, optional=["entities"]))
_VALIDATE = Prompt("hybgrag-validate", record({"correct": BOOLEAN}))
_COMMENT = Prompt("hybgrag-comment", record({"error": {"enum": list(_FEEDBACK)}, "name": STRING}, optional=["name"]))

# What is done where the language model fails, without a result and after one.
_INSTEAD = "texts were searched", "the last result stays"


@dataclass(frozen=True, kw_only=True, repr=False)
class HybGRAG(System):
    """Search by texts, or along relations of the question's entities, as a language model chooses; it judges and tries again.

    In each of at most `iterations` rounds

    1. the router, a language model, extracts entities and the relations to follow from each, and chooses the text retriever or the
       hybrid retriever;
    2. the text retriever finds the nodes most similar to the question; the hybrid retriever those to which the relations lead from
       all entities (the intersection of their ego graphs), the most similar first;
    3. the validator, the language model again, says whether the first texts meet the question; it also reads the ways to them from
       the entities;
    4. if they do not, the commenter, the language model once more, names one of six errors, and the router reads the feedback on
       it in the next round.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, texts are searched, with a note.
    iterations : int, default 4
        Most rounds. The result of the last one is not validated, since no other would follow.
    judged : int, default 5
        Texts that the validator reads, the first 500 characters of each.

    Notes
    -----
    The router chooses among the relations of the index by name; it is shown the first 100 of them.

    If nothing is reached from all entities, the result is rejected without the validator; in the last round, the text retriever
    searches instead, and a note says so. Without an entity the text retriever searches. Without a language model, or if the router
    fails at first, the text retriever searches; if the router fails later, or the validator or the commenter fails, the last result
    stays, or the text retriever searches if it is empty; notes say so.

    An entity is the node of that name, ignoring case, or else, with an embedding model, the node most similar to it; of several of
    a name, the paper takes the one beside the answer, and here all count. At most two relations are followed from an entity, in
    both directions, the radius of the paper; without any, its neighbours are its ego graph. The first ten entities are read.

    Departures: the paper asks the router twice in a round, first for entities and relations and then for the retriever; here one
    answer has them in this order. Its prompts also state the types of entities, and have up to thirty examples of the collection;
    here they have instructions. We did not find the paper's code, and in the paper no number of texts for the validator: five is a
    choice of this package.

    References
    ----------
    Lee et al., "HybGRAG: Hybrid Retrieval-Augmented Generation on Textual and Relational Knowledge Bases", ACL 2025, section 3,
    Algorithm 1, Table 4 (errors and feedback) and appendix C.1.1 (four rounds, radius of two).

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada"), Node("notes", "On the engine.", "Notes"), Node("song", "A song.", "Song")]
    >>> index = GraphIndex.from_nodes(nodes, [("ada", "notes", "wrote")], vectors=[[0, 1], [0.6, 0.8], [1, 0]])
    >>> def model(prompt):
    ...     if "Ada -> wrote -> this text" in prompt:
    ...         return '{"correct": true}'
    ...     return '{"search": "graph", "entities": [{"name": "Ada", "relations": ["wrote"]}]}'
    >>> search = Retriever(index, HybGRAG(language_model=model), backfill=False)
    >>> [hit.path.text for hit in search.retrieve("What did Ada write?", vector=[1, 0])]
    ['Ada -[wrote]-> Notes']
    """

    name = "hybgrag"
    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    needs_language_model = True

    language_model: Any = None
    iterations: Count = 4
    judged: Count = 5

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what the last choice found."""
        relations = ", ".join(sorted(filter(None, question.corpus.facts.relation_names))[:_MOST_RELATIONS]) or "none"
        attempts, result = list[str](), Candidates.none()
        for remaining in reversed(range(self.iterations)):
            # Router.
            before = "\n\n" + prompt_text("hybgrag-again").format(attempts="\n".join(attempts)) if attempts else ""
            answer = yield from ask_model(self, question, _ROUTE, _INSTEAD[len(result) > 0], relations=relations, feedback=before)
            if answer is None:
                break
            extracted = answer.get("entities", []) if answer["search"] == "graph" else []
            # Prompts and notes name no others.
            entities = [(entity["name"], entity["relations"][:_RADIUS]) for entity in extracted[:_MOST_ENTITIES]]
            route = "; ".join(f"{name}: {', '.join(names) or 'any relation'}" for name, names in entities) or "text"
            # Retrievers.
            egos = yield from self._egos(question, entities)
            result = yield from self._retrieved(question, egos)
            if not remaining and not len(result) and egos:
                question.notes.append(f"{self.name}: nothing is reached by {route:.200}; texts were searched")
            # Validator.
            if not remaining or (len(result) and (yield from self._valid(question, egos, result.top(self.judged)))):
                break
            # Commenter.
            counts = "; ".join([*(f"{len(ego)} from {name}" for name, ego in egos), f"{len(result)} in all"])
            comment = yield from ask_model(self, question, _COMMENT, _INSTEAD[len(result) > 0], route=route, found=counts)
            if comment is None:
                break
            wrong = comment.get("name") or "An entity or relation"
            attempts.append(f"- {route}: {_FEEDBACK[comment['error']].format(name=wrong)}")
        return result if len(result) else (yield from self._retrieved(question, []))

    def _egos(self, question: Question, entities: Sequence[tuple[str, list[str]]]) -> Algorithm[list[tuple[str, Candidates]]]:
        """Return the nodes to which the relations of each entity lead, with the name of the entity."""
        matches, egos = (yield Titled(tuple(name for name, _ in entities))), []
        for (name, relations), rows in zip(entities, matches, strict=True):
            nodes = np.array(rows, np.int64)
            nodes = nodes[question.started(nodes)]
            if not len(nodes) and question.corpus.embedding is not None:
                nodes, _ = yield Nearest(1, text=name)
            egos.append((name, (yield from followed(question, nodes, relations, self.name))))
        return egos

    def _retrieved(self, question: Question, egos: Sequence[tuple[str, Candidates]]) -> Algorithm[Candidates]:
        """Return what is reached from all entities, the most similar to the question first; of all nodes if there are none."""
        if not egos:
            nodes, scores = yield Nearest(question.k, returned=True)
            return Candidates.seeds(nodes, scores, self.name)
        first, *rest = [ego for _, ego in egos]
        inside = np.logical_and.reduce([question.returned(first.nodes), *(np.isin(first.nodes, ego.nodes) for ego in rest)])
        common = first.taken(np.flatnonzero(inside))
        scores = yield Similarity(common.nodes)
        by = best(scores, question.k, common.nodes)
        return replace(common.taken(by), scores=scores[by])

    def _valid(self, question: Question, egos: Sequence[tuple[str, Candidates]], top: Candidates) -> Algorithm[bool]:
        """Return whether the validator accepts the best of a result; where it fails, it does so with a note."""
        lines = [text[:_LONGEST] for text in (yield Texts(top.nodes, titles=True))]
        for name, ego in egos:
            for place, at in enumerate(places_of(ego.nodes, top.nodes).tolist()):
                steps = ego.steps()[at]
                lines[place] += f"\n  {' -> '.join((name, *question.relation_names(steps[steps >= 0]), 'this text'))}"
        verdict = yield from ask_model(self, question, _VALIDATE, "the result was not validated", texts=listed(lines))
        return verdict is None or bool(verdict["correct"])
