"""Think-on-Graph: beam search over relations and entities that a model chooses (Sun et al., ICLR 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graph_retrievers.core.candidates import Candidates, distinct, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgeRows, EdgeTexts
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.asking import BOOLEAN, Prompt, missing_clue, record
from graph_retrievers.systems.choosing import SCORES, best_options, option_scores, or_by_relevance
from graph_retrievers.systems.relations import Relation, edges_of, relation_options, relations_at, with_ends
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.system import Count, System

__all__ = ["ThinkOnGraph"]

_RELATIONS = Prompt("think-on-graph-relations", SCORES)
_ENTITIES = Prompt("think-on-graph-entities", SCORES)
_ENOUGH = Prompt("think-on-graph-enough", record({"sufficient": BOOLEAN}))


@dataclass(frozen=True, kw_only=True, repr=False)
class ThinkOnGraph(System):
    """Beam search from the entities of the question, over relations and entities that a language model chooses.

    In each round

    1. of the relations of each entity of the beam (relation search), the `width` best are kept (relation prune);
    2. the entities to which these lead (entity search) are scored, and the `width` best of all are the next beam (entity prune);
       the score of an entity is that of its relation times its own;
    3. the language model says whether the facts suffice (reasoning); then the search ends. After the last round it is not asked.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. It also names the entities of the question. Without one,
        names of nodes are looked for in the question; the relevance model of the index scores relations, by the name of the entity
        and of the relation, and entities, by the text of the edge; and no round is the last before `depth`.
    width, depth : int, default 3 and 3
        Entities of the beam and relations of each, and rounds.
    candidates : int, default 20
        Most entities of a relation that are scored: those most similar to the question. A note says if there were more.

    Notes
    -----
    The result has the entities of all rounds by their scores, then those of the question. An entity counts once, with the score
    and the path of the round that found it first, and in a round with its best ones; the relation by which it was reached is not
    followed back.

    The paper starts at the `width` best entities of the question; here all that were found start, and where the question names
    none, the nodes most similar to it. It keeps `width` relations in all; its code, and this system, as many of each entity. It
    also asks after the last round whether the facts suffice. Its variant ToG-R, which chooses entities at random, is left out.

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
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> edges = [("0", "1", "made by"), ("0", "2", "shown in"), ("1", "3", "born in")]
    >>> titles = ["Loom", "Jacquard", "Paris", "Lyon"]
    >>> index = GraphIndex.from_texts([""] * 4, titles=titles, edges=edges, relevance=lambda pairs: [
    ...     float("made by" in text or "born in" in text) for _, text in pairs
    ... ])
    >>> retriever = Retriever(index, ThinkOnGraph(width=1, depth=2), backfill=False)
    >>> [hit.path.text for hit in retriever.retrieve("Where was the maker of the Loom born?")]
    ['Loom -[made by]-> Jacquard', 'Loom -[made by]-> Jacquard -[born in]-> Lyon', 'Loom']
    """

    name = "think-on-graph"
    kind = OperatorKind.GRAPH_MODEL_SEARCH
    # What the prompt says of the scores of relations, and the least score with which one is followed.
    score_sum: ClassVar[str] = "; the scores sum to 1"
    least: ClassVar[float] = 0.0

    language_model: Any = None
    width: Count = 3
    depth: Count = 3
    candidates: Count = 20

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking, then the beam."""
        linking = EntityLinking(language_model=self.language_model, exclude_types=self.text_types(index))
        return Pipeline(linking, self.operator())

    def text_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the types of nodes that are not entities."""
        return ()

    @or_by_relevance
    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the entities of all rounds, then those of the question."""
        beam, results, facts = candidates, candidates.top(0), list[str]()
        for remaining in reversed(range(self.depth)):
            relations = yield from self._relations(question, beam)
            beam, edges = yield from self._entities(question, beam, relations)
            if not len(beam):
                break
            results = results.joined(beam)
            facts += yield EdgeTexts(edges.row)
            # Reasoning.
            if remaining and (yield from missing_clue(self, question, _ENOUGH, facts)) is None:
                break
        return results.rescored(results.scores).followed_by(candidates)

    def _relations(self, question: Question, beam: Candidates, clue: str = "") -> Algorithm[list[Relation]]:
        """Return the best relations of each entity of the beam to entities; a clue goes with the question."""
        # Relation search.
        groups = yield from relations_at(question, beam, self.text_types(question.corpus))
        # Relation prune.
        lists = [relation_options(group) for group in groups]
        fields = {"count": self.width, "sum": self.score_sum, "clue": f" {clue}" if clue else ""}
        choices = yield from best_options(self, question, _RELATIONS, lists, self.width, self.least, **fields)
        pairs = zip(groups, choices, strict=True)
        relations = [group[place]._replace(score=weight) for group, choice in pairs for place, weight in choice]
        # Entity search.
        return (yield from with_ends(question, relations, self.candidates, self.name))

    def _entities(self, question: Question, beam: Candidates, relations: list[Relation]) -> Algorithm[tuple[Candidates, EdgeRows]]:
        """Return the next beam, the best of the entities to which the relations lead, with the edge to each (entity prune)."""
        edges = edges_of(relations)
        scores = yield from option_scores(self, question, _ENTITIES, [relation.end_options() for relation in relations], alone=1.0)
        values = np.concatenate([np.zeros(0), *(each.score * part for each, part in zip(relations, scores, strict=True))])
        by = distinct(values, edges.far)[: self.width]
        if self.language_model is not None:
            by = by[values[by] > 0]
        edges = edges.taken(by)
        return reached(beam, edges.owner, edges.far, values[by], self.name, edges.relation), edges
