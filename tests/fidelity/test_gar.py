"""GAR against the published code itself (pyterrier-adaptive) and its worked cases: batches as well as output."""

import random
import sys
import types

import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Pipeline, VectorSearch
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.models import PairScorer
from graph_retrievers.systems.gar import GAR, AdaptiveReranking
from tests.rankings import Ranking, ranked


def run(ids, edges, initial, scores, budget, batch, queries=1):
    """Return (batches, output ids, output scores) of each query; `initial` is a list of (id, score) in pool order."""
    graph = CorpusGraph(ids, ids, edges=edges)
    batches = [[] for _ in range(queries)]

    def scored(pairs):
        for query in dict.fromkeys(query for query, _ in pairs):
            batches[int(query[1:])].append([text for asked, text in pairs if asked == query])
        return [scores[text] for _, text in pairs]

    index = GraphIndex(graph, relevance=PairScorer(scored))
    rows = torch.tensor([[graph.row(i) for i, _ in initial]] * queries).reshape(queries, len(initial))
    values = torch.tensor([[s for _, s in initial]] * queries, dtype=torch.float32).reshape(queries, len(initial))
    operator = AdaptiveReranking(budget, batch)
    result = ranked(operator, Queries.of(index, [f"q{b}" for b in range(queries)]), Ranking.of(rows, values, "first"))
    output = []
    for b in range(queries):
        real = result.nodes[b] >= 0
        output.append((batches[b], [ids[n] for n in result.nodes[b][real]], result.scores[b][real].tolist()))
    return output


WORKED_INITIAL = [("a", 10), ("b", 9), ("c", 8), ("d", 7)]
WORKED_SCORES = {"a": 0.2, "b": 0.9, "c": 0.4, "d": 0.1, "x": 0.95, "y": 0.3, "z": 0.8, "w": 0.6}
WORKED_DIRECTED = {"a": "y", "b": "xz", "x": "w", "z": "wc", "c": "d"}
WORKED_EDGES = [(s, t) for s, ts in WORKED_DIRECTED.items() for t in ts]


@pytest.mark.parametrize(
    ("budget", "batches"),
    [(6, ["ab", "xz", "cd"]), (8, ["ab", "xz", "cd", "wy"])],
)
def test_worked_case(budget, batches):
    # In the worked case edges are directed, yet every backward neighbour is scored by the time it would count.
    [(drawn, ids, scores)] = run(list("abcdxyzw"), WORKED_EDGES, WORKED_INITIAL, WORKED_SCORES, budget, 2)
    assert ["".join(b) for b in drawn] == batches
    if budget == 6:
        assert ids == list("xbzcad")
        assert scores == pytest.approx([0.95, 0.9, 0.8, 0.4, 0.2, 0.1])


@pytest.mark.parametrize("first", [[0.5], [0.1], [0.5, 0.1], [0.1, 0.5]])
def test_while_as_many_wait_as_are_left_only_nodes_that_score_enough_for_their_question_expand(first):
    # f, g and h wait by the score of a. When f is scored, g and h wait for the two places left: v enters by f only if a scored no
    # more, else by b, after w.
    ids, scores = list("afghbwv"), {**dict.fromkeys("fghwv", 0.4), "b": 0.9}
    graph = CorpusGraph(ids, ids, edges=[("a", "f"), ("a", "g"), ("a", "h"), ("f", "v"), ("b", "w"), ("b", "v")])
    relevance = PairScorer(lambda pairs: [scores.get(text, float(query)) for query, text in pairs])
    index = GraphIndex.from_graph(graph, vectors=[[{"a": 2, "b": 1}.get(i, 0)] for i in ids], bm25=False, relevance=relevance)
    retriever = Retriever(index, Pipeline(VectorSearch(2), AdaptiveReranking(4, 1)))
    found = retriever.retrieve_batch([str(score) for score in first], 4, vectors=[[1.0]] * len(first))
    assert [{hit.id for hit in hits} for hits in found] == [{"a", "f", "b", "w" if score > 0.4 else "v"} for score in first]


def test_a_node_that_waits_already_takes_no_other_place():
    # Of c and d, c leads to u, which waits already by the score of a: there is room for v, to which d leads.
    scores = {**dict.fromkeys("bxyuv", 0.2), "a": 0.5, "c": 0.9, "d": 0.3}
    edges = [("a", "x"), ("a", "y"), ("a", "u"), ("c", "u"), ("d", "v")]
    initial = [("a", 4), ("b", 3), ("c", 2), ("d", 1)]
    [(drawn, *_)] = run(list("abcdxyuv"), edges, initial, scores, 8, 2)
    assert ["".join(batch) for batch in drawn] == ["ab", "xy", "cd", "uv"]


def published():
    """Load gar.py of pyterrier-adaptive with the two packages it would import, but does not need here, left out."""
    pd = pytest.importorskip("pandas")
    import importlib.util

    class Transformer:
        def __init__(self, *args, **kwargs):
            pass

    stub = types.ModuleType("pyterrier")
    stub.Transformer = Transformer
    stub.validate = types.SimpleNamespace(result_frame=lambda *a, **k: None, columns=lambda *a, **k: None)
    logger = types.SimpleNamespace(pbar=lambda it, **k: it)
    data = types.ModuleType("ir_datasets")
    data.log = types.SimpleNamespace(easy=lambda: logger)
    package = types.ModuleType("pyterrier_adaptive")
    package.CorpusGraph = object
    kept = {name: sys.modules.get(name) for name in ("pyterrier", "ir_datasets", "pyterrier_adaptive")}
    spec = importlib.util.find_spec("pyterrier_adaptive")
    assert spec is not None and spec.submodule_search_locations
    source = f"{spec.submodule_search_locations[0]}/gar.py"
    sys.modules.update({"pyterrier": stub, "ir_datasets": data, "pyterrier_adaptive": package})
    try:
        module_spec = importlib.util.spec_from_file_location("published_gar", source)
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
    finally:
        for name, value in kept.items():
            if value is None:
                del sys.modules[name]
            else:
                sys.modules[name] = value
    return module.GAR, pd


@pytest.mark.slow
def test_same_batches_and_output_as_the_published_code_on_400_random_cases_with_ties():
    make, pd = published()
    rng = random.Random(7)
    for _ in range(400):
        size = rng.randint(1, 24)
        ids = [f"d{i:02d}" for i in range(size)]
        rng.shuffle(ids)
        edges = [(rng.choice(ids), rng.choice(ids)) for _ in range(rng.randint(0, 3 * size))]
        scores = {i: rng.randint(0, 4) / 4 for i in ids}
        pool = rng.sample(ids, rng.randint(0, size))
        initial = sorted(((i, float(rng.randint(0, 3))) for i in pool), key=lambda pair: -pair[1])
        budget, batch = rng.randint(1, 20), rng.randint(1, 5)
        adjacent = {i: [] for i in ids}
        for a, b in edges:
            if a != b and b not in adjacent[a]:
                adjacent[a].append(b)
                adjacent[b].append(a)
        for near in adjacent.values():
            near.sort(key=ids.index)
        drawn = []

        def scorer(frame, drawn=drawn, scores=scores):
            drawn.append(list(frame.docno))
            return frame.assign(score=[scores[d] for d in frame.docno])

        corpus_graph = types.SimpleNamespace(neighbours=lambda d, adjacent=adjacent: adjacent[d])
        mine = run(ids, edges, initial, scores, budget, batch, queries=2)
        if not initial:
            assert mine[0] == ([], [], [])
            continue
        reference = make(scorer, corpus_graph, num_results=budget, batch_size=batch)
        frame = pd.DataFrame({"qid": "1", "query": "q", "docno": [i for i, _ in initial], "score": [s for _, s in initial]})
        output = reference.transform(frame)
        for batches, got_ids, got_scores in mine:
            assert batches == drawn
            assert got_ids == list(output.docno)
            assert got_scores == pytest.approx(list(output.score))


@pytest.mark.parametrize("seed", range(40))
def test_the_path_to_a_node_comes_from_the_best_of_the_neighbours_scored_before_it(seed):
    rng = random.Random(seed)
    ids = [f"d{i:02d}" for i in rng.sample(range(24), 24)]
    edges = [tuple(rng.sample(ids, 2)) for _ in range(40)]
    scores = {i: rng.randint(0, 4) / 4 for i in ids}
    graph, batches = CorpusGraph(ids, ids, edges=edges), []

    class Shown(PairScorer):
        paths = True

    def scored(pairs):
        batches.append([text.split("\n") for _, text in pairs])
        return [scores[text[0]] for text in batches[-1]]

    # Budget is left for all that waits, so that every neighbour of a scored node enters the frontier.
    first = Ranking.of(torch.tensor([[graph.row(i) for i in ids[:3]]]), torch.tensor([[3.0, 2.0, 1.0]]), "first")
    queries = Queries.of(GraphIndex(graph, relevance=Shown(scored)), ["q"])
    found = ranked(AdaptiveReranking(100, rng.randint(1, 4)), queries, first)
    trails = {ids[trail[-1]]: [ids[row] for row in trail if row >= 0] for trail in found.trails[0].tolist()}
    adjacent = {(a, b) for a, b in edges} | {(b, a) for a, b in edges}
    drawn = {text[0]: number for number, batch in enumerate(batches) for text in batch}
    shown = {text[0]: text[1:] for batch in batches for text in batch}
    reached = [i for i, trail in trails.items() if len(trail) > 1]
    assert len(reached) > 3 and set(trails) - set(reached) <= set(ids[:3])
    for i in reached:
        before = [j for j in ids if (i, j) in adjacent and drawn.get(j, 100) < drawn[i]]
        # Of equal scores that of the earlier batch, then that of the higher id, as the published code has it.
        parent = sorted(before, reverse=True)
        parent = min(parent, key=lambda j: (-scores[j], drawn[j]))
        assert trails[i] == [*trails[parent], i]
        assert {f"{parent} -> {i}", f"{parent} <- {i}"} & set(shown[i]), "the model reads the step"


def test_scores_that_differ_by_rounding_are_equal():
    # Of a and b the higher id comes first, and its neighbour takes the last place.
    scores = {"a": 0.50000006, "b": 0.5, "x": 0.1, "y": 0.1}
    [(drawn, *_)] = run(list("abxy"), [("a", "x"), ("b", "y")], [("a", 2), ("b", 1)], scores, 3, 2)
    assert ["".join(batch) for batch in drawn] == ["ab", "y"]


def test_what_the_model_has_to_tell_of_its_scores_is_a_note():
    class Telling(PairScorer):
        listwise = True

        def encode_lists(self, lists):
            return [(self.encode([query] * len(texts), texts), f"read {len(texts)}") for query, texts in lists]

    graph = CorpusGraph(["a", "b"], ["a", "b"], edges=[("a", "b")])
    queries = Queries.of(GraphIndex(graph, relevance=Telling(lambda pairs: [1.0] * len(pairs))), ["q"])
    found = ranked(AdaptiveReranking(2, 1), queries, Ranking.of(torch.tensor([[0]]), torch.ones(1, 1), "first"))
    assert found.notes == (("read 1",),)


def test_gar_as_a_retriever_shows_how_each_hit_was_reached():
    ids = list("abcdxyzw")
    graph = CorpusGraph(ids, ids, edges=WORKED_EDGES)
    relevance = PairScorer(lambda pairs: [WORKED_SCORES[t] for _, t in pairs])
    vectors = [[dict(WORKED_INITIAL).get(i, 0.0)] for i in ids]
    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=False, relevance=relevance)
    hits = Retriever(index, GAR(budget=6, nodes_per_round=2), k=3).retrieve("question", vector=[1.0])
    assert [h.id for h in hits] == ["x", "b", "z"]
    assert hits[0].path.nodes == ("b", "x") and hits[0].operator == "AdaptiveReranking"
    assert Retriever(index, GAR()).operator.formula() == "O_vs -> (O_vs, O_gs, O_m)*"
    # c and d are taken from the first ranking, though neighbours led to them meanwhile.
    paths = {
        hit.id: hit.path.nodes for hit in Retriever(index, GAR(budget=6, nodes_per_round=2)).retrieve("question", vector=[1.0])
    }
    assert {node: paths[node] for node in "abcdxz"} == {**{node: (node,) for node in "abcd"}, "x": ("b", "x"), "z": ("b", "z")}
