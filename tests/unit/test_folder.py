"""A folder of pages as nodes of an index."""

import os
from pathlib import Path

import pytest

from graph_retrievers import GraphIndex, Pipeline, Retriever
from graph_retrievers.construction import DocumentStructure, Links, TitleMentions, build_edges, formats, read_folder
from graph_retrievers.construction.html import html_charset
from graph_retrievers.errors import DatasetError
from graph_retrievers.graph.file_endings import FILES
from graph_retrievers.operators import BM25Search, GatedPropagation
from tests.pages import WORDS, read, write


def test_a_page_is_cut_into_sections_that_know_their_place(tmp_path):
    long = WORDS * 20
    write(
        tmp_path,
        guide__a_html=f"<h1>Looms</h1><p>{long}<h2 id=c>Cards</h2><p id=p>{long}{long}{long}</p>",
        b_md="# B\n[c](guide/a.html#p)",
    )
    nodes = read_folder(tmp_path)
    assert [(node.id, node.title) for node in nodes] == [
        ("b.md", "B"),
        ("guide/a.html", "Looms"),
        ("guide/a.html#c", "Looms: Cards"),
        ("guide/a.html#c~2", "Looms: Cards"),
    ]
    place = {"path": "guide/a.html", "chunk_index": 1, "headings": ["Looms", "Cards"]}
    assert nodes[2].metadata == {**place, "anchors": ["c", "p"], "links": []}
    place = {"path": "b.md", "chunk_index": 0, "headings": ["B"]}
    assert nodes[0].metadata == {**place, "anchors": ["b"], "links": ["/guide/a.html#p"]}
    assert nodes[3].metadata["anchors"] == ["c"]
    assert build_edges(nodes, [Links(field="links"), DocumentStructure()]) == [
        ("b.md", "guide/a.html#c", "links"),
        ("guide/a.html", "guide/a.html#c", "contains"),
        ("guide/a.html", "guide/a.html#c", "next"),
        ("guide/a.html#c", "guide/a.html#c~2", "next"),
    ]


def test_whole_files_and_other_lengths(tmp_path):
    write(tmp_path, a_md="# A\n" + WORDS * 20 + "\n\n## B\n" + WORDS * 20)
    assert [node.id for node in read_folder(tmp_path, max_tokens=None)] == ["a.md"]
    whole = read_folder(tmp_path, max_tokens=None)[0]
    assert len(whole.text.split()) == 161 and whole.metadata["anchors"] == ["a", "b"]
    assert [len(node.text.split()) for node in read_folder(tmp_path, max_tokens=60)] == [48, 32, 48, 32]


def test_ids_are_unique_where_headings_and_anchors_repeat(tmp_path):
    section = f"<h2>Notes</h2><p>{WORDS * 10}</p><h2 id=x>Notes</h2><p>{WORDS * 10}</p>"
    ids = [node.id for node in read_folder(write(tmp_path, a_html="<h1>A</h1>" + section * 3))]
    assert ids == ["a.html", "a.html#x", "a.html~2", "a.html#x~2", "a.html~3", "a.html#x~3"]


def test_site_names_and_repeated_navigation_are_left_out(tmp_path):
    for name in ("alpha", "beta", "gamma", "delta", "omega"):
        head = f"<title>{name} — The loom manual</title><p>The loom manual</p><p>Search</p>"
        page = f"{head}<h1>{name}</h1><p>About {name}.</p><p>(c) us</p>"
        write(tmp_path, **{f"{name}_html": page})
    nodes = read_folder(tmp_path)
    assert [(node.title, node.text) for node in nodes][:2] == [("alpha", "About alpha."), ("beta", "About beta.")]
    write(tmp_path, other_html="<title>Looms — and cards</title><p>text")
    assert "Looms — and cards" in [node.title for node in read_folder(tmp_path)]


def test_a_page_read_twice_or_without_text_hands_its_links_on(tmp_path, caplog):
    text = f"<h1>Looms</h1><p>{WORDS * 10}"
    contents = "<title>Contents</title><div class=toc><ul><li><a href=looms.html>L</a><li><a href=x.html>X</a></ul></div>"
    write(tmp_path, looms_html=text, z_copy_html=text, toc_html=contents, a_md="[1](z_copy.html#p) [2](toc.html)")
    with caplog.at_level("INFO"):
        nodes = read_folder(tmp_path)
    assert [node.id for node in nodes] == ["a.md", "looms.html"]
    assert nodes[0].metadata["links"] == ["/looms.html"]
    assert "4 pages, 2 of them without text of their own or with the text of another: toc.html, z_copy.html." in caplog.text


def test_the_log_names_the_first_pages_that_are_left_out(tmp_path, caplog):
    write(tmp_path, **{f"p{n:02}_md": f"# Looms\n{WORDS}" for n in range(12)})
    _, told = log_of(caplog, tmp_path)
    assert (
        "12 pages, 11 of them" in told
        and "of another: p01.md, p02.md, p03.md, p04.md, p05.md, p06.md, p07.md, p08.md, p09.md, p10.md, ...." in told
    )


def test_encodings(tmp_path):
    declared = '<meta charset="iso-8859-1"><h1>Café</h1><p>text'.encode("latin-1")
    write(tmp_path, a_html=declared, b_md="\ufeff# Bö\ntext")
    assert [node.title for node in read_folder(tmp_path)] == ["Café", "Bö"]
    marked = "# Caf\u00e9 \u56fe\n<meta charset=latin-1>".encode("utf-16-be")
    write(tmp_path, c_md=b"\xfe\xff" + marked, d_html="\u56fe<meta charset=latin-1>".encode("utf-16"))
    assert [node.title or node.text for node in read_folder(tmp_path)][2:] == ["Caf\u00e9 \u56fe", "d"]
    assert read_folder(tmp_path)[3].text == "\u56fe"
    write(tmp_path, c_md="", d_html=b"\xff\xfe\x00")
    for name, raw, told in (
        ("d_html", b"\xff\xfe\x00", r"d\.html \(it is not UTF-16: truncated data"),
        ("c_txt", b"caf\xe9", r"c\.txt \(it is not UTF-8: unexpected end of data at byte 3\)\. Convert .*iconv.*with a dot"),
        ("d_html", b"<meta charset=klingon>caf\xe9", r"d\.html \(it is not UTF-8"),
    ):
        write(tmp_path, **{name: raw})
        with pytest.raises(DatasetError, match=f"1 item of .* cannot be used: {told}"):
            read_folder(tmp_path, strict=True)
        assert len(read_folder(tmp_path)) == 2, "the others are read"
        write(tmp_path, **{name: ""})


def test_files_that_cannot_be_read_are_left_out_and_named_together(tmp_path, caplog):
    declared = '<?xml version="1.0" encoding="ISO-8859-1"?><html><h1>Café</h1><p>text'.encode("latin-1")
    bad = {f"bad{n:02}_{kind}": "<h1>Caf\u00e9</h1>".encode("latin-1") for n, kind in enumerate(["md", "txt", "html"] * 4)}
    write(tmp_path, a_html=declared, b_md="# Looms\ntext", **bad, no_mark_txt="# Looms".encode("utf-16-le"))
    assert [node.title for node in read_folder(tmp_path)] == ["Café", "Looms"]
    (told,) = [message for message in caplog.messages if message.startswith("Left out")]
    assert f"Left out 13 items of {tmp_path}: bad00.md (it is not UTF-8: " in told
    assert "bad09.md" in told and "bad10.txt" not in told and "; and 3 more. Convert" in told
    with pytest.raises(DatasetError, match=r"13 items .*bad11\.html.*no_mark\.txt \(it has many null bytes"):
        read_folder(tmp_path, strict=True)
    for name in ("a.html", "b.md"):
        (tmp_path / name).unlink()
    with pytest.raises(DatasetError, match=r"no text in its 13 files; 13 of them cannot be read: bad00\.md"):
        read_folder(tmp_path)


def test_a_text_may_have_null_bytes_up_to_a_quarter(tmp_path):
    write(tmp_path, a_txt=b"abc\0" * 10)
    assert len(read_folder(tmp_path, strict=True)) == 1
    write(tmp_path, a_txt=b"abc\0" * 10 + b"\0")
    with pytest.raises(DatasetError, match="many null bytes"):
        read_folder(tmp_path, strict=True)


def test_the_advice_on_broken_files_is_not_that_on_encodings(tmp_path, caplog):
    read(tmp_path, {"a.md": "# Looms\ntext", "b.ipynb": "{"})
    (told,) = [message for message in caplog.messages if message.startswith("Left out")]
    assert "b.ipynb (it is not a notebook" in told and "Repair such files, or begin the name of a file that" in told
    assert "iconv" not in told


def test_a_folder_without_pages_and_an_empty_page(tmp_path):
    with pytest.raises(DatasetError, match="is not a folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(DatasetError, match="neither nodes.jsonl"):
        read_folder(tmp_path)
    with pytest.raises(DatasetError, match="no text in its 1 files"):
        read_folder(write(tmp_path, empty_md=""))
    nodes = read_folder(write(tmp_path, a_b_txt="One.\n\nTwo"))
    assert [(node.id, node.title, node.text) for node in nodes] == [("a_b.txt", "a b", "One.\nTwo")]


def test_texts_that_many_pages_share_are_read_once_and_not_lost(tmp_path):
    for number in range(6):
        write(
            tmp_path,
            **{
                f"p{number}__LICENSE_txt": "Permission is granted.\n\nNo warranty.",
                f"q{number}_md": f"# Question {number}?\n\nNo.",
            },
        )
    nodes = read_folder(tmp_path)
    assert [(node.id, node.text) for node in nodes][:1] == [("p0/LICENSE.txt", "Permission is granted.\nNo warranty.")]
    assert [node.text for node in nodes[1:]] == ["No."] * 6


def test_titles_of_pages_and_sites(tmp_path):
    write(
        tmp_path,
        a_html="<title>Alpha — Looms 1.x</title><h1>Alpha</h1><p>x",
        b_html="<title>MySite</title><h1>Photosynthesis</h1><p>y",
    )
    assert [node.title for node in read_folder(tmp_path)] == ["Alpha", "MySite: Photosynthesis"]
    for number in range(5):
        write(tmp_path, **{f"s{number}_html": f"<title>The site</title><h1>Page {number}</h1><p>z{number}"})
    assert [node.title for node in read_folder(tmp_path)][2:] == [f"Page {number}" for number in range(5)]


FRONT = "---\ntitle: Front\n---\n"
BRIEF = "Ask Ada or Bob."


@pytest.mark.parametrize(
    ("page", "nodes"),
    [
        (f"{FRONT}They hire.\n\n## Contacts\n{BRIEF}", {"Front": f"They hire.\nContacts\n{BRIEF}"}),
        (f"<title>Front</title><p>They hire.<h2>Contacts</h2><p>{BRIEF}", {"Front": f"They hire.\nContacts\n{BRIEF}"}),
        (f"{FRONT}# Head one\n{BRIEF}\n# Head two\n{BRIEF}", {"Front": f"Head one\n{BRIEF}\nHead two\n{BRIEF}"}),
        (f"{FRONT}# Head one\n{BRIEF}\n## Below\n{BRIEF}", {"Front: Head one": f"{BRIEF}\nBelow\n{BRIEF}"}),
        (f"{FRONT}# front\n{BRIEF}\n# Head two\n{BRIEF}", {"front": f"{BRIEF}\nHead two\n{BRIEF}"}),
        (
            f"{FRONT}## One\n{WORDS * 9}\n## Two\n{BRIEF}\n## Three\nAsk none.",
            {"Front: One": f"{WORDS * 9}".strip(), "Front": f"Two\n{BRIEF}\nThree\nAsk none."},
        ),
        (
            f"{FRONT}{WORDS * 39}\n\nThey hire.\n\nThey do.\n\n## Contacts\n{WORDS * 7}",
            {"Front": f"They hire.\nThey do.\nContacts\n{WORDS * 7}".strip()},
        ),
    ],
)
def test_a_stated_title_is_the_heading_around_the_whole_page(tmp_path, page, nodes):
    """A node is named by a heading only where it holds nothing but that section."""
    write(tmp_path, **{"a_html" if page.startswith("<") else "a_md": page})
    found = read_folder(tmp_path)
    # Of parts of one name the last.
    assert {node.title: node.text for node in found} == nodes


def test_sections_below_a_stated_title_stand_side_by_side(tmp_path):
    write(tmp_path, a_md=f"{FRONT}## One\n{WORDS * 9}\n## Two\n{WORDS * 9}")
    assert [node.metadata["headings"] for node in read_folder(tmp_path)] == [["One"], ["Two"]]


@pytest.mark.parametrize(
    "stem",
    [
        *("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e04f8911d39a0c0305e82c3301"),
        *("da39a3ee5e6b4b0d3255bfef95601890afd80709", f"{'9f86d081' * 8}", "3F2504E0-4F89-11D3-9A0C-0305E82C3301_part-2"),
    ],
)
def test_a_uuid_or_hash_is_not_a_title(tmp_path, caplog, stem):
    (tmp_path / "notes" / stem).mkdir(parents=True)
    for name in (f"{stem}.txt", f"notes/{stem}.md", f"notes/{stem}/index.md"):
        (tmp_path / name).write_text(f"The loom {name.count('/')} weaves linen. " + ("[next](index.md)" if name[0] == "n" else ""))
    (tmp_path / "named.md").write_text(f"Cards steer the loom. See [it]({stem}.txt).")
    nodes, told = log_of(caplog, tmp_path)
    assert sorted(node.title for node in nodes) == ["", "", "", "named"] and "Pages without a title: 1 of 4;" in told
    index = GraphIndex.from_documents(nodes, edges=[Links(field="links"), TitleMentions()])
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform", threshold=0))
    hits = Retriever(index, walk).retrieve("cards steer")
    drawn = hits.subgraph()
    shown = hits.to_context() + drawn.to_mermaid() + drawn.to_dot() + hits[-1].explain() + str(index.describe())
    assert "named -[links]-> The loom 0 weaves linen." in shown and stem not in drawn.to_mermaid()
    assert stem[-12:] not in shown.replace(f"({stem}.txt)", "")


def test_sections_of_a_page_without_a_title_are_called_by_their_headings(tmp_path):
    for name in "abcde":
        page = f"<title>Site</title><h1>Home</h1><p>{name} {WORDS * 9}<h2>{name}</h2><p>{WORDS * 9}"
        (tmp_path / f"{name}{'0' * 39}.html").write_text(page)
    assert [node.title for node in read_folder(tmp_path)][:2] == ["Home", "a"]


def test_files_outside_the_folder_and_indexes_of_sphinx_are_not_read(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    inside = write(tmp_path / "docs", a_md="# A\ntext", genindex_html="<p>Index", search_html="<p>Search")
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "same.md").symlink_to(inside / "a.md")
    assert [node.id for node in read_folder(inside)] == ["a.md"]


def test_ids_of_sections_and_of_files_do_not_collide(tmp_path):
    section = WORDS * 12
    write(tmp_path, a_md=f"# A\n{section}\n## X {{#x.md}}\n{section}", **{"a.md#x_md": "# Other\ntext"})
    assert sorted(node.id for node in read_folder(tmp_path)) == ["a.md", "a.md#x.md", "a.md#x.md~2"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'<meta charset="utf-16"><p>caf\xc3\xa9', "caf\xe9"),
        (b'\xef\xbb\xbf<meta charset="iso-8859-1"><p>caf\xc3\xa9', "caf\xe9"),
        (b'<meta charset="iso-8859-1"><p>\x93caf\xe9\x94', "\u201ccaf\xe9\u201d"),
        (b'<?xml version="1.0" encoding="iso-8859-1"?><p>caf\xe9', "caf\xe9"),
        (b"<meta charset=ANSI_X3.4-1968><p>caf\xe9", "caf\xe9"),
        (b"<meta charset=gb2312><p>\xd6\xec\xe9\x46", "\u6731\u9555"),
        (b"<meta charset=shift_jis><p>\x87\x40", "\u2460"),
        (b"<meta charset=iso-8859-7><p>\xe1\xff", "\u03b1\ufffd"),
    ],
)
def test_encodings_as_browsers_read_them(tmp_path, raw, text):
    assert read_folder(write(tmp_path, a_html=raw))[0].text == text


@pytest.mark.parametrize("name", ["undefined", "punycode", "idna", "utf-7", "rot13", "unicode_escape", "cp037", "hz", "klingon"])
def test_what_browsers_do_not_know_is_no_encoding(tmp_path, name):
    page = f"<meta charset='{name}'><p>caf\xe9 +AGE- \\x41".encode()
    assert html_charset(page) == "" and read_folder(write(tmp_path, a_html=page))[0].text == "caf\xe9 +AGE- \\x41"


def test_a_file_whose_name_is_not_utf8_has_an_id_that_can_be_kept(tmp_path):
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md"))).write_text("# Looms\nThey weave.")
    (node,) = read_folder(tmp_path)
    assert node.id == "\\udcff.md" and node.title == "Looms"
    GraphIndex.from_nodes([node]).save(tmp_path / "index")


def log_of(caplog, folder, **options):
    with caplog.at_level("INFO"):
        nodes = read_folder(folder, **options)
    return nodes, caplog.text


THREADS = "Thread safety\nThis function is not thread-safe."


@pytest.mark.parametrize(
    ("name", "text", "title", "read"),
    [
        ("{}.md", f"# f_b\n\nAbout b.\n\n## {THREADS}", "f_b", f"About b.\n{THREADS}"),
        (
            "man_{}.md",
            "# NAME\nabout b\n# SEE ALSO\n[f](../f.md), [g](../g.md)",
            "man b: NAME",
            "about b\nSEE ALSO\nf, g",
        ),
        ("{}.txt", "Synopsis\n\nAbout b\n\nThread-safe: no", "b: Synopsis", "About b\nThread-safe: no"),
        ("{}.html", "<p>Do not panic.<h1>f_b</h1><p>About b<p>Thread-safe", "f_b", "Do not panic.\nf_b\nAbout b\nThread-safe"),
    ],
)
def test_headings_and_texts_that_pages_share_are_kept(tmp_path, caplog, name, text, title, read):
    for letter in "vwxyz":
        other = text.replace("out b", f"out {letter}").replace("f_b", f"f_{letter}")
        (tmp_path / name.format(letter)).write_text(other)
    (tmp_path / name.format("b")).write_text(text)
    nodes, told = log_of(caplog, tmp_path)
    assert (nodes[0].title, nodes[0].text, len(nodes), "Left out" in told) == (title, read, 6, False)


def test_navigation_that_pages_share_is_left_out_and_told(tmp_path, caplog):
    page = "<p><a href=a.html>Home</a> | Menu<h1>{0}</h1><p>About {0}.<p>Next: <a href=b.html>B</a><p>© The weavers."
    write(tmp_path, **{f"{name}_html": page.format(name) for name in "abcde"})
    nodes, told = log_of(caplog, tmp_path)
    assert [node.text for node in nodes] == [f"About {name}." for name in "abcde"]
    assert nodes[0].metadata["links"] == []
    assert "Left out as navigation that half of the pages share: 'Home | Menu', 'Next: B', '© The weavers.'." in told


def test_site_names_are_counted_over_all_titles(tmp_path):
    for name in "abcdefgh":
        write(tmp_path, **{f"{name}_html": f"<title>{name} - Loom Guide</title><h1>{name}</h1><p>text {name}"})
    write(tmp_path, i_html="<title>Introduction - Loom Guide</title><h1>What is a loom?</h1><p>text")
    assert [node.title for node in read_folder(tmp_path)][-2:] == ["h", "Introduction: What is a loom?"]


def test_documents_of_other_formats_are_counted(tmp_path, caplog):
    for name in (".hidden", "_static"):
        (tmp_path / name).mkdir()
    for name in ("a.odt", "b.ODT", "c.tex", "d.png", ".hidden/e.odt", "_static/f.odt"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(DatasetError, match="neither"):
        read_folder(tmp_path)
    assert [record.message.partition(": ")[2] for record in caplog.records if record.levelname == "WARNING"] == [
        "did not read 2 .odt, 1 .tex; loaders of LangChain and LlamaIndex read such files."
    ]
    caplog.clear()
    read_folder(write(tmp_path / "own", a_md="# A\n\ntext"))
    assert "did not read" not in caplog.text


def test_every_format_is_known_as_the_page_of_a_link():
    assert FILES == formats.FORMATS.keys()


def test_a_warning_names_the_extra_that_reads_files(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    files = dict.fromkeys(("a.pdf", "b.PDF", "d.docx", "e.pptx", "f.xlsx"), b"PK")
    assert [node.id for node in read(tmp_path, files | {"a.md": "# A\n\ntext", "g.tex": "text"})] == ["a.md"]
    told = [message.partition(": ")[2] for message in caplog.messages if "did not read" in message]
    assert told == [
        "did not read 1 .docx, 2 .pdf, 1 .pptx, 1 .xlsx; pip install 'graph-retrievers[files]' installs what reads them.",
        "did not read 1 .tex; loaders of LangChain and LlamaIndex read such files.",
    ]


def test_the_names_of_several_sites_are_left_out_each_in_its_folder(tmp_path):
    heading = "<title>{0} - {1}</title><h1>About {0}</h1><p>text {0}"
    for site in ("Looms", "Cards", "Mills"):
        (tmp_path / site).mkdir()
        write(tmp_path / site, **{f"{site}{n}_html": heading.format(f"{site}{n}", f"The {site} Book") for n in range(5)})
    write(tmp_path / "Mills", **{f"note{n}_md": f"# {n} - Minutes\n\ntext of {n}" for n in range(5)})
    titles = [node.title for node in read_folder(tmp_path)]
    assert titles[0] == "Cards0: About Cards0" and titles[-1] == "4 - Minutes"
    assert not any("Book" in title for title in titles)


def test_the_pages_of_a_book_are_read_once(tmp_path, caplog):
    chapters = {
        name: f"<h1 id=top-{name}>{name}</h1><p>{name} {WORDS * 10}<h2 id=s-{name}>S</h2><p>s{name} {WORDS * 10}" for name in "xyz"
    }
    book = "<title>Book</title>" + "".join(chapters.values()) + f"<h1>Colophon</h1><p>{WORDS * 8}"
    linking = "[1](book.html) [2](book.html#top-y) [3](book.html#s-z) [4](book.html#gone)"
    write(tmp_path, a_md=linking, book_html=book, **{f"{name}_html": text for name, text in chapters.items()})
    nodes, told = log_of(caplog, tmp_path)
    assert [node.id for node in nodes] == [
        "a.md",
        "book.html",
        "x.html",
        "x.html#s-x",
        "y.html",
        "y.html#s-y",
        "z.html",
        "z.html#s-z",
    ]
    assert (nodes[1].title, nodes[1].metadata["anchors"]) == ("Book: Colophon", [])
    assert nodes[0].metadata["links"] == ["/x.html#top-x", "/y.html#top-y", "/z.html#s-z", "/book.html#gone"]
    assert "Left out 6 sections with the text of a section of another page, 6 of them of book.html: " in told
    assert "of book.html: book.html#top-x, book.html#s-x, book.html#top-y, book.html#s-y, book.html#top-z, book.html#s-z." in told


def test_sections_that_some_pages_share_stay_with_their_pages(tmp_path):
    options = f"<h2>Options</h2><p>{WORDS * 10}"
    write(tmp_path, **{f"{name}_html": f"<h1>{name}</h1><p>{name} {WORDS * 10}{options}" for name in "ab"})
    assert [node.title for node in read_folder(tmp_path)] == ["a", "a: Options", "b", "b: Options"]


def test_pages_with_many_sections_in_common_keep_them(tmp_path):
    """Three sections of five are those of other pages."""
    common = "".join(f"<h2>{name}</h2><p>{name} {WORDS * 10}" for name in ("Output", "Manifest", "Help"))
    for name in "abc":
        own = "".join(f"<h2>{kind}</h2><p>{name} {kind} {WORDS * 10}" for kind in ("Use", "Effect"))
        write(tmp_path, **{f"{name}_html": f"<title>Command {name}</title>{own}{common}"})
    sections = [node.title.partition(": ")[2] for node in read_folder(tmp_path)]
    assert sections == ["Use", "Effect", "Output", "Manifest", "Help"] * 3


def test_the_list_of_chapters_of_mdbook_is_contents(tmp_path):
    for name in "abcdef":
        text = f"<title>{name} - Book</title><h1>{name}</h1><p>{WORDS} {name} <a href='toc.html'>all</a>"
        write(tmp_path, **{f"{name}_html": text})
    links = "".join(f'<li class="chapter-item"><a href="{name}.html">{name}</a></li>' for name in "abcdef")
    write(tmp_path, toc_html=f'<title></title><body class="sidebar-iframe-inner"><ol class="chapter">{links}</ol>')
    nodes = read_folder(tmp_path)
    assert [node.id for node in nodes] == [f"{name}.html" for name in "abcdef"]
    assert nodes[1].metadata["links"] == ["/a.html"], "a link to the contents leads to the first page in it"
    write(tmp_path, toc_html=f"<ol>{links}</ol>")
    assert "toc.html" in [node.id for node in read_folder(tmp_path)], "a list of links is read"


def test_files_that_tools_make_are_skipped_and_told(tmp_path, caplog):
    write(
        tmp_path,
        a_html="<p>a",
        _sources__a_rst_txt="a",
        _static__x__file_txt="b",
        search_html="<p>Search",
        guide__search_html="<p>Seek",
    )
    (tmp_path / "main.js.LICENSE.txt").write_text("MIT")
    (tmp_path / "_sources/a.rst.txt").write_text("a")
    nodes, told = log_of(caplog, tmp_path)
    assert [node.id for node in nodes] == ["a.html", "guide/search.html"]
    assert "Skipped 4 files that documentation tools make, such as _sources/a.rst.txt." in told
    (tmp_path / "OPEN-SANS-LICENSE.txt").write_text("Apache")
    assert [node.id for node in read_folder(tmp_path)] == ["a.html", "guide/search.html"]


MANY_WORDS = WORDS * 12


MARKED = "# Head\n\n<p>html</p>"


@pytest.mark.parametrize(
    ("name", "title", "text"),
    [
        *((f"a{suffix}", "Head", "html") for suffix in (".md", ".mdx", ".markdown", ".qmd", ".Rmd", ".MD")),
        *((f"a{suffix}", "a", "# Head\nhtml") for suffix in (".html", ".htm", ".HTM")),
        *((f"a{suffix}", "a", "# Head\n<p>html</p>") for suffix in (".txt", ".TXT")),
    ],
)
def test_the_end_of_a_name_says_how_a_file_is_read(tmp_path, name, title, text):
    (node,) = read(tmp_path, {name: MARKED, "no.tex": "no", "no": "no", "nomd": "no"})
    assert (node.id, node.title, node.text) == (name, title, text)


def test_hidden_files_folders_and_indexes_are_skipped(tmp_path):
    names = "a.md b/c.md d./e..md .f.md .g/h.md i/.j/k.md genindex.html py-modindex.html modindex.htm search.md l/search.md".split()
    (tmp_path / "folder.md").mkdir()
    nodes = read(tmp_path, {name: f"text of {name}" for name in names})
    assert [node.id for node in nodes] == ["a.md", "b/c.md", "d./e..md", "l/search.md"]


def test_the_length_of_sections_is_220_tokens(tmp_path):
    pages = {f"{size}.txt": "w " * 110 + "\n\n" + "w " * (size - 110) for size in (220, 221)}
    assert [node.id for node in read(tmp_path, pages)] == ["220.txt", "221.txt", "221.txt~2"]


def test_a_bar_is_shown_where_it_is_asked_for(tmp_path, capsys):
    read(tmp_path, {"a.md": "a"})
    assert capsys.readouterr().err == ""
    read_folder(tmp_path, show_progress=True)
    assert "reading: 100%" in (shown := capsys.readouterr().err) and "1/1" in shown and "page/s" in shown


def test_nothing_is_told_of_a_folder_without_copies(tmp_path, caplog):
    with caplog.at_level("INFO"):
        read(tmp_path, {"a.md": "# A\na", "b.md": "# B\nb"})
    assert caplog.messages == []


def test_bytes_that_windows_does_not_know(tmp_path):
    (node,) = read(tmp_path, {"a.html": b"<meta charset=latin1><p>caf\xe9 \x81"})
    assert node.text == "caf\xe9 \ufffd"


@pytest.mark.parametrize(
    ("given", "titles"),
    [
        (["T{} — Site"] * 4, ["T0 — Site", "T1 — Site"]),
        (["T{} — Site"] * 5, ["T0", "T1"]),
        (["Site: T{}"] * 5, ["T0", "T1"]),
        (["T{} — Part — Site"] * 5, ["T0 — Part", "T1 — Part"]),
        (["T{} | Site"] * 5 + ["Other | X"] * 5, ["T0", "T1"]),
        (["T{} | Site"] * 5 + ["Other{} | X"] * 6, ["T0 | Site", "T1 | Site"]),
        (["Cards — Site", "Site: Cards"] + ["Site"] * 5, ["Cards — Site", "Site: Cards"]),
        (["Site — Site"] * 5, ["Site — Site"] * 2),
        (["T{} - Site » "] * 5, ["T0", "T1"]),
    ],
)
def test_names_of_sites_in_titles(tmp_path, given, titles):
    pages = {f"p{place:02}.html": f"<title>{title.format(place)}</title><p>text {place}" for place, title in enumerate(given)}
    assert [node.title for node in read(tmp_path, pages)][:2] == titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title>LOOMS — Site</title><h1>Looms</h1><p>x", "Looms"),
        ("<title>Looms — Site</title><h1>Cards</h1><p>x", "Looms — Site: Cards"),
        ("<title>Looms — Site</title><p>x", "Looms — Site"),
        ("<h2>Looms\n and cards</h2><p>x", "Looms and cards"),
        ("<p>x", "my page"),
    ],
)
def test_titles_of_one_page(tmp_path, text, title):
    assert [node.title for node in read(tmp_path, {"my_page.html": text})] == [title]


def test_what_pages_share_is_left_out_at_their_ends_only(tmp_path):
    page = "<a href=s>Site</a><p>© us<p>one {0}<p>Site<p>two {0}<p>© us<p><a href=s>Site</a>"
    nodes = read(tmp_path, {f"{place}.html": page.format(place) for place in range(5)})
    assert nodes[3].text == "one 3\nSite\ntwo 3"


TOC = "<div class=toc><a href=b.html>B</a></div>"


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        (TOC, False),
        (f"<h1>A</h1>{TOC}", False),
        (f"<p>A{TOC}", True),
        (f"<h1>A</h1><p>x{TOC}", True),
        ("<h1>A</h1>", True),
        ("", False),
    ],
)
def test_a_page_is_kept_for_its_text(tmp_path, page, kept):
    nodes = read(tmp_path, {"a.html": page, "b.html": "<p>b", "c.html": "<a href=a.html>a</a>"})
    assert [node.id for node in nodes] == ["a.html"] * kept + ["b.html", "c.html"]
    expected = ["/a.html"] if kept else ["/b.html"] if page else []
    assert nodes[-1].metadata["links"] == expected


def test_the_title_of_a_section_ends_with_its_own_heading(tmp_path):
    text = f"# A\n{MANY_WORDS}\n## B\n{MANY_WORDS}\n### C\n{MANY_WORDS}\n## a\n{MANY_WORDS}"
    assert [node.title for node in read(tmp_path, {"a.md": text})] == ["A", "A: B", "A: C", "A"]


def test_ids_of_anchors_that_look_like_numbers(tmp_path):
    sections = "".join(f"<h2 id={name}>S</h2><p>{MANY_WORDS}{place}" for place, name in enumerate(["x", "x~2", "x", "x", "x~2"]))
    ids = [node.id for node in read(tmp_path, {"a.html": f"<h1>A</h1><p>{MANY_WORDS}{sections}"})]
    assert ids == ["a.html", "a.html#x", "a.html#x~2", "a.html#x~3", "a.html#x~4", "a.html#x~2~2"]


def test_whole_files_keep_what_is_written(tmp_path):
    pages = {"a.md": "# A", "b.md": "# B\n\ntext [a](a.md)\n\n## C\n\nmore [a](a.md)"}
    nodes = read(tmp_path, pages, max_tokens=None)
    assert [(node.id, node.title, node.text) for node in nodes] == [
        ("a.md", "A", "A"),
        ("b.md", "B", "text a\nC\nmore a"),
    ]
    assert nodes[1].shown().text == "text [a](a.md)\n\n## C\n\nmore [a](a.md)"
    assert nodes[1].metadata == {"path": "b.md", "chunk_index": 0, "headings": [], "anchors": ["b", "c"], "links": ["/a.md"]}


def test_long_headings_are_texts_and_long_titles_are_cut(tmp_path):
    long = "looms " * 60
    (node,) = read(tmp_path / "heading", {"a.md": f"# Head\n\n{MANY_WORDS}\n\n## {long}\n\n{MANY_WORDS}"})
    assert node.metadata["headings"] == ["Head"] and long.strip() in node.text
    (node,) = read(tmp_path / "title", {"a.html": f"<title>{long}</title><p>{MANY_WORDS}"})
    assert node.title == long[:300].rstrip()


def test_whole_files_lose_a_first_line_only_if_it_is_the_title(tmp_path):
    write(tmp_path, a_html="<title>A</title><p>first<p>second", b_html="<title>B</title><h1>B</h1><p>text")
    assert [node.text for node in read_folder(tmp_path, max_tokens=None)] == ["first\nsecond", "text"]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("{0}\n## Parts\n{0}\n## Price\n{0}", ["mill wheel", "mill wheel: Parts", "mill wheel: Price"]),
        ("## Parts\n{0}\n## Price\n{0}", ["mill wheel: Parts", "mill wheel: Price"]),
        ("### Parts\n{0}\n## Price\n{0}", ["mill wheel: Parts", "mill wheel: Price"]),
        ("## The wheel\n{0}\n### Price\n{0}", ["The wheel", "The wheel: Price"]),
        ("{0}\n# The wheel\n{0}\n# Price\n{0}", ["The wheel", "The wheel", "The wheel: Price"]),
        ("---\ntitle: A wheel\n---\n## Parts\n{0}\n## Price\n{0}", ["A wheel: Parts", "A wheel: Price"]),
    ],
)
def test_a_page_that_begins_with_a_section_has_the_name_of_its_file(tmp_path, text, titles):
    nodes = read(tmp_path, {"mill-wheel.md": text.format("Water turns it all day long. " * 12)})
    assert [node.title for node in nodes] == titles


@pytest.mark.parametrize(("count", "kept"), [(5, False), (4, True)])
def test_a_link_above_many_headings_of_a_page_leads_back_and_is_no_text(tmp_path, count, kept):
    text = "Water turns it all day long. " * 12
    back = "<a name=n{0}></a><a href='index.html#n{0}'>Contents</a>"
    parts = [
        f"<div>{back.format(n)}<h2>Wheel {n}</h2></div><p>{text}</p><p><a href='a.html'>Oak</a></p><p>Elm.</p>"
        for n in range(count)
    ]
    nodes = read(tmp_path, {"mill.html": f"<title>Mill</title><p>{text}</p>{''.join(parts)}"})
    assert [("Contents" in node.text) for node in nodes] == [kept] * count + [False]
    assert all("Oak" in node.text for node in nodes[1:])
    assert [node.metadata["anchors"] for node in nodes[1:]] == (
        [[f"n{n}"] for n in range(1, count)] + [[]] if kept else [[f"n{n}"] for n in range(count)]
    )
