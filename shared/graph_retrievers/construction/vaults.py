"""Folders of notes: what shows that they are of Logseq or Dendron, and the further names that notes have there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import unquote

from graph_retrievers.construction.front_matter import names_of
from graph_retrievers.construction.wiki_links import DENDRON, LOGSEQ
from graph_retrievers.graph.file_endings import MARKDOWN

# Characters of a note that may have the fields of Dendron.
_HEAD = 2_000
_JOURNAL = re.compile(r"(?:^|/)journals/[^/]*$")
_PAGE = re.compile(r"(?:^|/)pages/[^/]*$")
_DATE = re.compile(r"(\d{4})[_-]?(\d\d)[_-]?(\d\d)")
_FIELD = re.compile(r"^(?:(id|title|desc):|(?:created|updated):[ \t]*['\"]?(\d{13}))", re.MULTILINE)
_PROPERTY = re.compile(r"^(?:title|alias)::[ \t]|^[ \t]+(?:id::[ \t]*[0-9a-f]{8}-|collapsed::)", re.MULTILINE)
_HALVES = re.compile(r"\[\[([^\[\]|\n#]*)\|([^\[\]|\n#]*)")
_MILLISECONDS = 10**12
_UUID, _UUID_LENGTH = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), 36
_NAMESPACE = re.compile(r"___|%2F", re.IGNORECASE)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def vault_kind(texts: Mapping[str, str], fields: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    r"""Return the kind of notes, "logseq", "dendron", or "" for all others, by their paths and texts, which may be cut.

    Logseq has notes in a folder ``pages``, and in ``journals`` next to it those of days, or names with ``___`` for a slash, or
    properties such as ``alias::`` and ``id::``. Half of the notes of Dendron have an ``id`` and a ``title`` in their front matter.
    As notes of other programs may have these, a further sign is needed: ``[[one|other]]`` names notes with its second half more
    often than with its first; or, if both name equally many, half of the notes have a ``desc`` or a time in milliseconds as
    Dendron writes them, or a quarter of them have a note above them by the dots in their names.

    `fields` has the metadata of notes whose loader took the front matter out of the text.

    >>> vault_kind({"pages/Looms.md": "", "journals/2024_01_31.md": ""}), vault_kind({"looms.md": "# Looms"})
    ('logseq', '')
    >>> vault_kind({"a.md": "---\nid: x1\ntitle: A\n---\n[[Words|b]]", "b.md": "---\nid: x2\ntitle: B\n---\n"})
    'dendron'
    """
    texts = {path: text for path, text in texts.items() if path.lower().endswith(MARKDOWN)}
    paths = [path.replace("\\", "/") for path in texts]
    pages = [path for path in paths if _PAGE.search(path)]
    of_pages = (text for path, text in zip(paths, texts.values(), strict=True) if _PAGE.search(path))
    if any(_NAMESPACE.search(path) for path in pages) or any(map(_PROPERTY.search, of_pages)):
        return LOGSEQ
    journals = [path for path in paths if _JOURNAL.search(path) and "_" in path and _day(note_name(path))]
    if journals and (pages or len(journals) == len(paths)):
        return LOGSEQ
    mark_sets = [_marks(text, (fields or {}).get(path, {})) for path, text in texts.items()]
    if not texts or 2 * sum("id" in marks and "title" in marks for marks in mark_sets) < len(texts):
        return ""
    names = {note_name(path).casefold() for path in paths}
    halves = [half for text in texts.values() for half in _HALVES.findall(text)]
    first, second = ((sum(half[place].strip().casefold() in names for half in halves)) for place in (0, 1))
    has_marks = 2 * sum("desc" in marks for marks in mark_sets) >= len(texts) or 4 * len(parents(paths)) >= len(texts)
    return DENDRON if second > first or (has_marks and second == first) else ""


def _marks(text: str, fields: Mapping[str, Any]) -> set[str]:
    """Return the fields of a note that Dendron writes; "desc" also stands for a time in milliseconds."""
    # A splitter may have cut the end of the front matter off.
    head = text[:_HEAD].replace("\r", "\n") if text.startswith("---") else ""
    return {name if not time else "desc" for name, time in _FIELD.findall(head)} | {
        "desc" if name in ("created", "updated") else name
        for name, value in fields.items()
        if name in ("id", "title", "desc") or (name in ("created", "updated") and isinstance(value, int) and value > _MILLISECONDS)
    }


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
    alias_paths: dict[str, str] = {}
    for path, properties in fields.items():
        if title := str(properties.get("title") or "").strip():
            names.setdefault(title, path)
        names.setdefault(logseq_name(path), path)
        day = _day(note_name(path)) if _JOURNAL.search(path.replace("\\", "/")) else None
        aliases = [part.strip() for name in names_of(properties) for part in (name, *name.split(","))]
        for name in [*aliases, *(day_names(day) if day else ())]:
            alias_paths.setdefault(name, path)
    # A page comes before another that has its name as an alias.
    return names | {name: path for name, path in alias_paths.items() if name not in names}


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
    texts = [
        f"{month[:3]} {number}, {year}",
        f"{month} {number}, {year}",
        f"{number} {month[:3]} {year}",
        f"{number} {month} {year}",
    ]
    days = [f"{name}, {text}" for name in (weekday[:3], weekday) for text in numbers]
    return [*texts, *numbers, "".join(plain), f"{numbers[0]} {weekday}", "{}年{}月{}日".format(*plain), *days]


def parents(paths: Iterable[str]) -> dict[str, str]:
    """Return the parent of each note of Dendron that has one: the nearest note above it, by the dots in its name.

    >>> parents(["v/tool.md", "v/tool.loom.card.md", "v/root.md"])
    {'v/tool.loom.card.md': 'v/tool.md'}
    """
    paths_by_name: dict[tuple[str, str], str] = {}
    for path in paths:
        paths_by_name.setdefault(_place(path), path)
    parent_paths = {}
    for (folder, name), path in paths_by_name.items():
        above = name.rpartition(".")[0]
        while above and (folder, above) not in paths_by_name:
            above = above.rpartition(".")[0]
        if above:
            parent_paths[path] = paths_by_name[folder, above]
    return parent_paths


def _place(path: str) -> tuple[str, str]:
    return path.replace("\\", "/").rpartition("/")[0], note_name(path).casefold()


def _day(name: str) -> date | None:
    match = _DATE.fullmatch(name)
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None
