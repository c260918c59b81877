"""Checks for your own retrievers, operators and stores: call them in your tests.

Each raises an AssertionError that says what was requested, returned and expected, and returns None otherwise.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from graph_retrievers.core.operator import Operator, kind_of
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.hits import Hits
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.signals.embedding import embed_queries
from graph_retrievers.stores.remote import (
    GraphStore,
    RemoteIndex,
    ScopedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
    VectorStore,
    WordStore,
)
from graph_retrievers.stores.remote.pages import name_key
from graph_retrievers.systems import GAR, MMR, Eager, FastInsight, Scored, System, Vector, WalkFusion

__all__ = ["check_operator", "check_retriever", "check_stores"]

# A product of a larger matrix may add in another order.
_ROUNDING = 1e-5
# Names to request from a graph store, one per request.
_NAMES = 20
# Systems that ask a graph and vectors for what stores are asked for, without what the whole graph would tell.
_SYSTEMS: tuple[System, ...] = (
    *(Vector(), GAR(), WalkFusion(form="links", bridges=0)),
    *(FastInsight(), Eager(), MMR(), Scored()),
)


def check_retriever(
    retriever: RetrieverProtocol, queries: Sequence[str], *, k: int = 5, inputs: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Check the properties that hold for every retriever of this package.

    A batch returns what its queries return one by one, twice the same, from several threads, and with ``aretrieve`` and
    ``aretrieve_batch`` if they exist; hits are at most k distinct nodes, best first, with finite scores, each at the end of its
    path; a filter passes nothing else, and some of what it allows; an empty query without a filter has no hits, and raises nothing.

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
    given = dict(inputs or {})
    _expect(len(queries) > 1, f"check_retriever needs two queries or more, got {len(queries)}")

    def one(place: int) -> Hits:
        return retriever.retrieve(queries[place], k, **{name: values[place] for name, values in given.items()})

    # The first query once more, at the end of the batch.
    again = {name: [*values, values[0]] for name, values in given.items()}
    *together, repeated = retriever.retrieve_batch([*queries, queries[0]], k, **again)
    alone = [one(place) for place in range(len(queries))]
    _expect(any(map(len, together)), "no query found anything; give queries that the retriever answers")
    for query, hits in zip(queries, together, strict=True):
        _check_hits(hits, k, query)
    _check_hits(retriever.retrieve(queries[0], 1, **{name: values[0] for name, values in given.items()}), 1, queries[0])
    for place, query in enumerate(queries):
        _same(together[place], alone[place], f"{query!r} in a batch, and alone")
    _same(repeated, together[0], f"{queries[0]!r} twice in one batch")
    with ThreadPoolExecutor(4) as pool:
        places = [*range(len(queries))] * 3
        for place, hits in zip(places, pool.map(one, places), strict=True):
            _same(hits, alone[place], f"{queries[place]!r} from several threads, and alone")
    ask = getattr(retriever, "aretrieve_batch", None)
    if ask is not None:
        for place, hits in enumerate(asyncio.run(ask(list(queries), k, **given))):
            _same(hits, together[place], f"{queries[place]!r} of aretrieve_batch, and of retrieve_batch")
    ask = getattr(retriever, "aretrieve", None)
    if ask is not None:
        hits = asyncio.run(ask(queries[0], k, **{name: values[0] for name, values in given.items()}))
        _same(hits, alone[0], f"{queries[0]!r} of aretrieve, and of retrieve")
    _check_filters(retriever, queries, k, given, together)
    _expect(list(retriever.retrieve_batch([], k, **{name: [] for name in given})) == [], "a batch of no queries has hits")
    for empty in ("", "  "):
        _expect(len(retriever.retrieve(empty, k)) == 0, f"the query {empty!r} has hits without a filter; expected none, and a note")


def check_operator(operator: Operator, index: GraphIndex, queries: Sequence[str], *, k: int = 5) -> None:
    """Check an operator as a retriever (:func:`check_retriever`), within a scope, and its declared kind.

    Within a scope, it must find what it finds on an index of only the scope's nodes. Its requests must match its `kind`
    (:func:`graph_retrievers.core.operator.kind_of`).

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
        seen = kind_of(type(trace)(asked for asked in trace if part.name in asked.operators))
        _expect(seen in (None, part.kind), f"{part.name} declares the kind {part.kind.value}, and asks as {seen and seen.value}")
    ids = index.graph.ids[::2]
    scope = {"$id": {"$in": ids}}
    own = Retriever(index.within(scope), operator, backfill=False)
    for query in queries:
        what = f"{query!r} within a scope, and on the index of its nodes"
        _same(retriever.retrieve(query, k, scope=scope), own.retrieve(query, k), what)


def check_stores(
    index: GraphIndex,
    graph: GraphStore,
    vectors: VectorStore,
    queries: Sequence[str],
    *,
    words: WordStore | None = None,
    k: int = 5,
) -> None:
    """Check stores with the nodes, edges, vectors and words of an index: retrievers find the same on them as on the index.

    If `graph` and `vectors` support scopes, they are also checked in a scope of half of the nodes. Without `words`, BM25 is that
    of the index, so that only `graph` and `vectors` are checked. With `words`, scores may differ with the analyser, and only its
    contract is checked: ids that exist and are in the scope, best first, no more than requested, and scores that are the sums of
    those of the terms.

    Parameters
    ----------
    index : GraphIndex
        In memory, with vectors, an embedding model and BM25.
    graph : GraphStore
    vectors : VectorStore
    queries : sequence of str, length B
    words : WordStore, optional
    k : int, default 5

    Raises
    ------
    AssertionError
        If a store contains, or a retriever finds, something else.
    InvalidArgumentError
        If the index has no embedding model.
    """
    if (model := index.embedding) is None:
        raise InvalidArgumentError("The index has no embedding model to embed the queries with; build it with embedding=.")
    ids = set(index.graph.ids)
    _check_graph(graph, index.graph)
    found = vectors.search(embed_queries(model, list(queries)).numpy(), k)
    for query, names in zip(queries, found, strict=True):
        _expect(
            len(set(names)) == len(list(names)) == min(k, len(ids)), f"the vector store has {len(list(names))} nodes for {query!r}"
        )
        _expect(
            set(names) <= ids,
            f"the vector store has nodes that the graph does not have, such as {min(set(names) - ids, default='')!r}",
        )
    held = vectors.vectors(sorted(ids))
    _expect(set(held) == ids, f"the vector store has no vector of {sorted(ids - set(held))[:3]}")
    if words is not None:
        _check_words(words, ids, queries, k)
    half = index.graph.ids[::2]
    scopes: list[dict[str, Any]] = [{}]
    if isinstance(graph, ScopedGraphStore) and isinstance(vectors, ScopedVectorStore):
        scopes.append({"scope": {"$id": {"$in": half}}})
    if isinstance(words, ScopedWordStore):
        _check_words(words.within(half), set(half), queries, k)
    remote = RemoteIndex(graph, vectors=vectors, signals={"bm25": index.bm25}, embedding=model, relevance=index.relevance)
    for system in _SYSTEMS:
        here, there = Retriever(index, system, k=k), Retriever(remote, system, k=k)
        for scope in scopes:
            what = " within a scope" if scope else ""
            both = here.retrieve_batch(list(queries), **scope), there.retrieve_batch(list(queries), **scope)
            for query, ours, theirs in zip(queries, *both, strict=True):
                _same(theirs, ours, f"{system.name} for {query!r}{what} on the stores, and on the index", notes=False)


def _check_words(words: WordStore, ids: set[str], queries: Sequence[str], k: int) -> None:
    for query, pairs in zip(queries, words.search(list(queries), k), strict=True):
        names, scores = [name for name, _ in pairs], [score for _, score in pairs]
        _expect(len(pairs) <= k and set(names) <= ids, f"the word store has other nodes for {query!r}, or too many")
        _expect(scores == sorted(scores, reverse=True), f"the word store's scores for {query!r} do not fall: {scores}")
        (terms,) = words.term_scores([(query, names)])
        for name, score in pairs:
            total = sum(each.get(name, 0.0) for each in terms)
            close = abs(total - score) <= 1e-3 * abs(score)
            _expect(
                close, f"the word store's scores of {name!r} for the terms of {query!r} have the sum {total:.6g}, not {score:.6g}"
            )


def _check_graph(store: GraphStore, graph: CorpusGraph) -> None:
    count, _ = store.sample(1)
    _expect(count == len(graph), f"the graph store has {count} nodes, and the index {len(graph)}")
    most = 10 * (len(graph) + graph.num_edges)
    page = store.read(expand=list(graph.ids), limit=most)
    held = {node.id: node for node in page.nodes if node.text is not None}
    for row, name in enumerate(graph.ids):
        _expect(name in held, f"the graph store does not find the node {name!r}")
        for field in ("text", "title", "type", "metadata"):
            found, expected = getattr(held[name], field), getattr(graph.node(row), field)
            _expect(found == expected, f"the graph store has {found!r} as {field} of {name!r}, and the index {expected!r}")
    # An edge comes once for each of its ends.
    edges = Counter(
        (e.source, e.target, e.relation, e.text, f"{e.weight:.5g}") for e in {e.position: e for e in page.edges}.values()
    )
    own = Counter((e.source, e.target, e.relation, e.text, f"{e.weight:.5g}") for e in graph.edges())
    _expect(edges >= own, f"the graph store does not have the edge {min(own - edges, default=())}, which the index has")
    _expect(own >= edges, f"the graph store has the edge {min(edges - own, default=())}, which the index does not have")
    kinds = dict(zip(graph.ids, graph.types, strict=True))
    schema = sorted(set(kinds.values())), sorted({(kinds[e.source], e.relation, kinds[e.target]) for e in graph.edges()})
    _expect(store.schema() == schema, f"the graph store has the schema {store.schema()}, and the index {schema}")
    _check_names(store, graph, most)


def _check_names(store: GraphStore, graph: CorpusGraph, most: int) -> None:
    titles, names = defaultdict(set), defaultdict(set)
    for name, title in zip(graph.ids, graph.titles, strict=True):
        names[name_key(title or name)].add(name)
        if name_key(title):
            titles[title.strip().casefold()].add(name)
    names.pop("", None)
    titled = store.read(titles=list(titles), limit=most).titled
    for title, ids in titles.items():
        found = {each.id for each in titled if each.title == title}
        _expect(found == ids, f"the graph store finds {sorted(found)} by the title {title!r}, and the index {sorted(ids)}")
    for key, ids in islice(names.items(), _NAMES):
        found = {node.id for node in store.read(names=[key], limit=most).nodes}
        _expect(found == ids, f"the graph store finds {sorted(found)} by the name {key!r}, and the index {sorted(ids)}")


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
    retriever: RetrieverProtocol, queries: Sequence[str], k: int, given: dict[str, Any], found: Sequence[Hits]
) -> None:
    none = retriever.retrieve_batch(list(queries), k, filter={"$id": "no node has this id"}, **given)
    _expect(not any(map(len, none)), "a filter that lets nothing through gives hits")
    ids = sorted({hit.id for hits in found for hit in hits})[::2]
    kept = retriever.retrieve_batch(list(queries), k, filter={"$id": {"$in": ids}}, **given)
    starts = "a filter also holds where a walk starts, so that one that never returns its start needs given={'seed_filter': {}}"
    _expect(any(map(len, kept)), f"a filter that lets half of the hits through gives none for any query; {starts}")
    for query, hits in zip(queries, kept, strict=True):
        others = {hit.id for hit in hits} - set(ids)
        _expect(not others, f"{query!r} finds {sorted(others)}, which the filter does not let through")


def _same(ours: Hits, theirs: Hits, what: str, notes: bool = True) -> None:
    """Compare hits in all that must not depend on company, and scores up to rounding."""
    ids, others = ([hit.id for hit in hits] for hits in (ours, theirs))
    _expect(ids == others, f"{what}: {ids} and {others}")
    for mine, other in zip(ours, theirs, strict=True):
        told, wanted = ((hit.operator, hit.kind, str(hit.path), hit.text, dict(hit.ranks)) for hit in (mine, other))
        _expect(told == wanted, f"{what}: {told} and {wanted} of {mine.id!r}")
        close = abs(mine.score - other.score) <= _ROUNDING * max(1.0, abs(other.score))
        _expect(close, f"{what}: the scores {mine.score!r} and {other.score!r} of {mine.id!r}")
    if notes:
        _expect(tuple(ours.notes) == tuple(theirs.notes), f"{what}: the notes {ours.notes} and {theirs.notes}")


def _expect(holds: bool, told: str) -> None:
    if not holds:
        raise AssertionError(told)
