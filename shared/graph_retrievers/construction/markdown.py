"""Markdown pages as blocks, kept as written, with the addresses they link to."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterator, MutableMapping
from functools import cache
from typing import Any
from unicodedata import category

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.pages import Block, Page, plain_lines
from graph_retrievers.errors import MissingDependencyError
from graph_retrievers.graph.names import composed

__all__ = ["own_anchor", "read_markdown", "reference_definitions", "slug"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(\w[\w-]*:.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# "Heading {#anchor}" of Pandoc and Docusaurus, and "{: #anchor }" of MkDocs, behind the last brace.
_ANCHOR = re.compile(r"\{:?[^{}#]*+#([^\s{}]++)[^{}]*+\}[ \t#]*\Z")
# "{: #anchor }" of MkDocs, behind a word or a paragraph.
_ATTRIBUTES = re.compile(r"\{:[^{}#]*+#([^\s{}]++)[^{}]*+\}")


def read_markdown(text: str, references: MutableMapping[str, Any] | None = None, seen: Counter[str] | None = None) -> Page:
    r"""Return a Markdown page, or a piece of one, as blocks; the text of a block is kept as written.

    Anchors are the slugs of headings as GitHub makes them, ``{#names}`` after headings, ``{: #names }`` anywhere, and those of HTML
    elements. The title is the ``title`` of the front matter, else the first heading.

    Parameters
    ----------
    text : str
    references : mapping, optional, not changed
        Definitions such as ``[name]: address`` from other pieces of the page, as :func:`reference_definitions` gives them.
    seen : Counter, optional
        How often each slug was given in earlier pieces of the page; those of this piece are added.

    Examples
    --------
    >>> page = read_markdown("# Jacquard looms\nSee [cards](cards.md#holes).")
    >>> page.title, [(block.text, block.level, block.anchors, block.links) for block in page.blocks]
    ('Jacquard looms', [('Jacquard looms', 1, ('jacquard-looms',), ()),
                        ('See [cards](cards.md#holes).', 0, (), ('cards.md#holes',))])
    """
    text, title = plain_lines(text), ""
    if front := _FRONT_MATTER.match(text):
        fields = (line.partition(":") for line in front[1].split("\n"))
        title = next((value.strip().strip("\"'") for key, _, value in fields if key == "title"), "")
        text = text[front.end() :]
    lines = text.split("\n")
    blocks: list[Block] = []
    seen = Counter() if seen is None else seen
    for token in _pieces(_parser().parse(text, {"references": ChainMap({}, references or {})})):
        first, last = token["lines"]
        raw = "\n".join(lines[first:last]).rstrip()
        anchors, links = list(token["anchors"]), token["links"]
        level = token["level"]
        if level:
            raw = " ".join(token["heading"].split())
            raw, given = own_anchor(raw)
            if given:
                anchors.append(given)
            else:
                name = slug("".join(token["text"]))
                anchors.append(f"{name}-{seen[name]}" if seen[name] else name)
                seen[name] += 1
        if raw.strip():
            blocks.append(Block(raw, level, tuple(dict.fromkeys(anchors)), tuple(dict.fromkeys(links)), bool(level)))
    heading = next((block.text for block in blocks if block.level), "")
    return Page(title or heading, blocks)


def own_anchor(heading: str) -> tuple[str, str]:
    """Return a heading without the anchor that is written behind it, and this anchor, "" if there is none.

    Examples
    --------
    >>> own_anchor("Cards {.wide #holes}"), own_anchor("Cards")
    (('Cards', 'holes'), ('Cards', ''))
    """
    found = _ANCHOR.search(heading, max(heading.rfind("{"), 0))
    return (heading[: found.start()].rstrip("# \t"), found[1]) if found else (heading, "")


def reference_definitions(text: str) -> dict[str, Any]:
    """Return the definitions ``[name]: address`` of a text, in the form of the parser."""
    env: dict[str, Any] = {}
    _parser().parse(plain_lines(text), env)
    return dict(env.get("references", {}))


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading: lower case, hyphens for spaces, no punctuation.

    Examples
    --------
    >>> slug("What's new in 3.11?")
    'whats-new-in-311'
    """
    # Some scripts write vowels as marks.
    lowered = composed(heading.strip()).lower()
    kept = "".join(char for char in lowered if char.isalnum() or char in " -_" or category(char).startswith("M"))
    return kept.replace(" ", "-")


@cache
def _parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingDependencyError("markdown-it-py is not installed; run pip install markdown-it-py to read Markdown.") from error
    return MarkdownIt("commonmark").enable("table")


def _pieces(tokens: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a page, list items one by one: their lines, level, plain text of a heading, anchors and links."""
    piece: dict[str, Any] | None = None
    for token in tokens:
        # Top-level blocks and the items of top-level lists; what lies deeper belongs to them.
        begins = token.map is not None and (token.type == "list_item_open" and token.level == 1 or token.level == 0)
        if begins and token.type not in ("bullet_list_open", "ordered_list_open"):
            if piece is not None:
                yield piece
            level = int(token.tag[1]) if token.type == "heading_open" else 0
            piece = {"lines": token.map, "level": level, "text": [], "heading": "", "anchors": [], "links": []}
        if piece is None:
            continue
        if token.type == "inline" and piece["level"]:
            piece["heading"] += token.content
        for part in [token, *(token.children or ())]:
            if part.type == "link_open":
                piece["links"].append(str(part.attrs.get("href", "")))
            elif part.type in ("html_inline", "html_block"):
                for block in read_html(part.content, piece=True).blocks:
                    piece["anchors"].extend(block.anchors)
                    piece["links"].extend(block.links)
            elif part.type in ("text", "code_inline"):
                piece["text"].append(part.content if piece["level"] else "")
                piece["anchors"] += _ATTRIBUTES.findall(part.content) if part.type == "text" else []
    if piece is not None:
        yield piece
