"""GRanker as a document compressor: rerank the results of any retriever by relevance smoothed along edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field

from graph_retrievers.errors import MissingSignalError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import rerank
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.systems.fastinsight import GRanker
from langchain_graph_retrievers.documents import as_node, with_relevance
from langchain_graph_retrievers.fields import CheckedFields

__all__ = ["GRankerCompressor"]


class GRankerCompressor(CheckedFields, BaseDocumentCompressor):
    """Rerank documents by a relevance model whose latents are smoothed along the edges among them.

    Documents are matched to the nodes of `index` by id. If all are known, they are reranked on the index. Otherwise, or without
    an index, a small graph of only these documents is built (see :func:`graph_retrievers.retrievers.excerpt.excerpt_index`), with
    the edges between them in the index and those of `edges`.

    Parameters
    ----------
    index : GraphIndex, optional
        Provides the edges, and the models that are not given here.
    edges : edges, edge specifications or callables
        How documents that the index does not contain are linked, such as ``[("cites", "$id")]``; see
        :func:`graph_retrievers.construction.edges.build_edges`. Edges of absent documents are ignored.
    relevance : object, optional
        Relevance model: a LangChain ``BaseCrossEncoder``, the name or folder of a cross-encoder, or anything else that
        :func:`graph_retrievers.signals.models.as_relevance_model` accepts. By default the index's.
    embedding : Embeddings, optional
        Embeds query and documents if there is no relevance model, and for edges between nearest neighbours. By default the index's.
    top_n : int, optional
        Documents to return; all by default.
    alpha : float, default 0.2
        Smoothing factor in [0, 1]; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree by which a neighbour's weight is divided: in the whole graph, or among the documents only.

    Raises
    ------
    MissingSignalError
        If there is neither an index nor a model.
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Returns copies of the documents with the score as ``relevance_score`` in their metadata; equal scores keep the input order. A
    repeated document id counts once, at its first place.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2; see :class:`graph_retrievers.systems.fastinsight.GRanker`.

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

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: GraphIndex | None = Field(default=None, repr=False, exclude=True)
    edges: Any = Field(default=(), repr=False)
    relevance: Any = Field(default=None, repr=False, exclude=True)
    embedding: Any = Field(default=None, repr=False, exclude=True)
    top_n: int | None = None
    alpha: float = 0.2
    degree: str = "graph"

    def __init__(self, **fields: Any) -> None:
        """Check the fields, and load the relevance model once."""
        super().__init__(**fields)
        if self.index is None and self.relevance is None and self.embedding is None:
            raise MissingSignalError("GRankerCompressor has nothing to score with; pass index=, relevance= or embedding=.")
        if self.relevance is not None:
            self.relevance = as_relevance_model(self.relevance)
        self._operator()

    def _operator(self) -> GRanker:
        return GRanker(self.alpha, degree=self.degree, k=self.top_n)

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None) -> list[Document]:
        """Return copies of the documents, best first.

        Parameters
        ----------
        documents : sequence of Document
        query : str
        callbacks : optional
            Ignored; no child run is started.
        """
        ranked = rerank(
            self._operator(),
            query,
            [as_node(document) for document in documents],
            index=self.index,
            edges=self.edges,
            documents=documents,
            relevance=self.relevance,
            embedding=self.embedding,
        )
        return [with_relevance(documents[place], score) for place, score in ranked[: self.top_n]]
