"""Plain text as pages: a title, headings with numbers such as those of contracts, and paragraphs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from graph_retrievers.construction.pages import Block, Page, plain_lines
from graph_retrievers.construction.references import OWN, RANKS, any_of, is_heading, numbered_heading, references, words
from graph_retrievers.construction.slugs import slug
from graph_retrievers.construction.titles import title_lines

_BLANK = re.compile(r"\n[ \t]*\n")
_DOTS = re.compile(r"(?:\. ?){3}")
# A short name up to a full stop, and the text behind it.
_SENTENCE = re.compile(r"([^.!?:;]{1,60})\.(?:\s+(\W?[^\Wa-zß-öø-ÿ_].*))?")
# The number of a page behind a heading in a list of contents.
_PRINTED = re.compile(r"[\s.]*\d*\Z")
# Behind a sentence, a line that begins with a number.
_ITEM = re.compile(r"(?<=[.:;!?])[ \t]*\n(?=\S{0,10} ?\d)")
_DEEPEST = 6
# The most by which a number may exceed the one before: larger ones are those of years and pages.
_SKIPPED = 5
# Most letters of words that are small in a title: "Term and Termination".
_SMALL = 3
# Most characters of a name below "Article 12".
_LONGEST_NAME = 200
# The number or the mark of an item of a list.
_MARK = re.compile(r"\(?[0-9A-Za-z]{1,4}[.)]")
_OF = re.compile(rf"\s+{any_of(words('of'))}")
# Kinds by which a text calls bare numbers: "clause 3".
_CALLED = ("section", "paragraph")


class _Heading(NamedTuple):
    """What may be a heading, with the kind of its unit ("" for a bare number), its number and name, and the text below it."""

    text: str
    kind: str
    number: str
    name: str
    below: str


def read_text(text: str) -> Page:
    r"""Return plain text as a page of paragraphs, see :func:`page_of`.

    >>> page = read_text("Jacquard loom\nIt reads punched cards.")
    >>> page.title, [block.text for block in page.blocks]
    ('Jacquard loom', ['Jacquard loom', 'It reads punched cards.'])
    """
    return page_of([Block(part.strip("\n")) for part in _BLANK.split(plain_lines(text)) if part.strip()])


def page_of(paragraphs: Sequence[Block]) -> Page:
    """Return paragraphs as a page, below the first line if that is a title, and with headings.

    :func:`~graph_retrievers.construction.titles.title_lines` defines what counts as a title, and :func:`with_headings` what else
    is a heading.
    """
    first = paragraphs[0].text if paragraphs else ""
    count = title_lines(first, len(paragraphs) == 1) if paragraphs else 0
    # "1 Introduction" may look like a title too.
    number = numbered_heading(first) if count else None
    headed = with_headings(paragraphs) if not count or (number and not number[0]) else []
    if not count or (headed and headed[0].level):
        return Page("", headed)
    lines = first.split("\n")
    title = " ".join(lines[0].split())
    heading, *rest = _parts(paragraphs[0], [title, "\n".join(lines[count:])])
    return Page(title, [replace(heading, level=1, leads=True), *with_headings([*rest, *paragraphs[1:]])])


def with_headings(paragraphs: Sequence[Block]) -> list[Block]:
    """Return paragraphs with headings where lines have numbers, such as "4. Payment" or "SCHEDULE 2".

    A line with a number is a heading if it begins a paragraph and looks like a title, and if there are two such lines or more.
    Bare numbers must count upwards, and most of them must have text below. Of equal ones one is the heading, as a list of contents
    and lines above pages have them too.

    The name of a unit may be in the line below its number, "Article 1" above "Scope", or in the next paragraph.

    Names with a full stop, "1. Price." and "1. Price. It is ten marks.", are like the steps of an instruction. They are headings
    only if no line with such numbers is one without it, and if the text cites one of the numbers ("clause 1") or divides most of
    them ("1.1"). In such a text they need not begin a paragraph.

    Examples
    --------
    >>> def headings(*texts):
    ...     return [(block.text, block.level) for block in with_headings([Block(text) for text in texts])]
    >>> headings("1. Price", "Ten marks.", "2. Term", "A year.")
    [('1. Price', 2), ('Ten marks.', 0), ('2. Term', 2), ('A year.', 0)]
    >>> headings("1. Price. Ten marks.", "2. Term. A year, if clause 1 holds.")
    [('1. Price', 2), ('Ten marks.', 0), ('2. Term', 2), ('A year, if clause 1 holds.', 0)]
    >>> headings("1. Oil it. Take a drop.", "2. Wind it. Turn the key.")
    [('1. Oil it. Take a drop.', 0), ('2. Wind it. Turn the key.', 0)]
    """
    candidates = [_heading(block.text) for block in paragraphs]
    levels = _levels(candidates, paragraphs)
    plain = {heading.kind for place in levels if (heading := candidates[place])} if len(levels) > 1 else set()
    cited = _cited(paragraphs) - plain
    if cited:
        paragraphs = [part for block in paragraphs for part in _parts(block, _ITEM.split(block.text))]
        candidates = [_heading(block.text, cited) for block in paragraphs]
        levels = _levels(candidates, paragraphs)
    if len(levels) < 2:
        return list(paragraphs)
    blocks: list[Block] = []
    slugs: Counter[str] = Counter()
    name_place = -1
    for place, (block, heading) in enumerate(zip(paragraphs, candidates, strict=True)):
        if heading is None or place not in levels:
            blocks += [block] if place != name_place else []
            continue
        first, *rest = _parts(block, [heading.text, heading.below])
        if heading.kind and not heading.name:
            if not rest and place + 1 not in levels:
                name_place, rest = place + 1, list(paragraphs[place + 1 : place + 2])
            first, *rest = _named(first, *rest)
        name = slug(first.text)
        anchor = f"{name}-{slugs[name]}" if slugs[name] else name
        slugs[name] += 1
        blocks += [replace(first, level=levels[place], anchors=(*first.anchors, anchor), leads=True), *rest]
    return blocks


def _named(heading: Block, *text: Block) -> list[Block]:
    """Return the heading of a unit, with its name if that is the first line of the text below, and the text."""
    for block in text:
        line, _, rest = block.text.partition("\n")
        joined = f"{heading.text} {line.strip()}"
        if title_lines(block.text, False, _LONGEST_NAME) == 1 and not _MARK.match(line) and numbered_heading(joined):
            name, *below = _parts(block, [line, rest])
            anchors, links = (*heading.anchors, *name.anchors), (*heading.links, *name.links)
            return [replace(heading, text=joined, anchors=anchors, links=links), *below]
    return [heading, *text]


def _parts(block: Block, texts: Sequence[str]) -> list[Block]:
    """Return a block as several, for each of its texts that is not empty; links are at the end of a text."""
    texts = [text for text in texts if text]
    parts = [replace(block, text=text, anchors=(), links=()) for text in texts]
    parts[0] = replace(parts[0], anchors=block.anchors)
    parts[-1] = replace(parts[-1], links=block.links)
    return parts


def _heading(part: str, cited: Collection[str] = ()) -> _Heading | None:
    """Return the heading with which a paragraph may begin; of kinds that are `cited`, also one with a full stop."""
    line, _, rest = part.partition("\n")
    numbering = numbered_heading(line)
    if numbering is None:
        return None
    kind, number, end = numbering
    name = line[end:].strip()
    if (not kind and not (number[0].isdigit() and name[0].isalpha() and not name[0].islower())) or _DOTS.search(name):
        return None
    # An item of a list may continue in indented lines, and a list of contents has dots before the numbers of pages.
    below = "\n".join(map(str.lstrip, rest.split("\n")))
    if (title_lines(f"{name}\n{below}" if below else name, alone=False) if name else kind) and (not kind or is_heading(line)):
        return _Heading(" ".join(line.split()), kind, number, name, rest)
    sentence = _SENTENCE.fullmatch(name) if kind in cited else None
    if sentence is None or not title_lines(sentence[1], alone=False):
        return None
    below = "\n".join(filter(None, (sentence[2], rest)))
    # A sentence is one of the text, and no name, where more follows, or behind the number of a part such as "1.1".
    if (below or "." in number) and not _is_capital(sentence[1]):
        return None
    return _Heading(f"{' '.join(line[:end].split())} {sentence[1]}", kind, number, sentence[1], below)


def _is_capital(name: str) -> bool:
    """Return whether the words of a name begin with capitals, but for small ones inside."""
    parts = name.split()
    return not parts[-1][0].islower() and all(len(part) <= _SMALL or not part[0].islower() for part in parts)


def _cited(paragraphs: Sequence[Block]) -> set[str]:
    """Return the kinds of units, "" for bare numbers, of which a line has a number that the text cites, or which it divides."""
    numbers: set[tuple[str, str]] = set()
    lines: list[str] = []
    for block in paragraphs:
        for line in block.text.split("\n"):
            kind, number, end = numbered_heading(line) or ("", "", 0)
            lines.append(line[end:])
            if number and not line[end : end + 1].islower():
                numbers.add((kind, number))
    bare = [number for kind, number in numbers if not kind and "." not in number]
    kinds = {""} if 2 * sum(("", f"{number}.1") in numbers for number in bare) > len(bare) else set()
    text = "\n".join(lines)
    for reference in references(text) if numbers else ():
        # "Section 2 of the manual" is not a section of the text.
        if reference.scope in ("", OWN) and reference.steps and (reference.scope or not _OF.match(text, reference.end)):
            kind, number = reference.steps[0]
            for name in (kind, "") if kind in _CALLED else (kind,):
                kinds |= {name} if {(name, number), (name, number.partition(".")[0])} & numbers else set()
    return kinds


def _levels(headings: Sequence[_Heading | None], paragraphs: Sequence[Block]) -> dict[int, int]:
    """Return the level of each heading by its place; bare numbers begin anew in each unit with a name."""
    levels: dict[int, int] = {}
    kinds: list[_Heading] = []
    # Bare numbers in the unit around, and the last of them that is not a part of another.
    run: dict[int, int] = {}
    last_number = ""
    repeated = _repeated(headings, paragraphs)
    for place, heading in enumerate(headings):
        if heading is None or place in repeated:
            continue
        if heading.kind:
            levels |= _with_text(run, headings, paragraphs)
            run, last_number = {}, ""
            while kinds and _rank(kinds[-1]) >= _rank(heading):
                kinds.pop()
            levels[place] = min(2 + len(kinds), _DEEPEST)
            kinds.append(heading)
        elif "." not in heading.number:
            # "3 Methods" above the pages of Chapter 3 is not a heading in it.
            if kinds and kinds[-1][1:3] == ("chapter", heading.number):
                continue
            if int(last_number or -1) < int(heading.number) <= (int(last_number) + _SKIPPED if last_number else inf):
                last_number = heading.number
                run[place] = min(2 + len(kinds), _DEEPEST)
        elif _has_text(headings, paragraphs, place):
            outer = kinds[-1].number if kinds else ""
            if heading.number.startswith(f"{last_number}."):
                run[place] = min(2 + len(kinds) + heading.number.count("."), _DEEPEST)
            elif not last_number and heading.number.startswith(f"{outer}."):
                run[place] = min(1 + len(kinds) + heading.number.count("."), _DEEPEST)
    return levels | _with_text(run, headings, paragraphs)


def _rank(heading: _Heading) -> int:
    """Return the rank of a unit with a name: Article 1 is in Section 1, but Section 1.01 is in Article I."""
    return len(RANKS) if heading.kind == "section" and "." in heading.number else RANKS[heading.kind]


def _repeated(headings: Sequence[_Heading | None], paragraphs: Sequence[Block]) -> set[int]:
    """Return the places of all but one of equal headings: contents have them too, and lines above pages.

    Without a name, they are equal only in the same unit, as "Section 1" may be in each chapter. The first one that has text below
    and no number of a page behind it is the heading, else the last one.
    """
    places: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    units: list[_Heading] = []
    for place, heading in enumerate(headings):
        if heading is not None:
            while heading.kind and units and _rank(units[-1]) >= _rank(heading):
                units.pop()
            name = slug(_PRINTED.sub("", heading.name))
            around = () if heading.kind and name else tuple(unit[1:3] for unit in (units if heading.kind else units[-1:]))
            places[heading.kind, heading.number, name, around].append(place)
            units += [heading] if heading.kind else []
    repeated: set[int] = set()
    for equal in filter(lambda equal: len(equal) > 1, places.values()):
        bare = [place for place in equal if (heading := headings[place]) and not heading.name[-1:].isdecimal()]
        text = (place for place in bare if numbered_heading(_below(headings, paragraphs, place)) is None)
        repeated |= {*equal} - {next(text, (bare or equal)[-1])}
    return repeated


def _with_text(run: dict[int, int], headings: Sequence[_Heading | None], paragraphs: Sequence[Block]) -> dict[int, int]:
    """Return headings with bare numbers if most of those that are not parts of others have text below, else none."""
    whole = [place for place in run if (heading := headings[place]) and "." not in heading.number]
    return run if not whole or 2 * sum(_has_text(headings, paragraphs, place) for place in whole) > len(whole) else {}


def _has_text(headings: Sequence[_Heading | None], paragraphs: Sequence[Block], place: int) -> bool:
    """Return whether what is below a heading is not the next item of a list."""
    heading, line = headings[place], _below(headings, paragraphs, place)
    below = numbered_heading(line)
    return bool(heading and line and (below is None or below[1].count(".") > heading.number.count(".")))


def _below(headings: Sequence[_Heading | None], paragraphs: Sequence[Block], place: int) -> str:
    """Return the line below a heading, "" at the end of the text."""
    heading = headings[place]
    text = heading.below if heading and heading.below else paragraphs[place + 1].text if place + 1 < len(paragraphs) else ""
    return text.partition("\n")[0].strip()
