"""Training of a cross-encoder that reads paths, and the choice of its weight."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import checkpoint_folder
from graph_retrievers.learning.labelled import LabelledQuery, parts_of
from graph_retrievers.learning.loop import History, fit
from graph_retrievers.learning.loss import sampled_cross_entropy
from graph_retrievers.learning.state import clear_state
from graph_retrievers.progress import progress_bar
from graph_retrievers.search.memory import ranked
from graph_retrievers.search.path_texts import path_texts
from graph_retrievers.search.queries import Queries
from graph_retrievers.seeding import seed_number
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.systems.first_stage import as_first, first_stage, system_text
from graph_retrievers.systems.path_reranking.path_rerank import mixed_with_ranks
from graph_retrievers.systems.path_reranking.retriever import DEFAULTS, FILE, MODEL, PathReranking, digests
from graph_retrievers.systems.splits import labelled_queries
from graph_retrievers.systems.system import System

__all__ = ["fit_path_reranking"]

WEIGHTS = tuple(step / 20 for step in range(21))
"""The weights of the model's scores to try."""

_UNDER_WAY = "under-way"


@dataclass(frozen=True)
class _Example:
    """A question, what the model reads of each of its candidates, which of them are relevant, and how many nodes are."""

    question: str
    texts: Sequence[str]
    relevant: Sequence[bool]
    gold: int


def fit_path_reranking(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    first: System | str | Operator = DEFAULTS["first"],
    depth: int = DEFAULTS["depth"],
    training: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train an index's cross-encoder to read paths, and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.training.fit_lesegr`. The index must have a cross-encoder (else
        MissingSignalError), which is not changed.
    first, depth
        See :class:`~graph_retrievers.systems.path_reranking.retriever.PathReranking`. The checkpoint keeps the text of the first
        search; if it has none, because it is an operator or has parts such as models, whoever uses the checkpoint passes it again.
    training : mapping, optional
        Keywords of :func:`fit_path_rerank`.
    """
    depth, seed = positive("depth", depth), seed_number(seed)
    folder, first = checkpoint_folder(folder), as_first(first)
    if isinstance(first, PathReranking):
        raise InvalidArgumentError(f"{first.name} cannot be its own first search; choose another one.")
    _check_places(folder)
    train, dev = labelled_queries(dataset, index, "The path reranker")
    options: dict[str, Any] = {"resume": folder / _UNDER_WAY, **(training or {})}
    candidates = first_stage(index, first, depth)
    model, weight, history = fit_path_rerank(
        index, train, dev, candidates, depth=depth, seed=seed, show_progress=show_progress, **options
    )
    config = {
        "weight": weight,
        "depth": depth,
        "first": system_text(first),
        "max_length": model.max_length,
        "seed": seed,
        "history": history.to_dict(),
    }
    _write(folder, model, config)
    if options["resume"] is not None:
        clear_state(options["resume"])
    return {**history.summary(), "weight": weight}


def _check_places(folder: Path) -> None:
    """Raise InvalidArgumentError if what will be written after the training cannot be."""
    kinds = {MODEL: Path.is_dir, f"{MODEL}.partial": Path.is_dir, FILE: Path.is_file, f"{FILE}.partial": Path.is_file}
    for name, is_right in kinds.items():
        place = folder / name
        if place.is_symlink() or (place.exists() and not is_right(place)):
            raise InvalidArgumentError(f"{place} is in the way of the checkpoint; remove it, or choose another folder.")
    if (folder / MODEL).exists() and not (folder / FILE).exists() and not (folder / _UNDER_WAY).exists():
        raise InvalidArgumentError(f"{folder / MODEL} is not of a checkpoint and would be replaced; choose another folder.")


def _write(folder: Path, model: CrossEncoder, config: Mapping[str, Any]) -> None:
    new, place = folder / f"{MODEL}.partial", folder / MODEL
    shutil.rmtree(new, ignore_errors=True)
    model.save(new)
    settings = {**config, "files": digests(new)}
    (folder / f"{FILE}.partial").write_text(json.dumps(settings, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    # Readers find files that belong together, or see by the digest that they do not.
    shutil.rmtree(place, ignore_errors=True)
    os.replace(new, place)
    os.replace(folder / f"{FILE}.partial", folder / FILE)


def fit_path_rerank(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    first: Operator,
    *,
    depth: int = 30,
    negatives: int = 4,
    batch_size: int = 4,
    k: int = 10,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = False,
    **options: Any,
) -> tuple[CrossEncoder, float, History]:
    """Train a copy of the cross-encoder of an index for :class:`~graph_retrievers.systems.path_reranking.path_rerank.PathRerank`.

    Return the model, the weight of its scores (from :data:`WEIGHTS`; 0 if it does not help on `dev`), and the history.

    Parameters
    ----------
    first : Operator
        Finds the candidates, also later for the trained model.
    depth : int, default 30
        Candidates of a question. Irrelevant ones are hard negatives, because the walks found them.
    negatives : int, default 4
        Negatives per relevant candidate, drawn again in each epoch. The loss is the cross entropy of the relevant one.
    batch_size : int, default 4
        Relevant candidates in a step.
    k : int, default 10
        The metric on `dev` is the mean of Recall@k and nDCG@k, with the best weight (the lowest of equal ones).
    resume, **options
        See :func:`graph_retrievers.learning.loop.fit`; by default the learning rate is 2e-5, the weight decay 0.01, and there are
        two epochs.
    """
    for name, value in (("depth", depth), ("negatives", negatives), ("batch_size", batch_size), ("k", k)):
        positive(name, value, most=10_000)
    if not isinstance(index.relevance, CrossEncoder):
        raise MissingSignalError("This index has no cross-encoder to train; pass relevance=, a model name or folder.")
    if not dev:
        raise InvalidArgumentError("There is no dev question to measure on; the weight of the model's scores is chosen on them.")
    model = index.relevance.trainable()
    # Two models may have one name.
    settings: dict[str, Any] = {"weights": _digest(model.module)}
    train_examples = _examples(index, train, first, depth, show_progress)
    dev_examples = _examples(index, dev, first, depth, show_progress)
    # A relevant candidate of a question, by the places of both.
    pairs = [
        (place, column)
        for place, example in enumerate(train_examples)
        if not all(example.relevant)
        for column, relevant in enumerate(example.relevant)
        if relevant
    ]
    if not pairs:
        raise InvalidArgumentError(
            "No training question has both a relevant node and another one among those that are found; check the gold nodes."
        )

    def batches(random: torch.Generator) -> Iterable[list[tuple[str, list[str]]]]:
        for part in torch.randperm(len(pairs), generator=random).split(batch_size):
            yield [_group(train_examples[pairs[number][0]], pairs[number][1], negatives, random) for number in part.tolist()]

    def mean_loss(batch: list[tuple[str, list[str]]]) -> Tensor:
        questions = [question for question, texts in batch for _ in texts]
        scores = model.logits(questions, [text for _, texts in batch for text in texts]).view(len(batch), -1)
        return sampled_cross_entropy(scores[:, 0], scores[:, 1:])

    def quality() -> float:
        if not all(bool(torch.isfinite(value).all()) for value in model.module.parameters()):
            raise InvalidArgumentError("The weights of the model became NaN or infinite; use a smaller learning_rate.")
        return _best_weight(model.reload(), dev_examples, k, show_progress)[1]

    options = {"learning_rate": 2e-5, "weight_decay": 0.01, "epochs": 2, "description": "fit path-reranking", **options}
    settings |= {"max_length": model.max_length, "negatives": negatives, "batch_size": batch_size, "k": k}
    settings |= {"examples": hashlib.sha256(ascii([train_examples, dev_examples]).encode()).hexdigest()}
    history = fit(
        model.module, batches, mean_loss, quality, seed=seed, resume=resume, about=settings, show_progress=show_progress, **options
    )
    return model.reload(), _best_weight(model, dev_examples, k, show_progress)[0], history


def _examples(
    index: GraphIndex, questions: Sequence[LabelledQuery], first: Operator, depth: int, show_progress: bool
) -> list[_Example]:
    examples = []
    for part in progress_bar(parts_of(questions), desc="candidates", unit="batch", disable=not show_progress):
        lists = ranked(first, Queries.of(index, [question.text for question in part]))
        for question, candidates in zip(part, lists, strict=True):
            gold, head = set(question.gold), candidates.top(depth)
            relevant = [row in gold for row in head.nodes.tolist()]
            examples.append(_Example(question.text, path_texts(index.graph, head), relevant, len(gold)))
    return examples


def _group(example: _Example, column: int, negatives: int, random: torch.Generator) -> tuple[str, list[str]]:
    """Return the question, and the text of a relevant candidate before those of `negatives` others; of few, some twice."""
    texts = [text for text, relevant in zip(example.texts, example.relevant, strict=True) if not relevant]
    drawn = torch.randint(len(texts), (negatives,), generator=random)
    if len(texts) >= negatives:
        drawn = torch.randperm(len(texts), generator=random)[:negatives]
    return example.question, [example.texts[column], *(texts[place] for place in drawn.tolist())]


def _best_weight(model: CrossEncoder, examples: Sequence[_Example], k: int, show_progress: bool) -> tuple[float, float]:
    """Return the weight with the highest measure on held-out questions, the lowest of equal ones, and the measure."""
    totals = [0.0] * len(WEIGHTS)
    for example in progress_bar(examples, desc="held out", unit="question", leave=False, disable=not show_progress):
        scores = model.score(model.encode([example.question] * len(example.texts), example.texts)).cpu().numpy()
        relevant = torch.tensor(example.relevant, dtype=torch.float64)
        for place, weight in enumerate(WEIGHTS):
            order = np.argsort(-mixed_with_ranks(scores, weight), kind="stable")[:k]
            totals[place] += _quality(relevant[order], example.gold, k)
    best = max(range(len(WEIGHTS)), key=totals.__getitem__)
    return WEIGHTS[best], totals[best] / len(examples)


def _quality(relevant: Tensor, gold: int, k: int) -> float:
    """Return the mean of Recall@k and nDCG@k: `relevant`, shape [n], n <= k, has 1 where the node at a place is relevant."""
    gains = 1 / torch.arange(2, k + 2, dtype=torch.float64).log2()
    return float((relevant.sum() / gold + relevant @ gains[: relevant.numel()] / gains[:gold].sum()) / 2)


def _digest(module: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
