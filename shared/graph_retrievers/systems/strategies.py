"""Eager, MMR and Scored: the traversal strategies of DataStax's graph-retriever, O_vgs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import is_number, number, positive
from graph_retrievers.core.candidates import Candidates, best, falling, order, places_within, stacked
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Contents, Neighbors, Similarity, Vectors
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, Fraction, System

__all__ = ["MMR", "Eager", "Scored"]

Scorer = Callable[[Node, float, int], float]

# The largest score of single precision.
_LARGEST = float(np.finfo(np.float32).max)
# Nodes that are visited at most for each that is selected, where a filter keeps nodes from being selected.
_VISITED = 10
# Scores of MMR nearer to each other than this are equal.
_EQUAL = 1e-6
_NOTE = "the traversal ended after {} nodes, most of which the filter does not allow"


class _Pool:
    """The nodes found for a question, the start first, by their places: 0, 1, ... in the order in which they were found.

    Of several questions as one, it has the nodes of all, and counts for each.
    """

    def __init__(self, question: Question, start: Candidates) -> None:
        self.question, self.start, self.most = question, start, question.k
        self.nodes = start.nodes
        self.depth, self.parent = np.zeros(len(start), np.int64), np.full(len(start), -1)
        self.started, self.is_offered = np.zeros(question.size, bool), np.zeros(question.size, bool)
        self.started[start.nodes] = True
        self.visited, self.scores = np.zeros(0, np.int64), np.zeros(0)
        self.visits, self.selected = np.zeros(question.count, np.int64), np.zeros(question.count, np.int64)

    @property
    def remaining(self) -> np.ndarray:
        """How many nodes are still to be selected for each question; 0 where the search has visited too many for them."""
        return np.where(self.visits >= _VISITED * self.most, 0, np.maximum(self.most - self.selected, 0))

    def counts(self, places: np.ndarray) -> np.ndarray:
        """Return how many of some places each question has."""
        return self.question.counts(self.nodes[places])

    def unfinished(self, places: np.ndarray) -> np.ndarray:
        """Return those of some places, shape [n], whose questions have nodes left to select."""
        groups, unfinished = self.question.owners(self.nodes[places]), self.remaining > 0
        return places[unfinished[np.zeros(len(places), np.int64) if groups is None else groups]]

    def add(self, nodes: np.ndarray, parent: np.ndarray) -> np.ndarray:
        """Add nodes that were reached from places; return their own places."""
        self.nodes, self.parent = np.append(self.nodes, nodes), np.append(self.parent, parent)
        self.depth = np.append(self.depth, self.depth[parent] + 1)
        return np.arange(len(self.nodes) - len(nodes), len(self.nodes))

    def visit(self, places: np.ndarray, scores: np.ndarray) -> None:
        self.visited, self.scores = np.append(self.visited, places), np.append(self.scores, scores)
        self.visits += self.counts(places)
        self.selected += self.counts(places[self.question.returned(self.nodes[places])])

    def result(self, name: str, by: np.ndarray | None = None) -> Candidates:
        """Return the nodes that may be returned, in the order of their visits or in that of `by`."""
        for n in np.flatnonzero((self.visits >= _VISITED * self.most) & (self.selected < self.most)).tolist():
            self.question.note(_NOTE.format(_VISITED * self.most), n)
        places, scores = self.visited, self.scores.astype(np.float32)
        groups = self.question.owners(self.nodes[places])
        if by is None and groups is not None:
            by = np.argsort(groups, kind="stable")
        if by is not None:
            places, scores = places[by], scores[by]
        # A node that is visited and hidden counts, too.
        scores = falling(scores, self.question.owners(self.nodes[places]))
        indices = np.flatnonzero(self.question.returned(self.nodes[places]))
        groups = self.question.owners(self.nodes[places[indices]])
        indices = indices[: self.most] if groups is None else indices[places_within(groups) < self.most]
        # Step by step back to the start.
        origin, steps = places[indices], list[np.ndarray]()
        while (mask := self.parent[origin] >= 0).any():
            steps.insert(0, np.where(mask, self.nodes[origin], -1))
            origin = np.where(mask, self.parent[origin], origin)
        table = np.stack(steps, 1) if steps else np.zeros((len(indices), 0), np.int64)
        return stacked(self.start, origin, table, scores[indices], name)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Traversal(System):
    """Vector search, then nodes in rounds: the best neighbours of those visited in one are found by the next."""

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    start_k: Count = 4
    adjacent_k: Count = 10
    max_depth: Annotated[int | None, partial(positive, least=0)] = None

    def compose(self, index: Corpus) -> Operator:
        """Return vector search followed by the traversal."""
        return Pipeline(VectorSearch(self.start_k, returned=False), self.operator())

    def _expands(self, pool: _Pool, places: np.ndarray) -> np.ndarray:
        """Return which nodes have their neighbours read: bool, of the shape of `places`."""
        return np.ones(len(places), bool) if self.max_depth is None else pool.depth[places] < self.max_depth

    def _neighbors(self, pool: _Pool, visited: np.ndarray) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
        """Find the best neighbours of the nodes at some places, visited in this order: their own places and cosines."""
        # The parent of a node is the least deep of those that lead to it, of several the one visited first.
        sources = visited[self._expands(pool, visited)]
        sources = sources[np.argsort(pool.depth[sources], kind="stable")]
        near = yield Neighbors(pool.nodes[sources])
        fresh = ~pool.is_offered[near.node]
        nodes, first = np.unique(near.node[fresh], return_index=True)
        parent = sources[near.owner[fresh][first]]
        pool.is_offered[nodes] = True
        cosines = yield Similarity(nodes)
        # Among equals those of the lowest rows, as rows ascend.
        by = best(cosines, self.adjacent_k, groups=pool.question.owners(nodes))
        # A start node that a neighbour leads to takes one of the places, as in the original.
        by = by[~pool.started[nodes[by]]]
        return pool.add(nodes[by], parent[by]), cosines[by]


@dataclass(frozen=True, kw_only=True, repr=False)
class Eager(_Traversal):
    """Vector search, then all neighbours layer by layer (breadth first), until enough nodes are selected.

    The index needs vectors.

    Parameters
    ----------
    start_k : int, default 4
        Nodes of vector search at which the traversal starts.
    adjacent_k : int, default 10
        Neighbours found in each round: the best, by cosine with the query, of all nodes visited in the previous round.
    max_depth : int, optional
        Maximum number of edges between a start node and a node that is found; 0 reads no neighbours. No limit by default.

    Notes
    -----
    The `k` of the retriever is the original's `select_k` (default there: 5); if the traversal finds fewer nodes, vector search
    adds more unless the retriever has ``backfill=False``.

    A neighbour is considered for the `adjacent_k` only once: if it is not one of the best then, no later edge finds it. A start
    node takes a place although it was found before. All this is as in the package graph-retriever 0.8.0, with links as edges.

    Departures: edges are followed both ways; ties go to the lower node row; the depth of a node is given by its own edges, while
    the package gives all nodes of a round the depth of the first; an edge from a node to itself is ignored, while in the package
    a start node that links to itself takes a place among its own neighbours; `max_traverse`, which the package declares but does
    not read, is left out. The traversal may pass through nodes that a filter does not allow; it visits at most ten times as many
    nodes as requested, and a note says if that ended the search.

    The score is the cosine minus 2 for each edge from the start, so that it decreases with the layers.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Eager``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> vectors = [[1, 0], [0, 1], [0.8, 0.6]]
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> [hit.path.text for hit in Retriever(index, Eager(start_k=1)).retrieve("loom", vector=[1, 0])]
    ['0', '0 -> 2', '0 -> 1']
    """

    name = "eager"
    finds_less_over = "passages without names"
    batched = True

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes visited; those of `candidates` are the start."""
        pool, new = _Pool(question, candidates), np.arange(len(candidates))
        cosines = yield Similarity(candidates.nodes)
        while len(new) and pool.remaining.any():
            pool.visit(new, cosines - 2 * pool.depth[new])
            new, cosines = yield from self._neighbors(pool, pool.unfinished(new))
        return pool.result(self.name)


@dataclass(frozen=True, kw_only=True, repr=False)
class MMR(_Traversal):
    r"""Vector search, then one node at a time: the one most similar to the query and least to those already visited.

    With V the visited nodes, the score of a node n that is found but not visited is its maximal marginal relevance:

    .. math:: \lambda \cos(q, n) - (1 - \lambda) \max_{v \in V} \cos(n, v).

    The index needs vectors in memory.

    Parameters
    ----------
    start_k, adjacent_k, max_depth
        As for :class:`Eager`, as are the notes.
    lambda_mult : float in [0, 1], default 0.5
        The lambda of the equation: 1 for only similarity, 0 for only diversity.
    min_mmr_score : float, default -inf
        The traversal ends when the best score is below this.

    Notes
    -----
    As in the package, the maximum is 0 if nothing was visited, and at least 0 for the start nodes. The score of a hit is the
    lowest with which it or an earlier node was visited.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Mmr``, https://datastax.github.io/graph-rag. Carbonell and
    Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing summaries", SIGIR 1998.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> vectors = [[1, 0], [1, 0.1], [0.7, -0.7]]
    >>> index = GraphIndex.from_texts(["a loom", "the loom", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> [hit.text for hit in Retriever(index, MMR(start_k=1, lambda_mult=0.4)).retrieve("loom", k=2, vector=[1, 0])]
    ['a loom', 'a mill']
    """

    name = "mmr"
    finds_less_over = "passages"

    lambda_mult: Fraction = 0.5
    min_mmr_score: Annotated[float, partial(number, least=-math.inf, most=math.inf)] = -math.inf

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes visited; those of `candidates` are the start."""
        pool, waits = _Pool(question, candidates), np.ones(len(candidates), bool)
        cosines, vectors = yield Similarity(candidates.nodes), Vectors(candidates.nodes)
        redundancy = np.zeros(len(candidates))  # the largest cosine of each node with one that was visited
        while waits.any() and pool.remaining[0]:
            scores = np.where(waits, self.lambda_mult * cosines - (1 - self.lambda_mult) * redundancy, -math.inf)
            if scores.max() < self.min_mmr_score - _EQUAL:
                break
            # The best; among equals that of the lowest row.
            highest = np.flatnonzero(scores >= scores.max() - _EQUAL)
            now = highest[np.argmin(pool.nodes[highest])][None]
            pool.visit(now, scores[now])
            waits[now] = False
            redundancy = np.maximum(redundancy, vectors @ vectors[now[0]])
            new, near = yield from self._neighbors(pool, now)
            new_vectors = yield Vectors(pool.nodes[new])
            new_cosines = new_vectors @ vectors[pool.visited].T
            redundancy = np.append(redundancy, new_cosines.max(1))
            cosines, vectors = np.append(cosines, near), np.append(vectors, new_vectors, 0)
            waits = np.append(waits, np.ones(len(new), bool))
        return pool.result(self.name)


@dataclass(frozen=True, kw_only=True, repr=False)
class Scored(_Traversal):
    """Vector search, then the nodes with the best scores among all found, in each round as many as are still to be selected.

    The index needs vectors.

    Parameters
    ----------
    start_k, adjacent_k, max_depth
        As for :class:`Eager`, as are the notes.
    scorer : callable, optional
        Maps a node, its cosine with the query and its depth to a number; called once for each node found. By default the cosine.
    per_iteration_limit : int, optional
        Maximum number of nodes to visit in a round; a lower number leads further into the graph.

    References
    ----------
    DataStax, graph-retriever (langchain-graph-retriever), strategy ``Scored``, https://datastax.github.io/graph-rag.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> vectors = [[1, 0], [0, 1], [0.8, 0.6]]
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("0", "2")], vectors=vectors)
    >>> longest = Scored(start_k=1, scorer=lambda node, similarity, depth: similarity + len(node.title or node.text) / 100)
    >>> [hit.text for hit in Retriever(index, longest).retrieve("loom", vector=[1, 0])]
    ['a loom', 'a mill', 'a card']
    """

    name = "scored"
    finds_less_over = "passages without names"

    scorer: Scorer | None = None
    per_iteration_limit: Count | None = None

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes visited, best first; those of `candidates` are the start."""
        pool, waiting = _Pool(question, candidates), np.arange(len(candidates))
        scores = yield from self._scored(pool, waiting, (yield Similarity(candidates.nodes)))
        while len(waiting) and (remaining := int(pool.remaining[0])):
            limit = min(remaining, self.per_iteration_limit or remaining)
            waiting = waiting[order(scores[waiting], pool.nodes[waiting])]
            # Nodes whose neighbours are not read do not count.
            mask = self._expands(pool, waiting)
            now = waiting[np.cumsum(mask) - mask < limit]
            pool.visit(now, scores[now])
            new, cosines = yield from self._neighbors(pool, now)
            scores = np.append(scores, (yield from self._scored(pool, new, cosines)))
            waiting = np.append(waiting[len(now) :], new)
        # By score; equal ones in the order of their visits.
        return pool.result(self.name, order(pool.scores))

    def _scored(self, pool: _Pool, places: np.ndarray, cosines: np.ndarray) -> Algorithm[np.ndarray]:
        if self.scorer is None:
            return cosines
        nodes, scores = (yield Contents(pool.nodes[places])), list[float]()
        for node, cosine, depth in zip(nodes, cosines.tolist(), pool.depth[places].tolist(), strict=True):
            score = self.scorer(node, cosine, depth)
            if not is_number(score) or not abs(score) <= _LARGEST:
                raise InvalidArgumentError(
                    f"scorer gave {shown(score)} for node {node.id!r}; expected a number up to {_LARGEST:.2g}."
                )
            scores.append(float(score))
        return np.array(scores)
