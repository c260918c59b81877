"""Encoders with several vectors for a text: ColBERT's tokens, and the parts of a long text."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.loading import PretrainedModel
from graph_retrievers.signals.sentence_encoder import SentenceEncoder

__all__ = ["ColBERT", "PartVectors"]

# Markers of queries and documents, which follow the first token.
_MARKS = {True: "[unused0]", False: "[unused1]"}


class ColBERT:
    """ColBERT: a unit vector for each token of a text, for :class:`~graph_retrievers.signals.multi_vector.MultiVectorIndex`.

    A document is read with a mark after its first token, and its punctuation has no vectors. A query has another mark and is
    filled with mask tokens up to `query_length`; other tokens do not attend to these, but their vectors count.

    Parameters
    ----------
    model : str, Path or (model, tokenizer)
        Name on a hub, folder, or a BERT of transformers with its tokenizer.
    projection : Tensor, shape [d', d], optional
        The linear layer that follows the model, "linear.weight" of checkpoints; without one, the states themselves are the vectors.
    query_length, document_length : int, default 32 and 180
        Tokens of a query, and most tokens that are read of a document.
    batch_size : int, default 32
    device : str or torch.device, optional
        The CPU by default.

    Raises
    ------
    InvalidArgumentError
        At first use: if the model cannot be loaded from safetensors, or the projection has another width.

    Notes
    -----
    A tokenizer without the marks "[unused0]" and "[unused1]" reads texts without them.

    References
    ----------
    Khattab and Zaharia, "ColBERT", SIGIR 2020, section 3.2; lengths and attention are those of Santhanam et al., "ColBERTv2",
    NAACL 2022.

    Examples
    --------
    >>> ColBERT("colbert-ir/colbertv2.0", projection).encode(["punched cards"])[0].shape  # doctest: +SKIP
    torch.Size([5, 128])
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        projection: Any = None,
        *,
        query_length: int = 32,
        document_length: int = 180,
        batch_size: int = 32,
        device: str | torch.device | None = None,
    ) -> None:
        self._model = PretrainedModel(model, "AutoModel", "ColBERT model", device)
        self.name, self.device = self._model.name, self._model.device
        self.projection = None if projection is None else torch.as_tensor(projection, dtype=torch.float32).to(self.device)
        self.query_length = positive("query_length", query_length, least=4)
        self.document_length = positive("document_length", document_length, least=4)
        self.batch_size = positive("batch_size", batch_size)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], *, queries: bool = False) -> list[Tensor]:
        """Return the unit vectors of the tokens of each text: Tensors, shape [t, d], on the CPU."""
        model, tokenizer = self._model.parts()
        mark = tokenizer.convert_tokens_to_ids(_MARKS[queries])
        marks = [] if mark is None or mark == tokenizer.unk_token_id else [mark]
        skipped = set() if queries else set(tokenizer.convert_tokens_to_ids(list(string.punctuation))) - {tokenizer.unk_token_id}
        most = (self.query_length if queries else self.document_length) - len(marks)
        results = list[Tensor]()
        for start in range(0, len(texts), self.batch_size):
            part = list(texts[start : start + self.batch_size])
            token_lists = tokenizer(part, truncation=True, max_length=most)["input_ids"]
            tokens = [[*ids[:1], *marks, *ids[1:]] for ids in token_lists]
            lengths = [len(ids) for ids in tokens]
            longest = self.query_length if queries else max(lengths)
            fill = tokenizer.mask_token_id if queries else tokenizer.pad_token_id or 0
            table = torch.tensor([ids + [fill] * (longest - len(ids)) for ids in tokens], device=self.device)
            mask = torch.arange(longest, device=self.device) < torch.tensor(lengths, device=self.device).unsqueeze(1)
            states = model(input_ids=table, attention_mask=mask.long()).last_hidden_state.float()
            vectors = normalize(self._projected(states), dim=-1).cpu()
            for ids, rows, length in zip(tokens, vectors, lengths, strict=True):
                places = range(longest) if queries else [place for place in range(length) if ids[place] not in skipped]
                results.append(rows[list(places)])
        return results

    def _projected(self, states: Tensor) -> Tensor:
        if self.projection is None:
            return states
        if self.projection.dim() != 2 or self.projection.shape[1] != states.shape[-1]:
            raise InvalidArgumentError(
                f"projection has the shape {list(self.projection.shape)}; expected [d', {states.shape[-1]}], the width of "
                f"{self.name!r}."
            )
        return states @ self.projection.T


class PartVectors:
    """A vector for each part of a text, of the tokens that an embedding model reads at once, and one for a query.

    With :class:`~graph_retrievers.signals.multi_vector.MultiVectorIndex`, a long text scores as its best part ("multi-ada-002"
    where the embedding is ada-002).

    Parameters
    ----------
    embedding : SentenceEncoder
        Such as :func:`~graph_retrievers.signals.sentence_encoder.minilm`.
    max_tokens : int, optional
        Tokens of a part; as many as the model reads by default.

    References
    ----------
    Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases", NeurIPS 2024, section 4.

    Examples
    --------
    >>> from graph_retrievers import minilm
    >>> [len(vectors) for vectors in PartVectors(minilm(), 4).encode(["A loom.", "A loom weaves cloth of wool and linen."])]
    [1, 3]
    """

    def __init__(self, embedding: SentenceEncoder, max_tokens: int | None = None) -> None:
        if not isinstance(embedding, SentenceEncoder):
            raise InvalidArgumentError(f"Expected a SentenceEncoder, such as minilm(), got {type(embedding).__name__}.")
        self.embedding, self.max_tokens = embedding, None if max_tokens is None else positive("max_tokens", max_tokens)
        self.name = embedding.name + ("" if max_tokens is None else f", parts of {max_tokens} tokens")

    def encode(self, texts: Sequence[str], *, queries: bool = False) -> list[Tensor]:
        """Return the unit vectors of the parts of each text, or of each query: Tensors, shape [t, d]."""
        if queries:
            return list(self.embedding.embed_queries(list(texts)).unsqueeze(1))
        parts = [self.embedding.split_text(text, self.max_tokens) for text in texts]
        vectors = np.array(self.embedding.embed_documents([part for pieces in parts for part in pieces]), np.float32)
        return [torch.from_numpy(vectors[start:stop]) for start, stop in pairwise([0, *accumulate(map(len, parts))])]
