"""Documents of LangChain and LlamaIndex as nodes, recognised by their attributes: neither framework is imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import as_list
from graph_retrievers.construction.headings import heading_title
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.labels import is_random
from graph_retrievers.signals.vectors import check_vectors, unit_vectors

logger = logging.getLogger(__name__)

# The fields of a LlamaIndex node beside id, text, metadata and vector.
_ORIGIN = {
    *("excluded_embed_metadata_keys", "excluded_llm_metadata_keys", "relationships", "text_template", "metadata_template"),
    *("metadata_separator", "mimetype", "start_char_idx", "end_char_idx", "index_id"),
}


def to_nodes(documents: Iterable[Any], title_key: str | None = None, type_key: str = "type", *, strict: bool = False) -> list[Node]:
    """Return documents as nodes, in the same order.

    Raises InvalidArgumentError if an object is not a document, or with `strict` a title or type is not a string or number.

    Parameters
    ----------
    documents : iterable of documents
        LangChain documents (``page_content``, ``metadata``, ``id``), LlamaIndex nodes (``get_content()``, ``metadata``,
        ``node_id``) or :class:`Node` objects, which are returned unchanged. The id of a document without one is its
        position, "0", "1", ..., or "_0", "_1", ... if another document has that id. The relationships, templates
        and excluded metadata keys of a LlamaIndex node become the ``origin`` of its node, and its ``embedding`` stays.
    title_key, type_key : str, default "title" and "type"
        Metadata fields with a node's title and type; "" for none. They also stay in the metadata. By default, the title of a
        document without one consists of the headings that a splitter wrote into its metadata, joined by slashes (``Header 1``,
        ``Header 2``, ... of LangChain, ``header_path`` of LlamaIndex), or else the ``file_name`` of a LlamaIndex node.
    strict : bool, default False
        Whether a title or type that is neither a string nor a number, such as a list, is an error that names all of them. By
        default the document counts as one without, and a warning names the first ten.
    """
    items = as_list("documents", documents, "documents")
    omissions = Omissions("the documents", strict)
    nodes = [_to_node(document, position, title_key, type_key, omissions) for position, document in enumerate(items)]
    omissions.report(logger, "Pass another field in title_key= or type_key=, or '' for none.")
    ids = {node.id for node in nodes}
    return [node if node.id != "" else replace(node, id=_free(str(position), ids)) for position, node in enumerate(nodes)]


def text_nodes(
    texts: Sequence[str],
    ids: Sequence[str] | None,
    titles: Sequence[str] | None,
    metadatas: Sequence[Mapping[str, Any]] | None,
) -> list[Node]:
    """Return plain texts as nodes; see :meth:`graph_retrievers.index.GraphIndex.from_texts`."""
    columns: dict[str, Any] = {"texts": texts, "ids": ids, "titles": titles, "metadatas": metadatas}
    for name, column in columns.items():
        if column is None and name != "texts":
            continue
        # A set has no order.
        if isinstance(column, (str, Mapping)) or not hasattr(column, "__getitem__"):
            raise InvalidArgumentError(f"{name} is a {type(column).__name__}; pass a list with one entry per text.")
        columns[name] = as_list(name, column, "one entry per text")
        if len(columns[name]) != len(columns["texts"]):
            lengths = f"{len(columns[name])} entries for {len(columns['texts'])} texts"
            raise InvalidArgumentError(f"{name} has {lengths}; pass one entry per text.")
    texts, ids, titles, metadatas = columns.values()
    return [
        Node(
            id=str(row) if ids is None else ids[row],
            text=text,
            title="" if titles is None else titles[row],
            metadata={} if metadatas is None else metadatas[row],
        )
        for row, text in enumerate(texts)
    ]


def _free(name: str, names: Collection[str]) -> str:
    while name in names:
        name = f"_{name}"
    return name


def _to_node(document: Any, position: int, title_key: str | None, type_key: str, omissions: Omissions) -> Node:
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
    mapping = getattr(document, "metadata", None) or {}
    if not isinstance(mapping, Mapping):
        raise InvalidArgumentError(f"The metadata of document {position} are a {type(mapping).__name__}; expected a mapping.")
    metadata = dict(mapping)
    return Node(
        id="" if identity is None else str(identity),
        text=text,
        title=_word(metadata, "title" if title_key is None else title_key, position, omissions)
        or _title(document, metadata, title_key),
        type=_word(metadata, type_key, position, omissions),
        metadata=metadata,
        origin=origin_of(document),
        embedding=getattr(document, "embedding", None),
    )


def _title(document: Any, metadata: Mapping[str, Any], title_key: str | None) -> str:
    if title_key is not None:
        return ""
    return node_title(metadata) if hasattr(document, "node_id") else heading_title(metadata)


def node_title(metadata: Mapping[str, Any]) -> str:
    """Return the title of a LlamaIndex node from its metadata: the ``title``, the headings above a section, or the file's name."""
    title, file = (
        str(value) if isinstance(value, (str, int, float)) else "" for value in map(metadata.get, ("title", "file_name"))
    )
    return title.strip() or heading_title(metadata) or ("" if is_random(file) else file)


def is_of_llama_index(node: Node) -> bool:
    """Return whether a node was made from one of LlamaIndex, whose class its origin names."""
    return "class_name" in node.origin


def origin_of(document: Any) -> dict[str, Any]:
    """Return the origin of a LlamaIndex node; {} for other documents."""
    if not hasattr(document, "node_id"):
        return {}
    if not hasattr(document, "model_dump"):
        return {"class_name": "TextNode", "relationships": _related(getattr(document, "relationships", None) or {})}
    if getattr(document, "obj", None) is not None:
        # The object of an IndexNode, which is often a retriever, has no JSON form.
        document = document.model_copy(update={"obj": None})
    try:
        return node_origin(document.model_dump(mode="json", include=_ORIGIN, exclude_defaults=True))
    except ValueError:
        # Something in the metadata of a related document has no JSON form: the relationships are kept without it.
        fields = document.model_dump(mode="json", include=_ORIGIN - {"relationships"}, exclude_defaults=True)
        return node_origin(fields | {"relationships": _related(document.relationships)})


def _related(relationships: Mapping[Any, Any]) -> dict[str, Any]:
    """Return relationships of a LlamaIndex node as their dump has them, with the ids of the other nodes alone."""
    return {
        getattr(key, "value", key): [{"node_id": one.node_id} for one in value]
        if isinstance(value, list)
        else {"node_id": value.node_id}
        for key, value in relationships.items()
    }


def node_origin(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dumped LlamaIndex node that are neither id, text, metadata nor vector, and its ``class_name``."""
    return {name: value for name, value in fields.items() if name in _ORIGIN or name == "class_name"}


def document_vectors(documents: Sequence[Any], embed: Callable[[list[int]], Tensor] | None, *, unit: bool = True) -> Tensor | None:
    """Return one unit vector per document, float32, shape [n, d]: the ``embedding`` of a LlamaIndex node, or a new one.

    LlamaIndex compares by cosine, the engine by dot product, which is the cosine of unit vectors; without `unit`, they keep their
    lengths. `embed` computes vectors for the places of documents without one, and their number is logged. Without `embed`, the
    result is None if a document has none.
    """
    vectors: list[Any] = [getattr(document, "embedding", None) for document in documents]
    places = [place for place, vector in enumerate(vectors) if vector is None]
    if places:
        if embed is None:
            return None
        note = "; the others bring their vectors" if len(places) < len(documents) else ""
        logger.info("Embedding %d of %d documents%s.", len(places), len(documents), note)
        for place, vector in zip(places, embed(places), strict=True):
            vectors[place] = vector
    table = check_vectors([np.asarray(vector) for vector in vectors], len(documents))
    return unit_vectors(table) if unit else table


def _word(metadata: Mapping[str, Any], key: str, position: int, omissions: Omissions) -> str:
    value = metadata.get(key) if key else None
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    omissions.add(f"metadata[{key!r}] of document {position}", f"a {type(value).__name__}, not a string")
    return ""
