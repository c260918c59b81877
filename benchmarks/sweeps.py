"""Evaluations over the values of a parameter, for the pictures of budgets and of sensitivity."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_retrievers.datasets import Query
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever

__all__ = ["ALPHAS", "BETAS", "BUDGETS", "Sweep", "sweep", "sweep_all"]

BUDGETS = (10, 20, 40, 60, 80, 100)
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, math.inf)

# Retrievers with a limit on the nodes that their relevance model scores, and the name of that parameter.
_BUDGETED = {"re2": "depth", "gar": "budget", "fastinsight": "budget", "path-reranking": "depth"}


@dataclass(frozen=True)
class Sweep:
    """The evaluation of retrievers, named by :meth:`name`, at several values of ``"budget"``, ``"alpha"`` or ``"beta"``."""

    parameter: str
    values: tuple[float, ...]
    evaluation: Evaluation
    retrievers: tuple[str, ...]

    def name(self, retriever: str, value: float) -> str:
        """Return the name of a retriever at a value, such as ``"gar budget=20"``."""
        return _name(retriever, self.parameter, value)


def sweep(
    index: GraphIndex,
    queries: Sequence[Query],
    parameter: str,
    values: Sequence[float],
    retrievers: Sequence[str],
    *,
    k: int = 10,
    **options: Any,
) -> Sweep:
    """Return retrievers (short names) evaluated at several values of ``"budget"``, ``"alpha"`` or ``"beta"``; they share latents.

    `k` and the options are those of :func:`~graph_retrievers.evaluation.harness.evaluate`.
    """
    variants: dict[str, Any] = {}
    for retriever in retrievers:
        keyword = _BUDGETED[retriever] if parameter == "budget" else parameter
        for value in values:
            variants[_name(retriever, parameter, value)] = Retriever(index, {"system": retriever, keyword: value}, k=k)
    evaluation = evaluate(index, queries, variants, k=k, dataset=f"sweep of {parameter}", **options)
    return Sweep(parameter, tuple(values), evaluation, tuple(retrievers))


def sweep_all(
    index: GraphIndex,
    queries: Sequence[Query],
    retrievers: Sequence[str],
    *,
    sample: int = 40,
    timed_queries: int = 5,
    seed: int = 0,
    **options: Any,
) -> dict[str, Sweep]:
    """Return the sweeps of the pictures by parameter: the budget of the retrievers that have one, alpha and beta of FastInsight.

    `sample` queries are used, drawn with `seed`; `timed_queries` of them are timed, only in the sweep of the budget. Retrievers
    are given by short names, and those without the parameter are left out. Options: see :func:`sweep`.
    """
    rows = sorted(random.Random(seed).sample(range(len(queries)), min(sample, len(queries))))
    chosen = [queries[row] for row in rows]
    budgeted = [name for name in retrievers if name in _BUDGETED]
    tuned = [name for name in retrievers if name == "fastinsight"]
    sweeps: dict[str, Sweep] = {}
    for parameter, values, names in (("budget", BUDGETS, budgeted), ("alpha", ALPHAS, tuned), ("beta", BETAS, tuned)):
        if names:
            timed = timed_queries if parameter == "budget" else 0
            sweeps[parameter] = sweep(index, chosen, parameter, values, names, timed_queries=timed, seed=seed, **options)
    return sweeps


def _name(retriever: str, parameter: str, value: float) -> str:
    return f"{retriever} {parameter}={value:g}"
