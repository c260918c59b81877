"""RFCs in plain text: title, sections, and what printed pages add."""

import pytest

from graph_retrievers.construction import Links, NumberedReferences, build_edges
from graph_retrievers.construction.rfcs import is_rfc, read_rfc
from tests.pages import read

RFC = """



Network Working Group                                           A. Loom
Request for Comments: 9801                                   Calder Labs
Category: Standards Track                                      May 2025


              The Punched Card
              Transfer Protocol

Abstract

   This document defines a protocol.

Table of Contents

   1.  Introduction ....................................................2
       1.1.  Terminology . . . . . . . . . . . . . . . . . . . . . . . .2

1.  Introduction

   Looms read cards (Section 2.1).  See Section 3 of RFC 9802.

1.1.  Terminology

   A card has holes.



Loom                         Standards Track                    [Page 2]
\f
RFC 9801                         PCTP                           May 2025


2.  Connection

   1.  Open it.

   2.  Close it.

2.1.  Opening

   A loom sends HELLO, see Appendix A.

Appendix A.  Example

   HELLO

Loom                         Standards Track                    [Page 3]
"""


def test_an_rfc_has_a_title_and_sections():
    page = read_rfc(RFC)
    assert page.title == "RFC 9801: The Punched Card Transfer Protocol"
    assert [(block.text, block.level) for block in page.blocks if block.level] == [
        (page.title, 1),
        ("Abstract", 2),
        ("1. Introduction", 2),
        ("1.1. Terminology", 3),
        ("2. Connection", 2),
        ("2.1. Opening", 3),
        ("Appendix A. Example", 2),
    ]
    texts = [block.text for block in page.blocks if not block.level]
    assert texts[1:] == [
        *("This document defines a protocol.", "Looms read cards (Section 2.1).  See Section 3 of RFC 9802.", "A card has holes."),
        *("1.  Open it.", "2.  Close it.", "A loom sends HELLO, see Appendix A.", "HELLO"),
    ]
    assert page.blocks[-2].anchors == ("appendix-a-example", "appendix-A")


@pytest.mark.parametrize(
    "lines",
    [
        ["   1.  Introduction . . . . . . . . . . . .   2", "     1.1.  Terminology  . . . . . . . . . .  13"],
        ["   1.  Introduction", "     1.1.  Terminology", "", "   Appendix A.  Example"],
    ],
)
def test_contents_with_numbers_of_pages_apart_or_without_are_left_out(lines):
    begin, end = RFC.index("   1.  Introduction"), RFC.index("1.  Introduction\n\n   Looms")
    assert read_rfc(RFC[:begin] + "\n".join(lines) + "\n\n" + RFC[end:]).blocks == read_rfc(RFC).blocks


def test_references_and_links_lead_to_sections_of_rfcs(tmp_path):
    other = RFC.replace("9801", "9802").replace("2.  Connection", "3.  Codes").replace("2.1.", "3.1.")
    link = "[it](rfc9801.txt#section-2.1)"
    nodes = read(tmp_path, {"rfc9801.txt": RFC, "rfc9802.txt": other, "a.md": f"# A\n\n{link}"}, max_tokens=20)
    by_text = {node.id: node.text for node in nodes}
    ((_, goal, _),) = build_edges(nodes, Links(field="links"))
    assert "A loom sends HELLO" in by_text[goal] and goal.startswith("rfc9801.txt")
    found = {(by_text[source], target) for source, target, _ in build_edges(nodes, NumberedReferences()) if "9801" in source}
    (intro,) = [text for name, text in by_text.items() if name.startswith("rfc9801") and "Looms read cards" in text]
    assert (intro, goal) in found and any(text == intro and target.startswith("rfc9802") for text, target in found)


def test_what_is_no_rfc():
    assert not is_rfc("Notes\n\nRequest for Comments: please answer.") and not is_rfc("See RFC 9801.")
    assert read_rfc("Internet-Draft\n\ntext").title == ""
