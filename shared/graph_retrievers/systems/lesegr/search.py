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
from graph_retrievers.core.candidates import Candidates, newly_reached, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Neighbors, Request, Scores
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError
from graph_retrievers.graph.ragged import descending
from graph_retrievers.learning.checkpoint import check_scores
from graph_retrievers.search.batch import Batch
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.neighborhood import Neighborhood

__all__ = ["LexicalSemanticSearch"]

DIRECTIONS = ("both", "in")
"""Which neighbours send messages: all, or those with an edge to the node."""

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
        ranked. None: in the whole graph, as published, independent of the previous ranking; not on a graph in a database.
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
    query; in memory they are computed once for an index.

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
        if hops is None:
            self.whole = "all nodes and edges, between which messages pass (hops=None); with hops=1 it runs there"
        self.context, self.k = None if context is None else positive("context", context), None if k is None else positive("k", k)
        self._alphas = Cache(limit=4)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the neighbourhood by the scores of their entangled representations."""
        self.check(question.corpus)
        pool = yield from self.pool(question, candidates)
        if not len(pool):
            return pool
        near = yield from self.neighborhood(question, pool.nodes)
        scores, context = yield Entangled(self, near)
        return replace(pool, columns={**pool.columns, "context": context}).rescored(scores)

    def check(self, corpus: Corpus) -> None:
        """Raise DimensionMismatchError unless the vectors of a corpus have the width of those that the model was trained on."""
        width = corpus.dense.dimension
        if width != self.model.dimension:
            raise DimensionMismatchError(
                f"This LeSeGR model is for vectors of {self.model.dimension} dimensions, the index has {width}; train it on an "
                "index with the same embedding model."
            )

    def pool(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes between which messages pass, by row."""
        if self.hops is None:
            rows = np.arange(question.size)
            rows = rows[question.walked(rows)]
            return Candidates.seeds(rows, np.zeros(len(rows)), self.name)
        start = 0
        for _ in range(self.hops):
            place = start + np.flatnonzero(question.walked(candidates.nodes[start:]))
            near = yield Neighbors(candidates.nodes[place], incoming=self.direction == "in")
            nodes, owner = newly_reached(candidates.nodes, near.owner, near.node)
            if not len(nodes):
                break
            new = reached(candidates, place[owner], nodes, np.zeros(len(nodes)), self.name)
            start, candidates = len(candidates), candidates.joined(new)
        return candidates.taken(np.argsort(candidates.nodes, kind="stable"))

    def neighborhood(self, question: Question, nodes: np.ndarray) -> Algorithm[Neighborhood]:
        """Return the neighbourhood of ascending nodes, shape [n]; a note says if no node has a word of the question."""
        near, (_, best), words, *products = yield (
            Neighbors(nodes, incoming=self.direction == "in"),
            Nearest(1, self.sparse, among="walk"),
            Scores(nodes, self.sparse),
            # Sums and means treat all dimensions alike, so the scores themselves are the messages.
            *([Scores(nodes)] if self.model.linear else []),
        )
        # The place of each node from 1 on, so that most of the table is never written.
        table = np.zeros(question.size, np.int32)
        table[nodes] = np.arange(1, len(nodes) + 1)
        source = table[near.node].astype(np.int64) - 1
        inside = (source >= 0) & question.walked(nodes)[near.owner]
        edges = np.stack([source[inside], near.owner[inside]])
        pairs = nodes[edges[1]] * question.size + nodes[edges[0]]
        degree = np.bincount(near.owner, minlength=len(nodes))
        delta = np.ones(len(nodes), np.float32)
        if not len(best) or best[0] <= 0:
            who = "no node that may be walked to" if question.has_traversal_filter else "no node"
            question.notes.append(f"{who} has a word of the query: words count for nothing")
        elif self.model.sparse_gate:
            delta = np.clip(words / best[0], 0.0, 1.0)
        return Neighborhood(nodes, edges, degree, pairs, delta, question.returned(nodes), *(products or [None]))

    def answers(self, backend: Any, requests: Sequence[tuple[int, Entangled]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the answers to requests, in one pass through the network."""
        queries, device = backend.queries, backend.queries.index.device
        near = Neighborhood.joined([request.near for _, request in requests], device)
        self.model.to(device)
        with torch.inference_mode():
            alpha = self.alphas(backend, near)
            scores = entangled_scores(self.model, queries, [place for place, _ in requests], near, alpha)
        heard = self._context_rows(near, alpha)
        # One table to wait for; double precision has scores and rows exactly.
        table = torch.column_stack([scores.double(), heard]).cpu()
        scores, heard = table[:, 0].float(), table[:, 1:].long()
        check_scores(scores, "LeSeGR")
        parts = (part.split([len(request.nodes) for _, request in requests]) for part in (scores, heard))
        return [(values.numpy(), context.numpy()) for values, context in zip(*parts, strict=True)]

    def _context_rows(self, near: Neighborhood, alpha: Tensor) -> Tensor:
        """Return the rows of the neighbours that each node hears most of, best first: Tensor, shape [n, M], int64; -1 pads."""
        delta = near.delta
        places = ((delta > 0) & near.returned)[near.edges[0]].nonzero().flatten()
        (source, target), alpha = near.edges[:, places], alpha[places]
        count = near.nodes.numel()
        # From the last key to the first: every sort keeps the order of equal entries.
        order = descending(delta[source])
        order = order[descending((delta[source] * alpha).abs()[order])]
        order = order[torch.sort(target[order], stable=True).indices]
        target, rows = target[order], near.nodes[source[order]]
        starts = torch.searchsorted(target, torch.arange(count, device=target.device))
        column = torch.arange(target.numel(), device=target.device) - starts[target]
        width = self.context or (int(column.max()) + 1 if column.numel() else 0)
        # Those beyond the width share a last column, which is left out.
        table = torch.full((count, width + 1), -1, dtype=torch.int64, device=target.device)
        table[target, column.clamp(max=width)] = rows
        return table[:, :width]

    def alphas(self, backend: Any, near: Neighborhood) -> Tensor:
        """Return the dense signal of every edge of a neighbourhood: Tensor, shape [E], float32.

        In memory, those of all edges of the graph are computed once.
        """
        queries = backend.queries
        if not backend.in_memory:
            return self.computed_alphas(queries, near)
        keys = queries.index.graph.edge_keys
        # Weights that are changed get another version. An index is not kept by a search that outlives it.
        versions = tuple(parameter._version for parameter in self.model.mlp.parameters())
        table = self._alphas.get((ref(queries.index), versions), lambda: self.alphas_of_pairs(queries, keys))
        return table[torch.searchsorted(keys, near.pairs)]

    def computed_alphas(self, queries: Batch, near: Neighborhood) -> Tensor:
        """Return :meth:`alphas` from the vectors, each pair of nodes once, however many questions have it."""
        pairs, place = near.pairs.unique(return_inverse=True)
        return self.alphas_of_pairs(queries, pairs)[place]

    def alphas_of_pairs(self, queries: Batch, pairs: Tensor) -> Tensor:
        """Return the dense signals of pairs of nodes, each a number ``target * N + source``: Tensor, shape [M], float32."""
        parts, size = [], len(queries.index.facts)
        for part in pairs.split(_EDGES_AT_A_TIME):
            nodes, place = torch.stack([part // size, part % size]).unique(return_inverse=True)
            target, source = queries.node_vectors(nodes)[place]
            parts.append(self.model.alpha(target - source))
        return torch.cat(parts)


def entangled_scores(model: LeSeGRModel, queries: Batch, places: Sequence[int], near: Neighborhood, alpha: Tensor) -> Tensor:
    """Return the score of each node of a neighbourhood, whose queries are at some places: Tensor, shape [n], float32.

    `alpha`, shape [E], are the dense signals of its edges.
    """
    messages = (near.edges, near.delta, alpha, near.degree)
    if model.linear:
        return model(near.products.unsqueeze(1), *messages).squeeze(1)  # type: ignore[no-any-return]
    representations = model(queries.node_vectors(near.nodes), *messages)
    return (representations * queries.vectors[places][near.query]).sum(1)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Entangled(Request):
    """The results of LeSeGR's network for a neighbourhood of n nodes.

    The answer is their scores, shape [n], and the rows of the neighbours with the largest messages to each, [n, M] with -1 as
    pads.
    """

    reads = "model"
    tells = "scores"
    costly = True
    shared = ("operator",)
    operator: LexicalSemanticSearch
    near: Neighborhood

    @property
    def nodes(self) -> np.ndarray:
        """The nodes of the neighbourhood."""
        return self.near.nodes  # type: ignore[no-any-return]

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Entangled]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return answers, as many questions at a time as memory allows."""
        operator = requests[0][1].operator
        group = max(1, _NODES_AT_A_TIME[operator.model.linear] // max(len(request.nodes) for _, request in requests))
        parts = [requests[start : start + group] for start in range(0, len(requests), group)]
        return [answer for part in parts for answer in operator.answers(backend, part)]
