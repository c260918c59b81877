"""Reranking over a document graph, O_gm: a graph neural network scores what a question's documents share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.graph.ragged import placed
from graph_retrievers.operators.grag.document_graph import normalized
from graph_retrievers.operators.grag.evidence import DocumentSet, mean_ranks
from graph_retrievers.operators.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.meaning_cache import MeaningCache

__all__ = ["DocumentGraphRerank", "NetworkInputs"]


@dataclass(frozen=True)
class NetworkInputs:
    """What a network reads of one question.

    Attributes
    ----------
    arguments : tuple of Tensor
        Of the network's ``forward``.
    connected : Tensor, shape [n], bool
        Which documents, together with the question, share anything with another one.
    unparsed : int
        Documents without a meaning graph.
    """

    arguments: tuple[Tensor, ...]
    connected: Tensor
    unparsed: int


class DocumentGraphRerank(Operator):
    """G-RAG: rerank documents by a graph neural network over the graph of what their meaning graphs share.

    Parameters
    ----------
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Trained by ``graph-retrievers fit g-rag``. By default an untrained :class:`EvidenceNetwork`, which adds up what is known of
        each document and uses no edges.
    parser : MeaningParser, MeaningCache, callable or None
        Finds the meaning graphs of questions and documents; a new
        :class:`~graph_retrievers.signals.concept_parser.ConceptParser` by default. Each text is parsed once.
    depth : int, default 100
        Nodes to rerank; those behind them keep their places.
    together : bool, default False
        Parse question and document as one text, ``question:<question><document>``, as the paper does: every document is parsed
        anew for every question. Only for a :class:`DocumentGraphNetwork`.
    k : int, optional
        Nodes to keep; all by default.

    Raises
    ------
    InvalidArgumentError
        If `together` is set with an :class:`EvidenceNetwork`, or the network is something else.
    MissingSignalError
        If the network reads vectors and there are none, and no embedding model.
    DimensionMismatchError
        If the vectors have another width than the network.
    InvalidVectorError
        If the network gives NaN or infinity.

    Notes
    -----
    By default the question, as ``question: <question>``, and the documents are parsed apart and joined where they have a concept
    in common, so that a document is parsed once for all questions.

    A document keeps its place if its graph, together with the question's, shares nothing with any other: if it could not be
    parsed or is alone, or has no words in common with others where the question could not be parsed. The paper removes such
    documents, and then cannot rank them. It gets the score of the document above it, so that scores do not rise; where no document
    may move, all keep the scores they came with. How documents are ordered before counts only by their scores, if the network
    reads ranks: the same documents in another order get the same scores.

    References
    ----------
    Dong et al., "Don't Forget to Connect! Improving RAG with Graph-based Reranking", 2024, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2]])
    >>> retriever = Retriever(index, Pipeline(VectorSearch(), DocumentGraphRerank()))
    >>> [hit.text for hit in retriever.retrieve("Who wrote programs?", vector=[1, 0])]
    ['Ada wrote programs.', 'The mill bought engines.', 'Ada knew Babbage.']
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self,
        network: EvidenceNetwork | DocumentGraphNetwork | None = None,
        *,
        parser: Any = None,
        depth: int = 100,
        together: bool = False,
        k: int | None = None,
    ) -> None:
        network = EvidenceNetwork() if network is None else network
        if not isinstance(network, EvidenceNetwork | DocumentGraphNetwork):
            raise InvalidArgumentError(f"Expected an EvidenceNetwork or a DocumentGraphNetwork, got {type(network).__name__}.")
        if together and isinstance(network, EvidenceNetwork):
            raise InvalidArgumentError(
                "together=True is for a DocumentGraphNetwork; an EvidenceNetwork compares graphs parsed apart."
            )
        self.network = network.eval()
        self.parser = parser if isinstance(parser, MeaningCache) else MeaningCache(parser)
        self.depth, self.together = positive("depth", depth), bool(together)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the same nodes, the first `depth` by the network's scores."""
        # A network that was trained in the meantime would drop values at random.
        self.network.to(queries.index.device).eval()
        parsed = self.document_sets(queries, ranking)
        real = ranking.nodes >= 0
        orders, scores, notes = [], [], []
        for b, documents in enumerate(parsed):
            inputs = self.inputs(queries, ranking, b, documents)
            with torch.inference_mode():
                found = self.network(*inputs.arguments) if len(documents.documents) else torch.zeros(0)
            if not bool(torch.isfinite(found).all()):
                raise InvalidVectorError(f"The network of G-RAG gave NaN or infinity for {queries.texts[b][:60]!r}; retrain it.")
            order, values = placed(ranking.scores[b], found, inputs.connected, real[b])
            orders.append(order)
            scores.append(values)
            notes.append(inputs.unparsed)
        if not parsed or not ranking.width:
            return ranking
        ranked = replace(ranking.reordered(torch.stack(orders)), scores=torch.stack(scores))
        silent = [not documents.question.concepts and not self.together for documents in parsed]
        ranked = ranked.noted(silent, "the question could not be parsed: its concepts count for nothing")
        for count in sorted(set(notes) - {0}):
            ranked = ranked.noted(
                [each == count for each in notes], f"{count} of the documents could not be parsed and keep their places"
            )
        return ranked

    def document_sets(self, queries: Queries, ranking: Ranking, show_progress: bool = False) -> list[DocumentSet]:
        """Return each question with the first `depth` nodes of its list, as meaning graphs."""
        graph = queries.index.graph
        lists = [[graph.content(row) for row in rows if row >= 0] for rows in ranking.nodes[:, : self.depth].tolist()]
        if self.together:
            lists = [
                [f"question:{text}{content}" for content in contents] for text, contents in zip(queries.texts, lists, strict=True)
            ]
        questions = [f"question: {text}" for text in queries.texts]
        parsed = iter(self.parser.parse([*questions, *(text for texts in lists for text in texts)], show_progress))
        asked = [next(parsed) for _ in questions]
        return [
            DocumentSet(question, tuple(next(parsed) for _ in texts), self.together)
            for question, texts in zip(asked, lists, strict=True)
        ]

    def inputs(self, queries: Queries, ranking: Ranking, b: int, documents: DocumentSet) -> NetworkInputs:
        """Return what the network reads of query `b` and its documents."""
        device, count = queries.index.device, len(documents.documents)
        rows = ranking.nodes[b, :count]
        if bool(torch.isnan(ranking.scores[b, :count]).any()):
            raise InvalidArgumentError("A document was found with the score NaN; expected numbers.")
        unparsed = sum(not graph.concepts for graph in documents.documents)
        arguments: tuple[Tensor, ...] = ()
        if isinstance(self.network, EvidenceNetwork):
            similarity = torch.zeros(count)
            if "similarity" in self.network.evidence and count:
                similarity = queries.cosines(torch.full_like(rows, b), rows)
            ranks = mean_ranks(ranking.scores[b, :count])
            arguments = (
                documents.node_evidence(self.network.evidence, similarity, ranks),
                documents.pair_evidence(self.network.channels, self._links(queries, rows)),
            )
        elif count:
            edges = normalized(documents.shared, self.network.normalization)
            arguments = (self._vectors(queries, rows, documents), edges, queries.vectors[b])
        return NetworkInputs(tuple(part.to(device) for part in arguments), documents.connected, unparsed)

    def _links(self, queries: Queries, rows: Tensor) -> Tensor | None:
        """Return which documents an edge joins: Tensor, shape [n, n], bool; None where the network does not read it."""
        assert isinstance(self.network, EvidenceNetwork)
        if "links" not in self.network.channels:
            return None
        left, right = torch.broadcast_tensors(rows.unsqueeze(1), rows.unsqueeze(0))
        return queries.index.graph.adjacency(left, right) > 0

    def _vectors(self, queries: Queries, rows: Tensor, documents: DocumentSet) -> Tensor:
        """Return the vectors that a DocumentGraphNetwork reads: Tensor, shape [n, d] (equations 1 and 2)."""
        assert isinstance(self.network, DocumentGraphNetwork)
        index, known = queries.index, getattr(queries.index.dense, "vectors", None)
        if not self.network.paths and isinstance(known, Tensor):
            vectors = known[rows]
        elif index.embedding is None:
            raise MissingSignalError("This network of G-RAG embeds texts and the index has no embedding model; pass embedding=.")
        else:
            texts = [index.graph.content(row) for row in rows.tolist()]
            if self.network.paths:
                # The paths stand last, so that they are cut first where the text is too long for the model.
                texts = [f"{text} {paths}".strip() for text, paths in zip(texts, documents.paths, strict=True)]
            vectors = embed_texts(index.embedding, texts)
        if vectors.shape[1] != self.network.dimension:
            raise DimensionMismatchError(
                f"This network of G-RAG is for vectors of {self.network.dimension} dimensions, got {vectors.shape[1]}; train it "
                "with the same embedding model."
            )
        return vectors
