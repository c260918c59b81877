"""PDF files: headings of the outline, links, printed pages, and what repeats on them."""

import zlib

import pytest

from graph_retrievers.construction import Links, NumberedReferences, build_edges, read_folder
from graph_retrievers.errors import DatasetError
from tests.pages import read

pytest.importorskip("pypdf", reason="PDF is read with the extra 'files'")

from graph_retrievers.construction import pdf as reader
from graph_retrievers.construction.pdf import read_pdf
from tests.pdf import pdf


def body(number, count=7):
    """Return lines that no other page has."""
    return [
        f"The {'abcdefghijklmnopqrstuvwxyz'[number]}{'abcdefghij'[line]} of a loom weaves cloth of threads."
        for line in range(count)
    ]


LINE = "Looms weave cloth of many threads that are set up on a beam, and so on for a line."


def shown(page):
    return [(block.text, block.level, block.page) for block in page.blocks]


def test_entries_of_the_outline_are_headings():
    pages = [["WEAVING", LINE, "1.2  The cards", "Cards drive."], ["More of them.", "A very long", "title", "Text."]]
    outline = [
        ("Weaving", 0, None, 760),
        ("The cards", 0, "Weaving", 730),
        ("A very long title", 1, None, 740),
        ("None", 1, None, 715),
    ]
    page = read_pdf(pdf(pages, outline, title="Manual"))
    assert (page.title, page.is_title_stated) == ("Manual", True)
    assert shown(page) == [
        *(("Weaving", 1, 1), (LINE, 0, 1), ("The cards", 2, 1), ("Cards drive.", 0, 1)),
        *(("More of them.", 0, 2), ("A very long title", 1, 2), ("None", 1, 2), ("Text.", 0, 2)),
    ]
    assert [block.anchors for block in page.blocks if block.anchors] == [
        *(("page=1", "weaving"), ("the-cards",), ("page=2",), ("a-very-long-title",), ("none",)),
    ]  # fmt: skip


def test_paragraphs_and_divided_words():
    page = read_pdf(pdf([[LINE, "A word is di-", "vided here, and well-", "Known is not.", "", "Next."]]))
    assert [block.text for block in page.blocks] == [f"{LINE}\nA word is divided here, and wellKnown is not.", "Next."]


def test_lines_that_repeat_at_the_edges_are_left_out():
    pages = [["The Loom Manual", f"Chapter {'iv'[n % 2]}", *body(n), f"- {n + 1} of 6 -"] for n in range(6)]
    found = [block.text for block in read_pdf(pdf(pages)).blocks]
    assert found == ["\n".join(body(n)) for n in range(6)]
    assert sum("of 6" in block.text for block in read_pdf(pdf(pages[:2])).blocks) == 2, "two pages say nothing"


def test_a_line_with_the_number_of_a_chapter_alone_is_kept(tmp_path):
    titles = ["Introduction", "Methods", "Results", "Outlook"]
    pages = [[f"Chapter {number}", title, *body(number)] for number, title in enumerate(titles, 1)]
    pages[0].append("Looms are counted in Chapter 3.")
    headings = [f"Chapter {number} {title}" for number, title in enumerate(titles, 1)]
    assert [block.text for block in read_pdf(pdf(pages)).blocks if block.level] == headings
    nodes = read(tmp_path, {"thesis.pdf": pdf(pages)})
    titles = {node.id: node.metadata["headings"][-1].split()[-1] for node in nodes}
    edges = build_edges(nodes, NumberedReferences())
    assert [(titles[source], titles[target]) for source, target, _ in edges] == [("Introduction", "Results")]


PAPER = [
    [
        "On looms",
        "A. Weaver, University of Lyon",
        "",
        "Contents",
        "1 Introduction 2",
        "1.1 Aims 2",
        "2 Method 3",
        "2.1 Cards 3",
        "2.2 Mills 4",
    ],
    ["1 Introduction", "", *body(0, 4), "", "1.1 Aims", "", *body(1, 4), "", "1. Weave.", "2. Count.", "3. Report."],
    ["1.1 Aims 3", "", *body(2, 4), "", "2 Method", "", *body(3, 4), "", "2.1 Cards", "", *body(4, 4)],
    ["2 Method", "", *body(5, 4), "", "2.2 Mills", "", "As Section 1.1 says, looms weave.", *body(6, 4)],
    ["18 Method", "", *body(7, 4), "", "3 Results", "", *body(8, 4)],
]


def test_without_an_outline_lines_with_numbers_are_headings(tmp_path):
    page = read_pdf(pdf(PAPER))
    held = [(block.text, block.level, block.page) for block in page.blocks if block.level]
    assert held == [
        *(("On looms", 1, 1), ("1 Introduction", 2, 2), ("1.1 Aims", 3, 2), ("2 Method", 2, 3), ("2.1 Cards", 3, 3)),
        *(("2.2 Mills", 3, 4), ("3 Results", 2, 5)),
    ]
    # What only looks like a heading, above pages and in the contents, is text.
    text = "\n".join(block.text for block in page.blocks if not block.level)
    assert all(line in text for line in ("2.1 Cards 3", "1.1 Aims 3", "18 Method", "2. Count."))
    (method,) = [block for block in page.blocks if block.text == "2 Method" and block.level]
    assert method.anchors == ("2-method",) and page.blocks[1].anchors == ()
    nodes = read(tmp_path, {"paper.pdf": pdf(PAPER)}, max_tokens=100)
    edges = build_edges(nodes, NumberedReferences())
    assert {(source, target.partition("~")[0]) for source, target, _ in edges} == {("paper.pdf#22-mills", "paper.pdf#11-aims")}


def test_a_link_below_a_numbered_heading_is_one_of_the_text():
    page = read_pdf(pdf([["Chapter 1", "See the web.", LINE], ["Chapter 2", LINE]], links=[(0, 1, "https://x.org")]))
    assert [(block.text.split("\n")[0], block.links) for block in page.blocks][:2] == [
        ("Chapter 1", ()),
        ("See the web.", ("https://x.org",)),
    ]


def test_the_title_that_a_pdf_states_is_above_its_numbered_headings():
    page = read_pdf(pdf([["1 Looms", "", *body(0)], ["2 Mills", "", *body(1)]], title="On looms"))
    assert (page.title, page.is_title_stated) == ("On looms", True)
    page = read_pdf(pdf([["1 Looms", "", *body(0)], ["2 Mills", "", *body(1)]], title="(anonymous)"))
    assert (page.title, page.is_title_stated) == ("", False)
    assert [block.text for block in page.blocks if block.level] == ["1 Looms", "2 Mills"]


def test_headings_above_pages_with_their_numbers_are_left_out():
    pages = [
        ["3 Looms", *body(0)],
        ["Chapter 3: Looms 6", *body(1)],
        ["7", *body(2)],
        ["8", *body(3)],
        ["9", *body(4)],
        ["Looms . . . 3", *body(5)],
    ]
    found = [block.text.split("\n")[0] for block in read_pdf(pdf(pages, [("3 Looms", 0, None, 760)])).blocks]
    assert found == ["3 Looms", *(body(n)[0] for n in range(5)), "Looms . . . 3"]


def test_headings_above_pages_are_left_out_except_where_they_begin():
    pages = [[name, *body(n)] for n, name in enumerate(["One", "One", "One", "One", "Two", "Two", "Two", "End", "E", "F"])]
    page = read_pdf(pdf(pages, [("One", 0, None, 760), ("Two", 4, None, 760)]))
    assert [text for text, *_ in shown(page) if text.split("\n")[0] in ("One", "Two")] == ["One", "Two"]


def test_links_lead_to_pages_and_places(tmp_path):
    pages = [["See cards and looms and the web.", *[LINE] * 30], [*[LINE] * 20, "", "The cards drive it.", *[LINE] * 20]]
    links = [(0, 0, 1), (0, 0, (1, 750 - 14 * 20.5)), (0, 0, "https://x.org")]
    nodes = read(tmp_path, {"a.pdf": pdf(pages, links=links)}, max_tokens=150)
    first = nodes[0].metadata
    assert first["links"] == ["/a.pdf#page%3D2", "/a.pdf#page%3D2%26top%3D463", "https://x.org"]
    goals = [target for _, target, _ in build_edges(nodes, [Links(field="links")])]
    there = {node.id: node for node in nodes}
    assert goals[0] != goals[1] and [there[goal].metadata["page"] for goal in goals] == [2, 2]
    assert "The cards drive it." in there[goals[1]].text and "The cards" not in there[goals[0]].text


def test_links_lead_to_heights_of_every_form_and_to_other_files(tmp_path):
    from io import BytesIO

    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject, NumberObject, TextStringObject

    pages = [["See it.", *[LINE] * 30], [*[LINE] * 20, "", "The cards drive it.", *[LINE] * 20]]
    writer = PdfWriter(PdfReader(BytesIO(pdf(pages))))

    def link(**entries):
        held = {"/Type": NameObject("/Annot"), "/Subtype": NameObject("/Link")}
        held["/Rect"] = ArrayObject([FloatObject(side) for side in (50, 748, 200, 760)])
        held |= {f"/{name}": value for name, value in entries.items()}
        writer.add_annotation(0, DictionaryObject({NameObject(name): value for name, value in held.items()}))

    def action(file, *place):
        held = {"/S": NameObject("/GoToR"), "/F": file} | ({"/D": ArrayObject(place)} if place else {})
        return DictionaryObject({NameObject(name): value for name, value in held.items()})

    second = writer.pages[1].indirect_reference
    for form in ("/FitH", "/FitBH"):
        link(Dest=ArrayObject([second, NameObject(form), FloatObject(463)]))
    link(A=action(TextStringObject("parts\\\u00e4.pdf"), NumberObject(1), NameObject("/Fit")))
    link(A=action(DictionaryObject({NameObject("/F"): TextStringObject("mill.pdf")})))
    out = BytesIO()
    writer.write(out)
    files = {"a.pdf": out.getvalue(), "parts/\u00e4.pdf": pdf([["One."], ["Two."]]), "mill.pdf": pdf([["A mill."]])}
    first = read(tmp_path, files)[0].metadata
    assert first["links"] == ["/a.pdf#page%3D2%26top%3D463", "/parts/%C3%A4.pdf#page%3D2", "/mill.pdf"]


def test_a_link_in_the_line_of_the_title_is_one_of_the_page():
    raw = pdf([["Jacquard loom", "", "It reads cards.", LINE, LINE]], links=[(0, 0, "https://x.org")])
    page = read_pdf(raw)
    assert page.title == "Jacquard loom" and [link for block in page.blocks for link in block.links] == ["https://x.org"]


def test_nodes_know_their_printed_page(tmp_path):
    nodes = read(tmp_path, {"a.pdf": pdf([[LINE] * 40, [LINE] * 40, [], [LINE] * 40], [("End", 3, None, 760)])})
    assert [node.metadata["page"] for node in nodes][:1] == [1]
    assert {node.metadata["page"] for node in nodes} == {1, 2, 4}
    assert nodes[-1].id == "a.pdf#end~4"
    (end,) = [node for node in nodes if node.id == "a.pdf#end"]
    assert end.metadata["anchors"] == ["page=3", "page=4", "end"]
    assert [node.metadata["chunk_index"] for node in nodes] == list(range(len(nodes)))


@pytest.mark.parametrize("link", ["[[paper.pdf#page=3]]", "[[paper.pdf#page=3&selection=0,1,2,3|p]]", "[p](paper.pdf#page=3)"])
def test_a_note_links_to_a_page_of_a_pdf(tmp_path, link):
    (tmp_path / "paper.pdf").write_bytes(pdf([body(number, 10) for number in range(3)]))
    (tmp_path / "note.md").write_text(f"# Note\nSee {link}.")
    note, *_ = nodes = read_folder(tmp_path, max_tokens=100)
    assert note.metadata["links"] == ["/paper.pdf#page%3D3"]
    ((_, target, _),) = build_edges(nodes, [Links(field="links")])
    assert next(node for node in nodes if node.id == target).metadata["page"] == 3


def test_a_whole_file_has_the_page_on_which_its_text_begins(tmp_path):
    (tmp_path / "paper.pdf").write_bytes(pdf([[], *(body(number, 4) for number in range(3))]))
    assert [node.metadata["page"] for node in read_folder(tmp_path, max_tokens=None)] == [2]


def test_titles():
    assert read_pdf(pdf([["Jacquard loom", "", "It reads cards.", LINE, LINE]])).title == "Jacquard loom"
    assert read_pdf(pdf([["Jacquard loom", "", "It reads cards.", LINE, LINE]], title="The loom")).title == "The loom"
    assert read_pdf(pdf([["It reads cards."]], title="Microsoft Word - loom.docx")).title == ""


def test_files_that_cannot_be_read_are_named(tmp_path, caplog):
    whole = pdf([[LINE] * 30])
    bad = {
        "a.pdf": (pdf([[LINE]], password="secret"), "it is encrypted; a password is needed"),
        "b.pdf": (b"%PDF-1.4", "it is broken: "),
        "c.pdf": (whole[:200], "it is broken: "),
        "d.pdf": (b"", "it is broken: "),
        "e.pdf": (pdf([[], []]), "it has no text"),
        "f.pdf": (b"x" * 10_000, "it is broken: "),
    }
    files = {name: raw for name, (raw, _) in bad.items()}
    assert [node.id for node in read(tmp_path, files | {"z.txt": "text"})] == ["z.txt"]
    (told,) = [message for message in caplog.messages if message.startswith("Left out 6 items")]
    for name, (_, why) in bad.items():
        assert f"{name} ({why}" in told
    with pytest.raises(DatasetError, match=r"6 items of .* cannot be used: a\.pdf \(it is encrypted"):
        read_folder(tmp_path, strict=True)


def test_a_broken_page_is_named_and_the_others_are_read(tmp_path, caplog, monkeypatch):
    def broken(page, *others):
        if page.page_number == 1:
            raise KeyError("/Length")
        return leaf(page, *others)

    leaf = reader._leaf
    monkeypatch.setattr(reader, "_leaf", broken)
    raw = pdf([["One.", *body(0)], ["Two.", *body(1)], ["Three.", *body(2)]])
    nodes = read(tmp_path, {"a.pdf": raw})
    text = "\n".join(node.text for node in nodes)
    assert "One." in text and "Three." in text and "Two." not in text
    assert "a.pdf (page 2 is broken: KeyError: '/Length')" in caplog.text
    with pytest.raises(DatasetError, match=r"a\.pdf \(page 2 is broken"):
        read_folder(tmp_path, strict=True)


def test_a_file_that_needs_no_password_to_be_read(tmp_path):
    assert read_pdf(pdf([["Free text."]], password="")).blocks[0].text == "Free text."


def test_hostile_files_end(monkeypatch):
    whole = pdf([["text"]])
    pages = b"1 0 obj<</Type/Catalog/Pages 2 0 R/Outlines 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n"
    bomb = b"%PDF-1.4\n" + pages + b"3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 9 9]>>endobj\n"
    bomb += b"4 0 obj<</Filter/FlateDecode/Length SIZE>>stream\n"
    packed = zlib.compress(b"q Q " * 20_000_000, 9)
    raw = bomb.replace(b"SIZE", b"%d" % len(packed)) + packed + b"\nendstream endobj\ntrailer<</Root 1 0 R>>"
    with pytest.raises(reader.UnreadableError, match="more than|broken"):
        read_pdf(raw)
    loop = b"%PDF-1.4\n" + pages.replace(b"[3 0 R]", b"[2 0 R 2 0 R]")
    with pytest.raises(reader.UnreadableError):
        read_pdf(loop + b"trailer<</Root 1 0 R>>")
    monkeypatch.setattr(reader, "_OPERATORS", 3)
    with pytest.raises(reader.UnreadableError, match="more than 3 operators"):
        read_pdf(whole)
