"""The places on a page to which the fragments of links lead: anchors, and headings by their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import eq
from typing import Generic, NamedTuple, TypeVar

from graph_retrievers.construction.headings import heading_path
from graph_retrievers.construction.pages import Block
from graph_retrievers.construction.slugs import letters_of, slug, split_anchor
from graph_retrievers.graph.corpus_graph import Node

# Headings with the same words that are looked at; characters and words of a first line that may be a heading.
_SAME, _LINE, _WORDS = 1_000, 400, 20

Place = TypeVar("Place")


class Heading(NamedTuple):
    """A heading: its level, its words as a person reads them and as they are written."""

    level: int
    text: str
    source: str = ""


def headings_of(blocks: Iterable[Block]) -> list[Heading]:
    """Return the headings among some blocks, in order."""
    headings = (block for block in blocks if block.level)
    return [Heading(block.level, block.text, (block.source or "").strip().partition("\n")[0].strip("# \t")) for block in headings]


class Outline(Generic[Place]):
    """Headings of a page with their places, found by their letters and digits alone, and by headings around them.

    A heading whose place is None is only around others.

    >>> outline = Outline([(Heading(1, "Looms"), "a"), (Heading(2, "In/out: parts"), "b"), (Heading(1, "Parts"), "c")])
    >>> outline.find("in-out-parts"), outline.find("parts"), outline.find("looms#parts"), outline.find("looms#in out parts")
    ('b', 'c', None, 'b')
    """

    def __init__(self, headings: Iterable[tuple[Heading, Place | None]]) -> None:
        self._places: list[Place | None] = []
        self._keys: list[set[str]] = []
        self._around: list[int] = []
        self._rows: dict[str, list[int]] = {}
        stack: list[tuple[int, int]] = []
        for row, (heading, place) in enumerate(headings):
            while stack and stack[-1][0] >= heading.level:
                stack.pop()
            self._around.append(stack[-1][1] if stack else -1)
            stack.append((heading.level, row))
            self._places.append(place)
            self._keys.append({letters_of(heading.text), letters_of(heading.source)} - {""})
            for key in self._keys[-1]:
                self._rows.setdefault(key, []).append(row)

    def __bool__(self) -> bool:
        """Return whether there are headings."""
        return bool(self._places)

    def find(self, fragment: str) -> Place | None:
        """Return the place of the first heading that a fragment names, below those that it names before; None if there is none."""
        *outer, last = map(letters_of, fragment.split("#"))
        for row in islice(self._rows.get(last, ()), _SAME):
            rest, above = [*outer], self._around[row]
            while rest and above >= 0:
                if rest[-1] in self._keys[above]:
                    rest.pop()
                above = self._around[above]
            if not rest and self._places[row] is not None:
                return self._places[row]
        return None


class Anchors:
    """The chunk of a page that contains each anchor, by row; `chunks` have a row, its anchors, its headings and its node."""

    def __init__(self, chunks: Iterable[tuple[int, Sequence[str], Sequence[Heading], Node]]) -> None:
        self._exact: dict[str, int] = {}
        self._loose: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        headings: list[tuple[Heading, int | None]] = []
        last: dict[str, int] = {}
        counts: Counter[str] = Counter()
        previous: tuple[str, ...] = ()
        for place, (row, anchors, own_headings, node) in enumerate(chunks):
            for name in anchors:
                old_row, loose_name = self._exact.get(name), _loosened(name)
                # Overlapping chunks repeat an anchor; the text after it is in the later one.
                if old_row is None or (last.get(name) == place - 1 and "anchors" not in node.metadata):
                    self._exact[name] = row
                    if self._loose.get(loose_name, old_row) == old_row:
                        self._loose[loose_name] = row
                last[name] = place
            headings += [(heading, row) for heading in own_headings]
            path = heading_path(node)
            same = sum(1 for _ in takewhile(bool, map(eq, previous, path)))
            for depth, heading in enumerate(path[same:], same + 1):
                heading, anchor = split_anchor(heading)
                count, name = counts[slug(heading)], _loosened(heading)
                counts[slug(heading)] += not anchor
                if depth == len(path) and anchor:
                    self._exact.setdefault(anchor, row)
                elif depth == len(path):
                    self._loose.setdefault(f"{name}-{count}" if count else name, row)
                headings.append((Heading(depth, heading), row if depth == len(path) else None))
            previous = path
            if not own_headings and not path:
                for name in _runs(node.text):
                    self._lines.setdefault(name, row)
        self._outline = Outline(headings)

    def get(self, fragment: str) -> int | None:
        """Return the row of the chunk with an anchor or a heading, None if there is none."""
        if (exact := self._exact.get(fragment)) is not None or fragment.startswith("^"):
            return exact
        if not self._outline and letters_of(fragment) in self._lines:
            return self._loose.get(_loosened(fragment), self._lines[letters_of(fragment)])
        if "#" in fragment:
            nested = self._outline.find(fragment)
            return self.get(fragment.rpartition("#")[2]) if nested is None else nested
        loose = self._loose.get(_loosened(fragment))
        return self._outline.find(fragment) if loose is None else loose


def _runs(text: str) -> Iterator[str]:
    """Yield the letters and digits of what may be a heading in the first line of a text whose reader dropped the marks of headings.

    LlamaIndex' reader of Markdown writes two empty lines, and the heading behind those around it.
    """
    line = text.lstrip()[:_LINE].partition("\n")[0]
    words = [word for part in line.split() if (word := letters_of(part))]
    if len(words) > _WORDS:
        return
    ends = range(1, len(words) + 1) if text.startswith("\n\n") else [len(words)]
    yield from ("".join(words[start:end]) for start in range(len(words)) for end in ends if start < end)


def _loosened(anchor: str) -> str:
    return "-".join(filter(None, slug(anchor.casefold().replace("_", "-")).split("-")))
