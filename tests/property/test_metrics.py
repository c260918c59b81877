"""Metrics on random input against other people's programs and against literal definitions."""

import math
import random

import ir_measures
import networkx as nx
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.evaluation.metrics import average_precision, capped_recall, hit, ndcg, recall, reciprocal_rank
from graph_retrievers.evaluation.run_files import read_run, write_run
from graph_retrievers.evaluation.ties import tied_hits
from graph_retrievers.evaluation.topological import topological_credit
from graph_retrievers.graph import CorpusGraph

NODES = [f"n{i}" for i in range(40)]


@st.composite
def runs(draw):
    """A ranking, grades of judged nodes (some of them 0), and k."""
    ranking = draw(st.lists(st.sampled_from(NODES), max_size=30, unique=True))
    grades = draw(st.dictionaries(st.sampled_from(NODES), st.integers(0, 3), min_size=1, max_size=20))
    grades[draw(st.sampled_from(NODES))] = draw(st.integers(1, 3))
    return ranking, grades, draw(st.integers(1, 35))


@settings(max_examples=150)
@given(runs())
def test_metrics_agree_with_pytrec_eval(case):
    ranking, grades, k = case
    run = {"q": {node: float(len(ranking) - place) for place, node in enumerate(ranking)}}
    names = {f"recall.{k}", f"ndcg_cut.{k}", f"map_cut.{k}", f"success.{k}", "recip_rank", "map", "ndcg"}
    other = pytrec_eval.RelevanceEvaluator({"q": grades}, names).evaluate(run).get("q") or dict.fromkeys(
        [f"recall_{k}", f"ndcg_cut_{k}", f"map_cut_{k}", f"success_{k}", "recip_rank", "map", "ndcg"], 0.0
    )
    ours = {
        f"recall_{k}": recall(ranking, grades, k),
        f"ndcg_cut_{k}": ndcg(ranking, grades, k),
        f"map_cut_{k}": average_precision(ranking, grades, k),
        f"success_{k}": hit(ranking, grades, k),
        "recip_rank": reciprocal_rank(ranking, grades),
        "map": average_precision(ranking, grades),
        "ndcg": ndcg(ranking, grades),
    }
    assert ours == pytest.approx(other, abs=1e-9)
    relevant = sum(grade > 0 for grade in grades.values())
    assert capped_recall(ranking, grades, k) == pytest.approx(other[f"recall_{k}"] * relevant / min(k, relevant), abs=1e-9)


@settings(max_examples=40)
@given(runs())
def test_metrics_agree_with_ir_measures(case):
    ranking, grades, k = case
    run = {"q": {node: float(len(ranking) - place) for place, node in enumerate(ranking)}}
    wanted = [ir_measures.RR @ k, ir_measures.nDCG @ k, ir_measures.AP @ k, ir_measures.R @ k, ir_measures.Success @ k]
    other = ir_measures.calc_aggregate(wanted, {"q": grades}, run)
    ours = [metric(ranking, grades, k) for metric in (reciprocal_rank, ndcg, average_precision, recall, hit)]
    assert ours == pytest.approx([other[measure] for measure in wanted], abs=1e-9)


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=25), st.integers(0, 2**20))
def test_run_files_give_other_tools_the_same_order(tmp_path_factory, scores, seed):
    path = tmp_path_factory.mktemp("run") / "x.run"
    nodes = random.Random(seed).sample(NODES, len(scores))
    pairs = list(zip(nodes, sorted(map(float, scores), reverse=True), strict=True))
    write_run(path, {"q": pairs})
    assert [node for node, _ in read_run(path)["q"]] == nodes
    # trec_eval reads single precision and breaks ties by name: with one relevant node, its rank shows in recip_rank.
    with path.open() as file:
        run = pytrec_eval.parse_run(file)
    for rank, node in enumerate(nodes, 1):
        found = pytrec_eval.RelevanceEvaluator({"q": {node: 1}}, {"recip_rank"}).evaluate(run)["q"]["recip_rank"]
        assert found == pytest.approx(1 / rank)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=25), st.integers(1, 12), st.data())
def test_tied_hits_are_the_share_of_random_orders(scores, k, data):
    ids = NODES[: len(scores)]
    node = data.draw(st.sampled_from(range(len(scores))))
    shuffler, inside = random.Random(0), 0
    for _ in range(4000):
        keys = [(-score, shuffler.random(), i) for i, score in enumerate(scores)]
        inside += sorted(keys).index(keys[node]) < k
    assert tied_hits(ids, scores, [ids[node]], k) == pytest.approx(inside / 4000, abs=0.05)


@st.composite
def graphs(draw):
    size = draw(st.integers(2, 9))
    edges = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=16))
    retrieved, oracle = (set(draw(st.permutations(NODES[:size]))[: draw(st.integers(least, 4))]) for least in (0, 1))
    return size, [(NODES[a], NODES[b]) for a, b in edges], retrieved, oracle


def literal_credit(graph, retrieved, oracle):
    """Definition 7 path by path: of all simple paths those of fewest hops, of these the cheapest."""
    credit = []
    for target in oracle:
        best = math.inf
        for seed in retrieved:
            if seed == target:
                best = 0.0
                continue
            paths = list(nx.all_simple_paths(graph, seed, target))
            for path in (p for p in paths if len(p) == min(map(len, paths))):
                best = min(best, sum(math.log(1 + graph.degree(node)) for node in path[:-1]))
        credit.append(1 / (1 + best))
    return credit


@settings(max_examples=80)
@given(graphs())
def test_credit_is_its_definition(case):
    size, edges, retrieved, oracle = case
    graph = CorpusGraph(NODES[:size], NODES[:size], edges=edges)
    simple = nx.Graph([(a, b) for a, b in edges if a != b])
    simple.add_nodes_from(NODES[:size])
    oracle = sorted(oracle)
    (credit,) = topological_credit(graph, [retrieved], oracle)
    assert credit == pytest.approx(literal_credit(simple, retrieved, oracle), abs=1e-12)


@settings(max_examples=80)
@given(graphs())
def test_corollary_1(case):
    size, edges, retrieved, oracle = case
    graph = CorpusGraph(NODES[:size], NODES[:size], edges=edges)
    oracle = sorted(oracle)
    (credit,) = topological_credit(graph, [retrieved], oracle)
    whole = sum(credit) / len(credit)
    missed = sum(part for part in credit if part < 1) / len(credit)
    assert whole == pytest.approx(recall(list(retrieved), oracle) + missed, abs=1e-12)
    assert 0 <= whole <= 1
