"""The files of the page that shows searches."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent

FILES = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "cytoscape.min.js": "text/javascript; charset=utf-8",
}
"""The files of the page, and their types."""


def page_file(name: str) -> str:
    """Return the content of one of :data:`FILES`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def filled_page(data: Any) -> str:
    """Return the page as one file, with the data of a search, values for JSON; it loads nothing.

    Texts in the data cannot become part of its code: it runs only its own scripts (Content-Security-Policy by hashes).
    """
    styles, scripts = [page_file("page.css")], [page_file("cytoscape.min.js"), page_file("page.js")]
    contents = {"script-src": scripts, "style-src": styles}
    sources = "; ".join(f"{kind} {' '.join(map(_hash, parts))}" for kind, parts in contents.items())
    policy = f"default-src 'none'; {sources}; img-src data: blob:; base-uri 'none'; form-action 'none'"
    page = page_file("page.html")
    for old, new in [
        ('<meta charset="utf-8">', f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        ('<link id="__________cytoscape_stylesheet" rel="stylesheet" href="page.css">', _element("style", styles[0])),
        ('<script src="cytoscape.min.js"></script>', _element("script", scripts[0])),
        ('<script src="page.js"></script>', _element("script", scripts[1])),
        (
            '<script type="application/json" id="data"></script>',
            f'<script type="application/json" id="data">{_plain(data)}</script>',
        ),
    ]:
        before, match, behind = page.partition(old)
        assert match, f"page.html has no {old}"
        page = before + new + behind
    return page


def _element(name: str, content: str) -> str:
    more = ' id="__________cytoscape_stylesheet"' if name == "style" else ""
    return f"<{name}{more}>{content}</{name}>"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _plain(data: Any) -> str:
    """Return JSON that can stand in a page: ASCII, without a character that begins a tag, a comment or an entity."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
