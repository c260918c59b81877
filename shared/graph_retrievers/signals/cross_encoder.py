"""A cross-encoder: a Hugging Face sequence-classification model that reads query and text together."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import as_path, positive
from graph_retrievers.device import resolve_device
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, ModelHeadError, shown
from graph_retrievers.signals.classification_head import ClassificationHead, split_head, unsplittable
from graph_retrievers.signals.encoder import Encoder, dtype_of, longest
from graph_retrievers.signals.loading import load_pretrained, no_loading_bar
from graph_retrievers.signals.relevance import RelevanceModel, check_pairs

__all__ = ["CrossEncoder"]

_FEWEST = 8
# Two pairs of unequal length, to compare the parts with the model's own logits when it is loaded.
_PROBE = (["what is a graph", "where"], ["A graph has nodes and edges between them; a tree is one.", "Here."])


class CrossEncoder(RelevanceModel):
    """A cross-encoder in two parts: an encoder that computes latents, and a head that scores them.

    The latent is the representation just before the classification head (for BERT the last hidden state of [CLS], not the pooled
    output), as needed by GRanker (FastInsight, section 4.1). ``score(encode(queries, texts))`` equals
    ``model(...).logits[:, 0]``; this is checked on two short pairs when the model is loaded. ``pairs_encoded`` is the number of
    pairs encoded so far.

    Parameters
    ----------
    model : str, Path, or (model, tokenizer)
        Name on a hub, a folder, or a loaded sequence-classification model with its tokenizer. A name or folder is loaded
        at first use; call :meth:`load` to see errors earlier.
    max_length : int, default 512
        Maximum number of tokens of a pair, including special tokens; the longer of query and text is truncated first. Reduced to
        what the model accepts.
    batch_tokens : int, optional
        Tokens per forward pass; by default 2048 on a CPU, because of its caches, and 65536 elsewhere.
    device : str or torch.device, optional
        By default the CPU, or the device of a loaded model.
    dtype : {"float32", "bfloat16", "float16"} or torch.dtype, optional
        Precision of the encoder; by default float32 on a CPU and the dtype of the weights elsewhere. "bfloat16" is about
        twice as fast, and its scores differ by some hundredths of their standard deviation. The head is always float32.

    Notes
    -----
    Loading raises InvalidArgumentError if nothing can be loaded, and ModelHeadError if the head has no trained weights, does not
    have one logit, or cannot be separated. Weights are read from safetensors only, and code of a model repository is not run.
    Pairs are sorted by length to reduce padding; models of BERT's architecture run without padding in their linear layers, see
    :class:`~graph_retrievers.signals.packed_encoder.PackedEncoder`. The scores of a pair do not depend on its batch.

    Examples
    --------
    >>> model = CrossEncoder("cross-encoder/ms-marco-MiniLM-L6-v2")
    >>> scores = model.score(model.encode(["looms", "looms"], ["A loom weaves.", "A card."]))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        max_length: int = 512,
        batch_tokens: int | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> None:
        if max_length < _FEWEST:
            raise InvalidArgumentError(f"max_length is {max_length}; expected at least {_FEWEST} tokens for a query and a text.")
        if batch_tokens is not None:
            positive("batch_tokens", batch_tokens)
        if isinstance(model, tuple):
            if len(model) != 2 or not hasattr(model[0], "base_model") or not callable(model[1]):
                raise InvalidArgumentError("Expected (model, tokenizer), both of transformers; or pass a name or folder.")
            self.name = model[0].config.name_or_path or type(model[0]).__name__
            device = device if device is not None else model[0].device
        elif isinstance(model, str | os.PathLike) and str(model):
            if (isinstance(model, os.PathLike) or os.path.isabs(model)) and not os.path.isdir(model):
                raise InvalidArgumentError(f"{str(model)!r} is not a folder; pass a model folder, or a name on a hub as a string.")
            self.name = Path(model).resolve().name if os.path.isdir(model) else str(model)
        else:
            raise InvalidArgumentError(f"{shown(model)} is not a model; pass a name, a folder, or (model, tokenizer).")
        self.device = resolve_device(device)
        on_cpu = self.device.type == "cpu"
        self._dtype = dtype_of("float32" if dtype is None and on_cpu else dtype, self.device)
        self.max_length, self.batch_tokens = max_length, batch_tokens or (2048 if on_cpu else 65536)
        self.pairs_encoded = 0
        self._source = model
        self._parts: _Parts | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for a copy or a pickle, which loads the model again at first use."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_parts", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the settings of another encoder."""
        self.__dict__.update(state, _parts=None, _lock=threading.Lock())

    def load(self) -> CrossEncoder:
        """Load the model now and return self."""
        self._loaded()
        return self

    def trainable(self) -> CrossEncoder:
        """Return a cross-encoder with a copy of the model in float32, whose weights can be trained (see :meth:`logits`)."""
        options: dict[str, Any] = {"max_length": self.max_length, "device": self.device, "dtype": "float32"}
        source = self._source if isinstance(self._source, tuple) else CrossEncoder(self._source, **options)._load()
        model = copy.deepcopy(source[0]).to(device=self.device, dtype=torch.float32).requires_grad_(True)
        encoder = CrossEncoder((model, source[1]), batch_tokens=self.batch_tokens, **options)
        encoder.name = self.name
        return encoder

    @property
    def module(self) -> torch.nn.Module:
        """The model, a module of transformers; call :meth:`reload` when its weights have changed."""
        return self._loaded().model  # type: ignore[no-any-return]

    def reload(self) -> CrossEncoder:
        """Read the weights of the model again, and return self."""
        self._parts = None
        return self.load()

    def logits(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the logit of each pair: Tensor, shape [n], float32, as :meth:`score`, but with gradients."""
        check_pairs(queries, texts)
        parts = self._loaded()
        if not texts:
            return torch.empty(0, device=self.device)
        with self._lock:
            encoding = parts.tokenize(queries, texts)
        inputs = parts.encoder.padded(encoding)
        return parts.model(**inputs).logits[:, 0].float()  # type: ignore[no-any-return]

    def save(self, folder: str | Path) -> None:
        """Write model (safetensors) and tokenizer to a folder that the constructor and transformers can read.

        The folder is created if it does not exist. Raises InvalidArgumentError if it cannot be written.
        """
        parts, root = self._loaded(), as_path("folder", folder)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with no_loading_bar():
                parts.model.save_pretrained(root)
            parts.tokenizer.save_pretrained(root)
        except OSError as error:
            raise InvalidArgumentError(f"The model cannot be written to {root}: {error}") from error

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the latent of each pair: Tensor, shape [n, d], float32, on the model's device."""
        check_pairs(queries, texts)
        parts = self._loaded()
        if not texts:
            return torch.empty((0, parts.encoder.width), device=self.device)
        # A fast tokenizer keeps its truncation in shared state, so threads take turns.
        with self._lock:
            encoding = parts.tokenize(queries, texts)
            self.pairs_encoded += len(texts)
        return parts.encoder(encoding, self.batch_tokens)

    @torch.inference_mode()
    def score(self, latent: Tensor) -> Tensor:
        """Return the logit of each latent: Tensor, shape [...], float32, from shape [..., d]."""
        parts = self._loaded()
        return parts.head(latent.reshape(-1, parts.encoder.width)).reshape(latent.shape[:-1]).to(latent.device)

    def _loaded(self) -> _Parts:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    try:
                        self._parts = _Parts(*self._load(), self.max_length)
                    except GraphRetrieverError:
                        raise
                    except Exception as error:
                        message = f"{self.name!r} cannot be used as a cross-encoder: {shown(error)}; see its config.json."
                        raise InvalidArgumentError(message) from error
        return self._parts

    def _load(self) -> tuple[Any, Any]:
        if isinstance(self._source, tuple):
            model, tokenizer = self._source
            if model.device != self.device or (self._dtype is not None and model.dtype != self._dtype):
                model = copy.deepcopy(model).to(device=self.device, dtype=self._dtype)
            return model.eval(), tokenizer
        source, of = str(self._source), " of a sequence-classification model"
        advice = "Pass a sequence-classification model, or use BiEncoder for an embedding model."
        options: dict[str, Any] = {"of": of, "advice": advice, "dtype": self._dtype or "auto"}
        tokenizer, model = load_pretrained(source, "AutoModelForSequenceClassification", "cross-encoder", **options)
        return model.eval().to(self.device), tokenizer


class _Parts:
    """Tokenizer, encoder and head of a loaded model."""

    def __init__(self, model: Any, tokenizer: Any, max_length: int) -> None:
        if getattr(model.config, "num_labels", None) != 1:
            raise ModelHeadError(
                f"{type(model).__name__} has {getattr(model.config, 'num_labels', 'no')} labels; expected one, the relevance. "
                "Pass a reranker with one logit, or wrap the model in PairScorer and choose the score yourself."
            )
        self.head: ClassificationHead = split_head(model)
        self.model, self.tokenizer = model, tokenizer
        self.encoder = Encoder(model.base_model, self.head.pooling, tokenizer.pad_token_id)
        self._limit = min(max_length, longest(model, tokenizer))
        if self._limit < _FEWEST:
            raise InvalidArgumentError(f"The model reads {self._limit} tokens; expected {_FEWEST} or more for a query and a text.")
        self._check(model)

    def tokenize(self, queries: Sequence[str], texts: Sequence[str]) -> dict[str, list[list[int]]]:
        encoding = self.tokenizer(
            list(queries), list(texts), truncation="longest_first", max_length=self._limit, return_attention_mask=False
        )
        return self.encoder.inputs(encoding)

    @torch.inference_mode()
    def _check(self, model: Any) -> None:
        """Compare the latents and scores, then those of the packed encoder, with the model's own logits."""
        probe = self.tokenize(*_PROBE)
        expected = model(**self.encoder.padded(probe)).logits.float()
        tolerance = 1e-4 if model.dtype == torch.float32 else 5e-2

        def agrees() -> bool:
            scores = self.head(self.encoder(probe, 1 << 30))
            return torch.allclose(scores, expected[:, 0], rtol=tolerance, atol=tolerance)

        if expected.shape != (2, 1) or not agrees():
            raise unsplittable(model, "its head, applied to the latents, does not give its logits")
        self.encoder.pack(agrees)
