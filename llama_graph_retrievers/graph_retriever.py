"""GraphRetriever: any retriever of the engine, or your own, as a LlamaIndex retriever."""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import torch
from llama_index.core import VectorStoreIndex, instrumentation
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.base import BaseIndex
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.arguments import check_keywords, keywords_of, meant
from graph_retrievers.arguments import listed as as_list
from graph_retrievers.cache import Cache, Same
from graph_retrievers.core.limits import in_thread
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, UnexpectedArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.options import CommonOptions
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever, tell_unused_relevance, with_options
from graph_retrievers.retrievers.signatures import Knob, class_knobs, published_settings
from graph_retrievers.signals.embedding import Embedding
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.systems.registry import build_retriever, default_retriever, retriever_class, retriever_names
from llama_graph_retrievers.following import FollowedIndex
from llama_graph_retrievers.metadata_filters import engine_filter
from llama_graph_retrievers.nodes import NodeLookup, NodeSource, scored_nodes
from llama_graph_retrievers.stores import contents, index_nodes, store_metric, tell_lost_edges
from llama_graph_retrievers.vectors import QueryVectors, node_vectors

if TYPE_CHECKING:
    from llama_graph_retrievers.options import DefaultsOptions, IndexOptions

__all__ = ["GraphRetriever", "GraphSearchEvent", "engine_knobs"]

dispatcher = instrumentation.get_dispatcher(__name__)
_logger = logging.getLogger(__name__)


class GraphSearchEvent(BaseEvent):
    """The requests of each step of a search, for one question or for a batch.

    Attributes
    ----------
    questions, hits : int
    steps : list of dict
        One dictionary per call of a backend, with its step, the `request`, the `operators` that made it, the numbers of
        `questions` and `nodes`, and the `seconds`; see :meth:`graph_retrievers.core.trace.Trace.records`.
    """

    questions: int
    hits: int
    steps: list[dict[str, Any]]

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which handlers know the event."""
        return "GraphSearchEvent"


# Vectors whose lengths differ from 1 by less, as after rounding to half precision, are unit vectors: scores are then cosines but
# for this difference, and the order does not depend on it.
_UNIT = 1e-3
# Number of searches before all nodes are looked up in a document store from which many have been deleted.
_ATTEMPTS = 3
# Filters of the engine.
_FILTERS = ("filter", "seed_filter", "traversal_filter", "scope")
# Objects that a warning names.
_NAMED = 10
_DELETED = "nodes were deleted from the document store after this retriever was made; make it again to find new ones"
_DELETED_MEANWHILE = "nodes were deleted from the VectorStoreIndex; ask again, and those that it has then are found"


class GraphRetriever(BaseRetriever):
    """Any retriever of the engine, or your own.

    Parameters
    ----------
    retriever : RetrieverProtocol
        A composition of operators on an index (:class:`graph_retrievers.retrievers.retriever.Retriever`), a retriever that works
        inside a graph database (:class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`), or your own object with the
        same methods (see :class:`graph_retrievers.retrievers.protocol.RetrieverProtocol`).
    similarity_top_k : int, optional
        Nodes to return; 0 returns none. By default the engine retriever's own k, usually 10, because the default of LlamaIndex,
        2, would cut off the later hops of a graph search. Chains and facts follow the nodes.
    embed_model : BaseEmbedding, optional
        Embeds queries; also anything that :func:`graph_retrievers.signals.embedding.as_embedding` accepts. By default the model
        of the engine retriever or its index, and ``Settings.embed_model`` for an index without one. It is called only if the
        engine needs the query's vector and the ``QueryBundle`` has none.
    filters : MetadataFilters, mapping or callable, optional
        Which nodes may be *returned*; a traversal may pass through others. The engine's own filters are accepted too (see
        :func:`graph_retrievers.graph.filters.filter_mask`), in a database only as mappings.
    seed_filters, traversal_filters : MetadataFilters, mapping or callable, optional
        At which nodes a traversal may start, and which it may visit.
    scope : MetadataFilters, mapping or callable, optional
        Which nodes are searched. It acts as all three filters, and no other node influences a score (see
        :meth:`graph_retrievers.index.GraphIndex.within`).
    nodes : iterable of BaseNode, document store or VectorStoreIndex, optional
        The nodes from which the index was built. Hits are then copies of them; otherwise hits are made from the contents of the
        index: text, metadata, excluded keys, templates and relationships. A document store is read at each query: nodes
        that were deleted from it are not returned, and others take their places.
    inputs : mapping from str to callable, optional
        Other inputs of the engine retriever, such as ``entities`` or ``plan``: maps the name of an input to a function of the
        query. When LlamaIndex itself calls a retriever, there is no other way to pass them.
    provenance : bool, default True
        Whether :func:`~llama_graph_retrievers.provenance` returns how each hit was found. It is not part of the metadata, so the
        hashes by which a ``QueryFusionRetriever`` merges nodes do not depend on the query.
    callback_manager, object_map, objects, verbose : optional
        As for every LlamaIndex retriever: a hit that is an ``IndexNode`` is replaced by what its object gives (a node, the nodes of
        a retriever, or the response of a query engine). The object is its own ``obj``, or that of its ``index_id`` in `objects` or
        `object_map`. `objects` are returned like `nodes`; :meth:`from_defaults` also adds them to the index. Objects are not saved
        with an index: pass them again with a loaded one, or hits are the ``IndexNode`` themselves.
    **options
        Keywords of every retriever of the engine, such as ``time_limit``, ``backfill`` and ``types`` (see
        :class:`graph_retrievers.retrievers.retriever.Retriever`), which replace those of the engine retriever; one of your own
        needs a method ``with_options``.

    Attributes
    ----------
    engine : RetrieverProtocol
        The engine retriever.
    index : GraphIndex or None
        The index that the engine retriever searches, if it has one.

    Notes
    -----
    Spaces and line breaks around a query, which ``RetrieverTool`` adds, are removed. Asynchronous calls await the embedding model
    (``aget_query_embedding``) and then the engine retriever's ``aretrieve_batch``, which searches in a thread or awaits a database.
    `retrieve_batch` embeds up to 32 queries at the same time, in threads, and equal queries once. If the vectors
    of an index have unit length, the query vector is scaled to unit length too, so that scores of vector search are cosines, as
    in LlamaIndex.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> from llama_graph_retrievers import provenance
    >>> index = GraphIndex.from_texts(["Ada wrote the first program.", "Babbage built an engine."])
    >>> retriever = GraphRetriever(Retriever(index, BM25Search()), similarity_top_k=1)
    >>> for hit in retriever.retrieve("Who built an engine?"):
    ...     print(provenance(hit)["operator"], hit.text)
    BM25Search Babbage built an engine.
    """

    embeds_nodes: ClassVar[bool] = True
    """Whether an index built from nodes gets vectors even if the nodes have none."""

    def __init__(
        self,
        retriever: RetrieverProtocol,
        *,
        similarity_top_k: int | None = None,
        embed_model: Any = None,
        filters: MetadataFilters | Filter | None = None,
        seed_filters: MetadataFilters | Filter | None = None,
        traversal_filters: MetadataFilters | Filter | None = None,
        scope: MetadataFilters | Filter | None = None,
        nodes: NodeSource | None = None,
        inputs: Mapping[str, Callable[[str], Any]] | None = None,
        provenance: bool = True,
        callback_manager: CallbackManager | None = None,
        object_map: MutableMapping[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **options: Unpack[CommonOptions],
    ) -> None:
        check_keywords(type(self).__name__, options, sorted(keywords_of(GraphRetriever.__init__) | engine_knobs(Retriever).keys()))
        if not isinstance(retriever, RetrieverProtocol):
            raise InvalidArgumentError(
                f"Expected an engine retriever (name, k, inputs, retrieve, retrieve_batch), got {type(retriever).__name__}; "
                f"for an index use {type(self).__name__}.from_index."
            )
        objects = _index_nodes(objects)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        # Not copied: an index of LlamaIndex adds to its own.
        own = {node.index_id: node.obj for node in objects if node.obj is not None}
        self.object_map = cast(dict[str, Any], ChainMap(own, {} if object_map is None else object_map))
        retriever = with_options(retriever, options)
        index = getattr(retriever, "index", None)
        self.engine, self.index = retriever, index if isinstance(index, GraphIndex) else None
        self.similarity_top_k = retriever.k if similarity_top_k is None else similarity_top_k
        theirs = (getattr(owner, "embedding", None) for owner in (retriever, index))
        self._model = embed_model if embed_model is not None else next((m for m in theirs if isinstance(m, Embedding)), None)
        if inputs is not None and not isinstance(inputs, Mapping):
            raise InvalidArgumentError(f"inputs is {shown(inputs)}; expected a mapping from the name of an input to a function.")
        self._provenance, self._inputs = provenance, dict(inputs or {})
        for name, ask in self._inputs.items():
            if not callable(ask):
                raise InvalidArgumentError(f"inputs[{name!r}] is {shown(ask)}; expected a function of the query.")
            if name not in retriever.inputs:
                known, other = ", ".join(retriever.inputs) or "none", meant(name, retriever.inputs)
                raise UnexpectedArgumentError(
                    f"{retriever.name} reads no input {name!r}; besides the query it reads: {known}.{other}"
                )
        given = dict(zip(_FILTERS, (filters, seed_filters, traversal_filters, scope), strict=True))
        self._filters = _read(given, self.index)
        if self.index is not None:
            _tell_absent(objects, self.index)
        self._lookups = [NodeLookup(objects), NodeLookup(nodes)]
        self._live = any(lookup.live for lookup in self._lookups)
        # The index, if the nodes of a VectorStoreIndex are followed, and the filters to read again.
        self._followed: FollowedIndex | None = None
        self._given: dict[str, Any] = {}
        # One an index: that of an index before may still answer.
        self._retrievers = Cache(2)

    def __repr__(self) -> str:
        """Return the class, the engine retriever if the class does not name it, the sizes of the graph and k."""
        engine = [] if hasattr(type(self), "engine_class") else [self.engine.name]
        sizes = [] if self.index is None else [f"{len(self.index)} nodes", f"{self.index.graph.num_edges} edges"]
        return f"{type(self).__name__}({', '.join([*engine, *sizes, f'similarity_top_k={self.similarity_top_k}'])})"

    @property
    def similarity_top_k(self) -> int:
        """Nodes to return; 0 returns none."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(f"similarity_top_k must be an integer of at least 0, got {value!r}.")
        self._similarity_top_k = value

    @classmethod
    def from_index(
        cls,
        index: GraphIndex,
        *,
        system: str | Operator | None = None,
        published: bool = False,
        **options: Unpack[IndexOptions],
    ) -> Self:
        """Return a retriever on an index.

        Parameters
        ----------
        index : GraphIndex
        system : str or Operator, optional
            A name from :func:`graph_retrievers.systems.registry.retriever_names`, or your own operators. By default the system
            with the best results on indexes with the same signals, usually WalkFusion; see
            :func:`graph_retrievers.systems.registry.default_retriever`.
        published : bool, default False
            Whether to configure the system as in its paper or its published code; see
            :meth:`graph_retrievers.retrievers.retriever.Retriever.published`.
        **options
            Keywords of this class and of the engine's class.

        Examples
        --------
        >>> index = GraphIndex.from_texts(["A loom.", "A card."])
        >>> GraphRetriever.from_index(index, system="bm25", backfill=False).retrieve("Which card?")[0].text
        'A card.'
        """
        engine, own = cls._made(index, system, options, published)
        return cls(engine, **own)

    @classmethod
    def _made(
        cls, index: GraphIndex, system: str | Operator | None, options: Mapping[str, Any], published: bool = False
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return an engine retriever, and the options that are not for it."""
        kind = Retriever if isinstance(system, Operator) else retriever_class(system or default_retriever(index))[0]
        engine, own = engine_knobs(kind), keywords_of(GraphRetriever.__init__)
        check_keywords(cls.__name__, options, [*engine, *sorted(own)])
        knobs = {name: value for name, value in options.items() if name in engine}
        if isinstance(system, Operator):
            made = Retriever(index, system, **published_settings(Retriever, published) | knobs)
        else:
            made = build_retriever(system, index, published=published, **knobs)
        return made, {name: value for name, value in options.items() if name in own}

    @classmethod
    def from_defaults(
        cls,
        index: GraphIndex | VectorStoreIndex | None = None,
        nodes: Sequence[BaseNode] | None = None,
        docstore: BaseDocumentStore | None = None,
        *,
        embed_model: Any = None,
        edges: Any = None,
        relevance: Any = None,
        title_key: str | None = None,
        bm25: bool | str | Signal = True,
        device: str | torch.device | None = None,
        show_progress: bool = False,
        **options: Unpack[DefaultsOptions],
    ) -> Self:
        """Return a retriever on an index, or build an index of nodes and return a retriever on it.

        Parameters
        ----------
        index : GraphIndex or VectorStoreIndex, optional
            The nodes of a ``VectorStoreIndex`` are read with the vectors of its store (see
            :func:`~llama_graph_retrievers.stores.index_nodes`), and its embedding model embeds the queries. Its later changes are
            seen by the next query, unless its store keeps the texts (Qdrant, Chroma): such a store is read once; make the retriever
            again after a change. A later node that cannot be indexed is left out, and a warning says why; a filter that is a mask
            keeps selecting the same nodes. The edges of an ``IndexStore`` below it are not used; to search them, use
            ``GraphRetriever(StoreRetriever(store))``.
        nodes : sequence of BaseNode, optional
        docstore : BaseDocumentStore, optional
            Exactly one of the three, or only `objects`, which are added to the nodes (but not to a ``GraphIndex``). Of a document
            store, new nodes are not found later.
        embed_model : BaseEmbedding, optional
            Embeds queries, and nodes without an ``embedding``; the number of embedded nodes is logged. ``Settings.embed_model``
            is used only if vectors are needed and this is None.
        edges : edges, edge specifications or callables, optional
            How the nodes are linked (see :func:`graph_retrievers.construction.edges.build_edges`); by default by their own
            relationships, which are not used if `edges` are given. Not for a ``GraphIndex``, which already has edges.
        relevance : object, optional
            Relevance model, such as the name or folder of a cross-encoder; by default the index's own, or the dot
            product of the vectors.
        title_key : str, optional
            Metadata field with the nodes' titles, "" for none; results and paths show them. By default ``title``, or
            ``header_path`` or ``file_name`` for a node without it. Not for a ``GraphIndex``, which already has titles.
        bm25 : bool, str or Signal, default True
            Whether to build BM25, and in which language; see :meth:`graph_retrievers.index.GraphIndex.from_graph`. Not for a
            ``GraphIndex``, which already has its signals.
        device : str or torch.device, optional
            Device of the index; by default the CPU, or the device of a given index.
        show_progress : bool, default False
            Whether to show progress bars while nodes are embedded and indexed.
        **options
            Keywords of :meth:`from_index`.

        Raises
        ------
        InvalidArgumentError
            If not exactly one of the three is given; if the store of a ``VectorStoreIndex`` does not list its nodes, or compares
            vectors of different lengths by L2 distance.
        EmptyGraphError
            If there are no nodes.

        Notes
        -----
        Vectors are those of LlamaIndex: a node's own ``embedding``, or the embedding of its content with the metadata meant for
        embedding (``MetadataMode.EMBED``), scaled to unit length, because LlamaIndex compares by cosine. Those of a store that
        compares by dot product keep their lengths. BM25 and relevance models read the title and the plain text, as on every other
        index.

        Examples
        --------
        >>> from llama_index.core.schema import TextNode
        >>> nodes = [TextNode(id_="loom", text="A loom."), TextNode(id_="card", text="A card.")]
        >>> def embed(texts):
        ...     return [[float("loom" in text.lower()), 1.0] for text in texts]
        >>> retriever = GraphRetriever.from_defaults(nodes=nodes, embed_model=embed, edges=[("loom", "card", "reads")])
        >>> [hit.node.node_id for hit in retriever.retrieve("Which loom?")]
        ['loom', 'card']
        """
        cls._check(options)
        given = {"index": index, "nodes": nodes, "docstore": docstore}
        names = [name for name, value in given.items() if value is not None]
        if isinstance(nodes, BaseNode):
            raise InvalidArgumentError(f"nodes is a single {type(nodes).__name__}; pass a list of them: nodes=[node].")
        objects = options["objects"] = _index_nodes(options.get("objects"))
        if not names and objects:
            nodes, names = [], ["nodes"]
        if len(names) != 1:
            raise InvalidArgumentError(f"Pass exactly one of index=, nodes= and docstore=; got {' and '.join(names) or 'none'}.")
        held = dict[str, Any]()
        if isinstance(index, VectorStoreIndex):
            embed_model = embed_model if embed_model is not None else index._embed_model
            held, listed = contents(index), index_nodes(index)
            nodes_of: NodeSource = listed if index.vector_store.stores_text else index
            # Of the objects of nodes that were given to the index.
            options["object_map"] = ChainMap(options.get("object_map") or {}, index._object_map)
        elif isinstance(index, BaseIndex):
            raise InvalidArgumentError(
                f"A {type(index).__name__} has no vectors of its nodes; pass docstore=index.docstore, or a VectorStoreIndex."
            )
        elif isinstance(index, (Sequence, BaseDocumentStore)):
            name = "docstore" if isinstance(index, BaseDocumentStore) else "nodes"
            told = f"index is a {type(index).__name__}; expected a GraphIndex or VectorStoreIndex. Pass it as {name}=."
            raise InvalidArgumentError(told)
        elif index is not None:
            if edges is not None:
                raise InvalidArgumentError("edges= goes with nodes= or docstore=; this index has its edges.")
            if title_key is not None:
                raise InvalidArgumentError("title_key= goes with nodes= or docstore=; this index has its titles.")
            if bm25 is not True:
                raise InvalidArgumentError("bm25= goes with nodes= or docstore=; this index has its signals.")
            index = index.with_models(relevance=relevance) if relevance is not None else index
            index = index.to(device) if device is not None else index
            return cls._told(cls.from_index(index, embed_model=embed_model, **options), relevance)
        else:
            kept = docstore.docs.values() if docstore is not None else ()
            listed = as_list("nodes", kept if nodes is None else nodes, "nodes")
            nodes_of = docstore if docstore is not None else listed
        known = {getattr(node, "node_id", None) for node in listed}
        listed = [*listed, *(node for node in objects if node.node_id not in known)]
        if not listed:
            raise EmptyGraphError(f"{names[0]} is empty: an index needs at least one node.")
        for place, node in enumerate(listed):
            if not isinstance(node, BaseNode):
                raise InvalidArgumentError(f"Node {place} is a {type(node).__name__}; expected a BaseNode, such as a TextNode.")
        vectors, metric = None, None
        if cls.embeds_nodes or all(node.embedding is not None for node in listed):
            store = index if isinstance(index, VectorStoreIndex) and any(node.embedding is not None for node in listed) else None
            vectors = node_vectors(listed, embed_model, show_progress, cache=None, unit=store is None)
            try:
                metric = store_metric(store, vectors) if store is not None else None
            except InvalidArgumentError:
                if cls.embeds_nodes and options.get("system") != "bm25":
                    raise
                # Only words are searched.
                vectors = None
        made = GraphIndex.from_documents(
            listed,
            title_key=title_key,
            edges=edges,
            device=device,
            embedding=embed_model if vectors is not None else None,
            vectors=vectors,
            metric=metric,
            relevance=relevance,
            bm25=bm25,
            show_progress=show_progress,
        )
        retriever = cls._told(cls.from_index(made, **{"embed_model": embed_model, "nodes": nodes_of, **options}), relevance)
        if isinstance(index, VectorStoreIndex) and not index.vector_store.stores_text:
            retriever._followed = FollowedIndex(index, held, made, title_key=title_key, embed_model=embed_model)
            retriever._given = {name: _lasting(options.get(f"{name}s", options.get(name)), made.graph) for name in _FILTERS}
        if (
            isinstance(index, VectorStoreIndex)
            and edges is None
            and isinstance(retriever.engine, Retriever)
            and retriever.engine.operator.walks
        ):
            tell_lost_edges(index.vector_store, made.graph)
        return retriever

    @classmethod
    def _check(cls, options: Mapping[str, Any]) -> None:
        """Refuse keywords that no retriever of this class takes, before an index is made."""
        own = keywords_of(GraphRetriever.__init__, GraphRetriever.from_index, GraphRetriever.from_defaults) - {"system"}
        if (system := getattr(cls, "system", None)) is None:
            own, system = own | {"system"}, options.get("system")
        # If no system is named, the default depends on the index.
        names = retriever_names() if system is None else [system]
        taken = [engine_knobs(Retriever if isinstance(name, Operator) else retriever_class(name)[0]) for name in names]
        others = [name for name in options if not any(name in knobs for knobs in taken)]
        check_keywords(cls.__name__, others, sorted(own.union(taken[0] if system is not None else engine_knobs(Retriever))))

    @classmethod
    def _told(cls, retriever: Self, relevance: Any) -> Self:
        """Return a retriever, with a warning if it does not use the relevance model that was given."""
        if relevance is not None:
            tell_unused_relevance(retriever.engine)
        return retriever

    def _present(self) -> Self:
        """Return this retriever on the nodes that its ``VectorStoreIndex`` has now."""
        if self._followed is None:
            return self
        if (index := self._followed.index()) is not self.index:
            made = self._retrievers.get(Same(index), partial(self._over, index))
            names = ("engine", "index", "_filters", "_compares_by_cosine")
            vars(self).update({name: getattr(made, name) for name in names})
        # Another call may replace the index meanwhile.
        return copy(self)

    def _over(self, index: GraphIndex) -> Self:
        """Return this retriever on another index with the same signals."""
        made = copy(self)
        made.engine, made.index = cast(Retriever, self.engine).over(index), index
        made._filters = _read(self._given, index)
        vars(made).pop("_compares_by_cosine", None)
        return made

    async def _apresent(self) -> Self:
        """Return what :meth:`_present` returns, without blocking the event loop."""
        return self if self._followed is None else await in_thread(self._present)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._present()._search([query_bundle], {})[0]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return (await (await self._apresent())._asearch([query_bundle], {}))[0]

    @dispatcher.span
    def retrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return the nodes of each query; the engine runs all queries together.

        Parameters
        ----------
        queries : sequence of str or QueryBundle, length B
        **inputs
            Other inputs of the engine retriever, one entry per query, such as ``entities=[["Ada Lovelace"], ...]``; they replace
            those of the retriever's `inputs`.

        Returns
        -------
        list of list of NodeWithScore, length B
            What ``retrieve`` returns for each; ``RetrievalStartEvent`` and ``RetrievalEndEvent`` are emitted for each.
        """
        bundles = _started(queries)
        found = zip(bundles, self._present()._search(bundles, inputs), strict=True)
        return _ended(bundles, [self._handle_recursive_retrieval(bundle, nodes) for bundle, nodes in found])

    @dispatcher.span
    async def aretrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return what :meth:`retrieve_batch` returns, without blocking the event loop."""
        bundles = _started(queries)
        found = zip(bundles, await (await self._apresent())._asearch(bundles, inputs), strict=True)
        return _ended(bundles, [await self._ahandle_recursive_retrieval(bundle, nodes) for bundle, nodes in found])

    def _search(
        self, bundles: list[QueryBundle], inputs: Mapping[str, Sequence[Any]], again: bool = True
    ) -> list[list[NodeWithScore]]:
        if self._similarity_top_k == 0:
            return [[] for _ in bundles]
        texts, options = self._call(bundles, inputs)
        index, gone, attempt = self.index, set[str](), 0
        while True:
            results = self.engine.retrieve_batch(texts, self._similarity_top_k, **self._filter(gone) | options)
            known, missing = self._originals(results)
            if again and missing and (present := self._present()).index is not index:
                # The followed index changed during the search: once, the question is asked of what it has now.
                return present._search(bundles, inputs, again=False)
            if missing <= gone:
                dispatcher.event(_searched(results))
                return self._nodes(results, known, missing, gone)
            gone, attempt = gone | self._gone(missing, attempt), attempt + 1

    async def _asearch(
        self, bundles: list[QueryBundle], inputs: Mapping[str, Sequence[Any]], again: bool = True
    ) -> list[list[NodeWithScore]]:
        ask = getattr(self.engine, "aretrieve_batch", None)
        if ask is None or self._similarity_top_k == 0:
            return await in_thread(self._search, bundles, inputs)
        # Functions of the user and stores of documents would block the event loop.
        texts, options = await asyncio.to_thread(self._call, bundles, inputs) if self._inputs else self._call(bundles, inputs)
        index, gone, attempt = self.index, set[str](), 0
        while True:
            filters = await asyncio.to_thread(self._filter, gone) if gone else self._filters
            results = await ask(texts, self._similarity_top_k, **filters | options)
            known, missing = await asyncio.to_thread(self._originals, results) if self._live else self._originals(results)
            if again and missing and (present := await self._apresent()).index is not index:
                return await present._asearch(bundles, inputs, again=False)
            if missing <= gone:
                dispatcher.event(_searched(results))
                return self._nodes(results, known, missing, gone)
            gone, attempt = gone | await asyncio.to_thread(self._gone, missing, attempt), attempt + 1

    def _call(self, bundles: list[QueryBundle], inputs: Mapping[str, Sequence[Any]]) -> tuple[list[str], dict[str, Any]]:
        """Return the texts, and the keywords of the engine's ``retrieve_batch``."""
        texts = [bundle.query_str.strip() for bundle in bundles]
        made = {name: [ask(text) for text in texts] for name, ask in self._inputs.items() if name not in inputs}
        return texts, {"vectors": self._vectors(bundles), **made, **inputs}

    def _filter(self, gone: set[str]) -> dict[str, Any]:
        """Return the filters for a call of the engine that must not return the nodes with some ids."""
        given, others = self._filters.get("filter"), {"$id": {"$nin": sorted(gone)}}
        if not gone or not (self.index is not None or given is None or isinstance(given, Mapping)):
            return self._filters
        if self.index is not None:
            mask = filter_mask(self.index.graph, others)
            return self._filters | {"filter": mask if given is None else mask & filter_mask(self.index.graph, given)}
        return self._filters | {"filter": others if given is None else {"$and": [given, others]}}

    def _originals(self, results: Sequence[Hits]) -> tuple[dict[str, BaseNode], set[str]]:
        """Return the original nodes of hits by their ids, and the ids of those that are no longer in the document store."""
        known: dict[str, BaseNode] = {}
        missing: set[str] = set()
        for hit in (hit for hits in results for hit in hits if hit.kind == "node" and hit.id not in known):
            if (node := self._original(hit.id)) is not None:
                known[hit.id] = node
            elif self._live and "class_name" in hit.origin:
                # Made from a node of LlamaIndex; others, such as entities, may never have been in the store.
                missing.add(hit.id)
        return known, missing

    def _original(self, node: str) -> BaseNode | None:
        found = (lookup.find(node) for lookup in self._lookups)
        return next((node for node in found if node is not None), None)

    def _gone(self, missing: set[str], attempt: int) -> set[str]:
        """Return the nodes to exclude from the next search: those missing, after some attempts all that are not in the store."""
        if attempt < _ATTEMPTS or self.index is None:
            return missing
        graph = self.index.graph
        made = (node for node, origin in zip(graph.ids, graph.origins, strict=True) if "class_name" in origin)
        return {node for node in made if self._original(node) is None}

    def _vectors(self, bundles: list[QueryBundle]) -> Any:
        bare = sum(bundle.embedding is None for bundle in bundles)
        if self._model is None and self.index is None and bare in (0, len(bundles)):
            # It is not known whether this engine retriever reads vectors, or computes them itself.
            return None if bare else [bundle.embedding for bundle in bundles]
        return QueryVectors(bundles, self._model, unit=self._compares_by_cosine)

    @cached_property
    def _compares_by_cosine(self) -> bool:
        dense = self.index.signals.get("dense") if self.index is not None else None
        norms = dense.norms if isinstance(dense, VectorSignal) else torch.zeros(0)
        if isinstance(scope := self._filters.get("scope"), torch.Tensor) and norms.numel():
            norms = norms[scope]
        return bool(((norms - 1).abs() < _UNIT)[norms > 0].all()) and bool(norms.any())

    def _nodes(
        self, results: Sequence[Hits], known: Mapping[str, BaseNode], missing: set[str], gone: set[str]
    ) -> list[list[NodeWithScore]]:
        why = _DELETED if self._followed is None else _DELETED_MEANWHILE
        told = [hits if hits or not gone else Hits((), [*hits.notes, why]) for hits in results]
        return [scored_nodes(hits, known, missing, self._provenance) for hits in told]


def engine_knobs(kind: type) -> dict[str, Knob]:
    """Return the keywords of an engine retriever's class by name, without `k`, which LlamaIndex calls `similarity_top_k`."""
    return {knob.name: knob for knob in (*class_knobs(kind), *class_knobs(Retriever)) if knob.name != "k"}


def _read(given: Mapping[str, MetadataFilters | Filter | None], index: GraphIndex | None) -> dict[str, Filter]:
    """Return the filters that are not None, by name: as masks of an index, or without one as filters of the engine."""
    graph = None if index is None else index.graph
    conditions = {name: engine_filter(wanted, graph) for name, wanted in given.items() if wanted is not None}
    if graph is None:
        return conditions
    # Computed once: the index never changes, and every query would pay for it. An empty filter selects nothing, as that of an
    # auto-retriever without conditions.
    return {
        name: condition if isinstance(condition, Mapping) and not condition else filter_mask(graph, condition)
        for name, condition in conditions.items()
    }


def _lasting(wanted: Any, graph: CorpusGraph) -> Any:
    """Return a filter that means the same for an index after a change: a mask selects its nodes by their ids."""
    if not isinstance(wanted, torch.Tensor):
        return wanted
    return {"$id": {"$in": {graph.ids[row] for row in wanted.nonzero().flatten().tolist()}}}


def _index_nodes(objects: Any) -> list[IndexNode]:
    """Return the `objects` of a retriever as a list; raise InvalidArgumentError if one is not an ``IndexNode``."""
    if isinstance(objects, BaseNode):
        raise InvalidArgumentError(f"objects is a single {type(objects).__name__}; pass a list of them: objects=[node].")
    found = [] if objects is None else as_list("objects", objects, "IndexNode(text=..., index_id=..., obj=...)")
    for place, node in enumerate(found):
        if not isinstance(node, IndexNode):
            raise InvalidArgumentError(f"objects[{place}] is a {type(node).__name__}; expected an IndexNode.")
    return found


def _tell_absent(objects: Sequence[IndexNode], index: GraphIndex) -> None:
    """Warn of objects that no hit leads to."""
    bare = [node for node in objects if node.node_id not in index.graph]
    pointers = {origin.get("index_id") for origin in index.graph.origins} if bare else set()
    if absent := [node.index_id for node in bare if node.index_id not in pointers]:
        _logger.warning(
            "%d of the objects (%s%s) are not nodes of the index, so that they are not found; build it of nodes and objects with "
            "from_defaults(nodes=..., objects=...).",
            len(absent),
            ", ".join(map(repr, absent[:_NAMED])),
            ", ..." if len(absent) > _NAMED else "",
        )


def _searched(results: Sequence[Hits]) -> GraphSearchEvent:
    # An empty question has no steps.
    steps = next((hits.trace.records() for hits in results if hits.trace), [])
    return GraphSearchEvent(questions=len(results), hits=sum(map(len, results)), steps=steps)


def _started(queries: Sequence[str | QueryBundle]) -> list[QueryBundle]:
    if isinstance(queries, (str, QueryBundle)):
        raise InvalidArgumentError("retrieve_batch takes a list of queries; call retrieve for one.")
    bundles = [QueryBundle(query) if isinstance(query, str) else query for query in queries]
    for bundle in bundles:
        dispatcher.event(RetrievalStartEvent(str_or_query_bundle=bundle))
    return bundles


def _ended(bundles: list[QueryBundle], results: list[list[NodeWithScore]]) -> list[list[NodeWithScore]]:
    for bundle, nodes in zip(bundles, results, strict=True):
        dispatcher.event(RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes))
    return results
