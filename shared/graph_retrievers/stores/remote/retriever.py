"""Retrievers in memory, run on what they need of a graph and of vectors that lie elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, shown
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.adaptive_reranking import AdaptiveReranking
from graph_retrievers.operators.feedback_search import FeedbackSearch
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.mor import MixedTraversal, TrajectoryReranker
from graph_retrievers.operators.operator import Composite, Loop, Operator, Pipeline
from graph_retrievers.operators.path_search import PathSearch
from graph_retrievers.operators.rerank import Rerank
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.vector_search import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.queries import Queries
from graph_retrievers.retrievers.protocol import BaseRetriever, Call
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.signals.embedding import as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.stores.remote.pages import Incomplete, Limits, Pages, asked_of
from graph_retrievers.stores.remote.partial import (
    KeptEmbedding,
    KeptRelevance,
    LocalSignal,
    PartialGraph,
    StoreVectors,
    WholeGraphError,
)
from graph_retrievers.stores.remote.ports import GraphStore, VectorStore

__all__ = ["RemoteIndex", "RemoteRetriever"]

# Nodes that every partial index holds, so that small graphs are told apart: WalkFusion takes a tenth of the nodes as seeds where
# that is less than 20, and retrievers return at most all nodes.
_SAMPLE = 200

# Operators that read the graph and the signals by search, by neighbours of nodes and by scores of pairs alone.
_LOCAL = {
    *(VectorSearch, BM25Search, HybridSearch, FeedbackSearch, Rerank, GRanker, STeX, AdaptiveReranking, PathSearch),
    *(MixedTraversal, TrajectoryReranker),
}


class RemoteIndex:
    """A graph in a database, with vectors in a vector store.

    An index keeps what it reads first: the number of nodes, a sample of them, the width of the vectors, and types. After the graph
    or the vectors have changed, make a new one.

    Parameters
    ----------
    graph : GraphStore
        Such as :class:`~graph_retrievers.stores.cypher.CypherGraphStore`.
    vectors : VectorStore, optional
        The signal ``"dense"``, compared by cosine. Every node has a vector in it under its id.
    signals : mapping of str to Signal, optional
        Signals over all nodes that this process holds, in the order in which the graph was written, such as ``"bm25"``.
    embedding, relevance : object, optional
        Models, as for :class:`~graph_retrievers.index.GraphIndex`.
    include_titles : bool, default True
        Whether the relevance model reads ``title + ". " + text``.
    max_round_trips : int, default 100
        Round trips to each engine that one batch of queries may take.
    max_nodes : int, default 100000
        Nodes, and edges, that one batch of queries may fetch.
    timeout : float, default 30.0
        Seconds in which the vector store must answer. A database has its own.

    Raises
    ------
    EmptyGraphError
        If the database has no node.
    DimensionMismatchError
        If a signal covers another number of nodes than the database has.
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
        signals: Mapping[str, Signal] | None = None,
        embedding: Any = None,
        relevance: Any = None,
        include_titles: bool = True,
        max_round_trips: int = 100,
        max_nodes: int = 100_000,
        timeout: float = 30.0,
    ) -> None:
        self.graph, self.vectors, self.signals, self.include_titles = graph, vectors, dict(signals or {}), include_titles
        self.embedding = None if embedding is None else as_embedding(embedding)
        self.relevance = None if relevance is None else as_relevance_model(relevance)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < threading.TIMEOUT_MAX:
            raise InvalidArgumentError(f"timeout must be a number of seconds above 0, got {shown(timeout, 100)}.")
        self.limits = Limits(positive("max_round_trips", max_round_trips), positive("max_nodes", max_nodes), timeout)
        if not isinstance(graph, GraphStore) or not isinstance(vectors, (VectorStore, type(None))):
            raise InvalidArgumentError(
                f"Expected a GraphStore and a VectorStore, got {type(graph).__name__} and {type(vectors).__name__}; wrap them, as "
                "CypherGraphStore(database) and LangChainVectors(store) do."
            )
        self.size, self._sample = asked_of("graph store", graph.sample, _SAMPLE)
        if not self.size:
            raise EmptyGraphError("The database has no node of the graph; write one with write_graph.")
        for name, signal in self.signals.items():
            if not isinstance(signal, Signal) or isinstance(signal, VectorSignal) or signal.covers != "nodes":
                raise InvalidArgumentError(
                    f"Signal {name!r} is {shown(signal)}; expected one over the words of nodes, such as BM25."
                )
            if len(signal) != self.size:
                raise DimensionMismatchError(f"Signal {name!r} covers {len(signal)} nodes, the database has {self.size}.")
        pages = self.pages(1)
        pages.vectors.add(self._sample.nodes[0].id)
        if vectors is not None:
            pages.fetch()
        self.dimension = pages.dimension
        self._schema: Any = None

    def __repr__(self) -> str:
        """Return the number of nodes and the signals."""
        signals = [*(["dense"] if self.vectors is not None else []), *self.signals]
        return f"RemoteIndex({self.graph!r}, nodes={self.size}, signals={signals})"

    def __deepcopy__(self, memo: Any) -> RemoteIndex:
        """Return the index itself, which copies of a retriever share."""
        return self

    def pages(self, k: int) -> Pages:
        """Return the state of a new call, with min(`k`, N) nodes of the graph or more."""
        if k > len(self._sample.nodes) and len(self._sample.nodes) < self.size:
            _, self._sample = asked_of("graph store", self.graph.sample, k)
        pages = Pages(self.graph, self.vectors, self.limits, getattr(self, "dimension", 0), self.size)
        pages.take(self._sample)
        return pages

    def read_schema(self) -> None:
        """Read the node types, and what joins them, once: a retriever that checks plans needs them."""
        if self._schema is None:
            self._schema = asked_of("graph store", self.graph.schema)

    def partial(self, pages: Pages, models: Mapping[str, Any] | None = None, template: bool = False) -> GraphIndex:
        """Return the index of what is fetched."""
        graph = PartialGraph(pages, self.include_titles, self._schema)
        signals: dict[str, Signal] = {} if self.vectors is None else {"dense": StoreVectors(graph, "dense")}
        signals |= {name: LocalSignal(graph, name, whole) for name, whole in self.signals.items()}
        index = GraphIndex(graph, signals, **(models or self.models(pages)))
        graph.template = template
        return index

    def models(self, pages: Pages) -> dict[str, Any]:
        """Return the models for one call, which keep what they computed."""
        return {
            "embedding": None if self.embedding is None else KeptEmbedding(self.embedding),
            "relevance": None if self.relevance is None else KeptRelevance(self.relevance, pages),
        }


class RemoteRetriever(BaseRetriever):
    """A retriever in memory on a :class:`RemoteIndex`: the same ids, scores and paths, from what it reads of the graph.

    The retriever runs on the nodes, edges and vectors fetched so far. What it reads beyond them, such as the neighbours of all
    nodes of a frontier, is fetched together, and it runs again, until nothing is missing. Models see each query and pair once.

    Parameters
    ----------
    index : RemoteIndex
    system : callable
        From a :class:`~graph_retrievers.index.GraphIndex` and `options` to a
        :class:`~graph_retrievers.retrievers.retriever.Retriever`: a class such as ``FastInsight``.
    **options
        Keywords of `system`.

    Raises
    ------
    InvalidArgumentError
        If the retriever reads what follows from the whole graph, such as PageRank, names, or what the form of WalkFusion is
        chosen by.

    Notes
    -----
    FastInsight, GAR, MoR, WalkFusion with ``form="links"``, and compositions of their operators can run. With a budget of B
    nodes and b nodes a round, FastInsight and GAR take B / b + 1 round trips to the graph, WalkFusion 3, and MoR 2 and one for
    each step of the longest path, however many queries a batch has. A search that has to go deeper, because of a filter or because
    it ends in a tie, takes more: it goes four times as deep each time. A note on every result has the numbers.

    A filter is a mapping, and is evaluated here on fetched nodes. ``scope`` is refused: degrees and word statistics would be those
    of the whole graph. Hits have no ``plain_rank``, and their edges no metadata. The graph must stand still during a call.

    Examples
    --------
    >>> from graph_retrievers import FastInsight
    >>> from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore
    >>> database = CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password"))  # doctest: +SKIP
    >>> index = RemoteIndex(CypherGraphStore(database), vectors=store, embedding=model)  # doctest: +SKIP
    >>> hits = RemoteRetriever(index, FastInsight, budget=50).retrieve("Which loom?")  # doctest: +SKIP
    """

    def __init__(self, index: RemoteIndex, system: Callable[..., Retriever], **options: Any) -> None:
        name = getattr(system, "__name__", type(system).__name__)
        try:
            made = system(index.partial(index.pages(1), template=True), **options)
        except WholeGraphError as error:
            hint = ' Give form="links".' if name == "WalkFusion" else ""
            raise InvalidArgumentError(f"{name} cannot run on a graph in a database: it reads {error}.{hint}") from error
        if not isinstance(made, Retriever):
            raise InvalidArgumentError(f"{name} gave {shown(made)}; expected a Retriever, which runs operators on an index.")
        parts = list(_parts(made.operator))
        for part in parts:
            if type(part) not in _LOCAL:
                raise InvalidArgumentError(
                    f"{made.name} cannot run on a graph in a database: {type(part).__name__} is not known to read only "
                    "neighbours and searches. Load the graph into a GraphIndex."
                )
        self._traversal = next((part for part in parts if isinstance(part, MixedTraversal)), None)
        if self._traversal is not None:
            index.read_schema()
        self.index, self._made, self.name, self.k, self.inputs = index, made, made.name, made.k, made.inputs

    def __repr__(self) -> str:
        """Return the retriever and the index."""
        return f"RemoteRetriever({self.index!r}, {self._made!r})"

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call; the queries of a batch share round trips."""
        for name, condition in call.filters.items():
            if name == "scope" or not isinstance(condition, Mapping):
                why = "counts and statistics would be those of the whole graph" if name == "scope" else "expected a mapping"
                raise InvalidArgumentError(f"{name} is {shown(condition)}, which a graph in a database does not take here: {why}.")
        results: list[Hits] = []
        for start in range(0, len(call.queries), self._made.batch_size):
            part = slice(start, start + self._made.batch_size)
            results += self._batch(
                replace(
                    call,
                    queries=call.queries[part],
                    vectors=call.vectors[part] if hasattr(call.vectors, "__getitem__") else call.vectors,
                    inputs={name: values[part] for name, values in call.inputs.items()},
                )
            )
        return results

    def _batch(self, call: Call) -> list[Hits]:
        pages = self.index.pages(call.k)
        models = self.index.models(pages)
        if self._traversal is not None and self._traversal.planner is not None:
            # Asked once, not in every run.
            queries = Queries.of(self.index.partial(pages, models), call.queries, inputs=call.inputs)
            plans = self._traversal.plans(queries.texts, queries.input("plan"), queries.index.graph)
            call = replace(call, inputs={**call.inputs, "plan": plans})
        while True:
            found = None
            try:
                found = self._made.over(self.index.partial(pages, models)).search(call)
            except Incomplete:
                pass
            if found is not None and not pages.incomplete():
                note = pages.note()
                return [hits._of(replace(hit, plain=None) for hit in hits).noted(note) for hits in found]
            pages.fetch()


def _parts(operator: Operator) -> Iterator[Operator]:
    """Yield the operators that run; a fusion leaves out lists of weight 0."""
    if type(operator) not in (Pipeline, Loop, ReciprocalRankFusion):
        yield operator
        return
    assert isinstance(operator, Composite)
    weights = operator.weights if isinstance(operator, ReciprocalRankFusion) else [1.0] * len(operator.operators)
    for part, weight in zip(operator.operators, weights, strict=True):
        if weight:
            yield from _parts(part)
