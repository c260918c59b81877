"""Latents on disk, so that they are computed only once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from graph_retrievers.queries import Queries
from graph_retrievers.signals.relevance import BiEncoder, RelevanceModel
from graph_retrievers.signals.vector_cache import PROBES

__all__ = ["LatentStore"]


class LatentStore:
    """Latents of (query, node) pairs in a folder: one file for each query, relevance model and corpus.

    Latents of the bi-encoder are not stored, because computing them is faster than reading them; neither are those of a listwise
    model, which depend on the texts judged with them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # (Object, digest) of models and graphs by identity; the object is kept, so that its identity is not reused.
        self._digests: dict[int, tuple[Any, str]] = {}

    def load(self, batch: Queries) -> None:
        """Add the stored latents of its queries to a new batch."""
        if not _kept(batch.index.relevance):
            return
        size, keys, latents = len(batch.index), [], []
        for position, path in enumerate(self._paths(batch)):
            held = _load(path)
            if held is not None:
                keys.append(held["nodes"] + position * size)
                latents.append(held["latents"])
        if keys:
            batch.latents.add(torch.cat(keys).tolist(), torch.cat(latents).to(batch.index.device))
            batch.latents.encoded = 0

    def save(self, batch: Queries) -> None:
        """Write the latents of a batch to disk if it has encoded any since they were loaded."""
        held, size = batch.latents.tensors(), len(batch.index)
        # Texts with their paths are counted, and not kept.
        if not _kept(batch.index.relevance) or not batch.latents.encoded or not held:
            return
        owner = held["keys"] // size
        for position, path in enumerate(self._paths(batch)):
            own = owner == position
            _save({"nodes": held["keys"][own] % size, "latents": held["latents"][own]}, path)
        batch.latents.encoded = 0

    def _paths(self, batch: Queries) -> list[Path]:
        model, graph = batch.index.relevance, batch.index.graph
        if id(model) not in self._digests:
            self._digests[id(model)] = (model, _rounded(model.encode(["Which word?"] * len(PROBES), PROBES)))
        if id(graph) not in self._digests:
            self._digests[id(graph)] = (graph, _digest([*graph.ids, *graph.contents()]))
        both = [self._digests[id(part)][1] for part in (model, graph)]
        return [self.folder / f"latents-{_digest([*both, text])}.safetensors" for text in batch.texts]


def _kept(model: RelevanceModel) -> bool:
    return not (isinstance(model, BiEncoder) or model.listwise)


def _rounded(probe: Tensor) -> str:
    # Two decimals: the last bits of a vector depend on the number of threads and on the device.
    return str((probe.float().cpu() * 100).round().int().tolist())


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def _load(path: Path) -> dict[str, Tensor] | None:
    """Return the tensors of a file; None if it is missing or damaged, and has to be written again."""
    try:
        return load_file(path)
    except (OSError, SafetensorError):
        return None


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors to a temporary file and rename it, so that a reader never sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        save_file({key: value.cpu().contiguous() for key, value in tensors.items()}, Path(folder) / path.name)
        os.replace(Path(folder) / path.name, path)
