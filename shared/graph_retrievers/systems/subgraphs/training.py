"""Training of networks that read the subgraphs around the entities of questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator
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
from graph_retrievers.systems.splits import labelled_queries
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.subgraphs.around import Subgraph, SubgraphSearch, subgraph_around
from graph_retrievers.systems.subgraphs.system import SubgraphSystem


class Example(Protocol):
    """A question as a network reads it."""

    @property
    def learnable(self) -> bool:
        """Whether there is anything to find in the subgraph."""

    def loss(self, network: Any) -> Tensor:
        """Return the loss of the network."""


TrainingExample = TypeVar("TrainingExample", bound=Example)


def _vectors_and_subgraphs(
    index: GraphIndex, examples: Sequence[LabelledQuery], search: SubgraphSearch, first: Operator, show_progress: bool
) -> tuple[list[Tensor], list[Subgraph]]:
    """Return the vector of each question, of unit length, and the subgraph around what `first` finds."""
    queries, subgraphs = list[Tensor](), list[Subgraph]()
    for part in progress_bar(parts_of(examples), desc="subgraphs", unit="batch", disable=not show_progress):
        backend = MemoryBackend(Queries.of(index, [example.text for example in part]))
        pairs = zip(backend.questions(), ranked(first, backend.queries), strict=True)
        subgraphs += run(
            backend, [subgraph_around(question, topics.nodes, search.hops, search.candidates) for question, topics in pairs]
        )
        queries += normalize(backend.queries.vectors.float(), dim=1).to(index.device)
    return queries, subgraphs


def fit_on_subgraphs(
    index: GraphIndex,
    train: Sequence[LabelledQuery],
    dev: Sequence[LabelledQuery],
    search: SubgraphSearch,
    first: Operator,
    read: Callable[..., list[TrainingExample]],
    evaluate: Callable[[list[TrainingExample]], float | Mapping[str, float]],
    *,
    about: Mapping[str, Any],
    batch_size: int = 1,
    show_progress: bool = False,
    **options: Any,
) -> History:
    """Train the network of a search in place; at the end it has the weights that rank best on `dev`.

    Parameters
    ----------
    first : Operator
        Finds the topics.
    read : callable
        Takes the index, the search, the questions, the vector of each, and the subgraph around what `first` finds; returns an
        example of each question.
    evaluate : callable
        Returns the held-out score of the examples of `dev`, larger is better.
    about : mapping
        Settings besides those of the network, the search and the questions on which the result depends, for JSON.
    batch_size : int, default 1
        Questions of a step, whose losses are averaged.
    show_progress, **options
        See :func:`graph_retrievers.learning.loop.fit`.

    Raises
    ------
    InvalidArgumentError
        If the search has no network, no question of `train` has anything to find in its subgraph, or `dev` is empty.
    """
    network = search.network
    if network is None:
        example = f"{type(search).__name__}({search.trained.__name__}(dimension))"
        raise InvalidArgumentError(f"The search has no network to train; pass {example}.")
    positive("batch_size", batch_size)
    network.to(index.device)
    questions = [*train, *dev]
    with torch.no_grad():
        examples = read(index, search, questions, *_vectors_and_subgraphs(index, questions, search, first, show_progress))
    train_examples = [example for example in examples[: len(train)] if example.learnable]
    dev_examples = examples[len(train) :]
    if not train_examples:
        raise InvalidArgumentError(
            f"No training question has a relevant node within {search.hops} edges of what the first search finds; check the gold "
            "nodes, or use more hops."
        )
    if not dev_examples:
        raise InvalidArgumentError(f"There is no dev question to measure on; {search.paper} needs a few to know when to stop.")

    def loss(batch: Sequence[TrainingExample]) -> Tensor:
        return torch.stack([example.loss(network) for example in batch]).mean()

    def batches(random: torch.Generator) -> Iterable[list[TrainingExample]]:
        for numbers in torch.randperm(len(train_examples), generator=random).split(batch_size):
            yield [train_examples[number] for number in numbers.tolist()]

    settings = {"hops": search.hops, "candidates": search.candidates, "network": network.config(), "first": repr(first), **about}
    settings |= learnt_from(index, train, dev)
    return fit(network, batches, loss, lambda: evaluate(dev_examples), about=settings, show_progress=show_progress, **options)


def fit_checkpoint(
    system: type[SubgraphSystem],
    fit_search: Callable[..., History],
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    settings: Mapping[str, Any],
    *,
    seed: int = 0,
    show_progress: bool = False,
    training: Mapping[str, Any] | None = None,
    **network: Any,
) -> dict[str, Any]:
    """Train the network of a system on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    `fit_search` trains a search in place, with the keywords `training`; `network` are those of its network, and `settings` those of
    the search, which are kept with the weights. Returns the summary of the training, for JSON.
    """
    train, dev = labelled_queries(dataset, index, system.search.paper)
    folder = checkpoint_folder(folder)
    model = system.search.trained(index.dense.dimension, **network, seed=seed)
    search: SubgraphSearch = system.search(model, **settings)
    config = {"network": model.config(), **settings, "embedding": index.embedding_name, "seed": seed}
    fit_network = partial(fit_search, index, train, dev, search, EntityLinking(), seed=seed, show_progress=show_progress)
    return fit_and_save(fit_network, model, folder, system.name, config, training)
