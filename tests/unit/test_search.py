"""The room of requests, driver, backend in memory and candidates, against plain Python."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, Pipeline, ReciprocalRankFusion, Retriever
from graph_retrievers.core.candidates import LONGEST_TRAIL, Candidates, best, followed, found_by, order, reached, stacked
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.compositions import Loop
from graph_retrievers.core.driver import Named, Parallel, run
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import (
    Degree,
    EdgesAmong,
    Mentions,
    Mix,
    Nearest,
    NearestByCosine,
    Neighbors,
    Pairs,
    Relevance,
    Request,
    Scores,
    Similarity,
    Steps,
    Texts,
    Titled,
    Vectors,
    Weights,
    WithQuery,
    inner_request,
)
from graph_retrievers.core.trace import RECORD
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.ragged import descending
from graph_retrievers.operators import BM25Search, GatedPropagation, GRanker, HybridSearch, OperatorKind, Rerank, STeX, VectorSearch
from graph_retrievers.search.backend import smoothed
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.serve.recording import recorded
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.systems.lightrag.keywords import changed
from tests.rankings import Ranking, lists_of, ranked, ranking_of
from tests.references.fastinsight import neighbours


class Word(Request):
    """A request that a list of answers answers, and which records the calls."""

    calls = []

    def __init__(self, word):
        self.word = word

    @classmethod
    def together(cls, backend, asked):
        Word.calls.append([(place, request.word) for place, request in asked])
        return [backend[request.word] for _, request in asked]


class Other(Word):
    pass


def test_requests_of_one_kind_of_all_questions_are_one_call_a_step():
    backend = {word: word.upper() for word in "abcdef"}

    def inner(word):
        return (yield Word(word)) + (yield Word(word))

    def long(first):
        left, right = yield Word(first), Other("b")
        twice = yield from inner("c")
        return left + right + twice

    def short():
        return (yield Word("d"))

    def nothing():
        return "nothing"
        yield

    Word.calls.clear()
    trace = []
    assert run(backend, [long("a"), short(), nothing(), long("e")], trace) == ["ABCC", "D", "nothing", "EBCC"]
    assert Word.calls == [[(0, "a"), (1, "d"), (3, "e")], [(0, "b"), (3, "b")], [(0, "c"), (3, "c")], [(0, "c"), (3, "c")]]
    assert [(asked.step, asked.request, asked.questions) for asked in trace] == [
        (1, Word, 3),
        (1, Other, 2),
        (2, Word, 2),
        (3, Word, 2),
    ]
    assert all(asked.seconds >= 0 for asked in trace)


def test_what_is_costly_is_asked_once_for_all_who_come_to_it_sooner_or_later():
    class Dear(Word):
        costly = True

    def algorithm(words, last):
        for word in words:
            yield Word(word)
        return (yield (Dear("d"), Word("e"))) + ((yield Word(last)),)

    Word.calls.clear()
    backend = {word: word.upper() for word in "abcdef"}
    assert run(backend, [algorithm("abc", "f"), algorithm("", "a"), algorithm("a", "b")]) == [tuple("DE" + last) for last in "FAB"]
    assert Word.calls == [
        [(0, "a"), (2, "a")],
        [(0, "b")],
        [(0, "c")],
        [(0, "d"), (1, "d"), (2, "d")],
        [(0, "e"), (1, "e"), (2, "e")],
        [(0, "f"), (1, "a"), (2, "b")],
    ]


def test_an_answer_is_sent_as_it_was_asked():
    def asks():
        alone = yield Word("a")
        (packed,) = yield (Word("a"),)
        return alone, packed

    assert run({"a": 1}, [asks()]) == [(1, 1)]
    assert run({}, []) == []


def test_a_backend_that_gives_too_few_answers_is_not_believed():
    class Short(Request):
        @classmethod
        def together(cls, backend, asked):
            return [1]

    def asks():
        return (yield Short())

    with pytest.raises(InvalidArgumentError, match=r"Short was answered with \[1\] where 2 asked"):
        run(None, [asks(), asks()])


def test_any_number_of_algorithms_that_ask_for_nothing_run_one_after_another():
    def nothing():
        return 1
        yield

    def many():
        total = 0
        for _ in range(5000):
            total += yield Named("nothing", nothing())
        (both,) = yield Parallel([many_beside()])
        return total + both

    def many_beside():
        total = 0
        for _ in range(5000):
            total += sum((yield Parallel([nothing(), nothing()])))
        return total

    assert run({}, [many(), many()]) == [15_000] * 2


def test_answers_of_algorithms_side_by_side_are_in_their_order():
    def asks(words):
        found = ""
        for word in words:
            found += yield Word(word)
        return found

    def both():
        return (yield Parallel([asks("ab"), asks(""), asks("c")]))

    assert run({"a": "A", "b": "B", "c": "C"}, [both()]) == [["AB", "", "C"]]


SCORES = st.lists(
    st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf")]),
        st.floats(-2, 2, width=32),
        st.integers(0, 40).map(lambda n: float(np.float32(1 + n * 3e-7))),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=400)
@given(SCORES, st.integers(1, 20))
def test_the_order_is_that_of_the_tensors(scores, k):
    values = np.array(scores, np.float32)
    expected = descending(torch.from_numpy(values)).numpy() if len(values) else np.zeros(0, np.int64)
    assert order(values).tolist() == expected.tolist()
    assert best(values, k).tolist() == expected[:k].tolist()
    rows = np.random.default_rng(len(scores)).permutation(len(scores))
    turn = np.argsort(rows)
    by_row = turn[descending(torch.from_numpy(values[turn])).numpy()] if len(values) else expected
    assert order(values, rows).tolist() == by_row.tolist()
    assert best(values, k, rows).tolist() == by_row[:k].tolist()


def test_counts_are_ordered_as_other_numbers_are():
    assert order(np.array([1, 3, 0, 2], np.uint8)).tolist() == [1, 3, 0, 2]
    assert some().rescored(np.array([0, 200], np.uint8)).nodes.tolist() == [2, 4]


def test_the_best_of_many_equal_scores_are_those_of_the_lowest_rows():
    rows = np.random.default_rng(0).permutation(1000)
    assert sorted(rows[best(np.ones(1000), 10, rows)]) == list(range(10))
    assert rows[best(np.ones(1000) + 1e-9 * rows, 3, rows)].tolist() == [0, 1, 2]


def test_scores_just_as_far_apart_as_the_tolerance_are_equal_and_a_run_ends_behind_them():
    assert order(np.array([1 - 1.2e-6, 1 - 1e-6, 1 - 0.5e-6, 1.0])).tolist() == [1, 2, 3, 0]
    assert best(np.array([1.0] + 9 * [float("inf")]), 2).tolist() == [1, 2], "infinite scores are the best"


def test_trails_follow_parents_and_keep_their_last_nodes():
    line = np.arange(50)
    trails = followed(line, line - 1)
    assert trails.shape == (50, LONGEST_TRAIL) and trails[49].tolist() == list(range(18, 50)) and trails[1, -2:].tolist() == [0, 1]
    assert followed(np.array([7, 3]), np.array([9, 7])).tolist() == [[-1, 9, 7], [9, 7, 3]]


def some():
    return Candidates.seeds(np.array([4, 2]), np.array([0.9, 0.4]), "First")


def test_candidates_know_who_found_them():
    found = found_by("Mine", some(), np.array([2, 7, 4]), np.array([3.0, 2.0, 1.0]), np.array([-1, 2, 7]))
    assert [found.operators[n] for n in found.origins] == ["First", "Mine", "Mine"]
    assert found.trails.tolist() == [[-1, -1, 2], [-1, 2, 7], [2, 7, 4]]
    new = found_by("Mine", some(), np.array([7, 2]), np.ones(2), np.array([-1, -1]))
    assert [new.operators[n] for n in new.origins] == ["Mine", "First"], "a seed that nobody had found before"
    step = reached(some(), np.array([1]), np.array([9]), np.array([1.0]), "Mine")
    assert step.trails.tolist() == [[2, 9]] and step.operators == ("First", "Mine") and step.origins.tolist() == [1]
    assert reached(step, np.array([0]), np.array([5]), np.array([0.5]), "Mine").operators == ("First", "Mine"), "each once"
    again = reached(some(), np.array([0, 0, 1]), np.array([2, 9, 9]), np.array([0.3, 0.2, 0.1]), "Mine")
    joined = some().joined(again)
    assert joined.nodes.tolist() == [4, 2, 9] and joined.trails[2].tolist() == [4, 9], "each node once, the first path of each"
    # Operators that the two do not begin alike.
    own = Candidates(np.array([2, 7, 1]), np.ones(3), np.array([[2], [7], [1]]), np.array([0, 1, 0]), ("Other", "First"))
    behind = step.joined(own)
    assert behind.nodes.tolist() == [9, 2, 7, 1] and behind.operators == ("First", "Mine", "Other")
    assert [behind.operators[n] for n in behind.origins] == ["Mine", "Other", "First", "Other"]
    table = ranking_of([step, own], torch.device("cpu"))
    assert [[table.operators[n] for n in row if n >= 0] for row in table.origins] == [["Mine"], ["Other", "First", "Other"]]
    alike = some().joined(step).joined(replace(own, nodes=own.nodes + 10, trails=own.trails + 10, operators=("First", "Other")))
    assert [alike.operators[n] for n in alike.origins] == ["First", "First", "Mine", "First", "Other", "First"]
    far = stacked(step, np.array([0, 0]), [[5, 6], []], np.array([1.0, 0.5]), "Walk")
    assert far.trails.tolist() == [[2, 9, 5, 6], [-1, -1, 2, 9]] and far.nodes.tolist() == [6, 9]
    assert [far.operators[n] for n in far.origins] == ["Walk", "Mine"]


def test_candidates_come_from_a_ranking_and_go_back_to_it():
    ranking = Ranking.of(
        torch.tensor([[4, 2, 1], [3, -1, -1]]),
        torch.tensor([[0.9, 0.4, 0.1], [0.5, 0.0, 0.0]]),
        "Mine",
        torch.tensor([[[-1, 4], [4, 2], [-1, 1]], [[-1, 3], [-1, -1], [-1, -1]]]),
        relations=torch.tensor([[[-1], [0], [-1]], [[-1], [-1], [-1]]]),
        ranks=torch.tensor([[[1, 0], [2, 1], [0, 2]], [[1, 1], [0, 0], [0, 0]]]),
        lists=("a", "b"),
        seed_scores=torch.tensor([[0.9, 0.9, float("nan")], [0.5, float("nan"), float("nan")]]),
    )
    found = lists_of(ranking)
    back = ranking_of(found, torch.device("cpu"))
    for name in ("nodes", "scores", "trails", "relations", "origins", "ranks"):
        assert torch.equal(getattr(back, name), getattr(ranking, name)), name
    assert back.operators == ranking.operators and back.lists == ("a", "b")
    assert torch.equal(back.seed_scores.nan_to_num(-1), ranking.seed_scores.nan_to_num(-1))
    longer = found[1].joined(reached(found[1], np.array([0]), np.array([8]), np.array([0.2]), "Step"))
    both = ranking_of([found[0], longer], torch.device("cpu"))
    assert both.trails[1].tolist() == [[-1, -1, 3], [-1, 3, 8], [-1, -1, -1]] and both.operators == ("Mine", "Step")
    assert both.ranks[1].tolist() == [[1, 1], [0, 0], [0, 0]] and both.relations[0].tolist() == [[-1, -1], [-1, 0], [-1, -1]]
    onward = reached(found[0], np.array([1]), np.array([7]), np.array([0.1]), "Step")
    assert onward.trails.tolist() == [[4, 2, 7]] and onward.relations.tolist() == [[0, -1]], "who reaches a node tells no relation"
    again = found[0].rescored(np.array([1.0, 3.0, 1.0 + 1e-9]))
    assert again.nodes.tolist() == [2, 4, 1] and again.scores.tolist() == [3, 1, 1], "no rise by rounding"
    assert ranking_of([], torch.device("cpu")).nodes.shape == (0, 0)


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 12))
    end = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(end, end, st.sampled_from([0.5, 1.0, 2.0])), max_size=3 * size))
    asked = draw(st.lists(end, unique=True, max_size=size))
    return size, edges, np.array(asked, np.int64), draw(st.lists(st.booleans(), min_size=size, max_size=size))


def index_of(size, edges):
    from graph_retrievers import Edge

    vectors = np.random.default_rng(size).normal(size=(size, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[size // 2] = 0
    rows = [Edge(str(a), str(b), weight=weight) for a, b, weight in edges]
    texts = [f"text {row}" for row in range(size)]
    return GraphIndex.from_texts(texts, edges=rows, vectors=vectors, relevance=lambda pairs: [len(q) + len(t) for q, t in pairs])


@settings(max_examples=150)
@given(graphs(), st.integers(0, 100))
def test_the_answers_of_memory_are_those_of_plain_python(case, hubs):
    size, edges, nodes, walkable = case
    index = index_of(size, edges)
    walk = torch.tensor(walkable)
    queries = Queries.of(index, ["one", "three"], vectors=[[1.0, 0, 0, 0], [0, 2.0, 1.0, 0]], traversal_filter=walk)
    memory, adjacent = MemoryBackend(queries), neighbours([(a, b) for a, b, _ in edges])
    parallel = {row: sorted(b + a - row for a, b, _ in edges if a != b and row in (a, b)) for row in range(size)}
    for request, lists in ((Neighbors(nodes), adjacent), (Neighbors(nodes, parallel=True), parallel)):
        near = memory.neighbors([(0, request), (1, request)])[1]
        expected = [(place, n) for place, row in enumerate(nodes) for n in sorted(lists.get(row, ())) if walkable[n]]
        if request.parallel:
            loops = [(place, row) for place, row in enumerate(nodes) for a, b, _ in edges if a == b == row and walkable[row]]
            expected = sorted(expected + loops)
        assert list(zip(near.owner.tolist(), near.node.tolist(), strict=True)) == expected
    assert memory.degree([(0, Degree(nodes))])[0].tolist() == [len(adjacent.get(row, ())) for row in nodes]
    place = {row: at for at, row in enumerate(nodes.tolist())}
    links = memory.links([(0, EdgesAmong(nodes))])[0]
    pairs = [(at, place[n]) for row, at in place.items() for n in sorted(adjacent.get(row, ())) if n in place]
    assert list(zip(links.owner.tolist(), links.node.tolist(), strict=True)) == pairs
    rows = memory.links([(0, EdgesAmong(nodes, parallel=True))])[0]
    several = [(at, place[n]) for row, at in place.items() for n in parallel[row] if n in place]
    assert list(zip(rows.owner.tolist(), rows.node.tolist(), strict=True)) == several
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graph_retrievers.search.memory._HUBS", hubs / 10)
        weights, strength = memory.weights([(1, Weights(nodes))])[0]
    heaviest = {}
    for a, b, weight in edges:
        if a != b:
            for key in ((a, b), (b, a)):
                heaviest[key] = max(weight, heaviest.get(key, 0))
    assert weights.tolist() == [[heaviest.get((a, b), 0) for b in nodes] for a in nodes]
    assert strength.tolist() == [sum(w for (a, _), w in heaviest.items() if a == row) for row in nodes]


@pytest.mark.parametrize("large", [1, 1 << 16])
def test_scores_of_nodes_are_the_same_from_a_table_and_alone(monkeypatch, large):
    monkeypatch.setattr("graph_retrievers.search.queries._LARGE", large)
    index, nodes = index_of(9, []), np.array([8, 0, 4, 3])
    asked = torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 1.0, 0]])
    memory = MemoryBackend(Queries.of(index, ["one", "three"], vectors=asked))
    vectors = index.dense.vectors.double()
    dots = (vectors @ asked.double().T).T
    lengths = vectors.norm(dim=1) * asked.double().norm(dim=1, keepdim=True)
    cosines = torch.where(lengths > 0, dots / lengths, 0.0)
    both = [(1, nodes), (0, nodes[:2])]
    for found, expected in (
        (memory.similarity([(b, Similarity(rows)) for b, rows in both]), cosines),
        (memory.scores([(b, Scores(rows)) for b, rows in both]), dots),
    ):
        for (b, rows), values in zip(both, found, strict=True):
            assert values == pytest.approx(expected[b][rows].numpy(), abs=1e-6)
    units = memory.vectors([(0, Vectors(nodes))])[0]
    assert np.linalg.norm(units, axis=1) == pytest.approx([1, 1, 0, 1])
    twice = memory.pairs([(b, Pairs(lambda queries, b, v: 10 * b + v, rows)) for b, rows in both][:1])
    assert twice[0].tolist() == [18, 10, 14, 13]


def test_searches_keep_to_what_may_start_and_what_may_be_returned():
    index = index_of(9, [])
    queries = Queries.of(
        index, ["one"], vectors=[[1.0, 0, 0, 0]], filter={"$id": {"$in": ["1", "2"]}}, seed_filter={"$id": {"$ne": "2"}}
    )
    for returned, allowed in ((False, {0, 1, 3, 4, 5, 6, 7, 8}), (True, {1})):
        nodes, scores = MemoryBackend(queries).nearest([(0, Nearest(9, returned=returned))])[0]
        assert set(nodes.tolist()) == allowed and all(a >= b for a, b in zip(scores, scores[1:], strict=False))
    question, rows = Question(MemoryBackend(queries), 0), np.array([0, 1, 2])
    assert question.started(rows).tolist() == [True, True, False] and question.returned(rows).tolist() == [False, True, True]
    assert question.walked(rows).all()
    few, more = MemoryBackend(queries).nearest([(0, Nearest(2)), (0, Nearest(3))])
    assert few[0].tolist() == more[0].tolist()[:2] and len(more[0]) == 3


def test_the_closest_nodes_are_those_that_may_start_whatever_the_lengths_of_vectors():
    vectors = [[3.0, 0.0], [0.0, 0.1], [1.0, 1.0], [0.0, 0.0], [-2.0, 0.0], [0.2, 0.1]]
    units = 1 / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    for scale in (1, units, 1.05 * units):
        index = GraphIndex.from_texts([f"text {row}" for row in range(6)], vectors=np.array(vectors) * scale)
        queries = Queries.of(index, ["one"], vectors=[[2.0, 0.0]], seed_filter={"$id": {"$nin": ["0", "2"]}})
        nodes, cosines = MemoryBackend(queries).closest([(0, NearestByCosine(6))])[0]
        assert nodes.tolist() == [5, 1, 4] and cosines == pytest.approx([2 / 5**0.5, 0, -1], abs=1e-6)


def test_relevance_is_read_once_a_pair_and_smoothed_where_a_row_is_not_zero():
    index, nodes = index_of(4, []), np.array([2, 0])
    queries = Queries.of(index, ["one", "three"], vectors=torch.eye(4)[:2])
    memory = MemoryBackend(queries)
    plain = memory.relevance([(0, Relevance(nodes)), (1, Relevance(nodes))])
    assert [part.tolist() for part in plain] == [[9.0, 9.0], [11.0, 11.0]] and queries.latents.encoded == 4
    told = memory.relevance([(1, Relevance(nodes, texts=["a", "abc"]))])[0]
    assert told.tolist() == [6.0, 8.0] and queries.latents.encoded == 6
    mix = np.array([[0, 1], [0, 0]], np.float32)
    mixed = memory.relevance([(1, Relevance(nodes, mix, 0.5, ["a", "abc"]))])[0]
    assert mixed.tolist() == [7.0, 8.0] and queries.latents.encoded == 6
    other = as_relevance_model(lambda pairs: [1.0 for _ in pairs])
    assert memory.relevance([(1, Relevance(nodes, model=other))])[0].tolist() == [1.0, 1.0] and queries.latents.encoded == 8
    latents = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert smoothed(latents, Mix.of(mix), 0.25).tolist() == [[1.5, 2.5], [3.0, 4.0]]
    assert memory.relevance([(1, Relevance(nodes, Mix.of(mix), 0.5, ["a", "abc"]))])[0].tolist() == [7.0, 8.0]


class Neighborhood(Operator):
    """The neighbours of the best node, with a note."""

    kind = OperatorKind.GRAPH_SEARCH

    def search(self, question, candidates):
        near = yield Neighbors(candidates.nodes[:1])
        question.notes.append(f"{len(near.node)} neighbours")
        return candidates.joined(reached(candidates, near.owner, near.node, np.zeros(len(near.node)), self.name))


def test_an_operator_of_ten_lines_runs_alone_in_batches_and_between_others():
    texts = ["a loom", "a card", "a mill", "a valve"]
    index = GraphIndex.from_texts(texts, edges=[("0", "2"), ("0", "3"), ("1", "2")], vectors=torch.eye(4))
    for search in (Pipeline(BM25Search(1), Neighborhood()), Pipeline(VectorSearch(1), Neighborhood())):
        retriever = Retriever(index, search, backfill=False)
        loom, card = retriever.retrieve_batch(["loom", "card"], vectors=torch.eye(4)[:2], k=4)
        assert [hit.path.text for hit in loom] == ["0", "0 -> 2", "0 -> 3"] and loom.notes == ("2 neighbours",)
        assert [hit.path.text for hit in card] == ["1", "1 -> 2"] and card.notes == ("1 neighbours",)
        assert retriever.retrieve("card", vector=torch.eye(4)[1]) == card
    assert Pipeline(search, Neighborhood()).formula() == "O_vs -> O_gs -> O_gs"


def test_operators_called_one_after_another_give_what_their_pipeline_gives():
    class Best(Operator):
        kind = OperatorKind.MODEL_SEARCH
        k = 2

        def search(self, question, candidates):
            return candidates

    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "2"), ("1", "2")])
    parts = [BM25Search(1), Neighborhood(), GatedPropagation(gate="uniform", steps=1), Best()]
    queries = Queries.of(index, ["loom", "card"])
    found, whole = None, ranked(Pipeline(*parts), queries)
    for part in parts:
        found = ranked(part, queries, found)
    assert found.notes == whole.notes == (("1 neighbours",), ("1 neighbours",))
    assert found.touched.tolist() == whole.touched.tolist() == [2, 2]
    for name in ("nodes", "scores", "trails", "origins"):
        assert torch.equal(getattr(found, name), getattr(whole, name)), name


def test_chains_and_facts_pass_operators_that_have_none_and_are_joined_by_a_fusion():
    class Told(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def __init__(self, paths, facts):
            self.paths, self.facts = np.array(paths), np.array(facts)

        def search(self, question, candidates):
            yield from ()
            scores = np.arange(len(self.paths), 0, -1.0)
            facts = Facts(self.facts, np.ones(len(self.facts)), self.name)
            return replace(candidates, chains=Chains(self.paths, scores, self.name), facts=facts)

    class Silent(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            yield from ()
            return Candidates.seeds(candidates.nodes, candidates.scores, self.name)

    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("1", "2"), ("0", "2")])
    one = Pipeline(BM25Search(1), Told([[0, 1]], [0]), Silent())
    both = ReciprocalRankFusion(one, Pipeline(BM25Search(1), Told([[0, 1, 2], [0, 1, -1]], [2, 0])))
    found = ranked(both, Queries.of(index, ["loom", "card"]))
    assert found.chains.nodes.tolist() == [[[0, 1, -1], [0, 1, 2]]] * 2
    assert found.chains.scores.tolist() == [[1.0, 2.0]] * 2 and found.facts.rows.tolist() == [[0, 2]] * 2
    assert ranked(one, Queries.of(index, ["loom"])).chains.nodes.tolist() == [[[0, 1]]]
    assert ranked(Silent(), Queries.of(index, ["loom"]), ranked(one, Queries.of(index, ["loom"]))).facts.rows.tolist() == [[0]]


def test_the_trace_tells_which_operator_asked_what_for_how_many_questions():
    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("1", "2")], vectors=np.eye(3))
    retriever = Retriever(index, Pipeline(BM25Search(1), GatedPropagation(gate="uniform", steps=1), GRanker()))
    one, two = retriever.retrieve_batch(["loom", "card"], vectors=np.eye(3)[:2])
    assert one.trace is two.trace and one[:1].trace is one.trace
    told = [(asked.step, asked.request.__name__, asked.operators, asked.questions, asked.nodes) for asked in one.trace]
    assert told == [
        (1, "Nearest", ("BM25Search",), 2, 2),
        (2, "Degree", ("GatedPropagation",), 2, 2),
        (2, "Neighbors", ("GatedPropagation",), 2, 2),
        (3, "EdgesAmong", ("GRanker",), 2, 5),
        (3, "Degree", ("GRanker",), 2, 5),
        (4, "Relevance", ("GRanker",), 2, 5),
        (5, "Nearest", ("Backfill",), 2, 6),
    ]
    assert all(asked.seconds >= 0 for asked in one.trace)
    lines = str(one.trace).splitlines()
    assert lines[0].split() == ["step", "operator", "asked", "questions", "nodes", "ms"] and len(lines) == 8
    assert lines[3].split()[:5] == ["2", "GatedPropagation", "Neighbors", "2", "2"]


def test_the_trace_tells_what_runs_side_by_side_inside_an_operator_by_its_name():
    class Twice(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            yield Parallel([self.near(candidates.nodes), self.near(candidates.nodes)])
            return candidates

        def near(self, nodes):
            yield Neighbors(nodes)

    index = GraphIndex.from_texts(["a loom", "a card"], edges=[("0", "1")])
    hits = Retriever(index, Pipeline(BM25Search(1), Twice()), backfill=False).retrieve("loom")
    assert [(asked.request, asked.operators, asked.nodes) for asked in hits.trace[1:]] == [(Neighbors, ("Twice",), 2)]


def test_the_trace_tells_operators_that_ask_side_by_side_in_one_call():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=np.eye(2))
    both = ReciprocalRankFusion(VectorSearch(2), Pipeline(HybridSearch(1), Rerank()))
    queries = Queries.of(index, ["loom"], vectors=np.eye(2)[:1])
    ranked(both, queries)
    assert [(asked.request, asked.operators) for asked in queries.trace] == [
        (Nearest, ("VectorSearch", "HybridSearch")),
        (Nearest, ("HybridSearch",)),
        (Relevance, ("Rerank",)),
    ]


def test_none_of_some_candidates_are_none_and_all_without_a_number():
    assert len(some().top(0)) == 0 and some().top(None).nodes.tolist() == some().top(9).nodes.tolist() == [4, 2]
    assert some().top(1).nodes.tolist() == [4]


def test_relations_of_steps_are_kept_beside_candidates_that_tell_none():
    told = Candidates.seeds(np.array([4]), np.array([0.9]), "First")
    told = replace(told, trails=np.array([[2, 4]]), relations=np.array([[1]]))
    bare = Candidates.seeds(np.array([7]), np.array([0.8]), "Second")
    for found, expected in ((told.joined(bare), [[1], [-1]]), (bare.joined(told), [[-1], [1]])):
        assert found.relations.tolist() == expected
        assert ranking_of([found], torch.device("cpu")).relations[0].tolist() == expected
    rankings = ranking_of([told, bare], torch.device("cpu"))
    assert rankings.relations.tolist() == [[[1]], [[-1]]] and bare.joined(bare).relations is None


def test_own_chains_and_facts_stand_in_the_place_of_those_before():
    def told(name, row):
        chains = Chains(np.array([[row]]), np.ones(1), name)
        return replace(some(), chains=chains, facts=Facts(np.array([row]), np.ones(1), name))

    after = told("Second", 1).after(told("First", 0))
    assert after.chains.operator == after.facts.operator == "Second"
    assert some().after(told("First", 0)).chains.operator == "First"
    assert some().after(replace(told("First", 0), facts=None)).chains.operator == "First"
    assert some().after(replace(told("First", 0), chains=None)).facts.operator == "First"
    assert told("Second", 1).after(some()).chains.operator == "Second"
    only = replace(told("Second", 1), facts=None).after(told("First", 0))
    assert (only.chains.operator, only.facts.operator) == ("Second", "First")


def test_trails_are_trimmed_to_their_nodes_and_to_the_last():
    line = np.arange(LONGEST_TRAIL + 8)
    found = replace(Candidates.seeds(line[-1:], np.ones(1), "A"), trails=line[None], relations=line[None, 1:])
    trimmed = found.trimmed()
    assert trimmed.trails.tolist() == [line[8:].tolist()] and trimmed.relations.tolist() == [line[9:].tolist()]
    assert trimmed.scores.dtype == np.float32
    table = ranking_of([found], torch.device("cpu"))
    assert table.trails[0].tolist() == trimmed.trails.tolist() and table.relations[0].tolist() == trimmed.relations.tolist()
    padded = replace(some(), trails=np.array([[-1, -1, 3, 4], [-1, -1, -1, 2]])).trimmed()
    assert padded.trails.tolist() == [[3, 4], [-1, 2]]


def test_the_trace_counts_questions_once_and_times_each_call_alone(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("graph_retrievers.core.driver.perf_counter", lambda: next(clock))

    def asks():
        yield Word("a"), Word("b"), Other("a")

    trace = []
    run({"a": "A", "b": "B"}, [asks(), asks()], trace)
    assert [(asked.request, asked.questions) for asked in trace] == [(Word, 2), (Other, 2)]
    assert [asked.seconds for asked in trace] == [1, 1], "the clock starts anew for each call"


def test_what_each_call_finds_is_recorded_in_the_order_of_questions():
    edges = [("0", "2"), ("0", "3"), ("1", "2", "r")]
    index = GraphIndex.from_texts(["a loom", "the loom", "a card", "a mill"], titles=["", "", "Card", ""], edges=edges)
    rows = np.array([1, 0])

    def asks(other):
        found, _ = yield Nearest(2, "bm25"), Mentions()
        yield Neighbors(rows) if other else Neighbors(rows[:1])
        yield Steps(rows, None, "r", 9)
        yield WithQuery(Scores(rows, "bm25"), "loom" if other else "card")
        yield Texts(rows)
        return found

    def recorded_of(texts):
        queries, trace = Queries.of(index, texts), []
        with recorded() as found:
            assert RECORD.get() is not None
            run(MemoryBackend(queries), [asks(place) for place in range(len(texts))], trace)
        assert RECORD.get() is None and [one.entry for one in found] == trace
        run(MemoryBackend(queries), [asks(0) for _ in texts], trace)
        assert len(found) < len(trace), "nothing is kept behind the block"
        assert all(type(inner_request(request)) is one.entry.request for one in found for request in one.requests)
        assert [len(one.requests) for one in found] == [len(texts)] * len(found)
        columns = [(one.nodes, one.scores, one.near) for one in found]
        told = [[None if part is None else part.tolist() for part in parts] for parts in columns]
        return [(one.entry.request, *parts) for one, parts in zip(found, told, strict=True)]

    nearest, mentions, neighbors, steps, scores, texts = recorded_of(["card", "loom"])
    assert nearest[:2] == (Nearest, [2, 0, 1]) and len(nearest[2]) == 3 and nearest[3] is None
    assert mentions == (Mentions, [2], None, None)
    assert neighbors == (Neighbors, [2, 2, 2, 3], None, [1, 1, 0, 0])
    assert steps == (Steps, [2, 2], None, [1, 1])
    assert scores[:2] == (Scores, [1, 0, 1, 0]) and scores[3] is None
    assert scores[2][:2] == [0.0, 0.0] and scores[2][2] == scores[2][3] == nearest[2][1]
    assert texts == (Texts, [], None, None)


@pytest.mark.parametrize(
    ("tells", "answer", "found"),
    [
        ("scores", (np.array([0.5, 0.2]), "beside"), ([3, 1], [0.5, 0.2], None)),
        ("edges", (np.array([1, 0, 0]), np.array([8, 7, 7]), np.array([2, 0, 4])), ([2, 0, 4], None, [1, 3, 3])),
        ("", "a text", ([], None, None)),
    ],
)
def test_what_a_request_of_a_kind_of_its_own_tells_is_recorded(tells, answer, found):
    class Own(Request):
        nodes = np.array([3, 1])

        @classmethod
        def together(cls, backend, asked):
            return [answer]

    def asks():
        yield Own()

    Own.tells = tells
    with recorded() as calls:
        run(None, [asks()], [])
    columns = [(call.nodes, call.scores, call.near) for call in calls]
    assert [tuple(None if part is None else part.tolist() for part in parts) for parts in columns] == [found]


def test_calls_behind_a_search_of_its_own_are_a_later_step():
    class Inner(Request):
        @classmethod
        def together(cls, backend, asked):
            return run(backend, [inner() for _ in asked], trace, "Inner")

    def inner():
        yield Word("a")
        return (yield Word("b"))

    def asks():
        yield Inner(), Word("c")
        yield Word("a")

    trace = []
    run({word: word for word in "abc"}, [asks()], trace, "Outer")
    assert [(asked.step, asked.operators) for asked in trace] == [
        (1, ("Inner",)),
        (2, ("Inner",)),
        (3, ("Outer",)),
        (4, ("Outer",)),
    ]


def test_requests_are_changed_inside_what_runs_side_by_side_or_has_a_name():
    def asks(word):
        return (yield Word(word)) + "".join((yield (Word(word), Word("b"))))

    def whole():
        alone = yield Named("Mine", asks("a"))
        return [alone, *(yield Parallel([asks("b"), asks("c")]))]

    turned = changed(whole(), lambda request: Word(request.word.upper()))
    assert run({"A": "1", "B": "2", "C": "3"}, [turned]) == [["112", "222", "332"]]


def test_a_loop_ends_when_the_budget_is_met_or_nothing_is_new():
    rounds = []

    class Grows(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            near = yield Neighbors(candidates.nodes)
            rounds.append(len(candidates))
            return candidates.joined(reached(candidates, near.owner, near.node, np.zeros(len(near.node)), self.name))

    index = GraphIndex.from_texts(["a loom", "b", "c", "d"], edges=[("0", "1"), ("1", "2"), ("2", "3")])
    for budget, expected in ((3, [1, 2]), (4, [1, 2, 3]), (9, [1, 2, 3, 4]), (1, [])):
        rounds.clear()
        ranked(Loop(Grows(), budget=budget), Queries.of(index, ["loom"]), ranked(BM25Search(1), Queries.of(index, ["loom"])))
        assert rounds == expected


def test_notes_are_told_once_and_counts_of_visited_nodes_are_kept():
    class Notes(Operator):
        kind = OperatorKind.MODEL_SEARCH

        def search(self, question, candidates):
            question.notes += ["first", "second", "first"]
            return candidates

    index = GraphIndex.from_texts(["a loom", "a card"], edges=[("0", "1")])
    queries = Queries.of(index, ["loom"])
    assert ranked(Pipeline(BM25Search(1), Notes(), Notes()), queries).notes == (("first", "second"),)
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform"))
    # The list that counts none does not take away what the other counted.
    assert ranked(ReciprocalRankFusion(walk, BM25Search(2)), queries).touched.tolist() == [2]


def test_a_question_for_fewer_or_more_nodes_keeps_its_notes():
    question = Question(MemoryBackend(Queries.of(GraphIndex.from_texts(["a loom"]), ["?"], k=5)), 0)
    for k in (2, 9):
        other = question.asking(k)
        other.notes.append("a note")
        assert other.k == k
    assert question.k == 5 and question.notes == ["a note"] * 2


def test_texts_of_an_operator_are_searched_for_with_the_inputs_of_a_question():
    index = GraphIndex.from_texts(["a loom", "a card", "a mill"])
    memory = MemoryBackend(Queries.of(index, ["loom"], inputs={"year": [1]}))
    asked = [(0, Nearest(1, "bm25", text=text)) for text in ("card", "mill", "card")]
    assert [nodes.tolist() for nodes, _ in memory.nearest(asked)] == [[1], [2], [1]]


def test_a_degree_of_edges_asked_beside_one_of_nodes():
    index = GraphIndex.from_texts(["a", "b"], edges=[("0", "1"), ("0", "1"), ("0", "0")])
    both = np.array([0, 1])

    def asks():
        return (
            yield Degree(both), Degree(both, parallel=True), Neighbors(both), Neighbors(both, parallel=True), EdgesAmong(both, True)
        )

    alone, parallel, near, rows, links = run(MemoryBackend(Queries.of(index, ["q"])), [asks()])[0]
    # An edge from a node to itself counts with parallel, and never among links.
    assert alone.tolist() == [1, 1] and parallel.tolist() == [3, 2]
    assert near.node.tolist() == [1, 0] and rows.node.tolist() == [0, 1, 1, 0, 0] and links.node.tolist() == [1, 1, 0, 0]


def test_notes_of_operators_side_by_side_are_in_the_order_of_the_operators():
    class Late(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            yield Degree(candidates.nodes)
            question.notes.append("late")
            return candidates

    class Soon(Operator):
        kind = OperatorKind.MODEL_SEARCH

        def search(self, question, candidates):
            question.notes.append("soon")
            return candidates

    index = GraphIndex.from_texts(["a loom", "a card"], edges=[("0", "1")])
    both = Pipeline(BM25Search(1), ReciprocalRankFusion(Late(), Soon()))
    assert ranked(both, Queries.of(index, ["loom"])).notes == (("late", "soon"),)


def test_a_text_that_is_the_question_keeps_its_vector_beside_other_texts():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=np.eye(2), embedding=lambda texts: [[0.0, 1.0]] * len(texts))
    memory, rows = MemoryBackend(Queries.of(index, ["loom", "card"], vectors=np.eye(2)[[0, 0]])), np.array([0, 1])
    asked = [(0, WithQuery(Similarity(rows), "loom")), (1, WithQuery(Similarity(rows), "mill"))]
    assert [values.tolist() for values in memory.instead(asked)] == [[1, 0], [0, 1]]


def test_models_and_words_read_another_text_without_an_embedding_model():
    model = lambda pairs: [len(query) + len(text) for query, text in pairs]  # noqa: E731
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=np.eye(2), relevance=model)
    memory, rows = MemoryBackend(Queries.of(index, ["loom"], vectors=np.eye(2)[:1])), np.array([0, 1])
    (read,), (words,) = (memory.instead([(0, WithQuery(asked, "a new card"))]) for asked in (Relevance(rows), Scores(rows, "bm25")))
    assert read.tolist() == [16, 16] and words[0] == 0 < words[1]
    with pytest.raises(MissingSignalError, match="pass embedding="):
        memory.instead([(0, WithQuery(Similarity(rows), "a new card"))])


def test_a_relation_that_no_edge_has_has_no_number():
    index = GraphIndex.from_texts(["a loom", "a card"], edges=[("0", "1", "reads")])
    question = Question(MemoryBackend(Queries.of(index, ["loom"])), 0)
    assert [question.relation(name) for name in ("reads", "writes", None)] == [0, -1, -1]


def test_a_composition_tells_its_own_reason_before_those_of_its_operators():
    search, whole = BM25Search(1), Pipeline(BM25Search(2))
    search.reason, whole.reason = "few words", "one list is enough"
    assert list(Pipeline(whole, search).reasons()) == ["one list is enough", "few words"]


def test_a_composition_is_of_the_kind_of_its_last_operator():
    kinds = [OperatorKind.VECTOR_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH, OperatorKind.GRAPH_MODEL_SEARCH]
    operators = [BM25Search(3), STeX(), GRanker()]
    assert [Pipeline(*operators[: n + 1]).kind for n in range(3)] == kinds


def test_a_long_parameter_is_shown_by_its_class():
    class Told(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def __init__(self, word):
            self.word = word

        def search(self, question, candidates):
            return candidates

    # A hundred and twenty characters with their quotes are shown.
    assert repr(Told("w" * 118)) == f"Told(word='{'w' * 118}')" and repr(Told("w" * 119)) == "Told(word=<str>)"
    assert repr(Told(len)) == "Told(word=len)"


def test_names_are_found_in_either_case_unless_told_otherwise():
    memory = MemoryBackend(Queries.of(GraphIndex.from_texts(["a loom", "a card"], titles=["Loom", "Card"]), ["a Loom and a card"]))
    assert memory.titled([(0, Titled(("card", "Loom")))]) == [[[1], [0]]]
    assert memory.titled([(0, Titled(("card", "Loom"), False))]) == [[[], [0]]]


def test_steps_are_whole_where_their_edges_are_just_as_many_as_may_be_read():
    index = GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1", "r"), ("0", "2", "r")])
    memory = MemoryBackend(Queries.of(index, ["q"]))
    for most, whole, nodes in ((3, True, [1, 2]), (2, True, [1, 2]), (1, False, [])):
        ((near, told),) = memory.steps([(0, Steps(np.array([0]), None, "r", most))])
        assert (told, near.node.tolist()) == (whole, nodes)


def test_the_size_of_a_request_as_another_text_is_its_own():
    assert WithQuery(Nearest(7), "card").size == 7 and WithQuery(Degree(np.array([0, 1])), "card").size == 2
