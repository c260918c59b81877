"""Why a retriever misses what it misses, and what closeness in the graph has to do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation.metrics import recall, relevant_nodes
from graph_retrievers.evaluation.results import Evaluation
from graph_retrievers.evaluation.topological import path_costs

__all__ = ["FATES", "correlation", "fates", "quartiles", "recall_gain_correlations"]

FATES = ("hit", "ranked low", "passed over", "never reached", "not connected")
"""What can become of a relevant node, see :func:`fates`."""


def fates(evaluation: Evaluation, retriever: str, queries: Iterable[str] | None = None) -> Counter[str]:
    """Count what became of every relevant node under a retriever.

    Parameters
    ----------
    evaluation : Evaluation
    retriever : str
    queries : iterable of str, optional
        Ids of the queries to count; all by default.

    Returns
    -------
    Counter
        By the words of ``FATES``:

        - ``"hit"``: among the first k;
        - ``"ranked low"``: the retriever held it, and ranked it below k (the reranker's doing);
        - ``"passed over"``: a neighbour of a node that was held, so it stood in the frontier when the budget was
          spent or the search ended;
        - ``"never reached"``: connected to what was held, but farther than a step;
        - ``"not connected"``: no path leads there from what was held, so that no budget would do.
    """
    graph, counts = evaluation.graph, Counter(dict.fromkeys(FATES, 0))
    for query in queries if queries is not None else evaluation.gold:
        result = evaluation.returned[retriever][query]
        top, held = set(result.ids[: evaluation.k]), set(result.found) | set(result.ids)
        gold = relevant_nodes(evaluation.gold[query])
        counts["hit"] += len(gold & top)
        counts["ranked low"] += len((gold & held) - top)
        lost = sorted(gold - held)
        rows = torch.tensor([graph.row(node) for node in sorted(held) if node in graph], dtype=torch.int64, device=graph.device)
        if not lost:
            continue
        targets = torch.tensor([graph.row(node) for node in lost], dtype=torch.int64, device=graph.device)
        costs = path_costs(graph, targets)
        for target, cost in zip(targets, costs, strict=True):
            if bool(graph.adjacent(rows, target.expand_as(rows)).any()):
                counts["passed over"] += 1
            elif bool(torch.isfinite(cost[rows]).any()):
                counts["never reached"] += 1
            else:
                counts["not connected"] += 1
    return counts


def quartiles(evaluation: Evaluation, first: str) -> list[tuple[str, float, float, list[str]]]:
    """Return the queries in four groups by the Topological Recall of a first search.

    Parameters
    ----------
    evaluation : Evaluation
    first : str
        The retriever whose hits are the first search, such as ``"vector"``.

    Returns
    -------
    list of (name, lowest, highest, query ids)
        Lowest first. Queries of the same value stay together, so groups differ in size, and one may span several
        quartiles (``"Q3 to Q4"``).
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


def recall_gain_correlations(evaluation: Evaluation, retriever: str, first: str) -> tuple[float, float] | None:
    r"""Return how Recall and MissTR of a first search correlate with what a retriever then gains.

    The gain is :math:`\Delta R = R_{total} - R@k_{first}`: recall of all that the retriever held in the end, minus
    recall of the first search (FastInsight, section 5.3.1 and Table 6). Recalls are not capped.

    Parameters
    ----------
    evaluation : Evaluation
    retriever, first : str

    Returns
    -------
    (float, float) or None
        Pearson's correlation with Recall and with MissTR; None where one of them, or the gain, does not vary.
    """
    k = evaluation.k
    gains, recalls, misses = [], [], []
    for query, gold in evaluation.gold.items():
        before = evaluation.values[first][query]
        held = evaluation.returned[retriever][query]
        recalls.append(before[f"uncapped-recall@{k}"])
        misses.append(before[f"miss-tr@{k}"])
        gains.append(recall(list(dict.fromkeys(held.found + held.ids)), gold) - recalls[-1])
    pair = correlation(recalls, gains), correlation(misses, gains)
    return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])


def correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return Pearson's correlation of two columns of equal length; None if one does not vary."""
    if len(left) != len(right):
        raise InvalidArgumentError(f"Columns of {len(left)} and {len(right)} values cannot be correlated.")
    if len(left) < 2 or min(stdev(left), stdev(right)) < 1e-12:
        return None
    middle_left, middle_right = fmean(left), fmean(right)
    products = sum((a - middle_left) * (b - middle_right) for a, b in zip(left, right, strict=True))
    return products / ((len(left) - 1) * stdev(left) * stdev(right))
