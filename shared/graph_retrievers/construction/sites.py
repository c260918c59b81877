"""Where the pages of a folder are published, as they and the settings of MkDocs say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from graph_retrievers.construction.pages import Page

__all__ = ["Published", "published"]

_MANY = 100_000
_SITE_URL = re.compile(r"""^site_url:[ \t]*["']?(https?://[^\s"'#]+)""", re.MULTILINE)


class Published(NamedTuple):
    """The address of the folder, "" if it is not known, and the addresses of pages, each with the page that it leads to."""

    site: str
    pages: dict[str, str]


def published(root: Path, pages: Mapping[str, Page]) -> Published:
    """Return where a folder is published, of whose HTML pages `pages` are all.

    The site is ``site_url`` of ``mkdocs.yml`` in the folder or beside it, else the ``base`` that at least half of the pages have,
    and more than any other: one page does not speak for all. An address that several pages say they have is that of none.
    """
    told = Counter(page.address for page in pages.values())
    stated = {page.address: name for name, page in pages.items() if page.address and told[page.address] == 1}
    bases = Counter(page.base for page in pages.values() if page.base).most_common(2)
    agreed = [base for base, count in bases if 2 * count >= len(pages)]
    return Published(_mkdocs(root) or (agreed[0] if len(agreed) == 1 else ""), stated)


def _mkdocs(root: Path) -> str:
    for folder in (root, root.resolve().parent):
        settings = folder / "mkdocs.yml"
        if settings.is_file() and (found := _SITE_URL.search(settings.read_text(encoding="utf-8", errors="replace")[:_MANY])):
            return found[1]
    return ""
