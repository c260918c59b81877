"""The pages and documents from which nodes were cut."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from graph_retrievers.graph.file_endings import FILES, ending_of

# In this order: a loader of web pages may write both an address and the file it was kept in.
ADDRESS_FIELDS = ("url", "source", "path", "file_path")


def page_address(metadata: Mapping[str, Any], fields: Sequence[str] = ADDRESS_FIELDS) -> str:
    """Return the address of the page from which a node was cut: the first of some metadata fields that it has, "" for none.

    A bare file name, as loaders of vaults write it into ``source``, gives way to a field that has the path of the file. So does
    what the front matter of a note states as its ``source`` or ``url`` where LangChain's ``ObsidianLoader`` read it, which also
    writes ``last_accessed``. Without any of the fields, the address is ``file_name`` in ``folder_path``.

    >>> page_address({"source": "Loom.md", "path": "vault/tools/Loom.md"})
    'vault/tools/Loom.md'
    >>> page_address({"file_name": "Loom.md", "folder_path": "vault/tools"})
    'vault/tools/Loom.md'
    """
    values = [text for name in fields if (value := metadata.get(name)) is not None and (text := _text(value))]
    if not values:
        folder, file = metadata.get("folder_path"), metadata.get("file_name")
        usable = isinstance(folder, str) and isinstance(file, str) and fields is ADDRESS_FIELDS
        return f"{folder}/{file}" if usable and folder and file else ""
    path = metadata.get("path")
    if fields is ADDRESS_FIELDS and "last_accessed" in metadata and isinstance(path, str) and path.lower().endswith(".md"):
        return path
    bare = values[0]
    if "/" in bare or "\\" in bare:
        return bare
    return next((value for value in values if value.replace("\\", "/").endswith(f"/{bare}")), bare)


def node_source(node: str, metadata: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return the document from which a node was made, by the node's id, metadata and origin.

    It is the source of a LlamaIndex node (``ref_doc_id``); else the metadata field ``document``, which
    :func:`~graph_retrievers.construction.contextual.chunk_documents` writes; else the page's address, from ``url``, ``source``,
    ``path`` or ``file_path``; else the page in the id, if that is the address of a place on a page; else the node itself.

    >>> node_source("guide/loom.md#cards", {}, {}), node_source("C#", {}, {})
    ('guide/loom.md', 'C#')
    """
    # "1" is the number of this relationship in LlamaIndex.
    relationship = origin.get("relationships", {}).get("1")
    if isinstance(relationship, Mapping) and relationship.get("node_id"):
        return str(relationship["node_id"])
    document = metadata.get("document")
    return document if isinstance(document, str) and document else page_address(metadata) or page_of(node)


def page_of(node: str) -> str:
    """Return the page of an id that is a place on a page, such as ``page.html#place``; the id itself if it is none."""
    page, _, place = node.partition("#")
    return page if place and ending_of(page) in FILES else node


def is_other_file(name: str) -> bool:
    """Return whether a wiki link names a file other than a page, such as a picture.

    >>> is_other_file("loom.png"), is_other_file("Node.js and more"), is_other_file("2024-01-05")
    (True, False, False)
    """
    ending = ending_of(name.strip())
    return re.fullmatch(r"\.[a-z]\w{1,5}", ending) is not None and ending not in FILES


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        # Lists of thousands of levels, numbers of thousands of digits and what has no text are not addresses.
        return ""
