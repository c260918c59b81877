"""Retrievers of LangChain and LlamaIndex, and plain callables, as functions from a query to node ids and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graph_retrievers.errors import InvalidArgumentError

ScoredIds = list[tuple[str, float]]


def as_search(retriever: Any) -> Callable[[str], ScoredIds]:
    """Return a retriever of another library as a function from a query to (node id, score), best first.

    It is an object with ``invoke(text)`` that returns documents (LangChain): the node id is the document's ``id``, or ``"id"`` in
    its metadata. Or with ``retrieve(text)`` that returns nodes with scores (LlamaIndex): the node id is ``node_id``. Or a
    callable from a text to node ids, to (id, score) pairs, or to hits. Anything else, and a result without an id, raises
    InvalidArgumentError. Missing scores become 1 / rank; a repeated id counts at its first place.

    >>> as_search(lambda text: ["ada", "engine"])("Who?")
    [('ada', 1.0), ('engine', 0.5)]
    """
    if callable(getattr(retriever, "invoke", None)):
        return lambda text: _scored([_of_document(document) for document in retriever.invoke(text)])
    if callable(getattr(retriever, "retrieve", None)):
        return lambda text: _scored([_of_node(result) for result in retriever.retrieve(text)])
    if callable(retriever):
        return lambda text: _scored([_of_item(item) for item in retriever(text)])
    raise InvalidArgumentError(
        f"{type(retriever).__name__} cannot be evaluated; pass a retriever with invoke(text) or retrieve(text), or a "
        "callable from a text to node ids."
    )


def _scored(items: list[tuple[str, float | None]]) -> ScoredIds:
    first: dict[str, float | None] = {}
    for node, score in items:
        first.setdefault(node, score)
    if any(score is None for score in first.values()):
        return [(node, 1 / rank) for rank, node in enumerate(first, 1)]
    return [(node, float(score)) for node, score in first.items() if score is not None]


def _of_document(document: Any) -> tuple[str, float | None]:
    metadata = getattr(document, "metadata", None) or {}
    score = metadata.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        score = None
    return _checked(getattr(document, "id", None) or metadata.get("id"), document), score


def _of_node(result: Any) -> tuple[str, float | None]:
    node = getattr(result, "node", result)
    node_id = next((node_id for name in ("node_id", "id_", "id") if (node_id := getattr(node, name, None))), None)
    return _checked(node_id, result), getattr(result, "score", None)


def _of_item(item: Any) -> tuple[str, float | None]:
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
            f"A result of type {type(source).__name__} has no node id; set the document's id (or metadata['id']) to the id of its "
            "node, or pass a callable that returns ids."
        )
    return node
