"""From hits of the engine to LangChain documents, and to the text that a language model reads of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate

from graph_retrievers.retrievers.context import to_context as hits_to_context
from graph_retrievers.retrievers.retriever import Hit, HitList, Path

__all__ = ["document_prompt", "to_context", "to_documents", "with_metadata"]

_logger = logging.getLogger(__name__)


def to_documents(hits: HitList) -> list[Document]:
    """Return hits as documents: fresh copies, so that a caller may change them without touching the index.

    Parameters
    ----------
    hits : HitList

    Returns
    -------
    list of Document
        Id, text and metadata of each node, and in the metadata, JSON-plain:

        - ``score``: float, comparable within one result only;
        - ``operator``: name of the operator that found it (``"Backfill"`` for what vector search filled up);
        - ``path``: ``{"nodes", "relations", "forward"}``, how it was reached from a seed;
        - ``title`` and ``type``, where the node has them and the metadata does not say them already;
        - ``kind``, where a hit is no node (a chain);
        - ``notes``: list of str, where the retriever has something to say about the search.

        A document that brings a value of its own under one of these names keeps it as ``original_<name>``. A chain's text
        is the chain, ``a -[relation]-> b``, and its id the ids of its nodes. Notes on an empty result are logged as a
        warning, for want of a document to bear them.
    """
    documents = []
    if hits.notes and not hits:
        _logger.warning("Nothing was found: %s.", "; ".join(hits.notes))
    for hit in hits:
        added: dict[str, Any] = {"score": hit.score, "operator": hit.operator, "path": hit.path.to_dict()}
        if hit.kind != "node":
            added["kind"] = hit.kind
        if hits.notes:
            added["notes"] = list(hits.notes)
        metadata = with_metadata(hit.metadata, added)
        for name, value in (("title", hit.title), ("type", hit.type)):
            if value:
                metadata.setdefault(name, value)
        documents.append(Document(id=hit.id, page_content=hit.text, metadata=metadata))
    return documents


def to_context(documents: Sequence[Document]) -> str:
    """Return documents of a retriever as text for a language model: the chains, then the entities.

    Parameters
    ----------
    documents : sequence of Document
        As the retrievers of this package return them.

    Returns
    -------
    str
        See :func:`graph_retrievers.retrievers.context.to_context`. In a chain: ``retriever | to_context``.
    """
    return hits_to_context([_hit(document) for document in documents])


def _hit(document: Document) -> Hit:
    metadata = document.metadata
    path = metadata.get("path") or {"nodes": [document.id or ""], "relations": [], "forward": []}
    return Hit(
        id=document.id or "",
        text=document.page_content,
        score=0.0,
        operator="",
        path=_path(path),
        title=str(metadata.get("title") or ""),
        type=str(metadata.get("type") or ""),
        kind=metadata.get("kind", "node"),
    )


def _path(plain: Mapping[str, Any]) -> Path:
    return Path(*(tuple(plain[name]) for name in ("nodes", "relations", "forward")))


def with_metadata(metadata: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `metadata` with the entries of `added`; a value that gives way is kept as ``original_<name>``."""
    copied = deepcopy(dict(metadata))
    moved = {f"original_{name}": copied[name] for name in added if name in copied}
    return copied | moved | dict(added)


class _HitPrompt(PromptTemplate):
    """A prompt that writes a hit's path as arrows and its score with four digits."""

    def format(self, **kwargs: Any) -> str:
        path, score = kwargs.get("path"), kwargs.get("score")
        if isinstance(path, Mapping):
            kwargs["path"] = str(_path(path))
        if isinstance(score, float):
            kwargs["score"] = f"{score:.4g}"
        return super().format(**kwargs)


def document_prompt(template: str = "{page_content}\n[score {score}, found by {operator}, path {path}]") -> PromptTemplate:
    """Return a prompt that shows a language model a document with its score and the path it was reached by.

    Parameters
    ----------
    template : str
        May name ``page_content`` and any metadata field that all documents have.

    Returns
    -------
    PromptTemplate
        For ``create_retriever_tool(..., document_prompt=document_prompt())`` and wherever else LangChain takes one.

    Examples
    --------
    >>> prompt = document_prompt("{page_content} ({path})")
    >>> path = {"nodes": ["a", "b"], "relations": ["cites"], "forward": [True]}
    >>> prompt.format(page_content="B.", path=path)
    'B. (a -[cites]-> b)'
    """
    return _HitPrompt.from_template(template)
