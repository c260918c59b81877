"""HippoRAG, the first of that name: phrases of the question, a walk among phrases, and the passages that contain them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates, best, best_of_each, falling, followed, places_of
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.hipporag.fact_linking import contained_phrases, mention_counts, phrase_graph
from graph_retrievers.systems.hipporag.passage_walk import (
    PhraseAdjacency,
    along_edges,
    checked_synonyms,
    note_no_synonyms,
    phrase_edges,
    similar_passages,
)
from graph_retrievers.systems.pagerank import TransitionGraph, Walk, check_damping, walk_graph, walk_parents
from graph_retrievers.systems.push import TOLERANCE, note_error, pushed
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.system import System
from graph_retrievers.systems.traits import passage_types

__all__ = ["HippoRAG1"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HippoRAG1(System):
    r"""Passages by how often a walk among phrases, from those of the question's entities, visits the phrases that they contain.

    .. math:: O_{vs} \to O_{gs}

    The walk restarts at the phrases found before, each with its node specificity, one divided by the number of passages that
    contain it. With :math:`p_v` the share of phrase v and :math:`c_{vd}` how often passage d contains it,

    .. math:: s_d = \sum_v c_{vd} \, p_v

    This is the first HippoRAG; :class:`~graph_retrievers.systems.hipporag.retriever.HippoRAG` is HippoRAG 2, whose walk restarts at
    facts and leads through passages. Phrases and passages are nodes of one graph, as there. Only passages are hits.

    Parameters
    ----------
    language_model : object, optional
        Names the entities of the question; without one, names of phrases are looked for in it, and its vector finds some if there
        are none. See :class:`~graph_retrievers.systems.spreading.linking.EntityLinking`.
    damping : float, default 0.5
        Probability of following an edge.
    synonyms : float or None, default 0.8
        Minimum cosine of the names of two phrases for an edge between them; None for no such edges.
    passage_type : str, default "passage"
        Node type of passages; see :func:`~graph_retrievers.systems.hipporag.fact_linking.phrase_graph` for graphs without it.

    Notes
    -----
    Edges join the phrases of a fact, and phrases with similar names; passages are not part of the walk. A passage contains the
    phrases to which it is linked, as often as there are links. Where every node is a phrase and a passage, it contains its own
    phrase and those to which its edges lead. If no phrase was found before, passages are ranked by vector search. A path leads to
    a passage through the phrase that adds most to its score. Ties go to the lower row.

    In a database, the walk is pushed as that of :class:`~graph_retrievers.systems.pagerank.PersonalizedPageRank`. There are no
    edges between similar names, which a note says. If limits end the walk, passages contain only phrases that it has come to.

    In the paper each entity is linked to the phrase with the most similar vector; here to the phrases of that name, if there are
    any. Of entities without a phrase of their name, the first 100 are searched. If no entity is given or named in the question,
    its own vector finds 5 phrases; the published code then ranks all passages alike. The code counts a phrase of a passage once
    for each of its facts there; here it counts once for each link. The ensemble with vector search over passages (``doc_ensemble``
    of the code) is left out: write ``Fused(HippoRAG1(), Hybrid())``.

    References
    ----------
    Gutiérrez et al., "HippoRAG: Neurobiologically Inspired Long-Term Memory for Large Language Models", NeurIPS 2024, section 2.3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p1", "On Ada.", type="passage"), Node("p2", "On engines.", type="passage")]
    >>> nodes += [Node("ada", "", "Ada"), Node("engine", "", "Engine")]
    >>> edges = [("p1", "ada", "mentions"), ("p2", "engine", "mentions"), ("ada", "engine", "wrote for")]
    >>> index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0, 1], [1, 0], [0, 1]])
    >>> hits = Retriever(index, HippoRAG1()).retrieve("What did Ada write?", vector=[1, 0])
    >>> [(hit.id, hit.path.text) for hit in hits]
    [('p1', 'Ada <-[mentions]- p1'), ('p2', 'Engine <-[mentions]- p2')]
    """

    name = "hipporag-1"
    kind = OperatorKind.GRAPH_SEARCH
    finds_less_over = "passages"

    language_model: Any = None
    damping: Annotated[float, check_damping] = 0.5
    synonyms: Annotated[float | None, checked_synonyms] = 0.8
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return the linking of entities followed by the walk."""
        types = passage_types(index.facts, self.passage_type)
        # The entity, not the question, is compared with phrases, of which one is taken, however similar it is.
        linking = EntityLinking(language_model=self.language_model, fallback_score="index", exclude_types=types, each=1)
        return Pipeline(linking, self.operator())

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the type of passages where other nodes are phrases; None where every node is a phrase and a passage."""
        return passage_types(index.facts, self.passage_type) or None

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return passages by the shares of their phrases."""
        if not len(candidates):
            return (yield from similar_passages(question, self.passage_type, question.k))
        specificity = 1 / np.maximum((yield from mention_counts(question, candidates.nodes, self.passage_type)), 1)
        walk = self._solved if question.in_memory else self._pushed
        nodes, parents, shares, contained = yield from walk(question, candidates.nodes, specificity)
        passages, phrases, times = contained
        place = places_of(nodes, phrases)
        # Only its own phrase, where the walk begins, leads to a passage that may not be walked to.
        mask = (place >= 0) & (question.walked(passages) | (passages == phrases))
        passages, phrases, place = passages[mask], phrases[mask], place[mask]
        contributions = times[mask] * shares[place]
        rows, owner = np.unique(passages, return_inverse=True)
        scores = np.bincount(owner, contributions, len(rows))
        kept = np.flatnonzero((scores > 0) & question.returned(rows))
        kept = kept[best(scores[kept], max(question.k, 100), rows[kept])]
        # The phrase that adds most to a passage leads to it.
        leading = best_of_each(owner, contributions, phrases)
        lead = np.zeros(len(rows), np.int64)
        lead[owner[leading]] = place[leading]
        trails = along_edges(question, np.concatenate([followed(nodes, parents)[lead[kept]], rows[kept][:, None]], 1))
        return Candidates(rows[kept], falling(scores[kept]), trails, np.zeros(len(kept), np.int64), (self.name,))

    def _solved(
        self, question: Question, seeds: np.ndarray, weights: np.ndarray
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]]:
        """Return phrases, their parents and shares, and which passages contain which phrases how often, in memory."""
        graph = question.index.graph
        parts, edges = phrase_graph(graph, self.passage_type), phrase_edges(question, self.passage_type, self.synonyms)
        walk = walk_graph(question.queries, Identity(edges), partial(TransitionGraph.of_edges, question.size, *edges))
        nodes, shares = yield Walk(walk, seeds, weights, 0.0, None, ((parts.phrases, question.size),), self.damping)
        contained = graph.cache.get(
            ("contained phrases", Identity(parts)),
            lambda: [column.cpu().numpy() for column in contained_phrases(graph, parts.passages, parts.doubled)],
        )
        return nodes, walk_parents(walk, nodes, shares, seeds), shares, contained

    def _pushed(
        self, question: Question, seeds: np.ndarray, weights: np.ndarray
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]]:
        """Return the same as far as the walk is pushed in a database, with the phrases whose edges it has read."""
        adjacency = PhraseAdjacency(question, self.passage_type, among_phrases=True)
        note_no_synonyms(question, self.synonyms)
        walk = yield from pushed(seeds, weights, self.damping, adjacency=adjacency)
        note_error(walk, question.notes)
        nodes, shares = walk.best(len(walk.nodes))
        phrases = walk.nodes[walk.is_known]
        if walk.error <= TOLERANCE:
            # A walk that hardly moves reads few edges, and what its phrases are in counts all the same.
            unread = ~np.isin(nodes, phrases)
            phrases = np.append(phrases, nodes[unread][np.cumsum(shares[unread][::-1])[::-1] > TOLERANCE])
        phrases = np.sort(phrases)
        edges = yield Edges(phrases)
        far, phrase = edges.far, phrases[edges.owner]
        links = adjacency.are_passages(far)
        if not adjacency.passages:
            # A passage contains its own phrase, and those to which its edges lead.
            links = (question.ends(edges.row)[:, 1] == phrase) & (far != phrase)
        pairs = np.stack([far, phrase])[:, links]
        if not adjacency.passages:
            pairs = np.concatenate([pairs, [phrases, phrases]], 1)
        (passages, contained), times = np.unique(pairs, axis=1, return_counts=True)
        return nodes, walk.parents(nodes, seeds), shares, [passages, contained, times]
