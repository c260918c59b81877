"""KAR (Xia et al., NAACL 2025): a question expanded by a language model that reads documents and how they are related."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Similarity, Texts
from graph_retrievers.search.around import nodes_around
from graph_retrievers.search.most_similar import most_similar
from graph_retrievers.search.steps import ways_as_text
from graph_retrievers.systems.asking import Prompt, texts_schema
from graph_retrievers.systems.baselines import Vector
from graph_retrievers.systems.rewriting import Rewriting, RewritingSystem
from graph_retrievers.systems.system import System

__all__ = ["KAR", "KnowledgeAwareExpansion"]

# Characters of a document in a prompt.
_LONGEST = 2000
_ENTITIES = Prompt("kar-entities", texts_schema("entities"))
_EXPANSION = Prompt("kar-expansion", texts_schema("passages"))
_NO_EMBEDDING = "there is no embedding model to read an expansion (pass embedding= to the index); the question itself was searched"


class KnowledgeAwareExpansion(Rewriting):
    r"""Run an operator for the question and passages that a language model writes from related documents.

    The entities of the question, :math:`E_q`, are what a language model finds in it, and the question itself. Each is linked to
    the node i of the largest cosine. Of the nodes within h edges of i, the k most similar to the question are kept, and with the
    relations r on the way they give document triples, from which the model writes the expansion :math:`Q_e`:

    .. math::
        T_q = \bigcup_{i \in E_q} \{(d_i, r_{i,j}, d_j) : j \in \mathrm{TopK}_{j \in N_i} \cos(q, d_j)\}, \qquad
        Q_e = \mathrm{LLM}(q, T_q), \qquad
        q' = [q; Q_e]

    The operator searches for q'.

    Parameters
    ----------
    operator : Operator
        The search, such as ``VectorSearch()`` or the operator of any retriever. It reads the expanded question as if it were the
        question.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    entities : int, default 5
        Most entities of a question, besides itself.
    hops : int, default 2
        The h: edges from an entity to its farthest neighbours, in either direction.
    neighbors : int, default 10
        The k: neighbours kept of each entity.
    expansions : int, default 3
        Passages that the model writes. The paper samples as many answers; here one answer contains all.

    Notes
    -----
    Without a language model, or if it fails or writes nothing, the texts of the entities' nodes and of the kept neighbours are the
    expansion, and a note says so; without entities from the model, the only entity is the question. Without an embedding model, or
    without vectors, the operator runs on the question, and a note says so.

    Where the paper is silent: for a neighbour several edges away, the relation is the way to it, a shortest one by the lowest
    nodes and edges; equal similarities go to the lower row; an entity without neighbours gives its document alone; nodes that are
    linked twice count once. Departures: the prompts are other ones and do not state the fields of the documents; they show the
    first 2,000 characters of each. A document is followed by the relations that lead to others, so that it is not repeated for
    each triple. The number of entities is limited.

    References
    ----------
    Xia, Wu, Kim, Yu, Rossi, Wang and McAuley, "Knowledge-Aware Query Expansion with Large Language Models for Textual and
    Relational Retrieval", NAACL 2025, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> embed = lambda texts: [[float("loom" in text), float("card" in text), 0.1] for text in texts]
    >>> index = GraphIndex.from_texts(["A loom.", "Weaves by itself.", "Driven by cards."], edges=[("0", "2")], embedding=embed)
    >>> def model(prompt):
    ...     written = '{"passages": ["It reads cards, cards and cards."]}'
    ...     return written if "Driven by cards." in prompt else '{"entities": ["A loom"]}'
    >>> search = KnowledgeAwareExpansion(VectorSearch(2), model)
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("What controls a loom?")]
    ['A loom.', 'Driven by cards.']
    """

    # Neighbours expand the question, whether or not the operator follows edges.
    walks = True  # type: ignore[assignment]
    instead = "the texts of neighbours expanded the question"

    def __init__(
        self,
        operator: Operator,
        language_model: Any = None,
        *,
        entities: int = 5,
        hops: int = 2,
        neighbors: int = 10,
        expansions: int = 3,
    ) -> None:
        super().__init__(operator, language_model)
        self.entities, self.hops = positive("entities", entities), positive("hops", hops)
        self.neighbors, self.expansions = positive("neighbors", neighbors), positive("expansions", expansions)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what the operator finds with the question and its expansion."""
        if not question.has_vectors or question.corpus.embedding is None:
            question.notes.append(f"{self.name}: {_NO_EMBEDDING}")
            return (yield from self._search(question, candidates))
        expansion = yield from self._expansion(question)
        text = "\n".join((question.text, *expansion)) if expansion else None
        return (yield from self._search(question, candidates, text))

    def _expansion(self, question: Question) -> Algorithm[list[str]]:
        """Return the texts that expand the question."""
        # Entity parsing, and the document of each entity.
        entities = yield from self._write_texts(question, _ENTITIES, self.entities, least=0)
        nodes = yield from most_similar([None, *(entities or ())])

        # Document-based relation filtering.
        around = yield from nodes_around(question, nodes, self.hops)
        cosines, places = (yield Similarity(around.node)), np.flatnonzero(around.before >= 0)
        best_places = places[best(cosines[places], self.neighbors, around.node[places], around.owner[places])]
        ways = yield from ways_as_text(question, around.ways(best_places))
        documents = yield Texts(np.append(nodes, around.node[best_places]), titles=True)

        # Document triples, and the expansion from them.
        triples = [f"Document: {text[:_LONGEST]}" for text in documents[: len(nodes)]]
        for place, way, text in zip(around.owner[best_places].tolist(), ways, documents[len(nodes) :], strict=True):
            triples[place] += f"\n{way} Document: {text[:_LONGEST]}"
        passages = None
        if entities is not None:
            passages = yield from self._write_texts(question, _EXPANSION, self.expansions, triples="\n\n".join(triples))
        return passages or list(dict.fromkeys(text for text in documents if text.strip()))


@dataclass(frozen=True, kw_only=True, repr=False)
class KAR(RewritingSystem):
    """Search by the question and passages that a language model writes from related documents of the graph.

    The index needs vectors and an embedding model.

    Parameters
    ----------
    search : System, str or Operator, default Vector()
        The search: a system, its text such as ``"hybrid"``, or an operator.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, the texts of neighbours expand the question,
        with a note.
    entities, hops, neighbors, expansions : int, default 5, 2, 10 and 3
        See :class:`~graph_retrievers.systems.kar.KnowledgeAwareExpansion`, which also states the departures.

    References
    ----------
    Xia, Wu, Kim, Yu, Rossi, Wang and McAuley, "Knowledge-Aware Query Expansion with Large Language Models for Textual and
    Relational Retrieval", NAACL 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> print(Retriever(GraphIndex.from_texts(["a loom"], vectors=[[1]]), KAR(search="hybrid")).operator.formula())
    KnowledgeAwareExpansion(O_vs)
    """

    name = "kar"
    rewriting = KnowledgeAwareExpansion

    search: System | str | Operator = Vector()
    entities: int = 5
    hops: int = 2
    neighbors: int = 10
    expansions: int = 3
