"""Names by which pages refer to one another, such as those in the roles of Sphinx, and the places that they lead to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from graph_retrievers.construction.pages import Page
from graph_retrievers.graph.file_endings import HTML, MARKDOWN, NOTEBOOK, RST, TEXT

# The character around the number of a reference in texts and links. Readers remove it from what they read.
_MARK = "\x01"
_MARKED = re.compile(f"{_MARK}(\\d+){_MARK}")
_PYTHON_ROLES = frozenset("func meth class exc data const attr obj mod deco type".split())
_DOMAINS = frozenset(["py", "c", "cpp", "js", "rst"])
_PYTHON_WHOLE = "mod"
# What may follow a name without its ending in the path of a page.
_ENDINGS = ("", *RST, *MARKDOWN, *TEXT, *HTML, *NOTEBOOK, *(f"/index{ending}" for ending in (*RST, *MARKDOWN)))
_SERIES = re.compile(r"(pep|rfc)[-_ ]?0*(\d+)\Z", re.IGNORECASE)
_ADDRESSES = {"pep": "https://peps.python.org/pep-{:0>4}/", "rfc": "https://datatracker.ietf.org/doc/html/rfc{}.html"}
_LABELS = frozenset(["ref", "numref", "keyword", "eq"])
_PATHS = frozenset(["doc", "file", "download", "glob"])


class Reference(NamedTuple):
    """A name that a page refers to: the role, the name, what is shown unless its place has a title, the domain, what is around."""

    role: str
    name: str
    label: str = ""
    domain: str = ""
    context: Any = ()


class Target(NamedTuple):
    """A name that a page defines: its kind, the anchor of its place, its title, and whether it stands for names below it."""

    kind: str
    name: str
    anchor: str
    title: str = ""
    whole: bool = False


class _Place(NamedTuple):
    page: str
    target: Target


def mark(number: int) -> str:
    """Return what stands in a page for one of its references."""
    return f"{_MARK}{number}{_MARK}"


def resolved(pages: Mapping[str, Page], folders: Mapping[str, str] | None = None) -> dict[str, Page]:
    """Return pages whose references are links and texts.

    A name that no page defines gives no link, and is shown as it is written. Of several places with a name, one on the same page
    comes first, then the one whose folder shares most with that of the reference. `folders` has the folder of each page from
    which paths with a slash at the beginning are read, "" where it is the folder of all pages.

    >>> from graph_retrievers.construction.pages import Block
    >>> reference, target = Reference("ref", "Holes"), Target("label", "holes", "holes", "Cards with holes")
    >>> pages = {"a.rst": Page("A", [Block(f"See {mark(0)}.", links=(mark(0),))], references=(reference,))}
    >>> pages |= {"b.rst": Page("B", [Block("Cards")], targets=(target,))}
    >>> resolved(pages)["a.rst"].blocks[0].text, resolved(pages)["a.rst"].blocks[0].links
    ('See Cards with holes.', ('/b.rst#holes',))
    """
    if not any(page.references for page in pages.values()):
        return dict(pages)
    names = _Names(pages, folders or {})
    return {name: _filled(page, [names.find(reference, name) for reference in page.references]) for name, page in pages.items()}


def _filled(page: Page, targets: Sequence[tuple[list[str], str]]) -> Page:
    """Return a page whose marks are the links and the texts that were found."""
    if not targets:
        return page

    def text(content: str) -> str:
        return _MARKED.sub(lambda match: targets[int(match[1])][1], content) if _MARK in content else content

    def links(addresses: Iterable[str]) -> tuple[str, ...]:
        lists = (targets[int(match[1])][0] if (match := _MARKED.fullmatch(link)) else [link] for link in addresses)
        return tuple(dict.fromkeys(link for group in lists for link in group))

    blocks = [replace(block, text=text(block.text), header=text(block.header), links=links(block.links)) for block in page.blocks]
    return page._replace(title=text(page.title), blocks=blocks, contents=links(page.contents), references=())


class _Names:
    """All names of some pages."""

    def __init__(self, pages: Mapping[str, Page], folders: Mapping[str, str]) -> None:
        self._pages, self._folders = pages, folders
        self._places: dict[tuple[str, str], list[_Place]] = {}
        self._ends: dict[str, list[str]] = {}
        self._series: dict[tuple[str, str], str] = {}
        for page, content in pages.items():
            for target in content.targets:
                key = target.kind, _key(target.kind, target.name)
                if target.kind == "py" and key not in self._places:
                    self._ends.setdefault(target.name.rpartition(".")[2], []).append(target.name)
                self._places.setdefault(key, []).append(_Place(page, target))
            if match := _SERIES.search(PurePosixPath(page).stem):
                self._series.setdefault((match[1].lower(), match[2]), page)

    def find(self, reference: Reference, page: str) -> tuple[list[str], str]:
        """Return the addresses to which a reference leads, and what it shows."""
        role, name, text = reference.role, reference.name, reference.label
        if role in _ADDRESSES:
            number, _, fragment = name.partition("#")
            target_page = self._series.get((role, number.strip().lstrip("0")))
            address = f"/{quote(target_page)}" if target_page else _ADDRESSES[role].format(number.strip())
            return [address + (f"#{quote(fragment)}" if fragment else "")] if number.strip().isdecimal() else [], text
        if role in _PATHS:
            paths = self._paths(reference, page)
            title = self._pages[paths[0]].title if paths and role == "doc" else ""
            return [f"/{quote(path)}" for path in paths], title or text
        place = self._place(reference, page)
        if place is None:
            return [], text
        place_title = place.target.title if role in (*_LABELS, "any") else ""
        return [f"/{quote(place.page)}" + (f"#{quote(anchor)}" if (anchor := place.target.anchor) else "")], place_title or text

    def _paths(self, reference: Reference, page: str) -> list[str]:
        name = reference.name.strip()
        base = self._folders.get(page, "") if name.startswith("/") else posixpath.dirname(page)
        path = posixpath.normpath(posixpath.join(base, name.lstrip("/")))
        if reference.role == "glob" and any(sign in name for sign in "*?["):
            names = (
                candidate
                for candidate in self._pages
                if any(fnmatchcase(form, path) for form in (candidate, posixpath.splitext(candidate)[0]))
            )
            return [candidate for candidate in names if candidate != page and candidate.count("/") == path.count("/")]
        for form in (path, posixpath.splitext(path)[0]):
            for ending in _ENDINGS:
                if form + ending in self._pages:
                    return [form + ending]
        return []

    def _place(self, reference: Reference, page: str) -> _Place | None:
        """Return the place that has the name of a reference."""
        role, name = reference.role, reference.name
        if role in _LABELS:
            return self._labelled(name, page)
        if role == "any":
            paths = self._paths(reference, page)
            place = _Place(paths[0], Target("doc", name, "", self._pages[paths[0]].title)) if paths else None
            return place or self._labelled(name, page) or self._first([("term", name)], page) or self._object(reference, page)
        if role == "term":
            return self._first([("term", name)], page) or self._first([("term", name.removesuffix("s"))], page)
        if role == "cite":
            return self._first([("cite", name)], page)
        return self._object(reference, page)

    def _labelled(self, name: str, page: str) -> _Place | None:
        if result := self._first([("label", name)], page):
            return result
        # The extension autosectionlabel has labels such as "document:section".
        document, _, section = name.partition(":")
        if section:
            paths = self._paths(Reference("doc", f"/{document}"), page)
            places = self._places.get(("section", _key("section", section)), ())
            return next((place for place in places if place.page in paths), None) or self._first([("section", name)], page)
        return self._first([("section", name)], page)

    def _object(self, reference: Reference, page: str) -> _Place | None:
        """Return the place of a function, an option or another thing that a directive describes."""
        role, name, domain = reference.role, reference.name.lstrip("~"), reference.domain
        if (domain, role) == ("rst", "role"):
            return self._first([("rst-role", name)], page)
        context = reference.context or ("py", "", "", "")
        inside, module, class_, program = context
        name = name.removesuffix("()")
        if role == "option":
            words = name.split()
            forms = [" ".join([*"-".join(words[:-1]).split(), words[-1]])] if words else []
            return self._first([("option", form) for form in (f"{program} {name}".strip(), *forms, name)], page)
        kinds = [domain] if domain in _DOMAINS else [inside] if inside in _DOMAINS and inside != "py" else []
        if role in _PYTHON_ROLES or role in ("any", "obj", "exception", "function", "method", "attribute", "module"):
            kinds.append("py")
        for kind in dict.fromkeys(kinds):
            place = (
                self._python(name, module, class_, page, role) if kind == "py" else self._first([(kind, name.lstrip("."))], page)
            )
            if place is not None or (domain and role != "any"):
                return place
        if role == "any":
            kinds = [kind for kind, key in self._places if key == _key(kind, name) and kind not in ("section", "cite", "tab")]
            return self._first([(kind, name) for kind in kinds[:1]], page)
        if (place := self._first([(role, name)], page)) is not None:
            return place
        # The reference of CMake and others have a page for each thing, in a folder for each kind.
        paths = self._paths(Reference("doc", f"/{role}/{name}"), page) if name and "/" not in name else []
        return _Place(paths[0], Target("doc", name, "")) if paths else None

    def _python(self, name: str, module: str, class_: str, page: str, role: str) -> _Place | None:
        loose, name = name.startswith("."), name.lstrip(".")
        scoped_names = [".".join(filter(None, (module, class_, name))), ".".join(filter(None, (module, name)))]
        if role == _PYTHON_WHOLE:
            forms = [name]
        elif loose:
            forms = [*scoped_names, name]
        else:
            forms = [name, ".".join(filter(None, (class_, name))), scoped_names[1], scoped_names[0]]
        result = self._first([("py", form) for form in forms], page)
        if result is None and (loose or role in ("any", "obj")):
            ends = [full_name for full_name in self._ends.get(name.rpartition(".")[2], ()) if full_name.endswith(f".{name}")]
            result = self._first([("py", full_name) for full_name in sorted(ends)], page)
        if result is not None:
            return result
        # Members that the code describes, which is not run.
        for form in forms:
            while "." in form:
                form = form.rpartition(".")[0]
                place = self._first([("py", form)], page)
                if place is not None and place.target.whole:
                    return place
        return None

    def _first(self, names: Iterable[tuple[str, str]], page: str) -> _Place | None:
        """Return the place of the first of some names that a page defines."""
        for kind, name in names:
            if places := self._places.get((kind, _key(kind, name))):
                here = posixpath.dirname(page).split("/")
                return min(places, key=lambda place: _distance(place.page, page, here)) if len(places) > 1 else places[0]
        return None


def _distance(other: str, page: str, here: Sequence[str]) -> tuple[bool, int]:
    return other != page, -len(posixpath.commonprefix([posixpath.dirname(other).split("/"), list(here)]))


def _key(kind: str, name: str) -> str:
    """Return the form of a name in which names are compared: labels and terms ignore case and line breaks."""
    return " ".join(name.split()).casefold() if kind in ("label", "section", "term", "cite", "token") else name
