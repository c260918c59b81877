"""The results of an evaluation: what was returned for each query, metrics and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from graph_retrievers.datasets import Query
from graph_retrievers.evaluation import metrics
from graph_retrievers.evaluation.metrics import Gold, relevant_nodes
from graph_retrievers.evaluation.ties import tied_hits, tied_reciprocal_rank
from graph_retrievers.evaluation.topological import topological_credit
from graph_retrievers.graph.corpus_graph import CorpusGraph

MULTI_HOP = {"uncapped-recall@2": "Recall@2", "uncapped-recall@5": "Recall@5", "all-recall@5": "All@5"}
"""Metrics that are common in papers on multi-hop questions, and their titles in tables."""
ALL_FIVE = "Recall@2 and Recall@5 are not capped. All@5: the share of questions with all relevant nodes among the first five."
"""Explanation of these for a table."""


def query_metrics(ranking: Sequence[str], gold: Gold, k: int) -> dict[str, float]:
    """Return the metrics of one ranked list, see :mod:`~graph_retrievers.evaluation.metrics`.

    They are ``recall@k`` (capped), ``uncapped-recall@k``, ``ndcg@k``, ``hit@1``, ``hit@k``, and ``mrr`` and ``map`` over the
    first k; and those of :data:`MULTI_HOP` that the first k determine.
    """
    values = {
        f"recall@{k}": metrics.capped_recall(ranking, gold, k),
        f"uncapped-recall@{k}": metrics.recall(ranking, gold, k),
        f"ndcg@{k}": metrics.ndcg(ranking, gold, k),
        "mrr": metrics.reciprocal_rank(ranking, gold, k),
        "map": metrics.average_precision(ranking, gold, k),
        "hit@1": metrics.hit(ranking, gold, 1),
        f"hit@{k}": metrics.hit(ranking, gold, k),
    }
    if k >= 2:
        values["uncapped-recall@2"] = metrics.recall(ranking, gold, 2)
    if k >= 5:
        values |= {"uncapped-recall@5": metrics.recall(ranking, gold, 5), "all-recall@5": metrics.all_recall(ranking, gold, 5)}
    return values


@dataclass(frozen=True)
class Returned:
    """The result of a retriever for one query: at most k nodes and their scores, best first.

    `candidates` are all nodes that its operators found, without the cut to k and without backfill (the first 1000). `notes` are the
    notes of its operators.
    """

    ids: tuple[str, ...]
    scores: tuple[float, ...]
    candidates: tuple[str, ...]
    candidate_scores: tuple[float, ...]
    notes: tuple[str, ...] = ()


@dataclass
class Evaluation:
    """The results of several retrievers on one set of queries, see :func:`~graph_retrievers.evaluation.harness.evaluate`.

    Attributes
    ----------
    dataset, split : str
        Source of the queries.
    k : int
        Number of requested hits; metrics are at k.
    queries : list of Query
        Queries with relevant nodes.
    gold : dict
        Relevant nodes, or a grade for each judged node, by query id.
    returned, costs : dict
        The results of each retriever by query id, and the costs of those timed, see
        :func:`~graph_retrievers.evaluation.costs.measure`.
    graph : CorpusGraph
        The graph that was searched.
    settings, notes : dict and list of str
        Models, seeds and versions; queries left out, returned ids that are not in the graph, notes that operators left on
        questions.
    """

    dataset: str
    split: str
    k: int
    queries: list[Query]
    gold: dict[str, Gold]
    returned: dict[str, dict[str, Returned]]
    graph: CorpusGraph
    costs: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def retrievers(self) -> list[str]:
        """Names of the retrievers, in the order of the evaluation."""
        return list(self.returned)

    @cached_property
    def values(self) -> dict[str, dict[str, dict[str, float]]]:
        """Metrics by retriever, query id and metric name.

        Those of :func:`query_metrics`; ``tr@k`` and ``miss-tr@k`` (Topological Recall by hops, and its part from missed nodes)
        of the first k hits; ``mtrr`` and ``tmhits@k``, the MRR and MHits@k of G-RAG's paper over all relevant nodes and with
        tied ranks, of all nodes that the operators scored, up to 1,000.
        """
        table: dict[str, dict[str, dict[str, float]]] = {name: {} for name in self.retrievers}
        for query, gold in self.gold.items():
            relevant = relevant_nodes(gold)
            tops = {name: self.returned[name][query].ids[: self.k] for name in self.retrievers}
            credit = topological_credit(self.graph, list(tops.values()), relevant)
            for name, parts in zip(self.retrievers, credit, strict=True):
                result = self.returned[name][query]
                table[name][query] = query_metrics(result.ids, gold, self.k) | {
                    f"tr@{self.k}": sum(parts) / len(parts),
                    f"miss-tr@{self.k}": sum(part for part in parts if part < 1) / len(parts),
                    "mtrr": tied_reciprocal_rank(result.candidates, result.candidate_scores, relevant),
                    f"tmhits@{self.k}": tied_hits(result.candidates, result.candidate_scores, relevant, self.k),
                }
        return table

    def column(self, retriever: str, metric: str, queries: Iterable[str] | None = None) -> list[float]:
        """Return one metric of one retriever for each of some queries, by default all."""
        rows = self.values[retriever]
        return [rows[query][metric] for query in (queries if queries is not None else rows)]

    def results(self) -> dict[str, dict[str, float]]:
        """Return mean metrics and costs by retriever."""
        return {
            name: {metric: fmean(self.column(name, metric)) for metric in self.metric_names} | self.costs.get(name, {})
            for name in self.retrievers
        }

    @property
    def metric_names(self) -> list[str]:
        """Names of the metrics of every query."""
        return list(next(iter(next(iter(self.values.values())).values())))

    @property
    def multi_hop(self) -> dict[str, str]:
        """The metrics of :data:`MULTI_HOP` with their titles; none if most queries have one relevant node, or k is below 6.

        With at most five hits, Recall@k says as much.
        """
        several = sum(len(relevant_nodes(gold)) > 1 for gold in self.gold.values())
        return dict(MULTI_HOP) if self.k > 5 and 2 * several > len(self.gold) else {}

    def types(self) -> dict[str, list[str]]:
        """Return the ids of the queries of each type, sorted by type; empty if no query has one."""
        return self._grouped(lambda query: query.type)

    def sources(self) -> dict[str, list[str]]:
        """Return the ids of the queries of each ``source`` (a field of the query's row), sorted; empty if no query has one."""
        return self._grouped(lambda query: str(query.extra.get("source") or ""))

    def _grouped(self, label_of: Callable[[Query], str]) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for query in self.queries:
            if label := label_of(query):
                groups.setdefault(label, []).append(query.id)
        return dict(sorted(groups.items()))

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation in the form of ``evaluate --json``."""
        return {
            "dataset": self.dataset,
            "split": self.split,
            "k": self.k,
            "queries": len(self.queries),
            "results": self.results(),
            "per_query": {name: {query: list(r.ids) for query, r in rows.items()} for name, rows in self.returned.items()},
            "settings": self.settings,
            "notes": self.notes,
        }
