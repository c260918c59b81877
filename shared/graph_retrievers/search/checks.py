"""What every operator returns is checked, our own as others': a wrong row or score would rank silently."""

from __future__ import annotations

from typing import Any

import numpy as np

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.search.candidates import Candidates

__all__ = ["check_candidates"]


def check_candidates(found: Any, size: int, owner: str) -> None:
    """Raise InvalidArgumentError unless an operator found distinct nodes of a graph of `size`, with numbers and the trails to them.

    Examples
    --------
    >>> try:
    ...     check_candidates(Candidates.seeds(np.array([4, 4]), np.array([0.9, 0.8]), "Mine"), 10, "Mine")
    ... except InvalidArgumentError as error:
    ...     print(error)
    Mine returned row 4 twice for one query.
    """
    if not isinstance(found, Candidates):
        raise InvalidArgumentError(f"{owner}.search returned {shown(found)}; expected Candidates.")
    nodes, scores, trails, relations = found.nodes, found.scores, found.trails, found.relations
    shapes = [None if array is None else getattr(array, "shape", type(array)) for array in (nodes, scores, trails, relations)]
    count, length = len(found), trails.shape[-1] if getattr(trails, "ndim", 0) == 2 else 0
    fits = (None, (count, max(length - 1, 0)))
    if shapes[:3] != [(count,), (count,), (count, length)] or shapes[3] not in fits or (count and not length):
        given = f"nodes, scores, trails and relations of the shapes {shapes}"
        raise InvalidArgumentError(f"{owner} returned {given}; expected [K], [K], [K, L] and [K, L - 1].")
    if not count:
        return
    if nodes.dtype.kind != "i" or scores.dtype.kind not in "fi" or trails.dtype.kind != "i":
        told = f"{nodes.dtype} rows, {scores.dtype} scores and {trails.dtype} trails"
        raise InvalidArgumentError(f"{owner} returned {told}; expected integers, numbers and integers.")
    if trails.min() < -1 or trails.max() >= size or nodes.min() < 0 or np.isnan(scores).any():
        wrong = (nodes < 0) | (nodes >= size) | np.isnan(scores)
        told = f"row {nodes[wrong][0]} with score {scores[wrong][0]}" if wrong.any() else "a trail with a row outside the graph"
        raise InvalidArgumentError(f"{owner} returned {told}; expected rows from 0 to {size - 1} and numbers.")
    if (trails[:, -1] != nodes).any():
        raise InvalidArgumentError(f"{owner} returned a trail that does not end in its node; pads stand before a trail.")
    if len(set(rows := nodes.tolist())) < count:
        twice = next(row for place, row in enumerate(rows) if row in rows[:place])
        raise InvalidArgumentError(f"{owner} returned row {twice} twice for one query.")
