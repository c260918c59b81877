"""Operators and signals of others: what they return, and what of it is refused."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graph_retrievers import BM25
from graph_retrievers.core.candidates import Candidates, best, found_by, order, reached, replaced, stacked
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Named, Parallel, run
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.requests import (
    ByTitle,
    Degree,
    Edges,
    EdgesAmong,
    Near,
    Nearest,
    NearestByCosine,
    Neighbors,
    Pairs,
    Relevance,
    Request,
    Similarity,
    Steps,
    Texts,
    Titled,
    Weights,
    WithQuery,
)
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, STeX, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bm25 import BM25 as Words
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems import system
from tests.helpers import linked_index
from tests.rankings import ranked


@pytest.mark.parametrize("types", ["film", 3, ["film", None]])
def test_types_are_a_list_of_strings(types):
    with pytest.raises(InvalidArgumentError, match="types must be a list of strings"):
        Retriever(linked_index(), VectorSearch(), types=types)


class Beside(Operator):
    """The last of three nodes, with what a test says beside it."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, results):
        self.results = results

    def search(self, question, candidates):
        yield from ()
        return replace(Candidates.seeds(np.array([2]), np.array([1.0]), self.name), **self.results)


def chains(nodes, scores):
    return {"chains": Chains(np.array(nodes), np.array(scores), "Mine")}


def facts(rows, scores):
    return {"facts": Facts(np.array(rows), np.array(scores), "Mine")}


@pytest.mark.parametrize(
    ("results", "told"),
    [
        (facts([0, 2], [2.0, 1.0]), r"a fact with row 2 and score 1\.0; expected rows from 0 to 1 and numbers"),
        (facts([1, 0], [2.0, float("nan")]), "a fact with row 0 and score nan"),
        (facts([0, 1], [1.0]), r"facts of the shapes \[\(2,\), \(1,\)\]"),
        (facts([0.0], [1.0]), "facts of the kinds"),
        (chains([[0, 1], [1, 2]], [1.0]), r"chains of the shapes \[\(2, 2\), \(1,\)\]"),
        (chains([0, 1], [1.0, 1.0]), r"chains of the shapes \[\(2,\), \(2,\)\]"),
        (chains([[0, 7]], [1.0]), "a chain with row 7 and score 1.0; expected rows from -1 to 2"),
        (chains([[0, 1]], [float("nan")]), "a chain with row 0 and score nan"),
        ({"trails": np.array([[2, 1]])}, "a trail that does not end in its node"),
        ({"trails": np.array([[-2, 2]])}, "a trail with a row outside the graph; expected rows from 0 to 2"),
        ({"trails": np.array([[3, 2]])}, "a trail with a row outside the graph"),
        ({"trails": np.array([[2, -1]])}, "a trail that does not end in its node; pads stand before a trail"),
        ({"columns": {"trail_scores": np.zeros(2)}}, r"trail_scores of the shape \(2,\); expected \(1,\)"),
        ({"columns": {"ranks": np.ones((1, 2), np.int64)}, "lists": ("A",)}, r"ranks of the shape \(1, 2\); expected \(1, 1\)"),
    ],
)
def test_what_an_own_operator_returns_beside_nodes_is_checked(results, told):
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    with pytest.raises(InvalidArgumentError, match=f"Beside returned {told}"):
        Retriever(index, Beside(results), backfill=False).retrieve("loom")


def test_facts_chains_and_trails_of_an_own_operator_are_returned():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    results = {"trails": np.array([[-1, 1, 2]]), **facts([1], [2.0]), **chains([[0, 1, -1]], [1.0])}
    hits = Retriever(index, Beside(results), backfill=False).retrieve("loom")
    assert [(hit.kind, str(hit.path)) for hit in hits] == [("node", "1 -> 2"), ("chain", "0 -> 1"), ("fact", "1 -> 2")]


class Found(Operator):
    """What a test says, for every query."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, nodes, scores):
        self.nodes, self.scores = np.array(nodes), np.array(scores)

    def search(self, question, candidates):
        yield from ()
        return Candidates.seeds(self.nodes, self.scores, self.name)


@pytest.mark.parametrize(
    ("nodes", "scores", "told"),
    [
        ([3, 3], [2.0, 1.0], "row 3 twice"),
        ([3, 99], [2.0, 1.0], "row 99 with score 1.0; expected rows from 0 to 11"),
        ([3, -7], [2.0, 1.0], "row -7 with score"),
        ([3, 1], [float("nan"), 2.0], "row 3 with score nan"),
        ([1.7], [1.0], "expected integers"),
        ([1], [True], "int64 rows, bool scores and int64 trails; expected integers, numbers and integers"),
        ([1, 2], [1.0], r"expected \[K\], \[K\]"),
    ],
)
def test_what_an_operator_returns_is_checked(nodes, scores, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(linked_index(), Found(nodes, scores)).retrieve("loom")


class Asks(Operator):
    """Asks what a test says, and returns what was found before."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, asked):
        self.asked = asked

    def search(self, question, candidates):
        yield self.asked
        return candidates


ROWS = np.array([0, 1])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, r"None; expected requests of graph_retrievers\.core\.requests"),
        (Neighbors, "<class .*Neighbors'>; expected requests"),
        ((Neighbors(ROWS), "bm25"), "'bm25'; expected requests"),
        (WithQuery(7, "card"), "7; expected requests"),
        (Neighbors([0, 1]), r"Neighbors of nodes \[0, 1\]; expected a numpy array of rows: integers, shape \[n\]"),
        (EdgesAmong(np.array([0.0, 1.0])), r"EdgesAmong of nodes of shape \(2,\), float64; expected a numpy array of rows"),
        (Texts(ROWS[None]), r"Texts of nodes of shape \(1, 2\), int64; expected"),
        (Neighbors(np.array([2, 5000])), "Neighbors of row 5000; expected rows from 0 to 11"),
        (Similarity(np.array([12, 3])), "Similarity of row 12; expected rows from 0 to 11"),
        ((Neighbors(ROWS), Degree(np.array([3, -1, 4]))), "Degree of row -1; expected rows from 0 to 11"),
        (WithQuery(Weights(np.array([-2])), "card"), "Weights of row -2; expected rows"),
        (Degree(np.array([1, -1], np.int32)), "Degree of row -1; expected rows"),
        (Relevance(ROWS, texts=["a"]), r"Relevance of 2 nodes with texts \['a'\]; expected a list of 2 strings, one for each node"),
        (Relevance(ROWS, texts="ab"), "Relevance of 2 nodes with texts 'ab'; expected"),
        (WithQuery(Relevance(ROWS, texts=["a", None]), "card"), r"Relevance of 2 nodes with texts \['a', None\]; expected"),
        (Nearest(3, "bm25", among="x"), "Nearest among 'x'; expected one of 'start', 'name', 'walk', 'return'"),
        (Relevance(ROWS, np.ones((3, 3), np.float32)), r"Relevance of 2 nodes with mix of shape \(3, 3\), float32; expected"),
        (Relevance(ROWS, np.ones((2, 2))), r"Relevance of 2 nodes with mix of shape \(2, 2\), float64; expected a float32 array"),
        (Relevance(ROWS, [[1, 0], [0, 1]]), r"Relevance of 2 nodes with mix \[\[1, 0\], \[0, 1\]\]; expected a float32 array"),
        (Relevance(ROWS, np.eye(2, dtype=np.float32), 1.5), "Relevance with alpha 1.5; expected a number from 0 to 1"),
        (Relevance(ROWS, alpha="a"), "Relevance with alpha 'a'; expected a number from 0 to 1"),
        (Weights(np.array([3, 1, 4, 1])), r"Weights of row 1 twice; expected distinct rows, such as `candidates\.nodes`"),
        (WithQuery(EdgesAmong(np.array([2, 2])), "card"), "EdgesAmong of row 2 twice; expected distinct rows"),
        (Parallel([5]), "5 side by side; expected a list of generators, such as `operator.stepped"),
        (Parallel(5), "5 side by side; expected a list of generators"),
        (Parallel([BM25Search(2)]), "BM25Search.* side by side; expected a list of generators"),
        (Named("part", ROWS), r"array.* by the name 'part'; expected a generator, such as `operator\.stepped"),
    ],
)
def test_what_an_operator_asks_is_checked(asked, told):
    with pytest.raises(InvalidArgumentError, match=f"Asks (asked for|runs) {told}"):
        Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked))).retrieve("loom")


@pytest.mark.parametrize(
    "asked",
    [
        [Neighbors(ROWS), Degree(ROWS)],
        EdgesAmong(ROWS[:0]),
        Degree(ROWS.astype(np.int32)),
        Similarity(ROWS[::-1]),
        Texts(ROWS + 10),
    ],
)
def test_requests_of_any_rows_of_the_graph_are_answered(asked):
    found = Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked)), backfill=False).retrieve("loom")
    assert found == Retriever(linked_index(), BM25Search(2), backfill=False).retrieve("loom")


def own_request(**body):
    return type("Own", (Request,), {"nodes": ROWS, **body})()


def answered(with_what):
    return own_request(together=classmethod(lambda cls, backend, asked: with_what))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (own_request(), "Own says nowhere how it is answered; give it a classmethod `together`"),
        (answered([]), r"Own was answered with \[\] where 1 asked; expected a list with an answer for each"),
        (answered([1, 2]), r"Own was answered with \[1, 2\] where 1 asked"),
        (answered(None), "Own was answered with None where 1 asked"),
        (
            own_request(shared=("kinds",), kinds=["film"]),
            r"Asks asked for Own with kinds \['film'\]; expected hashable values, such as strings and tuples",
        ),
        (own_request(key=lambda self: [5]), r"Asks asked for Own with the key \[5\]; expected hashable values"),
        (Pairs(lambda queries, batch, nodes: torch.ones(3), ROWS), r"<function.* gave values of shape \(3,\) for 2 pairs"),
        (Pairs(lambda queries, batch, nodes: torch.ones(1), ROWS), r"<function.* gave values of shape \(1,\) for 2 pairs"),
        (Pairs(lambda queries, batch, nodes: torch.ones(2, 1), ROWS), r"of shape \(2, 1\) for 2 pairs.*expected one for each"),
    ],
)
def test_the_answers_of_own_requests_and_functions_are_counted(asked, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked))).retrieve("loom")


def test_no_algorithms_side_by_side_are_answered_with_an_empty_list():
    def none_beside():
        return (yield Parallel([]))

    assert run(None, [none_beside(), none_beside()]) == [[], []]


def test_an_operator_that_asks_for_nothing_may_be_a_plain_method():
    class Short(Operator):
        kind = OperatorKind.MODEL_SEARCH
        k = 2

        def search(self, question, candidates):
            question.notes.append("only short texts")
            return candidates.taken(np.flatnonzero([len(question.queries.index.graph.texts[row]) < 12 for row in candidates.nodes]))

    index = GraphIndex.from_texts(["a loom", "a loom of wood and iron", "one loom", "the loom"])
    retriever = Retriever(index, Pipeline(BM25Search(), Short()), backfill=False)
    hits, others = retriever.retrieve_batch(["loom", "wood"])
    assert [hit.id for hit in hits] == ["0", "3"] and others == []
    assert hits.notes == retriever.retrieve("loom").notes == ("only short texts",)


class Leaky(DenseIndex):
    """A signal whose search is what a test says."""

    def search(self, queries, k, allowed=None):
        return self.found


@pytest.mark.parametrize(
    ("scores", "rows", "told"),
    [
        ([[2.0, 1.0]], [[0, 1]], "not allowed"),
        ([[1.0, 2.0]], [[0, 2]], "descending"),
        ([[1.0, 1.0]], [[0, 0]], "row 0 twice"),
        ([[1.0]], [[50]], "row 50"),
        ([[float("nan")]], [[0]], "nan"),
    ],
)
def test_what_a_signal_returns_is_checked(scores, rows, told):
    signal = Leaky(torch.eye(3))
    signal.found = torch.tensor(scores), torch.tensor(rows)
    index = GraphIndex(CorpusGraph(["a", "b", "c"], ["", "", ""]), {"dense": signal})
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(index, VectorSearch()).retrieve("loom", vector=[1.0, 0.0, 0.0], filter={"$id": {"$in": ["a", "c"]}})


class Walked(Operator):
    """One node, reached along a trail that a test gives, with a chain that a test gives."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, trail, chain):
        self.trail, self.chain = trail, chain

    def search(self, question, candidates):
        yield from ()
        made = Candidates.seeds(np.array(self.trail[-1:]), np.ones(1), self.name)
        return replace(made, trails=np.array([self.trail]), chains=Chains(np.array([self.chain]), np.ones(1), self.name))


def test_a_path_along_edges_that_do_not_exist_is_refused():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    (hit, chain) = Retriever(index, Walked([0, 1, 2], [2, 1, -1]), backfill=False).retrieve("loom")
    assert str(hit.path) == "0 -> 1 -> 2" and str(chain.path) == "2 <- 1"
    with pytest.raises(InvalidArgumentError, match="Walked returned a trail with a step from '0' to '2', which no edge joins"):
        Retriever(index, Walked([-1, 0, 2], [0, 1, -1])).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match="Walked returned a chain with a step from '2' to '0'"):
        Retriever(index, Walked([-1, 0, 1], [1, 2, 0])).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match="a chain with row 7 and score 1.0; expected rows from -1 to 2"):
        Retriever(index, Walked([-1, 0, 1], [0, 7, 1])).retrieve("loom")


def test_a_class_of_the_user_may_annotate_as_it_likes():
    class Loose(MemoryRetriever):
        def __init__(self, index, *, depth: str = 3, **options):
            super().__init__(index, BM25Search(depth), **options)

    assert Loose(GraphIndex.from_texts(["a loom"])).retrieve("loom")[0].text == "a loom"


class Finds(Operator):
    """Candidates that a test gives, whatever was found before."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, found, k: int | None = None):
        self.found, self.k = found, k

    def search(self, question, candidates):
        return self.found
        yield


def candidates(nodes, scores, trails=None):
    nodes = np.array(nodes)
    trails = nodes[:, None] if trails is None else np.array(trails)
    return Candidates(nodes, np.array(scores), trails, np.zeros(len(nodes), np.int64), ("Finds",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([(0, 1.0)], r"Finds returned \[\(0, 1\.0\)\]; expected Candidates"),
        (candidates([1, 1], [2.0, 1.0]), "Finds returned row 1 twice"),
        (candidates([0, 9], [2.0, 1.0]), r"Finds returned row 9 with score 1\.0; expected rows from 0 to 2"),
        (candidates([0, -1], [2.0, 1.0]), r"Finds returned row -1 with score 1\.0"),
        (candidates([0], [float("nan")]), "Finds returned row 0 with score nan"),
        (candidates([0], [1.0, 0.5]), r"Finds returned nodes, scores, trails and relations of the shapes .*; expected \[K\]"),
        (candidates([0.0], [1.0]), "Finds returned float64 rows"),
        (candidates([0], [1.0], [[0, 1]]), "a trail that does not end in its node"),
        (candidates([0], [1.0], [[7, 0]]), "a trail with a row outside the graph"),
        (candidates([2], [1.0], [[0, 2]]), "Finds returned a trail with a step from '0' to '2', which no edge joins"),
    ],
)
def test_what_an_operator_finds_is_checked_inside_a_composition_too(found, message):
    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1")])
    with pytest.raises(InvalidArgumentError, match=message):
        Retriever(index, Pipeline(BM25Search(1), Finds(found))).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match=message):
        Retriever(index, Finds(found)).retrieve("loom")


def test_the_arguments_of_operators_and_retrievers_of_others_are_checked_as_they_say():
    found = candidates([0], [1.0])
    with pytest.raises(InvalidArgumentError, match=r"k is '3'; expected int or None"):
        Finds(found, k="3")
    assert Finds(found, k=3).k == 3

    class Optional(Finds):
        def __init__(self, found, k: int = None, model: "Missing" = 1):  # noqa: F821
            super().__init__(found, k)

    assert Optional(found, k=None, model="any").k is None, "an annotation that cannot be resolved is not read"


def test_a_search_derived_from_one_of_ours_is_checked():
    class Turned(Words):
        def search(self, queries, k, allowed=None):
            scores, rows = super().search(queries, k, allowed)
            return scores.flip(1), rows.flip(1)

    index = GraphIndex.from_texts(["a loom", "a loom and a card"], bm25=False)
    index = GraphIndex(index.graph, {"bm25": Turned(index.graph.contents())})
    with pytest.raises(InvalidArgumentError, match="not in descending order"):
        Retriever(index, BM25()).retrieve("loom card")


class Adds(Operator):
    """All neighbours, with scores that a test gives, as the candidates before them or behind them."""

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, scores, k: int | None = None):
        self.scores, self.k = np.array(scores), k

    def search(self, question, candidates):
        near = yield Neighbors(candidates.nodes)
        return candidates.joined(reached(candidates, near.owner, near.node, self.scores, self.name))


def test_scores_stay_as_they_are_given_and_what_is_returned_is_sorted():
    index = GraphIndex.from_texts(["a loom", "far", "near", "mid"], edges=[("0", "1"), ("0", "2"), ("0", "3")], vectors=np.eye(4))
    seed = np.array([0.5, 0, 0, 0])
    search = VectorSearch(1)
    hits = Retriever(index, Pipeline(search, Adds([-0.6, 0.9, 0.4])), backfill=False).retrieve("?", vector=seed)
    assert [(hit.text, round(hit.score, 6)) for hit in hits] == [("near", 0.9), ("a loom", 0.5), ("mid", 0.4), ("far", -0.6)]
    best_two = ranked(Pipeline(search, Adds([-0.6, 0.9, 0.4], k=2)), Queries.of(index, ["?"], vectors=[seed]))
    assert best_two.nodes.tolist() == [[2, 0]], "sorted before it is cut"
    equal = Retriever(index, Pipeline(search, Adds([0.9, 0.5, 0.9])), backfill=False).retrieve("?", vector=seed)
    assert [hit.id for hit in equal] == ["1", "3", "0", "2"], "equal scores keep their order"
    before, rising = Candidates.seeds(np.array([4]), np.ones(1), "First"), np.array([0.1, 0.7])
    zeros, nodes = np.zeros(2, np.int64), np.array([5, 6])
    for made in (
        reached(before, zeros, nodes, rising, "Mine"),
        found_by("Mine", before, nodes, rising, zeros - 1),
        stacked(before, zeros, [[5], [6]], rising, "Mine"),
    ):
        assert made.scores.tolist() == [0.1, 0.7] and made.nodes.tolist() == [5, 6]


def test_nodes_behind_others_have_no_higher_scores():
    """STeX puts its candidates behind the ranked nodes, whatever they score."""
    index = GraphIndex.from_texts(["a loom", "b", "c"], edges=[("0", "1"), ("0", "2")], vectors=[[-1, 0], [0, 1], [1, 0]])
    hits = Retriever(index, Pipeline(BM25Search(1), STeX(beta=2.0)), k=3, backfill=False).retrieve("loom", vector=[1, 0])
    assert [hit.id for hit in hits] == ["0", "2", "1"]
    assert all(upper.score >= lower.score for upper, lower in zip(hits, hits[1:], strict=False))


def published_beam():
    """The system of the page that shows how to write one."""
    page = (Path(__file__).parents[2] / "docs" / "new-retriever.md").read_text()
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        # Other tests compare all systems.
        patch.setattr(system, "SYSTEMS", dict(system.SYSTEMS))
        exec(page.split("```python")[1].split("```")[0], names)
    return names["Beam"]


@pytest.mark.parametrize("seed", range(30))
def test_the_beam_search_of_the_docs_is_that_of_plain_python(seed):
    draw = np.random.default_rng(seed)
    size, beam, rounds = int(draw.integers(5, 40)), int(draw.integers(1, 6)), int(draw.integers(1, 4))
    vectors = draw.normal(size=(size, 6))
    vectors = np.sign(vectors) if seed % 2 else vectors  # every other graph has many ties
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    edges = draw.integers(0, size, (int(draw.integers(0, 3 * size)), 2)).tolist()
    index = GraphIndex.from_texts(["."] * size, edges=[(str(a), str(b)) for a, b in edges], vectors=vectors)
    near = [{b for a, b in edges + [[b, a] for a, b in edges] if a == row} for row in range(size)]
    cosines = np.round(vectors @ vectors[0], 5)

    def ranked(nodes, k):
        return sorted(nodes, key=lambda row: (-cosines[row], row))[:k]

    found = ranked(range(size), 2)
    for _ in range(rounds):
        found = ranked({*found, *(other for row in found for other in near[row])}, beam)
    retriever = Retriever(index, published_beam()(seeds=2, width=beam, rounds=rounds), k=size, backfill=False)
    hits = retriever.retrieve("?", vector=vectors[0])
    assert [int(hit.id) for hit in hits] == found
    assert [hit.score for hit in hits] == pytest.approx(cosines[found], abs=1e-4)
    beside = np.concatenate([vectors[:1], draw.normal(size=(6, 6))])
    assert [hit.id for hit in retriever.retrieve_batch(["?"] * 7, vectors=beside)[0]] == [hit.id for hit in hits]


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ("found.rescored(np.ones(1))", r"rescored was given scores of shape \(1,\), float64; expected numbers of shape \(3,\)"),
        ("found.rescored(np.ones(9))", r"rescored was given scores of shape \(9,\)"),
        ("found.rescored(['a', 'b', 'c'])", r"rescored was given scores of shape \(3,\), <U1; expected numbers"),
        (
            "found.rescored(Degree(found.nodes))",
            "rescored was given scores Degree.*what a request is answered with comes from `yield`",
        ),
        (
            "reached(found, near.owner, near.node, 1.0, 'Mine')",
            r"reached was given scores of shape \(\), float64; expected numbers",
        ),
        ("reached(found, near.owner, near.node, np.ones(1), 'Mine')", r"reached was given scores of shape \(1,\)"),
        (
            "reached(found, 0, near.node, np.ones(len(near.node)), 'Mine')",
            r"reached was given place of shape \(\), int64; expected integers",
        ),
        (
            "reached(found, found.nodes[near.owner] + 3, near.node, np.ones(len(near.node)), 'Mine')",
            "reached was given place .*A place is not",
        ),
        ("reached(found, near.owner, 3, np.ones(1), 'Mine')", "reached was given place|reached was given nodes"),
        ("found_by('Mine', found, near.node, np.ones(len(near.node)), found.nodes[:1])", "found_by was given parents of shape"),
        ("stacked(found, np.array([7]), [[1]], np.ones(1), 'Mine')", "stacked was given place 7; expected places from 0 to 2"),
        ("stacked(found, np.array([0]), [[1]], np.ones(2), 'Mine')", "stacked was given scores of shape"),
        ("reached(near, near.owner, near.node, np.ones(len(near.node)), 'Mine')", "reached was given candidates Near.*; expected"),
        ("found_by('Mine', 5, near.node, np.ones(2), near.node)", "found_by was given candidates 5; expected Candidates"),
        ("found.joined(near)", "joined was given Near.*; expected Candidates"),
        ("found.taken(near.node + 9)", "taken was given .*; expected places from 0 to 2. A place is not the row of a node"),
        ("replaced(found, np.array([0, 7]), np.ones(2))", "replaced was given place 7; expected places from 0 to 2"),
        ("replaced(found, np.array([0]), np.ones(2))", r"replaced was given scores of shape \(2,\), float64; expected numbers"),
        ("best(np.ones(3), 1, found.nodes[:1])", r"best was given nodes of shape \(1,\), int64; expected integers of shape \(3,\)"),
        ("best(Degree(found.nodes), 1)", "best was given scores Degree.*what a request is answered with comes from `yield`"),
        ("order(np.ones(3), found.nodes[:1])", r"order was given nodes of shape \(1,\), int64; expected integers of shape \(3,\)"),
        ("Candidates.seeds(found.nodes, [1], 'Mine')", r"Candidates\.seeds was given scores of shape \(1,\)"),
    ],
)
def test_what_does_not_fit_the_candidates_is_refused_with_the_operator(search, told):
    def asks(self, question, found):
        near = yield Neighbors(found.nodes)
        return eval(search, {**globals(), "found": found, "near": near})

    def plain(self, question, found):
        return eval(search, {**globals(), "found": found, "near": Near(np.zeros(2, np.int64), found.nodes[:2])})

    index = GraphIndex.from_texts(["a loom", "the loom", "loom", "a card"], edges=[("0", "3"), ("1", "3")])
    for body in (asks, plain):
        own = type("Mine", (Operator,), {"kind": OperatorKind.GRAPH_SEARCH, "search": body})
        with pytest.raises(InvalidArgumentError, match=f"^Mine: {told}"):
            Retriever(index, Pipeline(BM25Search(3), own())).retrieve("loom")


def test_lists_do_as_arrays():
    before = Candidates.seeds(np.array([4, 2]), np.array([0.9, 0.8]), "First")
    made = reached(before, [0, 1], [7, 5], [0.1, 0.6], "Mine")
    assert made.trails.tolist() == [[4, 7], [2, 5]] and made.scores.tolist() == [0.1, 0.6]
    assert before.rescored([1, 3]).nodes.tolist() == replaced(before, [0, 1], [1, 3]).nodes.tolist() == [2, 4]
    assert len(reached(before, [], [], [], "Mine")) == 0
    assert Candidates.seeds([4, 2], [0.9, 0.8], "First").trails.tolist() == [[4], [2]]
    assert best([0.5, 0.9, 0.9], 2, [3, 2, 1]).tolist() == order([0.5, 0.9, 0.9], [3, 2, 1])[:2].tolist() == [2, 1]


def test_neighbours_of_two_nodes_are_there_twice_and_the_error_names_the_cure():
    class Doubled(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            near = yield Neighbors(candidates.nodes)
            step = reached(candidates, near.owner, near.node, np.arange(len(near.node), dtype=float), self.name)
            return step if question.text == "loom" else candidates.joined(step.rescored(step.scores))

    index = GraphIndex.from_texts(["a loom", "the loom", "card"], edges=[("0", "2"), ("1", "2")])
    retriever = Retriever(index, Pipeline(BM25Search(2), Doubled()), backfill=False)
    with pytest.raises(
        InvalidArgumentError, match=r"Doubled returned row 2 twice .*`candidates\.joined\(\.\.\.\)` keeps the first of each node"
    ):
        retriever.retrieve("loom")
    hits = retriever.retrieve("a loom")
    assert [(hit.path.text, hit.score) for hit in hits if hit.id == "2"] == [("1 -> 2", 1.0)], "the best, not the first"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Nearest(-1), "Nearest with k -1; expected the number of nodes, 0 or more"),
        (Nearest("3", "bm25"), "Nearest with k '3'; expected the number of nodes"),
        (Nearest(True, "bm25"), "Nearest with k True; expected"),
        (NearestByCosine(-2), "NearestByCosine with k -2; expected"),
        (Nearest(3, "bm25", types="film"), r"Nearest with types 'film'; expected a tuple of strings, such as \('film',\)"),
        (NearestByCosine(3, exclude_types=["film"]), r"NearestByCosine with exclude_types \['film'\]; expected a tuple of strings"),
        (Titled("T1"), "Titled with names 'T1'; expected a tuple of strings"),
        (Titled(("T1", 2)), r"Titled with names \('T1', 2\); expected"),
        (ByTitle("Kismet", "film"), "ByTitle with titles 'Kismet'; expected a tuple of strings"),
        (WithQuery(Nearest(-1), "card"), "Nearest with k -1"),
        (Nearest(3, ["bm25"]), r"Nearest with signal \['bm25'\]; expected a string"),
        (Nearest(3, "bm25", text=5), "Nearest with text 5; expected a string, or None"),
        (WithQuery(Nearest(3), 5), "WithQuery with text 5; expected a string"),
        (WithQuery(Nearest(3), "card", ["film"]), r"WithQuery with exclude_types \['film'\]; expected a tuple of strings"),
        (Neighbors(ROWS, [1]), r"Neighbors with parallel \[1\]; expected True or False"),
        (Steps(ROWS, None, ["r"], 4), r"Steps with relation \['r'\]; expected a string, or None"),
        (Steps(ROWS, None, "r", -1), "Steps with most -1; expected the number of edges, 0 or more"),
        (ByTitle(("Kismet",), None), "ByTitle with type None; expected a string"),
        (Pairs(["dot"], ROWS), r"Pairs with function \['dot'\]; expected a function"),
    ],
)
def test_what_is_searched_for_is_checked(asked, told):
    with pytest.raises(InvalidArgumentError, match=f"Asks asked for {told}"):
        Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked))).retrieve("loom")


def test_a_forgotten_yield_is_told():
    with pytest.raises(AttributeError, match="Neighbors has no 'owner': it is a request; `yield` it"):
        Neighbors(ROWS).owner  # noqa: B018
    with pytest.raises(TypeError, match="Nearest has no parts: it is a request; `yield` it"):
        _, _ = Nearest(3)
    assert not hasattr(Neighbors(ROWS), "k") and copy(Neighbors(ROWS)).nodes is ROWS


def test_the_kind_of_an_operator_is_told_when_its_class_is_made():
    def search(self, question, candidates):
        return candidates

    with pytest.raises(InvalidArgumentError, match=r"Mine has no kind; set kind = OperatorKind\.GRAPH_SEARCH or another"):
        type("Mine", (Operator,), {"search": search})
    for kind in ("O_gs", 3, "graph"):
        with pytest.raises(InvalidArgumentError, match=f"Mine has the kind {kind!r}; set kind = OperatorKind"):
            type("Mine", (Operator,), {"search": search, "kind": kind})
    with pytest.raises(InvalidArgumentError, match="Base has the kind 'O_gs'"):
        type("Base", (Operator,), {"kind": "O_gs"})
    base = type("Base", (Operator,), {})
    assert type("Mine", (base,), {"search": search, "kind": OperatorKind.GRAPH_SEARCH})().formula() == "O_gs"
    told = property(lambda self: OperatorKind.MODEL_SEARCH)
    assert type("Mine", (base,), {"search": search, "kind": told})().formula() == "O_m"


def test_the_relation_that_was_walked_is_in_the_path():
    index = GraphIndex.from_texts(["a", "b"], edges=[("0", "1", "capital of"), ("0", "1", "located in")], bm25=True)

    class Walk(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def __init__(self, relation):
            self.relation = relation

        def search(self, question, candidates):
            edges = yield Edges(candidates.nodes)
            at = [n for n, name in enumerate(question.relation_names(edges.relation)) if name == self.relation]
            return reached(candidates, edges.owner[at], edges.far[at], np.ones(len(at)), self.name, edges.relation[at])

    for relation in ("capital of", "located in"):
        retriever = Retriever(index, Pipeline(BM25Search(1), Walk(relation)), backfill=False)
        assert [hit.path.text for hit in retriever.retrieve("a")] == [f"0 -[{relation}]-> 1"]
