"""Endings of the names of files that folders are read from and that links name; the reader of each is in construction.formats."""

from __future__ import annotations

import posixpath

TEXT = (".txt",)
QUARTO = (".qmd", ".rmd")
MARKDOWN = (".md", ".mdx", ".markdown", *QUARTO)
HTML = (".html", ".htm")
RST = (".rst", ".rest")
NOTEBOOK = (".ipynb",)
BOOK = (".epub",)
PDF = (".pdf",)
WORD = (".docx",)
SLIDES = (".pptx",)
SHEETS = (".xlsx",)
FILES = frozenset([*TEXT, *MARKDOWN, *HTML, *RST, *NOTEBOOK, *BOOK, *PDF, *WORD, *SLIDES, *SHEETS])
"""All of them."""


def ending_of(path: str) -> str:
    """Return the ending of a path with its dot, in small letters; "" if it has none.

    >>> ending_of("guide/Loom.MD"), ending_of("guide/loom")
    ('.md', '')
    """
    return posixpath.splitext(path)[1].lower()
