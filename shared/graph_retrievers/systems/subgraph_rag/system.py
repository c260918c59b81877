"""What systems share that rank the subgraph around the entities of a question by a trained network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.cache import Cache
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import load_part
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.progress import progress_bar
from graph_retrievers.search.memory import MemoryBackend, ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.subgraph_rag.search import Subgraph, subgraph_around
from graph_retrievers.systems.system import System
from graph_retrievers.systems.untrained import Untrained

_SETTINGS: dict[str, tuple[type, ...]] = {"network": (dict,), "embedding": (str,)}
_QUERIES_AT_A_TIME = 32


@dataclass(frozen=True, kw_only=True, repr=False)
class SubgraphSystem(System):
    """Entities of the question, then a search with a network in the subgraph around them.

    A subclass has the name of the paper's system as `title`, and says what ranks `instead` of a network that is not trained.
    """

    checkpoint: str | Path | None = None
    language_model: Any = None

    title: ClassVar[str]
    instead: ClassVar[str]

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking and the search around the entities."""
        trained = "" if self.checkpoint is None else self._trained[1]["embedding"]
        # Vectors that were computed elsewhere have no model to compare.
        if trained and index.embedding_name and trained != index.embedding_name:
            raise InvalidArgumentError(
                f"{self.checkpoint} was trained with vectors of {trained!r}, these are of {index.embedding_name!r}; train it with "
                "this model."
            )
        made = self._searches.get(index.device, lambda: self._search(None if self.checkpoint is None else self._trained))
        return Pipeline(EntityLinking(language_model=self.language_model), made)

    @abstractmethod
    def _search(self, trained: tuple[dict[str, Tensor], dict[str, Any]] | None) -> Operator:
        """Return the search, with a network of these weights and settings, or without one."""

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the network, unless a checkpoint has it."""
        return () if self.checkpoint is not None else (Untrained("network", self.instead),)

    @cached_property
    def _searches(self) -> Cache:
        """The operators by the device, to which a network is moved."""
        return Cache()

    @cached_property
    def _trained(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the settings of the checkpoint."""
        assert self.checkpoint is not None
        return load_part(self.checkpoint, self.name, _SETTINGS, self.title)


@torch.no_grad()
def subgraphs_of(
    index: GraphIndex, examples: Sequence[LabelledQuery], search: Any, first: Operator, show_progress: bool
) -> tuple[list[Tensor], list[Subgraph]]:
    """Return the unit vector of each question, and the subgraph around the topics that `first` finds, as a search limits it."""
    queries, subgraphs = list[Tensor](), list[Subgraph]()
    with progress_bar(total=len(examples), desc="subgraphs", unit="question", disable=not show_progress) as bar:
        for start in range(0, len(examples), _QUERIES_AT_A_TIME):
            part = Queries.of(index, [example.text for example in examples[start : start + _QUERIES_AT_A_TIME]])
            backend = MemoryBackend(part)
            found = zip(backend.questions(), ranked(first, part), strict=True)
            subgraphs += run(
                backend, [subgraph_around(question, topics.nodes, search.hops, search.candidates) for question, topics in found]
            )
            queries += normalize(part.vectors.float(), dim=1).to(index.device)
            bar.update(len(part))
    return queries, subgraphs


def check_examples(kind: str, learnt: Sequence[Any], held: Sequence[Any], hops: int) -> None:
    """Raise InvalidArgumentError unless there are questions to learn from, and others to measure on."""
    if not learnt:
        raise InvalidArgumentError(
            f"No training question has a relevant node within {hops} edges of what the first search finds; check the gold "
            "nodes, or use more hops."
        )
    if not held:
        raise InvalidArgumentError(f"There is no dev question to measure on; {kind} needs a few to know when to stop.")
