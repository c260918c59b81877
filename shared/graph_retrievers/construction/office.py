"""Documents of Word, PowerPoint and Excel, and books in EPUB, as pages."""

from __future__ import annotations

import posixpath
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, time
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from graph_retrievers.construction.encodings import web_encoding
from graph_retrievers.construction.html import html_charset, read_html
from graph_retrievers.construction.markdown import read_markdown, slug
from graph_retrievers.construction.pages import Block, Page, UnreadableError

# Bytes of a file when it is unpacked, those of its parts that are markup, of which parsers take many times the memory, and cells of
# a sheet.
_UNPACKED, _MARKUP, _CELLS = 500_000_000, 20_000_000, 2_000_000
_MARKUP_NAMES = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".vml")
# Bytes of a part that show whether it is markup, and those that may stand in front of that.
_BEGINNING, _BEFORE_MARKUP = 64, b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
_SLIDE = re.compile(r"^<!-- Slide number: (\d+) -->\n?", re.MULTILINE)
_ROW = re.compile(rb"<(?:\w+:)?row\b[^>]{0,300}?\br=\"(\d{1,9})\"")
_CELL = re.compile(rb"<(?:\w+:)?c\b[^>]{0,300}?\br=\"([A-Z]{1,3})(\d{1,9})\"")
_CELL_OF_HTML, _PARAGRAPH = re.compile(r"<t[dh]\b[^>]*>.*?</t[dh]>", re.DOTALL), re.compile(r"</?p\b[^>]*>")


def read_word(raw: bytes) -> Page:
    """Return a document of Word as a page: headings, lists, tables, links and their anchors, footnotes, equations as LaTeX."""
    _check_size(raw)
    return _call_library(lambda: _with_own_links(read_html(_word_html(raw))))


def read_slides(raw: bytes, kind: str = "") -> Page:
    """Return a presentation of PowerPoint as a page; the blocks of each slide have its number as their printed page.

    `kind` is that of the notes of its folder, see :func:`~graph_retrievers.construction.vaults.vault_kind`.
    """
    _check_size(raw)
    text = _call_library(lambda: _slides_markdown(raw))
    parts = _SLIDE.split(text)
    slug_counts: Counter[str] = Counter()
    blocks: list[Block] = list(read_markdown(parts[0], seen=slug_counts, kind=kind).blocks)
    for number, slide in zip(parts[1::2], parts[2::2], strict=True):
        slide_blocks = [replace(block, page=int(number)) for block in read_markdown(slide, seen=slug_counts, kind=kind).blocks]
        blocks += (
            [replace(slide_blocks[0], anchors=(f"slide={number}", *slide_blocks[0].anchors)), *slide_blocks[1:]]
            if slide_blocks
            else []
        )
    return Page(next((block.text for block in blocks if block.level), ""), blocks)


def read_sheets(raw: bytes) -> Page:
    """Return a workbook of Excel as a page: a heading for each sheet, and a block for each row, below the names of the columns.

    The names are the first row of a sheet if all of its cells are texts. The value of a formula is the one that the file keeps.
    """
    archive = _check_size(raw)
    for name in archive.namelist():
        if name.startswith("xl/worksheets/") and name.endswith(".xml"):
            _call_library(partial(_check_cells, archive, name))
    return _call_library(lambda: Page("", list(_rows(raw)), is_title_stated=True))


def read_book(raw: bytes) -> Page:
    """Return a book in EPUB as a page: its chapters in their order, with the links between them."""
    archive = _check_size(raw)
    return _call_library(lambda: _book(archive))


def _check_size(raw: bytes) -> zipfile.ZipFile:
    """Return the parts of a file; raise UnreadableError if it has none, needs a password, or is too large when unpacked."""
    if raw.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        raise UnreadableError("it is encrypted, or in the format of Office 97")
    try:
        archive = zipfile.ZipFile(BytesIO(raw))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise UnreadableError(f"it is broken: {error}") from error
    parts = archive.infolist()
    if any(part.flag_bits & 1 for part in parts):
        raise UnreadableError("it is encrypted; a password is needed")
    markup = sum(part.file_size for part in parts if _is_markup(archive, part))
    # The size that is written is the most that is unpacked.
    for size, most in ((sum(part.file_size for part in parts), _UNPACKED), (markup, _MARKUP)):
        if size > most:
            raise UnreadableError(f"it has {size:,} bytes when it is unpacked, more than {most:,}")
    return archive


def _is_markup(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Return whether a part is markup: by its name, or by how it begins, since a document may give its parts any names."""
    if part.filename.lower().endswith(_MARKUP_NAMES):
        return True
    try:
        with archive.open(part) as file:
            return file.read(_BEGINNING).lstrip(_BEFORE_MARKUP)[:1] in (b"", b"<")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError):
        # A part that cannot be unpacked here cannot be unpacked later either.
        return False


def _check_cells(archive: zipfile.ZipFile, name: str) -> None:
    """Raise UnreadableError if the area of a sheet has too many cells: the empty ones take time and memory too."""
    sheet = archive.read(name)
    rows = max(map(int, _ROW.findall(sheet)), default=0)
    columns = 0
    for letters, row in _CELL.findall(sheet):
        rows = max(rows, int(row))
        column = 0
        for letter in letters:
            column = 26 * column + letter - 64
        columns = max(columns, column)
    if rows * max(columns, 1) > _CELLS:
        raise UnreadableError(f"a sheet has {rows:,} rows and {columns:,} columns, more than {_CELLS:,} cells")


def _call_library(function: Any) -> Any:
    try:
        # The libraries warn of programs that only sound and video need.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(f"it is broken: {type(error).__name__}: {f'{error}':.200}") from error


def _word_html(raw: bytes) -> str:
    # The document is read as HTML, as Markdown has neither the places to which its links lead nor superscripts.
    import mammoth
    from markitdown.converter_utils.docx.pre_process import pre_process_docx

    pictures = mammoth.images.img_element(lambda image: {"src": ""})
    markup = str(mammoth.convert_to_html(pre_process_docx(BytesIO(raw)), convert_image=pictures).value)
    # The paragraphs of a cell stand in its row.
    return _CELL_OF_HTML.sub(lambda cell: _PARAGRAPH.sub(" ", cell[0]), markup)


def _with_own_links(page: Page) -> Page:
    """Return a page without links to places that it does not have."""
    anchors = {f"#{anchor}" for block in page.blocks for anchor in block.anchors}
    blocks = [
        replace(block, links=tuple(link for link in block.links if not link.startswith("#") or link in anchors))
        for block in page.blocks
    ]
    return page._replace(blocks=blocks)


def _slides_markdown(raw: bytes) -> str:
    from markitdown import StreamInfo
    from markitdown.converters import PptxConverter

    return str(PptxConverter().convert(BytesIO(raw), StreamInfo(extension=".pptx")).markdown)


def _rows(raw: bytes) -> Iterator[Block]:
    # Sheets are not read by way of Markdown, where columns with an empty cell have numbers such as "12.0".
    from openpyxl import load_workbook

    book = load_workbook(BytesIO(raw), read_only=True, data_only=True)
    for sheet in book.worksheets:
        yield Block(sheet.title, 1, (slug(sheet.title),), leads=True)
        sheet.reset_dimensions()
        header, is_first, count = "", True, 0
        for row in sheet.iter_rows(values_only=True):
            # Empty cells in front of the first one of a row, and empty rows in front of the first one, count too.
            count += max(len(row), 1)
            if count > _CELLS:
                raise UnreadableError(f"a sheet has more than {_CELLS:,} cells")
            cells = ["" if value is None else " ".join(str(_plain(value)).split()) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            if not cells:
                continue
            text = " | ".join(cells)
            is_header = is_first and len(cells) > 1 and all(isinstance(value, str) for value in row[: len(cells)])
            header = text if is_header else header
            yield Block(text, leads=is_header, header="" if is_header else header)
            is_first = False


def _plain(value: Any) -> Any:
    """Return a day without the time, and a whole number without its point."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _book(archive: zipfile.ZipFile) -> Page:
    from lxml import etree

    # Entities are not resolved, as they may name other files.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)

    def tree(name: str) -> Any:
        return etree.fromstring(archive.read(name), parser)

    (root,) = tree("META-INF/container.xml").xpath("(//*[local-name()='rootfile']/@full-path)[1]")
    package = tree(str(root))
    folder = posixpath.dirname(str(root))
    files = {item.get("id"): item.get("href", "") for item in package.xpath("//*[local-name()='item']")}
    file_names = set(archive.namelist())
    chapters = []
    for place in package.xpath("//*[local-name()='itemref']/@idref"):
        paths = (posixpath.normpath(posixpath.join(folder, form)) for form in _forms(files.get(place, "")))
        chapters += [path for path in paths if path in file_names and path not in chapters][:1]
    title = " ".join("".join(package.xpath("(//*[local-name()='metadata']/*[local-name()='title'])[1]//text()")).split())
    chapter_set = set(chapters)
    if (size := sum(archive.getinfo(chapter).file_size for chapter in chapters)) > _MARKUP:
        raise UnreadableError(f"its chapters have {size:,} bytes, more than {_MARKUP:,}")
    blocks = [block for chapter in chapters for block in _chapter(archive.read(chapter), chapter, chapter_set)]
    return Page(title or next((block.text for block in blocks if block.level), ""), blocks, is_title_stated=bool(title))


def _forms(address: str) -> Sequence[str]:
    return (unquote(address), address) if address else ()


def _chapter(raw: bytes, name: str, chapters: set[str]) -> Sequence[Block]:
    """Return the blocks of a chapter, whose anchors and links have its name."""
    charset = html_charset(raw) or (web_encoding("utf-8"))
    blocks = read_html(raw.decode(charset, "replace").removeprefix("\ufeff"), piece=True).blocks

    def link(address: str) -> str:
        try:
            parts = urlsplit(address)
        except ValueError:
            return address
        if parts.scheme or parts.netloc:
            return address
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
        if path not in chapters:
            return ""
        return f"#{quote(_place(path, unquote(parts.fragment)), safe='/')}"

    own_blocks = [
        replace(
            block,
            anchors=tuple(_place(name, anchor) for anchor in block.anchors),
            links=tuple(filter(None, map(link, block.links))),
        )
        for block in blocks
    ]
    return [replace(own_blocks[0], anchors=(name, *own_blocks[0].anchors)), *own_blocks[1:]] if own_blocks else []


def _place(chapter: str, anchor: str) -> str:
    return f"{chapter}#{anchor}" if anchor else chapter
