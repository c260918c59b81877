"""Lexical-semantic graph retrieval, O_gm: nodes by representations that combine their own and their neighbours' signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice, positive
from graph_retrievers.cache import Cache
from graph_retrievers.core.candidates import Candidates, places_of, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Neighbors, Request
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.ragged import descending
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import check_scores
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.neighborhood import DIRECTIONS, Adjacency, Neighborhood, Senders, sparse_signal

__all__ = ["LexicalSemanticSearch"]

# Scores [n], contexts [n, M] and whether no node has a word of the question.
_Scores = tuple[np.ndarray, np.ndarray, bool]

_EDGES_AT_A_TIME = 1 << 16
# Nodes of all queries of a group together: an encoder with weights holds several vectors of its hidden width for each.
_NODES_AT_A_TIME = {True: 1 << 22, False: 1 << 15}


class LexicalSemanticSearch(Operator):
    r"""LeSeGR: messages pass between the ranked nodes and their neighbours, and the entangled representations are scored.

    .. math:: s(q, c_i) = q \cdot H_i, \qquad H_i = g_\Phi(\{h_j, \delta_{qj}, \alpha_{ij} : j \in \{i\} \cup N(i)\})

    (CG-RAG, Algorithm 1 and equations 4 to 9; see :class:`~graph_retrievers.systems.lesegr.model.LeSeGRModel`.)

    Parameters
    ----------
    model : LeSeGRModel
        Trained by ``graph-retrievers fit lesegr``, or untrained: a product of the sparse and the dense score.
    hops : int or None, default 1
        Messages pass between the nodes of the previous ranking and all nodes at most this many edges away; all of these are
        ranked. None: in the whole graph, as published, independent of the previous ranking.
    sparse : str, default "bm25"
        Signal of the index that gives :math:`\delta`: BM25, or a sparse encoder.
    direction : {"both", "in"}, default "both"
        N(i): all neighbours, or those with an edge to i. In a contextual citation graph edges lead from the context to its
        reader, so ``"in"`` is the paper's direction.
    context : int or None, default 4
        Neighbours of each node to keep as its context, those whose messages weigh most (see ``Hit.context``); None for all.
    k : int, optional
        Nodes to keep; by default all scored nodes.

    Raises
    ------
    MissingSignalError
        If the index has no such signal, or no readable vectors.
    DimensionMismatchError
        If the width of the vectors differs from that of the model.

    Notes
    -----
    If `hops` is at least the number of layers, the scores of the nodes of the previous ranking are those of the whole graph.
    Nodes that a traversal filter excludes send and receive no messages, and influence no other score by their words or edges;
    only the word statistics of BM25 are those of all nodes. If such a node is in the previous ranking, it keeps the product of
    its own two signals, and its neighbours are not added.

    :math:`\delta` is divided by the largest sparse score of the query, which changes no order if the encoder is a sum or a mean.
    For a query that shares no word with any node, :math:`\delta` is 1, and a note says so. Dense signals do not depend on the
    query and are computed once for an index.

    The context of a node are the neighbours that may be returned and whose sparse signal is not 0, in order of
    :math:`|\delta_{qj} \alpha_{ij}|`, then of :math:`\delta_{qj}`, then of node rows. The paper keeps all neighbours of a
    retrieved chunk, which for hubs are more than a language model can read.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import HybridSearch
    >>> vectors = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
    >>> index = GraphIndex.from_texts(["a loom", "a loom card", "an engine"], vectors=vectors, edges=[("0", "2")])
    >>> retriever = Retriever(index, Pipeline(HybridSearch(2), LexicalSemanticSearch(LeSeGRModel(2))), backfill=False)
    >>> for hit in retriever.retrieve("Which loom?", vector=[1.0, 0.0]):
    ...     print(hit.text, [node.text for node in hit.context.nodes])
    a loom []
    a loom card []
    an engine ['a loom']
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self,
        model: LeSeGRModel,
        *,
        hops: int | None = 1,
        sparse: str = "bm25",
        direction: str = "both",
        context: int | None = 4,
        k: int | None = None,
    ) -> None:
        if not isinstance(model, LeSeGRModel):
            raise InvalidArgumentError(f"Expected a LeSeGRModel, got {type(model).__name__}.")
        self.model, self.sparse, self.direction = model.eval(), sparse, choice("direction", direction, DIRECTIONS)
        self.hops = None if hops is None else positive("hops", hops)
        self.context, self.k = None if context is None else positive("context", context), None if k is None else positive("k", k)
        self._alphas = Cache(limit=4)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the neighbourhood by the scores of their entangled representations."""
        node_vectors(question.index, self.model)
        pool = yield from self.pool(question, candidates)
        # By node row: rescored keeps the order of equal scores.
        pool = pool.taken(np.argsort(pool.nodes, kind="stable"))
        if not len(pool):
            return pool
        scores, context, silent = yield Entangled(self, pool.nodes)
        if silent:
            who = "no node" if question.queries.walk_allowed is None else "no node that may be walked to"
            question.notes.append(f"{who} has a word of the query: words count for nothing")
        return replace(pool, columns={**pool.columns, "context": context}).rescored(scores)

    def pool(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes between which messages pass, in no particular order."""
        if self.hops is None:
            rows = np.arange(question.size)
            rows = rows[question.walked(rows)]
            return Candidates.seeds(rows, np.zeros(len(rows)), self.name)
        start = 0
        for _ in range(self.hops):
            place = start + np.flatnonzero(question.walked(candidates.nodes[start:]))
            heard = candidates.nodes[place]
            near = yield Neighbors(heard) if self.direction == "both" else Senders(heard)
            nodes, first = np.unique(near.node, return_index=True)
            new = places_of(candidates.nodes, nodes) < 0
            if not new.any():
                break
            start, place = len(candidates), place[near.owner[first[new]]]
            candidates = candidates.joined(reached(candidates, place, nodes[new], np.zeros(len(place)), self.name))
        return candidates

    def score_nodes(self, queries: Queries, places: Sequence[int], nodes: Sequence[np.ndarray]) -> list[_Scores]:
        """Return scores, contexts and silence for the nodes of some questions, each ascending, in one pass through the network."""
        self.model.to(queries.index.device)
        adjacency = Adjacency.of(queries.index.graph, self.direction)
        degree = adjacency.degree_within(queries.walk_allowed)
        near = Neighborhood.of(len(queries.index), adjacency, nodes, queries.walk_allowed)
        batch = torch.tensor(places, device=near.rows.device)[near.query]
        delta, silent = sparse_signal(queries, self.sparse, batch, near.rows)
        delta = delta if self.model.sparse_gate else torch.ones_like(delta)
        alpha = self.alphas(queries.index, adjacency)[near.entries]
        with torch.inference_mode():
            scores = entangled_scores(self.model, queries, batch, near, delta, alpha, degree)
        heard = self._context_rows(near, delta, alpha, queries.allowed)
        # One table to wait for; double precision has scores and rows exactly.
        table = torch.column_stack([scores.double(), silent[batch], heard]).cpu()
        scores, silent, heard = table[:, 0].float(), table[:, 1].bool(), table[:, 2:].long()
        check_scores(scores, "LeSeGR")
        parts = (part.split([len(values) for values in nodes]) for part in (scores, heard, silent))
        return [(values.numpy(), context.numpy(), bool(silence.any())) for values, context, silence in zip(*parts, strict=True)]

    def _context_rows(self, near: Neighborhood, delta: Tensor, alpha: Tensor, allowed: Tensor | None) -> Tensor:
        """Return the rows of the neighbours that each node hears most of, best first: Tensor, shape [n, M], int64; -1 pads."""
        speaks = delta[near.edges[0]] > 0
        if allowed is not None:
            speaks &= allowed[near.rows[near.edges[0]]]
        places = speaks.nonzero().flatten()
        (source, target), alpha = near.edges[:, places], alpha[places]
        count = near.rows.numel()
        # From the last key to the first: every sort keeps the order of equal entries.
        order = descending(delta[source])
        order = order[descending((delta[source] * alpha).abs()[order])]
        order = order[torch.sort(target[order], stable=True).indices]
        target, rows = target[order], near.rows[source[order]]
        starts = torch.searchsorted(target, torch.arange(count, device=target.device))
        column = torch.arange(target.numel(), device=target.device) - starts[target]
        width = self.context or (int(column.max()) + 1 if column.numel() else 0)
        # Those beyond the width share a last column, which is left out.
        table = torch.full((count, width + 1), -1, dtype=torch.int64, device=target.device)
        table[target, column.clamp(max=width)] = rows
        return table[:, :width]

    def alphas(self, index: GraphIndex, adjacency: Adjacency) -> Tensor:
        """Return the dense signal of every entry of the adjacency: Tensor, shape [M], float32; computed once for an index."""

        def make() -> Tensor:
            vectors = node_vectors(index, self.model)
            owners = adjacency.owners()
            pieces = range(0, owners.numel(), _EDGES_AT_A_TIME)
            parts = [slice(start, start + _EDGES_AT_A_TIME) for start in pieces]
            with torch.inference_mode():
                values = [self.model.alpha(vectors[owners[part]] - vectors[adjacency.neighbors[part]]) for part in parts]
            return torch.cat(values) if values else torch.zeros(0, device=index.device)

        # Weights that are changed get another version. An index is not kept by a search that outlives it.
        versions = tuple(parameter._version for parameter in self.model.mlp.parameters())
        return self._alphas.get((ref(index), versions), make)


def entangled_scores(
    model: LeSeGRModel, queries: Queries, batch: Tensor, near: Neighborhood, delta: Tensor, alpha: Tensor, degree: Tensor
) -> Tensor:
    """Return the score of each node of a neighbourhood: Tensor, shape [n], float32.

    `batch`, shape [n], is the query of each node in `queries`; `delta`, shape [n], and `alpha`, shape [E], are the signals, and
    `degree`, shape [N], the numbers of neighbours in the whole graph.
    """
    if model.linear:
        # Sums and means treat all dimensions alike, so the scores themselves are the messages.
        messages = queries.scores(batch, near.rows).unsqueeze(1)
        return model(messages, near.edges, delta, alpha, degree[near.rows]).squeeze(1)  # type: ignore[no-any-return]
    vectors = node_vectors(queries.index, model)
    representations = model(vectors[near.rows], near.edges, delta, alpha, degree[near.rows])
    return (representations * queries.vectors[batch]).sum(1)  # type: ignore[no-any-return]


def node_vectors(index: GraphIndex, model: LeSeGRModel) -> Tensor:
    """Return the vectors of all nodes for a model: Tensor, shape [N, d], float32."""
    vectors = getattr(index.dense, "vectors", None)
    if not isinstance(vectors, Tensor):
        raise MissingSignalError(f"LeSeGR reads the vectors of nodes, which {type(index.dense).__name__} does not give.")
    if vectors.shape[1] != model.dimension:
        raise DimensionMismatchError(
            f"This LeSeGR model is for vectors of {model.dimension} dimensions, the index has {vectors.shape[1]}; train it on an "
            "index with the same embedding model."
        )
    return vectors


@dataclass(frozen=True, eq=False)
class Entangled(Request):
    """The results of LeSeGR's network for nodes, shape [n] and ascending, and the messages between them.

    The answer is their scores, shape [n], the rows of the neighbours with the largest messages to each, [n, M] with -1 as pads,
    and whether no node has a word of the question.
    """

    reads = "model"
    tells = "scores"
    costly = True
    shared = ("operator",)
    operator: LexicalSemanticSearch
    nodes: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Entangled]]) -> list[_Scores]:
        """Return answers, as many questions at a time as memory allows."""
        operator, places, nodes = requests[0][1].operator, [b for b, _ in requests], [request.nodes for _, request in requests]
        group = max(1, _NODES_AT_A_TIME[operator.model.linear] // max(map(len, nodes)))
        parts = [slice(start, start + group) for start in range(0, len(requests), group)]
        return [answer for part in parts for answer in operator.score_nodes(backend.queries, places[part], nodes[part])]
