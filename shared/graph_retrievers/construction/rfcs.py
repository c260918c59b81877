"""RFCs and Internet-Drafts in plain text as pages: their sections, without running lines and contents."""

from __future__ import annotations

import re
from textwrap import dedent

from graph_retrievers.construction.pages import Block, Page, plain_lines
from graph_retrievers.construction.slugs import slug

# The header of a file is in this number of its characters; and most lines of a title.
_HEAD, _LINES = 3_000, 5
_HEADER = re.compile(r"^(?:Request for Comments:[ \t]*(\d+)|Internet[- ]Draft\b)", re.MULTILINE | re.IGNORECASE)
_FOOTER = re.compile(r"\[Page \d+\][ \t]*\Z")
_RUNNING = re.compile(r"(?:RFC \d+|Internet[- ]Draft) {2,}", re.IGNORECASE)
_CONTENTS = re.compile(r"(?:\. ?){3,} *\d+[ \t]*\Z")
_CONTENTS_HEADING = "table of contents"
_BLANK = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(r"(?:(?P<number>\d{1,2}(?:\.\d{1,2})*)|(?:Appendix )?(?P<appendix>[A-Z](?:\.\d{1,2})*))\.?[ \t]+(?=\S)")
_UNNUMBERED = re.compile(r"[A-Z][\w' ]{2,50}\Z")


def is_rfc(text: str) -> bool:
    r"""Return whether a text has the header of an RFC or an Internet-Draft.

    >>> is_rfc("Network Working Group        A. Loom\nRequest for Comments: 9801"), is_rfc("See RFC 9801.")
    (True, False)
    """
    return _HEADER.search(text[:_HEAD]) is not None


def read_rfc(text: str) -> Page:
    """Return an RFC, or an Internet-Draft, as a page with a heading for each section.

    Its title is the number of the RFC with the indented paragraph below the header. Sections have the anchors of its HTML too, such
    as ``section-2.1``. The footers and headers of printed pages and the contents are left out.
    """
    header = _HEADER.search(text[:_HEAD])
    parts = [part.strip("\n") for part in _BLANK.split(_without_running_lines(plain_lines(text))) if part.strip()]
    place = next((n for n, part in enumerate(parts[:_LINES]) if _is_indented(part)), None)
    name = " ".join(parts[place].split()) if place is not None else ""
    title = ": ".join(filter(None, [f"RFC {header[1]}" if header and header[1] else "", name]))
    blocks = [Block(title, 1, leads=True)] if title else []
    in_contents = False
    for number, part in enumerate(parts):
        # Newer RFCs list their sections in indented lines, without the numbers of pages.
        in_contents = part.strip().casefold() == _CONTENTS_HEADING or (in_contents and part.startswith("   "))
        if number != place and not in_contents and not all(map(_CONTENTS.search, part.split("\n"))):
            blocks.append(_section(part) or Block(dedent(part)))
    return Page(title, blocks, is_title_stated=bool(name))


def _without_running_lines(text: str) -> str:
    lines: list[str] = []
    is_below_footer = False
    for line in text.replace("\f", "").split("\n"):
        if _FOOTER.search(line):
            is_below_footer = True
        elif is_below_footer and line.strip():
            is_below_footer = False
            lines += [] if _RUNNING.match(line) else [line]
        else:
            lines.append(line)
    return "\n".join(lines)


def _is_indented(part: str) -> bool:
    lines = part.split("\n")
    return len(lines) <= _LINES and all(line.startswith("   ") for line in lines)


def _section(part: str) -> Block | None:
    """Return a paragraph as a heading; None if it is not one."""
    if "\n" in part or part[0].isspace() or part.rstrip().endswith((".", ",", ";", ":")):
        return None
    match = _SECTION.match(part)
    if match is None:
        return Block(part.strip(), 2, leads=True) if _UNNUMBERED.match(part.strip()) else None
    number = match["number"] or match["appendix"]
    anchor = f"{'section' if match['number'] else 'appendix'}-{number}"
    heading = " ".join(part.split())
    return Block(heading, min(2 + number.count("."), 6), (slug(heading), anchor), leads=True)
