"""Titles of pages without a marked title: the first line of a plain text, else the name of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from graph_retrievers.graph.labels import is_random

# Most characters of a line that may be a title; a longer one is a paragraph that was not wrapped.
_LONGEST = 100
_UNDERLINE = re.compile(r"([^\w\s])\1{2,}\s*")
# An item of a list, a quotation, or an indented line.
_SET_OFF = re.compile(r"\s|(?:[-*+•>|]|\d+[.)])\s")
_FIELD = re.compile(r"[\w-]+:\s")
_OPENING = "\"'“‘«¿¡("
_CLOSING = (*".,;:…", "。", "，", "；", "：")
# Files that are the first page of their folder.
_FIRST_PAGES = frozenset(["index", "_index", "readme"])
# Hyphens between numbers are kept, as in a date or a version.
_JOINT = re.compile(r"[_\s]+|(?<!\d)-+|-+(?!\d)")


def title_lines(text: str, alone: bool, longest: int = _LONGEST) -> int:
    r"""Return how many of the first lines of a plain text are its title: 0, 1, or 2 if it is underlined.

    The first line is the title if it has at most `longest` characters and a letter, begins with a letter, a digit or a quotation
    mark, and does not end like a sentence or a clause. It must be followed by an empty line, an underline, or a line that is
    indented, is an item of a list, or does not begin with a lower-case letter although its first word would fit on the line above;
    a line in capitals by any line that is not. `text` is the first paragraph; a single line that is the whole text (`alone`) does
    not count as a title.

    >>> title_lines("Jacquard loom\nIt reads punched cards.", alone=True), title_lines("The loom of\nJoseph Jacquard", alone=True)
    (1, 0)
    """
    first_line, *lines = text.split("\n")
    line = first_line.rstrip()
    has_start = line[:1].isalnum() or line[:1] in _OPENING
    if not has_start or _SET_OFF.match(line) or len(line) > longest or line.endswith(_CLOSING) or "://" in line:
        return 0
    if not any(map(str.isalpha, line)):
        return 0
    if not lines:
        return 0 if alone else 1
    if _UNDERLINE.fullmatch(lines[0]):
        return 2
    word = lines[0].split()[0]
    has_room = len(line) + 1 + len(word) <= max(map(len, (line, *lines)))
    is_header = _FIELD.match(line) and _FIELD.match(lines[0])
    is_capital = line.isupper() and not lines[0].isupper()
    return int(bool(_SET_OFF.match(lines[0])) or is_capital or (has_room and not word[0].islower() and not is_header))


def file_title(path: str | PurePath) -> str:
    """Return the name of a file as a title: without its extension, with spaces for underscores and for hyphens between words.

    The first page of a folder (``index``, ``_index``, ``README``) is named after the folder. A UUID or hash is not a title: "".

    >>> file_title("notes/jacquard-loom_2.txt"), file_title("2024-05-01.txt"), file_title("looms/index.md")
    ('jacquard loom 2', '2024-05-01', 'looms')
    """
    name = _file_name(PurePath(path))
    return "" if is_random(name) else _JOINT.sub(" ", name).strip() or name


def _file_name(path: PurePath) -> str:
    return (path.parent.name if path.stem.lower() in _FIRST_PAGES else "") or path.stem


def file_spellings(path: str) -> Sequence[str]:
    """Return how a text may write the name of a file: unchanged, with spaces or hyphens, and in lower case or with capitals."""
    title = file_title(path)
    words = title.split()
    small, capital = [word.lower() for word in words], [word[0].upper() + word[1:] for word in words]
    forms = (words, small, [*capital[:1], *small[1:]], capital)
    spellings = [joint.join(form) for joint in (" ", "-") for form in forms]
    return list(dict.fromkeys([*spellings, _file_name(PurePath(path))]))
