"""Learned sparse encoders: SPLADE, and the lexical weights of models such as BGE-M3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.loading import PretrainedModel

__all__ = ["LexicalWeights", "Splade"]


class _TransformersSparse(ABC):
    """A Hugging Face model that gives each token of the vocabulary a weight; loaded at first use, from safetensors only."""

    _kind: str

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        max_length: int = 256,
        batch_size: int = 16,
        device: str | torch.device | None = None,
    ) -> None:
        self._model = PretrainedModel(model, self._kind, "sparse encoder", device)
        self.name, self.device = self._model.name, self._model.device
        self.max_length, self.batch_size = positive("max_length", max_length), positive("batch_size", batch_size)

    @abstractmethod
    def _of_batch(self, model: Any, batch: Any) -> Tensor:
        """Return the weights of all terms for a tokenized batch: Tensor, shape [n, V], at least 0."""

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], *, queries: bool = False) -> list[dict[int, float]]:
        """Return the weights above 0 of the terms of each text, by token number; texts and queries are read alike."""
        model, tokenizer = self._model.parts()
        results: list[dict[int, float]] = []
        for start in range(0, len(texts), self.batch_size):
            part = list(texts[start : start + self.batch_size])
            options = {"padding": True, "truncation": True, "max_length": self.max_length, "return_tensors": "pt"}
            weights = self._of_batch(model, tokenizer(part, **options).to(self.device)).float().cpu()
            for row in weights:
                terms = (row > 0).nonzero().flatten()
                results.append(dict(zip(terms.tolist(), row[terms].tolist(), strict=True)))
        return results


class Splade(_TransformersSparse):
    r"""SPLADE: the weight of token v is the largest :math:`\log(1 + \mathrm{ReLU}(\ell_{tv}))` over the positions t of a text.

    :math:`\ell` are the logits of a masked language model.

    Parameters
    ----------
    model : str, Path or (model, tokenizer)
        Name on a hub, folder, or a masked language model of transformers with its tokenizer.
    max_length : int, default 256
        Maximum number of tokens read of a text.
    batch_size : int, default 16
    device : str or torch.device, optional
        The CPU by default.

    References
    ----------
    Formal, Piwowarski and Clinchant, "SPLADE", SIGIR 2021; max pooling is that of "SPLADE v2", 2021.

    Examples
    --------
    >>> Splade("naver/splade-v3").encode(["punched cards"])  # doctest: +SKIP
    """

    _kind = "AutoModelForMaskedLM"

    def _of_batch(self, model: Any, batch: Any) -> Tensor:
        weights = torch.log1p(torch.relu(model(**batch).logits))
        return (weights * batch["attention_mask"].unsqueeze(-1)).amax(1)  # type: ignore[no-any-return]


class LexicalWeights(_TransformersSparse):
    r"""Lexical weights as in BGE-M3: a token of a text weighs :math:`\mathrm{ReLU}(w \cdot h_t + b)`, the largest if it repeats.

    :math:`h_t` is the last hidden state at position t. Special tokens have no weight.

    Parameters
    ----------
    model : str, Path or (model, tokenizer)
        Name on a hub, folder, or an encoder of transformers with its tokenizer.
    head : (Tensor of shape [d] or [1, d], float or Tensor of shape [1])
        w and b. Models have them in a separate file, which the caller must read: this package does not open pickled weights.
    max_length, batch_size, device
        See :class:`Splade`.

    References
    ----------
    Chen et al., "BGE M3-Embedding", 2024, section 3.1.

    Examples
    --------
    >>> LexicalWeights("BAAI/bge-m3", (weight, bias)).encode(["punched cards"])  # doctest: +SKIP
    """

    _kind = "AutoModel"

    def __init__(self, model: str | Path | tuple[Any, Any], head: tuple[Tensor, Any], **options: Any) -> None:
        super().__init__(model, **options)
        self.weight = torch.as_tensor(head[0], dtype=torch.float32).flatten().to(self.device)
        self.bias = torch.as_tensor(head[1], dtype=torch.float32).flatten().to(self.device)

    def _of_batch(self, model: Any, batch: Any) -> Tensor:
        hidden = model(**batch).last_hidden_state.float()
        if hidden.shape[-1] != self.weight.numel():
            raise InvalidArgumentError(f"The head has {self.weight.numel()} weights for hidden states of width {hidden.shape[-1]}.")
        weights = torch.relu(hidden @ self.weight + self.bias) * batch["attention_mask"]
        vocabulary = model.get_input_embeddings().num_embeddings
        table = torch.zeros((hidden.shape[0], vocabulary), device=hidden.device)
        table.scatter_reduce_(1, batch["input_ids"], weights, "amax")
        table[:, sorted(self._model.parts()[1].all_special_ids)] = 0.0
        return table
