"""A graph in a database, with its vectors, words and models, for retrievers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import Context
from copy import copy
from threading import TIMEOUT_MAX
from typing import Any

import numpy as np
import torch

from graph_retrievers.arguments import positive, seconds
from graph_retrievers.cache import Cache, SizedCache
from graph_retrievers.construction.numbered_references import LookUp
from graph_retrievers.construction.references import references
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.description import GraphDescription
from graph_retrievers.graph.facts import WholeGraphError
from graph_retrievers.graph.filters import filter_key
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.stores.remote.facts import StoredEdgeVectors, StoredFacts, StoredVectors, StoredWords
from graph_retrievers.stores.remote.pages import FetchedGraph, Limits, call_engine, within
from graph_retrievers.stores.remote.ports import (
    EdgeVectorStore,
    GraphStore,
    NumberedGraphStore,
    ScopedVectorStore,
    ScopedWordStore,
    SentenceStore,
    VectorStore,
    WordStore,
)
from graph_retrievers.stores.remote.scope import graph_of_scope, store_of_scope

__all__ = ["RemoteIndex"]

# How many scopes are kept at most, and how many nodes they have at most in all, as a multiple of those of the graph.
_SCOPES, _COPIES = 1000, 2


class RemoteIndex(Corpus):
    """A graph in a database, with vectors in a vector store.

    An index keeps the number of nodes, the width of the vectors, and types as first read. Create a new one after the graph or the
    vectors have changed.

    Parameters
    ----------
    graph : GraphStore
        Such as :class:`~graph_retrievers.stores.cypher.CypherGraphStore`.
    vectors : VectorStore, optional
        The signal ``"dense"``, compared by cosine. Every node has a vector in it under its id.
    words : WordStore, optional
        The signal ``"bm25"``, such as :class:`~graph_retrievers.stores.qdrant.QdrantWords`. It also has the properties by which
        retrievers choose their form, so that they run as in memory.
    edge_vectors : EdgeVectorStore, optional
        The signal ``"edge_dense"``, compared by cosine, such as :class:`~graph_retrievers.stores.postgres.PostgresEdgeVectors`.
    sentences : SentenceStore, optional
        The sentences of passages and the names in them, which LinearRAG reads, such as
        :class:`~graph_retrievers.stores.postgres.PostgresSentences`.
    signals : mapping of str to Signal, optional
        Signals over all nodes in the memory of this process, in the order in which the graph was written.
    embedding, relevance : object, optional
        Models, as for :class:`~graph_retrievers.index.GraphIndex`.
    include_titles : bool, optional
        Whether the relevance model reads ``title + ". " + text``; by default as for the index that filled `words`, else True.
    max_round_trips : int, default 100
        Maximum number of round trips to each engine for one batch of queries.
    max_nodes : int, default 100000
        Maximum numbers of nodes and of edges fetched for one batch of queries.
    timeout : float, default 30.0
        Seconds in which the vector store, and the word store, must answer. A database has its own, PostgreSQL also for these two.
    reopen : callable, optional
        Returns an index of the present state, for retrievers on an index that was written again since it was opened: where a store
        raises StaleIndexError.
    pinned : callable, optional
        Returns a context manager of an index of the present state, which writers do not change while it is open: for calls that
        other writes have overtaken twice.

    Raises
    ------
    EmptyGraphError
        If the database has no node.
    DimensionMismatchError
        If a signal, or the words, cover a different number of nodes than the database.
    DatabaseError
        If an engine fails, or does not answer in time.
    InvalidArgumentError
        If `timeout` is not a number of seconds above 0 that the system can wait.
    """

    def __init__(
        self,
        graph: GraphStore,
        *,
        vectors: VectorStore | None = None,
        words: WordStore | None = None,
        edge_vectors: EdgeVectorStore | None = None,
        sentences: SentenceStore | None = None,
        signals: Mapping[str, Signal] | None = None,
        embedding: Any = None,
        relevance: Any = None,
        include_titles: bool | None = None,
        max_round_trips: int = 100,
        max_nodes: int = 100_000,
        timeout: float = 30.0,
        reopen: Callable[[], RemoteIndex] | None = None,
        pinned: Callable[[], AbstractContextManager[RemoteIndex]] | None = None,
    ) -> None:
        self.store, self.vectors, self.words, self.edge_vectors = graph, vectors, words, edge_vectors
        self.sentences, self.own_signals = sentences, dict(signals or {})
        self.embedding = None if embedding is None else as_embedding(embedding)
        self.relevance = BiEncoder(self.embedding) if relevance is None else as_relevance_model(relevance)
        trips, most = positive("max_round_trips", max_round_trips), positive("max_nodes", max_nodes)
        self.limits = Limits(trips, most, seconds("timeout", timeout))
        if not isinstance(graph, GraphStore) or not isinstance(vectors, (VectorStore, type(None))):
            raise InvalidArgumentError(
                f"Expected a GraphStore and a VectorStore, got {type(graph).__name__} and {type(vectors).__name__}; wrap them, as "
                "CypherGraphStore(database) and LangChainVectors(store) do."
            )
        if not isinstance(words, (WordStore, type(None))) or (words is not None and "bm25" in self.own_signals):
            raise InvalidArgumentError(
                f"words is {shown(words)}; expected a WordStore, such as QdrantWords(client, collection), in place of the signal "
                "'bm25'."
            )
        self.size, page = call_engine("graph store", graph.sample, 1)
        if not self.size:
            raise EmptyGraphError("The database has no node of the graph; write one with write_graph.")
        if not isinstance(edge_vectors, (EdgeVectorStore, type(None))):
            raise InvalidArgumentError(f"edge_vectors is {shown(edge_vectors)}; expected an EdgeVectorStore.")
        if not isinstance(sentences, (SentenceStore, type(None))):
            raise InvalidArgumentError(f"sentences is {shown(sentences)}; expected a SentenceStore.")
        for name, signal in self.own_signals.items():
            if not isinstance(signal, Signal) or isinstance(signal, VectorSignal) or signal.covers != "nodes":
                raise InvalidArgumentError(
                    f"Signal {name!r} is {shown(signal)}; expected one over the words of nodes, such as BM25."
                )
            if len(signal) != self.size:
                raise DimensionMismatchError(f"Signal {name!r} covers {len(signal)} nodes, the database has {self.size}.")
        traits = {} if words is None else call_engine("word store", words.traits)
        self.include_titles = bool(traits.get("include_titles", True) if include_titles is None else include_titles)
        if traits.get("nodes", self.size) != self.size:
            raise DimensionMismatchError(
                f"The word store was filled with {traits['nodes']:,} nodes, and the database has {self.size:,}: fill both from one "
                "index."
            )
        # A store that knows the width of its vectors is not asked for one, which may have been deleted.
        self.dimension = getattr(vectors, "dimension", 0)
        self._reopen, self.pinned, self._newer = reopen, pinned, list[RemoteIndex]()
        self.members: frozenset[str] | None = None
        self.device = torch.device("cpu")
        self.facts: StoredFacts = StoredFacts(self.size, traits, self.read_schema)
        self._scopes = SizedCache(_SCOPES, _COPIES * self.size)
        self._numbers = Cache()
        pages = self.pages()
        pages.take(page)
        if vectors is not None and not self.dimension:
            pages.vectors_of(np.array([page.nodes[0].position]))
            self.dimension = pages.dimension

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.size

    def __repr__(self) -> str:
        """Return the number of nodes and the signals."""
        return f"RemoteIndex({self.store!r}, nodes={self.size}, signals={list(self.signals)})"

    @property
    def signals(self) -> dict[str, Any]:  # type: ignore[override]
        """The signals by name: those of the stores, and those in the memory of this process."""
        signals: dict[str, Any] = {} if self.vectors is None else {"dense": StoredVectors(self.size, self.dimension)}
        if self.edge_vectors is not None:
            signals["edge_dense"] = StoredEdgeVectors(self.edge_vectors.dimension)
        signals |= self.own_signals
        return signals if self.words is None else signals | {"bm25": StoredWords()}

    @property
    def has_sentences(self) -> bool:
        """Whether a store has the sentences of passages and the names in them."""
        return self.sentences is not None

    @property
    def looks_up(self) -> bool:
        """Whether units can be found by the numbers that questions name: where the store lists its nodes, and has numbers."""
        return isinstance(self.store, NumberedGraphStore) and self.store.has_numbers

    def look_up(self, question: str) -> list[list[int]]:
        """Return the rows of the nodes of each unit that a question cites by number, such as "Article 17 GDPR".

        All nodes are read at the first such question, once; a time limit of the caller ends the wait for it, but not the reading,
        so that a later question finds the numbers.
        """
        if not self.looks_up or not references(question):
            return []
        positions, units = within(TIMEOUT_MAX, self._numbers.get, "numbers", self._read_numbers, engine="graph store")
        return [[positions[place] for place in places] for places in units.rows(question)]

    def _read_numbers(self) -> tuple[list[int], LookUp]:
        """Return the positions of all nodes, and the numbers of units by the places of nodes among these."""
        assert isinstance(self.store, NumberedGraphStore)
        # An empty context has no time limit.
        stored_nodes = Context().run(list, self.store.list_nodes())
        nodes = [Node(node.id, node.text or "", node.title, node.type, node.metadata, node.origin or {}) for node in stored_nodes]
        return [node.position for node in stored_nodes], LookUp(nodes)

    @property
    def graph(self) -> CorpusGraph:  # type: ignore[override]
        """Refuse what reads the whole graph."""
        raise WholeGraphError("all nodes and edges")

    @property
    def is_scope(self) -> bool:
        """Whether this is the index of a scope."""
        return self.members is not None

    def __deepcopy__(self, memo: Any) -> RemoteIndex:
        """Return the index itself, which copies of a retriever share."""
        return self

    def pages(self) -> FetchedGraph:
        """Return where a call keeps what it fetches."""
        stores = (self.store, self.vectors, self.words, self.edge_vectors, self.sentences)
        return FetchedGraph(*stores, self.limits, self.size, self.dimension, self.members)

    @property
    def newest(self) -> RemoteIndex:
        """The index as it was opened last: this one, unless :meth:`open_again` has opened it again."""
        return self._newer[0] if self._newer else self

    def open_again(self) -> bool:
        """Open the index in its present state, as `newest` of this one; return whether that is possible."""
        if self._reopen is None:
            return False
        index = self._reopen()
        # All indexes that were opened one after the other share this list.
        index._newer = self._newer
        self._newer[:] = [index]
        return True

    def within(self, scope: Mapping[str, Any]) -> RemoteIndex:
        """Return the index of the nodes that satisfy a filter and of the edges between them, as if there were no other nodes.

        :class:`Retriever` uses it for ``scope=``. The filter is part of every query to the database, so that neighbours,
        degrees, weights, titles and types are those of the scope; the ids of its nodes are part of every search of the vector
        store; signals are restricted to it (:meth:`~graph_retrievers.signals.signal.Signal.restricted`). Its ids are read in one
        round trip, and cached as long as :meth:`graph_retrievers.index.GraphIndex.within` caches a scope.

        Parameters
        ----------
        scope : mapping
            See :func:`graph_retrievers.graph.filters.filter_mask`.

        Returns
        -------
        RemoteIndex
            This index, if the scope is ``{}``.

        Raises
        ------
        EmptyGraphError
            If no node is in the scope.
        InvalidArgumentError
            If the filter cannot be part of a query, a store or a signal cannot be restricted to a scope, or the scope has more
            than `max_nodes` nodes.
        """
        if not isinstance(scope, Mapping):
            raise InvalidArgumentError(f"scope is {shown(scope)}, which a database cannot read; expected a mapping.")
        if not scope:
            return self
        # The nodes are not known here, so that only a mapping is a key; no nodes are needed to make it.
        kind, key = filter_key(CorpusGraph([], []), scope)
        return self._scopes.get(key, lambda: self._within(scope)) if kind == "mapping" else self._within(scope)

    def _within(self, scope: Mapping[str, Any]) -> RemoteIndex:
        index, graph = copy(self), graph_of_scope(self.store, scope, self.size, self.limits.nodes)
        index.store, index.size, index.members = graph, len(graph.ids), frozenset(graph.ids)
        index.vectors = None if self.vectors is None else store_of_scope(self.vectors, ScopedVectorStore, graph.ids)
        index.words = None if self.words is None else store_of_scope(self.words, ScopedWordStore, graph.ids)
        index.edge_vectors = None if self.edge_vectors is None else self.edge_vectors.within(graph.ids)
        index.sentences = None if self.sentences is None else self.sentences.within(graph.ids)
        index.own_signals = {name: signal.restricted(graph.rows, None) for name, signal in self.own_signals.items()}
        # Most facts are of the whole graph; the types of the scope, and the relations between them, are read when they are needed.
        traits = {name: value for name, value in self.facts.traits.items() if name != "schema triples"}
        if len(traits.get("type_names", ())) > 1:
            del traits["type_names"]
        index.facts = StoredFacts(index.size, traits, index.read_schema)
        index._scopes = SizedCache(_SCOPES, _COPIES * index.size)
        index._numbers = Cache()
        return index

    def describe(self) -> GraphDescription:
        """Return a description of what the database holds, with advice; ``print`` shows it as text.

        See :class:`~graph_retrievers.graph.description.GraphDescription`. InvalidArgumentError for a scope, and for a database
        that does not count, as only PostgreSQL does; StaleIndexError if the index was written again since it was opened.
        """
        describe = getattr(self.store, "describe", None)
        if describe is None:
            raise InvalidArgumentError(
                f"{type(self.store).__name__} cannot be described; describe the index that was written there."
            )
        return describe(tuple(self.signals), self.embedding)  # type: ignore[no-any-return]

    def read_schema(self) -> None:
        """Read the node types, and the relations between them, once: a retriever that checks plans needs them."""
        if "schema triples" not in self.facts.traits:
            types, triples = call_engine("graph store", self.store.schema)
            self.facts.traits |= {"type_names": list(types), "schema triples": list(triples)}
