"""Evaluations over a parameter: what the pictures of budgets and of sensitivity are drawn from."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph_retrievers.datasets import Query
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.results import Evaluation
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.registry import build_retriever

__all__ = ["ALPHAS", "BETAS", "BUDGETS", "Sweep", "sweep", "sweep_all"]

BUDGETS = (10, 20, 40, 60, 80, 100)
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, math.inf)

# The parameter by which a retriever is told how many nodes its relevance model may score.
_BUDGETED = {"re2": "depth", "gar": "budget", "fastinsight": "budget"}


@dataclass(frozen=True)
class Sweep:
    """Retrievers at several values of a parameter, on the same queries.

    Attributes
    ----------
    parameter : str
        ``"budget"``, ``"alpha"`` or ``"beta"``.
    values : tuple of float
    evaluation : Evaluation
        Its retrievers are named :meth:`name`.
    retrievers : tuple of str
        Those that were varied.
    """

    parameter: str
    values: tuple[float, ...]
    evaluation: Evaluation
    retrievers: tuple[str, ...]

    def name(self, retriever: str, value: float) -> str:
        """Return what the evaluation calls a retriever at a value."""
        return _name(retriever, self.parameter, value)


def sweep(
    index: GraphIndex,
    queries: Sequence[Query],
    parameter: str,
    values: Sequence[float],
    retrievers: Sequence[str],
    *,
    k: int = 10,
    timed_queries: int = 0,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = False,
) -> Sweep:
    """Return retrievers evaluated at several values of a parameter; latents are shared by all of them.

    Parameters
    ----------
    index : GraphIndex
    queries : sequence of Query
    parameter : {"budget", "alpha", "beta"}
    values : sequence of float
    retrievers : sequence of str
        Short names.
    k, timed_queries, seed, show_progress
        See :func:`~graph_retrievers.evaluation.harness.evaluate`.
    resume : str or Path, optional
        Folder of an evaluation; results are kept in a folder of the parameter's name below it, latents with its own.
    """
    variants: dict[str, Any] = {}
    for retriever in retrievers:
        keyword = _BUDGETED[retriever] if parameter == "budget" else parameter
        for value in values:
            variants[_name(retriever, parameter, value)] = build_retriever(retriever, index, k=k, **{keyword: value})
    folder = None if resume is None else Path(resume)
    evaluation = evaluate(
        index,
        queries,
        variants,
        k=k,
        timed_queries=timed_queries,
        seed=seed,
        resume=folder and folder / parameter,
        latents=folder and folder / "latents",
        dataset=f"sweep of {parameter}",
        show_progress=show_progress,
    )
    return Sweep(parameter, tuple(values), evaluation, tuple(retrievers))


def sweep_all(
    index: GraphIndex,
    queries: Sequence[Query],
    retrievers: Sequence[str],
    *,
    k: int = 10,
    sample: int = 40,
    timed_queries: int = 5,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = False,
) -> dict[str, Sweep]:
    """Return the sweeps of the report: the budget of those that have one, alpha and beta of FastInsight.

    Parameters
    ----------
    index : GraphIndex
    queries : sequence of Query
        `sample` of them, drawn with `seed`, are used.
    retrievers : sequence of str
        Short names; those without the parameter are left out.
    k, timed_queries, resume, show_progress
        See :func:`~graph_retrievers.evaluation.harness.evaluate`; only the sweep of the budget is timed.
    sample : int, default 40
    seed : int, default 0

    Returns
    -------
    dict of str to Sweep
        By parameter; without those that no retriever has.
    """
    rows = sorted(random.Random(seed).sample(range(len(queries)), min(sample, len(queries))))
    chosen = [queries[row] for row in rows]
    budgeted = [name for name in retrievers if name in _BUDGETED]
    tuned = [name for name in retrievers if name == "fastinsight"]
    plan: list[tuple[str, tuple[float, ...], list[str]]] = [
        ("budget", BUDGETS, budgeted),
        ("alpha", ALPHAS, tuned),
        ("beta", BETAS, tuned),
    ]
    return {
        parameter: sweep(
            index,
            chosen,
            parameter,
            values,
            names,
            k=k,
            timed_queries=timed_queries if parameter == "budget" else 0,
            seed=seed,
            resume=resume,
            show_progress=show_progress,
        )
        for parameter, values, names in plan
        if names
    }


def _name(retriever: str, parameter: str, value: float) -> str:
    return f"{retriever} {parameter}={value:g}"
