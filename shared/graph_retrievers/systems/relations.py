"""The relations of nodes: their edges by name and direction, and the nodes to which these lead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from graph_retrievers.core.candidates import Candidates, best, reached, starts
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgeRows, Edges, Similarity
from graph_retrievers.systems.asking import names_of
from graph_retrievers.systems.choosing import Options


class Relation(NamedTuple):
    """A relation of a node in one direction.

    Attributes
    ----------
    node : int
        The row of the node.
    near, name : str
        The names of the node and of the relation.
    outgoing : bool
        Whether it is the source of the edges.
    edges : EdgeRows
        Edges of the relation.
    far : sequence of str, default ()
        The names of the nodes to which the edges lead, if they have been read (:func:`with_ends`).
    score : float, default 1.0

    Examples
    --------
    >>> edges = EdgeRows(*(np.array([number]) for number in (0, 5, 7, 2, 1.0)))
    >>> relation = Relation(3, "Loom", "shows", False, edges, ["Paris"])
    >>> relation.text, relation.facts()
    ('shows (from it)', ['Paris shows Loom'])
    """

    node: int
    near: str
    name: str
    outgoing: bool
    edges: EdgeRows
    far: Sequence[str] = ()
    score: float = 1.0

    @property
    def text(self) -> str:
        """The name, with the direction in which it is followed."""
        return (self.name or "is linked to") + ("" if self.outgoing else " (from it)")

    def facts(self) -> list[str]:
        """Return the edges as sentences, in their own direction."""
        ends = [(self.near, far) if self.outgoing else (far, self.near) for far in self.far]
        return [f"{first} {self.name or 'is linked to'} {last}" for first, last in ends]

    def end_options(self) -> Options:
        """Return the nodes to which it leads as options; a relevance model reads the edges."""
        return Options(self.far, self.facts(), self.edges.far, {"entity": self.near, "relation": self.text})


def relation_options(relations: Sequence[Relation]) -> Options:
    """Return the relations of a node as options; a relevance model reads the names of the node and of the relation."""
    node, near = relations[0].node, relations[0].near
    texts = [f"{near} {relation.name}" for relation in relations]
    return Options([relation.text for relation in relations], texts, np.full(len(relations), node), {"entity": near})


def relations_at(
    question: Question, candidates: Candidates, exclude_types: Collection[str] = ()
) -> Algorithm[list[list[Relation]]]:
    """Return the relations of each of some candidates that has one, by their names.

    They have no edges to nodes of `exclude_types`, from a node to itself, and back over the last step of the node's trail.
    """
    edges = yield Edges(candidates.nodes)
    mask = (edges.far != candidates.nodes[edges.owner]) & ~question.typed(edges.far, exclude_types)
    if candidates.trails.shape[1] > 1:
        mask &= (edges.far != candidates.trails[edges.owner, -2]) | (edges.relation != candidates.steps()[edges.owner, -1])
    edges = edges.masked(mask)
    (near,) = yield from names_of([candidates.nodes])
    incoming = question.ends(edges.row)[:, 0] != candidates.nodes[edges.owner]
    numbers, number = np.unique(edges.relation, return_inverse=True)
    names, name = np.unique(np.array(question.relation_names(numbers), object), return_inverse=True)
    # One number for node, name and direction: at a hub, numbers are sorted many times as fast as rows of a table.
    key = (edges.owner * len(names) + name[number]) * 2 + incoming
    by = np.argsort(key, kind="stable")
    edges, key = edges.taken(by), key[by]
    groups = [list[Relation]() for _ in near]
    for start, stop in pairwise([*starts(key).tolist(), len(key)]):
        place, code = divmod(int(key[start]), 2 * len(names))
        part = EdgeRows(*(column[start:stop] for column in edges))
        groups[place].append(Relation(int(candidates.nodes[place]), near[place], names[code // 2], code % 2 == 0, part))
    return [group for group in groups if group]


def with_ends(question: Question, relations: Sequence[Relation], most: int, operator: str) -> Algorithm[list[Relation]]:
    """Return relations with one edge to each node to which they lead, and the names of these.

    If there are more than `most`, those most similar to the question are kept, and a note of the operator says so.
    """
    edges = [relation.edges.taken(np.unique(relation.edges.far, return_index=True)[1]) for relation in relations]
    if any(len(part.far) > most for part in edges):
        which, cosines = f"first {most}", [np.zeros(len(part.far)) for part in edges]
        if question.has_vectors:
            which, cosines = f"{most} most similar to the question", (yield tuple(Similarity(part.far) for part in edges))
        question.notes.append(f"{operator}: of the entities of a relation, only the {which} were scored")
        edges = [part.taken(np.sort(best(scores, most))) for part, scores in zip(edges, cosines, strict=True)]
    names = yield from names_of([part.far for part in edges])
    return [relation._replace(edges=part, far=far) for relation, part, far in zip(relations, edges, names, strict=True)]


def edges_of(relations: Sequence[Relation]) -> EdgeRows:
    """Return the edges of relations, one after another."""
    none = EdgeRows(*np.zeros((5, 0), np.int64))
    return EdgeRows(*map(np.concatenate, zip(none, *(relation.edges for relation in relations), strict=True)))


def followed(question: Question, nodes: np.ndarray, names: Sequence[str], operator: str) -> Algorithm[Candidates]:
    """Return the nodes to which relations lead, one after the other, from any of some nodes, shape [n]; each once.

    They are followed in either direction and by their names, ignoring case; without a name, one of any name is followed. A node
    does not lead to itself. `operator` is the name of the one that follows them.
    """
    candidates = Candidates.seeds(nodes, np.zeros(len(nodes)), operator)
    steps: list[str | None] = [name.casefold() for name in names] or [None]
    for step in steps:
        edges = yield Edges(candidates.nodes)
        mask = edges.far != candidates.nodes[edges.owner]
        if step is not None:
            numbers, number = np.unique(edges.relation, return_inverse=True)
            mask &= np.array([name.casefold() == step for name in question.relation_names(numbers)], bool)[number]
        edges = edges.masked(mask)
        edges = edges.taken(np.sort(np.unique(edges.far, return_index=True)[1]))
        candidates = reached(candidates, edges.owner, edges.far, np.zeros(len(edges.far)), operator, edges.relation)
    return candidates
