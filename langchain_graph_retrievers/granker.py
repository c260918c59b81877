"""GRanker as a document compressor: rerank what any retriever found, by relevance smoothed along edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, model_validator

from graph_retrievers.construction.edges import needs_vectors
from graph_retrievers.construction.excerpt import edges_among
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.operator import Ranking
from graph_retrievers.signals.embedding import as_embedding, embed_texts
from graph_retrievers.signals.relevance import BiEncoder, as_relevance_model
from langchain_graph_retrievers.documents import with_metadata

__all__ = ["GRankerCompressor"]


class GRankerCompressor(BaseDocumentCompressor):
    """Rerank documents by a relevance model whose latents are smoothed along the edges among them.

    Documents are matched to the nodes of `index` by id. Where all are known, they are reranked on the index. Where
    some are not, or there is no index, a small graph of just these documents is made: edges that the index has
    among them, and those of `edges`; degrees are then those of the small graph.

    Parameters
    ----------
    index : GraphIndex, optional
        Its edges, and its models where none are given here.
    edges : edges, edge specifications or callables
        What links documents that the index does not know, such as ``[("cites", "$id")]``; see
        :func:`graph_retrievers.construction.edges.build_edges`. What it says of absent documents is passed over.
    relevance : object, optional
        Relevance model: a LangChain ``BaseCrossEncoder``, the name or folder of a cross-encoder, or what else
        :func:`graph_retrievers.signals.relevance.as_relevance_model` takes.
    embedding : Embeddings, optional
        Embeds query and documents where vectors score, for want of a relevance model; the index's own model, if it has
        one, goes first.
    top_n : int, optional
        Documents to return; all by default.
    alpha : float, default 0.2
        Smoothing factor in [0, 1]; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree that a neighbour counts inversely to: of the whole graph, or among the documents alone.

    Notes
    -----
    Documents come back as copies with the score as ``relevance_score`` in their metadata; equal scores keep the
    order they came in. A document id that comes twice counts once, at its first place.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2; see :class:`graph_retrievers.operators.granker.GRanker`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: GraphIndex | None = Field(None, repr=False, exclude=True)
    edges: Any = Field((), repr=False)
    relevance: Any = Field(None, repr=False, exclude=True)
    embedding: Any = Field(None, repr=False, exclude=True)
    top_n: int | None = Field(None, ge=1)
    alpha: float = Field(0.2, ge=0, le=1)
    degree: Literal["graph", "subgraph"] = "graph"

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if self.index is None and self.relevance is None and self.embedding is None:
            raise MissingSignalError("GRankerCompressor has nothing to score with; pass index=, relevance= or embedding=.")
        if self.relevance is not None:
            self.relevance = as_relevance_model(self.relevance)
        return self

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None) -> list[Document]:
        """Return copies of the documents, best first.

        Parameters
        ----------
        documents : sequence of Document
        query : str
        callbacks : optional
            Not used: no child run is started.
        """
        distinct: dict[str, Document] = {}
        for place, document in enumerate(documents):
            distinct.setdefault(document.id or f"document {place}", document)
        if not distinct:
            return []
        index = self._index_of(distinct)
        rows = torch.tensor([[index.graph.row(name) for name in distinct]], device=index.device)
        given = Ranking.seeds(rows, torch.zeros(rows.shape, device=index.device), "given")
        ranking = GRanker(self.alpha, degree=self.degree, k=self.top_n)(index.queries(query), given)
        ranked = [distinct[index.graph.ids[row]] for row in ranking.nodes[0].tolist()]
        return [
            document.model_copy(update={"metadata": with_metadata(document.metadata, {"relevance_score": score})})
            for document, score in zip(ranked, ranking.scores[0].tolist(), strict=True)
        ]

    def _index_of(self, documents: Mapping[str, Document]) -> GraphIndex:
        """Return an index that holds all documents: the given one, or a small one of just these."""
        index = self.index
        if index is not None and all(document.id in index.graph for document in documents.values()):
            embedding = self.embedding if index.embedding is None else None
            if embedding is None and self.relevance is None:
                return index
            return index.with_models(embedding=embedding, relevance=self.relevance)
        return self._small_index(documents)

    def _small_index(self, documents: Mapping[str, Document]) -> GraphIndex:
        """Return an index of some documents alone: edges and models of the given index, edges and models of the caller."""
        relevance, embedding = self.relevance, self.embedding
        if self.index is not None:
            embedding = embedding if self.index.embedding is None else self.index.embedding
            if relevance is None and not isinstance(self.index.relevance, BiEncoder):
                relevance = self.index.relevance
        graph = CorpusGraph.from_nodes(_node(name, document) for name, document in documents.items())
        vectors = None
        if relevance is None or needs_vectors(self.edges):
            if embedding is None:
                raise MissingSignalError("Documents that the index does not hold need a model: pass relevance= or embedding=.")
            vectors = embed_texts(as_embedding(embedding), graph.contents())
        nodes = [graph.node(row) for row in range(len(graph))]
        edges = [*self._known_edges(documents), *edges_among(nodes, self.edges, vectors)]
        return GraphIndex.from_nodes(nodes, edges, vectors=vectors, lexical=False, embedding=embedding, relevance=relevance)

    def _known_edges(self, documents: Mapping[str, Document]) -> list[Edge]:
        """Return the edges that the index has among the documents it holds."""
        if self.index is None:
            return []
        graph = self.index.graph
        names = [name for name, document in documents.items() if document.id in graph]
        rows = torch.tensor([graph.row(name) for name in names], dtype=torch.int64, device=graph.device)
        linked = graph.adjacent(rows.unsqueeze(1).expand(-1, len(names)), rows.unsqueeze(0).expand(len(names), -1))
        return [(names[i], names[j]) for i, j in linked.triu().nonzero().tolist()]


def _node(name: str, document: Document) -> Node:
    title = document.metadata.get("title", "")
    return Node(name, document.page_content, title if isinstance(title, str) else "", metadata=document.metadata)
