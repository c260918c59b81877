"""Vectors of texts on disk, so that no text is embedded twice by one model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.embedding import Embedding, as_embedding, check_vectors, embedded_batches

__all__ = ["PROBES", "VectorCache", "cache_folder", "cached_vectors"]

logger = logging.getLogger(__name__)

# Models with other weights, another pooling or another maximum length give other vectors for these texts.
PROBES = ["probe", " ".join(f"word {number} of a long text." for number in range(200))]
# The last bits of a vector depend on the number of threads and on the device: the greatest difference, as a part of the length.
_ALIKE = 0.02
_CHECK = 8


def cache_folder() -> Path:
    """Return the user's cache folder: ``GRAPH_RETRIEVERS_CACHE``, or ``~/.cache/graph-retrievers``."""
    given = os.environ.get("GRAPH_RETRIEVERS_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "graph-retrievers"


def cached_vectors(embedding: Any, contents: list[str], *, folder: Path | None = None, show_progress: bool = False) -> Tensor:
    """Return the vectors of n texts, shape [n, d], float32, each embedded once by a model: see :class:`VectorCache`."""
    return VectorCache(embedding, folder).vectors(contents, show_progress)


class VectorCache:
    """The vectors of texts by one embedding model, in their own SQLite file.

    Vectors are stored by the digest of the text as they are computed: after an interruption, only missing vectors are embedded.
    Any number of processes may use a folder. Each vector has a checksum; a damaged vector or an unreadable file is computed
    again. Texts themselves are not stored. The folder may be deleted at any time.

    Parameters
    ----------
    embedding : object
        Embedding model, see :func:`~graph_retrievers.signals.embedding.as_embedding`. It is identified by its name, by its
        `max_length`, `pooling` and `precision`, if it has them, and by its vectors of two fixed texts, which are embedded first.
    folder : Path, optional
        :func:`cache_folder` by default, with one file per model. InvalidArgumentError if it is not writable.
    limit : int, default 4 GiB
        Maximum bytes of vectors in a file; the oldest are dropped.

    Examples
    --------
    >>> import tempfile
    >>> asked = []
    >>> model = lambda texts: asked.extend(texts) or [[float(len(text)), 1.0] for text in texts]
    >>> cache = VectorCache(model, Path(tempfile.mkdtemp()))
    >>> cache.vectors(["loom", "card"]).tolist(), cache.vectors(["loom", "a card"]).tolist(), cache.found, asked[2:]
    ([[4.0, 1.0], [4.0, 1.0]], [[4.0, 1.0], [6.0, 1.0]], 1, ['loom', 'card', 'a card'])
    """

    def __init__(self, embedding: Any, folder: Path | None = None, limit: int = 4 << 30) -> None:
        self._model: Embedding = as_embedding(embedding)
        probe = check_vectors(self._model.embed_documents(list(PROBES)), len(PROBES)).cpu()
        self._width, self._limit, self.found = probe.shape[1], limit, 0
        settings = [str(getattr(self._model, name, "")) for name in ("max_length", "pooling", "precision")]
        name = _digest(json.dumps([str(getattr(self._model, "name", type(self._model).__name__)), self._width, *settings])).hex()
        root = folder or cache_folder()
        # A model of the same name with other weights has the next number.
        for number in count():
            self._path = root / f"vectors-{name}-{number}.sqlite"
            if self._is_of(probe):
                break

    def vectors(self, texts: Sequence[str], show_progress: bool = False) -> Tensor:
        """Return the vectors of n texts: Tensor, shape [n, d], float32; missing ones are embedded and stored in batches."""
        keys = [_digest(text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        rows = {key: row for row, key in enumerate(by_key)}
        made = torch.empty((len(by_key), self._width))
        held = self._held(by_key)
        for key, vector in held.items():
            made[rows[key]] = vector
        self.found = sum(key in held for key in keys)
        missing = [key for key in by_key if key not in held]
        del held
        bar = show_progress and bool(missing)
        for numbers, vectors in embedded_batches(self._model, [by_key[key] for key in missing], bar, len(rows) - len(missing)):
            vectors = check_vectors(vectors, width=self._width).cpu()
            new = [missing[number] for number in numbers]
            self._keep(new, vectors)
            made[[rows[key] for key in new]] = vectors
        return made[[rows[key] for key in keys]] if keys else made

    def _is_of(self, probe: Tensor) -> bool:
        """Return whether a file is new, or holds the vectors of a model that gives the fixed texts these vectors."""
        keys = [b"probe %d" % row for row in range(len(probe))]
        held = self._held(keys)
        if len(held) < len(keys):
            self._keep(keys, probe)
            return True
        kept = torch.stack([held[key] for key in keys])
        return bool(((kept - probe).norm(dim=1) <= _ALIKE * probe.norm(dim=1)).all())

    def _held(self, keys: Any) -> dict[bytes, Tensor]:
        """Return the whole vectors that are there."""

        def read(database: sqlite3.Connection) -> dict[bytes, Tensor]:
            found: dict[bytes, Tensor] = {}
            for key in keys:
                row = database.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
                if row is not None and _sound(key, row[0], self._width):
                    found[key] = torch.from_numpy(np.frombuffer(row[0], "<f4", self._width).astype(np.float32))
            return found

        return self._with_file(read)

    def _keep(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        rows = [(key, _checked(key, row.astype("<f4").tobytes())) for key, row in zip(keys, vectors.numpy(), strict=True)]
        most = self._limit // (4 * self._width + _CHECK)

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
                # Rows are numbered as they come; those of the fixed texts are the first, and stay.
                database.execute(
                    "DELETE FROM vectors WHERE rowid > ? AND rowid <= (SELECT MAX(rowid) FROM vectors) - ?", (len(PROBES), most)
                )

        self._with_file(write)

    def _with_file(self, use: Any) -> Any:
        """Return what a function makes of the file; one that is damaged is made again."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for attempt in range(2):
                try:
                    with closing(sqlite3.connect(self._path, timeout=60)) as database:
                        # A process that is killed loses nothing; after a power cut checksums tell what is damaged.
                        database.execute("PRAGMA synchronous=OFF")
                        database.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
                        return use(database)
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError as error:
                    if attempt:
                        raise
                    logger.warning("The vectors kept in %s are damaged (%s); they are computed again.", self._path, error)
                    self._path.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise InvalidArgumentError(
                f"Vectors cannot be kept in {self._path} ({error}); set GRAPH_RETRIEVERS_CACHE to a folder that can be written to."
            ) from error


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _checked(key: bytes, vector: bytes) -> bytes:
    return vector + hashlib.blake2b(key + vector, digest_size=_CHECK).digest()


def _sound(key: bytes, kept: Any, width: int) -> bool:
    return isinstance(kept, bytes) and len(kept) == 4 * width + _CHECK and _checked(key, kept[:-_CHECK]) == kept
