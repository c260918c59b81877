"""Reranking over a document graph, O_gm: a graph neural network over the concepts that a question's documents share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, replaced
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgesAmong, Request, Similarity
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, MissingSignalError, shown
from graph_retrievers.graph.ragged import send_together
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.grag.document_graph import normalized
from graph_retrievers.systems.grag.evidence import DocumentSet, mean_ranks
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork

__all__ = ["DocumentGraphRerank"]


@dataclass(frozen=True)
class NetworkInputs:
    """A network's inputs for one question: the arguments of its ``forward``.

    `connected`, bool, shape [n], says which documents, together with the question, share anything with another one; `unparsed`
    counts documents without a meaning graph.
    """

    arguments: tuple[Tensor, ...]
    connected: np.ndarray
    unparsed: int

    def on(self, device: torch.device) -> NetworkInputs:
        """Return the inputs on a device."""
        return replace(self, arguments=tuple(part.to(device) for part in self.arguments))


def network_scores(network: EvidenceNetwork | DocumentGraphNetwork, inputs: Sequence[NetworkInputs]) -> list[Tensor]:
    """Return the scores of each question's documents, each of shape [n], on the device of the network.

    An EvidenceNetwork scores those of questions with equally many documents together.
    """
    device = next(network.parameters()).device
    if isinstance(network, DocumentGraphNetwork):
        return [network(*example.on(device).arguments) for example in inputs]
    rows = send_together(([part.flatten(0, -2) for part in example.arguments] for example in inputs), device)
    groups, scores = dict[int, list[int]](), dict[int, Tensor]()
    for place, example in enumerate(inputs):
        groups.setdefault(len(example.connected), []).append(place)
    for places in groups.values():
        shapes = [part.shape for part in inputs[places[0]].arguments]
        columns = zip(*(rows[place] for place in places), strict=True)
        arguments = [torch.stack(column).view(len(places), *shape) for column, shape in zip(columns, shapes, strict=True)]
        scores.update(zip(places, network(*arguments), strict=True))
    return [scores[place] for place in range(len(inputs))]


class DocumentGraphRerank(Operator):
    """G-RAG: rerank documents by a graph neural network over the concepts and relations that their meaning graphs share.

    Parameters
    ----------
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Trained by ``graph-retrievers fit g-rag``. By default an untrained :class:`EvidenceNetwork`, which adds up the evidence on
        each document and uses no edges.
    parser : MeaningParser, MeaningCache, callable or None
        Finds the meaning graphs of questions and documents; a new
        :class:`~graph_retrievers.signals.concept_parser.ConceptParser` by default. Each text is parsed once.
    depth : int, default 100
        Nodes to rerank; later nodes keep their places.
    together : bool, default False
        Whether to parse question and document as one text, ``question:<question><document>``, as in the paper: every document is
        parsed again for every question. Only for a :class:`DocumentGraphNetwork`.
    k : int, optional
        Nodes to keep; all by default.

    Raises
    ------
    InvalidArgumentError
        If `together` is set with an :class:`EvidenceNetwork`, or the network is something else.
    MissingSignalError
        If the network reads vectors, and there are neither vectors nor an embedding model.
    DimensionMismatchError
        If the width of the vectors differs from that of the network.
    InvalidVectorError
        If the network returns NaN or infinity.

    Notes
    -----
    By default the question, as ``question: <question>``, and the documents are parsed separately and joined at common concepts,
    so that a document is parsed once for all questions.

    A document keeps its place if its graph, together with the question's, shares nothing with any other: if it could not be
    parsed, or is the only one, or has no words in common with others and the question could not be parsed. The paper removes such
    documents, and then cannot rank them. Here it gets the score of the document above it, so that scores do not rise; if no
    document can move, all keep their earlier scores. The earlier order counts only by its scores, if the network reads ranks: the
    same documents in another order get the same scores.

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
    # It walks only the graph that it makes of the documents.
    walks = False  # type: ignore[assignment]

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
            raise InvalidArgumentError(
                f"network is {shown(network)}; expected an EvidenceNetwork or a DocumentGraphNetwork, such as "
                "DocumentGraphNetwork(384, layer='gcn'), which you have trained."
            )
        if together and isinstance(network, EvidenceNetwork):
            raise InvalidArgumentError(
                "together=True is for a DocumentGraphNetwork; an EvidenceNetwork compares graphs parsed apart."
            )
        self.network = network.eval()
        self.parser = parser if isinstance(parser, MeaningCache) else MeaningCache(parser)
        self.depth, self.together = positive("depth", depth), bool(together)
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the same nodes, the first `depth` by the network's scores."""
        head = candidates.top(self.depth)
        if not len(head):
            return candidates
        # Section 3.1: the meaning graphs of question and documents, and what they share.
        documents = yield Meanings(self, head.nodes)
        if not documents.question.concepts and not self.together:
            question.notes.append("the question could not be parsed: its concepts count for nothing")
        # Section 3.2: features of documents and of pairs, and the network over them.
        inputs = yield from self.inputs(question, head, documents)
        scores = yield NetworkScores(self, inputs)
        if inputs.unparsed:
            question.notes.append(f"{inputs.unparsed} of the documents could not be parsed and keep their places")
        places = np.flatnonzero(inputs.connected)
        return replaced(candidates, places, scores[places])

    def inputs(self, question: Question, head: Candidates, documents: DocumentSet) -> Algorithm[NetworkInputs]:
        """Return the network's inputs for a question and its documents."""
        if np.isnan(head.scores).any():
            raise InvalidArgumentError("A document was found with the score NaN; expected numbers.")
        network, nodes = self.network, head.nodes
        arguments: tuple[Tensor, ...]
        if isinstance(network, EvidenceNetwork):
            similarity, links = torch.zeros(len(nodes)), None
            if "similarity" in network.evidence:
                similarity = torch.from_numpy((yield Similarity(nodes)))
            if "links" in network.channels:
                near, links = (yield EdgesAmong(nodes)), torch.zeros(len(nodes), len(nodes), dtype=torch.bool)
                links[near.owner, near.node] = True
            ranks = mean_ranks(torch.from_numpy(head.scores))
            arguments = (
                documents.node_evidence(network.evidence, similarity, ranks),
                documents.pair_evidence(network.channels, links),
            )
        else:
            vectors, query = yield DocumentVectors(network, nodes, documents)
            arguments = (vectors, normalized(documents.shared, network.normalization), query)
        return NetworkInputs(arguments, documents.connected.numpy(), sum(not graph.concepts for graph in documents.documents))


@dataclass(frozen=True, eq=False)
class Meanings(Request):
    """The question and the documents of nodes, shape [n], as meaning graphs: :class:`DocumentSet`."""

    reads = "graph"
    shared = ("operator",)
    operator: DocumentGraphRerank
    nodes: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Meanings]]) -> list[DocumentSet]:
        """Return answers; all texts are parsed together, each once."""
        operator, queries, texts = requests[0][1].operator, backend.queries, [backend.queries.texts[b] for b, _ in requests]
        contents = iter(queries.contents(np.concatenate([request.nodes for _, request in requests])))
        lists = [[next(contents) for _ in request.nodes] for _, request in requests]
        if operator.together:
            lists = [[f"question:{text}{content}" for content in part] for text, part in zip(texts, lists, strict=True)]
        graphs = iter(operator.parser.parse([*(f"question: {text}" for text in texts), *(each for part in lists for each in part)]))
        questions = [next(graphs) for _ in texts]
        return [
            DocumentSet(question, tuple(next(graphs) for _ in part), operator.together)
            for question, part in zip(questions, lists, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class DocumentVectors(Request):
    """The vectors of documents that a DocumentGraphNetwork reads (equations 1 and 2), [n, d], and that of the question, [d]."""

    reads = "signals"
    shared = ("network",)
    network: DocumentGraphNetwork
    nodes: np.ndarray
    documents: DocumentSet

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, DocumentVectors]]) -> list[tuple[Tensor, Tensor]]:
        """Return answers; texts of all questions are embedded together."""
        network, index = requests[0][1].network, backend.queries.index
        rows = np.concatenate([request.nodes for _, request in requests])
        index_vectors = getattr(index.dense, "vectors", None)
        if not network.paths and isinstance(index_vectors, Tensor):
            vectors = index_vectors[torch.from_numpy(rows).to(index_vectors.device)]
        elif index.embedding is None:
            raise MissingSignalError("This network of G-RAG embeds texts and the index has no embedding model; pass embedding=.")
        else:
            texts = backend.queries.contents(rows)
            if network.paths:
                # The paths stand last, so that they are cut first where the text is too long for the model.
                paths = [path for _, request in requests for path in request.documents.paths]
                texts = [f"{text} {path}".strip() for text, path in zip(texts, paths, strict=True)]
            vectors = embed_texts(index.embedding, texts)
        if vectors.shape[1] != network.dimension:
            raise DimensionMismatchError(
                f"This network of G-RAG is for vectors of {network.dimension} dimensions, got {vectors.shape[1]}; train it "
                "with the same embedding model."
            )
        parts = vectors.split([len(request.nodes) for _, request in requests])
        return [(part, backend.queries.vectors[b]) for part, (b, _) in zip(parts, requests, strict=True)]


@dataclass(frozen=True, eq=False)
class NetworkScores(Request):
    """The network's scores of a question's documents: float32, shape [n]; InvalidVectorError if one is NaN or infinite."""

    reads = "model"
    costly = True
    shared = ("operator",)
    operator: DocumentGraphRerank
    inputs: NetworkInputs

    @classmethod
    @torch.inference_mode()
    def together(cls, backend: Any, requests: Sequence[tuple[int, NetworkScores]]) -> list[np.ndarray]:
        """Return scores."""
        # A network that was trained in the meantime would drop values at random.
        network = requests[0][1].operator.network.to(backend.queries.index.device).eval()
        inputs = [request.inputs for _, request in requests]
        # On a processor one by one, so that each question has the digits that it has alone.
        parts = [[each] for each in inputs] if backend.queries.index.device.type == "cpu" else [inputs]
        tensors = [scores for part in parts for scores in network_scores(network, part)]
        # Concatenated, so that the device is waited for only once.
        scores = np.split(torch.cat(tensors).cpu().numpy(), np.cumsum([len(part) for part in tensors])[:-1])
        for part, (b, _) in zip(scores, requests, strict=True):
            if not np.isfinite(part).all():
                text = backend.queries.texts[b][:60]
                raise InvalidVectorError(f"The network of G-RAG gave NaN or infinity for {text!r}; retrain it.")
        return scores
