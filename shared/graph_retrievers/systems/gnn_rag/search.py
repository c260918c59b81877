"""Answers around the nodes of a question, O_gm: what a graph neural network takes for them, with paths that lead there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import fraction
from graph_retrievers.core.candidates import Candidates, found_by, order
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Request, Similarity
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.ragged import send_together
from graph_retrievers.learning.checkpoint import check_scores
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.subgraphs.around import Subgraph, SubgraphSearch

__all__ = ["AnswerSearch"]


class AnswerSearch(SubgraphSearch):
    r"""The nodes around those found before that a network takes for answers, and the nodes on the paths to them.

    The network (:class:`~graph_retrievers.systems.gnn_rag.model.AnswerNetwork`) gives each node a probability, by the relations
    around it and on the way from the nodes found before, the topics. Answers are the most probable nodes that are not topics, until
    their probabilities add up to more than `mass`. Without a network, all nodes are answers, ordered by their cosine with the
    question.

    Parameters
    ----------
    network : AnswerNetwork, optional
        Trained by ``graph-retrievers fit gnn-rag``.
    mass : float, default 0.95
        In [0, 1]. Nodes of a probability below ``(1 - mass) / candidates`` are never answers.
    hops : int, default 3
        Edges between a topic and the nodes around it, at most.
    candidates : int, default 2000
        Most nodes around a question, with the topics: of one distance, those most similar to it. A note says if they were limited.

    Raises
    ------
    InvalidArgumentError
        If `network` is something else, or its weights give scores that are not finite.
    DimensionMismatchError
        If the width of the vectors differs from that of the network.
    MissingSignalError
        If there is a network, but no embedding model to read relations with.

    Notes
    -----
    The result has the answers, then the other nodes on their paths, most probable first, then the other nodes found before. A path
    is one of the shortest from the topics; the published code takes all of them, and hands them to a language model. Its subgraphs
    are chosen by PageRank, of at most 2000 entities. Only nodes that may be returned are answers. The vector of a relation is that
    of its name, and against its direction that of its words in reverse order, as in the published code. As there, a network reads
    relations, and no texts of nodes.

    References
    ----------
    Mavromatis and Karypis, "GNN-RAG: Graph Neural Retrieval for Large Language Model Reasoning", 2024, section 4.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> edges = [("0", "1", "made by"), ("0", "2", "shown in")]
    >>> titles, vectors = ["Loom", "Jacquard", "Paris"], [[1, 0], [0.6, 0.8], [0, 1]]
    >>> index = GraphIndex.from_texts(["", "", ""], titles=titles, edges=edges, vectors=vectors)
    >>> search = Pipeline(VectorSearch(1, returned=False), AnswerSearch())
    >>> [hit.path.text for hit in Retriever(index, search, backfill=False).retrieve("Who made the loom?", vector=[1, 0])]
    ['Loom -[made by]-> Jacquard', 'Loom -[shown in]-> Paris', 'Loom']
    """

    trained, paper = AnswerNetwork, "GNN-RAG"

    def __init__(self, network: AnswerNetwork | None = None, *, mass: float = 0.95, hops: int = 3, candidates: int = 2000) -> None:
        super().__init__(network, hops=hops, candidates=candidates)
        self.mass = fraction("mass", mass)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the answers, the nodes on the paths to them, and the other nodes found before."""
        around = yield from self.around(question, candidates)
        if around.topics.all():
            return candidates
        scores = yield Similarity(around.nodes) if self.network is None else AnswerScores(self, around)
        answers = self._answers(around, scores, question.returned(around.nodes))
        path_places = np.flatnonzero(_on_paths(around, answers))
        by = np.append(answers, path_places[order(scores[path_places])])
        return found_by(self.name, candidates, around.nodes[by], scores[by], around.parents[by]).followed_by(candidates)

    def _answers(self, around: Subgraph, scores: np.ndarray, returned: np.ndarray) -> np.ndarray:
        """Return the places of the answers, best first."""
        places = np.flatnonzero(~around.topics & returned)
        places = places[order(scores[places])]
        if self.network is None:
            return places
        probabilities = scores[places]
        # The sum before a node; sums that differ only by rounding are equal.
        before = np.cumsum(probabilities) - probabilities
        return places[(before <= self.mass * (1 + 1e-6)) & (probabilities >= (1 - self.mass) / self.candidates)]

    def relation_inputs(self, index: Any, names: Sequence[str]) -> Tensor:
        """Return the vectors of R relations along and against their direction, of unit length: Tensor, shape [R, 2, d], float32."""
        if index.embedding is None:
            raise MissingSignalError("GNN-RAG reads the names of relations and the index has no embedding model; pass embedding=.")
        against = [" ".join(name.replace("_", " ").split()[::-1]) for name in names]
        vectors = self.relation_vectors(index, [*names, *against])
        return vectors.view(2, len(names), vectors.shape[1]).transpose(0, 1)


def _on_paths(around: Subgraph, answers: np.ndarray) -> np.ndarray:
    """Return which nodes are on the paths to the answers, at some places, without being one: bool, shape [n]."""
    mask, front = np.isin(np.arange(len(around.nodes)), answers), answers
    while len(front):
        parents = around.parents[front]
        front = np.searchsorted(around.nodes, np.unique(parents[parents >= 0]))
        front = front[~mask[front]]
        mask[front] = True
    mask[answers] = False
    return mask


def edge_inputs(around: Subgraph, names: Sequence[str], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a network reads of a subgraph: relations as places in sorted names, [m], ends, [m, 2], and topics, [n]."""
    kinds = np.searchsorted(np.array(names, object), np.array(around.relations, object))
    return tuple(torch.as_tensor(part, device=device) for part in (kinds, around.ends, around.topics))  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class AnswerScores(Request):
    """The probabilities of the nodes around a question as answers: float64, shape [n]."""

    reads = "model"
    costly = True
    shared = ("operator",)
    operator: AnswerSearch
    around: Subgraph

    @classmethod
    @torch.inference_mode()
    def together(cls, backend: Any, requests: Sequence[tuple[int, AnswerScores]]) -> list[np.ndarray]:
        """Return probabilities, one subgraph at a time; the relations of all are embedded together."""
        operator, queries, parts = requests[0][1].operator, backend.queries, [request.around for _, request in requests]
        device = queries.index.device
        names = sorted({name for around in parts for name in around.relations})
        vectors, questions = operator.relation_inputs(queries.index, names).to(device), normalize(queries.vectors.float(), dim=1)
        for width in (questions.shape[1], vectors.shape[2]):
            network = operator.ready(device, width)
        # Each question reads only its own relations, so that others in the batch change nothing.
        lists = [sorted(set(around.relations)) for around in parts]
        kinds = send_together([torch.tensor([names.index(name) for name in part], dtype=torch.int64) for part in lists], device)
        host = torch.device("cpu")
        tables = [edge_inputs(around, part, host) for around, part in zip(parts, lists, strict=True)]
        inputs = zip(requests, kinds, *(send_together(column, device) for column in zip(*tables, strict=True)), strict=True)
        logits = [network(questions[b], vectors.index_select(0, places), *edges) for (b, _), places, *edges in inputs]
        # Concatenated, so that the device is waited for only once.
        outputs = torch.cat(logits).cpu()
        check_scores(outputs, "The network of GNN-RAG")
        return [scores.softmax(0).double().numpy() for scores in outputs.split([len(around.nodes) for around in parts])]
