"""Passages by a random walk among phrases and passages, O_gs (HippoRAG 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates, falling, followed, order, places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Nearest, WeightedNeighbors, WithQuery
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.ragged import min_max, slices
from graph_retrievers.index import Corpus
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems.hipporag.fact_linking import PhraseGraph, phrase_graph
from graph_retrievers.systems.pagerank import NEAREST, TransitionGraph, Walk, check_damping, similarities, walk_graph, walk_parents
from graph_retrievers.systems.push import Adjacency, note_error, pushed
from graph_retrievers.systems.traits import passage_types

__all__ = ["PassageWalk", "synonyms"]

_MOST_SYNONYMS, _MOST_NAMES = 101, 100_000
_BLOCK = 1024

_EdgeTensors = tuple[Tensor, Tensor, Tensor]


def synonyms(names: Sequence[str], vectors: Tensor, threshold: float = 0.8) -> _EdgeTensors:
    """Return which names are similar: near, far, shape [E], int64, and their cosines, float32, of at least the threshold.

    Each name has at most the 101 most similar others, and none if it has at most two letters and digits; others may still have it.
    """
    signal = DenseIndex(vectors, metric="cosine", device=vectors.device)
    mask = torch.tensor([len(re.findall(r"[^\W_]", name)) > 2 for name in names])
    parts = []
    for start in range(0, len(names), _BLOCK):
        block = torch.arange(start, min(start + _BLOCK, len(names)))
        block = block[mask[block]].unsqueeze(1).to(vectors.device)
        # One more than wanted, since a name finds itself; among many equal names it may not, and the last is dropped.
        cosines, rows = signal.search(signal.vectors[block[:, 0]], _MOST_SYNONYMS + 1)
        keep = (rows != block) & (rows >= 0)
        keep &= (torch.cumsum(keep, 1) <= _MOST_SYNONYMS) & (cosines >= threshold)
        near, column = keep.nonzero(as_tuple=True)
        parts.append((block[near, 0], rows[near, column], cosines[near, column]))
    near, far, cosines = (torch.cat(column) for column in zip(*parts, strict=True))
    return near, far, cosines


class PhraseAdjacency(Adjacency):
    """Which phrases and passages a walk leads to in a database: a fact counts twice, an edge at a passage once.

    Where every node is both (`passages` is empty), the number of its passage is higher by `shift`, N, than that of its phrase.

    Parameters
    ----------
    question : Question
    passage_type : str
    among_phrases : bool, default False
        Whether the walk leads only to phrases.
    """

    def __init__(self, question: Question, passage_type: str, *, among_phrases: bool = False) -> None:
        self.question, self.among_phrases = question, among_phrases
        self.passages = passage_types(question.corpus.facts, passage_type)
        self.shift = 0 if self.passages else question.size

    def are_passages(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes of the walk, shape [n], are passages: bool, shape [n]."""
        return self.question.typed(nodes, self.passages) if self.passages else nodes >= self.shift

    def degree(self, nodes: np.ndarray) -> Algorithm[np.ndarray]:
        """Return the number of neighbours of each of some nodes, shape [n], about."""
        return (yield Degree(nodes % self.question.size))  # type: ignore[no-any-return]

    def neighbors(self, nodes: np.ndarray) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the place of each neighbour's node in `nodes`, the neighbours, and weights, each [T], and of which nodes: [n]."""
        rows = nodes % self.question.size
        distinct = rows[np.sort(np.unique(rows, return_index=True)[1])]
        near, weights, mask = yield WeightedNeighbors(distinct)
        # A phrase and its passage have the same edges.
        place = places_of(distinct, rows)
        owner, entry = slices(np.searchsorted(near.owner, np.arange(len(distinct) + 1)), place)
        from_passage, far, (forward, backward) = self.are_passages(nodes)[owner], near.node[entry], weights[entry].T
        if self.passages:
            is_fact = ~(from_passage | self.are_passages(far))
            lists = [(owner, far, (forward + backward) * np.where(is_fact, 2, not self.among_phrases))]
        else:
            lists = [(owner, far, np.where(from_passage, forward, 2 * (forward + backward)))]
            if not self.among_phrases:
                # A passage leads to its own phrase, and back.
                own = np.flatnonzero(mask[place] & self.question.walked(rows))
                other = np.where(nodes[own] < self.shift, nodes[own] + self.shift, rows[own])
                lists += [(owner, far + self.shift, np.where(from_passage, 0.0, backward)), (own, other, np.ones(len(own)))]
        owner, far, sums = map(np.concatenate, zip(*lists, strict=True))
        keep = sums > 0
        return owner[keep], far[keep], sums[keep], mask[place]


class PassageWalk(Operator):
    r"""Rank passages by a walk that restarts at weighted phrases, and with a small weight at every passage.

    The restart weight of a node is its score in the previous ranking; a passage adds `passage_weight` times its similarity to the
    question, scaled to [0, 1] over all passages by min-max, or 1 for each if they are equal up to rounding. If the previous
    ranking is empty, passages are ranked only by similarity.

    Parameters
    ----------
    k : int, optional
        Passages to keep; by default the number of requested hits, at least 100.
    damping : float, default 0.5
        Probability of following an edge.
    passage_weight : float, default 0.05
        Restart weight of the passage most similar to the question.
    synonyms : float or None, default 0.8
        Minimum cosine of the names of two phrases for an edge between them; None for no such edges.
    passage_type : str, default "passage"
        Node type of passages; see :func:`~graph_retrievers.systems.hipporag.fact_linking.phrase_graph` for graphs without it.

    Notes
    -----
    The published code counts a fact in both directions and keeps both as edges, so a fact counts with twice its weight, and an
    edge at a passage once. A synonym edge replaces the facts in its direction, with the cosine as its weight; found from both
    ends, it has twice that weight. Rows between the same nodes are added; self loops are dropped. If every node is both phrase
    and passage, the walk has two nodes for each, and the passage's edges lead to its own phrase, with weight 1, and to the
    phrases to which its rows lead. A hit's path follows, node by node, the higher ranked neighbour that sends it most of the
    walk's mass, starting after the last synonym edge.

    Names are titles, or ids of nodes without a title. They are embedded and compared at the first walk, and the edges are kept
    with the graph: for 40,000 phrases this takes a minute or two on two cores. There are no synonym edges without an embedding
    model, or with more than 100,000 phrases; a note says so.

    Departures: ties go to the lower row, not to the higher; letters and digits of all scripts count when short names are left
    out; the walk has a stated tolerance (1e-7 in all). As published, the mass of nodes without edges returns to the restart
    distribution. The seed filter also applies to the restart at passages.

    In a database, the walk is pushed as that of :class:`~graph_retrievers.systems.pagerank.PersonalizedPageRank`: it restarts at
    the 100 passages most similar to the question, scaled to [0, 1] among them. There are no synonym edges, which a note says.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025, section 3; weights and rules are those of the public code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Pipeline, Retriever
    >>> nodes = [Node("p", "Ada wrote a program.", type="passage"), Node("ada", "", "Ada"), Node("engine", "", "Engine")]
    >>> edges = [("p", "ada"), ("ada", "engine", "wrote for")]
    >>> index = GraphIndex.from_nodes(nodes, edges, vectors=[[0.5, 0.5], [1, 0], [0, 1]])
    >>> walk = Retriever(index, Pipeline(VectorSearch(1, returned=False), PassageWalk(1)), backfill=False)
    >>> walk.retrieve("?", vector=[0, 1])[0].path.text
    'Engine <-[wrote for]- Ada <- p'
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(
        self,
        k: int | None = None,
        *,
        damping: float = 0.5,
        passage_weight: float = 0.05,
        synonyms: float | None = 0.8,
        passage_type: str = "passage",
    ) -> None:
        if not is_number(passage_weight) or not 0 <= passage_weight <= 1e30:
            raise InvalidArgumentError(f"passage_weight must be at least 0 and at most 1e30, got {shown(passage_weight)}.")
        self.k, self.passage_weight = None if k is None else positive("k", k), float(passage_weight)
        self.damping, self.synonyms = check_damping("damping", damping), checked_synonyms("synonyms", synonyms)
        self.passage_type = passage_type

    def compares_vectors(self, index: Corpus) -> bool:
        """Return True."""
        return True

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return passages by their share of the walk."""
        keep = min(self.k or max(question.k, 100), question.size)
        if not len(candidates):
            return (yield from similar_passages(question, self.passage_type, keep))
        weights = np.maximum(candidates.scores, 0).astype(np.float64)
        walk = self._solved if question.in_memory else self._pushed
        nodes, parents, shares, is_passage = yield from walk(question, candidates.nodes, weights, keep)
        trails, places = followed(nodes, parents), np.flatnonzero(is_passage)[:keep]
        # Where every node is both a phrase and a passage, the number of its passage is higher by N than that of its phrase.
        rows, trails = nodes[places] % question.size, np.where(trails[places] < 0, -1, trails[places] % question.size)
        trails = along_edges(question, trails)
        return Candidates(rows, shares[places], trails, np.zeros(len(places), np.int64), (self.name,))

    def _solved(
        self, question: Question, phrases: np.ndarray, weights: np.ndarray, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return nodes of the walk, their parents and shares, and which are passages, in a graph in memory."""
        graph = question.index.graph
        parts = phrase_graph(graph, self.passage_type)
        shift = question.size if parts.doubled else 0
        transitions = self._transitions(question, shift)
        # Paths lead through phrases, which are not returned.
        passages, others = graph.cache.get(("passages of the walk", self.passage_type), lambda: _passages_and_others(parts, shift))
        best = (passages, keep), (others, max(keep, 100))
        nodes, shares = yield Walk(transitions, phrases, weights, self.passage_weight, self._passages, best, self.damping)
        by = order(shares.astype(np.float32))
        nodes, shares = nodes[by], falling(shares[by])
        is_passage = nodes >= shift if parts.doubled else ~parts.is_phrase[nodes]
        return nodes, walk_parents(transitions, nodes, shares, phrases), shares, is_passage

    def _pushed(
        self, question: Question, phrases: np.ndarray, weights: np.ndarray, keep: int
    ) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return nodes of the walk, their parents and shares, and which are passages, as far as it is pushed in a database."""
        adjacency = PhraseAdjacency(question, self.passage_type)
        nodes, restart = phrases, weights
        if self.passage_weight:
            near, scores = yield Nearest(NEAREST, types=adjacency.passages)
            low, high = (
                torch.full((1, 1), value, dtype=torch.float64) for value in (scores.min(initial=1), scores.max(initial=-1))
            )
            similar = min_max(torch.from_numpy(scores)[None].double(), low, high)
            nodes = np.append(nodes, near + adjacency.shift)
            restart = np.append(restart, self.passage_weight * similar[0].numpy())
        note_no_synonyms(question, self.synonyms)
        if not restart.any():
            return (np.zeros(0, np.int64),) * 2 + (np.zeros(0), np.zeros(0, bool))
        walk = yield from pushed(nodes, restart, self.damping, adjacency=adjacency)
        note_error(walk, question.notes)
        is_passage = adjacency.are_passages(walk.nodes)
        best = walk.best(keep, is_passage), walk.best(max(keep, 100), ~is_passage)
        nodes, shares = map(np.concatenate, zip(*best, strict=True))
        by = order(shares.astype(np.float32))
        nodes, shares = nodes[by], falling(shares[by])
        return nodes, walk.parents(nodes, phrases), shares, adjacency.are_passages(nodes)

    def _passages(self, queries: Queries, places: list[int]) -> Tensor:
        """Return restart weights by similarity of passages to n questions, 1 for the most similar: shape [n, N] or [n, 2 N]."""
        parts = phrase_graph(queries.index.graph, self.passage_type)
        mask = parts.passages if queries.seeds_allowed is None else parts.passages & queries.seeds_allowed
        similarity = similarities(queries, places)
        low = similarity.masked_fill(~mask, torch.inf).amin(1, keepdim=True)
        high = similarity.masked_fill(~mask, -torch.inf).amax(1, keepdim=True)
        passages = min_max(similarity, low, high).masked_fill(~mask, 0.0)
        return torch.cat([torch.zeros_like(passages), passages], 1) if parts.doubled else passages

    def _transitions(self, question: Question, shift: int) -> TransitionGraph:
        """Return the graph of the walk."""
        edges = self._edges(question)

        def make_graph(walk: Tensor | None) -> TransitionGraph:
            mask = walk.repeat(2) if walk is not None and shift else walk
            return TransitionGraph.of_edges(question.size + shift, *edges, mask)

        return walk_graph(question.queries, Identity(edges), make_graph)

    def _edges(self, question: Question) -> _EdgeTensors:
        """Return sources, targets and weights of the walk's edges."""
        graph = question.index.graph
        phrases = phrase_edges(question, self.passage_type, self.synonyms)

        def make() -> _EdgeTensors:
            parts, near, far = phrase_graph(graph, self.passage_type), graph.sources, graph.targets
            rest = near[~parts.facts], far[~parts.facts], graph.weights[~parts.facts].double()
            if parts.doubled:
                rows, links = torch.arange(len(graph), device=graph.device), near != far
                rest = (
                    torch.cat([near[links], rows]) + len(graph),
                    torch.cat([far[links], rows]),
                    torch.cat([graph.weights[links].double(), torch.ones_like(rows, dtype=torch.float64)]),
                )
            return tuple(map(torch.cat, zip(phrases, rest, strict=True)))  # type: ignore[return-value]

        return graph.cache.get(("walk edges", Identity(phrases)), make)  # type: ignore[no-any-return]


def _passages_and_others(parts: PhraseGraph, shift: int) -> tuple[Tensor, Tensor]:
    """Return which nodes of the walk are passages, and which are not, each bool, shape [N] or [2 N]."""
    passages = torch.nn.functional.pad(parts.passages, (shift, 0))
    return passages, ~passages


def checked_synonyms(name: str, value: float | None) -> float | None:
    """Return the least cosine of synonyms, or None for no synonyms; raise InvalidArgumentError for another value."""
    if value is not None and (not is_number(value) or not 0 < value <= 1):
        raise InvalidArgumentError(f"{name} must be a cosine above 0 and at most 1, or None, got {shown(value)}.")
    return value


def similar_passages(question: Question, passage_type: str, count: int) -> Algorithm[Candidates]:
    """Return the passages most similar to the question, where nothing is known to begin a walk at."""
    facts = question.corpus.facts
    phrases = tuple(name for name in facts.type_names if name != passage_type) if passage_types(facts, passage_type) else ()
    nodes, scores = yield WithQuery(Nearest(count, returned=True), question.text, phrases, returned=True)
    return Candidates.seeds(nodes, scores, VectorSearch.name)


def note_no_synonyms(question: Question, threshold: float | None) -> None:
    """Note that a database has no edges between names that are similar."""
    if threshold is not None:
        question.notes.append("no synonyms are looked for in a database, which has no vectors of names")


def phrase_edges(question: Question, passage_type: str, threshold: float | None) -> _EdgeTensors:
    """Return the edges between phrases, of facts in both directions and of synonyms: sources, targets and weights, shape [E].

    A synonym edge replaces the facts in its direction. A note says if synonyms are not looked for.
    """
    graph, model = question.index.graph, question.index.embedding
    parts = phrase_graph(graph, passage_type)
    use_synonyms = threshold is not None and model is not None
    few = np.count_nonzero(parts.is_phrase) <= _MOST_NAMES
    if use_synonyms and not few:
        question.notes.append(f"no synonyms are looked for among more than {_MOST_NAMES:,} phrases")

    def make() -> _EdgeTensors:
        near, far, weights = (part[parts.facts] for part in (graph.sources, graph.targets, graph.weights.double()))
        edges = torch.cat([near, far]), torch.cat([far, near]), weights.repeat(2)
        if model is None or not (use_synonyms and few):
            return edges
        rows = parts.phrases.nonzero().flatten()
        names = [graph.titles[row] or graph.ids[row] for row in rows.tolist()]
        synonym_edges = synonyms(names, embed_corpus(model, names).to(graph.device), float(threshold or 0))
        synonym_edges = rows[synonym_edges[0]], rows[synonym_edges[1]], synonym_edges[2].double()
        mask = ~torch.isin(edges[0] * len(graph) + edges[1], synonym_edges[0] * len(graph) + synonym_edges[1])
        rest = tuple(part[mask] for part in edges)
        return tuple(map(torch.cat, zip(rest, synonym_edges, strict=True)))  # type: ignore[return-value]

    return graph.cache.get(("phrase edges", Identity(model), threshold, passage_type), make)  # type: ignore[no-any-return]


def along_edges(question: Question, trails: np.ndarray) -> np.ndarray:
    """Return trails, [K, L], from their last step that follows no edge; a node that follows itself is kept once.

    In a database, where no synonyms are looked for, every step follows an edge.
    """
    near, far = trails[:, :-1], trails[:, 1:]
    gone = near < 0
    if question.in_memory:
        graph = question.index.graph
        keys, pair_keys = graph.on_host("edge_keys"), near * len(graph) + far
        mask = (
            keys[np.searchsorted(keys, pair_keys).clip(max=len(keys) - 1)] == pair_keys if len(keys) else np.zeros(near.shape, bool)
        )
        apart = (near >= 0) & (near != far) & ~mask
        # A step that no edge joins, and all before it.
        gone = np.flip(np.cumsum(np.flip(apart, 1), 1), 1) > 0
    trails = np.concatenate([np.where(gone | (near == far), -1, near), trails[:, -1:]], 1)
    return np.take_along_axis(trails, np.argsort(trails >= 0, axis=1, kind="stable"), 1)
