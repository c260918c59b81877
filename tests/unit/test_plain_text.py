"""Plain text: headings with numbers, such as those of contracts, and lists that have none."""

import pytest

from graph_retrievers.construction import NumberedReferences, build_edges
from graph_retrievers.construction.plain_text import read_text
from tests.pages import read

CONTRACT = """LOOM HIRE AGREEMENT

1. PRICE

1.1 The hirer pays ten marks a week, see Schedule 1.

1.2 Prices rise under clause 2.1.

2.  TERM
2.1 The hire ends after a year:

1. by notice;

2. by return of the loom.

SCHEDULE 1
Looms

1. One loom of oak.

Schedule 2 - Cards

1. Kinds

Of paper.
"""


def test_headings_of_a_contract():
    page = read_text(CONTRACT)
    assert [(block.text, block.level, block.anchors) for block in page.blocks if block.level] == [
        ("LOOM HIRE AGREEMENT", 1, ()),
        ("1. PRICE", 2, ("1-price",)),
        ("2. TERM", 2, ("2-term",)),
        ("SCHEDULE 1 Looms", 2, ("schedule-1-looms",)),
        ("Schedule 2 - Cards", 2, ("schedule-2---cards",)),
        ("1. Kinds", 3, ("1-kinds",)),
    ]
    assert [block.text for block in page.blocks if not block.level] == [
        "1.1 The hirer pays ten marks a week, see Schedule 1.",
        "1.2 Prices rise under clause 2.1.",
        "2.1 The hire ends after a year:",
        "1. by notice;",
        "2. by return of the loom.",
        "1. One loom of oak.",
        "Of paper.",
    ]


def test_references_lead_to_the_clauses_below_headings(tmp_path):
    nodes = read(tmp_path, {"hire.txt": CONTRACT}, max_tokens=20)
    held = {node.id: f"{node.title}\n{node.text}" for node in nodes}
    edges = [(held[source], held[target]) for source, target, _ in build_edges(nodes, NumberedReferences())]
    assert len(edges) == 2 and all(": 1. PRICE\n" in source for source, _ in edges)
    assert "SCHEDULE 1 Looms" in edges[0][1] and ": 2. TERM\n2.1" in edges[1][1]


def headings(text):
    return [(block.text, block.level) for block in read_text(text).blocks if block.level]


SERVICES = """MASTER AGREEMENT
dated 3 March 2024

1. Definitions.

"Fees" means the sums in Schedule 1.

2. Fees and payment.

2.1 The Client pays within thirty days.

3. Non-use and Disclosure. Each party keeps secrets, unless clause 2 was broken:

(a) at work; and

(b) at home.

4. The parties meet each year. They speak of looms.

SCHEDULE 1
Fees

1. The fee is ten marks.

2. Travel is free.

The end.
"""


def test_names_with_a_full_stop_are_headings_of_a_text_that_cites_its_clauses():
    page = read_text(SERVICES)
    assert [(block.text, block.level, block.anchors) for block in page.blocks if block.level] == [
        *(("MASTER AGREEMENT", 1, ()), ("1. Definitions", 2, ("1-definitions",))),
        *(("2. Fees and payment", 2, ("2-fees-and-payment",)), ("3. Non-use and Disclosure", 2, ("3-non-use-and-disclosure",))),
        ("SCHEDULE 1 Fees", 2, ("schedule-1-fees",)),
    ]
    assert page.blocks[1].text == "dated 3 March 2024"
    assert page.blocks[7].text == "Each party keeps secrets, unless clause 2 was broken:"
    # Neither a sentence nor the items of a list.
    assert [block.text for block in page.blocks if block.text[0].isdigit() and not block.level] == [
        *("2.1 The Client pays within thirty days.", "4. The parties meet each year. They speak of looms."),
        *("1. The fee is ten marks.", "2. Travel is free."),
    ]
    uncited = SERVICES.replace("clause 2", "the law")
    assert headings(uncited) == [("MASTER AGREEMENT", 1)]
    divided = "TERMS\n\n1. Scope.\n\n1.1 They hold.\n\n2. Rent and payment.\n\n2.1 It is due.\n\n3. End.\n\nIn May."
    assert headings(divided) == [("TERMS", 1), ("1. Scope", 2), ("2. Rent and payment", 2), ("3. End", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "How to clean it.\n\n1. Stop the loom.\n\nWait, as step 2 says.\n\n2. Take off the cards.\n\nLay them flat.",
        "How to clean it.\n\n1. Stop it.\n\nSee Section 1 GDPR.\n\n2. Wipe it.\n\nDry.",
        # Another document has that section; a step has steps.
        "How to clean it.\n\n1. Stop it.\n\nSee section 1 of the manual.\n\n2. Wipe it.\n\nDry.",
        "How to clean it.\n\n1. Stop it.\n\nWait.\n\n2. Open it.\n\n2.1 Left.\n\n2.2 Right.\n\n3. Wipe it.\n\nDry.",
        # Sentences, of which most have no text below; a reference to something else.
        "Terms\n\n1. Looms are let. They are of oak.\n\n2. Cards are sold. Clause 1 holds.",
        "Notes\n\n1. Smith. He wrote of looms.\n\n2. Jones. She disagreed, see section 4.",
        "Terms, where clause 1 is law.\n\n1. Looms.\n\n2. Cards.\n\n3. Mills.",
        "Terms, where clause 1 is law.\n\n1. He may not pay. She does.\n\n2. She may not. He does.",
    ],
)
def test_sentences_with_numbers_that_are_no_headings(text):
    assert not [block for block in read_text(text).blocks if block.level and block.text != read_text(text).title]


def test_a_part_of_a_clause_is_a_heading_with_a_full_stop_only_in_capitals():
    text = "TERMS\n\n1. Scope.\n\n1.1 The looms are let.\n\nTo all.\n\n1.2 Cards.\n\nAs in clause 1.\n\n2. Mills.\n\nNone."
    assert headings(text) == [("TERMS", 1), ("1. Scope", 2), ("1.2 Cards", 3), ("2. Mills", 2)]


def test_words_of_units_may_have_a_full_stop_behind_their_names():
    lease = "LEASE\n\nARTICLE I. PREMISES\n\nSection 1.01. Demise. A shed is let.\n\nSection 1.02. Yard. See Section 2.01.\n\n"
    lease += "ARTICLE II. RENT\n\nSection 2.01. Base Rent. It is ten marks."
    assert headings(lease) == [
        *(("LEASE", 1), ("ARTICLE I. PREMISES", 2), ("Section 1.01. Demise", 3), ("Section 1.02. Yard", 3)),
        *(("ARTICLE II. RENT", 2), ("Section 2.01. Base Rent", 3)),
    ]
    vertrag = "Mietvertrag\n\n§ 1 Halle.\n\n(1) Sie ist leer.\n\n§ 2 Miete und Nebenkosten.\n\nVgl. § 1 Abs. 1."
    assert headings(vertrag) == [("Mietvertrag", 1), ("§ 1 Halle", 2), ("§ 2 Miete und Nebenkosten", 2)]


def test_a_text_that_cites_its_clauses_may_have_no_empty_lines():
    text = "TERMS\n\n1. Scope\nThey hold for\n2. years.\n2. Packing\nPack it all well.\n2.1 Crates\nThey are of oak.\n"
    text += "3. Freight\nIt is due if clause 2 holds."
    assert headings(text) == [("TERMS", 1), ("1. Scope", 2), ("2. Packing", 2), ("2.1 Crates", 3), ("3. Freight", 2)]
    assert [block.text for block in read_text(text).blocks if not block.level][0] == "They hold for\n2. years."
    assert len(headings(text.replace("clause", "rule of hand"))) == 1


def test_of_headings_and_a_list_of_contents_the_headings_count():
    text = "Looms\n\nContents\n\n1 Weaving 3\n\n1.1 Cards 4\n\n2 Mills 5\n\nWith thanks to all.\n\n"
    text += "1 Weaving\n\nOf cloth.\n\n1.1 Cards\n\nOf paper.\n\n2 Mills\n\nOf stone."
    assert headings(text) == [("Looms", 1), ("1 Weaving", 2), ("1.1 Cards", 3), ("2 Mills", 2)]
    # In each schedule, numbers begin anew.
    text = "Looms\n\nSCHEDULE 1\n\n1. Kinds\n\nOf oak.\n\nSCHEDULE 2\n\n1. Kinds\n\nOf paper."
    page = read_text(text)
    assert [block.anchors for block in page.blocks if block.text == "1. Kinds"] == [("1-kinds",), ("1-kinds-1",)]


def test_numbers_below_a_chapter_may_begin_with_its_number():
    text = "Looms\n\nChapter 3\n\nMethods\n\n3.1 Cards\n\nOf paper.\n\n3.1.1 Holes\n\nThey lift.\n\n"
    text += "Chapter 4\n\n3.2 Mills\n\nOf stone."
    assert headings(text) == [("Looms", 1), ("Chapter 3 Methods", 2), ("3.1 Cards", 3), ("3.1.1 Holes", 4), ("Chapter 4", 2)]


def test_units_without_a_name_may_have_the_number_of_another_in_each_unit():
    text = "Looms\n\nCHAPTER I\nCards\n\nSECTION 1\n\nOf paper.\n\nCHAPTER II\nMills\n\nSECTION 1\n\nOf stone."
    found = [("Looms", 1), ("CHAPTER I Cards", 2), ("SECTION 1", 3), ("CHAPTER II Mills", 2), ("SECTION 1", 3)]
    assert headings(text) == found
    # A line above the pages of a section.
    assert headings(f"{text}\n\nSECTION 1\n\nOr wood.") == found


def test_levels_of_headings():
    parts = [
        "Loom law",
        "CHAPTER I",
        "Article 1\nScope",
        "It holds.",
        "Article 2 Words",
        "A loom weaves.",
        "CHAPTER II",
        "Article 3",
        "End",
    ]
    text = "\n\n".join(parts)
    assert [(block.text, block.level) for block in read_text(text).blocks if block.level] == [
        *(("Loom law", 1), ("CHAPTER I", 2), ("Article 1 Scope", 3), ("Article 2 Words", 3)),
        *(("CHAPTER II", 2), ("Article 3 End", 3)),
    ]
    text = "Looms\n\nSECTION 1\n\nArticle 1\n\nIt holds.\n\nSECTION 2\n\nArticle 2\n\nIt holds too."
    assert headings(text) == [("Looms", 1), *(("SECTION 1", 2), ("Article 1", 3), ("SECTION 2", 2), ("Article 2", 3))]
    # A number that comes twice, and a part of what is over.
    text = "Looms\n\nSCHEDULE 1\n\n1. Wool\n\nSoft.\n\n1. Silk\n\nThin.\n\n2. Hemp\n\nHard.\n\n1.1 Cards\n\nOf paper."
    assert headings(text) == [("Looms", 1), ("SCHEDULE 1", 2), ("1. Wool", 3), ("2. Hemp", 3)]
    text = "Looms\n\n1 Looms\n\nThey weave.\n\n1.1 Parts\nA beam.\n\n1.2 Cards\n\nOf paper.\n\n2 Mills\n\nThey grind."
    assert [(block.text, block.level) for block in read_text(text).blocks if block.level] == [
        *(("Looms", 1), ("1 Looms", 2), ("1.1 Parts", 3), ("1.2 Cards", 3), ("2 Mills", 2)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        # Items, sentences, one line alone, numbers that begin anew, what goes on.
        "1. Wool\n2. Silk\n3. Hemp",
        "Buy these.\n\n1. Wool\n\n2. Silk\n\n3. Hemp\n\nThank you.",
        "1. Looms weave.\n\n2. Mills grind.\n\nEnd",
        "A note.\n\n3. Looms\n\nThey weave.",
        "Rules.\n\n1. Copies of the cards must keep the\n   mark of the maker.\n\n2. Looms must have that of\n   the owner.",
        "Contents\n\n1. Looms ..... 1\n1.1 Their cards ..... 1\n\n2. Mills . . . . 2\n2.1 Their stones ..... 3",
        "A note.\n\n1. Wool\nis soft\n\n1. Silk\n\nis not",
        "See these.\n\n1. looms\n\nThey weave.\n\n2. mills\n\nThey grind.",
        "1801: it begins.\n\n404 Not Found\n\nNo page.",
        "See these.\n\nArticle 1 of the act holds.\n\nArticle 2 holds too.",
    ],
)
def test_lines_with_numbers_that_are_no_headings(text):
    page = read_text(text)
    assert not any(block.level for block in page.blocks if block.text != page.title)
