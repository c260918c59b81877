"""The nodes within some edges of each of several centres, with the ways to them; neighbours and degrees of the ends of edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graph_retrievers.core.candidates import newly_reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Neighbors
from graph_retrievers.graph.ragged import slices


@dataclass(frozen=True, eq=False)
class Around:
    """The nodes around centres, by centre and then by row; each array is of shape [T].

    Attributes
    ----------
    owner : ndarray, int64
        The place of the centre.
    node : ndarray, int64
        The row of the node; one of them is the centre's own.
    before : ndarray, int64
        The place, in these arrays, of the node before it on a shortest way from the centre, the one through the lowest rows; -1
        for the centre.
    """

    owner: np.ndarray
    node: np.ndarray
    before: np.ndarray

    def ways(self, places: np.ndarray) -> list[list[int]]:
        """Return the rows from the centre to the node at each of some places, shape [n]."""
        columns = [places]
        while len(columns[0]) and (columns[0] >= 0).any():
            columns.insert(0, np.where(columns[0] >= 0, self.before[columns[0]], -1))
        table = np.stack(columns, 1)
        return [self.node[way[way >= 0]].tolist() for way in table]


def nodes_around(question: Question, centers: np.ndarray, hops: int) -> Algorithm[Around]:
    """Return the nodes within `hops` edges, in either direction, of each of some nodes, shape [n]."""
    size = question.size
    # A node of a centre as ``place of the centre * N + node``.
    keys = front = np.arange(len(centers)) * size + centers
    before = np.full(len(centers), -1)
    for _ in range(hops):
        near = yield Neighbors(front % size)
        # The front ascends, so that of several ways the first is that through the lowest row.
        new, owner = newly_reached(keys, near.owner, front[near.owner] - front[near.owner] % size + near.node)
        before, keys, front = np.append(before, front[owner]), np.append(keys, new), new
    by = np.argsort(keys)
    keys, before = keys[by], before[by]
    owner, node = np.divmod(keys, size)
    return Around(owner, node, np.where(before >= 0, np.searchsorted(keys, before), -1))


def end_degrees(ends: np.ndarray, exclude_types: tuple[str, ...] = ()) -> Algorithm[np.ndarray]:
    """Return the degrees of both ends of edges together, `ends` of shape [M, 2]: int64, shape [M].

    Neighbours of `exclude_types` do not count.
    """
    nodes, place = np.unique(ends, return_inverse=True)
    degree = yield Degree(nodes, exclude_types=exclude_types)
    return degree[place.reshape(-1, 2)].sum(1)  # type: ignore[no-any-return]


def linked_to_both(
    question: Question, ends: np.ndarray, condition: Callable[[np.ndarray], np.ndarray]
) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
    """Return the nodes that are linked to both ends of edges, such as the texts of relations.

    Parameters
    ----------
    question : Question
    ends : ndarray, shape [M, 2], int64
        Node rows.
    condition : callable
        Which of some nodes, shape [n], count: bool, shape [n].

    Returns
    -------
    edge, node : ndarray, shape [T], int64
        The place of each edge in `ends`, ascending, and the nodes that are linked to both of its ends, ascending.
    """
    nodes, place = np.unique(ends, return_inverse=True)
    near = yield Neighbors(nodes)
    near = near.masked(condition(near.node))
    # Through the end of fewer nodes, so that no hub is gone through for each of its edges.
    starts, place = np.searchsorted(near.owner, np.arange(len(nodes) + 1)), place.reshape(-1, 2)
    one, other = np.take_along_axis(place, np.diff(starts)[place].argsort(1, kind="stable"), 1).T
    edge, entry = slices(starts, one)
    both = np.isin(other[edge] * question.size + near.node[entry], near.owner * question.size + near.node)
    return edge[both], near.node[entry[both]]
