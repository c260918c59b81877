"""G-RAG: reranking over a document graph (Dong et al., "Don't Forget to Connect!", 2024)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.learning.checkpoint import check_trained, load_part
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.first_stage import CompositeSystem, as_first, first_stage, read_first
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork, network_of_config
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.system import System
from graph_retrievers.systems.untrained import Untrained, refuse_untrained

__all__ = ["GRAG"]

FIRST, DEPTH = "vector", 100
"""The first search and its nodes, without a checkpoint."""

_SETTINGS: dict[str, tuple[type, ...]] = {
    "network": (dict,),
    "first": (str, type(None)),
    "depth": (int,),
    "together": (bool,),
    "parser": (str, type(None)),
    "embedding": (str, type(None)),
}

Network = EvidenceNetwork | DocumentGraphNetwork

_UNTRAINED = Untrained("network", "documents are scored by rank, similarity and concepts of the question, without edges")
_RANDOM = Untrained("network", "documents are ranked at random")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, repr=False)
class GRAG(CompositeSystem):
    r"""A first search, then reranking by a graph neural network over the graph of the concepts that the documents share.

    .. math:: O_{vs} \to O_{gm}

    Documents and question are parsed into meaning graphs, and common concepts and relations join the documents. The network is
    trained on questions with known answers (``graph-retrievers fit g-rag``). Without a checkpoint no edge is used: documents are
    scored by rank, similarity and the concepts that they share with the question.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``.
    network : EvidenceNetwork, DocumentGraphNetwork or mapping, optional
        A network, which you have trained, is used instead of a checkpoint. A mapping has the keywords of the
        :class:`~graph_retrievers.systems.grag.model.DocumentGraphNetwork` with which the checkpoint must have been trained.
    first : System, str or Operator, optional
        First search: a system, its text such as ``"ppr(damping=0.7)"`` (see
        :func:`~graph_retrievers.systems.system.read_system`), or an operator. By default that of the checkpoint's training,
        vector search without a checkpoint, as in the paper.
    depth : int, optional
        Nodes to find and to rerank. By default the number that the checkpoint was trained with, or 100 without a checkpoint.
    parser : MeaningParser, MeaningCache, callable or None
        See :class:`~graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.

    Raises
    ------
    InvalidArgumentError
        If both a checkpoint and a network are given, or keywords of a network without a checkpoint, or the checkpoint was trained
        with another parser, embedding model or network, or with a first search that it cannot name and that is not given.

    Notes
    -----
    Documents are parsed when first found. To parse a corpus in advance, or to keep its graphs on disk, pass a
    :class:`~graph_retrievers.signals.meaning_cache.MeaningCache` and call its
    ``parse(index.graph.contents(), show_progress=True)``.

    References
    ----------
    Dong et al., "Don't Forget to Connect! Improving RAG with Graph-based Reranking", 2024.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2]])
    >>> retriever = Retriever(index, GRAG(first="vector"))
    >>> [hit.text for hit in retriever.retrieve("Who wrote programs?", vector=[1, 0])]
    ['Ada wrote programs.', 'The mill bought engines.', 'Ada knew Babbage.']
    """

    name = "g-rag"

    checkpoint: str | Path | None = None
    network: Network | Mapping[str, Any] | None = None
    first: System | str | Operator | None = None
    depth: int | None = None
    parser: Any = None

    def __post_init__(self) -> None:
        """Check that there is one network at most, and read the first search, so that a text equals its system."""
        if self.first is not None:
            object.__setattr__(self, "first", as_first(self.first))
        if self.checkpoint is not None and self._given_network is not None:
            raise InvalidArgumentError("Pass either checkpoint= or network=.")

    def compose(self, index: Corpus) -> Operator:
        """Return the first search and the reranker."""
        if isinstance(self.network, Mapping):
            self._check_network(self.network)
        first, reranker = self._first, self._reranker(index.embedding_name, index.device)
        return Pipeline(first_stage(index, first, reranker.depth), reranker)

    @property
    def inner(self) -> tuple[System | Operator, ...]:
        """The first search."""
        return (self._first,)

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the network, unless it is trained, and the parts of the first search that are not."""
        return (*_untrained(self.checkpoint, self._given_network), *super().untrained(index))

    @property
    def _given_network(self) -> Network | None:
        return None if isinstance(self.network, Mapping) else self.network

    def _check_network(self, settings: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentError unless the checkpoint has a network that was trained with some settings."""
        if self.checkpoint is None:
            return refuse_untrained("G-RAG", f"the settings of a network ({shown(dict(settings))})", "fit g-rag --paper")
        requirements = {"kind": DocumentGraphNetwork.kind, **settings}
        network = self._trained[1]["network"]
        check_trained(network, requirements, f"{self.checkpoint} was trained with a network of", "fit g-rag")

    @cached_property
    def _first(self) -> System | Operator:
        if self.first is not None or self.checkpoint is None:
            return as_first(FIRST if self.first is None else self.first)
        return read_first(self._trained[1]["first"], self.checkpoint)

    @cached_property
    def _trained(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the settings of the checkpoint."""
        assert self.checkpoint is not None
        return load_part(self.checkpoint, self.name, _SETTINGS, "G-RAG")

    @cached_property
    def _cache(self) -> MeaningCache:
        return self.parser if isinstance(self.parser, MeaningCache) else MeaningCache(self.parser)

    def _reranker(self, embedding: str | None, device: torch.device | None = None) -> DocumentGraphRerank:
        """Return the operator for vectors of a model, if its name is known, on a device."""
        reranker = self._parts_cache.get(device, self._make_reranker)
        if self.checkpoint is None:
            return reranker
        # An EvidenceNetwork reads similarities, not vectors.
        trained = self._trained[1]["embedding"]
        if isinstance(reranker.network, DocumentGraphNetwork) and trained and embedding and trained != embedding:
            raise InvalidArgumentError(
                f"{self.checkpoint} was trained with vectors of {trained!r}, these are of {embedding!r}; train it with this model."
            )
        return reranker

    def _make_reranker(self) -> DocumentGraphRerank:
        if self.checkpoint is None:
            return DocumentGraphRerank(self._given_network, parser=self._cache, depth=DEPTH if self.depth is None else self.depth)
        tensors, config = self._trained
        network = network_of_config(config["network"], tensors)
        depth = config["depth"] if self.depth is None else self.depth
        reranker = DocumentGraphRerank(network, parser=self._cache, depth=depth, together=config["together"])
        if config["parser"] != reranker.parser.name:
            raise InvalidArgumentError(
                f"{self.checkpoint} was trained with the parser {config['parser']!r}, this is {reranker.parser.name!r}; pass "
                "parser=."
            )
        return reranker


def grag_reranker(
    checkpoint: str | Path | None = None,
    network: Network | None = None,
    *,
    parser: Any = None,
    depth: int | None = None,
    embedding: str | None = None,
) -> DocumentGraphRerank:
    """Return the operator of a checkpoint or a network; an untrained one if neither is given. Log a warning if it is not trained.

    `embedding` is the name of the model of the vectors, if known. Raises InvalidArgumentError if both a checkpoint and a network
    are given, the checkpoint does not match the parser or the embedding model, or it is not one of G-RAG.
    """
    for part in _untrained(checkpoint, network):
        _logger.warning("G-RAG: %s.", part.note)
    return GRAG(checkpoint=checkpoint, network=network, parser=parser, depth=depth)._reranker(embedding)


def _untrained(checkpoint: str | Path | None, network: Network | None) -> tuple[Untrained, ...]:
    if checkpoint is None and network is None:
        return (_UNTRAINED,)
    return (_RANDOM,) if isinstance(network, DocumentGraphNetwork) and not network.trained else ()
