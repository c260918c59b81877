"""The retriever contract: what anything that retrieves, in memory or in a database, has and does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.hits import Hits
from graph_retrievers.signals.embedding import check_vectors

__all__ = ["RetrieverProtocol", "checked_batch", "one_query"]


@runtime_checkable
class RetrieverProtocol(Protocol):
    """What the framework packages, the evaluation and the command line ask of a retriever.

    :class:`~graph_retrievers.retrievers.retriever.Retriever` (operators on an index) and
    :class:`~graph_retrievers.stores.cypher.CypherSpreadingActivation` (a query in a database) meet it; so may a class of your
    own. A retriever whose backend is asynchronous has ``aretrieve`` and ``aretrieve_batch`` with the same arguments too.

    Attributes
    ----------
    name : str
        How tables call it.
    inputs : tuple of str
        Further per-query arguments that it reads.
    k : int
        Hits to return by default.
    """

    name: str
    k: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of further per-query arguments."""

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
        """Return the hits of one query."""

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
        """Return the hits of each query."""


def checked_batch(
    retriever: RetrieverProtocol, queries: Sequence[str], k: int | None, vectors: Any, inputs: Mapping[str, Sequence[Any]]
) -> tuple[int, Any]:
    """Return k and vectors of a call of ``retrieve_batch``, all of its arguments checked.

    Parameters
    ----------
    retriever : RetrieverProtocol
        Whose `inputs`, `name` and `k` apply.
    queries, k, vectors, inputs
        As given to ``retrieve_batch``.

    Raises
    ------
    InvalidArgumentError
        If the queries are not a list of non-empty strings, k is below 1, or an input has another number of values.
    UnexpectedArgumentError
        If the retriever does not read an input.
    DimensionMismatchError, InvalidVectorError
        If the vectors are not a table of one finite vector a query.
    """
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise InvalidArgumentError(f"retrieve_batch takes a list of queries, got {queries!r:.80}; call retrieve for one.")
    for position, text in enumerate(queries):
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgumentError(f"Query {position} is {text!r}; a query is a non-empty string.")
    for name, values in inputs.items():
        if name not in retriever.inputs:
            known = ", ".join(retriever.inputs) or "none"
            raise UnexpectedArgumentError(
                f"{retriever.name} does not read {name!r}; besides k, vectors and filters it reads: {known}."
            )
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InvalidArgumentError(f"{name} is {values!r:.80}; retrieve_batch takes a list with one value for each query.")
        if len(values) != len(queries):
            raise InvalidArgumentError(f"{name} has {len(values)} entries for {len(queries)} queries.")
    if vectors is not None and not callable(vectors):
        vectors = check_vectors(vectors, len(queries), name="query vectors")
    return retriever.k if k is None else positive("k", k), vectors


def one_query(vector: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vector and the inputs of a call of ``retrieve`` as keywords of ``retrieve_batch`` for that one query."""
    vectors = None if vector is None else vector.unsqueeze(0) if hasattr(vector, "unsqueeze") else [vector]
    return {"vectors": vectors, **{name: [value] for name, value in inputs.items()}}
