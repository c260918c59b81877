"""Anchors of headings."""

from __future__ import annotations

import re
from unicodedata import category

from graph_retrievers.graph.words import composed

# "Heading {#anchor}" of Pandoc and Docusaurus, and "{: #anchor }" of MkDocs, behind the last brace.
_ANCHOR = re.compile(r"\{:?[^{}#]*+#([^\s{}]++)[^{}]*+\}[ \t#]*\Z")
_MARK = re.compile(r"[^\w -]")


def slug(heading: str) -> str:
    """Return GitHub's anchor of a heading: lower case, hyphens for spaces, no punctuation.

    >>> slug("What? A *loom*: part_1")
    'what-a-loom-part_1'
    """
    text = _MARK.sub(_kept, composed(heading.strip()).lower())
    return text.replace(" ", "-")


def _kept(mark: re.Match[str]) -> str:
    # Some scripts write vowels as marks.
    return mark[0] if category(mark[0]).startswith("M") else ""


def letters_of(heading: str) -> str:
    """Return the letters and digits of a heading or an anchor alone, in lower case.

    Obsidian writes a space for most marks in the heading of a link, and GitHub nothing.

    >>> letters_of("Input/output: [[Cards|cards]]"), letters_of("Input output Cards cards"), letters_of("input-output-cards-cards")
    ('inputoutputcardscards', 'inputoutputcardscards', 'inputoutputcardscards')
    """
    return slug(heading).replace("-", "").replace("_", "")


def split_anchor(heading: str) -> tuple[str, str]:
    """Return a heading without the anchor after it, and this anchor, "" if there is none.

    >>> split_anchor("Cards {.wide #holes}"), split_anchor("Cards")
    (('Cards', 'holes'), ('Cards', ''))
    """
    match = _ANCHOR.search(heading, max(heading.rfind("{"), 0))
    return (heading[: match.start()].rstrip("# \t"), match[1]) if match else (heading, "")
