"""Mixed traversal on small cases."""

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import HybridSearch
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.mor.traversal import MixedTraversal
from tests.helpers import Written
from tests.rankings import ranked


def test_the_best_match_of_a_seed_counts():
    edges = [("a", "b", "x")]
    graph = CorpusGraph(["a", "b"], [""] * 2, types=["person", "film"], edges=edges)
    index = GraphIndex(graph, {"written": Written(2, lambda text, row: {"? one": 0.25, "? two": 0.75}.get(text, 0.5))})
    plan = [[{"type": "person", "restriction": phrase}, {"type": "film"}] for phrase in ("one", "two")]
    for paths in (plan, plan[::-1]):
        queries = Queries.of(index, ["?"], inputs={"plan": [paths]})
        assert ranked(MixedTraversal(matching="written", fill=False), queries).seed_scores[0, 0].tolist() == 0.75


def test_without_a_plan_and_a_reranker_it_finds_what_hybrid_search_finds():
    texts = ["card loom", *["card reading"] * 3, "mill"]
    index = GraphIndex.from_texts(texts, vectors=[[0.5, 0.5], *[[0.6, 0.4]] * 3, [1.0, 0.0]])
    queries = Queries.of(index, ["card"], vectors=[[1.0, 0.0]], k=3)
    # Words find 0, 1, 2 alike: 1. Vectors find 4, 1, 2: 1, 0, 0 of three, and 1, 0.2, 0.2 of all.
    assert ranked(MixedTraversal(candidates=3, fill=False), queries).nodes.tolist() == [[0, 1, 2]]
    hybrid, found = ranked(HybridSearch(100), queries), ranked(MixedTraversal(fill=False), queries)
    assert found.nodes.tolist() == hybrid.nodes.tolist() and found.origins.tolist() == [[1] * 5]
    assert ranked(MixedTraversal(candidates=3), queries).nodes.tolist() == [[1, 2, 0]], "of those that BM25 finds"
    assert ranked(MixedTraversal(candidates=3, fill=False, matching="bm25"), queries).nodes.tolist() == [[1, 2, 0]]
