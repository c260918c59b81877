"""Rules for what a call is given and what it returns: one small case each, through public entry points."""

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError, LanguageModelError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import FactSearch, Pipeline
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.pagerank import PersonalizedPageRank
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.operators.vector_search import BM25Search, VectorSearch
from graph_retrievers.queries import Queries
from graph_retrievers.results import Chains, Facts, Ranking
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.excerpt import rerank
from graph_retrievers.signals.language import as_language_model, complete_json
from tests.helpers import WordOverlap, linked_index


def ids(hits):
    return [hit.id for hit in hits]


class Given(Operator):
    """What a test says, for every query."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, ranking):
        self.ranking = ranking

    def rank(self, queries, ranking):
        return self.ranking


def given(node, **results):
    """An operator that finds one node for one query."""
    return Given(Ranking.of(torch.tensor([[node]]), torch.tensor([[1.0]]), "Given", **results))


def test_backfill_without_query_vectors_is_an_error_where_there_is_nothing_else_to_fill_from():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0], [0.5]], bm25=False)
    with pytest.raises(MissingSignalError, match="no embedding model for queries"):
        Retriever(index, given(0)).retrieve("loom", 2)
    assert ids(Retriever(index, given(0)).retrieve("loom", 2, vector=[1.0])) == ["0", "1"]
    assert ids(Retriever(index, given(0), backfill=False).retrieve("loom", 2)) == ["0"]


def test_an_empty_list_beside_a_full_one_is_filled_with_the_scores_of_the_search():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], vectors=[[3.0], [2.0], [5.0]])
    found, empty = Retriever(index, BM25Search(1)).retrieve_batch(["loom", "zebra"], 2, vectors=[[1.0], [1.0]])
    assert ids(found) == ["0", "2"] and found[1].score == pytest.approx(found[0].score / 2)
    assert [(hit.id, hit.score) for hit in empty] == [("2", 5.0), ("0", 3.0)]


@pytest.mark.parametrize("types", ["film", 3, ["film", None]])
def test_types_are_a_list_of_strings(types):
    with pytest.raises(InvalidArgumentError, match="types must be a list of strings"):
        Retriever(linked_index(), VectorSearch(), types=types)


def test_a_repeated_node_is_reranked_once_at_its_first_place():
    nodes = [Node("a", "a loom"), Node("b", "a loom card"), Node("a", "a loom card machine"), Node("b", "nothing")]
    assert rerank(GRanker(0), "loom card machine", nodes, relevance=WordOverlap()) == [(1, 2.0), (0, 1.0)]


def test_a_fused_node_keeps_trail_and_seed_score_of_the_list_that_brings_most():
    index = GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1"), ("1", "2")])

    def walked(start, seed_score):
        return given(1, trails=torch.tensor([[[start, 1]]]), seed_scores=torch.tensor([[seed_score]]))

    for weights, start, seed_score in (((1.0, 2.0), 2, 0.75), ((2.0, 1.0), 0, 0.25)):
        fusion = ReciprocalRankFusion(walked(0, 0.25), walked(2, 0.75), weights=weights)
        ranking = fusion(Queries.of(index, ["q"]))
        assert ranking.nodes[0, 0] == 1 and ranking.trails[0, 0].tolist() == [start, 1]
        assert ranking.seed_scores[0, 0] == seed_score
    beside = ReciprocalRankFusion(walked(0, 0.25), given(1), weights=(1.0, 2.0))(Queries.of(index, ["q"]))
    assert beside.trails[0, 0].tolist() == [-1, 1] and bool(beside.seed_scores[0, 0].isnan())


def test_nodes_that_are_all_equally_similar_share_the_restart_alike():
    index = GraphIndex.from_texts(["a", "b", "c"], vectors=[[1.0]] * 3, bm25=False)

    def scores(*operators):
        hits = Retriever(index, Pipeline(*operators, PersonalizedPageRank(passage_weight=0.5)), backfill=False).retrieve(
            "q", vector=[1.0]
        )
        return {hit.id: hit.score for hit in hits}

    assert scores() == pytest.approx({"0": 1 / 3, "1": 1 / 3, "2": 1 / 3})
    # Without edges the walk stays where it restarts: the seed 1 + 1/6, each other node 1/6, of 1.5 in all.
    assert scores(VectorSearch(1)) == pytest.approx({"0": 7 / 9, "1": 1 / 9, "2": 1 / 9})


class Structured:
    """A chat model with structured output: it answers with a value that is already parsed, and keeps the schemas."""

    def __init__(self, parsed):
        self.parsed, self.schemas = parsed, []

    def invoke(self, prompt):
        return {"parsed": self.parsed, "raw": "not JSON"}

    def with_structured_output(self, schema, include_raw):
        self.schemas.append(schema)
        return self


@pytest.mark.parametrize("answer", [[], {}, 0, False, ""])
def test_a_structured_answer_without_content_is_an_answer(answer):
    assert complete_json(Structured(answer), "Which?", {}, attempts=1) == answer


def test_a_schema_keeps_its_own_title_and_description():
    model = Structured(1)
    port = as_language_model(model)
    for schema in ({"type": "integer"}, {"title": "Year", "type": "integer"}, {"title": "Year", "description": "When."}):
        port.complete("When?", schema)
    assert [(schema["title"], schema["description"]) for schema in model.schemas] == [
        ("Answer", "The answer."),
        ("Year", "The answer."),
        ("Year", "When."),
    ]


def test_an_answer_of_brackets_without_end_is_not_json():
    with pytest.raises(LanguageModelError, match="in 1 attempts; of the last, it is not JSON"):
        complete_json(lambda prompt: "[" * 100_000, "Which?", {}, attempts=1)


def test_chains_that_end_elsewhere_become_pads_without_a_score():
    chains = Chains(torch.tensor([[[0, 1, -1], [1, 0, 2], [2, 1, 0]]]), torch.tensor([[3.0, 2.0, 1.0]]))
    kept = chains.ending_in(torch.tensor([True, False, True]))
    assert kept.nodes.tolist() == [[[-1, -1, -1], [1, 0, 2], [2, 1, 0]]]
    assert kept.scores.tolist() == [[-float("inf"), 2.0, 1.0]]


def films_and_people():
    """An index of two films and two people, with a fact of every kind about a loom."""
    nodes = [Node("Alien", "", "", "film"), Node("Aliens", "", "", "film"), Node("Sigourney", "", "", "person")]
    nodes += [Node("Ridley", "", "", "person")]
    edges = [
        Edge("Sigourney", "Ridley", "met", text="a loom loom loom"),
        Edge("Aliens", "Alien", "follows", text="a loom loom"),
        Edge("Sigourney", "Alien", "acts in", text="a loom"),
        Edge("Alien", "Aliens", "precedes", text="a loom among other words"),
    ]
    return GraphIndex.from_nodes(nodes, edges, edge_signals=True)


def test_types_limit_facts_to_those_that_join_two_nodes_of_them():
    index, search = films_and_people(), FactSearch(signal="edge_bm25")
    every = Retriever(index, search, backfill=False).retrieve("loom").facts
    assert sorted(hit.edge.relation for hit in every) == ["acts in", "follows", "met", "precedes"]
    hits = Retriever(index, search, types=["film"], backfill=False).retrieve("loom")
    assert sorted(ids(hits.nodes)) == ["Alien", "Aliens"]
    # Order and scores are those of all facts.
    between_films = [hit for hit in every if hit.edge.relation in ("follows", "precedes")]
    assert list(hits.facts) == between_films
    (person,) = Retriever(index, search, types=["person"], backfill=False).retrieve("loom").facts
    assert person.edge.relation == "met"


def test_edges_of_a_subgraph_have_weight_text_and_metadata_of_the_edges_walked():
    edges = [
        Edge("a", "b", "cites", 2.0, "In the first chapter.", {"page": 3}),
        Edge("c", "b", "cites", 0.5, "In passing.", {"page": 7}),
        Edge("c", "a", "quotes", 4.0),
    ]
    index = GraphIndex.from_nodes([Node("a", "a loom"), Node("b", "a card"), Node("c", "an engine")], edges[:2])
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform", steps=2))
    hits = Retriever(index, walk, backfill=False).retrieve("loom")
    assert {hit.id: str(hit.path) for hit in hits} == {"a": "a", "b": "a -[cites]-> b", "c": "a -[cites]-> b <-[cites]- c"}
    assert sorted(hits.subgraph().edges, key=lambda edge: edge.source) == edges[:2]
    (place,) = (place for place, hit in enumerate(hits) if hit.id == "b")
    assert hits[place : place + 1].subgraph().edges == tuple(edges[:1])
    one_way = GraphIndex.from_nodes([Node("a", "a loom"), Node("c", "an engine")], edges[2:])
    assert Retriever(one_way, walk, backfill=False).retrieve("loom").subgraph().edges == tuple(edges[2:])


def chains(nodes, scores):
    return {"chains": Chains(torch.tensor(nodes), torch.tensor(scores))}


def facts(rows, scores):
    return {"facts": Facts(torch.tensor(rows), torch.tensor(scores))}


@pytest.mark.parametrize(
    ("results", "told"),
    [
        (facts([[0, 2]], [[2.0, 1.0]]), r"as facts, returned row 2 with score 1\.0; expected rows from -1 to 1"),
        (facts([[1, 0]], [[2.0, float("nan")]]), "as facts, returned row 0 with score nan"),
        (facts([[0], [1]], [[1.0], [1.0]]), "returned Facts of 2 queries for 1"),
        (chains([[[0, 1]], [[1, 2]]], [[1.0], [1.0]]), "returned Chains of 2 queries for 1"),
        (chains([[[0, 1], [1, 2]]], [[1.0]]), r"chains of shape \[1, 2, 2\] beside \[1, 1\]"),
        ({"trails": torch.tensor([[[2, 1]]])}, "a trail that does not end in its node"),
        ({"trails": torch.tensor([[[2, -1]]])}, "a trail that does not end in its node; pads stand before a trail"),
    ],
)
def test_what_an_own_operator_returns_beside_nodes_is_checked(results, told):
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    with pytest.raises(InvalidArgumentError, match=f"Given.*{told}"):
        Retriever(index, given(2, **results), backfill=False).retrieve("loom")


def test_facts_chains_and_trails_of_an_own_operator_are_returned():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    results = {"trails": torch.tensor([[[-1, 1, 2]]]), **facts([[1, -1]], [[2.0, 1.0]]), **chains([[[0, 1, -1]]], [[1.0]])}
    hits = Retriever(index, given(2, **results), backfill=False).retrieve("loom")
    assert [(hit.kind, str(hit.path)) for hit in hits] == [("node", "1 -> 2"), ("chain", "0 -> 1"), ("fact", "1 -> 2")]
