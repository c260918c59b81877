"""Inputs of G-RAG's networks for a question and its documents, computed from their meaning graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graph_retrievers.core.candidates import runs
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.systems.grag.document_graph import (
    edge_features,
    joint_graph,
    maximal_paths,
    membership,
    normalized,
    path_concepts,
)

LEAD = 4
"""Number of first concepts of a document that represent its subject."""


def mean_ranks(scores: Tensor) -> Tensor:
    """Return the rank of each score, shape [n], from 1 for the highest; scores that differ only by rounding share their mean rank.

    >>> mean_ranks(torch.tensor([0.5, 0.9, 0.5]))
    tensor([2.5000, 1.0000, 2.5000])
    """
    values, by = torch.sort(scores.double(), descending=True)
    run = runs(values.numpy())
    level = -values if run is None else torch.from_numpy(run)
    before, up_to = torch.searchsorted(level, level), torch.searchsorted(level, level, right=True)
    return torch.empty(len(level)).scatter_(0, by, (before + 1 + up_to).float() / 2)


@dataclass(frozen=True)
class DocumentSet:
    """A question and its n documents as meaning graphs (empty for a document that could not be parsed), and what they share.

    With `together`, each graph is that of the question and the document parsed as one text, as published.

    >>> loom, card = (MeaningGraph.of(words.split(), []) for words in ("loom weaver", "card loom"))
    >>> DocumentSet(MeaningGraph.of(["question", "weaver"], []), (loom, card)).coverage.tolist()
    [1.0, 0.0]
    """

    question: MeaningGraph
    documents: Sequence[MeaningGraph]
    together: bool = False

    @cached_property
    def graphs(self) -> list[MeaningGraph]:
        """Graph of each document together with the question; empty if the document has none."""
        if self.together:
            return list(self.documents)
        return [joint_graph(self.question, document) if document.concepts else document for document in self.documents]

    @cached_property
    def shared(self) -> Tensor:
        """Common concepts and relations of each two documents: Tensor, shape [n, n, 2] (equation 3)."""
        return edge_features(self.graphs)

    @property
    def connected(self) -> Tensor:
        """Which documents, together with the question, share anything with another one: Tensor, shape [n], bool."""
        return (self.shared > 0).any(-1).any(-1)

    @property
    def paths(self) -> list[str]:
        r"""The sequence :math:`a_i` of each document: the concepts on its paths from the question, joined by blanks."""
        return [" ".join(path_concepts(graph)) for graph in self.graphs]

    @cached_property
    def _columns(self) -> dict[Hashable, int]:
        return {concept: c for c, concept in enumerate(dict.fromkeys(c for graph in self.documents for c in graph.concepts))}

    def _table(self, sets: Sequence[Sequence[str]]) -> Tensor:
        return membership(sets, self._columns)

    @cached_property
    def _document_concepts(self) -> Tensor:
        return self._table([graph.concepts for graph in self.documents])

    @cached_property
    def _rarity(self) -> Tensor:
        """Weight of each concept, shape [V]: log((n + 1) / number of documents that have it)."""
        return ((len(self.documents) + 1) / self._document_concepts.sum(0)).log()

    @cached_property
    def _leads(self) -> Tensor:
        """Weights of the first concepts of each document, shape [n, V]; rows sum to 1."""
        weights = self._table([graph.concepts[:LEAD] for graph in self.documents]) * self._rarity
        return weights / weights.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)

    @cached_property
    def _question_concepts(self) -> Tensor:
        """Which concepts the question has, shape [V]."""
        return self._table([self.question.concepts])[0]

    @property
    def coverage(self) -> Tensor:
        """Share of the question's concepts that each document has, by rarity: Tensor, shape [n]."""
        weights = self._rarity * self._question_concepts
        return self._document_concepts @ weights / weights.sum().clamp(min=torch.finfo(torch.float32).tiny)

    @property
    def lead(self) -> Tensor:
        """Share of each document's first concepts that the question has, by rarity: Tensor, shape [n]."""
        return self._leads @ self._question_concepts

    @cached_property
    def mentions(self) -> Tensor:
        """Share of v's first concepts that u has, by rarity: Tensor, shape [n (v), n (u)]."""
        return (self._leads @ self._document_concepts.T).fill_diagonal_(0)

    @cached_property
    def path_mentions(self) -> Tensor:
        """As :attr:`mentions`, only of concepts on u's paths from the question.

        A concept counts half as much for each other concept on its path that is not in the question.
        """
        table, mask = torch.zeros_like(self._document_concepts), self._question_concepts.tolist()
        for row, graph in enumerate(self.graphs):
            for path in maximal_paths(graph):
                new = 0
                for node in path:
                    column = self._columns.get(graph.concepts[node])
                    if column is not None:
                        new += int(not mask[column])
                        table[row, column] = 0.5 ** max(new - 1, 0)
        return (self._leads @ table.T).fill_diagonal_(0)

    def node_evidence(self, names: Sequence[str], similarity: Tensor, ranks: Tensor) -> Tensor:
        """Return the evidence on each document: Tensor, shape [n, len(names)].

        `names` are those of :data:`~graph_retrievers.systems.grag.model.EVIDENCE`; `similarity`, shape [n], has the cosines of
        question and document, `ranks`, shape [n], those by the scores of the retriever.
        """
        measures = {
            # Three times, as the cosines of one question's documents lie closer together than the shares do.
            "similarity": lambda: 3 * similarity,
            "rank": lambda: -ranks.log(),
            "coverage": lambda: self.coverage,
            "lead": lambda: self.lead,
        }
        return torch.stack([measures[name]().float().cpu() for name in names], -1)

    def pair_evidence(self, names: Sequence[str], links: Tensor | None = None) -> Tensor:
        """Return the evidence on each two documents: Tensor, shape [n, n, len(names)], the receiver of a message first.

        `links`, shape [n, n], bool, says which documents an edge joins; by default none. ``concepts`` and ``relations`` are
        normalised by row, then by column. Leads and paths are squared, so that a document with all concepts of a subject counts
        more than many documents with one word of it. Each row of these and of the links is divided by its sum.
        """
        measures = {
            "concepts": lambda: normalized(self.shared)[..., 0],
            "relations": lambda: normalized(self.shared)[..., 1],
            "leads-in": lambda: _row_shares(self.mentions**2),
            "leads-out": lambda: _row_shares(self.mentions.T**2),
            "paths-in": lambda: _row_shares(self.path_mentions**2),
            "paths-out": lambda: _row_shares(self.path_mentions.T**2),
            "links": lambda: torch.zeros_like(self.mentions) if links is None else _row_shares(links.to(self.mentions)),
        }
        if not names:
            return torch.zeros(len(self.documents), len(self.documents), 0)
        return torch.stack([measures[name]() for name in names], -1)


def _row_shares(values: Tensor) -> Tensor:
    """Return each row divided by its sum; zeros stay zeros."""
    total = values.sum(1, keepdim=True)
    return torch.where(total > 0, values / total.clamp(min=torch.finfo(values.dtype).tiny), 0)
