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
# Characters of an address; browsers and servers stop at 2,000 to 8,000.
_LONGEST = 4_096
# At least two letters, so that the drive of a Windows path is none.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_SUFFIX = re.compile(r"\.(?:html?|md|mdx|markdown)$")
_INDEX = re.compile(r"/(?:index|readme)$")
# Of other schemes, such as s3, the standard library does not know that links may be relative.
_OTHER_SCHEME = re.compile(r"^(?!https?:|file:|ftp:)([A-Za-z][A-Za-z0-9+.-]+)://", re.IGNORECASE)


def page_address(metadata: Mapping[str, Any], fields: Sequence[str] = ADDRESS_FIELDS) -> str:
    """Return the address of the page that a node was cut from: the first of some metadata fields that it has, "" for none.

    Examples
    --------
    >>> page_address({"source": "docs/looms.md", "chunk": 3})
    'docs/looms.md'
    """
    values = (metadata.get(name) for name in fields)
    return next((text for value in values if value is not None and (text := _text(value))), "")


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        # Lists of thousands of levels, numbers of thousands of digits and what has no text are not addresses.
        return ""


class AddressBook:
    """Pages by address; links are resolved as in a browser.

    An address is a URL or a path. Where no page has the very address of a link, these do not count: ``http`` or ``https``, a slash
    at the end, the ending ``.html`` or ``.md``, ``index`` or ``README`` at the end, upper and lower case, and for paths the query
    behind a question mark. A link that begins with a slash is also looked up below the folder that all paths share.

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
        # Address of the page by URL, by URL without scheme and slash, by folder for an index page, and by what else may differ.
        self._maps: tuple[dict[str, str], ...] = ({}, {}, {}, {})
        folders = []
        for address in dict.fromkeys(filter(None, addresses)):
            found = _parts(_as_url(address)) if len(address) <= _LONGEST else None
            if found is None:
                # Not an address, such as "http://[", or a longer one: no link leads there.
                continue
            url, _ = found
            key = _key(url)
            exact, same, index, loose = self._maps
            exact.setdefault(url, address)
            same.setdefault(key, address)
            plain = _plain(key)
            if plain != (folder := _INDEX.sub("", plain)):
                index.setdefault(folder, address)
            loose.setdefault(folder, address)
            if not _SCHEME.match(url):
                folders.append(posixpath.dirname(key))
        self._root = posixpath.commonpath(folders).rstrip("/") if folders else ""

    def find(self, link: str, base: str = "") -> tuple[str, str] | None:
        """Return the address of the page that a link on the page `base` leads to and the fragment, None if it is not known."""
        link = link.strip()
        if len(link) > _LONGEST or len(base) > _LONGEST or (not base and link.startswith("#")):
            return None
        try:
            joined = urljoin(_as_url(base), _OTHER_SCHEME.sub(r"http://\1--", link))
        except ValueError:
            return None
        found = _parts(joined)
        if found is None:
            return None
        url, fragment = found
        for root in ("", self._root) if link.startswith("/") and not link.startswith("//") else ("",):
            if (address := self._page(root + url)) is not None:
                return address, fragment
        return None

    def _page(self, url: str) -> str | None:
        exact, same, index, loose = self._maps
        if url.startswith("/"):
            url = url.partition("?")[0]
        key = _key(url)
        plain = _INDEX.sub("", _plain(key))
        return exact.get(url) or (index.get(plain) if url.endswith("/") else None) or same.get(key) or loose.get(plain)


def _as_url(address: str) -> str:
    """Return a URL as it is and a path quoted, with a slash in front."""
    if _SCHEME.match(address):
        return _OTHER_SCHEME.sub(r"http://\1--", address)
    return "/" + quote(address.replace("\\", "/").removeprefix("./").lstrip("/"), errors="replace")


def _parts(url: str) -> tuple[str, str] | None:
    """Return a URL without its fragment in a form that can be compared, and the fragment; None for what is not a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # One way of quoting; a quoted slash stays one.
    path = "/".join(quote(unquote(part), safe="", errors="replace") for part in parts.path.split("/"))
    path = "/" + posixpath.normpath(path).lstrip("/") + ("/" if path.endswith("/") else "") if path else "/"
    path = path.replace("//", "/")
    head = f"{parts.scheme.lower()}://{parts.netloc.lower()}" if parts.scheme or parts.netloc else ""
    return head + path + (f"?{parts.query}" if parts.query else ""), unquote(parts.fragment)


def _key(url: str) -> str:
    """Return a URL without what names the same page: https for http, a slash at the end."""
    path, mark, query = url.partition("?")
    return (re.sub(r"^(?:https?:)?//", "http://", path).rstrip("/") or "/") + mark + query


def _plain(key: str) -> str:
    path, mark, query = key.partition("?")
    return (_SUFFIX.sub("", path.casefold()) or "/") + mark + query
