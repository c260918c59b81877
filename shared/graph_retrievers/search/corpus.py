"""Corpus: what a system can read before a question, wherever the nodes lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch

from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.signals.embedding import Embedding, model_name
from graph_retrievers.signals.relevance import RelevanceModel

__all__ = ["Corpus"]


class Corpus(ABC):
    """The signals, the models and the facts of a corpus: what a system reads to compose its operators.

    Base class of :class:`~graph_retrievers.index.GraphIndex`, which has the nodes in memory, and of
    :class:`~graph_retrievers.stores.remote.RemoteIndex`.

    Attributes
    ----------
    graph : CorpusGraph
        For systems that read all of it; WholeGraphError if it is not in memory.
    signals : mapping of str to signal
        By name; each has `kind`, `covers` and `reads`, those of vectors also a `dimension`.
    embedding : Embedding or None
    relevance : RelevanceModel
    facts : GraphFacts
        Of the whole graph: here :func:`~graph_retrievers.systems.traits.holds_passages` and others read.
    device : torch.device
        The device of all tensors.
    rows : Tensor, shape [N], int64, or None
        Of the index of a scope in memory (see :meth:`within`), the row of each node in the original index.
    """

    graph: CorpusGraph
    signals: Mapping[str, Any]
    embedding: Embedding | None
    relevance: RelevanceModel
    facts: GraphFacts
    device: torch.device
    rows: torch.Tensor | None = None

    @property
    @abstractmethod
    def is_scope(self) -> bool:
        """Whether this is a part of a larger corpus, which a scope selects."""

    @abstractmethod
    def within(self, scope: Any) -> Corpus:
        """Return the part of this corpus whose nodes satisfy a filter, as if there were no other nodes."""

    @property
    def embedding_name(self) -> str:
        """Name of the embedding model, or an empty string."""
        return model_name(self.embedding)

    def signal(self, name: str) -> Any:
        """Return a signal by name; for a missing signal, the MissingSignalError says how to build it."""
        if name in self.signals:
            return self.signals[name]
        hints = {"dense": "build it with embedding= or vectors=", "bm25": "build it with bm25=True"}
        hint = hints.get(name, "build it with edge_signals=True" if name.startswith("edge_") else "pass it in signals=")
        label = {"dense": "vectors", "bm25": "BM25 scores"}.get(name, f"signal {name!r}")
        names = ", ".join(self.signals) or "none"
        raise MissingSignalError(f"This index has no {label}; {hint}. Signals it has: {names}.")

    @property
    def dense(self) -> Any:
        """The vectors of the nodes; MissingSignalError if the index has none."""
        signal = self.signal("dense")
        if signal.reads != "vector":
            raise MissingSignalError(f"The signal 'dense' is a {type(signal).__name__}; expected a VectorSignal.")
        return signal

    @property
    def has_dense(self) -> bool:
        """Whether the index has vectors of the nodes."""
        return "dense" in self.signals

    @property
    def has_sentences(self) -> bool:
        """Whether sentences and the names in them can be read: those of texts in memory are found when they are needed."""
        return True

    @property
    def looks_up(self) -> bool:
        """Whether :meth:`look_up` reads numbers: those of an index that finds references by number, in memory or in PostgreSQL."""
        return False

    def look_up(self, question: str) -> list[list[int]]:
        """Return the rows of the nodes of each unit that a question cites by number, such as "Article 17 GDPR"."""
        return []

    @property
    def has_bm25(self) -> bool:
        """Whether the index has BM25 over the nodes."""
        return "bm25" in self.signals
