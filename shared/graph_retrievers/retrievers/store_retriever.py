"""StoreRetriever: a retriever on the current index of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from torch import Tensor

from graph_retrievers.cache import Cache, Identity
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.hits.hits import Hits
from graph_retrievers.index.store import IndexStore
from graph_retrievers.retrievers.options import RetrieverOptions, SystemLike
from graph_retrievers.retrievers.protocol import BaseRetriever, Call
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.batch import DEFAULT_K
from graph_retrievers.systems.system import System, read_system

__all__ = ["StoreRetriever"]

EMPTY_STORE = "the store holds no documents"
"""Note on a query to a store without documents."""


class StoreRetriever(BaseRetriever):
    """A retriever on the index that a store has at the time of the call.

    Each call uses one index, even if the store changes meanwhile. A store without documents returns no hits, and a note. Filters
    are mappings or functions; a mask, which selects nodes by row, raises InvalidArgumentError, because rows change with the
    index.

    Parameters
    ----------
    store : IndexStore
    system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
        As for :class:`~graph_retrievers.retrievers.retriever.Retriever`; by default the system with the best results on indexes
        with the same signals.
    **options
        Keywords of :class:`~graph_retrievers.retrievers.retriever.Retriever`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graph_retrievers.graph import Node
    >>> with TemporaryDirectory() as folder:
    ...     store = IndexStore(folder)
    ...     retriever = StoreRetriever(store, "bm25", k=1)
    ...     print(retriever.retrieve("Which card?").notes)
    ...     store.update(upsert=[Node("loom", "A loom."), Node("card", "A card.")])
    ...     print(retriever.retrieve("Which card?")[0].text)
    ('the store holds no documents',)
    A card.
    """

    def __init__(
        self,
        store: IndexStore,
        system: SystemLike | None = None,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        self.store, self._options = store, options
        self.system = read_system(system) if isinstance(system, str | Mapping) else system
        default = self.system.default_k if isinstance(self.system, System) else DEFAULT_K
        self.k = options.get("k", default)
        self.name = self.system.name if isinstance(self.system, System) else "store"
        self.time_limit = options.get("time_limit")
        # One retriever for each index: that of the previous index may still be answering.
        self._retrievers = Cache(2)
        if len(store):
            # Wrong options are refused now.
            self._current()

    def with_options(self, **options: Any) -> StoreRetriever:
        """Return this retriever with other values of its keywords. It is built anew: calls of the two share no batches."""
        return StoreRetriever(self.store, self.system, **{**self._options, **options})

    @property
    def embedding(self) -> Any:
        """The embedding model of the store, or None."""
        return self.store.embedding

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Other per-query arguments that the retriever of the current index reads."""
        return self._current().inputs if len(self.store) else ()

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call: list of Hits, length B."""
        self._check_masks(call)
        try:
            return self._current().search(call)
        except EmptyGraphError:
            return [Hits((), [EMPTY_STORE]) for _ in call.queries]

    def list_nodes(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call, in the order of the current index."""
        self._check_masks(call)
        try:
            return self._current().list_nodes(call)
        except EmptyGraphError:
            return Hits((), [EMPTY_STORE])

    def _check_masks(self, call: Call) -> None:
        for name, condition in call.filters.items():
            if isinstance(condition, Tensor):
                # Refused for any number of rows: after a change that keeps the number, a mask would select other nodes.
                raise InvalidArgumentError(
                    f"{name} is a mask, which is of one index, and the index of a store changes; give a mapping, such as "
                    '{"field": value}, or a function of a Node.'
                )

    def _question_model(self) -> tuple[bool, Any]:
        try:
            # The first search in a new index makes its retriever, which may take long, in a thread.
            return self._current()._question_model() if Identity(self.store.index) in self._retrievers else (False, None)
        except EmptyGraphError:
            return False, None

    def _check_inputs(self, names: Iterable[str], filters: Mapping[str, Filter]) -> None:
        if len(self.store):
            self._current()._check_inputs(names, filters)
        else:
            super()._check_inputs(names, filters)

    def _current(self) -> Retriever:
        """Return the retriever of the current index."""
        index = self.store.index
        return self._retrievers.get(Identity(index), lambda: Retriever(index, self.system, **self._options))
