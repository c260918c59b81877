"""The retriever contract: what anything that retrieves, in memory or in a database, has and does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.hits import Hits
from graph_retrievers.signals.embedding import check_vectors

__all__ = ["AsyncRetriever", "BaseRetriever", "Call", "RetrieverProtocol"]


@runtime_checkable
class RetrieverProtocol(Protocol):
    """What the framework packages and the evaluation ask of a retriever: :class:`BaseRetriever`, or a class of your own.

    A retriever whose backend is asynchronous has ``aretrieve`` and ``aretrieve_batch`` with the same arguments too.

    Attributes
    ----------
    name : str
        How tables call it.
    k : int
        Hits to return by default.
    inputs : tuple of str
        Further per-query arguments that it reads, such as ``entities``.
    """

    name: str
    k: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of further per-query arguments."""

    def retrieve(self, query: str, k: int | None = None, **arguments: Any) -> Hits:
        """Return the hits of one query; the arguments are those of :meth:`BaseRetriever.retrieve`."""

    def retrieve_batch(self, queries: Sequence[str], k: int | None = None, **arguments: Any) -> list[Hits]:
        """Return the hits of each query; the arguments are those of :meth:`BaseRetriever.retrieve_batch`."""


@dataclass(frozen=True)
class Call:
    """The arguments of one call, checked.

    Attributes
    ----------
    queries : list of str, length B
    k : int
    vectors : Tensor, shape [B, d], callable or None
    filters : dict of str to filter
        Those that are given, of ``filter``, ``seed_filter`` and ``traversal_filter``.
    inputs : dict of str to sequence, length B
    """

    queries: list[str]
    k: int
    vectors: Any
    filters: dict[str, Filter]
    inputs: dict[str, Sequence[Any]]


class BaseRetriever(ABC):
    """What every retriever of this package shares: its arguments, and their checks.

    A subclass sets `name` and `k`, has `inputs`, and writes :meth:`search`.
    """

    name: str
    k: int
    inputs: tuple[str, ...] = ()

    @abstractmethod
    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call: list of Hits, length B."""

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Any,
    ) -> Hits:
        """Return the hits for one query.

        Parameters
        ----------
        query : str
        k : int, optional
            Nodes to return; the retriever's own k by default. Fewer come only where there are fewer, or where the retriever
            does not fill up.
        vector : array-like, shape [d], optional
            The query's vector, if it is known already.
        filter, seed_filter, traversal_filter : mapping or callable, optional
            Which nodes may be returned, may start a traversal, may be walked to (see
            :func:`graph_retrievers.graph.filters.filter_mask`). A retriever in a database takes mappings only.
        **inputs
            What else this retriever reads for a query; the names are in ``inputs``.

        Returns
        -------
        Hits
            Best first.

        Raises
        ------
        InvalidArgumentError
            If the query is empty, k is below 1 or a filter cannot be read.
        UnexpectedArgumentError
            If the retriever does not read an input.
        DimensionMismatchError, InvalidVectorError
            If the vector is not [d], or holds NaN or infinity.
        """
        return self.search(self._one(query, k, vector, filter, seed_filter, traversal_filter, inputs))[0]

    def retrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Sequence[Any],
    ) -> list[Hits]:
        """Return the hits for many queries.

        Parameters
        ----------
        queries : sequence of str, length B
        k, filter, seed_filter, traversal_filter
            As for :meth:`retrieve`, the same for all queries.
        vectors : array-like, shape [B, d], optional
            Or what computes them when they are first needed: an object that a slice of the queries can be taken from, and
            that is called with their texts.
        **inputs : sequence, length B
            One value a query.

        Returns
        -------
        list of Hits, length B
            What :meth:`retrieve` gives for each query.
        """
        return self.search(self._call(queries, k, vectors, (filter, seed_filter, traversal_filter), inputs))

    def _one(self, query: str, k: int | None, vector: Any, *arguments: Any) -> Call:
        """Return the call of one query; the arguments are the three filters and the inputs."""
        vectors = None if vector is None else vector.unsqueeze(0) if hasattr(vector, "unsqueeze") else [vector]
        return self._call([query], k, vectors, arguments[:3], {name: [value] for name, value in arguments[3].items()})

    def _call(self, queries: Sequence[str], k: int | None, vectors: Any, filters: Sequence[Any], inputs: Mapping[str, Any]) -> Call:
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            raise InvalidArgumentError(f"retrieve_batch takes a list of queries, got {queries!r:.80}; call retrieve for one.")
        for position, text in enumerate(queries):
            if not isinstance(text, str) or not text.strip():
                hint = " Many queries go to retrieve_batch." if isinstance(text, (list, tuple)) else ""
                raise InvalidArgumentError(f"Query {position} is {text!r:.80}; a query is a non-empty string.{hint}")
        for name, values in inputs.items():
            if name not in self.inputs:
                known = ", ".join(self.inputs) or "none"
                raise UnexpectedArgumentError(
                    f"{self.name} does not read {name!r}; besides k, vectors and filters it reads: {known}."
                )
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise InvalidArgumentError(f"{name} is {values!r:.80}; expected a list with one value for each query.")
            if len(values) != len(queries):
                raise InvalidArgumentError(f"{name} has {len(values)} entries for {len(queries)} queries.")
        if vectors is not None and not callable(vectors):
            vectors = check_vectors(vectors, len(queries), name="query vectors")
        given = zip(("filter", "seed_filter", "traversal_filter"), filters, strict=True)
        k = self.k if k is None else positive("k", k)
        return Call(list(queries), k, vectors, {name: c for name, c in given if c is not None}, dict(inputs))


class AsyncRetriever(BaseRetriever):
    """A retriever whose backend answers over the event loop; a subclass writes :meth:`asearch` too."""

    @abstractmethod
    async def asearch(self, call: Call) -> list[Hits]:
        """Return what :meth:`search` does, without blocking the event loop."""

    async def aretrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Any,
    ) -> Hits:
        """Return what :meth:`retrieve` does, without blocking the event loop."""
        return (await self.asearch(self._one(query, k, vector, filter, seed_filter, traversal_filter, inputs)))[0]

    async def aretrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Sequence[Any],
    ) -> list[Hits]:
        """Return what :meth:`retrieve_batch` does, without blocking the event loop."""
        return await self.asearch(self._call(queries, k, vectors, (filter, seed_filter, traversal_filter), inputs))
