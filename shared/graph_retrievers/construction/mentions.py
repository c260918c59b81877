"""Edges from verbatim mentions: a text that holds the title of another node."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found, positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node

__all__ = ["TitleMentions"]

_WORD = re.compile(r"\w+")
_QUALIFIED = re.compile(r"(.+?) \(([^()]*)\)")
_COMMON = 3
_CALENDAR = frozenset(
    "January February March April May June July August September October November December "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
)
# Titles with these qualifiers are about a word, not about a thing that the word names in a text.
_ABOUT_WORDS = frozenset(["disambiguation", "name", "surname", "given name", "magazine"])


class TitleMentions(EdgeSpec):
    """Texts that hold the title of another node verbatim.

    A match is case-sensitive and stands at word boundaries; at each place the longest title wins, and a text never
    matches its own title. To keep chance matches out,

    - a one-word title that occurs in lower case in 3 or more texts is skipped, and so are months and weekdays;
    - a qualifier such as "(film)" at the end of a title is dropped where the rest names no other node; a one-word
      rest only where 3 or fewer texts hold it, and never for "(disambiguation)", "(name)", "(surname)",
      "(given name)" and "(magazine)".

    A title that several nodes carry leads to each of them.

    Parameters
    ----------
    min_length : int, default 4
        Fewest characters of a title.
    relation : str, default "mentions"
        Name of the relation.

    Raises
    ------
    InvalidArgumentError
        If no node has a title.

    Notes
    -----
    One pass: at each word a table tells which lengths titles that begin with it have, and one look-up a length
    tells whether the text goes on as one of them. The rules on lower case and calendar are made for English; in
    scripts without spaces between words, titles match only where punctuation surrounds them.
    """

    def __init__(self, min_length: int = 4, *, relation: str = "mentions") -> None:
        self.min_length = positive("min_length", min_length)
        self.relation = relation

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order in which the mentions stand."""
        if not any(node.title for node in corpus.nodes):
            raise InvalidArgumentError("No node has a title to be mentioned; give titles, or leave TitleMentions out.")
        names = self._names(corpus.nodes)
        starts: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for name in names:
            if word := _WORD.search(name):
                starts[word[0]].add((word.start(), len(name)))
        ordered = {word: sorted(places, key=lambda place: (-place[1], place)) for word, places in starts.items()}
        edges: list[tuple[str, str, str]] = []
        for row, node in enumerate(corpus.nodes):
            own = {node.title, _base(node.title)}
            for name in _matches(node.text, names, ordered, own):
                edges.extend((node.id, corpus.nodes[other].id, self.relation) for other in names[name] if other != row)
        return Found(edges)

    def _names(self, nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
        """Return what is looked for, and the nodes it means; none where a name is matched only to be left out."""
        titled: dict[str, list[int]] = {}
        bases: dict[str, set[str]] = {}
        for row, node in enumerate(nodes):
            if node.title:
                titled.setdefault(node.title, []).append(row)
                bases.setdefault(_base(node.title), set()).add(node.title)
        wanted = {form for title in {*titled, *bases} if _WORD.fullmatch(title) for form in (title, title.lower())}
        held = Counter(word for node in nodes for word in set(_WORD.findall(node.text)) & wanted)

        def common(name: str) -> bool:
            lower = name.lower()
            return name in _CALENDAR or (lower != name and held[lower] >= _COMMON)

        # Bases mean nothing by themselves, but a text must not match inside its own one.
        names: dict[str, tuple[int, ...]] = dict.fromkeys(bases, ())
        for base, titles in bases.items():
            title = next(iter(titles))
            alone = len(titles) == 1 and base != title and _qualifier(title) not in _ABOUT_WORDS and len(base) >= self.min_length
            if alone and not common(base) and held[base] <= _COMMON:
                names[base] = tuple(titled[title])
        for title, rows in titled.items():
            if len(title) >= self.min_length and not common(title):
                names[title] = tuple(rows)
            else:
                names.setdefault(title, ())
        return names


def _base(title: str) -> str:
    """Return a title without its qualifier: "Titanic" of "Titanic (1997 film)"."""
    match = _QUALIFIED.fullmatch(title)
    return match[1] if match else title


def _qualifier(title: str) -> str:
    match = _QUALIFIED.fullmatch(title)
    return match[2] if match else ""


def _matches(
    text: str, names: dict[str, tuple[int, ...]], starts: dict[str, list[tuple[int, int]]], own: set[str]
) -> Iterator[str]:
    """Yield the names that a text holds, from left to right, none overlapping; the text's own are passed over."""
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        for offset, length in starts.get(word[0], ()):
            begin, end = word.start() - offset, word.start() - offset + length
            if begin < done or end > len(text):
                continue
            name = text[begin:end]
            if name not in names or not (names[name] or name in own) or not _bounded(text, begin, end):
                continue
            done = end
            if name not in own:
                yield name
            break


def _bounded(text: str, begin: int, end: int) -> bool:
    return not (begin and _WORD.match(text, begin - 1, begin)) and not (end < len(text) and _WORD.match(text, end, end + 1))
