"""Rules of reading a folder, one by one: which files, how their ends are understood, titles, links and ids."""

import pytest

from graph_retrievers.construction import read_folder

WORDS = "Some words about looms. " * 12


def read(folder, pages, **options):
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_folder(folder, **options)


MARKED = "# Head\n\n<p>html</p>"


@pytest.mark.parametrize(
    ("name", "title", "text"),
    [
        *((f"a{suffix}", "Head", "html") for suffix in (".md", ".mdx", ".markdown", ".MD")),
        *((f"a{suffix}", "a", "# Head\nhtml") for suffix in (".html", ".htm", ".HTM")),
        *((f"a{suffix}", "a", "# Head\n<p>html</p>") for suffix in (".txt", ".TXT")),
    ],
)
def test_the_end_of_a_name_says_how_a_file_is_read(tmp_path, name, title, text):
    (node,) = read(tmp_path, {name: MARKED, "no.rst": "no", "no": "no", "nomd": "no"})
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
def test_titles(tmp_path, text, title):
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


def test_links_to_contents_of_other_sites_lead_nowhere(tmp_path):
    nodes = read(tmp_path, {"a.html": "<div class=toc><a href=https://x.org>X</a></div>", "c.html": "<a href=a.html>a</a>"})
    assert [node.metadata["links"] for node in nodes] == [[]]


def test_the_title_of_a_section_ends_with_its_own_heading(tmp_path):
    text = f"# A\n{WORDS}\n## B\n{WORDS}\n### C\n{WORDS}\n## a\n{WORDS}"
    assert [node.title for node in read(tmp_path, {"a.md": text})] == ["A", "A: B", "A: C", "A"]


def test_links_to_elsewhere_stay_as_they_are(tmp_path):
    text = "[x](https://x.org/a) [y](gone.md#z) [b](<x y.md#a b>) [c](sub/C%23.md) [b](<x y.md#a b>)"
    nodes = read(tmp_path, {"a.md": text, "x y.md": "y", "sub/C#.md": "c"})
    assert nodes[0].metadata["links"] == ["https://x.org/a", "gone.md#z", "/x%20y.md#a%20b", "/sub/C%23.md"]


def test_ids_of_anchors_that_look_like_numbers(tmp_path):
    sections = "".join(f"<h2 id={name}>S</h2><p>{WORDS}{place}" for place, name in enumerate(["x", "x~2", "x", "x", "x~2"]))
    ids = [node.id for node in read(tmp_path, {"a.html": f"<h1>A</h1><p>{WORDS}{sections}"})]
    assert ids == ["a.html", "a.html#x", "a.html#x~2", "a.html#x~3", "a.html#x~4", "a.html#x~2~2"]


def test_whole_files(tmp_path):
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
    (node,) = read(tmp_path / "heading", {"a.md": f"# Head\n\n{WORDS}\n\n## {long}\n\n{WORDS}"})
    assert node.metadata["headings"] == ["Head"] and long.strip() in node.text
    (node,) = read(tmp_path / "title", {"a.html": f"<title>{long}</title><p>{WORDS}"})
    assert node.title == long[:300].rstrip()
