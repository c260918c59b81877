"""Search over the texts of the edges of a graph."""

from __future__ import annotations

import torch

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries, both
from graph_retrievers.results import Facts, Ranking

__all__ = ["FactSearch"]


class FactSearch(Operator):
    """The edges whose texts match the query best, and the nodes they join.

    Parameters
    ----------
    limit : int, default 10
        Number of facts.
    signal : str, default "edge_dense"
        Signal over the edges: ``"edge_dense"`` or ``"edge_bm25"`` (``GraphIndex.from_graph(..., edge_signals=True)``).
    returned : bool, default True
        Whether the facts are results: they are then hits of their own behind the k nodes, and the return filter applies to both
        of their ends. False where they are only seeds of a traversal.

    Notes
    -----
    A node has the score and the place of its best fact, the source before the target, and is a seed. Edges with an end that may
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

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ends of the best facts, and the facts; what came before is not read."""
        graph, signal = queries.index.graph, queries.index.signal(self.signal)
        if signal.covers != "edges":
            raise InvalidArgumentError(f"FactSearch searches edges; the signal {self.signal!r} covers nodes.")
        nodes = both(queries.named_allowed, queries.allowed if self.returned else None)
        allowed = None if nodes is None else nodes[graph.sources] & nodes[graph.targets]
        scores, rows = signal.search(queries.view(self.signal), self.limit, allowed)
        batch, place = (rows >= 0).nonzero(as_tuple=True)
        found = rows[batch, place]
        # Each end once, at its best fact: in the order of the facts, source before target.
        keys = torch.stack([graph.sources[found], graph.targets[found]], 1).add((batch * len(graph)).unsqueeze(1)).flatten()
        distinct, where = torch.unique(keys, return_inverse=True)
        place_of = torch.arange(keys.numel(), device=keys.device)
        seen = torch.full_like(distinct, keys.numel()).scatter_reduce_(0, where, place_of, "amin").sort().values
        owner = keys[seen] // len(graph)
        column = place_of[: seen.numel()] - torch.searchsorted(owner, owner)
        width = int(column.max()) + 1 if column.numel() else 0
        table = torch.full((len(queries), width), -1, dtype=torch.int64, device=keys.device)
        values = torch.full((len(queries), width), float("-inf"), device=scores.device)
        table[owner, column] = keys[seen] % len(graph)
        values[owner, column] = scores[batch, place].repeat_interleave(2)[seen].to(values.dtype)
        return Ranking.of(table, values, self.name, facts=Facts(rows, scores, self.name) if self.returned else None)
