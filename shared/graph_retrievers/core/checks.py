"""Checks of the requests and results of every operator: a wrong row or score would otherwise be ranked silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import (
    AMONG,
    EdgesAmong,
    Mix,
    Pairs,
    Relevance,
    Request,
    Scores,
    TermScores,
    WeightedNeighbors,
    Weights,
    WithQuery,
)
from graph_retrievers.errors import InvalidArgumentError, shown

_INT64 = np.dtype(np.int64)
# The limit of rows where the size of the graph is not known: any int64 is allowed.
_NO_LIMIT = 1 << 63


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and 0.0 <= float(value) <= 1.0


def _are_strings(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, str) for part in value)


_TEXT, _NONE = frozenset((str,)), frozenset[type]()
# What fields of requests have to be, by name or else by annotation: types whose values all fit, a test of the others, and what is
# expected. The test of "tuple[str, ...]" refuses a string, whose letters would otherwise be taken for names.
_FIELDS: dict[str, tuple[frozenset[type], Callable[[Any], bool], str]] = {
    "k": (_NONE, _is_count, "the number of nodes, 0 or more"),
    "most": (_NONE, _is_count, "the number of edges, 0 or more"),
    "among": (_NONE, AMONG.__contains__, f"one of {', '.join(map(repr, AMONG))}"),
    "alpha": (_NONE, _is_share, "a number from 0 to 1"),
    "str": (_TEXT, lambda value: isinstance(value, str), "a string"),
    "str | None": (_TEXT | {type(None)}, lambda value: isinstance(value, str), "a string, or None"),
    "bool": (frozenset((bool,)), lambda value: isinstance(value, np.bool_), "True or False"),
    "tuple[str, ...]": (_NONE, _are_strings, "a tuple of strings, such as ('film',)"),
    "Callable[..., Any]": (_NONE, callable, "a function"),
}


def check_requests(requests: Any, size: int | None, owner: str) -> Sequence[Request]:
    """Return the requests of an operator; raise InvalidArgumentError unless they are about rows below `size`, if that is known.

    Examples
    --------
    >>> from graph_retrievers.core.requests import Neighbors
    >>> try:
    ...     check_requests([Neighbors(np.array([0, 9]))], 3, "Mine")
    ... except InvalidArgumentError as error:
    ...     print(error)
    Mine asked for Neighbors of row 9; expected rows from 0 to 2.
    """
    owner, most = owner or "A search", _NO_LIMIT if size is None else size
    if not isinstance(requests, tuple | list):
        requests = (requests,)
    for request in requests:
        while isinstance(request, WithQuery):
            _check_fields(request, owner)
            request = request.request
        if not isinstance(request, Request):
            expected = "expected requests of graph_retrievers.core.requests"
            raise InvalidArgumentError(f"{owner} asked for {shown(request)}; {expected}.")
        if not request.verb:
            # A new kind of request may have other fields, and rows of another graph.
            continue
        _check_fields(request, owner)
        nodes = vars(request).get("nodes")
        if nodes is not None:
            # A signal, or a function of pairs, may be one of edges.
            end = _NO_LIMIT if isinstance(request, Scores | TermScores | Pairs) else most
            array = type(nodes) is np.ndarray and nodes.dtype is _INT64 and nodes.ndim == 1
            # For a few rows, argmin and argmax take a tenth of the time of min and max.
            if not array or (len(nodes) and not 0 <= nodes.item(nodes.argmin()) <= nodes.item(nodes.argmax()) < end):
                _check_rows(request, nodes, end, owner)
            if isinstance(request, Relevance):
                _check_texts_and_mix(request, owner)
            elif isinstance(request, EdgesAmong | WeightedNeighbors | Weights) and (row := _repeated(nodes)) is not None:
                expected = "expected distinct rows, such as `candidates.nodes` or `np.unique(near.node)`"
                raise InvalidArgumentError(f"{owner} asked for {type(request).__name__} of row {row} twice; {expected}.")
    return requests  # type: ignore[no-any-return]


@cache
def _fields(kind: type[Request]) -> list[tuple[str, frozenset[type], Callable[[Any], bool], str]]:
    """Return the fields of a kind of requests that are checked, and how."""
    if not is_dataclass(kind):
        return []
    checks = ((field.name, _FIELDS.get(field.name) or _FIELDS.get(str(field.type))) for field in fields(kind))
    return [(name, *check) for name, check in checks if check is not None]


def _check_fields(request: Request, owner: str) -> None:
    """Raise InvalidArgumentError unless the fields of a request are what they have to be."""
    for name, types, fits, expected in _fields(type(request)):  # type: ignore[arg-type]
        value = getattr(request, name)
        if type(value) not in types and not fits(value):
            message = f"{owner} asked for {type(request).__name__} {name if name == 'among' else f'with {name}'} {shown(value)}"
            raise InvalidArgumentError(f"{message}; expected {expected}.")


def _check_texts_and_mix(request: Relevance, owner: str) -> None:
    """Raise InvalidArgumentError unless there is a text, and a row to mix, for each node, because those of others follow it."""
    texts, mix, count = request.texts, request.mix, len(request.nodes)
    message = f"{owner} asked for Relevance of {count} nodes"
    if texts is not None and not (isinstance(texts, list | tuple) and len(texts) == count and _are_strings(tuple(texts))):
        raise InvalidArgumentError(f"{message} with texts {shown(texts)}; expected a list of {count} strings, one for each node.")
    if (
        mix is not None
        and not isinstance(mix, Mix)
        and not (isinstance(mix, np.ndarray) and mix.shape == (count, count) and mix.dtype == np.float32)
    ):
        description = f"mix of shape {mix.shape}, {mix.dtype}" if isinstance(mix, np.ndarray) else f"mix {shown(mix)}"
        raise InvalidArgumentError(f"{message} with {description}; expected a float32 array of shape ({count}, {count}).")


def _check_rows(request: Request, nodes: Any, size: int, owner: str) -> None:
    message = f"{owner} asked for {type(request).__name__} of"
    if not isinstance(nodes, np.ndarray) or nodes.dtype.kind != "i" or nodes.ndim != 1:
        description = f"nodes of shape {nodes.shape}, {nodes.dtype}" if isinstance(nodes, np.ndarray) else f"nodes {shown(nodes)}"
        raise InvalidArgumentError(f"{message} {description}; expected a numpy array of rows: integers, shape [n].")
    outside = nodes[(nodes < 0) | (nodes >= size)]
    if len(outside):
        raise InvalidArgumentError(f"{message} row {outside[0]}; expected rows from 0 to {size - 1}.")


def _repeated(nodes: np.ndarray) -> int | None:
    """Return the first row that stands in an array, shape [n], for a second time; None if all are distinct."""
    rows = np.sort(nodes)
    if not np.count_nonzero(rows[1:] == rows[:-1]):
        return None
    return next(row for place, row in enumerate(nodes.tolist()) if row in nodes[:place])


def check_candidates(candidates: Any, question: Question, owner: str) -> None:
    """Raise InvalidArgumentError unless an operator's nodes are distinct, with valid scores, trails and other values.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> question = Question(MemoryBackend(Queries.of(GraphIndex.from_texts(["a loom", "a card"]), ["Which card?"])), 0)
    >>> try:
    ...     check_candidates(Candidates.seeds(np.array([1, 1]), np.array([0.9, 0.8]), "Mine"), question, "Mine")
    ... except InvalidArgumentError as error:
    ...     print(error)
    Mine returned row 1 twice for one query; `candidates.joined(...)` keeps the first of each node (neighbours come for each owner).
    """
    if not isinstance(candidates, Candidates):
        raise InvalidArgumentError(f"{owner} returned {shown(candidates)}; expected Candidates.")
    size = question.size
    nodes, scores, trails, relations = candidates.nodes, candidates.scores, candidates.trails, candidates.relations
    shapes = [None if array is None else getattr(array, "shape", type(array)) for array in (nodes, scores, trails, relations)]
    count, length = len(candidates), trails.shape[-1] if getattr(trails, "ndim", 0) == 2 else 0
    fits = (None, (count, max(length - 1, 0)))
    if shapes[:3] != [(count,), (count,), (count, length)] or shapes[3] not in fits or (count and not length):
        description = f"nodes, scores, trails and relations of the shapes {shapes}"
        raise InvalidArgumentError(f"{owner} returned {description}; expected [K], [K], [K, L] and [K, L - 1].")
    for name, column in candidates.columns.items():
        expected = (count, len(candidates.lists)) if name == "ranks" else (count, *column.shape[1:])
        if column.shape != expected:
            raise InvalidArgumentError(f"{owner} returned {name} of the shape {column.shape}; expected {expected}.")
    if candidates.chains is not None:
        _check_list("chain", candidates.chains.nodes, candidates.chains.scores, -1, size, owner)
    if candidates.facts is not None:
        _check_list("fact", candidates.facts.rows, candidates.facts.scores, 0, question.edges, owner)
    if not count:
        return
    if nodes.dtype.kind != "i" or scores.dtype.kind not in "fi" or trails.dtype.kind != "i":
        description = f"{nodes.dtype} rows, {scores.dtype} scores and {trails.dtype} trails"
        raise InvalidArgumentError(f"{owner} returned {description}; expected integers, numbers and integers.")
    # The largest of numbers is NaN where one of them is; as above, argmin and argmax are fast.
    largest, low, high = scores.item(scores.argmax()), trails.item(trails.argmin()), trails.item(trails.argmax())
    if low < -1 or high >= size or nodes.item(nodes.argmin()) < 0 or largest != largest:
        mask = (nodes < 0) | (nodes >= size) | np.isnan(scores)
        description = f"row {nodes[mask][0]} with score {scores[mask][0]}" if mask.any() else "a trail with a row outside the graph"
        raise InvalidArgumentError(f"{owner} returned {description}; expected rows from 0 to {size - 1} and numbers.")
    if np.count_nonzero(trails[:, -1] != nodes):
        raise InvalidArgumentError(f"{owner} returned a trail that does not end in its node; pads stand before a trail.")
    if (twice := _repeated(nodes)) is not None:
        hint = "`candidates.joined(...)` keeps the first of each node (neighbours come for each owner)"
        raise InvalidArgumentError(f"{owner} returned row {twice} twice for one query; {hint}.")


def _check_list(what: str, rows: np.ndarray, scores: np.ndarray, least: int, size: int, owner: str) -> None:
    """Raise InvalidArgumentError unless chains [K, L], or facts [M], have rows of the graph and a number each."""
    if rows.ndim != (2 if what == "chain" else 1) or scores.shape != rows.shape[:1]:
        raise InvalidArgumentError(
            f"{owner} returned {what}s of the shapes {[rows.shape, scores.shape]}; expected one score for each."
        )
    if rows.size and (rows.dtype.kind != "i" or scores.dtype.kind not in "fi"):
        raise InvalidArgumentError(
            f"{owner} returned {what}s of the kinds {[rows.dtype, scores.dtype]}; expected integers and floats."
        )
    outside = (rows < least) | (rows >= size)
    places = np.flatnonzero((outside.any(1) if what == "chain" else outside) | np.isnan(scores))
    if len(places):
        line, score = np.atleast_1d(rows[places[0]]), scores[places[0]]
        row = next((row for row in line.tolist() if not least <= row < size), line[0])
        expected = f"expected rows from {least} to {size - 1} and numbers"
        raise InvalidArgumentError(f"{owner} returned a {what} with row {row} and score {score}; {expected}.")
