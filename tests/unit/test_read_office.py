"""Documents of Word, PowerPoint and Excel, books in EPUB, and notebooks."""

import json
import zipfile
from io import BytesIO

import pytest

from graph_retrievers.construction import Links, build_edges, office, read_folder
from graph_retrievers.construction.formats import FORMATS
from graph_retrievers.construction.office import read_book
from graph_retrievers.construction.pages import UnreadableError
from graph_retrievers.errors import DatasetError
from tests.pages import WORDS, read

needs_extra = pytest.mark.skipif(
    any(FORMATS[suffix].lacks_module for suffix in (".docx", ".pptx", ".xlsx")), reason="read with the extra 'files'"
)
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def packed(parts, method=zipfile.ZIP_DEFLATED):
    out = BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def paragraph(text, style="", mark=""):
    style = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    mark = f'<w:bookmarkStart w:id="1" w:name="{mark}"/><w:bookmarkEnd w:id="1"/>' if mark else ""
    return f"<w:p>{style}{mark}{text}</w:p>"


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def word(*paragraphs):
    kinds = "".join(f'<w:style w:type="paragraph" w:styleId="H{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2))
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    types = f'<Override PartName="/word/document.xml" ContentType="{main}.document.main+xml"/>'
    types += f'<Override PartName="/word/styles.xml" ContentType="{main}.styles+xml"/>'
    link = f'<Relationship Id="x" Type="{OFFICE}/hyperlink" Target="mill.docx" TargetMode="External"/>'
    style = f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.xml"/>'
    start = f'<Relationship Id="r" Type="{OFFICE}/officeDocument" Target="word/document.xml"/>'
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    package = "http://schemas.openxmlformats.org/package/2006/content-types"
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}">{default}{types}</Types>',
            "_rels/.rels": f'<Relationships xmlns="{RELATIONS}">{start}</Relationships>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{RELATIONS}">{style}{link}</Relationships>',
            "word/styles.xml": f"<w:styles {W}>{kinds}</w:styles>",
            "word/document.xml": f'<w:document {W} xmlns:r="{OFFICE}"><w:body>{"".join(paragraphs)}</w:body></w:document>',
        }
    )


@needs_extra
def test_word(tmp_path):
    cells = "".join(f"<w:tr>{''.join(f'<w:tc>{paragraph(run(cell))}</w:tc>' for cell in row)}</w:tr>" for row in ("ab", "cd"))
    link = f'<w:hyperlink w:anchor="mill">{run("the mill")}</w:hyperlink> <w:hyperlink r:id="x">{run("another")}</w:hyperlink>'
    dead = f'<w:hyperlink w:anchor="nowhere">{run("dead")}</w:hyperlink>'
    power = run("25", '<w:vertAlign w:val="superscript"/>')
    raw = word(
        paragraph(run("Looms"), "H1"),
        paragraph(run(WORDS * 20 + "10") + power + run(" and ") + link + dead),
        f"<w:tbl>{cells}</w:tbl>",
        paragraph(run("Mill"), "H2", mark="mill"),
        paragraph(run(WORDS * 20)),
    )
    nodes = read(tmp_path, {"a.docx": raw, "mill.docx": word(paragraph(run("Mills"), "H1"), paragraph(run("They grind.")))})
    assert [(node.id, node.title) for node in nodes] == [
        ("a.docx", "Looms"),
        ("a.docx#mill", "Looms: Mill"),
        ("mill.docx", "Mills"),
    ]
    assert "10^25 and the mill" in nodes[0].text and "a | b\nc | d" in nodes[0].text
    assert nodes[0].metadata["links"] == ["/a.docx#mill", "/mill.docx"]
    assert build_edges(nodes, [Links(field="links")]) == [("a.docx", "a.docx#mill", "links"), ("a.docx", "mill.docx", "links")]


@needs_extra
def test_slides(tmp_path):
    from pptx import Presentation

    show = Presentation()
    for title, text in (("Looms", "They weave. " + WORDS * 20), ("Cards", "They drive " + WORDS * 20)):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    show.save(tmp_path / "a.pptx")
    nodes = read_folder(tmp_path)
    assert [(node.title, node.metadata["page"]) for node in nodes] == [("Looms", 1), ("Looms: Cards", 2)]
    assert nodes[0].text.startswith("They weave. Some") and nodes[1].metadata["anchors"] == ["slide=2", "cards"]


@needs_extra
def test_sheets(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Looms"
    for row in (["Name", "Width"], ["Jacquard", 12], ["Dobby", None], ["Drum", 3.5]):
        book.active.append(row)
    book.create_sheet("Mills").append(["a", "b"])
    book.save(tmp_path / "a.xlsx")
    (node,) = read_folder(tmp_path)
    assert node.text.split("\n")[:4] == ["Looms", "Name | Width", "Jacquard | 12", "Dobby"] and "Mills\na | b" in node.text


@needs_extra
def test_a_sheet_with_one_cell_far_away_is_named(tmp_path, caplog):
    from openpyxl import Workbook

    book = Workbook()
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "b.txt").write_text("text")
    assert [node.id for node in read_folder(tmp_path)] == ["b.txt"]
    assert "a.xlsx (a sheet has 1,048,576 rows and 16,384 columns, more than 2,000,000 cells)" in caplog.text


@needs_extra
def test_a_title_above_a_sheet_is_no_header_and_whole_numbers_have_no_point():
    from openpyxl import Workbook

    file = BytesIO()
    sheets = Workbook()
    for row in (["Looms of 1804"], ["Jacquard", 12]):
        sheets.active.append(row)
    sheets.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name).replace(b"<v>12</v>", b"<v>12.0</v>") for name in archive.namelist()}
    blocks = office.read_sheets(packed(parts)).blocks
    assert [(block.text, block.header) for block in blocks[1:]] == [("Looms of 1804", ""), ("Jacquard | 12", "")]


@needs_extra
def test_cells_are_counted_however_a_sheet_is_written(monkeypatch):
    from openpyxl import Workbook

    monkeypatch.setattr(office, "_CELLS", 100)
    file = BytesIO()
    sheets = Workbook()
    sheets.active["A1"] = 1
    sheets.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name.replace("worksheets/", "other/"): archive.read(name) for name in archive.namelist()}
    parts = {name: raw.replace(b"worksheets/sheet1", b"other/sheet1") for name, raw in parts.items()}
    assert office.read_sheets(packed(parts)).blocks[-1].text == "1"
    row = b"<row r='1'><c r='CW1'><v>1</v></c></row>"
    parts["xl/other/sheet1.xml"] = parts["xl/other/sheet1.xml"].replace(b"<sheetData>", b"<sheetData>" + row)
    with pytest.raises(UnreadableError, match="a sheet has more than 100 cells"):
        office.read_sheets(packed(parts))


def book(chapters, more=""):
    items = "".join(f'<item id="c{n}" href="text/{name}"/>' for n, name in enumerate(chapters))
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    about = '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The loom book</dc:title></metadata>'
    opf = f"<package>{about}<manifest>{items}</manifest><spine>{order}</spine></package>"
    container = '<container><rootfiles><rootfile full-path="OEBPS/a.opf"/></rootfiles></container>'
    named = {f"OEBPS/text/{name}": f"<html><body>{text}</body></html>" for name, text in chapters.items()}
    return packed({"META-INF/container.xml": f"{more}{container}", "OEBPS/a.opf": opf, **named})


def test_books(tmp_path):
    chapters = {
        "one.xhtml": f"<h1>Looms</h1><p>{WORDS * 20}"
        "<a href='two.xhtml#mill'>m</a> <a href='../text/two.xhtml'>t</a> <a href='#x'>x</a>",
        "two.xhtml": f"<h1>Cards</h1><p>{WORDS * 20}</p>"
        f"<h2 id='mill'>The mill</h2><p id='x'>{WORDS * 20}<a href='nowhere.xhtml'>n</a>",
    }
    nodes = read(tmp_path, {"a.epub": book(chapters)})
    assert [node.title for node in nodes] == ["The loom book: Looms", "The loom book: Cards", "The loom book: The mill"]
    assert nodes[0].metadata["links"] == [
        "/a.epub#OEBPS/text/two.xhtml%23mill", "/a.epub#OEBPS/text/two.xhtml", "/a.epub#OEBPS/text/one.xhtml%23x",
    ]  # fmt: skip
    found = [(source, target) for source, target, _ in build_edges(nodes, [Links(field="links")])]
    assert [(nodes[0].id, node.id) for node in (nodes[2], nodes[1])] == found[:2]


def test_no_entity_of_a_book_leads_to_a_file(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    more = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]>'
    page = read_book(book({"one.xhtml": "<p>Text &e;</p>"}, more))
    assert "secret" not in page.blocks[0].text


@pytest.mark.parametrize("suffix", [".epub", *(pytest.param(name, marks=needs_extra) for name in (".docx", ".pptx", ".xlsx"))])
def test_broken_and_hostile_files_are_named(tmp_path, caplog, monkeypatch, suffix):
    monkeypatch.setattr(office, "_MARKUP", 1_000_000)
    monkeypatch.setattr(office, "_UNPACKED", 2_000_000)
    locked = bytearray(packed({"a.xml": "text"}))
    for place in (locked.find(b"PK\x01\x02") + 8, locked.find(b"PK\x03\x04") + 6):
        locked[place] |= 1
    bad = {
        "a": (b"", "it is broken: "),
        "b": (b"text", "it is broken: "),
        "c": (packed({"x": "y"}), "it is broken: "),
        "d": (packed({"word/document.xml": " " * 1_000_001}), "it has 1,000,001 bytes when it is unpacked, more than 1,000,000"),
        "e": (packed({"x.png": "\0" * 2_000_001}), "it has 2,000,001 bytes when it is unpacked, more than 2,000,000"),
        "f": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "it is encrypted, or in the format of Office 97"),
        "g": (bytes(locked), "it is encrypted; a password is needed"),
        "h": (packed({"x": "y"})[:60], "it is broken: "),
        "i": (
            packed({"word/document.png": "\ufeff\n<a>" + "x" * 999_998}),
            "it has 1,000,005 bytes when it is unpacked, more than",
        ),
    }
    files = {f"{name}{suffix}": raw for name, (raw, _) in bad.items()}
    assert [node.id for node in read(tmp_path, files | {"z.txt": "text"})] == ["z.txt"]
    (told,) = [message for message in caplog.messages if message.startswith(f"Left out {len(bad)} items")]
    for name, (_, why) in bad.items():
        assert f"{name}{suffix} ({why}" in told
    with pytest.raises(DatasetError, match=f"{len(bad)} items .* cannot be used"):
        read_folder(tmp_path, strict=True)


def test_chapters_of_a_book_are_counted_by_any_name(monkeypatch):
    monkeypatch.setattr(office, "_MARKUP", 1_000)
    with zipfile.ZipFile(BytesIO(book({"one.txt": ""}))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["OEBPS/text/one.txt"] = b"Looms " * 200
    with pytest.raises(UnreadableError, match="its chapters have 1,200 bytes, more than 1,000"):
        read_book(packed(parts))


def test_what_a_file_says_of_its_size_bounds_what_is_unpacked():
    """A part that says it is small is not unpacked further."""
    raw = bytearray(book({"one.xhtml": "<p>" + "x" * 100_000}))
    size = (100_000 + len("<html><body><p></body></html>")).to_bytes(4, "little")
    assert raw.count(size) == 2
    with pytest.raises(UnreadableError, match="it is broken"):
        read_book(bytes(raw.replace(size, (10).to_bytes(4, "little"))))


def notebook(*cells, **more):
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells], "nbformat": 4} | more)


def test_notebooks(tmp_path):
    code = "x = 1\n# not a heading\n"
    raw = notebook(
        ("markdown", ["# Looms\n", "See [cards](cards.md)."]),
        ("code", code),
        ("raw", "no"),
        ("code", ["'''\n", "```\n", "'''"]),
        ("code", ""),
        metadata={"language_info": {"name": "python"}},
    )
    held = json.loads(raw)
    held["cells"][1]["outputs"] = [{"text": ["printed"]}]
    nodes = read(tmp_path, {"a.ipynb": json.dumps(held), "cards.md": "# Cards\n\n[back](a.ipynb#looms)"})
    assert (nodes[0].title, nodes[0].text) == ("Looms", "See cards.\nx = 1\n# not a heading\n'''\n```\n'''")
    assert [node.metadata["links"] for node in nodes] == [["/cards.md"], ["/a.ipynb#looms"]]


@pytest.mark.parametrize("opened", ["<!-- no end", "```\ncode", "<script>"])
def test_what_a_cell_leaves_open_ends_with_it(tmp_path, opened):
    raw = notebook(("markdown", f"# Looms\n\n{opened}"), ("markdown", "## Cards\nThey have [holes][h]."), ("code", "weave()"))
    (node,) = read(tmp_path, {"a.ipynb": raw})
    assert node.text.endswith("Cards\nThey have [holes][h].\nweave()")
    assert node.metadata["anchors"] == ["looms", "cards"]


def test_cells_share_definitions_fields_and_slugs(tmp_path):
    first = "---\ntags: [a]\n---\n# Looms\nSee [cards][c].\n\nyear:: 1804"
    raw = notebook(
        ("markdown", first), ("markdown", "## Looms\n#b\n\nyear:: 1805"), ("markdown", "---\nx: 1\n---\n\n[c]: cards.md")
    )
    node, *_ = read(tmp_path, {"a.ipynb": raw, "cards.md": "# Cards\n\ntext"})
    assert (node.metadata["tags"], node.metadata["year"]) == (["a", "b"], [1804, 1805])
    assert (node.metadata["links"], node.metadata["anchors"]) == (["/cards.md"], ["looms", "looms-1", "x-1"])


def test_front_matter_in_a_raw_cell_is_that_of_the_page(tmp_path):
    raw = notebook(
        ("raw", ["---\n", "title: Looms\n", "tags: [mill]\n", "---"]), ("raw", "---\nx: 1\n---"), ("markdown", "They weave.")
    )
    (node,) = read(tmp_path / "a", {"a.ipynb": raw})
    assert (node.title, node.text, node.metadata["tags"], "x" in node.metadata) == ("Looms", "They weave.", ["mill"], False)
    (node,) = read(tmp_path / "b", {"a.ipynb": notebook(("raw", "\\newpage"), ("markdown", "They weave."))})
    assert node.text == "They weave."


@needs_extra
def test_notebooks_and_slides_beside_notes_have_the_links_of_their_kind(tmp_path):
    from pptx import Presentation

    pages = {"root.md": "# Root", "tool.loom.md": "A loom.", "dendron.yml": ""}
    read(tmp_path, pages | {"a.ipynb": notebook(("markdown", "See [[the loom|tool.loom]]."))})
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Looms", "See [[the loom|tool.loom]]."
    show.save(tmp_path / "b.pptx")
    nodes = {node.id: node for node in read_folder(tmp_path)}
    for name in ("a.ipynb", "b.pptx"):
        assert nodes[name].metadata["links"] == ["/tool.loom.md"] and "See the loom." in nodes[name].text


def test_notebooks_of_version_3(tmp_path):
    cells = [{"cell_type": "heading", "level": 2, "source": "Looms"}, {"cell_type": "code", "input": ["weave()"]}]
    (node,) = read(tmp_path, {"a.ipynb": json.dumps({"worksheets": [{"cells": cells}]})})
    assert (node.title, node.text) == ("Looms", "weave()")


@pytest.mark.parametrize("raw", ["", "{", "[]", "{}", '{"cells": 1}', "[" * 100_000, "\x00" * 10])
def test_what_is_no_notebook_is_named(tmp_path, caplog, raw):
    assert [node.id for node in read(tmp_path, {"a.ipynb": raw, "b.txt": "text"})] == ["b.txt"]
    assert "a.ipynb (it " in caplog.text


def test_a_notebook_with_odd_cells_is_read():
    from graph_retrievers.construction.notebooks import read_notebook

    odd = [1, {}, {"cell_type": "code"}, {"cell_type": "markdown", "source": 5}, {"cell_type": "markdown", "source": ["a", 5, "b"]}]
    assert [block.text for block in read_notebook(json.dumps({"cells": odd, "metadata": 3})).blocks] == ["ab"]
