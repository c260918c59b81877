"""Where the pages of a folder are published, according to the pages and the settings of MkDocs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from graph_retrievers.construction.pages import Page

__all__ = ["published"]

_MANY = 100_000
_SITE_URL = re.compile(r"""^site_url:[ \t]*["']?(https?://[^\s"'#]+)""", re.MULTILINE)


class Published(NamedTuple):
    """The address of the folder, "" if unknown, and the addresses of pages, each with the page to which it leads."""

    site: str
    pages: dict[str, str]


def published(root: Path, pages: Mapping[str, Page]) -> Published:
    """Return where a folder is published; `pages` are all of its HTML pages.

    The site is ``site_url`` of ``mkdocs.yml`` in the folder or next to it, else the ``base`` that at least half of the pages
    have, and more pages than any other ``base``. An address that several pages state is ignored.
    """
    address_counts = Counter(page.address for page in pages.values())
    pages_by_address = {page.address: name for name, page in pages.items() if page.address and address_counts[page.address] == 1}
    bases = Counter(page.base for page in pages.values() if page.base).most_common(2)
    common_bases = [base for base, count in bases if 2 * count >= len(pages)]
    return Published(_mkdocs(root) or (common_bases[0] if len(common_bases) == 1 else ""), pages_by_address)


def _mkdocs(root: Path) -> str:
    for folder in (root, root.resolve().parent):
        settings = folder / "mkdocs.yml"
        if settings.is_file() and (match := _SITE_URL.search(settings.read_text(encoding="utf-8", errors="replace")[:_MANY])):
            return match[1]
    return ""
