"""PlainSearch: ranks of the nodes of a query in a search that does not read the graph."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from graph_retrievers.search.memory import ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import BM25Search, HybridSearch, VectorSearch

PLAIN_DEPTH = 100
"""Number of nodes of the search without the graph."""


class PlainSearch:
    """Ranks in hybrid search with the filters of the queries, or in vector search or BM25 if the index has only one of them.

    The search runs when a rank is first needed, because it takes as long as hybrid search and may embed the questions. The index
    is kept for it; a copy or a pickle has the ranks instead.

    >>> from graph_retrievers import GraphIndex
    >>> search = PlainSearch(Queries.of(GraphIndex.from_texts(["a loom", "a card", "one card"]), ["Which card?"]))
    >>> search.rank(0, "2"), search.rank(0, "0")
    (2, None)
    """

    def __init__(self, queries: Queries) -> None:
        # Without the cache, which may hold large tables of scores.
        self._queries = queries.afresh()

    def rank(self, query: int, node: str) -> int | None:
        """Return the rank of a node, from 1, for the query with a number; None if it is not among the first 100."""
        return self._ranks[query].get(node)

    @cached_property
    def _ranks(self) -> list[dict[str, int]]:
        queries = self._queries
        index, dense = queries.index, queries.index.has_dense and queries.has_vectors
        search: Any = HybridSearch if dense and index.has_bm25 else VectorSearch if dense else BM25Search
        lists = ranked(search(PLAIN_DEPTH), queries)
        return [{index.graph.ids[row]: rank for rank, row in enumerate(found.nodes.tolist(), 1)} for found in lists]

    def __getstate__(self) -> dict[str, Any]:
        """Return the ranks."""
        return {"_ranks": self._ranks}
