"""A dictionary of node names, and names found in running text: longest match, one pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.graph.languages import inflected, main_languages, stem_of
from graph_retrievers.graph.page_order import titled_rows
from graph_retrievers.graph.words import MARKS, WORD, korean_stems, needs_marks, normal

# Words, single letters of scripts without spaces between words, and single punctuation marks.
_TOKEN, _PLAIN_TOKEN = re.compile(rf"{WORD}|[^\w\s]"), re.compile(r"\w+|[^\w\s]")
_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-", "\u2013": "-"})

LONGEST_NAME, _SHORTEST_STEM = 64, 4
# Initials and words with inner marks, and what ends a sentence or interrupts a name.
_LETTER = rf"[^\W_][{MARKS}]*"
_SPAN = re.compile(rf"(?:[^\W\d_]\.)+|(?:{_LETTER})+(?:['\u2019.-](?:{_LETTER})+)*|[^\w\s]|\n")
_ENDS, _OPENING = frozenset(".!?:;\n"), frozenset("\"'([{*-#>|\u00a1\u00ab\u00bf\u2022\u2013\u2014\u2018\u201c\u201d")
_PARTICLES = frozenset("of the de da di du la le el al der van von bin ibn y".split())
NAME_TITLES = frozenset("Dr Mr Mrs Ms Prof St Mt Gen Col Capt Lt Rev".split())
_READ, _MOST_WORDS, _MOST_CHARACTERS = 10_000, 8, 100
# Texts whose names are kept: many questions lead to the same ones.
_MOST_NAMES = 1 << 13
# Characters of a text that may open with its title, besides those of the title, and words before it.
_OPENING_READ, _BEFORE = 200, 2
_HEADING_END = re.compile(r"\n|: ")
NAMED_BY_TEXTS = "named_by_texts"
"""Metadata field that is true for nodes that represent a name in the texts of others."""


def name_words(text: str, *, fold: bool = False) -> list[str]:
    """Return the words and punctuation marks by which names are compared; `fold` folds case."""
    text = normal(text)
    if text.isascii():
        # Most names are plain words.
        words = text.split() if text.replace(" ", "").isalnum() else _PLAIN_TOKEN.findall(text)
    else:
        text = text.translate(_PLAIN)
        words = (_TOKEN if needs_marks(text) else _PLAIN_TOKEN).findall(text)
    return [word.casefold() for word in words] if fold else words


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the words and marks of a text in normal form, as :func:`name_words` compares them, each with its start and its end.

    >>> word_spans("a loom")
    [('a', 0, 1), ('loom', 2, 6)]
    """
    text = text.translate(_PLAIN)
    return [(word[0], word.start(), word.end()) for word in (_TOKEN if needs_marks(text) else _PLAIN_TOKEN).finditer(text)]


@lru_cache(_MOST_NAMES)
def capitalized_names(text: str) -> tuple[str, ...]:
    """Return the names in a running text, by their capitals: runs of capitalised words, each once, in order.

    A number after it, or a particle such as "of" or "von" between two capitalised words, belongs to the name ("Area Code 404",
    "Tower of London"), and so does a title before it ("Dr. Holm"). A single word that begins a sentence or a line is not a name,
    nor are single particles or letters, or runs of more than eight words or more than 100 characters. Only the first 10,000
    characters are read. Scripts without capitals have no such names.

    Examples
    --------
    >>> capitalized_names("He met J. R. Tolkien. The Tower of London is near the Thames.")
    ('J. R. Tolkien', 'The Tower of London', 'Thames')
    """
    names, words = dict[str, None](), _SPAN.findall(normal(text[:_READ]))
    stop = 0
    while stop < len(words):
        start, stop = stop, stop + 1
        if not _capital(words[start]):
            continue
        while stop < len(words):
            particle = words[stop] in _PARTICLES or (words[stop] == "." and words[stop - 1] in NAME_TITLES)
            connection = particle and stop + 1 < len(words) and _capital(words[stop + 1])
            if not (connection or _capital(words[stop]) or words[stop].isdigit()):
                break
            stop += 1 + connection
        name = " ".join(words[start:stop]).replace(" . ", ". ")
        alone = stop - start == 1 and _begins(words, start)
        if not alone and stop - start <= _MOST_WORDS and len(name) <= _MOST_CHARACTERS and name_keys(name):
            names[name] = None
    return tuple(names)


def is_proper_name(name: str) -> bool:
    """Return whether a name is spelled like that of a person, a place or a work.

    Each word, except particles, begins with a capital, a digit or a letter of a script without capitals, and at least one has no
    other capital: "CREATE TABLE" and "PyObject" are not such names.

    >>> [is_proper_name(name) for name in ("The Tower of London", "London", "Technical data", "CREATE TABLE", "\u6771\u4eac")]
    [True, True, False, False, True]
    """
    words = [word for word in name.split() if word[0].isalnum() and word not in _PARTICLES]
    capitalized = all(_capital(word) or word[0].isdigit() or _caseless(word) for word in words)
    return capitalized and any(_caseless(word) or (_capital(word) and word[1:].islower()) for word in words)


def opening_name(title: str, text: str) -> str:
    r"""Return the title with which a text begins, as the text spells it; "" if there is none.

    Articles of an encyclopedia begin like this: "Ada Holm was born in Lund". A title in a separate line or before a colon is a
    heading, which is skipped. A title before a full stop or a capital does not count. At most two words or marks may precede it,
    and its qualifier, such as "(film)", may be missing.

    >>> opening_name("Kismet (film)", "# Kismet\nThe Kismet is a film."), opening_name("Loom", "# Loom\nA machine.")
    ('Kismet', '')
    """
    words = name_words((title.endswith(")") and title.rpartition(" (")[0]) or title, fold=True)
    for line in _HEADING_END.split(text[: 2 * len(title) + _OPENING_READ]):
        tokens = name_words(line)
        folded = [word.casefold() for word in tokens[: len(words) + _BEFORE]]
        start = next((place for place in range(_BEFORE + 1) if words and folded[place : place + len(words)] == words), None)
        if start is None:
            if tokens:
                break
        elif (after := tokens[start + len(words) :]) and tokens != name_words(title):
            stated = after[0] not in _ENDS and not _capital(after[0])
            return " ".join(tokens[start : start + len(words)]) if stated else ""
    return ""


@lru_cache(_MOST_NAMES)
def name_keys(text: str) -> frozenset[str]:
    """Return the words that determine whether texts share a name: folded, of at least two characters, without particles.

    >>> sorted(name_keys("The Tower of J. Holm's"))
    ['holm', 'tower']
    """
    return frozenset(word for word in name_words(text, fold=True) if len(word) > 1 and word not in _PARTICLES)


def step_name(near: str, relation: int) -> str:
    """Return the name, in quotation marks, of a step without an edge; "" if its relation is not that of a name in the text.

    `near` is the text of the step's first node, and `relation` is from ``Candidates.relations``: -2 minus the number of the name.

    >>> step_name("Kismet starred Ada Holm.", -2)
    '"Ada Holm"'
    """
    names = capitalized_names(near) if relation <= -2 else ()
    return f'"{names[-2 - relation]}"' if 0 <= -2 - relation < len(names) else ""


def _capital(word: str) -> bool:
    # A title case letter is neither upper nor lower case.
    return word[0] != word[0].lower()


def _caseless(word: str) -> bool:
    return word[0].isalpha() and word[0].lower() == word[0].upper()


def _begins(words: list[str], place: int) -> bool:
    """Return whether a word begins a sentence or a line, but for marks such as a quotation mark or that of a list."""
    while place and words[place - 1] in _OPENING:
        place -= 1
    return place == 0 or words[place - 1] in _ENDS


class InflectedNames:
    """Names by the stems of their words, so that texts also contain them in other forms.

    Of a word whose stem has fewer than four letters, the form itself counts. A form of several names means none of them, and
    neither does one with a capital or a small letter where the name has the other, unless `fold` ignores case.

    Parameters
    ----------
    names : iterable of str
    language : str
        Codes joined by "+", see :mod:`graph_retrievers.graph.languages`.
    fold : bool, default False

    Examples
    --------
    >>> names = InflectedNames(["Berlin", "Rom"], "de")
    >>> [names.find(["Die", place, "von", "1900"], 1) for place in ("Berlins", "Roms", "berlins")]
    [('Berlin', 1), ('', 0), ('', 0)]
    """

    def __init__(self, names: Iterable[str], language: str, *, fold: bool = False) -> None:
        self._stem, self._fold, self._stems = stem_of(language), fold, dict[str, str]()
        self._names: dict[tuple[str, ...], str] = {}
        self._lengths: dict[str, set[int]] = {}
        for name in names:
            words = name_words(name)
            if words and len(words) <= LONGEST_NAME:
                key = self._key(words)
                same = self._names.setdefault(key, name) in (name, "")
                self._names[key] = name if same and self._names[key] else ""
                self._lengths.setdefault(key[0], set()).add(len(key))

    def find(self, words: Sequence[str], start: int) -> tuple[str, int]:
        """Return the longest name that begins at a word, and its number of words; "" and 0 if there is none."""
        for length in sorted(self._lengths.get(self._stemmed(words[start]), ()), reverse=True):
            tokens = words[start : start + length]
            name = self._names.get(self._key(tokens), "")
            if name and (self._fold or list(map(_capital, tokens)) == list(map(_capital, name_words(name)))):
                return name, length
        return "", 0

    def _key(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._stemmed, words))

    def _stemmed(self, word: str) -> str:
        key = self._stems.get(word)
        if key is None:
            folded = word.casefold()
            stem = self._stem(folded)
            key = self._stems[word] = stem if len(stem) >= _SHORTEST_STEM else folded
        return key


class NameTable:
    """Names of nodes, and names found in texts.

    Parameters
    ----------
    names : sequence of str, length N
        Name of each node; several nodes may share one, and an empty name is never found.
    fold : bool, default False
        Whether case is ignored. Of names that differ only in case, the one spelled as in the text is preferred.
    language : str, default ""
        Codes of the languages in which inflected forms of names are found too, where no name stands as it is; see
        :class:`InflectedNames`.

    Attributes
    ----------
    capitals : bool
        Whether most names contain a capital letter, so that a lower-case word of a text is rarely meant as a name.
    longest : int
        Number of words of the longest name that is found in texts.

    Notes
    -----
    A name is a run of words and punctuation marks: matches begin and end at word boundaries, white space does not count, and
    typographic quotes and dashes equal plain ones. In scripts without spaces between words each letter is a word, and Korean
    names are also found before particles. A name that stands in the text as it is comes before an inflected one at the same place.
    The cost for a text of n words is at most n times the number of distinct lengths of names that begin with the same two words.
    To keep this linear in the text, names of more than 64 words are not found in texts.

    Examples
    --------
    >>> NameTable(["Ada Lovelace", "Ada", "Charles Babbage"]).find("Did Ada Lovelace meet Charles  Babbage?")
    [('Ada Lovelace', [0]), ('Charles Babbage', [2])]
    """

    def __init__(self, names: Sequence[str], *, fold: bool = False, language: str = "") -> None:
        self.fold = fold
        self._rows: dict[str, list[int]] = {}
        self._spelled: dict[str, list[int]] = {}
        lengths: dict[str, set[int]] = {}
        spelling: dict[str, str] = {}
        several: set[str] = set()
        lower = 0
        for row, name in enumerate(names):
            tokens = name_words(name)
            if tokens:
                words = [word.casefold() for word in tokens] if fold else tokens
                key = " ".join(words)
                self._rows.setdefault(key, []).append(row)
                if len(words) <= LONGEST_NAME:
                    lengths.setdefault(" ".join(words[:2]), set()).add(len(words))
                lower += name.islower()
                if fold and spelling.setdefault(key, as_written := " ".join(tokens)) != as_written:
                    several.add(key)
        for row in (row for key in several for row in self._rows[key]):
            self._spelled.setdefault(" ".join(name_words(names[row])), []).append(row)
        # By the first two words: many names begin with the same one.
        self._lengths = {words: sorted(sizes, reverse=True) for words, sizes in lengths.items()}
        self.longest = max((sizes[0] for sizes in self._lengths.values()), default=0)
        self.capitals = 2 * lower < len(names)
        self._inflected = InflectedNames(self._rows, language, fold=fold) if language else None
        self._korean = any("\uac00" <= key[-1] <= "\ud7a3" for key in self._rows)

    def rows(self, name: str) -> list[int]:
        """Return the rows of the nodes with this name, ascending; none if there is no such name."""
        return self._rows_of(name_words(name))

    def _rows_of(self, words: list[str]) -> list[int]:
        key = " ".join(word.casefold() for word in words) if self.fold else " ".join(words)
        return self._spelled.get(" ".join(words)) or self._rows.get(key, [])

    def find(self, text: str) -> list[tuple[str, list[int]]]:
        """Return the names in a text, in order: (name as the text spells it, rows of its nodes).

        Matches do not overlap; from left to right, the longest name that begins at a word is used. If most names contain a
        capital, matches in lower case count only if no match in the text contains a capital: in "which actors star in Kismet",
        Kismet is a name and "actors" is not, even if there is such a node; in "who directed kismet", kismet is.
        """
        tokens = name_words(text)
        words = [word.casefold() for word in tokens] if self.fold else tokens
        matches: list[tuple[str, list[int]]] = []
        start = 0
        while start < len(words):
            step = 1
            lengths = self._lengths.get(" ".join(words[start : start + 2]), ())
            # The second word of a Korean name may be followed by particles.
            for length in dict.fromkeys((*lengths, 2, 1)) if self._korean else (*lengths, 1):
                name = words[start] if length == 1 else " ".join(words[start : start + length])
                if name not in self._rows and not self._korean:
                    continue
                spelling = tokens[start : start + length]
                if name not in self._rows:
                    # A name that particles follow; other words of it may have capitals to fold.
                    before = name.removesuffix(spelling[-1])
                    stem = next((stem for stem in korean_stems(spelling[-1]) if before + stem in self._rows), "")
                    name, spelling = before + stem, [*spelling[:-1], stem]
                if name in self._rows:
                    matches.append((" ".join(spelling), self._rows_of(spelling)))
                    step = length
                    break
            else:
                if self._inflected is not None:
                    name, length = self._inflected.find(tokens, start)
                    if name:
                        matches.append((" ".join(tokens[start : start + length]), self._rows[name]))
                        step = length
            start += step
        proper = [match for match in matches if not match[0].islower()]
        return proper if self.capitals and proper else matches


def name_runs(text: str, longest: int) -> set[str]:
    """Return the names that a text may contain, in folded case with one space between words: all runs of at most `longest` words.

    For Korean, also words without their particles. They are the keys by which a :class:`NameTable` finds names in the text.

    >>> sorted(name_runs("A loom weaves", 2))
    ['a', 'a loom', 'loom', 'loom weaves', 'weaves']
    """
    words = name_words(text, fold=True)
    runs = set[str]()
    for start in range(len(words)):
        before = ""
        for word in words[start : start + longest]:
            runs.update(before + each for each in (word, *korean_stems(word)))
            before += f"{word} "
    return runs


def name_table(graph: CorpusGraph, fold: bool = False) -> NameTable:
    """Return the table of a graph's node names (titles, or ids if a title is empty); kept in the cache of the graph.

    A title shared by several nodes with the same address is the name of their page, and refers to the first of them.
    """

    def make() -> NameTable:
        rows = titled_rows(graph.titles, graph.metadata, graph.origins)
        names = [(title if row in rows else "") if title else graph.ids[row] for row, title in enumerate(graph.titles)]
        return NameTable(names, fold=fold, language=inflected(main_languages(graph.texts)))

    return graph.cache.get(("names", fold), make)


def name_types(graph: GraphFacts) -> tuple[str, ...]:
    """Return the node types that represent names in the texts of others: all their nodes are marked as such, and have no text.

    :class:`~graph_retrievers.construction.entities.EntityMentions` creates such nodes. Empty if the graph has only such nodes.

    >>> name_types(CorpusGraph(["a", "b"], ["By Ada.", ""], types=["", "entity"], metadata=[{}, {NAMED_BY_TEXTS: True}]))
    ('entity',)
    """

    def read(graph: CorpusGraph) -> tuple[str, ...]:
        if "" not in graph.texts:
            return ()
        marked_types, other_types = set[str](), set[str]()
        for kind, text, metadata in zip(graph.types, graph.texts, graph.metadata, strict=True):
            (marked_types if not text and metadata.get(NAMED_BY_TEXTS) is True else other_types).add(kind)
        return tuple(sorted(marked_types - other_types)) if other_types else ()

    return graph.fact("types of names", read)


def nodes_titled(graph: CorpusGraph, title: str) -> list[int]:
    """Return the rows of the nodes with this title, ignoring case, in ascending order."""

    def make() -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for row, name in enumerate(graph.titles):
            index.setdefault(name.strip().casefold(), []).append(row)
        index.pop("", None)
        return index

    return graph.cache.get("titles", make).get(title.strip().casefold(), [])
