"""Rules of links, one by one: what is read how, which anchor a fragment names, what counts as navigation."""

import numpy as np
import pytest

from graph_retrievers.construction import Links, build_edges
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node


def chunk(identity, text="", source="", **metadata):
    return Node(identity, text, metadata={"source": source, **metadata} if source else metadata)


def pairs(nodes, *specs):
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
    assert pairs(nodes) == [("a", name) for name in found]


@pytest.mark.parametrize(
    "text", ["[x](http://h/b)", "[x]\n\n[x]: http://h/b", "<http://h/b>", "<a href=http://h/b>b", "<A HREF=http://h/b>b"]
)
def test_forms_of_links(text):
    assert pairs([chunk("a", text, "http://h/a"), chunk("b", "", "http://h/b")]) == [("a", "b")]


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
    assert pairs(nodes) == [("a", target)]


def test_of_chunks_that_overlap_the_later_one_counts_and_further_below_the_first():
    nodes = [chunk("a", "[x](b.md#two)", "a.md"), chunk("c", "[x](b.md#-Two)", "a.md")]
    nodes += [chunk(f"b{n}", text, "b.md") for n, text in enumerate(["# B", "x\n\n## Two", "## Two\n\ny", "z", "## Two\n\nelse"])]
    assert pairs(nodes) == [("a", "b2"), ("c", "b2")]


def test_a_link_to_nowhere_in_particular_is_none():
    assert pairs([chunk("a", "# A", "a.md"), chunk("a2", "[x]() [y](#a)", "a.md")]) == [("a2", "a")]
    assert pairs([chunk("a", "# A", "a.md"), chunk("a2", "[x]()", "a.md")]) == []


@pytest.mark.parametrize(("pages", "linking", "kept"), [(10, 5, True), (10, 6, False), (9, 8, True), (11, 5, True), (11, 6, False)])
def test_half_of_the_pages_is_not_navigation_and_more_is_of_at_least_ten(pages, linking, kept, caplog):
    texts = [f"[home](0.md) [gone](x{n}.md)" if 0 < n <= linking else "" for n in range(pages)]
    nodes = [chunk(str(n), text, f"{n}.md") for n, text in enumerate(texts)]
    # Chunks of a page count once.
    nodes += [chunk(f"1-{n}", texts[1], "1.md") for n in range(9)]
    with caplog.at_level("INFO"):
        assert (("1", "0") in pairs(nodes)) is kept
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
    assert sorted(pairs(nodes, Links(field="links"))) == [tuple(pair) for pair in found]


def test_anchors_are_read_from_texts_where_metadata_hold_links_only():
    nodes = [chunk("a", "", "a.md", links="b.md#x"), chunk("b", "", "b.md"), chunk("b2", "## X", "b.md")]
    assert pairs(nodes, Links(field="links")) == [("a", "b2")]


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
    assert pairs(linking + pieces) == [("a", "b1"), ("a", "b3"), ("a", "b4")]


def test_headings_that_overlapping_chunks_repeat_count_once():
    texts = ["# U\nx\n## Usage\none", "## Usage\none\ntwo\n\n# V", "# V\nmore\n## Usage\n", "## Usage\nthree"]
    pieces = [chunk(f"b{n}", text, "b.md") for n, text in enumerate(texts)]
    assert pairs([chunk("a", "[0](b.md#usage) [1](b.md#usage-1) [2](b.md#v)", "a.md"), *pieces]) == [
        ("a", "b1"),
        ("a", "b3"),
        ("a", "b2"),
    ]


def test_repeated_headings_in_metadata_are_counted():
    paths = [("U", "Usage"), ("U", "Usage"), ("V", "Usage"), ("V", "Usage", "Usage")]
    pieces = [chunk(f"b{n}", "text", "b.md", headings=path) for n, path in enumerate(paths)]
    linking = [chunk("a", "[0](b.md#usage) [1](b.md#usage-1) [2](b.md#usage-2)", "a.md")]
    assert pairs(linking + pieces) == [("a", "b0"), ("a", "b2"), ("a", "b3")]


def test_anchors_that_a_splitter_dropped_are_told(caplog):
    pieces = [chunk("b0", "begins", "b.html"), chunk("b1", "goes on", "b.html")]
    linking = [chunk("a", "<a href='b.html#x'>x</a><a href='b.html#y'>y</a><a href='c.html#z'>z</a>", "a.html")]
    assert pairs([*linking, *pieces, chunk("c", "", "c.html")]) == [("a", "b0"), ("a", "c")]
    assert "links that name an anchor: 2, anchors found: 0; they lead to the first chunk" in caplog.text
    caplog.clear()
    pairs([*linking, *pieces, chunk("b2", "<i id=y>", "b.html"), chunk("c", "", "c.html")])
    assert caplog.text == ""


def test_a_chunk_of_an_anchor_alone_holds_it():
    assert pairs(
        [chunk("a", "<a href='b.html#u'>x</a>", "a.html"), chunk("b", "x", "b.html"), chunk("u", "<h2 id=u>", "b.html")]
    ) == [("a", "u")]
