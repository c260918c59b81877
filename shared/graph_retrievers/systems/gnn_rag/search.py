"""Answers around the nodes of a question, O_gm: what a graph neural network takes for them, with paths that lead there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import fraction
from graph_retrievers.core.candidates import Candidates, found_by, order
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Similarity
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.graph.ragged import send_together
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.subgraphs.around import Subgraph, SubgraphScores, SubgraphSearch

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
        scores = yield Similarity(around.nodes) if self.network is None else SubgraphScores(self, around)
        answers = self._answers(around, scores, question.returned(around.nodes))
        inner = np.flatnonzero(around.on_ways(answers))
        by = np.append(answers, inner[order(scores[inner])])
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

    def scores(self, index: Any, questions: Tensor, requests: Sequence[SubgraphScores]) -> list[np.ndarray]:
        """Return the probabilities of nodes as answers, [n], one subgraph at a time; the relations of all are embedded together."""
        relations, inputs = self.inputs(index, [request.around for request in requests])
        network = self.ready(relations.device, questions.shape[1], relations.shape[2])
        # Each question reads only its own relations, so that others in the batch change nothing.
        pairs = zip(questions, inputs, strict=True)
        logits = [network(question, relations.index_select(0, places), *edges) for question, (places, *edges) in pairs]
        return [part.softmax(0).double().numpy() for part in self.on_host(logits)]

    def inputs(self, index: Any, subgraphs: Sequence[Subgraph]) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return what a network reads of subgraphs, on the device of an index.

        It is the vectors of all R relations, along and against their direction, of unit length: Tensor, shape [R, 2, d], float32;
        and for each subgraph the places of its own r relations among these, [r], the relation of each edge among its own, [m], the
        ends of the edges, [m, 2], and which nodes are topics, [n].
        """
        if index.embedding is None:
            raise MissingSignalError("GNN-RAG reads the names of relations and the index has no embedding model; pass embedding=.")
        lists = [around.distinct_relations() for around in subgraphs]
        names = np.unique(np.concatenate([part for part, _ in lists]))
        against = [" ".join(name.replace("_", " ").split()[::-1]) for name in names]
        relations = self.relation_vectors(index, [*names, *against]).unflatten(0, (2, len(names))).transpose(0, 1)
        parts = zip(lists, subgraphs, strict=True)
        rows = [(np.searchsorted(names, part), kinds, around.ends, around.topics) for (part, kinds), around in parts]
        return relations.to(index.device), send_together(rows, index.device)
