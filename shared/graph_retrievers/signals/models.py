"""Adapters that turn a user's relevance model into a :class:`RelevanceModel`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import not_a_class
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.relevance import RelevanceModel, check_pairs
from graph_retrievers.signals.vectors import check_vectors

# Methods of the language models of LangChain and LlamaIndex, some of which are callable or have a method `predict`.
_LANGUAGE_MODELS = (("invoke", "generate_prompt"), ("complete", "stream_complete"))

# Where a document's place travels through a compressor.
_PLACE = "graph_retrievers_place"


def as_relevance_model(model: Any) -> RelevanceModel:
    """Return `model` as a :class:`RelevanceModel`; InvalidArgumentError if it is none of the kinds below.

    It is a :class:`RelevanceModel`, or a name or folder, which is loaded as a cross-encoder. The others become a
    :class:`PairScorer`: a LangChain ``BaseCrossEncoder`` (``score(pairs)``), a LangChain document compressor
    (``compress_documents``) that has such a model or writes a ``relevance_score``, a ``CrossEncoder`` of sentence-transformers
    (``predict(pairs)``), a reranker of LlamaIndex (``postprocess_nodes``), whose ``top_n`` is ignored here and where texts that
    it leaves out get its lowest score, or 0 if that is lower, and a callable from a list of (query, text) to scores.
    """
    not_a_class("relevance", model)
    if isinstance(model, RelevanceModel):
        return model
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        return CrossEncoder(model)
    name = type(model).__name__
    if any(all(hasattr(model, method) for method in methods) for methods in _LANGUAGE_MODELS):
        raise InvalidArgumentError(f"{name} is a language model; pass LanguageModelRelevance(model), and read what it costs.")
    if callable(getattr(model, "compress_documents", None)):
        score = getattr(getattr(model, "model", None), "score", None)
        return PairScorer(score if callable(score) else partial(_by_query, partial(_compressed, model)), name)
    if callable(getattr(model, "postprocess_nodes", None)):
        return PairScorer(partial(_by_query, partial(_postprocessed, model)), name)
    for method in ("score", "predict"):
        if callable(getattr(model, method, None)):
            return PairScorer(getattr(model, method), name)
    if callable(model):
        return PairScorer(model, getattr(model, "__name__", "callable"))
    raise InvalidArgumentError(
        f"{name} is not a relevance model; pass a model name or folder, an object with score(pairs), predict(pairs), "
        "compress_documents(documents, query) or postprocess_nodes(nodes, query_bundle), or a callable from (query, text) "
        "pairs to scores."
    )


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


@dataclass
class _Document:
    """What a document compressor reads of a document."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


def _by_query(score: Callable[[str, Sequence[str]], Sequence[float]], pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the scores of pairs by a function that scores all texts of a query at once."""
    scores = [0.0] * len(pairs)
    for query in dict.fromkeys(query for query, _ in pairs):
        places = [place for place, pair in enumerate(pairs) if pair[0] == query]
        for place, value in zip(places, score(query, [pairs[place][1] for place in places]), strict=True):
            scores[place] = value
    return scores


def _compressed(model: Any, query: str, texts: Sequence[str]) -> list[float]:
    """Return the scores that an object with ``compress_documents`` gives the texts of a query."""
    # Some compressors insist on LangChain's own class, which is loaded where they are.
    kind = getattr(sys.modules.get("langchain_core.documents"), "Document", _Document)
    scores: dict[int, float] = {}
    documents = [kind(page_content=text, metadata={_PLACE: place}) for place, text in enumerate(texts)]
    for document in _unlimited(model, len(texts)).compress_documents(documents, query):
        if "relevance_score" not in document.metadata or _PLACE not in document.metadata:
            raise InvalidArgumentError(
                f"{type(model).__name__} gives documents without a relevance_score in their metadata; pass the model that it "
                "scores with, or a reranker that writes its scores."
            )
        scores[document.metadata[_PLACE]] = float(document.metadata["relevance_score"])
    if len(scores) < len(texts):
        raise InvalidArgumentError(
            f"{type(model).__name__} gave {len(scores)} scores for {len(texts)} texts; a relevance model scores every text: "
            "remove its limit or threshold."
        )
    return [scores[place] for place in range(len(texts))]


def _unlimited(model: Any, count: int) -> Any:
    """Return a compressor with room for all documents, where it has the usual limit."""
    if not hasattr(model, "top_n"):
        return model
    unlimited = copy.copy(model)
    unlimited.top_n = count
    return unlimited


def _postprocessed(model: Any, query: str, texts: Sequence[str]) -> list[float]:
    """Return the scores that a node postprocessor of LlamaIndex gives the texts of a query."""
    # The framework is there if one of its objects is.
    schema: Any = sys.modules["llama_index.core.schema"]
    nodes = [schema.NodeWithScore(node=schema.TextNode(id_=str(place), text=text), score=0.0) for place, text in enumerate(texts)]
    # A copy shares the weights; the model of the caller keeps its top_n.
    whole = model.model_copy(update={"top_n": len(nodes)}) if hasattr(model, "top_n") else model
    entries = whole.postprocess_nodes(nodes, query_bundle=schema.QueryBundle(query))
    scores = {int(entry.node.node_id): entry.score for entry in entries}
    if None in scores.values():
        raise InvalidArgumentError(f"{type(model).__name__} returned a node without a score; expected one for each.")
    least = min((0.0, *scores.values()))
    return [scores.get(place, least) for place in range(len(texts))]
