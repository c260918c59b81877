"""GAR: graph-based adaptive reranking (MacAvaney et al., CIKM 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, descending, found_by, order, places_within, runs, starts
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Near, Neighbors, Relevance
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.path_texts import PathTexts, reads_paths
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System

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

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the scored nodes, best first."""
        initial, frontier, size = candidates.nodes, _Frontier(question), question.nodes  # R_0 and F
        balance, paths = np.full(question.count, self.budget), reads_paths(question)
        rounds, turn = list[tuple[np.ndarray, ...]](), 0
        while len(initial) or len(frontier.nodes):
            # Line 5: the best of one pool, by turns.
            pool = frontier.best(self.nodes_per_round) if turn % 2 else initial
            owner = pool // size
            batch = pool[places_within(owner) < np.minimum(self.nodes_per_round, balance)[owner]]
            if len(batch):
                source = frontier.parent[batch] if turn % 2 else np.full(len(batch), -1)
                texts = (yield PathTexts(_stepped(batch, source))) if paths else None
                scores, near = yield Relevance(batch, texts=texts, notes=question.notes), Neighbors(batch)
                rounds.append((batch, scores, source, np.full(len(batch), turn)))
                balance -= question.counts(batch)
                frontier.priority[batch] = inf
                initial, frontier.nodes = (frontier.unscored(pool, balance) for pool in (initial, frontier.nodes))
                frontier.enter(batch, scores, near, balance)  # line 9
            turn += 1
        if not rounds:
            return candidates
        nodes, scores, parents, turns = map(np.concatenate, zip(*rounds, strict=True))
        latest = np.argsort(-turns, kind="stable")
        by = latest[order(scores[latest], groups=question.owners(nodes[latest]))]
        return found_by(self.name, candidates, nodes[by], scores[by], parents[by])


class _Frontier:
    """F: the nodes that were reached and are not scored yet, those of each question in the order in which they entered.

    `priority`, shape [N], is the highest score of the nodes that led to a node, of which `parent` has the first: -inf before it is
    reached, inf once it is scored itself. `lowest` has the lowest score, for each question, that ever added a node.
    """

    def __init__(self, question: Question) -> None:
        self.question, self.nodes = question, np.zeros(0, np.int64)
        self.priority, self.parent = np.full(question.size, -inf, np.float32), np.zeros(question.size, np.int64)
        self.lowest = np.full(question.count, inf)

    def best(self, k: int) -> np.ndarray:
        """Return the `k` nodes of the highest priorities, of each question."""
        return self.nodes[best(self.priority[self.nodes], k, groups=self.question.owners(self.nodes))]

    def unscored(self, nodes: np.ndarray, balance: np.ndarray) -> np.ndarray:
        """Return those of some nodes, shape [n], that are not scored, without those of questions that have no budget `balance`."""
        nodes = nodes[self.priority[nodes] < inf]
        return nodes if balance.all() else nodes[balance[nodes // self.question.nodes] > 0]

    def enter(self, batch: np.ndarray, scores: np.ndarray, near: Near, balance: np.ndarray) -> None:
        """Add the neighbours of nodes, shape [n], that were scored; `balance` has the budget of each question."""
        size = self.question.nodes
        open_scores = np.where(balance[batch // size] > 0, scores, -inf)
        near = near.masked(open_scores[near.owner] > self.priority[near.node])
        if not len(near.node):
            return
        # The best node comes first; a neighbour of several enters by the first of them, which is written last.
        by = np.argsort(self._ranks(batch, scores)[near.owner], kind="stable")
        node, lead = near.node[by], near.owner[by]
        self.parent[node[::-1]] = batch[lead[::-1]]
        firsts = np.flatnonzero(self.parent[node] == batch[lead])
        node, lead = node[firsts], lead[firsts]
        new = self.priority[node] == -inf
        # Of each node that leads to some: the place of its first neighbour, and how many nodes wait before its neighbours enter.
        place = starts(lead)
        leads, before = lead[place], np.cumsum(new)[place] - new[place]
        owner, score = batch[leads] // size, scores[leads]
        waiting = self.question.counts(self.nodes)[owner] + before - before[np.searchsorted(owner, owner)]
        enters = waiting < balance[owner]
        np.minimum.at(self.lowest, owner[enters], score[enters])
        leads_on = np.zeros(len(batch), bool)
        leads_on[leads] = enters | (score >= self.lowest[owner])
        places = np.flatnonzero(leads_on[lead])
        node, lead, new = node[places], lead[places], new[places]
        nodes = np.concatenate([self.nodes, node[new]])
        self.nodes = nodes[np.argsort(nodes // size, kind="stable")]
        self.priority[node] = scores[lead]

    def _ranks(self, nodes: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the rank of each node, shape [n], by descending (score, id), in the order of the questions."""
        groups, ranks = self.question.owners(nodes), np.empty(len(nodes), np.int64)
        by = descending(scores, groups)
        run = runs(scores[by], None if groups is None else groups[by])
        if run is not None:
            ties = np.flatnonzero(np.bincount(run)[run] > 1)
            ids = [self.question.ids[row] for row in (nodes[by[ties]] % self.question.nodes).tolist()]
            by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__, reverse=True))
            by[ties] = by[ties[by_id[np.argsort(run[ties[by_id]], kind="stable")]]]
        ranks[by] = np.arange(len(by))
        return ranks


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

    budget: Count = 100
    nodes_per_round: int = 10
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the first search followed by adaptive reranking."""
        search = self.first or VectorSearch(self.budget, returned=False)
        return Pipeline(search, AdaptiveReranking(self.budget, self.nodes_per_round))
