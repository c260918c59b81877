"""Chains between nodes that keep one direction or turn once, as HyKGE joins entities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graph_retrievers.core.candidates import places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Edges
from graph_retrievers.graph.runs import runs


class Steps(NamedTuple):
    """Steps along edges, in the order of the nodes at which they begin; each array is of shape [T]."""

    near: np.ndarray
    far: np.ndarray
    relation: np.ndarray
    ahead: np.ndarray  # Whether the edge has this direction.

    def taken(self, keep: np.ndarray) -> Steps:
        """Return some of the steps: `keep`, shape [T], is a mask."""
        return Steps(*(column[keep] for column in self))

    def with_steps(self, steps: Steps) -> Steps:
        """Return these steps and others."""
        near, *columns = (np.append(values, more) for values, more in zip(self, steps, strict=True))
        by = np.argsort(near, kind="stable")
        return Steps(near[by], *(column[by] for column in columns))

    def back(self) -> Steps:
        """Return the steps the other way."""
        by = np.argsort(self.far, kind="stable")
        return Steps(self.far[by], self.near[by], self.relation[by], ~self.ahead[by])


class StepChains(NamedTuple):
    """Chains of steps along edges; -1 pads shorter ones on the right.

    Attributes
    ----------
    nodes : ndarray, shape [C, L], int64
    relations : ndarray, shape [C, L - 1], int64
        The relation of each step.
    ahead : ndarray, shape [C, L - 1], bool
        Whether the edge of a step has its direction.
    """

    nodes: np.ndarray
    relations: np.ndarray
    ahead: np.ndarray

    @classmethod
    def at(cls, nodes: np.ndarray) -> StepChains:
        """Return the chains that begin at nodes, shape [C], without a step."""
        return cls(nodes[:, None], np.zeros((len(nodes), 0), np.int64), np.zeros((len(nodes), 0), bool))

    def to(self, steps: Steps) -> StepChains:
        """Return them with one of the steps more, as far as they turn at most once and have no node twice.

        A path goes one way; chains over a common source or target turn once.
        """
        start, end = (np.searchsorted(steps.near, self.nodes[:, -1], side) for side in ("left", "right"))
        chain, step = runs(start, end - start)
        ahead = np.column_stack([self.ahead[chain], steps.ahead[step]])
        turns, twice = (ahead[:, 1:] != ahead[:, :-1]).sum(1), (self.nodes[chain] == steps.far[step, None]).any(1)
        places = np.flatnonzero((turns <= 1) & ~twice)
        chain, step = chain[places], step[places]
        nodes = np.column_stack([self.nodes[chain], steps.far[step]])
        return StepChains(nodes, np.column_stack([self.relations[chain], steps.relation[step]]), ahead[places])

    @property
    def last(self) -> np.ndarray:
        """The last node of each."""
        return self.nodes[np.arange(len(self.nodes)), (self.nodes >= 0).sum(1) - 1]

    def taken(self, places: np.ndarray) -> StepChains:
        """Return the chains at some places, shape [n]."""
        return StepChains(*(table[places] for table in self))

    def wide(self, length: int) -> StepChains:
        """Return them as chains of `length` nodes, with -1 on the right."""
        more = ((0, 0), (0, length - self.nodes.shape[1]))
        return StepChains(*(np.pad(table, more, constant_values=fill) for table, fill in zip(self, (-1, -1, False), strict=True)))


def chains_between(question: Question, anchors: np.ndarray, hops: int, most: int) -> Algorithm[tuple[StepChains, bool]]:
    """Return the chains of at most `hops` edges that join two of some nodes, and whether these are all.

    Chains are those of :meth:`StepChains.to`, each from the first of its two nodes, along the first edge of each step; they are in
    the order of these two nodes, then of their length, then of their rows. For a single node, the chains are its edges. At most
    `most` edges of other nodes are read, those of nodes with few edges first.
    """
    steps, whole = (yield from first_steps(question, anchors)), True
    chains = StepChains.at(anchors[: max(len(anchors) - 1, 1)])
    if len(anchors) == 1:
        return chains.to(steps), True
    # A chain begins at a node that may start a walk, and ends at one to which a walk may lead. Its last step is read from there.
    last = steps.taken(np.isin(steps.near, anchors[question.walked(anchors)])).back()
    parts = [chains.to(last)]
    for remaining in reversed(range(1, hops)):
        new = np.setdiff1d(chains.nodes[:, -1], anchors)
        if len(new):
            degrees = yield Degree(new, parallel=True)
            by = np.argsort(degrees, kind="stable")
            first = by[np.cumsum(degrees[by]) <= most]
            whole &= len(first) == len(new)
            steps = steps.with_steps((yield from first_steps(question, np.sort(new[first]))))
        # The last step but one leads only to nodes from which there is a last one.
        chains = chains.to(steps.taken(np.isin(steps.far, last.near)) if remaining == 1 else steps)
        parts.append(chains.to(last))
    found = StepChains(*map(np.concatenate, zip(*(part.wide(hops + 1) for part in parts), strict=True)))
    one, other = places_of(anchors, found.nodes[:, 0]), places_of(anchors, found.last)
    by = np.lexsort((*found.nodes.T[::-1], (found.nodes >= 0).sum(1), other, one))
    return found.taken(by[one[by] < other[by]]), whole


def first_steps(question: Question, rows: np.ndarray) -> Algorithm[Steps]:
    """Return the step along the first edge from each of some nodes, shape [n], to each of its neighbours, by rows of both."""
    edges = yield Edges(rows)
    near = rows[edges.owner]
    by = np.argsort(edges.row, kind="stable")
    _, first = np.unique((near * question.size + edges.far)[by], return_index=True)
    places = by[first]
    places = places[near[places] != edges.far[places]]
    ahead = question.ends(edges.row[places])[:, 0] == near[places]
    return Steps(near[places], edges.far[places], edges.relation[places], ahead)
