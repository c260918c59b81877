"""Training of MoR: its planner, and its trajectory reranker (section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm, run
from graph_retrievers.core.question import Question
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import save_checkpoint
from graph_retrievers.learning.loop import History, fit
from graph_retrievers.learning.loss import sampled_cross_entropy
from graph_retrievers.progress import progress_bar
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.vectors import check_vectors
from graph_retrievers.systems.mor.reranker import (
    FEATURES,
    PADDING,
    RERANKER,
    Trajectories,
    TrajectoryReranker,
    TrajectoryScorer,
    read_features,
)
from graph_retrievers.systems.mor.trained import TrainedPlanner
from graph_retrievers.systems.mor.traversal import MixedTraversal

__all__ = ["fit_mor"]

_GROUP = 32


@dataclass(frozen=True)
class Example:
    """A question with its plan, in any form or None for text retrieval, and the rows of its relevant nodes."""

    text: str
    plan: Any
    gold: tuple[int, ...]


@dataclass(frozen=True)
class _Candidates:
    """K candidates of each of Q questions as the network reads them, with trajectories of L nodes."""

    text: Tensor  # [Q, K, L + 1]
    pattern: Tensor  # [Q, K]
    identifier: Tensor  # [Q, K, L]
    real: Tensor  # [Q, K]
    gold: Tensor  # [Q, K]


def fit_mor(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    node_only: bool = False,
    features: Sequence[str] = FEATURES,
    exact_titles: bool = True,
    seed: int = 0,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train MoR's planner and reranker on a dataset, and write both as a checkpoint; return its history, for JSON.

    Arguments are as for :func:`~graph_retrievers.systems.lesegr.training.fit_lesegr`, but only queries with plans are used.
    `node_only` trains a reranker that reads only the last node of each trajectory, and `features` one that reads only some of
    their features (the paper's ablations, see :class:`~graph_retrievers.systems.mor.reranker.TrajectoryReranker`). The reranker
    learns from the candidates of the given plans, whose paths start as with the same `exact_titles` of
    :class:`~graph_retrievers.systems.mor.retriever.MoR`, and from those of text retrieval for the same questions, which are used if
    a plan cannot be followed.
    """
    train = [query for query in dataset.queries if query.split == "train" and query.plan]
    dev = [query for query in dataset.queries if query.split == "dev" and query.plan]
    if not train or not dev:
        counts = f"{len(train)} train and {len(dev)} dev queries with a plan"
        raise InvalidArgumentError(f"{dataset.name} has {counts}; MoR learns from both.")
    options: dict[str, Any] = {"seed": seed, "show_progress": show_progress}
    pairs = [[(query.text, list(query.plan)) for query in split] for split in (train, dev)]
    planner, planner_history = TrainedPlanner.fit(pairs[0], pairs[1], index.graph, **options)
    planner.save(folder)
    row = index.graph.row
    examples = [[Example(q.text, list(q.plan), tuple(map(row, q.gold))) for q in split] for split in (train, dev)]
    by_text = [replace(example, plan=None) for example in examples[0]]
    length = max(len(query.plan) for query in train)
    settings: dict[str, Any] = {"node_only": node_only, "features": read_features(features)}
    traversal = MixedTraversal(exact_titles=exact_titles)
    reranker, reranker_history = fit_trajectory_reranker(
        index, examples[0] + by_text, examples[1], traversal, length=length, **settings, **options
    )
    config = {
        **settings,
        "exact_titles": exact_titles,
        "embedding": index.embedding_name,
        "seed": seed,
        "history": reranker_history.to_dict(),
    }
    save_checkpoint(folder, RERANKER, reranker.scorer.state_dict(), config)
    return {
        "planner": {
            "right_on_dev": planner_history.best_score,
            "plans": planner_history.classes,
            "left_out": planner_history.left_out,
        },
        "reranker": {"mrr_on_dev": reranker_history.best_score, "epoch": reranker_history.best_epoch},
    }


def fit_trajectory_reranker(
    index: GraphIndex,
    train: Sequence[Example],
    dev: Sequence[Example],
    traversal: MixedTraversal,
    *,
    length: int = 3,
    embedding: Any = None,
    node_only: bool = False,
    features: Sequence[str] = FEATURES,
    negatives: int = 100,
    batch_size: int = 64,
    seed: int = 0,
    show_progress: bool = False,
    **options: Any,
) -> tuple[TrajectoryReranker, History]:
    """Return a reranker trained on the candidates that a traversal returns.

    For every relevant candidate, `negatives` others of the same question are drawn with replacement, and the loss is the cross
    entropy of the relevant one among them; questions without a relevant candidate are not used. A step has `batch_size` relevant
    candidates, and the network reads `length` nodes of a trajectory. The metric on `dev` is the mean reciprocal rank. `embedding`,
    `node_only` and `features` are as for :class:`~graph_retrievers.systems.mor.reranker.TrajectoryReranker`, the others as for
    :func:`graph_retrievers.learning.loop.fit`.

    Loss, sampling and optimiser are those of the published code (equation 7 has a softmax over the whole candidate set instead).
    Departures: examples are shuffled, while the code reads them in order; the metric on `dev` is the mean reciprocal rank, in the
    code the hit rate at 1; the learning rate is 1e-3, in the code 1e-4.
    """
    embedding = embedding if embedding is not None else index.embedding
    if embedding is None:
        raise InvalidArgumentError("The reranker reads node types through a text embedding; pass embedding=.")
    width = check_vectors(embedding.embed_documents(["padding"]), 1).shape[1]
    scorer = TrajectoryScorer(length, width, seed=seed)
    reranker = TrajectoryReranker(scorer, embedding=embedding, node_only=node_only, features=features)
    patterns: dict[tuple[str, ...], int] = {}
    train_candidates = _gather(index, train, traversal, reranker, patterns, show_progress)
    dev_candidates = _gather(index, dev, traversal, reranker, patterns, show_progress)
    structure = reranker.structure_vectors(index, list(patterns)) if patterns else torch.zeros((0, width))
    other = train_candidates.real & ~train_candidates.gold
    counts = other.sum(1)
    # The columns of each question's negatives come first.
    columns = torch.sort((~other).to(torch.int8), dim=1, stable=True).indices
    positives = (train_candidates.gold & (counts > 0).unsqueeze(1)).nonzero()
    if not len(positives):
        raise InvalidArgumentError("No training question has a relevant candidate beside others; check plans and gold nodes.")
    scorer = reranker.scorer.to(index.device)

    def scores(data: _Candidates, question: Tensor, column: Tensor) -> Tensor:
        encoded = torch.relu(scorer.text_emb_enc(structure))[data.pattern[question, column]]
        return scorer.score(encoded, data.text[question, column], data.identifier[question, column])

    def batches(random: torch.Generator) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        for rows in torch.randperm(len(positives), generator=random).to(index.device).split(batch_size):
            question, column = positives[rows].unbind(1)
            drawn = torch.rand((len(rows), negatives), generator=random).to(index.device) * counts[question].unsqueeze(1)
            yield question, column, columns[question].gather(1, drawn.long())

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        question, column, negative_columns = batch
        questions = question.unsqueeze(1).expand_as(negative_columns)
        return sampled_cross_entropy(
            scores(train_candidates, question, column), scores(train_candidates, questions, negative_columns)
        )

    def reciprocal_rank() -> float:
        question, place = torch.ones_like(dev_candidates.gold).nonzero().view(*dev_candidates.gold.shape, 2).unbind(2)
        values = scores(dev_candidates, question, place).masked_fill(~dev_candidates.real, float("-inf"))
        right = dev_candidates.gold.gather(1, torch.sort(values, dim=1, descending=True, stable=True).indices)
        ranks = right.to(torch.int8).argmax(1) + 1.0
        return float((right.any(1) / ranks).mean())

    options = {"learning_rate": 1e-3, "description": "fit reranker", **options}
    return reranker, fit(scorer, batches, loss, reciprocal_rank, seed=seed, show_progress=show_progress, **options)


def _gather(
    index: GraphIndex,
    examples: Sequence[Example],
    traversal: MixedTraversal,
    reranker: TrajectoryReranker,
    patterns: dict[tuple[str, ...], int],
    show_progress: bool,
) -> _Candidates:
    """Return the candidates of questions; `patterns` numbers the sequences of node types of all of them."""

    def gathered(question: Question) -> Algorithm[tuple[np.ndarray, Trajectories]]:
        candidates = yield from traversal.stepped(question, nothing)
        return candidates.nodes, (yield from reranker.trajectories(question, candidates))

    nothing = Candidates.seeds(np.zeros(0, np.int64), np.zeros(0), "")
    width, length = traversal.candidates, reranker.scorer.length
    shape = len(examples), width
    text, identifier = np.zeros((*shape, length + 1), np.float32), np.full((*shape, length), PADDING)
    pattern, real, gold = np.zeros(shape, np.int64), np.zeros(shape, bool), np.zeros(shape, bool)
    for start in progress_bar(range(0, len(examples), _GROUP), desc="candidates", unit="batch", disable=not show_progress):
        group = examples[start : start + _GROUP]
        queries = Queries.of(index, [example.text for example in group], inputs={"plan": [example.plan for example in group]})
        backend = MemoryBackend(queries)
        results = run(backend, list(map(gathered, backend.questions())))
        for row, (example, (nodes, trajectories)) in enumerate(zip(group, results, strict=True), start):
            count = len(nodes)
            text[row, :count], identifier[row, :count], real[row, :count] = trajectories.text, trajectories.identifier, True
            pattern[row, :count] = [patterns.setdefault(kinds, len(patterns)) for kinds in trajectories.patterns]
            gold[row, :count] = np.isin(nodes, example.gold)
    tables = (torch.from_numpy(table).to(index.device) for table in (text, pattern, identifier, real, gold))
    return _Candidates(*tables)
