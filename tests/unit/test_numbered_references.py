"""Edges to what texts cite by number: what carries a number, which document is meant, and which chunks an edge leads to."""

import random
import re
from dataclasses import replace

import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.construction import NumberedReferences, build_edges, read_folder
from graph_retrievers.construction.numbered import DocumentNames, Numbered, short_names
from graph_retrievers.construction.numbered_references import LookUp, ReferenceCounts
from graph_retrievers.construction.spec import CorpusNodes
from graph_retrievers.graph import Node
from tests.pages import read

TITLE = "Loom Regulation (Regulation (EU) 2020/11)"


def chunks(path, title, *parts):
    """Return the chunks of a page, each from (headings below the title, text)."""
    return [
        Node(f"{path}{number}", text, metadata={"path": f"{path}.md", "chunk_index": number, "headings": [title, *headings]})
        for number, (headings, text) in enumerate(parts)
    ]


def edges(nodes):
    found = build_edges(nodes, NumberedReferences())
    assert {relation for *_, relation in found} <= {"refers"}
    return [edge[:2] for edge in found]


def targets(text, *nodes, headings=("Article 9 – Citing",), path="l", title=TITLE):
    """Return the chunks to which a text leads that is the last chunk of a page."""
    before = [node for node in nodes if node.metadata["path"] == f"{path}.md"]
    metadata = {"path": f"{path}.md", "chunk_index": len(before), "headings": [title, *headings]}
    citing = Node("citing", text, metadata=metadata)
    return [target for source, target in edges([*nodes, citing]) if source == "citing"]


LOOMS = chunks(
    "l",
    TITLE,
    (["CHAPTER I – General", "Article 1 – Scope"], "1. Looms.\n2. Cards:\n(a) of paper;"),
    (["CHAPTER I – General", "Article 1 – Scope"], "(b) of brass.\n3. Mills."),
    (["CHAPTER II – Duties", "SECTION 1 – Makers", "Article 2 – Makers"], "1. Makers weave.\n2. They mend."),
    (["CHAPTER II – Duties", "SECTION 1 – Makers", "Article 3 – Owners"], "Owners mend."),
    (["CHAPTER III – Ends", "SECTION 1 – Courts", "Article 4 – Courts"], "(1) Courts.\n(2) Fines."),
    (["ANNEX I – Lists"], "1. Wool\n2. Silk\n2.1. Red silk\n2.2. Blue silk"),
    (["ANNEX I – Lists"], "3. Linen\nTable 1: Prices\nTable 2 – Sizes"),
    (["ANNEX II – Forms", "Section A – For makers"], "1. Name"),
    (["ANNEX II – Forms", "Section B – For owners"], "1. Name\n4. Address"),
)
MILLS = chunks(
    "m",
    "Mill Data Protection Act",
    (["Article 1 – Aim"], "1. Mills."),
    (["Article 2 – Words"], "1. Words.\n2. More words."),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See Article 3.", ["l3"]),
        ("See Article 1.", ["l0", "l1"]),
        ("See Article 1(1).", ["l0"]),
        ("See Article 1(2), point (b).", ["l1"]),
        ("See point (a) of Article 1(2).", ["l0"]),
        ("See paragraph 3 of Article 1.", ["l1"]),
        # The parts of a unit that are not numbered are not lost.
        ("See Article 3(7).", ["l3"]),
        ("See Article 1(2), second subparagraph, point (b).", ["l1"]),
        ("See Articles 2 to 4.", ["l2", "l3", "l4"]),
        ("See Articles 2 and 4(2).", ["l2", "l4"]),
        ("See Article 4 (1).", ["l4"]),
        ("See Annex I, point 2.", ["l5"]),
        ("See points 2.2 and 3 of Annex I.", ["l5", "l6"]),
        ("See Section B of Annex II.", ["l8"]),
        ("See Annex II, Section B, point 4.", ["l8"]),
        ("See Table 2.", ["l6"]),
        ("See Chapter I.", ["l0", "l1"]),
        ("See Section 1 of Chapter III.", ["l4"]),
        ("See Article 8, Annex V and Table 7.", []),
        # In another document.
        ("See Article 2(2) of the Mill Data Protection Act.", ["m1"]),
        ("See Article 1 MDPA.", ["m0"]),
        ("See Article 1 and Article 2 of the Mill Data Protection Act.", ["m0", "m1"]),
        ("See Article 2 of Regulation (EU) 2020/11.", ["l2"]),
        ("See Article 2 of this Regulation.", ["l2"]),
        ("See Article 2 of Regulation (EU) 2020/12.", []),
        ("See Article 2 of the Charter.", []),
        # A table of what corresponds to what.
        ("Regulation (EU) 2020/12 | This Regulation\nArticle 2 | Article 3", ["l3"]),
        # The text of another document, and what is said of it.
        ("Directive 2002/58/EC is amended as follows:\n(1) in Article 2, after Article 3", []),
        ("In Article 2 of Directive 2002/58/EC, the following is added:\n\u2018see Article 3\u2019", []),
    ],
)
def test_what_a_reference_leads_to(text, found):
    assert targets(text, *LOOMS, *MILLS) == found


def test_relative_references_mean_what_is_around_them():
    nodes = chunks(
        "l",
        TITLE,
        (["Article 1 – Scope"], "1. Looms.\n(a) wood;\n(b) as in point (a);"),
        (["Article 1 – Scope"], "2. As in paragraph 1, and points (a) and (b) of paragraph 1.\n(a) brass"),
        (["Article 1 – Scope"], "3. As in point (a).\n4. As in paragraph 4 of this Article."),
        (["Article 2 – Cards"], "1. Cards, as in paragraph 3."),
        (["Article 3 – Mills"], "1. Mills."),
    )
    # Article 2 has no paragraph 3; point (a) of paragraph 3 is neither of the others, so that none is meant.
    assert edges(nodes) == [("l1", "l0")]


def test_the_unit_in_the_same_chapter_comes_first():
    parts = ((["CHAPTER I"], "a"), (["CHAPTER I", "SECTION 1"], "b"), (["CHAPTER II", "SECTION 1"], "c"))
    nodes = chunks("l", TITLE, *parts)
    assert targets("See Section 1.", *nodes, headings=("CHAPTER II", "SECTION 2")) == ["l2"]
    assert targets("See Chapter I, Section 1.", *nodes, headings=("CHAPTER II", "SECTION 2")) == ["l1"]


def test_more_than_five_chunks_and_several_units_are_one_by_the_words_of_the_sentence():
    words = "wool silk linen cotton jute hemp".split()
    nodes = chunks("l", TITLE, *((["Article 1 – Cloth"], f"{n}. About {word}.") for n, word in enumerate(words, 1)))
    nodes += chunks("m", "Mills", *(([f"Article {n}"], word) for n, word in enumerate(words, 1)))
    assert targets("Of cotton speaks Article 1.", *nodes) == ["l3"]
    assert targets("Article 1 speaks.", *nodes) == ["l0"], "the first one without a word in common"
    five = [node for node in nodes if node.id != "l5"]
    assert targets("Of cotton speaks Article 1.", *five) == ["l0", "l1", "l2", "l3", "l4"]
    twice = chunks("l", TITLE, (["Part 1"], "a"), (["Article 1"], "Of wool."), (["Part 2"], "b"), (["Article 1"], "Of hemp."))
    assert targets("Of hemp speaks Article 1.", *twice) == ["l3"]


def test_headings_cite_too_and_are_no_references_to_themselves():
    nodes = chunks(
        "l",
        TITLE,
        (["Article 1 – Scope"], "Article 1 – Scope\n1. Looms."),
        (["Article 2 – What Annex I lists"], "1. Cards."),
        (["ANNEX I – Lists (Article 1(1))"], "1. Wool"),
    )
    assert edges(nodes) == [("l1", "l2"), ("l2", "l0")]


@pytest.mark.parametrize(
    "texts",
    [
        ["Article 1\n(1) Looms.", "Article 2\nAs in Article 1.", "Article 3\n(1) Cards."],
        ["# Article 1 Looms\nThey weave.", "# Article 2 Cards\nAs in Article 1.", "# Article 3 Mills\nMore."],
        ["ARTICLE 1. Looms\nThey weave.", "Article 2 – Cards\nAs in art. 1.", "Article 3: Mills\nMore."],
        ["§ 1 Looms\nThey weave.", "§ 2 Cards\nAs in § 1.", "§ 3\nMore."],
        ["# 1.1 Looms\nThey weave.", "# 1.2. Cards\nAs in section 1.1.", "# 1.3 Mills\nMore."],
        ["제1조(목적)\n이 법은", "제2조(정의)\n제1조에 따라", "제3조(적용)\n이 법은"],
    ],
)
def test_headings_are_read_in_texts_of_any_splitter(texts):
    nodes = [Node(str(n), text, metadata={"source": "a", "chunk": n}) for n, text in enumerate(texts, 1)]
    assert edges(nodes) == [("2", "1")]
    alone = [Node(str(n), text) for n, text in enumerate(texts, 1)]
    assert edges(alone) == [("2", "1")], "nodes without an address are one document"
    titled = [Node(node.id, node.text.partition("\n")[2], node.text.partition("\n")[0].strip("# ")) for node in alone]
    # A title that is a bare number, such as "1.1 Looms", may be the name of a work.
    assert edges(titled) == ([] if titled[0].title[0] == "1" else [("2", "1")]), "titles are headings"


def test_lines_that_only_begin_like_headings_carry_no_number():
    texts = [
        "Article 1\nLooms.",
        "Article 2\nArticle 1 of the rules is long.\nArticle 1(1)\nArticle 1;",
        "Article 3\nArticle 1 ..... 12\nArticle 4 Looms are of wood.\nArticle 4 Looms,",
        "제1조 및 제2조에 따른다",
        "```\n# 1. Run it\n```",
    ]
    corpus = CorpusNodes([Node(str(n), text) for n, text in enumerate(texts)])
    assert Numbered(corpus).count == 3


def test_numbers_of_documents_and_of_their_files(tmp_path):
    words = "It says how looms are to be built and mended, for all who weave. " * 5
    (tmp_path / "rfc2119.txt").write_text(
        f"Key words\n\n1. Must\n\n{words}\n\n2. Should\n\nSee PEP 8 and [RFC9110], section 2.1.\n{words}"
    )
    (tmp_path / "pep-0008.md").write_text(f"# Style\n{words}")
    (tmp_path / "http.md").write_text(
        f"# RFC 9110 – HTTP\n{words}\n## 2 Rules\n{words}\n### 2.1 Syntax\n{words}\n### 2.2 Forms\n{words}"
    )
    nodes = read_folder(tmp_path)
    found = edges(nodes)
    assert {target for _, target in found} == {"pep-0008.md", "http.md#21-syntax"}


def test_an_article_on_each_page_and_the_folder_as_the_law(tmp_path):
    for law in ("bgb", "hgb"):
        (tmp_path / law).mkdir()
        for n in range(1, 4):
            text = f"# § {n} Von Waren\nWer Waren verkauft, hat {n} davon zu liefern, wie es geschrieben steht und gilt. "
            cited = "Siehe § 1 und § 2 HGB." if (law, n) == ("bgb", 3) else ""
            (tmp_path / law / f"{n}.md").write_text(f"{text}{law} {cited}\n")
    assert edges(read_folder(tmp_path)) == [("bgb/3.md", "hgb/1.md"), ("bgb/3.md", "hgb/2.md")]
    (tmp_path / "bgb" / "3.md").write_text("# § 3 Von Waren\nWer Waren verkauft, hat sie zu liefern, siehe § 1.\n")
    assert edges(read_folder(tmp_path)) == [("bgb/3.md", "bgb/1.md")]


def test_a_chapter_or_an_annex_on_each_page(tmp_path):
    filler = "It says how looms are to be built and mended, for all who weave, and what they are to be paid for. " * 3
    pages = {
        "agreement": f"# Agreement\n{filler}\n## Clause 1 Services\n{filler}See Schedule 1, and Part B of Schedule 2.\n",
        "schedule-1": f"# Schedule 1 Looms\n{filler}See Chapter 3.\n",
        "schedule-2": f"# Schedule 2 Fees\n{filler}\n## Part A\n{filler * 2}\n## Part B\n{filler * 2}",
        "thesis": f"# Outline\n{filler}\nSee Chapter 2, Chapter 3 and Chapter 4.\n",
        "2-history": f"# 2 History\n{filler}\n",
        "notes": f"# Notes\n{filler}\n## 3 Cards\n{filler * 2}",
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text.replace("looms", name))
    found = edges(read_folder(tmp_path))
    # No page begins with a chapter 3: in the notes, it is a section.
    assert found == [
        ("agreement.md#clause-1-services", "schedule-1.md"),
        ("agreement.md#clause-1-services", "schedule-2.md#part-b"),
        ("thesis.md", "2-history.md"),
    ]


def test_a_french_law_whose_name_is_written_small():
    law = chunks("l", "Loi sur les cartes", *(([f"Article {n}"], "Les cartes sont en papier.") for n in (1, 2, 3)))
    text = "Voir l'article 2 de la loi sur les cartes et l'article 3 du code civil."
    assert targets(text, *law, headings=("Article 2",), path="d", title="Décret") == ["l1"]
    assert targets("Voir l'article 2 de la loi sur les moulins.", *law) == []


def test_inflected_names_of_german_laws():
    laws = chunks("b", "Bürgerliches Gesetzbuch", *(([f"§ {n} Recht"], "(1) Die Sache ist zu liefern.") for n in (1, 2, 3)))
    laws += chunks("z", "Zivilprozessordnung (ZPO)", *(([f"§ {n} Recht"], "(1) Das Gericht ist frei.") for n in (1, 2, 3)))
    text = "Nach § 2 des Bürgerlichen Gesetzbuchs, § 3 der Zivilprozessordnung und den §§ 1, 2 ZPO ist die Sache zu geben."
    assert targets(text, *laws, path="c", title="Kommentar") == ["b1", "z2", "z0", "z1"]


def test_circled_paragraphs_of_korean_laws():
    laws = chunks(
        "k",
        "베틀법",
        (["제1조(목적)"], "① 이 법은 베틀을 정한다.\n② 카드는 종이로 한다."),
        (["제1조(목적)"], "③ 물레방아는 제외한다.\n1. 옛 물레방아"),
        (["제2조(정의)"], "① 카드는 제1조제2항과 제1조제3항제1호에 따른다."),
        (["제3조(벌칙)"], "제1항은 없다."),
    )
    assert edges(laws) == [("k2", "k0"), ("k2", "k1")]


def test_a_korean_law_is_named_in_front():
    laws = chunks("k", "베틀법", *(([f"제{n}조(물레)"], f"① 물레 {n}개를 둔다.") for n in (1, 2, 3)))
    decree = chunks("d", "베틀법 시행령", (["제1조(목적)"], "「베틀법」 제2조 및 제3조와 「개인정보 보호법」 제1조에 따른다."))
    assert edges([*laws, *decree]) == [("d0", "k1"), ("d0", "k2")]


def test_too_few_numbers_are_chance():
    nodes = [Node("a", "Article 1\nSee Article 2."), Node("b", "Article 2\nMore.")]
    assert edges(nodes) == [] and NumberedReferences().describe(nodes) == ReferenceCounts()
    assert edges([Node("a", "Looms, see Article 2."), Node("b", "")]) == []


def test_counts_of_what_was_found_and_ten_that_were_not():
    text = "1. See paragraph 1; Article 2 of the Charter; Articles 30 and 31; " + "; ".join(f"Annex {n}" for n in range(30, 50))
    nodes = [*LOOMS, *chunks("x", "Extra", (["Article 5"], text))]
    counts = NumberedReferences().describe(nodes)
    assert (counts.found, counts.around, counts.outside, counts.amended, counts.unresolved) == (0, 1, 1, 0, 22)
    assert len(counts.examples) == 10 and counts.examples[0] == ("x0", "Articles 30 and 31")
    assert str(counts).splitlines()[:3] == [
        "found 0, to what is around them 1, to other documents 1, in amendments 0, unresolved 22",
        "  Articles 30 and 31 in x0",
        "  Annex 30 in x0",
    ]


def test_the_description_of_an_index_counts_references():
    nodes = [*LOOMS, Node("c", "See Article 1(1) and Article 77.", metadata={"path": "l.md", "chunk_index": 20})]
    index = GraphIndex.from_documents(nodes, edges=[NumberedReferences()])
    described = index.describe()
    assert described.references == str(NumberedReferences().describe(nodes))
    assert "references  found 1, to what is around them 0," in str(described) and "\n  Article 77 in c\n" in str(described)
    assert GraphIndex.from_documents(nodes, edges=[("c", "l0")]).describe().references == ""


def test_the_relation_and_the_settings_of_a_saved_index(tmp_path):
    spec = NumberedReferences(relation="cites")
    assert build_edges([*LOOMS, *MILLS, Node("c", "See Article 1 MDPA", metadata={"path": "c.md"})], spec) == [("c", "m0", "cites")]
    index = GraphIndex.from_documents([*LOOMS, *MILLS], edges=[spec])
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index")
    changed = loaded.with_changes(add=[Node("c", "See Article 1 MDPA", metadata={"path": "c.md"})])
    assert [(edge.source, edge.target, edge.relation) for edge in changed.graph.edges()] == [("c", "m0", "cites")]


class Drawn:
    """Documents with articles of up to five paragraphs, one chunk each, and citations whose targets are known."""

    def __init__(self, seed, german):
        self.rng, self.german = random.Random(seed), german
        self.texts, self.wanted = {}, set()
        self.laws = {"a": ("Apfelgesetz (ApfG)", "ApfG"), "b": ("Birnengesetz (BirG)", "BirG")}
        if not german:
            self.laws = {"a": ("Apple Trade Act", "ATA"), "b": ("Pear Trade Act", "PTA")}
        self.sizes = {law: [self.rng.randint(1, 5) for _ in range(self.rng.randint(3, 12))] for law in self.laws}

    def keys(self, law, article):
        return [(law, article, paragraph) for paragraph in range(1, self.sizes[law][article - 1] + 1)]

    def nodes(self):
        word, nodes = "Artikel" if self.german else "Article", []
        for law, sizes in self.sizes.items():
            keys = [key for article in range(1, len(sizes) + 1) for key in self.keys(law, article)]
            for place, key in enumerate(keys):
                text = " ".join(self.citation(key) for _ in range(self.rng.randint(0, 3)))
                number = f"({key[2]})" if self.german else f"{key[2]}."
                metadata = {"path": f"{law}.md", "chunk_index": place, "headings": [self.laws[law][0], f"{word} {key[1]} – X"]}
                filler = (
                    "Die Früchte sind von den Händlern zu wiegen und in die Kisten zu legen."
                    if self.german
                    else "Fruit is weighed."
                )
                nodes.append(Node(str(key), f"{number} {filler} {text}", metadata=metadata))
        self.rng.shuffle(nodes)
        return nodes

    def citation(self, source):
        """Write a random citation, and note the edges that it is."""
        rng, (law, article, _) = self.rng, source
        other = rng.choice(list(self.laws))
        where = rng.randint(1, len(self.sizes[other]))
        last = rng.randint(where, len(self.sizes[other]))
        paragraph = rng.randint(1, self.sizes[other][where - 1])
        own = rng.randint(1, self.sizes[law][article - 1])
        form = rng.choice(["whole", "part", "range", "list", "parts", "own"])
        found = {
            "whole": self.keys(other, where),
            "part": [(other, where, paragraph)],
            "range": [key for number in range(where, last + 1) for key in self.keys(other, number)],
            "list": [*self.keys(other, where), *self.keys(other, last)],
            "parts": [(other, where, 1), (other, where, paragraph)],
            "own": [(law, article, own)],
        }[form]
        # The article around a citation is not a target as a whole.
        whole = form in ("whole", "range", "list")
        found = [target for target in found if target != source and not (whole and target[:2] == source[:2])]
        self.wanted |= {(str(source), str(target)) for target in found}
        if form == "own":
            return rng.choice(
                [f"Nach Absatz {own}.", f"Siehe Abs. {own}."]
                if self.german
                else [f"See paragraph {own}.", f"Under para. {own}, no."]
            )
        if self.german:
            text = {
                "whole": [f"Artikel {where}", f"Art. {where}"],
                "part": [f"Artikel {where} Absatz {paragraph}", f"Art. {where} Abs. {paragraph} Satz 1"],
                "range": [f"den Artikeln {where} bis {last}"],
                "list": [f"den Artikeln {where} und {last}", f"Artikel {where} oder Artikel {last}"],
                "parts": [f"Artikel {where} Abs. 1 und {paragraph}", f"Art. {where} Absatz 1 oder Absatz {paragraph}"],
            }[form]
            names = [f" des {self.laws[other][0].partition(' ')[0]}es", f" {self.laws[other][1]}"]
        else:
            text = {
                "whole": [f"Article {where}", f"Art. {where}"],
                "part": [
                    f"Article {where}({paragraph})",
                    f"paragraph {paragraph} of Article {where}",
                    f"Article {where}, para. {paragraph}",
                ],
                "range": [f"Articles {where} to {last}", f"Articles {where}–{last}"],
                "list": [f"Articles {where} and {last}", f"Article {where} or Article {last}"],
                "parts": [f"Article {where}(1) and ({paragraph})", f"paragraphs 1 and {paragraph} of Article {where}"],
            }[form]
            names = [f" of the {self.laws[other][0]}", f" {self.laws[other][1]}"]
        name = "" if other == law and rng.random() < 0.7 else rng.choice(names)
        return f"{'Nach' if self.german else 'See'} {rng.choice(text)}{name}."


@pytest.mark.parametrize("german", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_citations_that_were_drawn(seed, german):
    drawn = Drawn(seed, german)
    nodes = drawn.nodes()
    assert set(edges(nodes)) == drawn.wanted


def test_a_clause_without_a_heading_is_in_the_one_around_it():
    clauses = {
        "1 Definitions": "See clause 2.1 and clause 4.1.",
        "2 Delivery": "2.1 Goods are sent.\n2.2 They arrive.",
        "3 Liability": "None.",
    }
    held = [(text, {"path": "c.md", "headings": [heading]}) for heading, text in clauses.items()]
    nodes = [Node(str(n), text, metadata=metadata) for n, (text, metadata) in enumerate(held, 1)]
    assert build_edges(nodes, NumberedReferences()) == [("1", "2", "refers")]
    assert NumberedReferences().describe(nodes).examples == (("1", "clause 4.1"),)


def test_names_of_documents():
    names = DocumentNames("en")
    for name in ("Loom", "Loom Act", "Go"):
        names.add(name, name)
    assert names.at("under the Loom Act 5", 10) == "Loom Act", "the longest name"
    assert names.at("Loom 5", 0) == "Loom"
    assert names.at("loom act", 0) is None, "what is written small is a word"
    assert names.at(": Loom", 0) is None, "the name does not begin there"
    assert names.at("Go", 0) is None, "two letters are not a name"
    assert short_names("Rules of looms") == [] and short_names("Loom Trade Act") == ["LTA", "LT Act"]


def test_a_document_with_its_number_in_title_and_file_counts_once():
    assert Numbered(CorpusNodes([Node("a", "Text", "RFC 2119", metadata={"path": "rfc2119.txt"})])).count == 1


def test_a_number_that_several_pages_of_a_folder_have_means_none_of_them():
    laws = [node for law in "ab" for node in chunks(f"x/{law}", law, (["Article 1"], "1. Looms."), (["Article 2"], "2. Cards."))]
    citing = Node("c", "See Article 2.", metadata={"path": "x/c.md", "headings": ["Notes"]})
    assert edges([*laws, citing]) == []
    # A section of the notes is not in the article before it.
    notes = chunks(
        "l", TITLE, *((["Article 1"], "1. a\n2. b"), (["Article 2"], "1. c"), (["Annex I"], "d"), (["Notes"], "See paragraph 1."))
    )
    assert edges(notes) == []


def test_parts_beside_and_inside_each_other():
    def found(reference, *texts):
        parts = [([*headings], text) for headings, text in texts]
        extra = chunks("l", TITLE, *parts, (["Article 7"], "x"), (["Article 8"], "y"))
        return targets(f"See {reference}.", *extra)

    article = ["Article 1"]
    roman = [(article, "(a) wool\n(i) red"), (article, "(ii) blue"), (article, "(b) silk")]
    assert found("Article 1, point (a)(ii)", *roman) == ["l1"] and found("Article 1, point (a)", *roman) == ["l0", "l1"]
    letters = [(article, "(h) wool"), (article, "(i) silk"), (article, "(j) hemp")]
    assert found("Article 1, point (h)", *letters) == ["l0"] and found("Article 1, point (i)", *letters) == ["l1"]
    dotted = [(article, "1. wool\n1.1. red"), (article, "1.2 blue"), (article, "2. silk")]
    assert found("Article 1, point 1.1", *dotted) == ["l0"] and found("Article 1, point 1.2", *dotted) == ["l1"]
    # A heading in the text ends the unit of its kind that the headings name.
    assert found("Article 1", (article, "1. wool\nArticle 2\n1. silk"), (article, "2. hemp")) == ["l0"]
    # A sentence is in the paragraph around it, as the number behind it is; it is not what has its number there.
    points = [(article, "(1) Es gilt:\n1. wool"), (article, "2. silk"), (article, "(2) hemp")]
    assert found("Article 1 Abs. 1 Satz 2", *points) == ["l0", "l1"] and found("Article 1 Abs. 1 Satz 1 Nr. 2", *points) == ["l1"]
    assert found("Article 1 Abs. 1 Satz 2 Nr. 2", (article, "(1) Es gilt:\n1. wool"), (article, "2. silk")) == ["l1"]
    shared = [([], "Chapter I\nSection 1\nwool\nChapter II"), ([], "Section 1\nsilk")]
    assert found("Chapter II, Section 1", *shared) == ["l1"], "the first chunk has a section 1 of chapter I"


def test_of_two_lists_in_a_paragraph_the_one_around_the_place_is_meant():
    cards = "1. Cards shall be:\n(a) of wool;\n(b) of silk."
    looms = "Looms shall be:\n(a) of oak;\n(b) of pine, if point (a) fails."
    nodes = chunks("l", TITLE, (["Article 1"], cards), (["Article 1"], looms), (["Article 2"], "x"), (["Article 3"], "y"))
    assert edges(nodes) == []
    further = (["Article 1"], "(c) of ash, unlike point (b).")
    nodes = chunks("l", TITLE, (["Article 1"], cards), (["Article 1"], looms), further, (["Article 2"], "x"), (["Article 3"], "y"))
    assert edges(nodes) == [("l2", "l1")]


def test_paragraphs_are_those_of_the_article_around_a_list():
    nodes = chunks(
        "l",
        TITLE,
        (["Article 1"], "1. Looms."),
        (["Article 1"], "2. Cards:\n(a) kinds:\n(1) wool;\n(2) silk, as in paragraph 1."),
        (["Article 2"], "1. Mills."),
        (["Article 3"], "1. Looms."),
    )
    assert edges(nodes) == [("l1", "l0")]


def test_only_laws_amend_others():
    manual = [(["1.1 Setup"], "Set up."), (["1.2 Use"], "Use."), (["1.3 Files"], "The file is amended: see Section 1.1.")]
    assert edges(chunks("m", "Manual", *manual)) == [("m2", "m0")]
    laws = chunks("l", "Webgesetz", *(([f"§ {n} Webstuhl"], "(1) Der Webstuhl ist aus Holz.") for n in (1, 2, 3)))
    text = "(1) Das Kartengesetz wird wie folgt geändert: siehe § 1."
    assert targets(text, *laws, headings=("§ 9 Karten",), title="Webgesetz") == []


def test_a_long_unit_that_ends_in_the_citing_chunk_is_cited_elsewhere():
    words = "wool silk linen cotton jute hemp".split()
    nodes = chunks("l", TITLE, (["Article 3"], "x"), *((["Article 1"], f"{n}. About {word}.") for n, word in enumerate(words, 1)))
    text = "7. About flax.\nArticle 2\nOf flax speaks Article 1."
    assert targets(text, *nodes, headings=("Article 1",)) == ["l1"]


def test_sections_of_plain_texts():
    texts = [
        "1.  Introduction\n   As section 2.1 says, and Section 3 of RFC 7.\n2.  Rules",
        "2.1.  Cards\n   Cards of these kinds:\n   1. Wool\n   2. Silk\n   3. Hemp",
        "3.  Errors\n   The rules of Section 2 hold, see section 1. Section 4 does not exist.",
    ]
    nodes = [Node(f"r{n}", text, metadata={"source": "rfc9.txt", "chunk_index": n}) for n, text in enumerate(texts)]
    # Section 2 is in the first two; "2. Silk" is an item of a list.
    assert edges(nodes) == [("r0", "r1"), ("r2", "r0"), ("r2", "r1")]
    lists = ["1. Wool\n2. Silk\n3. Hemp", "1. Wool.\n\n2. silk\nIt is soft", "404 Not Found\nMeans nothing", "See section 1."]
    assert Numbered(CorpusNodes([Node(str(n), text, metadata={"source": "a"}) for n, text in enumerate(lists)])).count == 0
    without = [Node(node.id, node.text) for node in nodes]
    assert edges(without) == [], "nodes without an address may be of many texts"


CONTRACT = """LOOM AGREEMENT

between Ada and Bo

1. DEFINITIONS

1.1 Words have meanings:
1. "loom" is a machine;
2. "card" is paper.
1.2 Clause 2.2 and clause 3 come first.

2. SUPPLY

2.1 Bo sends looms, see clause 1.1.
2.2 Delay is dealt with in clause 3.2(b).

3. DELAY

3.1 None.
3.2 Ada may:
(a) wait; or
(b) leave under Section 1.2 and Article 28 GDPR.
"""


def test_clauses_that_are_lines_of_a_contract():
    texts = [part.strip() for part in re.split(r"\n(?=\d\.\d |\d\. [A-Z]{2})", CONTRACT)]
    places = {text.partition(" ")[0]: f"c{n}" for n, text in enumerate(texts)}
    nodes = [Node(f"c{n}", text, "Loom Agreement", metadata={"path": "c.txt", "anchors": []}) for n, text in enumerate(texts)]
    wanted = [("1.2", "2.2"), *(("1.2", clause) for clause in ("3.", "3.1", "3.2")), ("2.1", "1.1"), ("2.2", "3.2"), ("3.2", "1.2")]
    assert edges(nodes) == [(places[source], places[target]) for source, target in wanted]
    # An item of a list is not a clause.
    listed = chunks(
        "l", "Note", *(([], f"{n}. looms\n") for n in (1, 2, 3)), ([], "Table 1: a\nTable 2: b\nTable 3: c\nSee section 2.")
    )
    assert edges(listed) == []


def test_headings_of_a_pdf_without_an_outline():
    pages = ["Chapter 1. Looms\nSee Section 2.1.", "Chapter 2. Cards\n2.1 Holes\nA hole.", "Chapter 3. Mills\nSee Chapter 1."]
    nodes = [Node(f"p{n}", text, "T", metadata={"path": "t.pdf", "anchors": [f"page={n}"]}) for n, text in enumerate(pages)]
    assert edges(nodes) == [("p0", "p1"), ("p2", "p0")]


def test_a_clause_of_the_contract_itself_comes_before_one_of_another():
    other = chunks("other", "Lease", (("1 Term",), "A year."), (("2 Use",), "It weaves."), (("2 Use", "2.1 Rooms"), "The shed."))
    own = chunks("own", "Terms", ((), "2.\n2.1 Looms are let."), ((), "3.\n3.1 Loss of what clause 2.1 lets is told."))
    assert edges([*other, *own]) == [("own1", "own0")]


MARCH = "Minutes of the council\nLyon, 5 March 2024\n\n1. Looms\n\nThey weave.\n\n2. Cards\n\n"
MARCH += "2.1 Paper\nIt is thick.\n\n2.2 Holes\nThey lift."
APRIL = "Minutes of the council\nLyon, 2 April 2024\n\n1. Looms\n\nNone.\n\n2. Cards\n\n2.1 Paper\nIt is thin.\n\n3. Mills\n\n"


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Item 2.1 of the minutes of 5 March is corrected.", ["march.txt"]),
        ("Items 2.1 and 2.2 of the minutes of March 5, 2024 are.", ["march.txt"]),
        ("Siehe Punkt 2.1 des Protokolls vom 5. März 2024.", ["march.txt"]),
        ("It was item 2.1.", ["april.txt"]),
        # Of other minutes, or of none that is known; not of those that the text is in.
        ("Item 2.1 of the minutes is corrected.", []),
        ("Item 2.1 of the minutes of 5 March 2023 is.", []),
        ("Item 2.1 of the minutes of 6 March is.", []),
        ("Item 7 of the minutes of 5 March is.", []),
    ],
)
def test_items_of_minutes_lead_to_the_minutes_of_the_day(tmp_path, text, files):
    files_read = {"march.txt": MARCH, "april.txt": APRIL + text, "plan.txt": "A plan of 5 March\n\n2.1 Paper\n\nNone."}
    nodes = read(tmp_path, files_read, max_tokens=20)
    held = {node.id: node.text for node in nodes}
    found = [(source, target) for source, target in edges(nodes) if text in held[source]]
    assert [target.partition("#")[0] for _, target in found] == files
    assert all("2.1 Paper\nIt is" in held[target] for _, target in found)


def test_minutes_of_one_day_in_two_files_are_not_told_apart(tmp_path):
    other = MARCH.replace("council", "board")
    nodes = read(tmp_path, {"a.txt": MARCH, "b.txt": other, "c.txt": "Item 2.1 of the minutes of 5 March is thick."}, max_tokens=20)
    assert [edge for edge in edges(nodes) if edge[0] == "c.txt"] == []


def test_the_sections_of_a_law_on_pages_of_their_own_are_cited_by_its_name(tmp_path):
    page = "<title>§ {0} {1} - Norm</title><h1>{2} ({1})<br>§&nbsp;{0}&nbsp;{3}</h1><div>{4}</div>"
    laws = {
        "webg": (
            "WebG",
            "Webstuhlgesetz",
            {"1": ("Zweck", "Es gilt für alle, die nach § 2 weben."), "2": ("Karten", "Siehe § 7 des Mühlengesetzbuchs.")},
        ),
        "mgb": (
            "MGB",
            "Mühlengesetzbuch",
            {
                "6": ("Ort", "Die Mühle ist an einem Fluss, und das Rad wird von ihm gedreht."),
                "7": ("Rad", "Das Rad ist nach § 1 WebG zu bauen."),
            },
        ),
    }
    pages = {
        f"{folder}/__{number}.html": page.format(number, short, name, title, text)
        for folder, (short, name, norms) in laws.items()
        for number, (title, text) in norms.items()
    }
    nodes = read(tmp_path, pages)
    assert edges(nodes) == [
        ("mgb/__7.html", "webg/__1.html"),
        ("webg/__1.html", "webg/__2.html"),
        ("webg/__2.html", "mgb/__7.html"),
    ]


def test_each_number_of_a_range_is_meant_where_its_end_is_on_another_page_or_missing():
    pages = [node for number in (3, 4, 5, 7) for node in chunks(f"law/{number}_", f"§ {number} Looms", ([], "They weave."))]
    citing = chunks("law/9_", "§ 9 Mills", ([], "The §§ 3 to 5 hold, and §§ 6 to 8 of this law."))
    assert [target for _, target in edges([*pages, *citing])] == ["law/3_0", "law/4_0", "law/5_0", "law/7_0"]
    assert targets("See Articles 3 to 7.", *LOOMS) == ["l3", "l4"]


def test_a_paragraph_that_an_article_does_not_have_is_no_recital():
    recitals = chunks(
        "r", "Loom Act", ([], "(1) Looms are useful.\n(2) Cards too."), (["Article 1 – Aim"], "1. Looms.\n3. Paragraph 2 holds.")
    )
    more = chunks("r", "Loom Act", ([], ""), ([], ""), (["Article 2 – Words"], "1. A loom."), (["Article 3 – End"], "1. Now."))[2:]
    assert edges([*recitals, *more]) == []


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("Article 2 of the Mill Data Protection Act", ["m1"]),
        ("What does the Mill Data Protection Act say in Article 2?", ["m1"]),
        ("Article 1(2), point (b) of Regulation (EU) 2020/11", ["l1"]),
        ("Article 4, and Annex I of the Loom Regulation, 2.1", ["l4", "l5", "l6"]),
        ("Articles 3 to 4", ["l3", "l4"]),
        ("art 2 mill data protection act", ["m1"]),
        ("mill data protection act article 2", ["m1"]),
        ("Art 3 Regulation (EU) 2020/11", ["l3"]),
        ("Table 2", ["l6"]),
        # Two acts have an Article 1; none an Article 12; and the other act is unknown.
        ("Article 1", []),
        ("What do the Loom Regulation and the Mill Data Protection Act say in Article 1?", []),
        ("Article 12 of the Loom Regulation", []),
        ("Article 3 of the Wool Act", []),
        ("Who mends looms?", []),
    ],
)
def test_what_a_question_cites(question, ids):
    nodes = [*LOOMS, *MILLS]
    found = LookUp(nodes).rows(question)
    assert [nodes[row].id for rows in found for row in rows] == ids


def test_a_german_question_may_write_the_sign_of_a_section_as_a_word():
    nodes = [*chunks("w", "Webstuhlgesetz", (["§ 1 Zweck"], "Weben."), (["§ 2 Karten"], "Aus Papier.")), *MILLS]
    assert LookUp(nodes).rows("Paragraph 2 Webstuhlgesetz") == [[1]]
    # An "Absatz" that a section does not have is not a section itself.
    assert targets("(1) Absatz 2 gilt.", *nodes[:1], headings=("§ 3 Ende",), path="w", title="Webstuhlgesetz") == []


QUALITY = chunks(
    "q",
    "ISO 9001:2015 Quality",
    (["4 Context", "4.1 Issues"], "Looms."),
    (["7 Support", "7.2 Skill"], "Evidence is kept (see 7.5). It takes 7.5 days, according to 4.1 hours."),
    (["7 Support", "7.5 Records", "7.5.3 Control"], "As required by 4.1 and 7.2; version 4.1 is older."),
)


def test_standards_cite_their_sections_without_a_word():
    assert edges(QUALITY) == [("q1", "q2"), ("q2", "q0"), ("q2", "q1")]
    cite = [
        ("ISO 9001:2015, 7.5.3.", "q2"),
        ("ISO 9001, 4.1 and 7.2", "q0 q1"),
        ("ISO 9001:2015 4.1", "q0"),
        ("ISO 9001:2015, 8.1", ""),
    ]
    for text, found in cite:
        assert " ".join(targets(f"As in {text}", *QUALITY, path="x", title="Guide")) == found


def test_a_section_with_two_digits_is_cited_without_a_word():
    sections = chunks("s", "Guide", (["12.5 Records"], "Kept."), (["2.5 Skill"], "Learnt."), (["3.1 Use"], "Evidence (see 12.5)."))
    assert edges(sections) == [("s2", "s0")]


def test_a_point_is_that_of_the_list_around_it():
    lists = ["Two lists.\n(a) one;", "(b) as in point (a).\nMore:", "(a) three;", "(b) as in point (a)."]
    parts = [(["Article 1 Lists"], text) for text in lists] + [([f"Article {number}"], "") for number in (2, 3)]
    assert edges(chunks("l", TITLE, *parts)) == [("l1", "l0"), ("l3", "l2")]


def test_a_document_is_cited_by_the_code_that_its_title_begins_with():
    filing = chunks("f", "QM-03 Filing", (["1 Aim"], "Filing."), (["2 Place"], "In the cellar."), (["3 End"], "Shredded."))
    for text, found in [
        ("QM-03, Section 2", "f1"),
        ("section 3 of QM-03", "f2"),
        ("QM-03", "f0 f1 f2"),
        ("QM-04, Section 9", ""),
        ("XQM-03", ""),
        ("draftQM-03", ""),
    ]:
        assert " ".join(targets(f"Kept as in {text}.", *filing, path="x", title="Audits", headings=["4 Records"])) == found


def test_a_document_by_number_may_stand_right_behind_a_section():
    rfc = chunks("rfc2119", "RFC 2119: Looms", (["1. Aim"], "Looms."), (["2. Words"], "Cards."), (["3. End"], "Mills."))
    assert targets("As in Section 2 RFC 2119.", *rfc, path="x", title="Mills") == ["rfc21191"]
    assert LookUp(rfc).rows("section 3 rfc 2119") == LookUp(rfc).rows("RFC 2119, Section 3") == [[2]]


def test_words_in_capitals_behind_a_section_may_be_no_name():
    assert targets("A frame above the limit of Article 3 MUST be refused, and Article 4 MAY hold.", *LOOMS) == ["l3", "l4"]
    assert targets("See Article 3 MUSTER.", *LOOMS) == []


def test_texts_of_loaders_name_their_documents_by_the_title_with_which_they_begin():
    mill = [
        Node("m1", "---\ntype: act\n---\n# Mill Act (MA)\n"),
        Node("m2", "## Article 1 Aim\nAs in Article 2 of the Loom Law."),
        Node("m3", "## Article 2\nMills."),
    ]
    loom = [
        Node("l1", "Loom Law\n\nof 1804\n\nArticle 1 Aim\nAs in Article 2 of the Mill Act."),
        Node("l2", "Article 2 Looms\nLooms."),
    ]
    for file, title in [("act-1", ""), ("act-2", "act-2.md")]:
        nodes = [replace(node, title=title, metadata={"source": f"{file}.md"}) for node in mill]
        nodes += [replace(node, title="b.txt", metadata={"source": "b.txt"}) for node in loom]
        assert sorted(edges(nodes)) == [("l1", "m3"), ("m2", "l2")]


def test_pieces_of_html_are_read_without_tags():
    texts = [
        "<h1>Loom Act</h1><h3><b>§&nbsp;1</b>&nbsp;Aim</h3><p>As in <i>§</i>&nbsp;2.</p>",
        "<h3>§ 2 Words</h3><p>§ 1.</p>",
        "<h3>§ 3 End</h3><p>See § 1",
    ]
    nodes = [Node(f"{n}", text, metadata={"source": "act.HTML"}) for n, text in enumerate(texts)]
    assert edges(nodes) == [("0", "1"), ("1", "0"), ("2", "0")]
    assert [edges([replace(node, metadata={"source": "act.txt"}) for node in nodes])] == [[]]
    assert LookUp(nodes).rows("§ 3") == [[2]]
    shown = chunks("s", "Tags", (["§ 1 Code"], "<b>See § 2</b>"), (["§ 2 More"], "None."), (["§ 3 End"], "None."))
    shown = [replace(node, metadata={**node.metadata, "path": "s.html", "anchors": []}) for node in shown]
    assert edges(shown) == [("s0", "s1")]


def test_recitals_are_the_numbers_above_the_first_article():
    act = chunks(
        "a",
        TITLE,
        ([], "Whereas:\n(1) Looms are useful.\n(2) Cards too."),
        (["Article 1 – Aim"], "1. As recital 2 says.\n(2) Mills."),
    )
    act += chunks("a", TITLE, ([], ""), ([], ""), (["Article 2 – Words"], "Words."), (["Article 3 – End"], "Recitals 1 and 3."))[2:]
    assert edges(act) == [("a1", "a0"), ("a3", "a0")]
    assert targets("See recital (1) of Regulation (EU) 2020/11.", *act, path="x", title="Mills") == ["a0"]
    assert LookUp(act).rows("Recital 2 of the Loom Regulation") == [[0]] and LookUp(act).rows("recital 4 Loom Regulation") == []
