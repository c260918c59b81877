"""Sections that occur on several pages, such as those of a book that is repeated on one page for printing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graph_retrievers.construction.sections import Chunk
from graph_retrievers.graph.tokens import estimate_tokens

# A shorter text is not taken for a copy, as the same words may mean something else on another page.
_LONG, _COPIED = 40, 0.75

_Place = tuple[str, str]
"""A page, and an anchor in it or ""."""

_Holder = tuple[str, dict[str, None]]
"""A page, and the anchors of a chunk of it, in order."""


def without_copies(pages: Mapping[str, Sequence[Chunk]]) -> tuple[dict[str, list[Chunk]], dict[_Place, _Place]]:
    """Return the chunks of each page without copies, and where the pages and anchors of the copies are found instead.

    A chunk of at least 40 tokens is copied if another page, which has fewer chunks or comes first, has its heading and its text.
    A page is a copy if more than half of its chunks are copied, and three quarters of those of 40 tokens. Its copied chunks are
    left out, as are chunks whose lines are all on other pages, with their heading if they are shorter. A section that some pages
    share, such as the common options of the pages on commands, stays on all of them, because it belongs to the subject of its
    page.

    >>> cards, mills = (Chunk(f"About {name}. " * 20, (name,), (name,), (), name, 1) for name in ("cards", "mills"))
    >>> preface = Chunk("For printing.", ("Preface",), ("preface",), (), "preface", 1)
    >>> kept, places = without_copies({"book": [preface, cards, mills], "cards": [cards], "mills": [mills]})
    >>> [chunk.anchor for chunk in kept["book"]], places
    (['preface'], {('book', 'cards'): ('cards', 'cards'), ('book', 'mills'): ('mills', 'mills')})
    """
    holders: dict[tuple[str, str], _Holder] = {}
    lines: dict[str, _Holder] = {}
    chunks_by_page: dict[str, list[Chunk]] = {name: [] for name in pages}
    moves: dict[_Place, _Place] = {}
    for name in sorted(pages, key=lambda name: len(pages[name])):
        chunks = pages[name]
        mask = [estimate_tokens(chunk.text) >= _LONG for chunk in chunks]
        originals = [holders.get(_key(name, chunk)) if is_long else None for chunk, is_long in zip(chunks, mask, strict=True)]
        count = sum(original is not None for original in originals)
        is_copy = 2 * count > len(chunks) and count >= _COPIED * sum(mask)
        originals = [
            (original or _holder(lines, chunk)) if is_copy else None for chunk, original in zip(chunks, originals, strict=True)
        ]
        chunks_by_page[name] = [chunk for chunk, original in zip(chunks, originals, strict=True) if original is None]
        for chunk in chunks_by_page[name]:
            holder = name, dict.fromkeys(chunk.anchors)
            holders.setdefault(_key(name, chunk), holder)
            for line in (*chunk.headings, *chunk.text.split("\n")):
                lines.setdefault(line, holder)
        anchors = {anchor for chunk in chunks_by_page[name] for anchor in chunk.anchors}
        for place, (chunk, original) in enumerate(zip(chunks, originals, strict=True)):
            if original is None:
                continue
            page, page_anchors = original
            for anchor in (*chunk.anchors, *([""] if place == 0 else [])):
                if anchor not in anchors:
                    moves.setdefault((name, anchor), (page, anchor if anchor in page_anchors else next(iter(page_anchors), "")))
    return chunks_by_page, moves


def _key(name: str, chunk: Chunk) -> tuple[str, str]:
    return chunk.headings[-1] if chunk.headings else name, chunk.text


def _holder(lines: Mapping[str, _Holder], chunk: Chunk) -> _Holder | None:
    """Return the holder of the first line of a chunk; None if a line, or the heading of a short chunk, has no holder."""
    holders = [lines.get(line) for line in chunk.text.split("\n") if line.strip()]
    has_heading = estimate_tokens(chunk.text) >= _LONG or not chunk.headings or chunk.headings[-1] in lines
    return holders[0] if holders and has_heading and None not in holders else None
