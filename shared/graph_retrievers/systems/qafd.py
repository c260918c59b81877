"""QAFD-RAG: query-aware flow diffusion from the nodes that a search found (Zhou et al., ICLR 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import number
from graph_retrievers.core.candidates import Candidates, found_by, newly_reached, order, places_of
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Edges, Similarity, Vectors
from graph_retrievers.graph.reachable import leading_to
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System

__all__ = ["QAFD"]

# The weight of a node is the sum of those of its edges: 0 before they are read, and where nothing more can be sent.
_NUMBERS = [(name, np.float64) for name in ("mass", "score", "capacity", "likeness", "weight")]
_NODE = np.dtype([("row", np.int64), ("parent", np.int64), ("read", bool), *_NUMBERS])
_EDGE = np.dtype([("one", np.int64), ("other", np.int64), ("weight", np.float64)])
_EPSILON = 0.02


class _FlowState:
    """The nodes that the flow has reached, in this order, and the edges of those that sent mass, by places of these nodes."""

    def __init__(self) -> None:
        self.nodes, self.edges, self.vectors = np.zeros(0, _NODE), np.zeros(0, _EDGE), np.zeros((0, 0))

    def add(self, rows: np.ndarray, parents: np.ndarray) -> Algorithm[None]:
        """Add nodes, with what the weights of their edges need."""
        cosines, degrees, vectors = yield Similarity(rows), Degree(rows), Vectors(rows)
        new = np.zeros(len(rows), _NODE)
        new["row"], new["parent"] = rows, parents
        new["capacity"], new["likeness"] = np.maximum(degrees, 1), (1 + cosines) / 2
        self.nodes = np.append(self.nodes, new)
        self.vectors = np.concatenate([self.vectors.reshape(-1, vectors.shape[1]), vectors])

    def read(self, places: np.ndarray, query_weight: float) -> Algorithm[None]:
        """Read the edges of nodes with their weights for the question, and add the nodes at the other ends."""
        rows = self.nodes["row"][places]
        links = yield Edges(rows)
        ends, owner = newly_reached(self.nodes["row"], links.owner, links.far)
        if len(ends):
            yield from self.add(ends, rows[owner])
        nodes, one, other = self.nodes, places[links.owner], places_of(self.nodes["row"], links.far)
        similarity = (1 + (self.vectors[one] * self.vectors[other]).sum(1)) / 2
        weight = links.weight * similarity * (1 + query_weight * (nodes["likeness"][one] + nodes["likeness"][other]))
        edges = self.edges = np.append(self.edges, np.rec.fromarrays([one, other, weight], _EDGE)[(weight > 0) & (one != other)])
        nodes["read"][places] = True
        # Nodes from which edges lead to no unread one have all held too much, so they are full.
        leads = leading_to(~nodes["read"], edges["one"], edges["other"])
        nodes["weight"] = leads * np.bincount(edges["one"], edges["weight"], len(nodes))


@dataclass(frozen=True, kw_only=True, repr=False)
class QAFD(System):
    r"""Mass flows from seeds along edges, more of it between nodes like the question, until nodes can hold it (QAFD-RAG).

    A node i can hold a mass of :math:`T_i`, its number of neighbours: its sink capacity. In each round, every node that holds more
    sends the rest to its neighbours, in proportion to the weights of its edges, and its score grows:

    .. math:: \bar w_{ij} = w_{ij}\, s_{ij} \bigl(1 + b (s_{iq} + s_{jq})\bigr), \quad s_{ij} = \frac{1 + \cos(i, j)}{2}, \quad
        \bar w_i = \sum_k \bar w_{ik}
    .. math:: x_i \leftarrow x_i + \frac{m_i - T_i}{\bar w_i}, \quad
        m_j \leftarrow m_j + (m_i - T_i) \frac{\bar w_{ij}}{\bar w_i}, \quad m_i \leftarrow T_i

    Parameters
    ----------
    seeds : int, default 5
        Seeds that vector search finds; not read with `first`.
    mass : float, default 10.0
        Mass of each seed at the start, as a multiple of its capacity: the paper's alpha.
    query_weight : float, default 0.25
        The b of the equation: with 0 the question does not matter.
    rounds : int, default 500
        Maximum number of rounds; a note says if they end before the flow comes to rest.
    first : Operator, optional
        Search for seeds; vector search by default. Use entity linking to start at the names in the question.

    Notes
    -----
    The result has the nodes that hold mass, by their score, then by the mass that they hold, then by row. A path leads along the
    nodes from which each was reached first. A node that holds too much by at most 0.02 sends nothing, as in the public code. A
    round in which some nodes send for the first time asks for their edges, and for the vectors, degrees and similarities of their
    other ends; others ask for nothing.

    The paper's algorithm chooses one of the nodes that hold too much at random; here all send in each round, as with the option
    `batch_push` of the public code, so that results do not depend on chance. The flow at rest is the same.

    The paper has 40 seeds, those most similar to keywords that a language model finds, and starts a flow at each alone. Its code
    for questions of several steps has 5, from which one flow starts, as here.

    Departures: the mass of the paper is 50 times the capacity of the whole graph, which cannot hold it, so that the public code
    stops after 500 nodes have sent; for text-to-SQL, it is 10 times the capacity of the nodes between two seeds. Here it is 10
    times that of each seed, so that only the part of the graph around them is read. If all nodes of a connected part of the graph
    have held too much, it cannot hold its mass, and its flow ends. In the paper, edges have no weights :math:`w_{ij}`; in the
    public code, they take the place of :math:`s_{ij}`; here both are multiplied. Weights of parallel edges are added; edges from a
    node to itself are left out. A node without a vector has a cosine of 0 with all others. The public code also begins scores with
    two steps of a random walk, multiplies their growth by 0.2, and scales all capacities to a sum of 10.

    References
    ----------
    Zhou et al., "Query-Aware Flow Diffusion for Graph-Based RAG with Retrieval Guarantees", ICLR 2026: equation 5c with a = 1
    and b = 1/4, Algorithm 2, and the appendix for the mass; its code, ``flow_diffusion.py`` and ``graph_adapter.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1"), ("0", "2")], vectors=[[1, 0], [0, 1], [0.8, 0.6]])
    >>> retriever = Retriever(index, QAFD(seeds=1, mass=2, query_weight=1), backfill=False)
    >>> [(hit.id, round(hit.score, 2)) for hit in retriever.retrieve("?", vector=[1, 0])]
    [('0', 0.79), ('2', 0.4), ('1', 0.0)]
    """

    name = "qafd-rag"
    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    finds_less_over = "passages without names"

    seeds: Count = 5
    mass: Annotated[float, partial(number, most=1e6, above=True)] = 10.0
    query_weight: Annotated[float, partial(number, most=1e6)] = 0.25
    rounds: Count = 500
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the search for seeds and the flow from them."""
        return Pipeline(self.first or VectorSearch(self.seeds, returned=False), self.operator())

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes that mass has reached, by their scores."""
        state = _FlowState()
        yield from state.add(np.sort(candidates.nodes), np.full(len(candidates), -1))
        state.nodes["mass"] = self.mass * state.nodes["capacity"]
        for _ in range(self.rounds):
            overfull = state.nodes["mass"] > state.nodes["capacity"] + _EPSILON
            new = np.flatnonzero(overfull & ~state.nodes["read"])
            if len(new):
                yield from state.read(new, self.query_weight)
            nodes, edges = state.nodes, state.edges
            # A node whose neighbours may not be visited keeps its mass.
            overfull = (nodes["mass"] > nodes["capacity"] + _EPSILON) & (nodes["weight"] > 0)
            if not overfull.any():
                break
            # Algorithm 2, lines 6 to 14, for all nodes that hold too much.
            growth = np.divide(nodes["mass"] - nodes["capacity"], nodes["weight"], np.zeros(len(nodes)), where=overfull)
            nodes["score"] += growth
            sent = growth[edges["one"]] * edges["weight"]
            nodes["mass"] += np.bincount(edges["other"], sent, len(nodes)) - growth * nodes["weight"]
        else:
            question.notes.append(f"{self.name}: the flow was stopped after {self.rounds} rounds, before it came to rest")
        nodes = np.sort(state.nodes[state.nodes["mass"] > 0], order="row")
        # By mass where scores are equal: results are sorted by their scores.
        nodes = nodes[order(nodes["mass"])]
        return found_by(self.name, candidates, nodes["row"], nodes["score"], nodes["parent"])
