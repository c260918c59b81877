"""Passages by entities reached from a question sentence by sentence: LinearRAG, O_vgs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates, best_of_each, falling, order
from graph_retrievers.core.chains import padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Request, Similarity
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.names import capitalized_names
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.entities import EntityExtractor, as_entity_extractor, entity_key, without_opening
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems.linear_rag.tri_graph import TriGraph, tri_graph
from graph_retrievers.systems.pagerank import Walk, check_damping, similarities, walk_graph
from graph_retrievers.systems.spreading.linking import named_entities

__all__ = ["EntityMatches", "SentenceSimilarity", "TriGraphSearch"]


_NO_NAME = "the question has no name that is in the texts: vector search alone (pass entities= or another extractor=)"
_NO_NAMES = "no names were found in the texts: vector search alone (capitals tell names, or an extractor= of your own)"


class Activated(NamedTuple):
    """The activation of the E entities of a tri-graph by a question; each of shape [E], the last three int64.

    `scores` is the activation a, 0 for entities that are not active. `levels` is 1 for entities of the question, plus one for
    each sentence on the way; 0 for entities that are not active. `sentences` and `before` are the sentence that first activated
    each entity, and the entity that led to it; -1 for entities of the question and inactive ones.
    """

    scores: np.ndarray
    levels: np.ndarray
    sentences: np.ndarray
    before: np.ndarray

    @property
    def entities(self) -> np.ndarray:
        """The active entities, ascending: [n], int64."""
        return np.flatnonzero(self.levels)


@dataclass(frozen=True, eq=False)
class EntityMatches(Request):
    """The entities of the tri-graph that are most similar to those of the question: ``(entities [n], cosines [n])``, distinct."""

    reads = "signals"
    shared = ("tri", "extractor")
    tri: TriGraph
    extractor: EntityExtractor

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, EntityMatches]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Find the names of all questions; names that no entity has are matched by their vectors, in one search."""
        queries, tri, extractor = backend.queries, requests[0][1].tri, requests[0][1].extractor
        inputs = named_entities(queries.input("entities"), queries.texts)
        name_lists = extractor.names([queries.texts[place] for place, _ in requests])
        names = [
            entities if inputs[place][0] is None else inputs[place][0]
            for (place, _), entities in zip(requests, name_lists, strict=True)
        ]
        other = list(dict.fromkeys(name for mentions in names for name in mentions or () if entity_key(name) not in tri.number))
        nearest = dict[str, tuple[int, float]]()
        if other and tri.names and queries.index.embedding is not None:
            vectors = normalize(queries.embed(other).double(), dim=1)
            cosines, rows = _vectors(queries, tri, "names").search(vectors.float(), 1)
            nearest = dict(zip(other, zip(rows[:, 0].tolist(), cosines[:, 0].tolist(), strict=True), strict=True))
        answers = []
        for mentions in names:
            best = dict[int, float]()
            for name in mentions or ():
                key = entity_key(name)
                entity, cosine = (tri.number[key], 1.0) if key in tri.number else nearest.get(name, (-1, 0.0))
                if entity >= 0 and cosine > 0:
                    best[entity] = max(cosine, best.get(entity, 0.0))
            entities = sorted(best)
            answers.append((np.array(entities, np.int64), np.array([best[entity] for entity in entities])))
        return answers


@dataclass(frozen=True, eq=False)
class SentenceSimilarity(Request):
    """The cosines of the question with sentences of the tri-graph, shape [n]: float64, shape [n]."""

    reads = "signals"
    shared = ("tri",)
    tri: TriGraph
    nodes: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, SentenceSimilarity]]) -> list[np.ndarray]:
        """Return the cosines of all pairs of a question and a sentence."""
        queries = backend.queries
        table = _vectors(queries, requests[0][1].tri, "sentences").vectors
        vectors = normalize(queries.vectors.double(), dim=1)
        return [
            (table[torch.from_numpy(request.nodes).to(table.device)].double() @ vectors[place]).cpu().numpy()
            for place, request in requests
        ]


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
    whole = "the sentences and the names of all texts"
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
        check_damping(damping)
        for name, value in (("threshold", threshold), ("similarity_weight", similarity_weight), ("passage_weight", passage_weight)):
            if not is_number(value) or not 0 <= value <= 1e30:
                raise InvalidArgumentError(f"{name} must be at least 0 and at most 1e30, got {shown(value)}.")
        self.k, self.extractor = None if k is None else positive("k", k), as_entity_extractor(extractor)
        self.threshold, self.iterations = float(threshold), positive("iterations", iterations, least=0)
        self.damping, self.similarity_weight = float(damping), float(similarity_weight)
        self.passage_weight, self.passage_type = float(passage_weight), passage_type

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return passages by their share of the walk; earlier results are not read."""
        queries = question.queries
        tri = tri_graph(question.index.graph, self.extractor, self.passage_type)
        keep = min(self.k or max(question.k, 100), question.size)
        entities, cosines = yield EntityMatches(tri, self.extractor)
        if not len(entities):
            question.notes.append(_NO_NAME if tri.names else _NO_NAMES)
            nodes, scores = yield Nearest(keep, returned=True)
            return Candidates.seeds(nodes, scores, VectorSearch.name)
        active = yield from self._activated(question, tri, entities, cosines)
        rows, bonus, leading = self._bonus(question, tri, active)
        # Restart: a at entities, b at passages, whose similarities come from _similar.
        starts, weights = np.append(active.entities + question.size, rows), np.append(active.scores[active.entities], bonus)
        weights[len(weights) - len(rows) :] *= self.passage_weight
        spread = self.passage_weight * self.similarity_weight
        transitions, best = walk_graph(queries, Identity(tri), tri.walk), ((_result_mask(queries, tri), keep),)
        nodes, shares = yield Walk(transitions, starts, weights, spread, self._similar, best, self.damping)
        by = order(shares.astype(np.float32))
        nodes, shares = nodes[by], falling(shares[by])
        trails, relations = _paths(question, tri, active, nodes, rows, leading)
        return Candidates(nodes, shares, trails, np.zeros(len(nodes), np.int64), (self.name,), relations)

    def _activated(self, question: Question, tri: TriGraph, entities: np.ndarray, cosines: np.ndarray) -> Algorithm[Activated]:
        """Stage 1: from entities to the sentences that mention them, and from these to their entities."""
        active = Activated(np.zeros(len(tri.names)), *(np.full(len(tri.names), value) for value in (0, -1, -1)))
        active.scores[entities], active.levels[entities], fresh = cosines, 1, entities
        for level in range(2, self.iterations + 2):
            owner, sentence = tri.sentences_of(fresh)
            mask = question.walked(tri.home[sentence])
            origin, sentence = fresh[owner[mask]], sentence[mask]
            if not len(sentence):
                break
            sentences, at = np.unique(sentence, return_inverse=True)
            similar = yield from _similarities(question, tri, sentences)
            # The best entity of each sentence, then the best sentence of each entity.
            origin = origin[best_of_each(at, active.scores[origin], origin)]
            strength = np.maximum(similar, 0) * active.scores[origin]
            owner, fresh = tri.entities_of(sentences)
            owner = owner[best_of_each(fresh, strength[owner], owner)]
            fresh, strength = np.unique(fresh), strength[owner]
            # MAX, and the pruning of those that were not active.
            better = strength > np.where(active.levels[fresh] > 0, active.scores[fresh], self.threshold)
            owner, fresh, strength = owner[better], fresh[better], strength[better]
            active.scores[fresh] = strength
            new = active.levels[fresh] == 0
            active.levels[fresh[new]] = level
            active.sentences[fresh[new]], active.before[fresh[new]] = sentences[owner[new]], origin[owner[new]]
        return active

    def _bonus(self, question: Question, tri: TriGraph, active: Activated) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the passages with active entities, the logarithm in b of each, and its strongest entity."""
        entry = np.flatnonzero((active.levels[tri.contents] > 0) & question.started(tri.containers))
        owner, entity = tri.containers[entry], tri.contents[entry]
        parts = active.scores[entity] * np.log1p(tri.counts[entry]) / active.levels[entity]
        rows, at = np.unique(owner, return_inverse=True)
        return rows, np.log1p(np.bincount(at, parts, len(rows))), entity[best_of_each(at, parts, entity)]

    def _similar(self, queries: Queries, places: list[int]) -> Tensor:
        """Return cosines of n questions with all passages, 0 for those below, and for entities: Tensor, shape [n, N + E]."""
        tri = tri_graph(queries.index.graph, self.extractor, self.passage_type)
        lengths = queries.index.dense.norms.double() * queries.lengths[places].double().unsqueeze(1)
        cosines = (similarities(queries, places) / lengths.clamp(min=1e-30)).clamp(min=0)
        passages = tri.passages if queries.seeds_allowed is None else tri.passages & queries.seeds_allowed
        return torch.nn.functional.pad(cosines.masked_fill(~passages, 0.0), (0, len(tri.names)))


def _similarities(question: Question, tri: TriGraph, sentences: np.ndarray) -> Algorithm[np.ndarray]:
    """Return cosines with sentences, without an embedding model those with their passages."""
    if question.corpus.embedding is None:
        return (yield Similarity(tri.home[sentences]))
    return (yield SentenceSimilarity(tri, sentences))


def _result_mask(queries: Queries, tri: TriGraph) -> Tensor:
    """Return the requested nodes of the walk: passages that may be returned."""
    mask = tri.passages if queries.allowed is None else tri.passages & queries.allowed
    return torch.nn.functional.pad(mask, (0, len(tri.names)))


def _vectors(queries: Queries, tri: TriGraph, texts: str) -> DenseIndex:
    """Return the unit vectors of the names or the sentences of a tri-graph; made once for a model."""
    model, graph = queries.index.embedding, queries.index.graph
    assert model is not None

    def make() -> DenseIndex:
        return DenseIndex(embed_corpus(model, getattr(tri, texts)), device=graph.device, metric="cosine")

    return graph.cache.get(("tri-graph vectors", texts, Identity(tri), Identity(model)), make)


def _paths(
    question: Question, tri: TriGraph, active: Activated, nodes: np.ndarray, rows: np.ndarray, leading: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return trails and relations of passages: from passage to passage by the names that led to the strongest entity of each.

    `leading`, shape [n], has the strongest entity of the passages `rows`. A path begins after a passage whose text does not show
    by capitals the name that leads on.
    """
    graph, strongest = question.index.graph, dict(zip(rows.tolist(), leading.tolist(), strict=True))
    trails, relations = list[list[int]](), list[list[int]]()
    for node in nodes.tolist():
        path, steps, entity = [node], list[int](), strongest.get(node, -1)
        while entity >= 0 and active.before[entity] >= 0:
            home = int(tri.home[active.sentences[entity]])
            if home != path[0]:
                number = _name_number(graph.texts[home], tri.names[entity])
                if number is None or home in path:
                    break
                path.insert(0, home)
                steps.insert(0, -2 - number)
            entity = int(active.before[entity])
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
