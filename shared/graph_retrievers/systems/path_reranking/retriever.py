"""A first search, then a cross-encoder that reads each passage with the passage from which it was reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from graph_retrievers.arguments import as_path, positive
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.folders import digest
from graph_retrievers.learning.checkpoint import checked_settings, read_settings
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.systems.first_stage import CompositeSystem, as_first, first_stage, read_first
from graph_retrievers.systems.path_reranking.path_rerank import PathRerank
from graph_retrievers.systems.system import System

__all__ = ["PathReranking"]

_PART = "path-reranking"
FILE, MODEL = f"{_PART}.json", "cross-encoder"
"""What a checkpoint holds: the settings, and the folder of the model."""

DEFAULTS: dict[str, Any] = {"first": "walk-fusion", "weight": 0.5, "depth": 30}
"""The settings without a checkpoint."""

_SETTINGS: dict[str, tuple[type, ...]] = {
    "first": (object,),
    "weight": (int, float),
    "depth": (int,),
    "max_length": (int,),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PathReranking(CompositeSystem):
    r"""A first search, then a relevance model that reads each node with the node from which it was reached.

    .. math:: O_{vgs} \to O_{gm}

    See :class:`~graph_retrievers.operators.PathRerank` for the scores. ``graph-retrievers fit path-reranking`` trains a
    cross-encoder to read paths, and chooses its weight, on questions with known answers. Without a checkpoint, the index needs a
    relevance model.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit path-reranking``. Its cross-encoder replaces the relevance model of the index.
    first : System, str or Operator, optional
        First search: a system, its text such as ``"ppr(damping=0.7)"`` (see
        :func:`~graph_retrievers.systems.system.read_system`), or an operator. By default that of the checkpoint's training,
        WalkFusion without a checkpoint.
    weight : float, optional
        Weight of the model, in [0, 1]; by default that of the checkpoint, 0.5 without one.
    depth : int, optional
        Nodes to rerank; by default the number that the checkpoint was trained with, 30 without one.

    Raises
    ------
    InvalidArgumentError
        If the checkpoint cannot be read, or was trained with a first search that it cannot name and that is not given.

    References
    ----------
    A composition of this package.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(
    ...     ["Ada knew Babbage.", "He built engines.", "Mills."], edges=[("0", "1")], vectors=[[1, 0], [0, 1], [0.6, 0.8]],
    ...     relevance=lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs],
    ... )
    >>> retriever = Retriever(index, PathReranking(weight=1.0))
    >>> print(retriever.retrieve("Which engines did Ada's friend build?", k=1, vector=[1, 0])[0].text)
    He built engines.
    """

    name = _PART

    checkpoint: str | Path | None = None
    first: System | str | Operator | None = None
    weight: float | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        """Read the first search: an unknown one is refused here, and a text equals its system."""
        if self.first is not None:
            object.__setattr__(self, "first", as_first(self.first))

    def compose(self, index: Corpus) -> Operator:
        """Return the first search and the reranker."""
        settings = self._settings
        model, first = self._model(index.device), self._first
        weight = settings["weight"] if self.weight is None else self.weight
        reranker = PathRerank(weight, depth=settings["depth"] if self.depth is None else self.depth, model=model)
        return Pipeline(first_stage(index, first, reranker.depth), reranker)

    @property
    def inner(self) -> tuple[System | Operator, ...]:
        """The first search."""
        return (self._first,)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The settings of the checkpoint, or the defaults."""
        return DEFAULTS if self.checkpoint is None else _read_checkpoint(as_path("checkpoint", self.checkpoint))

    @cached_property
    def _first(self) -> System | Operator:
        return read_first(self._settings["first"], self.checkpoint) if self.first is None else as_first(self.first)

    def _model(self, device: torch.device) -> CrossEncoder | None:
        """Return the cross-encoder of the checkpoint on a device; None without a checkpoint."""
        if self.checkpoint is None:
            return None
        root = as_path("checkpoint", self.checkpoint)
        with _reading(root):
            length = positive("max_length", self._settings["max_length"])
            return self._parts_cache.get(device, lambda: CrossEncoder(root / MODEL, max_length=length, device=device))


def _read_checkpoint(root: Path) -> dict[str, Any]:
    """Return the settings of a checkpoint, whose files are checked."""
    file = root / FILE
    with _reading(root):
        config = read_settings(file)
        settings = checked_settings(config, _SETTINGS, "path reranking", file)
        if digests(root / MODEL) != config.get("files"):
            raise InvalidArgumentError(f"{file} does not belong to {root / MODEL}: a file was changed, or writing them stopped")
        first = settings["first"]
        if not isinstance(first, str | None) or (first or "").partition("(")[0].strip() == _PART:
            raise InvalidArgumentError(f"{file} does not say which search comes first")
    return settings


@contextmanager
def _reading(root: Path) -> Iterator[None]:
    """Say of errors that a folder cannot be read as a checkpoint."""
    try:
        yield
    except (OSError, InvalidArgumentError) as error:
        raise InvalidArgumentError(
            f"{root} cannot be read as a checkpoint: {error}; expected a folder that `graph-retrievers fit path-reranking` wrote."
        ) from error


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in the folder of a model, by its name."""
    # Reading a pipe would not end.
    return {path.name: digest(path) if path.is_file() else "" for path in sorted(folder.iterdir())}
