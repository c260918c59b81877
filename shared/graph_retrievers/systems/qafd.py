"""QAFD-RAG: query-aware flow diffusion from the nodes that a search found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.core.candidates import Candidates, found_by
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, Similarity
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.index import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.alone import search_finds_more
from graph_retrievers.systems.system import System

__all__ = ["QAFD", "FlowDiffusion"]


class FlowDiffusion(Operator):
    r"""Mass flows from the nodes found before along edges, more of it between nodes like the question, until nodes hold it.

    Each node can hold a mass of 1, its sink capacity. In each round, every node i that holds more sends the rest
    :math:`m_i - 1` to its neighbours, in proportion to the weights of its edges, and adds what it sent to its score:

    .. math:: w'_{ij} = w_{ij} \bigl(1 + b (s_i + s_j)\bigr), \quad s_i = \frac{1 + \cos(q, i)}{2}
    .. math:: x_i \leftarrow x_i + \frac{m_i - 1}{w'_i}, \quad m_j \leftarrow m_j + (m_i - 1) \frac{w'_{ij}}{w'_i}, \quad
        w'_i = \sum_k w'_{ik}

    Parameters
    ----------
    mass : float, default 50.0
        Mass at the start, shared equally by the nodes found before; about as many nodes are reached.
    query_weight : float, default 0.25
        The b of the equation: with 0 the question does not matter.
    rounds : int, default 50
        Most rounds. A connected part of the graph with fewer nodes than its mass never comes to rest.
    epsilon : float, default 0.02
        A node that holds more than 1 by at most this sends nothing.

    Notes
    -----
    The result has the nodes that sent or hold something, by their score, then by the mass that they hold. A path leads along the
    neighbours that first sent mass. Weights of parallel edges are added; edges from a node to itself are left out. Only the
    neighbours of nodes that send are read.

    In the public code one node, drawn at random, sends at a time, 500 times; here all send at the same time. Its capacities grow
    with the degree and sum to 10 over the whole graph, against a mass of 750, so that it never comes to rest; and its scores begin
    with two steps of a lazy random walk. Here capacities are 1, as in the flow diffusion from which it comes, so that only a part
    of the graph is touched.

    References
    ----------
    QAFD-RAG, "Query-Aware Flow Diffusion for Graph-Based RAG", as the paper on spreading activation describes it (section II), and
    its public code; Yang and Fountoulakis, "Weighted Flow Diffusion for Local Graph Clustering with Node Attributes", ICML 2023,
    Algorithm 1.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1"), ("0", "2")], vectors=[[1, 0], [0, 1], [0.8, 0.6]])
    >>> flow = Pipeline(VectorSearch(1, returned=False), FlowDiffusion(3, query_weight=1))
    >>> [(hit.id, round(hit.score, 2)) for hit in Retriever(index, flow, backfill=False).retrieve("?", vector=[1, 0])]
    [('0', 0.4), ('2', 0.05), ('1', 0.0)]
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, mass: float = 50.0, *, query_weight: float = 0.25, rounds: int = 50, epsilon: float = 0.02) -> None:
        for name, value in (("mass", mass), ("query_weight", query_weight), ("epsilon", epsilon)):
            if not is_number(value) or not 0 <= value <= 1e6 or (name != "query_weight" and value == 0):
                raise InvalidArgumentError(f"{name} must be above 0 and at most 1e6 (query_weight may be 0), got {shown(value)}.")
        self.mass, self.query_weight, self.epsilon = float(mass), float(query_weight), float(epsilon)
        self.rounds = positive("rounds", rounds)

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the nodes that mass has reached, by what they sent."""
        held, score = np.zeros(question.size), np.zeros(question.size)
        parent, known = np.full(question.size, -1), np.zeros(question.size, bool)
        held[found.nodes] = self.mass / max(len(found), 1)
        touched = dict.fromkeys(found.nodes.tolist())
        near: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        likeness = np.zeros(question.size)
        for _ in range(self.rounds):
            reached = np.array(list(touched), np.int64)
            sending = np.sort(reached[held[reached] > 1 + self.epsilon])
            new = [node for node in sending.tolist() if node not in near]
            if new:
                yield from self._read(question, np.array(new, np.int64), near, likeness, known)
            sending = np.array([node for node in sending.tolist() if len(near[node][0])], np.int64)
            if not len(sending):
                break
            excess = held[sending] - 1
            held[sending] = 1
            for node, rest in zip(sending.tolist(), excess.tolist(), strict=True):
                nodes, weights = near[node]
                score[node] += rest / weights.sum()
                held[nodes] += rest * weights / weights.sum()
                for other in nodes.tolist():
                    if other not in touched:
                        touched[other], parent[other] = None, node
        nodes = np.sort(np.array(list(touched), np.int64))
        by = nodes[np.lexsort((nodes, -held[nodes].round(9), -score[nodes].round(9)))]
        return found_by(self.name, found, by, score[by], parent[by])

    def _read(
        self,
        question: Question,
        nodes: np.ndarray,
        near: dict[int, tuple[np.ndarray, np.ndarray]],
        likeness: np.ndarray,
        known: np.ndarray,
    ) -> Algorithm[None]:
        """Read the neighbours of nodes with the weights of the edges for the question."""
        edges = yield Edges(nodes)
        ends = np.unique(np.append(nodes, edges.far))
        ends = ends[~known[ends]]
        likeness[ends], known[ends] = (1 + (yield Similarity(ends))) / 2, True
        for place, node in enumerate(nodes.tolist()):
            own = np.flatnonzero((edges.owner == place) & (edges.far != node))
            others, at = np.unique(edges.far[own], return_inverse=True)
            weights = np.bincount(at, edges.weight[own], len(others)).astype(np.float64)
            weights *= 1 + self.query_weight * (likeness[node] + likeness[others])
            near[node] = others[weights > 0], weights[weights > 0]


@dataclass(frozen=True, kw_only=True, repr=False)
class QAFD(System):
    """Search for seeds, then flow diffusion along edges that weigh more between nodes like the question (QAFD-RAG).

    Parameters
    ----------
    seeds : int, default 5
        Seeds taken from the first search.
    mass, query_weight, rounds : float, float and int, default 50.0, 0.25 and 50
        See :class:`~graph_retrievers.systems.qafd.FlowDiffusion`, which also states the departures.
    first : Operator, optional
        Search for seeds; vector search by default. Use entity linking to start at the names in the question.

    References
    ----------
    QAFD-RAG, the comparison of Glybovets and Makarov, "Query-Aware Spreading Activation", section II.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, QAFD()).operator.formula())
    O_vs -> O_vgs
    """

    name = "qafd-rag"

    seeds: int = 5
    mass: float = 50.0
    query_weight: float = 0.25
    rounds: int = 50
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the search for seeds and the flow from them."""
        search = self.first or VectorSearch(positive("seeds", self.seeds), returned=False)
        return Pipeline(search, FlowDiffusion(self.mass, query_weight=self.query_weight, rounds=self.rounds))

    def finds_less(self, index: Corpus) -> bool:
        """Return whether hybrid search is known to find more: over passages whose names do not lead to others."""
        return search_finds_more(index)
