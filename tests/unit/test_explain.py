"""Why a hit is there: ranks in the lists of a fusion, the path with texts of edges, and the rank without the graph."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge
from graph_retrievers.hits import Hit, NodePath
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import (
    BM25Search,
    FirstStage,
    GRanker,
    HybridSearch,
    Loop,
    Operator,
    OperatorKind,
    Pipeline,
    ReciprocalRankFusion,
    Rerank,
    STeX,
    VectorSearch,
)
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.helpers import HashEmbedding, hits_of, linked_edges, linked_index, linked_nodes
from tests.rankings import Chains, Facts, Ranking, lists_of, ranked

QUESTION = "Which machine of Charles Babbage reads punched cards?"


def some(rows, ranks=None, lists=("A", "B"), operator="first"):
    """One query; the ranks of each node in the lists A and B."""
    found = Candidates.seeds(np.array(rows), 1.0 / np.arange(1, len(rows) + 1), operator)
    return found if ranks is None else replace(found, columns={"ranks": np.array(ranks)}, lists=lists)


class Listed(Operator):
    """Gives the same nodes for every query."""

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, *nodes, name="Listed", **more):
        self.nodes, self.name, self.more = nodes, name, more

    def search(self, question, candidates):
        yield from ()
        nodes = torch.tensor([self.nodes], dtype=torch.int64)
        scores = torch.arange(len(self.nodes), 0, -1)[None]
        return lists_of(Ranking.of(nodes, scores, self.name, **self.more))[0]


def fused(*operators, **options):
    """The ranks of each node, by its row, for two queries that must not differ; and the names of the lists."""
    ranking = ranked(ReciprocalRankFusion(*operators, **options), Queries.of(linked_index(), ["a", "b"]))
    assert torch.equal(ranking.nodes[0], ranking.nodes[1]) and torch.equal(ranking.ranks[0], ranking.ranks[1])
    assert not ranking.ranks[ranking.nodes < 0].any()
    rows = zip(ranking.nodes[0].tolist(), ranking.ranks[0].tolist(), strict=True)
    return {node: ranks for node, ranks in rows if node >= 0}, ranking.lists


class TestRankings:
    def test_every_change_of_a_ranking_takes_the_ranks_along(self):
        found = some([4, 2, 7], [[1, 0], [0, 2], [3, 1]])
        assert found.top(2).columns["ranks"].tolist() == [[1, 0], [0, 2]]
        assert found.taken(np.array([2, 0])).columns["ranks"].tolist() == [[3, 1], [1, 0]]
        assert found.rescored(np.array([1.0, 3.0, 2.0])).columns["ranks"].tolist() == [[0, 2], [3, 1], [1, 0]]
        assert found.taken(np.array([1])).lists == ("A", "B")

    def test_nodes_of_a_ranking_without_ranks_are_in_no_list(self):
        found, bare = some([4, 2], [[1, 0], [0, 2]]), some([2, 9])
        both, turned = found.joined(bare), bare.joined(found)
        assert (both.nodes.tolist(), both.columns["ranks"].tolist()) == ([4, 2, 9], [[1, 0], [0, 2], [0, 0]])
        assert (turned.nodes.tolist(), turned.columns["ranks"].tolist()) == ([2, 9, 4], [[0, 0], [0, 0], [1, 0]])
        assert both.lists == turned.lists == ("A", "B")
        assert "ranks" not in bare.joined(some([3])).columns

    def test_nodes_of_a_ranking_with_other_lists_are_in_none_of_these(self):
        found = some([4], [[1, 2]])
        same, other = some([2], [[5, 6]]), some([2], [[5, 6, 7]], ("A", "B", "C"))
        assert found.joined(same).columns["ranks"].tolist() == [[1, 2], [5, 6]]
        assert found.joined(other).columns["ranks"].tolist() == [[1, 2], [0, 0]]
        assert found.joined(other).lists == ("A", "B")


class TestFusion:
    def test_each_rank_is_the_place_in_the_list(self):
        ranks, lists = fused(Listed(4, 2, 7, name="A"), Listed(2, name="B"), Listed(name="C"))
        assert ranks == {2: [2, 1, 0], 4: [1, 0, 0], 7: [3, 0, 0]} and lists == ("A", "B", "C")

    def test_on_an_index_it_is_that_of_the_operator_alone(self):
        operators = (VectorSearch(6), BM25Search(6), Pipeline(VectorSearch(2), STeX()))
        queries = Queries.of(linked_index(), [QUESTION, "ciphers", "the loom"])
        ranking = ranked(ReciprocalRankFusion(*operators), queries)
        alone = [ranked(operator, queries).nodes.tolist() for operator in operators]
        for b, (row, ranks) in enumerate(zip(ranking.nodes.tolist(), ranking.ranks.tolist(), strict=True)):
            for node, got in zip(row, ranks, strict=True):
                assert got == [rows[b].index(node) + 1 if node >= 0 and node in rows[b] else 0 for rows in alone]
        assert ranking.lists == ("VectorSearch", "BM25Search", "STeX")

    def test_what_is_beyond_the_depth_or_has_no_weight_is_in_no_list(self):
        assert fused(Listed(4, 2, 7, name="A"), Listed(7, name="B"), depth=2)[0] == {4: [1, 0], 7: [0, 1], 2: [2, 0]}
        ranks, lists = fused(Listed(4, name="A"), Listed(7, name="A"), Listed(5, name="B"), weights=(0, 1, 1))
        assert ranks == {5: [0, 1], 7: [1, 0]} and lists == ("A 2", "B"), "a name does not depend on the weights"

    def test_a_list_is_named_after_its_last_operator(self):
        loop = Loop(Listed(1, name="L"), budget=1)
        inner = ReciprocalRankFusion(Listed(4), Listed(2))
        operators = (Pipeline(Listed(1), loop), FirstStage(Listed(3, name="C"), 9), Pipeline(Listed(5), inner), Listed(6, name="L"))
        assert fused(*operators)[1] == ("L 1", "C", "ReciprocalRankFusion", "L 2")

    def test_of_nested_fusions_the_outermost_tells(self):
        inner = ReciprocalRankFusion(Listed(4, 2, name="A"), Listed(2, name="B"))
        assert fused(inner, Listed(4, name="C")) == ({4: [2, 1], 2: [1, 0]}, ("ReciprocalRankFusion", "C"))
        wider = ReciprocalRankFusion(Listed(4, name="A"), Listed(7, name="B"), Listed(7, name="C"))
        assert fused(inner, wider)[0] == {4: [2, 2], 2: [1, 0], 7: [0, 1]}

    def test_ranks_outlast_rerankers_and_what_is_appended_has_none(self):
        fusion = ReciprocalRankFusion(VectorSearch(3), BM25Search(3), depth=3)
        queries = Queries.of(linked_index(relevance=lambda pairs: [float(len(text)) for _, text in pairs]), [QUESTION])
        expected = dict(zip(*(t[0].tolist() for t in (ranked(fusion, queries).nodes, ranked(fusion, queries).ranks)), strict=True))
        for more in (Rerank(), GRanker(), STeX()):
            ranking = ranked(Pipeline(fusion, more), queries)
            got = dict(zip(ranking.nodes[0].tolist(), ranking.ranks[0].tolist(), strict=True))
            assert got == {node: expected.get(node, [0, 0]) for node in got} and expected.keys() - {-1} <= got.keys()


def graph():
    nodes = [Node(name, "Some text.", title) for name, title in zip("abc", ("Ada", "Babbage", "Engine"), strict=True)]
    edges = [Edge("a", "b", "knows", text="Ada met\nBabbage."), Edge("c", "b", "built by")]
    return CorpusGraph.from_nodes(nodes, edges)


def walked(shown=None, plain=None, **results):
    """Hits of one query: c reached from a over b; a itself."""
    ranking = Ranking.of(
        torch.tensor([[2, 0]]), torch.tensor([[0.9, 0.4]]), "Walk", torch.tensor([[[0, 1, 2], [-1, -1, 0]]]), **results
    )
    return hits_of(ranking, graph(), 5, shown, plain)[0]


class TestHits:
    def test_ranks_by_the_name_of_the_list(self):
        ranks = {"ranks": torch.tensor([[[0, 3], [0, 0]]]), "lists": ("A", "B")}
        first, second = walked(**ranks)
        assert first.ranks == {"A": None, "B": 3} and second.ranks == {"A": None, "B": None}
        assert first.explain().splitlines()[1] == "held by B at rank 3; not by A"
        assert second.explain().splitlines() == ["found by Walk", "not by A, B"]
        assert walked()[0].ranks == {} and isinstance(hash(first), int) and first == walked(**ranks)[0] != walked()[0]

    def test_the_whole_explanation(self):
        ranks = {"ranks": torch.tensor([[[1, 3], [2, 0]]]), "lists": ("A", "B")}
        first, second = walked(**ranks, plain=lambda query, node: {"c": 14}.get(node))
        assert first.explain().splitlines() == [
            "found by Walk",
            "held by A at rank 1, B at rank 3",
            "path: Ada -[knows]-> Babbage <-[built by]- Engine",
            "text of Ada -[knows]-> Babbage: Ada met Babbage.",
            "without the graph: rank 14",
        ]
        assert second.explain().splitlines()[2:] == ["without the graph: not among the first 100"]
        assert (first.plain_rank, second.plain_rank, walked()[0].plain_rank) == (14, None, None)

    def test_a_hidden_node_is_not_shown(self):
        told = walked(shown=torch.tensor([True, False, True]))[0]
        assert told.path.texts == ("", "") and told.explain() == "found by Walk\npath: Ada -[knows]-> b <-[built by]- Engine"

    def test_chains_and_facts(self):
        chains = Chains(torch.tensor([[[0, 1, 2]]]), torch.tensor([[0.7]]), "ChainSearch")
        facts = Facts(torch.tensor([[0, 1]]), torch.ones(1, 2), "FactSearch")
        chain, known, built = walked(chains=chains, facts=facts, plain=lambda query, node: 1)[2:]
        text = "text of Ada -[knows]-> Babbage: Ada met Babbage."
        assert chain.explain().splitlines() == [
            "found by ChainSearch",
            "chain: Ada -[knows]-> Babbage <-[built by]- Engine",
            text,
        ]
        assert known.explain().splitlines() == ["found by FactSearch", "edge: Ada -[knows]-> Babbage", text]
        assert built.explain() == "found by FactSearch\nedge: Engine -[built by]-> Babbage"
        assert chain.plain_rank is known.plain_rank is None

    def test_a_line_stays_a_line(self):
        hit = Hit("b", "", 1.0, "Walk", NodePath(("a\u2028b", "b"), ("r\n",), (True,), ("", "one\r\ntwo"), ("t\x85u",)))
        assert hit.explain().splitlines() == [
            "found by Walk",
            "path: a b -[r]-> one two",
            "text of a b -[r]-> one two: t u",
        ]

    def test_as_json(self):
        ranks = {"ranks": torch.tensor([[[0, 3], [1, 0]]]), "lists": ("A", "B")}
        plain = [json.loads(json.dumps(hit.to_dict())) for hit in walked(**ranks, plain=lambda query, node: {"c": 14}.get(node))]
        assert [(hit["ranks"], hit["plain_rank"]) for hit in plain] == [({"A": None, "B": 3}, 14), ({"A": 1, "B": None}, None)]
        assert "texts" not in plain[0]["path"]


def spreading():
    return Pipeline(BM25Search(1), GatedPropagation(gate="uniform"))


class TestPlainRank:
    @pytest.mark.parametrize("name", ["hybrid", "vector", "bm25"])
    @pytest.mark.parametrize("filters", [{}, {"filter": {"topic": "machines"}}, {"seed_filter": {"topic": "war"}}])
    def test_it_is_the_rank_in_the_search_that_the_index_has(self, name, filters):
        nodes, edges, model = linked_nodes(), linked_edges(), None if name == "bm25" else HashEmbedding()
        index = GraphIndex.from_nodes(nodes, edges, embedding=model, bm25=name != "vector")
        first = VectorSearch(2) if name == "vector" else BM25Search(2)
        questions = [QUESTION, "ciphers by punched cards", "the loom"]
        results = Retriever(index, Pipeline(first, GatedPropagation(gate="uniform"))).retrieve_batch(questions, 12, **filters)
        searched = Retriever(index, name, backfill=False).retrieve_batch(questions, 100, **filters)
        assert results[1]
        for hits, plain in zip(results, searched, strict=True):
            ranks = {hit.id: rank for rank, hit in enumerate(plain, 1)}
            assert [hit.plain_rank for hit in hits] == [ranks.get(hit.id) for hit in hits]

    def test_types_limit_it_too(self):
        nodes = [Node("a", "a loom", type="x"), Node("b", "a loom", type="y")]
        index = GraphIndex.from_nodes(nodes, [("a", "b")])
        (hit,) = Retriever(index, spreading(), types={"y"}).retrieve("loom")
        assert (hit.id, hit.plain_rank) == ("b", 1)

    def test_no_more_than_a_hundred_nodes_are_looked_at(self):
        index = GraphIndex.from_texts(["a loom"] * 102, edges=[("0", "100"), ("0", "99")])
        ranks = {hit.id: hit.plain_rank for hit in Retriever(index, spreading(), k=3).retrieve("loom")}
        assert ranks == {"0": 1, "99": 100, "100": None}

    def test_only_a_retriever_that_reads_the_graph_has_one(self):
        index = linked_index(relevance=lambda pairs: [1.0] * len(pairs))
        for name in ("hybrid", "re2"):
            (hit,) = Retriever(index, name).retrieve(QUESTION, 1)
            assert hit.plain_rank is None and "without the graph" not in hit.explain()
        for name in ("gar", "ppr", "fastinsight"):
            assert Retriever(index, name).retrieve(QUESTION, 1)[0].plain_rank is not None

    def test_the_question_is_embedded_when_the_rank_is_looked_at_and_once(self):
        model = HashEmbedding()
        hits = Retriever(linked_index(model), spreading(), backfill=False).retrieve(QUESTION)
        assert model.query_calls == 0
        assert [hit.plain_rank for hit in hits] == [hit.plain_rank for hit in hits] and model.query_calls == 1
        read = Retriever(linked_index(model), "fastinsight").retrieve(QUESTION)
        assert model.query_calls == 2 and read[0].plain_rank and model.query_calls == 2, "a known vector is used again"

    def test_without_vectors_of_the_questions_it_is_by_words_and_without_words_there_is_none(self):
        walk = Listed(1, name="L")
        walk.kind = OperatorKind.GRAPH_SEARCH
        for bm25, expected in ((True, 1), (False, None)):
            index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]], bm25=bm25)
            (hit,) = Retriever(index, walk, backfill=False).retrieve("card")
            assert hit.plain_rank == expected and ("without the graph" in hit.explain()) == bm25
            assert Retriever(index, walk).retrieve("card", 1, vector=[1.0, 0.9])[0].plain_rank == (1 if bm25 else 2)

    def test_tables_of_scores_are_not_kept_for_it(self):
        queries = Queries.of(linked_index(relevance=lambda pairs: [1.0] * len(pairs)), [QUESTION])
        assert queries.table() is not None and queries.pair_latents(np.array([0]), np.array([1])).numel()
        kept = queries.afresh()
        assert ("table", "dense") in queries.cache and ("table", "dense") not in kept.cache
        assert kept.latents.encoded == 0 and torch.equal(kept.vectors, queries.vectors)

    def test_copies_and_pickles_have_it_without_the_index(self):
        hits = Retriever(linked_index(), spreading()).retrieve(QUESTION, 5)
        expected = [hit.plain_rank for hit in hits]
        pickled = pickle.dumps(list(hits))
        assert b"GraphIndex" not in pickled
        for copied in (copy.deepcopy(list(hits)), pickle.loads(pickled)):  # noqa: S301
            assert copied == list(hits) and [hit.plain_rank for hit in copied] == expected
        assert replace(hits[0], score=0.0).plain_rank == expected[0]


def test_a_walk_without_edges_is_noted_and_a_search_is_not():
    index = GraphIndex.from_graph(CorpusGraph(["a", "b", "c"], ["a loom", "a card", "a drum"]), embedding=HashEmbedding())
    for name in ("ppr", "gar", "fastinsight", "spreading", "walk-fusion", "path-reranking"):
        found = Retriever(index, name, k=2).retrieve_batch(["a loom", "a card"])
        for hits in found:
            assert len([note for note in hits.notes if note.startswith("there are no edges, so that")]) == 1, name
            assert "edges=[...]" in hits.notes[-1] and "TitleMentions()" in hits.notes[-1]
            assert all(hit.explain().splitlines()[-1].endswith("there are no edges") for hit in hits)
    for name in ("vector", "bm25", "hybrid", "re2"):
        hits = Retriever(index, name).retrieve("a loom")
        assert not [note for note in hits.notes if "edges" in note] and not any(hit.reason for hit in hits)


def test_a_scope_without_edges_is_noted_as_that_of_the_scope():
    nodes = [Node(name, f"a {name}", metadata={"owner": name[0]}) for name in ("loom", "lever", "card", "drum")]
    index = GraphIndex.from_nodes(nodes, [("loom", "lever")], embedding=HashEmbedding())
    retriever = Retriever(index, "ppr")
    assert retriever.retrieve("a loom").notes == retriever.retrieve("a loom", scope={"owner": "l"}).notes == ()
    (note,) = retriever.retrieve("a card", scope={"owner": "c"}).notes
    assert note == "the scope has no edges, so walks along edges find little more than search does"


def test_what_fills_up_is_in_no_list():
    index = linked_index()
    hits = Retriever(index, ReciprocalRankFusion(VectorSearch(1), BM25Search(1)), k=5).retrieve(QUESTION)
    filled = [hit for hit in hits if hit.operator == "Backfill"]
    assert filled and all(hit.ranks == {"VectorSearch": None, "BM25Search": None} for hit in filled)
    assert all(1 in hit.ranks.values() for hit in hits if hit not in filled)


def test_a_fusion_with_a_walk_is_explained():
    hits = Retriever(linked_index(), ReciprocalRankFusion(HybridSearch(3), Pipeline(BM25Search(1), STeX())), k=4).retrieve(QUESTION)
    walk = next(hit for hit in hits if len(hit.path.nodes) > 1)
    assert f"path: {walk.path.text}" in walk.explain() and f"STeX at rank {walk.ranks['STeX']}" in walk.explain()
    assert f"without the graph: rank {walk.plain_rank}" in walk.explain()
