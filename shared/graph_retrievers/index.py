"""GraphIndex: a corpus graph with its signals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.filters import Filter
from graph_retrievers.queries import LatentCache, QueryBatch
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import Embedding, SentenceEncoder, as_embedding, check_vectors, embed_texts
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.relevance import BiEncoder, RelevanceModel, as_relevance_model

__all__ = ["GraphIndex", "LatentCache", "QueryBatch"]


class GraphIndex:
    """A corpus graph with its signals: what every retriever is given.

    An index is never changed once built, so any number of callers may share it.

    Parameters
    ----------
    graph : CorpusGraph
    dense : DenseIndex, optional
        Vectors of the nodes.
    lexical : BM25, optional
        BM25 scores of the nodes.
    embedding : object, optional
        Model that embeds queries (see :func:`graph_retrievers.signals.embedding.as_embedding`).
    relevance : object, optional
        Relevance model (see :func:`graph_retrievers.signals.relevance.as_relevance_model`); without one, the
        bi-encoder of the node vectors stands in.

    Raises
    ------
    EmptyGraphError
        If the graph has no node.
    DimensionMismatchError
        If a signal covers another number of nodes.
    """

    def __init__(
        self,
        graph: CorpusGraph,
        *,
        dense: DenseIndex | None = None,
        lexical: BM25 | None = None,
        embedding: Any = None,
        relevance: Any = None,
    ) -> None:
        if len(graph) == 0:
            raise EmptyGraphError("The corpus is empty: an index needs at least one node.")
        if dense is not None and len(dense) != len(graph):
            raise DimensionMismatchError(f"{len(dense)} vectors were given for {len(graph)} nodes; give one a node.")
        if lexical is not None and lexical.num_documents != len(graph):
            raise DimensionMismatchError(f"BM25 covers {lexical.num_documents} texts, the graph has {len(graph)} nodes.")
        self.graph = graph
        self._dense, self._lexical = dense, lexical
        self.embedding: Embedding | None = as_embedding(embedding) if embedding is not None else None
        self.relevance: RelevanceModel = as_relevance_model(relevance) if relevance is not None else BiEncoder(self.embedding)

    # -- building -----------------------------------------------------------------------------------------------

    @classmethod
    def from_graph(
        cls,
        graph: CorpusGraph,
        *,
        embedding: Any = None,
        vectors: Any = None,
        lexical: bool = True,
        relevance: Any = None,
        dense_backend: str = "exact",
        show_progress: bool = False,
    ) -> GraphIndex:
        """Return an index of a corpus graph, computing the signals it lacks.

        Parameters
        ----------
        graph : CorpusGraph
        embedding : object, optional
            Embedding model; embeds the nodes unless `vectors` are given, and the queries later.
        vectors : array-like, shape [N, d], optional
            Node vectors computed elsewhere.
        lexical : bool, default True
            Whether to build BM25.
        relevance : object, optional
            Relevance model, see the class.
        dense_backend : {"exact", "faiss"}, default "exact"
        show_progress : bool, default False
            Progress bars on embedding and BM25.
        """
        if len(graph) == 0:
            raise EmptyGraphError("The corpus is empty: an index needs at least one node.")
        contents = graph.contents()
        model = as_embedding(embedding) if embedding is not None else None
        if vectors is None and model is not None:
            vectors = embed_texts(model, contents, show_progress)
        dense = None
        if vectors is not None:
            dense = DenseIndex(check_vectors(vectors, len(graph)), device=graph.device, backend=dense_backend)
        bm25 = BM25(contents, device=graph.device, show_progress=show_progress) if lexical else None
        return cls(graph, dense=dense, lexical=bm25, embedding=model, relevance=relevance)

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[Node],
        edges: Iterable[Edge] = (),
        *,
        include_titles: bool = True,
        device: str | torch.device | None = None,
        **signals: Any,
    ) -> GraphIndex:
        """Return an index of nodes and edges; `signals` are the keywords of :meth:`from_graph`."""
        return cls.from_graph(CorpusGraph.from_nodes(nodes, edges, include_titles=include_titles, device=device), **signals)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        titles: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        edges: Any = (),
        device: str | torch.device | None = None,
        **signals: Any,
    ) -> GraphIndex:
        """Return an index of plain texts.

        Parameters
        ----------
        texts : sequence of str, length N
        ids : sequence of str, optional
            Defaults to "0", "1", ...
        titles : sequence of str, optional
        metadatas : sequence of mapping, optional
        edges : edges, edge specifications or callables
            See :func:`graph_retrievers.construction.edges.build_edges`.
        device : str or torch.device, optional
        **signals
            Keywords of :meth:`from_graph`.
        """
        count = len(texts)
        columns = {"texts": texts, "ids": ids, "titles": titles, "metadatas": metadatas}
        for name, column in columns.items():
            if isinstance(column, str):
                raise InvalidArgumentError(f"{name} is the single string {column[:40]!r}; give a list, one entry a text.")
            if column is not None and len(column) != count:
                raise InvalidArgumentError(f"{name} has {len(column)} entries for {count} texts; give one a text.")
        nodes = [
            Node(
                id=ids[i] if ids is not None else str(i),
                text=text,
                title=titles[i] if titles is not None else "",
                metadata=metadatas[i] if metadatas is not None else {},
            )
            for i, text in enumerate(texts)
        ]
        return cls._from_nodes_and_specs(nodes, edges, device, signals)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Any],
        *,
        edges: Any = (),
        title_key: str = "title",
        type_key: str = "type",
        device: str | torch.device | None = None,
        **signals: Any,
    ) -> GraphIndex:
        """Return an index of documents of either framework, or of :class:`Node` objects.

        Parameters
        ----------
        documents : iterable of documents
            Objects with ``page_content``, ``metadata`` and ``id`` (LangChain), with ``get_content``, ``metadata``
            and ``node_id`` (LlamaIndex), or :class:`Node`. A document without an id is given its position.
        edges : edges, edge specifications or callables
            See :func:`graph_retrievers.construction.edges.build_edges`.
        title_key, type_key : str, default "title" and "type"
            Metadata fields that hold a node's title and type; "" for none.
        device : str or torch.device, optional
        **signals
            Keywords of :meth:`from_graph`.
        """
        from graph_retrievers.construction.documents import to_nodes

        # Some edges are read from the documents themselves, so a one-time iterable must last.
        documents = list(documents) if isinstance(documents, Iterator) else documents
        nodes = to_nodes(documents, title_key=title_key, type_key=type_key)
        return cls._from_nodes_and_specs(nodes, edges, device, signals, documents)

    @classmethod
    def _from_nodes_and_specs(
        cls, nodes: list[Node], edges: Any, device: str | torch.device | None, signals: dict[str, Any], documents: Any = None
    ) -> GraphIndex:
        from graph_retrievers.construction.edges import build_edges, edge_items, needs_vectors

        edges = edge_items(edges)
        include_titles = signals.pop("include_titles", True)
        if not nodes:
            raise EmptyGraphError("The corpus is empty: an index needs at least one node.")
        if needs_vectors(edges) and signals.get("vectors") is None:
            if signals.get("embedding") is None:
                raise MissingSignalError("k-nearest edges need vectors: pass embedding= or vectors=.")
            bare = CorpusGraph.from_nodes(nodes, include_titles=include_titles)
            model = as_embedding(signals["embedding"])
            signals["vectors"] = embed_texts(model, bare.contents(), signals.get("show_progress", False))
        built = build_edges(nodes, edges, vectors=signals.get("vectors"), documents=documents)
        return cls.from_graph(CorpusGraph.from_nodes(nodes, built, include_titles=include_titles, device=device), **signals)

    # -- saving -------------------------------------------------------------------------------------------------

    def save(self, folder: Any) -> None:
        """Write the index to a folder: see :mod:`graph_retrievers.graph.storage`. Models are not saved."""
        from graph_retrievers.graph.storage import write_index

        tensors: dict[str, Tensor] = {}
        settings: dict[str, Any] = {}
        if self._dense is not None:
            tensors["dense.vectors"] = self._dense.vectors
            # Only this class can be made again from its name.
            by_name = isinstance(self.embedding, SentenceEncoder)
            settings["dense"] = {"backend": self._dense.backend, "embedding": self.embedding_name, "by_name": by_name}
        if self._lexical is not None:
            tensors |= {f"lexical.{name}": value for name, value in self._lexical.arrays().items()}
            settings["lexical"] = self._lexical.settings() | {"vocabulary": self._lexical.vocabulary}
        write_index(folder, self.graph, tensors, settings)

    @classmethod
    def load(
        cls, folder: Any, *, embedding: Any = None, relevance: Any = None, device: str | torch.device | None = None
    ) -> GraphIndex:
        """Return a saved index.

        Parameters
        ----------
        folder : str or Path
        embedding, relevance : object, optional
            Models, as for the class; models are not part of a saved index.
        device : str or torch.device, optional

        Raises
        ------
        CorruptIndexError
            If a file is missing, cut short or changed.
        IndexVersionError
            If a newer version wrote it.
        """
        from graph_retrievers.graph.storage import read_index

        graph, tensors, settings = read_index(folder, device)
        dense = None
        if "dense" in settings:
            dense = DenseIndex(tensors["dense.vectors"], device=graph.device, backend=settings["dense"]["backend"])
        lexical = None
        if "lexical" in settings:
            arrays = {name: tensors[f"lexical.{name}"] for name in ("indptr", "rows", "data")}
            lexical = BM25.from_arrays(settings["lexical"]["vocabulary"], arrays, settings["lexical"], graph.device)
        return cls(graph, dense=dense, lexical=lexical, embedding=embedding, relevance=relevance)

    # -- signals ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.graph)

    def __repr__(self) -> str:
        """Return the sizes and the signals of the index."""
        signals = [name for name, there in (("dense", self._dense), ("lexical", self._lexical)) if there is not None]
        return f"GraphIndex({self.graph!r}, signals={'+'.join(signals) or 'none'}, relevance={self.relevance.name})"

    @property
    def device(self) -> torch.device:
        """The device all tensors live on."""
        return self.graph.device

    @property
    def has_dense(self) -> bool:
        """Whether the index holds vectors."""
        return self._dense is not None

    @property
    def has_lexical(self) -> bool:
        """Whether the index holds BM25 scores."""
        return self._lexical is not None

    @property
    def embedding_name(self) -> str:
        """Name of the embedding model, or an empty string."""
        model = self.embedding
        return "" if model is None else str(getattr(model, "name", getattr(model, "model", type(model).__name__)))

    @property
    def dense(self) -> DenseIndex:
        """The vectors; MissingSignalError if the index has none."""
        if self._dense is None:
            raise MissingSignalError("This index has no vectors; build it with embedding= or vectors=.")
        return self._dense

    @property
    def lexical(self) -> BM25:
        """The BM25 scores; MissingSignalError if the index has none."""
        if self._lexical is None:
            raise MissingSignalError("This index has no BM25 scores; build it with lexical=True.")
        return self._lexical

    def with_models(self, *, embedding: Any = None, relevance: Any = None) -> GraphIndex:
        """Return this index with other models; graph and signals are shared."""
        if relevance is None and not (isinstance(self.relevance, BiEncoder) and self.relevance.embedding is self.embedding):
            # The fallback follows the embedding model; any other relevance model stays.
            relevance = self.relevance
        return GraphIndex(
            self.graph,
            dense=self._dense,
            lexical=self._lexical,
            embedding=embedding if embedding is not None else self.embedding,
            relevance=relevance,
        )

    def to(self, device: str | torch.device) -> GraphIndex:
        """Return this index on another device. Models stay where they are."""
        graph = self.graph.to(device)
        if graph is self.graph:
            return self
        dense = self._dense and DenseIndex(self._dense.vectors, device=graph.device, backend=self._dense.backend)
        bm25 = self._lexical and BM25.from_arrays(
            self._lexical.vocabulary, self._lexical.arrays(), self._lexical.settings(), graph.device
        )
        return GraphIndex(graph, dense=dense, lexical=bm25, embedding=self.embedding, relevance=self.relevance)

    def queries(
        self,
        texts: str | Sequence[str],
        *,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
    ) -> QueryBatch:
        """Return queries on this index: the arguments are those of :class:`QueryBatch`."""
        return QueryBatch(
            self, texts, vectors=vectors, filter=filter, seed_filter=seed_filter, traversal_filter=traversal_filter
        )
