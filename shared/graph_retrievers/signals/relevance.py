"""Relevance models: (query, text) -> latent -> score.

GRanker mixes latents along edges before the head turns them into scores, so a model has these two parts.
``score(encode(queries, texts))`` is the model's own output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

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
        latents = self.encode(queries, [text for _, texts in lists for text in texts])
        return [(part, "") for part in latents.split([len(texts) for _, texts in lists])]


def check_pairs(queries: Sequence[str], texts: Sequence[str]) -> None:
    """Raise InvalidArgumentError unless both are lists, of equal length."""
    if isinstance(queries, str) or isinstance(texts, str):
        raise InvalidArgumentError("Got a single string; expected two lists of strings of equal length.")
    if len(queries) != len(texts):
        raise InvalidArgumentError(f"Got {len(queries)} queries and {len(texts)} texts; expected one query for each text.")
