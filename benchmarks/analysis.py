"""Why a retriever misses relevant nodes, and how this depends on distance in the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

from graph_retrievers.evaluation.metrics import relevant_nodes
from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.evaluation.topological import node_rows, path_costs

__all__ = ["FATES", "fates", "quartiles"]

FATES = {
    "hit": "among the first k",
    "ranked low": "retrieved, but ranked below k",
    "passed over": "not retrieved, but a neighbour of a retrieved node",
    "never reached": "connected to the retrieved nodes, but more than one step away",
    "not connected": "no path leads there from the retrieved nodes, so a larger budget does not help",
}
"""What can happen to a relevant node, and what it means."""


def fates(evaluation: Evaluation, retriever: str, queries: Iterable[str] | None = None) -> Counter[str]:
    """Count what happened to the relevant nodes of some queries (all by default) under a retriever, by the keys of ``FATES``."""
    graph, counts = evaluation.graph, Counter(dict.fromkeys(FATES, 0))
    for query in queries if queries is not None else evaluation.gold:
        result = evaluation.returned[retriever][query]
        top, held = set(result.ids[: evaluation.k]), set(result.candidates) | set(result.ids)
        gold = relevant_nodes(evaluation.gold[query])
        counts["hit"] += len(gold & top)
        counts["ranked low"] += len((gold & held) - top)
        if not gold - held:
            continue
        rows = node_rows(graph, (node for node in sorted(held) if node in graph))
        targets = node_rows(graph, sorted(gold - held))
        for target, cost in zip(targets, path_costs(graph, targets), strict=True):
            if bool((graph.adjacency(rows, target.expand_as(rows)) > 0).any()):
                counts["passed over"] += 1
            else:
                counts["never reached" if bool(torch.isfinite(cost[rows]).any()) else "not connected"] += 1
    return counts


def quartiles(evaluation: Evaluation, first: str) -> list[tuple[str, float, float, list[str]]]:
    """Return the queries in four groups by the Topological Recall of a first search (the name of a retriever).

    Each group is (name, lowest, highest, query ids), lowest first. Queries with the same value stay together, so one group may
    span several quartiles (``"Q3 to Q4"``).
    """
    metric = f"tr@{evaluation.k}"
    values = {query: row[metric] for query, row in evaluation.values[first].items()}
    bounds = torch.quantile(torch.tensor(list(values.values()), dtype=torch.float64), torch.tensor([0.25, 0.5, 0.75]).double())
    groups: dict[int, list[str]] = {}
    for query, value in values.items():
        groups.setdefault(int((bounds < value).sum()), []).append(query)
    places, table = sorted(groups), []
    for place, after in zip(places, [*places[1:], 4], strict=True):
        name = f"Q{place + 1}" if after == place + 1 else f"Q{place + 1} to Q{after}"
        inside = [values[query] for query in groups[place]]
        table.append((name, min(inside), max(inside), groups[place]))
    return table
