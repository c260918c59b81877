"""Candidates of one question as plain arrays, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from graph_retrievers.core.chains import Chains, Facts, padded
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = [
    "Candidates",
    "MisfitError",
    "along",
    "best",
    "best_of_each",
    "concatenated",
    "distinct",
    "falling",
    "followed",
    "found_by",
    "largest",
    "newly_reached",
    "order",
    "places_of",
    "places_within",
    "replaced",
    "reached",
    "stacked",
    "starts",
]

LONGEST_TRAIL = 32
"""Maximum number of nodes of a trail in hits, the last ones, so that no shape grows without limit."""

# The columns that candidates can have, and their pads.
_COLUMN_PADS: dict[str, float] = {"seed_scores": np.nan, "trail_scores": np.nan, "context": -1, "ranks": 0}
# Scores nearer to each other than this share of the larger differ only by the rounding of single precision.
_ROUNDING = 1e-6
# Scores of a block, of which only the largest is sorted first.
_BLOCK = 16


class MisfitError(InvalidArgumentError):
    """A value that does not fit its candidates; the driver adds the name of the operator."""


@dataclass
class Candidates:
    """Nodes found for one question, best first, with the path to each.

    Attributes
    ----------
    nodes : ndarray, shape [K], int64
    scores : ndarray, shape [K]
    trails : ndarray, shape [K, L], int64
        The node rows from a seed to the node itself, which comes last; -1 pads on the left.
    origins : ndarray, shape [K], int64
        Index into `operators`: the operator that found the node.
    operators : tuple of str
    relations : ndarray, shape [K, L - 1], int64, optional
        Relation of each step of the trail, an index into ``CorpusGraph.relation_names``; -1 (None for all) means the first row that
        connects the two nodes, and -2 - n means no row but the n-th name in the text of the first node
        (:func:`graph_retrievers.graph.names.capitalized_names`, from 0).
    columns : dict of str to ndarray, shape [K] or [K, M]
        Values of each node from earlier operators. `seed_scores`: the score with which the first node of the trail was found, NaN
        if unknown. `trail_scores`: the score of the path, NaN if it has none. `context`: the rows of neighbours that gave context,
        in order of weight, padded with -1. `ranks`: the rank in each of the `lists` of a fusion, from 1; 0 if that list does not
        contain the node.
    lists : tuple of str
        Names of the lists of `ranks`.
    chains : Chains, optional
    facts : Facts, optional

    Examples
    --------
    >>> found = Candidates.seeds(np.array([4, 2]), np.array([0.4, 0.9]), "Mine")
    >>> found.rescored(found.scores).nodes
    array([2, 4])
    """

    nodes: np.ndarray
    scores: np.ndarray
    trails: np.ndarray
    origins: np.ndarray
    operators: tuple[str, ...] = ()
    relations: np.ndarray | None = None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    chains: Chains | None = None
    facts: Facts | None = None

    def __len__(self) -> int:
        """Return the number of nodes K."""
        return len(self.nodes)

    @classmethod
    def seeds(cls, nodes: np.ndarray, scores: np.ndarray, name: str) -> Candidates:
        """Return nodes that the operator `name` found by a search, without a step: `nodes` and `scores` of shape [K]."""
        if type(nodes) is not np.ndarray or type(scores) is not np.ndarray:
            # What arrays have to be is checked when they are returned.
            nodes, scores = _fitting("Candidates.seeds", _count(nodes), nodes=nodes, scores=scores)
        return cls(nodes, scores, nodes[:, None], np.zeros(len(nodes), np.int64), (name,))

    def steps(self) -> np.ndarray:
        """Return the relation of each step of the trails, -1 for all if there are none: int64, shape [K, L - 1]."""
        return np.full_like(self.trails[:, 1:], -1) if self.relations is None else self.relations

    @classmethod
    def none(cls) -> Candidates:
        """Return an empty list of candidates."""
        return cls.seeds(np.empty(0, np.int64), np.empty(0), "")

    def trimmed(self) -> Candidates:
        """Return the candidates with scores of single precision and the last 32 nodes of trails, as in hits."""
        trails, relations = self.trails, self.relations
        if trails.shape[1] > 1:
            cut = trails.shape[1] - min(int((trails >= 0).sum(1).max(initial=1)), LONGEST_TRAIL)
            trails, relations = trails[:, cut:], None if relations is None else relations[:, cut:]
        return replace(self, scores=self.scores.astype(np.float32), trails=trails, relations=relations)

    def top(self, k: int | None, groups: np.ndarray | None = None) -> Candidates:
        """Return the first `k`, of each of the ascending `groups`, shape [K], if these are given; all for None."""
        if k is None or k >= len(self):
            return self
        return self.taken(slice(k)) if groups is None else self.taken(np.flatnonzero(places_within(groups) < k))

    def rescored(self, scores: np.ndarray, groups: np.ndarray | None = None) -> Candidates:
        """Return the same nodes with new scores, shape [K], best first; equal scores keep their order.

        To order equal scores by row, sort by row first, or use :func:`best` with scores and nodes. The nodes of each of the
        ascending `groups`, shape [K], such as :meth:`~graph_retrievers.core.question.Question.owners` gives, stay together.
        """
        (scores,) = _fitting("rescored", len(self), scores=scores)
        by = order(scores, groups=groups)
        candidates = self.taken(by)
        candidates.scores = falling(scores[by], groups)
        return candidates

    def apart(self, count: int, size: int) -> list[Candidates]:
        """Return the candidates of each of `count` questions from those of all, whose nodes are numbered as by ``Questions``."""
        if not len(self):
            return [self] * count
        ends = np.searchsorted(self.nodes // size, np.arange(count + 1)).tolist()
        rows = self._renumbered(lambda nodes: nodes % size)
        return [rows.taken(slice(*part)) for part in pairwise(ends)]

    @classmethod
    def of_each(cls, parts: Sequence[Candidates], size: int) -> Candidates:
        """Return the candidates of several questions as one list, whose nodes are numbered as by ``Questions``."""
        candidates = concatenated(parts)
        shift = np.repeat(np.arange(len(parts)) * size, [len(part) for part in parts])[:, None]
        return candidates._renumbered(lambda nodes: nodes + shift)

    def _renumbered(self, number: Callable[[np.ndarray], np.ndarray]) -> Candidates:
        """Return the candidates with other numbers of nodes, which a function gives for tables of them, shape [K, M]; pads stay."""
        trails = np.where(self.trails < 0, -1, number(self.trails))
        columns = dict(self.columns)
        if (context := columns.get("context")) is not None:
            columns["context"] = np.where(context < 0, context, number(context))
        return replace(self, nodes=number(self.nodes[:, None])[:, 0], trails=trails, columns=columns)

    def taken(self, places: np.ndarray | slice) -> Candidates:
        """Return the candidates at some places, shape [n] or a slice, in their order."""
        try:
            nodes = self.nodes[places]
        except IndexError as error:
            expected = f"expected places from 0 to {len(self) - 1}" if len(self) else "there are none"
            raise MisfitError(f"taken was given {shown(places)}; {expected}. A place is not the row of a node.") from error
        return Candidates(
            nodes,
            self.scores[places],
            self.trails[places],
            self.origins[places],
            self.operators,
            None if self.relations is None else self.relations[places],
            {name: column[places] for name, column in self.columns.items()},
            self.lists,
            self.chains,
            self.facts,
        )

    def after(self, before: Candidates) -> Candidates:
        """Return these candidates with the chains and facts of an earlier operator, if they have none themselves."""
        if before.chains is None and before.facts is None:
            return self
        chains = before.chains if self.chains is None else self.chains
        return replace(self, chains=chains, facts=before.facts if self.facts is None else self.facts)

    def unranked(self) -> Candidates:
        """Return these candidates without their ranks in the lists of a fusion."""
        return replace(self, columns={name: column for name, column in self.columns.items() if name != "ranks"}, lists=())

    def joined(self, other: Candidates) -> Candidates:
        """Return these candidates, followed by the new ones of `other`; for each node the first counts, not the best.

        Scores do not change, so they may rise where the two meet: the result of an operator is sorted (:meth:`Operator.stepped`).
        """
        if not isinstance(other, Candidates):
            raise MisfitError(f"joined was given {shown(other)}; expected Candidates, such as `reached(...)` gives.")
        _, first = np.unique(other.nodes, return_index=True)
        fresh = np.sort(first[places_of(self.nodes, other.nodes[first]) < 0])
        return concatenated([self, other.taken(fresh)])

    def followed_by(self, *lists: Candidates) -> Candidates:
        """Return these candidates, followed by the new ones of each of the others, whose scores are no higher than those above."""
        candidates = reduce(Candidates.joined, lists, self)
        return replace(candidates, scores=falling(candidates.scores))


def concatenated(parts: Sequence[Candidates]) -> Candidates:
    """Return several candidates one after another, with repeated nodes and the operators of all."""
    operators = tuple(dict.fromkeys(name for part in parts for name in part.operators))
    length = max(part.trails.shape[1] for part in parts)
    relations = None
    if any(part.relations is not None for part in parts):
        relations = np.concatenate([wider(part.steps(), length - 1) for part in parts])
    # Only the ranks in the lists of the first part that has lists are kept.
    lists = next((part.lists for part in parts if part.lists), ())
    parts = [part if part.lists == lists else part.unranked() for part in parts]
    names = dict.fromkeys(name for part in parts for name in part.columns)
    return Candidates(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([wider(part.trails, length) for part in parts]),
        np.concatenate([_numbered(part, operators) for part in parts]),
        operators,
        relations,
        {name: np.concatenate(_column_parts(parts, name)) for name in names},
        lists,
        _together([part.chains for part in parts]),
        _together([part.facts for part in parts]),
    )


def _column_parts(parts: Sequence[Candidates], name: str) -> list[np.ndarray]:
    """Return a column, by name, of each of some candidates, all of one width, with pads where there are no values."""
    columns = [part.columns.get(name) for part in parts]
    width = max(column.shape[1:] for column in columns if column is not None)
    tables = [np.full((len(part), *width), _COLUMN_PADS[name]) for part in parts]
    for table, column in zip(tables, columns, strict=True):
        if column is not None:
            table[(slice(None), *map(slice, column.shape[1:]))] = column
    return tables


def _numbered(part: Candidates, operators: tuple[str, ...]) -> np.ndarray:
    """Return the origins of candidates as places among other operators."""
    if operators[: len(part.operators)] == part.operators:
        return part.origins
    return np.array([operators.index(name) for name in part.operators])[part.origins]


def _together(parts: Sequence[Any]) -> Any:
    """Return the chains, or the facts, of all that have some, each once."""
    values = [part for part in parts if part is not None]
    return reduce(lambda left, right: left.append(right), values) if values else None


def order(scores: np.ndarray, nodes: np.ndarray | None = None, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the order of scores, shape [K], highest first, by the rule of :func:`graph_retrievers.graph.ragged.descending`.

    Scores that differ only by rounding are equal: ties go to the lower of `nodes`, and keep their order without these, or where
    these are equal. With `groups`, shape [K], the scores of a lower group come first.

    >>> order(np.array([0.5, 0.9, 0.90000001, 0.7]))
    array([1, 2, 3, 0])
    """
    (scores,) = _fitting("order", _count(scores), scores=scores)
    if nodes is not None:
        (nodes,) = _fitting("order", len(scores), nodes=nodes)
    scores = scores.astype(np.float64, copy=False)
    by = descending(scores, groups)
    run = runs(scores[by], None if groups is None else groups[by])
    if run is not None:
        ties = np.flatnonzero(np.bincount(run)[run] > 1)
        places = by[ties]
        by[ties] = places[np.lexsort((places, run[ties]) if nodes is None else (places, nodes[places], run[ties]))]
    return by


def descending(scores: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return an order of scores, shape [K], highest first, group by group; equal scores in any order."""
    by = np.argsort(-scores)
    if groups is None:
        return by
    # Numbers of one or two bytes are sorted by counting them.
    return by[np.argsort(groups[by].astype(np.min_scalar_type(groups.max(initial=0))), kind="stable")]


def runs(values: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray | None:
    """Return the run of equal scores to which each of some descending scores, shape [K], belongs: int64, shape [K], from 1.

    None if no scores are equal. A run begins with its highest score. With ascending `groups`, shape [K], the scores of each group
    descend, and a run has one group.
    """
    # Infinite scores equal only each other.
    least = np.minimum(values * (1 - _ROUNDING), values * (1 + _ROUNDING))
    near = values[1:] >= least[:-1]
    if groups is not None:
        near &= groups[1:] == groups[:-1]
    # Often there are none; count_nonzero takes a fifth of the time of any.
    if not np.count_nonzero(near):
        return None
    first = np.concatenate([[True], ~near])
    head = np.flatnonzero(first)[np.cumsum(first) - 1]
    wide = np.flatnonzero(values < least[head])
    if len(wide):
        # A chain of many small steps: a run ends where a score is too far below the first of the run.
        for start in np.unique(head[wide]).tolist():
            stop = start + 1 + int(np.argmax(np.append(first[start + 1 :], True)))
            first[start:stop] = _run_starts(values[start:stop], least[start:stop])
    return np.cumsum(first)


def _run_starts(values: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return which of some descending scores, each near to the one before, begin a run: bool, shape [K].

    `least`, shape [K], has the lowest score that equals each.
    """
    after = np.append(np.searchsorted(-values, -least, side="right"), len(values))
    first = np.zeros(len(values) + 1, bool)
    first[[0, -1]] = True
    while True:
        mask = first.copy()
        mask[after[first]] = True
        if (mask == first).all():
            return first[:-1]
        first, after = mask, after[after]


def falling(scores: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return ordered scores, shape [K], of each of the ascending `groups`, without the rises by rounding from ties in row order."""
    if groups is None:
        return np.minimum.accumulate(scores)
    rises = (scores[1:] > scores[:-1]) & (groups[1:] == groups[:-1])
    if not np.count_nonzero(rises):
        return scores
    scores = scores.copy()
    for group in np.unique(groups[1:][rises]):
        part = slice(*np.searchsorted(groups, [group, group + 1]))
        scores[part] = np.minimum.accumulate(scores[part])
    return scores


def places_within(groups: np.ndarray) -> np.ndarray:
    """Return the place, from 0, of each entry among those of its group; `groups`, shape [K], ascend.

    >>> places_within(np.array([2, 2, 5, 5, 5]))
    array([0, 1, 0, 1, 2])
    """
    counts = np.bincount(groups)
    return np.arange(len(groups)) - (np.cumsum(counts) - counts)[groups]


def largest(scores: np.ndarray, groups: np.ndarray | None) -> Any:
    """Return the largest score of the group of each, shape [K]; of one group only that number, 0 for no scores.

    >>> largest(np.array([0.5, 0.25, 0.75]), np.array([0, 0, 1]))
    array([0.5 , 0.5 , 0.75])
    """
    if groups is None or not len(scores):
        return scores.max(initial=0)
    first = starts(groups)
    return np.repeat(np.maximum.reduceat(scores, first), np.diff(first, append=len(scores)))


def starts(values: np.ndarray) -> np.ndarray:
    """Return the places at which runs of equal values, shape [K], begin.

    >>> starts(np.array([4, 4, 2]))
    array([0, 2])
    """
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])


def best(scores: np.ndarray, k: int, nodes: np.ndarray | None = None, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the first `k` of :func:`order`, of each of the ascending `groups`, shape [K], without sorting all scores."""
    (scores,) = _fitting("best", _count(scores), scores=scores)
    if nodes is not None:
        (nodes,) = _fitting("best", len(scores), nodes=nodes)
    if groups is not None:
        places = _large(scores, k, groups)
        if nodes is None:
            # At most the first k of equal scores that follow one another are among the best.
            values, owners = scores[places], groups[places]
            begins = np.concatenate([[True], (values[1:] != values[:-1]) | (owners[1:] != owners[:-1])])[: len(places)]
            places = places[places_within(np.cumsum(begins)) < k]
        by = places[order(scores[places], None if nodes is None else nodes[places], groups[places])]
        return by[places_within(groups[by]) < k]
    if len(scores) <= 4 * k:
        return order(scores, nodes)[:k]
    least = -np.partition(-scores, k - 1)[k - 1]
    places = np.flatnonzero(scores >= least - 2 * _ROUNDING * abs(least)) if np.isfinite(least) else np.arange(len(scores))
    return places[order(scores[places], None if nodes is None else nodes[places])[:k]]


def _large(scores: np.ndarray, k: int, groups: np.ndarray) -> np.ndarray:
    """Return the places of the scores, shape [K], that may be among the `k` best of their group, with all ties: ascending.

    Groups ascend, and each is cut into blocks. The k-th largest of the blocks' best scores is at most the k-th best score of the
    group, so no score below it is returned. A group of fewer than `k` blocks is returned as a whole.
    """
    if len(scores) <= _BLOCK * k:
        return np.arange(len(scores))
    blocks = np.flatnonzero(places_within(groups) % _BLOCK == 0)
    most, owners = np.maximum.reduceat(scores, blocks), groups[blocks]
    full, least = np.flatnonzero(places_within(owners) == k - 1), np.full(groups[-1] + 1, -np.inf)
    least[owners[full]] = most[descending(most, owners)[full]]
    return np.flatnonzero(scores >= np.minimum(least * (1 - 2 * _ROUNDING), least * (1 + 2 * _ROUNDING))[groups])


def distinct(scores: np.ndarray, nodes: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the places of :func:`order` with each node once, at its best score; all arguments have the shape [n].

    >>> distinct(np.array([0.1, 0.5, 0.6]), np.array([7, 3, 7]))
    array([2, 1])
    """
    by = order(scores, nodes, groups)
    return by[np.sort(np.unique(nodes[by], return_index=True)[1])]


def best_of_each(groups: np.ndarray, values: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Return the place of the largest value of each group, in the order of the groups; of equal values that of the lowest tie.

    All arguments have the shape [n].

    >>> best_of_each(np.array([7, 3, 7]), np.array([0.1, 0.5, 0.6]), np.array([0, 1, 2]))
    array([1, 2])
    """
    by = np.argsort(groups, kind="stable")
    # Reading the runs of the groups twice is faster than a sort by three keys.
    for keys in (values, -ties):
        by = by[keys[by] == largest(keys[by], groups[by])]
    return by[starts(groups[by])]


def replaced(candidates: Candidates, places: np.ndarray, scores: np.ndarray) -> Candidates:
    """Return the candidates with those at ascending places, shape [n], ordered by new scores; the others keep their places.

    The others get the score of the one above, so that scores descend.

    >>> nodes = np.array([4, 2, 7])
    >>> replaced(Candidates.seeds(nodes, np.array([0.9, 0.8, 0.7]), "Mine"), np.array([0, 2]), np.array([0.1, 0.6])).nodes
    array([7, 2, 4])
    """
    places, scores = _fitting("replaced", _count(places), places=places, scores=scores)
    _check_places("replaced", places, candidates)
    if not len(places):
        return candidates
    by, sequence, above = order(scores), np.arange(len(candidates)), np.zeros(len(candidates), np.int64)
    sequence[places] = places[by]
    # Among the places that are ordered anew, the last up to each.
    above[places[1:]] = 1
    return replace(candidates.taken(sequence), scores=falling(scores[by][np.cumsum(above)]))


def followed(nodes: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Return the trails of distinct nodes, shape [K], from their parents: int64, shape [K, L].

    `parents`, shape [K], has the node from which each was reached, -1 for a seed. A parent outside `nodes` begins the trail.

    >>> followed(np.array([4, 2, 7]), np.array([-1, 4, 2])).tolist()
    [[-1, -1, 4], [-1, 4, 2], [4, 2, 7]]
    """
    columns, current, above = [nodes], parents, places_of(nodes, parents)
    place = above
    while len(columns) < LONGEST_TRAIL and (current >= 0).any():
        columns.insert(0, current)
        current, place = np.where(place >= 0, parents[place], -1), np.where(place >= 0, above[place], -1)
    return np.stack(columns, 1)


def found_by(name: str, before: Candidates, nodes: np.ndarray, scores: np.ndarray, parents: np.ndarray) -> Candidates:
    """Return what an operator found along parents (see :func:`followed`).

    A node without a parent was found by the operator in `before`, if that contains the node. `nodes`, `scores` and `parents` have
    the shape [n] and keep their order.
    """
    _check_before("found_by", before)
    nodes, scores, parents = _fitting("found_by", _count(nodes), nodes=nodes, scores=scores, parents=parents)
    operators, number = _with_operator(before.operators, name)
    place = places_of(before.nodes, nodes)
    mask = (parents < 0) & (place >= 0)
    origins = np.where(mask, before.origins.take(place, mode="clip") if len(before) else number, number)
    return Candidates(nodes, scores, followed(nodes, parents), origins, operators)


def along(chains: Chains) -> Candidates:
    """Return the nodes of chains in order, each once, with the first chain that has it, up to it, as its trail.

    >>> along(Chains(np.array([[4, 2, -1], [4, 7, 2]]), np.array([0.9, 0.8]), "Mine")).trails.tolist()
    [[-1, -1, 4], [-1, 4, 2], [-1, 4, 7]]
    """
    nodes, first = np.unique(chains.nodes, return_index=True)
    length = chains.nodes.shape[1]
    chain, column = np.divmod(np.sort(first[nodes >= 0]), length)
    # The chain up to the node, moved to the right.
    place, chain = np.arange(1 - length, 1) + column[:, None], chain[:, None]
    trails = np.where(place >= 0, chains.nodes[chain, place], -1)
    origins = np.zeros(len(trails), np.int64)
    return Candidates(trails[:, -1], chains.scores[chain[:, 0]], trails, origins, (chains.operator,))


def reached(
    before: Candidates,
    place: np.ndarray,
    nodes: np.ndarray,
    scores: np.ndarray,
    name: str,
    relations: np.ndarray | None = None,
) -> Candidates:
    """Return what an operator reached in one step from places of the previous candidates, such as the `owner` of neighbours.

    `place`, `nodes` and `scores` have the shape [n] and keep their order; repeated nodes are kept. `relations`, shape [n], are the
    numbers of the relations that were walked, as in :class:`~graph_retrievers.core.requests.Edges`; without them, a path names a
    relation between its nodes, which may be another where several edges join them.

    >>> before = Candidates.seeds(np.array([4, 2]), np.array([0.9, 0.8]), "First")
    >>> reached(before, np.array([0, 1]), np.array([7, 5]), np.array([0.1, 0.6]), "Mine").trails.tolist()
    [[4, 7], [2, 5]]
    """
    place, nodes, scores = _fitting("reached", _count(nodes), place=place, nodes=nodes, scores=scores)
    _check_places("reached", place, before)
    operators, number = _with_operator(before.operators, name)
    trails = np.concatenate([before.trails[place], nodes[:, None]], 1)
    steps = None
    if before.relations is not None or relations is not None:
        (last,) = _fitting("reached", len(nodes), relations=np.full(len(nodes), -1) if relations is None else relations)
        steps = np.concatenate([before.steps()[place], last[:, None]], 1)
    return Candidates(nodes, scores, trails, np.full(len(nodes), number), operators, steps)


def stacked(before: Candidates, origin: np.ndarray, steps: Any, scores: np.ndarray, name: str) -> Candidates:
    """Return what an operator reached by several steps each: the node rows of `steps` after the candidate at the place `origin`.

    `steps` are n lists, or an array of shape [n, D] in which -1 is not a step. A node without a step is the candidate itself, with
    the operator that found it. `origin` and `scores` have the length n; the order is kept.
    """
    origin, scores = _fitting("stacked", _count(steps), origin=origin, scores=scores)
    _check_places("stacked", origin, before)
    operators, number = _with_operator(before.operators, name)
    table = steps if isinstance(steps, np.ndarray) and steps.ndim == 2 else padded(steps, least=0)
    most = table.shape[1]
    trails = np.pad(before.trails[origin], ((0, 0), (most, 0)), constant_values=-1)
    relations = None
    if before.relations is not None:
        relations = np.pad(before.relations[origin], ((0, 0), (most, 0)), constant_values=-1)
    for column in table.T:
        rows = np.flatnonzero(column >= 0)
        trails[rows, :-1], trails[rows, -1] = trails[rows, 1:], column[rows]
        if relations is not None:
            relations[rows, :-1], relations[rows, -1] = relations[rows, 1:], -1
    # Columns before the longest trail, but not those of the candidates.
    cut = int((trails[:, :most] < 0).all(0).sum()) if len(trails) else most
    origins = np.where((table >= 0).any(1), number, before.origins[origin])
    return Candidates(trails[:, -1], scores, trails[:, cut:], origins, operators, None if relations is None else relations[:, cut:])


def _count(nodes: Any) -> int:
    """Return how many nodes are given; anything but a list counts as none, which does not fit."""
    return len(nodes) if hasattr(nodes, "__len__") else 0


def _fitting(function: str, count: int, **values: Any) -> list[np.ndarray]:
    """Return what is given to a function as arrays; raise MisfitError unless each has `count` numbers, all but scores integers."""
    arrays = []
    for name, value in values.items():
        array = value if type(value) is np.ndarray else _array(function, name, value)
        kinds, what = ("fiu", "numbers") if name == "scores" else ("iu", "integers")
        if not count and array.shape == (0,):
            array = array.astype(np.float64 if name == "scores" else np.int64)
        if array.shape != (count,) or array.dtype.kind not in kinds:
            description = f"{name} of shape {array.shape}, {array.dtype}"
            raise MisfitError(f"{function} was given {description}; expected {what} of shape ({count},), one for each node.")
        arrays.append(array)
    return arrays


def _array(function: str, name: str, value: Any) -> np.ndarray:
    """Return a list, or what numpy takes for one, as an array; anything else does not fit."""
    try:
        array = np.asarray(value)
    except Exception:
        array = np.asarray(None)
    if array.dtype == object:
        hint = "; what a request is answered with comes from `yield`" if hasattr(value, "verb") else ""
        raise MisfitError(f"{function} was given {name} {shown(value)}; expected a numpy array{hint}.")
    return array


def _check_before(function: str, before: Any) -> None:
    if not isinstance(before, Candidates):
        raise MisfitError(f"{function} was given candidates {shown(before)}; expected Candidates, such as `candidates`.")


def _check_places(function: str, place: np.ndarray, before: Candidates) -> None:
    _check_before(function, before)
    count = len(before)
    outside = place[(place < 0) | (place >= count)]
    if len(outside):
        expected = f"places from 0 to {count - 1} in the candidates before, as `owner` of neighbours has them" if count else "none"
        raise MisfitError(f"{function} was given place {outside[0]}; expected {expected}. A place is not the row of a node.")


def _with_operator(operators: tuple[str, ...], name: str) -> tuple[tuple[str, ...], int]:
    """Return the operators with `name`, at the end if it is new, and its place among them."""
    operators = operators if name in operators else (*operators, name)
    return operators, operators.index(name)


def places_of(among: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the place of each node among distinct nodes, -1 if it is not among them."""
    if not len(among):
        return np.full(len(nodes), -1)
    by = np.argsort(among, kind="stable")
    place = by[np.minimum(np.searchsorted(among[by], nodes), len(among) - 1)]
    return np.where(among[place] == nodes, place, -1)


def newly_reached(known: np.ndarray, owner: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes, ascending, that are not among those known, and the first owner of each.

    `owner` and `nodes`, shape [T], are the neighbours of some nodes, as in :class:`~graph_retrievers.core.requests.Near`.

    >>> newly_reached(np.array([4]), np.array([0, 0, 1, 1]), np.array([4, 7, 2, 7]))
    (array([2, 7]), array([1, 0]))
    """
    new, first = np.unique(nodes, return_index=True)
    unknown = places_of(known, new) < 0
    return new[unknown], owner[first[unknown]]


def wider(paths: np.ndarray, length: int) -> np.ndarray:
    """Return paths, shape [K, L], with -1 before each: shape [K, length]."""
    if paths.shape[1] == length:
        return paths
    table = np.full((len(paths), length), -1, np.int64)
    table[:, length - paths.shape[1] :] = paths
    return table
