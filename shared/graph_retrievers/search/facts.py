"""Search over the texts of the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Request, Scores
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import ranked_on_host
from graph_retrievers.search.queries import Queries, both

__all__ = ["EdgeScores", "FactSearch", "NearestEdges"]


@dataclass(frozen=True)
class NearestEdges(Request):
    """The `k` best edges of a signal: ``(rows [n], scores [n], least)``, best first.

    Attributes
    ----------
    k : int
    signal : str
    among : callable
        Maps :class:`~graph_retrievers.search.queries.Queries` to the edges that may be found: Tensor, shape [R], bool, or None for
        all.
    least : bool, default False
        Whether `least` in the answer is the lowest score of all edges that may be found; otherwise, or if there are none, it is 0.
    """

    reads = "signals"
    shared = ("signal", "among", "least")
    k: int
    signal: str
    among: Callable[[Queries], Tensor | None]
    least: bool = False

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, NearestEdges]]) -> Sequence[tuple[np.ndarray, np.ndarray, float]]:
        """Return the best edges for each question."""
        queries, first = backend.queries, requests[0][1]
        mask = edge_mask(queries, first.among)
        scores, rows = queries.search(first.signal, max(request.k for _, request in requests), mask, "edges")
        low = _lowest(queries, first.signal, mask) if first.least else [0.0] * len(queries)
        values, table = ranked_on_host(scores, rows)
        lengths = (table >= 0).sum(1).tolist()
        ends = [min(request.k, lengths[b]) for b, request in requests]
        return [(table[b, :end], values[b, :end], low[b]) for (b, _), end in zip(requests, ends, strict=True)]


class EdgeScores(Scores):
    """A signal's scores of edges, by their rows."""

    tells = ""


def _lowest(queries: Queries, name: str, mask: Tensor | None) -> list[float]:
    """Return the lowest score of the rows of a mask for each query; 0 for a query without rows."""
    signal, view, table = queries.index.signal(name), queries.view(name), queries.table(name)
    if not len(signal):
        return [0.0] * len(queries)
    parts = (signal.table(view[b : b + 1]) for b in range(len(queries))) if table is None else [table]
    if mask is not None:
        parts = (part.masked_fill(~mask, torch.inf) for part in parts)
    return [low if low < torch.inf else 0.0 for part in parts for low in part.amin(1).tolist()]


def edges_within(queries: Queries, nodes: Tensor | None) -> Tensor | None:
    """Return the edges with both ends in `nodes`, shape [N], bool: Tensor, shape [R], bool, or None for all."""
    graph = queries.index.graph
    return None if nodes is None else nodes[graph.sources] & nodes[graph.targets]


class FactSearch(Operator):
    """The edges whose texts match the query best, and the nodes that they join.

    Parameters
    ----------
    limit : int, default 10
        Number of facts.
    signal : str, default "edge_dense"
        Signal over the edges: ``"edge_dense"`` or ``"edge_bm25"`` (``GraphIndex.from_graph(..., edge_signals=True)``).
    returned : bool, default True
        Whether the facts are results: they are then additional hits after the k nodes, and the return filter applies to both of
        their ends. False if they are only seeds of a traversal.

    Notes
    -----
    A node gets the score and the place of its best fact, the source before the target, and is a seed. Edges with an end that may
    not start a traversal are not found.

    Examples
    --------
    >>> from graph_retrievers import Edge, GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada Lovelace"), Node("babbage", "", "Charles Babbage")]
    >>> edges = [Edge("ada", "babbage", "knows", text="Ada met Babbage at a party.")]
    >>> index = GraphIndex.from_nodes(nodes, edges, edge_signals=True)
    >>> retriever = Retriever(index, FactSearch(signal="edge_bm25"), backfill=False)
    >>> [(hit.kind, hit.text) for hit in retriever.retrieve("Who met at a party?")]
    [('node', ''), ('node', ''), ('fact', 'Ada met Babbage at a party.')]
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, limit: int = 10, *, signal: str = "edge_dense", returned: bool = True) -> None:
        self.limit = positive("limit", limit)
        self.signal, self.returned = signal, returned

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the ends of the best facts, and the facts; earlier results are not read."""
        if question.corpus.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"FactSearch searches edges; the signal {self.signal!r} covers nodes.")
        rows, scores, _ = yield NearestEdges(self.limit, self.signal, returned_edges if self.returned else started_edges)
        # Each end once, at its best fact: in the order of the facts, source before target.
        ends = question.ends(rows).ravel()
        first = np.sort(np.unique(ends, return_index=True)[1])
        result = Candidates.seeds(ends[first], scores.repeat(2)[first], self.name)
        result.facts = Facts(rows, scores, self.name) if self.returned else None
        return result


def started_edges(queries: Queries) -> Tensor | None:
    """Return the edges whose ends may both start a traversal: Tensor, shape [R], bool, or None for all."""
    return edges_within(queries, queries.named_allowed)


def returned_edges(queries: Queries) -> Tensor | None:
    """Return those of :func:`started_edges` whose ends may both be returned."""
    return edges_within(queries, both(queries.named_allowed, queries.allowed))


def edge_mask(queries: Queries, among: Callable[[Queries], Tensor | None]) -> Tensor | None:
    """Return the edges that a function returns for queries; it is called once."""
    return queries.cache.get(("edges", among), lambda: among(queries))
