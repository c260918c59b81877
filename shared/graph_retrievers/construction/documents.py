"""Documents of LangChain and LlamaIndex as nodes, recognised by their attributes: neither framework is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node

__all__ = ["to_nodes"]


def to_nodes(documents: Iterable[Any], title_key: str = "title", type_key: str = "type") -> list[Node]:
    """Return documents as nodes, in the same order.

    Raises InvalidArgumentError if an object is not a document, or a title or type is not a string or number.

    Parameters
    ----------
    documents : iterable of documents
        LangChain documents (``page_content``, ``metadata``, ``id``), LlamaIndex nodes (``get_content()``, ``metadata``,
        ``node_id``) or :class:`Node` objects, which are returned as they are. The id of a document without one is its
        position, "0", "1", ..., or "_0", "_1", ... where another document has that id.
    title_key, type_key : str, default "title" and "type"
        Metadata fields that hold a node's title and type; "" for none. They stay in the metadata too.

    Examples
    --------
    >>> from langchain_core.documents import Document
    >>> to_nodes([Document("Looms.", metadata={"title": "Lyon"})])
    [Node(id='0', text='Looms.', title='Lyon', type='', metadata={'title': 'Lyon'})]
    """
    if isinstance(documents, (str, Mapping)) or not isinstance(documents, Iterable):
        raise InvalidArgumentError(f"documents is a {type(documents).__name__}; expected a list of documents.")
    nodes = [_to_node(document, position, title_key, type_key) for position, document in enumerate(documents)]
    taken = {node.id for node in nodes}
    return [node if node.id != "" else replace(node, id=_free(str(position), taken)) for position, node in enumerate(nodes)]


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def _to_node(document: Any, position: int, title_key: str, type_key: str) -> Node:
    """Return a document as a node, with an empty id if it has none."""
    if isinstance(document, Node):
        return document
    if hasattr(document, "page_content"):
        text, identity = document.page_content, getattr(document, "id", None)
    elif hasattr(document, "get_content") and hasattr(document, "node_id"):
        text, identity = document.get_content(), document.node_id
    else:
        hint = " GraphIndex.from_texts takes plain strings." if isinstance(document, str) else ""
        raise InvalidArgumentError(
            f"Document {position} is a {type(document).__name__}; expected a Node, an object with page_content and metadata, "
            f"or one with get_content, node_id and metadata.{hint}"
        )
    metadata = dict(getattr(document, "metadata", None) or {})
    return Node(
        id="" if identity is None else str(identity),
        text=text,
        title=_word(metadata, title_key, position, "title_key"),
        type=_word(metadata, type_key, position, "type_key"),
        metadata=metadata,
    )


def _word(metadata: Mapping[str, Any], key: str, position: int, argument: str) -> str:
    value = metadata.get(key) if key else None
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidArgumentError(
        f"Document {position} holds a {type(value).__name__} in metadata[{key!r}]; expected a string. Pass another field in "
        f"{argument}, or '' for none."
    )
