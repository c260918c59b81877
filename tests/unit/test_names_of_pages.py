"""A title that the chunks of a page share is the name of the page; hubs are damped and activation stays bounded."""

import pytest
import torch

from graph_retrievers.construction import TitleMentions, build_edges
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import name_table
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.spreading_activation import SpreadingActivation

LONG = "words that fill a passage with more than twenty words so that it is one and not an entity of some knowledge graph "


def chunk(identity, title, source="", text=""):
    return Node(identity, text, title, metadata={"source": source} if source else {})


def test_the_name_of_a_page_stands_for_its_first_chunk():
    nodes = [
        *(chunk(f"a{n}", "Looms", "a.md") for n in range(85)),
        chunk("b", "Looms", "b.md"),
        chunk("c", "Looms"),
        chunk("d", "Looms"),
    ]
    table = name_table(CorpusGraph.from_nodes(nodes))
    assert table.rows("Looms") == [0, 85, 86, 87], "one for each page, and every node without one"
    assert table.find("What do Looms do?") == [("Looms", [0, 85, 86, 87])]


def test_a_mention_leads_to_the_first_chunk_of_a_page_and_not_from_the_page_to_itself():
    nodes = [
        chunk("a1", "Power Looms", "a.md", "Power Looms weave."),
        chunk("a2", "Power Looms", "a.md", "More on Power Looms."),
        chunk("a3", "Power Looms: Notes", "a.md", "Notes on Power Looms."),
        chunk("b", "Engine", "b.md", "It drives Power Looms."),
    ]
    assert build_edges(nodes, TitleMentions()) == [("b", "a1", "mentions")]


def test_titles_that_are_ordinary_words_give_no_mentions(caplog):
    texts = [Node(f"t{n}", "all of our tables are PostgreSQL tables") for n in range(41)]
    nodes = [Node("tables", "", "tables"), Node("pg", "", "PostgreSQL"), Node("x", "see PostgreSQL and tables", "Other"), *texts]
    with caplog.at_level("INFO"):
        assert build_edges(nodes, TitleMentions()) == []
    assert "skipped 2 titles that are ordinary words of these texts, such as 'PostgreSQL'" in caplog.text
    # Twenty texts hold each title.
    assert len(build_edges(nodes[:22], TitleMentions())) == 2 * 20


@pytest.mark.parametrize("shape", ["star", "clique", "two hubs"])
def test_activation_over_passages_stays_bounded_whatever_the_degree(shape):
    count = 60 if shape == "clique" else 2000
    ids = [str(n) for n in range(count)]
    pairs = {
        "star": [(0, n) for n in range(1, count)],
        "clique": [(a, b) for a in range(count) for b in range(a)],
        "two hubs": [(hub, n) for hub in (0, 1) for n in range(2, count)],
    }[shape]
    vectors = torch.nn.functional.normalize(torch.rand(count, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    titles = [f"Name{n}" for n in ids]
    graph = CorpusGraph(ids, [LONG] * count, titles=titles, edges=[(ids[a], ids[b]) for a, b in pairs])
    index = GraphIndex.from_graph(graph, vectors=vectors)
    for seeds in (["Name0"], [f"Name{n}" for n in range(2, 50)]):
        hits = SpreadingActivation(index, gate="uniform", k=count, backfill=False).retrieve(
            "?", entities=seeds, vector=[1, 0, 0, 0]
        )
        assert sum(hit.score for hit in hits) <= 1.7**3 * len(seeds)
        published = SpreadingActivation(index, gate="uniform", k=count, backfill=False, hub_exponent=0)
        if len(seeds) > 1 and shape == "star":
            assert max(hit.score for hit in published.retrieve("?", entities=seeds, vector=[1, 0, 0, 0])) > 30, "as published"


def test_a_knowledge_graph_is_walked_as_published():
    graph = CorpusGraph(["a", "b", "c"], ["", "", ""], edges=[("a", "b"), ("a", "c")])
    index = GraphIndex.from_graph(graph)
    hits = SpreadingActivation(index, gate="uniform", backfill=False, steps=1).retrieve("a")
    assert [(hit.id, round(hit.score, 3)) for hit in hits][1:] == [("b", 0.7), ("c", 0.7)]
    damped = SpreadingActivation(index, gate="uniform", backfill=False, hub_exponent=1, steps=1).retrieve("a")
    assert [(hit.id, round(hit.score, 3)) for hit in damped][1:] == [("b", 0.35), ("c", 0.35)]


def test_activation_over_parallel_edges_is_damped_by_their_number():
    vectors = [[1.0, 0.0]] * 2
    graph = CorpusGraph(["a", "b"], [LONG] * 2, titles=["Ada", "Babbage"], edges=[("a", "b", f"r{n}") for n in range(100)])
    index = GraphIndex.from_graph(graph, vectors=vectors)
    walk = SpreadingActivation(index, gate="uniform", semantics="rows", backfill=False)
    hits = walk.retrieve("?", entities=["Ada"], vector=[1, 0])
    assert sum(hit.score for hit in hits) <= 1.7**3
