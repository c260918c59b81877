"""What the reader of Markdown makes of front matter, headings, anchors and line ends, one by one."""

import pytest

from graph_retrievers.construction.markdown import read_markdown, reference_definitions, slug
from graph_retrievers.construction.pages import plain_lines, read_text, without_number


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
        ("#   The `Loom_x` *is* [it](y.md)  ##", "The `Loom_x` *is* [it](y.md)", "the-loom_x-is-it"),
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
        ("* a\n\n  more\n* b\n\n1. c\n2. d", ["* a\n\n  more", "* b", "1. c", "2. d"]),
        ("    code\n\n> quote\n> on", ["    code", "> quote\n> on"]),
        ("```\n\n x \n\n```", ["```\n\n x \n\n```"]),
        ("a\n\n[x]: y.md\n\nb", ["a", "b"]),
        ("# \n\ntext", ["text"]),
        ("#\n\n- \n- x", ["-", "- x"]),
    ],
)
def test_blocks_are_kept_as_written(text, expected):
    assert [text for text, *_ in blocks(text)] == expected


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
    assert page.blocks[0].text.startswith("__extensions__{: #extensions }")
