"""Think-on-Graph: beam search over relations and entities that a model chooses (Sun et al., ICLR 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, distinct, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgeRows, Edges, EdgeTexts, Similarity
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.signals.language import optional_language_model
from graph_retrievers.systems.asking import BOOLEAN, Prompt, ask_model, names_of, note_failure, numbered, option_scores, record
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.system import System

__all__ = ["RelationBeam", "ThinkOnGraph"]

_RELATIONS = (
    "Which of the relations of {entity} help to answer the question? Choose at most {count} by their numbers, and give each a "
    "score from 0 to 1{sum}.\n\nRelations of {entity}:\n{options}\n\nQuestion: {question}"
)
_ENTITIES = (
    "How much does each entity help to answer the question? Give each a score from 0 to 1; the scores sum to 1.\n\n"
    "Entities that {entity} leads to by {relation}:\n{options}\n\nQuestion: {question}"
)
_ENOUGH = Prompt(
    "Do these facts suffice to answer the question, with what you know?\n\nFacts:\n{facts}\n\nQuestion: {question}",
    record({"sufficient": BOOLEAN}),
)


class Relation(NamedTuple):
    """A relation of an entity of the beam, in one direction: its entity, the places of its edges, and where they lead."""

    entity: str
    name: str
    outgoing: bool
    edges: np.ndarray
    score: float = 1.0
    names: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The name, with the direction in which it is followed."""
        return (self.name or "is linked to") + ("" if self.outgoing else " (from it)")

    def facts(self) -> list[str]:
        """Return the edges between the entity and those to which it leads as sentences, in their own direction."""
        ends = [(self.entity, far) if self.outgoing else (far, self.entity) for far in self.names]
        return [f"{first} {self.name or 'is linked to'} {last}" for first, last in ends]


class RelationBeam(Operator):
    """From the nodes found before, follow for some rounds the relations, and to the entities, that a model chooses.

    In each round

    1. of the relations of each entity of the beam (relation search), the `width` best are kept (relation prune);
    2. the entities to which these lead (entity search) are scored, and the `width` best of all are the next beam (entity prune);
       the score of an entity is that of its relation times its own;
    3. the language model says whether the facts suffice (reasoning); then the search ends. After the last round it is not asked.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the relevance model of the index scores
        relations, by the name of the entity and of the relation, and entities, by the text of the edge; and no round is the last
        before `depth`.
    width, depth : int, default 3 and 3
        Entities of the beam and relations of each, and rounds.
    candidates : int, default 20
        Most entities of a relation that are scored: those most similar to the question. A note says if there were more.

    Notes
    -----
    The result has the entities of all rounds by their scores, then the nodes found before. An entity counts once, with the score
    and the path of the round that found it first, and in a round with its best ones; the relation by which it was reached is not
    followed back.

    The paper starts at the `width` best entities of the question; here all that were found start. It keeps `width` relations in
    all; its code, and this operator, as many of each entity. It also asks after the last round whether the facts suffice. Its
    variant ToG-R, which chooses entities at random, is left out.

    The published code draws entities at random from twenty and more, five of Freebase and ten of Wikidata; here the most similar
    ones are scored. It does not follow a relation by which an entity was reached from that entity in the other direction, so that
    other works of a maker are out of reach; here only the edge back is left out. It leaves out relations of Freebase and Wikidata
    that tell little, such as identifiers. It keeps the same entity twice if two relations lead to it. It shows the model
    examples; here the prompt has instructions. When it scores by BM25 or a sentence encoder, the score of an entity is a product
    too; here it is that of the entity alone, as relevance models also give negative scores.

    If the language model gives no scores for relations or entities, the relevance model scores instead, from the start; without
    one and without vectors, no relation is followed. If it does not say whether facts suffice, the search goes on. A note says
    so. Scores outside [0, 1] and numbers that were not shown do not count, and relations without a score are not followed.
    Without any score that counts, all options are alike: published so for entities; of relations the published code then follows
    none. If no model reads texts, as with vectors that were given without their model, all relations are followed, and entities
    score by their cosines with the question.

    References
    ----------
    Sun et al., "Think-on-Graph: Deep and Responsible Reasoning of Large Language Model on Knowledge Graph", ICLR 2024, section 2.
    Code: https://github.com/IDEA-FinAI/ToG.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> edges = [("0", "1", "made by"), ("0", "2", "shown in"), ("1", "3", "born in")]
    >>> titles = ["Loom", "Jacquard", "Paris", "Lyon"]
    >>> index = GraphIndex.from_texts(["a loom", "", "", ""], titles=titles, edges=edges, relevance=lambda pairs: [
    ...     float("made by" in text or "born in" in text) for _, text in pairs
    ... ])
    >>> beam = Pipeline(BM25Search(1), RelationBeam(width=1, depth=2))
    >>> [hit.path.text for hit in Retriever(index, beam, backfill=False).retrieve("Where was the maker of the loom born?")]
    ['Loom -[made by]-> Jacquard', 'Loom -[made by]-> Jacquard -[born in]-> Lyon', 'Loom']
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH
    # What the prompt says of the scores of relations, and the least score with which one is followed.
    _sum, _least = "; the scores sum to 1", 0.0

    def __init__(self, language_model: Any = None, *, width: int = 3, depth: int = 3, candidates: int = 20) -> None:
        self.language_model = optional_language_model(language_model)
        self.width, self.depth = positive("width", width), positive("depth", depth)
        self.candidates = positive("candidates", candidates)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the entities of all rounds, then the nodes found before."""
        try:
            return (yield from self._walk(question, candidates))
        except LanguageModelError as error:
            scored = question.reads_texts or question.has_vectors
            instead = "the relevance model scored instead" if scored else "nothing else scores relations, and none was followed"
            note_failure(self.name, question, error, instead)
            alone = copy(self)
            alone.language_model = None
            return (yield from alone._walk(question, candidates)) if scored else candidates

    def _walk(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        beam, rounds, facts = candidates, [candidates.top(0)], list[str]()
        for remaining in reversed(range(self.depth)):
            edges = yield Edges(beam.nodes)
            relations = yield from self._relations(question, beam, edges)
            beam, rows = yield from self._entity_prune(question, beam, edges, relations)
            if not len(beam):
                break
            rounds.append(beam)
            facts += yield EdgeTexts(rows)
            if remaining and (yield from self._suffices(question, facts)):
                break
        results = reduce(Candidates.joined, rounds)
        return results.rescored(results.scores).followed_by(candidates)

    def _relations(self, question: Question, beam: Candidates, edges: EdgeRows, clue: str = "") -> Algorithm[list[Relation]]:
        """Return the best relations of each entity of the beam, with one edge to each of their entities.

        A clue goes with the question.
        """
        options = yield from self._relation_search(question, beam, edges)
        relations = [relation for group in options for relation in group]

        # Relation prune, unless no model reads texts.
        if self.language_model is not None or question.reads_texts:
            about = {"question": f"{question.text} {clue}".strip(), "count": self.width, "sum": self._sum}
            prompts = [
                _RELATIONS.format(entity=group[0].entity, options=numbered([relation.text for relation in group]), **about)
                for group in options
            ]
            texts = [[f"{relation.entity} {relation.name}" for relation in group] for group in options]
            nodes = [beam.nodes[edges.owner[[relation.edges[0] for relation in group]]] for group in options]
            scores = yield from option_scores(self, question, prompts, texts, nodes)
            relations = [relation for group, values in zip(options, scores, strict=True) for relation in self._best(group, values)]

        # Entity search: of many entities of a relation, the most similar ones.
        far = edges.far
        places = [relation.edges[np.unique(far[relation.edges], return_index=True)[1]] for relation in relations]
        if max(map(len, places), default=0) > self.candidates:
            which, cosines = f"first {self.candidates}", np.zeros(len(far))
            if question.has_vectors:
                which, all_places = f"{self.candidates} most similar to the question", np.concatenate(places)
                cosines[all_places] = yield Similarity(far[all_places])
            question.notes.append(f"{self.name}: of the entities of a relation, only the {which} were scored")
            places = [group[np.sort(best(cosines[group], self.candidates, far[group]))] for group in places]
        names = yield from names_of([far[group] for group in places])
        return [
            relation._replace(edges=group, names=entity_names)
            for relation, group, entity_names in zip(relations, places, names, strict=True)
        ]

    def _relation_search(self, question: Question, beam: Candidates, edges: EdgeRows) -> Algorithm[list[list[Relation]]]:
        """Return the relations of each entity of the beam, in the order of their names, but for those that lead back."""
        (entities,), near = (yield from names_of([beam.nodes])), beam.nodes[edges.owner]
        numbers, number = np.unique(edges.relation, return_inverse=True)
        names, name = np.unique(np.array(question.relation_names(numbers), object), return_inverse=True)
        incoming, mask = question.ends(edges.row)[:, 0] != near, edges.far != near
        if beam.trails.shape[1] > 1:
            mask &= (edges.far != beam.trails[edges.owner, -2]) | (edges.relation != beam.steps()[edges.owner, -1])
        # One number for entity, name and direction: at a hub, numbers are sorted many times as fast as rows of a table.
        codes, key = np.unique(((edges.owner * len(names) + name[number]) * 2 + incoming)[mask], return_inverse=True)
        # Without an edge there is one part, of nothing.
        parts = np.split(np.flatnonzero(mask)[np.argsort(key, kind="stable")], np.cumsum(np.bincount(key))[:-1])
        groups = [list[Relation]() for _ in entities]
        for code, part in zip(codes.tolist(), parts, strict=False):
            place, number = divmod(code // 2, len(names))
            groups[place].append(Relation(entities[place], names[number], code % 2 == 0, part))
        return [group for group in groups if group]

    def _best(self, relations: list[Relation], scores: np.ndarray) -> list[Relation]:
        """Return the relations of an entity with the highest scores, of which a language model may choose fewer."""
        places = best(scores, self.width)
        if self.language_model is None:
            # Scores of a relevance model may be negative, so that they have no product with those of entities.
            return [relations[place] for place in places]
        places = places[(scores[places] > 0) & (scores[places] >= min(self._least, scores.max()))]
        return [relations[place]._replace(score=float(scores[place])) for place in places]

    def _entity_prune(
        self, question: Question, beam: Candidates, edges: EdgeRows, relations: list[Relation]
    ) -> Algorithm[tuple[Candidates, np.ndarray]]:
        """Return the next beam, the best of the entities to which the relations lead, with the edge that leads to each."""
        prompts = [
            _ENTITIES.format(
                entity=relation.entity, relation=relation.text, options=numbered(relation.names), question=question.text
            )
            for relation in relations
        ]
        texts, nodes = [relation.facts() for relation in relations], [edges.far[relation.edges] for relation in relations]
        scores = yield from option_scores(self, question, prompts, texts, nodes, alone=1.0)
        values = np.concatenate([np.zeros(0), *(relation.score * part for relation, part in zip(relations, scores, strict=True))])
        places = np.concatenate([np.zeros(0, np.int64), *(relation.edges for relation in relations)])
        by = distinct(values, edges.far[places])[: self.width]
        if self.language_model is not None:
            by = by[values[by] > 0]
        edge_places = places[by]
        result = reached(beam, edges.owner[edge_places], edges.far[edge_places], values[by], self.name, edges.relation[edge_places])
        return result, edges.row[edge_places]

    def _suffices(self, question: Question, facts: list[str]) -> Algorithm[bool]:
        """Return whether the language model says that the facts suffice."""
        if self.language_model is None:
            return False
        lines = "\n".join(f"- {fact}" for fact in facts)
        answer = yield from ask_model(self, question, _ENOUGH, "the search went on", facts=lines)
        return answer is not None and bool(answer["sufficient"])


@dataclass(frozen=True, kw_only=True, repr=False)
class ThinkOnGraph(System):
    """Beam search from the entities of the question, over relations and entities that a language model chooses.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. It also names the entities of the question. Without one
        the relevance model of the index chooses, and names of nodes are looked for in the question.
    width, depth : int, default 3 and 3
        Entities of the beam, and rounds.
    candidates : int, default 20
        See :class:`~graph_retrievers.systems.think_on_graph.RelationBeam`, which also states the departures.

    References
    ----------
    Sun et al., "Think-on-Graph: Deep and Responsible Reasoning of Large Language Model on Knowledge Graph", ICLR 2024.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["", ""], titles=["Loom", "Jacquard"], edges=[("0", "1", "made by")], vectors=[[1], [0]])
    >>> [hit.title for hit in Retriever(index, ThinkOnGraph()).retrieve("Who made the Loom?", vector=[1])]
    ['Jacquard', 'Loom']
    """

    name = "think-on-graph"

    language_model: Any = None
    width: int = 3
    depth: int = 3
    candidates: int = 20

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking, then the beam."""
        return Pipeline(EntityLinking(language_model=self.language_model), self.part(RelationBeam))
