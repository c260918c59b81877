"""Training of LeSeGR: weights of neighbours, learnt from questions with relevant nodes (CG-RAG, section 5.1)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm, run
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import checkpoint_folder
from graph_retrievers.learning.labelled import LabelledQuery, learnt_from, parts_of
from graph_retrievers.learning.loop import History, fit
from graph_retrievers.learning.state import fit_and_save
from graph_retrievers.progress import progress_bar
from graph_retrievers.search.memory import MemoryBackend, ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.neighborhood import Neighborhood
from graph_retrievers.systems.lesegr.retriever import LeSeGR, candidate_search
from graph_retrievers.systems.lesegr.search import LexicalSemanticSearch, entangled_scores
from graph_retrievers.systems.splits import labelled_queries

__all__ = ["fit_lesegr"]

_logger = logging.getLogger(__name__)

_PAPER_MODEL: dict[str, Any] = {"encoder": "transformer", "layers": 2, "hidden": 1024, "heads": 4, "hub_exponent": 0.0}

# What a step keeps, measured with the Graph Transformer: vectors of the hidden width for each node and edge of a layer.
_VECTORS_OF_A_NODE, _VECTORS_OF_AN_EDGE = 7, 6
# What each question keeps: a neighbourhood, and which of its nodes are relevant.
_BYTES_OF_A_NODE, _BYTES_OF_AN_EDGE = 38, 24
_GIB = 1 << 30


@dataclass(frozen=True)
class _Batch:
    """Questions with the nodes that messages pass between, and what no training changes."""

    queries: Queries
    near: Neighborhood
    gold: Tensor  # [n], bool
    weight: Tensor  # [n], 1 / number of relevant nodes found, on relevant nodes


def fit_lesegr(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    hops: int | None = 1,
    sparse: str = "bm25",
    direction: str = "both",
    candidates: int = 100,
    training: dict[str, Any] | None = None,
    paper: bool = False,
    **model: Any,
) -> dict[str, Any]:
    """Train LeSeGR on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset : Dataset
        Its queries of the splits "train" and "dev" are used; InvalidArgumentError if a split has none.
    index : GraphIndex
        Of the dataset's graph.
    folder : str or Path
        For the checkpoint, and for the state of an unfinished training.
    seed : int, default 0
    show_progress : bool, default False
    hops, sparse, direction, candidates
        See :class:`~graph_retrievers.systems.lesegr.retriever.LeSeGR`.
    training : mapping, optional
        Keywords of :func:`fit_lesegr_model`.
    paper : bool, default False
        Whether to train the network of the paper: a Graph Transformer of two layers, four heads and width 1024, whose messages
        pass along incoming edges of the whole graph. It replaces `hops`, `direction` and keywords of the model that are not given.
        A step then has 4 questions by default, because messages in the whole graph need memory; the paper states no batch size.
        The log tells the memory and the time before the training starts.
    **model
        Keywords of :class:`~graph_retrievers.systems.lesegr.model.LeSeGRModel`.

    Returns
    -------
    dict
        For JSON: ``quality_on_dev``, the mean of ``hit@1_on_dev`` and ``recall@10_on_dev``, the ``epoch`` whose weights were kept,
        and the number of ``epochs``.
    """
    if paper:
        hops, direction, model = None, "in", _PAPER_MODEL | model
        training = {"batch_size": 4, **(training or {})}
    train, dev = labelled_queries(dataset, index, "LeSeGR")
    folder = checkpoint_folder(folder)
    network = LeSeGRModel(index.dense.dimension, **model, seed=seed)
    search = LexicalSemanticSearch(network, hops=hops, sparse=sparse, direction=direction)
    config = {
        "model": network.config(),
        "hops": hops,
        "sparse": sparse,
        "direction": direction,
        "dimension": index.dense.dimension,
        "embedding": index.embedding_name,
        "sparse_kind": index.signal(sparse).kind,
        "seed": seed,
    }
    learnt = index, train, dev, search, candidate_search(index, candidates)
    fit_network = partial(fit_lesegr_model, *learnt, seed=seed, show_progress=show_progress)
    return fit_and_save(fit_network, network, folder, LeSeGR.name, config, training)


def fit_lesegr_model(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    search: LexicalSemanticSearch,
    first: Operator,
    *,
    k: int = 10,
    batch_size: int = 16,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = False,
    **options: Any,
) -> History:
    """Train the model of a search in place; at the end it has the weights that rank best on `dev` (CG-RAG, section 5.1).

    `first` finds the nodes whose neighbourhoods are used, also later for the trained model. A step has `batch_size` questions.
    The metric on `dev` is the mean of two measures, which the history keeps: Hit@1, and the recall among the first k, divided by
    the highest that k places allow. By recall alone, training went on while the first hit became worse. `resume` and `options` are
    those of :func:`graph_retrievers.learning.loop.fit`; by default the learning rate is 1e-3, the weight decay 0.01, and training
    stops after 12 epochs without a better result, or after 40 epochs.

    The loss is the cross entropy of each relevant node among all nodes scored for its question, averaged over the relevant nodes;
    its negatives are the other nodes of the neighbourhood. Vectors of nodes and queries are not trained, and BM25 is a constant.
    The paper states the loss and AdamW, but not the learning rate, batch size, epochs or negatives.

    Over the whole graph (``search.hops`` None), warnings in the log tell the memory and the time that it will need before it
    starts, from one question: a step of the paper's network with 4 questions on 3,094 nodes takes about 10 seconds on two CPU
    cores.
    """
    measures = ["hit@1", f"recall@{positive('k', k)}"]
    options = {"learning_rate": 1e-3, "weight_decay": 0.01, "patience": 12, "epochs": 40, "description": "fit lesegr", **options}
    search.check(index)
    model = search.model.to(index.device)

    def scores(batch: _Batch) -> Tensor:
        alpha = search.computed_alphas(batch.queries, batch.near)
        return entangled_scores(model, batch.queries, range(len(batch.queries)), batch.near, alpha)

    def loss(batch: _Batch) -> Tensor:
        count = len(batch.queries)
        logits = scores(batch) * model.log_scale.exp()
        query = batch.near.query
        top = torch.full((count,), float("-inf"), device=logits.device).scatter_reduce(0, query, logits.detach(), "amax")
        total = torch.zeros(count, device=logits.device).index_add(0, query, (logits - top[query]).exp())
        surprise = top[query] + total[query].log() - logits
        return (surprise * batch.weight).sum() / query[batch.gold].unique().numel()

    if search.hops is None and train:
        (one,) = _prepared(index, train[:1], search, first, 1, False)
        _tell_memory(one, model, len(train) + len(dev), positive("batch_size", batch_size))
        began = time.perf_counter()
        value = loss(one)
        value.backward()
        float(value.detach())
        model.zero_grad(set_to_none=True)
        _tell_time(time.perf_counter() - began, len(train), batch_size, options["epochs"])
    learnt = _prepared(index, train, search, first, positive("batch_size", batch_size), show_progress)
    dev_batches = _prepared(index, dev, search, first, batch_size, show_progress)
    if not any(bool(batch.gold.any()) for batch in learnt):
        raise InvalidArgumentError("No training question has a relevant node among those that are scored; check the gold nodes.")
    if not dev_batches:
        raise InvalidArgumentError("There is no dev question to measure on; LeSeGR needs a few to know when to stop.")

    def batches(random: torch.Generator) -> Iterable[_Batch]:
        for number in torch.randperm(len(learnt), generator=random).tolist():
            if bool(learnt[number].gold.any()):
                yield learnt[number]

    def quality() -> dict[str, float]:
        parts = zip(dev_batches, parts_of(dev, batch_size), strict=True)
        results = [pair for batch, examples in parts for pair in _hit_and_recall(batch, scores(batch), examples, k)]
        return {name: sum(values) / len(dev) for name, values in zip(measures, zip(*results, strict=True), strict=True)}

    settings: dict[str, Any] = {name: getattr(search, name) for name in ("hops", "sparse", "direction")}
    settings |= {"model": model.config(), "first": repr(first), "measures": measures, "batch_size": batch_size}
    settings |= learnt_from(index, train, dev)
    return fit(model, batches, loss, quality, seed=seed, resume=resume, about=settings, show_progress=show_progress, **options)


def _tell_memory(one: _Batch, model: LeSeGRModel, questions: int, batch_size: int) -> None:
    """Log how much memory a training over the whole graph needs, from the neighbourhood of one question."""
    nodes, edges = one.near.nodes.numel(), one.near.edges.shape[1]
    width = 1 if model.linear else model.hidden
    step = 4 * batch_size * model.layers * width * (_VECTORS_OF_A_NODE * nodes + _VECTORS_OF_AN_EDGE * edges)
    storage = questions * (_BYTES_OF_A_NODE * nodes + _BYTES_OF_AN_EDGE * edges)
    _logger.warning(
        "LeSeGR is trained over the whole graph, %s nodes and %s edges for each question. This needs about %.1f GiB of memory, "
        "%.1f for a step of %d questions and %.1f for the %d questions. A smaller batch_size in training= makes a step smaller, "
        "and hops=1 both.",
        *(f"{nodes:,}", f"{edges:,}", (step + storage) / _GIB, step / _GIB, batch_size, storage / _GIB, questions),
    )


def _tell_time(seconds: float, questions: int, batch_size: int, epochs: int) -> None:
    """Log how long a training may take, from the seconds of a step of one question."""
    steps = -(-questions // batch_size)
    most = seconds * questions * epochs / 60
    _logger.warning(
        "A step of one question takes %.1f seconds here, so that a step of %d takes about %.0f: at most %.0f minutes for %d epochs "
        "of %d steps, and the time to measure on the dev questions after each.",
        *(seconds, batch_size, seconds * batch_size, most, epochs, steps),
    )


@torch.no_grad()
def _prepared(
    index: GraphIndex,
    examples: Sequence[LabelledQuery],
    search: LexicalSemanticSearch,
    first: Operator,
    size: int,
    show_progress: bool,
) -> list[_Batch]:
    """Return questions with their neighbourhoods, `size` together."""
    batches = []

    def neighborhood(question: Question, candidates: Candidates) -> Algorithm[Neighborhood]:
        pool = yield from search.pool(question, candidates)
        return (yield from search.neighborhood(question, pool.nodes))

    for part in progress_bar(parts_of(examples, size), desc="neighborhoods", unit="batch", disable=not show_progress):
        queries = Queries.of(index, [example.text for example in part])
        backend = MemoryBackend(queries)
        parts = run(backend, list(map(neighborhood, backend.questions(), ranked(first, queries))))
        near = Neighborhood.joined(parts, index.device)
        gold_keys = torch.tensor(
            [b * len(index) + row for b, example in enumerate(part) for row in example.gold], dtype=torch.int64, device=index.device
        )
        gold = torch.isin(near.query * len(index) + near.nodes, gold_keys)
        counts = torch.bincount(near.query[gold], minlength=len(queries))
        batches.append(_Batch(queries, near, gold, torch.where(gold, 1.0 / counts.clamp(min=1)[near.query], 0.0)))
    return batches


def _hit_and_recall(batch: _Batch, scores: Tensor, examples: Sequence[LabelledQuery], k: int) -> Iterator[tuple[float, float]]:
    """Yield Hit@1 and Recall@k of each of a batch's questions, the latter divided by what k places can hold."""
    for b, example in enumerate(examples):
        mine = (batch.near.query == b).nonzero().flatten()
        best = batch.gold[mine[torch.sort(scores[mine], descending=True, stable=True).indices[:k]]]
        yield float(best[:1].sum()), float(best.sum()) / min(k, len(set(example.gold)))
