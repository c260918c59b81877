"""Sections that several pages hold: which page keeps them, and where the others lead."""

from dataclasses import replace

from graph_retrievers.construction.copies import without_copies
from graph_retrievers.construction.sections import Chunk


def section(name, text=None, anchors=None, part=1):
    anchors = (name,) if anchors is None else anchors
    return Chunk(text or f"About {name}. " * 20, (name.title(),), anchors, (), name, part)


PAGES = {name: [section(name), section(f"{name}-end", f"The end of {name}. " * 10)] for name in ("a", "b", "c")}
ALL = [chunk for chunks in PAGES.values() for chunk in chunks]


def kept(pages):
    return {name: [chunk.anchor for chunk in chunks] for name, chunks in without_copies(pages)[0].items() if chunks}


def test_the_shorter_page_keeps_a_section_and_of_equal_ones_the_first():
    assert kept({"book": ALL, **PAGES}) == {name: [name, f"{name}-end"] for name in "abc"}
    assert kept({"v2": PAGES["a"], "v1": PAGES["a"]}) == {"v2": ["a", "a-end"]}


def test_short_texts_and_other_headings_do_not_make_a_copy():
    short = [section("s", "Thirty-nine tokens at most. " * 7), section("t", "No.")]
    assert kept({"x": short, "y": short}) == {"x": ["s", "t"], "y": ["s", "t"]}
    other = [section("other", PAGES["a"][0].text)]
    assert kept({"x": other, "a": PAGES["a"]}) == {"x": ["other"], "a": ["a", "a-end"]}


def test_half_of_a_page_is_not_a_copy():
    half = [PAGES["a"][0], section("own")]
    assert kept({"x": PAGES["a"] + PAGES["b"], "half": half})["half"] == ["a", "own"]


def test_of_a_copy_what_stands_elsewhere_line_by_line_is_left_out_too():
    lines = [PAGES["b"][0].text, "A-End", PAGES["a"][1].text]
    found = section("joined", "\n".join(lines), ("j",))
    new = section("new", "\n".join([*lines, "a line of its own"]))
    chunks, places = without_copies({"book": [*ALL, found, new], **PAGES})
    assert [chunk.anchor for chunk in chunks["book"]] == ["new"]
    assert places["book", "j"] == ("b", "b") and places["book", ""] == ("a", "a")


def test_an_anchor_that_the_page_still_has_stays():
    rest = section("a", "The rest. " * 30, ("a",), part=2)
    assert ("book", "a") not in without_copies({"book": [*ALL, rest], **PAGES})[1]


def test_short_sections_with_headings_of_their_own_stay():
    common = [section(name, f"About {name}. " * 20) for name in ("x", "y", "z")]
    pages = {"add": [*common, section("lock", "Yes.")], "rm": [*common, section("undo", "Yes.")]}
    kept = without_copies(pages)[0]
    assert [chunk.anchor for chunk in kept["rm"]] == ["undo"] and "lock" in [chunk.anchor for chunk in kept["add"]]


def test_lines_may_be_the_headings_above_a_section():
    below = replace(section("a"), headings=("Looms of Lyon", "A"))
    found = section("joined", f"Looms of Lyon\n{below.text}", ("j",))
    chunks, places = without_copies({"book": [below, *ALL[1:], found], **PAGES, "a": [below, PAGES["a"][1]]})
    assert chunks["book"] == [] and places["book", "j"] == ("a", "a")


def test_empty_lines_need_not_stand_elsewhere():
    found = section("joined", f"{PAGES['b'][0].text}\n\n  \n{PAGES['a'][1].text}", ("j",))
    assert without_copies({"book": [*ALL, found], **PAGES})[1]["book", "j"] == ("b", "b")


def test_an_anchor_of_several_copies_leads_to_the_first():
    parts = [section("a", f"Part {part}. " * 30, ("s",), part) for part in (1, 2)]
    pages = {"book": parts, **{name: [replace(part, anchors=(name,))] for name, part in zip("xy", parts, strict=True)}}
    assert without_copies(pages)[1] == {("book", "s"): ("x", "x"), ("book", ""): ("x", "x")}


def test_of_pages_that_share_a_section_the_first_is_where_it_is_found():
    pages = {name: [section("common"), section(f"{name}-own"), section(f"{name}-more")] for name in "xy"}
    assert without_copies({**pages, "book": [section("common"), *pages["x"][1:], *pages["y"][1:]]})[1]["book", "common"][0] == "x"


def test_anchors_lead_to_the_same_ones_or_to_the_first_of_the_section():
    text = "About looms. " * 20
    pages = {
        "book": [section("looms", text, ("b", "c", "d")), section("cards", text + "Cards.", ("e",))],
        "looms": [section("looms", text, ("a", "c"))],
        "cards": [section("cards", text + "Cards.", ())],
    }
    places = without_copies(pages)[1]
    assert places == {
        ("book", ""): ("looms", "a"),
        ("book", "b"): ("looms", "a"),
        ("book", "c"): ("looms", "c"),
        ("book", "d"): ("looms", "a"),
        ("book", "e"): ("cards", ""),
    }
