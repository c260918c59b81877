"""Record what a search finds in each of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.core.requests import Request, inner_request
from graph_retrievers.core.trace import RECORD, Asked


class StepResult(NamedTuple):
    """What one call of a backend found.

    Attributes
    ----------
    entry : Asked
        The call, as in the trace (:class:`graph_retrievers.core.trace.Asked`).
    nodes : ndarray, shape [n], int64
        Node rows, in the order of the answer; empty if the answer is not about nodes. Nodes of a search that are not in the
        corpus are left out.
    scores : ndarray, shape [n], or None
        Their scores.
    near : ndarray, shape [n], int64, or None
        For neighbours: the node row whose neighbour each is.
    requests : sequence of Request
        The requests, in the order of the questions.
    """

    entry: Asked
    nodes: np.ndarray
    scores: np.ndarray | None = None
    near: np.ndarray | None = None
    requests: Sequence[Request] = ()


_NONE = np.zeros(0, np.int64)


@contextmanager
def recorded() -> Iterator[list[StepResult]]:
    """Yield a list to which the searches inside, in this thread, add the results of each call.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex, Retriever
    >>> retriever = Retriever(GraphIndex.from_texts(["a loom", "a card"]), BM25(), k=1)
    >>> with recorded() as found:
    ...     hits = retriever.retrieve("Which card?")
    >>> found[0].entry.request.__name__, found[0].nodes.tolist()
    ('Nearest', [1])
    """
    results: list[StepResult] = []
    token = RECORD.set(partial(_record, results))
    try:
        yield results
    finally:
        RECORD.reset(token)


def _record(
    results: list[StepResult], entry: Asked, requests: Sequence[Request], answers: Sequence[Any], size: Any, of_many: bool
) -> None:
    """Add the results of a call to a record, without nodes of `size` or above, which are not in the corpus.

    `of_many` says whether several questions ask as one (:class:`~graph_retrievers.core.question.Questions`).
    """
    results_of_each = [_nodes_and_scores(request, answer) for request, answer in zip(requests, answers, strict=True)]
    columns = [[part for part in column if part is not None] for column in zip(*results_of_each, strict=True)]
    # A column is that of all requests of the call, or of none.
    nodes, scores, near = (np.concatenate(parts) if parts else None for parts in columns)
    nodes = _NONE if nodes is None else nodes
    if of_many:
        # Questions number the nodes of each question apart.
        nodes, near = nodes % size, None if near is None else near % size
    mask = nodes < (np.inf if size is None else size)
    scores, near = (None if column is None else column[mask] for column in (scores, near))
    results.append(StepResult(entry, nodes[mask], scores, near, requests))


def _nodes_and_scores(request: Any, answer: Any) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the nodes of an answer, their scores, and whose neighbours they are (:attr:`Request.tells`)."""
    request = inner_request(request)
    if request.tells == "ranked":
        return answer[0], answer[1], None
    if request.tells == "scores":
        return request.nodes, answer[0] if isinstance(answer, tuple) else answer, None
    if request.tells == "neighbors":
        near = answer if hasattr(answer, "owner") else answer[0]
        return near.node, None, request.nodes[near.owner]
    if request.tells == "edges":
        return answer[2], None, request.nodes[answer[0]]
    if request.tells == "names":
        return np.array([row for _, rows in answer for row in rows], np.int64), None, None
    return _NONE, None, None
