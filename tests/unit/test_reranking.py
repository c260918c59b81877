"""Reranking of documents and nodes that are given."""

from graph_retrievers.core.compositions import FirstStage
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, Rerank, VectorSearch
from graph_retrievers.retrievers.excerpt import excerpt_index, rerank
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.fastinsight import GRanker
from tests.helpers import WordOverlap
from tests.rankings import ranked


def test_a_repeated_node_is_reranked_once_at_its_first_place():
    nodes = [Node("a", "a loom"), Node("b", "a loom card"), Node("a", "a loom card machine"), Node("b", "nothing")]
    assert rerank(GRanker(0), "loom card machine", nodes, relevance=WordOverlap()) == [(1, 2.0), (0, 1.0)]


def test_a_reranker_gets_as_many_candidates_as_are_asked_for_if_these_are_more():
    index = GraphIndex.from_texts(list("abcd"), vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    for k, depth, expected in ((1, 3, 3), (3, 1, 3), (2, 2, 2)):
        found = ranked(FirstStage(VectorSearch(), depth), Queries.of(index, ["q"], vectors=[[1.0, 0.0]], k=k))
        assert found.width == expected


def test_rerank_checks_and_keeps_k():
    index = GraphIndex.from_texts(["loom", "loom card"], relevance=lambda pairs: [len(text) for _, text in pairs])
    queries = Queries.of(index, ["loom"])
    assert ranked(Rerank(1), queries, ranked(BM25Search(), queries)).nodes.tolist() == [[1]]


def test_an_edge_of_the_index_comes_before_a_given_one():
    index = GraphIndex.from_nodes([Node("a", "loom"), Node("b", "card")], [Edge("a", "b", "x", weight=2.0)])
    nodes = [Node("a", "loom"), Node("b", "card"), Node("c", "new")]
    made = excerpt_index(nodes, index=index, edges=[Edge("a", "b", "x", weight=5.0)], relevance=lambda pairs: [0.0] * len(pairs))
    assert [edge.weight for edge in made.graph.edges()] == [2.0]
