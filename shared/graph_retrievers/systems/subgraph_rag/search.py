"""Triples around the nodes of a question, O_gm: the ends of the triples that a network scores highest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, distinct, places_of, stacked
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Vectors
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraphs.around import Subgraph, SubgraphScores, SubgraphSearch

__all__ = ["TripleSearch"]

# Triples that the network reads at a time.
_TRIPLES = 1 << 15


class TripleSearch(SubgraphSearch):
    r"""The ends of the triples around the nodes found before that a network scores highest.

    The network reads the vectors of the question, of the source, of the relation and of the target, and the directional distances
    of both ends from the nodes found before (:class:`~graph_retrievers.systems.subgraph_rag.model.TripleScorer`). Without one, a
    triple (u, r, v) scores

    .. math:: \cos(q, u) + \cos(q, r) + \cos(q, v)

    Parameters
    ----------
    network : TripleScorer, optional
        Trained by ``graph-retrievers fit subgraph-rag``.
    triples : int, default 100
        Triples to keep.
    hops : int, default 2
        The triples are those at nodes that are less than `hops` edges from the nodes found before.
    candidates : int, default 1000
        Most nodes around a question: of one distance, those most similar to it. A note says if they were limited.

    Raises
    ------
    InvalidArgumentError
        If `network` is something else.
    DimensionMismatchError
        If the width of the vectors differs from that of the network.
    InvalidVectorError
        If the network returns NaN or infinity.

    Notes
    -----
    The result has the ends of the kept triples, with the score of their best triple, then the other nodes found before. Scores of
    a network are probabilities. A path is a shortest one from the nodes found before. The paper hands the triples to a language
    model and ranks no nodes; it reads the text of entities, where nodes here have the vectors of the index. Relations have the
    vectors of their names, and zeros if the index has no embedding model.

    References
    ----------
    Li, Miao and Li, "Simple Is Effective: The Roles of Graphs and Large Language Models in Knowledge-Graph-Based
    Retrieval-Augmented Generation", ICLR 2025, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> edges = [("0", "1", "made by"), ("0", "2", "shown in")]
    >>> titles, vectors = ["Loom", "Jacquard", "Paris"], [[1, 0], [0.6, 0.8], [0, 1]]
    >>> index = GraphIndex.from_texts(["", "", ""], titles=titles, edges=edges, vectors=vectors)
    >>> search = Pipeline(VectorSearch(1, returned=False), TripleSearch(triples=1))
    >>> [hit.path.text for hit in Retriever(index, search, backfill=False).retrieve("Who made the loom?", vector=[1, 0])]
    ['Loom', 'Loom -[made by]-> Jacquard']
    """

    trained, paper = TripleScorer, "SubgraphRAG"

    def __init__(self, network: TripleScorer | None = None, *, triples: int = 100, hops: int = 2, candidates: int = 1000) -> None:
        super().__init__(network, hops=hops, candidates=candidates)
        self.triples = positive("triples", triples)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the ends of the best triples, then the other nodes found before."""
        around = yield from self.around(question, candidates)
        if not len(around.ends):
            return candidates
        scores = yield SubgraphScores(self, around, (yield Vectors(around.nodes)))
        nodes, end_scores = best_ends(around, scores, self.triples)
        ways = [around.way(node) for node in nodes.tolist()]
        origin = places_of(candidates.nodes, np.array([way[0] for way in ways], np.int64))
        return stacked(candidates, origin, [way[1:] for way in ways], end_scores, self.name).followed_by(candidates)

    def scores(self, index: Any, questions: Tensor, requests: Sequence[SubgraphScores]) -> list[np.ndarray]:
        """Return the scores of triples, [m]; on a GPU a network reads as many questions at a time as memory allows."""
        counts = [len(request.around.ends) for request in requests]
        names = [name for request in requests for name in request.around.relations]
        relations = self.relation_vectors(index, names).split(counts)
        if self.network is None:
            # There is little to compute, and the vectors of nodes are on the host.
            return list(map(_similarities, questions.cpu(), requests, relations))
        # On a processor one by one, which takes no longer and gives each question the digits that it has alone.
        group = 1 if questions.device.type == "cpu" else max(1, _TRIPLES // max(counts))
        parts = [slice(start, start + group) for start in range(0, len(requests), group)]
        logits = [_logits(self, questions[part], requests[part], torch.cat(relations[part])) for part in parts]
        groups = zip(parts, self.on_host(logits), strict=True)
        return [values.numpy() for part, outputs in groups for values in outputs.sigmoid().double().split(counts[part])]


def best_ends(around: Subgraph, scores: np.ndarray, triples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the triples with the highest scores, best first, each with the score of its best triple."""
    places = best(scores, triples)
    ends, end_scores = around.nodes[around.ends[places]].ravel(), np.repeat(scores[places], 2)
    by = distinct(end_scores, ends)
    return ends[by], end_scores[by]


def _similarities(question: Tensor, request: SubgraphScores, relations: Tensor) -> np.ndarray:
    """Return the sums of cosines for the vectors of a question, of unit length, shape [d], and of the relations, [m, d]."""
    cosines, ends = torch.from_numpy(request.vectors).float() @ question, request.around.ends
    return (cosines[ends[:, 0]] + relations @ question + cosines[ends[:, 1]]).double().numpy()  # type: ignore[no-any-return]


def _logits(operator: TripleSearch, questions: Tensor, requests: Sequence[SubgraphScores], relations: Tensor) -> Tensor:
    """Return what the network gives the triples of some questions, whose subgraphs are read as one graph: Tensor, shape [m]."""
    device, parts = questions.device, [request.around for request in requests]
    starts = np.cumsum([0, *(len(around.nodes) for around in parts)])
    ends = np.concatenate([around.ends + start for around, start in zip(parts, starts, strict=False)])
    place = np.repeat(np.arange(len(parts)), [len(around.ends) for around in parts])
    nodes = torch.from_numpy(np.concatenate([request.vectors for request in requests])).float().to(device)
    topics = torch.from_numpy(np.concatenate([around.topics for around in parts])).to(device)
    numbers = torch.from_numpy(np.column_stack([place, ends])).to(device)
    network = operator.ready(device, nodes.shape[1])
    return network(questions[numbers[:, 0]], nodes, relations.to(device), numbers[:, 1:], topics)  # type: ignore[no-any-return]
