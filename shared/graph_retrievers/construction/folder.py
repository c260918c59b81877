"""A folder of text, Markdown and HTML files as nodes."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.links import extract_links
from graph_retrievers.errors import DatasetError
from graph_retrievers.graph.corpus_graph import Node

__all__ = ["read_folder"]

_MARKDOWN = (".md", ".markdown")
_HTML = (".html", ".htm")
_SUFFIXES = (".txt", *_MARKDOWN, *_HTML)
_INLINE = frozenset("a abbr b bdi bdo cite code em font i kbd mark q s samp small span strong sub sup time tt u var wbr".split())
_SPACES = re.compile(r"\s+")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def read_folder(folder: str | Path) -> list[Node]:
    r"""Return the ``.txt``, ``.md`` and ``.html`` files of a folder as nodes, sorted by path.

    Raises DatasetError if the folder does not exist or has no such file, or a file is not UTF-8.

    Subfolders are included; names that begin with a dot are skipped. The id of a node is the path relative to the folder; its title
    is that of the page, its first heading, or the name of the file; the text of HTML has no tags. Metadata: ``path``, and
    ``links``, the addresses that the file links to, those inside the folder as relative paths.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "looms.md").write_text("# Looms\nSee [cards](cards.md).")
    ...     [(node.id, node.title, node.metadata["links"]) for node in read_folder(folder)]
    [('looms.md', 'Looms', ['cards.md'])]
    """
    root = Path(folder)
    if not root.is_dir():
        raise DatasetError(f"{root} is not a folder.")
    paths = [path for path in root.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file()]
    names = sorted((path.relative_to(root).as_posix(), path) for path in paths)
    names = [(name, path) for name, path in names if not any(part.startswith(".") for part in name.split("/"))]
    if not names:
        raise DatasetError(f"{root} has neither nodes.jsonl[.gz] nor a file ending in {', '.join(_SUFFIXES)}.")
    return [_read(name, path) for name, path in names]


def _read(name: str, path: Path) -> Node:
    try:
        raw = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read as UTF-8: {error}.") from error
    text, title = raw, ""
    if path.suffix.lower() in _HTML:
        text, title = _page(raw)
    elif path.suffix.lower() in _MARKDOWN and (heading := _HEADING.search(raw)):
        title = heading[1]
    # Links are resolved as on a web site with the folder as its root.
    links = [] if path.suffix.lower() == ".txt" else extract_links(raw, base="/" + quote(name))
    metadata = {"path": name, "links": [link.removeprefix("/") for link in links]}
    title = title or path.stem.replace("_", " ")
    return Node(id=name, text=_without_title(text.strip(), title), title=title, metadata=metadata)


def _without_title(text: str, title: str) -> str:
    """Return a text without a first line that repeats its title, as signals read both."""
    first, _, rest = text.partition("\n")
    return rest.strip() if first.strip("# \t") == title and rest.strip() else text


def _page(page: str) -> tuple[str, str]:
    """Return text and title of an HTML page: one line per block, white space as in a browser."""
    parts: list[str] = []
    titles: dict[str, list[str]] = {"title": [], "h1": []}
    inside = ""
    for piece in read_html(page):
        if not piece.tag:
            if inside:
                titles[inside].append(piece.text)
            if inside != "title":
                parts.append(_SPACES.sub(" ", piece.text))
        else:
            if piece.tag in titles and not titles[piece.tag]:
                inside = piece.tag
            elif piece.tag == f"/{inside}":
                inside = ""
            if piece.tag.lstrip("/") not in _INLINE:
                parts.append("\n")
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    title = next((" ".join("".join(words).split()) for words in titles.values() if "".join(words).strip()), "")
    return "\n".join(line for line in lines if line), title
