"""Links of the pages of a folder: to copies and redirects, to stated addresses and sites, and from contents."""

import pytest

from graph_retrievers.construction import Links, build_edges, read_folder
from graph_retrievers.errors import InvalidArgumentError
from tests.pages import WORDS, read, write


def test_the_pages_that_contents_list_are_kept_with_the_first_node(tmp_path):
    contents = "<h1>Manual</h1><p>What this is.</p><div class=toc><ul><li><a href=b.html>B</a></ul></div>"
    nodes = read_folder(write(tmp_path, a_html=contents, b_html=f"<h1>B</h1><p>{WORDS}"))
    assert nodes[0].metadata["contents"] == ["/b.html"]
    assert build_edges(nodes, Links(field="contents", relation="contains")) == [("a.html", "b.html", "contains")]


def test_names_with_marks_and_links_to_them(tmp_path):
    write(tmp_path, a_md="# A\n[c sharp](C%23.md) [x](x%2520y.md)", **{"C#_md": "# C sharp\nhello", "C_md": "# C\nplain"})
    write(tmp_path, **{"x%20y_md": "# P\nhello", "x y_md": "# S\nplain"})
    nodes = read_folder(tmp_path)
    links = {(source, target) for source, target, _ in build_edges(nodes, Links(field="links"))}
    assert links == {("a.md", "C#.md"), ("a.md", "x%20y.md")}


def test_sections_with_the_same_links_keep_them(tmp_path):
    section = WORDS * 12 + "[b](b.md)"
    write(tmp_path, a_md=f"# A\n{section}\n## S\n{section}\n## T\n{section}", b_md="# B\ntext")
    links = [source for source, _, _ in build_edges(read_folder(tmp_path), Links(field="links"))]
    assert links == ["a.md", "a.md#s", "a.md#t"]


def test_a_link_to_an_empty_page_leads_nowhere(tmp_path):
    write(tmp_path, README_md="", docs__README_md="# D\nx", docs__a_md="# A\n[root](../README.md)")
    assert build_edges(read_folder(tmp_path), Links(field="links")) == []


def test_wiki_links_lead_to_the_pages_and_headings_that_they_name(tmp_path, caplog):
    text = f"# History\n{WORDS * 10}\n## The Mill\n{WORDS * 10}"
    note = "On [[lund#The mill|the mill]], [[towns/Lund]] and [[Graz]]. ![[map.png]] `[[Lund]]`"
    nodes = read_folder(write(tmp_path, note_md=note, towns__Lund_md=text, old__Lund_md=f"An older {text}"))
    assert nodes[0].text == "On the mill, towns/Lund and Graz.  [[Lund]]"
    with caplog.at_level("INFO"):
        edges = build_edges(nodes, Links(field="links"))
    assert edges == [("note.md", "old/Lund.md#the-mill", "links"), ("note.md", "towns/Lund.md", "links")]
    assert "links to pages that are not there: 1, such as '[[Graz]]' on 'note.md'" in caplog.text


def log_of(caplog, folder, **options):
    with caplog.at_level("INFO"):
        nodes = read_folder(folder, **options)
    return nodes, caplog.text


def test_links_to_copies_of_pages_keep_their_fragment(tmp_path):
    text = f"<h1>Looms</h1><p>{WORDS * 10}<h2 id=cards>Cards</h2><p>{WORDS * 10}"
    write(tmp_path, v1__l_html=text, v2__l_html=text, a_md="[c](v2/l.html#cards) [d](v2/l.html#gone)")
    nodes = read_folder(tmp_path)
    assert [node.id for node in nodes] == ["a.md", "v1/l.html", "v1/l.html#cards"]
    assert nodes[0].metadata["links"] == ["/v1/l.html#cards", "/v1/l.html"]


def test_links_lead_through_redirects(tmp_path):
    go = "<title>Redirecting</title><meta http-equiv=refresh content='0; url={}'><p>Redirecting to <a href='{}'>it</a>"
    text = f"<h1>Looms</h1><p>{WORDS * 10}<h2 id=cards>Cards</h2><p>{WORDS * 10}"
    write(tmp_path, new__l_html=text, l_html=go.format("m.html", "m.html"), m_html=go.format("new/l.html#cards", "#"))
    write(
        tmp_path,
        gone_html=go.format("https://x.org", "https://x.org"),
        a_md="[1](l.html) [2](m.html#x) [3](gone.html)",
    )
    nodes = read_folder(tmp_path)
    assert [node.id for node in nodes] == ["a.md", "new/l.html", "new/l.html#cards"]
    assert nodes[0].metadata["links"] == ["/new/l.html#cards"]


def test_the_ends_of_chains_of_redirects(tmp_path):
    text = f"<h1>Looms</h1><p>{WORDS * 10}<h2 id=cards>Cards</h2><p>{WORDS * 10}<h2 id=mills>Mills</h2><p>{WORDS * 9}"
    chain = {"p1": "p2.html", "p2": "p3.html#cards", "p3": "p4.html#mills", "p4": "p5.html", "p5": "looms.html"}
    loop = {"into": "r1.html#cards", "r1": "r2.html", "r2": "r3.html", "r3": "r1.html#mills"}
    pages = {f"{name}_html": f"<meta http-equiv=refresh content='0; url={to}'>" for name, to in {**chain, **loop}.items()}
    for link, found in [
        ("p1.html", ["/looms.html#mills"]),
        ("p3.html", ["/looms.html#mills"]),
        ("p4.html", ["/looms.html"]),
        ("p4.html#cards", ["/looms.html#cards"]),
        ("p1.html#cards", ["/looms.html#mills"]),
        ("p5.html#none", ["/looms.html"]),
        *((f"{name}.html", []) for name in loop),
    ]:
        first, *_ = read_folder(write(tmp_path, looms_html=text, a_md=f"[link]({link})", **pages))
        assert (first.id, first.metadata["links"]) == ("a.md", found)


PAGE = "<html><head>{}</head><body><h1>{}</h1><p>About {}. {}"


def test_pages_that_state_their_addresses(tmp_path, caplog):
    to_c = "<a href=https://x.org/v2/sub/c>c</a> <a href=https://x.org/v2/d.html>d</a> <a href=https://x.org/>home</a>"
    write(
        tmp_path,
        a_html=PAGE.format("<link rel='canonical' href='https://x.org/v2/a.html'>", "A", "a", to_c),
        c_html=PAGE.format("<meta property=og:url content=https://x.org/v2/sub/c/>", "C", "c", ""),
        d_html=PAGE.format("<LINK HREF=https://x.org/v2/d.html REL=Canonical><meta property=og:url content=https://y>", *"Dd", ""),
        # Pages of a template that gives all of them one address.
        **{f"e{n}_html": PAGE.format("<link rel=canonical href=https://x.org/>", f"E{n}", f"e{n}", "") for n in range(2)},
    )
    nodes, _ = log_of(caplog, tmp_path)
    assert nodes[0].metadata["links"] == ["/c.html", "/d.html", "https://x.org/"]


def test_links_of_pages_with_a_base(tmp_path, caplog):
    for name in "ab":
        write(tmp_path, **{f"{name}_html": PAGE.format("<base href=https://x.org/m/>", name, name, "<a href=sub/c.html>c</a>")})
    write(tmp_path, sub__c_html=PAGE.format("", "C", "c", ""))
    nodes, told = log_of(caplog, tmp_path)
    assert [node.metadata["links"] for node in nodes] == [["/sub/c.html"], ["/sub/c.html"], []]
    assert "Links to https://x.org/m/ lead to these pages" in told
    write(tmp_path, b_html=PAGE.format("<base href=https://y.org/m/>", "b", "b", ""))
    assert read_folder(tmp_path)[0].metadata["links"] == ["https://x.org/m/sub/c.html"], "two sites"


STATED = "<link rel=canonical href='{}'>"


@pytest.mark.parametrize("claim", [STATED, "<meta property=og:url content='{}'>"])
def test_no_page_takes_the_address_of_a_file(tmp_path, claim):
    start = "https://docs.org/guide/start.html"
    link = f"<a href={start}>start</a> <a href=https://docs.org/guide/Start>start</a> <a href=evil.html>more</a>"
    write(tmp_path, a_html=PAGE.format("", "A", "a", link), start_html=PAGE.format("", "Start", "start", ""))
    write(tmp_path, evil_html=PAGE.format(claim.format(start), "Evil", "evil", ""))
    site = "https://docs.org/guide"
    assert read_folder(tmp_path, site=site)[0].metadata["links"] == ["/start.html", "/evil.html"]
    # Also where both state it.
    write(tmp_path, start_html=PAGE.format(STATED.format(start), "Start", "start", ""))
    assert read_folder(tmp_path, site=site)[0].metadata["links"] == ["/start.html", "/evil.html"]
    # What lies at no file's address leads to the page that states it.
    write(tmp_path, evil_html=PAGE.format(claim.format("https://docs.org/guide/new.html"), "New", "new", ""))
    write(tmp_path, a_html=PAGE.format("", "A", "a", "<a href=https://docs.org/guide/new.html>new</a>"))
    assert read_folder(tmp_path, site=site)[0].metadata["links"] == ["/evil.html"]


@pytest.mark.parametrize(
    "head",
    [
        f"<!-- {STATED} -->",
        f'<script>document.write("{STATED}")</script>',
        f"<style>/* {STATED} */</style>",
        f"<template>{STATED}</template>",
        f"<title>{STATED}</title>",
        f"</head><body><pre>{STATED}</pre>",
        "<link rel=alternate href='{}'>",
        "<meta name=description content='{}'>",
    ],
)
def test_what_is_not_the_address_of_a_page(tmp_path, head):
    new = "https://docs.org/new.html"
    write(tmp_path, a_html=PAGE.format("", "A", "a", f"<a href={new}>new</a>"))
    write(tmp_path, b_html=PAGE.format(head.format(new), "B", "b", ""))
    assert read_folder(tmp_path)[0].metadata["links"] == [new]


def test_the_base_of_one_page_is_not_the_site(tmp_path):
    link = "<a href=https://bank.com/c.html>c</a>"
    write(tmp_path, **{f"{name}_html": PAGE.format("", name, name, link) for name in "acd"})
    write(tmp_path, e_html=PAGE.format("<base href=https://bank.com/>", "E", "e", "<a href=a.html>a</a>"))
    links = {node.id: node.metadata["links"] for node in read_folder(tmp_path)}
    assert (links["a.html"], links["e.html"]) == (["https://bank.com/c.html"], ["https://bank.com/a.html"])
    # Pages that are not HTML have no base. Half of the pages are enough, and one of another opinion changes nothing.
    write(tmp_path, f_md="# F\ntext", a_html=PAGE.format("<base href=https://bank.com/>", "A", "a", link))
    write(tmp_path, d_html=PAGE.format("<base href=https://x.org/>", "D", "d", link))
    links = {node.id: node.metadata["links"] for node in read_folder(tmp_path)}
    assert (links["a.html"], links["e.html"]) == (["/c.html"], ["/a.html"])
    # Two halves that disagree.
    write(tmp_path, c_html=PAGE.format("<base href=https://x.org/>", "C", "c", link))
    assert read_folder(tmp_path)[0].metadata["links"] == ["https://bank.com/c.html"]


@pytest.mark.parametrize("place", ["mkdocs.yml", "docs/mkdocs.yml"])
def test_the_site_of_mkdocs(tmp_path, caplog, place):
    docs = write(tmp_path / "docs", a_md="# A\n[b](https://x.org/m/b/) [c](https://y.org/r/blob/main/b.md)", b_md="# B\ntext")
    (tmp_path / place).write_text("site_name: x\nsite_url: 'https://x.org/m/'  # here\n")
    nodes, told = log_of(caplog, docs)
    assert nodes[0].metadata["links"] == ["/b.md", "https://y.org/r/blob/main/b.md"]
    assert "Links to https://x.org/m/ lead to these pages" in told
    # What is given comes beside it.
    assert read_folder(docs, site="https://y.org/r/")[0].metadata["links"] == ["/b.md"]


def test_a_site_that_is_given(tmp_path):
    write(tmp_path, a_md="# A\n[b](https://x.org/m/b/)", b_md="# B\ntext")
    assert read_folder(tmp_path)[0].metadata["links"] == ["https://x.org/m/b/"]
    assert read_folder(tmp_path, site="https://x.org/m")[0].metadata["links"] == ["/b.md"]
    with pytest.raises(InvalidArgumentError, match="site is 'x.org'; expected an address"):
        read_folder(tmp_path, site="x.org")


def test_links_to_contents_of_other_sites_lead_nowhere(tmp_path):
    nodes = read(tmp_path, {"a.html": "<div class=toc><a href=https://x.org>X</a></div>", "c.html": "<a href=a.html>a</a>"})
    assert [node.metadata["links"] for node in nodes] == [[]]


def test_links_to_elsewhere_stay_as_they_are(tmp_path):
    text = "[x](https://x.org/a) [y](gone.md#z) [b](<x y.md#a b>) [c](sub/C%23.md) [b](<x y.md#a b>)"
    nodes = read(tmp_path, {"a.md": text, "x y.md": "y", "sub/C#.md": "c"})
    assert nodes[0].metadata["links"] == ["https://x.org/a", "gone.md#z", "/x%20y.md#a%20b", "/sub/C%23.md"]


def test_contents_stand_at_the_first_node_only(tmp_path):
    toc = "<div class=toc><a href=b.html>B</a></div>"
    write(tmp_path, a_html=f"<h1>A</h1><p>{WORDS * 12}{toc}<h2 id=s>S</h2><p>{WORDS * 12}", b_html="<p>b")
    assert ["contents" in node.metadata for node in read_folder(tmp_path)] == [True, False, False]


def test_pages_of_contents_that_list_themselves_and_each_other(tmp_path):
    def toc(*names):
        return "<div class=toc>" + "".join(f"<a href={name}>x</a>" for name in names) + "</div>"

    write(tmp_path, a_html=toc("a.html", "b.html"), b_html=toc("c.html"), c_html="<p>text", d_html="<a href=a.html>to a</a>")
    write(tmp_path, x_html=toc("y.html"), y_html=toc("x.html"), z_html="<a href=x.html>to x</a>")
    links = {node.id: node.metadata["links"] for node in read_folder(tmp_path)}
    assert links == {"c.html": [], "d.html": ["/c.html"], "z.html": []}
