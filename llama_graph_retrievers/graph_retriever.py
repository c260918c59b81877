"""GraphRetriever: any engine retriever as it stands; IndexRetriever: what the named systems share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypedDict, Unpack

from llama_index.core import instrumentation
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator
from graph_retrievers.retrievers.registry import build_retriever
from graph_retrievers.retrievers.retriever import Retriever
from llama_graph_retrievers.building import FromNodes
from llama_graph_retrievers.filters import engine_filter
from llama_graph_retrievers.nodes import node_lookup, scored_nodes
from llama_graph_retrievers.query_vectors import QueryVectors

__all__ = ["GraphRetriever", "IndexOptions", "IndexRetriever", "RetrieverOptions"]

dispatcher = instrumentation.get_dispatcher(__name__)


class RetrieverOptions(TypedDict, total=False):
    """Keywords that every retriever of this package takes; :class:`GraphRetriever` says what they mean."""

    similarity_top_k: int | None
    embed_model: Any
    filters: MetadataFilters | Filter | None
    seed_filters: MetadataFilters | Filter | None
    traversal_filters: MetadataFilters | Filter | None
    nodes: Iterable[BaseNode] | BaseDocumentStore | None
    inputs: Mapping[str, Callable[[str], Any]] | None
    provenance: bool
    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


class GraphRetriever(FromNodes, BaseRetriever):
    """Any engine retriever, a composition of one's own among them.

    Parameters
    ----------
    retriever : graph_retrievers.retrievers.Retriever
        The engine retriever.
    similarity_top_k : int, optional
        Nodes to return; 0 returns none. By default the engine retriever's own k, which is 10: LlamaIndex' usual 2
        would cut off the further hops that a graph is searched for.
    embed_model : BaseEmbedding, optional
        Embeds queries; what :func:`graph_retrievers.signals.embedding.as_embedding` takes will do too. By default
        the model of the index does, and ``Settings.embed_model`` where it has none. It is asked only if an operator
        reads the query's vector and the ``QueryBundle`` brings none.
    filters : MetadataFilters, mapping or callable, optional
        Which nodes may be *returned*; traversal may pass through others. The engine's own filters
        (:func:`graph_retrievers.graph.filters.filter_mask`) do too.
    seed_filters, traversal_filters : MetadataFilters, mapping or callable, optional
        Which nodes may start a traversal, and which may be walked to.
    nodes : iterable of BaseNode or document store, optional
        The nodes the index was made of. Hits are then copies of these, with their relationships and of their class;
        otherwise they are ``TextNode`` objects made of what the index holds.
    inputs : mapping from str to callable, optional
        What the engine retriever reads besides the query, such as ``entities`` or ``plan``: from the name of an input to
        a function of the query. LlamaIndex has no other place for it where it calls a retriever itself.
    provenance : bool, default True
        Whether the metadata of a hit say how it was found: ``operator``, ``path`` and, where the retriever has
        something to note, ``notes``. Neither embedding models nor language models are shown them, and a value of
        the node's own under one of these names is kept as ``original_<name>``. Pass False inside a
        ``QueryFusionRetriever``: it tells nodes apart by a hash of their metadata, and would take one node found in
        two ways for two.
    callback_manager, object_map, objects, verbose : optional
        As for every LlamaIndex retriever. `objects` are returned (and followed) like `nodes`.

    Attributes
    ----------
    engine : graph_retrievers.retrievers.Retriever
        The engine retriever.
    index : GraphIndex
        The index it searches.

    Notes
    -----
    Spaces and line breaks around a query, which ``RetrieverTool`` adds, are dropped.

    Examples
    --------
    >>> from graph_retrievers.index import GraphIndex
    >>> from graph_retrievers.operators import BM25Search
    >>> from graph_retrievers.retrievers import Retriever
    >>> index = GraphIndex.from_texts(["Ada wrote the first program.", "Babbage built an engine."])
    >>> GraphRetriever(Retriever(index, BM25Search()), similarity_top_k=1).retrieve("Who built an engine?")[0].text
    'Babbage built an engine.'
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        similarity_top_k: int | None = None,
        embed_model: Any = None,
        filters: MetadataFilters | Filter | None = None,
        seed_filters: MetadataFilters | Filter | None = None,
        traversal_filters: MetadataFilters | Filter | None = None,
        nodes: Iterable[BaseNode] | BaseDocumentStore | None = None,
        inputs: Mapping[str, Callable[[str], Any]] | None = None,
        provenance: bool = True,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(retriever, Retriever):
            raise InvalidArgumentError(
                f"Expected an engine Retriever, got {type(retriever).__name__}; for an index use {type(self).__name__}.from_index."
            )
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)
        self.engine, self.index = retriever, retriever.index
        self.similarity_top_k = retriever.k if similarity_top_k is None else similarity_top_k
        self._embed_model, self._provenance = embed_model, provenance
        self._inputs = dict(inputs or {})
        for name in self._inputs:
            if name not in retriever.inputs:
                known = ", ".join(retriever.inputs) or "none"
                raise UnexpectedArgumentError(f"{retriever.name} reads no input {name!r}; besides the query it reads: {known}.")
        given = {"filter": filters, "seed_filter": seed_filters, "traversal_filter": traversal_filters}
        # Worked out once: the index never changes, and every query would pay for it.
        self._masks: dict[str, Any] = {
            name: filter_mask(self.index.graph, engine_filter(wanted)) for name, wanted in given.items() if wanted is not None
        }
        self._lookups = [node_lookup(objects), node_lookup(nodes)]

    @classmethod
    def from_index(cls, index: GraphIndex, *, system: str | Operator = "fastinsight", **options: Any) -> Self:
        """Return a retriever on an index.

        Parameters
        ----------
        index : GraphIndex
        system : str or Operator, default "fastinsight"
            A name of :func:`graph_retrievers.retrievers.registry.retriever_names`, or operators of one's own.
        **options
            Keywords of the class.
        """
        engine = Retriever(index, system) if isinstance(system, Operator) else build_retriever(system, index)
        return cls(engine, **options)

    @property
    def similarity_top_k(self) -> int:
        """Nodes to return; 0 returns none."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(f"similarity_top_k must be an integer of at least 0, got {value!r}.")
        self._similarity_top_k = value

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._search([query_bundle])[0]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # Tensor work, and most embedding models, would hold the event loop.
        return await asyncio.to_thread(self._retrieve, query_bundle)

    @dispatcher.span
    def retrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return the nodes of each query; the engine runs all of them in lock-step.

        Parameters
        ----------
        queries : sequence of str or QueryBundle, length B
        **inputs
            What else the engine retriever reads, one entry a query, such as ``entities=[["Ada Lovelace"], ...]``; in
            place of what the class's `inputs` would say.

        Returns
        -------
        list of list of NodeWithScore, length B
            What ``retrieve`` gives for each; ``RetrievalStartEvent`` and ``RetrievalEndEvent`` are emitted for each.
        """
        if isinstance(queries, (str, QueryBundle)):
            raise InvalidArgumentError("retrieve_batch takes a list of queries; call retrieve for one.")
        bundles = [QueryBundle(query) if isinstance(query, str) else query for query in queries]
        for bundle in bundles:
            dispatcher.event(RetrievalStartEvent(str_or_query_bundle=bundle))
        found = self._search(bundles, inputs)
        results = [self._handle_recursive_retrieval(bundle, nodes) for bundle, nodes in zip(bundles, found, strict=True)]
        for bundle, nodes in zip(bundles, results, strict=True):
            dispatcher.event(RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes))
        return results

    async def aretrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return what :meth:`retrieve_batch` returns, without holding the event loop."""
        return await asyncio.to_thread(self.retrieve_batch, queries, **inputs)

    def _search(self, bundles: list[QueryBundle], inputs: Mapping[str, Sequence[Any]] | None = None) -> list[list[NodeWithScore]]:
        if self._similarity_top_k == 0:
            return [[] for _ in bundles]
        texts = [bundle.query_str.strip() for bundle in bundles]
        given: dict[str, Any] = dict(inputs or {})
        for name in self._inputs.keys() - given.keys():
            given[name] = [self._inputs[name](text) for text in texts]
        results = self.engine.retrieve_batch(
            texts,
            self._similarity_top_k,
            vectors=QueryVectors(bundles, self._embed_model, self.index.embedding),
            **self._masks,
            **given,
        )
        return [scored_nodes(hits, self._provenance, *self._lookups) for hits in results]


class IndexOptions(RetrieverOptions, total=False):
    """Keywords that every named system takes."""

    backfill: bool


class IndexRetriever(GraphRetriever):
    """A named system of the engine on an index; a subclass gives its name and its knobs.

    Parameters
    ----------
    index : GraphIndex
        What is searched; retrievers may share one.
    knobs : mapping, optional
        Keywords of the engine's class.
    backfill : bool, default True
        Whether vector search (BM25 where the index has no vectors) fills up to `similarity_top_k`, marked by the
        operator "Backfill".
    **options
        Keywords of :class:`~llama_graph_retrievers.GraphRetriever`.
    """

    system: ClassVar[str]
    """Name of the engine's class, as :func:`graph_retrievers.retrievers.registry.build_retriever` knows it."""

    def __init__(
        self,
        index: GraphIndex,
        knobs: Mapping[str, Any] | None = None,
        *,
        backfill: bool = True,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        super().__init__(build_retriever(self.system, index, backfill=backfill, **(knobs or {})), **options)

    @classmethod
    def from_index(cls, index: GraphIndex, **options: Any) -> Self:  # type: ignore[override]
        """Return a retriever on an index; `options` are the keywords of the class."""
        return cls(index, **options)
