"""GRAG of Hu et al. (NAACL Findings 2025): ego graphs found by their mean vectors, and their nodes by soft pruning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graph_retrievers.core.candidates import Candidates, best, distinct, stacked
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeVectors, Similarity, Vectors
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.around import nodes_around
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System

__all__ = ["EgoGRAG"]

# Cosines that add up to less than this for each node cancel out.
_CANCELLED = 1e-6
_NODES_ALONE = (
    "the vectors of ego graphs are those of their nodes alone, as the index has no vectors of edges in {!r}; "
    "build it with edge_signals=True and embedding="
)


@dataclass(frozen=True, kw_only=True, repr=False)
class EgoGRAG(System):
    r"""GRAG (Hu et al., 2025): the ego graphs whose mean vectors are most similar to the question, each pruned to its best nodes.

    .. math:: O_{vs} \to O_{vgs}

    It is not G-RAG, the reranking by meaning graphs (:class:`~graph_retrievers.systems.grag.retriever.GRAG`). The index needs
    vectors, and ``edge_signals=True`` for those of edges.

    The ego graph of a centre c has all nodes within K edges of c, and all edges among these. Its vector is the mean of the
    vectors of its nodes V and edges E, and the N ego graphs of the largest cosines with the question q are merged:

    .. math::
        z_c = \frac{1}{|V_c| + |E_c|} \Bigl(\sum_{n \in V_c} x_n + \sum_{e \in E_c} x_e\Bigr), \qquad
        S_c = \cos(q, z_c), \qquad
        \alpha_n = \cos(q, x_n)

    where x are unit vectors. The soft score :math:`\alpha_n` orders the nodes.

    Parameters
    ----------
    centres : int, default 100
        Nodes most similar to the question whose ego graphs are compared with it; in the paper, those of all nodes are.
    graphs : int, default 20
        The N: ego graphs that are merged.
    hops : int, default 2
        The K: edges from the centre to the farthest nodes of its ego graph, in either direction.
    entities : int, default 10
        Nodes kept of each ego graph, those of the highest soft scores; nodes that may not be returned take no place.
    signal : str, default "edge_dense"
        Signal over the edges that has their vectors.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range, or a signal over nodes.

    Notes
    -----
    The defaults are those with which the published code prepares WebQSP (``src/dataset/webqsp.py``). In the paper, every node is a
    centre, and the vectors of all ego graphs are computed when the graph is indexed; here they are computed for the question, so
    that changes, filters and databases need no second index. With as many centres as nodes, the search is that of the paper.

    In the paper, a network that is trained with a language model computes the soft score from the distance of node and question.
    It is not part of a retriever and its weights are not published; the cosine takes its place. The paper scales vectors with the
    soft score, and a graph network and a language model read them: no node is removed there. Of the text that the model reads,
    the published code keeps the `entities` nodes of the largest cosines in each ego graph, and so does this system. It also
    describes as many edges, which are not results here.

    A hit's path leads from the centre of the best ego graph that keeps the node; of several shortest paths it is the one through
    the lowest rows. Departures from the published code: edges are followed in both directions, there only against their own. If
    vectors of edges are missing, the vector of an ego graph is the mean of its nodes alone, and a note says so. An ego
    graph whose cosines cancel out has the score 0.

    References
    ----------
    Hu, Lei, Zhang, Pan, Ling and Zhao, "GRAG: Graph Retrieval-Augmented Generation", Findings of NAACL 2025, section 4 (textual
    subgraph retrieval, soft pruning), and its code, ``src/utils/graph_retrieval.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", "", "Ada"), Node("engine", "", "Engine"), Node("loom", "", "Loom"), Node("mill", "", "Mill")]
    >>> edges = [("ada", "engine", "wrote for"), ("engine", "loom", "recalls")]
    >>> index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0.6, 0.8], [0.8, 0.6], [0.9, -0.4]])
    >>> for hit in Retriever(index, EgoGRAG(graphs=1), backfill=False).retrieve("Who?", vector=[0.8, 0.6]):
    ...     print(round(hit.score, 2), hit.path.text)
    1.0 Ada -[wrote for]-> Engine -[recalls]-> Loom
    0.96 Ada -[wrote for]-> Engine
    0.8 Ada
    """

    name = "ego-grag"
    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    reads_edge_signals = True

    centres: Count = 100
    graphs: Count = 20
    hops: Count = 2
    entities: Count = 10
    signal: str = "edge_dense"

    def compose(self, index: Corpus) -> Operator:
        """Return the search for centres followed by that for ego graphs."""
        return Pipeline(VectorSearch(self.centres, returned=False), self.operator())

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the best ego graphs around the nodes of `candidates`, by their soft scores."""
        around = yield from nodes_around(question, candidates.nodes, self.hops)
        pool, place = np.unique(around.node, return_inverse=True)
        inside = np.zeros((len(candidates), len(pool)))
        inside[around.owner, place] = 1.0
        scores, cosines = yield from self._scores(question, pool, inside)

        # Each of the best ego graphs keeps its best nodes; a node belongs to the first that keeps it.
        soft, allowed, parts = cosines[place], question.returned(around.node), [np.zeros(0, np.int64)]
        for ego in best(scores, self.graphs, candidates.nodes).tolist():
            members = np.flatnonzero((around.owner == ego) & allowed)
            parts.append(members[best(soft[members], self.entities)])
        places = np.concatenate(parts)
        places = places[distinct(soft[places], around.node[places])]
        steps = [way[1:] for way in around.ways(places)]
        return stacked(candidates, around.owner[places], steps, soft[places], self.name)

    def _scores(self, question: Question, pool: np.ndarray, inside: np.ndarray) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
        """Return the cosines of the question with the mean vectors of C ego graphs, shape [C], and with the P nodes of `pool`.

        `inside`, shape [C, P], is 1 where an ego graph has a node.
        """
        cosines, vectors = yield Similarity(pool), Vectors(pool)
        counts, products, sums = inside.sum(1), inside @ cosines, inside @ vectors
        signal = question.corpus.signals.get(self.signal)
        if signal is not None and signal.covers != "edges":
            raise InvalidArgumentError(f"EgoGRAG reads vectors of edges; the signal {self.signal!r} covers nodes.")
        if signal is not None and signal.reads == "vector":
            edges = yield Edges(pool)
            rows = np.unique(edges.row[np.isin(edges.far, pool)])
            ends = np.searchsorted(pool, question.ends(rows))
            among = inside[:, ends[:, 0]] * inside[:, ends[:, 1]]
            edge_vectors, edge_cosines = yield EdgeVectors(rows, self.signal)
            products, sums = products + among @ edge_cosines, sums + among @ edge_vectors
        elif (counts > 1).any():
            question.notes.append(_NODES_ALONE.format(self.signal))
        # The length of a sum is at least its product with a unit vector.
        whole = np.abs(products) > _CANCELLED * counts
        return np.divide(products, np.linalg.norm(sums, axis=1), np.zeros(len(sums)), where=whole), cosines
