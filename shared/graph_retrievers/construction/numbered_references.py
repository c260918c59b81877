"""Edges from texts to what they cite by number: articles, sections, paragraphs, annexes, tables, standards."""

from __future__ import annotations

import logging
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from graph_retrievers.arguments import typed
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.numbered import Numbered, Unit
from graph_retrievers.construction.numbers import CAPTIONED, HEADED, STYLES
from graph_retrievers.construction.references import NAMED, OTHER, Reference, references
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.graph.addresses import page_address
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.file_endings import HTML

__all__ = ["NumberedReferences"]

logger = logging.getLogger(__name__)

# Numbers of units, below which they are chance.
_FEWEST = 3
# Passages of a unit that are all meant; units of a range, or that one reference may mean; unresolved references that are shown.
_ALL, _MOST, _SHOWN = 5, 50, 10
# Units with one number in a unit that are looked at.
_READ = 1_000
# Characters of a row of a table on each side of a reference.
_ROW = 1_000
# Characters of a sentence on each side of a reference; passages of a unit with a word, above which the word is not rare in it.
_SENTENCE, _COMMON = 300, 50
_WORD, _END = re.compile(r"[^\W\d_]{4,}"), re.compile(r"[.;:]\s|\n")
_QUESTION_WORD = re.compile(r"\w+")
# How German says "§ 87".
_SPOKEN = re.compile(r"\bParagraph(?:en)?\s(?=\d)")
_AMENDS = tuple(phrase for style in STYLES for phrase in style.amends.split("|") if phrase)
# Units of laws, which amend others; elsewhere "is amended" says nothing about what follows.
_AMENDING = ("article", "§", "annex")
_CELL = " | "
# A passage that no number marks in a text.
_UNMARKED = "sentence"
_ACT_NUMBER = re.compile(r"(?<![\w/.])(\d{1,4}/\d{1,4})(?![\w])")


@dataclass(frozen=True)
class ReferenceCounts:
    """What became of the references by number in a corpus; ``print`` shows it as text.

    Attributes
    ----------
    found : int
        References to units of the corpus.
    around : int
        References to what they are in, such as "paragraph 2" in paragraph 2; they give no edge.
    outside : int
        References to documents that the corpus does not have.
    amended : int
        References in the text of another document that an amendment quotes; they give no edge.
    unresolved : int
        References to numbers that nothing in the corpus carries.
    examples : tuple of (str, str)
        The id of the node and the words of the first ten of the unresolved ones.
    """

    found: int = 0
    around: int = 0
    outside: int = 0
    amended: int = 0
    unresolved: int = 0
    examples: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the counts, and the examples in lines below."""
        line = f"found {self.found:,}, to what is around them {self.around:,}, to other documents {self.outside:,}, "
        line += f"in amendments {self.amended:,}, unresolved {self.unresolved:,}"
        return "\n".join([line, *(f"  {words} in {node}" for node, words in self.examples)])


class NumberedReferences(EdgeSpec):
    r"""Edges from texts to what they cite by number, within a document and across documents.

    What carries a number is read from headings ("Article 17 Right to erasure", "§ 14", "Annex III", "4.2 Setup"), captions of
    tables and figures, lines that begin with a number ("2.", "(2)", "(a)"; in a text without headings also "3.1. Opening"), and
    titles and files of documents ("PEP 8", "rfc2119.txt", "Regulation (EU) 2016/679"). References are read with their parts, lists
    and ranges: "Article 6(1), point (a)", "§ 14 Abs. 2 Satz 1 UStG", "Articles 13 to 15". English, German, French, Korean and
    numbers of standards are read, whatever the language of the corpus; :mod:`graph_retrievers.construction.numbers` has their
    words.

    A reference without a document means the one that it is in, and "paragraph 2" the article that it is in. A document is
    named by its title, what is in brackets in it, its initials, its file or folder ("Article 6 GDPR"), or its number, minutes
    by their day ("item 2.1 of the minutes of 5 March"), which their file, title or first lines name; the name behind the last
    of several references counts for all; Korean has it in front ("「민법」 제15조"). Articles, annexes and chapters that have a
    page each are found in the folder of the citing page. References to a document that the corpus does not have, and those in
    quoted amendments of other documents, give no edge. In a table whose header names acts, a column belongs to its act.

    An edge leads to the chunk that holds the cited part, or the cited unit if the part is not found. If it covers up to five
    chunks, an edge leads to each of them. If it covers more, or several units have the number, an edge leads to the chunk most like
    the citing sentence, which shares most of its rare words; no model is asked. Chunks of a document have the same ``url``,
    ``source``, ``path`` or ``file_path``; nodes without one are one document. If fewer than three units of the corpus carry a
    number, there are no edges, because they may be numbers of something else.

    The time is linear in the length of the texts.

    Parameters
    ----------
    relation : str, default "refers"

    Notes
    -----
    Not read: "the following Article" and "the Annex"; numbers in words ("the second paragraph"); sentences and indents, of which
    the paragraph around them is meant; what "et seq." and "ff." add; what follows an exception ("points 1 to 10 of Annex VIII, with
    the exception of points 6 and 8"); bare numbers behind parts ("§§ 5 Abs. 1, 6 und 7"); a letter after a space ("§ 312 a");
    numbers with a full stop in a list ("points 4.3., 4.4."); letters before a number ("article L. 121-1", "s. 4"); file numbers of
    courts; what is elsewhere ("item 4 of the last minutes"); names in front of a reference ("the Addendum, section 2"), except in
    Korean; names of documents alone, which :class:`~graph_retrievers.construction.mentions.TitleMentions` finds.

    Recall@10 on 31 questions about three European acts, without these edges and with them; in brackets that of the 13 whose second
    answer is behind a reference. The limit of five chunks was chosen on the same questions:

    ============ ============= =============
    retriever    without       with
    ============ ============= =============
    PPR          .430 (.333)   .495 (.449)
    WalkFusion   .640 (.564)   .672 (.641)
    ============ ============= =============

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> texts = ["Article 1\nScope: see Article 3(2).", "Article 2\nArticles 1 and 3 apply.", "Article 3\n1. Terms.", "2. More."]
    >>> nodes = [Node(str(n), text) for n, text in enumerate(texts, 1)]
    >>> build_edges(nodes, NumberedReferences())
    [('1', '4', 'refers'), ('2', '1', 'refers'), ('2', '3', 'refers'), ('2', '4', 'refers')]
    """

    @typed
    def __init__(self, *, relation: str = "refers") -> None:
        self.relation = relation

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the pages and of the references in them."""
        edges, counts = self._find_references(corpus)
        return SpecEdges(edges, counts.outside, f"; references by number: {counts}" if counts != ReferenceCounts() else "")

    def describe(self, nodes: Sequence[Node]) -> ReferenceCounts:
        r"""Return how many references the texts of nodes have, what became of them, and ten that were not resolved.

        >>> nodes = [Node(str(n), f"Section {n}\nSee Section {n + 1}.") for n in range(1, 4)]
        >>> print(NumberedReferences().describe(nodes))
        found 2, to what is around them 0, to other documents 0, in amendments 0, unresolved 1
          Section 4 in 3
        """
        return self._find_references(CorpusNodes(nodes))[1]

    def _find_references(self, corpus: CorpusNodes) -> tuple[list[tuple[str, str, str]], ReferenceCounts]:
        corpus = _readable(corpus)
        numbered = Numbered(corpus)
        if numbered.count < _FEWEST:
            return [], ReferenceCounts()
        edges: list[tuple[str, str, str]] = []
        counts: Counter[str] = Counter()
        # Several numbers of one list are one example.
        examples: dict[tuple[str, str], None] = {}
        reader = _Reader(corpus, numbered)
        for place, row in enumerate(numbered.rows):
            source = corpus.nodes[row].id
            for citation in reader.read(place):
                counts[citation.outcome] += 1
                edges += [(source, corpus.nodes[numbered.rows[target]].id, self.relation) for target in citation.targets]
                if citation.outcome == "unresolved" and len(examples) < _SHOWN:
                    examples[source, " ".join(citation.words.split())] = None
        return edges, ReferenceCounts(**counts, examples=tuple(examples))


def _readable(corpus: CorpusNodes) -> CorpusNodes:
    """Return a corpus with what a person reads in place of tags of HTML, which splitters keep; headings are as in Markdown."""
    return replace(corpus, nodes=[_without_tags(node) for node in corpus.nodes])


def _without_tags(node: Node) -> Node:
    # Texts of read_folder have their anchors beside them, and tags only where a page shows some.
    if "anchors" in node.metadata or "</" not in node.text or not page_address(node.metadata).lower().endswith(HTML):
        return node
    lines = (f"{'#' * block.level} {block.text}".strip() for block in read_html(node.text, piece=True).blocks)
    return replace(node, text="\n".join(lines))


class LookUp:
    """The nodes that carry the numbers which questions name, such as "Article 17 GDPR" or "PEP 8".

    >>> law = {"path": "la.md"}
    >>> nodes = [Node(f"{n}", "", metadata={**law, "headings": ["Loom Act", f"Article {n}"]}) for n in range(1, 4)]
    >>> LookUp(nodes).rows("What does Article 2 of the Loom Act say?")
    [[1]]
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._numbered = Numbered(_readable(CorpusNodes(nodes)))
        # The texts need not stay in memory.
        self._reader = _Reader(CorpusNodes(()), self._numbered)

    def rows(self, question: str) -> list[list[int]]:
        """Return the rows of the nodes of each unit that a question names, in the order of its page.

        A reference without a document means the one that the question names elsewhere, in capitals or small letters, else the only
        one that has the number.
        """
        names = self._numbered.names
        if self._numbered.has_sections:
            question = _SPOKEN.sub("§ ", question)
        found = references(question, names.at)
        named = {names.document(reference) for reference in found if reference.scope == NAMED} - {None}
        named |= self._named(question) or self._named(question.upper())
        results = []
        for reference in found:
            if reference.scope in (OTHER, NAMED):
                scopes = {names.document(reference)} - {None}
            else:
                scopes = named or {*self._numbered.documents(*reference.steps[0])}
            meant = [targets for scope in scopes if (targets := self._targets(reference, scope))]
            for units in meant[0] if len(meant) == 1 else ():
                places = dict.fromkeys(place for unit in units for place in range(unit.first, unit.last + 1))
                results.append([self._numbered.rows[place] for place in places])
        return results

    def _targets(self, reference: Reference, scope: Hashable) -> list[list[Unit]]:
        around = scope if isinstance(scope, Unit) else Unit("document", "", 0, -1)
        return self._reader.targets(reference, scope, around)

    def _named(self, question: str) -> set[Hashable]:
        """Return the documents that a question names; a name inside another one does not count."""
        names, words = self._numbered.names, list(_QUESTION_WORD.finditer(question))
        documents, end = set(), 0
        for place, word in enumerate(words):
            start = word.start()
            if start >= end and (document := names.at(question, start)) is not None:
                documents.add(document)
                ends = (last.end() for last in words[place:])
                end = next((end for end in ends if names.at(question[:end], start) is document), end)
        return documents


class _Cited(NamedTuple):
    """A reference, its words, what became of it (a field of :class:`ReferenceCounts`), and the places that it leads to."""

    reference: Reference
    words: str
    outcome: str
    targets: list[int]


class _Reader:
    """The references of chunks, which are read in the order of their places, and what they lead to."""

    def __init__(self, corpus: CorpusNodes, numbered: Numbered) -> None:
        self._nodes, self._numbered = corpus.nodes, numbered
        # The place and the character from which on a unit has the text of another document.
        self._amendments: dict[Unit, tuple[int, int]] = {}

    @cached_property
    def _passages(self) -> _Passages:
        return _Passages([self._nodes[row].text for row in self._numbered.rows])

    def read(self, place: int) -> Iterator[_Cited]:
        """Yield the references in the chunk at a place, and in the headings that begin there."""
        text = self._nodes[self._numbered.rows[place]].text
        for offset in filter(lambda offset: offset >= 0, map(text.find, _AMENDS)):
            unit = self._numbered.at(place, offset).headed()
            if unit.kind in _AMENDING:
                self._amendments.setdefault(unit, (place, offset))
        heading = self._numbered.headings.get(place, "")
        for reference in references(heading, self._numbered.names.at) if heading else ():
            yield self._cited(heading, reference, place, 0)
        columns = next((line for line in text.split("\n") if _CELL in line), "").split(_CELL) if _CELL in text else []
        for reference in references(text, self._numbered.names.at):
            # The heading of a unit does not refer to it, and the number of the next line belongs to that line.
            if not self._numbered.begins(place, reference.start, reference.end):
                yield self._cited(text, _in_column(text, reference, columns), place, reference.start)

    def _cited(self, text: str, reference: Reference, place: int, start: int) -> _Cited:
        """Return what a reference in a text, which is at a character of the chunk at a place, leads to."""
        outcome, targets = self._outcome(reference, place, start)
        places = [target_place for units in targets for target_place in self._passages.places(units, place, text, reference)]
        return _Cited(reference, text[reference.start : reference.end], outcome, places)

    def _outcome(self, reference: Reference, place: int, start: int) -> tuple[str, list[list[Unit]]]:
        """Return what became of a reference, and its targets; a target of several units is one of them."""
        around = self._numbered.at(place, start)
        scope: Hashable = around.document()
        if reference.scope in (OTHER, NAMED):
            scope = self._numbered.names.document(reference)
            if scope is None:
                return "outside", []
        elif self._amendments.get(around.headed(), (place, start)) < (place, start):
            return "amended", []
        targets = self.targets(reference, scope, around)
        outer_targets = [units for units in targets if len(units) > 1 or units[0] not in around.chain()]
        return ("found" if outer_targets else "around" if targets else "unresolved"), outer_targets

    def targets(self, reference: Reference, scope: Hashable, around: Unit) -> list[list[Unit]]:
        """Return what a reference in a unit leads to in a document or a folder; a target of several units is one of them."""
        units = self._units(reference, scope, around)
        targets = [units] if units else []
        if reference.last:
            successors = units[0].series[units[0].order : units[0].order + _MOST] if len(units) == 1 else []
            end = next((n for n, unit in enumerate(successors) if unit.number.casefold() == reference.last.casefold()), 0)
            # Where the end is not there, or on another page, each number of the range may be.
            targets = [[unit] for unit in successors[: end + 1]] if end else self._numbers_between(reference, scope, around)
        return targets

    def _numbers_between(self, reference: Reference, scope: Hashable, around: Unit) -> list[list[Unit]]:
        """Return what a reference to a range names by each of its numbers, if its ends are numbers, else by the first."""
        *outer, (kind, first) = reference.steps
        last = int(reference.last) if reference.last.isdecimal() and first.isdecimal() else 0
        numbers = [str(number) for number in range(int(first), min(last + 1, int(first) + _MOST))] if last else [first]
        found = (self._units(reference._replace(steps=(*outer, (kind, number))), scope, around) for number in numbers)
        return [units for units in found if units]

    def _units(self, reference: Reference, scope: Hashable, around: Unit) -> list[Unit]:
        """Return the unit that a reference in another unit names in a document or a folder; several that it may mean."""
        if not reference.steps:
            return [scope] if isinstance(scope, Unit) else []
        # In a paragraph with points, "Satz 2" does not mean point 2.
        steps = [step for step in reference.steps if step[0] != _UNMARKED]
        if not steps:
            return [around] if scope is around.document() else []
        (kind, number), *inner_steps = steps
        is_own = scope is around.document()
        if kind in HEADED or kind in CAPTIONED:
            units = self._numbered.find(scope, kind, number)
            if not units and kind == "section" and isinstance(scope, Unit):
                chapters = self._numbered.find(scope, "chapter", number.partition(".")[0])
                units = next(([clause] for outer in (scope, *chapters) if (clause := _clause(outer, number)) is not None), [])
            if not units and is_own:
                units = self._numbered.in_folder(around.document(), kind, number)
            if not units and is_own and "." in number:
                # "Clause 2.1" without a heading of its own is in clause 2.
                return self._units(reference._replace(steps=((kind, number.rpartition(".")[0]),)), scope, around)
        elif kind == "recital":
            # The numbers above the first article of an act.
            part = scope.parts.get(number) if isinstance(scope, Unit) else None
            units = [] if part is None else [part]
        elif is_own:
            units = _part_near(around, kind, number)
        else:
            # "Item 2 of the minutes of 5 March"; a paragraph or a letter is in a unit of the other document.
            part = scope.part(number) if kind == "point" and isinstance(scope, Unit) else None
            units = [] if part is None else [part]
        for kind, number in inner_steps:
            if kind in HEADED or kind in CAPTIONED:
                # Parts are searched for in the document of the unit, which may be another page than that of the reference.
                parts = [part for unit in units for part in _within(self._numbered.find(unit.document(), kind, number), unit)]
                units = parts[:_MOST]
            elif parts := [part for unit in units if (part := unit.part(number)) is not None]:
                units = parts
            elif kind != "subparagraph":
                break
        return _nearest(units, around)


def _part_near(around: Unit, kind: str, number: str) -> list[Unit]:
    """Return the part with a number as seen from a unit: a paragraph of the article around it, a point of what is nearest."""
    start = around.headed() if kind == "paragraph" else around
    siblings: dict[str, Unit] | None = None
    for unit in start.chain():
        # If several lists have a point (a), the list around the place is meant.
        part = (siblings or {}).get(number.casefold()) or unit.part(number)
        if part is not None:
            return [part]
        if kind == "paragraph" and unit.kind in _AMENDING:
            # A paragraph that an article does not have is not that of another one, or a recital.
            break
        siblings = unit.siblings
    return []


def _clause(outer: Unit, number: str) -> Unit | None:
    """Return the clause with a number in a document, or a chapter, whose clauses are lines, such as "7.1 Nothing is due."."""
    part = outer.part(number)
    if part is None or "." in number:
        return part
    # The number may also be that of an item of a list; only a clause has clauses below it, such as 7.1.
    return part if any(inside.number.startswith(f"{number}.") for inside in part.members[:1]) else None


def _nearest(units: list[Unit], around: Unit) -> list[Unit]:
    """Return those of several units that are in the smallest unit around another one, such as the same chapter."""
    if len(units) < 2:
        return units
    return next((members for outer in around.chain() if (members := _within(units, outer))), units)[:_MOST]


def _within(units: list[Unit], outer: Unit) -> list[Unit]:
    """Return those of some units, in the order of their places, that are in another one."""
    first = bisect_left(units, outer.first, key=lambda unit: unit.first)
    last = bisect_right(units, outer.last, key=lambda unit: unit.first)
    # A chunk at either end may also have the end of the unit before, or the beginning of the next.
    return [unit for unit in units[first : min(last, first + _READ)] if outer in unit.chain()]


def _in_column(text: str, reference: Reference, columns: Sequence[str]) -> Reference:
    """Return a reference with the act that the head of its column names, as in a table of what corresponds to what."""
    if reference.scope or not columns:
        return reference
    start = text.rfind("\n", max(0, reference.start - _ROW), reference.start) + 1
    if not start and reference.start > _ROW:
        return reference
    end = text.find("\n", reference.end, reference.end + _ROW)
    row = text[start : end if end >= 0 else reference.end + _ROW]
    column = text.count(_CELL, start, reference.start)
    number = _ACT_NUMBER.search(columns[column]) if _CELL in row and column < len(columns) else None
    return reference._replace(scope=NAMED, document=("act", number[1])) if number else reference


class _Passages:
    """The passages of units, and those that are most like a sentence; `texts` are the chunks by their places."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def places(self, units: Sequence[Unit], place: int, text: str, reference: Reference) -> list[int]:
        """Return the places of a unit that a reference at a place leads to; `units` are several that it may mean.

        They are all of one unit if there are few. Else it is the place that shares most of the words of the sentence that few
        passages have, and of several the first one.
        """
        first, last = units[0].first, units[0].last
        if len(units) == 1 and last - first < _ALL:
            return [other for other in range(first, last + 1) if other != place]
        scores = dict.fromkeys((unit.first for unit in units), 0.0)
        for word in sorted(set(_WORD.findall(_sentence(text, reference).casefold()))):
            places = self._by_word.get(word)
            if not places:
                continue
            weight = math.log(len(self._texts) / len(places))
            for unit in units:
                start, end = bisect_left(places, unit.first), bisect_right(places, unit.last)
                for other in places[start:end] if end - start <= _COMMON else ():
                    scores[other] = scores.get(other, 0.0) + weight
        scores.pop(place, None)
        return [min(scores, key=lambda other: (-scores[other], other))] if scores else []

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        """The places of each word, ascending."""
        places_by_word: dict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            for word in set(_WORD.findall(text.casefold())):
                places_by_word[word].append(place)
        return places_by_word


def _sentence(text: str, reference: Reference) -> str:
    """Return the sentence around a reference, without the reference."""
    before, behind = text[max(0, reference.start - _SENTENCE) : reference.start], text[reference.end : reference.end + _SENTENCE]
    start = max((match.end() for match in _END.finditer(before)), default=0)
    end = match.start() if (match := _END.search(behind)) else len(behind)
    return before[start:] + behind[:end]
