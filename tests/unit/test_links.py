"""Links between pages that were split, resolved to the chunk that a fragment names; the structure of pages."""

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import HTMLHeaderTextSplitter, Language, MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core.node_parser import HierarchicalNodeParser, MarkdownNodeParser, SentenceSplitter

from graph_retrievers import GraphIndex
from graph_retrievers.construction import DocumentStructure, Links, build_edges
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.graph.addresses import AddressBook, page_address


def chunk(identity, text="", address="", **metadata):
    return Node(identity, text, metadata={"source": address, **metadata} if address else metadata)


def pairs(edges):
    return [(source, target) for source, target, _ in edges]


class TestAddresses:
    @pytest.mark.parametrize(
        ("link", "base", "found"),
        [
            ("b.md", "docs/a.md", ("docs/b.md", "")),
            ("./b.md#x", "docs/a.md", ("docs/b.md", "x")),
            ("../docs/b", "docs/a.md", ("docs/b.md", "")),
            ("b.html", "docs/a.md", ("docs/b.md", "")),
            ("B.MD", "docs/a.md", ("docs/b.md", "")),
            ("/docs/b.md", "docs/a.md", ("docs/b.md", "")),
            ("/b.md", "docs/a.md", ("docs/b.md", "")),
            ("#here%20now", "docs/a.md", ("docs/a.md", "here now")),
            ("?q=1", "docs/a.md", ("docs/a.md", "")),
            ("b.md?v=2#x", "docs/a.md", ("docs/b.md", "x")),
            ("a.md", "docs/sub/index.md", None),
            ("sub/", "docs/a.md", ("docs/sub/index.md", "")),
            ("sub", "docs/a.md", ("docs/sub/index.md", "")),
            ("with%20space.md", "docs/a.md", ("docs/with space.md", "")),
            ("with space.md", "docs/a.md", ("docs/with space.md", "")),
            ("a%23b.md", "docs/a.md", ("docs/a#b.md", "")),
            ("https://example.org/docs/b.md", "docs/a.md", None),
            ("mailto:a@b.c", "docs/a.md", None),
            ("http://[", "docs/a.md", None),
            ("../../../../b.md", "docs/a.md", None),
            ("/../../b.md", "docs/a.md", ("docs/b.md", "")),
            ("docs/b.md", "docs/a.md", None),
        ],
    )
    def test_paths(self, link, base, found):
        book = AddressBook(["docs/a.md", "docs/b.md", "docs/sub/index.md", "docs/with space.md", "docs/a#b.md"])
        assert book.find(link, base) == found

    @pytest.mark.parametrize(
        ("link", "found"),
        [
            ("https://x.org/about/#team", ("https://X.org/about", "team")),
            ("http://x.org/about", ("https://X.org/about", "")),
            ("about", ("https://X.org/about", "")),
            ("about.html?lang=en", None),
            ("page?id=2", ("https://x.org/page?id=2", "")),
            ("page?id=3", None),
            (".", ("https://x.org/", "")),
            ("//x.org/about", ("https://X.org/about", "")),
            ("https://y.org/about", None),
        ],
    )
    def test_urls(self, link, found):
        book = AddressBook(["https://x.org/", "https://X.org/about", "https://x.org/page?id=2"])
        assert book.find(link, "https://x.org/") == found

    def test_the_very_page_comes_before_one_that_differs_a_little(self):
        assert AddressBook(["http://h/a", "https://h/a"]).find("https://h/a") == ("https://h/a", "")
        assert AddressBook(["http://h/a/", "http://h/a"]).find("http://h/a") == ("http://h/a", "")
        assert AddressBook(["guide.md", "guide/index.md"]).find("guide/", "a.md") == ("guide/index.md", "")
        assert AddressBook(["guide.md", "guide/index.md"]).find("guide", "a.md") == ("guide.md", "")

    @pytest.mark.parametrize(
        ("pages", "link"),
        [
            (["data.html"], "data.txt"),
            (["http://h/watch?v=AbC"], "http://h/watch?v=aBc"),
            (["http://h/a?b"], "http://h/a%3Fb"),
            (["a/b"], "a%2Fb"),
        ],
    )
    def test_what_names_something_else_is_not_found(self, pages, link):
        assert AddressBook(pages).find(link, base="x.html") is None

    def test_names_with_marks_of_urls_and_other_schemes(self):
        book = AddressBook(["C#.md", "C.md", "x%20y.md", "x y.md", "a?b.md"])
        assert book.find("C%23.md", "C.md") == ("C#.md", "")
        assert book.find("x%2520y.md", "C.md") == ("x%20y.md", "") and book.find("x%20y.md", "C.md") == ("x y.md", "")
        assert book.find("a%3Fb.md", "C.md") == ("a?b.md", "")
        book = AddressBook(["s3://bucket/docs/a.md", "s3://bucket/docs/b.md", "b.md"])
        assert book.find("b.md", "s3://bucket/docs/a.md") == ("s3://bucket/docs/b.md", "")
        assert book.find("s3://bucket/docs/b.md") == ("s3://bucket/docs/b.md", "")

    def test_addresses_that_are_none(self):
        book = AddressBook(["http://[::1", "http://[x]/y", "\ud800", "a.md"])
        assert book.find("a.md", "http://[::1") is None and book.find("a.md") == ("a.md", "")
        assert book.find("#x") is None, "no page to be on"

    def test_files_of_a_windows_folder_and_links_below_a_site_root(self):
        book = AddressBook(["C:\\site\\guide\\a.html", "C:\\site\\guide\\b.html", "C:\\site\\index.html"])
        assert book.find("b.html#x", "C:\\site\\guide\\a.html") == ("C:\\site\\guide\\b.html", "x")
        assert book.find("/guide/b.html", "C:\\site\\guide\\a.html") == ("C:\\site\\guide\\b.html", "")

    def test_pages_that_differ_only_in_case_or_ending_are_not_confused(self):
        book = AddressBook(["a.md", "A.md", "a.html"])
        assert [book.find(link)[0] for link in ("a.md", "A.md", "a.html", "a")] == ["a.md", "A.md", "a.html", "a.md"]

    def test_the_address_of_a_page_is_the_first_field_that_it_has(self):
        assert page_address({"file_path": "f", "source": "s", "url": ""}) == "s"
        assert page_address({"other": "x"}) == "" and page_address({"source": 3}) == "3"


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

    def test_of_chunks_that_overlap_the_later_one_has_the_text_behind_an_anchor(self):
        nodes = [
            chunk("a", "[x](b.md#two)", "a.md"),
            chunk("b1", "text\n\n## Two", "b.md"),
            chunk("b2", "## Two\n\nwhat it says", "b.md"),
            chunk("b3", "## Two\n\nanother heading of this name, further below", "c.md"),
        ]
        assert pairs(build_edges(nodes, Links())) == [("a", "b2")]

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

    def test_an_anchor_that_is_written_differently_is_found(self):
        nodes = [chunk("a", "[x](b.md#Getting_Started)", "a.md"), chunk("b", "", "b.md"), chunk("c", "## Getting started", "b.md")]
        assert pairs(build_edges(nodes, Links())) == [("a", "c")]

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

    def test_a_metadata_field_holds_the_links_that_a_loader_kept(self):
        nodes = [
            chunk("a", "text [not](c.md)", "a.md", links=["b.md#x", {"url": "c.md", "text": "t"}]),
            chunk("b", "", "b.md", links="a.md"),
            chunk("c", "", "c.md"),
        ]
        assert pairs(build_edges(nodes, Links(field="links"))) == [("a", "b"), ("a", "c"), ("b", "a")]

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
        links = " ".join(f"[x](gone{n}.md) [y](b.md#no{n})" for n in range(9))
        nodes = [chunk("a1", links, "a.md"), chunk("a2", links, "a.md"), chunk("b", "", "b.md"), chunk("c", links[:13], "c.md")]
        _, told = log_of(caplog, nodes, Links())
        assert "pages that are not there: 10, such as 'gone0.md' on 'a.md', 'gone1.md' on 'a.md', " in told
        assert told.count(" on 'a.md'") == 16 and told.count(", ...") == 2
        assert "b.md#no8" not in told and "b.md#no7" in told
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
        assert "pages that are not there: 1, such as 'https://x.org/docs/gone' on 'docs/index.md'." in told
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
