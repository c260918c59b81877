"""The structure of pages: sections contain sections, and chunks follow in the order of their page, whatever order they come in."""

import random

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core.node_parser import SentenceSplitter

from graph_retrievers import GraphIndex
from graph_retrievers.construction import DocumentStructure, Links, TitleMentions, build_edges, read_folder
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import name_table

WORDS = "Cards with holes tell a loom which threads to lift, and the loom lifts them. "


def chunk(identity, text="", source="p.md", **metadata):
    return Node(identity, text, metadata={"source": source, **metadata})


def chain(nodes, **options):
    return [(source, target) for source, target, relation in build_edges(nodes, DocumentStructure(**options)) if relation == "next"]


def page(name):
    sections = "".join(f"\n\n## {name} {n}\n\n" + f"{name} {n} {WORDS}" * 25 for n in range(4))
    return Document(f"# {name}\n\n{WORDS * 30}{sections}", metadata={"source": f"{name}.md"})


def test_the_standard_splits_of_langchain_leave_no_chunk_alone():
    headings = MarkdownHeaderTextSplitter([("#", "Header 1"), ("##", "Header 2")])
    pieces = []
    for document in (page("Looms"), page("Mills")):
        for part in headings.split_text(document.page_content):
            part.metadata |= document.metadata
            pieces.append(part)
    chunks = RecursiveCharacterTextSplitter(chunk_size=400, chunk_overlap=40).split_documents(pieces)
    graph = GraphIndex.from_documents(chunks, edges=[DocumentStructure()]).graph
    assert len(chunks) > 50 and int(graph.degree.min()) > 0
    assert len([edge for edge in graph.edges() if edge.relation == "next"]) == len(chunks) - 2, "each page is one chain"


@pytest.mark.parametrize("start_index", [True, False])
def test_chunks_that_a_store_lists_by_id(start_index, caplog):
    splitter = RecursiveCharacterTextSplitter(chunk_size=400, chunk_overlap=40, add_start_index=start_index)
    chunks = splitter.split_documents([page("Looms"), page("Mills")])
    for place, document in enumerate(chunks):
        document.id = str(place)
    listed = random.Random(0).sample(chunks, len(chunks))

    def edges_of(documents):
        found = GraphIndex.from_documents(documents, edges=[DocumentStructure(), Links()]).graph.edges()
        return {(edge.source, edge.target, edge.relation) for edge in found}

    assert (edges_of(listed) == edges_of(chunks)) == start_index
    warned = "nothing tells the order of the chunks of 2 pages, such as 'Looms.md'" in caplog.text
    assert warned != start_index and ("add_start_index=True" in caplog.text) == warned


def test_nodes_of_llama_index_know_where_they_begin(caplog):
    documents = [LlamaDocument(text=page(name).page_content, metadata={"file_path": f"{name}.md"}) for name in ("Looms", "Mills")]
    nodes = SentenceSplitter(chunk_size=100, chunk_overlap=0).get_nodes_from_documents(documents)

    def edges_of(given):
        return {(e.source, e.target) for e in GraphIndex.from_documents(given, edges=[DocumentStructure()]).graph.edges()}

    assert len(nodes) > 30 and edges_of(nodes[::-1]) == edges_of(nodes) and not caplog.text


def test_where_a_node_of_llama_index_begins_comes_before_what_metadata_say(caplog):
    nodes = [
        Node(str(n), "", metadata={"source": "p.md", "start_char_idx": 9 - n}, origin={"start_char_idx": 10 * n}) for n in range(3)
    ]
    assert chain(nodes[::-1]) == [("0", "1"), ("1", "2")] and not caplog.text


@pytest.mark.parametrize(
    "places",
    [
        [{"start_index": n} for n in (0, 90, 700)],
        [{"start_index": str(n)} for n in (0, 90, 700)],
        [{"start_char_idx": n} for n in (0, 90, 700)],
        [{"chunk_index": n} for n in (1, 2, 10)],
        [{"chunk": n} for n in (1, 2, 10)],
        [{"position": n} for n in (0.5, 1, 10)],
        [{"row": n} for n in (0, 1, 2)],
        [{"page": n} for n in (0, 9, 10)],
        [{"page_number": n} for n in (1, 9, 10)],
        [{"page_label": n} for n in ("1", "9", "10")],
        # Places on pages of a file; those that repeat, or are not numbers, say nothing, and what comes next is asked.
        [{"page": p, "start_index": n} for p, n in ((0, 5), (0, 90), (1, 5))],
        [{"page_label": p, "chunk": n} for p, n in (("1", 5), ("1", 90), ("2", 5))],
        [{"start_index": 0, "chunk_index": n} for n in (1, 2, 10)],
        [{"start_index": n % 2, "page": n} for n in (1, 2, 10)],
        [{"start_index": None, "chunk": True, "row": n} for n in (1, 2, 10)],
        [{"start_index": "x", "page_label": "iv", "row": n} for n in (1, 2, 10)],
        [{"start_index": float("nan"), "row": n} for n in (1, 2, 10)],
        [{"row": n} | more for n, more in ((1, {}), (2, {"start_index": 3}), (10, {}))],
    ],
)
def test_what_tells_the_place_of_a_chunk(places, caplog):
    nodes = [chunk(str(n), **place) for n, place in enumerate(places)]
    for order in ((0, 1, 2), (2, 0, 1), (2, 1, 0)):
        assert chain([nodes[n] for n in order]) == [("0", "1"), ("1", "2")]
    assert not caplog.text


@pytest.mark.parametrize(
    ("places", "ordered"),
    [
        ([{}, {}, {}], ["0", "1", "2"]),
        ([{"start_index": 0}, {"start_index": 9}, {"start_index": 0}], ["0", "1", "2"]),
        ([{"start_index": 9}, {"start_index": 3}, {}], ["0", "1", "2"]),
        # More than a float holds.
        ([{"start_index": 9}, {"start_index": 10**400}, {"start_index": 3}], ["0", "1", "2"]),
        # The pages of a file are known, the order on one of them is not.
        ([{"page": 2}, {"page": 1}, {"page": 1}], ["1", "2", "0"]),
    ],
)
def test_what_does_not_tell_it_is_warned_of_once(places, ordered, caplog):
    nodes = [chunk(str(n), **place) for n, place in enumerate(places)]
    spec = DocumentStructure()
    for _ in range(2):
        edges = build_edges([*nodes, chunk("x", source="q.md")], spec)
        assert edges == [(a, b, "next") for a, b in zip(ordered, ordered[1:], strict=False)]
    assert caplog.text.count("nothing tells the order of the chunks of 1 pages, such as 'p.md'") == 1


def test_a_page_of_one_chunk_has_no_order_to_tell(caplog):
    assert chain([chunk("a"), chunk("b", source="q.md"), Node("c", "")]) == [] and not caplog.text


def test_links_mentions_and_names_lead_to_the_chunk_that_comes_first_on_the_page():
    def titled(identity, title, place, text=""):
        return Node(identity, text, title, metadata={"source": "p.md", "chunk": place})

    nodes = [
        titled("p3", "Power Looms", 3, "## Notes\n\nmore"),
        titled("p1", "Power Looms", 1),
        titled("p2", "Power Looms", 2, "## Notes\n\nsome"),
        chunk("a", "[p](p.md) [n](p.md#notes) [m](p.md#notes-1) on Power Looms", "a.md"),
    ]
    for listed in (nodes, nodes[::-1]):
        assert [target for _, target, _ in build_edges(listed, Links())] == ["p1", "p2", "p3"]
        assert build_edges(listed, TitleMentions()) == [("a", "p1", "mentions")]
        graph = CorpusGraph.from_nodes(listed)
        assert [graph.ids[row] for row in name_table(graph).rows("Power Looms")] == ["p1"]


def test_files_that_were_read_know_their_order(tmp_path, caplog):
    section = "".join(f"## S{n}\n\n{WORDS * 9}{n}\n\n" for n in range(11))
    (tmp_path / "a.md").write_text(f"# A\n\n{WORDS * 3}\n\n{section}")
    nodes = read_folder(tmp_path)
    assert [node.metadata["chunk_index"] for node in nodes] == list(range(len(nodes))) and len(nodes) > 10
    ids = [node.id for node in nodes]
    assert chain(sorted(nodes, key=lambda node: node.id)) == list(zip(ids, ids[1:], strict=False)) and not caplog.text


class TestStructure:
    def test_sections_contain_sections_and_chunks_follow_one_another(self):
        nodes = [
            chunk("a", "", "p.md", headings=["A"]),
            chunk("b", "", "p.md", headings=["A", "B"]),
            chunk("b2", "", "p.md", headings=["A", "B"]),
            chunk("c", "", "p.md", headings=["A", "B", "C"]),
            chunk("d", "", "p.md", headings=["A", "D"]),
            chunk("e", "", "p.md", headings=["E", "F"]),
            chunk("x", "", "q.md", headings=["A"]),
        ]
        edges = build_edges(nodes, DocumentStructure())
        assert [(s, t) for s, t, r in edges if r == "contains"] == [("a", "b"), ("b", "c"), ("a", "d"), ("a", "e")]
        assert [(s, t) for s, t, r in edges if r == "next"] == [("a", "b"), ("b", "b2"), ("b2", "c"), ("c", "d"), ("d", "e")]
        apart = build_edges(nodes, DocumentStructure(parts=False))
        assert [edge for edge in edges if edge not in apart] == [("b", "b2", "next")]

    def test_the_nearest_section_with_a_chunk_before_contains_those_below_it(self):
        paths = ["", "A B C", "A", "A B C D", "A B", "A B E", "A B C", "B", "A B C D", "A B C B"]
        nodes = [chunk(str(n), "", "p.md", headings=path.split()) for n, path in enumerate(paths)]
        edges = build_edges(nodes, DocumentStructure())
        contained = [("0", "1"), ("0", "2"), ("1", "3"), ("2", "4"), ("4", "5"), ("0", "7"), ("1", "9")]
        assert [(s, t) for s, t, r in edges if r == "contains"] == contained

    def test_where_a_heading_between_has_no_chunk_the_innermost_section_around_it_contains(self):
        nodes = [chunk(str(n), "", "p.md", headings=path.split()) for n, path in enumerate(["A", "A B", "A B D C"])]
        assert [edge[:2] for edge in build_edges(nodes, DocumentStructure()) if edge[2] == "contains"] == [("0", "1"), ("1", "2")]

    def test_without_headings_chunks_only_follow_one_another(self):
        nodes = [chunk(str(n), "", "p.md") for n in range(3)] + [Node("alone", "")]
        assert build_edges(nodes, DocumentStructure()) == [("0", "1", "next"), ("1", "2", "next")]

    @pytest.mark.parametrize(
        ("metadata", "path"),
        [
            ({"headings": ["A", "B"]}, ("A", "B")),
            ({"Header 2": "B", "Header 1": "A"}, ("A", "B")),
            ({"header_path": "/A/B/"}, ("A", "B", "C")),
            ({"header_path": "/"}, ("C",)),
            ({"header": "A"}, ()),
        ],
    )
    def test_headings_as_splitters_write_them(self, metadata, path):
        assert heading_path(Node("a", "### C\ntext", metadata=metadata)) == path
