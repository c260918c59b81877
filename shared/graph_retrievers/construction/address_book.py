"""Pages by address: forms in which links and pages can be compared."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, unquote, urljoin, urlsplit

from graph_retrievers.construction.page_names import PageNames
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.addresses import is_other_file
from graph_retrievers.graph.file_endings import FILES, HTML, MARKDOWN, NOTEBOOK, RST, ending_of

# Most characters of an address; browsers and servers stop at 2,000 to 8,000.
_LONGEST = 4_096
# A scheme has two letters or more, so that the drive of a Windows path is not taken for one.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# Endings without which pages may be published.
_SUFFIX = re.compile(rf"(?:{'|'.join(map(re.escape, (*HTML, *MARKDOWN, *RST, *NOTEBOOK)))})$")
# The part that GitHub and GitLab write between the address of a repository and a path in it.
_FORGE = re.compile(r"^(?:/-)?/(?:blob|tree|raw)/[^/]+")
_VAULT = re.compile(r"dendron://([^/]+)/")
_FIRST = frozenset(["index", "_index", "readme"])
_INDEX = re.compile(r"/(?:index|readme)$")
# The standard library resolves relative links only for some schemes, and not for others such as s3.
_OTHER_SCHEME = re.compile(r"^(?!https?:|file:|ftp:)([A-Za-z][A-Za-z0-9+.-]+)://", re.IGNORECASE)


class AddressBook:
    """Pages by address, a URL or a path; links are resolved as in a browser.

    If no page has the exact address of a link, these differences are ignored: ``http`` or ``https``, a slash at the end, the
    extension ``.html`` or ``.md``, ``index`` or ``README`` at the end, upper and lower case, and for paths the query after a
    question mark. A link that begins with a slash is also looked up below the folder that all paths share. If a link on a page of
    Markdown leads nowhere, it is read as Obsidian writes it: as a path from that folder, or as the end of a path.

    A wiki link such as ``[[Looms]]`` or ``[[guide/Looms#cards]]`` names a page by its file without the extension, and by folders
    around it, ignoring case. Of several pages, the one with exactly this path comes first, then the one whose folder shares the
    most with the folder of the link, then the shorter path. ``[[./Looms]]`` and ``[[../Looms]]`` are paths from the folder of the
    link, and ``[[dendron://vault/looms]]`` prefers the folder ``vault``. `names` are further names of pages for such links, with
    the page that each names; they come first.

    `sites` are the places where paths are published: addresses of their root folder, such as ``https://x.org/docs``, or of a
    repository on GitHub or GitLab. A link to an address below is read as a path. `others` are other addresses, with the page to
    which each leads; they are used if `addresses` and `sites` have no result.

    >>> book = AddressBook(["docs/guide/start.md", "docs/index.md"], sites=["https://x.org/manual"])
    >>> book.find("../", base="docs/guide/start.md"), book.find("start#install", base="docs/guide/start.md")
    (('docs/index.md', ''), ('docs/guide/start.md', 'install'))
    >>> book.find("[[Start#install]]")
    ('docs/guide/start.md', 'install')
    >>> book.find("https://x.org/manual/guide/start/")
    ('docs/guide/start.md', '')
    >>> book.find("guide/start.md", base="docs/notes/today.md")
    ('docs/guide/start.md', '')
    """

    def __init__(
        self,
        addresses: Iterable[str],
        sites: Sequence[str] = (),
        others: Mapping[str, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._sites = [site for address in sites if (site := _site(address))]
        # The addresses that pages state are tried after all forms of the addresses that they have.
        self._forms = [_Forms((address, address) for address in filter(None, addresses)), _Forms((others or {}).items())]
        folders = {posixpath.dirname(_key(url)) for url in self._forms[0].exact if not _SCHEME.match(url)}
        self._root = posixpath.commonpath(folders).rstrip("/") if folders else ""
        self._page_names = PageNames(self._forms[0].exact.items(), self._root, names)

    def find(self, link: str, base: str = "") -> tuple[str, str] | None:
        """Return the address of the page to which a link on the page `base` leads, and the fragment; None if it is unknown."""
        link = link.strip()
        if len(link) > _LONGEST or len(base) > _LONGEST or (not base and link[:1] in ("", "#")):
            return None
        if link.startswith("[["):
            return self._by_name(link, base)
        try:
            full_url = urljoin(_as_url(base), _OTHER_SCHEME.sub(r"http://\1--", link))
        except ValueError:
            return None
        parts = _parts(full_url)
        if parts is None:
            return None
        url, fragment = parts
        roots = ["", self._root] if link.startswith("/") and not link.startswith("//") else [""]
        addresses = [root + url for root in roots]
        addresses += [root + path for path in self._below_sites(url, len(roots) > 1) for root in ("", self._root)]
        address = next((page for forms in self._forms for address in addresses if (page := forms.page(address))), None)
        address = address or self._in_vault(link, base)
        return None if address is None else (address, fragment)

    def _in_vault(self, link: str, base: str) -> str | None:
        """Return the page to which a relative link leads that is a path from the root of a vault, or the end of a path."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or parts.path[:1] in ("", "/", ".") or _SCHEME.match(base):
            return None
        if not base or ending_of(base) not in ("", *MARKDOWN):
            return None
        path = posixpath.normpath(unquote(parts.path))
        if page := self._forms[0].page(f"{self._root}{_as_url(path)}"):
            return page
        # "README.md" names no page if several folders have one.
        is_index = posixpath.splitext(posixpath.basename(path))[0].lower() in _FIRST
        return None if is_index and self._page_names.is_shared(path) else self._page_names.find(path, _as_url(base))

    def _by_name(self, link: str, base: str) -> tuple[str, str] | None:
        """Return the page that a wiki link on the page `base` leads to, and its fragment."""
        name, _, fragment = link[2:].removesuffix("]]").partition("#")
        if not name:
            return (base, fragment) if base else None
        base_url = _as_url(base) if base else ""
        if match := _VAULT.match(name):
            # The name of a vault is that of its folder, if nothing else is configured.
            name = name[match.end() :]
            page = self._page_names.find(f"{match[1]}/{name}", base_url) or self._page_names.find(name, base_url)
        else:
            page = self._page_names.find(name, base_url)
        return None if page is None else (page, fragment)

    def misses(self, link: str, base: str = "") -> bool:
        """Return whether a link without a page should have one: it is relative or below a site, and names no other file."""
        if link.startswith("(("):
            return True
        if link.startswith("[["):
            return not is_other_file(link[2:].partition("#")[0].removesuffix("]]"))
        try:
            parts = urlsplit(link.strip())
            target = _parts(urljoin(_as_url(base), link.strip()))
        except ValueError:
            return False
        if parts.scheme or parts.netloc:
            is_inside = target is not None and any(self._below_sites(target[0]))
        else:
            is_inside = bool(base) and bool(parts.path)
        return is_inside and ending_of(parts.path) in ("", *FILES)

    def _below_sites(self, url: str, from_root: bool = False) -> Iterator[str]:
        """Yield the paths that a URL has below the sites; with `from_root`, a path is one from the root of their hosts."""
        url = url.partition("?")[0]
        for host, folder in self._sites:
            key = host + url.rstrip("/") if from_root and url.startswith("/") else _key(url)
            if (key + "/").startswith(host + folder + "/"):
                path = key[len(host + folder) :] + ("/" if url.endswith("/") else "")
                yield path or "/"
                if (rest := _FORGE.sub("", path)) != path:
                    yield rest or "/"


class _Forms:
    """Pages by URL, by URL without scheme and slash, by folder for an index page, and by what else may differ."""

    def __init__(self, pages: Iterable[tuple[str, str]]) -> None:
        self.exact: dict[str, str] = {}
        self._by_key: dict[str, str] = {}
        self._index: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        for form, address in pages:
            parts = _parts(_as_url(form)) if len(form) <= _LONGEST else None
            if parts is None:
                # No link leads to what is not an address, such as "http://[", or is too long.
                continue
            url, _ = parts
            key = _key(url)
            self.exact.setdefault(url, address)
            self._by_key.setdefault(key, address)
            plain_key = _plain(key)
            if plain_key != (folder := _INDEX.sub("", plain_key) or "/"):
                self._index.setdefault(folder, address)
            self._loose.setdefault(folder, address)

    def page(self, url: str) -> str | None:
        if url.startswith("/"):
            url = url.partition("?")[0]
        key = _key(url)
        plain_key = _INDEX.sub("", _plain(key))
        index = self._index.get(plain_key) if url.endswith("/") else None
        return self.exact.get(url) or index or self._by_key.get(key) or self._loose.get(plain_key)


def check_site(site: str) -> None:
    """Raise InvalidArgumentError if an address of a site is given and is not a URL."""
    if site and _site(site) is None:
        raise InvalidArgumentError(f"site is {shown(site)}; expected an address such as 'https://docs.example.org/guide'.")


def _site(address: str) -> tuple[str, str] | None:
    """Return the host of a site with its scheme, and its folder, in the form of :func:`_key`; None for what is not a URL."""
    parts = _parts(address.strip())
    host = re.match(r"http://[^/]+", _key(parts[0])) if parts else None
    return (host[0], _key(parts[0])[host.end() :].rstrip("/")) if parts and host else None


def _as_url(address: str) -> str:
    """Return a URL unchanged and a path quoted, with a leading slash."""
    if _SCHEME.match(address):
        return _OTHER_SCHEME.sub(r"http://\1--", address)
    return "/" + quote(address.replace("\\", "/").removeprefix("./").lstrip("/"), errors="replace")


def _parts(url: str) -> tuple[str, str] | None:
    """Return a URL without its fragment in a form that can be compared, and the fragment; None for what is not a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # All paths are quoted in the same way; a quoted slash stays quoted.
    path = "/".join(quote(unquote(part), safe="", errors="replace") for part in parts.path.split("/"))
    path = "/" + posixpath.normpath(path).lstrip("/") + ("/" if path.endswith("/") else "") if path else "/"
    path = path.replace("//", "/")
    scheme = f"{parts.scheme.lower()}:" if parts.scheme else ""
    head = f"{scheme}//{parts.netloc.lower()}" if parts.scheme or parts.netloc else ""
    return head + path + (f"?{parts.query}" if parts.query else ""), unquote(parts.fragment)


def _key(url: str) -> str:
    """Return a URL without what names the same page: https for http, a slash at the end."""
    path, mark, query = url.partition("?")
    return (re.sub(r"^(?:https?:)?//", "http://", path).rstrip("/") or "/") + mark + query


def _plain(key: str) -> str:
    path, mark, query = key.partition("?")
    return (_SUFFIX.sub("", path.casefold()) or "/") + mark + query
