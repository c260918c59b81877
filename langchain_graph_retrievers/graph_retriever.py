"""GraphRetriever: a system on an index, or any retriever of the engine, as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables import ConfigurableFieldSpec, RunnableSerializable
from langchain_core.runnables.configurable import RunnableConfigurableFields
from langchain_core.runnables.utils import AnyConfigurableField
from pydantic import Field, SkipValidation, field_serializer

from graph_retrievers.arguments import keywords_of, positive
from graph_retrievers.cache import Cache, Identity
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.index import Corpus, GraphIndex
from graph_retrievers.index.options import DocumentOptions, TextOptions
from graph_retrievers.retrievers.options import CommonOptions
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever, warn_of_unused_relevance, with_options
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.given import check_options, system_or_preset
from graph_retrievers.systems.system import System, read_system
from langchain_graph_retrievers.batches import BatchRetriever
from langchain_graph_retrievers.fields import CheckedFields, check_fields
from langchain_graph_retrievers.vectorstores import read_store

if TYPE_CHECKING:
    from graph_retrievers.retrievers.options import SystemLike
else:
    # Pydantic would copy a system, which is a dataclass, and check its fields; the constructor reads it.
    SystemLike = Any

__all__ = ["GraphRetriever"]

# Keywords of every retriever of the engine that are fields here; LangChain has a `name` of its own, and each call is given `k`.
_OPTIONS = tuple(name for name in CommonOptions.__annotations__ if name != "name")
# Fields that an engine retriever is given with each call.
_SELECTION = ("k", "filter", "seed_filter", "traversal_filter", "scope")
# The fields that the engine retriever is made of.
_PARTS = attrgetter("system", "index", "retriever", *_OPTIONS)
# How many engine retrievers a retriever of this package keeps.
_MOST_ENGINES = 8


class Fields(CommonOptions, total=False):
    """Fields of GraphRetriever but `index` and `retriever`, for type checkers."""

    system: SystemLike | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    k: int | None
    filter: Filter | None
    seed_filter: Filter | None
    traversal_filter: Filter | None
    scope: Filter | None
    provenance: bool


class GraphTextOptions(Fields, TextOptions, total=False):
    """Keywords of GraphRetriever.from_texts."""


class GraphDocumentOptions(Fields, DocumentOptions, total=False):
    """Keywords of GraphRetriever.from_documents and from_vectorstore."""


class GraphRetriever(CheckedFields, BatchRetriever):
    """A system of the engine on an index as a LangChain retriever; or any retriever of the engine, or your own.

    It takes either `index`, with `system` for another than the default, or `retriever`. Retrievers may share an index. A changed
    field applies from the next call.

    ``invoke`` and ``ainvoke`` take as keywords, for one call, all fields from `k` on, `vector` (the query's vector, shape [d], if
    it is already known) and the other inputs of the system, such as ``entities`` (names that the question mentions); other
    keywords raise an error. ``batch`` and ``abatch`` pass all queries to the engine in one call, with one traced run per query.
    ``ainvoke`` and ``abatch`` await the embedding model (``aembed_query``); the search then runs in a thread, or awaits a
    database. When the task is cancelled, the search ends at its next step.

    Parameters
    ----------
    index : GraphIndex or RemoteIndex, optional
        The index to search, in memory or in a database (:func:`graph_retrievers.stores.postgres.open_index`).
    system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
        ``PPR(damping=0.7)``, its text ``"ppr(damping=0.7)"``, or your own composition; see
        :class:`graph_retrievers.retrievers.retriever.Retriever`. By default the system with the best results on indexes with the
        same signals, usually WalkFusion. Its language model may be a LangChain chat model.
    retriever : RetrieverProtocol, optional
        An engine retriever of your own, such as a :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation` or a
        :class:`graph_retrievers.retrievers.store_retriever.StoreRetriever`.
    k : int, optional
        Documents to return; by default the engine retriever's own k. Chains and facts follow them.
    filter, seed_filter, traversal_filter, scope : mapping or callable, optional
        Which documents may be returned, start a traversal, be visited, and be searched at all: see
        :meth:`graph_retrievers.retrievers.protocol.BaseRetriever.retrieve`. ``{}`` removes a filter for one call. A retriever with
        a scope accepts no other scope for a call.
    provenance : bool, default False
        Whether the metadata show how a document was found: ``score``, ``similarity``, ``operator``, ``path``, ``notes``,
        ``context`` (see :func:`~langchain_graph_retrievers.to_documents`). These differ between queries, so LangChain's
        ``MultiQueryRetriever``, which drops equal documents, would keep one for each query; pass it to ``invoke`` instead.
    backfill, per_source, source_field, types, batch_size, share_batches, time_limit : optional
        Keywords of every retriever of the engine, see :class:`graph_retrievers.retrievers.retriever.Retriever`. By default the
        engine's own, or those of `retriever`; one of your own needs a method ``with_options``.

    Raises
    ------
    ValidationError
        If a field is unknown or has another type.
    InvalidArgumentError
        If a value is outside its range, or not exactly one of `index` and `retriever` is given. Both are ValueErrors.

    Examples
    --------
    >>> from graph_retrievers import PPR, GraphIndex
    >>> index = GraphIndex.from_texts(
    ...     ["Ada wrote a program.", "An engine of brass."],
    ...     ids=["ada", "engine"],
    ...     edges=[("ada", "engine", "ran on")],
    ...     vectors=[[1, 0], [0, 1]],
    ... )
    >>> retriever = GraphRetriever(index=index, system=PPR(seeds=1, passage_weight=0), provenance=True)
    >>> for document in retriever.invoke("Who wrote a program?", vector=[1, 0]):
    ...     print(document.page_content, document.metadata["path"]["nodes"])
    Ada wrote a program. ['ada']
    An engine of brass. ['ada', 'engine']
    """

    unlisted: ClassVar[frozenset[str]] = frozenset({"engines"})

    index: Corpus | None = Field(default=None, repr=False, exclude=True, description="The index to search.")
    system: SystemLike | None = Field(
        default=None, description="The system, such as 'ppr(damping=0.7)'; by default one for the index."
    )
    retriever: RetrieverProtocol | None = Field(
        default=None, repr=False, exclude=True, description="An engine retriever in place of index and system."
    )
    k: int | None = Field(default=None, description="Documents to return; by default the engine retriever's own k.")
    filter: Filter | None = Field(default=None, description="Which documents may be returned; a traversal may pass through others.")
    seed_filter: Filter | None = Field(
        default=None, description="At which documents a traversal may start; by default those of the filter."
    )
    traversal_filter: Filter | None = Field(default=None, description="Which documents a traversal may visit.")
    scope: Filter | None = Field(default=None, description="Which documents are searched; acts as all three filters.")
    # The engine checks these, and takes no "no" for False.
    backfill: SkipValidation[bool | None] = Field(default=None, description="Whether vector search fills the list up to k.")
    per_source: SkipValidation[int | None] = Field(default=None, description="Maximum number of hits from one document.")
    source_field: SkipValidation[str | None] = Field(default=None, description="Metadata field with the document of a chunk.")
    types: SkipValidation[Collection[str] | None] = Field(default=None, description="Node types that may be returned.")
    batch_size: SkipValidation[int | None] = Field(default=None, description="Number of queries that run together.")
    share_batches: SkipValidation[bool | None] = Field(default=None, description="Whether concurrent calls are answered together.")
    time_limit: SkipValidation[float | None] = Field(default=None, description="Seconds that a call may take.")
    # LangChain makes a new retriever for every call with configured fields. Fields, unlike private attributes, are passed on to
    # it, so that no engine retriever is built twice and a checkpoint is read once.
    engines: Cache = Field(default_factory=lambda: Cache(_MOST_ENGINES), repr=False, exclude=True)

    # Type checkers know the arguments from the fields.
    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the fields: pydantic checks their types, the engine their values."""
            system = self._system(fields.get("system"))
            # Pydantic says what other fields there are.
            names = fields.keys() & getattr(system, "__dataclass_fields__", {}).keys()
            check_options(type(self).__name__, names, type(self).model_fields, system)
            super().__init__(**fields | ({"system": system} if "system" in fields else {}))
            if self.k is not None:
                positive("k", self.k)
            _ = self.engine

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the sizes of the graph, then the fields that differ from their defaults."""
        if self.retriever is not None:
            yield "retriever", self.retriever.name
        index = self.index if self.retriever is None else getattr(self.retriever, "index", None)
        if isinstance(index, GraphIndex):
            yield from {"nodes": len(index), "edges": index.graph.num_edges}.items()
        elif self.index is not None:
            yield "index", self.index
        yield from ((name, _display_value(value) if name == "system" else value) for name, value in super().__repr_args__())

    def configurable_fields(self, **fields: AnyConfigurableField) -> RunnableSerializable[str, list[Document]]:
        """Return this retriever with fields that a call configures, as for every runnable; schemas show a system by its text."""
        result: Any = super().configurable_fields(**fields)
        return _Configured(default=result.default, fields=result.fields)

    @field_serializer("system")
    def _text_of_system(self, system: SystemLike | None) -> str | None:
        return None if system is None else str(_display_value(system))

    @property
    def engine(self) -> RetrieverProtocol:
        """The engine retriever for the present fields, for hits with their paths; the same for equal fields."""
        system, *rest = _PARTS(self)
        # A text and the system that it names are equal.
        key = read_system(system) if isinstance(system, (str, Mapping)) else system, *rest
        return self.engines.get(_key(key), self._engine)

    def _engine(self) -> Any:
        """Return a new engine retriever; InvalidArgumentError unless there is either an index or a retriever."""
        cls, system = type(self), self._system(self.system)
        options = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}
        if (self.index is None) == (self.retriever is None):
            description = "neither" if self.index is None else "both"
            raise InvalidArgumentError(
                f"{cls.__name__} takes either index=, with system= for another than the default, or retriever=; got {description}."
            )
        if self.index is not None:
            return Retriever(self.index, system, **options)
        if system != cls.model_fields["system"].default:
            raise InvalidArgumentError(f"{cls.__name__} takes system= with index=, not with retriever=, which has its own.")
        self._system(getattr(self.retriever, "system", None) or self.retriever)
        return with_options(self.retriever, options)

    @classmethod
    def _system(cls, value: Any) -> Any:
        """Return the system that is meant, or that of the class; InvalidArgumentError for another kind than that of the class."""
        return system_or_preset(cls.__name__, value, cls.model_fields["system"].default)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Any = None, *, edges: Any = (), **options: Unpack[GraphDocumentOptions]
    ) -> Self:
        """Build an index of documents and return a retriever on it.

        Parameters
        ----------
        documents : iterable of Document
            A document without an id gets its position as id.
        embedding : Embeddings, optional
            LangChain embeddings, or anything else that :func:`graph_retrievers.signals.embedding_models.as_embedding` accepts.
        edges : edges, edge specifications or callables
            How the documents are linked, such as ``[("cites", "$id")]``; see
            :func:`graph_retrievers.construction.edges.build_edges`.
        **options
            Fields of the class, and keywords of :meth:`graph_retrievers.index.GraphIndex.from_documents` (``relevance``,
            ``bm25``, ``vectors``, ``device``, ``title_key``, ...).

        Examples
        --------
        >>> documents = [Document("A loom.", id="loom"), Document("A card.", id="card")]
        >>> GraphRetriever.from_documents(documents, system="bm25", k=1).invoke("Which card?")
        [Document(id='card', metadata={}, page_content='A card.')]
        """
        return cls._built(GraphIndex.from_documents, documents, options, edges=edges, embedding=embedding)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: Any = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        edges: Any = (),
        **options: Unpack[GraphTextOptions],
    ) -> Self:
        """Build an index of texts and return a retriever on it; the arguments are those of :meth:`from_documents`."""
        return cls._built(GraphIndex.from_texts, texts, options, ids=ids, metadatas=metadatas, edges=edges, embedding=embedding)

    @classmethod
    def from_vectorstore(
        cls, store: Any, embedding: Any = None, *, edges: Any = (), **options: Unpack[GraphDocumentOptions]
    ) -> Self:
        """Return a retriever over the documents of a vector store, with the vectors of the store; nothing is embedded again.

        The documents are read once; later additions to the store are not seen.

        Parameters
        ----------
        store : VectorStore
            ``InMemoryVectorStore``, FAISS, Chroma, ``PGVector`` and ``PGVectorStore`` of langchain-postgres, or a store with a
            method ``documents_and_vectors()``.
        embedding : Embeddings, optional
            Embeds the queries; by default the store's ``embeddings``.
        edges, **options
            As for :meth:`from_documents`. The default ``metric`` is that of the store, if the store states it: cosine for
            ``InMemoryVectorStore``, the dot product for stores with inner products, and cosine for stores with L2 distances between
            vectors of equal length, which have the same order.

        Raises
        ------
        GraphRetrieverError
            If the store is empty, lacks a vector or a text, has vectors of different widths, or does not list its vectors; if it
            compares vectors of different lengths by L2 distance, and no ``metric`` is given. BM25 then takes only the documents.

        Examples
        --------
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        >>> _ = store.add_texts(["A loom reads cards.", "A card."], ids=["loom", "card"])
        >>> retriever = GraphRetriever.from_vectorstore(store, edges=[("loom", "card", "reads")], system="ppr", k=2)
        >>> sorted(document.id for document in retriever.invoke("A loom reads cards."))
        ['card', 'loom']
        """
        if "vectors" in options:
            raise UnexpectedArgumentError("from_vectorstore takes the vectors of the store; from_documents takes vectors=.")
        contents = read_store(store)
        if embedding is None:
            embedding = getattr(store, "embeddings", None)
        arguments: dict[str, Any] = {**options, "vectors": contents.vectors}
        try:
            arguments["metric"] = options.get("metric") or contents.index_metric(type(store).__name__)
        except InvalidArgumentError:
            if not isinstance(cls._system(arguments.get("system")), BM25):
                raise
            # BM25 searches only words.
            arguments["vectors"] = embedding = None
        return cls._built(GraphIndex.from_documents, contents.documents, arguments, edges=edges, embedding=embedding)

    @classmethod
    def _built(cls, build: Callable[..., GraphIndex], items: Any, options: Mapping[str, Any], **arguments: Any) -> Self:
        names = cls.model_fields.keys() - {"index", "retriever", *cls.unlisted}
        # Options are checked before an index is built.
        check_fields(cls.__name__, options, names | keywords_of(build, GraphIndex.from_graph), cls._system(options.get("system")))
        index = build(items, **arguments, **{name: value for name, value in options.items() if name not in names})
        retriever = cls(index=index, **{name: value for name, value in options.items() if name in names})
        if options.get("relevance") is not None:
            warn_of_unused_relevance(retriever.engine)
        return retriever

    def _engine_call(self, count: int, vector: Any = None, **arguments: Any) -> tuple[RetrieverProtocol, dict[str, Any]]:
        """Return the engine retriever for a call, and the keywords of its ``retrieve_batch`` for some queries."""
        if "vectors" in arguments:
            raise UnexpectedArgumentError("A call does not take 'vectors'; pass the vector of its query as vector=.")
        if arguments.get("scope") is not None and self.scope is not None:
            raise InvalidArgumentError("This retriever has a scope of its own; give one to a call of a retriever without.")
        engine = self.engine
        given = {name: arguments.pop(name, None) for name in _SELECTION}
        keywords: dict[str, Any] = {name: getattr(self, name) if value is None else value for name, value in given.items()}
        if keywords["k"] is not None:
            positive("k", keywords["k"])
        if keywords["scope"] is None:
            # Retrievers of other packages may not have this argument.
            del keywords["scope"]
        options = {name: arguments.pop(name) for name in _OPTIONS if name in arguments and name not in engine.inputs}
        keywords |= {name: [value] * count for name, value in arguments.items()}
        keywords["vectors"] = None if vector is None else [vector] * count
        return with_options(engine, options) if options else engine, keywords

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params, engine = super()._get_ls_params(**kwargs), self.engine
        if type(self) is GraphRetriever and self.name is None:
            params["ls_retriever_name"] = engine.name.lower()
        source = getattr(engine, "index", getattr(engine, "database", engine))
        params["ls_vector_store_provider"] = type(source).__name__
        if isinstance(source, Corpus) and source.embedding is not None:
            params["ls_embedding_provider"] = type(source.embedding).__name__
            params["ls_embedding_model"] = source.embedding_name
        return params


class _Configured(RunnableConfigurableFields):
    """A retriever with configured fields, whose schema has the text of a system: a model inside may hold a key."""

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The specifications of the fields."""
        system = self.fields.get("system")
        return [
            spec._replace(default=str(_display_value(spec.default)))
            if system is not None and spec.id == system.id and spec.default is not None
            else spec
            for spec in super().config_specs
        ]


class _Hidden(str):
    """Stands for an object in a text, without quotes."""

    __repr__ = str.__str__


def _display_value(system: Any) -> Any:
    """Return what is run as it is shown and dumped: an operator or a function by its name, as it may hold a model."""
    if system is None or isinstance(system, System):
        return system
    return _Hidden(f"{getattr(system, '__name__', type(system).__name__)}(...)")


def _key(value: Any, levels: int = 8) -> Hashable:
    """Return a part of the key of an engine retriever: equal for equal values, or for the same object if they have no hash."""
    if isinstance(value, System):
        return type(value), *(_key(getattr(value, name), levels) for name in value.__dataclass_fields__)
    if isinstance(value, (list, tuple, set)):
        # A list that contains itself is not a valid value of a field; the engine refuses it.
        return tuple(_key(part, levels - 1) for part in value) if levels else Identity(value)
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    return value  # type: ignore[no-any-return]
