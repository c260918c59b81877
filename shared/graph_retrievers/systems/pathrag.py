"""PathRAG: flow-pruned relational paths between the entities of a question (Chen et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from graph_retrievers.arguments import choice
from graph_retrievers.core.candidates import Candidates, along, best, concatenated, order
from graph_retrievers.core.chains import Chains
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Neighbors
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.round_robin import RoundRobin, turns
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.lightrag.gathering import ChunkGathering
from graph_retrievers.systems.lightrag.keywords import KeywordSearch
from graph_retrievers.systems.system import Count, Fraction, System
from graph_retrievers.systems.traits import passage_types

__all__ = ["PathRAG"]

# Paths of two and of three steps of one question, and edges read for those of three.
_MOST_PATHS, _MOST_EDGES = 1 << 18, 1 << 20
_NOTE = "not all paths were looked at, as there are too many"


class _Paths(NamedTuple):
    """Paths of one to three steps: node rows [P, 4], -1 pads on the right, and the ranks of start and end among the seeds, [P]."""

    nodes: np.ndarray
    start: np.ndarray
    end: np.ndarray


@dataclass(frozen=True, kw_only=True, repr=False)
class PathRAG(System):
    r"""Entities by low-level keywords, and the most reliable paths of up to three steps between any two of them.

    .. math:: O_{vs} \to O_{gs}

    For a start s and an end t among the entities, all simple paths of one to three steps from s to t form a graph, in which
    :math:`F(u)` are the nodes that follow u on some path. A resource of 1 flows from s:

    .. math::
        r_1(s, b) = \frac{1}{|F(s)|}, \qquad
        r_2(b, c) = \frac{\alpha\, r_1(s, b)}{|F(b)|} \;\text{ if } r_1(s, b) > \theta,\; b \ne t, \qquad
        r_3(c, d) = \sum_{b:\, r_2(b, c) > \theta} \frac{\alpha\, r_2(b, c)}{|F(c)|} \;\text{ if } c \ne t,

    each over the following nodes. The resource of an edge is the sum over the three levels, and the reliability of a path is the
    mean of the resources of its edges, 0 for an edge that no resource reaches.

    A hit's path is the most reliable path that contains it, up to the hit. :meth:`~graph_retrievers.hits.Hits.to_context` lists
    the most reliable path last, as published, because language models overlook the middle of a prompt. The index needs vectors.

    Parameters
    ----------
    top_k : int, default 40
        Number of entities to search.
    paths : int, default 15
        Paths to keep. Of paths through the same nodes, in any order, only the most reliable counts.
    alpha : float in [0, 1], default 0.8
        Decay of the resource from one step to the next.
    theta : float in [0, 1], default 0.3
        A resource of at most this value does not flow on.
    chains : {"path", "hits"}, default "path"
        ``"hits"``: the paths are also hits, of kind "chain" and scored by their reliability, after the k nodes.
    language_model : object, optional
        Finds the keywords of a question, see :class:`~graph_retrievers.systems.lightrag.retriever.LightRAG`.
    threshold : float, default 0.2
        Cosine that entities must exceed.
    passage_type : str, default "passage"
        Node type of chunks, as for LightRAG. No path enters a chunk; those of the entities are ranked first.

    Notes
    -----
    The published system gives a model a list of entities and a list of paths; the single ranking here alternates between the
    entities, in order of similarity, and the nodes of the paths, starting with an entity: best path first, in the order of the
    path. The n-th node scores 1 / n. Equally reliable paths are ordered by the rank of their start, then of their end, then by
    length, then by node rows. If chunks are separate nodes, the chunks of all these come first: of n with chunks, the
    ``5 * n // 2`` most similar to the question. ``retrieve`` takes ``keywords={"low_level_keywords": [...]}``; without them and
    without a language model, the question itself is searched. The published system also shows the model the relations found by
    high-level keywords, which are those of ``LightRAG(mode="global", facts=True)``.

    Departures from the published code. It adds resources up while iterating over sets, so that they depend on the order of a set;
    here they are added level by level. It also limits the paths to half of all existing paths, which has no effect in an
    undirected graph, where each path is found from both ends. It enumerates all paths by depth-first search. Here, the work for a
    question is limited: middle nodes with few neighbours come first, and the search reads at most 262,144 paths of two steps,
    262,144 paths of three steps, and 1,048,576 edges between neighbours of ranked nodes; if a limit cuts paths off, a note says
    so.

    References
    ----------
    Chen et al., "PathRAG: Pruning Graph-based Retrieval Augmented Generation with Relational Paths", arXiv:2502.14902, 2025,
    and its code, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> embed = lambda texts: [[float("loom" in text), float("card" in text)] for text in texts]
    >>> edges = [("0", "1", "woven on"), ("1", "2", "drives")]
    >>> index = GraphIndex.from_texts(["a loom", "cloth", "a card"], edges=edges, embedding=embed)
    >>> hits = Retriever(index, PathRAG(chains="hits"), backfill=False).retrieve("Does the loom need a card?")
    >>> [hit.path.text for hit in hits.nodes]
    ['0', '0 -[woven on]-> 1 -[drives]-> 2', '0 -[woven on]-> 1']
    >>> [(hit.text, round(hit.score, 3)) for hit in hits.chains]
    [('0 -[woven on]-> 1 -[drives]-> 2', 0.9)]
    """

    name = "pathrag"
    kind = OperatorKind.GRAPH_SEARCH
    finds_less_over = "passages"

    top_k: Count = 40
    paths: Count = 15
    alpha: Fraction = 0.8
    theta: Fraction = 0.3
    chains: Annotated[str, partial(choice, choices=("path", "hits"))] = "path"
    language_model: Any = None
    threshold: float = 0.2
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return the search for entities, the paths between them and their chunks."""
        chunks = self._chunk_types(index)
        search = VectorSearch(self.top_k, returned=False)
        entities = KeywordSearch(search, "low", extractor=self.language_model, threshold=self.threshold, exclude_types=chunks)
        gathering = [RoundRobin(ChunkGathering(chunk_types=chunks))] if chunks else []
        return Pipeline(entities, self.operator(), *gathering)

    def operator(self) -> Operator:
        """Return the search for paths between the nodes found before; the language model finds keywords, and is not asked here."""
        return System.operator(replace(self, language_model=None))

    def _chunk_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the node type of chunks; none if every node is an entity and its own chunk."""
        return passage_types(index.facts, self.passage_type)

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the entities and the nodes of the best paths alternately."""
        paths = yield from self._between(question, candidates.nodes)
        scores = self._reliability(paths, candidates.nodes, question.size)
        places = self._best_places(paths, scores)
        best_paths = Chains(paths.nodes[places], scores[places], self.name, rising=True)
        on_paths = along(best_paths)
        on_paths.columns = {"trail_scores": on_paths.scores}
        results = concatenated([on_paths, candidates]).taken(turns([on_paths.nodes, candidates.nodes], [1, 0]))
        chains = best_paths if self.chains == "hits" else results.chains
        return replace(results, scores=1 / np.arange(1, len(results) + 1), chains=chains)

    def _between(self, question: Question, seeds: np.ndarray) -> Algorithm[_Paths]:
        """Return all simple paths of one to three steps from one of the seeds to another."""
        chunks = self._chunk_types(question.corpus)
        near = yield Neighbors(seeds)
        near = near.masked(~question.typed(near.node, chunks))
        by = np.argsort(near.node, kind="stable")
        rank, node = near.owner[by], near.node[by]
        # The seeds at the i-th middle node are those of the entries from first[i] on, counts[i] of them.
        middle, first, counts = np.unique(node, return_index=True, return_counts=True)
        degree = yield Degree(middle)
        by_degree, place = np.argsort(degree, kind="stable"), np.full(question.size, -1)
        # Edges between middle nodes: those of few neighbours are read first, and an edge is found if one of its ends is read.
        read_places, unread = _first(by_degree, degree, _MOST_EDGES)
        around = yield Neighbors(middle[read_places])
        place[middle] = np.arange(len(middle))
        entries = np.flatnonzero(place[around.node] >= 0)
        one, other = read_places[around.owner[entries]], place[around.node[entries]]
        edges = np.unique(np.append(one * len(middle) + other, other * len(middle) + one))
        one, other = np.divmod(edges, max(len(middle), 1))

        # Two seeds at one middle node, or at the ends of an edge, make a path of two or of three steps.
        two, cut = _first(by_degree, counts * counts, _MOST_PATHS)
        three, rest = _first(np.argsort(degree[one] + degree[other], kind="stable"), counts[one] * counts[other], _MOST_PATHS)
        parts = []
        for near_start, near_end in ((two, two), (one[three], other[three])):
            start, end, at = _pairs(first, counts, near_start, near_end)
            parts.append((rank[start], rank[end], middle[near_start[at]], middle[near_end[at]]))
        if cut or rest or unread:
            question.notes.append(_NOTE)
        start, end, b, c = map(np.concatenate, zip(*parts, strict=True))
        s, t = seeds[start], seeds[end]
        enterable = question.walked(seeds) & ~question.typed(seeds, chunks)
        simple = np.flatnonzero((s != t) & (b != s) & (b != t) & (c != s) & (c != t) & enterable[end])
        nodes = np.stack([s, b, np.where(b == c, t, c), np.where(b == c, -1, t)], 1)

        place[middle], place[seeds] = -1, np.arange(len(seeds))
        step = np.flatnonzero(place[node] >= 0)
        direct = np.stack([seeds[rank[step]], node[step], *np.full((2, len(step)), -1)], 1)
        start, end = np.append(start[simple], rank[step]), np.append(end[simple], place[node[step]])
        return _Paths(np.concatenate([nodes[simple], direct]), start, end)

    def _reliability(self, paths: _Paths, seeds: np.ndarray, size: int) -> np.ndarray:
        """Return the mean resource of the edges of each path: float64, shape [P]."""
        real = paths.nodes[:, 1:] >= 0
        pair = paths.start * len(seeds) + paths.end
        # The nodes of the paths of each pair that have followers, the edges to these, and their number.
        nodes, at = np.unique((pair[:, None] * size + paths.nodes[:, :-1])[real], return_inverse=True)
        edges, edge = np.unique(at * size + paths.nodes[:, 1:][real], return_inverse=True)
        near, far = np.divmod(edges, size)
        pair, node = np.divmod(nodes, size)
        share = (1 / np.bincount(near, minlength=len(nodes)))[near]
        going = far != seeds[pair % len(seeds)][near]
        onward = np.searchsorted(nodes, pair[near] * size + far)
        # r_1, r_2 and r_3 of each edge.
        amounts = np.where((node == seeds[pair // len(seeds)])[near], share, 0.0)
        resources = amounts.copy()
        for _ in range(2):
            flows = np.flatnonzero(going & (amounts > self.theta))
            amounts = self.alpha * np.bincount(onward[flows], amounts[flows], len(nodes))[near] * share
            resources += amounts
        return np.bincount(np.nonzero(real)[0], resources[edge], len(real)) / real.sum(1)

    def _best_places(self, paths: _Paths, scores: np.ndarray) -> list[int]:
        """Return the places of the best paths; of those through the same nodes, in any order, only the first."""
        if not len(scores):
            return []
        # Four nodes have 24 orders: among 24 times as many paths as are wanted, enough have different nodes.
        least = scores[best(scores, min(24 * self.paths, len(scores)))[-1]]
        near = np.flatnonzero(scores >= least - 2e-6 * abs(least))
        # Paths with equal scores are ordered by the rank of their start, then of their end, then by length, then by rows.
        rows = paths.nodes[near]
        near = near[np.lexsort((*rows.T[::-1], (rows >= 0).sum(1), paths.end[near], paths.start[near]))]
        node_sets, places = set[frozenset[int]](), list[int]()
        for place in near[order(scores[near])].tolist():
            if len(places) == self.paths:
                break
            if (through := frozenset(paths.nodes[place].tolist())) not in node_sets:
                node_sets.add(through)
                places.append(place)
        return places


def _first(places: np.ndarray, costs: np.ndarray, most: int) -> tuple[np.ndarray, bool]:
    """Return the first of some places whose costs add up to at most `most`, and whether others remain."""
    head = places[np.cumsum(costs[places]) <= most]
    return head, len(head) < len(places)


def _pairs(first: np.ndarray, counts: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return all pairs of an entry of list ``left[i]`` and one of list ``right[i]``: both entries, and i, each [T]."""
    sizes = counts[left] * counts[right]
    at = np.repeat(np.arange(len(left)), sizes)
    one, other = np.divmod(np.arange(len(at)) - (np.cumsum(sizes) - sizes)[at], counts[right][at])
    return first[left][at] + one, first[right][at] + other, at
