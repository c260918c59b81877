"""GraphRetriever: a system on an index, or any retriever of the engine, or your own, as a LlamaIndex retriever."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack, cast

import torch
from llama_index.core import VectorStoreIndex, instrumentation
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters

from graph_retrievers.arguments import keywords_of, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.filters import Filter
from graph_retrievers.index import Corpus, GraphIndex
from graph_retrievers.retrievers.limits import in_thread
from graph_retrievers.retrievers.options import CommonOptions, SystemLike
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever, warn_of_unused_relevance, with_options
from graph_retrievers.signals.embedding import Embedding
from graph_retrievers.signals.signal import Signal
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.given import check_options, system_or_preset
from graph_retrievers.systems.system import System
from llama_graph_retrievers.building import build_index, index_objects, warn_of_absent
from llama_graph_retrievers.nodes import NodeLookup, NodeSource
from llama_graph_retrievers.search import NodeSearch, batch_ended, batch_started
from llama_graph_retrievers.stores import warn_of_lost_edges

__all__ = ["GraphRetriever"]

dispatcher = instrumentation.get_dispatcher(__name__)


class DefaultsOptions(CommonOptions, total=False):
    """Keywords of GraphRetriever that from_defaults does not read itself, for type checkers."""

    similarity_top_k: int | None
    filters: MetadataFilters | Filter | None
    seed_filters: MetadataFilters | Filter | None
    traversal_filters: MetadataFilters | Filter | None
    scope: MetadataFilters | Filter | None
    inputs: Mapping[str, Callable[[str], Any]] | None
    provenance: bool
    callback_manager: CallbackManager | None
    object_map: MutableMapping[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


class GraphRetriever(BaseRetriever):
    """A system on an index, or any retriever of the engine, or your own.

    Parameters
    ----------
    index : GraphIndex, RemoteIndex or RetrieverProtocol
        An index, in memory or in a database (:func:`graph_retrievers.stores.postgres.open_index`); or a retriever of the engine,
        such as one on a store that changes (:class:`graph_retrievers.retrievers.store_retriever.StoreRetriever`) or inside a graph
        database (:class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`), or your own object with the same methods (see
        :class:`graph_retrievers.retrievers.protocol.RetrieverProtocol`).
    system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
        What searches an index, such as ``PPR(damping=0.7)`` or ``"ppr(damping=0.7)"``; see
        :class:`graph_retrievers.retrievers.retriever.Retriever`. Not for a retriever, which has its own.
    similarity_top_k : int, optional
        Nodes to return; 0 returns none. By default the engine retriever's own k, usually 10, because the default of LlamaIndex,
        2, would cut off the later hops of a graph search. Chains and facts follow the nodes.
    embed_model : BaseEmbedding, optional
        Embeds queries; also anything that :func:`graph_retrievers.signals.embedding_models.as_embedding` accepts. By default the
        model of the engine retriever or its index, and ``Settings.embed_model`` for an index without one. It is called only if the
        engine needs the query's vector and the ``QueryBundle`` has none.
    filters, seed_filters, traversal_filters, scope : MetadataFilters, mapping or callable, optional
        Which nodes may be returned, start a traversal, be visited, and be searched at all, as ``MetadataFilters`` or as filters of
        the engine: see :meth:`graph_retrievers.retrievers.protocol.BaseRetriever.retrieve`.
    nodes : iterable of BaseNode, document store or VectorStoreIndex, optional
        The nodes from which the index was built. Hits are then copies of them; otherwise hits are made from the contents of the
        index: text, metadata, excluded keys, templates and relationships. A document store is read at each query: nodes
        that were deleted from it are not returned, and others take their places.
    inputs : mapping from str to callable, optional
        Other inputs of the system, such as ``entities`` or ``plan``: maps the name of an input to a function of the query.
        LlamaIndex itself passes only the query to a retriever.
    provenance : bool, default True
        Whether :func:`~llama_graph_retrievers.provenance` returns how each hit was found. It is not part of the metadata, so the
        hashes by which a ``QueryFusionRetriever`` merges nodes do not depend on the query.
    callback_manager, object_map, objects, verbose : optional
        As for every LlamaIndex retriever: a hit that is an ``IndexNode`` is replaced by what its object gives (a node, the nodes of
        a retriever, or the response of a query engine). `objects` are returned like `nodes`; :meth:`from_defaults` also adds them
        to the index. Objects are not saved with an index: pass them again with a loaded one.
    **options
        Keywords of every retriever of the engine, such as ``time_limit``, ``backfill`` and ``types`` (see
        :class:`graph_retrievers.retrievers.retriever.Retriever`), which replace those of a retriever that is given; one of your own
        needs a method ``with_options``.

    Attributes
    ----------
    system : System or None
        The system; None for your own operators or retriever. A subclass with a system as its class variable is a preset: that is
        its default, and it takes only systems of that class.
    engine : RetrieverProtocol
        The engine retriever.
    index : GraphIndex or None
        The index that the engine retriever searches, if it is in memory.

    Notes
    -----
    Spaces and line breaks around a query, which ``RetrieverTool`` adds, are removed. Asynchronous calls await the embedding model
    (``aget_query_embedding``) and then the engine retriever's ``aretrieve_batch``, which searches in a thread or awaits a database.
    `retrieve_batch` embeds up to 32 queries at the same time, in threads, and equal queries once. If the vectors
    of an index have unit length, the query vector is scaled to unit length too, so that scores of vector search are cosines, as
    in LlamaIndex.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> from llama_graph_retrievers import provenance
    >>> index = GraphIndex.from_texts(["Ada wrote the first program.", "Babbage built an engine."])
    >>> retriever = GraphRetriever(index, BM25(), similarity_top_k=1)
    >>> for hit in retriever.retrieve("Who built an engine?"):
    ...     print(provenance(hit)["operator"], hit.text)
    BM25Search Babbage built an engine.
    """

    system: System | None = None

    def __init__(
        self,
        index: Corpus | RetrieverProtocol,
        system: SystemLike | None = None,
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
        engine = self._engine(index, system, options)
        objects = index_objects(objects)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        # The mapping is not copied, as an index of LlamaIndex adds objects to its own later.
        by_id = {node.index_id: node.obj for node in objects if node.obj is not None}
        self.object_map = cast(dict[str, Any], ChainMap(by_id, {} if object_map is None else object_map))
        value = getattr(engine, "system", None)
        self.system = value if isinstance(value, System) else None
        self.similarity_top_k = engine.k if similarity_top_k is None else similarity_top_k
        self._search = NodeSearch(
            engine,
            {"filter": filters, "seed_filter": seed_filters, "traversal_filter": traversal_filters, "scope": scope},
            _model_of(engine) if embed_model is None else embed_model,
            {} if inputs is None else inputs,
            [NodeLookup(objects), NodeLookup(nodes)],
            provenance,
        )
        if self.index is not None:
            warn_of_absent(objects, self.index)

    @classmethod
    def _engine(cls, index: Any, system: SystemLike | None, options: CommonOptions) -> RetrieverProtocol:
        """Return the engine retriever of the arguments of the constructor."""
        kind = "Retriever" if isinstance(index, Retriever) else type(index).__name__
        if isinstance(index, BaseIndex):
            raise InvalidArgumentError(f"Pass the {kind} to {cls.__name__}.from_defaults(index=...).")
        if isinstance(index, Corpus):
            value = system_or_preset(cls.__name__, system, cls.system)
            check_options(cls.__name__, options, _keywords(), value)
            return Retriever(index, value, **options)
        if not isinstance(index, RetrieverProtocol):
            raise InvalidArgumentError(
                f"Expected a GraphIndex, or an engine retriever (name, k, inputs, retrieve, retrieve_batch), got {kind}."
            )
        if cls.system is not None:
            raise InvalidArgumentError(
                f"{cls.__name__} works on a GraphIndex; pass the {kind} to GraphRetriever, which takes the same arguments."
            )
        if system is not None:
            raise InvalidArgumentError(
                f"system= goes with a GraphIndex, and the {kind} has its own; make the {kind} with system={shown(system)}."
            )
        check_options(cls.__name__, options, _keywords(), None)
        return with_options(index, options)

    def __repr__(self) -> str:
        """Return the class, the engine retriever if the class does not name it, the sizes of the graph and k."""
        engine = [self.engine.name] if type(self).system is None else []
        sizes = [] if self.index is None else [f"{len(self.index)} nodes", f"{self.index.graph.num_edges} edges"]
        return f"{type(self).__name__}({', '.join([*engine, *sizes, f'similarity_top_k={self.similarity_top_k}'])})"

    @property
    def engine(self) -> Any:
        """The engine retriever."""
        return self._search.engine

    @property
    def index(self) -> GraphIndex | None:
        """The index that the engine retriever searches, if it is in memory."""
        return self._search.index

    @property
    def similarity_top_k(self) -> int:
        """Nodes to return; 0 returns none."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._similarity_top_k = positive("similarity_top_k", value, least=0)

    @classmethod
    def from_defaults(
        cls,
        index: VectorStoreIndex | None = None,
        nodes: Sequence[BaseNode] | None = None,
        docstore: BaseDocumentStore | None = None,
        *,
        system: SystemLike | None = None,
        embed_model: Any = None,
        edges: Any = None,
        relevance: Any = None,
        title_key: str | None = None,
        bm25: bool | str | Signal = True,
        device: str | torch.device | None = None,
        show_progress: bool = False,
        **options: Unpack[DefaultsOptions],
    ) -> Self:
        """Build an index of nodes and return a retriever on it.

        Parameters
        ----------
        index : VectorStoreIndex, optional
            Its nodes are read with the vectors of its store (see
            :func:`~llama_graph_retrievers.stores.index_nodes`), and its embedding model embeds the queries. Its later changes are
            seen by the next query, unless its store keeps the texts (Qdrant, Chroma): such a store is read once; make the retriever
            again after a change. A later node that cannot be indexed is left out, and a warning says why; a filter that is a mask
            keeps selecting the same nodes. The edges of an ``IndexStore`` below it are not used; to search them, use
            ``GraphRetriever(StoreRetriever(store))``.
        nodes : sequence of BaseNode, optional
        docstore : BaseDocumentStore, optional
            Exactly one of the three, or only `objects`, which are added to the nodes. Nodes that a document store gets later are
            not found.
        system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
            As for the class. For BM25, nodes without an ``embedding`` are not embedded.
        embed_model : BaseEmbedding, optional
            Embeds queries, and nodes without an ``embedding``; ``Settings.embed_model`` if vectors are needed and this is None.
        edges : edges, edge specifications or callables, optional
            How the nodes are linked (see :func:`graph_retrievers.construction.edges.build_edges`), in place of their own
            relationships.
        relevance, title_key, bm25, device, show_progress : optional
            As for :meth:`graph_retrievers.index.GraphIndex.from_documents`. By default, titles are ``title`` in the metadata, or
            ``header_path`` or ``file_name`` for a node without it.
        **options
            Keywords of the class.

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
        compares by dot product keep their lengths. BM25 and relevance models read the title and the plain text.

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
        # Arguments are checked before an index is made.
        value = system_or_preset(cls.__name__, system, cls.system)
        check_options(cls.__name__, options, _keywords(GraphRetriever.from_defaults), value)
        objects = options["objects"] = index_objects(options.get("objects"))
        if isinstance(index, VectorStoreIndex):
            embed_model = embed_model if embed_model is not None else index._embed_model
            # The objects of the nodes that were given to the index.
            options["object_map"] = ChainMap(cast(Any, options.get("object_map") or {}), index._object_map)
        settings = {"edges": edges, "relevance": relevance, "title_key": title_key, "bm25": bm25, "device": device}
        settings |= {"needs_vectors": not isinstance(value, BM25), "show_progress": show_progress}
        graph_index, originals, followed = build_index(index, nodes, docstore, objects, embed_model, **settings)
        retriever = cls(graph_index, value, embed_model=embed_model, nodes=originals, **options)
        retriever._search = replace(retriever._search, followed_index=followed)
        if index is not None and edges is None and retriever.engine.operator.walks:
            warn_of_lost_edges(index.vector_store, graph_index.graph)
        if relevance is not None:
            warn_of_unused_relevance(retriever.engine)
        return retriever

    def _present(self) -> NodeSearch:
        """Return the search of the nodes that a followed ``VectorStoreIndex`` has now."""
        self._search = search = self._search.present()
        return search

    async def _apresent(self) -> NodeSearch:
        return self._search if self._search.followed_index is None else await in_thread(self._present)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._present().nodes([query_bundle], self._similarity_top_k, {})[0]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return (await (await self._apresent()).anodes([query_bundle], self._similarity_top_k, {}))[0]

    @dispatcher.span
    def retrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return the nodes of each query; the engine runs all queries together.

        Parameters
        ----------
        queries : sequence of str or QueryBundle, length B
        **inputs
            Other inputs of the system, one entry per query, such as ``entities=[["Ada Lovelace"], ...]``; they replace those of the
            retriever's `inputs`.

        Returns
        -------
        list of list of NodeWithScore, length B
            What ``retrieve`` returns for each; ``RetrievalStartEvent`` and ``RetrievalEndEvent`` are emitted for each.
        """
        bundles = batch_started(queries)
        pairs = zip(bundles, self._present().nodes(bundles, self._similarity_top_k, inputs), strict=True)
        return batch_ended(bundles, [self._handle_recursive_retrieval(bundle, nodes) for bundle, nodes in pairs])

    @dispatcher.span
    async def aretrieve_batch(self, queries: Sequence[str | QueryBundle], **inputs: Sequence[Any]) -> list[list[NodeWithScore]]:
        """Return what :meth:`retrieve_batch` returns, without blocking the event loop."""
        bundles = batch_started(queries)
        pairs = zip(bundles, await (await self._apresent()).anodes(bundles, self._similarity_top_k, inputs), strict=True)
        return batch_ended(bundles, [await self._ahandle_recursive_retrieval(bundle, nodes) for bundle, nodes in pairs])


def _keywords(*functions: Callable[..., Any]) -> set[str]:
    return {"system", *CommonOptions.__optional_keys__} | keywords_of(GraphRetriever.__init__, *functions)


def _model_of(engine: Any) -> Any:
    """Return the embedding model of an engine retriever or of its index; None if neither has one."""
    models = (getattr(owner, "embedding", None) for owner in (engine, getattr(engine, "index", None)))
    return next((model for model in models if isinstance(model, Embedding)), None)
