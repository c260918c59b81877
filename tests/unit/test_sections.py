"""Sections of a page as chunks: which become one, and where long ones are cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.markdown import read_markdown, slug
from graph_retrievers.construction.pages import Block, Page
from graph_retrievers.construction.sections import split_page
from graph_retrievers.errors import InvalidArgumentError

A, B, C, D, E = (lambda level, name=name: (name, level) for name in "ABCDE")
TERM = ("term", 0)


def page(*parts):
    """A number is a paragraph of so many words; (text, level) a heading, or a term where the level is 0."""
    blocks = []
    for place, part in enumerate(parts):
        if isinstance(part, int):
            blocks.append(Block(" ".join("w" * part), 0, (f"p{place}",)))
        else:
            blocks.append(Block(*part, (f"s{place}", f"h{place}"), leads=True))
    return Page("", blocks)


@pytest.mark.parametrize(
    ("parts", "chunks"),
    [
        # A section with 39 words joins the one around it, with 40 it stays.
        ((A(1), 50, B(2), 39), [("A", 90)]),
        ((A(1), 50, B(2), 40), [("A", 50), ("AB", 40)]),
        ((A(1), 39, B(2), 60), [("AB", 100)]),
        ((A(1), 40, B(2), 60), [("A", 40), ("AB", 60)]),
        ((A(1), 50, B(2), 60, C(2), 39, D(2), 9), [("A", 50), ("AB", 60), ("A", 50)]),
        ((A(1), 50, B(2), 60, C(2), 40, D(2), 9), [("A", 50), ("AB", 60), ("AC", 40), ("AD", 9)]),
        # The words of headings do not count, those of all paragraphs do.
        ((A(1), 50, ("B" + " b" * 9, 2), 39), [("A", 99)]),
        ((A(1), 50, B(2), 20, 20), [("A", 50), ("AB", 40)]),
        # A short section whose first subsection follows is joined by that, not by the one before.
        ((A(1), 50, B(2), 9, C(3), 60), [("A", 50), ("ABC", 70)]),
        ((A(1), 50, B(2), C(3), 60), [("A", 50), ("ABC", 61)]),
        ((A(1), 50, B(2), 9, C(2), 60), [("A", 60), ("AC", 60)]),
        # A heading without text joins whatever is before it.
        ((A(1), 50, B(2), 60, C(2)), [("A", 50), ("AB", 61)]),
        ((A(1), 20, B(2), 20), [("AB", 41)]),
        # Short neighbours that have joined are the section around them, also where a longer one follows.
        ((A(1), 50, B(2), 60, C(2), 9, D(2), 9, E(2), 60), [("A", 50), ("AB", 60), ("A", 9 + 1 + 9 + 1 + 60 + 1)]),
        ((9, A(1), 60), [("A", 70)]),
    ],
)
def test_sections_that_join(parts, chunks):
    found = [("".join(name[0] for name in chunk.headings), len(chunk.text.split())) for chunk in split_page(page(*parts))]
    assert found == chunks


@pytest.mark.parametrize(
    ("parts", "limit", "sizes"),
    [
        ((220,), None, [220]),
        ((110, 110), None, [220]),
        ((110, 111), None, [110, 111]),
        ((3, 5), 8, [8]),
        ((8,), 8, [8]),
        ((9,), 8, [8, 1]),
        ((20,), 8, [8, 8, 4]),
        # Parts are about as long as one another; a rest of a third of that stays with what is before it.
        ((4, 4, 4, 4), 10, [8, 8]),
        ((3, 6, 3), 10, [9, 3]),
        ((6, 9, 2), 12, [6, 11]),
        ((6, 9, 3), 12, [6, 12]),
        ((8, 13, 4), 20, [8, 17]),
        ((8, 13, 5), 20, [8, 13, 5]),
        ((10, 15, 5), 20, [10, 20]),
        ((150, 150, 150, 5), 200, [150, 150, 155]),
        # What a term leads to is not parted from it; a run of terms is, once it fills a quarter.
        ((6, TERM, 5), 10, [6, 6]),
        ((TERM,) * 9, 8, [8, 1]),
        ((TERM, TERM, 7), 8, [9]),
        ((TERM, TERM, TERM, 7), 8, [3, 7]),
        ((("t " * 6, 0), ("t " * 6, 0)), 12, [12]),
        ((("t " * 6, 2), 30), 20, [0, 20, 10]),
        ((("t " * 6, 2), ("t " * 6, 0), 2), 8, [0, 8]),
        ((("t " * 6, 0), ("t " * 7, 0)), 12, [6, 7]),
    ],
)
def test_long_sections_are_cut(parts, limit, sizes):
    chunks = split_page(page(*parts)) if limit is None else split_page(page(*parts), limit)
    assert [len(chunk.text.split()) for chunk in chunks] == sizes
    assert [chunk.part for chunk in chunks] == [*range(1, len(sizes) + 1)]


@pytest.mark.parametrize(
    ("parts", "anchors", "texts"),
    [
        # The anchor of a chunk is the last one of its own heading, and its text begins behind that.
        ((A(1), 50), ["h0"], ["w"]),
        ((A(1), 9, A(2), 60), ["h2"], ["w"]),
        ((A(1), 9, B(2), 60), ["h2"], ["w"]),
        ((A(1), 50, B(2), 60, C(2), 9, D(2), 9), ["h0", "h2", ""], ["w", "w", "C"]),
        ((60, A(1)), [""], ["w"]),
        ((A(1), 50, B(2), 60, A(3), 9), ["h0", "h2"], ["w", "w"]),
        ((A(1), TERM, 60), ["h0"], ["term"]),
        ((A(1), ("A", 0), 60), ["h0"], ["A"]),
        ((("A", 0), A(1), 60), ["h1"], ["A"]),
    ],
)
def test_anchors_of_sections(parts, anchors, texts):
    chunks = split_page(page(*parts))
    assert [chunk.anchor for chunk in chunks] == anchors
    assert [chunk.text.split()[0] for chunk in chunks] == texts


def test_a_paragraph_that_repeats_its_heading_is_kept():
    chunks = split_page(Page("", [Block("A", 1, ("a",), leads=True), Block("w " * 9), Block("A"), Block("w " * 9)]), 10)
    assert [chunk.text.split()[0] for chunk in chunks] == ["w", "A"]


def test_pieces_end_with_sentences_and_lines():
    text = "One two three! Four; five six?\nseven eight\n\nnine: ten"
    assert [chunk.text for chunk in split_page(Page("", [Block(text)]), 4)] == [
        "One two three!",
        "Four;",
        "five six?",
        "seven eight",
        "nine: ten",
    ]


def test_spaces_and_blank_lines_stay_within_their_piece():
    text = "one two\n \n \n  three\n\n four five \n \n"
    assert [chunk.text for chunk in split_page(Page("", [Block(text)]), 3)] == ["one two\n \n \n  three", " four five"]


def test_the_header_that_a_part_repeats_counts():
    rows = [Block("w w", header="h h h h") for _ in range(9)]
    chunks = split_page(Page("", [Block("h h h h", leads=True), *rows]), 10)
    assert [chunk.text.split().count("h") for chunk in chunks] == [4, 4, 4, 4]
    assert max(len(chunk.text.split()) for chunk in chunks) == 10


def test_what_follows_a_long_term_is_cut_without_a_loss():
    chunks = split_page(Page("", [Block("q " * 12, leads=True), Block("a b. " * 30)]), 10)
    words = " ".join(chunk.text for chunk in chunks).split()
    assert words == ["q"] * 12 + ["a", "b."] * 30


@pytest.mark.parametrize(
    ("blocks", "sizes"),
    [
        # A row leaves room for a header of at most half a part, and none for a longer one.
        ([Block("x " * 30, header="h " * 12)], [20, 10]),
        ([Block("x " * 30, header="h " * 10)], [20, 20, 20]),
        # A heading is not part of the text, and what follows leaves no room for it.
        ([Block("one two three four five", 2, leads=True), Block("a b. " * 30)], [12] * 5),
    ],
)
def test_what_a_block_that_is_cut_leaves_room_for(blocks, sizes):
    assert [len(chunk.text.split()) for chunk in split_page(Page("", blocks), 20)] == sizes


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
        assert outline(chunks) == [(("A",), 1, 50), (("A", "C"), 1, 62)]
        assert [chunk.anchors for chunk in chunks] == [("a",), ("b", "c")]
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

    @settings(max_examples=200)
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


def written_as_html(text):
    """A page of headings and paragraphs, each heading with the id that Markdown gives it."""
    lines = (re.fullmatch(r"(#*) ?(.*)", line) for line in text.split("\n\n"))
    return "".join(f'<h{len(m[1])} id="{slug(m[2])}">{m[2]}</h{len(m[1])}>' if m[1] else f"<p>{m[2]}</p>" for m in lines)


@pytest.mark.parametrize("read", [read_markdown, lambda text: read_html(written_as_html(text))])
def test_a_heading_without_text_belongs_to_what_follows_on_its_level(read):
    alpha, beta = " ".join(["The alpha text weaves."] * 20), " ".join(["The beta text drives."] * 20)
    headed = ["# U", "## alpha(x)", alpha, "## beta(options)", "## beta()", "## beta(a, b)", beta, "## gamma", "# Next", alpha]
    first, second, third = split_page(read("\n\n".join(headed)), 220)
    assert first.anchors[-1] == "alphax" and first.text == f"alpha(x)\n{alpha}"
    assert second.anchors == ("betaoptions", "beta", "betaa-b", "gamma") and second.anchor == "betaa-b"
    assert second.headings == ("U", "beta(a, b)") and second.text.startswith("beta(options)\nbeta()\nbeta(a, b)\nThe beta")
    assert second.text.endswith("gamma"), "nothing follows in its section"
    assert third.anchors == ("next",)
