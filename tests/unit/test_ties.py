"""Ties: scores that differ by rounding alone are equal and go to the lower row; scores that differ keep their order."""

import itertools
import random

import faiss
import numpy as np
import pytest
import torch

from graph_retrievers import PPR
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import ReciprocalRankFusion
from graph_retrievers.graph.ragged import descending, top_k
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import HybridSearch, PersonalizedPageRank, Pipeline, STeX, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals import dense
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems import MMR
from graph_retrievers.systems.gar import AdaptiveReranking
from tests.rankings import ranked

NOISE = 4e-7


def noisy(values, seed):
    """Values with noise as small as the rounding of single precision, another for each seed."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.as_tensor(values, dtype=torch.float64)
    return (values * (1 + NOISE * (2 * torch.rand(values.shape, generator=generator, dtype=torch.float64) - 1))).float()


def inversion(values):
    """The most by which a score stands below a later one of its row."""
    later = torch.cummax(values.double().flip(-1), -1).values.flip(-1)
    return float((later - values.double()).max()) if values.numel() else 0.0


# -- the order itself -------------------------------------------------------------------------------------------------

LEVELS = [0.7, 0.2, 0.7, -0.3, 0.0, 0.2, 0.7, -0.3, 0.0, 0.7001]
ORDER = sorted(range(len(LEVELS)), key=lambda i: (-LEVELS[i], i))


@pytest.mark.parametrize("seed", range(8))
def test_noise_changes_neither_order_nor_cut(seed, device):
    scores = noisy([LEVELS, LEVELS], seed).to(device)
    assert descending(scores).tolist() == [ORDER, ORDER]
    for k in range(len(LEVELS) + 2):
        assert top_k(scores, k)[1].tolist() == [ORDER[:k]] * 2


def test_infinite_scores_and_pads():
    scores = torch.tensor([[-torch.inf, 1.0, torch.inf, 1.0 + 5e-7, torch.inf, -torch.inf, 2.0]])
    assert descending(scores).tolist() == [[2, 4, 6, 1, 3, 0, 5]]
    for k in range(8):
        assert top_k(scores, k)[1].tolist() == [[2, 4, 6, 1, 3, 0, 5][:k]]


@pytest.mark.parametrize("step", [3e-6, 1e-5, 0.1])
def test_scores_that_differ_keep_their_order(step):
    scores = (1.0 - step * torch.arange(8)).flip(0)[None]
    assert descending(scores).tolist() == [[7, 6, 5, 4, 3, 2, 1, 0]]
    assert top_k(scores, 3)[1].tolist() == [[7, 6, 5]]


@pytest.mark.parametrize("size", [50, 3000])
@pytest.mark.parametrize("step", [1e-7, 3e-7, 7e-7])
def test_a_long_list_of_dense_scores_keeps_its_order_up_to_the_tolerance(size, step, device):
    # Each score is as good as equal to the next; the first and the last are far apart.
    generator = torch.Generator().manual_seed(0)
    scores = torch.stack([(1.0 - step * torch.randperm(size, generator=generator)).float() for _ in range(2)]).to(device)
    order = descending(scores)
    assert sorted(order[0].tolist()) == list(range(size))
    assert inversion(scores.gather(1, order)) <= 1.01e-6
    for k in (1, 7, size // 2, size - 1):
        values, columns = top_k(scores, k)
        assert columns.tolist() == order[:, :k].tolist(), "the best k are the first k of all"
        assert bool((values[:, 1:] <= values[:, :-1]).all()), "scores fall, ties by rounding included"
        assert torch.allclose(values, scores.gather(1, columns), rtol=1.01e-6, atol=0)


def test_a_score_and_what_is_smaller_by_the_tolerance_count_as_one():
    # Steps of 0.75 tolerances: pairs from the largest on.
    scores = torch.tensor([[0.0, 0.75, 1.5, 2.25, 3.0, 3.75]])
    assert descending(scores, 1.0).tolist() == [[4, 5, 2, 3, 0, 1]]
    assert top_k(scores, 3, 1.0)[1].tolist() == [[4, 5, 2]]
    assert descending(scores, torch.tensor([[0.5]])).tolist() == [[5, 4, 3, 2, 1, 0]]


# -- vector search ----------------------------------------------------------------------------------------------------


def duplicates(copies=5, distinct=40, dimension=48):
    """Random vectors, each standing several times, far apart from its copies."""
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(distinct, dimension, generator=generator)
    return torch.cat([base] * copies), base


def test_copies_of_a_vector_go_by_row_in_batches_of_any_size(device):
    vectors, base = duplicates()
    index = DenseIndex(vectors, device=torch.device(device))
    queries = torch.randn(33, 48, generator=torch.Generator().manual_seed(2)).to(device)
    exact = queries.double().cpu() @ base.double().T
    for size in (1, 2, 5, 33):
        rows = torch.cat([index.search(part, 23)[1] for part in queries.split(size)]).cpu()
        for b, found in enumerate(rows.tolist()):
            best = sorted(range(len(base)), key=lambda i: -float(exact[b, i]))
            expected = [i + 40 * copy for i in best[:5] for copy in range(5)]
            assert found == expected[:23]


@pytest.mark.parametrize("tile", [7, 64, 1000])
def test_tiles_and_groups_of_any_size_bring_the_same(tile, monkeypatch):
    vectors, _ = duplicates(copies=20)
    queries = torch.randn(4, 48, generator=torch.Generator().manual_seed(3))
    whole = DenseIndex(vectors)
    expected = {k: whole.search(queries, k)[1].tolist() for k in (1, 10, 799, 800)}
    monkeypatch.setattr(dense, "_TILE", tile)
    for name, value in {"_GROUP": 8, "_FEW": 0, "_SPARSE": 2}.items():
        monkeypatch.setattr(dense, name, value)
    for k, rows in expected.items():
        values, found = whole.search(queries, k)
        assert found.tolist() == rows
        # The tolerance of a dot product is a share of the lengths of its two vectors.
        slack = 1.1e-6 * float(whole.norms.max()) * float(torch.linalg.vector_norm(queries, dim=1).max())
        assert inversion(values) == 0 and inversion(whole.table(queries).gather(1, found)) <= slack


def test_the_whole_of_a_corpus_of_several_tiles_is_in_order():
    generator = torch.Generator().manual_seed(4)
    vectors = torch.nn.functional.normalize(torch.randn(40_000, 8, generator=generator))
    index = DenseIndex(vectors)
    values, rows = index.search(vectors[:1], 40_000)
    assert sorted(rows[0].tolist()) == list(range(40_000)) and rows[0, 0] == 0
    assert inversion(values) == 0 and inversion(index.table(vectors[:1]).gather(1, rows)) <= 1.2e-6


def test_sums_in_another_order_tie():
    # The same products summed in another order: equal in truth, not to the last bit.
    generator = torch.Generator().manual_seed(6)
    row, query = torch.randn(257, generator=generator), torch.randn(257, generator=generator)
    orders = [torch.randperm(257, generator=generator) for _ in range(30)]
    permuted = torch.stack([torch.cat([row[order] * query[order]]) for order in orders])
    index = DenseIndex(permuted)
    sums = index.table(torch.ones(1, 257))
    assert len(set(sums[0].tolist())) > 1, "the sums do differ in their last bits"
    for k in (1, 5, 29, 30):
        assert index.search(torch.ones(1, 257), k)[1].tolist() == [list(range(k))]


def test_products_that_cancel_tie_by_the_lengths_of_their_vectors():
    # Products near 0 of long vectors: what is left is rounding, far more than a millionth of itself.
    vectors = torch.tensor([[1.0, 3e-8], [1.0, 5e-8], [1.0, -2e-8], [0.0, 1e-3]])
    assert DenseIndex(vectors).search(torch.tensor([[0.0, 1.0]]), 4)[1].tolist() == [[3, 0, 1, 2]]


# -- operators --------------------------------------------------------------------------------------------------------


def tied_index(levels, edges=(), seed=0):
    """An index whose nodes have similarities by level, each with its own noise."""
    vectors = noisy(levels, seed)[:, None]
    return GraphIndex.from_texts([f"text {i}" for i in range(len(levels))], edges=edges, vectors=vectors, bm25=False)


def ranked_rows(index, operator, k):
    return [int(hit.id) for hit in Retriever(index, operator, backfill=False).retrieve("q", k, vector=[1.0])]


@pytest.mark.parametrize("seed", range(4))
def test_vector_search(seed):
    assert ranked_rows(tied_index(LEVELS, seed=seed), VectorSearch(), 10) == ORDER
    assert ranked_rows(tied_index(LEVELS, seed=seed), VectorSearch(4), 4) == ORDER[:4]


@pytest.mark.parametrize("seed", range(4))
def test_stex_adds_equal_candidates_by_row(seed):
    # Node 0 is the seed, all others are its neighbours.
    levels = [0.9, 0.2, 0.4, 0.4, 0.2, 0.4, 0.3]
    index = tied_index(levels, [("0", str(i)) for i in range(1, 7)], seed)
    for beta in (1.0, 0.0):
        assert ranked_rows(index, Pipeline(VectorSearch(1), STeX(beta, nodes_per_round=6)), 7) == [0, 2, 3, 5, 6, 1, 4]
        assert ranked_rows(index, Pipeline(VectorSearch(1), STeX(beta, nodes_per_round=2)), 7) == [0, 2, 3]


def fixed(nodes):
    class Fixed(VectorSearch):
        def search(self, question, candidates):
            yield from ()
            return Candidates.seeds(np.array(nodes), np.arange(len(nodes), 0, -1.0), self.name)

    return Fixed()


def test_reciprocal_ranks_that_sum_to_the_same_in_another_order():
    lists = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    queries = Queries.of(tied_index([0.0] * 3), ["q"], vectors=[[1.0]])
    sums = {}
    for place, order in enumerate(([0, 1, 2], [2, 1, 0], [1, 0, 2])):
        fusion = ReciprocalRankFusion(*(fixed(lists[i]) for i in order), constant=3)
        found = ranked(fusion, queries)
        assert found.nodes[0].tolist() == [0, 1, 2]
        sums[place] = found.scores[0, :3].tolist()
    # By hand: every node is first, second and third once.
    assert all(score == pytest.approx(1 / 4 + 1 / 5 + 1 / 6) for scores in sums.values() for score in scores)
    # A node that is really better is first, be it the highest row.
    better = ranked(ReciprocalRankFusion(fixed([2, 0]), fixed([2, 1])), queries)
    assert better.nodes[0].tolist()[:3] == [2, 0, 1]


def test_a_node_that_counts_as_much_in_two_lists_is_told_by_the_first():
    index = tied_index([0.9, 0.8, 0.1], [("0", "2"), ("1", "2")])
    queries = Queries.of(index, ["q"], vectors=[[1.0]])
    # Node 2 is second in both lists, reached from node 0 in one and from node 1 in the other.
    walks = [Pipeline(fixed([start]), STeX()) for start in (0, 1)]
    for lists in (walks, walks[::-1], [walks[0], fixed([1, 2])], [fixed([1, 2]), walks[0]]):
        first = ranked(lists[0], queries)
        found = ranked(ReciprocalRankFusion(*lists, constant=5), queries)
        place, own = (ranking.nodes[0].tolist().index(2) for ranking in (found, first))
        assert found.operators[found.origins[0, place]] == first.operators[first.origins[0, own]]
        trails = ([row for row in ranking.trails[0, at].tolist() if row >= 0] for ranking, at in ((found, place), (first, own)))
        assert next(trails) == next(trails)
    # A list where it counts more tells of it, wherever it stands.
    more = ranked(ReciprocalRankFusion(walks[0], walks[1], weights=[1, 2], constant=5), queries)
    assert more.trails[0, more.nodes[0].tolist().index(2)].tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_mmr_visits_equal_nodes_by_row(seed):
    # Vectors of one direction and several lengths, whose cosines differ in their last bits alone.
    generator = torch.Generator().manual_seed(seed)
    direction, question = torch.randn(2, 7, generator=generator)
    vectors = direction * torch.tensor([1, 3, 0.1, 7, 1 / 3])[:, None]
    index = GraphIndex.from_texts(list("abcde"), vectors=vectors, bm25=False)
    assert [hit.id for hit in Retriever(index, MMR(start_k=5), k=5).retrieve("q", vector=question)] == list("01234")


@pytest.mark.parametrize("fusion", ["rrf", "weighted"])
def test_hybrid_search_of_copies(fusion):
    texts = ["red apple", "green pear", "red apple", "blue sea", "red apple"]
    vectors = np.array([[0.6, 0.8], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.6, 0.8]], np.float32)
    index = GraphIndex.from_texts(texts, vectors=vectors)
    for count in (1, 3, 8):
        queries = Queries.of(index, ["red apple"] * count, k=5, vectors=[[0.3, 0.4]] * count)
        found = ranked(HybridSearch(fusion=fusion), queries).nodes.tolist()
        assert found == [found[0]] * count and [n for n in found[0] if n in (0, 2, 4)] == [0, 2, 4]


def test_dense_scores_through_a_retriever_keep_their_order():
    size = 2000
    order = random.Random(0).sample(range(size), size)
    vectors = torch.tensor([1.0 - 4e-7 * place for place in order])[:, None]
    index = GraphIndex.from_texts([str(i) for i in range(size)], vectors=vectors, bm25=False)
    hits = Retriever(index, VectorSearch()).retrieve("q", size, vector=[1.0])
    assert inversion(vectors[[int(hit.id) for hit in hits], 0][None]) <= 1.1e-6
    assert all(hit.score == pytest.approx(float(vectors[int(hit.id), 0]), rel=1.1e-6) for hit in hits)
    assert [hit.id for hit in Retriever(index, VectorSearch()).retrieve("q", 50, vector=[1.0])] == [h.id for h in hits[:50]]


@pytest.mark.parametrize("name", ["spreading", "gar", "fastinsight", "ppr", "vector"])
def test_a_batch_has_the_order_of_its_queries_one_by_one_among_equal_scores(name):
    words = "loom card engine cipher drum gear wheel mill".split()

    def embed(texts):
        counts = torch.tensor([[float(text.split().count(word)) for word in words] for text in texts])
        return torch.nn.functional.normalize(counts, dim=1)

    for seed in range(3):
        rng = random.Random(seed)
        texts = [" ".join(rng.choices(words, k=6)) for _ in range(60)]
        edges = [(str(rng.randrange(60)), str(rng.randrange(60))) for _ in range(120)]
        retriever = Retriever(GraphIndex.from_texts(texts, edges=edges, embedding=embed), name, k=8)
        queries = [" ".join(rng.sample(words, 3)) for _ in range(20)]
        together = retriever.retrieve_batch(queries)
        for query, hits in zip(queries, together, strict=True):
            alone = retriever.retrieve(query)
            assert [hit.id for hit in hits] == [hit.id for hit in alone]
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], rel=1e-5)


def test_similarities_that_differ_by_rounding_restart_a_walk_alike():
    vector = np.random.default_rng(3).normal(size=384).astype(np.float32)
    vector /= np.linalg.norm(vector)
    rows = np.stack([vector] * 6)
    found = []
    for moved in (False, True):
        if moved:
            rows[3] = np.nextafter(rows[3], np.float32(2))
        edges = [("0", "1"), ("2", "3"), ("4", "5")]
        index = GraphIndex.from_texts([f"t{n}" for n in range(6)], vectors=rows, edges=edges, bm25=False)
        hits = Retriever(index, PPR(seeds=1)).retrieve("x", vector=vector)
        found.append(([hit.id for hit in hits], [round(hit.score, 4) for hit in hits]))
    assert found[0] == found[1] and found[0][0] == ["0", "1", "2", "3", "4", "5"]


def test_rounding_does_not_choose_among_seeds_that_are_all_least_similar():
    for noise in (0.0, 1e-7):
        vectors = np.array([[0.2 + noise, 0.98], [0.2, 0.98], [0.8, 0.6]], dtype=np.float32)
        index = GraphIndex.from_texts(["a", "b", "c"], vectors=vectors, edges=[("0", "2")], bm25=False, metric="dot")
        walk = Pipeline(VectorSearch(1), PersonalizedPageRank(passage_weight=1.0))
        queries = Queries.of(index, ["x"], vectors=[[1.0, 0.0]], seed_filter={"$id": {"$in": ["0", "1"]}})
        found = ranked(walk, queries)
        # One of the two starts the walk, by its similarity; the other gets no share for being alike.
        assert found.nodes[0, 0] in (0, 1) and float(found.scores[0].clamp(min=0).sum()) == pytest.approx(1.0)
        assert int((found.nodes[0] >= 0).sum()) == (1 if found.nodes[0, 0] == 1 else 2)


def test_adaptive_reranking_takes_equal_scores_in_the_order_of_rounds():
    for scores in ([0.5, 0.5, 0.5, 0.2], [0.5, 0.5, 0.50000006, 0.2]):
        relevance = dict(zip(["t0", "t1", "t2", "t3"], scores, strict=True))
        model = lambda pairs, relevance=relevance: [relevance[text] for _, text in pairs]  # noqa: E731
        index = GraphIndex.from_texts(list(relevance), vectors=[[1.0, 0.0]] * 4, edges=[("0", "1"), ("1", "2")], relevance=model)
        hits = Retriever(index, "gar").retrieve("x", vector=[1.0, 0.0])
        assert [hit.id for hit in hits] == ["0", "1", "2", "3"]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_nodes_of_a_batch_with_equal_scores_expand_by_id():
    # 1 expands before 0, so that its neighbour 3 is the first that waits: the one that the budget leaves.
    for scores in ([0.5, 0.5, 0.1, 0.1], [0.50000006, 0.5, 0.1, 0.1]):
        relevance = dict(zip(["t0", "t1", "t2", "t3"], scores, strict=True))
        model = lambda pairs, relevance=relevance: [relevance[text] for _, text in pairs]  # noqa: E731
        edges, vectors = [("0", "2"), ("1", "3")], [[1.0], [1.0], [0.0], [0.0]]
        index = GraphIndex.from_texts(list(relevance), vectors=vectors, edges=edges, relevance=model)
        rerank = Pipeline(VectorSearch(2), AdaptiveReranking(budget=3, nodes_per_round=2))
        assert ranked(rerank, Queries.of(index, ["x"], vectors=[[1.0]])).nodes.tolist() == [[0, 1, 3]]


def test_ties_of_faiss_go_to_the_lower_row():
    # The lower rows are lower by rounding only, and there are more of the others than faiss is asked for.
    vectors = torch.tensor([[0.0]] * 5000 + [[1.0]] * 20 + [[1.0000001]] * 20)
    assert DenseIndex(vectors).search(torch.tensor([[1.0]]), 2)[1].tolist() == [[5000, 5001]]


@pytest.mark.parametrize("kind", ["few values", "any"])
def test_few_queries_find_by_faiss_what_many_find_without(kind, monkeypatch):
    draw, asked = np.random.default_rng(0), []
    knn = faiss.knn
    monkeypatch.setattr(faiss, "knn", lambda *given, **named: asked.append(len(given[0])) or knn(*given, **named))
    for metric, k in itertools.product(("dot", "cosine"), (1, 7, 60)):
        vectors = draw.integers(-2, 3, (4000, 6)) if kind == "few values" else draw.normal(size=(4000, 6))
        index = DenseIndex(vectors.astype(np.float32), metric=metric)
        queries = index.prepared(torch.from_numpy(draw.normal(size=(8, 6)).round(1).astype(np.float32)))
        together, told = index.search(queries, k), len(asked)
        for count in (1, 2, 3):
            scores, rows = index.search(queries[:count], k)
            assert rows.equal(together[1][:count]) and torch.allclose(scores, together[0][:count], rtol=1e-5, atol=1e-6)
            assert torch.equal(scores == 0, together[0][:count] == 0)
        assert asked[told:] == [1, 2, 3]
    with monkeypatch.context() as missing:
        missing.setattr(dense, "faiss_or_none", lambda: None)
        assert index.search(queries[:1], k)[1].equal(together[1][:1]) and len(asked) == told + 3
