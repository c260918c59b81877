"""Folders of notes: what shows that they are of Logseq or Dendron, and the further names that notes have there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import unquote

from graph_retrievers.construction.front_matter import names_of

LOGSEQ, DENDRON = "logseq", "dendron"
"""Kinds of folders whose notes are read otherwise than those of Obsidian."""

MARKDOWN = (".md", ".mdx", ".markdown")
"""Endings of the names of notes."""

# Characters of a note that may have the fields of Dendron.
_HEAD = 2_000
_JOURNAL = re.compile(r"(?:^|/)journals/[^/]*$")
_PAGE = re.compile(r"(?:^|/)pages/[^/]*$")
_DATE = re.compile(r"(\d{4})[_-]?(\d\d)[_-]?(\d\d)")
_FIELD = re.compile(r"^(id|title|created|updated):", re.MULTILINE)
_UUID, _UUID_LENGTH = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), 36
_NAMESPACE = re.compile(r"___|%2F", re.IGNORECASE)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def vault_kind(notes: Mapping[str, str | Mapping[str, Any]]) -> str:
    r"""Return the kind of notes, "logseq", "dendron", or "" for all others, by their paths and their texts or fields.

    Logseq has notes in a folder ``pages``, and in ``journals`` next to it those of days, or names with ``___`` for a slash. Half
    of the notes of Dendron have the fields ``id``, ``title``, and ``created`` or ``updated``, in their front matter.

    >>> vault_kind({"pages/Looms.md": "", "journals/2024_01_31.md": ""}), vault_kind({"looms.md": "# Looms"})
    ('logseq', '')
    >>> vault_kind({"tool.loom.md": "---\nid: x1\ntitle: Loom\nupdated: 1\n---\n"})
    'dendron'
    """
    notes = {path: held for path, held in notes.items() if path.lower().endswith(MARKDOWN)}
    paths = [path.replace("\\", "/") for path in notes]
    pages = [path for path in paths if _PAGE.search(path)]
    if pages and any(_NAMESPACE.search(path) for path in pages):
        return LOGSEQ
    journals = [path for path in paths if _JOURNAL.search(path) and "_" in path and _day(note_name(path))]
    if journals and (pages or len(journals) == len(paths)):
        return LOGSEQ
    count = sum(_is_of_dendron(held) for held in notes.values())
    return DENDRON if notes and 2 * count >= len(notes) else ""


def _is_of_dendron(held: str | Mapping[str, Any]) -> bool:
    # A splitter may have cut the front matter off.
    fields = set(_FIELD.findall(held[:_HEAD].replace("\r", "\n"))) if isinstance(held, str) and held.startswith("---") else held
    return "id" in fields and "title" in fields and ("created" in fields or "updated" in fields)


def note_name(path: str) -> str:
    """Return the name of the file of a note without its ending.

    >>> note_name("pages/tools___loom.md")
    'tools___loom'
    """
    name = path.replace("\\", "/").rpartition("/")[2]
    return name[: -len(ending)] if (ending := next((end for end in MARKDOWN if name.lower().endswith(end)), "")) else name


def logseq_name(path: str) -> str:
    """Return the name of a page of Logseq by its file: namespaces are separated by slashes, and a journal is called by its day.

    >>> logseq_name("pages/tools___loom.md"), logseq_name("pages/tools%2Floom.md"), logseq_name("journals/2024_01_31.md")
    ('tools/loom', 'tools/loom', 'Jan 31st, 2024')
    """
    name = note_name(path)
    day = _day(name) if _JOURNAL.search(path.replace("\\", "/")) else None
    return next(iter(day_names(day))) if day else unquote(name.replace("___", "/"))


def names_of_notes(kind: str, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return further names of notes, by which wiki links of their kind find them, with the path of each.

    Pages of Logseq have the name of their file, their title, their aliases, and journals the forms of their day that Logseq
    offers. Notes of Dendron and Obsidian are found by their files. `fields` has the properties of each note by its path.

    >>> names_of_notes("logseq", {"pages/a___b.md": {"title": "A", "alias": ["B2"]}})
    {'A': 'pages/a___b.md', 'a/b': 'pages/a___b.md', 'B2': 'pages/a___b.md'}
    """
    if kind != LOGSEQ:
        return {}
    names: dict[str, str] = {}
    others: dict[str, str] = {}
    for path, held in fields.items():
        if title := str(held.get("title") or "").strip():
            names.setdefault(title, path)
        names.setdefault(logseq_name(path), path)
        day = _day(note_name(path)) if _JOURNAL.search(path.replace("\\", "/")) else None
        aliases = [part.strip() for name in names_of(held) for part in (name, *name.split(","))]
        for name in [*aliases, *(day_names(day) if day else ())]:
            others.setdefault(name, path)
    # A page comes before another that has its name as an alias.
    return names | {name: path for name, path in others.items() if name not in names}


def is_block_id(name: str) -> bool:
    """Return whether an anchor is the id of a block of Logseq.

    >>> is_block_id("65ba0000-1111-2222-3333-444455556666"), is_block_id("^a1")
    (True, False)
    """
    return len(name) == _UUID_LENGTH and _UUID.fullmatch(name) is not None


def day_names(day: date) -> Sequence[str]:
    """Return how Logseq may write a day, its default first.

    >>> day_names(date(2024, 1, 31))[:4]
    ['Jan 31st, 2024', 'January 31st, 2024', '31st Jan 2024', '31st January 2024']
    """
    number = f"{day.day}{'th' if 10 < day.day < 14 else _ENDINGS.get(day.day % 10, 'th')}"
    month, weekday = _MONTHS[day.month - 1], _DAYS[day.weekday()]
    year, plain = f"{day.year:04}", [f"{day.year:04}", f"{day.month:02}", f"{day.day:02}"]
    numbers = [mark.join(part) for mark in ("-", "/", ".", "_") for part in (plain, plain[::-1], [*plain[1:], plain[0]])]
    said = [
        f"{month[:3]} {number}, {year}",
        f"{month} {number}, {year}",
        f"{number} {month[:3]} {year}",
        f"{number} {month} {year}",
    ]
    days = [f"{name}, {text}" for name in (weekday[:3], weekday) for text in numbers]
    return [*said, *numbers, "".join(plain), f"{numbers[0]} {weekday}", "{}年{}月{}日".format(*plain), *days]


def parents(paths: Iterable[str]) -> dict[str, str]:
    """Return the parent of each note of Dendron that has one: the nearest note above it, by the dots in its name.

    >>> parents(["v/tool.md", "v/tool.loom.card.md", "v/root.md"])
    {'v/tool.loom.card.md': 'v/tool.md'}
    """
    known: dict[tuple[str, str], str] = {}
    for path in paths:
        known.setdefault(_place(path), path)
    found = {}
    for (folder, name), path in known.items():
        above = name.rpartition(".")[0]
        while above and (folder, above) not in known:
            above = above.rpartition(".")[0]
        if above:
            found[path] = known[folder, above]
    return found


def _place(path: str) -> tuple[str, str]:
    return path.replace("\\", "/").rpartition("/")[0], note_name(path).casefold()


def _day(name: str) -> date | None:
    found = _DATE.fullmatch(name)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None
