"""GRanker and G-RAG as document compressors: rerank the results of any retriever along edges, or by shared concepts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import Field, PrivateAttr
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import check_same_model, excerpt_vectors, rerank
from graph_retrievers.signals.embedding_models import CachedEmbedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.systems.fastinsight import GRanker
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.grag.retriever import grag_reranker
from langchain_graph_retrievers.documents import as_node, with_relevance
from langchain_graph_retrievers.fields import CheckedFields

__all__ = ["GRAGCompressor", "GRankerCompressor"]


class _GraphCompressor(CheckedFields, BaseDocumentCompressor):
    """What both compressors share."""

    index: GraphIndex | None = Field(default=None, repr=False, exclude=True)
    embedding: Any = Field(default=None, repr=False, exclude=True)
    top_n: int | None = None

    @abstractmethod
    def _ranked(self, documents: Sequence[Document], nodes: Sequence[Node], query: str) -> list[tuple[int, float]]:
        """Return the places of documents, best first, and their scores; `nodes` are the same documents."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None) -> list[Document]:
        """Return copies of the documents, best first, with the score as ``relevance_score`` in their metadata.

        Equal scores keep the input order. A repeated document id counts once, at its first place. `callbacks` is ignored: no
        child run is started.
        """
        pairs = self._ranked(documents, [as_node(document) for document in documents], query)
        return [with_relevance(documents[place], score) for place, score in pairs[: self.top_n]]


class GRankerCompressor(_GraphCompressor):
    """Rerank documents by a relevance model whose latents are smoothed along the edges among them.

    Documents are matched to the nodes of `index` by id. If all are known, they are reranked on the index. Otherwise, or without
    an index, a small graph of only these documents is built (see :func:`graph_retrievers.retrievers.excerpt.excerpt_index`), with
    the edges between them in the index and those of `edges`.

    Parameters
    ----------
    index : GraphIndex, optional
        Provides the edges, and the models that are not given here. MissingSignalError if there is neither an index nor a model.
    edges : edges, edge specifications or callables
        How documents that the index does not contain are linked, such as ``[("cites", "$id")]``; see
        :func:`graph_retrievers.construction.edges.build_edges`. Edges of absent documents are ignored.
    relevance : object, optional
        Relevance model: a LangChain ``BaseCrossEncoder``, the name or folder of a cross-encoder, or anything else that
        :func:`graph_retrievers.signals.models.as_relevance_model` accepts.
    embedding : Embeddings, optional
        Embeds the query and the documents where there is no relevance model, or where edges join nearest neighbours.
    top_n : int, optional
        Documents to return; all by default.
    alpha : float, default 0.2
    degree : {"graph", "subgraph"}, default "graph"
    weighted : bool, default False
        See :class:`graph_retrievers.systems.fastinsight.GRanker`, which has the algorithm and its source.

    Examples
    --------
    >>> def shared_words(pairs):
    ...     return [float(len(set(query.split()) & set(text.split()))) for query, text in pairs]
    >>> documents = [Document("a punched card", id="card"), Document("a loom", id="loom"), Document("an engine", id="engine")]
    >>> compressor = GRankerCompressor(relevance=shared_words, edges=[("loom", "card", "reads")])
    >>> for document in compressor.compress_documents(documents, "Which loom uses cards?"):
    ...     print(document.id, round(document.metadata["relevance_score"], 2))
    loom 0.8
    card 0.2
    engine 0.0
    """

    edges: Any = Field(default=(), repr=False)
    relevance: Any = Field(default=None, repr=False, exclude=True)
    alpha: float = 0.2
    degree: str = "graph"
    weighted: bool = False

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the fields, and load the relevance model once."""
            super().__init__(**fields)
            if self.index is None and self.relevance is None and self.embedding is None:
                raise MissingSignalError("GRankerCompressor has nothing to score with; pass index=, relevance= or embedding=.")
            if self.relevance is not None:
                self.relevance = as_relevance_model(self.relevance)
            self._operator()

    def _operator(self) -> GRanker:
        return GRanker(self.alpha, degree=self.degree, weighted=self.weighted, k=self.top_n)

    def _ranked(self, documents: Sequence[Document], nodes: Sequence[Node], query: str) -> list[tuple[int, float]]:
        models = {"relevance": self.relevance, "embedding": self.embedding}
        return rerank(self._operator(), query, nodes, index=self.index, edges=self.edges, **models)


class GRAGCompressor(_GraphCompressor):
    """Rerank documents by a graph neural network over the graph of the concepts that they share.

    It works with any retriever and needs no index: documents are parsed and embedded when first seen. Documents that `index`
    contains, with the same id, title and text, get their vectors from it.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``. Without a checkpoint or a network, no edge is used: documents are scored
        by rank, similarity and the concepts they share with the question.
    network, parser : optional
        See :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`, which has the algorithm and its source.
    embedding : Embeddings, optional
        Embeds questions and documents; by default the index's model. MissingSignalError if there is neither.
    index : GraphIndex, optional
    top_n : int, optional
        Documents to return; all by default.
    depth : int, optional
        Documents to rerank; by default the number that the checkpoint was trained with, or 100 without one. Later documents keep
        their places.

    Notes
    -----
    If all documents have the score with which they were found (``score`` in their metadata, as written by the retrievers of this
    package with ``provenance=True``), their ranks by it are used too; otherwise the input order only breaks ties. If nothing can
    move, as in a list of one, documents keep their earlier scores, 0 if they have none. Documents that cannot be parsed keep
    their places.

    Examples
    --------
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> documents = [Document(text, id=str(place)) for place, text in enumerate(texts)]
    >>> compressor = GRAGCompressor(embedding=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> for document in compressor.compress_documents(documents, "Who wrote programs?"):
    ...     print(document.page_content, round(document.metadata["relevance_score"], 2))
    Ada wrote programs. 4.11
    The mill bought engines. 2.31
    Ada knew Babbage. 2.31
    """

    checkpoint: str | Path | None = None
    network: Any = Field(default=None, repr=False, exclude=True)
    parser: Any = Field(default=None, repr=False, exclude=True)
    depth: int | None = None
    _reranker: DocumentGraphRerank = PrivateAttr()

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the fields, and load the checkpoint once."""
            super().__init__(**fields)
            if self.index is None and self.embedding is None:
                raise MissingSignalError("GRAGCompressor has nothing to embed with; pass embedding= or index=.")
            if self.top_n is not None:
                positive("top_n", self.top_n)
            model = self.index.embedding if self.embedding is None else self.embedding
            if model is None:
                raise MissingSignalError("The index has no embedding model for questions; pass embedding=.")
            embedding = CachedEmbedding(model)
            check_same_model(None if self.embedding is None else self.index, embedding)
            self.embedding = embedding
            self._reranker = grag_reranker(
                self.checkpoint, self.network, parser=self.parser, depth=self.depth, embedding=self.embedding.name
            )

    def _ranked(self, documents: Sequence[Document], nodes: Sequence[Node], query: str) -> list[tuple[int, float]]:
        scores = [_score(document.metadata) for document in documents]
        return rerank(self._reranker, query, nodes, scores=scores, embedding=self.embedding, vectors=self._vectors)

    def _vectors(self, nodes: Sequence[Node]) -> Tensor:
        texts = CorpusGraph.from_nodes(nodes).contents()
        return excerpt_vectors(nodes, self.index, lambda bare: self.embedding.embed_documents([texts[place] for place in bare]))


def _score(metadata: Mapping[str, Any]) -> float | None:
    score: float | None = metadata.get("score")
    return score if isinstance(score, Real) and not isinstance(score, bool) else None
