"""Rules of pages, folders, links and mentions, one by one."""

import pytest

from graph_retrievers.construction import DocumentStructure, Links, TitleMentions, build_edges, read_folder
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.pages import read_text
from graph_retrievers.graph import Node

WORDS = "Some words about looms. " * 12


def chunk(identity, text="", source="", **metadata):
    return Node(identity, text, metadata={"source": source, **metadata})


class TestReaders:
    def test_a_place_in_the_contents_is_listed_once(self):
        assert read_html("<div class=toc><a href=a>1</a><a href=a>again</a><a href=b>2</a></div>").contents == ("a", "b")

    def test_an_empty_term_or_heading_leads_nothing(self):
        assert [(b.leads, b.level) for b in read_html("<dl><dt></dt></dl><p>x").blocks] == [(False, 0)]
        assert [(b.leads, b.level) for b in read_html("<h2> </h2><p>x").blocks] == [(False, 0)]

    def test_links_without_text_at_the_end_belong_to_the_last_block(self):
        (block,) = read_html("<p>x</p><a href=y><img></a>").blocks
        assert block.links == ("y",)

    def test_long_titles_are_whole(self):
        title = "A title of quite some words, as manuals have them"
        assert read_html(f"<title>{title}</title><p>x").title == title

    def test_paragraphs_of_text_keep_their_indents(self):
        assert [block.text for block in read_text("  a\n   b\n \t\nc")._asdict()["blocks"]] == ["  a\n   b", "c"]


def write(folder, **pages):
    for name, text in pages.items():
        (folder / name.replace("_html", ".html")).write_text(text, encoding="utf-8")
    return folder


class TestFolders:
    def test_a_suffix_of_fewer_than_half_of_the_titles_is_theirs(self, tmp_path):
        for number in range(11):
            suffix = " — Looms" if number < 5 else ""
            write(tmp_path, **{f"p{number:02}_html": f"<title>T{number}{suffix}</title><p>text {number}"})
        assert read_folder(tmp_path)[0].title == "T0 — Looms"
        write(tmp_path, p10_html="<title>T10 — Looms</title><p>text 10")
        assert [node.title for node in read_folder(tmp_path)][:6] == [f"T{number}" for number in range(6)]

    def test_a_prefix_that_most_titles_share_is_the_name_of_the_site(self, tmp_path):
        for number in range(6):
            write(tmp_path, **{f"p{number}_html": f"<title>Looms: T{number}</title><p>text {number}"})
        assert [node.title for node in read_folder(tmp_path)] == [f"T{number}" for number in range(6)]

    def test_contents_stand_at_the_first_node_only(self, tmp_path):
        toc = "<div class=toc><a href=b.html>B</a></div>"
        write(tmp_path, a_html=f"<h1>A</h1><p>{WORDS}{toc}<h2 id=s>S</h2><p>{WORDS}", b_html="<p>b")
        assert ["contents" in node.metadata for node in read_folder(tmp_path)] == [True, False, False]

    def test_pages_of_contents_that_list_themselves_and_each_other(self, tmp_path):
        def toc(*names):
            return "<div class=toc>" + "".join(f"<a href={name}>x</a>" for name in names) + "</div>"

        write(tmp_path, a_html=toc("a.html", "b.html"), b_html=toc("c.html"), c_html="<p>text", d_html="<a href=a.html>to a</a>")
        write(tmp_path, x_html=toc("y.html"), y_html=toc("x.html"), z_html="<a href=x.html>to x</a>")
        links = {node.id: node.metadata["links"] for node in read_folder(tmp_path)}
        assert links == {"c.html": [], "d.html": ["/c.html"], "z.html": []}

    def test_whole_files_lose_a_first_line_only_if_it_is_the_title(self, tmp_path):
        write(tmp_path, a_html="<title>A</title><p>first<p>second", b_html="<title>B</title><h1>B</h1><p>text")
        assert [node.text for node in read_folder(tmp_path, max_tokens=None)] == ["first\nsecond", "text"]


class TestEdges:
    def test_html_is_not_read_as_markdown_nor_markdown_as_html(self):
        nodes = [chunk("a", "[x](b.html)", "a.html"), chunk("b", "", "b.html"), chunk("c", "`<a href='b.html'>`", "c.md")]
        assert build_edges(nodes, Links()) == []
        assert build_edges([chunk("a", "[x](b.html)", "a.html#top"), chunk("b", "", "b.html")], Links()) == []

    def test_a_section_is_contained_in_the_nearest_one_around_it(self):
        headings = ([], ["A"], ["A", "B", "C"], ["A", "B", "C", "D"])
        nodes = [chunk(str(place), "", "p.md", headings=path) for place, path in enumerate(headings)]
        contains = [(s, t) for s, t, relation in build_edges(nodes, DocumentStructure()) if relation == "contains"]
        assert contains == [("0", "1"), ("1", "2"), ("2", "3")]

    @pytest.mark.parametrize(
        ("holding", "mentions"), [(20, {"tables", "Postgres"}), (21, {"Postgres"}), (210, {"Postgres"}), (211, set())]
    )
    def test_how_often_a_title_may_be_mentioned(self, holding, mentions):
        # Of 2,100 texts, 1 % are 21; a title without a capital may be in 21 of them at most, one with a capital in 210.
        texts = [Node(f"t{n}", "the tables of Postgres" if n < holding else "other") for n in range(2098)]
        nodes = [Node("tables", "", "tables"), Node("Postgres", "", "Postgres"), *texts]
        assert {target for _, target, _ in build_edges(nodes, TitleMentions())} == mentions | (
            {"tables"} if holding == 21 else set()
        )
