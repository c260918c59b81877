"""A small reader of HTML: tags and texts in one pass, in time linear in the page whatever it holds.

The parser of the standard library takes time quadratic in the number of tags that are left open (15 kB of ``<a``
take it seconds on Python 3.11), which is too much to risk on pages from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

__all__ = ["Piece", "read_html"]

# A tag ends at ">" outside quotes; one that meets "<" first is no tag, so that no text is looked at twice.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/<>"']*)((?:[^<>"']|"[^"]*"|'[^']*')*+)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""")
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}


class Piece(NamedTuple):
    """A tag or a stretch of text.

    Attributes
    ----------
    start : int
        Where it stands in the page.
    tag : str
        Name of the tag in lower case, with a slash in front if it closes; "" for text.
    text : str
        The text, or the attributes of the tag; escapes are resolved in texts only.
    """

    start: int
    tag: str
    text: str

    def attribute(self, name: str) -> str:
        """Return the value of an attribute, or "" if the tag has none of the name."""
        for key, *values in _ATTRIBUTE.findall(self.text):
            if key.lower() == name:
                return unescape("".join(values))
        return ""


def read_html(page: str) -> Iterator[Piece]:
    """Yield the tags and texts of a page in order; comments, scripts and styles are left out."""
    place = 0
    while (start := page.find("<", place)) >= 0:
        if start > place:
            yield Piece(place, "", unescape(page[place:start]))
        if page.startswith("<!--", start):
            end = page.find("-->", start + 4)
            place = end + 3 if end >= 0 else len(page)
        elif page.startswith(("<!", "<?"), start):
            end = page.find(">", start)
            place = end + 1 if end >= 0 else len(page)
        elif (tag := _TAG.match(page, start)) is None:
            yield Piece(start, "", "<")
            place = start + 1
        else:
            name = tag[2].lower()
            yield Piece(start, tag[1] + name, tag[3])
            place = tag.end()
            if name in _RAW and not tag[1]:
                closing = _RAW[name].search(page, place)
                place = closing.start() if closing else len(page)
    if place < len(page):
        yield Piece(place, "", unescape(page[place:]))
