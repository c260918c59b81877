"""Nodes with nothing to read: which they are, and what is told of them."""

import logging

import pytest
import torch
from langchain_core.documents import Document
from llama_index.core.schema import ImageNode, TextNode

from graph_retrievers import PPR, GraphIndex, Node, Retriever
from graph_retrievers.graph.blank import blank_nodes
from graph_retrievers.graph.corpus_graph import CorpusGraph
from tests.helpers import HashEmbedding


def blank(*nodes):
    graph = CorpusGraph.from_nodes(nodes)
    found = blank_nodes(graph)
    return set() if found is None else {name for name, is_blank in zip(graph.ids, found.tolist(), strict=True) if is_blank}


PDF = {"source": "looms.pdf"}
TOLD = Node("told", "A loom.", "Looms", metadata=PDF)


@pytest.mark.parametrize("text", ["", " \n\t", "\x0c", "\u200b\ufeff\u00ad", "\u3000"])
def test_a_node_without_text_and_title_has_nothing_to_read(text):
    assert blank(TOLD, Node("page", text)) == blank(TOLD, Node("page", text, " ")) == {"page"}


@pytest.mark.parametrize("text", ["7", "-", "織", "🧶", "\u200b."])
def test_any_letter_or_mark_is_read(text):
    assert blank(TOLD, Node("page", text)) == set()


def test_a_title_is_read_unless_it_is_that_of_the_file():
    assert blank(TOLD, Node("ada", "", "Ada", "person"), Node("card", "", "Card")) == set()
    # A passage and an entity may have one name.
    assert blank(TOLD, Node("entity", "", "Looms", "entity"), Node("other", "", "Looms")) == set()
    assert blank(TOLD, Node("page", "", "Looms", metadata=PDF), Node("section", "", "Cards", metadata=PDF)) == {"page"}
    scan = {"file_name": "scan.pdf", "file_path": "/scan.pdf"}
    assert blank(TOLD, Node("page", "", "scan.pdf", metadata=scan)) == {"page"}


def test_nodes_that_are_called_by_their_ids_alone_are_kept():
    assert blank(Node("a", ""), Node("b", "")) == set()
    assert blank(TOLD, Node("Ada", "", type="person"), Node("Babbage", "", type="person")) == set()


def test_pages_of_the_frameworks():
    pages = [Document(text, metadata={"source": "a.pdf", "title": "Annual report"}) for text in ("Looms.", "", "Cards.", " ")]
    index = GraphIndex.from_documents(pages)
    assert blank_nodes(index.graph).tolist() == [False, True, False, True]
    where = {"file_name": "a.pdf", "file_path": "/a.pdf"}
    nodes = [TextNode(id_=str(n), text=text, metadata=where) for n, text in enumerate(["Looms.", ""])]
    image = ImageNode(id_="image", image_path="a.png", metadata={"file_name": "a.png"})
    index = GraphIndex.from_documents([*nodes, image], vectors=torch.eye(3))
    assert blank_nodes(index.graph).tolist() == [False, True, False], "an image has its own vector"


def pages():
    texts = ["" if place % 3 == 0 else f"Page {place} of the loom." for place in range(25)]
    return GraphIndex.from_texts(
        texts, metadatas=[PDF] * 25, edges=[(str(n), str(n + 1), "next") for n in range(24)], embedding=HashEmbedding()
    )


def test_a_warning_at_the_build_and_the_description_count_them(caplog):
    with caplog.at_level(logging.WARNING, "graph_retrievers"):
        index = pages()
        Retriever(index, PPR()).retrieve("Which page?")
    (told,) = [record.getMessage() for record in caplog.records if "no text" in record.getMessage()]
    assert told.startswith("9 of 25 nodes have no text") and told.endswith("'0', '3', '6', '9', '12', '15', '18', '21', '24'.")
    found = index.describe()
    assert found.blank == 9 and "; without anything to read: 9" in str(found)
    assert "without anything" not in str(GraphIndex.from_texts(["a"]).describe())


def test_a_walk_passes_through_them_and_a_search_does_not_start_there():
    index = pages()
    hits = Retriever(index, PPR(), backfill=False).retrieve("Page 1 of the loom.", 25)
    assert len(hits) == 16 and not {hit.id for hit in hits} & {str(n) for n in range(0, 25, 3)}
    inner = {name for hit in hits for name in hit.path.nodes[1:-1]}
    assert any(int(name) % 3 == 0 for name in inner) and all(int(hit.path.nodes[0]) % 3 for hit in hits)
    assert {edge.relation for edge in index.graph.edges()} == {"next"} and index.graph.num_edges == 24


def test_changes_and_scopes_know_them(tmp_path):
    index = pages()
    assert not Retriever(index, PPR()).retrieve("Which page?", scope={"$id": {"$in": ["0", "3"]}}), "a scope has those of the whole"
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding())
    assert int(blank_nodes(loaded.graph).sum()) == 9
    changed = loaded.with_changes(upsert=[Node("0", "The first page.", metadata=PDF)])
    assert int(blank_nodes(changed.graph).sum()) == 8
