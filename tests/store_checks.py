"""What holds for stores with the contents of an index: retrievers find on them what they find on the index."""

from collections import Counter, defaultdict
from itertools import islice

import numpy as np
import pytest

from graph_retrievers import GAR, MMR, Eager, FastInsight, Retriever, Scored, Vector, WalkFusion
from graph_retrievers.signals.embedding import embed_queries
from graph_retrievers.stores.remote import ComparingVectorStore, RemoteIndex, ScopedGraphStore, ScopedVectorStore, ScopedWordStore
from graph_retrievers.stores.remote.pages import name_key

# Names to request from a graph store, one per request.
NAMES = 20
# Systems that ask a graph and vectors for what stores are asked for, without what the whole graph would tell.
SYSTEMS = (Vector(), GAR(), WalkFusion(form="links", bridges=0), FastInsight(), Eager(), MMR(), Scored())


def check_stores(index, graph, vectors, queries, *, words=None, k=5):
    """Check stores against an index in memory with vectors, an embedding model and BM25; with `words`, also a word store.

    If `graph` and `vectors` support scopes, they are also checked in a scope of half of the nodes. Without `words`, BM25 is that
    of the index. With `words`, scores may differ with the analyser, and only its contract is checked: ids that exist and are in
    the scope, best first, no more than requested, and scores that are the sums of those of the terms.
    """
    model = index.embedding
    ids = set(index.graph.ids)
    _check_graph(graph, index.graph)
    found = vectors.search(embed_queries(model, list(queries)).numpy(), k)
    for query, names in zip(queries, found, strict=True):
        assert len(set(names)) == len(list(names)) == min(k, len(ids)), (
            f"the vector store has {len(list(names))} nodes for {query!r}"
        )
        assert set(names) <= ids, (
            f"the vector store has nodes that the graph does not have, such as {min(set(names) - ids, default='')!r}"
        )
    held = vectors.vectors(sorted(ids))
    assert set(held) == ids, f"the vector store has no vector of {sorted(ids - set(held))[:3]}"
    if isinstance(vectors, ComparingVectorStore):
        _check_cosines(vectors, held, embed_queries(model, list(queries)).numpy(), k)
    if words is not None:
        _check_words(words, ids, queries, k)
    half = index.graph.ids[::2]
    scopes = [{}]
    if isinstance(graph, ScopedGraphStore) and isinstance(vectors, ScopedVectorStore):
        scopes.append({"scope": {"$id": {"$in": half}}})
    if isinstance(words, ScopedWordStore):
        _check_words(words.within(half), set(half), queries, k)
    remote = RemoteIndex(graph, vectors=vectors, signals={"bm25": index.bm25}, embedding=model, relevance=index.relevance)
    for system in SYSTEMS:
        here, there = Retriever(index, system, k=k), Retriever(remote, system, k=k)
        for scope in scopes:
            what = " within a scope" if scope else ""
            both = here.retrieve_batch(list(queries), **scope), there.retrieve_batch(list(queries), **scope)
            for query, ours, theirs in zip(queries, *both, strict=True):
                _check_hits(theirs, ours, f"{system.name} for {query!r}{what}")


def _check_cosines(store, held, queries, k):
    def cosine(query, name):
        lengths = np.linalg.norm(query) * np.linalg.norm(held[name])
        return pytest.approx(query @ held[name] / lengths if lengths else 0.0, abs=1e-5)

    nearest = store.nearest(queries, k)
    assert [[name for name, _ in found] for found in nearest] == store.search(queries, k)
    assert all(told == cosine(query, name) for query, found in zip(queries, nearest, strict=True) for name, told in found)
    # Each vector with its own ids, one of which is none of a node; and a vector of zeros.
    pairs = [(query, [*held][place : place + 3] + ["nobody"]) for place, query in enumerate([*queries, np.zeros_like(queries[0])])]
    expected = [{name: cosine(query, name) for name in ids[:-1]} for query, ids in pairs]
    assert store.cosines(pairs) == expected and store.cosines([]) == []


def _check_words(words, ids, queries, k):
    for query, pairs in zip(queries, words.search(list(queries), k), strict=True):
        names, scores = [name for name, _ in pairs], [score for _, score in pairs]
        assert len(pairs) <= k and set(names) <= ids, f"the word store has other nodes for {query!r}, or too many"
        assert scores == sorted(scores, reverse=True), f"the word store's scores for {query!r} do not fall: {scores}"
        (terms,) = words.term_scores([(query, names)])
        for name, score in pairs:
            total = sum(each.get(name, 0.0) for each in terms)
            close = abs(total - score) <= 1e-3 * abs(score)
            assert close, (
                f"the word store's scores of {name!r} for the terms of {query!r} have the sum {total:.6g}, not {score:.6g}"
            )


def _check_graph(store, graph):
    count, _ = store.sample(1)
    assert count == len(graph), f"the graph store has {count} nodes, and the index {len(graph)}"
    most = 10 * (len(graph) + graph.num_edges)
    page = store.read(expand=list(graph.ids), limit=most)
    held = {node.id: node for node in page.nodes if node.text is not None}
    for row, name in enumerate(graph.ids):
        assert name in held, f"the graph store does not find the node {name!r}"
        for field in ("text", "title", "type", "metadata"):
            found, expected = getattr(held[name], field), getattr(graph.node(row), field)
            assert found == expected, f"the graph store has {found!r} as {field} of {name!r}, and the index {expected!r}"
    # An edge comes once for each of its ends.
    edges = Counter(
        (e.source, e.target, e.relation, e.text, f"{e.weight:.5g}") for e in {e.position: e for e in page.edges}.values()
    )
    own = Counter((e.source, e.target, e.relation, e.text, f"{e.weight:.5g}") for e in graph.edges())
    assert edges >= own, f"the graph store does not have the edge {min(own - edges, default=())}, which the index has"
    assert own >= edges, f"the graph store has the edge {min(edges - own, default=())}, which the index does not have"
    kinds = dict(zip(graph.ids, graph.types, strict=True))
    schema = sorted(set(kinds.values())), sorted({(kinds[e.source], e.relation, kinds[e.target]) for e in graph.edges()})
    assert store.schema() == schema, f"the graph store has the schema {store.schema()}, and the index {schema}"
    _check_names(store, graph, most)


def _check_names(store, graph, most):
    titles, names = defaultdict(set), defaultdict(set)
    for name, title in zip(graph.ids, graph.titles, strict=True):
        names[name_key(title or name)].add(name)
        if name_key(title):
            titles[title.strip().casefold()].add(name)
    names.pop("", None)
    titled = store.read(titles=list(titles), limit=most).titled
    for title, ids in titles.items():
        found = {each.id for each in titled if each.title == title}
        assert found == ids, f"the graph store finds {sorted(found)} by the title {title!r}, and the index {sorted(ids)}"
    for key, ids in islice(names.items(), NAMES):
        found = {node.id for node in store.read(names=[key], limit=most).nodes}
        assert found == ids, f"the graph store finds {sorted(found)} by the name {key!r}, and the index {sorted(ids)}"


def _check_hits(theirs, ours, what):
    ids, expected = ([hit.id for hit in hits] for hits in (theirs, ours))
    assert ids == expected, f"{what}: {ids} on the stores, and {expected} on the index"
    told, wanted = ([(hit.operator, hit.kind, str(hit.path), hit.text, dict(hit.ranks)) for hit in hits] for hits in (theirs, ours))
    assert told == wanted, f"{what}: {told} on the stores, and {wanted} on the index"
    assert [hit.score for hit in theirs] == pytest.approx([hit.score for hit in ours], rel=1e-5, abs=1e-5), what
