"""FastInsight on random graphs against the literal, loop-by-loop Algorithms 1 to 3."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.fastinsight import FastInsight, GRanker, STeX
from tests.rankings import Ranking, lists_of, rank, ranked, ranking_of
from tests.references import fastinsight as literal
from tests.toy import toy_index


@st.composite
def cases(draw):
    """A random multigraph (self loops, parallel edges, isolated nodes) with similarities and latents."""
    size = draw(st.integers(1, 14))
    names = [f"n{i:02d}" for i in range(size)]
    edges = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=3 * size))
    # Coarse values, so that ties are common.
    similarity = {n: draw(st.integers(-4, 4)) / 4 for n in names}
    latents = {n: [draw(st.integers(-8, 8)) / 4, draw(st.integers(-8, 8)) / 4] for n in names}
    return similarity, latents, edges


def head(latent):
    return math.tanh(latent[0]) + 0.5 * math.tanh(latent[1])


def assert_same_order(ids, scores, expected, expected_scores, tolerance=1e-5):
    """Equal as rankings: the same nodes and scores, the same order wherever scores differ by more than rounding."""
    assert sorted(ids) == sorted(expected)
    for node, score in zip(ids, scores, strict=True):
        assert abs(score - expected_scores[node]) < tolerance
    for a, b in zip(ids, ids[1:], strict=False):
        assert expected_scores[a] > expected_scores[b] - tolerance


@settings(max_examples=150)
@given(cases(), st.integers(1, 5), st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from(["graph", "subgraph"]))
def test_one_round_of_granker_and_stex_equals_the_literal_algorithms(case, count, alpha, degree):
    similarity, latents, edges = case
    index = toy_index(similarity, latents, edges)
    queries = Queries.of(index, ["question"], vectors=[[1.0]])
    adjacent = literal.neighbours(edges)
    retrieved = list(similarity)[:count]
    rows = torch.tensor([[index.graph.row(n) for n in retrieved]])
    ranking = Ranking.of(rows, torch.zeros(rows.shape), "seed")

    reranked = ranked(GRanker(alpha, degree=degree), queries, ranking)
    expected, scores = literal.granker(retrieved, latents, adjacent, head, alpha, degree)
    ids = [index.graph.ids[r] for r in reranked.nodes[0]]
    assert_same_order(ids, reranked.scores[0].tolist(), expected, scores)

    for beta in (0.0, 1.0, math.inf):
        found = ranked(STeX(beta, nodes_per_round=20), queries, ranking)
        found = ranking_of([lists_of(found)[0].taken(np.arange(ranking.width, int(found.lengths())))], index.device)
        wanted = literal.stex(retrieved, similarity, adjacent, beta)
        got = [(index.graph.ids[r], s) for r, s in zip(found.nodes[0].tolist(), found.scores[0].tolist(), strict=True) if r >= 0]
        assert_same_order([n for n, _ in got], [s for _, s in got], [n for n, _ in wanted], dict(wanted))


@settings(max_examples=150)
@given(cases(), st.integers(1, 4), st.integers(1, 16))
def test_the_whole_algorithm_equals_the_literal_one(case, batch, budget):
    similarity, latents, edges = case
    index = toy_index(similarity, latents, edges)
    expected, scores, rounds = literal.fastinsight(
        similarity, latents, edges, head, batch=batch, budget=budget, alpha=0.2, beta=1.0
    )
    if not _clear_cut(similarity, latents, edges, rounds, batch, budget):
        return
    ranking = rank(
        Retriever(index, FastInsight(nodes_per_round=batch, budget=budget)), Queries.of(index, ["question"], vectors=[[1.0]])
    )
    ids = [index.graph.ids[r] for r in ranking.nodes[0].tolist() if r >= 0]
    assert_same_order(ids, ranking.scores[0, : len(ids)].tolist(), expected, scores)
    assert len(index.relevance.calls) == len(expected)


def _clear_cut(similarity, latents, edges, rounds, batch, budget):
    """Return whether no decision of the run hangs on rounding (a near-tie that float32 may turn round)."""
    adjacent = literal.neighbours(edges)
    for retrieved in rounds:
        _, scores = literal.granker(retrieved, latents, adjacent, head, 0.2)
        values = sorted(scores.values())
        if any(0 < b - a < 1e-5 for a, b in zip(values, values[1:], strict=False)):
            return False
        values = sorted(s for _, s in literal.stex(retrieved, similarity, adjacent, 1.0))
        if any(0 < b - a < 1e-5 for a, b in zip(values, values[1:], strict=False)):
            return False
    return True


@settings(max_examples=60)
@given(cases(), st.integers(1, 4), st.integers(1, 12), st.lists(st.sampled_from([1.0, -1.0, 0.5]), min_size=1, max_size=5))
def test_a_batch_gives_each_query_what_it_gets_alone(case, batch, budget, vectors):
    similarity, latents, edges = case
    index = toy_index(similarity, latents, edges)
    retriever = Retriever(index, FastInsight(nodes_per_round=batch, budget=budget), k=8)
    texts = [f"question {i}" for i in range(len(vectors))]
    together = retriever.retrieve_batch(texts, vectors=[[v] for v in vectors])
    again = retriever.retrieve_batch(texts, vectors=[[v] for v in vectors])
    assert together == again, "twice the same"
    for text, vector, hits in zip(texts, vectors, together, strict=True):
        alone = retriever.retrieve(text, vector=[vector])
        assert [h.id for h in alone] == [h.id for h in hits]
        assert all(abs(a.score - b.score) < 1e-5 for a, b in zip(alone, hits, strict=True))
        assert [h.path for h in alone] == [h.path for h in hits]
