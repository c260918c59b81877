"""Small cases of behaviour, one line of the engine each, that larger tests pass over."""

import numpy as np
import pytest
import torch

from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, HybridSearch, Rerank, VectorSearch
from graph_retrievers.operators.first_stage import FirstStage
from graph_retrievers.operators.fusion import ReciprocalRankFusion, min_max_parts
from graph_retrievers.operators.mor import MixedTraversal
from graph_retrievers.operators.spreading import EntityLinking, GatedPropagation
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.retrievers.excerpt import excerpt_index
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.signatures import class_knobs
from graph_retrievers.search import candidates as found_lists
from graph_retrievers.signals.dense import DenseIndex
from tests.helpers import Written, hits_of, linked_index


def test_pads_stay_last_when_scores_are_minus_infinity():
    ranking = Ranking.of(torch.tensor([[3, -1]]), torch.zeros(1, 2), "A").reordered(torch.tensor([[1, 0]]))
    assert ranking.rescored(torch.full((1, 2), float("-inf"))).nodes.tolist() == [[3, -1]]


def test_a_reranker_gets_as_many_candidates_as_are_asked_for_if_these_are_more():
    index = GraphIndex.from_texts(list("abcd"), vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    for k, depth, expected in ((1, 3, 3), (3, 1, 3), (2, 2, 2)):
        found = FirstStage(VectorSearch(), depth)(Queries.of(index, ["q"], vectors=[[1.0, 0.0]], k=k))
        assert found.width == expected


def test_vectors_given_as_a_function_embed_other_texts():
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    queries = Queries.of(index, ["q"], vectors=lambda texts: [[float(len(text)), 0.0] for text in texts])
    assert queries.embed(["loom"]).tolist() == [[4.0, 0.0]]


def test_the_first_value_a_cache_holds_stays():
    cache, early = Cache(), []
    # What another thread stored while this one computed stays.
    found = cache.get("key", lambda: early.append(cache.get("key", object)) or object())
    assert found is early[0]


def test_the_first_of_equal_parts_tells_the_operator():
    index = GraphIndex.from_texts(["loom", "card"], vectors=[[1.0], [0.0]])
    retriever = Retriever(index, ReciprocalRankFusion(BM25Search(1), VectorSearch(1)), backfill=False)
    assert [hit.operator for hit in retriever.retrieve("loom", vector=[1.0])] == ["BM25Search"]


def test_fusion_takes_depth_nodes_of_each_list():
    index = GraphIndex.from_texts(["loom", "loom card", "card"], vectors=[[1.0], [0.5], [0.0]])
    fusion = ReciprocalRankFusion(BM25Search(), VectorSearch(), depth=1)
    assert len(Retriever(index, fusion, backfill=False).retrieve("loom", vector=[1.0])) == 1


def test_equal_scores_count_in_full():
    def parts(*scores):
        return min_max_parts(found_lists.Candidates.seeds(np.array([4, 2]), np.array(scores, np.float32), "A")).tolist()

    assert parts(0.5, 0.5) == parts(0.50000006, 0.5) == [1.0, 1.0], "what differs by rounding is equal"
    assert parts(1.0, 0.5) == [1.0, 0.0]


def test_backfill_without_a_query_vector_uses_words():
    index = GraphIndex.from_texts(["a loom", "a card", "a loom card"], vectors=[[1.0], [0.5], [0.0]])
    assert [hit.id for hit in Retriever(index, BM25Search(1), k=2).retrieve("loom")] == ["0", "2"]


def test_hybrid_search_of_what_may_be_walked_to():
    index = GraphIndex.from_texts(["loom", "card"], vectors=[[1.0], [0.5]])
    for seed_filter, found in ((None, 1), ({}, 0)):
        queries = Queries.of(index, ["loom"], vectors=[[1.0]], filter={"$id": "1"}, seed_filter=seed_filter)
        assert HybridSearch(1, returned=False)(queries).nodes.tolist() == [[found]]


def test_hybrid_search_looks_as_deep_as_its_k():
    index = GraphIndex.from_texts(["loom", "loom card", "card"], vectors=[[1.0], [0.5], [0.2]])
    assert HybridSearch(3, depth=1)(Queries.of(index, ["loom"], vectors=[[1.0]])).lengths().tolist() == [3]


def test_rerank_checks_and_keeps_k():
    index = GraphIndex.from_texts(["loom", "loom card"], relevance=lambda pairs: [len(text) for _, text in pairs])
    queries = Queries.of(index, ["loom"])
    assert Rerank(1)(queries, BM25Search()(queries)).nodes.tolist() == [[1]]


def test_excluded_types_are_not_entered_under_a_filter():
    graph = CorpusGraph(["a", "p", "b"], [""] * 3, types=["x", "passage", "x"], edges=[("a", "p"), ("a", "b")])
    queries = Queries.of(GraphIndex.from_graph(graph), ["?"], traversal_filter={"$id": {"$in": ["p", "b"]}})
    seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    found = GatedPropagation(gate="uniform", exclude_types=["passage"], steps=1)(queries, seeds)
    assert found.nodes.tolist() == [[0, 2]]


def _linking(names, entities, seed_filter=None, **options):
    vectors = [[1.0, 0.1 * row] for row in range(len(names))]
    graph = CorpusGraph(names, [""] * len(names))
    index = GraphIndex.from_graph(graph, vectors=vectors, embedding=lambda texts: [[1.0, 0.0] for _ in texts], bm25=False)
    queries = Queries.of(index, ["?"] * len(entities), seed_filter=seed_filter, inputs={"entities": entities})
    return EntityLinking(**options)(queries)


def test_linking_keeps_each_query_to_its_own_share():
    names = ["a", "b", "c", "d", "e"]
    assert _linking(names, [["u"], ["v", "w"]], budget=4).lengths().tolist() == [4, 2]


def test_an_entity_named_twice_counts_once():
    names = ["a", "b", "c", "d", "e"]
    assert _linking(names, [["u", "u"]], budget=4).lengths().tolist() == [4]


def test_scores_of_the_index_pass_the_filter():
    graph = CorpusGraph(["a", "b"], ["", ""])
    index = GraphIndex.from_graph(graph, vectors=[[1.0], [0.0]], embedding=lambda texts: [[1.0] for _ in texts], bm25=False)
    queries = Queries.of(index, ["?"], seed_filter={"$id": {"$in": ["a", "b"]}}, inputs={"entities": [["u"]]})
    assert EntityLinking(fallback_score="index")(queries).nodes.tolist() == [[0]]


def test_relations_of_a_short_trail():

    edges = [("a", "b", "x"), ("a", "b", "y")]
    graph = CorpusGraph(["a", "b"], [""] * 2, edges=edges)
    trails, relations = torch.tensor([[[-1, 0, 1]]]), torch.tensor([[[-1, 1]]])
    ranking = Ranking.of(torch.tensor([[1]]), torch.tensor([[1.0]]), "A", trails, relations=relations)
    assert str(hits_of(ranking, graph, 1)[0][0].path) == "a -[y]-> b"


def test_an_input_is_not_one_string():
    from graph_retrievers import MoR

    with pytest.raises(InvalidArgumentError, match="one value for each query"):
        MoR(linked_index()).retrieve_batch(["a", "b"], plan="ab")


class _Documented:
    """A class.

    Parameters
    ----------
    first : int
    second : int
        Both of these.
    third : int
        Another.
    """

    def __init__(self, index, *, first=1, second=2, third=3):
        pass


def test_parameters_documented_together():
    assert [knob.doc for knob in class_knobs(_Documented)] == ["Both of these.", "Both of these.", "Another."]


def test_an_edge_of_the_index_comes_before_a_given_one():
    index = GraphIndex.from_nodes([Node("a", "loom"), Node("b", "card")], [Edge("a", "b", "x", weight=2.0)])
    nodes = [Node("a", "loom"), Node("b", "card"), Node("c", "new")]
    made = excerpt_index(nodes, index=index, edges=[Edge("a", "b", "x", weight=5.0)], relevance=lambda pairs: [0.0] * len(pairs))
    assert [edge.weight for edge in made.graph.edges()] == [2.0]


def test_ties_of_faiss_go_to_the_lower_row():
    pytest.importorskip("faiss")
    # The lower rows are lower by rounding only, and there are more of the others than faiss is asked for.
    vectors = [[1.0]] * 20 + [[1.0000001]] * 20
    query = torch.tensor([[1.0]])
    assert DenseIndex(vectors, backend="faiss").search(query, 2)[1].tolist() == [[0, 1]]


def test_the_best_match_of_a_seed_counts():
    edges = [("a", "b", "x")]
    graph = CorpusGraph(["a", "b"], [""] * 2, types=["person", "film"], edges=edges)
    index = GraphIndex(graph, {"written": Written(2, lambda text, row: {"? one": 0.25, "? two": 0.75}.get(text, 0.5))})
    plan = [[{"type": "person", "restriction": phrase}, {"type": "film"}] for phrase in ("one", "two")]
    for paths in (plan, plan[::-1]):
        queries = Queries.of(index, ["?"], inputs={"plan": [paths]})
        assert MixedTraversal(matching="written", fill=False)(queries).seed_scores[0, 0].tolist() == 0.75
