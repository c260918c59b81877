"""GRAG (Hu et al., 2025): ego graphs as what is searched by vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, stacked
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Neighbors, Similarity, Vectors
from graph_retrievers.index import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import System

__all__ = ["EgoGRAG", "EgoGraphSearch"]


class EgoGraphSearch(Operator):
    r"""The nodes of the ego graphs that are most similar to the question, around the nodes found before.

    The ego graph of a node has all nodes within `hops` edges of it, V. Its vector is the mean of theirs, and it is compared with
    the question by cosine:

    .. math:: z = \frac{1}{|V|} \sum_{v \in V} x_v, \quad s = \cos(q, z)

    The nodes of the `graphs` best ego graphs are the result, ordered by their own cosines with the question (soft pruning).

    Parameters
    ----------
    graphs : int, default 10
        Ego graphs to keep.
    hops : int, default 2
        Radius of an ego graph, in edges.
    candidates : int, default 1000
        Most nodes of an ego graph: those that are reached first, of one distance the lower rows.

    Notes
    -----
    A path leads from the centre of the best ego graph that has the node, along edges. Vectors are of unit length.

    In the paper the vector of an ego graph is also made of those of its edges, all ego graphs of the corpus are compared, and a
    trained network weighs the nodes and edges of the best ones by their distance from the question. Here ego graphs are compared
    only around the nodes that a search found, which needs no index over them and so runs on a database, by their nodes alone; and
    cosines weigh the nodes, without training.

    References
    ----------
    Hu et al., "GRAG: Graph Retrieval-Augmented Generation", NAACL Findings 2025, section 4.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> edges = [("0", "1"), ("2", "3")]
    >>> vectors = [[0.8, 0.6], [-0.6, 0.8], [0.6, 0.8], [1, 0]]
    >>> index = GraphIndex.from_texts(["a", "b", "c", "d"], edges=edges, vectors=vectors)
    >>> egos = Pipeline(VectorSearch(3, returned=False), EgoGraphSearch(1))
    >>> [hit.id for hit in Retriever(index, egos, backfill=False).retrieve("?", vector=[1, 0])]
    ['3', '2']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, graphs: int = 10, *, hops: int = 2, candidates: int = 1000) -> None:
        self.graphs, self.hops = positive("graphs", graphs), positive("hops", hops)
        self.candidates = positive("candidates", candidates)

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the best ego graphs, best first."""
        egos = [{int(node): -1} for node in found.nodes]
        fronts = [list(ego) for ego in egos]
        for _ in range(self.hops):
            asked = np.unique(np.array([node for front in fronts for node in front], np.int64))
            near = yield Neighbors(asked)
            ends = np.searchsorted(near.owner, np.arange(len(asked) + 1))
            fronts = [self._grown(ego, front, asked, ends, near.node) for ego, front in zip(egos, fronts, strict=True)]
        nodes = np.unique(np.array([node for ego in egos for node in ego], np.int64))
        cosines, vectors = yield Similarity(nodes), Vectors(nodes)
        scores = np.zeros(len(egos))
        for place, ego in enumerate(egos):
            own = np.searchsorted(nodes, np.fromiter(ego, np.int64))
            length = np.linalg.norm(vectors[own].mean(0))
            scores[place] = cosines[own].mean() / length if length > 0 else 0.0
        # The place of the best ego graph that has each node.
        homes: dict[int, int] = {}
        for place in best(scores, self.graphs, found.nodes).tolist():
            for node in egos[place]:
                homes.setdefault(node, place)
        kept = np.sort(np.fromiter(homes, np.int64))
        own = cosines[np.searchsorted(nodes, kept)]
        by = best(own, len(kept), kept)
        steps = [self._steps(egos[homes[node]], node) for node in kept[by].tolist()]
        origin = np.array([homes[node] for node in kept[by].tolist()], np.int64)
        return stacked(found, origin, steps, own[by], self.name)

    def _steps(self, ego: dict[int, int], node: int) -> list[int]:
        """Return the nodes from the centre of an ego graph, without it, to a node."""
        steps = list[int]()
        while ego[node] >= 0:
            steps.insert(0, node)
            node = ego[node]
        return steps

    def _grown(self, ego: dict[int, int], front: list[int], asked: np.ndarray, ends: np.ndarray, near: np.ndarray) -> list[int]:
        """Add the neighbours of the outermost nodes to an ego graph, with the nodes that led to them; return the new ones."""
        new: dict[int, int] = {}
        for node in front:
            place = int(np.searchsorted(asked, node))
            for other in near[ends[place] : ends[place + 1]].tolist():
                if other not in ego:
                    new.setdefault(other, node)
        kept = sorted(new)[: self.candidates - len(ego)]
        ego.update((node, new[node]) for node in kept)
        return kept


@dataclass(frozen=True, kw_only=True, repr=False)
class EgoGRAG(System):
    """Vector search for centres, then the nodes of the ego graphs around them that are most similar to the question.

    This is GRAG of Hu et al.; :class:`~graph_retrievers.systems.grag.retriever.GRAG` is G-RAG of Dong et al.

    Parameters
    ----------
    centres : int, default 100
        Nodes that vector search finds, whose ego graphs are compared.
    graphs, hops : int, default 10 and 2
        See :class:`~graph_retrievers.systems.ego_grag.EgoGraphSearch`, which also states the departures.

    References
    ----------
    Hu et al., "GRAG: Graph Retrieval-Augmented Generation", NAACL Findings 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, EgoGRAG()).operator.formula())
    O_vs -> O_vgs
    """

    name = "ego-grag"

    centres: int = 100
    graphs: int = 10
    hops: int = 2

    def compose(self, index: Corpus) -> Operator:
        """Return the search for centres and the ego graphs around them."""
        search = VectorSearch(positive("centres", self.centres), returned=False)
        return Pipeline(search, EgoGraphSearch(self.graphs, hops=self.hops))
