"""G-Retriever: a prize-collecting Steiner tree as the result, O_gs (He et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import number, positive
from graph_retrievers.core.candidates import LONGEST_TRAIL, Candidates, falling, order
from graph_retrievers.core.chains import Facts, padded
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeScores, NearestEdges, Neighbors, Scores
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.steiner_tree import prize_collecting_steiner_tree
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System

__all__ = ["GRetriever"]

# The c of the published code, by which prizes of less similar edges fall at least; similarities nearer than this are equal.
_FALL, _ROUNDING = 0.01, 1e-6
_EDGES_PER_NODE = 20
_NO_PRIZES = "edges have no prizes, for the index has no signal {!r}; build it with edge_signals=True"
_LIMIT_NOTE = "the subgraph was searched among the {:,} nodes nearest to the nodes and edges that match"


def edge_prizes(similarities: np.ndarray, count: int) -> np.ndarray:
    """Return the prizes of edges by their similarity to the question (-inf: none), as in G-Retriever: float64, shape [m].

    With K the smaller of `count`, 0 or more, and the number of distinct similarities, the edges of the largest similarity share a
    prize of K, those of the next share K - 1 and so on; m equally similar edges get an m-th each. Prizes decrease strictly: each
    is at most 0.99 times that of the more similar ones. Values that differ by only a millionth are equal. The published code
    compares similarities in the same array to which it writes prizes, so that a similarity of 0, or one that equals a prize, may
    get two prizes. Here the two are separate.

    >>> edge_prizes(np.array([0.5, 0.5, 0.5, 0.1, 0.1, 0.3]), 3).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.99]
    """
    values, groups = np.asarray(similarities, np.float64).copy(), list[np.ndarray]()
    prizes = np.zeros(len(values))
    while len(groups) < count and (values > -np.inf).any():
        best = values.max()
        groups.append(values >= best - _ROUNDING * abs(best))
        values[groups[-1]] = -np.inf
    last = float(len(groups))
    for place, group in enumerate(groups):
        prize = min((len(groups) - place) / group.sum(), last)
        prizes[group], last = prize, prize * (1 - _FALL)
    return prizes


@dataclass(frozen=True, kw_only=True, repr=False)
class GRetriever(System):
    r"""The subgraph that connects the nodes and the edges nearest to the question: a prize-collecting Steiner tree.

    .. math:: O_{vs} \to O_{gs}
    .. math:: S^* = \arg\max_{S \text{ connected}} \sum_{n \in S} p(n) + \sum_{e \in S} p(e) - c \, |E_S|

    The i-th of K nodes found before has the prize K - i + 1, and other nodes have none; for edges see :func:`edge_prizes`. An
    edge with a prize above the cost c becomes a node of prize p - c with an edge of cost 0 to both ends; others cost c - p. If
    edges have prizes, c is at most 0.995 times the highest one, so that the most similar edges are worth more than they cost.

    The hits are the nodes of the tree by the sum of their prize and their similarity to the question, each with its path in the
    tree from its best seed. If there are fewer than k, vector search adds more after them (``backfill=False`` of the retriever
    returns only the subgraph); if there are more, the first k are returned.

    The index needs vectors, and ``edge_signals=True`` for prizes on edges.

    Parameters
    ----------
    seeds : int, default 3
        Nodes of vector search that have prizes; not read with `first`.
    seed_edges : int, default 3
        Number of distinct edge similarities that have prizes; the published code uses 5 for WebQSP. With 0, edges have no prizes.
    cost : float, default 0.5
        The c of the equation, above 0; lower if the limit above is lower.
    signal : str, default "edge_dense"
        Signal over the edges that gives their similarity.
    candidates : int, default 1000
        Maximum number of nodes among which the tree is searched.
    facts : bool, default False
        Whether the edges of the subgraph are hits too: additional ones after the k nodes, by prize, then row.
    first : Operator, optional
        Finds the nodes that have prizes; vector search by default.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range, or a signal over nodes.

    Notes
    -----
    ``hits.subgraph()`` is exactly the subgraph with ``facts=True`` and a sufficient k; otherwise it lacks the edges that no path
    follows. ``hits.subgraph().to_csv()`` writes it as published, ``hits.to_context()`` as paths, facts and texts.

    In the published data, each question has a small graph. Here it is replaced by the neighbourhood of the nodes and edges that
    match: all nodes within one edge, two and so on, up to `candidates`. If the last ring does not fit, nodes with two neighbours
    inside come first, then those most similar to the question; a note says so. If there are more than 20 edges per candidate,
    only the most similar are read. Prizes of equally similar edges are split among the edges of the candidates: edges in other
    parts of the graph have no share, however similar. The search takes at most O(n) steps over the edges of n candidates, in
    practice some milliseconds.

    The limit of c is that of the published code since 22 May 2024. Before, c was always the `cost`, and if many edges are equally
    similar and share a prize, such as edges of one relation, the result could be a node without edges.

    The published code embeds only the relation of an edge. Here the vector of an edge is that of its text, or of "source relation
    target" if it has none, so that fewer edges tie; edges whose text is the relation (``Edge(a, b, relation, text=relation)``)
    are read as published.

    Departures: growth is followed by strong pruning; the published code prunes less (``"gw"``), see
    :func:`~graph_retrievers.graph.steiner_tree.prize_collecting_steiner_tree`. Edges at nodes that the traversal filter excludes
    are not used, and edges with an end that may not start a traversal have no prize. Without the signal, no edge has a prize, and
    a note says so.

    References
    ----------
    He et al., "G-Retriever: Retrieval-Augmented Generation for Textual Graph Understanding and Question Answering", NeurIPS 2024,
    section 5.3; the prizes are those of its public code. FastInsight, Example 4.

    Examples
    --------
    >>> from graph_retrievers import Edge, GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada"), Node("engine", "", "Engine"), Node("loom", "", "Loom")]
    >>> edges = [Edge("ada", "engine", "wrote for"), Edge("engine", "loom", "recalls")]
    >>> def embed(texts):
    ...     return [[float("wrote" in text or text == "Ada"), 0.6] for text in texts]
    >>> index = GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True, metric="cosine")
    >>> retriever = Retriever(index, GRetriever(seeds=1, seed_edges=1, facts=True), backfill=False)
    >>> hits = retriever.retrieve("Who wrote for the engine?")
    >>> [(round(hit.score, 2), hit.path.text) for hit in hits.nodes]
    [(1.51, 'Ada'), (0.51, 'Ada -[wrote for]-> Engine')]
    >>> print(hits.subgraph().to_csv())
    node_id,node_attr
    0,Ada
    1,Engine
    <BLANKLINE>
    src,edge_attr,dst
    0,wrote for,1
    """

    name = "g-retriever"
    kind = OperatorKind.GRAPH_SEARCH
    finds_less_over = "passages"
    reads_edge_signals = True

    seeds: Count = 3
    seed_edges: Annotated[int, partial(positive, least=0)] = 3
    cost: Annotated[float, partial(number, most=1e30, above=True)] = 0.5
    signal: str = "edge_dense"
    candidates: Count = 1000
    facts: bool = False
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the search for nodes followed by that for the subgraph."""
        return Pipeline(self.first or VectorSearch(self.seeds, returned=False), self.operator())

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the subgraph; those of `candidates` have prizes."""
        nodes, prized = candidates.nodes, self._prizes_edges(question)
        starts = nodes
        if prized:
            rows, _ = yield NearestEdges(self.seed_edges, self.signal)
            starts = np.concatenate([nodes, *question.ends(rows).T])
        pool, rows, relations = yield from self._candidates(question, starts, prized)
        ends = question.ends(rows)
        if self.seed_edges and not prized and question.corpus.facts.has_edges:
            question.notes.append(_NO_PRIZES.format(self.signal))
        prizes, gains = np.zeros(len(pool)), np.zeros(len(rows))
        prizes[np.searchsorted(pool, nodes)] = np.arange(len(nodes), 0, -1)
        if prized:
            edge_scores = yield EdgeScores(rows, self.signal)
            starts_here = question.named(ends.ravel()).reshape(ends.shape).all(1)
            gains = edge_prizes(np.where(starts_here, edge_scores, -np.inf), self.seed_edges)
        sources, targets = np.searchsorted(pool, ends).T
        places, edge_places = self._tree(sources, targets, prizes, gains)
        scores = prizes[places] + (yield from _similarities(question, pool[places]))
        by, by_gain = order(scores), order(gains[edge_places])
        ranked = pool[places][by]
        trails, relations = _paths(ranked.tolist(), set(starts.tolist()), ends[edge_places], relations[edge_places])
        result = Candidates(ranked, falling(scores[by]), trails, np.zeros(len(by), np.int64), (self.name,), relations)
        result.facts = Facts(rows[edge_places][by_gain], gains[edge_places][by_gain], self.name) if self.facts else None
        return result

    def _prizes_edges(self, question: Question) -> bool:
        if self.seed_edges == 0 or self.signal not in question.signals:
            return False
        if question.corpus.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"GRetriever gives prizes to edges; the signal {self.signal!r} covers nodes.")
        return True

    def _candidates(self, question: Question, starts: np.ndarray, prized: bool) -> Algorithm[tuple[np.ndarray, ...]]:
        """Return the nodes around some nodes, and the edges among them, ascending, with their relations.

        A note says if some are left out.
        """
        mask = np.zeros(question.size, bool)
        mask[starts] = True
        front, cut = np.flatnonzero(mask), False
        room = self.candidates - len(front)
        while len(front) and not cut:
            near = (yield Neighbors(front)).node
            near, count = np.unique(near[~mask[near]], return_counts=True)
            cut = len(near) > room
            if cut:
                by = order((yield from _similarities(question, near)))
                near = near[by[np.argsort(count[by] < 2, kind="stable")]][: max(room, 0)]
            mask[near] = True
            front, room = near, room - len(near)
        pool = np.flatnonzero(mask)
        edges = yield Edges(pool)
        places = np.flatnonzero(mask[edges.far] & question.walked(pool)[edges.owner])
        rows, first = np.unique(edges.row[places], return_index=True)
        relations = edges.relation[places][first]
        most = _EDGES_PER_NODE * self.candidates
        if len(rows) > most:
            edge_scores = (yield EdgeScores(rows, self.signal)) if prized else np.zeros(len(rows))
            places = np.sort(order(edge_scores)[:most])
            rows, relations, cut = rows[places], relations[places], True
        if cut:
            question.notes.append(_LIMIT_NOTE.format(self.candidates))
        return pool, rows, relations

    def _tree(self, sources: np.ndarray, targets: np.ndarray, prizes: np.ndarray, gains: np.ndarray) -> tuple[list[int], list[int]]:
        """Return the chosen nodes and edges of a small graph, ascending; `gains` are the prizes of its edges."""
        highest = gains.max(initial=0.0)
        cost = min(self.cost, highest * (1 - _FALL / 2)) if highest > 0 else self.cost
        size, plain, with_middle = prizes.size, np.flatnonzero(gains <= cost), np.flatnonzero(gains > cost)
        middle = size + np.arange(with_middle.size)
        near = np.concatenate([sources[plain], sources[with_middle], middle])
        far = np.concatenate([targets[plain], middle, targets[with_middle]])
        costs = np.concatenate([cost - gains[plain], np.zeros(2 * with_middle.size)])
        nodes, edges = prize_collecting_steiner_tree(near, far, np.concatenate([prizes, gains[with_middle] - cost]), costs)
        tree_edges = np.union1d(plain[edges[edges < plain.size]], with_middle[nodes[nodes >= size] - size])
        tree_nodes = np.unique(np.concatenate([nodes[nodes < size], sources[tree_edges], targets[tree_edges]]))
        return tree_nodes.tolist(), tree_edges.tolist()


def _similarities(question: Question, nodes: np.ndarray) -> Algorithm[np.ndarray]:
    """Return the similarity of the question and each node, as float64; 0 without vectors."""
    if not question.has_vectors:
        return np.zeros(len(nodes))
    return (yield Scores(nodes)).astype(np.float64)  # type: ignore[no-any-return]


def _paths(nodes: list[int], starts: set[int], ends: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a shortest path along edges to each of some connected nodes, from the first that is a start, and its relations.

    They have the shape of the trails and relations of :class:`~graph_retrievers.core.candidates.Candidates`.
    """
    near: dict[int, list[tuple[int, int]]] = {node: [] for node in nodes}
    for (source, target), relation in zip(ends.tolist(), relations.tolist(), strict=True):
        near[source].append((target, relation))
        near[target].append((source, relation))
    queue = [next((node for node in nodes if node in starts), best) for best in nodes[:1]]
    paths: dict[int, tuple[list[int], list[int]]] = {node: ([node], []) for node in queue}
    for node in queue:
        for other, relation in near[node]:
            if other not in paths:
                trail, steps = paths[node]
                paths[other] = ([*trail, other][-LONGEST_TRAIL:], [*steps, relation][1 - LONGEST_TRAIL :])
                queue.append(other)
    return padded([paths[node][0] for node in nodes], left=True, least=1), padded([paths[node][1] for node in nodes], left=True)
