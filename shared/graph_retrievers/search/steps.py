"""Steps along the first edge between two nodes, and the way along several nodes as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges


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


def arrow(relation: str, ahead: bool) -> str:
    """Return a step as text: its relation in an arrow with the direction of the edge.

    >>> arrow("made by", True), arrow("[shows]", False)
    ('-made by->', '<-[shows]-')
    """
    return f"-{relation}->" if ahead else f"<-{relation}-"


def ways_as_text(question: Question, ways: Sequence[Sequence[int]]) -> Algorithm[list[str]]:
    """Return the relations on the way along some nodes, for each of several ways.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.core.driver import run
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> from graph_retrievers.search.queries import Queries
    >>> index = GraphIndex.from_texts([""] * 3, titles=["Loom", "Jacquard", "Lyon"], edges=[("0", "1", "by"), ("2", "1", "of")])
    >>> backend = MemoryBackend(Queries.of(index, ["?"]))
    >>> run(backend, [ways_as_text(*backend.questions(), [[0, 1], [0, 1, 2]])])
    [['-[by]->', '-[by]-> <-[of]-']]
    """
    steps = yield from first_steps(question, np.unique(np.array([row for way in ways for row in way[:-1]], np.int64)))
    pairs, names = zip(steps.near.tolist(), steps.far.tolist(), strict=True), question.relation_names(steps.relation)
    arrows = {pair: arrow(f"[{name}]", ahead) for pair, name, ahead in zip(pairs, names, steps.ahead, strict=True)}
    return [" ".join(arrows[pair] for pair in pairwise(way)) for way in ways]
