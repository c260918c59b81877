"""Where the pages of a folder are published, as they and the settings of MkDocs say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Published", "published", "stated_addresses"]

_MANY = 100_000
_TAG = re.compile(r"<(link|meta|base)\b([^<>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\b(rel|href|property|content)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_SITE_URL = re.compile(r"""^site_url:[ \t]*["']?(https?://[^\s"'#]+)""", re.MULTILINE)
_URL = re.compile(r"https?://", re.IGNORECASE)


class Published(NamedTuple):
    """The address of the folder, "" if it is not known, and the addresses of pages, each with the page that it leads to."""

    site: str
    pages: dict[str, str]


def stated_addresses(text: str) -> tuple[str, str]:
    """Return the address that an HTML page says it has (``canonical``, else ``og:url``) and that of its ``base``, "" for none.

    Examples
    --------
    >>> stated_addresses('<base href="https://x.org/"><link rel=canonical href="https://x.org/a.html">')
    ('https://x.org/a.html', 'https://x.org/')
    """
    found: dict[str, str] = {}
    for tag, inside in _TAG.findall(text[:_MANY]):
        held = {name.lower(): "".join(values) for name, *values in _ATTRIBUTE.findall(inside)}
        kind = held.get("rel" if tag.lower() == "link" else "property", tag).lower()
        address = held.get("content" if tag.lower() == "meta" else "href", "").strip()
        if _URL.match(address):
            found.setdefault(kind, address)
    return found.get("canonical") or found.get("og:url", ""), found.get("base", "")


def published(root: Path, stated: Mapping[str, tuple[str, str]]) -> Published:
    """Return where the pages of a folder are published; `stated` has what :func:`stated_addresses` gives for each of them.

    The site is ``site_url`` of ``mkdocs.yml`` in the folder or beside it, else the ``base`` that all pages with one have. An
    address that several pages say they have is that of none.
    """
    told = Counter(own for own, _ in stated.values())
    pages = {own: name for name, (own, _) in stated.items() if own and told[own] == 1}
    bases = {base for _, base in stated.values() if base}
    return Published(_mkdocs(root) or (bases.pop() if len(bases) == 1 else ""), pages)


def _mkdocs(root: Path) -> str:
    for folder in (root, root.resolve().parent):
        settings = folder / "mkdocs.yml"
        if settings.is_file() and (found := _SITE_URL.search(settings.read_text(encoding="utf-8", errors="replace")[:_MANY])):
            return found[1]
    return ""
