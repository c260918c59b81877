"""GraphRetriever: any engine retriever as it stands; IndexRetriever: what the named systems share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, ClassVar, Self

from pydantic import Field

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator
from graph_retrievers.retrievers.registry import build_retriever
from graph_retrievers.retrievers.retriever import Retriever
from langchain_graph_retrievers.base import EngineRetriever

__all__ = ["Engines", "GraphRetriever", "IndexRetriever"]

_KEPT = 8


class GraphRetriever(EngineRetriever):
    """Any engine retriever, a composition of one's own among them.

    Parameters
    ----------
    retriever : graph_retrievers.retrievers.Retriever
        The engine retriever.
    k : int, optional
        Documents to return; by default the engine retriever's own k.
    **fields
        Those of :class:`~langchain_graph_retrievers.base.EngineRetriever`.

    Examples
    --------
    >>> from graph_retrievers.index import GraphIndex
    >>> from graph_retrievers.operators import BM25Search
    >>> from graph_retrievers.retrievers import Retriever
    >>> index = GraphIndex.from_texts(["Ada wrote the first program.", "Babbage built an engine."])
    >>> GraphRetriever(retriever=Retriever(index, BM25Search()), k=1).invoke("Who built an engine?")[0].page_content
    'Babbage built an engine.'
    """

    retriever: Retriever = Field(repr=False, exclude=True)

    def _engine(self) -> Retriever:
        return self.retriever

    def _graph_index(self) -> GraphIndex:
        return self.retriever.index

    @classmethod
    def from_index(cls, index: GraphIndex, *, system: str | Operator = "fastinsight", **fields: Any) -> Self:
        """Return a retriever on an index.

        Parameters
        ----------
        index : GraphIndex
        system : str or Operator, default "fastinsight"
            A name of :func:`graph_retrievers.retrievers.registry.retriever_names`, or operators of one's own.
        **fields
            Those of the class.
        """
        engine = Retriever(index, system) if isinstance(system, Operator) else build_retriever(system, index)
        return cls(retriever=engine, **fields)


class Engines:
    """Engine retrievers that were put together already, the last eight by what they were made of.

    A retriever with configurable fields is made anew for every configured call. Its copies share this object, so that
    a checkpoint is read once and a table of the graph is made once.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Retriever, Any]] = {}
        self._lock = Lock()

    def get(self, make: Callable[..., Retriever], system: str, index: GraphIndex, options: dict[str, Any]) -> Retriever:
        """Return the engine retriever of a system on an index with some options; `make` is called if there is none."""
        key = (system, id(index), *((name, _identity(value)) for name, value in options.items()))
        with self._lock:
            # What is asked for goes to the end. The options are kept so that no other object takes over an id.
            held = self._made.pop(key, None) or (make(system, index, **options), options)
            self._made[key] = held
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
            return held[0]

    def __reduce__(self) -> tuple[type[Engines], tuple[()]]:
        """Return a fresh object for a copy: engines are made where they are used."""
        return Engines, ()


def _identity(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


class IndexRetriever(EngineRetriever):
    """A named system of the engine on an index; a subclass gives its name and its knobs.

    The fields that a subclass adds are the keywords of the engine's class; changed fields hold from the next call.

    Parameters
    ----------
    index : GraphIndex
        What is searched; retrievers may share one.
    k : int, default 10
        Documents to return; fewer come only where the corpus, or the filter, has fewer.
    backfill : bool, default True
        Whether vector search (BM25 where the index has no vectors) fills up to k, marked by the operator "Backfill".
    **fields
        Those of :class:`~langchain_graph_retrievers.base.EngineRetriever`.
    """

    system: ClassVar[str]
    """Name of the engine's class, as :func:`graph_retrievers.retrievers.registry.build_retriever` knows it."""

    index: GraphIndex = Field(repr=False, exclude=True)
    k: int | None = Field(10, ge=1)
    backfill: bool = True
    # A field, and no private attribute: only fields go over to configured copies.
    engines: Engines = Field(default_factory=Engines, repr=False, exclude=True)

    def _options(self) -> dict[str, Any]:
        """Return the keywords of the engine's class: the fields that stand in no class above this one."""
        names = type(self).model_fields.keys() - IndexRetriever.model_fields.keys()
        options = {name: getattr(self, name) for name in sorted(names)}
        if "batch_size" in options:
            # `batch` is a method of every Runnable, so the field cannot bear the engine's name.
            options["batch"] = options.pop("batch_size")
        return options

    def _engine(self) -> Retriever:
        return self.engines.get(build_retriever, self.system, self.index, {"backfill": self.backfill, **self._options()})

    def _graph_index(self) -> GraphIndex:
        return self.index

    @classmethod
    def from_index(cls, index: GraphIndex, **fields: Any) -> Self:
        """Return a retriever on an index; `fields` are those of the class."""
        return cls(index=index, **fields)
