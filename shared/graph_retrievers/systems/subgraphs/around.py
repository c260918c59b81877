"""The subgraph around the nodes found before, and searches of it with a network or without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.cache import Cache, Identity
from graph_retrievers.core.candidates import Candidates, best, newly_reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, Request, Similarity
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, shown
from graph_retrievers.graph.reachable import leading_to
from graph_retrievers.learning.checkpoint import check_scores
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.embedding_models import CachedEmbedding

_LIMITED = "the subgraph was limited to {} nodes, of those farthest away to the ones most similar to the question"


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

    def distinct_relations(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the r relations, sorted, and the place of each triple's among them: object, shape [r], and int64, shape [m]."""
        # Faster than np.unique, which sorts the names of all triples.
        names = np.array(sorted(set(self.relations)), object)
        return names, np.searchsorted(names, np.array(self.relations, object))

    def on_ways(self, places: np.ndarray) -> np.ndarray:
        """Return which nodes are on the ways to those at some places, without being one of these: bool, shape [n]."""
        (reached,) = np.nonzero(~self.topics)
        ends = np.isin(np.arange(len(self.nodes)), places)
        return leading_to(ends, np.searchsorted(self.nodes, self.parents[reached]), reached) & ~ends


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
        new, owner = newly_reached(nodes, edges.owner, edges.far)
        parent = front[owner]
        room = max(candidates - len(nodes), 0)
        if len(new) > room:
            limited = True
            similarity = yield Similarity(new)
            places = np.sort(best(similarity, room, new))
            new, parent = new[places], parent[places]
        front, nodes, parents = new, np.append(nodes, new), np.append(parents, parent)
        if not len(front):
            break
    by = np.argsort(nodes)
    nodes, parents = nodes[by], parents[by]
    ends = question.ends(rows).reshape(-1, 2)
    inside = np.isin(ends, nodes).all(1)
    names = question.relation_names(relations[inside])
    return Subgraph(nodes, parents < 0, parents, np.searchsorted(nodes, ends[inside]), tuple(names), limited)


class SubgraphSearch(Operator):
    """A search that a network orders: the subgraph around the nodes found before, the topics.

    Parameters
    ----------
    network : nn.Module, optional
        Of the class :attr:`trained`, with the width of the vectors that it reads as `dimension`.
    hops : int
        Rounds in which the edges at nodes are read.
    candidates : int
        Most nodes of a subgraph.
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH
    trained: ClassVar[type[nn.Module]]
    paper: ClassVar[str]

    def __init__(self, network: Any, *, hops: int, candidates: int) -> None:
        if network is not None and not isinstance(network, self.trained):
            kind = self.trained.__name__
            article = "an" if kind[0] in "AEIOU" else "a"
            raise InvalidArgumentError(f"network is {shown(network)}; expected {article} {kind}, which you have trained.")
        self.network: Any = None if network is None else network.eval()
        self.hops, self.candidates = positive("hops", hops), positive("candidates", candidates)
        # Relations have few names, which come back with every question.
        self._embeddings = Cache()

    @abstractmethod
    def scores(self, index: Any, questions: Tensor, requests: Sequence[SubgraphScores]) -> list[np.ndarray]:
        """Return the scores for the subgraphs of questions, whose vectors, shape [B, d], are of unit length."""

    def around(self, question: Question, candidates: Candidates) -> Algorithm[Subgraph]:
        """Return the subgraph around the nodes found before; a note says if nodes were left out."""
        around = yield from subgraph_around(question, candidates.nodes, self.hops, self.candidates)
        if around.limited:
            question.notes.append(_LIMITED.format(self.candidates))
        return around

    def ready(self, device: torch.device, *widths: int) -> Any:
        """Return the network on a device, for vectors of some widths; DimensionMismatchError if it is for others."""
        for width in widths:
            if width != self.network.dimension:
                raise DimensionMismatchError(
                    f"This network of {self.paper} is for vectors of {self.network.dimension} dimensions, got {width}; train it "
                    "with the same embedding model."
                )
        # A network that was trained in the meantime may be elsewhere.
        return self.network.to(device).eval()

    def on_host(self, logits: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what the network gave, for which a device is waited for once; InvalidArgumentError if it is not finite."""
        outputs = torch.cat(list(logits)).cpu()
        check_scores(outputs, f"The network of {self.paper}")
        return outputs.split([len(part) for part in logits])

    def relation_vectors(self, index: Any, names: Sequence[str]) -> Tensor:
        """Return the vectors of relations by their names, of unit length: Tensor, shape [m, d], float32.

        Zeros without an embedding model.
        """
        if index.embedding is None or not names:
            return torch.zeros(len(names), index.dense.dimension)
        model = self._embeddings.get(Identity(index.embedding), lambda: CachedEmbedding(index.embedding))
        distinct = sorted(set(names))
        vectors = normalize(embed_texts(model, [name.replace("_", " ") or "is linked to" for name in distinct]), dim=1)
        place = {name: number for number, name in enumerate(distinct)}
        return vectors[[place[name] for name in names]]


@dataclass(frozen=True, eq=False)
class SubgraphScores(Request):
    """What a search gives for the subgraph around a question, with its network or without one: float64.

    `vectors`, shape [n, d], are those of the nodes, for a search that reads them.
    """

    reads = "model"
    costly = True
    shared = ("operator",)
    operator: SubgraphSearch
    around: Subgraph
    vectors: np.ndarray | None = None

    @classmethod
    @torch.inference_mode()
    def together(cls, backend: Any, requests: Sequence[tuple[int, SubgraphScores]]) -> list[np.ndarray]:
        """Return :meth:`SubgraphSearch.scores` of all questions."""
        queries, places = backend.queries, [b for b, _ in requests]
        questions = normalize(queries.vectors.float(), dim=1)[places]
        return requests[0][1].operator.scores(queries.index, questions, [request for _, request in requests])
