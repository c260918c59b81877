"""Passages by entities reached from a question sentence by sentence: LinearRAG, O_vgs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates, best_of_each, falling, order, places_of
from graph_retrievers.core.chains import padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Similarity, Texts
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.facts import WholeGraphError
from graph_retrievers.graph.names import capitalized_names
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.signals.entities import as_entity_extractor, entity_key, without_opening
from graph_retrievers.systems.linear_rag.requests import (
    AnyTriGraph,
    ContainingPassages,
    EntityMatches,
    EntityNames,
    FetchedTriGraph,
    MentioningSentences,
    PassagesAndNames,
)
from graph_retrievers.systems.linear_rag.tri_graph import TriGraph, tri_graph
from graph_retrievers.systems.pagerank import NEAREST, Walk, check_damping, similarities, walk_graph
from graph_retrievers.systems.push import Adjacency, note_error, pushed
from graph_retrievers.systems.traits import passage_types

__all__ = ["TriGraphSearch"]

_NO_NAME = "the question has no name that is in the texts: vector search alone (pass entities= or another extractor=)"
_NO_NAMES = "no names were found in the texts: vector search alone (capitals tell names, or an extractor= of your own)"


class Activated(NamedTuple):
    """The n entities that a question activates.

    Attributes
    ----------
    entities : ndarray, shape [n], int64
    scores : ndarray, shape [n], float64
        The activation a.
    levels : ndarray, shape [n], int64
        1 for entities of the question, plus one for each sentence on the way.
    homes, before : ndarray, shape [n], int64
        The passage of the sentence that first activated each entity, and the entity that led to it; -1 for those of the question.
    """

    entities: np.ndarray
    scores: np.ndarray
    levels: np.ndarray
    homes: np.ndarray
    before: np.ndarray

    @classmethod
    def of(cls, entities: np.ndarray, scores: np.ndarray) -> Activated:
        """Return the entities of a question."""
        return cls(entities, scores, *(np.full(len(entities), value) for value in (1, -1, -1)))

    def raised(self, entities: np.ndarray, scores: np.ndarray, level: int, homes: np.ndarray, before: np.ndarray) -> Activated:
        """Return this with higher scores of some entities; those that were not active are added with the rest."""
        place, updated = places_of(self.entities, entities), self.scores.copy()
        new = place < 0
        updated[place[~new]] = scores[~new]
        added = Activated(entities[new], scores[new], np.full(np.count_nonzero(new), level), homes[new], before[new])
        return Activated(*map(np.append, self._replace(scores=updated), added))

    def scores_of(self, entities: np.ndarray) -> np.ndarray:
        """Return the scores of active entities, shape [m]."""
        return self.scores[places_of(self.entities, entities)]


class NameAdjacency(Adjacency):
    """Which passages and names a walk leads to in a database; the number of a name is higher by N than that of its entity."""

    def __init__(self, question: Question, tri: FetchedTriGraph) -> None:
        self.question, self.tri = question, tri

    def degree(self, nodes: np.ndarray) -> Algorithm[np.ndarray]:
        """Return the number of neighbours of each of some nodes, shape [n], as far as it is known."""
        yield from ()
        return self.tri.degree(nodes)

    def neighbors(self, nodes: np.ndarray) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the place of each neighbour's node in `nodes`, the neighbours, and weights, each [T], and of which nodes: [n]."""
        owner, near, mask = yield PassagesAndNames(self.tri, nodes)
        keep = near >= self.question.size
        keep[~keep] = self.question.walked(near[~keep])
        return owner[keep], near[keep], np.ones(np.count_nonzero(keep)), mask


class TriGraphSearch(Operator):
    r"""Rank passages by entities reached from the question sentence by sentence, and a walk that restarts at them.

    The tri-graph has the passages, their sentences and the entities named in them, and no relations: an entity is joined to the
    sentences that mention it (the matrix M of the paper) and to the passages that contain it (C).

    Stage 1, local semantic bridging. Each name in the question activates the entity with the most similar name, by their cosine.
    Activation then spreads from entities to the sentences that mention them, and from there to the other entities of these
    sentences, by the cosine :math:`\sigma_s` of sentence and question:

    .. math:: a_e \leftarrow \max\Bigl(a_e, \max_{s \ni e} \sigma_s \max_{e' \in s} a_{e'}\Bigr)

    An inactive entity becomes active above the threshold; the rounds end when none does.

    Stage 2, global importance aggregation. A walk among passages and entities restarts at active entities, in proportion to a,
    and at passages, in proportion to

    .. math:: b_p = W \Bigl(\lambda \cos(q, p) + \ln\Bigl(1 + \sum_{e \in p} \frac{a_e \ln(1 + N_{ep})}{L_e}\Bigr)\Bigr)

    with :math:`N_{ep}` the number of times that p names e, and :math:`L_e` the round in which e became active, 1 for entities of
    the question.

    Parameters
    ----------
    k : int, optional
        Passages to keep; by default the number of requested hits, at least 100.
    extractor : object, optional
        Finds names in texts and questions; by default by their capitals
        (:func:`~graph_retrievers.signals.entities.as_entity_extractor`). ``retrieve(..., entities=[...])`` passes those of a
        question.
    threshold : float, default 0.4
        The activation that a new entity must exceed (the delta of the paper).
    iterations : int, default 4
        Maximum number of rounds of stage 1.
    damping : float, default 0.5
        Probability of following an edge; the paper has 0.85.
    similarity_weight : float, default 1
        The lambda of the equation.
    passage_weight : float, default 0.05
        The W of the equation.
    passage_type : str, default "passage"
        Node type of passages; if no node has it, all nodes with a text are passages.

    Notes
    -----
    A hit's path leads from passage to passage through the sentences that activated its strongest entity; names replace relations:
    ``0 -["Ada Holm"]- 1``. A question without names is answered by vector search, and a note says so.

    Sentences and names are found and embedded at the first question, and kept with the graph: for 15,000 paragraphs 84,000 names
    and 39,000 sentences, which takes minutes on a CPU. Without an embedding model, only equal names match, and a sentence has the
    cosine of its passage.

    In a database, the sentences and names are those that were written there, by the extractor of then
    (:func:`~graph_retrievers.stores.postgres.write_index`). The walk is pushed as that of
    :class:`~graph_retrievers.systems.pagerank.PersonalizedPageRank`: by similarity, it restarts at the 100 passages most similar to
    the question.

    Departures. The paper adds up all activation of a sentence and an entity, :math:`\max(M^T(\sigma \odot M a), a)`: the
    activation then grows with the number of mentions, above every threshold, and a place that is named everywhere is activated
    most. Here only the largest counts, at both steps. An entity that stage 1 reaches twice keeps its first L. Negative cosines
    count as 0. By default, names are recognised by capitals; the paper uses spaCy's transformer
    (``extractor=spacy.load("en_core_web_trf")``). Equal names, ignoring case and a leading article, match with 1.

    References
    ----------
    Zhuang et al., "LinearRAG: Linear Graph Retrieval Augmented Generation on Large-scale Corpora", ICLR 2026, sections 3.1 and
    3.2. Implemented from its equations as quoted in descriptions of the paper, not from its code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> texts = ["The film stars Ada Holm.", "In Lund, Ada Holm met Otto Veld.", "A mill of Otto Veld.", "A loom."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0.1], [1, 0.5], [0.5, 1], [0, 1]], edges=[])
    >>> hits = Retriever(index, TriGraphSearch(), backfill=False).retrieve("What did Ada Holm do?", vector=[1, 0.2])
    >>> [hit.path.text for hit in hits]
    ['1', '0', '1 -["Otto Veld"]- 2', '3']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    reads = ("entities",)
    # Names join passages, and edges do not.
    walks, follows_names = False, True  # type: ignore[assignment]

    def __init__(
        self,
        k: int | None = None,
        *,
        extractor: Any = None,
        threshold: float = 0.4,
        iterations: int = 4,
        damping: float = 0.5,
        similarity_weight: float = 1.0,
        passage_weight: float = 0.05,
        passage_type: str = "passage",
    ) -> None:
        for name, value in (("threshold", threshold), ("similarity_weight", similarity_weight), ("passage_weight", passage_weight)):
            if not is_number(value) or not 0 <= value <= 1e30:
                raise InvalidArgumentError(f"{name} must be at least 0 and at most 1e30, got {shown(value)}.")
        self.k, self.extractor = None if k is None else positive("k", k), as_entity_extractor(extractor)
        self.threshold, self.iterations = float(threshold), positive("iterations", iterations, least=0)
        self.damping, self.similarity_weight = check_damping("damping", damping), float(similarity_weight)
        self.passage_weight, self.passage_type = float(passage_weight), passage_type

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return passages by their share of the walk; earlier results are not read."""
        tri = self._tri_graph(question)
        keep = min(self.k or max(question.k, 100), question.size)
        entities, cosines = yield EntityMatches(tri, self.extractor)
        if not len(entities):
            question.notes.append(_NO_NAME if tri.has_names else _NO_NAMES)
            nodes, scores = yield Nearest(keep, returned=True)
            return Candidates.seeds(nodes, scores, VectorSearch.name)
        active = yield from self._activated(question, tri, entities, cosines)
        rows, bonus, leading = yield from self._bonus(question, tri, active)
        # Restart: a at entities, b at passages, whose similarities come from _similar or _pushed.
        starts, weights = np.append(active.entities + question.size, rows), np.append(active.scores, self.passage_weight * bonus)
        walk = self._solved if question.in_memory else self._pushed
        nodes, shares = yield from walk(question, tri, starts, weights, keep)
        by = order(shares.astype(np.float32))
        nodes, shares = nodes[by], falling(shares[by])
        trails, relations = yield from _paths(question, tri, active, nodes, rows, leading)
        return Candidates(nodes, shares, trails, np.zeros(len(nodes), np.int64), (self.name,), relations)

    def _tri_graph(self, question: Question) -> Any:
        if question.in_memory:
            return tri_graph(question.index.graph, self.extractor, self.passage_type)
        check_sentences(question.corpus)
        return question.queries.tri_graph(passage_types(question.corpus.facts, self.passage_type))

    def _activated(self, question: Question, tri: AnyTriGraph, entities: np.ndarray, cosines: np.ndarray) -> Algorithm[Activated]:
        """Stage 1: from entities to the sentences that mention them, and from these to their entities."""
        active, fresh = Activated.of(entities, cosines), entities
        for level in range(2, self.iterations + 2):
            sentences = yield MentioningSentences(tri, fresh)
            sentences = sentences.masked(question.walked(sentences.home))
            if not len(sentences.home):
                break
            similar = sentences.cosine
            if question.corpus.embedding is None:
                # Without an embedding model, a sentence has the cosine of its passage.
                similar = yield Similarity(sentences.home)
            # The best entity of each sentence, then the best sentence of each entity.
            entry = np.flatnonzero(places_of(fresh, sentences.entity) >= 0)
            entry = entry[best_of_each(sentences.owner[entry], active.scores_of(sentences.entity[entry]), sentences.entity[entry])]
            origin = sentences.entity[entry]
            strength = np.maximum(similar, 0) * active.scores_of(origin)
            by = best_of_each(sentences.entity, strength[sentences.owner], sentences.owner)
            fresh, owner = sentences.entity[by], sentences.owner[by]
            # MAX, and the pruning of those that were not active.
            place = places_of(active.entities, fresh)
            better = strength[owner] > np.where(place >= 0, active.scores[place], self.threshold)
            fresh, owner = fresh[better], owner[better]
            active = active.raised(fresh, strength[owner], level, sentences.home[owner], origin[owner])
        return active

    def _bonus(
        self, question: Question, tri: AnyTriGraph, active: Activated
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the passages with active entities, the logarithm in b of each, and its strongest entity."""
        owner, entity, counts = yield ContainingPassages(tri, active.entities)
        keep = question.started(owner)
        owner, entity, counts = owner[keep], entity[keep], counts[keep]
        place = places_of(active.entities, entity)
        parts = active.scores[place] * np.log1p(counts) / active.levels[place]
        rows, at = np.unique(owner, return_inverse=True)
        return rows, np.log1p(np.bincount(at, parts, len(rows))), entity[best_of_each(at, parts, entity)]

    def _solved(
        self, question: Question, tri: TriGraph, starts: np.ndarray, weights: np.ndarray, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
        """Stage 2 in memory: the passages and their shares of the walk, solved."""
        transitions = walk_graph(question.queries, Identity(tri), tri.walk)
        spread, best = self.passage_weight * self.similarity_weight, ((_result_mask(question.queries, tri), keep),)
        return (yield Walk(transitions, starts, weights, spread, self._similar, best, self.damping))

    def _pushed(
        self, question: Question, tri: FetchedTriGraph, starts: np.ndarray, weights: np.ndarray, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
        """Stage 2 in a database: the passages and their shares of the walk, as far as it is pushed."""
        if spread := self.passage_weight * self.similarity_weight:
            near, cosines = yield from _nearest_passages(tri.types)
            starts = np.append(starts, near)
            weights = np.append(weights, spread * np.maximum(cosines, 0))
        walk = yield from pushed(starts, weights, self.damping, adjacency=NameAdjacency(question, tri))
        note_error(walk, question.notes)
        nodes, shares = walk.best(len(walk.nodes), walk.nodes < question.size)
        # Nodes are fetched for the filter as far as they are needed.
        kept = np.zeros(0, np.int64)
        for start in range(0, len(nodes), keep):
            if len(kept) < keep:
                kept = np.append(kept, start + np.flatnonzero(question.returned(nodes[start : start + keep])))
        return nodes[kept[:keep]], shares[kept[:keep]]

    def _similar(self, queries: Queries, places: list[int]) -> Tensor:
        """Return cosines of n questions with all passages, 0 for those below, and for entities: Tensor, shape [n, N + E]."""
        tri = tri_graph(queries.index.graph, self.extractor, self.passage_type)
        lengths = queries.index.dense.norms.double() * queries.lengths[places].double().unsqueeze(1)
        cosines = (similarities(queries, places) / lengths.clamp(min=1e-30)).clamp(min=0)
        passages = tri.passages if queries.seeds_allowed is None else tri.passages & queries.seeds_allowed
        return torch.nn.functional.pad(cosines.masked_fill(~passages, 0.0), (0, len(tri.names)))


def check_sentences(corpus: Corpus) -> None:
    """Raise WholeGraphError if texts are in a database that has no sentences of them."""
    if not corpus.has_sentences:
        raise WholeGraphError("the sentences and the names of all texts, which PostgreSQL has after write_index(sentences=True)")


def _nearest_passages(types: tuple[str, ...]) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
    """Return the 100 passages nearest to the question and their cosines, [n] each; nodes without a text are no passages."""
    count = NEAREST
    while True:
        nodes, cosines = yield Nearest(count, types=types)
        texts = yield Texts(nodes)
        place = np.flatnonzero([bool(text.strip()) for text in texts])[:NEAREST]
        if len(place) == NEAREST or len(nodes) < count:
            return nodes[place], cosines[place]
        count *= 4


def _result_mask(queries: Queries, tri: TriGraph) -> Tensor:
    """Return the requested nodes of the walk: passages that may be returned."""
    mask = tri.passages if queries.allowed is None else tri.passages & queries.allowed
    return torch.nn.functional.pad(mask, (0, len(tri.names)))


def _paths(
    question: Question, tri: AnyTriGraph, active: Activated, nodes: np.ndarray, rows: np.ndarray, leading: np.ndarray
) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
    """Return trails and relations of passages: from passage to passage by the names that led to the strongest entity of each.

    `leading`, shape [n], has the strongest entity of the passages `rows`. A path begins after a passage whose text does not show
    by capitals the name that leads on.
    """
    reached = np.flatnonzero(active.before >= 0)
    homes = np.unique(active.homes[reached])
    names, contents = yield EntityNames(tri, active.entities[reached]), Texts(homes)
    name, text = (
        dict(zip(keys.tolist(), values, strict=True)) for keys, values in ((active.entities[reached], names), (homes, contents))
    )
    home, before = (dict(zip(active.entities.tolist(), column.tolist(), strict=True)) for column in (active.homes, active.before))
    strongest = dict(zip(rows.tolist(), leading.tolist(), strict=True))
    trails, relations = list[list[int]](), list[list[int]]()
    for node in nodes.tolist():
        path, steps, entity = [node], list[int](), strongest.get(node, -1)
        while entity >= 0 and before[entity] >= 0:
            if home[entity] != path[0]:
                number = _name_number(text[home[entity]], name[entity])
                if number is None or home[entity] in path:
                    break
                path.insert(0, home[entity])
                steps.insert(0, -2 - number)
            entity = before[entity]
        # A path begins where a traversal may start.
        while steps and not question.started(np.array(path[:1]))[0]:
            del path[0], steps[0]
        trails.append(path)
        relations.append(steps)
    return padded(trails, left=True, least=1), padded(relations, left=True)


def _name_number(text: str, name: str) -> int | None:
    """Return the number of a name among those that a text shows by capitals; None if it is not there."""
    key = entity_key(name)
    keys = map(entity_key, map(without_opening, capitalized_names(text)))
    return next((number for number, other in enumerate(keys) if other == key), None)
