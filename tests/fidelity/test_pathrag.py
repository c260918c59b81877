"""PathRAG on worked cases: resources, order, contexts in the engine and in both frameworks, passages and keywords."""

import json

import pytest
import torch

from graph_retrievers import GraphIndex, PathRAG, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.hits import Hit, Hits
from graph_retrievers.search.queries import Queries
from tests.rankings import Ranking, ranked, ranked_hits
from tests.references.pathrag import best_paths, reliabilities, simple_paths

DETOUR = "sx xt sy yz zt".split()
# Four ways lead from a to c, so that nothing flows beyond the first step.
DENSE = "ac ab bc bd dc ae ec af fc ag".split()


def chains(edges, seeds, **options):
    ids = sorted(set("".join(edges)))
    index = GraphIndex.from_graph(CorpusGraph(ids, ids, edges=[tuple(edge) for edge in edges]), bm25=False)
    start = Ranking.of(torch.tensor([[ids.index(seed) for seed in seeds]]), -torch.arange(len(seeds)).float().unsqueeze(0), "Seeds")
    found = ranked(PathRAG(chains="hits", **options).operator(), Queries.of(index, ["?"]), start).chains
    named = ["".join(ids[n] for n in path if n >= 0) for path in found.nodes[0].tolist()]
    return dict(zip(named, found.scores[0].tolist(), strict=True))


def neighbours(edges):
    return {node: {other for edge in edges if node in edge for other in edge if other != node} for node in set("".join(edges))}


@pytest.mark.parametrize(
    ("edges", "seeds", "expected"),
    [
        (DETOUR, "st", {"sxt": 0.45, "syzt": 0.406667}),
        (DENSE, "ac", {"ac": 0.25, "abc": 0.125, "aec": 0.125, "afc": 0.125, "abdc": 0.083333}),
        (["st"], "st", {"st": 1.0}),
        (["sx", "ty"], "st", {}),
    ],
)
def test_worked_reliabilities(edges, seeds, expected):
    found = chains(edges, seeds)
    assert found == pytest.approx(expected, abs=1e-6) and list(found) == list(expected)
    paths = best_paths(neighbours(edges), seeds)
    assert {"".join(path): score for score, path in paths} == pytest.approx(expected, abs=1e-6)


def test_the_decay_and_the_threshold():
    paths = simple_paths(neighbours(DETOUR), "s", "t")
    assert chains(DETOUR, "st", alpha=0.5, theta=0.2) == pytest.approx({"sxt": 0.375, "syzt": (0.5 + 0.25 + 0.125) / 3}, abs=1e-6)
    # 0.5 flows on only below the threshold, 0.4 too.
    assert chains(DETOUR, "st", theta=0.5) == pytest.approx({"sxt": 0.25, "syzt": 0.5 / 3}, abs=1e-6)
    assert chains(DETOUR, "st", theta=0.4) == pytest.approx({"sxt": 0.45, "syzt": 0.3}, abs=1e-6)
    assert reliabilities(paths, theta=0.4) == pytest.approx([0.45, 0.3])
    assert list(chains(DETOUR, "st", paths=1)) == ["sxt"]


def test_of_paths_through_the_same_nodes_the_most_reliable_counts():
    edges = "ab bd dc ac bc ad".split()
    listed = [path for path in chains(edges, "abcd") if len(path) == 4]
    assert len({frozenset(path) for path in listed}) == len(listed) == 1


def test_of_many_paths_that_differ_by_rounding_the_shortest_comes_first():
    # One way of two steps and 19 of three, all of reliability 1 / 20; a mean of three such numbers is larger in its last bit.
    ways = zip("ABCDEFGHIJKLMNOPQRS", "abcdefghijklmnopqrs", strict=True)
    edges = ["Zy", "yz", *(step for one, other in ways for step in (f"Z{one}", one + other, f"{other}z"))]
    assert chains(edges, "Zz", alpha=1.0, theta=0, paths=1) == pytest.approx({"Zyz": 0.05})


def test_bad_options_are_refused():
    for options in ({"alpha": 1.5}, {"theta": -0.1}, {"paths": 0}, {"chains": "nodes"}):
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            PathRAG(**options)


def test_more_paths_than_there_are_may_be_asked_for():
    assert list(chains(DETOUR, "st", paths=10**30)) == list(chains(DETOUR, "st", paths=15))


TITLES = ["Ada", "Cloth", "Engine", "Loom", "Card"]


def library(**options):
    """Ada and the engine, joined directly; loom and card by way of cloth; all but cloth are near the question."""
    nodes = [Node(title.lower(), f"About {title}.", title) for title in TITLES]
    edges = [("loom", "cloth", "makes"), ("cloth", "card", "carries"), ("loom", "engine", "inspired")]
    edges += [("cloth", "engine", "covers"), ("ada", "engine", "wrote for")]
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [0.9, 0.43589], [0.6, 0.8]]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, **options)


QUESTION = {"query": "What did they weave?", "vector": [1.0, 0.0]}


def test_the_context_lists_the_most_reliable_path_last():
    retriever = Retriever(library(), PathRAG(chains="hits", paths=4), backfill=False)
    hits = retriever.retrieve(**QUESTION)
    scores = [hit.score for hit in hits.chains]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) > 1 and len(hits.chains) == 4
    listed = hits.to_context().partition("\n\n")[0].splitlines()[1:]
    assert listed == [hit.text for hit in hits.chains][::-1]
    assert [hit.path.score for hit in hits.chains] == scores
    # So does that of hits made of a ranking, as evaluation makes them.
    queries = Queries.of(retriever.index, [QUESTION["query"]], vectors=[QUESTION["vector"]])
    assert ranked_hits(retriever, queries)[0].to_context() == hits.to_context()


def test_paths_of_hits_rise_too_and_stand_behind_paths_without_a_score():
    hits = Retriever(library(), PathRAG(), backfill=False).retrieve(**QUESTION)
    assert {hit.kind for hit in hits} == {"node"} and hits[0].id == "ada"
    listed = hits.to_context().partition("\n\n")[0].splitlines()[1:]
    best = {hit.path.text: hit.path.score for hit in hits}
    assert [best[text] for text in listed] == sorted(best[text] for text in listed) and len(listed) > 1
    plain = Hit("a", "", 1.0, "", NodePath(("b", "a"), ("",), (True,)))
    assert Hits([*hits, plain]).to_context().splitlines()[1] == "b -> a"


def test_equally_reliable_paths_stand_in_reverse_order():
    paths = [NodePath(("a", name), ("",), (True,), score=score) for name, score in [("b", 0.5), ("c", 0.5), ("d", 0.7)]]
    context = Hits(Hit(path.nodes[-1], "", 1.0, "", path) for path in paths).to_context()
    assert context.splitlines()[1:4] == ["a -> c", "a -> b", "a -> d"]


def test_the_score_of_a_path_is_in_its_dict_and_read_from_it():
    path = NodePath(("a", "b"), ("r",), (True,), ("", ""), score=0.25)
    plain = json.loads(json.dumps(path.to_dict()))
    assert plain["score"] == 0.25 and NodePath.from_dict(plain).score == 0.25 and NodePath.from_dict(plain) == path
    assert "score" not in NodePath(("a",)).to_dict()
    assert NodePath.from_dict(plain | {"score": "high"}).score is None
    assert [NodePath.from_dict(wrong) for wrong in (None, "path", {"nodes": 3}, {"nodes": ["a", "b"]}, {"other": []})] == [None] * 5


def test_both_frameworks_list_the_most_reliable_path_last():
    import langchain_graph_retrievers as langchain
    import llama_graph_retrievers as llama

    def embed(texts):
        return [[1.0, 0.0] for _ in texts]

    for chains_as in ("path", "hits"):
        index = library(embedding=embed)
        expected = Retriever(index, PathRAG(chains=chains_as), k=4).retrieve(QUESTION["query"]).to_context()
        documents = langchain.GraphRetriever(index=index, k=4, system=PathRAG(chains=chains_as), provenance=True).invoke(
            QUESTION["query"]
        )
        assert langchain.to_context(documents) == expected
        nodes = llama.GraphRetriever(index, PathRAG(chains=chains_as), similarity_top_k=4).retrieve(QUESTION["query"])
        assert llama.to_context(nodes).partition("\n\nTexts")[0] == expected.partition("\n\nTexts")[0]


def test_passages_come_first_and_no_path_leads_through_them():
    nodes = [Node("p", "A text.", type="passage"), *(Node(name, "", type="thing") for name in ("a", "b", "c"))]
    edges = [("p", "a", "mentions"), ("p", "c", "mentions"), ("a", "b"), ("b", "c")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0, 0], [1, 0], [0, 1], [0.9, 0.1]], bm25=False)
    hits = Retriever(index, PathRAG(), backfill=False).retrieve("?", vector=[1.0, 0.0])
    assert [hit.path.nodes for hit in hits] == [("a", "p"), ("a",), ("a", "b", "c"), ("a", "b")]
    assert hits.to_context().splitlines()[1:3] == ["a <-[mentions]- p", "a -> b -> c"]
    assert [hit.id for hit in Retriever(index, PathRAG(), types=["passage"], backfill=False).retrieve("?", vector=[1.0, 0.0])] == [
        "p"
    ]


def test_keywords_find_the_entities():
    index = library(embedding=lambda texts: [[float("weave" in text), float("other" in text)] for text in texts])
    hits = Retriever(index, PathRAG(top_k=1), backfill=False)
    assert [hit.id for hit in hits.retrieve("What did they weave?")] == ["ada"]
    assert [hit.id for hit in hits.retrieve("What did they weave?", keywords={"low_level_keywords": ["other"]})] == ["cloth"]
    assert [hit.id for hit in hits.retrieve("What did they weave?", keywords={"high_level_keywords": ["other"]})] == ["ada"]
    answer = json.dumps({"high_level_keywords": [], "low_level_keywords": ["other"]})
    model = Retriever(index, PathRAG(top_k=1, language_model=lambda prompt: answer), backfill=False)
    assert [hit.id for hit in model.retrieve("What did they weave?")] == ["cloth"]


def test_an_extractor_finds_keywords_and_the_search_for_paths_asks_nothing():
    class Extractor:
        def extract(self, questions):
            return [{"low_level_keywords": ["other"]} for _ in questions]

    index = library(embedding=lambda texts: [[float("weave" in text), float("other" in text)] for text in texts])
    system = PathRAG(top_k=1, language_model=Extractor())
    assert [hit.id for hit in Retriever(index, system, backfill=False).retrieve("What did they weave?")] == ["cloth"]
    assert system.operator().language_model is None


def test_entities_that_may_not_be_returned_may_start():
    nodes = [Node("s", "", "s"), Node("t", "", "t"), Node("p", "about both", type="passage")]
    index = GraphIndex.from_nodes(nodes, [("s", "t"), ("p", "s")], vectors=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    hits = Retriever(index, PathRAG(), backfill=False).retrieve("?", vector=[1.0, 0.0], filter={"$type": "passage"}, seed_filter={})
    assert [hit.path.nodes[-2:] for hit in hits] == [("s", "p")]
