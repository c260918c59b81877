"""A folder of text, Markdown, HTML and other files as nodes: one for each section."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from graph_retrievers.arguments import as_path, typed
from graph_retrievers.construction.address_book import AddressBook, check_site
from graph_retrievers.construction.copies import without_copies
from graph_retrievers.construction.cross_references import resolved
from graph_retrievers.construction.formats import FORMATS
from graph_retrievers.construction.front_matter import other_links
from graph_retrievers.construction.notes import (
    Notes,
    are_notes,
    folder_kind,
    further_names,
    is_backup,
    note_identity,
    note_title,
    shared_fields,
    with_file_names,
)
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.construction.pages import Block, Page, UnreadableError, with_short_titles
from graph_retrievers.construction.rst import config_folders
from graph_retrievers.construction.sections import Chunk, split_page, text_and_source
from graph_retrievers.construction.sites import published
from graph_retrievers.construction.titles import file_title
from graph_retrievers.errors import DatasetError, few, shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.file_endings import HTML, MARKDOWN, RST
from graph_retrievers.progress import progress_bar

__all__ = ["read_folder"]

logger = logging.getLogger(__name__)

# Endings of documents that are not read; other files, such as pictures and styles, are not documents.
_UNREAD = frozenset(".adoc .doc .odp .ods .odt .org .ppt .rtf .tex .xls".split())
# Blocks at the beginning or the end of half of the pages, and of at least this number, are navigation.
_FEW_PAGES = 5
_SKIP = "begin the name of a file that is not to be read with a dot."
_CONVERT = "Convert such files (iconv -f WINDOWS-1252 -t UTF-8), let HTML declare its encoding with <meta charset=...>, or "
_SEPARATOR = re.compile(r" [-–—|·:»]+ |: ")
_COPYRIGHT = re.compile(r"^(?:\(c\)|copyright\b)|©|all rights reserved", re.IGNORECASE)
_INDEXES = frozenset(["genindex", "py-modindex", "modindex", "search"])
# Folders that Sphinx writes in addition to the pages: their sources, and the files of the theme.
_GENERATED = frozenset(["_sources", "_static"])
# How often a page repeats a link that leads back from its sections.
_WAYS_BACK = 5


@typed
def read_folder(
    folder: str | Path,
    *,
    max_tokens: int | None = 220,
    site: str = "",
    strict: bool = False,
    show_progress: bool = False,
) -> list[Node]:
    r"""Return the files of a folder as nodes: one for each section, sorted by path.

    Formats are text, Markdown, HTML, reStructuredText, notebooks and EPUB, and with the extra ``files`` PDF, Word, PowerPoint
    and Excel. Subfolders are included. Names that begin with a dot, links that lead out of the folder, and files that Sphinx adds
    to the pages (indexes, ``_sources``, ``_static``) are skipped. A warning counts documents in other formats, or says which
    extra reads them, and another names files that cannot be read: those that are broken, encrypted or without text, and texts
    that are neither UTF-8 nor UTF-16 with a byte order mark, and do not declare another encoding by ``<meta charset=...>`` or in
    an XML declaration. Their encoding is not guessed. Navigation is left out: elements that HTML marks as such, links, labels and
    copyright lines at the beginning or the end of half of the pages, and a link that an HTML page repeats above five of its
    headings. A page with the same text as another is read once, and so is a section (see
    :func:`~graph_retrievers.construction.copies.without_copies`); links lead to the one that is kept. A page without its own
    text, such as a table of contents or a redirect, is not kept; links to it lead to the first page that it lists. Omissions are
    logged.

    Notes of Obsidian, Logseq and Dendron are recognised by the settings in the folder, else by their files (see
    :func:`~graph_retrievers.construction.notes.folder_kind`). A note without text, or one that does not exist, is a node with a
    title if two notes link to it, or a field such as ``author:: [[Ada]]`` names it: it joins notes, and is never returned.

    Parameters
    ----------
    folder : str or Path
    max_tokens : int or None, default 220
        Maximum number of tokens of a node: see :func:`~graph_retrievers.construction.sections.split_page`. The embedding model
        should be able to read all of them and the title: MiniLM reads 256. None: one node for each file.
    site : str, default ""
        Where the folder is published, such as ``https://docs.example.org/guide``, or the address of its repository: links to
        addresses below it lead to the files, with precedence over addresses that other pages state. By default ``site_url`` of a
        ``mkdocs.yml`` in the folder or next to it, else a ``base`` that half of the HTML pages have, and the addresses that single
        pages state (``canonical``, ``og:url``).
    strict : bool, default False
        Whether a file that cannot be read is an error, which names all such files, instead of a warning.
    show_progress : bool, default False

    Returns
    -------
    list of Node
        The first node of a page has the page's path, relative to the folder, as its id; others add ``#`` and the anchor of the
        section, or ``~`` and a number. The title is that of the page, followed by a colon and the heading of the section, or of the
        smallest section around the whole node. A page without a title is named after its file, or after its folder for ``index``,
        ``_index`` and ``README``, unless that name is a UUID or a hash. The text is what a person reads; if the Markdown source
        differs, for example by addresses of links, hits show the source (see
        :meth:`Node.shown <graph_retrievers.graph.corpus_graph.Node.shown>`). Metadata:

        - ``path``: of the page;
        - ``chunk_index``: 0 for its first node, 1 for the next, ...;
        - ``headings``: those above the text, outermost first;
        - ``anchors``: the anchors by which a link, after ``#``, can point to this text;
        - ``links``: the targets of its links; those inside the folder as paths from its root, with a leading slash;
        - ``page``: of a PDF or a presentation, the number of the printed page or slide on which the text begins, from 1;
        - ``contents``: pages in the page's table of contents, only in its first node;
        - the fields of the front matter and of the text (``year:: 1804``), such as ``tags``, to which those in the text belong; if
          there are more than 200, or 20,000 characters, only in the first node;
        - ``linked``: the names of fields that hold wiki links alone, such as ``up``. The first node, for front matter, or the node
          with the field has the targets under this name, as in ``links``, and ``Links(field="links")`` makes edges of them with
          the name as relation.

        ``title`` is the title, and ``aliases`` are in the text; fields with the names of those above, and ``url``, ``source``,
        ``file_path`` and ``document``, are left out.

    Raises
    ------
    InvalidArgumentError
        If `site` is not a URL.
    DatasetError
        If the folder does not exist or has no such file or no text, or with `strict` a file cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "looms.md").write_text("# Looms\nSee [cards](cards.md#holes).")
    ...     _ = Path(folder, "cards.md").write_text("# Cards\n")
    ...     [(node.id, node.title, node.metadata["links"]) for node in read_folder(folder)][1:]
    [('looms.md', 'Looms', ['/cards.md#holes'])]
    """
    check_site(site)
    root = as_path("folder", folder)
    if not root.is_dir():
        raise DatasetError(f"{root} is not a folder.")
    kinds = _UNREAD.union(FORMATS)
    paths = [path for path in root.rglob("*") if path.suffix.lower() in kinds and path.is_file() and _inside(path, root)]
    # Bytes in the name of a file that are not UTF-8 are written as \udc.. , since texts cannot hold them.
    ids = (path.relative_to(root).as_posix().encode("utf-8", "backslashreplace").decode() for path in paths)
    files = sorted(zip(ids, paths, strict=True))
    files = [(name, path) for name, path in files if not any(part.startswith(".") for part in name.split("/"))]
    generated_names = {name for name, _ in files if _is_generated(name)}
    files = [(name, path) for name, path in files if name not in generated_names]
    suffixes = [suffix for suffix, entry in FORMATS.items() if not entry.lacks_module]
    counts = Counter(path.suffix.lower() for _, path in files if path.suffix.lower() not in suffixes)
    _warn_of_unread(root, counts)
    files = [(name, path) for name, path in files if path.suffix.lower() in suffixes]
    if not files:
        raise DatasetError(f"{root} has neither nodes.jsonl[.gz] nor a file ending in {', '.join(suffixes)}.")
    kind = folder_kind(root, dict(files))
    files = [(name, path) for name, path in files if not is_backup(kind, name)]
    bar = progress_bar(files, desc="reading", unit="page", disable=not show_progress)
    omissions, documents = Omissions(str(root), strict), {name: _read_page(path, root, kind) for name, path in bar}
    for name, page in documents.items():
        for reason in [page] if isinstance(page, str) else page.omissions:
            omissions.add(name, reason)
    has_encodings = any("UTF-" in item for item in omissions.items)
    omissions.report(logger, f"{_CONVERT if has_encodings else 'Repair such files, or '}{_SKIP}", DatasetError)
    pages = resolved(
        {name: page for name, page in documents.items() if not isinstance(page, str)}, _config_folders(documents, root)
    )
    pages = {name: with_short_titles(_titled(kind, name, page, root / name)) for name, page in pages.items()}
    publication = published(root, {name: page for name, page in pages.items() if _is_html(name)})
    book = AddressBook(pages, [site, publication.site], publication.pages, further_names(kind, pages))
    is_vault = are_notes(root, kind, pages)
    page_names, moves = _distinct(pages, book, is_vault)
    notes = Notes(kind, pages, book, _ends(moves))
    pages = _without_site({name: pages[name] for name in page_names})
    pages = with_file_names(pages, kind) if is_vault else pages
    chunks = {name: [_whole(pages[name])] if max_tokens is None else split_page(pages[name], max_tokens) for name in page_names}
    unique_chunks, places = without_copies(chunks)
    anchors = {name: {anchor for chunk in entry for anchor in chunk.anchors} for name, entry in chunks.items()}
    links = _Resolver(notes, _ends(moves), places, anchors)
    id_counts: Counter[str] = Counter(page_names)
    nodes = [node for name in page_names for node in _nodes(name, pages[name], unique_chunks[name], links, id_counts)]
    note_nodes = [
        replace(node, metadata={**node.metadata, **links.of_page(None, node.id)}) if node.id in notes.pages else node
        for node in notes.nodes(node.id for node in nodes)
    ]
    if not nodes:
        reason = f"; {len(omissions)} of them cannot be read: {omissions.items[0]}" if omissions else ""
        raise DatasetError(f"{root} has no text in its {len(files)} files{reason}.")
    if note_nodes:
        message = (
            "Notes to which others link, without text or without a file: %d, such as %r; they join notes and are not returned."
        )
        logger.info(message, len(note_nodes), note_nodes[0].title)
    # Notes have the names of their files.
    if untitled_pages := [name for name in page_names if not is_vault and _is_named_by_file(root / name, pages[name])]:
        message = "Pages without a title: %d of %d; they are called by the names of their files, such as %r."
        logger.info(message, len(untitled_pages), len(page_names), pages[untitled_pages[0]].title)
    if publication.site:
        logger.info(
            "Links to %s lead to these pages: their settings or their base say that they are published there.", publication.site
        )
    if generated_names:
        logger.info("Skipped %d files that documentation tools make, such as %s.", len(generated_names), min(generated_names))
    chunk_ids = {id(chunk) for entry in unique_chunks.values() for chunk in entry}
    if copies := [(name, chunk.anchor) for name, entry in chunks.items() for chunk in entry if id(chunk) not in chunk_ids]:
        ((top_page, count),) = Counter(name for name, _ in copies).most_common(1)
        message = "Left out %d sections with the text of a section of another page, %d of them of %s: %s."
        logger.info(message, len(copies), count, top_page, few([f"{name}#{anchor}" if anchor else name for name, anchor in copies]))
    if moves:
        message = "%d pages, %d of them without text of their own or with the text of another: %s."
        logger.info(message, len(files), len(moves), few(sorted(moves)))
    return nodes + note_nodes


def _inside(path: Path, root: Path) -> bool:
    """Return whether a file is in the folder itself, and is not an index that Sphinx made."""
    is_index = path.stem in _INDEXES and any(path.with_name(name).exists() for name in ("genindex.html", "_static"))
    return not is_index and path.resolve().is_relative_to(root.resolve())


def _is_html(name: str) -> bool:
    return name.lower().endswith(HTML)


def _is_generated(name: str) -> bool:
    return not _GENERATED.isdisjoint(name.split("/")) or name.lower().endswith(
        ("-license.txt", ".js.license.txt", ".css.license.txt")
    )


def _warn_of_unread(root: Path, numbers: Mapping[str, int]) -> None:
    """Warn of documents that are not read, and say what would read them."""
    for suffixes, advice in (
        ({suffix for suffix in numbers if suffix in FORMATS}, "pip install 'graph-retrievers[files]' installs what reads them"),
        ({suffix for suffix in numbers if suffix not in FORMATS}, "loaders of LangChain and LlamaIndex read such files"),
    ):
        if suffixes:
            counts = ", ".join(f"{numbers[suffix]} {suffix}" for suffix in sorted(suffixes))
            logger.warning("%s: did not read %s; %s.", root, counts, advice)


def _read_page(path: Path, root: Path, kind: str) -> Page | str:
    """Return a file as a page, or why it cannot be read; `kind` is that of the notes of its folder."""
    try:
        return FORMATS[path.suffix.lower()].read(path.read_bytes(), path, root, kind)
    except UnreadableError as error:
        return str(error)
    except OSError as error:
        return f"{error.strerror or error}"


def _titled(kind: str, name: str, page: Page, path: Path) -> Page:
    title, file_name = " ".join(note_title(kind, name, page).split()), file_title(path.absolute())
    if name.lower().endswith(MARKDOWN) and file_name and title == page.title and _begins_with_section(page):
        return page._replace(title=file_name, is_title_stated=True)
    return page._replace(title=title or file_name)


def _begins_with_section(page: Page) -> bool:
    """Return whether the first heading of a page is that of a section: it is below a text, or beside others of its level."""
    levels = [block.level for block in page.blocks]
    first = next(filter(None, levels), 1)
    return (
        not page.is_title_stated
        and first > 1
        and (not levels[0] or levels.count(first) > 1 or 0 < min(filter(None, levels)) < first)
    )


def _config_folders(names: Iterable[str], root: Path) -> dict[str, str]:
    """Return for files of reStructuredText the folder with the settings of their project, relative to `root`; "" for others."""
    cache: dict[Path, str] = {}
    folders = {}
    for name in names:
        if not name.lower().endswith(RST):
            continue
        parent = (root / name).parent
        if parent not in cache:
            config = next(config_folders(parent, root), None)
            is_inside = config is not None and config.is_relative_to(root.resolve())
            place = config.relative_to(root.resolve()).as_posix() if config is not None and is_inside else ""
            cache[parent] = "" if place == "." else place
        folders[name] = cache[parent]
    return folders


def _is_named_by_file(path: Path, page: Page) -> bool:
    is_file_title = page.title == file_title(path.absolute()) != ""
    return is_file_title and not any(block.level and block.text == page.title for block in page.blocks)


def _without_site(pages: dict[str, Page]) -> dict[str, Page]:
    """Return pages without what many of them share: a site's name in the titles, navigation at the beginning and the end."""
    threshold = max(_FEW_PAGES, (len(pages) + 1) // 2)
    parts = {name: _SEPARATOR.split(page.title) for name, page in pages.items()}
    first_counts = Counter(segments[0] for segments in parts.values() if len(segments) > 1)
    last_counts = Counter(segments[-1] for segments in parts.values() if len(segments) > 1)
    # A folder may contain several sites, each in its own folder.
    sizes = Counter(name.partition("/")[0] for name in parts)
    lasts = Counter(
        (name.partition("/")[0], segments[-1]) for name, segments in parts.items() if len(segments) > 1 and _is_html(name)
    )
    titles = Counter(page.title for page in pages.values())
    texts = Counter(text for page in pages.values() for text in {block.text for block in page.blocks})
    removals: Counter[str] = Counter()

    def titled(name: str, page: Page) -> str:
        title, segments = page.title, parts[name]
        heading = next((block.text for block in page.blocks if block.level), "")
        if titles[title] >= threshold and heading:
            # The title is only the name of the site, or a heading with which most pages begin, such as NAME in manual pages.
            return heading if texts[heading] < threshold else file_title(name)
        if segments[0].casefold() == heading.casefold():
            # The rest of the title is the name of the site.
            return heading
        folder = name.partition("/")[0]
        if len(segments) > 1 and (
            last_counts[segments[-1]] >= threshold or lasts[folder, segments[-1]] >= max(_FEW_PAGES, (sizes[folder] + 1) // 2)
        ):
            title = title[: title.rindex(segments[-1])]
        if len(segments) > 1 and first_counts[segments[0]] >= threshold:
            title = title[len(segments[0]) :]
        return title.strip(" \t-–—|·:»") or page.title

    def cleaned(name: str, page: Page) -> list[Block]:
        blocks = _without_ways_back(page.blocks) if _is_html(name) else page.blocks
        heading_place = next((place for place, block in enumerate(blocks) if block.level), 0)
        mask = [
            texts[block.text] >= threshold and _is_navigation(block, place < heading_place) for place, block in enumerate(blocks)
        ]
        before = sum(1 for _ in takewhile(bool, mask))
        after = sum(1 for _ in takewhile(bool, reversed(mask[before:])))
        if blocks and blocks[len(blocks) - after - 1].level:
            # The blocks at the end are the text of a heading.
            after = 0
        rest = blocks[before : len(blocks) - after]
        if all(block.level for block in rest):
            return blocks
        removals.update(block.text for block in [*blocks[:before], *blocks[len(blocks) - after :]])
        return rest

    results = {name: page._replace(title=titled(name, page), blocks=cleaned(name, page)) for name, page in pages.items()}
    if removals:
        logger.info("Left out as navigation that half of the pages share: %s.", few([shown(text, 60) for text in removals]))
    return results


def _without_ways_back(blocks: list[Block]) -> list[Block]:
    """Return blocks without a link that a page repeats above its headings, such as one to its list of contents."""

    def target(block: Block, next_block: Block | None) -> tuple[str, str] | None:
        is_above = next_block is None or next_block.level > 0
        is_link = is_above and len(block.links) == 1 and _is_navigation(block, False)
        return (block.text, block.links[0].partition("#")[0]) if is_link else None

    targets = [target(block, next_block) for block, next_block in zip_longest(blocks, blocks[1:])]
    counts = Counter(targets)
    results: list[Block] = []
    anchors: tuple[str, ...] = ()
    for block, way_back in zip(blocks, targets, strict=True):
        if way_back is not None and counts[way_back] >= _WAYS_BACK:
            anchors += block.anchors
        else:
            results.append(replace(block, anchors=(*anchors, *block.anchors)) if anchors else block)
            anchors = ()
    return results


def _is_navigation(block: Block, before_headings: bool) -> bool:
    """Return whether a block that many pages share is navigation: a copyright line, or links or a label, but not a sentence."""
    label = (before_headings or bool(block.links)) and not block.text.endswith((".", "!", "?", ":"))
    # Notes link by name to what many of them belong to.
    by_name = bool(block.linked) or any(link.startswith(("[[", "((")) for link in block.links)
    return not block.level and not by_name and (label or _COPYRIGHT.search(block.text) is not None)


def _distinct(pages: dict[str, Page], book: AddressBook, is_vault: bool) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Return the pages to keep, and for each other one the page that replaces it, "" for none, and a fragment of that."""
    names_by_text: dict[tuple[tuple[str, ...], Hashable], str] = {}
    moves: dict[str, tuple[str, str]] = {}
    for name, page in pages.items():
        text = tuple(block.text for block in page.blocks)
        if not any(not block.level for block in page.blocks) and page.contents:
            targets = (book.find(link, name) for link in page.contents)
            moves[name] = next((target for target in targets if target and target[0] != name), ("", ""))
        elif not text:
            moves[name] = "", ""
        elif (original := names_by_text.setdefault((text, note_identity(name, page) if is_vault else ""), name)) != name:
            moves[name] = original, ""
    return [name for name in pages if name not in moves], moves


def _ends(moves: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the end of the chain of pages that replace each page that is not kept, "" for none, and a fragment of it."""
    ends: dict[str, tuple[str, str]] = {}
    for name in moves:
        chain, page = [], name
        while page in moves and page not in ends:
            chain.append(page)
            # Pages of contents may list only one another.
            ends[page] = "", ""
            page = moves[page][0]
        end, fragment = ends.get(page, (page, ""))
        for page in reversed(chain):
            fragment = fragment or moves[page][1]
            ends[page] = end, fragment
    return ends


def _nodes(name: str, page: Page, chunks: Sequence[Chunk], links: _Resolver, id_counts: Counter[str]) -> list[Node]:
    """Return the nodes of a page; `id_counts` counts how often an id was requested."""
    nodes: list[Node] = []
    fields = shared_fields(page, False)
    for place, chunk in enumerate(chunks):
        identity = name
        if place:
            base = f"{name}#{chunk.anchor}" if chunk.anchor else name
            id_counts[base] += 1
            identity = base if id_counts[base] == 1 else f"{base}~{id_counts[base]}"
            while identity != base and identity in id_counts:
                id_counts[base] += 1
                identity = f"{base}~{id_counts[base]}"
        # The first node represents the page, unless it begins elsewhere.
        is_page = not place and (name, "") not in links.places
        headings = chunk.titles[:1] if is_page else chunk.titles
        titles = (name for name in headings if name.casefold() != page.title.casefold())
        metadata: dict[str, Any] = fields | {
            "path": name,
            "chunk_index": place,
            "headings": list(chunk.headings),
            "anchors": list(chunk.anchors),
            "links": [],
        }
        if place:
            metadata |= {"links": links.resolved(chunk.links, name)} | links.of_chunk(chunk, name)
        else:
            metadata = shared_fields(page, True) | metadata | links.of_page(chunk, name)
            if page.contents:
                metadata["contents"] = links.resolved(page.contents, name)
        if chunk.page:
            metadata["page"] = chunk.page
        origin = {"markdown": chunk.source} if chunk.source else {}
        nodes.append(Node(identity, chunk.text, ": ".join(filter(None, [page.title, *titles])), metadata=metadata, origin=origin))
    return nodes


def _whole(page: Page) -> Chunk:
    blocks = page.blocks[1:] if page.blocks[0].text == page.title and len(page.blocks) > 1 else page.blocks
    anchors = tuple(dict.fromkeys(anchor for block in page.blocks for anchor in block.anchors))
    links = tuple(dict.fromkeys(link for block in page.blocks for link in block.links))
    text, source = text_and_source(blocks)
    pairs = tuple(dict.fromkeys(pair for block in page.blocks for pair in block.linked))
    return Chunk(text, (), anchors, links, "", 1, source=source, linked=pairs, page=blocks[0].page)


class _Resolver(NamedTuple):
    """The targets of links: pages, those kept instead of others, the places of omitted sections, the anchors of each page."""

    notes: Notes
    ends: dict[str, tuple[str, str]]
    places: dict[tuple[str, str], tuple[str, str]]
    anchors: dict[str, set[str]]

    def resolved(self, links: Sequence[str], name: str) -> list[str]:
        """Return links on the page `name`, those inside the folder as paths."""
        results = []
        for link in links:
            target = self.notes.find(link, name)
            if target is None:
                replacement = self.notes.instead(link)
                results.append(link if replacement is None else f"/{quote(replacement)}")
                continue
            page, fragment = target
            if page in self.notes.created:
                results.append(f"/{quote(page)}")
                continue
            if page in self.ends:
                page, end_fragment = self.ends[page]
                fragment = end_fragment or fragment
                if not page:
                    continue
                if fragment not in self.anchors[page]:
                    fragment = ""
            elif fragment and fragment not in self.anchors[page]:
                fragment = self.notes.anchor(page, fragment)
            page, fragment = self.places.get((page, fragment), (page, fragment))
            results.append(f"/{quote(page)}#{quote(fragment)}" if fragment else f"/{quote(page)}")
        return list(dict.fromkeys(results))

    def of_chunk(self, chunk: Chunk, name: str) -> dict[str, Any]:
        """Return the links in the fields of a chunk by field, and the names of these fields."""
        return self._link_fields({}, chunk.linked, name)

    def of_page(self, chunk: Chunk | None, name: str) -> dict[str, Any]:
        """Return the links of the first node of a page, with those in its front matter, and those in fields."""
        front = other_links(self.notes.pages[name].fields)
        links = self.resolved([*front, *(chunk.links if chunk else ())], name)
        return {"links": links} | self._link_fields(self.notes.linked(name), chunk.linked if chunk else (), name)

    def _link_fields(self, page_links: Mapping[str, Sequence[str]], pairs: Sequence[tuple[str, str]], name: str) -> dict[str, Any]:
        fields = {field: [*links] for field, links in page_links.items()}
        for field, link in pairs:
            fields.setdefault(field, []).append(link)
        return {field: self.resolved(links, name) for field, links in fields.items()} | ({"linked": list(fields)} if fields else {})
