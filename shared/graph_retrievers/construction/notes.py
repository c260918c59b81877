"""Notes of a folder: their kind, their names, their links, and those that do not exist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graph_retrievers.construction.address_book import AddressBook
from graph_retrievers.construction.anchors import Outline, headings_of
from graph_retrievers.construction.front_matter import filter_fields, linked_fields, names_of, other_links
from graph_retrievers.construction.markdown import with_names
from graph_retrievers.construction.page_names import folded
from graph_retrievers.construction.pages import Page
from graph_retrievers.construction.titles import file_title
from graph_retrievers.construction.vaults import (
    is_block_id,
    logseq_name,
    names_of_notes,
    note_name,
    parents,
    vault_kind,
)
from graph_retrievers.construction.wiki_links import DENDRON, LOGSEQ
from graph_retrievers.graph.addresses import is_other_file
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.file_endings import MARKDOWN

# Bytes at the beginning of a file that show its kind; most characters of a name; and a note with fewer tokens is short.
_HEAD, _NAME, _SHORT = 2_000, 200, 40
# Most fields that all nodes of a page repeat, and most characters of them.
_FIELDS, _LONGEST = 200, 20_000
_SETTINGS = ".obsidian"


def folder_kind(root: Path, paths: Mapping[str, Path]) -> str:
    """Return the kind of the notes in a folder, by the settings of Dendron, Logseq or Obsidian in it or above, else by the notes.

    `paths` has the files by their names. See :func:`~graph_retrievers.construction.vaults.vault_kind`.
    """
    folders = [root, *list(root.absolute().parents)[:2]]
    if any((folder / "dendron.yml").is_file() for folder in folders):
        return DENDRON
    if (root / "logseq" / "config.edn").is_file() or (root / "logseq").is_dir() and (root / "pages").is_dir():
        return LOGSEQ
    if (root / _SETTINGS).is_dir():
        return ""
    return vault_kind({name: _head(path) for name, path in paths.items() if name.lower().endswith(MARKDOWN)})


def is_backup(kind: str, name: str) -> bool:
    """Return whether a file is a copy that Logseq made of a page."""
    return kind == LOGSEQ and name.startswith(("logseq/bak/", "logseq/.recycle/"))


def note_title(kind: str, name: str, page: Page) -> str:
    """Return the title of a page, "" if it has none; a page of Logseq that states none is called by its file."""
    return logseq_name(name) if kind == LOGSEQ and not page.is_title_stated and name.lower().endswith(MARKDOWN) else page.title


def are_notes(root: Path, kind: str, pages: Mapping[str, Page]) -> bool:
    """Return whether the pages of a folder are notes: it has the settings of Obsidian, is of another kind, or has wiki links."""
    return bool(kind) or (root / _SETTINGS).is_dir() or any(_has_wiki_links(page) for page in pages.values())


def note_identity(name: str, page: Page) -> Hashable:
    """Return what distinguishes a note from others with the same text: for a short one its path.

    Many notes have no more than a few words, and notes without a heading are called by their files.
    """
    if not name.lower().endswith(MARKDOWN):
        return ""
    if sum(block.tokens for block in page.blocks) < _SHORT:
        return name
    links = (link for block in page.blocks for link in (*block.links, *(link for _, link in block.linked)))
    return page.title, tuple(link for link in links if link.startswith("[["))


def with_file_names(pages: Mapping[str, Page], kind: str) -> dict[str, Page]:
    """Return pages, those of notes with the names of their files, by which links name them, in their texts if missing there."""
    return {name: _with_file_name(name, page, kind) for name, page in pages.items()}


def _with_file_name(name: str, page: Page, kind: str) -> Page:
    file_name = logseq_name(name) if kind == LOGSEQ else file_title(note_name(name))
    is_first = note_name(name).lower() in ("index", "_index", "readme")
    is_named = any(spelling.casefold() in page.title.casefold() for spelling in (file_name, note_name(name)))
    if not name.lower().endswith(MARKDOWN) or is_first or is_named:
        return page
    return page._replace(blocks=with_names(page.blocks, [file_name]))


def _has_wiki_links(page: Page) -> bool:
    return any(link.startswith("[[") for block in page.blocks for link in chain(block.links, (link for _, link in block.linked)))


def shared_fields(page: Page, first: bool) -> dict[str, Any]:
    """Return the fields of a page that its node has; other nodes than the first have none of a page with many or long ones."""
    link_fields = linked_fields(page.fields)
    fields = {name: value for name, value in filter_fields(page.fields).items() if name not in link_fields}
    is_small = len(fields) <= _FIELDS and sum(len(name) + len(str(value)) for name, value in fields.items()) <= _LONGEST
    return fields if first or is_small else {}


class Notes:
    """The pages of a folder as links of notes see them.

    `pages` are all pages, and `ends` the pages that are not kept with the page and the fragment that replace each, "" for none.
    `created` has the paths of the notes without text that become nodes, by the key of their names or by their paths.
    """

    def __init__(self, kind: str, pages: Mapping[str, Page], book: AddressBook, ends: Mapping[str, tuple[str, str]]) -> None:
        self.pages, self._book, self._ends = pages, book, ends
        self.created: dict[str, str] = {}
        self._targets: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._outlines: dict[str, Outline[str]] = {}
        self._blocks: dict[str, tuple[str, str]] = {}
        for name, page in pages.items():
            for anchor in (anchor for block in page.blocks for anchor in block.anchors if is_block_id(anchor)):
                self._blocks.setdefault(anchor, (name, anchor))
        self._above = parents(name for name in pages if name.lower().endswith(MARKDOWN)) if kind == DENDRON else {}
        self._find_created()

    def find(self, link: str, name: str) -> tuple[str, str] | None:
        """Return the page and the fragment that a link on the page `name` leads to; None if it is unknown."""
        if link.startswith("(("):
            return self._blocks.get(link[2:-2])
        key = link, name
        if key not in self._targets:
            self._targets[key] = self._book.find(link, name)
        return self._targets[key]

    def anchor(self, page: str, fragment: str) -> str:
        """Return the anchor of the heading that a fragment names in another spelling, else the fragment."""
        if page not in self._outlines:
            blocks = [block for block in self.pages[page].blocks if block.level]
            anchors = [block.anchors[-1] if block.anchors else None for block in blocks]
            self._outlines[page] = Outline(zip(headings_of(blocks), anchors, strict=True))
        return self._outlines[page].find(fragment) or fragment

    def instead(self, link: str) -> str | None:
        """Return the path of the note without text, or without a file, that a wiki link leads to, if it is a node."""
        return self.created.get(_page_key(link))

    def linked(self, name: str) -> dict[str, list[str]]:
        """Return the links in the fields of a page, by field, and in ``parent`` the note above a note of Dendron."""
        links = linked_fields(self.pages[name].fields)
        parent = self._above.get(name)
        while parent and self._is_empty(parent) and parent not in self.created:
            parent = self._above.get(parent)
        return links | ({"parent": [f"/{quote(parent)}"]} if parent else {})

    def _is_empty(self, name: str) -> bool:
        return self._ends.get(name) == ("", "") and name.lower().endswith(MARKDOWN)

    def _find_created(self) -> None:
        """Find the notes without text that two notes or more link to, that a field names, or that link themselves."""
        # Obsidian does not read an alias as a name, but a link with an alias does not mean another note.
        aliases = {f"[[{folded(name)}" for page in self.pages.values() for name in names_of(page.fields)}
        linking: dict[str, set[str]] = defaultdict(set)
        named_keys: set[str] = set()
        paths: dict[str, str] = {}
        for name, page in self.pages.items():
            if name in self._ends and not self._is_empty(name):
                continue
            parent = self._above.get(name)
            fields = [link for field_links in linked_fields(page.fields).values() for link in field_links]
            text_links = other_links(page.fields)
            if self._is_empty(name) and (fields or text_links):
                self.created[name] = name
            fields += [link for block in page.blocks for _, link in block.linked]
            text_links += [link for block in page.blocks for link in block.links]
            # A note that a field names becomes a node, even if nothing else links to it.
            for link, by_field in chain(((link, True) for link in fields), ((link, False) for link in text_links)):
                target = self.find(link, name)
                key = target[0] if target else _page_key(link)
                if key and (target is None or self._is_empty(key)):
                    linking[key].add(name)
                    named_keys |= {key} if by_field else set()
                    paths.setdefault(key, key if target else _path(link))
            if parent and self._is_empty(parent):
                linking[parent].add(name)
                paths.setdefault(parent, parent)
        keys = aliases | self.created.keys()
        self.created |= {
            key: paths[key] for key, names in linking.items() if (len(names) > 1 or key in named_keys) and key not in keys
        }

    def nodes(self, node_ids: Iterable[str]) -> list[Node]:
        """Return the nodes of `created`, without the ids of others, which are `node_ids`, and without the links of their fields.

        They have a title and no text. That their ``file_name`` is the title says that they are blank: see
        :func:`~graph_retrievers.graph.blank.blank_nodes`.
        """
        visited = set(node_ids)
        nodes = []
        for key, path in self.created.items():
            page = self.pages.get(key)
            title = page.title if page else note_name(path)
            metadata = (shared_fields(page, True) if page else {}) | {
                "path": path,
                "chunk_index": 0,
                "headings": [],
                "anchors": [],
                "links": [],
                "file_name": title,
            }
            if path not in visited:
                visited.add(path)
                nodes.append(Node(path, "", title, metadata=metadata))
        return nodes


def further_names(kind: str, pages: Mapping[str, Page]) -> dict[str, str]:
    """Return the further names of pages by which wiki links find them: see :func:`names_of_notes`."""
    return names_of_notes(kind, {name: page.fields for name, page in pages.items() if name.lower().endswith(MARKDOWN)})


def _page_key(link: str) -> str:
    """Return the name of the page of a wiki link as a key, "" for what cannot be a note."""
    name = link[2:].removesuffix("]]").partition("#")[0].strip() if link.startswith("[[") else ""
    is_name = len(name) <= _NAME and (any(map(str.isalpha, name)) or len(name) > 7) and not {*"{}<>"} & {*name}
    # "dendron:" and paths from a folder are not names.
    if not is_name or is_other_file(name) or "://" in name or name.startswith("."):
        return ""
    return f"[[{folded(name.removesuffix('.md'))}"


def _path(link: str) -> str:
    name = link[2:].removesuffix("]]").partition("#")[0].strip().removesuffix(".md").strip("/")
    return f"{name}.md"


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf-8", "ignore").removeprefix("\ufeff")
    except OSError:
        return ""
