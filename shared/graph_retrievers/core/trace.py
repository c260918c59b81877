"""The trace of a search: the calls of a backend, and what surrounds each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

from graph_retrievers.core.requests import Request


class Asked(NamedTuple):
    """One call of a backend.

    Attributes
    ----------
    step : int
        From 1; the calls of one step are made for all questions of a batch at once.
    request : type
        Type of the request, such as :class:`~graph_retrievers.core.requests.Neighbors`.
    operators : tuple of str
        Names of the operators that made the request.
    questions : int
        Number of questions.
    nodes : int
        Number of nodes in the request, or of requested nodes.
    seconds : float
        Time of the call.
    """

    step: int
    request: type[Request]
    operators: tuple[str, ...]
    questions: int
    nodes: int
    seconds: float


class Trace(list[Asked]):
    """The requests of a batch's questions, in order; printed as a table.

    Examples
    --------
    >>> from graph_retrievers.core.requests import Nearest, Neighbors
    >>> print(Trace([Asked(1, Nearest, ("VectorSearch",), 1, 5, 0.002), Asked(2, Neighbors, ("GAR",), 1, 5, 0.00014)]))
    step  operator      asked      questions  nodes      ms
       1  VectorSearch  Nearest            1      5    2.00
       2  GAR           Neighbors          1      5    0.14
    """

    def records(self) -> list[dict[str, Any]]:
        """Return a dictionary for each call, with the name of the request, for callbacks and JSON."""
        return [{**call._asdict(), "request": call.request.__name__, "operators": list(call.operators)} for call in self]

    def __str__(self) -> str:
        """Return a table with one line per call."""
        rows = [("operator", "asked"), *((", ".join(call.operators), call.request.__name__) for call in self)]
        by, wide = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"step  {rows[0][0]:<{by}}  {rows[0][1]:<{wide}}  questions  nodes      ms"]
        for call, (operator, request) in zip(self, rows[1:], strict=True):
            counts = f"{call.questions:>9}  {call.nodes:>5}  {1e3 * call.seconds:>6.2f}"
            lines.append(f"{call.step:>4}  {operator:<{by}}  {request:<{wide}}  {counts}")
        return "\n".join(lines)


RECORD: ContextVar[Callable[[Asked, Sequence[Request], Sequence[Any], int | None, bool], None] | None] = ContextVar(
    "record of the present search", default=None
)
"""What is given each call of the searches here, its requests and their answers, the number of nodes, if it is known, and whether
several questions ask as one; None unless a search is recorded."""

_Surrounding = Callable[[str], AbstractContextManager[Callable[[Asked], None] | None]]

SURROUNDING: _Surrounding | None = None
"""What :func:`surround` was given."""


def surround(calls: _Surrounding | None) -> None:
    """Run every call of a backend inside a context manager, such as a span of OpenTelemetry; None ends this.

    Parameters
    ----------
    calls : callable or None
        Given the name of the requests of a call, it returns the context manager. This yields a function that takes the call as
        the trace has it, or None.
    """
    global SURROUNDING
    SURROUNDING = calls
