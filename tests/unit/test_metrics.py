"""Metrics against numbers worked by hand."""

import math
import random
from statistics import fmean

import pytest

from graph_retrievers.errors import DatasetError, InvalidArgumentError, UnknownNodeError
from graph_retrievers.evaluation.metrics import average_precision, capped_recall, hit, ndcg, recall, reciprocal_rank
from graph_retrievers.evaluation.run_files import read_qrels, read_run, write_qrels, write_run
from graph_retrievers.evaluation.ties import tied_hits, tied_reciprocal_rank
from graph_retrievers.evaluation.topological import topological_credit
from graph_retrievers.graph import CorpusGraph

# -- rankings ---------------------------------------------------------------------------------------------------


def test_recall_is_capped_at_what_k_places_can_hold():
    gold = ["a", "b", "c", "d"]
    assert capped_recall(["a", "x", "b"], gold, 2) == 0.5
    assert recall(["a", "x", "b"], gold, 2) == 0.25
    assert capped_recall(["a", "x", "b"], gold, 3) == pytest.approx(2 / 3)
    assert recall(["a", "x", "b"], gold) == 0.5


def test_ranks_and_gains():
    ranking, gold = ["x", "a", "y", "b"], {"a", "b"}
    assert reciprocal_rank(ranking, gold) == 0.5
    assert reciprocal_rank(ranking, gold, 1) == 0.0
    assert average_precision(ranking, gold) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert hit(ranking, gold, 1) == 0.0 and hit(ranking, gold, 2) == 1.0
    best = 1 + 1 / math.log2(3)
    assert ndcg(ranking, gold, 10) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    graded = {"a": 1, "b": 3, "y": 0, "z": -1}
    best = 3 + 1 / math.log2(3)
    assert ndcg(ranking, graded, 10) == pytest.approx((1 / math.log2(3) + 3 / math.log2(5)) / best)


def test_a_repeated_node_counts_once_and_takes_no_place():
    assert capped_recall(["a", "a", "b"], ["a", "b"], 2) == 1.0
    assert average_precision(["a", "a", "b"], ["a", "b"]) == 1.0
    assert ndcg(["a", "a", "b"], ["a", "b"], 3) == 1.0


def test_an_empty_ranking_scores_zero_and_an_empty_gold_set_is_refused():
    for metric in (capped_recall, hit, recall, ndcg, reciprocal_rank, average_precision):
        assert metric([], ["a"], 10) == 0.0
        with pytest.raises(InvalidArgumentError, match="without relevant nodes"):
            metric(["a"], [], 10)
        with pytest.raises(InvalidArgumentError, match="k must be an integer of at least 1"):
            metric(["a"], ["a"], 0)
    with pytest.raises(InvalidArgumentError, match="without relevant nodes"):
        ndcg(["a"], {"a": 0})


# -- Topological Recall -----------------------------------------------------------------------------------------


def worked_graph():
    edges = [(1, 2), (1, 3), (2, 5), (3, 5), (3, 6), (6, 7), (2, 3), (1, 6)]
    ids = [str(n) for n in range(1, 8)]
    return CorpusGraph(ids, ids, edges=[(str(a), str(b)) for a, b in edges])


def costs(graph, retrieved, oracle):
    """Return the cost of each oracle node from the nearest retrieved node."""
    return [1 / credit - 1 if credit else math.inf for credit in topological_credit(graph, [retrieved], oracle)[0]]


def test_topological_recall_of_the_worked_graph():
    graph, retrieved, oracle = worked_graph(), ["1", "2"], ["1", "5", "7", "4"]
    assert costs(graph, retrieved, oracle) == pytest.approx([0, math.log(4), 2 * math.log(4), math.inf], abs=1e-12)
    assert fmean(topological_credit(graph, [retrieved], oracle)[0]) == pytest.approx(0.421032, abs=5e-7)
    assert topological_credit(graph, [["1", "2"], [], ["unheard of"]], ["5"]) == [[pytest.approx(0.41906, abs=5e-6)], [0.0], [0.0]]


def test_the_shortest_path_is_that_of_fewest_hops():
    leaves = [f"leaf{n}" for n in range(200)]
    ids = ["s", "hub", "a", "b", "t", *leaves]
    edges = [("s", "hub"), ("hub", "t"), ("s", "a"), ("a", "b"), ("b", "t"), *(("hub", leaf) for leaf in leaves)]
    # By "a" and "b" it would cost 3.2958.
    assert costs(CorpusGraph(ids, ids, edges=edges), ["s"], ["t"]) == pytest.approx([6.4118], abs=5e-5)


@pytest.mark.parametrize("names", [["cheap", "hub"], ["hub", "cheap"]])
def test_of_several_shortest_paths_the_cheapest_counts(names):
    leaves = [f"leaf{n}" for n in range(20)]
    edges = [(end, middle) for middle in names for end in ("s", "t")] + [("hub", leaf) for leaf in leaves]
    graph = CorpusGraph(["s", *names, "t", *leaves], [""] * 24, edges=edges)
    # ln(1 + 2) at the start and ln(1 + 2) at "cheap", which lies before or after the hub; by the hub it is ln(1 + 22).
    for near, far in (("s", "t"), ("t", "s")):
        assert costs(graph, [near], [far]) == pytest.approx([2 * math.log(3)])
    # From a leaf every path leads through the hub: to "t" by one hop more.
    assert costs(graph, ["leaf0"], ["t"]) == pytest.approx([math.log(2) + math.log(23)])


def test_topological_recall_at_its_limits():
    graph = worked_graph()
    assert topological_credit(graph, [[], ["4"]], ["1", "5"]) == [[0.0, 0.0], [0.0, 0.0]]
    assert topological_credit(graph, [["4"]], ["4"]) == [[1.0]]
    # Repeated ids count once.
    assert topological_credit(graph, [["1", "2", "2", "1"]], ["1", "5"]) == topological_credit(graph, [["1", "2"]], ["1", "5"])
    with pytest.raises(UnknownNodeError):
        topological_credit(graph, [["1"]], ["8"])


# -- ties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "ties", "expected"),
    [(8, 5, 2 / 5), (8, 2, 1), (1, 2, 1), (10, 3, 0), (10, 1, 0), (11, 1, 0), (0, 20, 1 / 2), (0, 10, 1), (0, 4, 1)],
)
def test_hits_at_ten_under_ties(above, ties, expected):
    ids = [f"n{i}" for i in range(above + ties + 5)]
    scores = [9.0] * above + [5.0] * ties + [1.0] * 5
    assert tied_hits(ids, scores, [ids[above]], 10) == pytest.approx(expected)
    assert tied_hits(ids[::-1], scores[::-1], [ids[above]], 10) == pytest.approx(expected)


def test_without_ties_they_are_the_means_over_all_relevant_nodes():
    rng = random.Random(3)
    for _ in range(1000):
        ids = [f"n{number}" for number in range(rng.randint(0, 30))]
        scores = rng.sample(range(100), len(ids))
        gold, k = [f"n{rng.randrange(35)}" for _ in range(rng.randint(1, 5))], rng.randint(1, 12)
        ranking = [node for _, node in sorted(zip(scores, ids, strict=True), reverse=True)]
        # MRR and MHits@k as section 4.1.1 of G-RAG states them.
        reciprocal, hits = 0.0, 0.0
        for node in set(gold):
            if node in ranking:
                reciprocal += 1 / (ranking.index(node) + 1)
                hits += ranking.index(node) + 1 <= k
        assert tied_reciprocal_rank(ids, scores, gold) == pytest.approx(reciprocal / len(set(gold)))
        assert tied_hits(ids, scores, gold, k) == pytest.approx(hits / len(set(gold)))


def test_mean_tied_reciprocal_rank():
    ids, scores = list("abcdefg"), [90, 80, 80, 80, 50, 50, 20]
    first = tied_reciprocal_rank(ids, scores, ["b", "e"])
    second = tied_reciprocal_rank(list("xyz"), [3, 2, 1], ["z"])
    assert first == pytest.approx(17 / 66)
    assert second == pytest.approx(1 / 3)
    assert (first + second) / 2 == pytest.approx(13 / 44)
    assert tied_reciprocal_rank(ids, scores, ["c"]) == pytest.approx(1 / 3)
    assert tied_reciprocal_rank(ids, scores, ["nowhere"]) == 0.0
    # All relevant nodes count, found or not: 1 / 1 and 2 / 3 of c's ties, and nothing.
    assert tied_reciprocal_rank(ids, scores, ["a", "c", "nowhere"]) == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert tied_hits(ids, scores, {"a": 1.0, "c": 2.0, "g": 0.0, "nowhere": 1.0}, 2) == pytest.approx((1 + 1 / 3 + 0) / 3)
    with pytest.raises(InvalidArgumentError, match="scores"):
        tied_hits(ids, scores[1:], ["b"])
    with pytest.raises(InvalidArgumentError, match="NaN"):
        tied_hits(["a"], [math.nan], ["a"])


# -- TREC files -------------------------------------------------------------------------------------------------


def test_run_files_keep_the_order_of_ties(tmp_path):
    run = {"q1": [("b", 2.0), ("a", 2.0), ("z", 2.5), ("c", -1e30)], "q2": [("a", 0.1)]}
    write_run(tmp_path / "x.run", run)
    read = read_run(tmp_path / "x.run")
    assert {query: [node for node, _ in pairs] for query, pairs in read.items()} == {"q1": ["b", "a", "z", "c"], "q2": ["a"]}
    scores = [score for _, score in read["q1"]]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 4
    assert read["q2"][0][1] == pytest.approx(0.1)


def test_run_files_may_be_compressed(tmp_path):
    run = {"q1": [("b", 2.5), ("a", 2.0)]}
    write_run(tmp_path / "x.run.gz", run)
    assert (tmp_path / "x.run.gz").read_bytes()[:2] == b"\x1f\x8b" and read_run(tmp_path / "x.run.gz") == run
    (tmp_path / "x.run.gz").write_bytes((tmp_path / "x.run.gz").read_bytes()[:-9])
    with pytest.raises(DatasetError, match="cannot be read"):
        read_run(tmp_path / "x.run.gz")


def test_run_files_of_other_tools_are_ordered_by_score_then_rank(tmp_path):
    (tmp_path / "x.run").write_text("q Q0 a 2 1.0 t\nq Q0 b 1 1.0 t\n\nq Q0 c 3 7e-1 t\nq Q0 d 9 5 t\n")
    assert read_run(tmp_path / "x.run") == {"q": [("d", 5.0), ("b", 1.0), ("a", 1.0), ("c", 0.7)]}


def test_qrels_go_out_and_come_back(tmp_path):
    write_qrels(tmp_path / "q", {"q1": ["a", "b"], "q2": {"a": 2, "c": 0}})
    assert read_qrels(tmp_path / "q") == {"q1": {"a": 1.0, "b": 1.0}, "q2": {"a": 2.0, "c": 0.0}}


@pytest.mark.parametrize(
    ("text", "message"),
    [("q Q0 a 1 2.0\n", "x:1 has 5 columns"), ("q Q0 a 1 two t\n", "score is 'two'"), ("q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "twice")],
)
def test_broken_run_files_name_the_line(tmp_path, text, message):
    (tmp_path / "x").write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_run(tmp_path / "x")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_qrels(tmp_path / "missing")
    with pytest.raises(InvalidArgumentError, match="without spaces"):
        write_run(tmp_path / "y", {"q": [("a b", 1.0)]})
    assert not (tmp_path / "y").exists()
