"""Addresses of pages: the metadata field that holds them, and forms in which links and pages can be compared."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

__all__ = ["ADDRESS_FIELDS", "AddressBook", "page_address"]

# In this order: a loader of web pages may write both an address and the file it was kept in.
ADDRESS_FIELDS = ("url", "source", "path", "file_path")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_SUFFIX = re.compile(r"(?:\.(?:html?|md|mdx|markdown|txt))?/*$")
_INDEX = re.compile(r"/(?:index|readme)$")


def page_address(metadata: Mapping[str, Any], fields: Sequence[str] = ADDRESS_FIELDS) -> str:
    """Return the address of the page that a node was cut from: the first of some metadata fields that it has, "" for none.

    Examples
    --------
    >>> page_address({"source": "docs/looms.md", "chunk": 3})
    'docs/looms.md'
    """
    return next((str(metadata[name]) for name in fields if metadata.get(name) not in (None, "")), "")


class AddressBook:
    """Pages by address; links are resolved as in a browser.

    An address is a URL or a path. Upper and lower case, ``http`` and ``https``, the ending ``.html`` or ``.md``, and ``index`` at
    the end only count where pages would be confused otherwise. A link that begins with a slash is also looked up below the folder
    that all paths share.

    Parameters
    ----------
    addresses : iterable of str

    Examples
    --------
    >>> book = AddressBook(["docs/guide/start.md", "docs/index.md"])
    >>> book.find("../", base="docs/guide/start.md"), book.find("start#install", base="docs/guide/start.md")
    (('docs/index.md', ''), ('docs/guide/start.md', 'install'))
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self._exact: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        paths = []
        for address in dict.fromkeys(filter(None, addresses)):
            url = _as_url(address)
            key, _ = _key(url)
            self._exact.setdefault(key, address)
            self._loose.setdefault(_plain(key), address)
            if not _SCHEME.match(url):
                paths.append(posixpath.dirname(key))
        self._root = posixpath.commonpath(paths).rstrip("/") if paths else ""

    def find(self, link: str, base: str = "") -> tuple[str, str] | None:
        """Return the address of the page that a link on the page `base` leads to and the fragment, None if it is not known."""
        key, fragment = _joined(base, link)
        for wanted in dict.fromkeys((key, self._root + key) if key.startswith("/") else (key,)):
            found = self._exact.get(wanted) or self._loose.get(_plain(wanted))
            if found is not None:
                return found, fragment
        return None


def _joined(base: str, link: str) -> tuple[str, str]:
    try:
        return _key(urljoin(_as_url(base) if base else "/", link.strip()))
    except ValueError:
        # Not an address, such as "http://[".
        return "", ""


def _as_url(address: str) -> str:
    """Return a URL as it is and a path quoted, with a slash in front."""
    if _SCHEME.match(address) and "\\" not in address and not re.match("[A-Za-z]:/", address):
        return address
    return "/" + quote(address.replace("\\", "/").removeprefix("./").lstrip("/"))


def _key(url: str) -> tuple[str, str]:
    """Return a URL without its fragment in a form that can be compared, and the fragment."""
    parts = urlsplit(url)
    path = posixpath.normpath(unquote(parts.path)) if parts.path else ""
    path = "/" + path.lstrip("/") if path not in ("", ".") else "/"
    query = f"?{parts.query}" if parts.query else ""
    scheme = parts.scheme.lower()
    # The same page in two schemes.
    head = "" if not scheme and not parts.netloc else f"{'http' if scheme in ('', 'https') else scheme}://{parts.netloc.lower()}"
    return head + path + query, unquote(parts.fragment)


def _plain(key: str) -> str:
    path, mark, query = key.casefold().partition("?")
    path = _SUFFIX.sub("", path.rstrip("/"))
    return (_INDEX.sub("", path) or "/") + mark + query
