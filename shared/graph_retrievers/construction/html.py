"""A small HTML reader: tags and texts in one pass, in linear time for any page.

The parser of the standard library takes quadratic time in the number of tags that are left open (seconds for 15 kB of ``<a``
on Python 3.11), which is a risk for pages from the web.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

__all__ = ["Piece", "read_html"]

# A tag ends at ">" outside quotes; one with "<" before that is text, so that nothing is read twice.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/<>"']*)((?:[^<>"']|"[^"]*"|'[^']*')*+)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""")
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}


class Piece(NamedTuple):
    """A tag or a stretch of text at the position `start` of the page.

    `tag` is its name in lower case, with a leading slash if it closes, and "" for text. `text` is the text with escapes resolved,
    or the attributes of the tag as written.
    """

    start: int
    tag: str
    text: str

    def attribute(self, name: str) -> str:
        """Return the value of an attribute, "" if the tag does not have it."""
        for key, *values in _ATTRIBUTE.findall(self.text):
            if key.lower() == name:
                return unescape("".join(values))
        return ""


def read_html(page: str) -> Iterator[Piece]:
    """Yield the tags and texts of a page in order, without comments, scripts and styles."""
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
