"""What may be wrong where nearly all links lead nowhere."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import islice
from urllib.parse import unquote

from graph_retrievers.construction.page_names import folded
from graph_retrievers.errors import shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.file_endings import FILES, ending_of

# Advice is given from this number of dead links on, if there are this many for each link that leads to a page; and how many of them
# are examined at most.
_FEW, _SHARE, _SEEN = 10, 9, 10_000


def advice_on(dead: Sequence[str], alive: int, pages: Sequence[str], nodes: Sequence[Node]) -> str:
    """Return the most likely reason why nearly all links lead nowhere, and what to do; "" if enough of them lead to a page.

    `dead` are links that should lead to a page, `alive` is how many do, `pages` are the addresses of the pages.

    >>> advice_on([f"notes/{n}.md" for n in range(10)], 0, ["3.md"], [])[:93]
    'Nearly all links lead nowhere (10 of 10). The addresses of the pages are names of files, such'
    >>> advice_on(["a.md"] * 9, 0, ["3.md"], []), advice_on(["a.md"] * 10, 2, ["3.md"], [])
    ('', '')
    """
    if len(dead) < _FEW or len(dead) < _SHARE * alive:
        return ""
    return f"Nearly all links lead nowhere ({len(dead)} of {len(dead) + alive}). {_reason(dead[:_SEEN], pages, nodes)}"


def _reason(dead: Sequence[str], pages: Sequence[str], nodes: Sequence[Node]) -> str:
    half = len(dead) / 2
    names = [_name(link) for link in dead]
    files = {folded(posixpath.splitext(posixpath.basename(page.replace("\\", "/")))[0]) for page in pages}
    titles = {folded(node.title) for node in nodes if node.title} - files
    example = shown(pages[0], 60)
    if sum(folded(posixpath.basename(name)) in titles for name in names) > half:
        return (
            "They name titles of pages, whose addresses are others, such as "
            f"{example}; name the field with the titles: Links(url_field='title')."
        )
    if all("/" not in page.replace("\\", "/") for page in pages) and sum("/" in name for name in names) > half:
        return (
            f"The addresses of the pages are names of files, such as {example}, and the links have folders; keep the path of each "
            "file from the root of the folder in the metadata field 'path' or 'source'."
        )
    if not any(ending_of(page.partition("#")[0]) in FILES for page in islice(pages, _SEEN)):
        return (
            f"The addresses of the pages, such as {example}, are not paths of files, which the links name; put the path or the "
            "URL of each page into a metadata field, and name it: Links(url_field=...)."
        )
    return (
        f"The pages that they name, such as {shown(dead[0], 60)}, are not in the corpus, whose addresses are such as {example}; "
        "read the whole folder from its root, or, if the pages were moved, keep their old paths in the metadata field 'path'."
    )


def _name(link: str) -> str:
    """Return the name of the page in a link, without ending and fragment."""
    name = unquote(link.removeprefix("[[").removesuffix("]]").partition("#")[0])
    return posixpath.splitext(name)[0] if ending_of(name) in FILES else name
