"""SubgraphRAG: the ends of the triples around a question's entities that a small network scores highest (ICLR 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from graph_retrievers.cache import Cache
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.checkpoint import checkpoint_folder, load_part, save_checkpoint
from graph_retrievers.learning.state import clear_state
from graph_retrievers.systems.splits import labelled_queries
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.search import TripleSearch
from graph_retrievers.systems.subgraph_rag.training import fit_triple_scorer
from graph_retrievers.systems.system import System
from graph_retrievers.systems.untrained import Untrained

__all__ = ["SubgraphRAG", "fit_subgraph_rag"]

_PART = "subgraph-rag"
_SETTINGS: dict[str, tuple[type, ...]] = {"network": (dict,), "embedding": (str,)}


@dataclass(frozen=True, kw_only=True, repr=False)
class SubgraphRAG(System):
    """Entities of the question, then the ends of the triples around them that a small trained network scores highest.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit subgraph-rag``. Without one, a triple scores the sum of the cosines of the question
        with its ends and its relation.
    language_model : object, optional
        Names the entities of the question (see :func:`~graph_retrievers.signals.language.as_language_model`). Without one, names of
        nodes are looked for in it.
    triples, hops : int, default 100 and 2
        See :class:`~graph_retrievers.systems.subgraph_rag.search.TripleSearch`, which also states the departures.

    Raises
    ------
    InvalidArgumentError
        If the checkpoint cannot be read, or was trained with another embedding model.

    References
    ----------
    Li, Miao and Li, "Simple Is Effective: The Roles of Graphs and Large Language Models in Knowledge-Graph-Based
    Retrieval-Augmented Generation", ICLR 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> edges, vectors = [("0", "1", "made by"), ("1", "2", "born in")], [[1, 0], [0.6, 0.8], [0, 1]]
    >>> index = GraphIndex.from_texts(["", "", ""], titles=["Loom", "Jacquard", "Lyon"], edges=edges, vectors=vectors)
    >>> [hit.title for hit in Retriever(index, SubgraphRAG()).retrieve("Who made the Loom?", vector=[1, 0])]
    ['Loom', 'Jacquard', 'Lyon']
    """

    name = _PART

    checkpoint: str | Path | None = None
    language_model: Any = None
    triples: int = 100
    hops: int = 2

    def compose(self, index: Corpus) -> Operator:
        """Return entity linking and the search for triples."""
        trained = "" if self.checkpoint is None else self._trained[1]["embedding"]
        # Vectors that were computed elsewhere have no model to compare.
        if trained and index.embedding_name and trained != index.embedding_name:
            raise InvalidArgumentError(
                f"{self.checkpoint} was trained with vectors of {trained!r}, these are of {index.embedding_name!r}; train it with "
                "this model."
            )
        return Pipeline(EntityLinking(language_model=self.language_model), self._searches.get(index.device, self._made))

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the network, unless a checkpoint has it."""
        instead = "triples are scored by the similarity of the question to their ends and relations"
        return () if self.checkpoint is not None else (Untrained("network", instead),)

    @cached_property
    def _searches(self) -> Cache:
        """The operators by the device, to which a network is moved."""
        return Cache()

    @cached_property
    def _trained(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the settings of the checkpoint."""
        assert self.checkpoint is not None
        return load_part(self.checkpoint, _PART, _SETTINGS, "SubgraphRAG")

    def _made(self) -> TripleSearch:
        network = None
        if self.checkpoint is not None:
            tensors, settings = self._trained
            network = TripleScorer.of_config(settings["network"], tensors)
        return TripleSearch(network, triples=self.triples, hops=self.hops)


def fit_subgraph_rag(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    triples: int = 100,
    hops: int = 2,
    training: dict[str, Any] | None = None,
    **network: Any,
) -> dict[str, Any]:
    """Train SubgraphRAG on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.retriever.fit_lesegr`.
    triples, hops
        See :class:`SubgraphRAG`.
    training : mapping, optional
        Keywords of :func:`~graph_retrievers.systems.subgraph_rag.training.fit_triple_scorer`.
    **network
        Keywords of :class:`~graph_retrievers.systems.subgraph_rag.model.TripleScorer`.

    Returns
    -------
    dict
        For JSON: ``quality_on_dev``, the ``epoch`` whose weights were kept, and the number of ``epochs``.
    """
    train, dev = labelled_queries(dataset, index, "SubgraphRAG")
    folder = checkpoint_folder(folder)
    scorer = TripleScorer(index.dense.dimension, **network, seed=seed)
    search = TripleSearch(scorer, triples=triples, hops=hops)
    options = {"resume": folder / "under-way", **(training or {})}
    history = fit_triple_scorer(index, train, dev, search, EntityLinking(), seed=seed, show_progress=show_progress, **options)
    config = {
        "network": scorer.config(),
        "triples": triples,
        "hops": hops,
        "embedding": index.embedding_name,
        "seed": seed,
        "history": history.to_dict(),
    }
    save_checkpoint(folder, _PART, scorer.state_dict(), config)
    if options["resume"] is not None:
        clear_state(options["resume"])
    return history.summary()
