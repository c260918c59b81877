"""Jupyter notebooks as pages: their text and code, without what the code printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from graph_retrievers.construction.front_matter import front_matter
from graph_retrievers.construction.markdown import read_markdown, reference_definitions
from graph_retrievers.construction.pages import Page, UnreadableError

_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)
_IN_MARKDOWN = "markdown"


def read_notebook(text: str, kind: str = "") -> Page:
    """Return a notebook, versions 3 and 4 of its format, as a page of Markdown; code is a block of it, and outputs are left out.

    A raw cell is read if it comes first and is front matter, as Quarto writes it. `kind` is that of the notes of its folder, see
    :func:`~graph_retrievers.construction.vaults.vault_kind`.

    >>> notebook = '{"cells": [{"cell_type": "markdown", "source": ["# Looms"]}, {"cell_type": "code", "source": "weave()"}]}'
    >>> [(block.text, block.level) for block in read_notebook(notebook).blocks]
    [('Looms', 1), ('weave()', 0)]
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is not a notebook: {error}") from error
    cells = _cells(notebook)
    if cells is None:
        raise UnreadableError("it is not a notebook: it has no list of cells")
    language = _language(notebook)
    texts = (_part(cell, language, place == 0) for place, cell in enumerate(cells) if isinstance(cell, dict))
    parts = [part for part in texts if part.strip()]
    references: dict[str, Any] = {}
    for part in parts:
        references = reference_definitions(part) | references
    slug_counts: Counter[str] = Counter()
    # Cells are read one by one, so that a comment or code that is not closed ends with its cell. All but the first begin with an
    # empty line, so that they have no front matter; each ends with a line feed, so that a paragraph ends in the source too.
    pages = [read_markdown(f"{chr(10) * bool(place)}{part}\n", references, slug_counts, kind) for place, part in enumerate(parts)]
    title = next((page.title for page in pages if page.title), "")
    blocks = [block for page in pages for block in page.blocks]
    return Page(
        title,
        blocks,
        is_title_stated=bool(pages) and pages[0].is_title_stated,
        fields=_merge_fields([page.fields for page in pages]),
    )


def _merge_fields(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of all cells; a field with several values has a list of them."""
    result: dict[str, Any] = {}
    for fields in mappings:
        for name, value in fields.items():
            old_values, new_values = (
                [*content] if isinstance(content, list) else [content] for content in (result.get(name, []), value)
            )
            values = [*old_values, *(item for item in new_values if item not in old_values)]
            result[name] = value if name not in result or values == [value] else values
    return result


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")
    if "cells" not in notebook and isinstance(sheets, list):
        lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        return [cell for cells in lists if isinstance(cells, list) for cell in cells]
    return notebook["cells"] if isinstance(notebook.get("cells"), list) else None


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else ""


def _part(cell: dict[str, Any], language: str, first: bool) -> str:
    source = cell.get("source", cell.get("input", ""))
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str)).strip("\n")
    kind = cell.get("cell_type")
    if kind == _IN_MARKDOWN:
        return text
    if kind == "raw" and first:
        fields, body = front_matter(text)
        return text.removesuffix(body) if fields else ""
    if kind == "heading":
        level = cell.get("level")
        return f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {' '.join(text.split())}"
    if kind != "code" or not text.strip():
        return ""
    fence = "`" * (1 + max([2, *(len(mark) for mark in _FENCE.findall(text))]))
    return f"{fence}{language}\n{text}\n{fence}"
