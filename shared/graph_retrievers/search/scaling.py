"""Scores on one scale, so that those of searches can be added."""

from __future__ import annotations

from typing import Any

import numpy as np

from graph_retrievers.core.candidates import Candidates, descending, runs


def level(scores: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return scores, shape [K], in which those that differ only by rounding are equal: each is the highest of its run.

    What is computed of differences of scores would otherwise show the rounding. Scores of different `groups`, shape [K], are not
    compared.

    >>> level(np.array([0.5, 0.9, 0.90000001]))
    array([0.5       , 0.90000001, 0.90000001])
    """
    by = descending(scores, groups)
    run = runs(scores[by], None if groups is None else groups[by])
    if run is None:
        return scores
    equal = np.empty_like(scores)
    equal[by] = scores[by][np.searchsorted(run, run)]
    return equal


def scaled(scores: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return (s - low) / (high - low) for each score s, 0 below `low`: float64, of the shape of `scores`.

    `low` and `high` are numbers, or have one for each score. If they differ only by rounding, scores from `low` on have 1, or 0 if
    both are 0, as nothing matches then.

    >>> scaled(np.array([0.1, 0.25, 0.5]), 0.2, 0.4)
    array([0.  , 0.25, 1.5 ])
    """
    equal = high - low <= 1e-6 * np.maximum(np.abs(high), np.abs(low))
    above = np.maximum((np.asarray(scores, np.float64) - low) / np.where(equal, 1.0, high - low), 0)
    return np.where(equal, np.where(scores >= low, np.not_equal(high, 0), 0.0), above)


def lowest(scores: np.ndarray, depth: int) -> float:
    """Return the similarity, of scores of shape [n], that counts as none: the smallest of the `depth` largest.

    If there are fewer, the missing count as 0, and it is n / `depth` of the smallest, unless that is below 0: the least similar
    of five documents may still be similar.

    >>> lowest(np.array([0.9, 0.5, 0.7, 0.6]), 3), lowest(np.array([0.75, 0.5]), 4)
    (0.6, 0.25)
    """
    if len(scores) >= depth:
        return float(-np.partition(-scores, depth - 1)[depth - 1])
    least = float(scores.min()) if len(scores) else 0.0
    return min(least, least * len(scores) / depth)


def bounds(scores: np.ndarray, depth: int | None, groups: np.ndarray | None) -> tuple[Any, Any]:
    """Return :func:`lowest` of the scores, shape [n], or the smaller of 0 and the smallest for a depth of None, and the largest.

    Of the ascending `groups`, shape [n], each has its own: both have the shape [n] then.
    """
    if groups is None:
        return min(scores.min(), 0.0) if depth is None else lowest(scores, depth), scores.max()
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(scores))
    high, least = np.maximum.reduceat(scores, starts), np.minimum.reduceat(scores, starts)
    if depth is None:
        low = np.minimum(least, 0.0)
    else:
        low = np.minimum(least, least * sizes / depth)
        full = np.flatnonzero(sizes >= depth)
        low[full] = scores[descending(scores, groups)][starts[full] + depth - 1]
    return np.repeat(low, sizes), np.repeat(high, sizes)


def scaled_parts(candidates: Candidates, *, depth: int, from_zero: bool = False, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the scores, of each of the `groups`, scaled to [0, 1], the largest 1: float64, shape [K].

    0 is :func:`lowest` of the first `depth`, so that a longer list scales its first places alike. With `from_zero` it is the score
    0, as for BM25, where a node without any word of the question has it. If all scores are equal, all are 1, or 0 if they are 0.
    """
    if not len(candidates):
        return np.zeros(0)
    scores = level(np.asarray(candidates.scores, np.float64), groups)
    return scaled(scores, *bounds(scores, None if from_zero else depth, groups))
