"""Random walks on what is fetched: the round trips that they take, and where they end at the limits of a call."""

import re

import numpy as np
import pytest

from graph_retrievers import PPR, GraphIndex, HippoRAG, HippoRAG1, Pipeline, Retriever, Vector
from graph_retrievers.operators import BM25Search, PersonalizedPageRank, VectorSearch
from graph_retrievers.stores.remote import RemoteIndex
from tests.remote import QUESTIONS, MemoryGraph, MemoryVectors, MemoryWords, index_of, question_vectors, random_corpus
from tests.walks import check_near

LIMITS = r"the walk ended at max_nodes or max_round_trips: its shares may be wrong by (\d\.\d{4}) in all, of 1"


def made(size, edges, **limits):
    """Nodes of which the first is found by "loom", in memory and as a store."""
    index = GraphIndex.from_texts(["a loom"] + ["a card"] * (size - 1), edges=[(str(a), str(b)) for a, b in edges])
    graph = MemoryGraph(index.graph)
    return index, graph, RemoteIndex(graph, signals={"bm25": index.bm25}, **limits)


def from_loom(damping=0.5, size=1000):
    return Pipeline(BM25Search(1), PersonalizedPageRank(size, damping=damping, passage_weight=0))


def shares_of(index, hits):
    table = np.zeros(len(index))
    for hit in hits:
        table[int(hit.id)] = hit.score
    return table


def compared(index, remote, damping=0.5):
    """The hits there, the L1 distance of their shares from those in memory, and the bound that a note states; 1e-4 without one."""
    retrievers = (Retriever(remote, from_loom(damping), backfill=False), Retriever(index, from_loom(damping), backfill=False))
    ours, theirs = (each.retrieve("loom", len(index)) for each in retrievers)
    bounds = [float(found[1]) for note in ours.notes if (found := re.fullmatch(LIMITS, note))]
    return ours, np.abs(shares_of(index, ours) - shares_of(index, theirs)).sum(), *(bounds or [1e-4])


def tree():
    return [(n, 5 * n + child) for n in range(31) for child in range(1, 6)]


def test_a_walk_takes_a_round_trip_a_hop():
    index, graph, remote = made(156, tree())
    ours, error, bound = compared(index, remote)
    assert error <= bound == 1e-4
    # The seed, and the nodes of four levels, with their contents.
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 5, 25, 125]
    assert ours.notes[-1] == "round trips: 5 to the graph, 0 to the vector store; 156 nodes fetched"


def test_a_walk_that_exceeds_the_nodes_ends_with_its_bound():
    index, graph, remote = made(156, tree(), max_nodes=50)
    ours, error, bound = compared(index, remote)
    # Of 25 nodes with 6 neighbours each, 2 fit into 9 tenths of the limit beside 31, and then of the leaves, with 1 each, 4.
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 5, 2, 4, 0]
    assert 0.01 < error < bound + 1e-6 < error + 2e-4
    # What is next in line has its settled part.
    assert len(ours) == 41 and ours.notes[-1].endswith("; 41 nodes fetched")


def test_a_walk_that_exceeds_the_round_trips_ends_with_its_bound():
    # 5 round trips are left for what follows: one is the search, 3 are hops.
    index, graph, remote = made(60, [(n, n + 1) for n in range(59)], max_round_trips=9)
    ours, error, bound = compared(index, remote, 0.9)
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 1, 1, 0]
    assert [hit.id for hit in ours] == ["1", "0", "2", "3"] and 0.4 < error < bound + 1e-6 < error + 2e-4


def test_parallel_edges_that_exceed_the_limit_are_left_out_without_an_error():
    # The node 1 has two neighbours and 400 edges, of which its degree does not tell.
    edges = [(0, 1), (0, 3), (3, 4), *[(1, 2)] * 399]
    index, graph, remote = made(5, edges, max_nodes=100)
    ours, error, bound = compared(index, remote)
    # A page that exceeds the limit is read again without what is only wanted further.
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 2, 0]
    assert [hit.id for hit in ours] == ["0", "1", "3"] and 0.05 < error < bound + 1e-6 < error + 2e-4
    assert ours.notes[-1].startswith("round trips: 4 to the graph")


def test_an_edge_that_is_read_from_both_ends_counts_once():
    # Of 0, 45 edges are read, and of 1 these and another: 46 of the 90 that fit.
    index, graph, remote = made(3, [*[(0, 1)] * 45, (1, 2)], max_nodes=100)
    _, error, bound = compared(index, remote)
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 1, 1] and error <= bound == 1e-4


def test_a_node_that_is_read_again_counts_once():
    # Of 31 nodes with 2 neighbours, 29 fit beside 32 nodes; their page has 59, of which 30 are known. Then 29 leaves fit.
    index, graph, remote = made(63, [(0, n) for n in range(1, 32)] + [(n, n + 31) for n in range(1, 32)], max_nodes=100)
    compared(index, remote)
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 29, 29, 0]


def test_edges_of_several_pages_count_together():
    # Of 0, 61 edges are read, and of 1 40 others, as 3 is not entered: neither alone exceeds what fits.
    edges = [*[(0, 3)] * 60, (0, 1), *[(1, 2)] * 40]
    index, graph, remote = made(4, edges, max_nodes=100)
    hits = Retriever(remote, from_loom(), backfill=False).retrieve("loom", traversal_filter={"$id": {"$ne": "3"}}, filter={})
    assert [len(asked["expand"]) for asked in graph.asked] == [0, 1, 1, 0]
    assert [hit.id for hit in hits] == ["0", "1"] and any(re.fullmatch(LIMITS, note) for note in hits.notes)


def test_a_hub_that_does_not_fit_leaves_its_place_to_others():
    edges = [(0, 1), (0, 2), (2, 3), (3, 4), *((1, n) for n in range(5, 200))]
    index, graph, remote = made(200, edges, max_nodes=100)
    ours, error, bound = compared(index, remote)
    assert error < bound + 1e-6 < error + 2e-4 and [hit.id for hit in ours] == ["0", "2", "1", "3", "4"]
    assert "1" not in set().union(*(asked["expand"] for asked in graph.asked))


def test_the_questions_of_a_batch_share_the_limits_by_turns():
    index = GraphIndex.from_texts(
        ["a loom", "a card", *["x"] * 80], edges=[(str(n % 2), str(n)) for n in range(2, 82)] + [("2", "4"), ("3", "5")]
    )
    remote = RemoteIndex(MemoryGraph(index.graph), signals={"bm25": index.bm25}, max_nodes=100)
    batch = Retriever(remote, from_loom(), backfill=False).retrieve_batch(["loom", "card"], 100)
    # Both hubs, with 40 neighbours each, and then of the leaves what fits.
    assert [len(hits) for hits in batch] == [41, 41]
    assert batch[0][0].id == "0" and batch[1][0].id == "1" and [hit.score for hit in batch[0]] == [hit.score for hit in batch[1]]


def test_a_walk_restarts_by_similarity_at_the_100_nearest_nodes():
    corpus = random_corpus(3, 300, 600, ties=False)
    index = index_of(corpus)
    vectors = MemoryVectors(index.graph.ids, corpus[2])
    remote, own = RemoteIndex(MemoryGraph(index.graph), vectors=vectors), question_vectors(corpus)
    near = corpus[2] @ own[0] / np.linalg.norm(corpus[2], axis=1) / np.linalg.norm(own[0])
    hits = Retriever(remote, PPR(damping=0), backfill=False).retrieve(QUESTIONS[0], 150, vector=own[0])
    order = np.argsort(-near, kind="stable")
    # The lowest of them has no weight, and what is behind it none either.
    assert {hit.id for hit in hits} == {index.graph.ids[row] for row in order[:99]}
    scaled = (near[order[:100]] - near[order[99]]) / (near[order[0]] - near[order[99]])
    seeds = np.append(near[order[:5]] / near[order[:5]].sum(), np.zeros(95))
    assert [hit.score for hit in hits] == pytest.approx(((seeds + 0.05 * scaled / scaled.sum()) / 1.05)[:99], abs=1e-6)


def test_a_walk_does_not_enter_nodes_that_a_filter_excludes():
    index, _, remote = made(4, [(0, 1), (1, 2), (0, 3)])
    excluded = {"traversal_filter": {"$id": {"$ne": "1"}}, "filter": {}}
    found = [
        retriever.retrieve("loom", 4, **excluded)
        for retriever in (Retriever(remote, from_loom(), backfill=False), Retriever(index, from_loom(), backfill=False))
    ]
    assert [[hit.id for hit in hits] for hits in found] == [["0", "3"]] * 2
    assert [hit.score for hit in found[0]] == pytest.approx([hit.score for hit in found[1]], abs=1e-6)


def test_without_seeds_and_vectors_nothing_is_found():
    _, _, remote = made(3, [(0, 1)])
    assert list(Retriever(remote, from_loom(), backfill=False).retrieve("zebra")) == []


def test_the_first_hipporag_walks_wherever_words_are():
    index = index_of(random_corpus(1, 60, 150))
    stores = {"vectors": MemoryVectors(index.graph.ids, index.dense.vectors.numpy()), "words": MemoryWords(index)}
    remote, own = RemoteIndex(MemoryGraph(index.graph), **stores), question_vectors(random_corpus(1, 60, 150))
    walk = Pipeline(VectorSearch(3, returned=False), HippoRAG1(synonyms=None).operator())
    for filters in ({}, {"traversal_filter": {"$type": "film"}}, {"filter": {"$type": {"$ne": "film"}}, "seed_filter": {}}):
        there, here = (
            Retriever(each, walk, backfill=False).retrieve_batch(QUESTIONS, vectors=own, **filters) for each in (remote, index)
        )
        check_near(there, here)
        assert all(map(len, there))
    # Where facts have no vectors, passages are ranked by vector search.
    hits = Retriever(remote, HippoRAG(), k=5).retrieve(QUESTIONS[0], vector=own[0])
    assert [hit.id for hit in hits] == [hit.id for hit in Retriever(remote, Vector(), k=5).retrieve(QUESTIONS[0], vector=own[0])]
    assert hits.notes[0].startswith("no fact is looked for, as the index has no signal 'edge_dense'")
