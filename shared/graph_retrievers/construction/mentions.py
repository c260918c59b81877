"""Edges from verbatim mentions: texts that contain the title of another node."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import product

from graph_retrievers.arguments import positive, typed
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.construction.titles import file_spellings, file_title
from graph_retrievers.errors import NothingToReadError
from graph_retrievers.graph.addresses import page_address
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.languages import inflected, main_languages
from graph_retrievers.graph.names import InflectedNames, word_spans
from graph_retrievers.graph.page_order import titled_rows
from graph_retrievers.graph.words import ends_word, is_unspaced, korean_stems, normal, word_pattern

__all__ = ["TitleMentions"]

logger = logging.getLogger(__name__)

# Han characters and Korean syllables, of which a name has fewer.
_WIDE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af]")
_QUALIFIED = re.compile(r"(.+?) \(([^()]*)\)")
_COMMON = 3
_MANY = 20
# Characters of a title, so that a text is read in linear time, and nodes of one title, so that edges are not their square.
_LONGEST, _SHARED = 300, 100
_CALENDAR = frozenset(
    "January February March April May June July August September October November December "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
)
# Titles with these qualifiers are about a word, not about the thing that a text means by it.
_ABOUT_WORDS = frozenset(["disambiguation", "name", "surname", "given name", "magazine"])


class TitleMentions(EdgeSpec):
    """Edges from texts to the nodes whose titles they contain verbatim.

    A match is case-sensitive and starts and ends at word boundaries. At each position the longest title is used, and a text does
    not match its own title. A title of several pages creates an edge to each of them. To avoid chance matches,

    - a one-word title that occurs in lower case in 3 or more texts is skipped, and so are months and weekdays;
    - a qualifier such as "(film)" at the end of a title is dropped if the rest is not the name of another node; a one-word
      rest only if 3 or fewer texts contain it. The qualifiers "(disambiguation)", "(name)", "(surname)", "(given name)" and
      "(magazine)" are never dropped;
    - a title without a capital that is in more than 1 % of the texts, and in more than 20, is skipped and counted in the log: it
      is an ordinary word of these texts, such as "tables" in the manual of a database. So is any title in more than 10 % of them;
    - a title of more than 300 characters, or of more than 100 nodes, is skipped.

    A title that is the name of the node's file is also found with a capital or with capitals, and with hyphens or underscores for
    the spaces, because files are rarely cited exactly.

    Nodes with the same title and the same address (``url``, ``source``, ``path`` or ``file_path``) are chunks of one page: the edge
    leads to the first of them, and their texts do not mention their own page.

    Each text is read once. Raises InvalidArgumentError if no node has a title. The rules about lower case and the calendar are made
    for English. In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) a title may begin and end
    between any two letters, and in Korean it may end before a particle. If most texts have another language than English with a
    stemmer (:func:`~graph_retrievers.graph.languages.main_languages`), a title is also found in another form, such as "Berlins",
    where no title stands as it is; see :class:`~graph_retrievers.graph.names.InflectedNames`.

    Parameters
    ----------
    min_length : int, default 4
        Minimum number of characters of a title; a Chinese character and a Korean syllable count as two.
    relation : str, default "mentions"

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> build_edges([Node("a", "He met Ada Lovelace."), Node("b", "", "Ada Lovelace")], TitleMentions())
    [('a', 'b', 'mentions')]
    """

    @typed
    def __init__(self, min_length: int = 4, *, relation: str = "mentions") -> None:
        self.min_length = positive("min_length", min_length)
        self.relation = relation

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the mentions."""
        if not any(node.title for node in corpus.nodes):
            raise NothingToReadError("No node has a title; give titles, or leave TitleMentions out.")
        nodes = [_normal(node) for node in corpus.nodes]
        names = self._names(nodes)
        starts = _Starts(name for name, rows in names.items() if rows)
        language = inflected(main_languages([node.text for node in nodes]))
        forms = InflectedNames((name for name, rows in names.items() if rows), language) if language else None
        pages = [page_address(node.metadata) for node in nodes]
        mentions: list[tuple[int, str]] = []
        for row, node in enumerate(nodes):
            own_names = {node.title, _base_and_qualifier(node.title)[0]}
            own_starts = _Starts(name for name in own_names if not names.get(name) and len(name) <= _LONGEST)
            mentions += [(row, name) for name in _matches(node.text, (starts, own_starts), own_names, forms)]
        texts = Counter(name for _, name in set(mentions))
        common_names = {name for name, count in texts.items() if names[name] and count > _most(name, len(nodes))}
        if common_names:
            logger.info(
                "%r: skipped %d titles that are ordinary words of these texts, such as %r.",
                self,
                len(common_names),
                min(common_names),
            )
        edges = [
            (nodes[row].id, nodes[other].id, self.relation)
            for row, name in mentions
            if name not in common_names
            for other in names[name]
            if other != row and not (pages[row] and pages[row] == pages[other])
        ]
        return SpecEdges(edges)

    def _names(self, nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
        """Return the names to look for, each with the rows of its nodes; no rows if a match of the name gives no edge."""
        rows_by_title: dict[str, list[int]] = defaultdict(list)
        bases: dict[str, set[tuple[str, str]]] = defaultdict(set)
        spellings: dict[str, str] = {}
        name_rows = titled_rows(*zip(*((node.title, node.metadata, node.origin) for node in nodes), strict=True))
        for row, node in enumerate(nodes):
            if node.title:
                if row in name_rows:
                    rows_by_title[node.title].append(row)
                base, qualifier = _base_and_qualifier(node.title)
                bases[base].add((node.title, qualifier))
                spellings |= dict.fromkeys(_spellings(node), node.title)
        single_words = [title for title in {*rows_by_title, *bases, *spellings} if word_pattern(title).fullmatch(title)]
        forms = {form for title in single_words for form in (title, title.lower())}
        word_counts = Counter(word for node in nodes for word in set(word_pattern(node.text).findall(node.text)) & forms)

        def common(name: str) -> bool:
            lower = name.lower()
            return name in _CALENDAR or (lower != name and word_counts[lower] >= _COMMON)

        # Titles without their qualifiers give no edges by default, but a text must not match inside its own.
        names: dict[str, tuple[int, ...]] = dict.fromkeys(bases, ())
        for base, titles in bases.items():
            title, qualifier = next(iter(titles))
            is_alone = len(titles) == 1 and base != title and qualifier not in _ABOUT_WORDS and _length(base) >= self.min_length
            if is_alone and not common(base) and word_counts[base] <= _COMMON:
                names[base] = tuple(rows_by_title[title])
        for title, rows in rows_by_title.items():
            if self.min_length <= _length(title) and len(title) <= _LONGEST and len(rows) <= _SHARED and not common(title):
                names[title] = tuple(rows)
            else:
                names.setdefault(title, ())
        for name, title in spellings.items():
            if names[title] and not common(name):
                names.setdefault(name, names[title])
        return names


def _normal(node: Node) -> Node:
    text, title = normal(node.text), normal(node.title)
    return node if text is node.text and title is node.title else replace(node, text=text, title=title)


def _length(name: str) -> int:
    return len(name) if name.isascii() else len(name) + len(_WIDE.findall(name))


def _spellings(node: Node) -> Sequence[str]:
    """Return how a text may write the title of a node that is the name of its file; none for other titles."""
    address = normal(page_address(node.metadata))
    return file_spellings(address) if node.title and node.title == file_title(address) else ()


def _most(name: str, texts: int) -> float:
    """Return in how many of the texts a name may be before it is an ordinary word."""
    return max(_MANY, (0.01 if name == name.lower() else 0.1) * texts)


def _base_and_qualifier(title: str) -> tuple[str, str]:
    """Return ("Titanic", "1997 film") for "Titanic (1997 film)", and (title, "") for a title without a qualifier."""
    match = _QUALIFIED.fullmatch(title)
    return (match[1], match[2]) if match else (title, "")


class _Starts:
    """Names by the text up to the end of their first word, so that a text need not be compared with each of them.

    `offsets` says for each first word how many characters stand before it in names, ascending. `groups` has for each beginning its
    names in order, each with the place of the longest other one that it begins with, or -1.
    """

    def __init__(self, names: Iterable[str]) -> None:
        offsets: dict[str, set[int]] = defaultdict(set)
        groups: dict[str, list[str]] = defaultdict(list)
        for name in names:
            if word := word_pattern(name).search(name):
                offsets[word[0]].add(word.start())
                groups[name[: word.end()]].append(name)
        self.offsets = {word: sorted(entries) for word, entries in offsets.items()}
        self.groups = {start: (entries := sorted(members), _shorter(entries)) for start, members in groups.items()}

    def candidates(self, text: str, begin: int, word_end: int) -> Iterator[str]:
        """Yield the names that a text contains at `begin`, longest first."""
        names, shorter = self.groups.get(text[begin:word_end], _NO_NAMES)
        # The last name in order that is not behind the text begins with all names that the text begins with.
        place = bisect_right(names, text[begin : begin + _LONGEST]) - 1
        while place >= 0:
            if text.startswith(names[place], begin):
                yield names[place]
            place = shorter[place]


_NO_NAMES: tuple[list[str], list[int]] = [], []


def _shorter(names: Sequence[str]) -> list[int]:
    """Return for each of sorted names the place of the longest other one that it begins with, -1 if there is none."""
    shorter: list[int] = []
    for place, name in enumerate(names):
        other = place - 1
        while other >= 0 and not name.startswith(names[other]):
            other = shorter[other]
        shorter.append(other)
    return shorter


def _matches(text: str, tables: Sequence[_Starts], own_names: Set[str], forms: InflectedNames | None) -> Iterator[str]:
    """Yield the names of tables in a text from left to right, without overlaps and without the text's own names.

    Where none of them stands as it is, one in another form is yielded.
    """
    tables = [table for table in tables if table.offsets]
    spans = [] if forms is None else word_spans(text)
    places = {start: place for place, (_, start, _) in enumerate(spans)}
    words = [word for word, *_ in spans]
    done = free = 0
    for word in word_pattern(text).finditer(text):
        # A name begins behind the last match, and not right behind a word, unless that is of a script without spaces.
        first, free = max(done, free), word.end() + (not is_unspaced(word[0][0]))
        longest, end = "", 0
        for form, table in product((word[0], *korean_stems(word[0])), tables):
            for offset in table.offsets.get(form, ()):
                begin = word.start() - offset
                if begin < (first if offset else done):
                    break
                candidates = table.candidates(text, begin, word.start() + len(form))
                name = next((name for name in candidates if ends_word(text, begin + len(name))), "")
                if len(name) > len(longest):
                    longest, end = name, begin + len(name)
        if not longest and forms is not None and word.start() >= first and word.start() in places:
            longest, length = forms.find(words, place := places[word.start()])
            end = spans[place + length - 1][2]
        if longest:
            done = end
            if longest not in own_names:
                yield longest
