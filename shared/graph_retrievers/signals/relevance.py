"""Relevance models: (query, text) -> latent -> score.

GRanker mixes latents along edges before the head turns them into scores, so a model has these two parts.
``score(encode(queries, texts))`` is the model's own output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.signals.embedding import Embedding, embed_queries
from graph_retrievers.signals.vectors import check_vectors

__all__ = ["RelevanceModel"]


class PathText(str):
    """The text of a node, the step that led to it, and the text of the node from which it was reached, as one string.

    Models can read it as a string, or its parts: `node`, `way` and `parent`.
    """

    node: str
    way: str
    parent: str

    def __new__(cls, node: str, way: str, parent: str) -> PathText:
        """Return the parts, one per line; the node comes first, so that a model with a token limit cuts the parent."""
        text = super().__new__(cls, "\n".join(filter(None, (node, way, parent))))
        text.node, text.way, text.parent = node, way, parent
        return text

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """Return the parts for a copy or a pickle."""
        return self.node, self.way, self.parent


class RelevanceModel(ABC):
    """A model that scores pairs of query and text in two steps: an abstract class.

    Attributes
    ----------
    name : str
        For tables and traces.
    paths : bool, default False
        Whether operators always give it each text with the path to it (:class:`PathText`).
    listwise : bool, default False
        Whether the score of a text depends on the texts judged with it, so that scores are not kept for other searches.
    reads_texts : bool, default True
        Whether it can score any text; vectors that were given without their model score only the nodes that have them.
    """

    name: str = ""
    paths: bool = False
    listwise: bool = False
    reads_texts: bool = True

    @abstractmethod
    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the latent of each pair (``queries[i]``, ``texts[i]``): Tensor, shape [n, d], float32."""

    @abstractmethod
    def score(self, latent: Tensor) -> Tensor:
        """Return the score of each latent: Tensor, shape [n], float32, from shape [n, d]."""

    def encode_lists(self, lists: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[Tensor, str]]:
        """Return the latents of the texts of each query, shape [n, d], and a note for its hits, "" for none.

        `lists` has each query of a batch with its texts, at least one. By default each pair is judged independently.
        """
        queries = [query for query, texts in lists for _ in texts]
        found = self.encode(queries, [text for _, texts in lists for text in texts])
        return [(part, "") for part in found.split([len(texts) for _, texts in lists])]


def check_pairs(queries: Sequence[str], texts: Sequence[str]) -> None:
    """Raise InvalidArgumentError unless both are lists, of equal length."""
    if isinstance(queries, str) or isinstance(texts, str):
        raise InvalidArgumentError("Got a single string; expected two lists of strings of equal length.")
    if len(queries) != len(texts):
        raise InvalidArgumentError(f"Got {len(queries)} queries and {len(texts)} texts; expected one query for each text.")


class BiEncoder(RelevanceModel):
    r"""The dot product of query and node vectors, used without a cross-encoder.

    The latent is the dot product :math:`v_q \cdot v_n` itself, of width 1. As the dot product is linear in the node vector, mixing
    these latents along edges gives the dot product of the query with the mixed node vectors. `embedding` embeds texts; it is not
    needed if the index has the vectors.
    """

    name = "bi-encoder"

    def __init__(self, embedding: Embedding | None = None) -> None:
        self.embedding = embedding

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        """Whether there is a model that embeds texts."""
        return self.embedding is not None

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the dot product of each pair: Tensor, shape [n, 1]."""
        check_pairs(queries, texts)
        if self.embedding is None:
            raise MissingSignalError("This bi-encoder has no embedding model to embed texts with; pass embedding=.")
        if not texts:
            return torch.empty((0, 1))
        distinct = {q: i for i, q in enumerate(dict.fromkeys(queries))}
        vectors = embed_queries(self.embedding, list(distinct))
        nodes = check_vectors(self.embedding.embed_documents(list(texts)), len(texts))
        return (vectors[[distinct[q] for q in queries]] * nodes).sum(-1, keepdim=True)

    def score(self, latent: Tensor) -> Tensor:
        """Return the one entry of each latent: Tensor, shape [n]."""
        return latent[..., 0]


class PairScorer(RelevanceModel):
    """A model that only returns scores, such as a LangChain ``BaseCrossEncoder``; its latent is the score itself.

    Graph rerankers then mix scores instead of representations, which is weaker. `score_pairs` takes a list of n (query, text) to n
    numbers.

    >>> model = PairScorer(lambda pairs: [float(query in text) for query, text in pairs])
    >>> model.encode(["loom", "loom"], ["A loom.", "A card."])
    tensor([[1.],
            [0.]])
    """

    def __init__(self, score_pairs: Callable[[list[tuple[str, str]]], Any], name: str = "pair-scorer") -> None:
        self._score_pairs = score_pairs
        self.name = name

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the scores as latents of width 1: Tensor, shape [n, 1]."""
        check_pairs(queries, texts)
        if not texts:
            return torch.empty((0, 1))
        scores = self._score_pairs(list(zip(queries, texts, strict=True)))
        try:
            column = torch.as_tensor(scores, dtype=torch.float32).reshape(-1, 1)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidArgumentError(f"{self.name} returned {shown(scores)}; expected a number for each pair.") from error
        return check_vectors(column, len(texts), 1, name=f"scores of {self.name}")

    def score(self, latent: Tensor) -> Tensor:
        """Return the one entry of each latent: Tensor, shape [n]."""
        return latent[..., 0]
