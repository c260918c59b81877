"""Textual matching of MoR (section 3.2.2): nodes of one type by their similarity to query and restriction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.ragged import top_k
from graph_retrievers.queries import Queries
from graph_retrievers.signals.signal import Signal

__all__ = ["TextMatching"]

# Entries of a [texts, nodes] table of similarities in memory at a time (float32: 256 MB).
_TABLE_ENTRIES = 1 << 26


class TextMatching:
    """Similarity of texts and nodes, and the best nodes among those of some types.

    Parameters
    ----------
    signal : str, optional
        Signal of the index: ``"bm25"``, as in the paper for two of its graphs, or ``"dense"``, as for the third. By default BM25
        where the index has it.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["a", "b", "c"], ["jazz film", "jazz club", "opera"], types=["movie", "place", "place"])
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["jazz"])
    >>> TextMatching().search(queries, ["jazz"], 2, torch.tensor([[False, True, True]]))[1].tolist()
    [[1, -1]]
    """

    def __init__(self, signal: str | None = None) -> None:
        self.signal = signal

    def __repr__(self) -> str:
        """Return the class and the signal."""
        return f"TextMatching(signal={self.signal!r})"

    def _signal(self, queries: Queries) -> Signal:
        index = queries.index
        if self.signal is None and not index.has_bm25 and not index.has_dense:
            raise MissingSignalError("Textual matching needs BM25 or vectors; build the index with bm25=True or embedding=.")
        return index.signal(self.signal or ("bm25" if index.has_bm25 else "dense"))

    def similarities(self, queries: Queries, texts: list[str]) -> Tensor:
        """Return similarities of texts with every node: Tensor, shape [M, N], float32."""
        return self._signal(queries).table(self._view(queries, texts))

    def _view(self, queries: Queries, texts: list[str]) -> Any:
        """Return texts as the signal reads them."""
        return queries.embed(texts) if self._signal(queries).reads == "vector" else texts

    def search(self, queries: Queries, texts: list[str], k: int, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores, best first, and rows of the best k nodes for each of M texts, both [M, min(k, N)].

        `allowed`, bool [M, N], says which nodes may match. Rows are -1 and scores -inf where fewer match; a match by BM25 needs
        a word in common.
        """
        if not self._signal(queries).tabled:
            return self._signal(queries).search(self._view(queries, texts), k, allowed)
        found_scores, found_rows = [], []
        for part in self._parts(len(texts), len(queries.index)):
            table = self.similarities(queries, texts[part])
            # A text that shares no word with a node does not match it; vectors always compare.
            lexical = self._signal(queries).reads == "text"
            table = table.masked_fill(~allowed[part] | ((table <= 0) if lexical else torch.isnan(table)), float("-inf"))
            values, rows = top_k(table, k)
            found_scores.append(values)
            found_rows.append(rows.masked_fill(values == float("-inf"), -1))
        if not found_rows:
            return torch.empty((0, 0)), torch.empty((0, 0), dtype=torch.int64)
        return torch.cat(found_scores), torch.cat(found_rows)

    def pairs(self, queries: Queries, texts: list[str], owner: Tensor, nodes: Tensor) -> Tensor:
        """Return the similarity of P pairs, each of a text and a node given by place and row in `owner` and `nodes`: [P]."""
        if not self._signal(queries).tabled:
            return self._signal(queries).scores(self._view(queries, texts), owner, nodes)
        scores = torch.zeros(owner.numel(), device=nodes.device)
        for part in self._parts(len(texts), len(queries.index)):
            mine = (owner >= part.start) & (owner < part.stop)
            table = self.similarities(queries, texts[part])
            scores[mine] = table[owner[mine] - part.start, nodes[mine]]
        return scores

    @staticmethod
    def _parts(count: int, size: int) -> list[slice]:
        step = max(1, _TABLE_ENTRIES // max(size, 1))
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]
