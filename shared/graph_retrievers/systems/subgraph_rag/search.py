"""Triples around the nodes of a question, O_gm: the ends of the triples that a network scores highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.cache import Cache, Same
from graph_retrievers.core.candidates import Candidates, best, falling, stacked
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, Request, Similarity, Vectors
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, shown
from graph_retrievers.signals.embedding import CachedEmbedding, embed_texts
from graph_retrievers.systems.subgraph_rag.model import TripleScorer

__all__ = ["TripleSearch"]

LIMITED = "the subgraph was limited to {} nodes, of those farthest away to the ones most similar to the question"
"""Note on a subgraph with fewer nodes than there are."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The triples around the topics of a question.

    Attributes
    ----------
    nodes : ndarray, shape [n], int64
        Node rows, ascending.
    topics : ndarray, shape [n], bool
        Which of them are topics.
    parents : ndarray, shape [n], int64
        The node row that led to each; -1 for a topic.
    ends : ndarray, shape [m, 2], int64
        Places in `nodes` of the source and the target of each triple, in the order of their relationship rows.
    relations : tuple of str, length m
        The relation of each triple.
    limited : bool, default False
        Whether nodes were left out, as there were too many.
    """

    nodes: np.ndarray
    topics: np.ndarray
    parents: np.ndarray
    ends: np.ndarray
    relations: tuple[str, ...]
    limited: bool = False

    def way(self, node: int) -> list[int]:
        """Return the nodes from a topic to a node."""
        way = [node]
        while (parent := int(self.parents[np.searchsorted(self.nodes, way[0])])) >= 0:
            way.insert(0, parent)
        return way

    def ranked(self, scores: np.ndarray, triples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the triples with the highest scores, best first, each with the score of its best triple."""
        kept = best(scores, triples)
        places, at = np.unique(self.ends[kept], return_inverse=True)
        own = np.full(len(places), -np.inf)
        np.maximum.at(own, at.reshape(-1), np.repeat(scores[kept], 2))
        by = best(own, len(own), self.nodes[places])
        return self.nodes[places[by]], own[by]


def subgraph_around(question: Question, topics: np.ndarray, hops: int, candidates: int) -> Algorithm[Subgraph]:
    """Return the triples at the nodes that are less than `hops` edges from the topics.

    With more than `candidates` nodes, those of a ring that are most similar to the question are kept.
    """
    front = np.unique(topics)
    nodes, parents = front, np.full(len(front), -1)
    rows, relations, limited = np.empty(0, np.int64), np.empty(0, np.int64), False
    for _ in range(hops):
        edges = yield Edges(front)
        rows, first = np.unique(np.append(rows, edges.row), return_index=True)
        relations = np.append(relations, edges.relation)[first]
        new, first = np.unique(edges.far, return_index=True)
        outside = ~np.isin(new, nodes)
        new, parent = new[outside], front[edges.owner[first[outside]]]
        room = max(candidates - len(nodes), 0)
        if len(new) > room:
            limited = True
            similarity = yield Similarity(new)
            kept = np.sort(best(similarity, room, new))
            new, parent = new[kept], parent[kept]
        front, nodes, parents = new, np.append(nodes, new), np.append(parents, parent)
        if not len(front):
            break
    by = np.argsort(nodes)
    nodes, parents = nodes[by], parents[by]
    ends = question.ends(rows).reshape(-1, 2)
    inside = np.isin(ends, nodes).all(1)
    names = question.relation_names(relations[inside])
    return Subgraph(nodes, parents < 0, parents, np.searchsorted(nodes, ends[inside]), tuple(names), limited)


class TripleSearch(Operator):
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
        Triples are at the nodes that are less than so many edges from the nodes found before.
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

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(self, network: TripleScorer | None = None, *, triples: int = 100, hops: int = 2, candidates: int = 1000) -> None:
        if not isinstance(network, TripleScorer | None):
            raise InvalidArgumentError(f"network is {shown(network)}; expected a TripleScorer, which you have trained.")
        self.network = None if network is None else network.eval()
        self.triples, self.hops = positive("triples", triples), positive("hops", hops)
        self.candidates = positive("candidates", candidates)
        # Relations have few names, which come back with every question.
        self._embeddings = Cache()

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the ends of the best triples, then the other nodes found before."""
        around = yield from subgraph_around(question, found.nodes, self.hops, self.candidates)
        if around.limited:
            question.notes.append(LIMITED.format(self.candidates))
        if not len(around.ends):
            return found
        scores = yield TripleScores(self, around, (yield Vectors(around.nodes)))
        nodes, own = around.ranked(scores, self.triples)
        place = {node: number for number, node in enumerate(found.nodes.tolist())}
        ways = [around.way(node) for node in nodes.tolist()]
        origin = np.array([place[way[0]] for way in ways], np.int64)
        walked = stacked(found, origin, [way[1:] for way in ways], own, self.name).joined(found)
        return replace(walked, scores=falling(walked.scores))

    def relation_vectors(self, index: Any, names: Sequence[str]) -> Tensor:
        """Return the vectors of relations by their names, of unit length: Tensor, shape [m, d], float32."""
        return relation_vectors(self._embeddings, index, names)


def relation_vectors(models: Cache, index: Any, names: Sequence[str]) -> Tensor:
    """Return the vectors of relations by their names, of unit length, or zeros without an embedding model: Tensor, shape [m, d].

    `models` keeps the model with the vectors of names that were asked before.
    """
    if index.embedding is None or not names:
        return torch.zeros(len(names), index.dense.dimension)
    model = models.get(Same(index.embedding), lambda: CachedEmbedding(index.embedding))
    distinct = sorted(set(names))
    vectors = normalize(embed_texts(model, [name.replace("_", " ") or "is linked to" for name in distinct]), dim=1)
    place = {name: number for number, name in enumerate(distinct)}
    return vectors[[place[name] for name in names]]


@dataclass(frozen=True, eq=False)
class TripleScores(Request):
    """The scores of the triples around a question: float64, shape [m]; `vectors`, shape [n, d], are those of its nodes."""

    reads = "model"
    costly = True
    shared = ("operator",)
    operator: TripleSearch
    around: Subgraph
    vectors: np.ndarray

    @classmethod
    @torch.inference_mode()
    def together(cls, backend: Any, asked: Sequence[tuple[int, TripleScores]]) -> list[np.ndarray]:
        """Return scores, one subgraph at a time."""
        operator, queries = asked[0][1].operator, backend.queries
        names = [name for _, request in asked for name in request.around.relations]
        relations = operator.relation_vectors(queries.index, names).split([len(request.around.ends) for _, request in asked])
        # Without a network there is little to compute, and the vectors of nodes are on the host.
        device = torch.device("cpu") if operator.network is None else queries.index.device
        vectors = normalize(queries.vectors.float(), dim=1).to(device)
        return [
            request.scores(vectors[b], own, device, queries.texts[b]) for own, (b, request) in zip(relations, asked, strict=True)
        ]

    def scores(self, asked: Tensor, relations: Tensor, device: torch.device, text: str) -> np.ndarray:
        """Return the scores for the vectors of the question, of unit length, shape [d], and of the relations, shape [m, d]."""
        nodes = torch.from_numpy(self.vectors).float().to(device)
        ends, network = torch.from_numpy(self.around.ends).to(device), self.operator.network
        if network is None:
            cosines = nodes @ asked
            return (cosines[ends[:, 0]] + relations.to(device) @ asked + cosines[ends[:, 1]]).double().cpu().numpy()
        if nodes.shape[1] != network.dimension:
            raise DimensionMismatchError(
                f"This network of SubgraphRAG is for vectors of {network.dimension} dimensions, got {nodes.shape[1]}; train it "
                "with the same embedding model."
            )
        topics = torch.from_numpy(self.around.topics).to(device)
        # A network that was trained in the meantime may be elsewhere.
        logits = network.to(device).eval()(asked, nodes, relations.to(device), ends, topics)
        if not bool(torch.isfinite(logits).all()):
            raise InvalidVectorError(f"The network of SubgraphRAG gave NaN or infinity for {text[:60]!r}; retrain it.")
        return logits.sigmoid().double().cpu().numpy()
