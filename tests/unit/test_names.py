"""Names of nodes: how texts are cut into words and tokens, which names a text holds, and what counts as a name."""

import random

import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.construction import TitleMentions, build_edges
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.labels import is_random, label
from graph_retrievers.graph.names import NameTable, name_runs, name_table, name_words, nodes_titled
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.systems.traits import names_identify


def chunk(identity, title, source="", text=""):
    return Node(identity, text, title, metadata={"source": source} if source else {})


def test_the_name_of_a_page_stands_for_its_first_chunk():
    nodes = [
        *(chunk(f"a{n}", "Looms", "a.md") for n in range(85)),
        chunk("b", "Looms", "b.md"),
        chunk("c", "Looms"),
        chunk("d", "Looms"),
    ]
    table = name_table(CorpusGraph.from_nodes(nodes))
    assert table.rows("Looms") == [0, 85, 86, 87], "one for each page, and every node without one"
    assert table.find("What do Looms do?") == [("Looms", [0, 85, 86, 87])]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t", 0),
        ("a" * 7, 1),
        ("a" * 8, 2),
        ("é" * 14, 2),
        ("123", 1),
        ("1234", 2),
        ("a1b", 3),
        ("pg_ctl", 3),
        ("don't!", 4),
        ("机器学", 3),
        ("한국어", 3),
        ("ひカ", 2),
        ("ㄅㄆㄇㄱ", 4),
        ("㐀\uf900", 2),
    ],
)
def test_tokens(text, tokens):
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada  Lovelace's\u2014x", ["Ada", "Lovelace", "'", "s", "\u2014", "x"]),
        ("\u2018a\u2019 \u201cb\u201d", ["'", "a", "'", '"', "b", '"']),
        ("a\u2010b\u2011c\u2013d-e", ["a", "-", "b", "-", "c", "-", "d", "-", "e"]),
        ("机器ab한국ひカ\uf900㐀c", ["机", "器", "ab한국", "ひ", "カ", "豈", "㐀", "c"]),
        ("Cafe\u0301 C++ _x1", ["Caf\u00e9", "C", "+", "+", "_x1"]),
        ("किताब, ไทยกู", ["किताब", ",", "ไ", "ท", "ย", "กู"]),
        (" ", []),
    ],
)
def test_words_of_names(text, words):
    assert name_words(text) == words
    assert name_words(text, fold=True) == [word.casefold() for word in words]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("谁是李娜？", ["李 娜"]),
        ("이순신이 서울에서는 이순신 장군은 싸웠다", ["이순신", "서울", "이순신 장군"]),
        ("서울대학교", []),
        ("किताब है", ["किताब"]),
        ("कि", []),
        ("ภาษาไทยเป็น", ["ไ ท ย"]),
    ],
)
def test_names_in_any_script(text, found):
    table = NameTable(["李娜", "이순신", "이순신 장군", "서울", "किताब", "क", "ไทย"], fold=True)
    assert [name for name, _ in table.find(text)] == found


NAMES = ["New York", "New York City", "York", "", "york", "New York"]


@pytest.mark.parametrize(
    ("fold", "text", "found"),
    [
        (
            False,
            "New York City, New  York; York York",
            [("New York City", [1]), ("New York", [0, 5]), ("York", [2]), ("York", [2])],
        ),
        (False, "new york and york", [("york", [4]), ("york", [4])]),
        (False, "York and york", [("York", [2])]),
        (False, "New Yorkers of Old-York", [("York", [2])]),
        (False, "New", []),
        (False, "City of New", []),
        (True, "NEW YORK and yOrK", [("NEW YORK", [0, 5]), ("yOrK", [2, 4])]),
        (True, "york", [("york", [4])]),
        (True, "York", [("York", [2])]),
        (True, "new york city", [("new york city", [1])]),
    ],
)
def test_names_in_texts(fold, text, found):
    assert NameTable(NAMES, fold=fold).find(text) == found


@pytest.mark.parametrize(
    ("names", "capitals", "found"),
    [
        (["Loom", "Card", "actors"], True, ["Loom"]),
        (["Loom", "actors"], False, ["actors", "Loom"]),
        (["Loom", "actors", "", ""], True, ["Loom"]),
        (["loom", "actors", "1"], False, ["actors"]),
    ],
)
def test_lower_case_words_are_names_where_names_are_so_written(names, capitals, found):
    table = NameTable(names)
    assert table.capitals is capitals and [name for name, _ in table.find("actors of Loom")] == found


def test_rows_of_names_and_titles():
    table = NameTable(NAMES, fold=True)
    assert [table.rows(name) for name in ("york", "York", "YORK", "new  york", "none", "")] == [[4], [2], [2, 4], [0, 5], [], []]
    nodes = [Node("a", "", " Loom "), Node("b", "", "LOOM"), Node("loom", ""), Node("c", "", "  ")]
    graph = CorpusGraph.from_nodes(nodes)
    assert [nodes_titled(graph, title) for title in ("loom\n", "card", "", " ")] == [[0, 1], [], [], []]
    assert name_table(graph).rows("loom") == [2], "the id is the name of a node without a title"
    page = [Node(str(n), "", title, metadata={"source": "a.md"}) for n, title in enumerate(["", "", "Loom", "Loom"])]
    table = name_table(CorpusGraph.from_nodes(page))
    assert [table.rows(name) for name in ("0", "1", "Loom")] == [[0], [1], [2]]
    assert name_table(graph) is name_table(graph) and name_table(graph, True).rows("LOOM") == [1]


RANDOM = "0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57"


@pytest.mark.parametrize(
    ("node", "random"),
    [
        (RANDOM, True),
        (RANDOM.upper(), True),
        (RANDOM.replace("-", ""), True),
        (f"{RANDOM}-1", True),
        (f"{RANDOM}_page", True),
        (f"{RANDOM}a", False),
        (f"{RANDOM}0", False),
        (f"{RANDOM}z", False),
        (f"a-{RANDOM}", False),
        (RANDOM[:-1], False),
        ("loom", False),
    ],
)
def test_ids_that_say_nothing(node, random):
    assert is_random(node) is random


def test_a_blank_title_is_no_label():
    assert label(RANDOM, "  ", "text") == "text" and label("a", " \n", "text") == "a"
    assert label(RANDOM, " Looms ", "text") == " Looms " and label(RANDOM, "", " \n# ") == RANDOM


@pytest.mark.parametrize(("count", "share", "identify"), [(40, 10, True), (44, 11, False), (4008, 12, True), (4004, 13, False)])
def test_a_word_in_ten_texts_or_three_in_a_thousand_identifies(count, share, identify):
    titles = [f"Tables of thing{n // share}" for n in range(count)]
    assert names_identify(GraphIndex.from_texts(["text"] * count, titles=titles)) is identify


SPELLED = ["Ada Holm", "ada", "The Tin Loom", "AT&T", "서울 타워", "서울", "李娜", "Straße 5", "İzmir", "Dr. Vale", "Loom"]


@pytest.mark.parametrize("fold", [True, False])
def test_the_runs_of_words_of_a_text_hold_every_name_that_a_table_finds(fold):
    said = ["met", "loom", "ADA holm", "STRASSE 5", "서울에서는", "서울 타워에서", "of 李娜执导", "ada"]
    table, draw = NameTable(SPELLED, fold=fold), random.Random(0)
    for _ in range(300):
        text = " ".join(draw.choices([*SPELLED, *said], k=draw.randint(1, 6)))
        runs = name_runs(text, table.longest)
        keys = [" ".join(name_words(name, fold=True)) for name in SPELLED]
        # A table of the names that an engine finds by these keys finds the same.
        held = [row for row, key in enumerate(keys) if key in runs]
        part = NameTable([SPELLED[row] for row in held], fold=fold)
        part.capitals = table.capitals
        assert [(name, [held[place] for place in places]) for name, places in part.find(text)] == table.find(text)
    assert table.longest == 3 and all(run.count(" ") < table.longest for run in runs)


# A text of each language, and names with sentences that have them in another form.
INFLECTED = {
    "Das ist ein Text und nicht mehr als das, was in der Stadt für die Leute ist.": [
        ("Berlin", "Die Geschichte Berlins ist lang."),
        ("Arbeitgeber", "Pflichten des Arbeitgebers sind im Gesetz."),
        ("Kündigung", "Alle Kündigungen sind schriftlich."),
        ("Karl Schmidt", "Das Werk Karl Schmidts ist groß."),
        ("Webstuhl", "Teile des Webstuhls sind aus Holz."),
        ("Maschine", "Die Maschinen sind laut."),
    ],
    "Это был город на реке, и он стоит там для всех, кто его видел.": [
        ("Москва", "Он родился в Москве."),
        ("Красная площадь", "Парад был на Красной площади."),
        ("Пушкин", "Стихи Пушкина знают все."),
        ("Волга", "Город стоит на Волге."),
        ("Новгород", "Он жил под Новгородом."),
        ("Библиотека", "В Библиотеке много книг."),
    ],
    "Se on vanha kaupunki, ja hän oli siellä, mutta ei kun se paloi.": [
        ("Tampere", "Hän asui Tampereella."),
        ("Espoo", "Tehdas on Espoossa."),
        # Not found: the stemmer does not know the change of k to g, of k to nothing, and of i to e.
        ("Helsinki", "Hän syntyi Helsingissä."),
        ("Turku", "Kirkko on Turussa."),
        ("Kangas", "Kone kutoo Kankaan."),
        ("Suomi", "Hän tuli Suomesta."),
    ],
    "그는 책을 읽고 있다.": [
        ("서울", "그는 서울에서 태어났다."),
        ("이순신", "이순신은 장군이다."),
        ("부산", "부산까지 간다."),
        ("세종대왕", "한글은 세종대왕이 만들었다."),
    ],
    "Bu şehir çok eski ve büyük bir şehir olarak bilinir, ne var ki her yer gibi.": [
        ("Ankara", "O Ankara'da doğdu."),
        ("İstanbul", "Köprü İstanbul'un üzerinde."),
        ("İzmir", "Tren İzmir'den geldi."),
        # Not found: the stemmer takes an e from the name alone.
        ("Kütüphane", "Bu Kütüphaneler çok eski."),
    ],
    "It was in the city that it is and it has not been there.": [
        ("Ada Holm", "Ada Holm's loom is old."),
        ("Kismet", "Kismet\u2019s star was Ada."),
        ("Lund", "The road from Lund-based firms."),
    ],
    "To jest stare miasto i nie ma się czego bać, ale był to po prostu dom.": [("Kowalski", "Dom Kowalskiego jest duży.")],
}


def test_names_are_found_in_other_forms():
    mentioned, asked = 0, 0
    for prose, cases in INFLECTED.items():
        nodes = [*(Node(f"prose {n}", prose) for n in range(3)), *(Node(name, "", name) for name, _ in cases)]
        nodes += [Node(f"text {place}", text) for place, (_, text) in enumerate(cases)]
        edges = {edge[:2] for edge in build_edges(nodes, TitleMentions())}
        assert edges <= {(f"text {place}", name) for place, (name, _) in enumerate(cases)}, "nothing else is joined"
        mentioned += len(edges)
        table = name_table(CorpusGraph.from_nodes(nodes), fold=True)
        found = [([rows for _, rows in table.find(text)], [3 + place]) for place, (_, text) in enumerate(cases)]
        assert all(rows in ([], [wanted]) for rows, wanted in found)
        asked += sum(rows == [wanted] for rows, wanted in found)
    assert (mentioned, asked, sum(map(len, INFLECTED.values()))) == (25, 25, 30)


@pytest.mark.parametrize(
    ("names", "text", "found"),
    [
        # As it is, before another form; of the longest.
        (["Peter", "Peters"], "Sie las Peters Buch.", ["Peters"]),
        (["Bank", "Banken", "Bank Berlin"], "Sie ging zur Bank Berlins.", ["Bank"]),
        # Short stems, forms of two names, and other capitals.
        (["Rom", "Ulm"], "Roms Mauern und Ulms Türme.", []),
        (["Kanal", "Kanals"], "Die Kanale sind alt.", []),
        (["Berlin"], "Er mag berlins nicht.", []),
    ],
)
def test_other_forms_of_names_are_not_guessed(names, text, found):
    assert [name for name, _ in NameTable(names, language="de").find(text)] == found


def test_english_names_have_one_form():
    graph = CorpusGraph(["a", "b"], ["It is the city of a loom.", "The Windows are not in it."], titles=["Window", ""])
    assert name_table(graph).find("The Windows of it") == [] and name_table(graph).find("the Window") == [("Window", [0])]
