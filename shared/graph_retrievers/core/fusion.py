"""Fusion: combine several rankings of the same question into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from graph_retrievers.core.candidates import Candidates, concatenated, falling, order, places_of, places_within
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["fused"]


def list_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return `weights` if they are `count` numbers, 0 or from 1e-30 to 1e30, not all 0; raise InvalidArgumentError otherwise."""
    values = tuple(weights) if isinstance(weights, Sequence) and not isinstance(weights, str) else ()
    # Products of larger or smaller weights would leave the range of single precision.
    numbers = all(isinstance(w, Real) and (w == 0 or 1e-30 <= w <= 1e30) for w in values)
    if len(values) != count or not numbers or not any(values):
        raise InvalidArgumentError(f"weights must be {count} numbers, 0 or from 1e-30 to 1e30, not all 0, got {shown(weights)}.")
    return values


def reciprocal_rank_parts(candidates: Candidates, constant: int, groups: np.ndarray | None = None) -> np.ndarray:
    """Return 1 / (c + r) for each place, with the rank r, from 1, in its group: float64, shape [K]."""
    place = np.arange(len(candidates)) if groups is None else places_within(groups)
    return 1.0 / (float(constant) + 1 + place)


def fused(
    lists: Sequence[Candidates],
    parts: Sequence[np.ndarray],
    names: tuple[str, ...] = (),
    owners: Callable[[np.ndarray], np.ndarray | None] = lambda nodes: None,
) -> Candidates:
    """Return the nodes of all lists, each scored by the sum of its parts.

    Parameters
    ----------
    lists : sequence of Candidates, length L
        For one question.
    parts : sequence of ndarray, shape [K_l]
        Contribution to the score of the node at each place.
    names : tuple of str, length L, optional
        Names of the lists. If given, the result has the rank of each node in each list.
    owners : callable, optional
        Maps nodes to their questions, as :meth:`~graph_retrievers.core.question.Question.owners`.

    Returns
    -------
    Candidates
        Ties go to the lower node row. A node keeps the operator, the path and the values beside it from the list that contributes
        most to its score (the first of equals); where that has no context, it is from the first list that has one. Ranks in lists
        that were fused earlier are not kept.
    """
    lists = [part.unranked() if "ranks" in part.columns else part for part in lists]
    part = np.concatenate(parts)
    # The largest part first, of equal ones that of the first list: what a node keeps is what comes first of it.
    turn = np.argsort(-part.astype(np.float32), kind="stable")
    everything = concatenated(lists)
    nodes, first, at = np.unique(everything.nodes[turn], return_index=True, return_inverse=True)
    scores = np.bincount(at, part[turn], len(nodes)).astype(np.float64)  # of nothing, numpy counts integers
    by = order(scores, groups=owners(nodes))  # of equal scores that of the lower row, as rows ascend
    candidates, nodes = everything.taken(turn[first[by]]), nodes[by]
    context = candidates.columns.get("context")
    if context is not None:
        for one in lists:
            place = places_of(one.nodes, nodes)
            bare = (context < 0).all(1) & (place >= 0)
            column = one.columns.get("context")
            if column is not None and bare.any():
                context[bare] = -1
                context[bare, : column.shape[1]] = column[place[bare]]
    if names:
        candidates.columns["ranks"] = np.stack([_ranks(one.nodes, nodes, owners(one.nodes)) for one in lists], 1)
    candidates.lists, candidates.scores = names, falling(scores[by], owners(nodes))
    return candidates


def _ranks(rows: np.ndarray, nodes: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the rank of each node, shape [K], from 1 in a list, or in its group of the list; 0 if it is not in the list."""
    place = places_of(rows, nodes)
    if groups is None or not len(rows):
        return place + 1
    return np.where(place < 0, 0, places_within(groups)[place] + 1)
