"""Links between pages that were split, resolved to the chunk that a fragment names; the structure of pages."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_text_splitters import (
    HTMLHeaderTextSplitter,
    HTMLSemanticPreservingSplitter,
    Language,
    MarkdownHeaderTextSplitter,
    RecursiveCharacterTextSplitter,
)
from llama_index.core import Document as LlamaDocument
from llama_index.core.node_parser import HierarchicalNodeParser, MarkdownNodeParser, SentenceSplitter

from graph_retrievers import GraphIndex
from graph_retrievers.construction import DocumentStructure, Links, build_edges
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node


def chunk(identity, text="", address="", **metadata):
    return Node(identity, text, metadata={"source": address, **metadata} if address else metadata)


def pairs(edges):
    return [(source, target) for source, target, _ in edges]


class TestLinks:
    def test_a_fragment_leads_to_its_chunk_and_other_links_to_the_first_chunk_of_a_page(self):
        nodes = [
            chunk("a", '<a href="b.html#two">x</a> <a href="b.html">y</a> <a href="b.html#none">z</a>', "a.html"),
            chunk("b1", "<h1>B</h1>", "b.html"),
            chunk("b2", '<h2 id="two">Two</h2>', "b.html"),
            chunk("b3", 'on <a href="#two">this page</a>', "b.html"),
        ]
        assert pairs(build_edges(nodes, Links())) == [("a", "b2"), ("a", "b1"), ("b3", "b2")]

    def test_never_to_every_chunk(self):
        nodes = [chunk("a", "[b](b.md)", "a.md"), *(chunk(f"b{n}", f"part {n}", "b.md") for n in range(85))]
        assert pairs(build_edges(nodes, Links())) == [("a", "b0")]

    def test_an_anchor_that_a_later_chunk_repeats_stays_with_the_first(self):
        nodes = [chunk(f"p{n}", f'<p id="{name}">{n}', "p.html") for n, name in enumerate(["top", "x", "between", "x"])]
        nodes.append(chunk("q", '<a href="p.html#x">', "q.html"))
        assert pairs(build_edges(nodes, [Links()])) == [("q", "p1")]

    def test_headings_around_a_chunk_are_counted_in_the_anchors_of_later_ones(self):
        """The second "Notes" is #notes-1, though the first has no chunk of its own."""
        paths = [("T",), ("T", "Notes", "Deep"), ("T", "Other"), ("T", "Other", "Notes")]
        nodes = [chunk(f"p{n}", "text", "p.md", headings=list(path)) for n, path in enumerate(paths)]
        nodes.append(chunk("q", "[n](p.md#notes-1)", "q.md"))
        assert pairs(build_edges(nodes, [Links()])) == [("q", "p3")]

    def test_headings_that_a_chunk_repeats_are_counted_once(self):
        """The overlap begins at the second of the two headings that are written alike: the last is the third on the page."""
        nodes = [
            chunk("a", "# P\n\n## Notes\n\nx\n\n## Notes\n\nmore\n", "p.md", chunk=0),
            chunk("b", "## Notes\n\nmore\n\n## Notes\n\nlast", "p.md", chunk=1),
            chunk("c", "[x](p.md#notes-2) [y](p.md#notes-3)", "c.md"),
        ]
        assert pairs(build_edges(nodes, Links())) == [("c", "b"), ("c", "a")]

    def test_a_reference_in_one_chunk_and_its_definition_in_another(self):
        nodes = [chunk("a1", "see [the cards][1]", "a.md"), chunk("a2", "[1]: b.md", "a.md"), chunk("b", "", "b.md")]
        assert pairs(build_edges(nodes, Links())) == [("a1", "b")]

    def test_the_definitions_of_a_chunk_come_before_those_of_others(self):
        nodes = [chunk("1", "[x][1]\n\n[1]: b.md", "a.md"), chunk("2", "[y][1]\n\n[1]: c.md", "a.md"), chunk("3", "[z][1]", "a.md")]
        nodes += [chunk("b", "", "b.md"), chunk("c", "", "c.md")]
        assert pairs(build_edges(nodes, Links())) == [("1", "b"), ("2", "c"), ("3", "b")]

    def test_no_link_at_all_is_told(self, caplog):
        nodes = [chunk("a", "no tags", "a.md", hrefs=[]), chunk("b", "", "b.md")]
        build_edges(nodes, Links())
        assert "found no link in the texts. If a splitter or loader dropped the tags, keep them" in caplog.text
        build_edges(nodes, Links(field="hrefs"))
        assert "found no link in the field 'hrefs'" in caplog.text

    def test_links_that_read_folder_kept_are_pointed_out(self, caplog):
        nodes = [chunk("a", "See b, and [[Slot]].", "a.md", links=["/b.md"]), chunk("b", "", "b.md", links=[])]
        assert build_edges(nodes, Links()) == []
        assert "found no link in the texts" in caplog.text and "'links': Links(field='links')" in caplog.text
        caplog.clear()
        assert pairs(build_edges(nodes, Links(field="links"))) == [("a", "b")]
        build_edges([chunk("a", "See [b](b.md).", "a.md", links=["/b.md"]), nodes[1]], Links())
        assert "found no link" not in caplog.text

    def test_two_specifications_that_find_the_same_edge(self):
        nodes = [chunk("a", "[b](b.md)", "a.md", links="b.md"), chunk("b", "", "b.md")]
        assert build_edges(nodes, [Links(), Links(field="links")]) == [("a", "b", "links")]

    def test_links_to_elsewhere_are_counted(self, caplog):
        nodes = [chunk("a", "[x](https://else.org) [y](gone.md)", "a.md"), chunk("b", "[a](a.md)", "b.md")]
        with caplog.at_level("INFO"):
            assert pairs(build_edges(nodes, Links())) == [("b", "a")]
        assert "skipped references to nodes outside the corpus: 2" in caplog.text

    def test_what_more_than_half_of_the_pages_link_to_is_navigation(self):
        nodes = [chunk(str(n), f"[home](0.md) [next]({(n + 1) % 12}.md)", f"{n}.md") for n in range(12)]
        assert ("5", "0") not in pairs(build_edges(nodes, Links())) and ("5", "6") in pairs(build_edges(nodes, Links()))
        few = nodes[:9]
        assert ("5", "0") in pairs(build_edges(few, Links()))

    def test_a_list_that_a_splitter_copied_to_all_chunks_belongs_to_the_page(self):
        copied = {"links": [{"href": "b.md", "text": "the cards"}, {"href": "c.md", "text": "not there"}, "d.md"]}
        nodes = [
            chunk("a1", "begins", "a.md", **copied),
            chunk("a2", "see the cards", "a.md", **copied),
            chunk("b", "", "b.md"),
            chunk("c", "", "c.md"),
            chunk("d", "", "d.md"),
        ]
        assert pairs(build_edges(nodes, Links(field="links"))) == [("a1", "c"), ("a1", "d"), ("a2", "b")]

    def test_nodes_without_an_address(self):
        nodes = [chunk("a", "[b](b.md)"), chunk("b", "[x](#y) [z](a)", "b.md"), Node("c", "[b](b.md)")]
        assert pairs(build_edges(nodes, Links())) == [("a", "b"), ("c", "b")]

    @pytest.mark.parametrize(
        ("nodes", "spec", "message"),
        [
            ([Node("a", "")], Links(), "No node has the metadata field 'url' or 'source' or 'path' or 'file_path'"),
            ([chunk("a", "", "a.md")], Links("link"), "No node has the metadata field 'link', so links"),
            ([chunk("a", "", "a.md")], Links(field="hrefs"), "'hrefs' of Links.*; the metadata fields are: source"),
            ([chunk("a", "", "a.md", links=[3])], Links(field="links"), "'links' of 'a' holds 3; expected addresses"),
            ([chunk("a", "", "a.md", links=5)], Links(field="links"), "'links' of 'a' holds 5; expected addresses"),
            ([Node("a", "")], DocumentStructure(), "which says from what page a chunk is"),
        ],
    )
    def test_errors_say_what_is_missing(self, nodes, spec, message):
        with pytest.raises(InvalidArgumentError, match=message):
            build_edges(nodes, spec)


LONG = "Weavers work on them all day long. " * 8
LOOMS = f"""<html><body><h1>Looms</h1><p>Looms weave cloth. {LONG}</p><h2 id="cards">Cards</h2>
<p>Cards drive a loom. See <a href="engine.html#mill">the mill</a>.</p></body></html>"""
ENGINE = f"""<html><body><h1>Engine</h1><p>An engine of brass. {LONG}</p><h2 id="mill">The mill</h2>
<p>The mill computes; it reads <a href="looms.html#cards">cards</a>.</p></body></html>"""
LOOMS_MD = f"# Looms\n\nLooms weave cloth. {LONG}\n\n## Cards\n\nCards drive a loom. See [the mill](engine.md#the-mill).\n"
ENGINE_MD = f"# Engine\n\nAn engine of brass. {LONG}\n\n## The mill\n\nThe mill computes; it reads [cards](looms.md#cards).\n"


def linked_texts(documents, *specs):
    """The first words of the two ends of each link."""
    graph = GraphIndex.from_documents(documents, edges=list(specs)).graph
    texts = dict(zip(graph.ids, graph.texts, strict=True))
    return [(texts[edge.source], texts[edge.target]) for edge in graph.edges() if edge.relation == "links"]


class TestSplitters:
    """Documents of the frameworks' own splitters are joined by the path of their page."""

    def test_recursive_character_text_splitter_on_html(self):
        pages = [Document(LOOMS, metadata={"source": "looms.html"}), Document(ENGINE, metadata={"source": "engine.html"})]
        splitter = RecursiveCharacterTextSplitter.from_language(Language.HTML, chunk_size=250, chunk_overlap=0)
        found = linked_texts(splitter.split_documents(pages), Links(), DocumentStructure())
        assert len(found) == 2
        assert all("cards" in source.lower() and "mill" in target.lower() for source, target in found[:1])
        assert "engine.html#mill" in found[0][0] and 'id="mill"' in found[0][1]
        assert "looms.html#cards" in found[1][0] and 'id="cards"' in found[1][1]

    def test_recursive_character_text_splitter_on_markdown(self):
        pages = [Document(LOOMS_MD, metadata={"source": "d/looms.md"}), Document(ENGINE_MD, metadata={"source": "d/engine.md"})]
        splitter = RecursiveCharacterTextSplitter.from_language(Language.MARKDOWN, chunk_size=200, chunk_overlap=0)
        found = linked_texts(splitter.split_documents(pages), Links())
        assert [target.startswith(("## The mill", "## Cards")) for _, target in found] == [True, True]

    def test_markdown_header_text_splitter_whose_headings_are_metadata(self):
        splitter = MarkdownHeaderTextSplitter([("#", "Header 1"), ("##", "Header 2")])
        documents = []
        for name, text in (("looms.md", LOOMS_MD), ("engine.md", ENGINE_MD)):
            for document in splitter.split_text(text):
                document.metadata["source"] = name
                documents.append(document)
        found = linked_texts(documents, Links(), DocumentStructure())
        assert [(source[:5], target[:8]) for source, target in found] == [("Cards", "The mill"), ("The m", "Cards dr")]

    @pytest.mark.filterwarnings("ignore:The class `HTMLSemanticPreservingSplitter` is in beta")
    def test_html_semantic_preserving_splitter_that_turns_links_into_markdown(self):
        pages = [Document(LOOMS, metadata={"source": "looms.html"}), Document(ENGINE, metadata={"source": "engine.html"})]
        headers = [("h1", "Header 1"), ("h2", "Header 2")]
        splitter = HTMLSemanticPreservingSplitter(headers, preserve_links=True, preserve_parent_metadata=True)
        found = linked_texts(splitter.transform_documents(pages), Links())
        assert [source for source, _ in found] == [
            "Cards drive a loom. See [the mill](engine.html#mill) .",
            "The mill computes; it reads [cards](looms.html#cards) .",
        ]
        assert [target.split()[0] for _, target in found] == ["An", "Cards"], "of an id that is gone, and of a heading's slug"

    def test_html_header_text_splitter_with_links_kept_by_the_loader(self):
        splitter = HTMLHeaderTextSplitter([("h1", "Header 1"), ("h2", "Header 2")])
        kept = {"looms.html": ["engine.html#the-mill"], "engine.html": [{"url": "looms.html#cards", "text": "cards"}]}
        documents = []
        for name, text in (("looms.html", LOOMS), ("engine.html", ENGINE)):
            for document in splitter.split_text(text):
                document.metadata |= {"source": name, "links": kept[name]}
                documents.append(document)
        found = linked_texts(documents, Links(field="links"), DocumentStructure())
        assert len(found) == 2 and "Cards" in found[1][1]

    def test_markdown_node_parser_gives_the_outline(self):
        text = "# A\n\nintro\n\n## B\n\nb\n\n## C\n\nc\n\n### D\n\nd\n"
        nodes = MarkdownNodeParser().get_nodes_from_documents([LlamaDocument(text=text, metadata={"file_path": "a.md"})])
        graph = GraphIndex.from_documents(nodes, edges=[DocumentStructure()]).graph
        name = {node: text.strip("# ")[:1] for node, text in zip(graph.ids, graph.texts, strict=True)}
        contained = [(name[edge.source], name[edge.target]) for edge in graph.edges() if edge.relation == "contains"]
        assert contained == [("A", "B"), ("A", "C"), ("C", "D")]

    def test_nodes_with_children_are_left_out(self):
        page = LlamaDocument(text=LOOMS_MD, metadata={"file_path": "looms.md"})
        other = LlamaDocument(text=ENGINE_MD, metadata={"file_path": "engine.md"})
        nodes = HierarchicalNodeParser.from_defaults([128, 32]).get_nodes_from_documents([page, other])
        graph = GraphIndex.from_documents(nodes, edges=[Links(), DocumentStructure()]).graph
        inner = {node.node_id for node in nodes if node.child_nodes}
        assert inner and not inner & {edge.source for edge in graph.edges()}
        assert not inner & {edge.target for edge in graph.edges()}

    @pytest.mark.parametrize(
        "parser",
        [SentenceSplitter(chunk_size=60, chunk_overlap=0), MarkdownNodeParser(), HierarchicalNodeParser.from_defaults([256, 64])],
    )
    def test_llama_index_parsers(self, parser):
        pages = [
            LlamaDocument(text=LOOMS_MD, metadata={"file_path": "/home/me/looms.md"}),
            LlamaDocument(text=ENGINE_MD, metadata={"file_path": "/home/me/engine.md"}),
        ]
        found = linked_texts(parser.get_nodes_from_documents(pages), Links(), DocumentStructure())
        assert found and all("engine.md#the-mill" in s or "looms.md#cards" in s for s, _ in found)
        assert all("The mill" in t or "Cards" in t for _, t in found)


def log_of(caplog, nodes, spec):
    caplog.clear()
    with caplog.at_level("INFO"):
        edges = build_edges(nodes, spec)
    return pairs(edges), caplog.text


class TestDeadLinks:
    """What leads nowhere is named in the log; what leads to other sites and files is counted."""

    def test_pages_and_anchors_that_are_not_there(self, caplog):
        text = (
            "[1](gone.md) [2](../x/gone/) [3](b.md#gone) [4](b.md#here) [5](#no) [6](/root.html?q=1) [7](b.md#top) "
            "[8](b.md#:~:text=y) "
            "[9](https://x.org/a.md) [10](mailto:a@x.org) [11](picture.png) [12](setup.py) [13](#a) [14](//x.org/b)"
        )
        nodes = [chunk("a", f"# A\n\n{text}", "d/a.md"), chunk("b", "# Here", "d/b.md"), Node("c", "[1](gone.md) [2](#no)")]
        found, told = log_of(caplog, nodes, Links())
        assert found == [("a", "b")]
        assert "skipped references to nodes outside the corpus: 10; links to pages that are not there: 3, such as " in told
        assert "such as 'gone.md' on 'd/a.md', '../x/gone/' on 'd/a.md', '/root.html?q=1' on 'd/a.md'; links to anchors" in told
        assert "anchors that are not there: 2, such as 'b.md#gone' on 'd/a.md', '#no' on 'd/a.md'." in told

    def test_each_is_named_once_and_the_list_is_bounded(self, caplog):
        links = " ".join(f"[x](gone{n}.md) [y](b.md#no{n})" for n in range(11))
        nodes = [chunk("a1", links, "a.md"), chunk("a2", links, "a.md"), chunk("b", "", "b.md"), chunk("c", links[:13], "c.md")]
        _, told = log_of(caplog, nodes, Links())
        assert "pages that are not there: 12, such as 'gone0.md' on 'a.md', 'gone1.md' on 'a.md', " in told
        assert told.count(" on 'a.md'") == 20 and told.count(", ...") == 2
        assert "b.md#no10" not in told and "b.md#no9" in told
        # All eight are named.
        _, told = log_of(caplog, [chunk("a", " ".join(f"[x](gone{n}.md)" for n in range(8)), "a.md")], Links())
        assert "pages that are not there: 8, such as 'gone0.md'" in told and "'gone7.md' on 'a.md'." in told and ", ..." not in told

    def test_nothing_is_said_where_nothing_is_dead(self, caplog):
        _, told = log_of(caplog, [chunk("a", "[b](b.md#b) [x](https://x.org/)", "a.md"), chunk("b", "# B", "b.md")], Links())
        assert "not there" not in told and "outside the corpus: 1." in told


class TestSites:
    """Absolute links to the place where the pages are published."""

    NODES = [
        chunk("a", "[1](https://x.org/docs/guide/b.html#cards) [2](https://x.org/docs) [3](https://x.org/docsy/a)", "docs/a.md"),
        chunk("b", "## Cards", "docs/guide/b.md"),
        chunk("i", "[gone](https://x.org/docs/gone) [pdf](https://x.org/docs/a.pdf) [/](/docs/a/)", "docs/index.md"),
    ]

    def test_links_to_the_site_are_links_to_its_pages(self, caplog):
        found, told = log_of(caplog, self.NODES, Links(site="https://x.org/docs/"))
        assert found == [("a", "b"), ("a", "i"), ("i", "a")]
        assert (
            "pages that are not there: 2, such as 'https://x.org/docs/gone' on 'docs/index.md', 'https://x.org/docs/a.pdf'" in told
        )
        assert log_of(caplog, self.NODES, Links())[0] == [("i", "a")], "without the site it is not known"

    def test_a_site_must_be_an_address(self):
        for site in ("x.org/docs", "docs", "http://", "mailto:a@x.org", "http://["):
            with pytest.raises(InvalidArgumentError, match=r"site is .*; expected an address such as 'https://docs.example.org"):
                Links(site=site)


class TestAnchorsBehindHeadings:
    @pytest.mark.parametrize("heading", ["Cards {#holes}", "Cards {: #holes }", "Cards {.wide #holes key=v}"])
    def test_headings_that_a_splitter_moved_to_the_metadata(self, heading):
        splitter = MarkdownHeaderTextSplitter([("#", "Header 1"), ("##", "Header 2")])
        chunks = splitter.split_text(f"# Looms\n\nThey weave.\n\n## {heading}\n\nOf pasteboard.\n\n## Cards\n\nMore.")
        linking = Document("[1](l.md#holes) [2](l.md#cards) [3](l.md#cards-1)", metadata={"source": "a.md"})
        for document in chunks:
            document.metadata["source"] = "l.md"
        nodes = GraphIndex.from_documents([linking, *chunks], edges=[Links()]).graph
        assert [nodes.texts[int(edge.target)] for edge in nodes.edges()] == ["Of pasteboard.", "More.", "They weave."]

    def test_headings_in_texts(self):
        nodes = [chunk("a", "[1](b.md#holes)", "a.md"), chunk("b", "# B", "b.md"), chunk("c", "## Cards {.x #holes}", "b.md")]
        assert pairs(build_edges(nodes, Links())) == [("a", "c")]


def linked(nodes, *specs):
    return [edge[:2] for edge in build_edges(nodes, list(specs) or Links())]


MARKDOWN, HTML = "[x](m.md)", "`<a href='h.md'>`"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        *((f"a{suffix}", ["m"]) for suffix in (".md", ".mdx", ".markdown", ".MD")),
        *((f"a{suffix}", ["h"]) for suffix in (".html", ".htm", ".HTML", ".htm#top")),
        ("a.txt", ["m", "h"]),
        ("https://x.org/a", ["m", "h"]),
    ],
)
def test_the_name_of_a_page_says_how_it_is_read(source, found):
    folder = source.rpartition("/")[0] + "/" if "/" in source else ""
    nodes = [chunk("a", f"{MARKDOWN} {HTML}", source), *(chunk(name, "", f"{folder}{name}.md") for name in "mh")]
    assert linked(nodes) == [("a", name) for name in found]


def test_a_page_named_html_is_markdown_if_it_has_links_of_markdown_alone():
    nodes = [
        chunk("a1", "[x](b.html)", "a.html"),
        chunk("a2", "`<p>`, and [x](c.html)", "a.html"),
        chunk("b1", "[x](c.html)", "b.html"),
        chunk("b2", "<a href=a.html>", "b.html"),
        chunk("c", "", "c.html"),
    ]
    assert linked(nodes) == [("a1", "b1"), ("a2", "c"), ("b2", "a1")]


@pytest.mark.parametrize(
    "text", ["[x](http://h/b)", "[x]\n\n[x]: http://h/b", "<http://h/b>", "<a href=http://h/b>b", "<A HREF=http://h/b>b"]
)
def test_forms_of_links(text):
    assert linked([chunk("a", text, "http://h/a"), chunk("b", "", "http://h/b")]) == [("a", "b")]


@pytest.mark.parametrize(
    ("fragment", "target"),
    [
        ("one", "b1"),
        ("First-Part", "b2"),
        ("first_part", "b2"),
        ("second--part", "b3"),
        ("the-second-part", "b3"),
        ("The_Second_Part!", "b3"),
        ("third", "b4"),
        ("twice", "b2"),
        ("zwölf-straße", "b4"),
        ("", "b0"),
        ("gone", "b0"),
        ("a", "b0"),
        ("b", "b0"),
        ("c", "b1"),
    ],
)
def test_the_chunk_that_a_fragment_names(fragment, target):
    nodes = [
        chunk("a", f"[x](b.md#{fragment})", "a.md"),
        chunk("b0", "begins", "b.md"),
        chunk("b1", "text", "b.md", anchors=["one"], headings=("A", "B", "C")),
        chunk("b2", "text", "b.md", anchors=["First_Part", "twice"]),
        chunk("b3", "text", "b.md", **{"anchors": ["twice", "Second-Part"], "Header 1": "A", "Header 2": "The second part"}),
        chunk("b4", "text", "b.md", anchors="third", headings=["A", "Zwölf Straße", "Zwölf  STRASSE"]),
        chunk("b5", "text", "b.md", anchors=["twice", "first-PART"], headings=["The second part"]),
    ]
    assert linked(nodes) == [("a", target)]


def test_of_chunks_that_overlap_the_later_one_counts_and_further_below_the_first():
    nodes = [chunk("a", "[x](b.md#two)", "a.md"), chunk("c", "[x](b.md#-Two)", "a.md")]
    nodes += [chunk(f"b{n}", text, "b.md") for n, text in enumerate(["# B", "x\n\n## Two", "## Two\n\ny", "z", "## Two\n\nelse"])]
    assert linked(nodes) == [("a", "b2"), ("c", "b2")]


def test_a_link_to_nowhere_in_particular_is_none():
    assert linked([chunk("a", "# A", "a.md"), chunk("a2", "[x]() [y](#a)", "a.md")]) == [("a2", "a")]
    assert linked([chunk("a", "# A", "a.md"), chunk("a2", "[x]()", "a.md")]) == []


@pytest.mark.parametrize(("pages", "linking", "kept"), [(10, 5, True), (10, 6, False), (9, 8, True), (11, 5, True), (11, 6, False)])
def test_half_of_the_pages_is_not_navigation_and_more_is_of_at_least_ten(pages, linking, kept, caplog):
    texts = [f"[home](0.md) [gone](x{n}.md)" if 0 < n <= linking else "" for n in range(pages)]
    nodes = [chunk(str(n), text, f"{n}.md") for n, text in enumerate(texts)]
    # Chunks of a page count once.
    nodes += [chunk(f"1-{n}", texts[1], "1.md") for n in range(9)]
    with caplog.at_level("INFO"):
        assert (("1", "0") in linked(nodes)) is kept
    assert ("skipped links to a place that more than half of the pages link to" in caplog.text) is not kept
    assert ("skipped links to" in caplog.text) is not kept
    assert "found no link" not in caplog.text


@pytest.mark.parametrize(
    ("metadata", "text", "path"),
    [
        ({"headings": ("A", 2)}, "### C", ("A", "2")),
        ({"headings": "A", "header_1": "B"}, "### C", ("B",)),
        ({"Header 3": "C", "header1": "A", "HEADER_2": 7}, "", ("A", "7", "C")),
        ({"Header 7": "A", "Header 12": "B", "Sub Header 1": "C"}, "", ()),
        ({"header_path": "/A//B/"}, "\n\n## C ##\t\n# no\n# no", ("A", "B", "C")),
        ({"header_path": "A"}, "text\n# no", ("A",)),
        ({}, "# C", ()),
    ],
)
def test_headings_above_a_chunk(metadata, text, path):
    assert heading_path(Node("a", text, metadata=metadata)) == path


COPIED = [{"url": "b.md", "text": " the cards "}, {"href": "c.md", "text": " "}]


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        # (text, links, further metadata) of the chunks of a page.
        ([("see the cards", COPIED, {})], [("0", "b"), ("0", "c")]),
        ([("x", COPIED, {}), ("see the cards", COPIED, {})], [("0", "c"), ("1", "b")]),
        ([("x", COPIED, {}), ("y", COPIED[:1], {})], [("0", "b"), ("0", "c"), ("1", "b")]),
        ([("x", COPIED, {}), ("the cards", COPIED, {"anchors": []})], [("0", "b"), ("0", "c"), ("1", "b"), ("1", "c")]),
        ([("x", COPIED[:1], {}), ("y", COPIED, {}), ("the cards", COPIED, {})], [*(("0b", "1b", "1c", "2b", "2c"))]),
        ([("x", None, {}), ("y", "", {}), ("z", [], {}), ("w", {"url": "b.md"}, {})], [("3", "b")]),
        ([("x", ("b.md", "c.md"), {}), ("y", np.array(["b.md"]), {})], [("0", "b"), ("0", "c"), ("1", "b")]),
    ],
)
def test_links_that_metadata_hold(chunks, found):
    nodes = [chunk(str(n), text, "a.md", links=links, **more) for n, (text, links, more) in enumerate(chunks)]
    nodes += [chunk("b", "", "b.md"), chunk("c", "", "c.md")]
    assert sorted(linked(nodes, Links(field="links"))) == [tuple(pair) for pair in found]


def test_anchors_are_read_from_texts_where_metadata_hold_links_only():
    nodes = [chunk("a", "", "a.md", links="b.md#x"), chunk("b", "", "b.md"), chunk("b2", "## X", "b.md")]
    assert linked(nodes, Links(field="links")) == [("a", "b2")]


def test_errors_name_the_field_and_those_that_there_are():
    nodes = [Node("a", "", metadata={"source": "a.md", "zeta": 1, "beta": 2})]
    with pytest.raises(InvalidArgumentError, match="'hrefs' of Links.*; the metadata fields are: beta, source, zeta"):
        build_edges(nodes, Links(field="hrefs"))
    with pytest.raises(InvalidArgumentError, match="Field 'zeta' of 'a' holds 1; expected addresses"):
        build_edges(nodes, Links(field="zeta"))


def test_repeated_headings_are_counted_over_the_chunks_of_a_page():
    texts = ["# U\nintro", "## Usage\none", "# V\nmore", "## Usage\ntwo", "## Usage\nthree"]
    pieces = [chunk(f"b{n}", text, "b.md") for n, text in enumerate(texts)]
    linking = [chunk("a", "[0](b.md#usage) [1](b.md#usage-1) [2](b.md#usage-2)", "a.md")]
    assert linked(linking + pieces) == [("a", "b1"), ("a", "b3"), ("a", "b4")]


def test_headings_that_overlapping_chunks_repeat_count_once():
    texts = ["# U\nx\n## Usage\none", "## Usage\none\ntwo\n\n# V", "# V\nmore\n## Usage\n", "## Usage\nthree"]
    pieces = [chunk(f"b{n}", text, "b.md") for n, text in enumerate(texts)]
    assert linked([chunk("a", "[0](b.md#usage) [1](b.md#usage-1) [2](b.md#v)", "a.md"), *pieces]) == [
        ("a", "b1"),
        ("a", "b3"),
        ("a", "b2"),
    ]


def test_repeated_headings_in_metadata_are_counted():
    paths = [("U", "Usage"), ("U", "Usage"), ("V", "Usage"), ("V", "Usage", "Usage")]
    pieces = [chunk(f"b{n}", "text", "b.md", headings=path) for n, path in enumerate(paths)]
    linking = [chunk("a", "[0](b.md#usage) [1](b.md#usage-1) [2](b.md#usage-2)", "a.md")]
    assert linked(linking + pieces) == [("a", "b0"), ("a", "b2"), ("a", "b3")]


def test_anchors_that_a_splitter_dropped_are_told(caplog):
    pieces = [chunk("b0", "begins", "b.html"), chunk("b1", "goes on", "b.html")]
    linking = [chunk("a", "<a href='b.html#x'>x</a><a href='b.html#y'>y</a><a href='c.html#z'>z</a>", "a.html")]
    assert linked([*linking, *pieces, chunk("c", "", "c.html")]) == [("a", "b0"), ("a", "c")]
    assert "links that name an anchor: 2, anchors found: 0; they lead to the first chunk" in caplog.text
    caplog.clear()
    linked([*linking, *pieces, chunk("b2", "<i id=y>", "b.html"), chunk("c", "", "c.html")])
    assert caplog.text == ""


def test_a_chunk_of_an_anchor_alone_holds_it():
    assert linked(
        [chunk("a", "<a href='b.html#u'>x</a>", "a.html"), chunk("b", "x", "b.html"), chunk("u", "<h2 id=u>", "b.html")]
    ) == [("a", "u")]


def test_html_is_not_read_as_markdown_nor_markdown_as_html():
    text = "<a href='https://h/c'> [x](b.html)"
    nodes = [chunk("a", text, "a.html"), chunk("b", "", "b.html"), chunk("c", "`<a href='b.html'>`", "c.md")]
    assert build_edges(nodes, Links()) == []
    assert build_edges([chunk("a", text, "a.html#top"), chunk("b", "", "b.html")], Links()) == []


VAULT = {
    "Home.md": "[Looms](tools/Looms.md) and [[Cards]].",
    "tools/Looms.md": "A loom reads [cards](people/Cards.md#holes). See [Home](Home.md) and [[people/Index]].",
    "people/Cards.md": "# Cards\n\n# Holes",
    "people/Index.md": "[Looms](Looms.md), [an index](Index.md).",
    "tools/Index.md": "[people](people/Index.md)",
}
VAULT_LINKS = [
    ("Home.md", "tools/Looms.md"),
    ("Home.md", "people/Cards.md"),
    ("tools/Looms.md", "people/Cards.md"),
    ("tools/Looms.md", "Home.md"),
    ("tools/Looms.md", "people/Index.md"),
    ("people/Index.md", "tools/Looms.md"),
    ("tools/Index.md", "people/Index.md"),
]


@pytest.mark.parametrize(
    "address",
    [
        lambda path: {"path": path},
        # As LangChain's ObsidianLoader and LlamaIndex' ObsidianReader write it.
        lambda path: {"source": path.rpartition("/")[2], "path": f"/home/vault/{path}", "created": 1.0},
        lambda path: {"file_name": path.rpartition("/")[2], "folder_path": f"/home/vault/{path}".rpartition("/")[0]},
    ],
    ids=["read_folder", "ObsidianLoader", "ObsidianReader"],
)
def test_links_of_a_vault_from_its_root_and_by_the_names_of_notes(address):
    nodes = [Node(path, text, metadata=address(path)) for path, text in VAULT.items()]
    edges = build_edges(nodes, Links())
    assert [edge[:2] for edge in edges] == VAULT_LINKS
