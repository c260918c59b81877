"""Chains between nodes that keep one direction or turn once, as HyKGE joins entities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graph_retrievers.core.candidates import best, places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Degree, Similarity
from graph_retrievers.graph.ragged import runs
from graph_retrievers.search.steps import Steps, arrow, first_steps
from graph_retrievers.systems.asking import names_of


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

    def cosines(self) -> Algorithm[np.ndarray]:
        """Return the mean cosine of the nodes of each with the question: float64, shape [C]."""
        inside, cosines = self.nodes >= 0, np.zeros(self.nodes.shape)
        nodes, place = np.unique(self.nodes[inside], return_inverse=True)
        cosines[inside] = (yield Similarity(nodes))[place]
        return cosines.sum(1) / inside.sum(1)  # type: ignore[no-any-return]

    def most_similar(self, question: Question, most: int, operator: str) -> Algorithm[StepChains]:
        """Return at most `most` of them, those of the largest :meth:`cosines`; a note of the operator says if there were more."""
        if len(self.nodes) <= most:
            return self
        which = f"of {len(self.nodes)} chains, the {most} whose nodes are most similar to the question were scored"
        question.notes.append(f"{operator}: {which}")
        return self.taken(np.sort(best((yield from self.cosines()), most)))

    def texts(self, question: Question) -> Algorithm[list[str]]:
        """Return each as a line, such as ``Ada -wrote for-> Engine <-drive- Cards``: list of str, length C."""
        names, lines = (yield from names_of([nodes[nodes >= 0] for nodes in self.nodes])), list[str]()
        for (first, *rest), relations, ahead in zip(names, self.relations, self.ahead, strict=True):
            steps = zip(question.relation_names(relations[: len(rest)]), ahead, rest, strict=False)
            lines.append(first + "".join(f" {arrow(name, forward)} {far}" for name, forward, far in steps))
        return lines

    def wide(self, length: int) -> StepChains:
        """Return them as chains of `length` nodes, with -1 on the right."""
        more = ((0, 0), (0, length - self.nodes.shape[1]))
        return StepChains(*(np.pad(table, more, constant_values=fill) for table, fill in zip(self, (-1, -1, False), strict=True)))


def chains_between(question: Question, anchors: np.ndarray, hops: int, most: int, operator: str) -> Algorithm[StepChains]:
    """Return the chains of at most `hops` edges that join two of some nodes.

    Chains are those of :meth:`StepChains.to`, each from the first of its two nodes, along the first edge of each step; they are in
    the order of these two nodes, then of their length, then of their rows. For a single node, the chains are its edges. At most
    `most` edges of other nodes are read, those of nodes with few edges first; a note of the operator says if there are more.
    """
    steps, whole = (yield from first_steps(question, anchors)), True
    chains = StepChains.at(anchors[: max(len(anchors) - 1, 1)])
    if len(anchors) == 1:
        return chains.to(steps)
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
    if not whole:
        question.notes.append(f"{operator}: chains over nodes with many edges were left out")
    return found.taken(by[one[by] < other[by]])
