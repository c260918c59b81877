"""Walks over a graph that is fetched piece by piece come to the nodes of the walk in memory, with its shares, on random graphs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graph_retrievers import PPR, Retriever
from graph_retrievers.stores.remote import RemoteIndex
from tests.property.test_remote import CONDITION, SCOPES, are_told_apart
from tests.remote import QUESTIONS, MemoryGraph, MemoryVectors, index_of, question_vectors, random_corpus
from tests.walks import WALKS, check_near


@pytest.mark.parametrize("name", WALKS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_shares_are_those_in_memory(name, data):
    system, expected = WALKS[name]
    seed, count = data.draw(st.integers(0, 10_000)), data.draw(st.sampled_from([1, 5, 30, 90, 160]))
    corpus = random_corpus(seed, max(count, 5), 2 * count, ties=data.draw(st.booleans()))
    own = question_vectors(corpus, seed)
    assume(are_told_apart(own, corpus[2]))
    index = index_of(corpus)
    stores = {"vectors": MemoryVectors(index.graph.ids, corpus[2]), "signals": {"bm25": index.bm25}}
    remote = RemoteIndex(MemoryGraph(index.graph), **stores)
    filters = {key: data.draw(CONDITION) for key in ("filter", "seed_filter", "traversal_filter")}
    scope = data.draw(st.none() | st.sampled_from(SCOPES))
    filters |= {} if scope is None else {"scope": scope}
    k = data.draw(st.sampled_from([1, 10, 70]))
    retriever = Retriever(remote, system, backfill=False)
    found = retriever.retrieve_batch(QUESTIONS, k, vectors=own, **filters)
    check_near(found, Retriever(index, expected, backfill=False).retrieve_batch(QUESTIONS, k, vectors=own, **filters))
    place = data.draw(st.integers(0, len(QUESTIONS) - 1))
    alone = retriever.retrieve(QUESTIONS[place], k, vector=own[place], **filters)
    assert [(hit.id, hit.path.nodes) for hit in alone] == [(hit.id, hit.path.nodes) for hit in found[place]]
    np.testing.assert_allclose([hit.score for hit in alone], [hit.score for hit in found[place]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_graph_of_at_most_100_nodes_has_the_answers_in_memory(seed):
    corpus = random_corpus(seed, 90, 200)
    index = index_of(corpus)
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=MemoryVectors(index.graph.ids, corpus[2]))
    own = question_vectors(corpus, seed)
    found = Retriever(remote, PPR()).retrieve_batch(QUESTIONS, vectors=own)
    for ours, theirs in zip(found, Retriever(index, PPR()).retrieve_batch(QUESTIONS, vectors=own), strict=True):
        assert [(hit.id, hit.path) for hit in ours] == [(hit.id, hit.path) for hit in theirs]
        np.testing.assert_allclose([hit.score for hit in ours], [hit.score for hit in theirs], rtol=0, atol=1e-6)
