"""What the reader of HTML keeps and leaves out, element by element."""

import pytest

from graph_retrievers.construction.acts import act_name
from graph_retrievers.construction.html import html_charset, read_html
from graph_retrievers.construction.pages import without_number

INLINE = "a abbr b bdi bdo cite code em font i kbd mark q s samp small span strong sub sup time tt u var".split()
SILENT = "script style template svg nav footer button select textarea".split()
NAVIGATION = "navheader navfooter sphinxsidebar headerlink skip-link skip-nav breadcrumb breadcrumbs prev-next".split()
OUTER_NAVIGATION = "nav navbar navigation sidebar related menu pagination footer".split()


def texts(text):
    return [block.text for block in read_html(text).blocks]


@pytest.mark.parametrize("tag", INLINE)
def test_elements_within_a_line(tag):
    assert texts(f"<p>one <{tag}>two</{tag}> three") == ["one two three"]


@pytest.mark.parametrize("tag", ["img", "wbr"])
def test_elements_without_text_within_a_line(tag):
    assert texts(f"<p>one <{tag}>two") == ["one two"]


@pytest.mark.parametrize("tag", SILENT)
def test_elements_that_are_no_text(tag):
    assert texts(f"<p>one</p><{tag}>no</{tag}><p>two") == ["one", "two"]


@pytest.mark.parametrize("attribute", ["role=Navigation", "role=search", "role=contentinfo", "role=banner", "aria-hidden=true"])
def test_roles_that_are_no_text(attribute):
    assert texts(f"<p>one<div {attribute}>no</div><p>two") == ["one", "two"]
    assert texts(f"<p>one <span {attribute}><svg><path></svg>no</span>two") == ["one two"]


@pytest.mark.parametrize("name", [*NAVIGATION, *OUTER_NAVIGATION, "NavHeader", "Menu"])
def test_classes_of_navigation(name):
    box = f"<div class='x {name}'>box</div>"
    assert texts(f"<p>one{box}<p>two") == ["one", "two"]
    inside = [] if name.lower() in NAVIGATION else ["box"]
    for main in ("main", "div role=Main", "main class='toc menu'", "div role=main class='toc nav'"):
        assert texts(f"<p>out</p><{main}><p>one{box}<p>two") == ["one", *inside, "two"]
    assert texts(f"<html class={name}><body class={name}><p>one") == ["one"]


@pytest.mark.parametrize("name", ["toc", "toctree-wrapper", "table-of-contents", "Contents Topic"])
def test_classes_of_contents(name):
    page = read_html(f"<p>one<div class='{name}'><a href=a>A</a><nav><a href=no>no</a></nav></div><p>two<a href=b>b")
    assert (page.contents, [block.text for block in page.blocks]) == (("a",), ["one", "twob"])
    assert texts(f"<html class='{name}'><p>one") == texts(f"<html><body class='{name}'><p>one") == ["one"]


@pytest.mark.parametrize("name", ["contents", "topic", ""])
def test_classes_of_text(name):
    assert texts(f"<div class='{name}' role=''>one</div>") == ["one"]


@pytest.mark.parametrize("tag", ["ul", "ol", "dl"])
def test_of_contents_the_first_level_counts(tag):
    item = "dt" if tag == "dl" else "li"
    inner = f"<{tag}><{item}><a href=c>C</a></{tag}>"
    listed = f"<{tag}><{item}><a href=a>A</a>{inner}<{item}><a href=b>B</a></{tag}>"
    assert read_html(f"<div class=toc>{listed}</div>").contents == ("a", "b")
    assert read_html(f"<ul><li><div class=toc>{listed}</div></ul>").contents == ("a", "b"), "wherever it stands"


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("<h2>25.3. Looms</h2><p>25.3. looms", [("Looms", 2, True), ("25.3. looms", 0, False)]),
        ("<h2><a class=doc-anchor href=#x>§</a>Cards</h2>", [("Cards", 2, True)]),
        ("<h2>Cards <a href=#x>¶</a><h3><a href=#y>#</a> C#</h3>", [("Cards", 2, True), ("C#", 3, True)]),
        ("<h2>§ 5 Cards</h2><p><a href=x>§ 5</a> # 3<b>#</b>", [("§ 5 Cards", 2, True), ("§ 5 # 3#", 0, False)]),
        ("<h2><div></div>Looms</h2><h1><div>a</div>b</h1>", [("Looms", 2, True), ("a", 1, True), ("b", 0, False)]),
        ("<table><caption>Looms</caption><tr><td>a</table>", [("Looms", 0, True), ("a", 0, False)]),
        ("<pre>\n\n  a\n b  \n\n</pre><p> c\n d", [("  a\n b", 0, False), ("c d", 0, False)]),
        ("<p>zero\u200bwidth and soft\u00adhyphen", [("zerowidth and softhyphen", 0, False)]),
        ("<h6>a</h6><h7>b</h7>", [("a", 6, True), ("b", 0, False)]),
        ("<pre>\nX\n</pre>", [("X", 0, False)]),
        ("<p>this | that |", [("this | that |", 0, False)]),
    ],
)
def test_blocks(text, blocks):
    assert [(block.text, block.level, block.leads) for block in read_html(text).blocks] == blocks


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("<tr><td>a<td>b<tr><td><td>d", ["a | b", "| d"]),
        ("<tr>\n <th>a</th>\n <th>b</th>\n</tr>\n<tr>\n <td></td>\n <td></td>\n <td>c</td>\n</tr>", ["a | b", "| | c"]),
        ("<tr><td>a</td><td></td><td> </td></tr><tr><td>&nbsp;</td><td></td></tr>", ["a"]),
        ("<tr><td><p>a</p></td><td><p>b</p></td>", ["a", "b"]),
        ("<tr><td>a<br>b<td>c", ["a", "b | c"]),
    ],
)
def test_cells_keep_their_columns(table, rows):
    assert texts(f"<table>{table}</table>") == rows


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title> 3.1. Looms\n and  cards</title><h1>Cards</h1>", "Looms and cards"),
        ("<title>Looms &amp; cards &lt;x&gt;</title>", "Looms & cards <x>"),
        ("<p>text</p><h3>Cards</h3><h1>Looms</h1>", "Cards"),
        ("<p>text", ""),
        ("<svg><title>Icon</title></svg><h1>Cards</h1>", "Cards"),
        (f"<title>{'x&amp;' * 4000}</title>", "x&" * 500),
    ],
)
def test_titles(text, title):
    assert read_html(text).title == title


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<base href=sub/><base href=no/><a href=b>b", ["sub/b"]),
        ("<base target=_blank><a href=b>b", ["b"]),
        ("<base target=_blank><base href=sub/><a href=b>b", ["sub/b"]),
        ("<link href=no/><p href=no/><a href=b>b", ["b"]),
        ("<p><a href=b>1</a> <a href=c>2</a> <a href=b>3</a>", ["b", "c"]),
    ],
)
def test_links(text, found):
    block, _ = read_html(f"{text}<p>end").blocks
    assert block.links == tuple(found)


def test_contents_are_resolved_against_the_base_too():
    page = read_html("<base href=http://x.org/sub/a><div class=toc><a href=b>B</a></div>")
    assert page.contents == ("http://x.org/sub/b",)


def test_anchors_are_ids_and_the_names_of_links():
    (block,) = read_html("<p id=a><a name=b></a><input name=no><i id=a></i>text<i id=c></i><i id=d></i><p>").blocks
    assert block.anchors == ("a", "b", "c", "d")
    assert read_html("<p id=a>text</p><i id=b></i>").blocks[0].anchors == ("a", "b")


@pytest.mark.parametrize(
    ("raw", "charset"),
    [
        *(
            (b"<!DOCTYPE html><meta charset=%s>" % name, "cp1252")
            for name in (b"ISO-8859-1", b"latin1", b"Latin-1", b"us-ascii", b"ascii")
        ),
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=utf-16le>", ""),
        (b" " * 990 + b"<meta charset=koi8-r>", "koi8-r"),
        (b" " * 1024 + b"<meta charset=koi8-r>", ""),
        (b"<meta name='x'" + b" " * 201 + b"charset=koi8-r>", ""),
    ],
)
def test_charsets(raw, charset):
    assert html_charset(raw) == charset


@pytest.mark.parametrize("tag", "acronym big button data del dfn ins label math my-word nobr object ruby strike svg".split())
def test_other_elements_stand_within_a_line(tag):
    shown = "" if tag == "svg" else "two "
    assert texts(f"<p>one <{tag}>two</{tag}> three") == [f"one {shown}three"]


@pytest.mark.parametrize("tag", "address article blockquote details dd div fieldset figure form main section summary".split())
def test_elements_that_are_blocks(tag):
    assert texts(f"<body>one <{tag}>two</{tag}> three") == (["two"] if tag == "main" else ["one", "two", "three"])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<p>Press <button>SAVE</button> to save", ["Press SAVE to save"]),
        ("<ul><li>Press <b><button>SAVE</button></b></ul><button>Copy</button>", ["Press SAVE"]),
        ("<pre>x = 1</pre><div><button>Copy</button></div>", ["x = 1"]),
        ("<blockquote>quote<footer>Author</footer></blockquote><footer>us</footer>", ["quote", "Author"]),
        ("<p>A loom: <img alt='a wooden frame' src=x>.<img alt=''>", ["A loom: a wooden frame ."]),
        ("<math><mi>x</mi><annotation>x_1</annotation></math>", ["x"]),
    ],
)
def test_words_and_names_are_read(text, read):
    assert texts(f"<main>{text}</main>") == read


PROSE = "The table of contents of a book of looms lists its chapters."


def test_a_text_called_contents_is_read():
    page = read_html(f"<p id=p>one<section class=toc id=s><h2 id=h>T</h2><p>{PROSE} See <a href=b>B</a>.</section><p>two")
    assert [(block.text, block.anchors, block.links) for block in page.blocks] == [
        ("one", ("p",), ()),
        ("T", ("s", "h"), ()),
        (f"{PROSE} See B.", (), ("b",)),
        ("two", (), ()),
    ]
    assert page.contents == ()


@pytest.mark.parametrize("shown", ["<p>Table of contents", "<dl><dt>B: " + PROSE + "</dl>", PROSE + f"<a href=b>{PROSE}!</a>"])
def test_contents_with_labels_and_descriptions_are_left_out(shown):
    page = read_html(f"<p>one</p><i id=i></i><div class=toc id=s>{shown}<a href=c>C</a></div><p>two")
    assert [(block.text, block.anchors) for block in page.blocks] == [("one", ()), ("two", ("i",))]
    assert page.contents[-1] == "c"


def test_contents_that_show_nothing_are_left_out():
    page = read_html(f"<i id=i></i><div class=toc><a id=a href=c></a>{chr(0x200B) * 41}</div><p>text")
    assert [(block.text, block.anchors, block.links) for block in page.blocks] == [("text", ("i",), ())]
    assert page.contents == ("c",)


@pytest.mark.parametrize(("listed", "other", "read"), [(0, 40, False), (0, 41, True), (45, 45, False), (45, 46, True)])
def test_contents_are_a_text_if_that_is_longer_than_a_label_and_than_the_entries(listed, other, read):
    page = read_html(f"<p>one<div class=toc><ul><li><a href=c>{'c' * listed}</a></ul><p>{'t' * other}</div>")
    assert ("t" * other in [block.text for block in page.blocks]) is read and (page.contents == ()) is read


@pytest.mark.parametrize(
    "box", ["<div class=nav>{}</div>", "<nav>{}</nav>", "<div role=navigation>{}</div>", "<footer>{}</footer>"]
)
def test_a_page_of_navigation_alone_is_read(box):
    assert texts(box.format("<p>text")) == ["text"]
    (block,) = read_html(box.format("<p>text</p><a id=end href=b></a>")).blocks
    assert (block.anchors, block.links) == (("end",), ("b",))
    assert read_html(box.format("<p>text <a href=b>b</a>"), piece=True).blocks == []


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("<meta http-equiv=Refresh content='0; URL=new.html'><p>Redirecting to <a href=new.html>new</a>.", "new.html"),
        ("<meta http-equiv=refresh content=\"3;url='sub/new.html#x'\"><p>Moved.", "sub/new.html#x"),
        ("<title>Redirecting&hellip;</title><p>Click <a href=a.html>here</a>", "a.html"),
        ("<base href=sub/><meta http-equiv=refresh content='0;url=n'>", "sub/n"),
    ],
)
def test_a_page_that_goes_on_to_another(text, target):
    assert read_html(text)[1:3] == ([], (target,))


@pytest.mark.parametrize(
    "text",
    [
        "<meta http-equiv=refresh content='300;url=x'><p>text",
        "<meta http-equiv=refresh content=5><p>text",
        "<noscript><meta http-equiv=refresh content='0;url=x'></noscript><p>text",
        "<meta name=refresh content='0;url=x'><p>text",
        "<title>Redirecting requests</title><p>text <a href=a>a</a><a href=b>b</a>",
    ],
)
def test_a_page_that_stays(text):
    assert [block.text[:4] for block in read_html(text).blocks] == ["text"]


def test_anchors_before_and_at_the_end_of_the_main_part():
    head = "<div id=menu><i id=icon></i><a href=home></a></div>"
    (block,) = read_html(f"{head}<main id=m><p>text</p><i id=end></i></main><div id=after>out").blocks
    assert (block.anchors, block.links) == (("m", "end"), ())
    (block,) = read_html("<h2 id=u2>", piece=True).blocks
    assert (block.text, block.anchors) == ("", ("u2",))
    assert read_html("<h2 id=u2>").blocks == []


def test_texts_that_link_to_themselves_and_pages_of_links_are_read():
    heading = '<main><h2 id="a"><a class="header" href="#a">Windows</a></h2><dl><dt id="m"><a href="#m">warp()</a></dt><dd>Warps.'
    assert [block.text for block in read_html(heading).blocks] == ["Windows", "warp()", "Warps."]
    days = "".join(f'<p><a href="d{n}.html">The council met on day {n}.</a>' for n in range(6))
    assert len(read_html(f"<main>{days}").blocks) == 6


def test_anchors_and_links_around_contents_that_are_left_out():
    box = "<div class=toc><ul><li><a id=in href=c>c</a></ul></div>"
    (block,) = read_html(f"<a id=a href=l></a>{box}<a id=b href=m></a>{box}<p>text").blocks
    assert (block.text, block.anchors, block.links) == ("text", ("a", "b"), ("l", "m"))
    # The box begins a text of its own, which goes with it; what came before it stays.
    (block,) = read_html(f"<a id=a href=l></a>{box[:-6]}<p>entry</p></div><p>text").blocks
    assert (block.text, block.anchors, block.links) == ("text", ("a",), ("l",))


def test_anchors_and_links_before_contents_that_are_texts():
    box = "<a id=a href=l></a><div class=toc>{}</div>"
    one, two = read_html(box.format("<p id=b>" + "words " * 20 + "</p><p>more")).blocks
    assert (one.anchors, one.links, two.anchors) == (("a", "b"), ("l",), ())
    (block,) = read_html(box.format("<a id=b href=m></a>") + "<p id=c>text").blocks
    assert (block.anchors, block.links) == (("a", "c"), ("l",))


def test_main_parts_one_after_another():
    text = (
        "<main><p>one<i id=a></i></p><a id=b href=x></a></main><main><a id=b href=y></a></main><main><p>two</p><a id=c></a></main>"
    )
    one, two = read_html(text).blocks
    assert (one.text, one.anchors, one.links) == ("one", ("a", "b"), ("x", "y"))
    assert (two.text, two.anchors, two.links) == ("two", ("c",), ())
    # A block that is left out takes what came after it along.
    left = "<p>one</p><div class=toc><ul><li><main>c<a id=d></a></main></ul></div>"
    assert [(block.text, block.anchors) for block in read_html(left).blocks] == [("one", ())]


def test_navigation_before_a_main_part_inside_contents_is_left_out():
    head, main = "<a id=skip href=x.html></a>", f"<main id=m><p>{'w ' * 45}</p></main>"
    for page in (f"{head}{main}", f"{head}<div class=toc>{main}</div>", f"{head}<div class=toc><a id=b href=y></a>{main}</div>"):
        (block,) = read_html(page).blocks
        assert (block.anchors, block.links) == (("m",), ())
    # A main part that holds the contents keeps what stands before them.
    (block,) = read_html(f"<main>{head}<div class=toc><p>{'w ' * 45}</div></main>").blocks
    assert (block.anchors, block.links) == (("skip",), ("x.html",))


FILLERS = ["a{}=1", "a{}", "data-id{}='x > y'", 'class{} = "q"', "x{}=it's", 'id-{}="<"', "\nv{}\n=\n1", "N{}/", 'href{}="a"c{}=2']
READ = ["id=top", "ID = 'top'", 'id="top"class=plain', 'id="top"/']


@pytest.mark.slow
@pytest.mark.parametrize("anchor", READ)
@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("count", [3, 1_200, 5_000])
def test_attributes_among_many_others(filler, anchor, count):
    others = " ".join(filler.replace("{}", str(place)) for place in range(count))
    link = "href='Next Page.Html'"
    for attributes in (f"{others} {anchor} {link}", f"{anchor} {link} {others}", f"{link.title()} {others} {anchor}"):
        (block,) = read_html(f"<p>See <a {attributes} >the > next</a> page.</p>").blocks
        assert (block.text, block.links, block.anchors) == ("See the > next page.", ("Next Page.Html",), ("top",))


def test_the_first_of_two_attributes_counts_also_without_a_value():
    others = " ".join(f"a{place}=1234567" for place in range(3_000))
    (block,) = read_html(f"<p id id=x {others}>See <a href href=b.html {others}>b</a>.").blocks
    assert (block.text, block.anchors, block.links) == ("See b.", (), ())


def test_long_texts_and_attributes_stand():
    words = " ".join(["word"] * 20_000)
    assert texts(f"<p>a <b {words}") == texts(f"<p>a <b {words}>")
    assert texts(f"<p id=a>if a > b {words} > c<p>d") == [f"if a > b {words} > c", "d"]
    assert texts(f"<p>a<img src='data:{words}' alt='a loom'> b") == ["a a loom b"]
    (block,) = read_html(f"<p><a href='{words}.html'>next</a>").blocks
    assert block.links == (f"{words}.html",)
    # The first of attributes with one name counts.
    (block,) = read_html("<p><a " + " ".join(f"href=h{place}" for place in range(5_000)) + ">next</a>").blocks
    assert block.links == ("h0",)


def test_the_header_of_a_table_is_above_all_its_rows_and_of_no_other():
    first = "<table><tr><th>a<th>b<tr><td>1<td>2<tr><th>c<th>d<tr><td>3<td>4</table>"
    page = read_html(f"{first}<table><tr><th>e<tr><td><p><b>5</b></p></table><p><b>f</b></p><p><b>g</b> h</p>")
    assert [(block.text, block.header, block.leads) for block in page.blocks] == [
        ("a | b", "", True),
        ("1 | 2", "a | b", False),
        ("c | d", "a | b", False),
        ("3 | 4", "a | b", False),
        ("e", "", True),
        ("5", "e", False),
        ("f", "", True),
        ("g h", "", False),
    ]


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        # A table in a cell has a header of its own.
        (
            "<tr><th>A<th>B<tr><td>x<td><table><tr><th>C<th>D<tr><td>5<td>6</table>",
            [("A | B", "", True), ("x", "A | B", False), ("C | D", "", True), ("5 | 6", "C | D", False)],
        ),
        # A row whose cells are several blocks names no columns, and neither does one with a cell of values.
        ("<tr><th><p>A</p><p>B</p><tr><td>1<td>2", [("A", "", False), ("B", "", False), ("1 | 2", "", False)]),
        ("<tr><td>1<th>A<tr><td>2<td>3", [("1 | A", "", False), ("2 | 3", "", False)]),
        ("<tr><th>A<td>1<tr><td>2<td>3", [("A | 1", "", False), ("2 | 3", "", False)]),
    ],
)
def test_which_row_is_the_header_of_a_table(table, rows):
    assert [(block.text, block.header, block.leads) for block in read_html(f"<table>{table}</table>").blocks] == rows


def texts_of(page):
    return [block.text for block in page.blocks]


def links_of(page):
    return [link for block in page.blocks for link in block.links]


def anchors(page):
    return [(block.text, block.anchors) for block in page.blocks if block.anchors]


class TestHtml:
    def test_blocks_are_what_a_browser_shows_on_lines_of_their_own(self):
        page = read_html(
            "<h1>Looms</h1>text <b>in</b>\n line<p>one<br>two<ul><li>first<li>second <i>x</i></ul><pre>\n  a\n    b\n</pre>"
            "<table><tr><th>k<th>v<tr><td>1<td>2</table>Green&shy;ock &lt;x&gt; a < b"
        )
        expected = [
            "Looms",
            "text in line",
            "one",
            "two",
            "first",
            "second x",
            "  a\n    b",
            "k | v",
            "1 | 2",
            "Greenock <x> a < b",
        ]
        assert texts_of(page) == expected

    def test_scripts_styles_comments_and_navigation_are_left_out(self):
        page = read_html(
            "<head><title>T</title><style>p{}</style></head><body><script>no('<p>no')</script><!-- no --><nav><a href=n>no</a>"
            "</nav><div class='sphinxsidebar'>no<a href=n>no</a></div><div role=navigation>no</div>"
            "<p>yes <a class=headerlink href=#p>¶</a></p>"
            "<svg><title>no</title></svg><template>no</template><footer>no</footer></body>"
        )
        assert (page.title, texts_of(page), links_of(page)) == ("T", ["yes"], [])

    def test_only_the_main_part_is_read_where_there_is_one(self):
        page = read_html("<body><p id=out>menu</p><main><h1>Looms</h1><p>text</p></main><p>end</p>")
        assert texts_of(page) == ["Looms", "text"]
        assert texts_of(read_html("<p>all<main> </main>")) == ["all"], "an empty main part is not the page"

    def test_a_table_of_contents_gives_its_first_level_and_no_text(self):
        page = read_html(
            "<h1>Looms</h1><div class=toc><p>Contents</p><ul><li><a href=a.html>A</a><ul><li><a href=a.html#x>X</a></ul>"
            "<li><a href=b.html>B</a></ul></div><p>Text.</p>"
        )
        assert (page.contents, texts_of(page), links_of(page)) == (("a.html", "b.html"), ["Looms", "Text."], [])
        assert texts_of(read_html("<div class=contents><p>Doxygen calls its main part so.</p></div>")) == [
            "Doxygen calls its main part so."
        ]

    def test_anchors_belong_to_the_text_that_follows_them(self):
        page = read_html(
            '<section id=s><a name="old"></a><h2 id=h>Cards</h2><p id=p>one <span id=i>two</span></p><span id=empty></span>'
            "</section><dl><dt id=t>term<dd>meaning</dl><i id=last></i>"
        )
        assert anchors(page) == [
            ("Cards", ("s", "old", "h")),
            ("one two", ("p", "i")),
            ("term", ("empty", "t")),
            ("meaning", ("last",)),
        ]
        assert [block.leads for block in page.blocks] == [True, False, True, False]
        assert [block.level for block in page.blocks] == [2, 0, 0, 0]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ('<a href="b.html">x</a> and <A class=q HREF=c.html>', ["b.html", "c.html"]),
            ('<script>var s = "<a href=no>";</script><a href="a?x=1&amp;y=2">z', ["a?x=1&y=2"]),
            ("<a href>none</a> <a href=''>empty", []),
            ('<p><a href="x"><img src=y></a></p><p>next</p>', ["x"]),
            ("<a href=x>", []),
        ],
    )
    def test_links(self, text, found):
        assert links_of(read_html(text)) == found

    def test_headings_lose_their_numbers_and_keep_other_numbers(self):
        assert without_number("25.3.1. Continuous Archiving") == "Continuous Archiving"
        assert without_number("Appendix A. PostgreSQL Error Codes") == "PostgreSQL Error Codes"
        assert without_number("A.1. Overview") == "Overview"
        for kept in (
            "3.11 released",
            "2001: A Space Odyssey",
            "Section",
            "1.",
            "J. K. Rowling",
            "E. coli",
            "Chapter and verse. Then",
        ):
            assert without_number(kept) == kept
        assert read_html("<title>25.3. Looms</title><h2>25.3.&#160;Looms</h2>").title == "Looms"

    @pytest.mark.parametrize("text", ["", " \n", "<!-- x -->", "\0", "<", "<>", "</", "\ud800 x", "<!DOCTYPE html>", "&", "<p"])
    def test_odd_pages(self, text):
        read_html(text)

    def test_text_after_a_null_character_is_read(self):
        assert texts_of(read_html("<p>a\0b</p><p>c</p>")) == ["a b", "c"]

    def test_boxes_of_sphinx_are_content_and_side_bars_outside_the_main_part_are_not(self):
        box = '<aside class="sidebar"><p>Lazy connecting</p><a href="c.html">c</a></aside>'
        page = read_html(f"{box}<div role=main><p>Before.</p>{box}<div class=menu>x</div></div>")
        assert texts_of(page) == ["Before.", "Lazy connecting", "c", "x"] and links_of(page) == ["c.html"]
        assert texts_of(read_html(f"<p>Before.</p>{box}")) == ["Before."]
        assert texts_of(read_html("<html class='no-js navigation'><body class='home sidebar'><p>all")) == ["all"]

    def test_links_are_resolved_against_the_base_of_a_page(self):
        page = read_html('<base href="sub/"><a href="b.html#x">b</a> <a href="https://x.org">x</a> <a href="http://[">y</a>')
        assert links_of(page) == ["sub/b.html#x", "https://x.org", "http://["]

    def test_any_depth_is_read_to_the_end(self):
        deep = "<div>" * 5000 + "inside" + "</div>" * 5000 + "<p>after"
        assert texts_of(read_html(deep)) == ["inside", "after"]

    def test_charset(self):
        assert html_charset(b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">') == "cp1252"
        assert html_charset(b'<?xml version="1.0" encoding="koi8-r"?>') == "koi8-r"
        assert html_charset(b"<meta charset=utf-16>") == "" == html_charset(b"\xef\xbb\xbf<meta charset=latin1>")
        assert html_charset(b"<META CHARSET='utf-8'>") == "utf-8"
        assert html_charset(b"<p>charset=x</p>") == ""


def test_a_place_in_the_contents_is_listed_once():
    assert read_html("<div class=toc><a href=a>1</a><a href=a>again</a><a href=b>2</a></div>").contents == ("a", "b")


def test_an_empty_term_or_heading_leads_nothing():
    assert [(b.leads, b.level) for b in read_html("<dl><dt></dt></dl><p>x").blocks] == [(False, 0)]
    assert [(b.leads, b.level) for b in read_html("<h2> </h2><p>x").blocks] == [(False, 0)]


def test_links_without_text_at_the_end_belong_to_the_last_block():
    (block,) = read_html("<p>x</p><a href=y><img></a>").blocks
    assert block.links == ("y",)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("10<sup>25</sup> FLOPs, 10<sup>-3</sup>, 10<sup>\u22123</sup>", "10^25 FLOPs, 10^-3, 10^\u22123"),
        ("x<sup>n</sup> + (a+b)<sup>2</sup> m<sup><i>2</i></sup> x<sup>2n</sup> x<sup>n-1</sup>", "x^n + (a+b)^2 m^2 x^2n x^n-1"),
        ("1<sup>st</sup>, XX<sup>e</sup>, n<sup>o</sup> 5, Loom<sup>TM</sup>", "1st, XXe, no 5, LoomTM"),
        ("<sup>1</sup> A note", "1 A note"),
        ("H<sub>2</sub>O", "H2O"),
        ("a loom<sup><a href='#fn1'>1</a></sup>. More", "a loom. More"),
        ("a loom<sup id=r><a href='#cite_note-3'>[3]</a></sup>.", "a loom."),
        (
            "a loom<a class='footnote-reference brackets' href='#id3' role='doc-noteref'><span>[</span>1<span>]</span></a>.",
            "a loom.",
        ),
        ("Directive 5 <a id=ntc1-L href='#ntr1-L'>(<span class='oj-super'>1</span>)</a>,", "Directive 5 ,"),
        ("<a id=ntr1-L href='#ntc1-L'>(<span>1</span>)</a> OJ C 2.", "(1) OJ C 2."),
        ("code <b class=conum>(1)</b><img src='images/callouts/2.png' alt='(2)'>", "code"),
        ("x<sup>2<sup>3</sup></sup> a<sup></sup>b <sup>unclosed 5", "x2^3 ab unclosed 5"),
    ],
)
def test_superscripts_and_marks_of_notes(source, shown):
    assert [block.text for block in read_html(f"<p>{source}").blocks] == [shown]


def test_marks_of_notes_are_links_and_links_back_are_none():
    source = "<h1><a class=toc-backref href='#id1' role=doc-backlink>Looms</a></h1>"
    source += "<p id=p>A<a id=r class=footnote-ref href='#fn1'>1</a>."
    source += (
        "<aside id=fn1><a role=doc-backlink href='#r'>1</a> A <a href='b.html'>note</a>. <a class=footnote-back href='#r'>x</a>"
    )
    found = [(block.text, block.anchors, block.links) for block in read_html(source).blocks]
    assert found == [("Looms", (), ()), ("A.", ("p", "r"), ("#fn1",)), ("1 A note. x", ("fn1",), ("b.html",))]


def levels(source):
    return [(block.text, block.level) for block in read_html(source).blocks]


def test_lines_of_a_heading_are_one_heading_unless_a_unit_begins():
    assert levels("<h2>Part 1<br />Looms <i>and</i><br>cards</h2><p>Of oak.") == [("Part 1 Looms and cards", 2), ("Of oak.", 0)]
    source = "<h1>Loom Act (LA)<br><span>§&nbsp;26</span>&nbsp;<span>Cards</span></h1><p>Of paper."
    assert levels(source) == [("Loom Act (LA)", 1), ("§ 26 Cards", 2), ("Of paper.", 0)]
    assert levels("<h6>Loom Act<br>Article 2</h6>") == [("Loom Act", 6), ("Article 2", 6)]
    assert levels("<h2><br>§ 3 Mills</h2><h2>Looms<br></h2>") == [("§ 3 Mills", 2), ("Looms", 2)]


def test_a_number_beside_an_item_is_in_its_line():
    source = "<table><tr><td><p>(a)</p></td><td><p id=x><a href='b.html'>looms</a>;</p></td></tr></table>"
    source += "<dl><dt>2a.</dt><dd><div>cards</div></dd></dl><p>—</p><p>mills</p>"
    found = [(block.text, block.anchors, block.links) for block in read_html(source).blocks]
    assert found == [("(a) looms;", ("x",), ("b.html",)), ("2a. cards", (), ()), ("— mills", (), ())]
    assert levels("<p>1.</p><h2>Looms</h2><p>A.</p><p>Oak.") == [("1.", 0), ("Looms", 2), ("A.", 0), ("Oak.", 0)]


ACT = """<html><head><title>L_2030007EN.01000101.xml</title></head><body>
<p>1.5.2030</p><p>REGULATION (EU) 2030/7 OF THE COUNCIL</p><p>of 1 May 2030</p><p>on cards (Loom Cards Regulation)</p>
<p class="oj-ti-section-1">CHAPTER I</p><div><p>General provisions</p></div>
<div id="art_1"><p class="oj-ti-art">Article&nbsp;1</p><p class="oj-sti-art">Scope</p></div><p>1. It holds for cards.</p>
<div id="art_2"><p>Article 2</p></div><p>Looms under Annex I are exempt.</p><p>ANNEX I</p><p>Looms</p><p>Of oak.</p>"""


def test_lines_with_numbers_are_the_headings_of_a_page_without_others():
    page = read_html(ACT)
    assert page.title == "Loom Cards Regulation (Regulation (EU) 2030/7)" and page.is_title_stated
    headings = [(block.text, block.level, block.anchors) for block in page.blocks if block.level]
    assert headings == [
        ("CHAPTER I General provisions", 2, ("chapter-i-general-provisions",)),
        ("Article 1 Scope", 3, ("art_1", "article-1-scope")),
        ("Article 2", 3, ("art_2", "article-2")),
        ("ANNEX I Looms", 2, ("annex-i-looms",)),
    ]
    assert levels(ACT.replace("<p>Of oak.", "<h2>Oak</h2>"))[4] == ("CHAPTER I", 0), "a page with headings has them alone"
    assert read_html("<title>L_2.fmx.xml</title><h2>Cards</h2><p>Oak.").title == "Cards"
    assert read_html("<title>Hire</title><p>1. Price<p>Ten marks.<p>2. Term<p>A year.").title == "Hire"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["DIRECTIVE 2002/58/EC OF THE EUROPEAN PARLIAMENT"], "Directive 2002/58/EC"),
        (
            ["DIRECTIVE (EU) 2030/8", "on mills (Text with EEA relevance)", "(NIS 2 Directive)"],
            "NIS 2 Directive (Directive (EU) 2030/8)",
        ),
        (["COMMISSION IMPLEMENTING REGULATION (EU) No 12/2031"], "Commission Implementing Regulation (EU) No 12/2031"),
        (["VERORDNUNG (EU) 2030/7", "(Webstuhl-Grundverordnung)"], "Webstuhl-Grundverordnung (Verordnung (EU) 2030/7)"),
        (["Regulation (EU) 2030/7 holds."], ""),
        (["LOOMS", "1/2"], ""),
        (["", *["Looms."] * 30, "REGULATION (EU) 2030/7"], ""),
    ],
)
def test_names_of_acts(lines, name):
    assert act_name(lines) == name


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("See Section 4.2.", ["4. Limits", "4.2. Speed", "Appendix A. Forms"]),
        ("Subject to 4.2, it turns.", ["4. Limits", "4.2. Speed", "Appendix A. Forms"]),
        ("Forms are in Appendix A.", ["4. Limits", "4.2. Speed", "Appendix A. Forms"]),
        ("See <a href='#x'>Section 4.2</a>.", ["Limits", "Speed", "Forms"]),
        ("See Table 4.2, Section 5, and Section 4.2 of the Mill Act.", ["Limits", "Speed", "Forms"]),
    ],
)
def test_headings_keep_their_numbers_where_the_text_cites_them(text, headings):
    page = read_html(f"<h2>4. Limits</h2><h3>4.2. Speed</h3><p>{text}</p><h2>Appendix A. Forms</h2><p>None.")
    assert [block.text for block in page.blocks if block.level] == headings and page.title == headings[0]
