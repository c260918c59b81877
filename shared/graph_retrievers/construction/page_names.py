"""Pages by the name that wiki links give them: the end of a path without its ending, or another name of the page."""

from __future__ import annotations

import posixpath
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from graph_retrievers.graph.file_endings import FILES, ending_of

# Parts of a path by which pages are looked up; what is longer is compared.
_DEEP = 12

_Path = tuple[str, ...]
_EXACT: _Path = ("",)


def folded(name: str) -> str:
    """Return a name in the form in which names are compared: one form of accents, no upper case, spaces as one.

    >>> folded(" The  Loom ")
    'the loom'
    """
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def path_key(path: str) -> _Path:
    """Return the parts of a path by which wiki links name a page: folded, without the ending.

    >>> path_key("Guide/The Loom.md"), path_key("Node.js")
    (('guide', 'the loom'), ('node.js',))
    """
    path = path.strip()
    parts = folded(posixpath.splitext(path)[0] if ending_of(path) in FILES else path).split("/")
    return tuple(part.strip() for part in parts if part.strip(" .")) or ("",)


class PageNames:
    """Pages by the ends of their paths, and by other names.

    `pages` are URLs with the address of each, `root` is the folder of all of them, and `names` are other names of pages, in any
    spelling, with their addresses. Of several pages with the same end, the one with exactly this path from `root` comes first, then
    the one whose folder shares the most with the folder of the link, then the shorter path.

    >>> names = PageNames([("/a/Card.md", "a/Card.md"), ("/b/c/Card.md", "b/c/Card.md")], names={"Jan 31st, 2024": "j.md"})
    >>> names.find("card"), names.find("card", "/b/x.md"), names.find("c/Card"), names.find("jan 31st, 2024")
    ('a/Card.md', 'b/c/Card.md', 'b/c/Card.md', 'j.md')
    >>> names.find("../a/Card", "/b/x.md"), names.find("./Card", "/b/x.md")
    ('a/Card.md', None)
    """

    def __init__(self, pages: Iterable[tuple[str, str]], root: str = "", names: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = {}
        for name, address in (names or {}).items():
            self._names.setdefault(folded(name), address)
        self._root = _parts(root)
        self._ends: dict[_Path, list[tuple[_Path, str]]] = defaultdict(list)
        for url, address in pages:
            path = path_key(unquote(urlsplit(url).path))
            for count in range(1, min(len(path), _DEEP) + 1):
                self._ends[path[-count:]].append((path, address))
        # For the end of a path that several pages have: the best page for links in each folder.
        self._best: dict[_Path, dict[_Path, str]] = {}

    def is_shared(self, name: str) -> bool:
        """Return whether several pages have a name."""
        return len(self._ends.get(path_key(name)[-_DEEP:], ())) > 1

    def find(self, name: str, base: str = "") -> str | None:
        """Return the page that has a name, for a link on the page with the URL `base`; None if no page has it."""
        here = _parts(base)[:-1]
        name = name.strip()
        if name.startswith(("./", "../")):
            return self._at(path_key(posixpath.normpath("/".join([*here, name]))))
        if (exact_page := self._names.get(folded(name))) is not None:
            return exact_page
        # "dev.html.md" is called "dev.html" too.
        paths = dict.fromkeys((path_key(name), path_key(f"{name}.md")))
        return next((page for path in paths if (page := self._nearest(path, here))), None)

    def _at(self, path: _Path) -> str | None:
        return next((address for page_path, address in self._ends.get(path[-_DEEP:], ()) if page_path == path), None)

    def _nearest(self, target: _Path, here: _Path) -> str | None:
        entries: Sequence[tuple[_Path, str]] = self._ends.get(target[-_DEEP:], ())
        if len(target) > _DEEP:
            entries = [entry for entry in entries if entry[0][-len(target) :] == target]
        if len(entries) < 2:
            return entries[0][1] if entries else None
        if target not in self._best:
            best: dict[_Path, str] = {}
            for path, address in sorted(entries, key=lambda entry: (len(entry[0]), entry[0])):
                for count in range(min(len(path), _DEEP)):
                    best.setdefault(path[:count], address)
            # The page with exactly this path has a key that is the path of no folder.
            if exact_page := self._at(self._root + target):
                best[_EXACT] = exact_page
            self._best[target] = best
        best = self._best[target]
        folders = (here[:count] for count in range(min(len(here), _DEEP), -1, -1))
        return best.get(_EXACT) or next(best[folder] for folder in folders if folder in best)


def _parts(url: str) -> _Path:
    """Return the parts of the path of a URL, folded, with the ending."""
    return tuple(part for part in folded(unquote(urlsplit(url).path)).split("/") if part.strip(" ."))
