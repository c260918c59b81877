"""What an index holds: a corpus graph, its signals, where its edges come from, and its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any, Self

import torch
from torch import Tensor

from graph_retrievers.arguments import check_pickle
from graph_retrievers.cache import SizedCache
from graph_retrievers.construction.changes import EdgeSource
from graph_retrievers.construction.saved import picklable_sources
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.embedding import Embedding, as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import BiEncoder, RelevanceModel
from graph_retrievers.signals.signal import Signal, VectorSignal

__all__ = ["IndexParts", "check_not_empty"]

# Scopes that are kept: so many, and so many times the nodes of the index in all.
_SCOPES, _COPIES = 1000, 2


def check_not_empty(nodes: Sized) -> None:
    """Raise EmptyGraphError if there are no nodes."""
    if len(nodes) == 0:
        raise EmptyGraphError("The corpus is empty: an index needs at least one node.")


class IndexParts:
    """The parts of :class:`~graph_retrievers.index.GraphIndex`, which says what they are; checked, and read by name."""

    def __init__(
        self,
        graph: CorpusGraph,
        signals: Mapping[str, Signal] | None = None,
        *,
        embedding: Any = None,
        relevance: Any = None,
        edge_sources: Iterable[tuple[Any, int]] | None = None,
    ) -> None:
        check_not_empty(graph)
        self.graph, self.signals = graph, dict(signals or {})
        self.rows: Tensor | None = None
        self._scopes = SizedCache(_SCOPES, _COPIES * len(graph))
        for name, signal in self.signals.items():
            if not isinstance(signal, Signal):
                raise InvalidArgumentError(f"Signal {name!r} is a {type(signal).__name__}; expected a Signal.")
            if name in ("dense", "bm25") and signal.covers != "nodes":
                raise InvalidArgumentError(f"Signal {name!r} covers edges; give it another name, such as 'edge_{name}'.")
            rows = graph.num_edges if signal.covers == "edges" else len(graph)
            if len(signal) != rows:
                raise DimensionMismatchError(
                    f"Signal {name!r} covers {len(signal)} {signal.covers}, the graph has {rows}; expected one row for each."
                )
        given = [(None, graph.num_edges)] if edge_sources is None else edge_sources
        self.edge_sources = tuple(EdgeSource(spec, rows) for spec, rows in given)
        if sum(source.rows for source in self.edge_sources) != graph.num_edges:
            raise DimensionMismatchError(f"edge_sources {shown(self.edge_sources, 200)} do not add up to {graph.num_edges} edges.")
        self.embedding: Embedding | None = as_embedding(embedding) if embedding is not None else None
        self.relevance: RelevanceModel = as_relevance_model(relevance) if relevance is not None else BiEncoder(self.embedding)

    def __copy__(self) -> Self:
        """Return the index itself, which does not change."""
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the index itself, which does not change."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; raise InvalidArgumentError if a model cannot be pickled."""
        check_pickle("This index", {"embedding": self.embedding, "relevance": self.relevance})
        return self.__dict__ | {"edge_sources": picklable_sources(self.edge_sources)}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.graph)

    def __repr__(self) -> str:
        """Return the sizes and the signals of the index."""
        return f"GraphIndex({self.graph!r}, signals={list(self.signals)}, relevance={self.relevance.name!r})"

    @property
    def device(self) -> torch.device:
        """The device all tensors live on."""
        return self.graph.device

    @property
    def embedding_name(self) -> str:
        """Name of the embedding model, or an empty string."""
        model = self.embedding
        return "" if model is None else str(getattr(model, "name", getattr(model, "model", type(model).__name__)))

    def signal(self, name: str) -> Signal:
        """Return a signal by name; the MissingSignalError of a missing one says how to build it."""
        if name in self.signals:
            return self.signals[name]
        hints = {"dense": "build it with embedding= or vectors=", "bm25": "build it with bm25=True"}
        hint = hints.get(name, "build it with edge_signals=True" if name.startswith("edge_") else "pass it in signals=")
        called = {"dense": "vectors", "bm25": "BM25 scores"}.get(name, f"signal {name!r}")
        there = ", ".join(self.signals) or "none"
        raise MissingSignalError(f"This index has no {called}; {hint}. Signals it has: {there}.")

    @property
    def dense(self) -> VectorSignal:
        """The vectors of the nodes; MissingSignalError if the index has none."""
        signal = self.signal("dense")
        if not isinstance(signal, VectorSignal):
            raise MissingSignalError(f"The signal 'dense' is a {type(signal).__name__}; expected a VectorSignal.")
        return signal

    @property
    def bm25(self) -> Signal:
        """BM25 over the nodes; MissingSignalError if the index has none."""
        return self.signal("bm25")

    @property
    def has_dense(self) -> bool:
        """Whether the index holds vectors of the nodes."""
        return "dense" in self.signals

    @property
    def has_bm25(self) -> bool:
        """Whether the index holds BM25 over the nodes."""
        return "bm25" in self.signals

    def _own_relevance(self) -> RelevanceModel | None:
        """Return the relevance model, None for the one that follows the embedding model."""
        follows = isinstance(self.relevance, BiEncoder) and self.relevance.embedding is self.embedding
        return None if follows else self.relevance
