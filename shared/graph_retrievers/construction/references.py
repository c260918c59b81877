"""References by number in running text: units with their numbers and parts, and the document that they belong to.

A text is read in three steps, each in linear time:

1. words of units with the list of numbers behind them, such as "Articles 6(1) and 9": mentions;
2. mentions that belong together, from outside to inside, such as "point (a) of Article 6(1)": chains;
3. the document that a chain names in front of itself, behind itself, or behind the last of several chains.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple

from graph_retrievers.construction.numbers import CAPTIONED, HEADED, INNER, KOREAN, STYLES

OWN, THAT, OTHER, NAMED = "own", "that", "other", "named"
# Characters between two mentions that belong together, before a number of an act; items of one list, and references of a chain.
_GAP, _BEFORE, _ITEMS, _MOST = 90, 100, 60, 500

Step = tuple[str, str]
"""A kind of unit and a number; the kind is "" for a number in brackets, as in "Article 6(1)"."""

NameAt = Callable[[str, int], Hashable]
"""A function that returns the known document whose name begins at a place of a text, or None."""


class Reference(NamedTuple):
    """A reference by number, which is at `start` to `end` of a text.

    `steps` lead from outside to inside. With `last`, the last step begins a range that ends with this number. `scope` is "named" if
    `document` is the document that the reference names: what a function returned for its name, or its number as a step. It is
    "other" for a document that is not known, "own" for "of this Regulation", and "" if no document is named.
    """

    start: int
    end: int
    steps: tuple[Step, ...]
    last: str = ""
    scope: str = ""
    document: Hashable = None


def words(name: str) -> list[str]:
    """Return the words of all styles in a field of :class:`~graph_retrievers.construction.numbers.NumberStyle`."""
    return [word for style in STYLES for word in getattr(style, name).split()]


def any_of(terms: Iterable[str]) -> str:
    """Return a pattern for one of some words in any case."""
    return rf"(?:(?i:{'|'.join(re.escape(word) for word in sorted(set(terms), key=lambda word: (-len(word), word)))})(?!\w))"


def phrases(name: str) -> str:
    """Return a pattern for one of the phrases of all styles in a field that separates them by "|"."""
    return any_of(phrase for style in STYLES for phrase in getattr(style, name).split("|") if phrase)


KINDS = {word: kind for style in STYLES for kind, listed in style.units.items() for word in listed.split()}
"""The kind of each word of a unit, in folded case."""
KINDS |= dict.fromkeys(words("documents"), "document")

RANKS = {kind: rank for rank, kind in enumerate((*HEADED, *INNER))} | dict.fromkeys(CAPTIONED, len(HEADED))
"""A unit is inside units of lower ranks."""


def kind_of(word: str) -> str:
    """Return the kind of a word of units, "" for any other word; only an abbreviation has a full stop."""
    return KINDS.get(word.casefold(), "")


def enclosed(match: re.Match[str]) -> Step:
    """Return the kind and the number of a match of :data:`ENCLOSED`."""
    return _AROUND[match["before"]].get(match["behind"], ""), match["number"] + (f"-{match['more']}" if match["more"] else "")


# Korean particles follow a number without a space: "별표 1에".
_APART = r"(?![^\W가-힣])"
NUMBER = rf"(?:\d{{1,4}}(?:\.\d{{1,3}})*[a-z]{{0,2}}|[IVXLCDM]{{1,7}}|[A-Z](?:[.-]?\d{{1,3}})*){_APART}"
"""The number of a unit with a heading: 17, 17a, 4.2, IV, A.1."""

_PLURALS, _AROUND = frozenset(words("plurals")), {word: after for style in STYLES for word, after in style.around.items()}
_AFTER = "|".join(word for after in _AROUND.values() for word in after)
ENCLOSED = re.compile(
    # The second number of an article that was added behind a Korean one: "제17조의2".
    rf"(?P<before>{'|'.join(_AROUND)})\s?(?P<number>\d{{1,4}})\s?(?P<behind>{_AFTER})(?:의\s?(?P<more>\d{{1,3}}))?"
)
"""A number between two words, as in "제17조"."""
_AND, _TO, _OF = any_of(words("ands")), any_of(words("ranges")), any_of(words("of"))
# The word comes with the space behind it, which "l'article" does not have.
_THE = rf"(?:{any_of(words('the'))}\s|(?i:{'|'.join(words('elided'))}))"
_ORDINALS = any_of(words("ordinals"))
# "the first and second subparagraph", which no number marks in the text.
_PASSAGE = rf"(?:{_THE}?{_ORDINALS}(?:(?:,|\s{_AND}|\s{_TO})\s{_THE}?{_ORDINALS})*\s{any_of(words('passages'))})"
_LETTERS = any_of(word for word, kind in KINDS.items() if kind.endswith("letter"))
# The first letters of such words: nothing else is tried where others begin, as most do.
_FIRST = "".join(
    sorted({letter for word, kind in KINDS.items() if kind.endswith("letter") for letter in word[0] + word[0].upper()})
)
_SHORT = {word: kind for style in STYLES for word, kind in style.short.items()}

# A word before a number, also at the end of a line. The word itself is looked up, so that more words take no more time.
_HEAD = re.compile(
    rf"(?:(?P<around>{'|'.join(_AROUND)})|(?<![^\W_])(?P<word>[^\W\d_]++\.?+|(?<!§)§++))\s{{0,8}}+"
    r"(?=-?\d|\((?:\d{1,3}[a-z]?|[A-Za-z]{1,5})\)|[a-z]\)|[A-Z]{1,7}(?![^\W\d_]))"
    rf"|(?=[{_FIRST}])(?<!\w)(?P<letter>{_LETTERS})\s{{1,8}}(?=[a-z]{{1,2}}(?!\w))"
)
_LABEL = r"\((?:\d{1,3}[a-z]{0,2}|[a-z]{1,2}|[ivx]{3,5}|[A-Z])\)"
_ONE_LABEL, _LABELS = re.compile(r"\w+"), re.compile(rf"(?:\s?{_LABEL}){{1,8}}")
_ITEM = re.compile(NUMBER)
_INNER_ITEM = re.compile(rf"{_LABEL}|\d{{1,3}}(?:\.\d{{1,3}})*[a-z]{{0,2}}(?![\w/])|[a-z]{{1,2}}\)")
_LETTER_ITEM = re.compile(rf"{_LABEL}|(?:[a-z]|aa|bb|cc|dd|ee|ff|gg|hh)\)?(?!\w)")
_CAPTION_ITEM = re.compile(rf"(?:(?:[A-Z][.-]?)?\d{{1,4}}(?:[.-]\d{{1,4}})*[a-z]?|[IVXLCDM]{{1,7}}|[A-Z]){_APART}")
_DOCUMENT_ITEM = re.compile(r"-?(?P<number>\d{1,6}(?:-\d{1,3})*)(?::\d{4})?(?![\w/])")
_LINKS = {
    "and": re.compile(rf"\s?,?\s{{1,8}}{_AND}\s{{1,8}}"),
    "to": re.compile(rf"\s{{1,8}}{_TO}\s{{1,8}}|\s?[–—-]\s?"),
    ",": re.compile(r"\s?,\s{1,8}"),
}
# A section without a word: "see 7.5", "ISO 9001:2015, 7.5"; and a document by its code, "QM-03".
_DIVIDED, _SECTION = frozenset(words("divided")), re.compile(r"\d\d?\.\d{1,2}(?![\w/])")
_BARE, _CITES, _CITING = re.compile(r",?\s{1,3}(?=\d{1,2}\.\d)"), re.compile(rf"(?<!\w){phrases('cites')}\s\Z"), 30
# The first letter comes before what may not be in front of it, so that the others are passed over fast.
CODE = re.compile(r"[A-Z](?<![\w-][A-Z])[A-Z]{1,7}-\d{1,5}(?![\w-])")
"""The code of a document of a house: "QM-03"."""
_ENCLOSED_RANGE = re.compile(rf"\s?{any_of(words('ranges'))}\s?")
_MEASURE = re.compile(rf"\s?(?:%|{any_of(words('measures'))})")
_FOLLOWING = re.compile(rf"\s{phrases('following')}")
_BEHIND = re.compile(r"\d\s\Z")
_NEXT_WORD = re.compile(r"\s+([^\W\d_]+\.?|§+)")

_ACTS = sorted(words("acts"), key=lambda word: (-len(word), word))
_UNION = r"(?:\([A-Z]{2,8}(?:,\s?[A-Za-z]{2,8})*\)\s+)"
_ACT_NUMBER = re.compile(r"(?P<number>\d(?<![\w/.]\d)\d{0,3}/\d{1,4})(?:/[A-Z]{2,8})?(?![\w/])")
# "Council Directive", "Regulation (EC) No", "(EU)", in front of a number such as 91/271/EEC.
_ACT_BEFORE = re.compile(
    rf"(?<!\w)(?:(?:[A-Z]\w*[a-z]\w*\s){{0,3}}(?i:{'|'.join(_ACTS)})s?\s+{_UNION}?|{_UNION})(?:(?:No|Nr|n[o°])\.?\s*)?$"
)
# An act without a known name: a word of acts, also at the end of a compound, or two words with capitals.
_ACT = re.compile(
    rf"(?:[A-ZÄÖÜ][\w-]*\s){{0,3}}?(?=[A-ZÄÖÜ])[\w-]*(?i:{'|'.join(_ACTS)})(?!\w)|[A-ZÄÖÜ][\w-]+\s[A-ZÄÖÜ][\w-]*[a-zäöüß]"
)
# An act whose name is written small: "de la loi n° 78-17", "du code civil".
_SMALL_ACT = re.compile(rf"{any_of(words('small'))}\s(?i:{'|'.join(map(re.escape, sorted(words('after_small'))))})")
# Korean has no spaces between references, so that what may be a word is as long as the text.
_ACRONYM = re.compile(rf"(?!{any_of(words('emphasis'))})[A-ZÄÖÜ](?=\w{{0,20}}[A-ZÄÖÜ])\w{{2}}")

_DOWN = re.compile(rf"\]?\)?\s?,?\s{{0,8}}(?:{_PASSAGE}\s?,?\s{{0,8}})?\(?\[?")
_TAIL = re.compile(
    rf"[\])]?(?:,?\s(?:{_OF}\s)?{_PASSAGE})?,?\s{{1,8}}{_OF}\s{{1,8}}{_THE}?"
    # "Article 2 of the Annex to Recommendation ...": the only annex has no number.
    rf"(?:(?:{_PASSAGE}|{any_of(word for word, kind in KINDS.items() if kind == 'annex')}),?\s{_OF}\s{_THE}?)?"
)
_UP = re.compile(rf"{_TAIL.pattern}\[?")
_JOIN = re.compile(rf",\s{{1,8}}|,?\s{phrases('joins')}\s|,?\s{{0,8}}{_AND}\s{{1,8}}(?:{_OF}\s|{_THE}){{0,2}}")
_DEICTIC = re.compile(rf"(?:(?P<this>{any_of(words('this'))})|{any_of(words('that'))})\s(?P<word>[^\W\d_]+)")
_ELSEWHERE = re.compile(rf"{any_of(words('other'))}\s[^\W\d_]")
MINUTES = re.compile(any_of(words("minutes")))
"""A word for minutes."""
DATED = re.compile(rf"{MINUTES.pattern}\s(?:{_OF}\s{_THE}?)?")
"""A word for minutes, and what is between it and their day."""
_THEREOF = re.compile(rf"\s{{1,8}}{any_of(words('thereof'))}")
# Korean names the document in front: "「베틀법」 제3조", "같은 법 제3조", "이 법 제3조"; "같은 조 제2항" is of the article before.
_MAY_BE_NAMED = re.compile(r"[」가-힣]\s?\Z")
_IN_FRONT = re.compile(
    rf"(?:「(?P<name>[^「」]{{1,{_BEFORE - 2}}})」|(?<!\w)(?:(?P<this>{any_of(words('this'))})|{any_of(words('that'))})\s?"
    rf"(?:{any_of(KOREAN.acts.split())}|(?P<unit>{_AFTER})))\s?\Z"
)
# "Article 17 Right to erasure", "§ 14. Scope", "ANNEX III –"; not "Article 17 of ...", "Article 17(1)".
_TITLED = re.compile(
    rf"(?P<word>[^\W\d_]+\.?|§)\s?(?P<number>{NUMBER})(?:\.?\s*$|\s?[.:–—|-]\s|\.?\s+(?=[^\Wa-zß-öø-ÿ_])|\s+(?=[(„“‘«\"']))"
)
PLAIN_NUMBER = re.compile(r"(?P<number>(?:[A-Z]\.)?\d{1,3}(?:\.\d{1,3})*)\.?\s+(?=\S)")
"""A number without a word at the beginning of a line."""
# A line of a list of contents, and a row of a table.
_CONTENTS = re.compile(r"\.{3,}\s*\d+$|\s\|\s")
# Most characters of a line that is a heading.
_LONGEST_HEADING = 200


class _Item(NamedTuple):
    """A number of a list, "" if only numbers in brackets are given; `link` is what is before it: "", ",", "and" or "to"."""

    number: str
    labels: tuple[str, ...]
    link: str


class _Mention(NamedTuple):
    """A word of a unit with its numbers."""

    kind: str
    start: int
    end: int
    items: tuple[_Item, ...]
    word: str = ""


@dataclass
class _Chain:
    """Mentions from outside to inside. With `for_each`, the inside is meant of every item of the outside, else of the last.

    With `leads`, the name of the document is in front, and counts for what is joined to the chain.
    """

    levels: list[_Mention]
    start: int
    end: int
    is_joined: bool = False
    for_each: bool = False
    leads: bool = False
    scope: str = ""
    document: Hashable = None
    around: tuple[Step, ...] = field(default=())

    def __contains__(self, kind: str) -> bool:
        return any(level.kind == kind for level in self.levels)


def references(text: str, name_at: NameAt = lambda text, start: None) -> list[Reference]:
    """Return the references by number in a text, in order; `name_at` finds the names of known documents.

    >>> [found.steps for found in references("See point (a) of Article 6(1), and Articles 13 to 15.")]
    [(('article', '6'), ('', '1'), ('point', 'a')), (('article', '13'),)]
    >>> references("Nach § 14 Abs. 2 Satz 1 des Umsatzsteuergesetzes")[0].scope
    'other'
    """
    results: list[Reference] = []
    chains = _chains(text, _mentions(text, name_at))
    before: Reference | None = None
    # The last reference that names a document, for "that Regulation".
    naming: Reference | None = None
    for place, chain in enumerate(chains):
        _name(chain, text, name_at, before, naming)
        if place and chain.is_joined:
            if chains[place - 1].leads and not chain.scope and chain.levels[0].kind in HEADED:
                chain.scope, chain.document, chain.leads = chains[place - 1].scope, chains[place - 1].document, True
            _inherit(chain, chains[place - 1])
        # It is expanded for the meaning of "of that Article" behind it, and again when names behind lists are known.
        before = next(iter(_expanded(chain)), before)
        naming = before if chain.scope in (OTHER, NAMED) else naming
    for chain, after in zip(chains[-2::-1], chains[:0:-1], strict=True):
        # In "Article 5 and Article 6 of that act", both are of the act, but in "Section 2.1 and RFC 2119", only one is of the RFC.
        if not chain.levels or not after.levels or _differ(chain.levels[0], after.levels[0]):
            continue
        if after.is_joined and not chain.scope and chain.levels[0].kind in HEADED:
            chain.scope, chain.document = (after.scope, after.document) if after.scope in (OTHER, NAMED) else ("", None)
    for chain in chains:
        results += _expanded(chain)
    return results


def _differ(one: _Mention, other: _Mention) -> bool:
    """Return whether two units cannot be of one document: "§ 5 und Art. 6 DSGVO", "Section 3.2 and Article 28 GDPR"."""
    return {one.kind, other.kind} == {"article", "§"} or (one.kind != other.kind and "." in one.items[0].number)


def _mentions(text: str, name_at: NameAt) -> list[_Mention]:
    """Return the mentions of units and of documents by number, in order."""
    numbers = _ACT_NUMBER.finditer(text) if "/" in text else ()
    acts = [mention for number in numbers if (mention := _act(text, number))]
    codes = (code for code in CODE.finditer(text) if name_at(text, code.start()) is not None)
    acts += [_Mention("document", code.start(), code.end(), (_Item(code[0], (), ""),), "code") for code in codes]
    for number in _SECTION.finditer(text):
        if _CITES.search(text, max(0, number.start() - _CITING), number.start()):
            items, end = _items(text, number.start(), "section", True)
            acts += [_Mention("section", number.start(), end, items)] if items and not _MEASURE.match(text, end) else []
    acts.sort(key=lambda mention: mention.start)
    mentions: list[_Mention] = []
    start = 0
    while head := _HEAD.search(text, start):
        mention = _mention(text, head)
        start = head.end() if mention is None else mention.end
        if mention is not None:
            mentions.append(mention)
            if further := _further(text, mentions):
                mentions.append(further)
                start = further.end
    if acts:
        # "Decision No 768/2008" is an act, whatever its words are besides.
        ends = [act.end for act in acts]
        after = [bisect_right(ends, one.start) for one in mentions]
        mentions = [one for one, n in zip(mentions, after, strict=True) if n == len(acts) or one.end <= acts[n].start]
        mentions = sorted([*mentions, *acts], key=lambda mention: mention.start)
    return mentions


def _act(text: str, number: re.Match[str]) -> _Mention | None:
    """Return the act with a number such as 2016/679; None if no word of an act is before it."""
    before = _ACT_BEFORE.search(text[max(0, number.start() - _BEFORE) : number.start()])
    if before is None:
        return None
    start = number.start() - len(before[0])
    return _Mention("document", start, number.end(), (_Item(number["number"], (), ""),), "act")


def _mention(text: str, head: re.Match[str]) -> _Mention | None:
    """Return the unit or the document with the number behind a word; None if the word is none of these."""
    if head["around"]:
        match = ENCLOSED.match(text, head.start())
        if match is None:
            return None
        kind, number = enclosed(match)
        range_end = _ENCLOSED_RANGE.match(text, match.end())
        last = ENCLOSED.match(text, range_end.end()) if range_end else None
        if last is not None and enclosed(last)[0] == kind:
            return _Mention(kind, match.start(), last.end(), (_Item(number, (), ""), _Item(enclosed(last)[1], (), "to")))
        return _Mention(kind, match.start(), match.end(), (_Item(number, (), ""),))
    word = (head["word"] or head["letter"]).casefold()
    kind = kind_of(word)
    if not kind and word in _SHORT and _BEHIND.search(text, max(0, head.start() - 2), head.start()):
        kind = _SHORT[word]
    if kind == "document":
        match = _DOCUMENT_ITEM.match(text, head.end())
        if match is None:
            return None
        return _Mention(kind, head.start(), match.end(), (_Item(match["number"].lstrip("0"), (), ""),), word)
    # "Section1" is a name in code, "Abs.1" a reference.
    is_apart = not word[-1].isalpha() or head.end() > head.start() + len(word)
    items, end = _items(text, head.end(), kind, word in _PLURALS) if kind and is_apart else ((), 0)
    if not items:
        return None
    following = _FOLLOWING.match(text, end)
    return _Mention(kind, head.start(), following.end() if following else end, items, word)


def _items(text: str, start: int, kind: str, plural: bool) -> tuple[tuple[_Item, ...], int]:
    """Return the list of numbers that begins at a place of a text, and its end."""
    first, end = _item(text, start, kind, "")
    if first is None:
        return (), start
    items, unsure_items = [first], list[_Item]()
    place = end
    while len(items) < _ITEMS:
        link, match = next(
            ((name, link_match) for name, link in _LINKS.items() if (link_match := link.match(text, place))), ("", None)
        )
        item, place = _item(text, match.end(), kind, link) if match else (None, place)
        if item is None or _MEASURE.match(text, place) or _repeats(text, place, kind):
            break
        is_bare = item.number and match is not None and text[match.end()] != "("
        if link == "," and is_bare and not plural:
            # A comma may end the reference, as in "Absatz 2, 6. Höhe", unless the list goes on to an "and".
            unsure_items.append(item)
            continue
        items += [*unsure_items, item]
        unsure_items, end = [], place
    return tuple(items), end


def _item(text: str, start: int, kind: str, link: str) -> tuple[_Item | None, int]:
    """Return the number at a place of a text, with those in brackets behind it, and its end."""
    if kind in CAPTIONED:
        pattern = _CAPTION_ITEM
    elif kind.endswith("letter"):
        pattern = _LETTER_ITEM
    else:
        pattern = _INNER_ITEM if kind in INNER else _ITEM
    number = pattern.match(text, start)
    if number is None:
        labels = _LABELS.match(text, start) if link else None
        return (_Item("", tuple(_ONE_LABEL.findall(labels[0])), link), labels.end()) if labels else (None, start)
    labels = _LABELS.match(text, number.end())
    label_texts = tuple(_ONE_LABEL.findall(labels[0])) if labels else ()
    return _Item(number[0].strip("()"), label_texts, link), (labels or number).end()


def _repeats(text: str, end: int, kind: str) -> bool:
    """Return whether a word of the same kind follows: in "Abs. 1, 6 Abs. 2", 6 is a number of what is around."""
    word = _NEXT_WORD.match(text, end)
    return word is not None and kind_of(word[1]) == kind and kind in INNER


def _further(text: str, mentions: Sequence[_Mention]) -> _Mention | None:
    """Return a section behind a standard, "ISO 9001:2015, 7.5", or another of a plural behind parts: "§§ 5 Abs. 1, 6 Abs. 2"."""
    if mentions[-1].word in _DIVIDED and (bare := _BARE.match(text, mentions[-1].end)):
        items, end = _items(text, bare.end(), "section", True)
        return _Mention("section", bare.end(), end, items) if items else None
    part, outer = mentions[-1], next((one for one in reversed(mentions[-4:]) if one.kind in HEADED), None)
    if outer is None or part.kind not in INNER or outer.word not in _PLURALS or part.end - outer.end > _GAP:
        return None
    link = _LINKS["and"].match(text, part.end) or _LINKS[","].match(text, part.end)
    item, end = _item(text, link.end(), outer.kind, "") if link else (None, 0)
    word = _NEXT_WORD.match(text, end) if item else None
    if link is None or item is None or word is None or kind_of(word[1]) not in INNER:
        return None
    return _Mention(outer.kind, link.end(), end, (item,), outer.word)


def _chains(text: str, mentions: Iterable[_Mention]) -> list[_Chain]:
    """Return the mentions that belong together."""
    chains: list[_Chain] = []
    for mention in mentions:
        rank, new_chain = RANKS[mention.kind], _Chain([mention], mention.start, mention.end)
        gap = text[chains[-1].end : mention.start] if chains and mention.start - chains[-1].end <= _GAP else None
        if gap is not None:
            chain = chains[-1]
            if rank > RANKS[chain.levels[-1].kind] and not chain.for_each and _DOWN.fullmatch(gap):
                chain.levels.append(mention)
                chain.end = mention.end
                continue
            # There may be no word between: "Art. 6 Verordnung (EU) 2016/679", "Section 5 RFC 2119".
            beside = gap == " " and mention.kind == "document"
            if rank < RANKS[chain.levels[0].kind] and (beside or _UP.fullmatch(gap)):
                chain.levels.insert(0, mention)
                chain.end, chain.for_each = mention.end, True
                continue
            new_chain.is_joined = _JOIN.fullmatch(gap) is not None
        chains.append(new_chain)
    return chains


def _name(chain: _Chain, text: str, name_at: NameAt, before: Reference | None, naming: Reference | None) -> None:
    """Write into a chain which document it names; `before` is the last reference, and `naming` the last that names one."""
    if chain.levels[0].kind == "document":
        mention = chain.levels.pop(0)
        named = name_at(text, mention.start) if mention.word == "code" else None
        chain.scope, chain.document = NAMED, named or (mention.word, mention.items[0].number)
        return
    tail = _TAIL.match(text, chain.end)
    place = tail.end() if tail else chain.end + text.startswith(" ", chain.end)
    word = _DEICTIC.match(text, place)
    if _THEREOF.match(text, chain.end):
        chain.scope, chain.document, _ = _antecedent(before, "")
        rank = RANKS[chain.levels[0].kind]
        # In "Article 1 and Article 2 thereof", the second article is not in the first.
        chain.around = tuple(takewhile(lambda step: not step[0] or RANKS[step[0]] < rank, before.steps if before else ()))
    elif word and (tail or word["this"]):
        kind = kind_of(word["word"])
        if not word["this"]:
            chain.scope, chain.document, chain.around = _antecedent(before if kind else naming, kind)
        elif not kind:
            chain.scope = OWN
    elif tail and _ELSEWHERE.match(text, place):
        chain.scope = OTHER
    elif (document := name_at(text, place)) is not None:
        chain.scope, chain.document = NAMED, document
    elif _MAY_BE_NAMED.search(text, max(0, chain.start - 2), chain.start) and (
        front := _IN_FRONT.search(text[max(0, chain.start - _BEFORE) : chain.start])
    ):
        _lead(chain, text, front, name_at, before, naming)
    elif _ACRONYM.match(text, place) or (tail and any(act.match(text, place) for act in (_ACT, _SMALL_ACT, MINUTES))):
        chain.scope = OTHER


def _lead(
    chain: _Chain, text: str, front: re.Match[str], name_at: NameAt, before: Reference | None, naming: Reference | None
) -> None:
    """Write into a chain which document, or which unit of one, is named in front of it by a match of :data:`_IN_FRONT`."""
    kind = _AROUND["제"][front["unit"]] if front["unit"] else ""
    chain.leads = True
    if front["name"]:
        document = name_at(text, max(0, chain.start - _BEFORE) + front.start("name"))
        chain.scope, chain.document = (OTHER, None) if document is None else (NAMED, document)
    elif not front["this"]:
        chain.scope, chain.document, chain.around = _antecedent(before if kind else naming, kind)
    elif not kind:
        chain.scope = OWN


def _antecedent(before: Reference | None, kind: str) -> tuple[str, Hashable, tuple[Step, ...]]:
    """Return what "that Article", or "that Regulation" if `kind` is "", means behind a reference."""
    if before is None:
        return OTHER, None, ()
    steps = before.steps
    if kind:
        ends = [place for place, step in enumerate(steps, 1) if step[0] == kind] or [min(len(steps), 2)]
        steps = steps[: ends[0]]
    else:
        steps = ()
    return before.scope, before.document, steps


def _inherit(chain: _Chain, before: _Chain) -> None:
    """Give a part what is around the one before it: in "§ 3 Abs. 1 und Abs. 2", § 3 is meant of both."""
    if not chain.levels or chain.around or chain.levels[0].kind not in INNER or (chain.scope and before.scope):
        return
    kind = chain.levels[0].kind
    if kind in before and (before.levels[0].kind != kind or before.around):
        steps = next(iter(_expanded(before)), None)
        if steps is not None:
            end = next((place for place, step in enumerate(steps.steps) if step[0] == kind), 0)
            chain.around = steps.steps[:end]
            if not chain.scope:
                chain.scope, chain.document = before.scope, before.document


def _expanded(chain: _Chain) -> Iterator[Reference]:
    """Yield the references of a chain: one for each item, and one for each range."""
    around: list[tuple[Step, ...]] = [chain.around]
    if not chain.levels:
        yield Reference(chain.start, chain.end, (), "", chain.scope, chain.document)
    for depth, level in enumerate(chain.levels):
        # A list of points of a list of paragraphs of a list of articles would be all of their combinations.
        paths = list(islice(((steps + path, last) for steps in around for path, last in _paths(level)), _MOST))
        if depth + 1 == len(chain.levels):
            alone = paths
        elif chain.for_each:
            alone, around = [], [path for path, _ in paths]
        else:
            alone, around = paths[:-1], [paths[-1][0]]
        yield from (Reference(chain.start, chain.end, path, last, chain.scope, chain.document) for path, last in alone)


def _paths(mention: _Mention) -> list[tuple[tuple[Step, ...], str]]:
    """Return the steps of each item of a list, and the last number of a range."""
    paths: list[tuple[tuple[Step, ...], str]] = []
    for item in mention.items:
        numbers = (item.number, *item.labels) if item.number else item.labels
        if paths:
            before = [number for _, number in paths[-1][0]]
            # "(b)" behind 6(1)(a) is 6(1)(b), and behind "point 1(a)" it is 1(b).
            if not item.number or (len(before) > 1 and _shape(numbers[0]) != _shape(before[0])):
                places = (place for place in range(len(before) - 1, 0, -1) if _shape(before[place]) == _shape(numbers[0]))
                numbers = (*before[: next(places, len(before))], *numbers)
        steps = tuple((mention.kind if place == 0 else "", number) for place, number in enumerate(numbers))
        if item.link == "to" and paths and len(paths[-1][0]) == len(steps):
            paths[-1] = paths[-1][0], steps[-1][1]
        else:
            paths.append((steps, ""))
    return paths


def _shape(number: str) -> str:
    return "1" if number[0].isdigit() else "a" if number.islower() else "A"


def numbered_heading(heading: str) -> tuple[str, str, int] | None:
    """Return the kind and the number with which a heading begins, and their end; the kind is "" for a bare number.

    >>> numbered_heading("Article 17 Right to erasure"), numbered_heading("4.2 Setup"), numbered_heading("Article 17 of the act")
    (('article', '17', 11), ('', '4.2', 4), None)
    """
    if (match := _TITLED.match(heading)) and kind_of(match["word"]) in HEADED[1:]:
        return kind_of(match["word"]), match["number"], match.end()
    if match := ENCLOSED.match(heading):
        kind, number = enclosed(match)
        # "제1조(목적)" and "제1장 총칙" are headings; "제1조 및" and "제1조에" refer to one.
        has_title = heading[match.end() :].startswith(("(", " (") if kind == "article" else ("(", " ")) or heading == match[0]
        return (kind, number, match.end()) if kind in HEADED and has_title else None
    match = PLAIN_NUMBER.match(heading)
    return ("", match["number"], match.end()) if match else None


def is_heading(line: str) -> bool:
    """Return whether a line with a number, which nothing marks as a heading, looks like one."""
    return (
        len(line) < _LONGEST_HEADING
        and not line.endswith((".", ",", ";", ":"))
        and not (_CONTENTS.search(line) or PLAIN_NUMBER.match(line))
    )
