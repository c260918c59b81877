"""What every LangChain retriever of this package shares: its fields, its ways of making, what it asks of the engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from pydantic import ConfigDict, Field

from graph_retrievers.errors import UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever
from langchain_graph_retrievers.batching import BatchRetriever
from langchain_graph_retrievers.documents import to_documents

__all__ = ["EngineRetriever"]

# Keywords of GraphIndex.from_documents and from_texts; whatever else is given is a field of the retriever.
_INDEX_OPTIONS = (
    "dense_backend",
    "device",
    "include_titles",
    "lexical",
    "relevance",
    "show_progress",
    "title_key",
    "titles",
    "type_key",
    "vectors",
)


class EngineRetriever(BatchRetriever):
    """A LangChain retriever over an engine retriever; subclasses say which.

    ``invoke`` and ``ainvoke`` take the same keywords as the fields below, for one call, and `vector` (the query's
    vector, shape [d], where it is known already); a retriever whose engine reads further per-query inputs takes
    those too, and any other keyword raises. ``batch`` and ``abatch`` run all queries in the engine's lock-step,
    with one traced run a query.

    Parameters
    ----------
    k : int, optional
        Documents to return, at least 1.
    filter : mapping or callable, optional
        Which documents may be *returned* (see :func:`graph_retrievers.graph.filters.filter_mask`); traversal may
        pass through others. ``{}`` lifts it for one call.
    seed_filter, traversal_filter : mapping or callable, optional
        Which documents may start a traversal, and which may be walked to.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    k: int | None = Field(None, ge=1)
    filter: Filter | None = None
    seed_filter: Filter | None = None
    traversal_filter: Filter | None = None

    # -- what subclasses say ------------------------------------------------------------------------------------

    @abstractmethod
    def _engine(self) -> Retriever:
        """Return the engine retriever of the present fields."""

    @abstractmethod
    def _graph_index(self) -> GraphIndex:
        """Return the index it searches."""

    @classmethod
    @abstractmethod
    def from_index(cls, index: GraphIndex, **fields: Any) -> Self:
        """Return a retriever on an index; `fields` are those of the class."""

    # -- making an index on the way -----------------------------------------------------------------------------

    @classmethod
    def from_documents(cls, documents: Iterable[Document], embedding: Any = None, *, edges: Any = (), **options: Any) -> Self:
        """Return a retriever over documents, building their index.

        Parameters
        ----------
        documents : iterable of Document
            A document without an id is given its position.
        embedding : Embeddings, optional
            LangChain embeddings, or what else :func:`graph_retrievers.signals.embedding.as_embedding` takes.
        edges : edges, edge specifications or callables
            What links the documents, such as ``[("cites", "$id")]``; see
            :func:`graph_retrievers.construction.edges.build_edges`.
        **options
            Fields of the retriever, and keywords of :meth:`graph_retrievers.index.GraphIndex.from_documents`
            (``relevance``, ``lexical``, ``vectors``, ``device``, ``title_key``, ...).
        """
        index_options, fields = cls._split(options)
        return cls.from_index(GraphIndex.from_documents(documents, edges=edges, embedding=embedding, **index_options), **fields)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: Any = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        edges: Any = (),
        **options: Any,
    ) -> Self:
        """Return a retriever over plain texts, building their index; the arguments are those of :meth:`from_documents`."""
        index_options, fields = cls._split(options)
        index = GraphIndex.from_texts(texts, ids=ids, metadatas=metadatas, edges=edges, embedding=embedding, **index_options)
        return cls.from_index(index, **fields)

    @classmethod
    def _split(cls, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the keywords of the index and those of the retriever; refuse others before an index is built."""
        own = cls.model_fields.keys() | signature(cls.from_index).parameters.keys()
        for name in options:
            if name not in own and name not in _INDEX_OPTIONS:
                known = ", ".join(sorted([*cls.model_fields, *_INDEX_OPTIONS]))
                raise UnexpectedArgumentError(f"{cls.__name__} has no {name!r}; it takes {known}.")
        index = {name: value for name, value in options.items() if name in _INDEX_OPTIONS}
        return index, {name: value for name, value in options.items() if name not in index}

    # -- calls --------------------------------------------------------------------------------------------------

    def _documents(
        self,
        queries: list[str],
        k: int | None = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        vector: Any = None,
        **inputs: Any,
    ) -> list[list[Document]]:
        results = self._engine().retrieve_batch(
            queries,
            self.k if k is None else k,
            vectors=None if vector is None else [vector] * len(queries),
            filter=self.filter if filter is None else filter,
            seed_filter=self.seed_filter if seed_filter is None else seed_filter,
            traversal_filter=self.traversal_filter if traversal_filter is None else traversal_filter,
            **{name: [value] * len(queries) for name, value in inputs.items()},
        )
        return [to_documents(hits) for hits in results]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        index = self._graph_index()
        params["ls_vector_store_provider"] = type(index).__name__
        if index.embedding is not None:
            params["ls_embedding_provider"] = type(index.embedding).__name__
            params["ls_embedding_model"] = index.embedding_name
        return params
