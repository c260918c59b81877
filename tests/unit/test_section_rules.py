"""Which sections become one chunk, and where long ones are cut: limits and ties, one by one."""

import pytest

from graph_retrievers.construction.pages import Block, Page
from graph_retrievers.construction.sections import split_page

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
        # A heading is no part of the text, and what follows leaves no room for it.
        ([Block("one two three four five", 2, leads=True), Block("a b. " * 30)], [12] * 5),
    ],
)
def test_what_a_block_that_is_cut_leaves_room_for(blocks, sizes):
    assert [len(chunk.text.split()) for chunk in split_page(Page("", blocks), 20)] == sizes
