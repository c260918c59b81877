"""Title mentions against a literal search, and on real paragraphs."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex
from graph_retrievers.construction import TitleMentions, build_edges
from graph_retrievers.construction.spec import CorpusNodes
from graph_retrievers.datasets import read_dataset
from graph_retrievers.graph import Node


def pairs(edges):
    return [edge[:2] for edge in edges]


def literal_mentions(nodes, min_length=4):
    """The rules of TitleMentions read word for word: every name tried at every place."""
    strip = lambda title: re.sub(r"^(.+?) \([^()]*\)$", r"\1", title)  # noqa: E731
    texts_with = lambda word: sum(word in re.findall(r"\w+", node.text) for node in nodes)  # noqa: E731
    titles = list(dict.fromkeys(node.title for node in nodes))
    bases = {base: [t for t in titles if strip(t) == base] for base in map(strip, titles)}
    calendar = "January February March April May June July August September October November December".split()
    calendar += "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

    def common(name):
        return name in calendar or (re.fullmatch(r"\w+", name) and name != name.lower() and texts_with(name.lower()) >= 3)

    means = {title: title for title in titles if len(title) >= min_length and not common(title)}
    for base, named in bases.items():
        qualifier = named[0][len(base) + 2 : -1]
        if len(named) > 1 or named == [base] or len(base) < min_length or common(base):
            continue
        if qualifier in ("disambiguation", "name", "surname", "given name", "magazine"):
            continue
        if re.fullmatch(r"\w+", base) and texts_with(base) > 3:
            continue
        means[base] = named[0]
    found = []
    for node in nodes:
        own = {node.title, strip(node.title)}
        place = 0
        while place < len(node.text):
            fitting = [
                name
                for name in sorted({*means, *own}, key=len, reverse=True)
                if re.search(r"\w", name)
                and node.text.startswith(name, place)
                and not re.match(r"\w", node.text[place - 1 : place])
                and not re.match(r"\w", node.text[place + len(name) :][:1])
            ]
            if not fitting:
                place += 1
                continue
            if fitting[0] not in own:
                found.extend((node.id, other.id) for other in nodes if other.title == means[fitting[0]])
            place += len(fitting[0])
    return list(dict.fromkeys(pair for pair in found if pair[0] != pair[1]))


class TestTitleMentions:
    def test_longest_titles_at_word_boundaries(self):
        nodes = [
            Node("ny", "", "New York"),
            Node("nyc", "", "New York City"),
            Node("york", "", "York"),
            Node("t1", "He left New York City for New York, then Yorkshire.", "One"),
            Node("t2", "new york is not a title; York is.", "Two"),
        ]
        assert build_edges(nodes, TitleMentions()) == [
            ("t1", "nyc", "mentions"),
            ("t1", "ny", "mentions"),
            ("t2", "york", "mentions"),
        ]

    def test_a_text_never_matches_its_own_title_nor_inside_it(self):
        nodes = [
            Node("film", "New York Nights is a film. New York is a state.", "New York Nights (1929 film)"),
            Node("ny", "New York is New York.", "New York"),
        ]
        assert pairs(build_edges(nodes, TitleMentions())) == [("film", "ny")]

    def test_a_title_of_several_nodes_leads_to_each(self):
        nodes = [Node("p1", "", "Lyon"), Node("p2", "Lyon again", "Lyon"), Node("t", "In Lyon.", "Silk")]
        assert pairs(build_edges(nodes, TitleMentions())) == [("t", "p1"), ("t", "p2")]

    def test_everyday_words_months_and_short_titles_are_skipped(self):
        texts = ["the culture of tea", "a culture", "Culture and culture", "In March", "IBM made it", "Rome"]
        titles = ["Culture", "March", "IBM", "Rome", "A", "B"]
        nodes = [Node(str(i), text, title) for i, (text, title) in enumerate(zip(texts, titles, strict=True))]
        assert pairs(build_edges(nodes, TitleMentions())) == [("5", "3")]
        assert pairs(build_edges(nodes, TitleMentions(3))) == [("4", "2"), ("5", "3")]

    def test_qualifiers_are_dropped_where_that_is_safe(self):
        def linked(*titles, text="They saw Blue Moon there."):
            nodes = [Node(str(i), "", title) for i, title in enumerate(titles)]
            return [target for _, target in pairs(build_edges([*nodes, Node("t", text, "Text")], TitleMentions()))]

        assert linked("Blue Moon (film)") == ["0"]
        assert linked("Blue Moon (film)", "Blue Moon (song)") == []
        assert linked("Blue Moon (film)", "Blue Moon") == ["1"]
        assert linked("Blue Moon (disambiguation)") == []
        assert linked("Moonlight (film)", text="Moonlight") == ["0"]

    def test_a_one_word_rest_must_be_rare(self):
        film = Node("film", "", "Moonlight (film)")
        for count, expected in ((3, 3), (4, 0)):
            texts = [Node(str(i), "Moonlight fell.", f"Text {i}") for i in range(count)]
            assert len(build_edges([film, *texts], TitleMentions())) == expected

    def test_titles_that_begin_or_end_with_signs(self):
        nodes = [
            Node("q", "", '"Heroes"'),
            Node("y", "", "Yahoo!"),
            Node("d", "", "...!"),
            Node("t", 'He sang "Heroes" at Yahoo! in 1999 ...!', "T"),
        ]
        assert pairs(build_edges(nodes, TitleMentions())) == [("t", "q"), ("t", "y")]

    @settings(max_examples=150)
    @given(
        st.lists(
            st.tuples(
                st.lists(
                    st.sampled_from(["Blue", "Moon", "moon", "Moons", "May", "(film)", "(name)", "(song)", "The"]),
                    min_size=1,
                    max_size=3,
                ),
                st.lists(
                    st.sampled_from(
                        ["Blue", "blue", "Moon", "moon", "Moons", "May", "(film)", "The", ",", "Blue Moon", "Bluemoon"]
                    ),
                    max_size=9,
                ),
            ),
            min_size=1,
            max_size=7,
        )
    )
    def test_small_corpora_against_a_literal_search(self, drawn):
        nodes = [Node(str(i), " ".join(text), " ".join(title)) for i, (title, text) in enumerate(drawn)]
        assert pairs(build_edges(nodes, TitleMentions())) == literal_mentions(nodes)

    @pytest.mark.slow
    def test_real_paragraphs_get_the_edges_they_came_with(self, shared_folder):
        dataset = read_dataset(shared_folder / "data" / "wiki-multihop")
        given_edges = {(edge.source, edge.target, edge.relation) for edge in dataset.edges if edge.relation == "mentions"}
        found = set(build_edges(dataset.nodes, TitleMentions()))
        assert given_edges <= found
        # The data set leaves out one more title by hand, the first name and adjective "Christian".
        titles = {node.id: node.title for node in dataset.nodes}
        assert {titles[target] for _, target, _ in found - given_edges} == {"Christian"}

    def test_titles_about_a_word_keep_their_qualifiers(self):
        for qualifier, found in [
            ("film", 1),
            *((word, 0) for word in "disambiguation|name|surname|given name|magazine".split("|")),
        ]:
            nodes = [Node("a", "They saw Blue Moon there.", "Text"), Node("b", "", f"Blue Moon ({qualifier})")]
            assert len(build_edges(nodes, TitleMentions())) == found

    def test_neighbouring_signs_and_letters(self):
        nodes = [
            Node("a", "(Blue Moon) Blue Moons aBlue Moon _Blue Moon Blue Moon2 C++Blue Moon", "Text"),
            Node("b", "", "Blue Moon"),
        ]
        assert [*TitleMentions().find(CorpusNodes(nodes)).edges] == [("a", "b", "mentions")] * 2

    @pytest.mark.parametrize(
        ("titles", "text", "found"),
        [
            # The longest title at a word, the signs before it included; of two, the one with fewer of them.
            (
                ["Loom", "!Loom", "!!Loom", "Loom?"],
                "Loom, !Loom, !!!Loom, !Loom? Loom??",
                ["Loom", "!Loom", "!!Loom", "Loom?", "Loom?"],
            ),
            (["!Loom", "!Loom Card", "!!Loom"], "!!Loom Card !Loom Cards", ["!Loom Card", "!Loom"]),
            # Titles that are in the order of letters between a text and the one that it contains.
            (
                ["Loom", "Loom !", "Loom ! ?", "Loom ! A"],
                "Loom ! B, Loom ! ? Loom ! Ab Loom !",
                ["Loom !", "Loom ! ?", "Loom !", "Loom !"],
            ),
            (["Loom", "Loom A", "Loom Ab", "Loom Abc"], "Loom Abcd Loom Abb Loom Ab", ["Loom", "Loom", "Loom Ab"]),
            # A match ends before the next begins, and none touches a letter.
            (["Loom!", "!Card", "!Loom"], "Loom!Card x!Loom", []),
            (["Loom!", "!Card", "!Loom"], "Loom!!Card x!!Loom", ["Loom!", "!Card", "!Loom"]),
        ],
    )
    def test_titles_that_begin_or_end_alike(self, titles, text, found):
        nodes = [Node("text", text, "Text"), *(Node(title, "", title) for title in titles)]
        assert [target for _, target, _ in TitleMentions().find(CorpusNodes(nodes)).edges] == found


def test_a_name_inside_the_own_title_that_gives_no_edges_is_not_a_mention():
    nodes = [
        Node("film", "Looms of Ada Lovelace was shown.", "Looms of Ada Lovelace (film)"),
        Node("book", "", "Looms of Ada Lovelace (book)"),
        Node("ada", "", "Ada Lovelace"),
    ]
    assert build_edges(nodes, TitleMentions()) == []


@pytest.mark.parametrize(
    ("text", "title", "found"),
    [
        ("电影由李娜执导。", "李娜", True),
        ("用Python语言写", "Python", True),
        ("用Python语言写", "语言", True),
        ("日本のドラマです", "ドラマ", False),
        ("日本のテレビドラマです", "テレビドラマ", True),
        ("이순신이 싸웠다", "이순신", True),
        ("서울에서는 비가", "서울", True),
        ("왕과 이순신 장군은", "이순신 장군", True),
        ("서울대학교에 갔다", "서울", False),
        ("남서울은 넓다", "서울", False),
        ("ภาษาไทยเป็นภาษา", "ภาษาไทย", True),
        ("किताब मेज़ पर है", "किताब", True),
        ("किताबघर है", "किताब", False),
        ("Un Cafe\u0301 Noir", "Caf\u00e9 Noir", True),
        ("Un Cafe\u0301 ici", "Cafe", False),
    ],
)
def test_titles_in_any_script(text, title, found):
    nodes = [Node("t", text, "Text"), Node("x", "", title)]
    assert pairs(build_edges(nodes, TitleMentions())) == ([("t", "x")] if found else [])
    assert pairs(build_edges([*nodes, Node("o", "", "Other Words")], TitleMentions(99))) == []


def test_the_longest_title_without_spaces_is_taken():
    nodes = [Node("a", "", "北京"), Node("b", "", "北京大学"), Node("t", "他在北京大学，后来在北京工作。", "Text")]
    assert pairs(build_edges(nodes, TitleMentions())) == [("t", "b"), ("t", "a")]
    assert pairs(build_edges(nodes, TitleMentions(5))) == [("t", "b")]


def test_a_source_that_was_asked_is_not_advised(caplog):
    index = GraphIndex.from_texts(["A loom.", "A card."], titles=["Looms", "Cards"], edges=[TitleMentions()])
    (record,) = caplog.records
    assert "TitleMentions found none" in record.getMessage() and "TitleMentions()" not in record.getMessage()
    assert "Links()" in record.getMessage() and "TitleMentions()" not in str(index.describe())
    many = [Node(str(n), "Looms." if n == 0 else "x", "Looms" if n == 1 else "") for n in range(30)]
    advice = GraphIndex.from_documents(many, edges=[TitleMentions(), ("0", "2", "cites")]).describe().advice
    assert "no edge" in advice[0] and "TitleMentions()" not in advice[0] and "Links()" in advice[0]
