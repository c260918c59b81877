"""The formats of files that a folder is read from: one entry for each ending of a name."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from graph_retrievers.construction.html import html_charset, read_html
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.notebooks import read_notebook
from graph_retrievers.construction.office import read_book, read_sheets, read_slides, read_word
from graph_retrievers.construction.pages import Page, UnreadableError
from graph_retrievers.construction.pdf import read_pdf
from graph_retrievers.construction.plain_text import read_text
from graph_retrievers.construction.quarto import read_quarto
from graph_retrievers.construction.rfcs import is_rfc, read_rfc
from graph_retrievers.construction.rst import read_rst, sphinx_settings
from graph_retrievers.graph.file_endings import BOOK, HTML, MARKDOWN, NOTEBOOK, PDF, QUARTO, RST, SHEETS, SLIDES, TEXT, WORD

# A file in which more than one byte in this number is null is not text.
_NULLS = 4


class Format(NamedTuple):
    """How files with an ending are read.

    Attributes
    ----------
    read : callable
        Returns the page of a file by its bytes, its path, the folder that is read and the kind of its notes; raises UnreadableError
        if it cannot.
    needs : tuple of str
        The modules of the extra ``files`` without which it cannot be read.
    """

    read: Callable[[bytes, Path, Path, str], Page]
    needs: tuple[str, ...] = ()

    @property
    def lacks_module(self) -> bool:
        """Whether a module that is needed is not installed."""
        return any(find_spec(name) is None for name in self.needs)


def _text(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    text = decoded(raw)
    return read_rfc(text) if is_rfc(text) else read_text(text)


def _markdown(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_markdown(decoded(raw), kind=kind)


def _quarto(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_quarto(decoded(raw), kind)


def _html(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_html(decoded(raw, html_charset(raw)))


def _rst(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_rst(decoded(raw), sphinx_settings(path.parent, root))


def _notebook(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_notebook(decoded(raw), kind)


def _slides(raw: bytes, path: Path, root: Path, kind: str) -> Page:
    return read_slides(raw, kind)


def _of_bytes(reader: Callable[[bytes], Page]) -> Callable[[bytes, Path, Path, str], Page]:
    return lambda raw, path, root, kind: reader(raw)


FORMATS = {
    **dict.fromkeys(TEXT, Format(_text)),
    **dict.fromkeys(MARKDOWN, Format(_markdown)),
    **dict.fromkeys(QUARTO, Format(_quarto)),
    **dict.fromkeys(HTML, Format(_html)),
    **dict.fromkeys(RST, Format(_rst)),
    **dict.fromkeys(NOTEBOOK, Format(_notebook)),
    **dict.fromkeys(BOOK, Format(_of_bytes(read_book))),
    **dict.fromkeys(PDF, Format(_of_bytes(read_pdf), ("pypdf",))),
    **dict.fromkeys(WORD, Format(_of_bytes(read_word), ("markitdown", "mammoth"))),
    **dict.fromkeys(SLIDES, Format(_slides, ("markitdown", "pptx"))),
    **dict.fromkeys(SHEETS, Format(_of_bytes(read_sheets), ("openpyxl",))),
}


def decoded(raw: bytes, charset: str = "") -> str:
    """Return the text of a file: UTF-8, UTF-16 with its mark, or in an encoding that it declares; else raise UnreadableError."""
    # A mark at the beginning counts more than what is declared, as in browsers.
    mark_encoding = "utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else ""
    encoding = mark_encoding or charset or "utf-8-sig"
    try:
        # Other encodings leave some bytes undefined, which are replaced, as in browsers.
        text = raw.decode(encoding, "strict" if encoding.startswith("utf-") else "replace")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"it is not {'UTF-16' if mark_encoding else 'UTF-8'}: {error.reason} at byte {error.start:,}"
        ) from error
    if not mark_encoding and len(raw) < _NULLS * raw.count(0):
        raise UnreadableError("it has many null bytes: it is UTF-16 without a byte order mark, or it is not text")
    return text
