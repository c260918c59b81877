"""Training of SubgraphRAG: triples on shortest paths from the topics to the relevant nodes (SubgraphRAG, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from graph_retrievers.arguments import positive
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.requests import Vectors
from graph_retrievers.datasets import Dataset
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.learning.loop import History
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.retriever import SubgraphRAG
from graph_retrievers.systems.subgraph_rag.search import TripleSearch, best_ends
from graph_retrievers.systems.subgraphs.around import Subgraph
from graph_retrievers.systems.subgraphs.training import fit_checkpoint, fit_on_subgraphs

__all__ = ["fit_subgraph_rag"]


@dataclass(frozen=True, eq=False)
class _Example:
    """What the network reads of a question, the triples that it should find, and the relevant nodes."""

    query: Tensor  # [d]
    vectors: Tensor  # [N, d], of the nodes of all examples
    places: Tensor  # [n], in `vectors`
    names: Tensor  # [R, d], vectors of all relations
    relations: Tensor  # [m], in `names`
    ends: Tensor  # [m, 2]
    topics: Tensor  # [n], bool
    targets: Tensor  # [m], float32: 1 for triples on shortest paths
    around: Subgraph
    gold: tuple[int, ...]

    @property
    def learnable(self) -> bool:
        """Whether a triple is on a shortest path to a relevant node."""
        return bool(self.targets.any())

    def logits(self, network: TripleScorer) -> Tensor:
        """Return the network's score of each triple: Tensor, shape [m]."""
        return network(  # type: ignore[no-any-return]
            self.query, self.vectors[self.places], self.names[self.relations], self.ends, self.topics
        )

    def loss(self, network: TripleScorer) -> Tensor:
        """Return the binary cross entropy of the triples."""
        return binary_cross_entropy_with_logits(self.logits(network), self.targets)

    def recall(self, network: TripleScorer, triples: int, k: int) -> float:
        """Return the recall of relevant nodes among the first k, divided by the highest that k places allow."""
        nodes, _ = best_ends(self.around, self.logits(network).sigmoid().double().cpu().numpy(), triples)
        return len(set(nodes[:k].tolist()) & set(self.gold)) / min(k, len(set(self.gold)))


def on_shortest_paths(around: Subgraph, gold: Iterable[int]) -> np.ndarray:
    """Return which triples lie on a shortest path, in either direction of edges, from a topic to a relevant node: bool, shape [m].

    >>> ends = np.array([[0, 1], [2, 1], [1, 3]])
    >>> around = Subgraph(np.arange(4), np.arange(4) == 0, np.full(4, -1), ends, ("", "", ""))
    >>> on_shortest_paths(around, [2]).tolist()
    [True, True, False]
    """
    count, ends = len(around.nodes), around.ends
    near: list[set[int]] = [set() for _ in range(count)]
    for source, target in ends.tolist():
        near[source].add(target)
        near[target].add(source)
    mask = np.zeros(len(ends), bool)
    answers = [_distances(near, place) for place in np.flatnonzero(np.isin(around.nodes, list(gold))).tolist()]
    for topic in np.flatnonzero(around.topics).tolist() if len(ends) else ():
        from_topic = _distances(near, topic)
        for distances in answers:
            # Infinite if no path leads there: then no edge has this length.
            length = distances[topic]
            for one, other in (ends.T, ends.T[::-1]):
                mask |= np.isfinite(length) & (from_topic[one] + 1 + distances[other] == length)
    return mask


def _distances(near: list[set[int]], start: int) -> np.ndarray:
    """Return the number of edges from a node to each."""
    distances = np.full(len(near), np.inf)
    front, distance = {start}, 0
    while front:
        distances[list(front)] = distance
        front, distance = {node for each in front for node in near[each] if np.isinf(distances[node])}, distance + 1
    return distances


def fit_subgraph_rag(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    triples: int = 100,
    hops: int = 2,
    training: Mapping[str, Any] | None = None,
    **network: Any,
) -> dict[str, Any]:
    """Train SubgraphRAG on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.training.fit_lesegr`.
    triples, hops
        See :class:`~graph_retrievers.systems.subgraph_rag.retriever.SubgraphRAG`.
    training : mapping, optional
        Keywords of :func:`fit_triple_scorer`.
    **network
        Keywords of :class:`~graph_retrievers.systems.subgraph_rag.model.TripleScorer`.

    Returns
    -------
    dict
        For JSON: ``quality_on_dev``, the ``epoch`` whose weights were kept, and the number of ``epochs``.
    """
    settings = {"triples": triples, "hops": hops}
    options: dict[str, Any] = {"seed": seed, "show_progress": show_progress, "training": training, **network}
    return fit_checkpoint(SubgraphRAG, fit_triple_scorer, dataset, index, folder, settings, **options)


def fit_triple_scorer(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    search: TripleSearch,
    first: Operator,
    *,
    k: int = 10,
    **options: Any,
) -> History:
    """Train the network of a search in place; at the end it has the weights that rank best on `dev` (SubgraphRAG, section 3.2).

    `first` finds the topics, also later for the trained network. A step is one question; the loss is the binary cross entropy of
    its triples, of which those on shortest paths from a topic to a relevant node are positive. Questions without such a triple are
    left out. The metric on `dev` is the recall of relevant nodes among the first k, divided by the highest that k places allow.
    `options` are those of :func:`graph_retrievers.learning.loop.fit`; by default the learning rate is 1e-3, and
    training stops after 10 epochs without a better result, or after 50.

    The published code follows edges in one direction along a path, and stops by the recall of triples, after 10,000 epochs at
    most; paths here may turn, since links between documents have no common direction, and relevant nodes are what a retriever is
    asked for.
    """
    positive("k", k)

    def recall(examples: list[_Example]) -> float:
        return sum(example.recall(search.network, search.triples, k) for example in examples) / len(examples)

    options = {"learning_rate": 1e-3, "patience": 10, "epochs": 50, "description": "fit subgraph-rag", **options}
    return fit_on_subgraphs(
        index, train, dev, search, first, _examples_of, recall, about={"triples": search.triples, "k": k}, **options
    )


def _examples_of(
    index: GraphIndex, search: TripleSearch, examples: Sequence[LabelledQuery], queries: list[Tensor], subgraphs: list[Subgraph]
) -> list[_Example]:
    """Return what the network reads of each question."""
    rows = np.unique(np.concatenate([around.nodes for around in subgraphs]))
    names = sorted({name for around in subgraphs for name in around.relations})

    (table,) = MemoryBackend(Queries.of(index, [examples[0].text])).vectors([(0, Vectors(rows))])
    vectors = torch.from_numpy(table).float().to(index.device)
    relations, place = search.relation_vectors(index, names).to(index.device), {name: at for at, name in enumerate(names)}

    def tensor(values: Any, kind: torch.dtype = torch.int64) -> Tensor:
        return torch.as_tensor(values, dtype=kind, device=index.device)

    return [
        _Example(
            query,
            vectors,
            tensor(np.searchsorted(rows, around.nodes)),
            relations,
            tensor([place[name] for name in around.relations]),
            tensor(around.ends),
            tensor(around.topics, torch.bool),
            tensor(on_shortest_paths(around, example.gold), torch.float32),
            around,
            example.gold,
        )
        for query, around, example in zip(queries, subgraphs, examples, strict=True)
    ]
