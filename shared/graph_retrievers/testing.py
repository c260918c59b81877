"""Checks for your own retrievers and operators: call them in your tests.

Each check raises an AssertionError that says what was requested, returned and expected, and returns None otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.trace import Trace
from graph_retrievers.hits.hits import Hits
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["check_operator", "check_retriever", "kind_of"]

# A product of a larger matrix may add in another order.
_ROUNDING = 1e-5


def check_retriever(
    retriever: RetrieverProtocol, queries: Sequence[str], *, k: int = 5, inputs: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Check the properties that hold for every retriever of this package.

    A batch returns what its queries return one by one, twice the same, from several threads, and with ``aretrieve`` and
    ``aretrieve_batch`` if they exist; hits are at most k distinct nodes, best first, with finite scores, each at the end of its
    path; a filter passes nothing else, and some of what it allows, if necessary with ``seed_filter={}``; an empty query without a
    filter has no hits, and raises nothing.

    Parameters
    ----------
    retriever : RetrieverProtocol
    queries : sequence of str, length B
        At least two, for which the retriever finds something.
    k : int, default 5
    inputs : mapping of str to sequence of length B, optional
        Other inputs of the retriever (its ``inputs``), one value per query.

    Raises
    ------
    AssertionError
        If one of these does not hold.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> check_retriever(Retriever(GraphIndex.from_texts(["a loom", "a card"]), BM25()), ["Which loom?", "Which card?"])
    """
    options = dict(inputs or {})
    _expect(len(queries) > 1, f"check_retriever needs two queries or more, got {len(queries)}")

    def hits_of(place: int) -> Hits:
        return retriever.retrieve(queries[place], k, **{name: values[place] for name, values in options.items()})

    # The first query once more, at the end of the batch.
    again = {name: [*values, values[0]] for name, values in options.items()}
    *together, last = retriever.retrieve_batch([*queries, queries[0]], k, **again)
    alone = [hits_of(place) for place in range(len(queries))]
    _expect(any(map(len, together)), "no query found anything; give queries that the retriever answers")
    for query, hits in zip(queries, together, strict=True):
        _check_hits(hits, k, query)
    _check_hits(retriever.retrieve(queries[0], 1, **{name: values[0] for name, values in options.items()}), 1, queries[0])
    for place, query in enumerate(queries):
        _check_same(together[place], alone[place], f"{query!r} in a batch, and alone")
    _check_same(last, together[0], f"{queries[0]!r} twice in one batch")
    with ThreadPoolExecutor(4) as pool:
        places = [*range(len(queries))] * 3
        for place, hits in zip(places, pool.map(hits_of, places), strict=True):
            _check_same(hits, alone[place], f"{queries[place]!r} from several threads, and alone")
    ask = getattr(retriever, "aretrieve_batch", None)
    if ask is not None:
        for place, hits in enumerate(asyncio.run(ask(list(queries), k, **options))):
            _check_same(hits, together[place], f"{queries[place]!r} of aretrieve_batch, and of retrieve_batch")
    ask = getattr(retriever, "aretrieve", None)
    if ask is not None:
        hits = asyncio.run(ask(queries[0], k, **{name: values[0] for name, values in options.items()}))
        _check_same(hits, alone[0], f"{queries[0]!r} of aretrieve, and of retrieve")
    _check_filters(retriever, queries, k, options, together)
    _expect(list(retriever.retrieve_batch([], k, **{name: [] for name in options})) == [], "a batch of no queries has hits")
    for empty in ("", "  "):
        _expect(len(retriever.retrieve(empty, k)) == 0, f"the query {empty!r} has hits without a filter; expected none, and a note")


def check_operator(operator: Operator, index: GraphIndex, queries: Sequence[str], *, k: int = 5) -> None:
    """Check an operator as a retriever (:func:`check_retriever`), within a scope, and its declared kind.

    Within a scope, it must find what it finds on an index of only the scope's nodes. Its requests must match its `kind`
    (:func:`kind_of`).

    Parameters
    ----------
    operator : Operator
        An operator that starts a search, or a composition whose first operator does.
    index : GraphIndex
        With at least four nodes.
    queries : sequence of str, length B
    k : int, default 5

    Raises
    ------
    AssertionError
        If one of these does not hold.

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search
    >>> texts = ["a loom", "a card", "a mill", "a loom of wood"]
    >>> check_operator(BM25Search(), GraphIndex.from_texts(texts), ["Which loom?", "Which card?"])
    """
    retriever = Retriever(index, operator, backfill=False)
    check_retriever(retriever, queries, k=k)
    trace = retriever.retrieve(queries[0], k).trace
    for part in operator.parts():
        kind = kind_of(type(trace)(call for call in trace if part.name in call.operators))
        _expect(kind in (None, part.kind), f"{part.name} declares the kind {part.kind.value}, and asks as {kind and kind.value}")
    ids = index.graph.ids[::2]
    scope = {"$id": {"$in": ids}}
    part_retriever = Retriever(index.within(scope), operator, backfill=False)
    for query in queries:
        what = f"{query!r} within a scope, and on the index of its nodes"
        _check_same(retriever.retrieve(query, k, scope=scope), part_retriever.retrieve(query, k), what)


def kind_of(trace: Trace) -> OperatorKind | None:
    """Return the kind of an operator from the requests in a trace; None if they do not determine it.

    Only signals: vector search; only the graph: graph search; both: vector-graph search; a model, with or without signals:
    model-based search; a model and the graph: graph-model search (FastInsight, Definitions 2 to 6).

    >>> from graph_retrievers.core.trace import Asked
    >>> from graph_retrievers.core.requests import Neighbors, Similarity
    >>> kind_of(Trace([Asked(1, Neighbors, ("A",), 1, 4, 0.0), Asked(2, Similarity, ("A",), 1, 9, 0.0)]))
    <OperatorKind.VECTOR_GRAPH_SEARCH: 'O_vgs'>
    """
    sources = {call.request.reads for call in trace}
    if "model" in sources:
        return OperatorKind.GRAPH_MODEL_SEARCH if "graph" in sources else OperatorKind.MODEL_SEARCH
    if "graph" in sources:
        return OperatorKind.VECTOR_GRAPH_SEARCH if "signals" in sources else OperatorKind.GRAPH_SEARCH
    return OperatorKind.VECTOR_SEARCH if "signals" in sources else None


def _check_hits(hits: Hits, k: int, query: str) -> None:
    nodes = [hit for hit in hits if hit.kind == "node"]
    ids, scores = [hit.id for hit in nodes], [hit.score for hit in nodes]
    _expect(len(ids) <= k, f"{query!r} has {len(ids)} nodes, and k={k}")
    _expect(len(set(ids)) == len(ids), f"{query!r} has a node twice: {ids}")
    _expect(bool(np.isfinite(scores).all()), f"{query!r} has scores that are not finite: {scores}")
    _expect(scores == sorted(scores, reverse=True), f"{query!r} has scores that do not fall: {scores}")
    for hit in nodes:
        _expect(hit.path.nodes[-1:] == (hit.id,), f"the path of {hit.id!r} for {query!r} does not end there: {hit.path.nodes}")


def _check_filters(
    retriever: RetrieverProtocol, queries: Sequence[str], k: int, options: dict[str, Any], lists: Sequence[Hits]
) -> None:
    none = retriever.retrieve_batch(list(queries), k, filter={"$id": "no node has this id"}, **options)
    _expect(not any(map(len, none)), "a filter that lets nothing through gives hits")
    ids = sorted({hit.id for hits in lists for hit in hits})[::2]
    options = {"filter": {"$id": {"$in": ids}}, **options}
    results = retriever.retrieve_batch(list(queries), k, **options)
    if not any(map(len, results)):
        # The filter also holds for the start of a walk, which one that never returns its start needs all the same.
        results = retriever.retrieve_batch(list(queries), k, seed_filter={}, **options)
    _expect(any(map(len, results)), "a filter that lets half of the hits through gives none for any query, from any start")
    for query, hits in zip(queries, results, strict=True):
        outside = {hit.id for hit in hits} - set(ids)
        _expect(not outside, f"{query!r} finds {sorted(outside)}, which the filter does not let through")


def _check_same(hits: Hits, other_hits: Hits, what: str) -> None:
    """Compare hits in all that must not depend on the other queries of a call, and scores up to rounding."""
    ids, other_ids = [hit.id for hit in hits], [hit.id for hit in other_hits]
    _expect(ids == other_ids, f"{what}: {ids} and {other_ids}")
    for pair in zip(hits, other_hits, strict=True):
        values, other_values = ((hit.operator, hit.kind, str(hit.path), hit.text, dict(hit.ranks)) for hit in pair)
        hit, other = pair
        _expect(values == other_values, f"{what}: {values} and {other_values} of {hit.id!r}")
        is_close = abs(hit.score - other.score) <= _ROUNDING * max(1.0, abs(other.score))
        _expect(is_close, f"{what}: the scores {hit.score!r} and {other.score!r} of {hit.id!r}")
    _expect(tuple(hits.notes) == tuple(other_hits.notes), f"{what}: the notes {hits.notes} and {other_hits.notes}")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
