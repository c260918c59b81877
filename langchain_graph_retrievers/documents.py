"""Convert hits of the engine to LangChain documents, and documents to text for a language model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate

from graph_retrievers.construction.headings import heading_title
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.plain import copied
from graph_retrievers.hits import Hit, Hits, NodePath
from graph_retrievers.hits.hit import plain_context, plain_provenance

__all__ = ["document_prompt", "to_context", "to_documents"]

_logger = logging.getLogger(__name__)


def to_documents(hits: Hits, *, provenance: bool = False) -> list[Document]:
    """Return hits as documents. They are new copies: changing them does not change the index.

    By default a document is the same for every query that finds it, so that the results of several queries can be merged.

    Parameters
    ----------
    hits : Hits
    provenance : bool, default False
        Whether the metadata show how the document was found.

    Returns
    -------
    list of Document
        Id, text and metadata of each hit. ``title`` and ``type`` of a node are added if the metadata have no such entry, except a
        title made from their headings. For a chain or fact, the text is ``a -[relation]-> b`` or the text of the edge, the id is
        made from the ids of its nodes, and the metadata are those of the edge with ``kind``, "chain" or "fact", and ``path``.

        `provenance` adds to the metadata, as values for JSON, ``score`` (comparable within one result only), what
        :func:`graph_retrievers.hits.hit.plain_provenance` lists (``operator``, ``path``, ``similarity``, ``notes``, ...), and
        ``node_title`` and ``node_type``, if the metadata have a different title or type than the node. If the document already has
        a value under one of these names, it is kept as ``original_<name>``. Notes that no document can carry are logged, at level
        INFO, or as a warning if nothing was found.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a punched card"], titles=["Loom", "Card"])
    >>> hits = Retriever(index, BM25()).retrieve("Which loom uses a card?", 2)
    >>> to_documents(hits)[0]
    Document(id='0', metadata={'title': 'Loom'}, page_content='a loom')
    >>> to_documents(hits, provenance=True)[0].metadata["operator"]
    'BM25Search'
    """
    if hits.notes and not hits:
        _logger.warning("Nothing was found: %s.", "; ".join(hits.notes))
    elif hits.notes and not provenance:
        _logger.info("Notes on the search: %s.", "; ".join(hits.notes))
    documents = []
    for hit in hits:
        fields = _provenance(hit, hits.notes) if provenance else _content_fields(hit)
        documents.append(Document(id=hit.id, page_content=hit.text, metadata=with_metadata(hit.metadata, fields)))
    return documents


def _content_fields(hit: Hit) -> dict[str, Any]:
    """Return what a document has besides the metadata of its node or edge, independent of the query."""
    if hit.kind != "node":
        return {"kind": hit.kind, "path": hit.path.to_dict()}
    fields = {} if not hit.type or "type" in hit.metadata else {"type": hit.type}
    # The headings that a splitter wrote are already in the metadata.
    if hit.title and "title" not in hit.metadata and hit.title != heading_title(hit.metadata):
        return {"title": hit.title, **fields}
    return fields


def _provenance(hit: Hit, notes: Sequence[str]) -> dict[str, Any]:
    fields = {"score": hit.score, **plain_provenance(hit, notes)}
    if hit.metadata.get("kind") in ("chain", "fact"):
        fields["kind"] = hit.kind
    if hit.kind == "node":
        for name, value in (("title", hit.title), ("type", hit.type)):
            if _word(hit.metadata, name) != value:
                fields[f"node_{name}" if {name, f"node_{name}"} & hit.metadata.keys() else name] = value
    return fields


def _word(metadata: Mapping[str, Any], name: str) -> str:
    """Return the title or type of a node from the metadata of its document; without a title, the headings of a splitter."""
    value = metadata.get(f"node_{name}", metadata.get(name))
    return ("" if value is None else str(value)) or (heading_title(metadata) if name == "title" else "")


def to_context(
    documents: Sequence[Document],
    question: str = "",
    language_model: Any = None,
    *,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> str:
    """Return retrieved documents as text for a language model: paths, facts and texts.

    Parameters
    ----------
    documents : sequence of Document
        Returned by the retrievers of this package with ``provenance=True``; other documents contribute only their texts.
    question, language_model, max_tokens, count_tokens : optional
        As for :meth:`graph_retrievers.hits.Hits.to_context`, which writes the text. In a chain: ``retriever | to_context``.

    Examples
    --------
    >>> path = {"nodes": ["ada", "engine"], "relations": ["ran on"], "forward": [True]}
    >>> print(to_context([Document(id="engine", page_content="Of brass.", metadata={"path": path})]))
    Paths:
    ada -[ran on]-> engine
    <BLANKLINE>
    Texts:
    - engine: Of brass.
    """
    return Hits(_hit(document) for document in documents).to_context(
        question, language_model, max_tokens=max_tokens, count_tokens=count_tokens
    )


def _hit(document: Document) -> Hit:
    metadata, name = document.metadata, document.id or ""
    path, kind = NodePath.from_dict(metadata.get("path")), metadata.get("kind")
    return Hit(
        id=name,
        text=document.page_content,
        score=0.0,
        operator="",
        path=path or NodePath((name,)),
        title=_word(metadata, "title"),
        type=_word(metadata, "type"),
        # Documents of other retrievers may use the same words, but have no such path.
        kind=kind if path is not None and kind in ("chain", "fact") else "node",
        context=plain_context(metadata.get("context")),
    )


def with_metadata(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `metadata` with the entries of `fields`; a value that is replaced is kept as ``original_<name>``."""
    values: dict[str, Any] = copied(dict(metadata))
    originals = {f"original_{name}": values[name] for name in fields if name in values} if fields else {}
    return values | originals | dict(fields)


def with_relevance(document: Document, score: float) -> Document:
    """Return a copy of a document with ``relevance_score`` in its metadata."""
    return document.model_copy(update={"metadata": with_metadata(document.metadata, {"relevance_score": score})})


def as_node(document: Document) -> Node:
    """Return a document as a node of the engine, with a title from its metadata or headings; a document without an id gets one."""
    value = document.metadata.get("title")
    title = (value if isinstance(value, str) else "") or heading_title(document.metadata)
    return Node(document.id or str(uuid4()), document.page_content, title, metadata=document.metadata)


class _HitPrompt(PromptTemplate):
    """A prompt that writes a hit's path by titles, with arrows, and its score with four digits."""

    def format(self, **kwargs: Any) -> str:
        path, score = kwargs.get("path"), kwargs.get("score")
        if isinstance(path, Mapping):
            node_path = NodePath.from_dict(path)
            kwargs["path"] = node_path.text if node_path else str(path)
        if isinstance(score, float):
            kwargs["score"] = f"{score:.4g}"
        return super().format(**kwargs)


def document_prompt(template: str = "{page_content}\n[score {score}, found by {operator}, path {path}]") -> PromptTemplate:
    """Return a prompt that shows a language model a document, its score and the path by which it was reached.

    It is for ``create_retriever_tool(..., document_prompt=document_prompt())`` and other places where LangChain accepts one.
    `template` may use ``page_content`` and any metadata field that all documents have; those of the default require
    ``provenance=True``.

    Examples
    --------
    >>> prompt = document_prompt("{page_content} ({path})")
    >>> path = {"nodes": ["a", "b"], "relations": ["cites"], "forward": [True], "titles": ["A survey", ""]}
    >>> prompt.format(page_content="B.", path=path)
    'B. (A survey -[cites]-> b)'
    """
    return _HitPrompt.from_template(template)
