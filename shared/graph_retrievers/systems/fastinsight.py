"""FastInsight: GRanker and STeX interleaved (An et al., SIGIR 2026)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graph_retrievers.arguments import choice, fraction, is_number, positive
from graph_retrievers.core.candidates import Candidates, best, concatenated, places_within, reached, starts
from graph_retrievers.core.compositions import Loop, Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, EdgesAmong, Mix, Near, Neighbors, Relevance, Scores, Weights
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.path_texts import relevance_texts
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System

__all__ = ["FastInsight", "GRanker", "STeX"]


class STeX(Operator):
    r"""Expand ranked nodes to their neighbours, by structure and similarity: O_vgs.

    A candidate n is a neighbour of the ranked nodes that is not ranked itself. With A(n) the ranked nodes to which it is linked,
    :math:`r_{best}` the best rank among them (1 is first), R the number of ranked nodes and :math:`C = \min(\deg(n), R)`, its
    score is

    .. math:: S_n = v_q \cdot v_n + \beta \left(1 - \frac{r_{best} - 1}{R - 1} + \frac{|A(n)| - 1}{C - 1}\right),

    where the first fraction is dropped (with its 1) for R = 1 and the second for C <= 1. The degree counts distinct
    neighbours in the whole graph. The direction of edges is ignored: line 1 of the paper follows edges one way and line 4
    tests them the other way, so A(n) is never empty only if edges are symmetric.

    Parameters
    ----------
    beta : float, default 1.0
        Score ratio; 0 for only similarity, ``math.inf`` for only structure.
    nodes_per_round : int, default 10
        Candidates added per round.
    budget : int, optional
        Maximum length of a list (hard cap, lines 5 and 6 of Algorithm 1).

    Notes
    -----
    Ties go to the lower node row. Scores of different rounds are not comparable with each other, because R grows, nor with those
    of the search: in a result of STeX, a hit that scores higher than the one above it gets the score of that one.

    References
    ----------
    FastInsight, section 3.4, Algorithm 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")], vectors=[[1], [0], [0]])
    >>> retriever = Retriever(index, Pipeline(BM25Search(1), STeX()), backfill=False)
    >>> [hit.path.text for hit in retriever.retrieve("loom", vector=[1])]
    ['0', '0 -> 1']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    appends = True
    batched = True

    def __init__(self, beta: float = 1.0, *, nodes_per_round: int = 10, budget: int | None = None) -> None:
        if not is_number(beta) or not beta >= 0:
            raise InvalidArgumentError(f"beta must be at least 0 (math.inf for structure alone), got {shown(beta)}.")
        self.beta = float(beta)
        self.nodes_per_round = positive("nodes_per_round", nodes_per_round)
        self.budget = None if budget is None else positive("budget", budget)

    def compares_vectors(self, index: Corpus) -> bool:
        """Return True."""
        return True

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the ranked nodes, followed by the best candidates."""
        new = yield from self.candidates(question, candidates)
        both = question.grouped(concatenated([candidates, new]))
        return both.top(self.budget, question.owners(both.nodes))

    def candidates(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the best `nodes_per_round` candidates: the N_add of the paper, cut."""
        owners = candidates.nodes // question.nodes
        ranked, rank = np.bincount(owners)[owners], places_within(owners)  # R, r_best - 1
        closeness = np.where(ranked > 1, 1 - rank / np.maximum(ranked - 1, 1), 0)
        near, new = (yield Neighbors(candidates.nodes)), np.ones(question.size, bool)
        new[candidates.nodes] = False
        near = near.masked(new.take(near.node))
        # np.unique is many times slower. Owners are in rank order, so the first of a node is its best-ranked one.
        pairs = np.sort(near.node * len(candidates) + near.owner)
        ends = pairs // len(candidates)
        first = starts(ends)
        nodes, leads, linked = ends[first], pairs[first] % len(candidates), np.diff(first, append=len(ends))
        degree, *similarity = yield (Degree(nodes),) if math.isinf(self.beta) else (Degree(nodes), Scores(nodes))
        most = np.minimum(degree, ranked[leads])  # C, at least `linked`
        structure = closeness[leads] + (linked - 1) / np.maximum(most - 1, 1)
        scores = similarity[0] + self.beta * structure if similarity else structure
        # Among equals those of the lowest rows, as rows ascend.
        by = best(scores, self.nodes_per_round, groups=question.owners(nodes))
        return reached(candidates, leads[by], nodes[by], scores[by], self.name)


def propagation(links: Near, weights: np.ndarray, degree: np.ndarray) -> Mix:
    r"""Return :math:`P = \mathrm{diag}(W 1)^{-1} W` with :math:`W = A D^{-1}` (Algorithm 2, lines 4 and 5), shape [n, n].

    `links` and `weights`, shape [T], are A: the edges among n retrieved nodes, each from both ends, with 1 for each or its weight.
    `degree`, shape [n], are the numbers of neighbours, or the sums of weights, by which a neighbour's entry is divided. Rows sum
    to 1; the row of a node without neighbours is zero.

    >>> links = Near(np.array([0, 0, 1, 2]), np.array([1, 2, 0, 0]))
    >>> propagation(links, np.ones(4), np.array([2, 1, 3])).share
    array([0.75, 0.25, 1.  , 1.  ], dtype=float32)
    """
    shares = weights / degree[links.node]
    return Mix(links.owner, links.node, (shares / np.bincount(links.owner, shares)[links.owner]).astype(np.float32))


class GRanker(Operator):
    r"""Rerank nodes by relevance latents smoothed along the edges among them: O_gm.

    One gradient step on the Laplacian-regularised objective :math:`\frac12 \|H' - H\|^2 + \frac\lambda2
    \mathrm{Tr}(H'^\top (I - P) H')` gives :math:`H' = (1 - \alpha) H + \alpha P H`; the head of the relevance
    model turns H' into scores.

    Parameters
    ----------
    alpha : float, default 0.2
        Smoothing factor; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree in D. The paper's text uses that of the subgraph; its line 3 uses that of the whole graph, as does STeX.
    weighted : bool, default False
        Whether A contains the weights of edges, of parallel ones the largest, and D their sums. In the paper A is 0 or 1.
    paths : bool, default False
        Whether the model reads each node together with the node from which it was reached (see
        :func:`~graph_retrievers.search.path_texts.path_texts`); the paper's model reads only the node. A model that asks for
        paths, such as a language model, always gets them.
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    The latent of a (query, node) pair is computed once and kept with the queries. Equal scores keep their order. A node without
    neighbours among the ranked ones keeps its latent, where line 5 of the paper would divide by 0. With ``weighted=True``, 535 of
    1,000 random graphs with weights have other rankings or scores than with the paper's A.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2.

    Examples
    --------
    >>> from graph_retrievers.operators import Pipeline, VectorSearch
    >>> Pipeline(VectorSearch(10), GRanker(alpha=0.3))
    Pipeline(
      VectorSearch(k=10, returned=True, signal='dense'),
      GRanker(alpha=0.3, degree='graph', weighted=False, paths=False),
    )
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH
    asks_relevance = True

    def __init__(
        self,
        alpha: float = 0.2,
        *,
        degree: str = "graph",
        weighted: bool = False,
        paths: bool = False,
        k: int | None = None,
    ) -> None:
        self.alpha, self.degree = fraction("alpha", alpha), choice("degree", degree, ("graph", "subgraph"))
        self.weighted, self.paths = bool(weighted), bool(paths)
        self.k = None if k is None else positive("k", k)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether it takes several questions as one: not with weights, which are read as a matrix of all nodes."""
        return not self.weighted

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the same nodes ordered by ``score(H')``."""
        texts = yield from relevance_texts(question, candidates, self.paths)
        if self.alpha == 0:
            scores = yield Relevance(candidates.nodes, texts=texts, notes=question.notes)
            return candidates.rescored(scores, question.owners(candidates.nodes))
        if self.weighted:
            among, degree = yield Weights(candidates.nodes)
            links = Near(*np.nonzero(among))
            weights = among[links]
        else:
            links, degree = yield EdgesAmong(candidates.nodes), Degree(candidates.nodes)  # A of line 2, D of line 3
            weights = np.ones(len(links.node))
        if self.degree == "subgraph":
            degree = np.bincount(links.owner, weights, len(candidates))
        mix = propagation(links, weights, degree)
        scores = yield Relevance(candidates.nodes, mix, self.alpha, texts, notes=question.notes)  # lines 6 to 8
        return candidates.rescored(scores, question.owners(candidates.nodes))


@dataclass(frozen=True, kw_only=True, repr=False)
class FastInsight(System):
    r"""Vector search, then alternating expansion and graph reranking until the budget is reached (Algorithm 1).

    .. math:: O_{vs} \to O_{gm} \to (O_{vgs} \to O_{gm})^*

    The index needs vectors; its relevance model is a cross-encoder, or the bi-encoder fallback.

    Parameters
    ----------
    budget : int, default 100
        Nodes to retrieve and score, the paper's b_max.
    nodes_per_round : int, default 10
        Nodes of the first search and nodes added per round, the paper's BATCH.
    alpha : float, default 0.2
        Smoothing factor of GRanker.
    beta : float, default 1.0
        Score ratio of STeX.
    first : Operator, optional
        First search; vector search by default, ``HybridSearch(10, returned=False)`` for vector search and BM25 fused.
    degree : {"graph", "subgraph"}, default "graph"
        Degree by which GRanker divides.
    weighted : bool, default False
        Whether GRanker reads the weights of edges; in the paper, an edge counts as 1.
    paths : bool, default False
        Whether the model reads each node together with the node from which it was reached (see
        :class:`~graph_retrievers.systems.fastinsight.GRanker`); the paper's model reads only the node.

    Notes
    -----
    Departures from the published algorithm, so that it ends: the loop stops when a round finds no new node, and the first search
    returns at most `budget` nodes. Vector search fills the result up to k with marked hits (``backfill``).

    References
    ----------
    An, Hyun and Kim, "FastInsight: Fast and Insightful Retrieval via Fusion Operators for Graph RAG", SIGIR 2026,
    section 3.2, Algorithm 1; defaults of section 4.1.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, FastInsight(budget=50)).operator.formula())
    O_vs -> O_gm -> (O_vgs -> O_gm)*
    """

    name = "fastinsight"
    finds_less_over = "passages without names"

    budget: Count = 100
    nodes_per_round: Count = 10
    alpha: float = 0.2
    beta: float = 1.0
    first: Operator | None = None
    degree: str = "graph"
    weighted: bool = False
    paths: bool = False

    def compose(self, index: Corpus) -> Operator:
        """Return Algorithm 1."""
        granker = GRanker(self.alpha, degree=self.degree, weighted=self.weighted, paths=self.paths)
        stex = STeX(self.beta, nodes_per_round=self.nodes_per_round, budget=self.budget)
        return Pipeline(
            self.first or VectorSearch(min(self.nodes_per_round, self.budget), returned=False),  # line 1
            granker,  # line 2
            Loop(stex, granker, budget=self.budget),  # lines 3 to 8
        )
