"""Systems that link entities and search the subgraph around them by a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.learning.checkpoint import load_part, restored
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.system import System
from graph_retrievers.systems.untrained import Untrained

_SETTINGS: dict[str, tuple[type, ...]] = {"network": (dict,), "embedding": (str,)}


@dataclass(frozen=True, kw_only=True, repr=False)
class SubgraphSystem(System):
    """Entities of the question, then the search of a subclass around them, with the network of a checkpoint or without one.

    A subclass has the class of its `search`, whose parameters are its fields, and what ranks `instead` of a network.
    """

    search: ClassVar[type[Any]]
    instead: ClassVar[str]

    checkpoint: str | Path | None = None
    language_model: Any = None

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking and the search."""
        model = "" if self.checkpoint is None else self._trained[1]["embedding"]
        # Vectors that were computed elsewhere have no model to compare.
        if model and index.embedding_name and model != index.embedding_name:
            raise InvalidArgumentError(
                f"{self.checkpoint} was trained with vectors of {model!r}, these are of {index.embedding_name!r}; train it with "
                "this model."
            )
        return Pipeline(EntityLinking(language_model=self.language_model), self._parts_cache.get(index.device, self._make_search))

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the network, unless a checkpoint has it."""
        return () if self.checkpoint is not None else (Untrained("network", self.instead),)

    @cached_property
    def _trained(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the settings of the checkpoint."""
        assert self.checkpoint is not None
        return load_part(self.checkpoint, self.name, _SETTINGS, self.search.paper)

    def _make_search(self) -> Operator:
        network = None
        if self.checkpoint is not None:
            tensors, settings = self._trained
            network = restored(partial(self.search.trained, **settings["network"]), tensors, self.search.paper)
        return self.part(self.search, network)  # type: ignore[no-any-return]
