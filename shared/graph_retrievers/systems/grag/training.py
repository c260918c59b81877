"""Training of G-RAG's networks on questions with relevant nodes (G-RAG, section 3.2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice, positive
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
from graph_retrievers.learning.loss import listwise_cross_entropy, pairwise_hinge
from graph_retrievers.learning.state import fit_and_save
from graph_retrievers.progress import progress_bar
from graph_retrievers.search.memory import MemoryBackend, ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.seeding import seed_number
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.first_stage import as_first, first_stage, system_text
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank, Meanings, NetworkInputs, network_scores
from graph_retrievers.systems.grag.retriever import DEPTH, FIRST, GRAG, Network
from graph_retrievers.systems.splits import labelled_queries
from graph_retrievers.systems.system import System

__all__ = ["fit_grag"]

LOSSES = {"hinge": pairwise_hinge, "cross-entropy": listwise_cross_entropy}
"""The two losses of the paper, equations 10 and 9."""

PAPER: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 5, "warm_up": 1_000, "steps": 50_000, "evaluate_every": 10_000}
"""The training of the paper: section 4.1, with the learning rate of section 4.2."""

_PAPER_NETWORK: dict[str, Any] = {"layer": "gcn", "hidden": 8, "layers": 2, "dropout": 0.1, "paths": True}


def fit_grag(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    first: System | str | Operator = FIRST,
    depth: int = DEPTH,
    parser: Any = None,
    together: bool | None = None,
    network: Network | None = None,
    training: dict[str, Any] | None = None,
    paper: bool = False,
) -> dict[str, Any]:
    """Train G-RAG on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.training.fit_lesegr`.
    first, depth, parser, together
        See :class:`~graph_retrievers.systems.grag.retriever.GRAG` and
        :class:`~graph_retrievers.systems.grag.rerank.DocumentGraphRerank`; `together` is False by default, and True with `paper`
        and a network of the paper. The checkpoint keeps the text of the first search; if it has none, because it is an operator or
        has parts such as models, whoever uses the checkpoint passes it again.
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Trained in place; by default a new EvidenceNetwork.
    training : mapping, optional
        Keywords of :func:`fit_document_graph`.
    paper : bool, default False
        Whether to train the network of the paper, a graph convolutional network of two layers and width 8, unless one is given, as
        the paper trains it (:data:`PAPER`): question and document are parsed as one text, so that each document is parsed and
        embedded again for each question that finds it, and there are 50,000 steps, of some 22 ms each on two CPU cores.
    """
    first = as_first(first)
    depth, seed = positive("depth", depth), seed_number(seed)
    folder = checkpoint_folder(folder)
    train, dev = labelled_queries(dataset, index, "G-RAG")
    if network is None and paper:
        network = DocumentGraphNetwork(index.dense.dimension, **_PAPER_NETWORK, seed=seed)
    network = EvidenceNetwork(seed=seed) if network is None else network
    together = paper and isinstance(network, DocumentGraphNetwork) if together is None else bool(together)
    cache = parser if isinstance(parser, MeaningCache) else MeaningCache(parser)
    reranker = DocumentGraphRerank(network, parser=cache, depth=depth, together=together)
    config = {
        "network": network.config(),
        "first": system_text(first),
        "depth": depth,
        "together": together,
        "parser": cache.name,
        "embedding": index.embedding_name,
        "seed": seed,
    }
    arguments = index, train, dev, reranker, first_stage(index, first, depth)
    fit_network = partial(fit_document_graph, *arguments, seed=seed, show_progress=show_progress)
    return fit_and_save(fit_network, network, folder, GRAG.name, config, {**(PAPER if paper else {}), **(training or {})})


def fit_document_graph(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    reranker: DocumentGraphRerank,
    first: Operator,
    *,
    loss: str = "hinge",
    batch_size: int = 16,
    steps: int | None = None,
    evaluate_every: int = 10_000,
    k: int = 10,
    seed: int = 0,
    resume: str | Path | None = None,
    show_progress: bool = False,
    **options: Any,
) -> History:
    """Train the network of a reranker in place; at the end it has the weights that rank best on `dev` (G-RAG, section 3.2.4).

    `first` finds the documents to rerank, also later for the trained network. `loss` is "hinge" or "cross-entropy"; a step has
    `batch_size` questions. With `steps`, training has this number of steps, is evaluated after each
    `evaluate_every`, which must divide it, and does not stop early; otherwise it is evaluated after each epoch. The metric on
    `dev` is the mean of MRR and MHits@k, both over the relevant nodes that `first` finds; the history keeps both. `resume` and
    `options` are as for :func:`graph_retrievers.learning.loop.fit`; by default the learning rate is 1.5e-3, the weight decay 0.01,
    and training stops after 20 epochs without a better result, or after 150.

    :data:`PAPER` has the training of the paper: AdamW with a learning rate of 1e-4 and its own weight decay of 0.01, which the
    paper does not state, batches of 5, 1,000 steps of warm-up, and 50,000 steps, of which each 10,000th is evaluated. After the
    warm-up the learning rate is constant, because the paper does not say that it falls.

    Vectors of documents and questions are not trained. Questions for which no relevant node is found are left out; on `dev` they
    count 0, as in the paper's code base.
    """
    measure = LOSSES[choice("loss", loss, LOSSES)]
    for name, value in (("k", k), ("batch_size", batch_size), ("evaluate_every", evaluate_every)):
        positive(name, value)
    if steps is not None:
        options = {**options, **_by_steps(steps, evaluate_every, options)}
    measures = ["mrr", f"mhits@{k}"]
    train_examples = _prepared(index, train, reranker, first, show_progress)
    dev_examples = _prepared(index, dev, reranker, first, show_progress)
    useful = [example for example in train_examples if bool(example[1].any())]
    if not useful:
        raise InvalidArgumentError("No training question has a relevant node among those that are found; check the gold nodes.")
    if not dev_examples:
        raise InvalidArgumentError("There is no dev question to measure on; G-RAG needs a few to know when to stop.")
    if not any(inputs.unparsed < len(inputs.connected) for inputs, _ in useful):
        raise InvalidArgumentError(f"The parser {reranker.parser.name!r} gave no meaning graph for any document; check the parser.")
    network = reranker.network.to(index.device)

    def batches(random: torch.Generator) -> Iterable[list[tuple[NetworkInputs, Tensor]]]:
        for part in torch.randperm(len(useful), generator=random).split(batch_size):
            yield [useful[number] for number in part.tolist()]

    def endless(random: torch.Generator) -> Iterator[list[tuple[NetworkInputs, Tensor]]]:
        while True:
            yield from batches(random)

    def mean_loss(batch: list[tuple[NetworkInputs, Tensor]]) -> Tensor:
        scores = network_scores(network, [inputs for inputs, _ in batch])
        return torch.stack([measure(part, relevant) for part, (_, relevant) in zip(scores, batch, strict=True)]).mean()

    def quality() -> dict[str, float]:
        scores = network_scores(network, [inputs for inputs, _ in dev_examples])
        results = [_quality(part, relevant, k) for part, (_, relevant) in zip(scores, dev_examples, strict=True)]
        return {name: sum(values) / len(dev) for name, values in zip(measures, zip(*results, strict=True), strict=True)}

    options = {"learning_rate": 1.5e-3, "weight_decay": 0.01, "patience": 20, "epochs": 150, "description": "fit g-rag", **options}
    drawn = batches if steps is None else lambda random: islice(endless(random), evaluate_every)
    settings: dict[str, Any] = {"network": network.config(), "loss": loss, "batch_size": batch_size, "measures": measures}
    settings |= {"first": repr(first), "depth": reranker.depth, "together": reranker.together, "parser": reranker.parser.name}
    settings |= {} if steps is None else {"steps": steps, "evaluate_every": evaluate_every}
    settings |= learnt_from(index, train, dev)
    return fit(network, drawn, mean_loss, quality, seed=seed, resume=resume, about=settings, show_progress=show_progress, **options)


def _by_steps(steps: int, evaluate_every: int, options: Mapping[str, Any]) -> dict[str, int]:
    """Return `epochs` and `patience`: one epoch for each evaluation, and as many without a better result before it stops."""
    if positive("steps", steps) % evaluate_every:
        raise InvalidArgumentError(f"steps is {steps}, which evaluate_every={evaluate_every} does not divide; choose a multiple.")
    if names := [name for name in ("epochs", "patience") if name in options]:
        raise InvalidArgumentError(f"Pass either steps= or {names[0]}=; a training of steps ends after these.")
    return dict.fromkeys(("epochs", "patience"), steps // evaluate_every)


def _quality(scores: Tensor, relevant: Tensor, k: int) -> tuple[float, float]:
    """Return the mean reciprocal rank and the mean hit of the relevant documents of one list."""
    if not bool(relevant.any()):
        return 0.0, 0.0
    places = torch.sort(scores, descending=True, stable=True).indices
    ranks = relevant[places].nonzero().flatten() + 1
    return float((1 / ranks).mean()), float((ranks <= k).float().mean())


@torch.no_grad()
def _prepared(
    index: GraphIndex, examples: Sequence[LabelledQuery], reranker: DocumentGraphRerank, first: Operator, show_progress: bool
) -> list[tuple[NetworkInputs, Tensor]]:
    """Return what the network reads of each question, and which of its documents are relevant."""

    def gathered(question: Question, candidates: Candidates) -> Algorithm[tuple[NetworkInputs, np.ndarray] | None]:
        head = candidates.top(reranker.depth)
        documents = yield Meanings(reranker, head.nodes)
        return ((yield from reranker.inputs(question, head, documents)), head.nodes) if len(head) else None

    results = []
    for part in progress_bar(parts_of(examples), desc="document graphs", unit="batch", disable=not show_progress):
        backend = MemoryBackend(Queries.of(index, [example.text for example in part]))
        answers = run(backend, list(map(gathered, backend.questions(), ranked(first, backend.queries))))
        for example, entry in zip(part, answers, strict=True):
            if entry is not None:
                results.append((entry[0].on(index.device), torch.from_numpy(np.isin(entry[1], example.gold)).to(index.device)))
    return results
