"""Operators and signals of others: what they return, and what of it is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from graph_retrievers import BM25
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.beyond import Chains, Facts
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.operator import Operator, OperatorKind, Pipeline
from graph_retrievers.search.requests import Degree, Instead, Links, Nearest, Neighbors, Similarity, Texts, Weights
from graph_retrievers.signals.bm25 import BM25 as Words
from graph_retrievers.signals.dense import DenseIndex
from tests.helpers import linked_index


@pytest.mark.parametrize("types", ["film", 3, ["film", None]])
def test_types_are_a_list_of_strings(types):
    with pytest.raises(InvalidArgumentError, match="types must be a list of strings"):
        Retriever(linked_index(), VectorSearch(), types=types)


class Beside(Operator):
    """The last of three nodes, with what a test says beside it."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, results):
        self.results = results

    def search(self, question, found):
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
        ({"trails": np.array([[2, -1]])}, "a trail that does not end in its node; pads stand before a trail"),
        ({"beside": {"trail_scores": np.zeros(2)}}, r"trail_scores of the shape \(2,\); expected \(1,\)"),
        ({"beside": {"ranks": np.ones((1, 2), np.int64)}, "lists": ("A",)}, r"ranks of the shape \(1, 2\); expected \(1, 1\)"),
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

    def search(self, question, found):
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

    def search(self, question, found):
        yield self.asked
        return found


ROWS = np.array([0, 1])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, r"None; expected requests of graph_retrievers\.search\.requests"),
        (Neighbors, "<class .*Neighbors'>; expected requests"),
        ((Neighbors(ROWS), "bm25"), "'bm25'; expected requests"),
        (Instead(7, "card"), "7; expected requests"),
        (Neighbors([0, 1]), r"Neighbors of nodes \[0, 1\]; expected a numpy array of rows: integers, shape \[n\]"),
        (Links(np.array([0.0, 1.0])), r"Links of nodes of shape \(2,\), float64; expected a numpy array of rows"),
        (Texts(ROWS[None]), r"Texts of nodes of shape \(1, 2\), int64; expected"),
        (Neighbors(np.array([2, 5000])), "Neighbors of row 5000; expected rows from 0 to 11"),
        (Similarity(np.array([12, 3])), "Similarity of row 12; expected rows from 0 to 11"),
        ((Neighbors(ROWS), Degree(np.array([3, -1, 4]))), "Degree of row -1; expected rows from 0 to 11"),
        (Instead(Weights(np.array([-2])), "card"), "Weights of row -2; expected rows"),
        (Degree(np.array([1, -1], np.int32)), "Degree of row -1; expected rows"),
        (Nearest(3, "bm25", among="x"), "Nearest among 'x'; expected one of 'start', 'name', 'walk', 'return'"),
    ],
)
def test_what_an_operator_asks_is_checked(asked, told):
    with pytest.raises(InvalidArgumentError, match=f"Asks asked for {told}"):
        Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked))).retrieve("loom")


@pytest.mark.parametrize(
    "asked",
    [[Neighbors(ROWS), Degree(ROWS)], Links(ROWS[:0]), Degree(ROWS.astype(np.int32)), Similarity(ROWS[::-1]), Texts(ROWS + 10)],
)
def test_requests_of_any_rows_of_the_graph_are_answered(asked):
    found = Retriever(linked_index(), Pipeline(BM25Search(2), Asks(asked)), backfill=False).retrieve("loom")
    assert found == Retriever(linked_index(), BM25Search(2), backfill=False).retrieve("loom")


def test_an_operator_that_asks_for_nothing_may_be_a_plain_method():
    class Short(Operator):
        kind = OperatorKind.MODEL_SEARCH
        k = 2

        def search(self, question, found):
            question.notes.append("only short texts")
            return found.taken(np.flatnonzero([len(question.queries.index.graph.texts[row]) < 12 for row in found.nodes]))

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

    def search(self, question, found):
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
    class Loose(Retriever):
        def __init__(self, index, *, depth: str = 3, **options):
            super().__init__(index, BM25Search(depth), **options)

    assert Loose(GraphIndex.from_texts(["a loom"])).retrieve("loom")[0].text == "a loom"


class Finds(Operator):
    """Candidates that a test gives, whatever was found before."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, found, k: int | None = None):
        self.found, self.k = found, k

    def search(self, question, found):
        return self.found
        yield


def candidates(nodes, scores, trails=None):
    nodes = np.array(nodes)
    trails = nodes[:, None] if trails is None else np.array(trails)
    return Candidates(nodes, np.array(scores), trails, np.zeros(len(nodes), np.int64), ("Finds",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([(0, 1.0)], r"Finds\.search returned \[\(0, 1\.0\)\]; expected Candidates"),
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
        BM25(index).retrieve("loom card")
