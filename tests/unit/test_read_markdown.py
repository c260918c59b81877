"""What the reader of Markdown makes of front matter, headings, anchors and line ends, one by one."""

import pytest

from graph_retrievers.construction.markdown import read_markdown, reference_definitions, slug
from graph_retrievers.construction.pages import plain_lines, without_number
from graph_retrievers.construction.plain_text import read_text


def blocks(text):
    return [(block.text, block.level, block.anchors) for block in read_markdown(text).blocks]


@pytest.mark.parametrize(
    ("text", "title", "first"),
    [
        ('---\ndate: 1:2\ntitle: "A: b\'s"\nlayout: x\n---\n# Head', "A: b's", "Head"),
        ("---\ntitle: 'A'  \n--- \n\ntext", "A", "text"),
        ("---\nlayout: x\n---\n# Head\n# Second", "Head", "Head"),
        ("---\ntitle:\n---\n# Head", "Head", "Head"),
        ("---\ntitle: A\n---", "A", None),
        ("text\n\n## Head", "Head", "text"),
        ("text only", "", "text only"),
        ("text\n\n---\ntitle: A\n---\n\n# Head", "title: A", "text"),
    ],
)
def test_titles(text, title, first):
    page = read_markdown(text)
    assert page.title == title and (page.blocks[0].text if page.blocks else None) == first


@pytest.mark.parametrize(
    ("heading", "text", "anchor"),
    [
        ("# LoomsX {#cards}", "LoomsX", "cards"),
        ("# Looms {: #cards .x}", "Looms", "cards"),
        ("# Looms # {#cards} #", "Looms", "cards"),
        ("# {#cards}", None, None),
        ("# A {b} {#c}", "A {b}", "c"),
        ("# A {#b} c", "A {#b} c", "a-b-c"),
        ("# A {b}", "A {b}", "a-b"),
        ("#   The `Loom_x` *is* [it](y.md)  ##", "The Loom_x is it", "the-loom_x-is-it"),
        ("A\nb\n---", "A b", "ab"),
        ("# A  b", "A b", "a--b"),
    ],
)
def test_headings(heading, text, anchor):
    expected = [] if text is None else [(text, 2 if heading.endswith("---") else 1, (anchor,))]
    assert blocks(heading) == expected


def test_headings_that_repeat_are_numbered():
    assert [anchor for *_, (anchor,) in blocks("# A\n# A\n# B\n# A\n# A {#a-9}\n# A")] == ["a", "a-1", "b", "a-2", "a-9", "a-3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "* a\n\n  more\n* b\n\n1. c\n2. d",
            [("* a\nmore", "* a\n\n  more"), ("* b", "* b\n"), ("1. c", "1. c"), ("2. d", "2. d")],
        ),
        ("    code\n\n> quote\n> on", [("code", "    code\n"), ("quote\non", "> quote\n> on")]),
        ("```\n\n x \n\n```", [(" x", "```\n\n x \n\n```")]),
        ("a\n\n[x]: y.md\n\nb", [("a", "a\n\n[x]: y.md\n"), ("b", "b")]),
        ("# \n\ntext", [("text", "text")]),
        ("#\n\n- \n- x\n\n---\n\n<!-- c -->", [("- x", "- x\n\n---\n\n<!-- c -->")]),
        ("1) a\n   - b `c`\n\n         d", [("1) a\n- b c\nd", "1) a\n   - b `c`\n\n         d")]),
    ],
)
def test_texts_of_blocks_and_what_is_written(text, expected):
    assert [(block.text, block.source) for block in read_markdown(text).blocks] == expected


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[the *far* page](far.md 'Title') and [`code`][1]\n\n[1]: x.md", "the far page and code"),
        ("![a *loom*](l.png) [![badge](b.svg)](ci.md) ![](no.png)", "a loom badge"),
        ("one<br>two <b class='x'>three</b> <!-- no --> <img alt='four'>", "one\ntwo three  four"),
        ("`<b>[x](y)</b>` &amp; \\*", "<b>[x](y)</b> & *"),
        ("<https://x.org/a> https://y.org", "https://x.org/a https://y.org"),
        ("a word {: .x #name }", "a word"),
        ("<p align=center><img alt='A loom' src=x.png> <a href=y.md>it</a></p>\n<!-- no -->", "A loom it"),
        ("Use <script> or <select> to choose.", "Use  or  to choose."),
        ("-----|", None),
        ("<!-- no -->", None),
        ("<div class='x'>\n\n</div>", None),
    ],
)
def test_what_a_person_reads(text, read):
    assert [block.text for block in read_markdown(text).blocks] == ([] if read is None else [read])


def test_html_within_markdown_is_read_as_html():
    table = "<table><tr><th>a<th>b\n<tr><td>1<td><a href=x.md>2</a></table>"
    page = read_markdown(f"<h1 align=center>Looms</h1>\n\n{table}\n\n<p><b>Q?</b>")
    assert page.title == "Looms" and [(block.text, block.level, block.links, block.leads) for block in page.blocks] == [
        ("Looms", 1, (), True),
        ("a | b", 0, (), True),
        ("1 | 2", 0, ("x.md",), False),
        ("Q?", 0, (), True),
    ]
    assert [block.header for block in page.blocks] == ["", "", "a | b", ""]


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("a | b\n--|--\n[x](y) | `c\\|d`\n\\* | ", ["a | b", "x | c|d", "*"]),
        ("| a |\n|---|\n| b<br>c |\n| --- |\n| d |", ["a", "b c", "d"]),
        ("| a | b |\n|---|---|\n| | c |\n|===|===|\n|  |  |\n| - | d |", ["a | b", "| c", "- | d"]),
        # Tables that are none for GitHub: another number of columns, no header.
        ("| a | b\n|---\n| [x](y) | d | e\n-----|\n| f |", ["a | b", "x | d | e", "f"]),
        ("| a | b |\n| c | d |", ["a | b", "c | d"]),
        ("+---+---+\n| a | b |\n+===+===+\n| c | d |\n+---+---+", ["a | b", "c | d"]),
        # One line between bars is a sentence.
        ("| a or | b |", ["| a or | b |"]),
    ],
)
def test_rows_of_tables(table, rows):
    assert [block.text for block in read_markdown(table).blocks] == rows


def test_rows_have_their_links_and_the_header_of_their_table():
    page = read_markdown("| a | b |\n|---|---|\n| [1](1.md) | |\n| <a id=x href=2.md>2</a> | |\n\n| c |\n|---|\n| 3 |\n\nend")
    assert [(block.text, block.links, block.anchors, block.header, block.leads) for block in page.blocks] == [
        ("a | b", (), (), "", True),
        ("1", ("1.md",), (), "a | b", False),
        ("2", ("2.md",), ("x",), "a | b", False),
        ("c", (), (), "", True),
        ("3", (), (), "c", False),
        ("end", (), (), "", False),
    ]


def test_only_the_first_row_of_a_grid_names_its_columns():
    blocks = read_markdown("+---+---+\n| a | b |\n+---+---+\n| c | d |\n+---+---+\n| e | f |\n+---+---+").blocks
    assert [(block.text, block.leads, block.header) for block in blocks] == [
        ("a | b", True, ""),
        ("c | d", False, "a | b"),
        ("e | f", False, "a | b"),
    ]


@pytest.mark.parametrize(
    ("text", "leads"),
    [
        ("**What is it?**", True),
        ("__What__ **is it?**", True),
        ("**What** is it?", False),
        ("**`What`**", True),
        ("**What** `is`", False),
        ("<a id='x'></a>**What is it?**", True),
        ("- **What is it?**", False),
        ("What is it?", False),
        ("# What", True),
    ],
)
def test_what_leads_to_the_next_block(text, leads):
    assert [block.leads for block in read_markdown(text).blocks] == [leads]


def test_anchors_and_links_without_a_text_belong_to_what_follows_or_to_the_end():
    page = read_markdown("a\n\n<a id=x></a>\n\n## B\n\n[![](p.png)](c.md)\n\nd\n\n<a name=y href=e.md></a>")
    assert [(block.text, block.anchors, block.links) for block in page.blocks] == [
        ("a", (), ()),
        ("B", ("x", "b"), ()),
        ("d", ("y",), ("c.md", "e.md")),
    ]
    assert [(block.text, block.anchors) for block in read_markdown("<a id=x></a>").blocks] == [("", ("x",))]


def test_anchors_and_links_of_html_within_a_paragraph_and_a_heading():
    page = read_markdown("## <a id='x'></a>Looms <a href='b.md'>b</a>\n\ntext <a name='y'></a> <i id='z'>i</i> <a name='y'></a>")
    assert [(block.anchors, block.links) for block in page.blocks] == [(("x", "looms-b"), ("b.md",)), (("y", "z"), ())]
    assert page.blocks[0].leads and not page.blocks[1].leads


def test_definitions_with_any_line_ends():
    definitions = reference_definitions("[a]: x.md\r\r[b]: y.md")
    assert sorted(definitions) == ["A", "B"]
    page = read_markdown("[a] and [b]", definitions)
    assert page.blocks[0].links == ("x.md", "y.md") and sorted(definitions) == ["A", "B"]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [(" A-b_c  D! ", "a-b_c--d"), ("हिन्दी", "हिन्दी"), ("Cafe\u0301 (3.11)", "caf\u00e9-311"), ("\t", ""), ("ÄÖ", "äö")],
)
def test_slugs(heading, anchor):
    assert slug(heading) == anchor


@pytest.mark.parametrize(
    ("heading", "rest"),
    [
        ("Part II. Looms", "Looms"),
        ("Chapter 12: Looms", "Looms"),
        ("Section 4.1. Looms", "Looms"),
        ("Appendix B.2.  Looms", "Looms"),
        ("1. Looms", "Looms"),
        ("10.2.3.\tLooms", "Looms"),
        ("B.2. Looms", "Looms"),
        ("B. Looms", "B. Looms"),
        ("10.2 Looms", "10.2 Looms"),
        ("1.Looms", "1.Looms"),
        ("1. ", "1. "),
        ("See 1. Looms", "See 1. Looms"),
        ("Chapter 12 Looms", "Chapter 12 Looms"),
        ("chapter 12. Looms", "chapter 12. Looms"),
    ],
)
def test_numbers_of_headings(heading, rest):
    assert without_number(heading) == rest


def test_paragraphs_of_plain_text_and_line_ends():
    assert plain_lines("a\r\nb\rc\n\r") == "a\nb\nc\n\n"
    page = read_text("\n\n  a\n b\n\t \n\n\nc\r\n\r\nd\n")
    assert (page.title, page.contents) == ("", ())
    assert [(block.text, block.level, block.leads) for block in page.blocks] == [
        ("  a\n b", 0, False),
        ("c", 0, False),
        ("d", 0, False),
    ]


def test_attribute_lists_are_anchors():
    text = "__extensions__{: #extensions }\n: The list.\n\nA paragraph.\n{: .x #name key=v }\n\n`{: #no }` {: .x }\n\n## H {: #h }"
    page = read_markdown(text)
    assert [block.anchors for block in page.blocks] == [("extensions",), ("name",), (), ("h",)]
    assert [block.text for block in page.blocks] == ["extensions\n: The list.", "A paragraph.", "{: #no } {: .x }", "H"]


def texts(page):
    return [block.text for block in page.blocks]


def links(page):
    return [link for block in page.blocks for link in block.links]


def anchors(page):
    return [(block.text, block.anchors) for block in page.blocks if block.anchors]


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

    def test_no_text_lies_too_deep_to_be_read(self):
        """The parser goes 20 levels deep, and a list has two of them."""
        for depth in (1, 8, 9, 10, 11, 40, 300):
            items = [f"{'  ' * level}- item{level} [to](page{level}.md)" for level in range(depth)]
            page = read_markdown("\n".join([*items, "- behind", "", "# Head"]))
            assert texts(page) == ["\n".join(f"- item{level} to" for level in range(depth)), "- behind", "Head"]
            assert links(page) == [f"page{level}.md" for level in range(depth)]
        for depth in (1, 17, 18, 19, 20, 300):
            quote = "> " * depth
            page = read_markdown(f"{quote}one\n{quote}\n{quote}two\n\nthree")
            assert " ".join(texts(page)).replace(">", "").split() == ["one", "two", "three"]

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


@pytest.mark.parametrize(
    ("text", "read", "to"),
    [
        ("See [[Page]], [[Page|it]].", "See Page, it.", ("[[Page]]",)),
        (
            "[[Page#The Mill]] [[d/Page.md#A#B c|shown]] [[#Here]]",
            "Page > The Mill shown Here",
            ("[[Page#the-mill]]", "[[d/Page.md#a#b-c]]", "[[#here]]"),
        ),
        ("[[Page#^a1]] ![[Page]] ![[loom.png|300]]!", "Page Page !", ("[[Page#^a1]]", "[[Page]]", "[[loom.png]]")),
        ("见[[李娜]]。 **[[A|b|c]]**", "见李娜。 b|c", ("[[李娜]]", "[[A]]")),
        ("| a | b |\n| - | - |\n| [[P\\|q]] | [[R]] |", "a | b\nq | R", ("[[P]]", "[[R]]")),
        # What is none: code, an index, a test of a shell, an empty name, a link of Markdown with brackets in its words.
        ("`[[a]]` x[[1]] [[ -f x ]] [[]] [[|x]] [[#]] [[a\nb]]", "[[a]] x[[1]] [[ -f x ]] [[]] [[|x]] [[#]] [[a\nb]]", ()),
        ("```\n[[a]]\n```", "[[a]]", ()),
        ("[[1]](x.md) [[y]][z] \\[[a]]\n\n[z]: z.md", "[1] [y] [[a]]", ("x.md", "z.md")),
        ("[[z]]\n\n[z]: z.md", "[z]", ("z.md",)),
    ],
)
def test_links_by_the_names_of_pages(text, read, to):
    page = read_markdown(text)
    assert "\n".join(block.text for block in page.blocks) == read
    assert tuple(dict.fromkeys(link for block in page.blocks for link in block.links)) == to


def test_superscripts_are_powers_unless_they_end_a_word():
    (block,) = read_markdown("10<sup>25</sup> is `big`<SUP>2</SUP>, the 1<sup>st</sup> <sup>2</sup> <sup>open 5").blocks
    assert block.text == "10^25 is big^2, the 1st 2 open 5"
