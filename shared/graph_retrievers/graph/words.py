"""Words in any script: letters and digits with their combining marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

__all__ = ["pairs"]

# Blocks of Unicode that hold combining marks.
_BLOCKS = ((0x300, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFE30), (0x10000, 0x12000), (0x16A00, 0x17000), (0x1D100, 0x1E950))


def _class(points: Iterable[int]) -> str:
    """Return the ranges of some ascending code points, as they are written in a class of a regular expression."""
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _marks() -> str:
    return _class(point for block in _BLOCKS for point in range(*block) if unicodedata.category(chr(point))[0] == "M")


def _unchanged() -> str:
    """Return characters of usual texts that :func:`normal` leaves as they are, whatever is beside them."""
    blocks = ((0x80, 0x1100), (0x1E00, 0x2C00), (0x3000, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4))
    letters = (chr(point) for block in blocks for point in range(*block))
    # Marks and characters without width depend on what is beside them.
    return _class(
        ord(letter)
        for letter in letters
        if unicodedata.normalize("NFKC", letter) == letter and unicodedata.category(letter)[0] not in "MC"
    )


# For classes of regular expressions. Vowel signs and accents, which \w does not match, and the zero width joiner inside conjuncts.
MARKS = f"{_marks()}\u200d"
# Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han.
_UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055"
    "\u1780-\u17b3\u17d7\u17dc\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U000323af"
)
# See word_pattern.
WORD = rf"[{_UNSPACED}][{MARKS}]*|[^\W{_UNSPACED}]+(?:[{MARKS}]+[^\W{_UNSPACED}]*)*"
_PLAIN, _WORD = re.compile(r"\w+"), re.compile(WORD)
# A class of one plane and one range beyond it is far faster than one of all ranges.
_SPECIAL = re.compile("[{}\U00010000-\U0010ffff]".format(re.sub(r"[^\x00-\uffff]-[^\x00-\uffff]", "", MARKS + _UNSPACED)))
_SYLLABLES = "\uac00-\ud7a3"
_PAIRED = re.compile(f"[{_UNSPACED}{_SYLLABLES}]")
_PART = re.compile(rf"(?:[{_UNSPACED}{_SYLLABLES}][{MARKS}]*)+|[^{_UNSPACED}{_SYLLABLES}]+")
_LETTER, _PAIR_LETTER = re.compile(rf"[{_UNSPACED}][{MARKS}]*"), re.compile(rf"[{_UNSPACED}{_SYLLABLES}][{MARKS}]*")
# Points of Hebrew, vowel signs of Arabic and what stretches its words: most texts, and most questions, leave them out.
_POINTS = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]+")
_LAST_LETTER, _MARK = re.compile(rf"[{_UNSPACED}][{MARKS}]*\Z"), re.compile(f"[{MARKS}]")
_HANGUL = ("\uac00", "\ud7a3")
# Particles of Korean, which are written directly after a noun, and the forms of "to be" that are.
_PARTICLE = (
    "에게서|에서|에게|께서|에|은|는|이|가|을|를|의|과|와|도|만|으로서|으로써|으로|로서|로써|로|부터|까지|마다|처럼|보다|하고|한테|"
    "이랑|랑|이나|나|이란|란|이라는|라는|이라고|라고|이며|며|이고|고|이자|이다|다|이었다|였다|입니다|이라|라|인|씨|님"
)
_PARTICLES = re.compile(rf"(?:{_PARTICLE}){{1,3}}(?![\uac00-\ud7a3])")
_LONGEST_PARTICLES = 6
_CHANGING = re.compile(f"[^\x00-\x7f{_unchanged()}]")
# The normal form takes quadratic time for a run of marks; Unicode's stream-safe text has at most 30 in a row (UAX 15, section 13).
# Fractions stay one letter, because "2\u00bd" is not 21/2.
_FRACTIONS = "\u00bc-\u00be\u2150-\u215f\u2189"
_MARK_RUNS = re.compile(rf"([^\w\s\x00-\u02ff]{{30}}|[{_FRACTIONS}])")
# A word that a line break cut, as in the text of PDF files. The hyphen comes first, so that a text without one is read fast.
_CUT = re.compile(r"-(?<=[^\W\d_]-)[ \t]*\r?\n[ \t]*(?=[^\W\d_])")
# Soft hyphens, also those at the end of a line, and characters without width, except the joiner inside conjuncts.
_HIDDEN = re.compile(r"\u00ad(?:[ \t]*\r?\n[ \t]*)?|[\u200b\u200c\u2060\ufeff]")
# Exponents and marks of footnotes do not belong to the number or word before them.
_RAISED = re.compile("(?<![\u00b9\u00b2\u00b3\u2070\u2074-\u2079\\s])(?=[\u00b9\u00b2\u00b3\u2070\u2074-\u2079])(?!^)")


def normal(text: str) -> str:
    r"""Return a text as it is read to cut it into words, without a change of case.

    It is in Unicode's normal form KC (accents joined to their letters, no ligatures, letters and digits of one width), without
    soft hyphens and characters of no width, and words that the end of a line cut are whole again. A raised number is separated
    from what it follows. More than 30 combining marks in a row are read 30 at a time. Everything that cuts texts or names into
    words reads them in this form.

    >>> normal("The o\ufb03ce of retrie-\nval"), normal("10\u00b2\u2075 Zucker\u00adrübe")
    ('The office of retrieval', '10^25 Zuckerrübe')
    """
    if not text.isascii() and _CHANGING.search(text):
        text = _in_form("NFKC", _RAISED.sub("^", _HIDDEN.sub("", text)))
    return _CUT.sub(_hyphen, text) if "\n" in text and "-" in text else text


def composed(text: str) -> str:
    """Return a text with accents joined to their letters and otherwise unchanged (normal form C), as addresses are compared."""
    return _in_form("NFC", text) if not text.isascii() and _CHANGING.search(text) else text


def _in_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    # The parts in between are what the pattern found.
    parts = _MARK_RUNS.split(text)
    return "".join(part if len(part) == 1 and place % 2 else unicodedata.normalize(form, part) for place, part in enumerate(parts))


def _hyphen(cut: re.Match[str]) -> str:
    after = cut.string[cut.end()]
    # A capital begins a word of its own ("Jean-\nPaul"), whose hyphen stays.
    return "" if after == after.lower() else "-"


def needs_marks(text: str) -> bool:
    r"""Return whether words of a text are more than runs of ``\w``: it has combining marks, or a script without spaces."""
    return not text.isascii() and _SPECIAL.search(text) is not None


def word_pattern(text: str) -> re.Pattern[str]:
    r"""Return the pattern that finds the words of a text.

    A word is a run of letters, digits and underscores with their combining marks. In scripts without spaces between words, each
    letter with its marks is one. For other texts the pattern is ``\w+``, which is faster.

    >>> [word_pattern(text).findall(text) for text in ("a loom", "\u0915\u093f\u0924\u093e\u092c", "\u674e\u5a1c")]
    [['a', 'loom'], ['\u0915\u093f\u0924\u093e\u092c'], ['\u674e', '\u5a1c']]
    """
    return _WORD if needs_marks(text) else _PLAIN


def word_count(text: str) -> int:
    r"""Return the number of words separated by spaces; in scripts without spaces, two letters count as one.

    >>> word_count("A loom weaves."), word_count("\u6771\u4eac\u3067\u751f\u307e\u308c\u305f")
    (3, 4)
    """
    return len(text.split()) + (0 if text.isascii() else len(_LETTER.findall(text)) // 2)


def is_unspaced(character: str) -> bool:
    """Return whether a character is a letter of a script without spaces between words."""
    return character > "\u0e00" and _LETTER.match(character) is not None


def pairs(word: str) -> list[str]:
    r"""Return the terms of a word by which texts of its script are searched: for most scripts the word itself.

    Scripts without spaces between words, and Korean, whose words end in particles, are searched by pairs of neighbouring letters,
    as full-text search without a dictionary does (the CJKBigramFilter of Lucene). Parts of other scripts are words of their own,
    and so is a single letter before Korean particles.

    >>> pairs("loom"), pairs("\u7535\u5f71\u7531"), pairs("\uc11c\uc6b8\uc740"), pairs("\ubb3c\uc740")
    (['loom'], ['\u7535\u5f71', '\u5f71\u7531'], ['\uc11c\uc6b8', '\uc6b8\uc740'], ['\ubb3c\uc740', '\ubb3c'])
    """
    if word.isascii() or not _PAIRED.search(word):
        return [word]
    terms: list[str] = []
    for part in _PART.findall(word):
        if not _PAIRED.match(part):
            terms.append(part)
            continue
        letters = _PAIR_LETTER.findall(part)
        if len(letters) == 1:
            # Particles after a word of another script are not a word.
            terms += [part] if not (terms and _PARTICLES.fullmatch(part)) else []
            continue
        terms += ["".join(pair) for pair in zip(letters, letters[1:], strict=False)]
        if _PARTICLES.match(part, 1) and _HANGUL[0] <= part[0] <= _HANGUL[1]:
            terms.append(part[0])
    return terms


def unpointed(text: str) -> str:
    """Return a text without the points and vowel signs that are usually omitted in Hebrew and Arabic."""
    return _POINTS.sub("", text)


def ends_word(text: str, end: int) -> bool:
    r"""Return whether a word or a name may end before the place `end` of a text.

    It may end before any character but a letter, digit or mark; anywhere between letters of a script that writes no spaces between
    words; and before a particle of Korean.

    >>> [ends_word(text, 2) for text in ("ab c", "abc", "\u674e\u5a1c\u6267", "\u0915\u093f\u0924", "\uc11c\uc6b8\uc740")]
    [True, False, True, False, True]
    """
    after = text[end : end + 1]
    if not after or not (after.isalnum() or after == "_"):
        return after.isascii() or not _MARK.match(after)
    if is_unspaced(after):
        return True
    if _HANGUL[0] <= after <= _HANGUL[1] and _HANGUL[0] <= text[end - 1] <= _HANGUL[1]:
        return _PARTICLES.match(text, end) is not None
    return not text[end - 1].isascii() and _LAST_LETTER.search(text[max(0, end - 8) : end]) is not None


def korean_stems(word: str) -> list[str]:
    r"""Return the possible stems of a Korean word without its particles, longest first, with at least two letters.

    >>> korean_stems("\uc11c\uc6b8\uc5d0\uc11c\ub294") == ["\uc11c\uc6b8\uc5d0\uc11c", "\uc11c\uc6b8"], korean_stems("loom")
    (True, [])
    """
    if not _HANGUL[0] <= word[-1:] <= _HANGUL[1]:
        return []
    ends = range(len(word) - 1, max(1, len(word) - 1 - _LONGEST_PARTICLES), -1)
    return [word[:end] for end in ends if _HANGUL[0] <= word[end - 1] <= _HANGUL[1] and _PARTICLES.match(word, end)]
