"""Think-on-Graph: beam search over relations and entities that a model chooses (Sun et al., ICLR 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, falling, order, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Contents, EdgeRows, Edges, EdgeTexts, Relevance, Similarity
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.signals.language import LanguageModel, as_language_model, failure_note
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
_ENOUGH = "Do these facts suffice to answer the question, with what you know?\n\nFacts:\n{facts}\n\nQuestion: {question}"
_NUMBERED = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "score": {"type": "number"}},
    "required": ["number", "score"],
}
_SCORES = {"type": "object", "properties": {"scores": {"type": "array", "items": _NUMBERED}}, "required": ["scores"]}
_SUFFICIENT = {"type": "object", "properties": {"sufficient": {"type": "boolean"}}, "required": ["sufficient"]}


class Relation(NamedTuple):
    """A relation of an entity of the beam, in one direction, with the edges that have it, and its score."""

    place: int
    name: str
    outgoing: bool
    edges: list[int]
    score: float = 0.0

    @property
    def text(self) -> str:
        """The name, with the direction in which it is followed."""
        return (self.name or "is linked to") + ("" if self.outgoing else " (from it)")

    def fact(self, entity: str, far: str) -> str:
        """Return the edge from or to another entity as a sentence, in its own direction."""
        first, last = (entity, far) if self.outgoing else (far, entity)
        return f"{first} {self.name or 'is linked to'} {last}"


class RelationBeam(Operator):
    """From the nodes found before, follow for some rounds the relations, and to the entities, that a model chooses.

    In each round

    1. of the relations of each entity of the beam, the `width` best are kept (relation prune);
    2. the entities to which these lead are scored, and the `width` best of all are the next beam (entity prune); the score of an
       entity is that of its relation times its own;
    3. the language model says whether the facts suffice; then the search ends. After the last round it is not asked.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the relevance model of the index scores
        relations, by the name of the entity and of the relation, and entities, by the text of the edge; and no round is the last
        before `depth`.
    width, depth : int, default 3 and 3
        Entities of the beam and relations of each, and rounds.
    candidates : int, default 20
        Most entities of a relation that are scored: those most similar to the question.

    Notes
    -----
    The result has the entities of all rounds by their scores, then the nodes found before. An entity counts once, with its best
    score; the relation by which it was reached is not followed back.

    The published code draws entities at random from twenty and more, five of Freebase and ten of Wikidata; here the most similar
    ones are scored. It does not follow a relation by which an entity was reached from that entity in the other direction, so that
    other works of a maker are out of reach; here only the edge back is left out. It leaves out relations of Freebase and Wikidata
    that tell little, such as identifiers. It keeps the same entity twice if two relations lead to it. It shows the model
    examples; here the prompt has instructions. When it scores by BM25 or a sentence encoder, the score of an entity is a product
    too; here it is that of the entity alone, as relevance models also give negative scores.

    If the language model gives no scores for relations or entities, the relevance model scores instead, from the start; if it
    does not say whether facts suffice, the search goes on. A note says so. Scores outside [0, 1] and numbers that were not shown do
    not count, and relations without a score are not followed. Without any score that counts, all options are alike: published so
    for entities; of relations the published code then follows none. If no model reads texts, as with vectors that were given
    without their model, all relations are followed, and entities score by their cosines with the question.

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
    # What the language model is told of the scores of relations, and the least score with which one is followed.
    _sum, _least = "; the scores sum to 1", 0.0

    def __init__(self, language_model: Any = None, *, width: int = 3, depth: int = 3, candidates: int = 20) -> None:
        self.language_model = None if language_model is None else as_language_model(language_model)
        self.width, self.depth, self.candidates = (
            positive("width", width),
            positive("depth", depth),
            positive("candidates", candidates),
        )

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the entities of all rounds, then the nodes found before."""
        try:
            return (yield from self._walked(question, found, self.language_model))
        except LanguageModelError as error:
            self._note(question, error, "the relevance model scored instead")
            return (yield from self._walked(question, found, None))

    def _note(self, question: Question, error: LanguageModelError, instead: str) -> None:
        why = failure_note(error, instead)
        # Entity linking asks the same model, and may have said so.
        if not any(why.partition(";")[0] in note for note in question.notes):
            question.notes.append(f"{self.name}: {why}")

    def _walked(self, question: Question, found: Candidates, model: LanguageModel | None) -> Algorithm[Candidates]:
        beam, rounds, facts = found, list[Candidates](), list[str]()
        for left in reversed(range(self.depth)):
            beam, rows = yield from self._round(question, beam, model)
            if not len(beam):
                break
            rounds.append(beam)
            facts += yield EdgeTexts(rows)
            if left and (yield from self._suffices(question, facts, model)):
                break
        if not rounds:
            return found
        walked = rounds[0]
        for each in rounds[1:]:
            walked = walked.joined(each)
        walked = walked.rescored(walked.scores)
        joined = walked.joined(found)
        return replace(joined, scores=falling(joined.scores))

    def _round(self, question: Question, beam: Candidates, model: LanguageModel | None) -> Algorithm[tuple[Candidates, np.ndarray]]:
        """Return the next beam, with the edge that leads to each of its entities."""
        edges = yield Edges(beam.nodes)
        relations = self._relations(question, beam, edges)
        relations = yield from self._pruned(question, beam, relations, model)
        places, rows, scores = list[int](), list[int](), list[float]()
        for relation, chosen, own in (yield from self._scored(question, beam, relations, edges.far, model)):
            places += [relation.place] * len(chosen)
            rows += chosen
            # A relevance model may give negative scores, which have no product.
            scores += own if model is None else [relation.score * score for score in own]
        values, far = np.array(scores, np.float64), edges.far[rows]
        by = order(values, far)
        by = by[np.sort(np.unique(far[by], return_index=True)[1])][: self.width]
        if model is not None:
            by = by[values[by] > 0]
        kept = np.array(rows, np.int64)[by]
        walked = reached(beam, np.array(places, np.int64)[by], far[by], values[by], self.name, edges.relation[kept])
        return walked, edges.row[kept]

    def _relations(self, question: Question, beam: Candidates, edges: EdgeRows) -> list[Relation]:
        """Return the relations of the beam, in the order of its entities and of their names, but for those that lead back."""
        names = question.relation_names(edges.relation)
        outgoing = question.ends(edges.row)[:, 0] == beam.nodes[edges.owner]
        before = beam.steps()[:, -1] if beam.trails.shape[1] > 1 else np.full(len(beam), -1)
        grouped = dict[tuple[int, str, bool], list[int]]()
        for edge, (place, far) in enumerate(zip(edges.owner.tolist(), edges.far.tolist(), strict=True)):
            back = edges.relation[edge] == before[place] and far == beam.trails[place, -2]
            if far != beam.nodes[place] and not back:
                grouped.setdefault((place, names[edge], bool(outgoing[edge])), []).append(edge)
        return [Relation(*key, grouped[key]) for key in sorted(grouped, key=lambda key: (key[0], key[1], not key[2]))]

    def _pruned(
        self, question: Question, beam: Candidates, relations: list[Relation], model: LanguageModel | None, clue: str = ""
    ) -> Algorithm[list[Relation]]:
        """Return the best relations of each entity of the beam, with their scores; a clue goes with the question."""
        if model is None and not question.reads_texts:
            return [each._replace(score=1.0) for each in relations]
        nodes = [node.title or node.id for node in (yield Contents(beam.nodes))]
        groups = [[each for each in relations if each.place == place] for place in range(len(beam))]
        groups = [group for group in groups if group]
        about = {"question": f"{question.text} {clue}".strip(), "count": self.width, "sum": self._sum}
        prompts = [
            _RELATIONS.format(entity=nodes[group[0].place], options=_listed([each.text for each in group]), **about)
            for group in groups
        ]
        texts = [[f"{nodes[each.place]} {each.name}" for each in group] for group in groups]
        rows = [beam.nodes[[each.place for each in group]] for group in groups]
        kept = list[Relation]()
        for group, scores in zip(groups, (yield from self._asked(question, prompts, texts, rows, model)), strict=True):
            places = best(scores, self.width)
            if model is not None:
                # It may choose fewer.
                places = places[(scores[places] > 0) & (scores[places] >= min(self._least, scores.max()))]
            kept += [group[place]._replace(score=float(scores[place])) for place in places]
        return kept

    def _scored(
        self, question: Question, beam: Candidates, relations: list[Relation], far: np.ndarray, model: LanguageModel | None
    ) -> Algorithm[list[tuple[Relation, list[int], list[float]]]]:
        """Return each relation with the edges to the entities that are scored, and the scores."""
        chosen = list[list[int]]()
        for relation in relations:
            chosen.append((yield from self._ends(question, relation, far)))
        flat = [edge for edges in chosen for edge in edges]
        names = iter([node.title or node.id for node in (yield Contents(far[flat]))])
        shown = [[next(names) for _ in edges] for edges in chosen]
        entities = [node.title or node.id for node in (yield Contents(beam.nodes[[each.place for each in relations]]))]
        prompts = [
            _ENTITIES.format(entity=entity, relation=relation.text, options=_listed(options), question=question.text)
            for entity, relation, options in zip(entities, relations, shown, strict=True)
        ]
        texts = [
            [each.fact(entity, name) for name in options] for entity, each, options in zip(entities, relations, shown, strict=True)
        ]
        scores = yield from self._asked(question, prompts, texts, [far[edges] for edges in chosen], model, alone=1.0)
        return [(relation, edges, own.tolist()) for relation, edges, own in zip(relations, chosen, scores, strict=True)]

    def _ends(self, question: Question, relation: Relation, far: np.ndarray) -> Algorithm[list[int]]:
        """Return an edge to each of the entities to which a relation leads, of many to the most similar ones."""
        ends, first = np.unique(far[relation.edges], return_index=True)
        if len(ends) > self.candidates and question.has_vectors:
            cosines = yield Similarity(ends)
            first = first[np.sort(best(cosines, self.candidates, ends))]
        return [relation.edges[place] for place in first[: self.candidates]]

    def _asked(
        self,
        question: Question,
        prompts: Sequence[str],
        texts: Sequence[list[str]],
        nodes: Sequence[np.ndarray],
        model: LanguageModel | None,
        alone: float | None = None,
    ) -> Algorithm[list[np.ndarray]]:
        """Return the scores of the options of each prompt, by the language model or the relevance model.

        `alone` is the score of an only option, for which the language model is not asked. LanguageModelError if it fails.
        """
        if model is None and question.reads_texts:
            return (
                yield tuple(  # type: ignore[no-any-return]
                    Relevance(rows, texts=options, notes=question.notes) for rows, options in zip(nodes, texts, strict=True)
                )
            )
        if model is None:
            return (yield tuple(Similarity(rows) for rows in nodes))  # type: ignore[no-any-return]
        asked = [place for place, options in enumerate(texts) if alone is None or len(options) > 1]
        answers = yield tuple(Completion(model, prompts[place], _SCORES) for place in asked)
        scores = [np.full(len(options), alone) for options in texts]
        for place, answer in zip(asked, answers, strict=True):
            if isinstance(answer, LanguageModelError):
                raise answer
            scores[place] = _read(answer["scores"], len(texts[place]))
        return scores

    def _suffices(self, question: Question, facts: list[str], model: LanguageModel | None) -> Algorithm[bool]:
        """Return whether the language model says that the facts suffice."""
        if model is None:
            return False
        prompt = _ENOUGH.format(facts="\n".join(f"- {fact}" for fact in facts), question=question.text)
        answer = yield Completion(model, prompt, _SUFFICIENT)
        if isinstance(answer, LanguageModelError):
            self._note(question, answer, "the search went on")
            return False
        return bool(answer["sufficient"])


def _listed(options: Sequence[str]) -> str:
    return "\n".join(f"{number}. {option}" for number, option in enumerate(options, 1))


def _read(answer: Sequence[dict[str, Any]], count: int) -> np.ndarray:
    """Return the scores that an answer gives to options by their numbers, 0 for others; alike if none counts."""
    scores = np.zeros(count)
    for item in answer:
        if 1 <= item["number"] <= count and 0 <= item["score"] <= 1:
            scores[item["number"] - 1] = item["score"]
    return scores if scores.any() else np.full(count, 1 / max(count, 1))


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
        numbers = {"width": self.width, "depth": self.depth, "candidates": self.candidates}
        return Pipeline(EntityLinking(language_model=self.language_model), RelationBeam(self.language_model, **numbers))
