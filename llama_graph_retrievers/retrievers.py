"""The named systems of the engine: keywords, defaults and documentation are those of the engine's classes."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, ClassVar, Self

from llama_index.core.indices.base import BaseIndex

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import RetrieverProtocol
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.signatures import Knob, class_documentation, class_knobs, published_settings
from graph_retrievers.systems.registry import retriever_class
from llama_graph_retrievers.graph_retriever import GraphRetriever, engine_knobs

__all__ = ["IndexRetriever"]


class IndexRetriever(GraphRetriever):
    """A named system of the engine on an index; a subclass names it, and gets its keywords and documentation.

    >>> class Walk(IndexRetriever, system="ppr"):
    ...     "Personalized PageRank."
    >>> from inspect import signature
    >>> [name for name in signature(Walk).parameters][:5]
    ['index', 'seeds', 'damping', 'passage_weight', 'first']
    """

    engine_class: ClassVar[type[Retriever]]
    """The engine's class."""
    system: ClassVar[str]
    """Its name in :func:`graph_retrievers.systems.registry.retriever_names`."""

    def __init_subclass__(cls, system: str = "", embeds_nodes: bool = True, **keywords: Any) -> None:
        """Add the keywords and the documentation of the engine's class to a class that names a system."""
        super().__init_subclass__(**keywords)
        if not system:
            return
        cls.system, cls.embeds_nodes, cls.engine_class = system, embeds_nodes, retriever_class(system)[0]
        knobs = _knobs(cls.engine_class)

        def __init__(self: IndexRetriever, index: GraphIndex, **options: Any) -> None:
            IndexRetriever.__init__(self, index, **options)

        named = [Parameter(k.name, Parameter.KEYWORD_ONLY, default=k.default, annotation=k.annotation) for k in knobs]
        given = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "index")]
        __init__.__signature__ = Signature([*given, *named])  # type: ignore[attr-defined]
        __init__.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = __init__  # type: ignore[method-assign]
        text = class_documentation(
            cls.__doc__ or "", (cls.engine_class, Retriever, GraphRetriever), {"index", *(k.name for k in knobs)}
        )
        top_k = next(k.default for k in knobs if k.name == "similarity_top_k")
        cls.__doc__ = text.replace("similarity_top_k : int, optional", f"similarity_top_k : int, default {top_k}")

    def __init__(self, index: GraphIndex, **options: Any) -> None:
        if isinstance(index, RetrieverProtocol):
            raise InvalidArgumentError(
                f"{type(self).__name__} works on a GraphIndex; pass the {type(index).__name__} to GraphRetriever, which takes the "
                "same callback_manager=, nodes= and provenance=."
            )
        if isinstance(index, BaseIndex):
            raise InvalidArgumentError(f"Pass the {type(index).__name__} to {type(self).__name__}.from_defaults(index=...).")
        engine, options = self._made(index, self.system, options)
        super().__init__(engine, **options)

    @classmethod
    def from_index(cls, index: GraphIndex, *, published: bool = False, **options: Any) -> Self:  # type: ignore[override]
        """Return a retriever on an index; `options` are the keywords of the class.

        With `published`, keywords that are not given have the values of the system's paper or published code (see
        :meth:`graph_retrievers.retrievers.retriever.Retriever.published`).
        """
        settings = published_settings(cls.engine_class, published)
        return cls(index, **{"similarity_top_k" if name == "k" else name: value for name, value in settings.items()} | options)


def _knobs(kind: type[Retriever]) -> list[Knob]:
    """Return the keywords of a named class: those of the engine's class, then those of every LlamaIndex retriever."""
    # The class's own k, if it has one, takes precedence over that of every retriever.
    k = next(knob.default for knob in (*class_knobs(kind), *class_knobs(Retriever)) if knob.name == "k")
    common = (Knob(o.name, int, k, o.doc) if o.name == "similarity_top_k" else o for o in class_knobs(GraphRetriever))
    return [*engine_knobs(kind).values(), *common]
