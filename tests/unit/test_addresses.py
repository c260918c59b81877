"""Which page a link means, and at what address a page is."""

import pytest

from graph_retrievers.construction.address_book import AddressBook
from graph_retrievers.graph.addresses import node_source, page_address, page_of


@pytest.mark.parametrize(
    ("pages", "link", "base", "page"),
    [
        # Of pages that differ a little: the very one, the index of a folder, one that differs in scheme or slash, the first.
        (["http://h/a", "http://h/a/"], "https://h/a", "", "http://h/a"),
        (["http://h/A", "http://h/a/"], "https://h/a", "", "http://h/a/"),
        (["http://h/A", "http://H/a"], "http://h/a", "", "http://H/a"),
        (["http://h/a.html", "http://h/a.md"], "http://h/A", "", "http://h/a.html"),
        (["d/index.html", "d/index.md", "d.md"], "d/", "x.md", "d/index.html"),
        (["d.md", "d/README.markdown"], "d/", "x.md", "d/README.markdown"),
        (["d.md", "d/index.htm"], "d/?q=1", "x.md", "d/index.htm"),
        (["d/Index.MDX"], "../d", "x/y.md", "d/Index.MDX"),
        # Spaces, slashes, marks.
        (["b.md"], " b.md\n", "a.md", "b.md"),
        (["./docs/b.md"], "docs/b.md", "", "./docs/b.md"),
        (["/home/b.md"], "b.md", "/home/a.md", "/home/b.md"),
        (["http://h/a"], "http://h//a", "", "http://h/a"),
        (["http://h"], "/", "http://h/a", "http://h"),
        (["file:///docs/b.md"], "b.md", "file:///docs/a.md", "file:///docs/b.md"),
        (["s3://x/b.md"], "/b.md", "s3://x/docs/a.md", "s3://x/b.md"),
        (["b.md"], "\ud800.md", "a.md", None),
        # A path has no query, the address of a page has.
        (["a.md", "b.md"], "b?x=1", "a.md", "b.md"),
        (["http://h/p?id=1"], "http://h/P.html?id=1", "", "http://h/p?id=1"),
        (["http://h/p?id=1", "http://h/p"], "http://h/p?id=2", "", None),
        (["http://h/p?id=A"], "http://h/p?id=a", "", None),
        # Links from the root are looked up below the folder that all paths share too.
        (["site/a.md", "site/x/b.md"], "/x/b.md", "site/a.md", "site/x/b.md"),
        (["site/a.md", "site/x/b.md", "x/b.md"], "/x/b.md", "site/a.md", "x/b.md"),
        (["site/a.md", "site/x/b.md", "http://h/c"], "/x/b", "http://h/c", None),
        (["site/a.md", "site/b.md"], "//b.md", "site/a.md", None),
        (["site/README.md"], "//", "", None),
        (["site/a.md", "site/b.md"], "b.md", "", None),
        # The index of the folder that all paths begin in, and a link without a scheme.
        (["README.md", "d/a.md"], "../", "d/a.md", "README.md"),
        (["index.html", "a.html"], "/", "a.html", "index.html"),
        (["https://h/a", "https://h/b"], "//h/b", "https://h/a", "https://h/b"),
        # A fragment needs a page.
        (["index.md"], "#x", "", None),
        (["index.md", "a.md"], "#x", "a.md", "a.md"),
        (["index.md"], "", "", None),
    ],
)
def test_the_page_that_a_link_means(pages, link, base, page):
    found = AddressBook(pages).find(link, base)
    assert (found and found[0]) == page


def test_fields_in_their_order():
    metadata = {"file_path": "f", "path": "p", "source": "s", "url": "u"}
    for name in ("url", "source", "path", "file_path"):
        assert page_address(metadata) == metadata.pop(name)
    assert page_address({"source": "a.md", "path": r"C:\vault\x\a.md"}) == r"C:\vault\x\a.md", "a bare name, and its path"
    assert page_address({"source": "x/a.md", "path": "/vault/x/a.md"}) == "x/a.md"
    assert page_address({"source": "a.md", "path": "/vault/ba.md"}) == "a.md"
    assert page_address({"file_name": "a.md", "folder_path": "v/x"}, ["url"]) == "" == page_address({"file_name": "a.md"})
    assert page_address(metadata) == "" and page_address({"url": None, "link": 0}, ["url", "link"]) == "0"


@pytest.mark.parametrize(
    ("site", "link", "page"),
    [
        ("https://x.org", "http://x.org/a.html", "a.md"),
        ("https://x.org/", "https://X.org/d/", "d/index.md"),
        ("https://x.org/", "https://x.org", "README.md"),
        ("https://x.org/m", "https://x.org/m/?x=1", "README.md"),
        ("https://x.org/m/", "https://x.org/m/d/b#c", "d/b.md"),
        ("https://x.org/m/", "//x.org/m/d/b", "d/b.md"),
        ("https://x.org/m", "https://x.org/mm/a", None),
        ("https://x.org/m", "https://x.org/a", None),
        ("https://x.org/m", "https://y.org/m/a", None),
        # From the root of the host; a relative link is not.
        ("https://x.org/m", "/m/d/b/", "d/b.md"),
        ("https://x.org/m", "m/d/b/", None),
        # A repository.
        ("https://github.com/o/r", "https://github.com/o/r/blob/main/d/b.md", "d/b.md"),
        ("https://github.com/o/r", "https://github.com/o/r/tree/v1.2/d", "d/index.md"),
        ("https://github.com/o/r", "https://github.com/o/r/tree/main", "README.md"),
        ("https://gitlab.com/o/r", "https://gitlab.com/o/r/-/blob/main/a.md", "a.md"),
        ("https://github.com/o/r/blob/main/", "https://github.com/o/r/blob/main/a.md", "a.md"),
        ("https://github.com/o/r", "https://github.com/o/r/issues/1", None),
    ],
)
def test_links_to_where_the_pages_are_published(site, link, page):
    book = AddressBook(["README.md", "a.md", "d/index.md", "d/b.md"], [site])
    found = book.find(link, "a.md")
    assert (found and found[0]) == page


def test_further_addresses_of_pages():
    book = AddressBook(["a.html", "b.html"], others={"https://x.org/p/A": "a.html", "b.html": "a.html"})
    assert book.find("https://x.org/p/a/#x") == ("a.html", "x")
    assert book.find("b.html", "a.html") == ("b.html", ""), "a page has its own address first"


def test_a_page_below_the_site_comes_before_what_another_page_states():
    stated = {"https://x.org/m/a": "b.html", "https://x.org/m/A.html?x": "b.html", "https://x.org/m/": "b.html"}
    book = AddressBook(["docs/a.html", "docs/b.html", "docs/index.html"], ["https://x.org/m"], stated)
    found = [book.find(link) for link in [*stated, "http://x.org/m"]]
    assert [page for page, _ in found] == ["docs/a.html", "docs/a.html", "docs/index.html", "docs/index.html"]
    assert AddressBook(["a.html"], others=stated).find("https://x.org/m/a") == ("b.html", "")


@pytest.mark.parametrize(
    ("link", "base", "missed"),
    [
        ("gone.md", "a.md", True),
        ("gone", "http://h/a", True),
        ("/d/gone/?x=1#y", "a.md", True),
        ("https://x.org/m/gone", "", True),
        ("https://x.org/gone", "a.md", False),
        ("gone.md", "", False),
        ("gone.PNG", "a.md", False),
        ("papers/gone.pdf#page=2", "a.md", True),
        ("gone.DOCX", "http://h/a", True),
        ("https://x.org/m/a.zip", "a.md", False),
        ("mailto:me", "a.md", False),
        ("#x", "a.md", False),
        ("?x", "a.md", False),
        ("http://[", "a.md", False),
    ],
)
def test_links_that_should_lead_to_a_page(link, base, missed):
    assert AddressBook(["a.md"], ["https://x.org/m"]).misses(link, base) == missed


class TestAddresses:
    @pytest.mark.parametrize(
        ("link", "base", "found"),
        [
            ("b.md", "docs/a.md", ("docs/b.md", "")),
            ("./b.md#x", "docs/a.md", ("docs/b.md", "x")),
            ("../docs/b", "docs/a.md", ("docs/b.md", "")),
            ("b.html", "docs/a.md", ("docs/b.md", "")),
            ("B.MD", "docs/a.md", ("docs/b.md", "")),
            ("/docs/b.md", "docs/a.md", ("docs/b.md", "")),
            ("/b.md", "docs/a.md", ("docs/b.md", "")),
            ("#here%20now", "docs/a.md", ("docs/a.md", "here now")),
            ("?q=1", "docs/a.md", ("docs/a.md", "")),
            ("b.md?v=2#x", "docs/a.md", ("docs/b.md", "x")),
            ("a.md", "docs/sub/index.md", ("docs/a.md", "")),
            ("sub/", "docs/a.md", ("docs/sub/index.md", "")),
            ("sub", "docs/a.md", ("docs/sub/index.md", "")),
            ("with%20space.md", "docs/a.md", ("docs/with space.md", "")),
            ("with space.md", "docs/a.md", ("docs/with space.md", "")),
            ("a%23b.md", "docs/a.md", ("docs/a#b.md", "")),
            ("https://example.org/docs/b.md", "docs/a.md", None),
            ("mailto:a@b.c", "docs/a.md", None),
            ("http://[", "docs/a.md", None),
            ("../../../../b.md", "docs/a.md", None),
            ("/../../b.md", "docs/a.md", ("docs/b.md", "")),
            ("./docs/b.md", "docs/a.md", None),
            # As in a vault: from its root, or the end of a path.
            ("docs/b.md", "docs/a.md", ("docs/b.md", "")),
            ("sub/index.md", "docs/sub/index.md", ("docs/sub/index.md", "")),
            ("ub/index.md", "docs/a.md", None),
        ],
    )
    def test_paths(self, link, base, found):
        book = AddressBook(["docs/a.md", "docs/b.md", "docs/sub/index.md", "docs/with space.md", "docs/a#b.md"])
        assert book.find(link, base) == found

    @pytest.mark.parametrize(
        ("link", "found"),
        [
            ("https://x.org/about/#team", ("https://X.org/about", "team")),
            ("http://x.org/about", ("https://X.org/about", "")),
            ("about", ("https://X.org/about", "")),
            ("about.html?lang=en", None),
            ("page?id=2", ("https://x.org/page?id=2", "")),
            ("page?id=3", None),
            (".", ("https://x.org/", "")),
            ("//x.org/about", ("https://X.org/about", "")),
            ("https://y.org/about", None),
        ],
    )
    def test_urls(self, link, found):
        book = AddressBook(["https://x.org/", "https://X.org/about", "https://x.org/page?id=2"])
        assert book.find(link, "https://x.org/") == found

    def test_the_very_page_comes_before_one_that_differs_a_little(self):
        assert AddressBook(["http://h/a", "https://h/a"]).find("https://h/a") == ("https://h/a", "")
        assert AddressBook(["http://h/a/", "http://h/a"]).find("http://h/a") == ("http://h/a", "")
        assert AddressBook(["guide.md", "guide/index.md"]).find("guide/", "a.md") == ("guide/index.md", "")
        assert AddressBook(["guide.md", "guide/index.md"]).find("guide", "a.md") == ("guide.md", "")

    @pytest.mark.parametrize(
        ("pages", "link"),
        [
            (["data.html"], "data.txt"),
            (["http://h/watch?v=AbC"], "http://h/watch?v=aBc"),
            (["http://h/a?b"], "http://h/a%3Fb"),
            (["a/b"], "a%2Fb"),
        ],
    )
    def test_what_names_something_else_is_not_found(self, pages, link):
        assert AddressBook(pages).find(link, base="x.html") is None

    def test_names_with_marks_of_urls_and_other_schemes(self):
        book = AddressBook(["C#.md", "C.md", "x%20y.md", "x y.md", "a?b.md"])
        assert book.find("C%23.md", "C.md") == ("C#.md", "")
        assert book.find("x%2520y.md", "C.md") == ("x%20y.md", "") and book.find("x%20y.md", "C.md") == ("x y.md", "")
        assert book.find("a%3Fb.md", "C.md") == ("a?b.md", "")
        book = AddressBook(["s3://bucket/docs/a.md", "s3://bucket/docs/b.md", "b.md"])
        assert book.find("b.md", "s3://bucket/docs/a.md") == ("s3://bucket/docs/b.md", "")
        assert book.find("s3://bucket/docs/b.md") == ("s3://bucket/docs/b.md", "")

    def test_addresses_that_are_none(self):
        book = AddressBook(["http://[::1", "http://[x]/y", "\ud800", "a.md"])
        assert book.find("a.md", "http://[::1") is None and book.find("a.md") == ("a.md", "")
        assert book.find("#x") is None, "no page to be on"

    def test_files_of_a_windows_folder_and_links_below_a_site_root(self):
        book = AddressBook(["C:\\site\\guide\\a.html", "C:\\site\\guide\\b.html", "C:\\site\\index.html"])
        assert book.find("b.html#x", "C:\\site\\guide\\a.html") == ("C:\\site\\guide\\b.html", "x")
        assert book.find("/guide/b.html", "C:\\site\\guide\\a.html") == ("C:\\site\\guide\\b.html", "")

    def test_pages_that_differ_only_in_case_or_ending_are_not_confused(self):
        book = AddressBook(["a.md", "A.md", "a.html"])
        assert [book.find(link)[0] for link in ("a.md", "A.md", "a.html", "a")] == ["a.md", "A.md", "a.html", "a.md"]

    def test_the_address_of_a_page_is_the_first_field_that_it_has(self):
        assert page_address({"file_path": "f", "source": "s", "url": ""}) == "s"
        assert page_address({"other": "x"}) == "" and page_address({"source": 3}) == "3"

    @pytest.mark.parametrize(
        ("link", "base", "page"),
        [
            ("[[loom]]", "", "Loom.md"),
            ("[[Loom.md]]", "", "Loom.md"),
            ("[[Loom.png]]", "", None),
            ("[[oom]]", "", None),
            # Of several: that with exactly this path, that with the most folders in common, the shorter path.
            ("[[card]]", "", "a/Card.md"),
            ("[[Card]]", "b/c/x.md", "b/c/card.md"),
            ("[[Card]]", "b/y.md", "b/c/card.md"),
            ("[[loom]]", "b/y.md", "Loom.md"),
            ("[[A / card]]", "b/c/x.md", "a/Card.md"),
            ("[[x/card]]", "b/c/x.md", None),
            # A name with a dot, accents that are not joined to their letters, and a file with no ending that is known.
            ("[[Node.js]]", "", "Node.js.md"),
            ("[[cafe\u0301]]", "", "d/Caf\u00e9.txt"),
        ],
    )
    def test_wiki_links_name_pages(self, link, base, page):
        pages = ["b/Loom.html", "Loom.md", "b/c/d/card.md", "b/c/card.md", "a/Card.md", "Node.js.md", "d/Caf\u00e9.txt"]
        assert AddressBook(pages).find(link, base) == (page and (page, ""))

    def test_wiki_links_to_a_heading_of_the_page_that_they_stand_on(self):
        book = AddressBook(["a.md"])
        assert book.find("[[#x]]", "a.md") == ("a.md", "x") and book.find("[[#x]]") is None
        assert [book.misses(link, "a.md") for link in ("[[b#x]]", "[[b.png]]")] == [True, False]


@pytest.mark.parametrize(
    ("node", "page"),
    [("guide/loom.html#cards", "guide/loom.html"), ("Loom.MD#a#b", "Loom.MD"), ("loom.html#", "loom.html#"), ("C#major", "C#major")]
    + [("#cards", "#cards"), ("loom.png#cards", "loom.png#cards"), ("loom.html", "loom.html")],
)
def test_the_page_of_an_id_that_is_a_place_on_one(node, page):
    assert page_of(node) == node_source(node, {}, {}) == page
