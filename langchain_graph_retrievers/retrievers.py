"""GraphRetriever wraps any retriever of the engine; the fields of the named classes come from the engine's classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast, get_args

from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables import ConfigurableField, ConfigurableFieldSpec, RunnableSerializable
from langchain_core.runnables.configurable import RunnableConfigurableFields, make_options_spec
from langchain_core.runnables.utils import AnyConfigurableField, get_unique_config_specs
from pydantic import Field, model_validator

from graph_retrievers.cache import Cache
from graph_retrievers.core.operator import Operator
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever, with_options
from graph_retrievers.retrievers.signatures import class_documentation, class_knobs, published_settings
from graph_retrievers.systems.registry import build_retriever, retriever_class
from langchain_graph_retrievers.base import ENGINE_OPTIONS, EngineRetriever
from langchain_graph_retrievers.fields import check_fields

if TYPE_CHECKING:
    from langchain_graph_retrievers.options import OptionFields

__all__ = ["GraphRetriever", "IndexRetriever"]

# How many engine retrievers a retriever of this package keeps.
_KEPT = 8


class GraphRetriever(EngineRetriever):
    """Any retriever of the engine as a LangChain retriever: on an index, in a database, or your own.

    Parameters
    ----------
    retriever : RetrieverProtocol
        The engine retriever, such as a :class:`graph_retrievers.retrievers.Retriever` or a
        :class:`graph_retrievers.stores.cypher.CypherSpreadingActivation`.
    k : int, optional
        Documents to return; by default the engine retriever's own k.
    filter, seed_filter, traversal_filter : mapping or callable, optional
        Which documents may be returned, start a traversal, and be visited; see :class:`EngineRetriever`.
    scope : mapping or callable, optional
        Which documents are searched; see :class:`EngineRetriever`.
    provenance : bool, default False
        Whether the metadata show how a document was found.
    backfill, types, per_source, source_field, batch_size, share_batches, time_limit : optional
        Keywords of every retriever of the engine (see :class:`graph_retrievers.retrievers.retriever.Retriever`), which replace
        those of the engine retriever; one of your own needs a method ``with_options``.

    Examples
    --------
    >>> from graph_retrievers.index import GraphIndex
    >>> from graph_retrievers.operators import BM25Search, GatedPropagation, Pipeline
    >>> index = GraphIndex.from_texts(
    ...     ["Ada wrote a program.", "An engine of brass."], ids=["ada", "engine"], edges=[("ada", "engine", "ran on")]
    ... )
    >>> walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform"))
    >>> retriever = GraphRetriever(retriever=Retriever(index, walk), provenance=True)
    >>> for document in retriever.invoke("Who wrote a program?"):
    ...     print(document.page_content, document.metadata["path"]["nodes"])
    Ada wrote a program. ['ada']
    An engine of brass. ['ada', 'engine']
    """

    retriever: RetrieverProtocol = Field(repr=False, exclude=True, description="The engine retriever.")

    @model_validator(mode="before")
    @classmethod
    def _configure(cls, fields: Any) -> Any:
        """Give the engine retriever those fields that are keywords of its own."""
        if not isinstance(fields, Mapping):
            return fields
        check_fields(cls.__name__, fields, cls.model_fields.keys() | ENGINE_OPTIONS)
        options = {name: fields[name] for name in fields if name in ENGINE_OPTIONS}
        rest = {name: value for name, value in fields.items() if name not in options}
        return {**rest, "retriever": with_options(fields["retriever"], options)} if options and "retriever" in fields else rest

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the name of the engine retriever first."""
        yield "retriever", self.retriever.name
        yield from super().__repr_args__()

    def _engine(self) -> RetrieverProtocol:
        return self.retriever

    @property
    def index(self) -> GraphIndex | None:
        """The index that the engine retriever searches, or None if it has none, for example in a database."""
        index = getattr(self.retriever, "index", None)
        return index if isinstance(index, GraphIndex) else None

    @classmethod
    def from_index(  # type: ignore[override]
        cls,
        index: GraphIndex,
        *,
        system: str | Operator | None = None,
        published: bool = False,
        **fields: Unpack[OptionFields],
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
        **fields
            Those of the class.
        """
        check_fields(cls.__name__, fields, (cls.model_fields.keys() - {"retriever"}) | ENGINE_OPTIONS | {"system", "published"})
        options: dict[str, Any] = {name: value for name, value in fields.items() if name in ENGINE_OPTIONS}
        if isinstance(system, Operator):
            engine = Retriever(index, system, **published_settings(Retriever, published) | options)
        else:
            engine = build_retriever(system, index, published=published, **options)
        own: dict[str, Any] = {name: value for name, value in fields.items() if name not in options}
        return cls(retriever=engine, **own)

    def configurable_fields(self, **kwargs: AnyConfigurableField) -> RunnableSerializable[str, list[Document]]:
        """Return a retriever of which the configuration of a call may set some fields, or keywords of every engine retriever.

        Examples
        --------
        >>> from langchain_core.runnables import ConfigurableField
        >>> index = GraphIndex.from_texts(["A loom.", "A card."], edges=[])
        >>> retriever = GraphRetriever.from_index(index, system="bm25")
        >>> configured = retriever.configurable_fields(backfill=ConfigurableField(id="fill"))
        >>> [d.page_content for d in configured.with_config(configurable={"fill": False}).invoke("Which card?")]
        ['A card.']
        """
        check_fields(type(self).__name__, kwargs, type(self).model_fields.keys() | ENGINE_OPTIONS)
        return _ConfigurableRetriever(default=self, fields=kwargs)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if type(self) is GraphRetriever and self.name is None:
            params["ls_retriever_name"] = self.retriever.name.lower()
        return params


class _ConfigurableRetriever(RunnableConfigurableFields):
    """A retriever with configurable fields, some of which are keywords of its engine retriever and no fields of its own."""

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a configuration may set."""
        knobs = {knob.name: knob for knob in class_knobs(Retriever) if knob.name in ENGINE_OPTIONS}
        engine = cast(GraphRetriever, self.default).retriever
        fields = {name: spec for name, spec in self.fields.items() if name not in knobs}
        specs = RunnableConfigurableFields(default=self.default, fields=fields).config_specs
        for knob, spec in ((knobs[name], spec) for name, spec in self.fields.items() if name in knobs):
            if isinstance(spec, ConfigurableField):
                kind, told = spec.annotation or knob.annotation, spec.description or knob.doc
                present = getattr(engine, knob.name, knob.default)
                specs.append(ConfigurableFieldSpec(spec.id, kind, spec.name, told, present, spec.is_shared))
            else:
                specs.append(make_options_spec(spec, knob.doc))
        return get_unique_config_specs(specs)


def _identity(value: Any) -> Hashable:
    # Pydantic copies the collections of a configured retriever.
    value = tuple(value) if isinstance(value, (list, set)) else value
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


class IndexRetriever(EngineRetriever):
    """Base class of the retrievers that are named after a system of the engine.

    A subclass names the system; the keywords of the engine's class, with their defaults and documentation, become its fields. A
    changed field applies from the next call. Wrong types raise pydantic's ValidationError, wrong values the engine's
    InvalidArgumentError; both are ValueErrors.

    >>> class BareRetriever(IndexRetriever, system="bm25"):
    ...     "BM25 by another name."
    >>> BareRetriever.from_texts(["a loom", "a punched card"], k=1).invoke("Which loom?")[0].page_content
    'a loom'
    """

    system: ClassVar[str]
    """A name from :func:`graph_retrievers.systems.registry.retriever_names`."""

    keywords: ClassVar[tuple[str, ...]]
    """Fields that are passed to the constructor of the engine's class."""

    unlisted: ClassVar[frozenset[str]] = frozenset({"engines"})

    index: GraphIndex = Field(repr=False, exclude=True, description="The index to search; retrievers may share one.")
    # LangChain makes a new retriever for every call with configured fields. Fields, unlike private attributes, are passed on to
    # it, so that no engine retriever is built twice and a checkpoint is read once.
    engines: Cache = Field(default_factory=lambda: Cache(_KEPT), repr=False, exclude=True)

    def __init_subclass__(cls, system: str = "", **kwargs: Any) -> None:
        """Turn the keywords of the engine's class into fields, before pydantic reads the fields of this class."""
        super().__init_subclass__(**kwargs)
        if not system:
            return
        cls.system = system
        kind, values = retriever_class(system)
        # `name` is a field of every Runnable.
        knobs = {knob.name: knob for knob in (*class_knobs(Retriever), *class_knobs(kind)) if knob.name != "name"}
        own = cls.__dict__.get("__annotations__", {})
        for name, knob in knobs.items():
            if name not in own:
                # Models, which can be anything, and operators, which may hold models, are neither shown nor dumped.
                kinds = (knob.annotation, *get_args(knob.annotation))
                held = any(each is Any or (isinstance(each, type) and issubclass(each, Operator)) for each in kinds)
                setattr(cls, name, Field(values.get(name, knob.default), description=knob.doc, repr=not held, exclude=held))
        cls.__annotations__ = {name: knob.annotation for name, knob in knobs.items()} | own
        # k is passed with each call, so that a different k needs no new engine retriever.
        cls.keywords = tuple(name for name in knobs if name != "k")
        fields = {*cls.keywords, "index", "k", "filter", "seed_filter", "traversal_filter", "scope", "provenance"}
        cls.__doc__ = class_documentation(cls.__dict__.get("__doc__") or "", (kind, Retriever, EngineRetriever), fields)

    def _engine(self) -> Retriever:
        options = {name: getattr(self, name) for name in self.keywords}
        key = (id(self.index), *((name, _identity(value)) for name, value in options.items()))
        # The options are kept too, so that no other object can reuse an id.
        return self.engines.get(key, lambda: (build_retriever(self.system, self.index, **options), options))[0]

    @classmethod
    def from_index(cls, index: GraphIndex, *, published: bool = False, **fields: Any) -> Self:
        """Return a retriever on an index; `fields` are those of the class.

        With `published`, fields that are not given have the values of the system's paper or published code (see
        :meth:`graph_retrievers.retrievers.retriever.Retriever.published`).
        """
        settings = published_settings(retriever_class(cls.system)[0], published)
        return cls(index=index, **settings | fields)
