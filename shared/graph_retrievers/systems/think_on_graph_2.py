"""Think-on-Graph 2.0: relations of the graph lead to entities, whose texts say which are kept (Ma et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import number
from graph_retrievers.core.candidates import Candidates, best, concatenated, distinct, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Neighbors, Texts
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.asking import BOOLEAN, INTEGER, STRING, Prompt, array, missing_clue, names_of, record
from graph_retrievers.systems.choosing import or_by_relevance, picked, text_relevance
from graph_retrievers.systems.relations import edges_of
from graph_retrievers.systems.system import Count
from graph_retrievers.systems.think_on_graph import ThinkOnGraph
from graph_retrievers.systems.traits import passage_types

__all__ = ["ThinkOnGraph2"]

# Characters of a text in a prompt.
_LONGEST = 500

_TOPICS = Prompt("think-on-graph-2-topics", record({"numbers": array(INTEGER)}))
_ENOUGH = Prompt("think-on-graph-2-enough", record({"sufficient": BOOLEAN, "clue": STRING}, optional=["clue"]))


@dataclass(frozen=True, kw_only=True, repr=False)
class ThinkOnGraph2(ThinkOnGraph):
    r"""Beam search from the entities of the question, over relations that a language model chooses and entities that texts choose.

    1. Of three or more entities, the language model keeps those at which the way to the answer starts (topic prune). Their texts
       are scored by the relevance model.
    2. The language model reads the best texts so far, each after the edge that led to it, and says whether they suffice;
       otherwise it writes a clue, which goes with the question from then on.
    3. The best relations of each entity are kept, as in :class:`~graph_retrievers.systems.think_on_graph.ThinkOnGraph` (relation
       prune).
    4. The texts of all entities to which these lead are scored by the relevance model, each after the edge that led there. With
       :math:`s_1 \ge s_2 \ge \dots` the scores of the best `texts` texts of all entities, an entity e scores

    .. math:: S_e = \sum_{k : \text{text } k \text{ is of } e} s_k \, e^{-\alpha k}

       and the `width` best entities are the next beam (context-based entity prune). Steps 2 to 4 are a round.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. It also names the entities of the question. Without one,
        names of nodes are looked for in the question, the relevance model of the index chooses relations, all entities start, and
        no round is the last before `depth`.
    width, depth, candidates : int, default 3, 3 and 50
        As for :class:`~graph_retrievers.systems.think_on_graph.ThinkOnGraph`.
    texts : int, default 10
        Texts that count in a round, and that the language model reads.
    decay : float, default 0.8
        The alpha of the equation.
    passage_type : str, default "passage"
        Node type of texts: those of an entity are its neighbours of this type, and itself. In a graph without such nodes, or with
        no others, every node is an entity, whose only text is its own.

    Notes
    -----
    The result has the texts of the topics and of the kept entities of all rounds by their scores, each with the path to it, then
    the entities of the beams, then those of the question. An entity whose score is 0 is not followed, and the language model reads
    the first 500 characters of a text. If scores of a round are below 0, as some models give them, those of all its texts count as
    :math:`1 / (1 + e^{-s})` in the equation, so that a sum over more texts is never smaller.

    Width, depth and the number of texts are those of the paper and of its code, the other settings those of the code. Both also
    follow no relation that the language model gives less than 0.2; here, if all are below, the best are followed. The code:

    - cuts documents of entities into paragraphs, and sorts their sentences for the language model; here the nodes of the index
      are the texts;
    - draws 50 entities of a relation at random; here the most similar ones are read;
    - asks for the relations of all entities in one prompt; here each entity has its own, the paper's other variant;
    - scores paragraphs alone; here the edge is before them, as in the paper;
    - first asks whether texts suffice after the first round; here before it too, as in the paper, but not after the last round,
      where the code wants the answer;
    - drops the clue; here it goes with the question, as the paper says;
    - counts the texts of an entity once for each relation that leads to it; here the first relation counts.

    If the language model does not choose topics, all start; if it does not say whether texts suffice, the search goes on; if it
    gives no scores for relations, the relevance model chooses instead, from the start. A note says so.

    References
    ----------
    Ma et al., "Think-on-Graph 2.0: Deep and Faithful Large Language Model Reasoning with Knowledge-guided Retrieval Augmented
    Generation", ICLR 2025, section 3. Code: https://github.com/IDEA-FinAI/ToG-2.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p", "Jacquard was born in Lyon.", type="passage")]
    >>> nodes += [Node("loom", "", "Loom"), Node("jacquard", "", "Jacquard")]
    >>> edges = [("loom", "jacquard", "made by"), ("p", "jacquard", "mentions")]
    >>> index = GraphIndex.from_nodes(nodes, edges, relevance=lambda pairs: [float("born" in text) for _, text in pairs])
    >>> retriever = Retriever(index, ThinkOnGraph2(), backfill=False)
    >>> [hit.path.text for hit in retriever.retrieve("Where was the maker of the Loom born?")]
    ['Loom -[made by]-> Jacquard <-[mentions]- p', 'Loom', 'Loom -[made by]-> Jacquard']
    """

    name = "think-on-graph-2"
    score_sum, least = "", 0.2

    candidates: Count = 50
    texts: Count = 10
    decay: Annotated[float, partial(number, most=1000)] = 0.8
    passage_type: str = "passage"

    def text_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the node type of texts."""
        return passage_types(index.facts, self.passage_type)

    @or_by_relevance
    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the texts of all rounds, then their entities, then those of the question."""
        beam, rounds, clue = candidates, list[Candidates](), ""
        # Topic prune.
        if self.language_model is not None and len(candidates) > 2:
            (names,) = yield from names_of([candidates.nodes])
            beam = candidates.taken((yield from picked(self, question, _TOPICS, names, "the search started at all entities")))
        texts, contents, _ = yield from self._texts(question, beam, [""] * len(beam), clue)
        for _ in range(self.depth):
            # Each text once, by its best score.
            by = distinct(texts.scores, texts.nodes)
            texts, contents = texts.taken(by), contents[by]
            # Reasoning.
            shown = [text[:_LONGEST] for text in contents[: self.texts]]
            missing = yield from missing_clue(self, question, _ENOUGH, shown, clue)
            if missing is None:
                break
            clue = missing
            beam, more_texts, more = yield from self._round(question, beam, clue)
            if not len(beam):
                break
            rounds.append(beam)
            texts, contents = concatenated([texts, more_texts]), np.append(contents, more)
        return texts.taken(distinct(texts.scores, texts.nodes)).followed_by(*rounds, candidates)

    def _round(self, question: Question, beam: Candidates, clue: str) -> Algorithm[tuple[Candidates, Candidates, np.ndarray]]:
        """Return the next beam, the texts of its entities that count, best first, and what models read of each."""
        relations = yield from self._relations(question, beam, clue)
        edges, facts = edges_of(relations), [fact for relation in relations for fact in relation.facts()]
        # If several relations lead to an entity, the first counts.
        first = np.sort(np.unique(edges.far, return_index=True)[1])
        edges, ways = edges.taken(first), [f"{facts[place]}: " for place in first]
        entities = reached(beam, edges.owner, edges.far, np.zeros(len(first)), self.name, edges.relation)

        # Context-based entity prune.
        texts, contents, owner = yield from self._texts(question, entities, ways, clue)
        weights = 1 / (1 + np.exp(-texts.scores)) if (texts.scores < 0).any() else texts.scores
        entities.scores = np.bincount(owner, weights * np.exp(-self.decay * np.arange(1, len(texts) + 1)), len(entities))
        best_places = best(entities.scores, self.width, entities.nodes)
        best_places = best_places[entities.scores[best_places] > 0]
        places = np.flatnonzero(np.isin(owner, best_places))
        return entities.taken(best_places), texts.taken(places), contents[places]

    def _texts(
        self, question: Question, entities: Candidates, ways: Sequence[str], clue: str
    ) -> Algorithm[tuple[Candidates, np.ndarray, np.ndarray]]:
        """Return the best texts of entities, what models read of each, after the `ways`, and the places of their entities."""
        near = yield Neighbors(entities.nodes)
        near = near.masked(question.typed(near.node, self.text_types(question.corpus)))
        linked_texts = reached(entities, near.owner, near.node, np.zeros(len(near.node)), self.name)
        # The text of an entity itself has its path, and a linked one a step more.
        texts, owner = concatenated([entities, linked_texts]), np.append(np.arange(len(entities)), near.owner)
        read = [ways[place] + text for place, text in zip(owner, (yield Texts(texts.nodes, titles=True)), strict=True)]
        scores = (yield text_relevance(question, texts.nodes, read, clue)).astype(np.float64)
        by = best(scores, self.texts, texts.nodes)
        return replace(texts.taken(by), scores=scores[by]), np.array(read, object)[by], owner[by]
