"""Links by the name of a page, as Obsidian, Logseq, Dendron and wikis write them, in the text of a note."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from graph_retrievers.construction.slugs import slug

LOGSEQ, DENDRON = "logseq", "dendron"
"""Kinds of folders whose notes are read otherwise than those of Obsidian."""

WIKI_LINK = re.compile(r"(!?)\[\[(?!\s)([^\[\]|\n]*)(?:\|([^\[\]\n]*))?\]\]")
"""``[[Page#Heading|shown]]``, with a mark before it to embed the page or a picture."""

# A tag, if it is not a number; Logseq and Dendron allow full stops within one.
_TAG, _DOTTED = re.compile(r"(?<![^\s(])#([\w/-]+)"), re.compile(r"(?<![^\s(])#([\w/-]+(?:\.[\w/-]+)*)")

# A block of Logseq by its id, and a user in Dendron.
_BLOCK = re.compile(r"\(\(([0-9a-fA-F]{8}-[0-9a-fA-F-]{27})\)\)")
_USER = re.compile(r"(?<![^\s(])@(\w+(?:[.-]\w+)*)")
# A query of Logseq, in a line or several, and an embedded page or block.
_QUERY = re.compile(
    r"^([ \t]*(?:[-*][ \t]+)?)(\{\{query\b.*\}\}|#\+BEGIN_QUERY\b(?:[^#]|#(?!\+))*+#\+END_QUERY)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_EMBED = re.compile(r"\{\{embed[ \t]+(\[\[[^\[\]\n]*\]\]|\(\([^()\n]*\)\))[ \t]*\}\}", re.IGNORECASE)
# A page of a PDF; Obsidian adds the selection there, "page=3&selection=0,1,2,3".
_PRINTED = re.compile(r"page=\d+")
# What may follow the beginning of a part in Dendron: the number of lines to skip, and the end of the part.
_RANGE = re.compile(r"(?:,\d+)?(?::#.*)?$")


class WikiLink(NamedTuple):
    """A link: the address ``[[Page#heading]]``, what a person reads, and whether it embeds the target."""

    address: str
    label: str
    embeds: bool


def wiki_link(match: re.Match[str], kind: str = "") -> WikiLink | None:
    """Return the link of a match of :data:`WIKI_LINK`, None for one that names nothing; `kind` is the kind of the notes.

    Headings become slugs, separated by ``#`` where a link names those around it too; ``^name``, the id of a block, and ``page=3``
    of a PDF are kept.

    >>> wiki_link(WIKI_LINK.match("[[Loom#Parts#The cards|cards]]"))
    WikiLink(address='[[Loom#parts#the-cards]]', label='cards', embeds=False)
    >>> wiki_link(WIKI_LINK.match("[[The cards|tool.loom.cards]]"), "dendron").address
    '[[tool.loom.cards]]'
    """
    # In tables, the bar is escaped.
    target, text = match[2].removesuffix("\\"), (match[3] or "").strip()
    if kind == DENDRON and text:
        target, text = text, target.strip()
    page, _, place = target.strip().partition("#")
    page, place = page.strip(), _RANGE.sub("", place) if kind == DENDRON else place
    parts = [part.strip() for part in place.split("#") if part.strip()]
    if not page and not parts:
        return None
    page_match = _PRINTED.match(parts[-1]) if parts else None
    block = page_match[0] if page_match else parts[-1] if parts and parts[-1].startswith("^") else ""
    fragment = block or "#".join(filter(None, map(slug, parts)))
    names = [page, page_match[0] if page_match else "" if block else parts[-1] if parts else ""]
    return WikiLink(
        f"[[{page}#{fragment}]]" if fragment else f"[[{page}]]", text or " > ".join(filter(None, names)), bool(match[1])
    )


def link_of_address(address: str) -> str:
    """Return the address of an ordinary link of Logseq, such as ``[shown]([[Page]])``, as that of a wiki link; others unchanged."""
    if address.startswith("(("):
        return address.lower()
    if address.startswith("%5B%5B") and address.endswith("%5D%5D"):
        match = WIKI_LINK.fullmatch(unquote(address))
        link = wiki_link(match) if match else None
        return link.address if link else address
    return address


def tags_of(text: str) -> list[str]:
    """Return the tags in a text, without the mark.

    >>> tags_of("A #tool/loom, #1 of 3, (#weaving).")
    ['tool/loom', 'weaving']
    """
    return _tags(_TAG, text)


def _tags(pattern: re.Pattern[str], text: str) -> list[str]:
    return [tag for tag in pattern.findall(text) if not tag.isdecimal()] if "#" in text else []


def links_in_words(text: str, kind: str) -> list[str]:
    """Return the addresses of links without brackets in a text: blocks by their id, and what is a link in this kind of notes.

    >>> links_in_words("A #loom and @ada.", "dendron"), links_in_words("A #loom and @ada.", "logseq")
    (['[[tags.loom]]', '[[user.ada]]'], ['[[loom]]'])
    """
    links = [f"(({name.lower()}))" for name in _BLOCK.findall(text)] if "((" in text else []
    if kind:
        links += links_of_tags(_tags(_DOTTED, text), kind)
    if kind == DENDRON and "@" in text:
        links += [f"[[user.{name}]]" for name in _USER.findall(text)]
    return links


def links_of_tags(tags: Iterable[str], kind: str) -> list[str]:
    """Return the addresses of the pages of tags; an empty list for a kind of notes whose tags have no pages."""
    if not kind:
        return []
    return [f"[[tags.{tag}]]" if kind == DENDRON else f"[[{tag}]]" for tag in tags]


def without_block_links(text: str) -> str:
    """Return a text without links to blocks by their id, which say nothing to a person."""
    return _BLOCK.sub("", text) if "((" in text else text


def without_macros(text: str) -> str:
    r"""Return a text of Logseq with links in place of embedded pages and blocks, and empty lines in place of queries.

    >>> without_macros("- {{query (task TODO)}}\n- {{embed [[Loom]]}}")
    '- \n- [[Loom]]'
    """
    text = _QUERY.sub(lambda match: match[1] + "\n" * match[2].count("\n"), text)
    return _EMBED.sub(r"\1", text)


def property_pages(value: str) -> list[str]:
    """Return the addresses of pages in a property of Logseq such as ``tags``, which separates names by commas.

    >>> property_pages("loom, [[The cards]], #mill")
    ['[[loom]]', '[[The cards]]', '[[mill]]']
    """
    return [f"[[{name}]]" for name in names_in(value)]


def names_in(value: str) -> list[str]:
    """Return the names of a list separated by commas, without brackets and marks of tags; a comma in brackets separates nothing.

    >>> names_in("loom, [[Jan 31st, 2024]]")
    ['loom', 'Jan 31st, 2024']
    """
    parts: Iterable[str] = re.findall(r"(?:\[\[[^\[\]\n]*\]\]|[^,])+", value)
    return [name for part in parts if (name := part.strip().removeprefix("#").removeprefix("[[").removesuffix("]]").strip(" \"'"))]
