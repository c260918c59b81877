"""KAR: knowledge-aware query expansion (Xia et al., NAACL 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, Nearest, Similarity, Texts
from graph_retrievers.systems.baselines import Vector
from graph_retrievers.systems.rewriting import Rewriting, RewritingSystem, SubQuestion, texts_schema
from graph_retrievers.systems.system import System

__all__ = ["KAR", "KnowledgeAwareExpansion"]

# Characters of a document in the prompt.
_LONGEST = 500

_ENTITIES = (
    "Name the entities that the question below mentions, at most {count}, as they are spelled there. If it mentions none, give "
    "none.\n\nQuestion: {question}"
)
_EXPANSIONS = (
    "Write {count} different passages that would answer the question below, each of a few sentences. Use what the documents and "
    "the relations between them say about its entities.\n\nDocuments:\n{documents}\n\nRelations:\n{relations}\n\n"
    "Question: {question}"
)


class KnowledgeAwareExpansion(Rewriting):
    """Run an operator for the question and passages that a language model writes from documents near its entities.

    1. The language model reads the entities of the question; the question itself counts as one.
    2. The document of an entity is the node nearest to its name.
    3. Of its neighbours, those most similar to the question are kept (document-based relation filtering).
    4. The language model writes passages from these documents and the relations between them.
    5. The operator searches for the question with the passages behind it, as one text.

    Parameters
    ----------
    operator : Operator
        The search.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    entities : int, default 5
        Most entities of a question, besides itself.
    neighbors : int, default 5
        Neighbours kept for each entity.
    expansions : int, default 3
        Passages to write.

    Notes
    -----
    Two calls of the language model a question. Without one, or if it fails or writes nothing, the operator runs on the question
    alone, and a note says so. The paper follows relations over h hops; here h is 1. It states the numbers of neighbours and of
    passages only for its own collections; those here are ours. Documents are cut after 500 characters in the prompt. Of equally
    similar neighbours the lower row is kept.

    References
    ----------
    Xia et al., "Knowledge-Aware Query Expansion with Large Language Models for Textual and Relational Retrieval", NAACL 2025,
    section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> texts = ["The Jacquard loom.", "It is driven by cards.", "Cards of paper."]
    >>> index = GraphIndex.from_texts(texts, edges=[("0", "1")], vectors=[[1, 0], [0, 1], [0, 1]])
    >>> model = lambda prompt: '{"entities": []}' if "Documents" not in prompt else '{"passages": ["Paper holds the pattern."]}'
    >>> search = KnowledgeAwareExpansion(BM25Search(1), model)
    >>> Retriever(index, search, backfill=False).retrieve("What controls it?", vector=[1, 0])[0].text
    'Cards of paper.'
    """

    def __init__(
        self, operator: Operator, language_model: Any = None, *, entities: int = 5, neighbors: int = 5, expansions: int = 3
    ) -> None:
        super().__init__(operator, language_model)
        self.entities, self.neighbors = positive("entities", entities), positive("neighbors", neighbors)
        self.expansions = positive("expansions", expansions)

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return what the operator finds for the expanded question."""
        text, told = None, len(question.notes)
        prompt = _ENTITIES.format(count=self.entities, question=question.text)
        names = yield from self._written(question, prompt, texts_schema("entities"), "entities", self.entities)
        if len(question.notes) == told:
            documents, relations = yield from self._knowledge(question, names)
            known = {"documents": "\n".join(documents), "relations": "\n".join(relations) or "none"}
            prompt = _EXPANSIONS.format(count=self.expansions, question=question.text, **known)
            passages = yield from self._written(question, prompt, texts_schema("passages"), "passages", self.expansions)
            text = " ".join([question.text, *passages]) if passages else None
        result, notes = yield SubQuestion(self.operators[0], found, question.k, text)
        question.notes[:0] = notes
        return result  # type: ignore[no-any-return]

    def _knowledge(self, question: Question, names: list[str]) -> Algorithm[tuple[list[str], list[str]]]:
        """Return the documents of the entities and of their neighbours that are kept, numbered, and the relations between them."""
        answers = yield tuple(Nearest(1, text=name) for name in (None, *names))
        entities = np.array(list(dict.fromkeys(int(node) for nodes, _ in answers for node in nodes)), np.int64)
        edges = yield Edges(entities)
        similar = yield Similarity(edges.far)
        documents, kept = entities.tolist(), list[int]()
        for place in range(len(entities)):
            own = np.flatnonzero((edges.owner == place) & (edges.far != entities[place]))
            nodes, first = np.unique(edges.far[own], return_index=True)
            nearest = nodes[best(similar[own[first]], self.neighbors, nodes)]
            documents += nearest.tolist()
            kept += own[np.isin(edges.far[own], nearest)].tolist()
        nodes = np.array(list(dict.fromkeys(documents)), np.int64)
        texts = yield Texts(nodes, titles=True)
        rows, first = np.unique(edges.row[kept], return_index=True)
        relations = question.relation_names(edges.relation[kept][first])
        ends = places_of(nodes, question.ends(rows).ravel()).reshape(-1, 2) + 1
        told = zip(ends.tolist(), relations, strict=True)
        return (
            [f"[{number}] {text[:_LONGEST]}" for number, text in enumerate(texts, 1)],
            [f"[{source}] {relation or 'is linked to'} [{target}]" for (source, target), relation in told],
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class KAR(RewritingSystem):
    """Search by the question and passages that a language model writes from the documents around its entities.

    Parameters
    ----------
    search : System, str or Operator, default Vector()
        The search: a system, its text such as ``"ppr(damping=0.7)"``, or an operator.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the result is that of the search, with a note.
    entities, neighbors, expansions : int, default 5, 5 and 3
        See :class:`~graph_retrievers.systems.kar.KnowledgeAwareExpansion`, which also states the departures.

    References
    ----------
    Xia et al., "Knowledge-Aware Query Expansion with Large Language Models for Textual and Relational Retrieval", NAACL 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, KAR()).operator.formula())
    KnowledgeAwareExpansion(O_vs)
    """

    name = "kar"

    search: System | str | Operator = Vector()
    entities: int = 5
    neighbors: int = 5
    expansions: int = 3

    def _rewriter(self, operator: Operator) -> Operator:
        numbers = {"entities": self.entities, "neighbors": self.neighbors, "expansions": self.expansions}
        return KnowledgeAwareExpansion(operator, self.language_model, **numbers)
