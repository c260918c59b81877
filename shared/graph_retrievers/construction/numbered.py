"""What carries a number: documents, headings, captions and parts of texts, as a tree over the chunks of a corpus."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from operator import eq
from pathlib import PurePath

from graph_retrievers.construction.dates import Day, day_at, first_day
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.construction.numbers import CAPTIONED
from graph_retrievers.construction.references import (
    CODE,
    DATED,
    MINUTES,
    PLAIN_NUMBER,
    RANKS,
    Reference,
    is_heading,
    kind_of,
    numbered_heading,
    words,
)
from graph_retrievers.construction.slugs import slug, split_anchor
from graph_retrievers.construction.spec import CorpusNodes
from graph_retrievers.construction.titles import file_title, title_lines
from graph_retrievers.graph.addresses import page_address
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.languages import inflected, main_languages, stem_of

# Most headings around a chunk; most parts of a unit in which further parts are looked for.
_DEEPEST, _MOST_PARTS = 20, 50
# Most characters of a heading; most words of the name of a document, and letters that it has at least.
_LONGEST, _MOST_WORDS, _FEWEST_LETTERS = 200, 12, 3
# Most characters of a heading that nothing marks as one.
_SHORT = 80
_LINE = re.compile(r"^[ \t>*‘“„«\"|-]*(?=\S)", re.MULTILINE)
# A Markdown heading in the first characters of a page, where front matter may be.
_HEADING, _BEGINNING = re.compile(r"^#\s+(\S.*?)\s*#*$", re.MULTILINE), 2_000
_MARKS, _PRINTED = re.compile(r"#+\s+"), re.compile(r"page=\d")
# "Table 3: ..."; "Table 3 shows" refers to it.
_CAPTION = re.compile(
    r"(?P<word>[^\W\d_]+\.?)\s(?P<number>(?:[A-Z][.-]?)?\d{1,4}(?:[.-]\d{1,4})*[a-z]?|[IVXLCDM]{1,7})(?=\s?[:–—|]|\.\s|\s*$)"
)
_LABEL = re.compile(
    r"(?P<written>\(?(?P<bracket>\d{1,3}[a-z]{0,2}|[a-z]{1,2}|[ivx]{1,5})\)|(?P<dotted>\d{1,3}[a-z]?(?:\.\d{1,3})*)\.|"
    r"(?P<deep>\d{1,3}(?:\.\d{1,3})+))(?:\s|$)"
)
# Forms of "2." and of "2.1".
_DOTTED, _DEEPER = "0.", "1."
# Paragraphs of Korean laws: "①" to "⑳".
_CIRCLED = "".join(map(chr, range(0x2460, 0x2474)))
_NAME_WORD = re.compile(r"\w+(?:[-–]\w+)*")
_ACT_NUMBER = re.compile(r"(\d(?<![\w/.]\d)\d{0,3}/\d{1,4})(?:/[A-Z]{2,8})?(?![\w/])")
# Units that are often pages of their own, and words that begin names written small.
_PAGES, _SMALL = ("article", "§", "annex", "chapter"), frozenset(words("small"))
_DOCUMENT = re.compile(r"\W*(?P<word>[^\W\d_]+)[\s_-]{0,2}0*(?P<number>\d{1,6}(?:-\d{1,3})*)(?![\w/])")


@dataclass(eq=False, slots=True)
class Unit:
    """What carries a number: a document, a unit with a heading, a caption, or a part or bare number, whose kind is "".

    `first` and `last` are the places that it covers: the chunks of all documents are numbered in the order of their pages. `depth`
    is that of its heading, 0 for a part, and `label` is the form of the number of a part. `parts` are those of its parts that have
    the kind "", by number, and `members` all of them in order. It has the place `order` in `series`: the parts of the same unit, or
    the units of its kind in the document. `siblings` are the parts of the same list: a unit may have a second list from (a) on.
    Those of its first list are the `parts` of what is around it.
    """

    kind: str
    number: str
    first: int
    last: int
    around: Unit | None = None
    depth: int = 0
    label: str = ""
    order: int = 0
    parts: dict[str, Unit] = field(default_factory=dict)
    members: list[Unit] = field(default_factory=list)
    series: list[Unit] = field(default_factory=list)
    siblings: dict[str, Unit] | None = None

    def chain(self) -> Iterator[Unit]:
        """Yield the unit and those around it, from inside to outside; the last one is the document."""
        unit: Unit | None = self
        while unit is not None:
            yield unit
            unit = unit.around

    def document(self) -> Unit:
        """Return the document that the unit is in."""
        return list(self.chain())[-1]

    def headed(self) -> Unit:
        """Return the innermost unit with a word in its heading around the unit, or itself; else the document."""
        return next(unit for unit in self.chain() if unit.kind)

    def take(self, series: list[Unit]) -> None:
        """Take the next place in a list of units."""
        self.order, self.series = len(series), series
        series.append(self)

    def part(self, number: str) -> Unit | None:
        """Return the part with a number, also one that is inside the only part with such a part; None if there is none."""
        number = number.casefold()
        if number in self.parts:
            return self.parts[number]
        if "." in number and (outer := self.part(number.rpartition(".")[0])) is not None:
            return outer.parts.get(number)
        inside = [part.parts[number] for part in self.members[:_MOST_PARTS] if number in part.parts]
        return inside[0] if len(inside) == 1 else None


class Numbered:
    """The units of a corpus by their numbers, and its documents by their names.

    A document is a page, or all nodes without an address. If each unit is a page, their folder stands for the document.

    Attributes
    ----------
    rows : list of int
        The row of the node at each place.
    headings : dict of int to str
        Headings that begin at a place and that its text does not repeat, without their numbers.
    count : int
        How many units with headings or captions, and documents with numbers, there are.
    names : DocumentNames
    """

    def __init__(self, corpus: CorpusNodes) -> None:
        self.rows: list[int] = []
        self.headings: dict[int, str] = {}
        self.count = 0
        self.names = DocumentNames(main_languages([node.text for node in corpus.nodes]))
        self._units: dict[tuple[Hashable, str, str], list[Unit]] = defaultdict(list)
        self._unit_lists: dict[tuple[Unit, str], list[Unit]] = defaultdict(list)
        self._starts: list[tuple[list[int], list[Unit]]] = []
        self._folders: dict[Unit, str] = {}
        self._titled: dict[tuple[str, str], Unit] = {}
        pages = corpus.pages(page_address(node.metadata) or "\0" for node in corpus.nodes).rows
        for address, rows in pages.items():
            document = Unit("document", "", len(self.rows), len(self.rows) + len(rows) - 1)
            self._name(
                document, address.strip("\0"), corpus.nodes[rows[0]], "\n\n".join(corpus.nodes[row].text for row in rows[:2])
            )
            walk = _Walk(document, self._add, self.headings, paged=bool(address.strip("\0")))
            for row in rows:
                self._starts.append(walk.read(corpus.nodes[row], len(self.rows)))
                self.rows.append(row)

    def at(self, place: int, offset: int) -> Unit:
        """Return the innermost unit around a character of the chunk at a place."""
        starts, units = self._starts[place]
        return units[bisect_right(starts, offset) - 1]

    def begins(self, place: int, start: int, end: int) -> bool:
        """Return whether a heading, a caption or a part begins between two characters of the chunk at a place."""
        starts, _ = self._starts[place]
        # The first one is the beginning of the text, whatever is there.
        return bisect_left(starts, start, 1) < bisect_left(starts, end, 1)

    def find(self, scope: Hashable, kind: str, number: str) -> list[Unit]:
        """Return the units of a kind with a number in a document or a folder, in order; a heading "4.2 Setup" is a section."""
        number = number.casefold()
        units = self._units.get((scope, kind, number), [])
        return units if units or kind not in ("section", "chapter") else self._units.get((scope, "", number), [])

    def documents(self, kind: str, number: str) -> list[Hashable]:
        """Return the documents in which a unit of a kind has a number, as :meth:`find` finds it."""
        return [
            scope
            for scope in {scope: None for scope, *_ in self._units}
            if isinstance(scope, Unit) and self.find(scope, kind, number)
        ]

    @property
    def has_sections(self) -> bool:
        """Whether headings have the sign "§"."""
        return any(kind == "§" for _, kind, _ in self._units)

    def in_folder(self, document: Unit, kind: str, number: str) -> list[Unit]:
        """Return the only unit of a kind with a number in the folder of a document, whose pages may be one manual or law.

        It is a table, a figure or a section such as 4.2, or a unit that may be a page where the page itself has no more than one.
        """
        is_single = kind in CAPTIONED or "." in number or (kind in _PAGES and len(self._unit_lists[document, kind]) <= 1)
        units = self.find(self._folders[document], kind, number) if is_single else []
        if kind == "chapter":
            # The heading "2 History" is a chapter if a page begins with it.
            units = [unit for unit in units if unit.kind or unit.first == unit.document().first]
        return units if len(units) == 1 else []

    def _add(self, unit: Unit) -> None:
        document, number = unit.document(), unit.number.casefold()
        self.count += 1
        self._units[document, unit.kind, number].append(unit)
        if unit.kind:
            unit.take(self._unit_lists[document, unit.kind])
        if folder := self._folders[document]:
            self._units[folder, unit.kind, number].append(unit)

    def _name(self, document: Unit, address: str, first_node: Node, text: str) -> None:
        """Add the names and numbers of a document: those of its title, its file and its folder; `text` is its beginning."""
        folder = PurePath(address).parent.as_posix() if address else ""
        self._folders[document] = folder
        title = next(iter(heading_path(first_node)), "") or first_node.title
        if title in ("", PurePath(address).name):
            # Loaders of LlamaIndex give the name of the file.
            title = _first_title(text) or title
        file = file_title(address) if address else ""
        first = self._titled.setdefault((folder, title), document)
        for name in (title, *short_names(title)):
            # Pages with one title, such as the sections of a law, have it together.
            self.names.add(name, folder if folder and first is not document else document, instead_of=first)
        self.names.add(file, document)
        self.names.add(PurePath(folder).name, folder)
        beginning = first_node.text[:_LONGEST]
        if any(map(MINUTES.search, (title, file, beginning.partition("\n")[0]))):
            self.names.add_minutes((file, title, beginning), document)
        for number in _ACT_NUMBER.findall(title[:_LONGEST]):
            self.names.numbers.setdefault(("act", number), document)
        for name in (title, file):
            match = _DOCUMENT.match(name)
            if match and kind_of(match["word"]) == "document":
                key = match["word"].casefold(), match["number"]
                self.count += key not in self.names.numbers
                self.names.numbers.setdefault(key, document)


class DocumentNames:
    """Documents, and folders, by their names in any form of their words, and by their numbers.

    `numbers` has ("act", "2016/679") and ("rfc", "2119").
    """

    def __init__(self, language: str) -> None:
        self.numbers: dict[Hashable, Hashable] = {}
        self._minutes: list[tuple[Day, Hashable]] = []
        self._documents: dict[tuple[str, ...], Hashable] = {}
        self._lengths: dict[str, set[int]] = defaultdict(set)
        self._stem: Callable[[str], str] = stem_of(inflected(language)) if inflected(language) else str

    def add(self, name: str, document: Hashable, instead_of: Hashable = None) -> None:
        """Add a name; the first document with a name has it, unless it is the one that is given."""
        key = self._key(_NAME_WORD.findall(name))
        if document and (sum(map(str.isalpha, "".join(key))) >= _FEWEST_LETTERS or CODE.fullmatch(name)):
            if self._documents.setdefault(key, document) is instead_of:
                self._documents[key] = document
            self._lengths[key[0]].add(len(key))

    def add_minutes(self, texts: Iterable[str], document: Hashable) -> None:
        """Add the day of minutes, the first that some texts name."""
        day = next(filter(None, map(first_day, texts)), None)
        if day is not None:
            self._minutes.append((day, document))

    def document(self, reference: Reference) -> Hashable:
        """Return the document that a reference names; None for one that the corpus does not have."""
        document = reference.document
        return self.numbers.get(document) if isinstance(document, tuple) else document

    def at(self, text: str, start: int) -> Hashable:
        """Return the document whose name begins at a place of a text, the longest name first; None if there is none."""
        if self._minutes and (dated := DATED.match(text, start)) and (day := day_at(text, dated.end())):
            documents = [document for other, document in self._minutes if day.may_be(other)]
            return documents[0] if len(documents) == 1 else None
        end = start + 10 * _MOST_WORDS
        first = _NAME_WORD.match(text, start, end)
        lengths = self._lengths.get(self._key([first[0]])[0]) if first else None
        if not lengths:
            return None
        tokens = [match[0] for match in islice(_NAME_WORD.finditer(text, start, end), _MOST_WORDS)]
        if text[start - 1 : start] == "「":
            # Such brackets have the whole name in them.
            lengths = lengths & {len(_NAME_WORD.findall(text[start : text.find("」", start)]))}
        for length in sorted(lengths, reverse=True):
            document = self._documents.get(self._key(tokens[:length]))
            # Words in small letters, such as "setup", are not a name unless they begin like one, as "loi sur les cartes" does; some
            # scripts have no small letters.
            is_name = any(letter.isalpha() and not letter.islower() for letter in "".join(tokens[:length]))
            if document is not None and (is_name or (length > 1 and tokens[0].casefold() in _SMALL)):
                return document
        return None

    def _key(self, tokens: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._stem(word.casefold()) for word in tokens[:_MOST_WORDS])


def _first_title(text: str) -> str:
    """Return the title with which a page begins that a loader of text has read: a Markdown heading, or its first line."""
    if heading := _HEADING.search(text[:_BEGINNING]):
        return split_anchor(heading[1])[0]
    lines = text.lstrip("\n")
    return lines.partition("\n")[0].strip() if title_lines(lines.partition("\n\n")[0], alone=False) else ""


def short_names(title: str) -> list[str]:
    """Return shorter names of a document: without what is in brackets, what is in them, and by initials.

    >>> short_names("Artificial Intelligence Act (Regulation (EU) 2024/1689)")
    ['Artificial Intelligence Act', 'Regulation (EU) 2024/1689', 'AIA', 'AI Act']
    """
    base, bracket, inside = title.partition(" (")
    names = [base, inside.removesuffix(")")] if bracket and inside.endswith(")") else []
    names += [code[0]] if (code := CODE.match(title)) else []
    tokens = base.split()
    if 3 <= len(tokens) <= 6 and all(word[0].isupper() for word in tokens):
        initials = "".join(word[0] for word in tokens)
        names += [initials, f"{initials[:-1]} {tokens[-1]}"]
    return names


class _Walk:
    """A walk through the chunks of a document, with the units that are open at the place that it reached."""

    def __init__(self, document: Unit, add: Callable[[Unit], None], headings: dict[int, str], *, paged: bool) -> None:
        self._add, self._headings, self._paged = add, headings, paged
        self._open = [document]
        self._path: tuple[str, ...] = ()

    def read(self, node: Node, place: int) -> tuple[list[int], list[Unit]]:
        """Read the chunk at a place, and return where in its text units begin, ascending, and the innermost unit from there."""
        text = node.text
        # A title is the heading of a chunk without others, unless it only begins with a number, as names of works do.
        path = heading_path(node)[:_DEEPEST] or ((node.title,) if node.title and not PLAIN_NUMBER.match(node.title) else ())
        anchor_names = node.metadata.get("anchors")
        # Anchors such as "page=3" of a PDF are not those of headings.
        anchors = frozenset(
            name for name in map(str, anchor_names if isinstance(anchor_names, (list, tuple)) else ()) if not _PRINTED.match(name)
        )
        line_starts = [line.end() for line in _LINE.finditer(text)]
        lines = [(start, text[start : start + _LONGEST].partition("\n")[0].rstrip()) for start in line_starts]
        shared_depth = sum(1 for _ in takewhile(bool, map(eq, path, self._path)))
        if path != self._path:
            self._close(lambda unit: unit.depth > shared_depth)
            self._path = path
        texts = {line.strip("# \t") for _, line in lines} if shared_depth < len(path) else set()
        for depth, heading in enumerate(path[shared_depth:], shared_depth + 1):
            if heading not in texts and (end := self._heading(heading, depth, place)):
                self._headings[place] = f"{self._headings.get(place, '')}{heading[end:]}\n"
        starts, units = [0], [self._open[-1]]
        for number, (start, line) in enumerate(lines):
            neighbors = [near for _, near in (*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2])]
            if self._begins(line, neighbors, place, anchors):
                starts.append(start)
                units.append(self._open[-1])
            elif number == 0:
                # What begins further below covers the place from there on.
                self._extend(place)
        return starts, units

    def _begins(self, line: str, neighbors: Sequence[str], place: int, anchors: frozenset[str]) -> bool:
        """Add the unit whose heading, caption or number begins a line, and return whether there is one.

        `neighbors` are the lines before and behind it.
        """
        marks = _MARKS.match(line)
        heading = split_anchor(line[marks.end() :])[0] if marks else line
        if (numbering := numbered_heading(heading)) is not None:
            is_known = heading in self._path or (len(heading) < _LONGEST and bool(anchors) and slug(heading) in anchors)
            # A line of code may be "# 1. Run it".
            is_known = is_known or (marks is not None and (numbering[0] != "" or "." in numbering[1]))
            # In a page without other headings, such as an RFC, a line that stands alone may be one.
            is_plain = self._paged and len(self._path) < 2 and not any(unit.kind for unit in self._open[1:])
            if is_known or (not anchors and (is_heading(heading) or (is_plain and _stands_alone(heading, neighbors)))):
                depth = self._path.index(heading) if heading in self._path else len(self._path)
                return bool(self._heading(heading, depth + 1, place))
        if (caption := _CAPTION.match(line)) and kind_of(caption["word"]) in CAPTIONED:
            self._add(Unit(kind_of(caption["word"]), caption["number"], place, place, self._open[-1]))
            self._extend(place)
            return True
        if line[:1] in _CIRCLED and line:
            self._part(str(_CIRCLED.index(line[0]) + 1), "circled", place)
            return True
        label = _LABEL.match(line)
        if label is not None:
            self._part(label["bracket"] or label["dotted"] or label["deep"], label["written"], place)
        return label is not None

    def _heading(self, heading: str, depth: int, place: int) -> int:
        """Open the unit of a heading, and return the end of its number; 0 if it has none."""
        numbering = numbered_heading(heading)
        if numbering is None:
            return 0
        kind, number, end = numbering
        level = depth, _rank(kind, number)
        self._close(lambda unit: not unit.depth or (unit.depth, _rank(unit.kind, unit.number)) >= level or unit.kind == kind != "")
        unit = Unit(kind, number, place, place, self._open[-1], depth, "" if kind else "heading")
        self._opened(unit, place)
        self._add(unit)
        return end

    def _part(self, number: str, spelling: str, place: int) -> None:
        """Open a part; parts whose numbers are written in the same form are beside each other."""
        form = spelling.replace(number, "1" if number[0].isdigit() else "a" * len(number))
        if "." in spelling:
            form = f"{number.count('.')}."
        elif set(number) <= set("ivx") and not any(unit.label == form and _follows(unit.number, number) for unit in self._open):
            form = spelling.replace(number, "i")
        if form == _DOTTED and not any(unit.label == form for unit in self._open):
            # "2." behind "1.3" is the next clause, and "1." is an item of it.
            self._close(lambda unit: unit.label == _DEEPER and _is_next(unit.number, number))
        self._close(lambda unit: unit.label == form)
        self._opened(Unit("", number, place, place, self._open[-1], 0, form), place)

    def _opened(self, unit: Unit, place: int) -> None:
        if not unit.kind:
            outer, number = self._open[-1], unit.number.casefold()
            siblings = (outer.members and outer.members[-1].siblings) or outer.parts
            unit.siblings = {} if number in siblings else siblings
            unit.siblings[number] = unit
            unit.take(outer.members)
            outer.parts.setdefault(number, unit)
        self._open.append(unit)
        self._extend(place)

    def _extend(self, place: int) -> None:
        for unit in self._open:
            if unit.last < place:
                unit.last = place

    def _close(self, closes: Callable[[Unit], bool]) -> None:
        """Close the outermost open unit that a function chooses, and all inside it, but not the document."""
        for depth, unit in enumerate(self._open):
            if depth and closes(unit):
                del self._open[depth:]
                return


def _rank(kind: str, number: str) -> int:
    return RANKS[kind] if kind else len(RANKS) + number.count(".")


def _follows(before: str, number: str) -> bool:
    """Return whether a letter comes behind another one: "i" after "h" is not a Roman numeral."""
    return len(before) == len(number) == 1 and ord(number) == ord(before) + 1


def _is_next(before: str, number: str) -> bool:
    """Return whether a clause such as 2 comes behind one such as 1.3."""
    first = before.partition(".")[0]
    return first.isdecimal() and number == str(int(first) + 1)


def _stands_alone(line: str, neighbors: Iterable[str]) -> bool:
    """Return whether a line such as "4.2.  Errors" is the heading of what follows, and not an item of a list.

    No line beside it has a number, except that of the section around it or of one inside it.
    """
    match = PLAIN_NUMBER.match(line)
    # "404 Not Found" is not a heading.
    if match is None or "." not in match[0] or len(line) > _SHORT or not line[match.end()].isupper():
        return False
    if line.endswith((".", ",", ";", ":")):
        return False
    numbers = [label["dotted"] or label["deep"] or "" for other in neighbors if (label := _LABEL.match(other))]
    number = match["number"]
    return all(other and (f"{number}.".startswith(f"{other}.") or other.startswith(f"{number}.")) for other in numbers)
