"""GAR: graph-based adaptive reranking (MacAvaney et al., CIKM 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, found_by, order, places_within
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Neighbors, Relevance
from graph_retrievers.graph.runs import slices
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.search.path_texts import texts_read
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import System

__all__ = ["AdaptiveReranking", "GAR"]


class AdaptiveReranking(Operator):
    """Score batches taken alternately from the first ranking and from the neighbours of high-scoring nodes.

    Even rounds take the best `nodes_per_round` of the first ranking, odd rounds the best of the frontier; an empty pool is
    skipped. A neighbour's priority in the frontier is the highest score of the nodes from which it was reached.

    Parameters
    ----------
    budget : int, default 100
        Nodes to score.
    nodes_per_round : int, default 10
        Nodes scored per round.

    Notes
    -----
    Where the paper is silent, the published code is followed: within a pool, ties go to the node that entered first; a batch
    expands in descending order of (score, node id as text); a node expands only while the frontier contains fewer nodes than
    the budget leaves, or if its score is at least the lowest score that ever added a node; the result is ordered by
    (score, round), descending; in both orders, scores that differ only by rounding are equal. Nodes that were never scored
    are left out: the published code fills up to the budget with those of the first ranking, but none is left below the budget.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, Algorithm 1.

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> print(Pipeline(BM25Search(10), AdaptiveReranking(budget=20)).formula())
    O_vs -> (O_vs, O_gs, O_m)*
    """

    kind = OperatorKind.MODEL_SEARCH
    asks_relevance = True
    # A search by a model in the taxonomy, which takes its candidates from neighbours.
    walks = True  # type: ignore[assignment]
    name = "AdaptiveReranking"
    batched = True

    def __init__(self, budget: int = 100, nodes_per_round: int = 10) -> None:
        self.budget, self.nodes_per_round = positive("budget", budget), positive("nodes_per_round", nodes_per_round)

    def formula(self) -> str:
        """Return the composition: each round searches one pool, scores, and walks one edge."""
        return "(O_vs, O_gs, O_m)*"

    def kinds(self) -> tuple[OperatorKind, ...]:
        """Return the three kinds that a round interleaves."""
        return (OperatorKind.VECTOR_SEARCH, OperatorKind.GRAPH_SEARCH, OperatorKind.MODEL_SEARCH)

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the scored nodes, best first."""
        ids, size = question.ids, question.nodes
        left, lowest = np.full(question.count, self.budget), np.full(question.count, inf)
        initial = np.arange(len(found))  # R_0, as places of the first ranking
        frontier = found.nodes[:0]  # F, in the order in which its nodes entered
        scored, waits = np.zeros(question.size, bool), np.zeros(question.size, bool)
        priority, parent = np.zeros(question.size, np.float32), np.zeros(question.size, np.int64)
        rounds, turn = list[tuple[np.ndarray, ...]](), 0
        while len(initial) or len(frontier):
            # Line 5: the best of one pool, by turns.
            if turn % 2:
                batch = frontier[best(priority[frontier], self.nodes_per_round, groups=frontier // size)]
            else:
                batch = found.nodes[initial]
            owner = batch // size
            room = places_within(owner) < np.minimum(self.nodes_per_round, left)[owner]
            batch, owner = batch[room], owner[room]
            if len(batch):
                source = parent[batch] if turn % 2 else np.full(len(batch), -1)
                texts = yield from texts_read(question, _stepped(batch, source))
                scores, near = yield Relevance(batch, texts=texts, notes=question.heard), Neighbors(batch)
                rounds.append((batch, scores, source, np.full(len(batch), turn)))
                scored[batch] = True
                left -= np.bincount(owner, minlength=question.count)
                goes_on = left > 0
                initial = initial[~scored[found.nodes[initial]] & goes_on[found.nodes[initial] // size]]
                frontier = frontier[~scored[frontier] & goes_on[frontier // size]]
                # Line 9: the neighbours of the batch enter the frontier.
                near = near.kept(~scored[near.node] & goes_on[near.node // size])
                ends = np.searchsorted(near.owner, np.arange(len(batch) + 1))
                by_id = np.array(sorted(range(len(batch)), key=lambda i: ids[batch[i] % size], reverse=True))
                by = by_id[order(scores[by_id], groups=owner[by_id])]
                place, waiting = places_within(owner[by]), np.bincount(frontier // size, minlength=question.count)
                # The neighbours of the first node of each question, then those of the second, ...
                by = by[np.argsort(place, kind="stable")]
                of, entry = slices(ends, by)
                origin, reached = by[of], near.node[entry]
                last = np.cumsum(np.bincount(np.sort(place)[of], minlength=place.max() + 1)).tolist()
                for span in map(slice, [0, *last], last):
                    node, source = reached[span], origin[span]
                    score, of = scores[source], owner[source]
                    enters = (waiting[of] < left[of]) | (score >= lowest[of])
                    if not np.count_nonzero(enters):
                        continue
                    enters &= ~waits[node] | (score > priority[node])
                    node, source, score, of = node[enters], source[enters], score[enters], of[enters]
                    new = ~waits[node]
                    frontier = np.concatenate([frontier, node[new]])
                    waiting += np.bincount(of[new], minlength=question.count)
                    waits[node], priority[node], parent[node] = True, score, batch[source]
                    lowest[of] = np.minimum(lowest[of], score)
            turn += 1
        if not rounds:
            return found
        nodes, scores, parents, turns = map(np.concatenate, zip(*rounds, strict=True))
        latest = np.argsort(-turns, kind="stable")
        by = latest[order(scores[latest], groups=nodes[latest] // size)]
        return found_by(self.name, found, nodes[by], scores[by], parents[by])


def _stepped(nodes: np.ndarray, parents: np.ndarray) -> Candidates:
    """Return nodes with the node that each was reached from, -1 for none, as candidates."""
    return Candidates(nodes, np.zeros(len(nodes)), np.stack([parents, nodes], 1), np.zeros(len(nodes), np.int64))


@dataclass(frozen=True, kw_only=True, repr=False)
class GAR(System):
    """Vector search, then batches alternately from its ranking and from the graph, all scored by one model.

    Parameters
    ----------
    budget : int, default 100
        Nodes to score.
    nodes_per_round : int, default 10
        Nodes scored per round.
    first : Operator, optional
        First search; the `budget` best of vector search by default.

    Notes
    -----
    The defaults are those of FastInsight's comparison (section 4.1); the published code's own defaults are
    1000 and 16. See :class:`~graph_retrievers.systems.gar.AdaptiveReranking` for the rules.

    References
    ----------
    MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> print(Retriever(GraphIndex.from_texts(["a loom"], vectors=[[1]]), GAR()).operator.formula())
    O_vs -> (O_vs, O_gs, O_m)*
    """

    name = "gar"

    budget: int = 100
    nodes_per_round: int = 10
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the first search followed by adaptive reranking."""
        search = self.first or VectorSearch(positive("budget", self.budget), returned=False)
        return Pipeline(search, AdaptiveReranking(self.budget, self.nodes_per_round))
