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
        ("SCHEDULE 1", 2, ("schedule-1",)),
        ("Schedule 2 - Cards", 2, ("schedule-2---cards",)),
        ("1. Kinds", 3, ("1-kinds",)),
    ]
    assert [block.text for block in page.blocks if not block.level] == [
        "1.1 The hirer pays ten marks a week, see Schedule 1.",
        "1.2 Prices rise under clause 2.1.",
        "2.1 The hire ends after a year:",
        "1. by notice;",
        "2. by return of the loom.",
        "Looms",
        "1. One loom of oak.",
        "Of paper.",
    ]


def test_references_lead_to_the_clauses_below_headings(tmp_path):
    nodes = read(tmp_path, {"hire.txt": CONTRACT}, max_tokens=20)
    held = {node.id: f"{node.title}\n{node.text}" for node in nodes}
    edges = [(held[source], held[target]) for source, target, _ in build_edges(nodes, NumberedReferences())]
    assert len(edges) == 2 and all(": 1. PRICE\n" in source for source, _ in edges)
    assert "SCHEDULE 1\nLooms" in edges[0][1] and ": 2. TERM\n2.1" in edges[1][1]


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
        *(("Loom law", 1), ("CHAPTER I", 2), ("Article 1", 3), ("Article 2 Words", 3), ("CHAPTER II", 2), ("Article 3", 3)),
    ]
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
