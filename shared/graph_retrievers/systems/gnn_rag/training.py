"""Training of GNN-RAG: the network learns to give the relevant nodes a high probability (section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import best
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Dataset
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.learning.loop import History
from graph_retrievers.learning.loss import listwise_cross_entropy
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.gnn_rag.retriever import GNNRAG
from graph_retrievers.systems.gnn_rag.search import AnswerSearch
from graph_retrievers.systems.subgraphs.around import Subgraph
from graph_retrievers.systems.subgraphs.training import fit_checkpoint, fit_on_subgraphs

__all__ = ["fit_gnn_rag"]


@dataclass(frozen=True, eq=False)
class _Example:
    """What the network reads of a question, and the relevant nodes."""

    query: Tensor  # [d]
    relations: Tensor  # [R, 2, d], of all examples
    relation_rows: Tensor  # [r], those of this one
    edges: Sequence[Tensor]  # See AnswerNetwork.forward.
    around: Subgraph
    relevant: Tensor  # [n], bool
    gold: frozenset[int]

    @property
    def learnable(self) -> bool:
        """Whether a relevant node is in the subgraph."""
        return bool(self.relevant.any())

    def logits(self, network: AnswerNetwork) -> Tensor:
        """Return the network's score of each node: Tensor, shape [n]."""
        return network(self.query, self.relations[self.relation_rows], *self.edges)  # type: ignore[no-any-return]

    def loss(self, network: AnswerNetwork) -> Tensor:
        """Return the cross entropy of the network's distribution with the uniform one over the relevant nodes."""
        return listwise_cross_entropy(self.logits(network), self.relevant) / self.relevant.sum()

    def hit_and_recall(self, network: AnswerNetwork, k: int) -> tuple[float, float]:
        """Return whether the best node that is not a topic is relevant, and the recall among the best k, of what k can hold."""
        places = np.flatnonzero(~self.around.topics)
        places = places[best(self.logits(network).softmax(0).double().cpu().numpy()[places], k)]
        hits = [int(node) in self.gold for node in self.around.nodes[places]]
        return float(sum(hits[:1])), sum(hits) / min(k, len(self.gold))


def fit_gnn_rag(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    hops: int = 3,
    candidates: int = 2000,
    training: Mapping[str, Any] | None = None,
    **network: Any,
) -> dict[str, Any]:
    """Train GNN-RAG on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.training.fit_lesegr`. The index needs an embedding model, for relations.
    hops, candidates
        See :class:`~graph_retrievers.systems.gnn_rag.retriever.GNNRAG`.
    training : mapping, optional
        Keywords of :func:`fit_answer_network`.
    **network
        Keywords of :class:`~graph_retrievers.systems.gnn_rag.model.AnswerNetwork`.

    Returns
    -------
    dict
        For JSON: ``quality_on_dev``, the mean of ``hit@1_on_dev`` and ``recall@10_on_dev``, the ``epoch`` whose weights were kept,
        and the number of ``epochs``.
    """
    settings = {"hops": hops, "candidates": candidates}
    options: dict[str, Any] = {"seed": seed, "show_progress": show_progress, "training": training, **network}
    return fit_checkpoint(GNNRAG, fit_answer_network, dataset, index, folder, settings, **options)


def fit_answer_network(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    search: AnswerSearch,
    first: Operator,
    *,
    k: int = 10,
    batch_size: int = 8,
    **options: Any,
) -> History:
    """Train the network of a search in place; at the end it has the weights that rank best on `dev` (GNN-RAG, section 4.1).

    `first` finds the topics, also later for the trained network. A step has `batch_size` questions; the loss is the mean cross
    entropy of the network's distribution with the uniform one over the relevant nodes of a subgraph. Questions whose subgraph has
    none are left out. The metric on `dev` is the mean of two measures of the nodes that are not topics, which the history keeps:
    Hit@1, and the recall among the first k, divided by the highest that k places allow. `options` are those of
    :func:`graph_retrievers.learning.loop.fit`; by default the learning rate is 5e-4, gradients are clipped to the length 1, and
    training stops after 20 epochs without a better result, or after 100.

    Batch size, learning rate, clipping and epochs are those of the published code. It minimises the Kullback-Leibler divergence,
    whose gradient is that of the cross entropy, measures Hit@1 and F1 after every second epoch, and does not stop earlier.
    """
    measures = ["hit@1", f"recall@{positive('k', k)}"]

    def quality(examples: list[_Example]) -> dict[str, float]:
        columns = zip(*(example.hit_and_recall(search.network, k) for example in examples), strict=True)
        return {name: sum(values) / len(examples) for name, values in zip(measures, columns, strict=True)}

    options = {"learning_rate": 5e-4, "clip": 1.0, "patience": 20, "epochs": 100, "description": "fit gnn-rag", **options}
    about = {"measures": measures, "batch_size": batch_size}
    return fit_on_subgraphs(index, train, dev, search, first, _examples_of, quality, about=about, batch_size=batch_size, **options)


def _examples_of(
    index: GraphIndex, search: AnswerSearch, examples: Sequence[LabelledQuery], queries: list[Tensor], subgraphs: list[Subgraph]
) -> list[_Example]:
    """Return what the network reads of each question."""
    relations, inputs = search.inputs(index, subgraphs)
    return [
        _Example(
            query,
            relations,
            rows,
            edges,
            around,
            torch.from_numpy(np.isin(around.nodes, example.gold)).to(index.device),
            frozenset(example.gold),
        )
        for query, (rows, *edges), around, example in zip(queries, inputs, subgraphs, examples, strict=True)
    ]
