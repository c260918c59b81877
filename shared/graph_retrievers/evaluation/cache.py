"""Vectors and latents on disk, so that they are computed only once."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.queries import Queries
from graph_retrievers.signals.embedding import Embedding, as_embedding, check_vectors, embedded_batches
from graph_retrievers.signals.relevance import BiEncoder, RelevanceModel

__all__ = ["LatentStore", "cache_folder", "cached_vectors"]

# Models with other weights, another pooling or another maximum length give other vectors for these texts.
_PROBES = ["probe", " ".join(f"word {number} of a long text." for number in range(200))]


def cache_folder() -> Path:
    """Return the user's cache folder: ``GRAPH_RETRIEVERS_CACHE``, or ``~/.cache/graph-retrievers``."""
    given = os.environ.get("GRAPH_RETRIEVERS_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "graph-retrievers"


def cached_vectors(embedding: Any, contents: list[str], *, folder: Path | None = None, show_progress: bool = False) -> Tensor:
    """Return the vectors of n texts, shape [n, d], float32; the same model embeds no text again that it has embedded before.

    Vectors are kept by text, as they are computed: after an interruption, only what is missing is embedded.

    Parameters
    ----------
    embedding : object
        Embedding model, see :func:`~graph_retrievers.signals.embedding.as_embedding`. It is identified by its name and by its
        vectors of two fixed texts.
    contents : list of str
    folder : Path, optional
        :func:`cache_folder` by default; a file for each model.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If the folder cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> model = lambda texts: [[float(len(text)), 1.0] for text in texts]
    >>> cached_vectors(model, ["two words"], folder=Path(tempfile.mkdtemp()))
    tensor([[9., 1.]])
    """
    model = as_embedding(embedding)
    probe = check_vectors(model.embed_documents(list(_PROBES)), len(_PROBES))
    name = _digest([str(getattr(model, "name", type(model).__name__)), _rounded(probe)])
    path = (folder or cache_folder()) / f"vectors-{name}.sqlite"
    try:
        with closing(_opened(path)) as database:
            return _filled(database, model, contents, probe.shape[1], show_progress)
    except sqlite3.OperationalError as error:
        raise _not_kept(path, error) from error


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file of vectors by the digest of their texts; a damaged one is made again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connected(path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            path.unlink()
            return _connected(path)
    except OSError as error:
        raise _not_kept(path, error) from error


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=60)
    try:
        # A process that is killed loses nothing; after a power cut the file may be damaged, and is made again.
        database.execute("PRAGMA synchronous=OFF")
        database.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
        (sound,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if sound != "ok":
            raise sqlite3.DatabaseError(sound)
    except BaseException:
        database.close()
        raise
    return database


def _not_kept(path: Path, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Vectors cannot be kept in {path} ({error}); set GRAPH_RETRIEVERS_CACHE to a folder that can be written to."
    )


def _filled(database: sqlite3.Connection, model: Embedding, contents: list[str], width: int, show_progress: bool) -> Tensor:
    """Return the vectors of texts; those that are missing are embedded and kept, batch by batch."""
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16] for text in contents]
    texts = dict(zip(keys, contents, strict=True))
    found: dict[bytes, Tensor] = {}
    for key in texts:
        row = database.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
        if row is not None and len(row[0]) == 4 * width:
            found[key] = torch.from_numpy(np.frombuffer(row[0], "<f4").astype(np.float32))
    missing = [key for key in texts if key not in found]
    for rows, vectors in embedded_batches(model, [texts[key] for key in missing], show_progress and bool(missing), len(found)):
        made = {missing[row]: vector for row, vector in zip(rows, check_vectors(vectors, width=width).cpu(), strict=True)}
        with database:
            database.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                [(key, vector.numpy().astype("<f4").tobytes()) for key, vector in made.items()],
            )
        found |= made
    return torch.stack([found[key] for key in keys]) if keys else torch.empty((0, width))


class LatentStore:
    """Latents of (query, node) pairs in a folder: one file for each query, relevance model and corpus.

    Latents of the bi-encoder are not kept: computing them is faster than reading them. Nor are those of a listwise model, which
    depend on what was judged with them.
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
            self._digests[id(model)] = (model, _rounded(model.encode(["Which word?"] * len(_PROBES), _PROBES)))
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
