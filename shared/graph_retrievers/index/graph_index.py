"""GraphIndex: a corpus graph with its signals."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch
from torch import Tensor

from graph_retrievers.arguments import as_list, check_keywords, check_pickle, keywords_of
from graph_retrievers.cache import SizedCache
from graph_retrievers.construction.documents import is_of_llama_index, text_nodes, to_nodes
from graph_retrievers.construction.edges import default_edges, edge_items
from graph_retrievers.construction.numbered_references import LookUp, NumberedReferences
from graph_retrievers.construction.references import references
from graph_retrievers.construction.spec import EdgeSource
from graph_retrievers.errors import (
    CorruptIndexError,
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    shown,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, EdgeLike, Node
from graph_retrievers.graph.description import describe, keep_warning, warn_of_no_edges
from graph_retrievers.graph.filters import Filter, filter_key, filter_mask
from graph_retrievers.graph.languages import main_languages
from graph_retrievers.graph.names import name_types
from graph_retrievers.index.build import build
from graph_retrievers.index.change import change
from graph_retrievers.index.options import SignalOptions
from graph_retrievers.index.parts import Built, check_not_empty
from graph_retrievers.index.scope import restricted
from graph_retrievers.index.settings import (
    picklable_sources,
    restored_signals,
    restored_sources,
    saved_embedding,
    saved_signals,
    saved_sources,
    warn_of_other_model,
)
from graph_retrievers.index.storage import read_saved, write_index
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import Embedding, described_model
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.sentence_encoder import SentenceEncoder
from graph_retrievers.signals.signal import Signal

__all__ = ["GraphIndex"]

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from graph_retrievers.graph.description import GraphDescription

# How many scopes are kept at most, and how many nodes they have at most in all, as a multiple of those of the index.
_SCOPES, _COPIES = 1000, 2


class GraphIndex(Corpus):
    """A corpus graph with its signals, read by every retriever in memory.

    An index does not change after it is built, so any number of callers may share it. Raises EmptyGraphError if the graph has no
    node, and DimensionMismatchError if the number of rows of a signal differs from the number of nodes or edges.

    Parameters
    ----------
    graph : CorpusGraph
    signals : mapping of str to Signal, optional
        By name. Operators read ``"dense"`` (vectors) and ``"bm25"`` of the nodes by default; signals of the edges are named
        ``"edge_dense"`` and ``"edge_bm25"``. Other names may be used freely.
    embedding : object, optional
        Model that embeds queries (see :func:`graph_retrievers.signals.embedding_models.as_embedding`).
    relevance : object, optional
        Relevance model (see :func:`graph_retrievers.signals.models.as_relevance_model`); by default the bi-encoder of the node
        vectors.
    edge_sources : sequence of (EdgeSpec or None, int), optional
        Sources of the relationship rows, in order: a specification, or None for edges given one by one, and the number of rows.
        :meth:`with_changes` applies the specifications again. By default all edges are given one by one.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["Ada wrote a program.", "Babbage built an engine."], edges=[("0", "1", "knows")])
    >>> index
    GraphIndex(CorpusGraph(nodes=2, edges=1, relations=1, device=cpu), signals=['bm25'], relevance='bi-encoder')
    """

    def __init__(
        self,
        graph: CorpusGraph,
        signals: Mapping[str, Signal] | None = None,
        *,
        embedding: Any = None,
        relevance: Any = None,
        edge_sources: Iterable[tuple[Any, int]] | None = None,
    ) -> None:
        check_not_empty(graph)
        # The whole graph is at hand: it has the facts.
        self.graph, self.facts, self.device, self.signals = graph, graph, graph.device, dict(signals or {})
        self._scopes = SizedCache(_SCOPES, _COPIES * len(graph))
        for name, signal in self.signals.items():
            if not isinstance(signal, Signal):
                raise InvalidArgumentError(f"Signal {name!r} is a {type(signal).__name__}; expected a Signal.")
            if name in ("dense", "bm25") and signal.covers != "nodes":
                raise InvalidArgumentError(f"Signal {name!r} covers edges; give it another name, such as 'edge_{name}'.")
            rows = graph.num_edges if signal.covers == "edges" else len(graph)
            if len(signal) != rows:
                raise DimensionMismatchError(
                    f"Signal {name!r} covers {len(signal)} {signal.covers}, the graph has {rows}; expected one row for each."
                )
        sources = [(None, graph.num_edges)] if edge_sources is None else edge_sources
        self.edge_sources = tuple(EdgeSource(spec, rows) for spec, rows in sources)
        if sum(source.rows for source in self.edge_sources) != graph.num_edges:
            raise DimensionMismatchError(f"edge_sources {shown(self.edge_sources, 200)} do not add up to {graph.num_edges} edges.")
        self.embedding: Embedding | None = as_embedding(embedding) if embedding is not None else None
        self.relevance: RelevanceModel = as_relevance_model(relevance) if relevance is not None else BiEncoder(self.embedding)

    @classmethod
    def from_graph(
        cls,
        graph: CorpusGraph,
        *,
        embedding: Any = None,
        vectors: Any = None,
        bm25: bool | str | Signal = True,
        edge_signals: bool = False,
        relevance: Any = None,
        dense_backend: str = "exact",
        dense_precision: str = "float32",
        metric: str | None = None,
        cache: bool | str | Path | None = None,
        show_progress: bool = False,
    ) -> GraphIndex:
        """Return an index of a corpus graph; signals that are not given are computed.

        Parameters
        ----------
        graph : CorpusGraph
        embedding : object, optional
            Embedding model of the queries, and of the nodes unless `vectors` are given.
        vectors : array-like, shape [N, d], optional
            Node vectors computed elsewhere; False for none, so that nothing is embedded.
        bm25 : bool, str or Signal, default True
            Whether to build BM25, and in which language (``"de"``); by default it is found from the texts, and English words are
            stemmed only if there are no vectors. A :class:`~graph_retrievers.signals.bm25.BM25` of the contents of the nodes
            (``CorpusGraph.contents()``: text with title), in their order, is used as it is, and its settings for the edges.
        edge_signals : bool, default False
            Whether to build ``"edge_bm25"`` and, with an embedding model, ``"edge_dense"`` from the texts of the edges. An edge
            without a text is read as "source relation target". They are also built for a graph without edges, for later
            additions.
        relevance : object, optional
            Relevance model, see the class.
        dense_backend : {"exact", "hnsw"}, default "exact"
        dense_precision : {"float32", "bfloat16", "int8"}, default "float32"
            How vectors are stored, see :class:`~graph_retrievers.signals.dense.DenseIndex`.
        metric : {"dot", "cosine"}, optional
            How vectors are compared. The default is cosine for an embedding model of LlamaIndex, as in LlamaIndex, and else the
            dot product, with a warning if the vectors are not of unit length, because the two then differ.
        cache : bool, str or Path, optional
            Whether to store computed vectors on disk as they come and reuse stored ones: in the user's cache folder (True), in
            another folder, or not (False). By default those of a hosted model are stored if they need more than one request, so
            that a build that fails goes on where it was; see :func:`~graph_retrievers.signals.vector_cache.embed_corpus`.
        show_progress : bool, default False
            Whether to show progress bars for embedding and BM25.
        """
        if not isinstance(graph, CorpusGraph):
            expected = "expected a CorpusGraph; from_texts, from_nodes and from_documents make one"
            raise InvalidArgumentError(f"graph is {shown(graph)}; {expected}.")
        built = build(
            graph,
            embedding=embedding,
            vectors=vectors,
            bm25=bm25,
            edge_signals=edge_signals,
            dense_backend=dense_backend,
            dense_precision=dense_precision,
            metric=metric,
            cache=cache,
            show_progress=show_progress,
        )
        return cls._of(built, relevance)

    @classmethod
    def _of(cls, built: Built, relevance: Any) -> GraphIndex:
        return cls(built.graph, built.signals, embedding=built.embedding, relevance=relevance, edge_sources=built.edge_sources)

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[Node],
        edges: Iterable[EdgeLike] | None = None,
        *,
        include_titles: bool = True,
        device: str | torch.device | None = None,
        **signals: Unpack[SignalOptions],
    ) -> GraphIndex:
        """Return an index of nodes and edges; `signals` are the keywords of :meth:`from_graph`.

        By default there are no edges, and a retriever that needs some reports it. If nodes have an ``embedding``, `embedding`
        embeds only the others: see :meth:`from_documents`.
        """
        _check("from_nodes", signals)
        nodes, options = as_list("nodes", nodes, "Node(id, text, ...)"), dict[str, Any](signals)
        relevance = options.pop("relevance", None)
        graph = CorpusGraph.from_nodes(nodes, () if edges is None else edges, include_titles=include_titles, device=device)
        return cls._of(build(graph, nodes, **options), relevance)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        titles: Sequence[str] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        edges: Any = None,
        include_titles: bool = True,
        device: str | torch.device | None = None,
        **signals: Unpack[SignalOptions],
    ) -> GraphIndex:
        """Return an index of plain texts.

        Raises InvalidArgumentError if a column is not a list with one entry per text, EmptyGraphError if there are no texts, and
        MissingSignalError if edges need vectors and there are none.

        Parameters
        ----------
        texts : sequence of str, length N
        ids : sequence of str, length N, optional
            Defaults to "0", "1", ...
        titles : sequence of str, length N, optional
        metadatas : sequence of mapping, length N, optional
        edges : edge, edge specification, callable, networkx graph, or a list of these
            See :mod:`graph_retrievers.construction.edges`. By default there are none, and a retriever that needs some reports it.
        include_titles : bool, default True
            Whether signals read ``title + ". " + text``.
        device : str or torch.device, optional
            Device of the index; the CPU by default.
        **signals
            Keywords of :meth:`from_graph`. Edges between nearest neighbours need `embedding` or `vectors`.
        """
        _check("from_texts", signals)
        nodes = text_nodes(texts, ids, titles, metadatas)
        return cls._linked(nodes, edge_items(edges), include_titles, device, dict(signals))

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Any],
        *,
        edges: Any = None,
        title_key: str | None = None,
        type_key: str = "type",
        include_titles: bool = True,
        device: str | torch.device | None = None,
        lenient: bool = False,
        strict: bool = False,
        **signals: Unpack[SignalOptions],
    ) -> GraphIndex:
        """Return an index of documents of LangChain or LlamaIndex, or of :class:`Node` objects.

        Parameters
        ----------
        documents, title_key, type_key, strict
            See :func:`graph_retrievers.construction.documents.to_nodes`.
        edges : edges, optional
            See :meth:`from_texts`. By default the relationships of LlamaIndex nodes, if any has one, else no edges. Given edges
            replace the relationships: ``[]`` makes a graph without edges, and ``[Relationships(), ...]`` includes both.
        lenient : bool, default False
            Whether an edge specification with nothing to read yet, such as a metadata field that no document has, only causes a
            warning and finds no edges; by default it raises an error.
        include_titles, device, **signals
            See :meth:`from_texts`. If nodes have an ``embedding``, as those of LlamaIndex may, `embedding` embeds only the
            others, unless `vectors` are given; these vectors are scaled to unit length. Without `embedding` they are used if all
            nodes have one. Nodes of LlamaIndex are compared by cosine by default, as in LlamaIndex.

        Examples
        --------
        >>> papers = [Node("a", "Looms.", metadata={"cites": ["b"]}), Node("b", "Punched cards.")]
        >>> list(GraphIndex.from_documents(papers, edges=("cites", "$id")).graph.edges())
        [Edge(source='a', target='b', relation='cites', weight=1.0, text='', metadata={})]
        """
        _check("from_documents", signals)
        nodes = to_nodes(documents, title_key=title_key, type_key=type_key, strict=strict)
        explicit = edges is not None
        edges = edge_items(edges) if explicit else default_edges(nodes)
        if any(map(is_of_llama_index, nodes)):
            signals["metric"] = signals.get("metric") or "cosine"
        return cls._linked(nodes, edges, include_titles, device, dict(signals), lenient, explicit)

    @classmethod
    def _linked(
        cls,
        nodes: list[Node],
        edges: list[Any],
        include_titles: bool,
        device: Any,
        signals: dict[str, Any],
        lenient: bool = False,
        explicit: bool = True,
    ) -> GraphIndex:
        """Return the index of nodes and of the edges that some items describe, `explicit` if the caller gave these."""
        relevance = signals.pop("relevance", None)
        graph = CorpusGraph.from_nodes(nodes, include_titles=include_titles, device=device)
        built = build(graph, nodes, edges, lenient=lenient, **signals)
        index = cls._of(built, relevance)
        if not edges:
            return index
        if not index.graph.has_edges:
            # If none are requested, a retriever that needs some reports it.
            if explicit:
                warn_of_no_edges(index.graph, index._spec_names())
        elif advice := index._description().advice:
            logger.warning("%s index.describe() tells more.", " ".join(advice))
        return index

    def save(self, folder: Any) -> None:
        """Write the index to a folder: see :mod:`graph_retrievers.index.storage`. Models are not saved."""
        write_index(folder, self.graph, *self.state())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what :meth:`save` writes in addition to the graph: the tensors of the signals by name, and settings for JSON."""
        tensors, entries = saved_signals(self.signals)
        # Only this class can be made again from its name.
        model = {"name": self.embedding_name, "by_name": isinstance(self.embedding, SentenceEncoder)}
        return tensors, {"signals": entries, "embedding": model, "edges": saved_sources(self.edge_sources)}

    @classmethod
    def load(
        cls,
        folder: Any,
        *,
        embedding: Any = None,
        relevance: Any = None,
        signals: Mapping[str, Signal] | None = None,
        edges: Any = None,
        device: str | torch.device | None = None,
        ready: bool = False,
    ) -> GraphIndex:
        """Return a saved index; its tensors are mapped into memory, not read.

        Raises CorruptIndexError if a file is missing, truncated or changed, IndexVersionError if the format has a different
        version, and MissingSignalError if this package cannot create a saved signal and it is not given.

        Parameters
        ----------
        folder : str or Path
        embedding, relevance : object, optional
            Models, as for the class; models are not part of a saved index.
        signals : mapping of str to Signal, optional
            Signals that replace or extend the saved ones, such as those in an external store.
        edges : edge specification, callable, or a list of these, optional
            Your own specifications that found edges of this index, for :meth:`with_changes`; only their names are saved.
        device : str or torch.device, optional
        ready : bool, default False
            Whether to call :meth:`prepare`, so that the first question is not delayed.
        """
        options = {"embedding": embedding, "relevance": relevance, "signals": signals, "edges": edges}
        index = cls.from_state(folder, *read_saved(folder, device)[1:], **options)
        return index.prepare() if ready else index

    def prepare(self) -> GraphIndex:
        """Compute what most retrievers derive from graph and signals, instead of at the first question; return the index.

        Call it before the first question in a process that answers many. Models are not loaded. Data for a single retriever, such
        as the matrix of PPR, are then computed when the retriever is created.

        >>> len(GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]]).prepare())
        2
        """
        _ = self.graph.incidence, name_types(self.graph)
        for signal in self.signals.values():
            signal.prepare()
        # Retrievers on this graph depend on it, with any models.
        self.graph.cache.get("prepared", lambda: True)
        return self

    @property
    def prepared(self) -> bool:
        """Whether :meth:`prepare` was called; retrievers then compute their own data when they are created."""
        return "prepared" in self.graph.cache

    @classmethod
    def from_state(
        cls,
        folder: Any,
        graph: CorpusGraph,
        tensors: Mapping[str, Tensor],
        settings: Mapping[str, Any],
        *,
        embedding: Any = None,
        relevance: Any = None,
        signals: Mapping[str, Signal] | None = None,
        edges: Any = None,
    ) -> GraphIndex:
        """Return the index of a graph and a :meth:`state`; `folder` is for messages, the rest is as for :meth:`load`."""
        check_not_empty(graph)
        all_signals = restored_signals(tensors, settings, signals or {}, graph.device, folder)
        sources = restored_sources(settings, edges, folder)
        made_by, _ = saved_embedding(settings, folder)
        try:
            index = cls(graph, all_signals, embedding=embedding, relevance=relevance, edge_sources=sources)
        except DimensionMismatchError as error:
            raise CorruptIndexError(f"The parts of {folder} do not fit together ({error}); build the index again.") from error
        if "dense" in all_signals.keys() - (signals or {}).keys():
            warn_of_other_model(folder, made_by, index.embedding)
        return index

    def digest(self) -> str:
        """Return 16 characters that change with the ids, texts, edges and vectors.

        >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
        >>> index.digest() == GraphIndex.from_texts(["a loom", "a drum"], vectors=[[1.0, 0.0], [0.0, 1.0]]).digest()
        False
        """
        digest = hashlib.sha256()
        for node, content in zip(self.graph.ids, self.graph.contents(), strict=True):
            digest.update(f"{node}\0{content}\0".encode("utf-8", "surrogatepass"))
        tensors = [self.graph.sources, self.graph.targets]
        if isinstance(dense := self.signals.get("dense"), DenseIndex):
            tensors += dense.state()[0].values()
        for tensor in tensors:
            # numpy has no bfloat16.
            plain = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
            digest.update(plain.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def describe(self) -> GraphDescription:
        """Return a description of the contents of the index, with advice; ``print`` shows it as text.

        See :class:`~graph_retrievers.graph.description.GraphDescription`. References by number are read again to count them.

        Examples
        --------
        >>> index = GraphIndex.from_texts(["Ada wrote a program.", "Babbage built an engine."], edges=[("0", "1", "knows")])
        >>> index.describe().edges
        {'knows': 1}
        """
        description = self._description()
        if not self.looks_up:
            return description
        return replace(description, references=str(NumberedReferences().describe(self._nodes())))

    @property
    def looks_up(self) -> bool:
        """Whether units can be found by the numbers that questions name, as :class:`NumberedReferences` read them."""
        return any(isinstance(source.spec, NumberedReferences) for source in self.edge_sources)

    def look_up(self, question: str) -> list[list[int]]:
        """Return the rows of the nodes of each unit that a question cites by number, such as "Article 17 GDPR"."""
        # Most questions cite nothing, and need not wait until the numbers of the corpus are read.
        return self.graph.cache.get("numbers", lambda: LookUp(self._nodes())).rows(question) if references(question) else []

    def _nodes(self) -> list[Node]:
        return [self.graph.node(row) for row in range(len(self.graph))]

    def _description(self) -> GraphDescription:
        model, tokens, label = described_model(self.embedding)
        recall = getattr(self.signals.get("dense"), "recall", None)
        bm25 = self.signals.get("bm25")
        # The description compares the languages of texts and model, also without BM25.
        codes = main_languages(self.graph.contents()) if bm25 is None and model is not None else ""
        language = getattr(bm25, "language", codes), getattr(bm25, "stem", "")
        return describe(self.graph, tokens, tuple(self.signals), label, self._spec_names(), recall, language, model)

    def _spec_names(self) -> list[str]:
        """Return the class names of the specifications that were applied."""
        return list(dict.fromkeys(type(source.spec).__name__ for source in self.edge_sources if source.spec is not None))

    def within(self, scope: Filter) -> GraphIndex:
        """Return the index of the nodes that satisfy a filter and of the edges between them, as if there were no other nodes.

        Retrievers use it for ``scope=``. Degrees, names, word frequencies and everything else that depends on the corpus are
        those of the scope; texts, vectors, edges and models are those of this index. Its :meth:`with_changes` changes only the
        scope, so edges of specifications are found again among its nodes. Scopes are cached: at most 1,000, and only the most
        recently used that together have at most twice the nodes of this index.

        Parameters
        ----------
        scope : mapping, callable or Tensor
            See :func:`graph_retrievers.graph.filters.filter_mask`. Callables are evaluated at every call.

        Returns
        -------
        GraphIndex
            This index, if the scope is ``{}``, which every node satisfies.

        Raises
        ------
        EmptyGraphError
            If no node is in the scope.
        InvalidArgumentError
            If the filter cannot be read, or a signal cannot be restricted to some nodes.

        Examples
        --------
        >>> index = GraphIndex.from_texts(["A loom.", "A card.", "A loom card."], metadatas=[{"owner": o} for o in "aba"])
        >>> mine = index.within({"owner": "a"})
        >>> mine.graph.ids, mine.rows.tolist()
        (['0', '2'], [0, 2])
        """
        if isinstance(scope, Mapping) and not scope:
            return self
        if callable(scope):
            # Evaluated once per node, here.
            scope = filter_mask(self.graph, scope)
        return self._scopes.get(filter_key(self.graph, scope), lambda: self._within(scope))

    def _within(self, scope: Filter) -> GraphIndex:
        rows = filter_mask(self.graph, scope).nonzero().flatten()
        if rows.numel() == 0:
            raise EmptyGraphError("No node is in the scope; see that the filter names fields and values that nodes have.")
        index = GraphIndex._of(restricted(self._parts, rows), self.relevance)
        index.rows = rows
        return index

    def with_models(self, *, embedding: Any = None, relevance: Any = None) -> GraphIndex:
        """Return this index with other models; graph and signals are shared."""
        # The fallback follows the embedding model; any other relevance model stays.
        relevance = relevance if relevance is not None else self._own_relevance()
        embedding = embedding if embedding is not None else self.embedding
        return GraphIndex(self.graph, self.signals, embedding=embedding, relevance=relevance, edge_sources=self.edge_sources)

    def with_changes(
        self,
        *,
        add: Iterable[Any] = (),
        upsert: Iterable[Any] = (),
        delete: Iterable[str] = (),
        delete_sources: Iterable[str] = (),
        add_edges: Iterable[EdgeLike] = (),
        delete_edges: Iterable[EdgeLike] = (),
        vectors: Any = None,
        show_progress: bool = False,
        strict: bool = False,
    ) -> GraphIndex:
        """Return the index of a changed corpus; this index does not change, and queries on it continue unaffected.

        Nodes and edges are deleted first, then documents are added, then edges. A document that replaces a node takes its row;
        new documents come last. Only texts that no current node has are embedded and split into words. The answers are those of
        an index built from the same nodes and edges in the same order.

        Parameters
        ----------
        add, upsert : iterable of documents, default ()
            See :func:`graph_retrievers.construction.documents.to_nodes`. `upsert` replaces nodes with the same ids.
        delete : iterable of str, default ()
            Ids of nodes. Their edges are deleted too; the edges of a replaced node stay.
        delete_sources : iterable of str, default ()
            Documents whose nodes are deleted; see :func:`graph_retrievers.graph.addresses.node_source`.
        add_edges : iterable of Edge, (source, target) or (source, target, relation), default ()
        delete_edges : iterable of the same, default ()
            Edges that were given one by one. (source, target) means all relations.
        vectors : array-like, shape [n, d], optional
            Vectors of the documents of `add` and `upsert`. By default the ``embedding`` of LlamaIndex nodes is used, and the
            model of the index embeds the others.
        show_progress : bool, default False
        strict : bool, default False
            Whether a title or type of a document that cannot be used is an error; see
            :func:`graph_retrievers.construction.documents.to_nodes`.

        Returns
        -------
        GraphIndex
            Edges of specifications (links, mentions, neighbours, ...) are found again in the whole changed corpus, because the
            references of one document depend on the others. A specification with nothing left to read finds no edges, with a
            warning.

        Raises
        ------
        UnknownNodeError, DuplicateNodeError
            If a node to delete, a source or an end of an edge is unknown, or a document to add has the id of a node.
        InvalidArgumentError
            If a document has no id, an edge to delete was not given one by one, or a signal cannot be updated; with `strict`, if a
            title or type cannot be used.
        MissingSignalError
            If new texts must be embedded and the index has no model.
        EmptyGraphError
            If no node is left.

        Examples
        --------
        >>> index = GraphIndex.from_texts(["A loom.", "A card."], edges=[("0", "1", "reads")])
        >>> index.with_changes(delete=["1"], add=[Node("2", "A cipher.")], add_edges=[("0", "2")]).graph.edges()
        [Edge(source='0', target='2', relation='', weight=1.0, text='', metadata={})]
        """
        options = {"add_edges": add_edges, "delete_edges": delete_edges, "vectors": vectors, "show_progress": show_progress}
        result = change(self._parts, add=add, upsert=upsert, delete=delete, delete_sources=delete_sources, strict=strict, **options)
        keep_warning(self.graph, result.graph)
        return GraphIndex._of(result, self._own_relevance())

    def to(self, device: str | torch.device) -> GraphIndex:
        """Return this index on another device. Models stay where they are."""
        graph = self.graph.to(device)
        if graph is self.graph:
            return self
        signals = {name: signal.to(graph.device) for name, signal in self.signals.items()}
        index = GraphIndex(graph, signals, embedding=self.embedding, relevance=self.relevance, edge_sources=self.edge_sources)
        index.rows = None if self.rows is None else self.rows.to(graph.device)
        return index

    def __copy__(self) -> Self:
        """Return the index itself, which does not change."""
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the index itself, which does not change."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, on the CPU, as who reads it may have no other device; see :meth:`to`.

        InvalidArgumentError if a model cannot be pickled.
        """
        check_pickle("This index", {"embedding": self.embedding, "relevance": self.relevance})
        return self.to("cpu").__dict__ | {"edge_sources": picklable_sources(self.edge_sources)}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.graph)

    def __repr__(self) -> str:
        """Return the sizes and the signals of the index."""
        return f"GraphIndex({self.graph!r}, signals={list(self.signals)}, relevance={self.relevance.name!r})"

    @property
    def is_scope(self) -> bool:
        """Whether this is the index of a scope."""
        return self.rows is not None

    @property
    def bm25(self) -> Signal:
        """BM25 over the nodes; MissingSignalError if the index has none."""
        return self.signal("bm25")

    @property
    def _parts(self) -> Built:
        return Built(self.graph, dict(self.signals), self.embedding, self.edge_sources)

    def _own_relevance(self) -> RelevanceModel | None:
        """Return the relevance model, None for the one that follows the embedding model."""
        follows = isinstance(self.relevance, BiEncoder) and self.relevance.embedding is self.embedding
        return None if follows else self.relevance


def _check(constructor: str, signals: Mapping[str, Any]) -> None:
    """Raise UnexpectedArgumentError for a keyword that neither a constructor nor :meth:`GraphIndex.from_graph` has."""
    names = keywords_of(getattr(GraphIndex, constructor), GraphIndex.from_graph)
    check_keywords(f"GraphIndex.{constructor}", signals, sorted(names))
