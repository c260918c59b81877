"""Retrievers chosen by ``graph-retrievers tune``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.systems.grag.retriever import CHECKPOINT_FILES
from graph_retrievers.systems.registry import build_retriever

__all__ = ["drop_reranker", "load_retriever", "write_choice"]

_FILE = "tuned.json"


def load_retriever(index: GraphIndex, folder: str | Path, **options: Any) -> Retriever:
    """Return the retriever that ``graph-retrievers tune`` chose, with its settings and its trained reranker.

    Parameters
    ----------
    index : GraphIndex
        With the same kinds of signals as the index used for tuning.
    folder : str or Path
        Written by ``graph-retrievers tune --out`` (:func:`graph_retrievers.evaluation.tuning.tune`).
    **options
        Keywords of :class:`~graph_retrievers.retrievers.retriever.Retriever`.

    Raises
    ------
    InvalidArgumentError
        If the folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_choice(folder, "bm25", {})
    >>> load_retriever(GraphIndex.from_texts(["a loom", "a card"]), folder).retrieve("Which card?")[0].text
    'a card'
    """
    choice = _read_choice(folder)
    options = {"name": "tuned", **options}
    if choice["reranked"]:
        return build_retriever("g-rag", index, checkpoint=folder, **options)
    return build_retriever(choice["retriever"], index, **(choice["settings"] | options))


def write_choice(
    folder: str | Path,
    retriever: str,
    settings: Mapping[str, Any],
    *,
    reranked: bool = False,
    report: Mapping[str, Any] | None = None,
) -> None:
    """Write the chosen retriever, its settings and the reason, for :func:`load_retriever`.

    `retriever` is a short name, `settings` are its keywords and `report` has figures to keep, both for JSON. `reranked` says
    whether the folder, created if necessary, also contains a checkpoint of G-RAG, which names the retriever and its settings too.
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    choice = {"retriever": retriever, "settings": dict(settings), "reranked": reranked, "report": dict(report or {})}
    written = root / f"{_FILE}.partial"
    written.write_text(json.dumps(choice, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    written.replace(root / _FILE)


def drop_reranker(folder: str | Path) -> None:
    """Delete the checkpoint of G-RAG from a folder."""
    for name in CHECKPOINT_FILES:
        (Path(folder) / name).unlink(missing_ok=True)


def _read_choice(folder: str | Path) -> dict[str, Any]:
    if not isinstance(folder, str | Path):
        raise InvalidArgumentError(f"Expected a folder that `graph-retrievers tune` wrote, got {folder!r:.80}.")
    file = Path(folder) / _FILE
    if not file.is_file():
        # A pipe of this name would be waited for.
        raise InvalidArgumentError(f"{file} does not exist; pass a folder that `graph-retrievers tune` wrote.")
    try:
        choice = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{file} cannot be read: {error}.") from error
    kinds = {"retriever": str, "settings": dict, "reranked": bool}
    if not isinstance(choice, dict) or not all(isinstance(choice.get(name), kind) for name, kind in kinds.items()):
        raise InvalidArgumentError(f"{file} does not say which retriever was chosen; run `graph-retrievers tune` again.")
    return choice
