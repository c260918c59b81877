"""LeSeGR: lexical-semantic graph retrieval, the retriever of CG-RAG (Hu et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from graph_retrievers.arguments import check_keywords, keywords_of
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.learning.checkpoint import check_trained, load_part
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import HybridSearch, VectorSearch
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.search import LexicalSemanticSearch
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import search_finds_more
from graph_retrievers.systems.untrained import Untrained

__all__ = ["LeSeGR"]

_SETTINGS: dict[str, tuple[type, ...]] = {"model": (dict,), "hops": (int, type(None)), "sparse": (str,), "direction": (str,)}
# Compared with the index.
_SETTINGS |= dict.fromkeys(("dimension", "embedding", "sparse_kind"), (object,))


@dataclass(frozen=True, kw_only=True, repr=False)
class LeSeGR(System):
    r"""Hybrid search, then message passing in which lexical and semantic scores gate the messages of neighbours.

    .. math:: O_{vs} \to O_{gm}

    A node is scored by its own text and by the relevance of its neighbours' texts to the question. The weights of neighbours are
    trained on questions with known answers (``graph-retrievers fit lesegr``); without a checkpoint neighbours are ignored, and
    the score is the product of the sparse and the dense score. Each hit has the neighbours that gave it context
    (``Hit.context``), and :func:`graph_retrievers.hits.Hits.to_context` prints them. The index needs vectors and BM25.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit lesegr``. It is refused if the vectors of the index come from another model than in
        its training.
    model : LeSeGRModel or mapping, optional
        Used instead of a checkpoint. A mapping has keywords of an untrained
        :class:`~graph_retrievers.systems.lesegr.model.LeSeGRModel`; with a checkpoint, these, `hops` and `direction` must be
        those with which it was trained.
    candidates : int, default 100
        Nodes of hybrid search (vector search without BM25) whose neighbourhoods are used.
    hops : int or None, default 1
    sparse : str, default "bm25"
    direction : {"both", "in"}, default "both"
    context : int or None, default 4
        Where messages pass, the sparse signal, who sends messages, and neighbours kept with each hit: see
        :class:`~graph_retrievers.systems.lesegr.search.LexicalSemanticSearch`. A checkpoint has its own values for the first
        three.
    first : Operator, optional
        Finds the candidates instead of hybrid search.

    Raises
    ------
    InvalidArgumentError
        If both a checkpoint and a model are given, or the checkpoint was trained for another index or with other settings.
    MissingSignalError
        If the index lacks the sparse signal.

    References
    ----------
    Hu et al., "CG-RAG: Research Question Answering by Citation Graph Retrieval-Augmented LLMs", 2025, section 4.3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> vectors = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
    >>> index = GraphIndex.from_texts(["a loom", "a loom card", "an engine"], vectors=vectors, edges=[("0", "2")])
    >>> [hit.text for hit in Retriever(index, LeSeGR(), backfill=False).retrieve("Which loom?", vector=[1.0, 0.0])]
    ['a loom', 'a loom card', 'an engine']
    """

    name = "lesegr"

    checkpoint: str | Path | None = None
    model: LeSeGRModel | Mapping[str, Any] | None = None
    candidates: Count = 100
    hops: int | None = 1
    sparse: str = "bm25"
    direction: str = "both"
    context: int | None = 4
    first: Operator | None = None

    def __post_init__(self) -> None:
        """Check the model."""
        if not isinstance(self.model, LeSeGRModel | Mapping | None):
            raise InvalidArgumentError(
                f"model is {shown(self.model)}; expected a LeSeGRModel or a mapping of its keywords, such as {{'encoder': 'gcn'}}."
            )
        if self.checkpoint is not None and isinstance(self.model, LeSeGRModel):
            raise InvalidArgumentError("Pass either checkpoint= or model=.")

    def compose(self, index: Corpus) -> Operator:
        """Return hybrid search and message passing."""
        return Pipeline(self.first or candidate_search(index, self.candidates), self._search(index))

    def finds_less(self, index: Corpus) -> bool:
        """Return whether hybrid search is known to find more: without a trained model, over passages whose names do not lead."""
        return not self._is_trained and search_finds_more(index)

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the model, unless one is given or in a checkpoint."""
        instead = "the score is the product of the sparse and the dense one"
        return () if self._is_trained else (Untrained("model", instead),)

    @property
    def _is_trained(self) -> bool:
        return self.checkpoint is not None or isinstance(self.model, LeSeGRModel)

    def _search(self, index: Corpus) -> LexicalSemanticSearch:
        """Return the operator for an index, and for its scopes."""
        settings: dict[str, Any] = {"hops": self.hops, "sparse": self.sparse, "direction": self.direction}
        if self.checkpoint is not None:
            settings = self._trained[1]
            _check_index(settings, index, self.checkpoint)
        # An index without it is refused now, not at the first question.
        index.signal(settings["sparse"])
        width = None if self._is_trained else index.dense.dimension
        # The length of vectors is for a network without weights.
        return self._parts_cache.get(
            (index.device, width),
            lambda: LexicalSemanticSearch(
                self._network(width), **{name: settings[name] for name in ("hops", "sparse", "direction")}, context=self.context
            ),
        )

    @cached_property
    def _trained(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the settings of the checkpoint."""
        assert self.checkpoint is not None
        tensors, settings = load_part(self.checkpoint, self.name, _SETTINGS, "LeSeGR")
        if isinstance(self.model, Mapping):
            requirements = {**self.model, "hops": self.hops, "direction": self.direction}
            check_trained({**settings["model"], **settings}, requirements, f"{self.checkpoint} was trained with", "fit lesegr")
        return tensors, settings

    def _network(self, width: int | None) -> LeSeGRModel:
        """Return the network; without a trained one, a new one for vectors of a length."""
        if isinstance(self.model, LeSeGRModel):
            return self.model
        if width is None:
            tensors, settings = self._trained
            return LeSeGRModel.of_config(settings["model"], tensors)
        check_keywords("LeSeGRModel", self.model or {}, ["encoder", "layers", *sorted(keywords_of(LeSeGRModel))])
        return LeSeGRModel(width, **(self.model or {}))


def candidate_search(index: Corpus, count: int) -> Operator:
    """Return the search for candidates: hybrid search, or vector search without BM25."""
    return HybridSearch(count) if index.has_bm25 else VectorSearch(count)


def _check_index(config: dict[str, Any], index: Corpus, checkpoint: str | Path) -> None:
    """Raise InvalidArgumentError if a checkpoint was trained on vectors or a sparse signal of another kind."""
    there = {
        "dimension": index.dense.dimension,
        "embedding": index.embedding_name,
        "sparse_kind": index.signal(config["sparse"]).kind,
    }
    for name, value in there.items():
        trained = config[name]
        # Vectors that were computed elsewhere have no model to compare.
        if trained != value and not (name == "embedding" and "" in (trained, value)):
            raise InvalidArgumentError(
                f"{checkpoint} was trained for an index with {name} {trained!r}, this one has {value!r}; train it on this index."
            )
