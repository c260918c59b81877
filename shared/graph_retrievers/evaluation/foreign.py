"""Retrievers from elsewhere: LangChain and LlamaIndex ones, and plain callables, seen by what they can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["as_search"]

Scored = list[tuple[str, float]]


def as_search(retriever: Any) -> Callable[[str], Scored]:
    """Return a retriever of another library as a function from a query to (node id, score), best first.

    Parameters
    ----------
    retriever : object
        With ``invoke(text)`` that returns documents (LangChain): the node id is the document's ``id``, or ``"id"``
        in its metadata. Or with ``retrieve(text)`` that returns nodes with scores (LlamaIndex): the node's
        ``node_id``; or hits. Or a callable from a text to node ids, or to (id, score) pairs.

    Returns
    -------
    callable
        Where the retriever gives no scores, 1 / rank stands in, so that no two tie. An id that comes twice (two
        chunks of one document) counts at its first place.

    Raises
    ------
    InvalidArgumentError
        If it is none of these; while searching, if a result carries no id.
    """
    if callable(getattr(retriever, "invoke", None)):
        return lambda text: _scored([(_document_id(d), _document_score(d)) for d in retriever.invoke(text)])
    if callable(getattr(retriever, "retrieve", None)):
        return lambda text: _scored([(_node_id(n), getattr(n, "score", None)) for n in retriever.retrieve(text)])
    if callable(retriever):
        return lambda text: _scored([_pair(item) for item in retriever(text)])
    raise InvalidArgumentError(
        f"{type(retriever).__name__} cannot be evaluated; pass a retriever with invoke(text) or retrieve(text), or a "
        "callable from a text to node ids."
    )


def _scored(items: list[tuple[str, float | None]]) -> Scored:
    first: dict[str, float | None] = {}
    for node, score in items:
        first.setdefault(node, score)
    if any(score is None for score in first.values()):
        return [(node, 1 / rank) for rank, node in enumerate(first, 1)]
    return [(node, float(score)) for node, score in first.items() if score is not None]


def _document_id(document: Any) -> str:
    found = getattr(document, "id", None) or (getattr(document, "metadata", None) or {}).get("id")
    return _checked(found, document)


def _document_score(document: Any) -> float | None:
    score = (getattr(document, "metadata", None) or {}).get("score")
    return float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None


def _node_id(result: Any) -> str:
    node = getattr(result, "node", result)
    return _checked(next((found for name in ("node_id", "id_", "id") if (found := getattr(node, name, None))), None), result)


def _pair(item: Any) -> tuple[str, float | None]:
    if isinstance(item, str):
        return item, None
    if isinstance(item, Mapping) and "id" in item:
        return _checked(item["id"], item), item.get("score")
    if isinstance(item, tuple | list) and len(item) == 2:
        return _checked(item[0], item), float(item[1])
    return _checked(getattr(item, "id", None), item), getattr(item, "score", None)


def _checked(node: Any, source: Any) -> str:
    if not isinstance(node, str) or not node:
        raise InvalidArgumentError(
            f"A result of type {type(source).__name__} carries no node id; set the document's id (or metadata['id']) to the "
            "id of its node, or pass a callable that returns ids."
        )
    return node
