"""A batch of queries on an index, with a cache of computed results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import check_query, positive
from graph_retrievers.cache import Identity
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.search.batch import DEFAULT_K, Batch, compared_vectors
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import ROUNDING, DenseIndex, zeroed
from graph_retrievers.signals.multi_vector import MultiVectorIndex
from graph_retrievers.signals.signal import Signal, VectorSignal, check_search
from graph_retrievers.signals.sparse import SparseIndex
from graph_retrievers.signals.tfidf import TfIdf

__all__ = ["Queries", "both"]

# Beyond this many entries a [B, N] table of scores is not kept; single entries are computed instead.
_TABLE_LIMIT = 1 << 27
# In an index of at least this many vectors, scores are computed one by one if they are fewer than this share of a table.
_LARGE, _FEW = 1 << 16, 1 / 8
# Signals whose searches need no check, which would cost time at every question; classes derived from them are checked.
_SOUND = (BM25, DenseIndex, MultiVectorIndex, SparseIndex, TfIdf)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Queries(Batch):
    """B immutable queries on one index in memory; :meth:`narrowed` returns a copy that shares the computed results.

    Use :meth:`of` to create one.

    Attributes
    ----------
    index : Corpus
    allowed, seeds_allowed, walk_allowed : Tensor, shape [N], bool, or None
        Which nodes may be returned, start a traversal, and be visited; None for all.
    named_allowed : Tensor, shape [N], bool, or None
        Which nodes may start where a plan or a fact names them: only by `seed_filter`.
    filtered : Tensor, shape [N], bool, or None
        Which nodes pass `filter`, independent of the types that may be returned.
    texts, k, inputs, vector_source, model, cache, trace
        As for :class:`~graph_retrievers.search.batch.Batch`.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["An engine.", "A program."], ids=["engine", "program"])
    >>> Queries.of(index, ["Which program?"], k=1, filter={"$id": "program"})
    Queries(1, k=1, filters=['allowed', 'seeds_allowed'], inputs=[])
    """

    index: Corpus
    allowed: Tensor | None = None
    seeds_allowed: Tensor | None = None
    walk_allowed: Tensor | None = None
    named_allowed: Tensor | None = None
    filtered: Tensor | None = None

    @classmethod
    def of(
        cls,
        index: Corpus,
        texts: str | Sequence[str],
        *,
        k: int = DEFAULT_K,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        scope: Filter | None = None,
        inputs: Mapping[str, Sequence[Any]] | None = None,
    ) -> Queries:
        """Return queries on an index.

        Parameters
        ----------
        index : Corpus
        texts : str or sequence of str, length B
            The questions; none may be empty, because operators have nothing to search for. A retriever lists the nodes that pass
            its filter instead.
        k : int, default 10
        vectors : array-like of shape [B, d] or callable, optional
            Query vectors, or a function from the B texts to their vectors that is called when they are needed; by default the
            index's embedding model computes them.
        filter, seed_filter, traversal_filter : mapping, callable or Tensor, optional
            Conditions for `allowed`, `seeds_allowed` and `walk_allowed` (see :func:`graph_retrievers.graph.filters.filter_mask`).
            Without a `seed_filter`, `filter` also restricts the start of a traversal; ``seed_filter={}`` removes that.
        scope : mapping, callable or Tensor, optional
            Which nodes are searched: the queries, and the rows of rankings, are on
            :meth:`graph_retrievers.index.GraphIndex.within`. Masks have a bool for each node of the given index.
        inputs : mapping of str to sequence of length B, optional

        Raises
        ------
        InvalidArgumentError
            If a text is empty or not a string.
        DimensionMismatchError, InvalidVectorError
            If the vectors are not [B, d] with the width of the index, or contain NaN or infinity.
        EmptyGraphError
            If no node is in the scope.
        """
        whole = index
        if scope is not None:
            index = index.within(scope)
        texts = (texts,) if isinstance(texts, str) else tuple(texts)
        for position, text in enumerate(texts):
            check_query(text, position)
            if not text.strip():
                raise InvalidArgumentError(f"Query {position} is {shown(text)}; operators search for a non-empty string.")
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter}
        if index is not whole:
            filters = {n: filter_mask(whole.graph, f)[index.rows] if isinstance(f, Tensor) else f for n, f in filters.items()}
        query_vectors, masks = compared_vectors(index, vectors, len(texts)), filter_masks(index.graph, **filters)
        return cls(index=index, texts=texts, k=positive("k", k), inputs=dict(inputs or {}), vector_source=query_vectors, **masks)

    def __repr__(self) -> str:
        """Return the number of queries and their other attributes."""
        filters = [name for name in ("allowed", "seeds_allowed", "walk_allowed") if getattr(self, name) is not None]
        return f"Queries({len(self)}, k={self.k}, filters={filters}, inputs={list(self.inputs)})"

    def narrowed(self, allowed: Tensor | None) -> Queries:
        """Return these queries with the returned nodes limited to those of `allowed`, shape [N], bool."""
        return self if allowed is None else replace(self, allowed=both(self.allowed, allowed.clone()))

    def without(self, nodes: Tensor) -> Queries:
        """Return these queries without some nodes, shape [N], bool: none is returned or starts; a traversal may pass through them.

        A node that a filter passes and that is among them stays in `filtered`.
        """
        mask = ~nodes
        seeds, names = both(self.seeds_allowed, mask), both(self.named_allowed, mask)
        return replace(self, allowed=both(self.allowed, mask), seeds_allowed=seeds, named_allowed=names)

    def view(self, signal: str) -> Any:
        """Return the queries as the signal reads them: texts, or vectors of shape [B, d]."""
        return self.vectors if self.index.signal(signal).reads == "vector" else list(self.texts)

    @cached_property
    def masks(self) -> dict[str, Tensor | None]:
        """The nodes that may "start", be seeds by "name", "walk" and "return", and that pass the "filter"; None for all."""
        starts = {"start": self.seeds_allowed, "name": self.named_allowed}
        return {**starts, "walk": self.walk_allowed, "return": self.allowed, "filter": self.filtered}

    @cached_property
    def starts(self) -> Tensor | None:
        """Nodes that may start a traversal and may be returned: Tensor, shape [N], bool, or None for all."""
        return both(self.seeds_allowed, self.allowed)

    def search(self, signal: str, k: int, mask: Tensor | None = None, covers: str = "nodes") -> tuple[Tensor, Tensor]:
        """Return the results of :meth:`graph_retrievers.signals.signal.Signal.search`.

        The same search runs only once, and a search for fewer nodes uses the result of one for more.

        `mask`, shape [N], bool, has the rows that may be found. Raises InvalidArgumentError if the signal does not cover what is
        searched, "nodes" or "edges".
        """
        scorer = self.index.signal(signal)
        if scorer.covers != covers:
            other = "edges; FactSearch searches those" if covers == "nodes" else "nodes; VectorSearch searches those"
            raise InvalidArgumentError(f"The signal {signal!r} covers {other}.")
        searches: dict[Any, Any] = self.cache.get("searches", dict)
        key = (signal, None if mask is None else Identity(mask))
        if key not in searches or searches[key][0] < k:
            # At least as many as hits are requested, since a list of hits is filled up from them.
            most = max(k, self.k)
            searches[key] = most, self._search_signal(signal, scorer, most, mask)
        scores, rows = searches[key][1]
        return scores[:, :k], rows[:, :k]

    def _search_signal(self, signal: str, scorer: Signal, k: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        # In a small corpus, the products of the search serve single scores too.
        if type(scorer) is DenseIndex and len(scorer) < _LARGE and scorer.exact(mask):
            return scorer.best_of(self._products(signal, scorer), self.vectors, k, mask)
        scores, rows = scorer.search(self.view(signal), k, mask)
        scores = self._cleared(scorer, scores, torch.arange(len(self), device=scores.device).unsqueeze(1))
        if type(scorer) not in _SOUND:
            check_search(scores, rows, len(scorer), mask, f"Signal {signal!r}")
        return scores, rows

    def table(self, signal: str = "dense") -> Tensor | None:
        """Return the scores of all rows of a signal: Tensor, shape [B, N], or None if that is too large."""
        scorer = self.index.signal(signal)
        return self.cache.get(("table", signal), lambda: self._table(signal, scorer)) if self._tabled(scorer) else None

    def _tabled(self, scorer: Signal) -> bool:
        return scorer.tabled and len(self) * len(scorer) <= _TABLE_LIMIT

    def _table(self, name: str, scorer: Signal) -> Tensor:
        if isinstance(scorer, DenseIndex):
            return scorer.cleared(self._products(name, scorer), self.vectors)
        batch = torch.arange(len(self), device=self.index.device).unsqueeze(1)
        return self._cleared(scorer, scorer.table(self.view(name)), batch)

    def _products(self, name: str, scorer: DenseIndex) -> Tensor:
        return self.cache.get(("products", name), partial(scorer.products, self.vectors))

    def _reads_table(self, signal: str, count: int) -> bool:
        """Return whether the scores of `count` pairs are read from a table, as that costs less than to compute each."""
        scorer = self.index.signal(signal)
        few = len(scorer) >= _LARGE and count < _FEW * len(self) * len(scorer) and isinstance(scorer, DenseIndex)
        return self._tabled(scorer) and (not few or any((kind, signal) in self.cache for kind in ("table", "products")))

    def entries(self, batch: np.ndarray, rows: np.ndarray, signal: str = "dense") -> np.ndarray:
        """Return :meth:`scores` on the host for pairs as arrays, `batch` and `rows` of shape [n]: float32, shape [n]."""
        if self.index.device.type != "cpu" or not self._reads_table(signal, len(rows)):
            return self.scores(*pair_tensors(batch, rows, self.index.device), signal).cpu().numpy()  # type: ignore[no-any-return]
        scorer = self.index.signal(signal)
        if isinstance(scorer, DenseIndex):
            return scorer.entries(self._products(signal, scorer).numpy(), self.lengths.numpy(), batch, rows)
        return self.table(signal).numpy()[batch, rows]  # type: ignore[union-attr, no-any-return]

    def _cleared(self, signal: Signal, scores: Tensor, batch: Tensor) -> Tensor:
        """Return scores of a signal, and of vectors in a store exact zeros where they are rounding, as those in memory have."""
        if not isinstance(signal, VectorSignal) or isinstance(signal, DenseIndex) or not len(signal):
            return scores
        lengths = torch.linalg.vector_norm(self.vectors, dim=1) * signal.norms.max().to(self.index.device)
        return zeroed(scores, ROUNDING * lengths[batch])

    def scores(self, batch: Tensor, rows: Tensor, signal: str = "dense") -> Tensor:
        """Return a signal's scores of single pairs, as float32.

        `batch` and `rows`, int64 and of the same shape, are the query and the row of each pair. The default signal returns the
        dot products of query and node vectors.
        """
        table = self.table(signal) if self._reads_table(signal, rows.numel()) else None
        return self.pair_scores(batch, rows, signal) if table is None else table[batch, rows]

    def pair_scores(self, batch: Tensor, rows: Tensor, signal: str = "dense") -> Tensor:
        """Return what :meth:`scores` returns, pair by pair: for few pairs, the same to the last digit in any batch."""
        scorer = self.index.signal(signal)
        scores = scorer.scores(self.view(signal), batch.flatten(), rows.flatten())
        return self._cleared(scorer, scores, batch.flatten()).view(batch.shape)

    def cosines(self, batch: Tensor, nodes: Tensor) -> Tensor:
        """Return cosines of query and node vectors of any length, float64; 0 if either vector is missing (a row of zeros).

        The arguments are those of :meth:`scores`.
        """
        norms = self.index.dense.norms.index_select(0, nodes.flatten()).view(nodes.shape)
        lengths = norms * self.lengths[batch]
        # For a missing vector the dot product is 0 too.
        return self.scores(batch, nodes).double() / lengths.double().clamp(min=1e-30)

    def contents(self, rows: np.ndarray) -> list[str]:
        """Return the texts of nodes, shape [n], as models read them."""
        # Many questions of a batch read the same nodes.
        content = self.cache.get("contents", partial(cache, self.index.graph.content))
        return list(map(content, rows.tolist()))

    def node_id(self, row: int) -> str:
        """Return the id of a node."""
        return self.index.graph.ids[row]

    def products(self, batch: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the dot products of the vectors of questions and nodes: Tensor, shape [n]."""
        # Computed pair by pair, as the last digits of a table depend on its number of queries; other signals compute as they like.
        function = self.pair_scores if isinstance(self.index.dense, DenseIndex) else self.scores
        return function(*pair_tensors(batch, rows, self.index.device))

    def node_vectors(self, rows: Tensor) -> Tensor:
        """Return the vectors of nodes, `rows` of shape [n]: Tensor, shape [n, d]; MissingSignalError if they are not in memory."""
        dense = self.index.dense
        if not isinstance(dense, DenseIndex):
            raise MissingSignalError(
                f"Nodes are compared with each other by their vectors, which {type(dense).__name__} does not give; build the index "
                "with vectors in memory."
            )
        return dense.taken(rows.to(self.index.device))


def filter_masks(
    graph: CorpusGraph, filter: Filter | None = None, seed_filter: Filter | None = None, traversal_filter: Filter | None = None
) -> dict[str, Any]:
    """Return the masks of filters by the names of the attributes of :class:`Queries`: Tensor, shape [N], bool, or None for all.

    Masks are copied: an operator that writes into one does not write into what the caller has.
    """
    masks = (
        None if condition is None else filter_mask(graph, condition).clone()
        for condition in (filter, seed_filter, traversal_filter)
    )
    allowed, seeds, walk = masks
    starts = allowed if seeds is None else seeds
    return {"allowed": allowed, "seeds_allowed": starts, "walk_allowed": walk, "named_allowed": seeds, "filtered": allowed}


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """Return the conjunction of two masks, where None allows everything."""
    return left if right is None else right if left is None else left & right


def pair_tensors(batch: np.ndarray, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the questions and rows of pairs, each of shape [n], as tensors on a device, to which they are sent together."""
    if device.type == "cpu":
        return torch.from_numpy(batch), torch.from_numpy(rows)
    questions, nodes = torch.from_numpy(np.stack([batch, rows])).to(device)
    return questions, nodes
