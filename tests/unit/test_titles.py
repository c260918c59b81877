"""Titles of plain notes: their first line, or the name of the file; and the edges between notes that cite each other by them."""

import pytest

from graph_retrievers.construction import TitleMentions, build_edges, read_folder
from graph_retrievers.construction.pages import Block
from graph_retrievers.construction.plain_text import read_text
from graph_retrievers.graph import Node

LONG = "It weaves patterns of any kind from cards that are punched, one card for each row of the cloth."


def write(folder, **notes):
    for name, text in notes.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def linked(nodes):
    return [edge[:2] for edge in build_edges(nodes, TitleMentions())]


def test_notes_that_cite_each_other_by_their_first_line(tmp_path):
    write(
        tmp_path,
        n1=f"Jacquard loom\n\n{LONG} See Analytical Engine.",
        n2=f"Analytical Engine\n=================\nIt took its cards from the Jacquard loom.\n\n{LONG} And more.",
        n3=f"Ada Lovelace\n{LONG} She wrote on the Analytical Engine.",
    )
    nodes = read_folder(tmp_path)
    assert [(node.id, node.title) for node in nodes] == [
        ("n1.txt", "Jacquard loom"),
        ("n2.txt", "Analytical Engine"),
        ("n3.txt", "Ada Lovelace"),
    ]
    assert nodes[1].text.startswith("It took its cards") and nodes[1].metadata["headings"] == ["Analytical Engine"]
    assert linked(nodes) == [("n1.txt", "n2.txt"), ("n2.txt", "n1.txt"), ("n3.txt", "n2.txt")]
    whole = read_folder(tmp_path, max_tokens=None)
    assert [(node.title, node.text) for node in whole] == [(node.title, node.text) for node in nodes]


@pytest.mark.parametrize(
    ("text", "title", "rest"),
    [
        ("Looms\n\nThey weave.", "Looms", ["They weave."]),
        ("  \n\nLooms  \n\nThey weave.", "Looms", ["They weave."]),
        ("Looms\n-----\nThey weave.", "Looms", ["They weave."]),
        ("Looms\n-----", "Looms", []),
        ("Looms of  Lyon\nThey weave all day.", "Looms of  Lyon", ["They weave all day."]),
        ("What is a loom?\nA machine that weaves.", "What is a loom?", ["A machine that weaves."]),
        ("\u201cHeroes\u201d\n\nA song.", "\u201cHeroes\u201d", ["A song."]),
        ("1801: a loom\n\nIt reads cards.", "1801: a loom", ["It reads cards."]),
        ("Shopping list\n- milk\n- eggs", "Shopping list", ["- milk\n- eggs"]),
        ("Shopping list\n1. milk", "Shopping list", ["1. milk"]),
        ("Looms and mills\n    They weave.", "Looms and mills", ["    They weave."]),
        ("\u7e54\u6a5f\n\n\u7e54\u308b\u3002", "\u7e54\u6a5f", ["\u7e54\u308b\u3002"]),
        ("Title: Looms\n\nThey weave.", "Title: Looms", ["They weave."]),
        ("w" * 100 + "\n\nmore", "w" * 100, ["more"]),
        # The next word and the space before it had just room.
        ("Ada Lovelace\nLyon was my town.", "Ada Lovelace", ["Lyon was my town."]),
    ],
)
def test_a_first_line_that_is_a_title(text, title, rest):
    page = read_text(text)
    assert page.title == " ".join(title.split())
    assert page.blocks[0] == Block(page.title, 1, leads=True)
    assert [block.text for block in page.blocks[1:]] == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        # The only line; a sentence; a clause; a list; what is set in.
        "Jacquard loom",
        "They weave.\n\nMore.",
        "They weave,\n\nand more",
        "Looms:\n\nmore",
        "They weave;\n\nmore",
        "\u7e54\u308b\u3002\n\n\u7e54\u6a5f",
        "- Looms\n\nmore",
        "* Looms\n\nmore",
        "1. Looms\n\nmore",
        "   Looms\n\nmore",
        "# Looms\n\nmore",
        "https://h/looms\n\nmore",
        "see https://h/looms\n\nmore",
        "2024-05-01\n\nmore",
        "w" * 101 + "\n\nmore",
        # A paragraph that was wrapped: the next word had no room, or goes on.
        "The Jacquard loom was invented by Joseph\nMarie Jacquard in Lyon, where looms are.",
        "The loom of\nlyon, which is a city in the south of France.",
        "Ada Lovelace\nCharles Babbage",
        "Ada Lovelace\nLyon was my town",
        # The head of a letter.
        "From: Ada\nSubject: the engine of brass\n\nDear Mr. Babbage,",
    ],
)
def test_a_first_line_that_is_not_a_title(text):
    page = read_text(text)
    assert page.title == "" and not any(block.level for block in page.blocks)


def test_notes_without_a_title_are_called_by_their_files_and_the_log_says_so(tmp_path, caplog):
    write(
        tmp_path,
        **{"punched-card": "They drive it.", "power_loom": "A Punched Card; each punched card, a row.", "Mill": "A mill."},
    )
    (tmp_path / "loom.md").write_text("# loom\nPunched cards. Power loom. power-loom")
    with caplog.at_level("INFO"):
        nodes = read_folder(tmp_path)
    assert [node.title for node in nodes] == ["Mill", "loom", "power loom", "punched card"]
    assert caplog.messages == ["Pages without a title: 3 of 4; they are called by the names of their files, such as 'Mill'."]
    assert linked(nodes) == [("loom.md", "power_loom.txt"), ("power_loom.txt", "punched-card.txt")]


def test_names_of_files_are_found_however_they_are_written():
    texts = ["punched card", "Punched card", "Punched Card", "punched-card", "Punched-Card", "punched_card"]
    others = ["PUNCHED CARD", "punchedcard", "unpunched card", "punched cards", "pUnched card"]
    nodes = [Node(text, f"A {text}.", "T") for text in (*texts, *others)]
    files = [Node("f", "A Punched card, a punched-card.", "punched card", metadata={"path": "n/punched_card.txt"})]
    assert linked([*nodes, *files]) == [(text, "f") for text in texts]
    titled = [Node("f", "", "punched card", metadata={"path": "n/other.txt"})]
    assert linked([*nodes, *titled]) == [("punched card", "f")], "a title is found as it is"
    mixed = [Node("f", "", "punched Card", metadata={"path": "n/punched_Card.txt"})]
    assert linked([*nodes, *mixed]) == [(text, "f") for text in texts[:5]]


def test_a_title_comes_before_the_name_of_a_file():
    file = Node("f", "", "looms", metadata={"path": "looms.txt"})
    nodes = [Node("a", "Looms", "A"), Node("b", "looms", "B"), Node("t", "", "Looms"), file]
    assert linked(nodes) == [("a", "t"), ("b", "f")]


def test_a_capital_that_is_only_the_beginning_of_a_sentence_is_not_the_name_of_a_file():
    texts = [Node(f"t{n}", "the looms here", f"T{n}") for n in range(21)]
    file = Node("f", "", "looms", metadata={"path": "looms.txt"})
    assert linked([*texts, Node("a", "Looms weave", "A"), file]) == []
    assert linked([Node("a", "Looms weave", "A"), file]) == [("a", "f")]


@pytest.mark.parametrize(
    ("holding", "mentions"), [(20, {"tables", "Postgres"}), (21, {"Postgres"}), (210, {"Postgres"}), (211, set())]
)
def test_how_often_a_title_may_be_mentioned(holding, mentions):
    # Of 2,100 texts, 1 % are 21; a title without a capital may be in 21 of them at most, one with a capital in 210.
    texts = [Node(f"t{n}", "the tables of Postgres" if n < holding else "other") for n in range(2098)]
    nodes = [Node("tables", "", "tables"), Node("Postgres", "", "Postgres"), *texts]
    assert {target for _, target, _ in build_edges(nodes, TitleMentions())} == mentions | ({"tables"} if holding == 21 else set())


def chunk(identity, title, source="", text=""):
    return Node(identity, text, title, metadata={"source": source} if source else {})


def test_a_mention_leads_to_the_first_chunk_of_a_page_and_not_from_the_page_to_itself():
    nodes = [
        chunk("a1", "Power Looms", "a.md", "Power Looms weave."),
        chunk("a2", "Power Looms", "a.md", "More on Power Looms."),
        chunk("a3", "Power Looms: Notes", "a.md", "Notes on Power Looms."),
        chunk("b", "Engine", "b.md", "It drives Power Looms."),
    ]
    assert build_edges(nodes, TitleMentions()) == [("b", "a1", "mentions")]


def test_titles_that_are_ordinary_words_give_no_mentions(caplog):
    texts = [Node(f"t{n}", "all of our tables are PostgreSQL tables") for n in range(41)]
    nodes = [Node("tables", "", "tables"), Node("pg", "", "PostgreSQL"), Node("x", "see PostgreSQL and tables", "Other"), *texts]
    with caplog.at_level("INFO"):
        assert build_edges(nodes, TitleMentions()) == []
    assert "skipped 2 titles that are ordinary words of these texts, such as 'PostgreSQL'" in caplog.text
    # Twenty texts hold each title.
    assert len(build_edges(nodes[:22], TitleMentions())) == 2 * 20
