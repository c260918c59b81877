"""Pages of HTML, Markdown and text as blocks, and blocks as chunks."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.construction.html import html_charset, read_html
from graph_retrievers.construction.markdown import read_markdown, reference_definitions, slug
from graph_retrievers.construction.pages import Block, Page, read_text, without_number
from graph_retrievers.construction.sections import split_page
from graph_retrievers.errors import InvalidArgumentError


def texts(page):
    return [block.text for block in page.blocks]


def links(page):
    return [link for block in page.blocks for link in block.links]


def anchors(page):
    return [(block.text, block.anchors) for block in page.blocks if block.anchors]


class TestHtml:
    def test_blocks_are_what_a_browser_shows_on_lines_of_their_own(self):
        page = read_html(
            "<h1>Looms</h1>text <b>in</b>\n line<p>one<br>two<ul><li>first<li>second <i>x</i></ul><pre>\n  a\n    b\n</pre>"
            "<table><tr><th>k<th>v<tr><td>1<td>2</table>Green&shy;ock &lt;x&gt; a < b"
        )
        expected = [
            "Looms",
            "text in line",
            "one",
            "two",
            "first",
            "second x",
            "  a\n    b",
            "k | v",
            "1 | 2",
            "Greenock <x> a < b",
        ]
        assert texts(page) == expected

    def test_scripts_styles_comments_and_navigation_are_left_out(self):
        page = read_html(
            "<head><title>T</title><style>p{}</style></head><body><script>no('<p>no')</script><!-- no --><nav><a href=n>no</a>"
            "</nav><div class='sphinxsidebar'>no<a href=n>no</a></div><div role=navigation>no</div>"
            "<p>yes <a class=headerlink href=#p>¶</a></p>"
            "<svg><title>no</title></svg><template>no</template><footer>no</footer></body>"
        )
        assert (page.title, texts(page), links(page)) == ("T", ["yes"], [])

    def test_only_the_main_part_is_read_where_there_is_one(self):
        page = read_html("<body><p id=out>menu</p><main><h1>Looms</h1><p>text</p></main><p>end</p>")
        assert texts(page) == ["Looms", "text"]
        assert texts(read_html("<p>all<main> </main>")) == ["all"], "an empty main part is not the page"

    def test_a_table_of_contents_gives_its_first_level_and_no_text(self):
        page = read_html(
            "<h1>Looms</h1><div class=toc><p>Contents</p><ul><li><a href=a.html>A</a><ul><li><a href=a.html#x>X</a></ul>"
            "<li><a href=b.html>B</a></ul></div><p>Text.</p>"
        )
        assert (page.contents, texts(page), links(page)) == (("a.html", "b.html"), ["Looms", "Text."], [])
        assert texts(read_html("<div class=contents><p>Doxygen calls its main part so.</p></div>")) == [
            "Doxygen calls its main part so."
        ]

    def test_anchors_belong_to_the_text_that_follows_them(self):
        page = read_html(
            '<section id=s><a name="old"></a><h2 id=h>Cards</h2><p id=p>one <span id=i>two</span></p><span id=empty></span>'
            "</section><dl><dt id=t>term<dd>meaning</dl><i id=last></i>"
        )
        assert anchors(page) == [
            ("Cards", ("s", "old", "h")),
            ("one two", ("p", "i")),
            ("term", ("empty", "t")),
            ("meaning", ("last",)),
        ]
        assert [block.leads for block in page.blocks] == [True, False, True, False]
        assert [block.level for block in page.blocks] == [2, 0, 0, 0]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ('<a href="b.html">x</a> and <A class=q HREF=c.html>', ["b.html", "c.html"]),
            ('<script>var s = "<a href=no>";</script><a href="a?x=1&amp;y=2">z', ["a?x=1&y=2"]),
            ("<a href>none</a> <a href=''>empty", []),
            ('<p><a href="x"><img src=y></a></p><p>next</p>', ["x"]),
            ("<a href=x>", []),
        ],
    )
    def test_links(self, text, found):
        assert links(read_html(text)) == found

    def test_headings_lose_their_numbers_and_keep_other_numbers(self):
        assert without_number("25.3.1. Continuous Archiving") == "Continuous Archiving"
        assert without_number("Appendix A. PostgreSQL Error Codes") == "PostgreSQL Error Codes"
        assert without_number("A.1. Overview") == "Overview"
        for kept in (
            "3.11 released",
            "2001: A Space Odyssey",
            "Section",
            "1.",
            "J. K. Rowling",
            "E. coli",
            "Chapter and verse. Then",
        ):
            assert without_number(kept) == kept
        assert read_html("<title>25.3. Looms</title><h2>25.3.&#160;Looms</h2>").title == "Looms"

    @pytest.mark.parametrize("text", ["", " \n", "<!-- x -->", "\0", "<", "<>", "</", "\ud800 x", "<!DOCTYPE html>", "&", "<p"])
    def test_odd_pages(self, text):
        read_html(text)

    def test_text_after_a_null_character_is_read(self):
        assert texts(read_html("<p>a\0b</p><p>c</p>")) == ["a b", "c"]

    def test_boxes_of_sphinx_are_content_and_side_bars_outside_the_main_part_are_not(self):
        box = '<aside class="sidebar"><p>Lazy connecting</p><a href="c.html">c</a></aside>'
        page = read_html(f"{box}<div role=main><p>Before.</p>{box}<div class=menu>x</div></div>")
        assert texts(page) == ["Before.", "Lazy connecting", "c", "x"] and links(page) == ["c.html"]
        assert texts(read_html(f"<p>Before.</p>{box}")) == ["Before."]
        assert texts(read_html("<html class='no-js navigation'><body class='home sidebar'><p>all")) == ["all"]

    def test_links_are_resolved_against_the_base_of_a_page(self):
        page = read_html('<base href="sub/"><a href="b.html#x">b</a> <a href="https://x.org">x</a> <a href="http://[">y</a>')
        assert links(page) == ["sub/b.html#x", "https://x.org", "http://["]

    def test_any_depth_is_read_to_the_end(self):
        deep = "<div>" * 5000 + "inside" + "</div>" * 5000 + "<p>after"
        assert texts(read_html(deep)) == ["inside", "after"]

    def test_charset(self):
        assert html_charset(b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">') == "cp1252"
        assert html_charset(b'<?xml version="1.0" encoding="koi8-r"?>') == "koi8-r"
        assert html_charset(b"<meta charset=utf-16>") == "" == html_charset(b"\xef\xbb\xbf<meta charset=latin1>")
        assert html_charset(b"<META CHARSET='utf-8'>") == "utf-8"
        assert html_charset(b"<p>charset=x</p>") == ""


class TestMarkdown:
    def test_blocks_are_as_a_person_reads_them_and_kept_as_written(self):
        text = (
            "---\ntitle: 'The looms'\n---\n# Looms\n\nSome *text*\nin lines.\n\n- a\n  - b\n- c\n\n"
            "```py\n# no heading\n\n[no](x)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        )
        page = read_markdown(text)
        assert page.title == "The looms"
        assert [(block.text, block.source.rstrip("\n")) for block in page.blocks] == [
            ("Looms", "# Looms"),
            ("Some text\nin lines.", "Some *text*\nin lines."),
            ("- a\n- b", "- a\n  - b"),
            ("- c", "- c"),
            ("# no heading\n\n[no](x)", "```py\n# no heading\n\n[no](x)\n```"),
            ("a | b", "| a | b |\n|---|---|"),
            ("1 | 2", "| 1 | 2 |"),
        ]
        assert [block.level for block in page.blocks] == [1, 0, 0, 0, 0, 0, 0] and links(page) == []
        assert "\n".join(block.source for block in page.blocks) == text.partition("---\n# ")[1][4:] + text.partition("---\n# ")[2]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("[x](b.md) ![no](c.png) [y](<with space.md> 'title')", ["b.md", "with%20space.md"]),
            ("[x](Foo_(film)) [y](/root.md) [z](../up.md#part)", ["Foo_(film)", "/root.md", "../up.md#part"]),
            ('see [x][1]\n\n[1]: far.md "Title"', ["far.md"]),
            ("<https://x.org/Path> [top](#here) [ ]( ) a[0](x)", ["https://x.org/Path", "#here", "", "x"]),
            ("`[no](x)` \\[no](y) [yes](z)", ["z"]),
            ('[first](1.md) <a href="2.md">second</a> [third](3.md)', ["1.md", "2.md", "3.md"]),
            ("- item [a](1)\n  - deeper [b](2)\n\n> quote [c](3)\n\n| [d](4) |\n|---|\n", ["1", "2", "3", "4"]),
            ("<div>\n<a href='x'>raw</a>\n</div>", ["x"]),
        ],
    )
    def test_links(self, text, found):
        assert links(read_markdown(text)) == found

    def test_line_ends_of_other_systems_and_front_matter(self):
        text = "---\r\ntitle: The looms\r\n---\r\n# Head\r\n\r\nbody\r\n\r\nend"
        assert read_markdown(text) == read_markdown(text.replace("\r\n", "\n")) == read_markdown(text.replace("\r\n", "\r"))
        assert read_markdown(text).title == "The looms" and texts(read_markdown(text)) == ["Head", "body", "end"]
        assert texts(read_markdown("one\rtwo\n\n# Head\n\nbody")) == ["one\ntwo", "Head", "body"]
        assert "Hello world" in texts(read_markdown("---\nHello world\n\nmore\n\n---\nrest"))
        assert texts(read_text("a\r\n\r\nb")) == ["a", "b"]

    def test_headings_of_several_lines_names_of_mkdocs_and_scripts_with_marks(self):
        page = read_markdown("Foo\nbar\n===\n\n## Version (*required*) ## {: #version }\n\n## हिन्दी\n\n## cafe\u0301")
        expected = [
            ("Foo bar", ("foobar",)),
            ("Version (required)", ("version",)),
            ("हिन्दी", ("हिन्दी",)),
            ("cafe\u0301", ("café",)),
        ]
        assert anchors(page)[1:] == expected[1:] and anchors(page)[0][0] == "Foo bar"

    def test_a_link_by_reference_is_found_with_a_definition_from_elsewhere(self):
        assert links(read_markdown("see [x][1]")) == []
        known = reference_definitions("[1]: far.md\n")
        assert links(read_markdown("see [x][1]", known)) == ["far.md"]

    def test_anchors_are_slugs_names_and_html(self):
        page = read_markdown(
            "# What's *new*?\n\n## Same\n\n## Same\n\n## Old {#first-name}\n\nUnder\n=====\n\n<a name='x'></a>\n\nend"
        )
        assert anchors(page) == [
            ("What's new?", ("whats-new",)),
            ("Same", ("same",)),
            ("Same", ("same-1",)),
            ("Old", ("first-name",)),
            ("Under", ("under",)),
            ("end", ("x",)),
        ]
        assert slug("A_b - C") == "a_b---c"


def word(number, place):
    """A word of its own that is one token."""
    letters = "abcdefghij"
    return "w" + "".join(letters[int(digit)] for digit in f"{number:02}{place:03}")


def page_of(*blocks):
    """A page of (text, level) headings, and numbers of words."""
    made = []
    for number, block in enumerate(blocks):
        if isinstance(block, int):
            made.append(Block(" ".join(word(number, i) for i in range(block))))
        else:
            made.append(Block(block[0], block[1], (block[0].lower(),), leads=True))
    return Page("", made)


def outline(chunks):
    return [(chunk.headings, chunk.part, len(chunk.text.split())) for chunk in chunks]


class TestSections:
    def test_a_section_is_a_chunk_with_the_headings_above_it(self):
        chunks = split_page(page_of(("A", 1), 50, ("B", 2), 60, ("C", 3), 40, ("D", 2), 70))
        assert outline(chunks) == [(("A",), 1, 50), (("A", "B"), 1, 60), (("A", "B", "C"), 1, 40), (("A", "D"), 1, 70)]
        assert [chunk.anchor for chunk in chunks] == ["a", "b", "c", "d"]

    def test_the_first_heading_is_that_of_the_page_whatever_its_level(self):
        chunks = split_page(page_of(("A", 2), 50, ("B", 2), 60, ("C", 1), 60))
        assert outline(chunks) == [(("A",), 1, 50), (("A", "B"), 1, 60), (("A", "C"), 1, 60)]

    def test_short_sections_join_others(self):
        # The page's own words join its first section, a short subsection its section, short neighbours one another.
        chunks = split_page(page_of(("A", 1), 5, ("B", 2), 60, ("C", 3), 3, ("D", 2), 9, ("E", 2), 9))
        assert outline(chunks) == [(("A", "B"), 1, 5 + 1 + 60 + 1 + 3), (("A",), 1, 1 + 9 + 1 + 9)]
        assert chunks[0].anchors == ("a", "b", "c") and chunks[1].anchors == ("d", "e")

    def test_a_short_section_never_joins_a_longer_one_beside_it(self):
        chunks = split_page(page_of(("A", 1), 50, ("B", 2), 60, ("C", 2), 9, ("D", 2), 60))
        assert outline(chunks) == [(("A",), 1, 50), (("A", "B"), 1, 60), (("A", "C"), 1, 9), (("A", "D"), 1, 60)]

    def test_a_long_section_is_cut_between_blocks_into_parts_of_about_the_same_length(self):
        chunks = split_page(page_of(("A", 1), 30, 30, 30, 30, 30), 100)
        assert outline(chunks) == [(("A",), 1, 60), (("A",), 2, 90)]
        assert [chunk.anchors for chunk in chunks] == [("a",), ("a",)]

    def test_what_follows_a_term_in_the_next_chunk_is_about_the_term_too(self):
        blocks = [
            Block("H", 1, ("h",), leads=True),
            Block("w " * 60),
            Block("term", 0, ("t",), leads=True),
            Block("x " * 80),
            Block("y " * 80),
        ]
        chunks = split_page(Page("", blocks), 100)
        assert [(chunk.text.split()[0], chunk.anchors) for chunk in chunks] == [
            ("w", ("h",)),
            ("term", ("h", "t")),
            ("y", ("h", "t")),
        ]

    def test_a_block_that_is_too_long_is_cut_at_sentences_and_then_at_words(self):
        block = Block("One two three. Four five six. " + "x " * 12, links=("l",), anchors=("a",))
        chunks = split_page(Page("", [block]), 8)
        assert [chunk.text for chunk in chunks] == ["One two three. Four five six.", "x x x x x x x x", "x x x x"]
        assert [chunk.links for chunk in chunks] == [("l",), (), ()]

    def test_a_heading_without_text_is_no_chunk_and_a_short_rest_no_part(self):
        chunks = split_page(page_of(("A", 1), 50, ("B", 2), ("C", 2), 60))
        assert outline(chunks) == [(("A",), 1, 51), (("A", "C"), 1, 60)] and chunks[0].anchors == ("a", "b")
        assert [size for *_, size in outline(split_page(page_of(150, 150, 150, 5), 200))] == [150, 150, 155]

    def test_long_runs_of_headings_and_texts_without_spaces_are_cut(self):
        page = Page("", [Block("term", 0, (), leads=True)] * 300)
        assert max(len(chunk.text.split()) for chunk in split_page(page, 100)) <= 100
        chunks = split_page(Page("", [Block("机" * 500)]), 100)
        assert [len(chunk.text) for chunk in chunks] == [100] * 5

    def test_pages_without_headings_and_without_text(self):
        assert split_page(Page("", [])) == []
        assert outline(split_page(Page("T", [Block("a b")]))) == [((), 1, 2)]
        assert outline(split_page(page_of(("Only", 1)))) == [(("Only",), 1, 0)]
        with pytest.raises(InvalidArgumentError, match="max_tokens"):
            split_page(Page("", []), 0)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.one_of(st.integers(1, 90), st.tuples(st.sampled_from("ABCD"), st.integers(1, 4))),
            max_size=14,
        ),
        st.integers(10, 120),
    )
    def test_every_word_is_kept_once_in_order_and_no_chunk_is_too_long(self, drawn, limit):
        page = page_of(*drawn)
        chunks = split_page(page, limit)
        words = [word for chunk in chunks for word in chunk.text.split() if word.startswith("w")]
        assert words == [word for block in page.blocks if not block.level for word in block.text.split()]
        headings = sum(1 for block in page.blocks if block.level)
        assert all(len(chunk.text.split()) <= limit + limit // 4 + headings for chunk in chunks)
        assert {name for chunk in chunks for name in chunk.anchors} == {name for block in page.blocks for name in block.anchors}


class TestHostile:
    OPENINGS = [
        *(
            "[",
            "](",
            "](<",
            "](((",
            "\n[x]: ",
            "<a ",
            "<a href='",
            "<a \"'",
            "<!--",
            "<script>",
            "<http://x",
            "<a",
            "</a",
            "&",
            "<",
        ),
        *(
            "<div>",
            "<b><i>",
            "<a href=x>",
            "<table><td>",
            "<p><b>",
            "# x\n",
            "- ",
            "> ",
            "`",
            "*a ",
            "_a_",
            "<a x=1 ",
            "\\",
            "\n\n",
            "|",
        ),
        *("<h1>", "<dt>", "<li>", "***", "![", "~~~\n", "1. a\n", "<!DOCTYPE", "<![CDATA["),
    ]

    @pytest.mark.slow
    @pytest.mark.parametrize("read", [read_html, read_markdown, read_text])
    def test_hostile_texts_take_linear_time(self, read):
        started = time.perf_counter()
        for text in self.OPENINGS:
            page = read("<a>" + text * (20_000 // len(text)))
            split_page(page)
        # A few seconds; in quadratic time some of them would take minutes.
        assert time.perf_counter() - started < 120
