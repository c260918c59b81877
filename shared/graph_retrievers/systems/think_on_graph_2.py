"""Think-on-Graph 2.0: relations of the graph lead to entities, whose texts say which are kept (Ma et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graph_retrievers.arguments import is_number, positive, strings
from graph_retrievers.core.candidates import Candidates, best, concatenated, falling, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Contents, EdgeRows, Edges, Neighbors, Relevance, Similarity, Texts, WithQuery
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError, shown
from graph_retrievers.index import Corpus
from graph_retrievers.signals.language import LanguageModel
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.system import System
from graph_retrievers.systems.think_on_graph import RelationBeam
from graph_retrievers.systems.traits import passage_types

__all__ = ["ContextBeam", "ThinkOnGraph2"]

# Characters of a text in a prompt.
_LONGEST = 500

_TOPICS = (
    "From which of these entities does the way to the answer of the question start? Give their numbers.\n\nEntities:\n{options}\n\n"
    "Question: {question}"
)
_ENOUGH = (
    "Do these texts suffice to answer the question, with what you know? If not, write a clue: what they say that helps, and what "
    "is still to be found.\n\nTexts:\n{texts}\n\nQuestion: {question}"
)
_NUMBERS = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
    "required": ["numbers"],
}
_ANSWER = {
    "type": "object",
    "properties": {"sufficient": {"type": "boolean"}, "clue": {"type": "string"}},
    "required": ["sufficient"],
}


class ContextBeam(RelationBeam):
    r"""From the entities found before, follow for some rounds relations that a model chooses, to entities that their texts choose.

    1. The language model keeps the entities at which the way to the answer starts (topic prune).
    2. In each round, the best relations of each entity are kept, as in
       :class:`~graph_retrievers.systems.think_on_graph.RelationBeam` (relation prune).
    3. The texts of all entities to which these lead are scored by the relevance model, each behind the relation that led there.
       With :math:`s_1 \ge s_2 \ge \dots` the scores of the best `texts` texts of all entities, an entity e scores

    .. math:: S_e = \sum_{k : \text{text } k \text{ is of } e} s_k \, e^{-\alpha k}

       and the `width` best entities are the next beam (context-based entity prune).
    4. The language model reads these texts, and says whether they suffice; otherwise it writes a clue, which goes with the
       question from then on.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the relevance model chooses relations, all
        entities start, and no round is the last before `depth`.
    text_types : sequence of str, default ()
        Node types of texts: those of an entity are its neighbours of these types, and itself. Without types, only itself.
    width, depth, candidates : int, default 3, 3 and 20
        See :class:`~graph_retrievers.systems.think_on_graph.RelationBeam`.
    texts : int, default 10
        Texts that count in a round.
    decay : float, default 0.5
        The alpha of the equation.

    Notes
    -----
    The result has the texts of all rounds by their scores, each with the path to it, then the entities of the beams, then the
    nodes found before. If scores are below 0, as some models give them, those of all texts of the round become
    :math:`1 / (1 + e^{-s})`, so that a sum over more texts is never smaller.

    The paper cuts documents of entities into chunks; here the nodes of the index are the texts. Its first round, which reads the
    texts of the topic entities themselves, is part of the result's end here. If the language model fails, the relevance model
    chooses instead, from the start, and a note says so. Width and depth are those of the paper; of its number of texts and of
    alpha we were not sure.

    References
    ----------
    Ma et al., "Think-on-Graph 2.0: Deep and Faithful Large Language Model Reasoning with Knowledge-guided Retrieval Augmented
    Generation", ICLR 2025, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p", "Jacquard was born in Lyon.", type="passage")]
    >>> nodes += [Node("loom", "", "Loom"), Node("jacquard", "", "Jacquard")]
    >>> edges = [("loom", "jacquard", "made by"), ("p", "jacquard", "mentions")]
    >>> index = GraphIndex.from_nodes(nodes, edges, relevance=lambda pairs: [float("born" in text) for _, text in pairs])
    >>> beam = Pipeline(EntityLinking(), ContextBeam(text_types=["passage"]))
    >>> hits = Retriever(index, beam, backfill=False).retrieve("Where was the maker of the Loom born?")
    >>> [hit.path.text for hit in hits]
    ['Loom -[made by]-> Jacquard <-[mentions]- p', 'Loom -[made by]-> Jacquard', 'Loom']
    """

    def __init__(
        self,
        language_model: Any = None,
        *,
        text_types: Sequence[str] = (),
        width: int = 3,
        depth: int = 3,
        candidates: int = 20,
        texts: int = 10,
        decay: float = 0.5,
    ) -> None:
        super().__init__(language_model, width=width, depth=depth, candidates=candidates)
        self.text_types, self.texts = strings("text_types", text_types), positive("texts", texts)
        if not is_number(decay) or not 0 <= decay <= 1e3:
            raise InvalidArgumentError(f"decay must be at least 0 and at most 1000, got {shown(decay)}.")
        self.decay = float(decay)

    def _walked(self, question: Question, found: Candidates, model: LanguageModel | None) -> Algorithm[Candidates]:
        beam, clue = (yield from self._topics(question, found, model)), ""
        told, walked = list[Candidates](), list[Candidates]()
        for _ in range(self.depth):
            beam, texts = yield from self._step(question, beam, clue, model)
            if not len(texts):
                break
            told.append(texts)
            walked.append(beam)
            said = yield from self._clue(question, texts, model)
            if said is None:
                break
            clue = said
        if not told:
            return found
        texts = concatenated(told)
        by = best(texts.scores, len(texts), texts.nodes)
        texts = texts.taken(by[np.sort(np.unique(texts.nodes[by], return_index=True)[1])])
        for each in (*walked, found):
            texts = texts.joined(each)
        return replace(texts, scores=falling(texts.scores))

    def _topics(self, question: Question, found: Candidates, model: LanguageModel | None) -> Algorithm[Candidates]:
        """Return the entities at which the walk starts; all if the language model names none."""
        if model is None or len(found) < 2:
            return found
        options = "\n".join(f"{n}. {node.title or node.id}" for n, node in enumerate((yield Contents(found.nodes)), 1))
        answer = yield Completion(model, _TOPICS.format(options=options, question=question.text), _NUMBERS)
        if isinstance(answer, LanguageModelError):
            raise answer
        kept = sorted({number - 1 for number in answer["numbers"] if 1 <= number <= len(found)})
        return found.taken(np.array(kept or range(len(found)), np.int64))

    def _step(
        self, question: Question, beam: Candidates, clue: str, model: LanguageModel | None
    ) -> Algorithm[tuple[Candidates, Candidates]]:
        """Return the next beam, and the texts of its entities that count."""
        edges = yield Edges(beam.nodes)
        others = np.flatnonzero(~question.typed(edges.far, self.text_types))
        edges = EdgeRows(*(column[others] for column in edges))
        relations = yield from self._pruned(question, beam, self._relations(question, beam, edges), model, clue)
        starts = [node.title or node.id for node in (yield Contents(beam.nodes))]
        places, kept, led = list[int](), list[int](), list[str]()
        for relation in relations:
            for edge in (yield from self._ends(question, relation, edges.far)):
                if edges.far[edge] not in edges.far[kept]:
                    places.append(relation.place)
                    kept.append(edge)
                    led.append(f"{starts[relation.place]} {relation.text}")
        far, rows = edges.far[kept], np.array(kept, np.int64)
        entities = reached(beam, np.array(places, np.int64), far, np.zeros(len(far)), self.name, edges.relation[rows])
        near = yield Neighbors(far)
        near = near.kept(question.typed(near.node, self.text_types))
        owner = np.append(np.arange(len(far)), near.owner)
        nodes = np.append(far, near.node)
        names = [node.title or node.id for node in (yield Contents(far))]
        contents = yield Texts(nodes, titles=True)
        read = [f"{led[place]} {names[place]}: {text}" for place, text in zip(owner.tolist(), contents, strict=True)]
        scores = yield from self._scores(question, nodes, read, clue)
        by = best(scores, self.texts, nodes)
        if len(by) and scores[by].min() < 0:
            scores = 1 / (1 + np.exp(-scores))
        total = np.bincount(owner[by], scores[by] * np.exp(-self.decay * np.arange(1, len(by) + 1)), len(far))
        chosen = best(total, self.width, far)
        chosen = chosen[total[chosen] > 0]
        entities.scores = total
        by = by[np.isin(owner[by], chosen)]
        # The text of an entity itself has its path, and a linked one a step more.
        own, linked = by[by < len(far)], by[by >= len(far)]
        itself = replace(entities.taken(owner[own]), scores=scores[own])
        texts = concatenated([itself, reached(entities, owner[linked], nodes[linked], scores[linked], self.name)])
        return entities.taken(chosen), texts

    def _scores(self, question: Question, nodes: np.ndarray, texts: list[str], clue: str) -> Algorithm[np.ndarray]:
        """Return the relevance of texts for the question and the clue; the cosines of nodes without a model that reads texts."""
        if not question.reads_texts:
            return (yield Similarity(nodes))  # type: ignore[no-any-return]
        asked = Relevance(nodes, texts=texts, notes=question.notes)
        return (yield WithQuery(asked, f"{question.text} {clue}") if clue else asked).astype(np.float64)  # type: ignore[no-any-return]

    def _clue(self, question: Question, texts: Candidates, model: LanguageModel | None) -> Algorithm[str | None]:
        """Return what the language model says is still to be found, "" for nothing; None if the texts suffice."""
        if model is None:
            return ""
        listed = "\n".join(f"- {text[:_LONGEST]}" for text in (yield Texts(texts.nodes, titles=True)))
        answer = yield Completion(model, _ENOUGH.format(texts=listed, question=question.text), _ANSWER)
        if isinstance(answer, LanguageModelError):
            raise answer
        return None if answer["sufficient"] else answer.get("clue", "").strip()


@dataclass(frozen=True, kw_only=True, repr=False)
class ThinkOnGraph2(System):
    """Beam search from the entities of the question, over relations that a language model chooses and entities that texts choose.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. It also names the entities of the question. Without one
        the relevance model of the index chooses, and names of nodes are looked for in the question.
    width, depth, candidates : int, default 3, 3 and 20
        As for :class:`~graph_retrievers.systems.think_on_graph.ThinkOnGraph`.
    texts, decay : int and float, default 10 and 0.5
        See :class:`~graph_retrievers.systems.think_on_graph_2.ContextBeam`, which also states the departures.
    passage_type : str, default "passage"
        Node type of texts; other nodes are entities. In a graph without such nodes, or with no others, every node is both.

    References
    ----------
    Ma et al., "Think-on-Graph 2.0: Deep and Faithful Large Language Model Reasoning with Knowledge-guided Retrieval Augmented
    Generation", ICLR 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["", ""], titles=["Loom", "Jacquard"], edges=[("0", "1", "made by")], vectors=[[1], [0.5]])
    >>> [hit.title for hit in Retriever(index, ThinkOnGraph2()).retrieve("Who made the Loom?", vector=[1])]
    ['Jacquard', 'Loom']
    """

    name = "think-on-graph-2"

    language_model: Any = None
    width: int = 3
    depth: int = 3
    candidates: int = 20
    texts: int = 10
    decay: float = 0.5
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking, then the beam."""
        types = passage_types(index.facts, self.passage_type)
        numbers = {"width": self.width, "depth": self.depth, "candidates": self.candidates, "texts": self.texts}
        linking = EntityLinking(language_model=self.language_model, exclude_types=types)
        return Pipeline(linking, ContextBeam(self.language_model, text_types=types, decay=self.decay, **numbers))
