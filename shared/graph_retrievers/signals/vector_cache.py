"""Vectors of texts on disk, so that no text is embedded twice by one model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from graph_retrievers.arguments import as_path
from graph_retrievers.errors import EmbeddingError, GraphRetrieverError, InvalidArgumentError, reason
from graph_retrievers.signals.embedding import Embedding, embed_texts, embedded_batches, hosted, requests_for
from graph_retrievers.signals.embedding_models import CachedEmbedding, HostedEmbedding, as_embedding
from graph_retrievers.signals.retries import is_transient, pause_sentence, status_of
from graph_retrievers.signals.vectors import check_vectors

logger = logging.getLogger(__name__)

# Models with other weights, another pooling or another maximum length give other vectors for these texts.
PROBES = ["probe", " ".join(f"word {number} of a long text." for number in range(200))]
# The last bits of a vector depend on the number of threads and on the device: the greatest difference, as a part of the length.
_TOLERANCE = 0.02
_CHECK = 8
# Bytes of vectors in a file.
_LIMIT = 4 << 30
# The names of types, which functions without a name of their own have.
_NO_NAMES = ("function", "builtin_function_or_method", "method", "partial")


def cache_folder() -> Path:
    """Return the user's cache folder: ``GRAPH_RETRIEVERS_CACHE``, or ``~/.cache/graph-retrievers``."""
    folder = os.environ.get("GRAPH_RETRIEVERS_CACHE")
    return Path(folder).expanduser() if folder else Path.home() / ".cache" / "graph-retrievers"


def embed_corpus(embedding: Any, texts: list[str], cache: bool | str | Path | None = None, show_progress: bool = False) -> Tensor:
    """Return the vectors of the texts of a corpus: Tensor, shape [n, d], float32.

    Parameters
    ----------
    embedding : object
        Embedding model, see :func:`~graph_retrievers.signals.embedding_models.as_embedding`.
    texts : list of str, length n
    cache : bool, str or Path, optional
        Whether vectors are kept on disk as they come, and found there again: in the user's cache folder (True), in another folder,
        or not (False). By default (None) those of a hosted model (:func:`~graph_retrievers.signals.embedding.hosted`) are kept if
        they need more than one request, unless its setting ``cache`` says otherwise. Those of a function without a name, and of a
        model that gives different texts the same vector, are then not kept, because another model may be taken for it. The place is
        logged.
    show_progress : bool, default False

    Raises
    ------
    EmbeddingError
        If the model fails for good. The message says how many texts are embedded and kept, and where; the same call goes on there.
    """
    model = as_embedding(embedding)
    inner = model.model if isinstance(model, CachedEmbedding) else model
    if cache is None and isinstance(inner, HostedEmbedding):
        cache = inner.cache
    try:
        if cache is None and hosted(inner) and len(texts) > requests_for(inner).batch_size:
            store = _default_cache(inner, texts)
            if store is not None:
                return store.vectors(texts, show_progress)
        elif cache is not None and cache is not False:
            folder = None if cache is True else as_path("cache", cache)
            return VectorCache(inner, folder, texts=texts).vectors(texts, show_progress)
        return embed_texts(model, texts, show_progress)
    except Exception as error:
        # Other errors of a local model are raised as they are, for its author.
        service = hosted(inner) or is_transient(error) or status_of(error) is not None
        if isinstance(error, GraphRetrieverError) or not service:
            raise
        advice = "" if hosted(inner) else " With embedding=HostedEmbedding(model), what was embedded is kept."
        raise EmbeddingError(f"{_failure(inner, error)} No vector is kept.{advice}") from error


def _failure(model: Any, error: Exception) -> str:
    """Return what to say of a model that failed: its name, why, and the pause that its service asks for."""
    name = getattr(model, "name", type(model).__name__)
    return " ".join(filter(None, (f"The embedding model {name!r} failed: {reason(error)}.", pause_sentence(error))))


def with_cache(embedding: Embedding, cache: bool | str | Path | None) -> Embedding:
    """Return a model whose later texts are kept as `cache` says; an unchanged one if it is local or `cache` is None."""
    return HostedEmbedding(embedding, cache=cache) if cache is not None and hosted(embedding) else embedding


def _default_cache(model: Embedding, texts: Sequence[str]) -> VectorCache | None:
    """Return the cache of a hosted model; None, and a message, if other models look the same or the folder is not writable."""
    name = str(getattr(model, "name", type(model).__name__))
    if name in _NO_NAMES:
        logger.info("Vectors are not kept on disk, because a %s has no name; pass HostedEmbedding(..., name=...).", name)
        return None
    try:
        cache = VectorCache(model, required=False, texts=texts)
    except InvalidArgumentError as error:
        logger.warning("%s What is embedded is lost if the build fails.", error)
        return None
    if not cache.certain:
        logger.info("Vectors are not kept on disk, because %s gives different texts the same vector.", name)
        return None
    logger.info("Vectors are kept in %s as they come; cache=False turns this off.", cache.path)
    return cache


class VectorCache:
    """The vectors of texts by one embedding model, in their own SQLite file.

    Vectors are stored by the digest of the text as they are computed: after an interruption, only missing vectors are embedded.
    Any number of processes may use a folder; of those that embed the same texts, one does and the others wait for it. Each vector
    has a checksum; a damaged vector or an unreadable file is computed again. Texts themselves are not stored. The folder may be
    deleted at any time. A file has at most 4 GiB of vectors, or as many as the texts of a call need; the oldest are dropped.

    Parameters
    ----------
    embedding : object
        Embedding model, see :func:`~graph_retrievers.signals.embedding_models.as_embedding`. It is identified by its name, by its
        `max_length`, `pooling` and `precision`, if it has them, and by its vectors of two fixed texts, which are embedded first.
    folder : Path, optional
        :func:`cache_folder` by default, with one file per model. InvalidArgumentError if it is not writable.
    required : bool, default True
        Whether a file that cannot be written to is an error; otherwise it causes a warning, and the vectors are not kept.
    size : int, default 0
        Number of texts of which the vectors are asked for in several calls; none of them is dropped for another.
    texts : sequence of str, default ()
        What is embedded next. If no file in the folder has the first of them, a hosted model embeds these beside the fixed texts,
        at the same time.

    Attributes
    ----------
    path : Path
        The file, which only the user can read.
    hits : int
        How many of the last call's texts were there.
    certain : bool
        Whether the model gives the two fixed texts different vectors. If not, they do not tell it from other models of its name.

    Examples
    --------
    >>> import tempfile
    >>> asked = []
    >>> model = lambda texts: asked.extend(texts) or [[float(len(text)), 1.0] for text in texts]
    >>> cache = VectorCache(model, Path(tempfile.mkdtemp()))
    >>> cache.vectors(["loom", "card"]).tolist(), cache.vectors(["loom", "a card"]).tolist(), cache.hits, asked[2:]
    ([[4.0, 1.0], [4.0, 1.0]], [[4.0, 1.0], [6.0, 1.0]], 1, ['loom', 'card', 'a card'])
    """

    def __init__(
        self,
        embedding: Any,
        folder: Path | None = None,
        required: bool = True,
        size: int = 0,
        texts: Sequence[str] = (),
    ) -> None:
        self._model: Embedding = as_embedding(embedding)
        self._error: BaseException | None = None
        self._size = size
        root, requests = folder or cache_folder(), requests_for(self._model)
        # With the fixed texts, as many requests as run at a time.
        early = {_digest(text): text for text in texts[: (requests.max_concurrency - 1) * requests.batch_size]}
        with _alone(root, early) if early else nullcontext(False) as alone:
            # In a folder that cannot be written to, they would be embedded for nothing.
            if not alone or _any_stored(root, early):
                early = {}
            probe, vectors = self._probed(root, list(early.values()))
            self._open(root, probe, required)
            if vectors:
                self._store([list(early)[place] for place in vectors], torch.stack(list(vectors.values())))

    def _open(self, root: Path, probe: Tensor, required: bool) -> None:
        """Find the file of a model that gives the fixed texts these vectors, [2, d]."""
        self._width, self.hits, self._required = probe.shape[1], 0, required
        self._limit, self._is_lost = _LIMIT, False
        self.certain = bool((probe[0] - probe[1]).norm() > _TOLERANCE * probe.norm(dim=1).max())
        settings = [str(getattr(self._model, name, "")) for name in ("max_length", "pooling", "precision")]
        # What classes of LangChain call their models; another object of this name is not a name.
        values = (getattr(self._model, name, None) for name in ("model", "model_name", "model_id", "deployment", "dimensions"))
        settings += [str(value) for value in values if isinstance(value, (str, int)) and value]
        name = _digest(json.dumps([str(getattr(self._model, "name", type(self._model).__name__)), self._width, *settings])).hex()
        # A model of the same name with other weights has the next number.
        for number in count():
            self.path = root / f"vectors-{name}-{number}.sqlite"
            if self._is_of(probe):
                break

    def _probed(self, root: Path, early: list[str]) -> tuple[Tensor, dict[int, Tensor]]:
        """Return the vectors of the two fixed texts, without which the file of the model is not known, and those of other texts.

        If only another text fails, its error is raised where these texts are needed: what did not fail is kept.
        """
        table: dict[int, Tensor] = {}
        probes = range(len(PROBES))
        try:
            for numbers, vectors in embedded_batches(self._model, [*PROBES, *early], announce=False, first=len(PROBES)):
                table |= zip(numbers, check_vectors(vectors).cpu(), strict=True)
        except BaseException as error:
            if all(number in table for number in probes):
                self._error = error
            elif isinstance(error, GraphRetrieverError) or not isinstance(error, Exception):
                raise
            else:
                text = "No vector is kept."
                if any(root.glob("vectors-*.sqlite")):
                    text = f"Nothing was embedded; what was kept in {root} before is still there, and the same call goes on there."
                raise EmbeddingError(f"{_failure(self._model, error)} {text}") from error
        fixed = check_vectors([table.pop(number) for number in probes], len(PROBES))
        return fixed, {number - len(PROBES): check_vectors([vector], 1, fixed.shape[1])[0] for number, vector in table.items()}

    def vectors(self, texts: Sequence[str], show_progress: bool = False) -> Tensor:
        """Return the vectors of n texts: Tensor, shape [n, d], float32; missing ones are embedded and stored in batches.

        Raises EmbeddingError, with the number of vectors that are kept, if the model fails.
        """
        keys = [_digest(text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        self._limit = max(_LIMIT, (max(len(by_key), self._size) + len(PROBES)) * (4 * self._width + _CHECK))
        table = self._stored_vectors(by_key)
        if len(table) == len(by_key) and self._error is None:
            self.hits = len(keys)
        else:
            with _alone(self.path.parent, by_key):
                # Another process may have embedded them while this one waited.
                table = self._stored_vectors(by_key)
                self.hits = sum(key in table for key in keys)
                self._embed({key: text for key, text in by_key.items() if key not in table}, table, show_progress)
        return torch.stack([table[key] for key in keys]) if keys else torch.empty((0, self._width))

    def _embed(self, texts: dict[bytes, str], table: dict[bytes, Tensor], show_progress: bool) -> None:
        """Embed the missing texts of a call, by their keys, and add their vectors to those that are held."""
        new, size, total = list(texts), len(table), len(table) + len(texts)
        try:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            for numbers, vectors in embedded_batches(self._model, list(texts.values()), show_progress, size):
                vectors = check_vectors(vectors, width=self._width).cpu()
                keys = [new[number] for number in numbers]
                size += self._store(keys, vectors)
                table |= zip(keys, vectors, strict=True)
        except BaseException as error:
            message = f"{size:,} of {total:,} texts are embedded and kept in {self.path}; the same call goes on there."
            if isinstance(error, GraphRetrieverError) or not isinstance(error, Exception):
                error.add_note(message)
                logger.warning("%s", message)
                raise
            message = f"{_failure(self._model, error)} {message}"
            logger.warning("%s", message)
            raise EmbeddingError(message) from error

    def _store(self, keys: Sequence[bytes], vectors: Tensor) -> int:
        """Return how many vectors are now kept: all, or none, after one warning, if the file cannot be written and need not be."""
        if self._is_lost:
            return 0
        try:
            self._keep(keys, vectors)
            return len(keys)
        except InvalidArgumentError as error:
            if self._required:
                raise
            self._is_lost = True
            logger.warning("%s What is embedded from here on is lost if the build fails.", error)
            return 0

    def _is_of(self, probe: Tensor) -> bool:
        """Return whether a file is new, or holds the vectors of a model that gives the fixed texts these vectors."""
        keys = [b"probe %d" % row for row in range(len(probe))]
        table = self._stored_vectors(keys)
        if len(table) < len(keys):
            self._keep(keys, probe)
            return True
        vectors = torch.stack([table[key] for key in keys])
        return bool(((vectors - probe).norm(dim=1) <= _TOLERANCE * probe.norm(dim=1)).all())

    def _stored_vectors(self, keys: Any) -> dict[bytes, Tensor]:
        """Return the whole vectors that are there."""

        def read(database: sqlite3.Connection) -> dict[bytes, Tensor]:
            table: dict[bytes, Tensor] = {}
            for key in keys:
                row = database.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
                if row is not None and _is_intact(key, row[0], self._width):
                    table[key] = torch.from_numpy(np.frombuffer(row[0], "<f4", self._width).astype(np.float32))
            return table

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
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for attempt in range(2):
                try:
                    # Vectors say what a text is about: only the user may read them. SQLite's other files get the mode of this one.
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                    with closing(sqlite3.connect(self.path, timeout=60)) as database:
                        # A process that is killed loses nothing; after a power cut checksums tell what is damaged.
                        database.execute("PRAGMA synchronous=OFF")
                        database.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
                        return use(database)
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError as error:
                    if attempt:
                        raise
                    logger.warning("The vectors kept in %s are damaged (%s); they are computed again.", self.path, error)
                    self.path.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise InvalidArgumentError(
                f"Vectors cannot be kept in {self.path} ({error}); set GRAPH_RETRIEVERS_CACHE to a folder that can be written to."
            ) from error


@contextmanager
def _alone(root: Path, keys: Iterable[bytes]) -> Iterator[bool]:
    """Let no other process embed the same texts inside; yield whether that is so, which needs a folder with locks."""
    name = hashlib.sha256(b"".join(sorted(keys))).hexdigest()[:16]
    lock = FileLock(root / f"vectors-{name}.lock")
    with ExitStack() as stack:
        alone = False
        with suppress(OSError, NotImplementedError):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                stack.enter_context(lock.acquire(timeout=0))
            except Timeout:
                logger.info("Another process embeds the same texts; this one waits for it (%s).", lock.lock_file)
                stack.enter_context(lock)
            # Removed before others have their turn: these find all texts kept.
            stack.callback(_remove, Path(lock.lock_file))
            alone = True
        yield alone


def _any_stored(root: Path, keys: Iterable[bytes]) -> bool:
    """Return whether a file of any model has the vector of one of the texts."""
    for path in root.glob("vectors-*.sqlite"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=60)) as database:
            if any(database.execute("SELECT 1 FROM vectors WHERE text = ?", (key,)).fetchone() for key in keys):
                return True
    return False


def _remove(file: Path) -> None:
    # Windows keeps a file that others have open.
    with suppress(OSError):
        file.unlink()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _checked(key: bytes, vector: bytes) -> bytes:
    return vector + hashlib.blake2b(key + vector, digest_size=_CHECK).digest()


def _is_intact(key: bytes, value: Any, width: int) -> bool:
    return isinstance(value, bytes) and len(value) == 4 * width + _CHECK and _checked(key, value[:-_CHECK]) == value
