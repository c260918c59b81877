"""G-RAG as a document compressor: rerank the results of any retriever over the graph of the concepts that they share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, PrivateAttr
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import check_same_model, known_vectors, rerank
from graph_retrievers.signals.embedding import CachedEmbedding
from graph_retrievers.systems.grag import DocumentGraphRerank
from graph_retrievers.systems.grag.retriever import grag_reranker
from langchain_graph_retrievers.documents import as_node, with_relevance
from langchain_graph_retrievers.fields import CheckedFields

__all__ = ["GRAGCompressor"]


class GRAGCompressor(CheckedFields, BaseDocumentCompressor):
    """Rerank documents by a graph neural network over the graph of the concepts that they share.

    It works with any retriever and needs no index: documents are parsed and embedded when first seen. Documents that `index`
    contains, with the same id, title and text, get their vectors from it.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``. Without a checkpoint or a network, no edge is used: documents are scored
        by rank, similarity and the concepts they share with the question.
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Used instead of a checkpoint.
    parser : MeaningParser, MeaningCache, callable or None
        See :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.
    embedding : Embeddings, optional
        Embeds questions and documents; by default the index's model.
    index : GraphIndex, optional
    top_n : int, optional
        Documents to return; all by default.
    depth : int, optional
        Documents to rerank; by default the number that the checkpoint was trained with, or 100 without one. Later documents keep
        their places.

    Raises
    ------
    MissingSignalError
        If there is neither an index nor an embedding model.
    InvalidArgumentError
        For a checkpoint that does not fit, or a value outside its range.

    Notes
    -----
    Returns copies of the documents with the score as ``relevance_score`` in their metadata. If all of them have the score with
    which they were found (``score`` in their metadata, as written by the retrievers of this package with ``provenance=True``),
    their ranks by it are used too; otherwise the input order only breaks ties. If nothing can move, as in a list of one,
    documents keep their earlier scores, 0 if they have none. A repeated document id counts once, at its first place. Documents
    that cannot be parsed keep their places.

    References
    ----------
    Dong et al., "Don't Forget to Connect!", 2024; see :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.

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

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    checkpoint: str | Path | None = None
    network: Any = Field(default=None, repr=False, exclude=True)
    parser: Any = Field(default=None, repr=False, exclude=True)
    embedding: Any = Field(default=None, repr=False, exclude=True)
    index: GraphIndex | None = Field(default=None, repr=False, exclude=True)
    top_n: int | None = None
    depth: int | None = None
    _reranker: DocumentGraphRerank = PrivateAttr()

    def __init__(self, **fields: Any) -> None:
        """Check the fields, and load the checkpoint once."""
        super().__init__(**fields)
        if self.index is None and self.embedding is None:
            raise MissingSignalError("GRAGCompressor has nothing to embed with; pass embedding= or index=.")
        if self.top_n is not None:
            positive("top_n", self.top_n)
        if self.embedding is not None:
            self.embedding = CachedEmbedding(self.embedding)
            check_same_model(self.index, self.embedding)
        elif self.index is not None and self.index.embedding is not None:
            self.embedding = CachedEmbedding(self.index.embedding)
        else:
            raise MissingSignalError("The index has no embedding model for questions; pass embedding=.")
        self._reranker = grag_reranker(
            self.checkpoint, self.network, parser=self.parser, depth=self.depth, embedding=self.embedding.name
        )

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
            self._reranker,
            query,
            [as_node(document) for document in documents],
            scores=[_score(document.metadata) for document in documents],
            embedding=self.embedding,
            vectors=self._vectors,
        )
        return [with_relevance(documents[place], score) for place, score in ranked[: self.top_n]]

    def _vectors(self, nodes: Sequence[Node]) -> Tensor:
        known = known_vectors(nodes, self.index)
        texts = [text for text, vector in zip(CorpusGraph.from_nodes(nodes).contents(), known, strict=True) if vector is None]
        made = iter(self.embedding.embed_documents(texts))
        return torch.stack([next(made) if vector is None else vector for vector in known])


def _score(metadata: Mapping[str, Any]) -> float | None:
    score = metadata.get("score")
    if isinstance(score, bool) or not isinstance(score, Real):
        return None
    try:
        return float(score)
    except OverflowError:
        return math.inf
