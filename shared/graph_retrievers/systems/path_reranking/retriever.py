"""A first search, then a cross-encoder that reads each passage with the passage from which it was reached."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from graph_retrievers.arguments import as_path, positive, seed_number
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.index.folders import digest
from graph_retrievers.learning.checkpoint import checked_settings, checkpoint_folder, read_settings
from graph_retrievers.learning.state import clear_state
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.systems.first_stage import first_stage, reranked, untrained_first
from graph_retrievers.systems.path_reranking.path_rerank import PathRerank
from graph_retrievers.systems.path_reranking.training import fit_path_rerank
from graph_retrievers.systems.splits import labelled_queries

__all__ = ["PathReranking", "fit_path_reranking"]

_PART = "path-reranking"
_FILE, _MODEL, _UNDER_WAY = f"{_PART}.json", "cross-encoder", "under-way"
_DEFAULTS: dict[str, Any] = {"first": "walk-fusion", "first_settings": {}, "weight": 0.5, "depth": 30}
_SETTINGS: dict[str, tuple[type, ...]] = {
    "first": (object,),
    "first_settings": (dict,),
    "weight": (int, float),
    "depth": (int,),
    "max_length": (int,),
}


class PathReranking(Retriever):
    r"""A first search, then a relevance model that reads each node with the node from which it was reached.

    .. math:: O_{vgs} \to O_{gm}

    See :class:`~graph_retrievers.operators.PathRerank` for the scores. ``graph-retrievers fit path-reranking`` trains a
    cross-encoder to read paths, and chooses its weight, on questions with known answers.

    Parameters
    ----------
    index : GraphIndex
        Needs a relevance model, unless there is a checkpoint.
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit path-reranking``. Its cross-encoder replaces the relevance model of the index.
    first : str or Operator, optional
        First search: a name from :func:`~graph_retrievers.systems.registry.retriever_names`, or an operator. By default that of the
        checkpoint's training, ``"walk-fusion"`` without a checkpoint.
    weight : float, optional
        Weight of the model, in [0, 1]; by default that of the checkpoint, 0.5 without one.
    depth : int, optional
        Nodes to rerank; by default the number that the checkpoint was trained with, 30 without one.
    **options
        Keywords of :class:`Retriever`.

    Raises
    ------
    InvalidArgumentError
        If the checkpoint cannot be read, or was trained with a first operator that is not given.

    References
    ----------
    A composition of this package.

    Examples
    --------
    >>> index = GraphIndex.from_texts(
    ...     ["Ada knew Babbage.", "He built engines.", "Mills."], edges=[("0", "1")], vectors=[[1, 0], [0, 1], [0.6, 0.8]],
    ...     relevance=lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs],
    ... )
    >>> retriever = PathReranking(index, weight=1.0)
    >>> print(retriever.retrieve("Which engines did Ada's friend build?", k=1, vector=[1, 0])[0].text)
    He built engines.
    """

    def __init__(
        self,
        index: GraphIndex,
        *,
        checkpoint: str | Path | None = None,
        first: str | Operator | None = None,
        weight: float | None = None,
        depth: int | None = None,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        model, settings = (None, _DEFAULTS) if checkpoint is None else _loaded(checkpoint, index)
        if first is None and settings["first"] is None:
            raise InvalidArgumentError(f"{checkpoint} was trained behind an operator without a name; pass it as first=.")
        reranker = PathRerank(
            settings["weight"] if weight is None else weight, depth=settings["depth"] if depth is None else depth, model=model
        )
        first = settings["first"] if first is None else first
        # Whoever names the search of the checkpoint means that one.
        named = settings["first_settings"] if isinstance(first, str) and first == settings["first"] else {}
        super().__init__(index, partial(reranked, first=first, settings=named, reranker=reranker), **options)
        self._untrained = untrained_first(index, first, named)


def _loaded(checkpoint: str | Path, index: GraphIndex) -> tuple[CrossEncoder, dict[str, Any]]:
    root = as_path("checkpoint", checkpoint)
    file = root / _FILE
    try:
        config = read_settings(file)
        settings = checked_settings(config, _SETTINGS, "path reranking", file)
        if _digests(root / _MODEL) != config.get("files"):
            raise InvalidArgumentError(f"{file} does not belong to {root / _MODEL}: a file was changed, or writing them stopped")
        if not isinstance(settings["first"], str | None) or settings["first"] == _PART:
            raise InvalidArgumentError(f"{file} does not say which search comes first")
        model = CrossEncoder(root / _MODEL, max_length=positive("max_length", settings["max_length"]), device=index.device)
    except (OSError, InvalidArgumentError) as error:
        raise InvalidArgumentError(
            f"{root} cannot be read as a checkpoint: {error}; expected a folder that `graph-retrievers fit path-reranking` wrote."
        ) from error
    return model, settings


def _digests(folder: Path) -> dict[str, str]:
    # Of a pipe, reading would not end.
    return {path.name: digest(path) if path.is_file() else "" for path in sorted(folder.iterdir())}


def fit_path_reranking(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    first: str | Operator = _DEFAULTS["first"],
    first_settings: Mapping[str, Any] | None = None,
    depth: int = _DEFAULTS["depth"],
    training: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train an index's cross-encoder to read paths, and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.retriever.fit_lesegr`. The index must have a cross-encoder (else
        MissingSignalError), which is not changed.
    first, depth
        See :class:`PathReranking`.
    first_settings : mapping, optional
        Keywords of the first search if it is given by name; the checkpoint keeps them.
    training : mapping, optional
        Keywords of :func:`~graph_retrievers.systems.path_reranking.training.fit_path_rerank`.
    """
    depth, seed = positive("depth", depth), seed_number(seed)
    folder, settings = checkpoint_folder(folder), dict(first_settings or {})
    if first == _PART:
        raise InvalidArgumentError(f"{_PART} cannot be its own first search; choose another one.")
    if isinstance(first, Operator) and settings:
        raise InvalidArgumentError("first_settings= are for a search that is named; give the operator its own.")
    _check_places(folder, settings)
    train, dev = labelled_queries(dataset, index, "The path reranker")
    options: dict[str, Any] = {"resume": folder / _UNDER_WAY, **(training or {})}
    candidates = first_stage(index, first, settings, depth)
    model, weight, history = fit_path_rerank(
        index, train, dev, candidates, depth=depth, seed=seed, show_progress=show_progress, **options
    )
    told = {
        "weight": weight,
        "depth": depth,
        "first": first if isinstance(first, str) else None,
        "first_settings": settings,
        "max_length": model.max_length,
        "seed": seed,
        "history": history.to_dict(),
    }
    _write(folder, model, told)
    if options["resume"] is not None:
        clear_state(options["resume"])
    return {**history.summary(), "weight": weight}


def _check_places(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError if what will be written after the training cannot be."""
    try:
        json.dumps(settings, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"first_settings cannot be written as JSON: {error}") from error
    kinds = {_MODEL: Path.is_dir, f"{_MODEL}.partial": Path.is_dir, _FILE: Path.is_file, f"{_FILE}.partial": Path.is_file}
    for name, is_right in kinds.items():
        place = folder / name
        if place.is_symlink() or (place.exists() and not is_right(place)):
            raise InvalidArgumentError(f"{place} is in the way of the checkpoint; remove it, or choose another folder.")
    if (folder / _MODEL).exists() and not (folder / _FILE).exists() and not (folder / _UNDER_WAY).exists():
        raise InvalidArgumentError(f"{folder / _MODEL} is not of a checkpoint and would be replaced; choose another folder.")


def _write(folder: Path, model: CrossEncoder, told: Mapping[str, Any]) -> None:
    new, place = folder / f"{_MODEL}.partial", folder / _MODEL
    shutil.rmtree(new, ignore_errors=True)
    model.save(new)
    settings = {**told, "files": _digests(new)}
    (folder / f"{_FILE}.partial").write_text(json.dumps(settings, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    # Readers find files that belong together, or see by the digest that they do not.
    shutil.rmtree(place, ignore_errors=True)
    os.replace(new, place)
    os.replace(folder / f"{_FILE}.partial", folder / _FILE)
